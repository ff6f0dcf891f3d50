//! Moves and selects.

use rocjitsu_lanes::vector::Lanes;

use super::ops;

ops! {
    /// The relative moves differ in how their registers are found.
    v_mov_b32 | v_accvgpr_read_b32 | v_accvgpr_write_b32 | v_accvgpr_mov_b32
        | v_movreld_b32 | v_movrels_b32 | v_movrelsd_b32 | v_movrelsd_2_b32(a: B32) -> B32 { a }
    v_mov_b16(a: B16) -> B16 { a }
    v_mov_b64(a: B64) -> B64 { a }
    v_cndmask_b32(a: B32, b: B32, vcc: Mask) -> B32 { L::select(vcc, b, a) }
    v_cndmask_b16(a: B16, b: B16, vcc: Mask) -> B16 { L::select(vcc, b, a) }
    v_pack_b32_f16(a: B16, b: B16) -> B32 { pack::<L>(a, b) }
}

#[inline(always)]
fn pack<L: Lanes>(a: L::V, b: L::V) -> L::V {
    L::or(a, L::shl(b, L::splat(16)))
}
