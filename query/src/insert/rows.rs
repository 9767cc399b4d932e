//! The rows behind VALUES: the hot loop.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Code, ColumnDef, ColumnId, DataType, Error, Result, TableSchema, Value};

use super::gather::{Batch, Relation};
use super::scan::{Scan, Span};
use crate::literal::{ColumnBuilder, LiteralContext, Misfit, Raw, parse_value};
use crate::parser::{NameKind, check_name};

/// A written column list: each name with its place in the text.
pub(super) type Names = Vec<(String, usize)>;

/// Reads the rows of one block.
pub(super) struct RowReader<'r, 'a> {
    pub(super) scan: &'r mut Scan<'a>,
    pub(super) literals: &'r LiteralContext,
    pub(super) relation: &'r mut Relation,
    /// Rows of the statement so far.
    pub(super) rows: &'r mut u64,
}

/// Where the n-th value of a row goes.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Into a column.
    Column(ColumnPlace),
    /// Into the tags of a child that may have to be created.
    Tag(usize),
    /// It names the child.
    Tbname,
}

/// Which part of the primary key.
#[derive(Clone, Copy, Debug)]
enum Primary {
    Timestamp,
    /// A composite key's number.
    Number,
    /// And its text, which may be `'null'`.
    Text,
}

#[derive(Clone, Copy, Debug)]
struct ColumnPlace {
    /// Which column of the batch.
    index: usize,
    /// A TIMESTAMP: a duration may be added.
    time: bool,
    /// Part of the primary key: NULL is refused.
    primary: Option<Primary>,
}

impl RowReader<'_, '_> {
    /// Rows of the table `name`.
    pub(super) fn table_rows(
        &mut self,
        name: &str,
        tags: Option<Vec<Value>>,
        names: Option<Names>,
    ) -> Result<()> {
        let schema = Arc::clone(&self.relation.schema);
        let written: Vec<usize> = match names {
            None => (0..schema.columns.len()).collect(),
            Some(names) => {
                let scan = &*self.scan;
                let place = |(name, at): &(String, usize)| {
                    schema.column(name).map(|(i, _)| i).ok_or_else(|| scan.unknown_column(&schema, name, *at))
                };
                names.iter().map(place).collect::<Result<_>>()?
            }
        };
        let (set, places) = column_places(&schema, &written)?;
        let table = self.relation.table(name, tags)?;
        let slot = self.relation.tables.get(table).map(|t| t.slot);
        let batch = self.relation.batch(slot, &set)?;
        self.open_rows()?;
        let first = *self.rows;
        while self.scan.take(b'(') {
            self.table_row(&schema, batch, &set, &places)?;
            *self.rows += 1;
            self.between_rows()?;
        }
        let end = self.relation.batches.get(batch).map_or(0, Batch::rows);
        self.relation.close_run(batch, table, end, first);
        Ok(())
    }

    /// One row, up to and with its closing parenthesis.
    #[inline]
    fn table_row(
        &mut self,
        schema: &TableSchema,
        batch: usize,
        set: &[usize],
        places: &[ColumnPlace],
    ) -> Result<()> {
        let columns =
            self.relation.batches.get_mut(batch).map(|b| b.columns.as_mut_slice()).unwrap_or_default();
        let counted = Counted { row: *self.rows + 1, wanted: places.len() };
        let names = || places.iter().map(|&place| column_name(schema, set, place));
        for (position, &place) in places.iter().enumerate() {
            separator(self.scan, position).map_err(|e| counted.too_few(e, self.scan, position, names()))?;
            let Some(column) = columns.get_mut(place.index) else { continue };
            append(self.scan, self.literals, column, place, || column_name(schema, set, place))?;
        }
        row_end(self.scan).map_err(|e| counted.too_many(e, names()))
    }

    /// Rows of a super table, each of which names its child.
    pub(super) fn stable_rows(&mut self, names: Option<Names>) -> Result<()> {
        let no_tbname = || {
            Error::text(Code::InvalidOperation, "tbname column should not be null")
                .hint("list tbname among the columns, or insert into a child")
        };
        let names = names.ok_or_else(no_tbname)?;
        let schema = Arc::clone(&self.relation.schema);
        let mut written = Vec::new();
        let mut places = Vec::with_capacity(names.len());
        for (name, at) in &names {
            places.push(if name == "tbname" {
                Place::Tbname
            } else if let Some((index, _)) = schema.column(name) {
                written.push(index);
                // Which column of the batch it is shows once all are known.
                Place::Column(ColumnPlace { index: written.len() - 1, time: false, primary: None })
            } else if let Some((index, _)) = schema.tag(name) {
                Place::Tag(index)
            } else {
                return Err(self.scan.unknown_column(&schema, name, *at));
            });
        }
        if !places.iter().any(|p| matches!(p, Place::Tbname)) {
            return Err(no_tbname());
        }
        let (set, column_places) = column_places(&schema, &written)?;
        for place in &mut places {
            if let Place::Column(column) = place
                && let Some(found) = column_places.get(column.index)
            {
                *column = *found;
            }
        }
        let batch = self.relation.batch(None, &set)?;
        self.open_rows()?;
        while self.scan.take(b'(') {
            self.stable_row(&schema, batch, &set, &places)?;
            *self.rows += 1;
            self.between_rows()?;
        }
        Ok(())
    }

    fn stable_row(
        &mut self,
        schema: &TableSchema,
        batch: usize,
        set: &[usize],
        places: &[Place],
    ) -> Result<()> {
        let mut tags = Vec::new();
        let mut child = Child::Known(0);
        let Relation { batches, names, .. } = &mut *self.relation;
        let columns = batches.get_mut(batch).map(|b| b.columns.as_mut_slice()).unwrap_or_default();
        let counted = Counted { row: *self.rows + 1, wanted: places.len() };
        let column_names = || {
            places.iter().map(|place| match *place {
                Place::Column(place) => column_name(schema, set, place),
                Place::Tag(index) => schema.tags.get(index).map_or("", |tag| &tag.name),
                Place::Tbname => "tbname",
            })
        };
        for (position, place) in places.iter().enumerate() {
            separator(self.scan, position)
                .map_err(|e| counted.too_few(e, self.scan, position, column_names()))?;
            match *place {
                Place::Column(place) => {
                    let Some(column) = columns.get_mut(place.index) else { continue };
                    append(self.scan, self.literals, column, place, || column_name(schema, set, place))?;
                }
                Place::Tag(index) => {
                    let Some(tag) = schema.tags.get(index) else { continue };
                    tags.resize(schema.tags.len(), Value::Null);
                    let value = tag_value(self.scan, tag, self.literals)?;
                    if let Some(slot) = tags.get_mut(index) {
                        *slot = value;
                    }
                }
                Place::Tbname => child = child_of(self.scan, names)?,
            }
        }
        row_end(self.scan).map_err(|e| counted.too_many(e, column_names()))?;
        let table = match child {
            Child::Known(table) => table,
            Child::New(name) => {
                tags.resize(schema.tags.len(), Value::Null);
                self.relation.table(&name, Some(tags))?
            }
        };
        let end = self.relation.batches.get(batch).map_or(0, Batch::rows);
        self.relation.close_run(batch, table, end, *self.rows);
        Ok(())
    }

    fn open_rows(&mut self) -> Result<()> {
        if self.scan.next_byte() == Some(b'(') {
            return Ok(());
        }
        let text = "syntax error near 'no any data points'";
        let place = self.scan.place(self.scan.position());
        Err(Error::text(Code::InsertSyntax, text).at(place))
    }

    /// Commas between rows, and between blocks, are optional; but behind one something must come.
    #[inline]
    fn between_rows(&mut self) -> Result<()> {
        if self.scan.take(b',') && matches!(self.scan.next_byte(), None | Some(b',' | b';')) {
            return Err(self.scan.error("another row is expected"));
        }
        Ok(())
    }
}

/// What a row is told that has too few or too many values.
#[derive(Clone, Copy)]
struct Counted {
    /// Its number in the statement, from 1.
    row: u64,
    /// Values that it should have.
    wanted: usize,
}

impl Counted {
    /// `error` of the separator before the value `position`: the row ends there, or something else is wrong.
    fn too_few<'n>(
        self,
        error: Error,
        scan: &mut Scan<'_>,
        position: usize,
        names: impl Iterator<Item = &'n str>,
    ) -> Error {
        if scan.next_byte() != Some(b')') {
            return error;
        }
        error.hint(self.hint(format_args!("{position}"), names))
    }

    /// `error` of the end of the row: another value follows, or something else is wrong.
    fn too_many<'n>(self, error: Error, names: impl Iterator<Item = &'n str>) -> Error {
        if error.code() != Code::ColumnCount {
            return error;
        }
        error.hint(self.hint(format_args!("more than {}", self.wanted), names))
    }

    fn hint<'n>(self, given: std::fmt::Arguments<'_>, names: impl Iterator<Item = &'n str>) -> String {
        const NAMES_MAX: usize = 8;
        let Self { row, wanted } = self;
        let names: Vec<_> = names.take(NAMES_MAX).collect();
        let more = if wanted > names.len() { ", .." } else { "" };
        format!("row {row} has {given} values for {wanted} columns: {}{more}", names.join(", "))
    }
}

/// The comma before every value but the first. Too few values end in `)` here; none at all is a matter of count.
#[inline]
fn separator(scan: &mut Scan<'_>, position: usize) -> Result<()> {
    if position == 0 {
        if scan.next_byte() == Some(b')') {
            return Err(Error::of(Code::ColumnCount).at(scan.place(scan.position())));
        }
        return Ok(());
    }
    if scan.take(b',') { Ok(()) } else { Err(scan.error(", expected")) }
}

#[inline]
fn row_end(scan: &mut Scan<'_>) -> Result<()> {
    if scan.take(b')') {
        return Ok(());
    }
    if scan.next_byte() == Some(b',') {
        return Err(Error::of(Code::ColumnCount).at(scan.place(scan.position())));
    }
    Err(scan.error(") expected"))
}

#[inline]
fn is_null(raw: Raw<'_>) -> bool {
    !matches!(raw, Raw::Shifted { .. }) && raw.text().eq_ignore_ascii_case("null")
}

/// The set of columns (places in the schema, rising) and where each written column is in it. `written` has no column
/// twice.
fn column_places(schema: &TableSchema, written: &[usize]) -> Result<(Vec<usize>, Vec<ColumnPlace>)> {
    let mut set = written.to_vec();
    set.sort_unstable();
    if set.first() != Some(&0) {
        return Err(Error::text(Code::InvalidOperation, "Primary timestamp column should not be null")
            .hint("the column list must name the primary timestamp"));
    }
    if schema.key().is_some() && set.get(1) != Some(&1) {
        return Err(Error::text(Code::InvalidOperation, "Primary key column should not be none")
            .hint("the column list must name the composite key"));
    }
    let primary = |column: &ColumnDef| match column.id {
        ColumnId::TIMESTAMP => Some(Primary::Timestamp),
        _ if !column.is_key => None,
        _ if column.data_type.is_string() => Some(Primary::Text),
        _ => Some(Primary::Number),
    };
    let place = |column: &usize| ColumnPlace {
        index: set.binary_search(column).unwrap_or_default(),
        time: schema.columns.get(*column).is_some_and(|c| c.data_type == DataType::Timestamp),
        primary: schema.columns.get(*column).and_then(primary),
    };
    let places = written.iter().map(place).collect();
    Ok((set, places))
}

/// The value of one tag.
pub(super) fn tag_value(scan: &mut Scan<'_>, tag: &ColumnDef, literals: &LiteralContext) -> Result<Value> {
    let (raw, span) = scan.value(tag.data_type == DataType::Timestamp)?;
    match parse_value(tag.data_type, raw, literals) {
        Ok(value) => Ok(value),
        Err(misfit) => Err(misfit_error(scan, misfit, span, &tag.name)),
    }
}

/// The child that a row names.
enum Child {
    /// Rows for it were met: its index.
    Known(usize),
    /// Its name.
    New(String),
}

/// A child's name as the value of tbname: taken as it stands.
fn child_of(scan: &mut Scan<'_>, known: &HashMap<String, usize>) -> Result<Child> {
    let (raw, span) = scan.value(false)?;
    let refused = |text: &str| Error::text(Code::InvalidOperation, text);
    let name = match raw {
        Raw::Quoted(name) | Raw::Hex(name) => name,
        _ if raw.is_null() => return Err(refused("tbname column should not be null")),
        _ => return Err(scan.error_at(span.start, "tbname is a string")),
    };
    if let Some(&table) = known.get(name) {
        return Ok(Child::Known(table));
    }
    if name.is_empty() {
        return Err(refused("tbname can not be empty"));
    }
    if name.contains('.') {
        return Err(refused("tbname can not contain '.'"));
    }
    check_name(name, NameKind::Table)?;
    Ok(Child::New(name.to_owned()))
}

/// Reads a value into its column.
#[inline]
fn append<'n>(
    scan: &mut Scan<'_>,
    literals: &LiteralContext,
    column: &mut ColumnBuilder,
    place: ColumnPlace,
    name: impl FnOnce() -> &'n str,
) -> Result<()> {
    let (raw, span) = scan.value(place.time)?;
    match place.primary {
        None => {}
        Some(Primary::Timestamp) if is_null(raw) => {
            return Err(scan.error_at(span.start, "Primary timestamp column should not be null"));
        }
        Some(Primary::Number) if is_null(raw) => {
            return Err(Error::of(Code::KeyNull).at(scan.place(span.start)));
        }
        Some(Primary::Text) if raw.is_null() => {
            return Err(Error::of(Code::KeyNull).at(scan.place(span.start)));
        }
        Some(_) => {}
    }
    column.append(raw, literals).map_err(|misfit| misfit_error(scan, misfit, span, name()))
}

fn column_name<'s>(schema: &'s TableSchema, set: &[usize], place: ColumnPlace) -> &'s str {
    set.get(place.index).and_then(|&i| schema.columns.get(i)).map_or("", |c| &c.name)
}

/// The error for a value that does not fit `column`.
fn misfit_error(scan: &mut Scan<'_>, misfit: Misfit, span: Span, column: &str) -> Error {
    let place = scan.place(span.start);
    let near = if span.quoted { scan.quoted_at(span.start) } else { scan.near(span.start) };
    let error = misfit.into_error(crate::parser::clip(&near, 64), column);
    if column.is_empty() { error.at(place) } else { error.at(place).hint(format!("in column {column}")) }
}
