//! Figures as a table on stderr and, asked for, as one JSON object on stdout.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use model::{Error, Result};
use serde_json::{Value, json};

/// What was asked, what was measured, and what the machine could do in the same run; each in the order it was told.
#[derive(Debug, Default)]
pub(super) struct Report {
    asked: Vec<(String, Value)>,
    measured: Vec<(String, Value)>,
    reference: Vec<(String, Value)>,
}

impl Report {
    /// Adds what was asked for.
    pub(super) fn asked(&mut self, name: &str, value: impl Into<Value>) {
        self.asked.push((name.to_owned(), value.into()));
    }

    /// Adds a figure; one that could not be measured is null. The end of its name is its unit.
    pub(super) fn measured(&mut self, name: &str, value: impl Into<Value>) {
        self.measured.push((name.to_owned(), value.into()));
    }

    /// Adds what to compare with.
    pub(super) fn reference(&mut self, name: &str, value: impl Into<Value>) {
        self.reference.push((format!("reference_{name}"), value.into()));
    }

    /// Adds p50, p99 and p99.9 in microseconds.
    pub(super) fn measured_times(&mut self, times: &mut [Duration]) {
        for (name, value) in percentiles_us(times) {
            self.measured(name, value);
        }
    }

    /// The same of a reference.
    pub(super) fn reference_times(&mut self, prefix: &str, times: &mut [Duration]) {
        for (name, value) in percentiles_us(times) {
            self.reference(&format!("{prefix}{name}"), value);
        }
    }

    pub(super) fn print(&self, as_json: bool) -> Result<()> {
        self.table(&mut io::stderr().lock()).map_err(Error::internal)?;
        if as_json {
            writeln!(io::stdout().lock(), "{}", self.json()).map_err(Error::internal)?;
        }
        Ok(())
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let parts =
            [("asked", &self.asked), ("measured", &self.measured), ("reference, same run", &self.reference)];
        for (title, figures) in parts.into_iter().filter(|(_, figures)| !figures.is_empty()) {
            writeln!(out, "{title}")?;
            for (name, value) in figures {
                let (label, unit) = label_and_unit(name.strip_prefix("reference_").unwrap_or(name));
                let unit = if value.is_null() { "" } else { unit };
                writeln!(out, "  {label:<26} {:>16} {unit}", shown(value))?;
            }
        }
        Ok(())
    }

    /// One object, its members in the order of the table.
    fn json(&self) -> String {
        let figures = self.asked.iter().chain(&self.measured).chain(&self.reference);
        let members: Vec<_> = figures.map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// Ends of names, and the units that they stand for; longer ones first.
const UNITS: [(&str, &str); 9] = [
    ("_cpu_s_per_mrow", "CPU s / M rows"),
    ("_cpu_s_per_query", "CPU s / query"),
    ("mb_per_s", "MB/s"),
    ("rows_per_s", "rows/s"),
    ("bytes_per_row", "bytes/row"),
    ("_us", "\u{b5}s"),
    ("_ms", "ms"),
    ("seconds", "s"),
    ("_s", "s"),
];

/// A figure's name for people, without the unit, and the unit.
fn label_and_unit(name: &str) -> (String, &'static str) {
    let found = UNITS.iter().find(|(end, _)| name.ends_with(end));
    let label = match found {
        Some((end @ ("_us" | "_ms" | "_s"), _)) => name.strip_suffix(end).unwrap_or(name),
        Some((end @ ("_cpu_s_per_mrow" | "_cpu_s_per_query"), _)) => {
            return (format!("{} CPU", name.strip_suffix(end).unwrap_or(name)), unit_of(end));
        }
        _ => name,
    };
    let label = label.replace("_per_", " per ").replace('_', " ").replace("p999", "p99.9");
    (label.replace("mb per", "MB per"), found.map_or("", |(_, unit)| unit))
}

fn unit_of(end: &str) -> &'static str {
    UNITS.iter().find(|(known, _)| *known == end).map_or("", |(_, unit)| unit)
}

/// A value for people: thousands apart, no more digits than mean something.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not measured".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => {
            let number = n.as_f64().unwrap_or_default();
            match number.abs() {
                0.0 => "0".to_owned(),
                1_000.0.. => thousands(&format!("{number:.0}")),
                10.0.. => format!("{number:.1}"),
                0.1.. => format!("{number:.3}"),
                _ => format!("{number:.6}"),
            }
        }
        other => thousands(&other.to_string()),
    }
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.chars().all(|c| c.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn percentiles_us(times: &mut [Duration]) -> [(&'static str, Value); 3] {
    times.sort_unstable();
    [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)]
        .map(|(name, share)| (name, percentile_us(times, share)))
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
        let found = percentiles_us(&mut times).map(|(_, value)| value.as_f64().unwrap().round());
        assert_eq!(found, [501.0, 991.0, 1_000.0]);
        assert_eq!(percentiles_us(&mut []).map(|(_, value)| value), [Value::Null, Value::Null, Value::Null]);
    }

    #[test]
    fn figures_stay_in_the_order_they_were_told_with_their_units() {
        let mut report = Report::default();
        report.asked("tables", 1_000_u64);
        report.measured("rows_per_s", 1_234_567.8);
        report.measured("bytes_per_row", Value::Null);
        report.measured("server_cpu_s_per_mrow", 0.25);
        report.measured("a_time_ms", 12.34);
        report.reference_times("ping_", &mut [Duration::from_micros(150)]);
        let mut table = Vec::new();
        report.table(&mut table).unwrap();
        let table = String::from_utf8(table).unwrap();
        let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["asked"]);
        assert_eq!(words[1], ["tables", "1,000"]);
        assert_eq!(words[3], ["rows", "per", "s", "1,234,568", "rows/s"]);
        assert_eq!(words[4], ["bytes", "per", "row", "not", "measured"]);
        assert_eq!(words[5], ["server", "CPU", "0.250", "CPU", "s", "/", "M", "rows"]);
        assert_eq!(words[6], ["a", "time", "12.3", "ms"]);
        assert_eq!(words[8], ["ping", "p50", "150.0", "\u{b5}s"]);
        assert_eq!(words[10], ["ping", "p99.9", "150.0", "\u{b5}s"]);
        let json = report.json();
        assert!(json.starts_with(r#"{"tables":1000,"rows_per_s":1234567.8,"bytes_per_row":null,"#), "{json}");
        assert!(serde_json::from_str::<Value>(&json).unwrap()["reference_ping_p50_us"].is_f64());
    }
}
