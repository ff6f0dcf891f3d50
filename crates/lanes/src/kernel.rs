//! The loop that carries one operation over the registers of a wave, for every back end.
//! An operation is written once against [`Lanes`]; [`KernelSet::of`] instantiates it.

use crate::backend::Backend;
use crate::trace::{Trace, TraceKernel};
use crate::vector::{Lanes, Scalar, WIDTH};

/// One source of a kernel: where its first 16 lanes lie, and how far the next 16 are.
#[derive(Clone, Copy, Debug)]
pub struct Src {
    /// Low (or only) words.
    pub lo: *const u32,
    /// High words of a 64-bit source.
    pub hi: *const u32,
    /// Words from one group of 16 lanes to the next: 16, or 0 for a value that all lanes share.
    pub step: usize,
    /// Right shift of a 16-bit source: 0 for the low half of a register, 16 for the high one.
    pub shift: u32,
}

impl Src {
    /// A source that is not there.
    pub const NONE: Src = Src {
        lo: std::ptr::null(),
        hi: std::ptr::null(),
        step: 0,
        shift: 0,
    };
}

/// What a kernel works on. Lanes are counted from 0; bit i of a mask belongs to lane i.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    /// Low (or only) words of the result.
    pub dst: *mut u32,
    /// High words of a 64-bit result.
    pub dst_hi: *mut u32,
    /// Sources in the order of the instruction.
    pub src: [Src; 3],
    /// Lanes that are written.
    pub exec: u64,
    /// Mask operand (carry in, VCC of a select).
    pub mask_in: u64,
    /// Mask result; zero in lanes that `exec` leaves out.
    pub mask_out: u64,
    /// Groups of 16 lanes: 2 or 4.
    pub chunks: u32,
    /// Bits of the destination word that a 16-bit result leaves as they were.
    pub keep: u32,
    /// Left shift of a 16-bit result: 0 or 16.
    pub dst_shift: u32,
    /// Whatever else the operation takes.
    pub aux: Aux,
}

/// A kernel for one operation and back end.
///
/// # Safety
/// The host has the back end's instructions; rows are aligned to 64 bytes; every pointer that the operation uses is good for
/// `chunks` groups of 16 words at its step.
pub type Kernel = unsafe fn(&mut Args);

/// How one operand travels between registers and an operation.
pub trait Port {
    /// What the operation sees.
    type Val<L: Lanes>: Copy;
    /// Its type, for modifiers.
    const KIND: Kind;
    /// The value with subnormals of its float type replaced by zeros of their sign. Only the kinds of
    /// [`Kind::flushes_in_kernel`] do so; the caller sees to the others.
    #[inline(always)]
    fn flush<L: Lanes>(value: Self::Val<L>) -> Self::Val<L> {
        value
    }
}
/// A source operand.
pub trait Input: Port {
    /// Reads group `chunk` of source `slot`.
    ///
    /// # Safety
    /// As for [`Kernel`].
    unsafe fn load<L: Lanes>(args: &Args, slot: usize, chunk: usize) -> Self::Val<L>;
}
/// A result.
pub trait Output: Port {
    /// Writes group `chunk`; with `FULL`, all of its lanes.
    ///
    /// # Safety
    /// As for [`Kernel`].
    unsafe fn store<L: Lanes, const FULL: bool>(args: &mut Args, chunk: usize, value: Self::Val<L>);
}

/// The type of a result or source, as modifiers (clamp, omod, neg, abs) and flushing see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32 bits without a float meaning.
    B32,
    /// Single precision.
    F32,
    /// 64 bits without a float meaning.
    B64,
    /// Double precision.
    F64,
    /// 16 bits without a float meaning.
    B16,
    /// Half precision.
    F16,
    /// Brain float.
    Bf16,
    /// Two 16-bit integers in a word.
    PkB16,
    /// Two half-precision floats in a word.
    PkF16,
    /// Two brain floats in a word.
    PkBf16,
    /// A bit for each lane.
    Mask,
    /// The number of the lane.
    Lane,
    /// Two single-precision floats in a pair of registers.
    PkF32,
    /// A word that the operation itself takes as f32, or as an f16 or bf16 half.
    Mixed,
}

impl Kind {
    /// Whether kernels flush subnormals of this kind themselves, as [`Args::aux`] says.
    pub const fn flushes_in_kernel(self) -> bool {
        matches!(self, Kind::F32 | Kind::PkF32)
    }
}

/// f32 lanes with subnormals replaced by zeros of their sign.
#[inline(always)]
pub(crate) fn flush_f32<L: Lanes>(v: L::V) -> L::V {
    let tiny = L::eq(L::and(v, L::splat(0x7f80_0000)), L::splat(0));
    L::select(tiny, L::and(v, L::splat(0x8000_0000)), v)
}

macro_rules! word_port {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}
        impl Port for $name {
            type Val<L: Lanes> = L::V;
            const KIND: Kind = Kind::$name;
            #[inline(always)]
            fn flush<L: Lanes>(value: L::V) -> L::V {
                if Self::KIND.flushes_in_kernel() { flush_f32::<L>(value) } else { value }
            }
        }
        impl Input for $name {
            #[inline(always)]
            unsafe fn load<L: Lanes>(args: &Args, slot: usize, chunk: usize) -> L::V {
                let s = &args.src[slot];
                // SAFETY: the caller's pointers reach this group.
                unsafe { L::load(s.lo.add(chunk * s.step)) }
            }
        }
        impl Output for $name {
            #[inline(always)]
            unsafe fn store<L: Lanes, const FULL: bool>(args: &mut Args, chunk: usize, value: L::V) {
                // SAFETY: the caller's pointers reach this group.
                unsafe { put::<L, FULL>(args.dst, args.exec, chunk, value) }
            }
        }
    )*};
}
word_port!(
    /// 32 bits.
    B32,
    /// Single precision.
    F32,
    /// Two 16-bit integers.
    PkB16,
    /// Two half-precision floats.
    PkF16,
    /// Two brain floats.
    PkBf16,
    /// A word that the operation itself takes as f32, or as an f16 or bf16 half.
    Mixed
);

macro_rules! wide_port {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}
        impl Port for $name {
            type Val<L: Lanes> = L::W;
            const KIND: Kind = Kind::$name;
        }
        impl Input for $name {
            #[inline(always)]
            unsafe fn load<L: Lanes>(args: &Args, slot: usize, chunk: usize) -> L::W {
                let s = &args.src[slot];
                // SAFETY: the caller's pointers reach this group.
                unsafe { L::join(L::load(s.lo.add(chunk * s.step)), L::load(s.hi.add(chunk * s.step))) }
            }
        }
        impl Output for $name {
            #[inline(always)]
            unsafe fn store<L: Lanes, const FULL: bool>(args: &mut Args, chunk: usize, value: L::W) {
                let (lo, hi) = L::split(value);
                // SAFETY: the caller's pointers reach this group.
                unsafe {
                    put::<L, FULL>(args.dst, args.exec, chunk, lo);
                    put::<L, FULL>(args.dst_hi, args.exec, chunk, hi);
                }
            }
        }
    )*};
}
wide_port!(
    /// 64 bits.
    B64,
    /// Double precision.
    F64
);

/// Two single-precision floats: the operation sees the low and the high element of each lane.
#[derive(Debug)]
pub enum PkF32 {}
impl Port for PkF32 {
    type Val<L: Lanes> = (L::V, L::V);
    const KIND: Kind = Kind::PkF32;
    #[inline(always)]
    fn flush<L: Lanes>(value: (L::V, L::V)) -> (L::V, L::V) {
        (flush_f32::<L>(value.0), flush_f32::<L>(value.1))
    }
}
impl Input for PkF32 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(args: &Args, slot: usize, chunk: usize) -> (L::V, L::V) {
        let s = &args.src[slot];
        // SAFETY: the caller's pointers reach this group.
        unsafe {
            (
                L::load(s.lo.add(chunk * s.step)),
                L::load(s.hi.add(chunk * s.step)),
            )
        }
    }
}
impl Output for PkF32 {
    #[inline(always)]
    unsafe fn store<L: Lanes, const FULL: bool>(
        args: &mut Args,
        chunk: usize,
        value: (L::V, L::V),
    ) {
        // SAFETY: the caller's pointers reach this group.
        unsafe {
            put::<L, FULL>(args.dst, args.exec, chunk, value.0);
            put::<L, FULL>(args.dst_hi, args.exec, chunk, value.1);
        }
    }
}

macro_rules! half_port {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        /// The operation sees it in the low half of a lane, the high half being zero.
        #[derive(Debug)]
        pub enum $name {}
        impl Port for $name {
            type Val<L: Lanes> = L::V;
            const KIND: Kind = Kind::$name;
        }
        impl Input for $name {
            #[inline(always)]
            unsafe fn load<L: Lanes>(args: &Args, slot: usize, chunk: usize) -> L::V {
                let s = &args.src[slot];
                // SAFETY: the caller's pointers reach this group.
                let word = unsafe { L::load(s.lo.add(chunk * s.step)) };
                L::and(L::shr(word, L::splat(s.shift)), L::splat(0xffff))
            }
        }
        impl Output for $name {
            #[inline(always)]
            unsafe fn store<L: Lanes, const FULL: bool>(args: &mut Args, chunk: usize, value: L::V) {
                // SAFETY: the caller's pointers reach this group.
                unsafe {
                    let old = L::load(args.dst.add(chunk * WIDTH));
                    let new = L::or(L::shl(value, L::splat(args.dst_shift)), L::and(old, L::splat(args.keep)));
                    put::<L, FULL>(args.dst, args.exec, chunk, new);
                }
            }
        }
    )*};
}
half_port!(
    /// 16 bits.
    B16,
    /// Half precision.
    F16,
    /// Brain float.
    Bf16
);

/// A bit for each lane.
#[derive(Debug)]
pub enum Mask {}
impl Port for Mask {
    type Val<L: Lanes> = L::M;
    const KIND: Kind = Kind::Mask;
}
impl Input for Mask {
    #[inline(always)]
    unsafe fn load<L: Lanes>(args: &Args, _slot: usize, chunk: usize) -> L::M {
        L::mask_operand(args.mask_in, chunk)
    }
}
impl Output for Mask {
    #[inline(always)]
    unsafe fn store<L: Lanes, const FULL: bool>(args: &mut Args, chunk: usize, value: L::M) {
        L::mask_result(&mut args.mask_out, args.exec, chunk, value);
    }
}

/// The number of the lane: no operand of the instruction, but a source of operations that depend on it.
#[derive(Debug)]
pub enum Lane {}
impl Port for Lane {
    type Val<L: Lanes> = L::V;
    const KIND: Kind = Kind::Lane;
}
impl Input for Lane {
    #[inline(always)]
    unsafe fn load<L: Lanes>(_: &Args, _slot: usize, chunk: usize) -> L::V {
        L::lane_numbers(chunk)
    }
}

/// The source operands of an operation: a tuple of ports.
pub trait Inputs {
    /// What the operation sees.
    type Vals<L: Lanes>: Copy;
    /// Their types in order, [`Kind::Mask`] among them.
    const KINDS: &'static [Kind];
    /// Each source as [`Port::flush`] has it.
    fn flush<L: Lanes>(values: Self::Vals<L>) -> Self::Vals<L>;
    /// Reads group `chunk` of every source.
    ///
    /// # Safety
    /// As for [`Kernel`].
    unsafe fn load<L: Lanes>(args: &Args, chunk: usize) -> Self::Vals<L>;
}
macro_rules! inputs {
    ($($p:ident $slot:tt),*) => {
        impl<$($p: Input),*> Inputs for ($($p,)*) {
            type Vals<L: Lanes> = ($($p::Val<L>,)*);
            const KINDS: &'static [Kind] = &[$($p::KIND),*];
            #[inline(always)]
            fn flush<L: Lanes>(values: Self::Vals<L>) -> Self::Vals<L> {
                ($($p::flush::<L>(values.$slot),)*)
            }
            #[inline(always)]
            unsafe fn load<L: Lanes>(args: &Args, chunk: usize) -> Self::Vals<L> {
                // SAFETY: the caller's pointers reach this group.
                unsafe { ($($p::load::<L>(args, $slot, chunk),)*) }
            }
        }
    };
}
impl Inputs for () {
    type Vals<L: Lanes> = ();
    const KINDS: &'static [Kind] = &[];
    #[inline(always)]
    fn flush<L: Lanes>(_: ()) {}
    #[inline(always)]
    unsafe fn load<L: Lanes>(_: &Args, _: usize) {}
}
inputs!(A 0);
inputs!(A 0, B 1);
inputs!(A 0, B 1, C 2);
// A mask operand or lane number always comes last, so that the slots before it are those of the instruction.
inputs!(A 0, B 1, C 2, D 3);

/// The results of an operation: a port, or a pair of one and a mask.
pub trait Outputs {
    /// What the operation returns.
    type Vals<L: Lanes>;
    /// Kind of the register result ([`Kind::Mask`] if there is none).
    const KIND: Kind;
    /// Whether there is a mask result.
    const GIVES_MASK: bool;
    /// The register result as [`Port::flush`] has it.
    fn flush<L: Lanes>(values: Self::Vals<L>) -> Self::Vals<L>;
    /// Writes group `chunk`; with `FULL`, all of its lanes.
    ///
    /// # Safety
    /// As for [`Kernel`].
    unsafe fn store<L: Lanes, const FULL: bool>(
        args: &mut Args,
        chunk: usize,
        values: Self::Vals<L>,
    );
}
impl<P: Output> Outputs for (P,) {
    type Vals<L: Lanes> = P::Val<L>;
    const KIND: Kind = P::KIND;
    const GIVES_MASK: bool = matches!(P::KIND, Kind::Mask);
    #[inline(always)]
    fn flush<L: Lanes>(value: P::Val<L>) -> P::Val<L> {
        P::flush::<L>(value)
    }
    #[inline(always)]
    unsafe fn store<L: Lanes, const FULL: bool>(args: &mut Args, chunk: usize, value: P::Val<L>) {
        // SAFETY: the caller's pointers reach this group.
        unsafe { P::store::<L, FULL>(args, chunk, value) }
    }
}
impl<P: Output> Outputs for (P, Mask) {
    type Vals<L: Lanes> = (P::Val<L>, L::M);
    const KIND: Kind = P::KIND;
    const GIVES_MASK: bool = true;
    #[inline(always)]
    fn flush<L: Lanes>(values: Self::Vals<L>) -> Self::Vals<L> {
        (P::flush::<L>(values.0), values.1)
    }
    #[inline(always)]
    unsafe fn store<L: Lanes, const FULL: bool>(
        args: &mut Args,
        chunk: usize,
        values: Self::Vals<L>,
    ) {
        // SAFETY: the caller's pointers reach this group.
        unsafe {
            P::store::<L, FULL>(args, chunk, values.0);
            Mask::store::<L, FULL>(args, chunk, values.1);
        }
    }
}

/// An operation on lanes, written once for all back ends.
pub trait Op: 'static {
    /// Its sources.
    type In: Inputs;
    /// Its results.
    type Out: Outputs;
    /// Whether [`Op::eval_modal`] differs from [`Op::eval`].
    const HAS_MODAL: bool = false;
    /// Computes 16 lanes in the default float mode: round to nearest even.
    fn eval<L: Lanes>(
        aux: Aux,
        inputs: <Self::In as Inputs>::Vals<L>,
    ) -> <Self::Out as Outputs>::Vals<L>;
    /// Computes 16 lanes in the float mode that `aux` holds.
    #[inline(always)]
    fn eval_modal<L: Lanes>(
        aux: Aux,
        inputs: <Self::In as Inputs>::Vals<L>,
    ) -> <Self::Out as Outputs>::Vals<L> {
        Self::eval::<L>(aux, inputs)
    }
}

/// What an operation is told besides its sources.
///
/// Bits 7:0 MODE.FP_ROUND and FP_DENORM as the MODE register has them; 8 DX10_CLAMP; 9 IEEE;
/// 10 FP16_OVFL; 11 the clamp modifier (for integer saturation); 31:16 an immediate of the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aux(pub u32);

impl Aux {
    /// The clamp modifier.
    pub const CLAMP: u32 = 1 << 11;

    /// The bit of FP_DENORM that allows subnormal f32 sources.
    pub const F32_SOURCES: u32 = 1 << 4;
    /// The bit of FP_DENORM that allows subnormal f32 results.
    pub const F32_RESULTS: u32 = 1 << 5;

    /// Whether FP_DENORM flushes subnormal f32 sources.
    #[inline(always)]
    pub fn flushes_f32_sources(self) -> bool {
        self.0 & Self::F32_SOURCES == 0
    }
    /// Whether FP_DENORM flushes subnormal f32 results.
    #[inline(always)]
    pub fn flushes_f32_results(self) -> bool {
        self.0 & Self::F32_RESULTS == 0
    }
    /// Either of them.
    #[inline(always)]
    pub fn flushes_f32(self) -> bool {
        self.0 & (Self::F32_SOURCES | Self::F32_RESULTS) != Self::F32_SOURCES | Self::F32_RESULTS
    }
    /// MODE bits 7:0: FP_ROUND and FP_DENORM.
    #[inline(always)]
    pub fn float_mode(self) -> u32 {
        self.0 & 0xff
    }
    /// MODE.DX10_CLAMP.
    #[inline(always)]
    pub fn dx10_clamp(self) -> bool {
        self.0 >> 8 & 1 != 0
    }
    /// MODE.IEEE.
    #[inline(always)]
    pub fn ieee(self) -> bool {
        self.0 >> 9 & 1 != 0
    }
    /// MODE.FP16_OVFL.
    #[inline(always)]
    pub fn fp16_ovfl(self) -> bool {
        self.0 >> 10 & 1 != 0
    }
    /// The clamp modifier of an integer operation.
    #[inline(always)]
    pub fn clamp(self) -> bool {
        self.0 & Self::CLAMP != 0
    }
    /// An immediate of the operation (byte select, truth table, halves ...).
    #[inline(always)]
    pub fn immediate(self) -> u32 {
        self.0 >> 16
    }
}

/// Writes group `chunk` of a row in the lanes of `exec`. Whole groups are stored: a masked store followed
/// by a load of the same row stalls for some 60 cycles.
#[inline(always)]
unsafe fn put<L: Lanes, const FULL: bool>(row: *mut u32, exec: u64, chunk: usize, value: L::V) {
    // SAFETY: the caller's row has this group.
    unsafe {
        let p = row.add(chunk * WIDTH);
        if FULL {
            L::store(p, value);
        } else {
            let m = L::mask((exec >> (chunk * WIDTH)) as u16);
            L::store(p, L::select(m, value, L::load(p)));
        }
    }
}

#[inline(always)]
unsafe fn group<L: Lanes, O: Op, const FULL: bool, const FLUSH: bool>(
    args: &mut Args,
    chunk: usize,
) {
    // SAFETY: the caller's pointers reach this group.
    unsafe {
        let mut inputs = O::In::load::<L>(args, chunk);
        if FLUSH && args.aux.flushes_f32_sources() {
            inputs = O::In::flush::<L>(inputs);
        }
        let mut outputs = O::eval::<L>(args.aux, inputs);
        if FLUSH && args.aux.flushes_f32_results() {
            outputs = O::Out::flush::<L>(outputs);
        }
        O::Out::store::<L, FULL>(args, chunk, outputs);
    }
}

/// Whether an operation has sources or results whose subnormals its kernels flush.
const fn may_flush<O: Op>() -> bool {
    let mut found = <O::Out as Outputs>::KIND.flushes_in_kernel();
    let kinds = <O::In as Inputs>::KINDS;
    let mut i = 0;
    while i < kinds.len() {
        found |= kinds[i].flushes_in_kernel();
        i += 1;
    }
    found
}

#[inline(always)]
unsafe fn drive<L: Lanes, O: Op>(args: &mut Args) {
    args.mask_out = 0;
    // SAFETY: the caller's pointers reach `chunks` groups.
    unsafe {
        if const { may_flush::<O>() } && args.aux.flushes_f32() {
            if args.chunks == 4 && args.exec == u64::MAX {
                for chunk in 0..4 {
                    group::<L, O, true, true>(args, chunk);
                }
            } else {
                for chunk in 0..args.chunks as usize {
                    group::<L, O, false, true>(args, chunk);
                }
            }
        } else if args.chunks == 4 && args.exec == u64::MAX {
            for chunk in 0..4 {
                group::<L, O, true, false>(args, chunk);
            }
        } else {
            for chunk in 0..args.chunks as usize {
                group::<L, O, false, false>(args, chunk);
            }
        }
    }
}

unsafe fn modal<O: Op>(args: &mut Args) {
    args.mask_out = 0;
    for chunk in 0..args.chunks as usize {
        // SAFETY: the caller's pointers reach `chunks` groups.
        unsafe {
            let mut inputs = O::In::load::<Scalar>(args, chunk);
            if args.aux.flushes_f32_sources() {
                inputs = O::In::flush::<Scalar>(inputs);
            }
            let mut outputs = O::eval_modal::<Scalar>(args.aux, inputs);
            if args.aux.flushes_f32_results() {
                outputs = O::Out::flush::<Scalar>(outputs);
            }
            O::Out::store::<Scalar, false>(args, chunk, outputs);
        }
    }
}
unsafe fn scalar<O: Op>(args: &mut Args) {
    // SAFETY: the contract of `Kernel`.
    unsafe { drive::<Scalar, O>(args) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<O: Op>(args: &mut Args) {
    // SAFETY: the contract of `Kernel`.
    unsafe { drive::<crate::vector::Avx2, O>(args) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
)]
unsafe fn avx512<O: Op>(args: &mut Args) {
    // SAFETY: the contract of `Kernel`.
    unsafe { drive::<crate::vector::Avx512, O>(args) }
}

fn trace<O: Op>(args: &mut Args) {
    // SAFETY: this back end reads and writes no memory.
    unsafe { group::<Trace, O, true, true>(args, 0) }
}

/// The kernels of one operation, and what its caller has to know of its shape.
#[derive(Clone, Copy, Debug)]
pub struct KernelSet {
    kernels: [Kernel; 3],
    /// The kernel for float modes other than the default; `None` if they change nothing beyond the
    /// flushing that the caller does on sources and result.
    pub modal: Option<Kernel>,
    /// Kind of the register result; [`Kind::Mask`] if the only result is a mask.
    pub out: Kind,
    /// Types of the sources in order; [`Kind::Mask`] stands for [`Args::mask_in`].
    pub inputs: &'static [Kind],
    /// Whether [`Args::mask_out`] is written.
    pub gives_mask: bool,
    /// What the kernels but the modal one compute, as a graph.
    pub trace: TraceKernel,
}

impl KernelSet {
    /// The kernels of operation `O`.
    pub const fn of<O: Op>() -> KernelSet {
        #[cfg(target_arch = "x86_64")]
        let kernels: [Kernel; 3] = [scalar::<O>, avx2::<O>, avx512::<O>];
        #[cfg(not(target_arch = "x86_64"))]
        let kernels: [Kernel; 3] = [scalar::<O>; 3];
        KernelSet {
            kernels,
            modal: if O::HAS_MODAL { Some(modal::<O>) } else { None },
            out: <O::Out as Outputs>::KIND,
            inputs: <O::In as Inputs>::KINDS,
            gives_mask: <O::Out as Outputs>::GIVES_MASK,
            trace: TraceKernel(trace::<O>),
        }
    }

    /// The kernel for a back end.
    pub fn get(&self, backend: Backend) -> Kernel {
        self.kernels[backend as usize]
    }
}
