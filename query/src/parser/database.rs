//! CREATE DATABASE and ALTER DATABASE.

use model::{Code, DatabaseOptions, Error, Result};

use super::options::{DatabaseOption, OptionPlace, check_keep};
use super::{NameKind, Parser, is_system_database};
use crate::ast::{DatabaseChange, Statement};

impl Parser<'_> {
    pub(super) fn create_database(&mut self) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name(NameKind::Database)?;
        if is_system_database(&name) {
            let text = format!("Cannot create system database: `{name}`");
            return Err(Error::text(Code::InvalidOperation, text));
        }
        let mut options = Box::<DatabaseOptions>::default();
        while let Some(option) = self.database_option(OptionPlace::Create)? {
            apply(&mut options, option);
        }
        check_keep(options.keep_minutes, options.duration_minutes, options.precision)?;
        Ok(Statement::CreateDatabase { if_not_exists, name, options })
    }

    pub(super) fn alter_database(&mut self) -> Result<Statement> {
        let name = self.name(NameKind::Database)?;
        let mut changes = Vec::new();
        let mut any = false;
        while let Some(option) = self.database_option(OptionPlace::Alter)? {
            any = true;
            if let DatabaseOption::Change(change) = option {
                changes.push(change);
            }
        }
        if !any {
            return Err(self.unexpected());
        }
        Ok(Statement::AlterDatabase { name, changes })
    }
}

fn apply(options: &mut DatabaseOptions, option: DatabaseOption) {
    match option {
        DatabaseOption::Change(change) => change.apply(options),
        DatabaseOption::Vgroups(n) => options.vgroups = n,
        DatabaseOption::Precision(precision) => options.precision = precision,
        DatabaseOption::PagesizeKib(n) => options.pagesize_kib = n,
        DatabaseOption::TsdbPagesizeKib(n) => options.tsdb_pagesize_kib = n,
        DatabaseOption::Comp(n) => options.comp = n,
        DatabaseOption::DurationMinutes(n) => options.duration_minutes = n,
        DatabaseOption::Maxrows(n) => options.maxrows = n,
        DatabaseOption::SingleStable(yes) => options.single_stable = yes,
        DatabaseOption::TablePrefix(n) => options.table_prefix = n,
        DatabaseOption::TableSuffix(n) => options.table_suffix = n,
        DatabaseOption::Ignored => {}
    }
}

impl DatabaseChange {
    /// Puts the change into `options`.
    pub fn apply(self, options: &mut DatabaseOptions) {
        match self {
            Self::Replica(n) => options.replica = n,
            Self::BufferMib(n) => options.buffer_mib = n,
            Self::Pages(n) => options.pages = n,
            Self::CacheModel(model) => options.cache_model = model,
            Self::CachesizeMib(n) => options.cachesize_mib = n,
            Self::KeepMinutes(keep) => options.keep_minutes = keep,
            Self::KeepTimeOffsetHours(n) => options.keep_time_offset_hours = n,
            Self::Minrows(n) => options.minrows = n,
            Self::SttTrigger(n) => options.stt_trigger = n,
            Self::WalLevel(n) => options.wal.level = n,
            Self::WalFsyncPeriodMs(n) => options.wal.fsync_period_ms = n,
            Self::WalRetentionPeriodS(n) => options.wal.retention_period_s = n,
            Self::WalRetentionSizeKib(n) => options.wal.retention_size_kib = n,
            Self::WalRollPeriodS(n) => options.wal.roll_period_s = n,
            Self::WalSegmentSizeKib(n) => options.wal.segment_size_kib = n,
        }
    }
}
