//! The async shell: one log, one state, one driver task.

mod checkpoint;
mod consumers;
mod ddl;
mod driver;
mod jobs;
mod machine;
mod notify;
mod password;
mod rights;
mod show;
mod stored;
#[cfg(test)]
mod tests;
mod users;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::{Clock, Code, Error, Result, VgroupId};
use parking_lot::{Mutex, RwLock};
use raft::{Fsync, Group, GroupOptions, Proposal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wal::{Disk, OpenReport};

use crate::shards::Shards;
use crate::state::settings::REBALANCE_INTERVAL_S;
use crate::state::{Catalog, Command, MnodeState};

pub use consumers::Listening;
pub use ddl::DdlOutcome;
pub use password::{DEFAULT_PASSWORD, PasswordCost};
pub use show::{ConsumerRow, SettingRow, SubscriptionRow, TopicRow};
pub use stored::stored_databases;

use machine::{Machine, Outcome};
use notify::Notices;
use password::Hasher;

/// The metadata group's number among the Raft groups; vgroups are 2 and up.
const GROUP: u32 = 1;

/// Settings of the metadata group.
#[derive(Clone, Debug)]
pub struct MnodeOptions {
    /// Where log and snapshot lie. Made if missing.
    pub dir: PathBuf,
    /// What an answer survives. Metadata is small and precious: fsync before every answer, unless a test says otherwise.
    pub fsync: Fsync,
    /// What hashing a password costs.
    pub password_cost: PasswordCost,
    /// Records in the log after which the state is written to the snapshot file and the log given up to there.
    pub checkpoint_records: u64,
    /// Whether the driver ticks by itself. Tests call [`Mnode::tick`].
    pub ticking: bool,
    /// Start of the log's generator of segment salts; another one for each opening.
    pub salt_seed: u64,
}

impl MnodeOptions {
    /// The defaults in `dir`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            fsync: Fsync::BeforeAck,
            password_cost: PasswordCost::default(),
            checkpoint_records: 4_096,
            ticking: true,
            salt_seed: 0,
        }
    }
}

/// The metadata group of this node. Cheap to clone; [`close`](Self::close) ends it for all clones.
#[derive(Clone)]
pub struct Mnode {
    inner: Arc<Inner>,
}

struct Inner {
    options: MnodeOptions,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    shards: Arc<dyn Shards>,
    group: Group<Machine>,
    machine: Arc<RwLock<Machine>>,
    notices: Arc<Notices>,
    hasher: Hasher,
    checkpointed: AtomicU64,
    /// Checks of consumers made so far.
    checks: AtomicU64,
    report: OpenReport,
    stop: watch::Sender<bool>,
    driver: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Mnode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mnode").field("dir", &self.inner.options.dir).finish_non_exhaustive()
    }
}

impl Mnode {
    /// Reads snapshot and log, and makes user `root` with [`DEFAULT_PASSWORD`] at the first start. Calls no shard yet:
    /// open the shards that [`catalog`](Self::catalog) lists, then [`start`](Self::start).
    ///
    /// # Errors
    /// I/O errors; 0x6F01 damaged, 0x6F02 written by a later release.
    pub async fn open(
        options: MnodeOptions,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        shards: Arc<dyn Shards>,
    ) -> Result<Self> {
        let snapshot = checkpoint::read(&options, &disk).await?;
        let (state, start) = snapshot.map_or_else(Default::default, |s| (s.state, Some(s.checkpoint)));
        let checkpointed = AtomicU64::new(state.applied().0);
        let notices = Arc::new(Notices::new());
        let machine = Arc::new(RwLock::new(Machine::new(state, Arc::clone(&notices))));
        let mut group_options = GroupOptions::new(GROUP, &options.dir);
        group_options.fsync = options.fsync;
        group_options.wal.salt_seed = options.salt_seed;
        let (group, report) =
            Group::open(group_options, Arc::clone(&disk), Arc::clone(&clock), Arc::clone(&machine), start)
                .await?;
        if let Some(error) = machine.write().failed.take() {
            return Err(error);
        }
        let hasher = Hasher::new(options.password_cost);
        let inner = Arc::new(Inner {
            options,
            disk,
            clock,
            shards,
            group,
            machine,
            notices,
            hasher,
            checkpointed,
            checks: AtomicU64::new(0),
            report,
            stop: watch::Sender::new(false),
            driver: Mutex::default(),
        });
        inner.bootstrap().await?;
        Ok(Self { inner })
    }

    /// Looks which shards serve, then begins to drive: finishes statements and hand-overs that a crash interrupted, then
    /// ticks. Once is enough.
    pub async fn start(&self) {
        self.inner.probe_all().await;
        let mut driver = self.inner.driver.lock();
        if driver.is_none() {
            *driver = Some(tokio::spawn(driver::run(Arc::clone(&self.inner), self.inner.stop.subscribe())));
        }
    }

    /// Stops the driver, writes the snapshot, closes the log. Statements that wait get 0x0131 or end as they do.
    ///
    /// # Errors
    /// I/O errors of snapshot or log. It is closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.inner.stop.send_replace(true);
        let driver = self.inner.driver.lock().take();
        if let Some(driver) = driver {
            driver.await.map_err(|e| Error::internal(format_args!("metadata driver: {e}")))?;
        }
        let checkpoint = self.inner.checkpoint().await;
        self.inner.group.close().await.and(checkpoint)
    }

    /// Databases, super tables and topics at this moment: a reference count, no copy.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(self.inner.machine.read().state.catalog())
    }

    /// Whether a database has this vgroup, or one that is being made or dropped.
    #[must_use]
    pub fn knows_vgroup(&self, vgroup: VgroupId) -> bool {
        let machine = self.inner.machine.read();
        machine.state.catalog().database_of(vgroup).is_some()
            || machine.state.intents().any(|i| machine.state.intent_vgroups(i).contains(&vgroup))
    }

    /// Wakes whenever catalogue, users or settings change, or a statement ends. For caches.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.notices.changes()
    }

    /// What opening the log found: torn tail, ignored files.
    #[must_use]
    pub fn open_report(&self) -> &OpenReport {
        &self.inner.report
    }

    /// One check of consumers, as the driver makes every `mqRebalanceInterval` seconds. For tests on virtual time.
    ///
    /// # Errors
    /// Of the log.
    pub async fn tick(&self) -> Result<()> {
        self.inner.tick().await
    }

    /// Time between two checks of consumers: `mqRebalanceInterval`.
    #[must_use]
    pub fn check_interval(&self) -> Duration {
        self.inner.check_interval()
    }

    /// Returns once no statement and no hand-over is under way and none is due. For tests.
    ///
    /// # Errors
    /// 0x0131 when closed.
    pub async fn settled(&self) -> Result<()> {
        self.inner.settled().await
    }
}

impl Inner {
    /// Looks at the state. Keep it short: applying waits for it.
    fn read<T>(&self, look: impl FnOnce(&MnodeState) -> T) -> T {
        look(&self.machine.read().state)
    }

    /// Checks a command, has the log agree on it, and says what came of it.
    async fn submit(&self, command: &Command) -> Result<Outcome> {
        self.read(|state| state.check(command))?;
        let version = self.group.propose(self.proposal(command)?).await?;
        let mut outcome = self.machine.write().take_outcome(version)?;
        outcome.refused.take().map_or(Ok(outcome), Err)
    }

    fn proposal(&self, command: &Command) -> Result<Proposal> {
        Ok(Proposal {
            kind: wal::Kind::Command,
            flags: 0,
            time_ns: self.clock.now_ns(),
            body: Bytes::from(command.encode()?),
            schemas: Vec::new(),
        })
    }

    async fn bootstrap(&self) -> Result<()> {
        if self.read(|state| state.users().next().is_some()) {
            return Ok(());
        }
        let root_hash = self.hasher.hash(DEFAULT_PASSWORD).await?;
        self.submit(&Command::Bootstrap { root_hash }).await.map(|_| ())
    }

    fn check_interval(&self) -> Duration {
        let interval_s = self.read(|state| state.setting(REBALANCE_INTERVAL_S));
        Duration::from_secs(u64::try_from(interval_s).unwrap_or(1).max(1))
    }

    fn is_stopping(&self) -> Result<()> {
        if *self.stop.borrow() { Err(Error::of(Code::ShuttingDown)) } else { Ok(()) }
    }

    fn records_since_checkpoint(&self) -> u64 {
        self.read(MnodeState::applied).0.saturating_sub(self.checkpointed.load(Ordering::Acquire))
    }
}
