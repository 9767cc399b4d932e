//! Which files and memtables have to be merged with each other: those whose rows overlap in time.

use std::collections::VecDeque;
use std::sync::Arc;

use model::Precision;
use query::source::{ScanOrder, TimeRange};

use super::deletions::OwnerDeletions;
use super::file::DataFile;
use super::memtable::{Memtable, OwnerSummary, bucket_range};
use super::scan::ScanPlan;
use super::selection::Selection;

/// What a snapshot holds of one owner.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) precision: Precision,
    pub(super) duration_ticks: i64,
    pub(super) files: Vec<Arc<DataFile>>,
    /// With the sequence number that ends what is seen of each.
    pub(super) memtables: Vec<(Arc<Memtable>, u64)>,
    pub(super) deletions: Arc<OwnerDeletions>,
}

/// Inputs of one merge. Groups of one scan do not overlap in time and follow each other, unless the order by table over
/// all times makes them one.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) time: TimeRange,
    pub(super) files: Vec<Arc<DataFile>>,
    pub(super) memtables: Vec<(Arc<Memtable>, u64)>,
    /// Rows that the memtables of the group hold, of whatever time.
    pub(super) memtable_rows: usize,
}

impl Group {
    fn at(time: TimeRange) -> Self {
        Self { time, files: Vec::new(), memtables: Vec::new(), memtable_rows: 0 }
    }

    fn add_memtable(&mut self, memtable: &Arc<Memtable>, seq_end: u64, rows: usize) {
        if !self.memtables.iter().any(|(held, _)| Arc::ptr_eq(held, memtable)) {
            self.memtables.push((Arc::clone(memtable), seq_end));
            self.memtable_rows += rows;
        }
    }

    fn same_memtables(&self, other: &Self) -> bool {
        self.memtables.len() == other.memtables.len()
            && self.memtables.iter().all(|(a, _)| other.memtables.iter().any(|(b, _)| Arc::ptr_eq(a, b)))
    }

    /// Cuts the time into parts of about `rows_max` rows each, supposing that rows lie evenly.
    pub(super) fn split(self, rows_max: u64, tables: &Selection) -> Vec<Self> {
        let listed = match tables {
            Selection::All(_) => u64::MAX,
            Selection::Listed(tables) => tables.len() as u64,
        };
        let in_files: u64 = self
            .files
            .iter()
            .map(|file| {
                let share = listed.min(file.meta.tables);
                u64::try_from(
                    u128::from(file.meta.rows) * u128::from(share) / u128::from(file.meta.tables.max(1)),
                )
                .unwrap_or(u64::MAX)
            })
            .sum();
        let rows = in_files.saturating_add(self.memtable_rows as u64);
        let (first, last) = (i128::from(self.time.first), i128::from(self.time.last_inclusive));
        let parts = i128::from(rows.div_ceil(rows_max.max(1)).max(1)).min(last - first + 1);
        let width = (last - first + 1) / parts.max(1);
        let narrow = |ticks: i128| i64::try_from(ticks).unwrap_or(i64::MAX);
        (0..parts)
            .map(|part| {
                let from = first + part * width;
                let to = if part + 1 == parts { last } else { from + width - 1 };
                Self { time: TimeRange { first: narrow(from), last_inclusive: narrow(to) }, ..self.clone() }
            })
            .collect()
    }
}

/// The groups of a scan in order of time.
pub(super) fn groups(plan: &ScanPlan, inputs: &Inputs) -> VecDeque<Group> {
    if plan.time.is_empty() || plan.limit == Some(0) {
        return VecDeque::new();
    }
    let mut items = Vec::new();
    for file in &inputs.files {
        let time = file.meta.time().intersect(plan.time);
        if !time.is_empty() && may_hold(file, &plan.tables) {
            let mut item = Group::at(time);
            item.files.push(Arc::clone(file));
            items.push(item);
        }
    }
    for (memtable, seq_end) in &inputs.memtables {
        let Some(summary) = memtable.summary(plan.owner) else { continue };
        for time in memtable_times(&summary, plan.time, inputs.duration_ticks) {
            let mut item = Group::at(time);
            item.add_memtable(memtable, *seq_end, summary.rows);
            items.push(item);
        }
    }
    if plan.order == ScanOrder::TableTime && !plan.tables.is_single() {
        return one_group(items);
    }
    items.sort_by_key(|item| item.time.first);
    let mut groups: VecDeque<Group> = VecDeque::new();
    for item in items {
        match groups.back_mut() {
            // Two stretches of memtable with no file between them need not be told apart.
            Some(last)
                if item.time.first <= last.time.last_inclusive
                    || (item.files.is_empty() && last.files.is_empty() && item.same_memtables(last)) =>
            {
                join(last, item);
            }
            _ => groups.push_back(item),
        }
    }
    groups
}

fn one_group(items: Vec<Group>) -> VecDeque<Group> {
    let mut items = items.into_iter();
    let Some(mut all) = items.next() else { return VecDeque::new() };
    items.for_each(|item| join(&mut all, item));
    VecDeque::from([all])
}

fn join(group: &mut Group, item: Group) {
    group.time.first = group.time.first.min(item.time.first);
    group.time.last_inclusive = group.time.last_inclusive.max(item.time.last_inclusive);
    group.files.extend(item.files);
    for (memtable, seq_end) in item.memtables {
        group.add_memtable(&memtable, seq_end, item.memtable_rows);
    }
}

/// The buckets in which a memtable has rows, cut to what is wanted.
fn memtable_times(
    summary: &OwnerSummary,
    wanted: TimeRange,
    duration_ticks: i64,
) -> impl Iterator<Item = TimeRange> {
    let within = summary.time.intersect(wanted);
    let buckets = summary.buckets.iter();
    buckets
        .map(move |bucket| bucket_range(*bucket, duration_ticks).intersect(within))
        .filter(|range| !range.is_empty())
}

fn may_hold(file: &DataFile, tables: &Selection) -> bool {
    tables
        .listed_from(file.meta.first_table)
        .is_none_or(|listed| listed.first().is_some_and(|table| table.uid <= file.meta.last_table))
}
