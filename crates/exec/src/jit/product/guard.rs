//! Whether A and B are within the bounds that products are compiled for: looked at before anything is written. Accumulators
//! are looked at where they are loaded.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::matrix::{Element, Form, Guard, Sums};

use super::super::assembler::{Arg, CompileError, low, with3_imm};
use super::{Made, Maker, zmm};
use crate::matrix::Product;
use crate::registers::VectorRegisters;

/// `vpcmpu`: below, not below.
pub const BELOW: u32 = 1;
pub const NOT_BELOW: u32 = 5;
/// Where the largest and the smallest elements are, all their bits, all ones, and the mask of magnitudes.
const TOP: [usize; 2] = [0, 1];
const LOW: usize = 2;
const BITS: usize = 3;
const ONES: usize = 4;
const MASK: usize = 5;

/// Bounds of operands.
#[derive(Clone, Copy)]
pub enum Bounds {
    /// Those of the form.
    Sizes(Guard),
    /// Elements of eight bits are finite, and have a magnitude that is decoded.
    Numbers,
    /// E4M3 of small exponents, see [`Groups::whole`](super::Groups).
    Small,
}

/// E4M3 from 2^4 on, or FNUZ from 2^3 on.
const SMALL: u8 = 11 << 3;

/// The least magnitude of eight bits that is not decoded, and whether 0x80 is NaN.
fn limits(element: Element, sums: Sums) -> (Option<u8>, bool) {
    match (element, sums) {
        (Element::Fp8, _) => (Some(0x7f), false),
        (Element::Bf8, Sums::Fused { .. }) => (Some(0x7c), false),
        (Element::Fp8Fnuz, _) => (None, true),
        // Those that are infinite or NaN as upper halves of f16.
        (Element::Bf8Fnuz, _) => (Some(0x7c), true),
        _ => (None, false),
    }
}

impl Bounds {
    /// Those of a form's products.
    pub fn of(form: &Form) -> Option<Bounds> {
        let limited = |element| limits(element, form.sums()) != (None, false);
        let numbers = form.elements().into_iter().any(limited);
        let sizes = form.guard().map(Bounds::Sizes);
        sizes.or(numbers.then_some(Bounds::Numbers))
    }
}

impl Maker {
    /// Goes to `outside` if operands are not within bounds.
    pub fn guard(&mut self, products: &[Product], bounds: Bounds, outside: u64) -> Made {
        match bounds {
            Bounds::Sizes(guard) => self.sizes(products, guard, outside),
            Bounds::Numbers => self.numbers(products, None, outside),
            Bounds::Small => self.numbers(products, Some(SMALL), outside),
        }
    }

    fn clear(&mut self, register: usize) -> Made {
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.three(xor, zmm(register), zmm(register), Arg::Reg(zmm(register)))
    }

    fn fill(&mut self, register: usize) -> Made {
        let ternary = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        let to = zmm(register);
        self.asm.put(with3_imm(ternary, to, to, Arg::Reg(to), 0xff))
    }

    /// Goes to `outside` if there are NaN or infinities of eight bits, or numbers that are not decoded, or of a `limit`.
    fn numbers(&mut self, products: &[Product], limit: Option<u8>, outside: u64) -> Made {
        let form = products[0].form;
        let limits = form.elements().map(|element| {
            let (decoded, nan) = limits(element, form.sums());
            (limit.or(decoded), nan)
        });
        TOP.into_iter().try_for_each(|top| self.clear(top))?;
        self.fill(LOW)?;
        self.immediate(zmm(MASK), 0x7f7f_7f7f)?;
        self.immediate(zmm(ONES), 0x8080_8080)?;
        for (of, (limit, nan)) in limits.into_iter().enumerate() {
            let mut seen = Vec::new();
            for product in products {
                let first = [product.a, product.b][of];
                self.every(&mut seen, first, product.counts[of], |maker, from| {
                    if limit.is_some() {
                        let x = maker.magnitudes(MASK, from)?;
                        let max = Code::EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512;
                        maker.three(max, zmm(TOP[of]), zmm(TOP[of]), Arg::Reg(x))?;
                    }
                    if nan {
                        let x = maker.other();
                        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                        maker.three(xor, x, zmm(ONES), Arg::Mem(from))?;
                        let min = Code::EVEX_Vpminub_zmm_k1z_zmm_zmmm512;
                        maker.three(min, zmm(LOW), zmm(LOW), Arg::Reg(x))?;
                    }
                    Ok(())
                })?;
            }
        }
        let k = [Register::K1, Register::K2, Register::K3];
        let compare = Code::EVEX_Vpcmpub_kr_k1_zmm_zmmm512_imm8;
        let bound = self.other();
        for of in 0..2 {
            let limit = limits[of].0.unwrap_or(0x80);
            self.immediate(bound, u32::from(limit) * 0x0101_0101)?;
            let top = zmm(TOP[of]);
            self.asm
                .put(with3_imm(compare, k[of], top, Arg::Reg(bound), BELOW))?;
        }
        let test = Code::EVEX_Vptestmb_kr_k1_zmm_zmmm512;
        self.three(test, k[2], zmm(LOW), Arg::Reg(zmm(LOW)))?;
        for other in [k[1], k[2]] {
            self.three(Code::VEX_Kandq_kr_kr_kr, k[0], k[0], Arg::Reg(other))?;
        }
        self.two(Code::VEX_Kortestq_kr_kr, k[0], Arg::Reg(k[0]))?;
        self.asm
            .put(Instruction::with_branch(Code::Jae_rel32_64, outside))
    }

    fn sizes(&mut self, products: &[Product], guard: Guard, outside: u64) -> Made {
        let top = TOP[0];
        // By words of 32 or 16 bits.
        let wide = products[0].form.per_word() == 1;
        let by = |doubles: Code, words: Code| if wide { doubles } else { words };
        let each = |bits: u32| if wide { bits } else { bits << 16 | bits };
        self.clear(top)?;
        self.clear(BITS)?;
        self.fill(LOW)?;
        self.fill(ONES)?;
        self.immediate(zmm(MASK), each(if wide { 0x7fff_ffff } else { 0x7fff }))?;
        let [first, last] = guard.elements;
        let mut seen = Vec::new();
        for product in products {
            for (operand, count) in [
                (product.a, product.counts[0]),
                (product.b, product.counts[1]),
            ] {
                self.every(&mut seen, operand, count, |maker, from| {
                    let x = maker.magnitudes(MASK, from)?;
                    let max = by(
                        Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
                        Code::EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512,
                    );
                    maker.three(max, zmm(top), zmm(top), Arg::Reg(x))?;
                    if guard.whole != 0 {
                        let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
                        maker.three(or, zmm(BITS), zmm(BITS), Arg::Reg(x))?;
                    }
                    if first <= 1 {
                        return Ok(());
                    }
                    // Zero wraps to the largest number.
                    let add = by(
                        Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
                        Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512,
                    );
                    maker.three(add, x, x, Arg::Reg(zmm(ONES)))?;
                    let min = by(
                        Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
                        Code::EVEX_Vpminuw_zmm_k1z_zmm_zmmm512,
                    );
                    maker.three(min, zmm(LOW), zmm(LOW), Arg::Reg(x))
                })?;
            }
        }
        let compare = by(
            Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
            Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8,
        );
        let bound = self.other();
        for (k, bits, of, how) in [
            (Register::K1, last, top, BELOW),
            (Register::K2, first.saturating_sub(1), LOW, NOT_BELOW),
        ] {
            self.immediate(bound, each(bits))?;
            self.asm
                .put(with3_imm(compare, k, zmm(of), Arg::Reg(bound), how))?;
        }
        let and = Code::VEX_Kandd_kr_kr_kr;
        self.three(and, Register::K1, Register::K1, Arg::Reg(Register::K2))?;
        let k = Arg::Reg(Register::K1);
        let test = by(Code::VEX_Kortestw_kr_kr, Code::VEX_Kortestd_kr_kr);
        self.two(test, Register::K1, k)?;
        self.asm
            .put(Instruction::with_branch(Code::Jae_rel32_64, outside))?;
        if guard.whole != 0 {
            self.immediate(bound, each(guard.whole))?;
            let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
            self.three(test, Register::K1, zmm(BITS), Arg::Reg(bound))?;
            self.two(Code::VEX_Kortestw_kr_kr, Register::K1, k)?;
            self.asm
                .put(Instruction::with_branch(Code::Je_rel32_64, outside))?;
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
