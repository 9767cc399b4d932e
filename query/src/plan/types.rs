//! Types of expressions: the dialect's type beside Arrow's, which cannot tell VARCHAR from NCHAR.

use std::sync::Arc;

use arrow_schema::DataType as Arrow;
use datafusion::common::{Column, DFSchema, Result as DfResult, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, lit};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use model::{DataType, Error, Precision, Result};

use crate::plan::error::from_datafusion;

/// Type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ty {
    /// `None`: the literal NULL, of no type yet.
    pub(crate) data: Option<DataType>,
    /// Of TIMESTAMP values.
    pub(crate) precision: Precision,
}

impl Ty {
    pub(crate) const fn of(data: DataType, precision: Precision) -> Self {
        Self { data: Some(data), precision }
    }

    /// A type that is no TIMESTAMP.
    pub(crate) const fn plain(data: DataType) -> Self {
        Self { data: Some(data), precision: Precision::Ms }
    }

    pub(crate) const NULL: Self = Self { data: None, precision: Precision::Ms };

    /// What a result column of this type is declared as: NULL without a type is shown as VARCHAR.
    pub(crate) fn declared(self) -> DataType {
        self.data.unwrap_or(DataType::Varchar(1))
    }

    pub(crate) fn arrow(self) -> Arrow {
        self.declared().arrow(self.precision)
    }

    pub(crate) fn is_null(self) -> bool {
        self.data.is_none()
    }

    pub(crate) fn is_string(self) -> bool {
        self.data.is_some_and(DataType::is_string)
    }

    pub(crate) fn is_binary(self) -> bool {
        self.data.is_some_and(DataType::is_binary)
    }

    pub(crate) fn is_numeric(self) -> bool {
        self.data.is_some_and(DataType::is_numeric)
    }

    pub(crate) fn is_integer(self) -> bool {
        self.data.is_some_and(DataType::is_integer)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self.data, Some(DataType::Float | DataType::Double))
    }

    pub(crate) fn is_bool(self) -> bool {
        self.data == Some(DataType::Bool)
    }

    pub(crate) fn is_timestamp(self) -> bool {
        self.data == Some(DataType::Timestamp)
    }

    pub(crate) fn is_unsigned(self) -> bool {
        matches!(
            self.data,
            Some(DataType::UTinyInt | DataType::USmallInt | DataType::UInt | DataType::UBigInt)
        )
    }
}

/// A bound expression and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Ty,
    /// It is the timeline of its relation, untouched.
    pub(crate) timeline: bool,
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: Ty) -> Self {
        Self { expr, ty, timeline: false }
    }

    pub(crate) fn null() -> Self {
        Self::new(lit(ScalarValue::Utf8(None)), Ty::NULL)
    }

    pub(crate) fn literal(value: ScalarValue, ty: Ty) -> Self {
        Self::new(lit(value), ty)
    }

    pub(crate) fn bool(expr: Expr) -> Self {
        Self::new(expr, Ty::plain(DataType::Bool))
    }

    pub(crate) fn double(expr: Expr) -> Self {
        Self::new(expr, Ty::plain(DataType::Double))
    }

    pub(crate) fn bigint(expr: Expr) -> Self {
        Self::new(expr, Ty::plain(DataType::BigInt))
    }

    /// Ticks as a TIMESTAMP literal.
    pub(crate) fn timestamp(ticks: Option<i64>, precision: Precision) -> Self {
        Self::literal(timestamp_scalar(ticks, precision), Ty::of(DataType::Timestamp, precision))
    }

    pub(crate) fn column(column: Column, ty: Ty) -> Self {
        Self::new(Expr::Column(column), ty)
    }

    /// The value where the expression is a literal.
    pub(crate) fn constant(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// An integer constant.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self.constant()? {
            ScalarValue::Int64(v) => *v,
            ScalarValue::Int32(v) => v.map(i64::from),
            ScalarValue::UInt64(v) => v.and_then(|v| i64::try_from(v).ok()),
            _ => None,
        }
    }

    /// A text constant.
    pub(crate) fn text(&self) -> Option<&str> {
        match self.constant()? {
            ScalarValue::Utf8(v) => v.as_deref(),
            _ => None,
        }
    }

    /// Evaluates an expression without columns to a literal, so that later stages can see its value.
    pub(crate) fn folded(self) -> Result<Self> {
        if self.constant().is_some() || self.expr.is_volatile() || self.expr.any_column_refs() {
            return Ok(self);
        }
        let schema = DFSchema::empty();
        let physical = physical_expr(&self.expr, &schema).map_err(from_datafusion)?;
        let row = arrow::record_batch::RecordBatch::try_new_with_options(
            Arc::new(arrow_schema::Schema::empty()),
            vec![],
            &arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(1)),
        )
        .map_err(Error::internal)?;
        let value = physical.evaluate(&row).map_err(from_datafusion)?;
        let array = value.into_array(1).map_err(from_datafusion)?;
        let scalar = ScalarValue::try_from_array(&array, 0).map_err(from_datafusion)?;
        Ok(Self { expr: lit(scalar), ..self })
    }

    /// Arrow's own cast, for conversions that lose nothing.
    pub(crate) fn arrow_cast(self, to: DataType) -> Result<Self> {
        let ty = Ty::of(to, self.ty.precision);
        if self.ty.arrow() == ty.arrow() {
            return Ok(Self { ty, ..self });
        }
        if let Some(value) = self.constant() {
            let value = value.cast_to(&ty.arrow()).map_err(from_datafusion)?;
            return Ok(Self::literal(value, ty));
        }
        Ok(Self::new(datafusion::logical_expr::cast(self.expr, ty.arrow()), ty))
    }
}

/// An expression over columns of `schema`, ready to evaluate.
pub(crate) fn physical_expr(expr: &Expr, schema: &DFSchema) -> DfResult<Arc<dyn PhysicalExpr>> {
    create_physical_expr(expr, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
}

/// Ticks as an Arrow scalar.
pub(crate) fn timestamp_scalar(ticks: Option<i64>, precision: Precision) -> ScalarValue {
    match precision {
        Precision::Ms => ScalarValue::TimestampMillisecond(ticks, None),
        Precision::Us => ScalarValue::TimestampMicrosecond(ticks, None),
        Precision::Ns => ScalarValue::TimestampNanosecond(ticks, None),
    }
}

/// Ticks of a TIMESTAMP scalar.
pub(crate) fn scalar_ticks(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampMillisecond(v, _)
        | ScalarValue::TimestampMicrosecond(v, _)
        | ScalarValue::TimestampNanosecond(v, _) => *v,
        _ => None,
    }
}
