//! The machine ends at every step of flushing and compacting, on a disk that lies ([`wal::sim`]).
//!
//! # Fault budget
//! The disk's, as `wal::sim` states it. The manifest stands for the checkpoint: it is swapped as a whole and durably, and
//! log records up to the crash are there for the replay.
//!
//! # What must hold
//! After the restart every row is as the model says, whichever call was the last and whatever the disk kept of what was
//! not synced; no file is damaged; a further compaction succeeds; and files that nobody names are gone.

use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use wal::sim::{Op, SimDisk, SimFault};

use super::*;

const EIO: i32 = 5;
const ALL: CompactionScope = CompactionScope::All(TimeRange::ALL);

fn open_on(disk: &SimDisk, manifest: Manifest) -> Store {
    let options = StoreOptions {
        dir: PathBuf::from("/data"),
        precision: Precision::Ms,
        duration_ticks: DURATION,
        levels: CompressionLevels::default(),
    };
    Store::new(options, Arc::new(disk.clone()), manifest).unwrap()
}

enum Entry {
    Write(Write),
    Delete(Vec<TableUid>, TimeRange),
}

struct World {
    disk: SimDisk,
    fixture: Fixture,
    model: Model,
    log: Vec<(Version, Entry)>,
    saved: (Manifest, Version),
    rng: ChaCha8Rng,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new();
        let mut fixture = Fixture::new();
        fixture.store = open_on(&disk, Manifest::default());
        let saved = (fixture.store.manifest(), Version(0));
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self { disk, fixture, model: Model::default(), log: Vec::new(), saved, rng }
    }

    /// Writes, deletes, flushes and compacts, until the disk refuses.
    fn work(&mut self) -> Result<()> {
        for step in 0..12 {
            self.change();
            if step % 2 == 1 {
                self.flush()?;
            }
            if step % 4 == 3 {
                self.compact()?;
            }
        }
        Ok(())
    }

    fn change(&mut self) {
        let version = self.fixture.next_version();
        let mut columns = vec![self.fixture.catalogue.id("f"), self.fixture.catalogue.id("i")];
        columns.truncate(self.rng.random_range(1..=2));
        let tables = (1..=3).map(|table| {
            let mut rows = BTreeMap::new();
            for _ in 0..self.rng.random_range(1..8) {
                let value = self.rng.random_range(0..100);
                let cells = [Cell::Float(value as f32), Cell::Int(value)];
                rows.insert(self.rng.random_range(-5..15), cells[..columns.len()].to_vec());
            }
            (TableUid(table), rows.into_iter().collect())
        });
        let write = Write { tables: tables.collect(), columns };
        self.model.write(&write);
        self.fixture.store.apply(version, write.block(&self.fixture.catalogue.schema));
        self.log.push((version, Entry::Write(write)));
        if self.rng.random_bool(0.4) {
            let version = self.fixture.next_version();
            let first = self.rng.random_range(-5..15);
            let range = TimeRange { first, last_inclusive: first + 2 };
            let tables = vec![TableUid(self.rng.random_range(1..=3))];
            self.model.delete(Some(&tables), range);
            self.fixture.store.delete(version, OWNER, DeleteScope::Tables(tables.clone().into()), range);
            self.log.push((version, Entry::Delete(tables, range)));
        }
    }

    fn flush(&mut self) -> Result<()> {
        let Some(job) = self.fixture.store.freeze() else { return Ok(()) };
        self.fixture.store.install(job.run(&self.fixture.catalogue)?);
        self.save((self.fixture.store.manifest(), job.last_version()));
        Ok(())
    }

    fn compact(&mut self) -> Result<()> {
        let mut from = None;
        while let Some(job) = self.fixture.store.compaction(self.saved.1, ALL, from) {
            from = job.place();
            let outcome = job.run(&self.fixture.catalogue, &CompactionProgress::default())?;
            assert!(self.fixture.store.install_compaction(outcome.unwrap()));
            let manifest = self.fixture.store.manifest_at(self.saved.1, self.saved.0.clone());
            self.save((manifest, self.saved.1));
        }
        Ok(())
    }

    fn save(&mut self, saved: (Manifest, Version)) {
        self.saved = saved;
        self.fixture.store.manifest_saved(&self.saved.0);
    }

    /// Ends the machine and starts it again; the log is replayed behind the checkpoint.
    fn crash(&mut self, seed: u64) {
        self.disk.crash(seed);
        self.fixture.store = open_on(&self.disk, self.saved.0.clone());
        for (version, entry) in self.log.iter().filter(|(version, _)| *version > self.saved.1) {
            let store = &mut self.fixture.store;
            match entry {
                Entry::Write(write) => store.apply(*version, write.block(&self.fixture.catalogue.schema)),
                Entry::Delete(tables, range) => {
                    store.delete(*version, OWNER, DeleteScope::Tables(tables.as_slice().into()), *range);
                }
            }
        }
    }

    /// What the model and the store do not agree on, if anything.
    fn fault(&self) -> Option<String> {
        let damaged = self.fixture.store.snapshot().verify();
        if !damaged.is_empty() {
            return Some(format!("{damaged:?}"));
        }
        let columns = [self.fixture.catalogue.id("f"), self.fixture.catalogue.id("i")];
        let expected: Vec<Row> = self
            .model
            .rows
            .iter()
            .map(|((table, ts, _), row)| {
                let cells = columns.iter().map(|id| row.get(id).cloned().unwrap_or(Cell::Null)).collect();
                (name_of(*table), *ts, cells)
            })
            .collect();
        let found = self.fixture.all(&columns);
        (found != expected).then(|| format!("{found:?} and not {expected:?}"))
    }

    fn names(&self) -> Vec<String> {
        let names = self.disk.files().into_iter().map(|(path, _)| path.file_name().unwrap().to_owned());
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

const STEPS: [Op; 6] = [Op::Create, Op::Write, Op::Sync, Op::Rename, Op::SyncDir, Op::Remove];

#[test]
fn every_row_is_as_it_was_whichever_call_was_the_last() {
    for seed in 0..4 {
        let mut calm = World::new(seed);
        calm.work().unwrap();
        assert_eq!(calm.fault(), None);
        let counts = calm.disk.counts();
        let mut crashes = 0;
        for op in STEPS {
            for nth in 0..counts.of(op) {
                let mut world = World::new(seed);
                world.disk.fail_nth(op, nth, SimFault::Errno(EIO));
                let ended = world.work();
                // A file that cannot be removed stays for the next start; all else is told.
                assert!(ended.is_err() || op == Op::Remove, "{op:?} {nth}");
                world.crash(seed * 1_000 + nth);
                let place = format!("seed {seed} op {op:?} nth {nth}");
                assert_eq!(world.fault(), None, "{place}");
                let named: Vec<&str> = world.saved.0.files.iter().map(|file| file.name.as_str()).collect();
                assert!(world.names().iter().all(|name| named.contains(&name.as_str())), "{place}");
                world.flush().unwrap();
                world.compact().unwrap();
                assert_eq!(world.fault(), None, "{place}, compacted again");
                crashes += 1;
            }
        }
        assert!(crashes >= 50, "{crashes}");
    }
}

/// A simulator must be able to fail.
#[test]
fn a_sync_that_is_forgotten_is_noticed() {
    for op in [Op::Sync, Op::SyncDir] {
        let noticed = (0..20).any(|seed| {
            let mut world = World::new(seed);
            world.disk.skip(op);
            world.work().unwrap();
            world.crash(seed);
            world.fault_or_panic()
        });
        assert!(noticed, "{op:?}");
    }
}

impl World {
    fn fault_or_panic(&self) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.fault().is_some())).unwrap_or(true)
    }
}
