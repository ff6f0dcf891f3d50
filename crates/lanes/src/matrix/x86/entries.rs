//! The kernels compiled for each back end, with the instruction sets it needs.
//! The contracts of the functions are those of the kernels of the same names.

use super::super::op::{Element, MatrixOp};
use super::kernels::chain::start;
use super::kernels::{
    chain, check, dot2, double, fused, integer, results, scaled, select, tree, unpack,
};
use super::plan::{Plan, Unpack};
use super::range::{Encoded, Exact, Fused, Limits, Range};
use super::scratch::{Panel, STRIDE, Scratch};
use super::tile::Tile;

pub(super) use super::kernels::InRegisters;
pub(super) use results::Halves;
pub(super) use scaled::Scales;
pub(super) use tree::Care;

/// Chains whose B is decoded on the way, for AVX-512 alone.
pub(super) mod direct {
    use super::super::kernels::direct;
    use super::super::v512::V512;
    use super::*;

    pub use direct::decodes;

    #[allow(clippy::missing_safety_doc)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub unsafe fn chain(
        scratch: &Scratch,
        b: direct::Operand<'_>,
        k: usize,
        plan: &Plan,
        tile: &Tile,
        wave: usize,
    ) -> bool {
        // SAFETY: the caller keeps the contract of the kernel.
        unsafe { direct::chain::<V512>(scratch, b, k, plan, tile, wave) }
    }

    #[allow(clippy::missing_safety_doc)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub unsafe fn exact(
        scratch: &Scratch,
        b: direct::Operand<'_>,
        k: usize,
        plan: &Plan,
        tile: &Tile,
        exact: &Exact,
        left: &mut [u16; 8],
    ) -> bool {
        // SAFETY: the caller keeps the contract of the kernel.
        unsafe { direct::exact::<V512>(scratch, b, k, plan, tile, exact, left) }
    }
}

/// Scaled sums of E2M1, for AVX-512 alone.
pub(super) mod fp4 {
    use super::super::kernels::fp4;
    use super::super::v512::V512;
    use super::*;

    #[allow(clippy::missing_safety_doc)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub unsafe fn unpack(
        what: &Unpack,
        first: usize,
        rows: &[*const u32],
        out: &mut Panel<f32>,
        offset: bool,
    ) {
        // SAFETY: the caller keeps the contract of the kernel.
        unsafe { fp4::unpack::<V512>(what, first, rows, out, offset) }
    }

    #[allow(clippy::missing_safety_doc)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub unsafe fn sums(scratch: &Scratch, plan: &Plan, tile: &Tile, scales: &Scales) -> bool {
        // SAFETY: the caller keeps the contract of the kernel.
        unsafe { fp4::sums::<V512>(scratch, plan, tile, scales) }
    }
}

/// Products of bytes, for AVX-512 alone.
pub(super) mod bytes {
    use super::super::v512::V512;
    use super::*;

    #[allow(clippy::missing_safety_doc)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub unsafe fn unpack(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
        // SAFETY: the caller keeps the contract of the kernel.
        unsafe { integer::unpack_words::<V512>(what, rows, out) }
    }

    #[allow(clippy::missing_safety_doc)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub unsafe fn sums(
        scratch: &Scratch,
        k: usize,
        plan: &Plan,
        tile: &Tile,
        (saturates, offset): (bool, bool),
    ) {
        // SAFETY: the caller keeps the contract of the kernel.
        unsafe {
            match (saturates, offset) {
                (false, false) => integer::bytes::<V512, false, false>(scratch, k, plan, tile),
                (false, true) => integer::bytes::<V512, false, true>(scratch, k, plan, tile),
                (true, false) => integer::bytes::<V512, true, false>(scratch, k, plan, tile),
                (true, true) => integer::bytes::<V512, true, true>(scratch, k, plan, tile),
            }
        }
    }
}

macro_rules! entries {
    ($module:ident, $vector:path, $features:literal) => {
        #[allow(clippy::missing_safety_doc)]
        pub(super) mod $module {
            use super::*;
            use $vector as V;

            #[target_feature(enable = $features)]
            pub unsafe fn unpack(
                what: &Unpack,
                first: usize,
                rows: &[*const u32],
                out: &mut Panel<f32>,
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { unpack::unpack::<V>(what, first, rows, out) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn unpack_pairs(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { integer::unpack_pairs::<V>(what, rows, out) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn encoded(element: Element, rows: &[*const u32], lanes: usize) -> Encoded {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::encoded::<V>(element, rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn is_within(limits: &Limits, rows: &[*const u32], lanes: usize) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::is_within::<V>(limits, rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn floats(rows: &[[f32; STRIDE]], lanes: usize) -> Range {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::floats::<V>(rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn is_moderate(rows: &[*const u32], lanes: usize) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::is_moderate::<V>(rows, lanes) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn within(rows: &[[f32; STRIDE]], lanes: usize, range: &Range) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::within::<V>(rows, lanes, range) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn registers(rows: &[*const u32], lanes: usize) -> Range {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::registers::<V>(rows, lanes) }
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
                unsafe { chain::chain::<V, { start::PLAIN }, false>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn chain_in_registers(
                panels: &InRegisters<'_>,
                k: usize,
                plan: &Plan,
                tile: &Tile,
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::in_registers::<V>(panels, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn chain_sparse(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::chain::<V, { start::PLAIN }, true>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn exact(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                exact: &Exact,
                left: &mut [u16; 8],
            ) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::exact::<V, false>(scratch, k, plan, tile, exact, left) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn exact_sparse(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                exact: &Exact,
                left: &mut [u16; 8],
            ) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::exact::<V, true>(scratch, k, plan, tile, exact, left) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn chain_wrapping(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::chain::<V, { start::WRAPPING }, true>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn chain_saturating(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { chain::chain::<V, { start::SATURATING }, true>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn tree(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                shape: (usize, bool, Care),
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { tree::tree::<V>(scratch, k, plan, tile, shape) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn integer(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { integer::integer::<V, false>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn integer_saturating(
                scratch: &Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { integer::integer::<V, true>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn select(op: &MatrixOp, index: &[*const u32], scratch: &mut Scratch) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { select::select(op, index, scratch) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn has_larger(rows: &[*const u32], lanes: usize, least: u32) -> bool {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { check::has_larger::<V>(rows, lanes, least) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn dot2(scratch: &Scratch, k: usize, plan: &Plan, tile: &Tile) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { dot2::dot2::<V>(scratch, k, plan, tile) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn fused(
                scratch: &mut Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                shape: &Fused,
                left: &[u16; 8],
                groups: (usize, bool),
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { fused::fused::<V, false>(scratch, k, plan, tile, shape, left, groups) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn fused_sparse(
                scratch: &mut Scratch,
                k: usize,
                plan: &Plan,
                tile: &Tile,
                shape: &Fused,
                left: &[u16; 8],
                groups: (usize, bool),
            ) {
                // SAFETY: the caller keeps the contract of the kernel.
                unsafe { fused::fused::<V, true>(scratch, k, plan, tile, shape, left, groups) }
            }

            #[target_feature(enable = $features)]
            pub unsafe fn scaled(
                scratch: &mut Scratch,
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

entries!(avx2, super::super::v256::V256, "avx2,fma,f16c");
entries!(
    avx512,
    super::super::v512::V512,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
);
