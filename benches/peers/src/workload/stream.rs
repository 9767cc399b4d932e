//! A backlog of large writes against a bare stream of buffers of the same size.

use super::Bench;
use super::backlog::{self, Commits, Reading};
use crate::error::{Error, Result};
use crate::figures::{Cost, Line, Meter, float, note};
use crate::load::{Load, ROW_BYTES, Schema};
use crate::peer::reference::Reference;
use crate::peer::tidemark::{Tidemark, Topic};

const AIM: f64 = 0.6;
const ROWS_PER_WRITE: u64 = 10_000;

/// Measures.
pub async fn run(bench: &Bench) -> Result<Line> {
    let server = Tidemark::start(&bench.tidemark)?;
    let connection = server.connect().await?;
    server.create(&connection, bench.vgroups, Schema::Meters).await?;
    Topic::Stable.create(&connection).await?;
    let writes = bench.amount(2_000);
    let load = Load { schema: Schema::Meters, tables: 1_000, writes, rows: ROWS_PER_WRITE };
    backlog::write(&server, load).await?;
    let reference = Reference::start()?;
    let mut bare = reference.connect().await?;

    let bytes = load.total_rows() * ROW_BYTES;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut message_bytes = 0;
    for round in 0..bench.rounds {
        let group = format!("g{round}");
        let reading = Reading {
            topic: Topic::Stable.name(),
            group: &group,
            rows: load.total_rows(),
            commits: Commits::Automatic,
        };
        let read = reading.run(&server).await?;
        message_bytes = bytes / read.messages;
        let meter = Meter::start(&reference.process)?;
        let taken = bare.stream(read.messages, message_bytes).await?;
        let cost = meter.stop()?;
        if taken != read.messages * message_bytes {
            return Err(Error::Odd(format!("{taken} bytes came of the bare stream")));
        }
        note(&format!(
            "round {round}: {:.0} MB/s, bare {:.0} MB/s",
            read.cost.rate(bytes) / 1e6,
            cost.rate(taken) / 1e6
        ));
        ours.push(read.cost);
        theirs.push(cost);
    }
    let ratio = Cost::speed(&ours, &theirs);
    let (ours, theirs) = (Cost::median(&ours), Cost::median(&theirs));
    let shown = |cost: &Cost| {
        format!("{:.0} MB/s ({:.2} CPU s a GB)", cost.rate(bytes) / 1e6, cost.cpu_s * 1e9 / float(bytes))
    };
    Ok(Line {
        work: format!(
            "backlog of a super-table topic, 1 consumer, {} M rows in writes of 10,000 ({} vgroups)",
            float(load.total_rows()) / 1e6,
            bench.vgroups
        ),
        ours: shown(&ours),
        reference: format!("tonic stream of {message_bytes}-byte buffers: {}", shown(&theirs)),
        ratio: format!("{ratio:.2} of its MB/s"),
        aim: ">= 0.6",
        met: ratio >= AIM,
    })
}
