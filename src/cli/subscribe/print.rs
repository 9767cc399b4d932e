//! Messages as lines.

use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;
use client::{Block, Column, Message};
use model::Zone;

use crate::cli::output::{Format, Printer, json_row, json_string, unique_names};

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// One object a line and row, see below
    #[default]
    Json,
    /// Values only; a header whenever the columns are others
    Csv,
    /// Aligned, for people
    Table,
}

/// Records that the log no longer had when it was read: text and JSON say the same numbers, both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    from: i64,
    to: i64,
    vgroup: u32,
}

impl Gap {
    /// The one just before a message.
    pub(super) fn before(message: &Message) -> Option<Self> {
        let skipped = message.skipped()?;
        Some(Self { from: skipped.from, to: skipped.to - 1, vgroup: message.vgroup() })
    }

    fn json(self) -> String {
        format!("\"skipped\":{{\"from\":{},\"to\":{}}}", self.from, self.to)
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, vgroup } = self;
        let records =
            if from == to { format!("record {from} is") } else { format!("records {from} to {to} are") };
        write!(
            f,
            "vgroup {vgroup}: {records} gone from the log: WAL_RETENTION_PERIOD and WAL_RETENTION_SIZE say how long it keeps \
             them, and `tidemark wal repair` may have given damaged ones up; reading goes on at {}",
            to + 1
        )
    }
}

/// Prints messages to `out`, each at once.
pub(super) struct RowPrinter<W: Write> {
    printer: Printer<W>,
    format: RowFormat,
    zone: Zone,
    /// Columns of the last header.
    columns: Option<(bool, Vec<Column>)>,
}

impl<W: Write> RowPrinter<W> {
    pub(super) fn new(out: W, format: RowFormat, zone: Zone) -> Self {
        let cells = if format == RowFormat::Csv { Format::Csv } else { Format::Table };
        Self { printer: Printer::new(out, cells, zone).live(), format, zone, columns: None }
    }

    /// Prints a message's events, if wanted, and rows, as many as are `left`.
    pub(super) fn message(
        &mut self,
        message: &Message,
        events: bool,
        left: &mut Option<u64>,
    ) -> io::Result<()> {
        if let Some(json) = message.json().filter(|_| events) {
            self.event(message, json)?;
        }
        if let (Some(gap), RowFormat::Json) = (Gap::before(message), self.format) {
            writeln!(self.printer.out(), "{{{},{}}}", place(message), gap.json())?;
        }
        let mut versions = message.row_versions();
        for block in message.blocks() {
            let rows = u64::try_from(block.batch().num_rows()).unwrap_or(u64::MAX);
            let shown = left.map_or(rows, |left| left.min(rows));
            self.block(message, block, &mut versions, usize::try_from(shown).unwrap_or(usize::MAX))?;
            if let Some(left) = left {
                *left -= shown;
            }
        }
        self.printer.out().flush()
    }

    fn event(&mut self, message: &Message, json: &str) -> io::Result<()> {
        match self.format {
            RowFormat::Json => {
                let version = message.last_version();
                writeln!(self.printer.out(), "{{{},\"version\":{version},\"meta\":{json}}}", place(message))
            }
            RowFormat::Csv | RowFormat::Table => writeln!(self.printer.out(), "Meta: {json}"),
        }
    }

    fn block(
        &mut self,
        message: &Message,
        block: &Block,
        versions: &mut impl Iterator<Item = i64>,
        rows: usize,
    ) -> io::Result<()> {
        if self.format == RowFormat::Json {
            let names = unique_names(block.columns().iter().map(|column| column.name.as_str()));
            let table =
                block.table().map(|table| format!(",\"table\":{}", json_string(table))).unwrap_or_default();
            let place = place(message);
            for (row, version) in block.rows().take(rows).zip(versions) {
                let row = json_row(&names, block.columns(), row.values(), self.zone);
                writeln!(self.printer.out(), "{{{place},\"version\":{version}{table},\"row\":{row}}}")?;
            }
            return Ok(());
        }
        let (columns, batch) = with_table(block, rows);
        let kind = (block.table().is_some(), columns);
        if self.columns.as_ref() != Some(&kind) {
            self.printer.begin(&kind.1)?;
            self.columns = Some(kind.clone());
        }
        self.printer.rows(&kind.1, &batch)
    }
}

fn place(message: &Message) -> String {
    format!("\"topic\":{},\"vgroup\":{}", json_string(message.topic()), message.vgroup())
}

/// The first rows of a block, with the table's name as their first column where it has one.
fn with_table(block: &Block, rows: usize) -> (Vec<Column>, arrow::array::RecordBatch) {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use arrow::datatypes::{Field, Schema};

    let batch = block.batch().slice(0, rows.min(block.batch().num_rows()));
    let Some(table) = block.table() else { return (block.columns().to_vec(), batch) };
    let name = Column {
        name: "tbname".into(),
        data_type: model::DataType::Varchar(192),
        precision: model::Precision::Ms,
    };
    let names: ArrayRef = Arc::new(StringArray::from(vec![table; batch.num_rows()]));
    let mut fields = vec![Arc::new(Field::new("tbname", arrow::datatypes::DataType::Utf8, false))];
    fields.extend(batch.schema().fields().iter().cloned());
    let arrays = std::iter::once(names).chain(batch.columns().iter().cloned()).collect();
    let columns = std::iter::once(name).chain(block.columns().iter().cloned()).collect();
    match RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays) {
        Ok(named) => (columns, named),
        // Cannot be: the arrays are those of a batch. Rows without the name are better than none.
        Err(_) => (block.columns().to_vec(), batch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_has_the_same_numbers_in_text_and_json() {
        let gap = Gap { from: 6, to: 10, vgroup: 2 };
        assert_eq!(gap.json(), r#""skipped":{"from":6,"to":10}"#);
        let text = gap.to_string();
        assert!(text.starts_with("vgroup 2: records 6 to 10 are gone from the log: "), "{text}");
        assert!(text.contains("WAL_RETENTION_PERIOD") && text.contains("wal repair"), "{text}");
        assert!(text.ends_with("reading goes on at 11"), "{text}");
        assert!(Gap { from: 0, to: 0, vgroup: 2 }.to_string().contains("record 0 is gone"));
    }
}
