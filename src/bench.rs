//! End-to-end benchmarks.

use model::{Error, Result};

use crate::cli::BenchArgs;

/// Runs a benchmark.
///
/// # Errors
/// Whatever went wrong.
pub async fn run(_args: BenchArgs) -> Result<()> {
    Err(Error::not_supported("bench"))
}
