//! Vector arithmetic: from an instruction to a kernel, its operands and its modifiers.
//! The semantics themselves are in [`ops`]; instructions that cross lanes are in [`cross`].

pub mod cross;
mod dual;
mod general;
mod modifiers;
pub mod ops;

use rocjitsu_isa::{Format, Implicit, Inst, Name, Op};
use rocjitsu_lanes::kernel::{Aux, Kernel, KernelSet, Kind};

use crate::lower::Lowering;
use crate::record::{Class, Fast, FastSource, Operand, Record, Step};
use crate::registers::VectorRegisters;
use crate::target::TargetFacts;
use crate::wave::scalar;

pub use modifiers::{Dpp, SourceMods, Sdwa};

/// What a lane operation needs beyond the fields of its record.
#[derive(Clone, Copy)]
pub struct Details {
    /// Types of the sources that take a slot, in order.
    pub inputs: [Option<Kind>; 3],
    /// Type of the register result; [`Kind::Mask`] if there is none.
    pub out: Kind,
    /// Whether the kernel reads a mask.
    pub takes_mask: bool,
    /// Whether the kernel writes a mask.
    pub gives_mask: bool,
    /// Modifiers of each source.
    pub source: [SourceMods; 3],
    /// Whether source registers have to be copied and changed before the kernel sees them.
    pub prepare: bool,
    /// Whether the result goes through a temporary row: clamp, omod, flushing, SDWA selection.
    pub finish: bool,
    /// Clamp a float result to 0..1.
    pub clamp: bool,
    /// Output modifier: 0 none, 1 times 2, 2 times 4, 3 divided by 2.
    pub omod: u8,
    /// DX10_CLAMP: a NaN clamps to zero.
    pub clamp_nan: bool,
    /// Flush subnormal sources / results of the operation's float type.
    pub flush_in: bool,
    /// As above, for results.
    pub flush_out: bool,
    /// Data parallel primitive on source 0.
    pub dpp: Option<Dpp>,
    /// Sub-dword addressing.
    pub sdwa: Option<Sdwa>,
    /// Bits of the destination that a 16-bit result keeps, and its shift.
    pub keep: u32,
    /// See `keep`.
    pub dst_shift: u32,
    /// The mask result goes to EXEC as well (`v_cmpx`).
    pub to_exec: bool,
}

/// Lowers a vector arithmetic instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    if let Some(record) = cross::lower(inst, pc, lowering) {
        return Some(record);
    }
    if inst.op_y().is_some() {
        return dual::lower(inst, pc, lowering);
    }
    let found = ops::find(inst.op(), lowering.target)?;
    let mut record = build(inst, pc, lowering, &found)?;
    if found.pair {
        record.run = general::run_pair;
        record.step = Step::Handler;
    }
    Some(record)
}

/// Whether the row is one of a 16-bit result that leaves the other half alone on gfx9 as well
/// (LLVM's `zeroesHigh16BitsOfDest`: the VOP3-only 16-bit instructions with op_sel).
fn keeps_high_half_on_gfx9(op: Op) -> bool {
    matches!(op, Op::v_mad_f16 | Op::v_mad_u16 | Op::v_mad_i16 | Op::v_fma_f16 | Op::v_div_fixup_f16 | Op::v_fma_mixlo_f16)
}

fn build(inst: &Inst, pc: u64, lowering: &Lowering, found: &ops::Found) -> Option<Record> {
    let set: &KernelSet = &found.set;
    let target = lowering.target;
    let mut record = Record::new(*inst, pc, Class::Valu, general::run);
    record.exactness = found.exactness;

    let mut details = Details {
        inputs: [None; 3],
        out: set.out,
        takes_mask: set.inputs.contains(&Kind::Mask),
        gives_mask: set.gives_mask,
        source: [SourceMods::default(); 3],
        prepare: false,
        finish: false,
        clamp: false,
        omod: inst.field(Name::omod).unwrap_or(0) as u8,
        clamp_nan: lowering.state.dx10_clamp() || !target.has_ieee_bit(),
        flush_in: false,
        flush_out: false,
        dpp: modifiers::dpp(inst),
        sdwa: modifiers::sdwa(inst),
        keep: 0,
        dst_shift: 0,
        to_exec: false,
    };

    // Sources.
    const NAMES: [(Name, Name); 3] = [
        (Name::src0, Name::src0_modifiers),
        (Name::src1, Name::src1_modifiers),
        (Name::src2, Name::src2_modifiers),
    ];
    let order = found.order;
    let mut slot = 0;
    for &kind in set.inputs {
        if kind == Kind::Mask {
            continue;
        }
        let (name, mods) = NAMES[usize::from(order[slot])];
        let coded = inst.operand(name).or_else(|| match name {
            Name::src1 => inst.operand(Name::imm),
            _ => None,
        });
        let coded = match coded {
            Some(c) => c,
            // v_madmk and its kin: src0, literal, src1.
            None => inst.operand(Name::imm)?,
        };
        let operand = lowering.banked(lowering.resolve_source(coded), u32::from(order[slot]));
        details.inputs[slot] = Some(kind);
        details.source[slot] = modifiers::source(inst, mods, usize::from(order[slot]), kind, coded, &operand);
        record.src[slot] = operand;
        slot += 1;
    }
    if details.takes_mask {
        // The mask is the operand behind the others where the encoding has one, VCC otherwise.
        record.mask = match inst.operand(found.mask_name.unwrap_or(Name::src2)) {
            Some(m) if slot < 3 => lowering.resolve_source(m),
            _ => Operand::Scalar(scalar::VCC as u8),
        };
    }

    // Results.
    if set.out != Kind::Mask {
        record.dst = lowering.banked(lowering.dest(inst, Name::vdst)?, 3);
    }
    if set.gives_mask {
        let writes = |i| inst.row().implicit_writes().any(|w| w == i);
        record.dst2 = match lowering.dest(inst, Name::sdst) {
            Some(d) => d,
            None if writes(Implicit::Vcc) => Operand::Scalar(scalar::VCC as u8),
            None => Operand::None,
        };
        details.to_exec = writes(Implicit::Exec);
    }
    if matches!(set.out, Kind::B16 | Kind::F16 | Kind::Bf16) {
        let high = match inst.operand(Name::vdst) {
            Some(rocjitsu_isa::Operand::Vgpr16 { high, .. }) => high,
            _ => inst.field(Name::src0_modifiers).unwrap_or(0) & 8 != 0 && !matches!(inst.format(), Format::VOP3P),
        };
        details.dst_shift = if high { 16 } else { 0 };
        let keeps = high || target.keeps_high_half() || keeps_high_half_on_gfx9(inst.op());
        details.keep = match (keeps, high) {
            (false, _) => 0,
            (true, false) => 0xffff_0000,
            (true, true) => 0x0000_ffff,
        };
    }

    // Modes and modifiers of the result.
    let clamp = inst.field(Name::clamp).unwrap_or(0) != 0;
    let float_out = matches!(set.out, Kind::F32 | Kind::F64 | Kind::F16 | Kind::Bf16 | Kind::PkF16 | Kind::PkBf16);
    details.clamp = clamp && float_out && !found.clamps_itself;
    let mut aux = lowering.state.0 & 0x7ff | found.immediate << 16;
    if clamp {
        aux |= Aux::CLAMP;
    }
    record.aux = Aux(aux);
    record.imm = i64::from(lowering.state.indexed());
    flushing(&mut details, lowering);
    details.finish = details.clamp
        || (details.omod != 0 && float_out)
        || details.flush_out
        || details.sdwa.as_ref().is_some_and(|s| s.selects_result());
    details.prepare = details.flush_in
        || details.dpp.is_some()
        || details.sdwa.is_some()
        || details.source.iter().any(|s| s.changes());

    let mut kernel: Kernel = set.get(lowering.backend);
    if lowering.state.float_mode() & 0xf != 0 {
        if let Some(modal) = set.modal {
            kernel = modal;
        }
    }
    record.kernel = kernel;
    let words = |k: &Kind| matches!(k, Kind::B32 | Kind::F32 | Kind::PkB16 | Kind::PkF16 | Kind::PkBf16);
    let simple = !details.prepare
        && !details.finish
        && !details.takes_mask
        && !details.gives_mask
        && words(&details.out)
        && details.inputs.iter().flatten().all(words)
        && lowering.state.indexed() == 0
        && matches!(record.dst, Operand::Vector(_));
    if simple && let Some(fast) = fast_operands(&record, slot, lowering.lanes()) {
        record.fast = fast;
        record.step = Step::Fast;
    }
    record.valu = Some(Box::new(details));
    Some(record)
}

/// Which subnormals the MODE register flushes, for the operation's float type.
fn flushing(details: &mut Details, lowering: &Lowering) {
    let denorm = lowering.state.float_mode() >> 4;
    let bits = |kind: Kind| match kind {
        Kind::F32 => Some(denorm & 3),
        Kind::F64 | Kind::F16 | Kind::PkF16 => Some(denorm >> 2 & 3),
        _ => None,
    };
    // FP_DENORM: bit 0 allows subnormal sources, bit 1 subnormal results.
    details.flush_in = details.inputs.iter().flatten().any(|&k| bits(k).is_some_and(|b| b & 1 == 0));
    details.flush_out = bits(details.out).is_some_and(|b| b & 2 == 0);
}

/// The operands of a plain 32-bit operation for the run loop, unless one of them has to be computed.
fn fast_operands(record: &Record, count: usize, lanes: u32) -> Option<Fast> {
    let mut fast = Fast { count: count as u8, ..Fast::default() };
    fast.dst = VectorRegisters::slot(lanes, record.dst.vector()?);
    for (to, from) in fast.src.iter_mut().zip(&record.src[..count]) {
        *to = match *from {
            Operand::Vector(r) => FastSource::Vector(VectorRegisters::slot(lanes, u32::from(r))),
            Operand::Scalar(n) => FastSource::Scalar(n),
            Operand::Const(k) => FastSource::Const(k as u32),
            Operand::Special(_) | Operand::None => return None,
        };
    }
    Some(fast)
}
