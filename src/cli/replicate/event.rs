//! Events of a WITH META topic, read from their JSON.

use model::{Code, DataType, Error, Result};
use serde::Deserialize;
use serde_json::Value as Json;

/// A change of tables, or rows that were deleted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    CreateStable(Definition),
    CreateTable(Definition),
    CreateChildren(Vec<Child>),
    Alter { on: On, table: String, change: Change },
    SetTags { table: String, tags: Vec<(String, Option<String>)> },
    DropStable(String),
    DropTables(Vec<String>),
    Delete(Delete),
}

/// What kind of table an ALTER is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Stable,
    Normal,
}

/// A super table or a normal table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) tags: Vec<Column>,
}

/// A column or tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) storage: Storage,
    /// Part of a composite key.
    pub(super) is_key: bool,
}

/// How a column is stored: those that were told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Storage {
    pub(super) encode: Option<String>,
    pub(super) compress: Option<String>,
    pub(super) level: Option<String>,
}

/// A child table; tags that are NULL are left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) stable: String,
    pub(super) tags: Vec<(String, Json)>,
}

/// What an ALTER changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    AddColumn(Column),
    DropColumn(String),
    RenameColumn {
        from: String,
        to: String,
    },
    ModifyColumn(Column),
    AddTag(Column),
    DropTag(String),
    RenameTag {
        from: String,
        to: String,
    },
    ModifyTag(Column),
    Storage {
        column: String,
        storage: Storage,
    },
    /// COMMENT or TTL: which, and to what, is not told.
    Options,
}

/// Rows of a closed range of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delete {
    /// A super table means those of its children that the vgroup has.
    pub(super) table: String,
    pub(super) timestamp: String,
    pub(super) first: i64,
    pub(super) last_inclusive: i64,
}

impl Event {
    /// Whether it is in the log of every vgroup, in the same order, and means one change of all of them together: it must
    /// find all vgroups at the same place. Changes of a column's storage are in every log too, but do no harm when they
    /// are made again.
    pub(super) fn is_aligned(&self) -> bool {
        match self {
            Self::CreateStable(_) | Self::DropStable(_) => true,
            Self::Alter { on: On::Stable, change, .. } => {
                !matches!(change, Change::Storage { .. } | Change::Options)
            }
            _ => false,
        }
    }
}

#[derive(Deserialize)]
struct Batch {
    metas: Vec<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    r#type: String,
    table_type: Option<String>,
    #[serde(default)]
    table_name: String,
    #[serde(default)]
    columns: Vec<RawColumn>,
    #[serde(default)]
    tags: Vec<Json>,
    using: Option<String>,
    #[serde(default)]
    create_list: Vec<RawChild>,
    alter_type: Option<u8>,
    #[serde(default)]
    col_name: String,
    #[serde(default)]
    col_new_name: String,
    col_type: Option<u32>,
    #[serde(default)]
    col_length: u32,
    #[serde(flatten)]
    storage: Storage,
    col_value: Option<String>,
    #[serde(default)]
    col_value_null: bool,
    table_name_list: Option<Vec<String>>,
    sql: Option<String>,
}

#[derive(Deserialize)]
struct RawColumn {
    name: String,
    r#type: u32,
    #[serde(default)]
    length: u32,
    #[serde(default, rename = "isPrimarykey")]
    is_key: bool,
    #[serde(flatten)]
    storage: Storage,
}

#[derive(Deserialize)]
struct RawTag {
    name: String,
    value: Json,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSet {
    col_name: String,
    col_value: Option<String>,
    #[serde(default)]
    col_value_null: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawChild {
    table_name: String,
    using: String,
    tags: Vec<RawTag>,
}

/// The events of a message, one or many.
///
/// # Errors
/// [`Code::InvalidMessage`] for what is no event, or one of a kind that is not known here.
pub(super) fn parse(json: &str) -> Result<Vec<Event>> {
    let unreadable =
        |e: serde_json::Error| Error::with(Code::InvalidMessage, format!("event={json}")).caused_by(e);
    let whole: Json = serde_json::from_str(json).map_err(unreadable)?;
    let objects = if whole.get("metas").is_some() {
        serde_json::from_value::<Batch>(whole).map_err(unreadable)?.metas
    } else {
        vec![whole]
    };
    let one = |object: Json| {
        let raw: Raw = serde_json::from_value(object).map_err(unreadable)?;
        event(raw).map_err(|e| match e {
            Unknown::Kind => Error::with(Code::InvalidMessage, format!("unknown event={json}")),
            Unknown::Json(e) => unreadable(e),
            Unknown::Type(e) => e,
        })
    };
    objects.into_iter().map(one).collect()
}

enum Unknown {
    Kind,
    Json(serde_json::Error),
    Type(Error),
}

impl From<serde_json::Error> for Unknown {
    fn from(e: serde_json::Error) -> Self {
        Self::Json(e)
    }
}

fn event(raw: Raw) -> Result<Event, Unknown> {
    let table_type = raw.table_type.clone().unwrap_or_default();
    Ok(match (raw.r#type.as_str(), table_type.as_str()) {
        ("create", "super") => Event::CreateStable(definition(raw)?),
        ("create", "normal") => Event::CreateTable(definition(raw)?),
        ("create", "child") => Event::CreateChildren(children(raw)?),
        ("alter", "child") if matches!(raw.alter_type, Some(4 | 15)) => set_tags(raw)?,
        ("alter", kind) => {
            let on = if kind == "super" { On::Stable } else { On::Normal };
            let table = raw.table_name.clone();
            Event::Alter { on, table, change: change(raw)? }
        }
        ("drop", "super") => Event::DropStable(raw.table_name),
        ("drop", _) => Event::DropTables(raw.table_name_list.ok_or(Unknown::Kind)?),
        ("delete", _) => Event::Delete(raw.sql.as_deref().and_then(delete).ok_or(Unknown::Kind)?),
        _ => return Err(Unknown::Kind),
    })
}

fn column(raw: RawColumn) -> Result<Column, Unknown> {
    let data_type = proto::convert::type_from_wire(raw.r#type, raw.length).map_err(Unknown::Type)?;
    Ok(Column { name: raw.name, data_type, storage: raw.storage, is_key: raw.is_key })
}

fn definition(raw: Raw) -> Result<Definition, Unknown> {
    let columns = raw.columns.into_iter().map(column).collect::<Result<_, _>>()?;
    let tags = raw.tags.into_iter().map(|tag| column(serde_json::from_value(tag)?));
    Ok(Definition { name: raw.table_name, columns, tags: tags.collect::<Result<_, _>>()? })
}

fn children(raw: Raw) -> Result<Vec<Child>, Unknown> {
    let list = if raw.create_list.is_empty() {
        let tags = raw.tags.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
        vec![RawChild { table_name: raw.table_name, using: raw.using.ok_or(Unknown::Kind)?, tags }]
    } else {
        raw.create_list
    };
    let child = |raw: RawChild| {
        let tags = raw.tags.into_iter().map(|tag| (tag.name, tag.value)).collect();
        Child { name: raw.table_name, stable: raw.using, tags }
    };
    Ok(list.into_iter().map(child).collect())
}

fn set_tags(raw: Raw) -> Result<Event, Unknown> {
    let tags = if raw.alter_type == Some(4) {
        vec![(raw.col_name, raw.col_value.filter(|_| !raw.col_value_null))]
    } else {
        let one = |tag: Json| {
            let set: RawSet = serde_json::from_value(tag)?;
            Ok::<_, Unknown>((set.col_name, set.col_value.filter(|_| !set.col_value_null)))
        };
        raw.tags.into_iter().map(one).collect::<Result<_, _>>()?
    };
    Ok(Event::SetTags { table: raw.table_name, tags })
}

fn change(raw: Raw) -> Result<Change, Unknown> {
    let number = raw.alter_type.ok_or(Unknown::Kind)?;
    let Raw { col_name, col_new_name, col_type, col_length, storage, .. } = raw;
    let typed = |name: String, storage: Storage| {
        let data_type = col_type.ok_or(Unknown::Kind)?;
        column(RawColumn { name, r#type: data_type, length: col_length, is_key: false, storage })
    };
    Ok(match number {
        1 => Change::AddTag(typed(col_name, Storage::default())?),
        2 => Change::DropTag(col_name),
        3 => Change::RenameTag { from: col_name, to: col_new_name },
        5 | 14 => Change::AddColumn(typed(col_name, storage)?),
        6 => Change::DropColumn(col_name),
        7 => Change::ModifyColumn(typed(col_name, Storage::default())?),
        8 => Change::ModifyTag(typed(col_name, Storage::default())?),
        9 => Change::Options,
        10 => Change::RenameColumn { from: col_name, to: col_new_name },
        13 => Change::Storage { column: col_name, storage },
        _ => return Err(Unknown::Kind),
    })
}

/// Reads ``delete from `tb` where `ts` >= S and `ts` <= E``. Names stand in it as they are, whatever they hold: so it is
/// taken apart from its end.
fn delete(sql: &str) -> Option<Delete> {
    let (rest, last) = sql.rsplit_once(" <= ")?;
    let rest = rest.strip_suffix('`')?;
    let body = rest.strip_prefix("delete from `")?;
    body.match_indices(" and `").find_map(|(at, part)| {
        let (left, timestamp) = (body.get(..at)?, body.get(at + part.len()..)?);
        let (left, first) = left.rsplit_once(&format!("` where `{timestamp}` >= "))?;
        Some(Delete {
            table: left.to_owned(),
            timestamp: timestamp.to_owned(),
            first: first.parse().ok()?,
            last_inclusive: last.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str) -> Event {
        let mut events = parse(json).unwrap();
        assert_eq!(events.len(), 1, "{json}");
        events.remove(0)
    }

    #[test]
    fn definitions_and_children() {
        let create = r#"{"type":"create","tableType":"super","tableName":"st","columns":[{"name":"ts","type":9,
            "isPrimarykey":false,"encode":"delta-i","compress":"lz4","level":"medium"},
            {"name":"c","type":8,"length":9,"isPrimarykey":true}],
            "tags":[{"name":"g","type":4}]}"#;
        let Event::CreateStable(stable) = one(create) else { panic!("no super table") };
        let types: Vec<_> = stable.columns.iter().chain(&stable.tags).map(|c| c.data_type).collect();
        assert_eq!(types, [DataType::Timestamp, DataType::Varchar(9), DataType::Int]);
        assert_eq!(stable.columns[0].storage.encode.as_deref(), Some("delta-i"));
        assert_eq!(stable.columns.iter().map(|c| c.is_key).collect::<Vec<_>>(), [false, true]);
        let list = r#"{"type":"create","tableType":"child","tableName":"a","using":"st","tagNum":1,
            "tags":[{"name":"g","type":4,"value":9223372036854775807}],"createList":[
            {"tableName":"a","using":"st","tagNum":1,"tags":[{"name":"g","type":4,"value":9223372036854775807}]},
            {"tableName":"b","using":"st","tagNum":1,"tags":[]}]}"#;
        let Event::CreateChildren(children) = one(list) else { panic!("no children") };
        assert_eq!(children.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(children[0].tags[0].1.to_string(), "9223372036854775807");
        let batch = format!(r#"{{"tmq_meta_version":"1.0","metas":[{create},{list}]}}"#);
        assert_eq!(parse(&batch).unwrap().len(), 2);
    }

    #[test]
    fn alters_by_their_numbers() {
        let alter =
            |rest: &str| one(&format!(r#"{{"type":"alter","tableType":"super","tableName":"st",{rest}}}"#));
        let Event::Alter { on: On::Stable, change, .. } =
            alter(r#""alterType":7,"colName":"c","colType":8,"colLength":64"#)
        else {
            panic!("no alter")
        };
        let Change::ModifyColumn(column) = change else { panic!("{change:?}") };
        assert_eq!(column.data_type, DataType::Varchar(64));
        assert!(alter(r#""alterType":1,"colName":"g","colType":4"#).is_aligned());
        assert!(!alter(r#""alterType":9"#).is_aligned());
        assert!(parse(r#"{"type":"alter","tableType":"super","tableName":"st","alterType":99}"#).is_err());
        let set = one(r#"{"type":"alter","tableType":"child","tableName":"a","alterType":15,"tags":[
            {"colName":"g","colValue":"11","colValueNull":false},{"colName":"h","colValueNull":true}]}"#);
        let tags = vec![("g".to_owned(), Some("11".to_owned())), ("h".to_owned(), None)];
        assert_eq!(set, Event::SetTags { table: "a".into(), tags });
    }

    #[test]
    fn a_delete_is_read_whatever_the_names_hold() {
        for (table, timestamp) in
            [("tb", "ts"), ("a ` where `ts` >= 3", "t and `x"), ("", "ts"), ("it's", "a <= b")]
        {
            let sql = format!("delete from `{table}` where `{timestamp}` >= -5 and `{timestamp}` <= 7");
            let wanted =
                Delete { table: table.into(), timestamp: timestamp.into(), first: -5, last_inclusive: 7 };
            assert_eq!(delete(&sql), Some(wanted), "{sql}");
        }
        assert_eq!(delete("delete from `t`"), None);
    }
}
