//! Column types of the dialect and how Arrow carries them.

use std::fmt;

use arrow_schema::{DataType as Arrow, TimeUnit as ArrowUnit};
use serde::{Deserialize, Serialize};

use crate::Precision;

/// Type of a column or tag. Lengths are declared lengths: bytes for VARCHAR, characters for NCHAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DataType {
    /// BOOL
    Bool,
    /// TINYINT, 8 bits
    TinyInt,
    /// SMALLINT, 16 bits
    SmallInt,
    /// INT, 32 bits
    Int,
    /// BIGINT, 64 bits
    BigInt,
    /// FLOAT, 32 bits
    Float,
    /// DOUBLE, 64 bits
    Double,
    /// VARCHAR(bytes), also written BINARY
    Varchar(u16),
    /// TIMESTAMP in the database's precision
    Timestamp,
    /// NCHAR(characters)
    NChar(u16),
    /// TINYINT UNSIGNED
    UTinyInt,
    /// SMALLINT UNSIGNED
    USmallInt,
    /// INT UNSIGNED
    UInt,
    /// BIGINT UNSIGNED
    UBigInt,
    /// VARBINARY(bytes)
    Varbinary(u16),
    /// GEOMETRY(bytes): well-known binary
    Geometry(u16),
    /// JSON, the only tag of its super table: the document as compact text
    Json,
}

/// Longest JSON tag in bytes.
pub const JSON_BYTES_MAX: u16 = 4_095;

/// Longest VARCHAR column in bytes.
pub const VARCHAR_BYTES_MAX: u16 = 65_517;
/// Longest NCHAR column in characters.
pub const NCHAR_CHARS_MAX: u16 = 16_379;
/// Longest VARCHAR tag in bytes.
pub const VARCHAR_TAG_BYTES_MAX: u16 = 16_382;
/// Longest NCHAR tag in characters.
pub const NCHAR_TAG_CHARS_MAX: u16 = 4_095;

impl DataType {
    /// Type number in TDengine's protocols and metadata JSON.
    #[must_use]
    pub const fn wire_id(self) -> u8 {
        match self {
            Self::Bool => 1,
            Self::TinyInt => 2,
            Self::SmallInt => 3,
            Self::Int => 4,
            Self::BigInt => 5,
            Self::Float => 6,
            Self::Double => 7,
            Self::Varchar(_) => 8,
            Self::Timestamp => 9,
            Self::NChar(_) => 10,
            Self::UTinyInt => 11,
            Self::USmallInt => 12,
            Self::UInt => 13,
            Self::UBigInt => 14,
            Self::Json => 15,
            Self::Varbinary(_) => 16,
            Self::Geometry(_) => 20,
        }
    }

    /// Name without length, as DESCRIBE prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::TinyInt => "TINYINT",
            Self::SmallInt => "SMALLINT",
            Self::Int => "INT",
            Self::BigInt => "BIGINT",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::Varchar(_) => "VARCHAR",
            Self::Timestamp => "TIMESTAMP",
            Self::NChar(_) => "NCHAR",
            Self::UTinyInt => "TINYINT UNSIGNED",
            Self::USmallInt => "SMALLINT UNSIGNED",
            Self::UInt => "INT UNSIGNED",
            Self::UBigInt => "BIGINT UNSIGNED",
            Self::Varbinary(_) => "VARBINARY",
            Self::Geometry(_) => "GEOMETRY",
            Self::Json => "JSON",
        }
    }

    /// Length as DESCRIBE prints it: bytes of fixed types, declared length of variable ones.
    #[must_use]
    pub const fn length(self) -> u16 {
        match self {
            Self::Bool | Self::TinyInt | Self::UTinyInt => 1,
            Self::SmallInt | Self::USmallInt => 2,
            Self::Int | Self::UInt | Self::Float => 4,
            Self::BigInt | Self::UBigInt | Self::Double | Self::Timestamp => 8,
            Self::Varchar(n) | Self::NChar(n) | Self::Varbinary(n) | Self::Geometry(n) => n,
            Self::Json => JSON_BYTES_MAX,
        }
    }

    /// Bytes that count toward the row limit: variable types need two more, NCHAR four a character.
    #[must_use]
    pub const fn row_bytes(self) -> u32 {
        match self {
            Self::Varchar(n) | Self::Varbinary(n) | Self::Geometry(n) => n as u32 + 2,
            Self::Json => JSON_BYTES_MAX as u32 + 2,
            Self::NChar(n) => n as u32 * 4 + 2,
            fixed => fixed.length() as u32,
        }
    }

    /// VARCHAR or NCHAR.
    #[must_use]
    pub const fn is_string(self) -> bool {
        matches!(self, Self::Varchar(_) | Self::NChar(_))
    }

    /// VARBINARY or GEOMETRY.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Varbinary(_) | Self::Geometry(_))
    }

    /// Whether it is declared with a length.
    #[must_use]
    pub const fn has_length(self) -> bool {
        self.is_string() || self.is_binary()
    }

    /// Whether MODIFY may make `to` of it: the same type, longer.
    #[must_use]
    pub const fn widens_to(self, to: Self) -> bool {
        match (self, to) {
            (Self::Varchar(from), Self::Varchar(to))
            | (Self::NChar(from), Self::NChar(to))
            | (Self::Varbinary(from), Self::Varbinary(to)) => to > from,
            _ => false,
        }
    }

    /// A signed or unsigned integer.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::TinyInt
                | Self::SmallInt
                | Self::Int
                | Self::BigInt
                | Self::UTinyInt
                | Self::USmallInt
                | Self::UInt
                | Self::UBigInt
        )
    }

    /// An integer, FLOAT or DOUBLE.
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, Self::Float | Self::Double)
    }

    /// Whether `text` fits the declared length; always true for types without one.
    #[must_use]
    pub fn fits(self, text: &str) -> bool {
        match self {
            Self::Varchar(n) => text.len() <= usize::from(n),
            // Counting characters is needed only where bytes alone do not already answer.
            Self::NChar(n) => text.len() <= usize::from(n) || text.chars().count() <= usize::from(n),
            Self::Json => text.len() <= usize::from(JSON_BYTES_MAX),
            _ => true,
        }
    }

    /// Whether `bytes` fit the declared length; always true for types that hold no bytes.
    #[must_use]
    pub const fn fits_bytes(self, bytes: &[u8]) -> bool {
        match self {
            Self::Varbinary(n) | Self::Geometry(n) => bytes.len() <= n as usize,
            _ => true,
        }
    }

    /// The Arrow type whose buffers hold this type's values.
    #[must_use]
    pub const fn arrow(self, precision: Precision) -> Arrow {
        match self {
            Self::Bool => Arrow::Boolean,
            Self::TinyInt => Arrow::Int8,
            Self::SmallInt => Arrow::Int16,
            Self::Int => Arrow::Int32,
            Self::BigInt => Arrow::Int64,
            Self::Float => Arrow::Float32,
            Self::Double => Arrow::Float64,
            Self::Varchar(_) | Self::NChar(_) | Self::Json => Arrow::Utf8,
            Self::Varbinary(_) | Self::Geometry(_) => Arrow::Binary,
            Self::Timestamp => Arrow::Timestamp(arrow_unit(precision), None),
            Self::UTinyInt => Arrow::UInt8,
            Self::USmallInt => Arrow::UInt16,
            Self::UInt => Arrow::UInt32,
            Self::UBigInt => Arrow::UInt64,
        }
    }
}

/// Arrow's unit for ticks of `precision`.
#[must_use]
pub const fn arrow_unit(precision: Precision) -> ArrowUnit {
    match precision {
        Precision::Ms => ArrowUnit::Millisecond,
        Precision::Us => ArrowUnit::Microsecond,
        Precision::Ns => ArrowUnit::Nanosecond,
    }
}

impl fmt::Display for DataType {
    /// As DDL writes it: `VARCHAR(16)`, `INT UNSIGNED`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Varchar(n) | Self::NChar(n) | Self::Varbinary(n) | Self::Geometry(n) => {
                write!(f, "{}({n})", self.name())
            }
            _ => f.write_str(self.name()),
        }
    }
}
