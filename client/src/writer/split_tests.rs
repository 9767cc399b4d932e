//! Batches to writes: what the receiver relies on, for any order of rows.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMillisecondType, UInt32Type};
use arrow_array::{ArrayRef, Int32Array, TimestampMillisecondArray};
use model::{Code, DataType, Value, vgroup_slot};
use proptest::prelude::*;
use proto::v1;
use std::sync::Arc;

use super::batch::Batch;
use super::split::split;
use super::target::Target;

fn target(stable: u64) -> Arc<Target> {
    let values = [(2, "v", DataType::Int, false)];
    described(stable, &values)
}

/// Its columns behind the timestamp: id, name, type, and whether it is part of the key.
fn described(stable: u64, values: &[(u32, &str, DataType, bool)]) -> Arc<Target> {
    let column = |id, name: &str, data_type: DataType| v1::ColumnDef {
        id,
        name: name.into(),
        r#type: data_type.wire_id().into(),
        length: data_type.length().into(),
        is_key: false,
    };
    let described = v1::DescribeTargetResponse {
        first_time: i64::MIN,
        last_time: i64::MAX,
        precision: 0,
        vgroups: vec![2, 3, 4],
        stable,
        schema_version: 1,
        columns: [column(1, "ts", DataType::Timestamp)]
            .into_iter()
            .chain(values.iter().map(|(id, name, data_type, is_key)| v1::ColumnDef {
                is_key: *is_key,
                ..column(*id, name, *data_type)
            }))
            .collect(),
        tags: vec![column(3, "site", DataType::Varchar(8)), column(4, "n", DataType::UInt)],
    };
    Arc::new(Target::from_wire("d", "m", described).unwrap())
}

fn batch(target: &Arc<Target>) -> Batch {
    Batch::new(Arc::clone(target), target.all_columns()).unwrap()
}

/// Table to its rows, read back from the writes, while checking their invariants.
fn read(target: &Target, batch: Batch) -> BTreeMap<String, Vec<(i64, i32)>> {
    let mut tables = BTreeMap::new();
    for (vgroup, block) in split(target, batch.finish().unwrap()).unwrap() {
        let times = block.columns[0].1.as_primitive::<TimestampMillisecondType>();
        let values = block.columns[1].1.as_primitive::<Int32Type>();
        let mut start = 0;
        for run in &block.runs {
            let end = run.end as usize;
            assert!(end > start, "a run has rows");
            let slot = vgroup_slot(&run.table, 3).unwrap();
            assert_eq!(target.vgroups[slot], vgroup, "{} belongs elsewhere", run.table);
            let rows: Vec<_> = (start..end).map(|row| (times.value(row), values.value(row))).collect();
            assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "ascends strictly: {rows:?}");
            assert!(tables.insert(run.table.clone(), rows).is_none(), "a table has one run");
            start = end;
        }
        assert_eq!(start, block.rows());
    }
    tables
}

proptest! {
    #[test]
    fn any_order_of_rows_becomes_ordered_writes(
        rows in prop::collection::vec((0_u8..6, -20_i64..20, any::<i32>()), 0..200),
    ) {
        let target = target(9);
        let mut batch = batch(&target);
        let mut expected: BTreeMap<String, BTreeMap<i64, i32>> = BTreeMap::new();
        for (table, ts, value) in rows {
            let name = format!("d{table}");
            let table = batch.table(&name).unwrap();
            batch.push(table, &[Value::Timestamp(ts), Value::Int(value.into())]).unwrap();
            expected.entry(name).or_default().insert(ts, value);
        }
        let expected: BTreeMap<_, Vec<_>> =
            expected.into_iter().map(|(name, rows)| (name, rows.into_iter().collect())).collect();
        prop_assert_eq!(read(&target, batch), expected);
    }
}

proptest! {
    #[test]
    fn a_composite_key_tells_rows_of_one_instant_apart(
        rows in prop::collection::vec((0_u8..3, -4_i64..4, 0_u32..4, any::<i32>()), 0..100),
        is_text in any::<bool>(),
    ) {
        let key = if is_text { DataType::Varchar(8) } else { DataType::UInt };
        let target = described(9, &[(5, "k", key, true), (2, "v", DataType::Int, false)]);
        let mut batch = batch(&target);
        let mut expected: BTreeMap<(String, i64, String), i32> = BTreeMap::new();
        for (table, ts, k, value) in rows {
            let name = format!("d{table}");
            let table = batch.table(&name).unwrap();
            let key = if is_text { Value::Text(k.to_string()) } else { Value::UInt(k.into()) };
            batch.push(table, &[Value::Timestamp(ts), key, Value::Int(value.into())]).unwrap();
            expected.insert((name, ts, k.to_string()), value);
        }
        let mut found = BTreeMap::new();
        for (_, block) in split(&target, batch.finish().unwrap()).unwrap() {
            let times = block.columns[0].1.as_primitive::<TimestampMillisecondType>();
            let keys = &block.columns[1].1;
            let values = block.columns[2].1.as_primitive::<Int32Type>();
            let mut start = 0;
            for run in &block.runs {
                let mut last = None;
                for row in start..run.end as usize {
                    let key = match keys.as_string_opt::<i32>() {
                        Some(texts) => texts.value(row).to_owned(),
                        None => keys.as_primitive::<UInt32Type>().value(row).to_string(),
                    };
                    let this = (run.table.clone(), times.value(row), key);
                    prop_assert!(last.as_ref().is_none_or(|last| *last < this), "{last:?} before {this:?}");
                    last = Some(this.clone());
                    prop_assert!(found.insert(this, values.value(row)).is_none());
                }
                start = run.end as usize;
            }
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_composite_key_is_always_given() {
    let target = described(9, &[(5, "k", DataType::Int, true), (2, "v", DataType::Int, false)]);
    assert_eq!(target.select(&["ts", "v"]).unwrap_err().code(), Code::InvalidOperation);
    assert!(target.select(&["ts", "v", "k"]).is_ok());
    let mut batch = batch(&target);
    let d = batch.table("d").unwrap();
    let null = batch.push(d, &[Value::Timestamp(1), Value::Null, Value::Int(1)]).unwrap_err();
    assert_eq!((null.code(), batch.len()), (Code::KeyNull, 0));
    // Columns that are filled by themselves are looked at when the batch goes.
    batch.column(0).unwrap().append_i64(1).unwrap();
    batch.column(1).unwrap().append_null();
    batch.column(2).unwrap().append_i64(1).unwrap();
    batch.rows_of(d, 1);
    assert_eq!(split(&target, batch.finish().unwrap()).err().unwrap().code(), Code::KeyNull);
}

#[test]
fn whole_arrays_in_order_are_not_copied() {
    let target = target(9);
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(0..1_000));
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..1_000));
    let mut batch = batch(&target);
    let d1 = batch.table("d1").unwrap();
    batch.push_arrays(d1, &[Arc::clone(&times), values]).unwrap();
    let writes = split(&target, batch.finish().unwrap()).unwrap();
    assert_eq!(writes.len(), 1);
    let sent = writes[0].1.columns[0].1.as_primitive::<TimestampMillisecondType>();
    assert_eq!(sent.values().as_ptr(), times.as_primitive::<TimestampMillisecondType>().values().as_ptr());
}

#[test]
fn large_batches_are_cut_into_requests() {
    let target = target(9);
    let rows = 3_000_000;
    let mut batch = batch(&target);
    let d1 = batch.table("d1").unwrap();
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(0..rows));
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..3_000_000));
    batch.push_arrays(d1, &[times, values]).unwrap();
    let writes = split(&target, batch.finish().unwrap()).unwrap();
    assert_eq!(writes.len(), 3, "36 MB in requests of 16 MiB");
    assert_eq!(writes.iter().map(|(_, block)| block.rows()).sum::<usize>(), 3_000_000);
}

#[test]
fn columns_and_tables_go_together() {
    let target = target(9);
    let mut batch = batch(&target);
    let tags = [Value::Text("north".into()), Value::Int(3)];
    let d1 = batch.child("d1", &tags).unwrap();
    let d2 = batch.table("d2").unwrap();
    for ts in [3, 1, 2] {
        batch.column(0).unwrap().append_i64(ts).unwrap();
        batch.column(1).unwrap().append_i64(ts * 10).unwrap();
    }
    batch.rows_of(d1, 2);
    batch.rows_of(d2, 1);
    let finished = batch.finish().unwrap();
    assert_eq!(finished.tables[0].create_tags, Some(vec![Value::Text("north".into()), Value::UInt(3)]));
    let mut batch = self::batch(&target);
    let d1 = batch.table("d1").unwrap();
    batch.column(0).unwrap().append_i64(1).unwrap();
    batch.rows_of(d1, 1);
    assert_eq!(batch.finish().err().unwrap().code(), Code::ColumnCount, "a column has no value");
}

#[test]
fn a_refused_row_leaves_nothing_behind() {
    let target = target(9);
    let mut batch = batch(&target);
    let d1 = batch.table("d1").unwrap();
    batch.push(d1, &[Value::Timestamp(1), Value::Int(1)]).unwrap();
    let wide = batch.push(d1, &[Value::Timestamp(2), Value::Int(i64::MAX)]).unwrap_err();
    assert_eq!(wide.code(), Code::OutOfRange);
    assert_eq!(batch.push(d1, &[Value::Timestamp(2)]).unwrap_err().code(), Code::ColumnCount);
    batch.push(d1, &[Value::Timestamp(3), Value::Null]).unwrap();
    assert_eq!(batch.len(), 2);
    assert_eq!(batch.finish().unwrap().columns[0].1.len(), 2);
}

#[test]
fn what_does_not_fit_the_table_is_told() {
    let target = target(9);
    let mut batch = batch(&target);
    let code = |tags: &[Value]| batch.child("x", tags).unwrap_err().code();
    let mut code = code;
    assert_eq!(code(&[Value::Null]), Code::TagsNotMatched);
    assert_eq!(code(&[Value::Text("too long for 8".into()), Value::Null]), Code::ValueTooLong);
    assert_eq!(code(&[Value::Int(1), Value::Null]), Code::WrongValueType);
    assert_eq!(code(&[Value::Null, Value::Int(-1)]), Code::OutOfRange);
    let d = batch.table("d").unwrap();
    batch.push(d, &[Value::Null, Value::Int(1)]).unwrap();
    let no_time = split(&target, batch.finish().unwrap()).err().unwrap();
    assert_eq!(no_time.code(), Code::InvalidTimestamp);

    let normal = self::target(0);
    let mut batch = self::batch(&normal);
    assert_eq!(batch.table("other").unwrap_err().code(), Code::TableNotExist);
    batch.table("m").unwrap();
    assert_eq!(normal.select(&["ts", "zz"]).unwrap_err().code(), Code::InvalidColumn);
    assert_eq!(normal.select(&["v", "ts"]).unwrap_err().code(), Code::FirstColumn);
    assert_eq!(normal.select(&["ts", "v", "v"]).unwrap_err().code(), Code::DuplicateColumn);
}
