//! `tidemark wal`: looking into log segments, also beside a live server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use model::{Code, Error, Precision, Result, TableUid, Zone, format_timestamp, parse_timestamp};
use vnode::record::data::DataHeader;
use wal::repair::Repair;
use wal::{Disk, DumpFilter, Dumped, Kind, Record, SegmentReport, SegmentState, StdDisk, Version, WalError};

use super::common::{note, output_failed};
use super::output::json_string;
use crate::server::data_dir;

/// `tidemark wal`.
#[derive(Debug, Args)]
#[command(
    after_help = "PATH is a segment, the folder of one log, or a whole data directory, also a bare copy of one.\n\
                        Verify and dump may run beside a live server. Exit status 0: intact; 1: damage found."
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
        /// Which records
        #[command(flatten)]
        which: Which,
    },
    /// Make damaged logs usable: keep one stretch of intact records, put the rest aside as FILE.damaged
    #[command(disable_help_flag = true)]
    Repair {
        /// Segment, log folder or data directory; of a segment, its whole log
        path: PathBuf,
        /// Tell what would be given up, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which records to print.
#[derive(Debug, Default, Args)]
pub struct Which {
    /// First version
    #[arg(long, value_name = "VERSION")]
    from: Option<u64>,
    /// Last version
    #[arg(long, value_name = "VERSION")]
    to: Option<u64>,
    /// Only records of this kind; may be given several times
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    kind: Vec<Kind>,
    /// Only rows of the table with this uid (information_schema.ins_tables shows it)
    #[arg(long, value_name = "UID")]
    table: Option<u64>,
    /// Received at this time or later, UTC
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<i64>,
    /// Received before this time, UTC
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<i64>,
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    let named = |kind: &Kind| kind.name() == text;
    let all = || Kind::ALL.map(Kind::name).join(", ");
    Kind::ALL.into_iter().find(named).ok_or_else(|| format!("is none of {}", all()))
}

fn parse_time(text: &str) -> Result<i64, String> {
    parse_timestamp(text, Precision::Ns, Zone::UTC)
        .ok_or_else(|| "is no time such as '2026-01-31 12:00:00'".to_owned())
}

impl Which {
    fn filter(&self) -> DumpFilter {
        DumpFilter {
            from: self.from.map(Version),
            to_inclusive: self.to.map(Version),
            kinds: self.kind.clone(),
            since_ns: self.since,
            until_ns: self.until,
        }
    }
}

/// Runs it.
pub(super) fn run(args: &WalArgs) -> Result<ExitCode> {
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let intact = match &args.command {
        WalCommand::Verify { path } => verify(&disk, path, &mut out)?,
        WalCommand::Dump { path, which } => dump(&disk, path, which, &mut out)?,
        WalCommand::Repair { path, dry_run } => repair(&disk, path, *dry_run, &mut out)?,
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
    // A log that is gone has no segment that could be bad: the catalogue knows of it. One that does not read itself has a
    // segment among those above, or is told here.
    let missing = data_dir::missing(disk, path).unwrap_or_else(|error| vec![error]);
    for error in &missing {
        writeln!(out, "{} {}", path.display(), error.message()).map_err(output_failed)?;
    }
    let is_bad = !missing.is_empty() || reports.iter().any(|report| report.state.is_bad());
    Ok((is_bad || !reports.is_empty()).then_some(!is_bad))
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
fn dump(disk: &Arc<dyn Disk>, path: &Path, which: &Which, out: &mut impl Write) -> Result<bool> {
    let mut intact = true;
    for found in wal::dump(disk, path, which.filter()).map_err(failed)? {
        match found {
            Ok(dumped) if which.table.is_some_and(|uid| !has_rows_of(&dumped.record, TableUid(uid))) => {}
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

fn has_rows_of(record: &Record, table: TableUid) -> bool {
    record.kind == Kind::Data
        && DataHeader::decode(&record.body).is_ok_and(|header| {
            let mut runs = header.writes.iter().flat_map(|write| &write.blocks).flat_map(|block| &block.runs);
            runs.any(|run| run.table == table)
        })
}

/// Repairs each log; whether all can be used now.
fn repair(disk: &Arc<dyn Disk>, path: &Path, dry_run: bool, out: &mut impl Write) -> Result<bool> {
    let _no_server = data_dir::lock_around(path)?;
    let mut damaged = false;
    let dirs = wal::log_dirs(disk, path).map_err(failed)?;
    if dirs.is_empty() {
        return Err(Error::text(Code::Io, format!("no log segments here: path={}", path.display())));
    }
    for dir in dirs {
        // The folder of a group holds its log's folder and, beside it, how far its checkpoint reaches.
        let held_below = match dir.parent() {
            Some(group) => raft::floor_next(&**disk, group)?,
            None => Version::ZERO,
        };
        let plan = wal::repair::plan(disk, &dir, held_below).map_err(failed)?;
        damaged |= plan.is_needed();
        // What is lost is told before it is done.
        tell(&plan, held_below, dry_run, out).map_err(output_failed)?;
        if plan.is_needed() && dir.parent().is_some_and(|group| group.ends_with("mnode")) {
            writeln!(
                out,
                "{} is the metadata: databases, users, topics and groups made in what is given up are gone with it; a \
                 start refuses vgroups' folders that no database is left for",
                dir.display()
            )
            .map_err(output_failed)?;
        }
        out.flush().map_err(output_failed)?;
        if plan.is_needed() && !dry_run {
            plan.carry_out(&**disk).map_err(failed)?;
            writeln!(out, "{} repaired", dir.display()).map_err(output_failed)?;
        }
    }
    Ok(!(damaged && dry_run))
}

fn tell(plan: &Repair, held_below: Version, dry_run: bool, out: &mut impl Write) -> io::Result<()> {
    let dir = plan.dir.display();
    if !plan.is_needed() {
        return writeln!(out, "{dir} ok");
    }
    let versions = |from: Version, to: Version| {
        let (first, last) = wal::repair::ends(from, to);
        format!("first={first} last={last}")
    };
    let verb = if dry_run { "would give up" } else { "gives up" };
    for part in &plan.given_up {
        let aside = part.aside.as_ref().map_or("-".into(), |aside| aside.display().to_string());
        let (file, versions) = (part.file.display(), versions(part.from, part.to));
        writeln!(out, "{file} {verb} {versions} bytes={} kept_as={aside} because: {}", part.bytes, part.why)?;
    }
    let kept = versions(plan.first, plan.next);
    writeln!(out, "{dir} keeps {kept} next={}", plan.next)?;
    if held_below > plan.next {
        writeln!(out, "{dir} the checkpoint reaches further: the log will go on at {held_below}")?;
    }
    if plan.first > held_below && plan.first < plan.next && held_below > Version::ZERO {
        let lost = versions(held_below, plan.first);
        writeln!(out, "{dir} neither the checkpoint nor the log holds {lost}")?;
    }
    Ok(())
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

    /// Changes a byte of the first record's body: the file and what is in it now.
    fn damage(disk: &Arc<dyn Disk>, dir: &Path) -> (std::path::PathBuf, Vec<u8>) {
        let file = wal::verify(disk, dir).unwrap().remove(0).file;
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.windows(3).position(|w| w == b"one").unwrap();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        (file, bytes)
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
        assert!(dump(&disk, dir.path(), &Which::default(), &mut out).unwrap());
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
        let (file, _) = damage(&disk, dir.path());
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

    #[test]
    fn a_dump_takes_a_range_and_a_kind() {
        let dir = tempfile::tempdir().unwrap();
        log(dir.path());
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        let lines = |which: Which| {
            let mut out = Vec::new();
            assert!(dump(&disk, dir.path(), &which, &mut out).unwrap());
            String::from_utf8(out).unwrap().lines().count()
        };
        assert_eq!(lines(Which { from: Some(6), ..Which::default() }), 1);
        assert_eq!(lines(Which { kind: vec![parse_kind("noop").unwrap()], ..Which::default() }), 2);
        assert_eq!(lines(Which { since: parse_time("1970-01-02 00:00:00").ok(), ..Which::default() }), 0);
        assert_eq!(lines(Which { table: Some(1), ..Which::default() }), 0);
        assert!(parse_kind("rows").is_err() && parse_time("noon").is_err());
    }

    #[test]
    fn c073_repair_tells_what_is_lost_and_the_log_opens() {
        let dir = tempfile::tempdir().unwrap();
        log(dir.path());
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        let (file, bytes) = damage(&disk, dir.path());
        let run = |dry_run| {
            let mut out = Vec::new();
            let usable = repair(&disk, dir.path(), dry_run, &mut out).unwrap();
            (usable, String::from_utf8(out).unwrap())
        };
        let (usable, told) = run(true);
        assert!(!usable && told.contains("would give up first=5 last=6"), "{told}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        let (usable, told) = run(false);
        assert!(usable && told.contains("next=5") && told.contains(".damaged"), "{told}");
        assert!(verify(&disk, dir.path(), &mut Vec::new()).unwrap());
        assert_eq!(
            Wal::open(Arc::new(StdDisk), dir.path(), Options::default(), 0).unwrap().1.next,
            Version(5)
        );
        assert!(run(false).1.ends_with(" ok\n"));
    }

    #[test]
    fn repair_keeps_off_a_directory_that_a_server_has() {
        let dir = tempfile::tempdir().unwrap();
        let server = data_dir::DataDir::open(dir.path()).unwrap();
        let path = dir.path().join("vnode").join("7").join("wal");
        log(&path);
        let disk: Arc<dyn Disk> = Arc::new(StdDisk);
        let refused = repair(&disk, &path, false, &mut Vec::new()).unwrap_err();
        assert_eq!(refused.code(), Code::DataDirLocked);
        std::fs::remove_file(dir.path().join("LOCK")).unwrap();
        let refused = repair(&disk, &path, false, &mut Vec::new()).unwrap_err();
        assert_eq!(refused.code(), Code::DataDirLocked, "with its lock file gone, too");
        drop(server);
        assert!(repair(&disk, &path, false, &mut Vec::new()).unwrap());
    }
}
