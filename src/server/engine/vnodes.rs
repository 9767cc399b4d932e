//! The shards of this server: opened at start, made and removed as the metadata group says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use mnode::{OwnerChange, Shards, StableDdl, TopicDdl, TopicInfo};
use model::{Clock, Code, DatabaseInfo, Error, Origin, Result, TopicId, VgroupId};
use parking_lot::RwLock;
use vnode::{Vnode, VnodeOptions};
use wal::Disk;

use crate::server::data_dir::DataDir;

/// A shard, or why there is none.
#[derive(Clone, Debug)]
pub enum Slot {
    /// Serving.
    Online(Arc<Vnode>),
    /// Its files are damaged, or not readable just now: statements that need it get this error, the server lives on.
    Damaged(Error),
}

/// Every shard of this server, by vgroup.
#[derive(Debug)]
pub struct Vnodes {
    slots: RwLock<BTreeMap<VgroupId, Slot>>,
    data_dir: Arc<DataDir>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
}

impl Vnodes {
    /// None yet.
    pub fn new(data_dir: Arc<DataDir>, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        Self { slots: RwLock::default(), data_dir, disk, clock }
    }

    /// The shard of a vgroup.
    ///
    /// # Errors
    /// Why it does not serve.
    pub fn get(&self, vgroup: VgroupId) -> Result<Arc<Vnode>> {
        match self.slots.read().get(&vgroup) {
            Some(Slot::Online(vnode)) => Ok(Arc::clone(vnode)),
            Some(Slot::Damaged(error)) => Err(error.clone()),
            None => Err(Error::with(Code::InvalidVgroup, format!("vgroup={vgroup}"))),
        }
    }

    /// What there is for a vgroup, for SHOW VGROUPS.
    pub fn slot(&self, vgroup: VgroupId) -> Option<Slot> {
        self.slots.read().get(&vgroup).cloned()
    }

    /// Opens the shards of a database. One that is damaged takes its vgroup off line and is logged once.
    pub async fn open_database(&self, database: &Arc<DatabaseInfo>) {
        for &vgroup in &database.vgroups {
            let opened = match self.data_dir.check_vnode(vgroup) {
                Ok(()) => self.open(database, vgroup).await,
                Err(error) => Err(error),
            };
            let slot = match opened {
                Ok(vnode) => Slot::Online(vnode),
                Err(error) => {
                    tracing::error!(%vgroup, database = database.name, %error, "vgroup is offline");
                    Slot::Damaged(error)
                }
            };
            self.slots.write().insert(vgroup, slot);
        }
    }

    async fn open(&self, database: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<Arc<Vnode>> {
        let options =
            VnodeOptions { vgroup, database: Arc::clone(database), dir: self.data_dir.vnode(vgroup) };
        Vnode::open(options, Arc::clone(&self.disk), Arc::clone(&self.clock)).await
    }

    /// Tells the shards of a database that serve of its topics: one that was offline when a topic was made does not know it.
    /// One that cannot write just now is told at the next start.
    pub async fn catch_up(&self, database: &DatabaseInfo, topics: impl Iterator<Item = &Arc<TopicInfo>>) {
        for topic in topics {
            for &vgroup in &database.vgroups {
                let Ok(vnode) = self.get(vgroup) else { continue };
                let told = vnode.apply_topic(vnode::TopicDdl::Create(definition(topic))).await;
                if let Err(error) = told {
                    tracing::warn!(%vgroup, topic = topic.name, %error, "vgroup was not told of a topic");
                }
            }
        }
    }

    /// Refuses folders of vgroups that the metadata does not know: their rows would be out of reach, and a new database
    /// could be given their number. A DROP DATABASE that a crash cut short leaves none, its intent knows them.
    ///
    /// # Errors
    /// [`Code::Damaged`] naming the first such folder, [`Code::Io`].
    pub fn refuse_strangers(&self, known: impl Fn(VgroupId) -> bool) -> Result<()> {
        match self.data_dir.vnodes()?.into_iter().find(|vgroup| !known(*vgroup)) {
            None => Ok(()),
            Some(vgroup) => Err(Error::text(
                Code::Damaged,
                format!(
                    "the metadata knows no database that this vgroup's data belongs to: path={}",
                    self.data_dir.vnode(vgroup).display()
                ),
            )
            .hint(
                "the metadata folder `mnode` was lost, replaced or repaired: put a copy of it back; or, to go on without \
                 that data, move the vgroup's folder elsewhere",
            )),
        }
    }

    /// Flushes and closes every shard.
    pub async fn close(&self) -> Result<()> {
        let slots = std::mem::take(&mut *self.slots.write());
        let closing = slots.into_iter().filter_map(|(vgroup, slot)| match slot {
            Slot::Online(vnode) => Some(async move { (vgroup, vnode.close().await) }),
            Slot::Damaged(_) => None,
        });
        let mut first_error = Ok(());
        for (vgroup, closed) in join_all(closing).await {
            if let Err(error) = closed {
                tracing::error!(%vgroup, %error, "vgroup did not close cleanly");
                first_error = first_error.and(Err(error));
            }
        }
        first_error
    }
}

#[async_trait]
impl Shards for Vnodes {
    async fn ready(&self, vgroup: VgroupId) -> Result<()> {
        self.get(vgroup).map(|_| ())
    }

    async fn create_vnode(&self, database: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<()> {
        if self.get(vgroup).is_ok() {
            return Ok(());
        }
        let vnode = self.open(database, vgroup).await?;
        self.slots.write().insert(vgroup, Slot::Online(vnode));
        Ok(())
    }

    async fn alter_vnode(&self, database: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<()> {
        match self.slot(vgroup) {
            // It is opened with what the catalogue says then.
            Some(Slot::Damaged(_)) => {}
            _ => self.get(vgroup)?.alter(Arc::clone(database)),
        }
        Ok(())
    }

    async fn drop_vnode(&self, vgroup: VgroupId) -> Result<()> {
        let slot = self.slots.write().remove(&vgroup);
        if let Some(Slot::Online(vnode)) = slot {
            vnode.discard().await;
        }
        remove_folder(self.data_dir.vnode(vgroup)).await
    }

    async fn apply_stable(&self, vgroup: VgroupId, ddl: &StableDdl, origin: Origin) -> Result<()> {
        let ddl = match ddl {
            StableDdl::Create(stable) => vnode::StableDdl::Create((**stable).clone()),
            StableDdl::Alter { stable, change } => vnode::StableDdl::Alter {
                stable: (**stable).clone(),
                change: super::convert::schema_change(change, &stable.schema),
            },
            StableDdl::Drop { uid, .. } => match self.get(vgroup) {
                Ok(_) => vnode::StableDdl::Drop { uid: *uid },
                Err(_) => return Ok(()),
            },
        };
        self.get(vgroup)?.apply_stable(ddl, origin).await.map(|_| ())
    }

    async fn apply_topic(&self, vgroup: VgroupId, ddl: &TopicDdl) -> Result<()> {
        let ddl = match ddl {
            // Told when it is opened, see `catch_up`.
            TopicDdl::Create(_) if matches!(self.slot(vgroup), Some(Slot::Damaged(_))) => return Ok(()),
            TopicDdl::Create(topic) => vnode::TopicDdl::Create(definition(topic)),
            TopicDdl::Reload(topic) => vnode::TopicDdl::Reload(definition(topic)),
            TopicDdl::Drop(id) => match self.get(vgroup) {
                Ok(_) => vnode::TopicDdl::Drop(*id),
                Err(_) => return Ok(()),
            },
        };
        self.get(vgroup)?.apply_topic(ddl).await.map(|_| ())
    }

    async fn drop_group(&self, vgroup: VgroupId, topic: TopicId, group: &str) -> Result<()> {
        match self.get(vgroup) {
            Ok(vnode) => vnode.drop_group(topic, group).await.map(|_| ()),
            Err(_) => Ok(()),
        }
    }

    async fn set_owner(&self, vgroup: VgroupId, change: &OwnerChange) -> Result<()> {
        let change = vnode::OwnerChange {
            topic: change.topic,
            group: change.group.clone(),
            epoch: change.epoch,
            owner: change.owner,
        };
        self.get(vgroup)?.set_owner(change).await.map(|_| ())
    }
}

fn definition(topic: &TopicInfo) -> vnode::record::TopicDefinition {
    super::convert::topic_definition(topic)
}

async fn remove_folder(path: PathBuf) -> Result<()> {
    let shown = path.display().to_string();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path)).await;
    match removed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(Err(e)) => {
            Err(Error::text(Code::Io, format!("cannot remove a vgroup's folder: path={shown} cause={e}"))
                .caused_by(e))
        }
        Err(e) => Err(Error::internal(e)),
    }
}
