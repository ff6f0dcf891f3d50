//! Products of integers of 8 and 4 bits, spread to pairs of 16 bits.

use super::super::plan::{Job, Layout, Plan, Unpack, by_layout};
use super::super::scratch::{MAX_K, Panel, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::unpack::each;
use super::{a_at, sources, unroll};

/// Spreads integers into pairs of 16 bits: bytes 0 and 2, bytes 1 and 3 of a word, or
/// nibbles 0 and 4, 1 and 5, and so on. The order of k is one of its own, the same for A
/// and B: sums of integers do not depend on it.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
pub unsafe fn unpack_pairs<V: Vector>(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
    // SAFETY: the contract of `each` is that of this function.
    unsafe {
        match (what.element.bits(), what.signed) {
            (8, true) => each::<V, 2>(what, rows, out, |x| {
                let (even, odd) = (V::sar16::<8>(V::shl16::<8>(x)), V::sar16::<8>(x));
                [V::float(even), V::float(odd)]
            }),
            (8, false) => each::<V, 2>(what, rows, out, |x| {
                let (even, odd) = (V::shr16::<8>(V::shl16::<8>(x)), V::shr16::<8>(x));
                [V::float(even), V::float(odd)]
            }),
            (_, signed) => each::<V, 4>(what, rows, out, |x| {
                let mut out = [V::zero(); 4];
                let shifted = [V::shl16::<12>(x), V::shl16::<8>(x), V::shl16::<4>(x), x];
                for (out, x) in out.iter_mut().zip(shifted) {
                    let top = if signed {
                        V::sar16::<12>(x)
                    } else {
                        V::shr16::<12>(x)
                    };
                    *out = V::float(top);
                }
                out
            }),
        }
    }
}

/// Products of pairs over `length` panel rows, added to i32 accumulators; `SATURATE`s once, at the
/// end, or wraps.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn integer<V: Vector, const ROWS: usize, const SATURATE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        by_layout!(
            plan,
            [Tall, Square, Quad, Wave32, Wave64, Rdna3Wave32, Rdna3Wave64],
            L => rows::<V, L, ROWS, SATURATE>(scratch, length, plan, tile)
        );
    }
}

/// # Safety
/// As for `integer`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout, const ROWS: usize, const SATURATE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K);
    for job in plan.jobs() {
        for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
            let (a, b) = sources::<V, L>(scratch, job, lane);
            // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
            unsafe {
                strip::<V, L, ROWS, SATURATE, 0>(a, b, length, job, tile, lane);
                if ROWS < L::COUNT {
                    strip::<V, L, ROWS, SATURATE, 8>(a, b, length, job, tile, lane);
                }
            }
        }
    }
}

/// ROWS rows from FIRST on.
///
/// # Safety
/// As for `integer`; `a` and `b` must point into as many panel rows as `length` says.
#[inline(always)]
unsafe fn strip<
    V: Vector,
    L: Layout,
    const ROWS: usize,
    const SATURATE: bool,
    const FIRST: usize,
>(
    a: *const f32,
    b: *const f32,
    length: usize,
    job: &Job,
    tile: &Tile,
    lane: usize,
) {
    let count = const { if ROWS < L::COUNT { ROWS } else { L::COUNT } };
    let mut sums = [V::splat_i(0); 16];
    // SAFETY: by the contract of this function.
    unsafe {
        if !SATURATE {
            unroll!(count, row => {
                sums[row] = V::bits(V::load(tile.c::<L>(job, FIRST + row, lane)));
            });
        }
        for k in 0..length {
            let (a, b) = (a.add(k * STRIDE), V::bits(V::load(b.add(k * STRIDE))));
            unroll!(count, row => {
                let a = V::bits(a_at::<V, L>(a, FIRST + row));
                sums[row] = V::dot_pairs(a, b, sums[row]);
            });
        }
        unroll!(count, row => {
            if SATURATE {
                let old = V::bits(V::load(tile.c::<L>(job, FIRST + row, lane)));
                sums[row] = V::add_saturating(old, sums[row]);
            }
            V::store(tile.d::<L>(job, FIRST + row, lane), V::float(sums[row]));
        });
    }
}
