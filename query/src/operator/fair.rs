//! Queries take turns: where a plan may compute for long without waiting for anything, it gives its thread back after
//! every batch.
//!
//! A query is a task on threads that it shares with others, and a task keeps its thread until it waits. DataFusion's own
//! rule spends tokio's budget at the leaves only, 128 batches a turn: that is a second of a wide aggregate, and a join
//! makes thousands of batches out of one of a leaf without looking there.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::record_batch::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, EmissionType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::Stream;

/// Puts a [`Turn`] over every node that may give a batch without having taken one: leaves, joins and whatever else makes
/// more rows than it reads, and what gives only once its input has ended. It has to be the last rule.
#[derive(Debug)]
pub(crate) struct TakeTurns;

impl PhysicalOptimizerRule for TakeTurns {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let passes_on =
                matches!(node.cardinality_effect(), CardinalityEffect::Equal | CardinalityEffect::LowerEqual)
                    && node.properties().emission_type == EmissionType::Incremental;
            if node.children().is_empty() || !passes_on {
                return Ok(Transformed::yes(Turn::over(node)));
            }
            Ok(Transformed::no(node))
        })
        .data()
    }

    fn name(&self) -> &str {
        "TakeTurns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Its name, and a level of a plan as DataFusion displays it.
const TURN: &str = "Turn";
const INDENT: &str = "  ";

/// Passes batches on, and lets others run before it asks for the next.
#[derive(Debug)]
pub(crate) struct Turn {
    input: Arc<dyn ExecutionPlan>,
}

impl Turn {
    /// What gives turns between the batches of `input`.
    pub(crate) fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input })
    }

    /// What lies below a turn; a node that is none itself.
    pub(crate) fn below(node: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
        node.downcast_ref::<Self>().map_or(node, |turn| &turn.input)
    }
}

impl DisplayAs for Turn {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TURN)
    }
}

impl ExecutionPlan for Turn {
    fn name(&self) -> &str {
        TURN
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("a turn has one input") };
        Ok(Arc::new(Self { input }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        Ok(Box::pin(Turns { input: self.input.execute(partition, context)?, is_due: false }))
    }
}

/// The lines of a plan as it is displayed, without the turns: they say nothing of what is computed.
pub(crate) fn without_turns(displayed: &str) -> Vec<String> {
    let mut lines = Vec::new();
    // Depths of the turns that the line is below.
    let mut turns: Vec<usize> = Vec::new();
    for line in displayed.lines() {
        let node = line.trim_start();
        let depth = (line.len() - node.len()) / INDENT.len();
        turns.retain(|turn| *turn < depth);
        if node == TURN || node.starts_with("Turn, metrics=") {
            turns.push(depth);
        } else {
            lines.push(format!("{}{node}", INDENT.repeat(depth.saturating_sub(turns.len()))));
        }
    }
    lines
}

struct Turns {
    input: SendableRecordBatchStream,
    /// A batch was given since others had their turn.
    is_due: bool,
}

impl Stream for Turns {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_due {
            self.is_due = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let item = ready!(self.input.as_mut().poll_next(cx));
        self.is_due = item.is_some();
        Poll::Ready(item)
    }
}

impl RecordBatchStream for Turns {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_not_shown() {
        let plan =
            "Turn\n  Union\n    Turn, metrics=[]\n      Join\n        Turn\n          A\n        B\n    C\n";
        assert_eq!(without_turns(plan), ["Union", "  Join", "    A", "    B", "  C"]);
    }
}
