//! The Parquet schema of a data file: `tbname`, then the table's columns under the names that they have when the file
//! is written, then `_set` where rows are partial. What a column is says its field id, which is the column id; names
//! are for other readers. docs/data-files.md draws the file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use model::{ColumnId, Precision, TableSchema};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

/// Field id of `tbname`. Column ids begin at 1.
pub(super) const FIELD_TBNAME: i32 = 0;
/// Field id of `_set`. Column ids end at 65,535.
pub(super) const FIELD_PRESENCE: i32 = 65_536;

/// Schema of the batches that a flush writes: `tbname` as a dictionary, the columns, and `_set` if asked for.
pub(super) fn file_schema(schema: &TableSchema, precision: Precision, presence: bool) -> SchemaRef {
    let tbname_type = Arrow::Dictionary(Box::new(Arrow::Int32), Box::new(Arrow::Utf8));
    let mut fields = vec![field("tbname".to_owned(), tbname_type, false, FIELD_TBNAME)];
    for column in &schema.columns {
        let nullable = column.id != ColumnId::TIMESTAMP && !column.is_key;
        fields.push(field(
            column.name.clone(),
            column.data_type.arrow(precision),
            nullable,
            i32::from(column.id.0),
        ));
    }
    if presence {
        // A column of the user's may be called like it: names must differ, and ours is the one that gives way.
        let mut name = "_set".to_owned();
        while fields.iter().any(|f| *f.name() == name) {
            name.insert(0, '_');
        }
        fields.push(field(name, Arrow::Binary, true, FIELD_PRESENCE));
    }
    Arc::new(Schema::new(fields))
}

fn field(name: String, data_type: Arrow, nullable: bool, id: i32) -> Field {
    let id = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
    Field::new(name, data_type, nullable).with_metadata(id)
}
