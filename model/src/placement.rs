//! Which vgroup of a database holds a table.

/// Slot in `0..vgroups` of the table called `name`: FNV-1a (64 bit) of the name's bytes, folded to 32 bits, modulo the
/// number of vgroups. Part of the stored format: a table is found again only while this stays as it is.
///
/// `None` where there are no vgroups.
#[must_use]
pub fn vgroup_slot(name: &str, vgroups: usize) -> Option<usize> {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    let slot = folded.checked_rem(u64::try_from(vgroups).ok()?)?;
    usize::try_from(slot).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_is_part_of_the_format() {
        let slots: Vec<_> =
            ["d0", "d1", "d2", "d3", "meter_17", ""].iter().map(|n| vgroup_slot(n, 4)).collect();
        assert_eq!(
            slots,
            [Some(2), Some(1), Some(0), Some(3), Some(0), Some(1)],
            "stored tables would be lost"
        );
        assert_eq!(vgroup_slot("d0", 0), None);
    }

    #[test]
    fn tables_spread_evenly() {
        let mut counts = [0_u32; 7];
        for n in 0..70_000 {
            counts[vgroup_slot(&format!("d{n}"), 7).unwrap()] += 1;
        }
        assert!(counts.iter().all(|&c| (9_000..11_000).contains(&c)), "{counts:?}");
    }
}
