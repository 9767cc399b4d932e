//! Settings of `tidemark serve`: file, then environment, then flags; the last that speaks wins.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use model::{Code, Error, Result};
use query::engine::EngineSettings;
use serde::Deserialize;

/// Ten minutes: longer than anybody looks at a page of rows before asking for the next.
const RESULT_IDLE_TIMEOUT_MS: u64 = 600_000;

/// Where a setting's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The configuration file.
    File,
    /// `TIDEMARK_*`.
    Environment,
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// A value and who gave it.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// In force.
    pub value: T,
    /// From where.
    pub origin: Origin,
}

/// Settings in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where everything is stored.
    pub data_dir: Setting<PathBuf>,
    /// Address of the gRPC listener; port 0 lets the system choose.
    pub grpc: Setting<SocketAddr>,
    /// Address of the HTTP listener. Accepted, not yet served.
    pub http: Setting<SocketAddr>,
    /// Listen beyond loopback although root still has the default password.
    pub insecure: Setting<bool>,
    /// Memory of all queries together, in bytes; past it a query ends with [`Code::OutOfMemory`].
    pub query_memory_bytes: Setting<usize>,
    /// A result of which the client reads nothing for so long, in milliseconds, ends with [`Code::Terminated`].
    pub result_idle_timeout_ms: Setting<u64>,
    /// Filter of the log on stderr, as `tracing` writes it.
    pub log: Setting<String>,
}

/// One source of settings: what it says, and nothing of what it does not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// See [`Config`].
    pub data_dir: Option<PathBuf>,
    /// See [`Config`].
    pub grpc: Option<String>,
    /// See [`Config`].
    pub http: Option<String>,
    /// See [`Config`].
    pub insecure: Option<bool>,
    /// See [`Config`].
    pub query_memory_bytes: Option<usize>,
    /// See [`Config`].
    pub result_idle_timeout_ms: Option<u64>,
    /// See [`Config`].
    pub log: Option<String>,
}

impl Layer {
    /// The layer of a TOML file.
    ///
    /// # Errors
    /// [`Code::InvalidConfig`] naming file, line and cause; [`Code::Io`].
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::text(Code::Io, format!("cannot read the configuration: path={} cause={e}", path.display()))
                .caused_by(e)
        })?;
        toml::from_str(&text).map_err(|e| {
            let cause = e.message().to_owned();
            let line = e
                .span()
                .and_then(|span| text.get(..span.start))
                .map_or(1, |before| before.lines().count().max(1));
            Error::with(Code::InvalidConfig, format!("path={} line={line} cause={cause}", path.display()))
        })
    }

    /// The layer of the environment; `lookup` answers for a variable.
    ///
    /// # Errors
    /// [`Code::InvalidConfig`] naming the variable.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let insecure = match lookup("TIDEMARK_INSECURE").as_deref() {
            None => None,
            Some("1" | "true") => Some(true),
            Some("0" | "false" | "") => Some(false),
            Some(other) => {
                return Err(Error::with(Code::InvalidConfig, format!("TIDEMARK_INSECURE={other}"))
                    .hint("write true or false"));
            }
        };
        Ok(Self {
            data_dir: lookup("TIDEMARK_DATA_DIR").map(PathBuf::from),
            grpc: lookup("TIDEMARK_GRPC"),
            http: lookup("TIDEMARK_HTTP"),
            insecure,
            query_memory_bytes: number(&lookup, "TIDEMARK_QUERY_MEMORY_BYTES", "bytes, such as 1073741824")?,
            result_idle_timeout_ms: number(
                &lookup,
                "TIDEMARK_RESULT_IDLE_TIMEOUT_MS",
                "milliseconds, such as 600000",
            )?,
            log: lookup("TIDEMARK_LOG"),
        })
    }
}

impl Config {
    /// Lays the layers over the built-in values, weakest first.
    ///
    /// # Errors
    /// [`Code::InvalidConfig`] where a value does not read.
    pub fn merge(layers: Vec<(Origin, Layer)>) -> Result<Self> {
        let mut config = Self {
            data_dir: Setting { value: PathBuf::from("tidemark-data"), origin: Origin::Default },
            grpc: Setting { value: SocketAddr::from(([127, 0, 0, 1], 6030)), origin: Origin::Default },
            http: Setting { value: SocketAddr::from(([127, 0, 0, 1], 6041)), origin: Origin::Default },
            insecure: Setting { value: false, origin: Origin::Default },
            query_memory_bytes: Setting {
                value: EngineSettings::default().memory_bytes,
                origin: Origin::Default,
            },
            result_idle_timeout_ms: Setting { value: RESULT_IDLE_TIMEOUT_MS, origin: Origin::Default },
            log: Setting { value: "info,openraft=warn".to_owned(), origin: Origin::Default },
        };
        for (origin, layer) in layers {
            lay(&mut config.data_dir, origin, layer.data_dir);
            lay(&mut config.grpc, origin, address("grpc", layer.grpc)?);
            lay(&mut config.http, origin, address("http", layer.http)?);
            lay(&mut config.insecure, origin, layer.insecure);
            lay(&mut config.query_memory_bytes, origin, layer.query_memory_bytes);
            lay(&mut config.result_idle_timeout_ms, origin, layer.result_idle_timeout_ms);
            lay(&mut config.log, origin, layer.log);
        }
        Ok(config)
    }
}

/// The whole number in a variable of the environment.
fn number<T: FromStr>(lookup: &impl Fn(&str) -> Option<String>, name: &str, unit: &str) -> Result<Option<T>> {
    let Some(text) = lookup(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::with(Code::InvalidConfig, format!("{name}={text}"))
            .hint(format!("write a number of {unit}"))),
    }
}

fn lay<T>(setting: &mut Setting<T>, origin: Origin, value: Option<T>) {
    if let Some(value) = value {
        *setting = Setting { value, origin };
    }
}

fn address(name: &str, text: Option<String>) -> Result<Option<SocketAddr>> {
    let Some(text) = text else { return Ok(None) };
    let text = text.replace("localhost", "127.0.0.1");
    match text.parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => Err(Error::with(Code::InvalidConfig, format!("{name}={text} is no address"))
            .hint("write HOST:PORT with a numeric host, such as 127.0.0.1:6030")),
    }
}

impl fmt::Display for Config {
    /// The settings as a configuration file, each with its source as a comment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "data_dir = {:?}  # {}", self.data_dir.value, self.data_dir.origin)?;
        writeln!(f, "grpc = \"{}\"  # {}", self.grpc.value, self.grpc.origin)?;
        writeln!(f, "http = \"{}\"  # {}", self.http.value, self.http.origin)?;
        writeln!(f, "insecure = {}  # {}", self.insecure.value, self.insecure.origin)?;
        writeln!(
            f,
            "query_memory_bytes = {}  # {}",
            self.query_memory_bytes.value, self.query_memory_bytes.origin
        )?;
        writeln!(
            f,
            "result_idle_timeout_ms = {}  # {}",
            self.result_idle_timeout_ms.value, self.result_idle_timeout_ms.origin
        )?;
        writeln!(f, "log = {:?}  # {}", self.log.value, self.log.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_layer_that_speaks_wins() {
        let file = Layer { grpc: Some("127.0.0.1:1".into()), log: Some("debug".into()), ..Layer::default() };
        let environment =
            Layer::from_environment(|name| (name == "TIDEMARK_GRPC").then(|| "localhost:2".into())).unwrap();
        let flags = Layer { insecure: Some(true), query_memory_bytes: Some(1 << 20), ..Layer::default() };
        let config = Config::merge(vec![
            (Origin::File, file),
            (Origin::Environment, environment),
            (Origin::Flag, flags),
        ])
        .unwrap();
        let text = config.to_string();
        assert!(text.contains("grpc = \"127.0.0.1:2\"  # environment"), "{text}");
        assert!(text.contains("log = \"debug\"  # file"), "{text}");
        assert!(text.contains("insecure = true  # flag"), "{text}");
        assert!(text.contains("query_memory_bytes = 1048576  # flag"), "{text}");
        assert!(text.contains("http = \"127.0.0.1:6041\"  # default"), "{text}");
        let again: Layer = toml::from_str(&text).unwrap();
        assert_eq!(again.insecure, Some(true), "what is printed can be used as a file");
    }

    #[test]
    fn a_wrong_file_names_line_and_cause() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.toml");
        std::fs::write(&path, "log = \"info\"\ngrcp = \"127.0.0.1:1\"\n").unwrap();
        let error = Layer::from_file(&path).unwrap_err();
        assert_eq!(error.code(), Code::InvalidConfig);
        assert!(error.message().contains("line=2") || error.message().contains("line=1"), "{error}");
        assert!(error.message().contains("grcp"), "{error}");
        let bad = Layer { grpc: Some("here".into()), ..Layer::default() };
        assert_eq!(Config::merge(vec![(Origin::Flag, bad)]).unwrap_err().code(), Code::InvalidConfig);
    }
}
