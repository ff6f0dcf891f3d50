//! Instructions that no compiler emits and `data/semantics` has no cases of, against the manuals' text.

mod common;

use common::asm::{Asm, int};
use common::{Bench, Memory};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::gws::Wait;
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::{INDEXING, VSKIP, Waiting, mode, scalar};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x1_0000;

fn bench(target: Target, memory: &Memory) -> Bench<'_> {
    let mut bench = Bench::new(target, target.default_wave(), Backend::best(), memory);
    bench.wave.set_exec(u64::MAX);
    bench
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn set(bench: &mut Bench<'_>, register: u32, value: impl Fn(u32) -> u32) {
    let row = bench.wave.v.write(register, &mut bench.unit.pool);
    for (lane, word) in row.iter_mut().enumerate() {
        *word = value(lane as u32);
    }
}

/// The cause that stops the wave at an instruction, as the user reads it.
fn stopped(bench: &mut Bench<'_>, code: &[u8]) -> String {
    assert_eq!(bench.step(code, BASE), Ok(Flow::Fault));
    bench.fault().unwrap().cause.to_string()
}

#[test]
fn waves_end_halt_and_die() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        // "End of program; signal that a wave has been saved": without a saved context, an end.
        for name in ["s_endpgm_saved", "s_setkill"] {
            if !asm.has(name) {
                continue;
            }
            let code = asm.sopp(name, i32::from(name == "s_setkill"));
            bench.wave.waiting = Waiting::No;
            assert_eq!(bench.step(&code, BASE), Ok(Flow::Wait), "{target}");
            assert_eq!(bench.wave.waiting, Waiting::Ended, "{target}");
        }
        let text = stopped(&mut bench, &asm.sopp("s_sethalt", 1));
        assert!(text.contains("s_sethalt: the wave halted itself"), "{text}");
        // The message goes out before the wave halts.
        bench.wave.s[scalar::M0] = 0xff12_3456;
        let text = stopped(&mut bench, &asm.sopp("s_sendmsghalt", 1));
        assert!(
            text.contains("s_sendmsghalt: the wave halted itself"),
            "{text}"
        );
        assert_eq!(bench.wave.interrupts, [0x12_3456], "{target}");
        let rfe = if target == Target::Gfx1250 {
            "s_rfe_i64"
        } else {
            "s_rfe_b64"
        };
        let text = stopped(&mut bench, &asm.sop1(rfe, 0, 2));
        assert!(
            text.contains(rfe) && text.contains("trap handler"),
            "{text}"
        );
        if asm.has("s_alloc_vgpr") {
            bench.wave.scc = true;
            bench.next(&asm.sop1("s_alloc_vgpr", 0, int(16)));
            assert!(bench.wave.scc, "{target}: ignored without dynamic VGPRs");
        }
    }
}

#[test]
fn messages_with_an_answer() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        bench.wave.doorbell = 0x8000_0123;
        bench.wave.dispatch_id = 0x5_0000_0007;
        if target.is_cdna() && target.generation() == 9 {
            bench.next(&asm.sopp("s_sendmsg", 10));
            assert_eq!(bench.wave.s[scalar::EXEC], 0x123, "{target}");
            continue;
        }
        let mut ask = |message: u32| {
            bench.wave.s[4] = 0;
            bench.wave.s[5] = 0;
            bench.next(&asm.sop1("s_sendmsg_rtn_b64", 4, message));
            bench.wave.s64(4)
        };
        assert_eq!(ask(0x80), 0x8000_0123);
        if target == Target::Gfx1250 {
            // The cluster's barrier: valid, two members, one of which has signalled.
            bench.group.barriers[17].update(false, |b| b.members = 2);
            bench.group.barriers[17].update(false, |b| b.signalled = 1);
            bench.next(&asm.sop1("s_sendmsg_rtn_b32", 4, 0x88));
            assert_eq!(bench.wave.s[4], 1 | 2 << 4 | 1 << 16);
        } else {
            assert_eq!(ask(0x81), 0x5_0000_0007);
        }
        for message in [0x84, 0xff & 0x7f] {
            let text = stopped(&mut bench, &asm.sop1("s_sendmsg_rtn_b32", 4, message));
            assert!(text.contains("a message that is reserved"), "{text}");
        }
    }
}

/// CDNA3 manual, "S_SETVSKIP".
#[test]
fn vector_instructions_are_skipped() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE.into_iter().filter(|t| t.generation() == 9) {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        // VSKIP = S0[S1[4:0]]: bit 34 & 31 = 2 of 0b100.
        bench.wave.s[0] = 0b100;
        bench.wave.s[1] = 34;
        bench.next(&asm.sopc("s_setvskip", 0, 1));
        assert!(bench.wave.mode & mode::VSKIP != 0 && bench.wave.decode_state & VSKIP != 0);
        for words in [
            &[0x7e00_0285][..],          // v_mov_b32 v0, 5
            &[0xdc5c_8000, 0x047f_0002], // global_load_dwordx4 v[4:7], v[2:3], off: nothing is mapped there
            &[0xd81a_0000, 0x0000_0100], // ds_write_b32 v0, v1
            &[0x7e0c_0500],              // v_readfirstlane_b32 s6, v0
        ] {
            bench.wave.s[6] = 77;
            bench.run(words);
        }
        assert_eq!((bench.wave.v.read(0)[0], bench.wave.s[6]), (0, 77));
        // Scalar instructions are not.
        bench.run(&[0xbe82_0083]); // s_mov_b32 s2, 3
        assert_eq!(bench.wave.s[2], 3, "{target}");
        bench.next(&asm.sopc("s_setvskip", int(0), int(0)));
        bench.run(&[0x7e00_0285]);
        assert_eq!(bench.wave.v.read(0)[0], 5, "{target}");
    }
}

/// CDNA5 manual, "V_PERMLANE_IDX_GEN_B32", worked out lane by lane.
#[test]
fn permute_indices_stay_in_their_group() {
    let memory = Memory::new(BASE, 4096);
    let mut bench = bench(Target::Gfx1250, &memory);
    set(&mut bench, 0, |lane| 3 * lane + 64);
    set(&mut bench, 2, |_| 0xdead);
    bench.wave.set_exec(0x7fff_ffff);
    bench.run(&[0xd714_0002, 0x0001_1100]); // v_permlane_idx_gen_b32 v2, v0, 8
    let row = bench.wave.v.read(2);
    for lane in 0..31u32 {
        let wanted = 4 * (lane / 8 * 8 + 3 * lane % 8);
        assert_eq!(row[lane as usize], wanted, "lane {lane}");
    }
    assert_eq!(row[31], 0xdead, "a disabled lane keeps its value");
    // The whole wave as one group, its size in an SGPR.
    bench.wave.s[4] = 32;
    bench.run(&[0xd714_0002, 0x0000_0900]); // v_permlane_idx_gen_b32 v2, v0, s4
    assert_eq!(bench.wave.v.read(2)[21], 4 * (3 * 21 % 32));
}

#[test]
fn an_illegal_instruction_on_purpose() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE.into_iter().filter(|t| t.generation() > 9) {
        let mut bench = bench(target, &memory);
        let text = stopped(&mut bench, &[0; 4]);
        assert!(text.contains("v_illegal"), "{target}: {text}");
    }
}

/// gfx1201 has the encodings and no way to allocate named barriers: "they are NOP's when there are no named
/// barriers" (CDNA5 manual, 5.6.5.3).
#[test]
fn named_barriers_do_nothing_on_gfx1201() {
    let memory = Memory::new(BASE, 4096);
    let asm = Asm(Target::Gfx1201);
    let mut bench = bench(Target::Gfx1201, &memory);
    bench.group.barriers[0].update(false, |b| b.members = 4);
    bench.wave.s[scalar::M0] = 2 << 16 | 3;
    bench.next(&asm.sop1("s_barrier_init", 0, asm.m0()));
    bench.next(&asm.sop1("s_barrier_join", 0, int(3)));
    bench.next(&asm.sopp("s_barrier_wait", 3));
    bench.wave.scc = true;
    bench.next(&asm.sopp("s_barrier_leave", 0));
    assert!(!bench.wave.scc && bench.wave.named_barrier == 0);
    assert_eq!(bench.group.barriers[3].get().members, 0);
}

/// CDNA manuals, "Memory Buffer Load to LDS": LDS address is M0 plus the offset plus 4 times the lane. The
/// descriptor converts the data.
#[test]
fn formatted_loads_to_lds() {
    let memory = Memory::new(BASE, 4096);
    for lane in 0..64u32 {
        memory.put(BASE + 256 + u64::from(lane), &[lane as u8 * 4]);
    }
    for target in EXECUTABLE.into_iter().filter(|t| t.generation() == 9) {
        let mut bench = bench(target, &memory);
        // Stride 1 and ADD_TID: each lane its own byte, as format 8 UNORM with x from the data.
        // A buffer of format 0 is unbound: it reads as zeros.
        for format in [1, 0] {
            let word3 = 4 | format << 15 | 1 << 23;
            bench.wave.s[4..8].copy_from_slice(&[BASE as u32 + 240, 1 << 16, 128, word3]);
            bench.wave.s[scalar::M0] = 512;
            bench.group.lds.bytes_mut().fill(0x77);
            let exec = 0xffff_ffff_0000_ffff_u64;
            bench.wave.set_exec(exec);
            // buffer_load_format_x off, s[4:7], 0 offset:16 lds
            bench.run(&[0xe001_0010, 0x8001_0000]);
            for lane in 0..64usize {
                let at = 512 + 16 + 4 * lane;
                let got =
                    u32::from_le_bytes(bench.group.lds.bytes_mut()[at..at + 4].try_into().unwrap());
                let wanted = match (exec >> lane & 1, format) {
                    (0, _) => 0x7777_7777,
                    (_, 0) => 0,
                    _ => ((lane * 4) as f32 / 255.0).to_bits(),
                };
                assert_eq!(got, wanted, "{target} lane {lane} format {format}");
            }
        }
    }
}

/// CDNA3 manual, "DS_GWS_*"; resource: (M0[21:16] + offset) % 64.
#[test]
fn global_wave_sync() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        if !asm.has("ds_gws_init") {
            continue;
        }
        let mut bench = bench(target, &memory);
        // On gfx11 the count is in the address field, on gfx9 in the first data field, whose place is bit 32 too.
        let gws = |name: &str, register: u32| {
            let row = target
                .table()
                .rows()
                .iter()
                .find(|r| r.mnemonic == name)
                .unwrap();
            (row.value as u64 | u64::from(register) << 32 | 3).to_le_bytes()
        };
        bench.wave.s[scalar::M0] = 63 << 16 | 0xffff;
        bench.wave.set_exec(0b1000);
        set(&mut bench, 2, |lane| lane.wrapping_sub(2));
        // A barrier of two waves at resource 2: the count is lane 3's.
        bench.next(&gws("ds_gws_init", 2));
        assert_eq!(bench.step(&gws("ds_gws_barrier", 2), BASE), Ok(Flow::Wait));
        let Waiting::Gws(wait @ Wait::Barrier { resource: 2, .. }) = bench.wave.waiting else {
            panic!("{target}: {:?}", bench.wave.waiting)
        };
        assert!(!bench.unit.gws.ready(wait));
        // Without an active lane the count is lane 0's.
        bench.wave.set_exec(0);
        set(&mut bench, 2, |lane| if lane == 0 { 0 } else { 9 });
        bench.next(&gws("ds_gws_barrier", 2));
        assert!(bench.unit.gws.ready(wait), "{target}");
        bench.next(&gws("ds_gws_barrier", 2));
        // A semaphore: without an active lane nothing happens.
        bench.next(&gws("ds_gws_sema_p", 0));
        bench.wave.set_exec(1);
        bench.next(&gws("ds_gws_sema_v", 0));
        bench.next(&gws("ds_gws_sema_p", 0));
        set(&mut bench, 2, |_| 2);
        bench.next(&gws("ds_gws_sema_br", 2));
        bench.next(&gws("ds_gws_sema_p", 0));
        bench.next(&gws("ds_gws_sema_p", 0));
        assert_eq!(bench.step(&gws("ds_gws_sema_p", 0), BASE), Ok(Flow::Wait));
        let Waiting::Gws(wait) = bench.wave.waiting else {
            panic!("{target}: {:?}", bench.wave.waiting)
        };
        assert!(!bench.unit.gws.ready(wait));
        bench.next(&gws("ds_gws_sema_release_all", 0));
        assert!(bench.unit.gws.ready(wait), "{target}");
    }
}

#[test]
fn registers_beyond_the_allocation_stop_the_wave() {
    let memory = Memory::new(BASE, 4096);
    // v_add_f32 v7, v8, v9 on gfx942; v_mov_b32 v60, 1 on gfx1250.
    let cases: [(Target, u32, &[u32]); 2] = [
        (Target::Gfx942, 9, &[0x020e_1308]),
        (Target::Gfx1250, 60, &[0x7e78_0281]),
    ];
    for (target, highest, code) in cases {
        let mut bench = bench(target, &memory);
        let code = bytes(code);
        for (given, good) in [(16, highest < 16), (64, true), (4, false), (1024, true)] {
            bench.wave.set_vgprs(given, target);
            let flow = bench.step(&code, BASE).unwrap();
            let unit = if target == Target::Gfx1250 { 16 } else { 4 };
            assert_eq!(flow == Flow::Next, good, "{target} {given}");
            if !good {
                let cause = bench.fault().unwrap().cause.to_string();
                let has = u32::max(given, unit);
                assert!(
                    cause.contains(&format!("v{highest} in "))
                        && cause.contains(&format!("gives the wave {has} VGPRs")),
                    "{cause}"
                );
            }
        }
        assert!(matches!(
            bench.fault().unwrap().cause,
            Cause::Illegal { .. }
        ));
    }
}

/// CDNA5 manual, table of matrix formats: 0 to 4 are formats, 5 to 7 reserved. All 25 pairs execute.
#[test]
fn every_pair_of_matrix_formats() {
    let memory = Memory::new(BASE, 4096);
    let mut bench = bench(Target::Gfx1250, &memory);
    for (a, b) in (0..8u64).flat_map(|a| (0..8u64).map(move |b| (a, b))) {
        // v_wmma_f32_16x16x128_f8f6f4 v[32:39], v[0:15], v[16:31], 0
        let word = 0x0202_2100_cc33_0020 | a << 11 | (b & 3) << 59 | b >> 2 << 14;
        let flow = bench.step(&word.to_le_bytes(), BASE).unwrap();
        if a < 5 && b < 5 {
            assert_eq!(flow, Flow::Next, "{a} {b}: {:?}", bench.fault());
        } else {
            let cause = bench.fault().unwrap().cause.to_string();
            assert!(
                cause.contains("a reserved matrix format"),
                "{a} {b}: {cause}"
            );
        }
    }
}

/// CDNA manuals 3.6.1, RDNA4 manual 3.3.2.2: beyond the wave's registers an indexed source is v0, and an instruction with
/// such a destination does nothing.
#[test]
fn indices_beyond_the_registers() {
    let memory = Memory::new(BASE, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let cdna = target.is_cdna();
        // v_mov_b32, v_movreld_b32 or v_movrels_b32 v3, v3
        let code = |dst: bool| {
            let op = match (cdna, dst) {
                (true, _) => 1,
                (false, true) => 66,
                (false, false) => 67,
            };
            (0x7e00_0103u32 | 3 << 17 | op << 9).to_le_bytes()
        };
        assert!(cdna || asm.has("v_movrels_b32_e32"), "{target}");
        for vgprs in [64, 256] {
            let mut bench = bench(target, &memory);
            bench.wave.set_vgprs(vgprs, target);
            set(&mut bench, 0, |_| 4);
            set(&mut bench, vgprs - 1, |_| 6);
            set(&mut bench, vgprs, |_| 7);
            let mut move_by = |index: u32, dst: bool| {
                set(&mut bench, 3, |_| 5);
                bench.wave.s[scalar::M0] = index;
                if cdna {
                    bench.wave.s[scalar::M0] |= if dst { 8 << 12 } else { 1 << 12 };
                    bench.wave.decode_state |= INDEXING;
                }
                bench.next(&code(dst));
                [0, 3, vgprs - 1, vgprs].map(|r| bench.wave.v.read(r)[1])
            };
            let last = vgprs - 4;
            assert_eq!(move_by(last, false), [4, 6, 6, 7], "{target} {vgprs}");
            assert_eq!(move_by(last + 1, false), [4, 4, 6, 7], "{target} {vgprs}");
            assert_eq!(move_by(last + 1, true), [4, 5, 6, 7], "{target} {vgprs}");
            assert_eq!(move_by(last, true), [4, 5, 5, 7], "{target} {vgprs}");
        }
    }
}

/// Registers that an instruction names are known when it is lowered, those behind a bank of `s_set_vgpr_msb` as well:
/// beyond the wave's own they stop it, where hardware would take v0 (CDNA5 manual 3.3.2.2). Each operand has the bank of
/// its role.
#[test]
fn banks_beyond_the_registers_stop_the_wave() {
    let memory = Memory::new(BASE, 4096);
    let mut bench = bench(Target::Gfx1250, &memory);
    bench.wave.set_vgprs(528, Target::Gfx1250);
    // v_add_f32 v17, v16, v15: src0, src1 and destination in banks.
    let add = (3u32 << 25 | 17 << 17 | 15 << 9 | 0x110).to_le_bytes();
    for (banks, last) in [
        (0x00, None),
        (0x05, None),
        (0x08, None),
        (0x02, Some(528)),
        (0x80, Some(529)),
        (0x0c, Some(783)),
        (0x40, None),
    ] {
        bench.wave.decode_state = bench.wave.decode_state & !0xff | banks;
        let flow = bench.step(&add, BASE).unwrap();
        match last {
            None => assert_eq!(flow, Flow::Next, "{banks:#x}"),
            Some(last) => {
                assert_eq!(flow, Flow::Fault, "{banks:#x}");
                let text = bench.fault().unwrap().cause.to_string();
                assert!(text.contains(&format!("v{last} in v_add_f32")), "{text}");
            }
        }
    }
    // v_fmac_f32 v100, v3, v4 reads its destination through the destination's bank, not that of source 0.
    let fmac = (0x2bu32 << 25 | 100 << 17 | 4 << 9 | 0x103).to_le_bytes();
    bench.wave.decode_state = bench.wave.decode_state & !0xff | 0x02;
    assert_eq!(bench.step(&fmac, BASE), Ok(Flow::Next));
}

/// Pseudocode of DS_WRXCHG2_RTN_B32 and DS_STOREXCHG_2ADDR_RTN_B32: `tmp1` and `tmp2` are read before anything is written.
#[test]
fn pairs_that_name_one_place_return_its_old_value_twice() {
    let memory = Memory::new(BASE, 4096);
    let mut tried = 0;
    for target in EXECUTABLE {
        let asm = Asm(target);
        for (name, words, unit) in [
            ("ds_wrxchg2_rtn_b32", 1, 4),
            ("ds_wrxchg2st64_rtn_b32", 1, 256),
            ("ds_wrxchg2_rtn_b64", 2, 8),
            ("ds_wrxchg2st64_rtn_b64", 2, 512),
            ("ds_storexchg_2addr_rtn_b32", 1, 4),
            ("ds_storexchg_2addr_stride64_rtn_b32", 1, 256),
            ("ds_storexchg_2addr_rtn_b64", 2, 8),
            ("ds_storexchg_2addr_stride64_rtn_b64", 2, 512),
        ] {
            if !asm.has(name) {
                continue;
            }
            tried += 1;
            for offsets in [0x0101, 0x0201] {
                let mut bench = bench(target, &memory);
                bench.group.lds.restart(2048);
                let places = [unit, unit * (offsets >> 8)].map(|at| at as usize);
                for (at, old) in places.into_iter().zip([0x100u32, 0x200]) {
                    for (word, to) in (old..)
                        .zip(bench.group.lds.bytes_mut()[at..].chunks_exact_mut(4))
                        .take(words)
                    {
                        to.copy_from_slice(&word.to_le_bytes());
                    }
                }
                set(&mut bench, 0, |_| 0);
                (0..4).for_each(|r| set(&mut bench, 2 + r, |_| 0xa0 + r));
                bench.wave.set_exec(1);
                let code = asm.ds(name, 8, 0, [2, 4], offsets);
                assert_eq!(bench.step(&code, BASE), Ok(Flow::Next), "{target} {name}");
                let one = offsets >> 8 == offsets & 0xff;
                for (j, at) in places.into_iter().enumerate() {
                    for k in 0..words {
                        let old = if one { 0x200 } else { 0x100 << j } + k as u32;
                        let row = bench.wave.v.read(8 + (j * words + k) as u32);
                        assert_eq!(row[0], old, "{target} {name} {offsets:#x}");
                        let data = if one { 1 } else { j } * 2 + k;
                        let now = u32::from(bench.lds()[at + 4 * k]);
                        assert_eq!(now, 0xa0 + data as u32, "{target} {name} {offsets:#x}");
                    }
                }
            }
        }
    }
    assert_eq!(tried, 7 * 4);
}
