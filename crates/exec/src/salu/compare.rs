//! Integer compares and bit tests (SOPC, SOPK): they set SCC.

use rocjitsu_isa::Op;

use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// Whether the 16-bit immediate of a SOPK instruction is zero-extended.
pub fn is_unsigned(op: Op) -> bool {
    matches!(
        op,
        Op::s_cmpk_eq_u32
            | Op::s_cmpk_lg_u32
            | Op::s_cmpk_gt_u32
            | Op::s_cmpk_ge_u32
            | Op::s_cmpk_lt_u32
            | Op::s_cmpk_le_u32
    )
}

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_cmp_eq_i32 | Op::s_cmp_eq_u32 | Op::s_cmpk_eq_i32 | Op::s_cmpk_eq_u32 => {
            |cx, r| test(cx, r, |a, b| a == b)
        }
        Op::s_cmp_lg_i32 | Op::s_cmp_lg_u32 | Op::s_cmpk_lg_i32 | Op::s_cmpk_lg_u32 => {
            |cx, r| test(cx, r, |a, b| a != b)
        }
        Op::s_cmp_gt_i32 | Op::s_cmpk_gt_i32 => |cx, r| test(cx, r, |a, b| a as i32 > b as i32),
        Op::s_cmp_ge_i32 | Op::s_cmpk_ge_i32 => |cx, r| test(cx, r, |a, b| a as i32 >= b as i32),
        Op::s_cmp_lt_i32 | Op::s_cmpk_lt_i32 => |cx, r| test(cx, r, |a, b| (a as i32) < b as i32),
        Op::s_cmp_le_i32 | Op::s_cmpk_le_i32 => |cx, r| test(cx, r, |a, b| a as i32 <= b as i32),
        Op::s_cmp_gt_u32 | Op::s_cmpk_gt_u32 => |cx, r| test(cx, r, |a, b| a > b),
        Op::s_cmp_ge_u32 | Op::s_cmpk_ge_u32 => |cx, r| test(cx, r, |a, b| a >= b),
        Op::s_cmp_lt_u32 | Op::s_cmpk_lt_u32 => |cx, r| test(cx, r, |a, b| a < b),
        Op::s_cmp_le_u32 | Op::s_cmpk_le_u32 => |cx, r| test(cx, r, |a, b| a <= b),
        Op::s_bitcmp0_b32 => |cx, r| test(cx, r, |a, b| a >> (b & 31) & 1 == 0),
        Op::s_bitcmp1_b32 => |cx, r| test(cx, r, |a, b| a >> (b & 31) & 1 == 1),
        Op::s_bitcmp0_b64 => |cx, r| test_bit64(cx, r, false),
        Op::s_bitcmp1_b64 => |cx, r| test_bit64(cx, r, true),
        Op::s_cmp_eq_u64 => |cx, r| test64(cx, r, |a, b| a == b),
        Op::s_cmp_lg_u64 => |cx, r| test64(cx, r, |a, b| a != b),
        _ => return None,
    })
}

#[inline(always)]
fn test(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> bool) -> Flow {
    cx.wave.scc = f(cx.get32(record.src[0]), cx.get32(record.src[1]));
    Flow::Next
}

#[inline(always)]
fn test64(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64, u64) -> bool) -> Flow {
    cx.wave.scc = f(cx.get64(record.src[0]), cx.get64(record.src[1]));
    Flow::Next
}

#[inline(always)]
fn test_bit64(cx: &mut Cx<'_, '_>, record: &Record, one: bool) -> Flow {
    let bit = cx.get64(record.src[0]) >> (cx.get32(record.src[1]) & 63) & 1;
    cx.wave.scc = (bit == 1) == one;
    Flow::Next
}
