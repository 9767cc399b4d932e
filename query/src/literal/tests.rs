use model::{Precision, Zone};

use super::*;

fn context() -> LiteralContext {
    LiteralContext::new(Precision::Ms, Zone::UTC, 1_704_110_400_123_456_789)
}

/// `'..'` is quoted, anything else bare.
fn raw(text: &str) -> Raw<'_> {
    match text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        Some(inner) => Raw::Quoted(inner),
        None => Raw::Bare(text),
    }
}

fn value(data_type: DataType, text: &str) -> Result<Value, Misfit> {
    parse_value(data_type, raw(text), &context())
}

#[test]
fn integers_take_every_spelling_of_a_number() {
    for (text, expected) in [
        ("5", 5),
        ("-1", -1),
        ("+7", 7),
        ("'12'", 12),
        ("0x1F", 31),
        ("'0x1F'", 31),
        ("0b11", 3),
        ("1.4", 1),
        ("1.5", 2),
        ("2.5", 3),
        ("-1.5", -2),
        ("-2.5", -3),
        ("'8.6'", 9),
        ("1e2", 100),
        ("-0x10", -16),
        ("2147483647", 2_147_483_647),
        ("-2147483648", -2_147_483_648),
    ] {
        assert_eq!(value(DataType::Int, text), Ok(Value::Int(expected)), "{text}");
    }
    assert_eq!(value(DataType::BigInt, "9007199254740993"), Ok(Value::Int(9_007_199_254_740_993)));
    assert_eq!(value(DataType::BigInt, "9007199254740993.0"), Ok(Value::Int(9_007_199_254_740_992)));
    assert_eq!(value(DataType::BigInt, "-9223372036854775808"), Ok(Value::Int(i64::MIN)));
    assert_eq!(value(DataType::UBigInt, "18446744073709551615"), Ok(Value::UInt(u64::MAX)));
    assert_eq!(value(DataType::UTinyInt, "-0"), Ok(Value::UInt(0)));
}

#[test]
fn integers_refuse_in_the_dialects_words() {
    for (data_type, text, reason) in [
        (DataType::Int, "2147483648", "int data overflow"),
        (DataType::Int, "-2147483649", "int data overflow"),
        (DataType::TinyInt, "-129", "tinyint data overflow"),
        (DataType::SmallInt, "32768", "smallint data overflow"),
        (DataType::BigInt, "9223372036854775808", "bigint data overflow"),
        (DataType::BigInt, "1e30", "bigint data overflow"),
        (DataType::UTinyInt, "256", "unsigned tinyint data overflow"),
        (DataType::UTinyInt, "-1", "invalid unsigned tinyint data"),
        (DataType::UBigInt, "18446744073709551616", "unsigned bigint data overflow"),
        (DataType::UBigInt, "-1", "invalid unsigned bigint data"),
        (DataType::Int, "true", "invalid int data"),
        (DataType::Int, "'abc'", "invalid int data"),
        (DataType::Int, "' 5 '", "invalid int data"),
        (DataType::Int, "''", "invalid numeric data"),
        (DataType::Int, "1d", "invalid int data"),
        (DataType::Int, "inf", "invalid int data"),
    ] {
        let misfit = value(data_type, text).unwrap_err();
        assert_eq!(misfit.reason(), reason, "{data_type} {text}");
    }
}

#[test]
fn floats() {
    for (text, expected) in
        [("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("-1e-3", -0.001), ("0x10", 16.0), ("'1e3'", 1e3)]
    {
        assert_eq!(value(DataType::Double, text), Ok(Value::Double(expected)), "{text}");
    }
    assert_eq!(value(DataType::Float, "1e-50"), Ok(Value::Float(0.0)));
    for (data_type, text, reason) in [
        (DataType::Double, "'nan'", "illegal double data"),
        (DataType::Double, "'inf'", "illegal double data"),
        (DataType::Float, "'nan'", "illegal float data"),
        (DataType::Double, "1e309", "illegal float data"),
        (DataType::Float, "3.5e38", "illegal float data"),
        (DataType::Double, "true", "illegal float data"),
        (DataType::Double, "'abc'", "illegal float data"),
        (DataType::Double, "''", "illegal float data"),
    ] {
        assert_eq!(value(data_type, text).unwrap_err().reason(), reason, "{data_type} {text}");
    }
}

#[test]
fn bools() {
    for (text, expected) in [
        ("true", true),
        ("FALSE", false),
        ("'True'", true),
        ("0", false),
        ("2", true),
        ("-1", true),
        ("0.5", true),
        ("'0'", false),
    ] {
        assert_eq!(value(DataType::Bool, text), Ok(Value::Bool(expected)), "{text}");
    }
    for text in ["'yes'", "''", "yes"] {
        assert_eq!(value(DataType::Bool, text).unwrap_err().reason(), "invalid bool data", "{text}");
    }
}

#[test]
fn strings_keep_the_source_of_numbers_and_bools() {
    let varchar = DataType::Varchar(8);
    for (text, expected) in
        [("'  x '", "  x "), ("''", ""), ("1.50", "1.50"), ("-5", "-5"), ("true", "true"), ("'null'", "null")]
    {
        assert_eq!(value(varchar, text), Ok(Value::Text(expected.into())), "{text}");
    }
    assert_eq!(value(varchar, "NULL"), Ok(Value::Null));
    assert_eq!(value(varchar, "abc"), Err(Misfit::Symbol));
    assert_eq!(value(varchar, "'123456789'"), Err(Misfit::TooLong));
    assert_eq!(value(varchar, "'日本'"), Ok(Value::Text("日本".into())), "six bytes");
    assert_eq!(value(varchar, "'日本語'"), Err(Misfit::TooLong), "nine bytes");
    assert_eq!(value(DataType::NChar(4), "'日本語字'"), Ok(Value::Text("日本語字".into())));
    assert_eq!(value(DataType::NChar(4), "'日本語字s'"), Err(Misfit::TooLong));
    let error = Misfit::TooLong.into_error("x", "v");
    assert_eq!((error.code(), error.message()), (Code::ValueTooLong, "Value too long for column/tag: v"));
}

#[test]
fn null_in_quotes_is_null_except_for_strings() {
    for data_type in [DataType::Int, DataType::Double, DataType::Bool, DataType::Timestamp] {
        assert_eq!(value(data_type, "'NULL'"), Ok(Value::Null));
        assert_eq!(value(data_type, "null"), Ok(Value::Null));
    }
}

#[test]
fn times() {
    let day = 1_704_067_200_000;
    for (text, expected) in [
        ("'2024-01-01'", day),
        ("'2024-01-01 00:00:00.1239'", day + 123),
        ("'2024-01-01T00:00:00+08:00'", day - 8 * 3_600_000),
        ("'1704067200000'", day),
        ("1704067200000", day),
        ("-1", -1),
        ("now", 1_704_110_400_123),
        ("TODAY", day),
    ] {
        assert_eq!(value(DataType::Timestamp, text), Ok(Value::Timestamp(expected)), "{text}");
    }
    for text in [
        "1.5",
        "true",
        "'bad'",
        "''",
        "'2024-01-01 00:00:00 '",
        "'2023-02-29'",
        "0x10",
        "99999999999999999999",
    ] {
        assert_eq!(value(DataType::Timestamp, text), Err(Misfit::Timestamp), "{text}");
    }
    let shanghai =
        LiteralContext::new(Precision::Ms, Zone::parse("Asia/Shanghai").unwrap(), 1_704_110_400_000_000_000);
    assert_eq!(shanghai.ticks(Raw::Bare("today")), Ok(day - 8 * 3_600_000), "20:00 there, still the 1st");
}

#[test]
fn tags_add_durations() {
    let day = 1_704_067_200_000;
    let tag = |text: &str, quoted| {
        parse_tag(DataType::Timestamp, &TagLiteral { text: text.into(), quoted, hex: false }, "t", &context())
    };
    assert_eq!(tag("1704067200000 + 1d", false).unwrap(), Value::Timestamp(day + 86_400_000));
    assert_eq!(tag("'2024-01-01'-1h", false).unwrap(), Value::Timestamp(day - 3_600_000));
    assert_eq!(tag("now()+ 1s", false).unwrap(), Value::Timestamp(1_704_110_401_123));
    assert_eq!(tag("now( )", false).unwrap(), Value::Timestamp(1_704_110_400_123));
    assert_eq!(tag("-5", false).unwrap(), Value::Timestamp(-5));
    assert_eq!(tag("2024-01-01", true).unwrap(), Value::Timestamp(day));
    let error = tag("1704067200000 - 1n", false).unwrap_err();
    assert_eq!(error.message(), "syntax error near '1704067200000 - 1n' (invalid timestamp)");
    let error = parse_tag(
        DataType::Int,
        &TagLiteral { text: "true".into(), quoted: false, hex: false },
        "t",
        &context(),
    )
    .unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::InsertSyntax, "syntax error near 'true' (invalid int data)")
    );
}

#[test]
fn builders_agree_with_single_values() {
    let types = [
        DataType::Bool,
        DataType::TinyInt,
        DataType::Int,
        DataType::UBigInt,
        DataType::Float,
        DataType::Double,
        DataType::Timestamp,
        DataType::Varchar(4),
        DataType::NChar(4),
    ];
    let texts = ["1", "NULL", "'null'", "300", "-1", "1.5", "true", "'abc'", "'abcde'", "now", "''"];
    for data_type in types {
        let mut builder = ColumnBuilder::new(data_type);
        let mut nulls = Vec::new();
        for text in texts {
            let single = value(data_type, text);
            let appended = builder.append(raw(text), &context());
            assert_eq!(appended.err(), single.as_ref().err().copied(), "{data_type} {text}");
            nulls.extend(single.ok().map(|v| v.is_null()));
        }
        assert_eq!(builder.len(), nulls.len());
        let array = builder.finish(Precision::Us);
        assert_eq!(array.data_type(), &data_type.arrow(Precision::Us));
        let found: Vec<bool> = (0..array.len()).map(|i| array.is_null(i)).collect();
        assert_eq!(found, nulls, "{data_type}");
    }
}
