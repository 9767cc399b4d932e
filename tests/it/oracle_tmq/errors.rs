//! `tmq_errors.jsonl`: wrong and borderline uses, with code and text.

use client::{Connection, Consumer, ConsumerConfig, Error};
use serde_json::Value as Json;

use super::{Outcomes, compare_end, lines, list, run, text, texts};
use crate::support::{Server, connect, query, read_to_the_end as drain};

type Checked = Result<(), String>;

/// The one server, and the consumer that the lines speak of.
struct Session<'a> {
    server: &'a Server,
    connection: Connection,
    consumer: Consumer,
    /// What the line before said that the consumer had done.
    state: String,
}

impl Session<'_> {
    fn config(&self, group: &str) -> ConsumerConfig {
        let mut config = ConsumerConfig::new(group);
        config.set("auto.offset.reset", "earliest").expect("a value");
        config.set("enable.auto.commit", "false").expect("a value");
        config.connect.host = self.server.address().to_owned();
        config
    }

    async fn setup(&self, line: &Json) -> Checked {
        for sql in texts(&line["sql"]) {
            run(&self.connection, sql).await.map_err(|e| format!("{sql}: {e}"))?;
        }
        Ok(())
    }

    async fn sql(&self, line: &Json) -> Checked {
        let sql = text(line, "action");
        let done = compare_end(run(&self.connection, sql).await, &line["code"], text(line, "text"));
        // Topics that could be made go at once.
        if let Some(rest) =
            sql.strip_prefix("create topic ").filter(|rest| !rest.starts_with("if not exists"))
        {
            let name = rest.strip_prefix('`').and_then(|rest| rest.split_once('`'));
            let name = name.map_or_else(
                || rest.split(' ').next().unwrap_or_default().to_owned(),
                |(name, _)| format!("`{name}`"),
            );
            if !["tq", "as", "``"].contains(&name.as_str()) {
                let _ = run(&self.connection, &format!("drop topic if exists {name}")).await;
            }
        }
        done
    }

    /// Brings the consumer to the state that the line tells of.
    async fn reach(&mut self, state: &str) {
        if state.is_empty() || state == self.state {
            return;
        }
        match state {
            "polled" => drop(drain(&self.consumer).await.expect("poll")),
            "unsubscribed" => self.consumer.unsubscribe().await.expect("unsubscribe"),
            _ => {}
        }
        state.clone_into(&mut self.state);
    }

    async fn api(&mut self, line: &Json) -> Checked {
        let action = &line["action"];
        self.reach(text(action, "state")).await;
        let end = |got: Result<(), Error>| compare_end(got, &line["code"], text(line, "text"));
        let verbs = [
            "new",
            "subscribe",
            "poll",
            "unsubscribe",
            "assignment",
            "seek",
            "position",
            "committed",
            "commit_offset",
            "close",
            "set",
            "commit",
            "result_type",
        ];
        let verb = verbs.into_iter().find(|verb| !action[*verb].is_null()).ok_or("an unknown call")?;
        let arguments = &action[verb];
        match verb {
            "new" => self.new_consumer(arguments, text(line, "code")).await,
            "set" => set(arguments, &line["code"]),
            "subscribe" => end(self.subscribe(action, arguments).await?),
            "poll" => {
                let wait = std::time::Duration::from_millis(arguments.as_u64().unwrap_or_default());
                end(self.consumer.poll(wait).await.map(drop))
            }
            "unsubscribe" => end(self.consumer.unsubscribe().await),
            "close" => end(self.consumer.close().await),
            "assignment" => {
                end(self.consumer.assignment(arguments.as_str().unwrap_or_default()).await.map(drop))
            }
            "commit" | "result_type" => {
                Err("the SDK has no such call: only messages can be committed".into())
            }
            _ => {
                let topic = arguments[0].as_str().unwrap_or_default();
                let vgroup = match arguments[1].as_u64() {
                    Some(number) => number as u32,
                    None => self.vgroup().await,
                };
                match verb {
                    "position" => end(self.consumer.position(topic, vgroup).map(drop)),
                    "committed" => end(self.consumer.committed(topic, vgroup).await.map(drop)),
                    _ => {
                        let offset = self.offset(&arguments[2]).await?;
                        match verb {
                            "seek" => end(self.consumer.seek(topic, vgroup, offset)),
                            _ => end(self.consumer.commit_offset_sync(topic, vgroup, offset).await),
                        }
                    }
                }
            }
        }
    }

    /// The vgroup of database `er`.
    async fn vgroup(&self) -> u32 {
        let rows = query(&self.connection, "show er.vgroups").await;
        rows.iter().next().expect("a vgroup").by_name("vgroup_id").expect("its number")
    }

    /// The offset that a word stands for.
    async fn offset(&self, word: &Json) -> Result<i64, String> {
        let Some(word) = word.as_str() else { return Ok(word.as_i64().unwrap_or_default()) };
        let end =
            async || Ok::<_, Error>(self.consumer.assignment("tq").await?.first().map_or(0, |part| part.end));
        match word {
            "minus one" => Ok(-1),
            "minus two" => Ok(-2),
            "beyond end" => end().await.map(|end| end + 1_000),
            "end" => end().await,
            "end + 1" => end().await.map(|end| end + 1),
            _ => Ok(0),
        }
        .map_err(|e| e.to_string())
    }

    async fn subscribe(&mut self, action: &Json, topics: &Json) -> Result<Result<(), Error>, String> {
        let topics: Vec<_> = texts(topics).into_iter().map(str::to_owned).collect();
        if let Some(group) = action["group.id"].as_str() {
            let mut config = self.config("g");
            config.set("group.id", group).map_err(|e| e.to_string())?;
        }
        if action["enable.replay"].as_bool() == Some(true) {
            let mut config = self.config("replaying");
            config.enable_replay = true;
            let consumer = self.connection.consumer(config).map_err(|e| e.to_string())?;
            let done = consumer.subscribe(topics).await;
            consumer.close().await.map_err(|e| e.to_string())?;
            return Ok(done);
        }
        Ok(self.consumer.subscribe(topics).await)
    }

    async fn new_consumer(&self, parameters: &Json, wanted: &str) -> Checked {
        let mut config = self.config("");
        for (key, value) in parameters.as_object().into_iter().flatten() {
            config.set(key, value.as_str().unwrap_or_default()).map_err(|e| e.to_string())?;
        }
        match (Consumer::new(config).await, wanted) {
            (Ok(_), "handle") | (Err(_), "no handle") => Ok(()),
            (got, _) => Err(format!("{got:?}, wanted {wanted}")),
        }
    }
}

fn set(arguments: &Json, wanted: &Json) -> Checked {
    let [key, value] = [&arguments[0], &arguments[1]].map(|a| a.as_str().unwrap_or_default());
    let got = ConsumerConfig::default().set(key, value).map_or_else(|e| e.number(), |()| 0);
    if Some(i64::from(got)) == wanted.as_i64() { Ok(()) } else { Err(format!("{got}, wanted {wanted}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_as_captured() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "alter all dnodes 'mqRebalanceInterval' '1'").await;
    let consumer = connection.consumer(ConsumerConfig::new("g")).expect("a consumer");
    let mut session = Session { server: &server, connection, consumer, state: String::new() };
    let mut consumer = session.config("g");
    consumer.heartbeat_interval_ms = 1_000;
    session.consumer = session.connection.consumer(consumer).expect("a consumer");
    let lines = lines("tmq_errors.jsonl");
    // What a later release allows changes what other lines stand on, and so comes last.
    let is_later = |line: &&Json| list::reason(text(line, "id")).is_some_and(|reason| reason == "3.4");
    let (later, lines): (Vec<_>, Vec<_>) = lines.iter().partition(is_later);
    let mut outcomes = Outcomes::new();
    for line in lines.into_iter().chain(later) {
        let outcome = match text(line, "kind") {
            "setup" => session.setup(line).await,
            "sql" => session.sql(line).await,
            _ => session.api(line).await,
        };
        outcomes.insert(text(line, "id").to_owned(), outcome);
    }
    list::check("err-", &outcomes);
}
