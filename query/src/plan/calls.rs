//! Which functions a SELECT calls: those that nobody knows or that are not built are named before anything else is said
//! of the statement, wherever they stand.

use model::{Code, Error, Result};

use crate::ast::{At, Expr, Fill, OrderBy, Select};
use crate::function;
use crate::plan::expr::walk;
use crate::plan::items::Item;

/// Refuses unknown functions, functions that are not built, and functions that cannot stand where they do.
pub(crate) fn check_calls(select: &Select, items: &[Item], order_by: &[OrderBy]) -> Result<()> {
    for expr in select.filter.iter().chain(&select.having) {
        check_scalars(expr)?;
        if let Some((name, at)) = first_call(expr, function::is_multi_row) {
            let error = match function::is_mixable(&name) {
                true => not_built(&name),
                false => misplaced(&name),
            };
            return Err(error.or_at(at.0));
        }
    }
    check_select_list(select, items)?;
    let fill: &[Expr] = match &select.fill {
        Some(Fill::Value { values, .. }) => values,
        _ => &[],
    };
    let keys = select.partition_by.iter().map(|p| &p.expr).chain(&select.group_by);
    for expr in keys.chain(fill).chain(order_by.iter().map(|o| &o.expr)) {
        check_scalars(expr)?;
        if let Some((name, at)) = first_call(expr, function::is_multi_row) {
            return Err(not_built(&name).or_at(at.0));
        }
    }
    Ok(())
}

fn check_select_list(select: &Select, items: &[Item]) -> Result<()> {
    let mut multi: Vec<(String, At)> = Vec::new();
    let mut aggregates = false;
    for expr in items.iter().filter_map(Item::expr) {
        check_scalars(expr)?;
        walk(expr, &mut |e| {
            if let Expr::Function { name, at, .. } = e {
                if function::is_multi_row(name) {
                    multi.push((name.clone(), *at));
                } else {
                    aggregates |= function::is_aggregate(name);
                }
            }
            true
        });
    }
    // An aggregate that is not built goes with others; rows of rows and several rows go with nothing.
    let mut alone = multi.iter().filter(|(name, _)| !function::is_mixable(name));
    if let Some((name, at)) = alone.next() {
        let several = multi.len() > 1 && multi.iter().any(|(m, _)| m != "diff");
        let grouped = select.window.is_some() || !select.group_by.is_empty();
        if aggregates || several || (grouped && function::is_single_table_sequence(name)) {
            return Err(misplaced(name).or_at(at.0));
        }
    }
    multi.first().map_or(Ok(()), |(name, at)| Err(not_built(name).or_at(at.0)))
}

/// Refuses the first scalar function of `expr` that there is not.
fn check_scalars(expr: &Expr) -> Result<()> {
    let unknown = |name: &str| {
        !function::is_aggregate(name)
            && !function::is_multi_row(name)
            && function::check_scalar(name).is_err()
    };
    match first_call(expr, unknown) {
        Some((name, at)) => function::check_scalar(&name).map_err(|error| error.or_at(at.0)),
        None => Ok(()),
    }
}

/// Name and place of the first function in `expr` that is `wanted`.
fn first_call(expr: &Expr, wanted: impl Fn(&str) -> bool) -> Option<(String, At)> {
    let mut found = None;
    walk(expr, &mut |e| {
        if let Expr::Function { name, at, .. } = e
            && found.is_none()
            && wanted(name)
        {
            found = Some((name.clone(), *at));
        }
        found.is_none()
    });
    found
}

fn not_built(name: &str) -> Error {
    Error::not_supported(format_args!("function {name}"))
}

/// The code that clients know for it, with the function's name; it is not built either.
fn misplaced(name: &str) -> Error {
    Error::with(Code::SelectListOnly, name).hint(format!("function {name} is not supported either way"))
}
