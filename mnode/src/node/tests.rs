//! The shell over a real log in a temporary directory and shards that are maps. Time is paused: nothing sleeps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use model::{
    Clock, Code, ConsumerId, DataType, DatabaseChange, DatabaseInfo, DatabaseOptions, Epoch, Error,
    ManualClock, Origin, Result, TopicId, VgroupId,
};
use parking_lot::Mutex;
use wal::{Disk, StdDisk};

use super::{DEFAULT_PASSWORD, DdlOutcome, Mnode, MnodeOptions, PasswordCost};
use crate::coordinator::{ConsumerAssignment, Heartbeat, PlaceReport};
use crate::shards::{OwnerChange, Shards, StableDdl, TopicDdl};
use crate::spec::{
    ColumnSpec, ConsumerParameters, ConsumerSpec, DatabaseSpec, DropGroupSpec, DropTopicSpec, ReloadSpec,
    StableChange, StableSpec, TopicKind, TopicMeta, TopicSpec,
};
use crate::state::{ConsumerState, Place, ReportedOffset};

/// What shards hold, and what they refuse.
#[derive(Debug, Default)]
struct Held {
    vnodes: BTreeSet<VgroupId>,
    stables: BTreeMap<(VgroupId, String), u32>,
    topics: BTreeMap<(VgroupId, TopicId), u32>,
    owners: BTreeMap<(VgroupId, TopicId, String), (Epoch, Option<ConsumerId>)>,
    calls: u32,
    broken: BTreeSet<VgroupId>,
    /// Answers `ready` all the same: it breaks in the middle.
    secretly: bool,
}

#[derive(Debug, Default)]
struct TestShards(Mutex<Held>);

impl TestShards {
    fn call<T>(&self, vgroup: VgroupId, change: impl FnOnce(&mut Held) -> T) -> Result<T> {
        let mut held = self.0.lock();
        held.calls += 1;
        if held.broken.contains(&vgroup) {
            return Err(Error::with(Code::InvalidVgroup, vgroup));
        }
        Ok(change(&mut held))
    }
}

#[async_trait]
impl Shards for TestShards {
    async fn ready(&self, vgroup: VgroupId) -> Result<()> {
        let held = self.0.lock();
        let down = held.broken.contains(&vgroup) && !held.secretly;
        if down { Err(Error::with(Code::InvalidVgroup, vgroup)) } else { Ok(()) }
    }

    async fn create_vnode(&self, _: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<()> {
        self.call(vgroup, |h| {
            h.vnodes.insert(vgroup);
        })
    }

    async fn alter_vnode(&self, _: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<()> {
        self.call(vgroup, |_| ())
    }

    async fn drop_vnode(&self, vgroup: VgroupId) -> Result<()> {
        let mut held = self.0.lock();
        held.vnodes.remove(&vgroup);
        Ok(())
    }

    async fn apply_stable(&self, vgroup: VgroupId, ddl: &StableDdl, _: Origin) -> Result<()> {
        self.call(vgroup, |h| match ddl {
            StableDdl::Create(stable) | StableDdl::Alter { stable, .. } => {
                h.stables.insert((vgroup, stable.name.clone()), stable.schema.version.0);
            }
            StableDdl::Drop { name, .. } => {
                h.stables.remove(&(vgroup, name.clone()));
            }
        })
    }

    async fn apply_topic(&self, vgroup: VgroupId, ddl: &TopicDdl) -> Result<()> {
        self.call(vgroup, |h| match ddl {
            TopicDdl::Create(topic) | TopicDdl::Reload(topic) => {
                h.topics.insert((vgroup, topic.id), topic.definition_version);
            }
            TopicDdl::Drop(id) => {
                h.topics.remove(&(vgroup, *id));
                h.owners.retain(|(v, t, _), _| (*v, *t) != (vgroup, *id));
            }
        })
    }

    async fn drop_group(&self, vgroup: VgroupId, topic: TopicId, group: &str) -> Result<()> {
        self.call(vgroup, |h| {
            h.owners.remove(&(vgroup, topic, group.to_owned()));
        })
    }

    async fn set_owner(&self, vgroup: VgroupId, change: &OwnerChange) -> Result<()> {
        self.call(vgroup, |h| {
            let fence = h.owners.entry((vgroup, change.topic, change.group.clone())).or_default();
            if change.epoch > fence.0 {
                *fence = (change.epoch, change.owner);
            }
        })
    }
}

struct Node {
    mnode: Mnode,
    shards: Arc<TestShards>,
}

async fn open(dir: &Path, shards: &Arc<TestShards>) -> Mnode {
    let mut options = MnodeOptions::new(dir);
    options.password_cost = PasswordCost { memory_kib: 8, passes: 1 };
    options.ticking = false;
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_700_000_000_000_000_000));
    Mnode::open(options, disk, clock, Arc::clone(shards) as Arc<dyn Shards>).await.unwrap()
}

impl Node {
    async fn start(dir: &Path) -> Self {
        let shards = Arc::new(TestShards::default());
        let mnode = open(dir, &shards).await;
        mnode.start().await;
        Self { mnode, shards }
    }

    /// Stops without farewell: no checkpoint, jobs cut off wherever they are. The shards live on.
    async fn crash_and_restart(self, dir: &Path) -> Self {
        let inner = &self.mnode.inner;
        inner.stop.send_replace(true);
        let driver = inner.driver.lock().take();
        if let Some(driver) = driver {
            driver.await.unwrap();
        }
        inner.group.close().await.unwrap();
        let mnode = open(dir, &self.shards).await;
        mnode.start().await;
        Self { mnode, shards: self.shards }
    }

    async fn database(&self, name: &str, vgroups: u32) -> Result<DdlOutcome> {
        let options = DatabaseOptions { vgroups, ..DatabaseOptions::default() };
        let spec = DatabaseSpec { name: name.into(), if_not_exists: false, options };
        self.mnode.create_database("root", spec).await
    }

    async fn stable(&self, name: &str) -> Result<DdlOutcome> {
        let spec = StableSpec {
            database: "d".into(),
            name: name.into(),
            if_not_exists: false,
            columns: vec![ColumnSpec::new("ts", DataType::Timestamp), ColumnSpec::new("v", DataType::Double)],
            tags: vec![ColumnSpec::new("g", DataType::Int)],
            comment: None,
        };
        self.mnode.create_stable("root", spec, Origin::Client).await
    }

    async fn topic(&self, name: &str, kind: TopicKind) -> Result<DdlOutcome> {
        let spec = TopicSpec {
            name: name.into(),
            if_not_exists: false,
            database: "d".into(),
            kind,
            meta: TopicMeta::Without,
            sql: format!("create topic {name}"),
            schema_json: Some("[]".into()),
            definition: String::new(),
        };
        self.mnode.create_topic("root", spec).await
    }

    async fn join(&self, id: u64) -> usize {
        self.subscribe(id, &["t"]).await.unwrap();
        let assignment = self.mnode.wait_ready(ConsumerId(id)).await.unwrap();
        assignment.topics[0].vgroups.len()
    }

    async fn subscribe(&self, id: u64, topics: &[&str]) -> Result<()> {
        let spec = ConsumerSpec {
            id: ConsumerId(id),
            group: "g".into(),
            client_id: "c".into(),
            user: "root".into(),
            host: "h".into(),
            end_point: String::new(),
            parameters: ConsumerParameters::default(),
        };
        self.mnode.subscribe(spec, topics.iter().map(|t| (*t).to_owned()).collect()).await
    }
}

const QUERY: TopicKind = TopicKind::Query { of_stable: false };

#[tokio::test]
async fn a_life_of_statements_survives_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    assert_eq!(node.database("d", 3).await.unwrap(), DdlOutcome::Done);
    node.stable("m").await.unwrap();
    let add = StableChange::AddColumn(ColumnSpec::new("w", DataType::Int));
    node.mnode.alter_stable("root", "d", "m", add, Origin::Client).await.unwrap();
    node.topic("t", TopicKind::Stable("m".into())).await.unwrap();
    let row = &node.mnode.show_topics("root")[0];
    assert_eq!((row.kind, row.meta), ("stable", "no"));
    assert!(row.schema.ends_with(r#"{"name":"w","type":"INT","length":4}]"#), "{}", row.schema);
    assert_eq!(
        node.mnode.drop_stable("root", "d", "m", false, Origin::Client).await.unwrap_err().code(),
        Code::TopicMustDrop
    );
    let keep = vec![DatabaseChange::WalRetentionPeriodS(60)];
    node.mnode.alter_database("root", "d", keep).await.unwrap();
    {
        let held = node.shards.0.lock();
        assert_eq!(held.vnodes.len(), 3);
        assert!((2..5).all(|v| held.stables[&(VgroupId(v), "m".into())] == 2));
        assert_eq!(held.topics.len(), 3);
    }
    // From the log alone, then from a snapshot and an empty tail.
    let before = (*node.mnode.catalog()).clone();
    let node = node.crash_and_restart(dir.path()).await;
    assert_eq!(*node.mnode.catalog(), before);
    node.mnode.close().await.unwrap();
    let mnode = open(dir.path(), &node.shards).await;
    assert_eq!(*mnode.catalog(), before);
    mnode.start().await;
    let node = Node { mnode, shards: node.shards };
    let drop = DropTopicSpec { name: "t".into(), if_exists: false, force: false };
    node.mnode.drop_topic("root", drop).await.unwrap();
    node.mnode.drop_database("root", "d", false).await.unwrap();
    assert!(node.shards.0.lock().vnodes.is_empty());
    node.database("d", 1).await.unwrap();
    let vgroups = node.mnode.catalog().database("d").unwrap().info.vgroups.clone();
    assert_eq!(vgroups, [VgroupId(5)], "numbers are not used again");
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn consumers_share_at_once_and_are_woken() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 4).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    assert_eq!(node.join(1).await, 4);
    let known = node.mnode.assignment(ConsumerId(1)).unwrap();
    // The first waits; the second's join wakes it without any tick.
    let waiting = {
        let mnode = node.mnode.clone();
        tokio::spawn(async move {
            let told = mnode.wait_assignment(ConsumerId(1), &known).await?;
            // What it is about to lose comes first.
            match told.topics[0].hand_over {
                Some(_) => mnode.wait_assignment(ConsumerId(1), &told).await,
                None => Ok(told),
            }
        })
    };
    assert_eq!(node.join(2).await, 2);
    let told = waiting.await.unwrap().unwrap();
    assert_eq!(told.topics[0].vgroups.len(), 2);
    for (vgroup, token) in &told.topics[0].vgroups {
        let fence = node.shards.0.lock().owners[&(*vgroup, told.topics[0].topic.id, "g".into())];
        assert_eq!(fence, (*token, Some(ConsumerId(1))));
    }
    // Whoever waits when its consumer is deleted learns that.
    let waiting = {
        let (mnode, known) = (node.mnode.clone(), node.mnode.assignment(ConsumerId(2)).unwrap());
        tokio::spawn(async move { mnode.wait_assignment(ConsumerId(2), &known).await })
    };
    tokio::task::yield_now().await;
    let force = DropGroupSpec { group: "g".into(), topic: "t".into(), if_exists: false, force: true };
    node.mnode.drop_group("root", force).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::ConsumerNotExist);
    node.mnode.unsubscribe(ConsumerId(2)).await.unwrap();
    node.mnode.close().await.unwrap();
    assert!(node.subscribe(3, &["t"]).await.is_err());
}

#[tokio::test]
async fn a_silent_consumer_is_removed_by_ticks() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 4).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.join(1).await;
    node.join(2).await;
    let topic = node.mnode.catalog().topic("t").unwrap().id;
    for _ in 0..6 {
        let (vgroup, epoch) = node.mnode.assignment(ConsumerId(1)).unwrap().topics[0].vgroups[0];
        let place = Place { offset: ReportedOffset::Log(5), end: 6 };
        let places = vec![PlaceReport { topic, vgroup, epoch, place, rows: 3 }];
        node.mnode.heartbeat(&Heartbeat { consumer: ConsumerId(1), polled: true, places }).unwrap();
        node.mnode.tick().await.unwrap();
        node.mnode.settled().await.unwrap();
    }
    assert_eq!(node.mnode.assignment(ConsumerId(1)).unwrap().topics[0].vgroups.len(), 4);
    let rows = node.mnode.show_subscriptions("root");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|r| r.consumer == Some(ConsumerId(1)) && r.host.as_deref() == Some("h")));
    assert!(rows.iter().any(|r| r.offset().as_deref() == Some("wal:5/6") && r.rows == 3));
    assert_eq!(node.mnode.show_consumers("root").len(), 2, "listed until the next tick");
    node.mnode.tick().await.unwrap();
    let consumers = node.mnode.show_consumers("root");
    assert_eq!(consumers.len(), 1);
    assert_eq!(consumers[0].state, ConsumerState::Ready);
    assert_eq!(consumers[0].parameters, "tbname:0,commit:1,interval:5000ms,reset:latest");
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn a_shard_out_of_reach_does_not_hold_the_others_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 4).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.shards.0.lock().broken.insert(VgroupId(3));
    assert_eq!(node.join(1).await, 3);
    node.shards.0.lock().broken.clear();
    for _ in 0..2 {
        node.mnode.tick().await.unwrap();
        node.mnode.settled().await.unwrap();
    }
    assert_eq!(node.mnode.assignment(ConsumerId(1)).unwrap().topics[0].vgroups.len(), 4);
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn a_statement_that_a_shard_cannot_take_is_refused_or_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.shards.0.lock().broken.insert(VgroupId(3));
    assert_eq!(node.stable("m").await.unwrap_err().code(), Code::InvalidVgroup, "refused before it began");
    // One that fails in the middle is taken back: nothing is left, and the name is free.
    node.shards.0.lock().broken = [VgroupId(4)].into();
    assert_eq!(node.database("e", 2).await.unwrap_err().code(), Code::InvalidVgroup);
    node.mnode.settled().await.unwrap();
    assert_eq!(node.shards.0.lock().vnodes.len(), 2);
    node.shards.0.lock().broken.clear();
    node.database("e", 2).await.unwrap();
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn a_statement_cut_off_by_a_crash_is_finished_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.stable("m").await.unwrap();
    {
        let mut held = node.shards.0.lock();
        held.broken.insert(VgroupId(3));
        held.secretly = true;
    }
    let error = node.mnode.drop_stable("root", "d", "m", false, Origin::Client).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidVgroup);
    assert!(error.help().contains("goes on"), "{error}");
    assert_eq!(node.shards.0.lock().stables.len(), 1, "one shard of two has it still");
    node.shards.0.lock().broken.clear();
    let node = node.crash_and_restart(dir.path()).await;
    node.mnode.settled().await.unwrap();
    assert!(node.shards.0.lock().stables.is_empty());
    assert!(node.mnode.catalog().stable("d", "m").is_err());
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn a_database_with_a_damaged_shard_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.shards.0.lock().broken.insert(VgroupId(2));
    let drop = DropTopicSpec { name: "t".into(), if_exists: false, force: false };
    assert!(node.mnode.drop_topic("root", drop).await.is_err(), "goes on in the background");
    node.mnode.drop_database("root", "d", false).await.unwrap();
    assert!(node.shards.0.lock().vnodes.is_empty());
    node.mnode.settled().await.unwrap();
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn statements_on_one_database_queue_up() {
    let dir = tempfile::tempdir().unwrap();
    let node = Arc::new(Node::start(dir.path()).await);
    node.database("d", 2).await.unwrap();
    let mut running = tokio::task::JoinSet::new();
    for n in 0..12 {
        let node = Arc::clone(&node);
        running.spawn(async move { node.stable(&format!("m{n}")).await });
    }
    while let Some(done) = running.join_next().await {
        assert_eq!(done.unwrap().unwrap(), DdlOutcome::Done);
    }
    assert_eq!(node.mnode.catalog().database("d").unwrap().stables.len(), 12);
    assert_eq!(node.stable("m3").await.unwrap_err().code(), Code::StableExists);
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn a_listening_consumer_is_told_before_it_loses_vgroups() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 4).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.join(1).await;
    let listening = node.mnode.listen(ConsumerId(1));
    let before = node.mnode.assignment(ConsumerId(1)).unwrap();
    node.subscribe(2, &["t"]).await.unwrap();
    // Woken without any tick, with everything still its own.
    let told = node.mnode.wait_assignment(ConsumerId(1), &before).await.unwrap();
    assert_eq!(told.topics[0].vgroups, before.topics[0].vgroups);
    let hand_over = told.topics[0].hand_over.clone().unwrap();
    assert_eq!(hand_over.revoked.len(), 2);
    let topic = told.topics[0].topic.id;
    let owner = |vgroup| node.shards.0.lock().owners[&(vgroup, topic, "g".into())].1;
    assert!(hand_over.revoked.iter().all(|vgroup| owner(*vgroup) == Some(ConsumerId(1))));
    node.mnode.release(ConsumerId(1), topic, hand_over.epoch).unwrap();
    node.mnode.wait_ready(ConsumerId(2)).await.unwrap();
    assert!(hand_over.revoked.iter().all(|vgroup| owner(*vgroup) == Some(ConsumerId(2))));
    let after = node.mnode.assignment(ConsumerId(1)).unwrap();
    assert_eq!((after.topics[0].vgroups.len(), &after.topics[0].hand_over), (2, &None));

    // One that goes away instead of answering holds nothing up.
    node.subscribe(3, &["t"]).await.unwrap();
    node.mnode.wait_assignment(ConsumerId(1), &after).await.unwrap();
    drop(listening);
    node.mnode.wait_ready(ConsumerId(3)).await.unwrap();
    let code = node.mnode.release(ConsumerId(9), topic, Epoch(1)).unwrap_err().code();
    assert_eq!(code, Code::ConsumerNotExist);
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn members_learn_which_vgroups_are_off_line() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 3).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.join(1).await;
    // Found so at a start: its owner could do nothing with it.
    let down = VgroupId(3);
    node.shards.0.lock().broken.insert(down);
    let node = node.crash_and_restart(dir.path()).await;
    node.mnode.settled().await.unwrap();
    assert_eq!(node.join(2).await, 1, "the two that serve are shared");
    for id in [1, 2] {
        let topic = node.mnode.assignment(ConsumerId(id)).unwrap().topics.remove(0);
        assert!(topic.vgroups.iter().all(|(vgroup, _)| *vgroup != down), "{id}: {topic:?}");
        assert_eq!(topic.offline.iter().map(|o| o.vgroup).collect::<Vec<_>>(), [down]);
        assert_eq!(topic.offline[0].error.code(), Code::InvalidVgroup);
    }
    node.shards.0.lock().broken.clear();
    let known = node.mnode.assignment(ConsumerId(1)).unwrap();
    for _ in 0..4 {
        for id in [1, 2] {
            let beat = Heartbeat { consumer: ConsumerId(id), polled: true, places: Vec::new() };
            node.mnode.heartbeat(&beat).unwrap();
        }
        node.mnode.tick().await.unwrap();
    }
    node.mnode.settled().await.unwrap();
    let told = node.mnode.wait_assignment(ConsumerId(1), &known).await.unwrap();
    assert_eq!(told.topics[0].offline, []);
    let owned = [1, 2].map(|id| node.mnode.assignment(ConsumerId(id)).unwrap().topics[0].vgroups.len());
    assert_eq!(owned.iter().sum::<usize>(), 3, "{owned:?}");
    node.mnode.close().await.unwrap();
}

/// Whether a call has ended by now.
fn look<T>(call: &mut Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A shard that goes, and one that comes back before any rebalance has taken it from its owner, is told at once: nothing
/// else would wake a member whose owners in force stay what they are.
#[tokio::test]
async fn members_are_woken_when_a_shard_goes_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.topic("u", QUERY).await.unwrap();
    node.join(1).await;
    let _listening = node.mnode.listen(ConsumerId(1));
    // A hand-over that waits for this member keeps its group from being rebalanced.
    let alone = node.mnode.assignment(ConsumerId(1)).unwrap();
    node.subscribe(3, &["t"]).await.unwrap();
    let known = node.mnode.wait_assignment(ConsumerId(1), &alone).await.unwrap();
    let kept = |assignment: &ConsumerAssignment| {
        let topic = &assignment.topics[0];
        let revoked = topic.hand_over.as_ref().map(|hand_over| hand_over.revoked.clone()).unwrap_or_default();
        let mut vgroups = topic.vgroups.iter().map(|(vgroup, _)| *vgroup);
        vgroups.find(|vgroup| !revoked.contains(vgroup))
    };
    let down = kept(&known).unwrap();
    {
        let mut held = node.shards.0.lock();
        held.broken.insert(down);
        held.secretly = true;
    }
    node.subscribe(2, &["u"]).await.unwrap();
    node.mnode.wait_ready(ConsumerId(2)).await.unwrap();
    node.shards.0.lock().secretly = false;

    let mut gone = Box::pin(node.mnode.wait_assignment(ConsumerId(1), &known));
    assert!(look(&mut gone).is_pending(), "its owner may go on reading it");
    node.mnode.tick().await.unwrap();
    let Poll::Ready(Ok(gone)) = look(&mut gone) else { panic!("not woken when the shard went") };
    assert_eq!((kept(&gone), gone.topics[0].offline[0].vgroup), (None, down));
    assert_eq!(gone.topics[0].hand_over, known.topics[0].hand_over, "still under way");

    node.shards.0.lock().broken.clear();
    let mut back = Box::pin(node.mnode.wait_assignment(ConsumerId(1), &gone));
    assert!(look(&mut back).is_pending());
    node.mnode.inner.notices.shard_answered(|coordinator| coordinator.probed(down, Ok(())));
    let Poll::Ready(Ok(back)) = look(&mut back) else { panic!("not woken when the shard came back") };
    assert_eq!((kept(&back), back.topics[0].offline.len()), (Some(down), 0));
    node.mnode.close().await.unwrap();
}

/// A shard that takes no new owner, its disk being full say, is off-line for the group that it should be told of alone.
#[tokio::test]
async fn a_vgroup_that_is_read_is_not_off_line() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.topic("u", QUERY).await.unwrap();
    node.join(1).await;
    let stuck = node.mnode.assignment(ConsumerId(1)).unwrap().topics[0].vgroups[0].0;
    {
        let mut held = node.shards.0.lock();
        held.broken.insert(stuck);
        held.secretly = true;
    }
    node.subscribe(2, &["u"]).await.unwrap();
    node.mnode.wait_ready(ConsumerId(2)).await.unwrap();
    let topic = |id| node.mnode.assignment(ConsumerId(id)).unwrap().topics.remove(0);
    assert_eq!(topic(2).offline.iter().map(|o| o.vgroup).collect::<Vec<_>>(), [stuck]);
    assert_eq!((topic(1).vgroups.len(), topic(1).offline), (2, Vec::new()));
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn reload_tells_live_consumers() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.join(1).await;
    let before = node.mnode.assignment(ConsumerId(1)).unwrap();
    let reload = ReloadSpec {
        name: "t".into(),
        if_exists: false,
        database: "d".into(),
        of_stable: false,
        sql: "new".into(),
        schema_json: None,
        definition: "x".into(),
    };
    node.mnode.reload_topic("root", reload).await.unwrap();
    let after = node.mnode.wait_assignment(ConsumerId(1), &before).await.unwrap();
    assert_eq!(after.topics[0].topic.definition_version, 2);
    assert_eq!(after.topics[0].vgroups, before.topics[0].vgroups, "tokens and owners stay");
    node.mnode.close().await.unwrap();
}

#[tokio::test]
async fn users_log_in_and_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    let mnode = &node.mnode;
    assert!(mnode.authenticate("root", DEFAULT_PASSWORD).await.unwrap().super_user);
    assert!(mnode.root_has_default_password().await.unwrap());
    let code = |r: Result<_>| r.map(|_: crate::state::User| ()).err().map(|e| e.code());
    assert_eq!(code(mnode.authenticate("root", "wrong").await), Some(Code::AuthFailure));
    assert_eq!(code(mnode.authenticate("nobody", "wrong").await), Some(Code::AuthFailure));
    mnode.create_user("root", "u", "Secret!1", true, false).await.unwrap();
    assert_eq!(
        mnode.create_user("root", "u", "Secret!1", true, false).await.unwrap_err().code(),
        Code::UserExists
    );
    assert_eq!(
        mnode.create_user("u", "w", "Secret!1", true, false).await.unwrap_err().code(),
        Code::NoPrivilege
    );
    assert_eq!(
        mnode.create_user("root", "w", "weakweak", true, false).await.unwrap_err().code(),
        Code::InvalidPasswordFormat
    );
    mnode.alter_user("u", "u", Some("Secret!2"), None, None, None).await.unwrap();
    mnode.alter_user("root", "root", Some("Secret!3"), None, None, None).await.unwrap();
    mnode.set("root", "TMQMAXTOPICNUM", "30").await.unwrap();
    assert_eq!(mnode.set("root", "tmqMaxTopicNum", "10001").await.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(mnode.set("u", "tmqMaxTopicNum", "3").await.unwrap_err().code(), Code::NoPrivilege);
    let node = node.crash_and_restart(dir.path()).await;
    let mnode = &node.mnode;
    mnode.authenticate("u", "Secret!2").await.unwrap();
    assert!(!mnode.root_has_default_password().await.unwrap());
    assert_eq!(mnode.show_settings().iter().find(|s| s.def.name == "tmqMaxTopicNum").unwrap().value, 30);
    mnode.alter_user("root", "u", None, Some(false), None, None).await.unwrap();
    assert_eq!(code(mnode.authenticate("u", "Secret!2").await), Some(Code::UserDisabled));
    mnode.drop_user("root", "u", false).await.unwrap();
    assert_eq!(mnode.drop_user("root", "u", true).await.unwrap(), DdlOutcome::Unchanged);
    mnode.close().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_shortens_the_replay_and_numbers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path()).await;
    node.database("d", 2).await.unwrap();
    node.topic("t", QUERY).await.unwrap();
    node.join(1).await;
    node.mnode.inner.checkpoint().await.unwrap();
    node.join(2).await;
    let before = node.mnode.inner.read(Clone::clone);
    let node = node.crash_and_restart(dir.path()).await;
    assert_eq!(node.mnode.inner.read(Clone::clone), before, "snapshot and tail");
    node.mnode.inner.checkpoint().await.unwrap();
    // A damaged snapshot is refused, with the file's cure.
    let file = dir.path().join("mnode.snapshot");
    node.mnode.close().await.unwrap();
    let disk = StdDisk;
    let mut bytes = wal::read_file(&disk, &file).unwrap().unwrap().to_vec();
    bytes[20] ^= 1;
    wal::write_file_atomic(&disk, &file, &bytes).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(0));
    let shards = Arc::new(TestShards::default());
    let refused = Mnode::open(MnodeOptions::new(dir.path()), Arc::new(disk), clock, shards).await;
    assert_eq!(refused.unwrap_err().code(), Code::Damaged);
}
