//! Where rows gather while the text is read: by relation, set of columns and vgroup.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{Code, DatabaseId, DatabaseInfo, Error, Result, TableSchema, TableUid, Value, vgroup_slot};

use super::{InsertCatalog, InsertTarget, TargetKind};
use crate::literal::ColumnBuilder;

/// Everything read so far. Relations are kept in order of appearance, so that the outcome does not depend on hashing.
#[derive(Debug, Default)]
pub(super) struct Gather {
    pub(super) relations: Vec<Relation>,
    stables: HashMap<(DatabaseId, TableUid), usize>,
    normals: HashMap<(DatabaseId, String), usize>,
    /// Rows read, which numbers them.
    pub(super) rows: u64,
}

/// A super table or a normal table.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) database: Arc<DatabaseInfo>,
    pub(super) stable: Option<TableUid>,
    pub(super) schema: Arc<TableSchema>,
    pub(super) tables: Vec<Table>,
    /// Tables by name.
    pub(super) names: HashMap<String, usize>,
    /// Sets of supplied columns: places in the schema, rising, so that the timestamp is first.
    sets: Vec<Vec<usize>>,
    pub(super) batches: Vec<Batch>,
    by_slot_and_set: HashMap<(Option<usize>, usize), usize>,
}

/// A table that rows are for.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// Place of its vgroup in the database.
    pub(super) slot: usize,
    /// Tags to create it with.
    pub(super) tags: Option<Vec<Value>>,
    /// The batch that has its rows.
    pub(super) batch: Option<usize>,
    /// Its rows are in several batches.
    pub(super) scattered: bool,
}

/// Rows with the same supplied columns, for one vgroup or (where each row names its table) for any.
#[derive(Debug)]
pub(super) struct Batch {
    /// Place of the vgroup, `None` for any.
    pub(super) slot: Option<usize>,
    /// Places of the columns in the schema.
    pub(super) places: Vec<usize>,
    /// One for each place.
    pub(super) columns: Vec<ColumnBuilder>,
    /// Which rows are whose.
    pub(super) runs: Vec<Run>,
}

/// Rows of one table that were read in one go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Index of the table in its relation.
    pub(super) table: usize,
    /// First row.
    pub(super) start: usize,
    /// First row that is not the run's.
    pub(super) end: usize,
    /// Number of the run's first row in the statement.
    pub(super) sequence: u64,
}

impl Gather {
    /// The relation of `target`; `name` is the table's.
    pub(super) fn relation(&mut self, target: InsertTarget, name: &str) -> usize {
        let relations = &mut self.relations;
        let database = target.database;
        let mut add = |stable, schema| {
            relations.push(Relation::new(Arc::clone(&database), stable, schema));
            relations.len() - 1
        };
        match target.kind {
            TargetKind::Normal(schema) => {
                *self.normals.entry((database.id, name.to_owned())).or_insert_with(|| add(None, schema))
            }
            TargetKind::Child(stable) | TargetKind::Stable(stable) => *self
                .stables
                .entry((database.id, stable.uid))
                .or_insert_with(|| add(Some(stable.uid), Arc::clone(&stable.schema))),
        }
    }
}

impl Gather {
    /// Checks the names of all children that the statement may make.
    ///
    /// # Errors
    /// Those of [`InsertCatalog::check_children`]; [`Code::OtherStable`] for a name under two super tables.
    pub(super) fn check_children(&self, catalog: &mut dyn InsertCatalog) -> Result<()> {
        let mut seen: HashSet<(DatabaseId, &str)> = HashSet::new();
        for relation in &self.relations {
            let Some(stable) = relation.stable else { continue };
            // One without tags was looked up with its block: it exists.
            let made = relation.tables.iter().filter(|table| table.tags.is_some());
            let names: Vec<&str> = made.map(|table| table.name.as_str()).collect();
            if names.is_empty() {
                continue;
            }
            catalog.check_children(&relation.database, stable, &names)?;
            if self.stables.len() > 1 {
                let twice = names.into_iter().find(|&name| !seen.insert((relation.database.id, name)));
                if let Some(name) = twice {
                    return Err(Error::with(Code::OtherStable, name));
                }
            }
        }
        Ok(())
    }

    /// A relation, and the count of rows read.
    pub(super) fn relation_and_rows(&mut self, index: usize) -> Result<(&mut Relation, &mut u64)> {
        let relation = self.relations.get_mut(index);
        relation.map(|r| (r, &mut self.rows)).ok_or_else(|| Error::internal("relation out of range"))
    }
}

impl Relation {
    fn new(database: Arc<DatabaseInfo>, stable: Option<TableUid>, schema: Arc<TableSchema>) -> Self {
        Self {
            database,
            stable,
            schema,
            tables: Vec::new(),
            names: HashMap::new(),
            sets: Vec::new(),
            batches: Vec::new(),
            by_slot_and_set: HashMap::new(),
        }
    }

    /// The table `name`, if rows for it were met.
    pub(super) fn known_table(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The table `name`. `tags` count the first time only: by the second row it exists.
    pub(super) fn table(&mut self, name: &str, tags: Option<Vec<Value>>) -> Result<usize> {
        if let Some(index) = self.known_table(name) {
            if let Some(table) = self.tables.get_mut(index)
                && table.tags.is_none()
            {
                table.tags = tags;
            }
            return Ok(index);
        }
        let slot = vgroup_slot(name, self.database.vgroups.len())
            .ok_or_else(|| Error::internal(format_args!("database {} has no vgroups", self.database.name)))?;
        let index = self.tables.len();
        self.names.insert(name.to_owned(), index);
        self.tables.push(Table { name: name.to_owned(), slot, tags, batch: None, scattered: false });
        Ok(index)
    }

    /// The batch for rows with the columns at `places` (rising).
    pub(super) fn batch(&mut self, slot: Option<usize>, places: &[usize]) -> Result<usize> {
        let set = match self.sets.iter().position(|set| set == places) {
            Some(set) => set,
            None => {
                self.sets.push(places.to_vec());
                self.sets.len() - 1
            }
        };
        if let Some(&batch) = self.by_slot_and_set.get(&(slot, set)) {
            return Ok(batch);
        }
        let mut columns = Vec::with_capacity(places.len());
        for &place in places {
            let column = self.schema.columns.get(place).ok_or_else(|| Error::of(Code::ColumnCount))?;
            columns.push(ColumnBuilder::new(column.data_type));
        }
        let index = self.batches.len();
        self.batches.push(Batch { slot, places: places.to_vec(), columns, runs: Vec::new() });
        self.by_slot_and_set.insert((slot, set), index);
        Ok(index)
    }

    /// Says that the rows of `batch` from the last run's end to `end` are those of `table`, the first of them being
    /// row `sequence` of the statement.
    pub(super) fn close_run(&mut self, batch: usize, table: usize, end: usize, sequence: u64) {
        if let Some(table) = self.tables.get_mut(table) {
            match table.batch {
                None => table.batch = Some(batch),
                Some(other) if other != batch => table.scattered = true,
                Some(_) => {}
            }
        }
        let Some(batch) = self.batches.get_mut(batch) else { return };
        let start = batch.runs.last().map_or(0, |run| run.end);
        match batch.runs.last_mut() {
            Some(last) if last.table == table && last.next_sequence() == sequence => last.end = end,
            _ => batch.runs.push(Run { table, start, end, sequence }),
        }
    }
}

impl Batch {
    /// Rows so far.
    pub(super) fn rows(&self) -> usize {
        self.columns.first().map_or(0, ColumnBuilder::len)
    }
}

impl Run {
    /// Number of the row behind the run's last, had the statement gone on with it.
    fn next_sequence(&self) -> u64 {
        self.sequence + u64::try_from(self.end - self.start).unwrap_or(u64::MAX)
    }
}
