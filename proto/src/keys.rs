//! The order of rows of one instant: values of the column that makes a key composite.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

/// Key values of a column without NULLs, shared with its array.
#[derive(Clone, Debug, Default)]
pub enum RowKeys {
    /// Time alone is the key: all rows are equal.
    #[default]
    None,
    /// INT
    Int(ScalarBuffer<i32>),
    /// BIGINT
    BigInt(ScalarBuffer<i64>),
    /// INT UNSIGNED
    UInt(ScalarBuffer<u32>),
    /// BIGINT UNSIGNED
    UBigInt(ScalarBuffer<u64>),
    /// VARCHAR, in the order of its bytes; apart, so that what holds no keys stays small
    Text(Box<StringArray>),
}

impl RowKeys {
    /// The values of a key column; `None` for types that are no key.
    #[must_use]
    pub fn of(array: &dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int32 => Self::Int(array.as_primitive_opt::<Int32Type>()?.values().clone()),
            DataType::Int64 => Self::BigInt(array.as_primitive_opt::<Int64Type>()?.values().clone()),
            DataType::UInt32 => Self::UInt(array.as_primitive_opt::<UInt32Type>()?.values().clone()),
            DataType::UInt64 => Self::UBigInt(array.as_primitive_opt::<UInt64Type>()?.values().clone()),
            DataType::Utf8 => Self::Text(Box::new(array.as_string_opt::<i32>()?.clone())),
            _ => return None,
        })
    }

    /// The value of a row as a number that keeps the order; 0 for text and for rows that are not there.
    #[must_use]
    pub fn number(&self, row: usize) -> i64 {
        let found = match self {
            Self::None | Self::Text(_) => None,
            Self::Int(values) => values.get(row).map(|v| i64::from(*v)),
            Self::BigInt(values) => values.get(row).copied(),
            Self::UInt(values) => values.get(row).map(|v| i64::from(*v)),
            // The highest bit turned over puts the upper half behind the lower.
            Self::UBigInt(values) => values.get(row).map(|v| (v ^ 1 << 63).cast_signed()),
        };
        found.unwrap_or_default()
    }

    /// The value of a row; empty for numbers and for rows that are not there.
    #[must_use]
    pub fn text(&self, row: usize) -> &str {
        match self {
            Self::Text(values) if row < values.len() => values.value(row),
            _ => "",
        }
    }

    /// How two rows of one instant follow each other.
    #[must_use]
    pub fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Self::None => Ordering::Equal,
            Self::Text(_) => self.text(a).cmp(self.text(b)),
            _ => self.number(a).cmp(&self.number(b)),
        }
    }

    /// Whether rows ascend strictly by time and key; `ticks` are the times of those from `first` on.
    #[must_use]
    pub fn ascend(&self, ticks: &[i64], first: usize) -> bool {
        match self {
            Self::None => ticks.is_sorted_by(|a, b| a < b),
            _ => (first..).zip(ticks.windows(2)).all(|(row, pair)| match pair {
                [a, b] if a == b => self.compare(row, row + 1).is_lt(),
                pair => pair.is_sorted(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array, UInt64Array};

    use super::*;

    #[test]
    fn orders_are_those_of_the_values() {
        let order = |array: &dyn Array| RowKeys::of(array).unwrap().compare(0, 1);
        assert_eq!(order(&Int32Array::from(vec![-1, 1])), Ordering::Less);
        assert_eq!(order(&UInt64Array::from(vec![u64::MAX, 1])), Ordering::Greater);
        assert_eq!(order(&UInt64Array::from(vec![7, 7])), Ordering::Equal);
        assert_eq!(order(&StringArray::from(vec!["a", "aa"])), Ordering::Less);
        assert_eq!(order(&StringArray::from(vec!["é", "z"])), Ordering::Greater);
        assert!(RowKeys::of(&Float64Array::from(vec![1.0])).is_none());
        assert_eq!(RowKeys::None.compare(0, 1), Ordering::Equal);
    }

    #[test]
    fn rows_ascend_by_time_and_then_by_key() {
        let keys = RowKeys::of(&Int32Array::from(vec![9, 1, 2, 2])).unwrap();
        assert!(keys.ascend(&[5, 5, 6], 1));
        assert!(!keys.ascend(&[5, 5], 0), "9 before 1");
        assert!(!keys.ascend(&[5, 5], 2), "twice the same");
        assert!(keys.ascend(&[4, 5], 0) && !keys.ascend(&[5, 4], 1));
        assert!(RowKeys::None.ascend(&[4, 5], 0) && !RowKeys::None.ascend(&[5, 5], 0));
    }
}
