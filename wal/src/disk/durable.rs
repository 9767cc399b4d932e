use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{Access, Disk, write_all_at};

/// Replaces the content of a small file so that after a crash it holds the old or the new content, whole: writes a
/// temporary file beside it, syncs it, renames it, syncs the directory.
///
/// # Errors
/// Any I/O error. After an error of the last step the new content is visible, but may be gone after a crash.
pub fn write_file_atomic(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let temp = temp_path(path);
    let file = disk.create(&temp)?;
    write_all_at(&*file, &mut [IoSlice::new(content)], 0)?;
    file.sync()?;
    disk.rename(&temp, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
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
