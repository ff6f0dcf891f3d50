//! Barriers kept in LDS (gfx1250): arrival counts down, and the phase changes when the count runs out.
//! CDNA5 manual, 11.2.2.

use super::{atomic, register};
use crate::lds::access::{self, Outside};
use crate::record::{Flow, Record};
use crate::vmem::LANES;
use crate::wave::{Cx, Group};

/// Bits of the pending count; the phase is above it. The manual leaves the width to a configuration
/// register (21, 28, 29, 31 or 32) whose value no compiler states.
const WIDTH: u32 = 29;

/// Arrives `update` times at the barrier at `address`; returns what it held, or `None` if it is not wholly in LDS.
pub fn arrive(group: &Group, address: u32, update: u32) -> Option<u64> {
    let arrived = |old: u64| {
        let state = (old as u32).wrapping_sub(update);
        // The count borrows from the phase when it runs below zero; then it starts again from the initial count.
        let borrowed = (old as u32) >> WIDTH != state >> WIDTH;
        let init = (old >> 32) as u32 & 0xffff;
        if borrowed {
            state >> WIDTH << WIDTH | init
        } else {
            state
        }
    };
    if address.is_multiple_of(8) {
        return atomic::update::<u64>(group, address, |old| {
            u64::from(arrived(old)) | old >> 32 << 32
        });
    }
    group.lds.at(address as usize, 8)?;
    let bytes = access::read(&group.lds, address, 8, Outside::Stop)?;
    let old = u64::from_le_bytes(*bytes.first_chunk()?);
    access::write(&group.lds, address, &arrived(old).to_le_bytes());
    Some(old)
}

/// `ds_atomic_async_barrier_arrive_b64` and `ds_atomic_barrier_arrive_rtn_b64`: each active lane arrives.
pub fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let exec = cx.wave.exec();
    let at = access::addresses(cx.wave.v.read(register(record.src[0])), record.imm as u32);
    for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
        let update = record.src[2]
            .vector()
            .map_or(1, |r| cx.wave.v.read(r)[lane]);
        let Some(old) = arrive(cx.group, at[lane], update) else {
            return access::fault(cx, record, at[lane], 8, lane);
        };
        if let Some(dst) = record.dst.vector() {
            cx.wave.v.write(dst, &mut cx.unit.pool)[lane] = old as u32;
            cx.wave.v.write(dst + 1, &mut cx.unit.pool)[lane] = (old >> 32) as u32;
        }
    }
    Flow::Next
}
