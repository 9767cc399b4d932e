//! Passes rows on, and nothing of what is known about them.
//!
//! The one row of an aggregation without keys makes every column of it a constant, and DataFusion carries each constant
//! through each further node by comparing it with each column there: with thousands of aggregates that is all of a
//! query's time. Behind this operator they are columns like others.

use arrow::record_batch::RecordBatch;
use datafusion::common::Result as DfResult;

use crate::memory::Reservation;
use crate::operator::node::{Operator, Running};

/// The operator, and a run of it: there is nothing to keep.
#[derive(Debug)]
pub(crate) struct Plain;

impl Operator for Plain {
    fn describe(&self) -> String {
        "Plain".to_owned()
    }

    fn start(&self, _memory: Reservation) -> Box<dyn Running> {
        Box::new(Self)
    }
}

impl Running for Plain {
    fn push(&mut self, batch: RecordBatch) -> DfResult<Vec<RecordBatch>> {
        Ok(vec![batch])
    }

    fn finish(&mut self) -> DfResult<Vec<RecordBatch>> {
        Ok(Vec::new())
    }
}
