use model::{
    CacheModel, ColumnStorage, Compression, DataType, DatabaseChange, DatabaseOptions, Level, Precision,
};

use super::*;
use crate::ast::{
    AlterTable, ColumnSpec, Compact, Show, ShowTableKind, TagLiteral, TimeText, TopicMeta, TopicSource,
};

fn options(sql: &str) -> DatabaseOptions {
    match parse(&format!("CREATE DATABASE d {sql}")) {
        Ok(Statement::CreateDatabase { options, .. }) => *options,
        other => panic!("{sql}: {other:?}"),
    }
}

fn option_error(sql: &str) -> String {
    let (code, message) = refused(&format!("CREATE DATABASE h1 {sql}"));
    assert_eq!(code, Code::InvalidDatabaseOption, "{sql}: {message}");
    message
}

#[test]
fn database_options() {
    assert_eq!(options(""), DatabaseOptions::default());
    let all = options(
        "VGROUPS 4 PRECISION 'us' REPLICA 3 BUFFER 64 PAGES 64 PAGESIZE 8 TSDB_PAGESIZE 16 CACHEMODEL 'both' \
         CACHESIZE 2 COMP 0 DURATION 12h KEEP 10,20,30 KEEP_TIME_OFFSET 3 MINROWS 10 MAXROWS 200 STT_TRIGGER 1 \
         SINGLE_STABLE 1 TABLE_PREFIX -3 TABLE_SUFFIX 4 WAL_LEVEL 2 WAL_FSYNC_PERIOD 0 WAL_RETENTION_PERIOD -1 \
         WAL_RETENTION_SIZE 100 WAL_ROLL_PERIOD 5 WAL_SEGMENT_SIZE 1024 DNODES '1' ENCRYPT_ALGORITHM 'none' \
         SS_CHUNKPAGES 131072 SS_KEEPLOCAL 525600m SS_COMPACT 1 COMPACT_INTERVAL 0d COMPACT_TIME_RANGE 0d,0d \
         COMPACT_TIME_OFFSET 0h SCHEMALESS 1 STRICT 'on'",
    );
    assert_eq!((all.vgroups, all.precision, all.replica, all.buffer_mib), (4, Precision::Us, 3, 64));
    assert_eq!((all.cache_model, all.duration_minutes), (CacheModel::Both, 720));
    assert_eq!(all.keep_minutes, [14_400, 28_800, 43_200]);
    assert_eq!((all.single_stable, all.table_prefix, all.table_suffix), (true, -3, 4));
    assert_eq!((all.wal.level, all.wal.fsync_period_ms, all.wal.retention_period_s), (2, 0, -1));
    assert_eq!(
        (all.wal.retention_size_kib, all.wal.roll_period_s, all.wal.segment_size_kib),
        (100, 5, 1_024)
    );
}

#[test]
fn what_show_create_database_prints_parses_back() {
    let text = "BUFFER 256 CACHESIZE 1 CACHEMODEL 'none' COMP 2 DURATION 10d WAL_FSYNC_PERIOD 3000 MAXROWS 4096 MINROWS \
        100 STT_TRIGGER 2 KEEP 3650d,3650d,3650d PAGES 256 PAGESIZE 4 PRECISION 'ms' REPLICA 1 WAL_LEVEL 1 VGROUPS 2 \
        SINGLE_STABLE 0 TABLE_PREFIX 0 TABLE_SUFFIX 0 TSDB_PAGESIZE 4 WAL_RETENTION_PERIOD 3600 WAL_RETENTION_SIZE 0 \
        KEEP_TIME_OFFSET 0 ENCRYPT_ALGORITHM 'none' SS_CHUNKPAGES 131072 SS_KEEPLOCAL 525600m SS_COMPACT 1 \
        COMPACT_INTERVAL 0d COMPACT_TIME_RANGE 0d,0d COMPACT_TIME_OFFSET 0h";
    assert_eq!(options(text), DatabaseOptions::default());
}

#[test]
fn database_option_ranges() {
    for (sql, message) in [
        ("BUFFER 2", "Invalid option buffer: 2, valid range: [3, 16384]"),
        ("CACHESIZE 0", "Invalid option cacheSize: 0, valid range: [1, 65536]"),
        ("CACHEMODEL 'x'", "Invalid option cacheModel: x"),
        ("COMP 3", "Invalid option compression: 3, valid range: [0, 2]"),
        ("DURATION 30m", "Invalid option daysPerFile: 30, valid range: [60, 5256000]"),
        ("MAXROWS 1", "Invalid option maxRowsPerBlock: 1, valid range: [200, 10000000]"),
        ("MINROWS 1", "Invalid option minRowsPerBlock: 1, valid range: [10, 1000000]"),
        ("STT_TRIGGER 0", "Invalid option sstTrigger: 0, valid range: [1, 16]"),
        ("WAL_LEVEL 3", "Invalid option walLevel: 3, only 0, 1, 2 allowed"),
        ("VGROUPS 1025", "Invalid option vgroups: 1025, valid range: [1, 1024]"),
        ("VGROUPS 0", "Invalid option vgroups: 0, valid range: [1, 1024]"),
        ("PAGES 10", "Invalid option pages: 10, valid range: [64, 2147483646]"),
        ("KEEP_TIME_OFFSET 24", "Invalid option keep_time_offset: 24 valid range: [0, 23]"),
        ("TABLE_PREFIX 192", "Invalid option table_prefix: 192 valid range: [-191, 191]"),
        ("SINGLE_STABLE 2", "Invalid option singleStable: 2, only 1, 0 allowed"),
        ("KEEP 0", "Invalid option keep: 0, 0, 0 valid range: [1440m, 525600000m]"),
        ("KEEP 20", "Invalid duration value, should be keep2 >= keep1 >= keep0 >= 3 * duration"),
        ("KEEP 200,100", "Invalid duration value, should be keep2 >= keep1 >= keep0 >= 3 * duration"),
    ] {
        assert_eq!(option_error(sql), message, "{sql}");
    }
    assert!(option_error("PRECISION 'ns' KEEP 200000").contains("valid range: [1440m, 153475200m]"));
    assert_eq!(unsupported("CREATE DATABASE d WAL_LEVEL 0"), "WAL_LEVEL 0");
    assert_eq!(refused("CREATE DATABASE d WAL_ROLL_PERIOD -1").1, "syntax error near \"-1\"");
    assert_eq!(
        refused("CREATE DATABASE information_schema"),
        (Code::InvalidOperation, "Cannot create system database: `information_schema`".into())
    );
}

#[test]
fn alter_database() {
    let Ok(Statement::AlterDatabase { changes, .. }) =
        parse("ALTER DATABASE g KEEP 36500 WAL_RETENTION_PERIOD 10")
    else {
        panic!()
    };
    assert_eq!(
        changes,
        [DatabaseChange::KeepMinutes([52_560_000; 3]), DatabaseChange::WalRetentionPeriodS(10)]
    );
    let Ok(Statement::AlterDatabase { changes, .. }) =
        parse("ALTER DATABASE g WAL_RETENTION_PERIOD -2 WAL_RETENTION_SIZE -7")
    else {
        panic!()
    };
    let without_limit = [DatabaseChange::WalRetentionPeriodS(-1), DatabaseChange::WalRetentionSizeKib(-1)];
    assert_eq!(changes, without_limit);
    let at_creation = option_error("WAL_RETENTION_PERIOD -2");
    assert_eq!(at_creation, "Invalid option walRetentionPeriod: -2, valid range: [-1, 2147483647]");
    let Ok(Statement::AlterDatabase { changes, .. }) =
        parse("ALTER DATABASE g WAL_ROLL_PERIOD 5 WAL_SEGMENT_SIZE 1024")
    else {
        panic!()
    };
    assert_eq!(changes, [DatabaseChange::WalRollPeriodS(5), DatabaseChange::WalSegmentSizeKib(1_024)]);
    assert_eq!(parse("TRIM DATABASE g WAL").unwrap(), Statement::TrimDatabaseWal("g".into()));
    assert_eq!(refused("TRIM TABLE g").1, "syntax error near \"table g\"");
    assert_eq!(refused("ALTER DATABASE g PRECISION 'us'").1, "syntax error near \"precision 'us'\"");
    assert_eq!(refused("ALTER DATABASE g CACHESIZE 0").0, Code::InvalidDatabaseOption);
    assert_eq!(refused("ALTER DATABASE g").0, Code::IncompleteSql);
}

#[test]
fn create_tables() {
    let Ok(Statement::CreateStable { columns, tags, options, if_not_exists, .. }) = parse(
        "CREATE TABLE IF NOT EXISTS db.m (ts TIMESTAMP, v INT UNSIGNED ENCODE 'simple8b' LEVEL 'h', s BINARY(16)) \
         TAGS (site NCHAR(12), no INT) COMMENT 'c' SMA(v)",
    ) else {
        panic!()
    };
    assert!(if_not_exists);
    let types: Vec<_> = columns.iter().chain(&tags).map(|c| c.data_type).collect();
    assert_eq!(
        types,
        [DataType::Timestamp, DataType::UInt, DataType::Varchar(16), DataType::NChar(12), DataType::Int]
    );
    assert_eq!(
        (columns[1].encoding, columns[1].level),
        (Some(model::Encoding::Simple8b), Some(model::Level::High))
    );
    assert_eq!(options.comment.as_deref(), Some("c"));
    let Ok(Statement::CreateTable { columns, options, .. }) =
        parse("CREATE TABLE `Q` (`Ts` TIMESTAMP, text INT, rows BIGINT) TTL 7")
    else {
        panic!()
    };
    assert_eq!(columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["Ts", "text", "rows"]);
    assert_eq!(options.ttl_days, Some(7));
}

#[test]
fn create_table_rules() {
    let wide = "CREATE TABLE q (ts TIMESTAMP,v VARCHAR(40000),w VARCHAR(40000))";
    let many = format!(
        "CREATE TABLE q (ts TIMESTAMP{})",
        (0..4_096).map(|i| format!(",c{i} INT")).collect::<String>()
    );
    let many_tags = (0..129).map(|i| format!("g{i} INT")).collect::<Vec<_>>().join(",");
    let many_tags = format!("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS({many_tags})");
    for (sql, code) in [
        ("CREATE TABLE q1(i INT,ts TIMESTAMP)", Code::FirstColumn),
        ("CREATE TABLE q2(ts TIMESTAMP)", Code::ColumnCount),
        ("CREATE TABLE q3(ts TIMESTAMP,j JSON)", Code::OnlyTagJson),
        ("CREATE STABLE q4(ts TIMESTAMP,v INT) TAGS(j JSON,k INT)", Code::JsonTagOnly),
        ("CREATE TABLE q5(ts TIMESTAMP,v INT,V INT)", Code::DuplicateColumn),
        ("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS(v INT)", Code::DuplicateColumn),
        ("CREATE TABLE q (ts TIMESTAMP,v VARCHAR(65518))", Code::ColumnLength),
        ("CREATE TABLE q (ts TIMESTAMP,v VARCHAR(0))", Code::ColumnLength),
        ("CREATE TABLE q (ts TIMESTAMP,v NCHAR(16380))", Code::ColumnLength),
        ("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS(g VARCHAR(16383))", Code::ColumnLength),
        ("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS(g NCHAR(4096))", Code::ColumnLength),
        ("ALTER STABLE m ADD COLUMN y VARCHAR(70000)", Code::ColumnLength),
        (wide, Code::RowTooLong),
        (many.as_str(), Code::TooManyColumns),
        (many_tags.as_str(), Code::TagCount),
        ("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS(a VARCHAR(16000),b VARCHAR(1000))", Code::TagsTooLong),
        ("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS(g INT) TTL 10", Code::InvalidTableOption),
        ("CREATE TABLE q (ts TIMESTAMP,v INT COMPRESS 'foo')", Code::InvalidCompression),
        ("CREATE TABLE q (ts TIMESTAMP,v INT ENCODE 'foo')", Code::InvalidEncoding),
        ("CREATE TABLE information_schema.q (ts TIMESTAMP,v INT)", Code::InvalidOperation),
        ("ALTER STABLE m ADD COLUMN j JSON", Code::OnlyTagJson),
        ("ALTER STABLE m ADD TAG j JSON", Code::JsonTagOnly),
        ("CREATE TABLE q (ts TIMESTAMP,v INT ENCODE 'delta-i')", Code::InvalidEncoding),
        ("CREATE TABLE q (ts TIMESTAMP,v INT COMPRESS 'tsz')", Code::InvalidCompression),
        ("CREATE TABLE q (ts TIMESTAMP,v VARBINARY(0))", Code::ColumnLength),
        ("ALTER STABLE m RENAME COLUMN i j", Code::InvalidAlter),
        ("CREATE TABLE q (ts TIMESTAMP PRIMARY KEY,v INT)", Code::KeyPosition),
        ("CREATE TABLE q (ts TIMESTAMP,w INT,v INT PRIMARY KEY)", Code::KeyPosition),
        ("CREATE TABLE q (ts TIMESTAMP,w INT COMPOSITE KEY,v INT PRIMARY KEY)", Code::KeyPosition),
        ("CREATE TABLE q (ts TIMESTAMP,v NCHAR(4) PRIMARY KEY)", Code::KeyType),
        ("CREATE STABLE q (ts TIMESTAMP,v SMALLINT COMPOSITE KEY) TAGS(g INT)", Code::KeyType),
        ("ALTER STABLE m ADD COLUMN k INT PRIMARY KEY", Code::KeyChange),
    ] {
        assert_eq!(refused(sql).0, code, "{sql}");
    }
    assert!(refused(wide).1.starts_with("Row length exceeds max length: bytes="), "{}", refused(wide).1);
    for (sql, near) in [
        ("CREATE TABLE q (ts TIMESTAMP,v VARCHAR(-1))", "-1))"),
        ("CREATE TABLE q (ts TIMESTAMP,v INT(4))", "(4))"),
        ("CREATE TABLE q (ts TIMESTAMP NOT NULL,v INT)", "not null,v int)"),
        ("CREATE TABLE q (ts TIMESTAMP,v FOO)", "foo)"),
        ("CREATE TABLE q (ts TIMESTAMP,values INT)", "values int)"),
    ] {
        assert_eq!(refused(sql), (Code::Syntax, format!("syntax error near \"{near}\"")), "{sql}");
    }
    for (sql, construct) in [
        ("CREATE TABLE q (ts TIMESTAMP,v DECIMAL(10,2))", "type DECIMAL"),
        ("CREATE STABLE q (ts TIMESTAMP,v INT) TAGS(g INT) KEEP 10d", "KEEP of a super table"),
        ("CREATE TABLE USING m (tbname, g) FILE 'x.csv'", "CREATE TABLE USING .. FILE"),
    ] {
        assert_eq!(unsupported(sql), construct, "{sql}");
    }
}

#[test]
fn composite_keys() {
    for (column, data_type) in [
        ("k INT PRIMARY KEY", DataType::Int),
        ("k VARCHAR(8) composite key ENCODE 'disabled' LEVEL 'h'", DataType::Varchar(8)),
        ("k BIGINT UNSIGNED COMPRESS 'lz4' PRIMARY KEY", DataType::UBigInt),
    ] {
        let sql = format!("CREATE TABLE q (ts TIMESTAMP, {column}, key_ INT)");
        let Ok(Statement::CreateTable { columns, .. }) = parse(&sql) else { panic!("{sql}") };
        let keys: Vec<_> = columns.iter().map(|column| (column.data_type, column.is_key)).collect();
        assert_eq!(keys, [(DataType::Timestamp, false), (data_type, true), (DataType::Int, false)], "{sql}");
    }
}

fn tag(text: &str, quoted: bool) -> TagLiteral {
    TagLiteral { text: text.into(), quoted, hex: false }
}

#[test]
fn create_children() {
    let Ok(Statement::CreateChildren(children)) = parse(
        "CREATE TABLE a USING m TAGS('nor''th', -1, NULL) IF NOT EXISTS d.b USING d.m (no, t) TAGS(0x1F, now() + 1d) TTL 3",
    ) else {
        panic!()
    };
    assert_eq!(children[0].values, [tag("nor'th", true), tag("-1", false), tag("NULL", false)]);
    assert_eq!(children[0].tag_names, None);
    let second = &children[1];
    assert!(second.if_not_exists);
    assert_eq!(second.stable.database.as_deref(), Some("d"));
    assert_eq!(second.tag_names.as_deref(), Some(["no".to_owned(), "t".to_owned()].as_slice()));
    assert_eq!(second.values, [tag("0x1F", false), tag("now() + 1d", false)]);
    assert_eq!(second.options.ttl_days, Some(3));
    assert_eq!(refused("CREATE TABLE e USING ms (t1) TAGS(1+1)").1, "syntax error near \"1)\"");
    assert_eq!(refused("CREATE TABLE e USING ms TAGS()").1, "syntax error near \")\"");
}

#[test]
fn alter_and_drop_tables() {
    let change = |sql: &str| match parse(sql) {
        Ok(Statement::AlterTable { change, stable, .. }) => (stable, change),
        other => panic!("{sql}: {other:?}"),
    };
    let int = |name: &str| ColumnSpec {
        name: name.into(),
        data_type: DataType::Int,
        encoding: None,
        compression: None,
        level: None,
        is_key: false,
    };
    assert_eq!(change("ALTER STABLE m ADD COLUMN x INT"), (true, AlterTable::AddColumn(int("x"))));
    assert_eq!(change("ALTER TABLE m ADD TAG x INT"), (false, AlterTable::AddTag(int("x"))));
    assert_eq!(change("ALTER TABLE m DROP TAG x").1, AlterTable::DropTag("x".into()));
    assert_eq!(
        change("ALTER TABLE m MODIFY COLUMN v VARCHAR(20)").1,
        AlterTable::ModifyColumn { name: "v".into(), data_type: DataType::Varchar(20) }
    );
    let storage =
        ColumnStorage { compression: Some(Compression::Zlib), level: Some(Level::High), encoding: None };
    assert_eq!(
        change("ALTER TABLE m MODIFY COLUMN v COMPRESS 'zlib' LEVEL 'h'").1,
        AlterTable::ModifyStorage { name: "v".into(), storage }
    );
    assert_eq!(
        change("ALTER TABLE c SET TAG t1=1, `T 2` = 'x'").1,
        AlterTable::SetTags(vec![("t1".into(), tag("1", false)), ("T 2".into(), tag("x", true))])
    );
    let AlterTable::SetTags(tags) = change(r"ALTER TABLE c SET TAG b = '\x0A', s = 'x0A'").1 else {
        panic!()
    };
    assert_eq!([tags[0].1.hex, tags[1].1.hex], [true, false]);
    assert_eq!([tags[0].1.text.as_str(), tags[1].1.text.as_str()], ["x0A", "x0A"]);
    assert!(
        matches!(change("ALTER TABLE c COMMENT 'x' TTL 5").1, AlterTable::Options(o) if o.ttl_days == Some(5))
    );
    let Ok(Statement::DropTables(tables)) = parse("DROP TABLE a, IF EXISTS d.b") else { panic!() };
    assert_eq!(tables.iter().map(|t| t.if_exists).collect::<Vec<_>>(), [false, true]);
    assert!(matches!(parse("DROP STABLE IF EXISTS m"), Ok(Statement::DropStable { if_exists: true, .. })));
}

#[test]
fn topics() {
    let topic = |sql: &str| match parse(sql) {
        Ok(Statement::CreateTopic(topic)) => topic,
        other => panic!("{sql}: {other:?}"),
    };
    let query = topic(" CREATE TOPIC IF NOT EXISTS `A:b` AS SELECT ts, v FROM m WHERE v > 1 ;");
    assert_eq!((query.name.as_str(), query.if_not_exists), ("A:b", true));
    assert_eq!(query.sql, "CREATE TOPIC IF NOT EXISTS `A:b` AS SELECT ts, v FROM m WHERE v > 1");
    assert_eq!(topic("CREATE TOPIC p WITH META AS DATABASE d").meta, TopicMeta::With);
    let stable = topic("CREATE TOPIC p ONLY META AS STABLE d.m WHERE g = 1");
    assert!(matches!(stable.source, TopicSource::Stable { filter: Some(_), .. }));
    topic("create topic e1 as select now() as n2, c1 from m where ts > now - 1d");
    for (query, what) in [
        ("select avg(c1) from m", "the function avg"),
        ("select abs(last(c1)) from m", "the function last"),
        ("select distinct c1 from m", "DISTINCT"),
        ("select c1 from m group by c1", "GROUP BY"),
        ("select c1 from m partition by c1", "PARTITION BY"),
        ("select c1 from m order by ts", "ORDER BY"),
        ("select c1 from m limit 1", "LIMIT"),
        ("select _wstart from m interval(1s)", "INTERVAL"),
        ("select * from (select ts, c1 from m)", "a subquery"),
        ("select c1 from m where c1 > (select avg(c1) from n)", "a subquery"),
        ("select c1 from m where c1 in (select c1 from n)", "a subquery"),
        ("select c1 from m where exists (select c1 from n)", "a subquery"),
        ("select c1 from m where c1 > all (select c1 from n)", "a subquery"),
        ("select (select 1), c1 from m", "a subquery"),
        ("select a.c1 from a, b where a.ts = b.ts", "a join"),
        ("select 1 union select 2", "UNION"),
        ("(select c1 from m)", "a query in parentheses"),
        ("select server_version()", "a SELECT without FROM"),
    ] {
        let message = format!("Invalid topic query: {what} is not allowed");
        assert_eq!(
            refused(&format!("create topic e1 as {query}")),
            (Code::InvalidTopicQuery, message),
            "{query}"
        );
    }
    for (sql, code) in [
        ("create topic e1 as select ts from m where count(c1)>1", Code::NoAggregation),
        ("create topic e1 as stable m where count(g)>1", Code::NoAggregation),
        ("create topic e1 as select _wstart,avg(c1) from m interval(1s) fill(null)", Code::FillRange),
        ("create topic e1 as select interp(c1) from m", Code::InterpClause),
        ("create topic e1 as select c1 from m having c1 > 1", Code::NotGroupBy),
    ] {
        assert_eq!(refused(sql).0, code, "{sql}");
    }
    for (sql, near) in [
        ("create topic e1 with meta as select * from m", "select * from m"),
        ("create topic as select * from m", "as select * from m"),
        ("create topic e1 as database er where g=1", "where g=1"),
        ("drop topic tq, ts", ", ts"),
    ] {
        assert_eq!(refused(sql).1, format!("syntax error near \"{near}\""), "{sql}");
    }
    assert!(matches!(
        parse("DROP TOPIC IF EXISTS FORCE p"),
        Ok(Statement::DropTopic { if_exists: true, force: true, .. })
    ));
    assert!(matches!(
        parse("DROP CONSUMER GROUP FORCE g ON p"),
        Ok(Statement::DropConsumerGroup { force: true, .. })
    ));
}

#[test]
fn users() {
    assert_eq!(
        parse("CREATE USER u PASS 'Abcdef12' SYSINFO 1 CREATEDB 0").unwrap(),
        Statement::CreateUser { name: "u".into(), password: "Abcdef12".into() }
    );
    assert_eq!(unsupported("CREATE USER u PASS 'Abcdef12' SYSINFO 0"), "CREATE USER .. SYSINFO");
    assert!(parse("ALTER USER u PASS 'Abcdef1!'").is_ok());
    for (password, code) in [
        ("", Code::PasswordTooShort),
        ("Abc1!", Code::PasswordTooShort),
        ("abcdefgh", Code::InvalidPasswordFormat),
        ("abcdefg1", Code::InvalidPasswordFormat),
        ("Abcdef 1", Code::InvalidPassword),
        ("Abcdéf12", Code::InvalidPassword),
    ] {
        assert_eq!(refused(&format!("CREATE USER u PASS '{password}'")).0, code, "{password}");
    }
    let long = format!("Aa1{}", "x".repeat(253));
    assert_eq!(refused(&format!("CREATE USER u PASS '{long}'")).0, Code::NameOrPasswordTooLong);
    assert_eq!(
        refused(&format!("CREATE USER {} PASS 'Abcdef12'", "u".repeat(24))).0,
        Code::NameOrPasswordTooLong
    );
}

#[test]
fn shows() {
    let name = |name: &str| ObjectName::new(None, name);
    for (sql, expected) in [
        ("SHOW DATABASES", Show::Databases { user: false, system: false }),
        ("SHOW USER DATABASES", Show::Databases { user: true, system: false }),
        ("SHOW g.STABLES LIKE 'm_'", Show::Stables { database: Some("g".into()), like: Some("m_".into()) }),
        ("SHOW TABLES", Show::Tables { kind: None, database: None, like: None }),
        (
            "SHOW CHILD g.TABLES",
            Show::Tables { kind: Some(ShowTableKind::Child), database: Some("g".into()), like: None },
        ),
        ("SHOW CREATE STABLE m", Show::CreateStable(name("m"))),
        ("SHOW CREATE DATABASE d", Show::CreateDatabase("d".into())),
        ("SHOW CREATE TOPIC p", Show::CreateTopic("p".into())),
        ("SHOW TAGS FROM c FROM d", Show::Tags(ObjectName::new(Some("d"), "c"))),
        ("SHOW d.VGROUPS", Show::Vgroups { database: Some("d".into()) }),
        ("SHOW SUBSCRIPTIONS", Show::Subscriptions),
        ("SHOW CLUSTER VARIABLES LIKE 'x%'", Show::Variables { like: Some("x%".into()) }),
    ] {
        assert_eq!(parse(sql).unwrap(), Statement::Show(expected), "{sql}");
    }
    assert_eq!(unsupported("SHOW DNODES"), "SHOW DNODES");
    assert_eq!(unsupported("SHOW TABLE DISTRIBUTED t"), "SHOW TABLE DISTRIBUTED");
    assert_eq!(unsupported("SHOW d.ALIVE"), "SHOW ALIVE");
    assert_eq!(refused("SHOW TOPICS LIKE 't%'").1, "syntax error near \"like 't%'\"");
}

#[test]
fn storage() {
    let compact = |database: Option<&str>, vgroups: Option<Vec<u64>>, start, end| {
        Statement::Compact(Compact { database: database.map(str::to_owned), vgroups, start, end })
    };
    let time = |text: &str, quoted| Some(TimeText { text: text.to_owned(), quoted });
    for (sql, expected) in [
        ("COMPACT DATABASE D", compact(Some("d"), None, None, None)),
        (
            "COMPACT DATABASE d START WITH '2024-01-01' END WITH 1704153600000",
            compact(Some("d"), None, time("2024-01-01", true), time("1704153600000", false)),
        ),
        (
            "COMPACT d.VGROUPS IN (2, 3) END WITH TIMESTAMP '2024-01-01'",
            compact(Some("d"), Some(vec![2, 3]), None, time("2024-01-01", true)),
        ),
        ("COMPACT VGROUPS IN (4);", compact(None, Some(vec![4]), None, None)),
        ("TRIM DATABASE d", Statement::TrimDatabase("d".into())),
        ("TRIM DATABASE d BWLIMIT 5", Statement::TrimDatabase("d".into())),
        ("KILL COMPACT 7", Statement::KillCompact(7)),
        ("SHOW COMPACTS", Statement::Show(Show::Compacts)),
        ("SHOW COMPACT 7", Statement::Show(Show::Compact(7))),
    ] {
        assert_eq!(parse(sql).unwrap(), expected, "{sql}");
    }
    for sql in [
        "COMPACT TABLE t",
        "COMPACT VGROUPS IN ()",
        "COMPACT DATABASE d START",
        "TRIM TABLE t",
        "KILL COMPACT x",
    ] {
        assert!(matches!(refused(sql).0, Code::Syntax | Code::IncompleteSql), "{sql}");
    }
}

#[test]
fn statements_that_are_not_built() {
    for (sql, construct) in [
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
        ("CREATE STREAM s INTO x AS SELECT 1", "CREATE STREAM"),
        ("CREATE DNODE 'h:6030'", "CREATE DNODE"),
        ("GRANT ALTER ON d.* TO u", "GRANT ALTER"),
        ("GRANT ALL ON d.t TO u", "GRANT on a single table"),
        ("KILL QUERY 'x'", "KILL QUERY"),
        ("BALANCE VGROUP", "BALANCE VGROUP"),
        ("ALTER LOCAL 'debugFlag' '131'", "ALTER LOCAL"),
    ] {
        assert_eq!(unsupported(sql), construct, "{sql}");
    }
    assert_eq!(refused("KILL CONSUMER 1").0, Code::Syntax);
    assert_eq!(
        parse("ALTER ALL DNODES 'mqRebalanceInterval' '5'").unwrap(),
        Statement::AlterConfig { name: "mqRebalanceInterval".into(), value: "5".into() }
    );
    assert_eq!(parse("RESET QUERY CACHE;").unwrap(), Statement::ResetQueryCache);
}

#[test]
fn a_reloaded_topic_has_another_query() {
    let sql = "RELOAD TOPIC IF EXISTS p AS SELECT ts FROM m";
    let Ok(Statement::ReloadTopic(topic)) = parse(sql) else { panic!("{sql}") };
    assert_eq!((topic.if_exists, topic.name.as_str(), topic.sql.as_str()), (true, "p", sql));
    for sql in ["RELOAD TOPIC p AS DATABASE d", "RELOAD TOPIC p AS STABLE s", "RELOAD TOPIC p", "RELOAD p"] {
        assert!(matches!(refused(sql).0, Code::Syntax | Code::IncompleteSql), "{sql}");
    }
    assert_eq!(refused("RELOAD TOPIC p AS SELECT COUNT(*) FROM m").0, Code::InvalidTopicQuery);
}

#[test]
fn a_topic_has_no_window_of_any_kind() {
    for (window, name) in [
        ("INTERVAL(1s)", "INTERVAL"),
        ("SESSION(ts, 1s)", "SESSION window"),
        ("STATE_WINDOW(CASE WHEN v > 1 THEN 1 ELSE 0 END) TRUE_FOR(2s)", "STATE_WINDOW"),
        ("EVENT_WINDOW START WITH v > 0 END WITH v < 0", "EVENT_WINDOW"),
        ("COUNT_WINDOW(3, 1, v)", "COUNT_WINDOW"),
    ] {
        let text = format!("Invalid topic query: {name} is not allowed");
        let sql = format!("CREATE TOPIC p AS SELECT v FROM t {window}");
        assert_eq!(refused(&sql), (Code::InvalidTopicQuery, text), "{sql}");
    }
    // What is wrong with the window itself comes first.
    assert_eq!(refused("CREATE TOPIC p AS SELECT v FROM t SESSION ts").0, Code::Syntax);
    assert_eq!(unsupported("CREATE TOPIC p AS SELECT v FROM t ANOMALY_WINDOW(v)"), "ANOMALY_WINDOW");
}

#[test]
fn a_name_is_never_empty() {
    let text = "Invalid identifier name: ` as select 1";
    assert_eq!(refused("CREATE TOPIC `` as select 1"), (Code::InvalidIdentifier, text.into()));
    assert_eq!(refused("USE ``").0, Code::InvalidIdentifier);
}
