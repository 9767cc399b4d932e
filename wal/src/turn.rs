//! Whose turn it is to sync: one at a time, and who waited looks first whether another has done its work.

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub(crate) struct Turns {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// Holds the turn while it lives.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for the turn; none if meanwhile `is_done` says that it is not needed any more.
    pub(crate) fn take_unless(&self, is_done: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut taken = self.taken.lock();
        loop {
            if is_done() {
                return None;
            }
            if !*taken {
                *taken = true;
                return Some(Turn(self));
            }
            self.given_back.wait(&mut taken);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() = false;
        self.0.given_back.notify_all(); // all: one sync may have served any number of them
    }
}
