//! A back end that writes kernels down: its values are nodes of a [`Graph`], its operations append to it.
//! What a kernel traced with it computes is what the other back ends compute, from the same source.

mod double;
mod elementary;
pub mod graph;
mod permute;

use std::cell::RefCell;

use crate::kernel::{Args, Src};
use crate::vector::{Lanes, WIDTH};
use graph::{Graph, Id, Op, table};

/// Values of one operation: what its operands are, and what came out.
#[derive(Debug, Default)]
pub struct Recorder {
    /// All that was traced.
    pub graph: Graph,
    /// Low and high words of the three sources, then those of the destination as it was.
    pub operands: [Option<Id>; 8],
    /// The mask operand.
    pub mask: Option<Id>,
    /// Low and high words of the result.
    pub results: [Option<Id>; 2],
    /// The mask result.
    pub mask_result: Option<Id>,
    /// The operation did something that a graph cannot say: its results are void.
    pub failed: bool,
}

thread_local! {
    static CURRENT: RefCell<Recorder> = RefCell::default();
}

/// Bytes between the addresses that stand for operands.
const STEP: usize = 1 << 12;

/// The address that stands for operand `n`.
fn address(n: usize) -> usize {
    (n + 1) * STEP
}

impl Recorder {
    /// Traces a kernel of [`crate::kernel::KernelSet::trace`]. `shape` gives shifts, kept bits and `aux`; its
    /// pointers are ignored. Operands and mask are those set before; afterwards the results are there,
    /// unless [`Recorder::failed`] is set.
    pub fn trace(&mut self, kernel: TraceKernel, shape: &Args) {
        let mut args = *shape;
        args.src = std::array::from_fn(|slot| Src {
            lo: std::ptr::without_provenance(address(2 * slot)),
            hi: std::ptr::without_provenance(address(2 * slot + 1)),
            step: 16,
            shift: shape.src[slot].shift,
        });
        args.dst = std::ptr::without_provenance_mut(address(6));
        args.dst_hi = std::ptr::without_provenance_mut(address(7));
        args.exec = u64::MAX;
        args.chunks = 1;
        self.results = [None; 2];
        self.mask_result = None;
        self.failed = false;
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self));
        (kernel.0)(&mut args);
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self));
    }
}

impl Recorder {
    /// Traces what `f` computes with [`Trace`] from nodes of the graph; `None` if a graph cannot say it.
    pub fn compute<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        self.failed = false;
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self));
        let result = f();
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self));
        (!self.failed).then_some(result)
    }
}

/// A kernel instantiated for [`Trace`]: it touches no memory.
#[derive(Clone, Copy, Debug)]
pub struct TraceKernel(pub(crate) fn(&mut Args));

/// Lanes as nodes. Its methods work only below [`Recorder::trace`].
#[derive(Clone, Copy, Debug)]
pub struct Trace;

fn with<R>(f: impl FnOnce(&mut Graph) -> R) -> R {
    CURRENT.with_borrow_mut(|current| f(&mut current.graph))
}

/// Marks the operation as one that cannot be traced, and gives some value to go on with.
fn give_up() -> Id {
    CURRENT.with_borrow_mut(|current| {
        current.failed = true;
        current.graph.constant(0)
    })
}

fn give_up_condition() -> Id {
    give_up();
    with(|g| g.leaf(Op::ConstMask, 0))
}

fn one(op: Op, a: Id, imm: u32) -> Id {
    with(|g| g.one(op, a, imm))
}
fn two(op: Op, a: Id, b: Id) -> Id {
    with(|g| g.two(op, a, b, 0))
}
fn three(op: Op, a: Id, b: Id, c: Id) -> Id {
    with(|g| g.three(op, a, b, c))
}
fn logic(f: u32, a: Id, b: Id) -> Id {
    with(|g| g.logic(f, a, b))
}
fn compare(op: Op, imm: u32, a: Id, b: Id) -> Id {
    with(|g| g.two(op, a, b, imm))
}
fn wide(op: Op, a: [Id; 2], b: [Id; 2]) -> [Id; 2] {
    [two(op, a[0], b[0]), two(op, a[1], b[1])]
}
fn wide_compare(imm: u32, a: [Id; 2], b: [Id; 2]) -> Id {
    let halves = [0, 1].map(|i| compare(Op::CompareD, imm, a[i], b[i]));
    two(Op::MaskJoin, halves[0], halves[1])
}

// Predicates of `vcmpps`: equal, less, less or equal, unordered.
const EQ: u32 = 0;
const LT: u32 = 1;
const LE: u32 = 2;
const UNORDERED: u32 = 3;

// SAFETY: no method executes an instruction that the build target lacks, or touches memory.
unsafe impl Lanes for Trace {
    type V = Id;
    type W = [Id; 2];
    type M = Id;

    unsafe fn load(p: *const u32) -> Id {
        let at = (p as usize / STEP).wrapping_sub(1);
        let operand = CURRENT.with_borrow(|c| c.operands.get(at).copied().flatten());
        operand.unwrap_or_else(give_up)
    }
    unsafe fn store(p: *mut u32, v: Id) {
        let at = (p as usize / STEP).wrapping_sub(7);
        CURRENT.with_borrow_mut(|c| match c.results.get_mut(at) {
            Some(result) => *result = Some(v),
            None => c.failed = true,
        });
    }
    fn mask_operand(_: u64, _: usize) -> Id {
        CURRENT
            .with_borrow(|c| c.mask)
            .unwrap_or_else(give_up_condition)
    }
    fn mask_result(_: &mut u64, _: u64, _: usize, m: Id) {
        CURRENT.with_borrow_mut(|c| c.mask_result = Some(m));
    }
    fn none(m: Id) -> bool {
        with(|g| g.get(m).op == Op::ConstMask && g.get(m).imm & 0xffff == 0)
    }
    fn all(m: Id) -> bool {
        with(|g| g.get(m).op == Op::ConstMask && g.get(m).imm & 0xffff == 0xffff)
    }

    fn splat(x: u32) -> Id {
        with(|g| g.constant(x))
    }
    fn to_array(_: Id) -> [u32; WIDTH] {
        give_up();
        [0; WIDTH]
    }
    fn from_array(_: [u32; WIDTH]) -> Id {
        give_up()
    }
    fn w_to_array(_: [Id; 2]) -> [u64; WIDTH] {
        give_up();
        [0; WIDTH]
    }
    fn w_from_array(_: [u64; WIDTH]) -> [Id; 2] {
        [give_up(); 2]
    }
    fn join(lo: Id, hi: Id) -> [Id; 2] {
        [two(Op::JoinLow, lo, hi), two(Op::JoinHigh, lo, hi)]
    }
    fn split([low, high]: [Id; 2]) -> (Id, Id) {
        (two(Op::SplitLow, low, high), two(Op::SplitHigh, low, high))
    }
    fn mask(bits: u16) -> Id {
        with(|g| g.leaf(Op::ConstMask, bits.into()))
    }
    fn bits(_: Id) -> u16 {
        give_up();
        0
    }
    fn select(m: Id, a: Id, b: Id) -> Id {
        three(Op::Select, m, a, b)
    }
    fn w_select(m: Id, a: [Id; 2], b: [Id; 2]) -> [Id; 2] {
        let high = one(Op::MaskHigh, m, 0);
        [
            three(Op::SelectD, m, a[0], b[0]),
            three(Op::SelectD, high, a[1], b[1]),
        ]
    }
    fn m_and(a: Id, b: Id) -> Id {
        two(Op::MaskAnd, a, b)
    }
    fn m_or(a: Id, b: Id) -> Id {
        two(Op::MaskOr, a, b)
    }
    fn m_not(a: Id) -> Id {
        one(Op::MaskNot, a, 0)
    }
    fn add(a: Id, b: Id) -> Id {
        two(Op::Add, a, b)
    }
    fn sub(a: Id, b: Id) -> Id {
        two(Op::Sub, a, b)
    }
    fn mul(a: Id, b: Id) -> Id {
        two(Op::Mul, a, b)
    }
    fn and(a: Id, b: Id) -> Id {
        logic(table::AND, a, b)
    }
    fn or(a: Id, b: Id) -> Id {
        logic(table::OR, a, b)
    }
    fn xor(a: Id, b: Id) -> Id {
        logic(table::XOR, a, b)
    }
    fn shl(a: Id, n: Id) -> Id {
        two(Op::Shl, a, n)
    }
    fn shr(a: Id, n: Id) -> Id {
        two(Op::Shr, a, n)
    }
    fn sar(a: Id, n: Id) -> Id {
        two(Op::Sar, a, n)
    }
    fn min_i(a: Id, b: Id) -> Id {
        two(Op::MinI, a, b)
    }
    fn max_i(a: Id, b: Id) -> Id {
        two(Op::MaxI, a, b)
    }
    fn min_u(a: Id, b: Id) -> Id {
        two(Op::MinU, a, b)
    }
    fn max_u(a: Id, b: Id) -> Id {
        two(Op::MaxU, a, b)
    }
    fn eq(a: Id, b: Id) -> Id {
        compare(Op::CompareI, EQ, a, b)
    }
    fn lt_i(a: Id, b: Id) -> Id {
        compare(Op::CompareI, LT, a, b)
    }
    fn lt_u(a: Id, b: Id) -> Id {
        compare(Op::CompareU, LT, a, b)
    }
    fn mul_hi_u(a: Id, b: Id) -> Id {
        mul_high(Op::MulEvenU, a, b)
    }
    fn mul_hi_i(a: Id, b: Id) -> Id {
        mul_high(Op::MulEvenI, a, b)
    }
    fn perm_bytes(a: Id, b: Id, sel: Id) -> Id {
        permute::bytes(a, b, sel)
    }
    fn add_f32(a: Id, b: Id) -> Id {
        two(Op::AddF, a, b)
    }
    fn sub_f32(a: Id, b: Id) -> Id {
        two(Op::SubF, a, b)
    }
    fn mul_f32(a: Id, b: Id) -> Id {
        two(Op::MulF, a, b)
    }
    fn fma_f32(a: Id, b: Id, c: Id) -> Id {
        three(Op::FmaF, a, b, c)
    }
    fn eq_f32(a: Id, b: Id) -> Id {
        compare(Op::CompareF, EQ, a, b)
    }
    fn lt_f32(a: Id, b: Id) -> Id {
        compare(Op::CompareF, LT, a, b)
    }
    fn le_f32(a: Id, b: Id) -> Id {
        compare(Op::CompareF, LE, a, b)
    }
    fn unordered_f32(a: Id, b: Id) -> Id {
        compare(Op::CompareF, UNORDERED, a, b)
    }
    fn f32_from_i32(a: Id) -> Id {
        one(Op::FromI, a, 0)
    }
    fn f32_from_u32(a: Id) -> Id {
        one(Op::FromU, a, 0)
    }
    fn i32_from_f32(a: Id) -> Id {
        let limit = Self::splat(0x4f00_0000);
        let most = Self::splat(0x7fff_ffff);
        let fits = Self::select(Self::le_f32(limit, a), most, one(Op::ToI, a, 0));
        Self::select(Self::unordered_f32(a, a), Self::splat(0), fits)
    }
    fn u32_from_f32(a: Id) -> Id {
        one(Op::ToU, two(Op::MaxOrB, a, Self::splat(0)), 0)
    }
    fn scale_f32(a: Id, e: Id) -> Id {
        two(Op::ScaleF, a, one(Op::FromI, e, 0))
    }
    fn round_f32<const TO: i32>(a: Id) -> Id {
        one(Op::RoundF, a, TO as u32)
    }
    fn lane_numbers(_: usize) -> Id {
        with(|g| g.leaf(Op::Lane, 0))
    }
    fn leading_zeros(a: Id) -> Id {
        one(Op::LeadingZeros, a, 0)
    }
    fn count_ones(a: Id) -> Id {
        elementary::count_ones(a)
    }
    fn reverse_bits(a: Id) -> Id {
        elementary::reverse_bits(a)
    }
    fn rcp_f32(a: Id) -> Id {
        elementary::rcp(a)
    }
    fn sqrt_f32(a: Id) -> Id {
        elementary::sqrt(a)
    }
    fn rsq_f32(a: Id) -> Id {
        elementary::rsq(a)
    }
    fn exp_f32(a: Id) -> Id {
        elementary::exp(a)
    }
    fn log_f32(a: Id) -> Id {
        elementary::log(a)
    }
    fn sin_f32(a: Id) -> Id {
        elementary::sin(a)
    }
    fn cos_f32(a: Id) -> Id {
        elementary::cos(a)
    }
    fn f64_from_i32(a: Id) -> [Id; 2] {
        double::widened(Op::FromID, a)
    }
    fn f64_from_u32(a: Id) -> [Id; 2] {
        double::widened(Op::FromUD, a)
    }
    fn f64_from_f32(a: Id) -> [Id; 2] {
        double::widened(Op::FromFD, a)
    }
    fn f32_from_f64(a: [Id; 2]) -> Id {
        double::narrowed(Op::ToFD, a)
    }
    fn i32_from_f64(a: [Id; 2]) -> Id {
        let limit = Self::f64_splat(2_147_483_648.0);
        let most = Self::splat(0x7fff_ffff);
        let value = double::narrowed(Op::ToID, a);
        let value = Self::select(Self::le_f64(limit, a), most, value);
        Self::select(Self::unordered_f64(a, a), Self::splat(0), value)
    }
    fn u32_from_f64(a: [Id; 2]) -> Id {
        let value = double::narrowed(Op::ToUD, a);
        let positive = Self::lt_f64(Self::f64_splat(0.0), a);
        Self::select(positive, value, Self::splat(0))
    }
    fn rcp_f64(a: [Id; 2]) -> [Id; 2] {
        wide(Op::DivD, Self::f64_splat(1.0), a)
    }
    fn sqrt_f64(a: [Id; 2]) -> [Id; 2] {
        double::each(Op::SqrtD, a, 0)
    }
    fn rsq_f64(a: [Id; 2]) -> [Id; 2] {
        Self::rcp_f64(Self::sqrt_f64(a))
    }
    fn scale_f64(a: [Id; 2], e: Id) -> [Id; 2] {
        wide(Op::ScaleD, a, Self::f64_from_i32(e))
    }
    fn round_f64<const TO: i32>(a: [Id; 2]) -> [Id; 2] {
        double::each(Op::RoundD, a, TO as u32)
    }
    fn f32_from_f16(a: Id) -> Id {
        one(Op::FromF16, one(Op::Narrow, a, 0), 0)
    }
    fn f16_from_f32(a: Id) -> Id {
        one(Op::Widen, one(Op::ToF16, a, 0), 0)
    }
    fn f16_from_f32_toward_zero(a: Id) -> Id {
        one(Op::Widen, one(Op::ToF16, a, 3), 0)
    }
    fn add_odd_f32(a: Id, b: Id) -> Id {
        three(Op::AddOdd, a, b, Self::splat(1))
    }
    const RANKS_NANS: bool = true;
    fn may_signal(a: Id) -> bool {
        with(|g| g.may_signal(a))
    }
    fn min_f32(a: Id, b: Id) -> Id {
        two(Op::MinF, a, b)
    }
    fn max_f32(a: Id, b: Id) -> Id {
        two(Op::MaxF, a, b)
    }
    fn add_f64(a: [Id; 2], b: [Id; 2]) -> [Id; 2] {
        wide(Op::AddD, a, b)
    }
    fn mul_f64(a: [Id; 2], b: [Id; 2]) -> [Id; 2] {
        wide(Op::MulD, a, b)
    }
    fn fma_f64(a: [Id; 2], b: [Id; 2], c: [Id; 2]) -> [Id; 2] {
        [0, 1].map(|i| three(Op::FmaD, a[i], b[i], c[i]))
    }
    fn eq_f64(a: [Id; 2], b: [Id; 2]) -> Id {
        wide_compare(EQ, a, b)
    }
    fn lt_f64(a: [Id; 2], b: [Id; 2]) -> Id {
        wide_compare(LT, a, b)
    }
    fn le_f64(a: [Id; 2], b: [Id; 2]) -> Id {
        wide_compare(LE, a, b)
    }
    fn unordered_f64(a: [Id; 2], b: [Id; 2]) -> Id {
        wide_compare(UNORDERED, a, b)
    }

    fn map1(_: Id, _: impl Fn(u32) -> u32) -> Id {
        give_up()
    }
    fn map2(_: Id, _: Id, _: impl Fn(u32, u32) -> u32) -> Id {
        give_up()
    }
    fn map3(_: Id, _: Id, _: Id, _: impl Fn(u32, u32, u32) -> u32) -> Id {
        give_up()
    }
    fn test2(_: Id, _: Id, _: impl Fn(u32, u32) -> bool) -> Id {
        give_up_condition()
    }
    fn w_map1(_: [Id; 2], _: impl Fn(u64) -> u64) -> [Id; 2] {
        [give_up(); 2]
    }
    fn w_map2(_: [Id; 2], _: [Id; 2], _: impl Fn(u64, u64) -> u64) -> [Id; 2] {
        [give_up(); 2]
    }
    fn w_map3(_: [Id; 2], _: [Id; 2], _: [Id; 2], _: impl Fn(u64, u64, u64) -> u64) -> [Id; 2] {
        [give_up(); 2]
    }
    fn w_test2(_: [Id; 2], _: [Id; 2], _: impl Fn(u64, u64) -> bool) -> Id {
        give_up_condition()
    }
    fn narrow(_: [Id; 2], _: impl Fn(u64) -> u32) -> Id {
        give_up()
    }
    fn widen(_: Id, _: impl Fn(u32) -> u64) -> [Id; 2] {
        [give_up(); 2]
    }
}

impl Trace {
    /// The same f64 in all lanes.
    fn f64_splat(x: f64) -> [Id; 2] {
        let bits = x.to_bits();
        Self::join(Self::splat(bits as u32), Self::splat((bits >> 32) as u32))
    }
}

fn mul_high(op: Op, a: Id, b: Id) -> Id {
    let even = one(Op::HighToLow, two(op, a, b), 0);
    let (high_a, high_b) = (one(Op::HighToLow, a, 0), one(Op::HighToLow, b, 0));
    let odd = two(op, high_a, high_b);
    Trace::select(Trace::mask(0xaaaa), odd, even)
}
