//! What conditions say of time and of tables, read off DataFusion's expressions.

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::plan::types::scalar_ticks;
use crate::source::TimeRange;

/// Conditions, sorted by who can use them.
#[derive(Debug)]
pub(crate) struct Pushed<'e> {
    pub(crate) time: TimeRange,
    pub(crate) tables: Vec<&'e Expr>,
    pub(crate) rows: Vec<&'e Expr>,
}

impl Default for Pushed<'_> {
    fn default() -> Self {
        Self { time: TimeRange::ALL, tables: Vec::new(), rows: Vec::new() }
    }
}

/// Ticks that a condition allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) range: TimeRange,
    /// The condition says this and nothing more.
    pub(crate) exact: bool,
}

/// The ticks of the column called `time` that `expr` allows; `None` where it says nothing of them.
pub(crate) fn time_range(expr: &Expr, time: &str) -> Option<Bound> {
    match expr {
        Expr::IsTrue(inner) => time_range(inner, time),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => match (time_range(left, time), time_range(right, time)) {
                (Some(a), Some(b)) => {
                    Some(Bound { range: a.range.intersect(b.range), exact: a.exact && b.exact })
                }
                (Some(a), None) | (None, Some(a)) => Some(Bound { exact: false, ..a }),
                (None, None) => None,
            },
            Operator::Or => {
                let (a, b) = (time_range(left, time)?, time_range(right, time)?);
                let first = a.range.first.min(b.range.first);
                let last_inclusive = a.range.last_inclusive.max(b.range.last_inclusive);
                Some(Bound { range: TimeRange { first, last_inclusive }, exact: false })
            }
            op => comparison(left, *op, right, time).or_else(|| comparison(right, op.swap()?, left, time)),
        },
        Expr::InList(list) if !list.negated && is_column(&list.expr, time) => {
            let ticks: Option<Vec<i64>> = list.list.iter().map(literal_ticks).collect();
            let ticks = ticks?;
            let range = TimeRange { first: *ticks.iter().min()?, last_inclusive: *ticks.iter().max()? };
            Some(Bound { range, exact: false })
        }
        Expr::Between(between) if !between.negated && is_column(&between.expr, time) => {
            let range = TimeRange {
                first: literal_ticks(&between.low)?,
                last_inclusive: literal_ticks(&between.high)?,
            };
            Some(Bound { range, exact: true })
        }
        _ => None,
    }
}

fn comparison(column: &Expr, op: Operator, literal: &Expr, time: &str) -> Option<Bound> {
    if !is_column(column, time) {
        return None;
    }
    let ticks = literal_ticks(literal)?;
    let all = TimeRange::ALL;
    let range = match op {
        Operator::Eq => TimeRange { first: ticks, last_inclusive: ticks },
        Operator::GtEq => TimeRange { first: ticks, ..all },
        Operator::Gt => TimeRange { first: ticks.checked_add(1)?, ..all },
        Operator::LtEq => TimeRange { last_inclusive: ticks, ..all },
        Operator::Lt => TimeRange { last_inclusive: ticks.checked_sub(1)?, ..all },
        _ => return None,
    };
    Some(Bound { range, exact: true })
}

fn is_column(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Column(c) if c.name == name)
}

fn literal_ticks(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) => scalar_ticks(value),
        _ => None,
    }
}

/// The parts of a condition that must all hold.
pub(crate) fn conjuncts<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conjuncts(left, into);
            conjuncts(right, into);
        }
        other => into.push(other),
    }
}

/// The few names that a condition on the column called `name` allows; `None` where it allows others too.
pub(crate) fn names(expr: &Expr, name: &str) -> Option<Vec<String>> {
    match expr {
        Expr::IsTrue(inner) => names(inner, name),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => match (names(left, name), names(right, name)) {
                (Some(a), Some(b)) => Some(a.into_iter().filter(|n| b.contains(n)).collect()),
                (a, b) => a.or(b),
            },
            Operator::Or => {
                let mut all = names(left, name)?;
                all.extend(names(right, name)?);
                Some(all)
            }
            Operator::Eq if is_name(left, name) => literal_text(right).map(|t| vec![t]),
            Operator::Eq if is_name(right, name) => literal_text(left).map(|t| vec![t]),
            _ => None,
        },
        Expr::InList(list) if !list.negated && is_name(&list.expr, name) => {
            list.list.iter().map(literal_text).collect()
        }
        _ => None,
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    match expr {
        Expr::Cast(cast) => is_name(&cast.expr, name),
        other => is_column(other, name),
    }
}

fn literal_text(expr: &Expr) -> Option<String> {
    fn text(value: &ScalarValue) -> Option<String> {
        match value {
            ScalarValue::Utf8(v) | ScalarValue::Utf8View(v) | ScalarValue::LargeUtf8(v) => v.clone(),
            ScalarValue::Dictionary(_, inner) => text(inner),
            _ => None,
        }
    }
    match expr {
        Expr::Literal(value, _) => text(value),
        _ => None,
    }
}

/// The expression with bare column names, for a schema without qualifiers.
pub(crate) fn unqualified(expr: Expr) -> DfResult<Expr> {
    expr.transform(|e| {
        Ok(match e {
            Expr::Column(c) if c.relation.is_some() => {
                Transformed::yes(Expr::Column(Column::new_unqualified(c.name)))
            }
            other => Transformed::no(other),
        })
    })
    .map(|t| t.data)
}
