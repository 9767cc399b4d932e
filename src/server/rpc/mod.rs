//! The gRPC services: thin layers that turn messages into calls of the engine and errors into statuses.

mod result_queue;
mod session;
mod sql;
mod subscription;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use model::{Code, Error, Result};
use proto::MESSAGE_BYTES_MAX;
use proto::status::to_status;
use proto::v1::session_server::SessionServer;
use proto::v1::sql_server::SqlServer;
use proto::v1::subscription_server::SubscriptionServer;
use proto::v1::writer_server::WriterServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Request;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use super::engine::Engine;

/// Bytes that a connection, and a stream of it, may have under way: large enough that one stream of messages is not
/// bound by the round trip.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
/// A peer that answers no ping for this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Serves until `stop` turns true, then lets calls end for a moment and returns.
///
/// # Errors
/// [`Code::Io`] of the listener.
pub async fn serve(
    engine: Arc<Engine>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    // tonic applies TCP_NODELAY only to listeners that it opened itself, and without it small answers wait for
    // acknowledgements.
    let incoming = TcpListenerStream::new(listener).map(|accepted| {
        accepted.and_then(|socket| {
            socket.set_nodelay(true)?;
            Ok(socket)
        })
    });
    // Before a message is read: whoever has not logged in shall not have the server hold one.
    let sessions = Arc::clone(&engine);
    let known = move |request: Request<()>| match sessions.session(&request) {
        Ok(_) => Ok(request),
        Err(error) => Err(to_status(&error)),
    };
    Server::builder()
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(SessionServer::new(session::SessionService(Arc::clone(&engine))))
        .add_service(InterceptedService::new(
            SqlServer::new(sql::SqlService { engine: Arc::clone(&engine), stop: stop.clone() })
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
            known.clone(),
        ))
        .add_service(InterceptedService::new(
            WriterServer::new(writer::WriterService(Arc::clone(&engine)))
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            known.clone(),
        ))
        .add_service(InterceptedService::new(
            SubscriptionServer::new(subscription::SubscriptionService::new(
                Arc::clone(&engine),
                stop.clone(),
            ))
            .max_encoding_message_size(MESSAGE_BYTES_MAX),
            known,
        ))
        .serve_with_incoming_shutdown(incoming, async move {
            // An error says that whoever could have stopped the server is gone: stop.
            let _ = stop.wait_for(|stop| *stop).await;
        })
        .await
        .map_err(|e| Error::text(Code::Io, format!("the gRPC listener failed: {e}")).caused_by(e))
}
