//! Loads and stores of LDS, and what accesses outside the workgroup's allocation do on each target.
//! Any alignment is allowed (`SH_MEM_CONFIG.alignment_mode` of HSA).

use std::marker::PhantomData;

use rocjitsu_isa::Target;

use super::storage::{LINE, Lds};
use crate::error::Cause;
use crate::record::{Flow, Record};
use crate::vmem::LANES;
use crate::vmem::address::{all_lanes, for_lanes, highest, is_run};
use crate::vmem::body::Body;
use crate::vmem::datum::{Load, Rows, Store, rows_to_read, rows_to_write};
use crate::vmem::global::{read_run, write_run};
use crate::wave::Cx;

/// What becomes of an access that is not wholly inside the workgroup's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Words (or a smaller datum) that are not wholly inside load as zero, bytes outside are not stored.
    Parts,
    /// A lane's load that is not wholly inside is zero as a whole; stores as with [`Outside::Parts`].
    Whole,
    /// The wave stops: a memory violation. Addresses that no LDS has, from 1 MiB on, load zero and store nothing.
    Stop,
}

/// Addresses from here on lie beyond every LDS, which M0 counts in 20 bits. Compilers switch lanes off by such an
/// address (Triton for gfx1250: 0x7fffffff), as the hardware drops what they do.
pub const FAR: u32 = 1 << 20;

impl Outside {
    /// Whether an access that is outside, at this address, stops the wave.
    pub fn stops(self, address: u32) -> bool {
        self == Outside::Stop && address < FAR
    }

    /// The rule for LDS instructions.
    ///
    /// - CDNA 2 to 4: "writes out-of-range are discarded", "reads return the value zero" (3.6.1), and such an access
    ///   is not among the memory violations (3.11).
    /// - RDNA3, RDNA3.5: "for multi-DWORD reads, if any part of the LDS-address is out of range, the entire
    ///   instruction returns zero"; a violation only with `LDS_CONFIG.ADDR_OUT_OF_RANGE_REPORTING` (3.3.4.1), which
    ///   Linux's amdgpu does not set for these chips. An instruction with two addresses makes two accesses.
    /// - RDNA4 (3.3.5.1), CDNA5 (3.3.4.1): "loads return the value zero [...] checked per DWORD", stores keep what is inside. That
    ///   "LDS operations report MEMVIOL" depends on `ADDR_OUT_OF_RANGE_REPORTING` there, too (CDNA5 10.11.6), which Linux
    ///   leaves to debuggers (`KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE`). rocPRIM's block_run_length_decode loads a word
    ///   behind the end.
    pub fn of_ds(target: Target) -> Outside {
        match target.generation() {
            11 => Outside::Whole,
            _ => Outside::Parts,
        }
    }

    /// The rule for flat instructions whose address is in the aperture of LDS. The CDNA2 manual counts "LDS access with
    /// an address outside the range" among their errors, an exception where enabled (10.6), and HSA enables it: it is
    /// the runtime's memory aperture violation. The CDNA3 and CDNA4 manuals have no such section; nothing says that
    /// those chips differ. Others as [`Outside::of_ds`].
    pub fn of_flat(target: Target) -> Outside {
        match target.generation() {
            9 => Outside::Stop,
            _ => Outside::of_ds(target),
        }
    }
}

/// Stops the wave: a lane's access is outside LDS.
#[cold]
pub fn fault(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    address: u32,
    bytes: usize,
    lane: usize,
) -> Flow {
    let cause = Cause::Lds {
        bytes: bytes as u32,
        address,
        lane: lane as u32,
        size: cx.group.lds.len() as u32,
    };
    cx.fault(record, cause)
}

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

/// Loads lanes of `mask` to registers from `first`.
#[inline(always)]
pub fn load<D: Load>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    first: u32,
    addresses: &Addresses,
    mask: u64,
    outside: Outside,
) -> Flow {
    let lanes = cx.wave.lanes;
    let rows = rows_to_write::<D>(cx, first);
    let lds = &cx.group.lds;
    if highest(addresses, mask) as usize + D::BYTES > lds.len() {
        return load_some::<D>(cx, record, &rows, addresses, mask, outside);
    }
    let p = lds.start().cast_const();
    // SAFETY: the highest address of `mask`, and so every one, has its bytes inside LDS; rows have all lanes.
    unsafe {
        let at = |lane: usize| p.add(addresses[lane] as usize);
        if mask == all_lanes(lanes) {
            for lane in (0..lanes as usize).step_by(4) {
                D::get4(std::array::from_fn(|l| at(lane + l)), &rows, lane);
            }
        } else {
            for_lanes(mask, |lane| D::get(at(lane), 4, &rows, lane));
        }
    }
    Flow::Next
}

/// [`load`] where lanes may be outside.
#[cold]
#[inline(never)]
fn load_some<D: Load>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    rows: &Rows<*mut u32>,
    addresses: &Addresses,
    mask: u64,
    outside: Outside,
) -> Flow {
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let Some(bytes) = read(&cx.group.lds, addresses[lane], D::BYTES, outside) else {
            return fault(cx, record, addresses[lane], D::BYTES, lane);
        };
        // SAFETY: sixteen bytes are there; rows have all lanes.
        unsafe { D::get(bytes.as_ptr(), 4, rows, lane) };
    }
    Flow::Next
}

/// Stores lanes of `mask` from registers from `first`, in ascending order.
#[inline(always)]
pub fn store<D: Store>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    first: u32,
    addresses: &Addresses,
    mask: u64,
    outside: Outside,
) -> Flow {
    let lanes = cx.wave.lanes;
    let rows = rows_to_read::<D>(cx, first);
    let lds = &cx.group.lds;
    if highest(addresses, mask) as usize + D::BYTES > lds.len() {
        return store_some::<D>(cx, record, &rows, addresses, mask, outside);
    }
    let p = lds.start();
    // SAFETY: as in `load`, for writing.
    unsafe {
        let at = |lane: usize| p.add(addresses[lane] as usize);
        if cx.group.shared {
            for_lanes(mask, |lane| order_line(at(lane)));
        }
        if mask == all_lanes(lanes) {
            for lane in (0..lanes as usize).step_by(4) {
                D::put4(std::array::from_fn(|l| at(lane + l)), &rows, lane);
            }
        } else {
            for_lanes(mask, |lane| D::put(at(lane), 4, &rows, lane));
        }
    }
    Flow::Next
}

/// Asks for the cache line at `p`, to be written. Where several threads run the waves of a workgroup, what one of them is going
/// to store lies in another core's cache, and stores get their lines one after the other unless all are asked for before.
#[inline(always)]
fn order_line(p: *mut u8) {
    // SAFETY: a hint, which never faults, whatever the address.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) p, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = p;
}

/// [`store`] where lanes may be outside.
#[cold]
#[inline(never)]
fn store_some<D: Store>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    rows: &Rows<*const u32>,
    addresses: &Addresses,
    mask: u64,
    outside: Outside,
) -> Flow {
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let mut bytes = [0u8; 16];
        // SAFETY: sixteen bytes are there; rows have all lanes.
        unsafe { D::put(bytes.as_mut_ptr(), 4, rows, lane) };
        let size = cx.group.lds.len();
        if outside.stops(addresses[lane]) && addresses[lane] as usize + D::BYTES > size {
            return fault(cx, record, addresses[lane], D::BYTES, lane);
        }
        write(&cx.group.lds, addresses[lane], &bytes[..D::BYTES]);
    }
    Flow::Next
}

/// Up to 16 bytes of LDS, `None` where an access that is not wholly inside stops the wave.
pub fn read(lds: &Lds, address: u32, bytes: usize, outside: Outside) -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    let from = address as usize;
    if copy(lds, from, &mut out[..bytes]) {
        return Some(out);
    }
    match outside {
        Outside::Stop if outside.stops(address) => return None,
        Outside::Stop | Outside::Whole => {}
        Outside::Parts => {
            for (j, part) in out[..bytes].chunks_mut(4).enumerate() {
                copy(lds, from + 4 * j, part);
            }
        }
    }
    Some(out)
}

/// Copies bytes that are wholly inside LDS; says whether they are.
fn copy(lds: &Lds, from: usize, to: &mut [u8]) -> bool {
    let Some(inside) = lds.at(from, to.len()) else {
        return false;
    };
    // SAFETY: `at` vouches for as many bytes, which no reference claims.
    unsafe { std::ptr::copy_nonoverlapping(inside.cast_const(), to.as_mut_ptr(), to.len()) };
    true
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

/// Where the lanes of an access lie, if that is quickly said and all are inside of LDS.
enum Quick {
    /// All lanes are active, one behind the other from here on.
    Run(*mut u8),
    /// These lanes are active; each with its place.
    Few([(u8, *mut u8); FEW], usize),
}

/// The most active lanes of [`Quick::Few`].
const FEW: usize = 4;

/// Where the lanes of `mask` lie at a register's words and an offset, `bytes` bytes each.
#[inline(always)]
fn quick(cx: &Cx<'_, '_>, register: u32, offset: u32, mask: u64, bytes: usize) -> Option<Quick> {
    let row = cx.wave.v.read(register);
    let lds = &cx.group.lds;
    if mask == all_lanes(cx.wave.lanes) {
        if !is_run(row, bytes as u32, bytes as u32) {
            return None;
        }
        let start = row[0].wrapping_add(offset) as usize;
        return lds.at(start, row.len() * bytes).map(Quick::Run);
    }
    if mask.count_ones() > FEW as u32 {
        return None;
    }
    let (mut few, mut count) = ([(0, std::ptr::null_mut()); FEW], 0);
    let mut left = mask;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        let at = lds.at(row[lane].wrapping_add(offset) as usize, bytes)?;
        few[count % FEW] = (lane as u8, at);
        count += 1;
    }
    Some(Quick::Few(few, count))
}

/// Loads from such places to registers from `first`.
#[inline(always)]
fn load_quick<D: Load>(cx: &mut Cx<'_, '_>, place: Quick, first: u32) {
    let lanes = cx.wave.lanes as usize;
    let rows = rows_to_write::<D>(cx, first);
    // SAFETY: `quick` vouches for the bytes of each lane; the rows are whole registers.
    unsafe {
        match place {
            Quick::Run(run) => read_run::<D>(run.cast_const(), &rows, lanes),
            Quick::Few(few, count) => {
                for &(lane, at) in few.iter().take(count) {
                    D::get(at.cast_const(), 4, &rows, lane.into());
                }
            }
        }
    }
}

/// Stores registers from `first` to such places, in ascending order of lanes.
#[inline(always)]
fn store_quick<D: Store>(cx: &mut Cx<'_, '_>, place: Quick, first: u32) {
    let lanes = cx.wave.lanes as usize;
    let rows = rows_to_read::<D>(cx, first);
    if let (Quick::Run(run), true) = (&place, cx.group.shared) {
        for at in (0..lanes * D::BYTES).step_by(LINE) {
            order_line(run.wrapping_add(at));
        }
    }
    // SAFETY: as in `load_quick`, for writing.
    unsafe {
        match place {
            Quick::Run(run) => write_run::<D>(run, &rows, lanes),
            Quick::Few(few, count) => {
                for &(lane, at) in few.iter().take(count) {
                    D::put(at, 4, &rows, lane.into());
                }
            }
        }
    }
}

/// Loads from `row + offset` to registers from `first`.
#[inline(always)]
fn load_at<D: Load>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    address: &[u32],
    offset: u32,
    first: u32,
    mask: u64,
) -> Flow {
    let outside = Outside::of_ds(cx.unit.target);
    load::<D>(
        cx,
        record,
        first,
        &addresses(address, offset),
        mask,
        outside,
    )
}

/// Stores registers from `first` to `row + offset`.
#[inline(always)]
fn store_at<D: Store>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    register: u32,
    offset: u32,
    first: u32,
    mask: u64,
) -> Flow {
    if let Some(place) = quick(cx, register, offset, mask, D::BYTES) {
        store_quick::<D>(cx, place, first);
        return Flow::Next;
    }
    let at = addresses(cx.wave.v.read(register), offset);
    let outside = Outside::of_ds(cx.unit.target);
    store::<D>(cx, record, first, &at, mask, outside)
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
        let mask = cx.wave.exec();
        let Some(first) = record.dst.vector() else {
            return Flow::Next;
        };
        let register = record.src[0].vector().unwrap_or(0);
        if let Some(place) = quick(cx, register, record.imm as u32, mask, D::BYTES) {
            load_quick::<D>(cx, place, first);
            return Flow::Next;
        }
        let row = address_row(cx, record);
        let row = &row[..cx.wave.lanes as usize];
        load_at::<D>(cx, record, row, record.imm as u32, first, mask)
    }
}

impl<D: Store> Body for LdsStore<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mask = cx.wave.exec();
        let (Some(address), Some(first)) = (record.src[0].vector(), record.src[2].vector()) else {
            return Flow::Next;
        };
        store_at::<D>(cx, record, address, record.imm as u32, first, mask)
    }
}

impl<D: Load> Body for LdsLoad2<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mask = cx.wave.exec();
        let Some(first) = record.dst.vector() else {
            return Flow::Next;
        };
        let second = first + D::WORDS as u32;
        let register = record.src[0].vector().unwrap_or(0);
        // The first load may overwrite the addresses of the second.
        let place = |offset: i64| quick(cx, register, offset as u32, mask, D::BYTES);
        if let (Some(one), Some(other)) = (place(record.imm), place(record.imm2)) {
            load_quick::<D>(cx, one, first);
            load_quick::<D>(cx, other, second);
            return Flow::Next;
        }
        let row = address_row(cx, record);
        let row = &row[..cx.wave.lanes as usize];
        match load_at::<D>(cx, record, row, record.imm as u32, first, mask) {
            Flow::Next => {}
            stopped => return stopped,
        }
        load_at::<D>(cx, record, row, record.imm2 as u32, second, mask)
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
        let (Some(address), Some(first), Some(second)) = regs else {
            return Flow::Next;
        };
        match store_at::<D>(cx, record, address, record.imm as u32, first, mask) {
            Flow::Next => {}
            stopped => return stopped,
        }
        store_at::<D>(cx, record, address, record.imm2 as u32, second, mask)
    }
}
