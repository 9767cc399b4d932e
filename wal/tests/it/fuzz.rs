//! The fuzz targets of `wal/fuzz` on stable Rust: over their corpus, and over seeded mutations of it.

use std::path::PathBuf;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wal::StdDisk;
use wal::disk::{Disk, read_file};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = StdDisk.list(&dir).unwrap();
    let read = |name: &str| read_file(&StdDisk, &dir.join(name)).unwrap().unwrap().to_vec();
    files.iter().map(|file| read(&file.name)).collect()
}

fn mutate(rng: &mut ChaCha8Rng, mut data: Vec<u8>, others: &[Vec<u8>]) -> Vec<u8> {
    for _ in 0..rng.random_range(1..5) {
        let len = data.len();
        let at = rng.random_range(0..=len);
        match rng.random_range(0..7) {
            0 => data.truncate(at),
            1 => data.extend((0..rng.random_range(0..200)).map(|_| rng.random::<u8>())),
            2 => data.splice(at..at, [0; 64]).for_each(drop),
            3 => data.drain(at..len.min(at + 64)).for_each(drop),
            4 => {
                // a number that is a border somewhere
                let number = *[0, 1, 64, 127, 1 << 30, u64::MAX, u64::MAX >> 1].choose(rng).unwrap();
                let bytes = number.to_le_bytes();
                let to = len.min(at + *[1, 4, 8].choose(rng).unwrap());
                data[at..to].copy_from_slice(&bytes[..to - at]);
            }
            5 => {
                let other = others.choose(rng).unwrap();
                let from = rng.random_range(0..=other.len());
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
            _ => data.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.random_range(0..8)),
        }
    }
    data
}

/// `WAL_FUZZ=n` runs more.
fn run(target: &str, body: fn(&[u8]), rounds: u64) {
    let corpus = corpus(target);
    assert!(corpus.len() >= 3, "{target} has a corpus");
    corpus.iter().for_each(|data| body(data));
    let rounds = std::env::var("WAL_FUZZ").map_or(rounds, |text| text.parse().unwrap());
    for seed in 0..rounds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let data = corpus.choose(&mut rng).unwrap().clone();
        let data = mutate(&mut rng, data, &corpus);
        let found = std::panic::catch_unwind(|| body(&data));
        assert!(found.is_ok(), "{target}, seed {seed}: keep this in the corpus: {data:02x?}");
    }
}

#[test]
fn record_header() {
    run("record_header", wal::fuzz::record_header, 200_000);
}

#[test]
fn segment() {
    run("segment", wal::fuzz::segment, 20_000);
}

#[test]
fn index() {
    run("index", wal::fuzz::index, 20_000);
}

#[test]
fn schema_block() {
    run("schema_block", wal::fuzz::schema_block, 5_000);
}
