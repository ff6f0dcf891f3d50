//! 32-bit integer arithmetic and logic.

use super::ops;

ops! {
    v_add_u32 | v_add_nc_u32(a: B32, b: B32) -> B32 { L::add(a, b) }
    v_sub_u32 | v_sub_nc_u32(a: B32, b: B32) -> B32 { L::sub(a, b) }
    v_and_b32(a: B32, b: B32) -> B32 { L::and(a, b) }
    v_or_b32(a: B32, b: B32) -> B32 { L::or(a, b) }
    v_xor_b32(a: B32, b: B32) -> B32 { L::xor(a, b) }
    v_lshlrev_b32(n: B32, a: B32) -> B32 { L::shl(a, n) }
    v_lshrrev_b32(n: B32, a: B32) -> B32 { L::shr(a, n) }
    v_ashrrev_i32(n: B32, a: B32) -> B32 { L::sar(a, n) }
    v_lshl_add_u32(a: B32, n: B32, b: B32) -> B32 { L::add(L::shl(a, n), b) }
    v_add_lshl_u32(a: B32, b: B32, n: B32) -> B32 { L::shl(L::add(a, b), n) }
    v_lshl_or_b32(a: B32, n: B32, b: B32) -> B32 { L::or(L::shl(a, n), b) }
    v_and_or_b32(a: B32, b: B32, c: B32) -> B32 { L::or(L::and(a, b), c) }
    v_or3_b32(a: B32, b: B32, c: B32) -> B32 { L::or(L::or(a, b), c) }
    v_add3_u32(a: B32, b: B32, c: B32) -> B32 { L::add(L::add(a, b), c) }
    v_mul_lo_u32(a: B32, b: B32) -> B32 { L::mul(a, b) }
    v_lshlrev_b64(n: B32, a: B64) -> B64 { shift_left_64::<L>(n, a) }
}

/// Shifts 64-bit lanes left by the low six bits of `n`.
#[inline(always)]
fn shift_left_64<L: rocjitsu_lanes::vector::Lanes>(n: L::V, a: L::W) -> L::W {
    let n = L::widen(n, u64::from);
    L::w_map2(a, n, |a, n| a << (n & 63))
}
