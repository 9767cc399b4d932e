//! `tidemark wal`: looking into log segments, also beside a live server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use model::{Code, Error, Precision, Result, Zone, format_timestamp};
use vnode::record::data::DataHeader;
use wal::{Disk, Dumped, Kind, Record, SegmentReport, SegmentState, StdDisk, WalError};

use super::common::{note, output_failed};
use super::output::json_string;

/// `tidemark wal`.
#[derive(Debug, Args)]
#[command(
    after_help = "PATH is a segment, the folder of one log, or a whole data directory, also a bare copy of one. \
                        Exit status 0: intact; 1: damage found."
)]
pub struct WalArgs {
    /// What to do
    #[command(subcommand)]
    pub command: WalCommand,
}

/// What to do with logs.
#[derive(Debug, Subcommand)]
pub enum WalCommand {
    /// Check every record; a line a segment
    #[command(disable_help_flag = true)]
    Verify {
        /// Segment, log folder or data directory
        path: PathBuf,
    },
    /// Print what each record is, as JSON lines
    #[command(disable_help_flag = true)]
    Dump {
        /// Segment, log folder or data directory
        path: PathBuf,
    },
    /// Cut a log before its damage (not built yet)
    #[command(disable_help_flag = true)]
    Repair {
        /// Segment, log folder or data directory
        path: PathBuf,
    },
}

/// Runs it.
pub(super) fn run(args: &WalArgs) -> Result<ExitCode> {
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let intact = match &args.command {
        WalCommand::Verify { path } => verify(&disk, path, &mut out)?,
        WalCommand::Dump { path } => dump(&disk, path, &mut out)?,
        WalCommand::Repair { .. } => {
            return Err(Error::not_supported("tidemark wal repair").hint("wal verify tells what is damaged"));
        }
    };
    out.flush().map_err(output_failed)?;
    Ok(if intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn failed(error: WalError) -> Error {
    let code = if error.is_damage() { Code::Damaged } else { Code::Io };
    let cause = std::error::Error::source(&error).map(|cause| format!(" cause={cause}")).unwrap_or_default();
    Error::text(code, format!("{error}{cause}")).caused_by(error)
}

/// Prints a line for each segment; whether all are intact.
fn verify(disk: &Arc<dyn Disk>, path: &Path, out: &mut impl Write) -> Result<bool> {
    let intact = verify_segments(disk, path, out)?;
    intact.ok_or_else(|| Error::text(Code::Io, format!("no log segments here: path={}", path.display())))
}

/// As [`verify`]; `None` if there is no segment.
pub(super) fn verify_segments(
    disk: &Arc<dyn Disk>,
    path: &Path,
    out: &mut impl Write,
) -> Result<Option<bool>> {
    let reports = wal::verify(disk, path).map_err(failed)?;
    for report in &reports {
        writeln!(out, "{}", line(report)).map_err(output_failed)?;
    }
    Ok((!reports.is_empty()).then(|| !reports.iter().any(|report| report.state.is_bad())))
}

fn line(report: &SegmentReport) -> String {
    let SegmentReport { file, first, next, records, bytes, state, .. } = report;
    let last = if *records == 0 { "-".to_owned() } else { next.0.saturating_sub(1).to_string() };
    let state = match state {
        SegmentState::Intact => "ok".to_owned(),
        SegmentState::Blank => "ok (empty; the next start removes it)".to_owned(),
        SegmentState::Superseded => "ok (no longer part of the log; the next start removes it)".to_owned(),
        SegmentState::TornTail { bytes } => {
            format!(
                "ok ({bytes} bytes behind the last record that a crash explains; the next start cuts them)"
            )
        }
        SegmentState::Bad(error) => error.to_string(),
        other => format!("{other:?}"),
    };
    format!("{} first={first} last={last} records={records} bytes={bytes} {state}", file.display())
}

/// Prints a line for each record; whether there was nothing but records.
fn dump(disk: &Arc<dyn Disk>, path: &Path, out: &mut impl Write) -> Result<bool> {
    let mut intact = true;
    for found in wal::dump(disk, path).map_err(failed)? {
        match found {
            Ok(dumped) => writeln!(out, "{}", json(&dumped)).map_err(output_failed)?,
            Err(error) => {
                intact = false;
                note(&failed(error).to_string());
            }
        }
    }
    Ok(intact)
}

fn json(dumped: &Dumped) -> String {
    let Dumped { file, record } = dumped;
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let vgroup = vgroup_of(file).map_or("null".to_owned(), |vgroup| vgroup.to_string());
    let time = format_timestamp(record.time_ns, Precision::Ns, Zone::UTC);
    let kind = format!("{:?}", record.kind).to_lowercase();
    let (tables, rows) = contents(record);
    format!(
        "{{\"vgroup\":{vgroup},\"segment\":{},\"version\":{},\"term\":{},\"time\":\"{time}\",\"kind\":\"{kind}\",\
         \"bytes\":{},\"tables\":{tables},\"rows\":{rows}}}",
        json_string(&name),
        record.version,
        record.term,
        record.body.len(),
    )
}

/// Tables and rows of a Data record; null where its body does not read.
fn contents(record: &Record) -> (String, String) {
    if record.kind != Kind::Data {
        return ("0".into(), "0".into());
    }
    match DataHeader::decode(&record.body) {
        Ok(header) => {
            let runs = header.writes.iter().flat_map(|write| &write.blocks).flat_map(|block| &block.runs);
            let tables: std::collections::BTreeSet<_> = runs.map(|run| run.table).collect();
            (tables.len().to_string(), header.rows().to_string())
        }
        Err(_) => ("null".into(), "null".into()),
    }
}

/// The vgroup, where the path is that of a data directory.
fn vgroup_of(file: &Path) -> Option<u32> {
    let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    if let Some(at) = parts.iter().rposition(|part| *part == "vnode") {
        return parts.get(at + 1)?.parse().ok();
    }
    parts.contains(&"mnode").then_some(1)
}

#[cfg(test)]
mod tests {
    use wal::{NewRecord, Options, Version, Wal};

    use super::*;

    fn log(dir: &Path) {
        let (log, _) = Wal::open(Arc::new(StdDisk), dir, Options::default(), 0).unwrap();
        let record = |body: &'static str| NewRecord {
            term: 3,
            time_ns: 1_000,
            kind: Kind::Noop,
            flags: 0,
            body: body.into(),
            schemas: vec![],
        };
        log.append(Version(5), &[record("one"), record("two")], 0).unwrap();
        log.sync().unwrap();
    }

    #[test]
    fn an_intact_log_verifies_and_dumps() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vnode").join("7").join("wal");
        log(&path);
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        let mut out = Vec::new();
        assert!(verify(&disk, dir.path(), &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("first=5 last=6 records=2") && text.trim_end().ends_with("ok"), "{text}");
        let mut out = Vec::new();
        assert!(dump(&disk, dir.path(), &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (&lines[1]["vgroup"], &lines[1]["version"], &lines[1]["term"]),
            (&7.into(), &6.into(), &3.into())
        );
        assert_eq!((&lines[1]["kind"], &lines[1]["bytes"]), (&"noop".into(), &3.into()));
        assert_eq!(lines[1]["time"], "1970-01-01T00:00:00.000001000Z");
    }

    #[test]
    fn damage_is_named_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        log(dir.path());
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        let file = wal::verify(&disk, dir.path()).unwrap().remove(0).file;
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.windows(3).position(|w| w == b"one").unwrap();
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let mut out = Vec::new();
        assert!(!verify(&disk, &file, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("offset=") && text.contains("version=5"), "{text}");
    }

    #[test]
    fn a_folder_without_logs_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        assert_eq!(verify(&disk, dir.path(), &mut Vec::new()).unwrap_err().code(), Code::Io);
    }
}
