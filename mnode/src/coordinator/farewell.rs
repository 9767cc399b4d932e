//! Why consumers were removed: what they are told at their next call. In memory and bounded; who asks later, or another
//! leader, is told the plain 0x03E6.

use std::collections::VecDeque;

use model::{ConsumerId, Error};

use crate::state::Farewell;

/// The latest are kept.
const FAREWELLS_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Farewells(VecDeque<(ConsumerId, Farewell)>);

impl Farewells {
    fn forget(&mut self, consumer: ConsumerId) {
        self.0.retain(|(id, _)| *id != consumer);
    }

    fn add(&mut self, consumer: ConsumerId, farewell: Farewell) {
        self.forget(consumer);
        self.0.push_back((consumer, farewell));
        if self.0.len() > FAREWELLS_MAX {
            self.0.pop_front();
        }
    }
}

impl super::Coordinator {
    /// A consumer is being removed.
    pub fn removed(&mut self, consumer: ConsumerId, farewell: Farewell) {
        self.farewells.add(consumer, farewell);
    }

    /// It has subscribed again.
    pub(super) fn is_back(&mut self, consumer: ConsumerId) {
        self.farewells.forget(consumer);
    }

    /// Why a consumer is not known any more. With `user`, only to the user whose it was.
    #[must_use]
    pub fn why_removed(&self, consumer: ConsumerId, user: Option<&str>) -> Option<Error> {
        let (_, farewell) = self.farewells.0.iter().find(|(id, _)| *id == consumer)?;
        user.is_none_or(|user| user == farewell.user).then(|| farewell.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use model::Code;

    use super::*;
    use crate::coordinator::Coordinator;

    #[test]
    fn the_latest_are_kept_and_told_to_their_users() {
        let mut coordinator = Coordinator::default();
        let farewell =
            |n: u64| Farewell { user: "u".into(), error: Error::with(Code::ConsumerNotExist, n.to_string()) };
        for n in 0..FAREWELLS_MAX as u64 + 5 {
            coordinator.removed(ConsumerId(n), farewell(n));
        }
        assert_eq!(coordinator.farewells.0.len(), FAREWELLS_MAX);
        assert!(coordinator.why_removed(ConsumerId(4), None).is_none());
        assert!(coordinator.why_removed(ConsumerId(5), Some("u")).is_some());
        assert!(coordinator.why_removed(ConsumerId(5), Some("another")).is_none());
        coordinator.subscribed(ConsumerId(5));
        assert!(coordinator.why_removed(ConsumerId(5), None).is_none());
    }
}
