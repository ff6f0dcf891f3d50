//! A matrix instruction as a wave executes it: in a loop that is compiled, four of them with accumulators of their own.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rocjitsu_exec::code::{CodeCache, CodeView};
use rocjitsu_exec::helpers::{Helpers, Issuer};
use rocjitsu_exec::jit::Options;
use rocjitsu_exec::memory::{AddressSpace, Extent, FaultKind, MemoryPort};
use rocjitsu_exec::record::Class;
use rocjitsu_exec::run::{Counts, Stop, run};
use rocjitsu_exec::wave::{Cx, Group, Unit, Wave};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_lanes::matrix::MatrixOp;

/// Where the code lies.
const BASE: u64 = 0x1_0000;
/// Turns of the loop before accumulators begin anew.
const TURNS: u64 = 32;
/// Instructions of a turn.
const EACH: u32 = 4;
/// First registers of A, B and the accumulators of the first instruction, each with room for the most that there are.
const PLACES: [u32; 3] = [0, 16, 32];
/// Registers from those of one instruction to those of the next.
const NEXT: u32 = 64;

/// Code as memory.
struct Code(Vec<u8>);

// SAFETY: nobody writes the bytes, which live as long as the value.
unsafe impl AddressSpace for Code {
    fn generation(&self) -> u64 {
        0
    }

    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        let end = BASE + self.0.len() as u64;
        if !(BASE..end).contains(&address) {
            return Err(FaultKind::Unmapped);
        }
        Ok(Extent {
            start: BASE,
            end,
            host: self.0.as_ptr().cast_mut(),
            writable: false,
        })
    }

    fn extent_near(&self, _: u64) -> Option<Extent> {
        None
    }
}

/// What the instructions of a turn have in common.
#[derive(Clone, Copy, PartialEq)]
pub enum Common {
    /// A and B, which are decoded for all of them.
    Inputs,
    /// Nothing.
    Nothing,
    /// Accumulators: each goes on with the sums of the one before it, as the steps along K of a kernel do.
    Sums,
}

/// The loop, counted down in s0.
fn code(target: Target, name: &str, common: Common) -> Result<Code> {
    let row = target.table().rows().iter();
    let row = row
        .filter(|row| row.bits == 64)
        .find(|row| row.op.name() == name)
        .with_context(|| format!("no {name} of 64 bits"))?;
    let fixed = (row.value | row.fill) as u64;
    let instruction = |i: u32| {
        let of = |shared| if common == shared { 0 } else { i * NEXT };
        let (inputs, sums) = (of(Common::Inputs), of(Common::Sums));
        let [a, b, d] = [inputs, inputs, sums];
        let [a, b, d] = [PLACES[0] + a, PLACES[1] + b, PLACES[2] + d].map(u64::from);
        fixed | d | (256 + a) << 32 | (256 + b) << 41 | (256 + d) << 50
    };
    let gfx9 = target.generation() == 9;
    let (branch, end) = if gfx9 {
        (0xbf85_0000, 0xbf81_0000u32)
    } else {
        (0xbfa2_0000, 0xbfb0_0000)
    };
    let back = (2 * EACH as u16 + 3).wrapping_neg();
    // s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm
    let words = [0x8080_8100, 0xbf07_8000, branch | u32::from(back), end];
    let body = (0..EACH).flat_map(|i| instruction(i).to_le_bytes());
    Ok(Code(
        body.chain(words.into_iter().flat_map(u32::to_le_bytes))
            .collect(),
    ))
}

/// Best nanoseconds of an instruction of `target`; `data` gives the words of A, B (0, 1) and D by register.
///
/// # Errors
/// It does not execute.
pub fn time(
    target: Target,
    name: &str,
    op: &MatrixOp,
    backend: Backend,
    (data, common): ([&[[u32; 64]]; 3], Common),
    repeat: u32,
) -> Result<f64> {
    let looped = Looped {
        target,
        name,
        op,
        backend,
    };
    let (times, _) = looped.times((data, common), repeat, None)?;
    times.first().copied().context("no run")
}

/// A loop.
pub struct Looped<'a> {
    /// Of code for this target.
    pub target: Target,
    /// The instruction's name.
    pub name: &'a str,
    /// And what it computes.
    pub op: &'a MatrixOp,
    /// What computes the lanes.
    pub backend: Backend,
}

impl Looped<'_> {
    /// Nanoseconds of an instruction in each run of the loop, the least first, and the part of the instructions that
    /// `helpers` executed, which are there to take them.
    ///
    /// # Errors
    /// It does not execute.
    pub fn times(
        &self,
        (data, common): ([&[[u32; 64]]; 3], Common),
        repeat: u32,
        helpers: Option<&Arc<Helpers>>,
    ) -> Result<(Vec<f64>, f64)> {
        let &Looped {
            target,
            name,
            op,
            backend,
        } = self;
        let code = code(target, name, common)?;
        let mut wave = Wave::new(op.wave as u32);
        wave.set_exec(u64::MAX);
        wave.mode = 0x3f0;
        let group = Group {
            live: 1,
            ..Group::default()
        };
        let mut unit = Unit::new(MemoryPort::new(&code), backend, target);
        let mut cache = CodeCache::new(target, backend, Options::default());
        cache.set_helpers(helpers.map(|helpers| helpers.policy()));
        unit.issuer = helpers.and_then(Issuer::new).map(Box::new);
        if let Some(issuer) = &mut unit.issuer {
            issuer.allow(true);
        }
        let mut view = CodeView::new(&cache);
        let (mut times, mut executed, mut before) = (Vec::new(), 0, 0);
        // A block is compiled when it is hot.
        for round in 0..200 + 200 * repeat.max(1) {
            for (i, rows) in data.into_iter().enumerate() {
                for copy in 0..EACH {
                    for (register, row) in rows.iter().enumerate() {
                        let at = PLACES[i] + NEXT * copy + register as u32;
                        let lanes = wave.v.write(at, &mut unit.pool);
                        lanes.copy_from_slice(&row[..lanes.len()]);
                    }
                }
            }
            wave.s[0] = u32::MAX;
            wave.pc = BASE;
            let mut counts = Counts::default();
            let mut cx = Cx {
                wave: &mut wave,
                group: &group,
                unit: &mut unit,
            };
            let start = Instant::now();
            let stop = run(
                &mut cx,
                &mut view,
                TURNS * (u64::from(EACH) + 3),
                &mut counts,
            );
            let ns = start.elapsed().as_nanos() as f64;
            if stop != Stop::Quantum {
                bail!("{name} stopped: {:?}", unit.fault);
            }
            if round >= 200 {
                times.push(ns / counts[Class::Matrix as usize] as f64);
                executed += counts[Class::Matrix as usize];
            } else {
                before = unit.issuer.as_ref().map_or(0, |issuer| issuer.helped());
            }
        }
        times.sort_by(f64::total_cmp);
        let helped = unit.issuer.as_ref().map_or(0, |issuer| issuer.helped()) - before;
        Ok((times, helped as f64 / executed as f64))
    }
}
