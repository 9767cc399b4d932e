//! IF, NVL2 and NULLIF, which are CASE; IFNULL and COALESCE.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::compute::interleave;
use arrow_schema::DataType as Arrow;
use datafusion::logical_expr::{Case, Expr as DfExpr, Operator, lit};
use model::Result;

use crate::ast::Expr;
use crate::function::native::call;
use crate::function::{cast, count_error};
use crate::plan::coerce::{self, compare};
use crate::plan::expr::Binder;
use crate::plan::types::{Ty, Typed};

pub(super) fn knows(name: &str) -> bool {
    matches!(name, "if" | "ifnull" | "nvl" | "nvl2" | "nullif" | "coalesce")
}

pub(super) fn bind(binder: &mut Binder<'_, '_>, name: &str, args: &[Expr]) -> Result<Typed> {
    let zone = binder.cx.session.zone;
    match (name, args) {
        ("if", [condition, yes, no]) => {
            let condition = binder.condition(condition, true)?;
            let (yes, no) = (binder.value(yes)?, binder.value(no)?);
            choose(binder, vec![(condition, yes)], no)
        }
        ("nvl2", [value, yes, no]) => {
            let known = is_known(&binder.value(value)?);
            let (yes, no) = (binder.value(yes)?, binder.value(no)?);
            choose(binder, vec![(known, yes)], no)
        }
        ("nullif", [a, b]) => {
            let (a, b) = (binder.value(a)?, binder.value(b)?);
            let null = Typed { ty: a.ty, ..cast::cast(Typed::null(), a.ty, zone)? };
            let same = compare(binder.cx.copy(&a)?, Operator::Eq, b, zone)?;
            choose(binder, vec![(same, null)], a)
        }
        ("ifnull" | "nvl", [_, _]) | ("coalesce", [_, ..]) => {
            let values = args.iter().map(|a| binder.value(a)).collect::<Result<Vec<_>>>()?;
            first_known(binder, values)
        }
        _ => Err(count_error(name)),
    }
}

fn is_known(value: &Typed) -> DfExpr {
    match value.constant() {
        Some(constant) => lit(!constant.is_null()),
        None => value.expr.clone().is_not_null(),
    }
}

/// The first of `values` that is not NULL. No CASE: that would hold each value twice, and double with every level.
fn first_known(binder: &Binder<'_, '_>, values: Vec<Typed>) -> Result<Typed> {
    let ty = coerce::common(&values.iter().map(|v| v.ty).collect::<Vec<_>>());
    let values = values
        .into_iter()
        .map(|v| Ok(cast::cast(v, ty, binder.cx.session.zone)?.expr))
        .collect::<Result<Vec<_>>>()?;
    let expr = call("first_known", ty.arrow(), values, |arrays, rows| {
        let first = |row| arrays.iter().position(|array| array.is_valid(row)).unwrap_or(0);
        let picks: Vec<_> = (0..rows).map(|row| (first(row), row)).collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&arrays, &picks)?)
    });
    Typed::new(expr, ty).folded()
}

fn choose(binder: &Binder<'_, '_>, branches: Vec<(DfExpr, Typed)>, otherwise: Typed) -> Result<Typed> {
    let zone = binder.cx.session.zone;
    let types: Vec<Ty> = branches.iter().map(|(_, v)| v.ty).chain([otherwise.ty]).collect();
    let ty = coerce::common(&types);
    let mut when_then = Vec::with_capacity(branches.len());
    for (condition, value) in branches {
        when_then.push((Box::new(condition), Box::new(cast::cast(value, ty, zone)?.expr)));
    }
    let otherwise = Box::new(cast::cast(otherwise, ty, zone)?.expr);
    Ok(Typed::new(DfExpr::Case(Case::new(None, when_then, Some(otherwise))), ty))
}

/// Whether one of `values` is not NULL: flat where a chain of OR would nest as deep as there are values.
pub(crate) fn any_known(values: Vec<DfExpr>) -> DfExpr {
    call("any_known", Arrow::Boolean, values, |args, rows| {
        let known = |row: usize| args.iter().any(|array| array.is_valid(row));
        Ok(Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(known(row))))))
    })
}
