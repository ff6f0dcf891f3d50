//! Scalar atomics (gfx9).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rocjitsu_isa::Op;

use super::{access, address, fault, returns};
use crate::memory::FaultKind;
use crate::record::{Flow, Handler, Operand, Record};
use crate::wave::Cx;

/// The handler of an atomic and its data words (of a compare-and-swap: new value, then the one compared with).
pub fn handler(op: Op) -> Option<(Handler, u32)> {
    Some(match op {
        Op::s_atomic_swap => (|cx, r| update32(cx, r, false, |_, d| d), 1),
        Op::s_atomic_swap_x2 => (|cx, r| update64(cx, r, false, |_, d| d), 2),
        Op::s_atomic_add => (|cx, r| update32(cx, r, false, |m, d| m.wrapping_add(d)), 1),
        Op::s_atomic_add_x2 => (|cx, r| update64(cx, r, false, |m, d| m.wrapping_add(d)), 2),
        Op::s_atomic_sub => (|cx, r| update32(cx, r, false, |m, d| m.wrapping_sub(d)), 1),
        Op::s_atomic_sub_x2 => (|cx, r| update64(cx, r, false, |m, d| m.wrapping_sub(d)), 2),
        Op::s_atomic_smin => (
            |cx, r| update32(cx, r, false, |m, d| (m as i32).min(d as i32) as u32),
            1,
        ),
        Op::s_atomic_smin_x2 => (
            |cx, r| update64(cx, r, false, |m, d| (m as i64).min(d as i64) as u64),
            2,
        ),
        Op::s_atomic_umin => (|cx, r| update32(cx, r, false, |m, d| m.min(d)), 1),
        Op::s_atomic_umin_x2 => (|cx, r| update64(cx, r, false, |m, d| m.min(d)), 2),
        Op::s_atomic_smax => (
            |cx, r| update32(cx, r, false, |m, d| (m as i32).max(d as i32) as u32),
            1,
        ),
        Op::s_atomic_smax_x2 => (
            |cx, r| update64(cx, r, false, |m, d| (m as i64).max(d as i64) as u64),
            2,
        ),
        Op::s_atomic_umax => (|cx, r| update32(cx, r, false, |m, d| m.max(d)), 1),
        Op::s_atomic_umax_x2 => (|cx, r| update64(cx, r, false, |m, d| m.max(d)), 2),
        Op::s_atomic_and => (|cx, r| update32(cx, r, false, |m, d| m & d), 1),
        Op::s_atomic_and_x2 => (|cx, r| update64(cx, r, false, |m, d| m & d), 2),
        Op::s_atomic_or => (|cx, r| update32(cx, r, false, |m, d| m | d), 1),
        Op::s_atomic_or_x2 => (|cx, r| update64(cx, r, false, |m, d| m | d), 2),
        Op::s_atomic_xor => (|cx, r| update32(cx, r, false, |m, d| m ^ d), 1),
        Op::s_atomic_xor_x2 => (|cx, r| update64(cx, r, false, |m, d| m ^ d), 2),
        Op::s_atomic_inc => (
            |cx, r| update32(cx, r, false, |m, d| if m >= d { 0 } else { m + 1 }),
            1,
        ),
        Op::s_atomic_inc_x2 => (
            |cx, r| update64(cx, r, false, |m, d| if m >= d { 0 } else { m + 1 }),
            2,
        ),
        Op::s_atomic_dec => (
            |cx, r| update32(cx, r, false, |m, d| if m == 0 || m > d { d } else { m - 1 }),
            1,
        ),
        Op::s_atomic_dec_x2 => (
            |cx, r| update64(cx, r, false, |m, d| if m == 0 || m > d { d } else { m - 1 }),
            2,
        ),
        Op::s_atomic_cmpswap => (|cx, r| compare_swap32(cx, r, false), 2),
        Op::s_atomic_cmpswap_x2 => (|cx, r| compare_swap64(cx, r, false), 4),
        Op::s_buffer_atomic_swap => (|cx, r| update32(cx, r, true, |_, d| d), 1),
        Op::s_buffer_atomic_swap_x2 => (|cx, r| update64(cx, r, true, |_, d| d), 2),
        Op::s_buffer_atomic_add => (|cx, r| update32(cx, r, true, |m, d| m.wrapping_add(d)), 1),
        Op::s_buffer_atomic_add_x2 => (|cx, r| update64(cx, r, true, |m, d| m.wrapping_add(d)), 2),
        Op::s_buffer_atomic_sub => (|cx, r| update32(cx, r, true, |m, d| m.wrapping_sub(d)), 1),
        Op::s_buffer_atomic_sub_x2 => (|cx, r| update64(cx, r, true, |m, d| m.wrapping_sub(d)), 2),
        Op::s_buffer_atomic_smin => (
            |cx, r| update32(cx, r, true, |m, d| (m as i32).min(d as i32) as u32),
            1,
        ),
        Op::s_buffer_atomic_smin_x2 => (
            |cx, r| update64(cx, r, true, |m, d| (m as i64).min(d as i64) as u64),
            2,
        ),
        Op::s_buffer_atomic_umin => (|cx, r| update32(cx, r, true, |m, d| m.min(d)), 1),
        Op::s_buffer_atomic_umin_x2 => (|cx, r| update64(cx, r, true, |m, d| m.min(d)), 2),
        Op::s_buffer_atomic_smax => (
            |cx, r| update32(cx, r, true, |m, d| (m as i32).max(d as i32) as u32),
            1,
        ),
        Op::s_buffer_atomic_smax_x2 => (
            |cx, r| update64(cx, r, true, |m, d| (m as i64).max(d as i64) as u64),
            2,
        ),
        Op::s_buffer_atomic_umax => (|cx, r| update32(cx, r, true, |m, d| m.max(d)), 1),
        Op::s_buffer_atomic_umax_x2 => (|cx, r| update64(cx, r, true, |m, d| m.max(d)), 2),
        Op::s_buffer_atomic_and => (|cx, r| update32(cx, r, true, |m, d| m & d), 1),
        Op::s_buffer_atomic_and_x2 => (|cx, r| update64(cx, r, true, |m, d| m & d), 2),
        Op::s_buffer_atomic_or => (|cx, r| update32(cx, r, true, |m, d| m | d), 1),
        Op::s_buffer_atomic_or_x2 => (|cx, r| update64(cx, r, true, |m, d| m | d), 2),
        Op::s_buffer_atomic_xor => (|cx, r| update32(cx, r, true, |m, d| m ^ d), 1),
        Op::s_buffer_atomic_xor_x2 => (|cx, r| update64(cx, r, true, |m, d| m ^ d), 2),
        Op::s_buffer_atomic_inc => (
            |cx, r| update32(cx, r, true, |m, d| if m >= d { 0 } else { m + 1 }),
            1,
        ),
        Op::s_buffer_atomic_inc_x2 => (
            |cx, r| update64(cx, r, true, |m, d| if m >= d { 0 } else { m + 1 }),
            2,
        ),
        Op::s_buffer_atomic_dec => (
            |cx, r| update32(cx, r, true, |m, d| if m == 0 || m > d { d } else { m - 1 }),
            1,
        ),
        Op::s_buffer_atomic_dec_x2 => (
            |cx, r| update64(cx, r, true, |m, d| if m == 0 || m > d { d } else { m - 1 }),
            2,
        ),
        Op::s_buffer_atomic_cmpswap => (|cx, r| compare_swap32(cx, r, true), 2),
        Op::s_buffer_atomic_cmpswap_x2 => (|cx, r| compare_swap64(cx, r, true), 4),
        _ => return None,
    })
}

/// The address, or `None` for one behind the end of the buffer, where nothing happens.
fn place(cx: &mut Cx<'_, '_>, record: &Record, buffer: bool) -> Result<Option<u64>, Flow> {
    if !buffer {
        return Ok(Some(address::plain(cx, record, 4)));
    }
    let buffer = access::buffer(cx, record, 4)?;
    Ok((buffer.offset < buffer.size).then(|| buffer.base.wrapping_add(buffer.offset)))
}

/// Host address of `bytes` writable bytes, aligned to their size.
fn locate(cx: &mut Cx<'_, '_>, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
    if !address.is_multiple_of(bytes) {
        return Err(FaultKind::Misaligned);
    }
    let host = cx.unit.memory.locate(address, bytes, true)?;
    if (host.addr() as u64).is_multiple_of(bytes) {
        Ok(host)
    } else {
        Err(FaultKind::Misaligned)
    }
}

fn apply32(cx: &mut Cx<'_, '_>, record: &Record, buffer: bool, f: impl Fn(u32) -> u32) -> Flow {
    let address = match place(cx, record, buffer) {
        Ok(Some(address)) => address,
        Ok(None) => {
            if returns(record) {
                cx.set32(record.dst, 0);
            }
            return Flow::Next;
        }
        Err(flow) => return flow,
    };
    let host = match locate(cx, address, 4) {
        Ok(host) => host,
        Err(kind) => return fault(cx, record, "scalar atomic", 4, address, kind),
    };
    // SAFETY: `locate` vouches for 4 writable bytes there, aligned; for other threads see
    // `crate::memory`.
    let memory = unsafe { AtomicU32::from_ptr(host.cast()) };
    let old = memory
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |m| Some(f(m)))
        .unwrap_or_else(|m| m);
    if returns(record) {
        cx.set32(record.dst, old);
    }
    Flow::Next
}

#[inline(always)]
fn update32(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    buffer: bool,
    f: impl Fn(u32, u32) -> u32,
) -> Flow {
    let data = cx.get32(record.dst);
    apply32(cx, record, buffer, |m| f(m, data))
}

fn compare_swap32(cx: &mut Cx<'_, '_>, record: &Record, buffer: bool) -> Flow {
    let (new, expected) = (cx.get32(record.dst), cx.get32(second(record.dst, 1)));
    apply32(cx, record, buffer, |m| if m == expected { new } else { m })
}

fn apply64(cx: &mut Cx<'_, '_>, record: &Record, buffer: bool, f: impl Fn(u64) -> u64) -> Flow {
    let address = match place(cx, record, buffer) {
        Ok(Some(address)) => address,
        Ok(None) => {
            if returns(record) {
                cx.set64(record.dst, 0);
            }
            return Flow::Next;
        }
        Err(flow) => return flow,
    };
    let host = match locate(cx, address, 8) {
        Ok(host) => host,
        Err(kind) => return fault(cx, record, "scalar atomic", 8, address, kind),
    };
    // SAFETY: `locate` vouches for 8 writable bytes there, aligned; for other threads see
    // `crate::memory`.
    let memory = unsafe { AtomicU64::from_ptr(host.cast()) };
    let old = memory
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |m| Some(f(m)))
        .unwrap_or_else(|m| m);
    if returns(record) {
        cx.set64(record.dst, old);
    }
    Flow::Next
}

#[inline(always)]
fn update64(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    buffer: bool,
    f: impl Fn(u64, u64) -> u64,
) -> Flow {
    let data = cx.get64(record.dst);
    apply64(cx, record, buffer, |m| f(m, data))
}

fn compare_swap64(cx: &mut Cx<'_, '_>, record: &Record, buffer: bool) -> Flow {
    let (new, expected) = (cx.get64(record.dst), cx.get64(second(record.dst, 2)));
    apply64(cx, record, buffer, |m| if m == expected { new } else { m })
}

/// The register `words` behind the one that an operand names.
fn second(operand: Operand, words: u8) -> Operand {
    match operand {
        Operand::Scalar(n) => Operand::Scalar(n.saturating_add(words)),
        other => other,
    }
}
