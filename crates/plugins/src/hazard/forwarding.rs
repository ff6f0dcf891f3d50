//! gfx11 in wave64: vector arithmetic that reads two VGPRs, one written before a scalar instruction changed EXEC and one
//! after it, shortly behind both, may get a mixture. No manual tells of it; LLVM's hazard recognizer and Mesa's ACO
//! wait with `s_waitcnt_depctr depctr_va_vdst(0)`.

use foldhash::HashMap;
use std::sync::Arc;

use rocjitsu_isa::RegFile;

use super::class::{Class, Role};
use super::states::{Facts, depctr};

/// Vector instructions between the two writes, and between the later one and the read, that are too few.
const BETWEEN_WRITES: u64 = 2;
const BEFORE_READ: u64 = 4;

/// The state of a wave.
#[derive(Default)]
pub struct Forwarding {
    /// Vector instructions so far.
    vector: u64,
    /// The count at the last change of EXEC.
    exec: u64,
    /// Who wrote a VGPR last, at which count, at most as long ago as matters.
    written: HashMap<u16, (Arc<Facts>, u64)>,
}

impl Forwarding {
    /// Notes an instruction, and tells of a VGPR that it reads too early, by the later of the two writes.
    pub fn step(&mut self, facts: &Arc<Facts>) -> Option<(Arc<Facts>, u16)> {
        let inst = &facts.instruction.inst;
        let done = depctr(inst).is_some_and(|field| field >> 12 & 15 == 0);
        if done || facts.classes.any(Class::MEMORY) {
            self.written.clear();
            return None;
        }
        if !facts.classes.any(Class::VALU) {
            if facts.classes.any(Class::SALU)
                && facts
                    .spans(Role::ScalarWritten)
                    .iter()
                    .any(|s| s.first >= 126)
            {
                self.exec = self.vector;
            }
            return None;
        }
        let found = self.too_early(facts);
        let oldest = self.vector.saturating_sub(BETWEEN_WRITES + BEFORE_READ + 2);
        self.written.retain(|_, (_, then)| *then >= oldest);
        let vgprs = facts.spans(Role::Written).iter();
        for span in vgprs.filter(|s| s.file == Some(RegFile::Vgpr)) {
            for register in span.first..span.first + span.count {
                self.written.insert(register, (facts.clone(), self.vector));
            }
        }
        self.vector += 1;
        found
    }

    fn too_early(&self, facts: &Facts) -> Option<(Arc<Facts>, u16)> {
        if self.written.is_empty() {
            return None;
        }
        let registers = facts
            .spans(Role::Read)
            .iter()
            .flat_map(|s| s.first..s.first + s.count);
        let known: Vec<_> = registers
            .filter_map(|r| self.written.get(&r).map(|(who, then)| (r, who, *then)))
            .collect();
        // Instruction numbers start at 0: one that was number n was issued when the count was n.
        let after = known
            .iter()
            .filter(|(_, _, then)| *then >= self.exec)
            .max_by_key(|k| k.2)?;
        let before = known
            .iter()
            .filter(|(_, _, then)| *then < self.exec)
            .map(|k| k.2)
            .max()?;
        let close =
            self.vector - after.2 - 1 <= BEFORE_READ && after.2 - before - 1 <= BETWEEN_WRITES;
        close.then(|| (after.1.clone(), after.0))
    }
}
