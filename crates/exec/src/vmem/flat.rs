//! Flat instructions: each lane's address falls into LDS, scratch or global memory by its upper bits
//! (manuals: flat memory instructions, "Aperture check").

use std::marker::PhantomData;

use rocjitsu_isa::Target;

use super::address::{self, Addresses};
use super::body::Body;
use super::datum::{Load, Store, rows_to_read, rows_to_write};
use super::{LANES, global, scratch};
use crate::lds::access::{self as lds, Outside};
use crate::record::{Flow, GLOBAL_SCRATCH_BASE, PRIVATE_BASE, Record, SHARED_BASE};
use crate::wave::Cx;

/// A flat load.
pub struct FlatLoad<D>(PhantomData<D>);
/// A flat store.
pub struct FlatStore<D>(PhantomData<D>);

/// Lanes by the memory that their address is in.
pub struct Apertures {
    /// Lanes with a global address.
    pub global: u64,
    /// Lanes with an LDS address.
    pub lds: u64,
    /// Lanes with a scratch address.
    pub scratch: u64,
    /// Lanes with a scratch address that any wave may use (gfx1250).
    pub shared_scratch: u64,
}

/// Where the scratch aperture is and how it is read.
#[inline(always)]
fn is_scratch(record: &Record, address: u64) -> bool {
    if record.mem.shared_scratch {
        address >> 58 == GLOBAL_SCRATCH_BASE >> 58
    } else {
        address >> 32 == PRIVATE_BASE >> 32
    }
}

/// The global address that a scratch address which any wave may use stands for:
/// `{addr[51:2], addr[56:52], addr[1:0]}` (CDNA5 manual, 10.2). So a lane's words lie a row of lanes apart.
#[inline(always)]
pub fn from_shared_scratch(address: u64) -> u64 {
    (address & ((1 << 52) - 1)) >> 2 << 7 | (address >> 52 & 31) << 2 | address & 3
}

/// Sorts the lanes of `mask` by the memory that their address is in.
#[inline(always)]
pub fn sort(record: &Record, addresses: &Addresses, mask: u64) -> Apertures {
    let mut found = Apertures {
        global: mask,
        lds: 0,
        scratch: 0,
        shared_scratch: 0,
    };
    let (mut lds, mut scratch) = (0u64, 0u64);
    for (l, &a) in addresses.iter().enumerate() {
        lds |= u64::from(a >> 32 == SHARED_BASE >> 32) << l;
        scratch |= u64::from(is_scratch(record, a)) << l;
    }
    found.lds = lds & mask;
    let scratch = scratch & mask & !lds;
    if record.mem.shared_scratch {
        found.shared_scratch = scratch;
    } else {
        found.scratch = scratch;
    }
    found.global &= !(lds | scratch);
    found
}

/// The low words of addresses.
pub fn low_words(addresses: &Addresses) -> [u32; LANES] {
    addresses.map(|a| a as u32)
}

/// LDS addresses of flat addresses. RDNA4 calculates them in 17 bits, "may wrap around without being detected as
/// out-of-range" (RDNA4 manual, 11.2); elsewhere all 32 bits count (RDNA3 manual 11.2, CDNA5 manual 10.2).
pub fn lds_words(target: Target, words: &[u32; LANES]) -> [u32; LANES] {
    let bits = if target == Target::Gfx1201 {
        0x1_ffff
    } else {
        u32::MAX
    };
    words.map(|w| w & bits)
}

/// Bytes that lie together in shared scratch: a word, or one byte where data cross words.
fn piece(address: u64, bytes: usize) -> usize {
    let within = bytes.min(4);
    if (address & 3) as usize + within <= 4 {
        within
    } else {
        1
    }
}

/// Loads lanes of `mask` from scratch that any wave may use.
fn load_shared_scratch<D: Load>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    addresses: &Addresses,
    mask: u64,
) -> Flow {
    let Some(first) = record.dst.vector() else {
        return Flow::Next;
    };
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let mut data = [0u8; 16];
        let step = piece(addresses[lane], D::BYTES);
        for (i, part) in data[..D::BYTES].chunks_mut(step).enumerate() {
            let at = from_shared_scratch(addresses[lane].wrapping_add((i * step) as u64));
            match cx.unit.memory.locate(at, part.len() as u64, false) {
                // SAFETY: `locate` vouches for as many bytes as the part has.
                Ok(p) => unsafe {
                    std::ptr::copy_nonoverlapping(p.cast_const(), part.as_mut_ptr(), part.len())
                },
                Err(kind) => return address::fault(cx, record, "load", D::BYTES, at, lane, kind),
            }
        }
        let rows = rows_to_write::<D>(cx, first);
        // SAFETY: `data` has room for every datum; the rows are whole registers of this wave.
        unsafe { D::get(data.as_ptr(), 4, &rows, lane) };
    }
    Flow::Next
}

/// Stores lanes of `mask` to scratch that any wave may use.
fn store_shared_scratch<D: Store>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    addresses: &Addresses,
    mask: u64,
) -> Flow {
    let Some(first) = record.src[2].vector() else {
        return Flow::Next;
    };
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let mut data = [0u8; 16];
        let rows = rows_to_read::<D>(cx, first);
        // SAFETY: `data` has room for every datum; the rows are whole registers of this wave.
        unsafe { D::put(data.as_mut_ptr(), 4, &rows, lane) };
        let step = piece(addresses[lane], D::BYTES);
        for (i, part) in data[..D::BYTES].chunks(step).enumerate() {
            let at = from_shared_scratch(addresses[lane].wrapping_add((i * step) as u64));
            match cx.unit.memory.locate(at, part.len() as u64, true) {
                // SAFETY: `locate` vouches for as many bytes as the part has.
                Ok(p) => unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), p, part.len()) },
                Err(kind) => return address::fault(cx, record, "store", D::BYTES, at, lane, kind),
            }
        }
    }
    Flow::Next
}

impl<D: Load> Body for FlatLoad<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        if let Some(base) = address::contiguous(cx, record, D::BYTES as u32) {
            let plain = base >> 32 != SHARED_BASE >> 32 && !is_scratch(record, base);
            if plain && global::load_run::<D>(cx, record, base) {
                return Flow::Next;
            }
        }
        let addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        let found = sort(record, &addresses, mask);
        let mut flow = global::load::<D>(cx, record, &addresses, found.global);
        if found.shared_scratch != 0 && flow == Flow::Next {
            flow = load_shared_scratch::<D>(cx, record, &addresses, found.shared_scratch);
        }
        if found.lds | found.scratch == 0 || flow != Flow::Next {
            return flow;
        }
        let words = low_words(&addresses);
        if let (true, Some(first)) = (found.lds != 0, record.dst.vector()) {
            let (target, mask) = (cx.unit.target, found.lds);
            let (at, outside) = (lds_words(target, &words), Outside::of_flat(target));
            flow = lds::load::<D>(cx, record, first, &at, mask, outside);
        }
        if flow != Flow::Next {
            return flow;
        }
        if found.scratch != 0 {
            return scratch::load::<D>(cx, record, &words, found.scratch);
        }
        Flow::Next
    }
}

impl<D: Store> Body for FlatStore<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        if let Some(base) = address::contiguous(cx, record, D::BYTES as u32) {
            let plain = base >> 32 != SHARED_BASE >> 32 && !is_scratch(record, base);
            if plain && global::store_run::<D>(cx, record, base) {
                return Flow::Next;
            }
        }
        let addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        let found = sort(record, &addresses, mask);
        let mut flow = global::store::<D>(cx, record, &addresses, found.global);
        if found.shared_scratch != 0 && flow == Flow::Next {
            flow = store_shared_scratch::<D>(cx, record, &addresses, found.shared_scratch);
        }
        if found.lds | found.scratch == 0 || flow != Flow::Next {
            return flow;
        }
        let words = low_words(&addresses);
        if let (true, Some(first)) = (found.lds != 0, record.src[2].vector()) {
            let (target, mask) = (cx.unit.target, found.lds);
            let (at, outside) = (lds_words(target, &words), Outside::of_flat(target));
            flow = lds::store::<D>(cx, record, first, &at, mask, outside);
        }
        if flow != Flow::Next {
            return flow;
        }
        if found.scratch != 0 {
            return scratch::store::<D>(cx, record, &words, found.scratch);
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_shared_scratch_lie_a_row_of_lanes_apart() {
        let base = GLOBAL_SCRATCH_BASE | 0x7f00_0000_0000 >> 7 << 2;
        let at = |lane: u64, offset: u64| from_shared_scratch((base | lane << 52) + offset);
        assert_eq!(at(0, 0), 0x7f00_0000_0000);
        assert_eq!(at(5, 0), 0x7f00_0000_0000 + 20);
        assert_eq!(at(5, 6), 0x7f00_0000_0000 + 128 + 20 + 2);
        assert_eq!(
            (piece(base, 16), piece(base + 2, 2), piece(base + 2, 4)),
            (4, 2, 1)
        );
    }
}
