//! Comparisons: a bit for each lane. `v_cmpx` forms differ only in where the mask goes.

use super::ops;

ops! {
    v_cmp_lt_u32 | v_cmpx_lt_u32(a: B32, b: B32) -> Mask { L::lt_u(a, b) }
    v_cmp_gt_u32 | v_cmpx_gt_u32(a: B32, b: B32) -> Mask { L::lt_u(b, a) }
    v_cmp_lt_i32 | v_cmpx_lt_i32(a: B32, b: B32) -> Mask { L::lt_i(a, b) }
    v_cmp_gt_i32 | v_cmpx_gt_i32(a: B32, b: B32) -> Mask { L::lt_i(b, a) }
    v_cmp_eq_u32 | v_cmpx_eq_u32(a: B32, b: B32) -> Mask { L::eq(a, b) }
}
