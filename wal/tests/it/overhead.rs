//! What the log costs in bytes.

use wal::record_bytes;
use wal::sim::SimDisk;
use wal::{Options, Version};

use crate::common::*;

#[test]
fn headers_and_padding_of_a_large_batch_are_at_most_three_thousandths() {
    for body_len in [64 << 10, (64 << 10) + 1, (64 << 10) + 63, 200_000] {
        let disk = SimDisk::new();
        let (wal, _) = open_with(&disk, Options::default()).unwrap();
        wal.append(Version(0), &[record(vec![7; body_len])], 0).unwrap();
        let before = wal.size().bytes;
        wal.append(Version(1), &[record(vec![7; body_len])], 0).unwrap();
        let taken = wal.size().bytes - before;
        assert_eq!(taken, record_bytes(body_len));
        assert!((taken - body_len as u64) * 1000 <= body_len as u64 * 3, "{taken} for {body_len}");
    }
}

/// What the row itself takes is the data record's affair; two lines of 64 bytes are left for it.
#[test]
fn a_small_record_takes_three_lines() {
    assert_eq!(record_bytes(128), 192);
    assert_eq!(record_bytes(0), 64);
}
