//! Topics over a super table: which children they show.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::record_batch::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr as DfExpr;
use datafusion::physical_expr::PhysicalExpr;
use model::{Code, Error, Result};

use crate::ast::Expr;
use crate::plan::aggregate::has_aggregate;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause, walk};
use crate::plan::scope::Role;
use crate::plan::types::physical_expr;
use crate::plan::{Context, Relations, Session};
use crate::source::{Relation, RelationKind, ScanColumn};
use crate::topic::{Parsed, TopicDefinition, parse, required};

/// The condition of `AS STABLE s WHERE ..`, ready to evaluate over children.
#[derive(Clone, Debug)]
pub struct ChildFilter {
    definition: TopicDefinition,
    columns: Vec<ScanColumn>,
    schema: SchemaRef,
    predicate: Option<Arc<dyn PhysicalExpr>>,
}

impl ChildFilter {
    /// Checks and compiles the condition of a new topic. `sql` is the statement to keep.
    ///
    /// # Errors
    /// `Code::StableNotExist` where the relation is no super table; `Code::Syntax` for columns and unknown names;
    /// `Code::NoAggregation`.
    pub fn create(filter: Option<&Expr>, sql: &str, relation: &Relation, session: &Session) -> Result<Self> {
        if !matches!(relation.kind, RelationKind::Stable(_)) {
            return Err(Error::with(Code::StableNotExist, relation.name()));
        }
        Self::compiled(TopicDefinition::new(sql, relation, session)?, filter)
    }

    /// Compiles a definition read from the log.
    pub fn compile(definition: TopicDefinition) -> Result<Self> {
        let Parsed::Children(filter) = parse(&definition.sql)? else {
            return Err(Error::of(Code::InvalidTopicQuery));
        };
        Self::compiled(definition, filter.as_ref())
    }

    fn compiled(definition: TopicDefinition, filter: Option<&Expr>) -> Result<Self> {
        let bound = filter.map(|f| bind(&definition, f)).transpose()?;
        let (_, sources) = definition.scope("");
        let (columns, schema) = required(sources, bound.iter());
        let df_schema = DFSchema::try_from(Arc::clone(&schema)).map_err(from_datafusion)?;
        let predicate = bound.map(|b| physical_expr(&b, &df_schema)).transpose().map_err(from_datafusion)?;
        Ok(Self { definition, columns, schema, predicate })
    }

    /// What to keep in the log.
    #[must_use]
    pub fn definition(&self) -> &TopicDefinition {
        &self.definition
    }

    /// Tags and name that [`Self::matches`] wants, in this order.
    #[must_use]
    pub fn required(&self) -> &[ScanColumn] {
        &self.columns
    }

    /// Schema of the batches that [`Self::matches`] takes, as `operator::table_batch` makes them.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether every child belongs to the topic.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.predicate.is_none()
    }

    /// Which of the children, one a row, belong to the topic. Never NULL.
    pub fn matches(&self, children: &RecordBatch) -> Result<BooleanArray> {
        let rows = children.num_rows();
        let Some(predicate) = &self.predicate else { return Ok(BooleanArray::from(vec![true; rows])) };
        let mask = predicate.evaluate(children).and_then(|v| v.into_array(rows)).map_err(from_datafusion)?;
        let mask = mask.as_boolean();
        Ok(if mask.null_count() == 0 { mask.clone() } else { arrow::compute::prep_null_mask_filter(mask) })
    }
}

fn bind(definition: &TopicDefinition, filter: &Expr) -> Result<DfExpr> {
    if has_aggregate(filter) {
        return Err(Error::of(Code::NoAggregation));
    }
    let (scope, _) = definition.scope("");
    let mut wrong = None;
    walk(filter, &mut |e| {
        if let Expr::Column { name, quoted, .. } = e {
            let pseudo = !quoted && matches!(&**name, "tbname" | "now" | "today");
            if pseudo {
                return true;
            }
            let timeline = !quoted && matches!(&**name, "_rowts" | "_c0");
            let role = scope.columns().find(|c| *c.name == **name).map(|c| c.role);
            match role {
                Some(Role::Tag | Role::Tbname) => {}
                Some(Role::Data) => wrong = Some("Columns are forbidden in where clause"),
                None if timeline => wrong = Some("Columns are forbidden in where clause"),
                None => wrong = Some("Invalid column name"),
            }
        }
        wrong.is_none()
    });
    if let Some(text) = wrong {
        return Err(Error::text(Code::Syntax, text));
    }
    let (relations, session) = (Relations::new(), definition.session());
    let cx = Context::new(&relations, &session);
    Binder::rows(&cx, &scope, Clause::Where).condition(filter, true)
}
