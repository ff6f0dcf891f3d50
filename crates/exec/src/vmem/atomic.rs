//! Atomics on global, flat and scratch memory: host atomics, since workers share memory.

use std::marker::PhantomData;

use super::LANES;
use super::address::{self, Addresses, for_lanes};
use super::body::Body;
use super::rmw::{Rmw, Value};
use super::{flat, scratch};
use crate::error::Cause;
use crate::lds::access::Outside;
use crate::lds::atomic as lds;
use crate::memory::FaultKind;
use crate::record::{Flow, Record};
use crate::wave::Cx;

/// A global or flat atomic.
pub struct MemoryAtomic<O>(PhantomData<O>);

/// Data operands of a lane: the first value, then the second.
#[inline(always)]
pub fn data<O: Rmw>(cx: &Cx<'_, '_>, first: u32, second: u32, lane: usize) -> (O::T, O::T) {
    let word = |r: u32| cx.wave.v.read(r)[lane];
    let value = |r: u32| O::T::from_words(word(r), if O::T::BYTES == 8 { word(r + 1) } else { 0 });
    (
        value(first),
        if O::TWO {
            value(second)
        } else {
            O::T::default()
        },
    )
}

/// Writes the value that a lane's atomic found.
#[inline(always)]
pub fn give_back<T: Value>(cx: &mut Cx<'_, '_>, record: &Record, lane: usize, old: T) {
    if let Some(dst) = record.dst.vector() {
        let words = old.words();
        for (j, &word) in words[..T::BYTES / 4].iter().enumerate() {
            cx.wave.v.write(dst + j as u32, &mut cx.unit.pool)[lane] = word;
        }
    }
}

/// Executes the lanes of `mask` on global addresses, in ascending order.
#[inline(always)]
pub fn global<O: Rmw>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    addresses: &Addresses,
    mask: u64,
) -> Flow {
    let bytes = O::T::BYTES;
    let first = record.src[2].vector().unwrap_or(0);
    let second = record.src[3].vector().unwrap_or(first + bytes as u32 / 4);
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let at = addresses[lane];
        if !at.is_multiple_of(bytes as u64) {
            return address::fault(cx, record, "atomic", bytes, at, lane, FaultKind::Misaligned);
        }
        let p = match cx.unit.memory.locate(at, bytes as u64, true) {
            Ok(p) if (p as usize).is_multiple_of(bytes) => p,
            Ok(_) => {
                return address::fault(
                    cx,
                    record,
                    "atomic",
                    bytes,
                    at,
                    lane,
                    FaultKind::Misaligned,
                );
            }
            Err(kind) => return address::fault(cx, record, "atomic", bytes, at, lane, kind),
        };
        let (a, b) = data::<O>(cx, first, second, lane);
        // SAFETY: `locate` vouches for the bytes, and `p` is aligned.
        let old = unsafe { O::T::update(p, |old| O::apply(old, a, b, record.mem.flush)) };
        give_back(cx, record, lane, old);
    }
    Flow::Next
}

impl<O: Rmw> Body for MemoryAtomic<O> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mut addresses = address::global(cx, record);
        let mask = cx.wave.exec();
        if !record.mem.flat {
            return global::<O>(cx, record, &addresses, mask);
        }
        let found = flat::sort(record, &addresses, mask);
        let words = flat::low_words(&addresses);
        // Scratch is swizzled by words: a 64-bit atomic has no place there (manuals: "Scratch Space").
        if found.scratch | found.shared_scratch != 0 && O::T::BYTES != 4 {
            let what = "64-bit flat atomic on scratch, which hardware refuses".to_owned();
            return cx.fault(record, Cause::Illegal { what });
        }
        for_lanes(found.shared_scratch, |lane| {
            addresses[lane] = flat::from_shared_scratch(addresses[lane]);
        });
        if found.scratch != 0 {
            let (base, lanes) = (scratch::base(cx, record), cx.wave.lanes as usize);
            let size = cx.wave.scratch_size;
            let mut outside = None;
            for_lanes(found.scratch, |lane| {
                addresses[lane] =
                    base.wrapping_add(scratch::place(words[lane], lane, lanes) as u64);
                if u64::from(words[lane]) + 4 > u64::from(size) {
                    outside.get_or_insert(lane);
                }
            });
            if let Some(lane) = outside {
                let what = format!(
                    "scratch atomic of 4 bytes at offset {:#x} by lane {lane}: the lane has {size} bytes",
                    words[lane]
                );
                return cx.fault(record, Cause::Illegal { what });
            }
        }
        let flow = global::<O>(
            cx,
            record,
            &addresses,
            found.global | found.scratch | found.shared_scratch,
        );
        if flow != Flow::Next || found.lds == 0 {
            return flow;
        }
        let target = cx.unit.target;
        let (at, outside) = (flat::lds_words(target, &words), Outside::of_flat(target));
        lds::lanes::<O>(cx, record, &at, found.lds, outside)
    }
}
