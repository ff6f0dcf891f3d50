//! Sequences of lane operations, compiled and interpreted: `cargo +nightly fuzz run compile`.
//! The first bytes choose target, wave size, float mode, EXEC and register contents; eight bytes make an instruction.
#![no_main]

#[path = "../../crates/exec/tests/sequences/mod.rs"]
mod sequences;

use libfuzzer_sys::fuzz_target;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::Target;
use sequences::{Start, check, encode, exec};

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
    };
    let shapes = body.chunks_exact(8).take(100).map(|b| {
        (b[0], u16::from_le_bytes([b[1], b[2]]), [b[3], b[4], b[5], b[6]], b[7])
    });
    let code: Vec<Vec<u8>> = shapes.filter_map(|shape| encode(target, &start, shape)).collect();
    check(target, &start, &code);
});
