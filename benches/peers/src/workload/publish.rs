//! Small writes that are acknowledged, many under way.

use super::Bench;
use crate::error::Result;
use crate::figures::{Cost, Line, Meter, float, note, thousands};
use crate::load::{Load, ROW_BYTES, Schema};
use crate::peer::nats::{self, Nats};
use crate::peer::tidemark::Tidemark;

const AIM: f64 = 1.0;
const AIM_CPU_US: f64 = 20.0;
/// Writes that are not acknowledged yet.
pub const IN_FLIGHT: usize = 2_000;
const ROWS_PER_WRITE: u64 = 100;

/// Measures.
pub async fn run(bench: &Bench) -> Result<Line> {
    let server = Tidemark::start(&bench.tidemark)?;
    server.create(&server.connect().await?, bench.vgroups, Schema::Meters).await?;
    let writer = server.writer(IN_FLIGHT).await?;
    let nats = Nats::start().await?;
    let context = nats.connect(IN_FLIGHT).await?;
    let payload = bytes::Bytes::from(vec![0x5a; usize::try_from(ROWS_PER_WRITE * ROW_BYTES).unwrap_or(0)]);

    let writes = bench.amount(200_000);
    let load = Load { schema: Schema::Meters, tables: 1_000, writes, rows: ROWS_PER_WRITE };
    // The tables are there and the connections warm before anything is counted.
    Load { writes: load.tables, ..load }.write(&writer, 0).await?;
    let mut first_write = load.tables;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let meter = Meter::start(&server.process)?;
        load.write(&writer, first_write).await?;
        let cost = meter.stop()?;
        first_write += writes;
        nats.create(&context).await?;
        let meter = Meter::start(&nats.process)?;
        nats::publish(&context, payload.clone(), writes, IN_FLIGHT).await?;
        let theirs_cost = meter.stop()?;
        note(&format!("round {round}: {}; NATS {}", cost.of_writes(writes), theirs_cost.of_writes(writes)));
        ours.push(cost);
        theirs.push(theirs_cost);
    }
    let ratio = Cost::speed(&ours, &theirs);
    let (ours, theirs) = (Cost::median(&ours), Cost::median(&theirs));
    let cpu_us = ours.cpu_us_each(writes);
    Ok(Line {
        work: format!(
            "{} acknowledged writes of 100 rows on one write stream, {IN_FLIGHT} in flight ({} vgroups)",
            thousands(float(writes)),
            bench.vgroups
        ),
        ours: ours.of_writes(writes),
        reference: format!(
            "NATS publish, {} bytes each, acknowledged: {}",
            payload.len(),
            theirs.of_writes(writes)
        ),
        ratio: format!("{ratio:.2} of its rate, {cpu_us:.1} us"),
        aim: ">= 1, <= 20 us",
        met: ratio >= AIM && cpu_us <= AIM_CPU_US,
    })
}
