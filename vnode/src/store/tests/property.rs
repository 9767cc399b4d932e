//! Random histories of writes, deletions, drops, schema changes, flushes and restarts; after each step some scan of the
//! store equals the same scan of the model. A failure prints its seed; `STORE_SEED=n` runs that one alone.

use std::collections::BTreeMap;

use rand::prelude::*;
use rand_chacha::ChaCha8Rng;

use super::*;

const TABLES: u64 = 6;
const SEEDS: u64 = 40;
/// And with a composite key.
const KEYED_SEEDS: u64 = 40;
const STEPS: usize = 120;

/// What the log holds, for a restart to replay.
#[derive(Clone, Debug)]
enum Entry {
    Write(Vec<RowBlock>),
    Delete(DeleteScope, TimeRange),
    DropTable(TableUid),
}

struct World {
    fixture: Fixture,
    model: Model,
    log: Vec<(Version, Entry)>,
    /// What the last checkpoint made durable, and up to which version.
    saved: (Manifest, Version),
    frozen: Vec<FlushJob>,
    rng: ChaCha8Rng,
    alive: Vec<TableUid>,
    next_table: u64,
}

#[test]
fn random_histories_equal_the_model() {
    histories("random_histories_equal", SEEDS, |_| Catalogue::new());
}

#[test]
fn random_histories_with_a_composite_key_equal_the_model() {
    let types = [DataType::Int, DataType::Varchar(12)];
    histories("random_histories_with", KEYED_SEEDS, |seed| {
        Catalogue::keyed(types[usize::try_from(seed).unwrap() % types.len()])
    });
}

fn histories(test: &str, seeds: u64, catalogue: impl Fn(u64) -> Catalogue) {
    let only = std::env::var("STORE_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let catalogue = catalogue(seed);
        let outcome = std::panic::catch_unwind(|| World::new(seed, catalogue).run());
        assert!(
            outcome.is_ok(),
            "seed {seed} fails: STORE_SEED={seed} cargo nextest run -p tidemark-vnode {test}"
        );
    }
}

impl World {
    fn new(seed: u64, catalogue: Catalogue) -> Self {
        let model = Model { key: catalogue.schema.key().map(|key| key.id), ..Model::default() };
        let fixture = Fixture { catalogue, ..Fixture::new() };
        let saved = (fixture.store.manifest(), Version(0));
        Self {
            fixture,
            model,
            log: Vec::new(),
            saved,
            frozen: Vec::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            alive: (1..=TABLES).map(TableUid).collect(),
            next_table: TABLES + 1,
        }
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            match self.rng.random_range(0..100) {
                0..60 => self.write(),
                60..70 => self.delete(),
                70..73 => self.replace_table(),
                73..76 => self.change_schema(),
                76..84 => self.freeze(),
                84..92 => self.install(),
                92..95 => self.restart(),
                95..98 => self.compact(),
                _ => {}
            }
            self.compare();
        }
        self.restart();
        self.compare();
    }

    fn ts(&mut self) -> i64 {
        // Often on or beside the edge of a bucket.
        match self.rng.random_range(0..4) {
            0 => self.rng.random_range(-3..3) * DURATION + self.rng.random_range(-1..=1),
            1 => self.rng.random_range(-2_500..2_500),
            _ => self.rng.random_range(0..40),
        }
    }

    fn range(&mut self) -> TimeRange {
        if self.rng.random_bool(0.2) {
            return TimeRange::ALL;
        }
        let (a, b) = (self.ts(), self.ts());
        TimeRange { first: a.min(b), last_inclusive: a.max(b) }
    }

    fn some_tables(&mut self) -> Vec<TableUid> {
        let count = self.rng.random_range(1..=self.alive.len());
        self.alive.choose_multiple(&mut self.rng, count).copied().collect()
    }

    fn write(&mut self) {
        let version = self.fixture.next_version();
        let schema = Arc::clone(&self.fixture.catalogue.schema);
        let mut blocks = Vec::new();
        for _ in 0..self.rng.random_range(1..=2) {
            let write = self.random_write(&schema);
            self.model.write(&write);
            let block = write.block(&schema);
            self.fixture.store.apply(version, block.clone());
            blocks.push(block);
        }
        self.log.push((version, Entry::Write(blocks)));
    }

    fn random_write(&mut self, schema: &TableSchema) -> Write {
        let mut columns = self.values(schema);
        columns.shuffle(&mut self.rng);
        if self.rng.random_bool(0.5) {
            columns.truncate(self.rng.random_range(0..=columns.len()));
        }
        columns.splice(0..0, self.model.key);
        let mut tables = Vec::new();
        for table in self.some_tables() {
            let mut rows = BTreeMap::new();
            for _ in 0..self.rng.random_range(1..20) {
                let cells: Vec<Cell> = columns.iter().map(|id| self.random_cell(schema, *id)).collect();
                let key = ModelKey::of(self.model.key, &columns, &cells);
                rows.insert((self.ts(), key), cells);
            }
            tables.push((table, rows.into_iter().map(|((ts, _), cells)| (ts, cells)).collect()));
        }
        Write { columns, tables }
    }

    /// The columns that are no part of the key.
    fn values(&self, schema: &TableSchema) -> Vec<ColumnId> {
        let ids = schema.columns.iter().skip(1).map(|column| column.id);
        ids.filter(|id| Some(*id) != self.model.key).collect()
    }

    fn random_cell(&mut self, schema: &TableSchema, id: ColumnId) -> Cell {
        if Some(id) == self.model.key {
            let number = self.rng.random_range(-2..3);
            return match schema.key().unwrap().data_type {
                DataType::Int => Cell::Int(number),
                _ => Cell::Text("k".repeat(usize::try_from(number + 2).unwrap())),
            };
        }
        if self.rng.random_bool(0.2) {
            return Cell::Null;
        }
        let number = self.rng.random_range(-1_000..1_000);
        match schema.column_by_id(id).unwrap().1.data_type {
            DataType::Float => Cell::Float(number as f32 / 4.0),
            DataType::Int => Cell::Int(number),
            DataType::Bool => Cell::Bool(number > 0),
            DataType::Timestamp => Cell::Time(i64::from(number)),
            _ => Cell::Text(format!("t{number}")),
        }
    }

    fn delete(&mut self) {
        let version = self.fixture.next_version();
        let range = self.range();
        let scope = if self.rng.random_bool(0.2) {
            self.model.delete(None, range);
            DeleteScope::All
        } else {
            let tables = self.some_tables();
            self.model.delete(Some(&tables), range);
            DeleteScope::Tables(tables.into())
        };
        self.fixture.store.delete(version, OWNER, scope.clone(), range);
        self.log.push((version, Entry::Delete(scope, range)));
    }

    fn replace_table(&mut self) {
        let version = self.fixture.next_version();
        let at = self.rng.random_range(0..self.alive.len());
        let gone = std::mem::replace(&mut self.alive[at], TableUid(self.next_table));
        self.next_table += 1;
        self.model.delete(Some(&[gone]), TimeRange::ALL);
        self.fixture.catalogue.gone.push(gone);
        self.fixture.store.drop_table(OWNER, gone, version);
        self.log.push((version, Entry::DropTable(gone)));
    }

    fn change_schema(&mut self) {
        let droppable = self.values(&self.fixture.catalogue.schema);
        let catalogue = &mut self.fixture.catalogue;
        if droppable.len() > 2 && self.rng.random_bool(0.5) {
            let id = *droppable.choose(&mut self.rng).unwrap();
            catalogue.drop_column(id);
            self.model.rows.values_mut().for_each(|row| {
                row.remove(&id);
            });
        } else {
            let number = self.rng.random_range(0..1_000_000);
            catalogue.add_column(&format!("n{number}"), DataType::Int);
        }
    }

    fn freeze(&mut self) {
        self.frozen.extend(self.fixture.store.freeze());
    }

    /// Flushes the oldest frozen memtable, and in half the cases makes that durable.
    fn install(&mut self) {
        if self.frozen.is_empty() {
            return;
        }
        let job = self.frozen.remove(0);
        let outcome = job.run(&self.fixture.catalogue).unwrap();
        if self.rng.random_bool(0.2) {
            // The process would end here: the files lie there, unknown.
            self.restart();
            return;
        }
        self.fixture.store.install(outcome);
        let manifest = self.fixture.store.manifest();
        self.fixture.store.manifest_saved(&manifest);
        self.saved = (manifest, job.last_version());
    }

    /// Merges some files of what is durable; the process may end at each step, and the log goes on meanwhile.
    fn compact(&mut self) {
        let scope = match self.rng.random_range(0..3) {
            0 => CompactionScope::Worthwhile,
            1 => CompactionScope::All(self.range()),
            _ => CompactionScope::All(TimeRange::ALL),
        };
        let mut from = None;
        while let Some(job) = self.fixture.store.compaction(self.saved.1, scope, from) {
            from = job.place();
            let outcome = job.run(&self.fixture.catalogue, &CompactionProgress::default()).unwrap();
            match self.rng.random_range(0..10) {
                0 => return self.restart(),
                1 => self.write(),
                2 => self.delete(),
                3 => self.replace_table(),
                4 => self.change_schema(),
                5 => self.freeze(),
                6 => self.install(),
                _ => {}
            }
            // A restart on the way leaves the result to nobody: its inputs are other files now.
            let installed = self.fixture.store.install_compaction(outcome.unwrap());
            self.compare();
            if !installed || self.rng.random_bool(0.2) {
                return self.restart();
            }
            let manifest = self.fixture.store.manifest_at(self.saved.1, self.saved.0.clone());
            self.fixture.store.manifest_saved(&manifest);
            self.saved.0 = manifest;
        }
    }

    fn restart(&mut self) {
        self.frozen.clear();
        let bytes = postcard::to_stdvec(&self.saved.0).unwrap();
        self.fixture.store = open(&self.fixture.dir, postcard::from_bytes(&bytes).unwrap()).unwrap();
        for (version, entry) in self.log.iter().filter(|(version, _)| *version > self.saved.1) {
            let store = &mut self.fixture.store;
            match entry.clone() {
                Entry::Write(blocks) => blocks.into_iter().for_each(|block| store.apply(*version, block)),
                Entry::Delete(scope, range) => store.delete(*version, OWNER, scope, range),
                Entry::DropTable(table) => store.drop_table(OWNER, table, *version),
            }
        }
    }

    fn compare(&mut self) {
        let schema = Arc::clone(&self.fixture.catalogue.schema);
        let mut columns: Vec<ColumnId> = schema.columns.iter().skip(1).map(|column| column.id).collect();
        columns.shuffle(&mut self.rng);
        columns.truncate(self.rng.random_range(0..=columns.len()));
        let mut plan = self.fixture.plan(&columns);
        plan.time = self.range();
        plan.order = *[ScanOrder::Any, ScanOrder::TableTime, ScanOrder::Time].choose(&mut self.rng).unwrap();
        let mut wanted = self.alive.clone();
        if self.rng.random_bool(0.5) {
            wanted = self.some_tables();
            plan.tables = Selection::listed(wanted.iter().map(|table| selected(*table)).collect());
        }
        let (order, time) = (plan.order, plan.time);
        let mut found = self.fixture.scan(plan.clone());
        let mut expected: Vec<(TableUid, Row)> = Vec::new();
        for ((table, ts, _), row) in &self.model.rows {
            if wanted.contains(table) && time.contains(*ts) {
                let cells = columns.iter().map(|id| row.get(id).cloned().unwrap_or(Cell::Null)).collect();
                expected.push((*table, (name_of(*table), *ts, cells)));
            }
        }
        match order {
            ScanOrder::Any => {
                let number = |name: &str| name[1..].parse::<u64>().unwrap();
                found.sort_by_key(|(name, ts, _)| (number(name), *ts));
            }
            ScanOrder::TableTime => {}
            ScanOrder::Time => expected.sort_by_key(|(table, (_, ts, _))| (*ts, *table)),
        }
        let expected: Vec<Row> = expected.into_iter().map(|(_, row)| row).collect();
        assert_eq!(found, expected, "order {order:?} time {time:?} columns {columns:?}");
        self.compare_limit(plan, &expected);
        self.compare_count(&wanted, time, expected.len());
        self.compare_sums(&wanted, time);
    }

    fn compare_limit(&mut self, mut plan: ScanPlan, expected: &[Row]) {
        let limit = self.rng.random_range(0..30);
        let order = plan.order;
        plan.limit = Some(limit);
        let found = self.fixture.scan(plan);
        match order {
            ScanOrder::Any => assert_eq!(found.len(), limit.min(expected.len())),
            _ => assert_eq!(found, expected[..limit.min(expected.len())]),
        }
    }

    /// What is summed up and what is not come to all rows together, each once.
    fn compare_sums(&self, wanted: &[TableUid], time: TimeRange) {
        let Some((_, column)) = self.fixture.catalogue.schema.column("i") else { return };
        let mut plan = self.fixture.plan(&[column.id]);
        plan.order = ScanOrder::Any;
        plan.time = time;
        plan.tables = Selection::listed(wanted.iter().map(|table| selected(*table)).collect());
        let mut found: BTreeMap<String, (u64, i64)> = BTreeMap::new();
        let snapshot = self.fixture.store.snapshot();
        let mut scan = Scan::new(plan.clone(), snapshot.inputs(&plan));
        let blocks = Arc::default();
        scan.sum(&[Summand { column: column.id, in_every_row: false }], Arc::clone(&blocks));
        while let Some(batch) = scan.next_batch().unwrap() {
            for (name, _, cells) in rows(&[batch]) {
                let sum = found.entry(name).or_default();
                sum.0 += 1;
                sum.1 += if let Cell::Int(v) = cells[0] { i64::from(v) } else { 0 };
            }
        }
        for some in blocks.lock().iter() {
            for (at, count) in some.rows.iter().enumerate() {
                let Cell::Text(name) = cell(some.labels.column(0), at) else { panic!("no name") };
                let (sum, of) = (found.entry(name).or_default(), some.sums[0][at]);
                sum.0 += count;
                sum.1 += if of.count > 0 { of.sum.cast_signed() } else { 0 };
            }
        }
        let mut expected: BTreeMap<String, (u64, i64)> = BTreeMap::new();
        for ((table, ts, _), row) in &self.model.rows {
            if wanted.contains(table) && time.contains(*ts) {
                let sum = expected.entry(name_of(*table)).or_default();
                sum.0 += 1;
                sum.1 += if let Some(Cell::Int(v)) = row.get(&column.id) { i64::from(*v) } else { 0 };
            }
        }
        assert_eq!(found, expected, "time {time:?}");
    }

    /// Without any column, rows are merely counted.
    fn compare_count(&self, wanted: &[TableUid], time: TimeRange, expected: usize) {
        let mut plan = self.fixture.plan(&[]);
        plan.columns.clear();
        plan.output = output_schema(&plan.schema, &[]);
        plan.order = ScanOrder::Any;
        plan.time = time;
        plan.tables = Selection::listed(wanted.iter().map(|table| selected(*table)).collect());
        let found: usize =
            batches(&self.fixture.store.snapshot(), plan).iter().map(RecordBatch::num_rows).sum();
        assert_eq!(found, expected);
    }
}
