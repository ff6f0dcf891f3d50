//! Where the accumulators lie: rows of registers, each on a page of its own for all the kernels know.

use super::super::read_only;
use super::plan::{Job, Layout};

/// Most registers that C and D take.
pub(super) const MAX_REGISTERS: usize = 32;

/// The registers of C and D. They may be the same ones.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    /// Where C's registers begin.
    pub c: &'a [*const u32],
    /// Where D's registers begin.
    pub d: &'a [*mut u32],
}

impl Tile<'_> {
    /// Where row `row` of a job begins in C, from `lane` on.
    ///
    /// # Safety
    /// The layout must be that of the job's plan, `row` and `lane` within the job.
    #[inline(always)]
    pub unsafe fn c<L: Layout>(&self, job: &Job, row: usize, lane: usize) -> *const f32 {
        let (register, at) = L::place(row);
        // SAFETY: by the contract of this function.
        unsafe {
            self.c
                .get_unchecked(job.register + register)
                .cast::<f32>()
                .add(job.lane + lane)
                .add(at)
        }
    }

    /// The same in D.
    ///
    /// # Safety
    /// As for `c`.
    #[inline(always)]
    pub unsafe fn d<L: Layout>(&self, job: &Job, row: usize, lane: usize) -> *mut f32 {
        let (register, at) = L::place(row);
        // SAFETY: by the contract of this function.
        unsafe {
            self.d
                .get_unchecked(job.register + register)
                .cast::<f32>()
                .add(job.lane + lane)
                .add(at)
        }
    }

    /// The tile whose C is this one's D, for sums that go on.
    pub fn again(&self) -> Self {
        Tile {
            c: read_only(self.d),
            d: self.d,
        }
    }
}
