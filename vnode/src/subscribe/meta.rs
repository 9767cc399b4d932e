//! Events of WITH META and ONLY META topics as JSON (tmq.md 2.5). Member order and number format are part of the
//! interface: clients and replication tools compare text.

use model::{ColumnDef, DataType, StableInfo, TableSchema, Value};

use super::json::{put_str, put_text_value, put_value};
use crate::record::{DeleteRecord, DeleteScope, MetaRecord, NewTable, NewTableKind, SchemaChange, TagChange};
use crate::state::VnodeState;

/// Several events in one text.
pub(super) fn batch(events: &[String]) -> String {
    format!(r#"{{"tmq_meta_version":"1.0","metas":[{}]}}"#, events.join(","))
}

/// The event of a Meta record. Names of super tables and their tags are looked up, since they are in no record of a
/// child; whatever the log still has records of is known.
pub(super) fn event(state: &VnodeState, record: &MetaRecord) -> Option<String> {
    let mut out = String::with_capacity(256);
    match record {
        MetaRecord::CreateStable(stable) => create_stable(stable, &mut out),
        MetaRecord::AlterStable { stable, change } => alter("super", &stable.name, change, &mut out),
        MetaRecord::DropStable { name, .. } => {
            out.push_str(r#"{"type":"drop","tableType":"super","tableName":"#);
            put_str(name, &mut out);
            out.push('}');
        }
        MetaRecord::CreateTables(tables) => return create_tables(state, tables),
        MetaRecord::AlterTable { name, change, .. } => alter("normal", name, change, &mut out),
        MetaRecord::SetTags { name, changes, .. } => set_tags(name, changes, &mut out),
        MetaRecord::DropTables(tables) => {
            out.push_str(r#"{"type":"drop","tableNameList":["#);
            for (at, table) in tables.iter().enumerate() {
                comma(at, &mut out);
                put_str(&table.name, &mut out);
            }
            out.push_str("]}");
        }
    }
    Some(out)
}

fn comma(at: usize, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
}

fn create_stable(stable: &StableInfo, out: &mut String) {
    put_definition("super", &stable.name, &stable.schema, out);
}

fn put_definition(table_type: &str, name: &str, schema: &TableSchema, out: &mut String) {
    out.push_str(r#"{"type":"create","tableType":""#);
    out.push_str(table_type);
    out.push_str(r#"","tableName":"#);
    put_str(name, out);
    out.push_str(r#","columns":["#);
    for (at, column) in schema.columns.iter().enumerate() {
        comma(at, out);
        put_column(column, out);
        out.push_str(&format!(r#","isPrimarykey":{}"#, column.is_key));
        put_storage(column, out);
        out.push('}');
    }
    out.push_str(r#"],"tags":["#);
    for (at, tag) in schema.tags.iter().enumerate() {
        comma(at, out);
        put_column(tag, out);
        out.push('}');
    }
    out.push_str("]}");
}

/// `{"name":..,"type":..,["length":..]`, without the end.
fn put_column(column: &ColumnDef, out: &mut String) {
    out.push_str(r#"{"name":"#);
    put_str(&column.name, out);
    out.push_str(&format!(r#","type":{}"#, column.data_type.wire_id()));
    if column.data_type.has_length() {
        out.push_str(&format!(r#","length":{}"#, column.data_type.length()));
    }
}

fn put_storage(column: &ColumnDef, out: &mut String) {
    let words = [
        ("encode", column.encoding.map(|v| v.as_str())),
        ("compress", column.compression.map(|v| v.as_str())),
        ("level", column.level.map(|v| v.as_str())),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            out.push_str(&format!(r#","{name}":"{word}""#));
        }
    }
}

/// Create event of one normal table, or of the children of a statement.
pub(super) fn create_tables(state: &VnodeState, tables: &[NewTable]) -> Option<String> {
    let first = tables.first()?;
    let mut out = String::with_capacity(256);
    if let NewTableKind::Normal { schema } = &first.kind {
        put_definition("normal", &first.name, schema, &mut out);
        return Some(out);
    }
    out.push_str(r#"{"type":"create","tableType":"child","#);
    put_child(state, first, &mut out);
    out.push_str(r#","createList":["#);
    if tables.len() > 1 {
        for (at, table) in tables.iter().enumerate() {
            comma(at, &mut out);
            out.push('{');
            put_child(state, table, &mut out);
            out.push('}');
        }
    }
    out.push_str("]}");
    Some(out)
}

fn put_child(state: &VnodeState, table: &NewTable, out: &mut String) {
    let NewTableKind::Child { stable, schema_version, tags } = &table.kind else { return };
    out.push_str(r#""tableName":"#);
    put_str(&table.name, out);
    out.push_str(r#","using":"#);
    put_str(state.stable_info(*stable).map_or("", |stable| &stable.name), out);
    let columns = state.schema(*stable, *schema_version).map_or(&[][..], |schema| &schema.tags);
    out.push_str(&format!(r#","tagNum":{},"tags":["#, columns.len()));
    let given = columns.iter().zip(tags.iter()).filter(|(_, value)| !value.is_null());
    for (at, (tag, value)) in given.enumerate() {
        comma(at, out);
        out.push_str(r#"{"name":"#);
        put_str(&tag.name, out);
        out.push_str(&format!(r#","type":{},"value":"#, tag.data_type.wire_id()));
        put_value(value, tag.data_type, out);
        out.push('}');
    }
    out.push(']');
}

fn alter(table_type: &str, name: &str, change: &SchemaChange, out: &mut String) {
    out.push_str(&format!(r#"{{"type":"alter","tableType":"{table_type}","tableName":"#));
    put_str(name, out);
    let kind = |number: u8, out: &mut String| out.push_str(&format!(r#","alterType":{number}"#));
    match change {
        SchemaChange::AddTag { tag } => {
            kind(1, out);
            put_typed(&tag.name, tag.data_type, out);
        }
        SchemaChange::DropTag { name } => {
            kind(2, out);
            put_member("colName", name, out);
        }
        SchemaChange::RenameTag { name, new_name } => {
            kind(3, out);
            put_member("colName", name, out);
            put_member("colNewName", new_name, out);
        }
        SchemaChange::AddColumn { column, storage_given } => {
            kind(if *storage_given { 14 } else { 5 }, out);
            put_typed(&column.name, column.data_type, out);
            if *storage_given {
                put_storage(column, out);
            }
        }
        SchemaChange::DropColumn { name } => {
            kind(6, out);
            put_member("colName", name, out);
        }
        SchemaChange::ModifyColumn { name, data_type } => {
            kind(7, out);
            put_typed(name, *data_type, out);
        }
        SchemaChange::ModifyTag { name, data_type } => {
            kind(8, out);
            put_typed(name, *data_type, out);
        }
        SchemaChange::RenameColumn { name, new_name } => {
            kind(10, out);
            put_member("colName", name, out);
            put_member("colNewName", new_name, out);
        }
        SchemaChange::Storage { name, encoding, compression, level } => {
            kind(13, out);
            put_member("colName", name, out);
            let words = [
                ("encode", encoding.map(|v| v.as_str())),
                ("compress", compression.map(|v| v.as_str())),
                ("level", level.map(|v| v.as_str())),
            ];
            for (member, word) in words {
                if let Some(word) = word {
                    put_member(member, word, out);
                }
            }
        }
        SchemaChange::Options => kind(9, out),
    }
    out.push('}');
}

fn put_member(name: &str, value: &str, out: &mut String) {
    out.push_str(&format!(r#","{name}":"#));
    put_str(value, out);
}

fn put_typed(name: &str, data_type: DataType, out: &mut String) {
    put_member("colName", name, out);
    out.push_str(&format!(r#","colType":{}"#, data_type.wire_id()));
    if data_type.has_length() {
        out.push_str(&format!(r#","colLength":{}"#, data_type.length()));
    }
}

fn set_tags(name: &str, changes: &[TagChange], out: &mut String) {
    out.push_str(r#"{"type":"alter","tableType":"child","tableName":"#);
    put_str(name, out);
    if let [only] = changes {
        out.push_str(r#","alterType":4,"#);
        put_tag(only, out);
    } else {
        out.push_str(r#","alterType":15,"tags":["#);
        for (at, change) in changes.iter().enumerate() {
            comma(at, out);
            out.push('{');
            put_tag(change, out);
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}

fn put_tag(change: &TagChange, out: &mut String) {
    out.push_str(r#""colName":"#);
    put_str(&change.name, out);
    if change.value == Value::Null {
        out.push_str(r#","colValueNull":true"#);
    } else {
        out.push_str(r#","colValue":"#);
        put_text_value(&change.value, change.data_type, out);
        out.push_str(r#","colValueNull":false"#);
    }
}

/// The events of a Delete record: one, or one for each child that a condition on tags found.
pub(super) fn delete(record: &DeleteRecord) -> Vec<String> {
    let event = |name: &str| {
        let (ts, first, last) = (&record.timestamp_name, record.first, record.last_inclusive);
        let sql = format!("delete from `{name}` where `{ts}` >= {first} and `{ts}` <= {last}");
        let mut out = String::from(r#"{"type":"delete","sql":"#);
        put_str(&sql, &mut out);
        out.push('}');
        out
    };
    match &record.scope {
        DeleteScope::Whole { name } => vec![event(name)],
        DeleteScope::Tables(tables) => tables.iter().map(|table| event(&table.name)).collect(),
    }
}
