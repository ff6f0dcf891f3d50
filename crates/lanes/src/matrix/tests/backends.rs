//! Every instruction of the tables gives the same bits on every back end, for ordinary and for
//! special operands and for every modifier.

use std::collections::BTreeSet;

use super::super::{
    COperand, Element, Family, Kind, MatrixOp, Operands, Prepared, ScaleFormat, ScaleOperand,
    execute, formats,
};
use super::names::table;
use super::vectors::{put, rows};
use crate::backend::Backend;
use crate::matrix::layout::Slot;

/// A small deterministic generator.
pub(super) struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.bits() >> 32) % n
    }

    /// About normal.
    fn gauss(&mut self) -> f64 {
        (0..8)
            .map(|_| self.bits() as f64 / u64::MAX as f64 - 0.5)
            .sum::<f64>()
            * 1.2
    }
}

/// What the operands of a case look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Data {
    Gauss,
    /// Small integers: sums are exact.
    Integers,
    /// Exponents far apart.
    Wide,
    /// Many zeros, and tiny numbers.
    Sparse,
    /// Random patterns, NaN and infinities among them.
    Bits,
    /// A far larger accumulator.
    Drift,
}

const DATA: [Data; 6] = [
    Data::Gauss,
    Data::Integers,
    Data::Wide,
    Data::Sparse,
    Data::Bits,
    Data::Drift,
];

/// Bits of an element nearest to a value; formats below 16 bits get random patterns instead.
fn encode(element: Element, value: f64, random: &mut Random) -> u64 {
    match element {
        Element::F64 => value.to_bits(),
        Element::F32 | Element::Xf32 => u64::from((value as f32).to_bits()),
        Element::F16 => u64::from(formats::f32_to_f16(value as f32)),
        Element::Bf16 => u64::from(formats::f32_to_bf16(value as f32)),
        Element::I32 => value as i64 as u64,
        _ => random.bits(),
    }
}

fn element(element: Element, data: Data, accumulator: bool, random: &mut Random) -> u64 {
    let value = match data {
        Data::Bits => return random.bits(),
        Data::Gauss => random.gauss(),
        Data::Integers => random.below(17) as f64 - 8.0,
        Data::Wide => random.gauss() * 2f64.powi(random.below(60) as i32 - 30),
        Data::Sparse => match random.below(4) {
            0 => random.gauss(),
            1 => random.gauss() * 2f64.powi(-(random.below(100) as i32)),
            _ => 0.0,
        },
        Data::Drift if accumulator => random.gauss() * 2f64.powi(random.below(12) as i32),
        Data::Drift => random.gauss() * 0.25,
    };
    // Formats below 16 bits: no NaN but in `Bits`, few large values.
    if element.bits() == 8 && !element.is_integer() {
        return match data {
            Data::Sparse if random.below(2) == 0 => 0,
            _ => random.bits() & 0x80 | (random.below(0x60) + 1),
        };
    }
    encode(element, value, random)
}

/// Registers filled with elements.
pub(super) fn registers(
    count: usize,
    kind: Element,
    data: Data,
    accumulator: bool,
    random: &mut Random,
) -> Vec<[u32; 64]> {
    let mut out = vec![[0; 64]; count];
    let width = kind.bits();
    for lane in 0..64 {
        for item in 0..count * 32 / width {
            let bits = element(kind, data, accumulator, random);
            put(&mut out, Slot { lane, item }, width, bits);
        }
    }
    out
}

/// All instructions of the tables, the formats of F8F6F4 and the wave sizes of RDNA included.
pub(super) fn all() -> Vec<MatrixOp> {
    let mut out: Vec<MatrixOp> = Vec::new();
    let mut seen = BTreeSet::new();
    for target in [
        "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250",
    ] {
        let family = Family::from_target(target).unwrap();
        for (names, _) in table(target) {
            let name = names.split(' ').next().unwrap().to_string();
            if !seen.insert((target, name.clone())) {
                continue;
            }
            let op = MatrixOp::from_mnemonic(&name, family).unwrap();
            let formats = if op.f8f6f4 { 0..25 } else { 0..1 };
            for code in formats {
                let op = op.with_formats(code % 5, code / 5).unwrap();
                out.push(op);
                if matches!(family, Family::Rdna3 | Family::Rdna4) {
                    out.push(MatrixOp { wave: 64, ..op });
                }
            }
        }
    }
    out.push(MatrixOp::from_mnemonic("v_mfma_f32_32x32x8f16", Family::Cdna1).unwrap());
    out.push(MatrixOp::from_mnemonic("v_mfma_f32_16x16x8bf16", Family::Cdna1).unwrap());
    out
}

/// Legal modifiers, most of the time none.
fn modify(op: &mut MatrixOp, random: &mut Random) {
    if random.below(3) != 0 {
        return;
    }
    let mods = &mut op.mods;
    if op.family.is_mfma() {
        if !op.f8f6f4 {
            mods.blgp = random.below(8) as u8;
            let log = op.blocks.trailing_zeros();
            mods.cbsz = random.below(u64::from(log) + 1) as u8;
            mods.abid = random.below(1 << mods.cbsz) as u8;
        }
        if op.kind == Kind::Sparse {
            (mods.cbsz, mods.abid, mods.blgp) = (0, random.below(4) as u8, 0);
        }
        mods.flush_f32 = random.below(4) == 0;
    } else {
        mods.neg = random.below(8) as u8;
        mods.neg_hi = random.below(8) as u8;
        mods.op_sel = random.below(8) as u8;
        mods.clamp = op.a.is_integer() && random.below(2) == 0;
        mods.index_key = random.below(4) as u8;
    }
    mods.fp16_ovfl = random.below(4) == 0;
    mods.scale_sel_a = random.below(4) as u8;
    mods.scale_sel_b = random.below(4) as u8;
    if op.family == Family::Gfx1250 {
        mods.scale_fmt_a = ScaleFormat::from_code(random.below(3) as u8).unwrap();
        mods.scale_fmt_b = ScaleFormat::from_code(random.below(3) as u8).unwrap();
    }
}

#[test]
fn back_ends_agree() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let back_ends: Vec<Backend> = [Backend::Avx2, Backend::Avx512]
        .into_iter()
        .filter(|b| b.is_supported())
        .collect();
    let mut cases = 0;
    for op in all() {
        if op.kind == Kind::LoadScale {
            continue;
        }
        for data in DATA.into_iter().cycle().take(12) {
            let mut op = op;
            modify(&mut op, &mut random);
            let need = op.registers();
            let a = registers(need.a, op.a, data, false, &mut random);
            let b = registers(need.b, op.b, data, false, &mut random);
            let c = registers(need.c, op.c, data, true, &mut random);
            let index = registers(need.index, Element::I32, Data::Bits, false, &mut random);
            let index: Vec<_> = index.iter().map(|row| row.map(ordered_pairs)).collect();
            let scale = |random: &mut Random| -> Vec<[u32; 64]> {
                let byte = |random: &mut Random| (random.below(20) as u32 + 110) * 0x0101_0101;
                (0..need.scale)
                    .map(|_| std::array::from_fn(|_| byte(random)))
                    .collect()
            };
            let (scale_a, scale_b) = (scale(&mut random), scale(&mut random));
            let (a, b, c, index) = (rows(&a), rows(&b), rows(&c), rows(&index));
            let (scale_a, scale_b) = (rows(&scale_a), rows(&scale_b));
            let constant = if op.c == Element::F64 {
                1f64.to_bits()
            } else {
                u64::from(1f32.to_bits())
            };
            let source = match random.below(4) {
                _ if op.kind == Kind::Sparse => COperand::InPlace,
                0 => COperand::Constant(constant),
                1 if op.c == op.d => COperand::InPlace,
                _ => COperand::Rows(&c),
            };
            let operands = Operands {
                a: &a,
                b: &b,
                c: source,
                index: &index,
                scale_a: ScaleOperand::Rows(&scale_a),
                scale_b: ScaleOperand::Rows(&scale_b),
            };
            let old: Vec<[u32; 64]> = c.iter().map(|row| (*row).try_into().unwrap()).collect();
            let mut start = vec![[0x5a5a_5a5a; 64]; need.d.max(need.c)];
            start[..old.len()].copy_from_slice(&old);
            let mut want = start.clone();
            execute(&op, Backend::Scalar, &operands, &mut want).unwrap();
            for (&back_end, apart) in back_ends.iter().flat_map(|b| [(b, false), (b, true)]) {
                let mut got = start.clone();
                Prepared::new(&op, apart)
                    .execute(back_end, &operands, &mut got)
                    .unwrap();
                if let Some(at) =
                    (0..want.len() * 64).find(|at| want[at / 64][at % 64] != got[at / 64][at % 64])
                {
                    let (register, lane) = (at / 64, at % 64);
                    panic!(
                        "{} {apart} {op:?} {data:?} {source:.0?}: register {register} lane {lane} is {:#x}, scalar {:#x}",
                        back_end.name(),
                        got[register][lane],
                        want[register][lane]
                    );
                }
            }
            cases += 1;
        }
    }
    assert!(cases > 3000, "{cases}");
}

/// Makes every pair of two-bit indices ascending, as the manuals demand.
pub(super) fn ordered_pairs(word: u32) -> u32 {
    const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    (0..8).fold(0, |out, i| {
        out | PAIRS[(word >> (4 * i) & 15) as usize % 6] << (4 * i)
    })
}
