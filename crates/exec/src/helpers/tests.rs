//! Windows of decoded code (gfx942).

use rocjitsu_isa::{Target, decode};
use rocjitsu_lanes::Backend;

use super::Policy;
use super::plan::Finder;
use crate::lower::{Lowering, State, lower};
use crate::record::Record;
use crate::wave::Wave;

const TARGET: Target = Target::Gfx942;

/// v_mfma_f32_16x16x16_f16 of two registers of A and B each, D and C of four.
fn mfma(d: u32, a: u32, b: u32, c: u32) -> Vec<u32> {
    vec![
        0xd3cd_0000 | d,
        (256 + a) | (256 + b) << 9 | (256 + c) << 18,
    ]
}

/// v_mov_b32 of a register.
fn mov(to: u32, from: u32) -> Vec<u32> {
    vec![0x7e00_0300 | to << 17 | from]
}

/// ds_read_b32.
fn load(to: u32, address: u32) -> Vec<u32> {
    vec![0xd86c_0000, to << 24 | address]
}

const NOP: [u32; 1] = [0xbf80_0000];
const WAIT: [u32; 1] = [0xbf8c_0070];
const BARRIER: [u32; 1] = [0xbf8a_0000];
const BRANCH: [u32; 1] = [0xbf82_0000];
/// s_mov_b64 exec, s[2:3].
const SETS_EXEC: [u32; 1] = [0xbefe_0102];
/// v_cmpx_eq_u32 v0, v1.
const COMPARES_EXEC: [u32; 1] = [0x7db4_0300];
/// s_mov_b64 s[4:5], s[2:3].
const SETS_SGPRS: [u32; 1] = [0xbe84_0102];
/// s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0.
const SETS_MODE: [u32; 2] = [0xba00_1801, 0];
/// s_sleep 0.
const SLEEP: [u32; 1] = [0xbf8e_0000];
/// s_set_gpr_idx_on s0, 1.
const INDEXES: [u32; 1] = [0xbf11_0100];

fn records(words: &[u32]) -> Vec<Record> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let state = State::of(&Wave::new(64));
    let mut lowering = Lowering::new(TARGET, Backend::Scalar, state);
    let (mut at, mut records) = (0, Vec::new());
    while at < bytes.len() {
        let inst = decode(TARGET, TARGET.execution_set(64), &bytes[at..]).unwrap();
        let record = lower(inst, 0x1000 + at as u64, &mut lowering);
        at += inst.len();
        records.push(record);
    }
    records
}

/// The windows of a block: numbers of their instructions.
fn windows(parts: &[&[u32]]) -> Vec<Vec<usize>> {
    let mut records = records(&parts.concat());
    let finder = Finder {
        policy: Policy::Measured,
        compiles: false,
        target: TARGET,
    };
    finder.mark(&mut records, State::of(&Wave::new(64)));
    let mut windows = vec![Vec::new()];
    let mut opened = false;
    for (at, record) in records.iter().enumerate() {
        let details = record.matrix.as_deref();
        let Some(seat) = details.and_then(|details| details.seat.as_ref()) else {
            continue;
        };
        assert_eq!(seat.opens, !opened, "the first one decides");
        opened = true;
        windows.last_mut().unwrap().push(at);
        if seat.last {
            windows.push(Vec::new());
        }
    }
    assert_eq!(windows.pop(), Some(Vec::new()), "a window ends");
    windows
}

/// Whether two products with other registers are a window with this in between.
fn passes(between: &[u32]) -> bool {
    let found = windows(&[&mfma(8, 0, 2, 8), between, &mfma(12, 0, 4, 12)]);
    let last = 1 + records(between).len();
    assert!(found.is_empty() || found == [vec![0, last]], "{found:?}");
    !found.is_empty()
}

#[test]
fn what_needs_no_result_passes() {
    for (name, between) in [
        ("nothing", vec![]),
        ("nop", NOP.to_vec()),
        ("wait", WAIT.to_vec()),
        ("scalar", SETS_SGPRS.to_vec()),
        ("mov", mov(20, 0)),
        ("mov of what another one reads", mov(20, 5)),
        ("load", load(20, 21)),
        ("mov of the second one's B", mov(4, 20)),
    ] {
        assert!(passes(&between), "{name}");
    }
}

#[test]
fn hazards_and_changes_of_state_end_a_window() {
    for (name, between) in [
        ("read after write, first register", mov(20, 8)),
        ("read after write, last register", mov(20, 11)),
        ("write after read of A", mov(1, 20)),
        ("write after read of B", mov(3, 20)),
        ("write after write", mov(9, 20)),
        ("load over A", load(0, 20)),
        ("load over D", load(10, 20)),
        ("load by an address in D", load(20, 11)),
        ("barrier", BARRIER.to_vec()),
        ("branch", BRANCH.to_vec()),
        ("EXEC", SETS_EXEC.to_vec()),
        ("v_cmpx", COMPARES_EXEC.to_vec()),
        ("MODE", SETS_MODE.to_vec()),
        ("sleep", SLEEP.to_vec()),
        ("index mode", INDEXES.to_vec()),
    ] {
        assert!(!passes(&between), "{name}");
    }
}

#[test]
fn products_that_need_each_other_are_in_windows_of_their_own() {
    let four = |d: [u32; 4]| -> Vec<u32> { d.iter().flat_map(|&d| mfma(d, 0, 2, d)).collect() };
    assert_eq!(windows(&[&four([8, 12, 16, 20])]), [[0, 1, 2, 3]]);
    let twice = [four([8, 12, 16, 20]), four([8, 12, 16, 20])].concat();
    assert_eq!(windows(&[&twice]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    // A chain has none.
    assert!(windows(&[&four([8, 8, 8, 8])]).is_empty());
    // The second one's A is the first one's D; the third one's D the second one's B.
    assert!(windows(&[&mfma(8, 0, 2, 8), &mfma(12, 10, 2, 12), &mfma(2, 20, 22, 2)]).is_empty());
    // C apart from D is read.
    assert!(windows(&[&mfma(8, 0, 2, 16), &mfma(16, 4, 6, 20)]).is_empty());
    // C that D lies across stays with the wave.
    assert!(windows(&[&mfma(8, 0, 2, 10), &mfma(16, 4, 6, 16)]).is_empty());
}

#[test]
fn registers_of_accumulators_are_others_than_those_of_the_same_number() {
    // v_accvgpr_write_b32 a8, v20, and of v8 by a product.
    let write = [0xd3d9_4008, 0x1800_0000 | (256 + 20)];
    assert!(passes(&write));
    let to_a8 = |mut product: Vec<u32>| {
        product[0] |= 1 << 15;
        product
    };
    let found = windows(&[&to_a8(mfma(8, 0, 2, 8)), &write, &mfma(12, 0, 4, 12)]);
    assert!(found.is_empty(), "{found:?}");
    let found = windows(&[&to_a8(mfma(8, 0, 2, 8)), &mfma(8, 0, 4, 8)]);
    assert_eq!(found, [[0, 1]]);
}
