//! States of partial aggregations, from what blocks of rows come to.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::Result as DfResult;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CaseExpr, CastExpr, Column, IsNotNullExpr, Literal};
use datafusion::physical_plan::PhysicalExpr;
use model::ColumnId;

use super::is_label;
use crate::function::pick;
use crate::source::{BlockSum, ScanColumn, Summand, SummedBlocks, TimeRange};

/// What a state holds of a block.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Rows,
    Count(ColumnId),
    Sum(ColumnId),
    Min(ColumnId),
    Max(ColumnId),
    /// Of a column that has a value in every row, the one of the block's last row, else of its first.
    Picked {
        column: ColumnId,
        last: bool,
    },
    /// That row's time.
    Time {
        last: bool,
    },
    /// As [`Self::Time`], once this column has a value in every row.
    TimeOf {
        column: ColumnId,
        last: bool,
    },
    /// Something that the rows of a table have in common.
    Label(Arc<dyn PhysicalExpr>),
    /// That there is a row.
    Seen,
}

impl Wanted {
    /// What the shard has to know for it.
    pub(super) fn summand(&self) -> Option<Summand> {
        match *self {
            Self::Count(column) | Self::Sum(column) | Self::Min(column) | Self::Max(column) => {
                Some(Summand { column, in_every_row: false })
            }
            Self::Picked { column, .. } | Self::TimeOf { column, .. } => {
                Some(Summand { column, in_every_row: true })
            }
            Self::Rows | Self::Time { .. } | Self::Label(_) | Self::Seen => None,
        }
    }
}

/// One column of a partial aggregation's states.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) wanted: Wanted,
    /// How the 64 bits of a value are to be read.
    values: Values,
    data_type: DataType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Signed,
    Unsigned,
    Float,
}

impl Values {
    fn of(data_type: &DataType) -> Option<Self> {
        if data_type.is_signed_integer() {
            Some(Self::Signed)
        } else if data_type.is_unsigned_integer() {
            Some(Self::Unsigned)
        } else {
            matches!(data_type, DataType::Float32 | DataType::Float64).then_some(Self::Float)
        }
    }
}

impl State {
    /// The states of a call on columns of `schema`; `None` for one that blocks do not answer.
    pub(super) fn of(
        call: &AggregateFunctionExpr,
        columns: &[ScanColumn],
        schema: &SchemaRef,
    ) -> Option<Vec<Self>> {
        if call.is_distinct() || !call.order_bys().is_empty() {
            return None;
        }
        let fields = call.state_fields().ok()?;
        let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
        let args = call.expressions();
        if let Some(last) = pick::by_time(call.fun()) {
            return Self::of_pick(last, &args, &types, columns, schema);
        }
        let [arg] = args.as_slice() else { return None };
        let name = call.fun().name();
        let rows = || vec![Self { wanted: Wanted::Rows, values: Values::Signed, data_type: DataType::Int64 }];
        if let Some(literal) = arg.downcast_ref::<Literal>() {
            return (name == "count" && !literal.value().is_null() && types == [&DataType::Int64]).then(rows);
        }
        // Sums cast to the type of their result.
        let (inner, is_cast) = match arg.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr(), true),
            None => (arg, false),
        };
        let (id, place) = data_column(inner, columns)?;
        if id == ColumnId::TIMESTAMP {
            return (name == "count" && types == [&DataType::Int64]).then(rows);
        }
        let column_type = schema.fields().get(place)?.data_type();
        let values = Values::of(column_type)?;
        let state = |wanted, data_type: &DataType| Self { wanted, values, data_type: data_type.clone() };
        // Sums of blocks have 64 bits, which those of 64-bit integers may leave. Of narrower ones they need 45, and a double
        // has 53.
        let can_sum = |to: &DataType| match values {
            Values::Float => *to == DataType::Float64,
            _ => {
                column_type.primitive_width() <= Some(4)
                    && (Values::of(to).is_some())
                    && to.primitive_width() == Some(8)
            }
        };
        Some(match (name, types.as_slice()) {
            ("count", [to @ DataType::Int64]) if !is_cast => vec![state(Wanted::Count(id), to)],
            ("sum", [to]) if can_sum(to) => vec![state(Wanted::Sum(id), to)],
            ("avg", [count @ DataType::UInt64, to]) if can_sum(to) => {
                vec![state(Wanted::Count(id), count), state(Wanted::Sum(id), to)]
            }
            ("min", [to]) if !is_cast => vec![state(Wanted::Min(id), to)],
            ("max", [to]) if !is_cast => vec![state(Wanted::Max(id), to)],
            _ => return None,
        })
    }

    /// Of the choice of the last or first row: its key, its time, values, and that there is one.
    fn of_pick(
        last: bool,
        args: &[Arc<dyn PhysicalExpr>],
        types: &[&DataType],
        columns: &[ScanColumn],
        schema: &SchemaRef,
    ) -> Option<Vec<Self>> {
        let ([key, time, values @ ..], [key_type, time_type, value_types @ .., seen_type]) = (args, types)
        else {
            return None;
        };
        let is_time = |expr: &Arc<dyn PhysicalExpr>| {
            let ticks = expr.downcast_ref::<CastExpr>().filter(|cast| *cast.cast_type() == DataType::Int64);
            let inner = ticks.map_or(expr, CastExpr::expr);
            matches!(data_column(inner, columns), Some((ColumnId::TIMESTAMP, _)))
        };
        if !is_time(time) || values.len() != value_types.len() {
            return None;
        }
        let signed = |wanted, data_type: &DataType| Self {
            wanted,
            values: Values::Signed,
            data_type: data_type.clone(),
        };
        let mut states = Vec::with_capacity(types.len());
        if is_time(key) {
            states.push(signed(Wanted::Time { last }, key_type));
        } else {
            let (column, _) = data_column(known_at(key, time)?, columns)?;
            states.push(signed(Wanted::TimeOf { column, last }, key_type));
        }
        states.push(signed(Wanted::Time { last }, time_type));
        for (value, data_type) in values.iter().zip(value_types) {
            states.push(match data_column(value, columns) {
                Some((ColumnId::TIMESTAMP, _)) => signed(Wanted::Time { last }, data_type),
                Some((column, place)) => Self {
                    wanted: Wanted::Picked { column, last },
                    values: Values::of(schema.fields().get(place)?.data_type())?,
                    data_type: (*data_type).clone(),
                },
                None if is_label(value, columns) => signed(Wanted::Label(Arc::clone(value)), data_type),
                None => return None,
            });
        }
        states.push(signed(Wanted::Seen, seen_type));
        // Sums are of numbers only.
        let mut summed = states.iter().filter_map(|state| state.wanted.summand());
        let is_number = |summand: Summand| {
            let place =
                columns.iter().position(|c| matches!(c, ScanColumn::Column(id) if *id == summand.column));
            place.and_then(|at| schema.fields().get(at)).is_some_and(|f| Values::of(f.data_type()).is_some())
        };
        summed.all(is_number).then_some(states)
    }

    /// The state of each block.
    pub(super) fn array(&self, blocks: &SummedBlocks, summands: &[Summand]) -> DfResult<ArrayRef> {
        let column = |id: ColumnId| {
            let at = summands.iter().position(|held| held.column == id);
            at.and_then(|at| blocks.sums.get(at)).map(Vec::as_slice).unwrap_or_default()
        };
        let counts = |numbers: &mut dyn Iterator<Item = u64>| -> ArrayRef {
            Arc::new(numbers.map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect::<Int64Array>())
        };
        let array = match &self.wanted {
            Wanted::Rows => counts(&mut blocks.rows.iter().copied()),
            Wanted::Count(id) => counts(&mut column(*id).iter().map(|sum| sum.count)),
            Wanted::Sum(id) => self.values(column(*id), |sum| sum.sum),
            Wanted::Min(id) => self.values(column(*id), |sum| sum.min),
            Wanted::Max(id) => self.values(column(*id), |sum| sum.max),
            Wanted::Picked { column: id, last: true } => self.values(column(*id), |sum| sum.last),
            Wanted::Picked { column: id, last: false } => self.values(column(*id), |sum| sum.first),
            Wanted::Time { last } | Wanted::TimeOf { last, .. } => {
                let tick = |time: &TimeRange| if *last { time.last_inclusive } else { time.first };
                Arc::new(blocks.times.iter().map(tick).collect::<Int64Array>())
            }
            Wanted::Label(label) => label.evaluate(&blocks.labels)?.into_array(blocks.rows.len())?,
            Wanted::Seen => Arc::new(BooleanArray::from(vec![true; blocks.rows.len()])),
        };
        Ok(cast(&array, &self.data_type)?)
    }

    fn values(&self, sums: &[BlockSum], of: impl Fn(&BlockSum) -> u64) -> ArrayRef {
        let bits = sums.iter().map(|sum| (sum.count > 0).then(|| of(sum)));
        match self.values {
            Values::Signed => Arc::new(bits.map(|v| v.map(u64::cast_signed)).collect::<Int64Array>()),
            Values::Unsigned => Arc::new(bits.collect::<UInt64Array>()),
            Values::Float => Arc::new(bits.map(|v| v.map(f64::from_bits)).collect::<Float64Array>()),
        }
    }
}

/// The data column that an expression is, and its place among the columns of the scan.
fn data_column(expr: &Arc<dyn PhysicalExpr>, columns: &[ScanColumn]) -> Option<(ColumnId, usize)> {
    let place = expr.downcast_ref::<Column>()?.index();
    match columns.get(place)? {
        ScanColumn::Column(id) => Some((*id, place)),
        _ => None,
    }
}

/// What `key` asks to be known: it is the time of rows with a value of it.
fn known_at<'a>(
    key: &'a Arc<dyn PhysicalExpr>,
    time: &Arc<dyn PhysicalExpr>,
) -> Option<&'a Arc<dyn PhysicalExpr>> {
    let case = key.downcast_ref::<CaseExpr>()?;
    let [(when, then)] = case.when_then_expr() else { return None };
    if case.expr().is_some() || case.else_expr().is_some() || then != time {
        return None;
    }
    Some(when.downcast_ref::<IsNotNullExpr>()?.arg())
}
