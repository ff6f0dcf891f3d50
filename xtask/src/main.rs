//! Development tasks: `cargo xtask isa` regenerates the instruction tables of `crates/isa`
//! from `data/isa`; with `--check` it only says whether they are up to date. `cargo xtask bench` builds what is
//! measured and runs the benchmark suite.

mod bench;
mod emit;
mod isa;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["bench", more @ ..] => bench::run(&root(), more),
        ["isa"] => isa::run(&root(), false),
        ["isa", "--check"] => isa::run(&root(), true),
        _ => {
            bail!("usage: cargo xtask isa [--check] | bench [--quick] [OPTIONS of rocjitsu-bench]")
        }
    }
}
