use model::{Code, ColumnDef, SchemaVersion, Version};

use super::*;
use crate::record::SchemaChange;
use crate::subscribe::{Batch, BatchKind, RecordRun};

fn events(seen: Vec<(String, Vec<Row>)>) -> Vec<String> {
    seen.into_iter().map(|(json, _)| json).collect()
}

/// Spec 2.3: a block a table, in the order of writing; only what the write named.
#[tokio::test]
async fn a_database_topic_shows_each_table_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1), ("a", 2, 2), ("b", 1, 3)], Some(1))).await.unwrap();
    let mut partial = rows(&[("a", 3, 4), ("c", 3, 5)], Some(1));
    partial.blocks[0].columns.remove(2);
    vnode.write(partial).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let Read::Batch(batch) = reader.read(i64::MAX).unwrap() else { panic!("rows") };
    let shape: Vec<_> = batch
        .blocks
        .iter()
        .map(|b| (b.table.as_deref().unwrap(), b.schema.columns.len(), b.rows()))
        .collect();
    // Tables that a write makes come before those that were there.
    assert_eq!(shape, [("a", 3, 2), ("b", 3, 1), ("c", 2, 1), ("a", 2, 1)]);
    assert!(Arc::ptr_eq(&batch.blocks[0].schema, &batch.blocks[1].schema));
    assert_eq!((batch.kind, batch.json.as_str(), batch.skipped), (BatchKind::Data, "", None));
    assert_eq!((batch.next, reader.position()), (vnode.positions().end(), batch.next));
    assert!(matches!(reader.read(i64::MAX).unwrap(), Read::CaughtUp(_)));
    vnode.close().await.unwrap();
}

/// Spec 2.4: the record that reaches the limit is still included, and none is ever split.
#[tokio::test]
async fn a_batch_ends_with_the_record_that_reaches_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    for n in 0..5 {
        vnode.write(rows(&[("a", n, 1), ("b", n, 2)], Some(1))).await.unwrap();
    }
    let mut limited = request(OffsetReset::Earliest);
    limited.options.min_poll_rows = 3;
    let mut reader = vnode.subscribe(limited).await.unwrap();
    let sizes: Vec<_> = drain(&mut reader).iter().map(|(_, rows)| rows.len()).collect();
    assert_eq!(sizes, [4, 4, 2]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_deadline_ends_a_look_that_found_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let before = reader.position();
    assert!(matches!(reader.read(0).unwrap(), Read::Timeout(range) if range.position > before));
    assert!(reader.position() > before, "the position has advanced");
    vnode.close().await.unwrap();
}

/// Texts as captured: oracle meta-tables-00, meta-children-03, meta-autocreate-01, meta-set_tag-05 and -11, meta-drop-01.
#[tokio::test]
async fn events_are_written_as_captured() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::With).await;
    let columns = [("ts", DataType::Timestamp), ("c1", DataType::Int), ("c2", DataType::Varchar(8))];
    let tags = [("t1", DataType::Int), ("t2", DataType::Varchar(16))];
    let named =
        |columns: &[(&str, DataType)]| columns.iter().map(|(n, t)| ((*n).to_owned(), *t)).collect::<Vec<_>>();
    let schema = TableSchema::new(named(&columns), named(&tags));
    let st = StableInfo { name: "st".into(), schema: Arc::new(schema.clone()), ..meter() };
    vnode.apply_stable(StableDdl::Create(st.clone()), Origin::Client).await.unwrap();
    let child = |name: &str, t1: i64, t2: &str| CreateTable {
        name: name.into(),
        if_not_exists: false,
        kind: CreateTableKind::Child { stable: METER, tags: vec![Value::Int(t1), Value::Text(t2.into())] },
        ttl_days: 0,
        comment: None,
    };
    vnode.create_tables(vec![child("c3", 1, "three"), child("c4", 4, "four")]).await.unwrap();
    let set = |values: &[(&str, Value)]| {
        TableChange::SetTags(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    };
    vnode.alter_table("c3", set(&[("t2", Value::Text("uno".into()))])).await.unwrap();
    vnode.alter_table("c3", set(&[("t1", Value::Int(1)), ("t2", Value::Null)])).await.unwrap();
    let mut altered = st.clone();
    let column = ColumnDef::column(ColumnId(6), "c4", DataType::NChar(12));
    let next = Arc::make_mut(&mut altered.schema);
    next.version = SchemaVersion(2);
    next.columns.push(column.clone());
    let change = SchemaChange::AddColumn { column, storage_given: false };
    vnode.apply_stable(StableDdl::Alter { stable: altered, change }, Origin::Client).await.unwrap();
    let mut write = rows(&[("a1", 0, 1)], None);
    write.blocks[0].runs[0].create_tags = Some(vec![Value::Int(1), Value::Text("auto".into())]);
    vnode.write(write).await.unwrap();
    let range = TimeRange::ALL;
    vnode
        .delete(DeleteRequest { target: DeleteTarget::Table("a1".into()), range, origin: Origin::Client })
        .await
        .unwrap();
    vnode.drop_tables(vec![DropTable { name: "c4".into(), if_exists: false }]).await.unwrap();

    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let seen = drain(&mut reader);
    let expected = [
        r#"{"type":"create","tableType":"super","tableName":"st","columns":[{"name":"ts","type":9,"isPrimarykey":false,"encode":"delta-i","compress":"lz4","level":"medium"},{"name":"c1","type":4,"isPrimarykey":false,"encode":"simple8b","compress":"lz4","level":"medium"},{"name":"c2","type":8,"length":8,"isPrimarykey":false,"encode":"disabled","compress":"zstd","level":"medium"}],"tags":[{"name":"t1","type":4},{"name":"t2","type":8,"length":16}]}"#,
        r#"{"type":"create","tableType":"child","tableName":"c3","using":"st","tagNum":2,"tags":[{"name":"t1","type":4,"value":1},{"name":"t2","type":8,"value":"\"three\""}],"createList":[{"tableName":"c3","using":"st","tagNum":2,"tags":[{"name":"t1","type":4,"value":1},{"name":"t2","type":8,"value":"\"three\""}]},{"tableName":"c4","using":"st","tagNum":2,"tags":[{"name":"t1","type":4,"value":4},{"name":"t2","type":8,"value":"\"four\""}]}]}"#,
        r#"{"type":"alter","tableType":"child","tableName":"c3","alterType":4,"colName":"t2","colValue":"\"uno\"","colValueNull":false}"#,
        r#"{"type":"alter","tableType":"child","tableName":"c3","alterType":15,"tags":[{"colName":"t1","colValue":"1","colValueNull":false},{"colName":"t2","colValueNull":true}]}"#,
        r#"{"type":"alter","tableType":"super","tableName":"st","alterType":5,"colName":"c4","colType":10,"colLength":12}"#,
        r#"{"type":"create","tableType":"child","tableName":"a1","using":"st","tagNum":2,"tags":[{"name":"t1","type":4,"value":1},{"name":"t2","type":8,"value":"\"auto\""}],"createList":[]}"#,
        r#"{"type":"delete","sql":"delete from `a1` where `ts` >= 1700000000000 and `ts` <= 1700000000000"}"#,
        r#"{"type":"drop","tableNameList":["c4"]}"#,
    ];
    assert_eq!(events(seen.clone()), expected);
    assert_eq!(seen[5].1, [row("a1", 0, 1)], "rows and the descriptor come together");

    let mut batched = request(OffsetReset::Earliest);
    batched.options.batch_meta = true;
    let mut reader = vnode.subscribe(batched).await.unwrap();
    let seen = events(drain(&mut reader));
    let of = |events: &[&str]| format!(r#"{{"tmq_meta_version":"1.0","metas":[{}]}}"#, events.join(","));
    assert_eq!(seen, [of(&expected[..5]), expected[5].to_owned(), of(&expected[6..])]);
    vnode.close().await.unwrap();
}

/// As captured: oracle meta-drop-all, where the table is gone by now, and meta-delete_us-all, where only events are shown.
#[tokio::test]
async fn events_around_a_write_come_in_two_batches() {
    for meta in [TopicMeta::With, TopicMeta::Only] {
        let dir = tempfile::tempdir().unwrap();
        let vnode = open(dir.path(), &clock()).await;
        with_meter(&vnode).await;
        with_topic(&vnode, TopicKind::Stable { stable: METER }, meta).await;
        let child = |name: &str| CreateTable {
            name: name.into(),
            if_not_exists: false,
            kind: CreateTableKind::Child { stable: METER, tags: tags(1) },
            ttl_days: 0,
            comment: None,
        };
        vnode.create_tables(vec![child("a")]).await.unwrap();
        vnode.write(rows(&[("a", 1, 1)], None)).await.unwrap();
        vnode.create_tables(vec![child("b")]).await.unwrap();
        vnode.drop_tables(vec![DropTable { name: "a".into(), if_exists: false }]).await.unwrap();
        let mut batched = request(OffsetReset::Earliest);
        batched.options.batch_meta = true;
        let mut reader = vnode.subscribe(batched).await.unwrap();
        let seen = events(drain(&mut reader));
        let counts: Vec<_> = seen.iter().map(|json| json.matches(r#""type":""#).count()).collect();
        assert_eq!(counts, [2, 2], "{meta:?}: {seen:?}");
        vnode.close().await.unwrap();
    }
}

#[tokio::test]
async fn rule_21_only_meta_shows_tables_that_writes_make_once_and_no_rows() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Only).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    vnode.write(rows(&[("a", 2, 2)], Some(1))).await.unwrap();
    let range = TimeRange::ALL;
    vnode
        .delete(DeleteRequest { target: DeleteTarget::Stable(METER), range, origin: Origin::Client })
        .await
        .unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let seen = drain(&mut reader);
    assert!(seen.iter().all(|(_, rows)| rows.is_empty()));
    let seen = events(seen);
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].starts_with(r#"{"type":"create","tableType":"super""#));
    assert!(seen[1].starts_with(
        r#"{"tmq_meta_version":"1.0","metas":[{"type":"create","tableType":"child","tableName":"a""#
    ));
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_stable_topic_shows_its_own_children_only() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let other = StableInfo { uid: TableUid(8), name: "other".into(), ..meter() };
    vnode.apply_stable(StableDdl::Create(other), Origin::Client).await.unwrap();
    with_topic(&vnode, TopicKind::Stable { stable: METER }, TopicMeta::With).await;
    let mut foreign = rows(&[("o", 1, 1)], Some(1));
    foreign.blocks[0].stable = Some(TableUid(8));
    vnode.write(foreign).await.unwrap();
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    let drop = |name: &str| DropTable { name: name.into(), if_exists: false };
    vnode.drop_tables(vec![drop("o"), drop("a")]).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let seen = drain(&mut reader);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[0].0.contains(r#""tableName":"meter""#));
    assert!(seen[1].0.contains(r#""tableName":"a""#), "events are told after the table is gone");
    assert_eq!(seen[1].1, [], "C054: its rows are not");
    assert_eq!(seen[2].0, r#"{"type":"drop","tableNameList":["a"]}"#);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn rule_22_rows_have_the_schema_of_their_write() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    let mut altered = meter();
    let schema = Arc::make_mut(&mut altered.schema);
    schema.version = SchemaVersion(2);
    schema.columns.remove(1);
    let change = SchemaChange::DropColumn { name: "v".into() };
    vnode.apply_stable(StableDdl::Alter { stable: altered, change }, Origin::Client).await.unwrap();
    let refused = vnode.write(rows(&[("a", 2, 2)], None)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidColumn);
    let mut without = rows(&[("a", 2, 2)], None);
    without.blocks[0].columns.remove(1);
    vnode.write(without).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let Read::Batch(batch) = reader.read(i64::MAX).unwrap() else { panic!("rows") };
    let names: Vec<Vec<&str>> = batch
        .blocks
        .iter()
        .map(|b| b.schema.columns.iter().map(|(name, _)| name.as_str()).collect())
        .collect();
    assert_eq!(names, [vec!["ts", "v", "note"], vec!["ts", "note"]]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn replay_sends_write_by_write_with_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    for gap_s in [0, 5, 3] {
        time.advance_ns(gap_s * 1_000_000_000);
        vnode.write(rows(&[("a", gap_s, 1), ("b", gap_s, 1)], Some(1))).await.unwrap();
    }
    let mut replayed = request(OffsetReset::Earliest);
    replayed.options.replay = true;
    let mut reader = vnode.subscribe(replayed).await.unwrap();
    let mut times = Vec::new();
    loop {
        match reader.read(i64::MAX).unwrap() {
            Read::Batch(batch) => times.push((batch.written_ns - START_NS, batch.rows())),
            Read::CaughtUp(range) if range.position >= range.end => break,
            Read::CaughtUp(_) | Read::NoTable(_) | Read::Timeout(_) => {}
        }
    }
    assert_eq!(times, [(0, 2), (5_000_000_000, 2), (8_000_000_000, 2)]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn replicated_writes_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(WriteRequest { replicated: true, ..rows(&[("a", 1, 1)], Some(1)) }).await.unwrap();
    vnode.write(rows(&[("a", 2, 2)], Some(1))).await.unwrap();
    let mut excluding = request(OffsetReset::Earliest);
    excluding.options.exclude_replicated = true;
    let mut reader = vnode.subscribe(excluding).await.unwrap();
    assert_eq!(drain(&mut reader), [(String::new(), vec![row("a", 2, 2)])]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn replicated_events_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    let other = StableInfo { uid: TableUid(8), name: "other".into(), ..meter() };
    let child = |name: &str| {
        let kind = CreateTableKind::Child { stable: METER, tags: tags(1) };
        CreateTable { name: name.into(), if_not_exists: false, kind, ttl_days: 0, comment: None }
    };
    let set = || TableChange::SetTags(vec![("zone".into(), Value::Int(5))]);
    let range = TimeRange { first: START_MS, last_inclusive: START_MS };
    let mut all = request(OffsetReset::Earliest);
    with_topic(&vnode, TopicKind::Database, TopicMeta::With).await;
    for (origin, stable, name) in [(Origin::Client, meter(), "a"), (Origin::Replication, other, "b")] {
        vnode.apply_stable(StableDdl::Create(stable), origin).await.unwrap();
        vnode.define(TableDdl::Create(vec![child(name)]), origin).await.unwrap();
        vnode.define(TableDdl::Alter { name: name.into(), change: set() }, origin).await.unwrap();
        let target = DeleteTarget::Table(name.into());
        vnode.delete(DeleteRequest { target, range, origin }).await.unwrap();
        let drop = DropTable { name: name.into(), if_exists: false };
        vnode.define(TableDdl::Drop(vec![drop]), origin).await.unwrap();
    }
    for (exclude, wanted) in [(false, 10), (true, 5)] {
        all.options.exclude_replicated = exclude;
        let mut reader = vnode.subscribe(all.clone()).await.unwrap();
        let mut events = Vec::new();
        while let Read::Batch(batch) = reader.read(i64::MAX).unwrap() {
            events.extend((!batch.json.is_empty()).then_some(batch.json));
        }
        assert_eq!(events.len(), wanted, "{events:?}");
        assert!(!exclude || !events.iter().any(|event| event.contains("other") || event.contains("\"b\"")));
    }
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_write_wakes_a_reader_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let mut reader = subscribe(&vnode, OffsetReset::Latest).await;
    let reading = tokio::spawn(async move {
        let mut seen = 0;
        while seen < 100 {
            match reader.read(i64::MAX).unwrap() {
                Read::Batch(batch) => seen += batch.rows(),
                Read::CaughtUp(_) | Read::NoTable(_) | Read::Timeout(_) => reader.ready().await,
            }
        }
        seen
    });
    for n in 0..100 {
        vnode.write(rows(&[("a", n, 1)], Some(1))).await.unwrap();
    }
    assert_eq!(reading.await.unwrap(), 100);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn rule_07_closing_ends_a_reader_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let mut reader = subscribe(&vnode, OffsetReset::Latest).await;
    assert!(drain(&mut reader).is_empty());
    let waiting = tokio::spawn(async move {
        reader.ready().await;
        reader.read(i64::MAX).unwrap_err().code()
    });
    tokio::task::yield_now().await;
    vnode.close().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Code::ShuttingDown);
}

/// C017, C019, spec 3.3: an offset that retention has overtaken moves up, and the gap is told.
#[tokio::test]
async fn rule_10_a_gap_is_told_with_the_batch_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut short = database(1);
    short.options.wal.retention_period_s = 10;
    let vnode = try_open(dir.path(), &time, short).await.unwrap();
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let begin = reader.position();
    vnode.flush().await.unwrap();
    time.advance_ns(60_000_000_000);
    vnode.write(rows(&[("a", 2, 2)], Some(1))).await.unwrap();
    vnode.flush().await.unwrap();
    let first = vnode.positions().retained;
    assert!(first > begin, "a segment went");
    vnode.write(rows(&[("a", 3, 3)], Some(1))).await.unwrap();
    let Read::Batch(batch) = reader.read(i64::MAX).unwrap() else { panic!("rows") };
    let Batch { begin: told, skipped, .. } = *batch;
    assert_eq!((told, skipped), (begin, Some((begin, first))));
    assert!(drain(&mut reader).iter().all(|(_, rows)| !rows.is_empty()));
    // Who comes new and asks for everything learns that it is not all.
    let mut fresh = subscribe(&vnode, OffsetReset::Earliest).await;
    assert_eq!(fresh.position(), first);
    let Read::Batch(batch) = fresh.read(i64::MAX).unwrap() else { panic!("rows") };
    assert_eq!((batch.begin, batch.skipped), (first, Some((Version(0), first))));
    vnode.close().await.unwrap();
}

/// One message holds the rows of several records and tells them apart.
#[tokio::test]
async fn a_batch_tells_which_record_each_row_is_from() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let first = vnode.positions().end();
    vnode.write(rows(&[("a", 1, 1), ("a", 2, 2)], Some(1))).await.unwrap();
    vnode.write(rows(&[("a", 3, 3)], Some(1))).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let Read::Batch(batch) = reader.read(i64::MAX).unwrap() else { panic!("rows") };
    let run = |version, rows| RecordRun { version, rows };
    assert_eq!(batch.records, [run(first, 2), run(first.next(), 1)]);
    assert_eq!(batch.skipped, None, "all of the log is there");
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn an_offset_beyond_the_end_waits() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let end = vnode.positions().end();
    let ahead = SubscribeRequest { position: Some(Version(end.0 + 1)), ..request(OffsetReset::None) };
    let mut reader = vnode.subscribe(ahead).await.unwrap();
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    assert!(drain(&mut reader).is_empty());
    vnode.write(rows(&[("a", 2, 2)], Some(1))).await.unwrap();
    assert_eq!(drain(&mut reader), [(String::new(), vec![row("a", 2, 2)])]);
    vnode.close().await.unwrap();
}

pub(super) fn select_topic(sql: &str, version: u32) -> crate::record::TopicDefinition {
    use query::ast::{CreateTopic, Statement, TopicSource};
    use query::source::{Relation, RelationKind};
    let Statement::CreateTopic(CreateTopic { source, .. }) = query::parser::parse(sql).unwrap() else {
        panic!("a topic")
    };
    let relation = Relation {
        database: Arc::new(database(1)),
        kind: RelationKind::Stable(Arc::new(meter())),
        shards: vec![],
    };
    let session = query::plan::Session::default();
    let (kind, definition) = match &source {
        TopicSource::Query(select) => {
            let mut relations = query::plan::Relations::new();
            for name in query::plan::relations_named(select) {
                relations.insert(name, relation.clone());
            }
            let topic = query::topic::CompiledTopic::create(select, sql, &relations, &session).unwrap();
            (TopicKind::Query, serde_json::to_string(topic.definition()).unwrap())
        }
        TopicSource::Stable { filter, .. } => {
            let topic = query::topic::ChildFilter::create(filter.as_ref(), sql, &relation, &session).unwrap();
            (TopicKind::Stable { stable: METER }, serde_json::to_string(topic.definition()).unwrap())
        }
        TopicSource::Database(_) => (TopicKind::Database, String::new()),
    };
    TopicDefinition { definition, definition_version: version, ..topic(kind, TopicMeta::Without) }
}

/// All rows of a query topic, each column as text.
pub(super) fn texts(reader: &mut Subscription) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    while let Read::Batch(batch) = reader.read(i64::MAX).unwrap() {
        assert_eq!(batch.blocks.len(), 1, "spec 2.4: all rows form one block");
        let block = &batch.blocks[0];
        assert_eq!(block.table, None);
        let columns: Vec<ArrayRef> =
            block.columns.iter().map(|column| arrow::compute::cast(column, &Arrow::Utf8).unwrap()).collect();
        for row in 0..block.rows() {
            let text = |column: &ArrayRef| {
                let texts = column.as_string::<i32>();
                if texts.is_null(row) { "NULL".to_owned() } else { texts.value(row).to_owned() }
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    rows
}

/// Spec 1.4 and 1.5, cases 47, 48 and 54: tags count as they were when a row was written.
#[tokio::test]
async fn a_query_topic_sees_tags_as_of_each_write() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let definition = select_topic("create topic t as select tbname, v, zone from meter where zone > 1", 1);
    vnode.apply_topic(TopicDdl::Create(definition)).await.unwrap();
    own(&vnode, "g", ME, 1).await;
    vnode.write(rows(&[("a", 1, 1), ("a", 2, 2)], Some(1))).await.unwrap();
    vnode.write(rows(&[("b", 1, 3)], Some(2))).await.unwrap();
    let set = |zone| TableChange::SetTags(vec![("zone".into(), Value::Int(zone))]);
    vnode.alter_table("a", set(5)).await.unwrap();
    vnode.write(rows(&[("a", 3, 4), ("b", 3, 5)], Some(1))).await.unwrap();
    vnode.alter_table("a", set(1)).await.unwrap();
    let mut partial = rows(&[("b", 4, 6)], Some(1));
    partial.blocks[0].columns.remove(1);
    vnode.write(partial).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    assert_eq!(texts(&mut reader), [["b", "3", "2"], ["a", "4", "5"], ["b", "5", "2"], ["b", "NULL", "2"]]);
    vnode.close().await.unwrap();
}

/// Spec 1.4, case C045: the children of a stable topic are those that match when they are written.
#[tokio::test]
async fn a_stable_topic_filters_as_of_each_write() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let mut definition = select_topic("create topic t with meta as stable meter where zone = 2", 1);
    definition.meta = TopicMeta::With;
    vnode.apply_topic(TopicDdl::Create(definition)).await.unwrap();
    own(&vnode, "g", ME, 1).await;
    let set = |zone| TableChange::SetTags(vec![("zone".into(), Value::Int(zone))]);
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    vnode.write(rows(&[("b", 1, 2)], Some(2))).await.unwrap();
    vnode.alter_table("a", set(2)).await.unwrap();
    vnode.write(rows(&[("a", 2, 3)], None)).await.unwrap();
    vnode.alter_table("b", set(9)).await.unwrap();
    vnode.write(rows(&[("b", 2, 4)], None)).await.unwrap();
    vnode.write(rows(&[("c", 1, 5)], Some(2))).await.unwrap();
    vnode.write(rows(&[("d", 1, 6)], Some(3))).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let seen = drain(&mut reader);
    let delivered: Vec<_> = seen.iter().flat_map(|(_, rows)| rows.clone()).collect();
    assert_eq!(delivered, [row("b", 1, 2), row("a", 2, 3), row("c", 1, 5)]);
    let kinds: Vec<_> = seen.iter().map(|(json, _)| json.chars().take(34).collect::<String>()).collect();
    let create = r#"{"type":"create","tableType":"chil"#;
    assert_eq!(
        kinds,
        [
            r#"{"type":"create","tableType":"supe"#,
            create,
            r#"{"type":"alter","tableType":"child"#,
            create // with the rows of `a` before it
        ],
        "{seen:?}"
    );
    vnode.close().await.unwrap();
}

/// Spec 1.5, cases 52, 53: a table made again is another one until RELOAD, which delivers what was kept meanwhile.
#[tokio::test]
async fn reload_finds_what_a_standing_topic_left() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let definition = select_topic("create topic t as select v from meter", 1);
    let mut reloaded = definition.clone();
    reloaded.definition_version = 2;
    reloaded.definition = reloaded.definition.replace(r#""relation":7"#, r#""relation":8"#);
    assert_ne!(reloaded.definition, definition.definition);
    vnode.apply_topic(TopicDdl::Create(definition)).await.unwrap();
    own(&vnode, "g", ME, 1).await;
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    assert_eq!(texts(&mut reader), [["1"]]);
    vnode.apply_stable(StableDdl::Drop { uid: METER }, Origin::Client).await.unwrap();
    vnode
        .apply_stable(StableDdl::Create(StableInfo { uid: TableUid(8), ..meter() }), Origin::Client)
        .await
        .unwrap();
    let mut again = rows(&[("a", 2, 2)], Some(1));
    again.blocks[0].stable = Some(TableUid(8));
    vnode.write(again).await.unwrap();
    let position = reader.position();
    assert!(texts(&mut reader).is_empty());
    assert_eq!(reader.position(), position, "a topic without its table stands still");
    vnode.apply_topic(TopicDdl::Reload(reloaded)).await.unwrap();
    assert_eq!(texts(&mut reader), [["2"]]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn rule_07_a_dropped_topic_ends_its_readers() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    assert!(drain(&mut reader).is_empty());
    let waiting = tokio::spawn(async move {
        reader.ready().await;
        reader.read(i64::MAX).unwrap_err().code()
    });
    vnode.apply_topic(TopicDdl::Drop(T)).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Code::TopicNotExist);
    assert_eq!(vnode.offsets(T, "g").committed, None);
    vnode.close().await.unwrap();
}

/// tmq.md 16.20: a topic that cannot be evaluated holds up none of the others, nor what they read.
#[tokio::test]
async fn rule_20_a_broken_topic_is_a_fault_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let broken = TopicId(2);
    let definition = crate::record::TopicDefinition {
        id: broken,
        definition: "not a plan".into(),
        ..topic(TopicKind::Stable { stable: METER }, TopicMeta::With)
    };
    // First, so that whatever is done for each topic in turn meets it before the other.
    vnode.apply_topic(TopicDdl::Create(definition)).await.unwrap();
    let change = OwnerChange { topic: broken, group: "g".into(), epoch: Epoch(1), owner: Some(ME) };
    vnode.set_owner(change).await.unwrap();
    let mut definition = select_topic("create topic t with meta as stable meter where zone = 2", 1);
    definition.meta = TopicMeta::With;
    vnode.apply_topic(TopicDdl::Create(definition)).await.unwrap();
    own(&vnode, "g", ME, 1).await;
    vnode.write(rows(&[("in", 1, 1)], Some(2))).await.unwrap();
    vnode.write(rows(&[("out", 1, 2)], Some(1))).await.unwrap();
    let of_broken = SubscribeRequest { topic: broken, ..request(OffsetReset::Earliest) };
    let mut of_broken = vnode.subscribe(of_broken).await.unwrap();
    for _ in 0..2 {
        assert_eq!(of_broken.read(i64::MAX).unwrap_err().code(), Code::TopicQueryInvalid);
    }
    // The set of its tables goes on changing.
    let set = |zone| TableChange::SetTags(vec![("zone".into(), Value::Int(zone))]);
    vnode.alter_table("out", set(2)).await.unwrap();
    vnode.write(rows(&[("out", 2, 3), ("new", 2, 4)], Some(2))).await.unwrap();
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let seen: Vec<Row> = drain(&mut reader).into_iter().flat_map(|(_, rows)| rows).collect();
    let mut wanted = [row("in", 1, 1), row("out", 2, 3), row("new", 2, 4)].to_vec();
    wanted.sort();
    let mut seen = seen;
    seen.sort();
    assert_eq!(seen, wanted);
    vnode.close().await.unwrap();
}
