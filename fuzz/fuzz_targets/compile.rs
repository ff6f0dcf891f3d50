//! Sequences of lane operations and scalar instructions, straight or in loops with branches, compiled and interpreted: `cargo +nightly fuzz run compile`.
//! The first bytes choose target, wave size, float mode, EXEC and register contents; eight bytes make an instruction.
#![no_main]

#[path = "../../crates/exec/tests/sequences/mod.rs"]
mod sequences;

use libfuzzer_sys::fuzz_target;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::Target;
use sequences::{Start, check, encode, exec, looped, memory};

fuzz_target!(|data: &[u8]| {
    if data.len() < 20 {
        return;
    }
    let (head, body) = data.split_at(20);
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let target = EXECUTABLE[usize::from(head[0]) % EXECUTABLE.len()];
    let wide = head[1] & 1 != 0 && target != Target::Gfx1250;
    let start = Start {
        lanes: if target.generation() == 9 || wide { 64 } else { 32 },
        mode: u32::from(head[2]) | u32::from(head[3] & 3) << 8,
        exec: exec(head[1] >> 1, word(4)),
        seed: word(12),
        quantum: 1 + u64::from(head[3] >> 2) * 8,
    };
    let shapes = body.chunks_exact(8).take(100).map(|b| {
        (b[0], u16::from_le_bytes([b[1], b[2]]), [b[3], b[4], b[5], b[6]], b[7])
    });
    let mut code: Vec<Vec<u8>> = shapes.filter_map(|shape| encode(target, &start, shape)).collect();
    if head[1] & 0x80 != 0 && !code.is_empty() {
        // The first instructions name the places of branches, too.
        let branches: Vec<(u8, u8, u8)> =
            body.chunks_exact(8).take(6).map(|b| (b[0], b[3], b[7])).collect();
        for b in body.chunks_exact(8).filter(|b| b[7] % 16 == 1) {
            let at = usize::from(b[6]) % code.len();
            code.insert(at, memory(target, (b[4], b[5], b[6])));
        }
        check(target, &start, &looped(target, code, &branches, head[0] & 0x80 != 0));
        return;
    }
    check(target, &start, &code);
});
