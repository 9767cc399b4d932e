//! A query topic that keeps little of each write, against the same log read whole.

use super::Bench;
use super::backlog::{self, Commits, Reading};
use crate::error::Result;
use crate::figures::{Cost, Line, float, note};
use crate::load::{Load, Schema};
use crate::peer::tidemark::{DATABASE, STABLE, Tidemark, Topic, create_topic};

const AIM: f64 = 1.5;
/// Of the rows, those whose value is in the upper tenth.
const KEPT: u64 = 10;

/// Measures.
pub async fn run(bench: &Bench) -> Result<Line> {
    let server = Tidemark::start(&bench.tidemark)?;
    let connection = server.connect().await?;
    server.create(&connection, bench.vgroups, Schema::Wide).await?;
    Topic::Database.create(&connection).await?;
    let select = format!("SELECT ts, m0 FROM {DATABASE}.{STABLE} WHERE m0 >= 90");
    create_topic(&connection, "upper", &select).await?;
    let writes = bench.amount(500);
    let load = Load { schema: Schema::Wide, tables: 100, writes, rows: 10_000 };
    backlog::write(&server, load).await?;

    let rows = load.total_rows();
    let (mut ours, mut whole) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let group = format!("g{round}");
        let of = |topic, rows| Reading { topic, group: &group, rows, commits: Commits::Automatic };
        let filtered = of("upper", rows / KEPT).run(&server).await?;
        let all = of(Topic::Database.name(), rows).run(&server).await?;
        note(&format!(
            "round {round}: {:.1} M rows/s scanned, whole {:.1} M rows/s",
            filtered.cost.rate(rows) / 1e6,
            all.cost.rate(rows) / 1e6
        ));
        ours.push(filtered.cost);
        whole.push(all.cost);
    }
    let ratio = Cost::speed(&ours, &whole);
    let (ours, whole) = (Cost::median(&ours), Cost::median(&whole));
    let shown = |cost: &Cost| {
        format!(
            "{:.1} M rows/s ({:.3} CPU s a M rows)",
            cost.rate(rows) / 1e6,
            cost.cpu_s * 1e6 / float(rows)
        )
    };
    Ok(Line {
        work: format!(
            "backlog of a query topic that keeps 2 of 10 columns and 10 % of {} M rows, writes of 10,000 ({} vgroups)",
            float(rows) / 1e6,
            bench.vgroups
        ),
        ours: shown(&ours),
        reference: format!("the same as a database topic: {}", shown(&whole)),
        ratio: format!("{ratio:.2} of its rows scanned a second"),
        aim: ">= 1.5",
        met: ratio >= AIM,
    })
}
