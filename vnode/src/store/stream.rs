//! A scan as the stream that DataFusion drives.
//!
//! Reading and decoding block, which a worker thread of the runtime must not. A scan therefore goes to a blocking
//! thread for a few batches at a time and comes back with them: no thread is held while the consumer is busy or waits,
//! and a stream that is dropped leaves at most one such trip to finish. While the consumer works on one trip's batches
//! the next trip is under way, unless the queries' memory has no room for both. The first trip brings one batch, so that a small answer is soon there, and each further
//! one twice as many up to the bound, so that going there and back costs nothing beside the decoding.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use model::{Error, Result};
use proto::size::batch_bytes;
use query::memory::Reservation;
use tokio::task::JoinHandle;

use super::scan::{BATCH_BYTES, BATCH_ROWS, Scan};

/// Batches of one trip at most. Twice as many may be held: those handed out and those being made.
const TRIP_BATCHES_MAX: usize = 8;
/// And their bytes: a trip ends with the batch that passes this.
const TRIP_BYTES_MAX: usize = 2 * BATCH_BYTES;
/// A scan of no more than this many rows, all in memory, costs less than the way to another thread.
const INLINE_ROWS_MAX: usize = 2 * BATCH_ROWS;

/// What a trip brings back: the scan, unless it is over.
struct Trip {
    scan: Option<Box<Scan>>,
    batches: Batches,
    /// There was no room for another batch.
    is_full: bool,
}

/// Where the batches after those at hand come from.
enum Next {
    Trip(JoinHandle<Trip>),
    /// Sets out when there is nothing left at hand.
    Scan(Box<Scan>),
    Over,
}

impl Trip {
    fn next(scan: Option<Box<Scan>>, is_full: bool, batches_max: usize) -> Next {
        match scan {
            Some(scan) if is_full => Next::Scan(scan),
            Some(scan) => Next::Trip(depart(scan, batches_max)),
            None => Next::Over,
        }
    }
}

/// Batches that wait, each with what it holds of the queries' memory until it is handed out.
type Batches = VecDeque<Result<(RecordBatch, Option<Reservation>)>>;

enum State {
    /// Not started.
    Ready(Box<Scan>),
    /// Batches to hand out, and what follows.
    Running { batches: Batches, next: Next, trip_batches: usize },
}

/// Starts when it is first polled.
pub(super) fn stream(scan: Scan) -> SendableRecordBatchStream {
    let schema = scan.schema();
    let scan = Box::new(scan);
    let batches = stream::unfold(State::Ready(scan), |state| async move {
        let (item, state) = next(state).await?;
        Some((item.map_err(|e| DataFusionError::External(Box::new(e))), state))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

async fn next(state: State) -> Option<(Result<RecordBatch>, State)> {
    let (mut batches, mut next, mut trip_batches) = match state {
        State::Running { batches, next, trip_batches } => (batches, next, trip_batches),
        State::Ready(scan) if scan.memory_rows().is_some_and(|rows| rows <= INLINE_ROWS_MAX) => {
            let Trip { scan, batches, is_full } = travel(scan, usize::MAX);
            (batches, Trip::next(scan, is_full, 2), 2)
        }
        State::Ready(scan) => (VecDeque::new(), Next::Trip(depart(scan, 1)), 2),
    };
    while batches.is_empty() {
        let trip = match next {
            Next::Trip(trip) => trip,
            Next::Scan(scan) => depart(scan, trip_batches),
            Next::Over => return None,
        };
        next = Next::Over;
        match trip.await {
            Ok(trip) => {
                next = Trip::next(trip.scan, trip.is_full, trip_batches);
                trip_batches = (trip_batches * 2).min(TRIP_BATCHES_MAX);
                batches = trip.batches;
            }
            Err(error) => batches.push_back(Err(Error::internal("a scan broke off").caused_by(error))),
        }
    }
    let item = batches.pop_front()?.map(|(batch, _)| batch);
    Some((item, State::Running { batches, next, trip_batches }))
}

fn depart(scan: Box<Scan>, batches_max: usize) -> JoinHandle<Trip> {
    tokio::task::spawn_blocking(move || travel(scan, batches_max))
}

fn travel(mut scan: Box<Scan>, batches_max: usize) -> Trip {
    let (mut batches, mut bytes, mut is_full) = (VecDeque::new(), 0, false);
    while batches.len() < batches_max && bytes < TRIP_BYTES_MAX && !is_full {
        let made = scan.next_batch().and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let size = batch_bytes(&batch);
            let reservation = scan.reserve(size)?;
            bytes += size;
            is_full = reservation.is_none();
            Ok(Some((batch, reservation)))
        });
        match made {
            Ok(Some(batch)) => batches.push_back(Ok(batch)),
            Ok(None) => return Trip { scan: None, batches, is_full },
            Err(error) => {
                batches.push_back(Err(error));
                return Trip { scan: None, batches, is_full };
            }
        }
    }
    Trip { scan: Some(scan), batches, is_full }
}
