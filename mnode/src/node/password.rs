//! Password rules and hashes. Hashing is slow on purpose: it runs on the blocking pool, two at a time, so that a burst
//! of logins takes neither the reactor nor the machine's memory.

use std::sync::Arc;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use model::{Code, Error, Result};
use rand::TryRngCore;
use rand::rngs::OsRng;
use tokio::sync::Semaphore;

/// Password that `root` has until it is changed.
pub const DEFAULT_PASSWORD: &str = "taosdata";

const CHARS_MIN: usize = 8;
const CHARS_MAX: usize = 255;
const CLASSES_MIN: usize = 3;
const AT_ONCE: usize = 2;
const SPECIAL: &str = "!@#$%^&*()-_+=[]{}:;><?|~,.";

/// What a hash costs. The costs are stored with each hash: changing them does not lock anybody out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordCost {
    /// Memory of one hash.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl Default for PasswordCost {
    fn default() -> Self {
        Self { memory_kib: Params::DEFAULT_M_COST, passes: Params::DEFAULT_T_COST }
    }
}

/// Whether a new password is acceptable.
///
/// # Errors
/// 0x2611 empty or too short, 0x2610 too long, 0x2648 characters that are not allowed, 0x0353 too few classes.
pub(super) fn check_password(password: &str, strong: bool) -> Result<()> {
    let chars = password.chars().count();
    if chars < CHARS_MIN {
        return Err(Error::of(Code::PasswordTooShort));
    }
    if chars > CHARS_MAX {
        return Err(Error::of(Code::NameOrPasswordTooLong));
    }
    let special = |c: char| SPECIAL.contains(c);
    if !password.chars().all(|c| c.is_alphanumeric() || special(c)) {
        return Err(Error::of(Code::InvalidPassword));
    }
    let classes: [fn(char) -> bool; 4] =
        [char::is_uppercase, char::is_lowercase, |c| c.is_ascii_digit(), |c| SPECIAL.contains(c)];
    if strong && classes.iter().filter(|class| password.chars().any(class)).count() < CLASSES_MIN {
        return Err(Error::of(Code::InvalidPasswordFormat));
    }
    Ok(())
}

/// Makes and checks hashes.
#[derive(Clone, Debug)]
pub(super) struct Hasher {
    cost: PasswordCost,
    permits: Arc<Semaphore>,
}

impl Hasher {
    pub(super) fn new(cost: PasswordCost) -> Self {
        Self { cost, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// A new hash with a salt of its own.
    pub(super) async fn hash(&self, password: &str) -> Result<String> {
        let (cost, password) = (self.cost, password.to_owned());
        self.off_thread(move || hash(cost, &password)).await
    }

    /// Whether `password` is the one that `hash` was made of. Without a hash it takes as long and says no, so that an
    /// answer's delay does not tell which users exist.
    pub(super) async fn verify(&self, password: &str, hash: Option<String>) -> Result<bool> {
        let (cost, password) = (self.cost, password.to_owned());
        self.off_thread(move || match hash {
            Some(hash) => {
                let parsed = PasswordHash::new(&hash)
                    .map_err(|e| Error::internal(format_args!("stored hash: {e}")))?;
                Ok(Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok())
            }
            None => self::hash(cost, &password).map(|_| false),
        })
        .await
    }

    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Error::of(Code::ShuttingDown))?;
        let done = tokio::task::spawn_blocking(move || {
            let _held = permit;
            work()
        });
        done.await.map_err(|e| Error::internal(format_args!("password hashing: {e}")))?
    }
}

fn hash(cost: PasswordCost, password: &str) -> Result<String> {
    let failed = |e: &dyn std::fmt::Display| Error::internal(format_args!("password hashing: {e}"));
    let params = Params::new(cost.memory_kib, cost.passes, 1, None).map_err(|e| failed(&e))?;
    let mut salt = [0_u8; 16];
    OsRng.try_fill_bytes(&mut salt).map_err(|e| failed(&e))?;
    let salt = SaltString::encode_b64(&salt).map_err(|e| failed(&e))?;
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    Ok(hasher.hash_password(password.as_bytes(), &salt).map_err(|e| failed(&e))?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_their_codes() {
        let code = |p: &str| check_password(p, true).err().map(|e| e.code());
        assert_eq!(code("Abcdef1!"), None);
        assert_eq!(code("abcdef1!"), None);
        assert_eq!(code(""), Some(Code::PasswordTooShort));
        assert_eq!(code("Ab1!"), Some(Code::PasswordTooShort));
        assert_eq!(code("abcdefgh1"), Some(Code::InvalidPasswordFormat));
        assert_eq!(check_password("abcdefgh", false).err().map(|e| e.code()), None);
        for bad in ["Abcdef1! ", "Abcdef1!'", "Abcdef1!\"", "Abcdef1!\\", "Abcdef1!`"] {
            assert_eq!(code(bad), Some(Code::InvalidPassword), "{bad}");
        }
        assert_eq!(code(&"Aa1!".repeat(64)), Some(Code::NameOrPasswordTooLong));
    }

    #[tokio::test]
    async fn verifies_what_it_hashed_and_nothing_else() {
        let hasher = Hasher::new(PasswordCost { memory_kib: 8, passes: 1 });
        let one = hasher.hash("Secret!1").await.unwrap();
        let two = hasher.hash("Secret!1").await.unwrap();
        assert_ne!(one, two, "each has a salt of its own");
        assert!(hasher.verify("Secret!1", Some(one.clone())).await.unwrap());
        assert!(!hasher.verify("secret!1", Some(one)).await.unwrap());
        assert!(!hasher.verify("Secret!1", None).await.unwrap());
        assert!(hasher.verify("x", Some("not a hash".into())).await.is_err());
    }
}
