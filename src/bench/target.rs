//! The server that is measured.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{ConnectOptions, Connection};
use model::{Code, Error, Result};
use tempfile::TempDir;

use super::report::{float, now};
use crate::child::ServerProcess;
use crate::cli::BenchArgs;

/// Database and topic of all benchmarks, made anew by each. Nobody else's has this name.
pub(super) const DATABASE: &str = "tidemark_bench";
/// Bytes of a row's values: timestamp, two floats, an int.
pub(super) const ROW_BYTES: u64 = 8 + 4 + 4 + 4;
/// Round trips of the reference.
const PINGS: usize = 2_000;

/// A server, ours or somebody else's.
pub(super) struct Target {
    options: ConnectOptions,
    embedded: Option<(ServerProcess, TempDir)>,
}

impl Target {
    pub(super) async fn reach(args: &BenchArgs) -> Result<Self> {
        let mut options = args.connect.options();
        let embedded = if args.embedded {
            let dir = tempfile::Builder::new().prefix("tidemark-bench-").tempdir();
            let dir =
                dir.map_err(|e| Error::text(Code::Io, format!("cannot make a folder: {e}")).caused_by(e))?;
            let server =
                ServerProcess::start(&dir.path().join("data"), "127.0.0.1:0", &dir.path().join("log"))?;
            options.host.clone_from(&server.address);
            Some((server, dir))
        } else {
            None
        };
        Connection::connect(options.clone()).await?;
        Ok(Self { options, embedded })
    }

    pub(super) async fn connect(&self) -> Result<Connection> {
        Connection::connect(self.options.clone()).await
    }

    /// CPU seconds of our own server so far.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        self.embedded.as_ref().and_then(|(server, _)| server.process.cpu_seconds())
    }

    /// Bytes in the folders of our own server's log and of its data files.
    pub(super) fn disk_bytes(&self) -> Option<DiskBytes> {
        let (_, dir) = self.embedded.as_ref()?;
        let mut bytes = DiskBytes::default();
        count(&dir.path().join("data").join("vnode"), &mut bytes);
        Some(bytes)
    }

    /// Flushes what was written to data files; the bytes that those of our own server take then.
    pub(super) async fn flushed_bytes(&self, connection: &Connection) -> Result<Option<u64>> {
        connection.sql(&format!("FLUSH DATABASE {DATABASE}")).await?.rows().await?;
        Ok(self.disk_bytes().map(|bytes| bytes.files))
    }

    /// Kills our own server without farewell and starts it again; how long until it was ready.
    pub(super) fn crash_and_restart(&mut self) -> Result<Option<Duration>> {
        let Some((server, dir)) = &mut self.embedded else { return Ok(None) };
        server.process.kill()?;
        let started = now();
        let address = server.address.clone();
        *server = ServerProcess::start(&dir.path().join("data"), &address, &dir.path().join("log"))?;
        Ok(Some(started.elapsed()))
    }

    /// Median of bare gRPC round trips.
    pub(super) async fn ping_times(&self) -> Result<Vec<Duration>> {
        let connection = self.connect().await?;
        let mut times = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let started = now();
            connection.ping().await?;
            times.push(started.elapsed());
        }
        Ok(times)
    }
}

/// What a server's shards take on disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskBytes {
    /// Segments and their indexes.
    pub(super) log: u64,
    /// Data files: rows, and nothing else.
    pub(super) files: u64,
}

fn count(folder: &Path, bytes: &mut DiskBytes) {
    for path in entries(folder) {
        if path.is_dir() {
            count(&path, bytes);
            continue;
        }
        let length = path.metadata().map_or(0, |m| m.len());
        match path.extension().and_then(|e| e.to_str()) {
            Some("log" | "idx") => bytes.log += length,
            Some("parquet") => bytes.files += length,
            // The checkpoint store and its like do not grow with rows.
            _ => {}
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .map_or_else(|_| Vec::new(), |dir| dir.flatten().map(|entry| entry.path()).collect())
}

/// MB/s of writing `bytes` to one file without fsync: the machine's limit for a log, measured beside it.
pub(super) fn file_write_mb_s(bytes: u64) -> Result<f64> {
    use std::io::Write as _;
    let failed = |e| Error::text(Code::Io, format!("cannot write the reference file: {e}")).caused_by(e);
    let mut file = tempfile::tempfile().map_err(failed)?;
    let block = vec![0x5a_u8; 64 << 10];
    let blocks = bytes.clamp(64 << 20, 1 << 30) / (64 << 10);
    let started = now();
    for _ in 0..blocks {
        file.write_all(&block).map_err(failed)?;
    }
    Ok(float(blocks * (64 << 10)) / 1e6 / started.elapsed().as_secs_f64())
}

/// Makes the benchmarks' database anew.
pub(super) async fn fresh_database(connection: &Connection, options: &str) -> Result<()> {
    for sql in [
        format!("DROP TOPIC IF EXISTS {DATABASE}"),
        format!("DROP DATABASE IF EXISTS {DATABASE}"),
        format!("CREATE DATABASE {DATABASE} KEEP 36500 {options}"),
        format!(
            "CREATE STABLE {DATABASE}.meters (ts TIMESTAMP, current FLOAT, voltage INT, phase FLOAT) \
             TAGS (groupid INT, location VARCHAR(24))"
        ),
    ] {
        connection.sql(&sql).await?.rows().await?;
    }
    Ok(())
}
