//! Scalar memory on every executable target: addresses, bounds, widths, atomics, refusals.

mod common;

use common::asm::Asm;
use common::{Bench, Memory};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::scalar;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x10_0000;
/// NULL as a register offset, where there is one.
const NULL: u32 = 124;

fn memory() -> Memory {
    let memory = Memory::new(BASE, 4096);
    for i in 0..1024u32 {
        memory.put(BASE + 4 * u64::from(i), &(0x8000 + i).to_le_bytes());
    }
    memory
}

fn bench(target: Target, memory: &Memory) -> Bench<'_> {
    let mut bench = Bench::new(target, target.default_wave(), Backend::Scalar, memory);
    bench.wave.set_s64(2, BASE);
    bench
}

/// A load of so many words with an immediate offset.
fn load(asm: Asm, words: u32, data: u32, offset: i32) -> Vec<u8> {
    let gfx9 = asm.0.is_cdna();
    let name = match (gfx9, words) {
        (true, 1) => "s_load_dword".to_owned(),
        (true, n) => format!("s_load_dwordx{n}"),
        (false, n) => format!("s_load_b{}", 32 * n),
    };
    asm.smem(&name, "IMM", data, 2, offset, if gfx9 { 0 } else { NULL })
}

/// A load with a register offset and an immediate.
fn load_offset(asm: Asm, buffer: bool, offset: i32, soffset: u32) -> Vec<u8> {
    let prefix = if buffer { "s_buffer_load_" } else { "s_load_" };
    let name = format!("{prefix}{}", if asm.0.is_cdna() { "dword" } else { "b32" });
    let part = if asm.0.generation() >= 12 {
        "SGPR"
    } else {
        "SGPR_IMM"
    };
    asm.smem(&name, part, 8, if buffer { 4 } else { 2 }, offset, soffset)
}

fn value(bench: &mut Bench<'_>, code: &[u8]) -> u32 {
    bench.next(code);
    bench.wave.s[8]
}

#[test]
fn widths_and_offsets() {
    let memory = memory();
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        for words in [1, 2, 3, 4, 8, 16] {
            if words == 3 && target.generation() < 12 {
                continue;
            }
            bench.wave.s[8..25].fill(7);
            bench.next(&load(asm, words, 8, 0x40));
            let got: Vec<u32> = bench.wave.s[8..25].to_vec();
            let want: Vec<u32> = (0..17)
                .map(|i| if i < words { 0x8010 + i } else { 7 })
                .collect();
            assert_eq!(got, want, "{target} {words}");
        }
        bench.wave.set_s64(2, BASE + 0x101);
        bench.wave.s[30] = 0x13;
        // The low two bits of every component are ignored: 0x100 - 8 + 0x10.
        assert_eq!(
            value(&mut bench, &load_offset(asm, false, -7, 30)),
            0x8000 + 0x108 / 4,
            "{target}"
        );
        bench.wave.set_s64(2, BASE.wrapping_sub(0xffff_fff0));
        bench.wave.s[30] = 0xffff_fff0;
        assert_eq!(
            value(&mut bench, &load_offset(asm, false, 8, 30)),
            0x8002,
            "{target}: unsigned register offset"
        );
    }
}

#[test]
fn buffers_end_where_the_descriptor_says() {
    let memory = memory();
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        let describe = |bench: &mut Bench<'_>, base: u64, stride: u64, records: u64| {
            let (low, high) = if target == Target::Gfx1250 {
                (base | records << 57, records >> 7 | stride << 44)
            } else {
                (base | stride << 48, records)
            };
            bench.wave.set_s64(4, low);
            bench.wave.set_s64(6, high | 1 << 63);
        };
        for (stride, records) in [(0, 64), (16, 4)] {
            describe(&mut bench, BASE + 0x80, stride, records);
            bench.wave.s[30] = 0x20;
            let at = |bench: &mut Bench<'_>, offset: i32| {
                bench.wave.s[8] = 1;
                value(bench, &load_offset(asm, true, offset, 30))
            };
            assert_eq!(at(&mut bench, 0), 0x8028, "{target} {stride}");
            assert_eq!(at(&mut bench, 0x1c), 0x8020 + 15);
            assert_eq!(at(&mut bench, 0x20), 0, "{target} {stride}: behind the end");
            // Four words, of which two are inside.
            let name = if target.is_cdna() {
                "s_buffer_load_dwordx4"
            } else {
                "s_buffer_load_b128"
            };
            bench.wave.s[12..16].fill(1);
            bench.next(&asm.smem(
                name,
                "IMM",
                12,
                4,
                0x38,
                if target.is_cdna() { 0 } else { NULL },
            ));
            assert_eq!(bench.wave.s[12..16], [0x802e, 0x802f, 0, 0], "{target}");
        }
        // A descriptor without records touches no memory.
        describe(&mut bench, 0xdead_0000, 0, 0);
        assert_eq!(value(&mut bench, &load_offset(asm, true, 0, 30)), 0);
        // More than 2^32 records on gfx1250.
        if target == Target::Gfx1250 {
            describe(&mut bench, BASE, 0, 1 << 40);
            assert_eq!(value(&mut bench, &load_offset(asm, true, 0, 30)), 0x8008);
        }
        // A negative offset is a memory violation.
        describe(&mut bench, BASE, 0, 64);
        bench.wave.s[30] = 0;
        assert_eq!(
            bench.step(&load_offset(asm, true, -4, 30), 0),
            Ok(Flow::Fault),
            "{target}"
        );
        assert!(matches!(
            bench.fault().unwrap().cause,
            Cause::Illegal { .. }
        ));
    }
}

#[test]
fn small_loads_and_scaled_offsets() {
    let memory = memory();
    memory.put(BASE + 0x20, &[0x80, 0x81, 0x82, 0x83]);
    for target in [Target::Gfx1201, Target::Gfx1250] {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        for (name, offset, want) in [
            ("s_load_u8", 0x21, 0x81),
            ("s_load_i8", 0x22, 0xffff_ff82),
            // 16-bit loads ignore the lowest bit.
            ("s_load_u16", 0x23, 0x8382),
            ("s_load_i16", 0x20, 0xffff_8180),
        ] {
            assert_eq!(
                value(&mut bench, &asm.smem(name, "IMM", 8, 2, offset, NULL)),
                want,
                "{target} {name}"
            );
            bench.wave.set_s64(4, BASE);
            bench.wave.set_s64(6, 0x21);
            if target == Target::Gfx1250 {
                bench.wave.set_s64(4, BASE | 0x21 << 57);
                bench.wave.set_s64(6, 0);
            }
            let buffered = name.replace("s_load", "s_buffer_load");
            // 0x21 bytes, of which 16-bit loads see 0x20.
            let want = 0;
            assert_eq!(
                value(&mut bench, &asm.smem(&buffered, "IMM", 8, 4, offset, NULL)),
                want,
                "{target} {buffered}"
            );
        }
    }
    let asm = Asm(Target::Gfx1250);
    let mut bench = bench(Target::Gfx1250, &memory);
    bench.wave.s[30] = 3;
    let mut code = asm.smem("s_load_b128", "SGPR", 8, 2, 4, 30);
    code[7] |= 1;
    bench.next(&code);
    assert_eq!(
        bench.wave.s[8],
        0x8000 + (3 * 16 + 4) / 4,
        "SCALE_OFFSET: times 16"
    );
}

#[test]
fn refusals() {
    let memory = memory();
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        // Registers that leave the SGPRs (LLVM takes the encoding).
        let first = if target.is_cdna() { 100 } else { 104 };
        let before = bench.wave.s;
        match bench.step(&load(asm, 16, first, 0), 0) {
            Ok(Flow::Fault) => assert!(matches!(
                bench.fault().unwrap().cause,
                Cause::Illegal { .. }
            )),
            other => assert!(other.is_err(), "{target}: {other:?}"),
        }
        assert_eq!(bench.wave.s, before);
        // VCC can be loaded, trap temporaries cannot.
        bench.next(&load(asm, 2, 106, 0));
        assert_eq!(bench.wave.s64(scalar::VCC), 0x8001_0000_8000);
        bench.next(&load(asm, 4, 108, 0));
        assert_eq!(bench.wave.s[108..112], [0; 4], "{target}");
        // Unmapped memory: the error names the word that is missing.
        bench.wave.set_s64(2, BASE + 4088);
        assert_eq!(
            bench.step(&load(asm, 4, 8, 0), 0x40),
            Ok(Flow::Fault),
            "{target}"
        );
        let fault = bench.fault().unwrap();
        assert_eq!(fault.pc, 0x40);
        assert!(
            matches!(fault.cause, Cause::Memory { address, .. } if address == BASE + 4096),
            "{fault:?}"
        );
        let text = fault.cause.to_string();
        assert!(text.contains("by a scalar instruction"), "{text}");
        // Hints never fault.
        bench.wave.set_s64(2, 0xdead_beef_0000);
        let hint = if target.generation() >= 12 {
            "s_prefetch_data"
        } else {
            "s_atc_probe"
        };
        bench.next(&asm.smem(
            hint,
            if target.generation() >= 12 { "" } else { "IMM" },
            0,
            2,
            0,
            0,
        ));
        bench.next(&asm.smem("s_dcache_inv", "", 0, 0, 0, 0));
    }
}

#[test]
fn stores_and_scratch() {
    for target in EXECUTABLE.into_iter().filter(|t| t.is_cdna()) {
        let memory = memory();
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        bench.wave.s[8..12].copy_from_slice(&[1, 2, 3, 4]);
        bench.next(&asm.smem("s_store_dwordx4", "IMM", 8, 2, 0x10, 0));
        assert_eq!(
            [0, 4, 8, 12].map(|o| memory.word(BASE + 0x10 + o)),
            [1, 2, 3, 4]
        );
        // The register offset of scratch counts 64 bytes.
        bench.wave.s[30] = 3;
        bench.next(&asm.smem("s_scratch_store_dword", "SGPR_IMM", 9, 2, 4, 30));
        assert_eq!(memory.word(BASE + 3 * 64 + 4), 2);
        bench.next(&asm.smem("s_scratch_load_dword", "SGPR_IMM", 12, 2, 4, 30));
        assert_eq!(bench.wave.s[12], 2);
        // A buffer of two words: the others are dropped.
        bench.wave.set_s64(4, BASE + 0x100);
        bench.wave.set_s64(6, 8);
        bench.next(&asm.smem("s_buffer_store_dwordx4", "IMM", 8, 4, 0, 0));
        assert_eq!(
            [0, 4, 8].map(|o| memory.word(BASE + 0x100 + o)),
            [1, 2, 0x8000 + 0x42]
        );
    }
}

#[test]
fn atomics() {
    for target in EXECUTABLE.into_iter().filter(|t| t.is_cdna()) {
        let asm = Asm(target);
        // Name, memory, data, memory after. 32-bit values are extended by what must not be touched.
        for (name, old, data, new) in [
            ("swap", 5, 9, 9),
            ("add", u64::MAX, 2, 1),
            ("sub", 1, 2, u64::MAX),
            ("smin", u64::MAX, 3, u64::MAX),
            ("umin", u64::MAX, 3, 3),
            ("smax", u64::MAX, 3, 3),
            ("umax", u64::MAX, 3, u64::MAX),
            ("and", 12, 10, 8),
            ("or", 12, 10, 14),
            ("xor", 12, 10, 6),
            ("inc", 7, 8, 8),
            ("inc", 8, 8, 0),
            ("dec", 0, 8, 8),
            ("dec", 9, 8, 8),
            ("dec", 8, 8, 7),
        ] {
            for (suffix, mask) in [("", 0xffff_ffff), ("_x2", u64::MAX)] {
                for returns in [false, true] {
                    let memory = memory();
                    let mut bench = bench(target, &memory);
                    memory.put(BASE + 0x18, &old.to_le_bytes());
                    bench.wave.set_s64(8, data);
                    let mnemonic = format!("s_atomic_{name}{suffix}");
                    bench.next(&asm.smem(
                        &mnemonic,
                        if returns { "IMM_RTN" } else { "IMM" },
                        8,
                        2,
                        0x18,
                        0,
                    ));
                    let low = memory.word(BASE + 0x18);
                    let high = memory.word(BASE + 0x1c);
                    let got = (u64::from(low) | u64::from(high) << 32) & mask;
                    assert_eq!(got, new & mask, "{target} {mnemonic}");
                    if suffix.is_empty() {
                        assert_eq!(u64::from(high), old >> 32, "{mnemonic}");
                    }
                    let want = if returns { old } else { data };
                    assert_eq!(
                        bench.wave.s64(8) & mask,
                        want & mask,
                        "{target} {mnemonic} {returns}"
                    );
                }
            }
        }
        let memory = memory();
        let mut bench = bench(target, &memory);
        // New value, compared value.
        bench.wave.s[8..10].copy_from_slice(&[77, 0x8001]);
        for want in [77, 77] {
            bench.next(&asm.smem("s_atomic_cmpswap", "IMM_RTN", 8, 2, 4, 0));
            assert_eq!(
                (memory.word(BASE + 4), bench.wave.s[9]),
                (want, 0x8001),
                "{target}"
            );
            bench.wave.s[8] = 78;
        }
        // Behind the end of a buffer nothing happens; misaligned ones are refused.
        bench.wave.set_s64(4, BASE);
        bench.wave.set_s64(6, 8);
        bench.next(&asm.smem("s_buffer_atomic_add", "IMM", 8, 4, 8, 0));
        assert_eq!(memory.word(BASE + 8), 0x8002);
        assert_eq!(
            bench.step(&asm.smem("s_atomic_add_x2", "IMM", 8, 2, 4, 0), 0),
            Ok(Flow::Fault)
        );
    }
}
