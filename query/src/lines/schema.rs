//! What lines need of their super tables.

use std::mem::discriminant;

use model::{
    Code, DataType, Error, NCHAR_CHARS_MAX, NCHAR_TAG_CHARS_MAX, Result, TableSchema, VARCHAR_BYTES_MAX,
};

use super::Line;
use crate::ast::{AlterTable, ColumnSpec};

/// Timestamp column of a super table that lines make.
const TIME: &str = "_ts";
/// Tag of a super table whose lines have none, which it cannot do without.
const NO_TAG: &str = "_tag_null";
/// From this length on a text column is made as wide as its text, and no wider.
const EXACT_FROM: u16 = 1_024;

/// What the lines of one measurement need.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The measurement.
    pub stable: String,
    /// Name and type, of text the length of the longest, in order of appearance.
    columns: Vec<(String, DataType)>,
    tags: Vec<(String, DataType)>,
}

/// What is not there.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// The super table.
    Stable {
        /// The timestamp first.
        columns: Vec<ColumnSpec>,
        /// At least one.
        tags: Vec<ColumnSpec>,
    },
    /// Columns and tags of it, and room in them; nothing where there are none.
    Parts(Vec<AlterTable>),
}

/// What `lines` need, by measurement, in order of appearance.
///
/// # Errors
/// [`Code::LineType`] for a field that has values of two types.
pub fn wanted(lines: &[Line]) -> Result<Vec<Wanted>> {
    let mut all: Vec<Wanted> = Vec::new();
    for line in lines {
        let known = all.iter().position(|wanted| wanted.stable == line.measurement);
        let at = known.unwrap_or_else(|| {
            all.push(Wanted { stable: line.measurement.clone(), columns: Vec::new(), tags: Vec::new() });
            all.len() - 1
        });
        let Some(wanted) = all.get_mut(at) else { continue };
        for (name, value) in &line.tags {
            let chars = u16::try_from(value.chars().count()).unwrap_or(u16::MAX);
            want(&mut wanted.tags, name, DataType::NChar(chars))?;
        }
        for (name, field) in &line.fields {
            want(&mut wanted.columns, name, field.data_type)?;
        }
    }
    Ok(all)
}

fn want(list: &mut Vec<(String, DataType)>, name: &str, data_type: DataType) -> Result<()> {
    match list.iter_mut().find(|(known, _)| known == name) {
        None => list.push((name.to_owned(), data_type)),
        Some((_, known)) if discriminant(known) != discriminant(&data_type) => {
            let types = format!("{name}: {} and {}", known.name(), data_type.name());
            return Err(Error::with(Code::LineType, types));
        }
        Some((_, known)) if known.length() < data_type.length() => *known = data_type,
        Some(_) => {}
    }
    Ok(())
}

impl Wanted {
    /// What of this a super table has not; `None` is one that is not there.
    ///
    /// # Errors
    /// [`Code::LineFormat`] where it has a column or tag of another type; [`Code::LineKey`] where it has a composite key,
    /// which no line has.
    pub fn missing(&self, schema: Option<&TableSchema>) -> Result<Missing> {
        let Some(schema) = schema else {
            let time = [(TIME.to_owned(), DataType::Timestamp)];
            let column = |(name, data_type): &(String, DataType)| spec(name, widened(*data_type, false));
            let columns = time.iter().chain(&self.columns).map(column).collect();
            let none = [(NO_TAG.to_owned(), DataType::NChar(0))];
            let tags = if self.tags.is_empty() { &none[..] } else { &self.tags };
            let tag = |(name, data_type): &(String, DataType)| spec(name, widened(*data_type, true));
            return Ok(Missing::Stable { columns, tags: tags.iter().map(tag).collect() });
        };
        if schema.key().is_some() {
            return Err(Error::with(Code::LineKey, &self.stable));
        }
        let mut parts = Vec::new();
        for (name, data_type) in &self.columns {
            let wide = widened(*data_type, false);
            match schema.column(name) {
                None => parts.push(AlterTable::AddColumn(spec(name, wide))),
                Some((_, column)) if lacks_room(name, column.data_type, *data_type)? => {
                    parts.push(AlterTable::ModifyColumn { name: name.clone(), data_type: wide });
                }
                Some(_) => {}
            }
        }
        for (name, data_type) in &self.tags {
            let wide = widened(*data_type, true);
            match schema.tag(name) {
                None => parts.push(AlterTable::AddTag(spec(name, wide))),
                Some((_, tag)) if lacks_room(name, tag.data_type, *data_type)? => {
                    parts.push(AlterTable::ModifyTag { name: name.clone(), data_type: wide });
                }
                Some(_) => {}
            }
        }
        Ok(Missing::Parts(parts))
    }
}

fn spec(name: &str, data_type: DataType) -> ColumnSpec {
    let name = name.to_owned();
    ColumnSpec { name, data_type, encoding: None, compression: None, level: None, is_key: false }
}

/// Whether values do not fit a column of their type.
fn lacks_room(name: &str, there: DataType, wanted: DataType) -> Result<bool> {
    if discriminant(&there) != discriminant(&wanted) {
        let types = format!("{name} is {}, the value {}", there.name(), wanted.name());
        return Err(Error::with(Code::LineFormat, types).hint("point type and db type mismatch"));
    }
    Ok(wanted.length() > there.length())
}

/// The type with room to grow: the least power of two above the length.
fn widened(data_type: DataType, is_tag: bool) -> DataType {
    let width = |length: u16, max: u16| match length {
        EXACT_FROM.. => length.min(max),
        _ => (length + 1).next_power_of_two().min(max),
    };
    let chars_max = if is_tag { NCHAR_TAG_CHARS_MAX } else { NCHAR_CHARS_MAX };
    match data_type {
        DataType::Varchar(length) => DataType::Varchar(width(length, VARCHAR_BYTES_MAX)),
        DataType::Varbinary(length) => DataType::Varbinary(width(length, VARCHAR_BYTES_MAX)),
        DataType::Geometry(length) => DataType::Geometry(width(length, VARCHAR_BYTES_MAX)),
        DataType::NChar(length) => DataType::NChar(width(length, chars_max)),
        fixed => fixed,
    }
}
