//! Cases from the field, of topics: what may be made of what, and what their messages hold. Each test carries the case's id.

use std::collections::{BTreeMap, BTreeSet};

use client::{Connection, Consumer, Error, Message, MessageKind, Row, Value};

use crate::support::one_table::{START_MS, reading, values, write};
use crate::support::{Server, connect, consumer, query, read_to_the_end, tidemark};

async fn run(connection: &Connection, statements: &[&str]) {
    for statement in statements {
        query(connection, statement).await;
    }
}

async fn refused(connection: &Connection, sql: &str) -> Error {
    match connection.sql(sql).await {
        Ok(result) => result.rows().await.expect_err(sql),
        Err(error) => error,
    }
}

async fn subscribed(connection: &Connection, group: &str, topic: &str) -> Consumer {
    let parameters = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    let consumer = consumer(connection, group, &parameters);
    consumer.subscribe([topic]).await.expect("subscribe");
    consumer
}

/// Everything in a topic, read by a group of its own.
async fn messages(connection: &Connection, group: &str, topic: &str) -> Vec<Message> {
    let consumer = subscribed(connection, group, topic).await;
    let found = read_to_the_end(&consumer).await.expect("poll");
    consumer.close().await.expect("close");
    found
}

fn text(row: Row<'_>) -> String {
    row.values().map(|v| v.to_string()).collect::<Vec<_>>().join(",")
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().flat_map(Message::rows).map(text).collect()
}

/// C046: tags that are empty, NULL or awkward are told as valid JSON, and a replica built from it has the same.
#[tokio::test(flavor = "multi_thread")]
async fn c046_awkward_tags_are_told_and_copied() {
    let tags: [(&str, Option<&str>, Option<&str>); 8] = [
        ("empty", Some(""), Some("")),
        ("none", None, None),
        ("half", Some(""), None),
        ("other_half", None, Some("")),
        ("quoted", Some("a\"b"), Some("a\"b")),
        ("slash", Some("\\"), Some("\\\\")),
        ("line", Some("a\nb\r\t"), Some("\n")),
        ("wide", Some("😀😃😄😁"), Some("😀😃😄😁")),
    ];
    let server = Server::start();
    let connection = connect(&server).await;
    run(
        &connection,
        &[
            "CREATE DATABASE d VGROUPS 2",
            "CREATE TOPIC t WITH META AS DATABASE d",
            "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (a VARCHAR(32), b NCHAR(4))",
        ],
    )
    .await;
    let literal =
        |tag: Option<&str>| tag.map_or("NULL".to_owned(), |tag| format!("'{}'", tag.replace('\\', "\\\\")));
    for (name, a, b) in tags {
        let (a, b) = (literal(a), literal(b));
        query(&connection, &format!("INSERT INTO d.{name} USING d.s TAGS ({a}, {b}) VALUES ({START_MS}, 1)"))
            .await;
    }
    // As the command prints it.
    let args = ["t", "-g", "cli", "--from", "earliest", "--with-meta", "--timeout", "2s"];
    let output = server.run("subscribe", &args);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let mut rows = 0;
    for line in printed.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        rows += usize::from(line.get("row").is_some());
    }
    assert_eq!(rows, tags.len(), "{printed}");
    for json in [r#""value":"\"a\"b\"""#, r#""value":"\"\\\"""#, r#""value":"\"a\nb\r\t\"""#] {
        assert!(printed.contains(json), "{json}: {printed}");
    }
    // As the SDK has it.
    let mut told = BTreeMap::new();
    for message in messages(&connection, "sdk", "t").await {
        let Some(json) = message.json() else { continue };
        let event: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{json}: {e}"));
        if event["tableType"] != "child" {
            continue;
        }
        // A list where the message makes more than one, which has the first again.
        let list = event["createList"].as_array().expect("a list");
        let tables = if list.is_empty() { std::slice::from_ref(&event) } else { list };
        for table in tables {
            let tag = |name: &str| {
                let tag = table["tags"].as_array().expect("tags").iter().find(|tag| tag["name"] == name)?;
                // With quotes of its own, nothing between them escaped (tmq.md 2.5).
                let text = tag["value"].as_str().expect("text");
                Some(text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).expect("quotes").to_owned())
            };
            told.insert(table["tableName"].as_str().expect("a name").to_owned(), (tag("a"), tag("b")));
        }
    }
    let wanted = tags.map(|(name, a, b)| (name.to_owned(), (a.map(str::to_owned), b.map(str::to_owned))));
    assert_eq!(told, BTreeMap::from(wanted));
    // As a replica has it.
    let copy = Server::start();
    let args =
        ["replicate", "--from", server.address(), "--to", copy.address(), "--topic", "t", "--until-end"];
    let output = tidemark().args(args).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copy = connect(&copy).await;
    let select = "SELECT tbname, a, b FROM d.s";
    let of = async |connection: &Connection| {
        query(connection, select).await.iter().map(|row| row.values().collect()).collect::<Vec<Vec<Value>>>()
    };
    let sort = |mut rows: Vec<Vec<Value>>| {
        rows.sort_by_key(|row| row[0].to_string());
        rows
    };
    let (source, copied) = (sort(of(&connection).await), sort(of(&copy).await));
    assert_eq!(source.len(), tags.len());
    assert_eq!(copied, source);
    let none = source.iter().filter(|row| row[1] == Value::Null).count();
    assert_eq!(none, 2, "NULL is not the empty text: {source:?}");
}

/// C048: rows of bound writes whose selected columns are all NULL are rows.
#[tokio::test(flavor = "multi_thread")]
async fn c048_rows_of_nulls_alone_are_delivered() {
    let server = Server::start();
    let connection = connect(&server).await;
    run(
        &connection,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.n (ts TIMESTAMP, p INT, q INT, r INT)",
            "CREATE TOPIC tsr AS SELECT ts, r FROM d.n",
            "CREATE TOPIC pr AS SELECT p, r FROM d.n",
        ],
    )
    .await;
    let writer = connection.writer("d", "n").await.expect("a writer");
    let ticks = [1_710_000_000_004, 1_710_000_000_005, 1_710_000_000_002, 1_710_000_000_001];
    let rows = [Value::Int(12), Value::Null, Value::Null, Value::Int(9)];
    let rows: Vec<_> = ticks.into_iter().zip(rows).collect();
    for half in rows.chunks(2) {
        let mut batch = writer.batch_of(&["ts", "q"]).expect("a batch");
        let table = batch.table("n").expect("the table");
        for (tick, q) in half {
            batch.push(table, &[Value::Timestamp(*tick), q.clone()]).expect("a row");
        }
        writer.write(batch).await.expect("write");
        writer.flush().await.expect("flush");
        query(&connection, "FLUSH DATABASE d").await;
    }
    // Rows of one write come in the order of time.
    let wanted = [ticks[0], ticks[1], ticks[3], ticks[2]].map(|tick| format!("{tick},NULL"));
    assert_eq!(texts(&messages(&connection, "a", "tsr").await), wanted);
    assert_eq!(texts(&messages(&connection, "b", "pr").await), ["NULL,NULL"; 4]);
}

/// C050: blocks of a database topic are of one table and one shape, and say of which.
#[tokio::test(flavor = "multi_thread")]
async fn c050_blocks_of_a_database_topic_name_their_table() {
    let server = Server::start();
    let connection = connect(&server).await;
    run(
        &connection,
        &[
            "CREATE DATABASE mill",
            "CREATE TOPIC all_mill AS DATABASE mill",
            "CREATE TOPIC told_mill WITH META AS DATABASE mill",
            "CREATE STABLE mill.saw (ts TIMESTAMP, rpm INT) TAGS (hall INT)",
            "CREATE STABLE mill.oven (ts TIMESTAMP, heat DOUBLE, note VARCHAR(8)) TAGS (hall VARCHAR(8))",
            "CREATE TABLE mill.door (ts TIMESTAMP, open BOOL)",
            "INSERT INTO mill.saw1 USING mill.saw TAGS (1) VALUES (1710000000000, 10) (1710000000001, 11) \
             mill.oven1 USING mill.oven TAGS ('north') VALUES (1710000000000, 1.5, 'a') \
             mill.door VALUES (1710000000000, true) \
             mill.saw2 USING mill.saw TAGS (2) VALUES (1710000000000, 20) \
             mill.oven2 USING mill.oven TAGS ('south') (ts, heat) VALUES (1710000000000, 2.5)",
            "INSERT INTO mill.saw1 VALUES (1710000000002, 12)",
        ],
    )
    .await;
    let shapes = BTreeMap::from([
        ("saw1", (vec!["ts", "rpm"], 3)),
        ("saw2", (vec!["ts", "rpm"], 1)),
        ("oven1", (vec!["ts", "heat", "note"], 1)),
        ("oven2", (vec!["ts", "heat"], 1)),
        ("door", (vec!["ts", "open"], 1)),
    ]);
    for topic in ["all_mill", "told_mill"] {
        let messages = messages(&connection, "g", topic).await;
        assert!(messages.iter().all(|message| message.database() == "mill"));
        let mut found: BTreeMap<&str, (Vec<&str>, usize)> = BTreeMap::new();
        for block in messages.iter().flat_map(Message::blocks) {
            let columns: Vec<_> = block.columns().iter().map(|column| column.name.as_str()).collect();
            let table = block.table().expect("a block of a database topic names its table");
            let (known, rows) = found.entry(table).or_insert_with(|| (columns.clone(), 0));
            assert_eq!(*known, columns, "{table}");
            *rows += block.rows().count();
        }
        assert_eq!(found, shapes, "{topic}");
        let events: String = messages.iter().filter_map(Message::json).collect();
        match topic {
            "all_mill" => assert_eq!(events, "", "not asked for"),
            _ => {
                for tag in [
                    r#"{"name":"hall","type":4,"value":2}"#,
                    r#"{"name":"hall","type":8,"value":"\"south\""}"#,
                ] {
                    assert!(events.contains(tag), "{tag} {events}");
                }
                let kinds: BTreeSet<_> = messages.iter().map(|message| message.kind().number()).collect();
                assert!(
                    kinds.contains(&MessageKind::Metadata.number()),
                    "rows and the tables they made: {kinds:?}"
                );
            }
        }
    }
}

/// C052: each way in which a topic cannot be made has its code and names what is missing. Views are not built
/// (docs/sql.md); a table of a database that is not the current one stands for one.
#[tokio::test(flavor = "multi_thread")]
async fn c052_what_a_topic_cannot_be_made_of_is_named() {
    let server = Server::start();
    let connection = connect(&server).await;
    run(
        &connection,
        &[
            "CREATE DATABASE d VGROUPS 1",
            "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (g INT)",
            "CREATE DATABASE other VGROUPS 1",
            "CREATE TABLE other.elsewhere (ts TIMESTAMP, v INT)",
            "CREATE TOPIC taken AS SELECT ts, v FROM other.elsewhere",
        ],
    )
    .await;
    let without_database = refused(&connection, "CREATE TOPIC t AS SELECT * FROM elsewhere").await;
    assert_eq!(without_database.code().number(), 0x2616, "{without_database}");
    query(&connection, "USE d").await;
    for (source, code, named) in [
        ("DATABASE nodb", 0x0388, "nodb"),
        ("STABLE nos", 0x0362, "nos"),
        ("STABLE nodb.nos", 0x0388, "nodb"),
        ("SELECT * FROM `not`", 0x2603, "not"),
        ("SELECT * FROM elsewhere", 0x2603, "elsewhere"),
        ("SELECT * FROM nodb.elsewhere", 0x0388, "nodb"),
        ("SELECT nocolumn FROM s", 0x2602, "nocolumn"),
    ] {
        let error = refused(&connection, &format!("CREATE TOPIC t AS {source}")).await;
        assert_eq!(error.code().number(), code, "{source}: {error}");
        assert!(error.message().contains(named), "{source}: {error}");
    }
    let taken = refused(&connection, "CREATE TOPIC taken AS DATABASE d").await;
    assert_eq!(taken.code().number(), 0x03E0);
    assert!(taken.message().contains("taken"), "{taken}");
    assert_eq!(query(&connection, "SHOW TOPICS").await.len(), 1, "nothing was left behind");

    let text = "SELECT `sql` FROM information_schema.ins_topics WHERE topic_name = 'taken'";
    let before: String =
        query(&connection, text).await.iter().next().expect("the topic").get(0).expect("text");
    for (definition, same) in [("SELECT ts, v FROM other.elsewhere", true), ("DATABASE d", false)] {
        let again = format!("CREATE TOPIC IF NOT EXISTS taken AS {definition}");
        let result = connection.sql(&again).await.expect("success all the same");
        let note = result.summary().expect("the end").note.clone();
        assert!(note.contains("topic taken exists"), "{note}");
        assert_eq!(note.contains("another definition"), !same, "{note}");
        assert!(note.contains("nothing was changed"), "{note}");
    }
    let after: String =
        query(&connection, text).await.iter().next().expect("the topic").get(0).expect("text");
    assert_eq!(after, before);
    let told = server.run("sql", &["-s", "CREATE TOPIC IF NOT EXISTS taken AS DATABASE d"]);
    assert!(told.status.success());
    let told = String::from_utf8(told.stderr).expect("UTF-8");
    assert!(told.contains("topic taken exists with another definition, nothing was changed"), "{told}");
}

/// C055: what a topic cannot evaluate record by record is refused when it is made, by the name of the clause.
#[tokio::test(flavor = "multi_thread")]
async fn c055_clauses_that_a_topic_cannot_have_are_refused_by_name() {
    let server = Server::start();
    let connection = connect(&server).await;
    run(
        &connection,
        &[
            "CREATE DATABASE d VGROUPS 1",
            "CREATE STABLE d.s (ts TIMESTAMP, v INT, note VARCHAR(8)) TAGS (g INT)",
            "CREATE TABLE d.n (ts TIMESTAMP, v INT)",
            "USE d",
        ],
    )
    .await;
    for (select, named) in [
        ("SELECT ts, v FROM s LIMIT 5", "LIMIT"),
        ("SELECT ts, v FROM s ORDER BY ts", "ORDER BY"),
        ("SELECT COUNT(*) FROM s", "count"),
        ("SELECT COUNT(*) FROM s INTERVAL(1m)", "count"),
        ("SELECT _wstart FROM s INTERVAL(1m)", "INTERVAL"),
        ("SELECT DISTINCT v FROM s", "DISTINCT"),
        ("SELECT LAST(v) FROM s", "last"),
        ("SELECT a.ts, b.v FROM s a JOIN n b ON a.ts = b.ts", "JOIN"),
        ("SELECT ts, v FROM s UNION ALL SELECT ts, v FROM n", "UNION"),
        ("SELECT ts, v FROM (SELECT ts, v FROM s)", "sub"),
        ("SELECT ts, v FROM s WHERE v > (SELECT AVG(v) FROM n)", "sub"),
        ("SELECT DIFF(v) FROM s", "diff"),
    ] {
        let error = refused(&connection, &format!("CREATE TOPIC t AS {select}")).await;
        assert_eq!(error.code().number(), 0x2639, "{select}: {error}");
        let message = error.message().to_lowercase();
        assert!(message.contains(&named.to_lowercase()), "{select} names {named}: {error}");
    }
    assert!(query(&connection, "SHOW TOPICS").await.is_empty());
    let insert = "INSERT INTO d.c USING d.s TAGS (3) VALUES (1710000000000, -4, 'x') (1710000000001, 0, 'y')";
    query(&connection, insert).await;
    for (at, (select, wanted)) in [
        ("SELECT ABS(v), UPPER(note) FROM s WHERE LENGTH(note) = 1 AND v < 0", "4,X"),
        ("SELECT CASE WHEN v < 0 THEN 'low' ELSE 'high' END FROM s WHERE v < 0", "low"),
        (
            "SELECT CAST(v AS VARCHAR(4)), CAST(v AS DOUBLE) + 0.5 FROM s WHERE CAST(v AS BIGINT) < 0",
            "-4,-3.500000000",
        ),
        ("SELECT tbname, g, v FROM s WHERE tbname LIKE 'c%' AND g IN (3) AND v < 0", "c,3,-4"),
        ("SELECT v FROM s WHERE CASE g WHEN 3 THEN v ELSE 0 END < 0", "-4"),
    ]
    .into_iter()
    .enumerate()
    {
        query(&connection, &format!("CREATE TOPIC t{at} AS {select}")).await;
        assert_eq!(texts(&messages(&connection, "g", &format!("t{at}")).await), [wanted], "{select}");
    }
}

/// C057: a topic's condition sees a record as it was written, whatever the row has become: live, later, and after a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn c057_a_condition_sees_the_record_as_written() {
    let mut server = Server::start();
    let connection = connect(&server).await;
    let at = START_MS;
    run(
        &connection,
        &[
            "CREATE DATABASE d VGROUPS 1",
            "CREATE TABLE d.x (ts TIMESTAMP, v INT, note VARCHAR(8))",
            "CREATE TOPIC t AS SELECT ts, v, note FROM d.x WHERE v > 220",
        ],
    )
    .await;
    let live = subscribed(&connection, "live", "t").await;
    let mut seen = read_to_the_end(&live).await.expect("poll");
    for insert in [
        format!("INSERT INTO d.x VALUES ({at}, 300, NULL)"),
        format!("INSERT INTO d.x (ts, note) VALUES ({at}, 'checked')"),
        // The other way round: a column that the write leaves out is NULL, though the row has it.
        format!("INSERT INTO d.x (ts, v) VALUES ({at}, 301)"),
    ] {
        query(&connection, &insert).await;
        seen.extend(read_to_the_end(&live).await.expect("poll"));
    }
    let merged = query(&connection, "SELECT v, note FROM d.x").await;
    assert_eq!(merged.iter().map(text).collect::<Vec<_>>(), ["301,checked"], "the row itself");
    let wanted = [format!("{at},300,NULL"), format!("{at},301,NULL")];
    assert_eq!(texts(&seen), wanted, "live");
    assert_eq!(texts(&messages(&connection, "later", "t").await), wanted, "later");
    query(&connection, "FLUSH DATABASE d").await;
    drop(live);
    server.kill();
    server.start_again();
    let connection = connect(&server).await;
    assert_eq!(texts(&messages(&connection, "restarted", "t").await), wanted, "after a restart");
}

/// C060: `latest` begins where the first poll finds the end of the log. What was written before the subscription never
/// comes; what is answered behind that poll comes for certain; of what is written in between comes what lies behind that
/// one place, without a hole.
#[tokio::test(flavor = "multi_thread")]
async fn c060_latest_begins_at_one_place_and_has_no_holes() {
    let server = Server::start();
    let connection = connect(&server).await;
    run(
        &connection,
        &[
            "CREATE DATABASE d VGROUPS 1",
            "CREATE TABLE d.n (ts TIMESTAMP, v INT)",
            "CREATE TOPIC t AS SELECT ts, v FROM d.n",
        ],
    )
    .await;
    for run in 0..5 {
        let first = run * 100;
        write(&connection, first..first + 5).await;
        let joining = async {
            let consumer = reading(&connection, &format!("g{run}"), "latest").await;
            let early = consumer.poll(std::time::Duration::ZERO).await.expect("poll");
            (consumer, early)
        };
        // Neither waits for the other.
        let ((consumer, early), ()) = tokio::join!(joining, write(&connection, first + 5..first + 10));
        let mut found = values(&early.into_iter().collect::<Vec<_>>());
        found.extend(values(&read_to_the_end(&consumer).await.expect("poll")));
        write(&connection, first + 10..first + 15).await;
        found.extend(values(&read_to_the_end(&consumer).await.expect("poll")));
        let begins = *found.first().expect("the last five for certain");
        assert!((first + 5..=first + 10).contains(&begins), "{found:?}");
        assert_eq!(found, (begins..first + 15).collect::<Vec<_>>(), "in order, without a hole");
        consumer.close().await.expect("close");
    }
}
