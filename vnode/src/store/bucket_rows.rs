//! Writes the rows of one owner and bucket, as a merge brings them, into one file: the way that a flush and a compaction
//! share.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BinaryArray, DictionaryArray, Int32Array, StringArray, new_null_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, SchemaRef};
use model::{ColumnId, Error, Result, TableSchema, TableUid};
use wal::disk::Disk;

use super::StoreOptions;
use super::flush::SchemaSource;
use super::format::file_schema;
use super::manifest::FileMeta;
use super::merge::{Merge, Source};
use super::output::{FillLimit, Merged, Output, Run};
use super::projection::Projection;
use super::rows::ticks_of;
use super::writer::{FileHead, FileWriter};

/// Rows merged at a time: the unit that goes through the encoders.
pub(super) const BATCH_ROWS: usize = 64 * 1024;
/// And their bytes: 1 KiB a row. Wider rows go in smaller batches, or one of the widest would take 4 GiB.
pub(super) const BATCH_BYTES: usize = 64 << 20;

/// How writing ended.
#[derive(Debug)]
pub(super) enum Written {
    /// Durable, but for its name in the directory.
    File(Box<FileMeta>),
    /// No row was left.
    Nothing,
    /// It was told to stop.
    Stopped,
}

/// Whose rows, and under which schema they are written.
pub(super) struct BucketRows<'a> {
    pub(super) options: &'a StoreOptions,
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) schemas: &'a dyn SchemaSource,
    pub(super) owner: TableUid,
    pub(super) schema: Arc<TableSchema>,
    /// Whether rows may be partial and something older may show through them: the file gets `_set` then.
    pub(super) presence: bool,
}

impl BucketRows<'_> {
    /// All columns, as the sources have to read them.
    pub(super) fn projection(&self) -> Arc<Projection> {
        Arc::new(Projection::all(&self.schema, self.options.precision))
    }

    /// Merges the sources into a file. `go_on` is told the rows of each batch and may end the work; what is written by
    /// then is removed.
    pub(super) fn write(
        &self,
        sources: Vec<Source>,
        projection: &Arc<Projection>,
        head: FileHead,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Written> {
        let mut merge = Merge::new(sources, projection);
        let schema = file_schema(&self.schema, self.options.precision, self.presence);
        let mut head = Some(head);
        let mut writer: Option<FileWriter> = None;
        let mut output = Output::default();
        let mut more = true;
        while more {
            more = merge.fill(&mut output, FillLimit { rows: BATCH_ROWS, bytes: BATCH_BYTES })?;
            let presence = if self.presence { output.presence() } else { None };
            let merged = output.finish(projection)?;
            if !go_on(merged.rows) {
                return Ok(Written::Stopped);
            }
            let Some(batch) = self.batch(merged, presence, &schema)? else { continue };
            if let Some(head) = head.take() {
                let (disk, dir) = (Arc::clone(self.disk), &self.options.dir);
                writer = Some(FileWriter::create(disk, dir, head, Arc::clone(&schema))?);
            }
            if let Some(file) = &mut writer {
                file.write(&batch.columns, &batch.ticks, &batch.runs, batch.partial)?;
            }
        }
        Ok(match writer {
            Some(file) => Written::File(Box::new(file.finish()?)),
            None => Written::Nothing,
        })
    }

    /// Puts `tbname` before the columns and `_set` behind them. Rows of tables that are gone stay out.
    fn batch(
        &self,
        merged: Merged,
        presence: Option<BinaryArray>,
        schema: &SchemaRef,
    ) -> Result<Option<FileBatch>> {
        let partial = presence.is_some();
        let mut columns = merged.columns;
        if self.presence {
            columns.push(match presence {
                Some(presence) => Arc::new(presence),
                None => new_null_array(&DataType::Binary, merged.rows),
            });
        }
        let names: BTreeMap<TableUid, Arc<str>> = merged
            .runs
            .iter()
            .filter_map(|run| Some((run.table, self.schemas.table_name(self.owner, run.table)?)))
            .collect();
        let merged = Merged { columns, runs: merged.runs, rows: merged.rows }
            .retain(|table| names.contains_key(&table))?;
        if merged.rows == 0 {
            return Ok(None);
        }
        let at = self.schema.columns.iter().position(|c| c.id == ColumnId::TIMESTAMP);
        let ticks = at.and_then(|at| merged.columns.get(at)).and_then(|array| ticks_of(array));
        let ticks =
            ticks.ok_or_else(|| Error::internal(format!("table {} without timestamps", self.owner)))?;
        let mut columns = Vec::with_capacity(schema.fields().len());
        columns.push(tbname(&merged.runs, &names)?);
        columns.extend(merged.columns);
        Ok(Some(FileBatch { columns, ticks, runs: merged.runs, partial }))
    }
}

/// Rows on their way into a file.
struct FileBatch {
    columns: Vec<ArrayRef>,
    ticks: ScalarBuffer<i64>,
    runs: Vec<Run>,
    partial: bool,
}

fn tbname(runs: &[Run], names: &BTreeMap<TableUid, Arc<str>>) -> Result<ArrayRef> {
    let mut keys: Vec<i32> = Vec::with_capacity(runs.last().map_or(0, |run| run.end));
    for (number, run) in (0i32..).zip(runs) {
        keys.resize(run.end, number);
    }
    let values = StringArray::from_iter_values(
        runs.iter().map(|run| names.get(&run.table).map(|name| &**name).unwrap_or_default()),
    );
    let array = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), Arc::new(values))
        .map_err(|e| Error::internal("table names of a data file").caused_by(e))?;
    Ok(Arc::new(array))
}
