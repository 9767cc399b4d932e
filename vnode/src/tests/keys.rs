//! Tables with a composite key, through a shard's whole life.

use model::Code;

use super::*;

/// The meter, whose `v` is part of the key.
fn keyed() -> StableInfo {
    let mut stable = meter();
    Arc::make_mut(&mut stable.schema).columns[1].is_key = true;
    stable
}

async fn code(vnode: &Arc<Vnode>, request: WriteRequest) -> Code {
    vnode.write(request).await.unwrap_err().code()
}

fn without(mut request: WriteRequest, column: ColumnId) -> WriteRequest {
    request.blocks[0].columns.retain(|(id, _)| *id != column);
    request
}

#[tokio::test]
async fn rows_of_one_instant_stay_apart_through_crash_flush_and_delete() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    vnode.apply_stable(StableDdl::Create(keyed()), Origin::Client).await.unwrap();
    with_topic(&vnode, TopicKind::Stable { stable: METER }, TopicMeta::Without).await;
    let first = [row("a", 1, -2), row("a", 1, 5), row("a", 2, 5), row("b", 1, 5)];
    let written = vnode.write(rows(&[("a", 1, -2), ("a", 1, 5), ("a", 2, 5), ("b", 1, 5)], Some(1))).await;
    assert_eq!(written.unwrap().affected_rows, 4);
    assert_eq!(scan(&vnode).await, first);
    vnode.flush().await.unwrap();
    // Over a file: one key again, one new one before and one behind the others of its instant.
    vnode.write(rows(&[("a", 1, -9), ("a", 1, 5), ("a", 1, 7)], None)).await.unwrap();
    let all =
        [row("a", 1, -9), row("a", 1, -2), row("a", 1, 5), row("a", 1, 7), row("a", 2, 5), row("b", 1, 5)];
    assert_eq!(scan(&vnode).await, all);
    crash(vnode).await;

    let vnode = open(dir.path(), &time).await;
    assert_eq!(scan(&vnode).await, all);
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let delivered: Vec<Row> = drain(&mut reader).into_iter().flat_map(|(_, rows)| rows).collect();
    let again = [row("a", 1, -9), row("a", 1, 5), row("a", 1, 7)];
    assert_eq!(
        delivered,
        [&first[..], &again].concat(),
        "as they were written, each block in the order of keys"
    );
    drop(reader);

    let range = TimeRange { first: START_MS + 1, last_inclusive: START_MS + 1 };
    let request = DeleteRequest { target: DeleteTarget::Stable(METER), range, origin: Origin::Client };
    assert_eq!(vnode.delete(request).await.unwrap().affected_rows, 5, "all keys of an instant");
    assert_eq!(scan(&vnode).await, [row("a", 2, 5)]);
    vnode.flush().await.unwrap();
    vnode.close().await.unwrap();
    let vnode = open(dir.path(), &time).await;
    assert_eq!(scan(&vnode).await, [row("a", 2, 5)]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_key_is_there_without_null_and_ascends() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    vnode.apply_stable(StableDdl::Create(keyed()), Origin::Client).await.unwrap();
    let one = || rows(&[("a", 1, 1)], Some(1));
    assert_eq!(code(&vnode, without(one(), ColumnId(2))).await, Code::InvalidOperation);
    let mut null = one();
    null.blocks[0].columns[1].1 = Arc::new(Int32Array::from(vec![None]));
    assert_eq!(code(&vnode, null).await, Code::KeyNull);
    for bad in [&[("a", 1, 1), ("a", 1, 1)], &[("a", 1, 2), ("a", 1, 1)], &[("a", 2, 1), ("a", 1, 2)]] {
        assert_eq!(code(&vnode, rows(bad, Some(1))).await, Code::BadRequest, "{bad:?}");
    }
    assert_eq!(scan(&vnode).await, []);
    // What is no part of the key may be left out, and keeps its value.
    vnode.write(one()).await.unwrap();
    vnode.write(without(rows(&[("a", 1, 1), ("a", 1, 2)], None), ColumnId(3))).await.unwrap();
    assert_eq!(scan(&vnode).await, [row("a", 1, 1), row("a", 1, 2)]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn the_key_of_a_normal_table_stays() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    let table = |key: usize| {
        let mut schema = (*meter().schema).clone();
        schema.tags.clear();
        schema.columns[key].is_key = true;
        CreateTable {
            name: "n".into(),
            if_not_exists: false,
            kind: CreateTableKind::Normal(schema),
            ttl_days: 0,
            comment: None,
        }
    };
    let refused = vnode.create_tables(vec![table(2)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::KeyPosition);
    let mut texts = table(1);
    if let CreateTableKind::Normal(schema) = &mut texts.kind {
        schema.columns.swap(1, 2);
        schema.columns[1].is_key = true;
        schema.columns[2].is_key = false;
    }
    vnode.create_tables(vec![texts]).await.unwrap();
    let alter = async |change| vnode.alter_table("n", change).await.unwrap_err().code();
    assert_eq!(alter(TableChange::DropColumn { name: "note".into() }).await, Code::KeyChange);
    let wider = TableChange::ModifyColumn { name: "note".into(), data_type: DataType::Varchar(20) };
    assert_eq!(alter(wider).await, Code::KeyChange);
    vnode.close().await.unwrap();
}
