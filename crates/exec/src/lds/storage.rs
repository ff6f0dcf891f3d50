//! The bytes of a workgroup's LDS.
//!
//! # Access by several threads
//!
//! Waves of one workgroup may run on several threads at a time. What the head of [`crate::memory`] says of global memory
//! holds here, too: nothing but raw pointers refers to the bytes while waves run, loads and stores are plain accesses,
//! atomics are host atomics while the workgroup is shared ([`Group::shared`](crate::wave::Group::shared)). A kernel
//! without races orders its accesses by barriers, which are atomic words that release and acquire
//! ([`crate::barrier::Cell`]), or by atomics. For a flag that is stored and polled by ordinary instructions the reasons
//! given there hold: each access is a machine load or store in a handler of its own, aligned words are not torn, and
//! x86-64 keeps their order.

use std::cell::UnsafeCell;

/// LDS of one workgroup. It begins with a cache line, so that what lanes store one behind the other is no more lines than
/// it must be: none is cut by a vector of the host, and fewer are wanted by two threads.
#[derive(Default)]
pub struct Lds {
    /// At least as many as the size needs.
    lines: Vec<Line>,
    bytes: usize,
}

/// Bytes of a cache line.
pub const LINE: usize = 64;

#[repr(align(64))]
struct Line(
    #[expect(dead_code, reason = "the bytes are reached through raw pointers only")]
    UnsafeCell<[u8; LINE]>,
);

impl Default for Line {
    fn default() -> Line {
        Line(UnsafeCell::new([0; LINE]))
    }
}

// SAFETY: the bytes are reached through raw pointers only, except with `&mut self`; for simultaneous accesses see the
// head of this module.
unsafe impl Sync for Lds {}

impl Lds {
    /// Makes it `bytes` bytes, all zero.
    pub fn restart(&mut self, bytes: usize) {
        let lines = bytes.div_ceil(LINE);
        if self.lines.len() < lines {
            self.lines.resize_with(lines, Line::default);
        }
        self.bytes = bytes;
        if bytes != 0 {
            self.bytes_mut().fill(0);
        }
    }

    /// Its size.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the workgroup has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The first byte; [`Lds::len`] of them may be read and written.
    #[inline(always)]
    pub fn start(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.lines.as_ptr().cast::<UnsafeCell<u8>>())
    }

    /// Where `bytes` bytes at `from` lie, if all of them are inside.
    #[inline(always)]
    pub fn at(&self, from: usize, bytes: usize) -> Option<*mut u8> {
        let inside = from
            .checked_add(bytes)
            .is_some_and(|behind| behind <= self.bytes);
        inside.then(|| self.start().wrapping_add(from))
    }

    /// All bytes, as they are while no wave runs.
    ///
    /// # Safety
    /// As long as the result lives no wave of the workgroup may execute.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: there are as many, and the caller promises that nobody writes them.
        unsafe { std::slice::from_raw_parts(self.start().cast_const(), self.bytes) }
    }

    /// All bytes, for whoever has the workgroup alone.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: there are as many, and `&mut self` says that no wave uses them.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workgroup_finds_zeros_and_nothing_beyond_its_size() {
        let mut lds = Lds::default();
        assert!(lds.is_empty() && lds.at(0, 1).is_none());
        for bytes in [64, 8, 20, 64] {
            lds.restart(bytes);
            assert_eq!(lds.len(), bytes);
            assert!(lds.bytes_mut().iter().all(|&b| b == 0), "{bytes}");
            lds.bytes_mut().fill(0xff);
            assert_eq!(
                lds.at(bytes - 4, 4),
                Some(lds.start().wrapping_add(bytes - 4))
            );
            assert!(lds.at(bytes - 3, 4).is_none() && lds.at(usize::MAX, 4).is_none());
        }
        assert!(lds.start().addr().is_multiple_of(LINE));
    }
}
