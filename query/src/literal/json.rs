//! JSON tags: flat objects, kept as compact text with sorted keys.

use std::collections::BTreeMap;
use std::fmt;

use model::JSON_BYTES_MAX;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Number, Value};

use super::{Misfit, Raw};

const KEY_BYTES_MAX: usize = 256;

/// The document as it is stored; `None` is NULL, which an empty one counts as.
pub(super) fn parse(raw: Raw<'_>) -> Result<Option<String>, Misfit> {
    let text = match raw {
        Raw::Quoted(text) | Raw::Hex(text) => text.trim(),
        raw if raw.is_null() => return Ok(None),
        Raw::Bare(_) | Raw::Shifted { .. } => return Err(Misfit::Symbol),
    };
    if text.is_empty() || text.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    if text.len() > usize::from(JSON_BYTES_MAX) {
        return Err(Misfit::Json("json string too long than 4095"));
    }
    let Object(members) = serde_json::from_str(text).map_err(|_| Misfit::Json("json parse error"))?;
    let mut kept = BTreeMap::new();
    for (key, value) in members {
        if key.len() > KEY_BYTES_MAX || !key.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Err(Misfit::Json("json key error"));
        }
        let value = match value {
            Value::Array(_) | Value::Object(_) => return Err(Misfit::Json("json value error")),
            Value::Number(number) => double(&number).ok_or(Misfit::Json("json value error"))?,
            other => other,
        };
        // The first of several counts, and one without a name does not.
        if !key.is_empty() {
            kept.entry(key).or_insert(value);
        }
    }
    if kept.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&kept).map(Some).map_err(|_| Misfit::Json("json value error"))
}

/// Numbers are DOUBLE; whole ones are written without a fraction.
fn double(number: &Number) -> Option<Value> {
    let value = number.as_f64().filter(|value| value.is_finite())?;
    format!("{value}").parse().ok().map(Value::Number)
}

/// The members in the order of the text, repeated ones too.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> Result<Option<String>, Misfit> {
        parse(Raw::Quoted(text))
    }

    #[test]
    fn documents_are_compact_and_sorted() {
        let text = r#"{ "b": "text", "a": 1.0, "c": true, "d": null, "e": 2.5, "a": 9, "": 3 }"#;
        assert_eq!(stored(text), Ok(Some(r#"{"a":1,"b":"text","c":true,"d":null,"e":2.5}"#.into())));
        for empty in ["", " ", "null", "{}", r#"{"":1}"#] {
            assert_eq!(stored(empty), Ok(None), "{empty}");
        }
        assert_eq!(parse(Raw::Bare("NULL")), Ok(None));
    }

    #[test]
    fn what_is_no_flat_object_is_refused() {
        for (text, reason) in [
            ("[1]", "json parse error"),
            ("7", "json parse error"),
            (r#"{"a":"#, "json parse error"),
            (r#"{"a":[1]}"#, "json value error"),
            (r#"{"a":{"b":1}}"#, "json value error"),
            (r#"{"ä":1}"#, "json key error"),
        ] {
            assert_eq!(stored(text), Err(Misfit::Json(reason)), "{text}");
        }
        assert!(stored(&format!(r#"{{"a":"{}"}}"#, "x".repeat(4_095))).is_err());
    }
}
