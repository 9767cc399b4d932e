//! CREATE TOPIC and RELOAD TOPIC: the statement is checked and compiled here, kept and handed to the shards by the metadata group.

use std::fmt::Write as _;

use mnode::{ReloadSpec, TopicKind, TopicSpec};
use model::{Code, Error, Result};
use query::ast::{CreateTopic, Query, ReloadTopic, Statement, TopicSource};
use query::plan::{OutputColumn, relations_named};
use query::source::RelationKind;
use query::topic::{ChildFilter, CompiledTopic};

use super::names::Purpose;
use super::{Engine, Outcome, StatementContext, convert};
use crate::server::sessions::Session;

impl Engine {
    pub(super) async fn create_topic(
        &self,
        session: &Session,
        cx: &StatementContext,
        topic: CreateTopic,
    ) -> Result<Outcome> {
        if let Ok(known) = self.mnode.topic_seen(&session.user, &topic.name) {
            // An existing name answers before anything else is looked at; not to those who may not know of it.
            return if topic.if_not_exists {
                let with = if is_defined_by(&known.sql, &topic) { "" } else { " with another definition" };
                Ok(Outcome::Unchanged(format!("topic {} exists{with}, nothing was changed", topic.name)))
            } else {
                Err(Error::with(Code::TopicExists, &topic.name))
            };
        }
        let (database, kind, schema_json, definition) = match &topic.source {
            TopicSource::Database(name) => {
                self.may_read(session, name)?;
                (name.clone(), TopicKind::Database, None, String::new())
            }
            TopicSource::Stable { name, filter } => {
                let relation =
                    self.relation(session, cx, name, Purpose::Topic).map_err(|error| match error.code() {
                        Code::TableNotExist => Error::with(Code::StableNotExist, &name.name)
                            .hint(match error.help() {
                                help if help == Code::TableNotExist.help() => Code::StableNotExist.help(),
                                help => help,
                            })
                            .or_at(error.place()),
                        Code::DatabaseNotExist => Error::with(
                            Code::DatabaseNotExist,
                            name.database.as_deref().or(cx.database.as_deref()).unwrap_or_default(),
                        )
                        .hint(error.help())
                        .or_at(error.place()),
                        _ => error,
                    })?;
                let compiled = ChildFilter::create(
                    filter.as_ref(),
                    &topic.sql,
                    &relation,
                    &self.plan_session(session, cx),
                )?;
                let definition = to_text(compiled.definition())?;
                (relation.database.name.clone(), TopicKind::Stable(name.name.clone()), None, definition)
            }
            TopicSource::Query(query) => {
                let of = self.compile_query(session, cx, query, &topic.sql)?;
                let kind = TopicKind::Query { of_stable: of.of_stable };
                (of.database, kind, Some(of.schema_json), of.definition)
            }
        };
        let spec = TopicSpec {
            name: topic.name,
            if_not_exists: topic.if_not_exists,
            database,
            kind,
            meta: convert::topic_meta(topic.meta),
            sql: topic.sql,
            schema_json,
            definition,
        };
        self.mnode.create_topic(&session.user, spec).await?;
        Ok(Outcome::Done)
    }

    /// RELOAD TOPIC: another query under the same name, for the groups and at the positions that there are.
    pub(super) async fn reload_topic(
        &self,
        session: &Session,
        cx: &StatementContext,
        topic: ReloadTopic,
    ) -> Result<Outcome> {
        let ReloadTopic { if_exists, name, query, sql } = topic;
        if let Err(error) = self.mnode.topic_seen(&session.user, &name) {
            return if if_exists { Ok(Outcome::Done) } else { Err(error) };
        }
        let of = self.compile_query(session, cx, &query, &sql)?;
        let spec = ReloadSpec {
            name,
            if_exists,
            database: of.database,
            of_stable: of.of_stable,
            sql,
            schema_json: Some(of.schema_json),
            definition: of.definition,
        };
        self.mnode.reload_topic(&session.user, spec).await?;
        Ok(Outcome::Done)
    }

    fn compile_query(
        &self,
        session: &Session,
        cx: &StatementContext,
        query: &Query,
        sql: &str,
    ) -> Result<QueryTopic> {
        let relations = self.resolve(session, cx, query, Purpose::Topic)?;
        let compiled = CompiledTopic::create(query, sql, &relations, &self.plan_session(session, cx))?;
        let named = relations_named(query);
        let name = named.first().ok_or_else(|| Error::of(Code::InvalidTopicQuery))?;
        let relation = relations.get(name)?;
        Ok(QueryTopic {
            database: relation.database.name.clone(),
            of_stable: matches!(relation.kind, RelationKind::Stable(_)),
            schema_json: schema_json(compiled.columns()),
            definition: to_text(compiled.definition())?,
        })
    }
}

/// A topic's query, compiled.
struct QueryTopic {
    database: String,
    of_stable: bool,
    schema_json: String,
    definition: String,
}

/// Whether the statement that defines a topic that exists says what `topic` does. Texts are compared by what they mean, not
/// letter by letter; a table with and without its database counts as another.
fn is_defined_by(sql: &str, topic: &CreateTopic) -> bool {
    match query::parser::parse(sql) {
        Ok(Statement::CreateTopic(known)) => (&known.source, known.meta) == (&topic.source, topic.meta),
        Ok(Statement::ReloadTopic(known)) => topic.source == TopicSource::Query(known.query),
        _ => false,
    }
}

fn to_text(definition: &query::topic::TopicDefinition) -> Result<String> {
    serde_json::to_string(definition).map_err(Error::internal)
}

/// `[{"name":"ts","type":"TIMESTAMP","length":8},...]`
fn schema_json(columns: &[OutputColumn]) -> String {
    let mut text = String::from("[");
    for (at, column) in columns.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let name = serde_json::Value::from(column.name.as_str());
        let (data_type, length) = (column.data_type.name(), column.data_type.length());
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{{\"name\":{name},\"type\":\"{data_type}\",\"length\":{length}}}");
    }
    text.push(']');
    text
}
