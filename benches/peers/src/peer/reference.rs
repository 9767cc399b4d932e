//! gRPC without a database behind it, in a process of its own: what tonic alone can do on this machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use self::wire::reference_client::ReferenceClient;
use self::wire::reference_server::{Reference as Service, ReferenceServer};
use self::wire::{Buffer, StreamRequest};
use crate::error::{Error, Result};
use crate::process::Process;

#[allow(missing_docs, clippy::all, reason = "generated")]
mod wire {
    tonic::include_proto!("peers.reference.v1");
}

/// What every error of it is told as.
pub const NAME: &str = "tonic";
/// The subcommand that is the server.
pub const SERVE: &str = "serve-reference";
/// Tidemark's SDK has these, so that a stream does not stop for a round trip after every 64 KiB.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A server that ends with this.
#[derive(Debug)]
pub struct Reference {
    /// Its process.
    pub process: Process,
    address: String,
}

impl Reference {
    /// Starts this very program as the server.
    pub fn start() -> Result<Self> {
        let program = std::env::current_exe().map_err(Error::io("cannot find this program"))?;
        let (process, address) = Process::spawn_until_line(Command::new(program).arg(SERVE))?;
        Ok(Self { process, address })
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Result<Client> {
        let endpoint =
            Endpoint::from_shared(format!("http://{}", self.address)).map_err(Error::peer(NAME))?;
        let channel = endpoint
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .connect()
            .await
            .map_err(Error::peer(NAME))?;
        Ok(Client(ReferenceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)))
    }
}

/// Calls it.
#[derive(Clone, Debug)]
pub struct Client(ReferenceClient<Channel>);

impl Client {
    /// Takes a stream of so many buffers; their bytes.
    pub async fn stream(&mut self, count: u64, bytes: u64) -> Result<u64> {
        let answer = self.0.stream(StreamRequest { count, bytes }).await.map_err(Error::peer(NAME))?;
        let mut stream = answer.into_inner();
        let mut taken = 0;
        while let Some(buffer) = stream.message().await.map_err(Error::peer(NAME))? {
            taken += crate::figures::count(buffer.data.len());
        }
        Ok(taken)
    }

    /// One round trip.
    pub async fn echo(&mut self, data: bytes::Bytes) -> Result<()> {
        self.0.echo(Buffer { data }).await.map(drop).map_err(Error::peer(NAME))
    }
}

struct Served;

#[tonic::async_trait]
impl Service for Served {
    type StreamStream = BoxStream<'static, std::result::Result<Buffer, Status>>;

    async fn stream(
        &self,
        request: Request<StreamRequest>,
    ) -> std::result::Result<Response<Self::StreamStream>, Status> {
        let StreamRequest { count, bytes } = request.into_inner();
        let length = usize::try_from(bytes).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
        let length = length.ok_or_else(|| Status::invalid_argument("buffer too large"))?;
        let data = bytes::Bytes::from(vec![0x5a; length]);
        let count = usize::try_from(count).map_err(|_| Status::invalid_argument("too many"))?;
        let buffers = std::iter::repeat_n(data, count).map(|data| Ok(Buffer { data }));
        Ok(Response::new(futures::stream::iter(buffers).boxed()))
    }

    async fn echo(&self, request: Request<Buffer>) -> std::result::Result<Response<Buffer>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

/// Serves until killed; prints its address once it listens.
#[expect(clippy::print_stdout, reason = "the line that the parent process waits for")]
pub async fn serve() -> Result<()> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).await.map_err(Error::io("cannot listen"))?;
    println!("{}", listener.local_addr().map_err(Error::io("no address"))?);
    // The builder's own `tcp_nodelay` is not applied to a listener that is given.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = Server::builder()
        .add_service(ReferenceServer::new(Served).max_encoding_message_size(MESSAGE_BYTES_MAX))
        .serve_with_incoming(incoming);
    served.await.map_err(Error::peer(NAME))
}
