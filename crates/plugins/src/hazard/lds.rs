//! Bytes of LDS that copies past the registers write or read (`*_load_lds`, and on gfx1250 asynchronous and tensor
//! copies). Until a wait of the wave that has issued it tells that a copy is complete, nobody may use what it writes or
//! overwrite what it reads, whatever barriers lie between.

use foldhash::HashMap;

use rocjitsu_observe::{Access, AccessKind, Space, Wave};

/// A copy: the wave that has issued it, and its number among the wave's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The wave's number in its workgroup.
    pub wave: u32,
    /// The operation's number in the wave.
    pub number: u64,
}

/// An access of bytes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The copy.
    pub copy: Issued,
    /// The first byte that both touch.
    pub address: u64,
    /// Whether the access writes.
    pub writes: bool,
}

/// Copies of a workgroup.
#[derive(Default)]
struct Group {
    copies: Vec<Issued>,
    /// For each byte the copy that writes it, by its place in `copies` plus one; 0 for none.
    written: Vec<u32>,
    /// The same for copies that read it.
    read: Vec<u32>,
    /// By wave, how many of its operations an arrival at a barrier in LDS tells of: whoever waits for that needs no
    /// counter.
    arrived: HashMap<u32, u64>,
}

/// The copies of all workgroups that have any, by dispatch and workgroup.
#[derive(Default)]
pub struct Copies(HashMap<(u64, u64), Group>);

fn mark(bytes: &mut Vec<u32>, access: &Access, copy: u32) {
    let (start, end) = (
        access.address as usize,
        access.address as usize + access.bytes as usize,
    );
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].fill(copy);
}

impl Copies {
    /// A copy of a wave is its operation `number`. One that arrives at a barrier in LDS itself is not followed.
    pub fn copy(&mut self, wave: &Wave, number: u64, accesses: &[Access]) {
        let mut lds = accesses.iter().filter(|a| a.space == Space::Lds);
        if lds.clone().next().is_none() || lds.any(|a| a.kind == AccessKind::Atomic) {
            return;
        }
        let group = self.0.entry((wave.dispatch, wave.group)).or_default();
        group.copies.push(Issued {
            wave: wave.index,
            number,
        });
        let copy = group.copies.len() as u32;
        for access in accesses.iter().filter(|a| a.space == Space::Lds) {
            match access.kind {
                AccessKind::Load => mark(&mut group.read, access, copy),
                _ => mark(&mut group.written, access, copy),
            }
        }
    }

    /// A wave arrives at a barrier in LDS when its copies so far are complete; `number`: its latest operation.
    pub fn arrives(&mut self, wave: &Wave, number: u64) {
        if let Some(group) = self.0.get_mut(&(wave.dispatch, wave.group)) {
            group.arrived.insert(wave.index, number);
        }
    }

    /// Copies whose bytes an instruction of a wave accesses, whether they are complete or not; each once.
    pub fn met(&self, wave: &Wave, accesses: &[Access]) -> Vec<Meeting> {
        let Some(group) = self.0.get(&(wave.dispatch, wave.group)) else {
            return Vec::new();
        };
        let mut met: Vec<Meeting> = Vec::new();
        for access in accesses.iter().filter(|a| a.space == Space::Lds) {
            let writes = access.kind != AccessKind::Load;
            for address in access.address..access.address + u64::from(access.bytes) {
                let of = |bytes: &[u32]| bytes.get(address as usize).copied().unwrap_or(0);
                let read = if writes { of(&group.read) } else { 0 };
                for copy in [of(&group.written), read] {
                    let Some(&copy) = (copy as usize)
                        .checked_sub(1)
                        .and_then(|i| group.copies.get(i))
                    else {
                        continue;
                    };
                    let known = group
                        .arrived
                        .get(&copy.wave)
                        .is_some_and(|&n| copy.number <= n);
                    if !known && !met.iter().any(|m| m.copy == copy) {
                        met.push(Meeting {
                            copy,
                            address,
                            writes,
                        });
                    }
                }
            }
        }
        met
    }

    /// A workgroup has ended.
    pub fn end(&mut self, dispatch: u64, group: u64) {
        self.0.remove(&(dispatch, group));
    }

    /// A dispatch has ended.
    pub fn end_dispatch(&mut self, dispatch: u64) {
        self.0.retain(|(of, _), _| *of != dispatch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_observe::Scope;

    fn wave(index: u32) -> Wave {
        Wave {
            dispatch: 1,
            workgroup: [0; 3],
            group: 0,
            index,
            lanes: 32,
        }
    }

    fn lds(kind: AccessKind, address: u64, bytes: u32) -> Access {
        Access {
            space: Space::Lds,
            kind,
            lane: 0,
            address,
            bytes,
            scope: Scope::Wave,
        }
    }

    #[test]
    fn bytes_of_copies_are_met_by_what_conflicts_with_them() {
        let mut copies = Copies::default();
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        copies.copy(&wave(0), 3, &[lds(store, 16, 8)]);
        copies.copy(&wave(1), 7, &[lds(load, 32, 4)]);
        let met = |copies: &Copies, kind, address| {
            let met = copies.met(&wave(2), &[lds(kind, address, 4)]);
            met.first().map(|m| (m.copy.wave, m.copy.number, m.address))
        };
        assert_eq!(met(&copies, load, 20), Some((0, 3, 20)));
        assert_eq!(met(&copies, store, 13), Some((0, 3, 16)));
        assert_eq!(met(&copies, load, 24), None);
        // What a copy reads may be read.
        assert_eq!(met(&copies, load, 32), None);
        assert_eq!(met(&copies, store, 35), Some((1, 7, 35)));
        // An arrival tells of the copies before it.
        copies.arrives(&wave(0), 3);
        assert_eq!(met(&copies, load, 20), None);
        copies.copy(&wave(0), 4, &[lds(store, 16, 8)]);
        assert_eq!(met(&copies, load, 20), Some((0, 4, 20)));
        // One that arrives by itself.
        copies.copy(
            &wave(0),
            5,
            &[lds(store, 16, 8), lds(AccessKind::Atomic, 64, 8)],
        );
        assert_eq!(met(&copies, store, 64), None);
        copies.end(1, 0);
        assert_eq!(met(&copies, load, 20), None);
    }
}
