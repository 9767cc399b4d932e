//! The server's core: joins catalogue, shards and query engine, and runs statements.

mod compact;
mod convert;
mod define;
mod delete;
mod lines;
mod names;
mod outcome;
mod privileges;
mod queries;
mod result;
mod show;
mod statement;
mod system;
mod topic;
mod vnodes;
mod write;

use std::sync::Arc;
use std::time::Duration;

use mnode::{Mnode, MnodeOptions};
use model::{Clock, Origin, Result, TopicId};
use query::engine::EngineSettings;
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use tonic::Request;
use wal::{Disk, StdDisk};

pub use outcome::{Outcome, ResultStream};
pub use result::{MESSAGE_BYTES, MESSAGES_AHEAD, ResultMemory};
pub use statement::StatementContext;
pub use vnodes::Vnodes;
pub use write::{StartedWrite, WriteTarget};

use compact::Compacts;
use queries::Queries;

use crate::server::clock::SystemClock;
use crate::server::data_dir::DataDir;
use crate::server::sessions::{Session, Sessions};

/// How queries are run.
#[derive(Clone, Copy, Debug)]
pub struct QuerySettings {
    /// What they may spend.
    pub engine: EngineSettings,
    /// A result of which the client takes nothing for so long ends.
    pub result_idle_timeout: Duration,
}

/// A running database without its sockets.
#[derive(Debug)]
pub struct Engine {
    mnode: Mnode,
    vnodes: Arc<Vnodes>,
    queries: Queries,
    result_idle_timeout: Duration,
    sessions: Sessions,
    compacts: Compacts,
    /// Shared by writes of lines, held alone while one makes what its lines lack: rows that were made ready for a table
    /// would not fit one that changes meanwhile.
    lines: tokio::sync::RwLock<()>,
    clock: Arc<SystemClock>,
    _data_dir: Arc<DataDir>,
}

impl Engine {
    /// Opens everything below the data directory: the metadata group, then every shard. Answers once all of it serves.
    ///
    /// # Errors
    /// Where the metadata group cannot be opened. A damaged shard is no reason not to start: its vgroup is offline.
    pub async fn open(
        data_dir: DataDir,
        clock: Arc<SystemClock>,
        settings: &QuerySettings,
    ) -> Result<Arc<Self>> {
        data_dir.check_mnode()?;
        let data_dir = Arc::new(data_dir);
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        let dyn_clock: Arc<dyn Clock> = Arc::<SystemClock>::clone(&clock);
        let vnodes = Arc::new(Vnodes::new(Arc::clone(&data_dir), Arc::clone(&disk), Arc::clone(&dyn_clock)));
        let shards: Arc<dyn mnode::Shards> = Arc::<Vnodes>::clone(&vnodes);
        let options = MnodeOptions { ticking: !clock.is_held(), ..MnodeOptions::new(data_dir.mnode()) };
        let mnode = Mnode::open(options, disk, dyn_clock, shards).await?;
        let catalog = mnode.catalog();
        for database in catalog.databases() {
            vnodes.open_database(&database.info).await;
        }
        vnodes.refuse_strangers(|vgroup| mnode.knows_vgroup(vgroup))?;
        for database in catalog.databases() {
            vnodes.catch_up(&database.info, catalog.topics_of(database.info.id)).await;
        }
        // From here on statements that a crash cut short are finished, and consumers are watched.
        mnode.start().await;
        let queries = Queries::new(&settings.engine)?;
        let (sessions, compacts) = (Sessions::default(), Compacts::default());
        let lines = tokio::sync::RwLock::default();
        Ok(Arc::new(Self {
            mnode,
            vnodes,
            queries,
            result_idle_timeout: settings.result_idle_timeout,
            sessions,
            compacts,
            lines,
            clock,
            _data_dir: data_dir,
        }))
    }

    /// Stops in order: no more decisions, then every shard flushed and synced.
    ///
    /// # Errors
    /// The first failure; everything else is closed all the same.
    pub async fn close(&self) -> Result<()> {
        let mnode = self.mnode.close().await;
        let vnodes = self.vnodes.close().await;
        mnode.and(vnodes)
    }

    /// The metadata group.
    pub fn mnode(&self) -> &Mnode {
        &self.mnode
    }

    /// The shards.
    pub fn vnodes(&self) -> &Vnodes {
        &self.vnodes
    }

    /// Whether the table that a topic reads is in any shard, as far as shards can be asked; also for topics that read all
    /// tables of some kind.
    pub fn has_table_of(&self, topic: TopicId) -> bool {
        let catalog = self.mnode.catalog();
        let mut vgroups = catalog.topic_vgroups(topic).iter();
        vgroups.any(|vgroup| self.vnodes.get(*vgroup).map_or(true, |vnode| vnode.has_table_of(topic)))
    }

    /// A result of which the client takes nothing for so long ends.
    pub fn result_idle_timeout(&self) -> Duration {
        self.result_idle_timeout
    }

    /// The server's clock.
    pub fn clock(&self) -> &Arc<SystemClock> {
        &self.clock
    }

    /// Checks a password and opens a session.
    ///
    /// # Errors
    /// [`Code::AuthFailure`], [`Code::UserDisabled`].
    pub async fn log_in(&self, user: &str, password: &str, origin: Origin) -> Result<String> {
        let user = self.mnode.authenticate(user, password).await?;
        Ok(self.sessions.open(&user.name, origin, &mut OsRng.unwrap_err()))
    }

    /// The session of a call.
    ///
    /// # Errors
    /// [`Code::AuthFailure`].
    pub fn session<T>(&self, request: &Request<T>) -> Result<Session> {
        self.sessions.of(request)
    }

    /// Names that a shell may complete, as far as the session may know them: databases, and the tables and columns of the current one.
    pub fn completions(&self, session: &Session, database: &str) -> Vec<String> {
        const NAMES_MAX: usize = 10_000;
        let seen = self.mnode.databases(&session.user);
        let mut names: Vec<String> = seen.iter().map(|(database, _)| database.info.name.clone()).collect();
        let current = seen.iter().find(|(found, access)| found.info.name == database && access.read);
        if let Some((found, _)) = current {
            for stable in found.stables.values() {
                names.push(stable.name.clone());
                names.extend(stable.schema.columns.iter().chain(&stable.schema.tags).map(|c| c.name.clone()));
            }
            let vnodes = found.info.vgroups.iter().filter_map(|&vgroup| self.shard(vgroup).ok());
            for vnode in vnodes {
                names.extend(vnode.all_tables().iter().take(NAMES_MAX).map(|table| table.name.clone()));
            }
        }
        names.sort_unstable();
        names.dedup();
        names.truncate(NAMES_MAX);
        names
    }
}
