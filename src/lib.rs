//! Tidemark, the binary's parts: the command line, the server that it starts, the demo and the benchmarks.
//!
//! It is *not* for: what a database is or does. That lies in the crates below, which this wires together.

pub mod bench;
mod child;
pub mod cli;
pub mod demo;
pub mod server;

/// Stack of each worker thread, in bytes; a statement may nest 128 levels deep, and what walks its plan recurses. Only what
/// is used takes memory.
pub(crate) const STACK_BYTES: usize = 8 << 20;
