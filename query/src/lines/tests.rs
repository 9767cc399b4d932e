use model::{Code, DataType, TableSchema, TimeUnit};

use super::*;
use crate::ast::AlterTable;

fn one(text: &str) -> Line {
    let mut lines = parse(text, TimeUnit::Millisecond).unwrap();
    assert_eq!(lines.len(), 1, "{text}");
    lines.remove(0)
}

fn refused(text: &str) -> (Code, Option<(u32, u32)>) {
    let error = parse(text, TimeUnit::Millisecond).unwrap_err();
    (error.code(), error.place().map(|place| (place.line, place.column)))
}

#[test]
fn a_line_has_a_measurement_tags_fields_and_a_time() {
    let line = one("a.b\\,c,city=New\\ York,k\\=ey=v x=1.5,n=40i,ok=T,s=\"say \\\"x, y\\\"\" 17");
    assert_eq!(line.measurement, "a_b,c");
    assert_eq!(line.tags, [("city".into(), "New York".into()), ("k=ey".into(), "v".into())]);
    let fields: Vec<_> =
        line.fields.iter().map(|(name, field)| (&**name, field.data_type, &*field.text)).collect();
    assert_eq!(
        fields,
        [
            ("x", DataType::Double, "1.5"),
            ("n", DataType::BigInt, "40"),
            ("ok", DataType::Bool, "true"),
            ("s", DataType::Varchar(10), "say \"x, y\""),
        ]
    );
    assert_eq!(line.time_ns, Some(17_000_000));
    assert_eq!(one("m x=1").time_ns, None);
    assert_eq!(one("m x=1 0 ").time_ns, None, "the server's time");
    let several = parse("\n# no line\nm x=1 1\r\n  m x=\"two\nlines\" 2\n", TimeUnit::Hour).unwrap();
    assert_eq!(
        several.iter().map(|l| l.time_ns).collect::<Vec<_>>(),
        [Some(3_600_000_000_000), Some(7_200_000_000_000)]
    );
}

#[test]
fn suffixes_say_the_type() {
    for (text, data_type) in [
        ("1", DataType::Double),
        ("-1.5e3", DataType::Double),
        ("1f64", DataType::Double),
        ("1F32", DataType::Float),
        ("-1i8", DataType::TinyInt),
        ("1I16", DataType::SmallInt),
        ("1i32", DataType::Int),
        ("1i", DataType::BigInt),
        ("1u8", DataType::UTinyInt),
        ("1u16", DataType::USmallInt),
        ("1u32", DataType::UInt),
        ("1U64", DataType::UBigInt),
        ("f", DataType::Bool),
        ("L\"äö\"", DataType::NChar(2)),
        ("\"äö\"", DataType::Varchar(4)),
        ("B\"\\x0aFF\"", DataType::Varbinary(2)),
        ("b\"abc\"", DataType::Varbinary(3)),
        ("G\"POINT(1 2)\"", DataType::Geometry(21)),
    ] {
        assert_eq!(one(&format!("m x={text}")).fields[0].1.data_type, data_type, "{text}");
    }
}

#[test]
fn what_is_no_line_is_refused_with_its_place() {
    for (text, column) in [
        ("m", 2),
        (",a=b x=1", 1),
        ("m,a x=1", 4),
        ("m,a= x=1", 5),
        ("m x", 4),
        ("m x=", 5),
        ("m x=1.5i", 5),
        ("m x=--1", 5),
        ("m x=nan", 5),
        ("m x=inf", 5),
        ("m x=1i9", 5),
        ("m x=\"open", 5),
        ("m x=1 -5", 7),
        ("m x=1 1.5", 7),
        ("m x=1 99999999999999999999", 7),
        ("m x=1 5 6", 9),
        ("m x=1, 5", 7),
        ("m x=G\"no shape\"", 5),
    ] {
        assert_eq!(refused(text), (Code::LineFormat, Some((1, column))), "{text}");
    }
    assert_eq!(refused("m x=1 1\nm x=1,x=2 1"), (Code::DuplicateColumn, Some((2, 7))));
    assert_eq!(refused("m,a=1,a=2 x=1"), (Code::DuplicateColumn, Some((1, 7))));
    assert_eq!(parse("", TimeUnit::Day).unwrap_err().code(), Code::LinePrecision);
}

#[test]
fn children_are_named_by_their_tags_whatever_the_order() {
    // As TDengine names them.
    assert_eq!(one("weather,city=oslo,st=a x=1").table(), "t_0e1225c00499a666177db89fac7bd491");
    assert_eq!(one("weather,st=a,city=oslo x=1").table(), "t_0e1225c00499a666177db89fac7bd491");
    assert_eq!(one("weather,city=rome,st=b x=1").table(), "t_1b235e13da5a48a0a221620c22e120ee");
}

fn columns(specs: &[crate::ast::ColumnSpec]) -> Vec<(&str, DataType)> {
    specs.iter().map(|spec| (&*spec.name, spec.data_type)).collect()
}

fn needs(text: &str, schema: Option<&TableSchema>) -> model::Result<Missing> {
    let lines = parse(text, TimeUnit::Millisecond)?;
    let all = wanted(&lines)?;
    assert_eq!(all.len(), 1);
    all[0].missing(schema)
}

#[test]
fn a_new_super_table_has_room_for_longer_text() {
    let text = "weather,city=oslo,st=a temp=1.5,note=\"hi\" 1\nweather,city=aarhus,st=a temp=2 2";
    let Missing::Stable { columns: made, tags } = needs(text, None).unwrap() else { panic!("a stable") };
    let wanted = [("_ts", DataType::Timestamp), ("temp", DataType::Double), ("note", DataType::Varchar(4))];
    assert_eq!(columns(&made), wanted);
    assert_eq!(columns(&tags), [("city", DataType::NChar(8)), ("st", DataType::NChar(2))]);
    let long = format!("m x=\"{}\"", "x".repeat(1_500));
    let Missing::Stable { columns: made, tags } = needs(&long, None).unwrap() else { panic!("a stable") };
    assert_eq!(columns(&made)[1], ("x", DataType::Varchar(1_500)));
    assert_eq!(columns(&tags), [("_tag_null", DataType::NChar(1))]);
}

#[test]
fn what_is_missing_is_added_and_what_is_narrow_widened() {
    let column = |name: &str, data_type| (name.to_owned(), data_type);
    let schema = TableSchema::new(
        vec![
            column("ts", DataType::Timestamp),
            column("temp", DataType::Double),
            column("note", DataType::Varchar(4)),
        ],
        vec![column("city", DataType::NChar(8)), column("old", DataType::Int)],
    );
    let parts = |text| match needs(text, Some(&schema)).unwrap() {
        Missing::Parts(parts) => parts,
        Missing::Stable { .. } => panic!("it is there"),
    };
    assert_eq!(parts("m,city=oslo temp=1,note=\"four\""), []);
    let found = parts("m,city=constantinople,zone=n wind=7i,note=\"a longer note\"");
    let [
        AlterTable::AddColumn(wind),
        AlterTable::ModifyColumn { name: note, data_type: DataType::Varchar(16) },
        AlterTable::ModifyTag { name: city, data_type: DataType::NChar(16) },
        AlterTable::AddTag(zone),
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((&*wind.name, wind.data_type), ("wind", DataType::BigInt));
    assert_eq!((&**note, &**city, &*zone.name), ("note", "city", "zone"));
    assert_eq!(zone.data_type, DataType::NChar(2));
    for text in ["m,city=x temp=1i", "m,old=5 temp=1"] {
        assert_eq!(needs(text, Some(&schema)).unwrap_err().code(), Code::LineFormat, "{text}");
    }
    assert_eq!(needs("m x=1 1\nm x=1i 2", None).unwrap_err().code(), Code::LineType);
}
