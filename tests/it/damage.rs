//! Damaged files: named, never read as if they were whole, and mended where the log allows it.

use std::path::{Path, PathBuf};

use crate::support::{Server, tidemark};

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
        assert!(rows.contains("v\n1"), "byte {at}: {rows}");
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
