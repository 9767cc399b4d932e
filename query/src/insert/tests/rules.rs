use model::Place;

use super::*;

#[test]
fn counts_and_names() {
    for (sql, code, message) in [
        ("INSERT INTO t VALUES ()", Code::ColumnCount, "Illegal number of columns"),
        ("INSERT INTO t (ts,i) VALUES (1,1,2)", Code::ColumnCount, "Illegal number of columns"),
        ("INSERT INTO t (ts,i) VALUES (1)", Code::InsertSyntax, "syntax error near ')' (, expected)"),
        ("INSERT INTO t (ts,i) VALUES (1,1+1)", Code::InsertSyntax, "syntax error near '+1)' () expected)"),
        ("INSERT INTO t (ts,zz) VALUES (1,1)", Code::InvalidColumn, "Invalid column name: zz"),
        (
            "INSERT INTO t (ts,i,I) VALUES (1,1,1)",
            Code::InsertSyntax,
            "syntax error near 'i' (duplicated column name)",
        ),
        (
            "INSERT INTO t (i) VALUES (1)",
            Code::InvalidOperation,
            "Primary timestamp column should not be null",
        ),
        ("INSERT INTO t (ts,i) VALUES", Code::InsertSyntax, "syntax error near 'no any data points'"),
        (
            "INSERT INTO t (ts,i) VALUES (1,1),",
            Code::InsertSyntax,
            "syntax error near '' (another row is expected)",
        ),
        ("INSERT INTO t", Code::InsertSyntax, "syntax error near '' (keyword VALUES or FILE is expected)"),
        ("INSERT INTO", Code::IncompleteSql, "Incomplete SQL statement"),
        ("INSERT", Code::IncompleteSql, "Incomplete SQL statement"),
        (
            "INSERT t VALUES (1)",
            Code::InsertSyntax,
            "syntax error near 't values (1)' (keyword INTO is expected)",
        ),
        ("INSERT INTO nope VALUES (1)", Code::TableNotExist, "Table does not exist"),
        ("INSERT INTO t (ts) VALUES (1) extra", Code::TableNotExist, "Table does not exist"),
        (
            "INSERT INTO t (ts) VALUES (1); x",
            Code::InsertSyntax,
            "syntax error near 'x' (one statement at a time)",
        ),
        ("INSERT INTO nodb.t VALUES (1)", Code::DatabaseNotExist, "Database not exist"),
        ("INSERT INTO information_schema.t VALUES (1)", Code::SystemTable, "System table not allowed"),
        ("INSERT INTO `a.b` VALUES (1)", Code::InvalidIdentifier, "The table name cannot contain '.'"),
        ("INSERT INTO t (ts,v) VALUES (1,'x", Code::InvalidColumn, "Invalid column name: v"),
    ] {
        assert_eq!(refused(sql), (code, message.into()), "{sql}");
    }
}

#[test]
fn values_are_refused_where_they_stand() {
    for (sql, message) in [
        ("INSERT INTO w (ts,ti) VALUES (1,-129)", "syntax error near '-129)' (tinyint data overflow)"),
        ("INSERT INTO w (ts,ti) VALUES (1,'ab C')", "syntax error near 'ab C' (invalid tinyint data)"),
        ("INSERT INTO w (ts,v) VALUES (1,ABC)", "syntax error near 'abc)' (invalid data or symbol)"),
        ("INSERT INTO w (ts,b) VALUES (1,'yes')", "syntax error near 'yes' (invalid bool data)"),
        ("INSERT INTO t (ts,d) VALUES (1,1e309)", "syntax error near '1e309)' (illegal float data)"),
        ("INSERT INTO t (ts,i) VALUES (1.5,1)", "syntax error near '1.5,1)' (invalid timestamp)"),
        ("INSERT INTO t (ts,i) VALUES ('bad',1)", "syntax error near 'bad' (invalid timestamp)"),
        ("INSERT INTO t (ts,i) VALUES ('',1)", "syntax error near '' (invalid timestamp)"),
        (
            "INSERT INTO t (ts,i) VALUES (NULL,1)",
            "syntax error near 'null,1)' (Primary timestamp column should not be null)",
        ),
        (
            "INSERT INTO w (ts,t2) VALUES (1,'2024-01-01'+1d-1h)",
            "syntax error near '2024-01-01' (invalid timestamp)",
        ),
        ("INSERT INTO w (ts,t2) VALUES (1,170-1n)", "syntax error near '170-1n)' (invalid timestamp)"),
        ("INSERT INTO t (ts,i) VALUES (1,'it''s')", "syntax error near 'it's' (invalid int data)"),
        ("INSERT INTO w (ts,v) VALUES (1,'x", "syntax error near ''x' (closing quote is expected)"),
        ("INSERT INTO t (ts,i) VALUES (1,", "syntax error near '' (invalid data or symbol)"),
        ("INSERT INTO t (ts,i) VALUES (1 1)", "syntax error near '1)' (, expected)"),
    ] {
        assert_eq!(refused(sql), (Code::InsertSyntax, message.into()), "{sql}");
    }
    assert_eq!(
        refused("INSERT INTO w (ts,v) VALUES (1,'123456789')"),
        (Code::ValueTooLong, "Value too long for column/tag: v".into())
    );
    let sql = "INSERT INTO t (ts,i) VALUES\n (1,1),\n (2,x)";
    let error = parse_insert(sql, &context(), &mut Fake::new(Precision::Ms, 1)).unwrap_err();
    assert_eq!((error.place(), error.help()), (Some(Place { line: 3, column: 5 }), "in column i"));
    let long = format!("INSERT INTO t (ts,i) VALUES (1,x{})", "é".repeat(1_000));
    assert!(refused(&long).1.len() < 120);
}

#[test]
fn tags_are_checked_even_where_the_child_exists() {
    for (sql, code, message) in [
        (
            "INSERT INTO c USING m TAGS('x') VALUES (1,1,'a','b')",
            Code::InsertSyntax,
            "syntax error near ') values (1,1,'a','b')' (invalid data or symbol)",
        ),
        (
            "INSERT INTO c USING m TAGS('x',1,2) VALUES (1,1,'a','b')",
            Code::TagsNotMatched,
            "Tags number not matched",
        ),
        (
            "INSERT INTO k USING m (zz) TAGS(1) VALUES (1,1,'a','b')",
            Code::InvalidColumn,
            "Invalid column name: zz",
        ),
        (
            "INSERT INTO k USING m TAGS('x',2147483648) VALUES (1,1,'a','b')",
            Code::InsertSyntax,
            "syntax error near '2147483648) values (1,1,'a','b')' (int data overflow)",
        ),
        (
            "INSERT INTO k USING m TAGS('1234567890123',1) VALUES (1)",
            Code::ValueTooLong,
            "Value too long for column/tag: site",
        ),
        (
            "INSERT INTO k USING t TAGS(1) VALUES (1,1)",
            Code::InsertSyntax,
            "syntax error near '1) values (1,1)' () is expected)",
        ),
        ("INSERT INTO k USING nope TAGS(1) VALUES (1,1)", Code::TableNotExist, "Table does not exist"),
        (
            "INSERT INTO k USING h.m TAGS(1) VALUES (1,1)",
            Code::OtherDatabase,
            "Corresponding super table not in this db",
        ),
        (
            "INSERT INTO k USING m VALUES (1,1)",
            Code::InsertSyntax,
            "syntax error near 'values (1,1)' (TAGS is expected)",
        ),
    ] {
        assert_eq!(refused(sql), (code, message.into()), "{sql}");
    }
}

#[test]
fn children_must_be_named_well() {
    for (sql, message) in [
        ("INSERT INTO m VALUES (1,1,'a','b')", "tbname column should not be null"),
        ("INSERT INTO m (no,ts,i) VALUES (7,1,1)", "tbname column should not be null"),
        ("INSERT INTO m (tbname,ts,i) VALUES (NULL,1,1)", "tbname column should not be null"),
        ("INSERT INTO m (tbname,ts,i) VALUES ('',1,1)", "tbname can not be empty"),
        ("INSERT INTO m (tbname,ts,i) VALUES ('k.1',1,1)", "tbname can not contain '.'"),
        ("INSERT INTO m (tbname,i) VALUES ('k1',1)", "Primary timestamp column should not be null"),
    ] {
        assert_eq!(refused(sql), (Code::InvalidOperation, message.into()), "{sql}");
    }
    let long = format!("INSERT INTO m (tbname,ts) VALUES ('{}',1)", "k".repeat(193));
    assert_eq!(refused(&long).0, Code::InvalidIdentifier);
    assert_eq!(refused("INSERT INTO m (tbname,ts,zz) VALUES ('k',1,1)").0, Code::InvalidColumn);
}

#[test]
fn the_catalogue_may_refuse() {
    let mut fake = Fake::new(Precision::Ms, 1);
    fake.run("CREATE STABLE m2 (ts TIMESTAMP, i INT) TAGS (g INT)");
    let error =
        parse_insert("INSERT INTO c USING m2 TAGS(1) VALUES (1,1)", &context(), &mut fake).unwrap_err();
    assert_eq!(error.code(), Code::OtherStable);
}

#[test]
fn names_in_rows_are_looked_up() {
    let mut fake = Fake::new(Precision::Ms, 4);
    fake.run("CREATE STABLE m2 (ts TIMESTAMP, i INT) TAGS (g INT)");
    fake.run("CREATE TABLE c2 USING m2 TAGS(1)");
    for (name, code) in [("t", Code::OtherStable), ("c2", Code::OtherStable), ("m2", Code::TableExists)] {
        let sql =
            format!("INSERT INTO m (tbname,ts,i) VALUES ('k1',1,1) ('c',1,1) ('{name}',1,1) ('k2',1,1)");
        let error = parse_insert(&sql, &context(), &mut fake).unwrap_err();
        assert_eq!(error.code(), code, "{name}: {error}");
        assert!(error.message().contains(name), "{error}");
    }
    plan(&mut fake, "INSERT INTO m (tbname,ts,i) VALUES ('k1',1,1) ('c',1,1) m2 (tbname,ts) VALUES ('c2',1)");
}

#[test]
fn one_name_is_not_made_under_two_super_tables() {
    let mut fake = Fake::new(Precision::Ms, 4);
    fake.run("CREATE STABLE m2 (ts TIMESTAMP, i INT) TAGS (g INT)");
    for sql in [
        "INSERT INTO m (tbname,ts) VALUES ('k1',1) ('k2',1) m2 (tbname,ts) VALUES ('k3',1) ('k2',1)",
        "INSERT INTO k2 USING m TAGS('x',1) (ts) VALUES (1) k2 USING m2 TAGS(1) (ts) VALUES (1)",
    ] {
        let error = parse_insert(sql, &context(), &mut fake).unwrap_err();
        assert_eq!(error.code(), Code::OtherStable, "{sql}: {error}");
    }
}

#[test]
fn length_is_limited() {
    let small = InsertContext { sql_bytes_max: 20, ..context() };
    let error =
        parse_insert("INSERT INTO t VALUES (1,1,1)", &small, &mut Fake::new(Precision::Ms, 1)).unwrap_err();
    assert_eq!(error.code(), Code::SqlTooLong);
}
