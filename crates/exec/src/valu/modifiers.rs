//! Modifiers of lane operations: negation, absolute value, halves, DPP, SDWA.
//! Read from the instruction once; applied by `general`.

use rocjitsu_isa::{Format, Inst, Name, Op};
use rocjitsu_lanes::kernel::Kind;
use rocjitsu_lanes::modify;
use rocjitsu_lanes::vector::{Lanes, Scalar, WIDTH};

use crate::record::Operand;

/// Modifiers of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceMods {
    /// Negate (packed: the low half).
    pub neg: bool,
    /// Absolute value, before negation.
    pub abs: bool,
    /// Negate the high half of a packed source, or the high element of a packed f32 pair.
    pub neg_hi: bool,
    /// Right shift that brings a 16-bit source into the low half: 0 or 16. Of a packed f32 source bits 0 and 1
    /// say which register of the pair the low and the high element take; bit 2, that a scalar register serves
    /// both.
    pub shift: u32,
    /// Packed: which half (or register) the low result takes.
    pub low_from_high: bool,
    /// Packed: whether the high result takes the low half.
    pub high_from_low: bool,
    /// The low result takes the high half and so on only if this is a packed source.
    pub packed: bool,
}

impl SourceMods {
    /// What happens to the lanes of the source; `flush` if MODE flushes it.
    pub fn lanes(&self, flush: bool) -> modify::Source {
        modify::Source {
            flush,
            abs: self.abs,
            neg: self.neg,
            neg_hi: self.neg_hi,
            packed: self.packed,
            low_from_high: self.low_from_high,
            high_from_low: self.high_from_low,
        }
    }

    /// Whether the source differs from its register.
    pub fn changes(&self) -> bool {
        self.neg || self.abs || self.neg_hi || self.low_from_high || self.high_from_low
    }
}

/// Reads the modifiers of a source.
pub(super) fn source(
    inst: &Inst,
    source: &super::Source,
    kind: Kind,
    operand: &Operand,
) -> SourceMods {
    let field = source.modifiers.and_then(|name| inst.field(name));
    let bits = field.unwrap_or(0);
    let packed = matches!(kind, Kind::PkB16 | Kind::PkF16 | Kind::PkBf16);
    let is_packed_format = matches!(
        inst.format(),
        Format::VOP3P | Format::VOP3P_DPP16 | Format::VOP3P_DPP8
    );
    let mut mods = SourceMods {
        packed,
        ..SourceMods::default()
    };
    match kind {
        // The operation itself applies them.
        Kind::Mixed => return mods,
        Kind::PkF32 => {
            mods.shift = super::float_facts::pair_registers(inst, bits);
            return mods;
        }
        _ => {}
    }
    if packed && is_packed_format {
        mods.neg = bits & 1 != 0;
        mods.neg_hi = bits & 2 != 0;
        mods.low_from_high = bits & 4 != 0;
        mods.high_from_low = bits & 8 == 0;
        return mods;
    }
    let float = matches!(
        kind,
        Kind::F32 | Kind::F64 | Kind::F16 | Kind::Bf16 | Kind::PkF16 | Kind::PkBf16
    );
    if float || moves_floats(op_of(inst, source), source.number) {
        mods.neg = bits & 1 != 0;
        // In a packed instruction the bit negates a high half, which this source does not have.
        mods.abs = bits & 2 != 0 && !is_packed_format;
        // Outside VOP3P they apply to both halves of a packed source.
        mods.neg_hi = packed && mods.neg;
    }
    if takes_high_half(inst, source, kind) && !matches!(operand, Operand::Const(_)) {
        mods.shift = 16;
    }
    mods
}

/// Whether a 16-bit source is the upper half of its register.
pub(super) fn takes_high_half(inst: &Inst, source: &super::Source, kind: Kind) -> bool {
    if !matches!(kind, Kind::B16 | Kind::F16 | Kind::Bf16) {
        return false;
    }
    if let rocjitsu_isa::Operand::Vgpr16 { high, .. } = source.coded {
        return high;
    }
    match source.modifiers.and_then(|name| inst.field(name)) {
        Some(bits) => bits & 4 != 0,
        None => {
            source.modifiers.is_some()
                && inst.field(Name::op_sel).unwrap_or(0) >> source.number & 1 != 0
        }
    }
}

/// The operation that reads a source: of a dual instruction, that of its half.
fn op_of(inst: &Inst, source: &super::Source) -> Op {
    let of_y = [
        Name::src0Y_modifiers,
        Name::vsrc1Y_modifiers,
        Name::vsrc2Y_modifiers,
    ];
    match source.modifiers {
        Some(name) if of_y.contains(&name) => inst.op_y().unwrap_or(inst.op()),
        _ => inst.op(),
    }
}

/// Whether a source takes neg and abs although the operation moves or tests bits. (The tables give 16-bit integer
/// operands the same type of modifiers; the hardware has none for them.)
fn moves_floats(op: Op, number: u8) -> bool {
    match op {
        Op::v_cndmask_b32 | Op::v_dual_cndmask_b32 | Op::v_cndmask_b16 | Op::v_pack_b32_f16 => true,
        _ => number == 0 && op.name().contains("_class_"),
    }
}

/// Data parallel primitives: where each lane of source 0 comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpp {
    /// The lane that each lane reads.
    pub from: [u8; 64],
    /// Lanes whose source the pattern reaches.
    pub in_range: u64,
    /// Lanes that the row and bank masks let through.
    pub written: u64,
    /// A source lane out of range (or disabled) gives zero instead of leaving the lane unwritten.
    pub bound_ctrl: bool,
    /// Disabled lanes are read all the same.
    pub fetch_inactive: bool,
}

/// The pattern of a [`Dpp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DppPattern {
    /// `dpp_ctrl` of DPP16.
    Ctrl(u16),
    /// Eight 3-bit selectors, for each group of 8 lanes.
    Dpp8(u32),
}

/// The DPP fields of an instruction, if it has them, for a wave of `lanes`.
///
/// Manuals, "DPP16" and "DPP8": a source lane that is out of range or disabled (and not fetched all the same)
/// gives zero under BC = 1 and leaves the lane unwritten under BC = 0; DPP8 has BC = 1. The targets that have
/// no FI bit behave as with FI = 0.
pub fn dpp(inst: &Inst, lanes: u32) -> Option<Dpp> {
    let (pattern, row_mask, bank_mask, bound_ctrl, fetch_inactive) = match inst.field(Name::dpp8) {
        Some(selectors) => (
            DppPattern::Dpp8(selectors),
            0xf,
            0xf,
            true,
            inst.field(Name::fi) == Some(0xea),
        ),
        None => (
            DppPattern::Ctrl(inst.field(Name::dpp_ctrl)? as u16),
            inst.field(Name::row_mask).unwrap_or(0xf),
            inst.field(Name::bank_mask).unwrap_or(0xf),
            inst.field(Name::bound_ctrl).unwrap_or(0) != 0,
            inst.field(Name::fi).unwrap_or(0) != 0,
        ),
    };
    let mut dpp = Dpp {
        from: [0; 64],
        in_range: 0,
        written: 0,
        bound_ctrl,
        fetch_inactive,
    };
    for lane in 0..lanes {
        if let Some(from) = pattern.source_lane(lane, lanes).filter(|&l| l < lanes) {
            dpp.from[lane as usize] = from as u8;
            dpp.in_range |= 1 << lane;
        }
        dpp.written |= u64::from(row_mask >> (lane / 16) & bank_mask >> (lane / 4 % 4) & 1) << lane;
    }
    Some(dpp)
}

impl Dpp {
    /// Moves lanes, in place. Returns the lanes that may be written.
    pub fn permute(&self, row: &mut [u32], exec: u64) -> u64 {
        let mut old = [0; 64];
        old[..row.len().min(64)].copy_from_slice(&row[..row.len().min(64)]);
        for (word, from) in row.iter_mut().zip(self.from) {
            *word = old[usize::from(from & 63)];
        }
        let mut valid = self.in_range;
        let every_lane = u64::MAX >> (64 - row.len().clamp(1, 64));
        if !self.fetch_inactive && exec & every_lane != every_lane {
            let active = |from: &u8| exec >> (from & 63) & 1;
            valid &= self
                .from
                .iter()
                .enumerate()
                .fold(0, |all, (lane, from)| all | active(from) << lane);
        }
        if valid & every_lane != every_lane {
            for (lane, word) in row.iter_mut().enumerate() {
                if valid >> lane & 1 == 0 {
                    *word = 0;
                }
            }
        }
        self.written & if self.bound_ctrl { u64::MAX } else { valid }
    }
}

impl DppPattern {
    /// Lane that lane `lane` of a wave of `lanes` reads, or `None` if it lies outside what the pattern
    /// reaches. Manuals: "DPP_CTRL values".
    pub fn source_lane(&self, lane: u32, lanes: u32) -> Option<u32> {
        let row = lane & !15;
        let at = lane & 15;
        let in_row = |l: i32| (0..16).contains(&l).then(|| row + l as u32);
        let ctrl = match *self {
            DppPattern::Dpp8(selectors) => {
                return Some(lane & !7 | selectors >> (3 * (lane & 7)) & 7);
            }
            DppPattern::Ctrl(ctrl) => u32::from(ctrl),
        };
        let n = ctrl & 15;
        match ctrl {
            // quad_perm
            0x000..=0x0ff => Some(lane & !3 | ctrl >> (2 * (lane & 3)) & 3),
            // row_shl: lane reads from a higher one
            0x101..=0x10f => in_row(at as i32 + n as i32),
            // row_shr
            0x111..=0x11f => in_row(at as i32 - n as i32),
            // row_ror
            0x121..=0x12f => Some(row + ((at + 16 - n) & 15)),
            // wave_shl:1, wave_rol:1, wave_shr:1, wave_ror:1 (gfx9)
            0x130 => (lane + 1 < lanes).then_some(lane + 1),
            0x134 => Some((lane + 1) % lanes),
            0x138 => lane.checked_sub(1),
            0x13c => Some((lane + lanes - 1) % lanes),
            // row_mirror, row_half_mirror
            0x140 => Some(row + (15 - at)),
            0x141 => Some(lane & !7 | (7 - (lane & 7))),
            // row_bcast:15 and row_bcast:31 (gfx9): the last lane of the row (half) before. Lanes of the first row
            // (half) keep their own value: the manuals' rows for the shifts end in "else use bound_cntl", these do not,
            // and rocWMMA's tests of the chips expect it.
            0x142 => Some(row.checked_sub(1).unwrap_or(lane)),
            0x143 => Some(if lane >= 32 { 31 } else { lane }),
            // row_newbcast (gfx90a) and row_share (gfx10 on)
            0x150..=0x15f => Some(row + n),
            // row_xmask
            0x160..=0x16f => Some(lane ^ n),
            _ => None,
        }
    }
}

/// Sub-dword addressing (gfx9): parts of 32-bit registers as operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdwa {
    /// Part of each of the two sources: 0–3 bytes, 4 and 5 words, 6 the dword.
    pub sel: [u8; 2],
    /// Sign-extend the part.
    pub sext: [bool; 2],
    /// Part of the destination.
    pub dst_sel: u8,
    /// What happens to the rest: 0 zero, 1 sign, 2 preserved.
    pub dst_unused: u8,
}

impl Sdwa {
    /// Whether the destination is less than a dword.
    pub fn selects_result(&self) -> bool {
        self.dst_sel != 6
    }

    /// Source `slot` (0 or 1): the part of each word that is selected, extended to 32 bits.
    #[inline(always)]
    pub fn source<L: Lanes>(&self, slot: usize, words: L::V) -> L::V {
        let Some((shift, bits)) = part(self.sel[slot]) else {
            return words;
        };
        if self.sext[slot] {
            let top = L::shl(words, L::splat(32 - shift - bits));
            L::sar(top, L::splat(32 - bits))
        } else {
            L::and(L::shr(words, L::splat(shift)), L::splat((1 << bits) - 1))
        }
    }

    /// Puts results into the part of the destination that is selected; `old` is what it held.
    #[inline(always)]
    pub fn result<L: Lanes>(&self, words: L::V, old: L::V) -> L::V {
        let Some((shift, bits)) = part(self.dst_sel) else {
            return words;
        };
        let mask = ((1u32 << bits) - 1) << shift;
        let placed = L::and(L::shl(words, L::splat(shift)), L::splat(mask));
        match self.dst_unused {
            // UNUSED_SEXT: the bits above take the sign, those below are zero.
            1 => {
                let above = L::splat(32 - shift - bits);
                L::sar(L::shl(placed, above), above)
            }
            2 => L::or(placed, L::and(old, L::splat(!mask))),
            _ => placed,
        }
    }

    /// [`Sdwa::source`] of the words of a register, in place.
    pub fn select(&self, slot: usize, row: &mut [u32]) {
        for words in row.chunks_exact_mut(WIDTH) {
            let old = std::array::from_fn(|lane| words[lane]);
            words.copy_from_slice(&self.source::<Scalar>(slot, old));
        }
    }

    /// [`Sdwa::result`] of the words of a result, in place.
    pub fn place(&self, row: &mut [u32], old: &[u32]) {
        for (words, old) in row.chunks_exact_mut(WIDTH).zip(old.chunks_exact(WIDTH)) {
            let new = std::array::from_fn(|lane| words[lane]);
            let old = std::array::from_fn(|lane| old[lane]);
            words.copy_from_slice(&self.result::<Scalar>(new, old));
        }
    }
}

/// The SDWA fields of an instruction, if it has them.
pub fn sdwa(inst: &Inst) -> Option<Sdwa> {
    let sel0 = inst.field(Name::src0_sel)?;
    let sext = |name| {
        inst.row()
            .operand(name)
            .is_some_and(|o| o.ty.kind == rocjitsu_isa::Kind::IntMods)
            && inst.field(name).unwrap_or(0) != 0
    };
    Some(Sdwa {
        sel: [sel0 as u8, inst.field(Name::src1_sel).unwrap_or(6) as u8],
        sext: [sext(Name::src0_modifiers), sext(Name::src1_modifiers)],
        dst_sel: inst.field(Name::dst_sel).unwrap_or(6) as u8,
        dst_unused: inst.field(Name::dst_unused).unwrap_or(0) as u8,
    })
}

/// Where the part `sel` of a word begins and how many bits it has; `None` for all of it.
fn part(sel: u8) -> Option<(u32, u32)> {
    match sel {
        0..=3 => Some((8 * u32::from(sel), 8)),
        4 | 5 => Some((16 * (u32::from(sel) - 4), 16)),
        _ => None,
    }
}
