//! Making a damaged log usable again, at the price of stating what is given up.
//!
//! A log has no gaps, so of several intact stretches one is kept: [`plan`] tells which and why. Nothing is deleted:
//! files that leave the log, and the originals of those that are shortened, stay beside it as `<name>.damaged`.

mod carry_out;
mod survey;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Version;
use crate::disk::Disk;
use crate::error::{Damage, Result};
use crate::format::segment::file_name;
use survey::{Part, Survey};

/// What a repair of one log gives up and keeps. Nothing has been changed until [`carry_out`](Self::carry_out).
#[derive(Debug)]
pub struct Repair {
    /// The log's directory.
    pub dir: PathBuf,
    /// The first version that the log holds afterwards; `next` if it holds none.
    pub first: Version,
    /// The version that the next append gets. Zero if no segment is left: the log is as new.
    pub next: Version,
    /// What is given up, in order of versions. Empty if there is nothing to repair.
    pub given_up: Vec<GivenUp>,
    /// The last segment of what is kept, if its file must be cut.
    cut: Option<Cut>,
    begin: Begin,
}

/// Records that leave the log.
#[derive(Debug)]
pub struct GivenUp {
    /// The segment.
    pub file: PathBuf,
    /// Where its bytes are kept; none if the file is not there.
    pub aside: Option<PathBuf>,
    /// First version given up.
    pub from: Version,
    /// Version after the last that is known to have been there. Unreadable bytes at the very end of the log may have
    /// held more. Equal to `from` if the bytes were no records of the log.
    pub to: Version,
    /// Bytes of the file that are given up.
    pub bytes: u64,
    /// Why.
    pub why: Why,
}

/// First and last version of the records `from..next` as people are told them, both ends included; `-` where there are
/// none.
#[must_use]
pub fn ends(from: Version, next: Version) -> (String, String) {
    match next.0.checked_sub(from.0) {
        None | Some(0) => ("-".to_owned(), "-".to_owned()),
        Some(_) => (from.to_string(), next.0.saturating_sub(1).to_string()),
    }
}

/// Why records are given up.
#[derive(Debug)]
#[non_exhaustive]
pub enum Why {
    /// They are damaged, or stand behind damage in the same segment.
    Damaged(Damage),
    /// The segment's file is not there.
    Missing,
    /// The segment's file is not there; whether retention deleted it cannot be told, since the note of that is damaged.
    Unknown,
    /// They may be intact, but the records between them and the rest of the log are gone.
    CutOff,
    /// They are older than a hole, and all that is as old is in a checkpoint.
    BeforeHole,
    /// A cut or a reset had taken them out of the log before.
    Superseded,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(error) => write!(f, "{error}"),
            Self::Missing => f.write_str("segment is missing"),
            Self::Unknown => f.write_str("deleted by retention or missing: the note that tells is damaged"),
            Self::CutOff => f.write_str("cut off from the rest of the log by what is gone before"),
            Self::BeforeHole => f.write_str("older than a hole, and held by a checkpoint"),
            Self::Superseded => f.write_str("no longer part of the log"),
        }
    }
}

/// A segment that keeps its first bytes.
#[derive(Debug)]
struct Cut {
    file: PathBuf,
    aside: PathBuf,
    end: u64,
}

/// What becomes of the note of where retention lets the log begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    Keep,
    Store(Version),
    /// No segment is left.
    Remove,
}

impl Repair {
    /// Whether there is anything to do.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !self.given_up.is_empty() || self.begin != Begin::Keep
    }
}

/// Surveys the log in `dir`, which nobody has open, and decides what to keep. Every record below `held_below` is in a
/// checkpoint of the log's owner (zero if there is none, or nothing is known of it).
///
/// Kept is one stretch of intact records without gaps: the last one that begins at or below `held_below`, so that what
/// is lost is in the checkpoint; else the first one, which ends where the first damage begins. A torn tail, empty files
/// and indexes need no repair: opening deals with them.
///
/// # Errors
/// I/O errors, also those of a failing disk: copy what it still reads to another one first. A newer format, and record
/// kinds that this build does not know: those are no damage.
pub fn plan(disk: &Arc<dyn Disk>, dir: &Path, held_below: Version) -> Result<Repair> {
    let survey = Survey::new(disk, dir)?;
    let kept = survey.choose(held_below);
    let mut repair = Repair {
        dir: dir.to_path_buf(),
        first: kept.map_or_else(Version::default, |stretch| stretch.first),
        next: kept.map_or_else(Version::default, |stretch| stretch.next),
        given_up: Vec::new(),
        cut: None,
        begin: Begin::Keep,
    };
    repair.note_begin(&survey, kept.map(|stretch| stretch.from));
    for (at, part) in survey.parts.iter().enumerate() {
        if let Some(missing) = part.missing_before {
            repair.give_up_missing(missing, part.first, Why::Missing);
        }
        match kept {
            Some(kept) if at >= kept.from && at < kept.last => {}
            Some(kept) if at == kept.last => repair.cut(&survey, part),
            Some(kept) if at < kept.from => repair.give_up(&survey, part, Why::BeforeHole),
            _ => repair.give_up(&survey, part, Why::CutOff),
        }
    }
    Ok(repair)
}

impl Repair {
    /// What is to be noted of where the log begins. `first` is the part with which it does.
    fn note_begin(&mut self, survey: &Survey, first: Option<usize>) {
        if let Some(from) = survey.missing_at_start() {
            let to = survey.parts.first().map_or(from, |part| part.first);
            let why = if survey.retained_fault.is_some() { Why::Unknown } else { Why::Missing };
            self.give_up_missing(from, to, why);
        }
        let Some(part) = first.and_then(|at| survey.parts.get(at)) else {
            if survey.retained.is_some() || survey.retained_fault.is_some() {
                self.begin = Begin::Remove;
            }
            return;
        };
        let continues = part.header.is_some_and(|header| header.prev.is_some());
        if continues && survey.retained.is_none_or(|retained| retained < part.first) {
            self.begin = Begin::Store(part.first);
        }
    }

    fn give_up_missing(&mut self, from: Version, to: Version, why: Why) {
        let file = self.dir.join(file_name(from));
        self.given_up.push(GivenUp { file, aside: None, from, to, bytes: 0, why });
    }

    fn give_up(&mut self, survey: &Survey, part: &Part, why: Why) {
        let why = if part.superseded { Why::Superseded } else { why };
        let why = match &part.fault {
            Some(fault) => Why::Damaged(fault.clone()),
            None => why,
        };
        let aside = survey.aside_of(&part.path);
        let (file, from, to) = (part.path.clone(), part.first, part.to);
        self.given_up.push(GivenUp { file, aside: Some(aside), from, to, bytes: part.file_bytes, why });
    }

    /// The last part of what is kept: what stands behind its intact records goes.
    fn cut(&mut self, survey: &Survey, part: &Part) {
        if part.is_tail() {
            return; // opening finds its end by itself
        }
        let bytes = part.file_bytes.saturating_sub(part.end);
        let why = part.fault.as_ref().map_or(Why::Superseded, |fault| Why::Damaged(fault.clone()));
        if bytes == 0 && part.next >= part.to {
            return;
        }
        let (file, from, to) = (part.path.clone(), part.next, part.to);
        let aside = if bytes > 0 { Some(survey.aside_of(&part.path)) } else { None };
        if let Some(aside) = aside.clone() {
            self.cut = Some(Cut { file: file.clone(), aside, end: part.end });
        }
        self.given_up.push(GivenUp { file, aside, from, to, bytes, why });
    }
}
