//! Column types and their lengths.

use model::{
    Code, DataType, Error, NCHAR_CHARS_MAX, NCHAR_TAG_CHARS_MAX, Result, VARCHAR_BYTES_MAX,
    VARCHAR_TAG_BYTES_MAX,
};

use super::Parser;
use crate::lexer::TokenKind;

/// Where a type stands, which decides its greatest length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypePlace {
    Column,
    Tag,
    Cast,
}

/// Types of the dialect that Tidemark does not store.
const UNSUPPORTED: &[&str] = &["DECIMAL", "BLOB", "MEDIUMBLOB"];

/// What a word that is no type is told.
const TYPES: &str = "types are TIMESTAMP, BOOL, TINYINT, SMALLINT, INT and BIGINT with or without UNSIGNED, FLOAT, DOUBLE, \
    VARCHAR(n), NCHAR(n), VARBINARY(n), GEOMETRY(n), and JSON for a tag";

impl Parser<'_> {
    /// The type behind AS in CAST; VARCHAR and NCHAR may omit their length.
    pub(super) fn cast_type(&mut self) -> Result<DataType> {
        let token = self.peek();
        match self.written_type(TypePlace::Cast)? {
            other @ (DataType::Json | DataType::Varbinary(_) | DataType::Geometry(_)) => {
                Err(self.unsupported_at(format_args!("CAST to {}", other.name()), token))
            }
            known => Ok(known),
        }
    }

    /// A type.
    pub(super) fn written_type(&mut self, place: TypePlace) -> Result<DataType> {
        let token = self.peek();
        if token.kind != TokenKind::Word {
            return Err(self.unexpected().hint(TYPES));
        }
        let word = self.text_of(token).to_ascii_uppercase();
        if UNSUPPORTED.contains(&word.as_str()) {
            return Err(self.unsupported(format_args!("type {word}")));
        }
        let data_type = match word.as_str() {
            "BOOL" => DataType::Bool,
            "TINYINT" => DataType::TinyInt,
            "SMALLINT" => DataType::SmallInt,
            "INT" | "INTEGER" => DataType::Int,
            "BIGINT" => DataType::BigInt,
            "FLOAT" => DataType::Float,
            "DOUBLE" => DataType::Double,
            "TIMESTAMP" => DataType::Timestamp,
            "VARCHAR" | "BINARY" | "VARBINARY" | "GEOMETRY" => {
                self.bump();
                let max = if place == TypePlace::Tag { VARCHAR_TAG_BYTES_MAX } else { VARCHAR_BYTES_MAX };
                let length = self.length(place, max)?;
                return Ok(match word.as_str() {
                    "VARBINARY" => DataType::Varbinary(length),
                    "GEOMETRY" => DataType::Geometry(length),
                    _ => DataType::Varchar(length),
                });
            }
            "NCHAR" => {
                self.bump();
                let max = if place == TypePlace::Tag { NCHAR_TAG_CHARS_MAX } else { NCHAR_CHARS_MAX };
                return self.length(place, max).map(DataType::NChar);
            }
            "JSON" => {
                self.bump();
                return Ok(DataType::Json);
            }
            _ => return Err(self.unexpected().hint(TYPES)),
        };
        self.bump();
        Ok(self.signedness(data_type))
    }

    fn signedness(&mut self, data_type: DataType) -> DataType {
        let unsigned = match data_type {
            DataType::TinyInt => DataType::UTinyInt,
            DataType::SmallInt => DataType::USmallInt,
            DataType::Int => DataType::UInt,
            DataType::BigInt => DataType::UBigInt,
            _ => return data_type,
        };
        if self.take_word("UNSIGNED") { unsigned } else { data_type }
    }

    fn length(&mut self, place: TypePlace, max: u16) -> Result<u16> {
        if place == TypePlace::Cast && !self.at(TokenKind::LeftParen) {
            return Ok(0);
        }
        if !self.take(TokenKind::LeftParen) {
            return Err(self.unexpected().hint("the type needs a length, as in VARCHAR(32)"));
        }
        let length = self.integer()?;
        self.expect(TokenKind::RightParen)?;
        u16::try_from(length).ok().filter(|n| (1..=max).contains(n)).ok_or_else(|| {
            if place == TypePlace::Cast {
                let text = format!("CAST function converted length should be in range (0, {max}] bytes");
                return Error::text(Code::FunctionFailed, text);
            }
            Error::text(Code::ColumnLength, "Invalid column length for var length type")
                .hint(format!("{length} is not within 1..{max}"))
        })
    }
}
