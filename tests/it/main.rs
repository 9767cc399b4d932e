//! Black-box tests against the real binary over the wire: one binary, since each one links everything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "tests talk, and wait for processes")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_precision_loss)]
#![allow(missing_docs, unreachable_pub)]

mod assignment;
mod bad_input;
mod bench;
mod command_line;
mod composite;
mod crash;
mod damage;
mod effectively_once;
mod examples;
mod field;
mod field_replay;
mod field_storage;
mod field_subscriptions;
mod field_topics;
mod full_disk;
mod hand_over;
mod import;
mod lifecycle;
mod lines;
mod memory;
mod offline;
mod oracle_tmq;
mod parquet_readers;
mod privileges;
mod push;
mod real_input;
mod replicate;
mod rights;
mod shell;
mod storage;
mod subscribe_command;
mod support;
mod tmq_conformance;
mod wal_options;
mod zombie;
