//! The table that a file goes into: found, or made as the file needs it.

use std::ops::RangeInclusive;

use client::{Column, Connection, Target, Writer};
use model::{Clock as _, Code, DataType, Error, Precision, Result, Value, Zone};

use super::cells::CellType;
use super::infer::{ColumnScan, Scan};
use super::load::{Cell, Loader, Name, Plan, Rows};
use super::{Dialect, ImportArgs, OnError};
use crate::cli::common::{note, quoted, text_literal};

/// Days that a database keeps rows if nothing is said.
const KEEP_DAYS_DEFAULT: i64 = 3_650;
const NS_PER_DAY: i64 = 86_400_000_000_000;

/// Where rows go and how.
pub(super) struct Prepared {
    pub(super) writer: Writer,
    pub(super) plan: Plan,
    /// The table, or super table, was created: nobody else has written to it.
    pub(super) is_new: bool,
}

/// A table as far as lines are read for it.
struct Shape {
    database: String,
    table: String,
    /// The time first.
    columns: Vec<Column>,
    tags: Vec<Column>,
    /// Ticks that it takes.
    times: RangeInclusive<i64>,
}

impl Shape {
    fn of(target: &Target) -> Self {
        Self {
            database: target.database().to_owned(),
            table: target.table().to_owned(),
            columns: target.columns().cloned().collect(),
            tags: target.tags().cloned().collect(),
            times: target.times(),
        }
    }

    /// Of the table that the file needs.
    fn needed(args: &ImportArgs, scan: &Scan, time: &str, precision: Precision) -> Self {
        let column = |name: &str, data_type| Column { name: name.to_owned(), data_type, precision };
        let is_tag = |name: &str| args.tags.iter().any(|tag| tag == name);
        let others = scan.columns.iter().filter(|column| column.name != time && !is_tag(&column.name));
        let tags = args.tags.iter().filter_map(|tag| scan.column(tag).ok());
        Self {
            database: args.into.database.clone(),
            table: args.into.table.clone(),
            columns: std::iter::once(column(time, DataType::Timestamp))
                .chain(others.map(|of| column(&of.name, of.data_type(false))))
                .collect(),
            tags: tags.map(|of| column(&of.name, of.data_type(true))).collect(),
            // What KEEP leaves of it the server knows.
            times: i64::MIN..=i64::MAX,
        }
    }

    /// The statement that makes it.
    fn create(&self) -> String {
        let define = |columns: &[Column]| {
            let columns =
                columns.iter().map(|column| format!("{} {}", quoted(&column.name), column.data_type));
            columns.collect::<Vec<_>>().join(", ")
        };
        let name = format!("{}.{}", quoted(&self.database), quoted(&self.table));
        let columns = define(&self.columns);
        match self.tags.is_empty() {
            true => format!("CREATE TABLE IF NOT EXISTS {name} ({columns})"),
            false => format!("CREATE STABLE IF NOT EXISTS {name} ({columns}) TAGS ({})", define(&self.tags)),
        }
    }
}

/// Rows that go nowhere.
struct Nowhere;

impl Rows for Nowhere {
    fn push(&mut self, _: &str, _: Option<&[Value]>, _: &[Value]) -> Result<()> {
        Ok(())
    }
}

/// Reads the file's first line, which would be the end of the import, before anything is made for it.
fn check_first_line(args: &ImportArgs, plan: Plan) -> Result<()> {
    if args.on_error == OnError::Skip {
        return Ok(());
    }
    let mut loader = Loader::new(args.open()?, &args.file.display().to_string(), plan)?;
    loader.fill(&mut Nowhere, 1, false).stopped.map_or(Ok(()), Err)
}

/// Creates what is missing, and says how lines become rows of it.
pub(super) async fn prepare(
    connection: &Connection,
    args: &ImportArgs,
    scan: &Scan,
    dialect: Dialect,
    zone: Zone,
) -> Result<Prepared> {
    let time = scan.time_column(args.ts.as_deref())?.name.clone();
    for tag in &args.tags {
        scan.named("--tags", tag)?;
        if *tag == time {
            return Err(Error::text(Code::InvalidParameters, format!("--tags {tag}: it is the time")));
        }
    }
    let name = name(args, scan)?;
    let (database, table) = (&args.into.database, &args.into.table);
    let mut is_new = false;
    let needed = |precision| -> Result<Shape> {
        let shape = Shape::needed(args, scan, &time, precision);
        let plan = plan(&shape, args, scan, &time, name.clone(), dialect.clone(), zone)?;
        check_first_line(args, plan).map(|()| shape)
    };
    let writer = match connection.writer(database, table).await {
        Err(error) if error.code() == Code::DatabaseNotExist => {
            is_new = true;
            let precision = precision_needed(args, scan, &time)?;
            let shape = needed(precision)?;
            let options = database_options(precision, scan, &time)?;
            let sql = format!("CREATE DATABASE IF NOT EXISTS {} {options}", quoted(database));
            connection.sql(&sql).await?;
            note(&format!("created database {database}: {options}"));
            create(connection, &shape).await?
        }
        Err(error) if matches!(error.code(), Code::TableNotExist | Code::StableNotExist) => {
            let precision = precision_of(connection, args).await?;
            check_precision(args, precision)?;
            is_new = true;
            let shape = needed(precision.unwrap_or_default())?;
            create(connection, &shape).await?
        }
        found => found?,
    };
    let primary = writer.target().columns().next().map(|column| column.precision);
    check_precision(args, primary)?;
    check_kind(writer.target(), args)?;
    let plan = plan(&Shape::of(writer.target()), args, scan, &time, name, dialect, zone)?;
    Ok(Prepared { writer, plan, is_new })
}

/// `--precision` is for a database that is created: one that is there keeps what it has.
fn check_precision(args: &ImportArgs, has: Option<Precision>) -> Result<()> {
    match (args.precision, has) {
        (Some(wanted), Some(has)) if wanted != has => {
            let database = &args.into.database;
            let text = format!("--precision {wanted}: database {database} is there and has precision={has}");
            Err(Error::text(Code::InvalidParameters, text)
                .hint("leave --precision out, or choose another --into"))
        }
        _ => Ok(()),
    }
}

/// Precision of the database that rows go into, which exists.
async fn precision_of(connection: &Connection, args: &ImportArgs) -> Result<Option<Precision>> {
    let name = text_literal(&args.into.database);
    let sql = format!("SELECT `precision` FROM information_schema.ins_databases WHERE name = {name}");
    let rows = connection.sql(&sql).await?.rows().await?;
    let text = rows.iter().next().map(|row| row.get::<String>(0)).transpose()?;
    Ok(text.and_then(|text| Precision::parse(&text)))
}

fn name(args: &ImportArgs, scan: &Scan) -> Result<Option<Name>> {
    if args.tags.is_empty() {
        return Ok(None);
    }
    let columns: Vec<_> = scan.columns.iter().map(|column| column.name.clone()).collect();
    match &args.name {
        Some(template) => Name::parse(template, &columns).map(Some),
        None => Ok(Some(Name::default(&args.into.table, &args.tags))),
    }
}

async fn create(connection: &Connection, shape: &Shape) -> Result<Writer> {
    connection.sql(&shape.create()).await?;
    connection.writer(&shape.database, &shape.table).await
}

/// What holds the file's times to their last digit, unless another precision is asked for.
fn precision_needed(args: &ImportArgs, scan: &Scan, time: &str) -> Result<Precision> {
    let column = scan.column(time)?;
    Ok(args.precision.unwrap_or_else(|| column.precision()))
}

/// Options of a database that keeps what the file holds.
fn database_options(precision: Precision, scan: &Scan, time: &str) -> Result<String> {
    let column = scan.column(time)?;
    let now_ns = crate::server::clock::SystemClock::default().now_ns();
    let age_days = column.earliest_ns().map_or(0, |earliest| now_ns.saturating_sub(earliest) / NS_PER_DAY);
    // Rows older than KEEP would be refused.
    let keep = if age_days + 30 > KEEP_DAYS_DEFAULT { " KEEP 36500" } else { "" };
    Ok(format!("PRECISION '{precision}'{keep}"))
}

/// A table that was found takes rows as the arguments give them.
fn check_kind(target: &Target, args: &ImportArgs) -> Result<()> {
    if target.is_super() != args.tags.is_empty() {
        return Ok(());
    }
    let (is, how) = match target.is_super() {
        true => ("a super table", "say with --tags which columns tell its children apart"),
        false => ("a normal table", "leave --tags out, or choose another --into"),
    };
    let text = format!("{}.{} is {is}", target.database(), target.table());
    Err(Error::text(Code::InvalidParameters, text).hint(how))
}

/// The file's columns onto the table's, by name; the time onto the primary timestamp, whatever that is called.
fn plan(
    shape: &Shape,
    args: &ImportArgs,
    scan: &Scan,
    time: &str,
    name: Option<Name>,
    dialect: Dialect,
    zone: Zone,
) -> Result<Plan> {
    let table = format!("{}.{}", shape.database, shape.table);
    let cell = |file_column: &str, column: &Column| Cell {
        file_column: file_column.to_owned(),
        table_column: column.name.clone(),
        cell_type: CellType {
            data_type: column.data_type,
            precision: column.precision,
            unit: scan.column(file_column).map(ColumnScan::unit).unwrap_or_default(),
        },
    };
    let primary = shape.columns.first().ok_or_else(|| Error::internal("a table without columns"))?;
    let mut columns = vec![cell(time, primary)];
    let is_tag = |name: &str| args.tags.iter().any(|tag| tag == name);
    for column in scan.columns.iter().filter(|column| column.name != time && !is_tag(&column.name)) {
        let found = shape.columns.iter().skip(1).find(|known| known.name == column.name);
        let found = found.ok_or_else(|| {
            Error::with(Code::InvalidColumn, format!("{} in {table}", column.name))
                .hint("ALTER TABLE .. ADD COLUMN first, or take the column out of the file")
        })?;
        columns.push(cell(&column.name, found));
    }
    let tag = |tag: &Column| match is_tag(&tag.name) {
        true => Ok(cell(&tag.name, tag)),
        false => Err(Error::with(Code::InvalidTag, format!("--tags does not name {} of {table}", tag.name))
            .hint("name every tag of the super table")),
    };
    let tags = shape.tags.iter().map(tag).collect::<Result<Vec<_>>>()?;
    if let Some(unknown) = args.tags.iter().find(|name| !tags.iter().any(|tag| tag.file_column == **name)) {
        return Err(Error::with(Code::InvalidTag, format!("{unknown} in {table}")));
    }
    let (table, times) = (shape.table.clone(), shape.times.clone());
    Ok(Plan { table, columns, tags, name, dialect, zone, times })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Only {
        #[command(flatten)]
        args: ImportArgs,
    }

    fn args(line: &str) -> ImportArgs {
        Only::try_parse_from(line.split_whitespace()).unwrap().args
    }

    fn scan(text: &str) -> Scan {
        let dialect = Dialect { delimiter: b',', null: Some("NA".into()) };
        Scan::of(text.as_bytes(), "f.csv", &dialect, Zone::UTC).unwrap()
    }

    const FILE: &str = "date,host,value\n2014-01-01 00:00:00.1234,a,1\n2014-01-01 00:00:01,b,2.5\n";

    #[test]
    fn what_is_missing_is_made_as_the_file_needs_it() {
        let scan = scan(FILE);
        let create = |line: &str| Shape::needed(&args(line), &scan, "date", Precision::Us).create();
        assert_eq!(
            create("i f.csv --into db.cpu --tags host"),
            "CREATE STABLE IF NOT EXISTS `db`.`cpu` (`date` TIMESTAMP, `value` DOUBLE) TAGS (`host` VARCHAR(16))"
        );
        assert_eq!(
            create("i f.csv --into Db.cpu"),
            "CREATE TABLE IF NOT EXISTS `Db`.`cpu` (`date` TIMESTAMP, `host` VARCHAR(16), `value` DOUBLE)"
        );
        let options = |line: &str| {
            let precision = precision_needed(&args(line), &scan, "date").unwrap();
            database_options(precision, &scan, "date").unwrap()
        };
        assert_eq!(
            options("i f.csv --into db.cpu"),
            "PRECISION 'us' KEEP 36500",
            "rows of 2014 are older than the usual ten years"
        );
        assert_eq!(options("i f.csv --into db.cpu --precision ns"), "PRECISION 'ns' KEEP 36500");
    }

    #[test]
    fn a_template_without_tags_is_refused() {
        assert!(Only::try_parse_from("i f --into a.b --name x".split_whitespace()).is_err());
        let named = name(&args("i f --into a.b --tags host --name h_{host}"), &scan(FILE)).unwrap();
        assert!(named.is_some());
        assert!(name(&args("i f --into a.b"), &scan(FILE)).unwrap().is_none());
    }
}
