//! Vector registers of a wave, in 4 KiB pages that exist only where the wave has written.
//! A page holds 16 registers of a wave of 64 or 32 registers of a wave of 32.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Words in one page.
pub const PAGE_WORDS: usize = 1024;
/// Pages a wave can have: 512 registers of 64 lanes (CDNA: 256 VGPRs, then 256 AccVGPRs) or 1024
/// registers of 32 lanes (gfx1250).
pub const PAGES: usize = 32;

/// One page of registers.
#[repr(C, align(4096))]
pub struct Page([u32; PAGE_WORDS]);

/// What every absent page reads as.
static ZEROS: Page = Page([0; PAGE_WORDS]);

/// Pages that waves take and give back; one pool per worker, so no lock. A wave may change workers.
#[derive(Default)]
pub struct PagePool {
    free: Vec<Box<Page>>,
    /// Pages taken less pages given; below zero where waves gave pages that they had taken from another pool.
    in_use: isize,
    peak: isize,
}

impl PagePool {
    /// A page that is zero but for the bytes of the registers whose bits are set in `overwritten`, `per_page` of
    /// which fill a page: they hold what some wave left there.
    fn take(&mut self, overwritten: u32, per_page: usize) -> Box<Page> {
        self.in_use += 1;
        self.peak = self.peak.max(self.in_use);
        match self.free.pop() {
            Some(mut page) if overwritten == 0 => {
                page.0.fill(0);
                page
            }
            Some(mut page) => {
                for (n, register) in page.0.chunks_exact_mut(PAGE_WORDS / per_page).enumerate() {
                    if overwritten >> n & 1 == 0 {
                        register.fill(0);
                    }
                }
                page
            }
            None => Box::new(Page([0; PAGE_WORDS])),
        }
    }

    fn give(&mut self, page: Box<Page>) {
        self.in_use -= 1;
        self.free.push(page);
    }

    /// Begins to count anew, and keeps at most `limit` pages for later. All pages must have been given back.
    pub fn restart(&mut self, limit: usize) {
        self.free.truncate(limit);
        self.in_use = 0;
        self.peak = 0;
    }

    /// Counts pages that waves bring along.
    pub fn adopt(&mut self, pages: usize) {
        self.in_use += pages as isize;
        self.peak = self.peak.max(self.in_use);
    }

    /// The most pages that were in use at one time.
    pub fn peak(&self) -> usize {
        self.peak.unsigned_abs()
    }
}

/// The place of a register, resolved once when code is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    page: u16,
    /// Bytes.
    offset: u16,
}

impl Slot {
    /// A number of the register's own: its page in the bits from 12, below them the byte offset.
    pub fn key(self) -> u32 {
        u32::from(self.page) << PAGE_SHIFT | u32::from(self.offset)
    }

    /// The bit of its page in masks of pages.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn page_bit(self) -> u32 {
        1 << self.page
    }
}

/// log2 of the bytes of a page.
pub const PAGE_SHIFT: u32 = 12;

/// Where 16 or more words lie that a lane operation reads, resolved as far as it can be when code is decoded:
/// a base that the wave knows, and an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Index into the wave's bases: a page, [`Source::ABSOLUTE`] or [`Source::SHARED`].
    base: u16,
    /// Words from one group of 16 lanes to the next: 16, or 0 where all lanes share the value.
    pub step: u16,
    /// Bytes.
    offset: u64,
}

impl Source {
    /// The base of absolute addresses.
    const ABSOLUTE: usize = PAGES;
    /// The base of the worker's rows of shared values.
    const SHARED: usize = PAGES + 1;

    /// A register.
    pub fn register(lanes: u32, register: u32) -> Source {
        let slot = VectorRegisters::slot(lanes, register);
        Source {
            base: slot.page,
            step: 16,
            offset: slot.offset.into(),
        }
    }

    /// A row that outlives every use of the source.
    pub fn row(row: &[u32; 16]) -> Source {
        Source {
            base: Source::ABSOLUTE as u16,
            step: 0,
            offset: row.as_ptr() as u64,
        }
    }

    /// Row `index` of the worker's shared values.
    pub fn shared(index: usize) -> Source {
        Source {
            base: Source::SHARED as u16,
            step: 0,
            offset: 64 * index as u64,
        }
    }
}

/// The vector registers of one wave.
///
/// A handle reaches one register: stepping from one register's lanes into the next is not offered,
/// since the next may lie on another page.
pub struct VectorRegisters {
    pages: [NonNull<Page>; PAGES],
    /// The pages again as bases of [`Source`], and the two other bases behind them.
    bases: [*const u8; PAGES + 2],
    lanes: u32,
    /// log2 of the registers in a page.
    shift: u32,
    /// Pages that exist, a bit for each.
    present: u32,
}

// SAFETY: the pages are owned by this value (or are the shared page of zeros, which is never written).
unsafe impl Send for VectorRegisters {}

impl VectorRegisters {
    /// Bytes to the addresses of the pages, as [`VectorRegisters::page_bases`] gives them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const BASES: usize = std::mem::offset_of!(VectorRegisters, bases);
    /// Bytes to the word with a bit for each page that exists.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const PRESENT: usize = std::mem::offset_of!(VectorRegisters, present);

    /// Registers of a wave of `lanes` (32 or 64) lanes, all zero, none allocated.
    pub fn new(lanes: u32) -> Self {
        VectorRegisters {
            pages: [NonNull::from(&ZEROS); PAGES],
            bases: std::array::from_fn(|i| {
                if i < PAGES {
                    std::ptr::from_ref(&ZEROS).cast()
                } else {
                    std::ptr::null()
                }
            }),
            lanes,
            shift: if lanes == 64 { 4 } else { 5 },
            present: 0,
        }
    }

    /// Lanes of each register.
    pub fn lanes(&self) -> usize {
        self.lanes as usize
    }

    #[inline(always)]
    fn place(&self, register: u32) -> (usize, usize) {
        let page = (register >> self.shift) as usize % PAGES;
        let within = (register & ((1 << self.shift) - 1)) * self.lanes;
        (page, within as usize)
    }

    /// Where the lanes of a register lie, for reading.
    #[inline(always)]
    pub fn read_ptr(&self, register: u32) -> *const u32 {
        let (page, within) = self.place(register);
        // SAFETY: `within` plus a register's lanes stays inside the page.
        unsafe {
            self.pages[page]
                .as_ptr()
                .cast::<u32>()
                .cast_const()
                .add(within)
        }
    }

    /// Where the lanes of a register lie, for writing; its page exists from now on.
    #[inline(always)]
    pub fn write_ptr(&mut self, register: u32, pool: &mut PagePool) -> *mut u32 {
        let (page, within) = self.place(register);
        if self.pages[page] == NonNull::from(&ZEROS) {
            self.allocate(page, 0, pool);
        }
        // SAFETY: as above; the page is this wave's own.
        unsafe { self.pages[page].as_ptr().cast::<u32>().add(within) }
    }

    /// Where the lanes of the registers from `first` on begin, for reading: as many as there is room for.
    #[inline]
    pub fn read_ptrs<'r>(
        &self,
        first: u32,
        room: &'r mut [MaybeUninit<*const u32>],
    ) -> &'r [*const u32] {
        self.fill_ptrs(first, room, |lanes| lanes.cast_const());
        // SAFETY: all of them are filled.
        unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), room.len()) }
    }

    /// Where the lanes of the registers from `first` on begin, for writing; their pages exist
    /// from now on.
    #[inline]
    pub fn write_ptrs<'r>(
        &mut self,
        first: u32,
        pool: &mut PagePool,
        room: &'r mut [MaybeUninit<*mut u32>],
    ) -> &'r [*mut u32] {
        let last = first + room.len().saturating_sub(1) as u32;
        for page in (first >> self.shift)..=(last >> self.shift) {
            self.write_ptr(page << self.shift, pool);
        }
        self.fill_ptrs(first, room, |lanes| lanes);
        // SAFETY: all of them are filled, and the pages are this wave's own.
        unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), room.len()) }
    }

    /// Fills in addresses.
    #[inline(always)]
    fn fill_ptrs<T>(
        &self,
        first: u32,
        room: &mut [MaybeUninit<T>],
        pointer: impl Fn(*mut u32) -> T,
    ) {
        // The distance from one register to the next is a constant either way.
        if self.lanes == 64 {
            self.fill_pages::<T, 64>(first, room, pointer);
        } else {
            self.fill_pages::<T, 32>(first, room, pointer);
        }
    }

    /// The same for registers of LANES lanes, a page at a time.
    #[inline(always)]
    fn fill_pages<T, const LANES: usize>(
        &self,
        mut first: u32,
        mut room: &mut [MaybeUninit<T>],
        pointer: impl Fn(*mut u32) -> T,
    ) {
        const WORDS: usize = 1 << (PAGE_SHIFT - 2);
        while !room.is_empty() {
            let (page, within) = (
                first as usize * LANES / WORDS,
                first as usize * LANES % WORDS,
            );
            let (now, later) = room.split_at_mut(((WORDS - within) / LANES).min(room.len()));
            let base = self.pages[page % PAGES].as_ptr().cast::<u32>();
            for (i, out) in now.iter_mut().enumerate() {
                out.write(pointer(base.wrapping_add(within + i * LANES)));
            }
            first += now.len() as u32;
            room = later;
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate(&mut self, page: usize, overwritten: u32, pool: &mut PagePool) {
        let fresh = pool.take(overwritten, 1 << self.shift);
        self.pages[page] = NonNull::from(Box::leak(fresh));
        self.bases[page] = self.pages[page].as_ptr().cast_const().cast();
        self.present |= 1 << page;
    }

    /// Allocates the pages of registers `0..count` at once, as an eager implementation would.
    pub fn allocate_all(&mut self, count: u32, pool: &mut PagePool) {
        for register in (0..count).step_by(1 << self.shift) {
            self.write_ptr(register, pool);
        }
    }

    /// The lanes of a register.
    #[inline(always)]
    pub fn read(&self, register: u32) -> &[u32] {
        // SAFETY: a register's lanes lie inside one page, which lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.read_ptr(register), self.lanes as usize) }
    }

    /// The lanes of a register, to be written.
    #[inline(always)]
    pub fn write(&mut self, register: u32, pool: &mut PagePool) -> &mut [u32] {
        let lanes = self.lanes as usize;
        // SAFETY: a register's lanes lie inside one page, which is this wave's own.
        unsafe { std::slice::from_raw_parts_mut(self.write_ptr(register, pool), lanes) }
    }

    /// Where a register lies: its page, and the byte offset within it.
    pub fn slot(lanes: u32, register: u32) -> Slot {
        let shift = if lanes == 64 { 4 } else { 5 };
        let within = (register & ((1 << shift) - 1)) * lanes * 4;
        Slot {
            page: ((register >> shift) as usize % PAGES) as u16,
            offset: within as u16,
        }
    }

    /// Tells where the worker's rows of shared values lie; they outlive the turn of the wave.
    pub fn set_shared(&mut self, rows: *const u32) {
        self.bases[Source::SHARED] = rows.cast();
    }

    /// Where a source lies.
    #[inline(always)]
    pub fn source(&self, source: Source) -> *const u32 {
        let base = self
            .bases
            .get(usize::from(source.base))
            .copied()
            .unwrap_or(std::ptr::null());
        base.wrapping_add(source.offset as usize).cast()
    }

    /// Where the lanes of a register lie, for writing; its page exists from now on.
    #[inline(always)]
    pub fn write_slot(&mut self, slot: Slot, pool: &mut PagePool) -> *mut u32 {
        let page = usize::from(slot.page) % PAGES;
        if self.pages[page] == NonNull::from(&ZEROS) {
            self.allocate(page, 0, pool);
        }
        self.pages[page]
            .as_ptr()
            .cast::<u8>()
            .wrapping_add(usize::from(slot.offset))
            .cast()
    }

    /// Makes the pages exist whose bits are set.
    #[inline(always)]
    pub fn claim(&mut self, pages: u32, pool: &mut PagePool) {
        if pages & !self.present != 0 {
            self.claim_absent(pages, &[], pool);
        }
    }

    /// The same for a writer that then writes all lanes of the registers `overwritten` before anything reads them:
    /// for each page the bits of its registers, none if the list ends before. They are not zeroed first.
    #[inline(always)]
    pub fn claim_over(&mut self, pages: u32, overwritten: &[u32], pool: &mut PagePool) {
        if pages & !self.present != 0 {
            self.claim_absent(pages, overwritten, pool);
        }
    }

    #[cold]
    #[inline(never)]
    fn claim_absent(&mut self, pages: u32, overwritten: &[u32], pool: &mut PagePool) {
        for page in 0..PAGES {
            if (pages & !self.present) >> page & 1 != 0 {
                let spared = overwritten.get(page).copied().unwrap_or(0);
                self.allocate(page, spared, pool);
            }
        }
    }

    /// Addresses of the pages, [`PAGES`] of them; those that do not exist read as zero.
    #[inline(always)]
    pub fn page_bases(&self) -> *const *const u8 {
        self.bases.as_ptr()
    }

    /// The pages that exist, with their numbers: the registers in them one after the other, lane by lane.
    pub fn pages(&self) -> impl Iterator<Item = (usize, &[u32; PAGE_WORDS])> {
        let own = self.pages.iter().enumerate();
        own.filter(|(_, page)| **page != NonNull::from(&ZEROS))
            // SAFETY: a page lives as long as `self`, which is borrowed.
            .map(|(number, page)| (number, unsafe { &page.as_ref().0 }))
    }

    /// The words of a page, which exists from now on.
    ///
    /// # Panics
    /// If there is no page of that number.
    pub fn page_mut(&mut self, number: usize, pool: &mut PagePool) -> &mut [u32; PAGE_WORDS] {
        if self.pages[number] == NonNull::from(&ZEROS) {
            self.allocate(number, 0, pool);
        }
        // SAFETY: the page is this wave's own, and `self` is borrowed.
        unsafe { &mut self.pages[number].as_mut().0 }
    }

    /// Gives all pages back; the registers read as zero again.
    pub fn release(&mut self, pool: &mut PagePool) {
        for slot in &mut self.pages {
            if *slot != NonNull::from(&ZEROS) {
                // SAFETY: every page but the shared one was leaked from a box by `allocate`.
                pool.give(unsafe { Box::from_raw(slot.as_ptr()) });
                *slot = NonNull::from(&ZEROS);
            }
        }
        self.bases[..PAGES].fill(std::ptr::from_ref(&ZEROS).cast());
        self.present = 0;
    }
}

impl Drop for VectorRegisters {
    fn drop(&mut self) {
        // A wave that ends gives its pages to the pool; one dropped on an error path frees them here.
        for slot in &mut self.pages {
            if *slot != NonNull::from(&ZEROS) {
                // SAFETY: as in `release`.
                drop(unsafe { Box::from_raw(slot.as_ptr()) });
                *slot = NonNull::from(&ZEROS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_allocates_nothing_and_yields_zero() {
        let regs = VectorRegisters::new(64);
        assert!((0..512).all(|r| regs.read(r).iter().all(|&w| w == 0)));
    }

    #[test]
    fn registers_are_separate_and_cost_a_page_per_group() {
        for (lanes, count, per_page) in [(64, 512, 16), (32, 1024, 32)] {
            let mut pool = PagePool::default();
            let mut regs = VectorRegisters::new(lanes);
            for r in 0..count {
                regs.write(r, &mut pool).fill(r + 1);
                assert_eq!(pool.in_use, (r / per_page + 1) as isize);
            }
            assert!((0..count).all(|r| regs.read(r).iter().all(|&w| w == r + 1)));
            regs.release(&mut pool);
            assert_eq!((pool.in_use, pool.peak()), (0, (count / per_page) as usize));
            assert_eq!(
                regs.write(5, &mut pool)[0],
                0,
                "a page that comes back from the pool is zero"
            );
        }
    }

    #[test]
    fn only_registers_that_are_overwritten_keep_what_another_wave_left() {
        for (lanes, count) in [(64, 16), (32, 32)] {
            let mut pool = PagePool::default();
            let mut regs = VectorRegisters::new(lanes);
            (0..2 * count).for_each(|r| regs.write(r, &mut pool).fill(!0));
            regs.release(&mut pool);
            regs.claim_over(0b11, &[0, 0b101], &mut pool);
            for r in 0..2 * count {
                let kept = r == count || r == count + 2;
                let want = if kept { !0 } else { 0 };
                assert!(regs.read(r).iter().all(|&w| w == want), "v{r} of {lanes}");
            }
            // What exists stays as it is.
            regs.write(1, &mut pool).fill(7);
            regs.claim_over(0b01, &[!0], &mut pool);
            regs.claim(0b11, &mut pool);
            assert!(regs.read(1).iter().all(|&w| w == 7));
            assert_eq!(pool.in_use, 2);
        }
    }
}
