//! The SQL dialect: text to statements, statements to DataFusion plans, and the operators that DataFusion lacks (time
//! windows, fill, selection functions). Also the compiled filters of topics, and lines of the line protocol.
//!
//! Not for: knowing where rows lie (that is a [`source::Shard`]'s business), executing DDL, or any wire format.

pub mod ast;
pub mod engine;
mod function;
pub mod insert;
pub mod lexer;
pub mod lines;
pub mod literal;
pub mod memory;
pub mod operator;
pub mod parser;
pub mod plan;
pub mod source;
pub mod topic;
