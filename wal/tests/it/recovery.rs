//! What opening makes of what a crash leaves.

use wal::sim::{Op, SimDisk};
use wal::{Fault, Ignored, Version, WalError};

use crate::common::*;

/// A log of one segment with records 0..n, and its bytes.
fn one_segment(n: u64) -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    append(&wal, 0, n);
    let bytes = content(&disk, &segment(0));
    (disk, bytes)
}

#[test]
fn a_tail_torn_at_any_byte_is_cut() {
    let (_, bytes) = one_segment(5);
    // where each record ends
    let ends: Vec<u64> = (1..=5).map(|n| one_segment(n).1.len() as u64).collect();
    for len in 128..bytes.len() {
        let disk = SimDisk::new();
        disk.put(&segment(0), &bytes[..len]);
        let (wal, report) = open(&disk);
        let whole = ends.iter().filter(|end| **end <= len as u64).count() as u64;
        assert_holds(&wal, 0, whole);
        let border = len == 128 || ends.contains(&(len as u64));
        assert_eq!(report.torn.is_none(), border, "length {len}");
        if let Some(torn) = report.torn {
            assert_eq!((torn.version, torn.offset + torn.bytes), (Version(whole), len as u64));
        }
        // What follows goes elsewhere, and nothing of the torn record comes back.
        append(&wal, whole, whole + 2);
        drop(wal);
        let (wal, report) = open(&disk);
        assert_eq!(report.torn, None);
        assert_holds(&wal, 0, whole + 2);
        assert!(content(&disk, &segment(0)).len() >= len || whole == 0, "never truncated");
    }
}

#[test]
fn a_record_behind_a_cut_is_never_taken_for_the_next() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    append(&wal, 0, 10);
    wal.cut_from(Version(5), 0).unwrap();
    // Records 5..10 still lie intact in the first file, and 5 is the next version.
    assert!(content(&disk, &segment(0)).windows(8).any(|w| w == b"record 9"));
    drop(wal);
    let (wal, _) = open(&disk);
    assert_holds(&wal, 0, 5);
    // Neither are they if somebody lays them behind the new segment's header: the checksums start from its salt.
    drop(wal);
    let stale = content(&disk, &segment(0))[128..].to_vec();
    disk.damage(&segment(5), |bytes| bytes.extend(stale));
    let (wal, report) = open(&disk);
    assert_holds(&wal, 0, 5);
    assert!(report.torn.is_some());
}

#[test]
fn a_record_of_another_history_of_the_same_segment_does_not_follow() {
    // Two histories that part after record 0: same segment, same versions, same sizes.
    let history = |word: &str| {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append(&wal, 0, 1);
        wal.append(Version(1), &[record(format!("{word} one"))], 0).unwrap();
        wal.append(Version(2), &[record(format!("{word} two"))], 0).unwrap();
        content(&disk, &segment(0))
    };
    let (ours, theirs) = (history("our"), history("the"));
    let third = ours.len() - 128;
    let disk = SimDisk::new();
    disk.put(&segment(0), &[&ours[..third], &theirs[third..]].concat());
    let refused = open_with(&disk, small()).unwrap_err();
    let WalError::Damaged(damage) = &refused else { panic!("{refused}") };
    assert_eq!((damage.what, damage.version), (Fault::Chain, Version(2)), "{refused}");
}

#[test]
fn c071_empty_last_files_are_a_normal_sight() {
    for (name, bytes, why) in [
        ("00000000000000000030.log", 0, Some(Ignored::BlankSegment)),
        ("00000000000000000030.log", 4096, Some(Ignored::BlankSegment)),
        ("00000000000000000031.log", 4096, Some(Ignored::BlankSegment)),
        ("00000000000000000099.log", 0, Some(Ignored::BlankSegment)),
        ("00000000000000000000.idx", 0, Some(Ignored::EmptyIndex)),
        ("00000000000000000099.idx", 0, Some(Ignored::StrayIndex)),
        ("00000000000000000030.log.tmp", 0, Some(Ignored::Unfinished)),
        ("checkpoint.tmp", 0, None),
    ] {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append(&wal, 0, 30);
        drop(wal);
        let file = dir().join(name);
        disk.put(&file, &vec![0; bytes]);
        let (wal, report) = open(&disk);
        let ignored: Vec<_> = report.ignored.iter().map(|ignored| (&ignored.file, ignored.why)).collect();
        assert_eq!(ignored, why.map(|why| (&file, why)).into_iter().collect::<Vec<_>>(), "{name}");
        assert_holds(&wal, 0, 30);
        append(&wal, 30, 60);
        drop(wal);
        let (wal, report) = open(&disk);
        assert_eq!(report.ignored.iter().filter(|i| i.why != Ignored::EmptyIndex).count(), 0, "{name}");
        assert_holds(&wal, 0, 60);
    }
}

#[test]
fn a_blank_file_alone_keeps_the_place_of_the_log() {
    let disk = SimDisk::new();
    disk.put(&segment(500), b"");
    let (wal, report) = open(&disk);
    assert_eq!((report.next, wal.next_version()), (Version(500), Version(500)));
}

#[test]
fn c073_damage_in_a_closed_segment_refuses_or_is_told_at_first_read() {
    let log = || {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append(&wal, 0, 60);
        drop(wal);
        let second = segments(&disk)[1].clone();
        (disk, second)
    };
    let ends = |disk: &SimDisk, path: &std::path::Path| {
        let reports = wal::verify(&sim(disk), path).unwrap();
        reports[0].bytes as usize
    };

    // cut at a record border, and in the middle of a record
    for back in [128, 1] {
        let (disk, second) = log();
        let end = ends(&disk, &second);
        disk.damage(&second, |bytes| bytes.truncate(end - back));
        let refused = open_with(&disk, small()).unwrap_err();
        let WalError::Damaged(damage) = &refused else { panic!("{refused}") };
        assert_eq!((&damage.file, damage.what), (&second, Fault::Truncated), "{refused}");
        assert!(wal::verify(&sim(&disk), dir()).unwrap()[1].state.is_bad());
    }
    // gone
    let (disk, second) = log();
    wal::Disk::remove(&disk, &second).unwrap();
    let refused = open_with(&disk, small()).unwrap_err();
    assert!(
        matches!(&refused, WalError::Damaged(d) if d.what == Fault::Missing && d.file == second),
        "{refused}"
    );
    // a byte in a body: found where it is read
    let (disk, second) = log();
    disk.damage(&second, |bytes| bytes[128 + 64 + 3] ^= 1);
    let (wal, _) = open(&disk);
    let told = read_all(&wal).unwrap_err();
    assert!(matches!(&told, WalError::Damaged(d) if d.file == second && d.what == Fault::BodyCrc), "{told}");
    assert!(wal::verify(&sim(&disk), dir()).unwrap()[1].state.is_bad());
}

#[test]
fn damage_before_intact_records_of_the_last_segment_refuses() {
    let (_, bytes) = one_segment(5);
    let second = one_segment(1).1.len();
    for at in [second, second + 20, second + 64] {
        let disk = SimDisk::new();
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        disk.put(&segment(0), &bad);
        let refused = open_with(&disk, small()).unwrap_err();
        let WalError::Damaged(damage) = &refused else { panic!("{refused}") };
        assert_eq!((damage.offset, damage.version), (second as u64, Version(1)), "{refused}");
        assert_eq!(content(&disk, &segment(0)), bad, "nothing was changed");
    }
}

#[test]
fn a_write_that_was_lost_before_others_is_cut_unless_it_was_durable() {
    let hole = one_segment(1).1.len()..one_segment(2).1.len();
    for synced in [false, true] {
        let disk = SimDisk::new();
        let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
        append(&wal, 0, 2);
        if synced {
            wal.sync().unwrap();
        }
        append(&wal, 2, 5);
        drop(wal);
        disk.damage(&segment(0), |bytes| bytes[hole.clone()].fill(0));
        match open_with(&disk, small()) {
            Ok((wal, report)) => {
                assert!(!synced);
                assert_eq!(report.torn.unwrap().blocks, 3);
                assert_holds(&wal, 0, 1);
            }
            Err(refused) => assert!(synced && refused.is_damage(), "{refused}"),
        }
    }
}

#[test]
fn a_newer_format_is_refused() {
    let (disk, _) = one_segment(2);
    disk.damage(&segment(0), |bytes| (bytes[8], bytes[100]) = (2, 1));
    let refused = open_with(&disk, small()).unwrap_err();
    assert!(matches!(refused, WalError::NewerFormat { found: 2, known: 1, .. }));
    assert!(refused.to_string().contains("newer format"), "{refused}");
}

#[test]
fn an_io_error_is_neither_damage_nor_the_end() {
    for op in [Op::Open, Op::Read, Op::List, Op::Len] {
        for nth in 0..40 {
            let disk = SimDisk::new();
            let (wal, _) = open(&disk);
            append(&wal, 0, 30);
            drop(wal);
            disk.fail_nth(op, nth, wal::sim::SimFault::Errno(5));
            match open_with(&disk, small()) {
                Err(e) => assert!(matches!(e, WalError::Io { .. }), "{e}"),
                Ok((wal, report)) => {
                    assert_eq!((report.torn, wal.next_version()), (None, Version(30)));
                    match read_all(&wal) {
                        Err(e) => assert!(matches!(e, WalError::Io { .. }), "{e}"),
                        Ok(records) => assert_eq!(records.len(), 30),
                    }
                }
            }
            disk.clear_faults();
            let (wal, _) = open(&disk);
            assert_holds(&wal, 0, 30);
        }
    }
}
