//! A server in miniature: runs the statements that set a test up, then its query.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use model::{
    Code, DataType, DatabaseId, DatabaseInfo, DatabaseOptions, Error, Result, StableInfo, TableInfo,
    TableKind, TableSchema, TableUid, Value, Version, VgroupId, Zone,
};
use query::ast::{
    AlterTable, CreateChild, CreateTopic, ObjectName, Query, Statement, TagLiteral, first_schema,
};
use query::engine::{Engine, EngineSettings};
use query::literal::{LiteralContext, Raw, parse_tag, parse_value};
use query::plan::{OutputColumn, Relations, Session, no_table, plan, relations_named};
use query::source::{Relation, RelationKind};

use crate::insert::{Block, Token, blocks, shift};
use crate::shard::{MemoryShard, MemoryTable};

/// Start of every statement: 2024-06-01T00:00:00Z.
const NOW_NS: i64 = 1_717_200_000_000_000_000;

pub(crate) struct Store {
    pub(crate) session: Session,
    databases: BTreeMap<String, Database>,
    next_uid: u64,
    pub(crate) engine: Engine,
}

struct Database {
    info: Arc<DatabaseInfo>,
    stables: BTreeMap<String, Arc<StableInfo>>,
    shards: Vec<MemoryShard>,
}

/// Rows of a query.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) columns: Vec<OutputColumn>,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Store {
    pub(crate) fn new(zone: Zone) -> Self {
        let session = Session { zone, now_ns: NOW_NS, ..Session::default() };
        let engine = Engine::new(&EngineSettings { parallelism: 2, memory_bytes: 1 << 28 }).unwrap();
        Self { session, databases: BTreeMap::new(), next_uid: 1, engine }
    }

    /// Runs a statement that is no query.
    pub(crate) fn run(&mut self, sql: &str) -> Result<()> {
        if query::parser::is_insert(sql) {
            for block in blocks(sql) {
                self.insert(&block)?;
            }
            return Ok(());
        }
        match query::parser::parse(sql)? {
            Statement::CreateDatabase { name, options, .. } => self.create_database(&name, *options),
            Statement::DropDatabase { name, .. } => drop(self.databases.remove(&name)),
            Statement::Use(name) => {
                self.session.precision = self.databases[&name].info.options.precision;
                self.session.database = Some(name);
            }
            Statement::CreateStable { name, columns, tags, .. } => {
                let schema = Arc::new(first_schema(columns, tags));
                let uid = self.uid();
                let stable =
                    StableInfo { uid, name: name.name.clone(), schema, create_time_ns: 0, comment: None };
                self.database(&name).stables.insert(name.name.clone(), Arc::new(stable));
            }
            Statement::CreateTable { name, columns, .. } => {
                let schema = Arc::new(first_schema(columns, Vec::new()));
                let kind = TableKind::Normal { schema: Arc::clone(&schema) };
                self.add_table(&name, kind, schema);
            }
            Statement::CreateChildren(children) => {
                for child in children {
                    self.create_child(&child)?;
                }
            }
            Statement::AlterTable { name, change: AlterTable::SetTags(tags), .. } => {
                self.set_tags(&name, &tags)?
            }
            _ => return Err(Error::not_supported("statement in a test's setup")),
        }
        Ok(())
    }

    /// Plans and runs a query.
    pub(crate) fn query(&self, sql: &str) -> Result<Answer> {
        let Statement::Query(query) = query::parser::parse(sql)? else {
            return Err(Error::not_supported("not a query"));
        };
        let plan = plan(&query, &self.relations(&query)?, &self.session)?;
        let batches = query::engine::block_on_collect(&self.engine, &plan)?;
        Ok(Answer { columns: plan.columns().to_vec(), batches })
    }

    /// The plan of a query as EXPLAIN shows it.
    pub(crate) fn explain(&self, sql: &str) -> Vec<String> {
        let Ok(Statement::Query(query)) = query::parser::parse(sql) else { panic!("not a query: {sql}") };
        let plan = plan(&query, &self.relations(&query).unwrap(), &self.session).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.engine.explain(&plan)).unwrap()
    }

    /// Mean microseconds of planning and of making the physical plan.
    #[expect(clippy::disallowed_methods, reason = "a measurement")]
    pub(crate) fn planning_us(&self, sql: &str, times: u32) -> (u128, u128) {
        let Ok(Statement::Query(query)) = query::parser::parse(sql) else { panic!("not a query: {sql}") };
        let relations = self.relations(&query).unwrap();
        let begin = std::time::Instant::now();
        for _ in 0..times {
            plan(&query, &relations, &self.session).unwrap();
        }
        let logical = begin.elapsed().as_micros() / u128::from(times);
        let plan = plan(&query, &relations, &self.session).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let begin = std::time::Instant::now();
        for _ in 0..times {
            runtime.block_on(self.engine.explain(&plan)).unwrap();
        }
        (logical, begin.elapsed().as_micros() / u128::from(times))
    }

    /// What the names in a query mean.
    pub(crate) fn relations(&self, query: &Query) -> Result<Relations> {
        let mut relations = Relations::new();
        for name in relations_named(query) {
            let relation = self.relation(&name)?;
            relations.insert(name, relation);
        }
        Ok(relations)
    }

    pub(crate) fn relation(&self, name: &ObjectName) -> Result<Relation> {
        let info = |code: Code| no_table(code, name);
        let database = name.database.as_ref().or(self.session.database.as_ref());
        let database = database.ok_or_else(|| Error::of(Code::DatabaseNotSpecified))?;
        let database = self.databases.get(database).ok_or_else(|| info(Code::DatabaseNotExist))?;
        let relation = |kind, shards: &[MemoryShard]| Relation {
            database: Arc::clone(&database.info),
            kind,
            shards: shards.iter().map(|s| Arc::new(s.clone()) as _).collect(),
        };
        if let Some(stable) = database.stables.get(&name.name) {
            return Ok(relation(RelationKind::Stable(Arc::clone(stable)), &database.shards));
        }
        for shard in &database.shards {
            if let Some(table) = shard.tables.lock().unwrap().get(&name.name) {
                let kind = match &table.info.kind {
                    TableKind::Normal { .. } => RelationKind::Normal(Arc::clone(&table.info)),
                    TableKind::Child { stable, .. } => RelationKind::Child {
                        table: Arc::clone(&table.info),
                        stable: Arc::clone(database.stables.values().find(|s| s.uid == *stable).unwrap()),
                    },
                };
                return Ok(relation(kind, std::slice::from_ref(shard)));
            }
        }
        Err(info(Code::TableNotExist))
    }

    pub(crate) fn topic(&self, sql: &str) -> Result<CreateTopic> {
        match query::parser::parse(sql)? {
            Statement::CreateTopic(topic) => Ok(topic),
            _ => Err(Error::not_supported("not CREATE TOPIC")),
        }
    }

    fn create_database(&mut self, name: &str, options: DatabaseOptions) {
        let info = DatabaseInfo {
            id: DatabaseId(1),
            name: name.to_owned(),
            options,
            vgroups: vec![VgroupId(2), VgroupId(3)],
            create_time_ns: 0,
        };
        // Two shards whatever VGROUPS says, so that super tables are merged from several.
        let shards = vec![MemoryShard::default(), MemoryShard::default()];
        let database = Database { info: Arc::new(info), stables: BTreeMap::new(), shards };
        self.databases.insert(name.to_owned(), database);
    }

    fn uid(&mut self) -> TableUid {
        self.next_uid += 1;
        TableUid(self.next_uid)
    }

    fn database(&mut self, name: &ObjectName) -> &mut Database {
        let database = name.database.clone().or_else(|| self.session.database.clone()).unwrap();
        self.databases.get_mut(&database).unwrap()
    }

    fn add_table(&mut self, name: &ObjectName, kind: TableKind, schema: Arc<TableSchema>) {
        let info = TableInfo {
            uid: self.uid(),
            name: name.name.clone(),
            kind,
            create_time_ns: 0,
            created_at: Version(1),
            ttl_days: 0,
            comment: None,
        };
        let table = MemoryTable { info: Arc::new(info), schema, rows: BTreeMap::new() };
        let database = self.database(name);
        let slot = name.name.bytes().map(usize::from).sum::<usize>() % database.shards.len();
        database.shards[slot].tables.lock().unwrap().insert(name.name.clone(), table);
    }

    fn context(&self, name: &ObjectName) -> LiteralContext {
        let database = name.database.as_ref().or(self.session.database.as_ref()).unwrap();
        let precision = self.databases[database].info.options.precision;
        LiteralContext::new(precision, self.session.zone, NOW_NS)
    }

    fn create_child(&mut self, child: &CreateChild) -> Result<()> {
        let context = self.context(&child.name);
        let stable = Arc::clone(&self.database(&child.stable).stables[&child.stable.name]);
        let mut tags = vec![Value::Null; stable.schema.tags.len()];
        let names: Vec<String> = match &child.tag_names {
            Some(names) => names.clone(),
            None => stable.schema.tags.iter().map(|t| t.name.clone()).collect(),
        };
        for (name, literal) in names.iter().zip(&child.values) {
            let (place, tag) = stable.schema.tag(name).expect("a tag");
            tags[place] = parse_tag(tag.data_type, literal, name, &context)?;
        }
        let kind = TableKind::Child { stable: stable.uid, tags: tags.into() };
        self.add_table(&child.name, kind, Arc::clone(&stable.schema));
        Ok(())
    }

    fn set_tags(&mut self, name: &ObjectName, changes: &[(String, TagLiteral)]) -> Result<()> {
        let context = self.context(name);
        for shard in &self.database(name).shards {
            let mut tables = shard.tables.lock().unwrap();
            let Some(table) = tables.get_mut(&name.name) else { continue };
            let TableKind::Child { stable, tags } = &table.info.kind else { continue };
            let mut tags = tags.to_vec();
            for (tag, literal) in changes {
                let (place, def) = table.schema.tag(tag).expect("a tag");
                tags[place] = parse_tag(def.data_type, literal, tag, &context)?;
            }
            let kind = TableKind::Child { stable: *stable, tags: tags.into() };
            table.info = Arc::new(TableInfo { kind, ..(*table.info).clone() });
        }
        Ok(())
    }

    fn insert(&mut self, block: &Block) -> Result<()> {
        let name = match block.table.split_once('.') {
            Some((db, table)) => ObjectName::new(Some(db), table),
            None => ObjectName::new(None, &block.table),
        };
        if let Some((stable, tag_names, values)) = &block.using
            && self.relation(&name).is_err()
        {
            let values = values
                .iter()
                .map(|t| TagLiteral { text: t.text.clone(), quoted: t.quoted, hex: false })
                .collect();
            let stable = ObjectName::new(None, stable);
            let options = Default::default();
            let tag_names = tag_names.clone();
            let name = name.clone();
            self.create_child(&CreateChild {
                if_not_exists: true,
                name,
                stable,
                tag_names,
                values,
                options,
            })?;
        }
        let context = self.context(&name);
        for shard in &self.database(&name).shards {
            let mut tables = shard.tables.lock().unwrap();
            let Some(table) = tables.get_mut(&name.name) else { continue };
            let columns: Vec<usize> = match &block.columns {
                Some(names) => names.iter().map(|n| table.schema.column(n).expect("a column").0).collect(),
                None => (0..table.schema.columns.len()).collect(),
            };
            for row in &block.rows {
                let mut values = Vec::new();
                for (column, token) in columns.iter().zip(row) {
                    let ty = table.schema.columns[*column].data_type;
                    values.push((*column, value(ty, token, &context)?));
                }
                let Some((_, Value::Timestamp(ts))) = values.first() else { panic!("a timestamp first") };
                let width = table.schema.columns.len();
                let key = match (table.schema.key(), values.get(1)) {
                    (Some(_), Some((1, Value::Int(key)))) => *key,
                    (Some(_), _) => panic!("a key of INT second"),
                    (None, _) => 0,
                };
                let stored = table.rows.entry((*ts, key)).or_insert_with(|| vec![Value::Null; width]);
                for (column, value) in values {
                    stored[column] = value;
                }
            }
        }
        Ok(())
    }
}

fn value(ty: DataType, token: &Token, context: &LiteralContext) -> Result<Value> {
    let raw = match shift(&token.text) {
        Some((base, shift)) if !token.quoted && !base.is_empty() => {
            Raw::Shifted { base, quoted: false, shift }
        }
        _ if !token.behind.is_empty() => {
            let (_, shift) = shift(&token.behind).expect("a duration");
            Raw::Shifted { base: &token.text, quoted: true, shift }
        }
        _ if token.quoted => Raw::Quoted(&token.text),
        _ => Raw::Bare(&token.text),
    };
    parse_value(ty, raw, context).map_err(|misfit| misfit.into_error(&token.text, "column"))
}
