//! Buffer instructions against the manuals' address arithmetic, written down a second time and plainly:
//! one lane, one component at a time.

mod common;

use common::{Bench, Memory};
use rocjitsu_exec::record::Flow;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x7f00_0000_1000;
const SIZE: usize = 1 << 18;

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
    fn coin(&mut self) -> bool {
        self.next() & 1 != 0
    }
}

/// What a test gives the instruction.
#[derive(Clone, Debug)]
struct Setup {
    base: u64,
    stride: u64,
    records: u64,
    swizzle: u64,
    index_stride: u64,
    add_tid: bool,
    select: u64,
    stride_scale: u64,
    offen: bool,
    idxen: bool,
    imm: u64,
    soffset: u64,
}

fn descriptor(target: Target, s: &Setup) -> [u32; 4] {
    let mut bits = 0u128;
    let mut put = |low: u32, value: u64| bits |= u128::from(value) << low;
    match target {
        Target::Gfx1250 => {
            put(0, s.base);
            put(57, s.records);
            put(108, s.stride);
            put(122, s.stride_scale);
            put(124, u64::from(s.swizzle != 0));
            put(125, s.select & 1);
        }
        _ => {
            put(0, s.base);
            put(48, s.stride);
            if target.is_cdna() {
                put(63, u64::from(s.swizzle != 0));
            } else {
                put(62, s.swizzle);
                put(124, s.select);
            }
            put(64, s.records);
            put(117, s.index_stride);
            put(119, u64::from(s.add_tid));
            if target == Target::Gfx1201 {
                put(114, s.stride_scale);
            }
        }
    }
    [0, 32, 64, 96].map(|i| (bits >> i) as u32)
}

/// The address of a component, or `None` out of range.
fn model(
    target: Target,
    s: &Setup,
    index: u64,
    voffset: u64,
    lane: u64,
    more: u64,
    bytes: u64,
) -> Option<u64> {
    let scale = [1, 4, 8, 32][s.stride_scale as usize];
    let gfx12 = matches!(target, Target::Gfx1201 | Target::Gfx1250);
    let stride = if gfx12 { s.stride * scale } else { s.stride };
    let vindex = if s.idxen { index } else { 0 };
    let inst = s.imm + if s.offen { voffset } else { 0 } + more;
    let tid = if s.add_tid && target != Target::Gfx1250 {
        lane
    } else {
        0
    };
    let (offset, outside) = if gfx12 {
        (inst + s.soffset, 0)
    } else {
        (inst, s.soffset)
    };
    let swizzled = s.swizzle != 0;
    let out = if target.is_cdna() {
        match (s.add_tid, s.idxen) {
            (true, false) => false,
            (_, true) if s.stride != 0 => vindex >= s.records,
            // The scalar offset shrinks the buffer.
            _ => offset >= s.records.saturating_sub(outside),
        }
    } else if target == Target::Gfx1250 {
        let total = vindex * stride + offset + bytes > s.records;
        !swizzled && (total || s.select & 1 == 1 && offset + bytes > stride)
    } else {
        let i = vindex + tid;
        let structured = i >= s.records || offset + bytes > stride;
        match s.select {
            0 => structured,
            1 => i >= s.records,
            2 => s.records == 0,
            _ if swizzled && stride != 0 => structured,
            // The scalar offset shrinks the buffer on RDNA3 and counts as offset on RDNA4.
            _ => i * stride + offset + bytes > s.records.saturating_sub(outside),
        }
    };
    // A single byte is part of a word that has been checked.
    if out && bytes != 1 {
        return None;
    }
    let index = vindex + tid;
    // RDNA4 and CDNA5 manuals, 9.4.2: behind the first dword, data in elements of 16 bytes go on linearly.
    let linear = gfx12 && swizzled && (target == Target::Gfx1250 || s.swizzle == 3);
    let (offset, behind) = if linear {
        (offset - more, more)
    } else {
        (offset, 0)
    };
    let within = if swizzled {
        let element = if target == Target::Gfx1250 || !target.is_cdna() && s.swizzle == 3 {
            16
        } else {
            4
        };
        let run = if target == Target::Gfx1250 {
            32
        } else {
            8 << s.index_stride
        };
        (index / run * stride + offset / element * element) * run
            + index % run * element
            + offset % element
    } else {
        index * stride + offset
    };
    Some(s.base + outside + within + behind)
}

/// A MUBUF or VBUFFER load or store of words.
fn encode(target: Target, s: &Setup, words: u32, store: bool) -> Vec<u8> {
    let (offen, idxen) = (u32::from(s.offen), u32::from(s.idxen));
    let imm = s.imm as u32;
    let (vdata, vaddr) = (8, 2);
    let code: Vec<u32> = match target {
        Target::Gfx1201 | Target::Gfx1250 => {
            let op = if store { 25 + words } else { 19 + words };
            vec![
                0xc400_0000 | op << 14 | 30,
                vdata | 12 << 9 | 1 << 23 | offen << 30 | idxen << 31,
                vaddr | imm << 8,
            ]
        }
        Target::Gfx1100 => {
            let op = if store { 25 + words } else { 19 + words };
            vec![
                0xe000_0000 | op << 18 | imm,
                vaddr | vdata << 8 | 3 << 16 | offen << 22 | idxen << 23 | 30 << 24,
            ]
        }
        _ => {
            let op = if store { 27 + words } else { 19 + words };
            vec![
                0xe000_0000 | op << 18 | idxen << 13 | offen << 12 | imm,
                vaddr | vdata << 8 | 3 << 16 | 30 << 24,
            ]
        }
    };
    code.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn loads_and_stores_follow_the_address_arithmetic() {
    let mut random = Random(7);
    let targets = [
        (Target::Gfx90a, 64),
        (Target::Gfx942, 64),
        (Target::Gfx1100, 32),
        (Target::Gfx1201, 32),
        (Target::Gfx1250, 32),
    ];
    let mut outside = 0;
    for (target, lanes) in targets {
        let memory = Memory::new(BASE, SIZE);
        let mut bytes: Vec<u8> = (0..SIZE).map(|_| random.next() as u8).collect();
        memory.put(BASE, &bytes);
        let backends: Vec<Backend> = Backend::supported().collect();
        for round in 0..3000 {
            let swizzle = [0, 0, 0, 1, 3][random.below(5) as usize];
            let s = Setup {
                base: BASE + 16 * random.below(16),
                stride: [0, 4, 16, 32, 64][random.below(5) as usize],
                records: [0, 13, 64, 200, 1000, 4096][random.below(6) as usize],
                swizzle,
                index_stride: random.below(4),
                add_tid: random.below(4) == 0,
                select: random.below(4),
                stride_scale: if random.below(3) == 0 {
                    random.below(2)
                } else {
                    0
                },
                offen: random.below(4) != 0,
                idxen: random.below(3) == 0,
                // Unaligned words of a swizzled buffer lie in two places.
                imm: 4 * random.below(8) + if random.coin() { random.below(4) } else { 0 },
                soffset: 4 * random.below(8),
            };
            let words = 1 + random.below(4) as u32;
            let store = random.coin();
            // Words of a swizzled element of 16 bytes go on linearly; elsewhere each word has its place.
            let backend = backends[random.below(backends.len() as u64) as usize];
            let mut bench = Bench::new(target, lanes, backend, &memory);
            let exec = if random.coin() {
                u64::MAX
            } else {
                random.next()
            };
            bench.wave.set_exec(exec);
            for (j, word) in descriptor(target, &s).into_iter().enumerate() {
                bench.wave.s[12 + j] = word;
            }
            bench.wave.s[30] = s.soffset as u32;
            let contiguous = random.coin();
            let start = 4 * random.below(32);
            let pick = |l: u64, r: &mut Random| {
                if contiguous {
                    start + l * 4 * u64::from(words)
                } else {
                    4 * r.below(300)
                }
            };
            let voffsets: Vec<u64> = (0..u64::from(lanes))
                .map(|l| pick(l, &mut random))
                .collect();
            let indices: Vec<u64> = (0..lanes).map(|_| random.below(100)).collect();
            let (index_at, offset_at) = if s.idxen { (2, 3) } else { (9, 2) };
            for l in 0..lanes as usize {
                let pool = &mut bench.unit.pool;
                if s.idxen {
                    bench.wave.v.write(index_at, pool)[l] = indices[l] as u32;
                }
                if s.offen {
                    bench.wave.v.write(offset_at, pool)[l] = voffsets[l] as u32;
                }
                for j in 0..4 {
                    bench.wave.v.write(8 + j, pool)[l] = random.next() as u32;
                }
            }
            let before: Vec<Vec<u32>> = (8..12).map(|r| bench.wave.v.read(r).to_vec()).collect();
            let code = encode(target, &s, words, store);
            let flow = bench.step(&code, 0).unwrap();
            assert_eq!(flow, Flow::Next, "{target} {s:?}: {:?}", bench.fault());
            for lane in 0..lanes as usize {
                for j in 0..words {
                    let got = bench.wave.v.read(8 + j)[lane];
                    let old = before[j as usize][lane];
                    let at = model(
                        target,
                        &s,
                        indices[lane],
                        voffsets[lane],
                        lane as u64,
                        4 * u64::from(j),
                        4,
                    );
                    if exec >> lane & 1 == 0 {
                        assert_eq!(got, old);
                        continue;
                    }
                    outside += u32::from(at.is_none());
                    // Where each byte of a word is that is in range.
                    let place = |byte: u64| {
                        let (index, offset) = (indices[lane], voffsets[lane]);
                        let more = 4 * u64::from(j) + byte;
                        let at = model(target, &s, index, offset, lane as u64, more, 1);
                        (at.expect("part of a word in range") - BASE) as usize
                    };
                    let places = at.map(|_| [0, 1, 2, 3].map(place));
                    match (store, places) {
                        (true, Some(places)) => {
                            for (at, byte) in places.into_iter().zip(old.to_le_bytes()) {
                                bytes[at] = byte;
                            }
                        }
                        (true, None) => {}
                        (false, places) => {
                            let want = places
                                .map_or(0, |places| u32::from_le_bytes(places.map(|at| bytes[at])));
                            assert_eq!(
                                got, want,
                                "{target} {backend} round {round} lane {lane} word {j} {s:?}"
                            );
                        }
                    }
                }
            }
            if store {
                let differs = (0..SIZE).step_by(4).find(|&at| {
                    memory.word(BASE + at as u64)
                        != u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
                });
                assert_eq!(differs, None, "{target} {backend} round {round} {s:?}");
            }
        }
    }
    assert!(outside > 1000);
}
