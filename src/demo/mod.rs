//! The whole story in one command: rows become durable, can be queried, reach consumer groups; consumers come, go and are
//! killed; the server is killed; nothing is lost; a tape is replayed at its original pace.
//!
//! Server and consumers are processes of their own, started from this very binary, so that a kill is a kill. Every count
//! is taken from what the consumers printed, and the exit status is 1 if one of them is not what it must be.

mod meters;
mod process;
mod screen;
mod tally;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{ConnectOptions, Connection, ConsumerConfig};
use model::{Clock as _, Code, Error, Result};

use self::meters::Meters;
use self::process::ConsumerProcess;
use self::screen::Screen;
use self::tally::{Tally, Totals};
use crate::child::ServerProcess;
use crate::cli::DemoArgs;
use crate::server::clock::SystemClock;

const DATABASE: &str = "demo";
const METERS: u32 = 100;
/// The topic selects what is above.
const VOLTAGE_LIMIT: i64 = 220;
/// Instants of each meter written before anybody consumes.
const HISTORY: u32 = 300;
/// Pause between two instants while consumers come and go.
const WRITE_PAUSE: Duration = Duration::from_millis(50);
/// Rows on the tape, and the pause between their writes.
const TAPE_ROWS: usize = 10;
const TAPE_PAUSE: Duration = Duration::from_millis(200);
/// How much sooner than the tape the whole replay may seem to be, seen from here.
const TAPE_GRAIN: Duration = Duration::from_millis(100);
/// Nothing in the demo takes this long unless it fails.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Runs the demo.
///
/// # Errors
/// Whatever went wrong, or a count that is not what it must be.
pub async fn run(args: DemoArgs) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("tidemark-demo-").tempdir();
    let dir =
        dir.map_err(|e| Error::text(Code::Io, format!("cannot make a temporary folder: {e}")).caused_by(e))?;
    let story = Story::begin(dir.path()).await;
    let told = match story {
        Ok(story) => story.tell().await,
        Err(error) => Err(error),
    };
    if args.keep || told.is_err() {
        let path = dir.keep();
        Screen::new().print(format_args!("\nThe data is kept in {}", path.display()));
    }
    told
}

struct Story<'a> {
    dir: &'a Path,
    screen: Screen,
    server: ServerProcess,
    connection: Connection,
    tally: Arc<Tally>,
    consumers: Vec<ConsumerProcess>,
}

impl<'a> Story<'a> {
    async fn begin(dir: &'a Path) -> Result<Self> {
        let mut screen = Screen::new();
        screen.print("Tidemark demo: one binary, one log, rows that are queried and consumed.");
        screen.step("Start a server in a temporary folder");
        let server = ServerProcess::start(&dir.join("data"), "127.0.0.1:0", &dir.join("server.log"))?;
        screen.say(format_args!(
            "tidemark serve --data-dir {}/data --grpc {}",
            dir.display(),
            server.address
        ));
        let options = ConnectOptions { host: server.address.clone(), ..ConnectOptions::default() };
        let connection = Connection::connect(options).await?;
        Ok(Self { dir, screen, server, connection, tally: Arc::default(), consumers: Vec::new() })
    }

    async fn tell(mut self) -> Result<()> {
        let meters = Arc::new(self.write_history().await?);
        self.query().await?;
        self.sql(
            "CREATE TOPIC high_voltage AS SELECT ts, tbname, voltage FROM demo.meters WHERE voltage > 220",
        )
        .await?;
        self.screen.step("Subscribe to rows above 220 V; the meters go on writing");
        self.screen
            .say("CREATE TOPIC high_voltage AS SELECT ts, tbname, voltage FROM meters WHERE voltage > 220");
        let stop = Arc::new(AtomicBool::new(false));
        let writing = tokio::spawn({
            let (meters, stop) = (Arc::clone(&meters), Arc::clone(&stop));
            async move { meters.write_until(&stop, WRITE_PAUSE).await }
        });
        self.join("A", &[4]).await?;
        self.join("B", &[2, 2]).await?;
        self.join("C", &[1, 1, 2]).await?;
        self.kill_consumer().await?;
        self.kill_server().await?;
        stop.store(true, Ordering::Relaxed);
        writing.await.map_err(Error::internal)??;
        let totals = self.drain().await?;
        let gaps_ok = self.replay().await?;
        self.summary(&meters, totals, gaps_ok).await
    }

    async fn sql(&self, sql: &str) -> Result<u64> {
        let result = self.connection.sql(sql).await?;
        let affected = result.affected_rows();
        result.rows().await?;
        Ok(affected)
    }

    async fn write_history(&mut self) -> Result<Meters> {
        self.screen.step("Create a database of 4 vgroups and 100 meters, and write 5 minutes of each");
        self.sql("CREATE DATABASE demo VGROUPS 4").await?;
        self.sql(
            "CREATE STABLE demo.meters (ts TIMESTAMP, current FLOAT, voltage INT, phase FLOAT) \
             TAGS (location VARCHAR(24), groupid INT)",
        )
        .await?;
        // Whole minutes, in the past by more than the demo lasts.
        let minute_ms = 60_000;
        let now_ms = SystemClock::default().now_ns() / 1_000_000;
        let first_ms = (now_ms / minute_ms - 60) * minute_ms;
        let meters = Meters::new(&self.connection, Arc::clone(&self.tally), first_ms).await?;
        let started = self.screen.seconds();
        meters.write(HISTORY).await?;
        let seconds = self.screen.seconds() - started;
        self.screen.say(format_args!("{} rows acknowledged in {seconds:.2} s", meters.rows()));
        Ok(meters)
    }

    async fn query(&mut self) -> Result<()> {
        let sql = "SELECT _wstart, COUNT(*), AVG(voltage), MAX(current) FROM demo.meters INTERVAL(1m)";
        self.screen.step("Ask by the minute");
        self.screen.say(sql);
        let rows = self.connection.sql(sql).await?.rows().await?;
        let mut counted = 0;
        for row in rows.iter() {
            let (start, count): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (voltage, current): (f64, f64) = (row.get(2)?, row.get(3)?);
            counted += count;
            let start = model::format_timestamp(start, model::Precision::Ms, model::Zone::UTC);
            self.screen.say(format_args!("{start}  {count:>6} rows  {voltage:7.2} V  {current:5.1} A"));
        }
        let written = i64::from(HISTORY) * i64::from(METERS);
        if counted == written {
            Ok(())
        } else {
            Err(wrong(format!("{counted} rows were queried, {written} written")))
        }
    }

    /// Who owns how many vgroups, by the consumers' names; what nobody owns is under "-".
    async fn owners(&self) -> Result<BTreeMap<String, Vec<i64>>> {
        let mut names = BTreeMap::new();
        for row in self.connection.sql("SHOW CONSUMERS").await?.rows().await?.iter() {
            names.insert(row.by_name::<String>("consumer_id")?, row.by_name::<String>("client_id")?);
        }
        let mut owners: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for row in self.connection.sql("SHOW SUBSCRIPTIONS").await?.rows().await?.iter() {
            let owner: Option<String> = row.by_name("consumer_id")?;
            let name = owner.and_then(|id| names.get(&id).cloned()).unwrap_or_else(|| "-".to_owned());
            owners.entry(name).or_default().push(row.by_name::<i64>("vgroup_id")?);
        }
        Ok(owners)
    }

    /// Waits until the live consumers, and nobody else, share the vgroups in these sizes.
    async fn settle(&self, sizes: &[usize]) -> Result<()> {
        let live: Vec<&str> = self.consumers.iter().map(|consumer| consumer.name).collect();
        let settled = wait_for(|| async {
            let owners = self.owners().await?;
            let mut counts: Vec<usize> =
                live.iter().map(|name| owners.get(*name).map_or(0, Vec::len)).collect();
            counts.sort_unstable();
            Ok(counts == sizes && owners.keys().all(|name| live.contains(&name.as_str())))
        });
        if !settled.await? {
            return Err(wrong(format!("vgroups were not shared as {sizes:?}")));
        }
        let owners = self.owners().await?;
        let shown = owners.iter().map(|(name, vgroups)| format!("{name} owns {vgroups:?}"));
        self.screen.say(shown.collect::<Vec<_>>().join(", "));
        Ok(())
    }

    async fn join(&mut self, name: &'static str, sizes: &[usize]) -> Result<()> {
        let started = self.screen.seconds();
        let consumer =
            ConsumerProcess::start(name, &self.server.address, "high_voltage", "billing", &self.tally)?;
        self.consumers.push(consumer);
        self.settle(sizes).await?;
        self.screen.say(format_args!("  ({name} joined, {:.2} s)", self.screen.seconds() - started));
        Ok(())
    }

    async fn kill_consumer(&mut self) -> Result<()> {
        self.screen.step("Kill consumer C without farewell (session timeout 6 s)");
        if let Some(mut consumer) = self.consumers.pop() {
            consumer.kill()?;
        }
        let started = self.screen.seconds();
        self.settle(&[2, 2]).await?;
        let seconds = self.screen.seconds() - started;
        self.screen.say(format_args!("taken over from the committed offsets after {seconds:.1} s"));
        self.caught_up().await
    }

    async fn kill_server(&mut self) -> Result<()> {
        self.screen.step("Kill the server (SIGKILL) under load and start it again");
        self.server.process.kill()?;
        let started = self.screen.seconds();
        let address = self.server.address.clone();
        self.server = ServerProcess::start(&self.dir.join("data"), &address, &self.dir.join("server.log"))?;
        self.screen.say(format_args!("ready again after {:.2} s", self.screen.seconds() - started));
        self.settle(&[2, 2]).await?;
        self.caught_up().await
    }

    /// Waits until every row acknowledged before this call has arrived somewhere.
    async fn caught_up(&self) -> Result<()> {
        let expected = self.tally.totals().expected;
        let arrived = wait_for(|| async { Ok(self.tally.totals().arrived >= expected) }).await?;
        if !arrived {
            let missing = self.tally.totals().missing();
            return Err(wrong(format!("{missing} acknowledged rows have not arrived")));
        }
        self.screen.say(format_args!("{expected} selected rows written so far, none missing"));
        Ok(())
    }

    async fn drain(&mut self) -> Result<Totals> {
        self.screen.step("Stop the meters and wait for the last row");
        self.caught_up().await?;
        Ok(self.tally.totals())
    }

    /// Writes ten rows with pauses and replays them; answers whether the pauses came back.
    async fn replay(&mut self) -> Result<bool> {
        self.screen.step("Write ten rows with pauses, then replay them at their pace");
        self.sql("CREATE TABLE demo.tape (ts TIMESTAMP, v INT)").await?;
        self.sql("CREATE TOPIC tape AS SELECT ts, v FROM demo.tape").await?;
        let mut ticks = tokio::time::interval(TAPE_PAUSE);
        for n in 0..TAPE_ROWS {
            ticks.tick().await;
            self.sql(&format!("INSERT INTO demo.tape VALUES (now, {n})")).await?;
        }
        let config = ConsumerConfig::new("viewer").with("enable.replay", "true").map_err(Error::internal)?;
        let config = config.with("auto.offset.reset", "earliest").map_err(Error::internal)?;
        let consumer = self.connection.consumer(config)?;
        consumer.subscribe(["tape"]).await?;
        let mut arrivals = Vec::new();
        let mut written = Vec::new();
        while arrivals.len() < TAPE_ROWS {
            let Some(message) = consumer.poll(PATIENCE).await? else {
                return Err(wrong(format!("the tape ended after {} rows", arrivals.len())));
            };
            for _ in message.rows() {
                arrivals.push(now());
                written.push(message.written_ns());
            }
        }
        consumer.close().await?;
        let gaps: Vec<(u128, i64)> = arrivals
            .windows(2)
            .zip(written.windows(2))
            .filter_map(|(a, w)| {
                Some((
                    a.last()?.duration_since(*a.first()?).as_millis(),
                    (w.last()? - w.first()?) / 1_000_000,
                ))
            })
            .collect();
        let line = |pick: fn(&(u128, i64)) -> i128| {
            gaps.iter().map(|gap| pick(gap).to_string()).collect::<Vec<_>>().join(" ")
        };
        self.screen.say(format_args!("written   0 {} ms apart", line(|gap| i128::from(gap.1))));
        self.screen
            .say(format_args!("replayed  0 {} ms apart", line(|gap| i128::try_from(gap.0).unwrap_or(0))));
        // Never early by more than a timer's grain. How late is the machine's affair: it is shown, not judged.
        let seen: u128 = gaps.iter().map(|gap| gap.0).sum();
        let meant: i64 = gaps.iter().map(|gap| gap.1).sum();
        Ok(seen + TAPE_GRAIN.as_millis() >= u128::try_from(meant).unwrap_or(0))
    }

    async fn summary(mut self, meters: &Meters, totals: Totals, gaps_ok: bool) -> Result<()> {
        let stored = self.connection.sql("SELECT COUNT(*) FROM demo.meters").await?.rows().await?;
        let stored: i64 = stored.iter().next().map_or(Ok(0), |row| row.get(0))?;
        let written = meters.rows();
        self.screen.print("\nSummary");
        self.screen.say(format_args!("rows written and acknowledged   {written:>8}"));
        self.screen.say(format_args!("rows stored                     {stored:>8}"));
        self.screen.say(format_args!("rows that the topic selects     {:>8}", totals.expected));
        self.screen.say(format_args!("of these delivered              {:>8}", totals.arrived));
        self.screen.say(format_args!("lost                            {:>8}", totals.missing()));
        self.screen.say(format_args!("delivered more than once        {:>8}", totals.duplicates));
        self.screen.say(format_args!("delivered wrongly               {:>8}", totals.wrong));
        for (name, rows) in self.tally.by_consumer() {
            self.screen.say(format_args!("  by consumer {name}                 {rows:>8}"));
        }
        self.screen
            .say(format_args!("replay kept its pace            {:>8}", if gaps_ok { "yes" } else { "no" }));
        self.screen.say(format_args!("took {:.1} s", self.screen.seconds()));
        self.consumers.clear();
        self.server.process.kill()?;
        let stored_ok = u64::try_from(stored) == Ok(written);
        if totals.missing() > 0 || totals.wrong > 0 || !stored_ok || !gaps_ok {
            return Err(wrong("a count is not what it must be".to_owned()));
        }
        Ok(())
    }
}

fn wrong(what: String) -> Error {
    Error::text(Code::Internal, what)
}

#[expect(clippy::disallowed_methods, reason = "the demo measures what a user would see")]
fn now() -> Instant {
    Instant::now()
}

/// Looks again and again until `done` says so; false once patience ends.
async fn wait_for<F: Future<Output = Result<bool>>>(done: impl Fn() -> F) -> Result<bool> {
    let started = now();
    while started.elapsed() < PATIENCE {
        if done().await? {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(false)
}
