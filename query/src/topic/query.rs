//! Topics over a SELECT: a filter and a projection of one table's rows.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use model::{Code, Error, Result};

use crate::ast::{Expr, ObjectName, Query, Select, SelectItem, SetExpr, TableRef};
use crate::function;
use crate::plan::aggregate::has_aggregate;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause, walk};
use crate::plan::items::expand;
use crate::plan::select::bind_items;
use crate::plan::types::physical_expr;
use crate::plan::{Context, OutputColumn, Relations, Session, no_table, plan};
use crate::source::{RelationKind, ScanColumn};
use crate::topic::{Parsed, TopicDefinition, parse, required};

/// A topic over a SELECT, ready to evaluate.
#[derive(Clone, Debug)]
pub struct CompiledTopic {
    definition: TopicDefinition,
    columns: Vec<ScanColumn>,
    input: SchemaRef,
    output: Vec<OutputColumn>,
    schema: SchemaRef,
    filter: Option<Arc<dyn PhysicalExpr>>,
    projection: Vec<Arc<dyn PhysicalExpr>>,
}

impl CompiledTopic {
    /// Checks and compiles the SELECT of a new topic. `sql` is the statement to keep: CREATE TOPIC or RELOAD TOPIC's
    /// SELECT.
    ///
    /// # Errors
    /// What the SELECT itself is refused for; `Code::InvalidTopicQuery` for what a topic may not contain;
    /// `Code::DatabaseNotExist` for system tables.
    pub fn create(query: &Query, sql: &str, relations: &Relations, session: &Session) -> Result<Self> {
        check_sql(query, relations, session)?;
        let (select, name) = topic_select(query)?;
        let relation = relations.get(name)?;
        if matches!(relation.kind, RelationKind::System { .. }) {
            return Err(no_table(Code::DatabaseNotExist, name));
        }
        let definition = TopicDefinition::new(sql, relation, session)?;
        Self::compiled(definition, select, &name.name)
    }

    /// Compiles a definition read from the log.
    pub fn compile(definition: TopicDefinition) -> Result<Self> {
        let Parsed::Query(query) = parse(&definition.sql)? else {
            return Err(Error::of(Code::InvalidTopicQuery));
        };
        let (select, name) = topic_select(&query)?;
        Self::compiled(definition, select, &name.name)
    }

    fn compiled(definition: TopicDefinition, select: &Select, table: &str) -> Result<Self> {
        let alias = match &select.from {
            Some(TableRef::Table { alias: Some(alias), .. }) => alias,
            _ => table,
        };
        let (scope, sources) = definition.scope(alias);
        let (relations, session) = (Relations::new(), definition.session());
        let cx = Context::new(&relations, &session);
        let filter = match &select.filter {
            Some(filter) => Some(Binder::rows(&cx, &scope, Clause::Where).condition(filter, true)?),
            None => None,
        };
        let items = expand(&select.items, &scope)?;
        let bound = bind_items(&mut Binder::rows(&cx, &scope, Clause::Select), &items)?;
        let (columns, input) = required(sources, filter.iter().chain(bound.iter().map(|i| &i.value.expr)));
        let df_schema = DFSchema::try_from(Arc::clone(&input)).map_err(from_datafusion)?;
        let physical = |e| physical_expr(e, &df_schema).map_err(from_datafusion);
        let filter = filter.as_ref().map(physical).transpose()?;
        let projection = bound.iter().map(|i| physical(&i.value.expr)).collect::<Result<Vec<_>>>()?;
        let output: Vec<OutputColumn> = bound
            .iter()
            .map(|i| OutputColumn {
                name: i.name.clone(),
                data_type: i.value.ty.declared(),
                precision: i.value.ty.precision,
            })
            .collect();
        let fields: Vec<Field> =
            bound.iter().map(|i| Field::new(&i.name, i.value.ty.arrow(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { definition, columns, input, output, schema, filter, projection })
    }

    /// What to keep in the log.
    #[must_use]
    pub fn definition(&self) -> &TopicDefinition {
        &self.definition
    }

    /// Columns, tags and name that [`Self::evaluate`] wants, in this order. A column that a write did not supply, or that
    /// is no more, is a column of NULLs.
    #[must_use]
    pub fn required(&self) -> &[ScanColumn] {
        &self.columns
    }

    /// Schema of the batches that [`Self::evaluate`] takes. The name of the table is Dictionary(Int32, Utf8).
    #[must_use]
    pub fn input_schema(&self) -> SchemaRef {
        Arc::clone(&self.input)
    }

    /// Columns of the rows that consumers get.
    #[must_use]
    pub fn columns(&self) -> &[OutputColumn] {
        &self.output
    }

    /// Their Arrow schema; names may repeat.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The rows of `batch` that pass, as consumers get them.
    ///
    /// `batch` has the columns of [`Self::required`] in order; names do not matter.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let passed = self.filtered(batch)?;
        let rows = passed.num_rows();
        let mut columns = Vec::with_capacity(self.projection.len());
        for (expr, field) in self.projection.iter().zip(self.schema.fields()) {
            let value = expr.evaluate(&passed).and_then(|v| v.into_array(rows)).map_err(from_datafusion)?;
            let value = if value.data_type() == field.data_type() {
                value
            } else {
                arrow::compute::cast(&value, field.data_type()).map_err(Error::internal)?
            };
            columns.push(value);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(Error::internal)
    }

    fn filtered(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Some(filter) = &self.filter else { return Ok(batch.clone()) };
        let mask =
            filter.evaluate(batch).and_then(|v| v.into_array(batch.num_rows())).map_err(from_datafusion)?;
        let mask = mask.as_boolean();
        if mask.null_count() == 0 && mask.true_count() == mask.len() {
            return Ok(batch.clone());
        }
        // NULL does not pass.
        arrow::compute::filter_record_batch(batch, mask).map_err(Error::internal)
    }
}

/// The errors that the statement would give as a query come first.
fn check_sql(query: &Query, relations: &Relations, session: &Session) -> Result<()> {
    match plan(query, relations, session) {
        Ok(_) => Ok(()),
        // What is not built as a query is refused as a topic all the same, with the topic's own error.
        Err(error) if matches!(error.code(), Code::NotSupported | Code::SelectListOnly) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The one SELECT over one table that a topic may be.
fn topic_select(query: &Query) -> Result<(&Select, &ObjectName)> {
    let refused = || Error::of(Code::InvalidTopicQuery);
    let SetExpr::Select(select) = &query.body else { return Err(refused()) };
    let Some(TableRef::Table { name, .. }) = &select.from else { return Err(refused()) };
    let clauses = !query.order_by.is_empty()
        || query.limit.is_some()
        || query.slimit.is_some()
        || select.distinct
        || select.tags_only
        || !select.partition_by.is_empty()
        || !select.group_by.is_empty()
        || select.having.is_some()
        || select.window.is_some()
        || select.fill.is_some();
    if clauses {
        return Err(refused());
    }
    for item in &select.items {
        if let SelectItem::Expr { expr, .. } = item {
            let mut several = has_aggregate(expr);
            walk(expr, &mut |e| {
                several |= matches!(e, Expr::Function { name, .. } if function::is_multi_row(name));
                !several
            });
            if several {
                return Err(refused());
            }
        }
    }
    Ok((select, name))
}
