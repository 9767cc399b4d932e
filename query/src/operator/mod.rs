//! Operators that DataFusion lacks: scans of shards, FILL, limits inside partitions.

pub(crate) mod fair;
pub(crate) mod fill;
pub(crate) mod node;
pub(crate) mod partition;
pub(crate) mod plain;
pub(crate) mod pushdown;
pub(crate) mod scan;
pub(crate) mod sums;

pub use scan::table_batch;
