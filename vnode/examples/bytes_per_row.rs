//! Bytes a row and time that data files take, by level of zstd: what docs/decisions/0011 rests on.
//!
//! `cargo run --release -p tidemark-vnode --example bytes_per_row [TABLES [ROWS [DIR]]]`
//!
//! Meters as in TDengine's example (`ts`, `current` FLOAT, `voltage` INT, `phase` FLOAT), each a seeded random walk in the
//! steps that such a device reports: 1 mA, 1 V, 0.001 of a period. For comparison it prints the entropy of the columns:
//! that of the steps of each walk, which is what its values tell anew, row by row.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a tool of ours")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "made-up values")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, Int32Array, TimestampMillisecondArray};
use model::{ColumnId, DataType, Precision, SchemaVersion, TableSchema, TableUid, Version};
use query::source::TimeRange;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use vnode::block::{BlockRun, RowBlock};
use vnode::store::{
    CompactionProgress, CompactionScope, CompressionLevels, Manifest, SchemaSource, Store, StoreOptions,
};
use wal::StdDisk;

const OWNER: TableUid = TableUid(7);
const FIRST_MS: i64 = 1_700_000_000_000;
const DAY_MS: i64 = 86_400_000;
/// Rows of a table that come in one write.
const BURST: usize = 100;
/// Flushes that fill the bucket.
const FLUSHES: usize = 4;

struct Names(Arc<TableSchema>);

impl SchemaSource for Names {
    fn schema(&self, _: TableUid) -> Option<Arc<TableSchema>> {
        Some(Arc::clone(&self.0))
    }

    fn table_name(&self, _: TableUid, table: TableUid) -> Option<Arc<str>> {
        Some(format!("d{}", table.0).into())
    }
}

/// A value that goes up and down, in whole steps.
struct Walk {
    at: i32,
    spread: f64,
    least: i32,
    most: i32,
}

impl Walk {
    fn next(&mut self, chance: &mut ChaCha8Rng) -> i32 {
        // Twelve even chances make a normal one, near enough.
        let normal = (0..12).map(|_| chance.random::<f64>()).sum::<f64>() - 6.0;
        self.at = (self.at + (normal * self.spread).round() as i32).clamp(self.least, self.most);
        self.at
    }
}

struct Meter([Walk; 3]);

/// Of the steps of a walk, in bits.
fn entropy(steps: &HashMap<i32, u64>) -> f64 {
    let total = steps.values().sum::<u64>() as f64;
    -steps.values().map(|n| *n as f64 / total).map(|p| p * p.log2()).sum::<f64>()
}

struct Rows {
    blocks: Vec<RowBlock>,
    rows: usize,
    bits: [f64; 3],
}

fn rows(tables: usize, rows: usize) -> Rows {
    let mut chance = ChaCha8Rng::seed_from_u64(1);
    let mut meters: Vec<Meter> = (0..tables)
        .map(|_| {
            let current =
                Walk { at: chance.random_range(5_000..15_000), spread: 60.0, least: 0, most: 30_000 };
            let voltage = Walk { at: chance.random_range(215..225), spread: 1.5, least: 190, most: 250 };
            let phase = Walk { at: chance.random_range(200..600), spread: 40.0, least: 0, most: 1_000 };
            Meter([current, voltage, phase])
        })
        .collect();
    let mut steps: [HashMap<i32, u64>; 3] = Default::default();
    let mut blocks = Vec::new();
    for burst in 0..rows / BURST {
        let (mut ts, mut values) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
        let mut runs = Vec::new();
        for (table, meter) in meters.iter_mut().enumerate() {
            for row in 0..BURST {
                // Devices are a few milliseconds late.
                let at = (burst * BURST + row) as i64 * 1_000 + chance.random_range(0..5);
                ts.push(FIRST_MS / DAY_MS * DAY_MS + at);
                for ((walk, values), steps) in meter.0.iter_mut().zip(&mut values).zip(&mut steps) {
                    let before = walk.at;
                    values.push(walk.next(&mut chance));
                    *steps.entry(walk.at - before).or_default() += 1;
                }
            }
            runs.push(BlockRun { table: TableUid(table as u64 + 10), end: u32::try_from(ts.len()).unwrap() });
        }
        let [current, voltage, phase] = values;
        let thousandths = |values: Vec<i32>| -> ArrayRef {
            Arc::new(Float32Array::from_iter_values(values.into_iter().map(|v| v as f32 / 1_000.0)))
        };
        let arrays: [ArrayRef; 4] = [
            Arc::new(TimestampMillisecondArray::from(ts)),
            thousandths(current),
            Arc::new(Int32Array::from(voltage)),
            thousandths(phase),
        ];
        let columns = (1..).map(ColumnId).zip(arrays).collect();
        blocks.push(RowBlock {
            owner: OWNER,
            schema_version: SchemaVersion(1),
            runs,
            columns,
            complete: true,
        });
    }
    let [current, voltage, phase] = steps;
    Rows { blocks, rows: tables * (rows / BURST) * BURST, bits: [&current, &voltage, &phase].map(entropy) }
}

fn bytes(store: &Store) -> u64 {
    store.manifest().files.iter().map(|file| file.bytes).sum()
}

fn measure(dir: &Path, level: i32, rows: &Rows, names: &Names) {
    let options = StoreOptions {
        dir: dir.join(format!("level{level}")),
        precision: Precision::Ms,
        duration_ticks: 10 * DAY_MS,
        levels: CompressionLevels { flush: level, compaction: level },
    };
    let mut store = Store::new(options, Arc::new(StdDisk), Manifest::default()).unwrap();
    let (mut version, mut flushing) = (0, 0.0);
    for part in rows.blocks.chunks(rows.blocks.len().div_ceil(FLUSHES)) {
        for block in part {
            version += 1;
            store.apply(Version(version), block.clone());
        }
        let job = store.freeze().unwrap();
        let start = Instant::now();
        let outcome = job.run(names).unwrap();
        flushing += start.elapsed().as_secs_f64();
        store.install(outcome);
    }
    let flushed = bytes(&store);
    let job = store.compaction(Version(version), CompactionScope::All(TimeRange::ALL), None).unwrap();
    let start = Instant::now();
    let outcome = job.run(names, &CompactionProgress::default()).unwrap().unwrap();
    let compacting = start.elapsed().as_secs_f64();
    assert!(store.install_compaction(outcome));
    drop(job);
    let merged = bytes(&store);
    let (count, million) = (rows.rows as f64, rows.rows as f64 / 1e6);
    println!(
        "{level:5} {:12.2} {:14.2} {:13.2} {:16.2}",
        flushed as f64 / count,
        flushing / million,
        merged as f64 / count,
        compacting / million
    );
    let manifest = store.manifest();
    store.manifest_saved(&manifest);
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: usize| args.next().map_or(default, |arg| arg.parse().expect("a number"));
    let (tables, per_table) = (number(200), number(10_000));
    let temporary = tempfile::tempdir().unwrap();
    let dir = args.next().map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    let columns = [
        ("ts", DataType::Timestamp),
        ("current", DataType::Float),
        ("voltage", DataType::Int),
        ("phase", DataType::Float),
    ];
    let columns = columns.map(|(name, data_type)| (name.to_owned(), data_type)).to_vec();
    let names = Names(Arc::new(TableSchema::new(columns, Vec::new())));
    let rows = rows(tables, per_table);
    let [current, voltage, phase] = rows.bits;
    let sum = (current + voltage + phase) / 8.0;
    println!(
        "{} rows; entropy current={current:.2} voltage={voltage:.2} phase={phase:.2} bits: {sum:.2} bytes a row",
        rows.rows
    );
    println!("level flushed_B/row flush_s/Mrow merged_B/row compact_s/Mrow");
    for level in [1, 3, 6, 9, 15] {
        measure(&dir, level, &rows, &names);
    }
}
