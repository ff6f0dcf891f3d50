//! Bytes as a configuration file: `cargo +nightly fuzz run config -- -dict=fuzz/config.dict`.
//! Whatever they are, reading them ends, and an error names the file and says why.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rocjitsu_config::Config;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(text, Path::new("f.json")) {
        Ok(config) => {
            let machine = config.machine().expect("a file that was taken can be built");
            for gpu in &machine.gpus {
                let (area, stack) = gpu.save_area();
                assert!(area > stack && gpu.compute_units.is_multiple_of(gpu.xccs));
            }
        }
        Err(error) => assert!(error.to_string().starts_with("f.json: ")),
    }
});
