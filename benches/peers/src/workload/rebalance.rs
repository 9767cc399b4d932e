//! The pure function behind every rebalance, at the largest size that is promised.

use std::collections::BTreeSet;
use std::hint::black_box;

use mnode::{Assignment, rebalance};
use model::{ConsumerId, VgroupId};

use super::Bench;
use crate::error::{Error, Result};
use crate::figures::{Line, median, now};

const AIM_MS: f64 = 20.0;
const VGROUPS: u32 = 5_000;
const CONSUMERS: u64 = 1_000;

/// Measures.
pub fn run(bench: &Bench) -> Result<Line> {
    let vgroups: BTreeSet<_> = (2..VGROUPS + 2).map(VgroupId).collect();
    let members = |ids: std::ops::Range<u64>| ids.map(ConsumerId).collect::<BTreeSet<_>>();
    let nobody = Assignment::default();
    let all = rebalance(&nobody, &members(0..CONSUMERS), &vgroups);
    if all.owners.values().any(Option::is_none) || all.owners.len() != vgroups.len() {
        return Err(Error::Odd("a vgroup was left without an owner".into()));
    }
    let passes = [
        ("first", &nobody, members(0..CONSUMERS)),
        ("one joins", &all, members(0..CONSUMERS + 1)),
        ("one leaves", &all, members(1..CONSUMERS)),
        ("one is replaced", &all, members(1..CONSUMERS + 1)),
        ("half leave", &all, members(0..CONSUMERS / 2)),
    ];
    let timed = passes.map(|(name, current, members)| {
        let times = (0..bench.rounds * 10).map(|_| {
            let started = now();
            black_box(rebalance(black_box(current), black_box(&members), black_box(&vgroups)));
            started.elapsed().as_secs_f64() * 1e3
        });
        (name, median(times))
    });
    let worst = timed.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    let shown: Vec<_> = timed.iter().map(|(name, ms)| format!("{name} {ms:.2}")).collect();
    Ok(Line {
        work: format!("rebalance pass, {VGROUPS} vgroups x {CONSUMERS} consumers"),
        ours: format!("ms: {}", shown.join(", ")),
        reference: "-".into(),
        ratio: "-".into(),
        aim: "< 20 ms",
        met: worst < AIM_MS,
    })
}
