//! Vector back ends of the dense instructions on x86-64: registers are unpacked into panels
//! (one row per k, columns or rows side by side), kernels run over jobs of 16 rows.

mod kernels;
mod scratch;
mod v256;
mod v512;

use std::cell::RefCell;

use super::layout::{self, KSplit, Registers};
use super::op::{Element, Family, Kind, MatrixOp};
use super::scalar::{Algorithm, algorithm};
use super::unpack::scale_byte;
use super::{COperand, Operands, formats};
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

impl Plan {
    /// Whether every job's rows lie within `words` words of D.
    fn fits(&self, words: usize) -> bool {
        let last = self.rows.iter().max().unwrap_or(&0);
        self.jobs[..self.count].iter().all(|job| job.d + last + 16 <= words)
    }
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
    /// Integers are signed.
    signed: bool,
    /// Column of the panel where the first lane goes.
    first: usize,
    /// Rows of 32-row blocks go in the order of the accumulator registers: first those whose
    /// bit 2 is clear, in ascending order, then the others.
    interleave: bool,
}

/// Scale factors of a scaled instruction, as f64, by block of K.
#[derive(Clone, Copy, Debug)]
struct Scales {
    /// Elements along K that share a factor.
    block: usize,
    /// For each row of A's panel.
    a: [[f64; 32]; 8],
    /// For each column of B's panel.
    b: [[f64; 32]; 8],
}

impl Scales {
    fn new(op: &MatrixOp, block: usize, operands: &Operands<'_>) -> Scales {
        let mut scales = Scales { block, a: [[1.0; 32]; 8], b: [[1.0; 32]; 8] };
        if op.kind != Kind::Scaled {
            return scales;
        }
        let value = |format, byte| match formats::decode_scale(format, byte) {
            Some((significand, exponent)) => significand as f64 * 2f64.powi(exponent),
            None => f64::NAN,
        };
        for group in 0..op.k / block {
            for at in 0..op.m.min(32) {
                // A's panel has the rows of MFMA interleaved, see `Unpack`.
                let quad = at / 4;
                let row = match op.family.is_mfma() && op.m == 32 {
                    true => (quad % 4 * 2 + quad / 4) * 4 + at % 4,
                    false => at,
                };
                let byte = scale_byte(op, operands.scale_a, op.m, row, group, op.mods.scale_sel_a);
                scales.a[group][at] = value(op.mods.scale_fmt_a, byte);
            }
            for column in 0..op.n.min(32) {
                let byte = scale_byte(op, operands.scale_b, op.n, column, group, op.mods.scale_sel_b);
                scales.b[group][column] = value(op.mods.scale_fmt_b, byte);
            }
        }
        scales
    }
}

/// What the floats of an operand span, as bits of positive f32.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// Largest magnitude.
    top: u32,
    /// Smallest magnitude but for zero; 0 if all are zero.
    low: u32,
    /// Value of the lowest set bit of any significand; 0 if all are zero.
    unit: u32,
    /// Some are zero.
    zeros: bool,
}

/// Exponent of a positive normal f32.
fn exponent(bits: u32) -> i32 {
    (bits >> 23) as i32 - 127
}

impl Range {
    /// Exponents of the smallest and the largest magnitude; any will do if all are zero.
    fn exponents(self) -> (i32, i32) {
        if self.top == 0 { (0, 0) } else { (exponent(self.low), exponent(self.top)) }
    }

    /// Whether every product, and every sum of up to `k` products and `c` (if given), in any
    /// order, is exact in f32: all are multiples of one power of two and below 2^24 times it.
    ///
    /// Then fused sums lose nothing either: their grids, 2^(E - 24), 2^(E2 - 24) and
    /// 2^(E2 - 31), are finer than that power of two, since 2^E and 2^E2 are not above the
    /// largest sum. A plain FMA chain gives the same bits.
    fn exact(a: Range, b: Range, c: Option<Range>, k: usize) -> bool {
        const NORMAL: std::ops::Range<u32> = 0x0080_0000..0x7f80_0000;
        if [a, b].iter().any(|x| !NORMAL.contains(&x.unit) || x.top >= NORMAL.end) {
            return false;
        }
        // A zero has the exponent -126: together with a large factor it could set the grid.
        if exponent(a.top).max(exponent(b.top)) > 50 {
            return false;
        }
        let length = (k as u32).next_power_of_two().trailing_zeros() as i32;
        let mut unit = exponent(a.unit) + exponent(b.unit);
        let mut top = exponent(a.top) + exponent(b.top) + 2 + length;
        match c {
            Some(c) if c.top == 0 => {}
            Some(c) if !NORMAL.contains(&c.unit) || c.top >= NORMAL.end => return false,
            Some(c) => {
                unit = unit.min(exponent(c.unit));
                top = top.max(exponent(c.top) + 1) + 1;
            }
            None => {}
        }
        unit > -100 && top < 100 && top - unit <= 24
    }

    /// Whether every sum of up to `k` products fits `bits` significant bits.
    fn fits(a: Range, b: Range, k: usize, bits: i32) -> bool {
        const NORMAL: std::ops::Range<u32> = 0x0080_0000..0x7f80_0000;
        if a.top == 0 || b.top == 0 {
            return a.top < NORMAL.end && b.top < NORMAL.end;
        }
        let normal = |x: u32| NORMAL.contains(&x);
        let length = (k as u32).next_power_of_two().trailing_zeros() as i32;
        let unit = exponent(a.unit) + exponent(b.unit);
        let top = exponent(a.top) + exponent(b.top) + 2 + length;
        normal(a.unit) && normal(b.unit) && normal(a.top) && normal(b.top) && top - unit <= bits
    }

    /// Whether f64 holds every sum of up to `k` products and `c`, none of them subnormal in f32
    /// and none beyond it.
    fn fits_f64(a: Range, b: Range, c: Range, k: usize) -> bool {
        const NORMAL: std::ops::Range<u32> = 0x0080_0000..0x7f80_0000;
        let normal = |x: u32| NORMAL.contains(&x);
        if !(normal(a.unit) && normal(b.unit) && normal(a.top) && normal(b.top)) {
            return false;
        }
        let length = (k as u32).next_power_of_two().trailing_zeros() as i32;
        let mut unit = exponent(a.unit) + exponent(b.unit);
        let mut top = exponent(a.top) + exponent(b.top) + 2 + length;
        if c.top != 0 {
            if !normal(c.unit) || !normal(c.top) {
                return false;
            }
            unit = unit.min(exponent(c.unit));
            top = top.max(exponent(c.top) + 1) + 1;
        }
        unit >= -126 && top < 127 && top - unit <= 53
    }
}

/// Fused sums of one instruction: what the kernels need besides the panels.
#[derive(Clone, Copy, Debug)]
struct Fused {
    /// Products per group.
    group: usize,
    /// Even and odd k apart.
    parity: bool,
    /// What the exponent bytes of A and B are relative to.
    bases: (i32, i32),
    /// Exponent byte of a group without products.
    floor: i8,
    /// Smallest normal exponents of A and B.
    mins: (i32, i32),
    /// Accumulators below this, zero excepted, are not for the kernels.
    least: f32,
}

impl Fused {
    /// Ranges within which the kernels are exact; `None` sends the instruction to the scalar
    /// reference, as do infinities and NaN in A or B.
    ///
    /// With e the exponents of non-zero elements, L the least and H the largest sum of two:
    /// products and scaled products stay inside f32 if H <= 125 and L >= -90. All sums lie
    /// within 90 of each other, so bytes relative to the largest hold them; a zero is -128.
    /// A group of zeros only has no products, and its true exponent sum is at most
    /// -126 + max e. That is at most L - 8, the value used here. With either, an accumulator
    /// that comes from earlier groups (a multiple of 2^(L - 31)) loses nothing, and neither does
    /// a C of 2^(L - 8) or more: the result is the accumulator.
    fn new(op: &MatrixOp, group: usize, parity: bool, a: Range, b: Range) -> Option<Fused> {
        let infinity = 0x7f80_0000;
        if a.top >= infinity || b.top >= infinity {
            return None;
        }
        let mins = (formats::min_exponent(op.a), formats::min_exponent(op.b));
        let zeros = a.zeros || b.zeros;
        let least = |exponent| if zeros { 2f32.powi(exponent) } else { 0.0 };
        if op.a.bits() == 8 || op.a == Element::F16 {
            // Sums of exponents lie between -30 and 30 by format.
            return Some(Fused { group, parity, bases: (0, 0), floor: -64, mins, least: least(-64) });
        }
        let ((low_a, top_a), (low_b, top_b)) = (a.exponents(), b.exponents());
        let (low, top) = (low_a + low_b, top_a + top_b);
        if top > 125 || low < -90 || top - low > 90 || zeros && top_a.max(top_b) - 126 > low - 8 {
            return None;
        }
        let floor = (low - 8 - top) as i8;
        Some(Fused { group, parity, bases: (top_a, top_b), floor, mins, least: least(low - 8) })
    }
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
                plan.rows = rows(|r| (r % 4, 0));
                plan.count = 4;
                for (quarter, job) in plan.jobs[..4].iter_mut().enumerate() {
                    *job = Job { a: 16 * quarter, b: 16 * quarter, d: 16 * quarter };
                }
            }
            _ => return None,
        }
        return Some(plan);
    }
    if op.m % 16 != 0 || op.n != 16 {
        return None;
    }
    // Rows 16 to 31 of the 32x16x128 WMMA follow in eight more registers.
    plan.count = op.m / 16;
    plan.jobs[1] = Job { a: 16, b: 0, d: 64 * 8 };
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
    // Integers are unpacked in pairs.
    let chunk = if element.is_integer() { split.chunk / 2 } else { split.chunk };
    let split = KSplit { chunk, ..split };
    let signed = element == Element::I8 || bit(op.mods.neg) == 1;
    Unpack { element, split, lanes, signs, signed, limit: super::unpack::flush_limit(op, element), first: 0, interleave }
}

/// The vector form of an instruction.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    algorithm: Algorithm,
    plan: Plan,
    a: Unpack,
    b: Unpack,
    /// CBSZ, ABID or BLGP permute lanes.
    permutes: bool,
}

impl Recipe {
    /// `None` if the instruction is left to the scalar reference.
    pub fn new(op: &MatrixOp) -> Option<Recipe> {
        // Clamps act on single results and are rare. Sparse instructions multiply each row of A
        // with rows of B of its own.
        if op.kind == Kind::Sparse || op.mods.fp16_ovfl || op.mods.clamp {
            return None;
        }
        let algorithm = algorithm(op);
        let wmma_c = !op.family.is_mfma() && (op.mods.neg & 4 != 0 || op.mods.neg_hi & 4 != 0);
        if algorithm != Algorithm::Chain && wmma_c || op.c.bits() > op.d.bits() {
            return None;
        }
        let a = unpacking(op, 0);
        Some(Recipe {
            algorithm,
            plan: plan(op)?,
            a,
            b: unpacking(op, 1),
            permutes: op.family.is_mfma()
                && !op.f8f6f4
                && op.a != Element::F64
                && (op.mods.cbsz != 0 || op.mods.blgp != 0),
        })
    }

    /// Computes the instruction; `false` leaves D untouched. The operands have been checked, the
    /// host supports the back end.
    pub fn execute(
        &self,
        op: &MatrixOp,
        need: &Registers,
        backend: Backend,
        operands: &Operands<'_>,
        d: &mut [[u32; 64]],
    ) -> bool {
        let (a, b) = (&operands.a[..need.a], &operands.b[..need.b]);
        let d = &mut d[..need.d];
        if self.permutes {
            let a = permuted(a, |lane| layout::broadcast_a(op, lane));
            let b = permuted(b, |lane| layout::permute_b(op, lane));
            let a: Vec<&[u32]> = a.iter().map(|row| &row[..]).collect();
            let b: Vec<&[u32]> = b.iter().map(|row| &row[..]).collect();
            return self.run(op, backend, &a, &b, operands, d);
        }
        self.run(op, backend, a, b, operands, d)
    }

    fn run(
        &self,
        op: &MatrixOp,
        backend: Backend,
        a: &[&[u32]],
        b: &[&[u32]],
        operands: &Operands<'_>,
        d: &mut [[u32; 64]],
    ) -> bool {
        let c = operands.c;
        if op.a == Element::F64 {
            copy_c(op, c, d);
            let signs = [0, 1, 2].map(|bit| u64::from(op.mods.blgp >> bit & 1) << 63);
            match backend {
                // SAFETY: the host supports the back end, the rows have the lanes of a wave.
                Backend::Avx2 => unsafe { avx2::double(a, b, d, op.blocks, signs) },
                // SAFETY: as above.
                _ => unsafe { avx512::double(a, b, d, op.blocks, signs) },
            }
            return true;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            self.unpack(op, backend, a, b, scratch);
            if op.d.bits() == 32 {
                copy_c(op, c, d);
                change_signs(op, d);
                return self.compute(op, backend, operands, scratch, d);
            }
            // 16-bit results: accumulate in f32 beside D, round at the end.
            let mut wide = [[0; 64]; 8];
            let wide = &mut wide[..256 / op.wave];
            let half = (op.family == Family::Rdna3).then_some(op.mods.op_sel >> 2 & 1);
            match (op.c.bits(), backend) {
                (32, _) => copy_c(op, c, wide),
                // SAFETY: the host supports the back end, the rows have the lanes of a wave.
                (_, Backend::Avx2) => unsafe { avx2::widen(op.c, half, c, d, wide) },
                // SAFETY: as above.
                _ => unsafe { avx512::widen(op.c, half, c, d, wide) },
            }
            change_signs(op, wide);
            if !self.compute(op, backend, operands, scratch, wide) {
                return false;
            }
            match backend {
                // SAFETY: the host supports the back end.
                Backend::Avx2 => unsafe { avx2::narrow(op.d, half, op.wave, wide, d) },
                // SAFETY: as above.
                _ => unsafe { avx512::narrow(op.d, half, op.wave, wide, d) },
            }
            true
        })
    }

    /// Fills the panels of A and B.
    fn unpack(&self, op: &MatrixOp, backend: Backend, a: &[&[u32]], b: &[&[u32]], scratch: &mut Scratch) {
        macro_rules! unpack {
            ($v:ident) => {
                // SAFETY: the host supports the back end and every row has the lanes of a wave.
                unsafe {
                    if self.algorithm == Algorithm::Integer {
                        $v::unpack_pairs(&self.a, a, &mut scratch.a);
                        $v::unpack_pairs(&self.b, b, &mut scratch.b);
                    } else {
                        // Only the 32x16x128 WMMA has a second half of rows in more registers.
                        let halves = if self.a.lanes < op.m { 2 } else { 1 };
                        for (half, a) in a.chunks_exact(a.len() / halves).enumerate() {
                            let what = Unpack { first: 16 * half, ..self.a };
                            $v::unpack(&what, a, &mut scratch.a);
                        }
                        $v::unpack(&self.b, b, &mut scratch.b);
                    }
                }
            };
        }
        match backend {
            Backend::Scalar => {}
            Backend::Avx2 => unpack!(avx2),
            Backend::Avx512 => unpack!(avx512),
        }
    }

    /// Adds the products of the panels to the 32-bit accumulators in `d`; false if that is
    /// beyond the kernels, and then leaves `d` as it was.
    fn compute(
        &self,
        op: &MatrixOp,
        backend: Backend,
        operands: &Operands<'_>,
        scratch: &mut Scratch,
        d: &mut [[u32; 64]],
    ) -> bool {
        let plan = &self.plan;
        let d = d.as_flattened_mut();
        macro_rules! compute {
            ($v:ident) => {
                // SAFETY: the host supports the back end.
                unsafe {
                    let ranges = |scratch: &Scratch| {
                        let a = $v::range(&scratch.a[..op.k], self.a.lanes.max(op.m));
                        (a, $v::range(&scratch.b[..op.k], self.b.lanes))
                    };
                    match self.algorithm {
                        Algorithm::Chain => $v::chain(scratch, op.k, plan, d),
                        Algorithm::Integer => $v::integer(scratch, op.k / 2, plan, d),
                        Algorithm::Tree { group, flush } => {
                            let exact = op.a == Element::F16 || flush && {
                                let (a, b) = ranges(scratch);
                                nothing_to_flush(a, b) && !$v::has_smaller(d, TREE_LEAST)
                            };
                            $v::tree(scratch, op.k, plan, d, group, flush, exact);
                        }
                        Algorithm::Fused { group, parity } => {
                            let (a, b) = ranges(scratch);
                            if Range::exact(a, b, None, op.k)
                                && Range::exact(a, b, Some($v::range(as_floats(d), 64)), op.k)
                            {
                                $v::clear_signs_of_zeros(d, 64);
                                $v::chain(scratch, op.k, plan, d);
                                return true;
                            }
                            let Some(fused) = Fused::new(op, group.min(op.k), parity, a, b) else {
                                return false;
                            };
                            if fused.least > 0.0 && $v::has_smaller(d, fused.least) {
                                return false;
                            }
                            let Scratch { a, b, ea, eb, .. } = &mut *scratch;
                            let (bases, mins) = (fused.bases, fused.mins);
                            $v::exponents(&a[..op.k], ea, self.a.lanes, mins.0, bases.0);
                            $v::exponents(&b[..op.k], eb, self.b.lanes, mins.1, bases.1);
                            $v::fused(scratch, op.k, plan, d, &fused);
                        }
                        Algorithm::Dot2 => {
                            let (a, b) = ranges(scratch);
                            let c = $v::range(as_floats(d), op.wave);
                            if !Range::fits_f64(a, b, c, op.k) {
                                return false;
                            }
                            $v::clear_signs_of_zeros(d, op.wave);
                            $v::dot2(scratch, op.k, plan, d);
                        }
                        Algorithm::Scaled { block } => {
                            let (a, b) = ranges(scratch);
                            // The significands of two scale factors add eight bits at most.
                            if !Range::fits(a, b, block, 53 - 8) {
                                return false;
                            }
                            let single = Range::fits(a, b, block, 24);
                            let scales = Scales::new(op, block, operands);
                            $v::scaled(scratch, op.k, plan, d, &scales, single);
                        }
                    }
                    true
                }
            };
        }
        match backend {
            Backend::Scalar => false,
            Backend::Avx2 => compute!(avx2),
            Backend::Avx512 => compute!(avx512),
        }
    }
}

/// Registers with their lanes permuted by CBSZ, ABID or BLGP.
#[cold]
fn permuted(rows: &[&[u32]], from: impl Fn(usize) -> usize) -> Vec<[u32; 64]> {
    rows.iter().map(|row| std::array::from_fn(|lane| row[from(lane)])).collect()
}

/// Copies C, whose elements are as wide as the accumulators, to where the kernels accumulate.
fn copy_c(op: &MatrixOp, c: COperand<'_>, d: &mut [[u32; 64]]) {
    match c {
        COperand::InPlace => {}
        COperand::Constant(bits) => {
            for (register, row) in d.iter_mut().enumerate() {
                let high = op.c == Element::F64 && register % 2 == 1;
                row[..op.wave].fill(if high { bits >> 32 } else { bits } as u32);
            }
        }
        COperand::Rows(rows) => {
            for (row, from) in d.iter_mut().zip(rows) {
                row[..op.wave].copy_from_slice(&from[..op.wave]);
            }
        }
    }
}

/// NEG_HI[2] and NEG[2] of WMMA: the absolute value and the negation of C.
fn change_signs(op: &MatrixOp, d: &mut [[u32; 64]]) {
    if op.family.is_mfma() || op.c.is_integer() {
        return;
    }
    let clear = u32::from(op.mods.neg_hi >> 2 & 1) << 31;
    let flip = u32::from(op.mods.neg >> 2 & 1) << 31;
    if clear | flip != 0 {
        for row in d {
            for word in &mut row[..op.wave] {
                *word = *word & !clear ^ flip;
            }
        }
    }
}

/// 2^-102: the lowest bit of this and larger accumulators is not below 2^-126.
const TREE_LEAST: f32 = f32::from_bits((127 - 102) << 23);

/// Whether a tree of bf16 products meets no number that CDNA2 flushes, and no product that
/// overflows: products are multiples of the product of the units, so are their sums, and so
/// are the accumulators if they start as zeros or above [`TREE_LEAST`].
fn nothing_to_flush(a: Range, b: Range) -> bool {
    const NORMAL: std::ops::Range<u32> = 0x0080_0000..0x7f80_0000;
    NORMAL.contains(&a.unit)
        && NORMAL.contains(&b.unit)
        && NORMAL.contains(&a.top)
        && NORMAL.contains(&b.top)
        && exponent(a.unit) + exponent(b.unit) >= -126
        && exponent(a.top) + exponent(b.top) <= 120
}

/// The words of D, which are f32, by the register.
fn as_floats(d: &[u32]) -> &[[f32; 64]] {
    // SAFETY: u32 and f32 have the same size and alignment, and every pattern is valid for both.
    let floats = unsafe { std::slice::from_raw_parts(d.as_ptr().cast::<f32>(), d.len()) };
    floats.as_chunks::<64>().0
}
