//! Who is measured: each peer is started on 127.0.0.1 with a folder of its own, and ended when dropped. Another one is
//! another file here.

pub mod nats;
pub mod reference;
pub mod tidemark;

use tempfile::TempDir;

use crate::error::{Error, Result};

/// A folder that goes with the peer.
fn folder(peer: &str) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix(&format!("peers-{peer}-")).tempdir();
    folder.map_err(Error::io("cannot make a temporary folder"))
}
