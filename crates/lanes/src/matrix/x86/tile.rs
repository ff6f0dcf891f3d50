//! Where the accumulators lie: rows of registers, each on a page of its own for all the kernels know.

use super::plan::{Job, Plan};

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
    /// The plan must fit the registers, `lane` be below 16.
    #[inline(always)]
    pub unsafe fn c(&self, plan: &Plan, job: &Job, row: usize, lane: usize) -> *const f32 {
        let (register, at) = plan.place(job, row);
        // SAFETY: by the contract of this function.
        unsafe { self.c.get_unchecked(register).add(at + lane) }
    }

    /// The same in D.
    ///
    /// # Safety
    /// As for `c`.
    #[inline(always)]
    pub unsafe fn d(&self, plan: &Plan, job: &Job, row: usize, lane: usize) -> *mut f32 {
        let (register, at) = plan.place(job, row);
        // SAFETY: by the contract of this function.
        unsafe { self.d.get_unchecked(register).add(at + lane) }
    }

    /// The tile whose C is this one's D, for sums that go on.
    pub fn again(&self) -> Tile {
        Tile {
            c: self.d.map(|p| p.cast_const()),
            d: self.d,
        }
    }
}
