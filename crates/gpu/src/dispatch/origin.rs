//! Where a wave came from that stands where no instruction is: the jumps of its kernel that lead there, by what its registers hold.
//! Nothing is written down while waves run, which would cost them.

use rocjitsu_exec::wave::Wave;
use rocjitsu_isa::{Name, RegFile, decode};

use super::{Device, Dispatch};

/// Bytes of a kernel that are looked at.
const MOST_CODE: u64 = 1 << 20;
/// How far behind the target of a jump a wave may have come over what is no code.
const MOST_AHEAD: u64 = 1 << 16;

/// The addresses of jumps to `pc`, or, where there are none, shortly before it, in the code from the kernel's entry to the end of the
/// function that the compiler made of it. Empty if `pc` is in that code.
pub fn jumps(device: &Device, dispatch: &Dispatch, wave: &Wave, pc: u64) -> Vec<u64> {
    let set = device.target.execution_set(dispatch.descriptor.wave_size);
    let (mut exact, mut near) = (Vec::new(), Vec::new());
    let (mut at, mut furthest) = (dispatch.entry, dispatch.entry);
    while at - dispatch.entry < MOST_CODE {
        let mut bytes = [0; 24];
        let mut lengths = (1..=6).rev().map(|n| 4 * n);
        let Some(got) = lengths.find(|&n| device.memory.read(at, &mut bytes[..n]).is_ok()) else {
            break;
        };
        // What cannot be decoded lies in the code all the same.
        if at == pc {
            return Vec::new();
        }
        let Ok(inst) = decode(device.target, set, &bytes[..got]) else {
            break;
        };
        let name = inst.op().name();
        let next = at + inst.len() as u64;
        let relative = ["s_branch", "s_cbranch", "s_call"];
        let goes = if relative.iter().any(|start| name.starts_with(start)) {
            let words = inst.signed_field(Name::simm16).unwrap_or(0);
            let to = next.wrapping_add_signed(4 * i64::from(words));
            if !name.starts_with("s_call") && to != pc {
                furthest = furthest.max(to);
            }
            Some(to)
        } else if name.starts_with("s_setpc") || name.starts_with("s_swappc") {
            let reads = inst.effects(wave.lanes).reads;
            let pair = reads.iter().find(|r| r.file == RegFile::Sgpr);
            pair.map(|pair| {
                let word = |n: u16| {
                    let word = wave.s.get(usize::from(pair.first + n)).copied();
                    u64::from(word.unwrap_or(0))
                };
                word(0) | word(1) << 32
            })
        } else {
            None
        };
        match goes {
            Some(to) if to == pc => exact.push(at),
            Some(to) if to < pc && pc - to < MOST_AHEAD => near.push((at, to)),
            _ => {}
        }
        let ends = name == "s_endpgm" || name == "s_branch" || name.starts_with("s_setpc");
        at = next;
        if ends && next > furthest {
            break;
        }
        if next == pc && !ends {
            // It runs on behind the end, unless there is something.
            exact.push(next - inst.len() as u64);
        }
    }
    if exact.is_empty() {
        // Jumps within the code do not leave it.
        near.retain(|&(_, to)| to < dispatch.entry || to >= at);
        exact = near.into_iter().map(|(from, _)| from).collect();
    }
    exact
}

/// What is said where nothing is known.
pub const UNKNOWN: &str = "\n  no instruction is there, and none of the kernel's jumps leads there";

/// What stands above the code around the first of the jumps that lead to a place; `others`: the rest of them.
pub fn came_from(others: &[u64]) -> String {
    const NAMED: usize = 4;
    let mut text = "\n  the wave came from".to_owned();
    let named: Vec<String> = others
        .iter()
        .take(NAMED)
        .map(|at| format!("{at:#x}"))
        .collect();
    if !named.is_empty() {
        text += &format!(", or from {}", named.join(", "));
    }
    if others.len() > NAMED {
        text += " and others";
    }
    text + ":"
}
