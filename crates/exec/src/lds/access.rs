//! Loads and stores of LDS. Bytes beyond the workgroup's allocation read as zero and are not written
//! (manuals: "LDS Alignment and Out-of-Range"): a word that is not wholly inside loads as zero, a store
//! writes the bytes that are inside. Any alignment is allowed (`SH_MEM_CONFIG.alignment_mode` of HSA).

use std::marker::PhantomData;

use super::storage::Lds;
use crate::record::{Flow, Record};
use crate::vmem::LANES;
use crate::vmem::address::{all_lanes, for_lanes, is_run};
use crate::vmem::body::Body;
use crate::vmem::datum::{Load, Rows, Store, rows_to_read, rows_to_write};
use crate::vmem::global::{read_run, write_run};
use crate::wave::Cx;

/// A byte address in LDS for each lane.
pub type Addresses = [u32; LANES];

/// Addresses of the lanes: a register's words and an offset.
#[inline(always)]
pub fn addresses(row: &[u32], offset: u32) -> Addresses {
    let mut out = [0; LANES];
    for (a, &w) in out.iter_mut().zip(row) {
        *a = w.wrapping_add(offset);
    }
    out
}

#[inline(always)]
fn highest(addresses: &Addresses, mask: u64) -> u32 {
    let mut high = 0;
    if mask == !0 {
        for &a in addresses {
            high = high.max(a);
        }
    } else {
        for (l, &a) in addresses.iter().enumerate() {
            high = high.max(if mask >> l & 1 != 0 { a } else { 0 });
        }
    }
    high
}

/// Loads lanes of `mask` to `rows`.
#[inline(always)]
pub fn load<D: Load>(
    lds: &Lds,
    rows: &Rows<*mut u32>,
    addresses: &Addresses,
    mask: u64,
    lanes: u32,
) {
    if highest(addresses, mask) as usize + D::BYTES <= lds.len() {
        // SAFETY: the highest address, and so every one, has its bytes inside LDS; rows have all lanes.
        let one = |lane: usize| unsafe {
            D::get(
                lds.start().add(addresses[lane] as usize).cast_const(),
                4,
                rows,
                lane,
            )
        };
        if mask == all_lanes(lanes) {
            (0..lanes as usize).for_each(one);
        } else {
            for_lanes(mask, one);
        }
        return;
    }
    for_lanes(mask, |lane| {
        let bytes = read(lds, addresses[lane], D::BYTES);
        // SAFETY: sixteen bytes are there; rows have all lanes.
        unsafe { D::get(bytes.as_ptr(), 4, rows, lane) };
    });
}

/// Stores lanes of `mask` from `rows`, in ascending order.
#[inline(always)]
pub fn store<D: Store>(
    lds: &Lds,
    rows: &Rows<*const u32>,
    addresses: &Addresses,
    mask: u64,
    lanes: u32,
) {
    if highest(addresses, mask) as usize + D::BYTES <= lds.len() {
        let p = lds.start();
        // SAFETY: as in `load`, for writing.
        let one = |lane: usize| unsafe { D::put(p.add(addresses[lane] as usize), 4, rows, lane) };
        if mask == all_lanes(lanes) {
            (0..lanes as usize).for_each(one);
        } else {
            for_lanes(mask, one);
        }
        return;
    }
    for_lanes(mask, |lane| {
        let mut bytes = [0u8; 16];
        // SAFETY: sixteen bytes are there; rows have all lanes.
        unsafe { D::put(bytes.as_mut_ptr(), 4, rows, lane) };
        write(lds, addresses[lane], &bytes[..D::BYTES]);
    });
}

/// Up to 16 bytes of LDS; words (or a smaller datum) that are not wholly inside read as zero.
pub fn read(lds: &Lds, address: u32, bytes: usize) -> [u8; 16] {
    let mut out = [0u8; 16];
    for (j, part) in out[..bytes].chunks_mut(4).enumerate() {
        if let Some(inside) = lds.at(address as usize + 4 * j, part.len()) {
            // SAFETY: `at` vouches for as many bytes, which no reference claims.
            unsafe { std::ptr::copy_nonoverlapping(inside, part.as_mut_ptr(), part.len()) };
        }
    }
    out
}

/// Writes the bytes that are inside LDS.
pub fn write(lds: &Lds, address: u32, bytes: &[u8]) {
    let inside = lds.len().saturating_sub(address as usize);
    let bytes = &bytes[..bytes.len().min(inside)];
    if let Some(to) = lds.at(address as usize, bytes.len()) {
        // SAFETY: `at` vouches for as many bytes, which no reference claims.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// A load at one address.
pub struct LdsLoad<D>(PhantomData<D>);
/// A store at one address.
pub struct LdsStore<D>(PhantomData<D>);
/// Two loads.
pub struct LdsLoad2<D>(PhantomData<D>);
/// Two stores.
pub struct LdsStore2<D>(PhantomData<D>);

/// Loads from `row + offset` to registers from `first`.
#[inline(always)]
fn load_at<D: Load>(cx: &mut Cx<'_, '_>, address: &[u32], offset: u32, first: u32, mask: u64) {
    let lanes = cx.wave.lanes;
    let rows = rows_to_write::<D>(cx, first);
    let lds = &cx.group.lds;
    if mask == all_lanes(lanes) && is_run(address, D::BYTES as u32, D::BYTES as u32) {
        let start = address[0].wrapping_add(offset) as usize;
        if let Some(run) = lds.at(start, lanes as usize * D::BYTES) {
            // SAFETY: the run has the bytes of all lanes, the rows are whole registers.
            unsafe { read_run::<D>(run.cast_const(), &rows, lanes as usize) };
            return;
        }
    }
    load::<D>(lds, &rows, &addresses(address, offset), mask, lanes);
}

/// Stores registers from `first` to `row + offset`.
#[inline(always)]
fn store_at<D: Store>(cx: &mut Cx<'_, '_>, register: u32, offset: u32, first: u32, mask: u64) {
    let lanes = cx.wave.lanes;
    let rows = rows_to_read::<D>(cx, first);
    let address = cx.wave.v.read(register);
    let lds = &cx.group.lds;
    if mask == all_lanes(lanes) && is_run(address, D::BYTES as u32, D::BYTES as u32) {
        let start = address[0].wrapping_add(offset) as usize;
        if let Some(run) = lds.at(start, lanes as usize * D::BYTES) {
            // SAFETY: as in `load_at`, for writing.
            unsafe { write_run::<D>(run, &rows, lanes as usize) };
            return;
        }
    }
    store::<D>(lds, &rows, &addresses(address, offset), mask, lanes);
}

/// A copy of the address register's lanes, since a load may overwrite it.
#[inline(always)]
fn address_row(cx: &Cx<'_, '_>, record: &Record) -> [u32; LANES] {
    let mut out = [0; LANES];
    let row = cx.wave.v.read(record.src[0].vector().unwrap_or(0));
    out[..row.len()].copy_from_slice(row);
    out
}

impl<D: Load> Body for LdsLoad<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let row = address_row(cx, record);
        let mask = cx.wave.exec();
        if let Some(first) = record.dst.vector() {
            load_at::<D>(
                cx,
                &row[..cx.wave.lanes as usize],
                record.imm as u32,
                first,
                mask,
            );
        }
        Flow::Next
    }
}

impl<D: Store> Body for LdsStore<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mask = cx.wave.exec();
        if let (Some(address), Some(first)) = (record.src[0].vector(), record.src[2].vector()) {
            store_at::<D>(cx, address, record.imm as u32, first, mask);
        }
        Flow::Next
    }
}

impl<D: Load> Body for LdsLoad2<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let row = address_row(cx, record);
        let row = &row[..cx.wave.lanes as usize];
        let mask = cx.wave.exec();
        if let Some(first) = record.dst.vector() {
            load_at::<D>(cx, row, record.imm as u32, first, mask);
            load_at::<D>(cx, row, record.imm2 as u32, first + D::WORDS as u32, mask);
        }
        Flow::Next
    }
}

impl<D: Store> Body for LdsStore2<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mask = cx.wave.exec();
        let regs = (
            record.src[0].vector(),
            record.src[2].vector(),
            record.src[3].vector(),
        );
        if let (Some(address), Some(first), Some(second)) = regs {
            store_at::<D>(cx, address, record.imm as u32, first, mask);
            store_at::<D>(cx, address, record.imm2 as u32, second, mask);
        }
        Flow::Next
    }
}
