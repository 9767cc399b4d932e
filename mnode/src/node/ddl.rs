//! Statements: submitted, carried to every shard, answered when all have applied them.

use std::time::Duration;

use model::{Code, DatabaseChange, Error, Origin, Result, VgroupId};
use tokio::time::timeout;

use super::{Inner, Mnode};
use crate::spec::{
    DatabaseSpec, DropGroupSpec, DropTopicSpec, Grant, ReloadSpec, StableChange, StableSpec, TopicSpec,
};
use crate::state::Command;
use crate::state::settings::setting;

/// How long a statement waits for another one on the same database before it answers 0x03D3.
const CONFLICT_WAIT: Duration = Duration::from_secs(10);
/// How long a statement waits for its shards. It goes on after that.
const SHARDS_WAIT: Duration = Duration::from_secs(60);

/// How a statement ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdlOutcome {
    /// Carried out, on every shard that it concerns.
    Done,
    /// IF NOT EXISTS or IF EXISTS: nothing was changed, even if the definitions differ.
    Unchanged,
}

/// Statements. `by` is the session's user; each checks their rights: 0x0303 without, and 0x2644 or 0x0303 in place of "not
/// exist" where they may not know of the database or topic (`state/rights.rs`). All answer once every shard has
/// applied the change; a second statement on the same database waits for the first, for ten seconds, then answers
/// 0x03D3. Dropping the future does not take the statement back. After an error that may be retried the outcome is
/// unknown, and the statement may still be carried out.
impl Mnode {
    /// CREATE DATABASE: makes its shards. Its vgroup numbers are new for ever.
    ///
    /// # Errors
    /// 0x2617, 0x0209 name; 0x0381 exists; 0x2619 options; errors of the shards, after which it is taken back.
    pub async fn create_database(&self, by: &str, spec: DatabaseSpec) -> Result<DdlOutcome> {
        self.inner.statement(Command::CreateDatabase { by: by.into(), spec }).await
    }

    /// ALTER DATABASE. Also while a shard does not serve: it is given the options when it is opened.
    ///
    /// # Errors
    /// 0x0388 unknown; 0x038A no difference; 0x038C retention 0 with topics.
    pub async fn alter_database(
        &self,
        by: &str,
        name: &str,
        changes: Vec<DatabaseChange>,
    ) -> Result<DdlOutcome> {
        let command = Command::AlterDatabase { by: by.into(), name: name.into(), changes };
        self.inner.statement(command).await
    }

    /// DROP DATABASE.
    ///
    /// # Errors
    /// 0x0388 unknown; 0x03ED topics on it.
    pub async fn drop_database(&self, by: &str, name: &str, if_exists: bool) -> Result<DdlOutcome> {
        self.inner.statement(Command::DropDatabase { by: by.into(), name: name.into(), if_exists }).await
    }

    /// CREATE STABLE. Whether a child or normal table has the name only the shards know: ask them before.
    ///
    /// # Errors
    /// 0x0388; 0x0360 exists; 0x03C5; 0x2641, 0x263F, 0x2640, 0x263E, 0x263C, 0x2642, 0x2643, 0x263D definition;
    /// 0x020A, 0x2617 names; 0x264E comment.
    pub async fn create_stable(&self, by: &str, spec: StableSpec, origin: Origin) -> Result<DdlOutcome> {
        let database = spec.database.clone();
        let command = Command::CreateStable { by: by.into(), spec }.brought_by(origin);
        self.inner.statement_on(&database, command).await
    }

    /// ALTER STABLE.
    ///
    /// # Errors
    /// 0x0388, 0x0362; 0x2602, 0x260E, 0x036A unknown column or tag; 0x036B, 0x0369 name in use; 0x03C2, 0x2651, 0x2649,
    /// 0x264B; those of a definition.
    pub async fn alter_stable(
        &self,
        by: &str,
        database: &str,
        name: &str,
        change: StableChange,
        origin: Origin,
    ) -> Result<DdlOutcome> {
        let command =
            Command::AlterStable { by: by.into(), database: database.into(), name: name.into(), change };
        self.inner.statement_on(database, command.brought_by(origin)).await
    }

    /// DROP STABLE with all its children.
    ///
    /// # Errors
    /// 0x0388, 0x0362; 0x03ED a stable topic names it.
    pub async fn drop_stable(
        &self,
        by: &str,
        database: &str,
        name: &str,
        if_exists: bool,
        origin: Origin,
    ) -> Result<DdlOutcome> {
        let command =
            Command::DropStable { by: by.into(), database: database.into(), name: name.into(), if_exists };
        self.inner.statement_on(database, command.brought_by(origin)).await
    }

    /// CREATE TOPIC, its statement already checked and compiled. Also while a shard does not serve: it is told of its topics
    /// when it is opened, and a topic shows all that a shard's log holds, whenever the shard learned of it.
    ///
    /// # Errors
    /// In this order: 0x03E0 exists; 0x0388; 0x038C; 0x4004; 0x0303; 0x03E5; 0x0362.
    pub async fn create_topic(&self, by: &str, spec: TopicSpec) -> Result<DdlOutcome> {
        self.inner.statement(Command::CreateTopic { by: by.into(), spec }).await
    }

    /// RELOAD TOPIC: groups and offsets stay, live consumers are told to ask again.
    ///
    /// # Errors
    /// 0x03E1; 0x0303; 0x03E5 not a query topic, or of another database.
    pub async fn reload_topic(&self, by: &str, spec: ReloadSpec) -> Result<DdlOutcome> {
        let database = spec.database.clone();
        self.inner.statement_on(&database, Command::ReloadTopic { by: by.into(), spec }).await
    }

    /// DROP TOPIC with its groups and committed offsets.
    ///
    /// # Errors
    /// 0x03E1; 0x0303; 0x03EB subscribed; 0x03EF its last members are just leaving.
    pub async fn drop_topic(&self, by: &str, spec: DropTopicSpec) -> Result<DdlOutcome> {
        self.inner.statement(Command::DropTopic { by: by.into(), spec }).await
    }

    /// DROP CONSUMER GROUP with its committed offsets on the topic.
    ///
    /// # Errors
    /// 0x03E8, also where there is no such topic; 0x0303; 0x03EC in use.
    pub async fn drop_group(&self, by: &str, spec: DropGroupSpec) -> Result<DdlOutcome> {
        self.inner.statement(Command::DropGroup { by: by.into(), spec }).await
    }

    /// GRANT.
    ///
    /// # Errors
    /// 0x03E1 topic, 0x0388 database, 0x0351 user; 0x0303 for whoever is neither super user nor owner of it.
    pub async fn grant(&self, by: &str, user: &str, grant: Grant) -> Result<()> {
        self.inner.submit(&Command::Grant { by: by.into(), user: user.into(), grant }).await.map(|_| ())
    }

    /// REVOKE.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    pub async fn revoke(&self, by: &str, user: &str, grant: Grant) -> Result<()> {
        self.inner.submit(&Command::Revoke { by: by.into(), user: user.into(), grant }).await.map(|_| ())
    }

    /// ALTER ALL DNODES 'name' 'value', durable and in force at once.
    ///
    /// # Errors
    /// 0x6F09 no such setting, 0x0112 out of range, 0x0303.
    pub async fn set(&self, by: &str, name: &str, value: &str) -> Result<()> {
        let name = setting(name)?.name;
        let not_a_number =
            || Error::with(Code::OutOfRange, format_args!("{name} '{value}' is not a whole number"));
        let value = value.trim().parse().map_err(|_| not_a_number())?;
        self.inner.submit(&Command::Set { by: by.into(), name: name.into(), value }).await.map(|_| ())
    }

    /// The value of a setting in force; names in [`crate::settings`].
    #[must_use]
    pub fn setting(&self, name: &str) -> i64 {
        self.inner.read(|state| state.setting(name))
    }
}

impl Inner {
    fn vgroups_of(&self, database: &str) -> Vec<VgroupId> {
        let catalog = self.read(|state| state.catalog().clone());
        catalog.database(database).map(|d| d.info.vgroups.clone()).unwrap_or_default()
    }

    /// A statement that some shard cannot take now is refused before anything is begun; after its own checks, so that
    /// whoever may not give it learns nothing of the shards.
    async fn statement_on(&self, database: &str, command: Command) -> Result<DdlOutcome> {
        match self.read(|state| state.check(&command)) {
            // That is worth waiting for.
            Err(error) if error.code() == Code::Conflict => {}
            checked => checked?,
        }
        for vgroup in self.vgroups_of(database) {
            self.shards.ready(vgroup).await?;
        }
        self.statement(command).await
    }

    async fn statement(&self, command: Command) -> Result<DdlOutcome> {
        let mut changes = self.notices.changes();
        let submitted = timeout(CONFLICT_WAIT, async {
            loop {
                changes.mark_unchanged();
                match self.submit(&command).await {
                    Err(e) if e.code() == Code::Conflict => {
                        self.is_stopping()?;
                        changes.changed().await.map_err(|_| Error::of(Code::ShuttingDown))?;
                    }
                    outcome => return outcome,
                }
            }
        });
        let outcome = submitted.await.unwrap_or_else(|_| Err(Error::of(Code::Conflict)))?;
        match outcome.intent {
            Some(intent) => self.intent_done(intent).await.map(|()| DdlOutcome::Done),
            None if outcome.unchanged => Ok(DdlOutcome::Unchanged),
            None => Ok(DdlOutcome::Done),
        }
    }

    async fn intent_done(&self, id: u64) -> Result<()> {
        let mut changes = self.notices.changes();
        let mut stop = self.stop.subscribe();
        let done = timeout(SHARDS_WAIT, async {
            loop {
                changes.mark_unchanged();
                let undoing = match self.read(|state| state.intent(id).map(|i| i.undo)) {
                    // It may have been taken back.
                    None => return self.notices.take_error(id).map_or(Ok(()), Err),
                    Some(undoing) => undoing,
                };
                if !undoing && let Some(error) = self.notices.take_error(id) {
                    return Err(
                        error.hint("the statement goes on in the background until every shard has it")
                    );
                }
                self.is_stopping()?;
                tokio::select! {
                    changed = changes.changed() => changed.map_err(|_| Error::of(Code::ShuttingDown))?,
                    _ = stop.changed() => {}
                }
            }
        });
        let late = || Error::text(Code::Conflict, "the statement is still under way on some shards");
        done.await.unwrap_or_else(|_| Err(late()))
    }
}
