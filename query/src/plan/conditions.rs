//! Conditions of thousands of parts, which programs write.
//!
//! DataFusion takes a condition apart at its ANDs and joins the parts again in a row: what walks that row afterwards
//! recurses as deep as it is long, and compares each part with each. So only so many parts of a statement are shown to it.
//! The others stand in a function that is true where they are, as the balanced tree that the parser made of them.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::Context;
use crate::function::native;
use crate::operator::pushdown::conjuncts;

/// Parts that one statement may show. At so many, planning them takes some tenths of a second.
pub(crate) const PARTS_MAX: usize = 256;

/// `parts` joined by AND, as a balanced tree; `None` of none.
pub(crate) fn all_of(mut parts: Vec<Expr>) -> Option<Expr> {
    while parts.len() > 1 {
        let mut joined = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => left.and(right),
                None => left,
            });
        }
        parts = joined;
    }
    parts.pop()
}

/// Parts that DataFusion could make of a condition, as it moves NOT inwards.
fn width(condition: &Expr, negated: bool) -> usize {
    match condition {
        Expr::Not(inner) => width(inner, !negated),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (width(left, negated), width(right, negated));
            if (*op == Operator::And) == negated { left.max(right) } else { left.saturating_add(right) }
        }
        Expr::IsTrue(inner) => width(inner, negated),
        _ => 1,
    }
}

impl Context<'_> {
    /// `condition` with no more parts in sight than the statement has left.
    pub(crate) fn bounded(&self, condition: &Expr) -> Expr {
        let mut parts = Vec::new();
        conjuncts(condition, &mut parts);
        let (mut shown, mut hidden) = (Vec::new(), Vec::new());
        for part in parts {
            let width = width(part, false);
            if width <= self.parts.get() {
                self.parts.set(self.parts.get() - width);
                shown.push(part.clone());
            } else {
                hidden.push(part.clone());
            }
        }
        if let Some(hidden) = all_of(hidden) {
            shown.push(native::call("holds", DataType::Boolean, vec![hidden], |args, _| {
                args.first()
                    .map(Arc::clone)
                    .ok_or_else(|| DataFusionError::Internal("holds of nothing".into()))
            }));
            return all_of(shown).unwrap_or_else(|| condition.clone());
        }
        condition.clone()
    }
}
