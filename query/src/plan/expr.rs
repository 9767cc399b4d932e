//! Expressions: from the tree to DataFusion, by the dialect's rules for types and NULL.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Case, Expr as DfExpr, Operator, lit};
use model::{Code, DataType, DurationLiteral, Error, Precision, Result, Value};

use crate::ast::{BinaryOp, Expr};
use crate::function::{self, cast, pattern, time};
use crate::plan::Context;
use crate::plan::aggregate::Groups;
use crate::plan::coerce::{self, binary, compare, exact, to_condition, to_double};
use crate::plan::scope::Scope;
use crate::plan::types::{Ty, Typed};
use crate::source::TimeRange;

/// Where an expression stands: what may appear in it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Select,
    Where,
    GroupBy,
    On,
    Having,
    /// Inside an aggregate function.
    Argument,
}

/// Binds expressions.
pub(crate) struct Binder<'a, 'g> {
    pub(crate) cx: &'a Context<'a>,
    pub(crate) scope: &'a Scope,
    pub(crate) clause: Clause,
    /// Bounds that WHERE sets on the timeline, for `_qstart` and its kin.
    pub(crate) range: TimeRange,
    /// Set where rows are gone and only groups are left.
    pub(crate) groups: Option<&'g mut Groups>,
}

impl<'a> Binder<'a, '_> {
    /// A binder for expressions over rows.
    pub(crate) fn rows(cx: &'a Context<'a>, scope: &'a Scope, clause: Clause) -> Self {
        Self { cx, scope, clause, range: TimeRange::ALL, groups: None }
    }

    /// The same place, but over rows.
    pub(crate) fn over_rows(&self, clause: Clause) -> Binder<'a, 'static> {
        Binder { cx: self.cx, scope: self.scope, clause, range: self.range, groups: None }
    }

    /// Precision of times that no column gives one to.
    pub(crate) fn precision(&self) -> Precision {
        self.scope.precision()
    }

    /// Binds a value.
    pub(crate) fn value(&mut self, expr: &Expr) -> Result<Typed> {
        if self.groups.is_some()
            && let Some(found) = self.grouped(expr)?
        {
            return Ok(found);
        }
        match expr {
            Expr::Literal(value) => Ok(self.literal(value)),
            Expr::Duration(duration) => self.duration(*duration),
            Expr::TypedTimestamp(text) => {
                let precision = self.precision();
                let ticks =
                    model::parse_timestamp(text, precision, self.cx.session.zone).ok_or_else(|| {
                        Error::with(Code::WrongValueType, text).hint(Code::InvalidTimestamp.help())
                    })?;
                Ok(Typed::timestamp(Some(ticks), precision))
            }
            Expr::Column { qualifier, name, quoted, at } => {
                self.column(qualifier.as_deref(), name, *quoted).map_err(|error| error.or_at(at.0))
            }
            Expr::Negate(inner) => self.negate(inner),
            Expr::Binary { left, op, right } => match arithmetic(*op) {
                Some(op) => self.arithmetic(left, op, right),
                None => Ok(Typed::bool(self.condition(expr, false)?)),
            },
            Expr::Not(_)
            | Expr::Between { .. }
            | Expr::InList { .. }
            | Expr::IsNull { .. }
            | Expr::Like { .. }
            | Expr::Match { .. } => Ok(Typed::bool(self.condition(expr, false)?)),
            Expr::Function { name, args, at } => self.function(name, args).map_err(|error| error.or_at(at.0)),
            Expr::Star => Err(Error::text(Code::Syntax, "syntax error near \"*\"")),
            Expr::Cast { expr, data_type } => {
                let value = self.value(expr)?;
                cast::cast(value, Ty::of(*data_type, self.precision()), self.cx.session.zone)
            }
            Expr::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref())
            }
        }
    }

    fn literal(&self, value: &Value) -> Typed {
        match value {
            Value::Null => Typed::null(),
            Value::Bool(v) => Typed::bool(lit(*v)),
            Value::Int(v) => Typed::bigint(lit(*v)),
            Value::UInt(v) => Typed::new(lit(*v), Ty::plain(DataType::UBigInt)),
            Value::Float(v) => Typed::new(lit(*v), Ty::plain(DataType::Float)),
            Value::Double(v) => Typed::double(lit(*v)),
            Value::Timestamp(ticks) => Typed::timestamp(Some(*ticks), self.precision()),
            Value::Text(text) => {
                let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
                Typed::new(lit(text.as_str()), Ty::plain(DataType::Varchar(length)))
            }
            Value::Bytes(bytes) => {
                let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
                Typed::new(lit(bytes.as_slice()), Ty::plain(DataType::Varbinary(length)))
            }
        }
    }

    fn duration(&self, duration: DurationLiteral) -> Result<Typed> {
        let ticks = duration.ticks(self.precision()).ok_or_else(|| {
            Error::with(Code::WrongValueType, duration).hint(
                "months (n) and years (y) have no length by themselves: add them to a TIMESTAMP, or write days (d)",
            )
        })?;
        Ok(Typed::bigint(lit(ticks)))
    }

    fn negate(&mut self, inner: &Expr) -> Result<Typed> {
        let value = self.value(inner)?;
        if let Some(constant) = value.constant()
            && value.ty.is_numeric()
            && !value.ty.is_unsigned()
        {
            let negated = constant.arithmetic_negate().map_err(super::error::from_datafusion)?;
            return Ok(Typed::literal(negated, value.ty));
        }
        let double = to_double(value)?;
        Typed::double(DfExpr::Negative(Box::new(double.expr))).folded()
    }

    fn arithmetic(&mut self, left: &Expr, op: Operator, right: &Expr) -> Result<Typed> {
        if let Some(time) = self.time_arithmetic(left, op, right)? {
            return Ok(time);
        }
        let (l, r) = (self.value(left)?, self.value(right)?);
        let zone = self.cx.session.zone;
        match op {
            Operator::BitwiseAnd | Operator::BitwiseOr => {
                let (l, r) = (coerce::to_bigint(l, zone)?, coerce::to_bigint(r, zone)?);
                Typed::bigint(binary(l.expr, op, r.expr)).folded()
            }
            Operator::Plus | Operator::Minus if l.ty.is_timestamp() || r.ty.is_timestamp() => {
                time::shift_by_value(l, op, r)?.folded()
            }
            Operator::Divide | Operator::Modulo => {
                coerce::divide(to_double(l)?, to_double(r)?, op == Operator::Modulo).folded()
            }
            _ => Typed::double(binary(to_double(l)?.expr, op, to_double(r)?.expr)).folded(),
        }
    }

    /// A TIMESTAMP plus or minus a duration. Months and years follow the calendar of the session's zone.
    fn time_arithmetic(&mut self, left: &Expr, op: Operator, right: &Expr) -> Result<Option<Typed>> {
        let (time, duration) = match (left, op, right) {
            (time, Operator::Plus, Expr::Duration(d)) | (Expr::Duration(d), Operator::Plus, time) => {
                (time, *d)
            }
            (time, Operator::Minus, Expr::Duration(d)) => {
                (time, DurationLiteral { count: d.count.saturating_neg(), ..*d })
            }
            _ => return Ok(None),
        };
        let value = self.value(time)?;
        if !value.ty.is_timestamp() {
            return Ok(None);
        }
        time::shift(value, duration, self.cx.session.zone)?.folded().map(Some)
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> Result<Typed> {
        let zone = self.cx.session.zone;
        let operand = operand.map(|e| self.value(e)).transpose()?;
        let mut bound = Vec::with_capacity(branches.len());
        for (when, then) in branches {
            let condition = match &operand {
                None => self.condition(when, true)?,
                Some(operand) => compare(self.cx.copy(operand)?, Operator::Eq, self.value(when)?, zone)?,
            };
            bound.push((condition, self.value(then)?));
        }
        let otherwise = otherwise.map(|e| self.value(e)).transpose()?;
        let types: Vec<Ty> = bound.iter().map(|(_, t)| t.ty).chain(otherwise.iter().map(|t| t.ty)).collect();
        let ty = coerce::common(&types);
        let mut when_then = Vec::with_capacity(bound.len());
        for (condition, then) in bound {
            when_then.push((Box::new(condition), Box::new(cast::cast(then, ty, zone)?.expr)));
        }
        let else_expr = match otherwise {
            Some(e) => Some(Box::new(cast::cast(e, ty, zone)?.expr)),
            None => None,
        };
        Typed::new(DfExpr::Case(Case::new(None, when_then, else_expr)), ty).folded()
    }

    fn function(&mut self, name: &str, args: &[Expr]) -> Result<Typed> {
        if function::is_aggregate(name) || function::is_multi_row(name) {
            return Err(match self.clause {
                _ if function::is_multi_row(name) => Error::not_supported(format_args!("function {name}")),
                Clause::Argument => Error::with(Code::NestedAggregates, name),
                Clause::Where | Clause::GroupBy | Clause::On => Error::with(Code::NoAggregation, name),
                _ => Error::of(Code::NotSingleGroup),
            });
        }
        function::bind(self, name, args)
    }

    /// Binds a condition. `loose`: the caller takes NULL for false, so that comparisons can stay as the source likes
    /// them; else the answer is never NULL.
    pub(crate) fn condition(&mut self, expr: &Expr, loose: bool) -> Result<DfExpr> {
        let zone = self.cx.session.zone;
        let settle = |e: DfExpr| if loose { e } else { exact(e) };
        if self.groups.is_some()
            && let Some(found) = self.grouped(expr)?
        {
            return Ok(settle(to_condition(found)?));
        }
        Ok(match expr {
            Expr::Binary { left, op: op @ (BinaryOp::And | BinaryOp::Or), right } => {
                let (l, r) = (self.condition(left, loose)?, self.condition(right, loose)?);
                let op = if *op == BinaryOp::And { Operator::And } else { Operator::Or };
                binary(l, op, r)
            }
            Expr::Not(inner) => DfExpr::Not(Box::new(self.condition(inner, false)?)),
            Expr::Binary { left, op, right } if comparison(*op).is_some() => {
                let op = comparison(*op).unwrap_or(Operator::Eq);
                let (l, r) = (self.value(left)?, self.value(right)?);
                settle(compare(l, op, r, zone)?)
            }
            Expr::Between { expr, negated, low, high } => settle(self.between(expr, *negated, low, high)?),
            Expr::InList { expr, negated, list } => settle(self.in_list(expr, *negated, list)?),
            Expr::IsNull { expr, negated } => {
                let value = self.value(expr)?;
                match (value.constant().map(ScalarValue::is_null), *negated) {
                    (Some(null), negated) => lit(null != negated),
                    (None, true) => value.expr.is_not_null(),
                    (None, false) => value.expr.is_null(),
                }
            }
            Expr::Like { expr, negated, pattern } => {
                let (value, pattern) = (self.value(expr)?, self.value(pattern)?);
                settle(pattern::like(value, pattern, *negated)?)
            }
            Expr::Match { expr, negated, pattern } => {
                let (value, pattern) = (self.value(expr)?, self.value(pattern)?);
                settle(pattern::matches(value, pattern, *negated)?)
            }
            other => settle(to_condition(self.value(other)?)?),
        })
    }

    fn between(&mut self, expr: &Expr, negated: bool, low: &Expr, high: &Expr) -> Result<DfExpr> {
        let zone = self.cx.session.zone;
        let (value, low, high) = (self.value(expr)?, self.value(low)?, self.value(high)?);
        if [&value, &low, &high].iter().any(|t| t.constant().is_some_and(ScalarValue::is_null)) {
            return Ok(lit(false));
        }
        let (below, above, join) = if negated {
            (Operator::Lt, Operator::Gt, Operator::Or)
        } else {
            (Operator::GtEq, Operator::LtEq, Operator::And)
        };
        Ok(binary(
            compare(self.cx.copy(&value)?, below, low, zone)?,
            join,
            compare(value, above, high, zone)?,
        ))
    }

    fn in_list(&mut self, expr: &Expr, negated: bool, list: &[Expr]) -> Result<DfExpr> {
        let zone = self.cx.session.zone;
        let value = self.value(expr)?;
        let mut pairs = Vec::with_capacity(list.len());
        for item in list {
            let item = self.value(item)?;
            if item.constant().is_some_and(ScalarValue::is_null) {
                // `x NOT IN (.., NULL)` holds for nothing; `x IN (.., NULL)` is as if it were not there.
                if negated {
                    return Ok(lit(false));
                }
                continue;
            }
            if let Some(pair) = coerce::unify(value.clone(), item, zone)? {
                pairs.push(pair);
            }
        }
        let Some((first, _)) = pairs.first() else { return Ok(lit(false)) };
        if first.constant().is_none()
            && pairs.iter().all(|(l, r)| l.expr == first.expr && l.ty.arrow() == r.ty.arrow())
        {
            let first = first.expr.clone();
            return Ok(first.in_list(pairs.into_iter().map(|(_, r)| r.expr).collect(), negated));
        }
        let (op, join) =
            if negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
        let mut terms = Vec::with_capacity(pairs.len());
        for (l, r) in pairs {
            // Here the operand does stand in the plan as often as there are items.
            terms.push(binary(self.cx.copy(&l)?.expr, op, r.expr));
        }
        // Joined in pairs, not in a row: everything that walks the tree recurses, and a list may be long.
        while terms.len() > 1 {
            let mut joined = Vec::with_capacity(terms.len().div_ceil(2));
            let mut left = terms.into_iter();
            while let Some(a) = left.next() {
                joined.push(match left.next() {
                    Some(b) => binary(a, join, b),
                    None => a,
                });
            }
            terms = joined;
        }
        let chain = terms.pop().unwrap_or_else(|| lit(false));
        Ok(Typed::bool(chain).folded()?.expr)
    }

    /// A column or a pseudo column.
    fn column(&mut self, qualifier: Option<&str>, name: &str, quoted: bool) -> Result<Typed> {
        if !quoted && let Some(pseudo) = self.pseudo_column(qualifier, name)? {
            return Ok(pseudo);
        }
        match self.scope.column(qualifier, name) {
            Ok(column) => Ok(self.scope.typed(column)),
            Err(_) if !quoted && qualifier.is_none() && matches!(name, "now" | "today") => {
                function::bind(self, name, &[])
            }
            Err(error) => Err(error),
        }
    }

    fn pseudo_column(&mut self, qualifier: Option<&str>, name: &str) -> Result<Option<Typed>> {
        Ok(Some(match name {
            "tbname" => {
                let column = self.scope.tbname(qualifier)?;
                let typed = self.scope.typed(column);
                Typed {
                    expr: datafusion::logical_expr::cast(typed.expr, arrow_schema::DataType::Utf8),
                    ..typed
                }
            }
            "_rowts" | "_c0" => {
                let column = self.scope.timeline(qualifier).ok_or_else(|| Error::of(Code::RowTs))?;
                self.scope.typed(column)
            }
            "_wstart" | "_wend" | "_wduration" => {
                let window = self.groups.as_ref().and_then(|g| g.window.as_ref());
                window.ok_or_else(|| Error::of(Code::WindowPseudoColumn))?.column(name)
            }
            "_qstart" | "_qend" | "_qduration" => {
                if matches!(self.clause, Clause::Where | Clause::On) {
                    return Err(Error::text(Code::SelectListOnly, "Illegal pseudo column"));
                }
                self.query_bound(name)
            }
            "_tags" => return Err(Error::of(Code::TagsPseudoColumn)),
            _ => return Ok(None),
        }))
    }

    fn query_bound(&self, name: &str) -> Typed {
        let precision = self.precision();
        let TimeRange { first, last_inclusive } = self.range;
        let start = (first != i64::MIN).then_some(first);
        let end = (last_inclusive != i64::MAX).then_some(last_inclusive);
        match name {
            "_qstart" => Typed::timestamp(start, precision),
            "_qend" => Typed::timestamp(end, precision),
            // Both ends belong to the range, hence the one.
            _ => Typed::bigint(lit(ScalarValue::Int64(
                start.zip(end).map(|(s, e)| e.saturating_sub(s).saturating_add(1)),
            ))),
        }
    }
}

/// Arithmetic operators as DataFusion has them.
fn arithmetic(op: BinaryOp) -> Option<Operator> {
    Some(match op {
        BinaryOp::Plus => Operator::Plus,
        BinaryOp::Minus => Operator::Minus,
        BinaryOp::Multiply => Operator::Multiply,
        BinaryOp::Divide => Operator::Divide,
        BinaryOp::Modulo => Operator::Modulo,
        BinaryOp::BitAnd => Operator::BitwiseAnd,
        BinaryOp::BitOr => Operator::BitwiseOr,
        _ => return None,
    })
}

/// Comparison operators as DataFusion has them.
pub(crate) fn comparison(op: BinaryOp) -> Option<Operator> {
    Some(match op {
        BinaryOp::Eq => Operator::Eq,
        BinaryOp::NotEq => Operator::NotEq,
        BinaryOp::Lt => Operator::Lt,
        BinaryOp::LtEq => Operator::LtEq,
        BinaryOp::Gt => Operator::Gt,
        BinaryOp::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// Calls `f` on `expr` and everything inside it, outermost first, until `f` says false for a branch.
pub(crate) fn walk(expr: &Expr, f: &mut dyn FnMut(&Expr) -> bool) {
    if !f(expr) {
        return;
    }
    match expr {
        Expr::Column { .. } | Expr::Literal(_) | Expr::Duration(_) | Expr::TypedTimestamp(_) | Expr::Star => {
        }
        Expr::Negate(e) | Expr::Not(e) | Expr::IsNull { expr: e, .. } | Expr::Cast { expr: e, .. } => {
            walk(e, f)
        }
        Expr::Binary { left, right, .. } => {
            walk(left, f);
            walk(right, f);
        }
        Expr::Between { expr, low, high, .. } => {
            walk(expr, f);
            walk(low, f);
            walk(high, f);
        }
        Expr::InList { expr, list, .. } => {
            walk(expr, f);
            list.iter().for_each(|e| walk(e, f));
        }
        Expr::Like { expr, pattern, .. } | Expr::Match { expr, pattern, .. } => {
            walk(expr, f);
            walk(pattern, f);
        }
        Expr::Function { args, .. } => args.iter().for_each(|e| walk(e, f)),
        Expr::Case { operand, branches, otherwise } => {
            if let Some(e) = operand {
                walk(e, f);
            }
            for (when, then) in branches {
                walk(when, f);
                walk(then, f);
            }
            if let Some(e) = otherwise {
                walk(e, f);
            }
        }
    }
}
