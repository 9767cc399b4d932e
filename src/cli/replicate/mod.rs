//! `tidemark replicate`: a database built again on another server from a topic of it, and kept equal.
//!
//! `event` reads what the topic tells of tables, `statement` writes it as SQL, `copy` applies it, `barrier` lines the
//! vgroups up at changes of super tables, `run` goes through the topic.

mod barrier;
mod copy;
mod event;
mod run;
mod statement;

use clap::{Args, ValueEnum};
use client::{AutoOffsetReset, ConnectOptions, Connection, ConsumerConfig};
use model::{Code, Error, Result};

use super::common::{note, quoted, text_literal};
use copy::Copy;
use run::{Replication, Source};

/// Where a group without a committed offset starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// At the oldest record that the log still has: the copy is built from nothing
    Earliest,
    /// With what is written from now on: the copy is there already
    Latest,
}

/// `tidemark replicate`.
#[derive(Debug, Args)]
#[command(
    after_help = "The topic is one of a whole database with its events: CREATE TOPIC t WITH META AS DATABASE d. The\n\
                        database is made on the other server if it is missing there, with the same options. Super tables,\n\
                        tables, tags, changes of them, deletes and rows follow; COMMENT and TTL do not.\n\n\
                        Progress is the group's committed offsets on the source. After a crash start the command again: it\n\
                        waits until the group has noticed (6 s) and goes on; what is applied twice changes nothing. One at\n\
                        a time per group.\n\n\
                        What it writes is marked in the other server's log and left out by replications from there: two\n\
                        servers may replicate to each other. Where both change the same row or table, the later wins on\n\
                        each side by itself.\n\n\
                        tidemark replicate --from a:6030 --to b:6030 --topic t --until-end"
)]
pub struct ReplicateArgs {
    /// Server that has the topic
    #[arg(long, value_name = "HOST:PORT")]
    pub from: String,
    /// Server that gets the copy
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// Topic WITH META of a database
    #[arg(long, value_name = "TOPIC")]
    pub topic: String,
    /// Consumer group, whose offsets are the progress
    #[arg(long, value_name = "GROUP", default_value = "replicate")]
    pub group: String,
    /// Name of the copy [default: that of the database]
    #[arg(long, value_name = "DB")]
    pub into: Option<String>,
    /// Where the group starts if it has no offsets yet
    #[arg(long, value_enum, default_value_t = Start::Earliest)]
    pub start: Start,
    /// End when everything that was in the log at the start is applied, rather than follow
    #[arg(long)]
    pub until_end: bool,
    /// Go on where the log no longer has what comes next: the copy lacks it
    #[arg(long)]
    pub accept_loss: bool,
    /// User, on both servers
    #[arg(short = 'u', long, env = "TIDEMARK_USER", value_name = "USER", default_value = "root")]
    #[arg(hide_env_values = true)]
    pub user: String,
    /// Password, on both servers [default: the one that a new server has]
    #[arg(short = 'p', long, env = "TIDEMARK_PASSWORD", value_name = "PASS", default_value = "taosdata")]
    #[arg(hide_env_values = true, hide_default_value = true)]
    pub password: String,
    /// User on the server that gets the copy, where it is another
    #[arg(long, value_name = "USER")]
    pub to_user: Option<String>,
    /// Password there
    #[arg(long, value_name = "PASS", hide_env_values = true)]
    pub to_password: Option<String>,
}

impl ReplicateArgs {
    fn source(&self) -> ConnectOptions {
        ConnectOptions {
            host: self.from.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            ..ConnectOptions::default()
        }
    }

    fn target(&self) -> ConnectOptions {
        ConnectOptions {
            host: self.to.clone(),
            user: self.to_user.as_ref().unwrap_or(&self.user).clone(),
            password: self.to_password.as_ref().unwrap_or(&self.password).clone(),
            replicates: true,
            ..ConnectOptions::default()
        }
    }

    fn consumer(&self) -> ConsumerConfig {
        let mut config = ConsumerConfig::new(&self.group);
        config.auto_offset_reset = match self.start {
            Start::Earliest => AutoOffsetReset::Earliest,
            Start::Latest => AutoOffsetReset::Latest,
        };
        config.client_id = "tidemark replicate".into();
        config.enable_auto_commit = false;
        config.exclude_replicated = true;
        // The shortest there are: whoever goes on after a crash waits for the group to notice.
        config.session_timeout_ms = 6_000;
        config.heartbeat_interval_ms = 1_000;
        config
    }
}

/// Runs it.
pub(super) async fn run(args: ReplicateArgs) -> Result<()> {
    let from = Connection::connect(args.source()).await?;
    let to = Connection::connect(args.target()).await?;
    let database = database_of(&from, &args.topic).await?;
    let into = args.into.as_ref().unwrap_or(&database);
    if args.from == args.to && *into == database {
        return Err(Error::text(Code::InvalidParameters, format!("a copy of {database} into itself"))
            .hint("name another server with --to, or another database with --into"));
    }
    make_database(&from, &database, &to, into).await?;
    let vgroups = vgroups_of(&from, &database).await?;
    let copy = Copy::open(to, into).await?;
    let consumer = from.consumer(args.consumer())?;
    let source =
        Source { topic: args.topic, vgroups, until_end: args.until_end, accept_loss: args.accept_loss };
    let mut replication = Replication::new(consumer, source, copy);
    let done = replication.run().await;
    note(&replication.summary());
    let closed = replication.close().await;
    done.and(closed)
}

/// The database of a topic that tells all of it.
async fn database_of(from: &Connection, topic: &str) -> Result<String> {
    let sql = format!(
        "SELECT db_name, `sql` FROM information_schema.ins_topics WHERE topic_name = {}",
        text_literal(topic)
    );
    let rows = from.sql(&sql).await?.rows().await?;
    let row = rows.iter().next().ok_or_else(|| Error::with(Code::TopicNotExist, topic))?;
    let (database, sql): (String, String) = (row.get(0)?, row.get(1)?);
    let words: Vec<_> = sql.split_whitespace().map(str::to_ascii_uppercase).collect();
    let has = |wanted: [&str; 2]| words.windows(2).any(|pair| pair == wanted);
    if has(["WITH", "META"]) && has(["AS", "DATABASE"]) {
        return Ok(database);
    }
    Err(Error::text(Code::InvalidParameters, format!("topic={topic} does not tell a whole database: {sql}"))
        .hint(format!("CREATE TOPIC name WITH META AS DATABASE {database}")))
}

async fn create_text(connection: &Connection, database: &str) -> Result<String> {
    let rows = connection.sql(&format!("SHOW CREATE DATABASE {}", quoted(database))).await?.rows().await?;
    rows.iter().next().ok_or_else(|| Error::with(Code::DatabaseNotExist, database))?.get(1)
}

/// Makes the copy's database with the options of the source's, if it is missing; one that is there must keep time alike.
async fn make_database(from: &Connection, database: &str, to: &Connection, into: &str) -> Result<()> {
    let wanted = create_text(from, database).await?;
    let prefix = format!("CREATE DATABASE {}", quoted(database));
    let options = wanted.strip_prefix(&prefix).unwrap_or_default();
    to.sql(&format!("CREATE DATABASE IF NOT EXISTS {}{options}", quoted(into))).await?.rows().await?;
    let found = create_text(to, into).await?;
    let precision = |text: &str| {
        let mut words = text.split_whitespace().skip_while(|word| *word != "PRECISION");
        words.nth(1).map(str::to_owned)
    };
    if precision(&wanted) == precision(&found) {
        return Ok(());
    }
    let tell = |text: &str| precision(text).unwrap_or_default();
    Err(Error::text(
        Code::InvalidParameters,
        format!("database {into} has precision {}, and {database} has {}", tell(&found), tell(&wanted)),
    )
    .hint("choose another --into, or drop the database there"))
}

/// The database's vgroups in the order that places tables.
async fn vgroups_of(from: &Connection, database: &str) -> Result<Vec<u32>> {
    let sql = format!(
        "SELECT vgroup_id FROM information_schema.ins_vgroups WHERE db_name = {} ORDER BY vgroup_id",
        text_literal(database)
    );
    let rows = from.sql(&sql).await?.rows().await?;
    rows.iter().map(|row| row.get(0)).collect()
}
