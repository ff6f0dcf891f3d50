//! Jobs of an instruction: which rows and columns of D a kernel takes at a time, and where they
//! lie in the registers.

use super::super::layout::{self, KSplit};
use super::super::op::{Element, Family, MatrixOp};
use super::super::unpack::flush_limit;

/// One pass of a kernel: 16 rows of D (4 for 4x4 shapes) and 16 lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Job {
    /// First row in A's panel.
    pub a: usize,
    /// First column in B's panel.
    pub b: usize,
    /// Register of D where row 0 starts.
    pub register: usize,
    /// Lane of D where row 0 starts.
    pub lane: usize,
}

/// The jobs of an instruction and, for the rows of a job, where they lie relative to its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    jobs: [Job; 8],
    count: usize,
    /// Registers and lanes.
    rows: [(u16, u16); 16],
    /// 4x4 shapes: a row of A differs between the blocks, four lanes each.
    pub quad: bool,
}

impl Plan {
    /// The jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs[..self.count]
    }

    /// Register and lane of D where a row (less than 16) of a job starts.
    #[inline(always)]
    pub fn place(&self, job: &Job, row: usize) -> (usize, usize) {
        let (register, lane) = self.rows[row & 15];
        (
            job.register + usize::from(register),
            job.lane + usize::from(lane),
        )
    }

    /// Whether every job's rows lie within so many registers and lanes.
    fn fits(&self, registers: usize, lanes: usize) -> bool {
        let rows = if self.quad { 4 } else { 16 };
        self.jobs().iter().all(|job| {
            (0..rows).all(|row| {
                let (register, lane) = self.place(job, row);
                register < registers && lane + 16 <= lanes
            })
        })
    }

    /// The plan of an instruction that has a kernel of its own.
    pub fn none() -> Plan {
        Plan {
            jobs: [Job::default(); 8],
            count: 0,
            rows: [(0, 0); 16],
            quad: false,
        }
    }

    /// The plan for the layouts of `layout::d_slot`, 32-bit accumulators.
    pub fn new(op: &MatrixOp) -> Option<Plan> {
        let mut plan = Plan {
            count: 1,
            ..Plan::none()
        };
        let rows = |f: fn(u16) -> (u16, u16)| std::array::from_fn(|row| f(row as u16));
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
                            register: 16 * block,
                            lane: 16 * quarter,
                        };
                    }
                }
                16 => {
                    plan.rows = rows(|r| (r % 4, r / 4 * 16));
                    plan.count = op.blocks;
                    for (block, job) in plan.jobs.get_mut(..plan.count)?.iter_mut().enumerate() {
                        *job = Job {
                            a: 16 * block,
                            b: 16 * block,
                            register: 4 * block,
                            lane: 0,
                        };
                    }
                }
                4 => {
                    plan.quad = true;
                    plan.rows = rows(|r| (r % 4, 0));
                    plan.count = 4;
                    for (quarter, job) in plan.jobs[..4].iter_mut().enumerate() {
                        *job = Job {
                            a: 16 * quarter,
                            b: 16 * quarter,
                            register: 0,
                            lane: 16 * quarter,
                        };
                    }
                }
                _ => return None,
            }
        } else {
            if !op.m.is_multiple_of(16) || op.n != 16 {
                return None;
            }
            // Rows 16 to 31 of the 32x16x128 WMMA follow in eight more registers.
            plan.count = op.m / 16;
            plan.jobs[1] = Job {
                a: 16,
                b: 0,
                register: 8,
                lane: 0,
            };
            plan.rows = match (op.family, op.wave) {
                (Family::Rdna3, 32) => rows(|r| (r / 2, r % 2 * 16)),
                (Family::Rdna3, _) => rows(|r| (r / 4, r % 4 * 16)),
                (_, 32) => rows(|r| (r % 8, r / 8 * 16)),
                _ => rows(|r| (r % 4, r / 8 * 16 + r / 4 % 2 * 32)),
            };
        }
        let registers = op.m * op.n * op.blocks / op.wave;
        plan.fits(registers, op.wave).then_some(plan)
    }
}

/// How to unpack an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unpack {
    pub element: Element,
    pub split: KSplit,
    /// Rows of A or columns of B side by side.
    pub lanes: usize,
    /// Bits to flip in a register of two 16-bit floats: NEG and NEG_HI of WMMA.
    pub signs: u32,
    /// Magnitudes below become +0.
    pub limit: f32,
    /// Integers are signed.
    pub signed: bool,
    /// Column of the panel where the first lane goes.
    pub first: usize,
    /// Rows of 32-row blocks go in the order of the accumulator registers: first those whose
    /// bit 2 is clear, in ascending order, then the others.
    pub interleave: bool,
}

impl Unpack {
    /// How to unpack A (operand 0) or B (operand 1).
    pub fn new(op: &MatrixOp, operand: u32) -> Unpack {
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
        // Integers are unpacked in pairs.
        let chunk = if element.is_integer() {
            split.chunk / 2
        } else {
            split.chunk
        };
        let split = KSplit { chunk, ..split };
        let signed = element == Element::I8 || bit(op.mods.neg) == 1;
        Unpack {
            element,
            split,
            lanes,
            signs,
            signed,
            limit: flush_limit(op, element),
            first: 0,
            interleave,
        }
    }
}
