//! `tidemark import`: which column is the time, how files are written, and that no digit is lost in silence.

use crate::support::Server;

/// Writes a file and imports it; exit status and stderr.
fn import(server: &Server, name: &str, text: &str, args: &[&str]) -> (i32, String) {
    let file = server.scratch().join(name);
    std::fs::write(&file, text).expect("a file");
    let mut all = vec![file.to_str().expect("UTF-8")];
    all.extend(args);
    let output = server.run("import", &all);
    assert!(output.stdout.is_empty(), "what import says goes to stderr");
    (output.status.code().expect("it ended"), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn numbers_since_1970_are_found_as_the_time() {
    let server = Server::start();
    let text = "id,at,v\n1,1700000000000,1.5\n2,1700000001000,2.5\n";
    let (status, said) = import(&server, "ms.csv", text, &["--into", "a.t"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("created database a: PRECISION 'ms'"), "{said}");
    assert!(server.sql("SELECT at, id FROM a.t").contains("2023-11-14T22:13:20.000Z,1"));
    // The same instants in other units, into the same database.
    let seconds = "id,at,v\n3,1700000002,3.5\n";
    assert_eq!(import(&server, "s.csv", seconds, &["--into", "a.t"]).0, 0);
    let us = "id,at,v\n4,1700000003000000,4.5\n";
    assert_eq!(import(&server, "us.csv", us, &["--into", "a.t"]).0, 0);
    let last = server.sql("SELECT at, id FROM a.t WHERE id >= 3");
    assert!(last.contains("22:13:22.000Z,3") && last.contains("22:13:23.000Z,4"), "{last}");
    // A database made for nanoseconds.
    let ns = "at,v\n1700000000000000001,1\n";
    assert!(import(&server, "ns.csv", ns, &["--into", "b.t"]).1.contains("PRECISION 'ns'"));
    assert!(server.sql("SELECT at FROM b.t").contains("20.000000001Z"));
}

#[test]
fn a_named_time_column_wins_over_what_looks_like_one() {
    let server = Server::start();
    let text = "seen,n\n2024-01-01 00:00:00,1700000000000\n";
    assert_eq!(import(&server, "f.csv", text, &["--into", "a.t", "--ts", "n"]).0, 0);
    assert!(server.sql("DESCRIBE a.t").starts_with("field,type"), "a table");
    assert!(server.sql("SELECT n, seen FROM a.t").contains("2023-11-14T22:13:20.000Z,2024-01-01 00:00:00"));
}

#[test]
fn no_column_with_a_time_is_told_with_the_columns_there_are() {
    let server = Server::start();
    let (status, said) = import(&server, "f.csv", "a,b\n1,x\n", &["--into", "a.t"]);
    assert_eq!(status, 1);
    assert!(said.contains("columns=a,b") && said.contains("--ts"), "{said}");
    assert!(!server.sql("SHOW DATABASES").lines().any(|name| name == "a"), "nothing was made");
    let (status, said) = import(&server, "g.csv", "ts;v\n2024-01-01;1\n", &["--into", "a.t"]);
    assert_eq!(status, 1);
    assert!(said.contains("--delimiter"), "{said}");
}

#[test]
fn lines_of_one_instant_are_told_apart_by_a_composite_key() {
    let server = Server::start();
    server.sql("CREATE DATABASE a KEEP 36500; CREATE TABLE a.t (at TIMESTAMP, k INT PRIMARY KEY, v INT)");
    let text = "at,k,v\n1700000000000,2,1\n1700000000000,1,2\n1700000000000,2,3\n";
    let (status, said) = import(&server, "f.csv", text, &["--into", "a.t"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(server.sql("SELECT k, v FROM a.t").lines().collect::<Vec<_>>(), ["k,v", "1,2", "2,3"]);
    let (status, said) = import(&server, "g.csv", "at,k,v\n1700000000000,,9\n", &["--into", "a.t"]);
    assert_eq!(status, 1);
    assert!(said.contains("0x267b") && said.contains("line=2"), "{said}");
}

#[test]
fn a_first_line_that_does_not_read_leaves_nothing_behind() {
    let server = Server::start();
    let text = "ts,h,v\n2024-01-01,a,NA\n2024-01-02,a,1\n2024-01-03,a,2\n";
    for args in [&["--into", "fresh.t"][..], &["--into", "fresh.s", "--tags", "h"]] {
        let (status, said) = import(&server, "na.csv", text, args);
        assert_eq!(status, 1);
        assert!(said.contains("line=2 column=v value=NA") && said.contains("--null 'NA'"), "{said}");
        assert!(!said.contains("created") && !server.sql("SHOW DATABASES").contains("fresh"), "{said}");
    }
    server.sql("CREATE DATABASE d KEEP 36500");
    assert_eq!(import(&server, "na.csv", text, &["--into", "d.t"]).0, 1);
    assert!(!server.sql("SHOW d.TABLES").lines().any(|name| name == "t"), "nor in a database that is there");
    let (status, said) = import(&server, "na.csv", text, &["--into", "fresh.t", "--null", "NA"]);
    assert_eq!(status, 0, "{said}");
    // What comes to nothing later is said.
    let bad = "ts,v\nsoon,1\n";
    let args = ["--into", "d.none", "--ts", "ts", "--on-error", "skip"];
    let (_, said) = import(&server, "bad.csv", bad, &args);
    assert!(said.contains("d.none was created and stays, without rows"), "{said}");
}

#[test]
fn other_delimiters_and_a_chosen_precision() {
    let server = Server::start();
    let text = "ts;v;s\n2024-01-01 00:00:00.123456;1;a,b\n";
    let args = ["--into", "a.t", "--delimiter", ";", "--precision", "ns"];
    let (status, said) = import(&server, "f.csv", text, &args);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("PRECISION 'ns'"), "{said}");
    assert_eq!(server.sql("SELECT * FROM a.t"), "ts,v,s\r\n2024-01-01T00:00:00.123456000Z,1,\"a,b\"\r\n");
    let tabs =
        import(&server, "g.tsv", "ts\tv\n2024-01-01\t7\n", &["--into", "a.tabs", "--delimiter", "tab"]);
    assert_eq!(tabs.0, 0, "{}", tabs.1);
    // The database is there: what it has cannot be chosen any more.
    for table in ["a.t", "a.new"] {
        let (status, said) =
            import(&server, "f.csv", text, &["--into", table, "--delimiter", ";", "--precision", "us"]);
        assert_eq!(status, 1);
        assert!(said.contains("has precision=ns"), "{said}");
    }
    assert!(!server.sql("SHOW a.TABLES").contains("new"), "nothing was made");
}

#[test]
fn a_time_is_refused_rather_than_cut() {
    let server = Server::start();
    server.sql("CREATE DATABASE d KEEP 36500; CREATE TABLE d.n (ts TIMESTAMP, v BIGINT)");
    let text = "ts,v\n2024-01-01 00:00:00.123,1\n2024-01-01 00:00:00.1234,2\n2024-01-01 00:00:00.1240,3\n";
    let (status, said) = import(&server, "f.csv", text, &["--into", "d.n", "--on-error", "skip"]);
    assert_eq!(status, 0);
    assert!(said.contains("line=3 column=ts") && said.contains("more digits"), "{said}");
    assert!(said.contains("rows=3 written=2 skipped=1"), "{said}");
    let us = "ts,v\n1700000000000001,1\n";
    let (status, said) = import(&server, "g.csv", us, &["--into", "d.n"]);
    assert_eq!(status, 1);
    assert!(said.contains("has microseconds") && said.contains("written=0"), "{said}");
    assert_eq!(server.sql("SELECT v FROM d.n"), "v\r\n1\r\n3\r\n");
}

#[test]
fn lines_that_repeat_an_instant_are_told_apart_from_rows() {
    let server = Server::start();
    let text = "ts,h,v\n2024-01-01,a,1\n2024-01-01,a,2\n2024-01-01,b,3\n2024-01-02,a,4\n";
    let (status, said) = import(&server, "f.csv", text, &["--into", "d.s", "--tags", "h"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("repeats=1") && said.ends_with("rows=4 written=4 skipped=0\n"), "{said}");
    assert_eq!(server.sql("SELECT SUM(v), COUNT(*) FROM d.s").lines().last(), Some("9,3"));
}
