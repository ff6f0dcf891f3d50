//! Dispatches that stop between instructions: where they stop, what is there, and that they go on to the same bytes.

mod kernels;

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::*;
use rocjitsu_exec::wave::{Waiting, scalar};
use rocjitsu_gpu::dispatch::{
    Breakpoint, Options, Outcome, Statistics, Stops, Suspended, Watchpoint, Why,
};
use rocjitsu_isa::Target;
use rocjitsu_observe::{AccessKind, Silent};

const KERNELS: [(&str, Target, &[u32]); 6] = [
    ("exchange", Target::Gfx90a, EXCHANGE),
    ("ordered", Target::Gfx90a, ORDERED),
    ("commuting", Target::Gfx90a, COMMUTING),
    ("spin", Target::Gfx90a, SPIN),
    ("split", Target::Gfx1201, SPLIT12),
    ("named", Target::Gfx1250, NAMED1250),
];

fn options<'a>(threads: usize, stops: &'a Stops<'a>) -> Options<'a> {
    Options {
        threads,
        stops: Some(stops),
        ..Options::default()
    }
}

fn start(kernel: &Kernel, threads: usize, stops: Stops<'_>) -> Outcome {
    let options = options(threads, &stops);
    kernel
        .device
        .start(&kernel.dispatch, options, &Silent)
        .unwrap()
}

fn resume(kernel: &Kernel, from: Suspended, threads: usize, stops: Stops<'_>) -> Outcome {
    let options = options(threads, &stops);
    kernel.device.resume(from, options, &Silent).unwrap()
}

fn suspended(outcome: Outcome) -> (Suspended, Why) {
    match outcome {
        Outcome::Suspended(suspended, why) => (suspended, why),
        Outcome::Done(_) => panic!("it came to its end"),
    }
}

fn done(outcome: Outcome) -> Statistics {
    match outcome {
        Outcome::Done(statistics) => statistics,
        Outcome::Suspended(_, why) => panic!("{why:?}"),
    }
}

fn out(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = vec![0; OUT];
    kernel
        .memory
        .read(kernel.dispatch.kernarg, &mut bytes)
        .unwrap();
    bytes
}

/// What a kernel stores, and what it executes when it could be stopped: then waves that only spin keep their turns.
fn whole(kernel: &Kernel) -> (Vec<u8>, Statistics) {
    let (want, _) = kernel.outcome(1);
    let never = Stops {
        after: Some(u64::MAX),
        ..Stops::default()
    };
    (want, done(start(kernel, 1, never)))
}

/// A sequence of numbers that looks random.
fn scattered(count: u64, below: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(move |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % below)
}

#[test]
fn after_any_number_of_instructions_it_stops_there_and_goes_on_to_the_same_bytes() {
    for (name, target, code) in KERNELS {
        let kernel = Kernel::new(target, code, 3);
        let (want, once) = whole(&kernel);
        let total = once.total();
        for after in scattered(6, total).chain([0, 1, total - 1]) {
            for threads in [1, 4] {
                kernel
                    .memory
                    .write(kernel.dispatch.kernarg, &[0; OUT])
                    .unwrap();
                let stops = Stops {
                    after: Some(after),
                    ..Stops::default()
                };
                let (state, why) = suspended(start(&kernel, 4, stops));
                assert!(matches!(why, Why::Count(_)), "{name}: {why:?}");
                assert_eq!(state.statistics().total(), after, "{name}");
                let at = why.at().unwrap();
                assert_eq!(state.wave((at.workgroup, at.wave)).unwrap().pc, at.pc);
                let end = done(resume(&kernel, state, threads, Stops::default()));
                if name != "spin" {
                    assert_eq!(end.instructions, once.instructions, "{name} at {after}");
                }
                assert_eq!((end.waves, end.workgroups), (once.waves, 3));
                assert!(out(&kernel) == want, "{name} at {after}, {threads} threads");
            }
        }
        let stops = Stops {
            after: Some(total + 1),
            ..Stops::default()
        };
        assert_eq!(done(start(&kernel, 1, stops)).total(), total, "{name}");
    }
}

#[test]
fn it_stops_again_and_again_and_in_the_same_places_each_time() {
    for (name, target, code) in KERNELS {
        let kernel = Kernel::new(target, code, 2);
        let (want, once) = whole(&kernel);
        let step = (once.total() / 40).max(1);
        let mut places = Vec::new();
        for round in 0..2 {
            kernel
                .memory
                .write(kernel.dispatch.kernarg, &[0; OUT])
                .unwrap();
            let mut after = step;
            let stops = |after| Stops {
                after: Some(after),
                ..Stops::default()
            };
            let mut outcome = start(&kernel, 1, stops(after));
            let mut seen = Vec::new();
            while let Outcome::Suspended(state, why) = outcome {
                seen.push(why.at().unwrap());
                after += step;
                outcome = resume(&kernel, state, 1, stops(after));
            }
            // As many as without a stop, a flag's polls included.
            assert_eq!(done(outcome).instructions, once.instructions, "{name}");
            assert!(out(&kernel) == want, "{name}");
            match round {
                0 => places = seen,
                _ => assert_eq!(seen, places, "{name}"),
            }
        }
    }
}

#[test]
fn it_stops_when_asked_on_any_number_of_threads() {
    for (name, target, code) in KERNELS {
        let kernel = Kernel::new(target, code, 5);
        let (want, _) = kernel.outcome(1);
        for threads in [1, 2, 8] {
            for wait in [0, 50, 200, 1000] {
                kernel
                    .memory
                    .write(kernel.dispatch.kernarg, &[0; OUT])
                    .unwrap();
                let asked = AtomicBool::new(wait == 0);
                let stops = Stops {
                    request: Some(&asked),
                    ..Stops::default()
                };
                let outcome = std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(std::time::Duration::from_micros(wait));
                        asked.store(true, Ordering::Release);
                    });
                    start(&kernel, threads, stops)
                });
                let other = if threads == 1 { 3 } else { threads - 1 };
                if let Outcome::Suspended(state, why) = outcome {
                    assert!(matches!(why, Why::Asked), "{name}: {why:?}");
                    done(resume(&kernel, state, other, Stops::default()));
                }
                assert!(out(&kernel) == want, "{name}, {threads} threads");
            }
        }
    }
}

#[test]
fn work_without_end_is_stopped_and_its_registers_are_there() {
    for threads in [1, 2, 8] {
        let kernel = Kernel::new(Target::Gfx90a, FOREVER, 1);
        let asked = AtomicBool::new(true);
        let stops = Stops {
            request: Some(&asked),
            ..Stops::default()
        };
        let (state, _) = suspended(start(&kernel, threads, stops));
        let (mut state, _) = suspended(resume(&kernel, state, threads, stops));
        let who = (0, 3);
        if state.wave(who).is_none() {
            continue; // It was asked before the workgroup began.
        }
        let mut wave = state.wave_mut(who).unwrap();
        assert!(wave.set_scalar(7, 70) && wave.set_scalar(scalar::M0, 5));
        assert!(!wave.set_scalar(scalar::COUNT, 0) && !wave.set_scalar(scalar::NULL, 1));
        wave.vgpr(9).unwrap().fill(90);
        wave.agpr(1).unwrap()[63] = 7;
        assert!(wave.vgpr(512).is_none());
        state.lds_mut(0).unwrap()[100] = 1;
        let (state, _) = suspended(resume(&kernel, state, threads, stops));
        let wave = state.wave(who).unwrap();
        assert_eq!((wave.s[7], wave.s[scalar::M0]), (70, 5));
        assert!(wave.v.read(9).iter().all(|&v| v == 90) && wave.v.read(257)[63] == 7);
        assert_eq!(state.group(0).unwrap().lds()[100], 1);
    }
}

/// `ds_read_b32 v4, v2` of EXCHANGE, and the store.
const READ: u64 = 4 * 22;
const STORE: u64 = 4 * 30;

#[test]
fn breakpoints_are_met_by_every_wave_each_time() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 2);
    let (want, once) = kernel.outcome(1);
    let read = kernel.dispatch.entry + READ;
    let places = [Breakpoint::at(read)];
    let stops = Stops {
        breakpoints: &places,
        ..Stops::default()
    };
    kernel
        .memory
        .write(kernel.dispatch.kernarg, &[0; OUT])
        .unwrap();
    let mut met = std::collections::BTreeMap::new();
    let mut outcome = start(&kernel, 4, stops);
    while let Outcome::Suspended(state, why) = outcome {
        let Why::Breakpoint(at) = why else {
            panic!("{why:?}")
        };
        assert_eq!(at.pc, read);
        *met.entry((at.workgroup, at.wave)).or_insert(0) += 1;
        outcome = resume(&kernel, state, 1, stops);
    }
    assert_eq!(done(outcome).instructions, once.instructions);
    assert!(out(&kernel) == want);
    assert_eq!(met.len(), 16);
    assert!(met.values().all(|&times| times == 24), "{met:?}");
    // One wave of one workgroup only.
    let places = [Breakpoint {
        pc: read,
        workgroup: Some(1),
        wave: Some(5),
    }];
    let stops = Stops {
        breakpoints: &places,
        ..Stops::default()
    };
    let (_, why) = suspended(start(&kernel, 1, stops));
    let at = why.at().unwrap();
    assert_eq!((at.workgroup, at.id, at.wave), (1, [1, 0, 0], 5));
}

#[test]
fn accesses_that_are_watched_stop_behind_the_instruction() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 1);
    let word = kernel.dispatch.kernarg + 4 * 130;
    let places = [
        Watchpoint {
            lds: true,
            start: 4 * 70,
            bytes: 4,
            loads: false,
            stores: true,
            workgroup: None,
        },
        Watchpoint {
            lds: false,
            start: word + 1,
            bytes: 1,
            loads: false,
            stores: true,
            workgroup: None,
        },
    ];
    let stops = Stops {
        watchpoints: &places,
        ..Stops::default()
    };
    let (mut outcome, mut in_lds) = (start(&kernel, 1, stops), 0);
    loop {
        let (state, why) = suspended(outcome);
        let Why::Watchpoint {
            at,
            pc,
            number,
            access,
        } = why
        else {
            panic!("{why:?}")
        };
        assert_eq!(access.kind, AccessKind::Store);
        assert_eq!(at.pc, pc + 8);
        if number == 1 {
            assert_eq!((at.wave, access.lane, access.address), (2, 2, word));
            assert_eq!(pc, kernel.dispatch.entry + STORE);
            let mut stored = [0; 4];
            kernel.memory.read(word, &mut stored).unwrap();
            let register = state.wave((0, 2)).unwrap().v.read(3)[2];
            assert_eq!(u32::from_le_bytes(stored), register);
            break;
        }
        assert_eq!((at.wave, access.lane, access.address), (1, 6, 4 * 70));
        in_lds += 1;
        outcome = resume(&kernel, state, 1, stops);
    }
    assert_eq!(in_lds, 24);
}

#[test]
fn one_wave_steps_and_the_others_stay() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 2);
    let (want, once) = kernel.outcome(1);
    kernel
        .memory
        .write(kernel.dispatch.kernarg, &[0; OUT])
        .unwrap();
    let after = Stops {
        after: Some(0),
        ..Stops::default()
    };
    let (mut state, _) = suspended(start(&kernel, 1, after));
    let others = |state: &Suspended| {
        let waves = state.group(0).unwrap().waves().iter();
        let others = waves.filter(|w| w.index != 3);
        others.map(|w| w.pc).collect::<Vec<_>>()
    };
    let before = others(&state);
    let stops = Stops {
        step: Some((0, 3)),
        ..Stops::default()
    };
    // v_lshlrev_b32, v_add_u32, v_and_b32 with a literal.
    for pc in [4, 8, 16] {
        let (next, why) = suspended(resume(&kernel, state, 1, stops));
        assert!(
            matches!(why, Why::Stepped(at, Waiting::No) if at.pc == kernel.dispatch.entry + pc)
        );
        state = next;
    }
    assert_eq!(others(&state), before);
    // As far as the barrier, where it waits for the others.
    let mut steps = 3;
    loop {
        let (next, why) = suspended(resume(&kernel, state, 1, stops));
        state = next;
        match why {
            Why::Stepped(..) => steps += 1,
            Why::Blocked(at, Waiting::Barrier(0)) => break assert_eq!(at.wave, 3),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(state.statistics().total(), steps);
    assert_eq!(others(&state), before);
    let stops = Stops {
        step: Some((1, 0)),
        ..Stops::default()
    };
    let (state, why) = suspended(resume(&kernel, state, 1, stops));
    assert!(matches!(why, Why::Absent((1, 0))), "{why:?}");
    let end = done(resume(&kernel, state, 4, Stops::default()));
    assert_eq!(end.instructions, once.instructions);
    assert!(out(&kernel) == want);
}

#[test]
fn a_dispatch_can_be_stepped_to_its_end() {
    let kernel = Kernel::new(Target::Gfx90a, FLOATS, 1);
    let (want, once) = kernel.outcome(1);
    kernel
        .memory
        .write(kernel.dispatch.kernarg, &[0; OUT])
        .unwrap();
    let after = Stops {
        after: Some(0),
        ..Stops::default()
    };
    let mut outcome = start(&kernel, 1, after);
    let mut steps = 0;
    while let Outcome::Suspended(state, _) = outcome {
        let mut waves = state.group(0).unwrap().waves().iter();
        let wave = waves.find(|w| w.waiting != Waiting::Ended).unwrap();
        let stops = Stops {
            step: Some((0, wave.index)),
            ..Stops::default()
        };
        outcome = resume(&kernel, state, 1, stops);
        steps += 1;
    }
    assert_eq!(done(outcome).instructions, once.instructions);
    assert_eq!(steps, once.total());
    assert!(out(&kernel) == want);
}

#[test]
fn a_fault_leaves_its_state_and_can_be_mended() {
    let kernel = Kernel::new(Target::Gfx90a, FAULT, 1);
    for threads in [1, 4] {
        let stops = Stops {
            faults: true,
            ..Stops::default()
        };
        let (mut state, mut why) = suspended(start(&kernel, threads, stops));
        let mut faults = 0;
        loop {
            let Why::Fault(Some(at), error) = &why else {
                panic!("{why:?}")
            };
            let text = error.to_string();
            assert!(text.contains("lane 0: not mapped"), "{text}");
            assert_eq!(at.pc, kernel.dispatch.entry + 4 * 27);
            let wave = state.wave((0, at.wave)).unwrap();
            assert_eq!((wave.pc, wave.v.read(4)[0]), (at.pc, 0));
            faults += 1;
            // The address that it should have had.
            let (at, address) = (*at, kernel.dispatch.kernarg);
            let mut wave = state.wave_mut((0, at.wave)).unwrap();
            wave.vgpr(4).unwrap().fill(address as u32);
            wave.vgpr(5).unwrap().fill((address >> 32) as u32);
            match resume(&kernel, state, threads, stops) {
                Outcome::Suspended(next, again) => (state, why) = (next, again),
                Outcome::Done(_) => break,
            }
        }
        assert_eq!(faults, 5);
    }
}

#[test]
fn what_is_suspended_may_go_to_another_thread_or_away() {
    fn sent<T: Send>(_: &T) {}
    let mut kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 4);
    kernel.dispatch.private_segment = 64;
    let used = kernel.memory.used();
    let stops = Stops {
        after: Some(1000),
        ..Stops::default()
    };
    let (state, _) = suspended(start(&kernel, 1, stops));
    sent(&state);
    assert!(kernel.memory.used() > used, "it has scratch");
    assert_ne!(state.groups().next().unwrap().scratch(), 0);
    drop(state);
    assert_eq!(kernel.memory.used(), used);
}
