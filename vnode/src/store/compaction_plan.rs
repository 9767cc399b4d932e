//! Which files are merged next. Decides from what the manifest knows of files, without reading one.
//!
//! Files of one owner and bucket overlap, files of two buckets never do: so a merge takes files of one bucket, and of
//! these such as follow each other in age, as its result has the age of the youngest. The result reflects the log up to
//! the checkpoint and no further, whatever is known by now: after a restart the replay begins there, and a file that
//! claimed more would hide from DELETEs that have not come again yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{TableUid, Version};
use query::source::TimeRange;

use super::compaction::CompactionSize;
use super::deletions::Deletions;
use super::file::DataFile;

/// Files of one merge at most: a merge holds some batches of each.
const FILES_MAX: usize = 32;
/// Files of a bucket that is still being written to before they are merged.
const FILES_MIN: usize = 4;
/// Bytes of one merge that nobody asked for. Larger files stay as they are until COMPACT.
const BYTES_MAX: u64 = 4 << 30;
/// One in this many of a file's rows may be hidden by DELETEs before it is written again.
const HIDDEN_SHARE: u64 = 4;

/// What may be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionScope {
    /// What pays: many small files, and files of which much is deleted.
    Worthwhile,
    /// Whatever is not one file a bucket, and every file with deleted rows, within this range of time (in ticks).
    All(TimeRange),
}

/// Files of one bucket that follow each other in age.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    pub(super) files: Vec<Arc<DataFile>>,
    /// Whether no older file of the bucket is left out.
    pub(super) oldest: bool,
}

/// An owner's bucket.
pub type Place = (TableUid, i64);

/// Files by place, those of a place by age.
pub(super) struct Planner<'a> {
    places: BTreeMap<Place, Vec<&'a Arc<DataFile>>>,
    /// Of each owner.
    newest: BTreeMap<TableUid, i64>,
    deletions: &'a Deletions,
    checkpoint: Version,
}

impl<'a> Planner<'a> {
    /// `files` are ordered by age, `deletions` are those up to the checkpoint.
    pub(super) fn new(files: &'a [Arc<DataFile>], deletions: &'a Deletions, checkpoint: Version) -> Self {
        let mut places: BTreeMap<Place, Vec<&Arc<DataFile>>> = BTreeMap::new();
        for file in files {
            places.entry((file.meta.owner, file.meta.bucket)).or_default().push(file);
        }
        // Places ascend: the last one of an owner stays.
        let newest = places.keys().copied().collect();
        Self { places, newest, deletions, checkpoint }
    }

    /// The next merge at `from` or a later place.
    pub(super) fn pick(&self, scope: CompactionScope, from: Option<Place>) -> Option<Pick> {
        let first = from.unwrap_or((TableUid(0), i64::MIN));
        self.places.range(first..).find_map(|(place, held)| self.pick_at(scope, *place, held))
    }

    fn pick_at(&self, scope: CompactionScope, place: Place, held: &[&'a Arc<DataFile>]) -> Option<Pick> {
        // A file that the checkpoint does not hold yet is younger than all that it holds.
        let usable = held.iter().take_while(|file| file.meta.last_version <= self.checkpoint).count();
        let held = held.get(..usable).unwrap_or_default();
        // Files on both sides of a damaged one do not follow each other, and what is mended should be as it was.
        if held.iter().any(|file| file.damage().is_some()) {
            return None;
        }
        let is_newest = self.newest.get(&place.0) == Some(&place.1);
        let (start, end) = match scope {
            CompactionScope::Worthwhile => worthwhile(held, self.deletions, is_newest),
            CompactionScope::All(time) => all(held, self.deletions, time),
        }?;
        let files: Vec<_> = held.get(start..end)?.iter().map(|file| Arc::clone(file)).collect();
        (!files.is_empty()).then_some(Pick { files, oldest: start == 0 })
    }

    /// The first merge at each place, taken together.
    pub(super) fn size(&self, scope: CompactionScope) -> CompactionSize {
        let picks = self.places.iter().filter_map(|(place, held)| self.pick_at(scope, *place, held));
        picks.fold(CompactionSize::default(), |size, pick| CompactionSize {
            buckets: size.buckets + 1,
            rows: size.rows + pick.files.iter().map(|file| file.meta.rows).sum::<u64>(),
        })
    }
}

/// The youngest files as far as they are of like size; else a file with much deleted.
fn worthwhile(held: &[&Arc<DataFile>], deletions: &Deletions, is_newest: bool) -> Option<(usize, usize)> {
    // A bucket that time has passed gets no more files as a rule: two are merged, where the newest waits for more.
    let files_min = if is_newest { FILES_MIN } else { 2 };
    let (mut start, mut bytes, mut rows) = (held.len(), 0u64, 0u64);
    for (at, file) in held.iter().enumerate().rev() {
        bytes = bytes.saturating_add(file.meta.bytes);
        // No more rows than are merged already: then rows are written again once for each time that their bucket doubles.
        // Bytes would not tell, as small files have more of them than their rows need.
        let alike = rows == 0 || file.meta.rows <= rows;
        if !alike || bytes > BYTES_MAX || held.len() - at > FILES_MAX {
            break;
        }
        (start, rows) = (at, rows + file.meta.rows);
    }
    if held.len() - start >= files_min {
        return Some((start, held.len()));
    }
    let hidden =
        |file: &DataFile| hidden_rows(file, deletions).saturating_mul(HIDDEN_SHARE) >= file.meta.rows;
    let small = |file: &DataFile| file.meta.bytes <= BYTES_MAX;
    let at = held.iter().position(|file| small(file) && hidden(file))?;
    Some((at, at + 1))
}

/// The oldest files of the bucket, or one with something deleted.
fn all(held: &[&Arc<DataFile>], deletions: &Deletions, time: TimeRange) -> Option<(usize, usize)> {
    if !held.iter().any(|file| !file.meta.time().intersect(time).is_empty()) {
        return None;
    }
    if held.len() > 1 {
        return Some((0, held.len().min(FILES_MAX)));
    }
    held.first().filter(|file| deletions.concern(&file.meta)).map(|_| (0, 1))
}

/// About how many of a file's rows are hidden, supposing that tables and times hold alike many.
fn hidden_rows(file: &DataFile, deletions: &Deletions) -> u64 {
    let meta = &file.meta;
    let share = |rows: u64, part: u128, whole: u128| {
        u64::try_from(u128::from(rows) * part / whole.max(1)).unwrap_or(u64::MAX)
    };
    let width = |time: TimeRange| {
        u128::try_from(i128::from(time.last_inclusive) - i128::from(time.first) + 1).unwrap_or(0)
    };
    let mut rows = 0u64;
    for tombstone in deletions.tombstones.iter().filter(|t| t.concerns(meta)) {
        let tables = tombstone.tables_within(meta).min(meta.tables);
        let of_tables = share(meta.rows, u128::from(tables), u128::from(meta.tables));
        let time = tombstone.time().intersect(meta.time());
        rows = rows.saturating_add(share(of_tables, width(time), width(meta.time())));
    }
    let dropped = deletions.dropped_within(meta).min(meta.tables);
    rows.saturating_add(share(meta.rows, u128::from(dropped), u128::from(meta.tables)))
}
