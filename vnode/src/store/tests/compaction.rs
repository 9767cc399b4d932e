//! What compaction makes of files. Random histories around it are in `property`, crashes in `crash`.

use super::*;

const ALL: CompactionScope = CompactionScope::All(TimeRange::ALL);

fn times(first: i64, count: i64, value: f32) -> Vec<TimedCells> {
    (first..first + count).map(|ts| (ts, vec![Cell::Float(value)])).collect()
}

fn write(fixture: &mut Fixture, table: u64, first: i64, count: i64, value: f32) {
    let f = fixture.catalogue.id("f");
    fixture.write(&Write { columns: vec![f], tables: vec![(TableUid(table), times(first, count, value))] });
}

#[test]
fn one_file_a_bucket_and_one_row_a_key() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    for round in 0..5 {
        for table in [1, 2] {
            write(&mut fixture, table, i64::from(round) * 5, 10, round as f32);
            write(&mut fixture, table, 5_000, 3, round as f32);
        }
        fixture.flush();
    }
    let before = fixture.all(&[f]);
    assert_eq!(fixture.file_names().len(), 10);
    assert_eq!(fixture.compact(ALL), 2);
    assert_eq!(fixture.all(&[f]), before);
    let files = fixture.store.manifest().files;
    assert_eq!(files.iter().map(|file| file.rows).collect::<Vec<_>>(), [60, 6], "{files:?}");
    assert_eq!(fixture.file_names().len(), 2, "those merged are removed");
    assert_eq!(fixture.compact(ALL), 0, "nothing is left to do");
    fixture.reopen();
    assert_eq!(fixture.all(&[f]), before);
}

#[test]
fn deleted_rows_and_dropped_tables_leave_the_disk_and_the_manifest() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    for table in 1..=3 {
        write(&mut fixture, table, 0, 100, 1.0);
    }
    fixture.flush();
    fixture.delete(&[1], 10, 29);
    let version = fixture.next_version();
    fixture.store.drop_table(OWNER, TableUid(2), version);
    fixture.catalogue.gone.push(TableUid(2));
    let before = fixture.all(&[f]);
    assert_eq!(before.len(), 180);
    assert_eq!(fixture.compact(ALL), 1);
    assert_eq!(fixture.all(&[f]), before);
    let manifest = fixture.store.manifest();
    assert_eq!(manifest.files[0].rows, 180);
    // The memtable that is written to now began before both, and may be flushed: then they are forgotten.
    write(&mut fixture, 3, 200, 1, 1.0);
    fixture.flush();
    let manifest = fixture.store.manifest();
    assert!(manifest.tombstones.is_empty() && manifest.dropped.is_empty(), "{manifest:?}");
}

#[test]
fn a_bucket_that_is_deleted_whole_leaves_no_file() {
    let mut fixture = Fixture::new();
    write(&mut fixture, 1, 0, 100, 1.0);
    write(&mut fixture, 1, 2_000, 1, 1.0);
    fixture.flush();
    let version = fixture.next_version();
    fixture.store.delete(version, OWNER, DeleteScope::All, TimeRange { first: 0, last_inclusive: 999 });
    fixture.compact(CompactionScope::Worthwhile);
    assert_eq!(fixture.file_names().len(), 1);
    assert_eq!(fixture.all(&[]).len(), 1);
}

#[test]
fn presence_outlives_a_merge_of_the_younger_files_and_ends_with_the_oldest() {
    let mut fixture = Fixture::new();
    let (f, i) = (fixture.catalogue.id("f"), fixture.catalogue.id("i"));
    // The oldest file is large: what is worthwhile leaves it out.
    for table in 1..=50 {
        let rows = (0..900).map(|ts| (ts, vec![Cell::Float((ts * table) as f32), Cell::Int(7)])).collect();
        let table = TableUid(u64::try_from(table).unwrap());
        fixture.write(&Write { columns: vec![f, i], tables: vec![(table, rows)] });
    }
    fixture.flush();
    for round in 0..4_u8 {
        // f at an instant of its own, listed as NULL in the last round; i is never named.
        let cell = if round == 3 { Cell::Null } else { Cell::Float(-1.0) };
        fixture.write(&Write::one(1, &[f], &[(i64::from(round), &[cell])]));
        fixture.flush();
    }
    let before = fixture.all(&[f, i]);
    assert_eq!(before[3].2, [Cell::Null, Cell::Int(7)]);
    assert_eq!(before[0].2, [Cell::Float(-1.0), Cell::Int(7)]);
    assert_eq!(fixture.compact(CompactionScope::Worthwhile), 1);
    let partial: Vec<bool> = fixture.store.manifest().files.iter().map(|file| file.partial).collect();
    assert_eq!(partial, [true, true], "{:?}", fixture.store.manifest().files);
    assert_eq!(fixture.all(&[f, i]), before);
    assert_eq!(fixture.compact(ALL), 1);
    assert!(!fixture.store.manifest().files[0].partial);
    assert_eq!(fixture.all(&[f, i]), before);
}

#[test]
fn deletions_after_the_checkpoint_wait_and_replay_hides_again() {
    let mut fixture = Fixture::new();
    write(&mut fixture, 1, 0, 10, 1.0);
    fixture.flush();
    write(&mut fixture, 1, 5, 10, 2.0);
    fixture.flush();
    let checkpoint = Version(fixture.version);
    let durable = fixture.store.manifest();
    fixture.delete(&[1], 0, 4);
    let job = fixture.store.compaction(checkpoint, ALL, None).unwrap();
    let outcome = job.run(&fixture.catalogue, &CompactionProgress::default()).unwrap().unwrap();
    assert!(fixture.store.install_compaction(outcome));
    assert_eq!(fixture.all(&[]).len(), 10, "hidden still");
    let manifest = fixture.store.manifest_at(checkpoint, durable);
    assert_eq!(manifest.files[0].last_version, checkpoint);
    fixture.store = open(&fixture.dir, manifest).unwrap();
    assert_eq!(fixture.all(&[]).len(), 15, "the replay has not come to it yet");
    fixture.store.delete(
        Version(fixture.version),
        OWNER,
        DeleteScope::Tables(Arc::from([TableUid(1)])),
        TimeRange { first: 0, last_inclusive: 4 },
    );
    assert_eq!(fixture.all(&[]).len(), 10);
}

#[test]
fn readers_keep_the_files_that_they_began_with() {
    let mut fixture = Fixture::new();
    let f = fixture.catalogue.id("f");
    for round in 0..3 {
        write(&mut fixture, 1, round, 10, 1.0);
        fixture.flush();
    }
    let snapshot = fixture.store.snapshot();
    let before = fixture.file_names();
    fixture.compact(ALL);
    let both = fixture.file_names();
    assert!(before.iter().all(|name| both.contains(name)), "{both:?}");
    assert_eq!(rows(&batches(&snapshot, fixture.plan(&[f]))).len(), 12);
    drop(snapshot);
    assert_eq!(fixture.file_names().len(), 1);
}

#[test]
fn what_goes_meanwhile_takes_the_result_with_it() {
    let mut fixture = Fixture::new();
    for round in 0..2 {
        write(&mut fixture, 1, round, 10, 1.0);
        fixture.flush();
    }
    let checkpoint = Version(fixture.version);
    let job = fixture.store.compaction(checkpoint, ALL, None).unwrap();
    let outcome = job.run(&fixture.catalogue, &CompactionProgress::default()).unwrap().unwrap();
    let version = fixture.next_version();
    fixture.store.drop_owner(OWNER, version);
    assert!(!fixture.store.install_compaction(outcome));
    drop(job);
    fixture.store.manifest_saved(&fixture.store.manifest());
    assert_eq!(fixture.file_names(), [] as [String; 0]);
}

#[test]
fn stopping_leaves_nothing_behind() {
    let mut fixture = Fixture::new();
    for round in 0..2 {
        write(&mut fixture, 1, round, 10, 1.0);
        fixture.flush();
    }
    let before = fixture.file_names();
    let job = fixture.store.compaction(Version(fixture.version), ALL, None).unwrap();
    let progress = CompactionProgress::default();
    progress.stop();
    assert!(job.run(&fixture.catalogue, &progress).unwrap().is_none());
    assert_eq!(fixture.file_names(), before);
}

#[test]
fn rows_are_written_again_a_bounded_number_of_times() {
    // 64 flushes of equal size into one bucket: with merges of like sizes each row moves about log times.
    let mut fixture = Fixture::new();
    let (mut flushed, mut merged) = (0, 0);
    for round in 0..64 {
        let noise = |at: i64| ((at * 7_919 + round * 104_729) % 65_537) as f32;
        let rows = (0..900).map(|ts| (ts, vec![Cell::Float(noise(ts))])).collect();
        let f = fixture.catalogue.id("f");
        let table = TableUid(1 + u64::try_from(round).unwrap());
        fixture.write(&Write { columns: vec![f], tables: vec![(table, rows)] });
        fixture.flush();
        flushed += 900;
        let checkpoint = Version(fixture.version);
        while let Some(job) = fixture.store.compaction(checkpoint, CompactionScope::Worthwhile, None) {
            merged += job.rows();
            let outcome = job.run(&fixture.catalogue, &CompactionProgress::default()).unwrap();
            assert!(fixture.store.install_compaction(outcome.unwrap()));
        }
        assert!(fixture.store.manifest().files.len() <= 8, "{round}");
    }
    assert!(merged <= 5 * flushed, "{merged} of {flushed}");
    assert_eq!(fixture.all(&[]).len(), 64 * 900);
}

#[test]
fn a_damaged_file_bars_its_bucket_only() {
    let mut fixture = Fixture::new();
    for round in 0..2 {
        write(&mut fixture, 1, round, 10, 1.0);
        write(&mut fixture, 1, 5_000 + round, 10, 1.0);
        fixture.flush();
    }
    let manifest = fixture.store.manifest();
    let path = fixture.dir.path().join(&manifest.files[0].name);
    let mut content = std::fs::read(&path).unwrap();
    let at = content.len() - 20;
    content[at] ^= 1;
    std::fs::write(&path, content).unwrap();
    fixture.store = open(&fixture.dir, manifest).unwrap();
    assert_eq!(fixture.compact(ALL), 1);
    assert_eq!(fixture.store.manifest().files.len(), 3);
}
