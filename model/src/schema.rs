//! Columns and tags of a table.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Code, ColumnId, DataType, Error, Result, SchemaVersion};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The word that DDL and metadata use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads that word in any case.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|v| v.as_str().eq_ignore_ascii_case(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// ENCODE option. Kept and shown for TDengine's tools; the files choose their own encoding by measured size.
    Encoding {
        /// simple8b
        Simple8b = "simple8b",
        /// bit-packing
        BitPacking = "bit-packing",
        /// delta-i
        DeltaI = "delta-i",
        /// delta-d
        DeltaD = "delta-d",
        /// disabled
        Disabled = "disabled",
    }
}
named! {
    /// COMPRESS option. Kept and shown, like [`Encoding`].
    Compression {
        /// lz4
        Lz4 = "lz4",
        /// zlib
        Zlib = "zlib",
        /// zstd
        Zstd = "zstd",
        /// tsz
        Tsz = "tsz",
        /// xz
        Xz = "xz",
        /// disabled
        Disabled = "disabled",
    }
}
named! {
    /// LEVEL option. Kept and shown, like [`Encoding`].
    Level {
        /// high
        High = "high",
        /// medium
        Medium = "medium",
        /// low
        Low = "low",
    }
}

impl Encoding {
    /// Whether a column of this type may name it.
    #[must_use]
    pub fn suits(self, data_type: DataType) -> bool {
        match self {
            Self::Disabled => true,
            Self::DeltaI => {
                matches!(data_type, DataType::Timestamp | DataType::BigInt | DataType::UBigInt)
            }
            Self::Simple8b => data_type.is_integer() || data_type == DataType::Timestamp,
            Self::DeltaD => matches!(data_type, DataType::Float | DataType::Double),
            Self::BitPacking => data_type == DataType::Bool,
        }
    }
}

impl Compression {
    /// Whether a column of this type may name it.
    #[must_use]
    pub fn suits(self, data_type: DataType) -> bool {
        self != Self::Tsz || matches!(data_type, DataType::Float | DataType::Double)
    }
}

/// ENCODE, COMPRESS and LEVEL of a column, those that a statement names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnStorage {
    /// ENCODE
    pub encoding: Option<Encoding>,
    /// COMPRESS
    pub compression: Option<Compression>,
    /// LEVEL
    pub level: Option<Level>,
}

impl ColumnStorage {
    /// Whether a column of `data_type` may have it.
    ///
    /// # Errors
    /// [`Code::InvalidEncoding`] or [`Code::InvalidCompression`].
    pub fn check(&self, data_type: DataType) -> Result<()> {
        let what = |word: &str| format!("{word} for {data_type}");
        if let Some(encoding) = self.encoding.filter(|encoding| !encoding.suits(data_type)) {
            let text = format!("Invalid encode param: {}", what(encoding.as_str()));
            return Err(Error::text(Code::InvalidEncoding, text));
        }
        if let Some(compression) = self.compression.filter(|compression| !compression.suits(data_type)) {
            let text = format!("Invalid compress param: {}", what(compression.as_str()));
            return Err(Error::text(Code::InvalidCompression, text));
        }
        Ok(())
    }

    /// Changes `column` as far as this names something.
    pub fn apply(&self, column: &mut ColumnDef) {
        column.encoding = self.encoding.or(column.encoding);
        column.compression = self.compression.or(column.compression);
        column.level = self.level.or(column.level);
    }
}

/// LEVEL and part in the key of a column, as it is stored: a form of its own for what is the last field of a column, so
/// that columns without a key have the bytes that they had before there were keys, and a program that knows of no keys
/// refuses a table that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredLevel {
    /// No level: of a tag.
    None,
    /// Of a column.
    Column(Level),
    /// Of a column that is part of the key.
    Key(Option<Level>),
}

impl StoredLevel {
    /// The form of a level and a part in the key.
    #[must_use]
    pub const fn new(level: Option<Level>, is_key: bool) -> Self {
        match (level, is_key) {
            (level, true) => Self::Key(level),
            (Some(level), false) => Self::Column(level),
            (None, false) => Self::None,
        }
    }

    /// The level.
    #[must_use]
    pub const fn level(self) -> Option<Level> {
        match self {
            Self::None => None,
            Self::Column(level) => Some(level),
            Self::Key(level) => level,
        }
    }

    /// Whether the column is part of the key.
    #[must_use]
    pub const fn is_key(self) -> bool {
        matches!(self, Self::Key(_))
    }
}

/// One column or tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredColumn", into = "StoredColumn")]
pub struct ColumnDef {
    /// Stays through renames; what rows, topics and files refer to.
    pub id: ColumnId,
    /// Current name, in the case it was given.
    pub name: String,
    /// Declared type.
    pub data_type: DataType,
    /// Shown by DESCRIBE; `None` for tags, which are not compressed one by one.
    pub encoding: Option<Encoding>,
    /// Shown by DESCRIBE.
    pub compression: Option<Compression>,
    /// Shown by DESCRIBE.
    pub level: Option<Level>,
    /// Part of the primary key beside the timestamp: see [`TableSchema::key`].
    pub is_key: bool,
}

/// A column as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredColumn {
    id: ColumnId,
    name: String,
    data_type: DataType,
    encoding: Option<Encoding>,
    compression: Option<Compression>,
    level: StoredLevel,
}

impl From<ColumnDef> for StoredColumn {
    fn from(column: ColumnDef) -> Self {
        let ColumnDef { id, name, data_type, encoding, compression, level, is_key } = column;
        Self { id, name, data_type, encoding, compression, level: StoredLevel::new(level, is_key) }
    }
}

impl From<StoredColumn> for ColumnDef {
    fn from(stored: StoredColumn) -> Self {
        let StoredColumn { id, name, data_type, encoding, compression, level } = stored;
        Self { id, name, data_type, encoding, compression, level: level.level(), is_key: level.is_key() }
    }
}

impl ColumnDef {
    /// Its name and its type.
    #[must_use]
    pub fn named(&self) -> (&str, DataType) {
        (&self.name, self.data_type)
    }

    /// A data column with the type's default encoding, compression and level.
    #[must_use]
    pub fn column(id: ColumnId, name: impl Into<String>, data_type: DataType) -> Self {
        let (encoding, compression) = default_storage(data_type);
        Self {
            id,
            name: name.into(),
            data_type,
            encoding: Some(encoding),
            compression: Some(compression),
            level: Some(Level::Medium),
            is_key: false,
        }
    }

    /// A tag.
    #[must_use]
    pub fn tag(id: ColumnId, name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            id,
            name: name.into(),
            data_type,
            encoding: None,
            compression: None,
            level: None,
            is_key: false,
        }
    }
}

/// What ENCODE and COMPRESS are when DDL does not say.
fn default_storage(data_type: DataType) -> (Encoding, Compression) {
    match data_type {
        DataType::Bool => (Encoding::BitPacking, Compression::Zstd),
        DataType::TinyInt | DataType::SmallInt | DataType::UTinyInt | DataType::USmallInt => {
            (Encoding::Simple8b, Compression::Zlib)
        }
        DataType::Int | DataType::BigInt | DataType::UInt | DataType::UBigInt => {
            (Encoding::Simple8b, Compression::Lz4)
        }
        DataType::Timestamp => (Encoding::DeltaI, Compression::Lz4),
        DataType::Float | DataType::Double => (Encoding::DeltaD, Compression::Lz4),
        DataType::Varchar(_) | DataType::NChar(_) | DataType::Varbinary(_) | DataType::Json => {
            (Encoding::Disabled, Compression::Zstd)
        }
        DataType::Geometry(_) => (Encoding::Disabled, Compression::Lz4),
    }
}

/// Whether a column of this type may be part of the key.
///
/// # Errors
/// [`Code::KeyType`].
pub fn check_key_type(data_type: DataType) -> Result<()> {
    use DataType::{BigInt, Int, UBigInt, UInt, Varchar};
    match data_type {
        Int | BigInt | UInt | UBigInt | Varchar(_) => Ok(()),
        _ => Err(Error::of(Code::KeyType)),
    }
}

/// Columns and tags at one moment. `columns[0]` is the primary timestamp; normal tables have no tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// Raised by one at each change.
    pub version: SchemaVersion,
    /// Data columns in declared order.
    pub columns: Vec<ColumnDef>,
    /// Tags in declared order.
    pub tags: Vec<ColumnDef>,
    /// The id that the next added column or tag gets.
    pub next_column_id: ColumnId,
}

impl TableSchema {
    /// A first version; ids are given in order, columns before tags.
    #[must_use]
    pub fn new(columns: Vec<(String, DataType)>, tags: Vec<(String, DataType)>) -> Self {
        let mut next = ColumnId::TIMESTAMP.0;
        let mut take = || {
            let id = ColumnId(next);
            next = next.saturating_add(1);
            id
        };
        let columns = columns.into_iter().map(|(name, ty)| ColumnDef::column(take(), name, ty)).collect();
        let tags = tags.into_iter().map(|(name, ty)| ColumnDef::tag(take(), name, ty)).collect();
        Self { version: SchemaVersion(1), columns, tags, next_column_id: ColumnId(next) }
    }

    /// The second column where it is part of the primary key, a composite one: rows of a table are then identified by
    /// timestamp and key, and ascend by both. It has a value in every row.
    #[must_use]
    pub fn key(&self) -> Option<&ColumnDef> {
        self.columns.get(1).filter(|column| column.is_key)
    }

    /// Checks where the key is and what type it has.
    ///
    /// # Errors
    /// [`Code::KeyPosition`] or [`Code::KeyType`].
    pub fn check_key(&self) -> Result<()> {
        let second_or_none = |(at, column): (usize, &ColumnDef)| at == 1 || !column.is_key;
        if !self.columns.iter().enumerate().all(second_or_none) || self.tags.iter().any(|tag| tag.is_key) {
            return Err(Error::of(Code::KeyPosition));
        }
        self.key().map_or(Ok(()), |key| check_key_type(key.data_type))
    }

    /// The data column called `name` (exact case) and its place.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<(usize, &ColumnDef)> {
        self.columns.iter().enumerate().find(|(_, c)| c.name == name)
    }

    /// The tag called `name` (exact case) and its place.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<(usize, &ColumnDef)> {
        self.tags.iter().enumerate().find(|(_, c)| c.name == name)
    }

    /// The data column with this id and its place.
    #[must_use]
    pub fn column_by_id(&self, id: ColumnId) -> Option<(usize, &ColumnDef)> {
        self.columns.iter().enumerate().find(|(_, c)| c.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands in for the log's and the checkpoint's encoding, which is this one.
    fn bytes(column: &ColumnDef) -> Vec<u8> {
        postcard::to_stdvec(column).unwrap()
    }

    #[test]
    fn columns_without_a_key_have_the_bytes_that_they_always_had() {
        let mut column = ColumnDef::column(ColumnId(2), "k", DataType::Int);
        // Id, name, type; then each option as a byte that says whether it is there, and its number.
        let old = [2, 1, b'k', 3, 1, 0, 1, 0, 1, 1];
        assert_eq!(bytes(&column), old);
        assert_eq!(postcard::from_bytes::<ColumnDef>(&old).unwrap(), column);
        let tag = ColumnDef::tag(ColumnId(3), "t", DataType::Int);
        assert_eq!(bytes(&tag), [3, 1, b't', 3, 0, 0, 0]);
        column.is_key = true;
        assert_eq!(bytes(&column), [2, 1, b'k', 3, 1, 0, 1, 0, 2, 1, 1]);
        for column in [column, tag] {
            assert_eq!(postcard::from_bytes::<ColumnDef>(&bytes(&column)).unwrap(), column);
        }
    }

    #[test]
    fn a_key_is_the_second_column_and_of_few_types() {
        let schema = |types: &[DataType], key: usize| {
            let columns = types.iter().enumerate().map(|(at, ty)| (format!("c{at}"), *ty)).collect();
            let mut schema = TableSchema::new(columns, vec![("t".into(), DataType::Int)]);
            schema.columns[key].is_key = true;
            schema.check_key().map(|()| schema.key().map(|key| key.id)).map_err(|error| error.code())
        };
        let ts = DataType::Timestamp;
        for fits in [DataType::Int, DataType::BigInt, DataType::UInt, DataType::UBigInt, DataType::Varchar(3)]
        {
            assert_eq!(schema(&[ts, fits], 1), Ok(Some(ColumnId(2))));
        }
        for other in [DataType::SmallInt, DataType::Double, DataType::NChar(3), DataType::Bool, ts] {
            assert_eq!(schema(&[ts, other], 1), Err(Code::KeyType));
        }
        assert_eq!(schema(&[ts, DataType::Int, DataType::Int], 2), Err(Code::KeyPosition));
        assert_eq!(schema(&[ts, DataType::Int], 0), Err(Code::KeyPosition));
    }
}
