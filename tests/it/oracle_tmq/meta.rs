//! `tmq_meta.jsonl`: a chain of statements a group of lines, each with what it showed to eleven consumers.

use std::collections::BTreeMap;

use client::{Connection, Consumer, Error, TimeUnit};
use futures::StreamExt as _;
use serde_json::Value as Json;

use super::deviations::{Catalogue, correct};
use super::messages::{Seen, compare};
use super::{Outcomes, compare_end, lines, list, replace_words, run, text, texts};
use crate::support::{Server, connect, consumer, query, read_to_the_end as drain};

/// Chains that run at a time.
const CHAINS: usize = 3;

/// The lines of one group, whose statements follow one another in one database.
struct Chain {
    name: String,
    precision: String,
    topics: BTreeMap<String, String>,
    /// How many statements make the schema, before the topics.
    schema: usize,
    statements: Vec<String>,
    /// By the number of the line's first statement; the line that shows all at once apart.
    lines: BTreeMap<usize, Json>,
    all: Option<Json>,
}

fn chains() -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for line in lines("tmq_meta.jsonl") {
        let mut parts = text(&line, "id").split('-').skip(1);
        let (name, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if chains.last().is_none_or(|chain| chain.name != name) {
            chains.push(Chain {
                name: name.to_owned(),
                precision: text(&line, "precision").to_owned(),
                topics: serde_json::from_value(line["topics"].clone()).expect("topics"),
                schema: 0,
                statements: Vec::new(),
                lines: BTreeMap::new(),
                all: None,
            });
        }
        let chain = chains.last_mut().expect("one was pushed");
        let (before, sql) = (texts(&line["before"]), texts(&line["sql"]));
        // Line 0 is the schema itself, line n the n-th statement behind it.
        chain.schema = match number.parse::<usize>() {
            Ok(0) => sql.len(),
            Ok(number) => before.len() + 1 - number,
            Err(_) => chain.schema,
        };
        let statements: Vec<String> = before.iter().chain(&sql).map(|&s| s.to_owned()).collect();
        if statements.len() > chain.statements.len() {
            chain.statements = statements;
        }
        match number {
            "all" => chain.all = Some(line),
            _ => drop(chain.lines.insert(before.len(), line)),
        }
    }
    chains
}

/// What the consumers of a chain are called and read.
async fn subscribed(chain: &Chain, connection: &Connection, round: &str) -> BTreeMap<String, Consumer> {
    let one = async |topic: &String, name: String, batch: &str| {
        let parameters = [
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            ("msg.enable.batchmeta", batch),
        ];
        let consumer = consumer(connection, &format!("{}_{round}_{name}", chain.name), &parameters);
        consumer.subscribe([format!("{}_{topic}", chain.name)]).await.expect("subscribe");
        (name, consumer)
    };
    let forms = |topic| [(topic, "", "0"), (topic, "_batch", "1")];
    // Nothing of a topic without events can be batched.
    let forms =
        chain.topics.keys().flat_map(forms).filter(|(topic, form, _)| *topic != "db_data" || form.is_empty());
    let all = forms.map(|(topic, form, on)| one(topic, format!("{topic}{form}"), on));
    futures::future::join_all(all).await.into_iter().collect()
}

async fn drained(consumers: &BTreeMap<String, Consumer>) -> BTreeMap<String, Vec<Seen>> {
    let one = async |(name, consumer): (&String, &Consumer)| {
        let messages = drain(consumer).await.expect("poll");
        (name.clone(), messages.iter().map(Seen::of_message).collect())
    };
    futures::future::join_all(consumers.iter().map(one)).await.into_iter().collect()
}

/// Compares what every consumer received with what it should have.
fn check(line: &Json, received: &BTreeMap<String, Vec<Seen>>, known: &Catalogue) -> Result<(), String> {
    for (name, got) in received {
        let captured = line["expect"][name].as_array().into_iter().flatten();
        let captured: Vec<_> = captured.map(Seen::of_capture).collect();
        let (wanted, got) = correct(line, name, captured, got.clone(), known);
        compare(&wanted, &got).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// Runs a statement, or writes a line.
async fn run_or_write(connection: &Connection, sql: &str) -> Result<(), Error> {
    match sql.strip_prefix("LINE ") {
        Some(line) => connection.write_lines(line, TimeUnit::Millisecond).await.map(drop),
        None => run(connection, sql).await,
    }
}

async fn replay(chain: Chain, server: &Server) -> Outcomes {
    let connection = connect(server).await;
    let database = format!("m_{}", chain.name);
    let options = format!("vgroups 1 wal_retention_period 3600 precision '{}'", chain.precision);
    query(&connection, &format!("create database {database} {options}")).await;
    query(&connection, &format!("use {database}")).await;
    let mut outcomes = Outcomes::new();
    let mut record = |line: &Json, outcome| drop(outcomes.insert(text(line, "id").to_owned(), outcome));
    let mut ended = Ok(());
    for sql in &chain.statements[..chain.schema] {
        ended = ended.and(run_or_write(&connection, sql).await);
    }
    for (name, definition) in &chain.topics {
        let definition = replace_words(definition, &[("DB", &database)]);
        query(&connection, &format!("create topic {}_{name} {definition}", chain.name)).await;
    }
    let consumers = subscribed(&chain, &connection, "one").await;
    let mut known = Catalogue::default();
    let mut at = 0;
    while at < chain.statements.len() {
        let next = at.max(chain.schema - 1) + 1;
        if at >= chain.schema {
            ended = run_or_write(&connection, &chain.statements[at]).await;
        }
        let received = drained(&consumers).await;
        if let Some(line) = chain.lines.get(&at) {
            let code = compare_end(std::mem::replace(&mut ended, Ok(())), &line["code"], text(line, "text"));
            record(line, code.and_then(|()| check(line, &received, &known)));
        }
        known.learn(received.get("db_meta").into_iter().flatten());
        at = next;
    }
    if let Some(line) = &chain.all {
        for sql in texts(&line["sql"]).into_iter().skip(chain.statements.len()) {
            let _ = run_or_write(&connection, sql).await;
        }
        let fresh = subscribed(&chain, &connection, "all").await;
        let received = drained(&fresh).await;
        record(line, check(line, &received, &Catalogue::default()));
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_61_to_65_meta_as_captured() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "alter all dnodes 'mqRebalanceInterval' '1'").await;
    query(&connection, "alter all dnodes 'tmqMaxTopicNum' '200'").await;
    let chains = futures::stream::iter(chains()).map(|chain| replay(chain, &server));
    let outcomes: Vec<_> = chains.buffer_unordered(CHAINS).collect().await;
    list::check("meta-", &outcomes.into_iter().flatten().collect());
}
