//! Where the accumulators lie: rows of registers, each on a page of its own for all the kernels know.

use super::plan::{Job, Layout};

/// Most registers that C and D take.
pub(super) const MAX_REGISTERS: usize = 32;

/// The registers of C and D. They may be the same ones.
pub(super) struct Tile {
    /// Where C's registers begin.
    pub c: [*const f32; MAX_REGISTERS],
    /// Where D's registers begin.
    pub d: [*mut f32; MAX_REGISTERS],
}

impl Tile {
    /// Where row `row` of a job begins in C, from `lane` on.
    ///
    /// # Safety
    /// The layout must be that of the job's plan, `row` and `lane` be below 16.
    #[inline(always)]
    pub unsafe fn c<L: Layout>(&self, job: &Job, row: usize, lane: usize) -> *const f32 {
        let (register, at) = L::place(row);
        // SAFETY: by the contract of this function.
        unsafe {
            self.c
                .get_unchecked(job.register + register)
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
                .add(job.lane + lane)
                .add(at)
        }
    }

    /// The tile whose C is this one's D, for sums that go on.
    pub fn again(&self) -> Tile {
        let mut c = [std::ptr::null(); MAX_REGISTERS];
        for (c, d) in c.iter_mut().zip(&self.d) {
            *c = d.cast_const();
        }
        Tile { c, d: self.d }
    }
}
