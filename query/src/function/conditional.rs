//! IF, IFNULL, NVL2, NULLIF, COALESCE: all of them CASE.

use std::sync::Arc;

use arrow::array::{Array as _, BooleanArray};
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
            let same = compare(a.clone(), Operator::Eq, b, zone)?;
            choose(binder, vec![(same, null)], a)
        }
        ("ifnull" | "nvl", [_, _]) | ("coalesce", [_, ..]) => {
            let mut values = args.iter().map(|a| binder.value(a)).collect::<Result<Vec<_>>>()?;
            let Some(last) = values.pop() else { return Err(count_error(name)) };
            let branches = values.into_iter().map(|v| (is_known(&v), v)).collect();
            choose(binder, branches, last)
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
