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

/// The value of a column: `None` where it is not listed, `Some(None)` where it is NULL.
type Listed = Option<Option<i32>>;

/// One row of a statement: table, time, and a value for each listed column.
#[derive(Clone, Debug)]
struct Row {
    table: u8,
    ts: i64,
    i: Listed,
    d: Listed,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop::option::weighted(0.7, prop::option::weighted(0.7, 0_i32..100));
    let row = (0_u8..4, 0_i64..6, value(), value()).prop_map(|(table, ts, i, d)| Row { table, ts, i, d });
    prop::collection::vec(row, 1..30)
}

proptest! {
    /// Whatever the order of blocks, the outcome is that of writing the rows one by one into a map.
    #[test]
    fn agrees_with_a_map(rows in rows(), vgroups in 1_u32..4) {
        let mut sql = "INSERT INTO".to_owned();
        let mut expected: BTreeMap<(u8, i64), (Listed, Listed)> = BTreeMap::new();
        for row in &rows {
            let show = |v: Option<i32>| v.map_or("NULL".into(), |v| v.to_string());
            let (mut names, mut values) = ("ts".to_owned(), row.ts.to_string());
            for (name, value) in [("i", row.i), ("d", row.d)] {
                if let Some(value) = value {
                    names += &format!(",{name}");
                    values += &format!(",{}", show(value));
                }
            }
            sql += &format!(" k{} USING s TAGS(1) ({names}) VALUES ({values})", row.table);
            let merged = expected.entry((row.table, row.ts)).or_default();
            for (old, new) in [(&mut merged.0, row.i), (&mut merged.1, row.d)] {
                if new.is_some_and(|new| new.is_some()) || old.is_none() {
                    *old = new;
                }
            }
        }
        let mut fake = Fake::new(Precision::Ms, vgroups);
        fake.run("CREATE STABLE s (ts TIMESTAMP, i INT, d DOUBLE) TAGS (g INT)");
        let plan = plan(&mut fake, &sql);
        prop_assert_eq!(plan.affected, u64::try_from(expected.len()).unwrap());
        let mut found = dump(&plan);
        found.sort_unstable();
        let mut lines: Vec<String> = expected
            .into_iter()
            .map(|((table, ts), (i, d))| {
                let (mut ids, mut values) = ("1".to_owned(), ts.to_string());
                for (id, value) in [(",2", i), (",3", d)] {
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
