//! What scripts rely on: outputs, exit statuses, and commands that outlive the server.

use std::io::{BufRead as _, BufReader, Seek as _, Write as _};
use std::process::Stdio;

use crate::support::{Server, tidemark};

fn prepared() -> Server {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 1; CREATE TABLE d.n (ts TIMESTAMP, v BIGINT, s VARCHAR(20), b BOOL, f DOUBLE); \
         CREATE TOPIC t AS SELECT ts, v, s FROM d.n; \
         INSERT INTO d.n VALUES ('2024-03-01 00:00:00', 9007199254740993, 'a\"b,c', true, 1.5) \
         ('2024-03-01 00:00:01', NULL, NULL, NULL, NULL)",
    );
    server
}

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn sql_prints_what_was_asked_for() {
    let server = prepared();
    let select = "SELECT ts, v, s, b, f, v FROM d.n";
    let json = stdout(&server.run("sql", &["-o", "json", "-s", select]));
    let first = r#"{"ts":"2024-03-01T00:00:00.000Z","v":9007199254740993,"s":"a\"b,c","b":true,"f":1.5,"v_2":9007199254740993}"#;
    let second = r#"{"ts":"2024-03-01T00:00:01.000Z","v":null,"s":null,"b":null,"f":null,"v_2":null}"#;
    assert_eq!(json, format!("{first}\n{second}\n"));
    let csv = stdout(&server.run("sql", &["-o", "csv", "-s", "SELECT v, s FROM d.n"]));
    assert_eq!(csv, "v,s\r\n9007199254740993,\"a\"\"b,c\"\r\n,\r\n");
    let affected =
        stdout(&server.run("sql", &["-o", "json", "-s", "INSERT INTO d.n (ts, v) VALUES (now, 1)"]));
    assert_eq!(affected, "{\"affected_rows\":1}\n");
    let zoned = ["-o", "json", "--tz", "Asia/Shanghai", "-s", "SELECT ts FROM d.n LIMIT 1"];
    assert_eq!(stdout(&server.run("sql", &zoned)), "{\"ts\":\"2024-03-01T08:00:00.000+08:00\"}\n");
}

#[test]
fn sql_stops_at_the_first_error_or_goes_on() {
    let server = prepared();
    let script = "SELECT 1; SELECT nonsense FROM d.n; SELECT 2";
    let stopped = server.run("sql", &["-o", "csv", "-s", script]);
    assert_eq!(stopped.status.code(), Some(1));
    assert_eq!(stdout(&stopped), "1\r\n1\r\n");
    assert!(String::from_utf8_lossy(&stopped.stderr).starts_with("error[0x2602]: "));
    let went_on = server.run("sql", &["-o", "csv", "--continue", "-s", script]);
    assert_eq!(went_on.status.code(), Some(1));
    assert!(stdout(&went_on).ends_with("2\r\n2\r\n"), "{}", stdout(&went_on));
    let wrong_use = tidemark().args(["sql", "--nonsense"]).output().expect("it runs");
    assert_eq!(wrong_use.status.code(), Some(2));
    let nobody = tidemark().args(["sql", "-h", "127.0.0.1:1", "-s", "SELECT 1"]).output().expect("it runs");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("error[0x000b]"));
}

#[test]
fn a_database_that_is_not_there_is_told_at_once() {
    let server = prepared();
    for (database, hint) in [("nope", "SHOW DATABASES"), ("D", "there is `d`")] {
        let output = server.run("sql", &["-d", database, "-s", "SELECT 1"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{text}");
        assert!(text.contains(&format!("error[0x0388]: Database not exist: {database}")), "{text}");
        assert!(text.contains(hint), "{text}");
    }
    assert_eq!(
        stdout(&server.run("sql", &["-d", "d", "-o", "csv", "-s", "SELECT COUNT(*) FROM n"])),
        "count(*)\r\n2\r\n"
    );
}

#[test]
fn printed_tables_have_no_blanks_at_the_end() {
    let server = prepared();
    let table = stdout(&server.run("sql", &["-s", "SELECT v, s FROM d.n"]));
    let expected = "                v | s\n------------------+-------\n 9007199254740993 | a\"b,c\n             NULL | NULL\n";
    assert_eq!(table, expected);
    let live = stdout(
        &server.run("subscribe", &["t", "-g", "g", "--from", "earliest", "--limit", "2", "-o", "table"]),
    );
    assert!(live.contains("NULL") && live.lines().all(|line| line.trim_end() == line), "{live:?}");
}

#[test]
fn the_statement_subscribe_takes_what_the_command_takes() {
    let server = prepared();
    let rows = |statement: &str| stdout(&server.run("sql", &["-s", statement]));
    let as_command = rows("subscribe t -g a --from earliest --limit 1 -o json");
    assert!(as_command.starts_with("{\"topic\":\"t\",") && as_command.lines().count() == 1, "{as_command}");
    assert_eq!(
        rows("subscribe t -g b -o csv -n 1 --from earliest"),
        "ts,v,s\r\n2024-03-01T00:00:00.000Z,9007199254740993,\"a\"\"b,c\"\r\n"
    );
    let wrong = server.run("sql", &["-s", "subscribe t -g c --form earliest"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--form"));
    for args in [["t", "-g", ""], ["", "-g", "g"]] {
        let empty = server.run("subscribe", &args);
        let text = String::from_utf8_lossy(&empty.stderr).into_owned();
        assert_eq!(empty.status.code(), Some(2), "wrong use: {text}");
        assert!(text.contains("-g (--group) is empty") || text.contains("TOPIC is empty"), "{text}");
    }
}

#[test]
fn sql_errors_are_where_the_script_has_them() {
    let server = prepared();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("schema.sql");
    let path = path.to_str().expect("UTF-8");
    let at = |script: &str| {
        std::fs::write(path, script).expect("a file");
        let output = server.run("sql", &["-f", path]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let syntax = at("-- one\nSELECT 1;\n/* two */ SELECT 2;\n\nSELECT v\n  FRM d.n;\n");
    assert!(syntax.contains(&format!("; at {path}, line 6, column 7")), "{syntax}");
    let value = at("SELECT 1; INSERT INTO d.n (ts, v)\n VALUES (1, 'x');");
    assert!(value.contains(&format!("; at {path}, line 2, column 13; in column v")), "{value}");
    let table = at("SELECT 1;\n  SELECT * FROM d.nosuch;");
    assert!(table.contains(&format!("; at {path}, line 2, column 17;")), "{table}");
    let whole = at("SELECT 1;\n  DROP TOPIC nosuch;");
    assert!(whole.contains(&format!("; in the statement at {path}, line 2, column 3;")), "{whole}");
    assert!(table.contains("d.nosuch"), "{table}");
    let output = server.run("sql", &["-s", "SELECT 1; SELECT 2;\nSELECT 3 FROM WHERE"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("; at statement 3, line 1, column 15"), "{text}");
}

#[test]
fn the_length_of_a_statement_is_a_setting() {
    let server = prepared();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("long.sql");
    let blanks = " ".repeat(1 << 20);
    std::fs::write(&path, format!("SELECT {blanks}1; INSERT INTO d.n (ts, v) VALUES {blanks}(now, 1)"))
        .expect("a file");
    let args = ["--continue", "-o", "csv", "-f", path.to_str().expect("UTF-8")];
    let refused = server.run("sql", &args);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(text.matches("error[0x0219]").count(), 2, "{text}");
    assert!(text.contains("at most 1048576 are allowed") && text.contains("maxSQLLength"), "{text}");
    server.sql("ALTER ALL DNODES 'maxSQLLength' '4194304'");
    assert_eq!(server.run("sql", &args).status.code(), Some(0));
}

#[test]
fn piped_statements_run_as_soon_as_they_are_complete() {
    let server = prepared();
    let mut shell = tidemark()
        .args(["sql", "-o", "csv", "-h", server.address()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut pipe = shell.stdin.take().expect("stdin");
    let mut lines = BufReader::new(shell.stdout.take().expect("stdout")).lines();
    let mut line = || lines.next().expect("a line").expect("UTF-8");
    // Each answer comes while the pipe is open.
    writeln!(pipe, "SELECT 10 + 1 AS a; SELECT 10 +").expect("piped");
    assert_eq!((line().as_str(), line().as_str()), ("a", "11"));
    writeln!(pipe, "2 AS b; -- and so on").expect("piped");
    assert_eq!((line().as_str(), line().as_str()), ("b", "12"));
    // The first error ends it, and names its place in all that was piped; nobody waits for the rest.
    writeln!(pipe, "\nSELECT v\n FRM d.n;").expect("piped");
    let output = shell.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("; at stdin, line 5, column 6"), "{stderr}");
    drop(pipe);
}

#[test]
fn names_that_need_backticks_are_told() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE `Plant` VGROUPS 1; CREATE STABLE `Plant`.`Pump` (ts TIMESTAMP, `Flow` INT, v INT) \
         TAGS (`Site` INT); CREATE TABLE `Plant`.p1 USING `Plant`.`Pump` TAGS (1)",
    );
    for (statement, named) in [
        ("SELECT * FROM Plant.`Pump`", "`Plant`"),
        ("CREATE TABLE Plant.x (ts TIMESTAMP, v INT)", "`Plant`"),
        ("SELECT * FROM `Plant`.Pump", "`Pump`"),
        ("SELECT Flow FROM `Plant`.`Pump`", "`Flow`"),
        ("SELECT v FROM `Plant`.p1 WHERE Site = 1", "`Site`"),
        ("INSERT INTO `Plant`.p1 (ts, Flow) VALUES (now, 1)", "`Flow`"),
        ("CREATE TABLE `Plant`.x (ts TIMESTAMP, order INT)", "`order`"),
        ("SELECT order FROM `Plant`.p1", "`order`"),
    ] {
        let said = server.sql_error(statement);
        assert!(
            said.contains(named) && (said.contains("backticks") || said.contains("write `")),
            "{statement}: {said}"
        );
    }
    assert!(!server.sql_error("SELECT nosuch FROM `Plant`.p1").contains("backticks"));
}

#[test]
fn s15_76_subscribe_ends_at_its_limit_and_goes_on_from_there() {
    let server = prepared();
    let limited = ["t", "-g", "g", "--from", "earliest", "--limit", "1"];
    let first = server.run("subscribe", &limited);
    assert!(first.status.success());
    assert_eq!(stdout(&first).lines().count(), 1, "{}", stdout(&first));
    assert!(
        stdout(&first)
            .contains(r#""row":{"ts":"2024-03-01T00:00:00.000Z","v":9007199254740993,"s":"a\"b,c"}"#)
    );
    server.sql("INSERT INTO d.n (ts, v) VALUES ('2024-03-01 00:00:05', 5)");
    let rest = server.run("subscribe", &["t", "-g", "g", "--timeout", "1s", "-o", "csv"]);
    assert_eq!(stdout(&rest).lines().last(), Some("2024-03-01T00:00:05.000Z,5,"), "{}", stdout(&rest));
    let missing = server.run("subscribe", &["nix", "-g", "g", "--timeout", "1s"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("error[0x03e1]"));
}

#[test]
fn s15_69_subscribe_survives_the_server() {
    let mut server = prepared();
    let mut consumer = tidemark()
        .args(["subscribe", "t", "-g", "g", "--from", "earliest", "--limit", "3", "-h", server.address()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(consumer.stdout.take().expect("stdout")).lines();
    let mut line = || lines.next().expect("a line").expect("UTF-8");
    assert!(line().contains("9007199254740993"));
    assert!(line().contains("null"));
    server.kill_and_restart_on_the_same_port();
    server.sql("INSERT INTO d.n (ts, v) VALUES ('2024-03-01 00:00:05', 5)");
    assert!(line().contains(r#""v":5"#));
    assert!(consumer.wait().expect("it ends").success());
}

#[test]
fn wal_tells_intact_from_damaged() {
    let mut server = prepared();
    let data_dir = server.data_dir();
    let wal = |what: &str| tidemark().args(["wal", what]).arg(&data_dir).output().expect("it runs");
    let beside = wal("verify");
    assert!(beside.status.success(), "beside a live server: {}", stdout(&beside));
    server.kill();
    let dump = stdout(&wal("dump"));
    let data: Vec<serde_json::Value> = dump
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|record: &serde_json::Value| record["kind"] == "data")
        .collect();
    assert_eq!(data.len(), 1, "{dump}");
    assert_eq!((data[0]["rows"].as_u64(), data[0]["tables"].as_u64()), (Some(2), Some(1)));

    let segment = data_dir.join("vnode/2/wal/00000000000000000000.log");
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(&segment).expect("the segment");
    // In the middle of an early record's body, with intact records behind it.
    file.seek(std::io::SeekFrom::Start(420)).expect("seek");
    file.write_all(&[0xff; 4]).expect("write");
    drop(file);
    let damaged = wal("verify");
    assert_eq!(damaged.status.code(), Some(1));
    assert!(stdout(&damaged).contains("00000000000000000000.log"), "{}", stdout(&damaged));
    // The server starts all the same; what needs that vgroup says why it cannot.
    server.start_again();
    let error = server.sql_error("SELECT * FROM d.n");
    assert!(error.contains("error[0x6f01]") && error.contains("00000000000000000000.log"), "{error}");
    assert!(server.sql("SHOW d.VGROUPS").contains("damaged"));
    server.kill();
    // The report before, the report after and the log name the same records.
    let told =
        stdout(&tidemark().args(["wal", "repair", "--dry-run"]).arg(&data_dir).output().expect("it runs"));
    let range = told
        .split_once("would give up ")
        .and_then(|(_, rest)| rest.split_once(" bytes="))
        .map(|(range, _)| range);
    let range = range.unwrap_or_else(|| panic!("{told}")).to_owned();
    let done = wal("repair");
    let log = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(stdout(&done).contains(&format!("gives up {range} bytes=")), "{range}: {}", stdout(&done));
    let (first, last) = range.split_once(' ').expect("both ends");
    let plain = log.replace('"', "");
    assert!(plain.contains(first) && plain.contains(last), "{range}: {log}");
}

#[test]
fn import_leaves_out_what_the_database_does_not_keep() {
    let server = Server::start();
    server.sql("CREATE DATABASE short KEEP 3650; CREATE TABLE short.n (ts TIMESTAMP, v BIGINT)");
    let file = server.scratch().join("old.csv");
    std::fs::write(&file, "ts,v\n2026-01-01 00:00:00,1\n1950-01-01 00:00:00,2\n2026-01-01 00:00:01,3\n")
        .expect("a file");
    let path = file.to_str().expect("UTF-8");
    let stopped = server.run("import", &[path, "--into", "short.n"]);
    assert_eq!(stopped.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&stopped.stderr);
    assert!(stderr.contains("line=3") && stderr.contains("KEEP"), "{stderr}");
    assert!(stderr.contains("written=1"), "the lines before it stay written: {stderr}");
    let skipped = server.run("import", &[path, "--into", "short.n", "--on-error", "skip"]);
    assert!(skipped.status.success());
    assert!(String::from_utf8_lossy(&skipped.stderr).contains("rows=3 written=2 skipped=1"));
    assert!(server.sql("SELECT COUNT(*) FROM short.n").contains('2'));
}
