//! DuckDB and pyarrow read data files as they lie: names, types, NULLs, all files of a super table together.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Server;

/// A Python with pyarrow and duckdb: fetched once into the build's folder, from the registry that pip is set up for.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
    let home = target.join("parquet-readers");
    let python = home.join("bin/python");
    let works = || {
        Command::new(&python)
            .args(["-c", "import pyarrow, duckdb"])
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if works() {
        return Some(python);
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(&home).status().is_ok_and(|s| s.success())
        && Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "pyarrow", "duckdb"])
            .status()
            .is_ok_and(|s| s.success());
    if made && works() {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none(), "pyarrow and duckdb cannot be installed");
    eprintln!("SKIPPED: pyarrow and duckdb cannot be installed");
    None
}

/// What a script says, run over the files of the super table that has `tbname` among its columns.
const SCRIPT: &str = r#"
import glob, sys
import duckdb, pyarrow.parquet as pq
files = sorted(glob.glob(sys.argv[1] + "/*.parquet"))
first = pq.read_table(files[0])
print("names", ",".join(first.column_names))
print("types", ",".join(str(f.type) for f in first.schema))
print("rows", sum(pq.read_table(f).num_rows for f in files))
meta = pq.ParquetFile(files[0]).metadata
print("statistics", all(meta.row_group(0).column(i).is_stats_set for i in range(meta.num_columns)))
print("codec", {meta.row_group(0).column(i).compression for i in range(meta.num_columns)})
con = duckdb.connect()
rel = f"read_parquet({files!r})"
print("duck", con.execute(f"select tbname, count(*), sum(i), min(f), max(ts), count(s) from {rel} group by tbname order by tbname").fetchall())
print("text", con.execute(f"select s from {rel} where s is not null order by ts, tbname limit 2").fetchall())
print("pruned", con.execute(f"select count(*) from {rel} where ts >= timestamp '2023-11-15'").fetchall())
"#;

#[test]
fn duckdb_and_pyarrow_read_data_files() {
    let Some(python) = python() else { return };
    let mut server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 1 DURATION 1d; \
         CREATE STABLE d.s (ts TIMESTAMP, i INT, f FLOAT, u BIGINT UNSIGNED, b BOOL, s NCHAR(20), t TIMESTAMP) TAGS (g INT)",
    );
    for day in 0..2_i64 {
        for table in 0..3 {
            let rows: Vec<String> = (0..100)
                .map(|n| {
                    let ts = 1_700_000_000_000_i64 + day * 86_400_000 + n;
                    let text = if n % 2 == 0 { format!("'té{n}'") } else { "NULL".to_owned() };
                    format!("({ts}, {n}, {n}.5, 18446744073709551615, {}, {text}, {ts})", n % 2 == 0)
                })
                .collect();
            server.sql(&format!("INSERT INTO d.c{table} USING d.s TAGS ({table}) VALUES {}", rows.join(" ")));
        }
    }
    server.sql("FLUSH DATABASE d");
    server.terminate();
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(server.data_dir().join("vnode/2/data"))
        .output()
        .expect("python");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let day = |ts: &str| format!("datetime.datetime(2023, 11, {ts})");
    let duck: Vec<String> = (0..3)
        .map(|table| format!("('c{table}', 200, 9900, 0.5, {}, 100)", day("15, 22, 13, 20, 99000")))
        .collect();
    let expected = [
        "names tbname,ts,i,f,u,b,s,t".to_owned(),
        "types string,timestamp[ms],int32,float,uint64,bool,string,timestamp[ms]".to_owned(),
        "rows 600".to_owned(),
        "statistics True".to_owned(),
        "codec {'ZSTD'}".to_owned(),
        format!("duck [{}]", duck.join(", ")),
        "text [('té0',), ('té0',)]".to_owned(),
        "pruned [(300,)]".to_owned(),
    ];
    assert_eq!(lines, expected);
}
