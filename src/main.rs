//! The one binary.

use std::process::ExitCode;

/// The C library's allocator keeps what a burst of large buffers took, and takes more as threads take turns with them:
/// a server's memory would tell nothing about what it holds.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidemark::cli::main()
}
