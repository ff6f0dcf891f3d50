//! The kernels compiled for each back end, with the instruction sets it needs.
//! The contracts of the functions are those of the kernels of the same names.

use super::super::op::Element;
use super::kernels::{chain, check, dot2, double, fused, integer, results, scaled, tree, unpack};
use super::plan::{Plan, Unpack};
use super::range::{Exact, Fused, Range};
use super::scratch::{Panel, STRIDE, Scratch};
use super::tile::Tile;

pub(super) use results::Halves;
pub(super) use scaled::Scales;

macro_rules! entries {
    ($module:ident, $vector:path, $rows:literal, $features:literal) => {
        #[allow(clippy::missing_safety_doc)]
        pub(super) mod $module {
            use super::*;
            use $vector as V;

            #[target_feature(enable = $features)]
            pub unsafe fn unpack(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { unpack::unpack::<V>(what, rows, out) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn unpack_pairs(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { integer::unpack_pairs::<V>(what, rows, out) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn encoded(element: Element, rows: &[*const u32], lanes: usize) -> Range {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::encoded::<V>(element, rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn floats(rows: &[[f32; STRIDE]], lanes: usize) -> Range {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::floats::<V>(rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn registers(rows: &[*const f32], lanes: usize) -> Range {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::registers::<V>(rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn has_smaller(rows: &[*const f32], lanes: usize, least: f32) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::has_smaller::<V>(rows, lanes, least) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn is_exact(exact: &Exact, rows: &[*const f32], lanes: usize) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::is_exact::<V>(exact, rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn widen(how: Halves, c: &[*const u32], sums: &mut [[u32; 64]]) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { results::widen::<V>(how, c, sums) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn narrow(how: Halves, sums: &[[u32; 64]], d: &[*mut u32]) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { results::narrow::<V>(how, sums, d) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn chain(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::chain::<V, $rows, false>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn chain_cleared(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::chain::<V, $rows, true>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn tree(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                shape: (usize, bool, bool),
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { tree::tree::<V>(scratch, k, plan, tile, shape) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn integer(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { integer::integer::<V, $rows>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn dot2(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { dot2::dot2::<V>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn exponents(
                panel: &[[f32; STRIDE]],
                out: &mut Panel<i8>,
                lanes: usize,
                min: i32,
                base: i32,
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { fused::exponents::<V>(panel, out, lanes, min, base) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn fused(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                shape: &Fused,
                groups: (usize, bool),
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { fused::fused::<V>(scratch, k, plan, tile, shape, groups) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn scaled(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                scales: &Scales,
                single: bool,
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { scaled::scaled::<V>(scratch, k, plan, tile, scales, single) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn double(
                a: &[*const u32],
                b: &[*const u32],
                tile: &Tile,
                blocks: usize,
                signs: [u64; 3],
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { double::double::<V>(a, b, tile, blocks, signs) }
            }
        }
    };
}

entries!(avx2, super::super::v256::V256, 8, "avx2,fma,f16c");
entries!(
    avx512,
    super::super::v512::V512,
    16,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
);
