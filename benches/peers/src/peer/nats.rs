//! NATS with JetStream on files, which acknowledges as Tidemark's WAL_LEVEL 1 does: after the write, no fsync.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::{self, StorageType, Stream};
use async_nats::jetstream::{Context, publish::PublishAck};
use tempfile::TempDir;

use super::folder;
use crate::error::{Error, Result};
use crate::figures::now;
use crate::process::{Process, START};

/// Stream and subject of all workloads.
pub const STREAM: &str = "peers";
/// What every error of its client is told as.
pub const NAME: &str = "NATS";

/// A server that ends with this.
#[derive(Debug)]
pub struct Nats {
    /// Its process.
    pub process: Process,
    url: String,
    // Behind the process: removed when that is gone.
    _folder: TempDir,
}

impl Nats {
    /// Starts it in an empty folder, on a port that it chooses; fetches the package at the first time.
    pub async fn start() -> Result<Self> {
        let folder = folder("nats")?;
        let mut command = Command::new(binary()?);
        command.args(["--addr", "127.0.0.1", "--port", "-1", "--jetstream", "--store_dir"]);
        command.arg(folder.path().join("data")).arg("--ports_file_dir").arg(folder.path());
        command.arg("--log").arg(folder.path().join("log")).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command)?;
        let ports = folder.path().join(format!("nats-server_{}.ports", process.id()));
        let url = url_of(&ports).await?;
        Ok(Self { process, url, _folder: folder })
    }

    /// A JetStream context over a connection of its own, with room for so many publishes that are not acknowledged.
    pub async fn connect(&self, in_flight: usize) -> Result<Context> {
        let client = async_nats::connect(self.url.as_str()).await.map_err(Error::peer(NAME))?;
        Ok(ContextBuilder::new().max_ack_inflight(in_flight).build(client))
    }

    /// Makes the stream anew.
    pub async fn create(&self, context: &Context) -> Result<Stream> {
        let config = stream::Config {
            name: STREAM.to_owned(),
            subjects: vec![STREAM.to_owned()],
            storage: StorageType::File,
            ..stream::Config::default()
        };
        // There is none before the first.
        let _ = context.delete_stream(STREAM).await;
        context.create_stream(config).await.map_err(Error::peer(NAME))
    }
}

/// A pull consumer, of all that the stream has or of what comes.
pub async fn pull_consumer(
    stream: &Stream,
    ack_policy: AckPolicy,
    deliver_policy: DeliverPolicy,
) -> Result<Consumer<Config>> {
    let config = Config { ack_policy, deliver_policy, max_ack_pending: 20_000, ..Config::default() };
    stream.create_consumer(config).await.map_err(Error::peer(NAME))
}

/// Publishes `count` copies with at most `in_flight` that are not acknowledged, and waits for the last.
pub async fn publish(context: &Context, payload: bytes::Bytes, count: u64, in_flight: usize) -> Result<()> {
    let mut waiting = std::collections::VecDeque::with_capacity(in_flight);
    for _ in 0..count {
        if waiting.len() >= in_flight {
            acknowledged(waiting.pop_front()).await?;
        }
        let sent = context.publish(STREAM, payload.clone()).await.map_err(Error::peer(NAME))?;
        waiting.push_back(sent.into_future());
    }
    while !waiting.is_empty() {
        acknowledged(waiting.pop_front()).await?;
    }
    Ok(())
}

async fn acknowledged<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    ack: Option<impl Future<Output = std::result::Result<PublishAck, E>>>,
) -> Result<()> {
    match ack {
        Some(ack) => ack.await.map(drop).map_err(Error::peer(NAME)),
        None => Ok(()),
    }
}

/// Debian's package, unpacked below the crate's target folder: nothing is installed, no root is needed.
fn binary() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("peers");
    let binary = folder.join("usr/sbin/nats-server");
    if binary.exists() {
        return Ok(binary);
    }
    std::fs::create_dir_all(&folder).map_err(Error::io("cannot make the folder of the peers"))?;
    let script = "apt-get download nats-server && dpkg -x nats-server_*.deb . && rm nats-server_*.deb";
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null());
    let done = command.status().map_err(Error::io("cannot run apt-get"))?;
    match done.success() && binary.exists() {
        true => Ok(binary),
        false => {
            Err(Error::Odd(format!("`{script}` failed: put nats-server at {} yourself", binary.display())))
        }
    }
}

/// The address from the file that the server writes when it listens.
async fn url_of(ports: &Path) -> Result<String> {
    let started = now();
    while started.elapsed() < START {
        let text = std::fs::read_to_string(ports).unwrap_or_default();
        if let Some(url) = text.split('"').find(|part| part.starts_with("nats://")) {
            return Ok(url.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Error::Odd(format!("nats-server not ready within {START:?}")))
}
