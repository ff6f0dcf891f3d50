//! The kernels, written once for both vector widths: unpacking, FMA chain, CDNA1/CDNA2 tree,
//! CDNA3 fused sums, integers. `vector_kernels!` makes a module of them for one width; the
//! closures and helper functions inside are compiled with its instruction set.

macro_rules! vector_kernels {
    ($v:path, $features:literal) => {
        use $v as v;

        use super::super::layout::KSplit;
        use super::super::op::Element;
        use super::scratch::{MAX_K, Panel, STRIDE, Scratch};
        use super::{Job, Plan, Unpack};

        /// Decodes an operand into its panel.
        ///
        /// # Safety
        /// The host must support the features; every row must have the lanes that `what` names.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn unpack(what: &Unpack, rows: &[&[u32]], out: &mut Panel<f32>) {
            let Unpack { element, signs, limit, .. } = *what;
            let limit = v::splat(limit);
            let flip = v::splat_i(signs as i32);
            let nan = v::splat_i(0x7fc0_0000);
            // SAFETY: the contract of `each` is that of this function.
            unsafe {
                match element {
                    Element::F32 => each(what, rows, out, |x| [v::flush_positive(v::float(x), limit)]),
                    Element::Xf32 => {
                        each(what, rows, out, |x| [v::float(v::and(x, v::splat_i(!0x1fff)))]);
                    }
                    Element::F16 => each(what, rows, out, |x| {
                        let (low, high) = v::halves(v::xor(x, flip));
                        [v::flush_positive(low, limit), v::flush_positive(high, limit)]
                    }),
                    Element::Bf16 => each(what, rows, out, |x| {
                        let x = v::xor(x, flip);
                        let (low, high) = (v::shl::<16>(x), v::and(x, v::splat_i(!0xffff)));
                        [v::float(low), v::float(high)].map(|x| v::flush_positive(x, limit))
                    }),
                    // The upper half of an f16.
                    Element::Bf8 => each(what, rows, out, |x| {
                        let odd = v::and(x, v::splat_i(0xff00_ff00_u32 as i32));
                        let even = v::and(v::shl::<8>(x), v::splat_i(0xff00_ff00_u32 as i32));
                        let ((k0, k2), (k1, k3)) = (v::halves(even), v::halves(odd));
                        [k0, k1, k2, k3]
                    }),
                    Element::Fp8 | Element::Fp8Fnuz | Element::Bf8Fnuz => {
                        // Exponent and mantissa go where f32 has them; a product with a power
                        // of two corrects the bias, exactly and for subnormals too.
                        let (up, power, nan_mask, nan_bits) = match element {
                            Element::Fp8 => (20, 120, 0x7f, 0x7f),
                            Element::Fp8Fnuz => (20, 119, 0xff, 0x80),
                            _ => (21, 111, 0xff, 0x80),
                        };
                        let power = v::splat(f32::from_bits((power + 127) << 23));
                        let (nan_mask, nan_bits) = (v::splat_i(nan_mask), v::splat_i(nan_bits));
                        let up = v::splat_i(up);
                        each(what, rows, out, |x| {
                            let mut out = [v::zero(); 4];
                            for (item, out) in out.iter_mut().enumerate() {
                                let x = v::sar_each(x, v::splat_i(8 * item as i32));
                                let magnitude = v::shl_each(v::and(x, v::splat_i(0x7f)), up);
                                let value = v::bits(v::mul(v::float(magnitude), power));
                                let sign = v::shl::<24>(v::and(x, v::splat_i(0x80)));
                                let is_nan = v::equal(v::and(x, nan_mask), nan_bits);
                                *out = v::float(v::select(is_nan, nan, v::or(value, sign)));
                            }
                            out
                        });
                    }
                    _ => {}
                }
            }
        }

        /// Walks registers, lanes and the `ITEMS` elements of a word.
        ///
        /// # Safety
        /// As for `unpack`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn each<const ITEMS: usize>(
            what: &Unpack,
            rows: &[&[u32]],
            out: &mut Panel<f32>,
            decode: impl Fn(v::I) -> [v::F; ITEMS],
        ) {
            let Unpack { split, lanes, interleave, .. } = *what;
            let KSplit { chunk, groups, .. } = split;
            let (chunk_log, lanes_log) = (chunk.trailing_zeros(), lanes.trailing_zeros());
            let total = groups << lanes_log;
            let out = out.as_mut_ptr().cast::<f32>();
            for (register, row) in rows.iter().enumerate() {
                assert!(row.len() >= total);
                for lane in (0..total).step_by(v::LANES) {
                    let (group, within) = (lane >> lanes_log, lane & (lanes - 1));
                    let group = split.order(group);
                    // SAFETY: the row has `total` lanes, a multiple of the vector's.
                    let values = decode(v::bits(unsafe { v::load(row.as_ptr().add(lane).cast()) }));
                    for (i, value) in values.into_iter().enumerate() {
                        let item = register * ITEMS + i;
                        let k = (((item >> chunk_log) * groups + group) << chunk_log) + (item & (chunk - 1));
                        assert!(k < MAX_K);
                        // SAFETY: k is a row of the panel, `within + LANES` at most `lanes`, which
                        // is at most STRIDE; interleaved stores stay within their 32 floats.
                        unsafe {
                            let to = out.add(k * STRIDE);
                            if interleave {
                                v::store_interleaved(to.add(within / 32 * 32 + within % 32 / 2), value);
                            } else {
                                v::store(to.add(within), value);
                            }
                        }
                    }
                }
            }
        }

        /// A[row, k] for the lanes of a strip: one element, or for 4x4 shapes one per block.
        ///
        /// # Safety
        /// `at` must point to row 0 of the strip in a row of A's panel.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn a_at<const QUAD: bool>(at: *const f32, row: usize) -> v::F {
            // SAFETY: by the contract of this function.
            unsafe { if QUAD { v::quad(v::load(at), row) } else { v::splat(*at.add(row)) } }
        }

        /// Loads the accumulators of a strip.
        #[inline]
        #[target_feature(enable = $features)]
        fn load_rows<const ROWS: usize>(plan: &Plan, d: &[u32], base: usize, first: usize) -> [v::F; ROWS] {
            let mut sums = [v::zero(); ROWS];
            for (row, sum) in sums.iter_mut().enumerate() {
                let from = &d[base + plan.rows[first + row]..][..v::LANES];
                // SAFETY: `from` has LANES words.
                *sum = unsafe { v::load(from.as_ptr().cast()) };
            }
            sums
        }

        /// Stores the accumulators of a strip.
        #[inline]
        #[target_feature(enable = $features)]
        fn store_rows<const ROWS: usize>(plan: &Plan, d: &mut [u32], base: usize, first: usize, sums: [v::F; ROWS]) {
            for (row, sum) in sums.into_iter().enumerate() {
                let to = &mut d[base + plan.rows[first + row]..][..v::LANES];
                // SAFETY: `to` has LANES words.
                unsafe { v::store(to.as_mut_ptr().cast(), v::canonical(sum)) };
            }
        }

        /// Pointers into row 0 of the panels for a strip.
        #[inline]
        #[target_feature(enable = $features)]
        fn sources<const ROWS: usize, const QUAD: bool>(
            scratch: &Scratch,
            job: &Job,
            first: usize,
            lane: usize,
        ) -> (*const f32, *const f32) {
            let a = if QUAD { job.a + lane } else { job.a + first };
            assert!(a + ROWS.max(if QUAD { v::LANES } else { 0 }) <= STRIDE);
            assert!(job.b + lane + v::LANES <= STRIDE);
            (scratch.a[0][a..].as_ptr(), scratch.b[0][job.b + lane..].as_ptr())
        }

        /// One FMA per k.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn chain(scratch: &Scratch, k: usize, plan: &Plan, d: &mut [u32]) {
            if plan.quad {
                chain_rows::<4, true>(scratch, k, plan, d);
            } else {
                chain_rows::<{ v::ROWS }, false>(scratch, k, plan, d);
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn chain_rows<const ROWS: usize, const QUAD: bool>(scratch: &Scratch, length: usize, plan: &Plan, d: &mut [u32]) {
            assert!(length <= MAX_K);
            for job in &plan.jobs[..plan.count] {
                for first in (0..if QUAD { 4 } else { 16 }).step_by(ROWS) {
                    for lane in (0..16).step_by(v::LANES) {
                        let (a, b) = sources::<ROWS, QUAD>(scratch, job, first, lane);
                        let mut sums = load_rows::<ROWS>(plan, d, job.d + lane, first);
                        for k in 0..length {
                            // SAFETY: k is a row of the panels, `sources` checked the columns.
                            unsafe {
                                let b = v::load(b.add(k * STRIDE));
                                for (row, sum) in sums.iter_mut().enumerate() {
                                    *sum = v::fma(a_at::<QUAD>(a.add(k * STRIDE), row), b, *sum);
                                }
                            }
                        }
                        store_rows(plan, d, job.d + lane, first, sums);
                    }
                }
            }
        }

        /// The tree of groups of 2 or 4. `exact`: no product of the operands' type is inexact,
        /// and only operands can be subnormal.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn tree(scratch: &Scratch, k: usize, plan: &Plan, d: &mut [u32], group: usize, flush: bool, exact: bool) {
            match (group, flush, exact, plan.quad) {
                (4, true, true, false) => tree_rows::<{ v::ROWS }, false, 4, true, true>(scratch, k, plan, d),
                (4, true, false, false) => tree_rows::<{ v::ROWS }, false, 4, true, false>(scratch, k, plan, d),
                (4, false, true, false) => tree_rows::<{ v::ROWS }, false, 4, false, true>(scratch, k, plan, d),
                (4, false, false, false) => tree_rows::<{ v::ROWS }, false, 4, false, false>(scratch, k, plan, d),
                (_, true, true, false) => tree_rows::<{ v::ROWS }, false, 2, true, true>(scratch, k, plan, d),
                (_, true, false, false) => tree_rows::<{ v::ROWS }, false, 2, true, false>(scratch, k, plan, d),
                (_, false, _, false) => tree_rows::<{ v::ROWS }, false, 2, false, false>(scratch, k, plan, d),
                (4, true, true, true) => tree_rows::<4, true, 4, true, true>(scratch, k, plan, d),
                (4, true, false, true) => tree_rows::<4, true, 4, true, false>(scratch, k, plan, d),
                (4, false, _, true) => tree_rows::<4, true, 4, false, false>(scratch, k, plan, d),
                (_, true, _, true) => tree_rows::<4, true, 2, true, false>(scratch, k, plan, d),
                (_, false, _, true) => tree_rows::<4, true, 2, false, false>(scratch, k, plan, d),
            }
        }

        #[target_feature(enable = $features)]
        fn tree_rows<const ROWS: usize, const QUAD: bool, const GROUP: usize, const FLUSH: bool, const EXACT: bool>(
            scratch: &Scratch,
            length: usize,
            plan: &Plan,
            d: &mut [u32],
        ) {
            assert!(length <= MAX_K && length % GROUP == 0);
            let limit = v::splat(f32::MIN_POSITIVE);
            for job in &plan.jobs[..plan.count] {
                for first in (0..if QUAD { 4 } else { 16 }).step_by(ROWS) {
                    for lane in (0..16).step_by(v::LANES) {
                        let (a, b) = sources::<ROWS, QUAD>(scratch, job, first, lane);
                        let mut sums = load_rows::<ROWS>(plan, d, job.d + lane, first);
                        if FLUSH {
                            for sum in &mut sums {
                                *sum = v::flush_positive(*sum, limit);
                            }
                        }
                        for k in (0..length).step_by(GROUP) {
                            let mut bs = [v::zero(); GROUP];
                            for (i, x) in bs.iter_mut().enumerate() {
                                // SAFETY: k + i is a row of the panels, `sources` checked the columns.
                                *x = unsafe { v::load(b.add((k + i) * STRIDE)) };
                            }
                            for (row, sum) in sums.iter_mut().enumerate() {
                                let mut xs = [v::zero(); GROUP];
                                for (i, x) in xs.iter_mut().enumerate() {
                                    // SAFETY: as for B.
                                    *x = unsafe { a_at::<QUAD>(a.add((k + i) * STRIDE), row) };
                                }
                                let mut g = pair::<FLUSH, EXACT>(&xs, &bs, 0);
                                if GROUP == 4 {
                                    let other = pair::<FLUSH, EXACT>(&xs, &bs, 2);
                                    g = keep::<FLUSH, EXACT>(v::add(g, other));
                                }
                                *sum = keep::<FLUSH, EXACT>(v::add(*sum, g));
                            }
                        }
                        store_rows(plan, d, job.d + lane, first, sums);
                    }
                }
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn keep<const FLUSH: bool, const EXACT: bool>(x: v::F) -> v::F {
            if FLUSH && !EXACT { v::flush(x, v::splat(f32::MIN_POSITIVE)) } else { x }
        }

        /// The sum of two products of a tree.
        ///
        /// An exact product may be added by the FMA that forms it: fma(a1, b1, p0) rounds
        /// p0 + p1 just once. A product of -0 makes no difference to p0, which is not -0.
        #[inline]
        #[target_feature(enable = $features)]
        fn pair<const FLUSH: bool, const EXACT: bool>(a: &[v::F], b: &[v::F], i: usize) -> v::F {
            let first = keep::<FLUSH, EXACT>(v::fma(a[i], b[i], v::zero()));
            if EXACT {
                v::fma(a[i + 1], b[i + 1], first)
            } else {
                let second = keep::<FLUSH, EXACT>(v::fma(a[i + 1], b[i + 1], v::zero()));
                keep::<FLUSH, EXACT>(v::add(first, second))
            }
        }

        /// Largest |x|, smallest non-zero |x| less one, and whether there are zeros: bits of f32.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn range(panel: &[[f32; STRIDE]], lanes: usize) -> (u32, u32, bool) {
            let (mut top, mut low, mut zero) = (v::splat_i(0), v::splat_i(-1), v::splat_i(-1));
            for row in panel {
                for lane in (0..lanes.min(STRIDE)).step_by(v::LANES) {
                    // SAFETY: `lane + LANES` is at most STRIDE.
                    let x = v::bits(unsafe { v::load(row.as_ptr().add(lane)) });
                    let x = v::and(x, v::splat_i(i32::MAX));
                    top = v::max_i(top, x);
                    // Zero wraps to the largest number.
                    low = v::min_u(low, v::add_i(x, v::splat_i(-1)));
                    zero = v::min_u(zero, x);
                }
            }
            let (mut tops, mut lows, mut zeros) = ([0u32; v::LANES], [0u32; v::LANES], [0u32; v::LANES]);
            // SAFETY: the arrays have LANES elements.
            unsafe {
                v::store(tops.as_mut_ptr().cast(), v::float(top));
                v::store(lows.as_mut_ptr().cast(), v::float(low));
                v::store(zeros.as_mut_ptr().cast(), v::float(zero));
            }
            let low = lows.into_iter().min().unwrap_or(u32::MAX);
            (tops.into_iter().max().unwrap_or(0), low, zeros.contains(&0))
        }

        /// Exponents of a panel as bytes: floor(log2 |x|), at least `min`, less `base`; -128 for 0.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn exponents(panel: &[[f32; STRIDE]], out: &mut [[i8; STRIDE]], lanes: usize, min: i32, base: i32) {
            let bias = v::splat_i(-127 - base);
            let min = v::splat_i(min - base);
            for (row, out) in panel.iter().zip(out) {
                for lane in (0..lanes.min(STRIDE)).step_by(v::LANES) {
                    // SAFETY: `lane + LANES` is at most STRIDE.
                    unsafe {
                        let x = v::shl::<1>(v::bits(v::load(row.as_ptr().add(lane))));
                        let e = v::max_i(v::add_i(v::shr::<24>(x), bias), min);
                        let e = v::select(v::equal(x, v::splat_i(0)), v::splat_i(-128), e);
                        v::store_bytes(out.as_mut_ptr().cast::<i8>().add(lane), e);
                    }
                }
            }
        }
    };
}
pub(super) use vector_kernels;
