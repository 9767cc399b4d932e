//! Chooses how a column chunk is encoded: each candidate encodes a sample, the smallest result after compression wins.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::Result;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, TypePtr};

/// Rows of a sample: enough to hold several tables or several pages of one.
pub(super) const SAMPLE_ROWS: usize = 32 * 1024;
/// Rows of a data page. What one point query decodes at least, for each column.
const PAGE_ROWS: usize = 20_000;

/// How hard zstd tries, by what the file is written for; docs/decisions/0011 has the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevels {
    /// Files of a flush: writers wait for it where it does not keep up, and a merge writes its rows again.
    pub flush: i32,
    /// Files of a compaction, which stay.
    pub compaction: i32,
}

impl Default for CompressionLevels {
    fn default() -> Self {
        Self { flush: 1, compaction: 3 }
    }
}

/// Encoding of one column chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Dictionary,
    Plain(Encoding),
}

/// What may suit a type, the likeliest first: it wins where sizes are equal.
fn candidates(data_type: &DataType) -> &'static [Choice] {
    use Choice::{Dictionary, Plain};
    match data_type {
        DataType::Boolean => &[Plain(Encoding::PLAIN), Plain(Encoding::RLE)],
        DataType::Float32 | DataType::Float64 => {
            &[Plain(Encoding::BYTE_STREAM_SPLIT), Dictionary, Plain(Encoding::PLAIN)]
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Timestamp(..) => &[
            Plain(Encoding::DELTA_BINARY_PACKED),
            Dictionary,
            Plain(Encoding::BYTE_STREAM_SPLIT),
            Plain(Encoding::PLAIN),
        ],
        DataType::Utf8 | DataType::Binary => {
            &[Dictionary, Plain(Encoding::DELTA_LENGTH_BYTE_ARRAY), Plain(Encoding::DELTA_BYTE_ARRAY)]
        }
        // tbname, which is one value over many rows, and _set, which has few values.
        _ => &[Dictionary],
    }
}

/// The encoding for each column of which `sample` holds the first rows.
pub(super) fn choose(
    schema: &SchemaRef,
    root: &TypePtr,
    sample: &[ArrayRef],
    level: i32,
) -> Result<Vec<Choice>> {
    let options: Vec<&[Choice]> = schema.fields().iter().map(|f| candidates(f.data_type())).collect();
    let first = |options: &[Choice]| options.first().copied().unwrap_or(Choice::Dictionary);
    let mut best: Vec<(Choice, u64)> = options.iter().map(|options| (first(options), u64::MAX)).collect();
    let rounds = options.iter().map(|options| options.len()).max().unwrap_or_default();
    for round in 0..rounds {
        // One writer encodes all columns, each with its candidate of this round.
        let tried: Vec<Choice> =
            options.iter().map(|options| options.get(round).copied().unwrap_or(first(options))).collect();
        let writers = column_writers(schema, root, &tried, level)?;
        let columns = schema.fields().iter().zip(sample).zip(&options).zip(&mut best);
        for (mut writer, (((field, array), options), best)) in writers.into_iter().zip(columns) {
            let Some(choice) = options.get(round) else { continue };
            if options.len() == 1 {
                continue;
            }
            for leaf in compute_leaves(field, &array.slice(0, array.len().min(SAMPLE_ROWS)))? {
                writer.write(&leaf)?;
            }
            let bytes = writer.close()?.close().bytes_written;
            if bytes < best.1 {
                *best = (*choice, bytes);
            }
        }
    }
    Ok(best.into_iter().map(|(choice, _)| choice).collect())
}

/// Writers of the columns of one row group.
pub(super) fn column_writers(
    schema: &SchemaRef,
    root: &TypePtr,
    choices: &[Choice],
    level: i32,
) -> Result<Vec<parquet::arrow::arrow_writer::ArrowColumnWriter>> {
    // Encodings are properties of a file; a file that is never written lends its factory for those of one row group.
    let mut builder = base_properties(level);
    for (field, choice) in schema.fields().iter().zip(choices) {
        let path = ColumnPath::from(field.name().as_str());
        builder = match choice {
            Choice::Dictionary => builder.set_column_dictionary_enabled(path, true),
            Choice::Plain(encoding) => builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, *encoding),
        };
    }
    let file = SerializedFileWriter::new(std::io::sink(), Arc::clone(root), Arc::new(builder.build()))?;
    ArrowRowGroupWriterFactory::new(&file, Arc::clone(schema)).create_column_writers(0)
}

/// Properties that all columns share.
pub(super) fn base_properties(level: i32) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("tidemark version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level).unwrap_or_default()))
        .set_data_page_row_count_limit(PAGE_ROWS)
}

/// The Parquet form of a schema.
pub(super) fn parquet_root(schema: &SchemaRef) -> Result<TypePtr> {
    Ok(ArrowSchemaConverter::new().schema_root("rows").convert(schema)?.root_schema_ptr())
}
