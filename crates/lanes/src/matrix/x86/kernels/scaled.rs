//! Block-scaled sums, see `matrix::scaled`.

use super::super::super::Pointers;
use super::super::super::formats;
use super::super::super::op::{Kind, MatrixOp, ScaleFormat};
use super::super::super::unpack::scale_bytes;
use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{Strip, Sums, a_at, columns, sources, strips, unroll};

/// Scale factors of a scaled instruction, by block of K: for each row of A's and each column of B's panel.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Elements along K that share a factor.
    pub block: usize,
    blocks: usize,
    formats: [ScaleFormat; 2],
    bytes: [[[u8; LINES]; BLOCKS]; 2],
    /// Whether f32 holds every factor and every product of two, none of them subnormal.
    single: bool,
}

/// Most rows or columns.
const LINES: usize = 32;
/// Most blocks along K.
const BLOCKS: usize = 8;

impl Scales {
    /// # Safety
    /// The scale operands must have the registers that the instruction needs.
    #[inline(always)]
    pub unsafe fn new(op: &MatrixOp, block: usize, operands: &Pointers<'_>) -> Scales {
        let mods = &op.mods;
        // The byte of a factor of one.
        let mut scales = Scales {
            block,
            blocks: op.k / block,
            formats: [ScaleFormat::E8m0; 2],
            bytes: [[[127; LINES]; BLOCKS]; 2],
            single: true,
        };
        if op.kind != Kind::Scaled {
            return scales;
        }
        scales.formats = [mods.scale_fmt_a, mods.scale_fmt_b];
        let given = [
            (operands.scale_a, op.m, mods.scale_sel_a),
            (operands.scale_b, op.n, mods.scale_sel_b),
        ];
        let blocks = op.k / block;
        let mut bounds = [(0.0, 0.0); 2];
        for (i, (scale, lines, sel)) in given.into_iter().enumerate() {
            let bytes = &mut scales.bytes[i][..blocks];
            for (group, out) in bytes.iter_mut().enumerate() {
                // SAFETY: by the contract of this function.
                unsafe { scale_bytes(op, scale, group, sel, &mut out[..lines]) };
            }
            bounds[i] = scales.bounds(i, lines);
        }
        // Factors have four significant bits at most.
        let range = 2f64.powi(-120)..2f64.powi(120);
        let inside = |x: f64, y: f64| [x, y, x * y].iter().all(|x| range.contains(x));
        scales.single = inside(bounds[0].0, bounds[1].0) && inside(bounds[0].1, bounds[1].1);
        scales
    }

    /// The least and the largest factor of an operand; the least is 0 if any is zero or NaN.
    #[inline(always)]
    fn bounds(&self, operand: usize, lines: usize) -> (f64, f64) {
        let format = self.formats[operand];
        let bytes = self.bytes[operand][..self.blocks]
            .iter()
            .map(|bytes| &bytes[..lines]);
        if format == ScaleFormat::E8m0 {
            let (mut least, mut most) = (u8::MAX, 0);
            for &byte in bytes.flatten() {
                (least, most) = (byte.min(least), byte.max(most));
            }
            let least = if most == u8::MAX {
                0.0
            } else {
                decode(format, least)
            };
            return (least, decode(format, most));
        }
        let (mut least, mut most) = (f64::MAX, 0f64);
        for &byte in bytes.flatten() {
            let factor = decode(format, byte);
            least = least.min(if factor > 0.0 { factor } else { 0.0 });
            most = most.max(factor);
        }
        (least, most)
    }

    /// The factors of an operand in f32, if they are `single`.
    #[inline(always)]
    fn singles(&self, operand: usize) -> [[f32; LINES]; BLOCKS] {
        let format = self.formats[operand];
        let mut out = [[1.0; LINES]; BLOCKS];
        for (bytes, out) in self.bytes[operand].iter().zip(&mut out).take(self.blocks) {
            for (byte, out) in bytes.iter().zip(out) {
                *out = if format == ScaleFormat::E8m0 {
                    f32::from_bits(u32::from(*byte) << 23)
                } else {
                    decode(format, *byte) as f32
                };
            }
        }
        out
    }

    /// The factors of an operand.
    #[inline(always)]
    fn doubles(&self, operand: usize) -> [[f64; LINES]; BLOCKS] {
        let format = self.formats[operand];
        let mut out = [[1.0; LINES]; BLOCKS];
        for (bytes, out) in self.bytes[operand].iter().zip(&mut out).take(self.blocks) {
            for (byte, out) in bytes.iter().zip(out) {
                *out = decode(format, *byte);
            }
        }
        out
    }
}

/// The value of a scale factor.
#[inline(always)]
fn decode(format: ScaleFormat, byte: u8) -> f64 {
    match format {
        ScaleFormat::E8m0 if byte == 0xff => f64::NAN,
        // 2^(byte - 127).
        ScaleFormat::E8m0 => f64::from_bits((u64::from(byte) + 896) << 52),
        _ => match formats::decode_scale(format, byte) {
            Some((significand, exponent)) => significand as f64 * 2f64.powi(exponent),
            None => f64::NAN,
        },
    }
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
    assert!(length <= MAX_K && length == scales.block * scales.blocks && scales.blocks <= BLOCKS);
    let (factors_a, factors_b) = (scales.singles(0), scales.singles(1));
    let again = tile.again();
    for (group, first) in (0..scales.blocks).map(|i| (i, i * scales.block)) {
        // The sums go on in D.
        let tile = if group == 0 { tile } else { &again };
        let factors = (&factors_a[group], &factors_b[group]);
        let rows = (first, scales.block);
        strips!(V, L, plan, (job, number, row, lane) => {
            // SAFETY: by the contract of this function; the panels have the rows.
            unsafe { single::<V, L>(scratch, rows, job, tile, factors) };
        });
    }
}

/// One strip, over `count` panel rows from `first` on.
///
/// # Safety
/// As for `scaled`; the panels must have the rows.
#[inline(always)]
unsafe fn single<V: Vector, L: Layout>(
    scratch: &Scratch,
    (first, count): (usize, usize),
    job: &Job,
    tile: &Tile,
    (factors_a, factors_b): (&[f32; LINES], &[f32; LINES]),
) {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let (a, b) = Strip::<V, L>::sources(scratch, job);
    let mut dots: Sums<V> = [[V::zero(); 2]; 16];
    let factors_a = &factors_a[job.a..][..L::source(rows - 1) + 1];
    let factors_b = &factors_b[job.b..][..columns * V::LANES];
    // SAFETY: by the contract of this function; `sources` checked the columns.
    unsafe {
        for k in first..first + count {
            let (a, b) = (a.add(k * STRIDE), b.add(k * STRIDE));
            let mut bs = [V::zero(); 2];
            columns!(columns, column => {
                bs[column] = V::load(b.add(column * V::LANES));
            });
            unroll!(rows, row => {
                columns!(columns, column => {
                    let a = a_at::<V, L>(a, row);
                    dots[row][column] = V::fma(a, bs[column], dots[row][column]);
                });
            });
        }
        unroll!(rows, row => {
            let factor = V::splat(factors_a[L::source(row)]);
            columns!(columns, column => {
                let lane = column * V::LANES;
                let scale = V::mul(factor, V::load(factors_b[lane..].as_ptr()));
                let old = V::load(tile.c::<L>(job, row, lane));
                dots[row][column] = V::fma(dots[row][column], scale, old);
            });
        });
        Strip::<V, L>::store(dots, job, tile);
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
    assert!(length <= MAX_K && length == scales.block * scales.blocks && scales.blocks <= BLOCKS);
    let (factors_a, factors_b) = (scales.doubles(0), scales.doubles(1));
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
                let columns = load_pair::<V>(&factors_b[group][job.b + lane..]);
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
                        let scale = V::splat_d(factors_a[group][job.a + L::source(row)]);
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
