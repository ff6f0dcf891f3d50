//! Vector back ends of the dense instructions on x86-64: registers are unpacked into panels
//! (one row per k, columns or rows side by side), kernels run over jobs of 16 rows.

mod kernels;
mod scratch;
mod v256;
mod v512;

use std::cell::RefCell;

use super::layout::{self, KSplit};
use super::op::{Element, Family, Kind, MatrixOp};
use super::scalar::{Algorithm, algorithm};
use super::{COperand, Operands};
use crate::backend::Backend;
use scratch::Scratch;

/// Kernels of eight lanes.
mod avx2 {
    super::kernels::vector_kernels!(super::v256, "avx2,fma,f16c");
}

/// Kernels of sixteen lanes.
mod avx512 {
    super::kernels::vector_kernels!(
        super::v512,
        "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
    );
}

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Scratch::new());
}

/// One pass of a kernel: 16 rows of D (4 for 4x4 shapes) and 16 lanes.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// First row in A's panel.
    a: usize,
    /// First column in B's panel.
    b: usize,
    /// Word of D where row 0 starts, counting 64 words a register.
    d: usize,
}

/// The jobs of an instruction and, for the rows of a job, their distance in words of D.
#[derive(Clone, Copy, Debug)]
struct Plan {
    jobs: [Job; 8],
    count: usize,
    rows: [usize; 16],
    /// 4x4 shapes: a row of A differs between the blocks, four lanes each.
    quad: bool,
}

/// How to unpack an operand.
#[derive(Clone, Copy, Debug)]
struct Unpack {
    element: Element,
    split: KSplit,
    /// Rows of A or columns of B side by side.
    lanes: usize,
    /// Bits to flip in a register of two 16-bit floats: NEG and NEG_HI of WMMA.
    signs: u32,
    /// Magnitudes below become +0.
    limit: f32,
    /// Rows of 32-row blocks go in the order of the accumulator registers: first those whose
    /// bit 2 is clear, in ascending order, then the others.
    interleave: bool,
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
                // Rows are interleaved: row r of a job is register r.
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

/// How to unpack A (operand 0) or B (operand 1).
fn unpacking(op: &MatrixOp, operand: u32) -> Unpack {
    let (element, split, lanes) = match operand {
        0 => (op.a, layout::a_split(op), layout::a_lanes(op)),
        _ => (op.b, layout::b_split(op), layout::b_lanes(op)),
    };
    let bit = |field: u8| u32::from(field >> operand & 1);
    let signs = if op.family.is_mfma() || element.bits() != 16 {
        0
    } else {
        bit(op.mods.neg) << 15 | bit(op.mods.neg_hi) << 31
    };
    let interleave = operand == 0 && op.family.is_mfma() && op.m == 32;
    Unpack { element, split, lanes, signs, limit: super::unpack::flush_limit(op, element), interleave }
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
    if !matches!(algorithm, Algorithm::Chain | Algorithm::Tree { .. }) {
        return false;
    }
    if op.family.is_mfma() && (op.mods.cbsz != 0 || op.mods.blgp != 0) {
        let a = permuted(operands.a, |lane| layout::broadcast_a(op, lane));
        let b = permuted(operands.b, |lane| layout::permute_b(op, lane));
        let a: Vec<&[u32]> = a.iter().map(|row| &row[..]).collect();
        let b: Vec<&[u32]> = b.iter().map(|row| &row[..]).collect();
        let operands = Operands { a: &a, b: &b, ..*operands };
        return run(op, backend, algorithm, &plan, &operands, d);
    }
    run(op, backend, algorithm, &plan, operands, d)
}

/// Registers with their lanes permuted by CBSZ, ABID or BLGP.
#[cold]
fn permuted(rows: &[&[u32]], from: impl Fn(usize) -> usize) -> Vec<[u32; 64]> {
    rows.iter().map(|row| std::array::from_fn(|lane| row[from(lane)])).collect()
}

fn run(op: &MatrixOp, backend: Backend, algorithm: Algorithm, plan: &Plan, operands: &Operands<'_>, d: &mut [[u32; 64]]) -> bool {
    let need = op.registers();
    let (a, b) = (&operands.a[..need.a], &operands.b[..need.b]);
    let d = &mut d[..need.d];
    macro_rules! kernels {
        ($v:ident, $scratch:ident) => {{
            // SAFETY: the parent module's `execute` has checked that the host supports the back
            // end and that every row has the lanes of a wave.
            unsafe {
                $v::unpack(&unpacking(op, 0), a, &mut $scratch.a);
                $v::unpack(&unpacking(op, 1), b, &mut $scratch.b);
                copy_c(op, operands.c, d);
                let d = d.as_flattened_mut();
                match algorithm {
                    Algorithm::Chain => $v::chain($scratch, op.k, plan, d),
                    Algorithm::Tree { group, flush } => {
                        $v::tree($scratch, op.k, plan, d, group, flush, op.a == Element::F16);
                    }
                    _ => return false,
                }
            }
            true
        }};
    }
    SCRATCH.with_borrow_mut(|scratch| match backend {
        Backend::Scalar => false,
        Backend::Avx2 => kernels!(avx2, scratch),
        Backend::Avx512 => kernels!(avx512, scratch),
    })
}

/// Copies C into D, where the kernels accumulate.
fn copy_c(op: &MatrixOp, c: COperand<'_>, d: &mut [[u32; 64]]) {
    match c {
        COperand::InPlace => {}
        COperand::Constant(bits) => {
            for row in d {
                row[..op.wave].fill(bits as u32);
            }
        }
        COperand::Rows(rows) => {
            for (row, from) in d.iter_mut().zip(rows) {
                row[..op.wave].copy_from_slice(&from[..op.wave]);
            }
        }
    }
}
