//! What goes wrong with data files, each naming its file.

use std::fmt::Display;
use std::io;
use std::path::Path;

use model::{Code, Error};

/// The disk refused. Never reported as damage: the bytes may be fine.
pub(super) fn io_error(doing: &str, path: &Path, error: io::Error) -> Error {
    let code = if wal::is_out_of_space(&error) { Code::NoDiskSpace } else { Code::Io };
    Error::with(code, format!("{doing} data file {}", path.display())).caused_by(error)
}

/// The content is not what was written.
pub(super) fn damaged(path: &Path, what: impl Display) -> Error {
    Error::with(Code::Damaged, format!("data file {}: {what}", path.display()))
        .hint("put an intact copy of the file in its place and start again; queries of other times, and writes, go on")
}
