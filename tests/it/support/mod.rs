//! Starts, kills and asks the real server.

mod by_hand;
mod cluster;
mod data;
pub mod one_table;
mod server;

pub use by_hand::{ByHand, Held, patient, send};
pub use cluster::{
    Shares, connect, consumer, drain, number, query, read_to_the_end, refusal, shares, sql_refusal, wait_for,
};
pub use data::{Csv, data_file};
pub use server::{PATIENCE, Server, tidemark};
