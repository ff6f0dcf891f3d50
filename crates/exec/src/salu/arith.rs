//! Integer addition, subtraction, multiplication, minimum and maximum.

use rocjitsu_isa::Op;

use super::{binary, binary_flag, binary_scc, binary64, unary_scc};
use crate::record::Handler;

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_add_u32 | Op::s_add_co_u32 => {
            |cx, r| binary_flag(cx, r, |a, b, _| a.overflowing_add(b))
        }
        Op::s_sub_u32 | Op::s_sub_co_u32 => {
            |cx, r| binary_flag(cx, r, |a, b, _| a.overflowing_sub(b))
        }
        // SCC is signed overflow. SOPK's s_addk_i32 is the same with an immediate.
        Op::s_add_i32 | Op::s_add_co_i32 | Op::s_addk_i32 | Op::s_addk_co_i32 => |cx, r| {
            binary_flag(cx, r, |a, b, _| {
                let (value, overflow) = (a as i32).overflowing_add(b as i32);
                (value as u32, overflow)
            })
        },
        Op::s_sub_i32 | Op::s_sub_co_i32 => |cx, r| {
            binary_flag(cx, r, |a, b, _| {
                let (value, overflow) = (a as i32).overflowing_sub(b as i32);
                (value as u32, overflow)
            })
        },
        Op::s_addc_u32 | Op::s_add_co_ci_u32 => |cx, r| {
            binary_flag(cx, r, |a, b, carry| {
                let sum = u64::from(a) + u64::from(b) + u64::from(carry);
                (sum as u32, sum >> 32 != 0)
            })
        },
        Op::s_subb_u32 | Op::s_sub_co_ci_u32 => |cx, r| {
            binary_flag(cx, r, |a, b, borrow| {
                let take = u64::from(b) + u64::from(borrow);
                (u64::from(a).wrapping_sub(take) as u32, take > u64::from(a))
            })
        },
        Op::s_mul_i32 | Op::s_mulk_i32 => |cx, r| binary(cx, r, u32::wrapping_mul),
        Op::s_mul_hi_u32 => {
            |cx, r| binary(cx, r, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32)
        }
        Op::s_mul_hi_i32 => |cx, r| {
            binary(cx, r, |a, b| {
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
            })
        },
        Op::s_add_nc_u64 => |cx, r| binary64(cx, r, u64::wrapping_add),
        Op::s_sub_nc_u64 => |cx, r| binary64(cx, r, u64::wrapping_sub),
        Op::s_mul_u64 => |cx, r| binary64(cx, r, u64::wrapping_mul),
        // SCC says that S0 was chosen; on equality minimum chooses S1 and maximum S0.
        Op::s_min_i32 => |cx, r| binary_flag(cx, r, |a, b, _| choose((a as i32) < b as i32, a, b)),
        Op::s_min_u32 => |cx, r| binary_flag(cx, r, |a, b, _| choose(a < b, a, b)),
        Op::s_max_i32 => |cx, r| binary_flag(cx, r, |a, b, _| choose(a as i32 >= b as i32, a, b)),
        Op::s_max_u32 => |cx, r| binary_flag(cx, r, |a, b, _| choose(a >= b, a, b)),
        Op::s_abs_i32 => |cx, r| unary_scc(cx, r, |a| (a as i32).wrapping_abs() as u32),
        // The difference wraps before its sign is looked at.
        Op::s_absdiff_i32 => |cx, r| {
            binary_scc(cx, r, |a, b| {
                (a.wrapping_sub(b) as i32).wrapping_abs() as u32
            })
        },
        Op::s_lshl1_add_u32 => |cx, r| binary_flag(cx, r, |a, b, _| shift_add::<1>(a, b)),
        Op::s_lshl2_add_u32 => |cx, r| binary_flag(cx, r, |a, b, _| shift_add::<2>(a, b)),
        Op::s_lshl3_add_u32 => |cx, r| binary_flag(cx, r, |a, b, _| shift_add::<3>(a, b)),
        Op::s_lshl4_add_u32 => |cx, r| binary_flag(cx, r, |a, b, _| shift_add::<4>(a, b)),
        _ => return None,
    })
}

#[inline(always)]
fn choose(first: bool, a: u32, b: u32) -> (u32, bool) {
    (if first { a } else { b }, first)
}

/// `(a << N) + b`; SCC: the sum of more than 32 bits overflows them.
#[inline(always)]
fn shift_add<const N: u32>(a: u32, b: u32) -> (u32, bool) {
    let sum = (u64::from(a) << N) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}
