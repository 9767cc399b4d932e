//! The table that a file goes into: found, or made as the file needs it.

use client::{Column, Connection, Target, Writer};
use model::{Clock as _, Code, DataType, Error, Precision, Result, Zone};

use super::cells::CellType;
use super::infer::{ColumnScan, Scan};
use super::load::{Cell, Name, Plan};
use super::{Dialect, ImportArgs};
use crate::cli::common::{note, quoted};

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
        scan.column(tag)?;
        if *tag == time {
            return Err(Error::text(Code::InvalidParameters, format!("--tags {tag}: it is the time")));
        }
    }
    let name = name(args, scan)?;
    let (database, table) = (&args.into.database, &args.into.table);
    let mut is_new = false;
    let writer = match connection.writer(database, table).await {
        Err(error) if error.code() == Code::DatabaseNotExist => {
            is_new = true;
            let options = database_options(args, scan, &time)?;
            let sql = format!("CREATE DATABASE IF NOT EXISTS {} {options}", quoted(database));
            connection.sql(&sql).await?;
            note(&format!("created database {database}: {options}"));
            create(connection, args, scan, &time).await?
        }
        Err(error) if matches!(error.code(), Code::TableNotExist | Code::StableNotExist) => {
            check_precision(args, precision_of(connection, args).await?)?;
            is_new = true;
            create(connection, args, scan, &time).await?
        }
        found => found?,
    };
    let primary = writer.target().columns().next().map(|column| column.precision);
    check_precision(args, primary)?;
    let plan = plan(writer.target(), args, scan, &time, name, dialect, zone)?;
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
    if args.precision.is_none() {
        return Ok(None);
    }
    let name = args.into.database.replace('\\', "\\\\").replace('\'', "\\'");
    let sql = format!("SELECT `precision` FROM information_schema.ins_databases WHERE name = '{name}'");
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

async fn create(connection: &Connection, args: &ImportArgs, scan: &Scan, time: &str) -> Result<Writer> {
    connection.sql(&create_table(args, scan, time)).await?;
    connection.writer(&args.into.database, &args.into.table).await
}

/// Options of a database that keeps what the file holds, to its last digit unless another precision is asked for.
fn database_options(args: &ImportArgs, scan: &Scan, time: &str) -> Result<String> {
    let column = scan.column(time)?;
    let now_ns = crate::server::clock::SystemClock::default().now_ns();
    let age_days = column.earliest_ns().map_or(0, |earliest| now_ns.saturating_sub(earliest) / NS_PER_DAY);
    // Rows older than KEEP would be refused.
    let keep = if age_days + 30 > KEEP_DAYS_DEFAULT { " KEEP 36500" } else { "" };
    let precision = args.precision.unwrap_or_else(|| column.precision());
    Ok(format!("PRECISION '{precision}'{keep}"))
}

fn create_table(args: &ImportArgs, scan: &Scan, time: &str) -> String {
    let is_tag = |name: &str| args.tags.iter().any(|tag| tag == name);
    let define = |name: &str, data_type: DataType| format!("{} {data_type}", quoted(name));
    let mut columns = vec![define(time, DataType::Timestamp)];
    let others = scan.columns.iter().filter(|column| column.name != time && !is_tag(&column.name));
    columns.extend(others.map(|column| define(&column.name, column.data_type(false))));
    let tags = args.tags.iter().filter_map(|tag| scan.column(tag).ok());
    let tags: Vec<_> = tags.map(|column| define(&column.name, column.data_type(true))).collect();
    let name = format!("{}.{}", quoted(&args.into.database), quoted(&args.into.table));
    match tags.is_empty() {
        true => format!("CREATE TABLE IF NOT EXISTS {name} ({})", columns.join(", ")),
        false => {
            format!("CREATE STABLE IF NOT EXISTS {name} ({}) TAGS ({})", columns.join(", "), tags.join(", "))
        }
    }
}

/// The file's columns onto the table's, by name; the time onto the primary timestamp, whatever that is called.
fn plan(
    target: &Target,
    args: &ImportArgs,
    scan: &Scan,
    time: &str,
    name: Option<Name>,
    dialect: Dialect,
    zone: Zone,
) -> Result<Plan> {
    let table = format!("{}.{}", target.database(), target.table());
    if target.is_super() == args.tags.is_empty() {
        let (is, how) = match target.is_super() {
            true => ("a super table", "say with --tags which columns tell its children apart"),
            false => ("a normal table", "leave --tags out, or choose another --into"),
        };
        return Err(Error::text(Code::InvalidParameters, format!("{table} is {is}")).hint(how));
    }
    let cell = |file_column: &str, column: &Column| Cell {
        file_column: file_column.to_owned(),
        table_column: column.name.clone(),
        cell_type: CellType {
            data_type: column.data_type,
            precision: column.precision,
            unit: scan.column(file_column).map(ColumnScan::unit).unwrap_or_default(),
        },
    };
    let primary = target.columns().next().ok_or_else(|| Error::internal("a table without columns"))?;
    let mut columns = vec![cell(time, primary)];
    let is_tag = |name: &str| args.tags.iter().any(|tag| tag == name);
    for column in scan.columns.iter().filter(|column| column.name != time && !is_tag(&column.name)) {
        let found = target.columns().skip(1).find(|known| known.name == column.name);
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
    let tags = target.tags().map(tag).collect::<Result<Vec<_>>>()?;
    if let Some(unknown) = args.tags.iter().find(|name| !tags.iter().any(|tag| tag.file_column == **name)) {
        return Err(Error::with(Code::InvalidTag, format!("{unknown} in {table}")));
    }
    let (table, times) = (target.table().to_owned(), target.times());
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
        assert_eq!(
            create_table(&args("i f.csv --into db.cpu --tags host"), &scan, "date"),
            "CREATE STABLE IF NOT EXISTS `db`.`cpu` (`date` TIMESTAMP, `value` DOUBLE) TAGS (`host` VARCHAR(16))"
        );
        assert_eq!(
            create_table(&args("i f.csv --into Db.cpu"), &scan, "date"),
            "CREATE TABLE IF NOT EXISTS `Db`.`cpu` (`date` TIMESTAMP, `host` VARCHAR(16), `value` DOUBLE)"
        );
        assert_eq!(
            database_options(&args("i f.csv --into db.cpu"), &scan, "date").unwrap(),
            "PRECISION 'us' KEEP 36500",
            "rows of 2014 are older than the usual ten years"
        );
        assert_eq!(
            database_options(&args("i f.csv --into db.cpu --precision ns"), &scan, "date").unwrap(),
            "PRECISION 'ns' KEEP 36500"
        );
    }

    #[test]
    fn a_template_without_tags_is_refused() {
        assert!(Only::try_parse_from("i f --into a.b --name x".split_whitespace()).is_err());
        let named = name(&args("i f --into a.b --tags host --name h_{host}"), &scan(FILE)).unwrap();
        assert!(named.is_some());
        assert!(name(&args("i f --into a.b"), &scan(FILE)).unwrap().is_none());
    }
}
