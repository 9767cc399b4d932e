//! Aligned tables, as wide as their rows need.

use std::fmt::Write as _;
use std::io::{self, Write};

use client::Column;
use model::DataType;

use super::text::width;

/// Rows looked at before the first is printed.
const LOOK_AHEAD: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Table {
    names: Vec<String>,
    right: Vec<bool>,
    widths: Vec<usize>,
    waiting: Vec<Vec<String>>,
    look_ahead: usize,
    begun: bool,
}

impl Table {
    pub(super) fn new(columns: &[Column], live: bool) -> Self {
        let right = |column: &Column| column.data_type.is_numeric();
        Self {
            names: columns.iter().map(|column| column.name.clone()).collect(),
            right: columns.iter().map(right).collect(),
            // What arrives later in a live table shall fit below what came first.
            widths: columns.iter().map(|c| width(&c.name).max(if live { usual(c) } else { 0 })).collect(),
            waiting: Vec::new(),
            look_ahead: LOOK_AHEAD,
            begun: false,
        }
    }

    pub(super) fn row(&mut self, out: &mut impl Write, cells: Vec<String>) -> io::Result<()> {
        self.waiting.push(cells);
        if self.waiting.len() >= self.look_ahead { self.flush(out) } else { Ok(()) }
    }

    /// Prints what waits, and the header if that has not been.
    pub(super) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        for cells in &self.waiting {
            for (known, cell) in self.widths.iter_mut().zip(cells) {
                *known = (*known).max(width(cell));
            }
        }
        if !self.begun && !self.names.is_empty() {
            self.begun = true;
            self.line(out, &self.names)?;
            let rule: Vec<_> = self.widths.iter().map(|width| "-".repeat(width + 2)).collect();
            writeln!(out, "{}", rule.join("+"))?;
        }
        for cells in std::mem::take(&mut self.waiting) {
            self.line(out, &cells)?;
        }
        Ok(())
    }

    fn line(&self, out: &mut impl Write, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let wanted = self.widths.get(index).copied().unwrap_or(0);
            let pad = wanted.saturating_sub(width(cell));
            let (before, after) = if self.right.get(index) == Some(&true) { (pad, 0) } else { (0, pad) };
            let bar = if index > 0 { "|" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(line, "{bar} {}{cell}{} ", spaces(before), spaces(after));
        }
        // Lines are compared and pasted: none ends in blanks.
        writeln!(out, "{}", line.trim_end_matches(' '))
    }
}

/// Formats have widths of 16 bits at most; cells do not.
pub(super) fn spaces(count: usize) -> String {
    " ".repeat(count)
}

/// Columns that values of this type usually take.
fn usual(column: &Column) -> usize {
    match column.data_type {
        DataType::Timestamp => 20 + column.precision.digits(),
        DataType::Varchar(n) | DataType::NChar(n) => usize::from(n).min(16),
        DataType::Bool | DataType::TinyInt | DataType::SmallInt => 6,
        _ => 12,
    }
}
