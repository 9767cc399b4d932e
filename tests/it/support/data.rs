//! The sensor data of the field, which lies beside the project and is not part of it.

use std::path::PathBuf;

/// The file called `name` in `../shared/data`. `None`, with a word on stderr, where a clone has no such folder; in CI
/// that is a failure.
pub fn data_file(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing", path.display());
    eprintln!("skipped: there is no {}", path.display());
    None
}

/// A CSV file, read plainly: header and cells as text.
pub struct Csv {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Csv {
    pub fn read(path: &std::path::Path) -> Self {
        let text = std::fs::read_to_string(path).expect("the file is text");
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        Self { header, rows: lines.collect() }
    }

    pub fn column(&self, name: &str) -> usize {
        self.header.iter().position(|h| h == name).expect("the column")
    }
}
