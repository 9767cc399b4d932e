use proptest::prelude::*;

use super::*;

#[test]
fn rows_of_a_table_come_out_ascending_and_once_a_key() {
    assert_eq!(
        insert("INSERT INTO t (ts,i) VALUES (2,1),(1,2)"),
        (vec!["t[1,2] 1 2".into(), "t[1,2] 2 1".into()], 2)
    );
    assert_eq!(insert("INSERT INTO t (ts,i) VALUES (1,1),(1,2)"), (vec!["t[1,2] 1 2".into()], 1));
}

#[test]
fn within_a_statement_the_last_value_that_is_not_null_wins() {
    assert_eq!(
        insert("INSERT INTO t VALUES (1,1,1.5) (1,2,NULL) (1,NULL,NULL)"),
        (vec!["t[1,2,3] 1 2 1.5".into()], 1)
    );
    assert_eq!(insert("INSERT INTO t (ts,i) VALUES (3,NULL)"), (vec!["t[1,2] 3 NULL".into()], 1));
}

#[test]
fn a_table_that_comes_back_stays_one_run() {
    let (rows, affected) = insert(
        "INSERT INTO c (ts,i) VALUES (2,2) k USING m TAGS('x',1) (ts,i) VALUES (1,9) c (ts,i) VALUES (1,1)",
    );
    assert_eq!(rows, ["c[1,2] 1 1", "c[1,2] 2 2", "k[1,2] 1 9"]);
    assert_eq!(affected, 3);
}

#[test]
fn column_lists_of_one_table_are_merged_by_key() {
    assert_eq!(
        insert("INSERT INTO t (ts,i) VALUES (1,1) t (ts,d) VALUES (1,2.5)"),
        (vec!["t[1,2,3] 1 1 2.5".into()], 1)
    );
    let (rows, affected) = insert(
        "INSERT INTO t (ts,i) VALUES (1,1) (2,2) t VALUES (2,NULL,4.5) (3,3,NULL) t (ts,i) VALUES (3,NULL) (4,4)",
    );
    assert_eq!(rows, ["t[1,2] 1 1", "t[1,2] 4 4", "t[1,2,3] 2 2 4.5", "t[1,2,3] 3 3 NULL"]);
    assert_eq!(affected, 4);
}

#[test]
fn rows_go_to_the_vgroup_of_their_table() {
    let mut fake = Fake::new(Precision::Ms, 4);
    let blocks: String =
        (0..20).map(|k| format!(" k{k} USING m TAGS('x',{k}) (ts,i) VALUES (1,{k})")).collect();
    let regular = plan(&mut fake, &format!("INSERT INTO{blocks}"));
    let rows: String = (0..20).map(|k| format!(" ('k{k}','x',{k},1,{k})")).collect();
    let stable = plan(&mut fake, &format!("INSERT INTO m (tbname,site,no,ts,i) VALUES{rows}"));
    for plan in [&regular, &stable] {
        assert_eq!((plan.affected, plan.writes.len()), (20, 4));
    }
    let sorted = |plan: &InsertPlan| {
        let mut lines = dump(plan);
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&regular), sorted(&stable));
}

#[test]
fn rows_of_one_instant_are_told_apart_by_a_composite_key() {
    let mut fake = Fake::new(Precision::Ms, 1);
    fake.run("CREATE TABLE ck (ts TIMESTAMP, k BIGINT UNSIGNED PRIMARY KEY, v INT)");
    fake.run("CREATE STABLE sk (ts TIMESTAMP, k VARCHAR(8) COMPOSITE KEY, v INT, w INT) TAGS (g INT)");
    let mut dumped = |sql: &str| {
        let plan = plan(&mut fake, sql);
        (dump(&plan), plan.affected)
    };
    let line = |text: &str| text.to_owned();
    let (rows, affected) =
        dumped("INSERT INTO ck VALUES (5,18446744073709551615,1) (5,1,2) (4,7,0) (5,1,NULL) (5,1,3)");
    assert_eq!(rows, ["ck[1,2,3] 4 7 0", "ck[1,2,3] 5 1 3", "ck[1,2,3] 5 18446744073709551615 1"].map(line));
    assert_eq!(affected, 3);
    // In order: as it came.
    assert_eq!(dumped("INSERT INTO ck VALUES (5,1,1) (5,2,2) (6,0,3)").1, 3);
    // Texts of several column lists and children.
    let (rows, affected) = dumped(
        "INSERT INTO a USING sk TAGS(1) (k,ts,v) VALUES ('null',1,1) ('b',1,2) \
         a USING sk TAGS(1) (ts,k,w) VALUES (1,'b',9) (1,'a',8) (0,'z',7)",
    );
    assert_eq!(
        rows,
        ["a[1,2,4] 0 z 7", "a[1,2,4] 1 a 8", "a[1,2,3,4] 1 b 2 9", "a[1,2,3] 1 null 1"].map(line)
    );
    assert_eq!(affected, 4);
    let mut code = |sql: &str| parse_insert(sql, &context(), &mut fake).unwrap_err();
    assert_eq!(code("INSERT INTO ck VALUES (1,NULL,1)").code(), Code::KeyNull);
    assert_eq!(code("INSERT INTO ck VALUES (1,'null',1)").code(), Code::KeyNull);
    let none = code("INSERT INTO sk (tbname,ts,v,g) VALUES ('a',1,1,1)");
    assert_eq!(
        (none.code(), none.message()),
        (Code::InvalidOperation, "Primary key column should not be none")
    );
}

/// The value of a column: `None` where it is not listed, `Some(None)` where it is NULL.
type Listed = Option<Option<i32>>;

/// One row of a statement: table, time, composite key and a value for each listed column.
#[derive(Clone, Debug)]
struct Row {
    table: u8,
    ts: i64,
    k: u8,
    i: Listed,
    d: Listed,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop::option::weighted(0.7, prop::option::weighted(0.7, 0_i32..100));
    let row = (0_u8..4, 0_i64..6, 0_u8..3, value(), value());
    let row = row.prop_map(|(table, ts, k, i, d)| Row { table, ts, k, i, d });
    prop::collection::vec(row, 1..30)
}

proptest! {
    /// Whatever the order of blocks, the outcome is that of writing the rows one by one into a map.
    #[test]
    fn agrees_with_a_map(rows in rows(), vgroups in 1_u32..4, keyed in any::<bool>()) {
        let mut sql = "INSERT INTO".to_owned();
        let mut expected: BTreeMap<(u8, i64, Option<u8>), (Listed, Listed)> = BTreeMap::new();
        for row in &rows {
            let show = |v: Option<i32>| v.map_or("NULL".into(), |v| v.to_string());
            let (mut names, mut values) = ("ts".to_owned(), row.ts.to_string());
            if keyed {
                names += ",k";
                values += &format!(",'k{}'", row.k);
            }
            for (name, value) in [("i", row.i), ("d", row.d)] {
                if let Some(value) = value {
                    names += &format!(",{name}");
                    values += &format!(",{}", show(value));
                }
            }
            sql += &format!(" k{} USING s TAGS(1) ({names}) VALUES ({values})", row.table);
            let merged = expected.entry((row.table, row.ts, keyed.then_some(row.k))).or_default();
            for (old, new) in [(&mut merged.0, row.i), (&mut merged.1, row.d)] {
                if new.is_some_and(|new| new.is_some()) || old.is_none() {
                    *old = new;
                }
            }
        }
        let mut fake = Fake::new(Precision::Ms, vgroups);
        let key = if keyed { "k VARCHAR(4) PRIMARY KEY," } else { "" };
        fake.run(&format!("CREATE STABLE s (ts TIMESTAMP, {key} i INT, d DOUBLE) TAGS (g INT)"));
        let plan = plan(&mut fake, &sql);
        prop_assert_eq!(plan.affected, u64::try_from(expected.len()).unwrap());
        let mut found = dump(&plan);
        found.sort_unstable();
        let mut lines: Vec<String> = expected
            .into_iter()
            .map(|((table, ts, k), (i, d))| {
                let (mut ids, mut values) = ("1".to_owned(), ts.to_string());
                if let Some(k) = k {
                    ids += ",2";
                    values += &format!(" k{k}");
                }
                for (id, value) in if keyed { [(",3", i), (",4", d)] } else { [(",2", i), (",3", d)] } {
                    if let Some(value) = value {
                        ids += id;
                        values += &format!(" {}", value.map_or("NULL".into(), |v| v.to_string()));
                    }
                }
                format!("k{table}[{ids}] {values}")
            })
            .collect();
        lines.sort_unstable();
        prop_assert_eq!(found, lines);
    }
}
