//! Figures as a table on stderr and, asked for, as one JSON object on stdout.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use model::{Error, Result};
use serde_json::{Map, Value, json};

/// What was asked and what was measured, in order.
#[derive(Debug, Default)]
pub(super) struct Report(Map<String, Value>);

impl Report {
    /// Adds a figure; one that could not be measured is null.
    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Adds p50, p99 and p99.9 in microseconds.
    pub(super) fn put_times(&mut self, prefix: &str, times: &mut [Duration]) {
        times.sort_unstable();
        for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
            self.put(&format!("{prefix}{name}"), percentile_us(times, share));
        }
    }

    pub(super) fn print(self, as_json: bool) -> Result<()> {
        let mut stderr = io::stderr().lock();
        for (name, value) in &self.0 {
            let text = match value {
                Value::Number(n) if n.is_f64() => format!("{:.2}", n.as_f64().unwrap_or_default()),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            writeln!(stderr, "{name:<28} {text:>16}").map_err(Error::internal)?;
        }
        if as_json {
            writeln!(io::stdout().lock(), "{}", Value::Object(self.0)).map_err(Error::internal)?;
        }
        Ok(())
    }
}

fn percentile_us(sorted: &[Duration], share: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = (sorted.len() as f64 * share) as usize;
    let found = sorted.get(at.min(sorted.len().saturating_sub(1)));
    found.map_or(Value::Null, |time| json!(time.as_secs_f64() * 1e6))
}

/// Counts as floating point: a benchmark's counts are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// The moment, for measuring.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_few_and_many() {
        let mut times: Vec<Duration> = (1..=1_000).rev().map(Duration::from_micros).collect();
        let mut report = Report::default();
        report.put_times("", &mut times);
        let us = |name: &str| report.0[name].as_f64().unwrap().round();
        assert_eq!((us("p50_us"), us("p999_us")), (501.0, 1_000.0));
        let mut none = Report::default();
        none.put_times("x_", &mut []);
        assert_eq!(none.0["x_p99_us"], Value::Null);
    }
}
