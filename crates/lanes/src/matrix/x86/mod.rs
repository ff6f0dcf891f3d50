//! Vector back ends on x86-64: registers are unpacked into panels (one row per k, columns or
//! rows side by side), kernels run over jobs of 16 rows and add to the registers where they lie.

mod entries;
mod kernels;
mod plan;
mod range;
mod scratch;
mod tile;
mod v256;
mod v512;
mod vector;

use std::cell::RefCell;
use std::mem::MaybeUninit;

use super::formats;
use super::layout::{self, Registers};
use super::op::{Element, Family, Kind, MatrixOp};
use super::scalar::{Algorithm, algorithm};
use super::{COperand, Pointers, read_only};
use crate::backend::Backend;
use entries::{Care, Halves, InRegisters, Scales, avx2, avx512, bytes, direct, fp4};
use plan::{Plan, Rows, Unpack};
use range::{Exact, Fused, Known, Range, Within};
use scratch::Scratch;
use tile::{MAX_REGISTERS, Tile};

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Scratch::new());
}

/// Calls a function of the back end. The host supports the back end; the rest of the functions'
/// contracts are the callers'.
macro_rules! on {
    ($backend:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $backend {
            Backend::Avx2 => avx2::$name($($argument),*),
            _ => avx512::$name($($argument),*),
        }
    };
}

/// Most registers that A or B takes.
const MAX_INPUTS: usize = 16;

/// Accumulators beside the registers.
#[repr(align(64))]
struct Wide([[u32; 64]; MAX_REGISTERS]);

/// The vector form of an instruction.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    algorithm: Algorithm,
    plan: Plan,
    a: Unpack,
    b: Unpack,
    /// For AVX-512: A and B as words of bytes, A's signed ones plus 128, if B's are signed.
    bytes: Option<Box<[Unpack; 2]>>,
    /// For AVX-512: A and B as bytes, if both are E2M1.
    nibbles: Option<Box<[Unpack; 2]>>,
    /// A and B are f32 that need no decoding.
    in_registers: bool,
    /// For AVX-512: B is decoded on the way by chains, or by those that are exact.
    direct: bool,
    /// CBSZ, ABID or BLGP permute lanes.
    permutes: bool,
    /// Bits of C to clear and to flip: NEG_HI[2] and NEG[2] of WMMA.
    signs: Option<(u32, u32)>,
    /// MODE.FP16_OVFL clamps sums whose magnitude, as bits of f32, is this at least, or so near
    /// to it that rounding may tell.
    limit: Option<u32>,
    /// Integer sums saturate.
    saturates: bool,
}

impl Recipe {
    /// `None` if the instruction is left to the scalar reference.
    pub fn new(op: &MatrixOp, need: &Registers) -> Option<Recipe> {
        let algorithm = algorithm(op);
        let bit = |field: u8| u32::from(field >> 2 & 1);
        let signs = (!op.family.is_mfma() && !op.c.is_integer())
            .then_some((bit(op.mods.neg_hi) << 31, bit(op.mods.neg) << 31))
            .filter(|&(clear, flip)| clear | flip != 0);
        if algorithm != Algorithm::Chain && signs.is_some() || op.c.bits() > op.d.bits() {
            return None;
        }
        let plan = if op.a == Element::F64 {
            Plan::none()
        } else {
            Plan::new(op)?
        };
        let [a, b] = [(0, need.a), (1, need.b)].map(|(i, need)| Unpack::new(op, i, need));
        let plain = |what: &Unpack| !what.words.is_empty() && what.limit == 0.0;
        Some(Recipe {
            algorithm,
            in_registers: algorithm == Algorithm::Chain
                && [&a, &b]
                    .iter()
                    .all(|what| plain(what) && what.element == Element::F32),
            direct: plain(&b)
                && direct::decodes(op.b)
                && match algorithm {
                    Algorithm::Chain => plan.rows == Rows::Wave32,
                    Algorithm::Fused { .. } => plan.rows == Rows::Square,
                    _ => false,
                },
            plan,
            a,
            b,
            bytes: bytes_of(op, need),
            nibbles: nibbles_of(op, need, algorithm),
            permutes: op.family.is_mfma()
                && !op.f8f6f4
                && op.a != Element::F64
                && op.kind != Kind::Sparse
                && (op.mods.cbsz != 0 || op.mods.blgp != 0),
            signs,
            limit: match op.d {
                _ if !op.mods.fp16_ovfl => None,
                Element::F16 => Some(65504f32.to_bits()),
                Element::Bf16 => Some(0x7f7f_0000),
                Element::F32 if matches!(op.family, Family::Cdna3 | Family::Cdna4) => {
                    Some(f32::INFINITY.to_bits())
                }
                _ => None,
            },
            saturates: op.mods.clamp
                || op.mods.fp16_ovfl
                    && matches!(op.family, Family::Cdna3 | Family::Cdna4 | Family::Gfx1250),
        })
    }

    /// Leaves operands in registers only where none of these are D's, or all are read before D is written.
    pub fn set_apart(&mut self, apart: bool) {
        self.in_registers &= apart;
        self.direct &= apart || self.plan.jobs().len() == 1;
    }

    /// Computes the instruction; `false` leaves D untouched.
    ///
    /// # Safety
    /// The host must support the back end. The registers must be as many as `need` says and have
    /// the lanes of a wave; C's must be those of D or have none in common with them.
    pub unsafe fn execute(
        &self,
        op: &MatrixOp,
        need: &Registers,
        backend: Backend,
        operands: &Pointers<'_>,
        d: &[*mut u32],
    ) -> bool {
        let (a, b) = (&operands.a[..need.a], &operands.b[..need.b]);
        let d = &d[..need.d];
        if self.permutes {
            let mut rooms = [const { [const { MaybeUninit::uninit() }; MAX_INPUTS] }; 2];
            let mut rows = [[std::ptr::null(); MAX_INPUTS]; 2];
            let [room_a, room_b] = &mut rooms;
            let [rows_a, rows_b] = &mut rows;
            // SAFETY: by the contract of this function; the rooms live until the end of the block.
            return unsafe {
                let a = permuted(a, |lane| layout::broadcast_a(op, lane), room_a, rows_a);
                let b = permuted(b, |lane| layout::permute_b(op, lane), room_b, rows_b);
                self.run(op, backend, a, b, operands, d)
            };
        }
        // SAFETY: by the contract of this function.
        unsafe { self.run(op, backend, a, b, operands, d) }
    }

    /// # Safety
    /// As for `execute`.
    unsafe fn run(
        &self,
        op: &MatrixOp,
        backend: Backend,
        a: &[*const u32],
        b: &[*const u32],
        operands: &Pointers<'_>,
        d: &[*mut u32],
    ) -> bool {
        let (constant, constants);
        let c = match operands.c {
            COperand::Rows(rows) => rows,
            COperand::Constant(bits) => {
                let (low, high) = match op.c.bits() {
                    64 => (bits as u32, (bits >> 32) as u32),
                    // Two to a register.
                    16 => [(bits as u32 & 0xffff) * 0x1_0001; 2].into(),
                    _ => [bits as u32; 2].into(),
                };
                constant = [[low; 64], [high; 64]];
                constants =
                    std::array::from_fn::<_, MAX_REGISTERS, _>(|i| constant[i % 2].as_ptr());
                &constants
            }
            COperand::InPlace => read_only(d),
        };
        let tile = Tile { c, d };
        if op.a == Element::F64 {
            let signs = [0, 1, 2].map(|bit| u64::from(op.mods.blgp >> bit & 1) << 63);
            // SAFETY: by the contract of this function.
            unsafe { on!(backend, double(a, b, &tile, op.blocks, signs)) };
            return true;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            if op.d.bits() == 32 && self.signs.is_none() && self.limit.is_none() {
                // SAFETY: by the contract of this function.
                return unsafe {
                    self.unpack(op, backend, a, b, scratch);
                    self.compute(op, backend, a, b, operands, scratch, &tile, d.len())
                };
            }
            // SAFETY: by the contract of this function.
            unsafe { self.beside(op, backend, a, b, operands, scratch, tile) }
        })
    }

    /// Accumulates beside the registers, in f32: results of 16 bits, C with other signs, or sums
    /// that MODE.FP16_OVFL may clamp.
    ///
    /// # Safety
    /// As for `execute`.
    #[allow(clippy::too_many_arguments)]
    unsafe fn beside(
        &self,
        op: &MatrixOp,
        backend: Backend,
        a: &[*const u32],
        b: &[*const u32],
        operands: &Pointers<'_>,
        scratch: &mut Scratch,
        tile: Tile<'_>,
    ) -> bool {
        let mut wide = Wide([[0; 64]; MAX_REGISTERS]);
        let sums = &mut wide.0[..op.m * op.n * op.blocks / op.wave];
        let half = (op.family == Family::Rdna3).then_some(op.mods.op_sel >> 2 & 1);
        let halves = |element| Halves {
            element,
            half,
            lanes: op.wave,
        };
        if op.c.bits() == 16 {
            // SAFETY: by the contract of this function.
            unsafe { on!(backend, widen(halves(op.c), tile.c, sums)) };
        } else {
            for (row, from) in sums.iter_mut().zip(tile.c) {
                // SAFETY: C has the lanes of a wave.
                unsafe { std::ptr::copy_nonoverlapping(*from, row.as_mut_ptr(), op.wave) };
            }
        }
        if let Some((clear, flip)) = self.signs {
            for word in sums.as_flattened_mut() {
                *word = *word & !clear ^ flip;
            }
        }
        let registers = sums.len();
        let mut rows = [std::ptr::null_mut(); MAX_REGISTERS];
        for (row, sums) in rows.iter_mut().zip(sums) {
            *row = sums.as_mut_ptr();
        }
        let rows = &rows[..registers];
        let in_place = op.d.bits() == 32 && self.limit.is_none();
        let beside = Tile {
            c: read_only(rows),
            d: if in_place { tile.d } else { rows },
        };
        // SAFETY: as above; the tile's rows are those of `wide`, or D's.
        unsafe {
            self.unpack(op, backend, a, b, scratch);
            if !self.compute(op, backend, a, b, operands, scratch, &beside, registers) {
                return false;
            }
            // Which of the sums are clamped depends on their operands: the reference knows.
            if let Some(limit) = self.limit
                && on!(backend, has_larger(beside.c, op.wave, limit))
            {
                return false;
            }
            if op.d.bits() == 16 {
                on!(backend, narrow(halves(op.d), &wide.0[..registers], tile.d));
            } else if !in_place {
                for (row, to) in wide.0.iter().zip(tile.d) {
                    to.copy_from_nonoverlapping(row.as_ptr(), op.wave);
                }
            }
        }
        true
    }

    /// Fills the panels of A and B.
    ///
    /// # Safety
    /// As for `execute`.
    unsafe fn unpack(
        &self,
        op: &MatrixOp,
        backend: Backend,
        a: &[*const u32],
        b: &[*const u32],
        scratch: &mut Scratch,
    ) {
        if self.in_registers {
            return;
        }
        // SAFETY: by the contract of this function.
        unsafe {
            if let Some([what_a, what_b]) = self.bytes.as_deref()
                && backend == Backend::Avx512
            {
                bytes::unpack(what_a, a, &mut scratch.a);
                bytes::unpack(what_b, b, &mut scratch.b);
                return;
            }
            if let Some([what_a, what_b]) = self.nibbles.as_deref()
                && backend == Backend::Avx512
            {
                if what_a.lanes < op.m {
                    let (low, high) = a.split_at(a.len() / 2);
                    fp4::unpack(what_a, 0, low, &mut scratch.a, true);
                    fp4::unpack(what_a, 16, high, &mut scratch.a, true);
                } else {
                    fp4::unpack(what_a, 0, a, &mut scratch.a, true);
                }
                fp4::unpack(what_b, 0, b, &mut scratch.b, false);
                return;
            }
            self.unpack_floats(op, backend, a, b, scratch);
        }
    }

    /// Fills the panels with one number to a word, or with pairs of integers.
    ///
    /// # Safety
    /// As for `execute`.
    unsafe fn unpack_floats(
        &self,
        op: &MatrixOp,
        backend: Backend,
        a: &[*const u32],
        b: &[*const u32],
        scratch: &mut Scratch,
    ) {
        // SAFETY: by the contract of this function.
        unsafe {
            if self.algorithm == Algorithm::Integer && op.kind != Kind::Sparse {
                on!(backend, unpack_pairs(&self.a, a, &mut scratch.a));
                on!(backend, unpack_pairs(&self.b, b, &mut scratch.b));
                return;
            }
            if self.a.lanes < op.m {
                // Only the 32x16x128 WMMA has a second half of rows in more registers.
                let (low, high) = a.split_at(a.len() / 2);
                on!(backend, unpack(&self.a, 0, low, &mut scratch.a));
                on!(backend, unpack(&self.a, 16, high, &mut scratch.a));
            } else {
                on!(backend, unpack(&self.a, 0, a, &mut scratch.a));
            }
            if !self.is_direct(backend) {
                on!(backend, unpack(&self.b, 0, b, &mut scratch.b));
            }
        }
    }

    /// Whether B has no panel.
    fn is_direct(&self, backend: Backend) -> bool {
        self.direct && backend == Backend::Avx512
    }

    /// Adds the products of the panels to the accumulators of the tile, which has so many
    /// registers of 32 bits; false if that is beyond the kernels, and then leaves D as it was.
    ///
    /// # Safety
    /// As for `execute`.
    #[allow(clippy::too_many_arguments)]
    unsafe fn compute(
        &self,
        op: &MatrixOp,
        backend: Backend,
        a: &[*const u32],
        b: &[*const u32],
        operands: &Pointers<'_>,
        scratch: &mut Scratch,
        tile: &Tile,
        registers: usize,
    ) -> bool {
        let plan = &self.plan;
        let (k, wave) = (op.stored_k(), op.wave);
        let sparse = op.kind == Kind::Sparse;
        // SAFETY: by the contract of this function; the plan fits the registers.
        unsafe {
            let ranges = |scratch: &Scratch| self.ranges(op, backend, (a, b), scratch);
            if sparse {
                on!(backend, select(op, operands.index, scratch));
            }
            match self.algorithm {
                Algorithm::Chain if sparse => on!(backend, chain_sparse(scratch, k, plan, tile)),
                Algorithm::Chain if self.in_registers => {
                    let (a, b) = ((&self.a, a), (&self.b, b));
                    on!(
                        backend,
                        chain_in_registers(&InRegisters { a, b }, k, plan, tile)
                    );
                }
                Algorithm::Chain
                    if self.is_direct(backend)
                        && direct::chain(scratch, (&self.b, b), k, plan, tile, wave) => {}
                Algorithm::Chain => {
                    if self.is_direct(backend) {
                        on!(backend, unpack(&self.b, 0, b, &mut scratch.b));
                    }
                    on!(backend, chain(scratch, k, plan, tile));
                }
                Algorithm::Integer if backend == Backend::Avx512 && self.bytes.is_some() => {
                    let how = (self.saturates, self.a.signed);
                    bytes::sums(scratch, k / 4, plan, tile, how);
                }
                Algorithm::Integer => match (sparse, self.saturates) {
                    (false, false) => on!(backend, integer(scratch, k / 2, plan, tile)),
                    (false, true) => on!(backend, integer_saturating(scratch, k / 2, plan, tile)),
                    (true, false) => on!(backend, chain_wrapping(scratch, k, plan, tile)),
                    (true, true) => on!(backend, chain_saturating(scratch, k, plan, tile)),
                },
                Algorithm::Tree { group, flush } => {
                    let care = if op.a == Element::F16 {
                        Care::Exact
                    } else if flush && is_unflushed(backend, (a, b), wave, || ranges(scratch)) {
                        Care::Checked
                    } else {
                        Care::Full
                    };
                    on!(backend, tree(scratch, k, plan, tile, (group, flush, care)));
                }
                Algorithm::Fused { group, parity } => {
                    let groups = (group.min(k), parity);
                    self.fused(op, backend, (a, b), scratch, tile, groups);
                }
                Algorithm::Dot2 => {
                    let (a, b) = ranges(scratch);
                    let c = on!(backend, registers(&tile.c[..registers], wave));
                    if !Range::fits_f64(a, b, c, k) {
                        return false;
                    }
                    on!(backend, dot2(scratch, k, plan, tile));
                }
                Algorithm::Scaled { block } => {
                    let scales = Scales::new(op, block, operands);
                    if self.nibbles.is_some() && backend == Backend::Avx512 {
                        if fp4::sums(scratch, plan, tile, &scales) {
                            return true;
                        }
                        self.unpack_floats(op, backend, a, b, scratch);
                    }
                    let (a, b) = ranges(scratch);
                    // The significands of two scale factors add eight bits at most.
                    if !Range::fits(a, b, block, 53 - 8) {
                        return false;
                    }
                    let single = Range::fits(a, b, block, 24);
                    on!(backend, scaled(scratch, k, plan, tile, &scales, single));
                }
            }
        }
        true
    }

    /// What A and B span: from the panels, if the elements are 32 bits wide.
    ///
    /// # Safety
    /// As for `compute`.
    #[inline]
    unsafe fn ranges(
        &self,
        op: &MatrixOp,
        backend: Backend,
        (a, b): (&[*const u32], &[*const u32]),
        scratch: &Scratch,
    ) -> (Range, Range) {
        let of = |element: Element, rows: &[*const u32], panel, lanes| {
            if element.bits() == 32 {
                // SAFETY: by the contract of this function.
                unsafe { on!(backend, floats(panel, lanes)) }
            } else if let Some(range) = Range::of_format(element) {
                range
            } else {
                // SAFETY: by the contract of this function.
                unsafe { on!(backend, encoded(element, rows, op.wave)) }.range()
            }
        };
        (
            of(op.a, a, &scratch.a[..op.stored_k()], self.a.lanes.max(op.m)),
            of(op.b, b, &scratch.b[..op.k], self.b.lanes),
        )
    }

    /// Fused sums, as FMA chains where they are exact.
    ///
    /// # Safety
    /// As for `compute`.
    unsafe fn fused(
        &self,
        op: &MatrixOp,
        backend: Backend,
        (a, b): (&[*const u32], &[*const u32]),
        scratch: &mut Scratch,
        tile: &Tile,
        groups: (usize, bool),
    ) {
        let plan = &self.plan;
        let (k, wave) = (op.stored_k(), op.wave);
        let sparse = op.kind == Kind::Sparse;
        let lanes = (self.a.lanes, self.b.lanes);
        let mins = (formats::min_exponent(op.a), formats::min_exponent(op.b));
        let mut left = [0; 8];
        let mut ranges = None;
        // SAFETY: by the contract of this function; the plan fits the registers.
        unsafe {
            let is_within =
                |limits: &Within, element: Element, rows: &[*const u32], panel, lanes| match limits
                {
                    Within::Encoded(limits) => {
                        limits.element == element && on!(backend, is_within(limits, rows, wave))
                    }
                    Within::Floats(range) => {
                        element.bits() == 32 && on!(backend, within(panel, lanes, range))
                    }
                };
            // Kernels multiply much alike data: what was found last is soon confirmed.
            let known = scratch.exact.filter(|known| {
                let [limits_a, limits_b] = &known.limits;
                known.k == k
                    && is_within(limits_a, op.a, a, &scratch.a[..k], lanes.0)
                    && is_within(limits_b, op.b, b, &scratch.b[..op.k], lanes.1)
            });
            let exact = match known {
                Some(known) => Some(known.exact),
                None => {
                    let (of_a, of_b, exact);
                    if op.a.bits() == 32 {
                        (of_a, of_b) = self.ranges(op, backend, (a, b), scratch);
                        exact = Exact::new(of_a, of_b, k, mins);
                        if let Some(exact) = exact {
                            let limits = [of_a, of_b].map(Within::Floats);
                            scratch.exact = Some(Known { k, exact, limits });
                        }
                    } else {
                        let a = on!(backend, encoded(op.a, a, wave));
                        let b = on!(backend, encoded(op.b, b, wave));
                        (of_a, of_b) = (a.range(), b.range());
                        exact = Exact::new(of_a, of_b, k, mins);
                        if let Some(exact) = exact {
                            let limits = [a, b].map(|of| Within::Encoded(of.limits()));
                            scratch.exact = Some(Known { k, exact, limits });
                        }
                    }
                    ranges = Some((of_a, of_b));
                    exact
                }
            };
            let done = match exact {
                Some(exact) if sparse => on!(
                    backend,
                    exact_sparse(scratch, k, plan, tile, &exact, &mut left)
                ),
                Some(exact) if self.is_direct(backend) => {
                    direct::exact(scratch, (&self.b, b), k, plan, tile, &exact, &mut left)
                }
                Some(exact) => on!(backend, exact(scratch, k, plan, tile, &exact, &mut left)),
                None => {
                    let all = if plan.rows == Rows::Quad {
                        0xf
                    } else {
                        u16::MAX
                    };
                    left[..plan.jobs().len()].fill(all);
                    false
                }
            };
            if done {
                return;
            }
            if self.is_direct(backend) {
                on!(backend, unpack(&self.b, 0, b, &mut scratch.b));
            }
            let (of_a, of_b) = ranges.unwrap_or_else(|| self.ranges(op, backend, (a, b), scratch));
            let shape = Fused::new(op, of_a, of_b, (lanes.0, lanes.1, op.k));
            if sparse {
                on!(
                    backend,
                    fused_sparse(scratch, k, plan, tile, &shape, &left, groups)
                );
            } else {
                on!(
                    backend,
                    fused(scratch, k, plan, tile, &shape, &left, groups)
                );
            }
        }
    }
}

/// Whether trees of these bf16 meet no number that CDNA2 flushes, as [`Range::nothing_to_flush`] says; those of
/// moderate size do not.
///
/// # Safety
/// The host must support the back end, the registers have `lanes` lanes.
unsafe fn is_unflushed(
    backend: Backend,
    (a, b): (&[*const u32], &[*const u32]),
    lanes: usize,
    ranges: impl FnOnce() -> (Range, Range),
) -> bool {
    // SAFETY: by the contract of this function.
    let moderate = |rows| unsafe { on!(backend, is_moderate(rows, lanes)) };
    moderate(a) && moderate(b) || {
        let (a, b) = ranges();
        Range::nothing_to_flush(a, b)
    }
}

/// How to unpack bytes of a dense instruction whose B is signed.
fn bytes_of(op: &MatrixOp, need: &Registers) -> Option<Box<[Unpack; 2]>> {
    let signed = |operand: u8| op.a == Element::I8 || op.mods.neg >> operand & 1 == 1;
    if op.a.bits() != 8 || !op.a.is_integer() || op.kind == Kind::Sparse || !signed(1) {
        return None;
    }
    let flip = if signed(0) { 0x8080_8080 } else { 0 };
    Some(Box::new([
        Unpack::bytes(op, 0, need.a, flip)?,
        Unpack::bytes(op, 1, need.b, 0)?,
    ]))
}

/// How to unpack E2M1 for scaled sums.
fn nibbles_of(op: &MatrixOp, need: &Registers, algorithm: Algorithm) -> Option<Box<[Unpack; 2]>> {
    if !matches!(algorithm, Algorithm::Scaled { .. })
        || (op.a, op.b) != (Element::Fp4, Element::Fp4)
        || op.kind == Kind::Sparse
    {
        return None;
    }
    Some(Box::new([
        Unpack::nibbles(op, 0, need.a)?,
        Unpack::nibbles(op, 1, need.b)?,
    ]))
}

/// Registers with their lanes permuted by CBSZ, ABID or BLGP, in a room.
///
/// # Safety
/// The registers must have 64 lanes.
#[cold]
unsafe fn permuted<'r>(
    rows: &[*const u32],
    from: impl Fn(usize) -> usize,
    room: &mut [MaybeUninit<[u32; 64]>; MAX_INPUTS],
    places: &'r mut [*const u32; MAX_INPUTS],
) -> &'r [*const u32] {
    for ((row, room), place) in rows.iter().zip(room).zip(&mut *places) {
        // SAFETY: by the contract of this function.
        let lanes = std::array::from_fn(|lane| unsafe { row.add(from(lane) % 64).read() });
        *place = room.write(lanes).as_ptr();
    }
    &places[..rows.len()]
}
