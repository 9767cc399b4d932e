//! Literals to typed values: the rules by which INSERT values, tag values and CSV cells become what a column holds.
//!
//! [`ColumnBuilder`] appends to an Arrow column without a value in between; [`parse_value`] makes a single [`Value`] for a
//! tag. Both refuse with a [`Misfit`], which knows the dialect's words for it.

mod binary;
mod builder;
mod json;
mod number;
mod time;

use std::borrow::Cow;

use model::{Code, DataType, DurationLiteral, Error, Value};

pub use builder::ColumnBuilder;
pub use time::LiteralContext;

use crate::ast::TagLiteral;

/// A literal as it stood in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// From quotes, or a CSV cell: quotes and escapes undone.
    Quoted(&'a str),
    /// From quotes that begin with `\x`: escapes undone, so that this begins with `x`. Only VARBINARY cares.
    Hex(&'a str),
    /// Bare token: number, `true`, `NULL`, `now`, `today`.
    Bare(&'a str),
    /// A time and what is added to it (`now + 1d`).
    Shifted {
        /// The time.
        base: &'a str,
        /// Whether it stood in quotes.
        quoted: bool,
        /// Added; negative where the text subtracts.
        shift: DurationLiteral,
    },
}

impl<'a> Raw<'a> {
    /// The text without what is added.
    #[must_use]
    pub const fn text(self) -> &'a str {
        match self {
            Self::Quoted(text) | Self::Hex(text) | Self::Bare(text) | Self::Shifted { base: text, .. } => {
                text
            }
        }
    }

    /// Whether it is NULL for a column of any type.
    #[must_use]
    pub const fn is_null(self) -> bool {
        match self {
            Self::Bare(text) => text.eq_ignore_ascii_case("null"),
            _ => false,
        }
    }

    /// Whether it is NULL for a column that is no string: there quotes do not matter.
    const fn is_null_word(self) -> bool {
        match self {
            Self::Bare(text) | Self::Quoted(text) => text.len() == 4 && text.eq_ignore_ascii_case("null"),
            Self::Hex(_) | Self::Shifted { .. } => false,
        }
    }
}

/// Why a literal does not fit its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// No number of this type.
    Invalid(&'static str),
    /// A number outside the type's range.
    Overflow(&'static str),
    /// An empty string for an integer.
    Empty,
    /// No number that FLOAT or DOUBLE hold.
    IllegalFloat,
    /// NaN or infinity for DOUBLE.
    IllegalDouble,
    /// Not true, false or a number.
    Bool,
    /// Not a time.
    Timestamp,
    /// A time that 64 bits of ticks do not reach.
    OutOfRange,
    /// A bare word for a string.
    Symbol,
    /// Longer than declared.
    TooLong,
    /// `\x` without an even number of hexadecimal digits.
    Hex,
    /// No well-known text of a geometry.
    Geometry,
    /// No JSON document that a tag may be.
    Json(&'static str),
}

impl Misfit {
    /// The reason in the dialect's words.
    #[must_use]
    pub fn reason(self) -> Cow<'static, str> {
        match self {
            Self::Invalid(word) => format!("invalid {word} data").into(),
            Self::Overflow(word) => format!("{word} data overflow").into(),
            Self::Empty => "invalid numeric data".into(),
            Self::IllegalFloat => "illegal float data".into(),
            Self::IllegalDouble => "illegal double data".into(),
            Self::Bool => "invalid bool data".into(),
            Self::Timestamp => "invalid timestamp".into(),
            Self::OutOfRange => "timestamp out of range".into(),
            Self::Symbol => "invalid data or symbol".into(),
            Self::TooLong => "value too long".into(),
            Self::Hex => "invalid varbinary value".into(),
            Self::Geometry => "Invalid function para value".into(),
            Self::Json(reason) => reason.into(),
        }
    }

    /// The error for the user: `near` is the literal (and what follows it, where it stood bare in a statement).
    #[must_use]
    pub fn into_error(self, near: &str, column: &str) -> Error {
        match self {
            Self::TooLong => Error::with(Code::ValueTooLong, column),
            Self::OutOfRange => Error::of(Code::TimestampOutOfRange),
            Self::Hex => Error::with(Code::InvalidVarbinary, column),
            _ => Error::text(Code::InsertSyntax, format!("syntax error near '{near}' ({})", self.reason()))
                .hint(format!("in the value of {column}")),
        }
    }
}

/// The value of a tag, or of any single column.
pub fn parse_value(data_type: DataType, raw: Raw<'_>, context: &LiteralContext) -> Result<Value, Misfit> {
    if data_type.is_string() {
        return Ok(string(data_type, raw)?.map_or(Value::Null, |text| Value::Text(text.to_owned())));
    }
    if data_type.is_binary() {
        return Ok(
            binary::parse(data_type, raw)?.map_or(Value::Null, |bytes| Value::Bytes(bytes.into_owned()))
        );
    }
    if data_type == DataType::Json {
        return Ok(json::parse(raw)?.map_or(Value::Null, Value::Text));
    }
    if raw.is_null_word() {
        return Ok(Value::Null);
    }
    Ok(match data_type {
        DataType::Bool => Value::Bool(number::boolean(raw)?),
        DataType::TinyInt => Value::Int(number::integer::<i8>(raw)?.into()),
        DataType::SmallInt => Value::Int(number::integer::<i16>(raw)?.into()),
        DataType::Int => Value::Int(number::integer::<i32>(raw)?.into()),
        DataType::BigInt => Value::Int(number::integer::<i64>(raw)?),
        DataType::UTinyInt => Value::UInt(number::integer::<u8>(raw)?.into()),
        DataType::USmallInt => Value::UInt(number::integer::<u16>(raw)?.into()),
        DataType::UInt => Value::UInt(number::integer::<u32>(raw)?.into()),
        DataType::UBigInt => Value::UInt(number::integer::<u64>(raw)?),
        DataType::Float => Value::Float(number::float(raw)?),
        DataType::Double => Value::Double(number::double(raw)?),
        DataType::Timestamp => Value::Timestamp(context.ticks(raw)?),
        _ => return Err(Misfit::Symbol),
    })
}

/// The bytes that a text stands for in a column of `data_type`, which is VARBINARY or GEOMETRY.
pub(crate) fn parse_binary(data_type: DataType, text: &str) -> Result<Vec<u8>, Misfit> {
    Ok(binary::parse(data_type, Raw::Quoted(text))?.unwrap_or_default().into_owned())
}

/// The value of a tag as DDL wrote it. Errors name the tag.
pub fn parse_tag(
    data_type: DataType,
    literal: &TagLiteral,
    tag: &str,
    context: &LiteralContext,
) -> Result<Value, Error> {
    let whole = if literal.quoted {
        if literal.hex { Raw::Hex(&literal.text) } else { Raw::Quoted(&literal.text) }
    } else {
        Raw::Bare(time::without_parentheses(&literal.text))
    };
    let shifted = if literal.quoted { None } else { time::split_shift(&literal.text) };
    let raw = shifted.as_ref().map_or(whole, |s| s.raw());
    parse_value(data_type, raw, context).map_err(|misfit| misfit.into_error(&literal.text, tag))
}

/// What a VARCHAR or NCHAR stores: a string, or the source text of a bare number or bool. `None` is NULL.
fn string(data_type: DataType, raw: Raw<'_>) -> Result<Option<&str>, Misfit> {
    let text = match raw {
        Raw::Quoted(text) | Raw::Hex(text) => text,
        Raw::Bare(text) if text.eq_ignore_ascii_case("null") => return Ok(None),
        Raw::Bare(text) if number::is_number(text) || number::word_bool(text).is_some() => text,
        Raw::Bare(_) | Raw::Shifted { .. } => return Err(Misfit::Symbol),
    };
    if data_type.fits(text) { Ok(Some(text)) } else { Err(Misfit::TooLong) }
}

#[cfg(test)]
mod tests;
