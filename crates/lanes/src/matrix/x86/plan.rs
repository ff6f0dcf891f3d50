//! Jobs of an instruction: which rows and columns of D a kernel takes at a time, and where they
//! lie in the registers.

use super::super::layout::{self, KSplit};
use super::super::op::{Element, Family, Kind, MatrixOp};
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

/// The jobs of an instruction and the layout of the rows of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    jobs: [Job; 8],
    count: usize,
    pub rows: Rows,
}

/// The layouts of `layout::d_slot` for 32-bit accumulators, by the types that implement [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Tall,
    Square,
    Quad,
    Wave32,
    Wave64,
    Rdna3Wave32,
    Rdna3Wave64,
}

/// Where the 16 rows of a job lie relative to its start. Constants, so that a kernel whose rows
/// are unrolled has them in its addresses.
pub(super) trait Layout {
    /// 4x4 shapes, four rows: a row of A differs between the blocks, four lanes each.
    const QUAD: bool = false;
    /// Rows of a job.
    const COUNT: usize = if Self::QUAD { 4 } else { 16 };
    /// Distance in A's panel from a row to the one four further on.
    const NEXT: usize = 4;
    /// Register and lane of a row.
    fn place(row: usize) -> (usize, usize);
    /// The row of A's panel.
    #[inline(always)]
    fn source(row: usize) -> usize {
        row / 4 * Self::NEXT + row % 4
    }
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident($row:ident) => $place:expr, $($constant:ident: $type:ty = $value:expr)?;)*) => {
        $(
            $(#[$doc])*
            pub(super) struct $name;

            impl Layout for $name {
                $(const $constant: $type = $value;)?
                #[inline(always)]
                fn place($row: usize) -> (usize, usize) {
                    $place
                }
            }
        )*
    };
}

layouts! {
    /// 32x32 MFMA: the lower or the upper four of every eight rows, a register each.
    Tall(r) => (r, 0), NEXT: usize = 8;
    /// 16x16 MFMA.
    Square(r) => (r % 4, r / 4 * 16),;
    /// 4x4 MFMA.
    Quad(r) => (r % 4, 0), QUAD: bool = true;
    /// RDNA4 and gfx1250, wave32.
    Wave32(r) => (r % 8, r / 8 * 16),;
    /// RDNA4, wave64.
    Wave64(r) => (r % 4, r / 8 * 16 + r / 4 % 2 * 32),;
    /// RDNA3, wave32.
    Rdna3Wave32(r) => (r / 2, r % 2 * 16),;
    /// RDNA3, wave64.
    Rdna3Wave64(r) => (r / 4, r % 4 * 16),;
}

/// Evaluates a call with `$layout_type` standing for the layout of a plan, one of those listed.
macro_rules! by_layout {
    ($plan:expr, [$($layout:ident),*], $layout_type:ident => $call:expr) => {
        match $plan.rows {
            $($crate::matrix::x86::plan::Rows::$layout => {
                type $layout_type = $crate::matrix::x86::plan::$layout;
                $call
            })*
            #[allow(unreachable_patterns)]
            rows => unreachable!("no instruction of this kind has the layout {rows:?}"),
        }
    };
}
pub(super) use by_layout;

impl Plan {
    /// The jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs[..self.count]
    }

    /// The plan of an instruction that has a kernel of its own.
    pub fn none() -> Plan {
        Plan {
            jobs: [Job::default(); 8],
            count: 0,
            rows: Rows::Square,
        }
    }

    /// The plan for the layouts of `layout::d_slot`, 32-bit accumulators.
    pub fn new(op: &MatrixOp) -> Option<Plan> {
        let mut plan = Plan {
            count: 1,
            ..Plan::none()
        };
        if op.family.is_mfma() {
            match op.m {
                32 => {
                    plan.rows = Rows::Tall;
                    plan.count = 4 * op.blocks;
                    for (i, job) in plan.jobs.get_mut(..plan.count)?.iter_mut().enumerate() {
                        let (block, quarter) = (i / 4, i % 4);
                        *job = Job {
                            a: 32 * block + 4 * (quarter / 2),
                            b: 32 * block + 16 * (quarter % 2),
                            register: 16 * block,
                            lane: 16 * quarter,
                        };
                    }
                }
                16 => {
                    plan.rows = Rows::Square;
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
                    plan.rows = Rows::Quad;
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
                (Family::Rdna3, 32) => Rows::Rdna3Wave32,
                (Family::Rdna3, _) => Rows::Rdna3Wave64,
                (_, 32) => Rows::Wave32,
                _ => Rows::Wave64,
            };
        }
        Some(plan)
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
        // Integers of dense instructions are unpacked in pairs.
        let chunk = if element.is_integer() && op.kind != Kind::Sparse {
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
        }
    }
}
