//! Login and the bare round trip.

use std::sync::Arc;

use model::{Origin, Result};
use proto::status::to_status;
use proto::v1;
use tonic::{Request, Response, Status};

use crate::server::engine::Engine;

/// The `Session` service.
#[derive(Debug)]
pub struct SessionService(pub Arc<Engine>);

impl SessionService {
    async fn log_in(&self, request: v1::LoginRequest) -> Result<v1::LoginResponse> {
        let origin = if request.replicates { Origin::Replication } else { Origin::Client };
        let token = self.0.log_in(&request.user, &request.password, origin).await?;
        Ok(v1::LoginResponse { token, server_version: env!("CARGO_PKG_VERSION").to_owned() })
    }
}

#[tonic::async_trait]
impl v1::session_server::Session for SessionService {
    async fn login(&self, request: Request<v1::LoginRequest>) -> Result<Response<v1::LoginResponse>, Status> {
        self.log_in(request.into_inner()).await.map(Response::new).map_err(|e| to_status(&e))
    }

    async fn ping(&self, request: Request<v1::PingRequest>) -> Result<Response<v1::PingResponse>, Status> {
        self.0.session(&request).map_err(|e| to_status(&e))?;
        Ok(Response::new(v1::PingResponse { payload: request.into_inner().payload }))
    }
}
