//! Rows on their way to a writer, column by column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use model::{Code, ColumnId, DataType, Error, Result, Value};

use super::column::ColumnBuilder;
use super::target::{Target, TargetColumn};

/// A table that a batch has rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table(pub(super) u32);

#[derive(Clone, Debug)]
pub(super) struct TableRows {
    pub(super) name: String,
    pub(super) create_tags: Option<Vec<Value>>,
}

/// Rows of any number of tables, in any order. Where rows of one table repeat an instant, or an
/// instant and a composite key, the last one given counts.
///
/// A batch has the columns it was made with. Columns left out keep the value they had; a NULL that is given overwrites.
#[derive(Debug)]
pub struct Batch {
    pub(super) target: Arc<Target>,
    ids: Vec<ColumnId>,
    /// Place of the column that is part of a composite key.
    key: Option<usize>,
    columns: Vec<ColumnBuilder>,
    pub(super) tables: Vec<TableRows>,
    by_name: HashMap<String, Table>,
    /// Whose the rows are: table and row behind its last, in row order.
    pub(super) runs: Vec<(Table, usize)>,
}

/// What a batch becomes.
pub(super) struct Finished {
    pub(super) columns: Vec<(ColumnId, ArrayRef)>,
    pub(super) tables: Vec<TableRows>,
    pub(super) runs: Vec<(Table, usize)>,
}

impl Batch {
    pub(super) fn new(target: Arc<Target>, columns: Vec<TargetColumn>) -> Result<Self> {
        let ids = columns.iter().map(|column| column.id).collect();
        let key = columns.iter().position(|column| column.is_key);
        let builders = columns.into_iter().map(|column| ColumnBuilder::new(column.column));
        let columns = builders.collect::<Result<_>>()?;
        let (tables, by_name, runs) = (Vec::new(), HashMap::new(), Vec::new());
        Ok(Self { target, ids, key, columns, tables, by_name, runs })
    }

    /// A table that exists.
    ///
    /// # Errors
    /// [`Code::TableNotExist`] when the writer is for one normal table and this is another.
    pub fn table(&mut self, name: &str) -> Result<Table> {
        self.entry(name, None)
    }

    /// A child table that is created if it does not exist; `tags` in the order of the super table's.
    ///
    /// # Errors
    /// [`Code::TagsNotMatched`] for too few or too many tags, [`Code::WrongValueType`] or [`Code::ValueTooLong`] for one
    /// that does not fit.
    pub fn child(&mut self, name: &str, tags: &[Value]) -> Result<Table> {
        let columns = self.target.tag_columns();
        if columns.len() != tags.len() {
            let text = format!("table={name} needed={} given={}", columns.len(), tags.len());
            return Err(Error::with(Code::TagsNotMatched, text));
        }
        let tags =
            columns.iter().zip(tags).map(|(column, tag)| fit_tag(column, tag)).collect::<Result<_>>()?;
        self.entry(name, Some(tags))
    }

    fn entry(&mut self, name: &str, create_tags: Option<Vec<Value>>) -> Result<Table> {
        if !self.target.is_super() && name != self.target.table() {
            return Err(Error::with(Code::TableNotExist, format!("{name} is not {}", self.target.table())));
        }
        if let Some(known) = self.by_name.get(name) {
            return Ok(*known);
        }
        let index = u32::try_from(self.tables.len())
            .map_err(|_| Error::with(Code::InvalidParameters, "too many tables in one batch"))?;
        self.tables.push(TableRows { name: name.to_owned(), create_tags });
        self.by_name.insert(name.to_owned(), Table(index));
        Ok(Table(index))
    }

    /// Number of rows whose table is known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |(_, end)| *end)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The builder of the column at `index`, in the batch's order. After appending to each, say with [`Self::rows_of`]
    /// whose the rows are.
    #[must_use]
    pub fn column(&mut self, index: usize) -> Option<&mut ColumnBuilder> {
        self.columns.get_mut(index)
    }

    /// All builders, in the batch's order.
    pub fn columns(&mut self) -> &mut [ColumnBuilder] {
        &mut self.columns
    }

    /// The next `rows` rows are `table`'s.
    pub fn rows_of(&mut self, table: Table, rows: usize) {
        let end = self.len() + rows;
        match self.runs.last_mut() {
            Some((last, last_end)) if *last == table => *last_end = end,
            _ if rows > 0 => self.runs.push((table, end)),
            _ => {}
        }
    }

    /// Appends one row.
    ///
    /// # Errors
    /// [`Code::ColumnCount`] for too few or too many values, [`Code::KeyNull`] for a NULL in a composite key, else what the
    /// column says; the row is then not in the batch.
    pub fn push(&mut self, table: Table, row: &[Value]) -> Result<()> {
        self.check_count(row.len())?;
        if let Some(key) = self.key
            && row.get(key) == Some(&Value::Null)
        {
            let name = self.columns.get(key).map_or("", |column| &column.column().name);
            return Err(Error::with(Code::KeyNull, name));
        }
        let refused = self
            .columns
            .iter_mut()
            .zip(row)
            .enumerate()
            .find_map(|(index, (column, value))| column.append(value).err().map(|error| (index, error)));
        if let Some((filled, error)) = refused {
            for column in self.columns.iter_mut().take(filled) {
                column.pop()?;
            }
            return Err(error);
        }
        self.rows_of(table, 1);
        Ok(())
    }

    /// Appends whole arrays of one length, one a column, as rows of `table`.
    ///
    /// # Errors
    /// [`Code::ColumnCount`] or [`Code::WrongValueType`] when they are not the batch's columns.
    pub fn push_arrays(&mut self, table: Table, arrays: &[ArrayRef]) -> Result<()> {
        self.check_count(arrays.len())?;
        let rows = arrays.first().map_or(0, |array| array.len());
        let fits = |(column, array): (&ColumnBuilder, &ArrayRef)| column.takes(array, rows);
        self.columns.iter().zip(arrays).try_for_each(fits)?;
        for (column, array) in self.columns.iter_mut().zip(arrays) {
            column.append_array(Arc::clone(array))?;
        }
        self.rows_of(table, rows);
        Ok(())
    }

    fn check_count(&self, given: usize) -> Result<()> {
        if given == self.columns.len() {
            return Ok(());
        }
        Err(Error::with(Code::ColumnCount, format!("needed={} given={given}", self.columns.len())))
    }

    pub(super) fn finish(mut self) -> Result<Finished> {
        let rows = self.len();
        if let Some(odd) = self.columns.iter().find(|column| column.len() != rows) {
            let text = format!("column={} values={} rows={rows}", odd.column().name, odd.len());
            return Err(Error::with(Code::ColumnCount, text));
        }
        let arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect::<Result<Vec<_>>>()?;
        let columns = self.ids.into_iter().zip(arrays).collect();
        Ok(Finished { columns, tables: self.tables, runs: self.runs })
    }
}

/// A tag as its type wants it. The shard checks again.
fn fit_tag(column: &TargetColumn, tag: &Value) -> Result<Value> {
    let data_type = column.column.data_type;
    let wrong = |code| Error::with(code, format!("tag={} type={data_type} value={tag}", column.column.name));
    let unsigned =
        matches!(data_type, DataType::UTinyInt | DataType::USmallInt | DataType::UInt | DataType::UBigInt);
    Ok(match (data_type, tag) {
        (_, Value::Null) => Value::Null,
        (DataType::Bool, Value::Bool(_))
        | (DataType::Float, Value::Float(_))
        | (DataType::Double, Value::Double(_))
        | (DataType::Timestamp, Value::Timestamp(_)) => tag.clone(),
        (DataType::Double, Value::Float(v)) => Value::Double(f64::from(*v)),
        #[expect(clippy::cast_possible_truncation, reason = "FLOAT keeps what 32 bits hold")]
        (DataType::Float, Value::Double(v)) => Value::Float(*v as f32),
        (DataType::Timestamp, Value::Int(v)) => Value::Timestamp(*v),
        (DataType::Varchar(_) | DataType::NChar(_) | DataType::Json, Value::Text(text)) => {
            if !data_type.fits(text) {
                return Err(wrong(Code::ValueTooLong));
            }
            tag.clone()
        }
        (DataType::Varbinary(_) | DataType::Geometry(_), Value::Bytes(bytes)) => {
            if !data_type.fits_bytes(bytes) {
                return Err(wrong(Code::ValueTooLong));
            }
            tag.clone()
        }
        (_, Value::Int(v)) if unsigned => {
            Value::UInt(u64::try_from(*v).map_err(|_| wrong(Code::OutOfRange))?)
        }
        (_, Value::UInt(_)) if unsigned => tag.clone(),
        (_, Value::Int(_)) if data_type.is_integer() => tag.clone(),
        (_, Value::UInt(v)) if data_type.is_integer() => {
            Value::Int(i64::try_from(*v).map_err(|_| wrong(Code::OutOfRange))?)
        }
        _ => return Err(wrong(Code::WrongValueType)),
    })
}
