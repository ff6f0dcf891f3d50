//! Vector back ends of the dense instructions on x86-64: registers are unpacked into panels
//! (one row per k, columns or rows side by side), kernels run over jobs of 16 rows.

mod fused;
mod kernels;
mod panel;
mod simd;

use std::cell::RefCell;

use super::op::{Element, Family, Kind, MatrixOp};
use super::scalar::{Algorithm, algorithm};
use super::Operands;
use crate::backend::Backend;
use panel::Scratch;

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Scratch::new());
}

/// One pass of a kernel: 16 rows of D (4 for 4x4 shapes) and 16 lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// First row in A's panel.
    a: usize,
    /// First column in B's panel.
    b: usize,
    /// Word of D where row 0 starts, counting 64 words a register.
    d: usize,
}

/// The jobs of an instruction and, for the rows of a job, their distance in words of D.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    jobs: [Job; 8],
    count: usize,
    rows: [usize; 16],
    /// 4x4 shapes: a row of A differs between the blocks, four lanes each.
    quad: bool,
}

/// The plan for the layouts of `layout::d_slot`, 32-bit accumulators.
fn plan(op: &MatrixOp) -> Option<Plan> {
    let mut plan = Plan { jobs: [Job { a: 0, b: 0, d: 0 }; 8], count: 1, rows: [0; 16], quad: false };
    let rows = |f: fn(usize) -> (usize, usize)| {
        std::array::from_fn(|row| {
            let (register, lane) = f(row);
            register * 64 + lane
        })
    };
    if op.family.is_mfma() {
        match op.m {
            32 => {
                // Rows in the order of panel::interleave: row r of a job is register r.
                plan.rows = rows(|r| (r, 0));
                plan.count = 4 * op.blocks;
                for (i, job) in plan.jobs.get_mut(..plan.count)?.iter_mut().enumerate() {
                    let (block, quarter) = (i / 4, i % 4);
                    *job = Job {
                        a: 32 * block + 16 * (quarter / 2),
                        b: 32 * block + 16 * (quarter % 2),
                        d: 64 * 16 * block + 16 * quarter,
                    };
                }
            }
            16 => {
                plan.rows = rows(|r| (r % 4, r / 4 * 16));
                plan.count = op.blocks;
                for (block, job) in plan.jobs.get_mut(..plan.count)?.iter_mut().enumerate() {
                    *job = Job { a: 16 * block, b: 16 * block, d: 64 * 4 * block };
                }
            }
            4 => {
                plan.quad = true;
                plan.rows = rows(|r| (r, 0));
                plan.count = 4;
                for (quarter, job) in plan.jobs[..4].iter_mut().enumerate() {
                    *job = Job { a: 16 * quarter, b: 16 * quarter, d: 16 * quarter };
                }
            }
            _ => return None,
        }
        return Some(plan);
    }
    if op.m != 16 || op.n != 16 {
        return None;
    }
    plan.rows = match (op.family, op.wave) {
        (Family::Rdna3, 32) => rows(|r| (r / 2, r % 2 * 16)),
        (Family::Rdna3, _) => rows(|r| (r / 4, r % 4 * 16)),
        (_, 32) => rows(|r| (r % 8, r / 8 * 16)),
        _ => rows(|r| (r % 4, r / 8 * 16 + r / 4 % 2 * 32)),
    };
    Some(plan)
}

/// Computes the instruction if there is a vector form of it; `false` leaves D untouched.
pub(super) fn execute(op: &MatrixOp, backend: Backend, operands: &Operands<'_>, d: &mut [[u32; 64]]) -> bool {
    // Rare: modifiers that act on single results, on C, or on the operands' signs.
    let wmma_signs = !op.family.is_mfma() && (op.mods.neg & 4 != 0 || op.mods.neg_hi & 4 != 0);
    if op.kind != Kind::Dense || op.mods.fp16_ovfl || op.mods.clamp || wmma_signs {
        return false;
    }
    if op.c.bits() != 32 || op.d.bits() != 32 {
        return false;
    }
    let Some(plan) = plan(op) else {
        return false;
    };
    let algorithm = algorithm(op);
    if matches!(algorithm, Algorithm::Dot2 | Algorithm::Scaled { .. } | Algorithm::Integer) {
        return false;
    }
    SCRATCH.with_borrow_mut(|scratch| match backend {
        Backend::Scalar => false,
        // SAFETY: `execute` of the parent module has checked that the host supports the back end.
        Backend::Avx2 => unsafe { run_avx2(op, algorithm, &plan, operands, scratch, d) },
        // SAFETY: as above.
        Backend::Avx512 => unsafe { run_avx512(op, algorithm, &plan, operands, scratch, d) },
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2(op: &MatrixOp, algorithm: Algorithm, plan: &Plan, operands: &Operands<'_>, scratch: &mut Scratch, d: &mut [[u32; 64]]) -> bool {
    run::<simd::Avx2>(op, algorithm, plan, operands, scratch, d)
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn run_avx512(op: &MatrixOp, algorithm: Algorithm, plan: &Plan, operands: &Operands<'_>, scratch: &mut Scratch, d: &mut [[u32; 64]]) -> bool {
    run::<simd::Avx512>(op, algorithm, plan, operands, scratch, d)
}

#[inline(always)]
fn run<S: simd::Simd>(op: &MatrixOp, algorithm: Algorithm, plan: &Plan, operands: &Operands<'_>, scratch: &mut Scratch, d: &mut [[u32; 64]]) -> bool {
    panel::unpack_a(op, operands.a, scratch);
    panel::unpack_b(op, operands.b, scratch);
    if let Algorithm::Fused { .. } = algorithm {
        return false;
    }
    panel::copy_c(op, operands.c, d);
    let words = d.as_flattened_mut();
    match algorithm {
        Algorithm::Chain => kernels::chain::<S>(scratch, op.k, plan, words),
        Algorithm::Tree { group, flush } => {
            let exact = op.a == Element::F16;
            kernels::tree::<S>(scratch, op.k, plan, words, group, flush, exact);
        }
        _ => return false,
    }
    true
}
