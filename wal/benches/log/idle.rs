//! What a thousand idle logs of a hundred segments cost.

use std::fs;
use std::path::Path;

use criterion::Criterion;
use wal::Version;

use crate::{filled, noise, open_log};

const LOGS: usize = 1000;
const SEGMENTS: u64 = 100;

/// Resident memory of this process.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn handles() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

pub(crate) fn idle(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().join("template");
    c.bench_function("log/open of a log of 100 segments", |b| {
        if !template.exists() {
            let log = filled(&template, &noise(100), 1);
            for version in 1..SEGMENTS {
                log.roll(0).unwrap();
                log.append(Version(version), &[crate::record(&noise(100))], 0).unwrap();
            }
        }
        b.iter_with_large_drop(|| open_log(&template));
    });
    if !template.exists() {
        return; // filtered out
    }
    let dirs: Vec<_> = (0..LOGS).map(|at| dir.path().join(at.to_string())).collect();
    dirs.iter().for_each(|to| copy_dir(&template, to));
    let (memory, files) = (resident_bytes(), handles());
    let logs: Vec<_> = dirs.iter().map(|dir| open_log(dir)).collect();
    let (memory, files) = (resident_bytes() - memory, handles() - files);
    println!(
        "FIGURE {} logs of {SEGMENTS} segments: {:.1} KiB a log, {} B a segment, {files} open files (aim <= 64 KiB a log)",
        logs.len(),
        memory as f64 / LOGS as f64 / 1024.0,
        memory / (LOGS as u64 * SEGMENTS),
    );
}
