//! Waves of one workgroup on several threads: the same bytes, the same errors, an end when it is asked for.

mod kernels;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kernels::*;
use rocjitsu_gpu::dispatch::DispatchError;
use rocjitsu_isa::Target;

#[test]
fn results_are_the_same_bytes_on_any_number_of_threads() {
    for (name, target, code) in [
        ("exchange", Target::Gfx90a, EXCHANGE),
        ("ordered", Target::Gfx90a, ORDERED),
        ("commuting", Target::Gfx90a, COMMUTING),
        ("pivots", Target::Gfx90a, PIVOTS),
        ("phases", Target::Gfx90a, PHASES),
        ("spin", Target::Gfx90a, SPIN),
        ("chain", Target::Gfx90a, CHAIN),
        ("split", Target::Gfx1201, SPLIT12),
        ("named", Target::Gfx1250, NAMED1250),
    ] {
        let kernel = Kernel::new(target, code, 1);
        let (want, once) = kernel.outcome(1);
        assert!(want.iter().any(|&b| b != 0), "{name}");
        for threads in [2, 3, 8] {
            for _ in 0..4 {
                let (got, statistics) = kernel.outcome(threads);
                assert!(got == want, "{name} with {threads} threads");
                // How often a wave looks at a flag is nobody's business.
                if !["spin", "chain"].contains(&name) {
                    assert_eq!(statistics.instructions, once.instructions, "{name}");
                }
                assert_eq!(statistics.waves, 8);
            }
        }
    }
}

/// What a wave waits for comes from another one: looking for it until its turn is over would only keep that one from running.
#[test]
fn a_wave_that_only_spins_gives_up_its_turn() {
    // What they execute apart from looking at flags; looks at a flag until the turn is over: 262144 instructions each.
    for (code, work) in [(SPIN, 7 * 4000 * 5 + 200), (CHAIN, 8 * 20)] {
        let kernel = Kernel::new(Target::Gfx90a, code, 1);
        let (_, statistics) = kernel.outcome(1);
        let executed = statistics.instructions.iter().sum::<u64>();
        assert!((work / 2..work + 30_000).contains(&executed), "{executed}");
    }
}

/// As on the hardware, where all waves have loaded long before one has computed what it stores.
#[test]
fn waves_load_from_lds_before_one_of_them_stores_there() {
    let (got, _) = Kernel::new(Target::Gfx90a, PIVOT, 1).outcome(1);
    let words: Vec<_> = got.chunks_exact(4).take(512).collect();
    assert!(words.iter().all(|&word| word == [1, 0, 0, 0]), "{words:?}");
}

/// Without this the other tests could pass on one thread. Threads come when the machine lets them.
#[test]
fn other_threads_do_take_waves() {
    for code in [EXCHANGE, COMMUTING, PIVOTS] {
        let kernel = Kernel::new(Target::Gfx90a, code, 1);
        assert_eq!(kernel.outcome(1).1.lent_turns, 0);
        // A device remembers where it gained nothing.
        let fresh = || Kernel::new(Target::Gfx90a, code, 1);
        let lent = (0..1000).any(|_| fresh().outcome(4).1.lent_turns > 0);
        assert!(lent, "nobody helped in a thousand dispatches");
    }
}

/// The last wave to come to a barrier goes on first.
#[test]
fn the_wave_that_fails_first_is_reported() {
    for threads in [1, 2, 8] {
        for _ in 0..3 {
            let kernel = Kernel::new(Target::Gfx90a, FAULT, 1);
            match kernel.run(threads, None) {
                Err(DispatchError::Stopped { wave, .. }) => {
                    assert_eq!(wave, 7, "{threads} threads")
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_stop_is_heard() {
    for threads in [1, 2, 8] {
        let kernel = Kernel::new(Target::Gfx90a, FOREVER, 1);
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                stop.store(true, Ordering::Relaxed);
            });
            kernel.run(threads, Some(&stop))
        });
        assert!(matches!(result, Err(DispatchError::Stop { .. })));
    }
}

/// The last workgroups of a dispatch and those of dispatches on one device at a time share threads.
#[test]
fn more_workgroups_than_threads_and_several_dispatches_at_once() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 5);
    let (want, _) = kernel.outcome(1);
    std::thread::scope(|scope| {
        for threads in [2, 4] {
            let kernel = &kernel;
            scope.spawn(move || {
                for _ in 0..4 {
                    assert_eq!(kernel.run(threads, None).unwrap().workgroups, 5);
                }
            });
        }
    });
    assert!(kernel.outcome(4).0 == want);
}

/// In a child the pool's threads are not there.
#[test]
fn a_forked_child_runs_alone() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 1);
    let (want, _) = kernel.outcome(2);
    // SAFETY: the child calls nothing that a lock of another test's thread could hold up for ever: if an allocator's lock
    // was held, the parent's wait below tells.
    match unsafe { libc::fork() } {
        0 => {
            let same = kernel.outcome(2).0 == want;
            // SAFETY: ends the child at once, without the handlers of the test harness.
            unsafe { libc::_exit(if same { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is where the result goes.
            let got = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((got, status), (child, 0));
        }
    }
}

/// The floating-point environment is the program's: it comes back as it was, and does not change results.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_control_register_of_the_calling_thread_stays() {
    use std::arch::asm;
    let mxcsr = || {
        let mut word = 0u32;
        // SAFETY: stores a word.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word) };
        word
    };
    let set = |word: u32| {
        // SAFETY: loads a word without reserved bits; only this test's arithmetic depends on it.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word) };
    };
    let kernel = Kernel::new(Target::Gfx90a, FLOATS, 1);
    let (want, _) = kernel.outcome(1);
    let usual = mxcsr();
    // Flush to zero, denormals are zero, rounding towards zero, and a sticky flag.
    for changed in [1 << 15 | 1 << 6, 3 << 13, 1 << 15 | 1 << 6 | 1 << 13 | 1] {
        set(usual | changed);
        let (got, _) = kernel.outcome(1);
        let after = mxcsr();
        set(usual);
        assert!(got == want, "{changed:#x}");
        assert_eq!(after, usual | changed);
    }
}
