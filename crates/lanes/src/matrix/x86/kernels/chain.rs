//! One FMA per k: f32, the 16- and 8-bit floats of RDNA4 and gfx1250, and sums that f32 holds
//! exactly, those of integers of sparse instructions among them.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::range::Exact;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{Strip, Sums, a_at, columns, strips, unroll};

/// What the chains start from, and what comes of them.
pub mod start {
    /// The accumulators.
    pub const PLAIN: u8 = 0;
    /// The accumulators, -0 as +0, if sums are exact with them.
    pub const EXACT: u8 = 1;
    /// Zero; the sums are whole numbers and added to i32 accumulators, wrapping.
    pub const WRAPPING: u8 = 2;
    /// The same, saturating.
    pub const SATURATING: u8 = 3;
}

/// Chains over `length` panel rows; `SPARSE` takes the rows of B that `select` names.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn chain<V: Vector, const START: u8, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        if SPARSE {
            by_layout!(
                plan,
                [Tall, Square, Wave32, Wave64],
                L => rows::<V, L, START, SPARSE>(scratch, length, plan, tile)
            );
        } else {
            by_layout!(
                plan,
                [Tall, Square, Quad, Wave32, Wave64, Rdna3Wave32, Rdna3Wave64],
                L => rows::<V, L, START, SPARSE>(scratch, length, plan, tile)
            );
        }
    }
}

/// # Safety
/// As for `chain`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout, const START: u8, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    strips!(V, L, plan, (job, number, row, lane) => {
        // SAFETY: by the contract of this function.
        unsafe { strip::<V, L, START, SPARSE>(scratch, length, job, tile, 0.0) };
    });
}

/// Chains where accumulators and sums are exact: true if they are in all strips. Else `left` has a bit for each row of
/// each job that is still to be formed; only then, since who reads a list that has just been written has to wait for it.
///
/// # Safety
/// As for `chain`.
#[inline(always)]
pub unsafe fn exact<V: Vector, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    exact: &Exact,
    left: &mut [u16; 8],
) -> bool {
    // SAFETY: by the contract of this function.
    unsafe {
        if SPARSE {
            by_layout!(
                plan,
                [Tall, Square],
                L => exact_rows::<V, L, SPARSE>(scratch, length, plan, tile, exact, left)
            )
        } else {
            by_layout!(
                plan,
                [Tall, Square, Quad],
                L => exact_rows::<V, L, SPARSE>(scratch, length, plan, tile, exact, left)
            )
        }
    }
}

/// # Safety
/// As for `chain`.
#[inline(always)]
unsafe fn exact_rows<V: Vector, L: Layout, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    exact: &Exact,
    left: &mut [u16; 8],
) -> bool {
    let rows = ((1u32 << Strip::<V, L>::ROWS) - 1) as u16;
    let mut all = true;
    strips!(V, L, plan, (job, number, row, lane) => {
        // SAFETY: by the contract of this function.
        let is_exact = unsafe {
            strip::<V, L, { start::EXACT }, SPARSE>(scratch, length, job, tile, exact.magic)
        };
        if !is_exact {
            if std::mem::take(&mut all) {
                *left = [0; 8];
            }
            // A strip has the columns of one job, or of two.
            let jobs = (Strip::<V, L>::COLUMNS * V::LANES / 16).max(1);
            for left in left.iter_mut().skip(number + lane / 16).take(jobs) {
                *left |= rows << row;
            }
        }
    });
    all
}

/// One strip; false if sums are to be EXACT and are not, and then nothing is done. `magic` is that of [`Exact`].
///
/// # Safety
/// As for `chain`; the layout must be that of the plan.
#[inline(always)]
unsafe fn strip<V: Vector, L: Layout, const START: u8, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    job: &Job,
    tile: &Tile,
    magic: f32,
) -> bool {
    assert!(length <= if SPARSE { MAX_K / 2 } else { MAX_K });
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let (a, b) = Strip::<V, L>::sources(scratch, job);
    let select = scratch.select.as_flattened()[job.a..].as_ptr();
    let mut sums: Sums<V> = [[V::zero(); 2]; 16];
    // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
    unsafe {
        if START <= start::EXACT {
            unroll!(rows, row => {
                columns!(columns, column => {
                    sums[row][column] = V::load(tile.c::<L>(job, row, column * V::LANES));
                });
            });
        }
        if START == start::EXACT {
            match exactly::<V, L>(&sums, magic) {
                Some(cleared) => sums = cleared,
                None => return false,
            }
        }
        for k in 0..length {
            let a = a.add(k * STRIDE);
            if SPARSE {
                let select = select.add(k * STRIDE);
                unroll!(rows, row => {
                    let from = b.add(*select.add(L::source(row)) as usize);
                    let a = a_at::<V, L>(a, row);
                    columns!(columns, column => {
                        let b = V::load(from.add(column * V::LANES));
                        sums[row][column] = V::fma(a, b, sums[row][column]);
                    });
                });
            } else {
                let b = b.add(k * STRIDE);
                let mut bs = [V::zero(); 2];
                columns!(columns, column => {
                    bs[column] = V::load(b.add(column * V::LANES));
                });
                unroll!(rows, row => {
                    columns!(columns, column => {
                        let a = if L::QUAD { a.add(column * V::LANES) } else { a };
                        let a = a_at::<V, L>(a, row);
                        sums[row][column] = V::fma(a, bs[column], sums[row][column]);
                    });
                });
            }
        }
        if START <= start::EXACT {
            Strip::<V, L>::store(sums, job, tile);
            return true;
        }
        unroll!(rows, row => {
            columns!(columns, column => {
                let lane = column * V::LANES;
                let sum = V::truncate(sums[row][column]);
                let old = V::bits(V::load(tile.c::<L>(job, row, lane)));
                let sum = if START == start::SATURATING {
                    V::add_saturating(old, sum)
                } else {
                    V::add_i(old, sum)
                };
                V::store(tile.d::<L>(job, row, lane), V::float(sum));
            });
        });
    }
    true
}

/// Accumulators, -0 as +0, if they are multiples of the unit of [`Exact`] and not too large.
#[inline(always)]
fn exactly<V: Vector, L: Layout>(sums: &Sums<V>, magic: f32) -> Option<Sums<V>> {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let magic = V::splat(magic);
    let mut upper = [V::splat_i(0); 2];
    let mut changed = [V::splat_i(0); 2];
    let mut cleared: Sums<V> = [[V::zero(); 2]; 16];
    unroll!(rows, row => {
        columns!(columns, column => {
            let x = sums[row][column];
            let sum = V::add(x, magic);
            let same = V::sub(sum, magic);
            let i = row % 2;
            upper[i] = V::or_xor(upper[i], V::bits(sum), V::bits(magic));
            changed[i] = V::or_xor(changed[i], V::bits(same), V::bits(x));
            cleared[row][column] = same;
        });
    });
    // The sign of a zero may change.
    let changed = V::and(V::or(changed[0], changed[1]), V::splat_i(i32::MAX));
    let upper = V::and(
        V::or(upper[0], upper[1]),
        V::splat_i(0xff80_0000_u32 as i32),
    );
    V::is_all(V::equal(V::or(changed, upper), V::splat_i(0))).then_some(cleared)
}
