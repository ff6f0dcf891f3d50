//! Atomics on LDS: host atomics while the waves of the workgroup run on several threads. Lanes act in ascending order.
//! Outside the allocation nothing is changed, and what is read is zero, or the wave stops ([`Outside`]).

use std::marker::PhantomData;

use super::access::{self, Addresses, Outside};
use crate::error::Cause;
use crate::record::{Flow, Record};
use crate::vmem::LANES;
use crate::vmem::atomic::{data, give_back};
use crate::vmem::body::Body;
use crate::vmem::rmw::{Rmw, Value};
use crate::wave::{Cx, Group};

/// An LDS atomic at one address.
pub struct LdsAtomic<O>(PhantomData<O>);
/// Two of them (`wrxchg2`, `storexchg_2addr`).
pub struct LdsAtomic2<O>(PhantomData<O>);

#[cold]
fn misaligned(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    bytes: usize,
    address: u32,
    lane: usize,
) -> Flow {
    let what = format!("LDS atomic of {bytes} bytes at {address:#x} by lane {lane}: misaligned");
    cx.fault(record, Cause::Illegal { what })
}

/// Replaces a value at an address that is a multiple of its size; returns the old one, or `None` outside.
#[inline(always)]
pub fn update<T: Value>(group: &Group, address: u32, mut f: impl FnMut(T) -> T) -> Option<T> {
    debug_assert!((address as usize).is_multiple_of(T::BYTES));
    let p = group.lds.at(address as usize, T::BYTES)?;
    if group.shared {
        return Some(update_shared(p, f));
    }
    // SAFETY: `at` vouches for the bytes; the waves of the workgroup run one after the other.
    unsafe {
        let old = p.cast::<T>().read_unaligned();
        p.cast::<T>().write_unaligned(f(old));
        Some(old)
    }
}

/// The same while the workgroup is shared. Not inlined: the loop would cost those that are not shared registers.
#[cold]
#[inline(never)]
fn update_shared<T: Value>(p: *mut u8, f: impl FnMut(T) -> T) -> T {
    // SAFETY: `update` has checked the place, LDS starts at a multiple of eight, and the address is one of the size.
    unsafe { T::update(p, f) }
}

/// Executes lanes of `mask`.
#[inline(always)]
pub fn lanes<O: Rmw>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    addresses: &Addresses,
    mask: u64,
    outside: Outside,
) -> Flow {
    let first = record.src[2].vector().unwrap_or(0);
    let second = record.src[3]
        .vector()
        .unwrap_or(first + O::T::BYTES as u32 / 4);
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let at = addresses[lane];
        if !(at as usize).is_multiple_of(O::T::BYTES) {
            return misaligned(cx, record, O::T::BYTES, at, lane);
        }
        let (a, b) = data::<O>(cx, first, second, lane);
        let old = update::<O::T>(cx.group, at, |old| O::apply(old, a, b, record.mem.flush));
        if old.is_none() && outside.stops(at) {
            return access::fault(cx, record, at, O::T::BYTES, lane);
        }
        give_back(cx, record, lane, old.unwrap_or_default());
    }
    Flow::Next
}

impl<O: Rmw> Body for LdsAtomic<O> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let Some(address) = record.src[0].vector() else {
            return Flow::Next;
        };
        let addresses = access::addresses(cx.wave.v.read(address), record.imm as u32);
        let mask = cx.wave.exec();
        let outside = Outside::of_ds(cx.unit.target);
        lanes::<O>(cx, record, &addresses, mask, outside)
    }
}

impl<O: Rmw> Body for LdsAtomic2<O> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let regs = (
            record.src[0].vector(),
            record.src[2].vector(),
            record.src[3].vector(),
            record.dst.vector(),
        );
        let (Some(address), Some(first), Some(second), Some(dst)) = regs else {
            return Flow::Next;
        };
        let base = access::addresses(cx.wave.v.read(address), 0);
        let mask = cx.wave.exec();
        let words = O::T::BYTES as u32 / 4;
        let outside = Outside::of_ds(cx.unit.target);
        for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
            // Both data are read before anything is written: the destination may be one of the sources.
            let (a, _) = data::<O>(cx, first, first, lane);
            let (b, _) = data::<O>(cx, second, second, lane);
            let mut first_place = None;
            for (offset, value, to) in [(record.imm, a, dst), (record.imm2, b, dst + words)] {
                let at = base[lane].wrapping_add(offset as u32);
                if !(at as usize).is_multiple_of(O::T::BYTES) {
                    return misaligned(cx, record, O::T::BYTES, at, lane);
                }
                let old = update::<O::T>(cx.group, at, |old| {
                    O::apply(old, value, value, record.mem.flush)
                });
                if old.is_none() && outside.stops(at) {
                    return access::fault(cx, record, at, O::T::BYTES, lane);
                }
                // Both places are read before either is written, also if they are the same one (pseudocode of
                // DS_WRXCHG2_RTN_B32 and DS_STOREXCHG_2ADDR_RTN_B32).
                let old = match first_place {
                    Some((place, old)) if place == at => old,
                    _ => old.unwrap_or_default(),
                };
                first_place = Some((at, old));
                for (j, &word) in old.words()[..words as usize].iter().enumerate() {
                    cx.wave.v.write(to + j as u32, &mut cx.unit.pool)[lane] = word;
                }
            }
        }
        Flow::Next
    }
}
