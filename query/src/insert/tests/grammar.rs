use super::*;

#[test]
fn rows_with_and_without_commas() {
    let rows = ["t[1,2] 1 1", "t[1,2] 2 2", "t[1,2] 3 3"].map(String::from).to_vec();
    for sql in [
        "INSERT INTO t (ts,i) VALUES (1,1) (2,2) , (3,3)",
        "INSERT INTO t(ts,i)VALUES(1,1)(2,2)(3,3)",
        "import into g.t (i, ts) values (1,1),(2,2),(3,3) ;",
        "INSERT INTO t (ts,i) VALUES (1,1) t (ts,i) VALUES (2,2), g.t (ts,i) VALUES (3,3)",
        "INSERT -- c\n INTO /* x */ `t` ( ts , `i` ) VALUES\n( 1 ,\t1 ) (2,2)/**/(3,3);;",
    ] {
        assert_eq!(insert(sql), (rows.clone(), 3), "{sql}");
    }
}

#[test]
fn several_tables_share_blocks() {
    let mut fake = Fake::new(Precision::Ms, 1);
    let plan = plan(
        &mut fake,
        "INSERT INTO c VALUES (1,1,'a','b') k1 USING m TAGS('x',1) VALUES (1,2,'c','d') (2,3,NULL,'e') t VALUES (1,1,1)",
    );
    assert_eq!(plan.affected, 4);
    assert_eq!(plan.writes.len(), 1, "one vgroup");
    assert_eq!(plan.writes[0].blocks.len(), 2, "children of m in one block, t in another");
    assert_eq!(
        dump(&plan),
        ["c[1,2,3,4] 1 1 a b", "k1[1,2,3,4] 1 2 c d", "k1[1,2,3,4] 2 3 NULL e", "t[1,2,3] 1 1 1"]
    );
    assert_eq!(
        tags(&plan),
        [("c".into(), None), ("k1".into(), Some(vec![text("x"), Value::Int(1)])), ("t".into(), None)]
    );
}

#[test]
fn column_lists_before_or_after_using() {
    let expected = (vec!["k1[1,2] 5 9".to_owned()], 1);
    for sql in [
        "INSERT INTO k1 (ts,i) USING m TAGS('x',9) VALUES (5,9)",
        "INSERT INTO k1 USING m TAGS('x',9) (ts,i) VALUES (5,9)",
        "INSERT INTO k1 USING m (no, site) TAGS(9,'x') (i,ts) VALUES (9,5)",
    ] {
        assert_eq!(insert(sql), expected, "{sql}");
    }
    let mut fake = Fake::new(Precision::Ms, 1);
    let some = plan(&mut fake, "INSERT INTO `K1` USING g.m (no) TAGS(9) (ts) VALUES (5)");
    assert_eq!(tags(&some), [("K1".into(), Some(vec![Value::Null, Value::Int(9)]))]);
    let none = plan(&mut fake, "INSERT INTO K1 USING m TAGS(NULL, 0x1F) (ts) VALUES (5)");
    assert_eq!(tags(&none), [("k1".into(), Some(vec![Value::Null, Value::Int(31)]))]);
}

#[test]
fn super_tables_take_rows_that_name_their_child() {
    let mut fake = Fake::new(Precision::Ms, 4);
    let plan = plan(
        &mut fake,
        "INSERT INTO m (i, tbname, no, ts) VALUES (1,'K1',7,10) (2,'k2',8,11) (3,'K1',9,12), (4,'c',5,13)",
    );
    assert_eq!(plan.affected, 4);
    let mut lines = dump(&plan);
    lines.sort_unstable();
    assert_eq!(lines, ["K1[1,2] 10 1", "K1[1,2] 12 3", "c[1,2] 13 4", "k2[1,2] 11 2"]);
    let mut tags = tags(&plan);
    tags.sort_by(|a, b| a.0.cmp(&b.0));
    let no = |n| Some(vec![Value::Null, Value::Int(n)]);
    assert_eq!(tags, [("K1".into(), no(7)), ("c".into(), no(5)), ("k2".into(), no(8))], "first row's tags");
}

#[test]
fn times_and_durations() {
    let day = 1_704_067_200_000_i64;
    for (value, expected) in [
        ("'2024-01-01'", day),
        ("'2024-01-01'+1d", day + 86_400_000),
        ("1704067200000 - 1s", day - 1_000),
        ("now", 1_704_110_400_123),
        ("NOW()", 1_704_110_400_123),
        ("now ( ) + 1d", 1_704_196_800_123),
        ("now+1999u", 1_704_110_400_124),
        ("today()", day),
        ("\"2024-01-01T00:00:00+08:00\"", day - 8 * 3_600_000),
        ("-1", -1),
        ("-1 + 2a", 1),
    ] {
        let sql = format!("INSERT INTO t (ts) VALUES ({value})");
        assert_eq!(insert(&sql).0, [format!("t[1] {expected}")], "{sql}");
    }
}

#[test]
fn strings_and_escapes() {
    let value = |literal: &str| insert(&format!("INSERT INTO w (ts,v) VALUES (1,{literal})")).0.remove(0);
    for (literal, expected) in [
        ("'a''b'", "a'b"),
        (r"'a\'b'", "a'b"),
        (r"'\\'", "\\"),
        (r"'a\%'", "a\\%"),
        ("\"a'b\"", "a'b"),
        ("'a,(b)'", "a,(b)"),
        ("'--'", "--"),
        ("1.50", "1.50"),
        ("-5", "-5"),
        ("true", "true"),
        ("NULL", "NULL"),
        ("'null'", "null"),
        ("''", ""),
    ] {
        assert_eq!(value(literal), format!("w[1,4] 1 {expected}"), "{literal}");
    }
}

#[test]
fn databases_are_filled_in() {
    let mut fake = Fake::new(Precision::Ms, 1);
    fake.database("h", Precision::Ns, 1);
    fake.run("CREATE TABLE h.t (ts TIMESTAMP, v INT)");
    let both = plan(&mut fake, "INSERT INTO t (ts) VALUES (now) h.t (ts) VALUES (now)");
    assert_eq!(both.writes.len(), 2);
    assert_eq!(dump(&both), ["t[1] 1704110400123", "t[1] 1704110400123456789"]);
    let nowhere = InsertContext { database: None, ..context() };
    let error = parse_insert("INSERT INTO t VALUES (1,1,1)", &nowhere, &mut fake).unwrap_err();
    assert_eq!(error.code(), Code::DatabaseNotSpecified);
    assert!(parse_insert("INSERT INTO g.t VALUES (1,1,1)", &nowhere, &mut fake).is_ok());
}

#[test]
fn what_is_not_built_says_its_name() {
    for (sql, construct) in [
        ("INSERT INTO t SELECT * FROM c", "INSERT .. SELECT"),
        ("INSERT INTO t (ts,i) SELECT ts,i FROM c", "INSERT .. SELECT"),
        ("INSERT INTO t (SELECT ts,i FROM c)", "INSERT .. SELECT"),
        ("INSERT INTO t FILE 'x.csv'", "INSERT .. FILE"),
        ("INSERT INTO t VALUES (?,?,?)", "? outside a prepared statement"),
        ("INSERT INTO ? VALUES (1,2,3)", "? outside a prepared statement"),
    ] {
        assert_eq!(
            refused(sql),
            (Code::NotSupported, format!("Operation not supported: {construct}")),
            "{sql}"
        );
    }
}
