//! The second pass: lines to rows.

use std::collections::HashMap;
use std::io::Read;
use std::ops::RangeInclusive;

use model::{Code, Error, Result, Value, Zone};

use super::cells::{CellType, bad_cell, is_null, is_null_like, value};
use super::{Dialect, header, unreadable};

/// Where rows go; a batch of the writer, or a test's list.
pub(super) trait Rows {
    /// Takes one row of `table`, which is created with `tags` where it is a child that is missing.
    ///
    /// # Errors
    /// When it does not fit.
    fn push(&mut self, table: &str, tags: Option<&[Value]>, row: &[Value]) -> Result<()>;
}

/// A cell's place in the file and what it is read as.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Its name in the file.
    pub(super) file_column: String,
    /// Its name in the table.
    pub(super) table_column: String,
    pub(super) cell_type: CellType,
}

/// How lines become rows.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) table: String,
    /// The time first.
    pub(super) columns: Vec<Cell>,
    /// In the super table's order; empty for a normal table.
    pub(super) tags: Vec<Cell>,
    pub(super) name: Option<Name>,
    pub(super) dialect: Dialect,
    pub(super) zone: Zone,
    /// Ticks that the table takes.
    pub(super) times: RangeInclusive<i64>,
}

impl Plan {
    /// The table's columns that rows have.
    pub(super) fn column_names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.table_column.as_str()).collect()
    }
}

/// Name of a child table: text with `{column}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Column(String),
}

const TABLE_NAME_BYTES_MAX: usize = 192;

impl Name {
    /// Reads a template; `columns` are those that it may name.
    ///
    /// # Errors
    /// [`Code::InvalidParameters`] for braces that do not close or name no column.
    pub(super) fn parse(template: &str, columns: &[String]) -> Result<Self> {
        let wrong =
            |what: String| Err(Error::with(Code::InvalidParameters, format!("--name {template}: {what}")));
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((text, behind)) = rest.split_once('{') {
            let Some((column, next)) = behind.split_once('}') else { return wrong("a { without }".into()) };
            if !columns.iter().any(|known| known == column) {
                return wrong(format!("the file has no column {column}"));
            }
            parts.extend([Part::Text(text.to_owned()), Part::Column(column.to_owned())]);
            rest = next;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// Table and tags, joined by `_`.
    pub(super) fn default(table: &str, tags: &[String]) -> Self {
        let tags = tags.iter().flat_map(|tag| [Part::Text("_".into()), Part::Column(tag.clone())]);
        Self(std::iter::once(Part::Text(table.to_owned())).chain(tags).collect())
    }

    fn fill(&self, cell: impl Fn(&str) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Column(column) => cell(column),
        };
        self.0.iter().map(part).collect()
    }
}

/// A line that was left out, and why.
#[derive(Debug)]
pub(super) struct Skipped {
    pub(super) error: Error,
}

/// What one call of [`Loader::fill`] did.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Lines read.
    pub(super) rows: u64,
    pub(super) skipped: Vec<Skipped>,
    /// The bad line that ends the import.
    pub(super) stopped: Option<Error>,
    /// The file is at its end.
    pub(super) done: bool,
}

/// Reads lines.
pub(super) struct Loader<R> {
    reader: csv::Reader<R>,
    file: String,
    plan: Plan,
    /// Place of each column of the file.
    places: HashMap<String, usize>,
    width: usize,
    /// Tags of the children seen, as their first line has them.
    children: HashMap<String, Vec<Value>>,
}

impl<R: Read> Loader<R> {
    pub(super) fn new(file: R, name: &str, plan: Plan) -> Result<Self> {
        let mut reader = plan.dialect.reader(file);
        let names = header(&mut reader, name)?;
        let width = names.len();
        let places = names.into_iter().zip(0..).collect();
        Ok(Self { reader, file: name.to_owned(), plan, places, width, children: HashMap::new() })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of the file that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.reader.position().byte()
    }

    /// Gives up to `rows_max` lines to `rows`. A bad line is left out, or ends the call.
    pub(super) fn fill(&mut self, rows: &mut impl Rows, rows_max: usize, skip: bool) -> Chunk {
        let mut chunk = Chunk::default();
        let mut record = csv::StringRecord::new();
        for _ in 0..rows_max {
            let read = match self.reader.read_record(&mut record) {
                Ok(false) => {
                    chunk.done = true;
                    return chunk;
                }
                Ok(true) => self.line(&record, rows),
                Err(error) if error.is_io_error() => {
                    chunk.stopped = Some(unreadable(&self.file, &error));
                    return chunk;
                }
                Err(error) => Err(unreadable(&self.file, &error)),
            };
            chunk.rows += 1;
            match read {
                Ok(()) => {}
                Err(error) if skip => chunk.skipped.push(Skipped { error }),
                Err(error) => {
                    chunk.stopped = Some(error);
                    return chunk;
                }
            }
        }
        chunk
    }

    fn line(&mut self, record: &csv::StringRecord, rows: &mut impl Rows) -> Result<()> {
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != self.width {
            let text =
                format!("file={} line={line} cells={} expected={}", self.file, record.len(), self.width);
            return Err(Error::text(Code::CsvCell, text).hint(Code::CsvCell.help()));
        }
        let cell = |name: &str| self.places.get(name).and_then(|at| record.get(*at)).unwrap_or_default();
        let read = |column: &Cell| {
            let text = cell(&column.file_column);
            if is_null(text, self.plan.dialect.null.as_deref()) {
                return Ok(Value::Null);
            }
            value(text, &column.cell_type, self.plan.zone).map_err(|what| {
                let error = bad_cell(&self.file, line, &column.file_column, &what);
                match is_null_like(text) && self.plan.dialect.null.is_none() {
                    true => error.hint(format!("if that means NULL, say --null '{text}'")),
                    false => error,
                }
            })
        };
        let row = self.plan.columns.iter().map(read).collect::<Result<Vec<_>>>()?;
        let bad_column = |column: Option<&Cell>, what: &str| {
            bad_cell(&self.file, line, column.map_or("", |column| &column.file_column), what)
        };
        match row.first() {
            Some(Value::Timestamp(ticks)) if self.plan.times.contains(ticks) => {}
            Some(Value::Timestamp(_)) => {
                let what = "outside the time that the database keeps (KEEP), or beyond the year 2970";
                return Err(bad_column(self.plan.columns.first(), what));
            }
            _ => return Err(bad_column(self.plan.columns.first(), "the time is missing")),
        }
        let placed = |error: Error| error.located(format!("file={} line={line}", self.file));
        let Some(name) = &self.plan.name else {
            return rows.push(&self.plan.table, None, &row).map_err(placed);
        };
        let tags = self.plan.tags.iter().map(read).collect::<Result<Vec<_>>>()?;
        let table = name.fill(|column| cell(column).to_owned());
        if table.is_empty() || table.len() > TABLE_NAME_BYTES_MAX || table.contains('.') {
            let what = format!("makes no table name: {table:?} (1 to 192 bytes, without a dot)");
            return Err(bad_column(self.plan.tags.first(), &what));
        }
        match self.children.get(&table) {
            Some(known) if *known != tags => {
                let what =
                    format!("table {table} had other tags in an earlier line: --name must tell them apart");
                return Err(bad_column(self.plan.tags.first(), &what));
            }
            Some(_) => {}
            None => {
                self.children.insert(table.clone(), tags.clone());
            }
        }
        rows.push(&table, Some(&tags), &row).map_err(placed)
    }
}

#[cfg(test)]
mod tests {
    use model::{DataType, Precision};

    use super::super::epoch::EpochUnit;
    use super::*;

    #[derive(Default)]
    struct Taken(Vec<(String, Option<Vec<Value>>, Vec<Value>)>);

    impl Rows for Taken {
        fn push(&mut self, table: &str, tags: Option<&[Value]>, row: &[Value]) -> Result<()> {
            self.0.push((table.to_owned(), tags.map(<[Value]>::to_vec), row.to_vec()));
            Ok(())
        }
    }

    fn cell(name: &str, data_type: DataType) -> Cell {
        let cell_type = CellType { data_type, precision: Precision::Ms, unit: EpochUnit::Ticks };
        Cell { file_column: name.into(), table_column: name.into(), cell_type }
    }

    fn plan(tags: bool) -> Plan {
        let columns = ["ts".to_owned(), "host".to_owned(), "v".to_owned()];
        Plan {
            table: "cpu".into(),
            columns: vec![cell("ts", DataType::Timestamp), cell("v", DataType::Double)],
            tags: if tags { vec![cell("host", DataType::Varchar(8))] } else { Vec::new() },
            name: tags.then(|| Name::parse("h_{host}", &columns).unwrap()),
            dialect: Dialect { delimiter: b',', null: Some("NA".into()) },
            zone: Zone::UTC,
            times: 0..=i64::MAX,
        }
    }

    fn load(text: &str, plan: Plan, skip: bool) -> (Taken, Chunk) {
        let mut taken = Taken::default();
        let chunk = Loader::new(text.as_bytes(), "f.csv", plan).unwrap().fill(&mut taken, 1_000, skip);
        (taken, chunk)
    }

    const GOOD: &str =
        "ts,host,v\n2014-01-01 00:00:00,a,1.5\n2014-01-01 00:05:00,b,NA\n2014-01-01 00:10:00,a,\n";

    #[test]
    fn lines_become_rows_of_children() {
        let (taken, chunk) = load(GOOD, plan(true), false);
        assert!(chunk.done && chunk.stopped.is_none() && chunk.rows == 3);
        let tables: Vec<_> = taken.0.iter().map(|(table, ..)| table.as_str()).collect();
        assert_eq!(tables, ["h_a", "h_b", "h_a"]);
        assert_eq!(taken.0[0].1, Some(vec![Value::Text("a".into())]));
        assert_eq!(taken.0[0].2, [Value::Timestamp(1_388_534_400_000), Value::Double(1.5)]);
        assert_eq!((&taken.0[1].2[1], &taken.0[2].2[1]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_normal_table_has_no_tags() {
        let (taken, _) = load(GOOD, plan(false), false);
        assert!(taken.0.iter().all(|(table, tags, _)| table == "cpu" && tags.is_none()));
    }

    #[test]
    fn a_bad_cell_names_file_line_and_column() {
        let text = "ts,host,v\n2014-01-01 00:00:00,a,1\n2014-01-01 00:05:00,a,x\n2014-01-01 00:10:00,a,3\n";
        let (taken, chunk) = load(text, plan(true), false);
        let error = chunk.stopped.unwrap();
        assert_eq!(error.code(), Code::CsvCell);
        assert!(error.message().ends_with("file=f.csv line=3 column=v value=x is no DOUBLE"), "{error}");
        assert_eq!((taken.0.len(), chunk.rows), (1, 2), "the lines before it are good");
        let (taken, chunk) = load(text, plan(true), true);
        assert!(chunk.stopped.is_none() && chunk.done);
        assert_eq!((taken.0.len(), chunk.rows, chunk.skipped.len()), (2, 3, 1));
    }

    #[test]
    fn a_cell_that_looks_like_null_says_which_option_makes_it_so() {
        let mut plan = plan(true);
        plan.dialect.null = None;
        let (_, chunk) = load(GOOD, plan, false);
        let error = chunk.stopped.unwrap();
        assert!(error.message().contains("line=3 column=v value=NA is no DOUBLE"), "{error}");
        assert!(error.help().contains("--null 'NA'"), "{error}");
    }

    #[test]
    fn lines_that_are_none_are_told() {
        let bad = |line: &str| {
            let text = format!("ts,host,v\n2014-01-01,a,1\n{line}\n");
            load(&text, plan(true), false).1.stopped.map(|e| e.message().to_owned()).unwrap_or_default()
        };
        assert!(bad("2014-01-01,a").contains("line=3 cells=2 expected=3"));
        assert!(bad(",a,1").contains("line=3 column=ts the time is missing"));
        assert!(bad("soon,a,1").contains("line=3 column=ts value=soon is no TIMESTAMP"));
        assert!(bad("2014-01-01,far too long,1").contains("column=host value=far too long is too long"));
        assert!(bad("2014-01-01,a.b,1").contains("makes no table name"));
        assert_eq!(bad("2014-01-02,a,1"), "");
    }

    #[test]
    fn quoted_lines_count_as_the_lines_they_take() {
        let text = "ts,host,v\n2014-01-01,\"a\nb\",1\n2014-01-02,a,x\n";
        let (_, chunk) = load(text, plan(true), false);
        assert!(chunk.stopped.unwrap().message().contains("line=4 column=v"));
    }

    #[test]
    fn one_child_has_one_set_of_tags() {
        let mut plan = plan(true);
        plan.name = Some(Name::parse("same", &[]).unwrap());
        let (_, chunk) = load(GOOD, plan, false);
        let error = chunk.stopped.unwrap();
        assert!(error.message().contains("line=3 column=host table same had other tags"), "{error}");
    }

    #[test]
    fn names_are_made_of_columns() {
        let columns = ["a".to_owned(), "b".to_owned()];
        let name = Name::parse("x_{a}-{b}", &columns).unwrap();
        assert_eq!(name.fill(|column| column.to_uppercase()), "x_A-B");
        assert_eq!(Name::default("t", &columns).fill(str::to_owned), "t_a_b");
        for bad in ["{", "{zz}", "a{b"] {
            assert_eq!(Name::parse(bad, &columns).unwrap_err().code(), Code::InvalidParameters, "{bad}");
        }
    }

    #[test]
    fn real_files_load_whole() {
        let Some(file) = crate::cli::import::field_data("ec2_cpu_multi_host.csv") else { return };
        let mut plan = plan(true);
        plan.tags[0].cell_type.data_type = DataType::Varchar(16);
        plan.columns[1].file_column = "cpu_util".into();
        let mut taken = Taken::default();
        let chunk = Loader::new(file, "ec2", plan).unwrap().fill(&mut taken, usize::MAX, false);
        assert!(chunk.stopped.is_none(), "{:?}", chunk.stopped);
        let tables: std::collections::BTreeSet<_> = taken.0.iter().map(|(table, ..)| table).collect();
        assert_eq!((chunk.rows, tables.len()), (32_256, 8));
    }
}
