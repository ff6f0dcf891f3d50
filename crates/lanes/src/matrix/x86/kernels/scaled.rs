//! Block-scaled sums, see `matrix::scaled`.

use super::super::super::Pointers;
use super::super::super::formats;
use super::super::super::op::{Kind, MatrixOp, ScaleFormat};
use super::super::super::unpack::scale_bytes;
use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{Strip, Sums, a_at, columns, strips, unroll};

/// Scale factors of a scaled instruction, by block of K: for each row of A's and each column of B's panel.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Elements along K that share a factor.
    pub block: usize,
    /// Blocks along K.
    pub blocks: usize,
    formats: [ScaleFormat; 2],
    bytes: [[[u8; LINES]; BLOCKS]; 2],
    /// Whether f32 holds every factor and every product of two, none of them subnormal.
    pub single: bool,
}

/// Most rows or columns.
pub const LINES: usize = 32;
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
            // Line by line, which a host does with vectors; lines beyond the operand's have a factor of one.
            let (mut leasts, mut mosts) = ([127; LINES], [127; LINES]);
            for bytes in &self.bytes[operand][..self.blocks] {
                for (i, &byte) in bytes.iter().enumerate() {
                    leasts[i] = byte.min(leasts[i]);
                    mosts[i] = byte.max(mosts[i]);
                }
            }
            let least = leasts.into_iter().fold(u8::MAX, u8::min);
            let most = mosts.into_iter().fold(0, u8::max);
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
    pub fn singles(&self, operand: usize) -> [[f32; LINES]; BLOCKS] {
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
    scratch: &mut Scratch,
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
    scratch: &mut Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    scales: &Scales,
    single: bool,
) {
    assert!(length <= MAX_K && length == scales.block * scales.blocks && scales.blocks <= BLOCKS);
    let (factors_a, factors_b) = (scales.doubles(0), scales.doubles(1));
    let again = tile.again();
    for (group, first) in (0..scales.blocks).map(|i| (i, i * scales.block)) {
        let tile = if group == 0 { tile } else { &again };
        if !single {
            let [wide_a, wide_b] = &mut scratch.wide;
            let widest =
                |column: fn(&Job) -> usize| plan.jobs().iter().map(column).max().unwrap_or(0);
            let (rows, columns) = (
                widest(|job| job.a + L::source(15)),
                widest(|job| job.b + 15),
            );
            for i in 0..scales.block.min(wide_a.len()) {
                widen::<V>(&scratch.a[first + i], &mut wide_a[i], rows);
                widen::<V>(&scratch.b[first + i], &mut wide_b[i], columns);
            }
        }
        let block = (first, scales.block);
        for job in plan.jobs() {
            for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
                let columns = load_pair::<V>(&factors_b[group][job.b + lane..]);
                for row in (0..16 / ROWS).map(|i| i * ROWS) {
                    let job = &job.at::<L>(row, lane);
                    // SAFETY: by the contract of this function; the panels have the rows of the block.
                    unsafe {
                        let dots = if single {
                            dots_single::<V, L>(scratch, block, job)
                        } else {
                            dots_double::<V, L>(scratch, scales.block, job)
                        };
                        let factors = &factors_a[group][job.a..];
                        unroll!(@ ROWS, row, {
                            let (low, high) = dots[row];
                            let scale = V::splat_d(factors[L::source(row)]);
                            let old = V::widen(V::load(tile.c::<L>(job, row, 0)));
                            let low = V::mul_d(low, V::mul_d(scale, columns.0));
                            let high = V::mul_d(high, V::mul_d(scale, columns.1));
                            let sum = V::narrow(V::add_odd(old.0, low), V::add_odd(old.1, high));
                            V::store(tile.d::<L>(job, row, 0), V::canonical(sum));
                        }, 0 1 2 3);
                    }
                }
            }
        }
    }
}

/// Rows whose dot products are formed at a time.
const ROWS: usize = 4;

/// The floats of a panel's row, up to a column, as doubles.
#[inline(always)]
fn widen<V: Vector>(row: &[f32; STRIDE], out: &mut [f64; STRIDE], last: usize) {
    for column in (0..=last.min(STRIDE - 1)).step_by(V::LANES) {
        // SAFETY: LANES divides STRIDE, the length of both rows.
        unsafe {
            let (low, high) = V::widen(V::load(row[column..].as_ptr()));
            let to = out[column..].as_mut_ptr();
            V::store_d(to, low);
            V::store_d(to.add(V::LANES / 2), high);
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

/// Dot products of the first ROWS rows of a job over `count` panel rows from `first` on, in f32.
///
/// # Safety
/// The panels must have the rows, and columns for the job.
#[inline(always)]
unsafe fn dots_single<V: Vector, L: Layout>(
    scratch: &Scratch,
    (first, count): (usize, usize),
    job: &Job,
) -> [(V::D, V::D); ROWS] {
    let mut sums = [V::zero(); ROWS];
    for k in first..first + count {
        let (a, b) = (&scratch.a[k][job.a..], &scratch.b[k][job.b..][..V::LANES]);
        // SAFETY: `b` has LANES floats.
        let b = unsafe { V::load(b.as_ptr()) };
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum = V::fma(V::splat(a[L::source(row)]), b, *sum);
        }
    }
    let [s0, s1, s2, s3] = sums;
    [V::widen(s0), V::widen(s1), V::widen(s2), V::widen(s3)]
}

/// The same of the wide panels, from their first row on, in f64.
///
/// # Safety
/// As for `dots_single`.
#[inline(always)]
unsafe fn dots_double<V: Vector, L: Layout>(
    scratch: &Scratch,
    count: usize,
    job: &Job,
) -> [(V::D, V::D); ROWS] {
    let zero = V::splat_d(0.0);
    let mut sums = [(zero, zero); ROWS];
    let [wide_a, wide_b] = &scratch.wide;
    assert!(job.a + L::source(ROWS - 1) < STRIDE);
    for (a, b) in wide_a.iter().zip(wide_b).take(count) {
        let (low, high) = load_pair::<V>(&b[job.b..]);
        for (row, sum) in sums.iter_mut().enumerate() {
            let a = V::splat_d(a[job.a + L::source(row)]);
            *sum = (V::fma_d(a, low, sum.0), V::fma_d(a, high, sum.1));
        }
    }
    sums
}
