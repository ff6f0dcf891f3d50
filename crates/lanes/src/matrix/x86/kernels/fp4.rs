//! Block-scaled sums of E2M1 with AVX-512: twice a number is an integer, so dot products are sums of products of bytes,
//! four times as many at a time as of f32, and exact as well.

use super::super::plan::{Job, Layout, Plan, Unpack, by_layout};
use super::super::scratch::{Panel, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Bytes;
use super::scaled::{LINES, Scales};
use super::unpack::each;
use super::{Strip, Sums, a_at, columns, strips, unroll};

/// Twice the numbers.
const TWICE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
/// What A's have besides, so that they are not negative.
const OFFSET: i8 = 12;

/// Decodes an operand into bytes: of each word the even elements, then the odd ones. `offset` says that it is A.
///
/// # Safety
/// As for [`super::unpack::unpack`].
#[inline(always)]
pub unsafe fn unpack<V: Bytes>(
    what: &Unpack,
    first: usize,
    rows: &[*const u32],
    out: &mut Panel<f32>,
    offset: bool,
) {
    let table = TWICE.map(|x| if offset { x + OFFSET } else { x });
    let nibbles = V::splat_i(0x0f0f_0f0f);
    // SAFETY: the contract of `each` is that of this function.
    unsafe {
        each::<V, 2>(what, first, rows, out, |x| {
            [x, V::shr::<4>(x)].map(|x| V::float(V::lookup_bytes(&table, V::and(x, nibbles))))
        });
    }
}

/// Block-scaled sums, as [`super::scaled::scaled`]; false if f32 does not hold all factors, and then nothing is done.
///
/// # Safety
/// As for `scaled`.
#[inline(always)]
pub unsafe fn sums<V: Bytes>(scratch: &Scratch, plan: &Plan, tile: &Tile, scales: &Scales) -> bool {
    if !scales.single {
        return false;
    }
    // SAFETY: by the contract of this function.
    unsafe {
        by_layout!(
            plan,
            [Tall, Square, Wave32],
            L => rows::<V, L>(scratch, plan, tile, scales)
        );
    }
    true
}

/// # Safety
/// As for `sums`.
#[inline(always)]
unsafe fn rows<V: Bytes, L: Layout>(scratch: &Scratch, plan: &Plan, tile: &Tile, scales: &Scales) {
    let words = scales.block / 4;
    let (factors_a, factors_b) = (scales.singles(0), scales.singles(1));
    let columns = plan.jobs().iter().map(|job| job.b + 16).max().unwrap_or(0);
    let again = tile.again();
    let blocks = factors_a.iter().zip(&factors_b).take(scales.blocks);
    for (block, factors) in blocks.enumerate() {
        let rows = (block * words, words);
        // What the offset adds to the sums of each column, negative.
        let mut extra = [0f32; STRIDE];
        for column in (0..columns.min(STRIDE)).step_by(V::LANES) {
            let mut sum = V::splat_i(0);
            for row in &scratch.b[rows.0..][..words] {
                // SAFETY: the row has LANES words from there on.
                let b = V::bits(unsafe { V::load(row[column..].as_ptr()) });
                sum = V::dot_bytes(V::splat_i(0x0101_0101 * i32::from(OFFSET)), b, sum);
            }
            let sum = V::sub_i(V::splat_i(0), sum);
            // SAFETY: as above.
            unsafe { V::store(extra[column..].as_mut_ptr(), V::float(sum)) };
        }
        // The sums go on in D.
        let tile = if block == 0 { tile } else { &again };
        strips!(V, L, plan, (job, number, row, lane) => {
            // SAFETY: by the contract of this function; the panels have the rows.
            unsafe { strip::<V, L>(scratch, rows, job, tile, &extra, factors) };
        });
    }
}

/// One strip, over `count` panel rows from `first` on.
///
/// # Safety
/// As for `sums`; the panels must have the rows.
#[inline(always)]
unsafe fn strip<V: Bytes, L: Layout>(
    scratch: &Scratch,
    (first, count): (usize, usize),
    job: &Job,
    tile: &Tile,
    extra: &[f32; STRIDE],
    (factors_a, factors_b): (&[f32; LINES], &[f32; LINES]),
) {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let (a, b) = Strip::<V, L>::sources(scratch, job);
    let mut dots = [[V::splat_i(0); 2]; 16];
    let mut sums: Sums<V> = [[V::zero(); 2]; 16];
    let extra = &extra[job.b..][..columns * V::LANES];
    let factors_a = &factors_a[job.a..][..L::source(rows - 1) + 1];
    let factors_b = &factors_b[job.b..][..columns * V::LANES];
    // Both numbers are doubled.
    let quarter = V::splat(0.25);
    // SAFETY: by the contract of this function; `sources` checked the columns.
    unsafe {
        unroll!(rows, row => {
            columns!(columns, column => {
                dots[row][column] = V::bits(V::load(extra[column * V::LANES..].as_ptr()));
            });
        });
        for k in first..first + count {
            let (a, b) = (a.add(k * STRIDE), b.add(k * STRIDE));
            let mut bs = [V::splat_i(0); 2];
            columns!(columns, column => {
                bs[column] = V::bits(V::load(b.add(column * V::LANES)));
            });
            unroll!(rows, row => {
                columns!(columns, column => {
                    let a = V::bits(a_at::<V, L>(a, row));
                    dots[row][column] = V::dot_bytes(a, bs[column], dots[row][column]);
                });
            });
        }
        let mut scales = [V::zero(); 2];
        columns!(columns, column => {
            let lane = column * V::LANES;
            scales[column] = V::mul(V::load(factors_b[lane..].as_ptr()), quarter);
        });
        unroll!(rows, row => {
            let factor = V::splat(factors_a[L::source(row)]);
            columns!(columns, column => {
                let scale = V::mul(factor, scales[column]);
                let old = V::load(tile.c::<L>(job, row, column * V::LANES));
                sums[row][column] = V::fma(V::convert(dots[row][column]), scale, old);
            });
        });
        Strip::<V, L>::store(sums, job, tile);
    }
}
