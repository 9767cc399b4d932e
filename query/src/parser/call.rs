//! Calls: functions, CAST, CASE, and the functions with words between their arguments.

use model::{Result, Value};

use super::expr::Tree;
use super::{Parser, words};
use crate::ast::{At, Expr};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn case(&mut self) -> Result<Tree> {
        self.bump();
        let operand = if self.at_word("WHEN") { None } else { Some(self.tree()?) };
        let mut tallest = operand.as_ref().map_or(0, |o| o.height);
        let mut branches = Vec::new();
        while self.take_word("WHEN") {
            let when = self.tree()?;
            self.expect_word("THEN")?;
            let then = self.tree()?;
            tallest = tallest.max(when.height).max(then.height);
            branches.push((when.expr, then.expr));
        }
        if branches.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.take_word("ELSE") { Some(self.tree()?) } else { None };
        tallest = tallest.max(otherwise.as_ref().map_or(0, |o| o.height));
        self.expect_word("END")?;
        let boxed = |tree: Option<Tree>| tree.map(|t| Box::new(t.expr));
        let expr = Expr::Case { operand: boxed(operand), branches, otherwise: boxed(otherwise) };
        Ok(Tree { expr, height: self.above(tallest)? })
    }

    pub(super) fn function(&mut self, name: String) -> Result<Tree> {
        match name.as_str() {
            "cast" => return self.cast(),
            "trim" => return self.trim(),
            "position" => return self.position(),
            _ if !words::is_callable(&name) => return Err(self.unexpected_name()),
            _ => {}
        }
        let at = self.spot(self.peek());
        self.next += 2;
        let args = self.arguments(&name)?;
        if self.at_word("OVER") && self.peek_at(1).kind == TokenKind::LeftParen {
            return Err(self.unsupported("OVER (window function)"));
        }
        let height = self.above(args.iter().map(|a| a.height).max().unwrap_or(0))?;
        let mut args: Vec<Expr> = args.into_iter().map(|a| a.expr).collect();
        if matches!(name.as_str(), "isnull" | "isnotnull") && args.len() == 1 {
            let expr = Box::new(args.pop().ok_or_else(|| self.unexpected())?);
            return Ok(Tree { expr: Expr::IsNull { expr, negated: name == "isnotnull" }, height });
        }
        Ok(Tree { expr: Expr::Function { name, args, at }, height })
    }

    /// Arguments and the closing parenthesis.
    fn arguments(&mut self, name: &str) -> Result<Vec<Tree>> {
        if words::may_be_empty(name) && self.take(TokenKind::RightParen) {
            return Ok(Vec::new());
        }
        if self.at(TokenKind::Star) && words::takes_star(name) {
            self.bump();
            self.expect(TokenKind::RightParen)?;
            return Ok(vec![Tree::leaf(Expr::Star)]);
        }
        if matches!(name, "first" | "last" | "last_row")
            && self.at_name()
            && self.peek_at(1).kind == TokenKind::Dot
            && self.peek_at(2).kind == TokenKind::Star
        {
            return Err(self.unsupported(format_args!("{}(t.*)", name.to_uppercase())));
        }
        if self.at_word("DISTINCT") && words::is_aggregate(name) {
            let call = name.to_uppercase();
            let hint = format!(
                "aggregates take no DISTINCT: write SELECT {call}(c) FROM (SELECT DISTINCT c FROM ..), with c for the column"
            );
            return Err(self.unexpected().hint(hint));
        }
        let first = self.tree()?;
        let mut args = vec![first];
        if matches!(name, "substr" | "substring") && self.take_word("FROM") {
            args.push(self.tree()?);
            if self.take_word("FOR") {
                args.push(self.tree()?);
            }
        } else {
            while self.take(TokenKind::Comma) {
                args.push(self.tree()?);
            }
        }
        self.expect(TokenKind::RightParen)?;
        Ok(args)
    }

    fn cast(&mut self) -> Result<Tree> {
        self.next += 2;
        let inner = self.tree()?;
        self.expect_word("AS")?;
        let data_type = self.cast_type()?;
        self.expect(TokenKind::RightParen)?;
        let expr = Expr::Cast { expr: Box::new(inner.expr), data_type };
        Ok(Tree { expr, height: self.above(inner.height)? })
    }

    /// `TRIM(s)`, or `TRIM([LEADING | TRAILING | BOTH] [r] FROM s)` with the arguments side, r, s.
    fn trim(&mut self) -> Result<Tree> {
        let at = self.spot(self.peek());
        self.next += 2;
        let side = ["leading", "trailing", "both"].into_iter().find(|side| self.take_word(side));
        let text = |text: &str| Tree::leaf(Expr::Literal(Value::Text(text.into())));
        let mut args = Vec::new();
        if side.is_some() && self.take_word("FROM") {
            args = vec![text(side.unwrap_or("both")), text(" "), self.tree()?];
        } else {
            let first = self.tree()?;
            if side.is_some() || self.at_word("FROM") {
                self.expect_word("FROM")?;
                args = vec![text(side.unwrap_or("both")), first, self.tree()?];
            } else {
                args.push(first);
            }
        }
        self.expect(TokenKind::RightParen)?;
        self.call("trim", args, at)
    }

    /// `POSITION(x IN s)` with the arguments x, s.
    fn position(&mut self) -> Result<Tree> {
        let at = self.spot(self.peek());
        self.next += 2;
        let needle = self.bits()?;
        self.expect_word("IN")?;
        let haystack = self.tree()?;
        self.expect(TokenKind::RightParen)?;
        self.call("position", vec![needle, haystack], at)
    }

    fn call(&self, name: &str, args: Vec<Tree>, at: At) -> Result<Tree> {
        let height = self.above(args.iter().map(|a| a.height).max().unwrap_or(0))?;
        let args = args.into_iter().map(|a| a.expr).collect();
        Ok(Tree { expr: Expr::Function { name: name.into(), args, at }, height })
    }
}
