//! SHOW and DESCRIBE. Most of SHOW is a SELECT over a system table.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::{DataType as Arrow, Field, Schema};
use arrow::record_batch::RecordBatch;
use model::{
    Code, ColumnDef, DataType, DatabaseInfo, Error, Precision, Result, TableInfo, TableKind, TableSchema,
    Value, minutes_text,
};
use query::ast::{ObjectName, Show, ShowTableKind};
use query::parser;
use query::plan::OutputColumn;

use super::names::{Found, FoundTable};
use super::{Engine, Outcome, StatementContext};
use crate::server::sessions::Session;

/// The three tiers of KEEP.
pub(super) fn keep(tiers: [u64; 3]) -> String {
    tiers.map(minutes_text).join(",")
}

fn output(name: &str, data_type: DataType) -> OutputColumn {
    OutputColumn { name: name.to_owned(), data_type, precision: Precision::Ms }
}

/// Columns of text.
fn text_table(names: &[&str], columns: Vec<Vec<Option<String>>>) -> Result<Outcome> {
    let arrays: Vec<ArrayRef> =
        columns.into_iter().map(|c| Arc::new(StringArray::from(c)) as ArrayRef).collect();
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, Arrow::Utf8, true)).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::internal)?;
    Outcome::rows(names.iter().map(|name| output(name, DataType::Varchar(u16::MAX))).collect(), batch)
}

/// One column of text.
pub(super) fn text_rows(name: &str, lines: Vec<String>) -> Result<Outcome> {
    text_table(&[name], vec![lines.into_iter().map(Some).collect()])
}

/// The database that SHOW lists things of: the one it names, else the session's.
fn listed_database(cx: &StatementContext, named: Option<String>, what: &str) -> Result<String> {
    named.or_else(|| cx.database.clone()).ok_or_else(|| {
        Error::of(Code::DatabaseNotSpecified).hint(format!("USE a database or write SHOW db.{what}"))
    })
}

/// A literal of the dialect.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A quoted name of the dialect.
fn backticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

impl Engine {
    pub(super) async fn show(&self, session: &Session, cx: &StatementContext, show: Show) -> Result<Outcome> {
        let sql = match show {
            Show::Databases { user, system } => {
                let filter = match (user, system) {
                    (true, false) => " where name not in ('information_schema','performance_schema')",
                    (false, true) => " where name in ('information_schema','performance_schema')",
                    _ => "",
                };
                format!("select name from information_schema.ins_databases{filter}")
            }
            Show::Stables { database, like } => {
                let filter = self.listing(session, cx, database, like, "stable_name")?;
                format!(
                    "select stable_name from information_schema.ins_stables where {filter} order by stable_name"
                )
            }
            Show::Tables { kind, database, like } => {
                let mut filter = self.listing(session, cx, database, like, "table_name")?;
                match kind {
                    Some(ShowTableKind::Normal) => filter += " and type = 'NORMAL_TABLE'",
                    Some(ShowTableKind::Child) => filter += " and type = 'CHILD_TABLE'",
                    None => {}
                }
                format!(
                    "select table_name from information_schema.ins_tables where {filter} order by table_name"
                )
            }
            Show::Tags(name) => {
                let database = self.database_of(cx, &name)?;
                self.may_read(session, database)?;
                self.require_table(cx, &name)?;
                let (db, table) = (quoted(database), quoted(&name.name));
                format!(
                    "select * from information_schema.ins_tags where db_name = {db} and table_name = {table}"
                )
            }
            Show::Vgroups { database } => {
                let name = listed_database(cx, database, "VGROUPS")?;
                self.require_seen(session, &name)?;
                let db = quoted(&name);
                format!(
                    "select * from information_schema.ins_vgroups where db_name = {db} order by vgroup_id"
                )
            }
            Show::Topics => {
                "select topic_name from information_schema.ins_topics order by topic_name".to_owned()
            }
            Show::Consumers => "select * from performance_schema.perf_consumers".to_owned(),
            Show::Subscriptions => "select * from information_schema.ins_subscriptions \
                 order by topic_name, consumer_group, vgroup_id"
                .to_owned(),
            Show::Users => "select * from information_schema.ins_users order by name".to_owned(),
            Show::UserPrivileges => "select * from information_schema.ins_user_privileges \
                 order by user_name, db_name, privilege"
                .to_owned(),
            Show::Variables { like } => {
                let filter =
                    like.map_or_else(String::new, |like| format!(" where name like {}", quoted(&like)));
                format!("select * from information_schema.ins_variables{filter} order by name")
            }
            Show::Compacts => "select * from information_schema.ins_compacts order by compact_id".to_owned(),
            Show::Compact(id) => {
                format!(
                    "select * from information_schema.ins_compact_details where compact_id = {id} order by vgroup_id"
                )
            }
            Show::CreateDatabase(name) => return self.show_create_database(session, &name),
            Show::CreateTable(name) | Show::CreateStable(name) => {
                return self.show_create_table(session, cx, &name);
            }
            Show::CreateTopic(name) => {
                let topic = self.mnode.topic_seen(&session.user, &name)?;
                let columns = vec![vec![Some(topic.name.clone())], vec![Some(topic.sql.clone())]];
                return text_table(&["topic_name", "create_sql"], columns);
            }
        };
        self.query(session, cx, parser::parse_query(&sql)?).await
    }

    /// The condition of SHOW TABLES and SHOW STABLES.
    fn listing(
        &self,
        session: &Session,
        cx: &StatementContext,
        database: Option<String>,
        like: Option<String>,
        column: &str,
    ) -> Result<String> {
        let what = if column == "table_name" { "TABLES" } else { "STABLES" };
        let database = listed_database(cx, database, what)?;
        self.require_seen(session, &database)?;
        let mut filter = format!("db_name = {}", quoted(&database));
        if let Some(like) = like {
            let _ = write!(filter, " and {column} like {}", quoted(&like));
        }
        Ok(filter)
    }

    fn require_table(&self, cx: &StatementContext, name: &ObjectName) -> Result<FoundTable> {
        match self.find(cx, name)? {
            Some(Found::Table(found)) => Ok(found),
            _ => Err(self.no_such_table(cx, name)),
        }
    }

    fn no_such_table(&self, cx: &StatementContext, name: &ObjectName) -> Error {
        let error = Error::with(Code::TableNotExist, &name.name);
        match self.database_of(cx, name) {
            Ok(database) => self.missing(database, name, error),
            Err(_) => error,
        }
    }

    pub(super) fn describe(
        &self,
        session: &Session,
        cx: &StatementContext,
        name: &ObjectName,
    ) -> Result<Outcome> {
        self.may_read_or_write(session, self.database_of(cx, name)?)?;
        let schema = match self.find(cx, name)? {
            Some(Found::Stable { stable, .. }) => stable.schema.clone(),
            Some(Found::Table(found)) => self.schema_of(&found.database, &found.table)?,
            None => return Err(self.no_such_table(cx, name)),
        };
        let rows: Vec<(&ColumnDef, &str)> = schema
            .columns
            .iter()
            .map(|c| (c, note(c)))
            .chain(schema.tags.iter().map(|t| (t, "TAG")))
            .collect();
        let text = |f: fn(&ColumnDef) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(column, _)| f(column))))
        };
        let arrays: Vec<ArrayRef> = vec![
            text(|c| &c.name),
            text(|c| c.data_type.name()),
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|(c, _)| i32::from(c.data_type.length())))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, note)| *note))),
            text(|c| c.encoding.map_or("disabled", model::Encoding::as_str)),
            text(|c| c.compression.map_or("disabled", model::Compression::as_str)),
            text(|c| c.level.map_or("disabled", model::Level::as_str)),
        ];
        let names = ["field", "type", "length", "note", "encode", "compress", "level"];
        let columns: Vec<OutputColumn> = names
            .iter()
            .map(|name| output(name, if *name == "length" { DataType::Int } else { DataType::Varchar(64) }))
            .collect();
        let fields: Vec<Field> = names
            .iter()
            .zip(&arrays)
            .map(|(name, a)| Field::new(*name, a.data_type().clone(), true))
            .collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::internal)?;
        Outcome::rows(columns, batch)
    }

    /// Columns and tags of a table as they are now.
    pub(super) fn schema_of(&self, database: &DatabaseInfo, table: &TableInfo) -> Result<Arc<TableSchema>> {
        match &table.kind {
            TableKind::Normal { schema } => Ok(schema.clone()),
            TableKind::Child { stable, .. } => {
                let catalog = self.mnode.catalog();
                let stable = catalog.database(&database.name)?.stable_by_uid(*stable).cloned();
                stable.map(|s| s.schema.clone()).ok_or_else(|| Error::with(Code::TableNotExist, &table.name))
            }
        }
    }

    fn show_create_database(&self, session: &Session, name: &str) -> Result<Outcome> {
        self.require_seen(session, name)?;
        let catalog = self.mnode.catalog();
        let info = &catalog.database(name)?.info;
        let o = &info.options;
        let mut sql = format!(
            "CREATE DATABASE {} BUFFER {} CACHESIZE {} CACHEMODEL '{}' COMP {} DURATION {} WAL_FSYNC_PERIOD {} \
             MAXROWS {} MINROWS {} STT_TRIGGER {} KEEP {} PAGES {} PAGESIZE {} PRECISION '{}' REPLICA {} WAL_LEVEL {} \
             VGROUPS {} SINGLE_STABLE {} TABLE_PREFIX {} TABLE_SUFFIX {} TSDB_PAGESIZE {} WAL_RETENTION_PERIOD {} \
             WAL_RETENTION_SIZE {} KEEP_TIME_OFFSET {}",
            backticked(&info.name),
            o.buffer_mib,
            o.cachesize_mib,
            o.cache_model.as_str(),
            o.comp,
            minutes_text(o.duration_minutes),
            o.wal.fsync_period_ms,
            o.maxrows,
            o.minrows,
            o.stt_trigger,
            keep(o.keep_minutes),
            o.pages,
            o.pagesize_kib,
            o.precision,
            o.replica,
            o.wal.level,
            o.vgroups,
            u8::from(o.single_stable),
            o.table_prefix,
            o.table_suffix,
            o.tsdb_pagesize_kib,
            o.wal.retention_period_s,
            o.wal.retention_size_kib,
            o.keep_time_offset_hours,
        );
        // Not TDengine's defaults alone: what has another value is told too.
        for (option, value) in
            [("WAL_ROLL_PERIOD", o.wal.roll_period_s), ("WAL_SEGMENT_SIZE", o.wal.segment_size_kib)]
        {
            if value != 0 {
                let _ = write!(sql, " {option} {value}");
            }
        }
        text_table(&["Database", "Create Database"], vec![vec![Some(info.name.clone())], vec![Some(sql)]])
    }

    fn show_create_table(
        &self,
        session: &Session,
        cx: &StatementContext,
        name: &ObjectName,
    ) -> Result<Outcome> {
        self.may_read(session, self.database_of(cx, name)?)?;
        let sql = match self.find(cx, name)?.ok_or_else(|| self.no_such_table(cx, name))? {
            Found::Stable { stable, .. } => format!(
                "CREATE STABLE {} ({}) TAGS ({}){}",
                backticked(&stable.name),
                definitions(&stable.schema.columns),
                definitions(&stable.schema.tags),
                comment(stable.comment.as_deref()),
            ),
            Found::Table(found) => self.create_table_text(&found)?,
        };
        text_table(&["Table", "Create Table"], vec![vec![Some(name.name.clone())], vec![Some(sql)]])
    }

    fn create_table_text(&self, found: &FoundTable) -> Result<String> {
        let table = &found.table;
        let mut sql = match &table.kind {
            TableKind::Normal { schema } => {
                format!("CREATE TABLE {} ({})", backticked(&table.name), definitions(&schema.columns))
            }
            TableKind::Child { stable, tags } => {
                let catalog = self.mnode.catalog();
                let stable = catalog
                    .database(&found.database.name)?
                    .stable_by_uid(*stable)
                    .ok_or_else(|| Error::internal("a child without its super table"))?;
                let names: Vec<_> = stable.schema.tags.iter().map(|tag| backticked(&tag.name)).collect();
                let typed = tags.iter().zip(&stable.schema.tags);
                let values: Vec<_> = typed.map(|(value, tag)| tag_text(value, tag.data_type)).collect();
                format!(
                    "CREATE TABLE {} USING {} ({}) TAGS ({})",
                    backticked(&table.name),
                    backticked(&stable.name),
                    names.join(", "),
                    values.join(", "),
                )
            }
        };
        sql += &comment(table.comment.as_deref());
        if table.ttl_days > 0 {
            let _ = write!(sql, " TTL {}", table.ttl_days);
        }
        Ok(sql)
    }
}

/// How a column of a composite key is marked.
const KEY_WORDS: &str = "COMPOSITE KEY";

/// What stands beside a data column.
const fn note(column: &ColumnDef) -> &'static str {
    if column.is_key { KEY_WORDS } else { "" }
}

fn definitions(columns: &[ColumnDef]) -> String {
    let one = |column: &ColumnDef| {
        let mut text = format!("{} {}", backticked(&column.name), column.data_type);
        if column.is_key {
            let _ = write!(text, " {KEY_WORDS}");
        }
        if let (Some(e), Some(c), Some(l)) = (column.encoding, column.compression, column.level) {
            let _ = write!(text, " ENCODE '{e}' COMPRESS '{c}' LEVEL '{l}'");
        }
        text
    };
    columns.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn comment(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(" COMMENT {}", quoted(text)))
}

/// A tag value as SHOW CREATE TABLE prints it.
fn tag_text(value: &Value, data_type: DataType) -> String {
    match value {
        Value::Text(text) if data_type == DataType::Json => text.clone(),
        Value::Bytes(_) => format!("\"{value}\""),
        Value::Text(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")),
        Value::Double(v) => scientific(*v),
        Value::Float(v) => scientific(f64::from(*v)),
        Value::Timestamp(ticks) => ticks.to_string(),
        other => other.to_string(),
    }
}

/// C's `%e`.
fn scientific(value: f64) -> String {
    let text = format!("{value:.6e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_c_prints_them() {
        assert_eq!(scientific(1.5), "1.500000e+00");
        assert_eq!(scientific(-0.000_25), "-2.500000e-04");
        assert_eq!(scientific(1e120), "1.000000e+120");
    }

    #[test]
    fn options_read_as_they_were_written() {
        assert_eq!(keep([14_400, 1_500, 61]), "10d,25h,61m");
    }
}
