//! Program control: branches, modes, hardware registers, barriers, messages, on every executable target.

mod common;

use common::asm::{Asm, LITERAL, hwreg, int};
use common::{Bench, Memory};
use rocjitsu_exec::barrier;
use rocjitsu_exec::code::{CodeCache, CodeView};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::run::{Stop, run};
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::{INDEXING, VSKIP, Waiting, Wave, mode, scalar};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x10_0000;

fn bench(target: Target, memory: &Memory) -> Bench<'_> {
    Bench::new(target, target.default_wave(), Backend::Scalar, memory)
}

/// The name that the target has of several.
fn either<'n>(asm: Asm, names: &[&'n str]) -> &'n str {
    names
        .iter()
        .find(|n| asm.has(n))
        .unwrap_or_else(|| panic!("{}: none of {names:?}", asm.0))
}

/// Runs a program from [`BASE`] on `bench` until it ends.
fn program(bench: &mut Bench<'_>, memory: &Memory, code: &[Vec<u8>]) {
    memory.put(BASE, &code.concat());
    let cache = CodeCache::new(
        bench.unit.target,
        Backend::Scalar,
        rocjitsu_exec::jit::Options::OFF,
    );
    let mut view = CodeView::new(&cache);
    bench.wave.pc = BASE;
    let mut counts = Default::default();
    for _ in 0..1000 {
        let stop = run(&mut bench.cx(), &mut view, 1000, &mut counts);
        assert_ne!(stop, Stop::Fault, "{:?}", bench.fault());
        if bench.wave.waiting == Waiting::Ended {
            return;
        }
        bench.wave.waiting = Waiting::No;
    }
    panic!("the program does not end");
}

#[test]
fn loops_and_calls() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let add = either(asm, &["s_addk_i32", "s_addk_co_i32"]);
        let call = either(asm, &["s_call_b64", "s_call_i64"]);
        let set = either(asm, &["s_setpc_b64", "s_set_pc_i64"]);
        let swap = either(asm, &["s_swappc_b64", "s_swap_pc_i64"]);
        let get = either(asm, &["s_getpc_b64", "s_get_pc_i64"]);
        program(
            &mut bench,
            &memory,
            &[
                asm.sop1("s_mov_b32", 0, int(10)),
                asm.sop1("s_mov_b32", 1, int(0)),
                // 2: s1 += 3; s0 -= 1; again while s0 > 0
                asm.sopk(add, 1, 3),
                asm.sopk(add, 0, -1),
                asm.sopc("s_cmp_gt_i32", 0, int(0)),
                asm.sopp("s_cbranch_scc1", -4),
                // 6: call 11
                asm.sopk(call, 4, 4),
                // 7: s[6:7] = address of 8; s[6:7] += 20 - 4 (word 12); swap
                asm.sop1(get, 6, 0),
                asm.sop2(either(asm, &["s_add_u32", "s_add_co_u32"]), 6, 6, int(16)),
                asm.sop1(swap, 8, 6),
                asm.sopp("s_endpgm", 0),
                // 11: return from the call
                asm.sop1(set, 0, 4),
                // 12: return from the swap
                asm.sop1(set, 0, 8),
            ],
        );
        assert_eq!(bench.wave.s[1], 30, "{target}");
        assert_eq!(bench.wave.s64(4), BASE + 28);
        assert_eq!(bench.wave.s64(8), BASE + 40);
    }
}

#[test]
fn branches_on_masks_look_at_the_lanes_of_the_wave() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        // Only lanes that a wave of 32 does not have.
        bench.wave.set_s64(scalar::VCC, 1 << 40);
        bench.wave.set_s64(scalar::EXEC, 1 << 40);
        let wide = target.default_wave() == 64;
        for (name, taken) in [
            ("s_cbranch_vccz", !wide),
            ("s_cbranch_vccnz", wide),
            ("s_cbranch_execz", !wide),
            ("s_cbranch_execnz", wide),
            ("s_cbranch_scc0", true),
            ("s_branch", true),
        ] {
            let flow = bench.step(&asm.sopp(name, -2), BASE).unwrap();
            let want = if taken {
                (Flow::Jump, BASE - 4)
            } else {
                (Flow::Next, BASE + 4)
            };
            assert_eq!((flow, bench.wave.pc), want, "{target} {name}");
        }
        if target.generation() < 12 {
            assert_eq!(
                bench.step(&asm.sopp("s_cbranch_cdbgsys", -2), BASE),
                Ok(Flow::Next)
            );
        } else if target == Target::Gfx1250 {
            bench.wave.set_s64(4, (-8i64) as u64);
            assert_eq!(
                bench.step(&asm.sop1("s_add_pc_i64", 0, 4), BASE),
                Ok(Flow::Jump)
            );
            assert_eq!(bench.wave.pc, BASE - 4);
        }
    }
}

#[test]
fn vgpr_banks_hold_across_blocks() {
    let memory = Memory::new(BASE, 4096);
    let asm = Asm(Target::Gfx1250);
    let mut bench = bench(Target::Gfx1250, &memory);
    // v_mov_b32_e32 v1, s0
    let mov = |value: u32| 0x7e00_0200u32 | 1 << 17 | value;
    let word = |w: u32| w.to_le_bytes().to_vec();
    program(
        &mut bench,
        &memory,
        &[
            word(mov(int(1))),
            // Destination bank 2, source 0 bank 1.
            asm.sopp("s_set_vgpr_msb", 2 << 6 | 1),
            word(mov(int(2))),
            asm.sopp("s_branch", 0),
            word(mov(int(3))),
            asm.sopp("s_set_vgpr_msb", 1 << 6),
            word(mov(int(4))),
            asm.sop1("s_mov_b32", 3, int(0)),
            asm.sopk("s_getreg_b32", 4, hwreg(1, 0, 32)),
            // An immediate sets the banks with its bits 19:12, whatever field it goes to: destination bank 3.
            asm.setreg(1, 0, 4, 3 << 12),
            word(mov(int(5))),
            asm.sopp("s_set_vgpr_msb", 0),
            word(mov(int(6))),
            asm.sopp("s_endpgm", 0),
        ],
    );
    let lane = |r: u32| bench.wave.v.read(r)[0];
    assert_eq!([lane(1), lane(257), lane(513), lane(769)], [6, 4, 3, 5]);
    // MODE as the program saw it: destination bank 1 in bits 13:12.
    assert_eq!(bench.wave.s[4] & 0xff_f000, 1 << 12);
}

#[test]
fn a_register_writes_vgpr_banks_only_under_the_mask() {
    let memory = Memory::new(BASE, 4096);
    let asm = Asm(Target::Gfx1250);
    let mut bench = bench(Target::Gfx1250, &memory);
    bench.next(&asm.sopp("s_set_vgpr_msb", 0b10_01_00_11));
    assert_eq!(bench.wave.decode_state & 0xff, 0b10_01_00_11);
    bench.wave.s[4] = 1;
    bench.next(&asm.sopk("s_setreg_b32", 4, hwreg(1, 0, 4)));
    assert_eq!(bench.wave.decode_state & 0xff, 0b10_01_00_11);
    // MODE[15:14] is the bank of source 0.
    bench.next(&asm.sopk("s_setreg_b32", 4, hwreg(1, 14, 2)));
    assert_eq!(bench.wave.decode_state & 0xff, 0b10_01_00_01);
    bench.next(&asm.setreg(1, 0, 4, 0));
    assert_eq!(bench.wave.decode_state & 0xff, 0);
}

#[test]
fn indexing_mode_is_part_of_the_state() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE.into_iter().filter(|t| t.is_cdna()) {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        bench.wave.s[scalar::M0] = 0xffff_ffff;
        bench.wave.s[2] = 0x1234;
        // s_set_gpr_idx_on s2, gpr_idx(SRC0,DST)
        assert_eq!(
            bench.step(&asm.sopc("s_set_gpr_idx_on", 2, 0b1001), BASE),
            Ok(Flow::Next)
        );
        assert_eq!(bench.wave.s[scalar::M0], 0xffff_9f34);
        let state = rocjitsu_exec::lower::State::of(&bench.wave);
        assert_eq!((state.indexed(), state.indexing()), (0b1001, true));
        assert!(bench.wave.mode & mode::GPR_IDX_EN != 0);
        // While the mode is on, a write to M0 changes what the next instruction reads.
        assert!(
            bench
                .record(&asm.sop1("s_mov_b32", 124, int(0)), BASE)
                .unwrap()
                .ends_block
        );
        assert!(
            !bench
                .record(&asm.sop1("s_mov_b32", 4, int(0)), BASE)
                .unwrap()
                .ends_block
        );
        bench.next(&asm.sopp("s_set_gpr_idx_mode", 0b0100));
        bench.next(&asm.sop1("s_set_gpr_idx_idx", 0, int(7)));
        assert_eq!(bench.wave.s[scalar::M0], 0xffff_4f07);
        bench.next(&asm.sopp("s_set_gpr_idx_off", 0));
        assert_eq!(
            (
                bench.wave.decode_state & INDEXING,
                bench.wave.mode & mode::GPR_IDX_EN
            ),
            (0, 0)
        );
        // The same through MODE.
        bench.next(&asm.setreg(1, 27, 1, 1));
        assert_eq!(bench.wave.decode_state & INDEXING, INDEXING);
        bench.next(&asm.setreg(1, 28, 1, 1));
        assert_eq!(bench.wave.decode_state & VSKIP, VSKIP);
        bench.next(&asm.setreg(1, 28, 1, 0));
        assert_eq!(bench.wave.decode_state & VSKIP, 0);
    }
}

#[test]
fn mode_fields() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let code = asm.setreg(1, 4, 2, 0);
        assert!(bench.record(&code, BASE).unwrap().ends_block);
        bench.next(&code);
        assert_eq!(bench.wave.mode & 0xff, 0xc0, "{target}: f32 denormals only");
        bench.wave.s[4] = 0b0110;
        bench.next(&asm.sopk("s_setreg_b32", 4, hwreg(1, 0, 4)));
        bench.next(&asm.sopk("s_getreg_b32", 5, hwreg(1, 0, 8)));
        assert_eq!(bench.wave.s[5], 0xc6, "{target}");
        if target.generation() >= 11 {
            bench.next(&asm.sopp("s_denorm_mode", 0xf));
            bench.next(&asm.sopp("s_round_mode", 0));
            assert_eq!(bench.wave.mode & 0xff, 0xf0);
        }
    }
}

#[test]
fn hardware_registers() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let generation = target.generation();
        bench.wave.index = 6;
        bench.group.linear = 3;
        bench.group.barriers[0].update(false, |b| b.members = 8);
        bench.wave.scc = true;
        bench.wave.scratch = 0x7_1234_5678;
        bench.wave.scratch_size = 64;
        let mut get = |register, offset, size| {
            assert_eq!(
                bench.step(
                    &asm.sopk("s_getreg_b32", 4, hwreg(register, offset, size)),
                    BASE
                ),
                Ok(Flow::Next)
            );
            bench.wave.s[4]
        };
        // STATUS: VALID, IN_WG, not EXECZ; SCC where it is.
        assert_eq!(get(2, 16, 1), 1);
        assert_eq!(get(2, 11, 1), 1);
        assert_eq!(get(2, 9, 1), 0);
        assert_eq!(
            if generation < 12 {
                get(2, 0, 1)
            } else {
                get(4, 9, 1)
            },
            1,
            "{target}"
        );
        // LDS_ALLOC: 64 KiB in units of 64 words.
        assert_eq!(get(6, 12, 9), 256);
        match generation {
            9 => {
                assert_eq!(get(4, 4, 2), 2, "SIMD of wave 6");
                assert_eq!(get(15, 0, 32), 1 << 16 | 2);
                assert_eq!(get(3, 0, 32), 0);
            }
            11 => {
                assert_eq!((get(20, 0, 32), get(21, 0, 32)), (0x1234_5678, 7));
                assert_eq!(get(15, 0, 32), 1 << 16 | 2);
                assert!(get(29, 0, 32) < 1 << 20);
            }
            _ => {
                assert_eq!((get(20, 0, 32), get(21, 0, 32)), (0x1234_5678, 7));
                assert_eq!(get(23, 8, 2), 2, "SIMD of wave 6");
                assert_eq!(get(2, 29, 1), 0, "a wave of 32");
            }
        }
        // Written and read back where a program may; others stay.
        let writable = if generation < 12 { 3 } else { 18 };
        bench.next(&asm.setreg(writable, 0, 9, 0x1ff));
        bench.next(&asm.setreg(writable, 4, 2, 0));
        assert_eq!(bench.wave.hwreg[writable as usize], 0x1cf);
        bench.next(&asm.setreg(2, 0, 32, 0));
        // A register that does not exist is refused.
        assert_eq!(
            bench.step(&asm.sopk("s_getreg_b32", 4, hwreg(60, 0, 32)), BASE),
            Ok(Flow::Fault)
        );
        assert!(matches!(
            bench.fault().unwrap().cause,
            Cause::Unsupported { .. }
        ));
    }
}

#[test]
fn clocks_advance() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let realtime = if target.is_cdna() {
            asm.smem("s_memrealtime", "", 4, 0, 0, 0)
        } else {
            asm.sop1("s_sendmsg_rtn_b64", 4, 0x83)
        };
        let mut last = 0;
        for _ in 0..3 {
            assert_eq!(bench.step(&realtime, BASE), Ok(Flow::Next), "{target}");
            assert!(bench.wave.s64(4) > last, "{target}");
            last = bench.wave.s64(4);
            std::thread::sleep(std::time::Duration::from_micros(1));
        }
        if target == Target::Gfx1250 {
            bench.next(&asm.sop1("s_get_shader_cycles_u64", 4, 0));
            assert!(bench.wave.s64(4) > 0);
        }
    }
}

#[test]
fn sleeps_messages_traps() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        assert_eq!(bench.step(&asm.sopp("s_sleep", 0), BASE), Ok(Flow::Next));
        assert_eq!(bench.step(&asm.sopp("s_sleep", 5), BASE), Ok(Flow::Wait));
        assert_eq!(bench.wave.waiting, Waiting::Turn);
        if target.generation() == 12 {
            bench.wave.s[4] = 0x80;
            assert_eq!(
                bench.step(&asm.sop1("s_sleep_var", 0, 4), BASE),
                Ok(Flow::Next)
            );
        }
        bench.wave.s[scalar::M0] = 0xff00_0042;
        assert_eq!(bench.step(&asm.sopp("s_sendmsg", 1), BASE), Ok(Flow::Wait));
        assert_eq!(bench.wave.interrupts, [0x42]);
        if target.generation() >= 11 {
            assert_eq!(
                bench.step(&asm.sopp("s_sendmsg", 3), BASE),
                Ok(Flow::Next),
                "DEALLOC_VGPRS"
            );
            bench.wave.doorbell = 17;
            assert_eq!(
                bench.step(&asm.sop1("s_sendmsg_rtn_b32", 4, 0x80), BASE),
                Ok(Flow::Next)
            );
            assert_eq!(bench.wave.s[4], 17);
        }
        assert_eq!(bench.step(&asm.sopp("s_sendmsg", 4), BASE), Ok(Flow::Fault));
        assert_eq!(
            bench.step(&asm.sopp("s_trap", 3), BASE),
            Ok(Flow::Next),
            "llvm.debugtrap"
        );
        assert_eq!(
            bench.step(&asm.sopp("s_trap", 2), BASE),
            Ok(Flow::Fault),
            "llvm.trap"
        );
        assert_eq!(bench.fault().unwrap().cause, Cause::Trap { id: 2 });
        let text = bench.fault().unwrap().cause.to_string();
        assert!(
            text.starts_with("s_trap 2: the program ended itself"),
            "{text}"
        );
        assert_eq!(bench.step(&asm.sopp("s_sethalt", 0), BASE), Ok(Flow::Next));
        assert_eq!(bench.step(&asm.sopp("s_sethalt", 1), BASE), Ok(Flow::Fault));
        if target.generation() >= 11 {
            assert_eq!(
                bench.step(&asm.sopp("s_code_end", 0), BASE),
                Ok(Flow::Fault)
            );
        }
    }
}

/// Code that overwrites itself and says so sees the new instruction.
#[test]
fn invalidated_code_is_decoded_again() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let code = [
            asm.sop1("s_mov_b32", 4, int(1)),
            asm.sopp("s_icache_inv", 0),
            asm.sopp("s_branch", -3),
        ];
        memory.put(BASE, &code.concat());
        let cache = CodeCache::new(target, Backend::Scalar, rocjitsu_exec::jit::Options::OFF);
        let mut view = CodeView::new(&cache);
        bench.wave.pc = BASE;
        let mut counts = Default::default();
        assert_eq!(
            run(&mut bench.cx(), &mut view, 10, &mut counts),
            Stop::Waits
        );
        assert_eq!(bench.wave.s[4], 1);
        memory.put(BASE, &asm.sop1("s_mov_b32", 4, int(2)));
        assert_eq!(
            run(&mut bench.cx(), &mut view, 10, &mut counts),
            Stop::Waits
        );
        assert_eq!(bench.wave.s[4], 2, "{target}");
    }
}

#[test]
fn forks_run_both_paths() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE.into_iter().filter(|t| t.is_cdna()) {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        bench.wave.s[20] = 0xffff_0fff;
        bench.wave.s[21] = 0;
        bench.wave.set_s64(scalar::EXEC, 0xffff_ffff);
        let or = |to: u32| asm.sop2("s_or_b64", to, to, 126);
        program(
            &mut bench,
            &memory,
            &[
                // s[20:21] selects the lanes that jump to word 4.
                asm.sopk("s_cbranch_i_fork", 20, 3),
                or(30),
                asm.sopp("s_branch", 2),
                asm.sopp("s_nop", 0),
                or(32),
                asm.sop1("s_mov_b32", 22, int(0)),
                asm.sop1("s_cbranch_join", 0, 22),
                or(34),
                asm.sopp("s_endpgm", 0),
            ],
        );
        // The smaller set (those that fall through) runs first, then at the join the other one.
        assert_eq!(bench.wave.s64(30), 0xf000, "{target}");
        assert_eq!(bench.wave.s64(32), 0xffff_0fff);
        assert_eq!(bench.wave.mode >> 29, 0);
    }
}

#[test]
fn barriers_of_a_workgroup() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let split = target.generation() >= 12;
        let code: Vec<Vec<u8>> = if split {
            vec![
                asm.sop1("s_barrier_signal", 0, int(-1)),
                asm.sopp("s_barrier_wait", -1),
            ]
        } else {
            vec![asm.sopp("s_barrier", 0)]
        };
        // Alone in the workgroup: nothing to wait for.
        for c in &code {
            assert_eq!(bench.step(c, BASE), Ok(Flow::Next), "{target}");
        }
        bench.group.barriers[0].update(false, |b| b.members = 2);
        let mut other = Wave::new(target.default_wave());
        for _ in 0..3 {
            let last = code.iter().map(|c| bench.step(c, BASE).unwrap()).last();
            assert_eq!(last, Some(Flow::Wait), "{target}");
            assert!(!barrier::ready(&bench.wave, &bench.group));
            std::mem::swap(&mut bench.wave, &mut other);
            let last = code.iter().map(|c| bench.step(c, BASE).unwrap()).last();
            assert_eq!(last, Some(Flow::Next), "{target}");
            assert!(barrier::ready(&other, &bench.group));
            other.waiting = Waiting::No;
        }
        if split {
            let first = asm.sop1("s_barrier_signal_isfirst", 0, int(-1));
            bench.next(&first);
            assert!(bench.wave.scc);
            bench.next(&asm.sop1("s_get_barrier_state", 4, int(-1)));
            assert_eq!(bench.wave.s[4] & 0xff_ffff, 1 | 2 << 4 | 1 << 16);
            bench.next(&first);
            assert!(!bench.wave.scc);
            // Trap barriers and the cluster's of a wave in no cluster are ignored.
            for number in [-2, -3, -4] {
                bench.next(&asm.sop1("s_barrier_signal", 0, int(number)));
                assert_eq!(
                    bench.step(&asm.sopp("s_barrier_wait", number), BASE),
                    Ok(Flow::Next),
                    "{target} {number}"
                );
            }
        }
    }
}

#[test]
fn named_barriers() {
    let memory = Memory::new(BASE, 4096);
    let asm = Asm(Target::Gfx1250);
    let mut bench = bench(Target::Gfx1250, &memory);
    bench.group.barriers[0].update(false, |b| b.members = 4);
    let m0 = 125;
    let mut go = |m0_value: u32, code: Vec<u8>| {
        bench.wave.s[scalar::M0] = m0_value;
        let flow = bench.step(&code, BASE).unwrap();
        (flow, bench.wave.scc, bench.wave.s[4])
    };
    // Barrier 3 for two waves; M0: members in 22:16, number in 4:0.
    assert_eq!(
        go(2 << 16 | 3, asm.sop1("s_barrier_init", 0, m0)).0,
        Flow::Next
    );
    assert_eq!(
        go(0, asm.sop1("s_get_barrier_state", 4, int(3))).2 & 0xff_ffff,
        1 | 2 << 4
    );
    assert_eq!(
        go(0, asm.sopp("s_barrier_wait", 1)).0,
        Flow::Next,
        "no barrier joined"
    );
    assert_eq!(go(0, asm.sop1("s_barrier_join", 0, int(3))).0, Flow::Next);
    assert_eq!(go(3, asm.sop1("s_barrier_signal", 0, m0)).0, Flow::Next);
    assert_eq!(
        go(0, asm.sop1("s_get_barrier_state", 4, int(3))).2 & 0xff_ffff,
        1 | 2 << 4 | 1 << 16
    );
    assert_eq!(go(0, asm.sop1("s_barrier_signal", 0, int(3))).0, Flow::Next);
    assert_eq!(go(0, asm.sopp("s_barrier_wait", 1)).0, Flow::Next);
    assert_eq!(go(0, asm.sopp("s_barrier_wait", 1)).0, Flow::Wait);
    assert!(!go(0, asm.sopp("s_barrier_leave", 0)).1);
    // The barrier of a cluster of several workgroups.
    bench.wave.hwreg[28] = 1 << 6;
    assert_eq!(
        bench.step(&asm.sop1("s_barrier_signal", 0, int(-3)), BASE),
        Ok(Flow::Next)
    );
    // A barrier named by a register other than M0 does not exist.
    assert_eq!(
        bench
            .step(&asm.sop1("s_barrier_signal", 0, LITERAL), BASE)
            .unwrap_or(Flow::Fault),
        Flow::Fault
    );
}
