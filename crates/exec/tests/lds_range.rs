//! LDS beyond the workgroup's allocation, by each target's rule, and addresses that come from M0.

mod common;

use common::asm::Asm;
use common::{Bench, Memory};
use rocjitsu_exec::record::{Flow, SHARED_BASE};
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::scalar;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// Bytes of the workgroup.
const SIZE: u32 = 64;

/// A wave whose lanes 0 and 1 are active, with words 0xa0, 0xa1, ... in LDS.
fn bench(target: Target, backend: Backend, memory: &Memory) -> Bench<'_> {
    let mut bench = Bench::new(target, target.default_wave(), backend, memory);
    bench.wave.set_exec(3);
    bench.group.lds.restart(SIZE as usize);
    for (word, to) in (0xa0u32..).zip(bench.group.lds.bytes_mut().chunks_exact_mut(4)) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bench
}

fn set(bench: &mut Bench<'_>, register: u32, lanes: [u32; 2]) {
    let row = bench.wave.v.write(register, &mut bench.unit.pool);
    row[..2].copy_from_slice(&lanes);
}

fn get(bench: &Bench<'_>, register: u32) -> [u32; 2] {
    let row = bench.wave.v.read(register);
    [row[0], row[1]]
}

fn word(bench: &Bench<'_>, at: usize) -> u32 {
    u32::from_le_bytes(bench.lds()[at..at + 4].try_into().unwrap())
}

/// The old name on gfx9, the new one elsewhere.
fn name(target: Target, old: &'static str, new: &'static str) -> &'static str {
    if target.is_cdna() { old } else { new }
}

/// Executes an instruction: whether it went on. Otherwise lane 1 must be blamed for `bytes` at `address`.
fn goes_on(bench: &mut Bench<'_>, code: &[u8], bytes: u32, address: u32) -> bool {
    match bench.step(code, 0x1000).unwrap() {
        Flow::Next => true,
        Flow::Fault => {
            let text = bench.fault().unwrap().cause.to_string();
            let want = format!(
                "LDS access of {bytes} bytes at {address:#x} by lane 1: the workgroup has 64 bytes"
            );
            assert_eq!(text, want, "{}", bench.unit.target);
            false
        }
        other => panic!("{other:?}"),
    }
}

/// CDNA manuals 3.6.1, RDNA3 3.3.4.1, RDNA4 3.3.5.1, CDNA5 3.3.4.1: zeros.
#[test]
fn instructions_of_lds() {
    let memory = Memory::new(0x1_0000, 4096);
    for (target, backend) in EXECUTABLE
        .into_iter()
        .flat_map(|t| Backend::supported().map(move |b| (t, b)))
    {
        let asm = Asm(target);
        let mut bench = bench(target, backend, &memory);
        // Two words, of which lane 1 has one outside.
        set(&mut bench, 0, [8, SIZE - 4]);
        (2..4).for_each(|r| set(&mut bench, r, [1, 1]));
        let load = asm.ds(name(target, "ds_read_b64", "ds_load_b64"), 2, 0, [0, 0], 0);
        assert!(goes_on(&mut bench, &load, 8, 0x3c));
        assert_eq!((get(&bench, 2)[0], get(&bench, 3)[0]), (0xa2, 0xa3));
        // RDNA3 3.3.4.1: "the entire instruction returns zero"; elsewhere only what is outside.
        let first = if target.generation() == 11 { 0 } else { 0xaf };
        assert_eq!(
            (get(&bench, 2)[1], get(&bench, 3)[1]),
            (first, 0),
            "{target}"
        );

        // Addresses that no LDS has switch lanes off, on every target.
        set(&mut bench, 0, [32, 0x7fff_ffff]);
        let store = asm.ds(
            name(target, "ds_write_b64", "ds_store_b64"),
            0,
            0,
            [2, 0],
            0,
        );
        (2..4).for_each(|r| set(&mut bench, r, [0x50 + r, 0x60 + r]));
        assert!(goes_on(&mut bench, &store, 8, 0), "{target}");
        assert_eq!((word(&bench, 32), word(&bench, 36)), (0x52, 0x53));
        assert!(goes_on(&mut bench, &load, 8, 0), "{target}");
        assert_eq!((get(&bench, 2), get(&bench, 3)), ([0x52, 0], [0x53, 0]));
        set(&mut bench, 0, [8, SIZE - 4]);

        // A store writes what is inside.
        (2..4).for_each(|r| set(&mut bench, r, [r, 0x70 + r]));
        let store = asm.ds(
            name(target, "ds_write_b64", "ds_store_b64"),
            0,
            0,
            [2, 0],
            0,
        );
        assert!(goes_on(&mut bench, &store, 8, 0x3c));
        assert_eq!((word(&bench, 8), word(&bench, 12)), (2, 3));
        assert_eq!(word(&bench, 60), 0x72);

        // Two addresses: the second of lane 1 is outside.
        set(&mut bench, 0, [16, SIZE - 8]);
        set(&mut bench, 3, [9, 9]);
        let two = name(target, "ds_read2_b32", "ds_load_2addr_b32");
        let two = asm.ds(two, 2, 0, [0, 0], 2 << 8);
        assert!(goes_on(&mut bench, &two, 4, 0x40));
        assert_eq!((get(&bench, 2), get(&bench, 3)), ([0xa4, 0xae], [0xa6, 0]));

        // Atomics change nothing outside and return zero there.
        set(&mut bench, 0, [16, SIZE]);
        set(&mut bench, 2, [5, 5]);
        set(&mut bench, 3, [9, 9]);
        let add = asm.ds("ds_add_rtn_u32", 3, 0, [2, 0], 0);
        assert!(goes_on(&mut bench, &add, 4, 0x40));
        assert_eq!((get(&bench, 3), word(&bench, 16)), ([0xa4, 0], 0xa9));

        // Addresses far outside, up to the last that M0 can count.
        for far in [0x4000, 0xf_fffc] {
            set(&mut bench, 0, [16, far]);
            let load = asm.ds(name(target, "ds_read_b32", "ds_load_b32"), 2, 0, [0, 0], 0);
            assert!(goes_on(&mut bench, &load, 4, far));
            assert_eq!(get(&bench, 2), [0xa9, 0]);
        }

        // Lanes that are not active have no address.
        bench.wave.set_exec(1);
        let load = asm.ds(name(target, "ds_read_b32", "ds_load_b32"), 2, 0, [0, 0], 0);
        assert!(goes_on(&mut bench, &load, 4, 0));
    }
}

/// CDNA2 manual 10.6: an exception; elsewhere zeros; RDNA4 11.2: 17 bits of the address count.
#[test]
fn flat_addresses() {
    let memory = Memory::new(0x1_0000, 4096);
    for (target, backend) in EXECUTABLE
        .into_iter()
        .flat_map(|t| Backend::supported().map(move |b| (t, b)))
    {
        let asm = Asm(target);
        let mut bench = bench(target, backend, &memory);
        let stops = target.generation() == 9;
        let load = asm.flat(name(target, "flat_load_dword", "flat_load_b32"), 2, 0);
        let store = asm.flat(name(target, "flat_store_dword", "flat_store_b32"), 2, 0);
        set(&mut bench, 0, [8, SIZE]);
        set(&mut bench, 1, [(SHARED_BASE >> 32) as u32; 2]);
        assert_eq!(goes_on(&mut bench, &load, 4, SIZE), !stops);
        assert_eq!(get(&bench, 2)[0], 0xa2);
        assert_eq!(goes_on(&mut bench, &store, 4, SIZE), !stops);
        set(&mut bench, 0, [8, 0x2_000c]);
        set(&mut bench, 2, [9, 9]);
        let wraps = target == Target::Gfx1201;
        assert_eq!(goes_on(&mut bench, &load, 4, 0x2_000c), !stops || wraps);
        if wraps {
            assert_eq!(get(&bench, 2)[1], 0xa3);
        }
    }
}

/// Addresses from M0: 20 bits on gfx1250 (CDNA5 manual, DS_LOAD_ADDTID_B32), 16 elsewhere.
#[test]
fn addresses_by_lane_number() {
    let memory = Memory::new(0x1_0000, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, Backend::best(), &memory);
        bench.group.lds.restart(0x1_2000);
        let cut = if target == Target::Gfx1250 {
            0x1_0000
        } else {
            0
        };
        bench.group.lds.bytes_mut()[cut + 0x108..][..8].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
        bench.wave.s[scalar::M0] = 0x1_0100;
        let load = name(target, "ds_read_addtid_b32", "ds_load_addtid_b32");
        bench.next(&asm.ds(load, 2, 0, [0, 0], 8));
        assert_eq!(get(&bench, 2), [1, 2], "{target}");
        set(&mut bench, 3, [7, 8]);
        let store = name(target, "ds_write_addtid_b32", "ds_store_addtid_b32");
        bench.next(&asm.ds(store, 0, 0, [3, 0], 16));
        assert_eq!(
            (word(&bench, cut + 0x110), word(&bench, cut + 0x114)),
            (7, 8),
            "{target}"
        );
        // Beyond the end: lane 1 of two.
        bench.group.lds.restart(SIZE as usize);
        bench.group.lds.bytes_mut()[SIZE as usize - 4] = 0xaf;
        bench.wave.s[scalar::M0] = SIZE - 4;
        let load = asm.ds(load, 2, 0, [0, 0], 0);
        assert!(goes_on(&mut bench, &load, 4, SIZE));
        assert_eq!(get(&bench, 2), [0xaf, 0]);
    }
}

/// "Add (subtract) (count_bits(exec_mask)) to the value stored in DS memory ... return the pre-operation value"
/// (DS_APPEND, DS_CONSUME).
#[test]
fn append_and_consume_count_lanes() {
    let memory = Memory::new(0x1_0000, 4096);
    for target in EXECUTABLE {
        let asm = Asm(target);
        if !asm.has("ds_append") {
            continue;
        }
        let mut bench = bench(target, Backend::best(), &memory);
        bench.wave.set_exec(0b1011);
        bench.wave.s[scalar::M0] = 8;
        bench.next(&asm.ds("ds_append", 2, 0, [0, 0], 4));
        assert_eq!(
            (word(&bench, 12), get(&bench, 2)),
            (0xa6, [0xa3; 2]),
            "{target}"
        );
        assert_eq!(bench.wave.v.read(2)[2], 0, "an inactive lane");
        bench.wave.set_exec(0b11);
        bench.next(&asm.ds("ds_consume", 2, 0, [0, 0], 4));
        assert_eq!(
            (word(&bench, 12), get(&bench, 2)),
            (0xa4, [0xa6; 2]),
            "{target}"
        );
        bench.wave.set_exec(0);
        bench.next(&asm.ds("ds_append", 2, 0, [0, 0], 4));
        assert_eq!(word(&bench, 12), 0xa4, "no lanes, no change");
        bench.wave.set_exec(2);
        bench.wave.s[scalar::M0] = SIZE;
        let code = asm.ds("ds_append", 2, 0, [0, 0], 0);
        assert!(goes_on(&mut bench, &code, 4, SIZE), "{target}");
    }
}
