//! System tables: `information_schema.ins_*` and `performance_schema.perf_*`, made from what the server knows at the
//! moment of the query.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMillisecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use mnode::{Access, Database};
use model::{Code, DatabaseInfo, Error, Result, TableInfo, TableKind, VgroupId, minutes_text};
use query::ast::ObjectName;
use query::plan::no_table;
use query::source::{Relation, RelationKind};

use super::vnodes::Slot;
use super::{Engine, show};
use crate::server::sessions::Session;

/// Whether `database` is one of the two that hold system tables.
pub(super) fn is_system(database: &str) -> bool {
    database.eq_ignore_ascii_case("information_schema") || database.eq_ignore_ascii_case("performance_schema")
}

/// A cell of a system table.
pub(super) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    /// Nanoseconds since the epoch.
    Time(i64),
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

macro_rules! int_cells {
    ($($int:ty),+) => {
        $(impl From<$int> for Cell {
            fn from(value: $int) -> Self {
                Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
            }
        })+
    };
}
int_cells!(u8, i16, u16, i32, u32, i64, u64, usize);

/// Type of a system table's column.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Tiny,
    Small,
    Int,
    Big,
    Text,
    Time,
}

/// Columns and rows of a system table.
pub(super) struct SystemTable {
    columns: &'static [(&'static str, Kind)],
    rows: Vec<Vec<Cell>>,
}

macro_rules! fill {
    ($builder:ty, $cells:expr, |$cell:ident| $value:expr) => {{
        let mut builder = <$builder>::new();
        for $cell in $cells {
            builder.append_option($value);
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

fn int<T: TryFrom<i64>>(cell: &Cell) -> Option<T> {
    match cell {
        Cell::Int(v) => T::try_from(*v).ok(),
        _ => None,
    }
}

impl SystemTable {
    pub(super) fn new(columns: &'static [(&'static str, Kind)]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn push<const N: usize>(&mut self, row: [Cell; N]) {
        self.rows.push(row.into());
    }

    pub(super) fn batch(self) -> Result<RecordBatch> {
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (at, (name, kind)) in self.columns.iter().enumerate() {
            let null = Cell::Null;
            let cells = self.rows.iter().map(|row| row.get(at).unwrap_or(&null));
            let array = match kind {
                Kind::Bool => fill!(BooleanBuilder, cells, |cell| if let Cell::Bool(v) = cell {
                    Some(*v)
                } else {
                    None
                }),
                Kind::Tiny => fill!(Int8Builder, cells, |cell| int(cell)),
                Kind::Small => fill!(Int16Builder, cells, |cell| int(cell)),
                Kind::Int => fill!(Int32Builder, cells, |cell| int(cell)),
                Kind::Big => fill!(Int64Builder, cells, |cell| int(cell)),
                Kind::Text => {
                    fill!(StringBuilder, cells, |cell| if let Cell::Text(v) = cell {
                        Some(v.as_str())
                    } else {
                        None
                    })
                }
                Kind::Time => fill!(TimestampMillisecondBuilder, cells, |cell| {
                    if let Cell::Time(ns) = cell { Some(ns.div_euclid(1_000_000)) } else { None }
                }),
            };
            let data_type = match kind {
                Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, None),
                _ => array.data_type().clone(),
            };
            fields.push(Field::new(*name, data_type, true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::internal)
    }
}

impl Engine {
    /// A system table as a relation.
    pub(super) fn system_relation(&self, session: &Session, database: &str, table: &str) -> Result<Relation> {
        let name = format!("{}.{}", database.to_ascii_lowercase(), table.to_ascii_lowercase());
        let rows = match name.as_str() {
            "information_schema.ins_databases" => self.ins_databases(session),
            "information_schema.ins_stables" => self.ins_stables(session),
            "information_schema.ins_tables" => self.ins_tables(session)?,
            "information_schema.ins_tags" => self.ins_tags(session)?,
            "information_schema.ins_vgroups" => self.ins_vgroups(session),
            "information_schema.ins_topics" => self.ins_topics(session),
            "information_schema.ins_subscriptions" => self.ins_subscriptions(session),
            "information_schema.ins_users" => self.ins_users(session),
            "information_schema.ins_user_privileges" => self.ins_user_privileges(session),
            "information_schema.ins_variables" => self.ins_variables(),
            "information_schema.ins_compacts" => self.ins_compacts(session),
            "information_schema.ins_compact_details" => self.ins_compact_details(session),
            "performance_schema.perf_consumers" => self.perf_consumers(session),
            _ => {
                let named = ObjectName::new(Some(database), table);
                return Err(no_table(Code::TableNotExist, &named));
            }
        };
        let system = Arc::new(DatabaseInfo {
            id: model::DatabaseId(0),
            name: database.to_owned(),
            options: model::DatabaseOptions::default(),
            vgroups: Vec::new(),
            create_time_ns: 0,
        });
        let kind = RelationKind::System { name, batch: rows.batch()? };
        Ok(Relation { database: system, kind, shards: Vec::new() })
    }

    /// Databases that the session may know of.
    fn ins_databases(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("name", Kind::Text),
            ("create_time", Kind::Time),
            ("vgroups", Kind::Int),
            ("ntables", Kind::Big),
            ("replica", Kind::Tiny),
            ("strict", Kind::Text),
            ("duration", Kind::Text),
            ("keep", Kind::Text),
            ("buffer", Kind::Int),
            ("pagesize", Kind::Int),
            ("pages", Kind::Int),
            ("minrows", Kind::Int),
            ("maxrows", Kind::Int),
            ("comp", Kind::Tiny),
            ("precision", Kind::Text),
            ("status", Kind::Text),
            ("single_stable", Kind::Bool),
            ("cachemodel", Kind::Text),
            ("cachesize", Kind::Int),
            ("wal_level", Kind::Tiny),
            ("wal_fsync_period", Kind::Int),
            ("wal_retention_period", Kind::Int),
            ("wal_retention_size", Kind::Big),
            ("stt_trigger", Kind::Small),
            ("table_prefix", Kind::Small),
            ("table_suffix", Kind::Small),
            ("tsdb_pagesize", Kind::Int),
            ("keep_time_offset", Kind::Int),
        ]);
        for name in ["information_schema", "performance_schema"] {
            table.push([name.into()]);
        }
        for (database, _) in self.mnode.databases(&session.user) {
            let (info, o) = (&database.info, &database.info.options);
            let tables: usize = self.online(&info.vgroups).map(|vnode| vnode.counts().tables).sum();
            table.push([
                info.name.as_str().into(),
                Cell::Time(info.create_time_ns),
                o.vgroups.into(),
                tables.into(),
                o.replica.into(),
                "on".into(),
                minutes_text(o.duration_minutes).into(),
                show::keep(o.keep_minutes).into(),
                o.buffer_mib.into(),
                o.pagesize_kib.into(),
                o.pages.into(),
                o.minrows.into(),
                o.maxrows.into(),
                o.comp.into(),
                o.precision.as_str().into(),
                self.database_status(&info.vgroups).into(),
                Cell::Bool(o.single_stable),
                o.cache_model.as_str().into(),
                o.cachesize_mib.into(),
                o.wal.level.into(),
                o.wal.fsync_period_ms.into(),
                o.wal.retention_period_s.into(),
                o.wal.retention_size_kib.into(),
                o.stt_trigger.into(),
                o.table_prefix.into(),
                o.table_suffix.into(),
                o.tsdb_pagesize_kib.into(),
                o.keep_time_offset_hours.into(),
            ]);
        }
        table
    }

    /// `unsynced`, as TDengine calls a database of which not every vgroup has somebody who serves it.
    fn database_status(&self, vgroups: &[VgroupId]) -> &'static str {
        if self.online(vgroups).count() == vgroups.len() { "ready" } else { "unsynced" }
    }

    fn ins_stables(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("stable_name", Kind::Text),
            ("db_name", Kind::Text),
            ("create_time", Kind::Time),
            ("columns", Kind::Int),
            ("tags", Kind::Int),
            ("last_update", Kind::Time),
            ("table_comment", Kind::Text),
            ("watermark", Kind::Text),
            ("max_delay", Kind::Text),
            ("rollup", Kind::Text),
            ("uid", Kind::Big),
            ("isvirtual", Kind::Bool),
        ]);
        for database in self.databases_where(session, Access::any) {
            for stable in database.stables.values() {
                table.push([
                    stable.name.as_str().into(),
                    database.info.name.as_str().into(),
                    Cell::Time(stable.create_time_ns),
                    stable.schema.columns.len().into(),
                    stable.schema.tags.len().into(),
                    Cell::Time(stable.create_time_ns),
                    stable.comment.as_deref().into(),
                    Cell::Null,
                    Cell::Null,
                    Cell::Null,
                    stable.uid.0.into(),
                    Cell::Bool(false),
                ]);
            }
        }
        table
    }

    /// Databases to which the session has such access.
    fn databases_where(&self, session: &Session, wanted: fn(Access) -> bool) -> Vec<Arc<Database>> {
        let seen = self.mnode.databases(&session.user).into_iter();
        seen.filter(|(_, access)| wanted(*access)).map(|(database, _)| database).collect()
    }

    /// Calls `row` for every table of these databases.
    fn each_table(
        &self,
        databases: &[Arc<Database>],
        mut row: impl FnMut(&Database, VgroupId, &TableInfo) -> Result<()>,
    ) -> Result<()> {
        for database in databases {
            for &vgroup in &database.info.vgroups {
                // Tables of a damaged vgroup are not known; the others are.
                let Ok(vnode) = self.shard(vgroup) else { continue };
                for table in vnode.all_tables() {
                    row(database, vgroup, &table)?;
                }
            }
        }
        Ok(())
    }

    fn ins_tables(&self, session: &Session) -> Result<SystemTable> {
        let mut rows = SystemTable::new(&[
            ("table_name", Kind::Text),
            ("db_name", Kind::Text),
            ("create_time", Kind::Time),
            ("columns", Kind::Int),
            ("stable_name", Kind::Text),
            ("uid", Kind::Big),
            ("vgroup_id", Kind::Int),
            ("ttl", Kind::Int),
            ("table_comment", Kind::Text),
            ("type", Kind::Text),
        ]);
        self.each_table(&self.databases_where(session, Access::any), |database, vgroup, table| {
            let (columns, stable, kind) = match &table.kind {
                TableKind::Normal { schema } => (schema.columns.len(), None, "NORMAL_TABLE"),
                TableKind::Child { stable, .. } => {
                    let stable = database.stable_by_uid(*stable);
                    let columns = stable.map_or(0, |stable| stable.schema.columns.len());
                    (columns, stable.map(|stable| stable.name.clone()), "CHILD_TABLE")
                }
            };
            rows.push([
                table.name.as_str().into(),
                database.info.name.as_str().into(),
                Cell::Time(table.create_time_ns),
                columns.into(),
                stable.into(),
                table.uid.0.into(),
                vgroup.0.into(),
                table.ttl_days.into(),
                table.comment.as_deref().into(),
                kind.into(),
            ]);
            Ok(())
        })?;
        Ok(rows)
    }

    fn ins_tags(&self, session: &Session) -> Result<SystemTable> {
        let mut rows = SystemTable::new(&[
            ("table_name", Kind::Text),
            ("db_name", Kind::Text),
            ("stable_name", Kind::Text),
            ("tag_name", Kind::Text),
            ("tag_type", Kind::Text),
            ("tag_value", Kind::Text),
        ]);
        // Tags are data.
        self.each_table(&self.databases_where(session, |access| access.read), |database, _, table| {
            let TableKind::Child { stable, tags } = &table.kind else { return Ok(()) };
            let Some(stable) = database.stable_by_uid(*stable) else { return Ok(()) };
            for (tag, value) in stable.schema.tags.iter().zip(tags.iter()) {
                rows.push([
                    table.name.as_str().into(),
                    database.info.name.as_str().into(),
                    stable.name.as_str().into(),
                    tag.name.as_str().into(),
                    tag.data_type.to_string().into(),
                    if value.is_null() { Cell::Null } else { value.to_string().into() },
                ]);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    fn ins_vgroups(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("vgroup_id", Kind::Int),
            ("db_name", Kind::Text),
            ("tables", Kind::Int),
            ("v1_dnode", Kind::Small),
            ("v1_status", Kind::Text),
            ("v1_applied/committed", Kind::Text),
            ("keep_version", Kind::Big),
            ("keep_version_time", Kind::Time),
            ("wal_first", Kind::Big),
            ("wal_end", Kind::Big),
            ("note", Kind::Text),
        ]);
        for database in self.databases_where(session, Access::any) {
            for &vgroup in &database.info.vgroups {
                let name: Cell = database.info.name.as_str().into();
                match self.vnodes.slot(vgroup) {
                    Some(Slot::Online(vnode)) => {
                        let at = vnode.positions();
                        let damage = vnode.log_damage();
                        let keep = vnode.keep_version();
                        table.push([
                            vgroup.0.into(),
                            name,
                            vnode.counts().tables.into(),
                            1_u8.into(),
                            if damage.is_some() { "damaged" } else { "leader" }.into(),
                            format!("{}/{}", at.applied, at.committed).into(),
                            keep.map(|keep| keep.from.0).into(),
                            keep.map(|keep| Cell::Time(keep.set_ns)).into(),
                            at.retained.0.into(),
                            at.end().0.into(),
                            damage.map(|error| error.message().to_owned()).into(),
                        ]);
                    }
                    other => {
                        let (status, note) = match other {
                            Some(Slot::Damaged(error)) => ("damaged", error.message().to_owned()),
                            _ => ("offline", "not open".to_owned()),
                        };
                        table.push([
                            vgroup.0.into(),
                            name,
                            Cell::Null,
                            1_u8.into(),
                            status.into(),
                            Cell::Null,
                            Cell::Null,
                            Cell::Null,
                            Cell::Null,
                            Cell::Null,
                            note.into(),
                        ]);
                    }
                }
            }
        }
        table
    }

    fn ins_topics(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("topic_name", Kind::Text),
            ("db_name", Kind::Text),
            ("create_time", Kind::Time),
            ("sql", Kind::Text),
            ("schema", Kind::Text),
            ("meta", Kind::Text),
            ("type", Kind::Text),
            ("note", Kind::Text),
        ]);
        let catalog = self.mnode.catalog();
        for topic in self.mnode.show_topics(&session.user) {
            let is_bare = catalog.topic(&topic.name).is_ok_and(|topic| !self.has_table_of(topic.id));
            let note = is_bare.then(|| "the table that it reads was dropped, nothing comes of it".to_owned());
            table.push([
                topic.name.into(),
                topic.database.into(),
                Cell::Time(topic.create_time_ns),
                topic.sql.into(),
                topic.schema.into(),
                topic.meta.into(),
                topic.kind.into(),
                note.into(),
            ]);
        }
        table
    }

    fn ins_subscriptions(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("topic_name", Kind::Text),
            ("consumer_group", Kind::Text),
            ("vgroup_id", Kind::Int),
            ("consumer_id", Kind::Text),
            ("user", Kind::Text),
            ("fqdn", Kind::Text),
            ("offset", Kind::Text),
            ("rows", Kind::Big),
            ("committed", Kind::Text),
            ("lag", Kind::Big),
            ("skipped", Kind::Big),
        ]);
        for row in self.mnode.show_subscriptions(&session.user) {
            let here = self.shard(row.vgroup).ok().map(|vnode| {
                let offsets = vnode.offsets(row.topic_id, &row.group);
                let position = row.position().or(offsets.committed).or(offsets.start);
                (offsets.committed, vnode.behind(row.topic_id, &row.group, position))
            });
            let committed = here.and_then(|(committed, _)| committed);
            let behind = here.map(|(_, behind)| behind);
            let offset = row.offset();
            table.push([
                row.topic.into(),
                row.group.into(),
                row.vgroup.0.into(),
                row.consumer.map(|id| format!("{:#x}", id.0)).into(),
                row.user.into(),
                row.host.into(),
                offset.into(),
                row.rows.into(),
                committed.map(|version| format!("wal:{version}")).into(),
                behind.and_then(|behind| behind.lag).into(),
                behind.map(|behind| behind.skipped).into(),
            ]);
        }
        table
    }

    fn perf_consumers(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("consumer_id", Kind::Text),
            ("consumer_group", Kind::Text),
            ("client_id", Kind::Text),
            ("user", Kind::Text),
            ("fqdn", Kind::Text),
            ("status", Kind::Text),
            ("topics", Kind::Text),
            ("end_point", Kind::Text),
            ("up_time", Kind::Time),
            ("subscribe_time", Kind::Time),
            ("rebalance_time", Kind::Time),
            ("parameters", Kind::Text),
            ("poll_time", Kind::Time),
        ]);
        for row in self.mnode.show_consumers(&session.user) {
            table.push([
                format!("{:#x}", row.id.0).into(),
                row.group.into(),
                row.client_id.into(),
                row.user.into(),
                row.host.into(),
                row.state.as_str().into(),
                row.topic.into(),
                row.end_point.into(),
                Cell::Time(row.up_time_ns),
                Cell::Time(row.subscribe_time_ns),
                row.rebalance_time_ns.map_or(Cell::Null, Cell::Time),
                row.parameters.into(),
                row.poll_time_ns.map_or(Cell::Null, Cell::Time),
            ]);
        }
        table
    }

    /// Only root sees others.
    fn ins_users(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("name", Kind::Text),
            ("super", Kind::Tiny),
            ("enable", Kind::Tiny),
            ("sysinfo", Kind::Tiny),
            ("createdb", Kind::Tiny),
            ("create_time", Kind::Time),
            ("allowed_host", Kind::Text),
        ]);
        for user in self.users_seen(session) {
            table.push([
                user.name.into(),
                u8::from(user.super_user).into(),
                u8::from(user.enable).into(),
                u8::from(user.sysinfo).into(),
                u8::from(user.createdb).into(),
                Cell::Time(user.create_time_ns),
                Cell::Null,
            ]);
        }
        table
    }

    fn ins_variables(&self) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("name", Kind::Text),
            ("value", Kind::Text),
            ("scope", Kind::Text),
            ("category", Kind::Text),
            ("info", Kind::Text),
        ]);
        for row in self.mnode.show_settings() {
            let value = row.value.to_string();
            table.push([
                row.def.name.into(),
                value.into(),
                "server".into(),
                "local".into(),
                row.def.info.into(),
            ]);
        }
        table
    }

    /// Shards of these vgroups that serve.
    fn online<'a>(&'a self, vgroups: &'a [VgroupId]) -> impl Iterator<Item = Arc<vnode::Vnode>> + 'a {
        vgroups.iter().filter_map(|&vgroup| self.shard(vgroup).ok())
    }
}
