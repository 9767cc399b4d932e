//! FLUSH, COMPACT, TRIM and KEEP as scripts use them.

use std::path::PathBuf;

use crate::support::Server;

fn files(server: &Server) -> Vec<PathBuf> {
    let data = server.data_dir().join("vnode/2/data");
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "parquet")).collect();
    found.sort();
    found
}

fn wait_for_compact(server: &Server) {
    // Each look is a run of the command line: the bound is for a hang.
    let under_way = |shown: String| shown.contains("running") || shown.contains("waiting");
    assert!((0..500).any(|_| !under_way(server.sql("SHOW COMPACTS"))), "the compact does not end");
}

#[test]
fn flush_writes_files_and_compact_makes_them_one() {
    let mut server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 1; CREATE STABLE d.s (ts TIMESTAMP, a INT, b INT) TAGS (g INT); \
         CREATE TABLE d.t USING d.s TAGS (1)",
    );
    // Three rounds stay below what the shard merges by itself.
    for round in 0..3 {
        server.sql(&format!(
            "INSERT INTO d.t (ts, a) VALUES (1700000000000, {round}) (170000000000{}, {round}); \
             INSERT INTO d.t (ts, b) VALUES (1700000000000, 1{round}); FLUSH DATABASE d",
            round + 1
        ));
        assert_eq!(files(&server).len(), round + 1, "FLUSH answers when the rows are in files");
    }
    server.sql("DELETE FROM d.t WHERE ts = 1700000000002");
    let expected = server.sql("SELECT a, b FROM d.s ORDER BY ts");
    assert_eq!(expected, "a,b\r\n2,12\r\n0,\r\n2,\r\n");
    let answer = server.sql("COMPACT DATABASE d");
    assert_eq!(answer, "result,id,reason\r\naccepted,1,success\r\n");
    wait_for_compact(&server);
    assert!(server.sql("SHOW COMPACTS").contains(",done,100"), "{}", server.sql("SHOW COMPACTS"));
    let details = server.sql("SHOW COMPACT 1");
    assert!(
        details.starts_with("compact_id,vgroup_id,dnode_id,number_fileset,finished,start_time"),
        "{details}"
    );
    assert!(details.contains("1,2,1,1,1,"), "{details}");
    assert_eq!(files(&server).len(), 1);
    assert_eq!(server.sql("SELECT a, b FROM d.s ORDER BY ts"), expected);
    server.kill();
    server.start_again();
    assert_eq!(files(&server).len(), 1);
    assert_eq!(server.sql("SELECT a, b FROM d.s ORDER BY ts"), expected);

    assert!(server.sql_error("KILL COMPACT 1").contains("does not run"));
    assert!(server.sql_error("COMPACT d.VGROUPS IN (77)").contains("vgroup=77"));
    assert!(server.sql_error("COMPACT DATABASE d START WITH 'x'").contains("error["));
    server.sql("COMPACT d.VGROUPS IN (2) START WITH '2020-01-01' END WITH '2021-01-01'");
    wait_for_compact(&server);
    assert_eq!(files(&server).len(), 1);
}

#[test]
fn a_narrowed_keep_hides_old_rows_at_once() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 1 DURATION 1d KEEP 100d; CREATE TABLE d.t (ts TIMESTAMP, v INT); \
         INSERT INTO d.t VALUES (NOW, 1) (NOW - 50d, 2); FLUSH DATABASE d",
    );
    assert_eq!(files(&server).len(), 2);
    let shown = server.sql("ALTER DATABASE d KEEP 10d; SELECT v FROM d.t");
    assert!(shown.ends_with("v\r\n1\r\n"), "{shown}");
    server.sql("TRIM DATABASE d");
    assert_eq!(files(&server).len(), 1);
}

/// Killed at any moment of flushing and merging, every acknowledged row is there, once, and old values do not come back.
#[test]
fn kill_9_while_files_are_merged() {
    let mut server = Server::start();
    server.sql("CREATE DATABASE d VGROUPS 1; CREATE TABLE d.t (ts TIMESTAMP, a INT, b INT)");
    for round in 0..6_i64 {
        for part in 0..4 {
            let rows: Vec<String> = (0..200)
                .map(|n| format!("({}, {})", 1_700_000_000_000_i64 + n * 4 + part, round * 10 + part))
                .collect();
            let column = if round % 2 == 0 { "a" } else { "b" };
            server
                .sql(&format!("INSERT INTO d.t (ts, {column}) VALUES {}; FLUSH DATABASE d", rows.join(" ")));
        }
        server.sql("DELETE FROM d.t WHERE ts >= 1700000000100 AND ts < 1700000000108; COMPACT DATABASE d");
        // A little further into the merge each time.
        for _ in 0..round {
            server.sql("SHOW COMPACTS");
        }
        server.kill();
        server.start_again();
        let (a, b) = (round / 2 * 2, (round + 1) / 2 * 2 - 1);
        let value = |of: i64| if of < 0 { "0,".to_owned() } else { format!("792,{}", of * 10) };
        let counts = server.sql(
            "SELECT COUNT(*) FROM d.t; SELECT COUNT(a), MIN(a) FROM d.t; SELECT COUNT(b), MIN(b) FROM d.t",
        );
        for wanted in ["792".to_owned(), value(a), value(b)] {
            assert!(counts.lines().any(|line| line == wanted), "round {round}: {wanted} in {counts}");
        }
    }
}

/// Aggregates over files that nothing overlaps come from the sums in them, and are those of the rows.
#[test]
fn aggregates_are_the_same_from_sums_and_from_rows() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 2; CREATE STABLE d.s (ts TIMESTAMP, i INT, f FLOAT, u SMALLINT UNSIGNED, t VARCHAR(8)) \
         TAGS (g INT); CREATE TABLE d.n (ts TIMESTAMP, i BIGINT)",
    );
    for table in 0..4 {
        let rows: Vec<String> = (0..1_000_i64)
            .map(|n| {
                let i = if n % 7 == 0 { "NULL".to_owned() } else { (n * (table + 1) - 500).to_string() };
                format!("({}, {i}, {}.25, {}, 'x')", 1_700_000_000_000_i64 + n, n % 91, n % 300)
            })
            .collect();
        server.sql(&format!(
            "INSERT INTO d.c{table} USING d.s TAGS ({}) VALUES {}",
            table % 2,
            rows.join(" ")
        ));
    }
    server.sql("INSERT INTO d.n VALUES (1700000000000, 5)");
    let queries = [
        "SELECT COUNT(*), COUNT(i), SUM(i), AVG(f), MIN(i), MAX(f), SUM(u), MIN(u), AVG(i) FROM d.s",
        "SELECT g, COUNT(*), SUM(i), MAX(i), SUM(f) FROM d.s GROUP BY g ORDER BY g",
        "SELECT tbname, COUNT(i), MIN(f), SUM(u) FROM d.s PARTITION BY tbname ORDER BY tbname",
        "SELECT COUNT(i), SUM(i), MIN(f) FROM d.c1",
        "SELECT COUNT(i), SUM(i) FROM d.s WHERE ts >= 1700000000100 AND ts < 1700000000900",
        "SELECT COUNT(i), SUM(i) FROM d.s WHERE g = 1",
        "SELECT COUNT(i), SUM(i) FROM d.s WHERE i > 100",
        "SELECT SUM(i + 1), COUNT(t) FROM d.s",
        "SELECT _wstart, SUM(i) FROM d.c0 INTERVAL(100a)",
        "SELECT SUM(i), MIN(i) FROM d.n",
        "SELECT 'of', g % 3, COUNT(*), MAX(i) FROM d.s GROUP BY 'of', g % 3 ORDER BY g % 3",
        "SELECT g, AVG(f) FROM d.s GROUP BY g HAVING SUM(i) > 0 ORDER BY g",
        "SELECT SUM(n) FROM (SELECT tbname, COUNT(*) AS n FROM d.s GROUP BY tbname)",
        "SELECT COUNT(k), SUM(k), MIN(k), COUNT(*) FROM d.s",
        "SELECT tbname, LAST_ROW(f), LAST(i), FIRST(ts), FIRST(f), LAST(g) FROM d.s PARTITION BY tbname ORDER BY tbname",
        "SELECT FIRST(u), LAST(u), LAST_ROW(ts, f) FROM d.s",
        "SELECT LAST(*) FROM d.c1",
        "SELECT g, FIRST(ts), LAST_ROW(u), LAST(k) FROM d.s GROUP BY g ORDER BY g",
        "SELECT MAX(f), i FROM d.c2",
        "SELECT SUM(i), COUNT(*) FROM d.s WHERE ts > 1800000000000",
    ];
    server.sql("ALTER STABLE d.s ADD COLUMN k INT");
    let answers = || queries.map(|query| server.sql(query));
    let from_memory = answers();
    server.sql("FLUSH DATABASE d");
    let from_files = answers();
    assert_eq!(from_files, from_memory);
    for summed in [
        queries[0],
        "SELECT g, AVG(f) FROM d.s GROUP BY g",
        "SELECT tbname, LAST_ROW(f) FROM d.s PARTITION BY tbname",
    ] {
        let plan = server.sql(&format!("EXPLAIN {summed}"));
        assert!(plan.contains("SummedBlocks"), "{summed}: {plan}");
    }
    // A row that overlaps, and a DELETE that is younger than the file.
    server.sql(
        "INSERT INTO d.c1 (ts, i) VALUES (1700000000500, 1000000); DELETE FROM d.c2 WHERE ts < 1700000000010",
    );
    let changed = answers();
    assert_ne!(changed[0], from_memory[0]);
    server.sql("COMPACT DATABASE d");
    wait_for_compact(&server);
    assert_eq!(answers(), changed);
}
