//! What lies on disk: readable by others, refused when it is not what was written.

use std::fs;
use std::ops::Range;

use model::Code;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};

use super::*;

fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    let tables = [2, 1].map(|table| {
        let rows = (0..100).map(|ts| (ts, vec![Cell::Float(ts as f32)])).collect();
        (TableUid(table), rows)
    });
    fixture.write(&Write { columns: vec![f], tables: tables.to_vec() });
    fixture.flush();
    fixture
}

fn parquet(fixture: &Fixture) -> std::path::PathBuf {
    let [name] = <[String; 1]>::try_from(fixture.file_names()).unwrap();
    fixture.dir.path().join(name)
}

#[test]
fn the_plain_parquet_reader_sees_names_columns_and_presence() {
    let fixture = filled();
    let file = fs::File::open(parquet(&fixture)).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let names: Vec<&str> = builder.schema().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["tbname", "ts", "f", "i", "s", "b", "_set"]);
    let metadata = builder.metadata();
    assert_eq!(metadata.num_row_groups(), 1);
    for column in metadata.row_group(0).columns() {
        assert!(matches!(column.compression(), Compression::ZSTD(_)));
        assert!(column.column_index_offset().is_some() && column.statistics().is_some());
    }
    let batches: Vec<RecordBatch> = builder.build().unwrap().map(|batch| batch.unwrap()).collect();
    let rows = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(rows.num_rows(), 200);
    assert_eq!(cell(rows.column(0), 0), Cell::Text("d1".to_owned()));
    assert_eq!(cell(rows.column(0), 199), Cell::Text("d2".to_owned()));
    assert_eq!(cell(rows.column(1), 105), Cell::Time(5));
    assert_eq!(cell(rows.column(2), 105), Cell::Float(5.0));
    assert_eq!(cell(rows.column(3), 105), Cell::Null);
    // ts and f are supplied: bits 0 and 1.
    assert_eq!(rows.column(6).as_binary::<i32>().value(105), [0b11]);
}

#[test]
fn complete_rows_have_no_presence_column() {
    let mut fixture = Fixture::new();
    let columns: Vec<ColumnId> = fixture.catalogue.schema.columns.iter().skip(1).map(|c| c.id).collect();
    let cells = [Cell::Null, Cell::Null, Cell::Null, Cell::Null];
    fixture.write(&Write::one(1, &columns, &[(1, &cells)]));
    fixture.flush();
    let file = fs::File::open(parquet(&fixture)).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.schema().fields().len(), 6);
    assert!(!fixture.store.manifest().files[0].partial);
}

#[test]
fn encodings_follow_the_data() {
    let mut fixture = Fixture::new();
    let (f, i) = (fixture.catalogue.id("f"), fixture.catalogue.id("i"));
    // Times at no fixed distance, floats of all digits, and an integer of eight far values.
    let noise = |n: u64| ((n as f64 * 12.9898).sin() * 43_758.547).fract().abs();
    let tables = (1..=20).map(|table| {
        let mut ts = 0;
        let rows = (0..300).map(|row| {
            let n = table * 1_000 + row;
            ts += if noise(n) > 0.5 { 1 } else { 3 };
            let far = (noise(n + 7) * 8.0).floor() * 123_456_789.0;
            #[expect(clippy::cast_possible_truncation, reason = "made-up values")]
            let cells = vec![Cell::Float(noise(n + 3) as f32), Cell::Int(far as i32)];
            (ts, cells)
        });
        (TableUid(table), rows.collect())
    });
    fixture.write(&Write { columns: vec![f, i], tables: tables.collect() });
    fixture.flush();
    let file = fs::File::open(parquet(&fixture)).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let group = builder.metadata().row_group(0);
    let encodings = |column: usize| group.column(column).encodings().collect::<Vec<_>>();
    assert!(encodings(1).contains(&Encoding::DELTA_BINARY_PACKED), "{:?}", encodings(1));
    assert!(encodings(2).contains(&Encoding::BYTE_STREAM_SPLIT), "{:?}", encodings(2));
    assert!(encodings(3).contains(&Encoding::RLE_DICTIONARY), "{:?}", encodings(3));
}

#[test]
fn damage_is_named() {
    let fixture = filled();
    let path = parquet(&fixture);
    let (manifest, content) = (fixture.store.manifest(), fs::read(&path).unwrap());
    // It takes out the file's time, and does not keep the store from opening.
    let refused = || {
        let store = open(&fixture.dir, manifest.clone()).unwrap();
        let mut plan = fixture.plan(&[]);
        plan.time = TimeRange { first: 500, last_inclusive: 600 };
        assert_eq!(batches(&store.snapshot(), plan), []);
        let plan = fixture.plan(&[]);
        let inputs = store.snapshot().inputs(&plan);
        Scan::new(plan, inputs).next_batch().unwrap_err()
    };
    let name = path.file_name().unwrap().to_str().unwrap();

    fs::remove_file(&path).unwrap();
    assert!(refused().code() == Code::Damaged && refused().message().contains(name), "{}", refused());
    assert!(refused().message().contains("from 0 to 99"), "{}", refused());

    fs::write(&path, &content[1..]).unwrap();
    assert!(refused().code() == Code::Damaged && refused().message().contains("length"), "{}", refused());

    let mut footer = content.clone();
    let at = footer.len() - 20;
    footer[at] ^= 1;
    fs::write(&path, &footer).unwrap();
    assert!(refused().message().contains("footer"), "{}", refused());

    // Rows are read later: opening succeeds, verifying and reading do not.
    let mut rows = content.clone();
    rows[200] ^= 0xff;
    fs::write(&path, &rows).unwrap();
    let store = open(&fixture.dir, manifest.clone()).unwrap();
    assert_eq!(store.snapshot().verify().len(), 1);

    fs::write(&path, &content).unwrap();
    let store = open(&fixture.dir, manifest).unwrap();
    assert!(store.snapshot().verify().is_empty());
}

#[test]
fn what_no_manifest_names_is_removed() {
    let fixture = filled();
    for stray in ["7_0_99.parquet", "7_0_100.parquet.tmp", "notes.txt"] {
        fs::write(fixture.dir.path().join(stray), "x").unwrap();
    }
    let _reopened = open(&fixture.dir, fixture.store.manifest()).unwrap();
    assert_eq!(fixture.file_names(), ["7_0_0.parquet", "notes.txt"]);
}

#[test]
fn tables_and_times_are_read_from_their_pages() {
    // Tables of several pages in a file of two row groups.
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    let long = 10_000_000;
    fixture.store = Store::new(
        StoreOptions {
            dir: fixture.dir.path().to_owned(),
            precision: Precision::Ms,
            duration_ticks: long,
            levels: CompressionLevels::default(),
        },
        Arc::new(StdDisk),
        Manifest::default(),
    )
    .unwrap();
    for table in 1..=3 {
        let rows = (0..450_000).map(|ts| (ts, vec![Cell::Float(ts as f32)])).collect();
        fixture.write(&Write { columns: vec![f], tables: vec![(TableUid(table), rows)] });
    }
    fixture.flush();
    let read = |table: u64, times: Range<i64>| {
        let mut plan = fixture.plan(&[f]);
        plan.tables = Selection::listed(vec![selected(TableUid(table))]);
        plan.time = TimeRange { first: times.start, last_inclusive: times.end - 1 };
        fixture.scan(plan)
    };
    for (table, times) in [(1, 0..3), (2, 140_000..140_500), (3, 148_570..148_580), (3, 449_990..450_000)] {
        let expected: Vec<Row> =
            times.clone().map(|ts| (format!("d{table}"), ts, vec![Cell::Float(ts as f32)])).collect();
        assert_eq!(read(table, times), expected);
    }
    let mut plan = fixture.plan(&[f]);
    plan.columns = vec![ScanColumn::Column(f)];
    plan.output = output_schema(&plan.schema, &plan.columns);
    let count: usize = batches(&fixture.store.snapshot(), plan).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, 3 * 450_000);
}
