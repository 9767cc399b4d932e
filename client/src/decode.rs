//! What the server says of columns and rows, checked and as Arrow.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use model::{Code, DataType, Error, Precision, Result};
use proto::v1;
use tonic::codegen::Bytes;

/// A column of a result or of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name; a result may hold one name several times.
    pub name: String,
    /// Its type in the dialect.
    pub data_type: DataType,
    /// Tick length, where it is a TIMESTAMP.
    pub precision: Precision,
}

/// Columns and the Arrow schema of their batches.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Arc<[Column]>,
    pub(crate) schema: SchemaRef,
}

impl Layout {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        let field = |c: &Column| Field::new(&c.name, c.data_type.arrow(c.precision), true);
        let fields: Vec<_> = columns.iter().map(field).collect();
        Self { columns: columns.into(), schema: Arc::new(Schema::new(fields)) }
    }

    pub(crate) fn from_wire(columns: Vec<v1::ResultColumn>) -> Result<Self> {
        let column = |c: v1::ResultColumn| {
            Ok(Column {
                data_type: proto::convert::type_from_wire(c.r#type, c.length)?,
                precision: proto::convert::precision_from_wire(c.precision)?,
                name: c.name,
            })
        };
        Ok(Self::new(columns.into_iter().map(column).collect::<Result<_>>()?))
    }

    /// The rows in `frame`, which must have these columns.
    pub(crate) fn batch(&self, frame: &Bytes) -> Result<RecordBatch> {
        let malformed = |what: &dyn std::fmt::Display| Error::with(Code::InvalidMessage, what);
        let frame = proto::frame::decode(frame, 0).map_err(|e| malformed(&e).caused_by(e))?;
        let rows = frame.columns.first().map_or(0, |column| column.len());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), frame.columns, &options)
            .map_err(|e| malformed(&e).caused_by(e))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int32Array, Int64Array};

    use super::*;

    #[test]
    fn a_frame_of_other_columns_is_refused() {
        let layout = Layout::new(vec![Column {
            name: "v".into(),
            data_type: DataType::Int,
            precision: Precision::Ms,
        }]);
        let frame = |column: ArrayRef| {
            let mut bytes = Vec::new();
            proto::frame::encode(&[column], &mut bytes).unwrap();
            Bytes::from(bytes)
        };
        assert_eq!(layout.batch(&frame(Arc::new(Int32Array::from(vec![1, 2])))).unwrap().num_rows(), 2);
        let wrong = layout.batch(&frame(Arc::new(Int64Array::from(vec![1])))).unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidMessage);
        assert_eq!(layout.batch(&Bytes::from_static(b"xy")).unwrap_err().code(), Code::InvalidMessage);
    }
}
