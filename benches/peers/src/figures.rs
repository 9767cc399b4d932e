//! Medians, percentiles, and rows of the table.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::process::{Process, cpu_seconds};

/// The moment, for measuring.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Counts as floating point: a benchmark's counts are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// Length of a collection as a count.
pub fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// How long something took, and the CPU seconds of the server that did it.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Wall clock.
    pub seconds: f64,
    /// The server's, all its threads.
    pub cpu_s: f64,
    /// Ours, which is the client's.
    pub client_cpu_s: f64,
}

impl Cost {
    /// Medians over rounds.
    pub fn median(rounds: &[Self]) -> Self {
        Self {
            seconds: median(rounds.iter().map(|cost| cost.seconds)),
            cpu_s: median(rounds.iter().map(|cost| cost.cpu_s)),
            client_cpu_s: median(rounds.iter().map(|cost| cost.client_cpu_s)),
        }
    }

    /// How many times as fast as theirs ours was: the median over the rounds' pairs, since the machine's other work comes
    /// and goes.
    pub fn speed(ours: &[Self], theirs: &[Self]) -> f64 {
        median(ours.iter().zip(theirs).map(|(ours, theirs)| theirs.seconds / ours.seconds))
    }

    /// So many things of it a second.
    pub fn rate(&self, things: u64) -> f64 {
        float(things) / self.seconds
    }

    /// The server's CPU for each of so many things, in microseconds.
    pub fn cpu_us_each(&self, things: u64) -> f64 {
        self.cpu_s * 1e6 / float(things)
    }

    /// Rate and CPU of so many writes, for the table.
    pub fn of_writes(&self, writes: u64) -> String {
        let (server, client) = (self.cpu_us_each(writes), self.client_cpu_s * 1e6 / float(writes));
        format!("{}/s (server {server:.1}, client {client:.1} us each)", thousands(self.rate(writes)))
    }
}

/// Measures from here on.
pub struct Meter<'a> {
    server: &'a Process,
    cpu_s: f64,
    client_cpu_s: f64,
    started: Instant,
}

impl<'a> Meter<'a> {
    /// Starts.
    pub fn start(server: &'a Process) -> Result<Self> {
        let client_cpu_s = cpu_seconds(std::process::id())?;
        Ok(Self { server, cpu_s: server.cpu_seconds()?, client_cpu_s, started: now() })
    }

    /// What it took until now.
    pub fn stop(&self) -> Result<Cost> {
        let seconds = self.started.elapsed().as_secs_f64();
        let client_cpu_s = cpu_seconds(std::process::id())? - self.client_cpu_s;
        Ok(Cost { seconds, cpu_s: self.server.cpu_seconds()? - self.cpu_s, client_cpu_s })
    }
}

/// The one in the middle, or the mean of the two; NaN of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let lower = values.len().saturating_sub(1) / 2;
    match (values.get(lower), values.get(upper)) {
        (Some(lower), Some(upper)) => f64::midpoint(*lower, *upper),
        _ => f64::NAN,
    }
}

/// Median and 99th percentile of times, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Half are faster.
    pub p50_ms: f64,
    /// One in a hundred is slower.
    pub p99_ms: f64,
}

impl Latency {
    /// Of times in any order.
    pub fn of(mut times: Vec<Duration>) -> Result<Self> {
        times.sort_unstable();
        let at = |percent: usize| {
            let index = times.len() * percent / 100;
            let time = times.get(index.min(times.len().saturating_sub(1)));
            time.map(|t| t.as_secs_f64() * 1e3).ok_or_else(|| Error::Odd("nothing was timed".into()))
        };
        Ok(Self { p50_ms: at(50)?, p99_ms: at(99)? })
    }

    /// How many times as long ours took as theirs: medians over the rounds' pairs. Two pure numbers.
    pub fn ratio(ours: &[Self], theirs: &[Self]) -> (f64, f64) {
        let pairs = || ours.iter().zip(theirs);
        (
            median(pairs().map(|(ours, theirs)| ours.p50_ms / theirs.p50_ms)),
            median(pairs().map(|(ours, theirs)| ours.p99_ms / theirs.p99_ms)),
        )
    }

    /// The medians over rounds of both.
    pub fn median(rounds: &[Self]) -> Self {
        Self {
            p50_ms: median(rounds.iter().map(|l| l.p50_ms)),
            p99_ms: median(rounds.iter().map(|l| l.p99_ms)),
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Line {
    /// What was done.
    pub work: String,
    /// Tidemark's figure, its server's CPU beside it.
    pub ours: String,
    /// The reference's.
    pub reference: String,
    /// How they compare.
    pub ratio: String,
    /// What it should be.
    pub aim: &'static str,
    /// Whether it is.
    pub met: bool,
}

/// A whole number for people: thousands apart.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Prints the head of the table.
pub fn print_head() -> Result<()> {
    print("| work | Tidemark (CPU) | reference, same run | ratio | aim | |\n|---|---|---|---|---|---|")
}

/// Prints a row.
pub fn print_line(line: &Line) -> Result<()> {
    let Line { work, ours, reference, ratio, aim, met } = line;
    let met = if *met { "met" } else { "**missed**" };
    print(&format!("| {work} | {ours} | {reference} | {ratio} | {aim} | {met} |"))
}

fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(Error::io("cannot print"))
}

/// Tells how a round went, beside the table.
pub fn note(text: &str) {
    // Whoever closed stderr does not want to know.
    let _ = writeln!(std::io::stderr().lock(), "  {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_counts() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn speeds_are_compared_within_a_round() {
        let rounds = |seconds: [f64; 3]| seconds.map(|s| Cost { seconds: s, cpu_s: 0.0, client_cpu_s: 0.0 });
        // The whole machine is ten times as slow in the second round: that is no difference between them.
        assert_eq!(Cost::speed(&rounds([1.0, 10.0, 1.0]), &rounds([2.0, 20.0, 3.0])), 2.0);
        let latencies = |p50: [f64; 3]| p50.map(|p50_ms| Latency { p50_ms, p99_ms: 4.0 * p50_ms });
        let ratio = Latency::ratio(&latencies([2.0, 20.0, 3.0]), &latencies([1.0, 10.0, 1.0]));
        assert_eq!(ratio, (2.0, 2.0));
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([7.0, 1_234.4, 1_234_567.0].map(thousands), ["7", "1,234", "1,234,567"]);
    }

    #[test]
    fn percentiles_count_from_the_fastest() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let latency = Latency::of(times).unwrap();
        assert_eq!((latency.p50_ms, latency.p99_ms), (51.0, 100.0));
        assert!(Latency::of(Vec::new()).is_err());
    }
}
