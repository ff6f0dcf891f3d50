//! Two and four words as one access of the host. Another thread sees all of an aligned access or nothing of it: 8 bytes
//! on every 64-bit host, 16 bytes on x86-64 hosts with AVX (the manuals of Intel and AMD promise it for aligned
//! vector moves there; both look the same on older ones, but nobody promises it).

/// Loads two words.
///
/// # Safety
/// 8 bytes at `p` must be readable.
#[inline(always)]
pub unsafe fn load2(p: *const u8) -> [u32; 2] {
    // SAFETY: the caller's promise.
    let both = u64::from_le(unsafe { p.cast::<u64>().read_unaligned() });
    [both as u32, (both >> 32) as u32]
}

/// Stores two words.
///
/// # Safety
/// 8 bytes at `p` must be writable.
#[inline(always)]
pub unsafe fn store2(p: *mut u8, [low, high]: [u32; 2]) {
    let both = u64::from(high) << 32 | u64::from(low);
    // SAFETY: the caller's promise.
    unsafe { p.cast::<u64>().write_unaligned(both.to_le()) };
}

#[cfg(target_arch = "x86_64")]
pub use x86::{load2x4, load4, load4x4, store2x4, store4, store4x4};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_loadl_epi64, _mm_loadu_si128, _mm_shuffle_epi32, _mm_storel_epi64,
        _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64,
    };

    use super::super::datum::Rows;

    /// Loads four words.
    ///
    /// # Safety
    /// 16 bytes at `p` must be readable.
    #[inline(always)]
    pub unsafe fn load4(p: *const u8) -> [u32; 4] {
        let p = p.cast::<__m128i>();
        // SAFETY: the caller's promise; every 16 bytes are a vector, and a vector is four words. A volatile access is
        // not taken apart by the compiler.
        unsafe {
            std::mem::transmute::<__m128i, [u32; 4]>(if p.is_aligned() {
                p.read_volatile()
            } else {
                _mm_loadu_si128(p)
            })
        }
    }

    /// Stores four words.
    ///
    /// # Safety
    /// 16 bytes at `p` must be writable.
    #[inline(always)]
    pub unsafe fn store4(p: *mut u8, words: [u32; 4]) {
        let p = p.cast::<__m128i>();
        // SAFETY: as in `load4`.
        unsafe {
            let words = std::mem::transmute::<[u32; 4], __m128i>(words);
            if p.is_aligned() {
                p.write_volatile(words);
            } else {
                _mm_storeu_si128(p, words);
            }
        }
    }

    /// Rows become columns.
    #[inline(always)]
    fn transpose([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(ab, cd),
                _mm_unpackhi_epi64(ab, cd),
                _mm_unpacklo_epi64(ab_high, cd_high),
                _mm_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    /// Loads four words of each of four lanes into rows from `lane` on.
    ///
    /// # Safety
    /// 16 bytes at each place must be readable, four words of each row writable at `lane`.
    #[inline(always)]
    pub unsafe fn load4x4(at: [*const u8; 4], rows: &Rows<*mut u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let lanes = at.map(|p| _mm_loadu_si128(p.cast()));
            for (row, words) in rows.iter().zip(transpose(lanes)) {
                _mm_storeu_si128(row.add(lane).cast(), words);
            }
        }
    }

    /// Stores four words of each of four lanes from `lane` on, in ascending order.
    ///
    /// # Safety
    /// 16 bytes at each place must be writable, four words of each row readable at `lane`.
    #[inline(always)]
    pub unsafe fn store4x4(at: [*mut u8; 4], rows: &Rows<*const u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let words = rows.map(|row| _mm_loadu_si128(row.add(lane).cast()));
            for (p, words) in at.into_iter().zip(transpose(words)) {
                _mm_storeu_si128(p.cast(), words);
            }
        }
    }

    /// Loads two words of each of four lanes into rows from `lane` on.
    ///
    /// # Safety
    /// 8 bytes at each place must be readable, four words of the first two rows writable at `lane`.
    #[inline(always)]
    pub unsafe fn load2x4(at: [*const u8; 4], rows: &Rows<*mut u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, c, d] = at.map(|p| _mm_loadl_epi64(p.cast()));
            // Two lanes each: low words, then high ones.
            let [ab, cd] = [(a, b), (c, d)].map(|(a, b)| {
                let both = _mm_unpacklo_epi64(a, b);
                _mm_shuffle_epi32::<0b11_01_10_00>(both)
            });
            _mm_storeu_si128(rows[0].add(lane).cast(), _mm_unpacklo_epi64(ab, cd));
            _mm_storeu_si128(rows[1].add(lane).cast(), _mm_unpackhi_epi64(ab, cd));
        }
    }

    /// Stores two words of each of four lanes from `lane` on, in ascending order.
    ///
    /// # Safety
    /// 8 bytes at each place must be writable, four words of the first two rows readable at `lane`.
    #[inline(always)]
    pub unsafe fn store2x4(at: [*mut u8; 4], rows: &Rows<*const u32>, lane: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm_loadu_si128(rows[0].add(lane).cast());
            let high = _mm_loadu_si128(rows[1].add(lane).cast());
            let (ab, cd) = (_mm_unpacklo_epi32(low, high), _mm_unpackhi_epi32(low, high));
            _mm_storel_epi64(at[0].cast(), ab);
            _mm_storel_epi64(at[1].cast(), _mm_unpackhi_epi64(ab, ab));
            _mm_storel_epi64(at[2].cast(), cd);
            _mm_storel_epi64(at[3].cast(), _mm_unpackhi_epi64(cd, cd));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub use plain::{load2x4, load4, load4x4, store2x4, store4, store4x4};

#[cfg(not(target_arch = "x86_64"))]
mod plain {
    use super::super::datum::Rows;
    use super::{load2, store2};

    /// Loads four words, by two.
    ///
    /// # Safety
    /// 16 bytes at `p` must be readable.
    #[inline(always)]
    pub unsafe fn load4(p: *const u8) -> [u32; 4] {
        // SAFETY: the caller's promise.
        let ([a, b], [c, d]) = unsafe { (load2(p), load2(p.add(8))) };
        [a, b, c, d]
    }

    /// Stores four words, by two.
    ///
    /// # Safety
    /// 16 bytes at `p` must be writable.
    #[inline(always)]
    pub unsafe fn store4(p: *mut u8, [a, b, c, d]: [u32; 4]) {
        // SAFETY: the caller's promise.
        unsafe {
            store2(p, [a, b]);
            store2(p.add(8), [c, d]);
        }
    }

    /// Loads four words of each of four lanes into rows from `lane` on.
    ///
    /// # Safety
    /// 16 bytes at each place must be readable, four words of each row writable at `lane`.
    #[inline(always)]
    pub unsafe fn load4x4(at: [*const u8; 4], rows: &Rows<*mut u32>, lane: usize) {
        for (lane, p) in (lane..).zip(at) {
            // SAFETY: the caller's promise.
            unsafe {
                for (row, word) in rows.iter().zip(load4(p)) {
                    row.add(lane).write(word);
                }
            }
        }
    }

    /// Stores four words of each of four lanes from `lane` on, in ascending order.
    ///
    /// # Safety
    /// 16 bytes at each place must be writable, four words of each row readable at `lane`.
    #[inline(always)]
    pub unsafe fn store4x4(at: [*mut u8; 4], rows: &Rows<*const u32>, lane: usize) {
        for (lane, p) in (lane..).zip(at) {
            // SAFETY: the caller's promise.
            unsafe { store4(p, rows.map(|row| row.add(lane).read())) };
        }
    }

    /// Loads two words of each of four lanes into rows from `lane` on.
    ///
    /// # Safety
    /// 8 bytes at each place must be readable, four words of the first two rows writable at `lane`.
    #[inline(always)]
    pub unsafe fn load2x4(at: [*const u8; 4], rows: &Rows<*mut u32>, lane: usize) {
        for (lane, p) in (lane..).zip(at) {
            // SAFETY: the caller's promise.
            unsafe {
                for (row, word) in rows.iter().zip(load2(p)) {
                    row.add(lane).write(word);
                }
            }
        }
    }

    /// Stores two words of each of four lanes from `lane` on, in ascending order.
    ///
    /// # Safety
    /// 8 bytes at each place must be writable, four words of the first two rows readable at `lane`.
    #[inline(always)]
    pub unsafe fn store2x4(at: [*mut u8; 4], rows: &Rows<*const u32>, lane: usize) {
        for (lane, p) in (lane..).zip(at) {
            // SAFETY: the caller's promise.
            unsafe { store2(p, [rows[0].add(lane).read(), rows[1].add(lane).read()]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::datum::{Load, Rows, Store, Words};

    #[repr(align(64))]
    struct Line([u8; 1024]);

    /// A pointer that two threads use at a time.
    #[derive(Clone, Copy)]
    struct Shared(*mut u8);

    // SAFETY: what the test is about; the accesses behind the pointer are single moves of the host.
    unsafe impl Send for Shared {}
    // SAFETY: as above.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn get(self) -> *mut u8 {
            self.0
        }
    }

    /// One thread stores equal words, another one loads them, each lane by lane or sixteen at once.
    fn nothing_torn<const N: usize>(many_in: bool, many_out: bool) {
        let mut line = Line([0; 1024]);
        let p = Shared(line.0.as_mut_ptr());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 0..100_000u32 {
                    let words = [[value; 16]; 4];
                    let rows: Rows<*const u32> = std::array::from_fn(|j| words[j].as_ptr());
                    // SAFETY: sixteen lanes fit into the line and into the rows.
                    unsafe {
                        if many_in {
                            Words::<N>::put16(p.get(), &rows, 0);
                        } else {
                            Words::<N>::put(p.get().add(4 * N), 4, &rows, 1);
                        }
                    }
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let mut words = [[0u32; 16]; 4];
                let rows: Rows<*mut u32> = words.each_mut().map(|row| row.as_mut_ptr());
                // SAFETY: as above.
                unsafe {
                    if many_out {
                        Words::<N>::get16(p.get(), &rows, 0);
                    } else {
                        Words::<N>::get(p.get().add(4 * N), 4, &rows, 1);
                    }
                }
                let seen: [u32; 4] = std::array::from_fn(|j| words[j][1]);
                assert!(seen[..N].iter().all(|&word| word == seen[0]), "{seen:?}");
            }
        });
    }

    #[test]
    fn another_thread_sees_whole_pairs_and_quadruples() {
        for (many_in, many_out) in [(false, false), (false, true), (true, false), (true, true)] {
            nothing_torn::<2>(many_in, many_out);
            nothing_torn::<4>(many_in, many_out);
        }
    }

    fn arrive<const N: usize>() {
        let bytes: Vec<u8> = (0..64 * N).map(|at| at as u8).collect();
        let mut words = [[0u32; 16]; 4];
        let rows: Rows<*mut u32> = words.each_mut().map(|row| row.as_mut_ptr());
        // SAFETY: the bytes and rows of sixteen lanes.
        unsafe { Words::<N>::get16(bytes.as_ptr(), &rows, 0) };
        for (lane, bytes) in bytes.chunks_exact(4 * N).enumerate() {
            for (j, bytes) in bytes.chunks_exact(4).enumerate() {
                assert_eq!(words[j][lane].to_le_bytes(), bytes, "lane {lane} word {j}");
            }
        }
        let mut back = vec![0u8; bytes.len() + 1];
        let rows: Rows<*const u32> = std::array::from_fn(|j| words[j].as_ptr());
        // SAFETY: as above, at an address that is not aligned.
        unsafe { Words::<N>::put16(back.as_mut_ptr().add(1), &rows, 0) };
        assert_eq!(back[1..], bytes);
        // Each lane to a place of its own, one by one and by fours, and back.
        let place = |lane: usize| 4 * N * (lane * 7 % 16);
        let mut by_four = back.clone();
        for lane in 0..16 {
            // SAFETY: as above.
            unsafe { Words::<N>::put(back.as_mut_ptr().add(place(lane)), 4, &rows, lane) };
        }
        let mut again = [[0u32; 16]; 4];
        for lane in (0..16).step_by(4) {
            // SAFETY: as above.
            unsafe {
                let p = by_four.as_mut_ptr();
                let at = std::array::from_fn(|l| p.add(place(lane + l)));
                Words::<N>::put4(at, &rows, lane);
                let rows: Rows<*mut u32> = again.each_mut().map(|row| row.as_mut_ptr());
                Words::<N>::get4(at.map(|p| p.cast_const()), &rows, lane);
            }
        }
        assert_eq!(by_four, back);
        assert_eq!(again[..N], words[..N]);
        for (lane, bytes) in bytes.chunks_exact(4 * N).enumerate() {
            assert_eq!(&back[place(lane)..][..4 * N], bytes, "lane {lane}");
        }
    }

    #[test]
    fn words_arrive_in_their_rows() {
        arrive::<1>();
        arrive::<2>();
        arrive::<3>();
        arrive::<4>();
    }
}
