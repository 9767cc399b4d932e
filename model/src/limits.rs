//! How large a table may be declared. Parser, mnode and vnode check alike, and say alike what was too much.

use crate::{Code, DataType, Error, Result};

/// Most columns of a table, its timestamp included.
pub const COLUMNS_MAX: usize = 4_096;
/// Most tags of a super table.
pub const TAGS_MAX: usize = 128;
/// Longest row in bytes, as [`DataType::row_bytes`] counts.
pub const ROW_BYTES_MAX: u32 = 65_531;
/// Most bytes of all tags of a table together, counted likewise: the longest VARCHAR tag fits alone.
pub const TAG_BYTES_MAX: u32 = 16_384;

/// Checks the columns of a table, by name and type. The error names `changed`, the column that an ALTER is about, or
/// else the first column that is too much.
///
/// # Errors
/// `TooManyColumns`, `RowTooLong`, with what there is, the limit and the column.
pub fn check_columns<'c>(
    columns: impl IntoIterator<Item = (&'c str, DataType)>,
    changed: Option<&str>,
) -> Result<()> {
    let sizes = Sizes::of(columns, COLUMNS_MAX, ROW_BYTES_MAX);
    if let Some(column) = sizes.past_count {
        let column = changed.unwrap_or(column);
        let detail = format!("columns={} columns_max={COLUMNS_MAX} column={column}", sizes.count);
        return Err(Error::with(Code::TooManyColumns, detail));
    }
    sizes.check_bytes(Code::RowTooLong, ROW_BYTES_MAX, "column", changed)
}

/// Checks the tags of a super table as [`check_columns`] does its columns.
///
/// # Errors
/// `TagCount`, `TagsTooLong`, with what there is, the limit and the tag.
pub fn check_tags<'c>(
    tags: impl IntoIterator<Item = (&'c str, DataType)>,
    changed: Option<&str>,
) -> Result<()> {
    let sizes = Sizes::of(tags, TAGS_MAX, TAG_BYTES_MAX);
    if sizes.count == 0 {
        return Err(Error::of(Code::TagCount));
    }
    if let Some(tag) = sizes.past_count {
        let tag = changed.unwrap_or(tag);
        return Err(Error::with(
            Code::TagCount,
            format!("tags={} tags_max={TAGS_MAX} tag={tag}", sizes.count),
        ));
    }
    sizes.check_bytes(Code::TagsTooLong, TAG_BYTES_MAX, "tag", changed)
}

/// What a list of columns comes to.
struct Sizes<'c> {
    count: usize,
    bytes: u64,
    /// The first column that is one too many.
    past_count: Option<&'c str>,
    /// The first one that has no room any more.
    past_bytes: Option<&'c str>,
}

impl<'c> Sizes<'c> {
    fn of(columns: impl IntoIterator<Item = (&'c str, DataType)>, count_max: usize, bytes_max: u32) -> Self {
        let mut sizes = Self { count: 0, bytes: 0, past_count: None, past_bytes: None };
        for (name, data_type) in columns {
            sizes.count += 1;
            sizes.bytes += u64::from(data_type.row_bytes());
            if sizes.count > count_max {
                sizes.past_count.get_or_insert(name);
            }
            if sizes.bytes > u64::from(bytes_max) {
                sizes.past_bytes.get_or_insert(name);
            }
        }
        sizes
    }

    /// `what` a column of the list is called.
    fn check_bytes(&self, code: Code, bytes_max: u32, what: &str, changed: Option<&str>) -> Result<()> {
        let Some(name) = self.past_bytes else { return Ok(()) };
        let name = changed.unwrap_or(name);
        Err(Error::with(code, format!("bytes={} bytes_max={bytes_max} {what}={name}", self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(checked: Result<()>) -> (Code, String) {
        let error = checked.unwrap_err();
        (error.code(), error.message().to_owned())
    }

    fn numbered(count: usize, data_type: DataType) -> (Vec<String>, DataType) {
        ((0..count).map(|n| format!("c{n}")).collect(), data_type)
    }

    fn named((names, data_type): &(Vec<String>, DataType)) -> impl Iterator<Item = (&str, DataType)> {
        names.iter().map(|name| (name.as_str(), *data_type))
    }

    #[test]
    fn a_row_fits_to_its_last_byte() {
        let row = |text| [("ts", DataType::Timestamp), ("w", DataType::Varchar(text)), ("v", DataType::Int)];
        check_columns(row(65_517), None).unwrap();
        let (code, message) = refused(check_columns(row(65_518), None));
        assert_eq!(code, Code::RowTooLong);
        assert_eq!(message, "Row length exceeds max length: bytes=65532 bytes_max=65531 column=v");
        let (_, message) = refused(check_columns(row(65_518), Some("w")));
        assert!(message.ends_with("column=w"), "the one that was changed: {message}");
    }

    #[test]
    fn columns_are_counted() {
        check_columns(named(&numbered(COLUMNS_MAX, DataType::Int)), None).unwrap();
        let (code, message) = refused(check_columns(named(&numbered(COLUMNS_MAX + 2, DataType::Int)), None));
        assert_eq!(code, Code::TooManyColumns);
        assert_eq!(message, "Too many columns: columns=4098 columns_max=4096 column=c4096");
    }

    #[test]
    fn tags_are_counted_and_measured() {
        check_tags(named(&numbered(TAGS_MAX, DataType::Int)), None).unwrap();
        let (code, message) = refused(check_tags(named(&numbered(TAGS_MAX + 1, DataType::Int)), None));
        assert_eq!((code, message.contains("tags=129 tags_max=128 tag=c128")), (Code::TagCount, true));
        assert_eq!(refused(check_tags([], None)).0, Code::TagCount);
        let two = |first| [("a", DataType::Varchar(first)), ("b", DataType::NChar(95))];
        check_tags(two(16_000), None).unwrap();
        let (code, message) = refused(check_tags(two(16_001), None));
        assert_eq!(code, Code::TagsTooLong);
        assert_eq!(message, "Tags length exceeds max length: bytes=16385 bytes_max=16384 tag=b");
        check_tags([("a", DataType::Varchar(crate::VARCHAR_TAG_BYTES_MAX))], None).unwrap();
    }
}
