//! Expressions over groups: which aggregate functions a SELECT needs, and what its other expressions make of them.

use std::collections::HashMap;

use datafusion::common::{Column, ScalarValue};
use datafusion::functions_aggregate::expr_fn as df;
use datafusion::logical_expr::{Expr as DfExpr, Operator, lit};
use model::{Code, DataType, Error, Result};

use crate::ast::Expr;
use crate::function;
use crate::function::pick::{self, Pick};
use crate::function::sum;
use crate::plan::coerce::{binary, to_double};
use crate::plan::expr::{Binder, Clause, walk};
use crate::plan::scope::Role;
use crate::plan::types::{Ty, Typed};

/// What a window gives its group: the columns behind `_wstart`, `_wend`, `_wduration`.
#[derive(Clone, Debug)]
pub(crate) struct WindowColumns {
    pub(crate) start: Typed,
    pub(crate) end: Typed,
    pub(crate) duration: Typed,
}

impl WindowColumns {
    pub(crate) fn column(&self, name: &str) -> Typed {
        match name {
            "_wstart" => self.start.clone(),
            "_wend" => self.end.clone(),
            _ => self.duration.clone(),
        }
    }
}

/// A grouping key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Over rows.
    pub(crate) row: Typed,
    /// Over groups.
    pub(crate) column: Typed,
}

/// One aggregate function to compute.
#[derive(Clone, Debug)]
enum Call {
    Plain(DfExpr),
    Pick(Box<PickCall>),
}

/// The choice of a row, and what is wanted of it.
#[derive(Clone, Debug)]
struct PickCall {
    pick: Pick,
    key: DfExpr,
    time: DfExpr,
    /// The composite key: among rows of one instant.
    tie: Option<DfExpr>,
    values: Vec<DfExpr>,
    /// Where in `values` each stands. LAST_ROW of a wide table has thousands.
    fields: HashMap<DfExpr, usize>,
}

/// The groups of a SELECT while its expressions are bound.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) keys: Vec<Key>,
    pub(crate) window: Option<WindowColumns>,
    calls: Vec<Call>,
    /// Where in `calls` each stands, a choice of row by its key: computed once however often it is written.
    known: HashMap<(Option<Pick>, DfExpr), usize>,
    /// The one selection function whose row answers for plain columns.
    companion: Option<usize>,
    /// Error of a column that is neither key nor companion.
    pub(crate) missing: Code,
    /// Tags are keys too, as soon as they are named: the keys determine the table.
    pub(crate) tags_follow: bool,
    /// True on rows, NULL on what stands for a child without rows.
    pub(crate) live: Option<DfExpr>,
    prefix: usize,
}

impl Groups {
    pub(crate) fn new(prefix: usize, missing: Code) -> Self {
        Self {
            keys: Vec::new(),
            window: None,
            calls: Vec::new(),
            known: HashMap::new(),
            companion: None,
            missing,
            tags_follow: false,
            live: None,
            prefix,
        }
    }

    /// Adds a key and gives it a column.
    pub(crate) fn add_key(&mut self, row: Typed) -> Typed {
        if let Some(known) = self.keys.iter().find(|k| k.row.expr == row.expr) {
            return known.column.clone();
        }
        let name = format!("k{}_{}", self.prefix, self.keys.len());
        let column = Typed::column(Column::new_unqualified(name), row.ty);
        self.keys.push(Key { row, column: column.clone() });
        column
    }

    fn name(&self, call: usize) -> String {
        format!("a{}_{call}", self.prefix)
    }

    fn add(&mut self, pick: Option<Pick>, key: DfExpr, call: impl FnOnce(DfExpr) -> Call) -> usize {
        let next = self.calls.len();
        let index = *self.known.entry((pick, key.clone())).or_insert(next);
        if index == next {
            self.calls.push(call(key));
        }
        index
    }

    fn plain(&mut self, expr: DfExpr) -> DfExpr {
        let index = self.add(None, expr, Call::Plain);
        DfExpr::Column(Column::new_unqualified(self.name(index)))
    }

    fn pick(&mut self, pick: Pick, key: DfExpr, time: DfExpr, tie: Option<DfExpr>) -> usize {
        let (values, fields) = (Vec::new(), HashMap::new());
        let call = |key| PickCall { pick, key, time, tie, values, fields };
        self.add(Some(pick), key, |key| Call::Pick(Box::new(call(key))))
    }

    /// A value of the row that a selection function picked.
    fn picked(&mut self, call: usize, value: Typed) -> Typed {
        let name = self.name(call);
        let mut field = 0;
        if let Some(Call::Pick(call)) = self.calls.get_mut(call) {
            let next = call.values.len();
            field = *call.fields.entry(value.expr.clone()).or_insert(next);
            if field == next {
                call.values.push(value.expr.clone());
            }
        }
        let column = Column::new_unqualified(format!("{name}.{}", pick::field(field)));
        Typed { expr: DfExpr::Column(column), ..value }
    }

    /// Columns of picked rows, to be taken apart behind the aggregation: each value becomes the column
    /// `<column>.<field>`.
    pub(crate) fn picked_rows(&self) -> Vec<Column> {
        let with_values = |call: &Call| matches!(call, Call::Pick(call) if !call.values.is_empty());
        let calls = self.calls.iter().enumerate().filter(|(_, call)| with_values(call));
        calls.map(|(index, _)| Column::new_unqualified(self.name(index))).collect()
    }

    /// Number of rows of the group, for rules on empty input.
    pub(crate) fn row_count(&mut self) -> DfExpr {
        self.plain(df::count(lit(1_i64)))
    }

    /// Key expressions and aggregate expressions, each under its column's name.
    pub(crate) fn expressions(self) -> (Vec<DfExpr>, Vec<DfExpr>) {
        let keys = self
            .keys
            .iter()
            .map(|k| match &k.column.expr {
                DfExpr::Column(c) => k.row.expr.clone().alias(c.name.clone()),
                _ => k.row.expr.clone(),
            })
            .collect();
        let names: Vec<String> = (0..self.calls.len()).map(|i| self.name(i)).collect();
        let aggregates = self
            .calls
            .into_iter()
            .zip(names)
            .map(|(call, name)| match call {
                Call::Plain(expr) => expr.alias(name),
                Call::Pick(call) => {
                    let PickCall { pick, key, time, tie, values, .. } = *call;
                    pick::call(pick, key, time, tie, values.into_iter()).alias(name)
                }
            })
            .collect();
        (keys, aggregates)
    }
}

/// Whether `expr` calls an aggregate function.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    walk(expr, &mut |e| {
        found |= matches!(e, Expr::Function { name, .. } if function::is_aggregate(name));
        !found
    });
    found
}

/// Whether `expr` has a window pseudo column.
pub(crate) fn has_window_column(expr: &Expr) -> bool {
    let mut found = false;
    walk(expr, &mut |e| {
        found |= matches!(e, Expr::Column { name, quoted: false, .. } if matches!(&**name, "_wstart" | "_wend" | "_wduration"));
        !found
    });
    found
}

/// The calls of aggregate functions in `exprs`, each as often as it is written.
pub(crate) fn aggregate_calls<'e>(exprs: impl Iterator<Item = &'e Expr>) -> Vec<Expr> {
    let mut calls = Vec::new();
    for expr in exprs {
        walk(expr, &mut |e| match e {
            Expr::Function { name, .. } if function::is_aggregate(name) => {
                calls.push(e.clone());
                false
            }
            _ => true,
        });
    }
    calls
}

impl Binder<'_, '_> {
    /// An expression over groups where it is more than its parts: a key, an aggregate, a companion. `None`: look at its
    /// parts.
    pub(crate) fn grouped(&mut self, expr: &Expr) -> Result<Option<Typed>> {
        if let Expr::Function { name, args, at } = expr
            && function::is_aggregate(name)
        {
            return self.aggregate(name, args).map(Some).map_err(|error| error.or_at(at.0));
        }
        if has_window_column(expr) || has_aggregate(expr) {
            return Ok(None);
        }
        let row = match self.over_rows(self.clause).value(expr) {
            Ok(row) => row,
            // A part may have a meaning of its own: an alias, a pseudo column.
            Err(error) if matches!(expr, Expr::Column { .. }) => return Err(error),
            Err(_) => return Ok(None),
        };
        if !row.expr.any_column_refs() && !row.expr.is_volatile() {
            return Ok(Some(row));
        }
        let Some(groups) = self.groups.as_deref_mut() else { return Ok(None) };
        if let Some(key) = groups.keys.iter().find(|k| k.row.expr == row.expr) {
            return Ok(Some(Typed { timeline: false, ..key.column.clone() }));
        }
        let Expr::Column { name, at, .. } = expr else { return Ok(None) };
        if let Some(call) = groups.companion {
            return Ok(Some(Typed { timeline: false, ..groups.picked(call, row) }));
        }
        let is_tag = row
            .expr
            .column_refs()
            .iter()
            .all(|c| matches!(self.scope.role(c), Some(Role::Tag | Role::Tbname)));
        if groups.tags_follow && is_tag {
            return Ok(Some(groups.add_key(row)));
        }
        Err(match groups.missing {
            Code::InvalidUsage => Error::with(Code::InvalidUsage, name),
            Code::NotGroupBy => Error::of(Code::NotGroupBy)
                .hint(format!("add {name} to GROUP BY, or put it into an aggregate such as LAST({name})")),
            Code::NotSingleGroup => Error::of(Code::NotSingleGroup)
                .hint(format!("put {name} into an aggregate such as LAST({name}), or add GROUP BY {name}")),
            code => Error::of(code),
        }
        .or_at(at.0))
    }

    /// Registers the one selection function before anything else is bound, so that plain columns find its row.
    pub(crate) fn select_companion(&mut self, call: &Expr) -> Result<()> {
        let Expr::Function { name, args, .. } = call else { return Ok(()) };
        let index = self.pick(name, args)?;
        if let Some(groups) = self.groups.as_deref_mut() {
            groups.companion = Some(index);
        }
        Ok(())
    }

    fn arguments(&mut self, name: &str, args: &[Expr], count: usize) -> Result<Vec<Typed>> {
        if args.len() != count {
            return Err(function::count_error(name));
        }
        args.iter().map(|a| self.over_rows(Clause::Argument).value(a)).collect()
    }

    fn aggregate(&mut self, name: &str, args: &[Expr]) -> Result<Typed> {
        if function::is_selection(name) {
            let companion = self.groups.as_ref().and_then(|g| g.companion);
            if companion.is_some() || matches!(name, "first" | "last" | "last_row") {
                let index = match companion {
                    Some(index) => index,
                    None => self.pick(name, args)?,
                };
                let value = self.arguments(name, args, 1)?.remove(0);
                let Some(groups) = self.groups.as_deref_mut() else {
                    return Err(Error::of(Code::NotSingleGroup));
                };
                let timeline = value.timeline;
                return Ok(Typed { timeline, ..groups.picked(index, value) });
            }
        }
        let (exprs, finish) = self.plain_aggregate(name, args)?;
        let Some(groups) = self.groups.as_deref_mut() else { return Err(Error::of(Code::NotSingleGroup)) };
        Ok(finish(exprs.into_iter().map(|e| groups.plain(e)).collect()))
    }

    /// MIN, MAX, FIRST, LAST, LAST_ROW as the choice of a row.
    fn pick(&mut self, name: &str, args: &[Expr]) -> Result<usize> {
        let value = self.arguments(name, args, 1)?.remove(0);
        check_argument(name, &value)?;
        let timeline = self.scope.timeline(None);
        let tie = timeline.and_then(|column| self.scope.key_beside(&DfExpr::Column(column.column.clone())));
        let time = match timeline {
            Some(column) => self.scope.typed(column).arrow_cast(DataType::BigInt)?.expr,
            None if matches!(name, "min" | "max") => lit(ScalarValue::Int64(None)),
            None => return Err(Error::text(Code::Timeline, format!("Invalid timeline function: {name}"))),
        };
        let pick = Pick {
            key_largest: matches!(name, "max" | "last" | "last_row"),
            time_largest: matches!(name, "last" | "last_row"),
        };
        let key = match name {
            "min" | "max" => value.expr.clone(),
            "last_row" => time.clone(),
            // Only rows with a value count.
            _ => datafusion::logical_expr::when(value.expr.clone().is_not_null(), time.clone())
                .end()
                .map_err(super::error::from_datafusion)?,
        };
        let Some(groups) = self.groups.as_deref_mut() else { return Err(Error::of(Code::NotSingleGroup)) };
        Ok(groups.pick(pick, key, time, tie))
    }

    /// DataFusion's aggregates to compute, and what to make of their columns.
    #[allow(clippy::type_complexity, reason = "a pair that is taken apart at its only caller")]
    fn plain_aggregate(
        &mut self,
        name: &str,
        args: &[Expr],
    ) -> Result<(Vec<DfExpr>, Box<dyn FnOnce(Vec<DfExpr>) -> Typed>)> {
        if name == "count" {
            return Ok((vec![self.count(args)?], Box::new(|c| Typed::bigint(only(c)))));
        }
        if name == "elapsed" {
            return self.elapsed(args);
        }
        if name == "percentile" {
            return self.percentile(args);
        }
        let value = self.arguments(name, args, 1)?.remove(0);
        check_argument(name, &value)?;
        let ty = value.ty;
        Ok(match name {
            "sum" => {
                let to = if ty.is_float() {
                    DataType::Double
                } else if ty.is_unsigned() {
                    DataType::UBigInt
                } else {
                    DataType::BigInt
                };
                if sum::is_wide(ty) {
                    let sum = sum::exact(value, to)?;
                    return Ok((vec![sum], Box::new(move |c| sum::fitting(only(c), to))));
                }
                let sum = df::sum(value.arrow_cast(to)?.expr);
                (vec![sum], Box::new(move |c| Typed::new(only(c), Ty::plain(to))))
            }
            "min" | "max" => {
                let ty = if ty.is_null() { Ty::plain(DataType::BigInt) } else { ty };
                let expr = if value.ty.is_null() { lit(ScalarValue::Int64(None)) } else { value.expr };
                let best = if name == "min" { df::min(expr) } else { df::max(expr) };
                (vec![best], Box::new(move |c| Typed::new(only(c), ty)))
            }
            "spread" => {
                let value = to_double(value)?.expr;
                let both = vec![df::max(value.clone()), df::min(value)];
                (
                    both,
                    Box::new(|c| {
                        let mut c = c.into_iter();
                        let (max, min) =
                            (c.next().unwrap_or_else(null_double), c.next().unwrap_or_else(null_double));
                        Typed::double(binary(max, Operator::Minus, min))
                    }),
                )
            }
            "hyperloglog" => {
                let count = if value.ty.is_null() {
                    df::count(lit(ScalarValue::Int64(None)))
                } else {
                    df::approx_distinct(value.expr)
                };
                (
                    vec![count],
                    Box::new(|c| {
                        Typed::bigint(datafusion::logical_expr::cast(only(c), arrow_schema::DataType::Int64))
                    }),
                )
            }
            "avg" if ty.is_integer() => {
                let to = if ty.is_unsigned() { DataType::UBigInt } else { DataType::BigInt };
                let count = df::count(value.expr.clone());
                let value = value.arrow_cast(to)?;
                let sum = if sum::is_wide(ty) { sum::exact(value, to)? } else { df::sum(value.expr) };
                (
                    vec![sum, count],
                    Box::new(|c| {
                        let double = |e| datafusion::logical_expr::cast(e, arrow_schema::DataType::Float64);
                        let mut c = c.into_iter();
                        let sum = c.next().unwrap_or_else(null_double);
                        let count = c.next().unwrap_or_else(null_double);
                        Typed::double(binary(double(sum), Operator::Divide, double(count)))
                    }),
                )
            }
            _ => {
                let value = to_double(value)?.expr;
                let aggregate = match name {
                    "avg" => df::avg(value),
                    "stddev_samp" => df::stddev(value),
                    "var_samp" => df::var_sample(value),
                    "variance" | "var_pop" => df::var_pop(value),
                    _ => df::stddev_pop(value),
                };
                (vec![aggregate], Box::new(|c| Typed::double(only(c))))
            }
        })
    }

    fn count(&mut self, args: &[Expr]) -> Result<DfExpr> {
        let live = self.groups.as_ref().and_then(|g| g.live.clone());
        if matches!(args, [Expr::Star]) {
            return Ok(df::count(live.unwrap_or_else(|| lit(1_i64))));
        }
        let value = self.arguments("count", args, 1)?.remove(0);
        Ok(match live {
            // A tag or a constant has a value also where the child has no row.
            Some(live) => df::count(
                datafusion::logical_expr::when(live, value.expr)
                    .end()
                    .map_err(super::error::from_datafusion)?,
            ),
            None => df::count(value.expr),
        })
    }

    /// Time between first and last row in units.
    #[allow(clippy::type_complexity, reason = "as plain_aggregate")]
    fn elapsed(&mut self, args: &[Expr]) -> Result<(Vec<DfExpr>, Box<dyn FnOnce(Vec<DfExpr>) -> Typed>)> {
        let (column, unit) = match args {
            [column] => (column, None),
            [column, Expr::Duration(unit)] => (column, Some(*unit)),
            [_, _] => return Err(function::type_error("elapsed")),
            _ => return Err(function::count_error("elapsed")),
        };
        if self.groups.as_ref().is_some_and(|g| g.window.is_some()) {
            return Err(Error::not_supported("ELAPSED with a window"));
        }
        let value = self.over_rows(Clause::Argument).value(column)?;
        if !value.timeline {
            return Err(function::type_error("elapsed"));
        }
        let per = match unit {
            Some(unit) => function::unit_ticks("elapsed", unit, value.ty.precision)?,
            None => 1,
        };
        let ticks = value.arrow_cast(DataType::BigInt)?.expr;
        Ok((
            vec![df::max(ticks.clone()), df::min(ticks)],
            Box::new(move |c| {
                let mut c = c.into_iter();
                let (max, min) = (c.next().unwrap_or_else(null_double), c.next().unwrap_or_else(null_double));
                let ticks = datafusion::logical_expr::cast(
                    binary(max, Operator::Minus, min),
                    arrow_schema::DataType::Float64,
                );
                #[expect(clippy::cast_precision_loss, reason = "units are far below 2^53 ticks")]
                Typed::double(binary(ticks, Operator::Divide, lit(per as f64)))
            }),
        ))
    }

    /// One percentile, exactly: linear between neighbours.
    #[allow(clippy::type_complexity, reason = "as plain_aggregate")]
    fn percentile(&mut self, args: &[Expr]) -> Result<(Vec<DfExpr>, Box<dyn FnOnce(Vec<DfExpr>) -> Typed>)> {
        let [column, percent] = args else {
            return Err(if args.len() < 2 {
                function::count_error("percentile")
            } else {
                Error::not_supported("PERCENTILE of several percentages")
            });
        };
        if !self.scope.tables.iter().all(|t| t.kind.is_single()) {
            return Err(Error::text(Code::SingleTable, "percentile is only supported in single table query"));
        }
        let value = self.over_rows(Clause::Argument).value(column)?;
        if !value.ty.is_numeric() {
            return Err(function::type_error("percentile"));
        }
        let percent = self.over_rows(Clause::Argument).value(percent)?;
        if !percent.ty.is_numeric() {
            return Err(function::type_error("percentile"));
        }
        let percent = match to_double(percent)?.folded()?.constant() {
            Some(ScalarValue::Float64(Some(p))) => *p,
            _ => return Err(function::type_error("percentile")),
        };
        if !(0.0..=100.0).contains(&percent) {
            return Err(function::range_error("percentile"));
        }
        let value = to_double(value)?.expr;
        let aggregate = df::percentile_cont(value.sort(true, false), lit(percent / 100.0));
        Ok((vec![aggregate], Box::new(|c| Typed::double(only(c)))))
    }
}

fn only(columns: Vec<DfExpr>) -> DfExpr {
    columns.into_iter().next().unwrap_or_else(null_double)
}

fn null_double() -> DfExpr {
    lit(ScalarValue::Float64(None))
}

/// Whether `name` takes values of this type.
fn check_argument(name: &str, value: &Typed) -> Result<()> {
    let ty = value.ty;
    let fits = match name {
        "first" | "last" | "last_row" => !ty.is_null(),
        "min" | "max" => !ty.is_bool() && !ty.is_timestamp(),
        "spread" => ty.is_numeric() || ty.is_timestamp() || ty.is_null(),
        "hyperloglog" => true,
        _ => ty.is_numeric() || ty.is_null(),
    };
    if fits { Ok(()) } else { Err(function::type_error(name)) }
}
