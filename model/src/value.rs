//! Single values: tags and literals. Rows never travel as these, they are Arrow columns.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A tag value or a literal. Integers keep their full 64 bits; the column's type says how wide they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// NULL
    #[default]
    Null,
    /// BOOL
    Bool(bool),
    /// Any signed integer type.
    Int(i64),
    /// Any unsigned integer type.
    UInt(u64),
    /// FLOAT
    Float(f32),
    /// DOUBLE
    Double(f64),
    /// TIMESTAMP in ticks of the database's precision.
    Timestamp(i64),
    /// VARCHAR, NCHAR or JSON
    Text(String),
    /// VARBINARY or GEOMETRY
    Bytes(Vec<u8>),
}

impl Value {
    /// Whether it is NULL.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl fmt::Display for Value {
    /// As SHOW TAGS prints it: DOUBLE with nine decimals, TIMESTAMP as ticks, text bare, bytes as `\x` and hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(v) => v.fmt(f),
            Self::Int(v) | Self::Timestamp(v) => v.fmt(f),
            Self::UInt(v) => v.fmt(f),
            Self::Float(v) => write!(f, "{v:.5}"),
            Self::Double(v) => write!(f, "{v:.9}"),
            Self::Text(v) => v.fmt(f),
            Self::Bytes(v) => {
                f.write_str("\\x")?;
                v.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}
