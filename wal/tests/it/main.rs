//! Tests of the log as its owner uses it. One binary, a module for each promise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod common;
mod concurrent;
mod corruption;
mod disk;
mod durability;
mod filler;
mod fuzz;
mod golden;
mod handover;
mod history;
mod idle;
mod model;
mod overhead;
mod recovery;
mod repair;
mod retention;
mod roundtrip;
mod verify;
