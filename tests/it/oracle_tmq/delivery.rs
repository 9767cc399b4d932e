//! `tmq_delivery.jsonl`: small programs of SQL and consumer calls.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Connection, Consumer, ConsumerConfig, Error, Message};
use futures::StreamExt as _;
use serde_json::{Map, Value as Json};

use super::deviations::{Catalogue, Condition, correct_steps, cut};
use super::messages::{Seen, by_source, compare, tags};
use super::{Outcomes, code_text, compare_end, lines, list, replace_words, run, text, texts};
use crate::support::{PATIENCE, Server, connect, query, read_to_the_end as drain, wait_for};

/// Programs that run at a time.
const PROGRAMS: usize = 6;

/// A program under way.
struct Program {
    line: Json,
    connection: Connection,
    /// Names of the capture and what they are here.
    names: Vec<(String, String)>,
    consumers: BTreeMap<String, Consumer>,
    received: BTreeMap<String, Vec<Message>>,
    /// Vgroup, offset as captured, and ours.
    offsets: Vec<(u64, i64, i64)>,
}

type Checked = Result<(), String>;

impl Program {
    async fn new(line: Json, server: &Server) -> Result<Self, String> {
        let number = text(&line, "id").rsplit('-').next().unwrap_or_default().to_owned();
        let names: Vec<_> = ["DB", "T", "U", "G", "G_A", "G_B"]
            .map(|n| (n.to_owned(), format!("{}_{number}", n.to_lowercase())))
            .into();
        let connection = connect(server).await;
        let mut program = Self {
            connection,
            names,
            consumers: BTreeMap::new(),
            received: BTreeMap::new(),
            offsets: Vec::new(),
            line,
        };
        let first = program.line["database"].clone();
        let setup = [text(&program.line, "database"), "use DB"].into_iter().map(str::to_owned);
        let rest = texts(&program.line["setup"])
            .into_iter()
            .chain(texts(&program.line["topics"]))
            .map(str::to_owned);
        assert!(first.is_string(), "a database");
        for sql in setup.chain(rest).collect::<Vec<_>>() {
            program.sql(&sql).await.map_err(|e| format!("{sql}: {e}"))?;
        }
        let parameters: BTreeMap<String, BTreeMap<String, String>> =
            serde_json::from_value(program.line["consumers"].clone()).expect("consumers");
        for (name, parameters) in parameters {
            let mut config = ConsumerConfig::default();
            for (key, value) in parameters {
                let value = if key == "group.id" { program.rename(&value) } else { value };
                config.set(&key, &value).map_err(|e| format!("{key}: {e}"))?;
            }
            let consumer = program.connection.consumer(config).map_err(|e| e.to_string())?;
            program.consumers.insert(name, consumer);
        }
        Ok(program)
    }

    fn rename(&self, text: &str) -> String {
        let words: Vec<_> = self.names.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        replace_words(text, &words)
    }

    /// The capture's name of one of ours.
    fn name_back(&self, ours: &str) -> String {
        self.names.iter().find(|(_, to)| to == ours).map_or(ours, |(from, _)| from).to_owned()
    }

    async fn sql(&self, sql: &str) -> Result<(), Error> {
        run(&self.connection, &self.rename(sql)).await
    }

    async fn step(&mut self, step: &Map<String, Json>) -> Checked {
        let answer = Json::Object(step.clone());
        let rc = |got: Result<(), Error>| compare_end(got, &answer["rc"], text(&answer, "text"));
        let verbs = [
            "sql",
            "subscribe",
            "drain",
            "poll",
            "timed",
            "commit",
            "commit_offset",
            "seek",
            "position",
            "committed",
            "assignment",
            "topics",
            "unsubscribe",
            "close",
            "wait",
        ];
        let verb = verbs
            .into_iter()
            .find(|verb| step.contains_key(*verb) && !(*verb == "topics" && step.contains_key("subscribe")));
        let verb = verb.ok_or("a step of an unknown kind")?;
        if verb == "wait" {
            // Nothing here is worth time by itself: what the transcript waits for is waited for where it is looked at.
            return Ok(());
        }
        if verb == "sql" {
            return compare_end(self.sql(text(&answer, "sql")).await, &answer["code"], text(&answer, "text"));
        }
        let name = text(&answer, verb).to_owned();
        let consumer = self.consumers.get(&name).ok_or("no such consumer")?;
        match verb {
            "subscribe" => {
                let topics: Vec<_> = texts(&answer["topics"]).into_iter().map(|t| self.rename(t)).collect();
                rc(consumer.subscribe(topics).await)
            }
            "unsubscribe" => rc(consumer.unsubscribe().await),
            "close" => rc(consumer.close().await),
            "commit" => {
                let message = answer["msg"].as_u64().map(|at| at as usize);
                rc(match message {
                    None => consumer.commit_all_sync().await,
                    Some(at) => {
                        let messages = self.received.get(&name).map_or(&[][..], Vec::as_slice);
                        consumer.commit_sync(messages.get(at).ok_or("no such message")?).await
                    }
                })
            }
            "topics" => {
                let mut got: Vec<_> = consumer.subscription().iter().map(|t| self.name_back(t)).collect();
                got.sort();
                same(&got, &texts(&answer["result"]).into_iter().map(str::to_owned).collect())
            }
            "drain" => {
                let messages = drain(consumer).await.map_err(|e| e.to_string())?;
                self.took(&name, messages, &answer["messages"]).await
            }
            "poll" => self.poll(&name, &answer).await,
            "timed" => self.timed(&name, &answer).await,
            "seek" | "commit_offset" => self.move_to(&name, verb, &answer).await,
            _ => self.offsets_of(&name, verb, &answer["result"]).await,
        }
    }

    async fn poll(&mut self, name: &str, answer: &Json) -> Checked {
        let ms = Duration::from_millis(answer["ms"].as_u64().unwrap_or_default());
        let is_silent = tags(&self.line).contains(&"none-silent");
        match self.consumers[name].poll(ms).await {
            Err(e) if is_silent && code_text(e.code()) == "0x0A0D" => Ok(()),
            Err(e) => compare_end(Err(e), &answer["error"], ""),
            Ok(got) => {
                let messages = Json::Array(
                    Some(answer["message"].clone()).filter(|m| !m.is_null()).into_iter().collect(),
                );
                self.took(name, got.into_iter().collect(), &messages).await
            }
        }
    }

    /// The gaps between the messages of a replay are on a clock that the test moves: `s15_72`.
    async fn timed(&mut self, name: &str, answer: &Json) -> Checked {
        let wanted = answer["messages"].as_array().map_or(0, Vec::len);
        let mut messages = Vec::new();
        while messages.len() < wanted {
            let next = self.consumers[name].poll(PATIENCE).await.map_err(|e| e.to_string())?;
            messages.push(next.ok_or("a message less than captured")?);
        }
        self.took(name, messages, &answer["messages"]).await
    }

    /// Compares what a consumer received in one step with what was captured.
    async fn took(&mut self, name: &str, messages: Vec<Message>, captured: &Json) -> Checked {
        let mut got: BTreeMap<(String, u64), Vec<Seen>> = BTreeMap::new();
        let mut ours: BTreeMap<(String, u64), Vec<i64>> = BTreeMap::new();
        for message in &messages {
            let rank = self.rank(name, message.topic(), message.vgroup()).await?;
            let key = (self.name_back(message.topic()), rank);
            if self.name_back(message.database()) != "DB" {
                return Err(format!("of database {}", message.database()));
            }
            got.entry(key.clone()).or_default().push(Seen::of_message(message));
            ours.entry(key).or_default().push(message.offset());
        }
        self.received.entry(name.to_owned()).or_default().extend(messages);
        let condition = Condition { stable: "m", tag: Some(("g", 2)) };
        let mut wanted = by_source(captured);
        for list in wanted.values_mut() {
            *list = cut(&self.line, Some(condition), std::mem::take(list), &Catalogue::default());
        }
        wanted.retain(|_, list| !list.is_empty());
        for key in wanted.keys().chain(got.keys()) {
            let of = |map: &BTreeMap<_, Vec<Seen>>| map.get(key).cloned().unwrap_or_default();
            compare(&of(&wanted), &of(&got))
                .map_err(|why| format!("{} of vgroup {}: {why}", key.0, key.1))?;
        }
        // Offsets stand for one another where the messages do.
        let mut theirs: BTreeMap<(String, u64), Vec<Option<i64>>> = BTreeMap::new();
        for message in captured.as_array().into_iter().flatten() {
            let key = (text(message, "topic").to_owned(), message["vg"].as_u64().unwrap_or_default());
            theirs.entry(key).or_default().push(message["offset"].as_i64());
        }
        for (key, ours) in &ours {
            if !ours.is_sorted() {
                return Err(format!("offsets go back: {ours:?}"));
            }
            let theirs = theirs.get(key).filter(|theirs| theirs.len() == ours.len());
            for (theirs, ours) in theirs.into_iter().flatten().zip(ours) {
                self.offsets.extend(theirs.map(|theirs| (key.1, theirs, *ours)));
            }
        }
        Ok(())
    }

    /// The number of a vgroup among those of its database.
    async fn rank(&self, name: &str, topic: &str, vgroup: u32) -> Result<u64, String> {
        let parts = self.consumers[name].assignment(topic).await.map_err(|e| e.to_string())?;
        parts
            .iter()
            .position(|part| part.vgroup == vgroup)
            .map(|at| at as u64)
            .ok_or_else(|| "a foreign vgroup".into())
    }

    async fn move_to(&mut self, name: &str, verb: &str, answer: &Json) -> Checked {
        let consumer = &self.consumers[name];
        let mut results = Vec::new();
        let target = answer["to"]["msg"].as_u64().map(|at| at as usize);
        for topic in consumer.subscription() {
            let parts = consumer.assignment(&topic).await.map_err(|e| e.to_string())?;
            for part in parts {
                let to = match (target, answer["to"].as_str()) {
                    (Some(at), _) => {
                        let messages = self.received.get(name).map_or(&[][..], Vec::as_slice);
                        messages.get(at).ok_or("no such message")?.offset()
                    }
                    (None, Some("end")) => part.end,
                    _ => part.begin,
                };
                results.push(match verb {
                    "seek" => consumer.seek(&topic, part.vgroup, to),
                    _ => consumer.commit_offset_sync(&topic, part.vgroup, to).await,
                });
            }
        }
        let wanted = answer["rc"].as_array().cloned().unwrap_or_default();
        if wanted.len() != results.len() {
            return Err(format!("{} answers, wanted {}", results.len(), wanted.len()));
        }
        results.into_iter().zip(&wanted).try_for_each(|(got, wanted)| compare_end(got, wanted, ""))
    }

    async fn offsets_of(&mut self, name: &str, verb: &str, result: &Json) -> Checked {
        let consumer = &self.consumers[name];
        for topic in consumer.subscription() {
            let wanted = &result[self.name_back(&topic)];
            if verb == "assignment" {
                let parts = consumer.assignment(&topic).await.map_err(|e| e.to_string())?;
                for (rank, part) in parts.iter().enumerate() {
                    let wanted = &wanted[rank];
                    for (key, ours) in [("current", part.current), ("begin", part.begin), ("end", part.end)] {
                        let theirs = wanted[key].as_i64().ok_or("a vgroup that was not captured")?;
                        self.offsets.push((rank as u64, theirs, ours));
                    }
                }
                continue;
            }
            let vgroups: Vec<_> = wanted.as_object().into_iter().flatten().collect();
            // Only programs of one vgroup ask for these.
            let vgroup = self.vgroups(&topic).await.map_err(|e| e.to_string())?;
            for (rank, wanted) in vgroups {
                let at = rank.parse::<usize>().map_err(|e| e.to_string())?;
                let vgroup = *vgroup.get(at).ok_or("a vgroup less than captured")?;
                let got = match verb {
                    "position" => consumer.position(&topic, vgroup),
                    _ => {
                        if wanted.is_i64() && self.commits_by_itself(name) {
                            // A poll after the interval commits.
                            wait_for("the automatic commit", || async {
                                let polled = consumer.poll(Duration::from_millis(50)).await;
                                polled.is_ok() && consumer.committed(&topic, vgroup).await.is_ok()
                            })
                            .await;
                        }
                        consumer.committed(&topic, vgroup).await
                    }
                };
                match (wanted.as_i64(), got) {
                    (Some(theirs), Ok(ours)) => self.offsets.push((at as u64, theirs, ours)),
                    (Some(theirs), Err(e)) => return Err(format!("{verb}: {e}, wanted {theirs}")),
                    (None, got) => {
                        compare_end(got.map(drop), wanted, "").map_err(|why| format!("{verb}: {why}"))?
                    }
                }
            }
        }
        Ok(())
    }

    fn commits_by_itself(&self, name: &str) -> bool {
        self.line["consumers"][name]["enable.auto.commit"] == "true"
    }

    /// The vgroups of the database, without asking through the consumer, which is what some programs are about.
    async fn vgroups(&self, topic: &str) -> Result<Vec<u32>, Error> {
        let database = self.rename("DB");
        let _ = topic;
        let rows = query(&self.connection, &format!("show {database}.vgroups")).await;
        rows.iter().map(|row| row.by_name("vgroup_id")).collect()
    }

    /// Captured offsets that are equal are equal here, and none stand the other way round.
    fn compare_offsets(&self) -> Checked {
        for (at, (vgroup, theirs, ours)) in self.offsets.iter().enumerate() {
            for (_, other_theirs, other_ours) in self.offsets[..at].iter().filter(|other| other.0 == *vgroup)
            {
                let (wanted, got) = (theirs.cmp(other_theirs), ours.cmp(other_ours));
                if wanted != got {
                    return Err(format!(
                        "offsets {ours} and {other_ours}, captured {theirs} and {other_theirs}"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, wanted: &T) -> Checked {
    if got == wanted { Ok(()) } else { Err(format!("{got:?}, wanted {wanted:?}")) }
}

async fn replay(line: Json, server: &Server) -> Checked {
    let mut program = Program::new(line, server).await?;
    let steps = correct_steps(&program.line);
    for (at, step) in steps.iter().enumerate() {
        let step = step.as_object().ok_or("a step is an object")?;
        program.step(step).await.map_err(|why| format!("step {at}: {why}"))?;
    }
    program.compare_offsets()
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_as_captured() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "alter all dnodes 'mqRebalanceInterval' '1'").await;
    query(&connection, "alter all dnodes 'tmqMaxTopicNum' '200'").await;
    let programs = lines("tmq_delivery.jsonl").into_iter().map(|line| async {
        let id = text(&line, "id").to_owned();
        (id, replay(line, &server).await)
    });
    let outcomes: Outcomes = futures::stream::iter(programs).buffer_unordered(PROGRAMS).collect().await;
    list::check("delivery-", &outcomes);
}
