//! What `serve`, `demo` and `bench` take; what they do is elsewhere.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::common::ConnectArgs;

/// `tidemark serve`. Flags win over `TIDEMARK_*` variables, those over the configuration file.
#[derive(Debug, Default, Args)]
#[command(
    after_help = "Once statements are answered, `ready grpc=ADDR http=ADDR` is printed on stdout (http=- while HTTP is\n\
                        not served); the log goes to stderr. SIGTERM and Ctrl-C stop in order, SIGKILL loses nothing\n\
                        that was acknowledged.\n\n\
                        Each setting comes from its flag, else from TIDEMARK_DATA_DIR, TIDEMARK_GRPC, TIDEMARK_HTTP,\n\
                        TIDEMARK_INSECURE, TIDEMARK_QUERY_MEMORY_BYTES, TIDEMARK_RESULT_IDLE_TIMEOUT_MS or\n\
                        TIDEMARK_LOG, else from the file. What --print-config prints is such a file.\n\n\
                        tidemark serve --data-dir /var/lib/tidemark --config /etc/tidemark.toml"
)]
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
    /// Memory of all queries together; one that needs more ends with 0x0102 [default: 1073741824]
    #[arg(long, value_name = "BYTES")]
    pub query_memory_bytes: Option<usize>,
    /// A result of which the client reads nothing for so long ends with 0x020f [default: 600000]
    #[arg(long, value_name = "MS")]
    pub result_idle_timeout_ms: Option<u64>,
    /// Time passes as stdin says: for tests of what takes long
    #[arg(long, hide = true)]
    pub held_clock: bool,
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
#[command(
    after_help = "Starts a server of its own on a port that is free, in a temporary folder; both go when it ends.\n\
                        It kills that server and one of its consumers on purpose."
)]
pub struct DemoArgs {
    /// Keep the data directory and say where it is
    #[arg(long)]
    pub keep: bool,
}

/// `tidemark bench`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each run makes a database and a topic called tidemark_bench anew on the server that it measures,\n\
                        dropping those that are there, and touches nothing else. They stay for a look.\n\n\
                        Bytes a row and CPU seconds of the server are known with --embedded only; what was not\n\
                        measured is null in JSON. Rows are of meters that walk at random by 3.25 bytes a row, the\n\
                        same in every run: data files cannot take less.\n\n\
                        tidemark bench write --embedded --tables 1000 --rows 10000 --batch 10000\n\
                        tidemark bench latency --embedded --rate 1000 --seconds 10 -o json"
)]
pub struct BenchArgs {
    /// What to measure
    #[command(subcommand)]
    pub command: BenchCommand,
    /// Measure a server of its own, started in a temporary folder
    #[arg(long, global = true)]
    pub embedded: bool,
    /// `json` prints an object on stdout too
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_parser = ["table", "json"], default_value = "table")]
    #[arg(global = true)]
    pub output: String,
    /// The server to measure
    #[command(flatten)]
    pub connect: ConnectArgs,
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
        /// One-row writes a second
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
        /// For how many seconds
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
