//! A backlog of small writes, each of which is committed, against NATS' acknowledged messages.

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::Stream;
use futures::StreamExt as _;

use super::Bench;
use super::backlog::{self, Commits, Reading};
use crate::error::{Error, Result};
use crate::figures::{Cost, Line, Meter, float, note, thousands};
use crate::load::{Load, ROW_BYTES, Schema};
use crate::peer::nats::{self, NAME, Nats};
use crate::peer::tidemark::{Tidemark, Topic};

const AIM: f64 = 2.0;
const ROWS_PER_WRITE: u64 = 100;
/// Bytes of a message of NATS: a write's values.
const MESSAGE_BYTES: u64 = ROWS_PER_WRITE * ROW_BYTES;
/// Messages of a pull: more made it no faster.
const PULL: usize = 1_000;

/// How NATS' messages are acknowledged.
#[derive(Clone, Copy, Debug)]
enum Acks {
    /// Each.
    Each,
    /// One of so many, which speaks for those before it: as an offset does.
    Every(u64),
    /// Not at all.
    None,
}

/// Writes a message was made of, and the costs of each way to read the backlog.
#[derive(Default)]
struct Ways {
    per_message: u64,
    waited: Vec<Cost>,
    background: Vec<Cost>,
}

/// Measures; a row for a query topic, whose messages are one block each, and one for a super-table topic, which has a
/// block for each table.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let server = Tidemark::start(&bench.tidemark)?;
    let connection = server.connect().await?;
    server.create(&connection, bench.vgroups, Schema::Meters).await?;
    let mut by_topic = [Topic::Query, Topic::Stable].map(|topic| (topic, Ways::default()));
    for (topic, _) in &by_topic {
        topic.create(&connection).await?;
    }
    let writes = bench.amount(200_000);
    let load = Load { schema: Schema::Meters, tables: 1_000, writes, rows: ROWS_PER_WRITE };
    backlog::write(&server, load).await?;

    let nats = Nats::start().await?;
    let context = nats.connect(super::publish::IN_FLIGHT).await?;
    let stream = nats.create(&context).await?;
    let payload = vec![0x5a; usize::try_from(MESSAGE_BYTES).unwrap_or(0)].into();
    nats::publish(&context, payload, writes, super::publish::IN_FLIGHT).await?;

    let mut acks = [Acks::Each, Acks::Every(1), Acks::None].map(|acks| (acks, Vec::new()));
    for round in 0..bench.rounds {
        for (topic, ways) in &mut by_topic {
            for commits in [Commits::Waited, Commits::Background] {
                let group = format!("{}{round}{commits:?}", topic.name());
                let (topic, rows) = (topic.name(), load.total_rows());
                let read = Reading { topic, group: &group, rows, commits }.run(&server).await?;
                ways.per_message = (writes / read.messages).max(1);
                note(&format!("round {round}: {topic} {commits:?} {}", read.cost.of_writes(writes)));
                match commits {
                    Commits::Background => ways.background.push(read.cost),
                    Commits::Automatic | Commits::Waited => ways.waited.push(read.cost),
                }
            }
        }
        for (acks, costs) in &mut acks {
            if let Acks::Every(so_many) = acks {
                *so_many = by_topic[0].1.per_message;
            }
            let cost = take(&nats, &stream, writes, *acks).await?;
            note(&format!("round {round}: NATS {acks:?} {}", cost.of_writes(writes)));
            costs.push(cost);
        }
    }
    Ok(by_topic.iter().map(|(topic, ways)| line(bench, writes, *topic, ways, &acks)).collect())
}

fn line(bench: &Bench, writes: u64, topic: Topic, ways: &Ways, acks: &[(Acks, Vec<Cost>); 3]) -> Line {
    let Ways { per_message, waited, background } = ways;
    let [(_, each), (_, every), (_, none)] = acks;
    let ratio = Cost::speed(background, each);
    let shown = |costs| Cost::median(costs).of_writes(writes);
    Line {
        work: format!(
            "backlog of {} writes of 100 rows, {} topic ({} vgroups), each poll's message ({per_message} writes) \
             committed",
            thousands(float(writes)),
            topic.kind(),
            bench.vgroups
        ),
        ours: format!(
            "in the background: {}; waited for before the next poll: {}",
            shown(background),
            shown(waited)
        ),
        reference: format!(
            "NATS pull consumer, {MESSAGE_BYTES} bytes each, each acknowledged: {}; one in {per_message} for all \
             before it: {}; none: {}",
            shown(each),
            shown(every),
            shown(none)
        ),
        ratio: format!(
            "{ratio:.2} of its acknowledged rate ({:.2} of one in {per_message}, {:.2} of none); waited for: {:.2}",
            Cost::speed(background, every),
            Cost::speed(background, none),
            Cost::speed(waited, each)
        ),
        aim: ">= 2",
        met: ratio >= AIM,
    }
}

/// Reads all messages of the stream with a new pull consumer. The last acknowledgement is waited for; since they are
/// taken in order, so are then all.
async fn take(nats: &Nats, stream: &Stream, messages: u64, acks: Acks) -> Result<Cost> {
    let policy = match acks {
        Acks::Each => AckPolicy::Explicit,
        Acks::Every(_) => AckPolicy::All,
        Acks::None => AckPolicy::None,
    };
    let meter = Meter::start(&nats.process)?;
    let consumer = nats::pull_consumer(stream, policy, DeliverPolicy::All).await?;
    let pull = consumer.stream().max_messages_per_batch(PULL).messages().await;
    let mut pulled = pull.map_err(Error::peer(NAME))?;
    for number in 1..=messages {
        let message = pulled.next().await.ok_or_else(|| Error::Odd("the pull ended".into()))?;
        let message = message.map_err(Error::peer(NAME))?;
        let due = match acks {
            Acks::Each => true,
            Acks::Every(so_many) => number % so_many == 0 || number == messages,
            Acks::None => false,
        };
        match due {
            true if number == messages => message.double_ack().await.map_err(Error::peer(NAME))?,
            true => message.ack().await.map_err(Error::peer(NAME))?,
            false => {}
        }
    }
    meter.stop()
}
