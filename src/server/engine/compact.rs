//! FLUSH, TRIM, COMPACT and what runs behind them.
//!
//! COMPACT answers with an id; the work goes on vgroup by vgroup. SHOW COMPACTS lists what runs and, until the next
//! COMPACT of the same database, how the last one ended. It is forgotten with the process: what was merged by then stays,
//! and the statement may be given again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::{DataType as Arrow, Field, Schema};
use arrow::record_batch::RecordBatch;
use model::{Clock as _, Code, DataType, DatabaseInfo, Error, Precision, Result, VgroupId};
use parking_lot::Mutex;
use query::ast::{self, TimeText};
use query::literal::{LiteralContext, Raw};
use query::plan::OutputColumn;
use query::source::TimeRange;
use vnode::Vnode;
use vnode::store::CompactionProgress;

use super::system::{Cell, Kind, SystemTable};
use super::{Engine, Outcome, StatementContext};
use crate::server::sessions::Session;

/// One vgroup's part.
#[derive(Debug)]
struct Part {
    vgroup: VgroupId,
    progress: Arc<CompactionProgress>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
    Stopped,
    Failed,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed)
    }
}

#[derive(Debug)]
struct Run {
    database: String,
    start_ns: i64,
    parts: Vec<Part>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.parts.iter().all(|part| part.state.is_over())
    }

    /// The state that says most: what runs, else what went wrong.
    fn state(&self) -> State {
        let has = |state| self.parts.iter().any(|part| part.state == state);
        let order = [State::Running, State::Waiting, State::Failed, State::Stopped];
        order.into_iter().find(|state| has(*state)).unwrap_or(State::Done)
    }

    fn percent(&self) -> usize {
        let parts = self.parts.len().max(1);
        self.parts.iter().map(Part::percent).sum::<usize>() / parts
    }
}

impl Part {
    fn percent(&self) -> usize {
        match self.state {
            State::Waiting => 0,
            State::Done => 100,
            // All rows are read before the new file is in its place.
            _ => usize::from(self.progress.percent().min(99)),
        }
    }
}

/// COMPACTs of this process, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Compacts(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    last_id: u32,
    runs: BTreeMap<u32, Run>,
}

impl Compacts {
    /// Takes a new one in; refused while one of the database runs.
    fn begin(&self, database: &str, start_ns: i64, vgroups: &[VgroupId]) -> Result<u32> {
        let mut held = self.0.lock();
        if let Some((id, _)) = held.runs.iter().find(|(_, run)| run.database == database && !run.is_over()) {
            return Err(Error::with(Code::Conflict, format!("compact {id} of {database} runs"))
                .hint("SHOW COMPACTS shows it, KILL COMPACT ends it"));
        }
        held.runs.retain(|_, run| run.database != database);
        held.last_id += 1;
        let id = held.last_id;
        let parts =
            vgroups.iter().map(|&vgroup| Part { vgroup, progress: Arc::default(), state: State::Waiting });
        held.runs.insert(id, Run { database: database.to_owned(), start_ns, parts: parts.collect() });
        Ok(id)
    }

    fn set(&self, id: u32, vgroup: VgroupId, state: State) -> Option<Arc<CompactionProgress>> {
        let mut held = self.0.lock();
        let part = held.runs.get_mut(&id)?.parts.iter_mut().find(|part| part.vgroup == vgroup)?;
        part.state = state;
        Some(Arc::clone(&part.progress))
    }

    /// Merges one vgroup after the other.
    async fn run(self, id: u32, time: TimeRange, vnodes: Vec<Arc<Vnode>>) {
        for vnode in vnodes {
            let vgroup = vnode.vgroup();
            let Some(progress) = self.set(id, vgroup, State::Running) else { return };
            let done = if progress.is_stopped() { Ok(()) } else { vnode.compact(time, &progress).await };
            let state = match done {
                Err(error) => {
                    tracing::warn!(compact = id, %vgroup, %error, "compact failed");
                    State::Failed
                }
                Ok(()) if progress.is_stopped() => State::Stopped,
                Ok(()) => State::Done,
            };
            self.set(id, vgroup, state);
        }
    }
}

impl Engine {
    /// FLUSH DATABASE: answers when the rows are in files.
    pub(super) async fn flush(&self, session: &Session, name: &str) -> Result<()> {
        self.may_write(session, name)?;
        self.on_shards(name, async |vnode| vnode.flush().await).await
    }

    /// TRIM DATABASE: files past KEEP go now.
    pub(super) async fn trim(&self, session: &Session, name: &str) -> Result<()> {
        self.may_write(session, name)?;
        self.on_shards(name, async |vnode| vnode.tick().await).await
    }

    /// TRIM DATABASE .. WAL: the log's segments past their retention go now, whatever a keep version holds back. As with
    /// a shorter WAL_RETENTION_PERIOD, consumers may miss rows for it: it takes the same right.
    pub(super) async fn trim_log(&self, session: &Session, name: &str) -> Result<()> {
        self.mnode.check_owner(&session.user, name)?;
        self.on_shards(name, async |vnode| vnode.trim_wal().await).await
    }

    /// Does something to every shard of a database. One that does not serve, or fails, keeps it from none of the others:
    /// the error names it when they are done.
    async fn on_shards<T>(&self, name: &str, act: impl AsyncFn(Arc<Vnode>) -> Result<T>) -> Result<()> {
        let vgroups = self.mnode.catalog().database(name)?.info.vgroups.clone();
        let mut failed = Vec::new();
        for &vgroup in &vgroups {
            let done = match self.shard(vgroup) {
                Ok(vnode) => act(vnode).await.map(drop),
                Err(error) => Err(error),
            };
            failed.extend(done.err().map(|error| (vgroup, error)));
        }
        let names: Vec<String> = failed.iter().map(|(vgroup, _)| vgroup.to_string()).collect();
        let Some((_, error)) = failed.into_iter().next() else { return Ok(()) };
        let (names, done) = (names.join(","), vgroups.len() - names.len());
        let text = format!("not done vgroups={names} done={done} because: {}", error.message());
        let hint = error.help().to_owned();
        Err(Error::text(error.code(), text).hint(hint).caused_by(error))
    }

    /// COMPACT: answers at once.
    pub(super) fn compact(
        &self,
        session: &Session,
        cx: &StatementContext,
        compact: &ast::Compact,
    ) -> Result<Outcome> {
        let name = compact.database.as_deref().or(cx.database.as_deref());
        let name = name.ok_or_else(|| Error::of(Code::DatabaseNotSpecified))?;
        self.may_write(session, name)?;
        let catalog = self.mnode.catalog();
        let info = &catalog.database(name)?.info;
        let time = time_range(info, cx, compact)?;
        let vgroups = match &compact.vgroups {
            None => info.vgroups.clone(),
            Some(ids) => {
                let known = |id: &u64| info.vgroups.iter().copied().find(|vgroup| u64::from(vgroup.0) == *id);
                let unknown =
                    |id: &u64| Error::with(Code::InvalidVgroup, format!("vgroup={id} database={name}"));
                ids.iter().map(|id| known(id).ok_or_else(|| unknown(id))).collect::<Result<_>>()?
            }
        };
        let vnodes = vgroups.iter().map(|&vgroup| self.shard(vgroup)).collect::<Result<Vec<_>>>()?;
        let id = self.compacts.begin(name, self.clock.now_ns(), &vgroups)?;
        tokio::spawn(self.compacts.clone().run(id, time, vnodes));
        accepted(id)
    }

    /// KILL COMPACT: what is merged by then stays.
    pub(super) fn kill_compact(&self, session: &Session, id: u64) -> Result<()> {
        let held = self.compacts.0.lock();
        let is_shown = |run: &&Run| !run.is_over() && self.require_seen(session, &run.database).is_ok();
        let run = u32::try_from(id).ok().and_then(|id| held.runs.get(&id)).filter(is_shown);
        let run = run.ok_or_else(|| {
            Error::with(Code::InvalidParameters, format!("compact {id} does not run"))
                .hint("SHOW COMPACTS lists them")
        })?;
        self.may_write(session, &run.database)?;
        run.parts.iter().for_each(|part| part.progress.stop());
        Ok(())
    }

    pub(super) fn ins_compacts(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("compact_id", Kind::Int),
            ("db_name", Kind::Text),
            ("start_time", Kind::Time),
            ("status", Kind::Text),
            ("progress(%)", Kind::Int),
        ]);
        for (id, run) in &self.compacts.0.lock().runs {
            if self.require_seen(session, &run.database).is_err() {
                continue;
            }
            table.push([
                (*id).into(),
                run.database.as_str().into(),
                Cell::Time(run.start_ns),
                run.state().as_str().into(),
                run.percent().into(),
            ]);
        }
        table
    }

    pub(super) fn ins_compact_details(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("compact_id", Kind::Int),
            ("vgroup_id", Kind::Int),
            ("dnode_id", Kind::Int),
            ("number_fileset", Kind::Int),
            ("finished", Kind::Int),
            ("start_time", Kind::Time),
            ("progress(%)", Kind::Int),
            ("remain_time(s)", Kind::Big),
        ]);
        let now_ns = self.clock.now_ns();
        for (id, run) in &self.compacts.0.lock().runs {
            if self.require_seen(session, &run.database).is_err() {
                continue;
            }
            for part in &run.parts {
                let percent = part.percent();
                let (buckets, buckets_total) = part.progress.buckets();
                let passed_s = (now_ns - run.start_ns) / 1_000_000_000;
                let remain_s = match (part.state.is_over(), i64::try_from(percent)) {
                    (true, _) => Cell::Int(0),
                    // Nothing to reckon with yet.
                    (false, Ok(0) | Err(_)) => Cell::Null,
                    (false, Ok(percent)) => Cell::Int(passed_s * (100 - percent) / percent),
                };
                table.push([
                    (*id).into(),
                    part.vgroup.0.into(),
                    1_u8.into(),
                    buckets_total.into(),
                    buckets.into(),
                    Cell::Time(run.start_ns),
                    percent.into(),
                    remain_s,
                ]);
            }
        }
        table
    }
}

fn time_range(info: &DatabaseInfo, cx: &StatementContext, compact: &ast::Compact) -> Result<TimeRange> {
    let literals = LiteralContext::new(info.options.precision, cx.zone, cx.now_ns);
    let ticks = |time: &Option<TimeText>| {
        let Some(TimeText { text, quoted }) = time else { return Ok(None) };
        let raw = if *quoted { Raw::Quoted(text) } else { Raw::Bare(text) };
        literals.ticks(raw).map(Some).map_err(|misfit| misfit.into_error(text, "WITH"))
    };
    let (first, last_inclusive) = (ticks(&compact.start)?, ticks(&compact.end)?);
    let range =
        TimeRange { first: first.unwrap_or(i64::MIN), last_inclusive: last_inclusive.unwrap_or(i64::MAX) };
    if range.is_empty() {
        return Err(Error::with(Code::InvalidParameters, "START WITH is behind END WITH"));
    }
    Ok(range)
}

/// As TDengine answers.
fn accepted(id: u32) -> Result<Outcome> {
    let arrays: [(&str, DataType, ArrayRef); 3] = [
        ("result", DataType::Varchar(32), Arc::new(StringArray::from(vec!["accepted"]))),
        ("id", DataType::Int, Arc::new(Int32Array::from(vec![i32::try_from(id).unwrap_or(i32::MAX)]))),
        ("reason", DataType::Varchar(64), Arc::new(StringArray::from(vec!["success"]))),
    ];
    let fields: Vec<Field> = arrays
        .iter()
        .map(|(name, _, array): &(&str, DataType, ArrayRef)| {
            let data_type: &Arrow = array.data_type();
            Field::new(*name, data_type.clone(), false)
        })
        .collect();
    let columns = arrays
        .iter()
        .map(|(name, data_type, _)| OutputColumn {
            name: (*name).to_owned(),
            data_type: *data_type,
            precision: Precision::Ms,
        })
        .collect();
    let arrays = arrays.into_iter().map(|(_, _, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::internal)?;
    Outcome::rows(columns, batch)
}
