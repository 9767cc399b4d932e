//! Sorts rows of many tables by time.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use model::{Error, Result};

/// One sequence of batches in order of time; rows of one instant keep their order, which is that of tables. `ticks` are
/// the timestamps of each batch.
pub(super) fn sort_by_time(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    ticks: &[ScalarBuffer<i64>],
    batch_rows: usize,
) -> Result<Vec<RecordBatch>> {
    let ticks: Vec<i64> = ticks.iter().flat_map(|ticks| ticks.iter().copied()).collect();
    let rows = u32::try_from(ticks.len()).map_err(|_| Error::internal("too many rows to sort at once"))?;
    let mut order: Vec<u32> = (0..rows).collect();
    order.sort_by_key(|row| ticks.get(*row as usize).copied());
    let sorted = || -> Result<Vec<RecordBatch>, ArrowError> {
        let all = concat_batches(schema, batches)?;
        order
            .chunks(batch_rows)
            .map(|rows| take_record_batch(&all, &UInt32Array::from(rows.to_vec())))
            .collect()
    };
    sorted().map_err(|e| Error::internal("sorting rows by time").caused_by(e))
}
