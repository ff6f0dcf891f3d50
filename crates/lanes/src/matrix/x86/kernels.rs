//! The FMA chain and the CDNA1/CDNA2 tree over the panels.

use super::panel::Scratch;
use super::simd::Simd;
use super::{Job, Plan};

/// Pointers to the panels of a job, moved to its rows and columns.
#[derive(Clone, Copy)]
struct Source {
    a: *const f32,
    b: *const f32,
}

/// Words of a panel's row.
const STRIDE: usize = 64;

/// Runs `body` for each strip of a job: `ROWS` rows and `LANES` lanes. `body` gets the sources,
/// the accumulators and returns the new accumulators.
///
/// The panels hold `k` rows; `d` must cover every word that the plan names.
#[inline(always)]
fn strips<S: Simd, const ROWS: usize, const QUAD: bool>(
    scratch: &Scratch,
    plan: &Plan,
    d: &mut [u32],
    mut body: impl FnMut(Source, &mut [S::F; ROWS]),
) {
    let total = if QUAD { 4 } else { 16 };
    for &Job { a, b, d: base } in &plan.jobs[..plan.count] {
        for first in (0..total).step_by(ROWS) {
            for lane in (0..16).step_by(S::LANES) {
                let a = if QUAD { a + lane } else { a + first };
                let rows: [usize; ROWS] = std::array::from_fn(|row| base + lane + plan.rows[first + row]);
                assert!(rows.iter().all(|&at| at + S::LANES <= d.len()));
                assert!(a + if QUAD { S::LANES } else { ROWS } <= STRIDE && b + 16 <= STRIDE);
                // SAFETY: the assertions keep the offsets inside one panel row.
                let source = unsafe {
                    Source {
                        a: scratch.a.as_ptr().cast::<f32>().add(a),
                        b: scratch.b.as_ptr().cast::<f32>().add(b + lane),
                    }
                };
                // SAFETY: every offset of `rows` has LANES words in `d`.
                let mut sums: [S::F; ROWS] =
                    std::array::from_fn(|row| unsafe { S::load(d.as_ptr().add(rows[row]).cast()) });
                body(source, &mut sums);
                for (row, sum) in sums.into_iter().enumerate() {
                    // SAFETY: as for the loads.
                    unsafe { S::store(d.as_mut_ptr().add(rows[row]).cast(), S::canonical(sum)) };
                }
            }
        }
    }
}

/// A[row, k] for the lanes of a strip.
///
/// # Safety
/// `k` must be below the number of panel rows, `row` inside the job.
#[inline(always)]
unsafe fn a_at<S: Simd, const QUAD: bool>(source: Source, k: usize, row: usize) -> S::F {
    // SAFETY: by the contract of this function.
    unsafe {
        let at = source.a.add(k * STRIDE);
        if QUAD { S::quad(S::load(at), row) } else { S::splat(*at.add(row)) }
    }
}

/// One FMA per k.
#[inline(always)]
pub(super) fn chain<S: Simd>(scratch: &Scratch, k: usize, plan: &Plan, d: &mut [u32]) {
    assert!(k <= scratch.a.len());
    match (plan.quad, S::ROWS) {
        (true, _) => chain_rows::<S, 4, true>(scratch, k, plan, d),
        (false, 16) => chain_rows::<S, 16, false>(scratch, k, plan, d),
        _ => chain_rows::<S, 8, false>(scratch, k, plan, d),
    }
}

#[inline(always)]
fn chain_rows<S: Simd, const ROWS: usize, const QUAD: bool>(scratch: &Scratch, length: usize, plan: &Plan, d: &mut [u32]) {
    strips::<S, ROWS, QUAD>(scratch, plan, d, |source, sums| {
        for k in 0..length {
            // SAFETY: k is below the panels' length, see `chain`.
            let b = unsafe { S::load(source.b.add(k * STRIDE)) };
            for (row, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above; `row` is a row of the job.
                *sum = S::fma(unsafe { a_at::<S, QUAD>(source, k, row) }, b, *sum);
            }
        }
    });
}

/// The tree of groups of 2 or 4. `exact`: no product of the operands' type is inexact, nothing
/// but operands can be subnormal.
#[inline(always)]
pub(super) fn tree<S: Simd>(scratch: &Scratch, k: usize, plan: &Plan, d: &mut [u32], group: usize, flush: bool, exact: bool) {
    assert!(k <= scratch.a.len() && k % group == 0);
    macro_rules! rows {
        ($rows:literal, $quad:literal) => {
            match (group, flush, exact) {
                (4, true, true) => tree_rows::<S, $rows, $quad, 4, true, true>(scratch, k, plan, d),
                (4, false, true) => tree_rows::<S, $rows, $quad, 4, false, true>(scratch, k, plan, d),
                (4, true, false) => tree_rows::<S, $rows, $quad, 4, true, false>(scratch, k, plan, d),
                (4, false, false) => tree_rows::<S, $rows, $quad, 4, false, false>(scratch, k, plan, d),
                (_, true, _) => tree_rows::<S, $rows, $quad, 2, true, false>(scratch, k, plan, d),
                (_, false, _) => tree_rows::<S, $rows, $quad, 2, false, false>(scratch, k, plan, d),
            }
        };
    }
    match (plan.quad, S::ROWS) {
        (true, _) => rows!(4, true),
        (false, 16) => rows!(16, false),
        _ => rows!(8, false),
    }
}

#[inline(always)]
fn tree_rows<S: Simd, const ROWS: usize, const QUAD: bool, const GROUP: usize, const FLUSH: bool, const EXACT: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    d: &mut [u32],
) {
    let zero = S::splat(0.0);
    let keep = |x: S::F| if FLUSH && !EXACT { S::flush(x) } else { x };
    strips::<S, ROWS, QUAD>(scratch, plan, d, |source, sums| {
        if FLUSH {
            for sum in sums.iter_mut() {
                *sum = S::flush_positive(*sum);
            }
        }
        for k in (0..length).step_by(GROUP) {
            // SAFETY: k + GROUP is at most the panels' length, see `tree`.
            let b: [S::F; GROUP] = std::array::from_fn(|i| unsafe { S::load(source.b.add((k + i) * STRIDE)) });
            for (row, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above; `row` is a row of the job.
                let a: [S::F; GROUP] = std::array::from_fn(|i| unsafe { a_at::<S, QUAD>(source, k + i, row) });
                let product = |i: usize| keep(S::fma(a[i], b[i], zero));
                // An exact product may be added by the FMA that forms it. A product of -0 makes
                // no difference to a sum that starts with +0.
                let pair = |i: usize| {
                    if EXACT {
                        S::fma(a[i + 1], b[i + 1], S::fma(a[i], b[i], zero))
                    } else {
                        keep(S::add(product(i), product(i + 1)))
                    }
                };
                let g = if GROUP == 4 { keep(S::add(pair(0), pair(2))) } else { pair(0) };
                *sum = keep(S::add(*sum, g));
            }
        }
    });
}
