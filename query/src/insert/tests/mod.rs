//! Tests of INSERT, by subject.

mod fuzz;
mod grammar;
mod merging;
mod oracle;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef};
use model::{
    Code, ColumnId, DataType, DatabaseId, DatabaseOptions, Precision, StableInfo, TableSchema, TableUid,
    Value, VgroupId,
};
use proto::keys::RowKeys;

use super::finish::ticks;
use super::*;
use crate::ast::{Statement, first_schema};
use crate::parser;

/// A catalogue in memory that DDL statements fill.
#[derive(Default)]
pub(super) struct Fake {
    databases: BTreeMap<String, Arc<DatabaseInfo>>,
    stables: BTreeMap<(String, String), Arc<StableInfo>>,
    normals: BTreeMap<(String, String), Arc<TableSchema>>,
    /// Each child with its super table.
    children: BTreeMap<(String, String), String>,
}

impl Fake {
    /// Database `g` with a super table `m`, its child `c`, a normal table `t` and a wide one `w`.
    fn new(precision: Precision, vgroups: u32) -> Self {
        let mut fake = Self::default();
        fake.database("g", precision, vgroups);
        fake.run(
            "CREATE STABLE m (ts TIMESTAMP, i INT, v VARCHAR(8), n NCHAR(4)) TAGS (site NCHAR(12), no INT)",
        );
        fake.run("CREATE TABLE c USING m TAGS('north',1)");
        fake.run("CREATE TABLE t (ts TIMESTAMP, i INT, d DOUBLE)");
        fake.run("CREATE TABLE w (ts TIMESTAMP, ti TINYINT, b BOOL, v VARCHAR(8), t2 TIMESTAMP, bi BIGINT)");
        fake
    }

    fn database(&mut self, name: &str, precision: Precision, vgroups: u32) {
        let id = u32::try_from(self.databases.len()).unwrap() + 1;
        let info = DatabaseInfo {
            id: DatabaseId(id),
            name: name.into(),
            // Kept for a thousand years: times in tests may be small numbers.
            options: DatabaseOptions {
                precision,
                keep_minutes: [525_600_000; 3],
                ..DatabaseOptions::default()
            },
            vgroups: (0..vgroups).map(|v| VgroupId(id * 100 + v)).collect(),
            create_time_ns: 0,
        };
        self.databases.insert(name.into(), Arc::new(info));
    }

    /// Columns of composite keys, by the super table's id or the normal table's name.
    fn keys(&self) -> BTreeMap<String, ColumnId> {
        let stables = self.stables.values().map(|stable| (stable.uid.to_string(), &stable.schema));
        let normals = self.normals.iter().map(|((_, name), schema)| (name.clone(), schema));
        stables.chain(normals).filter_map(|(name, schema)| Some((name, schema.key()?.id))).collect()
    }

    /// Runs a DDL statement in database `g`.
    pub(super) fn run(&mut self, sql: &str) {
        let key = |name: &ObjectName| (name.database.clone().unwrap_or("g".into()), name.name.clone());
        match parser::parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")) {
            Statement::CreateStable { name, columns, tags, .. } => {
                let schema = Arc::new(first_schema(columns, tags));
                let uid = TableUid(u64::try_from(self.stables.len()).unwrap() + 1);
                let info =
                    StableInfo { uid, name: name.name.clone(), schema, create_time_ns: 0, comment: None };
                self.stables.insert(key(&name), Arc::new(info));
            }
            Statement::CreateTable { name, columns, .. } => {
                self.normals.insert(key(&name), Arc::new(first_schema(columns, Vec::new())));
            }
            Statement::CreateChildren(children) => {
                for child in children {
                    self.children.insert(key(&child.name), child.stable.name);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

impl InsertCatalog for Fake {
    fn target(&mut self, name: &ObjectName, using: Option<&ObjectName>) -> Result<InsertTarget> {
        let database_name = name.database.clone().unwrap();
        let database =
            self.databases.get(&database_name).cloned().ok_or_else(|| Error::of(Code::DatabaseNotExist))?;
        let key = |name: &str| (database_name.clone(), name.to_owned());
        let missing = || Error::of(Code::TableNotExist);
        if let Some(using) = using {
            if let Some(schema) = self.normals.get(&key(&using.name)) {
                return Ok(InsertTarget { database, kind: TargetKind::Normal(Arc::clone(schema)) });
            }
            let stable = self.stables.get(&key(&using.name)).ok_or_else(missing)?;
            if self.children.get(&key(&name.name)).is_some_and(|other| *other != using.name) {
                return Err(Error::of(Code::OtherStable));
            }
            return Ok(InsertTarget { database, kind: TargetKind::Child(Arc::clone(stable)) });
        }
        let kind = if let Some(schema) = self.normals.get(&key(&name.name)) {
            TargetKind::Normal(Arc::clone(schema))
        } else if let Some(stable) = self.stables.get(&key(&name.name)) {
            TargetKind::Stable(Arc::clone(stable))
        } else {
            let stable = self.children.get(&key(&name.name)).ok_or_else(missing)?;
            TargetKind::Child(Arc::clone(self.stables.get(&key(stable)).ok_or_else(missing)?))
        };
        Ok(InsertTarget { database, kind })
    }

    fn check_children(&mut self, database: &DatabaseInfo, stable: TableUid, names: &[&str]) -> Result<()> {
        for &name in names {
            let key = (database.name.clone(), name.to_owned());
            let child_of = self.children.get(&key);
            let uid = child_of.and_then(|of| self.stables.get(&(key.0.clone(), of.clone()))).map(|of| of.uid);
            if self.normals.contains_key(&key) || (child_of.is_some() && uid != Some(stable)) {
                return Err(Error::with(Code::OtherStable, name));
            }
            if self.stables.contains_key(&key) {
                return Err(Error::with(Code::TableExists, name));
            }
        }
        Ok(())
    }
}

fn context() -> InsertContext<'static> {
    InsertContext { now_ns: 1_704_110_400_123_456_789, database: Some("g"), ..InsertContext::default() }
}

fn plan(fake: &mut Fake, sql: &str) -> InsertPlan {
    let plan = parse_insert(sql, &context(), fake).unwrap_or_else(|e| panic!("{sql}: {e}"));
    check_invariants(&plan, &fake.keys());
    plan
}

/// What the receiver of a block relies on.
fn check_invariants(plan: &InsertPlan, keys: &BTreeMap<String, ColumnId>) {
    for write in &plan.writes {
        for block in &write.blocks {
            let rows = block.rows();
            assert!(rows > 0 && !block.runs.is_empty());
            assert_eq!(block.columns[0].0, model::ColumnId::TIMESTAMP);
            assert_eq!(block.columns[0].1.null_count(), 0);
            assert!(block.columns.iter().all(|(_, c)| c.len() == rows));
            assert_eq!(usize::try_from(block.runs.last().unwrap().end).unwrap(), rows);
            let mut tables: Vec<_> = block.runs.iter().map(|r| &r.table).collect();
            tables.sort_unstable();
            tables.dedup();
            assert_eq!(tables.len(), block.runs.len(), "a table has one run");
            let mut start = 0;
            for run in &block.runs {
                let end = usize::try_from(run.end).unwrap();
                assert!(start < end);
                let times = &ticks(&block.columns[0].1)[start..end];
                let key = keys.get(&block.stable.map_or(run.table.clone(), |uid| uid.to_string()));
                let key = key.and_then(|id| block.columns.iter().find(|(known, _)| known == id));
                assert!(
                    match key.map(|(_, values)| RowKeys::of(values).unwrap()) {
                        None => times.is_sorted_by(|a, b| a < b),
                        Some(values) => (start + 1..end).all(|row| {
                            let order = times[row - start - 1].cmp(&times[row - start]);
                            order.then(values.compare(row - 1, row)).is_lt()
                        }),
                    },
                    "time and key rise in a run"
                );
                let slot = model::vgroup_slot(&run.table, write.database.vgroups.len()).unwrap();
                assert_eq!(write.database.vgroups[slot], write.vgroup);
                start = end;
            }
        }
    }
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".into();
    }
    match column.data_type() {
        arrow_schema::DataType::Timestamp(..) => ticks(column)[row].to_string(),
        arrow_schema::DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        arrow_schema::DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        arrow_schema::DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        arrow_schema::DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        _ => arrow::util::display::array_value_to_string(column, row).unwrap(),
    }
}

/// One line a row: `table[column ids] values`, blocks of a vgroup in order, vgroups left out.
fn dump(plan: &InsertPlan) -> Vec<String> {
    let mut lines = Vec::new();
    for block in plan.writes.iter().flat_map(|w| &w.blocks) {
        let ids: Vec<_> = block.columns.iter().map(|(id, _)| id.to_string()).collect();
        let mut start = 0;
        for run in &block.runs {
            let end = usize::try_from(run.end).unwrap();
            for row in start..end {
                let values: Vec<_> = block.columns.iter().map(|(_, c)| cell(c, row)).collect();
                lines.push(format!("{}[{}] {}", run.table, ids.join(","), values.join(" ")));
            }
            start = end;
        }
    }
    lines
}

/// Rows as [`dump`] shows them, and the affected count.
fn insert(sql: &str) -> (Vec<String>, u64) {
    let plan = plan(&mut Fake::new(Precision::Ms, 1), sql);
    (dump(&plan), plan.affected)
}

fn refused(sql: &str) -> (Code, String) {
    match parse_insert(sql, &context(), &mut Fake::new(Precision::Ms, 4)) {
        Ok(plan) => panic!("{sql}: {:?}", dump(&plan)),
        Err(error) => (error.code(), error.message().to_owned()),
    }
}

/// Tags of each run that may create its child.
fn tags(plan: &InsertPlan) -> Vec<(String, Option<Vec<Value>>)> {
    let runs = plan.writes.iter().flat_map(|w| &w.blocks).flat_map(|b| &b.runs);
    runs.map(|r| (r.table.clone(), r.create_tags.clone())).collect()
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

#[test]
fn types_are_those_of_the_column() {
    let mut fake = Fake::new(Precision::Us, 1);
    let plan = plan(&mut fake, "INSERT INTO w VALUES ('2024-01-01 00:00:00.1234567',1,true,'x',now,5)");
    let block = &plan.writes[0].blocks[0];
    let types: Vec<_> = block.columns.iter().map(|(_, c)| c.data_type().clone()).collect();
    let declared = [
        DataType::Timestamp,
        DataType::TinyInt,
        DataType::Bool,
        DataType::Varchar(8),
        DataType::Timestamp,
        DataType::BigInt,
    ];
    assert_eq!(types, declared.map(|t| t.arrow(Precision::Us)));
    assert_eq!(dump(&plan), ["w[1,2,3,4,5,6] 1704067200123456 1 true x 1704110400123456 5"]);
}
