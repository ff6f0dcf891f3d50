//! Removes one barrier, wait or nop at a time from kernels of the corpus and counts how many of the mutants are caught.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rocjitsu_cli::launch::Launch;
use rocjitsu_isa::{Flag, Inst, Name, Op, RegFile, RegRange, Target, decode};
use rocjitsu_observe::{Events, Family, Outcome, Plugin, Plugins, State, Step};
use rocjitsu_plugins::waited;

use super::rig::{Run, Watching, described, descriptions};
use super::seeded::{code, launch_with};

/// `s_nop 0` on every target.
const NOP: u32 = 0xbf80_0000;

/// What is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Barrier,
    Wait,
    /// `s_wait_asynccnt`, `s_wait_tensorcnt`.
    Copy,
    /// `s_wait_xcnt`.
    Translation,
    /// `s_nop`, `v_nop`.
    Nop,
    /// `s_waitcnt_depctr`, `s_wait_alu`.
    Alu,
}

impl Kind {
    fn of(inst: &Inst) -> Option<Kind> {
        match inst.op() {
            Op::s_barrier | Op::s_barrier_wait => Some(Kind::Barrier),
            Op::s_wait_asynccnt | Op::s_wait_tensorcnt => Some(Kind::Copy),
            Op::s_wait_xcnt => Some(Kind::Translation),
            Op::s_nop | Op::v_nop => Some(Kind::Nop),
            Op::s_waitcnt_depctr | Op::s_wait_alu => Some(Kind::Alu),
            _ => (!waited(inst).is_empty()).then_some(Kind::Wait),
        }
    }
}

/// Something that can be removed: the bytes there, and those of a program without it.
struct Place {
    kind: Kind,
    offset: u64,
    without: Vec<u8>,
}

/// What the kernel's waves execute that can be removed.
fn places(launch: &Launch) -> Vec<Place> {
    let run = Run::new(launch);
    let watching = Watching::new(&["coverage:missed"]);
    run.go(launch, &watching.plugins, 2).expect("runs");
    let missed = watching.records(0)[0]["missed"].to_string();
    let target = launch.code.target();
    let set = target.execution_set(launch.kernel.descriptor.wave_size);
    let mut found = Vec::new();
    let mut at = run.placed.entry_address;
    let read = |at: u64| {
        let mut bytes = [0; 16];
        run.memory.read(at, &mut bytes).ok()?;
        Some((decode(target, set, &bytes).ok()?, bytes))
    };
    while let Some((inst, bytes)) = read(at) {
        let next = at + inst.len() as u64;
        let executed = !missed.contains(&format!("{at:#x}\""));
        if let (Some(kind), true) = (Kind::of(&inst), executed) {
            let without = match (kind, read(next)) {
                // The next instruction comes first: a nop in place of a nop would be one.
                (Kind::Nop, Some((other, code))) => {
                    let moves =
                        other.row().has_flag(Flag::isBranch) || other.op() == Op::s_getpc_b64;
                    (!moves).then(|| [&code[..other.len()], &bytes[..inst.len()]].concat())
                }
                _ => Some(NOP.to_le_bytes().to_vec()),
            };
            found.extend(without.map(|without| Place {
                kind,
                offset: at - run.placed.code.bias,
                without,
            }));
        }
        if inst.op() == Op::s_endpgm {
            break;
        }
        at = next;
    }
    found
}

/// Why an `s_wait_alu` on gfx1201 that nothing misses is not missed, by what it stands before. LLVM waits for any SGPR of which
/// vector arithmetic reads the pair anywhere in the kernel, whatever the wave has done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Needless {
    /// No SGPR that the wave has written is read before the next wait.
    Nothing,
    /// Vector arithmetic had not read the pair before it was written: there is no old value to be read.
    Fresh,
    /// A scalar instruction reads what vector arithmetic has written, here or before, for which hardware waits.
    Interlocked,
    /// Memory instructions stand between, before which everything is written.
    Memory,
    /// Ten scalar instructions stand between.
    Settled,
    /// An earlier wait on the way that the wave took has told of it.
    Told,
    /// None of these.
    Hazard,
}

/// How an SGPR was written last.
#[derive(Clone, Copy)]
struct Written {
    by_vector: bool,
    /// Whether vector arithmetic had read the pair.
    was_read: bool,
    scalars: u32,
    memory: u32,
    /// A scalar instruction has waited for vector arithmetic since.
    waited: bool,
    /// An `s_wait_alu` has told that it is done.
    told: bool,
}

#[derive(Default)]
struct Wave {
    read: BTreeSet<u16>,
    written: BTreeMap<u16, Written>,
    scalars: u32,
    memory: u32,
    behind: bool,
}

/// Watches what waves do around an address.
struct Around {
    at: u64,
    waves: BTreeMap<(u64, u32), Wave>,
    worst: Arc<Mutex<Needless>>,
}

impl Plugin for Around {
    fn events(&self) -> Events {
        Events::BEFORE
    }

    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        let wave = self
            .waves
            .entry((step.wave.group, step.wave.index))
            .or_default();
        let (instruction, inst) = (step.instruction, &step.instruction.inst);
        if instruction.pc == self.at {
            wave.behind = true;
            return Ok(());
        }
        if inst.op() == Op::s_wait_alu {
            wave.behind = false;
            let field = inst.field(Name::simm16).unwrap_or(u32::MAX);
            for (register, written) in &mut wave.written {
                // sa_sdst, va_vcc, va_sdst.
                let (at, mask) = match (written.by_vector, *register >= 106) {
                    (false, _) => (0, 1),
                    (true, true) => (1, 1),
                    (true, false) => (9, 7),
                };
                written.told |= field >> at & mask == 0;
            }
            return Ok(());
        }
        let (name, family) = (instruction.mnemonic(), instruction.family);
        let vector = matches!(family, Family::Vector | Family::Matrix);
        let scalar_memory = name.starts_with("s_load") || name.starts_with("s_buffer");
        if family == Family::Global || scalar_memory {
            wave.memory += 1;
            return Ok(());
        }
        let effects = inst.effects(step.wave.lanes);
        let sgprs = |ranges: &[RegRange]| -> Vec<u16> {
            let own = ranges.iter().filter(|range| range.file == RegFile::Sgpr);
            own.flat_map(|range| range.first..range.first + range.count)
                .filter(|register| *register < 108)
                .collect()
        };
        for register in sgprs(&effects.reads) {
            let class = match wave.written.get(&register) {
                None => Needless::Nothing,
                Some(written) if !written.was_read => Needless::Fresh,
                Some(written) if written.by_vector && (!vector || written.waited) => {
                    Needless::Interlocked
                }
                Some(written) if wave.memory > written.memory => Needless::Memory,
                Some(written) if !written.by_vector && wave.scalars - written.scalars >= 10 => {
                    Needless::Settled
                }
                Some(written) if written.told => Needless::Told,
                Some(_) => Needless::Hazard,
            };
            if wave.behind {
                let mut worst = self.worst.lock().expect("not poisoned");
                *worst = class.max(*worst);
            }
            if vector {
                wave.read.extend([register & !1, register | 1]);
            } else if wave.read.contains(&register) {
                let same = |other: u16| (other >= 106) == (register >= 106);
                let written = wave.written.iter_mut().filter(|(r, _)| same(**r));
                written.for_each(|(_, written)| written.waited = written.by_vector);
            }
        }
        wave.scalars += u32::from(family == Family::Scalar);
        for register in sgprs(&effects.writes) {
            let written = Written {
                by_vector: vector,
                was_read: wave.read.contains(&register),
                scalars: wave.scalars,
                memory: wave.memory,
                waited: false,
                told: false,
            };
            wave.written.insert(register, written);
        }
        Ok(())
    }
}

/// What an `s_wait_alu` that nothing misses stands before.
fn needless(launch: &Launch, place: &Place) -> Needless {
    let run = Run::new(launch);
    let worst = Arc::new(Mutex::new(Needless::Nothing));
    let around = Around {
        at: place.offset + run.placed.code.bias,
        waves: BTreeMap::new(),
        worst: worst.clone(),
    };
    let mut plugins = Plugins::new();
    plugins.add("around", Box::new(around));
    run.go(launch, &plugins, 1).expect("runs");
    *worst.lock().expect("not poisoned")
}

/// Mutants, how many of them are caught, and for how many `data_hazard` names a wait.
type Score = BTreeMap<Kind, [usize; 3]>;

/// Launches of the corpus.
fn corpus(names: &[&str], target: Target) -> Vec<Launch> {
    let named = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().display().to_string();
        names.contains(&name.as_str())
    };
    let paths = descriptions(target).into_iter().filter(named);
    paths.map(|path| described(&path, target)).collect()
}

fn mutate(launches: &[Launch], target: Target, kinds: &[Kind]) -> Score {
    mutate_and(launches, target, kinds, &mut |_, _| {})
}

/// The same; `uncaught` is told of those that are not caught.
fn mutate_and(
    launches: &[Launch],
    target: Target,
    kinds: &[Kind],
    uncaught: &mut dyn FnMut(&Launch, &Place),
) -> Score {
    let mut score = Score::new();
    for launch in launches {
        for place in places(launch) {
            if !kinds.contains(&place.kind) {
                continue;
            }
            let run = Run::new(launch);
            let at = place.offset + run.placed.code.bias;
            run.memory.write(at, &place.without).expect("code");
            let watching = Watching::new(&["race", "data_hazard"]);
            // A mutant may also fail.
            let failed = run.go(launch, &watching.plugins, 1).is_err();
            let caught = failed || (0..2).any(|i| watching.records(i).len() > 1);
            if !caught {
                uncaught(launch, &place);
                if std::env::var_os("MUTANTS").is_some() {
                    println!(
                        "uncaught {target} {} {:#x} {:?}",
                        launch.name, place.offset, place.kind
                    );
                }
            }
            let mended = watching.records(1).iter().any(|r| r["wait"].is_string());
            let [all, found, waits] = score.entry(place.kind).or_default();
            *all += 1;
            *found += usize::from(caught);
            *waits += usize::from(mended);
        }
    }
    println!("{target}: {score:?}");
    score
}

const KERNELS: [&str; 5] = [
    "hip_lds_reduce",
    "hip_tiled_matmul",
    "softmax_f32",
    "matmul_f16",
    "transpose_f32",
];

/// Barriers and waits that compilers insert are needed, most of them: a barrier at the end of a loop may be there for
/// data that nobody touches any more, and a wait before a barrier for loads whose values were waited for already.
#[test]
fn most_mutants_are_caught() {
    for target in [
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx950,
        Target::Gfx1100,
        Target::Gfx1201,
        Target::Gfx1250,
    ] {
        let launches = corpus(&KERNELS, target);
        let score = mutate(&launches, target, &[Kind::Barrier, Kind::Wait]);
        let [barriers, barriers_caught, _] = score[&Kind::Barrier];
        let [waits, waits_caught, _] = score[&Kind::Wait];
        assert!(barriers >= 5 && waits >= 30, "{score:?}");
        assert!(2 * barriers_caught > barriers, "{score:?}");
        assert!(4 * waits_caught > 3 * waits, "{score:?}");
    }
}

const WITH_COPIES: [&str; 5] = [
    "attention_f16",
    "gluon_tensor_mover_f16",
    "matmul_f16",
    "matmul_tensor_f16",
    "mx_matmul_f4",
];

/// Waits for asynchronous and tensor copies: `data_hazard` names the wait that is missing. Some stand before a second wait, or
/// where nobody touches the bytes any more.
#[test]
fn mutants_without_a_wait_for_copies_are_told_with_it() {
    let score = mutate(
        &corpus(&WITH_COPIES, Target::Gfx1250),
        Target::Gfx1250,
        &[Kind::Copy],
    );
    let [all, caught, mended] = score[&Kind::Copy];
    assert!(all >= 10 && caught >= mended, "{score:?}");
    assert!(2 * mended >= all, "{score:?}");
}

const WITH_NOPS: [&str; 9] = [
    "hip_lds_reduce",
    "hip_matrix_cores",
    "hip_cross_lane",
    "hip_lds_atomics",
    "hip_flat_pointers",
    "hip_ieee_ops",
    "softmax_f32",
    "transpose_f32",
    "rms_norm_bf16",
];

/// Nops and waits for arithmetic and translations. Some stand there for a path that no wave takes, for alignment (gfx1100), for carries,
/// which need none by the manuals (gfx942), or for SGPRs whose writer lies far back (gfx1201).
#[test]
fn mutants_without_a_nop_are_caught() {
    for (target, kinds, least) in [
        (Target::Gfx90a, &[Kind::Nop][..], 80),
        (Target::Gfx942, &[Kind::Nop][..], 70),
        (Target::Gfx950, &[Kind::Nop][..], 70),
        (Target::Gfx1100, &[Kind::Alu][..], 80),
        (Target::Gfx1201, &[Kind::Alu][..], 40),
        (Target::Gfx1250, &[Kind::Nop, Kind::Translation][..], 30),
    ] {
        let mut classes: BTreeMap<Needless, usize> = BTreeMap::new();
        let score = mutate_and(
            &corpus(&WITH_NOPS, target),
            target,
            kinds,
            &mut |launch, place| {
                if target == Target::Gfx1201 {
                    let class = needless(launch, place);
                    if std::env::var_os("MUTANTS").is_some() {
                        println!("{} {:#x}: {class:?}", launch.name, place.offset);
                    }
                    *classes.entry(class).or_default() += 1;
                }
            },
        );
        println!("not caught: {classes:?}");
        assert!(!classes.contains_key(&Needless::Hazard), "{classes:?}");
        let [all, found] = score
            .values()
            .fold([0, 0], |[a, b], [x, y, _]| [a + x, b + y]);
        assert!(
            all >= 5 && 100 * found >= least * all,
            "{target}: {score:?}"
        );
    }
}

/// Kernels in the expert scheduling mode: nothing is reported of them as they are, and the waits that they need because of the
/// mode are missed. LLVM waits for some registers that a wait for results has told of already, and for the SGPRs of gfx1201.
#[test]
fn mutants_in_the_expert_scheduling_mode_are_caught() {
    for target in [Target::Gfx1201, Target::Gfx1250] {
        let code = code("expert", target);
        let buffers = ["buf:32768", "buf:5120:u32:seed=7", "buf:256"];
        let names = code.kernels().iter().map(|kernel| kernel.name.clone());
        let launches: Vec<Launch> = names
            .map(|name| launch_with(&code, &name, buffers))
            .collect();
        for launch in &launches {
            let watching = Watching::new(&["data_hazard"]);
            Run::new(launch)
                .go(launch, &watching.plugins, 1)
                .expect("runs");
            let records = watching.records(0);
            assert_eq!(records.len(), 1, "{target} {}: {records:#?}", launch.name);
        }
        let score = mutate(&launches, target, &[Kind::Alu]);
        let [all, found, _] = score[&Kind::Alu];
        assert!(all >= 15 && 10 * found >= 6 * all, "{target}: {score:?}");
    }
}
