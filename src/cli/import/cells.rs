//! One cell to one value.

use model::{Code, DataType, Error, Precision, Result, Value, Zone, parse_timestamp};

/// What a cell of a column is read as.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CellType {
    pub(super) data_type: DataType,
    pub(super) precision: Precision,
}

/// Whether the cell means NULL.
pub(super) fn is_null(cell: &str, null: Option<&str>) -> bool {
    cell.is_empty() || null == Some(cell)
}

/// A number as CSV files write them: no `inf`, no `nan`, no hexadecimal.
pub(super) fn number(cell: &str) -> Option<f64> {
    let starts = cell.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    cell.parse().ok().filter(|number: &f64| starts && number.is_finite())
}

/// Reads a time literal, or whole ticks where `ticks` allows.
pub(super) fn time(cell: &str, precision: Precision, zone: Zone, ticks: bool) -> Option<i64> {
    parse_timestamp(cell, precision, zone).or_else(|| if ticks { cell.parse().ok() } else { None })
}

/// Reads a cell that is not NULL.
///
/// # Errors
/// What it is not, as a fragment for a message.
pub(super) fn value(cell: &str, cell_type: &CellType, zone: Zone) -> Result<Value, String> {
    let CellType { data_type, precision } = cell_type;
    let trimmed = cell.trim();
    let wrong = || format!("value={cell} is no {data_type}");
    Ok(match data_type {
        DataType::Bool => Value::Bool(boolean(trimmed).ok_or_else(wrong)?),
        DataType::Float | DataType::Double => Value::Double(number(trimmed).ok_or_else(wrong)?),
        DataType::Timestamp => Value::Timestamp(time(trimmed, *precision, zone, true).ok_or_else(wrong)?),
        DataType::Varchar(_) | DataType::NChar(_) if data_type.fits(cell) => Value::Text(cell.to_owned()),
        DataType::Varchar(_) | DataType::NChar(_) => {
            return Err(format!("value={cell} is too long for {data_type}"));
        }
        _ => integer(trimmed, *data_type).ok_or_else(wrong)?,
    })
}

fn boolean(cell: &str) -> Option<bool> {
    match cell.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

fn integer(cell: &str, data_type: DataType) -> Option<Value> {
    let signed = |min: i64, max: i64| {
        let number: i64 = cell.parse().ok()?;
        (min..=max).contains(&number).then_some(Value::Int(number))
    };
    let unsigned = |max: u64| cell.parse().ok().filter(|number: &u64| *number <= max).map(Value::UInt);
    match data_type {
        DataType::TinyInt => signed(i8::MIN.into(), i8::MAX.into()),
        DataType::SmallInt => signed(i16::MIN.into(), i16::MAX.into()),
        DataType::Int => signed(i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => signed(i64::MIN, i64::MAX),
        DataType::UTinyInt => unsigned(u8::MAX.into()),
        DataType::USmallInt => unsigned(u16::MAX.into()),
        DataType::UInt => unsigned(u32::MAX.into()),
        DataType::UBigInt => unsigned(u64::MAX),
        _ => None,
    }
}

/// The error that names a cell.
pub(super) fn bad_cell(file: &str, line: u64, column: &str, what: &str) -> Error {
    Error::with(Code::CsvCell, format!("file={file} line={line} column={column} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cell: &str, data_type: DataType) -> Result<Value, String> {
        value(cell, &CellType { data_type, precision: Precision::Ms }, Zone::UTC)
    }

    #[test]
    fn cells_read_as_their_columns_type() {
        assert_eq!(read(" 7 ", DataType::BigInt), Ok(Value::Int(7)));
        assert_eq!(read("7", DataType::Double), Ok(Value::Double(7.0)));
        assert_eq!(read("-1.5e3", DataType::Float), Ok(Value::Double(-1_500.0)));
        assert_eq!(read("TRUE", DataType::Bool), Ok(Value::Bool(true)));
        assert_eq!(read("2014-01-01 00:00:00", DataType::Timestamp), Ok(Value::Timestamp(1_388_534_400_000)));
        assert_eq!(read("1388534400000", DataType::Timestamp), Ok(Value::Timestamp(1_388_534_400_000)));
        assert_eq!(read(" a ", DataType::Varchar(3)), Ok(Value::Text(" a ".into())), "text stays as it is");
        assert_eq!(read("18446744073709551615", DataType::UBigInt), Ok(Value::UInt(u64::MAX)));
    }

    #[test]
    fn what_does_not_fit_says_what_it_is_not() {
        assert_eq!(read("x", DataType::BigInt), Err("value=x is no BIGINT".into()));
        assert_eq!(read("1.5", DataType::BigInt), Err("value=1.5 is no BIGINT".into()));
        assert_eq!(read("300", DataType::TinyInt), Err("value=300 is no TINYINT".into()));
        assert_eq!(read("-1", DataType::UInt), Err("value=-1 is no INT UNSIGNED".into()));
        assert_eq!(read("abcd", DataType::Varchar(3)), Err("value=abcd is too long for VARCHAR(3)".into()));
        for cell in ["inf", "NaN", "-Infinity", "0x1F", "", "1,5", "1e999"] {
            assert!(read(cell, DataType::Double).is_err(), "{cell}");
        }
    }
}
