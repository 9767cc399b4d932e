//! Columns and runs of a write against a schema. Nothing that comes from the network is trusted.

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as Arrow, TimeUnit};
use model::{Code, ColumnId, DataType, Error, Precision, Result, TableSchema};
use proto::keys::RowKeys;
use proto::write::TableRun;

use super::Context;

/// Columns in the order of the schema.
pub(super) struct ShapedColumns {
    pub(super) columns: Vec<(ColumnId, ArrayRef)>,
    /// Whether these are all there are.
    pub(super) complete: bool,
    /// Of a composite key.
    pub(super) keys: RowKeys,
}

pub(super) fn bad(what: impl std::fmt::Display) -> Error {
    Error::with(Code::BadRequest, what)
}

/// Checks that columns exist, have their types and lengths and are as long as one another, and puts them in the order
/// of the schema.
pub(super) fn shape_columns(
    schema: &TableSchema,
    precision: Precision,
    columns: &[(ColumnId, ArrayRef)],
) -> Result<ShapedColumns> {
    let Some((ColumnId::TIMESTAMP, first)) = columns.first() else {
        return Err(bad("the first column must be the primary timestamp"));
    };
    let rows = first.len();
    if first.null_count() > 0 {
        return Err(Error::text(Code::InsertSyntax, "Primary timestamp column should not be null"));
    }
    let mut placed: Vec<(usize, ColumnId, ArrayRef)> = Vec::with_capacity(columns.len());
    for (id, values) in columns {
        let found = schema.column_by_id(*id);
        let (at, column) = found
            .ok_or_else(|| Error::with(Code::InvalidColumn, super::request::column_name(schema, *id)))?;
        if *values.data_type() != column.data_type.arrow(precision) {
            let detail = format!("{} type={} given={}", column.name, column.data_type, values.data_type());
            return Err(Error::with(Code::WrongValueType, detail));
        }
        if values.len() != rows {
            return Err(bad(format!("columns of different length: {}", column.name)));
        }
        check_lengths(column.data_type, values, &column.name)?;
        placed.push((at, *id, values.clone()));
    }
    placed.sort_by_key(|(at, ..)| *at);
    if placed.windows(2).any(|pair| matches!(pair, [(a, ..), (b, ..)] if a == b)) {
        return Err(Error::of(Code::DuplicateColumn));
    }
    let keys = keys(schema, &placed)?;
    let complete = placed.len() == schema.columns.len();
    let columns = placed.into_iter().map(|(_, id, values)| (id, values)).collect();
    Ok(ShapedColumns { columns, complete, keys })
}

/// The values of a composite key: there, and none of them NULL.
fn keys(schema: &TableSchema, placed: &[(usize, ColumnId, ArrayRef)]) -> Result<RowKeys> {
    let Some(key) = schema.key() else { return Ok(RowKeys::None) };
    let found = placed.iter().find(|(_, id, _)| *id == key.id);
    let (.., values) = found.ok_or_else(|| {
        Error::text(Code::InvalidOperation, "Primary key column should not be none").hint(&key.name)
    })?;
    if values.null_count() > 0 {
        return Err(Error::of(Code::KeyNull));
    }
    RowKeys::of(values).ok_or_else(|| Error::of(Code::KeyType))
}

/// Texts within their declared length.
fn check_lengths(data_type: DataType, values: &ArrayRef, name: &str) -> Result<()> {
    let Some(texts) = values.as_string_opt::<i32>() else { return Ok(()) };
    if texts.iter().flatten().all(|text| data_type.fits(text)) {
        Ok(())
    } else {
        Err(Error::with(Code::ValueTooLong, name))
    }
}

/// Checks that runs rise, cover all rows and are within the time that is accepted as of `as_of_ns`.
pub(super) fn check_runs(
    context: &Context,
    as_of_ns: i64,
    timestamps: &ArrayRef,
    keys: &RowKeys,
    runs: &[TableRun],
) -> Result<()> {
    let ticks = ticks(timestamps).ok_or_else(|| bad("the first column must be the primary timestamp"))?;
    let options = &context.database.options;
    let accepted = options.accepted_ticks(as_of_ns);
    let mut start = 0;
    for run in runs {
        let end = usize::try_from(run.end).unwrap_or(usize::MAX);
        let rows = ticks.get(start..end).filter(|rows| !rows.is_empty());
        let rows = rows.ok_or_else(|| bad("run ends must rise and lie within the rows"))?;
        if !keys.ascend(rows, start) {
            let by = if matches!(keys, RowKeys::None) { "time" } else { "time and key" };
            return Err(bad(format!("rows of a table must ascend strictly by {by}: {}", run.table)));
        }
        for tick in rows.first().into_iter().chain(rows.last()) {
            options.check_tick(&accepted, *tick, &run.table)?;
        }
        start = end;
    }
    if start == ticks.len() && start > 0 { Ok(()) } else { Err(bad("rows without a table")) }
}

/// The ticks of a timestamp column.
pub(crate) fn ticks(values: &ArrayRef) -> Option<&[i64]> {
    Some(match values.data_type() {
        Arrow::Timestamp(TimeUnit::Millisecond, _) => {
            values.as_primitive_opt::<TimestampMillisecondType>()?.values()
        }
        Arrow::Timestamp(TimeUnit::Microsecond, _) => {
            values.as_primitive_opt::<TimestampMicrosecondType>()?.values()
        }
        Arrow::Timestamp(TimeUnit::Nanosecond, _) => {
            values.as_primitive_opt::<TimestampNanosecondType>()?.values()
        }
        _ => return None,
    })
}
