//! `tidemark import`: a CSV file into a table, or into the children of a super table.

mod cells;
mod epoch;
mod infer;
mod load;
mod target;

use std::fs::File;
use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use client::{Batch, Connection, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use model::{Code, Error, Precision, Result, Value, Zone};

use super::common::{ConnectArgs, note, parse_zone, quoted};
use infer::Scan;
use load::{Loader, Rows, Skipped};
use target::Prepared;

/// What a bad line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// End there; the lines before it stay written
    Stop,
    /// List it and go on
    Skip,
}

/// `tidemark import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Creates the database, the table and the children if they are missing: whole numbers become BIGINT,\n\
                        other numbers DOUBLE, the rest VARCHAR. Where an instant repeats in a table, the later line\n\
                        wins; `repeats=N` tells how many did so in a new table.\n\n\
                        Times are written (2026-01-31 12:00:00.5, with or without offset), or numbers since 1970 whose\n\
                        digits tell seconds, ms, us or ns; other numbers are ticks of the database. A time with more\n\
                        digits than the database's precision is a bad line, never cut.\n\n\
                        tidemark import sensor.csv --into plant.sensor\n\
                        tidemark import log.tsv --into plant.log --delimiter tab --ts at --precision us\n\
                        tidemark import air.csv --into city.air --tags station --name 'air_{station}' --null NA --tz +08:00"
)]
pub struct ImportArgs {
    /// CSV file with a header
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where rows go: a table, or with --tags a super table
    #[arg(long, value_name = "DB.TABLE", value_parser = parse_into)]
    pub into: Into,
    /// Column with the time [default: the first of written times, else of numbers since 1970]
    #[arg(long, value_name = "COL")]
    pub ts: Option<String>,
    /// Columns that tell the devices apart and become tags
    #[arg(long, value_name = "COL,..", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// Name of a device's child table, such as 'h_{host}' [default: table and tags, joined by _]
    #[arg(long, value_name = "TEMPLATE", requires = "tags")]
    pub name: Option<String>,
    /// What parts the cells: one character, or `tab`
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter, default_value = ",")]
    pub delimiter: u8,
    /// Precision of a database that is created: ms, us or ns [default: what holds all digits]
    #[arg(long, value_name = "PRECISION", value_parser = parse_precision)]
    pub precision: Option<Precision>,
    /// Text that means NULL, beside the empty cell
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// Zone of times without an offset
    #[arg(long = "tz", value_name = "ZONE", value_parser = parse_zone, default_value = "UTC")]
    pub zone: String,
    /// What a bad line does
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    pub on_error: OnError,
    /// Server and user
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl ImportArgs {
    fn open(&self) -> Result<File> {
        File::open(&self.file).map_err(|e| {
            Error::text(Code::Io, format!("cannot read the file: path={} cause={e}", self.file.display()))
                .caused_by(e)
        })
    }
}

/// A database and a table, as they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Into {
    /// Database.
    pub database: String,
    /// Table or super table.
    pub table: String,
}

fn parse_into(text: &str) -> Result<Into, String> {
    let clean = |name: &str| name.trim().trim_matches('`').to_owned();
    match text.split_once('.').map(|(database, table)| (clean(database), clean(table))) {
        Some((database, table)) if !database.is_empty() && !table.is_empty() && !table.contains('.') => {
            Ok(Into { database, table })
        }
        _ => Err(format!("`{text}` is not DB.TABLE")),
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err(format!("`{text}` is no delimiter: write one character, or tab")),
    }
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    Precision::parse(text).ok_or_else(|| format!("`{text}` is no precision: write ms, us or ns"))
}

/// How the file is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Dialect {
    delimiter: u8,
    /// Text that means NULL, beside the empty cell.
    null: Option<String>,
}

impl Dialect {
    /// What both passes read the file with.
    fn reader<R: std::io::Read>(&self, file: R) -> csv::Reader<R> {
        // Lines with too few or too many cells are told with their number, not as the end of the file.
        csv::ReaderBuilder::new().flexible(true).delimiter(self.delimiter).from_reader(file)
    }
}

/// Lines of one batch.
const BATCH_ROWS: usize = 10_000;

/// Rows read, written and left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    rows: u64,
    written: u64,
    skipped: u64,
}

/// Runs it.
pub(super) async fn run(args: ImportArgs) -> Result<()> {
    let bytes = args.open()?.metadata().map_or(0, |metadata| metadata.len());
    let file = args.file.display().to_string();
    let zone = Zone::parse(&args.zone).unwrap_or_default();
    // Read twice, so that a column's type fits all of it and no row is kept in memory.
    let dialect = Dialect { delimiter: args.delimiter, null: args.null.clone() };
    let scan = Scan::of(args.open()?, &file, &dialect, zone)?;
    let connection = args.connect.connect("", "").await?;
    let Prepared { writer, plan, is_new } = target::prepare(&connection, &args, &scan, dialect, zone).await?;
    let mut loader = Loader::new(args.open()?, &file, plan)?;
    let progress = progress(bytes);
    let mut counts = Counts::default();
    let done = load(&writer, &mut loader, args.on_error, &progress, &mut counts).await;
    progress.finish_and_clear();
    if is_new && done.is_ok() {
        tell_repeats(&connection, &args.into, counts.written).await?;
    }
    if is_new && counts.written == 0 {
        note(&format!("{}.{} was created and stays, without rows", args.into.database, args.into.table));
    }
    note(&format!("rows={} written={} skipped={}", counts.rows, counts.written, counts.skipped));
    done
}

/// How many rows of a table that only this import has written were overwritten by later lines.
async fn tell_repeats(connection: &Connection, into: &Into, written: u64) -> Result<()> {
    let count = format!("SELECT COUNT(*) FROM {}.{}", quoted(&into.database), quoted(&into.table));
    let rows = connection.sql(&count).await?.rows().await?;
    let held = rows.iter().next().map(|row| row.get::<i64>(0)).transpose()?;
    let repeats =
        held.and_then(|held| u64::try_from(held).ok()).map_or(0, |held| written.saturating_sub(held));
    if repeats > 0 {
        note(&format!("repeats={repeats}: lines of an instant that a later line of the same table has too"));
    }
    Ok(())
}

async fn load(
    writer: &Writer,
    loader: &mut Loader<File>,
    on_error: OnError,
    progress: &ProgressBar,
    counts: &mut Counts,
) -> Result<()> {
    let mut sent = 0;
    let stopped = loop {
        let mut batch = BatchRows { batch: writer.batch_of(&loader.plan().column_names())? };
        let chunk = loader.fill(&mut batch, BATCH_ROWS, on_error == OnError::Skip);
        counts.rows += chunk.rows;
        counts.skipped += u64::try_from(chunk.skipped.len()).unwrap_or(u64::MAX);
        for Skipped { error } in &chunk.skipped {
            progress.suspend(|| note(&skipped_line(error)));
        }
        sent += u64::try_from(batch.batch.len()).unwrap_or(u64::MAX);
        // What a failed write has to say is what flush says.
        if !batch.batch.is_empty() && writer.write(batch.batch).await.is_err() {
            break None;
        }
        progress.set_position(loader.bytes_read());
        match chunk.stopped {
            Some(error) => break Some(error),
            None if chunk.done => break None,
            None => {}
        }
    };
    // Written is what the server has acknowledged; of lines that repeat an instant, all but the last were overwritten.
    writer.flush().await?;
    counts.written = sent;
    stopped.map_or(Ok(()), Err)
}

/// What is said of a line that was left out: the cure of the code is to do what was done.
fn skipped_line(error: &Error) -> String {
    match error.help() {
        help if help == error.code().help() => format!("skipped: {}", error.message()),
        help => format!("skipped: {}; {help}", error.message()),
    }
}

/// A batch as the loader sees it.
struct BatchRows {
    batch: Batch,
}

impl Rows for BatchRows {
    fn push(&mut self, table: &str, tags: Option<&[Value]>, row: &[Value]) -> Result<()> {
        let table = match tags {
            Some(tags) => self.batch.child(table, tags)?,
            None => self.batch.table(table)?,
        };
        self.batch.push(table, row)
    }
}

fn progress(bytes: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// What the header is checked for in both passes.
fn header<R: std::io::Read>(reader: &mut csv::Reader<R>, file: &str) -> Result<Vec<String>> {
    let header = reader.headers().map_err(|e| unreadable(file, &e))?;
    let names: Vec<String> =
        header.iter().map(|name| name.trim().trim_start_matches('\u{feff}').to_owned()).collect();
    let wrong = |text: String| Err(Error::text(Code::CsvCell, format!("file={file} line=1: {text}")));
    if names.iter().all(String::is_empty) {
        return wrong("there is no header".into());
    }
    if let Some(at) = names.iter().position(String::is_empty) {
        return wrong(format!("column {} has no name", at + 1));
    }
    match names.iter().enumerate().find(|(at, name)| names.iter().take(*at).any(|n| n == *name)) {
        Some((_, twice)) => wrong(format!("column {twice} is there twice")),
        None => Ok(names),
    }
}

fn unreadable(file: &str, error: &csv::Error) -> Error {
    let line = error.position().map_or(String::new(), |at| format!(" line={}", at.line()));
    Error::text(Code::CsvCell, format!("file={file}{line}: {error}"))
}

/// The sensor data of the field, which lies beside the project and is not part of it. `None`, with a word on stderr, where
/// a clone has no such folder; in CI that is a failure.
#[cfg(test)]
fn field_data(name: &str) -> Option<std::fs::File> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if let Ok(file) = std::fs::File::open(&path) {
        return Some(file);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing", path.display());
    eprintln!("skipped: there is no {}", path.display());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn into_names_a_database_and_a_table() {
        let into = parse_into("`Power`.meters").unwrap();
        assert_eq!((into.database.as_str(), into.table.as_str()), ("Power", "meters"));
        for bad in ["meters", ".t", "db.", "a.b.c", ""] {
            assert!(parse_into(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn delimiters_are_one_character() {
        assert_eq!(parse_delimiter(";"), Ok(b';'));
        assert_eq!(
            (parse_delimiter("tab"), parse_delimiter("\\t"), parse_delimiter("\t")),
            (Ok(9), Ok(9), Ok(9))
        );
        for bad in ["", ";;", "ä", "\"", "\n"] {
            assert!(parse_delimiter(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn headers_are_checked() {
        let comma = Dialect { delimiter: b',', null: None };
        let names = |text: &str| {
            header(&mut comma.reader(text.as_bytes()), "f.csv").map_err(|e| e.message().to_owned())
        };
        assert_eq!(names("\u{feff}ts, Value \n"), Ok(vec!["ts".into(), "Value".into()]));
        assert!(names("").unwrap_err().contains("no header"));
        assert!(names("ts,,v\n").unwrap_err().contains("column 2 has no name"));
        assert!(names("ts,v,v\n").unwrap_err().contains("column v is there twice"));
    }
}
