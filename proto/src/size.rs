//! How much rows hold. A batch that is bounded by rows alone is as large as its widest column allows: rows of 64 KB make
//! half a gigabyte of 8,192. Whoever makes batches or messages bounds both.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// Bytes that `rows` of `array` hold: values and, of text, offsets. A dictionary's values count as often as they stand
/// there, since a frame spells them out. Bitmaps of NULLs do not count.
#[must_use]
pub fn rows_bytes(array: &dyn Array, rows: Range<usize>) -> usize {
    match array.data_type() {
        DataType::Boolean => rows.len().div_ceil(8),
        DataType::Utf8 => text_bytes(array.as_string::<i32>().value_offsets(), rows),
        DataType::Binary => text_bytes(array.as_binary::<i32>().value_offsets(), rows),
        DataType::Dictionary(..) => dictionary_bytes(array, rows),
        other => match other.primitive_width() {
            Some(width) => width.saturating_mul(rows.len()),
            None => {
                array.slice(rows.start, rows.len()).to_data().get_slice_memory_size().unwrap_or(usize::MAX)
            }
        },
    }
}

fn text_bytes(offsets: &[i32], rows: Range<usize>) -> usize {
    let at = |row: usize| offsets.get(row).copied().unwrap_or_default();
    let data = usize::try_from(at(rows.end) - at(rows.start)).unwrap_or_default();
    data + size_of::<i32>() * rows.len()
}

fn dictionary_bytes(array: &dyn Array, rows: Range<usize>) -> usize {
    let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else {
        return array.get_array_memory_size();
    };
    let values = dictionary.values();
    let keys = dictionary.keys().values().get(rows).unwrap_or_default();
    // Equal keys lie together: rows of one table.
    let runs = keys.chunk_by(|a, b| a == b).filter_map(|run| {
        let at = usize::try_from(*run.first()?).ok().filter(|at| *at < values.len())?;
        Some(rows_bytes(values, at..at + 1).saturating_mul(run.len()))
    });
    runs.fold(0, usize::saturating_add)
}

/// Bytes that a batch holds, a dictionary's values once.
#[must_use]
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Dictionary(..) => column.get_array_memory_size(),
        _ => rows_bytes(column, 0..column.len()),
    });
    columns.fold(0, usize::saturating_add)
}

/// The rows `0..rows` of `columns` in parts that follow each other, each of at most `rows_max` rows and `bytes_max`
/// bytes; a row that is larger is a part of its own.
#[must_use]
pub fn parts(columns: &[ArrayRef], rows: usize, rows_max: usize, bytes_max: usize) -> Vec<Range<usize>> {
    let bytes = |part: Range<usize>| -> usize {
        columns.iter().map(|column| rows_bytes(column, part.clone())).fold(0, usize::saturating_add)
    };
    let mut parts = Vec::new();
    let mut start = 0;
    while start < rows {
        let mut end = rows.min(start.saturating_add(rows_max.max(1)));
        // Halving finds a part that is at least half as large as could be, and looks at a row a few times at most.
        while end - start > 1 && bytes(start..end) > bytes_max {
            end = start + (end - start) / 2;
        }
        parts.push(start..end);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, DictionaryArray, Int64Array, StringArray};

    use super::*;

    #[test]
    fn counts_what_rows_hold() {
        let text = StringArray::from(vec![Some("abcd"), None, Some("ef")]);
        assert_eq!(rows_bytes(&text, 0..3), 6 + 12);
        assert_eq!(rows_bytes(&text.slice(1, 2), 1..2), 2 + 4, "of the slice, not of what it is a slice of");
        assert_eq!(rows_bytes(&Int64Array::from(vec![1, 2, 3]), 1..3), 16);
        assert_eq!(rows_bytes(&BooleanArray::from(vec![true; 9]), 0..9), 2);
        let names = DictionaryArray::<Int32Type>::from_iter(["abc", "abc", "d"]);
        assert_eq!(rows_bytes(&names, 0..3), 2 * (3 + 4) + (1 + 4));
    }

    #[test]
    fn parts_are_bounded_by_rows_and_by_bytes() {
        let wide = "x".repeat(1_000);
        let texts: Vec<&str> = (0..100).map(|row| if row < 50 { wide.as_str() } else { "" }).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts))];
        let parts = parts(&columns, 100, 40, 5_000);
        let covered: Vec<usize> = parts.iter().cloned().flatten().collect();
        assert_eq!(covered, (0..100).collect::<Vec<_>>(), "every row once, in order");
        assert!(parts.iter().all(|part| part.len() <= 40), "{parts:?}");
        assert!(parts.iter().all(|part| rows_bytes(&columns[0], part.clone()) <= 5_000), "{parts:?}");
        assert!(parts.len() < 30, "{parts:?}");
        assert_eq!(super::parts(&columns, 2, 40, 10), [0..1, 1..2], "a row is not cut");
        assert!(super::parts(&columns, 0, 40, 10).is_empty());
    }
}
