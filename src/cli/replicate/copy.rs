//! The copy: what is applied to the other server. Everything here may be done twice in a row and is then as if done once.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, BooleanArray};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType as Arrow, Int64Type};
use client::{Batch, Block, Connection, Message, Row, Writer};
use model::{Code, Error, Result, vgroup_slot};

use super::event::{Change, Child, Column, Definition, Delete, Event, On};
use super::statement;
use crate::cli::common::text_literal;

/// Writers that are kept at most: a database of many normal tables needs one for each.
const WRITERS_MAX: usize = 1_024;
/// Names in one statement.
const NAMES_MAX: usize = 500;
/// How often a statement is tried again while the server is busy or away.
const ATTEMPTS: u32 = 5;

/// Which of the source's vgroups something is from: its place among them, which says what tables it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) at: usize,
    pub(super) of: usize,
}

impl Slot {
    fn has(self, table: &str) -> bool {
        vgroup_slot(table, self.of) == Some(self.at)
    }
}

/// The database that is made equal.
#[derive(Debug)]
pub(super) struct Copy {
    connection: Connection,
    database: String,
    /// Super table of each child, `None` of a normal table.
    owners: HashMap<String, Option<Arc<str>>>,
    /// By super table or normal table, with its schema as of now.
    writers: HashMap<String, Writer>,
    /// Rows written.
    pub(super) rows: u64,
    /// Rows left out because `KEEP` of the copy no longer takes them.
    pub(super) expired: u64,
}

/// Rows that go into one batch: of one writer, with one set of columns.
struct Open {
    owner: String,
    columns: Vec<String>,
    batch: Batch,
}

impl Copy {
    /// Learns what tables there are.
    pub(super) async fn open(connection: Connection, database: &str) -> Result<Self> {
        let mut copy = Self {
            connection,
            database: database.to_owned(),
            owners: HashMap::new(),
            writers: HashMap::new(),
            rows: 0,
            expired: 0,
        };
        copy.learn("").await?;
        Ok(copy)
    }

    async fn learn(&mut self, condition: &str) -> Result<()> {
        let sql = format!(
            "SELECT table_name, stable_name FROM information_schema.ins_tables WHERE db_name = {}{condition}",
            text_literal(&self.database)
        );
        let rows = self.connection.sql(&sql).await?.rows().await?;
        for row in &rows {
            let stable: Option<String> = row.get(1)?;
            self.owners.insert(row.get(0)?, stable.map(Arc::from));
        }
        Ok(())
    }

    /// What rows of `table` are written through: its super table, or itself.
    async fn owner(&mut self, table: &str) -> Result<String> {
        if !self.owners.contains_key(table) {
            self.learn(&format!(" AND table_name = {}", text_literal(table))).await?;
        }
        match self.owners.get(table) {
            Some(Some(stable)) => Ok(stable.to_string()),
            Some(None) => Ok(table.to_owned()),
            None => Err(Error::with(Code::TableNotExist, statement::full_name(&self.database, table))
                .hint("the copy lacks a table that the topic has rows of: was it changed by others?")),
        }
    }

    async fn writer(&mut self, owner: &str) -> Result<&Writer> {
        if !self.writers.contains_key(owner) {
            if self.writers.len() >= WRITERS_MAX {
                self.forget_schemas().await?;
            }
            let writer = self.connection.writer(&self.database, owner).await?;
            self.writers.insert(owner.to_owned(), writer);
        }
        self.writers.get(owner).ok_or_else(|| Error::internal("a writer that was just made"))
    }

    /// Gives rows on; [`Self::flush`] tells whether they are written. `creates`: tables that the write made.
    pub(super) async fn write(&mut self, message: &Message, creates: Vec<Child>) -> Result<()> {
        let mut creates: HashMap<String, Child> =
            creates.into_iter().map(|child| (child.name.clone(), child)).collect();
        let mut open: Option<Open> = None;
        for block in message.blocks() {
            let table =
                block.table().ok_or_else(|| Error::with(Code::InvalidMessage, "rows without a table"))?;
            let made = creates.get(table);
            if let Some(child) = made {
                self.owners.insert(table.to_owned(), Some(Arc::from(child.stable.as_str())));
            }
            let owner = self.owner(table).await?;
            let columns: Vec<String> = block.columns().iter().map(|column| column.name.clone()).collect();
            if open.as_ref().is_some_and(|open| open.owner != owner) {
                self.send(open.take()).await?;
            }
            let is_known = self.knows(&owner, &columns, made).await?;
            let fits = open.as_ref().is_some_and(|open| open.owner == owner && open.columns == columns);
            if !fits || !is_known {
                self.send(open.take()).await?;
            }
            if !is_known {
                self.forget_schemas().await?;
            }
            let writer = self.writer(&owner).await?;
            let (arrays, left_out) = within(block, &writer.target().times())?;
            let mut current = match open.take() {
                Some(open) => open,
                None => {
                    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
                    let batch = writer.batch_of(&names).map_err(|e| of_table(e, table))?;
                    Open { owner, columns, batch }
                }
            };
            let rows = arrays.first().map_or(0, |array| array.len());
            if rows > 0 {
                let target = match made {
                    Some(child) => {
                        let tags = statement::create_tags(child, writer.target())?;
                        creates.remove(table);
                        current.batch.child(block.table().unwrap_or_default(), &tags)?
                    }
                    None => current.batch.table(table)?,
                };
                current.batch.push_arrays(target, &arrays).map_err(|e| of_table(e, table))?;
            }
            self.expired += left_out;
            open = Some(current);
        }
        self.send(open).await?;
        // Tables whose rows are gone: they were dropped since, and the event of that will come.
        self.create_children(creates.into_values().collect()).await
    }

    /// Whether the writer knows all that the rows have. The copy's own clients, or a replication from elsewhere, may have
    /// changed the table since it was made; the topic does not tell that.
    async fn knows(&mut self, owner: &str, columns: &[String], made: Option<&Child>) -> Result<bool> {
        let target = self.writer(owner).await?.target();
        let has_columns = columns.iter().all(|name| target.columns().any(|column| column.name == *name));
        Ok(has_columns && made.is_none_or(|child| statement::create_tags(child, target).is_ok()))
    }

    /// Writers know the schema that was in force when they were made, and what `KEEP` took then.
    pub(super) async fn forget_schemas(&mut self) -> Result<()> {
        self.flush().await?;
        self.writers.clear();
        Ok(())
    }

    async fn send(&mut self, open: Option<Open>) -> Result<()> {
        match open {
            Some(open) if !open.batch.is_empty() => self.writer(&open.owner).await?.write(open.batch).await,
            _ => Ok(()),
        }
    }

    /// Waits until everything given so far is written.
    pub(super) async fn flush(&mut self) -> Result<()> {
        for writer in self.writers.values() {
            self.rows += writer.flush().await?;
        }
        Ok(())
    }

    /// Does what an event tells. Everything given before must be flushed.
    pub(super) async fn apply(&mut self, event: Event, slot: Slot) -> Result<()> {
        match event {
            Event::CreateStable(stable) => {
                self.create(&statement::create_stable(&self.database, &stable), &stable).await
            }
            Event::CreateTable(table) => {
                self.create(&statement::create_table(&self.database, &table), &table).await?;
                self.owners.insert(table.name, None);
                Ok(())
            }
            Event::CreateChildren(children) => self.create_children(children).await,
            Event::Alter { on, table, change } => self.alter(on, &table, &change).await,
            Event::SetTags { table, tags } => {
                let owner = self.owner(&table).await?;
                self.forget_schemas().await?;
                let database = self.database.clone();
                let sql = statement::set_tags(&database, &table, &tags, self.writer(&owner).await?.target())?;
                self.run(&sql).await
            }
            Event::DropStable(stable) => {
                self.writers.clear();
                self.owners.retain(|_, owner| owner.as_deref() != Some(stable.as_str()));
                let name = statement::full_name(&self.database, &stable);
                self.run(&format!("DROP STABLE IF EXISTS {name}")).await
            }
            Event::DropTables(tables) => self.drop_tables(&tables).await,
            Event::Delete(delete) => self.delete(&delete, slot).await,
        }
    }

    /// Makes a table; one that is there must be the same.
    async fn create(&mut self, sql: &str, wanted: &Definition) -> Result<()> {
        self.writers.remove(&wanted.name);
        let Err(error) = self.run(sql).await else { return Ok(()) };
        let Some(found) = self.describe(&wanted.name).await? else { return Err(error) };
        let is = |column: &Column, tag| Described::of(column, tag);
        let columns = wanted.columns.iter().map(|column| is(column, false));
        let wanted: Vec<_> = columns.chain(wanted.tags.iter().map(|tag| is(tag, true))).collect();
        if found == wanted {
            return Ok(());
        }
        Err(error.hint(
            "the copy has a table of this name with other columns: drop it there, or choose another --into",
        ))
    }

    async fn create_children(&mut self, children: Vec<Child>) -> Result<()> {
        if !children.is_empty() {
            self.forget_schemas().await?;
        }
        for some in children.chunks(NAMES_MAX) {
            let mut parts = Vec::with_capacity(some.len());
            for child in some {
                let database = self.database.clone();
                let writer = self.writer(&child.stable).await?;
                parts.push(statement::child(&database, child, writer.target())?);
            }
            self.run(&format!("CREATE TABLE {}", parts.join(" "))).await?;
            for child in some {
                self.owners.insert(child.name.clone(), Some(Arc::from(child.stable.as_str())));
            }
        }
        Ok(())
    }

    async fn alter(&mut self, on: On, table: &str, change: &Change) -> Result<()> {
        let kind = if on == On::Stable { "STABLE" } else { "TABLE" };
        let Some(sql) = statement::alter(&self.database, kind, table, change) else { return Ok(()) };
        self.writers.remove(table);
        let Err(error) = self.run(&sql).await else { return Ok(()) };
        // Made twice in a row it is refused the second time: what counts is how the table is now.
        match self.describe(table).await? {
            Some(found) if is_in_force(change, &found) => Ok(()),
            _ => Err(error),
        }
    }

    async fn drop_tables(&mut self, tables: &[String]) -> Result<()> {
        for some in tables.chunks(NAMES_MAX) {
            let name = |table: &String| format!("IF EXISTS {}", statement::full_name(&self.database, table));
            let names: Vec<_> = some.iter().map(name).collect();
            self.run(&format!("DROP TABLE {}", names.join(", "))).await?;
            for table in some {
                self.owners.remove(table);
                self.writers.remove(table);
            }
        }
        Ok(())
    }

    /// A delete from a super table is told by each vgroup for itself: it means the children that this one has, and rows of
    /// the others may have come since.
    async fn delete(&mut self, delete: &Delete, slot: Slot) -> Result<()> {
        match self.owner(&delete.table).await {
            Ok(_) => return self.run(&statement::delete(&self.database, delete, None)).await,
            Err(error) if error.code() == Code::TableNotExist => {}
            Err(error) => return Err(error),
        }
        let sql = format!(
            "SELECT table_name FROM information_schema.ins_tables WHERE db_name = {} AND stable_name = {}",
            text_literal(&self.database),
            text_literal(&delete.table)
        );
        let rows = self.connection.sql(&sql).await?.rows().await?;
        let names = rows.iter().map(|row: Row<'_>| row.get::<String>(0)).collect::<Result<Vec<_>>>()?;
        let names: Vec<_> = names.into_iter().filter(|name| slot.has(name)).collect();
        for some in names.chunks(NAMES_MAX) {
            self.run(&statement::delete(&self.database, delete, Some(some))).await?;
        }
        Ok(())
    }

    /// Runs a statement that may be run again.
    async fn run(&self, sql: &str) -> Result<()> {
        let mut attempt = 1;
        loop {
            let done = match self.connection.sql(sql).await {
                Ok(result) => result.rows().await.map(drop),
                Err(error) => Err(error),
            };
            match done {
                Err(error) if attempt < ATTEMPTS && is_passing(&error) => {
                    attempt += 1;
                    // Answers once the server does, after the connection's own pauses.
                    self.connection.ping().await?;
                }
                done => return done,
            }
        }
    }

    /// Columns and tags of a table; `None` where there is none.
    async fn describe(&self, table: &str) -> Result<Option<Vec<Described>>> {
        let sql = format!("DESCRIBE {}", statement::full_name(&self.database, table));
        let rows = match self.connection.sql(&sql).await {
            Ok(result) => result.rows().await?,
            Err(error) if error.code() == Code::TableNotExist => return Ok(None),
            Err(error) => return Err(error),
        };
        let one = |row: Row<'_>| {
            let note = row.by_name::<String>("note")?;
            let (is_tag, is_key) = (note == "TAG", note == "COMPOSITE KEY");
            let (name, kind) = (row.by_name("field")?, row.by_name("type")?);
            Ok(Described { name, kind, length: row.by_name("length")?, is_tag, is_key })
        };
        rows.iter().map(one).collect::<Result<Vec<_>>>().map(Some)
    }
}

fn is_passing(error: &Error) -> bool {
    error.code() == Code::Unreachable || error.may_retry()
}

fn of_table(error: Error, table: &str) -> Error {
    let text = format!("{}: table={table}", error.message());
    Error::text(error.code(), text)
        .caused_by(error)
        .hint("the copy's table is not what the topic tells: was it changed by others?")
}

/// A column as DESCRIBE tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described {
    name: String,
    kind: String,
    length: i32,
    is_tag: bool,
    is_key: bool,
}

impl Described {
    fn of(column: &Column, is_tag: bool) -> Self {
        let Column { name, data_type, is_key, .. } = column;
        let (kind, length) = (data_type.name().to_owned(), i32::from(data_type.length()));
        Self { name: name.clone(), kind, length, is_tag, is_key: *is_key }
    }
}

/// Whether a table is as a change wanted it.
fn is_in_force(change: &Change, found: &[Described]) -> bool {
    let named =
        |name: &str, is_tag| found.iter().any(|column| column.name == name && column.is_tag == is_tag);
    match change {
        Change::AddColumn(column) | Change::ModifyColumn(column) => {
            found.contains(&Described::of(column, false))
        }
        Change::AddTag(tag) | Change::ModifyTag(tag) => found.contains(&Described::of(tag, true)),
        Change::DropColumn(name) => !named(name, false),
        Change::DropTag(name) => !named(name, true),
        Change::RenameColumn { from, to } => !named(from, false) && named(to, false),
        Change::RenameTag { from, to } => !named(from, true) && named(to, true),
        Change::Storage { .. } | Change::Options => false,
    }
}

/// The rows of a block that the copy still takes, and how many it does not.
fn within(block: &Block, times: &std::ops::RangeInclusive<i64>) -> Result<(Vec<ArrayRef>, u64)> {
    let columns = block.batch().columns();
    let Some(timestamps) = columns.first() else { return Ok((Vec::new(), 0)) };
    let ticks = cast(timestamps, &Arrow::Int64).map_err(Error::internal)?;
    let ticks = ticks.as_primitive::<Int64Type>();
    if ticks.values().iter().all(|tick| times.contains(tick)) {
        return Ok((columns.to_vec(), 0));
    }
    let kept: BooleanArray = ticks.values().iter().map(|tick| Some(times.contains(tick))).collect();
    let arrays = columns.iter().map(|column| filter(column, &kept).map_err(Error::internal));
    let left_out = kept.len() - kept.true_count();
    Ok((arrays.collect::<Result<_>>()?, left_out as u64))
}

#[cfg(test)]
mod tests {
    use model::DataType;

    use super::super::event::Storage;
    use super::*;

    #[test]
    fn a_change_is_in_force_when_the_table_is_as_it_wanted() {
        let column = |name: &str, data_type| Column {
            name: name.into(),
            data_type,
            storage: Storage::default(),
            is_key: false,
        };
        let found = [
            Described::of(&column("ts", DataType::Timestamp), false),
            Described::of(&column("c", DataType::Varchar(9)), false),
            Described::of(&column("g", DataType::Int), true),
        ];
        let rename = |from: &str, to: &str| Change::RenameTag { from: from.into(), to: to.into() };
        for (change, wanted) in [
            (Change::AddColumn(column("c", DataType::Varchar(9))), true),
            (Change::ModifyColumn(column("c", DataType::Varchar(10))), false),
            (Change::AddTag(column("c", DataType::Varchar(9))), false),
            (Change::DropColumn("d".into()), true),
            (Change::DropTag("g".into()), false),
            (rename("f", "g"), true),
            (rename("g", "h"), false),
        ] {
            assert_eq!(is_in_force(&change, &found), wanted, "{change:?}");
        }
    }
}
