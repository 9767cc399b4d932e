//! Named cases: each states a rule and shows it before and after a flush.

use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;

use super::*;

const NULL: Cell = Cell::Null;

fn float(value: f32) -> Cell {
    Cell::Float(value)
}

fn int(value: i32) -> Cell {
    Cell::Int(value)
}

fn row(table: u64, ts: i64, cells: &[Cell]) -> Row {
    (format!("d{table}"), ts, cells.to_vec())
}

/// Checks now, after a flush, and after a restart.
fn holds(fixture: &mut Fixture, check: impl Fn(&Fixture)) {
    check(fixture);
    fixture.flush();
    check(fixture);
    fixture.reopen();
    check(fixture);
}

#[test]
fn omitted_column_keeps_its_value_and_listed_null_overwrites() {
    let mut fixture = Fixture::new();
    let (f, i) = (fixture.catalogue.id("f"), fixture.catalogue.id("i"));
    fixture.write(&Write::one(1, &[f, i], &[(10, &[float(1.0), int(1)]), (11, &[float(2.0), int(2)])]));
    fixture.write(&Write::one(1, &[f], &[(10, &[NULL])]));
    fixture.write(&Write::one(1, &[i], &[(11, &[int(3)]), (12, &[int(4)])]));
    holds(&mut fixture, |fixture| {
        let expected =
            [row(1, 10, &[NULL, int(1)]), row(1, 11, &[float(2.0), int(3)]), row(1, 12, &[NULL, int(4)])];
        assert_eq!(fixture.all(&[f, i]), expected);
    });
}

#[test]
fn presence_survives_in_each_file_of_a_bucket() {
    let mut fixture = Fixture::new();
    let (f, i) = (fixture.catalogue.id("f"), fixture.catalogue.id("i"));
    fixture.write(&Write::one(1, &[f, i], &[(1, &[float(1.0), int(1)])]));
    fixture.flush();
    fixture.write(&Write::one(1, &[f], &[(1, &[NULL])]));
    fixture.flush();
    fixture.write(&Write::one(1, &[i], &[(1, &[int(2)])]));
    holds(&mut fixture, |fixture| {
        assert_eq!(fixture.all(&[f, i]), [row(1, 1, &[NULL, int(2)])]);
        // Columns asked for alone see the same.
        assert_eq!(fixture.all(&[f]), [row(1, 1, &[NULL])]);
        assert_eq!(fixture.all(&[]), [row(1, 1, &[])]);
    });
}

#[test]
fn the_later_write_wins_whatever_the_order_of_times() {
    let mut fixture = Fixture::new();
    let columns: Vec<ColumnId> = fixture.catalogue.schema.columns.iter().skip(1).map(|c| c.id).collect();
    let f = fixture.catalogue.id("f");
    let cells = |value: f32| vec![float(value), NULL, NULL, NULL];
    for (times, value) in [([5, 9], 1.0), ([1, 5], 2.0), ([3, 9], 3.0)] {
        let rows = times.map(|ts| (ts, cells(value))).to_vec();
        fixture.write(&Write { columns: columns.clone(), tables: vec![(TableUid(1), rows)] });
    }
    holds(&mut fixture, |fixture| {
        let expected = [(1, 2.0), (3, 3.0), (5, 2.0), (9, 3.0)].map(|(ts, v)| row(1, ts, &[float(v)]));
        assert_eq!(fixture.all(&[f]), expected);
    });
}

#[test]
fn delete_hides_older_rows_only() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    let rows: Vec<(i64, Vec<Cell>)> = (0..10).map(|ts| (ts, vec![float(1.0)])).collect();
    fixture
        .write(&Write { columns: vec![f], tables: vec![(TableUid(1), rows.clone()), (TableUid(2), rows)] });
    fixture.flush();
    fixture.delete(&[1], 2, 8);
    fixture.write(&Write::one(1, &[f], &[(5, &[float(2.0)])]));
    holds(&mut fixture, |fixture| {
        let mut expected: Vec<Row> =
            [0, 1, 5, 9].map(|ts| row(1, ts, &[float(if ts == 5 { 2.0 } else { 1.0 })])).to_vec();
        expected.extend((0..10).map(|ts| row(2, ts, &[float(1.0)])));
        assert_eq!(fixture.all(&[f]), expected);
    });
    fixture.delete(&[1, 2], i64::MIN, i64::MAX);
    holds(&mut fixture, |fixture| assert_eq!(fixture.all(&[f]), []));
}

#[test]
fn a_partial_write_after_a_delete_does_not_bring_the_row_back() {
    let mut fixture = Fixture::new();
    let (f, i) = (fixture.catalogue.id("f"), fixture.catalogue.id("i"));
    fixture.write(&Write::one(1, &[f, i], &[(1, &[float(1.0), int(1)])]));
    fixture.flush();
    fixture.delete(&[1], 0, 5);
    fixture.write(&Write::one(1, &[i], &[(1, &[int(2)])]));
    holds(&mut fixture, |fixture| assert_eq!(fixture.all(&[f, i]), [row(1, 1, &[NULL, int(2)])]));
}

#[test]
fn tombstones_go_when_no_file_needs_them() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    fixture.write(&Write::one(1, &[f], &[(1, &[float(1.0)])]));
    fixture.delete(&[1], 0, 5);
    fixture.write(&Write::one(1, &[f], &[(2, &[float(1.0)])]));
    fixture.flush();
    assert_eq!(fixture.store.manifest().tombstones, []);
    fixture.delete(&[1], 0, 5);
    fixture.flush();
    assert_eq!(fixture.store.manifest().tombstones.len(), 1);
}

#[test]
fn added_dropped_and_renamed_columns() {
    let mut fixture = Fixture::new();
    let (f, s) = (fixture.catalogue.id("f"), fixture.catalogue.id("s"));
    let text = |t: &str| Cell::Text(t.to_owned());
    fixture.write(&Write::one(1, &[f, s], &[(1, &[float(1.0), text("a")])]));
    fixture.flush();
    fixture.catalogue.rename_column(s, "renamed");
    let n = fixture.catalogue.add_column("n", DataType::Int);
    fixture.write(&Write::one(1, &[s, n], &[(1, &[text("b"), int(5)]), (2, &[text("c"), int(6)])]));
    holds(&mut fixture, |fixture| {
        let expected = [row(1, 1, &[float(1.0), text("b"), int(5)]), row(1, 2, &[NULL, text("c"), int(6)])];
        assert_eq!(fixture.all(&[f, s, n]), expected);
    });
    // A column made again under the old name is another column.
    fixture.catalogue.drop_column(n);
    let again = fixture.catalogue.add_column("n", DataType::Varchar(10));
    assert_eq!(fixture.all(&[again, n]), [row(1, 1, &[NULL, NULL]), row(1, 2, &[NULL, NULL])]);
}

#[test]
fn dropped_tables_and_their_successors() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    fixture.write(&Write::one(1, &[f], &[(1, &[float(1.0)])]));
    fixture.flush();
    fixture.write(&Write::one(1, &[f], &[(2, &[float(1.0)])]));
    let version = fixture.next_version();
    fixture.store.drop_table(OWNER, TableUid(1), version);
    fixture.write(&Write::one(9, &[f], &[(3, &[float(2.0)])]));
    holds(&mut fixture, |fixture| {
        let mut plan = fixture.plan(&[f]);
        plan.tables = Selection::All(None);
        plan.columns.remove(0);
        plan.output = output_schema(&plan.schema, &plan.columns);
        let found: usize = batches(&fixture.store.snapshot(), plan).iter().map(RecordBatch::num_rows).sum();
        assert_eq!(found, 1);
    });
    let version = fixture.next_version();
    fixture.store.drop_owner(OWNER, version);
    assert_eq!(fixture.all(&[f]), []);
    let manifest = fixture.store.manifest();
    assert_eq!(manifest.files, []);
    assert_eq!(fixture.file_names().len(), 2, "files stay until the manifest without them is durable");
    fixture.store.manifest_saved(&manifest);
    assert_eq!(fixture.file_names(), [""; 0]);
}

#[test]
fn buckets_at_their_edges_and_before_the_epoch() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    let times = [-1_001, -1_000, -999, -1, 0, 1, 999, 1_000, i64::from(i32::MAX)];
    let rows = times.map(|ts| (ts, vec![float(ts as f32)])).to_vec();
    fixture.write(&Write { columns: vec![f], tables: vec![(TableUid(1), rows)] });
    holds(&mut fixture, |fixture| {
        assert_eq!(fixture.all(&[f]), times.map(|ts| row(1, ts, &[float(ts as f32)])));
        let mut plan = fixture.plan(&[]);
        plan.time = TimeRange { first: -1_000, last_inclusive: -1 };
        assert_eq!(fixture.scan(plan), [-1_000, -999, -1].map(|ts| row(1, ts, &[])));
    });
    let mut buckets: Vec<i64> = fixture.store.manifest().files.iter().map(|file| file.bucket).collect();
    buckets.sort_unstable();
    assert_eq!(buckets, [-2, -1, 0, 1, 2_147_483]);
    assert_eq!(fixture.store.expire(0), 2);
    assert_eq!(fixture.all(&[]).len(), 5);
}

#[test]
fn a_snapshot_does_not_move() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    fixture.write(&Write::one(1, &[f], &[(1, &[float(1.0)])]));
    let before = fixture.store.snapshot();
    let plan = fixture.plan(&[f]);
    fixture.write(&Write::one(1, &[f], &[(1, &[float(2.0)]), (2, &[float(2.0)])]));
    fixture.delete(&[1], 0, 1);
    fixture.flush();
    let version = fixture.next_version();
    fixture.store.drop_owner(OWNER, version);
    let manifest = fixture.store.manifest();
    fixture.store.manifest_saved(&manifest);
    assert_eq!(rows(&batches(&before, plan)), [row(1, 1, &[float(1.0)])]);
}

#[test]
fn a_frozen_memtable_stays_readable_and_files_follow_age() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    fixture.write(&Write::one(1, &[f], &[(1, &[float(1.0)])]));
    let first = fixture.store.freeze().unwrap();
    fixture.write(&Write::one(1, &[f], &[(1, &[float(2.0)])]));
    let second = fixture.store.freeze().unwrap();
    fixture.write(&Write::one(1, &[f], &[(1, &[float(3.0)])]));
    let expected = [row(1, 1, &[float(3.0)])];
    assert_eq!(fixture.all(&[f]), expected);
    // The later flush is done first.
    fixture.store.install(second.run(&fixture.catalogue).unwrap());
    assert_eq!(fixture.all(&[f]), expected);
    fixture.store.install(first.run(&fixture.catalogue).unwrap());
    assert_eq!(fixture.all(&[f]), expected);
    assert!(fixture.store.memtable_rows() == 1 && fixture.store.frozen_bytes() == 0);
}

#[test]
fn tags_and_names() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    for table in [3, 1, 2] {
        fixture.write(&Write::one(table, &[f], &[(1, &[float(1.0)]), (2, &[float(1.0)])]));
    }
    holds(&mut fixture, |fixture| {
        let mut plan = fixture.plan(&[]);
        let tag = plan.schema.tags[0].id;
        plan.columns.push(ScanColumn::Tag(tag));
        plan.output = output_schema(&plan.schema, &plan.columns);
        let expected = [(1, 10), (2, 20), (3, 30)].map(|(t, g)| [row(t, 1, &[int(g)]), row(t, 2, &[int(g)])]);
        assert_eq!(fixture.scan(plan), expected.concat());
    });
}

#[tokio::test]
async fn the_stream_gives_what_the_scan_gives() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    for table in 1..=50 {
        let rows = (0..2_000).map(|ts| (ts % DURATION * 2, vec![float(1.0)])).collect::<BTreeMap<_, _>>();
        let write = Write { columns: vec![f], tables: vec![(TableUid(table), rows.into_iter().collect())] };
        fixture.write(&write);
    }
    let small = collect(fixture.store.snapshot().scan(fixture.plan(&[f]))).await;
    assert_eq!(small, fixture.all(&[f]));
    fixture.flush();
    let plan = fixture.plan(&[f]);
    assert_eq!(collect(fixture.store.snapshot().scan(plan.clone())).await, small);
    // Dropped half way.
    let mut stream = fixture.store.snapshot().scan(plan);
    assert!(stream.next().await.unwrap().is_ok());
}

async fn collect(mut stream: SendableRecordBatchStream) -> Vec<Row> {
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch.unwrap());
    }
    rows(&batches)
}
