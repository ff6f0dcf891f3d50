//! Bitwise operations, shifts, bit fields, packing.

use rocjitsu_isa::Op;

use super::{binary, binary_scc, binary64_scc, shift64_scc, unary_scc, unary64_scc};
use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_and_b32 => |cx, r| binary_scc(cx, r, |a, b| a & b),
        Op::s_or_b32 => |cx, r| binary_scc(cx, r, |a, b| a | b),
        Op::s_xor_b32 => |cx, r| binary_scc(cx, r, |a, b| a ^ b),
        Op::s_nand_b32 => |cx, r| binary_scc(cx, r, |a, b| !(a & b)),
        Op::s_nor_b32 => |cx, r| binary_scc(cx, r, |a, b| !(a | b)),
        Op::s_xnor_b32 => |cx, r| binary_scc(cx, r, |a, b| !(a ^ b)),
        Op::s_andn2_b32 | Op::s_and_not1_b32 => |cx, r| binary_scc(cx, r, |a, b| a & !b),
        Op::s_orn2_b32 | Op::s_or_not1_b32 => |cx, r| binary_scc(cx, r, |a, b| a | !b),
        Op::s_not_b32 => |cx, r| unary_scc(cx, r, |a| !a),
        Op::s_and_b64 => |cx, r| binary64_scc(cx, r, |a, b| a & b),
        Op::s_or_b64 => |cx, r| binary64_scc(cx, r, |a, b| a | b),
        Op::s_xor_b64 => |cx, r| binary64_scc(cx, r, |a, b| a ^ b),
        Op::s_nand_b64 => |cx, r| binary64_scc(cx, r, |a, b| !(a & b)),
        Op::s_nor_b64 => |cx, r| binary64_scc(cx, r, |a, b| !(a | b)),
        Op::s_xnor_b64 => |cx, r| binary64_scc(cx, r, |a, b| !(a ^ b)),
        Op::s_andn2_b64 | Op::s_and_not1_b64 => |cx, r| binary64_scc(cx, r, |a, b| a & !b),
        Op::s_orn2_b64 | Op::s_or_not1_b64 => |cx, r| binary64_scc(cx, r, |a, b| a | !b),
        Op::s_not_b64 => |cx, r| unary64_scc(cx, r, |a| !a),
        Op::s_lshl_b32 => |cx, r| binary_scc(cx, r, |a, b| a << (b & 31)),
        Op::s_lshr_b32 => |cx, r| binary_scc(cx, r, |a, b| a >> (b & 31)),
        Op::s_ashr_i32 => |cx, r| binary_scc(cx, r, |a, b| (a as i32 >> (b & 31)) as u32),
        Op::s_lshl_b64 => |cx, r| shift64_scc(cx, r, |a, b| a << (b & 63)),
        Op::s_lshr_b64 => |cx, r| shift64_scc(cx, r, |a, b| a >> (b & 63)),
        Op::s_ashr_i64 => |cx, r| shift64_scc(cx, r, |a, b| (a as i64 >> (b & 63)) as u64),
        Op::s_bfe_u32 => {
            |cx, r| binary_scc(cx, r, |a, b| field(u64::from(a >> (b & 31)), b, 32) as u32)
        }
        Op::s_bfe_i32 => |cx, r| {
            binary_scc(cx, r, |a, b| {
                signed_field((a as i32 >> (b & 31)) as i64 as u64, b, 32) as u32
            })
        },
        Op::s_bfe_u64 => |cx, r| shift64_scc(cx, r, |a, b| field(a >> (b & 63), b, 64)),
        Op::s_bfe_i64 => |cx, r| {
            shift64_scc(cx, r, |a, b| {
                signed_field((a as i64 >> (b & 63)) as u64, b, 64)
            })
        },
        Op::s_bfm_b32 => |cx, r| binary(cx, r, |a, b| ((1 << (a & 31)) - 1) << (b & 31)),
        Op::s_bfm_b64 => bfm_b64,
        Op::s_pack_ll_b32_b16 => |cx, r| binary(cx, r, |a, b| a & 0xffff | b << 16),
        Op::s_pack_lh_b32_b16 => |cx, r| binary(cx, r, |a, b| a & 0xffff | b & 0xffff_0000),
        Op::s_pack_hh_b32_b16 => |cx, r| binary(cx, r, |a, b| a >> 16 | b & 0xffff_0000),
        Op::s_pack_hl_b32_b16 => |cx, r| binary(cx, r, |a, b| a >> 16 | b << 16),
        _ => return None,
    })
}

/// The width of a bit field: S1[22:16], cut to the operand's width. Wider fields keep all that the shift
/// left, as the hardware's saturated mask does.
#[inline(always)]
fn width(control: u32, bits: u32) -> u32 {
    (control >> 16 & 0x7f).min(bits)
}

#[inline(always)]
fn field(shifted: u64, control: u32, bits: u32) -> u64 {
    match width(control, bits) {
        64 => shifted,
        width => shifted & ((1 << width) - 1),
    }
}

#[inline(always)]
fn signed_field(shifted: u64, control: u32, bits: u32) -> u64 {
    match width(control, bits) {
        0 => 0,
        width => ((shifted << (64 - width)) as i64 >> (64 - width)) as u64,
    }
}

/// The sources are 32 bits wide, the result 64.
fn bfm_b64(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (a, b) = (cx.get32(record.src[0]), cx.get32(record.src[1]));
    cx.set64(record.dst, ((1 << (a & 63)) - 1) << (b & 63));
    Flow::Next
}
