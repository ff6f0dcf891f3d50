//! Bytes as the ring of a queue: `cargo +nightly fuzz run queues`.
//! The first byte chooses the target and the kind of queue, the next two the doorbell; the rest is the ring.
#![no_main]

#[path = "../bodies/queues.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
