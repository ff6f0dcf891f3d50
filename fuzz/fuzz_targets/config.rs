//! Bytes as a configuration file: `cargo +nightly fuzz run config -- -dict=fuzz/config.dict`.
//! Whatever they are, reading them ends, and an error names the file and says why.
#![no_main]

#[path = "../bodies/config.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
