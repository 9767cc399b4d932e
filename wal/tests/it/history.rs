//! Random histories on a disk that lies, beside a model. A failure names its seed and the command that repeats it.
//!
//! What must hold: readers see exactly the model; after any crash the log opens, and holds the model up to some version
//! not below what was durable; an operation that failed changed nothing for readers, and after a crash has happened
//! whole, in part from its start, or not at all; once faults are gone the log takes appends again.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wal::sim::{Op, SimDisk, SimFault};
use wal::{Kind, Options, Planted, Reader, Record, Retention, SchemaKey, Version, Wal, WalError};

use crate::common::*;
use crate::model::{Content, Rec};

type Check<T = ()> = Result<T, String>;

struct History {
    rng: ChaCha8Rng,
    disk: SimDisk,
    options: Options,
    wal: Wal,
    /// What the log holds.
    main: Content,
    /// What it may hold instead after a crash: an operation failed half way.
    others: Vec<Content>,
    /// First version that readers see; the model keeps more while files may be left.
    first: u64,
    /// Where a segment began.
    began: Option<u64>,
    now_ns: i64,
    readers: Vec<Reader>,
    records_made: u64,
    log: Vec<String>,
}

/// A bug that should be found.
#[derive(Debug, Clone, Copy)]
enum Plant {
    Nothing,
    /// Calls of this kind do nothing.
    Skipped(Op),
    Bug(Planted),
}

/// Readers that live through a history.
const READERS: usize = 3;

const FAULTY: [Op; 9] =
    [Op::Open, Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Read, Op::Write, Op::Sync, Op::Reserve];

impl History {
    fn start(seed: u64, plant: Plant) -> Check<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let mut planted = None;
        match plant {
            Plant::Nothing => {}
            Plant::Skipped(op) => disk.skip(op),
            Plant::Bug(bug) => planted = Some(bug),
        }
        let options = Options {
            segment_bytes_max: *[600, 2000, 8000].choose(&mut rng).unwrap(),
            index_bytes: *[64, 300, 4096].choose(&mut rng).unwrap(),
            read_bytes: *[64, 700, 65536].choose(&mut rng).unwrap(),
            filler_bytes: *[0, 64, 512].choose(&mut rng).unwrap(),
            roll_period_ns: *[0, 30 * S].choose(&mut rng).unwrap(),
            salt_seed: seed,
            planted,
        };
        let (wal, _) = open_with(&disk, options.clone()).map_err(|e| e.to_string())?;
        let base = *[0, 1, 100].choose(&mut rng).unwrap();
        let main = Content { base, durable: base, ..Content::default() };
        let readers = (0..READERS).map(|_| wal.reader(Version(base))).collect();
        let others = Vec::new();
        let mut history = Self {
            rng,
            disk,
            options,
            wal,
            main,
            others,
            first: base,
            began: None,
            now_ns: S,
            readers,
            records_made: 0,
            log: vec![],
        };
        // The first append names the base; until it has succeeded the log has no place of its own.
        let rec = history.make_record();
        history.append(vec![rec])?;
        Ok(history)
    }

    fn run(&mut self, steps: usize) -> Check {
        for _ in 0..steps {
            self.now_ns += self.rng.random_range(0..10 * S);
            let faulty = self.rng.random_ratio(1, 6);
            if faulty {
                self.plan_fault();
            }
            self.step()?;
            if faulty {
                self.disk.clear_faults();
                self.disk.set_capacity(None);
            }
            self.check_positions()?;
        }
        self.finish()
    }

    fn plan_fault(&mut self) {
        let op = *FAULTY.choose(&mut self.rng).unwrap();
        let nth = self.rng.random_range(0..3);
        self.log.push(format!("fault {op:?} {nth}"));
        if op == Op::Write {
            // a part is written first
            let taken = self.rng.random_range(0..400);
            self.disk.fail_nth(op, nth, SimFault::Short(taken));
            self.disk.fail_nth(op, nth + 1, SimFault::Errno(28));
        } else if self.rng.random_ratio(1, 8) {
            let used: usize = self.disk.files().iter().map(|(_, content)| content.len()).sum();
            self.disk.set_capacity(Some((used + 200) as u64));
        } else {
            self.disk.fail_nth(op, nth, SimFault::Errno(5));
        }
    }

    fn step(&mut self) -> Check {
        let what = self.rng.random_range(0..100);
        self.log.push(format!("{what} next={}", self.main.next()));
        match what {
            0..40 => {
                let count = self.rng.random_range(1..6);
                let batch = (0..count).map(|_| self.make_record()).collect();
                self.append(batch)
            }
            40..55 => self.sync(),
            55..60 => self.roll(),
            60..66 => self.cut(),
            66..71 => self.retain(),
            71..73 => self.reset(),
            73..76 => self.reserve(),
            76..84 => self.read_some(),
            84..88 => self.seek(),
            88..92 => self.crash(),
            92..96 => self.reopen(),
            _ => self.heal(),
        }
    }

    fn make_record(&mut self) -> Rec {
        self.records_made += 1;
        let last = self.main.last();
        let size = if self.rng.random_ratio(1, 10) { 5000 } else { 150 };
        let mut body = format!("{} ", self.records_made).into_bytes();
        body.resize(body.len() + self.rng.random_range(0..size), (self.records_made % 251) as u8);
        let owner = self.rng.random_range(0..4);
        let has_schema = self.rng.random_ratio(1, 3);
        Rec {
            term: last.map_or(1, |last| last.term) + u64::from(self.rng.random_ratio(1, 10)),
            time_ns: last.map_or(0, |last| last.time_ns),
            kind: *Kind::ALL.choose(&mut self.rng).unwrap(),
            body: body.into(),
            schema: has_schema.then_some(SchemaKey { owner, version: 1 }),
        }
    }

    fn append(&mut self, mut batch: Vec<Rec>) -> Check {
        // times rise a little within a batch too
        let mut time_ns = self.main.last().map_or(0, |last| last.time_ns);
        for rec in &mut batch {
            time_ns += self.rng.random_range(0..3);
            rec.time_ns = time_ns;
        }
        let new: Vec<_> = batch.iter().map(Rec::to_new).collect();
        let next = self.main.next();
        let result = self.wal.append(Version(next), &new, self.now_ns);
        let mut longer = self.main.clone();
        longer.recs.extend(batch);
        match result {
            Ok(done) => {
                ensure((done.first.0, done.next.0) == (next, longer.next()), || format!("{done:?}"))?;
                self.main = longer;
                self.settle();
                Ok(())
            }
            Err(e) => {
                self.others.push(longer);
                self.may_fail(&e)
            }
        }
    }

    /// An operation went through that leaves no doubt about what is before it.
    fn settle(&mut self) {
        self.others.clear();
    }

    fn may_fail(&mut self, e: &WalError) -> Check {
        self.log.push(e.to_string());
        ensure(matches!(e, WalError::Io { .. } | WalError::Poisoned { .. }), || {
            format!("unexpected error: {e}")
        })
    }

    fn sync(&mut self) -> Check {
        match self.wal.sync() {
            Ok(durable) => ensure(durable.0 == self.main.next(), || format!("sync answered {durable}")),
            Err(e) => self.may_fail(&e),
        }
    }

    fn roll(&mut self) -> Check {
        self.began = Some(self.main.next());
        match self.wal.roll(self.now_ns) {
            Ok(()) => Ok(()),
            Err(e) => self.may_fail(&e),
        }
    }

    fn cut(&mut self) -> Check {
        let from = match self.rng.random_range(0..3) {
            // where a segment began: the next one gets its name
            0 => self.began.filter(|began| (self.first..=self.main.next()).contains(began)),
            _ => None,
        };
        let from = from.unwrap_or_else(|| self.rng.random_range(self.first..=self.main.next()));
        let old = self.main.clone();
        let result = self.wal.cut_from(Version(from), self.now_ns);
        match result {
            Ok(()) => {
                self.main.truncate(from);
                self.settle_if(from < old.next());
                Ok(())
            }
            Err(e) => {
                // Somewhere between the old end and the wanted one.
                let next = self.wal.next_version().0;
                ensure((from..=old.next()).contains(&next), || format!("cut to {from} ended at {next}"))?;
                self.main.truncate(next);
                self.others.iter_mut().for_each(|other| other.durable = other.durable.min(next));
                self.others.push(Content { durable: next.min(old.durable), ..old });
                self.may_fail(&e)
            }
        }
    }

    fn settle_if(&mut self, settled: bool) {
        if settled {
            self.settle();
        }
    }

    fn retain(&mut self) -> Check {
        let below = self.rng.random_range(self.first..=self.main.next());
        let period_s = *[-1, 0, 20].choose(&mut self.rng).unwrap();
        let size_kb = *[0, 2].choose(&mut self.rng).unwrap();
        let result = self.wal.retain(self.now_ns, Version(below), Retention { period_s, size_kb });
        let first = self.wal.first_version().0;
        ensure(first >= self.first && first <= below.max(self.first), || {
            format!("first is {first}, below {below}")
        })?;
        self.first = first;
        match result {
            Ok(_) => Ok(()),
            Err(e) => self.may_fail(&e),
        }
    }

    fn reset(&mut self) -> Check {
        if self.wal.is_poisoned() {
            return Ok(());
        }
        let next = self.rng.random_range(self.first..self.main.next() + 20);
        let before = self.main.last().filter(|_| next > 0);
        let before = before.map(|last| wal::LastRecord { version: Version(next - 1), ..last });
        let old = self.main.clone();
        let result = self.wal.reset(Version(next), before, self.now_ns);
        if let Err(e) = &result
            && self.wal.next_version().0 != next
        {
            // It failed on the way there: the old log, perhaps shorter.
            let next = self.wal.next_version().0;
            self.main.truncate(next);
            self.others.push(Content { durable: next.min(old.durable), ..old });
            return self.may_fail(e);
        }
        self.main = Content { base: next, recs: vec![], durable: next, before };
        self.first = next;
        match result {
            Ok(()) => {
                self.settle();
                Ok(())
            }
            Err(e) => {
                // The old log may be back, shorter if the reset went below its end.
                self.others.push(Content { durable: old.durable.min(next), ..old });
                self.others.iter_mut().for_each(|other| other.durable = other.durable.min(next));
                self.may_fail(&e)
            }
        }
    }

    fn reserve(&mut self) -> Check {
        let bytes = self.rng.random_range(0..3000);
        match self.wal.reserve(bytes, self.now_ns) {
            Ok(()) => Ok(()),
            Err(e) => self.may_fail(&e),
        }
    }

    /// Readers that live through everything but the end of the process.
    fn read_some(&mut self) -> Check {
        let which = self.rng.random_range(0..READERS);
        for _ in 0..self.rng.random_range(1..20) {
            let at = self.readers[which].position().0;
            match self.readers[which].next() {
                Ok(Some(record)) => {
                    ensure(record.version.0 == at, || format!("{record:?} read at {at}"))?;
                    match self.main.get(at) {
                        Some(rec) => rec.compare(&record)?,
                        None => {
                            ensure(at < self.main.base, || format!("read {record:?}, which is not there"))?
                        }
                    }
                }
                Ok(None) => return ensure(at >= self.main.next(), || format!("nothing at {at}")),
                Err(WalError::Purged { first, .. }) => {
                    ensure(at < self.first && first.0 == self.first, || {
                        format!("{at} is gone, first={first}")
                    })?;
                    self.readers[which].seek(first);
                }
                Err(e) => return self.may_fail(&e),
            }
        }
        Ok(())
    }

    fn seek(&mut self) -> Check {
        let at = self.rng.random_range(self.first..=self.main.next());
        match (self.wal.handle().get(Version(at)), self.main.get(at)) {
            (Ok(Some(record)), Some(rec)) => rec.compare(&record),
            (Ok(None), None) => Ok(()),
            (Err(e), _) => self.may_fail(&e),
            (found, expected) => Err(format!("at {at} found {found:?}, expected {expected:?}")),
        }
    }

    fn heal(&mut self) -> Check {
        let poisoned = self.wal.is_poisoned();
        match self.wal.heal(self.now_ns) {
            Ok(()) => {
                self.settle_if(poisoned);
                ensure(!self.wal.is_poisoned(), || "still read-only".into())
            }
            Err(e) => self.may_fail(&e),
        }
    }

    fn crash(&mut self) -> Check {
        self.disk.crash(self.rng.random());
        self.disk.set_capacity(None);
        if self.rng.random_ratio(1, 4) {
            self.open_with_fault()?;
        }
        let floor = self.main.durable;
        self.open_again(floor)
    }

    /// Opening that the disk fails half way leaves what the next opening needs.
    fn open_with_fault(&mut self) -> Check {
        self.plan_fault();
        let failed = open_with(&self.disk, self.options.clone()).err();
        self.disk.clear_faults();
        self.disk.set_capacity(None);
        failed.map_or(Ok(()), |e| self.may_fail(&e))
    }

    fn reopen(&mut self) -> Check {
        self.disk.clear_faults();
        self.disk.set_capacity(None);
        let floor = self.main.next();
        self.open_again(floor)
    }

    /// Opens after the end of a process or machine, and takes over what is found if something explains it.
    fn open_again(&mut self, floor: u64) -> Check {
        let opened = open_with(&self.disk, Options { salt_seed: self.rng.random(), ..self.options.clone() });
        let (wal, report) = opened.map_err(|e| format!("does not open: {e}"))?;
        self.wal = wal;
        let found = read_all(&self.wal).map_err(|e| format!("does not read: {e}"))?;
        let (first, next) = (self.wal.first_version().0, self.wal.next_version().0);
        let last = self.wal.last();
        ensure((report.first.0, report.next.0) == (first, next), || format!("{report:?}"))?;
        ensure(next == first + found.len() as u64, || {
            format!("{first}..{next} has {} records", found.len())
        })?;
        let explained = self.main.explains(first, &found, last, floor).map(|()| self.main.clone());
        let explained = explained.or_else(|main| {
            let mut others = self.others.iter();
            let other = others.find(|other| other.explains(first, &found, last, other.durable).is_ok());
            other.cloned().ok_or(format!("{main}; nor do {} others explain it", self.others.len()))
        })?;
        self.take_over(explained, first, next);
        for reader in &mut self.readers {
            *reader = self.wal.reader(Version(self.rng.random_range(first..=next)));
        }
        Ok(())
    }

    fn take_over(&mut self, mut content: Content, first: u64, next: u64) {
        content.truncate(next.max(content.base));
        content.durable = next;
        self.main = content;
        self.first = first;
        self.settle();
    }

    fn check_positions(&mut self) -> Check {
        let (first, next) = (self.wal.first_version().0, self.wal.next_version().0);
        let durable = self.wal.durable_next().0;
        let expected = (self.first, self.main.next());
        ensure((first, next) == expected, || format!("positions {first}..{next}, expected {expected:?}"))?;
        ensure(self.wal.last() == self.main.last(), || {
            format!("{:?} vs {:?}", self.wal.last(), self.main.last())
        })?;
        ensure(self.main.durable <= durable && durable <= next, || {
            format!("durable {durable} after {}, next {next}", self.main.durable)
        })?;
        self.main.durable = durable;
        Ok(())
    }

    /// Faults are gone: the log heals, takes appends, and keeps them.
    fn finish(&mut self) -> Check {
        self.heal()?;
        let batch = vec![self.make_record(), self.make_record()];
        self.append(batch)?;
        ensure(self.others.is_empty(), || "the log does not take appends".into())?;
        let found: Vec<Record> = read_all(&self.wal).map_err(|e| e.to_string())?;
        self.main.explains(self.first, &found, self.wal.last(), self.main.next())?;
        self.sync()?;
        self.check_positions()?;
        self.disk.crash(self.rng.random());
        self.open_again(self.main.next())
    }
}

fn ensure(holds: bool, text: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(text()) }
}

fn run(seed: u64, plant: Plant) -> Check<SimDisk> {
    let mut history = History::start(seed, plant)?;
    let steps = history.rng.random_range(5..60);
    match history.run(steps) {
        Ok(()) => Ok(history.disk),
        Err(text) => Err(format!("{}\n{text}", history.log.join("\n"))),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The lowest failing seed that is found, and what it says.
fn first_failure(seeds: std::ops::Range<u64>, plant: Plant) -> Option<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || seed > failed.load(Ordering::Relaxed) {
                return;
            }
            if run(seed, plant).is_err() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let seed = failed.into_inner();
    (seed < u64::MAX).then(|| (seed, run(seed, plant).err().unwrap()))
}

/// `WAL_SEEDS=n` runs another number of them, `WAL_SEED=n` one.
#[test]
fn random_histories() {
    let seeds = match number("WAL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WAL_SEEDS").unwrap_or(100_000),
    };
    if let Some((seed, text)) = first_failure(seeds, Plant::Nothing) {
        panic!("{text}\nrepeat with: WAL_SEED={seed} cargo test -p tidemark-wal random_histories");
    }
}

#[test]
fn one_seed_gives_the_same_bytes_twice() {
    let files = |seed| run(seed, Plant::Nothing).unwrap().files();
    for seed in 0..50 {
        assert_eq!(files(seed), files(seed), "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for plant in [
        Plant::Skipped(Op::Sync),
        Plant::Skipped(Op::SyncDir),
        Plant::Bug(Planted::UnseededCrc),
        Plant::Bug(Planted::EndIgnored),
    ] {
        let found = first_failure(0..20_000, plant);
        let (seed, text) = found.unwrap_or_else(|| panic!("nobody noticed {plant:?}"));
        println!("{plant:?}: seed {seed}: {}", text.lines().last().unwrap_or_default());
    }
}
