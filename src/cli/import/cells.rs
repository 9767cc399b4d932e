//! One cell to one value.

use model::{Code, DataType, Error, Precision, Result, Value, Zone, parse_timestamp};

use super::epoch::EpochUnit;

/// What a cell of a column is read as.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CellType {
    pub(super) data_type: DataType,
    pub(super) precision: Precision,
    /// What whole numbers count from the epoch in a column of times.
    pub(super) unit: EpochUnit,
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

/// Reads a time literal or a whole number of `unit`s as ticks, if those hold it to its last digit.
///
/// # Errors
/// What it is not, as a fragment for a message.
fn time(cell: &str, cell_type: &CellType, zone: Zone) -> Result<i64, String> {
    let CellType { precision, unit, .. } = *cell_type;
    let cut = |finer: &str| {
        format!("value={cell} has {finer}, the database's precision is {precision}: digits would be lost")
    };
    if let Ok(number) = cell.parse::<i64>() {
        return unit.to_ticks(number, precision).ok_or_else(|| cut(unit.as_str()));
    }
    let ticks = parse_timestamp(cell, precision, zone)
        .ok_or_else(|| format!("value={cell} is no {}", DataType::Timestamp))?;
    match parse_timestamp(cell, Precision::Ns, zone) {
        Some(ns) if ns % precision.ns_per_tick() != 0 => Err(cut("more digits")),
        // One too far away for nanoseconds is read as it is.
        _ if digits_behind_ns(cell) => Err(cut("more than nine digits of a second")),
        _ => Ok(ticks),
    }
}

/// Whether a time literal has digits other than 0 behind the nanosecond.
fn digits_behind_ns(cell: &str) -> bool {
    let fraction = cell.split_once('.').map_or("", |(_, rest)| rest);
    fraction.chars().take_while(char::is_ascii_digit).skip(9).any(|digit| digit != '0')
}

/// Reads a cell that is not NULL.
///
/// # Errors
/// What it is not, as a fragment for a message.
pub(super) fn value(cell: &str, cell_type: &CellType, zone: Zone) -> Result<Value, String> {
    let data_type = &cell_type.data_type;
    let trimmed = cell.trim();
    let wrong = || format!("value={cell} is no {data_type}");
    Ok(match data_type {
        DataType::Bool => Value::Bool(boolean(trimmed).ok_or_else(wrong)?),
        DataType::Float | DataType::Double => Value::Double(number(trimmed).ok_or_else(wrong)?),
        DataType::Timestamp => Value::Timestamp(time(trimmed, cell_type, zone)?),
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

/// What other programs write for a value that is missing, in lower case.
const NULL_LIKE: &[&str] = &["na", "n/a", "nan", "null", "none", "nil", "missing", "-", "--", "?", "\\n"];

/// Whether a cell that does not read is likely meant as NULL.
pub(super) fn is_null_like(cell: &str) -> bool {
    NULL_LIKE.contains(&cell.trim().to_ascii_lowercase().as_str())
}

/// The error that names a cell.
pub(super) fn bad_cell(file: &str, line: u64, column: &str, what: &str) -> Error {
    Error::with(Code::CsvCell, format!("file={file} line={line} column={column} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cell: &str, data_type: DataType) -> Result<Value, String> {
        let (precision, unit) = (Precision::Ms, EpochUnit::Ticks);
        value(cell, &CellType { data_type, precision, unit }, Zone::UTC)
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
    fn no_digit_of_a_time_is_lost() {
        let time = |cell: &str, precision, unit| {
            let found = value(cell, &CellType { data_type: DataType::Timestamp, precision, unit }, Zone::UTC);
            found.map(|value| if let Value::Timestamp(ticks) = value { ticks } else { panic!("{value:?}") })
        };
        let ticks = |cell, precision| time(cell, precision, EpochUnit::Ticks);
        assert_eq!(ticks("1970-01-01 00:00:00.1230", Precision::Ms), Ok(123));
        assert_eq!(ticks("1970-01-01 00:00:00.123456", Precision::Us), Ok(123_456));
        let error = ticks("1970-01-01 00:00:00.1234", Precision::Ms).unwrap_err();
        assert!(error.contains("more digits") && error.contains("precision is ms"), "{error}");
        assert!(ticks("1970-01-01 00:00:00.1234567891", Precision::Ns).is_err());
        assert_eq!(ticks("1970-01-01 00:00:00.1234567890", Precision::Ns), Ok(123_456_789));
        assert_eq!(ticks("2900-01-01", Precision::Ms), Ok(29_348_006_400_000), "beyond nanoseconds");
        assert_eq!(time("1700000000", Precision::Ms, EpochUnit::Seconds), Ok(1_700_000_000_000));
        assert_eq!(
            time("1700000000123000", Precision::Ms, EpochUnit::Of(Precision::Us)),
            Ok(1_700_000_000_123)
        );
        let error = time("1700000000123456", Precision::Ms, EpochUnit::Of(Precision::Us)).unwrap_err();
        assert!(error.contains("has microseconds") && error.contains("precision is ms"), "{error}");
        assert!(ticks("soon", Precision::Ms).unwrap_err().contains("is no TIMESTAMP"));
    }

    #[test]
    fn what_does_not_fit_says_what_it_is_not() {
        assert_eq!(read("x", DataType::BigInt), Err("value=x is no BIGINT".into()));
        assert_eq!(read("1.5", DataType::BigInt), Err("value=1.5 is no BIGINT".into()));
        assert_eq!(read("300", DataType::TinyInt), Err("value=300 is no TINYINT".into()));
        assert_eq!(read("-1", DataType::UInt), Err("value=-1 is no INT UNSIGNED".into()));
        assert_eq!(read("abcd", DataType::Varchar(3)), Err("value=abcd is too long for VARCHAR(3)".into()));
        assert!(["NA", "n/a", "NaN", "\\N", "-"].iter().all(|cell| is_null_like(cell)));
        assert!(!is_null_like("x") && !is_null_like("-1"));
        for cell in ["inf", "NaN", "-Infinity", "0x1F", "", "1,5", "1e999"] {
            assert!(read(cell, DataType::Double).is_err(), "{cell}");
        }
    }
}
