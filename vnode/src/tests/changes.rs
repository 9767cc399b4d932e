use model::{Code, ColumnStorage, Compression, Encoding};

use super::*;

#[tokio::test]
async fn a_write_makes_the_children_it_names_and_is_seen_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let outcome = vnode.write(rows(&[("a", 1, 10), ("a", 2, 20), ("b", 1, 30)], Some(1))).await.unwrap();
    assert_eq!(outcome.affected_rows, 3);
    // The tags of a child that exists are ignored.
    vnode.write(rows(&[("a", 2, 21)], Some(9))).await.unwrap();
    assert_eq!(scan(&vnode).await, [row("a", 1, 10), row("a", 2, 21), row("b", 1, 30)]);
    let table = vnode.table("a").unwrap();
    assert_eq!(table.kind, model::TableKind::Child { stable: METER, tags: tags(1).into() });
    assert_eq!((vnode.counts().tables, vnode.child_count(METER)), (2, 2));
    vnode.close().await.unwrap();
}

async fn refused(vnode: &Arc<Vnode>, request: WriteRequest) -> Code {
    vnode.write(request).await.unwrap_err().code()
}

#[tokio::test]
async fn what_does_not_fit_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = try_open(dir.path(), &clock(), database(4)).await.unwrap();
    with_meter(&vnode).await;
    // With four vgroups `d2` lives in the first, this one, and `d1` does not.
    let good = |change: &dyn Fn(&mut WriteBlock)| {
        let mut request = rows(&[("d2", 1, 1), ("d2", 2, 2)], Some(1));
        change(&mut request.blocks[0]);
        request
    };
    let with_columns = |at: usize, column: ArrayRef| good(&move |block| block.columns[at].1 = column.clone());
    let ts = |ticks: Vec<Option<i64>>| Arc::new(TimestampMillisecondArray::from(ticks)) as ArrayRef;
    let cases: Vec<(&str, WriteRequest, Code)> = vec![
        ("nothing", WriteRequest::default(), Code::BadRequest),
        ("unknown super table", good(&|b| b.stable = Some(TableUid(99))), Code::StableNotExist),
        ("missing child", good(&|b| b.runs[0].create_tags = None), Code::TableNotExist),
        ("too few tags", good(&|b| b.runs[0].create_tags = Some(vec![Value::Null])), Code::TagsNotMatched),
        (
            "tag type",
            good(&|b| b.runs[0].create_tags = Some(vec![Value::Bool(true), Value::Null])),
            Code::WrongValueType,
        ),
        (
            "tag length",
            good(&|b| b.runs[0].create_tags = Some(vec![Value::Null, Value::Text("nine char".into())])),
            Code::ValueTooLong,
        ),
        ("another vgroup's table", good(&|b| b.runs[0].table = "d1".into()), Code::BadRequest),
        ("no name", good(&|b| b.runs[0].table = String::new()), Code::InvalidIdentifier),
        ("dotted name", good(&|b| b.runs[0].table = "a.b".into()), Code::InvalidIdentifier),
        ("long name", good(&|b| b.runs[0].table = "x".repeat(193)), Code::TableNameTooLong),
        ("the super table's name", good(&|b| b.runs[0].table = "meter".into()), Code::TableExists),
        ("unknown column", good(&|b| b.columns[1].0 = ColumnId(77)), Code::InvalidColumn),
        ("column twice", good(&|b| b.columns[1].0 = ColumnId(1)), Code::WrongValueType),
        ("no timestamp", good(&|b| drop(b.columns.remove(0))), Code::BadRequest),
        ("column type", with_columns(1, Arc::new(StringArray::from(vec!["1", "2"]))), Code::WrongValueType),
        ("column length", with_columns(1, Arc::new(Int32Array::from(vec![1]))), Code::BadRequest),
        (
            "long text",
            with_columns(2, Arc::new(StringArray::from(vec!["123456789", ""]))),
            Code::ValueTooLong,
        ),
        ("null timestamp", with_columns(0, ts(vec![Some(START_MS), None])), Code::InsertSyntax),
        ("equal timestamps", with_columns(0, ts(vec![Some(START_MS); 2])), Code::BadRequest),
        ("before KEEP", with_columns(0, ts(vec![Some(0), Some(START_MS)])), Code::TimestampOutOfRange),
        (
            "after the year 2970",
            with_columns(0, ts(vec![Some(START_MS), Some(i64::MAX)])),
            Code::TimestampOutOfRange,
        ),
        ("run past the rows", good(&|b| b.runs[0].end = 3), Code::BadRequest),
        ("rows past the runs", good(&|b| b.runs[0].end = 1), Code::BadRequest),
        ("empty run", good(&|b| b.runs[0].end = 0), Code::BadRequest),
        ("normal table missing", good(&|b| b.stable = None), Code::TableNotExist),
    ];
    for (what, request, code) in cases {
        assert_eq!(refused(&vnode, request).await, code, "{what}");
    }
    let error = vnode.write(with_columns(0, ts(vec![Some(0), Some(START_MS)]))).await.unwrap_err();
    assert!(error.help().contains("2013-11-16") && error.help().contains("2970-01-01"), "{error}");
    assert!(scan(&vnode).await.is_empty() && vnode.counts().tables == 0, "nothing is half there");
    vnode.close().await.unwrap();
}

/// Each write is a part of one statement that another shard might have got earlier.
#[tokio::test]
async fn the_parts_of_a_statement_are_judged_at_one_instant() {
    let (dir, time) = (tempfile::tempdir().unwrap(), clock());
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    let oldest = *database(1).options.accepted_ticks(START_NS).start() - START_MS;
    let part = |table: &str, tick: i64, as_of_ns: Option<i64>| WriteRequest {
        as_of_ns,
        ..rows(&[(table, tick, 1)], Some(1))
    };
    assert_eq!(vnode.write(part("a", oldest, Some(START_NS))).await.unwrap().affected_rows, 1);
    time.advance_ns(5_000_000);
    assert_eq!(refused(&vnode, part("b", oldest, None)).await, Code::TimestampOutOfRange);
    assert_eq!(refused(&vnode, part("b", oldest - 1, Some(START_NS))).await, Code::TimestampOutOfRange);
    assert_eq!(vnode.counts().tables, 1, "no child of what was refused");
    assert_eq!(vnode.write(part("b", oldest, Some(START_NS))).await.unwrap().affected_rows, 1);
    assert_eq!(vnode.write(part("c", oldest + 5, None)).await.unwrap().affected_rows, 1);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn many_writers_make_one_child() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    let writes = (0..50).map(|n| {
        let vnode = Arc::clone(&vnode);
        tokio::spawn(async move { vnode.write(rows(&[("a", n, 1), ("b", n, 2)], Some(1))).await })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.unwrap().unwrap();
    }
    assert_eq!((vnode.counts().tables, scan(&vnode).await.len()), (2, 100));
    vnode.close().await.unwrap();
}

fn child(name: &str, if_not_exists: bool) -> CreateTable {
    CreateTable {
        name: name.into(),
        if_not_exists,
        kind: CreateTableKind::Child { stable: METER, tags: tags(1) },
        ttl_days: 0,
        comment: None,
    }
}

#[tokio::test]
async fn tables_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    assert!(vnode.create_tables(vec![child("a", false), child("b", false)]).await.unwrap().is_some());
    assert_eq!(vnode.create_tables(vec![child("a", false)]).await.unwrap_err().code(), Code::TableExists);
    assert_eq!(vnode.create_tables(vec![child("a", true)]).await.unwrap(), None);
    let first = vnode.table("a").unwrap().uid;
    vnode.write(rows(&[("a", 1, 1)], None)).await.unwrap();

    let drop = |name: &str, if_exists| vec![DropTable { name: name.into(), if_exists }];
    assert_eq!(vnode.drop_tables(drop("zz", false)).await.unwrap_err().code(), Code::TableNotExist);
    assert_eq!(vnode.drop_tables(drop("zz", true)).await.unwrap(), None);
    vnode.drop_tables(drop("a", false)).await.unwrap();
    assert!(scan(&vnode).await.is_empty());

    // A table made again has another uid and none of the rows.
    vnode.create_tables(vec![child("a", false)]).await.unwrap();
    assert_ne!(vnode.table("a").unwrap().uid, first);
    assert!(scan(&vnode).await.is_empty());
    vnode.write(rows(&[("a", 1, 5)], None)).await.unwrap();

    vnode.apply_stable(StableDdl::Drop { uid: METER }, Origin::Client).await.unwrap();
    assert_eq!((vnode.counts().tables, vnode.counts().stables), (0, 0));
    assert_eq!(vnode.write(rows(&[("a", 1, 5)], Some(1))).await.unwrap_err().code(), Code::StableNotExist);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn what_the_mnode_says_twice_makes_one_record() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    let mut altered = meter();
    let schema = Arc::make_mut(&mut altered.schema);
    schema.version = model::SchemaVersion(2);
    let tag = model::ColumnDef::tag(ColumnId(6), "grid", DataType::Int);
    schema.tags.push(tag.clone());
    let change = crate::record::SchemaChange::AddTag { tag };
    let alter = StableDdl::Alter { stable: altered, change };
    for ddl in [StableDdl::Create(meter()), alter, StableDdl::Drop { uid: METER }] {
        assert!(vnode.apply_stable(ddl.clone(), Origin::Client).await.unwrap().is_some(), "{ddl:?}");
        let end = vnode.positions().appended;
        assert_eq!(vnode.apply_stable(ddl, Origin::Client).await.unwrap(), None);
        assert_eq!(vnode.positions().appended, end);
    }
    for ddl in [TopicDdl::Create(topic(TopicKind::Database, TopicMeta::Without)), TopicDdl::Drop(T)] {
        assert!(vnode.apply_topic(ddl.clone()).await.unwrap().is_some());
        assert_eq!(vnode.apply_topic(ddl).await.unwrap(), None);
    }
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_new_tag_is_null_for_old_children() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    vnode.create_tables(vec![child("a", false)]).await.unwrap();
    let mut altered = meter();
    let schema = Arc::make_mut(&mut altered.schema);
    schema.version = model::SchemaVersion(2);
    let tag = model::ColumnDef::tag(ColumnId(6), "grid", DataType::Int);
    schema.tags.insert(0, tag.clone());
    let change = crate::record::SchemaChange::AddTag { tag };
    vnode.apply_stable(StableDdl::Alter { stable: altered, change }, Origin::Client).await.unwrap();
    let tags = |vnode: &Vnode| match &vnode.table("a").unwrap().kind {
        model::TableKind::Child { tags, .. } => tags.to_vec(),
        model::TableKind::Normal { .. } => vec![],
    };
    assert_eq!(tags(&vnode), [Value::Null, Value::Int(1), Value::Text("z1".into())]);
    vnode.alter_table("a", TableChange::SetTags(vec![("grid".into(), Value::Int(5))])).await.unwrap();
    assert_eq!(tags(&vnode)[0], Value::Int(5));
    let missing = TableChange::SetTags(vec![("zzz".into(), Value::Int(5))]);
    assert_eq!(vnode.alter_table("a", missing).await.unwrap_err().code(), Code::InvalidAlter);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn delete_counts_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    vnode.write(rows(&[("a", 1, 1), ("a", 2, 2), ("a", 3, 3), ("b", 2, 4)], Some(1))).await.unwrap();
    let delete = |target, first: i64, last: i64| DeleteRequest {
        target,
        range: TimeRange { first: START_MS + first, last_inclusive: START_MS + last },
        origin: Origin::Client,
    };
    let outcome = vnode.delete(delete(DeleteTarget::Table("a".into()), 2, 99)).await.unwrap();
    assert_eq!(outcome.affected_rows, 2);
    assert_eq!(scan(&vnode).await, [row("a", 1, 1), row("b", 2, 4)]);
    vnode.flush().await.unwrap();
    assert_eq!(vnode.delete(delete(DeleteTarget::Stable(METER), 0, 99)).await.unwrap().affected_rows, 2);
    assert!(scan(&vnode).await.is_empty());
    let missing = delete(DeleteTarget::Table("zz".into()), 0, 1);
    assert_eq!(vnode.delete(missing).await.unwrap_err().code(), Code::TableNotExist);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_normal_table_changes_its_schema() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    let columns = vec![("ts".to_owned(), DataType::Timestamp), ("s".to_owned(), DataType::Varchar(4))];
    let create = CreateTable {
        name: "n".into(),
        if_not_exists: false,
        kind: CreateTableKind::Normal(TableSchema::new(columns, vec![])),
        ttl_days: 0,
        comment: None,
    };
    vnode.create_tables(vec![create]).await.unwrap();
    let alter = async |change| vnode.alter_table("n", change).await.map_err(|e| e.code());
    let varchar = |n| DataType::Varchar(n);
    let modify = |n| TableChange::ModifyColumn { name: "s".into(), data_type: varchar(n) };
    assert_eq!(alter(modify(4)).await.unwrap_err(), Code::AlterLength);
    alter(modify(9)).await.unwrap();
    let storage = |storage| TableChange::ModifyStorage { name: "s".into(), storage };
    let zlib = ColumnStorage { compression: Some(Compression::Zlib), ..ColumnStorage::default() };
    alter(storage(zlib)).await.unwrap();
    let simple = ColumnStorage { encoding: Some(Encoding::Simple8b), ..ColumnStorage::default() };
    assert_eq!(alter(storage(simple)).await.unwrap_err(), Code::InvalidEncoding);
    let drop = |name: &str| TableChange::DropColumn { name: name.into() };
    assert_eq!(alter(drop("ts")).await.unwrap_err(), Code::AlterTimestamp);
    assert_eq!(alter(drop("s")).await.unwrap_err(), Code::NothingLeft);
    assert_eq!(alter(drop("zz")).await.unwrap_err(), Code::InvalidColumn);
    let rename = TableChange::RenameColumn { name: "s".into(), new_name: "text".into() };
    alter(rename.clone()).await.unwrap();
    assert_eq!(alter(rename).await.unwrap_err(), Code::InvalidColumn);
    let model::TableKind::Normal { schema } = vnode.table("n").unwrap().kind.clone() else {
        panic!("normal")
    };
    assert_eq!((schema.version.0, schema.columns[1].name.as_str()), (4, "text"));
    assert_eq!(schema.columns[1].compression, Some(Compression::Zlib));
    assert_eq!(schema.columns[1].data_type, varchar(9));
    vnode.close().await.unwrap();
}
