//! Loads and stores of global memory: whole runs at once where lanes lie one behind the other,
//! host addresses relative to one extent where all lanes are in it, lane by lane otherwise.

use std::marker::PhantomData;

use super::address::{self, Addresses, all_lanes, for_lanes};
use super::body::Body;
use super::datum::{Load, Rows, Store, rows_to_read, rows_to_write};
use crate::record::{Flow, Record};
use crate::wave::Cx;

/// A global load.
pub struct GlobalLoad<D>(PhantomData<D>);
/// A global store.
pub struct GlobalStore<D>(PhantomData<D>);

impl<D: Load> Body for GlobalLoad<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        if let Some(base) = address::contiguous(cx, record, D::BYTES as u32)
            && load_run::<D>(cx, record, base)
        {
            return Flow::Next;
        }
        let addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        load::<D>(cx, record, &addresses, mask)
    }
}

impl<D: Store> Body for GlobalStore<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        if let Some(base) = address::contiguous(cx, record, D::BYTES as u32)
            && store_run::<D>(cx, record, base)
        {
            return Flow::Next;
        }
        let addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        store::<D>(cx, record, &addresses, mask)
    }
}

/// Loads all lanes from one run of memory, if it lies in one extent.
#[inline(always)]
pub fn load_run<D: Load>(cx: &mut Cx<'_, '_>, record: &Record, base: u64) -> bool {
    let lanes = cx.wave.lanes as usize;
    let Some(first) = record.dst.vector() else {
        return true;
    };
    let Ok(p) = cx
        .unit
        .memory
        .locate(base, (lanes * D::BYTES) as u64, false)
    else {
        return false;
    };
    let rows = rows_to_write::<D>(cx, first);
    // SAFETY: `locate` vouches for the bytes of all lanes, the rows are whole registers of this wave.
    unsafe { read_run::<D>(p, &rows, lanes) };
    true
}

/// Reads `lanes` lanes that lie one behind the other.
///
/// # Safety
/// `lanes * D::BYTES` bytes at `p` must be readable, `lanes` words of the rows writable.
#[inline(always)]
pub unsafe fn read_run<D: Load>(p: *const u8, rows: &Rows<*mut u32>, lanes: usize) {
    for lane in (0..lanes).step_by(16) {
        // SAFETY: the caller's promise; waves have a multiple of sixteen lanes.
        unsafe { D::get16(p.add(lane * D::BYTES), rows, lane) };
    }
}

/// Writes `lanes` lanes one behind the other.
///
/// # Safety
/// `lanes * D::BYTES` bytes at `p` must be writable, `lanes` words of the rows readable.
#[inline(always)]
pub unsafe fn write_run<D: Store>(p: *mut u8, rows: &Rows<*const u32>, lanes: usize) {
    for lane in (0..lanes).step_by(16) {
        // SAFETY: as in `read_run`.
        unsafe { D::put16(p.add(lane * D::BYTES), rows, lane) };
    }
}

/// Stores all lanes to one run of memory, if it lies in one extent.
#[inline(always)]
pub fn store_run<D: Store>(cx: &mut Cx<'_, '_>, record: &Record, base: u64) -> bool {
    let lanes = cx.wave.lanes as usize;
    let Some(first) = record.src[2].vector() else {
        return true;
    };
    let Ok(p) = cx.unit.memory.locate(base, (lanes * D::BYTES) as u64, true) else {
        return false;
    };
    let rows = rows_to_read::<D>(cx, first);
    // SAFETY: as in `load_run`, for writing.
    unsafe { write_run::<D>(p, &rows, lanes) };
    true
}

/// Loads the lanes of `mask`.
#[inline(always)]
pub fn load<D: Load>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    addresses: &Addresses,
    mask: u64,
) -> Flow {
    let Some(first) = record.dst.vector() else {
        return Flow::Next;
    };
    if mask == 0 {
        return Flow::Next;
    }
    let rows = rows_to_write::<D>(cx, first);
    let (low, high) = address::span(addresses, mask);
    if let Ok(p) = cx
        .unit
        .memory
        .locate(low, (high - low).saturating_add(D::BYTES as u64), false)
    {
        // SAFETY: every active lane's bytes lie between `low` and the end that `locate` vouched for.
        unsafe {
            let at = |lane: usize| p.add((addresses[lane] - low) as usize).cast_const();
            if mask == all_lanes(cx.wave.lanes) {
                for lane in (0..cx.wave.lanes as usize).step_by(4) {
                    D::get4(std::array::from_fn(|l| at(lane + l)), &rows, lane);
                }
            } else {
                for_lanes(mask, |lane| D::get(at(lane), 4, &rows, lane));
            }
        }
        return Flow::Next;
    }
    for lane in (0..64).filter(|l| mask >> l & 1 != 0) {
        match cx
            .unit
            .memory
            .locate(addresses[lane], D::BYTES as u64, false)
        {
            // SAFETY: `locate` vouches for the lane's bytes.
            Ok(p) => unsafe { D::get(p, 4, &rows, lane) },
            Err(kind) => {
                return address::fault(cx, record, "load", D::BYTES, addresses[lane], lane, kind);
            }
        }
    }
    Flow::Next
}

/// Stores the lanes of `mask`, in ascending order.
#[inline(always)]
pub fn store<D: Store>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    addresses: &Addresses,
    mask: u64,
) -> Flow {
    let Some(first) = record.src[2].vector() else {
        return Flow::Next;
    };
    if mask == 0 {
        return Flow::Next;
    }
    let rows = rows_to_read::<D>(cx, first);
    let (low, high) = address::span(addresses, mask);
    if let Ok(p) = cx
        .unit
        .memory
        .locate(low, (high - low).saturating_add(D::BYTES as u64), true)
    {
        // SAFETY: as in `load`, for writing.
        unsafe {
            let at = |lane: usize| p.add((addresses[lane] - low) as usize);
            if mask == all_lanes(cx.wave.lanes) {
                for lane in (0..cx.wave.lanes as usize).step_by(4) {
                    D::put4(std::array::from_fn(|l| at(lane + l)), &rows, lane);
                }
            } else {
                for_lanes(mask, |lane| D::put(at(lane), 4, &rows, lane));
            }
        }
        return Flow::Next;
    }
    for lane in (0..64).filter(|l| mask >> l & 1 != 0) {
        match cx
            .unit
            .memory
            .locate(addresses[lane], D::BYTES as u64, true)
        {
            // SAFETY: `locate` vouches for the lane's bytes.
            Ok(p) => unsafe { D::put(p, 4, &rows, lane) },
            Err(_) => {
                let mut data = [0u8; 16];
                // SAFETY: a datum has at most sixteen bytes.
                unsafe { D::put(data.as_mut_ptr(), 4, &rows, lane) };
                let stored = cx.unit.memory.store(addresses[lane], &data[..D::BYTES]);
                if let Err(kind) = stored {
                    let at = addresses[lane];
                    return address::fault(cx, record, "store", D::BYTES, at, lane, kind);
                }
            }
        }
    }
    Flow::Next
}
