use std::sync::Arc;

use arrow_array::{Float32Array, Int32Array, StringArray, TimestampMillisecondArray};
use model::Value;
use proptest::prelude::*;

use super::*;
use crate::record::NewTableKind;

fn lone_row() -> DataRecord {
    let block = RowBlock {
        owner: TableUid(7),
        schema_version: SchemaVersion(1),
        runs: vec![BlockRun { table: TableUid::issued(2, 900_000).unwrap(), end: 1 }],
        columns: vec![
            (ColumnId(1), Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_000]))),
            (ColumnId(2), Arc::new(Float32Array::from(vec![10.5]))),
            (ColumnId(3), Arc::new(Int32Array::from(vec![219]))),
            (ColumnId(4), Arc::new(Float32Array::from(vec![0.31]))),
        ],
        complete: true,
    };
    let write = WriteRecord {
        received_ns: 1_700_000_000_000_000_123,
        affected_rows: 1,
        replicated: false,
        creates: vec![],
        blocks: vec![block],
    };
    DataRecord { writes: vec![write] }
}

fn several_writes() -> DataRecord {
    let mut record = lone_row();
    let create = NewTable {
        uid: TableUid::issued(2, 5).unwrap(),
        name: "d\"5".into(),
        kind: NewTableKind::Child {
            stable: TableUid(7),
            schema_version: SchemaVersion(3),
            tags: vec![Value::Null, Value::Text(String::new())].into(),
        },
        ttl_days: 0,
        comment: None,
    };
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("ü"), None, Some("")]));
    let block = RowBlock {
        owner: TableUid(7),
        schema_version: SchemaVersion(3),
        runs: vec![
            BlockRun { table: TableUid::issued(2, 5).unwrap(), end: 1 },
            BlockRun { table: TableUid::issued(2, 2).unwrap(), end: 3 },
        ],
        columns: vec![
            (ColumnId(1), Arc::new(TimestampMillisecondArray::from(vec![5, 1, 2]))),
            (ColumnId(9), text),
            (ColumnId(4), Arc::new(Int32Array::from(vec![None, Some(1), None]))),
        ],
        complete: false,
    };
    record.writes.push(WriteRecord {
        received_ns: -5,
        affected_rows: 3,
        replicated: true,
        creates: vec![create],
        blocks: vec![block.clone(), block],
    });
    record
}

fn assert_same(one: &DataRecord, other: &DataRecord) {
    assert_eq!(one.writes.len(), other.writes.len());
    for (a, b) in one.writes.iter().zip(&other.writes) {
        assert_eq!(
            (a.received_ns, a.affected_rows, a.replicated, &a.creates, a.blocks.len()),
            (b.received_ns, b.affected_rows, b.replicated, &b.creates, b.blocks.len())
        );
        for (a, b) in a.blocks.iter().zip(&b.blocks) {
            assert_eq!((a.owner, a.schema_version, a.complete), (b.owner, b.schema_version, b.complete));
            assert_eq!(a.runs, b.runs);
            assert_eq!(a.columns, b.columns);
        }
    }
}

#[test]
fn comes_back_as_it_was() {
    for record in [DataRecord::default(), lone_row(), several_writes()] {
        let body = record.encode().unwrap();
        assert_same(&DataRecord::decode(&body).unwrap(), &record);
        let rows: usize = record.writes.iter().flat_map(|w| &w.blocks).map(RowBlock::rows).sum();
        assert_eq!(DataHeader::decode(&body).unwrap().rows(), rows as u64);
    }
}

#[test]
fn a_lone_row_stays_small() {
    let body = lone_row().encode().unwrap();
    assert!(64 + body.len() <= 192, "header and body take {} bytes", 64 + body.len());
    assert!(wal::record_bytes(body.len()) <= 192, "{}", wal::record_bytes(body.len()));
}

#[test]
fn bytes_on_disk_stay() {
    let body = lone_row().encode().unwrap();
    let mut expected = vec![1, 1];
    expected.extend_from_slice(&1_700_000_000_000_000_123_i64.to_le_bytes());
    expected.extend_from_slice(&[1, 0, 0, 1]); // affected rows, flags, no tables made, one block
    expected.extend_from_slice(&[7, 1, 1]); // owner, schema version, complete
    expected.extend_from_slice(&[4, 2, 2, 2, 2]); // columns 1, 2, 3, 4
    expected.extend_from_slice(&[1, 0xc0, 0xee, 0xed, 0x80, 0x80, 0x80, 0x01, 1]); // one run of one row
    expected.extend_from_slice(&44_u32.to_le_bytes());
    assert_eq!(body[..expected.len()], expected[..]);
    assert_eq!(body.len(), 64 + 44);
}

#[test]
fn rows_are_not_copied() {
    let body = several_writes().encode().unwrap();
    let range = body.as_ptr_range();
    let record = DataRecord::decode(&body).unwrap();
    for (_, column) in record.writes.iter().flat_map(|w| &w.blocks).flat_map(|b| &b.columns) {
        for buffer in column.to_data().buffers() {
            assert!(range.contains(&buffer.as_ptr()));
        }
    }
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = DataRecord::decode(&Bytes::from(bytes));
    }

    #[test]
    fn never_panics_on_what_was_nearly_a_record(at in 0_usize..400, byte: u8, cut in 0_usize..600) {
        let mut body = several_writes().encode().unwrap().to_vec();
        if let Some(place) = body.get_mut(at) {
            *place = byte;
        }
        body.truncate(cut.max(10));
        let _ = DataRecord::decode(&Bytes::from(body));
    }
}
