//! The kernels, written once for both vector widths: unpacking into panels, and a module for
//! each way of summing.
//!
//! All functions are inlined into the entry points of the back ends, which have the features.

pub mod chain;
pub mod check;
pub mod direct;
pub mod dot2;
pub mod double;
pub mod fp4;
pub mod fused;
pub mod integer;
pub mod reference;
pub mod results;
pub mod scaled;
pub mod select;
pub mod tree;
pub mod unpack;

use std::marker::PhantomData;

use super::plan::{Job, Layout, Unpack};
use super::scratch::{STRIDE, Scratch};
use super::tile::Tile;
use super::vector::Vector;

/// Repeats a block for the rows 0 to `$count` - 1 (16 at most), which are constants to it.
macro_rules! unroll {
    ($count:expr, $row:ident => $body:block) => {
        unroll!(@ $count, $row, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $count:expr, $row:ident, $body:block, $($i:literal)*) => {
        $(if $i < $count {
            let $row: usize = $i;
            $body
        })*
    };
}
use unroll;

/// Repeats a block for the columns of a strip, one or two, which are constants to it.
macro_rules! columns {
    ($count:expr, $column:ident => $body:block) => {
        unroll!(@ $count, $column, $body, 0 1)
    };
}
use columns;

/// How a kernel takes jobs apart: strips of `ROWS` rows and of `COLUMNS` vectors side by side, whose sums stay in
/// registers.
pub struct Strip<V, L>(PhantomData<(V, L)>);

impl<V: Vector, L: Layout> Strip<V, L> {
    pub const COLUMNS: usize = if L::WIDTH > V::LANES { 2 } else { 1 };
    pub const ROWS: usize = {
        let rows = V::SUMS / Self::COLUMNS;
        if rows < L::COUNT { rows } else { L::COUNT }
    };

    /// Panics if a strip has rows or columns beyond the panels.
    #[inline(always)]
    fn check(job: &Job) {
        let columns = Self::COLUMNS * V::LANES;
        let rows = if L::QUAD {
            columns
        } else {
            L::source(Self::ROWS - 1) + 1
        };
        assert!(job.a + rows <= STRIDE && job.b + columns <= STRIDE);
    }

    /// Pointers into row 0 of the panels for a strip.
    #[inline(always)]
    fn sources(scratch: &Scratch, job: &Job) -> (*const f32, *const f32) {
        Self::check(job);
        (
            scratch.a.as_flattened()[job.a..].as_ptr(),
            scratch.b.as_flattened()[job.b..].as_ptr(),
        )
    }

    /// Stores sums in D; NaN become the one that matrix instructions give.
    ///
    /// # Safety
    /// The host must support the instructions of `V`; the job must be a strip of the tile.
    #[inline(always)]
    unsafe fn store(mut sums: Sums<V>, job: &Job, tile: &Tile) {
        let (rows, columns) = const { (Self::ROWS, Self::COLUMNS) };
        let mut good = [V::all(); 4];
        unroll!(rows, row => {
            if columns == 2 {
                good[row % 4] = V::ordered(good[row % 4], sums[row][0], sums[row][1]);
            } else if row & 1 == 0 {
                let i = row / 2 % 4;
                good[i] = V::ordered(good[i], sums[row][0], sums[row + 1][0]);
            }
        });
        // The cold way apart: few sums have NaN.
        let good = V::both(V::both(good[0], good[1]), V::both(good[2], good[3]));
        if !V::is_all(good) {
            unroll!(rows, row => {
                columns!(columns, column => {
                    sums[row][column] = V::canonical(sums[row][column]);
                });
            });
        }
        unroll!(rows, row => {
            columns!(columns, column => {
                // SAFETY: by the contract of this function.
                unsafe {
                    V::store(
                        tile.d::<L>(job, row, column * V::LANES),
                        sums[row][column],
                    );
                }
            });
        });
    }
}

/// The sums of a strip, by row and column.
type Sums<V> = [[<V as Vector>::F; 2]; 16];

/// Runs a block for every strip of a plan: `$job` begins with the strip, which is row `$row` and lane `$lane` of the
/// plan's job number `$number`.
macro_rules! strips {
    ($vector:ty, $layout:ty, $plan:expr, ($job:ident, $number:ident, $row:ident, $lane:ident) => $body:block) => {
        for $number in (0..$plan.jobs().len()).step_by(<$layout>::WIDTH / 16) {
            for $row in (0..<$layout>::COUNT).step_by(Strip::<$vector, $layout>::ROWS) {
                for $lane in (0..<$layout>::WIDTH)
                    .step_by(Strip::<$vector, $layout>::COLUMNS * <$vector>::LANES)
                {
                    let $job = &$plan.jobs()[$number].at::<$layout>($row, $lane);
                    $body
                }
            }
        }
    };
}
use strips;

/// Where the rows of A's and B's panel lie, one per k.
pub trait Panels {
    /// A's.
    ///
    /// # Safety
    /// `k` must be below the instruction's K.
    unsafe fn a(&self, k: usize) -> *const f32;

    /// B's.
    ///
    /// # Safety
    /// As for `a`.
    unsafe fn b(&self, k: usize) -> *const f32;
}

impl Panels for Scratch {
    #[inline(always)]
    unsafe fn a(&self, k: usize) -> *const f32 {
        self.a.as_flattened().as_ptr().wrapping_add(k * STRIDE)
    }

    #[inline(always)]
    unsafe fn b(&self, k: usize) -> *const f32 {
        self.b.as_flattened().as_ptr().wrapping_add(k * STRIDE)
    }
}

/// f32 that need no decoding: the registers are the panels.
pub struct InRegisters<'a> {
    pub a: (&'a Unpack, &'a [*const u32]),
    pub b: (&'a Unpack, &'a [*const u32]),
}

/// Where the words of an operand begin that hold a k, or some k of which this is the number.
///
/// # Safety
/// There must be words of this number, and registers for the operand.
#[inline(always)]
unsafe fn words_at((what, rows): (&Unpack, &[*const u32]), number: usize) -> *const f32 {
    // SAFETY: by the contract of this function.
    unsafe {
        let place = what.words.get_unchecked(number);
        rows.get_unchecked(usize::from(place.register))
            .add(usize::from(place.lane))
            .cast()
    }
}

impl Panels for InRegisters<'_> {
    #[inline(always)]
    unsafe fn a(&self, k: usize) -> *const f32 {
        // SAFETY: by the contract of this function.
        unsafe { words_at(self.a, k) }
    }

    #[inline(always)]
    unsafe fn b(&self, k: usize) -> *const f32 {
        // SAFETY: by the contract of this function.
        unsafe { words_at(self.b, k) }
    }
}

/// A[row, k] for the lanes of a strip: one element, or for 4x4 shapes one per block.
///
/// # Safety
/// `at` must point to row 0 of the strip in a row of A's panel.
#[inline(always)]
unsafe fn a_at<V: Vector, L: Layout>(at: *const f32, row: usize) -> V::F {
    // SAFETY: by the contract of this function.
    unsafe {
        if L::QUAD {
            V::quad(V::load(at), row)
        } else {
            V::splat(*at.add(L::source(row)))
        }
    }
}

/// Pointers into row 0 of the panels for a strip.
#[inline(always)]
fn sources<V: Vector, L: Layout>(
    scratch: &Scratch,
    job: &Job,
    lane: usize,
) -> (*const f32, *const f32) {
    let a = if L::QUAD { job.a + lane } else { job.a };
    assert!(
        a + if L::QUAD {
            V::LANES
        } else {
            L::source(L::COUNT - 1) + 1
        } <= STRIDE
    );
    assert!(job.b + lane + V::LANES <= STRIDE);
    (
        scratch.a.as_flattened()[a..].as_ptr(),
        scratch.b.as_flattened()[job.b + lane..].as_ptr(),
    )
}
