//! Settings of the instance that may change while it runs.

use model::{Code, Error, Result};

use super::MnodeState;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingDef {
    /// Name as TDengine spells it.
    pub name: &'static str,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
    /// Value until it is set.
    pub default: i64,
    /// One line for SHOW VARIABLES.
    pub info: &'static str,
}

/// Topics an instance may have.
pub const TOPICS_MAX: &str = "tmqMaxTopicNum";
/// Seconds between two checks of the coordinator.
pub const REBALANCE_INTERVAL_S: &str = "mqRebalanceInterval";
/// Whether passwords need three classes of characters.
pub const STRONG_PASSWORD: &str = "enableStrongPassword";

/// Longest SQL statement in bytes.
pub const SQL_BYTES_MAX: &str = "maxSQLLength";

/// Every setting.
pub const SETTINGS: &[SettingDef] = &[
    SettingDef {
        name: STRONG_PASSWORD,
        min: 0,
        max: 1,
        default: 1,
        info: "passwords need three of: upper case, lower case, digit, special character",
    },
    SettingDef {
        name: SQL_BYTES_MAX,
        min: 65_480,
        max: 64 << 20,
        default: 1 << 20,
        info: "bytes of an SQL statement at most",
    },
    SettingDef {
        name: REBALANCE_INTERVAL_S,
        min: 1,
        max: 10_000,
        default: 2,
        info: "seconds between two checks of consumers",
    },
    SettingDef { name: TOPICS_MAX, min: 1, max: 10_000, default: 20, info: "topics of the instance" },
];

/// The setting called `name`, in any case.
///
/// # Errors
/// 0x6F09
pub fn setting(name: &str) -> Result<&'static SettingDef> {
    SETTINGS.iter().find(|s| s.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        Error::with(Code::InvalidConfig, format_args!("no such setting name={name}"))
            .hint("SHOW VARIABLES lists the settings that change at run time")
    })
}

impl MnodeState {
    /// The value in force. Unknown names, which the code does not have, read as 0.
    #[must_use]
    pub fn setting(&self, name: &str) -> i64 {
        let set = self.settings.get(name).copied();
        set.or_else(|| setting(name).ok().map(|s| s.default)).unwrap_or_default()
    }

    pub(super) fn check_set(&self, by: &str, name: &str, value: i64) -> Result<()> {
        self.require_super(by)?;
        let setting = setting(name)?;
        if !(setting.min..=setting.max).contains(&value) {
            return Err(Error::with(
                Code::OutOfRange,
                format_args!("{} {value} valid range: [{}, {}]", setting.name, setting.min, setting.max),
            ));
        }
        Ok(())
    }

    pub(super) fn apply_set(&mut self, name: &str, value: i64) {
        if let Ok(setting) = setting(name) {
            self.settings.insert(setting.name.to_owned(), value);
        }
    }
}
