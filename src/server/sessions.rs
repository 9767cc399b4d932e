//! Who is logged in: tokens that a client got for its password and shows with every call.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Code, Error, Origin, Result};
use parking_lot::RwLock;
use rand::CryptoRng;
use tokio::sync::watch;
use tonic::Request;

/// A logged-in user.
#[derive(Clone, Debug)]
pub struct Session {
    /// User name.
    pub user: Arc<str>,
    /// What its changes are marked with in the log.
    pub origin: Origin,
    open: watch::Receiver<()>,
}

impl Session {
    /// Returns when the session ends: what outlasts a call waits for it.
    pub async fn closed(&self) {
        let mut open = self.open.clone();
        while open.changed().await.is_ok() {}
    }
}

/// A session, for as long as this stands in the table.
#[derive(Debug)]
struct Open {
    session: Session,
    _open: watch::Sender<()>,
}

/// Tokens in force. They live as long as the server: after a restart clients log in again by themselves.
#[derive(Debug, Default)]
pub struct Sessions {
    by_token: RwLock<HashMap<String, Open>>,
}

impl Sessions {
    const TOKEN_BYTES: usize = 32;
    /// Tokens kept at most. Whoever logs in a million times without a restart logs everybody out once.
    const TOKENS_MAX: usize = 1 << 20;

    /// A token for `user`, who has shown the password.
    pub fn open(&self, user: &str, origin: Origin, rng: &mut impl CryptoRng) -> String {
        let mut token = [0; Self::TOKEN_BYTES];
        rng.fill_bytes(&mut token);
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut tokens = self.by_token.write();
        if tokens.len() >= Self::TOKENS_MAX {
            tracing::warn!(sessions = tokens.len(), "too many sessions, all have to log in again");
            tokens.clear();
        }
        let (sender, open) = watch::channel(());
        let session = Session { user: user.into(), origin, open };
        tokens.insert(token.clone(), Open { session, _open: sender });
        token
    }

    /// Ends every session of `user`: after a new password, or when the user is gone.
    pub fn close_user(&self, user: &str) {
        self.by_token.write().retain(|_, open| &*open.session.user != user);
    }

    /// The session that a call belongs to.
    ///
    /// # Errors
    /// [`Code::AuthFailure`] without a token in force.
    pub fn of<T>(&self, request: &Request<T>) -> Result<Session> {
        let refused = || Error::of(Code::AuthFailure).hint("log in first");
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(refused)?;
        self.by_token.read().get(token).map(|open| open.session.clone()).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn only_a_token_in_force_opens_the_door() {
        let sessions = Sessions::default();
        let token = sessions.open("root", Origin::Client, &mut StdRng::seed_from_u64(1));
        let with = |token: &str| {
            let mut request = Request::new(());
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            request
        };
        assert_eq!(&*sessions.of(&with(&token)).unwrap().user, "root");
        for bad in ["", "short", &"0".repeat(64)] {
            assert_eq!(sessions.of(&with(bad)).unwrap_err().code(), Code::AuthFailure);
        }
        assert_eq!(sessions.of(&Request::new(())).unwrap_err().code(), Code::AuthFailure);
        let session = sessions.of(&with(&token)).unwrap();
        assert!(session.closed().now_or_never().is_none());
        sessions.close_user("root");
        assert!(session.closed().now_or_never().is_some());
        assert!(sessions.of(&with(&token)).is_err());
    }
}
