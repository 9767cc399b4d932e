//! Scalar functions written as closures over Arrow arrays.
//!
//! The dialect's functions differ from DataFusion's in their answers to NULL, to bad text and to numbers out of range,
//! so nearly all of them are ours. One type carries them all.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow_schema::DataType as Arrow;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// What a function does: one array an argument, all of one length (the second argument), to one array of that length.
pub(crate) type Body = dyn Fn(&[ArrayRef], usize) -> DfResult<ArrayRef> + Send + Sync;

/// A scalar function.
pub(crate) struct Native {
    /// Names the function *and* every parameter that its closure captured: two of one name are taken for the same.
    name: String,
    result: Arrow,
    signature: Signature,
    body: Arc<Body>,
    /// Never falls where its one argument never falls: sorted rows stay sorted by it.
    monotonic: bool,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native")
            .field("name", &self.name)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Native {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.result == other.result
    }
}

impl Eq for Native {}

impl Hash for Native {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Native {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[Arrow]) -> DfResult<Arrow> {
        Ok(self.result.clone())
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> DfResult<SortProperties> {
        match inputs {
            [input] if self.monotonic => Ok(input.sort_properties),
            _ => Ok(SortProperties::Unordered),
        }
    }

    // The planner has cast every argument already.
    fn coerce_types(&self, arguments: &[Arrow]) -> DfResult<Vec<Arrow>> {
        Ok(arguments.to_vec())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = !args.args.is_empty()
            && args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)))
            && self.signature.volatility == Volatility::Immutable;
        if constant {
            let arrays = args
                .args
                .iter()
                .map(|a| match a {
                    ColumnarValue::Scalar(value) => value.to_array_of_size(1),
                    ColumnarValue::Array(array) => Ok(Arc::clone(array)),
                })
                .collect::<DfResult<Vec<_>>>()?;
            let result = (self.body)(&arrays, 1)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        let arrays =
            args.args.iter().map(|a| a.clone().into_array(args.number_rows)).collect::<DfResult<Vec<_>>>()?;
        let result = (self.body)(&arrays, args.number_rows)?;
        debug_assert_eq!(result.len(), args.number_rows, "{}", self.name);
        Ok(ColumnarValue::Array(result))
    }
}

/// A call of `body`. `name` must name every parameter that `body` captured.
pub(crate) fn call(
    name: impl Into<String>,
    result: Arrow,
    arguments: Vec<Expr>,
    body: impl Fn(&[ArrayRef], usize) -> DfResult<ArrayRef> + Send + Sync + 'static,
) -> Expr {
    call_with(name, result, arguments, Volatility::Immutable, body)
}

/// As [`call`], for functions that answer anew on every row.
pub(crate) fn call_with(
    name: impl Into<String>,
    result: Arrow,
    arguments: Vec<Expr>,
    volatility: Volatility,
    body: impl Fn(&[ArrayRef], usize) -> DfResult<ArrayRef> + Send + Sync + 'static,
) -> Expr {
    let signature = Signature::user_defined(volatility);
    let native = Native { name: name.into(), result, signature, body: Arc::new(body), monotonic: false };
    ScalarUDF::new_from_impl(native).call(arguments)
}

/// As [`call`], for a function of one argument that never falls where the argument never falls.
pub(crate) fn call_monotonic(
    name: impl Into<String>,
    result: Arrow,
    argument: Expr,
    body: impl Fn(&[ArrayRef], usize) -> DfResult<ArrayRef> + Send + Sync + 'static,
) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    let native = Native { name: name.into(), result, signature, body: Arc::new(body), monotonic: true };
    ScalarUDF::new_from_impl(native).call(vec![argument])
}
