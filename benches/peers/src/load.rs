//! What is written: meters, as `tidemark bench` has them, in arrays. Logs are not compressed, so what the values are is
//! of no account here; their bytes are.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array, TimestampMillisecondArray};
use client::{Value, Writer};

use crate::error::Result;
use crate::figures::float;

/// Bytes of a meter's row: timestamp, two floats, an int.
pub const ROW_BYTES: u64 = 8 + 4 + 4 + 4;
/// Columns of [`Schema::Meters`].
pub const METERS: &str = "(ts TIMESTAMP, current FLOAT, voltage INT, phase FLOAT)";
/// Value columns of [`Schema::Wide`] beside the timestamp: ten columns in all.
const WIDE_VALUES: u64 = 9;
/// First instant, and the pause between two of one table.
const FIRST_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 1_000;

/// Columns of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// [`METERS`].
    Meters,
    /// A timestamp and nine doubles, each of which goes evenly through 0..100.
    Wide,
}

impl Schema {
    /// The columns as CREATE STABLE wants them.
    pub fn columns(self) -> String {
        match self {
            Self::Meters => METERS.to_owned(),
            Self::Wide => {
                let values: String = (0..WIDE_VALUES).map(|n| format!(", m{n} DOUBLE")).collect();
                format!("(ts TIMESTAMP{values})")
            }
        }
    }

    fn arrays(self, first: u64, rows: u64) -> Vec<ArrayRef> {
        let numbers = || first..first + rows;
        let ts: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(numbers().map(instant)));
        match self {
            Self::Meters => vec![
                ts,
                Arc::new(Float32Array::from_iter_values(numbers().map(|n| part(n, 1_000)))),
                Arc::new(Int32Array::from_iter_values(
                    numbers().map(|n| i32::try_from(n % 44).unwrap_or(0) + 198),
                )),
                Arc::new(Float32Array::from_iter_values(numbers().map(|n| part(n, 10_000)))),
            ],
            Self::Wide => {
                // A step that has no factor in common with 1,000 comes by each of 0.0, 0.1, .. 99.9 equally often.
                let column = |m| Float64Array::from_iter_values(numbers().map(move |n| percent(n, m)));
                let values = (0..WIDE_VALUES).map(|m| Arc::new(column(m)) as ArrayRef);
                std::iter::once(ts).chain(values).collect()
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "small numbers")]
fn part(n: u64, of: u64) -> f32 {
    (float(n % of) / float(of)) as f32
}

fn percent(n: u64, column: u64) -> f64 {
    float((n * 377 + column * 113) % 1_000) / 10.0
}

/// The time of a table's row.
pub fn instant(row: u64) -> i64 {
    FIRST_MS + i64::try_from(row).unwrap_or(0) * STEP_MS
}

/// Writes of one size, each of one table, the tables in turn; no row twice.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Columns.
    pub schema: Schema,
    /// Child tables, made on the way.
    pub tables: u64,
    /// Writes in all.
    pub writes: u64,
    /// Rows of each.
    pub rows: u64,
}

impl Load {
    /// Rows of all writes.
    pub fn total_rows(&self) -> u64 {
        self.writes * self.rows
    }

    /// Gives all of it to the writer and waits until it is acknowledged. `first_write` continues an earlier load.
    pub async fn write(&self, writer: &Writer, first_write: u64) -> Result<()> {
        for write in first_write..first_write + self.writes {
            let (table, turn) = (write % self.tables, write / self.tables);
            let mut batch = writer.batch()?;
            let child = batch.child(&format!("d{table}"), &[Value::Int(0)])?;
            batch.push_arrays(child, &self.schema.arrays(turn * self.rows, self.rows))?;
            writer.write(batch).await?;
        }
        writer.flush().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_in_ten_is_above_ninety() {
        for column in 0..WIDE_VALUES {
            let above = (0..10_000).filter(|n| percent(*n, column) >= 90.0).count();
            assert_eq!(above, 1_000, "column {column}");
        }
    }
}
