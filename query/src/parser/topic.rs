//! CREATE TOPIC, RELOAD TOPIC and what their queries may contain; DROP CONSUMER GROUP.

use model::{Code, Error, Result};

use super::expr::{find, has_aggregate};
use super::{NameKind, Parser, words};
use crate::ast::{
    CreateTopic, Expr, Query, ReloadTopic, SelectItem, SetExpr, Statement, TableRef, TopicMeta, TopicSource,
    Window,
};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn create_topic(&mut self) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name(NameKind::Topic)?;
        let meta = if self.take_words(&["WITH", "META"]) {
            TopicMeta::With
        } else if self.take_words(&["ONLY", "META"]) {
            TopicMeta::Only
        } else {
            TopicMeta::Without
        };
        self.expect_word("AS")?;
        let source = self.topic_source(meta)?;
        let sql = self.whole_text();
        Ok(Statement::CreateTopic(CreateTopic { if_not_exists, name, meta, source, sql }))
    }

    pub(super) fn reload_topic(&mut self) -> Result<Statement> {
        self.bump();
        self.expect_word("TOPIC")?;
        let if_exists = self.if_exists()?;
        let name = self.name(NameKind::Topic)?;
        self.expect_word("AS")?;
        let query = Box::new(self.topic_query()?);
        Ok(Statement::ReloadTopic(ReloadTopic { if_exists, name, query, sql: self.whole_text() }))
    }

    /// The statement from its first word to here.
    fn whole_text(&self) -> String {
        let start = self.tokens.first().map_or(0, |t| t.start);
        self.source_from(start).to_owned()
    }

    fn topic_source(&mut self, meta: TopicMeta) -> Result<TopicSource> {
        if self.take_word("DATABASE") {
            return self.name(NameKind::Database).map(TopicSource::Database);
        }
        if self.take_word("STABLE") {
            let name = self.object_name(NameKind::Table)?;
            let filter = if self.take_word("WHERE") { Some(self.expr()?) } else { None };
            if filter.as_ref().is_some_and(has_aggregate) {
                return Err(Error::of(Code::NoAggregation));
            }
            return Ok(TopicSource::Stable { name, filter });
        }
        // META is for tables and databases only.
        if meta != TopicMeta::Without {
            return Err(self.unexpected());
        }
        self.topic_query().map(|query| TopicSource::Query(Box::new(query)))
    }

    fn topic_query(&mut self) -> Result<Query> {
        if !(self.at_word("SELECT") || self.at(TokenKind::LeftParen)) {
            return Err(self.unexpected());
        }
        self.in_topic = true;
        let query = self.query();
        self.in_topic = false;
        let query = query?;
        check_query(&query)?;
        Ok(query)
    }

    pub(super) fn drop_consumer_group(&mut self) -> Result<Statement> {
        let if_exists = self.if_exists()?;
        let force = self.take_word("FORCE");
        let group = self.name(NameKind::Topic)?;
        self.expect_word("ON")?;
        let topic = self.name(NameKind::Topic)?;
        Ok(Statement::DropConsumerGroup { if_exists, force, group, topic })
    }
}

/// Refuses what a topic cannot evaluate row by row. Errors that any SELECT would raise first keep their code.
fn check_query(query: &Query) -> Result<()> {
    let refuse = |what: &str| Err(Error::with(Code::InvalidTopicQuery, format!("{what} is not allowed")));
    let select = match &query.body {
        SetExpr::Select(select) => select,
        SetExpr::Union { .. } => return refuse("UNION"),
        SetExpr::Nested(_) => return refuse("a query in parentheses"),
    };
    if select.filter.as_ref().is_some_and(has_aggregate) {
        return Err(Error::of(Code::NoAggregation));
    }
    if select.fill.is_some() && select.filter.is_none() {
        return Err(Error::of(Code::FillRange));
    }
    if select.having.is_some() && select.group_by.is_empty() && select.partition_by.is_empty() {
        return Err(Error::of(Code::NotGroupBy).hint(words::HAVING_HINT));
    }
    if let Some(name) = select.items.iter().find_map(aggregate_of) {
        if name == "interp" {
            let text = "Missing RANGE clause, EVERY clause or FILL clause";
            return Err(Error::text(Code::InterpClause, text));
        }
        return refuse(&format!("the function {name}"));
    }
    match &select.from {
        Some(TableRef::Table { .. }) => {}
        Some(TableRef::Subquery { .. }) => return refuse("a subquery"),
        Some(TableRef::Join { .. }) => return refuse("a join"),
        None => return refuse("a SELECT without FROM"),
    }
    let clauses = [
        (select.distinct, "DISTINCT"),
        (select.tags_only, "SELECT TAGS"),
        (!select.partition_by.is_empty(), "PARTITION BY"),
        (select.window.is_some(), select.window.as_ref().map_or("", Window::name)),
        (!select.group_by.is_empty(), "GROUP BY"),
        (select.having.is_some(), "HAVING"),
        (!query.order_by.is_empty(), "ORDER BY"),
        (query.slimit.is_some(), "SLIMIT"),
        (query.limit.is_some(), "LIMIT"),
    ];
    match clauses.into_iter().find(|(present, _)| *present) {
        Some((_, clause)) => refuse(clause),
        None => Ok(()),
    }
}

/// The aggregate that an item calls, if any.
fn aggregate_of(item: &SelectItem) -> Option<String> {
    let SelectItem::Expr { expr, .. } = item else { return None };
    let name = std::cell::RefCell::new(None);
    find(expr, &|e| match e {
        Expr::Function { name: f, .. } if words::is_aggregate(f) => {
            *name.borrow_mut() = Some(f.clone());
            true
        }
        _ => false,
    });
    name.into_inner()
}
