//! Functions of the dialect.

pub(crate) mod cast;
pub(crate) mod conditional;
pub(crate) mod json;
mod math;
pub(crate) mod native;
pub(crate) mod pattern;
pub(crate) mod pick;
mod string;
mod string_more;
pub(crate) mod sum;
mod system;
pub(crate) mod text;
pub(crate) mod time;
mod time_format;
pub(crate) mod values;
mod week;

use datafusion::logical_expr::lit;
use model::{Code, DurationLiteral, Error, Precision, Result};

use crate::ast::Expr;
use crate::plan::expr::Binder;
use crate::plan::types::Typed;

/// A call while it is bound.
pub(crate) struct Call<'c> {
    pub(crate) name: &'c str,
    /// As written: units are read here.
    pub(crate) source: &'c [Expr],
    pub(crate) args: Vec<Typed>,
}

impl Call<'_> {
    /// Checks the number of arguments.
    pub(crate) fn count(&self, least: usize, most: usize) -> Result<()> {
        if (least..=most).contains(&self.args.len()) { Ok(()) } else { Err(count_error(self.name)) }
    }

    pub(crate) fn arg(&self, index: usize) -> Result<&Typed> {
        self.args.get(index).ok_or_else(|| count_error(self.name))
    }

    /// The only argument, of exactly one.
    pub(crate) fn only(&self) -> Result<&Typed> {
        self.count(1, 1)?;
        self.arg(0)
    }

    /// An argument that has to be a string.
    pub(crate) fn string(&self, index: usize) -> Result<&Typed> {
        let arg = self.arg(index)?;
        if arg.ty.is_string() || arg.ty.is_null() { Ok(arg) } else { Err(type_error(self.name)) }
    }

    /// An argument that has to be a number.
    pub(crate) fn number(&self, index: usize) -> Result<&Typed> {
        let arg = self.arg(index)?;
        if arg.ty.is_numeric() || arg.ty.is_null() { Ok(arg) } else { Err(type_error(self.name)) }
    }

    /// An argument that has to be an integer.
    pub(crate) fn integer(&self, index: usize) -> Result<&Typed> {
        let arg = self.arg(index)?;
        if arg.ty.is_integer() || arg.ty.is_null() { Ok(arg) } else { Err(type_error(self.name)) }
    }

    /// A unit of time, written as a duration.
    pub(crate) fn unit(&self, index: usize) -> Result<Option<DurationLiteral>> {
        match self.source.get(index) {
            None => Ok(None),
            Some(Expr::Duration(unit)) => Ok(Some(*unit)),
            Some(_) => Err(type_error(self.name)),
        }
    }
}

/// Binds a call of a scalar function.
pub(crate) fn bind(binder: &mut Binder<'_, '_>, name: &str, source: &[Expr]) -> Result<Typed> {
    check_scalar(name)?;
    if conditional::knows(name) {
        return conditional::bind(binder, name, source)?.folded();
    }
    let mut args = Vec::with_capacity(source.len());
    for arg in source {
        args.push(match arg {
            // A unit: each function checks for itself which it takes.
            Expr::Duration(unit) => Typed::bigint(lit(unit.ticks(binder.precision()).unwrap_or(0))),
            other => binder.value(other)?,
        });
    }
    let call = Call { name, source, args };
    let bound = if math::knows(name) {
        math::bind(&call)?
    } else if string::knows(name) {
        string::bind(&call)?
    } else if string_more::knows(name) {
        string_more::bind(&call)?
    } else if time::knows(name) {
        time::bind(binder, &call)?
    } else if json::knows(name) {
        json::bind(&call)?
    } else {
        system::bind(binder, &call)?
    };
    bound.folded()
}

/// Refuses a name that is no scalar function of ours, and says whether it is one of the dialect.
pub(crate) fn check_scalar(name: &str) -> Result<()> {
    let built = math::knows(name)
        || string::knows(name)
        || string_more::knows(name)
        || time::knows(name)
        || conditional::knows(name)
        || json::knows(name)
        || system::knows(name);
    if built {
        Ok(())
    } else if UNBUILT.contains(&name) {
        Err(Error::not_supported(format_args!("function {name}")))
    } else {
        Err(Error::with(Code::FunctionNotExist, name))
    }
}

/// Scalar functions that are known but not built yet.
const UNBUILT: &[&str] = &[
    "to_json",
    "md5",
    "sha",
    "sha1",
    "sha2",
    "aes_encrypt",
    "aes_decrypt",
    "sm4_encrypt",
    "sm4_decrypt",
    "st_geomfromtext",
    "st_astext",
    "st_intersects",
    "st_equals",
    "st_touches",
    "st_covers",
    "st_contains",
    "st_containsproperly",
    "mask_full",
    "mask_partial",
    "mask_none",
    "like_in_set",
    "regexp_in_set",
    "forecast",
    "imputation",
];

/// Functions that make one row of several.
pub(crate) fn is_aggregate(name: &str) -> bool {
    is_selection(name)
        || matches!(
            name,
            "count"
                | "sum"
                | "avg"
                | "spread"
                | "stddev"
                | "std"
                | "stddev_pop"
                | "stddev_samp"
                | "variance"
                | "var_pop"
                | "var_samp"
                | "hyperloglog"
                | "elapsed"
                | "percentile"
        )
}

/// Aggregates whose answer is the value of one row.
pub(crate) fn is_selection(name: &str) -> bool {
    matches!(name, "min" | "max" | "first" | "last" | "last_row")
}

/// Aggregates that answer 0 where there is no row.
pub(crate) fn counts(name: &str) -> bool {
    matches!(name, "count" | "hyperloglog")
}

/// Functions with several rows for a group or a row for each, which belong to a later release; also the aggregates that
/// are not built yet.
pub(crate) fn is_multi_row(name: &str) -> bool {
    is_sequence(name)
        || is_mixable(name)
        || matches!(name, "top" | "bottom" | "tail" | "unique" | "sample" | "histogram")
}

/// Of these the ones that may stand beside aggregates.
pub(crate) fn is_mixable(name: &str) -> bool {
    matches!(
        name,
        "interp"
            | "cols"
            | "twa"
            | "irate"
            | "mode"
            | "apercentile"
            | "leastsquares"
            | "group_concat"
            | "corr"
    )
}

/// Of these the ones that have no place beside windows and GROUP BY.
pub(crate) fn is_single_table_sequence(name: &str) -> bool {
    is_sequence(name) || matches!(name, "unique" | "tail")
}

/// Functions with a row for each row.
fn is_sequence(name: &str) -> bool {
    matches!(
        name,
        "diff"
            | "derivative"
            | "csum"
            | "mavg"
            | "statecount"
            | "stateduration"
            | "lag"
            | "lead"
            | "fill_forward"
    )
}

fn error(code: Code, name: &str) -> Error {
    Error::text(code, format!("{} : {name}", code.message()))
}

pub(crate) fn count_error(name: &str) -> Error {
    error(Code::ParameterCount, name)
}

pub(crate) fn type_error(name: &str) -> Error {
    error(Code::ParameterType, name)
}

pub(crate) fn value_error(name: &str) -> Error {
    error(Code::ParameterValue, name)
}

pub(crate) fn range_error(name: &str) -> Error {
    error(Code::ParameterRange, name)
}

/// Ticks of a unit of time: one of a fixed unit, no finer than the precision.
pub(crate) fn unit_ticks(name: &str, unit: DurationLiteral, precision: Precision) -> Result<i64> {
    let Some(ns) = unit.unit.fixed_ns().filter(|_| unit.count == 1) else {
        return Err(error(Code::UnitInvalid, name));
    };
    if ns < precision.ns_per_tick() {
        return Err(error(Code::UnitTooSmall, name));
    }
    Ok(ns / precision.ns_per_tick())
}
