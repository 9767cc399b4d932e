//! Nodes of logical plans over columns that are exact already.
//!
//! DataFusion's builder looks every column of an expression up once more, walking the whole plan below for each: over a
//! table of thousands of columns that is most of a statement's time.

use std::sync::Arc;

use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, Projection, Sort, SortExpr};
use model::Result;

use crate::plan::error::from_datafusion;

pub(crate) fn project(plan: LogicalPlan, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    Projection::try_new(exprs, Arc::new(plan)).map(LogicalPlan::Projection).map_err(from_datafusion)
}

pub(crate) fn filter(plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter).map_err(from_datafusion)
}

pub(crate) fn aggregate(plan: LogicalPlan, keys: Vec<Expr>, aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    Aggregate::try_new(Arc::new(plan), keys, aggregates).map(LogicalPlan::Aggregate).map_err(from_datafusion)
}

pub(crate) fn sort(plan: LogicalPlan, keys: Vec<SortExpr>) -> LogicalPlan {
    LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(plan), fetch: None })
}
