//! The two kinds of work on shards: a statement's intent, and the hand-over of a group's vgroups.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use model::{Code, Error, Origin, Result, VgroupId};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::Inner;
use crate::shards::{Shards, StableDdl, TopicDdl};
use crate::state::{Command, GroupKey, Intent, IntentKind};

/// Shards that one job asks at once.
const AT_ONCE: usize = 16;
/// A shard that has not answered by then counts as failed; the call is repeated later.
const CALL_MAX: Duration = Duration::from_secs(30);

impl Inner {
    /// Drives an intent through its shards and finishes it. A failing CREATE is taken back; the rest is tried again.
    pub(super) async fn drive_intent(self: &Arc<Self>, id: u64) -> Result<()> {
        let found = self.read(|state| {
            state.intent(id).map(|intent| (Arc::new(intent.clone()), state.intent_vgroups(intent)))
        });
        let Some((intent, vgroups)) = found else { return Ok(()) };
        let shards = &self.shards;
        let failures = on_each(vgroups, |vgroup| {
            let (shards, intent) = (Arc::clone(shards), Arc::clone(&intent));
            async move { carry_out(&*shards, &intent, vgroup).await }
        })
        .await;
        let Some((vgroup, error)) = failures.into_iter().next() else {
            return self.submit(&Command::FinishIntent { id }).await.map(|_| ());
        };
        warn!(intent = id, %vgroup, %error, undo = intent.undo, "shard did not take a statement");
        if intent.undo {
            return Err(error);
        }
        self.notices.statement_failed(id, error.clone());
        if intent.can_undo() {
            return self.submit(&Command::UndoIntent { id }).await.map(|_| ());
        }
        Err(error)
    }

    /// Tells the shards their new owners, then puts the assignment in force. Members learn nothing before: a consumer
    /// that lost a vgroup is fenced when the one that got it hears of it.
    pub(super) async fn drive_switch(self: &Arc<Self>, key: &GroupKey) -> Result<()> {
        let (epoch, changes) =
            self.read(|state| (state.group(key).map(|g| g.last_epoch()), state.owner_changes(key)));
        let vgroups = changes.iter().map(|(vgroup, _)| *vgroup).collect();
        let changes = Arc::new(changes.into_iter().collect::<std::collections::BTreeMap<_, _>>());
        let failures = on_each(vgroups, |vgroup| {
            let (inner, changes) = (Arc::clone(self), Arc::clone(&changes));
            async move {
                let Some(change) = changes.get(&vgroup) else { return Ok(()) };
                inner.shards.set_owner(vgroup, change).await?;
                inner.notices.coordinator.lock().switched(vgroup);
                Ok(())
            }
        })
        .await;
        if !failures.is_empty() {
            for (vgroup, error) in failures {
                let topic = self.read(|state| state.topic_name(key.topic));
                warn!(group = key.group, topic, %vgroup, %error, "shard did not take its owner");
                self.notices.shard_answered(|coordinator| coordinator.switch_failed(key, vgroup, error));
            }
            // The guard is released: the next plan replaces this switch by one without these shards.
            self.notices.look_at_membership();
            return Ok(());
        }
        let activation = {
            let machine = self.machine.read();
            let coordinator = self.notices.coordinator.lock();
            coordinator.activation(&machine.state, key)
        };
        match activation {
            Some(command @ Command::Activate { epoch: pending, .. }) if Some(pending) == epoch => {
                self.submit(&command).await?;
                let topic = self.read(|state| state.topic_name(key.topic));
                let moved: Vec<u32> = changes.keys().map(|vgroup| vgroup.0).collect();
                info!(group = key.group, topic, epoch = %pending, ?moved, "rebalanced");
                Ok(())
            }
            // Dropped meanwhile.
            _ => Ok(()),
        }
    }
}

/// One intent on one shard.
async fn carry_out(shards: &dyn Shards, intent: &Intent, vgroup: VgroupId) -> Result<()> {
    match (&intent.kind, intent.undo) {
        (IntentKind::CreateDatabase { database, .. }, false) => shards.create_vnode(database, vgroup).await,
        (IntentKind::CreateDatabase { .. }, true) | (IntentKind::DropDatabase { .. }, _) => {
            shards.drop_vnode(vgroup).await
        }
        (IntentKind::AlterDatabase { database }, _) => shards.alter_vnode(database, vgroup).await,
        (IntentKind::Stable(ddl), undo) => apply_stable(shards, vgroup, ddl, undo, Origin::Client).await,
        (IntentKind::ReplicatedStable(ddl), undo) => {
            apply_stable(shards, vgroup, ddl, undo, Origin::Replication).await
        }
        (IntentKind::Topic(TopicDdl::Create(topic)), true) => {
            shards.apply_topic(vgroup, &TopicDdl::Drop(topic.id)).await
        }
        (IntentKind::Topic(ddl), _) => shards.apply_topic(vgroup, ddl).await,
        (IntentKind::DropGroup { key }, _) => shards.drop_group(vgroup, key.topic, &key.group).await,
    }
}

async fn apply_stable(
    shards: &dyn Shards,
    vgroup: VgroupId,
    ddl: &StableDdl,
    undo: bool,
    origin: Origin,
) -> Result<()> {
    match ddl {
        StableDdl::Create(stable) if undo => {
            let undo = StableDdl::Drop { uid: stable.uid, name: stable.name.clone() };
            shards.apply_stable(vgroup, &undo, origin).await
        }
        ddl => shards.apply_stable(vgroup, ddl, origin).await,
    }
}

/// Runs a call for each shard, some at once, and gathers what failed. All are asked, so that one bad shard does not
/// leave the others waiting.
async fn on_each<F>(vgroups: Vec<VgroupId>, call: impl Fn(VgroupId) -> F) -> Vec<(VgroupId, Error)>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut rest = vgroups.into_iter();
    let mut running = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        while running.len() < AT_ONCE
            && let Some(vgroup) = rest.next()
        {
            let call = timeout(CALL_MAX, call(vgroup));
            running.spawn(async move {
                let late = || Error::text(Code::InvalidVgroup, "shard did not answer in time");
                (vgroup, call.await.unwrap_or_else(|_| Err(late())))
            });
        }
        match running.join_next().await {
            None => return failures,
            Some(Ok((_, Ok(())))) => {}
            Some(Ok((vgroup, Err(error)))) => failures.push((vgroup, error)),
            // A call that panicked: its shard is unknown, so nothing may rest on this pass.
            Some(Err(e)) => failures.push((VgroupId(0), Error::internal(format_args!("shard call: {e}")))),
        }
    }
}
