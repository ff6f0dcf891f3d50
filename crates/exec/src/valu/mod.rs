//! Vector arithmetic: from an instruction to a kernel, its operands and its modifiers.
//! The semantics themselves are in [`ops`]; instructions that cross lanes are in [`cross`].

pub mod cross;
pub(crate) mod dual;
mod general;
mod modifiers;
pub mod ops;
mod scalar_unit;
mod scaled;
mod wide;

use rocjitsu_isa::{Format, Implicit, Inst, Name, Op, Operand as Coded};
use rocjitsu_lanes::kernel::{Aux, Kernel, KernelSet, Kind};
use rocjitsu_lanes::modify;

use rocjitsu_lanes::trace::TraceKernel;

use crate::lower::Lowering;
use crate::record::{Class, ConstRow, Constants, Fast, Operand, Record, Step};
use crate::registers::{self, VectorRegisters};
use crate::target::TargetFacts;
use crate::wave::scalar;
use ops::float_facts;

pub use modifiers::{Dpp, Sdwa, SourceMods};

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
    /// How operands that are indexed find their register; bits 2:0 of the record's `imm` say which sources
    /// are, bit 3 whether the destination is.
    pub index: Index,
    /// What the kernel computes, unless it is that of another float mode.
    pub trace: Option<TraceKernel>,
}

impl Details {
    /// What happens to the lanes of the result.
    pub fn result_modifiers(&self) -> modify::Finish {
        modify::Finish {
            omod: self.omod,
            flush: self.flush_out,
            clamp: self.clamp,
            clamp_nan: self.clamp_nan,
        }
    }
}

/// What M0 adds to the numbers of indexed registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// VGPR indexing mode (gfx9): `M0[7:0]`.
    Mode,
    /// The source, by M0.
    Source,
    /// The destination, by M0.
    Dest,
    /// Source and destination, by M0.
    Both,
    /// The source by `M0[9:0]`, the destination by `M0[25:16]`.
    Split,
}

impl Index {
    fn of(op: Op) -> Index {
        match op {
            Op::v_movrels_b32 => Index::Source,
            Op::v_movreld_b32 => Index::Dest,
            Op::v_movrelsd_b32 => Index::Both,
            Op::v_movrelsd_2_b32 | Op::v_swaprel_b32 => Index::Split,
            _ => Index::Mode,
        }
    }

    /// What is added to sources and to the destination.
    pub fn offsets(self, m0: u32) -> (u32, u32) {
        match self {
            Index::Mode => (m0 & 0xff, m0 & 0xff),
            Index::Split => (m0 & 0x3ff, m0 >> 16 & 0x3ff),
            Index::Source | Index::Dest | Index::Both => (m0, m0),
        }
    }
}

/// Lowers a vector arithmetic instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    if let Some(record) = cross::lower(inst, pc, lowering)
        .or_else(|| wide::lower(inst, pc, lowering))
        .or_else(|| scaled::lower(inst, pc, lowering))
        .or_else(|| scalar_unit::lower(inst, pc, lowering))
    {
        return Some(record);
    }
    if inst.op_y().is_some() {
        return dual::lower(inst, pc, lowering);
    }
    let found = ops::find(inst.op(), lowering.target)?;
    build(inst, pc, lowering, &found)
}

/// Whether the row is one of a 16-bit result that leaves the other half alone on gfx9 as well: those that
/// came with GCN 5 and its op_sel (CDNA4 manual, V_MAD_LEGACY_F16: "different from V_MAD_F16"; LLVM's
/// `zeroesHigh16BitsOfDest` lists the others).
fn keeps_high_half_on_gfx9(inst: &Inst) -> bool {
    let name = inst.op().name();
    let legacy = name.contains("_legacy_");
    !legacy && inst.row().operand(Name::op_sel).is_some()
        || matches!(
            inst.op(),
            Op::v_mac_f16 | Op::v_madak_f16 | Op::v_madmk_f16 | Op::v_fma_mixlo_f16
        )
}

/// A source of an instruction.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// What the code says.
    pub coded: Coded,
    /// The name of its modifiers, unless it is a literal that is always there.
    pub modifiers: Option<Name>,
    /// Its number for op_sel: 0 to 2.
    pub number: u8,
    /// Which of the VGPR bank bits and index enables apply to it: 0 to 2, or 3 for those of the destination.
    /// (CDNA3 manual, "VGPR Indexing Details"; CDNA5 manual, "Waves with up to 1024 VGPRs".)
    pub role: u8,
}

/// The sources of an instruction in the order in which assembly names them.
pub(crate) fn sources(inst: &Inst) -> [Option<Source>; 3] {
    let row = inst.row();
    let mut found = [None; 3];
    let mut count = 0;
    let mut after_literal = false;
    for operand in row.operands.iter().filter(|o| !o.dst) {
        let (modifiers, number) = match operand.name {
            Name::src0 => (Some(Name::src0_modifiers), 0),
            Name::src1 => (Some(Name::src1_modifiers), 1),
            Name::src2 => (Some(Name::src2_modifiers), 2),
            Name::imm => (None, 0),
            _ => continue,
        };
        let tied = row.tied.iter().any(|&(a, b)| {
            (a, b) == (operand.name, Name::vdst) || (b, a) == (operand.name, Name::vdst)
        });
        let role = match operand.name {
            // The second factor of v_madmk is the literal; what is added counts as the third source.
            Name::src1 if after_literal => 2,
            _ if tied => 3,
            _ => number,
        };
        after_literal |= operand.name == Name::imm;
        if let (Some(slot), Some(coded)) = (found.get_mut(count), inst.operand(operand.name)) {
            *slot = Some(Source {
                coded,
                modifiers,
                number,
                role,
            });
            count += 1;
        }
    }
    found
}

fn build(inst: &Inst, pc: u64, lowering: &Lowering, found: &ops::Found) -> Option<Record> {
    let dst = match found.set.out {
        Kind::Mask => Operand::None,
        _ => lowering.banked(lowering.dest(inst, Name::vdst)?, 3),
    };
    assemble(inst, pc, lowering, found, &sources(inst), dst)
}

/// The record of a lane operation with these operands.
fn assemble(
    inst: &Inst,
    pc: u64,
    lowering: &Lowering,
    found: &ops::Found,
    coded: &[Option<Source>; 3],
    dst: Operand,
) -> Option<Record> {
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
        dpp: modifiers::dpp(inst, lowering.lanes()),
        sdwa: modifiers::sdwa(inst),
        keep: 0,
        dst_shift: 0,
        to_exec: false,
        index: Index::of(inst.op()),
        trace: Some(set.trace),
    };

    // Sources.
    let enabled = match details.index {
        Index::Mode => lowering.state.indexed(),
        Index::Both | Index::Split => 0b1001,
        Index::Source => 1,
        Index::Dest => 8,
    };
    let mut slot = 0;
    for &kind in set
        .inputs
        .iter()
        .filter(|k| !matches!(k, Kind::Mask | Kind::Lane))
    {
        // What accumulates without naming its third source takes the destination.
        let source = match coded[slot] {
            Some(source) => source,
            None if slot == 2 => Source {
                coded: inst.operand(Name::vdst)?,
                modifiers: None,
                number: 2,
                role: 3,
            },
            None => return None,
        };
        let value = match source.coded {
            Coded::Const(k) if kind == Kind::Mixed => {
                Coded::Const(float_facts::mixed_constant(inst, source.modifiers, k))
            }
            Coded::Literal(k) if kind == Kind::B64 => Coded::Literal(widened_literal(inst, k)),
            Coded::Literal(k) | Coded::Const(k)
                if modifiers::takes_high_half(inst, &source, kind) =>
            {
                // Constants are 32 bits wide here: integers with their sign, floats with zero above
                // (RDNA3 manual, "Common Instruction Fields").
                let negative = matches!(source.coded, Coded::Const(_)) && k >= 0xfff0;
                Coded::Const(if negative { 0xffff } else { k >> 16 })
            }
            other => other,
        };
        let operand = lowering.banked(lowering.resolve_source(value), u32::from(source.role));
        details.inputs[slot] = Some(kind);
        details.source[slot] = modifiers::source(inst, &source, kind, &operand);
        record.src[slot] = operand;
        record.imm |= i64::from(enabled >> source.role & 1) << slot;
        slot += 1;
    }
    record.imm |= i64::from(enabled & 8);
    if details.takes_mask {
        // The mask is the operand behind the others where the encoding has one, VCC otherwise.
        record.mask = match coded.get(slot).copied().flatten() {
            Some(m) => lowering.resolve_source(m.coded),
            None => Operand::Scalar(scalar::VCC as u8),
        };
    }

    // Results.
    record.dst = dst;
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
            Some(Coded::Vgpr16 { high, .. }) => high,
            _ if matches!(inst.op(), Op::v_fma_mixhi_f16 | Op::v_fma_mixhi_bf16) => true,
            _ => {
                inst.field(Name::src0_modifiers).unwrap_or(0) & 8 != 0
                    && !matches!(inst.format(), Format::VOP3P)
            }
        };
        details.dst_shift = if high { 16 } else { 0 };
        let keeps = high || target.keeps_high_half() || keeps_high_half_on_gfx9(inst);
        details.keep = match (keeps, high) {
            (false, _) => 0,
            (true, false) => 0xffff_0000,
            (true, true) => 0x0000_ffff,
        };
    }

    // Modes and modifiers of the result.
    let clamp = inst.field(Name::clamp).unwrap_or(0) != 0;
    let float_out = matches!(
        set.out,
        Kind::F32 | Kind::F64 | Kind::F16 | Kind::Bf16 | Kind::PkF16 | Kind::PkBf16 | Kind::PkF32
    );
    details.clamp = clamp && float_out && !found.clamps_itself;
    let immediate = inst
        .field(Name::bitop3)
        .unwrap_or_else(|| float_facts::immediate(inst, found.immediate));
    let mut aux = lowering.state.0 & 0x7ff | immediate << 16;
    if clamp {
        aux |= Aux::CLAMP;
    }
    record.aux = Aux(aux);
    flushing(&mut details, lowering);
    // The last step of a division keeps subnormal sources whatever MODE says (V_DIV_FMAS_F32).
    if matches!(inst.op(), Op::v_div_fmas_f32 | Op::v_div_fmas_f64) {
        details.flush_in = false;
        record.aux.0 |= Aux::F32_SOURCES;
    }
    // Manuals, "Output modifiers": ignored in IEEE mode and where subnormal results are kept; gfx12 applies them
    // always (and flushes).
    if target.generation() < 12 && (lowering.state.ieee() || !details.flush_out) {
        details.omod = 0;
    }
    details.finish = details.clamp
        || (details.omod != 0 && float_out)
        || (details.flush_out && !details.out.flushes_in_kernel())
        || details.sdwa.as_ref().is_some_and(|s| s.selects_result());
    details.prepare = details.flush_in
        || details.dpp.is_some()
        || details.sdwa.is_some()
        || details.source.iter().any(|s| s.changes());

    let mut kernel: Kernel = set.get(lowering.backend);
    if (lowering.state.float_mode() & 0xf != 0 || record.aux.fp16_ovfl())
        && let Some(modal) = set.modal
    {
        kernel = modal;
        details.trace = None;
    }
    record.kernel = kernel;
    let plain = !details.prepare && !details.finish && !details.to_exec && record.imm == 0;
    if plain
        && let Some((fast, step, constants)) =
            fast_operands(&record, &details, slot, lowering.lanes())
    {
        record.fast = fast;
        record.step = step;
        record.constants = constants;
    }
    record.valu = Some(Box::new(details));
    Some(record)
}

/// A 32-bit literal as a 64-bit operation takes it: signed operations extend its sign (manuals, "Literal constants").
fn widened_literal(inst: &Inst, literal: u64) -> u64 {
    let in_code = 8 * inst.len() - usize::from(inst.row().bits);
    if in_code == 32 && inst.op().name().contains("_i64") {
        literal as u32 as i32 as i64 as u64
    } else {
        literal
    }
}

/// Which subnormals the MODE register flushes, for the operation's float type.
fn flushing(details: &mut Details, lowering: &Lowering) {
    let denorm = lowering.state.float_mode() >> 4;
    let bits = |kind: Kind| match kind {
        Kind::F32 | Kind::PkF32 => Some(denorm & 3),
        Kind::F64 | Kind::F16 | Kind::PkF16 => Some(denorm >> 2 & 3),
        _ => None,
    };
    // FP_DENORM: bit 0 allows subnormal sources, bit 1 subnormal results.
    let outside = |&&k: &&Kind| !k.flushes_in_kernel();
    details.flush_in = details
        .inputs
        .iter()
        .flatten()
        .filter(outside)
        .any(|&k| bits(k).is_some_and(|b| b & 1 == 0));
    details.flush_out = bits(details.out).is_some_and(|b| b & 2 == 0);
}

/// The operands of an operation without modifiers for the run loop, unless one of them has to be computed.
fn fast_operands(
    record: &Record,
    details: &Details,
    count: usize,
    lanes: u32,
) -> Option<(Fast, Step, Constants)> {
    let narrow = |k: Kind| {
        matches!(
            k,
            Kind::B32 | Kind::F32 | Kind::PkB16 | Kind::PkF16 | Kind::PkBf16 | Kind::Mixed
        )
    };
    let wide = |k: Kind| matches!(k, Kind::B64 | Kind::F64);
    let half = |k: Kind| matches!(k, Kind::B16 | Kind::F16 | Kind::Bf16);
    let pair = |k: Kind| k == Kind::PkF32;
    let mut fast = Fast {
        mask_out: Fast::NO_MASK,
        ..Fast::default()
    };
    let mut constants = Constants::new();
    let mut full = false;
    for (slot, &operand) in record.src[..count].iter().enumerate() {
        let kind = details.inputs[slot]?;
        if !narrow(kind) && !wide(kind) && !half(kind) && !pair(kind) {
            return None;
        }
        full |= !narrow(kind);
        let shift = details.source[slot].shift;
        let mut part = |row: usize, step: u32, word: u32| match operand {
            Operand::Vector(r) => Some(registers::Source::register(lanes, u32::from(r) + step)),
            Operand::Scalar(n) => {
                let spread = fast.spread.get_mut(usize::from(fast.scalars))?;
                *spread = (row as u8, n + step as u8);
                fast.scalars += 1;
                Some(registers::Source::shared(row))
            }
            Operand::Const(k) => {
                let row = Box::new(ConstRow([(k >> (32 * word)) as u32; 16]));
                let source = registers::Source::row(&row.0);
                constants.push(row);
                Some(source)
            }
            Operand::Special(_) | Operand::None => None,
        };
        if pair(kind) {
            // Bits 0 and 1 of `shift` choose the registers of a pair; bit 2, that a scalar serves both elements.
            let once = shift & 4 != 0 && matches!(operand, Operand::Scalar(_));
            fast.src[slot] = part(2 * slot, if once { 0 } else { shift & 1 }, 0)?;
            fast.hi[slot] = part(2 * slot + 1, if once { 0 } else { shift >> 1 & 1 }, 0)?;
        } else {
            fast.src[slot] = part(2 * slot, 0, 0)?;
            if wide(kind) {
                fast.hi[slot] = part(2 * slot + 1, 1, 1)?;
            } else if half(kind) && !matches!(operand, Operand::Const(_)) {
                fast.shift[slot] = shift as u8;
            }
        }
    }
    if details.out != Kind::Mask {
        if !narrow(details.out) && !wide(details.out) && !half(details.out) && !pair(details.out) {
            return None;
        }
        full |= !narrow(details.out);
        let first = record.dst.vector()?;
        let two = wide(details.out) || pair(details.out);
        fast.has_dst = true;
        fast.dst = VectorRegisters::slot(lanes, first);
        fast.dst_hi = VectorRegisters::slot(lanes, first + u32::from(two));
        fast.keep = details.keep;
        fast.dst_shift = details.dst_shift as u8;
    }
    if details.takes_mask {
        fast.mask = record.mask.scalar()? as u8;
    }
    if details.gives_mask {
        fast.mask_out = record.dst2.scalar()? as u8;
    }
    let step = match (
        full,
        details.takes_mask || details.gives_mask || !fast.has_dst,
    ) {
        (true, _) => Step::FastFull,
        (false, true) => Step::FastMask,
        (false, false) => Step::Fast,
    };
    Some((fast, step, constants))
}
