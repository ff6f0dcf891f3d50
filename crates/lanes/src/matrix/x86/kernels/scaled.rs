//! Block-scaled sums, see `matrix::scaled`.

use super::super::super::formats;
use super::super::super::op::{Kind, MatrixOp, ScaleFormat};
use super::super::super::unpack::scale_byte;
use super::super::super::{Pointers, ScaleOperand};
use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, sources, unroll};

/// Scale factors of a scaled instruction, by block of K.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Elements along K that share a factor.
    pub block: usize,
    /// For each row of A's panel.
    pub a: [[f64; 32]; 8],
    /// For each column of B's panel.
    pub b: [[f64; 32]; 8],
    /// Whether f32 holds every factor and every product of two, none of them subnormal.
    pub single: bool,
}

impl Scales {
    /// # Safety
    /// The scale operands must have the registers that the instruction needs.
    pub unsafe fn new(op: &MatrixOp, block: usize, operands: &Pointers<'_>) -> Scales {
        let mut scales = Scales {
            block,
            a: [[1.0; 32]; 8],
            b: [[1.0; 32]; 8],
            single: true,
        };
        if op.kind != Kind::Scaled {
            return scales;
        }
        let mods = &op.mods;
        // SAFETY: by the contract of this function.
        let bounds = unsafe {
            [
                fill(
                    op,
                    (operands.scale_a, mods.scale_fmt_a, mods.scale_sel_a),
                    op.m,
                    &mut scales.a[..op.k / block],
                ),
                fill(
                    op,
                    (operands.scale_b, mods.scale_fmt_b, mods.scale_sel_b),
                    op.n,
                    &mut scales.b[..op.k / block],
                ),
            ]
        };
        let (least, most) = (bounds.map(|x| x.0), bounds.map(|x| x.1));
        // Factors have four significant bits at most.
        let range = 2f64.powi(-120)..2f64.powi(120);
        let inside =
            |x: [f64; 2]| x.iter().all(|x| range.contains(x)) && range.contains(&(x[0] * x[1]));
        scales.single = inside(least) && inside(most);
        scales
    }
}

/// The factors of `lines` rows or columns, and the least and the largest one; the least is 0 if
/// any is zero or NaN.
///
/// # Safety
/// The scale operand must have the registers that the instruction needs.
#[inline(always)]
unsafe fn fill(
    op: &MatrixOp,
    (scale, format, sel): (ScaleOperand<'_, *const u32>, ScaleFormat, u8),
    lines: usize,
    out: &mut [[f64; 32]],
) -> (f64, f64) {
    let (mut least, mut most) = (f64::MAX, 0f64);
    for (group, out) in out.iter_mut().enumerate() {
        for (line, out) in out.iter_mut().take(lines).enumerate() {
            // SAFETY: by the contract of this function.
            let byte = unsafe { scale_byte(op, scale, lines, line, group, sel) };
            *out = match format {
                ScaleFormat::E8m0 if byte == 0xff => f64::NAN,
                // 2^(byte - 127).
                ScaleFormat::E8m0 => f64::from_bits((u64::from(byte) + 896) << 52),
                _ => match formats::decode_scale(format, byte) {
                    Some((significand, exponent)) => significand as f64 * 2f64.powi(exponent),
                    None => f64::NAN,
                },
            };
            least = least.min(if *out > 0.0 { *out } else { 0.0 });
            most = most.max(*out);
        }
    }
    (least, most)
}

/// Block-scaled sums: per block an exact dot product, in f32 if `single` says that it
/// holds it, else in f64; times the scale factors, added to the accumulator with one
/// rounding.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn scaled<V: Vector>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    scales: &Scales,
    single: bool,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        if single && scales.single {
            by_layout!(
                plan,
                [Tall, Square, Wave32],
                L => singles::<V, L>(scratch, length, plan, tile, scales)
            );
        } else {
            by_layout!(
                plan,
                [Tall, Square, Wave32],
                L => rows::<V, L>(scratch, length, plan, tile, scales, single)
            );
        }
    }
}

/// Where f32 holds the dot products and the factors: one FMA scales a dot product and adds it.
///
/// # Safety
/// As for `scaled`.
#[inline(always)]
unsafe fn singles<V: Vector, L: Layout>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    scales: &Scales,
) {
    assert!(length <= MAX_K && length.is_multiple_of(scales.block));
    for job in plan.jobs() {
        for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: by the contract of this function.
            unsafe {
                single::<V, L, 0>(scratch, length, job, tile, scales, lane);
                single::<V, L, 8>(scratch, length, job, tile, scales, lane);
            }
        }
    }
}

/// Eight rows from FIRST on.
///
/// # Safety
/// As for `scaled`.
#[inline(always)]
unsafe fn single<V: Vector, L: Layout, const FIRST: usize>(
    scratch: &Scratch,
    length: usize,
    job: &Job,
    tile: &Tile,
    scales: &Scales,
    lane: usize,
) {
    let (a, b) = sources::<V, L>(scratch, job, lane);
    let mut sums = [V::zero(); 16];
    // SAFETY: by the contract of this function; `sources` checked the columns.
    unsafe {
        unroll!(8, row => {
            sums[row] = V::load(tile.c::<L>(job, FIRST + row, lane));
        });
        for (group, first) in (0..length / scales.block).map(|i| (i, i * scales.block)) {
            let mut dots = [V::zero(); 16];
            for k in first..first + scales.block {
                let (a, b) = (a.add(k * STRIDE), V::load(b.add(k * STRIDE)));
                unroll!(8, row => {
                    dots[row] = V::fma(a_at::<V, L>(a, FIRST + row), b, dots[row]);
                });
            }
            let (low, high) = load_pair::<V>(&scales.b[group][job.b + lane..]);
            let columns = V::narrow(low, high);
            let rows = &scales.a[group][job.a..];
            unroll!(8, row => {
                let scale = V::mul(V::splat(rows[L::source(FIRST + row)] as f32), columns);
                sums[row] = V::fma(dots[row], scale, sums[row]);
            });
        }
        unroll!(8, row => {
            V::store(tile.d::<L>(job, FIRST + row, lane), V::canonical(sums[row]));
        });
    }
}

/// # Safety
/// As for `scaled`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    scales: &Scales,
    single: bool,
) {
    assert!(length <= MAX_K && length.is_multiple_of(scales.block));
    let again = tile.again();
    // B of one block and strip as f64, if needed.
    let mut wide = [[0f64; 16]; 32];
    for job in plan.jobs() {
        for (group, k) in (0..length / scales.block).map(|i| (i, i * scales.block)) {
            let tile = if group == 0 { tile } else { &again };
            for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
                let (a, b) = sources::<V, L>(scratch, job, lane);
                // SAFETY: k is a row of the panels.
                let (a, b) = unsafe { (a.add(k * STRIDE), b.add(k * STRIDE)) };
                if !single {
                    for (i, wide) in wide[..scales.block].iter_mut().enumerate() {
                        // SAFETY: k + i is a row of the panels, `wide` has LANES doubles.
                        unsafe {
                            let (low, high) = V::widen(V::load(b.add(i * STRIDE)));
                            V::store_d(wide.as_mut_ptr(), low);
                            V::store_d(wide.as_mut_ptr().add(V::LANES / 2), high);
                        }
                    }
                }
                let columns = load_pair::<V>(&scales.b[group][job.b + lane..]);
                for first in (0..4).map(|i| i * 4) {
                    // SAFETY: `a` points to the rows of a job in `block` panel rows.
                    let dots = unsafe {
                        let a = a.add(L::source(first));
                        if single {
                            dots_single::<V>(a, b, scales.block)
                        } else {
                            dots_double::<V>(a, &wide[..scales.block])
                        }
                    };
                    for (row, (low, high)) in dots.into_iter().enumerate() {
                        let row = first + row;
                        let scale = V::splat_d(scales.a[group][job.a + L::source(row)]);
                        // SAFETY: the plan fits the tile.
                        unsafe {
                            let old = V::widen(V::load(tile.c::<L>(job, row, lane)));
                            let low = V::mul_d(low, V::mul_d(scale, columns.0));
                            let high = V::mul_d(high, V::mul_d(scale, columns.1));
                            let sum = V::narrow(V::add_odd(old.0, low), V::add_odd(old.1, high));
                            V::store(tile.d::<L>(job, row, lane), V::canonical(sum));
                        }
                    }
                }
            }
        }
    }
}

/// The first LANES doubles, in two vectors.
#[inline(always)]
fn load_pair<V: Vector>(from: &[f64]) -> (V::D, V::D) {
    let from = &from[..V::LANES];
    // SAFETY: `from` has LANES doubles.
    unsafe {
        (
            V::load_d(from.as_ptr()),
            V::load_d(from[V::LANES / 2..].as_ptr()),
        )
    }
}

/// Dot products of four rows in f32.
///
/// # Safety
/// `a` and `b` must point into `count` panel rows, with 4 and LANES columns.
#[inline(always)]
unsafe fn dots_single<V: Vector>(a: *const f32, b: *const f32, count: usize) -> [(V::D, V::D); 4] {
    let mut sums = [V::zero(); 4];
    for k in 0..count {
        // SAFETY: by the contract of this function.
        unsafe {
            let b = V::load(b.add(k * STRIDE));
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = V::fma(V::splat(*a.add(k * STRIDE + row)), b, *sum);
            }
        }
    }
    [
        V::widen(sums[0]),
        V::widen(sums[1]),
        V::widen(sums[2]),
        V::widen(sums[3]),
    ]
}

/// Dot products of four rows in f64.
///
/// # Safety
/// `a` must point into as many panel rows as `b` has, with 4 columns.
#[inline(always)]
unsafe fn dots_double<V: Vector>(a: *const f32, b: &[[f64; 16]]) -> [(V::D, V::D); 4] {
    let zero = V::splat_d(0.0);
    let mut sums = [(zero, zero); 4];
    for (k, b) in b.iter().enumerate() {
        // SAFETY: by the contract of this function; `b` has LANES doubles.
        unsafe {
            let (low, high) = (
                V::load_d(b.as_ptr()),
                V::load_d(b.as_ptr().add(V::LANES / 2)),
            );
            for (row, sum) in sums.iter_mut().enumerate() {
                let a = V::splat_d(f64::from(*a.add(k * STRIDE + row)));
                *sum = (V::fma_d(a, low, sum.0), V::fma_d(a, high, sum.1));
            }
        }
    }
    sums
}
