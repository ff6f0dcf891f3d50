//! Removes one barrier or wait at a time from kernels of the corpus and counts how many of the mutants are caught.

use rocjitsu_cli::launch::Launch;
use rocjitsu_isa::{Op, Target, decode};
use rocjitsu_plugins::waited;

use super::rig::{Run, Watching, described, descriptions};

/// `s_nop 0` on every target.
const NOP: u32 = 0xbf80_0000;

/// Addresses of the barriers and waits that the kernel's waves execute.
fn places(launch: &Launch) -> Vec<(u64, bool)> {
    let run = Run::new(launch);
    let watching = Watching::new(&["coverage:missed"]);
    run.go(launch, &watching.plugins, 2).expect("runs");
    let missed = watching.records(0)[0]["missed"].to_string();
    let target = launch.code.target();
    let set = target.execution_set(launch.kernel.descriptor.wave_size);
    let mut found = Vec::new();
    let mut at = run.placed.entry_address;
    loop {
        let mut bytes = [0; 16];
        if run.memory.read(at, &mut bytes).is_err() {
            return found;
        }
        let Ok(inst) = decode(target, set, &bytes) else {
            return found;
        };
        let barrier = matches!(inst.op(), Op::s_barrier | Op::s_barrier_wait);
        if (barrier || !waited(&inst).is_empty()) && !missed.contains(&format!("{at:#x}\"")) {
            found.push((at - run.placed.code.bias, barrier));
        }
        if inst.op() == Op::s_endpgm {
            return found;
        }
        at += inst.len() as u64;
    }
}

#[derive(Debug, Default)]
struct Score {
    barriers: usize,
    barriers_caught: usize,
    waits: usize,
    waits_caught: usize,
}

fn mutate(names: &[&str], target: Target) -> Score {
    let mut score = Score::default();
    for path in descriptions(target) {
        let name = path.file_stem().unwrap_or_default().display().to_string();
        if !names.contains(&name.as_str()) {
            continue;
        }
        let launch = described(&path, target);
        for (place, barrier) in places(&launch) {
            let run = Run::new(&launch);
            let at = place + run.placed.code.bias;
            let mut old = [0; 8];
            run.memory.read(at, &mut old).expect("code");
            run.memory.write(at, &NOP.to_le_bytes()).expect("code");
            let watching = Watching::new(&["race", "data_hazard"]);
            // A mutant may also fail.
            let failed = run.go(&launch, &watching.plugins, 1).is_err();
            let caught = failed || (0..2).any(|i| watching.records(i).len() > 1);
            if barrier {
                score.barriers += 1;
                score.barriers_caught += usize::from(caught);
            } else {
                score.waits += 1;
                score.waits_caught += usize::from(caught);
            }
        }
    }
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
    for target in [Target::Gfx942, Target::Gfx1201] {
        let score = mutate(&KERNELS, target);
        println!("{target}: {score:?}");
        assert!(score.barriers >= 5 && score.waits >= 30, "{score:?}");
        assert!(2 * score.barriers_caught > score.barriers, "{score:?}");
        assert!(4 * score.waits_caught > 3 * score.waits, "{score:?}");
    }
}
