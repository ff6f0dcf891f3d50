//! Counting, searching, reversing, setting and spreading bits.

use rocjitsu_isa::Op;

use super::{narrow, unary, unary_scc, unary64, unary64_scc};
use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_brev_b32 => |cx, r| unary(cx, r, u32::reverse_bits),
        Op::s_brev_b64 => |cx, r| unary64(cx, r, u64::reverse_bits),
        Op::s_bcnt0_i32_b32 => |cx, r| unary_scc(cx, r, u32::count_zeros),
        Op::s_bcnt1_i32_b32 => |cx, r| unary_scc(cx, r, u32::count_ones),
        Op::s_bcnt0_i32_b64 => |cx, r| count64(cx, r, u64::count_zeros),
        Op::s_bcnt1_i32_b64 => |cx, r| count64(cx, r, u64::count_ones),
        // Searches that find nothing give -1.
        Op::s_ff0_i32_b32 => |cx, r| unary(cx, r, |a| found(a.trailing_ones(), 32)),
        Op::s_ff0_i32_b64 => |cx, r| narrow(cx, r, |a| found(a.trailing_ones(), 64)),
        Op::s_ff1_i32_b32 | Op::s_ctz_i32_b32 => {
            |cx, r| unary(cx, r, |a| found(a.trailing_zeros(), 32))
        }
        Op::s_ff1_i32_b64 | Op::s_ctz_i32_b64 => {
            |cx, r| narrow(cx, r, |a| found(a.trailing_zeros(), 64))
        }
        Op::s_flbit_i32_b32 | Op::s_clz_i32_u32 => {
            |cx, r| unary(cx, r, |a| found(a.leading_zeros(), 32))
        }
        Op::s_flbit_i32_b64 | Op::s_clz_i32_u64 => {
            |cx, r| narrow(cx, r, |a| found(a.leading_zeros(), 64))
        }
        // The first bit from above that differs from the sign.
        Op::s_flbit_i32 | Op::s_cls_i32 => |cx, r| {
            unary(cx, r, |a| {
                found((a ^ (a as i32 >> 31) as u32).leading_zeros(), 32)
            })
        },
        Op::s_flbit_i32_i64 | Op::s_cls_i32_i64 => |cx, r| {
            narrow(cx, r, |a| {
                found((a ^ (a as i64 >> 63) as u64).leading_zeros(), 64)
            })
        },
        Op::s_sext_i32_i8 => |cx, r| unary(cx, r, |a| a as i8 as u32),
        Op::s_sext_i32_i16 => |cx, r| unary(cx, r, |a| a as i16 as u32),
        Op::s_bitset0_b32 => |cx, r| set32(cx, r, false),
        Op::s_bitset1_b32 => |cx, r| set32(cx, r, true),
        Op::s_bitset0_b64 => |cx, r| set64(cx, r, false),
        Op::s_bitset1_b64 => |cx, r| set64(cx, r, true),
        Op::s_bitreplicate_b64_b32 => bitreplicate,
        Op::s_quadmask_b32 => |cx, r| unary_scc(cx, r, |a| gather_quads(u64::from(a)) as u32),
        Op::s_quadmask_b64 => |cx, r| unary64_scc(cx, r, gather_quads),
        Op::s_wqm_b32 => |cx, r| unary_scc(cx, r, |a| any_in_quad(u64::from(a)) as u32 * 15),
        Op::s_wqm_b64 => |cx, r| unary64_scc(cx, r, |a| any_in_quad(a) * 15),
        _ => return None,
    })
}

#[inline(always)]
fn found(position: u32, none: u32) -> u32 {
    if position == none { u32::MAX } else { position }
}

#[inline(always)]
fn count64(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64) -> u32) -> Flow {
    let value = f(cx.get64(record.src[0]));
    cx.set32(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}

#[inline(always)]
fn set32(cx: &mut Cx<'_, '_>, record: &Record, one: bool) -> Flow {
    let bit = 1 << (cx.get32(record.src[0]) & 31);
    let old = cx.get32(record.dst);
    cx.set32(record.dst, if one { old | bit } else { old & !bit });
    Flow::Next
}

#[inline(always)]
fn set64(cx: &mut Cx<'_, '_>, record: &Record, one: bool) -> Flow {
    let bit = 1 << (cx.get32(record.src[0]) & 63);
    let old = cx.get64(record.dst);
    cx.set64(record.dst, if one { old | bit } else { old & !bit });
    Flow::Next
}

/// Every bit of the source twice.
fn bitreplicate(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let mut x = u64::from(cx.get32(record.src[0]));
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555u64),
    ] {
        x = (x | x << shift) & mask;
    }
    cx.set64(record.dst, x * 3);
    Flow::Next
}

/// Bit 0 of every group of four: whether any of the four is set.
#[inline(always)]
fn any_in_quad(x: u64) -> u64 {
    let pairs = x | x >> 1;
    (pairs | pairs >> 2) & 0x1111_1111_1111_1111
}

/// Those bits side by side.
#[inline(always)]
fn gather_quads(x: u64) -> u64 {
    let quads = any_in_quad(x);
    (0..16).fold(0, |mask, i| mask | (quads >> (4 * i) & 1) << i)
}
