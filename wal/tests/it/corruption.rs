//! Every bit flipped and every length: the outcome is intact data, a torn tail that is reported, or a refusal that names
//! file, offset and version. Never a wrong record, a panic, or a loss that nobody hears of.

use std::path::{Path, PathBuf};

use wal::sim::SimDisk;
use wal::{OpenReport, Version, Wal, WalError};

use crate::common::*;

const RECORDS: u64 = 14;

/// Two closed segments and an open one, some of it with schemas; written and synced as a server does.
fn log() -> Vec<(PathBuf, Vec<u8>)> {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options { segment_bytes_max: 1000, ..small() }).unwrap();
    for version in 0..RECORDS {
        let new = with_schema(record(body(version)), version / 4, 1);
        wal.append(Version(version), &[new], 0).unwrap();
        if version % 2 == 1 {
            wal.sync().unwrap();
        }
    }
    let files = disk.files();
    assert!(files.len() >= 5, "segments and indexes: {}", files.len());
    files
}

fn on_disk(files: &[(PathBuf, Vec<u8>)]) -> SimDisk {
    let disk = SimDisk::new();
    files.iter().for_each(|(path, content)| disk.put(path, content));
    disk
}

/// Opens and reads all; checks what every outcome must keep.
fn outcome(disk: &SimDisk, case: &str) -> &'static str {
    let before = disk.files();
    let (wal, report) = match open_with(disk, small()) {
        Ok(opened) => opened,
        Err(refused) => {
            names_its_place(&refused, case);
            assert_eq!(disk.files(), before, "{case}: a refusal changes nothing");
            return "refused at open";
        }
    };
    match read_all(&wal) {
        Ok(records) => {
            for (record, version) in records.iter().zip(0..) {
                assert_eq!((record.version.0, &record.body), (version, &body(version)), "{case}");
            }
            assert_eq!(wal.next_version().0, records.len() as u64, "{case}");
            if let Err(refused) = check_sought(&wal, case) {
                names_its_place(&refused, case); // a schema block, which only its users read
                return "refused at read";
            }
            let told = report.torn.is_some() || !report.ignored.is_empty();
            assert!(records.len() as u64 == RECORDS || told, "{case}: silent loss, {} left", records.len());
            still_works(&wal, disk, &report, case);
            if records.len() as u64 == RECORDS { "intact" } else { "cut and told" }
        }
        Err(refused) => {
            names_its_place(&refused, case);
            "refused at read"
        }
    }
}

fn names_its_place(refused: &WalError, case: &str) {
    let text = refused.to_string();
    assert!(refused.is_damage(), "{case}: {text}");
    assert!(text.contains("file=/data/"), "{case}: {text}");
    if !matches!(refused, WalError::NewerFormat { .. }) {
        assert!(text.contains("offset=") && text.contains("version="), "{case}: {text}");
    }
}

fn check_sought(wal: &Wal, case: &str) -> wal::Result<()> {
    for version in [0, 3, 7, wal.next_version().0.saturating_sub(1)] {
        if let Some(record) = wal.handle().get(Version(version))? {
            assert_eq!(record.body, body(version), "{case}");
            let key = wal::SchemaKey { owner: version / 4, version: 1 };
            assert_eq!(record.schema(key)?.unwrap(), schema_bytes(key), "{case}");
        }
    }
    Ok(())
}

fn still_works(wal: &Wal, disk: &SimDisk, report: &OpenReport, case: &str) {
    let next = report.next.0;
    append(wal, next, next + 2);
    let (again, report) = open_with(disk, small()).unwrap();
    assert_eq!(report.torn, None, "{case}");
    assert_holds(&again, 0, next + 2);
}

#[test]
fn every_bit_of_every_file() {
    let files = log();
    let mut outcomes = std::collections::BTreeMap::new();
    for (path, content) in &files {
        for bit in 0..content.len() * 8 {
            let disk = on_disk(&files);
            disk.damage(path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let case = format!("{} bit {bit}", path.display());
            *outcomes.entry(outcome(&disk, &case)).or_insert(0) += 1;
        }
    }
    // Most bits are body or header of a record and must be noticed; padding and indexes may be intact.
    assert!(outcomes["refused at open"] > 1000 && outcomes["refused at read"] > 1000, "{outcomes:?}");
    assert!(outcomes["intact"] > 1000 && outcomes["cut and told"] > 100, "{outcomes:?}");
}

#[test]
fn noise_behind_a_header_and_in_an_index() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let files = log();
    for round in 0..3000 {
        let disk = on_disk(&files);
        let (path, content) = &files[rng.random_range(0..files.len())];
        // a stretch of noise, or of the same file's bytes from elsewhere
        let from = rng.random_range(0..content.len());
        let to = rng.random_range(from..=content.len());
        let other = rng.random_range(0..=content.len() - (to - from));
        let moved = rng.random_ratio(1, 2);
        disk.damage(path, |bytes| match moved {
            true => bytes[from..to].copy_from_slice(&content[other..other + to - from]),
            false => rng.fill(&mut bytes[from..to]),
        });
        outcome(&disk, &format!("round {round}: {} {from}..{to} moved={moved}", path.display()));
    }
}

#[test]
fn every_length_of_every_file() {
    let files = log();
    let last_segment = files.iter().rfind(|(path, _)| path.extension().unwrap() == "log").unwrap().0.clone();
    for (path, content) in &files {
        for len in 0..content.len() {
            let disk = on_disk(&files);
            disk.damage(path, |bytes| bytes.truncate(len));
            let case = format!("{} length {len}", path.display());
            // The last segment cut at a record border looks as if the rest had never been written: that is the one loss
            // that the log cannot see by itself.
            let seen = *path != last_segment || !ends_a_record(&files, path, len);
            if seen {
                outcome(&disk, &case);
            } else {
                let (wal, _) = open(&disk);
                read_all(&wal).unwrap();
            }
        }
    }
}

/// Whether the segment's first `len` bytes are intact by themselves.
fn ends_a_record(files: &[(PathBuf, Vec<u8>)], path: &Path, len: usize) -> bool {
    let disk = on_disk(files);
    disk.damage(path, |bytes| bytes.truncate(len));
    let reports = wal::verify(&sim(&disk), path).unwrap();
    matches!(reports[0].state, wal::SegmentState::Intact)
}
