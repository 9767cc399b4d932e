//! Random lives of consumers, shards and leaders on virtual time, from a seed: the deciding parts of `mnode`, `vnode` and
//! `client` joined by a network that delays, loses, repeats and reorders.
//!
//! At every step: rows of a batch are what the definition in force shows of its records, a message begins behind the one
//! before, a token has one owner, a committed offset never goes back and has nothing below it that nobody handled, nobody
//! is removed who was heard of. After the storm: quiet within two ticks, even shares, shards and metadata of one mind,
//! every row that is owed to a group was handled, and nothing moves while nothing changes.
//!
//! `SEED=n` replays one seed with its history, `SEEDS=n` runs that many.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod calls;
mod client;
mod leader;
mod oracle;
mod rows;
mod shard;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use world::{Planted, World};

const SEEDS: u64 = 10_000;
const STEPS: u64 = 80;

/// One life; what was handed out and committed in it.
fn live(world: &mut World, seed: u64) -> (usize, usize) {
    let crowd = seed.is_multiple_of(10);
    for _ in 0..STEPS {
        world.storm_step(crowd);
    }
    world.calm();
    (world.oracle.messages, world.oracle.commits)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Plays a seed that fails once more, and tells everything.
fn tell(seed: u64, planted: Option<Planted>) {
    let mut world = World::new(seed, planted, true);
    let _ = catch_unwind(AssertUnwindSafe(|| live(&mut world, seed)));
    println!("{}", world.take_history().join("\n"));
}

#[test]
fn every_group_gets_every_row() {
    if let Some(seed) = number("SEED") {
        tell(seed, None);
        live(&mut World::new(seed, None, false), seed);
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let (next, messages, commits) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) == u64::MAX {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let lived = catch_unwind(|| live(&mut World::new(seed, None, false), seed));
                    match lived {
                        Ok((got, stored)) => {
                            messages.fetch_add(got as u64, Ordering::Relaxed);
                            commits.fetch_add(stored as u64, Ordering::Relaxed);
                        }
                        Err(_) => drop(failed.fetch_min(seed, Ordering::Relaxed)),
                    }
                }
            });
        }
    });
    println!("{seeds} seeds: {messages:?} messages, {commits:?} commits");
    let failed = failed.into_inner();
    if failed != u64::MAX {
        tell(failed, None);
        panic!(
            "seed {failed} failed; alone: SEED={failed} cargo nextest run --workspace -E 'test(every_group_gets_every_row)'"
        );
    }
    assert!(messages.into_inner() > seeds && commits.into_inner() > seeds, "next to nothing happened");
}

/// A simulation that cannot fail shows nothing.
fn notices(planted: Planted) {
    let noticed = (0..300)
        .find(|seed| catch_unwind(|| live(&mut World::new(*seed, Some(planted), false), *seed)).is_err());
    println!("{planted:?}: seed {noticed:?}");
    assert!(noticed.is_some(), "{planted:?} goes unnoticed");
}

macro_rules! planted {
    ($($name:ident: $planted:ident;)+) => { $(
        #[test]
        fn $name() {
            notices(Planted::$planted);
        }
    )+ };
}

planted! {
    notices_commits_that_are_not_fenced: CommitsUnfenced;
    notices_tokens_that_are_not_looked_at: IgnoresTokens;
    notices_owners_that_were_overtaken: TakesOldOwners;
    notices_owners_that_are_not_awaited: OwnersNotAwaited;
    notices_a_shard_that_is_not_told: ForgetsOneShard;
    notices_a_hand_over_of_what_was_not_delivered: HandsOverTooMuch;
    notices_commits_of_what_was_fetched_ahead: CommitsPrefetched;
    notices_lost_wake_ups: LosesWakeUps;
    notices_moves_without_need: MovesWithoutNeed;
    notices_a_removal_that_is_not_due: RemovesUnlisted;
}

#[test]
fn one_seed_is_one_life() {
    for seed in [3, 14, 150] {
        let history = || {
            let mut world = World::new(seed, None, true);
            let _ = catch_unwind(AssertUnwindSafe(|| live(&mut world, seed)));
            world.take_history()
        };
        assert_eq!(history(), history());
    }
}
