//! A Tidemark server, as released: durability is the default, WAL_LEVEL 1.

use std::path::Path;
use std::process::Command;

use client::{ConnectOptions, Connection, Writer, WriterOptions};
use tempfile::TempDir;

use super::folder;
use crate::error::{Error, Result};
use crate::load::Schema;
use crate::process::Process;

/// Database of all workloads.
pub const DATABASE: &str = "peers";
/// Super table of all workloads.
pub const STABLE: &str = "meters";

/// A server that ends with this.
#[derive(Debug)]
pub struct Tidemark {
    /// Its process.
    pub process: Process,
    address: String,
    // Behind the process: removed when that is gone.
    _folder: TempDir,
}

impl Tidemark {
    /// Starts it in an empty folder, on a port that the system chooses.
    pub fn start(binary: &Path) -> Result<Self> {
        let folder = folder("tidemark")?;
        let log = std::fs::File::create(folder.path().join("log"));
        let log = log.map_err(Error::io("cannot make the server's log"))?;
        let mut command = Command::new(binary);
        command.args(["serve", "--grpc", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
        let (process, line) = Process::spawn_until_line(command.stderr(log))?;
        let address = line.strip_prefix("ready grpc=").and_then(|rest| rest.split(' ').next());
        let address = address.ok_or_else(|| Error::Odd(format!("no ready line of tidemark: {line}")))?;
        Ok(Self { address: address.to_owned(), process, _folder: folder })
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Result<Connection> {
        let options = ConnectOptions { host: self.address.clone(), ..ConnectOptions::default() };
        Ok(Connection::connect(options).await?)
    }

    /// Makes [`DATABASE`] with [`STABLE`].
    pub async fn create(&self, connection: &Connection, vgroups: u32, schema: Schema) -> Result<()> {
        run(connection, &format!("CREATE DATABASE {DATABASE} KEEP 36500 VGROUPS {vgroups}")).await?;
        let columns = schema.columns();
        run(connection, &format!("CREATE STABLE {DATABASE}.{STABLE} {columns} TAGS (place INT)")).await
    }

    /// A writer of [`STABLE`] with so many writes in flight, over a connection of its own.
    pub async fn writer(&self, in_flight: usize) -> Result<Writer> {
        let connection = self.connect().await?;
        Ok(connection.writer_with(DATABASE, STABLE, WriterOptions { in_flight }).await?)
    }
}

/// Runs a statement to its end.
pub async fn run(connection: &Connection, sql: &str) -> Result<()> {
    connection.sql(sql).await?.rows().await?;
    Ok(())
}

/// Kinds of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// `SELECT` of all of a meter's columns.
    Query,
    /// `STABLE`
    Stable,
    /// `DATABASE`
    Database,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Query, Self::Stable, Self::Database];

    /// What to call its kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Stable => "super-table",
            Self::Database => "database",
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "by_query",
            Self::Stable => "by_stable",
            Self::Database => "by_database",
        }
    }

    /// Makes it.
    pub async fn create(self, connection: &Connection) -> Result<()> {
        let source = match self {
            Self::Query => format!("SELECT ts, current, voltage, phase FROM {DATABASE}.{STABLE}"),
            Self::Stable => format!("STABLE {DATABASE}.{STABLE}"),
            Self::Database => format!("DATABASE {DATABASE}"),
        };
        create_topic(connection, self.name(), &source).await
    }
}

/// Makes a topic of whatever `source` says.
pub async fn create_topic(connection: &Connection, name: &str, source: &str) -> Result<()> {
    run(connection, &format!("CREATE TOPIC {name} AS {source}")).await
}
