//! Read-modify-write operations of atomics, in memory and in LDS: what each makes of the value in
//! memory and the instruction's data. Manuals: chapter "Float Memory Atomics" and the DS and atomic
//! instructions; integer operations wrap.

use super::half::{add_bf16, add_f16, flush32, flush64, is_snan32, is_snan64};

/// A value that atomics work on: 32 or 64 bits.
pub trait Value: Copy + Eq + Default + 'static {
    /// Size in bytes.
    const BYTES: usize;
    /// From the words of registers.
    fn from_words(low: u32, high: u32) -> Self;
    /// The words for registers; the second means nothing for 32 bits.
    fn words(self) -> [u32; 2];
    /// Replaces the value at `p` by `f` of it, atomically; returns the old one.
    ///
    /// # Safety
    /// `p` must be valid for reading and writing and aligned to the size of the value.
    unsafe fn update(p: *mut u8, f: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! value {
    ($t:ty, $atomic:ident, |$low:ident, $high:ident| $from:expr, |$v:ident| $words:expr) => {
        impl Value for $t {
            const BYTES: usize = size_of::<$t>();
            #[inline(always)]
            fn from_words($low: u32, $high: u32) -> Self {
                $from
            }
            #[inline(always)]
            fn words(self) -> [u32; 2] {
                let $v = self;
                $words
            }
            #[inline(always)]
            unsafe fn update(p: *mut u8, mut f: impl FnMut(Self) -> Self) -> Self {
                use std::sync::atomic::{Ordering, $atomic};
                // SAFETY: the caller's promise; for other threads see `crate::memory`.
                let cell = unsafe { $atomic::from_ptr(p.cast::<$t>()) };
                let mut old = cell.load(Ordering::Relaxed);
                loop {
                    match cell.compare_exchange_weak(
                        old,
                        f(old),
                        Ordering::SeqCst,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => return old,
                        Err(now) => old = now,
                    }
                }
            }
        }
    };
}
value!(u32, AtomicU32, |low, _high| low, |v| [v, 0]);
value!(
    u64,
    AtomicU64,
    |low, high| u64::from(high) << 32 | u64::from(low),
    |v| [v as u32, (v >> 32) as u32]
);

/// How float operations treat denormals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// Sources are flushed.
    pub input: bool,
    /// Results of additions are flushed.
    pub output: bool,
    /// Minimum and maximum give a flushed result, not the source as it was.
    pub selected: bool,
}

/// A read-modify-write operation.
pub trait Rmw: 'static {
    /// What it works on.
    type T: Value;
    /// Whether it takes two data operands: `a` and `b`.
    const TWO: bool;
    /// The new value. `a` is the first data operand (of a compare-and-swap the new value), `b` the second
    /// (the value compared with).
    fn apply(old: Self::T, a: Self::T, b: Self::T, flush: Flush) -> Self::T;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($t:ty, $two:expr) = |$old:pat_param, $a:pat_param, $b:pat_param, $f:pat_param| $e:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Rmw for $name {
            type T = $t;
            const TWO: bool = $two;
            #[inline(always)]
            fn apply($old: $t, $a: $t, $b: $t, $f: Flush) -> $t {
                $e
            }
        }
    )*};
}

operations! {
    /// Addition.
    Add32(u32, false) = |o, a, _, _| o.wrapping_add(a);
    /// Subtraction from memory.
    Sub32(u32, false) = |o, a, _, _| o.wrapping_sub(a);
    /// Subtraction of memory.
    Rsub32(u32, false) = |o, a, _, _| a.wrapping_sub(o);
    /// Increment with wraparound.
    Inc32(u32, false) = |o, a, _, _| if o >= a { 0 } else { o + 1 };
    /// Decrement with wraparound.
    Dec32(u32, false) = |o, a, _, _| if o == 0 || o > a { a } else { o - 1 };
    /// Signed minimum.
    MinI32(u32, false) = |o, a, _, _| (o as i32).min(a as i32) as u32;
    /// Signed maximum.
    MaxI32(u32, false) = |o, a, _, _| (o as i32).max(a as i32) as u32;
    /// Unsigned minimum.
    MinU32(u32, false) = |o, a, _, _| o.min(a);
    /// Unsigned maximum.
    MaxU32(u32, false) = |o, a, _, _| o.max(a);
    /// Bitwise and.
    And32(u32, false) = |o, a, _, _| o & a;
    /// Bitwise or.
    Or32(u32, false) = |o, a, _, _| o | a;
    /// Bitwise exclusive or.
    Xor32(u32, false) = |o, a, _, _| o ^ a;
    /// Exchange.
    Swap32(u32, false) = |_, a, _, _| a;
    /// Compare and swap.
    CmpSwap32(u32, true) = |o, a, b, _| if o == b { a } else { o };
    /// Clears the bits of `a` and sets those of `b`.
    Mskor32(u32, true) = |o, a, b, _| o & !a | b;
    /// Subtracts if the result is not negative, adds the second operand otherwise.
    Wrap32(u32, true) = |o, a, b, _| if o >= a { o - a } else { o.wrapping_add(b) };
    /// Subtracts if the result is not negative.
    CondSub32(u32, false) = |o, a, _, _| if o >= a { o - a } else { o };
    /// Subtracts down to zero.
    SubClamp32(u32, false) = |o, a, _, _| o.saturating_sub(a);
    /// f32 addition.
    AddF32(u32, false) = |o, a, _, f| add_f32(o, a, f);
    /// f32 minimum; a quiet NaN is greater than all numbers.
    MinF32(u32, false) = |o, a, _, f| select32(o, a, f, false);
    /// f32 maximum; a quiet NaN is less than all numbers.
    MaxF32(u32, false) = |o, a, _, f| select32(o, a, f, true);
    /// f32 minimumNumber of IEEE 754.
    MinNumF32(u32, false) = |o, a, _, f| number32(o, a, f, false);
    /// f32 maximumNumber of IEEE 754.
    MaxNumF32(u32, false) = |o, a, _, f| number32(o, a, f, true);
    /// f32 compare and swap: -0 equals +0, NaN nothing.
    CmpSwapF32(u32, true) = |o, a, b, f| cmpswap32(o, a, b, f);
    /// Addition of two f16.
    PkAddF16(u32, false) = |o, a, _, f| packed(o, a, |x, y| add_f16(x, y, f));
    /// Addition of two bf16.
    PkAddBf16(u32, false) = |o, a, _, f| packed(o, a, |x, y| add_bf16(x, y, f));
    /// Addition.
    Add64(u64, false) = |o, a, _, _| o.wrapping_add(a);
    /// Subtraction from memory.
    Sub64(u64, false) = |o, a, _, _| o.wrapping_sub(a);
    /// Subtraction of memory.
    Rsub64(u64, false) = |o, a, _, _| a.wrapping_sub(o);
    /// Increment with wraparound.
    Inc64(u64, false) = |o, a, _, _| if o >= a { 0 } else { o + 1 };
    /// Decrement with wraparound.
    Dec64(u64, false) = |o, a, _, _| if o == 0 || o > a { a } else { o - 1 };
    /// Signed minimum.
    MinI64(u64, false) = |o, a, _, _| (o as i64).min(a as i64) as u64;
    /// Signed maximum.
    MaxI64(u64, false) = |o, a, _, _| (o as i64).max(a as i64) as u64;
    /// Unsigned minimum.
    MinU64(u64, false) = |o, a, _, _| o.min(a);
    /// Unsigned maximum.
    MaxU64(u64, false) = |o, a, _, _| o.max(a);
    /// Bitwise and.
    And64(u64, false) = |o, a, _, _| o & a;
    /// Bitwise or.
    Or64(u64, false) = |o, a, _, _| o | a;
    /// Bitwise exclusive or.
    Xor64(u64, false) = |o, a, _, _| o ^ a;
    /// Exchange.
    Swap64(u64, false) = |_, a, _, _| a;
    /// Compare and swap.
    CmpSwap64(u64, true) = |o, a, b, _| if o == b { a } else { o };
    /// Clears the bits of `a` and sets those of `b`.
    Mskor64(u64, true) = |o, a, b, _| o & !a | b;
    /// f64 addition.
    AddF64(u64, false) = |o, a, _, f| add_f64(o, a, f);
    /// f64 minimum; a quiet NaN is greater than all numbers.
    MinF64(u64, false) = |o, a, _, f| select64(o, a, f, false);
    /// f64 maximum; a quiet NaN is less than all numbers.
    MaxF64(u64, false) = |o, a, _, f| select64(o, a, f, true);
    /// f64 minimumNumber of IEEE 754.
    MinNumF64(u64, false) = |o, a, _, f| number64(o, a, f, false);
    /// f64 maximumNumber of IEEE 754.
    MaxNumF64(u64, false) = |o, a, _, f| number64(o, a, f, true);
    /// f64 compare and swap: -0 equals +0, NaN nothing.
    CmpSwapF64(u64, true) = |o, a, b, f| cmpswap64(o, a, b, f);
    /// Each word of the data whose top bit is set replaces the word in memory, top bit cleared.
    CondXchg32(u64, false) = |o, a, _, _| {
        let word = |o: u32, a: u32| if a >> 31 != 0 { a & 0x7fff_ffff } else { o };
        u64::from(word((o >> 32) as u32, (a >> 32) as u32)) << 32 | u64::from(word(o as u32, a as u32))
    };
}

#[inline(always)]
fn packed(old: u32, a: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(old as u16, a as u16)) | u32::from(f((old >> 16) as u16, (a >> 16) as u16)) << 16
}

macro_rules! floats {
    ($bits:ty, $float:ty, $signed:ty, $flush:ident, $snan:ident, $quiet:expr, $invalid:expr, $sign:ident,
     $add:ident, $select:ident, $number:ident, $cmpswap:ident) => {
        /// IEEE addition, to nearest even. A NaN of memory goes before a NaN of the data, made quiet;
        /// inf - inf is the negative default NaN (RDNA3 and CDNA5 manuals, "Float Add rules").
        fn $add(old: $bits, a: $bits, flush: Flush) -> $bits {
            let (x, y) = if flush.input {
                ($flush(old), $flush(a))
            } else {
                (old, a)
            };
            let (fx, fy) = (<$float>::from_bits(x), <$float>::from_bits(y));
            if fx.is_nan() {
                return x | $quiet;
            }
            if fy.is_nan() {
                return y | $quiet;
            }
            let sum = fx + fy;
            if sum.is_nan() {
                return $invalid;
            }
            if flush.output {
                $flush(sum.to_bits())
            } else {
                sum.to_bits()
            }
        }

        /// A number that orders floats without NaN: -inf, ..., -0, +0, ..., inf.
        #[inline(always)]
        fn $sign(x: $bits) -> $signed {
            let s = x as $signed;
            s ^ ((s >> (<$bits>::BITS - 1)) as $bits >> 1) as $signed
        }

        /// Minimum or maximum by the older rules: a signalling NaN wins and becomes quiet, a quiet one
        /// loses. The data is source 0, memory source 1.
        fn $select(old: $bits, a: $bits, flush: Flush, max: bool) -> $bits {
            if $snan(a) {
                return a | $quiet;
            }
            if $snan(old) {
                return old | $quiet;
            }
            $number(old, a, flush, max)
        }

        /// minimumNumber or maximumNumber: a NaN loses against a number; of two NaNs the data's is kept.
        fn $number(old: $bits, a: $bits, flush: Flush, max: bool) -> $bits {
            let (x, y) = if flush.input {
                ($flush(old), $flush(a))
            } else {
                (old, a)
            };
            let nan = |v: $bits| <$float>::from_bits(v).is_nan();
            let take_data = match (nan(x), nan(y)) {
                (true, true) => return a | $quiet,
                (true, false) => true,
                (false, true) => false,
                (false, false) if max => $sign(y) > $sign(x),
                (false, false) => $sign(y) < $sign(x),
            };
            match (take_data, flush.selected) {
                (true, false) => a,
                (false, false) => old,
                (true, true) => y,
                (false, true) => x,
            }
        }

        fn $cmpswap(old: $bits, a: $bits, b: $bits, flush: Flush) -> $bits {
            let f = |v: $bits| if flush.input { $flush(v) } else { v };
            let (x, c) = (f(old), f(b));
            if <$float>::from_bits(x) == <$float>::from_bits(c) {
                f(a)
            } else {
                x
            }
        }
    };
}

floats!(
    u32,
    f32,
    i32,
    flush32,
    is_snan32,
    0x0040_0000,
    0xffc0_0000,
    order32,
    add_f32,
    select32,
    number32,
    cmpswap32
);
floats!(
    u64,
    f64,
    i64,
    flush64,
    is_snan64,
    0x0008_0000_0000_0000,
    0xfff8_0000_0000_0000,
    order64,
    add_f64,
    select64,
    number64,
    cmpswap64
);

/// Gives the operation's type for its name: of memory atomics without `*_atomic_`, of DS instructions
/// without `ds_` and `rtn_`. `$pick!(Type)` is the result.
macro_rules! by_rmw {
    ($name:expr, $pick:ident) => {{
        use $crate::vmem::rmw::*;
        Some(match $name {
            "add" | "add_u32" => $pick!(Add32),
            "sub" | "sub_u32" => $pick!(Sub32),
            "rsub_u32" => $pick!(Rsub32),
            "inc" | "inc_u32" => $pick!(Inc32),
            "dec" | "dec_u32" => $pick!(Dec32),
            "smin" | "min_i32" => $pick!(MinI32),
            "smax" | "max_i32" => $pick!(MaxI32),
            "umin" | "min_u32" => $pick!(MinU32),
            "umax" | "max_u32" => $pick!(MaxU32),
            "and" | "and_b32" => $pick!(And32),
            "or" | "or_b32" => $pick!(Or32),
            "xor" | "xor_b32" => $pick!(Xor32),
            "swap" | "swap_b32" | "wrxchg_b32" | "storexchg_b32" => $pick!(Swap32),
            "cmpswap" | "cmpswap_b32" | "cmpst_b32" | "cmpstore_b32" => $pick!(CmpSwap32),
            "mskor_b32" => $pick!(Mskor32),
            "wrap_b32" => $pick!(Wrap32),
            "cond_sub_u32" => $pick!(CondSub32),
            "csub_u32" | "sub_clamp_u32" => $pick!(SubClamp32),
            "add_f32" => $pick!(AddF32),
            "min_f32" => $pick!(MinF32),
            "max_f32" => $pick!(MaxF32),
            "min_num_f32" => $pick!(MinNumF32),
            "max_num_f32" => $pick!(MaxNumF32),
            "cmpswap_f32" | "cmpst_f32" | "cmpstore_f32" => $pick!(CmpSwapF32),
            "pk_add_f16" => $pick!(PkAddF16),
            "pk_add_bf16" => $pick!(PkAddBf16),
            "add_x2" | "add_u64" => $pick!(Add64),
            "sub_x2" | "sub_u64" => $pick!(Sub64),
            "rsub_u64" => $pick!(Rsub64),
            "inc_x2" | "inc_u64" => $pick!(Inc64),
            "dec_x2" | "dec_u64" => $pick!(Dec64),
            "smin_x2" | "min_i64" => $pick!(MinI64),
            "smax_x2" | "max_i64" => $pick!(MaxI64),
            "umin_x2" | "min_u64" => $pick!(MinU64),
            "umax_x2" | "max_u64" => $pick!(MaxU64),
            "and_x2" | "and_b64" => $pick!(And64),
            "or_x2" | "or_b64" => $pick!(Or64),
            "xor_x2" | "xor_b64" => $pick!(Xor64),
            "swap_x2" | "swap_b64" | "wrxchg_b64" | "storexchg_b64" => $pick!(Swap64),
            "cmpswap_x2" | "cmpswap_b64" | "cmpst_b64" | "cmpstore_b64" => $pick!(CmpSwap64),
            "mskor_b64" => $pick!(Mskor64),
            "add_f64" => $pick!(AddF64),
            "min_f64" => $pick!(MinF64),
            "max_f64" => $pick!(MaxF64),
            "min_num_f64" => $pick!(MinNumF64),
            "max_num_f64" => $pick!(MaxNumF64),
            "cmpst_f64" | "cmpstore_f64" => $pick!(CmpSwapF64),
            "condxchg32_b64" => $pick!(CondXchg32),
            _ => return None,
        })
    }};
}
pub(crate) use by_rmw;
