//! What is measured: each workload starts the peers that it needs, lets them take turns, and answers with rows of the
//! table. Another one is another file here.

pub mod acked;
pub mod backlog;
pub mod filter;
pub mod idle;
pub mod join;
pub mod latency;
pub mod publish;
pub mod rebalance;
pub mod stream;

use std::path::PathBuf;

/// What all workloads are told.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Tidemark's binary.
    pub tidemark: PathBuf,
    /// Turns of each peer; medians are taken over them.
    pub rounds: u32,
    /// Share of the full amounts.
    pub percent: u64,
    /// Vgroups of the database, where a workload does not need a number of its own.
    pub vgroups: u32,
}

impl Bench {
    /// The share that was asked for of a full amount, at least one.
    pub fn amount(&self, full: u64) -> u64 {
        (full * self.percent / 100).max(1)
    }
}
