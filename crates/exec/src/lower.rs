//! From a decoded instruction to the record that executes: each family resolves its own.

use rocjitsu_isa::{Format, Inst, Name, Operand as Coded, RegFile, RegRange, Special, Target};
use rocjitsu_lanes::Backend;

use crate::error::{Cause, Fault};
use crate::record::{Class, Flow, Operand, Record};
use crate::refusal;
use crate::target::TargetFacts;
use crate::wave::{Cx, INDEXING, VGPRS, Wave, mode, scalar, vgpr_unit};

/// State of a wave that decides how code is lowered. Part of a block's key, so that records need not
/// ask for it again.
///
/// Bits 7:0 MODE.FP_ROUND and FP_DENORM; 8 DX10_CLAMP; 9 IEEE; 10 FP16_OVFL; 11 wave of 64;
/// 15:12 operands of VGPR indexing mode (gfx9); 23:16 VGPR bank bits (gfx1250); 24 VGPR indexing mode is on;
/// 25 vector instructions are skipped (gfx9); 31:26 VGPRs of the wave ([`Wave::set_vgprs`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(pub u32);

impl State {
    /// The state of a wave.
    pub fn of(wave: &Wave) -> State {
        let m = wave.mode;
        let indexing = wave.decode_state & INDEXING != 0;
        let operands = if indexing {
            wave.s[scalar::M0] >> 12 & 0xf
        } else {
            0
        };
        State(
            m & 0x3ff
                | u32::from(m & mode::FP16_OVFL != 0) << 10
                | u32::from(wave.lanes == 64) << 11
                | operands << 12
                | (wave.decode_state & 0x3ff) << 16
                | wave.decode_state & VGPRS,
        )
    }
    /// Lanes of the wave.
    pub fn lanes(self) -> u32 {
        if self.0 >> 11 & 1 != 0 { 64 } else { 32 }
    }
    /// MODE.FP_ROUND (bits 3:0) and FP_DENORM (bits 7:4).
    pub fn float_mode(self) -> u32 {
        self.0 & 0xff
    }
    /// MODE.DX10_CLAMP.
    pub fn dx10_clamp(self) -> bool {
        self.0 & mode::DX10_CLAMP != 0
    }
    /// MODE.IEEE.
    pub fn ieee(self) -> bool {
        self.0 & mode::IEEE != 0
    }
    /// MODE.FP16_OVFL.
    pub fn fp16_ovfl(self) -> bool {
        self.0 >> 10 & 1 != 0
    }
    /// Operands that VGPR indexing mode applies to (`s_set_gpr_idx_on`): bit 0 src0, 1 src1, 2 src2, 3 dst.
    pub fn indexed(self) -> u32 {
        self.0 >> 12 & 0xf
    }
    /// Whether VGPR indexing mode is on: then a write to M0 may change what is decoded.
    pub fn indexing(self) -> bool {
        self.0 >> 24 & 1 != 0
    }
    /// Whether vector instructions are skipped.
    pub fn skips_vectors(self) -> bool {
        self.0 >> 25 & 1 != 0
    }
    /// VGPRs of the wave, `None` if instructions cannot name more.
    pub fn vgprs(self, target: Target) -> Option<u32> {
        match self.0 >> 26 {
            0 => None,
            units => Some(units * vgpr_unit(target)),
        }
    }
    /// VGPR banks of `s_set_vgpr_msb`: bits 1:0 src0, 3:2 src1, 5:4 src2, 7:6 dst.
    pub fn banks(self) -> u32 {
        self.0 >> 16 & 0xff
    }
}

/// What lowering needs to know besides the instruction.
pub struct Lowering {
    /// Target of the code.
    pub target: Target,
    /// Back end that will execute it.
    pub backend: Backend,
    /// Matrix products are plain chains of FMAs, not the hardware's bits.
    pub fast_matrix: bool,
    /// State of the wave at this point of the block; `s_set_vgpr_msb` changes it as the block goes on.
    pub state: State,
}

impl Lowering {
    /// Lowering at the start of a block.
    pub fn new(target: Target, backend: Backend, state: State) -> Lowering {
        Lowering {
            target,
            backend,
            fast_matrix: false,
            state,
        }
    }

    /// Lanes of the wave.
    pub fn lanes(&self) -> u32 {
        self.state.lanes()
    }

    /// Resolves an operand as the instruction spells it. VGPR banks are applied by the caller
    /// ([`Lowering::banked`]), since they depend on the operand's role.
    pub fn resolve(&self, operand: Coded) -> Operand {
        match operand {
            Coded::Vgpr(r) | Coded::Vgpr16 { reg: r, .. } => Operand::Vector(r),
            Coded::Agpr(r) => Operand::Vector(r + self.target.acc_base() as u16),
            Coded::Sgpr(n) => Operand::Scalar(n),
            Coded::Const(k) | Coded::Literal(k) => Operand::Const(k),
            Coded::Imm(k) => Operand::Const(u64::from(k)),
            Coded::Special(Special::FlatScratchLo) => Operand::Scalar(scalar::FLAT_SCRATCH as u8),
            Coded::Special(Special::FlatScratchHi) => {
                Operand::Scalar(scalar::FLAT_SCRATCH as u8 + 1)
            }
            Coded::Special(Special::XnackMaskLo) => Operand::Scalar(scalar::XNACK_MASK as u8),
            Coded::Special(Special::XnackMaskHi) => Operand::Scalar(scalar::XNACK_MASK as u8 + 1),
            Coded::Special(s) => Operand::Special(s),
            Coded::Off => Operand::None,
        }
    }

    /// Resolves a source. NULL is the constant zero.
    pub fn resolve_source(&self, operand: Coded) -> Operand {
        match self.resolve(operand) {
            Operand::Scalar(n) if usize::from(n) == scalar::NULL => Operand::Const(0),
            other => other,
        }
    }

    /// The source operand of that name.
    pub fn source(&self, inst: &Inst, name: Name) -> Option<Operand> {
        Some(self.resolve_source(inst.operand(name)?))
    }

    /// A scalar destination of one or two words. NULL is a sink, and so are trap temporaries, which only
    /// trap handlers can write.
    pub fn dest(&self, inst: &Inst, name: Name) -> Option<Operand> {
        const TTMP: u8 = scalar::TTMP as u8;
        const NULL: u8 = scalar::NULL as u8;
        Some(match self.resolve(inst.operand(name)?) {
            Operand::Scalar(TTMP..=NULL) => Operand::Scalar(scalar::SINK as u8),
            other => other,
        })
    }

    /// Adds the bank bits of `s_set_vgpr_msb` to a vector operand. `role`: 0–2 sources, 3 destination.
    pub fn banked(&self, operand: Operand, role: u32) -> Operand {
        match operand {
            Operand::Vector(r) => {
                Operand::Vector(r + ((self.state.banks() >> (2 * role) & 3) << 8) as u16)
            }
            other => other,
        }
    }
}

/// The record of an instruction. One without semantics gets a record that stops the wave.
pub fn lower(inst: Inst, pc: u64, lowering: &mut Lowering) -> Record {
    if lowering.state.skips_vectors() && is_vector(inst.format()) {
        return Record::new(inst, pc, Class::Control, |_, _| Flow::Next);
    }
    if let Some(record) = beyond(&inst, pc, lowering) {
        return record;
    }
    let indexing = lowering.state.indexing();
    let mut record = crate::families::lower(&inst, pc, lowering);
    if lowering.state.banks() != 0
        && let Some(stop) = record
            .as_ref()
            .and_then(|record| beyond_bank(record, lowering))
    {
        return stop;
    }
    if let Some(record) = record.as_mut() {
        record.ends_block |= indexing && record.dst == Operand::Scalar(scalar::M0 as u8);
        crate::order::apply(record);
    }
    record.unwrap_or_else(|| {
        let mut record = Record::new(inst, pc, Class::Control, unsupported);
        record.ends_block = true;
        record
    })
}

fn unsupported(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let what = refusal::text(&record.inst);
    cx.fault(record, Cause::Unsupported { what })
}

/// What VSKIP skips: "no VOP*/M*BUF/MIMG/DS/FLAT instructions are issued" (CDNA3 manual, "S_SETVSKIP").
fn is_vector(format: Format) -> bool {
    use Format::*;
    !matches!(
        format,
        SMEM | SOP1 | SOP2 | SOP2_LIT | SOPC | SOPK | SOPK_LIT | SOPP | EXP
    )
}

/// A record that stops the wave, for an instruction that names a VGPR which the wave does not have. Registers that M0
/// or an index adds to are looked at when it executes.
fn beyond(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let vgprs = lowering.state.vgprs(lowering.target)?;
    if lowering.state.banks() != 0 {
        return None;
    }
    let effects = inst.effects(lowering.lanes());
    let named = effects.reads.iter().chain(&effects.writes);
    let highest = named
        .filter(|range| range.file == RegFile::Vgpr)
        .map(|range| u32::from(range.first) + u32::from(range.count) - 1)
        .max()?;
    (highest >= vgprs).then(|| beyond_record(inst, pc, highest, vgprs))
}

/// As [`beyond`] where banks of `s_set_vgpr_msb` are set: the record knows which of them each operand takes, the
/// instruction how many registers it has.
fn beyond_bank(record: &Record, lowering: &Lowering) -> Option<Record> {
    let vgprs = lowering.state.vgprs(lowering.target)?;
    let effects = record.inst.effects(lowering.lanes());
    let last = |operand: Operand, ranges: &[RegRange]| {
        let first = operand.vector()?;
        let own = |r: &&RegRange| r.file == RegFile::Vgpr && u32::from(r.first) == first & 0xff;
        let counts = ranges.iter().filter(own).map(|r| u32::from(r.count));
        Some(first + counts.max()? - 1)
    };
    let mut highest = None;
    let mut look = |record: &Record| {
        for source in record.src {
            highest = highest.max(last(source, &effects.reads));
        }
        highest = highest.max(last(record.dst, &effects.writes));
    };
    match crate::valu::dual::halves(record) {
        Some(halves) => halves.iter().for_each(look),
        None => look(record),
    }
    let highest = highest.filter(|&highest| highest >= vgprs)?;
    Some(beyond_record(&record.inst, record.pc, highest, vgprs))
}

fn beyond_record(inst: &Inst, pc: u64, highest: u32, vgprs: u32) -> Record {
    let mut record = Record::new(*inst, pc, Class::Control, |cx, record| {
        let what = format!(
            "v{} in {}: the kernel's descriptor gives the wave {} VGPRs (v0 to v{})",
            record.imm,
            record.inst.op().name(),
            record.imm2,
            record.imm2 - 1
        );
        cx.fault(record, Cause::Illegal { what })
    });
    record.ends_block = true;
    (record.imm, record.imm2) = (i64::from(highest), i64::from(vgprs));
    record
}

impl Cx<'_, '_> {
    /// Stops the wave at `record`.
    #[cold]
    pub fn fault(&mut self, record: &Record, cause: Cause) -> Flow {
        self.unit.fault = Some(Box::new(Fault {
            cause,
            pc: record.pc,
        }));
        Flow::Fault
    }
}
