//! Rust SDK of Tidemark: SQL, columnar writer, consumer, admin.
