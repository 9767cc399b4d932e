//! What a reader holds.

use std::sync::Arc;

use datafusion::physical_plan::SendableRecordBatchStream;
use model::Error;
use query::source::{Summand, SummedScan};

use super::StoreOptions;
use super::deletions::Deletions;
use super::file::DataFile;
use super::memtable::Memtable;
use super::scan::{Scan, ScanPlan};
use super::scan_groups::Inputs;
use super::stream::stream;

/// The rows of one moment: later writes, deletions and flushes do not show, and no file that it reads is removed under
/// it.
#[derive(Clone, Debug)]
pub struct StoreSnapshot {
    pub(super) options: Arc<StoreOptions>,
    /// Oldest first.
    pub(super) memtables: Vec<Arc<Memtable>>,
    /// Blocks from this number on came later.
    pub(super) seq_end: u64,
    pub(super) files: Arc<Vec<Arc<DataFile>>>,
    pub(super) deletions: Arc<Deletions>,
}

impl StoreSnapshot {
    /// Rows as they are after all writes and deletions: one for each table, timestamp and composite key. Nothing is read before the
    /// stream is polled, which has to happen within a tokio runtime.
    #[must_use]
    pub fn scan(&self, plan: ScanPlan) -> SendableRecordBatchStream {
        let inputs = self.inputs(&plan);
        stream(Scan::new(plan, inputs))
    }

    /// As [`scan`](Self::scan), but blocks of rows whose `summands` are known need not be among the rows.
    #[must_use]
    pub fn scan_summed(&self, plan: ScanPlan, summands: &[Summand]) -> SummedScan {
        let inputs = self.inputs(&plan);
        let (mut scan, blocks) = (Scan::new(plan, inputs), Arc::default());
        scan.sum(summands, Arc::clone(&blocks));
        SummedScan { rows: stream(scan), blocks }
    }

    /// Reads every file whole and gives what is wrong, one error a file. Blocks on the disk, for long.
    #[must_use]
    pub fn verify(&self) -> Vec<Error> {
        self.files.iter().filter_map(|file| file.verify().err()).collect()
    }

    pub(super) fn inputs(&self, plan: &ScanPlan) -> Inputs {
        let dropped = self.deletions.dropped_owners.contains_key(&plan.owner);
        let (files, memtables) = if dropped {
            (Vec::new(), Vec::new())
        } else {
            let files = self.files.iter().filter(|file| file.meta.owner == plan.owner).cloned().collect();
            (files, self.memtables.iter().map(|memtable| (Arc::clone(memtable), self.seq_end)).collect())
        };
        Inputs {
            precision: self.options.precision,
            duration_ticks: self.options.duration_ticks,
            files,
            memtables,
            deletions: Arc::new(self.deletions.of(plan.owner, plan.time)),
        }
    }
}
