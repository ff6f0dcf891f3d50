//! What a wave knows of the accesses of others: for each wave, up to which of its accesses they are ordered before
//! what comes next.

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

/// Clocks of all waves that anything is known of, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks(Vec<(u32, Clock)>);

impl Clocks {
    fn find(&self, wave: u32) -> Result<usize, usize> {
        // Waves of one workgroup follow each other.
        match self.0.first() {
            Some(&(first, _)) => {
                let guess = wave.wrapping_sub(first) as usize;
                match self.0.get(guess) {
                    Some(&(there, _)) if there == wave => Ok(guess),
                    _ => self.0.binary_search_by_key(&wave, |&(known, _)| known),
                }
            }
            None => Err(0),
        }
    }

    /// Up to which access of a kind a wave is known.
    pub fn get(&self, wave: u32, kind: Kind) -> u32 {
        let found = self.find(wave).ok().and_then(|at| self.0.get(at));
        found.map_or(0, |(_, clock)| clock.0[kind as usize])
    }

    /// Knows as much of a wave as `clock` says.
    pub fn know(&mut self, wave: u32, clock: Clock) {
        match self.find(wave) {
            Ok(at) => self.0[at].1.join(clock),
            Err(at) => self.0.insert(at, (wave, clock)),
        }
    }

    /// Takes over what `other` knows.
    pub fn join(&mut self, other: &Clocks) {
        self.join_as(other, |clock| clock);
    }

    /// Takes over what `other` knows of LDS.
    pub fn join_lds(&mut self, other: &Clocks) {
        self.join_as(other, |Clock([load, store, copy, ..])| {
            Clock([load, store, copy, 0, 0])
        });
    }

    /// Takes over a part of what `other` knows.
    fn join_as(&mut self, other: &Clocks, part: impl Fn(Clock) -> Clock) {
        let known = other.0.iter().all(|&(wave, _)| self.find(wave).is_ok());
        if known {
            other
                .0
                .iter()
                .for_each(|&(wave, clock)| self.know(wave, part(clock)));
            return;
        }
        let mut mine = std::mem::take(&mut self.0).into_iter().peekable();
        for &(wave, clock) in &other.0 {
            while let Some(earlier) = mine.next_if(|&(known, _)| known < wave) {
                self.0.push(earlier);
            }
            let mut joined = part(clock);
            if let Some((_, same)) = mine.next_if(|&(known, _)| known == wave) {
                joined.join(same);
            }
            self.0.push((wave, joined));
        }
        self.0.extend(mine);
    }

    /// As much of the stores to memory as `limit` knows; the rest as here.
    pub fn with_stores_of(&self, limit: &Clocks) -> Clocks {
        let cut = |&(wave, clock): &(u32, Clock)| {
            let mut clock = clock;
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

    #[test]
    fn waves_are_found_whatever_the_order_they_come_in() {
        let mut clocks = Clocks::default();
        let time = |n| Clock([n; 5]);
        for wave in [7, 3, 9, 4, 100, 0, 8] {
            clocks.know(wave, time(wave + 1));
        }
        let mut other = Clocks::default();
        for wave in [5, 3, 200, 8, 1] {
            other.know(wave, time(50));
        }
        clocks.join(&other);
        let known: Vec<u32> = clocks.0.iter().map(|&(wave, _)| wave).collect();
        assert_eq!(known, [0, 1, 3, 4, 5, 7, 8, 9, 100, 200]);
        for (wave, then) in [
            (0, 1),
            (1, 50),
            (3, 50),
            (4, 5),
            (5, 50),
            (7, 8),
            (8, 50),
            (100, 101),
            (2, 0),
            (300, 0),
        ] {
            assert_eq!(clocks.get(wave, Kind::Load), then, "{wave}");
        }
        let mut lds = Clocks::default();
        lds.join_lds(&clocks);
        assert_eq!(
            (lds.get(4, Kind::LdsStore), lds.get(4, Kind::Store)),
            (5, 0)
        );
    }
}
