//! Sums of 64-bit integers, which 64 bits may not hold.
//!
//! DataFusion's sum wraps: of three rows with the largest BIGINT it makes a little less than one of them, of two -2. So
//! these are added up as decimals and come back as integers only where they are some. Narrower integers need none of
//! it: it takes 2^32 rows of them to leave 64 bits.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{Decimal128Type, Int64Type, UInt64Type};
use arrow_schema::DataType as Arrow;
use datafusion::common::Result as DfResult;
use datafusion::functions_aggregate::expr_fn as df;
use datafusion::logical_expr::{Expr, cast};
use model::{Code, DataType, Error, Result};

use crate::function::native::call;
use crate::plan::error::to_datafusion;
use crate::plan::types::{Ty, Typed};

/// Digits of a BIGINT UNSIGNED. DataFusion gives the sum ten more, and 128 bits behind them.
const DIGITS: u8 = 20;

/// Whether sums of this type have to be made here.
pub(crate) fn is_wide(ty: Ty) -> bool {
    matches!(ty.data, Some(DataType::BigInt | DataType::UBigInt))
}

/// The sum of `value`, a BIGINT or BIGINT UNSIGNED as `to` says, as a decimal.
pub(crate) fn exact(value: Typed, to: DataType) -> Result<Expr> {
    Ok(df::sum(cast(value.arrow_cast(to)?.expr, Arrow::Decimal128(DIGITS, 0))))
}

/// A sum of [`exact`] as an integer of type `to`; the query ends with an error where it is none.
pub(crate) fn fitting(sum: Expr, to: DataType) -> Typed {
    let narrowed = match to {
        DataType::UBigInt => call("sum_to_bigint_unsigned", Arrow::UInt64, vec![sum], |arrays, _| {
            narrowed::<UInt64Type>(arrays, "BIGINT UNSIGNED")
        }),
        _ => call("sum_to_bigint", Arrow::Int64, vec![sum], |arrays, _| {
            narrowed::<Int64Type>(arrays, "BIGINT")
        }),
    };
    Typed::new(narrowed, Ty::plain(to))
}

fn narrowed<T>(arrays: &[ArrayRef], name: &str) -> DfResult<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let Some(sums) = arrays.first().and_then(|sums| sums.as_primitive_opt::<Decimal128Type>()) else {
        return datafusion::common::internal_err!("a sum is a decimal");
    };
    let fits = |sum: i128| T::Native::try_from(sum).map_err(|_| to_datafusion(overflow(sum, name)));
    let narrowed: PrimitiveArray<T> = sums.try_unary(fits)?;
    Ok(Arc::new(narrowed))
}

fn overflow(sum: i128, name: &str) -> Error {
    Error::text(Code::FunctionFailed, format!("sum does not fit {name}: sum={sum}"))
        .hint("SUM(CAST(column AS DOUBLE)) has the range of DOUBLE")
}
