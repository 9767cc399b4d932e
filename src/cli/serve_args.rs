//! What `serve`, `demo` and `bench` take; what they do is elsewhere.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::common::ConnectArgs;

/// `tidemark serve`. Flags win over `TIDEMARK_*` variables, those over the configuration file.
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    /// Where everything is stored [default: tidemark-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where gRPC clients connect; port 0 lets the system choose [default: 127.0.0.1:6030]
    #[arg(long, value_name = "ADDR")]
    pub grpc: Option<String>,
    /// Where HTTP clients connect; not served yet [default: 127.0.0.1:6041]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen beyond this machine although root still has the default password
    #[arg(long)]
    pub insecure: bool,
    /// Show the settings in force, each with its source, and exit
    #[arg(long)]
    pub print_config: bool,
    /// What this node does; so far each node does all
    #[arg(long, value_name = "ROLES", value_enum, value_delimiter = ',')]
    pub roles: Vec<Role>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Metadata, data and clients
    All,
}

/// `tidemark demo`.
#[derive(Debug, Default, Args)]
pub struct DemoArgs {
    /// Keep the data directory and say where it is
    #[arg(long)]
    pub keep: bool,
}

/// `tidemark bench`. Makes a database and a topic called `tidemark_bench` on the server that it measures.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[command(subcommand)]
    pub command: BenchCommand,
    /// The server to measure
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Start a server of its own, in a temporary folder, and measure that
    #[arg(long, global = true)]
    pub embedded: bool,
    /// `json` prints one object on stdout beside the table on stderr
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_parser = ["table", "json"], default_value = "table")]
    #[arg(global = true)]
    pub output: String,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Rows written a second
    #[command(disable_help_flag = true)]
    Write {
        /// Child tables
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        tables: u64,
        /// Rows of each table
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        rows: u64,
        /// Rows of one write
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        batch: u64,
        /// Connections that write side by side
        #[arg(long, default_value_t = 4)]
        clients: u32,
        /// Columns by the SDK's writer, or INSERT text
        #[arg(long, value_enum, default_value_t = WriteMode::Columnar)]
        mode: WriteMode,
        /// Table after table, or all tables instant by instant
        #[arg(long, value_enum, default_value_t = WriteOrder::Device)]
        order: WriteOrder,
    },
    /// Rows read a second from a backlog
    #[command(disable_help_flag = true)]
    Consume {
        /// Kind of the topic
        #[arg(long, value_enum, default_value_t = TopicKindArg::Query)]
        kind: TopicKindArg,
        /// Consumers in the group
        #[arg(long, default_value_t = 1)]
        consumers: u32,
        /// Rows of the backlog
        #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        rows: u64,
        /// Rows of one write
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        batch: u64,
    },
    /// Time from write to delivery, beside a bare round trip
    #[command(disable_help_flag = true)]
    Latency {
        /// Writes a second
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
        /// How long
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        seconds: u64,
        /// Kind of the topic
        #[arg(long, value_enum, default_value_t = TopicKindArg::Query)]
        kind: TopicKindArg,
    },
    /// Time of typical queries
    #[command(disable_help_flag = true)]
    Query {
        /// Child tables
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        tables: u64,
        /// Rows of each table
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        rows: u64,
    },
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WriteMode {
    /// Columns
    Columnar,
    /// INSERT text
    Sql,
}

/// In which order rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WriteOrder {
    /// Table after table
    Device,
    /// Instant after instant
    Time,
}

/// Kind of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopicKindArg {
    /// AS SELECT
    Query,
    /// AS STABLE
    Stable,
    /// AS DATABASE
    Database,
}
