//! What the meters of a benchmark read: a random walk each, seeded, so that every run writes the same and no value comes
//! back in a pattern that an encoder could find.
//!
//! A row's three values take steps of [`STEP_BITS`] random bits together: 3.25 bytes that no lossless encoding can do
//! without, as real meters have about. What a data file takes beyond that, and beyond the timestamps, is its encoding's.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};

/// Random bits of a step of the current, the voltage and the phase.
const STEP_BITS: [u32; 3] = [11, 4, 11];
/// The same in every run; each meter adds its number.
const SEED: u64 = 0x7469_6465;

/// A walk between two ends, by steps of `bits` random bits, which turns back where a step would leave.
#[derive(Clone, Copy, Debug)]
struct Walk {
    at: i32,
    low: i32,
    high: i32,
    bits: u32,
}

impl Walk {
    const fn between(low: i32, high: i32, bits: u32) -> Self {
        Self { at: low + (high - low) / 2, low, high, bits }
    }

    /// Steps by the lowest bits of `random` and takes them off.
    fn step(&mut self, random: &mut u32) -> i32 {
        let width = 1_u32 << self.bits;
        let step = (*random % width).cast_signed() - (width / 2).cast_signed();
        *random >>= self.bits;
        let next = self.at + step;
        self.at = if (self.low..=self.high).contains(&next) { next } else { self.at - step };
        self.at
    }
}

/// What a row has beside its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// Ampere, to the milliampere.
    pub(super) current: f32,
    /// Volt.
    pub(super) voltage: i32,
    /// To the ten-thousandth.
    pub(super) phase: f32,
}

/// One meter.
#[derive(Debug)]
struct Meter {
    random: StdRng,
    current: Walk,
    voltage: Walk,
    phase: Walk,
}

impl Meter {
    fn new(table: u64) -> Self {
        let [current, voltage, phase] = STEP_BITS;
        Self {
            random: StdRng::seed_from_u64(SEED.wrapping_add(table)),
            current: Walk::between(2_000, 18_000, current),
            voltage: Walk::between(198, 242, voltage),
            phase: Walk::between(0, 10_000, phase),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn next(&mut self) -> Reading {
        let mut random = self.random.next_u32();
        Reading {
            current: self.current.step(&mut random) as f32 / 1_000.0,
            voltage: self.voltage.step(&mut random),
            phase: self.phase.step(&mut random) as f32 / 10_000.0,
        }
    }
}

/// The meters that one client writes; each goes on where it was.
#[derive(Debug, Default)]
pub(super) struct Meters(HashMap<u64, Meter>);

impl Meters {
    /// The next readings of a meter.
    pub(super) fn read(&mut self, table: u64) -> impl Iterator<Item = Reading> {
        let meter = self.0.entry(table).or_insert_with(|| Meter::new(table));
        std::iter::repeat_with(|| meter.next())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_run_reads_the_same_however_it_is_cut_into_writes() {
        let whole: Vec<_> = Meters::default().read(7).take(1_000).collect();
        let mut meters = Meters::default();
        let mut parts = Vec::new();
        for rows in [1, 399, 600] {
            meters.read(8).take(3).for_each(drop);
            parts.extend(meters.read(7).take(rows));
        }
        assert_eq!(whole, parts);
        assert_ne!(whole, Meters::default().read(8).take(1_000).collect::<Vec<_>>(), "another meter");
    }

    #[test]
    fn steps_do_not_repeat_and_stay_in_range() {
        let rows: Vec<_> = Meters::default().read(1).take(20_000).collect();
        assert!(rows.iter().all(|r| (2.0..=18.0).contains(&r.current) && (198..=242).contains(&r.voltage)));
        assert!(rows.iter().all(|r| (0.0..=1.0).contains(&r.phase)));
        // Two rows in a row never come again: a period would show as a pair that does.
        let bits = |r: &Reading| (r.current.to_bits(), r.voltage, r.phase.to_bits());
        let pairs: HashSet<_> = rows.windows(2).map(|w| (bits(&w[0]), bits(&w[1]))).collect();
        assert_eq!(pairs.len(), rows.len() - 1);
        // All steps are taken, evenly: the voltage's are few enough to count.
        let mut counts = [0_u32; 16];
        for pair in rows.windows(2) {
            let step = (pair[1].voltage - pair[0].voltage + 8).rem_euclid(16);
            counts[usize::try_from(step).unwrap()] += 1;
        }
        let entropy: f64 =
            counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / 19_999.0).map(|p| -p * p.log2()).sum();
        assert!(entropy > 3.9, "{entropy} of 4 bits");
    }
}
