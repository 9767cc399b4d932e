//! Statements by everybody, by the table; and what can be learned of what one may not see: nothing.

use std::collections::BTreeSet;

use ::query::ast::{Right, Show, Statement};
use ::query::parser;
use client::Connection;

use super::cases::{CASES, Case, INSERTS};
use super::people::{DATABASES, People, TOPICS, refused, topic_of};
use crate::support::query;

/// Names the variants of an enum: a new one does not compile before it is listed, and a listed one needs a case.
macro_rules! kinds {
    ($list:ident, $name:ident($enum:ident): $($variant:ident),+ $(,)?) => {
        const $list: &[&str] = &[$(stringify!($variant)),+];
        fn $name(of: &$enum) -> &'static str {
            match of { $($enum::$variant { .. } => stringify!($variant)),+ }
        }
    };
}

kinds!(STATEMENTS, statement(Statement):
    CreateDatabase, AlterDatabase, DropDatabase, Use, FlushDatabase, TrimDatabase, TrimDatabaseWal, Compact, KillCompact, CreateStable,
    CreateTable, CreateChildren, DropTables, DropStable, AlterTable, Describe, Delete, Query, Explain, CreateTopic,
    ReloadTopic, DropTopic, DropConsumerGroup, Show, CreateUser, AlterUserPassword, DropUser, Grant, ResetQueryCache, AlterConfig);
kinds!(SHOWS, show(Show):
    Databases, Stables, Tables, CreateDatabase, CreateTable, CreateStable, CreateTopic, Tags, Vgroups, Topics, Consumers,
    Subscriptions, Users, UserPrivileges, Variables, Compacts, Compact);
kinds!(RIGHTS, right(Right): Subscribe, Database);

fn filled(case: &Case, role: &str, database: &str, topic: &str) -> String {
    case.sql.replace("{db}", database).replace("{topic}", topic).replace("{role}", role)
}

#[test]
fn every_statement_has_its_line() {
    let mut seen: [BTreeSet<&str>; 3] = Default::default();
    for case in CASES {
        let sql = filled(case, "root", DATABASES[0], TOPICS[0]);
        let parsed = parser::parse(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        seen[0].insert(statement(&parsed));
        match &parsed {
            Statement::Show(of) => drop(seen[1].insert(show(of))),
            Statement::Grant { right: of, .. } => drop(seen[2].insert(right(of))),
            _ => {}
        }
    }
    for (seen, listed) in seen.iter().zip([STATEMENTS, SHOWS, RIGHTS]) {
        assert_eq!(*seen, listed.iter().copied().collect());
    }
}

async fn answer(connection: &Connection, sql: &str) -> u16 {
    refused(connection, sql).await.map_or(0, |error| error.code().number())
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_gets_what_the_table_says() {
    let people = People::come().await;
    let mut wrong = Vec::new();
    for case in INSERTS.iter().chain(CASES) {
        for ((role, connection), code) in people.all().zip(case.codes) {
            let sql = filled(case, role, DATABASES[0], topic_of(role));
            let got = answer(connection, &sql).await;
            if got != code {
                wrong.push(format!("{role}: {sql}: {got:#06x} in place of {code:#06x}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Code, message and cure are the same, or a list of guesses would tell what there is.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_may_not_see_answers_as_what_is_not_there() {
    let people = People::come().await;
    let mut probed = 0;
    for case in
        INSERTS.iter().chain(CASES).filter(|case| case.sql.contains("{db}") || case.sql.contains("{topic}"))
    {
        let told = async |database: &str, topic: &str| {
            let sql = filled(case, "nobody", database, topic);
            let error = refused(people.nobody(), &sql).await.map(|error| error.to_string());
            error.map(|text| text.replace(database, DATABASES[0]).replace(topic, TOPICS[0]))
        };
        let (there, not_there) = (told(DATABASES[0], TOPICS[0]).await, told(DATABASES[1], TOPICS[1]).await);
        assert_eq!(there, not_there, "{}", case.sql);
        probed += 1;
    }
    assert!(probed > 30, "{probed}");
    // Beside names: a current database is what a client says that it is.
    query(&people.root, "CREATE DATABASE nanos PRECISION 'ns' VGROUPS 1").await;
    let mut precisions = Vec::new();
    for database in ["nanos", "manos"] {
        let mut options = people.nobody().options().clone();
        options.database = database.to_owned();
        let connection = Connection::connect(options).await.expect("logged in");
        precisions.push(query(&connection, "SELECT now()").await.columns()[0].precision);
    }
    assert_eq!(precisions[0], precisions[1]);
}

/// Every list, and the shell's completion.
#[tokio::test(flavor = "multi_thread")]
async fn no_list_shows_what_one_may_not_see() {
    let people = People::come().await;
    let tables = [
        "ins_databases",
        "ins_stables",
        "ins_tables",
        "ins_tags",
        "ins_vgroups",
        "ins_topics",
        "ins_subscriptions",
        "ins_user_privileges",
        "ins_compacts",
        "ins_compact_details",
    ];
    query(&people.root, "COMPACT DATABASE plant").await;
    let lists: Vec<String> = tables
        .iter()
        .map(|table| format!("SELECT * FROM information_schema.{table}"))
        .chain(["SELECT * FROM performance_schema.perf_consumers".to_owned()])
        .collect();
    let consumer = crate::support::consumer(&people.root, "pumpers", &[]);
    consumer.subscribe(["pumps"]).await.expect("subscribe");
    let secret = ["plant", "gone", "pumps", "pasts", "pumpers"];
    let shown = async |connection: &Connection| {
        let mut text = String::new();
        for sql in &lists {
            for row in query(connection, sql).await.iter() {
                text += &row.values().map(|value| format!("{value:?} ")).collect::<String>();
                text.push('\n');
            }
        }
        text + &connection.complete().await.expect("names").join(" ")
    };
    let to_root = shown(&people.root).await;
    let to_nobody = shown(people.nobody()).await;
    for name in secret {
        assert!(to_root.contains(name), "{name} is there to be seen: {to_root}");
        assert!(!to_nobody.contains(name), "{name}: {to_nobody}");
    }
    assert!(to_nobody.contains("information_schema"), "{to_nobody}");
    // Each as far as the right goes.
    let names = async |role: usize, sql: &str| -> Vec<String> {
        query(&people.connections[role], sql).await.iter().map(|row| row.get(0).expect("a name")).collect()
    };
    for (role, databases, tables, topics) in
        [(1, 2, 3, 0), (2, 2, 3, 0), (3, 0, 0, 1), (4, 2, 3, 2), (5, 1, 0, 2), (6, 2, 3, 9)]
    {
        let counts = (
            names(role, "SHOW USER DATABASES").await.len(),
            names(role, "SELECT table_name FROM information_schema.ins_tables").await.len()
                + names(role, "SELECT stable_name FROM information_schema.ins_stables").await.len(),
            names(role, "SHOW TOPICS").await.len(),
        );
        assert_eq!(counts, (databases, tables, topics), "{}", super::people::ROLES[role]);
    }
    consumer.close().await.expect("close");
}
