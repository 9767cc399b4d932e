//! One statement from text to answer.

use mnode::settings;
use model::{Clock as _, Precision, Result, Zone};
use query::ast::{Query, Statement};
use query::parser::{self, ParseOptions};

use super::names::Purpose;
use super::{Engine, Outcome};
use crate::server::sessions::Session;

/// What surrounds a statement: one `now` for all of it.
#[derive(Clone, Debug)]
pub struct StatementContext {
    /// Current database.
    pub database: Option<String>,
    /// Session zone.
    pub zone: Zone,
    /// The statement's start.
    pub now_ns: i64,
}

impl Engine {
    /// A context that starts now.
    pub fn context(&self, database: Option<String>, zone: Zone) -> StatementContext {
        StatementContext { database, zone, now_ns: self.clock.now_ns() }
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// Whatever is wrong with it. Nothing of a refused statement is done.
    pub async fn execute(&self, session: &Session, cx: &StatementContext, sql: &str) -> Result<Outcome> {
        if parser::is_insert(sql) {
            return self.insert(session, cx, sql).await;
        }
        let statement = parser::parse_with(sql, &ParseOptions { sql_bytes_max: self.sql_bytes_max() })?;
        // Reading a long text takes its time: who has gone meanwhile is noticed here.
        tokio::task::yield_now().await;
        match statement {
            Statement::Query(query) => self.query(session, cx, *query).await,
            Statement::Explain { analyze, query } => self.explain(session, cx, analyze, *query).await,
            Statement::Show(show) => self.show(session, cx, show).await,
            Statement::Describe(name) => self.describe(session, cx, &name),
            Statement::Delete { table, filter } => self.delete(session, cx, &table, filter.as_ref()).await,
            Statement::Compact(compact) => self.compact(session, cx, &compact),
            Statement::CreateTopic(topic) => self.create_topic(session, cx, topic).await,
            Statement::ReloadTopic(topic) => self.reload_topic(session, cx, topic).await,
            other => self.define(session, cx, other).await,
        }
    }

    /// Bytes of a statement at most, as the setting says just now.
    pub(super) fn sql_bytes_max(&self) -> usize {
        usize::try_from(self.mnode.setting(settings::SQL_BYTES_MAX)).unwrap_or(usize::MAX)
    }

    pub(super) async fn query(
        &self,
        session: &Session,
        cx: &StatementContext,
        query: Query,
    ) -> Result<Outcome> {
        let relations = self.resolve(session, cx, &query, Purpose::Read)?;
        let session = self.plan_session(session, cx);
        let stream = self.queries.run(move || query::plan::plan(&query, &relations, &session)).await?;
        Ok(Outcome::Rows(stream))
    }

    async fn explain(
        &self,
        session: &Session,
        cx: &StatementContext,
        analyze: bool,
        query: Query,
    ) -> Result<Outcome> {
        let relations = self.resolve(session, cx, &query, Purpose::Read)?;
        let session = self.plan_session(session, cx);
        let lines =
            self.queries.explain(analyze, move || query::plan::plan(&query, &relations, &session)).await?;
        super::show::text_rows("QUERY_PLAN", lines)
    }

    /// What the planner knows of the session.
    pub(super) fn plan_session(&self, session: &Session, cx: &StatementContext) -> query::plan::Session {
        let catalog = self.mnode.catalog();
        // The client names it, seen or not: of one that the session may not know not even the precision shows.
        let seen = cx.database.as_deref().filter(|name| self.require_seen(session, name).is_ok());
        let database = seen.and_then(|name| catalog.database(name).ok());
        query::plan::Session {
            zone: cx.zone,
            now_ns: cx.now_ns,
            database: cx.database.clone(),
            precision: database.map_or(Precision::Ms, |database| database.info.options.precision),
            user: format!("{}@localhost", session.user),
        }
    }
}
