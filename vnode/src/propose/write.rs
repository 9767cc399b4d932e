//! A write: first everything about its values (without the lock), then whose rows they are (under it).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use model::{Code, ColumnId, Error, Result, TableKind, TableSchema, TableUid};
use parking_lot::RwLock;
use proto::write::{TableRun, WriteBlock};
use wal::{Kind, SchemaBlock, SchemaKey};

use super::overlay::PendingChild;
use super::rows::{self, bad};
use super::{Checked, Context, Overlay, WriteRequest, no_stable, tags};
use crate::block::{BlockRun, RowBlock};
use crate::record::schema::{StoredSchema, key as schema_key};
use crate::record::{DataRecord, NewTable, NewTableKind, WriteRecord};
use crate::state::VnodeState;

/// Longest table name in bytes.
pub(super) const NAME_BYTES_MAX: usize = 192;

/// A write whose values are in order.
pub(crate) struct ShapedWrite {
    blocks: Vec<ShapedBlock>,
    replicated: bool,
}

struct ShapedBlock {
    owner: TableUid,
    owner_name: String,
    is_stable: bool,
    schema: Arc<TableSchema>,
    columns: Vec<(ColumnId, ArrayRef)>,
    complete: bool,
    runs: Vec<TableRun>,
}

/// A write with its tables.
pub(crate) struct ResolvedWrite {
    record: DataRecord,
    schemas: Vec<SchemaBlock>,
    /// Children that it makes.
    pub(crate) children: Vec<(String, PendingChild)>,
}

impl ShapedWrite {
    pub(crate) fn rows(&self) -> u64 {
        self.blocks.iter().filter_map(|block| block.runs.last()).map(|run| u64::from(run.end)).sum()
    }
}

impl ResolvedWrite {
    /// Its record.
    pub(crate) fn checked(&self) -> Result<Checked> {
        Ok(Checked { kind: Kind::Data, flags: 0, body: self.record.encode()?, schemas: self.schemas.clone() })
    }
}

/// Schema blocks as they were written before: every Data record names those that it needs.
#[derive(Debug, Default)]
pub(crate) struct SchemaBlocks(HashMap<SchemaKey, SchemaBlock>);

impl SchemaBlocks {
    /// More than this are not kept: a shard of many normal tables would keep them all.
    const MAX: usize = 1_024;

    fn get(&mut self, owner: TableUid, name: &str, schema: &TableSchema) -> Result<SchemaBlock> {
        let key = schema_key(owner, schema.version);
        if let Some(block) = self.0.get(&key) {
            return Ok(block.clone());
        }
        let block = StoredSchema { name: name.to_owned(), schema: schema.clone() }.block(owner)?;
        if self.0.len() >= Self::MAX {
            self.0.clear();
        }
        self.0.insert(key, block.clone());
        Ok(block)
    }
}

/// Checks columns and runs against the schemas in force.
///
/// The state is locked only to look a schema up: the rows may be many.
pub(crate) fn shape(
    state: &RwLock<VnodeState>,
    context: &Context,
    request: WriteRequest,
) -> Result<ShapedWrite> {
    if request.blocks.is_empty() {
        return Err(bad("a write without rows"));
    }
    let as_of_ns = request.as_of_ns.unwrap_or(context.now_ns);
    let shape = |block| shape_block(state, context, as_of_ns, block);
    let blocks = request.blocks.into_iter().map(shape).collect::<Result<_>>()?;
    Ok(ShapedWrite { blocks, replicated: request.replicated })
}

fn owner_of(state: &VnodeState, block: &WriteBlock) -> Result<(TableUid, String, Arc<TableSchema>)> {
    match block.stable {
        Some(uid) => {
            let stable = state.stables.get(uid).ok_or_else(|| no_stable(uid))?;
            Ok((uid, stable.name.clone(), Arc::clone(&stable.schema)))
        }
        None => {
            let [run] = &block.runs[..] else { return Err(bad("a normal table has one run")) };
            normal_table(state, &run.table)
        }
    }
}

fn shape_block(
    state: &RwLock<VnodeState>,
    context: &Context,
    as_of_ns: i64,
    block: WriteBlock,
) -> Result<ShapedBlock> {
    let (owner, owner_name, schema) = owner_of(&state.read(), &block)?;
    let shaped = rows::shape_columns(&schema, context.precision(), &block.columns)?;
    let timestamps = shaped.columns.iter().find(|(id, _)| *id == ColumnId::TIMESTAMP);
    let (_, timestamps) = timestamps.ok_or_else(|| bad("the first column must be the primary timestamp"))?;
    rows::check_runs(context, as_of_ns, timestamps, &shaped.keys, &block.runs)?;
    Ok(ShapedBlock {
        owner,
        owner_name,
        is_stable: block.stable.is_some(),
        schema,
        columns: shaped.columns,
        complete: shaped.complete,
        runs: block.runs,
    })
}

fn normal_table(state: &VnodeState, name: &str) -> Result<(TableUid, String, Arc<TableSchema>)> {
    let entry = state.tables.named(name).ok_or_else(|| Error::with(Code::TableNotExist, name))?;
    match &entry.info.kind {
        TableKind::Normal { schema } => Ok((entry.info.uid, name.to_owned(), Arc::clone(schema))),
        TableKind::Child { .. } => Err(Error::with(Code::OtherStable, name)),
    }
}

/// Finds or makes the tables, with what is in flight in mind.
pub(crate) fn resolve(
    state: &VnodeState,
    overlay: &Overlay,
    known: &mut SchemaBlocks,
    context: &Context,
    mut shaped: ShapedWrite,
) -> Result<ResolvedWrite> {
    for block in &mut shaped.blocks {
        block.refresh(state, context)?;
    }
    let affected_rows = shaped.rows();
    let mut resolver = Resolver { state, overlay, context, made: HashMap::new(), creates: Vec::new() };
    let mut blocks = Vec::with_capacity(shaped.blocks.len());
    let mut schemas: Vec<SchemaBlock> = Vec::new();
    for block in shaped.blocks {
        if !schemas.iter().any(|schema| schema.key.owner == block.owner.0) {
            schemas.push(known.get(block.owner, &block.owner_name, &block.schema)?);
        }
        blocks.push(resolver.block(block)?);
    }
    let children = resolver.made.into_iter().collect();
    let write = WriteRecord {
        received_ns: context.now_ns,
        affected_rows,
        replicated: shaped.replicated,
        creates: resolver.creates,
        blocks,
    };
    Ok(ResolvedWrite { record: DataRecord { writes: vec![write] }, schemas, children })
}

impl ShapedBlock {
    /// A DDL may have come between the check of the values and the lock: then the values are checked once more.
    fn refresh(&mut self, state: &VnodeState, context: &Context) -> Result<()> {
        let current = state.current_schema(self.owner);
        let current = current.ok_or_else(|| Error::with(Code::TableNotExist, &self.owner_name))?;
        if current.version != self.schema.version {
            let shaped = rows::shape_columns(current, context.precision(), &self.columns)?;
            self.columns = shaped.columns;
            self.complete = shaped.complete;
            self.schema = Arc::clone(current);
        }
        Ok(())
    }
}

struct Resolver<'a> {
    state: &'a VnodeState,
    overlay: &'a Overlay,
    context: &'a Context,
    made: HashMap<String, PendingChild>,
    creates: Vec<NewTable>,
}

impl Resolver<'_> {
    fn block(&mut self, block: ShapedBlock) -> Result<RowBlock> {
        let mut runs = Vec::with_capacity(block.runs.len());
        for run in &block.runs {
            let table = if block.is_stable {
                self.child(block.owner, &block.schema, run)?
            } else {
                normal_table(self.state, &run.table)?.0
            };
            runs.push(BlockRun { table, end: run.end });
        }
        let mut tables: Vec<_> = runs.iter().map(|run| run.table).collect();
        tables.sort_unstable();
        if tables.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            return Err(bad("a table has one run"));
        }
        Ok(RowBlock {
            owner: block.owner,
            schema_version: block.schema.version,
            runs,
            columns: block.columns,
            complete: block.complete,
        })
    }

    fn child(&mut self, stable: TableUid, schema: &TableSchema, run: &TableRun) -> Result<TableUid> {
        let name = &run.table;
        let known = match self.state.tables.named(name) {
            Some(entry) => Some((entry.info.uid, entry.stable())),
            None => {
                let in_flight = self.overlay.get(name).or_else(|| self.made.get(name).copied());
                in_flight.map(|child| (child.uid, Some(child.stable)))
            }
        };
        match (known, &run.create_tags) {
            (Some((uid, Some(found))), _) if found == stable => Ok(uid),
            (Some(_), _) => Err(Error::with(Code::OtherStable, name)),
            (None, None) => Err(Error::with(Code::TableNotExist, name)),
            (None, Some(values)) => self.make(stable, schema, name, values),
        }
    }

    fn make(
        &mut self,
        stable: TableUid,
        schema: &TableSchema,
        name: &str,
        values: &[model::Value],
    ) -> Result<TableUid> {
        check_new_name(self.state, self.context, name)?;
        tags::check_all(schema, values)?;
        let uid = self.context.uid(self.overlay.next_table.saturating_add(self.creates.len() as u64))?;
        self.made.insert(name.to_owned(), PendingChild { uid, stable });
        self.creates.push(NewTable {
            uid,
            name: name.to_owned(),
            kind: NewTableKind::Child { stable, schema_version: schema.version, tags: values.into() },
            ttl_days: 0,
            comment: None,
        });
        Ok(uid)
    }
}

/// Whether a table may get this name; that no table has it already is the caller's to check.
pub(super) fn check_new_name(state: &VnodeState, context: &Context, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::of(Code::InvalidIdentifier));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::with(Code::TableNameTooLong, name));
    }
    // SQL has no way to write such a name, so nobody could drop the table.
    if name.contains('.') {
        return Err(Error::text(Code::InvalidIdentifier, "The table name cannot contain '.'")
            .about(format_args!("table={name}")));
    }
    if state.stables.named(name).is_some() {
        return Err(Error::with(Code::TableExists, name));
    }
    if !context.is_placed_here(name) {
        return Err(bad(format!("table belongs to another vgroup: table={name} vgroup={}", context.vgroup)));
    }
    Ok(())
}
