//! The demo's devices: a hundred meters that write once a second of their own time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{Connection, Value, Writer};
use model::{Precision, Result, Zone, format_timestamp};

use super::tally::Tally;
use super::{DATABASE, METERS, VOLTAGE_LIMIT};

/// Writes rows of all meters, instant by instant.
pub(super) struct Meters {
    writer: Writer,
    tally: Arc<Tally>,
    first_ms: i64,
    /// Instants written.
    written: AtomicU64,
}

impl Meters {
    pub(super) async fn new(connection: &Connection, tally: Arc<Tally>, first_ms: i64) -> Result<Self> {
        let writer = connection.writer(DATABASE, "meters").await?;
        Ok(Self { writer, tally, first_ms, written: AtomicU64::new(0) })
    }

    /// Rows acknowledged so far.
    pub(super) fn rows(&self) -> u64 {
        self.written.load(Ordering::Relaxed) * u64::from(METERS)
    }

    /// Writes the next `instants` instants of every meter and waits for the answer.
    pub(super) async fn write(&self, instants: u32) -> Result<()> {
        let start = self.written.load(Ordering::Relaxed);
        let mut batch = self.writer.batch()?;
        let mut selected = Vec::new();
        for meter in 0..METERS {
            let name = format!("d{meter:03}");
            let tags = [Value::Text(location(meter).to_owned()), Value::Int(i64::from(meter % 10))];
            let table = batch.child(&name, &tags)?;
            for instant in start..start + u64::from(instants) {
                let ts = self.first_ms + i64::try_from(instant).unwrap_or(0) * 1_000;
                let (current, voltage, phase) = reading(meter, instant);
                let row =
                    [Value::Timestamp(ts), Value::Float(current), Value::Int(voltage), Value::Float(phase)];
                batch.push(table, &row)?;
                if voltage > VOLTAGE_LIMIT {
                    selected.push((name.clone(), format_timestamp(ts, Precision::Ms, Zone::UTC)));
                }
            }
        }
        self.writer.write(batch).await?;
        self.writer.flush().await?;
        self.tally.acknowledge(selected);
        self.written.store(start + u64::from(instants), Ordering::Relaxed);
        Ok(())
    }

    /// Writes an instant every `pause` until `stop`, whatever happens to the server meanwhile: the writer sends again what
    /// was not acknowledged.
    pub(super) async fn write_until(&self, stop: &AtomicBool, pause: Duration) -> Result<()> {
        let mut ticks = tokio::time::interval(pause);
        while !stop.load(Ordering::Relaxed) {
            ticks.tick().await;
            self.write(1).await?;
        }
        Ok(())
    }
}

fn location(meter: u32) -> &'static str {
    ["Rotterdam", "Hamburg", "Bergen", "Gdansk"].get((meter % 4) as usize).copied().unwrap_or_default()
}

/// Current, voltage and phase of a meter at an instant: made up, but the same in every run.
fn reading(meter: u32, instant: u64) -> (f32, i64, f32) {
    let step = (u64::from(meter) * 7 + instant * 13) % 40;
    let voltage = 200 + i64::try_from(step).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let wave = step as f32;
    (8.0 + wave / 10.0, voltage, wave / 100.0)
}
