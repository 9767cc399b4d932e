//! What a table source must satisfy: the contract between the planner and the shards that hold rows.
//!
//! A relation is resolved before planning (the only asynchronous step), so that planning itself is a pure function of
//! the tree and of what its names meant.

use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::physical_plan::{PhysicalExpr, SendableRecordBatchStream};
use model::{ColumnId, DatabaseInfo, Result, StableInfo, TableInfo, TableUid, Version};
use parking_lot::Mutex;

use crate::memory::{QueryMemory, Reservation};

/// A table that a query names, with everything the planner needs to know of it.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Its database.
    pub database: Arc<DatabaseInfo>,
    /// What it is.
    pub kind: RelationKind,
    /// The shards that may hold its rows: every vgroup for a super table, one for a child or normal table.
    pub shards: Vec<Arc<dyn Shard>>,
}

/// Kind of relation.
#[derive(Clone, Debug)]
pub enum RelationKind {
    /// A super table: rows of all its children.
    Stable(Arc<StableInfo>),
    /// One child.
    Child {
        /// It, with its tags.
        table: Arc<TableInfo>,
        /// Whose columns it has.
        stable: Arc<StableInfo>,
    },
    /// A normal table.
    Normal(Arc<TableInfo>),
    /// A system table: its rows were made when the name was resolved. Has no primary timestamp and no tags.
    System {
        /// `information_schema.ins_topics` and so on.
        name: String,
        /// All rows.
        batch: RecordBatch,
    },
}

impl Relation {
    /// Its name, without the database.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.kind {
            RelationKind::Stable(stable) => &stable.name,
            RelationKind::Child { table, .. } | RelationKind::Normal(table) => &table.name,
            RelationKind::System { name, .. } => name,
        }
    }
}

/// One shard's side of a scan.
pub trait Shard: Send + Sync + fmt::Debug {
    /// Starts a scan. The stream shows the shard at one log version: the applied one of this moment, or
    /// [`ScanRequest::as_of`] where given and still held.
    ///
    /// Rows come deduplicated (per table, timestamp and composite key the last write wins, column by column), without deleted rows, and
    /// without rows older than KEEP.
    fn scan(&self, request: ScanRequest) -> Result<SendableRecordBatchStream>;

    /// As [`scan`](Self::scan), for aggregates: blocks of rows of which it knows what `summands` come to need not be among
    /// the rows. A shard that knows of none gives all rows, as here.
    fn scan_summed(&self, request: ScanRequest, _summands: &[Summand]) -> Result<SummedScan> {
        Ok(SummedScan { rows: self.scan(request)?, blocks: Arc::default() })
    }

    /// Child tables of a super table that pass `filter`, with tags, in uid order.
    fn tables(&self, request: TableListRequest) -> Result<Vec<Arc<TableInfo>>>;
}

/// A column of which a query wants to know what blocks of rows come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summand {
    /// Which.
    pub column: ColumnId,
    /// Blocks in which it is NULL somewhere are of no use.
    pub in_every_row: bool,
}

/// A scan of which some rows are summed up. Each row is either among the rows or in one of the blocks.
pub struct SummedScan {
    /// Rows.
    pub rows: SendableRecordBatchStream,
    /// Complete once `rows` has come to its end.
    pub blocks: Arc<Mutex<Vec<SummedBlocks>>>,
}

impl fmt::Debug for SummedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummedScan").finish_non_exhaustive()
    }
}

/// Blocks of rows that are summed up, each of one table.
#[derive(Debug)]
pub struct SummedBlocks {
    /// One row a block, with the columns of the request: tags and name of its table, NULL for data columns.
    pub labels: RecordBatch,
    /// Rows of each block.
    pub rows: Vec<u64>,
    /// Of the first and the last row of each block.
    pub times: Vec<TimeRange>,
    /// For each of the summands that were asked for, what it comes to in each block.
    pub sums: Vec<Vec<BlockSum>>,
    /// What they hold of the queries' memory.
    pub held: Reservation,
}

/// What the values of one column come to in one block of rows. Values are 64 bits: of an `i64` for signed integers, of a
/// `u64` for unsigned ones, of an `f64` for floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSum {
    /// Values that are not NULL; the others mean nothing where it is 0.
    pub count: u64,
    /// Their sum; that of integers wraps.
    pub sum: u64,
    /// Least.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Of the earliest row that has a value.
    pub first: u64,
    /// Of the latest row that has one.
    pub last: u64,
}

impl BlockSum {
    /// No value at all.
    pub const EMPTY: Self = Self { count: 0, sum: 0, min: 0, max: 0, first: 0, last: 0 };
    /// Nobody knows.
    pub const UNKNOWN: Self = Self { count: u64::MAX, ..Self::EMPTY };

    /// Whether it says anything.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.count != u64::MAX
    }

    /// Its numbers in the order of the fields.
    #[must_use]
    pub const fn numbers(&self) -> [u64; 6] {
        [self.count, self.sum, self.min, self.max, self.first, self.last]
    }
}

/// What to read.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The super table, or the normal table.
    pub relation: TableUid,
    /// One child only.
    pub child: Option<TableUid>,
    /// Output columns in order. Names and types are those of `schema`.
    pub columns: Vec<ScanColumn>,
    /// Output schema: columns and tags as their Arrow types, `tbname` as Dictionary(Int32, Utf8).
    pub schema: SchemaRef,
    /// Timestamps wanted, in ticks, both ends included.
    pub time: TimeRange,
    /// Which children, decided on tags and name before any row is read.
    pub table_filter: Option<TableFilter>,
    /// Row conditions that the source may use to skip; the plan checks them again.
    pub row_filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Order that the caller relies on.
    pub order: ScanOrder,
    /// No more rows than this are needed (after `table_filter` and `time`, only without `row_filters`).
    pub limit: Option<usize>,
    /// Show the rows as of this version.
    pub as_of: Option<Version>,
    /// What it may hold: rows that are made and not yet taken are reserved there.
    pub memory: QueryMemory,
}

/// One output column of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanColumn {
    /// A data column.
    Column(ColumnId),
    /// A tag of the row's table.
    Tag(ColumnId),
    /// The name of the row's table.
    Tbname,
}

/// Closed range of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First wanted.
    pub first: i64,
    /// Last wanted, included.
    pub last_inclusive: i64,
}

impl TimeRange {
    /// Everything.
    pub const ALL: Self = Self { first: i64::MIN, last_inclusive: i64::MAX };

    /// Whether no tick is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.first > self.last_inclusive
    }

    /// The ticks in both.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self {
            first: self.first.max(other.first),
            last_inclusive: self.last_inclusive.min(other.last_inclusive),
        }
    }

    /// Whether `ticks` is in it.
    #[must_use]
    pub const fn contains(self, ticks: i64) -> bool {
        self.first <= ticks && ticks <= self.last_inclusive
    }
}

/// A condition on the children of a super table.
#[derive(Clone, Debug)]
pub struct TableFilter {
    /// Names, where the condition holds for a known few only (`tbname = 'd1'`, `tbname IN (..)`): looked up, not scanned.
    pub names: Option<Vec<String>>,
    /// Evaluated over a batch of one row a child with the columns of `columns`; true keeps the child.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Columns of that batch: tags and tbname.
    pub columns: Vec<ScanColumn>,
    /// Their names and types.
    pub schema: SchemaRef,
}

/// Order of a scan's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanOrder {
    /// None needed.
    #[default]
    Any,
    /// By table (rows of one table lie together), then time, then composite key.
    TableTime,
    /// By time over all tables of the shard; rows of one instant and table by composite key.
    Time,
}

/// Which children to list.
#[derive(Clone, Debug)]
pub struct TableListRequest {
    /// The super table.
    pub stable: TableUid,
    /// Condition.
    pub filter: Option<TableFilter>,
}
