//! How wide the rows of a file are once they are decoded, as its page index tells: encoded they may be far smaller, and
//! whoever decodes so many rows at once has to know what they will take.

use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;

/// Bytes of a row of this leaf column, taken over the page where rows are widest: few rows of it are wider, and they lie
/// in one page.
pub(super) fn row_bytes_max(metadata: &ParquetMetaData, leaf: usize) -> u64 {
    let column = metadata.file_metadata().schema_descr().column(leaf);
    match column.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or_default(),
        Type::BYTE_ARRAY => {
            let groups = 0..metadata.num_row_groups();
            groups.map(|group| text_bytes_max(metadata, group, leaf)).max().unwrap_or_default()
                + size_of::<i32>() as u64
        }
    }
}

/// Of a text column in one row group.
fn text_bytes_max(metadata: &ParquetMetaData, group: usize, leaf: usize) -> u64 {
    let Some(rows) = metadata.row_groups().get(group) else { return 0 };
    let group_rows = rows.num_rows();
    let pages = metadata.offset_index().and_then(|index| index.get(group)?.get(leaf));
    let sizes = pages.and_then(|pages| pages.unencoded_byte_array_data_bytes());
    if let (Some(pages), Some(sizes)) = (pages, sizes) {
        let starts = pages.page_locations().iter().map(|page| page.first_row_index);
        let ends = starts.clone().skip(1).chain([group_rows]);
        return starts
            .zip(ends)
            .zip(sizes)
            .map(|((start, end), bytes)| per_row(*bytes, end - start))
            .max()
            .unwrap_or(0);
    }
    // A file without sizes of pages: what the whole chunk comes to.
    let Some(chunk) = rows.columns().get(leaf) else { return 0 };
    per_row(chunk.unencoded_byte_array_data_bytes().unwrap_or_else(|| chunk.uncompressed_size()), group_rows)
}

fn per_row(bytes: i64, rows: i64) -> u64 {
    u64::try_from(bytes).unwrap_or_default().div_ceil(u64::try_from(rows).unwrap_or_default().max(1))
}
