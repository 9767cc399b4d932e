//! Starts, kills and asks the real server.

mod cluster;
mod data;
mod server;

pub use cluster::{Shares, connect, consumer, drain, query, refusal, shares, wait_for};
pub use data::{Csv, data_file};
pub use server::{PATIENCE, Server, tidemark};
