//! Global, flat, scratch and buffer instructions against a plain model, on every back end.

mod common;

use common::{Bench, Memory};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::memory::FaultKind;
use rocjitsu_exec::record::{Flow, PRIVATE_BASE, SHARED_BASE};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x7f00_0000_1000;
const SIZE: usize = 1 << 16;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// How a GLOBAL or FLAT instruction is written.
#[derive(Clone, Copy)]
struct Access {
    target: Target,
    /// 0 flat, 1 scratch, 2 global.
    segment: u32,
    op: u32,
    offset: i32,
    vaddr: Option<u32>,
    saddr: Option<u32>,
    data: u32,
    vdst: u32,
    glc: bool,
}

/// Encodes a flat, scratch or global instruction (manuals: "Flat Formats").
fn flat(a: Access) -> Vec<u8> {
    let words: Vec<u32> = match a.target {
        Target::Gfx1201 | Target::Gfx1250 => {
            let segment = [0xec00_0000, 0xed00_0000, 0xee00_0000][a.segment as usize];
            let sve = u32::from(a.segment == 1 && a.vaddr.is_some());
            // TH bit 0 asks atomics for the old value.
            let th = u32::from(a.glc);
            vec![
                segment | a.op << 14 | a.saddr.unwrap_or(0x7c),
                a.vdst | sve << 17 | th << 20 | a.data << 23,
                a.vaddr.unwrap_or(0) | (a.offset as u32) << 8,
            ]
        }
        Target::Gfx1100 | Target::Gfx1151 => {
            let sve = u32::from(a.segment == 1 && a.vaddr.is_some());
            vec![
                0xdc00_0000
                    | a.op << 18
                    | a.segment << 16
                    | u32::from(a.glc) << 14
                    | a.offset as u32 & 0x1fff,
                a.vaddr.unwrap_or(0)
                    | a.data << 8
                    | a.saddr.unwrap_or(0x7c) << 16
                    | sve << 23
                    | a.vdst << 24,
            ]
        }
        _ => {
            let sve = u32::from(a.target != Target::Gfx90a && a.segment == 1 && a.vaddr.is_some());
            vec![
                0xdc00_0000
                    | a.op << 18
                    | u32::from(a.glc) << 16
                    | a.segment << 14
                    | sve << 13
                    | a.offset as u32 & 0x1fff,
                a.vaddr.unwrap_or(0)
                    | a.data << 8
                    | a.saddr.unwrap_or(if a.segment == 0 { 0 } else { 0x7f }) << 16
                    | a.vdst << 24,
            ]
        }
    };
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Opcodes of loads and stores by (bytes, kind): the same from gfx9 to gfx12 but for an offset.
fn opcode(target: Target, name: &str) -> u32 {
    let gfx9 = target.is_cdna();
    match name {
        "u8" => 16,
        "i8" => 17,
        "u16" => 18,
        "i16" => 19,
        "b32" => 20,
        "b64" => 21,
        "b96" => 22,
        "b128" => 23,
        "store_b8" => 24,
        "store_b16" => {
            if gfx9 {
                26
            } else {
                25
            }
        }
        "store_b32" => {
            if gfx9 {
                28
            } else {
                26
            }
        }
        "store_b64" => {
            if gfx9 {
                29
            } else {
                27
            }
        }
        "store_b96" => {
            if gfx9 {
                30
            } else {
                28
            }
        }
        "store_b128" => {
            if gfx9 {
                31
            } else {
                29
            }
        }
        "d16_u8" => {
            if gfx9 {
                32
            } else {
                30
            }
        }
        "d16_hi_b16" => {
            if gfx9 {
                37
            } else {
                35
            }
        }
        "add_u32" => {
            if gfx9 {
                66
            } else {
                53
            }
        }
        "add_x2" => {
            if gfx9 {
                98
            } else {
                67
            }
        }
        "cmpswap" => {
            if gfx9 {
                65
            } else {
                52
            }
        }
        other => panic!("{other}"),
    }
}

fn fill(memory: &Memory, random: &mut Random) -> Vec<u8> {
    let bytes: Vec<u8> = (0..SIZE).map(|_| random.next() as u8).collect();
    memory.put(BASE, &bytes);
    bytes
}

/// Byte offsets of the lanes in one of several patterns.
fn pattern(random: &mut Random, lanes: usize, bytes: usize) -> Vec<u64> {
    let start = random.below(256);
    match random.below(4) {
        0 => (0..lanes).map(|l| start + (l * bytes) as u64).collect(),
        1 => (0..lanes)
            .map(|l| start + (l * (bytes + 4)) as u64)
            .collect(),
        2 => vec![start; lanes],
        _ => (0..lanes)
            .map(|_| random.below((SIZE - 64) as u64))
            .collect(),
    }
}

fn set_row(bench: &mut Bench<'_>, register: u32, f: impl Fn(usize) -> u32) {
    for (l, w) in bench
        .wave
        .v
        .write(register, &mut bench.unit.pool)
        .iter_mut()
        .enumerate()
    {
        *w = f(l);
    }
}

fn row(bench: &Bench<'_>, register: u32) -> Vec<u32> {
    bench.wave.v.read(register).to_vec()
}

const TARGETS: [(Target, u32); 5] = [
    (Target::Gfx90a, 64),
    (Target::Gfx942, 64),
    (Target::Gfx1100, 32),
    (Target::Gfx1100, 64),
    (Target::Gfx1250, 32),
];

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The registers that a load gives a lane.
fn loaded(name: &str, bytes: &[u8], at: usize, old: u32) -> Vec<u32> {
    match name {
        "u8" => vec![u32::from(bytes[at])],
        "i8" => vec![bytes[at] as i8 as u32],
        "u16" => vec![u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))],
        "i16" => vec![i16::from_le_bytes([bytes[at], bytes[at + 1]]) as u32],
        "d16_u8" => vec![old & 0xffff_0000 | u32::from(bytes[at])],
        "d16_hi_b16" => {
            vec![old & 0xffff | u32::from(bytes[at]) << 16 | u32::from(bytes[at + 1]) << 24]
        }
        "b32" => vec![word(bytes, at)],
        "b64" => (0..2).map(|j| word(bytes, at + 4 * j)).collect(),
        "b96" => (0..3).map(|j| word(bytes, at + 4 * j)).collect(),
        _ => (0..4).map(|j| word(bytes, at + 4 * j)).collect(),
    }
}

fn size(name: &str) -> usize {
    match name.trim_start_matches("store_") {
        "u8" | "i8" | "d16_u8" | "b8" => 1,
        "u16" | "i16" | "d16_hi_b16" | "b16" => 2,
        "b32" => 4,
        "b64" => 8,
        "b96" => 12,
        _ => 16,
    }
}

#[test]
fn global_and_flat_loads_and_stores() {
    let mut random = Random(1);
    for (target, lanes) in TARGETS {
        for backend in Backend::supported() {
            let memory = Memory::new(BASE, SIZE);
            let mut bytes = fill(&memory, &mut random);
            let names = [
                "u8",
                "i8",
                "u16",
                "i16",
                "b32",
                "b64",
                "b96",
                "b128",
                "d16_u8",
                "d16_hi_b16",
                "store_b8",
                "store_b16",
                "store_b32",
                "store_b64",
                "store_b96",
                "store_b128",
            ];
            for round in 0..400 {
                let name = names[random.below(names.len() as u64) as usize];
                let mut bench = Bench::new(target, lanes, backend, &memory);
                let exec = if random.below(2) == 0 {
                    u64::MAX
                } else {
                    random.next()
                };
                bench.wave.set_exec(exec);
                let offsets = pattern(&mut random, lanes as usize, size(name));
                let scalar = random.below(2) == 0;
                let flat_segment = random.below(2) == 0 && (!scalar || target == Target::Gfx1250);
                let imm = random.below(64) as i32
                    - if flat_segment && target != Target::Gfx1250 {
                        0
                    } else {
                        32
                    };
                let base = BASE.wrapping_add_signed(i64::from(-imm));
                for (l, &offset) in offsets.iter().enumerate() {
                    let a = if scalar { offset } else { base + offset };
                    let pool = &mut bench.unit.pool;
                    bench.wave.v.write(2, pool)[l] = a as u32;
                    bench.wave.v.write(3, pool)[l] = (a >> 32) as u32;
                }
                bench.wave.set_s64(4, base);
                for r in 8..12 {
                    let key = random.next() as u32;
                    set_row(&mut bench, r, |l| key.wrapping_mul(l as u32 + 1));
                }
                let before: Vec<Vec<u32>> = (8..12).map(|r| row(&bench, r)).collect();
                let store = name.starts_with("store");
                let code = flat(Access {
                    target,
                    segment: if flat_segment { 0 } else { 2 },
                    op: opcode(target, name),
                    offset: imm,
                    vaddr: Some(2),
                    saddr: scalar.then_some(4),
                    data: if store { 8 } else { 0 },
                    vdst: if store { 0 } else { 8 },
                    glc: false,
                });
                assert_eq!(
                    bench.step(&code, 0).unwrap(),
                    Flow::Next,
                    "{target} {name} {:?}",
                    bench.fault()
                );
                let ecc = target.is_cdna() || target == Target::Gfx1250;
                for l in (0..lanes as usize).filter(|l| exec >> l & 1 != 0) {
                    let at = offsets[l] as usize;
                    if store {
                        let data: Vec<u8> =
                            before.iter().flat_map(|r| r[l].to_le_bytes()).collect();
                        bytes[at..at + size(name)].copy_from_slice(&data[..size(name)]);
                    } else {
                        let old = if ecc { 0 } else { before[0][l] };
                        for (j, want) in loaded(name, &bytes, at, old).iter().enumerate() {
                            let got = row(&bench, 8 + j as u32)[l];
                            assert_eq!(
                                got, *want,
                                "{target} {backend} {name} round {round} lane {l} word {j}"
                            );
                        }
                    }
                }
                for l in (0..lanes as usize).filter(|l| exec >> l & 1 == 0) {
                    assert!(
                        (0..4).all(|j| row(&bench, 8 + j)[l] == before[j as usize][l]),
                        "inactive lane {l} written"
                    );
                }
                if store {
                    let same = (0..SIZE)
                        .step_by(4)
                        .all(|at| memory.word(BASE + at as u64) == word(&bytes, at));
                    assert!(
                        same,
                        "{target} {backend} {name} round {round}: memory differs"
                    );
                }
            }
        }
    }
}

#[test]
fn atomics_return_the_old_value_and_faults_name_lane_and_address() {
    for (target, lanes) in TARGETS {
        let memory = Memory::new(BASE, SIZE);
        memory.put(BASE, &[0; 64]);
        let mut bench = Bench::new(target, lanes, Backend::Scalar, &memory);
        set_row(&mut bench, 2, |_| BASE as u32);
        set_row(&mut bench, 3, |_| (BASE >> 32) as u32);
        set_row(&mut bench, 8, |l| l as u32 + 1);
        let mut access = Access {
            target,
            segment: 2,
            op: opcode(target, "add_u32"),
            offset: 4,
            vaddr: Some(2),
            saddr: None,
            data: 8,
            vdst: 12,
            glc: true,
        };
        assert_eq!(
            bench.step(&flat(access), 0).unwrap(),
            Flow::Next,
            "{target}: {:?}",
            bench.fault()
        );
        let sums: Vec<u32> = (0..lanes).map(|l| l * (l + 1) / 2).collect();
        assert_eq!(row(&bench, 12), sums);
        assert_eq!(memory.word(BASE + 4), lanes * (lanes + 1) / 2);
        // Compare and swap: the new value first, then the one compared with.
        access.op = opcode(target, "cmpswap");
        set_row(&mut bench, 8, |l| 1000 + l as u32);
        set_row(&mut bench, 9, |l| {
            if l == 5 { lanes * (lanes + 1) / 2 } else { 7 }
        });
        assert_eq!(bench.step(&flat(access), 0).unwrap(), Flow::Next);
        assert_eq!(memory.word(BASE + 4), 1005);
        // Misaligned, unmapped.
        access.offset = 6;
        assert_eq!(bench.step(&flat(access), 0).unwrap(), Flow::Fault);
        let cause = bench.fault().unwrap().cause.clone();
        assert!(
            matches!(
                cause,
                Cause::Memory {
                    kind: FaultKind::Misaligned,
                    lane: Some(0),
                    ..
                }
            ),
            "{cause}"
        );
        access.offset = 0;
        access.op = opcode(target, "b128");
        access.vdst = 8;
        access.data = 0;
        access.glc = false;
        let end = BASE + SIZE as u64;
        for l in 0..lanes as usize {
            let a = if l == 9 {
                end - 12
            } else {
                BASE + l as u64 * 16
            };
            bench.wave.v.write(2, &mut bench.unit.pool)[l] = a as u32;
        }
        assert_eq!(bench.step(&flat(access), 0).unwrap(), Flow::Fault);
        match bench.fault().unwrap().cause.clone() {
            Cause::Memory {
                access: "load",
                bytes: 16,
                address,
                lane: Some(9),
                kind: FaultKind::Unmapped,
                near,
            } => {
                assert_eq!(address, end - 12);
                assert!(near.contains("allocation"), "{near}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn scratch_is_swizzled_and_flat_addresses_reach_it_and_lds() {
    for (target, lanes) in [
        (Target::Gfx942, 64),
        (Target::Gfx1100, 32),
        (Target::Gfx1201, 32),
        (Target::Gfx1250, 32),
    ] {
        for backend in Backend::supported() {
            let memory = Memory::new(BASE, SIZE);
            let mut bench = Bench::new(target, lanes, backend, &memory);
            bench.wave.scratch = BASE + 0x100;
            bench.wave.scratch_size = 64;
            set_row(&mut bench, 2, |l| 4 * (l as u32 % 3));
            for j in 0..4 {
                set_row(&mut bench, 8 + j, |l| (l as u32) << 8 | j);
            }
            let mut access = Access {
                target,
                segment: 1,
                op: opcode(target, "store_b128"),
                offset: 8,
                vaddr: Some(2),
                saddr: None,
                data: 8,
                vdst: 0,
                glc: false,
            };
            assert_eq!(
                bench.step(&flat(access), 0).unwrap(),
                Flow::Next,
                "{target} {:?}",
                bench.fault()
            );
            let place =
                |dword: u64, lane: u64| BASE + 0x100 + (dword * u64::from(lanes) + lane) * 4;
            for lane in 0..u64::from(lanes) {
                for j in 0..4 {
                    assert_eq!(
                        memory.word(place(2 + lane % 3 + j, lane)),
                        (lane as u32) << 8 | j as u32
                    );
                }
            }
            // Without registers in the address: the same row for all lanes.
            access.vaddr = None;
            access.offset = 16;
            access.op = opcode(target, "b32");
            access.vdst = 20;
            access.data = 0;
            assert_eq!(
                bench.step(&flat(access), 0).unwrap(),
                Flow::Next,
                "{:?}",
                bench.fault()
            );
            assert_eq!(
                row(&bench, 20),
                (0..lanes).map(|l| l << 8 | (2 - l % 3)).collect::<Vec<_>>()
            );
            // An unaligned word spans two swizzled ones.
            access.offset = 18;
            assert_eq!(bench.step(&flat(access), 0).unwrap(), Flow::Next);
            assert_eq!(row(&bench, 20)[0], 3 << 16);
            // Outside.
            access.offset = 62;
            assert_eq!(bench.step(&flat(access), 0).unwrap(), Flow::Fault);
            assert!(
                bench
                    .fault()
                    .unwrap()
                    .to_string_cause()
                    .contains("64 bytes")
            );
            // Flat: lane 0 scratch, lane 1 LDS, lane 2 global.
            memory.put(BASE, &0xabcd_0123u32.to_le_bytes());
            bench.group.lds.bytes_mut()[16..20].copy_from_slice(&0x55aa_55aau32.to_le_bytes());
            let private = if target == Target::Gfx1250 {
                bench.wave.flat_scratch_base()
            } else {
                PRIVATE_BASE
            };
            let addresses = [private + 16, SHARED_BASE + 16, BASE];
            for l in 0..lanes as usize {
                let a = addresses[l % 3]
                    + if target == Target::Gfx1250 && l % 3 == 0 {
                        (l as u64) << 52
                    } else {
                        0
                    };
                bench.wave.v.write(2, &mut bench.unit.pool)[l] = a as u32;
                bench.wave.v.write(3, &mut bench.unit.pool)[l] = (a >> 32) as u32;
            }
            access.segment = 0;
            access.vaddr = Some(2);
            access.offset = 0;
            assert_eq!(
                bench.step(&flat(access), 0).unwrap(),
                Flow::Next,
                "{target} {:?}",
                bench.fault()
            );
            for (l, got) in row(&bench, 20).iter().enumerate() {
                let want = [(l as u32) << 8 | 2, 0x55aa_55aa, 0xabcd_0123][l % 3];
                assert_eq!(*got, want, "{target} lane {l}");
            }
            // Four words of scratch through a flat address: each swizzled for itself.
            if let Some(base) = (target == Target::Gfx1250).then(|| bench.wave.flat_scratch_base())
            {
                for l in 0..lanes as usize {
                    let a = base + ((l as u64) << 52) + 4 * (2 + l as u64 % 3);
                    bench.wave.v.write(2, &mut bench.unit.pool)[l] = a as u32;
                    bench.wave.v.write(3, &mut bench.unit.pool)[l] = (a >> 32) as u32;
                }
                access.op = opcode(target, "b128");
                assert_eq!(bench.step(&flat(access), 0).unwrap(), Flow::Next);
                for j in 0..4 {
                    assert_eq!(
                        row(&bench, 20 + j),
                        (0..lanes).map(|l| l << 8 | j).collect::<Vec<_>>()
                    );
                }
            }
        }
    }
}

trait CauseText {
    fn to_string_cause(&self) -> String;
}

impl CauseText for rocjitsu_exec::error::Fault {
    fn to_string_cause(&self) -> String {
        self.cause.to_string()
    }
}
