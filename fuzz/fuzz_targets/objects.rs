//! Bytes as a code object: `cargo +nightly fuzz run objects data/corpus/built` (the folder: files to begin with).
//! Reading ends with kernels or an error that says something; what was read loads, or says why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocjitsu_gpu::code_object::{CodeObject, LoadOptions, bundle};
use rocjitsu_gpu::memory::Memory;

fuzz_target!(|data: &[u8]| {
    match bundle::parts(data) {
        Ok(parts) => {
            for part in parts.unwrap_or_default() {
                let _ = part.target_id();
                read(part.data);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    read(data);
});

/// Reads and loads one file.
fn read(data: &[u8]) {
    let object = match CodeObject::parse(data, &LoadOptions::default()) {
        Ok(object) => object,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for kernel in object.kernels() {
        assert!(object.kernel(&kernel.name).is_ok() || object.kernel(&kernel.symbol).is_ok());
        let _ = object.bytes_at(kernel.entry_address);
    }
    let memory = Memory::new(1 << 24);
    match object.load(&memory, "code") {
        Ok(loaded) => {
            for kernel in object.kernels() {
                let _ = loaded.entry_address(kernel);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
