//! The words that every part of Tidemark shares: ids, data types and schemas, timestamps and their precision, values,
//! database options, and the one table of error codes.
//!
//! Nothing here reads a clock, a disk or a socket, and nothing here knows SQL text beyond the literals of time and
//! duration, which the command line, the importer and the SQL parser must read alike.

mod catalog;
mod clock;
mod duration;
mod error;
mod ids;
pub mod limits;
mod options;
mod origin;
mod placement;
mod precision;
mod schema;
mod time;
mod types;
mod value;

pub use catalog::{DatabaseInfo, StableInfo, TableInfo, TableKind};
pub use clock::{Clock, ManualClock};
pub use duration::{DurationLiteral, TimeUnit};
pub use error::{Code, Error, ErrorKind, Place, Result};
pub use ids::{ColumnId, ConsumerId, DatabaseId, Epoch, SchemaVersion, TableUid, TopicId, Version, VgroupId};
pub use options::{CacheModel, DatabaseChange, DatabaseOptions, WalOptions, minutes_text};
pub use origin::Origin;
pub use placement::vgroup_slot;
pub use precision::Precision;
pub use schema::{
    ColumnDef, ColumnStorage, Compression, Encoding, Level, StoredLevel, TableSchema, check_key_type,
};
pub use time::{Zone, format_timestamp, parse_timestamp};
pub use types::{
    DataType, JSON_BYTES_MAX, NCHAR_CHARS_MAX, NCHAR_TAG_CHARS_MAX, VARCHAR_BYTES_MAX, VARCHAR_TAG_BYTES_MAX,
    arrow_unit,
};
pub use value::Value;
