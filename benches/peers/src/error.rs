//! What can go wrong, with whose it is.

/// Result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a figure could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Tidemark refused or was lost.
    #[error("tidemark: {0}")]
    Tidemark(#[from] model::Error),
    /// A peer refused or was lost.
    #[error("{peer}: {source}")]
    Peer {
        /// Its name.
        peer: &'static str,
        /// What its client says.
        source: Source,
    },
    /// A file or a process.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// What was measured is not what was asked for.
    #[error("{0}")]
    Odd(String),
}

impl Error {
    /// For `map_err`: an error of the system.
    pub fn io<T: Into<String>>(what: T) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// For `map_err`: an error of a peer's client.
    pub fn peer<E: Into<Source>>(peer: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Peer { peer, source: source.into() }
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Odd(format!("a task of the harness ended early: {error}"))
    }
}
