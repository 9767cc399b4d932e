//! Columnar writing: rows by the thousand, without SQL text.

mod batch;
mod column;
mod driver;
mod split;
#[cfg(test)]
mod split_tests;
mod target;
mod window;

use std::fmt;
use std::sync::Arc;

use model::{Code, Error, Result};
use parking_lot::Mutex;
use proto::v1;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use batch::{Batch, Table};
pub use column::ColumnBuilder;
pub use target::Target;

use crate::connection::{Connection, Repeat};
use driver::Shared;
use window::Window;

/// How a [`Writer`] sends.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Writes sent and not yet answered, at most.
    pub in_flight: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { in_flight: 64 }
    }
}

/// Sends batches to one super table (any of its children) or one normal table, many at a time.
///
/// # What an answer means
/// [`flush`](Self::flush) returning `Ok` means that every batch given before is as durable as the database's `WAL_LEVEL`
/// promises. A write that was sent but not answered when the connection broke is *unknown*: it may have been carried
/// out. The writer sends it again, with everything for the same vgroup that followed it, which is safe because rows are
/// upserts: the same rows twice are the same rows. It does the same, after a pause, for writes that the server refuses
/// with a code that says "try again", as often as the connection's [`RetryPolicy`](crate::RetryPolicy) allows. After an
/// error from `flush` the batches since the last flush may be written wholly, partly or not at all; giving them again is
/// safe.
///
/// ```no_run
/// use client::{ConnectOptions, Connection, Value};
///
/// # #[tokio::main]
/// # async fn main() -> client::Result<()> {
/// let connection = Connection::connect(ConnectOptions::default()).await?;
/// let writer = connection.writer("power", "meters").await?;
/// let mut batch = writer.batch()?;
/// for n in 0..100 {
///     let meter = batch.child(&format!("d{n}"), &[Value::Int(n), Value::Text("north".into())])?;
///     batch.push(meter, &[Value::Timestamp(1_700_000_000_000), Value::Double(10.3), Value::Int(220)])?;
/// }
/// writer.write(batch).await?;
/// assert_eq!(writer.flush().await?, 100);
/// # Ok(())
/// # }
/// ```
pub struct Writer {
    target: Arc<Target>,
    shared: Arc<Shared>,
    driver: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("database", &self.target.database())
            .field("table", &self.target.table())
            .finish_non_exhaustive()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.lock().take() {
            driver.abort();
        }
    }
}

impl Connection {
    /// A writer to the super table or normal table `table`, whose schema is read once, here.
    ///
    /// # Errors
    /// [`Code::DatabaseNotExist`], [`Code::TableNotExist`], or that the server cannot be reached.
    pub async fn writer(&self, database: &str, table: &str) -> Result<Writer> {
        self.writer_with(database, table, WriterOptions::default()).await
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Connection::writer`].
    pub async fn writer_with(&self, database: &str, table: &str, options: WriterOptions) -> Result<Writer> {
        let message = v1::DescribeTargetRequest { database: database.to_owned(), table: table.to_owned() };
        let answer = self.call(Repeat::Always, |session| {
            let request = session.request(message.clone());
            async move { Ok(session.writer().describe_target(request).await?.into_inner()) }
        });
        let target = Target::from_wire(database, table, answer.await?)?;
        let shared = Shared {
            connection: self.clone(),
            started: Instant::now(),
            window: Mutex::new(Window::new(options.in_flight, self.options().retry.clone())),
            changed: Notify::new(),
            session: Mutex::new(0),
        };
        Ok(Writer { target: Arc::new(target), shared: Arc::new(shared), driver: Mutex::new(None) })
    }
}

impl Writer {
    /// What it writes to.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// An empty batch with all columns.
    ///
    /// # Errors
    /// [`Code::NotSupported`] when a column has a type that this client does not know.
    pub fn batch(&self) -> Result<Batch> {
        Batch::new(Arc::clone(&self.target), self.target.all_columns())
    }

    /// An empty batch with the columns called `names`, the primary timestamp first.
    ///
    /// # Errors
    /// [`Code::InvalidColumn`], [`Code::DuplicateColumn`], [`Code::FirstColumn`].
    pub fn batch_of(&self, names: &[&str]) -> Result<Batch> {
        Batch::new(Arc::clone(&self.target), self.target.select(names)?)
    }

    /// Sends a batch. Waits only while too many writes are unanswered; [`Self::flush`] tells how it went.
    ///
    /// # Errors
    /// [`Code::ColumnCount`] or [`Code::InvalidTimestamp`] for a batch that is not whole: nothing of it is sent then. An
    /// earlier write's failure: the batch is then not sent either, and flush will tell the error again.
    pub async fn write(&self, batch: Batch) -> Result<()> {
        if !Arc::ptr_eq(&batch.target, &self.target) {
            return Err(Error::with(Code::InvalidParameters, "the batch is another writer's"));
        }
        let writes = split::split(&self.target, batch.finish()?)?;
        for (vgroup, block) in writes {
            let request = v1::WriteRequest {
                id: 0,
                database: self.target.database().to_owned(),
                blocks: vec![proto::convert::write_to_wire(vgroup, &block)?],
            };
            self.shared.room().await?;
            self.shared.window.lock().push(request, vgroup.0);
            self.start_driver();
            self.shared.changed.notify_waiters();
        }
        Ok(())
    }

    /// Waits until everything given so far is answered.
    ///
    /// Returns the rows written since the last flush.
    ///
    /// # Errors
    /// The first since the last flush, see [what an answer means](Self#what-an-answer-means).
    pub async fn flush(&self) -> Result<u64> {
        self.shared.wait_until(|window| window.is_empty().then(|| window.take_result())).await
    }

    fn start_driver(&self) {
        let mut driver = self.driver.lock();
        if driver.as_ref().is_none_or(JoinHandle::is_finished) {
            *driver = Some(tokio::spawn(driver::drive(Arc::clone(&self.shared))));
        }
    }
}
