//! SELECT, UNION, FROM, windows, and what stands behind them.

use model::{DurationLiteral, Result};

use super::{NameKind, Parser};
use crate::ast::{
    Fill, JoinKind, Limit, OrderBy, PartitionBy, Query, Select, SelectItem, SetExpr, TableRef, Window,
    WindowDuration,
};
use crate::lexer::{TokenKind, unquote_text};

/// SELECTs joined by UNION in one statement.
const UNIONS_MAX: usize = 100;
/// Tables joined in one FROM.
const JOINS_MAX: usize = 64;

/// Windows that are not built, by the word before their parenthesis or START.
const OTHER_WINDOWS: &[(&str, &str)] = &[
    ("SESSION", "SESSION window"),
    ("STATE_WINDOW", "STATE_WINDOW"),
    ("EVENT_WINDOW", "EVENT_WINDOW"),
    ("COUNT_WINDOW", "COUNT_WINDOW"),
    ("ANOMALY_WINDOW", "ANOMALY_WINDOW"),
    ("EXTERNAL_WINDOW", "EXTERNAL_WINDOW"),
    ("RANGE", "RANGE (INTERP)"),
    ("EVERY", "EVERY (INTERP)"),
    ("FILL", "FILL without INTERVAL (INTERP)"),
];

impl Parser<'_> {
    /// A SELECT or UNION with ORDER BY and limits.
    pub(super) fn query(&mut self) -> Result<Query> {
        self.nested(|p| {
            let body = p.set_expr()?;
            let order_by = p.order_by()?;
            let slimit = p.limit_clause("SLIMIT", "SOFFSET")?;
            let limit = match p.limit_clause("LIMIT", "OFFSET")? {
                None if p.take_word("OFFSET") => Some(Limit { count: None, offset: p.integer()? }),
                limit => limit,
            };
            Ok(Query { body, order_by, slimit, limit })
        })
    }

    fn set_expr(&mut self) -> Result<SetExpr> {
        let mut left = self.simple_query()?;
        let mut unions = 0;
        while self.at_word("UNION") {
            if unions == UNIONS_MAX {
                return Err(self.unsupported(format_args!("more than {UNIONS_MAX} UNIONs")));
            }
            unions += 1;
            self.bump();
            let all = self.take_word("ALL");
            let right = Box::new(self.simple_query()?);
            left = SetExpr::Union { all, left: Box::new(left), right };
        }
        Ok(left)
    }

    fn simple_query(&mut self) -> Result<SetExpr> {
        if self.take(TokenKind::LeftParen) {
            let query = self.query()?;
            self.expect(TokenKind::RightParen)?;
            return Ok(SetExpr::Nested(Box::new(query)));
        }
        self.expect_word("SELECT")?;
        self.select().map(|select| SetExpr::Select(Box::new(select)))
    }

    fn select(&mut self) -> Result<Select> {
        let distinct = self.take_word("DISTINCT");
        if !distinct {
            self.take_word("ALL");
        }
        let tags_only = self.take_word("TAGS");
        let items = self.comma_separated(Self::select_item)?;
        let from = if self.take_word("FROM") { Some(self.tables()?) } else { None };
        let filter = if self.take_word("WHERE") { Some(self.expr()?) } else { None };
        let partition_by = if self.take_words(&["PARTITION", "BY"]) {
            self.comma_separated(Self::partition_item)?
        } else {
            Vec::new()
        };
        let window = self.window()?;
        let fill = if window.is_some() { self.fill()? } else { None };
        let group_by =
            if self.take_words(&["GROUP", "BY"]) { self.comma_separated(Self::expr)? } else { Vec::new() };
        let having = if self.take_word("HAVING") { Some(self.expr()?) } else { None };
        if self.at_word("WINDOW") {
            return Err(self.unsupported("WINDOW clause"));
        }
        Ok(Select { distinct, tags_only, items, from, filter, partition_by, window, fill, group_by, having })
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        if self.take(TokenKind::Star) {
            return Ok(SelectItem::Wildcard);
        }
        if self.at_any_name()
            && self.peek_at(1).kind == TokenKind::Dot
            && self.peek_at(2).kind == TokenKind::Star
        {
            let qualifier = self.name(NameKind::Table)?;
            self.next += 2;
            return Ok(SelectItem::QualifiedWildcard(qualifier));
        }
        let start = self.peek().start;
        let expr = self.expr()?;
        let text = self.expr_text(start);
        Ok(SelectItem::Expr { expr, alias: self.item_alias()?, text })
    }

    /// `[AS] alias`: a name, a string, or a word with letters beyond ASCII.
    fn item_alias(&mut self) -> Result<Option<String>> {
        let named = self.take_word("AS");
        let token = self.peek();
        match token.kind {
            TokenKind::Text => {
                self.bump();
                Ok(Some(unquote_text(self.text_of(token)).into_owned()))
            }
            TokenKind::WideWord => {
                self.bump();
                Ok(Some(self.text_of(token).to_owned()))
            }
            _ if self.at_name() || (named && self.at_any_name()) => {
                self.bump();
                Ok(Some(self.name_of(token)))
            }
            _ if named => Err(self.unexpected_name()),
            _ => Ok(None),
        }
    }

    fn table_alias(&mut self) -> Result<Option<String>> {
        if self.take_word("AS") || self.at_name() {
            return self.name(NameKind::Table).map(Some);
        }
        Ok(None)
    }

    fn partition_item(&mut self) -> Result<PartitionBy> {
        let expr = self.expr()?;
        Ok(PartitionBy { expr, alias: self.item_alias()? })
    }

    // FROM.

    fn tables(&mut self) -> Result<TableRef> {
        let mut left = self.joined()?;
        let mut joins = 0;
        while self.take(TokenKind::Comma) {
            joins += 1;
            self.check_joins(joins)?;
            let right = Box::new(self.joined()?);
            left = TableRef::Join { left: Box::new(left), right, kind: JoinKind::Inner, on: None };
        }
        Ok(left)
    }

    fn check_joins(&self, joins: usize) -> Result<()> {
        if joins > JOINS_MAX {
            return Err(self.unsupported(format_args!("more than {JOINS_MAX} joins")));
        }
        Ok(())
    }

    fn joined(&mut self) -> Result<TableRef> {
        let mut left = self.table_primary()?;
        let mut joins = 0;
        while let Some(kind) = self.join_kind()? {
            joins += 1;
            self.check_joins(joins)?;
            let right = Box::new(self.table_primary()?);
            let on = if self.take_word("ON") { Some(self.expr()?) } else { None };
            if self.at_word("WINDOW_OFFSET") || self.at_word("JLIMIT") {
                return Err(self.unsupported("WINDOW_OFFSET and JLIMIT"));
            }
            left = TableRef::Join { left: Box::new(left), right, kind, on };
        }
        Ok(left)
    }

    fn join_kind(&mut self) -> Result<Option<JoinKind>> {
        if self.take_word("JOIN") || self.take_words(&["INNER", "JOIN"]) {
            return Ok(Some(JoinKind::Inner));
        }
        if self.take_word("FULL") {
            self.take_word("OUTER");
            return self.expect_word("JOIN").map(|()| Some(JoinKind::FullOuter));
        }
        let left = self.at_word("LEFT");
        if !left && !self.at_word("RIGHT") {
            return Ok(None);
        }
        self.bump();
        for kind in ["ASOF", "WINDOW"] {
            if self.at_words(&[kind, "JOIN"]) {
                return Err(self.unsupported(format_args!("{kind} JOIN")));
            }
        }
        let pick = |if_left, if_right| if left { if_left } else { if_right };
        let kind = if self.take_word("SEMI") {
            pick(JoinKind::LeftSemi, JoinKind::RightSemi)
        } else if self.take_word("ANTI") {
            pick(JoinKind::LeftAnti, JoinKind::RightAnti)
        } else {
            self.take_word("OUTER");
            pick(JoinKind::LeftOuter, JoinKind::RightOuter)
        };
        self.expect_word("JOIN").map(|()| Some(kind))
    }

    fn table_primary(&mut self) -> Result<TableRef> {
        if !self.at(TokenKind::LeftParen) {
            let name = self.object_name(NameKind::Table)?;
            return Ok(TableRef::Table { name, alias: self.table_alias()? });
        }
        let mut ahead = 1;
        while self.peek_at(ahead).kind == TokenKind::LeftParen {
            ahead += 1;
        }
        let subquery = self.is_word(self.peek_at(ahead), "SELECT");
        self.bump();
        if subquery {
            let query = Box::new(self.query()?);
            self.expect(TokenKind::RightParen)?;
            return Ok(TableRef::Subquery { query, alias: self.table_alias()? });
        }
        let joined = self.nested(Self::joined)?;
        self.expect(TokenKind::RightParen)?;
        Ok(joined)
    }

    // Windows.

    fn window(&mut self) -> Result<Option<Window>> {
        if let Some((word, name)) = OTHER_WINDOWS.iter().find(|(word, _)| self.at_word(word)) {
            if self.in_topic && self.other_window(word)? {
                return Ok(Some(Window::NotBuilt(name)));
            }
            return Err(self.unsupported(name));
        }
        if !self.take_word("INTERVAL") {
            return Ok(None);
        }
        self.expect(TokenKind::LeftParen)?;
        let interval = self.window_duration()?;
        let offset = if self.take(TokenKind::Comma) {
            Some(if self.take_word("AUTO") { WindowDuration::Auto } else { self.window_duration()? })
        } else {
            None
        };
        self.expect(TokenKind::RightParen)?;
        let sliding = if self.take_word("SLIDING") {
            self.expect(TokenKind::LeftParen)?;
            let sliding = self.window_duration()?;
            self.expect(TokenKind::RightParen)?;
            Some(sliding)
        } else {
            None
        };
        Ok(Some(Window::Interval { interval, offset, sliding }))
    }

    /// A window that is not built, read to its end for a statement that could not have it anyway; `false` for one whose
    /// syntax is not known here.
    fn other_window(&mut self, word: &str) -> Result<bool> {
        if !["SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW"].contains(&word) {
            return Ok(false);
        }
        self.bump();
        if word == "EVENT_WINDOW" {
            for edge in ["START", "END"] {
                self.expect_word(edge)?;
                self.expect_word("WITH")?;
                self.expr()?;
            }
        } else {
            self.expect(TokenKind::LeftParen)?;
            self.comma_separated(Self::expr)?;
            self.expect(TokenKind::RightParen)?;
        }
        if self.take_word("TRUE_FOR") {
            self.expect(TokenKind::LeftParen)?;
            self.window_duration()?;
            self.expect(TokenKind::RightParen)?;
        }
        Ok(true)
    }

    fn window_duration(&mut self) -> Result<WindowDuration> {
        let token = self.peek();
        let text = self.text_of(token);
        let duration = match token.kind {
            TokenKind::Duration => DurationLiteral::parse(text).map(WindowDuration::Literal),
            TokenKind::Text => DurationLiteral::parse(unquote_text(text).trim()).map(WindowDuration::Literal),
            TokenKind::Integer => text.parse().ok().map(WindowDuration::Ticks),
            _ => None,
        };
        let duration = duration.ok_or_else(|| self.unexpected())?;
        self.bump();
        Ok(duration)
    }

    fn fill(&mut self) -> Result<Option<Fill>> {
        if !self.take_word("FILL") {
            return Ok(None);
        }
        self.expect(TokenKind::LeftParen)?;
        let token = self.peek();
        let fill = match self.text_of(token).to_ascii_uppercase().as_str() {
            "NONE" => Fill::None,
            "NULL" => Fill::Null { force: false },
            "NULL_F" => Fill::Null { force: true },
            "PREV" => Fill::Prev,
            "NEXT" => Fill::Next,
            "LINEAR" => Fill::Linear,
            "NEAR" => return Err(self.unsupported("FILL(NEAR)")),
            word @ ("VALUE" | "VALUE_F") => {
                let force = word == "VALUE_F";
                self.bump();
                self.expect(TokenKind::Comma)?;
                let values = self.comma_separated(Self::expr)?;
                self.expect(TokenKind::RightParen)?;
                return self.no_surround(Fill::Value { values, force });
            }
            _ => return Err(self.unexpected()),
        };
        self.bump();
        self.expect(TokenKind::RightParen)?;
        self.no_surround(fill)
    }

    fn no_surround(&self, fill: Fill) -> Result<Option<Fill>> {
        if self.at_word("SURROUND") {
            return Err(self.unsupported("SURROUND"));
        }
        Ok(Some(fill))
    }

    // Behind the SELECT.

    fn order_by(&mut self) -> Result<Vec<OrderBy>> {
        if !self.take_words(&["ORDER", "BY"]) {
            return Ok(Vec::new());
        }
        self.comma_separated(|p| {
            let expr = p.expr()?;
            let descending = p.take_word("DESC");
            if !descending {
                p.take_word("ASC");
            }
            let nulls_first = if p.take_word("NULLS") {
                let first = p.take_word("FIRST");
                if !first {
                    p.expect_word("LAST")?;
                }
                Some(first)
            } else {
                None
            };
            Ok(OrderBy { expr, descending, nulls_first })
        })
    }

    /// `LIMIT n [OFFSET m]` or `LIMIT m, n`.
    fn limit_clause(&mut self, limit: &str, offset: &str) -> Result<Option<Limit>> {
        if !self.take_word(limit) {
            return Ok(None);
        }
        let first = self.integer()?;
        if self.take_word(offset) {
            return Ok(Some(Limit { count: Some(first), offset: self.integer()? }));
        }
        if self.take(TokenKind::Comma) {
            return Ok(Some(Limit { count: Some(self.integer()?), offset: first }));
        }
        Ok(Some(Limit { count: Some(first), offset: 0 }))
    }
}
