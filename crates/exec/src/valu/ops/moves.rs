//! Moves and selects.

use super::ops;

ops! {
    v_mov_b32(a: B32) -> B32 { a }
    v_cndmask_b32(a: B32, b: B32, vcc: Mask) -> B32 { L::select(vcc, b, a) }
}
