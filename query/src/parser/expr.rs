//! Expressions, by precedence climbing.
//!
//! Loosest to tightest: OR, AND, NOT, predicates, `& |`, `+ -`, `* / %`, unary `+ -`. Bit operators bind looser than
//! `+`; predicates do not chain.

use model::{Result, Value};

use super::{DEPTH_MAX, NameKind, Parser, words};
use crate::ast::{At, BinaryOp, Expr, JSON_MEMBER};
use crate::lexer::{TokenKind, fold, unquote_text};

/// An expression with the height of its tree. The height is bounded: whoever walks the tree recurses that deep.
pub(super) struct Tree {
    pub(super) expr: Expr,
    pub(super) height: usize,
}

impl Tree {
    pub(super) fn leaf(expr: Expr) -> Self {
        Self { expr, height: 1 }
    }
}

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.tree().map(|tree| tree.expr)
    }

    pub(super) fn tree(&mut self) -> Result<Tree> {
        self.nested(|p| p.chain("OR", BinaryOp::Or, |p| p.chain("AND", BinaryOp::And, Self::not)))
    }

    /// Operands joined by OR or AND, as a balanced tree: generated conditions run to thousands of operands.
    fn chain(
        &mut self,
        word: &str,
        op: BinaryOp,
        operand: impl Fn(&mut Self) -> Result<Tree>,
    ) -> Result<Tree> {
        let mut operands = vec![operand(self)?];
        while self.take_word(word) {
            operands.push(operand(self)?);
        }
        while operands.len() > 1 {
            let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
            let mut rest = operands.into_iter();
            while let Some(left) = rest.next() {
                pairs.push(match rest.next() {
                    Some(right) => self.binary(left, op, right)?,
                    None => left,
                });
            }
            operands = pairs;
        }
        operands.pop().ok_or_else(|| self.unexpected())
    }

    fn binary(&self, left: Tree, op: BinaryOp, right: Tree) -> Result<Tree> {
        let height = self.above(left.height.max(right.height))?;
        let (left, right) = (Box::new(left.expr), Box::new(right.expr));
        Ok(Tree { expr: Expr::Binary { left, op, right }, height })
    }

    pub(super) fn above(&self, height: usize) -> Result<usize> {
        if height >= DEPTH_MAX { Err(self.too_deep()) } else { Ok(height + 1) }
    }

    fn not(&mut self) -> Result<Tree> {
        if self.at_word("NOT") && !self.is_word(self.peek_at(1), "EXISTS") {
            self.bump();
            let inner = self.nested(Self::not)?;
            return Ok(Tree { height: self.above(inner.height)?, expr: Expr::Not(Box::new(inner.expr)) });
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Tree> {
        if self.at_word("EXISTS") || self.at_words(&["NOT", "EXISTS"]) {
            return Err(self.subquery("EXISTS (subquery)"));
        }
        let left = self.bits()?;
        let op = match self.peek().kind {
            TokenKind::Eq => BinaryOp::Eq,
            TokenKind::NotEq => BinaryOp::NotEq,
            TokenKind::Lt => BinaryOp::Lt,
            TokenKind::LtEq => BinaryOp::LtEq,
            TokenKind::Gt => BinaryOp::Gt,
            TokenKind::GtEq => BinaryOp::GtEq,
            TokenKind::Word => return self.worded_predicate(left),
            _ => return Ok(left),
        };
        self.bump();
        if ["ANY", "SOME", "ALL"].iter().any(|w| self.at_word(w))
            && self.peek_at(1).kind == TokenKind::LeftParen
        {
            return Err(self.subquery("ANY, SOME and ALL (subquery)"));
        }
        let right = self.bits()?;
        self.binary(left, op, right)
    }

    fn worded_predicate(&mut self, left: Tree) -> Result<Tree> {
        let negated = self.at_word("NOT");
        let word = self.peek_at(usize::from(negated));
        let is = |w: &str| self.is_word(word, w);
        if is("BETWEEN") {
            self.next += 1 + usize::from(negated);
            let low = self.bits()?;
            self.expect_word("AND")?;
            let high = self.bits()?;
            let height = self.above(left.height.max(low.height).max(high.height))?;
            let (expr, low, high) = (Box::new(left.expr), Box::new(low.expr), Box::new(high.expr));
            return Ok(Tree { expr: Expr::Between { expr, negated, low, high }, height });
        }
        if is("IN") {
            self.next += 1 + usize::from(negated);
            return self.in_list(left, negated);
        }
        if is("LIKE") {
            self.next += 1 + usize::from(negated);
            return self.pattern(left, |expr, pattern| Expr::Like { expr, negated, pattern });
        }
        if is("REGEXP") || (is("MATCH") && !negated) {
            self.next += 1 + usize::from(negated);
            return self.pattern(left, |expr, pattern| Expr::Match { expr, negated, pattern });
        }
        if is("NMATCH") && !negated {
            self.bump();
            return self.pattern(left, |expr, pattern| Expr::Match { expr, negated: true, pattern });
        }
        if is("CONTAINS") && !negated {
            return Err(self.unsupported("CONTAINS on JSON tags"));
        }
        if is("IS") && !negated {
            self.bump();
            let negated = self.take_word("NOT");
            self.expect_word("NULL")?;
            let height = self.above(left.height)?;
            return Ok(Tree { expr: Expr::IsNull { expr: Box::new(left.expr), negated }, height });
        }
        Ok(left)
    }

    fn pattern(&mut self, left: Tree, make: impl FnOnce(Box<Expr>, Box<Expr>) -> Expr) -> Result<Tree> {
        let pattern = self.bits()?;
        let height = self.above(left.height.max(pattern.height))?;
        Ok(Tree { expr: make(Box::new(left.expr), Box::new(pattern.expr)), height })
    }

    fn in_list(&mut self, left: Tree, negated: bool) -> Result<Tree> {
        self.expect(TokenKind::LeftParen)?;
        if self.at_word("SELECT") {
            return Err(self.subquery("IN (subquery)"));
        }
        let items = self.comma_separated(Self::tree)?;
        self.expect(TokenKind::RightParen)?;
        let tallest = items.iter().map(|item| item.height).max().unwrap_or(0);
        let height = self.above(left.height.max(tallest))?;
        let list = items.into_iter().map(|item| item.expr).collect();
        Ok(Tree { expr: Expr::InList { expr: Box::new(left.expr), negated, list }, height })
    }

    pub(super) fn bits(&mut self) -> Result<Tree> {
        self.left_to_right(Self::sum, |kind| match kind {
            TokenKind::And => Some(BinaryOp::BitAnd),
            TokenKind::Or => Some(BinaryOp::BitOr),
            _ => None,
        })
    }

    fn sum(&mut self) -> Result<Tree> {
        self.left_to_right(Self::product, |kind| match kind {
            TokenKind::Plus => Some(BinaryOp::Plus),
            TokenKind::Minus => Some(BinaryOp::Minus),
            _ => None,
        })
    }

    fn product(&mut self) -> Result<Tree> {
        self.left_to_right(Self::unary, |kind| match kind {
            TokenKind::Star => Some(BinaryOp::Multiply),
            TokenKind::Slash => Some(BinaryOp::Divide),
            TokenKind::Percent => Some(BinaryOp::Modulo),
            _ => None,
        })
    }

    fn left_to_right(
        &mut self,
        operand: impl Fn(&mut Self) -> Result<Tree>,
        operator: impl Fn(TokenKind) -> Option<BinaryOp>,
    ) -> Result<Tree> {
        let mut left = operand(self)?;
        while let Some(op) = operator(self.peek().kind) {
            self.bump();
            let right = operand(self)?;
            left = self.binary(left, op, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Tree> {
        if self.take(TokenKind::Plus) {
            return self.nested(Self::unary);
        }
        if self.take(TokenKind::Minus) {
            let inner = self.nested(Self::unary)?;
            // 2^63 alone does not fit 64 signed bits, its negative does.
            if inner.expr == Expr::Literal(Value::UInt(i64::MIN.unsigned_abs())) {
                return Ok(Tree::leaf(Expr::Literal(Value::Int(i64::MIN))));
            }
            return Ok(Tree { height: self.above(inner.height)?, expr: Expr::Negate(Box::new(inner.expr)) });
        }
        let tree = self.primary()?;
        if self.take(TokenKind::Arrow) {
            let key = Expr::Literal(Value::Text(self.string()?));
            let height = self.above(tree.height)?;
            let expr = Expr::Function {
                name: JSON_MEMBER.to_owned(),
                args: vec![tree.expr, key],
                at: At::default(),
            };
            return Ok(Tree { expr, height });
        }
        Ok(tree)
    }

    fn primary(&mut self) -> Result<Tree> {
        let token = self.peek();
        let text = self.text_of(token);
        let expr = match token.kind {
            TokenKind::Integer => Expr::Literal(integer_literal(text)),
            TokenKind::Float => Expr::Literal(Value::Double(text.parse().unwrap_or(f64::INFINITY))),
            TokenKind::Text => Expr::Literal(Value::Text(unquote_text(text).into_owned())),
            TokenKind::Duration => {
                Expr::Duration(model::DurationLiteral::parse(text).ok_or_else(|| self.unexpected())?)
            }
            TokenKind::Placeholder => return Err(self.unsupported("? outside a prepared statement")),
            TokenKind::LeftParen => return self.parenthesised(),
            TokenKind::Quoted => return self.column_ref(),
            TokenKind::Word => return self.word_primary(),
            _ => return Err(self.unexpected()),
        };
        self.bump();
        Ok(Tree::leaf(expr))
    }

    fn parenthesised(&mut self) -> Result<Tree> {
        self.bump();
        if self.at_word("SELECT") {
            return Err(self.subquery("scalar subquery"));
        }
        let tree = self.tree()?;
        self.expect(TokenKind::RightParen)?;
        Ok(tree)
    }

    fn word_primary(&mut self) -> Result<Tree> {
        let token = self.peek();
        let word = self.text_of(token).to_ascii_lowercase();
        let leaf = |p: &mut Self, expr| {
            p.bump();
            Ok(Tree::leaf(expr))
        };
        match word.as_str() {
            "null" => return leaf(self, Expr::Literal(Value::Null)),
            "true" => return leaf(self, Expr::Literal(Value::Bool(true))),
            "false" => return leaf(self, Expr::Literal(Value::Bool(false))),
            "case" => return self.case(),
            "timestamp" => {
                self.bump();
                if !self.at(TokenKind::Text) {
                    let hint = "a literal is written TIMESTAMP '2026-01-31 12:00:00'; if timestamp is meant as a name, \
                                write `timestamp`";
                    return Err(self.unexpected().hint(hint));
                }
                return self.string().map(|text| Tree::leaf(Expr::TypedTimestamp(text)));
            }
            _ => {}
        }
        let next = self.peek_at(1).kind;
        if next == TokenKind::LeftParen {
            return self.function(word);
        }
        match word.as_str() {
            "now" | "today" => {
                let at = self.spot(token);
                leaf(self, Expr::Function { name: word, args: Vec::new(), at })
            }
            _ if word == "tbname" || words::is_pseudo(&word) => {
                let at = self.spot(token);
                leaf(self, Expr::Column { qualifier: None, name: word, quoted: false, at })
            }
            _ => self.column_ref(),
        }
    }

    /// `c`, `t.c`, `t.tbname`.
    fn column_ref(&mut self) -> Result<Tree> {
        let first = self.peek();
        let at = self.spot(first);
        let name = self.name(NameKind::Table)?;
        if !self.take(TokenKind::Dot) {
            let quoted = first.kind == TokenKind::Quoted;
            return Ok(Tree::leaf(Expr::Column { qualifier: None, name, quoted, at }));
        }
        let qualifier = Some(name);
        if self.at_word("TBNAME") {
            self.bump();
            return Ok(Tree::leaf(Expr::Column { qualifier, name: "tbname".into(), quoted: false, at }));
        }
        let quoted = self.at(TokenKind::Quoted);
        let name = self.name(NameKind::Table)?;
        Ok(Tree::leaf(Expr::Column { qualifier, name, quoted, at }))
    }

    /// Source of the expression that started at `start`: a result column's default name.
    pub(super) fn expr_text(&self, start: usize) -> String {
        fold(self.source_from(start))
    }
}

/// BIGINT, above that BIGINT UNSIGNED, clipped at its end.
fn integer_literal(text: &str) -> Value {
    match text.parse::<u64>() {
        Ok(value) => i64::try_from(value).map_or(Value::UInt(value), Value::Int),
        Err(_) => Value::UInt(u64::MAX),
    }
}

/// Whether `expr` calls a function that makes one row of several.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    find(expr, &|e| matches!(e, Expr::Function { name, .. } if words::is_aggregate(name)))
}

/// Whether `test` holds for `expr` or anything inside it. The tree's height is bounded.
pub(super) fn find(expr: &Expr, test: &dyn Fn(&Expr) -> bool) -> bool {
    let any = |items: &[&Expr]| items.iter().any(|e| find(e, test));
    test(expr)
        || match expr {
            Expr::Column { .. }
            | Expr::Literal(_)
            | Expr::Duration(_)
            | Expr::TypedTimestamp(_)
            | Expr::Star => false,
            Expr::Negate(e) | Expr::Not(e) => find(e, test),
            Expr::Cast { expr, .. } | Expr::IsNull { expr, .. } => find(expr, test),
            Expr::Binary { left, right, .. } => any(&[left, right]),
            Expr::Between { expr, low, high, .. } => any(&[expr, low, high]),
            Expr::InList { expr, list, .. } => find(expr, test) || list.iter().any(|e| find(e, test)),
            Expr::Like { expr, pattern, .. } | Expr::Match { expr, pattern, .. } => any(&[expr, pattern]),
            Expr::Function { args, .. } => args.iter().any(|e| find(e, test)),
            Expr::Case { operand, branches, otherwise } => {
                operand.iter().chain(otherwise).any(|e| find(e, test))
                    || branches.iter().any(|(when, then)| any(&[when, then]))
            }
        }
}
