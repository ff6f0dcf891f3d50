//! A and B of matrix products as rows of the area: one element of 32 bits to a lane, or four bytes.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::matrix::{Element, Form, Sums};

use super::super::assembler::{
    Arg, CompileError, half, masked, with2, with2_imm, with3, with3_imm,
};
use super::{Made, Maker, OF_B, Panel, XOR, flips, is_float, pool, zmm};
use crate::matrix::Product;

pub const AND: Code = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
/// Where a factor is, while A is decoded.
const FACTOR: usize = 15;

impl Maker {
    /// A's or B's vectors of f32, or of four bytes, in the area: by k, then side by side.
    pub fn panel(&mut self, product: &Product, of: usize) -> Result<usize, CompileError> {
        let register = [product.a, product.b][of];
        if let Some(first) = self.known(register, of) {
            return Ok(first);
        }
        let form = &product.form;
        let [m, n, k] = form.shape();
        let width = [m, n][of] / 16;
        let sides = width * form.blocks();
        let groups = self.groups;
        let whole = groups.is_some_and(|groups| groups.whole.is_some());
        let first = self.rows(self.operand_rows(form));
        if groups.is_some() {
            self.prepare_exponents(form.elements()[of])?;
        }
        if whole {
            self.prepare_pairs()?;
        }
        let missing = missing(form);
        if of == 0 && missing != 0 && !whole {
            self.immediate(zmm(FACTOR), ((127 + missing) as u32) << 23)?;
        }
        // Bytes stay together.
        let items = if is_float(form) { form.per_word() } else { 1 };
        let words = (0..k).step_by(form.per_word());
        for (word, k) in words.enumerate() {
            for side in 0..sides {
                let (block, at) = (side / width, 16 * (side % width));
                let place = if of == 0 {
                    form.a(block, at, k)
                } else {
                    form.b(block, k, at)
                };
                let from = self.row(register, place)?;
                if let Some(groups) = groups {
                    let (_, at) = groups.place(form, side, k);
                    self.exponents(form.elements()[of], from, 64 * first as i64 + at)?;
                }
                if whole && let Some(groups) = groups {
                    let (row, _) = groups.place(form, side, k);
                    self.decoded ^= 4;
                    for (i, x) in self.pairs(from)?.into_iter().enumerate() {
                        self.store(Self::area(first + row + i), x)?;
                    }
                    continue;
                }
                let decoded = self.decode(form, of, from)?;
                for (i, x) in decoded.into_iter().take(items).enumerate() {
                    let row = match groups {
                        Some(groups) => groups.place(form, side, k + i).0,
                        None => (word * items + i) * sides + side,
                    };
                    self.store(Self::area(first + row), x)?;
                }
            }
        }
        self.panels.push(Panel {
            register,
            of,
            first,
        });
        Ok(first)
    }

    /// Decodes 16 words of A (0) or B (1), in registers of B: two or four vectors by k.
    fn decode(
        &mut self,
        form: &Form,
        of: usize,
        from: MemoryOperand,
    ) -> Result<[Register; 4], CompileError> {
        let element = form.elements()[of];
        self.decoded ^= 4;
        let [x, y, high_x, high_y] = [0, 1, 2, 3].map(|i| zmm(OF_B + self.decoded + i));
        match element {
            Element::F32 => {
                self.load(x, from)?;
                if form.flushes() {
                    self.flush(x)?;
                }
                Ok([x, x, x, x])
            }
            Element::Xf32 => {
                self.load(x, from)?;
                let kept = self.constant(pool::XF32);
                self.three(AND, x, x, kept)?;
                Ok([x, x, x, x])
            }
            Element::I8 | Element::Iu8 => {
                self.load(x, from)?;
                if let Sums::Bytes { signed } = form.sums()
                    && flips(signed)
                    && of == 0
                {
                    let signs = self.constant(pool::SIGNS);
                    self.three(XOR, x, x, signs)?;
                }
                Ok([x, x, x, x])
            }
            Element::F16 => {
                self.load(x, from)?;
                if form.flushes() {
                    let exponents = self.spread(pool::EXPONENTS16)?;
                    let test = Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512;
                    self.three(test, Register::K7, x, Arg::Reg(exponents))?;
                    let code = Code::EVEX_Vmovdqu16_zmm_k1z_zmmm512;
                    let normal = masked(with2(code, x, Arg::Reg(x)), Register::K7);
                    self.asm.put(zeroing(normal))?;
                }
                self.halves(x, high_x)?;
                Ok([x, high_x, x, high_x])
            }
            Element::Bf16 => {
                let shift = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
                self.asm.put(with2_imm(shift, x, Arg::Mem(from), 16))?;
                self.load(y, from)?;
                let upper = self.constant(pool::UPPER);
                self.three(AND, y, y, upper)?;
                Ok([x, y, x, y])
            }
            _ => {
                // Even and odd bytes as upper halves of f16, or what becomes these.
                let shift = Code::EVEX_Vpsllw_zmm_k1z_zmmm512_imm8;
                self.asm.put(with2_imm(shift, x, Arg::Mem(from), 8))?;
                self.load(y, from)?;
                for x in [x, y] {
                    if is_e4m3(element) {
                        self.e4m3_as_f16(x)?;
                    }
                }
                if !is_e4m3(element) {
                    let upper = self.constant(pool::BYTES);
                    self.three(AND, y, y, upper)?;
                }
                self.halves(x, high_x)?;
                self.halves(y, high_y)?;
                let all = [x, y, high_x, high_y];
                // Products lack the factors of both.
                if of == 0 && missing(form) != 0 {
                    for x in all {
                        let factor = Arg::Reg(zmm(FACTOR));
                        self.three(Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, x, x, factor)?;
                    }
                }
                Ok(all)
            }
        }
    }

    /// A word of the pool for all lanes in a register.
    fn spread(&mut self, at: i64) -> Result<Register, CompileError> {
        let to = self.other();
        let code = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.two(code, to, Arg::Mem(self.pooled(at)))?;
        Ok(to)
    }

    /// The low f16 of each word in the same register, and the high ones in another.
    fn halves(&mut self, x: Register, high: Register) -> Made {
        self.load(high, self.pooled(pool::HALVES))?;
        let permute = Code::EVEX_Vpermw_zmm_k1z_zmm_zmmm512;
        self.three(permute, x, high, Arg::Reg(x))?;
        let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
        self.asm
            .put(Instruction::with3(upper, half(high), x, 1u32))?;
        let convert = Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
        self.two(convert, high, Arg::Reg(half(high)))?;
        self.two(convert, x, Arg::Reg(half(x)))
    }

    /// Upper bytes of 16-bit words, E4M3 that are no NaN, as f16 that are less by a factor of 2^8.
    fn e4m3_as_f16(&mut self, x: Register) -> Made {
        let rest = self.other();
        let shift = Code::EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8;
        self.asm.put(with2_imm(shift, rest, Arg::Reg(x), 1))?;
        // The sign of the one, the rest of the other.
        let signs = self.constant(pool::SIGNS16);
        let select = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        self.asm.put(with3_imm(select, x, rest, signs, 0xe4))?;
        let kept = self.constant(pool::AS_F16);
        self.three(AND, x, x, kept)
    }

    /// Makes f32 +0 that are subnormal or zero.
    pub fn flush(&mut self, x: Register) -> Made {
        let exponent = self.constant(pool::EXPONENT);
        let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
        self.three(test, Register::K7, x, exponent)?;
        let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
        let normal = masked(with2(code, x, Arg::Reg(x)), Register::K7);
        self.asm.put(zeroing(normal))
    }

    /// 128 times the sums of the bytes of B's columns in the area; less than zero for signed ones.
    pub fn byte_sums(&mut self, product: &Product, signed: bool) -> Result<usize, CompileError> {
        if let Some(first) = self.known(product.b, 2) {
            return Ok(first);
        }
        let form = &product.form;
        let [_, n, k] = form.shape();
        let width = n / 16;
        let first = self.rows(width * form.blocks());
        let ones = self.spread(pool::ONES)?;
        let clear = |to: Register| with3(XOR, to, to, Arg::Reg(to));
        let dot = Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32;
        for side in 0..width * form.blocks() {
            let (sum, x) = (zmm(OF_B + side % 4), zmm(OF_B + 4 + side % 4));
            self.asm.put(clear(sum))?;
            for k in (0..k).step_by(4) {
                let place = form.b(side / width, k, 16 * (side % width));
                let from = self.row(product.b, place)?;
                if signed {
                    self.three(dot, sum, ones, Arg::Mem(from))?;
                } else {
                    self.load(x, from)?;
                    self.three(dot, sum, x, Arg::Reg(ones))?;
                }
            }
            let shift = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
            self.asm.put(with2_imm(shift, sum, Arg::Reg(sum), 7))?;
            if signed {
                self.asm.put(clear(x))?;
                self.three(
                    Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
                    sum,
                    x,
                    Arg::Reg(sum),
                )?;
            }
            self.store(Self::area(first + side), sum)?;
        }
        self.panels.push(Panel {
            register: product.b,
            of: 2,
            first,
        });
        Ok(first)
    }
}

fn is_e4m3(element: Element) -> bool {
    matches!(element, Element::Fp8 | Element::Fp8Fnuz)
}

/// log2 of what products of elements of eight bits are larger by than those of what is decoded of them.
fn missing(form: &Form) -> i32 {
    let of = |element| match element {
        Element::Fp8 => 8,
        Element::Fp8Fnuz => 7,
        Element::Bf8Fnuz => -1,
        _ => 0,
    };
    form.elements().into_iter().map(of).sum()
}

/// Lanes without a bit in the mask become zero.
pub fn zeroing(
    instruction: Result<Instruction, iced_x86::IcedError>,
) -> Result<Instruction, iced_x86::IcedError> {
    instruction.map(|mut i| {
        i.set_zeroing_masking(true);
        i
    })
}
