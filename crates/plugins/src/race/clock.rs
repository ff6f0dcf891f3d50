//! What a wave knows of the accesses of others: for each wave, up to which of its accesses they are ordered before
//! what comes next.

use std::collections::HashMap;

/// Kinds of accesses, which become known at different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Loads from LDS.
    LdsLoad,
    /// Stores and atomics of LDS.
    LdsStore,
    /// Copies from memory to LDS, which complete by a counter of their own.
    LdsCopy,
    /// Loads from memory.
    Load,
    /// Stores and atomics of memory.
    Store,
}

impl Kind {
    /// The kind of an access.
    pub fn of(global: bool, write: bool, copy: bool) -> Kind {
        match (global, write) {
            (false, false) => Kind::LdsLoad,
            (false, true) if copy => Kind::LdsCopy,
            (false, true) => Kind::LdsStore,
            (true, false) => Kind::Load,
            (true, true) => Kind::Store,
        }
    }
}

/// Up to which access of a wave, by its epoch, each kind is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock(pub [u32; 5]);

impl Clock {
    /// The time of a wave's first access; before it, nothing is known.
    pub const FIRST: u32 = 1;

    /// Takes the later of both.
    pub fn join(&mut self, other: Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// Clocks of all waves that anything is known of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks(HashMap<u32, Clock>);

impl Clocks {
    /// Up to which access of a kind a wave is known.
    pub fn get(&self, wave: u32, kind: Kind) -> u32 {
        self.0.get(&wave).map_or(0, |clock| clock.0[kind as usize])
    }

    /// Knows as much of a wave as `clock` says.
    pub fn know(&mut self, wave: u32, clock: Clock) {
        self.0.entry(wave).or_default().join(clock);
    }

    /// Takes over what `other` knows.
    pub fn join(&mut self, other: &Clocks) {
        for (&wave, &clock) in &other.0 {
            self.know(wave, clock);
        }
    }

    /// Takes over what `other` knows of LDS.
    pub fn join_lds(&mut self, other: &Clocks) {
        for (&wave, clock) in &other.0 {
            let [load, store, copy, ..] = clock.0;
            self.know(wave, Clock([load, store, copy, 0, 0]));
        }
    }

    /// As much of the stores to memory as `limit` knows; the rest as here.
    pub fn with_stores_of(&self, limit: &Clocks) -> Clocks {
        let cut = |(&wave, clock): (&u32, &Clock)| {
            let mut clock = *clock;
            let store = Kind::Store as usize;
            clock.0[store] = clock.0[store].min(limit.get(wave, Kind::Store));
            (wave, clock)
        };
        Clocks(self.0.iter().map(cut).collect())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_takes_the_later_of_each_kind() {
        let mut a = Clocks::default();
        a.know(1, Clock([5, 1, 0, 0, 0]));
        let mut b = Clocks::default();
        b.know(1, Clock([2, 7, 0, 0, 9]));
        b.know(2, Clock([1, 1, 1, 1, 1]));
        a.join(&b);
        assert_eq!((a.get(1, Kind::LdsLoad), a.get(1, Kind::LdsStore)), (5, 7));
        assert_eq!((a.get(1, Kind::Store), a.get(2, Kind::Load)), (9, 1));
        let cut = b.with_stores_of(&Clocks::default());
        assert_eq!(
            (cut.get(1, Kind::Store), cut.get(1, Kind::LdsStore)),
            (0, 7)
        );
    }
}
