use super::state::{Inode, State, Write};
use crate::salt::Salts;

/// The unit that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Chances of a crash, one after the other.
struct Chance(Salts);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next() % (bound.max(1) as u64)).unwrap_or(0)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

impl State {
    pub(super) fn crash(&mut self, seed: u64) {
        let mut chance = Chance(Salts::new(seed));
        self.epoch += 1;
        self.faults.clear();
        self.locked.clear();
        let keep_all = chance.one_in(4);
        for change in std::mem::take(&mut self.dir_changes) {
            if keep_all || chance.one_in(2) {
                change.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let named: std::collections::BTreeSet<_> = self.names.values().copied().collect();
        let freed: Vec<_> = self.inodes.extract_if(.., |id, _| !named.contains(id)).collect();
        for inode in self.inodes.values_mut() {
            crash_file(inode, &freed, &mut chance);
        }
    }
}

fn crash_file(inode: &mut Inode, freed: &[(u64, Inode)], chance: &mut Chance) {
    let pending = std::mem::take(&mut inode.pending);
    match chance.below(4) {
        0 => {}
        1 => pending.iter().for_each(|write| write.apply(&mut inode.durable)),
        2 => keep_until_torn(inode, pending, freed, chance),
        _ => keep_any_sectors(inode, &pending, chance),
    }
    inode.data = inode.durable.clone();
}

/// In order, up to a write that is torn at any byte. Sometimes the file has its new size already, and behind that place
/// shows what a file that is gone had there.
fn keep_until_torn(inode: &mut Inode, mut pending: Vec<Write>, freed: &[(u64, Inode)], chance: &mut Chance) {
    let size = pending.iter().map(|write| write.offset + write.bytes.len()).max().unwrap_or(0);
    pending.truncate(chance.below(pending.len() + 1));
    if let Some(last) = pending.last_mut()
        && chance.one_in(2)
    {
        let keep = chance.below(last.bytes.len() + 1);
        last.bytes.truncate(keep);
    }
    pending.iter().for_each(|write| write.apply(&mut inode.durable));
    if let Some((_, stale)) = freed.get(chance.below(2 * freed.len())) {
        let from = inode.durable.len();
        inode.durable.extend(stale.durable.get(from..size.min(stale.durable.len())).unwrap_or_default());
    }
}

/// In any order: some writes whole, some not at all, some in part.
fn keep_any_sectors(inode: &mut Inode, pending: &[Write], chance: &mut Chance) {
    for write in pending {
        match chance.below(3) {
            0 => {}
            1 => write.apply(&mut inode.durable),
            _ => sectors(write).filter(|_| chance.one_in(2)).for_each(|part| part.apply(&mut inode.durable)),
        }
    }
}

fn sectors(write: &Write) -> impl Iterator<Item = Write> + '_ {
    let mut done = 0;
    std::iter::from_fn(move || {
        let offset = write.offset + done;
        let len = ((offset / SECTOR + 1) * SECTOR - offset).min(write.bytes.len() - done);
        let bytes = write.bytes.get(done..done + len).filter(|bytes| !bytes.is_empty())?;
        done += len;
        Some(Write { offset, bytes: bytes.to_vec() })
    })
}
