//! Vector instructions that cross lanes or leave the vector registers: readlane, writelane, permlane, swaps.
//! Reads of disabled lanes follow the manuals' FI and BOUND_CTRL rules where the instruction has these bits.

use rocjitsu_isa::{Inst, Name, Op, Operand as Coded, Target};
use rocjitsu_observe::Source;

use super::Index;
use super::general::{first_of, indexed};
use crate::error::Cause;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Operand, Record};
use crate::wave::{Cx, scalar};

/// Fetch-inactive and bound-control bits in a record's `imm2`.
const FETCH_INACTIVE: i64 = 1;
const BOUND_CTRL: i64 = 2;

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::v_illegal => illegal,
        Op::v_nop | Op::v_pipeflush | Op::v_clrexcp => |_, _| Flow::Next,
        Op::v_readfirstlane_b32 => readfirstlane,
        Op::v_readlane_b32 => readlane,
        Op::v_writelane_b32 => writelane,
        Op::v_permlane16_b32 => |cx, r| permlane16(cx, r, 0),
        Op::v_permlanex16_b32 => |cx, r| permlane16(cx, r, 16),
        Op::v_permlane16_var_b32 => |cx, r| permlane16_var(cx, r, 0),
        Op::v_permlanex16_var_b32 => |cx, r| permlane16_var(cx, r, 16),
        Op::v_permlane64_b32 if lowering.lanes() == 32 => |_, _| Flow::Next,
        Op::v_permlane64_b32 => permlane64,
        Op::v_permlane16_swap_b32 => |cx, r| permlane_swap(cx, r, 16),
        Op::v_permlane32_swap_b32 => |cx, r| permlane_swap(cx, r, 32),
        Op::v_permlane_bcast_b32 => |cx, r| {
            within_groups(cx, r, |lane, by, width| {
                lane & !(width - 1) | by & (width - 1)
            })
        },
        Op::v_permlane_up_b32 => |cx, r| {
            within_groups(cx, r, |lane, by, width| {
                if lane & (width - 1) < by {
                    lane
                } else {
                    lane - by
                }
            })
        },
        Op::v_permlane_down_b32 => |cx, r| {
            within_groups(cx, r, |lane, by, width| {
                if u64::from(lane & (width - 1)) + u64::from(by) < u64::from(width) {
                    lane + by
                } else {
                    lane
                }
            })
        },
        Op::v_permlane_xor_b32 => permlane_xor,
        Op::v_permlane_idx_gen_b32 => permlane_idx_gen,
        Op::v_swap_b32 | Op::v_swaprel_b32 => swap,
        Op::v_swap_b16 => swap_halves,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Valu, handler);
    if inst.row().operands.is_empty() {
        return Some(record);
    }
    let bank = |operand, role| lowering.banked(operand, role);
    let vector_dst = !matches!(inst.op(), Op::v_readfirstlane_b32 | Op::v_readlane_b32);
    record.dst = match lowering.dest(inst, Name::vdst) {
        Some(dst) if vector_dst => bank(dst, 3),
        Some(dst) => dst,
        None => Operand::None,
    };
    for (slot, name) in [Name::src0, Name::src1, Name::src2].into_iter().enumerate() {
        if let Some(operand) = lowering.source(inst, name) {
            record.src[slot] = bank(operand, slot as u32);
        }
    }
    let bit = |name, bit: u32| inst.field(name).is_some_and(|f| f >> bit & 1 != 0);
    let always_fetches =
        lowering.target == Target::Gfx1250 && inst.op() == Op::v_permlane16_swap_b32;
    if always_fetches || bit(Name::fi, 0) || bit(Name::src0_modifiers, 2) {
        record.imm2 |= FETCH_INACTIVE;
    }
    if bit(Name::bound_ctrl, 0) || bit(Name::src1_modifiers, 2) {
        record.imm2 |= BOUND_CTRL;
    }
    let indexes = lowering.state.indexed();
    if Index::of(inst.op()) == Index::Split {
        record.imm = 0b1001;
    } else {
        record.imm = i64::from(indexes);
    }
    if inst.op() == Op::v_swap_b16 {
        let high = |name| matches!(inst.operand(name), Some(Coded::Vgpr16 { high: true, .. }));
        record.imm2 = i64::from(high(Name::vdst)) | i64::from(high(Name::src0)) << 1;
    }
    Some(record)
}

/// Source 0 and the destination, with what indexing adds to their numbers; `None` beyond the wave's registers.
fn moved(cx: &Cx<'_, '_>, record: &Record) -> (Option<Operand>, Option<Operand>) {
    let (by, to) = Index::of(record.inst.op()).offsets(cx.wave.s[scalar::M0]);
    let operand = |operand, bit: i64, index| match record.imm & bit {
        0 => Some(operand),
        _ => indexed(cx, operand, index, 1),
    };
    (operand(record.src[0], 1, by), operand(record.dst, 8, to))
}

/// The source that `v_readlane` and `v_readfirstlane` read.
fn read_source(cx: &Cx<'_, '_>, record: &Record) -> Operand {
    moved(cx, record).0.unwrap_or(first_of(cx, record.src[0]))
}

/// Reads a lane of a vector or scalar operand.
fn lane_of(cx: &Cx<'_, '_>, operand: Operand, lane: u32) -> u32 {
    match operand {
        Operand::Vector(r) => cx.wave.v.read(u32::from(r))[(lane % cx.wave.lanes) as usize],
        other => cx.get32(other),
    }
}

/// The lowest active lane, or lane 0 if none is active.
fn readfirstlane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let exec = cx.wave.exec();
    let lane = if exec == 0 { 0 } else { exec.trailing_zeros() };
    let value = lane_of(cx, read_source(cx, record), lane);
    cx.set32(record.dst, value);
    Flow::Next
}

fn readlane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let lane = cx.get32(record.src[1]);
    let value = lane_of(cx, read_source(cx, record), lane);
    cx.set32(record.dst, value);
    Flow::Next
}

/// Writes a lane whether it is active or not.
fn writelane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let value = cx.get32(record.src[0]);
    let lane = cx.get32(record.src[1]) % cx.wave.lanes;
    if let Some(Operand::Vector(r)) = moved(cx, record).1 {
        cx.wave.v.write(u32::from(r), &mut cx.unit.pool)[lane as usize] = value;
    }
    Flow::Next
}

/// The lanes of an operand.
pub(super) fn row_of(cx: &Cx<'_, '_>, operand: Operand) -> [u32; 64] {
    match operand {
        Operand::Vector(r) => {
            let row = cx.wave.v.read(u32::from(r));
            std::array::from_fn(|lane| row.get(lane).copied().unwrap_or(0))
        }
        other => [cx.get32(other); 64],
    }
}

/// Gives each active lane of register `to` what [`source`] says, of the values in `row`.
fn gather(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    to: Operand,
    row: &[u32; 64],
    from: impl Fn(u32) -> u32,
) {
    let Operand::Vector(r) = to else { return };
    let (exec, lanes) = (cx.wave.exec(), cx.wave.lanes);
    let dst = cx.wave.v.write(u32::from(r), &mut cx.unit.pool);
    for (lane, word) in dst
        .iter_mut()
        .enumerate()
        .filter(|(lane, _)| exec >> lane & 1 != 0)
    {
        match source(record, exec, from(lane as u32) % lanes) {
            Source::Lane(source) => *word = row[usize::from(source)],
            Source::None => *word = 0,
            Source::Keeps => {}
        }
    }
}

/// What a lane gets that is to read lane `from`, as FI and BOUND_CTRL say.
fn source(record: &Record, exec: u64, from: u32) -> Source {
    if record.imm2 & FETCH_INACTIVE != 0 || exec >> from & 1 != 0 {
        Source::Lane(from as u8)
    } else if record.imm2 & BOUND_CTRL != 0 {
        Source::None
    } else {
        Source::Keeps
    }
}

/// The lane that each lane is to read by lane selects from two scalars, 4 bits for each lane of a row; `other` is 16 to read
/// from the neighbour row.
fn selected16(cx: &Cx<'_, '_>, record: &Record, other: u32) -> impl Fn(u32) -> u32 + use<> {
    let select = u64::from(cx.get32(record.src[1])) | u64::from(cx.get32(record.src[2])) << 32;
    move |lane| (lane & !15) ^ other | (select >> (4 * (lane & 15)) & 15) as u32
}

fn permlane16(cx: &mut Cx<'_, '_>, record: &Record, other: u32) -> Flow {
    let row = row_of(cx, record.src[0]);
    let from = selected16(cx, record, other);
    gather(cx, record, record.dst, &row, from);
    Flow::Next
}

/// As [`selected16`], each lane with its own select.
fn selected16_var(cx: &Cx<'_, '_>, record: &Record, other: u32) -> impl Fn(u32) -> u32 + use<> {
    let select = row_of(cx, record.src[1]);
    move |lane| (lane & !15) ^ other | select[lane as usize & 63] & 15
}

fn permlane16_var(cx: &mut Cx<'_, '_>, record: &Record, other: u32) -> Flow {
    let row = row_of(cx, record.src[0]);
    let from = selected16_var(cx, record, other);
    gather(cx, record, record.dst, &row, from);
    Flow::Next
}

/// Whose value each lane gets from a permutation of this module; `None`: the instruction is none, or moves two registers.
pub fn exchange(cx: &Cx<'_, '_>, record: &Record) -> Option<[Source; 64]> {
    let (exec, lanes) = (cx.wave.exec(), cx.wave.lanes);
    let of = |from: &dyn Fn(u32) -> u32| {
        std::array::from_fn(|lane| source(record, exec, from(lane as u32) % lanes))
    };
    Some(match record.inst.op() {
        Op::v_permlane16_b32 => of(&selected16(cx, record, 0)),
        Op::v_permlanex16_b32 => of(&selected16(cx, record, 16)),
        Op::v_permlane16_var_b32 => of(&selected16_var(cx, record, 0)),
        Op::v_permlanex16_var_b32 => of(&selected16_var(cx, record, 16)),
        Op::v_permlane64_b32 if lanes == 64 => {
            std::array::from_fn(|lane| Source::Lane(lane as u8 ^ 32))
        }
        _ => return None,
    })
}

/// The two halves of a wave of 64 change places. A lane that writes also reads.
fn permlane64(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let row = row_of(cx, record.src[0]);
    merge(cx, record.dst, |lane| row[lane as usize ^ 32]);
    Flow::Next
}

/// Writes active lanes of a register.
pub(super) fn merge(cx: &mut Cx<'_, '_>, to: Operand, value: impl Fn(u32) -> u32) {
    let Operand::Vector(r) = to else { return };
    let exec = cx.wave.exec();
    for (lane, word) in cx
        .wave
        .v
        .write(u32::from(r), &mut cx.unit.pool)
        .iter_mut()
        .enumerate()
    {
        if exec >> lane & 1 != 0 {
            *word = value(lane as u32);
        }
    }
}

/// Lanes of the destination whose number has bit `size` change places with lanes of the source without it.
fn permlane_swap(cx: &mut Cx<'_, '_>, record: &Record, size: u32) -> Flow {
    let (source, dst) = (row_of(cx, record.src[0]), row_of(cx, record.dst));
    // A lane that keeps its value reads itself.
    let mut mixed = dst;
    for lane in (0..64).filter(|lane| lane & size != 0) {
        mixed[lane as usize] = source[(lane ^ size) as usize];
    }
    let exec = cx.wave.exec();
    let fetches = record.imm2 & FETCH_INACTIVE != 0;
    let bound_ctrl = record.imm2 & BOUND_CTRL != 0;
    let result = |lane: u32, old: u32, new: u32| {
        if fetches || exec >> ((lane ^ size) & 63) & 1 != 0 {
            new
        } else if bound_ctrl {
            0
        } else {
            old
        }
    };
    merge(cx, record.dst, |lane| {
        let old = dst[lane as usize];
        if lane & size != 0 {
            result(lane, old, mixed[lane as usize])
        } else {
            old
        }
    });
    merge(cx, record.src[0], |lane| {
        let old = source[lane as usize];
        if lane & size == 0 {
            result(lane, old, dst[((lane ^ size) & 63) as usize])
        } else {
            old
        }
    });
    Flow::Next
}

/// Permutes within groups of lanes: `from` takes the lane, source 1 and the size of a group, a power of two.
/// Disabled lanes are read.
fn within_groups(cx: &mut Cx<'_, '_>, record: &Record, from: fn(u32, u32, u32) -> u32) -> Flow {
    let by = cx.get32(record.src[1]);
    let width = group_width(cx, record);
    let row = row_of(cx, record.src[0]);
    merge(cx, record.dst, |lane| {
        row[from(lane, by, width) as usize & 63]
    });
    Flow::Next
}

/// The group width of the gfx1250 permutes. Widths that are no power of two are undefined: the next lower one
/// is taken; zero and what exceeds the wave is the whole wave.
fn group_width(cx: &Cx<'_, '_>, record: &Record) -> u32 {
    match cx.get32(record.src[2]) {
        0 => cx.wave.lanes,
        width => (1 << width.ilog2()).min(cx.wave.lanes),
    }
}

fn permlane_xor(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let by = cx.get32(record.src[1]);
    let width = group_width(cx, record);
    let lanes = cx.wave.lanes;
    let row = row_of(cx, record.src[0]);
    merge(cx, record.dst, |lane| {
        let other = lane ^ by & 63;
        let stays = by >= lanes || other >= (lane & !(width - 1)) + width;
        row[if stays { lane } else { other } as usize]
    });
    Flow::Next
}

/// CDNA5 manual, "V_PERMLANE_IDX_GEN_B32": the byte index, as `ds_bpermute_b32` wants it, of lane S0 of the lane's
/// own group of S1 lanes.
fn permlane_idx_gen(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (index, width) = (row_of(cx, record.src[0]), row_of(cx, record.src[1]));
    merge(cx, record.dst, |lane| {
        let mask = width[lane as usize].wrapping_sub(1);
        ((index[lane as usize] & 0x3f & mask) + (lane & !mask)) << 2
    });
    Flow::Next
}

/// Raises an illegal instruction exception on purpose.
fn illegal(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let what = "v_illegal: the program raised an illegal instruction exception".to_owned();
    cx.fault(record, Cause::Illegal { what })
}

/// Two registers change places in the active lanes.
fn swap(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (Some(from), Some(to)) = moved(cx, record) else {
        return Flow::Next;
    };
    let (a, b) = (row_of(cx, from), row_of(cx, to));
    merge(cx, to, |lane| a[lane as usize]);
    merge(cx, from, |lane| b[lane as usize]);
    Flow::Next
}

/// Two halves of registers change places; bit 0 of `imm2` says the destination's half, bit 1 the source's.
fn swap_halves(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let shift = |bit: i64| if record.imm2 >> bit & 1 != 0 { 16 } else { 0 };
    let (to, from) = (shift(0), shift(1));
    let (a, b) = (row_of(cx, record.src[0]), row_of(cx, record.dst));
    let put = |word: u32, at: u32, half: u32| word & !(0xffff << at) | (half & 0xffff) << at;
    merge(cx, record.dst, |lane| {
        put(b[lane as usize], to, a[lane as usize] >> from)
    });
    // Source and destination may be halves of one register: it is read anew.
    let a = row_of(cx, record.src[0]);
    merge(cx, record.src[0], |lane| {
        put(a[lane as usize], from, b[lane as usize] >> to)
    });
    Flow::Next
}
