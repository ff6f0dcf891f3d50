//! Block loads and stores of gfx12: up to 32 registers, those that M0 has a bit for, each at its own place
//! in a block of 32 words (manuals: GLOBAL_LOAD_BLOCK, SCRATCH_LOAD_BLOCK).

use super::address::{self, Addresses, for_lanes};
use super::{Form, LANES, scratch};
use crate::record::{Flow, Handler, Record};
use crate::wave::{Cx, scalar};

/// The handler of a block load or store.
pub fn lower(name: &str) -> Option<Handler> {
    Some(match name {
        "load_block" => |cx, r| run(cx, r, false),
        "store_block" => |cx, r| run(cx, r, true),
        _ => return None,
    })
}

fn run(cx: &mut Cx<'_, '_>, record: &Record, store: bool) -> Flow {
    let Some(first) = (if store { record.src[2] } else { record.dst }).vector() else {
        return Flow::Next;
    };
    let exec = cx.wave.exec();
    let in_scratch = record.mem.form == Form::Scratch;
    let access = if store { "store" } else { "load" };
    // All addresses before anything is loaded: the address registers may be in the block.
    let (offsets, addresses): (scratch::Offsets, Addresses) = if in_scratch {
        (scratch::offsets(cx, record).0, [0; LANES])
    } else {
        ([0; LANES], address::global(cx, record))
    };
    let mut flow = Flow::Next;
    for_lanes(u64::from(cx.wave.s[scalar::M0]), |i| {
        for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
            if flow != Flow::Next {
                return;
            }
            let at = if in_scratch {
                let offset = offsets[lane].wrapping_add(4 * i as u32);
                match scratch::word_address(cx, record, offset, lane) {
                    Some(at) => at,
                    None => {
                        flow = scratch::outside(cx, record, access, offset, 4, lane);
                        return;
                    }
                }
            } else {
                addresses[lane].wrapping_add(4 * i as u64)
            };
            let p = match cx.unit.memory.locate(at, 4, store) {
                Ok(p) => p.cast::<u32>(),
                Err(kind) => {
                    flow = address::fault(cx, record, access, 4, at, lane, kind);
                    return;
                }
            };
            let register = first + i as u32;
            if store {
                // SAFETY: `locate` vouches for the four bytes.
                unsafe { p.write_unaligned(cx.wave.v.read(register)[lane]) };
            } else {
                // SAFETY: as above.
                let word = unsafe { p.read_unaligned() };
                cx.wave.v.write(register, &mut cx.unit.pool)[lane] = word;
            }
        }
    });
    flow
}
