use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{Access, Disk, DiskFile, write_all_at};

/// Replaces the content of a small file so that after a crash it holds the old or the new content, whole: writes a
/// temporary file beside it, syncs it, renames it, syncs the directory. Needs no disk space where
/// [`reserve_replacement`] has taken it before, on a file system that writes in place.
///
/// # Errors
/// Any I/O error. After an error of the last step the new content is visible, but may be gone after a crash.
pub fn write_file_atomic(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let temp = temp_path(path);
    let file = match spare(disk, &temp, content.len())? {
        Some(file) => file,
        None => disk.create(&temp)?,
    };
    write_all_at(&*file, &mut [IoSlice::new(content)], 0)?;
    file.sync()?;
    disk.rename(&temp, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Takes the disk space that a later [`write_file_atomic`] of `len` bytes at `path` will need, in the temporary file that
/// it writes. For what makes room on a full disk and has to note something first.
///
/// # Errors
/// Any I/O error. The replacement then needs disk space of its own.
pub fn reserve_replacement(disk: &dyn Disk, path: &Path, len: usize) -> io::Result<()> {
    let temp = temp_path(path);
    if spare(disk, &temp, len)?.is_some() {
        return Ok(());
    }
    let file = disk.create(&temp)?;
    // Written and synced: until then a file system may only have promised the space.
    write_all_at(&*file, &mut [IoSlice::new(&vec![0; len])], 0)?;
    file.sync()
}

/// The temporary file, if it is there with this size.
fn spare(disk: &dyn Disk, temp: &Path, len: usize) -> io::Result<Option<Arc<dyn DiskFile>>> {
    match disk.open(temp, Access::Write) {
        Ok(file) => Ok((file.len()? == len as u64).then_some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the disk, a quota or a file-size limit is exhausted: the write may succeed later.
#[must_use]
pub fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The content of a small file, none if there is no such file.
///
/// # Errors
/// Any I/O error but `NotFound`.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Bytes>> {
    let file = match disk.open(path, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let len = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut content = vec![0; len];
    file.read_at(&mut content, 0)?;
    Ok(Some(content.into()))
}

/// `<path>.tmp`: never a valid name of anything, removed when found at start.
pub(crate) fn temp_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".tmp");
    name.into()
}
