//! The memory of a result on its way from a query to its client.

use model::Result;
use parking_lot::Mutex;
use query::memory::{QueryMemory, RESULT_ROWS, Reservation, Waiting};

/// Bytes of one message: what a client has to hold at once stays small, and so does what it leaves unread.
pub const MESSAGE_BYTES: usize = 512 << 10;
/// Messages of one result that wait for a slow client; the query waits with them.
pub const MESSAGES_AHEAD: usize = 2;
/// Messages that are held: those, one that finds no room beside them, and one that the transport has taken.
const MESSAGES_HELD: usize = MESSAGES_AHEAD + 2;
/// Batches that are ready before anyone asks for them.
pub(super) const BATCHES_AHEAD: usize = 1;
/// Batches that are held: those, one that finds no room beside them, and the one that is being sent.
const BATCHES_HELD: usize = BATCHES_AHEAD + 2;

/// What a result holds of the queries' memory, from its first batch to its last message.
///
/// Its queues are bounded by counts, so what they hold is that many times its largest batch. That much is reserved when
/// the batch comes and kept: a result is refused at its first batches or not at all, and never waits for memory that
/// another one holds.
#[derive(Debug)]
pub struct ResultMemory {
    memory: QueryMemory,
    rows: Mutex<Rows>,
    batches_held: usize,
}

#[derive(Debug)]
struct Rows {
    reservation: Reservation,
    largest_batch_bytes: usize,
}

impl ResultMemory {
    /// Of a query whose operators hold so many batches of it between each other.
    pub(super) fn new(memory: QueryMemory, batches_between: usize) -> Self {
        let reservation = memory.reservation(RESULT_ROWS);
        let rows = Rows { reservation, largest_batch_bytes: 0 };
        Self { memory, rows: Mutex::new(rows), batches_held: BATCHES_HELD + batches_between }
    }

    /// A batch of so many bytes is on its way.
    ///
    /// # Errors
    /// [`model::Code::OutOfMemory`].
    pub(super) fn carry(&self, batch_bytes: usize) -> Result<()> {
        let mut rows = self.rows.lock();
        if batch_bytes > rows.largest_batch_bytes {
            rows.reservation.resize(self.batches_held * batch_bytes + messages_bytes(batch_bytes))?;
            rows.largest_batch_bytes = batch_bytes;
        }
        Ok(())
    }

    /// The query has ended: only messages are held.
    pub fn end(&self) -> Result<()> {
        let rows = self.rows.lock();
        rows.reservation.resize(messages_bytes(rows.largest_batch_bytes))
    }

    /// The rows wait for the client until what this answers is dropped; see [`QueryMemory::wait`].
    pub fn wait(&self) -> Waiting {
        self.memory.wait()
    }
}

const fn messages_bytes(batch_bytes: usize) -> usize {
    MESSAGES_HELD * if batch_bytes < MESSAGE_BYTES { batch_bytes } else { MESSAGE_BYTES }
}
