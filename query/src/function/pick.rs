//! The choice of one row: what FIRST, LAST, LAST_ROW, MIN and MAX share.
//!
//! The function answers with values of the row whose key is the smallest or largest, so that a SELECT can show other
//! columns of that very row.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::datatypes::Int64Type;
use arrow_schema::{DataType as Arrow, Field, FieldRef, Fields, SortOptions};
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};

/// Which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pick {
    /// Largest key, else smallest. NULL is no key; where no row has one, time alone decides.
    pub(crate) key_largest: bool,
    /// Among equal keys the latest row, else the earliest; of rows of one instant that with the largest composite key,
    /// else the smallest.
    pub(crate) time_largest: bool,
}

/// Name of the `index`-th value in the answer.
pub(crate) fn field(index: usize) -> String {
    format!("c{index}")
}

/// A call: key, time in ticks, what decides among rows of one instant where there are several, then the values wanted of
/// the row.
pub(crate) fn call(
    pick: Pick,
    key: Expr,
    time: Expr,
    tie: Option<Expr>,
    values: impl Iterator<Item = Expr>,
) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = PickFunction { pick, has_tie: tie.is_some(), signature };
    let arguments = [key, time].into_iter().chain(tie).chain(values);
    AggregateUDF::new_from_impl(function).call(arguments.collect())
}

/// Whether `function` picks the row with the largest key and time, or with the smallest of both; `None` for others.
pub(crate) fn by_time(function: &AggregateUDF) -> Option<bool> {
    let function = function.inner().downcast_ref::<PickFunction>().filter(|function| !function.has_tie)?;
    let Pick { key_largest, time_largest } = function.pick;
    (key_largest == time_largest).then_some(time_largest)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PickFunction {
    pick: Pick,
    has_tie: bool,
    signature: Signature,
}

impl AggregateUDFImpl for PickFunction {
    fn name(&self) -> &str {
        match (self.pick.key_largest, self.pick.time_largest) {
            (true, true) => "pick_last",
            (true, false) => "pick_largest",
            (false, true) => "pick_smallest_last",
            (false, false) => "pick_smallest",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[Arrow]) -> DfResult<Vec<Arrow>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[Arrow]) -> DfResult<Arrow> {
        Ok(Arrow::Struct(value_fields(arguments, self.has_tie)))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let types: Vec<Arrow> = args.expr_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Box::new(PickAccumulator::new(self.pick, self.has_tie, &types)?))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        // The last field tells a row of NULLs from no row.
        let seen = Field::new(format_state_name(args.name, "seen"), Arrow::Boolean, true);
        Ok(args
            .input_fields
            .iter()
            .enumerate()
            .map(|(i, f)| {
                Arc::new(Field::new(
                    format_state_name(args.name, &i.to_string()),
                    f.data_type().clone(),
                    true,
                ))
            })
            .chain([Arc::new(seen)])
            .collect())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Arguments before the values.
const fn heads(has_tie: bool) -> usize {
    if has_tie { 3 } else { 2 }
}

fn value_fields(arguments: &[Arrow], has_tie: bool) -> Fields {
    arguments
        .iter()
        .skip(heads(has_tie))
        .enumerate()
        .map(|(i, t)| Field::new(field(i), t.clone(), true))
        .collect()
}

#[derive(Debug)]
struct PickAccumulator {
    pick: Pick,
    has_tie: bool,
    fields: Fields,
    /// Key, time, tie and values of the best row so far.
    best: Vec<ScalarValue>,
    seen: bool,
}

impl PickAccumulator {
    fn new(pick: Pick, has_tie: bool, types: &[Arrow]) -> DfResult<Self> {
        let best = types.iter().map(ScalarValue::try_from).collect::<DfResult<_>>()?;
        Ok(Self { pick, has_tie, fields: value_fields(types, has_tie), best, seen: false })
    }

    /// Takes the best row of a batch where it beats the one held.
    fn take(&mut self, arrays: &[ArrayRef], rows: impl Iterator<Item = usize>) -> DfResult<()> {
        let [key, time, ..] = arrays else { return internal_err!("a key and a time expected") };
        let ascending = SortOptions::default();
        let compare = arrow::array::make_comparator(key, key, ascending)?;
        let tie = match arrays.get(2).filter(|_| self.has_tie) {
            Some(tie) => Some(arrow::array::make_comparator(tie, tie, ascending)?),
            None => None,
        };
        let times = time.as_primitive_opt::<Int64Type>();
        let tick = |row: usize| times.filter(|t| t.is_valid(row)).map(|t| t.value(row));
        let mut winner: Option<usize> = None;
        for row in rows {
            let better = match winner {
                None => true,
                Some(best) => {
                    let keys = match (key.is_valid(row), key.is_valid(best)) {
                        (true, true) => self.directed(compare(row, best)),
                        (valid, other) => valid.cmp(&other),
                    };
                    let order = keys.then(self.directed_time(tick(row), tick(best)));
                    let tied = |tie: &arrow::array::DynComparator| self.towards(tie(row, best));
                    order.then_with(|| tie.as_ref().map_or(Ordering::Equal, tied)) == Ordering::Greater
                }
            };
            if better {
                winner = Some(row);
            }
        }
        let Some(winner) = winner else { return Ok(()) };
        let candidate =
            arrays.iter().map(|a| ScalarValue::try_from_array(a, winner)).collect::<DfResult<Vec<_>>>()?;
        if !self.seen || self.beats(&candidate) {
            self.best = candidate;
            self.seen = true;
        }
        Ok(())
    }

    fn directed(&self, order: Ordering) -> Ordering {
        if self.pick.key_largest { order } else { order.reverse() }
    }

    fn towards(&self, order: Ordering) -> Ordering {
        if self.pick.time_largest { order } else { order.reverse() }
    }

    fn directed_time(&self, a: Option<i64>, b: Option<i64>) -> Ordering {
        self.towards(a.cmp(&b))
    }

    fn beats(&self, candidate: &[ScalarValue]) -> bool {
        let ([key, time, ..], [best_key, best_time, ..]) = (candidate, self.best.as_slice()) else {
            return false;
        };
        let keys = match (!key.is_null(), !best_key.is_null()) {
            (true, true) => self.directed(key.partial_cmp(best_key).unwrap_or(Ordering::Equal)),
            (valid, other) => valid.cmp(&other),
        };
        let tick = |v: &ScalarValue| if let ScalarValue::Int64(v) = v { *v } else { None };
        let tied = match (candidate.get(2), self.best.get(2)) {
            (Some(tie), Some(best)) if self.has_tie => tie.partial_cmp(best).unwrap_or(Ordering::Equal),
            _ => Ordering::Equal,
        };
        let order = keys.then(self.directed_time(tick(time), tick(best_time)));
        order.then(self.towards(tied)) == Ordering::Greater
    }
}

impl Accumulator for PickAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let rows = values.first().map_or(0, Array::len);
        self.take(values, 0..rows)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let arrays = self
            .best
            .iter()
            .skip(heads(self.has_tie))
            .map(|v| v.to_array_of_size(1))
            .collect::<DfResult<Vec<ArrayRef>>>()?;
        if arrays.is_empty() {
            return Ok(ScalarValue::Struct(Arc::new(StructArray::new_empty_fields(1, None))));
        }
        Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(self.fields.clone(), arrays, None)?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.best.iter().map(ScalarValue::size).sum::<usize>()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(self.best.iter().cloned().chain([ScalarValue::Boolean(Some(self.seen))]).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let Some((seen, arrays)) = states.split_last() else { return internal_err!("state expected") };
        let seen = seen.as_boolean();
        self.take(arrays, (0..seen.len()).filter(|&i| seen.is_valid(i) && seen.value(i)))
    }
}
