//! The server: configuration, data directory, engine, sockets; started by `tidemark serve` and, embedded, by the demo,
//! the benchmarks and tests.

pub mod clock;
pub mod config;
pub mod data_dir;
pub mod engine;
pub mod held_clock;
pub mod rpc;
pub mod serve;
pub mod sessions;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{Code, Error, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::clock::SystemClock;
use self::data_dir::DataDir;
use self::engine::{Engine, QuerySettings};

/// How long calls that are under way at shutdown may take to end.
pub const DRAIN: Duration = Duration::from_secs(2);

/// A running server.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    grpc: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<Result<()>>,
}

impl Server {
    /// Opens the data directory and listens. Answers once statements are served.
    ///
    /// # Errors
    /// Of the data directory, the metadata group or the listener; [`Code::InsecureListen`] for an address beyond
    /// loopback while root has the default password, unless `insecure`.
    pub async fn start(
        data_dir: &Path,
        grpc: SocketAddr,
        insecure: bool,
        queries: &QuerySettings,
        clock: Arc<SystemClock>,
    ) -> Result<Self> {
        // An address that is taken is noticed before anything is made.
        let listener = TcpListener::bind(grpc).await.map_err(|e| {
            Error::text(Code::Io, format!("cannot listen: grpc={grpc} cause={e}"))
                .hint("stop what listens there, or choose another --grpc")
                .caused_by(e)
        })?;
        let is_open = !insecure && !is_loopback(grpc.ip());
        if is_open && DataDir::is_new(data_dir) {
            // Its root would have the default password: nothing is made to find that out.
            return Err(Error::with(Code::InsecureListen, grpc));
        }
        let data_dir = DataDir::open(data_dir)?;
        let engine = Engine::open(data_dir, clock, queries).await?;
        if is_open && engine.mnode().root_has_default_password().await? {
            engine.close().await?;
            return Err(Error::with(Code::InsecureListen, grpc));
        }
        let grpc = listener.local_addr().map_err(Error::internal)?;
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(rpc::serve(Arc::clone(&engine), listener, stopped));
        Ok(Self { engine, grpc, stop, serving })
    }

    /// What is behind the sockets.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Where it listens.
    #[must_use]
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Stops: no new calls, a moment for those under way, then flush, sync and close.
    ///
    /// # Errors
    /// What could not be closed cleanly; everything else is closed all the same.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.send_replace(true);
        if tokio::time::timeout(DRAIN, &mut self.serving).await.is_err() {
            // Streams that clients hold open do not end by themselves.
            self.serving.abort();
        }
        self.engine.close().await
    }

    /// Ends without a farewell, as a killed process does: nothing is flushed, synced or committed. For the demo, which
    /// shows that nothing is lost by it.
    pub fn abandon(self) {
        self.serving.abort();
        std::mem::forget(self.engine);
    }

    /// Ends when the listener fails by itself.
    ///
    /// # Errors
    /// Why it failed.
    pub async fn failed(&mut self) -> Result<()> {
        (&mut self.serving).await.map_err(Error::internal)?
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.is_loopback()
}
