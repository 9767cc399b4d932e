//! The dialect from text to rows, over shards that hold their rows in memory.
#![cfg(test)]

mod acceptance;
mod insert;
mod oracle;
mod refusals;
mod shard;
mod store;
mod sums;
mod topics;
mod turns;
mod wide;
