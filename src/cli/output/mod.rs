//! Rows as text: aligned tables, CSV, JSON lines, one value a line.

mod json;
mod table;
mod text;

use std::io::{self, Write};

use arrow::array::RecordBatch;
use client::{Column, value_at};
use model::Zone;

pub use json::{json_row, json_string, unique_names};
use table::Table;
pub use text::{Style, cell};

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned, for people
    #[default]
    Table,
    /// RFC 4180 with a header, NULL is empty
    Csv,
    /// One object a line and row
    Json,
    /// One value a line
    Vertical,
}

/// Prints one result after another.
#[derive(Debug)]
pub struct Printer<W> {
    out: W,
    format: Format,
    zone: Zone,
    /// Rows are shown at once, rather than looked at first to align them well.
    live: bool,
    names: Vec<String>,
    table: Table,
    row: u64,
}

impl<W: Write> Printer<W> {
    /// Prints to `out`; times are in `zone`.
    pub fn new(out: W, format: Format, zone: Zone) -> Self {
        Self { out, format, zone, live: false, names: Vec::new(), table: Table::default(), row: 0 }
    }

    /// Shows rows as they arrive.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    /// Begins a result.
    ///
    /// # Errors
    /// Of writing.
    pub fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        self.names = unique_names(columns.iter().map(|column| column.name.as_str()));
        self.row = 0;
        match self.format {
            Format::Table => self.table = Table::new(columns, self.live),
            Format::Csv => self.csv_line(columns.iter().map(|column| column.name.clone()))?,
            Format::Json | Format::Vertical => {}
        }
        Ok(())
    }

    /// Rows of the result.
    ///
    /// # Errors
    /// Of writing.
    pub fn rows(&mut self, columns: &[Column], batch: &RecordBatch) -> io::Result<()> {
        let zone = self.zone;
        for row in 0..batch.num_rows() {
            self.row += 1;
            let values = batch.columns().iter().map(|array| value_at(array, row));
            let cells =
                |style| columns.iter().zip(values.clone()).map(move |(c, v)| cell(&v, c, zone, style));
            match self.format {
                Format::Table => {
                    let cells = cells(Style::Plain).collect();
                    self.table.row(&mut self.out, cells)?;
                }
                Format::Csv => {
                    let line: Vec<_> = cells(Style::Exact).collect();
                    self.csv_line(line.into_iter())?;
                }
                Format::Json => {
                    let line = json_row(&self.names, columns, values, zone);
                    writeln!(self.out, "{line}")?;
                }
                Format::Vertical => {
                    let cells: Vec<_> = cells(Style::Plain).collect();
                    self.vertical(columns, &cells)?;
                }
            }
        }
        if self.live {
            self.table.flush(&mut self.out)?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Ends a result.
    ///
    /// # Errors
    /// Of writing.
    pub fn end(&mut self) -> io::Result<()> {
        self.table.flush(&mut self.out)?;
        self.out.flush()
    }

    /// A statement without rows.
    ///
    /// # Errors
    /// Of writing.
    pub fn affected(&mut self, rows: u64) -> io::Result<()> {
        if self.format == Format::Json {
            writeln!(self.out, "{{\"affected_rows\":{rows}}}")?;
        }
        self.out.flush()
    }

    /// Where it prints to.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    fn vertical(&mut self, columns: &[Column], cells: &[String]) -> io::Result<()> {
        let width = columns.iter().map(|column| text::width(&column.name)).max().unwrap_or(0);
        writeln!(self.out, "*************************** {}. row ***************************", self.row)?;
        for (column, cell) in columns.iter().zip(cells) {
            let pad = width.saturating_sub(text::width(&column.name));
            writeln!(self.out, "{}{}: {cell}", table::spaces(pad), column.name)?;
        }
        Ok(())
    }

    fn csv_line(&mut self, cells: impl Iterator<Item = String>) -> io::Result<()> {
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                self.out.write_all(b",")?;
            }
            if cell.contains(['"', ',', '\n', '\r']) {
                write!(self.out, "\"{}\"", cell.replace('"', "\"\""))?;
            } else {
                self.out.write_all(cell.as_bytes())?;
            }
        }
        // RFC 4180 ends lines with both.
        self.out.write_all(b"\r\n")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Float64Array, Int64Array, StringArray, TimestampMillisecondArray, UInt64Array,
    };
    use model::{DataType, Precision};

    use super::*;

    fn column(name: &str, data_type: DataType) -> Column {
        Column { name: name.into(), data_type, precision: Precision::Ms }
    }

    fn sample() -> (Vec<Column>, RecordBatch) {
        let columns = vec![
            column("ts", DataType::Timestamp),
            column("v", DataType::Double),
            column("v", DataType::BigInt),
            column("note", DataType::NChar(20)),
            column("u", DataType::UBigInt),
        ];
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(vec![1_704_067_200_123, 0])),
            Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(10.25)])),
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None])),
            Arc::new(StringArray::from(vec![Some("größe, \"x\"\n"), None])),
            Arc::new(UInt64Array::from(vec![u64::MAX, 7])),
        ];
        let names = ["ts", "v", "v2", "note", "u"].into_iter().zip(arrays);
        (columns, RecordBatch::try_from_iter_with_nullable(names.map(|(n, a)| (n, a, true))).unwrap())
    }

    fn print(format: Format, zone: &str) -> String {
        let (columns, batch) = sample();
        let mut printer = Printer::new(Vec::new(), format, Zone::parse(zone).unwrap());
        printer.begin(&columns).unwrap();
        printer.rows(&columns, &batch).unwrap();
        printer.end().unwrap();
        String::from_utf8(printer.out().clone()).unwrap()
    }

    #[test]
    fn json_is_exact() {
        assert_eq!(
            print(Format::Json, "+08:00"),
            concat!(
                r#"{"ts":"2024-01-01T08:00:00.123+08:00","v":"NaN","v_2":-9223372036854775808,"#,
                r#""note":"größe, \"x\"\n","u":18446744073709551615}"#,
                "\n",
                r#"{"ts":"1970-01-01T08:00:00.000+08:00","v":10.25,"v_2":null,"note":null,"u":7}"#,
                "\n"
            )
        );
    }

    #[test]
    fn csv_is_that_of_the_rfc() {
        assert_eq!(
            print(Format::Csv, "UTC"),
            "ts,v,v,note,u\r\n\
             2024-01-01T00:00:00.123Z,NaN,-9223372036854775808,\"größe, \"\"x\"\"\n\",18446744073709551615\r\n\
             1970-01-01T00:00:00.000Z,10.25,,,7\r\n"
        );
    }

    #[test]
    fn tables_align() {
        assert_eq!(
            print(Format::Table, "UTC"),
            concat!(
                " ts                      |     v |                    v | note         |                    u\n",
                "-------------------------+-------+----------------------+--------------+----------------------\n",
                " 2024-01-01 00:00:00.123 |   NaN | -9223372036854775808 | größe, \"x\"\\n | 18446744073709551615\n",
                " 1970-01-01 00:00:00.000 | 10.25 |                 NULL | NULL         |                    7\n",
            )
        );
    }

    /// Wider than what a format can be told.
    #[test]
    fn wide_cells_and_names_are_printed() {
        let wide = "x".repeat(70_000);
        let columns = vec![column(&wide, DataType::NChar(20)), column("b", DataType::NChar(20))];
        let values: ArrayRef = Arc::new(StringArray::from(vec![wide.as_str(), "y"]));
        let batch =
            RecordBatch::try_from_iter([("a", Arc::clone(&values)), ("b", Arc::clone(&values))]).unwrap();
        for format in [Format::Table, Format::Vertical] {
            let mut printer = Printer::new(Vec::new(), format, Zone::UTC);
            printer.begin(&columns).unwrap();
            printer.rows(&columns, &batch).unwrap();
            printer.end().unwrap();
            let text = String::from_utf8(printer.out().clone()).unwrap();
            assert!(text.contains(&wide) && text.contains('y'));
        }
    }

    #[test]
    fn vertical_is_a_value_a_line() {
        let text = print(Format::Vertical, "UTC");
        assert!(text.starts_with("*************************** 1. row"), "{text}");
        assert!(text.contains("\n  ts: 2024-01-01 00:00:00.123\n   v: NaN\n"), "{text}");
        assert!(text.contains("\nnote: NULL\n"), "{text}");
    }

    #[test]
    fn statements_without_rows_say_so_in_json_only() {
        for (format, expected) in
            [(Format::Json, "{\"affected_rows\":5}\n"), (Format::Csv, ""), (Format::Table, "")]
        {
            let mut printer = Printer::new(Vec::new(), format, Zone::UTC);
            printer.affected(5).unwrap();
            assert_eq!(String::from_utf8(printer.out().clone()).unwrap(), expected);
        }
    }

    #[test]
    fn an_empty_result_still_has_its_header() {
        let (columns, _) = sample();
        let mut printer = Printer::new(Vec::new(), Format::Table, Zone::UTC);
        printer.begin(&columns).unwrap();
        printer.end().unwrap();
        let text = String::from_utf8(printer.out().clone()).unwrap();
        assert_eq!(text.lines().next().unwrap(), " ts | v | v | note | u");
    }
}
