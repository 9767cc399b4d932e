//! Finds the pages of a file that can hold rows of a time range.

use std::ops::Range;

use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use query::source::TimeRange;

/// Row ranges of the file, ascending, outside of which no timestamp lies in `time`. `None` where the file's page index
/// does not tell.
pub(super) fn pages_in(
    metadata: &ArrowReaderMetadata,
    ticks_leaf: Option<usize>,
    time: TimeRange,
) -> Option<Vec<Range<u64>>> {
    let leaf = ticks_leaf?;
    let metadata = metadata.metadata();
    let (columns, offsets) = (metadata.column_index()?, metadata.offset_index()?);
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut group_start = 0u64;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let group_end = group_start + u64::try_from(group.num_rows()).ok()?;
        let ColumnIndexMetaData::INT64(index) = columns.get(number)?.get(leaf)? else { return None };
        let pages = offsets.get(number)?.get(leaf)?.page_locations();
        for (at, page) in pages.iter().enumerate() {
            let start = group_start + u64::try_from(page.first_row_index).ok()?;
            let end = match pages.get(at + 1) {
                Some(next) => group_start + u64::try_from(next.first_row_index).ok()?,
                None => group_end,
            };
            let (min, max) = (*index.min_value(at)?, *index.max_value(at)?);
            if max < time.first || min > time.last_inclusive {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => found.push(start..end),
            }
        }
        group_start = group_end;
    }
    Some(found)
}
