//! The first pass: what is in the file's columns.

use std::io::Read;

use model::{
    Code, DataType, Error, NCHAR_TAG_CHARS_MAX, Precision, Result, VARCHAR_BYTES_MAX, VARCHAR_TAG_BYTES_MAX,
    Zone, parse_timestamp,
};

use super::cells::{is_null, number};
use super::epoch::EpochUnit;
use super::{Dialect, header, unreadable};

/// What the cells of one column look like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ColumnScan {
    pub(super) name: String,
    /// Cells that are not NULL.
    pub(super) cells: u64,
    whole: u64,
    numbers: u64,
    times: u64,
    /// Cells of each unit of time since 1970, by their digits.
    epochs: [(Option<EpochUnit>, u64); 4],
    bytes_max: usize,
    fraction_digits_max: usize,
    earliest_ns: Option<i64>,
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scan {
    pub(super) columns: Vec<ColumnScan>,
}

impl ColumnScan {
    fn add(&mut self, cell: &str, zone: Zone) {
        self.cells += 1;
        self.bytes_max = self.bytes_max.max(cell.len());
        let trimmed = cell.trim();
        if let Ok(whole) = trimmed.parse::<i64>() {
            self.whole += 1;
            self.numbers += 1;
            if let Some(unit) = EpochUnit::of(whole) {
                self.epoch(unit, whole);
            }
        } else if number(trimmed).is_some() {
            self.numbers += 1;
        } else if let Some(ns) = parse_timestamp(trimmed, Precision::Ns, zone) {
            self.times += 1;
            self.earliest_ns = self.earliest_ns.into_iter().chain([ns]).min();
            let fraction = trimmed.split_once('.').map_or("", |(_, rest)| rest);
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            self.fraction_digits_max = self.fraction_digits_max.max(digits);
        }
    }

    fn epoch(&mut self, unit: EpochUnit, number: i64) {
        if let Some((of, count)) = self.epochs.iter_mut().find(|(of, _)| of.is_none_or(|of| of == unit)) {
            *of = Some(unit);
            *count += 1;
        }
        if let Some(ns) = unit.to_ticks(number, Precision::Ns) {
            self.earliest_ns = self.earliest_ns.into_iter().chain([ns]).min();
        }
    }

    /// Whether most cells are times: a wrong one among them is a wrong cell, not another type.
    pub(super) fn reads_as_time(&self) -> bool {
        self.times * 2 > self.cells
    }

    /// What most cells count since 1970, by their digits; ticks of the database where that cannot be told.
    pub(super) fn unit(&self) -> EpochUnit {
        let most = self.epochs.iter().find(|(_, count)| count * 2 > self.cells);
        most.and_then(|(unit, _)| *unit).unwrap_or_default()
    }

    /// Whether every number in it could be such a time and most are.
    fn reads_as_epoch(&self) -> bool {
        self.unit() != EpochUnit::Ticks && self.whole == self.numbers
    }

    /// The type that most cells have: a few that are not numbers are wrong cells. One that is a number but no whole one
    /// makes the column DOUBLE.
    pub(super) fn data_type(&self, tag: bool) -> DataType {
        if self.numbers * 2 > self.cells {
            return if self.whole == self.numbers { DataType::BigInt } else { DataType::Double };
        }
        let max = if tag { VARCHAR_TAG_BYTES_MAX } else { VARCHAR_BYTES_MAX };
        // Twice what is there leaves room for the next file.
        let wide = u16::try_from(self.bytes_max.next_power_of_two().max(16)).unwrap_or(max);
        DataType::Varchar(wide.min(max))
    }

    /// The coarsest precision that keeps every digit.
    pub(super) fn precision(&self) -> Precision {
        match self.fraction_digits_max {
            0..=3 => self.unit().precision(),
            4..=6 => Precision::Us,
            _ => Precision::Ns,
        }
    }

    /// The oldest time in it.
    pub(super) fn earliest_ns(&self) -> Option<i64> {
        self.earliest_ns
    }
}

// A VARCHAR tag always holds what an NCHAR tag does.
const _: () = assert!(VARCHAR_TAG_BYTES_MAX >= NCHAR_TAG_CHARS_MAX);

impl Scan {
    /// Looks at every cell of the file. Wrong lines are left to the second pass, which tells where they are.
    ///
    /// # Errors
    /// [`Code::CsvCell`] for a header that is none; [`Code::Io`].
    pub(super) fn of(file: impl Read, name: &str, dialect: &Dialect, zone: Zone) -> Result<Self> {
        let mut reader = dialect.reader(file);
        let null = dialect.null.as_deref();
        let names = header(&mut reader, name)?;
        let column = |name| ColumnScan { name, ..ColumnScan::default() };
        let mut columns: Vec<_> = names.into_iter().map(column).collect();
        let mut record = csv::StringRecord::new();
        loop {
            match reader.read_record(&mut record) {
                Ok(false) => return Ok(Self { columns }),
                Ok(true) if record.len() != columns.len() => {}
                Ok(true) => {
                    for (column, cell) in
                        columns.iter_mut().zip(&record).filter(|(_, cell)| !is_null(cell, null))
                    {
                        column.add(cell, zone);
                    }
                }
                // Not UTF-8: told in the second pass.
                Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {}
                Err(error) => return Err(unreadable(name, &error)),
            }
        }
    }

    pub(super) fn column(&self, name: &str) -> Result<&ColumnScan> {
        self.columns.iter().find(|column| column.name == name).ok_or_else(|| {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            Error::with(Code::InvalidColumn, name).hint(format!("the file has {}", names.join(", ")))
        })
    }

    /// The column that `option` names.
    pub(super) fn named(&self, option: &str, name: &str) -> Result<&ColumnScan> {
        self.column(name).map_err(|error| {
            let help = error.help().to_owned();
            Error::with(Code::InvalidColumn, format!("{option} {name}")).hint(help)
        })
    }

    /// The column with the time: the one named, else the first that reads as one, else the first whose numbers look like
    /// times since 1970.
    pub(super) fn time_column(&self, named: Option<&str>) -> Result<&ColumnScan> {
        if let Some(name) = named {
            return self.named("--ts", name);
        }
        let found = self.columns.iter().find(|column| column.reads_as_time());
        let found = found.or_else(|| self.columns.iter().find(|column| column.reads_as_epoch()));
        found.ok_or_else(|| {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            let text = format!("no column reads as a time: columns={}", names.join(","));
            let how = match &names[..] {
                [one] if one.contains([';', '\t', '|']) => {
                    "a file whose cells are not parted by commas needs --delimiter"
                }
                _ => "name the one with the time by --ts COL",
            };
            Error::text(Code::CsvCell, text).hint(how)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Scan {
        Scan::of(text.as_bytes(), "f.csv", &dialect(), Zone::UTC).unwrap()
    }

    fn dialect() -> Dialect {
        Dialect { delimiter: b',', null: Some("NA".into()) }
    }

    fn types(text: &str) -> Vec<String> {
        scan(text).columns.iter().map(|column| column.data_type(false).to_string()).collect()
    }

    #[test]
    fn types_fit_the_whole_column() {
        let text =
            "ts,i,d,s,e\n2014-01-01 00:00:00,1,0,a,\n2014-01-01 01:00:00,NA,1.5,longer than sixteen,\n";
        assert_eq!(types(text), ["VARCHAR(32)", "BIGINT", "DOUBLE", "VARCHAR(32)", "VARCHAR(16)"]);
        assert_eq!(scan(text).time_column(None).unwrap().name, "ts");
    }

    #[test]
    fn a_wrong_cell_does_not_change_the_type() {
        assert_eq!(types("v\n1\nx\n3\n"), ["BIGINT"]);
        assert_eq!(types("v\n1\nx\ny\n"), ["VARCHAR(16)"]);
        assert_eq!(types("v\n9223372036854775808\n1\n"), ["DOUBLE"], "wider than 64 bits");
    }

    #[test]
    fn the_time_column_is_found_or_named() {
        let found = scan("n,date,v\n1,2016-07-01,2\n2,oops,3\n3,2016-07-02,4\n");
        assert_eq!(found.time_column(None).unwrap().name, "date");
        assert_eq!(found.time_column(Some("n")).unwrap().name, "n");
        let error = found.time_column(Some("zz")).unwrap_err();
        assert!(error.to_string().contains("the file has n, date, v"), "{error}");
        let error = scan("a,b\n1,x\n").time_column(None).unwrap_err();
        assert_eq!(error.code(), Code::CsvCell);
        assert!(error.to_string().contains("columns=a,b; name the one with the time by --ts COL"), "{error}");
        let error = scan("ts;v\n2016-07-01;1\n").time_column(None).unwrap_err();
        assert!(error.to_string().contains("--delimiter"), "{error}");
    }

    #[test]
    fn numbers_since_1970_are_times_where_nothing_else_is() {
        let found = scan("id,at,v\n1,1700000000000,5\n2,1700000001000,6\n");
        let column = found.time_column(None).unwrap();
        assert_eq!((column.name.as_str(), column.unit()), ("at", EpochUnit::Of(Precision::Ms)));
        assert_eq!(column.precision(), Precision::Ms);
        assert_eq!(column.earliest_ns(), Some(1_700_000_000_000_000_000));
        let ns = scan("at\n1700000000000000001\n");
        assert_eq!(ns.time_column(None).unwrap().precision(), Precision::Ns);
        let both = scan("serial,ts\n1700000000000,2016-07-01\n1700000000001,2016-07-02\n");
        assert_eq!(both.time_column(None).unwrap().name, "ts", "a written time is one for sure");
        assert_eq!(both.time_column(Some("serial")).unwrap().name, "serial");
        assert!(scan("v\n1700000000.5\n1700000000\n").time_column(None).is_err());
        let ticks = scan("n\n1\n2\n");
        assert_eq!(ticks.time_column(Some("n")).unwrap().unit(), EpochUnit::Ticks);
    }

    #[test]
    fn precision_keeps_every_digit() {
        let precision = |cell: &str| scan(&format!("t\n{cell}\n")).columns[0].precision();
        assert_eq!(precision("2014-01-01 00:00:00"), Precision::Ms);
        assert_eq!(precision("2014-01-01 00:00:00.123456Z"), Precision::Us);
        assert_eq!(precision("2014-01-01 00:00:00.1234567"), Precision::Ns);
    }

    #[test]
    fn real_files_are_understood() {
        let Some(file) = crate::cli::import::field_data("beijing_air_4_stations_2014.csv") else { return };
        let scan = Scan::of(file, "air", &dialect(), Zone::UTC).unwrap();
        let shown: Vec<_> =
            scan.columns.iter().map(|c| format!("{} {}", c.name, c.data_type(false))).collect();
        assert_eq!(scan.time_column(None).unwrap().name, "ts");
        assert_eq!(shown[1], "station VARCHAR(16)");
        assert!(
            shown.contains(&"wd VARCHAR(16)".to_owned()) && shown.contains(&"temp DOUBLE".to_owned()),
            "{shown:?}"
        );
    }
}
