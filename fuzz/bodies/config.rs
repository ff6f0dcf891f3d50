//! What the fuzz target `config` does with an input; a test of the crate runs the same with inputs of its own.

use std::path::Path;

use rocjitsu_config::Config;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Config::parse(text, Path::new("f.json")) {
        Ok(config) => {
            let machine = config
                .machine()
                .expect("a file that was taken can be built");
            for gpu in &machine.gpus {
                let (area, stack) = gpu.save_area();
                assert!(area > stack && gpu.compute_units.is_multiple_of(gpu.xccs));
            }
        }
        Err(error) => assert!(error.to_string().starts_with("f.json: ")),
    }
}
