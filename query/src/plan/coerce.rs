//! What operands become before an operator sees them: the dialect compares and computes across types freely, by rules
//! of its own.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::Float64Type;
use arrow_schema::DataType as Arrow;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};
use model::{Code, DataType, Error, Precision, Result, Zone};

use crate::function::native::call;
use crate::function::{cast, json, text};
use crate::literal::parse_binary;
use crate::plan::types::{Ty, Typed, scalar_ticks, timestamp_scalar};

/// `left op right` as DataFusion has it.
pub(crate) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// As DOUBLE: the type of all arithmetic. Text gives the number that it begins with.
pub(crate) fn to_double(value: Typed) -> Result<Typed> {
    let ty = Ty::plain(DataType::Double);
    match value.ty.data {
        None => Ok(Typed::literal(ScalarValue::Float64(None), ty)),
        Some(DataType::Json) if json::is_member(&value) => Ok(json::to_double(value)),
        Some(DataType::Varchar(_) | DataType::NChar(_)) => {
            let expr = call("text_to_double", Arrow::Float64, vec![value.expr], |args, _| {
                let texts = args.first().map(|a| a.as_string::<i32>().clone());
                let values: Float64Array =
                    texts.iter().flat_map(|t| t.iter()).map(|t| t.map(text::prefix_double)).collect();
                Ok(Arc::new(values) as ArrayRef)
            });
            Typed::new(expr, ty).folded()
        }
        Some(DataType::Varbinary(_) | DataType::Geometry(_) | DataType::Json) => {
            Err(Error::of(Code::ParameterType).hint("VARBINARY, GEOMETRY and JSON are no numbers"))
        }
        Some(DataType::Timestamp | DataType::Bool) => {
            value.arrow_cast(DataType::BigInt)?.arrow_cast(DataType::Double)
        }
        Some(_) => value.arrow_cast(DataType::Double),
    }
}

/// As BIGINT: the type of `&` and `|`.
pub(crate) fn to_bigint(value: Typed, zone: Zone) -> Result<Typed> {
    cast::cast(value, Ty::plain(DataType::BigInt), zone)
}

/// `/` and `%`: NULL where the right side is 0.
pub(crate) fn divide(left: Typed, right: Typed, remainder: bool) -> Typed {
    let name = if remainder { "modulo" } else { "divide" };
    let expr = call(name, Arrow::Float64, vec![left.expr, right.expr], move |args, _| {
        let [left, right] = args else {
            return Ok(Arc::new(Float64Array::from(Vec::<f64>::new())) as ArrayRef);
        };
        let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
        let values: Float64Array = left
            .iter()
            .zip(right)
            .map(|(l, r)| match (l, r) {
                (Some(_), Some(0.0)) | (None, _) | (_, None) => None,
                (Some(l), Some(r)) => Some(if remainder { l % r } else { l / r }),
            })
            .collect();
        Ok(Arc::new(values) as ArrayRef)
    });
    Typed::double(expr)
}

/// Ticks of a TIMESTAMP as BIGINT.
pub(crate) fn ticks(value: Typed) -> Result<Typed> {
    value.arrow_cast(DataType::BigInt)
}

/// Brings two operands of a comparison to one type. `None` where one of them is the literal NULL: every comparison is
/// false then.
pub(crate) fn unify(left: Typed, right: Typed, zone: Zone) -> Result<Option<(Typed, Typed)>> {
    if left.ty.is_null() || right.ty.is_null() {
        return Ok(None);
    }
    if let Some((left, right)) = json::unify(&left, &right)? {
        return match left.ty.is_numeric() {
            true => Ok(Some((to_double(left)?, to_double(right)?))),
            false => Ok(Some((left, right))),
        };
    }
    if left.ty.is_binary() || right.ty.is_binary() {
        return unify_binary(left, right).map(Some);
    }
    if left.ty.is_timestamp() || right.ty.is_timestamp() {
        return unify_time(left, right, zone).map(Some);
    }
    if left.ty.is_string() && right.ty.is_string() {
        return Ok(Some((left, right)));
    }
    if left.ty.is_bool() && right.ty.is_bool() {
        return Ok(Some((left, right)));
    }
    if let Some(constant) = as_float(&right, &left) {
        return Ok(Some((left, constant)));
    }
    if let Some(constant) = as_float(&left, &right) {
        return Ok(Some((constant, right)));
    }
    if left.ty.is_string() || right.ty.is_string() || left.ty.is_float() || right.ty.is_float() {
        return Ok(Some((bool_or_double(left)?, bool_or_double(right)?)));
    }
    unify_integers(left, right).map(Some)
}

/// VARBINARY and GEOMETRY compare with each other, byte by byte, and with text constants, read as INSERT reads them.
fn unify_binary(left: Typed, right: Typed) -> Result<(Typed, Typed)> {
    let as_bytes = |value: Typed, beside: Ty| -> Result<Typed> {
        match (value.ty.is_binary(), value.text()) {
            (true, _) => Ok(value),
            (false, Some(text)) => {
                let data_type = match beside.data {
                    Some(DataType::Geometry(_)) => DataType::Geometry(u16::MAX),
                    _ => DataType::Varbinary(u16::MAX),
                };
                let bytes = parse_binary(data_type, text).map_err(|misfit| misfit.into_error(text, ""))?;
                Ok(Typed::literal(ScalarValue::Binary(Some(bytes)), Ty::plain(data_type)))
            }
            (false, None) => Err(Error::not_supported("comparing VARBINARY or GEOMETRY with other types")),
        }
    };
    let (left_ty, right_ty) = (left.ty, right.ty);
    Ok((as_bytes(left, right_ty)?, as_bytes(right, left_ty)?))
}

/// A constant beside a FLOAT that is none: as FLOAT, so that a stored 0.1 equals a written one.
fn as_float(constant: &Typed, beside: &Typed) -> Option<Typed> {
    let float = beside.ty.data == Some(DataType::Float) && beside.constant().is_none();
    if !float || !constant.ty.is_numeric() {
        return None;
    }
    let value = constant.constant()?.cast_to(&Arrow::Float32).ok()?;
    Some(Typed::literal(value, Ty::plain(DataType::Float)))
}

/// A boolean beside a number or text counts as 0 or 1.
fn bool_or_double(value: Typed) -> Result<Typed> {
    to_double(value)
}

fn unify_integers(left: Typed, right: Typed) -> Result<(Typed, Typed)> {
    if left.ty.data == right.ty.data {
        return Ok((left, right));
    }
    // A constant that fits takes the column's type, so that the comparison can be pushed to the source as it stands.
    if let Some(value) = narrowed(&right, left.ty) {
        return Ok((left, value));
    }
    if let Some(value) = narrowed(&left, right.ty) {
        return Ok((value, right));
    }
    let wide = left.ty.data == Some(DataType::UBigInt) || right.ty.data == Some(DataType::UBigInt);
    if wide {
        // No integer type holds both BIGINT and BIGINT UNSIGNED.
        let decimal = |t: Typed| -> Result<Typed> {
            let t = if t.ty.is_bool() { t.arrow_cast(DataType::BigInt)? } else { t };
            Ok(Typed {
                expr: datafusion::logical_expr::cast(t.expr, Arrow::Decimal128(20, 0)),
                ..Typed::null()
            })
        };
        return Ok((decimal(left)?, decimal(right)?));
    }
    Ok((left.arrow_cast(DataType::BigInt)?, right.arrow_cast(DataType::BigInt)?))
}

fn narrowed(value: &Typed, to: Ty) -> Option<Typed> {
    if !to.is_integer() || !value.ty.is_integer() {
        return None;
    }
    let constant = value.constant().filter(|v| !v.is_null())?;
    let narrow = constant.cast_to(&to.arrow()).ok().filter(|v| !v.is_null())?;
    Some(Typed::literal(narrow, to))
}

fn unify_time(left: Typed, right: Typed, zone: Zone) -> Result<(Typed, Typed)> {
    if left.ty.is_timestamp() && right.ty.is_timestamp() {
        let (l, r) = (left.ty.precision, right.ty.precision);
        if l == r {
            return Ok((left, right));
        }
        return Ok(if left.constant().is_some() {
            (rescaled(left, r)?, right)
        } else {
            (left, rescaled(right, l)?)
        });
    }
    if right.ty.is_timestamp() {
        let (right, left) = unify_time(right, left, zone)?;
        return Ok((left, right));
    }
    let precision = left.ty.precision;
    if right.ty.is_string() {
        let time = match right.constant() {
            Some(_) => time_constant(&right, precision, zone)?,
            None => cast::cast(right, Ty::of(DataType::Timestamp, precision), zone)?,
        };
        return Ok((left, time));
    }
    if let Some(ticks) = right.integer() {
        return Ok((left, Typed::timestamp(Some(ticks), precision)));
    }
    if right.ty.is_integer() || right.ty.is_bool() {
        return Ok((ticks(left)?, right.arrow_cast(DataType::BigInt)?));
    }
    Ok((to_double(left)?, to_double(right)?))
}

/// A text constant beside a TIMESTAMP: invalid text is an error there, not a 0.
fn time_constant(value: &Typed, precision: Precision, zone: Zone) -> Result<Typed> {
    let Some(text) = value.text() else { return Ok(Typed::timestamp(None, precision)) };
    let ticks =
        model::parse_timestamp(text, precision, zone).ok_or_else(|| Error::of(Code::InvalidTimestamp))?;
    Ok(Typed::timestamp(Some(ticks), precision))
}

/// The same instant in ticks of `to`.
pub(crate) fn rescaled(value: Typed, to: Precision) -> Result<Typed> {
    let from = value.ty.precision;
    if from == to {
        return Ok(value);
    }
    let ty = Ty::of(DataType::Timestamp, to);
    if let Some(constant) = value.constant() {
        let ticks = scalar_ticks(constant).map(|t| from.convert(t, to));
        return Ok(Typed::literal(timestamp_scalar(ticks, to), ty));
    }
    let timeline = value.timeline;
    let expr = call(format!("rescale_{from}_{to}"), ty.arrow(), vec![ticks(value)?.expr], move |args, _| {
        let ticks: Int64Array = args
            .iter()
            .flat_map(|a| a.as_primitive::<arrow::datatypes::Int64Type>().iter())
            .map(|t| t.map(|t| from.convert(t, to)))
            .collect();
        arrow::compute::cast(&ticks, &ty.arrow()).map_err(Into::into)
    });
    Ok(Typed { expr, ty, timeline })
}

/// A comparison that is NULL where an operand is: for places that take NULL for false. See [`exact`].
pub(crate) fn compare(left: Typed, op: Operator, right: Typed, zone: Zone) -> Result<Expr> {
    Ok(match unify(left, right, zone)? {
        None => lit(false),
        Some((left, right)) => {
            let known = left.constant().is_some() && right.constant().is_some();
            let expr = binary(left.expr, op, right.expr);
            if known { fold_bool(expr)? } else { expr }
        }
    })
}

/// Makes NULL false.
pub(crate) fn exact(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Boolean(Some(_)), _)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_) => expr,
        Expr::Literal(ScalarValue::Boolean(None), _) => lit(false),
        expr => Expr::IsTrue(Box::new(expr)),
    }
}

fn fold_bool(expr: Expr) -> Result<Expr> {
    Ok(match Typed::bool(expr).folded()?.expr {
        Expr::Literal(ScalarValue::Boolean(None), _) => lit(false),
        expr => expr,
    })
}

/// A value in boolean position: a number other than 0 is true.
pub(crate) fn to_condition(value: Typed) -> Result<Expr> {
    Ok(match value.ty.data {
        None => lit(false),
        Some(DataType::Bool) => value.expr,
        Some(_) => {
            let number = to_double(value)?;
            let known = number.constant().is_some();
            let expr = binary(number.expr, Operator::NotEq, lit(0.0_f64));
            if known { fold_bool(expr)? } else { expr }
        }
    })
}

/// The type that several values of one result column share: CASE, COALESCE, GREATEST.
pub(crate) fn common(types: &[Ty]) -> Ty {
    let mut result = Ty::NULL;
    for &ty in types.iter().filter(|t| !t.is_null()) {
        result = if result.is_null() { ty } else { wider(result, ty) };
    }
    result
}

fn wider(a: Ty, b: Ty) -> Ty {
    use DataType::{BigInt, Double, NChar, UBigInt, Varchar};
    if a.data == b.data {
        return a;
    }
    match (a.data, b.data) {
        (Some(Varchar(x)), Some(Varchar(y))) => Ty::plain(Varchar(x.max(y))),
        (Some(NChar(x)), Some(NChar(y) | Varchar(y))) | (Some(Varchar(x)), Some(NChar(y))) => {
            Ty::plain(NChar(x.max(y)))
        }
        (Some(t), Some(Varchar(_) | NChar(_))) if !t.is_string() => Ty::plain(Varchar(64)).max_of(b),
        (Some(Varchar(_) | NChar(_)), Some(_)) => Ty::plain(Varchar(64)).max_of(a),
        _ if a.is_float() || b.is_float() => Ty::plain(Double),
        _ if a.is_timestamp() => a,
        _ if b.is_timestamp() => b,
        _ if a.is_unsigned() && b.is_unsigned() => Ty::plain(UBigInt),
        _ => Ty::plain(BigInt),
    }
}

impl Ty {
    fn max_of(self, other: Self) -> Self {
        match (self.data, other.data) {
            (Some(DataType::Varchar(a)), Some(DataType::Varchar(b))) => {
                Self::plain(DataType::Varchar(a.max(b)))
            }
            (_, Some(DataType::NChar(b))) => Self::plain(DataType::NChar(b.max(64))),
            _ => self,
        }
    }
}
