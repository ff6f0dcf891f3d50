//! Jobs of an instruction: which rows and columns of D a kernel takes at a time, and where they
//! lie in the registers.

use super::super::layout::{self, KSplit};
use super::super::op::{Element, Family, Kind, MatrixOp};
use super::super::unpack::flush_limit;
use super::scratch::{MAX_K, STRIDE};

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

impl Job {
    /// The part of the job from a row, a multiple of four, and a lane on.
    #[inline(always)]
    pub fn at<L: Layout>(&self, row: usize, lane: usize) -> Job {
        let (register, first) = L::place(row);
        Job {
            a: self.a + if L::QUAD { lane } else { L::source(row) },
            b: self.b + lane,
            register: self.register + register,
            lane: self.lane + first + lane,
        }
    }
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
    /// Columns that rows have side by side: those of two jobs, or of one.
    const WIDTH: usize = 16;
    /// Register and lane of a row.
    fn place(row: usize) -> (usize, usize);
    /// The row of A's panel.
    #[inline(always)]
    fn source(row: usize) -> usize {
        row / 4 * Self::NEXT + row % 4
    }
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident($row:ident) => $place:expr $(, $constant:ident: $type:ty = $value:expr)*;)*) => {
        $(
            $(#[$doc])*
            pub(super) struct $name;

            impl Layout for $name {
                $(const $constant: $type = $value;)*
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
    Tall(r) => (r, 0), NEXT: usize = 8, WIDTH: usize = 32;
    /// 16x16 MFMA.
    Square(r) => (r % 4, r / 4 * 16);
    /// 4x4 MFMA.
    Quad(r) => (r % 4, 0), QUAD: bool = true;
    /// RDNA4 and gfx1250, wave32.
    Wave32(r) => (r % 8, r / 8 * 16);
    /// RDNA4, wave64.
    Wave64(r) => (r % 4, r / 8 * 16 + r / 4 % 2 * 32);
    /// RDNA3, wave32.
    Rdna3Wave32(r) => (r / 2, r % 2 * 16);
    /// RDNA3, wave64.
    Rdna3Wave64(r) => (r / 4, r % 4 * 16);
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
#[derive(Clone, Debug)]
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
    /// For each register, each 16 lanes and each vector that they decode to: where in the panel it goes,
    /// in words. Empty for elements of six bits, which lie across registers.
    pub places: Box<[u16]>,
    /// For each k, or all k of a word: where the words begin that hold them for all rows or columns. Empty for elements
    /// below eight bits and where a word has others.
    pub words: Box<[Place]>,
}

/// A place in the registers of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub register: u8,
    pub lane: u8,
}

impl Unpack {
    /// How to unpack A (operand 0) or B (operand 1), of `registers` registers.
    pub fn new(op: &MatrixOp, operand: u32, registers: usize) -> Unpack {
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
        let signed = element == Element::I8 || bit(op.mods.neg) == 1;
        let items = match element.bits() {
            6 | 64 => 0,
            // Integers of dense instructions are unpacked in pairs.
            bits if element.is_integer() && op.kind != Kind::Sparse => 16 / bits,
            bits => 32 / bits,
        };
        let side = if operand == 0 { op.m } else { op.n };
        let words = words(op, element, split, (side, lanes, registers));
        // Vectors of a chunk: an element each, or two.
        let pairs = items * element.bits() == 16;
        let split = KSplit {
            chunk: if pairs { split.chunk / 2 } else { split.chunk },
            ..split
        };
        Unpack {
            element,
            split,
            lanes,
            signs,
            signed,
            limit: flush_limit(op, element),
            places: places(op, operand, split, (lanes, registers, items)),
            words,
        }
    }

    /// Of an integer operand of dense instructions: words of four bytes as they are, those of A with the bits of `flip`
    /// flipped. `None` if four bytes of a word are not four steps of K.
    pub fn bytes(op: &MatrixOp, operand: u32, registers: usize, flip: u32) -> Option<Unpack> {
        let (split, lanes) = match operand {
            0 => (layout::a_split(op), layout::a_lanes(op)),
            _ => (layout::b_split(op), layout::b_lanes(op)),
        };
        if !split.chunk.is_multiple_of(4) {
            return None;
        }
        let split = KSplit {
            chunk: split.chunk / 4,
            ..split
        };
        Some(Unpack {
            element: Element::F32,
            split,
            lanes,
            signs: flip,
            signed: false,
            limit: 0.0,
            places: places(op, operand, split, (lanes, registers, 1)),
            words: Box::default(),
        })
    }
}

impl Unpack {
    /// Of an operand of E2M1: vectors of four bytes that are the even or the odd elements of a word. `None` if the eight
    /// elements of a word are not eight steps of K.
    pub fn nibbles(op: &MatrixOp, operand: u32, registers: usize) -> Option<Unpack> {
        let plain = Unpack::new(op, operand, registers);
        if plain.element != Element::Fp4 || !plain.split.chunk.is_multiple_of(8) {
            return None;
        }
        let split = KSplit {
            chunk: plain.split.chunk / 4,
            ..plain.split
        };
        Some(Unpack {
            split,
            places: places(op, operand, split, (plain.lanes, registers, 2)),
            ..plain
        })
    }
}

/// The `words` of an [`Unpack`] whose `side` is M or N.
fn words(
    op: &MatrixOp,
    element: Element,
    split: KSplit,
    (side, lanes, registers): (usize, usize, usize),
) -> Box<[Place]> {
    let items = match element.bits() {
        8 | 16 | 32 if !element.is_integer() => 32 / element.bits(),
        _ => return Box::default(),
    };
    if op.kind == Kind::Sparse || !split.chunk.is_multiple_of(items) || side > lanes {
        return Box::default();
    }
    let place = |k| {
        let (group, item) = split.place(k);
        let (register, lane) = (item / items, group * lanes);
        (register < registers && lane + lanes <= op.wave).then_some(Place {
            register: register as u8,
            lane: lane as u8,
        })
    };
    let words: Option<Vec<Place>> = (0..op.k).step_by(items).map(place).collect();
    words.unwrap_or_default().into()
}

/// The `places` of an [`Unpack`] of so many vectors for each register.
fn places(
    op: &MatrixOp,
    operand: u32,
    split: KSplit,
    (lanes, registers, items): (usize, usize, usize),
) -> Box<[u16]> {
    // Rows of A beyond those side by side (32x16x128 WMMA) begin again, in other columns.
    let passes = if operand == 0 {
        (op.m / lanes).max(1)
    } else {
        1
    };
    let KSplit { chunk, groups, .. } = split;
    let mut places = Vec::new();
    for register in 0..registers / passes {
        for lane in (0..groups * lanes).step_by(16) {
            for item in 0..items {
                let (group, item) = (lane / lanes, register * items + item);
                let k = (item / chunk * groups + split.order(group)) * chunk + item % chunk;
                assert!(k < MAX_K, "{} has K beyond the panels", op.k);
                places.push((k * STRIDE + lane % lanes) as u16);
            }
        }
    }
    places.into()
}
