//! Doorbells: the words that the program (or a GPU) stores to when it has published packets.
//! One slice of 8 KiB for each GPU of a context, one slot of 8 bytes for each queue.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::{Arena, Storage};

/// Bytes of a slice, and the alignment of its offset: user space masks the slot's offset with it.
pub(crate) const SLICE: u64 = 8192;
/// Slots of a slice.
const SLOTS: usize = SLICE as usize / size_of::<u64>();
/// What a slot holds before anybody rang: the first AQL doorbell is 0.
pub(crate) const UNRUNG: u64 = u64::MAX;

/// The doorbells of one GPU in one context.
#[derive(Debug)]
pub(crate) struct Doorbells {
    storage: Arc<Storage>,
    taken: Mutex<[u64; SLOTS / 64]>,
}

impl Doorbells {
    /// A slice of the arena behind `/dev/kfd`, nothing rung.
    ///
    /// # Errors
    /// The host has no memory.
    pub(crate) fn new(arena: &Arc<Arena>) -> io::Result<Arc<Doorbells>> {
        let doorbells = Doorbells {
            storage: arena.allocate(SLICE, SLICE)?,
            taken: Mutex::new(Rank::LEAF, [0; SLOTS / 64]),
        };
        for slot in 0..SLOTS {
            doorbells.word(slot).store(UNRUNG, Ordering::Relaxed);
        }
        Ok(Arc::new(doorbells))
    }

    /// The slice's pages, to be mapped for GPUs.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Offset of the slice in the file behind `/dev/kfd`.
    pub(crate) fn offset(&self) -> u64 {
        self.storage.offset().unwrap_or(0)
    }

    fn word(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: a slot's aligned word inside the slice, which `storage` keeps mapped; the
        // program stores to it through its own mapping, in one instruction.
        unsafe { AtomicU64::from_ptr(self.storage.base().cast::<u64>().add(slot % SLOTS)) }
    }

    /// Takes a free slot. `None` if all are taken.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut taken = self.taken.lock();
        let index = (0..SLOTS).find(|slot| taken[slot / 64] & 1 << (slot % 64) == 0)?;
        taken[index / 64] |= 1 << (index % 64);
        self.word(index).store(UNRUNG, Ordering::Relaxed);
        Some(Slot {
            doorbells: self.clone(),
            index,
        })
    }
}

/// The doorbell of one queue; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    doorbells: Arc<Doorbells>,
    index: usize,
}

impl Slot {
    /// Number in the slice.
    pub(crate) fn index(&self) -> u32 {
        self.index as u32
    }

    /// Offset in the file behind `/dev/kfd`.
    pub(crate) fn offset(&self) -> u64 {
        self.doorbells.offset() + 8 * self.index as u64
    }

    /// What was rung last.
    pub(crate) fn value(&self) -> u64 {
        self.doorbells.word(self.index).load(Ordering::Acquire)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.doorbells.taken.lock()[self.index / 64] &= !(1 << (self.index % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_unrung_and_reused() {
        let arena = Arena::new("doorbells").unwrap();
        let doorbells = Doorbells::new(&arena).unwrap();
        assert_eq!(doorbells.offset() % SLICE, 0);
        let slots: Vec<Slot> = std::iter::from_fn(|| doorbells.take()).collect();
        assert_eq!(slots.len(), 1024);
        for (i, slot) in slots.iter().enumerate() {
            assert_eq!(slot.offset(), doorbells.offset() + 8 * i as u64);
            assert_eq!(slot.value(), UNRUNG);
        }
        doorbells.word(5).store(7, Ordering::Release);
        assert_eq!(slots[5].value(), 7);
        drop(slots);
        let again: Vec<Slot> = (0..6).filter_map(|_| doorbells.take()).collect();
        assert_eq!((again[5].index(), again[5].value()), (5, UNRUNG));
    }
}
