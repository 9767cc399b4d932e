//! `tidemark verify`: everything below a data directory against its checksums, also beside a live server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use model::{Code, Error, Result};
use vnode::FileReport;
use wal::{Disk, StdDisk};

use super::common::output_failed;
use super::wal::verify_segments;
use crate::server::data_dir::verify_format;

/// `tidemark verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "PATH is a data directory or the folder of one vgroup, also a bare copy of one.\nPrints a line a log \
                  segment and data file, and one for anything else that is damaged.\nExit status 0: intact; 1: damage found."
)]
pub struct VerifyArgs {
    /// Data directory or folder of a vgroup
    pub path: PathBuf,
}

/// Runs it.
pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let disk: Arc<dyn Disk> = Arc::new(StdDisk);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let intact = verify(&disk, &args.path, &mut out)?;
    out.flush().map_err(output_failed)?;
    Ok(if intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verify(disk: &Arc<dyn Disk>, path: &Path, out: &mut impl Write) -> Result<bool> {
    let segments = verify_segments(disk, path, out)?;
    let mut intact = segments.unwrap_or(true);
    let mut small = |checked: Result<()>| -> Result<()> {
        if let Err(error) = checked {
            writeln!(out, "{error}").map_err(output_failed)?;
            intact = false;
        }
        Ok(())
    };
    small(verify_format(path).map(drop))?;
    let shards = shards(disk, path)?;
    for dir in [&path.join("mnode")].into_iter().chain(&shards) {
        small(raft::verify_files(&**disk, dir))?;
    }
    for dir in shards {
        let reports = match vnode::verify_files(disk, &dir) {
            Ok(reports) => reports,
            Err(error) => {
                writeln!(out, "{} {error}", dir.display()).map_err(output_failed)?;
                intact = false;
                continue;
            }
        };
        for report in &reports {
            intact &= report.fault.is_none();
            writeln!(out, "{}", line(report)).map_err(output_failed)?;
        }
    }
    if segments.is_none() {
        return Err(Error::text(Code::Io, format!("no data directory: path={}", path.display())));
    }
    Ok(intact)
}

/// Folders of vgroups: those of a data directory, or the path itself.
fn shards(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<PathBuf>> {
    let parent = path.join("vnode");
    let entries = match disk.list(&parent) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![path.to_path_buf()]),
        Err(e) => {
            return Err(Error::text(Code::Io, format!("listing {}: {e}", parent.display())).caused_by(e));
        }
    };
    let mut found: Vec<_> =
        entries.iter().filter(|entry| entry.is_dir).map(|entry| parent.join(&entry.name)).collect();
    found.sort();
    Ok(found)
}

fn line(report: &FileReport) -> String {
    let FileReport { file, meta, fault } = report;
    let state = fault.as_ref().map_or_else(|| "ok".to_owned(), |fault| fault.message().to_owned());
    format!("{} rows={} tables={} bytes={} {state}", file.display(), meta.rows, meta.tables, meta.bytes)
}
