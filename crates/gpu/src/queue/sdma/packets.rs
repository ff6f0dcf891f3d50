//! What each SDMA packet does. Sources: `sdma_*_pkt_open.h` of the amdgpu driver, `sdma_registers.h` of ROCr.
//! Header: opcode in bits 7:0, sub-opcode in bits 15:8.

use super::{Cx, Effect, Trouble, error, rect};
use crate::queue::Engine;
use crate::queue::atomic::Atomic;
use crate::queue::ring::{compare, long};

/// Words from which the length of a packet can be told.
pub const HEAD: u32 = 4;

const NOP: u32 = 0;
const COPY: u32 = 1;
const WRITE: u32 = 2;
const INDIRECT: u32 = 4;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
const POLL_REGMEM: u32 = 8;
const ATOMIC: u32 = 10;
const CONST_FILL: u32 = 11;
const TIMESTAMP: u32 = 13;
const GCR: u32 = 17;

/// Retries of POLL_REGMEM that never end.
const FOREVER: u32 = 0xfff;

const COPY_LINEAR: u32 = 0;
const COPY_RECT: u32 = 4;

/// Words of the packet that begins with `head`; `None` if more of it is needed to say. `generation` is that of the GPU's target.
pub fn length(head: &[u32], generation: u8) -> Result<Option<u32>, Trouble> {
    let Some(&header) = head.first() else {
        return Ok(None);
    };
    let sub = header >> 8 & 0xff;
    Ok(Some(match (header & 0xff, sub) {
        (NOP, 0) => 1 + (header >> 16 & 0x3fff),
        // BROADCAST would have a second destination.
        (COPY, COPY_LINEAR) if header >> 27 & 1 == 0 => 7,
        (COPY, COPY_RECT) => rect::WORDS,
        (WRITE, 0) => match head.get(3) {
            Some(count) => 4 + (count & 0xf_ffff) + 1,
            None => return Ok(None),
        },
        (INDIRECT, 0) => 6,
        (FENCE, 0) => 4,
        (TRAP, 0) => 2,
        (POLL_REGMEM, 0) => 6,
        (ATOMIC, 0) => 8,
        (CONST_FILL, 0) => 5,
        (TIMESTAMP, 1 | 2) => 3,
        // The sub-opcode of the HSA runtime is 1, the kernel's 0.
        (GCR, 0 | 1) if generation >= 10 => 5,
        (opcode, sub) => {
            return Err(Trouble::packet(
                error::PACKET_FORMAT,
                format!(
                    "an SDMA packet with opcode {opcode}, sub-opcode {sub} ({header:#010x}), which is not implemented"
                ),
            ));
        }
    }))
}

fn wrong(words: &[u32], what: &str) -> Trouble {
    let shown = &words[..words.len().min(16)];
    Trouble::packet(
        error::PACKET_FORMAT,
        format!("an SDMA packet: {what}; its words are {shown:#x?}"),
    )
}

/// Executes a packet, all its words given.
pub fn execute(cx: &mut Cx<'_>, words: &[u32]) -> Result<Effect, Trouble> {
    let header = words.first().copied().unwrap_or(0);
    let sub = header >> 8 & 0xff;
    // Packets are as long as `length` says; the words that are asked for are there.
    let word = |n: usize| words.get(n).copied().unwrap_or(0);
    let address = |n: usize| long(word(n), word(n + 1));
    let packet = |cx: &Cx<'_>, name| cx.platform.packet(Engine::Sdma, name);
    match (header & 0xff, sub) {
        (COPY, COPY_LINEAR) => {
            packet(cx, "COPY_LINEAR");
            // 22 bits on old engines, where the upper ones are zero.
            let bytes = u64::from(word(1) & 0x3fff_ffff) + 1;
            cx.copy(address(5), address(3), bytes)?;
        }
        (COPY, _) => {
            packet(cx, "COPY_LINEAR_RECT");
            rect::copy(cx, words)?;
        }
        (WRITE, _) => {
            packet(cx, "WRITE_LINEAR");
            let to = address(1);
            for (i, &data) in words.iter().skip(4).enumerate() {
                cx.bus.store32(to.wrapping_add(4 * i as u64), data)?;
            }
        }
        (INDIRECT, _) => {
            packet(cx, "INDIRECT");
            return Ok(Effect::Enter {
                address: address(1) & !3,
                left: word(3) & 0xf_ffff,
            });
        }
        (FENCE, _) => {
            packet(cx, "FENCE");
            cx.bus.store32(address(1) & !3, word(3))?;
        }
        (TRAP, _) => {
            packet(cx, "TRAP");
            cx.platform.interrupt(word(1) & 0xfff_ffff);
        }
        (POLL_REGMEM, _) => {
            packet(cx, "POLL_REGMEM");
            return poll(cx, words);
        }
        (ATOMIC, _) => {
            packet(cx, "ATOMIC");
            let number = header >> 25;
            let atomic = Atomic::from_number(number)
                .ok_or_else(|| wrong(words, &format!("atomic operation {number}")))?;
            let done = atomic.apply(&mut cx.bus, address(1), address(3), address(5))?;
            // LOOP: again until the comparison is satisfied.
            if header >> 16 & 1 == 1 && !done.matched {
                return Ok(Effect::Wait);
            }
        }
        (CONST_FILL, _) => {
            packet(cx, "CONST_FILL");
            let count = u64::from(word(4) & 0x3fff_ffff);
            let data = word(3);
            let (pattern, bytes) = match header >> 30 {
                0 => ((data & 0xff) * 0x0101_0101, count + 1),
                1 => ((data & 0xffff) * 0x0001_0001, (count & !1) + 2),
                2 => (data, (count & !3) + 4),
                _ => return Err(wrong(words, "a fill of units of 8 bytes")),
            };
            cx.fill(address(1), pattern, bytes)?;
        }
        (TIMESTAMP, _) => {
            packet(cx, "TIMESTAMP");
            let now = cx.platform.clock();
            // The engine has no bits 4:0 in the address; those that it has must not be lost.
            cx.bus.store64(address(1) & !7, now)?;
        }
        (GCR, _) => packet(cx, "GCR"),
        // NOPs: nothing to do, and too many to count.
        _ => {}
    }
    Ok(Effect::Next)
}

fn poll(cx: &mut Cx<'_>, words: &[u32]) -> Result<Effect, Trouble> {
    let word = |n: usize| words.get(n).copied().unwrap_or(0);
    let header = word(0);
    // A flush of the host data path has nothing to do here. It is asked for by its bit, or (by the HSA runtime) by
    // polling register 0 with function 0, which is always true.
    if header >> 26 & 1 == 1 || header >> 28 == 0 && word(1) == 0 {
        return Ok(Effect::Next);
    }
    if header >> 31 == 0 {
        return Err(wrong(words, "it polls a register, and there are none"));
    }
    let function = header >> 28 & 7;
    let value = cx.bus.load32(long(word(1) & !3, word(2)))?;
    match compare(function, value & word(4), word(3)) {
        Some(true) => Ok(Effect::Next),
        Some(false) => Ok(match word(5) >> 16 & 0xfff {
            FOREVER => Effect::Wait,
            tries => Effect::Retry(tries),
        }),
        None => Err(wrong(words, &format!("function {function}"))),
    }
}
