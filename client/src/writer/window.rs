//! Writes on their way: which to send, which are answered, what to do about refusals. Synchronous; the driver does what
//! it says.
//!
//! A write leaves the window only behind every earlier one, so that when one has to be sent again, those after it for
//! the same vgroup are sent again too: an older row never ends up over a newer one of the same instant. Sending twice is
//! safe, rows are upserts.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use model::{Error, Result};
use proto::v1;

use crate::retry::RetryPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    Sent,
    Done,
}

#[derive(Debug)]
struct Entry {
    request: v1::WriteRequest,
    vgroup: u32,
    state: State,
    /// Its rows are in `affected`.
    counted: bool,
    refusals: u32,
    not_before: Duration,
}

/// What there is to send.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Send(Box<v1::WriteRequest>),
    /// Nothing before that time, or before something changes.
    Wait(Option<Duration>),
}

/// What [`Window::take_result`] found.
#[derive(Debug)]
pub(super) struct Window {
    room: usize,
    retry: RetryPolicy,
    next_id: u64,
    /// In the order of their ids, which follow each other.
    entries: VecDeque<Entry>,
    /// Ids before this are of writes that are sent.
    unsent_from: u64,
    affected: u64,
    error: Option<Error>,
}

impl Window {
    pub(super) fn new(room: usize, retry: RetryPolicy) -> Self {
        let (next_id, unsent_from) = (1, 1);
        Self {
            room: room.max(1),
            retry,
            next_id,
            entries: VecDeque::new(),
            unsent_from,
            affected: 0,
            error: None,
        }
    }

    /// Where the write called `id` lies, or would lie if it were still there.
    fn place(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.entries.front()?.request.id)?).ok()
    }

    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.room
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Takes a write in; the caller has looked for room.
    pub(super) fn push(&mut self, mut request: v1::WriteRequest, vgroup: u32) {
        request.id = self.next_id;
        self.next_id += 1;
        self.entries.push_back(Entry {
            request,
            vgroup,
            state: State::Unsent,
            counted: false,
            refusals: 0,
            not_before: Duration::ZERO,
        });
    }

    /// The next write to send, marked as sent.
    pub(super) fn next(&mut self, now: Duration) -> Next {
        let mut held = BTreeSet::new();
        let mut until: Option<Duration> = None;
        // Not from the front: a window may have thousands on their way.
        let from = self.place(self.unsent_from).unwrap_or(0);
        for entry in self.entries.iter_mut().skip(from) {
            if entry.state != State::Unsent {
                if held.is_empty() {
                    self.unsent_from = entry.request.id + 1;
                }
                continue;
            }
            if held.contains(&entry.vgroup) {
                continue;
            }
            if entry.not_before > now {
                held.insert(entry.vgroup);
                until = until.into_iter().chain([entry.not_before]).min();
                continue;
            }
            entry.state = State::Sent;
            if held.is_empty() {
                self.unsent_from = entry.request.id + 1;
            }
            return Next::Send(Box::new(entry.request.clone()));
        }
        Next::Wait(until)
    }

    /// The server's answer to the write called `id`.
    pub(super) fn answered(&mut self, id: u64, answer: Result<u64>, now: Duration) {
        let Some(at) = self.place(id) else { return };
        let Some(entry) = self.entries.get_mut(at) else { return };
        match answer {
            Ok(rows) => {
                entry.state = State::Done;
                if !std::mem::replace(&mut entry.counted, true) {
                    self.affected += rows;
                }
            }
            Err(error) => {
                entry.refusals += 1;
                match self.retry.pause_after(entry.refusals) {
                    Some(pause) if error.may_retry() => {
                        entry.not_before = now + pause;
                        let vgroup = entry.vgroup;
                        self.unsent_from = self.unsent_from.min(id);
                        let again = self.entries.iter_mut().skip(at);
                        for entry in again.filter(|entry| entry.vgroup == vgroup) {
                            entry.state = State::Unsent;
                        }
                    }
                    _ => {
                        entry.state = State::Done;
                        self.error.get_or_insert(error);
                    }
                }
            }
        }
        self.release();
    }

    fn release(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.state == State::Done) {
            self.entries.pop_front();
        }
    }

    /// The stream broke: what was sent and not answered is unknown and goes again, with all that came after it.
    pub(super) fn disconnected(&mut self) {
        let mut again = BTreeSet::new();
        self.unsent_from = self.entries.front().map_or(self.next_id, |first| first.request.id);
        for entry in &mut self.entries {
            if entry.state == State::Sent || again.contains(&entry.vgroup) {
                again.insert(entry.vgroup);
                entry.state = State::Unsent;
            }
        }
    }

    /// Gives everything up; what was sent is unknown.
    pub(super) fn give_up(&mut self, error: Error) {
        self.entries.clear();
        self.error.get_or_insert(error);
    }

    /// Rows written, or the first error, since the last call.
    pub(super) fn take_result(&mut self) -> Result<u64> {
        let affected = std::mem::take(&mut self.affected);
        self.error.take().map_or(Ok(affected), Err)
    }
}

#[cfg(test)]
mod tests {
    use model::Code;

    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn window() -> Window {
        Window::new(4, RetryPolicy { attempts: 3, ..RetryPolicy::default() })
    }

    fn sent(window: &mut Window, now: Duration) -> Vec<u64> {
        let next = || match window.next(now) {
            Next::Send(request) => Some(request.id),
            Next::Wait(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    fn busy() -> Result<u64> {
        Err(Error::of(Code::Overloaded))
    }

    #[test]
    fn room_frees_in_order() {
        let mut window = window();
        for vgroup in [2, 3, 2, 3] {
            window.push(v1::WriteRequest::default(), vgroup);
        }
        assert!(!window.has_room());
        assert_eq!(sent(&mut window, NOW), [1, 2, 3, 4]);
        window.answered(2, Ok(10), NOW);
        assert!(!window.has_room(), "the first is still out");
        window.answered(1, Ok(10), NOW);
        assert!(window.has_room() && !window.is_empty());
        window.answered(3, Ok(10), NOW);
        window.answered(4, Ok(10), NOW);
        assert!(window.is_empty());
        assert_eq!(window.take_result().unwrap(), 40);
        assert_eq!(window.take_result().unwrap(), 0);
    }

    #[test]
    fn a_refused_write_goes_again_before_those_that_followed_it() {
        let mut window = window();
        for vgroup in [2, 2, 3, 2] {
            window.push(v1::WriteRequest::default(), vgroup);
        }
        sent(&mut window, NOW);
        window.answered(2, Ok(5), NOW);
        window.answered(3, Ok(5), NOW);
        window.answered(1, busy(), NOW);
        assert_eq!(window.next(NOW), Next::Wait(Some(Duration::from_millis(50))), "later ones are held too");
        assert_eq!(sent(&mut window, Duration::from_millis(50)), [1, 2, 4], "the other vgroup's is done");
        for id in [1, 2, 4] {
            window.answered(id, Ok(5), NOW);
        }
        assert!(window.is_empty());
        assert_eq!(window.take_result().unwrap(), 20, "rows count once");
    }

    #[test]
    fn refusals_have_an_end_and_the_first_error_stays() {
        let mut window = window();
        window.push(v1::WriteRequest::default(), 2);
        window.push(v1::WriteRequest::default(), 3);
        for _ in 0..3 {
            sent(&mut window, Duration::MAX);
            window.answered(1, busy(), NOW);
        }
        window.answered(2, Err(Error::of(Code::TimestampOutOfRange)), NOW);
        assert!(window.is_empty() && window.has_failed());
        assert_eq!(window.take_result().unwrap_err().code(), Code::Overloaded);
        assert!(!window.has_failed(), "told once");
    }

    #[test]
    fn after_a_break_the_unknown_goes_again_with_what_followed() {
        let mut window = window();
        for vgroup in [2, 3, 2, 3] {
            window.push(v1::WriteRequest::default(), vgroup);
        }
        sent(&mut window, NOW);
        window.answered(2, Ok(1), NOW);
        window.answered(3, Ok(1), NOW);
        window.disconnected();
        assert_eq!(sent(&mut window, NOW), [1, 3, 4]);
        window.answered(9, Ok(1), NOW);
        window.give_up(Error::of(Code::Unreachable));
        assert_eq!(window.take_result().unwrap_err().code(), Code::Unreachable);
    }
}
