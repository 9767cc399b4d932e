//! LIMIT inside each partition, and SLIMIT over them.

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result as DfResult, ScalarValue};

use crate::ast::Limit;
use crate::memory::Reservation;
use crate::operator::node::{Operator, Running};

/// Reads rows of which those of one partition lie together.
#[derive(Debug)]
pub(crate) struct PartitionLimit {
    /// Columns that tell partitions apart.
    pub(crate) keys: Vec<usize>,
    /// Inside each.
    pub(crate) limit: Option<Limit>,
    /// Over them.
    pub(crate) partitions: Option<Limit>,
}

impl Operator for PartitionLimit {
    fn describe(&self) -> String {
        format!(
            "PartitionLimit: keys={:?}, limit={:?}, partitions={:?}",
            self.keys, self.limit, self.partitions
        )
    }

    fn start(&self, _memory: Reservation) -> Box<dyn Running> {
        Box::new(Run {
            keys: self.keys.clone(),
            limit: Slice::of(self.limit),
            partitions: Slice::of(self.partitions),
            current: None,
            partition: 0,
            row: 0,
        })
    }
}

/// Positions `first..next` of something counted.
#[derive(Clone, Copy, Debug)]
struct Slice {
    first: u64,
    next: u64,
}

impl Slice {
    fn of(limit: Option<Limit>) -> Self {
        match limit {
            None => Self { first: 0, next: u64::MAX },
            Some(l) => {
                Self { first: l.offset, next: l.count.map_or(u64::MAX, |c| l.offset.saturating_add(c)) }
            }
        }
    }
}

struct Run {
    keys: Vec<usize>,
    limit: Slice,
    partitions: Slice,
    current: Option<Vec<ScalarValue>>,
    /// Partitions before the current one.
    partition: u64,
    /// Rows of the current partition seen.
    row: u64,
}

impl Running for Run {
    fn push(&mut self, batch: RecordBatch) -> DfResult<Vec<RecordBatch>> {
        let mut output = Vec::new();
        for (start, rows) in runs(&batch, &self.keys)? {
            let key = row_key(&batch, &self.keys, start)?;
            if self.current.as_ref() != Some(&key) {
                if self.current.is_some() {
                    self.partition += 1;
                }
                self.current = Some(key);
                self.row = 0;
            }
            let (first, next) = (self.row, self.row + rows as u64);
            self.row = next;
            if self.partition < self.partitions.first || self.partition >= self.partitions.next {
                continue;
            }
            let (from, to) = (first.max(self.limit.first), next.min(self.limit.next));
            if from < to {
                // Both lie inside this batch, so they fit.
                let skip = usize::try_from(from - first).unwrap_or(0);
                let take = usize::try_from(to - from).unwrap_or(0);
                output.push(batch.slice(start + skip, take));
            }
        }
        Ok(output)
    }

    fn finish(&mut self) -> DfResult<Vec<RecordBatch>> {
        Ok(Vec::new())
    }

    fn is_done(&self) -> bool {
        self.partition >= self.partitions.next
    }
}

/// Stretches of equal keys: first row and number of rows.
pub(crate) fn runs(batch: &RecordBatch, keys: &[usize]) -> DfResult<Vec<(usize, usize)>> {
    if batch.num_rows() == 0 {
        return Ok(Vec::new());
    }
    let columns: Vec<ArrayRef> = keys.iter().map(|&k| batch.column(k).clone()).collect();
    if columns.is_empty() {
        return Ok(vec![(0, batch.num_rows())]);
    }
    let partitions = arrow::compute::partition(&columns)?;
    Ok(partitions.ranges().into_iter().map(|r| (r.start, r.len())).collect())
}

/// Keys of one row.
pub(crate) fn row_key(batch: &RecordBatch, keys: &[usize], row: usize) -> DfResult<Vec<ScalarValue>> {
    keys.iter().map(|&k| ScalarValue::try_from_array(batch.column(k), row)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn batch(rows: &[(Option<i32>, i32)]) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("k", DataType::Int32, true),
            Field::new("v", DataType::Int32, false),
        ]);
        let keys: Int32Array = rows.iter().map(|r| r.0).collect();
        let values: Int32Array = rows.iter().map(|r| Some(r.1)).collect();
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(keys), Arc::new(values)]).unwrap()
    }

    fn run(limit: Option<Limit>, partitions: Option<Limit>) -> Vec<i32> {
        let memory = crate::memory::QueryMemory::default().reservation("a test");
        let mut run = PartitionLimit { keys: vec![0], limit, partitions }.start(memory);
        let mut out = run.push(batch(&[(None, 1), (None, 2), (Some(1), 3)])).unwrap();
        out.extend(run.push(batch(&[(Some(1), 4), (Some(1), 5), (Some(2), 6)])).unwrap());
        out.extend(run.finish().unwrap());
        out.iter().flat_map(|b| b.column(1).as_primitive::<Int32Type>().values().to_vec()).collect()
    }

    #[test]
    fn counts_across_batches() {
        let limit = |count, offset| Some(Limit { count: Some(count), offset });
        assert_eq!(run(limit(1, 1), None), [2, 4]);
        assert_eq!(run(limit(2, 0), limit(1, 1)), [3, 4]);
        assert_eq!(run(None, limit(1, 2)), [6]);
        assert_eq!(run(limit(0, 0), None), [] as [i32; 0]);
    }
}
