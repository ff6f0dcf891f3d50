//! The vectors of `data/numerics`: every tile goes into registers, through the instruction and
//! back, on every back end.

use std::io::Read;

use super::super::{COperand, Element, Family, MatrixOp, Operands, execute, layout};
use super::names::data;
use crate::backend::Backend;

fn element_bytes(element: Element) -> usize {
    element.bits() / 8
}

/// Writes the low `width` bits of `bits` into an item of a lane.
pub(super) fn put(rows: &mut [[u32; 64]], slot: layout::Slot, width: usize, bits: u64) {
    let bit = slot.item * width;
    for part in 0..width {
        let (reg, shift) = ((bit + part) / 32, (bit + part) % 32);
        let word = &mut rows[reg][slot.lane];
        *word = *word & !(1 << shift) | ((bits >> part & 1) as u32) << shift;
    }
}

pub(super) fn get(rows: &[[u32; 64]], slot: layout::Slot, width: usize) -> u64 {
    let bit = slot.item * width;
    let word = |reg: usize| u64::from(rows.get(reg).map_or(0, |row| row[slot.lane]));
    let value = (word(bit / 32) | word(bit / 32 + 1) << 32) >> (bit % 32);
    value & (u64::MAX >> (64 - width))
}

pub(super) fn rows(registers: &[[u32; 64]]) -> Vec<&[u32]> {
    registers.iter().map(|row| &row[..]).collect()
}

fn is_nan(element: Element, bits: u64) -> bool {
    match element {
        Element::F64 => f64::from_bits(bits).is_nan(),
        Element::F32 => f32::from_bits(bits as u32).is_nan(),
        _ => false,
    }
}

#[test]
fn all_vectors_on_every_backend() {
    let index = std::fs::read_to_string(data("numerics/mfma-vectors.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let mut bin = Vec::new();
    liblzma::read::XzDecoder::new(std::fs::File::open(data("numerics/mfma-vectors.bin.xz")).unwrap())
        .read_to_end(&mut bin)
        .unwrap();
    let instructions = index["instructions"].as_array().unwrap();
    assert_eq!(instructions.len(), 59);
    for inst in instructions {
        let name = inst["mnemonic"].as_str().unwrap();
        let family = Family::from_target(inst["target"].as_str().unwrap()).unwrap();
        let op = MatrixOp::from_mnemonic(name, family).unwrap();
        let number = |key: &str| inst[key].as_u64().unwrap() as usize;
        assert_eq!((op.m, op.n, op.k, op.blocks), (number("m"), number("n"), number("k"), number("blocks")), "{name}");
        let tiles = number("tiles");
        let load = |key: &str, element: Element, at: usize| {
            let size = element_bytes(element);
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&bin[number(key) + at * size..][..size]);
            u64::from_le_bytes(bytes)
        };
        let need = op.registers();
        let (sa, sb) = (layout::a_split(&op), layout::b_split(&op));
        // Blocks of different tiles, then all blocks of one tile: a special value in one block
        // sends the others to the scalar reference.
        let mixed = (0..tiles).step_by(op.blocks).map(|first| (first, 1));
        let alike = (0..if op.blocks > 1 { tiles } else { 0 }).map(|first| (first, 0));
        for (first, step) in mixed.chain(alike) {
            let tile = |block: usize| (first + step * block) % tiles;
            let mut a = vec![[0; 64]; need.a];
            let mut b = vec![[0; 64]; need.b];
            let mut c = vec![[0; 64]; need.c];
            for block in 0..op.blocks {
                for i in 0..op.m {
                    for k in 0..op.k {
                        let bits = load("a_offset", op.a, (tile(block) * op.m + i) * op.k + k);
                        put(&mut a, layout::a_slot(&op, sa, block, i, k), op.a.bits(), bits);
                    }
                    for j in 0..op.n {
                        let bits = load("c_offset", op.c, (tile(block) * op.m + i) * op.n + j);
                        put(&mut c, layout::d_slot(&op, block, i, j), op.c.bits(), bits);
                    }
                }
                for k in 0..op.k {
                    for j in 0..op.n {
                        let bits = load("b_offset", op.b, (tile(block) * op.k + k) * op.n + j);
                        put(&mut b, layout::b_slot(&op, sb, block, k, j), op.b.bits(), bits);
                    }
                }
            }
            for backend in Backend::ALL.into_iter().filter(|backend| backend.is_supported()) {
                if step == 0 && backend == Backend::Scalar {
                    continue;
                }
                let mut d = vec![[0; 64]; need.d];
                let (a, b, c) = (rows(&a), rows(&b), rows(&c));
                execute(&op, backend, &Operands::dense(&a, &b, COperand::Rows(&c)), &mut d).unwrap();
                for block in 0..op.blocks {
                    for i in 0..op.m {
                        for j in 0..op.n {
                            let want = load("d_offset", op.d, (tile(block) * op.m + i) * op.n + j);
                            let got = get(&d, layout::d_slot(&op, block, i, j), op.d.bits());
                            assert!(
                                got == want || is_nan(op.d, got) && is_nan(op.d, want),
                                "{name} on {}: tile {} D[{i}][{j}] = {got:#x}, expected {want:#x}",
                                backend.name(),
                                tile(block)
                            );
                        }
                    }
                }
            }
        }
    }
}
