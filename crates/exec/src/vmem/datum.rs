//! What one lane of a load or store moves, and how memory becomes registers and back.
//! Rows are the registers of all lanes; a lane's word is `row[lane]`.

use rocjitsu_isa::Target;

use super::whole;
use crate::target::TargetFacts;
use crate::wave::Cx;

/// Shape of one lane's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum {
    /// One to four whole words.
    Words(u8),
    /// A byte, zero-extended to a word; stores write the lowest byte.
    U8,
    /// A byte, sign-extended to a word.
    I8,
    /// 16 bits, zero-extended to a word; stores write the low half.
    U16,
    /// 16 bits, sign-extended to a word.
    I16,
    /// A byte, zero-extended to the low half; the high half stays.
    LowU8,
    /// A byte, sign-extended to the low half.
    LowI8,
    /// 16 bits to the low half.
    Low16,
    /// A byte, zero-extended to the high half; stores write bits 23:16.
    HighU8,
    /// A byte, sign-extended to the high half.
    HighI8,
    /// 16 bits to or from the high half.
    High16,
    /// [`Datum::LowI8`], and zero to the high half.
    OnlyLowI8,
    /// [`Datum::HighU8`], and zero to the low half.
    OnlyHighU8,
    /// [`Datum::HighI8`], and zero to the low half.
    OnlyHighI8,
    /// [`Datum::High16`], and zero to the low half.
    OnlyHigh16,
}

impl Datum {
    /// Bytes in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Datum::Words(n) => 4 * u32::from(n),
            Datum::U8 | Datum::I8 | Datum::LowU8 | Datum::LowI8 | Datum::HighU8 | Datum::HighI8 => {
                1
            }
            Datum::OnlyLowI8 | Datum::OnlyHighU8 | Datum::OnlyHighI8 => 1,
            Datum::U16 | Datum::I16 | Datum::Low16 | Datum::High16 | Datum::OnlyHigh16 => 2,
        }
    }

    /// The shape on a target ([`TargetFacts::d16_clears_rest`]).
    pub fn on(self, target: Target) -> Datum {
        if !target.d16_clears_rest() {
            return self;
        }
        match self {
            Datum::LowU8 => Datum::U8,
            Datum::Low16 => Datum::U16,
            Datum::LowI8 => Datum::OnlyLowI8,
            Datum::HighU8 => Datum::OnlyHighU8,
            Datum::HighI8 => Datum::OnlyHighI8,
            Datum::High16 => Datum::OnlyHigh16,
            other => other,
        }
    }

    /// The shape that a load's name says, without its prefix (`load_`, `read_`).
    pub fn of_load(name: &str) -> Option<Datum> {
        Some(match name {
            "dword" | "b32" => Datum::Words(1),
            "dwordx2" | "b64" => Datum::Words(2),
            "dwordx3" | "b96" => Datum::Words(3),
            "dwordx4" | "b128" => Datum::Words(4),
            "ubyte" | "u8" | "b8" => Datum::U8,
            "sbyte" | "i8" => Datum::I8,
            "ushort" | "u16" => Datum::U16,
            "sshort" | "i16" => Datum::I16,
            "ubyte_d16" | "d16_u8" | "u8_d16" => Datum::LowU8,
            "sbyte_d16" | "d16_i8" | "i8_d16" => Datum::LowI8,
            "short_d16" | "d16_b16" | "u16_d16" => Datum::Low16,
            "ubyte_d16_hi" | "d16_hi_u8" | "u8_d16_hi" => Datum::HighU8,
            "sbyte_d16_hi" | "d16_hi_i8" | "i8_d16_hi" => Datum::HighI8,
            "short_d16_hi" | "d16_hi_b16" | "u16_d16_hi" => Datum::High16,
            _ => return None,
        })
    }

    /// The shape that a store's name says, without its prefix (`store_`, `write_`).
    pub fn of_store(name: &str) -> Option<Datum> {
        Some(match name {
            "dword" | "b32" => Datum::Words(1),
            "dwordx2" | "b64" => Datum::Words(2),
            "dwordx3" | "b96" => Datum::Words(3),
            "dwordx4" | "b128" => Datum::Words(4),
            "byte" | "b8" => Datum::U8,
            "short" | "b16" => Datum::U16,
            "byte_d16_hi" | "d16_hi_b8" | "b8_d16_hi" => Datum::HighU8,
            "short_d16_hi" | "d16_hi_b16" | "b16_d16_hi" => Datum::High16,
            _ => return None,
        })
    }
}

/// Rows of the registers that an access reads or writes; the first as many as it has words count.
pub type Rows<T> = [T; 4];

/// One lane's load.
pub trait Load: 'static {
    /// Bytes in memory.
    const BYTES: usize;
    /// Registers written.
    const WORDS: usize;
    /// Reads a lane: word j lies `j * stride` bytes behind `p`.
    ///
    /// # Safety
    /// The words at `p` must be readable and the rows writable at `lane`.
    unsafe fn get(p: *const u8, stride: usize, rows: &Rows<*mut u32>, lane: usize);
    /// Reads four lanes from `lane` on, each from its place.
    ///
    /// # Safety
    /// As for [`Load::get`], for all four.
    #[inline(always)]
    unsafe fn get4(at: [*const u8; 4], rows: &Rows<*mut u32>, lane: usize) {
        for (lane, p) in (lane..).zip(at) {
            // SAFETY: the caller's promise.
            unsafe { Self::get(p, 4, rows, lane) };
        }
    }
    /// Reads sixteen lanes from `lane` on, which lie one behind the other.
    ///
    /// # Safety
    /// As for [`Load::get`], for all sixteen.
    #[inline(always)]
    unsafe fn get16(p: *const u8, rows: &Rows<*mut u32>, lane: usize) {
        for l in 0..16 {
            // SAFETY: the caller's promise.
            unsafe { Self::get(p.add(l * Self::BYTES), 4, rows, lane + l) };
        }
    }
}

/// One lane's store.
pub trait Store: 'static {
    /// Bytes in memory.
    const BYTES: usize;
    /// Registers read.
    const WORDS: usize;
    /// Writes a lane: word j goes `j * stride` bytes behind `p`.
    ///
    /// # Safety
    /// The words at `p` must be writable and the rows readable at `lane`.
    unsafe fn put(p: *mut u8, stride: usize, rows: &Rows<*const u32>, lane: usize);
    /// Writes four lanes from `lane` on, each to its place, in ascending order.
    ///
    /// # Safety
    /// As for [`Store::put`], for all four.
    #[inline(always)]
    unsafe fn put4(at: [*mut u8; 4], rows: &Rows<*const u32>, lane: usize) {
        for (lane, p) in (lane..).zip(at) {
            // SAFETY: the caller's promise.
            unsafe { Self::put(p, 4, rows, lane) };
        }
    }
    /// Writes sixteen lanes from `lane` on one behind the other.
    ///
    /// # Safety
    /// As for [`Store::put`], for all sixteen.
    #[inline(always)]
    unsafe fn put16(p: *mut u8, rows: &Rows<*const u32>, lane: usize) {
        for l in 0..16 {
            // SAFETY: the caller's promise.
            unsafe { Self::put(p.add(l * Self::BYTES), 4, rows, lane + l) };
        }
    }
}

/// Whole words, 1 to 4.
///
/// Two and four words are one access of the host where they lie together: a lane's aligned 8 or 16 bytes are one
/// transaction of the hardware, and kernels that publish a value with its flag in one store count on that (look-back
/// scans, 64-bit atomic loads and stores).
pub struct Words<const N: usize>;

impl<const N: usize> Load for Words<N> {
    const BYTES: usize = 4 * N;
    const WORDS: usize = N;
    #[inline(always)]
    unsafe fn get(p: *const u8, stride: usize, rows: &Rows<*mut u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut words = [0u32; 4];
            match N {
                2 if stride == 4 => words[..2].copy_from_slice(&whole::load2(p)),
                4 if stride == 4 => words = whole::load4(p),
                _ => {
                    for (j, word) in words[..N].iter_mut().enumerate() {
                        *word = p.add(j * stride).cast::<u32>().read_unaligned();
                    }
                }
            }
            for (row, word) in rows[..N].iter().zip(words) {
                row.add(lane).write(word);
            }
        }
    }
    #[inline(always)]
    unsafe fn get4(at: [*const u8; 4], rows: &Rows<*mut u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match N {
                2 => whole::load2x4(at, rows, lane),
                4 => whole::load4x4(at, rows, lane),
                _ => {
                    for (lane, p) in (lane..).zip(at) {
                        <Self as Load>::get(p, 4, rows, lane);
                    }
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn get16(p: *const u8, rows: &Rows<*mut u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if N == 1 {
                let words = p.cast::<[u32; 16]>().read_unaligned();
                rows[0].add(lane).cast::<[u32; 16]>().write_unaligned(words);
                return;
            }
            for four in (0..16).step_by(4) {
                let at = std::array::from_fn(|l| p.add((four + l) * 4 * N));
                <Self as Load>::get4(at, rows, lane + four);
            }
        }
    }
}

impl<const N: usize> Store for Words<N> {
    const BYTES: usize = 4 * N;
    const WORDS: usize = N;
    #[inline(always)]
    unsafe fn put(p: *mut u8, stride: usize, rows: &Rows<*const u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut words = [0u32; 4];
            for (word, row) in words[..N].iter_mut().zip(rows) {
                *word = row.add(lane).read();
            }
            match N {
                2 if stride == 4 => whole::store2(p, [words[0], words[1]]),
                4 if stride == 4 => whole::store4(p, words),
                _ => {
                    for (j, &word) in words[..N].iter().enumerate() {
                        p.add(j * stride).cast::<u32>().write_unaligned(word);
                    }
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn put4(at: [*mut u8; 4], rows: &Rows<*const u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match N {
                2 => whole::store2x4(at, rows, lane),
                4 => whole::store4x4(at, rows, lane),
                _ => {
                    for (lane, p) in (lane..).zip(at) {
                        <Self as Store>::put(p, 4, rows, lane);
                    }
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn put16(p: *mut u8, rows: &Rows<*const u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if N == 1 {
                let words = rows[0].add(lane).cast::<[u32; 16]>().read_unaligned();
                p.cast::<[u32; 16]>().write_unaligned(words);
                return;
            }
            for four in (0..16).step_by(4) {
                let at = std::array::from_fn(|l| p.add((four + l) * 4 * N));
                <Self as Store>::put4(at, rows, lane + four);
            }
        }
    }
}

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident: $mem:ty, |$raw:ident, $old:ident| $load:expr, |$word:ident| $store:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Load for $name {
            const BYTES: usize = size_of::<$mem>();
            const WORDS: usize = 1;
            #[inline(always)]
            unsafe fn get(p: *const u8, _: usize, rows: &Rows<*mut u32>, lane: usize) {
                // SAFETY: the caller's promise.
                unsafe {
                    let $raw = p.cast::<$mem>().read_unaligned();
                    let at = rows[0].add(lane);
                    let $old = at.read();
                    at.write($load);
                }
            }
        }
        impl Store for $name {
            const BYTES: usize = size_of::<$mem>();
            const WORDS: usize = 1;
            #[inline(always)]
            unsafe fn put(p: *mut u8, _: usize, rows: &Rows<*const u32>, lane: usize) {
                // SAFETY: the caller's promise.
                unsafe {
                    let $word = rows[0].add(lane).read();
                    p.cast::<$mem>().write_unaligned($store as $mem);
                }
            }
        }
    )*};
}

parts! {
    /// [`Datum::U8`].
    U8: u8, |raw, _old| u32::from(raw), |word| word;
    /// [`Datum::I8`].
    I8: i8, |raw, _old| raw as u32, |word| word;
    /// [`Datum::U16`].
    U16: u16, |raw, _old| u32::from(raw), |word| word;
    /// [`Datum::I16`].
    I16: i16, |raw, _old| raw as u32, |word| word;
    /// [`Datum::LowU8`].
    LowU8: u8, |raw, old| old & 0xffff_0000 | u32::from(raw), |word| word;
    /// [`Datum::LowI8`].
    LowI8: i8, |raw, old| old & 0xffff_0000 | u32::from(raw as u16), |word| word;
    /// [`Datum::Low16`].
    Low16: u16, |raw, old| old & 0xffff_0000 | u32::from(raw), |word| word;
    /// [`Datum::HighU8`].
    HighU8: u8, |raw, old| old & 0xffff | u32::from(raw) << 16, |word| word >> 16;
    /// [`Datum::HighI8`].
    HighI8: i8, |raw, old| old & 0xffff | u32::from(raw as u16) << 16, |word| word >> 16;
    /// [`Datum::High16`].
    High16: u16, |raw, old| old & 0xffff | u32::from(raw) << 16, |word| word >> 16;
    /// [`Datum::OnlyLowI8`].
    OnlyLowI8: i8, |raw, _old| u32::from(raw as u16), |word| word;
    /// [`Datum::OnlyHighU8`].
    OnlyHighU8: u8, |raw, _old| u32::from(raw) << 16, |word| word >> 16;
    /// [`Datum::OnlyHighI8`].
    OnlyHighI8: i8, |raw, _old| u32::from(raw as u16) << 16, |word| word >> 16;
    /// [`Datum::OnlyHigh16`].
    OnlyHigh16: u16, |raw, _old| u32::from(raw) << 16, |word| word >> 16;
}

/// The handler of a body that is generic over a load's shape.
macro_rules! by_load {
    ($datum:expr, $backend:expr, $body:ident) => {{
        use $crate::vmem::body::handler;
        use $crate::vmem::datum::*;
        match $datum {
            Datum::Words(2) => handler::<$body<Words<2>>>($backend),
            Datum::Words(3) => handler::<$body<Words<3>>>($backend),
            Datum::Words(4) => handler::<$body<Words<4>>>($backend),
            Datum::Words(_) => handler::<$body<Words<1>>>($backend),
            Datum::U8 => handler::<$body<U8>>($backend),
            Datum::I8 => handler::<$body<I8>>($backend),
            Datum::U16 => handler::<$body<U16>>($backend),
            Datum::I16 => handler::<$body<I16>>($backend),
            Datum::LowU8 => handler::<$body<LowU8>>($backend),
            Datum::LowI8 => handler::<$body<LowI8>>($backend),
            Datum::Low16 => handler::<$body<Low16>>($backend),
            Datum::HighU8 => handler::<$body<HighU8>>($backend),
            Datum::HighI8 => handler::<$body<HighI8>>($backend),
            Datum::High16 => handler::<$body<High16>>($backend),
            Datum::OnlyLowI8 => handler::<$body<OnlyLowI8>>($backend),
            Datum::OnlyHighU8 => handler::<$body<OnlyHighU8>>($backend),
            Datum::OnlyHighI8 => handler::<$body<OnlyHighI8>>($backend),
            Datum::OnlyHigh16 => handler::<$body<OnlyHigh16>>($backend),
        }
    }};
}

/// The handler of a body that is generic over a store's shape.
macro_rules! by_store {
    ($datum:expr, $backend:expr, $body:ident) => {{
        use $crate::vmem::body::handler;
        use $crate::vmem::datum::*;
        match $datum {
            Datum::Words(2) => handler::<$body<Words<2>>>($backend),
            Datum::Words(3) => handler::<$body<Words<3>>>($backend),
            Datum::Words(4) => handler::<$body<Words<4>>>($backend),
            Datum::Words(_) => handler::<$body<Words<1>>>($backend),
            Datum::U16 | Datum::I16 | Datum::Low16 => handler::<$body<U16>>($backend),
            Datum::High16 | Datum::OnlyHigh16 => handler::<$body<High16>>($backend),
            Datum::HighU8 | Datum::HighI8 | Datum::OnlyHighU8 | Datum::OnlyHighI8 => {
                handler::<$body<HighU8>>($backend)
            }
            Datum::U8 | Datum::I8 | Datum::LowU8 | Datum::LowI8 | Datum::OnlyLowI8 => {
                handler::<$body<U8>>($backend)
            }
        }
    }};
}
pub(crate) use {by_load, by_store};

/// Rows to be written, `D::WORDS` registers from `first`.
#[inline(always)]
pub fn rows_to_write<D: Load>(cx: &mut Cx<'_, '_>, first: u32) -> Rows<*mut u32> {
    let mut rows = [std::ptr::null_mut(); 4];
    for (j, row) in rows[..D::WORDS].iter_mut().enumerate() {
        *row = cx.wave.v.write_ptr(first + j as u32, &mut cx.unit.pool);
    }
    rows
}

/// Rows to be read, `D::WORDS` registers from `first`.
#[inline(always)]
pub fn rows_to_read<D: Store>(cx: &Cx<'_, '_>, first: u32) -> Rows<*const u32> {
    let mut rows = [std::ptr::null(); 4];
    for (j, row) in rows[..D::WORDS].iter_mut().enumerate() {
        *row = cx.wave.v.read_ptr(first + j as u32);
    }
    rows
}
