//! Every fault of the disk, at every call that a step of a group's work makes, once and for a while.
//!
//! Must hold: the step fails with a code that says "try again", or not at all; what was acknowledged stays readable
//! meanwhile; the first proposal after the fault works, in the same process; and after a crash everything that was
//! acknowledged is there once, in order, and everything else whole or not at all.

use std::path::Path;
use std::sync::Arc;

use model::{Code, Result};
use wal::sim::{Op, SimDisk, SimFault};
use wal::{SchemaBlock, SchemaKey};

use super::ledger::{Ledger, must_say_try_again};
use super::support::{Bench, Seen, State};
use crate::{Checkpoint, Fsync, Group, Proposal};

/// What the group does when the fault comes. A proposal that is answered has been applied as well, and so has a group
/// that was opened.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A record, written and applied.
    Propose,
    /// A record behind a schema that its segment does not have.
    Schema,
    /// A record that no longer fits into the segment.
    FullSegment,
    /// A segment is closed because its time is over.
    Roll,
    /// A vote in a new term, by a group that starts, and the first record of that term.
    Vote,
    /// Raft gives up what a checkpoint holds.
    Purge,
    /// The log is made durable when the group is closed.
    Shutdown,
}

const STEPS: [Step; 7] =
    [Step::Propose, Step::Schema, Step::FullSegment, Step::Roll, Step::Vote, Step::Purge, Step::Shutdown];

const OPS: [Op; 9] =
    [Op::Write, Op::Sync, Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Reserve, Op::Read, Op::Open];

const EIO: SimFault = SimFault::Errno(5);
const ENOSPC: SimFault = SimFault::Errno(28);
const SHORT: SimFault = SimFault::Short(70);

/// What can go wrong with a call.
fn faults_of(op: Op) -> &'static [SimFault] {
    match op {
        Op::Write => &[EIO, ENOSPC, SHORT],
        Op::Read | Op::Open | Op::Remove => &[EIO],
        _ => &[EIO, ENOSPC],
    }
}

/// Whether a full disk explains it. Such a fault must not keep a group from being opened.
fn is_full_disk(op: Op, fault: SimFault) -> bool {
    matches!((op, fault), (Op::Write | Op::Create | Op::Reserve | Op::Rename, ENOSPC))
}

/// A group with its disk and what it was asked for.
struct Run {
    what: String,
    disk: SimDisk,
    bench: Bench,
    ledger: Ledger,
    checkpoint: Option<(Seen, Checkpoint)>,
    open: Option<(Group<Seen>, State)>,
}

impl Run {
    async fn start(what: String, fsync: Fsync) -> Result<Self> {
        let disk = SimDisk::new();
        let mut bench = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), fsync);
        bench.options.wal.segment_bytes_max = 2_500;
        let open = Some(bench.open().await?);
        let mut run = Self { what, disk, bench, ledger: Ledger::default(), checkpoint: None, open };
        for bytes in [100, 500, 30] {
            run.propose(run.ledger.next(bytes)).await?;
        }
        Ok(run)
    }

    fn group(&self) -> &Group<Seen> {
        &self.open.as_ref().unwrap().0
    }

    async fn propose(&mut self, proposal: Proposal) -> Result<()> {
        let (group, _) = self.open.as_ref().unwrap();
        self.ledger.propose(group, proposal).await.map(|_| ())
    }

    async fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Propose => self.propose(self.ledger.next(200)).await,
            Step::Schema => {
                let schemas =
                    vec![SchemaBlock { key: SchemaKey { owner: 7, version: 1 }, bytes: "schema".into() }];
                self.propose(Proposal { schemas, ..self.ledger.next(200) }).await
            }
            Step::FullSegment => self.propose(self.ledger.next(2_000)).await,
            Step::Roll => self.group().roll().await,
            Step::Purge => self.purge().await,
            Step::Vote => {
                let (group, _) = self.open.take().unwrap();
                group.close().await?;
                drop(group);
                self.reopen().await
            }
            Step::Shutdown => self.group().close().await,
        }
    }

    async fn purge(&mut self) -> Result<()> {
        let (group, _) = self.open.as_ref().unwrap();
        let taken = group.checkpoint_with(|seen, checkpoint| (seen.clone(), checkpoint))?;
        group.sync().await?;
        self.checkpoint = Some(taken.clone());
        group.compacted(&taken.1).await
    }

    async fn reopen(&mut self) -> Result<()> {
        self.open = None;
        let (seen, checkpoint) = self.checkpoint.clone().unzip();
        self.open = Some(self.bench.open_from(seen.unwrap_or_default(), checkpoint).await?);
        Ok(())
    }

    fn check(&self) {
        let Some((group, state)) = &self.open else { return };
        self.ledger.check(&state.read(), &self.what);
        self.ledger.check_log(group, &self.what);
    }
}

/// One fault, or `lasting` of them one after the other, from the `nth` call of `op` that `step` makes.
async fn fail_at(
    what: String,
    step: Step,
    fsync: Fsync,
    op: Op,
    nth: u64,
    fault: SimFault,
    lasting: u64,
) -> Result<()> {
    let mut run = Run::start(what, fsync).await?;
    for call in nth..nth + lasting {
        run.disk.fail_nth(op, call, fault);
    }
    let done = run.step(step).await.inspect_err(must_say_try_again);
    let full = is_full_disk(op, fault);
    if matches!(step, Step::Vote) && full {
        assert!(run.open.is_some(), "{}: a full disk can be read: {done:?}", run.what);
    }
    if let (Step::Propose | Step::Schema, Err(e), true) = (step, &done, full) {
        assert_eq!(e.code(), Code::NoDiskSpace, "{}", run.what);
    }
    let closed = matches!(step, Step::Shutdown) || run.open.is_none();
    for bytes in [40, 300, 40] {
        if !closed {
            let _ = run.propose(run.ledger.next(bytes)).await; // the ledger notes what came of it
        }
    }
    if !matches!(op, Op::Read | Op::Open) {
        run.check();
    }

    // The fault is over.
    run.disk.clear_faults();
    if closed {
        run.reopen().await?;
    }
    run.check();
    let group = run.group();
    run.ledger.check(&run.open.as_ref().unwrap().1.read(), &run.what);
    assert!(!closed || group.failure().is_none(), "{}", run.what);
    run.propose(run.ledger.next(100)).await?;
    assert!(run.group().failure().is_none(), "{}: leads again", run.what);
    run.check();

    // The machine ends.
    run.ledger.forget_above(run.group().positions().durable);
    run.open = None;
    run.disk.crash(nth * 31 + lasting);
    run.reopen().await?;
    run.check();
    run.propose(run.ledger.next(10)).await?;
    run.check();
    Ok(())
}

/// How often `step` calls each operation where nothing fails.
async fn calls_of(step: Step, fsync: Fsync) -> Result<Vec<(Op, u64)>> {
    let mut run = Run::start(format!("{step:?}"), fsync).await?;
    let before = run.disk.counts();
    run.step(step).await?;
    let after = run.disk.counts();
    Ok(OPS.map(|op| (op, after.of(op) - before.of(op))).to_vec())
}

#[tokio::test]
async fn every_call_of_every_step_fails() -> Result<()> {
    let (mut cases, mut failed) = (0, Vec::new());
    for (step, fsync) in STEPS.into_iter().flat_map(|step| [(step, Fsync::BeforeAck), (step, Fsync::Never)]) {
        for (op, calls) in calls_of(step, fsync).await? {
            // One beyond: what comes after the step fails too.
            for (nth, fault) in
                (0..=calls).flat_map(|nth| faults_of(op).iter().map(move |fault| (nth, *fault)))
            {
                for lasting in [1, 2, 20] {
                    let case = format!("{step:?} {fsync:?} {op:?} {nth} {fault:?} x{lasting}");
                    let run = tokio::spawn(fail_at(case.clone(), step, fsync, op, nth, fault, lasting));
                    match run.await {
                        Ok(Ok(())) => {}
                        Ok(Err(e)) => failed.push(format!("{case}: {e}")),
                        Err(panic) => failed.push(format!("{case}: {panic}")),
                    }
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 1_000, "{cases} cases");
    assert!(failed.is_empty(), "{} of {cases} cases:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}
