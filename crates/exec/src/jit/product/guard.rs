//! Whether operands are within the bounds that products are compiled for: looked at before anything is written.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::matrix::{Element, Form, Guard};

use super::super::assembler::{Arg, CompileError, low, with3_imm};
use super::{Made, Maker, zmm};
use crate::matrix::{Product, Start};
use crate::registers::VectorRegisters;

/// `vpcmpuw`: below, not below.
const BELOW: u32 = 1;
const NOT_BELOW: u32 = 5;
/// Where the largest and the smallest elements are, the smallest accumulators, all ones, and masks of magnitudes.
const TOP: usize = 0;
const LOW: usize = 1;
const LEAST: usize = 2;
const ONES: usize = 3;
const MASKS: [usize; 2] = [4, 5];

/// Bounds of operands.
#[derive(Clone, Copy)]
pub enum Bounds {
    /// Those of the form.
    Sizes(Guard),
    /// E4M3 are no NaN.
    Numbers,
}

impl Bounds {
    /// Those of a form's products.
    pub fn of(form: &Form) -> Option<Bounds> {
        let numbers = form.elements().contains(&Element::Fp8);
        let sizes = form.guard().map(Bounds::Sizes);
        sizes.or(numbers.then_some(Bounds::Numbers))
    }
}

impl Maker {
    /// Goes to `outside` if operands are not within bounds.
    pub fn guard(&mut self, products: &[Product], bounds: Bounds, outside: u64) -> Made {
        match bounds {
            Bounds::Sizes(guard) => self.sizes(products, guard, outside),
            Bounds::Numbers => self.numbers(products, outside),
        }
    }

    /// Goes to `outside` if there are NaN of E4M3.
    fn numbers(&mut self, products: &[Product], outside: u64) -> Made {
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.three(xor, zmm(TOP), zmm(TOP), Arg::Reg(zmm(TOP)))?;
        self.immediate(zmm(MASKS[0]), 0x7f7f_7f7f)?;
        let mut seen = Vec::new();
        for product in products {
            let operands = [
                (product.a, product.counts[0]),
                (product.b, product.counts[1]),
            ];
            for ((first, count), element) in operands.into_iter().zip(product.form.elements()) {
                if element != Element::Fp8 {
                    continue;
                }
                self.every(&mut seen, first, count, |maker, from| {
                    let x = maker.magnitudes(MASKS[0], from)?;
                    let max = Code::EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512;
                    maker.three(max, zmm(TOP), zmm(TOP), Arg::Reg(x))
                })?;
            }
        }
        let compare = Code::EVEX_Vpcmpub_kr_k1_zmm_zmmm512_imm8;
        let (k, mask) = (Register::K1, Arg::Reg(zmm(MASKS[0])));
        self.asm.put(with3_imm(compare, k, zmm(TOP), mask, BELOW))?;
        self.two(Code::VEX_Kortestq_kr_kr, k, Arg::Reg(k))?;
        self.asm
            .put(Instruction::with_branch(Code::Jae_rel32_64, outside))
    }

    fn sizes(&mut self, products: &[Product], guard: Guard, outside: u64) -> Made {
        let ternary = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        for to in [LOW, LEAST, ONES] {
            let to = zmm(to);
            self.asm
                .put(with3_imm(ternary, to, to, Arg::Reg(to), 0xff))?;
        }
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.three(xor, zmm(TOP), zmm(TOP), Arg::Reg(zmm(TOP)))?;
        for (to, bits) in MASKS.into_iter().zip([0x7fff_7fff, 0x7fff_ffff]) {
            self.immediate(zmm(to), bits)?;
        }
        let mut seen = Vec::new();
        for product in products {
            for (first, count) in [
                (product.a, product.counts[0]),
                (product.b, product.counts[1]),
            ] {
                self.every(&mut seen, first, count, |maker, from| {
                    let x = maker.magnitudes(MASKS[0], from)?;
                    let max = Code::EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512;
                    maker.three(max, zmm(TOP), zmm(TOP), Arg::Reg(x))?;
                    // Zero wraps to the largest number.
                    let add = Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512;
                    maker.three(add, x, x, Arg::Reg(zmm(ONES)))?;
                    let min = Code::EVEX_Vpminuw_zmm_k1z_zmm_zmmm512;
                    maker.three(min, zmm(LOW), zmm(LOW), Arg::Reg(x))
                })?;
            }
        }
        // Sums that others go on with are what comes of accumulators that have been looked at.
        let mut seen = Vec::new();
        for product in products {
            if let Start::Register(c) = product.c {
                self.every(&mut seen, c, product.counts[2], |maker, from| {
                    let x = maker.magnitudes(MASKS[1], from)?;
                    let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
                    maker.three(add, x, x, Arg::Reg(zmm(ONES)))?;
                    let min = Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32;
                    maker.three(min, zmm(LEAST), zmm(LEAST), Arg::Reg(x))
                })?;
            }
            seen.push(product.d);
        }
        let twice = |bits: u32| bits << 16 | bits;
        let words = Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
        let doubles = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        let [first, last] = guard.elements;
        let bound = self.other();
        for (k, code, bits, of, how) in [
            (Register::K1, words, twice(last), TOP, BELOW),
            (Register::K2, words, twice(first - 1), LOW, NOT_BELOW),
            (Register::K3, doubles, guard.least - 1, LEAST, NOT_BELOW),
        ] {
            self.immediate(bound, bits)?;
            self.asm
                .put(with3_imm(code, k, zmm(of), Arg::Reg(bound), how))?;
        }
        let and = Code::VEX_Kandd_kr_kr_kr;
        self.three(and, Register::K1, Register::K1, Arg::Reg(Register::K2))?;
        for (test, k) in [
            (Code::VEX_Kortestd_kr_kr, Register::K1),
            (Code::VEX_Kortestw_kr_kr, Register::K3),
        ] {
            self.two(test, k, Arg::Reg(k))?;
            let jump = Instruction::with_branch(Code::Jae_rel32_64, outside);
            self.asm.put(jump)?;
        }
        Ok(())
    }

    /// Leaves without having done anything.
    pub fn outside(&mut self) -> Made {
        self.asm.put(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
        self.asm
            .put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, 1))?;
        self.asm.put(Ok(Instruction::with(Code::Retnq)))
    }

    /// Does something with each 16 lanes of registers, if `seen` does not have the first of them.
    fn every(
        &mut self,
        seen: &mut Vec<u32>,
        first: u32,
        count: u32,
        does: impl Fn(&mut Maker, MemoryOperand) -> Made,
    ) -> Made {
        if seen.contains(&first) {
            return Ok(());
        }
        seen.push(first);
        for register in first..first + count {
            let key = VectorRegisters::slot(self.lanes, register).key();
            for way in 0..self.lanes / 16 {
                let from = self.asm.row(key, way)?;
                does(self, from)?;
            }
        }
        Ok(())
    }

    /// The bits of a mask of 16 words.
    fn magnitudes(&mut self, mask: usize, from: MemoryOperand) -> Result<Register, CompileError> {
        let x = self.other();
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        self.three(and, x, zmm(mask), Arg::Mem(from))?;
        Ok(x)
    }

    /// A word for all lanes.
    pub fn immediate(&mut self, to: Register, bits: u32) -> Made {
        let [general, _] = self.asm.general();
        let general = low(general, 4);
        self.asm
            .put(Instruction::with2(Code::Mov_r32_imm32, general, bits))?;
        let spread = Code::EVEX_Vpbroadcastd_zmm_k1z_r32;
        self.asm.put(Instruction::with2(spread, to, general))
    }
}
