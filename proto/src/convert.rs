//! Vocabulary to messages and back. What comes from the wire is checked here, once.

use bytes::Bytes;
use model::{Code, ColumnDef, ColumnId, DataType, Error, Precision, Result, TableUid, Value, VgroupId};

use crate::frame;
use crate::v1;
use crate::write::{TableRun, WriteBlock};

/// Precision as its wire number: 0 ms, 1 us, 2 ns.
#[must_use]
pub const fn precision_to_wire(precision: Precision) -> u32 {
    match precision {
        Precision::Ms => 0,
        Precision::Us => 1,
        Precision::Ns => 2,
    }
}

/// Precision from its wire number.
///
/// # Errors
/// [`Code::BadRequest`] for a number that stands for none.
pub fn precision_from_wire(number: u32) -> Result<Precision> {
    match number {
        0 => Ok(Precision::Ms),
        1 => Ok(Precision::Us),
        2 => Ok(Precision::Ns),
        other => Err(Error::with(Code::BadRequest, format!("precision={other}"))),
    }
}

/// A type from its wire id and declared length.
///
/// # Errors
/// [`Code::BadRequest`] for an id that stands for none, or a length out of range.
pub fn type_from_wire(id: u32, length: u32) -> Result<DataType> {
    let bad = || Error::with(Code::BadRequest, format!("type={id} length={length}"));
    let length = || u16::try_from(length).map_err(|_| bad());
    Ok(match id {
        1 => DataType::Bool,
        2 => DataType::TinyInt,
        3 => DataType::SmallInt,
        4 => DataType::Int,
        5 => DataType::BigInt,
        6 => DataType::Float,
        7 => DataType::Double,
        8 => DataType::Varchar(length()?),
        9 => DataType::Timestamp,
        10 => DataType::NChar(length()?),
        11 => DataType::UTinyInt,
        12 => DataType::USmallInt,
        13 => DataType::UInt,
        14 => DataType::UBigInt,
        15 => DataType::Json,
        16 => DataType::Varbinary(length()?),
        20 => DataType::Geometry(length()?),
        _ => return Err(bad()),
    })
}

/// A column or tag as its message.
#[must_use]
pub fn column_to_wire(column: &ColumnDef) -> v1::ColumnDef {
    v1::ColumnDef {
        id: u32::from(column.id.0),
        name: column.name.clone(),
        r#type: u32::from(column.data_type.wire_id()),
        length: u32::from(column.data_type.length()),
        is_key: column.is_key,
    }
}

/// Id, name and type of a column or tag.
///
/// # Errors
/// [`Code::BadRequest`] for numbers that stand for nothing.
pub fn column_from_wire(column: v1::ColumnDef) -> Result<(ColumnId, String, DataType)> {
    Ok((column_id(column.id)?, column.name, type_from_wire(column.r#type, column.length)?))
}

fn column_id(id: u32) -> Result<ColumnId> {
    u16::try_from(id).map(ColumnId).map_err(|_| Error::with(Code::BadRequest, format!("column id={id}")))
}

/// A value as its message.
#[must_use]
pub fn value_to_wire(value: &Value) -> v1::TagValue {
    use v1::tag_value::Value as Wire;
    let wire = match value {
        Value::Null => Wire::Null(true),
        Value::Bool(v) => Wire::Boolean(*v),
        Value::Int(v) => Wire::Integer(*v),
        Value::UInt(v) => Wire::Unsigned(*v),
        Value::Float(v) => Wire::Float(*v),
        Value::Double(v) => Wire::Double(*v),
        Value::Timestamp(v) => Wire::Timestamp(*v),
        Value::Text(v) => Wire::Text(v.clone()),
        Value::Bytes(v) => Wire::Binary(v.clone().into()),
    };
    v1::TagValue { value: Some(wire) }
}

/// A value from its message; one that says nothing is NULL.
#[must_use]
pub fn value_from_wire(value: v1::TagValue) -> Value {
    use v1::tag_value::Value as Wire;
    match value.value {
        None | Some(Wire::Null(_)) => Value::Null,
        Some(Wire::Boolean(v)) => Value::Bool(v),
        Some(Wire::Integer(v)) => Value::Int(v),
        Some(Wire::Unsigned(v)) => Value::UInt(v),
        Some(Wire::Float(v)) => Value::Float(v),
        Some(Wire::Double(v)) => Value::Double(v),
        Some(Wire::Timestamp(v)) => Value::Timestamp(v),
        Some(Wire::Text(v)) => Value::Text(v),
        Some(Wire::Binary(v)) => Value::Bytes(v.to_vec()),
    }
}

/// A write for one vgroup as its message.
///
/// # Errors
/// [`Code::BadRequest`] where a column's type cannot travel.
pub fn write_to_wire(vgroup: VgroupId, block: &WriteBlock) -> Result<v1::WriteBlock> {
    let columns: Vec<_> = block.columns.iter().map(|(_, column)| column.clone()).collect();
    let mut bytes = Vec::new();
    frame::encode(&columns, &mut bytes).map_err(|e| Error::with(Code::BadRequest, &e).caused_by(e))?;
    let create = (0_u32..).zip(&block.runs).filter_map(|(run, r)| {
        let values = r.create_tags.as_ref()?.iter().map(value_to_wire).collect();
        Some(v1::CreateTags { run, values })
    });
    Ok(v1::WriteBlock {
        vgroup: vgroup.0,
        stable: block.stable.map_or(0, |uid| uid.0),
        column_ids: block.columns.iter().map(|(id, _)| u32::from(id.0)).collect(),
        tables: block.runs.iter().map(|run| run.table.clone()).collect(),
        ends: block.runs.iter().map(|run| run.end).collect(),
        create: create.collect(),
        frame: Bytes::from(bytes),
    })
}

/// A write and its vgroup from their message. Shapes are checked; whether tables, columns and types exist is the
/// shard's to say.
///
/// # Errors
/// [`Code::BadRequest`] naming what does not fit.
pub fn write_from_wire(block: v1::WriteBlock) -> Result<(VgroupId, WriteBlock)> {
    let bad = |what: &str| Error::with(Code::BadRequest, what);
    let frame = frame::decode(&block.frame, 0).map_err(|e| Error::with(Code::BadRequest, &e).caused_by(e))?;
    if frame.columns.len() != block.column_ids.len() {
        return Err(bad("as many column ids as columns are needed"));
    }
    if block.tables.len() != block.ends.len() {
        return Err(bad("as many tables as run ends are needed"));
    }
    let ids = block.column_ids.into_iter().map(column_id).collect::<Result<Vec<_>>>()?;
    let mut runs: Vec<_> = block
        .tables
        .into_iter()
        .zip(block.ends)
        .map(|(table, end)| TableRun { table, end, create_tags: None })
        .collect();
    for create in block.create {
        let run = usize::try_from(create.run).ok().and_then(|run| runs.get_mut(run));
        run.ok_or_else(|| bad("tags for a run that is not there"))?.create_tags =
            Some(create.values.into_iter().map(value_from_wire).collect());
    }
    let stable = (block.stable != 0).then_some(TableUid(block.stable));
    let write = WriteBlock { stable, columns: ids.into_iter().zip(frame.columns).collect(), runs };
    Ok((VgroupId(block.vgroup), write))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn a_write_crosses_the_wire_whole() {
        let columns: Vec<(ColumnId, ArrayRef)> = vec![
            (ColumnId(1), Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3]))),
            (ColumnId(3), Arc::new(Int32Array::from(vec![Some(7), None, Some(9)]))),
        ];
        let tags = vec![Value::Text("north".into()), Value::Null, Value::UInt(u64::MAX), Value::Float(0.5)];
        let runs = vec![
            TableRun { table: "a".into(), end: 2, create_tags: None },
            TableRun { table: "b".into(), end: 3, create_tags: Some(tags) },
        ];
        let block = WriteBlock { stable: Some(TableUid(9)), columns, runs };
        let (vgroup, back) = write_from_wire(write_to_wire(VgroupId(4), &block).unwrap()).unwrap();
        assert_eq!((vgroup, back.stable, &back.runs), (VgroupId(4), block.stable, &block.runs));
        assert_eq!(back.columns, block.columns);
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        let column: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1]));
        let runs = vec![TableRun { table: "a".into(), end: 1, create_tags: None }];
        let good = write_to_wire(
            VgroupId(2),
            &WriteBlock { stable: None, columns: vec![(ColumnId(1), column)], runs },
        )
        .unwrap();
        let mut two_ids = good.clone();
        two_ids.column_ids.push(2);
        let mut no_end = good.clone();
        no_end.ends.clear();
        let mut far_run = good;
        far_run.create.push(v1::CreateTags { run: 5, values: vec![] });
        for bad in [two_ids, no_end, far_run] {
            assert_eq!(write_from_wire(bad).unwrap_err().code(), Code::BadRequest);
        }
    }
}
