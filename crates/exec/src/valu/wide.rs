//! Lane operations whose operands have more than 64 bits, or choose between registers of a pair.

use rocjitsu_isa::{Inst, Name, Op};

use super::cross::{merge, row_of};
use super::ops::bits::msad_u8;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Operand, Record};
use crate::wave::Cx;

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::v_pk_mov_b32 => pk_mov,
        Op::v_mqsad_u32_u8 => mqsad_u32,
        Op::v_perm_pk16_b4_u4 => |cx, r| look_up(cx, r, 4, [1, 1]),
        Op::v_perm_pk16_b6_u4 => |cx, r| look_up(cx, r, 6, [1, 2]),
        Op::v_perm_pk16_b8_u4 => |cx, r| look_up(cx, r, 8, [2, 2]),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Valu, handler);
    record.dst = lowering.banked(lowering.dest(inst, Name::vdst)?, 3);
    for (slot, name) in [Name::src0, Name::src1, Name::src2].into_iter().enumerate() {
        if let Some(operand) = lowering.source(inst, name) {
            record.src[slot] = lowering.banked(operand, slot as u32);
        }
    }
    record.imm = i64::from(inst.field(Name::clamp).unwrap_or(0));
    record.imm2 = i64::from(inst.field(Name::op_sel).unwrap_or(0));
    Some(record)
}

/// Word `n` of an operand of several words. A constant repeats or, where the operation takes it as 64 bits,
/// ends after its second word.
fn word(cx: &Cx<'_, '_>, operand: Operand, n: u32) -> [u32; 64] {
    match operand {
        Operand::Vector(r) => row_of(cx, Operand::Vector(r + n as u16)),
        Operand::Scalar(s) => row_of(cx, Operand::Scalar(s.saturating_add(n as u8).min(127))),
        other => [(cx.get64(other) >> (32 * n.min(1))) as u32; 64],
    }
}

fn put(cx: &mut Cx<'_, '_>, operand: Operand, n: u32, row: &[u32; 64]) {
    if let Operand::Vector(r) = operand {
        merge(cx, Operand::Vector(r + n as u16), |lane| row[lane as usize]);
    }
}

/// Each result is one of the two words of its source; op_sel says which. A constant is the same in both.
fn pk_mov(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let half = |cx: &Cx<'_, '_>, slot: usize| {
        let operand = record.src[slot];
        let high = record.imm2 >> slot & 1 != 0
            && matches!(operand, Operand::Vector(_) | Operand::Scalar(_));
        word(cx, operand, u32::from(high))
    };
    let (low, high) = (half(cx, 0), half(cx, 1));
    put(cx, record.dst, 0, &low);
    put(cx, record.dst, 1, &high);
    Flow::Next
}

/// Four masked sums of absolute differences, each added to a word of source 2.
fn mqsad_u32(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (lo, hi) = (word(cx, record.src[0], 0), word(cx, record.src[0], 1));
    let reference = word(cx, record.src[1], 0);
    let results: [[u32; 64]; 4] = std::array::from_fn(|i| {
        let addend = word(cx, record.src[2], i as u32);
        std::array::from_fn(|lane| {
            let data = u64::from(lo[lane]) | u64::from(hi[lane]) << 32;
            let sum = msad_u8((data >> (8 * i)) as u32, reference[lane]);
            if record.imm != 0 {
                sum.saturating_add(addend[lane])
            } else {
                sum.wrapping_add(addend[lane])
            }
        })
    });
    for (i, row) in results.iter().enumerate() {
        put(cx, record.dst, i as u32, row);
    }
    Flow::Next
}

/// Looks sixteen 4-bit indices up in a table of `bits`-bit entries. The table is source 0 above source 1, of
/// `words` words each; the indices are source 2.
fn look_up(cx: &mut Cx<'_, '_>, record: &Record, bits: u32, words: [u32; 2]) -> Flow {
    let [high, low] = words;
    let mut table = [0u128; 64];
    let parts = (0..low).map(|n| (1, n)).chain((0..high).map(|n| (0, n)));
    for (at, (slot, n)) in parts.enumerate() {
        let row = word(cx, record.src[slot], n);
        for (entry, word) in table.iter_mut().zip(row) {
            *entry |= u128::from(word) << (32 * at);
        }
    }
    let (lo, hi) = (word(cx, record.src[2], 0), word(cx, record.src[2], 1));
    let mut result = [0u128; 64];
    for (lane, out) in result.iter_mut().enumerate() {
        let indices = u64::from(lo[lane]) | u64::from(hi[lane]) << 32;
        for i in 0..16 {
            let index = (indices >> (4 * i) & 15) as u32;
            let entry = table[lane] >> (index * bits) & ((1 << bits) - 1);
            *out |= entry << (i * bits);
        }
    }
    for n in 0..bits / 2 {
        put(cx, record.dst, n, &result.map(|r| (r >> (32 * n)) as u32));
    }
    Flow::Next
}
