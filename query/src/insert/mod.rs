//! INSERT: one pass over the text, straight into Arrow columns. There is no tree and no value in between.
//!
//! Table names are resolved as they are met, children that rows name at the end, all through [`InsertCatalog`];
//! everything else needs only the text. What comes out is what the vgroups take: per vgroup a list of
//! [`proto::write::WriteBlock`], rows of one table together and ascending, rows of one key merged.
//!
//! Whatever can be known beforehand is checked here, before the first vgroup gets anything: names, values, tags, times
//! against KEEP. The vgroups check it all again, since nothing that reaches them is trusted.

mod block;
mod finish;
mod gather;
mod lines;
mod merge;
mod rows;
mod scan;

use std::sync::Arc;

use model::{Code, DatabaseInfo, Error, Result, StableInfo, TableSchema, TableUid, VgroupId, Zone};
use proto::write::WriteBlock;

pub use lines::plan_lines;

use crate::ast::ObjectName;
use crate::parser::{SQL_BYTES_MAX_DEFAULT, check_length};

/// What an INSERT is read against.
#[derive(Clone, Copy, Debug)]
pub struct InsertContext<'a> {
    /// `now` of the whole statement, nanoseconds since the epoch.
    pub now_ns: i64,
    /// Zone of times without an offset.
    pub zone: Zone,
    /// Database of names without one.
    pub database: Option<&'a str>,
    /// Longer statements are refused.
    pub sql_bytes_max: usize,
}

impl Default for InsertContext<'_> {
    fn default() -> Self {
        Self { now_ns: 0, zone: Zone::UTC, database: None, sql_bytes_max: SQL_BYTES_MAX_DEFAULT }
    }
}

/// Tells what names mean. Called for each table block of the statement and once for each super table, never for a row.
///
/// An implementation that must ask elsewhere may fail with an error of its own, fetch what was missing, and have the
/// statement parsed again: nothing has happened by then.
pub trait InsertCatalog {
    /// What the table `name` is, or the child `name` of the super table `using`, existing or not. Both names carry
    /// their database.
    ///
    /// # Errors
    /// `DatabaseNotExist`; `TableNotExist` for a missing table or super table; `OtherStable` where `name` exists under
    /// another super table.
    fn target(&mut self, name: &ObjectName, using: Option<&ObjectName>) -> Result<InsertTarget>;

    /// Checks that `names`, each given once, are children of `stable` or can become such.
    ///
    /// # Errors
    /// `OtherStable` where one exists as a child of another super table or as a normal table; `TableExists` where one
    /// is a super table's name.
    fn check_children(&mut self, database: &DatabaseInfo, stable: TableUid, names: &[&str]) -> Result<()>;
}

/// What a name in INSERT means.
#[derive(Clone, Debug)]
pub struct InsertTarget {
    /// Its database.
    pub database: Arc<DatabaseInfo>,
    /// What it is.
    pub kind: TargetKind,
}

/// Kinds of tables to insert into.
#[derive(Clone, Debug)]
pub enum TargetKind {
    /// A normal table.
    Normal(Arc<TableSchema>),
    /// A child of this super table.
    Child(Arc<StableInfo>),
    /// A super table itself: each row names its child.
    Stable(Arc<StableInfo>),
}

/// What an INSERT writes.
#[derive(Clone, Debug, Default)]
pub struct InsertPlan {
    /// In order of first appearance.
    pub writes: Vec<VgroupWrite>,
    /// Affected rows: distinct keys over the statement.
    pub affected: u64,
}

/// What one vgroup is to write.
#[derive(Clone, Debug)]
pub struct VgroupWrite {
    /// The vgroup's database.
    pub database: Arc<DatabaseInfo>,
    /// The vgroup.
    pub vgroup: VgroupId,
    /// Its rows.
    pub blocks: Vec<WriteBlock>,
}

/// Parses an INSERT (or IMPORT) statement.
///
/// The statement is read to its end before anything is returned: a bad value anywhere means that nothing is written.
///
/// # Errors
/// [`Code::InsertSyntax`] and the codes of names and values; [`Code::NotSupported`] for `INSERT .. SELECT` and FILE.
pub fn parse_insert(
    sql: &str,
    context: &InsertContext<'_>,
    catalog: &mut dyn InsertCatalog,
) -> Result<InsertPlan> {
    check_length(sql, context.sql_bytes_max)?;
    let mut scan = scan::Scan::new(sql);
    scan.statement_start()?;
    let mut gather = gather::Gather::default();
    block::BlockReader::new(scan, context, catalog, &mut gather).blocks()?;
    gather.check_children(catalog)?;
    gather.finish(context.now_ns)
}

/// `name` with its database filled in.
fn qualify(mut name: ObjectName, context: &InsertContext<'_>) -> Result<ObjectName> {
    if name.database.is_none() {
        let database = context.database.ok_or_else(|| Error::of(Code::DatabaseNotSpecified))?;
        name.database = Some(database.to_owned());
    }
    if name.database.as_deref().is_some_and(crate::parser::is_system_database) {
        return Err(Error::of(Code::SystemTable));
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
