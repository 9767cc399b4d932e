//! Tests of the log as its owner uses it. One binary, a module for each promise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod common;
mod concurrent;
mod corruption;
mod disk;
mod durability;
mod golden;
mod history;
mod model;
mod recovery;
mod retention;
mod roundtrip;
mod verify;
