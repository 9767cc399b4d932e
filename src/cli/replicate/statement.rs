//! SQL that makes again what an event tells.

use client::Target;
use model::{Code, DataType, Error, Result, Value};
use serde_json::Value as Json;

use super::event::{Change, Child, Column, Definition, Delete, Storage};
use crate::cli::common::{quoted, text_literal};

/// A table of a database, as statements name it.
pub(super) fn full_name(database: &str, table: &str) -> String {
    format!("{}.{}", quoted(database), quoted(table))
}

pub(super) fn create_stable(database: &str, stable: &Definition) -> String {
    let (columns, tags) = (definitions(&stable.columns), definitions(&stable.tags));
    format!("CREATE STABLE {} ({columns}) TAGS ({tags})", full_name(database, &stable.name))
}

pub(super) fn create_table(database: &str, table: &Definition) -> String {
    format!("CREATE TABLE {} ({})", full_name(database, &table.name), definitions(&table.columns))
}

fn definitions(columns: &[Column]) -> String {
    columns.iter().map(definition).collect::<Vec<_>>().join(", ")
}

fn definition(column: &Column) -> String {
    let key = if column.is_key { " PRIMARY KEY" } else { "" };
    format!("{} {}{key}{}", quoted(&column.name), column.data_type, storage(&column.storage))
}

fn storage(storage: &Storage) -> String {
    let words = [("ENCODE", &storage.encode), ("COMPRESS", &storage.compress), ("LEVEL", &storage.level)];
    let given = words.iter().filter_map(|(word, value)| value.as_ref().map(|value| (word, value)));
    given.map(|(word, value)| format!(" {word} {}", text_literal(value))).collect()
}

/// A child for a CREATE TABLE of many, with tags in the order of its super table.
pub(super) fn child(database: &str, child: &Child, stable: &Target) -> Result<String> {
    let tags = create_tags(child, stable)?;
    let literals: Vec<_> =
        stable.tags().zip(&tags).map(|(tag, value)| literal(tag.data_type, value)).collect();
    Ok(format!(
        "IF NOT EXISTS {} USING {} TAGS ({})",
        full_name(database, &child.name),
        full_name(database, &child.stable),
        literals.join(", ")
    ))
}

/// The statement of an ALTER; `None` where the event does not tell what to do.
pub(super) fn alter(database: &str, kind: &str, table: &str, change: &Change) -> Option<String> {
    let what = match change {
        Change::AddColumn(column) => format!("ADD COLUMN {}", definition(column)),
        Change::DropColumn(name) => format!("DROP COLUMN {}", quoted(name)),
        Change::RenameColumn { from, to } => format!("RENAME COLUMN {} {}", quoted(from), quoted(to)),
        Change::ModifyColumn(column) => format!("MODIFY COLUMN {}", definition(column)),
        Change::AddTag(tag) => format!("ADD TAG {}", definition(tag)),
        Change::DropTag(name) => format!("DROP TAG {}", quoted(name)),
        Change::RenameTag { from, to } => format!("RENAME TAG {} {}", quoted(from), quoted(to)),
        Change::ModifyTag(tag) => format!("MODIFY TAG {}", definition(tag)),
        Change::Storage { column, storage: how } => {
            format!("MODIFY COLUMN {}{}", quoted(column), storage(how))
        }
        Change::Options => return None,
    };
    Some(format!("ALTER {kind} {} {what}", full_name(database, table)))
}

/// `table`, or the children of it that are `among`.
pub(super) fn delete(database: &str, delete: &Delete, among: Option<&[String]>) -> String {
    let timestamp = quoted(&delete.timestamp);
    let mut conditions = Vec::new();
    if delete.first > i64::MIN {
        conditions.push(format!("{timestamp} >= {}", delete.first));
    }
    if delete.last_inclusive < i64::MAX {
        conditions.push(format!("{timestamp} <= {}", delete.last_inclusive));
    }
    if let Some(names) = among {
        let names: Vec<_> = names.iter().map(|name| text_literal(name)).collect();
        conditions.push(format!("tbname IN ({})", names.join(", ")));
    }
    let mut sql = format!("DELETE FROM {}", full_name(database, &delete.table));
    if !conditions.is_empty() {
        sql.push_str(" WHERE ");
        sql.push_str(&conditions.join(" AND "));
    }
    sql
}

/// ALTER TABLE .. SET TAG, the values as the event has them: text within quotes of its own.
pub(super) fn set_tags(
    database: &str,
    table: &str,
    tags: &[(String, Option<String>)],
    stable: &Target,
) -> Result<String> {
    let one = |(name, value): &(String, Option<String>)| {
        let tag = stable.tags().find(|tag| tag.name == *name);
        let tag = tag.ok_or_else(|| Error::with(Code::InvalidTag, format!("tag={name} table={table}")))?;
        let value = value.as_deref().map_or(Ok(Value::Null), |text| tag_value(tag.data_type, name, text))?;
        Ok(format!("{} = {}", quoted(name), literal(tag.data_type, &value)))
    };
    let sets = tags.iter().map(one).collect::<Result<Vec<_>>>()?;
    Ok(format!("ALTER TABLE {} SET TAG {}", full_name(database, table), sets.join(", ")))
}

/// All tags of a new child in the order of its super table.
pub(super) fn create_tags(child: &Child, stable: &Target) -> Result<Vec<Value>> {
    let missing = child.tags.iter().find(|(name, _)| stable.tags().all(|tag| tag.name != *name));
    if let Some((name, _)) = missing {
        return Err(Error::with(
            Code::InvalidTag,
            format!("tag={name} table={} using={}", child.name, child.stable),
        ));
    }
    let value = |tag: &client::Column| {
        let given = child.tags.iter().find(|(name, _)| *name == tag.name);
        match given.map(|(_, value)| value) {
            None | Some(Json::Null) => Ok(Value::Null),
            Some(Json::String(text)) => tag_value(tag.data_type, &tag.name, text),
            Some(other) => tag_value(tag.data_type, &tag.name, &other.to_string()),
        }
    };
    stable.tags().map(value).collect()
}

/// A value from its text: strings and bytes stand within quotes, everything else is bare.
fn tag_value(data_type: DataType, name: &str, text: &str) -> Result<Value> {
    let inner = || text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let value = match data_type {
        DataType::Bool => match text {
            "1" | "true" => Some(Value::Bool(true)),
            "0" | "false" => Some(Value::Bool(false)),
            _ => None,
        },
        DataType::Timestamp => text.parse().ok().map(Value::Timestamp),
        DataType::Float => text.parse().ok().map(Value::Float),
        DataType::Double => text.parse().ok().map(Value::Double),
        DataType::UTinyInt | DataType::USmallInt | DataType::UInt | DataType::UBigInt => {
            text.parse().ok().map(Value::UInt)
        }
        DataType::Json => Some(Value::Text(text.to_owned())),
        DataType::Varbinary(_) | DataType::Geometry(_) => inner().and_then(bytes).map(Value::Bytes),
        DataType::Varchar(_) | DataType::NChar(_) => inner().map(|text| Value::Text(text.to_owned())),
        _ => text.parse().ok().map(Value::Int),
    };
    value
        .ok_or_else(|| Error::with(Code::InvalidMessage, format!("tag={name} type={data_type} value={text}")))
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?;
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// A tag's literal. Every number is written so that it comes back as the same.
fn literal(data_type: DataType, value: &Value) -> String {
    match value {
        Value::Float(v) => format!("{v:e}"),
        Value::Double(v) => format!("{v:e}"),
        Value::Text(text) => text_literal(text),
        Value::Bytes(_) => format!("'{value}'"),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Timestamp(_) => {
            debug_assert!(!data_type.is_string() || value.is_null());
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_their_text() {
        let value = |data_type, text| tag_value(data_type, "g", text).unwrap();
        assert_eq!(value(DataType::Varchar(9), "\"a\"b\""), Value::Text("a\"b".into()));
        assert_eq!(value(DataType::Varchar(9), "\"\""), Value::Text(String::new()));
        assert_eq!(value(DataType::Varbinary(9), "\"\\x00FF\""), Value::Bytes(vec![0, 255]));
        assert_eq!(value(DataType::UBigInt, "18446744073709551615"), Value::UInt(u64::MAX));
        assert_eq!(value(DataType::Float, "3.250000e+00"), Value::Float(3.25));
        assert_eq!(value(DataType::Bool, "0"), Value::Bool(false));
        assert!(tag_value(DataType::Int, "g", "x").is_err());
        assert_eq!(literal(DataType::Varchar(9), &Value::Text("it's \\".into())), r"'it\'s \\'");
        assert_eq!(literal(DataType::Varbinary(9), &Value::Bytes(vec![0, 255])), r"'\x00FF'");
    }

    #[test]
    fn a_delete_names_no_bound_that_is_none() {
        let all =
            Delete { table: "t".into(), timestamp: "ts".into(), first: i64::MIN, last_inclusive: i64::MAX };
        assert_eq!(delete("d", &all, None), "DELETE FROM `d`.`t`");
        let some = Delete { first: 1, last_inclusive: 2, ..all };
        let among = ["a".to_owned()];
        let wanted = "DELETE FROM `d`.`t` WHERE `ts` >= 1 AND `ts` <= 2 AND tbname IN ('a')";
        assert_eq!(delete("d", &some, Some(&among)), wanted);
    }
}
