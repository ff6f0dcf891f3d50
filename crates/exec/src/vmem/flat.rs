//! Flat instructions: each lane's address falls into LDS, scratch or global memory by its upper bits
//! (manuals: flat memory instructions, "Aperture check").

use std::marker::PhantomData;

use super::address::{self, Addresses};
use super::body::Body;
use super::datum::{Load, Store, rows_to_read, rows_to_write};
use super::{LANES, global, scratch};
use crate::lds::access as lds;
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

/// Sorts the lanes of `mask`. Scratch addresses that any wave may use (gfx1250) become the global
/// addresses they stand for: `{addr[51:2], addr[56:52], addr[1:0]}` (CDNA5 manual, 10.2).
#[inline(always)]
pub fn sort(record: &Record, addresses: &mut Addresses, mask: u64) -> Apertures {
    let mut found = Apertures {
        global: mask,
        lds: 0,
        scratch: 0,
    };
    let mut special = 0;
    for (l, a) in addresses.iter().enumerate() {
        special |= u64::from(a >> 32 == SHARED_BASE >> 32 || is_scratch(record, *a)) << l;
    }
    if special & mask == 0 {
        return found;
    }
    for lane in (0..LANES).filter(|l| (special & mask) >> l & 1 != 0) {
        let address = addresses[lane];
        if address >> 32 == SHARED_BASE >> 32 {
            found.lds |= 1 << lane;
        } else if record.mem.shared_scratch {
            addresses[lane] =
                (address & ((1 << 52) - 1)) >> 2 << 7 | (address >> 52 & 31) << 2 | address & 3;
            continue;
        } else {
            found.scratch |= 1 << lane;
        }
        found.global &= !(1 << lane);
    }
    found
}

/// The low words of addresses.
pub fn low_words(addresses: &Addresses) -> [u32; LANES] {
    addresses.map(|a| a as u32)
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
        let mut addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        let found = sort(record, &mut addresses, mask);
        let flow = global::load::<D>(cx, record, &addresses, found.global);
        if found.lds | found.scratch == 0 || flow != Flow::Next {
            return flow;
        }
        let words = low_words(&addresses);
        if let (true, Some(first)) = (found.lds != 0, record.dst.vector()) {
            let rows = rows_to_write::<D>(cx, first);
            lds::load::<D>(&cx.group.lds, &rows, &words, found.lds, cx.wave.lanes);
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
        let mut addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        let found = sort(record, &mut addresses, mask);
        let flow = global::store::<D>(cx, record, &addresses, found.global);
        if found.lds | found.scratch == 0 || flow != Flow::Next {
            return flow;
        }
        let words = low_words(&addresses);
        if let (true, Some(first)) = (found.lds != 0, record.src[2].vector()) {
            let rows = rows_to_read::<D>(cx, first);
            lds::store::<D>(&mut cx.group.lds, &rows, &words, found.lds, cx.wave.lanes);
        }
        if found.scratch != 0 {
            return scratch::store::<D>(cx, record, &words, found.scratch);
        }
        Flow::Next
    }
}
