//! The disks themselves, and the small file that is replaced whole.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;

use wal::disk::Access;
use wal::sim::{Op, SimDisk, SimFault};
use wal::{Disk, StdDisk, read_file, write_file_atomic};

fn write(disk: &SimDisk, path: &str, content: &[u8]) {
    let file = disk.create(Path::new(path)).unwrap();
    file.write_at(&[IoSlice::new(content)], 0).unwrap();
}

#[test]
fn a_crash_takes_what_was_not_synced_and_nothing_else() {
    let content = [7; 2000];
    let (mut kept, mut lost, mut torn, mut nameless) = (0, 0, 0, 0);
    for seed in 0..500 {
        let disk = SimDisk::new();
        write(&disk, "/a/synced", &content);
        disk.open(Path::new("/a/synced"), Access::Write).unwrap().sync().unwrap();
        write(&disk, "/a/not", &content);
        disk.sync_dir(Path::new("/a")).unwrap();
        write(&disk, "/a/no_name", &content);
        let before = disk.open(Path::new("/a/synced"), Access::Read).unwrap();
        disk.crash(seed);
        assert!(before.len().is_err(), "handles end with the machine");
        assert_eq!(read_file(&disk, Path::new("/a/synced")).unwrap().unwrap(), &content[..]);
        let found = read_file(&disk, Path::new("/a/not")).unwrap().unwrap();
        assert!(found.len() <= 2000 && found.iter().all(|b| [0, 7].contains(b)));
        match found.iter().filter(|b| **b == 7).count() {
            0 => lost += 1,
            2000 => kept += 1,
            _ => torn += 1,
        }
        nameless += u32::from(read_file(&disk, Path::new("/a/no_name")).unwrap().is_none());
    }
    assert!(kept > 50 && lost > 50 && torn > 50, "{kept} {lost} {torn}");
    assert!((50..450).contains(&nameless), "{nameless}");
}

#[test]
fn after_a_failed_sync_the_data_looks_fine_and_is_lost() {
    let disk = SimDisk::new();
    write(&disk, "/a/file", b"hello");
    disk.sync_dir(Path::new("/a")).unwrap();
    let file = disk.open(Path::new("/a/file"), Access::Write).unwrap();
    disk.fail_nth(Op::Sync, 0, SimFault::Errno(5));
    assert!(file.sync().is_err());
    assert_eq!(read_file(&disk, Path::new("/a/file")).unwrap().unwrap(), "hello");
    file.sync().unwrap();
    disk.crash(1);
    assert_eq!(read_file(&disk, Path::new("/a/file")).unwrap().unwrap(), "");
}

#[test]
fn a_replaced_file_is_old_or_new_after_any_crash_and_new_once_it_was_answered() {
    let path = Path::new("/a/vote");
    for seed in 0..300 {
        for fail in
            [None, Some(Op::Create), Some(Op::Write), Some(Op::Sync), Some(Op::Rename), Some(Op::SyncDir)]
        {
            let disk = SimDisk::new();
            write_file_atomic(&disk, path, b"old").unwrap();
            if let Some(op) = fail {
                disk.fail_nth(op, 0, SimFault::Errno(28));
            }
            let answered = write_file_atomic(&disk, path, b"new");
            assert_eq!(answered.is_ok(), fail.is_none());
            disk.crash(seed);
            let found = read_file(&disk, path).unwrap().unwrap();
            assert!(found == "new" || (found == "old" && answered.is_err()), "{fail:?} {found:?}");
        }
    }
}

#[test]
fn the_real_disk() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("a/b");
    StdDisk.create_dir_all(&dir).unwrap();
    assert_eq!(read_file(&StdDisk, &dir.join("none")).unwrap(), None);
    write_file_atomic(&StdDisk, &dir.join("file"), b"content").unwrap();
    assert_eq!(read_file(&StdDisk, &dir.join("file")).unwrap().unwrap(), "content");

    let file = StdDisk.open(&dir.join("file"), Access::Write).unwrap();
    file.reserve(1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 7, "space was taken, the size has not changed");
    file.release().unwrap();
    let eof = file.read_at(&mut [0; 8], 0).unwrap_err();
    assert_eq!(eof.kind(), ErrorKind::UnexpectedEof);

    let lock = StdDisk.lock(&dir.join("lock")).unwrap();
    assert_eq!(StdDisk.lock(&dir.join("lock")).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(lock);
    StdDisk.lock(&dir.join("lock")).unwrap();

    let names: Vec<_> =
        StdDisk.list(&dir).unwrap().into_iter().map(|entry| (entry.name, entry.len)).collect();
    assert_eq!(names, [("file".into(), 7), ("lock".into(), 0)]);
    StdDisk.remove_dir_all(&dir).unwrap();
    StdDisk.remove_dir_all(&dir).unwrap();
}
