//! Shared by the tests of semantics: a wave on a bench, and the cases of `data/semantics`.
//! Each test binary uses its own part of it.
#![allow(dead_code)]

pub mod asm;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use rocjitsu_exec::barrier;
use rocjitsu_exec::code::{CodeCache, CodeView};
use rocjitsu_exec::error::Fault;
use rocjitsu_exec::jit::{Options, Report};
use rocjitsu_exec::lower::{Lowering, State, lower};
use rocjitsu_exec::memory::{AddressSpace, Extent, FaultKind, MemoryPort};
use rocjitsu_exec::record::{Flow, Record};
use rocjitsu_exec::run::{Counts, Stop, run};
use rocjitsu_exec::wave::{Cx, Group, Unit, Wave};
use rocjitsu_isa::{Target, decode};
use rocjitsu_lanes::Backend;
use serde::Deserialize;

/// One writable extent.
pub struct Memory {
    base: u64,
    host: *mut u8,
    size: usize,
}

// SAFETY: the tests of one `Memory` run on one thread.
unsafe impl Sync for Memory {}

impl Memory {
    /// `size` zero bytes at GPU address `base`.
    pub fn new(base: u64, size: usize) -> Memory {
        Memory {
            base,
            host: Box::into_raw(vec![0u8; size].into_boxed_slice()).cast(),
            size,
        }
    }

    /// Stores bytes at a GPU address.
    pub fn put(&self, address: u64, bytes: &[u8]) {
        let at = (address - self.base) as usize;
        assert!(at + bytes.len() <= self.size);
        // SAFETY: inside the allocation, as just checked.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.host.add(at), bytes.len()) };
    }

    /// The word at a GPU address.
    pub fn word(&self, address: u64) -> u32 {
        let at = (address - self.base) as usize;
        assert!(at + 4 <= self.size);
        // SAFETY: inside the allocation, as just checked.
        unsafe { self.host.add(at).cast::<u32>().read_unaligned() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` of a slice of this length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.host, self.size)) });
    }
}

// SAFETY: the one extent lives as long as `self`.
unsafe impl AddressSpace for Memory {
    fn generation(&self) -> u64 {
        0
    }
    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        let end = self.base + self.size as u64;
        if !(self.base..end).contains(&address) {
            return Err(FaultKind::Unmapped);
        }
        Ok(Extent {
            start: self.base,
            end,
            host: self.host,
            writable: true,
        })
    }
    fn extent_near(&self, _: u64) -> Option<Extent> {
        self.find(self.base).ok()
    }
}

/// A wave, its workgroup and its worker.
pub struct Bench<'a> {
    pub wave: Wave,
    pub group: Group,
    pub unit: Unit<'a>,
}

impl<'a> Bench<'a> {
    /// A wave of `lanes` lanes, all lanes active, alone in its workgroup with 64 KiB of LDS.
    pub fn new(target: Target, lanes: u32, backend: Backend, memory: &'a Memory) -> Bench<'a> {
        let mut wave = Wave::new(lanes);
        wave.set_exec(u64::MAX);
        wave.mode = 0x3f0;
        let mut group = Group {
            live: 1,
            ..Group::default()
        };
        group.lds.restart(64 << 10);
        barrier::set_members(&group, barrier::WORKGROUP, 1);
        let unit = Unit::new(MemoryPort::new(memory), backend, target);
        Bench { wave, group, unit }
    }

    /// The bytes of the workgroup's LDS.
    pub fn lds(&self) -> &[u8] {
        // SAFETY: instructions execute in methods that take `&mut self`.
        unsafe { self.group.lds.bytes() }
    }

    /// What an instruction reaches.
    pub fn cx(&mut self) -> Cx<'_, 'a> {
        Cx {
            wave: &mut self.wave,
            group: &self.group,
            unit: &mut self.unit,
        }
    }

    /// The record of the instruction at the start of `bytes`.
    pub fn record(&self, bytes: &[u8], pc: u64) -> Result<Record, String> {
        let target = self.unit.target;
        let inst = decode(target, target.execution_set(self.wave.lanes), bytes)
            .map_err(|e| e.to_string())?;
        Ok(lower(
            inst,
            pc,
            &mut Lowering::new(target, self.unit.backend, State::of(&self.wave)),
        ))
    }

    /// Executes the instruction at the start of `bytes` as if it stood at `pc`; `wave.pc` is then the
    /// address of the next one. Instructions whose record says `Fast` go through their handler.
    pub fn step(&mut self, bytes: &[u8], pc: u64) -> Result<Flow, String> {
        let record = self.record(bytes, pc)?;
        self.wave.pc = record.next_pc;
        Ok((record.run)(&mut self.cx(), &record))
    }

    /// Executes one instruction given as words, and expects it to go on.
    pub fn run(&mut self, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let flow = self.step(&bytes, 0x1000).unwrap();
        assert!(
            matches!(flow, Flow::Next | Flow::Jump),
            "{words:x?}: {flow:?} {:?}",
            self.fault()
        );
    }

    /// Executes one instruction given as bytes, and expects it to go on.
    pub fn next(&mut self, bytes: &[u8]) {
        assert_eq!(
            self.step(bytes, 0x1000),
            Ok(Flow::Next),
            "{bytes:x?}: {:?}",
            self.fault()
        );
    }

    /// Executes instructions in a row, which `memory` has room for, as compiled code. Returns what was compiled.
    pub fn run_compiled(&mut self, memory: &Memory, bytes: &[u8]) -> Report {
        let target = self.unit.target;
        let end: u32 = if target.generation() == 9 {
            0xbf81_0000
        } else {
            0xbfb0_0000
        };
        let code = [bytes, &end.to_le_bytes()].concat();
        memory.put(memory.base, &code);
        let options = Options {
            enabled: true,
            threshold: 0,
        };
        let cache = CodeCache::new(target, self.unit.backend, options);
        let mut view = CodeView::new(&cache);
        self.wave.pc = memory.base;
        let stop = run(&mut self.cx(), &mut view, 1000, &mut Counts::default());
        assert!(stop == Stop::Waits, "{stop:?}: {:?}", self.fault());
        cache.compiled().expect("a compiler")
    }

    /// Executes instructions in a row, without branches. Returns how many were executed and the last flow.
    pub fn run_all(&mut self, bytes: &[u8]) -> Result<Flow, String> {
        let mut at = 0;
        while at < bytes.len() {
            match self.step(&bytes[at..], 0x1000 + at as u64)? {
                Flow::Next => at = (self.wave.pc - 0x1000) as usize,
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// What the last instruction complained of.
    pub fn fault(&self) -> Option<&Fault> {
        self.unit.fault.as_deref()
    }
}

/// A number in hex.
pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// Bytes in hex.
pub fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

/// Words in hex, 8 digits each.
pub fn hex_words(text: &str) -> Vec<u32> {
    (0..text.len())
        .step_by(8)
        .map(|i| u32::from_str_radix(&text[i..i + 8], 16).unwrap())
        .collect()
}

/// How to compare (`cmp` in data/semantics/README.md).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    pub k: String,
    pub n: Option<f64>,
    pub abs: Option<f64>,
}

/// What a case expects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Out {
    pub v: BTreeMap<u32, String>,
    pub a: BTreeMap<u32, String>,
    pub s: BTreeMap<usize, String>,
    pub vcc: Option<String>,
    pub exec: Option<String>,
    pub scc: Option<u32>,
    pub m0: Option<String>,
    pub lds: Option<BTreeMap<String, String>>,
}

/// A case of `data/semantics`: one instruction, registers before and after.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub m: String,
    pub f: String,
    pub hex: String,
    pub asm: String,
    pub exec: String,
    pub vcc: String,
    pub m0: String,
    pub scc: u32,
    #[serde(default)]
    pub v: BTreeMap<u32, usize>,
    #[serde(default)]
    pub a: BTreeMap<u32, usize>,
    #[serde(default)]
    pub s: BTreeMap<usize, String>,
    pub out: Out,
    pub cmp: Compare,
    pub denorm: Option<String>,
    pub skip: Option<String>,
    pub masks: Option<String>,
    pub half: Option<String>,
    #[serde(default)]
    pub nocheck: Vec<String>,
    pub trust: Option<String>,
    pub ver: Option<u32>,
    pub lds: Option<u32>,
}

/// A short program with the results of a chip.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareCase {
    pub t: String,
    pub source: String,
    pub hex: String,
    pub lanes: u32,
    pub n: u32,
    pub cmp: String,
    pub mode: String,
    pub out: HardwareOut,
}

/// What the chip left behind, as far as the test looks at it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HardwareOut {
    pub v: BTreeMap<u32, BTreeMap<usize, String>>,
    pub s: BTreeMap<usize, String>,
    pub vcc: Option<String>,
    pub exec: Option<String>,
    pub scc: Option<u32>,
}

/// A file of `data/semantics`.
pub struct Semantics {
    pub target: Target,
    pub wave: u32,
    pub mode: u32,
    pub planes: Vec<Vec<u32>>,
    pub lds: Vec<u32>,
    pub cases: Vec<Case>,
    pub hardware: Vec<HardwareCase>,
}

#[derive(Deserialize)]
struct Header {
    target: String,
    wave: u32,
    mode: String,
}

#[derive(Deserialize)]
struct Plane {
    plane: usize,
    x: String,
}

/// A file below the repository's `data/`.
pub fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(path)
}

/// Text of an xz file below `data/`.
pub fn read_xz(path: &str) -> String {
    let file = std::fs::File::open(data(path)).unwrap_or_else(|e| panic!("data/{path}: {e}"));
    let mut text = String::new();
    liblzma::read::XzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// The cases of `data/semantics/NAME.jsonl.xz` whose instruction has a format that `wanted` accepts.
pub fn semantics(name: &str, wanted: impl Fn(&str) -> bool) -> Semantics {
    let text = read_xz(&format!("semantics/{name}.jsonl.xz"));
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut all = Semantics {
        target: header.target.parse().unwrap(),
        wave: header.wave,
        mode: hex(&header.mode) as u32,
        planes: Vec::new(),
        lds: Vec::new(),
        cases: Vec::new(),
        hardware: Vec::new(),
    };
    for line in lines {
        if line.starts_with("{\"plane\"") {
            let plane: Plane = serde_json::from_str(line).unwrap();
            assert_eq!(plane.plane, all.planes.len());
            all.planes.push(hex_words(&plane.x));
        } else if let Some(rest) = line.strip_prefix("{\"lds\":\"") {
            all.lds = hex_words(rest.trim_end_matches("\"}"));
        } else if line.starts_with("{\"t\"") {
            all.hardware.push(serde_json::from_str(line).unwrap());
        } else {
            let format = line
                .split("\"f\":\"")
                .nth(1)
                .and_then(|r| r.split('"').next())
                .unwrap_or("");
            if wanted(format) {
                all.cases
                    .push(serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")));
            }
        }
    }
    all
}

impl Semantics {
    /// Whether the case's bytes are the same instruction on a relative of the file's target.
    pub fn is_same_on(&self, case: &Case, target: Target) -> bool {
        let bytes = hex_bytes(&case.hex);
        let text = |target: Target| {
            let set = target.execution_set(self.wave);
            decode(target, set, &bytes).map(|inst| inst.text(set))
        };
        target == self.target
            || matches!((text(self.target), text(target)), (Ok(own), Ok(other)) if own == other)
    }

    /// A wave with the state before the case; `target` may be another chip of the file's family.
    pub fn prepare<'a>(
        &self,
        case: &Case,
        target: Target,
        backend: Backend,
        memory: &'a Memory,
    ) -> Bench<'a> {
        use rocjitsu_exec::target::TargetFacts;
        use rocjitsu_exec::wave::scalar;
        let mut bench = Bench::new(target, self.wave, backend, memory);
        let (wave, pool) = (&mut bench.wave, &mut bench.unit.pool);
        wave.mode = self.mode;
        for (&n, value) in &case.s {
            wave.s[n] = hex(value) as u32;
        }
        wave.set_s64(scalar::EXEC, hex(&case.exec));
        wave.set_s64(scalar::VCC, hex(&case.vcc));
        wave.s[scalar::M0] = hex(&case.m0) as u32;
        wave.scc = case.scc != 0;
        for (&r, &plane) in &case.v {
            wave.v.write(r, pool).copy_from_slice(&self.planes[plane]);
        }
        for (&r, &plane) in &case.a {
            wave.v
                .write(r + target.acc_base(), pool)
                .copy_from_slice(&self.planes[plane]);
        }
        if case.lds == Some(1) {
            for (to, word) in bench
                .group
                .lds
                .bytes_mut()
                .chunks_exact_mut(4)
                .zip(&self.lds)
            {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
        bench
    }

    /// A wave with the state before every hardware case.
    pub fn prepare_hardware<'a>(
        &self,
        case: &HardwareCase,
        target: Target,
        backend: Backend,
        memory: &'a Memory,
    ) -> Bench<'a> {
        let mut bench = Bench::new(target, self.wave, backend, memory);
        bench.wave.mode = hex(&case.mode) as u32;
        bench.wave.set_exec(((1u128 << case.lanes) - 1) as u64);
        for (lane, word) in bench
            .wave
            .v
            .write(255, &mut bench.unit.pool)
            .iter_mut()
            .enumerate()
        {
            *word = lane as u32;
        }
        bench
    }
}
