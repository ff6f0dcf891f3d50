//! One FMA per k: f32, the 16- and 8-bit floats of RDNA4 and gfx1250, and sums that f32 holds
//! exactly, those of integers of sparse instructions among them.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::range::Exact;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{InRegisters, Panels, Strip, Sums, a_at, columns, strips, unroll};

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
        unsafe { strip::<V, L, _, START, SPARSE>(scratch, &scratch.select, length, job, tile, 0.0) };
    });
}

/// Plain chains over operands in registers, of which those of D are none.
///
/// # Safety
/// As for `chain`; the operands must have the registers that the instruction needs.
#[inline(always)]
pub unsafe fn in_registers<V: Vector>(
    panels: &InRegisters<'_>,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= panels.a.0.words.len().min(panels.b.0.words.len()));
    by_layout!(
        plan,
        [Tall, Square, Quad, Wave32, Wave64],
        L => {
            strips!(V, L, plan, (job, number, row, lane) => {
                // SAFETY: by the contract of this function, and the assertion.
                unsafe { strip::<V, L, _, { start::PLAIN }, false>(panels, &[], length, job, tile, 0.0) };
            });
        }
    );
}

/// What is left of an instruction's sums: a bit for each row of each job, if not all are done. Only then is anything
/// written, since who reads at once what has just been written has to wait for it.
pub struct Left<'a> {
    rows: &'a mut [u16; 8],
    pub none: bool,
}

impl<'a> Left<'a> {
    #[inline(always)]
    pub fn new(rows: &'a mut [u16; 8]) -> Self {
        Left { rows, none: true }
    }

    /// Leaves a strip, of which `row`, `lane` and the number of the job are those of [`strips`].
    #[inline(always)]
    pub fn add<V: Vector, L: Layout>(&mut self, number: usize, row: usize, lane: usize) {
        if std::mem::take(&mut self.none) {
            *self.rows = [0; 8];
        }
        let rows = ((1u32 << Strip::<V, L>::ROWS) - 1) as u16;
        // A strip has the columns of one job, or of two.
        let jobs = (Strip::<V, L>::COLUMNS * V::LANES / 16).max(1);
        for left in self.rows.iter_mut().skip(number + lane / 16).take(jobs) {
            *left |= rows << row;
        }
    }
}

/// Chains where accumulators and sums are exact: true if they are in all strips. Else `left` has a bit for each row of
/// each job that is still to be formed.
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
    let mut left = Left::new(left);
    strips!(V, L, plan, (job, number, row, lane) => {
        // SAFETY: by the contract of this function.
        let is_exact = unsafe {
            let select = &scratch.select;
            strip::<V, L, _, { start::EXACT }, SPARSE>(scratch, select, length, job, tile, exact.magic)
        };
        if !is_exact {
            left.add::<V, L>(number, row, lane);
        }
    });
    left.none
}

/// One strip; false if sums are to be EXACT and are not, and then nothing is done. `magic` is that of [`Exact`].
///
/// # Safety
/// As for `chain`; the layout must be that of the plan, `length` at most the K of the panels.
#[inline(always)]
unsafe fn strip<V: Vector, L: Layout, P: Panels, const START: u8, const SPARSE: bool>(
    panels: &P,
    select: &[[u32; STRIDE]],
    length: usize,
    job: &Job,
    tile: &Tile,
    magic: f32,
) -> bool {
    assert!(length <= if SPARSE { select.len() } else { MAX_K });
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    Strip::<V, L>::check(job);
    let mut sums: Sums<V> = [[V::zero(); 2]; 16];
    // SAFETY: rows of D, up to COUNT, are the tile's; `check` checked the columns.
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
            let a = panels.a(k).add(job.a);
            if SPARSE {
                let b = panels.b(0).add(job.b);
                let select = select.get_unchecked(k).as_ptr().add(job.a);
                unroll!(rows, row => {
                    let from = b.add(*select.add(L::source(row)) as usize);
                    let a = a_at::<V, L>(a, row);
                    columns!(columns, column => {
                        let b = V::load(from.add(column * V::LANES));
                        sums[row][column] = V::fma(a, b, sums[row][column]);
                    });
                });
            } else {
                let b = panels.b(k).add(job.b);
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
pub fn exactly<V: Vector, L: Layout>(sums: &Sums<V>, magic: f32) -> Option<Sums<V>> {
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
