//! Mathematical functions. What is not a finite number becomes NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array, PrimitiveArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use arrow_schema::DataType as Arrow;
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::logical_expr::{Volatility, lit};
use model::{DataType, Result};

use crate::function::native::{call, call_with};
use crate::function::{Call, type_error};
use crate::plan::coerce::{self, to_double};
use crate::plan::types::{Ty, Typed};

/// Functions of one number to DOUBLE.
fn unary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "acos" => f64::acos,
        "asin" => f64::asin,
        "atan" => f64::atan,
        "cos" => f64::cos,
        "sin" => f64::sin,
        "tan" => f64::tan,
        "exp" => f64::exp,
        "sqrt" => f64::sqrt,
        "degrees" => f64::to_degrees,
        "radians" => f64::to_radians,
        "ln" => f64::ln,
        _ => return None,
    })
}

/// Functions of one number that keep its type.
fn keeping(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "ceil" => f64::ceil,
        "floor" => f64::floor,
        "sign" => |v| if v == 0.0 || v.is_nan() { 0.0 } else { v.signum() },
        _ => return None,
    })
}

pub(super) fn knows(name: &str) -> bool {
    unary(name).is_some()
        || keeping(name).is_some()
        || matches!(name, "log" | "pow" | "mod" | "round" | "truncate" | "trunc" | "pi" | "rand")
        || matches!(name, "greatest" | "least")
}

pub(super) fn bind(call: &Call<'_>) -> Result<Typed> {
    if let Some(f) = unary(call.name) {
        call.only()?;
        return doubles(call.name, vec![call.number(0)?.clone()], move |v| v.first().map(|v| f(*v)));
    }
    if let Some(f) = keeping(call.name) {
        call.only()?;
        return keep_type(call.name, call.number(0)?.clone(), f);
    }
    match call.name {
        "pow" | "mod" => {
            call.count(2, 2)?;
            let (a, b) = (call.number(0)?.clone(), call.number(1)?.clone());
            if call.name == "mod" {
                return Ok(coerce::divide(to_double(a)?, to_double(b)?, true));
            }
            doubles("pow", vec![a, b], |v| match v {
                [a, b] => Some(a.powf(*b)),
                _ => None,
            })
        }
        "log" => {
            call.count(1, 2)?;
            let args = (0..call.args.len()).map(|i| call.number(i).cloned()).collect::<Result<Vec<_>>>()?;
            doubles("log", args, |v| match v {
                [x] => Some(x.ln()),
                [x, base] if *base > 0.0 => Some(x.ln() / base.ln()),
                _ => None,
            })
        }
        "round" | "truncate" | "trunc" => rounding(call),
        "pi" => {
            call.count(0, 0)?;
            Ok(Typed::double(lit(std::f64::consts::PI)))
        }
        "rand" => random(call),
        _ => extreme(call),
    }
}

/// A function over DOUBLE arguments, NULL where any is.
fn doubles(
    name: &str,
    args: Vec<Typed>,
    f: impl Fn(&[f64]) -> Option<f64> + Send + Sync + 'static,
) -> Result<Typed> {
    let args = args.into_iter().map(|a| Ok(to_double(a)?.expr)).collect::<Result<Vec<_>>>()?;
    let expr = call(name, Arrow::Float64, args, move |arrays, rows| {
        let columns: Vec<&Float64Array> = arrays.iter().map(|a| a.as_primitive::<Float64Type>()).collect();
        let mut row = vec![0.0; columns.len()];
        let mut values = Float64Array::builder(rows);
        for i in 0..rows {
            if columns.iter().any(|c| c.is_null(i)) {
                values.append_null();
                continue;
            }
            row.iter_mut().zip(&columns).for_each(|(slot, c)| *slot = c.value(i));
            values.append_option(f(&row).filter(|v| v.is_finite()));
        }
        Ok(Arc::new(values.finish()) as ArrayRef)
    });
    Ok(Typed::double(expr))
}

/// BIGINT where the argument is the literal NULL.
fn number_type(value: &Typed) -> Ty {
    if value.ty.is_null() { Ty::plain(DataType::BigInt) } else { value.ty }
}

fn keep_type(name: &str, value: Typed, f: fn(f64) -> f64) -> Result<Typed> {
    let ty = number_type(&value);
    if value.ty.is_null() {
        return Ok(Typed::literal(ScalarValue::Int64(None), ty));
    }
    if value.ty.is_integer() && matches!(name, "ceil" | "floor") {
        return Ok(Typed { timeline: false, ..value });
    }
    let integer: Option<fn(i64) -> Option<i64>> = match name {
        // What its type has no number for becomes NULL: the least integer has none above zero.
        "abs" => Some(i64::checked_abs),
        "sign" => Some(|v| Some(v.signum())),
        _ => None,
    };
    let unsigned = value.ty.is_unsigned();
    let is_sign = name == "sign";
    let expr = call(format!("{name}_{ty:?}"), ty.arrow(), vec![value.expr], move |args, _| {
        let [array] = args else { return internal_err!("one argument expected") };
        Ok(match (array.data_type(), integer) {
            (Arrow::Float32, _) => {
                #[expect(clippy::cast_possible_truncation, reason = "a FLOAT stays a FLOAT")]
                let values: Float32Array =
                    array.as_primitive::<Float32Type>().unary(|v| f(f64::from(v)) as f32);
                Arc::new(values) as ArrayRef
            }
            (Arrow::Float64, _) => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f)),
            (_, _) if unsigned && !is_sign => Arc::clone(array),
            (Arrow::UInt64, _) => {
                let values = array.as_primitive::<arrow::datatypes::UInt64Type>();
                Arc::new(values.unary::<_, arrow::datatypes::UInt64Type>(|v| v.min(1)))
            }
            (_, Some(integer)) => {
                let wide = arrow::compute::cast(array, &Arrow::Int64)?;
                let values: Int64Array = wide.as_primitive::<Int64Type>().unary_opt(integer);
                arrow::compute::cast(&values, array.data_type())?
            }
            (_, None) => Arc::clone(array),
        })
    });
    Ok(Typed::new(expr, ty))
}

/// ROUND half away from zero, TRUNCATE toward zero; a negative number of digits works left of the point.
fn rounding(call: &Call<'_>) -> Result<Typed> {
    let is_round = call.name == "round";
    call.count(if is_round { 1 } else { 2 }, 2)?;
    let value = call.number(0)?.clone();
    let ty = number_type(&value);
    let digits = if call.args.len() == 2 { call.number(1)?.clone() } else { Typed::bigint(lit(0_i64)) };
    if digits.ty.is_null() || value.ty.is_null() {
        let null = ScalarValue::try_from(&ty.arrow()).map_err(crate::plan::error::from_datafusion)?;
        return Ok(Typed::literal(null, ty));
    }
    let digits = digits.arrow_cast(DataType::BigInt)?;
    let integer = ty.is_integer();
    let arrow = ty.arrow();
    let name = format!("{}_{ty:?}", call.name);
    let args = vec![to_double(value)?.expr, digits.expr];
    let expr = native_rounding(name, arrow, args, is_round, integer);
    Ok(Typed::new(expr, ty))
}

fn native_rounding(
    name: String,
    arrow: Arrow,
    args: Vec<datafusion::logical_expr::Expr>,
    is_round: bool,
    integer: bool,
) -> datafusion::logical_expr::Expr {
    call(name, arrow.clone(), args, move |args, _| {
        let [values, digits] = args else { return internal_err!("two arguments expected") };
        let values = values.as_primitive::<Float64Type>();
        let digits = digits.as_primitive::<Int64Type>();
        let rounded: PrimitiveArray<Float64Type> = values
            .iter()
            .zip(digits)
            .map(|(v, d)| v.zip(d).map(|(v, d)| round_to(v, if integer { d.min(0) } else { d }, is_round)))
            .collect();
        cast_back(&rounded, &arrow)
    })
}

fn cast_back(values: &Float64Array, arrow: &Arrow) -> DfResult<ArrayRef> {
    Ok(arrow::compute::cast(values, arrow)?)
}

fn round_to(value: f64, digits: i64, is_round: bool) -> f64 {
    let power = i32::try_from(digits.clamp(-320, 320)).unwrap_or(0);
    let apply = |v: f64| if is_round { v.round() } else { v.trunc() };
    if power >= 0 {
        let scale = 10_f64.powi(power);
        if !scale.is_finite() || !(value * scale).is_finite() { value } else { apply(value * scale) / scale }
    } else {
        let scale = 10_f64.powi(-power);
        if scale.is_finite() { apply(value / scale) * scale } else { 0.0 }
    }
}

/// A seeded call gives one sequence, an unseeded one another each time.
fn random(call: &Call<'_>) -> Result<Typed> {
    call.count(0, 1)?;
    let seed = match call.args.first() {
        None => None,
        Some(arg) => Some(arg.integer().ok_or_else(|| type_error("rand"))?),
    };
    let expr =
        call_with(format!("rand_{seed:?}"), Arrow::Float64, vec![], Volatility::Volatile, move |_, rows| {
            use std::hash::{BuildHasher as _, RandomState};
            // Without a seed the process's own randomness (that of its hash maps) is the seed.
            let mut state = match seed {
                Some(seed) => seed.cast_unsigned(),
                None => RandomState::new().hash_one(rows),
            };
            let values: Float64Array = (0..rows).map(|_| Some(next_random(&mut state))).collect();
            Ok(Arc::new(values) as ArrayRef)
        });
    Ok(Typed::double(expr))
}

/// SplitMix64 (Steele, Lea, Flood 2014) as a number in [0, 1).
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn next_random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// GREATEST and LEAST: NULL where any argument is; text and numbers together compare as text.
fn extreme(call: &Call<'_>) -> Result<Typed> {
    call.count(2, usize::MAX)?;
    let types: Vec<Ty> = call.args.iter().map(|a| a.ty).collect();
    let ty = coerce::common(&types);
    let zone = model::Zone::UTC;
    let greatest = call.name == "greatest";
    let args = call
        .args
        .iter()
        .map(|a| Ok(crate::function::cast::cast(a.clone(), ty, zone)?.expr))
        .collect::<Result<Vec<_>>>()?;
    let arrow = ty.arrow();
    let expr = native_extreme(format!("{}_{ty:?}", call.name), arrow, args, greatest);
    Ok(Typed::new(expr, ty))
}

fn native_extreme(
    name: String,
    arrow: Arrow,
    args: Vec<datafusion::logical_expr::Expr>,
    greatest: bool,
) -> datafusion::logical_expr::Expr {
    call(name, arrow.clone(), args, move |arrays, rows| {
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut best: Option<ScalarValue> = None;
            for array in arrays {
                let value = ScalarValue::try_from_array(array, row)?;
                if value.is_null() {
                    best = Some(value);
                    break;
                }
                let better = match &best {
                    None => true,
                    Some(b) => {
                        let order = value.partial_cmp(b);
                        order
                            == Some(if greatest {
                                std::cmp::Ordering::Greater
                            } else {
                                std::cmp::Ordering::Less
                            })
                    }
                };
                if better {
                    best = Some(value);
                }
            }
            values.push(best.unwrap_or(ScalarValue::try_from(&arrow)?));
        }
        if values.is_empty() {
            return Ok(arrow::array::new_empty_array(&arrow));
        }
        ScalarValue::iter_to_array(values)
    })
}
