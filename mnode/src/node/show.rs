//! What SHOW and the system tables read, as plain rows.

use model::{ConsumerId, Epoch, StableInfo, TopicId, Version, VgroupId};

use super::Mnode;
use crate::shards::TopicInfo;
use crate::spec::{ConsumerParameters, TopicKind, TopicMeta};
use crate::state::settings::{SETTINGS, SettingDef};
use crate::state::{Catalog, ConsumerState, MnodeState, Place, ReportedOffset};

/// `information_schema.ins_topics`; SHOW TOPICS shows `name` only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRow {
    /// `topic_name`
    pub name: String,
    /// `db_name`
    pub database: String,
    /// `create_time`, nanoseconds since the epoch.
    pub create_time_ns: i64,
    /// `sql`: of the latest RELOAD.
    pub sql: String,
    /// `schema`: JSON text; a stable topic's is its super table's columns now, a database topic's the text `NULL`.
    pub schema: String,
    /// `meta`: no, yes, only.
    pub meta: &'static str,
    /// `type`: column, stable, db.
    pub kind: &'static str,
}

/// SHOW CONSUMERS: one row a consumer and subscribed topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRow {
    /// `consumer_id`; shown as `0x` and hex.
    pub id: ConsumerId,
    /// `consumer_group`
    pub group: String,
    /// `client_id`
    pub client_id: String,
    /// `user`
    pub user: String,
    /// `fqdn`
    pub host: String,
    /// `status`
    pub state: ConsumerState,
    /// `topics`
    pub topic: String,
    /// `end_point`
    pub end_point: String,
    /// `up_time`, nanoseconds since the epoch.
    pub up_time_ns: i64,
    /// `subscribe_time`
    pub subscribe_time_ns: i64,
    /// `rebalance_time`; none before the first.
    pub rebalance_time_ns: Option<i64>,
    /// `parameters`, as shown.
    pub parameters: String,
    /// `poll_time`; none while no poll was seen by this leader.
    pub poll_time_ns: Option<i64>,
}

/// SHOW SUBSCRIPTIONS: one row a topic, group and vgroup, from the group's first rebalance on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// `topic_name`
    pub topic: String,
    /// Its id, by which the shard knows committed offset, lag and skipped versions.
    pub topic_id: TopicId,
    /// `consumer_group`
    pub group: String,
    /// `vgroup_id`
    pub vgroup: VgroupId,
    /// `consumer_id`; none when unassigned.
    pub consumer: Option<ConsumerId>,
    /// `user`; none when unassigned.
    pub user: Option<String>,
    /// `fqdn`; none when unassigned.
    pub host: Option<String>,
    /// Position and end, one consistent pair; none before the first heartbeat.
    pub place: Option<Place>,
    /// `rows`: delivered to the group by all owners together.
    pub rows: u64,
    /// The owner's token.
    pub epoch: Epoch,
}

impl SubscriptionRow {
    /// Next version to read, as the owner last reported; none while nobody owns the vgroup: the next owner starts at the
    /// committed offset.
    #[must_use]
    pub fn position(&self) -> Option<Version> {
        match self.place?.offset {
            ReportedOffset::Log(position) if self.consumer.is_some() => Some(Version(position)),
            ReportedOffset::Log(_) | ReportedOffset::Policy(_) => None,
        }
    }

    /// `offset`: `wal:105/106`, `earliest/0`.
    #[must_use]
    pub fn offset(&self) -> Option<String> {
        self.place.map(|place| format!("{}/{}", place.offset, place.end))
    }
}

/// SHOW VARIABLES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// Name, range, default, one line of help.
    pub def: SettingDef,
    /// In force.
    pub value: i64,
}

/// SHOW.
impl Mnode {
    /// Topics that `by` may see: all for super users, else those that they may subscribe to or that are theirs.
    #[must_use]
    pub fn show_topics(&self, by: &str) -> Vec<TopicRow> {
        self.inner.read(|state| {
            let seen = state.catalog().topics().filter(|t| state.sees_topic(by, t));
            seen.map(|t| topic_row(state.catalog(), t)).collect()
        })
    }

    /// Consumers of topics that `by` may see, and their own; those without topics are hidden.
    #[must_use]
    pub fn show_consumers(&self, by: &str) -> Vec<ConsumerRow> {
        let machine = self.inner.machine.read();
        let coordinator = self.inner.notices.coordinator.lock();
        let mut rows = Vec::new();
        for consumer in machine.state.consumers() {
            let mut topics: Vec<_> = consumer
                .shown
                .iter()
                .filter_map(|id| machine.state.catalog().topic_by_id(*id))
                .filter(|topic| consumer.user == by || machine.state.sees_topic(by, topic))
                .map(|t| t.name.clone())
                .collect();
            topics.sort_unstable();
            rows.extend(topics.into_iter().map(|topic| ConsumerRow {
                id: consumer.id,
                group: consumer.group.clone(),
                client_id: consumer.client_id.clone(),
                user: consumer.user.clone(),
                host: consumer.host.clone(),
                state: consumer.state(),
                topic,
                end_point: consumer.end_point.clone(),
                up_time_ns: consumer.up_time_ns,
                subscribe_time_ns: consumer.subscribe_time_ns,
                rebalance_time_ns: consumer.rebalance_time_ns,
                parameters: shown(&consumer.parameters),
                poll_time_ns: coordinator.poll_time_ns(consumer.id),
            }));
        }
        rows
    }

    /// Subscriptions of topics that `by` may see.
    #[must_use]
    pub fn show_subscriptions(&self, by: &str) -> Vec<SubscriptionRow> {
        let machine = self.inner.machine.read();
        let coordinator = self.inner.notices.coordinator.lock();
        let state: &MnodeState = &machine.state;
        let mut rows = Vec::new();
        for (key, group) in state.groups() {
            let Some(topic) = state.catalog().topic_by_id(key.topic) else { continue };
            if !state.sees_topic(by, topic) {
                continue;
            }
            for (vgroup, owner) in &group.owners {
                let consumer = owner.consumer.and_then(|id| state.consumer_or_expired(id));
                let progress = coordinator.progress(group, key, *vgroup);
                rows.push(SubscriptionRow {
                    topic: topic.name.clone(),
                    topic_id: topic.id,
                    group: key.group.clone(),
                    vgroup: *vgroup,
                    consumer: owner.consumer,
                    user: consumer.map(|c| c.user.clone()),
                    host: consumer.map(|c| c.host.clone()),
                    place: progress.place,
                    rows: progress.rows,
                    epoch: owner.epoch,
                });
            }
        }
        rows
    }

    /// Settings, by name.
    #[must_use]
    pub fn show_settings(&self) -> Vec<SettingRow> {
        self.inner.read(|state| {
            SETTINGS.iter().map(|def| SettingRow { def: *def, value: state.setting(def.name) }).collect()
        })
    }
}

fn shown(p: &ConsumerParameters) -> String {
    format!(
        "tbname:{},commit:{},interval:{}ms,reset:{}",
        u8::from(p.with_table_name),
        u8::from(p.auto_commit),
        p.auto_commit_interval_ms,
        p.offset_reset.as_str()
    )
}

fn topic_row(catalog: &Catalog, topic: &TopicInfo) -> TopicRow {
    let null = || "NULL".to_owned();
    let (kind, schema) = match &topic.kind {
        TopicKind::Query { .. } => ("column", topic.schema_json.clone().unwrap_or_else(null)),
        TopicKind::Stable(_) => {
            let database = catalog.database_by_id(topic.database);
            let stable = topic.stable.and_then(|uid| database?.stable_by_uid(uid));
            ("stable", stable.map_or_else(null, |s| columns_json(s)))
        }
        TopicKind::Database => ("db", null()),
    };
    TopicRow {
        name: topic.name.clone(),
        database: topic.database_name.clone(),
        create_time_ns: topic.create_time_ns,
        sql: topic.sql.clone(),
        schema,
        meta: match topic.meta {
            TopicMeta::Without => "no",
            TopicMeta::With => "yes",
            TopicMeta::Only => "only",
        },
        kind,
    }
}

/// `[{"name":"ts","type":"TIMESTAMP","length":8},...]`
fn columns_json(stable: &StableInfo) -> String {
    let column = |c: &model::ColumnDef| {
        let name = serde_json::Value::from(c.name.as_str());
        format!(r#"{{"name":{name},"type":"{}","length":{}}}"#, c.data_type.name(), c.data_type.length())
    };
    let columns: Vec<_> = stable.schema.columns.iter().map(column).collect();
    format!("[{}]", columns.join(","))
}
