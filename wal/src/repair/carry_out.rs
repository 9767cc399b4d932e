//! The steps of a repair. After a crash between any two of them the log is as damaged as it was, or repaired: planning
//! and carrying out again ends the same.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use super::{Begin, Cut, GivenUp, Repair, ends};
use crate::disk::{Access, Disk, DiskFile, temp_path, write_all_at};
use crate::error::{Result, WalError};
use crate::format::index;
use crate::format::segment::parse_file_name;
use crate::retained;

const COPY_BYTES: usize = 1 << 20;

impl Repair {
    /// Does it. Durable when it returns; opening the log then finds what [`first`](Self::first) and
    /// [`next`](Self::next) say.
    ///
    /// # Errors
    /// I/O errors; the log is then as damaged as before, or less, and another repair can go on.
    pub fn carry_out(&self, disk: &dyn Disk) -> Result<()> {
        match self.begin {
            Begin::Keep | Begin::Remove => {}
            Begin::Store(first) => retained::store(disk, &self.dir, first)?,
        }
        // The cut first: with the segments behind it gone, nothing would tell where the log ended in it.
        if let Some(cut) = &self.cut {
            self.cut_file(disk, cut)?;
        }
        for part in self.given_up.iter().filter(|part| self.leaves(part)) {
            self.put_aside(disk, part)?;
        }
        if self.begin == Begin::Remove {
            let path = retained::path(&self.dir);
            disk.remove(&path).map_err(WalError::io("remove", &path))?;
        }
        self.sync_dir(disk)?;
        for part in &self.given_up {
            let (first, last) = ends(part.from, part.to);
            tracing::warn!(
                file = %part.file.display(), first, last, bytes = part.bytes, why = %part.why,
                "log records given up"
            );
        }
        Ok(())
    }

    /// Whether the file as a whole leaves the log.
    fn leaves(&self, part: &GivenUp) -> bool {
        part.aside.is_some() && self.cut.as_ref().is_none_or(|cut| cut.file != part.file)
    }

    fn put_aside(&self, disk: &dyn Disk, part: &GivenUp) -> Result<()> {
        let Some(aside) = &part.aside else { return Ok(()) };
        disk.rename(&part.file, aside).map_err(WalError::io("put aside", &part.file))?;
        if let Some(index) = index_of(&part.file)
            && let Err(error) = disk.remove(&index)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(file = %index.display(), %error, "index not removed, will be at the next opening");
        }
        Ok(())
    }

    /// Keeps the whole file aside, then puts its first bytes in its place. A copy, not a rename: at no moment is the
    /// log without the records that it keeps.
    fn cut_file(&self, disk: &dyn Disk, cut: &Cut) -> Result<()> {
        let source = disk.open(&cut.file, Access::Read).map_err(WalError::io("open segment", &cut.file))?;
        let len = source.len().map_err(WalError::io("read segment", &cut.file))?;
        self.copy(disk, &*source, len, &cut.aside)?;
        self.copy(disk, &*source, cut.end, &cut.file)
    }

    fn copy(&self, disk: &dyn Disk, source: &dyn DiskFile, len: u64, to: &Path) -> Result<()> {
        let temp = temp_path(to);
        let copied = disk.create(&temp).and_then(|file| {
            let mut buf = vec![0; COPY_BYTES];
            let mut at = 0;
            while at < len {
                let part = usize::try_from(len - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
                let part = &mut buf[..part];
                source.read_at(part, at)?;
                write_all_at(&*file, &mut [IoSlice::new(part)], at)?;
                at += part.len() as u64;
            }
            file.sync()?;
            disk.rename(&temp, to)
        });
        copied.map_err(WalError::io("copy segment", to))?;
        self.sync_dir(disk)
    }

    fn sync_dir(&self, disk: &dyn Disk) -> Result<()> {
        disk.sync_dir(&self.dir).map_err(WalError::io("sync directory", &self.dir))
    }
}

fn index_of(segment: &Path) -> Option<PathBuf> {
    let first = segment.file_name().and_then(|name| name.to_str()).and_then(parse_file_name)?;
    Some(segment.with_file_name(index::file_name(first)))
}
