//! Which matrix instructions may be under way together: a scoreboard of vector registers, and the windows of
//! instructions that it lets pass.

/// Vector registers that it knows: AccVGPRs and the banks of `s_set_vgpr_msb` included.
const REGISTERS: usize = 1024;

/// A set of vector registers, by their numbers in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set([u64; REGISTERS / 64]);

impl Set {
    /// Puts `count` registers from `first` on into it. False if one of them is beyond the last that there can be.
    #[must_use]
    pub fn insert(&mut self, first: u32, count: u32) -> bool {
        let Some(end) = first.checked_add(count) else {
            return false;
        };
        for register in first..end {
            let Some(word) = self.0.get_mut(register as usize / 64) else {
                return false;
            };
            *word |= 1 << (register % 64);
        }
        true
    }

    /// Whether a register is in both.
    pub fn meets(&self, other: &Set) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    fn join(&mut self, other: &Set) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
}

/// How an instruction meets matrix instructions that are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It may be under way itself.
    Matrix,
    /// It executes beside them, if their registers allow that.
    Passes,
    /// They have to be done before: control flow, barriers, changes of EXEC or MODE, registers that an index finds.
    Drains,
}

/// What the scoreboard asks of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Touched {
    /// How it meets others.
    pub kind: Kind,
    /// Vector registers that it reads.
    pub reads: Set,
    /// Those that it writes.
    pub writes: Set,
}

/// Why an instruction has to wait for those under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hazard {
    /// It reads what one of them writes.
    ReadAfterWrite,
    /// It writes what one of them reads.
    WriteAfterRead,
    /// It writes what one of them writes.
    WriteAfterWrite,
    /// [`Kind::Drains`].
    Drain,
}

/// The registers of the matrix instructions under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scoreboard {
    reads: Set,
    writes: Set,
}

impl Scoreboard {
    /// What keeps an instruction from executing now.
    pub fn hazard(&self, next: &Touched) -> Option<Hazard> {
        if next.kind == Kind::Drains {
            Some(Hazard::Drain)
        } else if next.reads.meets(&self.writes) {
            Some(Hazard::ReadAfterWrite)
        } else if next.writes.meets(&self.writes) {
            Some(Hazard::WriteAfterWrite)
        } else if next.writes.meets(&self.reads) {
            Some(Hazard::WriteAfterRead)
        } else {
            None
        }
    }

    /// Takes note of a matrix instruction that is under way from now on.
    pub fn issue(&mut self, matrix: &Touched) {
        self.reads.join(&matrix.reads);
        self.writes.join(&matrix.writes);
    }
}

/// The windows of a straight run of instructions: of each the numbers of its matrix instructions, two at least and `most`
/// at most. From the first to the last of them nothing meets a hazard, so that all but the last may be under way until that
/// has executed.
pub fn windows(run: &[Touched], most: usize) -> Vec<Vec<usize>> {
    let mut windows = Vec::new();
    let mut board = Scoreboard::default();
    let mut window = Vec::new();
    for (at, next) in run.iter().enumerate() {
        if window.len() == most || board.hazard(next).is_some() {
            windows.push(std::mem::take(&mut window));
            board = Scoreboard::default();
        }
        if next.kind == Kind::Matrix {
            window.push(at);
            board.issue(next);
        }
    }
    windows.push(window);
    windows.retain(|window| window.len() > 1);
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(registers: &[u32]) -> Set {
        let mut set = Set::default();
        assert!(registers.iter().all(|&r| set.insert(r, 1)));
        set
    }

    fn touched(kind: Kind, reads: &[u32], writes: &[u32]) -> Touched {
        Touched {
            kind,
            reads: set(reads),
            writes: set(writes),
        }
    }

    fn matrix(reads: &[u32], writes: &[u32]) -> Touched {
        touched(Kind::Matrix, reads, writes)
    }

    /// A window of two products, with an instruction in between or not.
    fn joins(between: Touched, second: Touched) -> bool {
        let first = matrix(&[0, 1, 8], &[8]);
        let found = windows(&[first, between, second], 16);
        assert!(found.is_empty() || found == [vec![0, 2]], "{found:?}");
        !found.is_empty()
    }

    #[test]
    fn each_hazard_ends_a_window() {
        let other = matrix(&[2, 3, 9], &[9]);
        let passes = |reads: &[u32], writes: &[u32]| touched(Kind::Passes, reads, writes);
        assert!(joins(passes(&[4, 0], &[5]), other), "nothing in common");
        assert!(!joins(passes(&[8], &[5]), other), "read after write");
        assert!(!joins(passes(&[4], &[1]), other), "write after read");
        assert!(!joins(touched(Kind::Drains, &[], &[]), other), "drain");
        let nothing = passes(&[], &[]);
        assert!(joins(nothing, matrix(&[0, 1, 9], &[9])), "shared sources");
        assert!(
            !joins(nothing, matrix(&[8, 1, 9], &[9])),
            "read after write"
        );
        assert!(
            !joins(nothing, matrix(&[2, 3, 9], &[0])),
            "write after read"
        );
        // Of products that do not read what they write.
        let first = matrix(&[0, 1], &[8]);
        for second in [passes(&[4], &[8]), matrix(&[2, 3], &[8])] {
            let found = windows(&[first, second, other], 16);
            assert!(!found.contains(&vec![0, 1]) && !found.contains(&vec![0, 2]));
        }
    }

    #[test]
    fn hazards_are_of_all_that_are_under_way() {
        let run = [
            matrix(&[0, 8], &[8]),
            matrix(&[1, 9], &[9]),
            matrix(&[2, 10], &[10]),
            // Reads what the first one writes: a new window begins with it.
            matrix(&[0, 8], &[8]),
            touched(Kind::Passes, &[20], &[21]),
            matrix(&[1, 9], &[9]),
            touched(Kind::Passes, &[9], &[22]),
            matrix(&[2, 10], &[10]),
            touched(Kind::Drains, &[], &[]),
            matrix(&[3, 11], &[11]),
        ];
        assert_eq!(windows(&run, 16), [vec![0, 1, 2], vec![3, 5]]);
        assert_eq!(windows(&run, 2), [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn registers_beyond_the_last_are_told() {
        let mut set = Set::default();
        assert!(set.insert(1020, 4));
        assert!(!set.insert(1021, 4));
        assert!(!set.insert(u32::MAX, 2));
    }
}
