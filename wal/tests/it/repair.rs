//! Repair: whatever was damaged, the log opens afterwards, holds only records that were intact, in order and without
//! gaps, and what is not there any more was told and lies beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wal::repair::{Repair, Why, plan};
use wal::sim::{Op, SimDisk, SimFault};
use wal::{Disk, Fault, Retention, Version, WalError};

use wal::DumpFilter;

use crate::common::*;

const FIRST: u64 = 4;
const NEXT: u64 = 18;

type Files = Vec<(PathBuf, Vec<u8>)>;

/// Records 4..18 in three closed segments and an open one, what was before deleted by retention; with schemas, synced.
fn log() -> Files {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    for version in 0..NEXT {
        let new = with_schema(record(body(version)), version / 4, 1);
        wal.append(Version(version), &[new], 0).unwrap();
        wal.sync().unwrap();
        if [3, 7, 11, 15].contains(&version) {
            wal.roll(S).unwrap();
        }
    }
    let done = wal.retain(2 * S, Version(FIRST), Retention { period_s: 0, size_kb: 0 }).unwrap();
    assert_eq!(done.segments, 1);
    let files = disk.files();
    assert_eq!(segments(&disk).len(), 4);
    files
}

fn on_disk(files: &Files) -> SimDisk {
    let disk = SimDisk::new();
    files.iter().for_each(|(path, content)| disk.put(path, content));
    disk
}

/// Whether the log opens and reads as it was, and whether looking from outside says the same.
fn is_intact(disk: &SimDisk, case: &str) -> bool {
    let before = disk.files();
    let reports = wal::verify(&sim(disk), dir()).unwrap();
    let told = reports.iter().any(|report| report.state.is_bad());
    let mut dumped = Vec::new();
    for found in wal::dump(&sim(disk), dir(), DumpFilter::default()).unwrap().flatten() {
        assert_eq!(found.record.body, body(found.record.version.0), "{case}");
        dumped.push(found.record.version.0);
    }
    assert!(dumped.is_sorted_by(|a, b| a < b), "{case}: {dumped:?}");
    assert_eq!(disk.files(), before, "{case}: looking changes nothing");
    let opened = open_with(&on_disk(&before), small());
    let read = opened.and_then(|(wal, _)| read_all(&wal));
    if let Ok(records) = &read {
        let versions: Vec<_> = records.iter().map(|record| record.version.0).collect();
        assert!(told || versions == dumped, "{case}: {versions:?} {dumped:?}");
    }
    assert!(read.is_ok() || told, "{case}: verify does not see {read:?}");
    !told
}

/// Plans and carries out; checks everything that holds of any repair. Answers the plan.
fn repaired(disk: &SimDisk, held_below: u64, case: &str) -> Repair {
    let before = disk.files();
    let intact = is_intact(disk, case);
    let repair = plan(&sim(disk), dir(), Version(held_below)).unwrap();
    assert_eq!(disk.files(), before, "{case}: planning changes nothing");
    assert_eq!(repair.is_needed(), !intact, "{case}: {repair:?}");
    repair.carry_out(disk).unwrap();
    // Nothing is lost: each file that is not as it was lies aside as it was.
    let now: BTreeMap<_, _> = disk.files().into_iter().collect();
    for (path, content) in before.iter().filter(|(path, _)| path.extension().unwrap_or_default() == "log") {
        if now.get(path) != Some(content) {
            let part = repair.given_up.iter().find(|part| &part.file == path).unwrap();
            assert_eq!(now.get(part.aside.as_ref().unwrap()), Some(content), "{case}");
        }
    }
    let again = plan(&sim(disk), dir(), Version(held_below)).unwrap();
    assert!(!again.is_needed(), "{case}: {again:?}");
    let (wal, report) = open_with(disk, small()).unwrap();
    let records = read_all(&wal).unwrap();
    for (record, version) in records.iter().zip(wal.first_version().0..) {
        assert_eq!((record.version.0, &record.body), (version, &body(version)), "{case}");
    }
    assert_eq!(wal.next_version().0, wal.first_version().0 + records.len() as u64, "{case}");
    if !intact {
        assert_eq!((report.first, report.next), (repair.first, repair.next), "{case}: {repair:?}");
        // What was there before is there now, or told.
        let told = |v: u64| repair.given_up.iter().any(|part| (part.from.0..part.to.0).contains(&v));
        let last = repair.given_up.iter().map(|part| part.to).chain([repair.next]).max().unwrap();
        for version in FIRST..last.0 {
            let held = (repair.first.0..repair.next.0).contains(&version);
            assert!(held != told(version), "{case}: version {version} of {repair:?}");
        }
    }
    let next = wal.next_version().0;
    append(&wal, next, next + 2);
    drop(wal);
    let (wal, report) = open_with(disk, small()).unwrap();
    assert_eq!(report.torn, None, "{case}");
    assert_holds(&wal, wal.first_version().0, next + 2);
    repair
}

/// With nothing in a checkpoint, with half of the log, with all of it.
const HELD: [u64; 3] = [0, 10, NEXT];

#[test]
fn every_byte_of_every_file() {
    let files = log();
    let mut kept = BTreeMap::new();
    for (path, content) in &files {
        for at in 0..content.len() {
            let held = HELD[at % 3];
            let disk = on_disk(&files);
            disk.damage(path, |bytes| bytes[at] ^= 1 << (at % 8));
            let case = format!("{} byte {at} held below {held}", path.display());
            let repair = repaired(&disk, held, &case);
            *kept.entry((repair.first.0, repair.next.0)).or_insert(0) += 1;
        }
    }
    // Each record was the first that is lost at some time, and each border the place where the log begins anew.
    let ends: Vec<_> = (FIRST..NEXT).filter(|next| kept.contains_key(&(FIRST, *next))).collect();
    assert_eq!(ends, (FIRST..NEXT).collect::<Vec<_>>(), "{kept:?}");
    for begin in [8, 12, 16] {
        assert!(kept.contains_key(&(begin, NEXT)), "{kept:?}");
    }
}

#[test]
fn every_length_of_every_file() {
    let files = log();
    for (path, content) in &files {
        for len in 0..content.len() {
            let held = HELD[len % 3];
            let disk = on_disk(&files);
            disk.damage(path, |bytes| bytes.truncate(len));
            repaired(&disk, held, &format!("{} length {len} held below {held}", path.display()));
        }
    }
}

#[test]
fn every_file_missing() {
    let files = log();
    for (path, _) in &files {
        for held in HELD {
            let disk = on_disk(&files);
            disk.remove(path).unwrap();
            repaired(&disk, held, &format!("{} missing, held below {held}", path.display()));
        }
    }
}

#[test]
fn two_damages_at_once() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    let files = log();
    for round in 0..4000 {
        let disk = on_disk(&files);
        let mut case = format!("round {round}:");
        for _ in 0..2 {
            let (path, content) = &files[rng.random_range(0..files.len())];
            let at = rng.random_range(0..content.len());
            let what = rng.random_range(0..10);
            case += &format!(" {} {what} {at}", path.display());
            match what {
                0 => drop(disk.remove(path)),
                1 => drop(disk.damage(path, |bytes| bytes.truncate(at))),
                2 => drop(disk.damage(path, |bytes| bytes.iter_mut().skip(at).for_each(|byte| *byte = 0))),
                _ => drop(disk.damage(path, |bytes| {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 0x55;
                    }
                })),
            }
        }
        // A damaged format number looks like a later format if the rest is damaged too.
        if !matches!(plan(&sim(&disk), dir(), Version(0)), Err(WalError::NewerFormat { .. })) {
            repaired(&disk, HELD[round % 3], &case);
        }
    }
}

#[test]
fn c073_a_hole_in_the_middle_is_told_before_anything_is_done() {
    let files = log();
    let second = segment(8);
    let record_border = |len: usize| len - 64 - body(11).len().next_multiple_of(64);
    for (what, held, first, next) in [
        ("truncated at a record border", 0, 4, 11),
        ("truncated inside a record", 0, 4, 11),
        ("byte flipped in a body", 0, 4, 11),
        ("missing", 0, 4, 8),
        ("missing", 12, 12, 18),
        ("missing", 11, 4, 8), // version 11 is needed and gone: the log ends before the hole
    ] {
        let disk = on_disk(&files);
        match what {
            "truncated at a record border" => disk.damage(&second, |b| b.truncate(record_border(b.len()))),
            "truncated inside a record" => disk.damage(&second, |b| b.truncate(b.len() - 70)),
            "byte flipped in a body" => disk.damage(&second, |b| {
                let at = b.len() - 60;
                b[at] ^= 1;
            }),
            _ => disk.remove(&second).is_ok(),
        };
        let case = format!("{what}, held below {held}");
        let repair = repaired(&disk, held, &case);
        assert_eq!((repair.first.0, repair.next.0), (first, next), "{case}: {repair:?}");
    }
}

#[test]
fn what_is_given_up_is_stated_exactly() {
    let files = log();
    let disk = on_disk(&files);
    let third = segment(12);
    let len = content(&disk, &third).len() as u64;
    let end = {
        // records 12 and 13 with one schema, before record 14
        let blocks =
            [schema_bytes(wal::SchemaKey { owner: 3, version: 1 }).len(), body(12).len(), body(13).len()];
        128 + blocks.into_iter().map(wal::record_bytes).sum::<u64>()
    };
    disk.damage(&third, |bytes| bytes[usize::try_from(end).unwrap() + 5] ^= 1);
    let repair = plan(&sim(&disk), dir(), Version::default()).unwrap();
    let told: Vec<_> = repair
        .given_up
        .iter()
        .map(|part| (part.file.clone(), part.aside.clone().unwrap(), part.from.0, part.to.0, part.bytes))
        .collect();
    let aside = |path: &Path| PathBuf::from(format!("{}.damaged", path.display()));
    let last = segment(16);
    assert_eq!(
        told,
        [
            (third.clone(), aside(&third), 14, 16, len - end),
            (last.clone(), aside(&last), 16, 18, content(&disk, &last).len() as u64)
        ]
    );
    let Why::Damaged(damage) = &repair.given_up[0].why else { panic!("{repair:?}") };
    assert_eq!((damage.offset, damage.version, damage.what), (end, Version(14), Fault::HeaderCrc));
    assert!(matches!(repair.given_up[1].why, Why::CutOff));
    assert_eq!((repair.first, repair.next), (Version(4), Version(14)));

    // An earlier repair's files are not overwritten.
    disk.put(&aside(&third), b"from last year");
    let repair = plan(&sim(&disk), dir(), Version::default()).unwrap();
    let other = PathBuf::from(format!("{}.damaged-2", third.display()));
    assert_eq!(repair.given_up[0].aside.as_deref(), Some(&*other));
}

#[test]
fn records_that_a_cut_removed_do_not_come_back() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    append(&wal, 0, 10);
    wal.cut_from(Version(5), 0).unwrap();
    wal.append(Version(5), &[record("another five")], 0).unwrap();
    wal.roll(0).unwrap();
    wal.append(Version(6), &[record("another six")], 0).unwrap();
    wal.sync().unwrap();
    drop(wal);
    // Records 5..10 of the first history lie intact behind the first segment's end, which its successor tells.
    for (what, lost) in [("header", 5), ("file", 5)] {
        let disk = on_disk(&disk.files());
        match what {
            "header" => drop(disk.damage(&segment(lost), |bytes| bytes[30] ^= 1)),
            _ => disk.remove(&segment(lost)).unwrap(),
        }
        let repair = plan(&sim(&disk), dir(), Version::default()).unwrap();
        assert_eq!((repair.first, repair.next), (Version(0), Version(5)), "{what}: {repair:?}");
        repair.carry_out(&disk).unwrap();
        let (wal, report) = open_with(&disk, small()).unwrap();
        assert_eq!(report.torn, None);
        assert_holds(&wal, 0, 5);
        let dumped = wal::dump(&sim(&disk), dir(), DumpFilter::default()).unwrap().count();
        assert_eq!(dumped, 5);
    }
}

#[test]
fn a_crash_or_an_error_at_any_step_leaves_it_to_do_again() {
    let files = log();
    let ops = [Op::Create, Op::Write, Op::Sync, Op::SyncDir, Op::Rename, Op::Remove, Op::Read, Op::Open];
    let mut failed = 0;
    for damaged in [8, 12] {
        for held in [0, NEXT] {
            for (op, nth) in ops.into_iter().flat_map(|op| (0..6).map(move |nth| (op, nth))) {
                for seed in 0..8 {
                    let disk = on_disk(&files);
                    disk.damage(&segment(damaged), |bytes| bytes[400] ^= 1);
                    let wanted = plan(&sim(&disk), dir(), Version(held)).unwrap();
                    disk.fail_nth(op, nth, SimFault::Errno(28));
                    failed += u32::from(wanted.carry_out(&disk).is_err());
                    disk.clear_faults();
                    disk.crash(seed);
                    let repair = plan(&sim(&disk), dir(), Version(held)).unwrap();
                    repair.carry_out(&disk).unwrap();
                    disk.crash(seed);
                    let (wal, _) = open(&disk);
                    assert_holds(&wal, wanted.first.0, wanted.next.0);
                }
            }
        }
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn what_is_no_damage_is_refused() {
    let disk = on_disk(&log());
    disk.damage(&segment(8), |bytes| (bytes[8], bytes[100]) = (9, 1));
    let refused = plan(&sim(&disk), dir(), Version::default()).unwrap_err();
    assert!(matches!(refused, WalError::NewerFormat { found: 9, .. }), "{refused}");
    let disk = on_disk(&log());
    disk.fail_nth(Op::Read, 5, SimFault::Errno(5));
    let refused = plan(&sim(&disk), dir(), Version::default()).unwrap_err();
    assert!(matches!(refused, WalError::Io { .. }), "{refused}");
}
