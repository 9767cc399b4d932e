//! Damaged files: named, never read as if they were whole, and mended where the log allows it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use std::time::Duration;

use client::Code;

use crate::support::{Server, connect, consumer, query, tidemark};

/// A stopped server with a vgroup whose log is whole and whose first rows are in a file.
fn stopped() -> Server {
    let mut server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 1 WAL_RETENTION_PERIOD -1; CREATE TABLE d.n (ts TIMESTAMP, v DOUBLE, s VARCHAR(20))",
    );
    let rows: Vec<String> =
        (0..300).map(|n| format!("({}, {n}.5, 'row {n}')", 1_700_000_000_000_i64 + n)).collect();
    server.sql(&format!("INSERT INTO d.n VALUES {}; FLUSH DATABASE d", rows.join(" ")));
    server.sql("INSERT INTO d.n VALUES (1700000001000, 1, 'after the flush')");
    server.kill();
    server
}

fn in_vnode(server: &Server, name: &str) -> PathBuf {
    server.data_dir().join("vnode/2").join(name)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("the file");
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).expect("written back");
}

fn count(server: &Server) -> String {
    server.sql("SELECT COUNT(*) FROM d.n")
}

#[test]
fn a_data_file_that_changed_is_not_read() {
    let mut server = stopped();
    let file = std::fs::read_dir(in_vnode(&server, "data"))
        .expect("the folder of files")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "parquet"))
        .expect("a data file");
    let intact = std::fs::read(&file).expect("the file");
    let verify = |server: &Server| {
        let output = tidemark().arg("verify").arg(server.data_dir()).output().expect("the command runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let (status, text) = verify(&server);
    assert!(status == Some(0) && text.contains(".parquet rows=300 tables=1"), "{text}");
    // The footer, too: it is read when the server starts, which that does not stop.
    for at in [10, 200, 700, intact.len() - 20] {
        std::fs::write(&file, &intact).expect("restored");
        flip(&file, at);
        let (status, text) = verify(&server);
        assert!(status == Some(1) && text.contains("checksum"), "byte {at}: {text}");
        server.start_again();
        let error = server.sql_error("SELECT * FROM d.n");
        assert!(error.contains("error[0x6f01]") && error.contains(".parquet"), "byte {at}: {error}");
        // What is not in the file can be read and written.
        let rows = server.sql(
            "INSERT INTO d.n VALUES (1900000000000, 1, 'far'); SELECT v FROM d.n WHERE ts > 1800000000000; \
             DELETE FROM d.n WHERE ts > 1800000000000",
        );
        assert!(rows.contains("v\r\n1"), "byte {at}: {rows}");
        server.kill();
    }
    std::fs::write(&file, &intact).expect("restored");
    server.start_again();
    assert!(count(&server).contains("301"));
}

#[test]
fn a_lost_checkpoint_is_made_anew_from_the_log() {
    let mut server = stopped();
    let checkpoint = in_vnode(&server, "checkpoint.redb");
    let intact = std::fs::read(&checkpoint).expect("the checkpoint");
    for length in [0, 100, 16_384, 32_768, intact.len() / 2] {
        std::fs::write(&checkpoint, &intact[..length]).expect("cut");
        server.start_again();
        assert!(count(&server).contains("301"), "cut to {length}");
        server.kill();
        std::fs::write(&checkpoint, &intact).expect("restored");
    }
}

#[test]
fn a_vote_that_is_no_vote_names_its_file() {
    let mut server = stopped();
    let vote = in_vnode(&server, "vote");
    std::fs::write(&vote, b"").expect("emptied");
    server.start_again();
    let error = server.sql_error("SELECT * FROM d.n");
    assert!(error.contains("vnode/2/vote") && error.contains("remove the file"), "{error}");
    server.terminate();
    std::fs::remove_file(&vote).expect("removed");
    server.start_again();
    assert!(count(&server).contains("301"));
}

/// A killed server whose only vgroup has a log of many small segments and no checkpoint; the segments, in order.
fn with_segments() -> (Server, Vec<PathBuf>) {
    let mut server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 1 WAL_RETENTION_PERIOD -1 WAL_SEGMENT_SIZE 4; \
         CREATE TABLE d.n (ts TIMESTAMP, v DOUBLE, s VARCHAR(1000)); CREATE TOPIC t AS SELECT v FROM d.n",
    );
    let insert = |n: i64| {
        let text = format!("{n:03}").repeat(250);
        format!("INSERT INTO d.n VALUES ({}, {n}, '{text}')", 1_700_000_000_000_i64 + n)
    };
    server.sql(&(0..25).map(insert).collect::<Vec<_>>().join("; "));
    server.kill();
    let segments = segments(&server);
    assert!(segments.len() >= 4, "three sealed ones and an open one: {segments:?}");
    (server, segments)
}

fn segments(server: &Server) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(in_vnode(server, "wal")).expect("the log").flatten().map(|entry| entry.path());
    let mut segments: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    segments.sort();
    segments
}

/// Exit status and stdout of `tidemark wal verify`.
fn verify(server: &Server) -> (Option<i32>, String) {
    let output = tidemark().args(["wal", "verify"]).arg(in_vnode(server, "wal")).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Where the last whole record of the first `length` bytes of a segment ends.
fn record_border(segment: &Path, length: usize) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = std::fs::read(segment).expect("the segment");
    let copy = folder.path().join(segment.file_name().expect("a name"));
    std::fs::write(&copy, &bytes[..length]).expect("written");
    let output = tidemark().args(["wal", "verify"]).arg(&copy).output().expect("it runs");
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    let line = told.lines().find(|line| line.contains(&name(segment))).expect("its line");
    let border = line.split(" bytes=").nth(1).and_then(|rest| rest.split(' ').next());
    border.and_then(|border| border.parse().ok()).expect("where the records end")
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// What would stop a start, `verify` tells.
#[test]
fn verify_reads_the_small_files_too() {
    let (server, _) = with_segments();
    let verified = || {
        let output = tidemark().arg("verify").arg(server.data_dir()).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    assert_eq!(verified().0, Some(0), "{}", verified().1);
    let vote = in_vnode(&server, "vote");
    for file in [server.data_dir().join("FORMAT"), server.data_dir().join("mnode").join("vote"), vote] {
        let intact = std::fs::read(&file).expect("the file");
        let mut changed = intact.clone();
        changed[3] ^= 0x80;
        std::fs::write(&file, changed).expect("damaged");
        let (status, told) = verified();
        assert_eq!(status, Some(1), "{told}");
        assert!(told.contains(&*file.to_string_lossy()), "{told}");
        std::fs::write(&file, intact).expect("mended");
    }
}

/// C073: three sealed segments, the second is cut at a record's border, cut within one, or changed in a body. Each is
/// refused with its place; the third is neither applied over the hole nor thrown away.
#[test]
fn c073_a_hole_in_the_log_is_never_passed() {
    let (mut server, before) = with_segments();
    let second = &before[1];
    let intact = std::fs::read(second).expect("the segment");
    let border = record_border(second, intact.len() / 2);
    assert!(border > 100 && border < intact.len(), "border={border}");
    let mut changed = intact.clone();
    changed[border + 300] ^= 0x10;
    for (what, content) in [
        ("at a border", &intact[..border]),
        ("within a record", &intact[..border + 100]),
        ("a byte", &changed[..]),
    ] {
        std::fs::write(second, content).expect("damaged");
        let (status, told) = verify(&server);
        let line = told.lines().find(|line| line.contains(&name(second))).expect("its line");
        assert_eq!(status, Some(1), "{what}: {told}");
        assert!(line.contains("log is damaged") && line.contains("offset="), "{what}: {line}");

        server.start_again();
        let error = server.sql_error("SELECT COUNT(*) FROM d.n");
        let is_named =
            ["error[0x6f01]", &name(second), "offset=", "version="].iter().all(|part| error.contains(part));
        assert!(is_named, "{what}: {error}");
        assert!(server.sql_error("INSERT INTO d.n VALUES (NOW, 1, 'x')").contains(&name(second)), "{what}");
        let vgroups = server.sql("SHOW d.VGROUPS");
        assert!(vgroups.contains("damaged") && vgroups.contains(&name(second)), "{what}: {vgroups}");
        // The rest of the server serves.
        assert!(
            server.sql("CREATE DATABASE IF NOT EXISTS other VGROUPS 1; SHOW DATABASES").contains("other")
        );
        server.kill();
        assert_eq!(segments(&server), before, "{what}: no segment is gone, none is new");
        std::fs::write(second, &intact).expect("mended");
        assert_eq!(verify(&server).0, Some(0), "{what}: nothing else was touched");
    }
    server.start_again();
    assert!(server.sql("SELECT COUNT(*) FROM d.n").contains("25"), "with the file put back all is there");
}

/// C073 once the rows are in files: only consumers still need the old segment.
#[tokio::test(flavor = "multi_thread")]
async fn c073_damage_that_only_consumers_meet() {
    let (mut server, before) = with_segments();
    server.start_again();
    server.sql("FLUSH DATABASE d");
    server.kill();
    let second = &before[1];
    let border = record_border(second, std::fs::read(second).expect("the segment").len() / 2);
    flip(second, border + 300);
    server.start_again();
    let connection = connect(&server).await;
    let status = async || {
        let rows = query(&connection, "SHOW d.VGROUPS").await;
        let row = rows.iter().next().expect("a vgroup");
        (row.by_name::<String>("v1_status").unwrap(), row.by_name::<Option<String>>("note").unwrap())
    };
    assert_eq!(status().await, ("leader".into(), None), "nobody has read there");
    let early = consumer(&connection, "early", &[("auto.offset.reset", "earliest"), ("min.poll.rows", "1")]);
    early.subscribe(["t"]).await.expect("subscribe");
    let mut values = Vec::new();
    let error = loop {
        let message =
            early.poll(Duration::from_millis(200)).await.expect("no error: other vgroups may go on");
        match (message, early.offline().pop()) {
            (Some(message), _) => values.extend(message.rows().map(|row| row.get::<f64>(0).expect("v"))),
            (None, Some(offline)) => break offline.error,
            (None, None) => {}
        }
    };
    assert!(!values.is_empty() && values.len() < 25, "what is whole before the damage: {values:?}");
    assert_eq!(error.code(), Code::Damaged);
    let told = error.message();
    assert!(told.contains(&name(second)) && told.contains("offset=") && told.contains("version="), "{told}");
    assert!(told.contains("topic=t group=early vgroup=2"), "{told}");
    assert!(error.help().contains("--seek 2:") && error.help().contains("wal repair"), "{}", error.help());
    let (shown, note) = status().await;
    assert_eq!(shown, "damaged");
    assert!(note.is_some_and(|note| note.contains(&name(second))));

    // Rows are in files and in memory: writes, queries and consumers behind the damage go on.
    query(&connection, "INSERT INTO d.n VALUES (NOW, 100, 'new')").await;
    let rows = query(&connection, "SELECT COUNT(*) FROM d.n").await;
    assert_eq!(rows.iter().next().expect("a row").get::<i64>(0).unwrap(), 26);
    let vgroup = early.assignment("t").await.expect("assignment")[0];
    early.seek("t", vgroup.vgroup, vgroup.end - 1).expect("seek");
    let mut found = Vec::new();
    while !found.contains(&100.0) {
        match early.poll(Duration::from_secs(1)).await {
            Ok(Some(message)) => found.extend(message.rows().map(|row| row.get::<f64>(0).expect("v"))),
            Ok(None) => {
                query(&connection, "INSERT INTO d.n VALUES (NOW, 100, 'again')").await.iter().for_each(drop)
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(early.offline().is_empty(), "it goes on");
    early.close().await.expect("close");
}

/// C073 where only one of two vgroups is concerned: the other one's rows come, and the cure that is told is one.
#[test]
fn c073_damage_in_one_vgroup_starves_no_other() {
    let mut server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 2 WAL_RETENTION_PERIOD -1 WAL_SEGMENT_SIZE 4; \
         CREATE STABLE d.s (ts TIMESTAMP, v INT, s VARCHAR(1000)) TAGS (n INT); CREATE TOPIC t AS SELECT v FROM d.s",
    );
    let text = "x".repeat(700);
    let insert = |v: i64| {
        let child = v % 10;
        format!(
            "INSERT INTO d.c{child} USING d.s TAGS ({child}) VALUES ({}, {v}, '{text}')",
            1_700_000_000_000_i64 + v
        )
    };
    server.sql(&(0..60).map(insert).collect::<Vec<_>>().join("; "));
    server.sql("FLUSH DATABASE d");
    server.kill();
    let second = segments(&server).swap_remove(1);
    let border = record_border(&second, std::fs::read(&second).expect("the segment").len() / 2);
    flip(&second, border + 300);
    server.start_again();
    let run = |more: &[&str]| {
        let args = [&["t", "-g", "g", "--from", "earliest", "--timeout", "2s"], more].concat();
        let output = server.run("subscribe", &args);
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let row = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            (line["vgroup"].as_u64().expect("vgroup"), line["row"]["v"].as_i64().expect("v"))
        };
        let rows: BTreeSet<(u64, i64)> = stdout.lines().map(row).collect();
        assert_eq!(rows.len(), stdout.lines().count(), "none twice");
        (rows, String::from_utf8(output.stderr).expect("UTF-8"), output.status.code())
    };
    let (before, said, status) = run(&[]);
    let of = |rows: &BTreeSet<(u64, i64)>, vgroup| rows.iter().filter(|(v, _)| *v == vgroup).count();
    assert!(of(&before, 2) > 0 && of(&before, 3) > 0, "{before:?}");
    assert_eq!((said.lines().count(), status), (1, Some(1)), "told once: {said}");
    for part in [
        "vgroup 2 is off-line",
        "error[0x6f01]",
        &name(&second),
        "version=",
        "topic=t group=g vgroup=2",
        "wal repair",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The cure, as it is told.
    let seek = said.split("--seek ").nth(1).and_then(|rest| rest.split('`').next()).expect("where to go on");
    let (behind, said, status) = run(&["--seek", seek]);
    assert_eq!((said.as_str(), status), ("", Some(0)));
    assert!(behind.iter().all(|(vgroup, _)| *vgroup == 2) && before.is_disjoint(&behind), "{behind:?}");
    assert_eq!(before.len() + behind.len(), 59, "all but the one that cannot be read");
    let (rest, said, status) = run(&[]);
    assert_eq!((rest.len(), said.as_str(), status), (0, "", Some(0)), "the group goes on behind it");
}

/// What `tidemark serve` says of this data directory, which it must refuse.
fn refused(server: &Server) -> String {
    let mut serve = tidemark();
    serve.args(["serve", "--grpc", "127.0.0.1:0", "--data-dir"]).arg(server.data_dir());
    let output = serve.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "no ready line");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn damaged_metadata_stops_the_start_with_file_and_cure() {
    let mut server = Server::start();
    server.sql("CREATE DATABASE d VGROUPS 1; CREATE TABLE d.n (ts TIMESTAMP, v INT); INSERT INTO d.n VALUES (NOW, 7)");
    server.terminate();
    let snapshot = server.data_dir().join("mnode/mnode.snapshot");
    let intact = std::fs::read(&snapshot).expect("the snapshot");
    for (what, content) in [
        ("cut", &intact[..intact.len() / 2]),
        ("empty", &[][..]),
        ("another file", b"TMKMNODX and more text"),
    ] {
        std::fs::write(&snapshot, content).expect("damaged");
        let told = refused(&server);
        let is_told = told.contains("error[0x6f01]")
            && told.contains("mnode/mnode.snapshot")
            && told.contains("remove the file");
        assert!(is_told, "{what}: {told}");
    }
    // The cure.
    std::fs::remove_file(&snapshot).expect("removed");
    server.start_again();
    assert!(server.sql("SELECT v FROM d.n").contains('7'), "everything came back from the log");
    server.kill();

    // The log itself.
    let folder = server.data_dir().join("mnode/wal");
    let entries = std::fs::read_dir(&folder).expect("the log").flatten().map(|entry| entry.path());
    let first = entries.filter(|path| path.extension().is_some_and(|e| e == "log")).min().expect("a segment");
    let at = std::fs::read(&first).expect("the segment").len() / 3;
    flip(&first, at);
    let told = refused(&server);
    assert!(
        told.contains("error[0x6f01]")
            && told.contains(&name(&first))
            && told.contains("tidemark wal verify"),
        "{told}"
    );
}

/// Data that no metadata explains is never removed, and never adopted by a database of the same number.
#[test]
fn vgroups_without_metadata_are_left_alone() {
    let mut server = stopped();
    let (mnode, aside) = (server.data_dir().join("mnode"), server.data_dir().join("mnode.aside"));
    std::fs::rename(&mnode, &aside).expect("moved");
    let error = server.try_start_again().expect_err("the metadata is gone");
    assert!(error.contains("error[0x6f01]") && error.contains("mnode"), "{error}");
    assert!(!mnode.exists(), "nothing was made in its place");

    // Metadata of another server, which has no database.
    let mut other = Server::start();
    other.terminate();
    copy_folder(&other.data_dir().join("mnode"), &mnode);
    let error = server.try_start_again().expect_err("nobody knows the vgroup");
    assert!(error.contains("error[0x6f01]") && error.contains("vnode/2"), "{error}");
    assert!(in_vnode(&server, "wal").exists(), "its rows are still there");

    std::fs::remove_dir_all(&mnode).expect("removed");
    std::fs::rename(&aside, &mnode).expect("moved back");
    server.start_again();
    assert!(server.sql("SELECT COUNT(*) FROM d.n").contains("301"));
}

/// A vgroup whose folder was lost does not start again as an empty one.
#[test]
fn a_lost_vgroup_is_off_line() {
    let mut server = stopped();
    std::fs::remove_dir_all(server.data_dir().join("vnode/2")).expect("removed");
    server.start_again();
    let error = server.sql_error("SELECT COUNT(*) FROM d.n");
    assert!(error.contains("error[0x6f01]") && error.contains("vnode/2"), "{error}");
    let vgroups = server.sql("SHOW d.VGROUPS");
    assert!(vgroups.contains("damaged") && vgroups.contains("vnode/2"), "{vgroups}");
    server.sql("DROP DATABASE d; CREATE DATABASE d VGROUPS 1; CREATE TABLE d.n (ts TIMESTAMP, v INT)");
}

/// A statement with rows for a vgroup that is off-line writes nothing to the other, wherever they stand in it.
#[test]
fn a_statement_for_an_off_line_vgroup_writes_nothing() {
    let mut server = Server::start();
    server.sql("CREATE DATABASE d VGROUPS 2; CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)");
    let insert = |names: &[usize]| {
        let rows: Vec<_> = names.iter().map(|n| format!("('c{n}', now, {n}, {n})")).collect();
        format!("INSERT INTO d.s (tbname, ts, v, n) VALUES {}", rows.join(" "))
    };
    let forwards: Vec<usize> = (0..10).collect();
    let backwards: Vec<usize> = (0..10).rev().collect();
    for vgroup in ["vnode/2", "vnode/3"] {
        server.kill();
        let (folder, aside) = (server.data_dir().join(vgroup), server.scratch().join("aside"));
        std::fs::rename(&folder, &aside).expect("moved");
        server.start_again();
        for names in [&forwards, &backwards] {
            let error = server.sql_error(&insert(names));
            assert!(error.contains("error[0x6f01]") && error.contains(vgroup), "{error}");
        }
        server.kill();
        std::fs::rename(&aside, &folder).expect("moved back");
        server.start_again();
        let count = server.sql("SELECT COUNT(*) FROM d.s");
        assert!(count.trim_end().ends_with("\n0"), "{vgroup}: {count}");
    }
    server.sql(&insert(&forwards));
    assert!(server.sql("SELECT COUNT(*) FROM d.s").trim_end().ends_with("\n10"), "both serve again");
}

/// A topic over two vgroups, each with a row, of which the second is lost and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_told_of_an_off_line_vgroup_and_goes_on_with_the_others() {
    let mut server = Server::start();
    server.sql("CREATE DATABASE d VGROUPS 2; CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT); CREATE TOPIC t AS SELECT v FROM d.s");
    let rows: Vec<_> = (0..10).map(|n| format!("d.c{n} USING d.s TAGS ({n}) VALUES (now, {n})")).collect();
    server.sql(&format!("INSERT INTO {}", rows.join(" ")));
    // A group that had its vgroups before, and lives through it all.
    let connection = connect(&server).await;
    let old = consumer(&connection, "old", &[("auto.offset.reset", "earliest"), ("min.poll.rows", "1")]);
    old.subscribe(["t"]).await.expect("subscribe");
    let mut seen = BTreeSet::new();
    while seen.len() < 10 {
        seen.extend(poll_values(&old).await);
    }
    old.commit_all_sync().await.expect("commit");
    server.kill();
    let (folder, aside) = (server.data_dir().join("vnode/3"), server.scratch().join("aside"));
    std::fs::rename(&folder, &aside).expect("moved");
    server.kill_and_restart_on_the_same_port();

    let offline = |consumer: &client::Consumer| {
        consumer.offline().iter().map(|o| (o.vgroup, o.error.code())).collect::<Vec<_>>()
    };
    while offline(&old) != [(3, Code::Damaged)] {
        assert_eq!(poll_values(&old).await, [0; 0], "no error, and nothing twice");
    }
    let args = ["t", "-g", "new", "--from", "earliest", "--timeout", "1s"];
    let output = server.run("subscribe", &args);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let here = stdout.lines().count();
    assert!((1..10).contains(&here) && stdout.lines().all(|line| line.contains("\"vgroup\":2")), "{stdout}");
    assert_eq!(stderr.lines().count(), 1, "one note: {stderr}");
    assert!(stderr.starts_with("vgroup 3 is off-line") && stderr.contains("vnode/3"), "{stderr}");
    assert_eq!(output.status.code(), Some(1), "not all was there to be read");
    let said = server.run("sql", &["-s", "subscribe t -g other -o earliest -n 1"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("vgroup 3 is off-line"));

    server.kill();
    std::fs::rename(&aside, &folder).expect("moved back");
    server.kill_and_restart_on_the_same_port();
    let output = server.run("subscribe", &args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let back = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(back.lines().all(|line| line.contains("\"vgroup\":3")), "{back}");
    assert_eq!(here + back.lines().count(), 10, "each once");
    // Who was there all the time goes on where it had committed.
    let rows: Vec<_> = (0..10).map(|n| format!("d.c{n} VALUES (now, {})", 10 + n)).collect();
    server.sql(&format!("INSERT INTO {}", rows.join(" ")));
    while seen.len() < 20 {
        for v in poll_values(&old).await {
            assert!(seen.insert(v), "{v} twice");
        }
    }
    assert_eq!(offline(&old), []);
    old.close().await.expect("close");
}

/// Values of the next message, if one comes soon.
async fn poll_values(consumer: &client::Consumer) -> Vec<i32> {
    let message = consumer.poll(Duration::from_millis(200)).await.expect("poll");
    message.iter().flat_map(client::Message::rows).map(|row| row.get(0).expect("v")).collect()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}
