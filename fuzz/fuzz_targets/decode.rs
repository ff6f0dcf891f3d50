//! Bytes to instruction to text, for every target: `cargo +nightly fuzz run decode`.
//! The first byte chooses target and feature set; the rest is code.
#![no_main]

#[path = "../bodies/decode.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
