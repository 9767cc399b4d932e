//! Members of JSON tags: `tag->'key'`.
//!
//! While an expression is computed a member is its JSON text (`"u"`, `2.5`, `true`), NULL where the document has none.
//! What an operator wants of it depends on the other operand: text takes strings, a number takes numbers, a boolean
//! takes booleans, and a member of another type is NULL there, so that no comparison holds for it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, StringArray};
use arrow_schema::DataType as Arrow;
use datafusion::logical_expr::Expr;
use model::{Code, DataType, Error, JSON_BYTES_MAX, Result};
use serde_json::{Map, Value};

use crate::ast::JSON_MEMBER;
use crate::function::native::call;
use crate::function::{Call, text};
use crate::plan::types::{Ty, Typed};

/// As text: NCHAR, since what a document holds is counted in characters.
const TEXT: DataType = DataType::NChar(JSON_BYTES_MAX);

pub(super) fn knows(name: &str) -> bool {
    name == JSON_MEMBER
}

pub(super) fn bind(member: &Call<'_>) -> Result<Typed> {
    member.count(2, 2)?;
    let document = member.arg(0)?;
    let (Some(DataType::Json), Some(key)) = (document.ty.data, member.arg(1)?.text()) else {
        return Err(Error::of(Code::InvalidOperation).hint("-> takes a member out of a JSON tag"));
    };
    let key = key.to_owned();
    let name = format!("json_member_{key}");
    let expr = texts(name, document.expr.clone(), move |document| member_of(document, &key));
    Ok(Typed::new(expr, Ty::plain(DataType::Json)))
}

/// Whether `value` is a member. A document that is taken as it stands in its tag is none.
pub(crate) fn is_member(value: &Typed) -> bool {
    value.ty.data == Some(DataType::Json) && !matches!(value.expr, Expr::Column(_))
}

/// A member beside another operand of a comparison, both of one type then; `None` where neither is a member.
pub(crate) fn unify(left: &Typed, right: &Typed) -> Result<Option<(Typed, Typed)>> {
    Ok(match (is_member(left), is_member(right)) {
        (false, false) => None,
        (true, false) => Some((beside(left, right.ty)?, right.clone())),
        (false, true) => Some((left.clone(), beside(right, left.ty)?)),
        (true, true) => return Err(Error::not_supported("comparing two members of JSON tags")),
    })
}

fn beside(member: &Typed, other: Ty) -> Result<Typed> {
    if other.is_string() {
        Ok(as_text(member.clone()))
    } else if other.is_bool() {
        Ok(as_bool(member))
    } else if other.is_numeric() {
        Ok(as_number(member))
    } else {
        Err(Error::not_supported("comparing members of JSON tags with times and binary values"))
    }
}

/// A member's string, NULL for any other value; what is no member stays as it is.
pub(crate) fn as_text(value: Typed) -> Typed {
    if !is_member(&value) {
        return value;
    }
    let string = |json: &str| match serde_json::from_str(json) {
        Ok(Value::String(string)) => Some(string),
        _ => None,
    };
    Typed::new(texts("json_text".into(), value.expr, string), Ty::plain(TEXT))
}

fn as_number(member: &Typed) -> Typed {
    let expr = call("json_number", Arrow::Float64, vec![member.expr.clone()], |args, _| {
        let members = args.iter().flat_map(|array| array.as_string::<i32>().iter());
        let numbers: Float64Array = members.map(|json| number(&parsed(json?)?)).collect();
        Ok(Arc::new(numbers) as ArrayRef)
    });
    Typed::double(expr)
}

fn as_bool(member: &Typed) -> Typed {
    let expr = call("json_bool", Arrow::Boolean, vec![member.expr.clone()], |args, _| {
        let members = args.iter().flat_map(|array| array.as_string::<i32>().iter());
        let bools: BooleanArray = members.map(|json| parsed(json?)?.as_bool()).collect();
        Ok(Arc::new(bools) as ArrayRef)
    });
    Typed::bool(expr)
}

/// A member in arithmetic: its number, 0 or 1 for a boolean, of a string the number that it begins with.
pub(crate) fn to_double(member: Typed) -> Typed {
    let expr = call("json_double", Arrow::Float64, vec![member.expr], |args, _| {
        let members = args.iter().flat_map(|array| array.as_string::<i32>().iter());
        let doubles: Float64Array = members
            .map(|json| match parsed(json?)? {
                Value::String(string) => Some(text::prefix_double(&string)),
                Value::Bool(yes) => Some(f64::from(u8::from(yes))),
                other => number(&other),
            })
            .collect();
        Ok(Arc::new(doubles) as ArrayRef)
    });
    Typed::double(expr)
}

/// A member as a result shows it: strings within quotes, nothing in them escaped, and numbers with nine decimals.
pub(crate) fn printed(member: Typed) -> Typed {
    let print = |json: &str| match parsed(json)? {
        Value::String(string) => Some(format!("\"{string}\"")),
        value @ Value::Number(_) => number(&value).map(|number| format!("{number:.9}")),
        _ => Some(json.to_owned()),
    };
    Typed { expr: texts("json_printed".into(), member.expr, print), ..member }
}

fn parsed(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
}

/// JSON text of what `document` has under `key`.
fn member_of(document: &str, key: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(document).ok()?;
    let value = members.get(key).filter(|value| !value.is_null())?;
    serde_json::to_string(value).ok()
}

/// A call that makes text of text. Rows of one table lie together and have one document: the last answer is kept.
fn texts(
    name: String,
    argument: Expr,
    body: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Expr {
    call(name, Arrow::Utf8, vec![argument], move |args, _| {
        let mut last: Option<(&str, Option<String>)> = None;
        let mut answer = |text| match &last {
            Some((known, made)) if *known == text => made.clone(),
            _ => {
                let made = body(text);
                last = Some((text, made.clone()));
                made
            }
        };
        let array = args.first().map(|array| array.as_string::<i32>());
        let made: StringArray = array.into_iter().flatten().map(|text| answer(text?)).collect();
        Ok(Arc::new(made) as ArrayRef)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_key() {
        let document = r#"{"a":1,"b":"te\"xt","c":true,"d":null}"#;
        let found = ["a", "b", "c", "d", "e"].map(|key| member_of(document, key));
        assert_eq!(found, [Some("1".into()), Some(r#""te\"xt""#.into()), Some("true".into()), None, None]);
        assert_eq!(member_of("no document", "a"), None);
    }
}
