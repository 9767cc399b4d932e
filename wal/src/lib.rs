//! A write-ahead log that is also a queue and a Raft log: numbered records in segment files, read by any number of
//! readers beside one writer. It knows records, not tables: bodies and schema blocks are opaque bytes.
//!
//! It is *not* for: deciding when to sync or what an acknowledgement means (the owner calls [`Wal::sync`] and looks at
//! the version it answers), votes and other Raft state, locking the directory against other processes. It has no
//! threads, no runtime and no clock: `now_ns` and the seed of salts come in as arguments. The one thing to await is
//! [`Reader::ready`], which any executor drives.
//!
//! # Positions
//! A [`Version`] counts records from wherever the first append chose, without gaps. Of every log
//! `first_version <= durable_next <= next_version`: versions from the first up to, not including, `next_version` can be
//! read, and those below `durable_next` survive any crash.
//!
//! # Reading top down
//! [`Wal`] (`log`, `writer`, `rewind`, `open`) > `segment` > `cursor` (walks blocks) > `format` (fixes the bytes) >
//! [`disk`]. [`Reader`] stands beside the writer and shares with it only what `shared` publishes. [`verify()`], [`dump()`]
//! and [`repair`] look at a log from outside; `find` tells them what belongs to it. `docs/wal-format.md` draws the bytes,
//! `docs/decisions/0001-record-header-and-crc-chain.md` says why they are so.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use wal::{Kind, NewRecord, Options, StdDisk, Version, Wal};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let (log, report) = Wal::open(Arc::new(StdDisk), dir.path(), Options::default(), 0)?;
//! assert!(report.torn.is_none());
//! let body = "hello".into();
//! let record = NewRecord { term: 1, time_ns: 17, kind: Kind::Data, flags: 0, body, schemas: vec![] };
//! let appended = log.append(Version(1), &[record], 17)?;
//! assert_eq!(log.sync()?, appended.next);
//!
//! let mut reader = log.reader(Version(1));
//! let record = reader.next()?.ok_or("a record")?;
//! assert_eq!((record.version, &record.body[..]), (Version(1), &b"hello"[..]));
//! assert!(reader.next()?.is_none(), "nothing more so far");
//! # Ok(())
//! # }
//! ```

mod batch;
mod buffer;
mod cursor;
pub mod disk;
mod dump;
mod error;
mod find;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod log;
mod open;
mod options;
mod reader;
mod record;
pub mod repair;
mod retained;
mod retention;
mod rewind;
mod salt;
mod scan;
mod segment;
mod shared;
pub mod sim;
mod sync;
mod turn;
mod verify;
mod watermark;
mod writer;

pub use batch::record_bytes;
pub use disk::{Disk, DiskFile, StdDisk, is_out_of_space, read_file, reserve_replacement, write_file_atomic};
pub use dump::{Dump, DumpFilter, Dumped, dump};
pub use error::{Damage, Fault, Result, WalError};
pub use find::log_dirs;
pub use format::record::Kind;
pub use format::segment::LastRecord;
pub use format::{BODY_BYTES_MAX, FORMAT_VERSION};
pub use log::{AppendOutcome, RetainOutcome, Size, Wal};
pub use model::Version;
pub use open::{Ignored, IgnoredFile, OpenReport, TornTail};
#[doc(hidden)]
pub use options::Planted;
pub use options::{Options, Rolling};
pub use reader::{Reader, WalReader};
pub use record::{NewRecord, Record, SchemaBlock, SchemaKey};
pub use retention::Retention;
pub use verify::{SegmentReport, SegmentState, verify};
pub use watermark::{Passed, Watermark};
