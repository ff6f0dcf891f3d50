//! Sparse instructions: which rows of B the stored elements of A multiply.

use core::arch::x86_64::*;

use super::super::super::layout;
use super::super::super::op::MatrixOp;
use super::super::plan::{Job, Layout};
use super::super::scratch::{STRIDE, Scratch};

/// Fills `select`: stored element k of a row multiplies one of the four rows of B from
/// k / 2 * 4 on, chosen by two bits of the index.
///
/// # Safety
/// The index must have the registers that the instruction needs, with the lanes of a wave.
#[inline(always)]
pub unsafe fn select(op: &MatrixOp, index: &[*const u32], scratch: &mut Scratch) {
    let split = layout::a_split(op);
    let first = layout::index_base(op) / 2;
    let rows = layout::a_lanes(op);
    for (k, out) in scratch.select[..op.stored_k()].iter_mut().enumerate() {
        let (group, item) = split.place(k);
        let bit = 2 * (first + item);
        let Some(words) = index.get(bit / 32) else {
            continue;
        };
        // SAFETY: a wave has `rows` lanes for each group.
        let words = unsafe { std::slice::from_raw_parts(words.add(rows * group), rows) };
        for (out, word) in out.iter_mut().zip(words) {
            *out = ((k / 2 * 4) as u32 + (word >> (bit % 32) & 3)) * STRIDE as u32;
        }
    }
}

/// As `Vector::exponents`, for sparse instructions: the exponents of B that each row selects.
///
/// # Safety
/// The host must support SSE4.1; rows `first` to `first + count` of the panels must have been
/// filled.
#[inline(always)]
pub unsafe fn exponents<L: Layout, const START: usize, const STEP: usize>(
    scratch: &Scratch,
    job: &Job,
    (first, count): (usize, usize),
    (floor, bias): (i8, u8),
    out: &mut [[u8; 16]; 16],
) {
    for (row, out) in out.iter_mut().enumerate() {
        let row = job.a + L::source(row);
        // SAFETY: by the contract of this function: `select` names rows of B's panel.
        unsafe {
            let mut top = _mm_set1_epi8(floor);
            for k in (first..first + count).skip(START).step_by(STEP) {
                let from = scratch.select[k][row] as usize + job.b;
                let columns = _mm_loadu_si128(scratch.eb.as_ptr().cast::<i8>().add(from).cast());
                let a = _mm_set1_epi8(scratch.ea[k][row]);
                top = _mm_max_epi8(top, _mm_adds_epi8(a, columns));
            }
            let top = _mm_add_epi8(top, _mm_set1_epi8(bias as i8));
            _mm_storeu_si128(out.as_mut_ptr().cast(), top);
        }
    }
}
