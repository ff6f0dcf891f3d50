//! Reads `data/isa/isa.*.json.gz` and writes `crates/isa/src/generated/*.rs`.
//! Everything that rows share (types, layouts, operand lists, print programs) is interned.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use serde::Deserialize;

use crate::emit;

/// Targets in the order of `Target::ALL`.
pub const TARGETS: [&str; 9] = [
    "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx1250",
];

/// One `isa.TARGET.json.gz`; keys that the tables do not need are ignored.
#[derive(Deserialize)]
pub struct File {
    pub target: String,
    pub types: BTreeMap<String, Type>,
    pub layouts: Vec<Layout>,
    pub insts: Vec<Inst>,
}

/// An entry of `types`, see `data/isa/README.md`.
#[derive(Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type {
    pub k: String,
    #[serde(default)]
    pub w: u16,
    #[serde(default)]
    pub rc: String,
    #[serde(default)]
    pub files: String,
    #[serde(default)]
    pub align: u8,
    #[serde(default)]
    pub inline: u8,
    #[serde(default)]
    pub lit: u8,
    #[serde(default)]
    pub fmt: String,
    #[serde(default)]
    pub dec: String,
    #[serde(default)]
    pub word: String,
    #[serde(default)]
    pub bit: u8,
    #[serde(default)]
    pub print: String,
    #[serde(default)]
    pub pcrel: u8,
    #[serde(default)]
    pub m: String,
}

/// An entry of `layouts`.
#[derive(Deserialize)]
pub struct Layout {
    pub free: String,
    pub fields: BTreeMap<String, Vec<[u8; 3]>>,
}

/// An entry of `insts`.
#[derive(Deserialize)]
pub struct Inst {
    pub n: String,
    pub m: String,
    pub f: String,
    pub op: u16,
    #[serde(default)]
    pub pre: Option<u16>,
    pub bits: u16,
    pub mask: String,
    pub val: String,
    pub lay: usize,
    pub ops: Vec<[String; 3]>,
    pub print: String,
    pub prio: u8,
    #[serde(default)]
    pub tied: Vec<[String; 2]>,
    #[serde(default)]
    pub defs: Vec<String>,
    #[serde(default)]
    pub uses: Vec<String>,
    #[serde(default)]
    pub fl: Vec<String>,
    #[serde(default)]
    pub fill: String,
    #[serde(default)]
    pub need: BTreeMap<String, Vec<u32>>,
    #[serde(default)]
    pub sets: Option<Vec<String>>,
    #[serde(default)]
    pub alt: u8,
}

/// Regenerates the tables, or checks them.
pub fn run(root: &Path, check: bool) -> Result<()> {
    let mut files = Vec::new();
    for t in TARGETS {
        let path = root.join(format!("data/isa/isa.{t}.json.gz"));
        let raw = fs::File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        let file: File = serde_json::from_reader(std::io::BufReader::new(GzDecoder::new(raw)))
            .with_context(|| format!("reading {}", path.display()))?;
        if file.target != t {
            bail!("{} describes {}", path.display(), file.target);
        }
        files.push(file);
    }
    let out = root.join("crates/isa/src/generated");
    let mut stale = Vec::new();
    for (name, text) in emit::all(&files)? {
        let path = out.join(&name);
        if fs::read_to_string(&path).ok().as_deref() == Some(text.as_str()) {
            continue;
        }
        if check {
            stale.push(name);
        } else {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    if !stale.is_empty() {
        bail!(
            "{} differ from what `cargo xtask isa` would write: {}",
            out.display(),
            stale.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_tables_are_current() {
        super::run(&crate::root(), true).expect("`cargo xtask isa` has nothing to do");
    }
}
