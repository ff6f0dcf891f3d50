//! The kernels, written once for both vector widths: unpacking, FMA chain, CDNA1/CDNA2 tree,
//! CDNA3 fused sums, integers. `vector_kernels!` makes a module of them for one width; the
//! closures and helper functions inside are compiled with its instruction set.

macro_rules! vector_kernels {
    ($v:path, $features:literal) => {
        use $v as v;

        use super::super::layout::KSplit;
        use super::super::COperand;
        use super::super::op::Element;
        use super::scratch::{MAX_K, Panel, STRIDE, Scratch};
        /// Magnitudes of E2M1.
        const FP4: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

        use super::super::formats::NAN64;
        use super::{Fused, Job, Plan, Range, Scales, Unpack};

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
                        let (low, high) = (v::float(low), v::float(high));
                        [v::flush_positive(low, limit), v::flush_positive(high, limit)]
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
                    Element::Fp4 => each(what, rows, out, |x| {
                        let mut out = [v::zero(); 8];
                        for (item, out) in out.iter_mut().enumerate() {
                            let x = v::sar_each(x, v::splat_i(4 * item as i32));
                            let sign = v::shl::<28>(v::and(x, v::splat_i(8)));
                            *out = v::float(v::or(v::bits(v::lookup8(&FP4, x)), sign));
                        }
                        out
                    }),
                    Element::Fp6 | Element::Bf6 => {
                        let (up, power) = if element == Element::Fp6 { (20, 126) } else { (21, 124) };
                        let power = v::splat(f32::from_bits((power + 127) << 23));
                        let up = v::splat_i(up);
                        sixes(what, rows, out, |x| {
                            let magnitude = v::shl_each(v::and(x, v::splat_i(0x1f)), up);
                            let value = v::bits(v::mul(v::float(magnitude), power));
                            v::float(v::or(value, v::shl::<26>(v::and(x, v::splat_i(0x20)))))
                        });
                    }
                    _ => {}
                }
            }
        }

        /// As `each` for elements of six bits: 32 of them in six registers, in chunks of 32.
        ///
        /// # Safety
        /// As for `unpack`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn sixes(what: &Unpack, rows: &[&[u32]], out: &mut Panel<f32>, decode: impl Fn(v::I) -> v::F) {
            let Unpack { split, lanes, interleave, first: column, .. } = *what;
            assert!(column + lanes <= STRIDE && split.chunk == 32 && lanes.is_power_of_two());
            let out = out.as_mut_ptr().cast::<f32>();
            for (pass, rows) in rows.chunks_exact(6).enumerate() {
                for lane in (0..split.groups * lanes / v::LANES).map(|i| i * v::LANES) {
                    assert!(rows.iter().all(|row| row.len() >= lane + v::LANES));
                    let (group, within) = (lane / lanes, lane % lanes);
                    let first = (pass * split.groups + split.order(group)) * 32;
                    assert!(first + 32 <= MAX_K);
                    for item in 0..32 {
                        let (word, shift) = (item * 6 / 32, item * 6 % 32);
                        // SAFETY: the assertions above; as in `each` for the stores.
                        unsafe {
                            let get = |word: usize| v::bits(v::load(rows[word].as_ptr().add(lane).cast()));
                            let mut x = v::sar_each(get(word), v::splat_i(shift as i32));
                            if shift > 26 {
                                let low = v::and(x, v::splat_i((1 << (32 - shift)) - 1));
                                x = v::or(low, v::shl_each(get(word + 1), v::splat_i(32 - shift as i32)));
                            }
                            let to = out.add((first + item) * STRIDE);
                            if interleave {
                                v::store_interleaved(to.add(within / 32 * 32 + within % 32 / 2), decode(x));
                            } else {
                                v::store(to.add(column + within), decode(x));
                            }
                        }
                    }
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
            let Unpack { split, lanes, first, interleave, .. } = *what;
            assert!(first + lanes <= STRIDE);
            let KSplit { chunk, groups, .. } = split;
            let (chunk_log, lanes_log) = (chunk.trailing_zeros(), lanes.trailing_zeros());
            let total = groups << lanes_log;
            let out = out.as_mut_ptr().cast::<f32>();
            for (register, row) in rows.iter().enumerate() {
                assert!(row.len() >= total);
                for lane in (0..total / v::LANES).map(|i| i * v::LANES) {
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
                                v::store(to.add(first + within), value);
                            }
                        }
                    }
                }
            }
        }

        /// Spreads integers into pairs of 16 bits: bytes 0 and 2, bytes 1 and 3 of a word, or
        /// nibbles 0 and 4, 1 and 5, and so on. The order of k is one of its own, the same for A
        /// and B: sums of integers do not depend on it.
        ///
        /// # Safety
        /// As for `unpack`.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn unpack_pairs(what: &Unpack, rows: &[&[u32]], out: &mut Panel<f32>) {
            // SAFETY: the contract of `each` is that of this function.
            unsafe {
                match (what.element.bits(), what.signed) {
                    (8, true) => each(what, rows, out, |x| {
                        let (even, odd) = (v::sar16::<8>(v::shl16::<8>(x)), v::sar16::<8>(x));
                        [v::float(even), v::float(odd)]
                    }),
                    (8, false) => each(what, rows, out, |x| {
                        let (even, odd) = (v::shr16::<8>(v::shl16::<8>(x)), v::shr16::<8>(x));
                        [v::float(even), v::float(odd)]
                    }),
                    (_, signed) => each(what, rows, out, |x| {
                        let mut out = [v::zero(); 4];
                        let shifted = [v::shl16::<12>(x), v::shl16::<8>(x), v::shl16::<4>(x), x];
                        for (out, x) in out.iter_mut().zip(shifted) {
                            let top = if signed { v::sar16::<12>(x) } else { v::shr16::<12>(x) };
                            *out = v::float(top);
                        }
                        out
                    }),
                }
            }
        }

        /// Products of pairs over `length` panel rows, added to i32 accumulators, wrapping.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn integer(scratch: &Scratch, length: usize, plan: &Plan, d: &mut [u32]) {
            if plan.quad {
                integer_rows::<4, true>(scratch, length, plan, d);
            } else {
                integer_rows::<{ v::ROWS }, false>(scratch, length, plan, d);
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn integer_rows<const ROWS: usize, const QUAD: bool>(scratch: &Scratch, length: usize, plan: &Plan, d: &mut [u32]) {
            assert!(length <= MAX_K && plan.fits(d.len()));
            for job in &plan.jobs[..plan.count] {
                for first in (0..if QUAD { 4 } else { 16 } / ROWS).map(|i| i * ROWS) {
                    for lane in (0..16 / v::LANES).map(|i| i * v::LANES) {
                        let (a, b) = sources::<ROWS, QUAD>(scratch, job, first, lane);
                        let mut sums = [v::splat_i(0); ROWS];
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            *sum = v::bits(unsafe { v::load(d.as_ptr().add(at).cast()) });
                        }
                        for k in 0..length {
                            // SAFETY: k is a row of the panels, `sources` checked the columns.
                            unsafe {
                                let b = v::bits(v::load(b.add(k * STRIDE)));
                                for (row, sum) in sums.iter_mut().enumerate() {
                                    let a = v::bits(a_at::<QUAD>(a.add(k * STRIDE), row));
                                    *sum = v::dot_pairs(a, b, *sum);
                                }
                            }
                        }
                        for (row, sum) in sums.into_iter().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            unsafe { v::store(d.as_mut_ptr().add(at).cast(), v::float(sum)) };
                        }
                    }
                }
            }
        }

        /// 16-bit C to f32 accumulators. Two rows share a register, or (RDNA3) a row takes the
        /// given half of one.
        ///
        /// # Safety
        /// The host must support the features; rows must have the lanes of a wave.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn widen(element: Element, half: Option<u8>, c: COperand<'_>, old: &[[u32; 64]], d: &mut [[u32; 64]]) {
            let per_register = if half.is_some() { 1 } else { 2 };
            for (register, out) in d.chunks_mut(per_register).enumerate() {
                for lane in (0..64 / v::LANES).map(|i| i * v::LANES) {
                    let x = match c {
                        COperand::Constant(bits) => v::splat_i((bits as u32 & 0xffff | (bits as u32) << 16) as i32),
                        COperand::InPlace => {
                            // SAFETY: a row of D has 64 words.
                            v::bits(unsafe { v::load(old[register].as_ptr().add(lane).cast()) })
                        }
                        COperand::Rows(rows) => {
                            let Some(words) = rows[register].get(lane..lane + v::LANES) else {
                                continue;
                            };
                            // SAFETY: `words` has LANES words.
                            v::bits(unsafe { v::load(words.as_ptr().cast()) })
                        }
                    };
                    let (low, high) = if element == Element::F16 {
                        v::halves(x)
                    } else {
                        (v::float(v::shl::<16>(x)), v::float(v::and(x, v::splat_i(!0xffff))))
                    };
                    let values = if half == Some(1) { [high, high] } else { [low, high] };
                    for (row, value) in out.iter_mut().zip(values) {
                        // SAFETY: a row has 64 words.
                        unsafe { v::store(row.as_mut_ptr().add(lane).cast(), value) };
                    }
                }
            }
        }

        /// Rounds f32 sums to 16-bit D: the reverse of `widen`.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn narrow(element: Element, half: Option<u8>, wave: usize, sums: &[[u32; 64]], d: &mut [[u32; 64]]) {
            let per_register = if half.is_some() { 1 } else { 2 };
            for (sums, out) in sums.chunks(per_register).zip(d) {
                for lane in (0..wave / v::LANES).map(|i| i * v::LANES) {
                    let round = |row: usize| {
                        let from = &sums[row][lane..lane + v::LANES];
                        // SAFETY: `from` has LANES words.
                        let x = unsafe { v::load(from.as_ptr().cast()) };
                        if element == Element::F16 { v::to_f16(x) } else { to_bf16(x) }
                    };
                    let to = &mut out[lane..lane + v::LANES];
                    // SAFETY: `to` has LANES words.
                    unsafe {
                        let old = v::bits(v::load(to.as_ptr().cast()));
                        let new = match half {
                            None => v::or(round(0), v::shl::<16>(round(1))),
                            Some(0) => v::or(v::and(old, v::splat_i(!0xffff)), round(0)),
                            Some(_) => v::or(v::and(old, v::splat_i(0xffff)), v::shl::<16>(round(0))),
                        };
                        v::store(to.as_mut_ptr().cast(), v::float(new));
                    }
                }
            }
        }

        /// Rounds to bf16, in the low halves; NaN becomes 0x7fc0.
        #[inline]
        #[target_feature(enable = $features)]
        fn to_bf16(x: v::F) -> v::I {
            let bits = v::bits(v::canonical(x));
            let odd = v::and(v::shr::<16>(bits), v::splat_i(1));
            let rounded = v::add_i(v::add_i(bits, v::splat_i(0x7fff)), odd);
            // The NaN has no low bits: rounding leaves it.
            v::shr::<16>(rounded)
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
            assert!(a + if QUAD { v::LANES } else { ROWS } <= STRIDE);
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
            assert!(length <= MAX_K && plan.fits(d.len()));
            for job in &plan.jobs[..plan.count] {
                for first in (0..if QUAD { 4 } else { 16 } / ROWS).map(|i| i * ROWS) {
                    for lane in (0..16 / v::LANES).map(|i| i * v::LANES) {
                        let (a, b) = sources::<ROWS, QUAD>(scratch, job, first, lane);
                        let mut sums = [v::zero(); ROWS];
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            *sum = unsafe { v::load(d.as_ptr().add(at).cast()) };
                        }
                        for k in 0..length {
                            // SAFETY: k is a row of the panels, `sources` checked the columns.
                            unsafe {
                                let b = v::load(b.add(k * STRIDE));
                                for (row, sum) in sums.iter_mut().enumerate() {
                                    *sum = v::fma(a_at::<QUAD>(a.add(k * STRIDE), row), b, *sum);
                                }
                            }
                        }
                        for (row, sum) in sums.into_iter().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            unsafe { v::store(d.as_mut_ptr().add(at).cast(), v::canonical(sum)) };
                        }
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
            assert!(length <= MAX_K && length % GROUP == 0 && plan.fits(d.len()));
            let limit = v::splat(f32::MIN_POSITIVE);
            for job in &plan.jobs[..plan.count] {
                for first in (0..if QUAD { 4 } else { 16 } / ROWS).map(|i| i * ROWS) {
                    for lane in (0..16 / v::LANES).map(|i| i * v::LANES) {
                        let (a, b) = sources::<ROWS, QUAD>(scratch, job, first, lane);
                        let mut sums = [v::zero(); ROWS];
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            *sum = unsafe { v::load(d.as_ptr().add(at).cast()) };
                        }
                        if FLUSH {
                            for sum in &mut sums {
                                *sum = v::flush_positive(*sum, limit);
                            }
                        }
                        for k in (0..length / GROUP).map(|i| i * GROUP) {
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
                        for (row, sum) in sums.into_iter().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            unsafe { v::store(d.as_mut_ptr().add(at).cast(), v::canonical(sum)) };
                        }
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

        /// Magnitudes and lowest bits in the first `lanes` of every row.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn range(rows: &[[f32; STRIDE]], lanes: usize) -> Range {
            let all = v::splat_i(-1);
            let (mut top, mut low, mut zero, mut unit) = (v::splat_i(0), all, all, v::splat_i(i32::MAX));
            let fraction = v::splat_i(0x7f_ffff);
            for row in rows {
                for lane in (0..lanes.min(STRIDE) / v::LANES).map(|i| i * v::LANES) {
                    // SAFETY: `lane + LANES` is at most STRIDE.
                    let x = v::bits(unsafe { v::load(row.as_ptr().add(lane)) });
                    let x = v::and(x, v::splat_i(i32::MAX));
                    let less = v::add_i(x, all);
                    top = v::max_i(top, x);
                    // Zero wraps to the largest number.
                    low = v::min_u(low, less);
                    zero = v::min_u(zero, x);
                    // Without its lowest bit a number is smaller by this bit's value; a power of
                    // two (no fraction bits, or a zero) is its own lowest bit.
                    let bit = v::bits(v::sub(v::float(x), v::float(v::and(x, less))));
                    let power = v::equal(v::and(x, fraction), v::splat_i(0));
                    let bit = v::select(power, x, bit);
                    // Zero has no lowest bit.
                    unit = v::min_u(unit, v::add_i(bit, all));
                }
            }
            Range {
                top: lanes_of(v::float(top)).map(f32::to_bits).into_iter().max().unwrap_or(0),
                low: lanes_of(v::float(low)).map(f32::to_bits).into_iter().min().unwrap_or(0).wrapping_add(1),
                unit: lanes_of(v::float(unit)).map(f32::to_bits).into_iter().min().unwrap_or(0).wrapping_add(1),
                zeros: lanes_of(v::float(zero)).map(f32::to_bits).contains(&0),
            }
        }

        /// Whether an accumulator other than zero is smaller than `least`.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn has_smaller(d: &[u32], least: f32) -> bool {
            let mut low = v::splat_i(-1);
            for words in d.chunks_exact(v::LANES) {
                // SAFETY: `words` has LANES words.
                let x = v::bits(unsafe { v::load(words.as_ptr().cast()) });
                // Zero wraps to the largest number.
                low = v::min_u(low, v::add_i(v::and(x, v::splat_i(i32::MAX)), v::splat_i(-1)));
            }
            lanes_of(v::float(low)).iter().any(|x| x.to_bits() < least.to_bits() - 1)
        }

        /// Turns zeros of D into +0.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn clear_signs_of_zeros(d: &mut [u32], wave: usize) {
            for words in d.chunks_exact_mut(64).flat_map(|row| row[..wave].chunks_exact_mut(v::LANES)) {
                // SAFETY: `words` has LANES words.
                unsafe {
                    let x = v::load(words.as_ptr().cast());
                    v::store(words.as_mut_ptr().cast(), v::add(x, v::zero()));
                }
            }
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
                for lane in (0..lanes.min(STRIDE) / v::LANES).map(|i| i * v::LANES) {
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

        /// CDNA3's fused sums of groups of `group` products; `PARITY` splits even from odd k.
        ///
        /// Per lane: E, the largest exponent sum of the group, comes from byte arithmetic over
        /// 16 columns. The products are exact in f32 and stay so when scaled to 2^(E - 24), so
        /// that the conversion to i32 is the truncation towards zero. See [`tail`] for the rest.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn fused(scratch: &mut Scratch, k: usize, plan: &Plan, d: &mut [u32], shape: &Fused) {
            match (shape.group, shape.parity, plan.quad) {
                (4, false, false) => fused_rows::<4, false, false>(scratch, k, plan, d, shape),
                (4, false, true) => fused_rows::<4, false, true>(scratch, k, plan, d, shape),
                (8, false, false) => fused_rows::<8, false, false>(scratch, k, plan, d, shape),
                (16, true, false) => fused_rows::<16, true, false>(scratch, k, plan, d, shape),
                _ => unreachable!("no instruction has such groups: {shape:?}"),
            }
        }

        #[target_feature(enable = $features)]
        fn fused_rows<const GROUP: usize, const PARITY: bool, const QUAD: bool>(
            scratch: &mut Scratch,
            length: usize,
            plan: &Plan,
            d: &mut [u32],
            shape: &Fused,
        ) {
            assert!(length <= MAX_K && length % GROUP == 0 && plan.fits(d.len()));
            let rows = if QUAD { 4 } else { 16 };
            let groups = length / GROUP;
            let halves = if PARITY { 2 } else { 1 };
            let bias = (shape.bases.0 + shape.bases.1 + 127) as u8;
            // All exponents first: they are stored by the row and loaded by the lane, which must
            // not follow too closely.
            let Scratch { ea, eb, tops, .. } = scratch;
            let tops = &mut tops[..plan.count * groups * halves];
            for (index, tops) in tops.chunks_exact_mut(halves).enumerate() {
                let job = &plan.jobs[index / groups];
                let first = index % groups * GROUP;
                let (ea, eb) = (&ea[first..first + GROUP], &eb[first..first + GROUP]);
                if QUAD {
                    v::quad_exponents(ea, eb, job.b, shape.floor, bias, &mut tops[0]);
                } else if PARITY {
                    v::exponents::<0, 2>(ea, job.a, eb, job.b, shape.floor, bias, &mut tops[0]);
                    v::exponents::<1, 2>(ea, job.a, eb, job.b, shape.floor, bias, &mut tops[1]);
                } else {
                    v::exponents::<0, 1>(ea, job.a, eb, job.b, shape.floor, bias, &mut tops[0]);
                }
            }
            let scratch = &*scratch;
            let mut general = false;
            for (index, job) in plan.jobs[..plan.count].iter().enumerate() {
                for group in 0..groups {
                    let first = group * GROUP;
                    let tops = &scratch.tops[(index * groups + group) * halves..][..halves];
                    for lane in (0..16 / v::LANES).map(|i| i * v::LANES) {
                        let (a, b) = sources::<16, QUAD>(scratch, job, 0, lane);
                        // SAFETY: `first` is a row of the panels.
                        let a = unsafe { a.add(first * STRIDE) };
                        let mut bs = [v::zero(); GROUP];
                        for (i, x) in bs.iter_mut().enumerate() {
                            // SAFETY: first + i is a row of the panels, `sources` checked the columns.
                            *x = unsafe { v::load(b.add((first + i) * STRIDE)) };
                        }
                        for row in 0..rows {
                            let at = job.d + lane + plan.rows[row];
                            // SAFETY: `fits` checked that LANES words follow `at`; rows of `tops`
                            // have 16 bytes.
                            let (old, top0, top1) = unsafe {
                                let old = v::load(d.as_ptr().add(at).cast());
                                let top0 = v::load_bytes(tops[0][row].as_ptr().add(lane));
                                (old, top0, v::load_bytes(tops[halves - 1][row].as_ptr().add(lane)))
                            };
                            let top0 = v::shl::<23>(top0);
                            // SAFETY: `a` points to the strip in the first of GROUP rows.
                            let (top, sum) = unsafe {
                                if PARITY {
                                    let top1 = v::shl::<23>(top1);
                                    let sum0 = products::<GROUP, QUAD, 0, 2>(a, &bs, row, top0);
                                    let sum1 = products::<GROUP, QUAD, 1, 2>(a, &bs, row, top1);
                                    let top = v::max_i(top0, top1);
                                    let (gap0, gap1) = (v::sub_i(top, top0), v::sub_i(top, top1));
                                    let sum0 = v::sar_each(sum0, v::shr::<23>(gap0));
                                    let sum1 = v::sar_each(sum1, v::shr::<23>(gap1));
                                    (top, v::add_i(sum0, sum1))
                                } else {
                                    (top0, products::<GROUP, QUAD, 0, 1>(a, &bs, row, top0))
                                }
                            };
                            let result = tail::<PARITY>(sum, top, scale_of(top), old, &mut general);
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            unsafe { v::store(d.as_mut_ptr().add(at).cast(), result) };
                        }
                    }
                }
            }
        }

        /// The lanes of a vector.
        #[target_feature(enable = $features)]
        fn lanes_of(x: v::F) -> [f32; v::LANES] {
            let mut out = [0.0; v::LANES];
            // SAFETY: `out` has LANES elements.
            unsafe { v::store(out.as_mut_ptr(), x) };
            out
        }

        /// 2^(24 - E) of the bits of 2^E: the exponent field is 24 + 127 - E, that is 278 less the
        /// field of 2^E.
        #[inline]
        #[target_feature(enable = $features)]
        fn scale_of(top: v::I) -> v::F {
            v::float(v::sub_i(v::splat_i(278 << 23), top))
        }

        /// Sum of the products of every `STEP`th k from `START`, each truncated towards zero to a
        /// multiple of 2^(E - 24), in these units. `top` has E as the bits of 2^E.
        ///
        /// # Safety
        /// `a` must point to row 0 of the strip in the first of GROUP rows of A's panel.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn products<const GROUP: usize, const QUAD: bool, const START: usize, const STEP: usize>(
            a: *const f32,
            b: &[v::F; GROUP],
            row: usize,
            top: v::I,
        ) -> v::I {
            let scale = scale_of(top);
            let mut sum = v::splat_i(0);
            let mut k = START;
            while k < GROUP {
                // SAFETY: by the contract of this function.
                let product = v::mul(unsafe { a_at::<QUAD>(a.add(k * STRIDE), row) }, b[k]);
                sum = v::add_i(sum, v::truncate(v::mul(product, scale)));
                k += STEP;
            }
            sum
        }

        /// Adds the accumulator `s` to a group's sum `sum x 2^(E - 24)` and rounds once. `scale` is
        /// 2^(24 - E), `top` has the bits of 2^E.
        ///
        /// With E2 = max(E, e(s)) and g = E2 - E the accumulator counts as floor(s x 2^(24 - E2))
        /// in units of 2^(E2 - 24), and the sum is floored to multiples of 2^(E2 - 31).
        ///
        /// If g <= 5 that takes nothing from the sum. If g = 0, E2 is E; if g > 0, E2 is e(s) and
        /// the floor takes nothing from s. So either way the accumulator is floor(s x 2^(24 - E))
        /// in the units of the sum, below 2^30. The sum is below 8 x 4 x 2^24 (PARITY: 16 products
        /// below 1.875^2 x 2^24), so an i32 holds the total, the conversion to f32 is the one
        /// rounding, and the product with the unit is exact.
        #[inline]
        #[target_feature(enable = $features)]
        fn tail<const PARITY: bool>(sum: v::I, top: v::I, scale: v::F, s: v::F, general: &mut bool) -> v::F {
            let accumulator = v::floor_product::<PARITY>(s, scale);
            // Out of range, infinite and NaN accumulators convert to -2^31.
            let limit = v::splat_i(1 << 30);
            let above = v::add_i(accumulator, limit);
            *general = *general || v::mask_bits(v::greater(v::splat_i(0), above)) != 0;
            if *general {
                return tail_general::<PARITY>(sum, top, s);
            }
            let unit = v::float(v::sub_i(top, v::splat_i(24 << 23)));
            v::mul(v::convert(v::add_i(sum, accumulator)), unit)
        }

        /// [`tail`] for any g.
        ///
        /// If g > 5 the sum loses g - 5 bits, at most two of which (the floor at 2^(E2 - 31) drops
        /// the others) are not zero by rule: they are jammed into the lowest bit, in units of
        /// 2^(E2 - 29). That is right if the total has 26 bits at least, two more than the result.
        /// |s| is 2^E2 or more. Without PARITY the sum is below 2^(E + 5), so the total is at
        /// least 2^(E2 - 1), 2^28 units. With PARITY the sum is below 16 x 1.875^2 < 57 times 2^E,
        /// so the total is above 7 x 2^(E2 - 6), 2^25 units.
        #[target_feature(enable = $features)]
        fn tail_general<const PARITY: bool>(sum: v::I, top: v::I, s: v::F) -> v::F {
            let infinity = v::splat_i(0x7f80_0000);
            let power = v::and(v::bits(s), infinity);
            let top2 = v::max_i(top, power);
            let scale = v::float(v::sub_i(v::splat_i(278 << 23), top2));
            let accumulator = v::floor_product::<PARITY>(s, scale);
            let gap = v::shr::<23>(v::sub_i(top2, top));
            let (loss, floor) = (v::sub_floor(gap, v::splat_i(5)), v::sub_floor(gap, v::splat_i(7)));
            let floored = v::sar_each(sum, floor);
            let rest = v::sub_i(loss, floor);
            let kept = v::sar_each(floored, rest);
            let exact = v::equal(v::shl_each(kept, rest), floored);
            let jammed = v::select(exact, kept, v::or(kept, v::splat_i(1)));
            let total = v::add_i(jammed, v::shl_each(accumulator, v::sub_i(gap, loss)));
            let unit = v::add_i(v::sub_i(top, v::splat_i(24 << 23)), v::shl::<23>(loss));
            let result = v::mul(v::convert(total), v::float(unit));
            // An infinite or NaN accumulator stays.
            let special = v::equal(power, infinity);
            v::float(v::select(special, v::bits(v::canonical(s)), v::bits(result)))
        }

        /// RDNA3's steps of two products, where f64 holds every sum exactly.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn dot2(scratch: &Scratch, length: usize, plan: &Plan, d: &mut [u32]) {
            assert!(length <= MAX_K && length % 2 == 0 && plan.fits(d.len()));
            for job in &plan.jobs[..plan.count] {
                for first in (0..4).map(|i| i * 4) {
                    for lane in (0..16 / v::LANES).map(|i| i * v::LANES) {
                        let (a, b) = sources::<4, false>(scratch, job, first, lane);
                        let mut sums = [v::zero(); 4];
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            *sum = unsafe { v::load(d.as_ptr().add(at).cast()) };
                        }
                        for k in (0..length / 2).map(|i| i * 2) {
                            // SAFETY: k + 1 is a row of the panels, `sources` checked the columns.
                            unsafe {
                                let (a0, a1) = (a.add(k * STRIDE), a.add((k + 1) * STRIDE));
                                let b0 = v::widen(v::load(b.add(k * STRIDE)));
                                let b1 = v::widen(v::load(b.add((k + 1) * STRIDE)));
                                for (row, sum) in sums.iter_mut().enumerate() {
                                    let a0 = v::splat_d(f64::from(*a0.add(row)));
                                    let a1 = v::splat_d(f64::from(*a1.add(row)));
                                    let (low, high) = v::widen(*sum);
                                    let low = v::fma_d(a1, b1.0, v::fma_d(a0, b0.0, low));
                                    let high = v::fma_d(a1, b1.1, v::fma_d(a0, b0.1, high));
                                    *sum = v::narrow(low, high);
                                }
                            }
                        }
                        for (row, sum) in sums.into_iter().enumerate() {
                            let at = job.d + lane + plan.rows[first + row];
                            // SAFETY: `fits` checked that LANES words follow `at`.
                            unsafe { v::store(d.as_mut_ptr().add(at).cast(), sum) };
                        }
                    }
                }
            }
        }

        /// Block-scaled sums: per block an exact dot product, in f32 if `single` says that it
        /// holds it, else in f64; times the scale factors, added to the accumulator with one
        /// rounding.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn scaled(scratch: &Scratch, length: usize, plan: &Plan, d: &mut [u32], scales: &Scales, single: bool) {
            assert!(length <= MAX_K && length % scales.block == 0 && plan.fits(d.len()));
            // B of one block and strip as f64, if needed.
            let mut wide = [[0f64; v::LANES]; 32];
            for job in &plan.jobs[..plan.count] {
                for (group, k) in (0..length / scales.block).map(|i| (i, i * scales.block)) {
                    for lane in (0..16 / v::LANES).map(|i| i * v::LANES) {
                        let (a, b) = sources::<16, false>(scratch, job, 0, lane);
                        // SAFETY: k is a row of the panels.
                        let (a, b) = unsafe { (a.add(k * STRIDE), b.add(k * STRIDE)) };
                        if !single {
                            for (i, wide) in wide[..scales.block].iter_mut().enumerate() {
                                // SAFETY: k + i is a row of the panels, `wide` has LANES doubles.
                                unsafe {
                                    let (low, high) = v::widen(v::load(b.add(i * STRIDE)));
                                    v::store_d(wide.as_mut_ptr(), low);
                                    v::store_d(wide.as_mut_ptr().add(v::LANES / 2), high);
                                }
                            }
                        }
                        let columns = scales.b[group][job.b + lane..][..v::LANES].as_ptr();
                        // SAFETY: `columns` has LANES doubles.
                        let columns = unsafe { (v::load_d(columns), v::load_d(columns.add(v::LANES / 2))) };
                        for first in (0..4).map(|i| i * 4) {
                            // SAFETY: `a` points to 16 rows in `block` panel rows.
                            let dots = unsafe {
                                if single {
                                    dots_single(a.add(first), b, scales.block)
                                } else {
                                    dots_double(a.add(first), &wide[..scales.block])
                                }
                            };
                            for (row, (low, high)) in dots.into_iter().enumerate() {
                                let at = job.d + lane + plan.rows[first + row];
                                let scale = v::splat_d(scales.a[group][job.a + first + row]);
                                // SAFETY: `fits` checked that LANES words follow `at`.
                                unsafe {
                                    let p = d.as_mut_ptr().add(at).cast();
                                    let old = v::widen(v::load(p));
                                    let low = v::mul_d(low, v::mul_d(scale, columns.0));
                                    let high = v::mul_d(high, v::mul_d(scale, columns.1));
                                    let sum = v::narrow(v::add_odd(old.0, low), v::add_odd(old.1, high));
                                    v::store(p, v::canonical(sum));
                                }
                            }
                        }
                    }
                }
            }
        }

        /// Dot products of four rows in f32.
        ///
        /// # Safety
        /// `a` and `b` must point into `count` panel rows, with 4 and LANES columns.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn dots_single(a: *const f32, b: *const f32, count: usize) -> [(v::D, v::D); 4] {
            let mut sums = [v::zero(); 4];
            for k in 0..count {
                // SAFETY: by the contract of this function.
                unsafe {
                    let b = v::load(b.add(k * STRIDE));
                    for (row, sum) in sums.iter_mut().enumerate() {
                        *sum = v::fma(v::splat(*a.add(k * STRIDE + row)), b, *sum);
                    }
                }
            }
            [v::widen(sums[0]), v::widen(sums[1]), v::widen(sums[2]), v::widen(sums[3])]
        }

        /// Dot products of four rows in f64.
        ///
        /// # Safety
        /// `a` must point into as many panel rows as `b` has, with 4 columns.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn dots_double(a: *const f32, b: &[[f64; v::LANES]]) -> [(v::D, v::D); 4] {
            let zero = v::splat_d(0.0);
            let mut sums = [(zero, zero); 4];
            for (k, b) in b.iter().enumerate() {
                // SAFETY: by the contract of this function; `b` has LANES doubles.
                unsafe {
                    let (low, high) = (v::load_d(b.as_ptr()), v::load_d(b.as_ptr().add(v::LANES / 2)));
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let a = v::splat_d(f64::from(*a.add(k * STRIDE + row)));
                        *sum = (v::fma_d(a, low, sum.0), v::fma_d(a, high, sum.1));
                    }
                }
            }
            sums
        }

        /// f64 products: 16x16x4, or four blocks of 4x4x4. `signs` flips A, B and C.
        ///
        /// # Safety
        /// The host must support the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn double(a: &[&[u32]], b: &[&[u32]], d: &mut [[u32; 64]], blocks: usize, signs: [u64; 3]) {
            let join = |rows: &[&[u32]], sign: u64| {
                let mut out = [[0f64; 16]; 4];
                for (lane, out) in out.as_flattened_mut().iter_mut().enumerate() {
                    let bits = u64::from(rows[0][lane]) | u64::from(rows[1][lane]) << 32;
                    *out = f64::from_bits(bits ^ sign);
                }
                out
            };
            let (a, b) = (join(a, signs[0]), join(b, signs[1]));
            for (item, pair) in d.chunks_exact_mut(2).enumerate() {
                let [low, high] = pair else { continue };
                for quarter in 0..4 {
                    let lanes = 16 * quarter..16 * quarter + 16;
                    let (low, high) = (&mut low[lanes.clone()], &mut high[lanes]);
                    let mut sums = [0f64; 16];
                    for ((sum, low), high) in sums.iter_mut().zip(&*low).zip(&*high) {
                        let bits = u64::from(*low) | u64::from(*high) << 32;
                        *sum = f64::from_bits(bits ^ signs[2]);
                    }
                    for (a, b) in a.iter().zip(&b) {
                        // One row for all columns, or row `quarter` of four blocks.
                        let mut row = [a[(4 * item + quarter) % 16]; 16];
                        if blocks == 4 {
                            row = std::array::from_fn(|lane| a[lane / 4 * 4 + quarter]);
                        }
                        for lane in 0..16 {
                            sums[lane] = row[lane].mul_add(b[lane], sums[lane]);
                        }
                    }
                    for ((sum, low), high) in sums.iter().zip(low).zip(high) {
                        let bits = if sum.is_nan() { NAN64 } else { sum.to_bits() };
                        (*low, *high) = (bits as u32, (bits >> 32) as u32);
                    }
                }
            }
        }
    };
}
pub(super) use vector_kernels;
