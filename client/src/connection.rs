//! A logged-in way to one server that mends itself.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::{Code, Error, Result, TimeUnit, Zone};
use parking_lot::Mutex;
use proto::v1;
use proto::v1::session_client::SessionClient;
use proto::v1::sql_client::SqlClient;
use proto::v1::subscription_client::SubscriptionClient;
use proto::v1::writer_client::WriterClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::retry::RetryPolicy;
use crate::sql::QueryResult;

/// Where to connect and as whom.
#[derive(Clone)]
pub struct ConnectOptions {
    /// `host:port`, or just the host with the default port 6030.
    pub host: String,
    /// User name.
    pub user: String,
    /// Password; never logged.
    pub password: String,
    /// Database that unqualified names are in; empty: none.
    pub database: String,
    /// Zone of times without an offset, as `UTC`, `+08:00` or `Europe/Berlin`; empty: UTC.
    pub zone: String,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// How calls after the first are tried again while the server cannot be reached.
    pub retry: RetryPolicy,
    /// What this connection writes was written elsewhere first, and is brought here by replication: the server's log marks
    /// it so, and consumers with `msg.consume.excluded` leave it out.
    pub replicates: bool,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            host: "127.0.0.1:6030".into(),
            user: "root".into(),
            password: "taosdata".into(),
            database: String::new(),
            zone: String::new(),
            connect_timeout: Duration::from_secs(5),
            retry: RetryPolicy::default(),
            replicates: false,
        }
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, user, database, zone, .. } = self;
        f.debug_struct("ConnectOptions")
            .field("host", host)
            .field("user", user)
            .field("database", database)
            .field("zone", zone)
            .finish_non_exhaustive()
    }
}

const DEFAULT_PORT: u16 = 6030;
/// A consumer's backlog and a query's rows must not stop for a round trip after every 64 KiB, HTTP/2's default.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// A peer that vanished without a word is noticed after these two.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A session with one server. Clones share it: the login, the current database, the channel.
///
/// The channel is made anew when it broke, and the login is repeated when a restarted server no longer knows it. A call
/// that did not reach the server is tried again as [`ConnectOptions::retry`] says. One that may have reached it is
/// repeated only where that cannot do harm; else the caller learns that its fate is unknown.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    options: ConnectOptions,
    channel: Channel,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// Held while logging in, so that many calls that find the token stale log in once.
    login: tokio::sync::Mutex<()>,
    database: Mutex<String>,
    server_version: Mutex<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

/// What a call needs: the channel and the token.
#[derive(Clone)]
pub(crate) struct Session {
    channel: Channel,
    token: MetadataValue<Ascii>,
}

impl Session {
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.token.clone());
        request
    }

    pub(crate) fn sql(&self) -> SqlClient<Channel> {
        SqlClient::new(self.channel.clone())
            .max_decoding_message_size(proto::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(proto::MESSAGE_BYTES_MAX)
    }

    pub(crate) fn writer(&self) -> WriterClient<Channel> {
        WriterClient::new(self.channel.clone())
            .max_decoding_message_size(proto::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(proto::MESSAGE_BYTES_MAX)
    }

    pub(crate) fn subscription(&self) -> SubscriptionClient<Channel> {
        SubscriptionClient::new(self.channel.clone())
            .max_decoding_message_size(proto::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(proto::MESSAGE_BYTES_MAX)
    }
}

/// What a failed call allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Doing it twice is as good as once.
    Always,
    /// Only when it surely was not done.
    IfNotSent,
}

impl Connection {
    /// Connects and logs in, in one attempt.
    ///
    /// # Errors
    /// [`Code::Unreachable`] without a server, [`Code::AuthFailure`] for a wrong user or password,
    /// [`Code::InvalidParameters`] for an address or zone that is none.
    pub async fn connect(options: ConnectOptions) -> Result<Self> {
        if !options.zone.is_empty() && Zone::parse(&options.zone).is_none() {
            return Err(Error::with(Code::InvalidParameters, format!("zone={}", options.zone)));
        }
        let endpoint = endpoint(&options)?;
        // Eager, so that a wrong address is told here; the channel itself connects anew later, whenever it must.
        let channel = match endpoint.connect().await {
            Ok(channel) => channel,
            Err(error) => {
                let (why, cure) = unreachable(&endpoint, &error).await;
                let text = format!("host={}: {why}", options.host);
                return Err(Error::with(Code::Unreachable, text).hint(cure).caused_by(error));
            }
        };
        let host = options.host.clone();
        let connection = Self {
            inner: Arc::new(Inner {
                channel,
                token: Mutex::new(None),
                login: tokio::sync::Mutex::new(()),
                database: Mutex::new(options.database.clone()),
                server_version: Mutex::new(String::new()),
                options,
            }),
        };
        // Every error of ours has details: without them the login broke on its way, or something else answered it.
        connection.session().await.map_err(|status| match status.details().is_empty() {
            true => Error::with(
                Code::Unreachable,
                format!("host={host}: something listens, and no Tidemark server answers"),
            )
            .hint("give the gRPC address that `tidemark serve` prints; TLS is not spoken")
            .caused_by(status),
            false => proto::status::from_status(&status),
        })?;
        Ok(connection)
    }

    /// Runs one statement. Rows stream in as they are read from the result; dropping it, or this call's future, cancels
    /// the statement.
    ///
    /// # Errors
    /// What the server says of the statement. [`Code::Unreachable`] when the connection broke, [`Code::ShuttingDown`] when
    /// the server stops: a statement that only reads has then been tried again, any other may or may not have been carried
    /// out.
    pub async fn sql(&self, sql: &str) -> Result<QueryResult> {
        let repeat = if only_reads(sql) { Repeat::Always } else { Repeat::IfNotSent };
        let request = v1::ExecuteRequest {
            sql: sql.to_owned(),
            database: self.database(),
            zone: self.inner.options.zone.clone(),
        };
        let result = self
            .call(repeat, |session| {
                let (request, connection) = (session.request(request.clone()), self.clone());
                async move {
                    let stream = session.sql().execute(request).await?.into_inner();
                    QueryResult::open(stream, connection).await
                }
            })
            .await;
        match repeat {
            Repeat::Always => result,
            Repeat::IfNotSent => result.map_err(of_unknown_fate),
        }
    }

    /// Writes lines of InfluxDB's line protocol into the current database; answers the rows. `unit` is that of their times:
    /// an hour, a minute, a second or a part of one. Super tables, columns and tags that they need are made.
    ///
    /// # Errors
    /// What is wrong with a line, with its place: nothing is written then. [`Code::Unreachable`] when the connection broke:
    /// the lines may or may not have been written, and where each has a time writing them again does no harm.
    pub async fn write_lines(&self, lines: &str, unit: TimeUnit) -> Result<u64> {
        let request = v1::WriteLinesRequest {
            database: self.database(),
            lines: lines.to_owned(),
            unit: unit.letter().to_string(),
        };
        let written = self.call(Repeat::IfNotSent, |session| {
            let request = session.request(request.clone());
            async move { Ok(session.writer().write_lines(request).await?.into_inner().affected_rows) }
        });
        written.await.map_err(of_unknown_fate)
    }

    /// One bare round trip.
    ///
    /// # Errors
    /// [`Code::Unreachable`] when there is none.
    pub async fn ping(&self) -> Result<()> {
        self.call(Repeat::Always, |session| async move {
            let request = session.request(v1::PingRequest::default());
            SessionClient::new(session.channel.clone()).ping(request).await.map(drop)
        })
        .await
    }

    /// Names to complete what a user types: databases, and tables and columns of the current one.
    ///
    /// # Errors
    /// What the server says.
    pub async fn complete(&self) -> Result<Vec<String>> {
        let database = self.database();
        self.call(Repeat::Always, |session| {
            let request = session.request(v1::CompleteRequest { database: database.clone() });
            async move { Ok(session.sql().complete(request).await?.into_inner().names) }
        })
        .await
    }

    /// The current database, empty where there is none. `USE` changes it for every clone of this connection.
    #[must_use]
    pub fn database(&self) -> String {
        self.inner.database.lock().clone()
    }

    pub(crate) fn set_database(&self, database: String) {
        *self.inner.database.lock() = database;
    }

    /// Version of the server at the last login.
    #[must_use]
    pub fn server_version(&self) -> String {
        self.inner.server_version.lock().clone()
    }

    /// What it was opened with.
    #[must_use]
    pub fn options(&self) -> &ConnectOptions {
        &self.inner.options
    }

    /// Runs `call` with a valid login, again after a fresh one where the server no longer knows it, and again while the
    /// server cannot be reached and `repeat` allows.
    pub(crate) async fn call<T, F, Fut>(&self, repeat: Repeat, call: F) -> Result<T>
    where
        F: Fn(Session) -> Fut,
        Fut: Future<Output = Result<T, Status>>,
    {
        let mut failed = 0;
        loop {
            let status = match self.once(&call).await {
                Ok(done) => return Ok(done),
                Err(status) => status,
            };
            let error = proto::status::from_status(&status);
            let again = is_server_gone(&error) && (repeat == Repeat::Always || was_not_sent(&status));
            failed += 1;
            match self.inner.options.retry.pause_after(failed) {
                Some(pause) if again => tokio::time::sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// One attempt, two where the first finds its login forgotten.
    pub(crate) async fn once<T, F, Fut>(&self, call: &F) -> Result<T, Status>
    where
        F: Fn(Session) -> Fut,
        Fut: Future<Output = Result<T, Status>>,
    {
        let session = self.session().await?;
        let token = session.token.clone();
        match call(session).await {
            Err(status) if proto::status::from_status(&status).code() == Code::AuthFailure => {
                self.forget(&token);
                call(self.session().await?).await
            }
            other => other,
        }
    }

    fn forget(&self, stale: &MetadataValue<Ascii>) {
        let mut token = self.inner.token.lock();
        if token.as_ref() == Some(stale) {
            *token = None;
        }
    }

    pub(crate) async fn session(&self) -> Result<Session, Status> {
        let channel = self.inner.channel.clone();
        let known = || self.inner.token.lock().clone();
        if let Some(token) = known() {
            return Ok(Session { channel, token });
        }
        let _one_at_a_time = self.inner.login.lock().await;
        if let Some(token) = known() {
            return Ok(Session { channel, token });
        }
        let options = &self.inner.options;
        let request = v1::LoginRequest {
            user: options.user.clone(),
            password: options.password.clone(),
            replicates: options.replicates,
        };
        let login = SessionClient::new(channel.clone()).login(request).await?.into_inner();
        let token: MetadataValue<Ascii> = format!("Bearer {}", login.token)
            .parse()
            .map_err(|_| Status::internal("the token does not fit a header"))?;
        *self.inner.server_version.lock() = login.server_version;
        *self.inner.token.lock() = Some(token.clone());
        Ok(Session { channel, token })
    }
}

/// Why there is no connection, and what helps.
async fn unreachable(endpoint: &Endpoint, error: &tonic::transport::Error) -> (String, &'static str) {
    let (host, port) =
        (endpoint.uri().host().unwrap_or_default(), endpoint.uri().port_u16().unwrap_or_default());
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Err(unknown) = tokio::net::lookup_host((host, port)).await {
        return (
            format!("the name is not resolved ({unknown})"),
            "check the spelling of the host, or give its address",
        );
    }
    let mut source = Some(error as &dyn std::error::Error);
    let mut kind = None;
    while let Some(cause) = source {
        kind = cause.downcast_ref::<io::Error>().map(io::Error::kind).or(kind);
        source = cause.source();
    }
    let (why, cure) = match kind {
        Some(io::ErrorKind::ConnectionRefused) => {
            ("connection refused", "nothing listens there: start `tidemark serve`, or check host and port")
        }
        Some(io::ErrorKind::TimedOut) => {
            ("no answer in time", "check host and port, and that no firewall is in between")
        }
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            ("no way to that host", "check the address and this machine's network")
        }
        _ => ("the connection broke", Code::Unreachable.help()),
    };
    (why.to_owned(), cure)
}

fn endpoint(options: &ConnectOptions) -> Result<Endpoint> {
    let wrong = || {
        let error = Error::with(Code::InvalidParameters, format!("host={}", options.host));
        match options.host.split_once("://") {
            Some(("https", _)) => error.hint("TLS is not spoken: write HOST:PORT, such as 127.0.0.1:6030"),
            _ => error.hint("write HOST:PORT, such as 127.0.0.1:6030 or [::1]:6030"),
        }
    };
    if options.host.contains("://") {
        return Err(wrong());
    }
    let bare_v6 = options.host.matches(':').count() > 1 && !options.host.contains(']');
    let address = match (bare_v6, options.host.rsplit_once(':')) {
        (true, _) => format!("[{}]:{DEFAULT_PORT}", options.host),
        (false, Some((_, port))) if !port.contains(']') => options.host.clone(),
        _ => format!("{}:{DEFAULT_PORT}", options.host),
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|e| wrong().caused_by(e))?;
    if endpoint.uri().host().is_none_or(str::is_empty) || endpoint.uri().port_u16().is_none() {
        return Err(wrong());
    }
    Ok(endpoint
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Whether the request never left: there was no connection to send it on.
fn was_not_sent(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Whether there is no server, or it is just going: it may be back soon.
fn is_server_gone(error: &Error) -> bool {
    matches!(error.code(), Code::Unreachable | Code::ShuttingDown)
}

fn of_unknown_fate(error: Error) -> Error {
    if !is_server_gone(&error) {
        return error;
    }
    error.hint("the statement may or may not have been carried out: look before repeating it")
}

/// Whether the statement changes nothing, by its first word.
fn only_reads(sql: &str) -> bool {
    let word: String = sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    ["select", "show", "describe", "desc", "explain"].iter().any(|w| w.eq_ignore_ascii_case(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(host: &str) -> Option<String> {
        let options = ConnectOptions { host: host.into(), ..ConnectOptions::default() };
        endpoint(&options).ok().map(|e| e.uri().to_string())
    }

    #[test]
    fn the_port_may_be_left_out() {
        assert_eq!(uri("db.example").as_deref(), Some("http://db.example:6030/"));
        assert_eq!(uri("db.example:7000").as_deref(), Some("http://db.example:7000/"));
        assert_eq!(uri("[::1]:7000").as_deref(), Some("http://[::1]:7000/"));
        assert_eq!(uri("::1").as_deref(), Some("http://[::1]:6030/"));
        assert_eq!(uri("[::1]").as_deref(), Some("http://[::1]:6030/"));
        for bad in ["", "a b", ":", "db:port", "http://db:6030", "https://db"] {
            assert_eq!(uri(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_reading_statements_are_repeated() {
        assert!(only_reads("  select 1") && only_reads("SHOW DATABASES") && only_reads("desc t"));
        assert!(
            !only_reads("insert into t values (now, 1)") && !only_reads("create table t") && !only_reads("")
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = ConnectOptions { password: "hush".into(), ..ConnectOptions::default() };
        assert!(!format!("{options:?}").contains("hush"));
    }

    #[tokio::test]
    async fn nobody_there_is_told_at_once() {
        let options = ConnectOptions { host: "127.0.0.1:1".into(), ..ConnectOptions::default() };
        let error = Connection::connect(options).await.unwrap_err();
        assert_eq!(error.code(), Code::Unreachable);
        assert!(error.message().contains("127.0.0.1:1: connection refused"), "{error}");
        assert!(error.help().contains("tidemark serve"), "{error}");
    }

    #[tokio::test]
    async fn what_is_wrong_with_an_address_is_told() {
        let fails = async |host: &str| {
            let options = ConnectOptions { host: host.into(), ..ConnectOptions::default() };
            Connection::connect(options).await.unwrap_err().to_string()
        };
        assert!(fails("no-such-host.invalid:6030").await.contains("the name is not resolved"));
        assert!(fails("https://127.0.0.1:6030").await.contains("TLS is not spoken"));
        assert!(fails("127.0.0.1:99999").await.contains("write HOST:PORT"));
        // Neither a web server nor one that speaks TLS answers in HTTP/2.
        for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\x15\x03\x01\x00\x02\x02\x46"] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let host = listener.local_addr().unwrap().to_string();
            let other = tokio::spawn(async move {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read(&mut [0; 24]).await;
                let _ = socket.write_all(answer).await;
            });
            let text = fails(&host).await;
            assert!(
                text.contains("no Tidemark server answers") && text.starts_with("error[0x000b]"),
                "{text}"
            );
            other.await.unwrap();
        }
    }
}
