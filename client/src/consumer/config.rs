//! What a consumer can be told, by key as TMQ users know it or by typed setters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::{Code, Error, Result};
use proto::v1;

use super::CommitCallback;
use crate::connection::ConnectOptions;

/// Where a group starts on a vgroup of which it has no committed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// At the first version still in the log.
    Earliest,
    /// Behind the last version when the first poll reaches the vgroup.
    #[default]
    Latest,
    /// Nowhere: poll answers 0x0A0D.
    None,
}

impl AutoOffsetReset {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
            Self::None => "none",
        }
    }

    /// Reads that word in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Earliest, Self::Latest, Self::None].into_iter().find(|v| v.as_str().eq_ignore_ascii_case(text))
    }

    pub(crate) const fn to_wire(self) -> v1::ResetPolicy {
        match self {
            Self::Earliest => v1::ResetPolicy::Earliest,
            Self::Latest => v1::ResetPolicy::Latest,
            Self::None => v1::ResetPolicy::None,
        }
    }
}

/// Why [`ConsumerConfig::set`] refused. The configuration is then as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The key takes other values.
    #[error("invalid value of consumer parameter: {key}={value}; {range}")]
    InvalidValue {
        /// The key.
        key: String,
        /// The value given; `***` for secrets.
        value: String,
        /// What it takes.
        range: &'static str,
    },
    /// No such key.
    #[error("unknown consumer parameter: {key}")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// The key exists, what it asks for is not built.
    #[error("consumer parameter not supported yet: {key}={value}")]
    NotSupported {
        /// The key.
        key: &'static str,
        /// The value given; `***` for secrets.
        value: String,
    },
}

impl ConfigError {
    /// TMQ's number: -1 for a value, -2 for a key.
    #[must_use]
    pub const fn number(&self) -> i32 {
        match self {
            Self::InvalidValue { .. } | Self::NotSupported { .. } => -1,
            Self::UnknownKey { .. } => -2,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        let code = match error {
            ConfigError::NotSupported { .. } => Code::NotSupported,
            ConfigError::InvalidValue { .. } | ConfigError::UnknownKey { .. } => Code::SubscribeOptionInvalid,
        };
        Self::with(code, error)
    }
}

/// Settings of a consumer; the defaults are those of the keys.
///
/// ```
/// use client::{AutoOffsetReset, ConsumerConfig};
///
/// let mut config = ConsumerConfig::new("billing");
/// config.set("session.timeout.ms", "6000")?;
/// config.auto_offset_reset = AutoOffsetReset::Earliest;
/// assert_eq!(config.set("session.timeout.ms", "5999").unwrap_err().number(), -1);
/// assert_eq!(config.set("no.such.key", "1").unwrap_err().number(), -2);
/// # Ok::<(), client::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct ConsumerConfig {
    /// `td.connect.*`; not looked at by [`Connection::consumer`](crate::Connection::consumer).
    pub connect: ConnectOptions,
    /// `group.id`
    pub group: String,
    /// `client.id`, shown in SHOW CONSUMERS.
    pub client_id: String,
    /// `auto.offset.reset`
    pub auto_offset_reset: AutoOffsetReset,
    /// `enable.auto.commit`; replay switches it off.
    pub enable_auto_commit: bool,
    /// `auto.commit.interval.ms`
    pub auto_commit_interval_ms: u32,
    /// `session.timeout.ms`
    pub session_timeout_ms: u32,
    /// `heartbeat.interval.ms`
    pub heartbeat_interval_ms: u32,
    /// `max.poll.interval.ms`
    pub max_poll_interval_ms: u32,
    /// `fetch.max.wait.ms`
    pub fetch_max_wait_ms: u32,
    /// `min.poll.rows`
    pub min_poll_rows: u32,
    /// `msg.with.table.name`; only shown in SHOW CONSUMERS.
    pub with_table_name: bool,
    /// `enable.replay`: messages come with the gaps of the original writes.
    pub enable_replay: bool,
    /// `msg.enable.batchmeta`
    pub batch_meta: bool,
    /// `msg.consume.excluded`: leave out what came from replication.
    pub exclude_replicated: bool,
    /// `enable.wal.marker`: each commit also asks the server to keep the log from its offset on, whatever the database's
    /// retention, until a later commit or TRIM DATABASE .. WAL. One such mark a vgroup, whichever group set it last.
    pub wal_marker: bool,
    /// Ours: go on by itself when the connection broke. Without it the consumer closes with the error.
    pub reconnect: bool,
    /// Ours: messages fetched ahead of poll, at most.
    pub messages_ahead: u32,
    /// Told of each automatic commit; without it failures are logged.
    pub on_auto_commit: Option<CommitCallback>,
}

impl fmt::Debug for ConsumerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerConfig")
            .field("connect", &self.connect)
            .field("group", &self.group)
            .field("auto_offset_reset", &self.auto_offset_reset)
            .field("enable_auto_commit", &self.enable_auto_commit)
            .finish_non_exhaustive()
    }
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            group: String::new(),
            client_id: String::new(),
            auto_offset_reset: AutoOffsetReset::Latest,
            enable_auto_commit: true,
            auto_commit_interval_ms: 5_000,
            session_timeout_ms: 12_000,
            heartbeat_interval_ms: 3_000,
            max_poll_interval_ms: 300_000,
            fetch_max_wait_ms: 1_000,
            min_poll_rows: 4_096,
            with_table_name: false,
            enable_replay: false,
            batch_meta: false,
            exclude_replicated: false,
            wal_marker: false,
            reconnect: true,
            messages_ahead: 16,
            on_auto_commit: None,
        }
    }
}

const GROUP_BYTES_MAX: usize = 192;
const CLIENT_ID_BYTES_MAX: usize = 255;
const INT_MAX: i64 = i32::MAX as i64;

/// What a value is refused with inside [`ConsumerConfig::set`]: what the key takes.
type Range = &'static str;

impl ConsumerConfig {
    /// Defaults, for `group`.
    #[must_use]
    pub fn new(group: impl Into<String>) -> Self {
        Self { group: group.into(), ..Self::default() }
    }

    /// Sets one parameter by its key. Keys, booleans and enumerations count in any case.
    ///
    /// # Errors
    /// [`ConfigError`]: unknown key, value out of range, or a feature that is not built.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let lower = key.to_ascii_lowercase();
        let secret = matches!(lower.as_str(), "td.connect.pass" | "td.connect.token");
        let shown = || if secret { "***".to_owned() } else { value.to_owned() };
        let not_supported = |key| Err(ConfigError::NotSupported { key, value: shown() });
        let done: Result<(), Range> = match lower.as_str() {
            "td.connect.ip" => self.set_host(Some(value), None),
            "td.connect.port" => self.set_host(None, Some(value)),
            "td.connect.user" => store(&mut self.connect.user, Ok(value.to_owned())),
            "td.connect.pass" => store(&mut self.connect.password, Ok(value.to_owned())),
            "td.connect.token" => return not_supported("td.connect.token"),
            "td.connect.db" => Ok(()),
            "group.id" => {
                let cut = cut_at(value, GROUP_BYTES_MAX).to_owned();
                store(&mut self.group, if value.contains(':') { Err("without `:`") } else { Ok(cut) })
            }
            "client.id" => store(&mut self.client_id, Ok(cut_at(value, CLIENT_ID_BYTES_MAX).to_owned())),
            "auto.offset.reset" => {
                let policy = AutoOffsetReset::parse(value).ok_or("earliest, latest or none");
                store(&mut self.auto_offset_reset, policy)
            }
            "enable.auto.commit" => store(&mut self.enable_auto_commit, boolean(value)),
            "auto.commit.interval.ms" => {
                store(&mut self.auto_commit_interval_ms, int(value, 0, INT_MAX, "0 to 2147483647"))
            }
            "session.timeout.ms" => {
                store(&mut self.session_timeout_ms, int(value, 6_000, 1_800_000, "6000 to 1800000"))
            }
            "heartbeat.interval.ms" => {
                let max = i64::from(self.session_timeout_ms) - 1;
                let range = "1000 to less than session.timeout.ms";
                store(&mut self.heartbeat_interval_ms, int(value, 1_000, max, range))
            }
            "max.poll.interval.ms" => {
                store(&mut self.max_poll_interval_ms, int(value, 1_000, INT_MAX, "1000 to 2147483647"))
            }
            "fetch.max.wait.ms" => {
                store(&mut self.fetch_max_wait_ms, int(value, 1, INT_MAX, "1 to 2147483647"))
            }
            "min.poll.rows" => store(&mut self.min_poll_rows, int(value, 1, INT_MAX, "1 to 2147483647")),
            "msg.with.table.name" => store(&mut self.with_table_name, boolean(value)),
            "enable.replay" => store(&mut self.enable_replay, boolean(value)),
            "msg.enable.batchmeta" => store(&mut self.batch_meta, Ok(non_zero(value))),
            "msg.consume.excluded" => store(&mut self.exclude_replicated, Ok(non_zero(value))),
            "msg.consume.rawdata" if non_zero(value) => return not_supported("msg.consume.rawdata"),
            "msg.consume.rawdata" => Ok(()),
            "experimental.snapshot.enable" => match boolean(value) {
                Ok(true) => return not_supported("experimental.snapshot.enable"),
                other => other.map(drop),
            },
            "enable.wal.marker" => store(&mut self.wal_marker, boolean(value)),
            _ => return Err(ConfigError::UnknownKey { key: key.to_owned() }),
        };
        done.map_err(|range| ConfigError::InvalidValue { key: key.to_owned(), value: shown(), range })
    }

    /// The same, for chains.
    ///
    /// # Errors
    /// As [`ConsumerConfig::set`].
    pub fn with(mut self, key: &str, value: &str) -> Result<Self, ConfigError> {
        self.set(key, value)?;
        Ok(self)
    }

    /// Sets what is told of each automatic commit.
    #[must_use]
    pub fn on_auto_commit(mut self, callback: impl Fn(Result<()>) + Send + Sync + 'static) -> Self {
        self.on_auto_commit = Some(Arc::new(callback));
        self
    }

    /// Whether poll commits by itself.
    #[must_use]
    pub fn commits_automatically(&self) -> bool {
        self.enable_auto_commit && !self.enable_replay
    }

    fn set_host(&mut self, host: Option<&str>, port: Option<&str>) -> Result<(), Range> {
        let (old_host, old_port) = match self.connect.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (self.connect.host.as_str(), "6030"),
        };
        let port = port.unwrap_or(old_port);
        int(port, 1, 65_535, "1 to 65535")?;
        self.connect.host = format!("{}:{port}", host.unwrap_or(old_host));
        Ok(())
    }

    /// What every consumer needs, whichever way it was configured.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |text: &str| Err(Error::text(Code::InvalidParameters, text));
        if self.group.is_empty() {
            return invalid("group is empty: set group.id");
        }
        if self.group.contains(':') || self.group.len() > GROUP_BYTES_MAX {
            return invalid("group.id is at most 192 bytes, without `:`");
        }
        if self.heartbeat_interval_ms >= self.session_timeout_ms {
            return invalid("heartbeat.interval.ms must be less than session.timeout.ms");
        }
        Ok(())
    }

    pub(crate) fn parameters(&self) -> v1::ConsumerParameters {
        v1::ConsumerParameters {
            session_timeout_ms: self.session_timeout_ms,
            max_poll_interval_ms: self.max_poll_interval_ms,
            enable_auto_commit: self.commits_automatically(),
            auto_commit_interval_ms: self.auto_commit_interval_ms,
            auto_offset_reset: self.auto_offset_reset.to_wire().into(),
            with_table_name: self.with_table_name,
            replay: self.enable_replay,
        }
    }

    pub(crate) fn heartbeat_interval(&self) -> Duration {
        Duration::from_millis(self.heartbeat_interval_ms.into())
    }
}

fn store<T>(place: &mut T, value: Result<T, Range>) -> Result<(), Range> {
    *place = value?;
    Ok(())
}

fn boolean(value: &str) -> Result<bool, Range> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false"),
    }
}

fn int(value: &str, min: i64, max: i64, range: Range) -> Result<u32, Range> {
    let number: i64 = value.trim().parse().map_err(|_| range)?;
    let fits = (min..=max).contains(&number).then_some(number);
    fits.and_then(|number| u32::try_from(number).ok()).ok_or(range)
}

/// What is no number counts as 0, as in C.
fn non_zero(value: &str) -> bool {
    value.trim().parse::<i64>().is_ok_and(|number| number != 0)
}

/// The first `bytes_max` bytes, or up to three fewer where a character would be cut.
fn cut_at(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> i32 {
        ConsumerConfig::default().set(key, value).map_or_else(|e| e.number(), |()| 0)
    }

    #[test]
    fn s15_35_s15_36_ranges_are_those_of_the_keys() {
        let cases = [
            ("session.timeout.ms", ["5999", "1800001"], ["6000", "1800000"]),
            ("max.poll.interval.ms", ["999", "2147483648"], ["1000", "2147483647"]),
            ("fetch.max.wait.ms", ["0", "x"], ["1", "2147483647"]),
            ("min.poll.rows", ["0", ""], ["1", "2147483647"]),
            ("heartbeat.interval.ms", ["999", "12000"], ["1000", "11999"]),
            ("auto.commit.interval.ms", ["-1", "2147483648"], ["0", "2147483647"]),
            ("td.connect.port", ["0", "65536"], ["1", "65535"]),
            ("enable.auto.commit", ["1", "yes"], ["TRUE", "false"]),
            ("auto.offset.reset", ["", "first"], ["Earliest", "NONE"]),
            ("group.id", ["a:b", ":"], ["a", ""]),
            ("msg.with.table.name", ["0", "on"], ["true", "False"]),
            ("enable.replay", ["2", ""], ["true", "false"]),
        ];
        for (key, bad, good) in cases {
            assert_eq!(bad.map(|v| set(key, v)), [-1, -1], "{key}");
            assert_eq!(good.map(|v| set(key, v)), [0, 0], "{key}");
            assert_eq!(set(&key.to_uppercase(), good[0]), 0, "{key} in upper case");
        }
        assert_eq!(set("group.name", "g"), -2);
        assert_eq!(set("", ""), -2);
    }

    #[test]
    fn flags_that_are_numbers_take_anything() {
        for key in ["msg.enable.batchmeta", "msg.consume.excluded"] {
            assert_eq!(["0", "1", "-3", "text"].map(|v| set(key, v)), [0; 4], "{key}");
        }
        let mut config = ConsumerConfig::default();
        config.set("msg.enable.batchmeta", "2").unwrap();
        config.set("msg.consume.excluded", "text").unwrap();
        assert!(config.batch_meta && !config.exclude_replicated);
    }

    #[test]
    fn what_is_not_built_says_so_and_may_be_switched_off() {
        for (key, on, off) in
            [("experimental.snapshot.enable", "true", "false"), ("msg.consume.rawdata", "1", "0")]
        {
            let refused = ConsumerConfig::default().set(key, on).unwrap_err();
            assert!(matches!(refused, ConfigError::NotSupported { .. }), "{refused}");
            assert_eq!((refused.number(), set(key, off)), (-1, 0));
        }
        let token = ConsumerConfig::default().set("td.connect.token", "s3cret").unwrap_err();
        assert!(!token.to_string().contains("s3cret"), "{token}");
        assert_eq!(Error::from(token).code(), Code::NotSupported);
    }

    #[test]
    fn long_names_are_cut_and_a_refused_value_changes_nothing() {
        let mut config = ConsumerConfig::default();
        config.set("group.id", &"ä".repeat(100)).unwrap();
        assert_eq!(config.group.len(), 192);
        config.set("client.id", &"c".repeat(300)).unwrap();
        assert_eq!(config.client_id.len(), 255);
        config.set("group.id", "a:b").unwrap_err();
        assert_eq!(config.group.len(), 192);
        config.set("td.connect.ip", "db.example").unwrap();
        config.set("td.connect.port", "7000").unwrap();
        config.set("td.connect.ip", "other").unwrap();
        assert_eq!(config.connect.host, "other:7000");
    }

    #[test]
    fn a_group_is_needed() {
        let error = ConsumerConfig::new("").check().unwrap_err();
        assert!(error.message().contains("group is empty"));
        ConsumerConfig::new("g").check().unwrap();
    }

    #[test]
    fn replay_switches_automatic_commits_off() {
        let config = ConsumerConfig::new("g").with("enable.replay", "true").unwrap();
        assert!(config.enable_auto_commit && !config.commits_automatically());
        assert!(!config.parameters().enable_auto_commit);
    }
}
