//! FROM: tables, subqueries and joins.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, Schema, TimeUnit as ArrowUnit};
use datafusion::common::{Column, JoinType};
use datafusion::datasource::{MemTable, TableProvider, provider_as_source};
use datafusion::logical_expr::{BinaryExpr, Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator};
use model::{Code, ColumnDef, ColumnId, DataType, Error, Precision, Result, TableKind};

use crate::ast::{Expr, JoinKind, ObjectName, Query, TableRef};
use crate::function::time;
use crate::operator::pushdown::conjuncts;
use crate::operator::scan::{Reading, ShardTable};
use crate::plan::Context;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause};
use crate::plan::scope::{ColumnNames, Role, Scope, ScopeColumn, ScopeTable, SourceKind};
use crate::plan::types::Ty;
use crate::plan::union::plan_query;
use crate::source::{Relation, RelationKind, ScanColumn};

/// How `tbname` is declared: a name has at most 192 bytes, TDengine's clients are told 270.
pub(crate) const TBNAME: DataType = DataType::Varchar(270);

/// A planned FROM.
pub(crate) struct From {
    pub(crate) plan: LogicalPlan,
    pub(crate) scope: Scope,
    /// An inner join still without equality of timestamps: WHERE has to give it.
    pub(crate) needs_time_equality: bool,
}

/// Plans FROM.
pub(crate) fn plan_from(cx: &Context<'_>, table: &TableRef, reading: Reading) -> Result<From> {
    match table {
        TableRef::Table { name, alias } => plan_table(cx, name, alias.as_deref(), reading),
        TableRef::Subquery { query, alias } => plan_subquery(cx, query, alias.as_deref()),
        TableRef::Join { left, right, kind, on } => plan_join(cx, left, right, *kind, on.as_ref()),
    }
}

fn plan_table(cx: &Context<'_>, name: &ObjectName, alias: Option<&str>, reading: Reading) -> Result<From> {
    let relation = cx.relations.get(name)?;
    let alias: Arc<str> = alias.unwrap_or(&name.name).into();
    let number = cx.unique();
    let (provider, mut table) = relation_table(relation, number, reading)?;
    cx.shards.set(cx.shards.get().max(relation.shards.len()));
    table.alias = Some(alias);
    let qualifier = format!("r{number}");
    for column in &mut table.columns {
        column.column = Column::new(Some(qualifier.as_str()), column.column.name.clone());
    }
    let plan = LogicalPlanBuilder::scan(qualifier, provider_as_source(provider), None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    let driving = table.timeline.map(|_| 0);
    Ok(From { plan, scope: Scope { tables: vec![table], driving }, needs_time_equality: false })
}

/// The relation as a table of DataFusion, under column names that end in `number`.
pub(crate) fn relation_table(
    relation: &Relation,
    number: usize,
    reading: Reading,
) -> Result<(Arc<dyn TableProvider>, ScopeTable)> {
    if let RelationKind::System { batch, .. } = &relation.kind {
        return system_table(batch, number);
    }
    let (source, table) = shard_table(relation, number, reading)?;
    Ok((Arc::new(source), table))
}

/// A relation of shards as a table, under column names that end in `number`.
pub(crate) fn shard_table(
    relation: &Relation,
    number: usize,
    reading: Reading,
) -> Result<(ShardTable, ScopeTable)> {
    let precision = relation.database.options.precision;
    let (kind, uid, child, schema) = match &relation.kind {
        RelationKind::Stable(stable) => (SourceKind::Stable, stable.uid, None, &stable.schema),
        RelationKind::Child { table, stable } => {
            (SourceKind::Child, stable.uid, Some(table.uid), &stable.schema)
        }
        RelationKind::Normal(table) => match &table.kind {
            TableKind::Normal { schema } => (SourceKind::Normal, table.uid, None, schema),
            TableKind::Child { .. } => return Err(Error::internal("a child given as a normal table")),
        },
        RelationKind::System { .. } => return Err(Error::of(Code::SystemTable)),
    };
    let mut maker = Maker {
        number,
        precision,
        columns: Vec::new(),
        fields: Vec::new(),
        scan: Vec::new(),
        widths: Vec::new(),
    };
    if reading == Reading::Rows {
        for column in &schema.columns {
            maker.add(column, Role::Data);
        }
    }
    for tag in &schema.tags {
        maker.add(tag, Role::Tag);
    }
    maker.add_tbname();
    let source = ShardTable {
        relation: uid,
        child,
        shards: relation.shards.clone(),
        columns: maker.scan,
        widths: maker.widths,
        schema: Arc::new(Schema::new(maker.fields)),
        reading,
        single: kind.is_single(),
        key: schema.key().map(|key| key.id),
        tag_ids: schema.tags.iter().map(|t| t.id).collect(),
    };
    let rows = reading == Reading::Rows;
    let table = ScopeTable {
        alias: None,
        kind,
        columns: maker.columns,
        timeline: rows.then_some(0),
        key: schema.key().filter(|_| rows).map(|_| 1),
        ordered: rows && kind.is_single(),
        precision,
        names: ColumnNames::default(),
    };
    Ok((source, table))
}

/// Collects the columns of a table.
struct Maker {
    number: usize,
    precision: Precision,
    columns: Vec<ScopeColumn>,
    fields: Vec<Field>,
    scan: Vec<ScanColumn>,
    widths: Vec<u32>,
}

impl Maker {
    fn add(&mut self, column: &ColumnDef, role: Role) {
        let ty = Ty::of(column.data_type, self.precision);
        // The primary key is never NULL, which lets DataFusion drop conditions on it.
        let nullable = column.id != ColumnId::TIMESTAMP && !column.is_key;
        let scan =
            if role == Role::Data { ScanColumn::Column(column.id) } else { ScanColumn::Tag(column.id) };
        self.widths.push(column.data_type.row_bytes());
        self.push(&column.name, ty, ty.arrow(), nullable, role, scan);
    }

    fn add_tbname(&mut self) {
        let names = Arrow::Dictionary(Box::new(Arrow::Int32), Box::new(Arrow::Utf8));
        let ty = Ty::plain(TBNAME);
        self.widths.push(TBNAME.row_bytes());
        self.push("tbname", ty, names, true, Role::Tbname, ScanColumn::Tbname);
    }

    fn push(&mut self, name: &str, ty: Ty, arrow: Arrow, nullable: bool, role: Role, scan: ScanColumn) {
        let unique = match role {
            Role::Tbname => format!("#tbname#{}", self.number),
            _ => format!("{name}#{}", self.number),
        };
        self.fields.push(Field::new(unique.clone(), arrow, nullable));
        self.columns.push(ScopeColumn {
            name: name.into(),
            column: Column::new_unqualified(unique),
            ty,
            role,
            nameless: false,
        });
        self.scan.push(scan);
    }
}

fn system_table(
    batch: &arrow::record_batch::RecordBatch,
    number: usize,
) -> Result<(Arc<dyn TableProvider>, ScopeTable)> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for field in batch.schema().fields() {
        let ty = declared_type(field.data_type())?;
        let unique = format!("{}#{number}", field.name());
        fields.push(Field::new(unique.clone(), field.data_type().clone(), true));
        columns.push(ScopeColumn {
            name: field.name().as_str().into(),
            column: Column::new_unqualified(unique),
            ty,
            role: Role::Data,
            nameless: false,
        });
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = arrow::record_batch::RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())
        .map_err(Error::internal)?;
    let provider = MemTable::try_new(schema, vec![vec![batch]]).map_err(from_datafusion)?;
    let table = ScopeTable {
        alias: None,
        kind: SourceKind::System,
        columns,
        timeline: None,
        key: None,
        ordered: false,
        precision: Precision::Ms,
        names: ColumnNames::default(),
    };
    Ok((Arc::new(provider), table))
}

/// What a system table's Arrow column is declared as.
fn declared_type(arrow: &Arrow) -> Result<Ty> {
    Ok(Ty::plain(match arrow {
        Arrow::Boolean => DataType::Bool,
        Arrow::Int8 => DataType::TinyInt,
        Arrow::Int16 => DataType::SmallInt,
        Arrow::Int32 => DataType::Int,
        Arrow::Int64 => DataType::BigInt,
        Arrow::UInt8 => DataType::UTinyInt,
        Arrow::UInt16 => DataType::USmallInt,
        Arrow::UInt32 => DataType::UInt,
        Arrow::UInt64 => DataType::UBigInt,
        Arrow::Float32 => DataType::Float,
        Arrow::Float64 => DataType::Double,
        Arrow::Utf8 => DataType::Varchar(2048),
        Arrow::Timestamp(unit, None) => {
            let precision = match unit {
                ArrowUnit::Microsecond => Precision::Us,
                ArrowUnit::Nanosecond => Precision::Ns,
                _ => Precision::Ms,
            };
            return Ok(Ty::of(DataType::Timestamp, precision));
        }
        other => return Err(Error::internal(format_args!("system table column of type {other}"))),
    }))
}

fn plan_subquery(cx: &Context<'_>, query: &Query, alias: Option<&str>) -> Result<From> {
    let planned = plan_query(cx, query)?;
    let columns: Vec<ScopeColumn> = planned
        .columns
        .iter()
        .map(|c| ScopeColumn {
            name: c.name.as_str().into(),
            column: c.column.clone(),
            ty: c.ty,
            role: Role::Data,
            nameless: c.nameless,
        })
        .collect();
    let timeline = planned.columns.iter().position(|c| c.timeline);
    let precision = columns.iter().find(|c| c.ty.is_timestamp()).map_or(Precision::Ms, |c| c.ty.precision);
    let table = ScopeTable {
        alias: alias.map(Into::into),
        kind: SourceKind::Subquery,
        columns,
        timeline,
        key: None,
        ordered: planned.ordered,
        precision,
        names: ColumnNames::default(),
    };
    let scope = Scope { tables: vec![table], driving: timeline.map(|_| 0) };
    Ok(From { plan: planned.plan, scope, needs_time_equality: false })
}

fn plan_join(
    cx: &Context<'_>,
    left: &TableRef,
    right: &TableRef,
    kind: JoinKind,
    on: Option<&Expr>,
) -> Result<From> {
    let nested = |t: &TableRef| matches!(t, TableRef::Join { .. });
    let outer = |t: &TableRef| matches!(t, TableRef::Join { kind, .. } if *kind != JoinKind::Inner);
    if (kind != JoinKind::Inner && (nested(left) || nested(right))) || outer(left) || outer(right) {
        return Err(Error::text(Code::JoinInput, "unsupported nested join type"));
    }
    let l = plan_from(cx, left, Reading::Rows)?;
    let r = plan_from(cx, right, Reading::Rows)?;
    if l.scope.driving.is_none() || r.scope.driving.is_none() {
        return Err(Error::of(Code::JoinInput));
    }
    let left_tables = l.scope.tables.len();
    let mut tables = l.scope.tables;
    tables.extend(r.scope.tables);
    for (index, table) in tables.iter().enumerate() {
        if table.alias.is_some() && tables.iter().take(index).any(|t| t.alias == table.alias) {
            return Err(Error::of(Code::DuplicateAlias));
        }
    }
    let driving = match kind {
        JoinKind::FullOuter => None,
        JoinKind::RightOuter | JoinKind::RightSemi | JoinKind::RightAnti => Some(left_tables),
        _ => Some(0),
    };
    let mut scope = Scope { tables, driving };
    let Some(on) = on else {
        if kind != JoinKind::Inner {
            return Err(Error::of(Code::CrossJoin));
        }
        let plan = LogicalPlanBuilder::from(l.plan)
            .cross_join(r.plan)
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        return Ok(From { plan, scope, needs_time_equality: true });
    };
    let condition = Binder::rows(cx, &scope, Clause::On).condition(on, true)?;
    let has_time = check_condition(&condition, &scope)?;
    if !has_time {
        return Err(Error::of(Code::JoinCondition));
    }
    let (join, anti) = match kind {
        JoinKind::Inner => (JoinType::Inner, None),
        JoinKind::LeftOuter => (JoinType::Left, None),
        JoinKind::RightOuter => (JoinType::Right, None),
        JoinKind::FullOuter => (JoinType::Full, None),
        JoinKind::LeftSemi => (JoinType::LeftSemi, None),
        JoinKind::RightSemi => (JoinType::RightSemi, None),
        // The other side's columns are selectable and NULL: an outer join less its matches.
        JoinKind::LeftAnti => (JoinType::Left, scope.tables.get(left_tables)),
        JoinKind::RightAnti => (JoinType::Right, scope.tables.first()),
    };
    let mut parts = Vec::new();
    let condition = cx.bounded(&condition);
    conjuncts(&condition, &mut parts);
    let parts: Vec<DfExpr> = parts.into_iter().cloned().collect();
    let mut builder =
        LogicalPlanBuilder::from(l.plan).join_on(r.plan, join, parts).map_err(from_datafusion)?;
    if let Some(column) = anti.and_then(|t| t.timeline.and_then(|i| t.columns.get(i))) {
        builder = builder.filter(DfExpr::Column(column.column.clone()).is_null()).map_err(from_datafusion)?;
    }
    match kind {
        JoinKind::LeftSemi => scope.tables.truncate(left_tables),
        JoinKind::RightSemi => {
            scope.tables.drain(..left_tables);
            scope.driving = Some(0);
        }
        _ => {}
    }
    let needs_time_equality = l.needs_time_equality || r.needs_time_equality;
    Ok(From { plan: builder.build().map_err(from_datafusion)?, scope, needs_time_equality })
}

/// Whether the condition equates the timestamps of two tables. Alternatives are refused.
pub(crate) fn check_condition(condition: &DfExpr, scope: &Scope) -> Result<bool> {
    let mut parts = Vec::new();
    conjuncts(condition, &mut parts);
    let mut found = false;
    for part in parts {
        if let DfExpr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) = part {
            return Err(Error::of(Code::JoinConditionUnsupported));
        }
        found |= is_time_equality(part, scope);
    }
    Ok(found)
}

/// `a.ts = b.ts`, each side possibly inside a function of time.
pub(crate) fn is_time_equality(expr: &DfExpr, scope: &Scope) -> bool {
    let DfExpr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return false };
    let side = |e: &DfExpr| {
        // The timestamp itself, or inside TIMETRUNCATE; arithmetic on it is no equality of timestamps.
        let bare = match e {
            DfExpr::Cast(cast) => cast.expr.as_ref(),
            e => e,
        };
        match bare {
            DfExpr::Column(_) => {}
            DfExpr::ScalarFunction(f) if !f.name().starts_with(time::SHIFTED) => {}
            _ => return None,
        }
        let refs = e.column_refs();
        let mut refs = refs.into_iter();
        match (refs.next(), refs.next()) {
            (Some(c), None) if scope.is_timeline(c) => Some(c.clone()),
            _ => None,
        }
    };
    matches!((side(left), side(right)), (Some(a), Some(b)) if a != b)
}
