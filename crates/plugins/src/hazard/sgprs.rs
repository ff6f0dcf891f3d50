//! SGPRs whose new value vector arithmetic may miss, for it has read the old one: gfx11's lane masks in wave64, and
//! any SGPR on gfx12. Compilers wait with `s_waitcnt_depctr` or `s_wait_alu`; no manual tells of it. Sources: LLVM's
//! hazard recognizer and its pass for SGPR hazards, Mesa's ACO; where they differ, what both ask for.

use foldhash::HashMap;
use std::sync::Arc;

use rocjitsu_isa::{Name, Op, Operand, Target};

use super::class::{Class, Role, Span};
use super::states::{Facts, depctr};

/// SGPRs 0 to 105 and VCC, a bit each.
type Sgprs = u128;

const VCC: Sgprs = 3 << 106;

/// Scalar instructions after which what one has written can be read.
const SETTLED: u64 = 10;

/// Which hazard a wave's target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// gfx11, wave64: SGPRs read as lane masks.
    Masks,
    /// gfx12: pairs of SGPRs read at all.
    Pairs,
}

impl Kind {
    /// What there is for waves of `lanes` lanes.
    pub fn of(target: Target, lanes: u32) -> Option<Kind> {
        match target {
            Target::Gfx1100 | Target::Gfx1151 if lanes == 64 => Some(Kind::Masks),
            Target::Gfx1201 => Some(Kind::Pairs),
            _ => None,
        }
    }
}

/// The state of a wave.
#[derive(Default)]
pub struct Stale {
    /// SGPRs that vector arithmetic has read.
    read: Sgprs,
    /// Those written since by scalar, and by vector instructions.
    by_scalar: Sgprs,
    by_vector: Sgprs,
    /// Who wrote them, and at which count of scalar instructions.
    writers: HashMap<u32, (Arc<Facts>, u64)>,
    scalars: u64,
    ds_nops: u32,
}

/// A read of an SGPR that may give the old value.
pub struct Old {
    /// The instruction that wrote it.
    pub first: Arc<Facts>,
    /// The SGPR.
    pub register: u16,
    /// What has to be waited for.
    pub mend: &'static str,
}

fn set(spans: &[Span]) -> Sgprs {
    let below = spans.iter().filter(|s| s.first < 108);
    below.fold(0, |all, s| all | ((1 << s.count) - 1) << s.first)
}

/// The SGPRs that an instruction takes as a mask or carry of its lanes.
fn masks(facts: &Facts) -> Sgprs {
    let inst = &facts.instruction.inst;
    let name = inst.op().name();
    let takes = [
        "v_cndmask",
        "v_add_co_ci",
        "v_sub_co_ci",
        "v_subrev_co_ci",
        "v_div_fmas",
    ];
    if !takes.iter().any(|t| name.starts_with(t)) {
        return 0;
    }
    match inst.operand(Name::src2) {
        Some(Operand::Sgpr(s)) if s < 107 && !name.starts_with("v_div_fmas") => 3 << s,
        _ => set(facts.spans(Role::ScalarRead)) & VCC,
    }
}

impl Stale {
    /// Notes an instruction and tells of the first register that it reads too early.
    pub fn step(&mut self, kind: Kind, facts: &Arc<Facts>, lanes: u32) -> Option<Old> {
        let inst = &facts.instruction.inst;
        if let Some(field) = depctr(inst) {
            self.wait(kind, field);
            return None;
        }
        self.ds_nops = if inst.op() == Op::ds_nop {
            self.ds_nops + 1
        } else {
            0
        };
        if kind == Kind::Pairs {
            if self.ds_nops >= if lanes == 64 { 8 } else { 4 } {
                self.read = 0;
            }
            if facts.classes.any(Class::VMEM.or(Class::SMEM)) {
                (self.by_scalar, self.by_vector) = (0, 0);
                return None;
            }
        }
        let vector = facts.classes.any(Class::VALU);
        if !vector && !facts.classes.any(Class::SALU) {
            return None;
        }
        let reads = set(facts.spans(Role::ScalarRead));
        let writes = set(facts.spans(Role::ScalarWritten));
        let old = self.too_early(kind, vector, reads);
        if old.is_some() {
            // Told once.
            (self.by_scalar, self.by_vector) = (0, 0);
        }
        if !vector {
            self.scalars += u64::from(facts.instruction.family == rocjitsu_observe::Family::Scalar);
        }
        match kind {
            Kind::Pairs if vector => {
                let even = Sgprs::MAX / 3;
                let pairs = (reads | reads >> 1) & even;
                self.read |= pairs | pairs << 1;
            }
            // Reading any other SGPR makes room for the new value.
            Kind::Masks
                if vector && (!facts.spans(Role::Constant).is_empty() || masks(facts) != 0) =>
            {
                self.read = 0;
            }
            _ => {}
        }
        // Before a call everything is waited for, and the return address is as good as anything behind it.
        if matches!(inst.op(), Op::s_swappc_b64 | Op::s_call_b64) {
            (self.by_scalar, self.by_vector) = (0, 0);
            return old;
        }
        let stale = writes & self.read;
        let list = if vector {
            &mut self.by_vector
        } else {
            &mut self.by_scalar
        };
        *list |= stale;
        if stale & VCC != 0 {
            // The last writer of VCC counts.
            let other = if vector {
                &mut self.by_scalar
            } else {
                &mut self.by_vector
            };
            *other &= !VCC;
        }
        for register in (0..108).filter(|r| stale >> r & 1 != 0) {
            self.writers.insert(register, (facts.clone(), self.scalars));
        }
        if kind == Kind::Masks && vector {
            self.read |= masks(facts);
        }
        old
    }

    fn too_early(&mut self, kind: Kind, vector: bool, reads: Sgprs) -> Option<Old> {
        let tracked = reads & self.read;
        if !vector {
            // A scalar instruction that reads an SGPR waits for what vector ones have written.
            if tracked & VCC != 0 {
                self.by_vector &= !VCC;
            }
            if tracked & !VCC != 0 {
                self.by_vector &= VCC;
            }
        }
        let scalars = self.scalars;
        let settled = |register: u32| {
            let writer = self.writers.get(&register);
            kind == Kind::Pairs && writer.is_none_or(|(_, then)| scalars - then >= SETTLED)
        };
        let by_scalar = reads & self.by_scalar;
        let by_vector = if vector { reads & self.by_vector } else { 0 };
        let register = (0..108)
            .find(|&r| by_vector >> r & 1 != 0 || by_scalar >> r & 1 != 0 && !settled(r))?;
        let (first, _) = self.writers.get(&register)?;
        let mend = match (by_vector >> register & 1 != 0, VCC >> register & 1 != 0) {
            (true, true) => "va_vcc(0)",
            (true, false) => "va_sdst(0)",
            (false, _) => "sa_sdst(0)",
        };
        Some(Old {
            first: first.clone(),
            register: register as u16,
            mend,
        })
    }

    fn wait(&mut self, kind: Kind, field: u32) {
        if field & 1 == 0 {
            self.by_scalar = 0;
        }
        if field >> 9 & 7 == 0 {
            self.by_vector &= VCC;
        }
        if field >> 1 & 1 == 0 {
            self.by_vector &= !VCC;
        }
        if kind == Kind::Masks && field >> 12 & 15 == 0 {
            self.by_vector = 0;
        }
    }
}
