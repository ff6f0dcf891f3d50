//! Waves with matrix instructions on helper threads: what a wave leaves behind is what it leaves without them.

mod common;

use std::sync::Arc;

use common::Memory;
use rocjitsu_exec::code::{CodeCache, CodeView};
use rocjitsu_exec::helpers::{Helpers, Issuer, Policy};
use rocjitsu_exec::jit::Options;
use rocjitsu_exec::memory::MemoryPort;
use rocjitsu_exec::run::{Stop, run};
use rocjitsu_exec::wave::{Cx, Group, Unit, Waiting, Wave};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x10_0000;
const TARGET: Target = Target::Gfx942;
const END: u32 = 0xbf81_0000;
/// global_load_dword v40, v[42:43], off.
const LOAD: [u32; 2] = [0xdc50_8000, 0x287f_002a];

/// v_mfma_f32_16x16x16_f16 with D in place of C.
fn mfma(d: u32, a: u32, b: u32) -> [u32; 2] {
    [
        0xd3cd_0000 | d,
        (256 + a) | (256 + b) << 9 | (256 + d) << 18,
    ]
}

/// A pool without its threads, which the tests start.
struct Pool(Arc<Helpers>, Vec<std::thread::JoinHandle<()>>);

impl Pool {
    fn new(count: usize) -> Pool {
        let helpers = Arc::new(Helpers::new(Policy::Always));
        let start = |_| {
            helpers.expect_one();
            let helpers = helpers.clone();
            std::thread::spawn(move || helpers.serve())
        };
        let threads = (0..count).map(start).collect();
        Pool(helpers, threads)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.close();
        for thread in self.1.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How a wave ended, its registers, and how many instructions others did.
fn outcome(
    code: &[u32],
    cache: &CodeCache,
    pool: Option<&Pool>,
    backend: Backend,
) -> (Stop, Vec<Vec<u32>>, u64) {
    let memory = Memory::new(BASE, 1 << 16);
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.put(BASE, &bytes);
    let mut unit = Unit::new(MemoryPort::new(&memory), backend, TARGET);
    cache.revalidate(&mut unit.memory);
    unit.issuer = pool.map(|pool| Box::new(Issuer::new(&pool.0).expect("a desk")));
    if let Some(issuer) = &mut unit.issuer {
        issuer.allow(true);
    }
    let mut wave = Wave::new(64);
    wave.set_exec(u64::MAX);
    // Halves between 1 and 2, and addresses that are none.
    for register in (0..12).chain(40..44) {
        for (lane, word) in wave
            .v
            .write(register, &mut unit.pool)
            .iter_mut()
            .enumerate()
        {
            let bits = (register * 64 + lane as u32).wrapping_mul(0x9e37_79b9);
            *word = 0x3c00_3c00 | bits & 0x03ff_03ff;
        }
    }
    let group = Group::default();
    let mut view = CodeView::new(cache);
    let mut stop = Stop::Waits;
    // Several times, so that it is compiled.
    for _ in 0..60 {
        wave.pc = BASE;
        wave.waiting = Waiting::No;
        let mut cx = Cx {
            wave: &mut wave,
            group: &group,
            unit: &mut unit,
        };
        stop = run(&mut cx, &mut view, 1000, &mut Default::default());
    }
    let registers = (0..64).map(|r| wave.v.read(r).to_vec()).collect();
    let helped = unit.issuer.as_ref().map_or(0, |issuer| issuer.helped());
    (stop, registers, helped)
}

/// Programs of which no result may depend on who executes what.
fn programs() -> Vec<(&'static str, Vec<u32>)> {
    let four = [
        mfma(16, 0, 2),
        mfma(20, 0, 4),
        mfma(24, 2, 6),
        mfma(28, 4, 8),
    ]
    .concat();
    let between = [&mfma(16, 0, 2)[..], &[0x7e60_0300 | 5], &mfma(20, 0, 4)].concat();
    // The wave leaves in the middle of a window.
    let faults = [&mfma(16, 0, 2)[..], &LOAD, &mfma(20, 0, 4)].concat();
    let list = [("four", four), ("between", between), ("faults", faults)];
    list.map(|(name, code)| (name, [code, vec![END]].concat()))
        .into()
}

fn cache(backend: Backend, helpers: bool) -> CodeCache {
    let mut cache = CodeCache::new(TARGET, backend, Options::default());
    cache.set_helpers(helpers.then_some(Policy::Always));
    cache
}

#[test]
fn registers_are_the_same_whoever_executes() {
    for backend in Backend::supported() {
        for (name, code) in programs() {
            let (stop, want, _) = outcome(&code, &cache(backend, false), None, backend);
            let fault = name == "faults";
            assert_eq!(stop == Stop::Fault, fault, "{name} on {backend}");
            for count in [0, 1, 2] {
                let pool = Pool::new(count);
                let cache = cache(backend, true);
                let (got_stop, got, helped) = outcome(&code, &cache, Some(&pool), backend);
                assert_eq!(got_stop, stop, "{name} on {backend}");
                assert!(got == want, "{name} on {backend} with {count} helpers");
                assert_eq!(
                    helped > 0,
                    count > 0,
                    "{name} on {backend}, {count}: {helped}"
                );
            }
        }
    }
}

/// A worker that gives nothing away executes code with windows by itself.
#[test]
fn without_a_desk_the_wave_does_all() {
    for backend in Backend::supported() {
        for (name, code) in programs() {
            let want = outcome(&code, &cache(backend, false), None, backend);
            let got = outcome(&code, &cache(backend, true), None, backend);
            assert!(got == want, "{name} on {backend}");
        }
    }
}

/// Windows go with the code that they were found in.
#[test]
fn other_code_at_the_same_address_has_other_windows() {
    let backend = Backend::best();
    let pool = Pool::new(1);
    let cache = cache(backend, true);
    let end = vec![END];
    let window = [mfma(16, 0, 2), mfma(20, 0, 4)].concat();
    let chain = [mfma(16, 0, 2), mfma(16, 0, 4)].concat();
    for (body, any) in [(&window, true), (&chain, false), (&window, true)] {
        let code = [&body[..], &end].concat();
        let plain = self::cache(backend, false);
        let (_, want, _) = outcome(&code, &plain, None, backend);
        let (_, got, helped) = outcome(&code, &cache, Some(&pool), backend);
        assert!(got == want);
        assert_eq!(helped > 0, any);
    }
}

/// Desks are given back, and whoever finds none goes on without.
#[test]
fn desks_are_used_again() {
    let pool = Pool::new(0);
    for _ in 0..2 {
        let all: Vec<_> = std::iter::from_fn(|| Issuer::new(&pool.0)).collect();
        assert_eq!(all.len(), 16);
    }
}
