//! The zeros behind a large append: a matter of speed that nothing else may notice.

use wal::sim::SimDisk;
use wal::{OpenReport, Options, SegmentState, Version, Wal, verify};

use crate::common::*;

const STEP: u64 = 1024;

fn options() -> Options {
    Options { filler_bytes: STEP, ..Options::default() }
}

fn open(disk: &SimDisk) -> (Wal, OpenReport) {
    open_with(disk, options()).unwrap()
}

/// A record that takes 640 bytes.
fn large(version: u64) -> wal::NewRecord {
    record(vec![u8::try_from(version % 251).unwrap() | 1; 576])
}

fn append_large(wal: &Wal, from: u64, to: u64) {
    for version in from..to {
        wal.append(Version(version), &[large(version)], 0).unwrap();
    }
}

fn assert_holds_large(wal: &Wal, to: u64) {
    let found: Vec<_> = read_all(wal).unwrap().into_iter().map(|record| record.body).collect();
    assert_eq!(found, (0..to).map(|version| large(version).body).collect::<Vec<_>>());
}

fn file_len(disk: &SimDisk) -> u64 {
    content(disk, &segment(0)).len() as u64
}

#[test]
fn appends_go_over_the_zeros_and_opening_finds_nothing_torn() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append_large(&wal, 0, 7);
    assert!(wal.size().bytes < file_len(&disk), "there are zeros");
    assert_eq!(file_len(&disk) % STEP, 0);
    assert_holds_large(&wal, 7);
    drop(wal);

    let reports = verify(&sim(&disk), dir()).unwrap();
    assert!(reports.iter().all(|report| matches!(report.state, SegmentState::Intact)), "{reports:?}");

    let (wal, report) = open(&disk);
    assert_eq!(report.torn, None);
    append_large(&wal, 7, 12);
    assert_eq!(wal.size().segments, 1, "the segment goes on");
    assert_holds_large(&wal, 12);
}

#[test]
fn small_appends_leave_zeros_once_a_step() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 5);
    assert_eq!(file_len(&disk), wal.size().bytes, "before the first step");
    append(&wal, 5, 40);
    assert_eq!(file_len(&disk), wal.size().bytes.next_multiple_of(STEP));
    assert_holds(&wal, 0, 40);
}

#[test]
fn none_while_each_append_is_synced() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    for version in 0..5 {
        append_large(&wal, version, version + 1);
        wal.sync().unwrap();
        assert_eq!(file_len(&disk), wal.size().bytes);
    }
}

#[test]
fn a_batch_that_fits_is_not_refused_for_want_of_space_for_zeros() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append_large(&wal, 0, 1);
    disk.set_capacity(Some(file_len(&disk) + 640));
    append_large(&wal, 1, 2);
    assert_eq!(file_len(&disk), wal.size().bytes);
    assert_holds_large(&wal, 2);
    let refused = wal.append(Version(2), &[large(2)], 0).unwrap_err();
    assert!(refused.is_out_of_space());
}

#[test]
fn more_zeros_than_an_append_leaves_are_a_torn_tail() {
    for (zeros, torn) in [(64 << 10, false), ((64 << 10) + 64, true)] {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append_large(&wal, 0, 2);
        let end = usize::try_from(wal.size().bytes).unwrap();
        drop(wal);
        disk.damage(&segment(0), |content| content.resize(end + zeros, 0));
        let (wal, report) = open(&disk);
        assert_eq!(report.torn.is_some(), torn);
        append_large(&wal, 2, 3);
        assert_holds_large(&wal, 3);
    }
}

#[test]
fn a_torn_block_in_front_of_zeros_is_cut() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append_large(&wal, 0, 3);
    let end = usize::try_from(wal.size().bytes).unwrap();
    drop(wal);
    disk.damage(&segment(0), |content| content[end - 100..].fill(0));
    let (wal, report) = open(&disk);
    assert_eq!(report.torn.unwrap().version, Version(2));
    append_large(&wal, 2, 3);
    assert_eq!(wal.size().segments, 2, "nothing is written behind it");
    assert_holds_large(&wal, 3);
}
