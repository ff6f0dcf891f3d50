//! Products of integers of 8 and 4 bits: bytes as they are, or spread to pairs of 16 bits.

use super::super::plan::{Job, Layout, Plan, Unpack, by_layout};
use super::super::scratch::{MAX_K, Panel, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::{Bytes, Vector};
use super::unpack::each;
use super::{Strip, a_at, columns, strips, unroll};

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
            (8, true) => each::<V, 2>(what, 0, rows, out, |x| {
                let (even, odd) = (V::sar16::<8>(V::shl16::<8>(x)), V::sar16::<8>(x));
                [V::float(even), V::float(odd)]
            }),
            (8, false) => each::<V, 2>(what, 0, rows, out, |x| {
                let (even, odd) = (V::shr16::<8>(V::shl16::<8>(x)), V::shr16::<8>(x));
                [V::float(even), V::float(odd)]
            }),
            (_, signed) => each::<V, 4>(what, 0, rows, out, |x| {
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
pub unsafe fn integer<V: Vector, const SATURATE: bool>(
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
            L => rows::<V, L, SATURATE>(scratch, length, plan, tile)
        );
    }
}

/// # Safety
/// As for `integer`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout, const SATURATE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K);
    strips!(V, L, plan, (job, number, row, lane) => {
        // SAFETY: by the contract of this function.
        unsafe { strip::<V, L, SATURATE>(scratch, length, job, tile) };
    });
}

/// One strip.
///
/// # Safety
/// As for `integer`; the panels must have as many rows as `length` says.
#[inline(always)]
unsafe fn strip<V: Vector, L: Layout, const SATURATE: bool>(
    scratch: &Scratch,
    length: usize,
    job: &Job,
    tile: &Tile,
) {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let (a, b) = Strip::<V, L>::sources(scratch, job);
    let mut sums = [[V::splat_i(0); 2]; 16];
    // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
    unsafe {
        if !SATURATE {
            unroll!(rows, row => {
                columns!(columns, column => {
                    sums[row][column] = V::bits(V::load(tile.c::<L>(job, row, column * V::LANES)));
                });
            });
        }
        for k in 0..length {
            let (a, b) = (a.add(k * STRIDE), b.add(k * STRIDE));
            let mut bs = [V::splat_i(0); 2];
            columns!(columns, column => {
                bs[column] = V::bits(V::load(b.add(column * V::LANES)));
            });
            unroll!(rows, row => {
                columns!(columns, column => {
                    let a = if L::QUAD { a.add(column * V::LANES) } else { a };
                    let a = V::bits(a_at::<V, L>(a, row));
                    sums[row][column] = V::dot_pairs(a, bs[column], sums[row][column]);
                });
            });
        }
        unroll!(rows, row => {
            columns!(columns, column => {
                let lane = column * V::LANES;
                let mut sum = sums[row][column];
                if SATURATE {
                    let old = V::bits(V::load(tile.c::<L>(job, row, lane)));
                    sum = V::add_saturating(old, sum);
                }
                V::store(tile.d::<L>(job, row, lane), V::float(sum));
            });
        });
    }
}

/// The words of an operand, with the bits of `signs` flipped.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
pub unsafe fn unpack_words<V: Vector>(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
    let flip = V::splat_i(what.signs as i32);
    // SAFETY: the contract of `each` is that of this function.
    unsafe { each::<V, 1>(what, 0, rows, out, |x| [V::float(V::xor(x, flip))]) }
}

/// Products of signed bytes of B and of unsigned ones of A over `length` panel rows, four a word, added to i32
/// accumulators. If A is `OFFSET` its bytes are signed ones plus 128. `SATURATE` as in [`integer`].
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn bytes<V: Bytes, const SATURATE: bool, const OFFSET: bool>(
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
            L => byte_rows::<V, L, SATURATE, OFFSET>(scratch, length, plan, tile)
        );
    }
}

/// # Safety
/// As for `bytes`.
#[inline(always)]
unsafe fn byte_rows<V: Bytes, L: Layout, const SATURATE: bool, const OFFSET: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K);
    // 128 times the sums of the columns of B, negative.
    let mut extra = [0f32; STRIDE];
    if OFFSET {
        let columns = plan.jobs().iter().map(|job| job.b + 16).max().unwrap_or(0);
        for column in (0..columns.min(STRIDE)).step_by(V::LANES) {
            let mut sum = V::splat_i(0);
            for row in &scratch.b[..length] {
                // SAFETY: the row has LANES words from there on.
                let b = V::bits(unsafe { V::load(row[column..].as_ptr()) });
                sum = V::dot_bytes(V::splat_i(0x8080_8080_u32 as i32), b, sum);
            }
            let sum = V::sub_i(V::splat_i(0), sum);
            // SAFETY: as above.
            unsafe { V::store(extra[column..].as_mut_ptr(), V::float(sum)) };
        }
    }
    strips!(V, L, plan, (job, number, row, lane) => {
        // SAFETY: by the contract of this function.
        unsafe { byte_strip::<V, L, SATURATE>(scratch, length, job, tile, &extra) };
    });
}

/// One strip; its sums begin with those of `extra`, by columns of B's panel.
///
/// # Safety
/// As for `bytes`; the panels must have as many rows as `length` says.
#[inline(always)]
unsafe fn byte_strip<V: Bytes, L: Layout, const SATURATE: bool>(
    scratch: &Scratch,
    length: usize,
    job: &Job,
    tile: &Tile,
    extra: &[f32; STRIDE],
) {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let (a, b) = Strip::<V, L>::sources(scratch, job);
    let extra = &extra[job.b..][..columns * V::LANES];
    let mut sums = [[V::splat_i(0); 2]; 16];
    // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
    unsafe {
        unroll!(rows, row => {
            columns!(columns, column => {
                let lane = column * V::LANES;
                let first = V::bits(V::load(extra[lane..].as_ptr()));
                sums[row][column] = if SATURATE {
                    first
                } else {
                    V::add_i(first, V::bits(V::load(tile.c::<L>(job, row, lane))))
                };
            });
        });
        for k in 0..length {
            let (a, b) = (a.add(k * STRIDE), b.add(k * STRIDE));
            let mut bs = [V::splat_i(0); 2];
            columns!(columns, column => {
                bs[column] = V::bits(V::load(b.add(column * V::LANES)));
            });
            unroll!(rows, row => {
                columns!(columns, column => {
                    let a = if L::QUAD { a.add(column * V::LANES) } else { a };
                    let a = V::bits(a_at::<V, L>(a, row));
                    sums[row][column] = V::dot_bytes(a, bs[column], sums[row][column]);
                });
            });
        }
        unroll!(rows, row => {
            columns!(columns, column => {
                let lane = column * V::LANES;
                let mut sum = sums[row][column];
                if SATURATE {
                    let old = V::bits(V::load(tile.c::<L>(job, row, lane)));
                    sum = V::add_saturating(old, sum);
                }
                V::store(tile.d::<L>(job, row, lane), V::float(sum));
            });
        });
    }
}
