//! Which words of the scalar file general registers hold copies of.

use super::super::general::Reg;

/// The registers that hold copies, from [`Reg::DI`] on.
const COUNT: usize = Reg::COUNT as usize - FIRST;
const FIRST: usize = 2;

/// Copies of words and pairs. The file itself is always up to date.
#[derive(Default)]
pub struct Held {
    /// The word, and whether it is the low one of a pair that is held whole.
    words: [Option<(usize, bool)>; COUNT],
    /// When each register was used last.
    used: [u32; COUNT],
    time: u32,
    /// Registers that were used before this time can be taken.
    begun: u32,
}

impl Held {
    /// Begins an instruction: registers that earlier ones have used can be taken.
    pub fn begin(&mut self) {
        self.begun = self.time;
    }

    /// No register holds anything.
    pub fn forget(&mut self) {
        self.words = [None; COUNT];
    }

    /// The register that holds a word, or a whole pair.
    pub fn find(&mut self, word: usize, wide: bool) -> Option<Reg> {
        let at = self
            .words
            .iter()
            .position(|&held| held == Some((word, wide)))?;
        Some(self.touch(at))
    }

    /// A register that the present instruction does not use yet. One instruction asks for a few only.
    pub fn fresh(&mut self) -> Reg {
        let free = |&at: &usize| {
            (
                self.used[at] > self.begun,
                self.words[at].is_some(),
                self.used[at],
            )
        };
        let at = (0..COUNT).min_by_key(free).unwrap_or_default();
        self.words[at] = None;
        self.touch(at)
    }

    /// A register holds a copy of what is in the file.
    pub fn note(&mut self, reg: Reg, word: usize, wide: bool) {
        if let Some(held) = self.words.get_mut(usize::from(reg.0).wrapping_sub(FIRST)) {
            *held = Some((word, wide));
        }
    }

    /// What `reg` holds was written to the file: no other copy of these words is good.
    pub fn write(&mut self, reg: Reg, word: usize, wide: bool) {
        let last = word + usize::from(wide);
        for held in &mut self.words {
            if held.is_some_and(|(n, pair)| n <= last && word <= n + usize::from(pair)) {
                *held = None;
            }
        }
        self.note(reg, word, wide);
    }

    fn touch(&mut self, at: usize) -> Reg {
        self.time += 1;
        self.used[at] = self.time;
        Reg((at + FIRST) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_all_copies_of_its_words() {
        let mut held = Held::default();
        let registers: Vec<Reg> = (0..4).map(|_| held.fresh()).collect();
        held.note(registers[0], 4, true);
        held.note(registers[1], 5, false);
        held.note(registers[2], 6, false);
        held.write(registers[3], 5, false);
        assert_eq!(held.find(4, true), None);
        assert_eq!(held.find(5, false), Some(registers[3]));
        assert_eq!(held.find(6, false), Some(registers[2]));
        held.write(registers[0], 6, true);
        assert_eq!(held.find(6, false), None);
        assert_eq!(held.find(6, true), Some(registers[0]));
    }

    #[test]
    fn an_instruction_takes_no_register_twice() {
        let mut held = Held::default();
        for _ in 0..100 {
            held.begin();
            let mut taken: Vec<u8> = (0..COUNT).map(|_| held.fresh().0).collect();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), COUNT);
        }
    }
}
