//! Products by CDNA 3's rule: products of a group truncated to the grid of their largest exponent sum, added as integers,
//! aligned with the accumulator and rounded once. `lanes/matrix/x86/kernels/fused.rs` says why these steps give the bits.
//! Four rows of 16 columns at a time.

use iced_x86::{Code, Instruction, MemoryOperand, Register, RoundingControl};
use rocjitsu_lanes::matrix::{Element, Form, Sums};

use super::super::assembler::{
    Arg, CompileError, half, masked, with2, with2_imm, with3, with3_imm,
};
use super::decode::{AND, zeroing};
use super::guard::BELOW;
use super::{ADD, END, Made, Maker, OF_A_AT, OF_B, OF_B_AT, UNORDERED, XOR, append, pool, zmm};
use crate::matrix::{Product, Start};

/// Rows at a time.
const ROWS: usize = 4;
/// Registers of each row: accumulators, results, sums of products (of even k), 2^(24 - E) as bits; of odd k, while results
/// are not there, sums, and 2^(24 - E).
const OLD: usize = 0;
const NEW: usize = 4;
const TOTAL: usize = 8;
const SCALE: usize = 12;
const ODD_TOTAL: usize = NEW;
const ODD_SCALE: usize = 22;
/// The largest exponent sums of even k, and of odd ones, as bytes of four rows.
const TOPS: usize = ODD_SCALE;
/// Constants: exponent fields that are the sum of that of 2^E and of 2^(24 - E), and of 2^(24 - E) and of 2^(E - 24);
/// the row of a byte; 2^30; the exponent of no products, and the bias of exponents, as bytes.
const SCALES: usize = 16;
const UNITS: usize = 17;
const PICK: usize = 18;
const NEAR: usize = 19;
const FLOOR: usize = 20;
const BIAS: usize = 21;
/// Registers for anything, six of them.
const FREE: usize = 26;
/// While operands are decoded: what the exponents of their elements are made with.
const EXPONENTS: usize = 0;
/// The same of pairs of integers.
const PAIRS: usize = 9;

/// Numbers of `vcmpps` and `vpcmp`: not less, or NaN; greater.
const NOT_LESS: u32 = 5;
const GREATER: u32 = 6;

const MULTIPLY: Code = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
const SUBTRACT: Code = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
const INTEGER: Code = Code::EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er;
const FLOAT: Code = Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er;
const OR: Code = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
const MAX: Code = Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32;
const MOVE: Code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
const LEFT: Code = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
const RIGHT: Code = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
const ARITHMETIC: Code = Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32;
const COMPARE: Code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
const EQUAL: Code = Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32;

/// How products of a form are grouped: products of a group, and whether even and odd k have grids of their own.
#[derive(Clone, Copy)]
pub struct Groups {
    pub size: usize,
    pub parity: bool,
    /// E4M3 with so large a bias as integers of 16 bits, in units of the smallest number: with exponents up to 10 less the
    /// bias no product is truncated, whatever the grid, and sums of 16 have 30 bits. Then parity makes no difference to them.
    pub whole: Option<u32>,
}

impl Groups {
    /// How products of a form are grouped, if that is CDNA 3's rule.
    pub fn of(form: &Form) -> Option<Groups> {
        match form.sums() {
            Sums::Fused { group, parity } => Some(Groups {
                size: group,
                parity,
                whole: None,
            }),
            _ => None,
        }
    }

    /// The same for E4M3 that are small.
    pub fn of_small(form: &Form) -> Option<Groups> {
        let bias = match form.elements() {
            [Element::Fp8, Element::Fp8] => 7,
            [Element::Fp8Fnuz, Element::Fp8Fnuz] => 8,
            _ => return None,
        };
        Groups::of(form).map(|groups| Groups {
            whole: Some(bias),
            ..groups
        })
    }

    /// Rows of the area for elements of a group: one to a word, or two.
    fn elements(self) -> usize {
        self.size / if self.whole.is_some() { 2 } else { 1 }
    }

    /// Rows of the area that 16 rows or columns of a group take: elements, then their exponents as bytes.
    fn rows(self) -> usize {
        self.elements() + self.size.div_ceil(4)
    }

    /// Rows of the area of an operand.
    pub fn area_rows(self, form: &Form) -> usize {
        let [m, _, k] = form.shape();
        m / 16 * form.blocks() * (k / self.size) * self.rows()
    }

    /// Where the elements of 16 rows or columns lie, from the beginning of their operand, for a k; and their exponents, in
    /// bytes.
    pub fn place(self, form: &Form, side: usize, k: usize) -> (usize, i64) {
        let groups = form.shape()[2] / self.size;
        let group = (side * groups + k / self.size) * self.rows();
        let exponents = 64 * (group + self.elements()) + 16 * (k % self.size);
        let element = k % self.size * self.elements() / self.size;
        (group + element, exponents as i64)
    }

    fn parities(self) -> usize {
        if self.parity && self.whole.is_none() {
            2
        } else {
            1
        }
    }
}

/// The exponents of an element: bits, bits of the mantissa, those of the exponent from its lowest on, bias.
fn encoding(element: Element) -> Option<(u32, u32, u32, u32)> {
    Some(match element {
        Element::Xf32 => (32, 23, 0xff, 127),
        Element::F16 => (16, 10, 0x1f, 15),
        Element::Bf16 => (16, 7, 0xff, 127),
        Element::Fp8 => (8, 3, 0xf, 7),
        Element::Fp8Fnuz => (8, 3, 0xf, 8),
        Element::Bf8 => (8, 2, 0x1f, 15),
        Element::Bf8Fnuz => (8, 2, 0x1f, 16),
        _ => return None,
    })
}

fn free(n: usize) -> Register {
    zmm(FREE + n)
}

fn down(
    instruction: Result<Instruction, iced_x86::IcedError>,
) -> Result<Instruction, iced_x86::IcedError> {
    instruction.map(|mut i| {
        i.set_rounding_control(RoundingControl::RoundDown);
        i
    })
}

impl Maker {
    /// The parts of the core, from address `at` on. Returns where it begins.
    pub fn fused_cores(
        groups: Groups,
        bytes: &mut Vec<u8>,
        maker: &dyn Fn(usize) -> Maker,
    ) -> Result<usize, CompileError> {
        let mut put = |emit: &dyn Fn(&mut Maker) -> Made| append(bytes, maker, emit);
        let far = put(&|maker| {
            maker.far(groups)?;
            maker.back()
        })?;
        let tiny = put(&|maker| {
            maker.tops(groups)?;
            maker.sums(groups)?;
            maker.far(groups)?;
            maker.tiny(groups)?;
            maker.back()
        })?;
        let near = put(&|maker| {
            maker.sums(groups)?;
            maker.near(groups, far as u64)?;
            maker.back()
        })?;
        let empty = put(&|maker| maker.empty(tiny as u64, near as u64))?;
        put(&|maker| {
            maker.tops(groups)?;
            let k = Register::K7;
            maker.two(Code::VEX_Kortestq_kr_kr, k, Arg::Reg(k))?;
            let jump = |code, to: usize| Instruction::with_branch(code, to as u64);
            maker.asm.put(jump(Code::Jne_rel32_64, empty))?;
            maker.asm.put(jump(Code::Jmp_rel32_64, near))
        })
    }

    fn back(&mut self) -> Made {
        self.asm.put(Ok(Instruction::with(Code::Retnq)))
    }

    /// The exponents of a row, of bytes of four rows, for all lanes.
    fn widened(&mut self, to: Register, code: Code, tops: usize, row: usize) -> Made {
        let quarter = |x: Register| half(half(x));
        let mut from = zmm(tops);
        if row > 0 {
            let extract = Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8;
            let part = free(row);
            self.asm
                .put(Instruction::with3(extract, quarter(part), from, row as u32))?;
            from = part;
        }
        self.asm.put(Instruction::with2(code, to, quarter(from)))
    }

    /// The largest exponent sums of four rows, biased, as bytes. K7 has the places without products.
    fn tops(&mut self, groups: Groups) -> Made {
        let parities = groups.parities();
        for parity in 0..parities {
            let top = zmm(TOPS + parity);
            self.two(MOVE, top, Arg::Reg(zmm(FLOOR)))?;
            for k in (parity..groups.size).step_by(parities) {
                self.exponent_sums(groups, k, top)?;
            }
        }
        let mut all = zmm(TOPS);
        if parities == 2 {
            let max = Code::EVEX_Vpmaxsb_zmm_k1z_zmm_zmmm512;
            self.three(max, free(0), all, Arg::Reg(zmm(TOPS + 1)))?;
            all = free(0);
        }
        let equal = Code::EVEX_Vpcmpeqb_kr_k1_zmm_zmmm512;
        self.three(equal, Register::K7, all, Arg::Reg(zmm(FLOOR)))?;
        for parity in 0..parities {
            let (x, add) = (zmm(TOPS + parity), Code::EVEX_Vpaddb_zmm_k1z_zmm_zmmm512);
            self.three(add, x, x, Arg::Reg(zmm(BIAS)))?;
        }
        Ok(())
    }

    /// The larger of bytes and of the exponent sums of a k.
    fn exponent_sums(&mut self, groups: Groups, k: usize, top: Register) -> Made {
        let (x, y) = (free(2 + k % 2 * 2), free(3 + k % 2 * 2));
        let rows = MemoryOperand::with_base_displ(END, 16 * k as i64);
        self.two(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, x, Arg::Mem(rows))?;
        let shuffle = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
        self.three(shuffle, x, x, Arg::Reg(zmm(PICK)))?;
        let at = (64 * groups.elements() + 16 * k) as i64;
        let columns = MemoryOperand::with_base_displ(OF_B_AT, at);
        let spread = Code::EVEX_Vbroadcasti32x4_zmm_k1z_m128;
        self.two(spread, y, Arg::Mem(columns))?;
        let add = Code::EVEX_Vpaddsb_zmm_k1z_zmm_zmmm512;
        self.three(add, x, x, Arg::Reg(y))?;
        let max = Code::EVEX_Vpmaxsb_zmm_k1z_zmm_zmmm512;
        self.three(max, top, top, Arg::Reg(x))
    }

    /// The truncated products of a group of four rows, added.
    fn sums(&mut self, groups: Groups) -> Made {
        let parities = groups.parities();
        let scale = |parity: usize, row: usize| zmm([SCALE, ODD_SCALE][parity] + row);
        let total = |parity: usize, row: usize| zmm([TOTAL, ODD_TOTAL][parity] + row);
        // Row 1 of odd k is last: its register has their exponents.
        for (parity, row) in (0..parities).flat_map(|p| [0, 2, 3, 1].map(|row| (p, row))) {
            let x = scale(parity, row);
            let widen = Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128;
            self.widened(x, widen, TOPS + parity, row)?;
            self.asm.put(with2_imm(LEFT, x, Arg::Reg(x), 23))?;
            self.three(SUBTRACT, x, zmm(SCALES), Arg::Reg(x))?;
        }
        if let Some(bias) = groups.whole {
            return self.whole_sums(groups, bias);
        }
        let truncate = Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae;
        for k in 0..groups.size {
            let b = free(k % 2);
            let from = MemoryOperand::with_base_displ(OF_B_AT, 64 * k as i64);
            self.load(b, from)?;
            let parity = k % parities;
            for row in 0..ROWS {
                let x = free(2 + row);
                let at = (64 * k + 4 * row) as i64;
                let mut a = MemoryOperand::with_base_displ(OF_A_AT, at);
                a.is_broadcast = true;
                self.three(MULTIPLY, x, b, Arg::Mem(a))?;
                self.three(MULTIPLY, x, x, Arg::Reg(scale(parity, row)))?;
                let sum = total(parity, row);
                if k < parities {
                    self.two(truncate, sum, Arg::Reg(x))?;
                } else {
                    self.two(truncate, x, Arg::Reg(x))?;
                    self.three(ADD, sum, sum, Arg::Reg(x))?;
                }
            }
        }
        if parities == 1 {
            return Ok(());
        }
        for row in 0..ROWS {
            let least = free(row);
            let min = Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32;
            self.three(min, least, scale(0, row), Arg::Reg(scale(1, row)))?;
            for parity in 0..2 {
                let (gap, sum) = (scale(parity, row), total(parity, row));
                self.three(SUBTRACT, gap, gap, Arg::Reg(least))?;
                self.asm.put(with2_imm(RIGHT, gap, Arg::Reg(gap), 23))?;
                self.three(ARITHMETIC, sum, sum, Arg::Reg(gap))?;
            }
            self.three(ADD, total(0, row), total(0, row), Arg::Reg(total(1, row)))?;
            self.two(MOVE, scale(0, row), Arg::Reg(least))?;
        }
        Ok(())
    }

    /// The same of pairs of integers.
    fn whole_sums(&mut self, groups: Groups, bias: u32) -> Made {
        for k in 0..groups.elements() {
            let b = free(k % 4);
            let from = MemoryOperand::with_base_displ(OF_B_AT, 64 * k as i64);
            self.load(b, from)?;
            for row in 0..ROWS {
                let sum = zmm(TOTAL + row);
                let mut a = MemoryOperand::with_base_displ(OF_A_AT, (64 * k + 4 * row) as i64);
                a.is_broadcast = true;
                if k == 0 {
                    self.three(XOR, sum, sum, Arg::Reg(sum))?;
                }
                let dot = Code::EVEX_Vpdpwssd_zmm_k1z_zmm_zmmm512b32;
                self.three(dot, sum, b, Arg::Mem(a))?;
            }
        }
        // From units of 2^(2 (1 - bias - 3)) to those of 2^(E - 24).
        let unit = self.constant(if bias == 7 {
            pool::WHOLE_7
        } else {
            pool::WHOLE_8
        });
        for row in 0..ROWS {
            let (x, sum) = (free(row), zmm(TOTAL + row));
            let scale = Arg::Reg(zmm(SCALE + row));
            self.asm.put(with2_imm(RIGHT, x, scale, 23))?;
            self.three(SUBTRACT, x, x, unit)?;
            let left = Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
            self.three(left, sum, sum, Arg::Reg(x))?;
        }
        Ok(())
    }

    /// Makes what [`Maker::pairs`] needs.
    pub fn prepare_pairs(&mut self) -> Made {
        self.three(XOR, zmm(PAIRS), zmm(PAIRS), Arg::Reg(zmm(PAIRS)))?;
        for (i, x) in [0x7f, 7, 8, 1, 0x80].into_iter().enumerate() {
            self.immediate(zmm(PAIRS + 1 + i), x << 16 | x)?;
        }
        Ok(())
    }

    /// E4M3 as integers of 16 bits, in units of the smallest: of each word the first and the third, and the others.
    pub fn pairs(&mut self, from: MemoryOperand) -> Result<[Register; 2], CompileError> {
        let constant = |n: usize| Arg::Reg(zmm(PAIRS + 1 + n));
        let [x, y, odd, field] = [0, 1, 2, 3].map(|i| zmm(OF_B + self.decoded + i));
        let right = Code::EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8;
        let test = Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512;
        self.load(x, from)?;
        self.asm.put(with2_imm(right, odd, Arg::Reg(x), 8))?;
        for (x, size) in [(x, y), (odd, odd)] {
            let (signs, exponents) = (Register::K7, Register::K6);
            self.three(test, signs, x, constant(4))?;
            self.three(AND, size, x, constant(0))?;
            self.asm.put(with2_imm(right, field, Arg::Reg(size), 3))?;
            self.three(test, exponents, field, Arg::Reg(field))?;
            self.three(AND, size, size, constant(1))?;
            let add = Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512;
            self.asm
                .put(masked(with3(add, size, size, constant(2)), exponents))?;
            let less = Code::EVEX_Vpsubusw_zmm_k1z_zmm_zmmm512;
            self.three(less, field, field, constant(3))?;
            let left = Code::EVEX_Vpsllvw_zmm_k1z_zmm_zmmm512;
            self.three(left, size, size, Arg::Reg(field))?;
            let subtract = Code::EVEX_Vpsubw_zmm_k1z_zmm_zmmm512;
            let negative = with3(subtract, size, zmm(PAIRS), Arg::Reg(size));
            self.asm.put(masked(negative, signs))?;
        }
        Ok([y, odd])
    }

    /// The accumulator in units of its sum, `scaled`, towards minus infinity.
    fn accumulator(&mut self, groups: Groups, scaled: Register, other: Register) -> Made {
        let mut convert = down(with2(INTEGER, scaled, Arg::Reg(scaled)));
        if groups.parity {
            let size = self.constant(pool::SIZE_OF_F32);
            self.three(AND, other, scaled, size)?;
            let half = self.constant(pool::HALF);
            self.asm
                .put(with3_imm(COMPARE, Register::K6, other, half, NOT_LESS))?;
            convert = zeroing(masked(convert, Register::K6));
        }
        self.asm.put(convert)
    }

    /// Adds accumulators that are at most 2^5 times as large as the largest products; goes to `far` if any is not.
    fn near(&mut self, groups: Groups, far: u64) -> Made {
        let beyond = free(0);
        for row in 0..ROWS {
            let (x, y) = (free(1 + row % 2 * 2), free(2 + row % 2 * 2));
            let scale = zmm(SCALE + row);
            let product = Instruction::with3(MULTIPLY, x, zmm(OLD + row), scale);
            self.asm.put(down(product))?;
            self.accumulator(groups, x, y)?;
            // From -2^30 to below 2^30: bit 31 tells.
            if row == 0 {
                self.three(ADD, beyond, x, Arg::Reg(zmm(NEAR)))?;
            } else {
                self.three(ADD, y, x, Arg::Reg(zmm(NEAR)))?;
                self.three(OR, beyond, beyond, Arg::Reg(y))?;
            }
            self.three(ADD, x, x, Arg::Reg(zmm(TOTAL + row)))?;
            self.two(FLOAT, x, Arg::Reg(x))?;
            self.three(SUBTRACT, y, zmm(UNITS), Arg::Reg(scale))?;
            self.three(MULTIPLY, zmm(NEW + row), x, Arg::Reg(y))?;
        }
        let k = Register::K7;
        self.two(Code::EVEX_Vpmovd2m_kr_zmm, k, Arg::Reg(beyond))?;
        self.two(Code::VEX_Kortestw_kr_kr, k, Arg::Reg(k))?;
        self.asm
            .put(Instruction::with_branch(Code::Jne_rel32_64, far))
    }

    /// Adds accumulators of any size.
    fn far(&mut self, groups: Groups) -> Made {
        for row in 0..ROWS {
            let [x, y, z, w, v, u] = [0, 1, 2, 3, 4, 5].map(free);
            let (old, new, sum) = (zmm(OLD + row), zmm(NEW + row), zmm(TOTAL + row));
            // The fields of 2^(E + 5), and of the larger of that and the accumulator; what is lost.
            self.three(SUBTRACT, x, zmm(SCALES), Arg::Reg(zmm(SCALE + row)))?;
            let five = self.constant(pool::FIELD_5);
            self.three(ADD, y, x, five)?;
            let exponent = self.constant(pool::EXPONENT);
            self.three(AND, z, old, exponent)?;
            self.three(MAX, z, z, Arg::Reg(y))?;
            self.three(SUBTRACT, y, z, Arg::Reg(y))?;
            self.asm.put(with2_imm(RIGHT, y, Arg::Reg(y), 23))?;
            self.spread_to(w, pool::FIELD_283)?;
            self.three(SUBTRACT, w, w, Arg::Reg(z))?;
            self.asm
                .put(down(Instruction::with3(MULTIPLY, w, old, w)))?;
            self.accumulator(groups, w, v)?;
            let unit = self.constant(pool::FIELD_29);
            self.three(SUBTRACT, z, z, unit)?;
            let three = self.constant(pool::THREE);
            let right = Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;
            if groups.parity {
                let two = self.constant(pool::TWO);
                self.three(MAX, v, y, two)?;
                self.three(SUBTRACT, v, v, two)?;
                self.three(SUBTRACT, y, y, Arg::Reg(v))?;
                self.three(ARITHMETIC, v, sum, Arg::Reg(v))?;
                self.three(ARITHMETIC, u, v, Arg::Reg(y))?;
                let left = Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
                self.three(left, y, u, Arg::Reg(y))?;
                self.three(SUBTRACT, v, v, Arg::Reg(y))?;
                self.three(AND, v, v, three)?;
                self.three(ADD, v, v, three)?;
                self.asm.put(with2_imm(RIGHT, v, Arg::Reg(v), 2))?;
                self.three(OR, v, v, Arg::Reg(u))?;
            } else {
                self.asm.put(with2_imm(LEFT, v, Arg::Reg(sum), 2))?;
                self.three(ARITHMETIC, v, v, Arg::Reg(y))?;
                self.three(AND, y, v, three)?;
                self.three(ADD, y, y, three)?;
                self.three(OR, v, v, Arg::Reg(y))?;
                self.asm.put(with2_imm(right, v, Arg::Reg(v), 2))?;
            }
            self.three(ADD, v, v, Arg::Reg(w))?;
            self.two(FLOAT, v, Arg::Reg(v))?;
            self.three(MULTIPLY, new, v, Arg::Reg(z))?;
            // Infinities stay, and NaN become the one.
            let k = Register::K6;
            self.three(AND, y, old, exponent)?;
            self.three(EQUAL, k, y, exponent)?;
            self.asm.put(masked(with2(MOVE, new, Arg::Reg(old)), k))?;
            self.asm
                .put(with3_imm(COMPARE, k, old, Arg::Reg(old), UNORDERED))?;
            let nan = Arg::Mem(self.pooled(pool::NAN));
            let spread = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
            self.asm.put(masked(with2(spread, new, nan), k))?;
        }
        Ok(())
    }

    /// Where a group has no products, whose exponent is taken for 2^-100: accumulators that this is too large for?
    fn empty(&mut self, tiny: u64, near: u64) -> Made {
        let ones = self.constant(pool::MINUS_1);
        for row in 0..ROWS {
            let x = free(row);
            let old = Arg::Reg(zmm(OLD + row));
            self.asm.put(with2_imm(LEFT, x, old, 1))?;
            // Zero wraps to the largest number.
            self.three(ADD, x, x, ones)?;
            if row > 0 {
                let min = Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32;
                self.three(min, free(0), free(0), Arg::Reg(x))?;
            }
        }
        let (k, bound) = (Register::K7, self.constant(pool::TINY));
        let compare = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        self.asm.put(with3_imm(compare, k, free(0), bound, BELOW))?;
        self.two(Code::VEX_Kortestw_kr_kr, k, Arg::Reg(k))?;
        for (code, to) in [(Code::Jne_rel32_64, tiny), (Code::Jmp_rel32_64, near)] {
            self.asm.put(Instruction::with_branch(code, to))?;
        }
        Ok(())
    }

    /// The results of accumulators below 2^-100 to which no products are added: what the grid of the exponents leaves of
    /// them, those of zero being -126.
    fn tiny(&mut self, groups: Groups) -> Made {
        self.spread_to(zmm(TOPS), pool::SIGNS)?;
        for k in 0..groups.size {
            self.exponent_sums(groups, k, zmm(TOPS))?;
        }
        for row in 0..ROWS {
            let [x, y, z, w, v] = [0, 1, 2, 3, 4].map(free);
            let (old, new) = (zmm(OLD + row), zmm(NEW + row));
            let (empty, coarse) = (Register::K7, Register::K5);
            let of_none = self.constant(pool::FIELD_251);
            self.three(EQUAL, empty, zmm(SCALE + row), of_none)?;
            // Neither zero nor large.
            self.asm.put(with2_imm(LEFT, v, Arg::Reg(old), 1))?;
            let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
            let not_zero = with3(test, empty, v, Arg::Reg(v));
            self.asm.put(masked(not_zero, empty))?;
            let compare = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            let bound = self.constant(pool::TINY);
            let small = with3_imm(compare, empty, v, bound, BELOW);
            self.asm.put(masked(small, empty))?;
            self.asm
                .put(masked(with2(MOVE, new, Arg::Reg(old)), empty))?;
            // Of those that are below 2^E, E being the exponents' sum, whole multiples of 2^(E - 24).
            let widen = Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128;
            self.widened(x, widen, TOPS, row)?;
            self.asm.put(with2_imm(RIGHT, y, Arg::Reg(v), 24))?;
            let one = self.constant(pool::ONE);
            self.three(MAX, y, y, one)?;
            let bias = self.constant(pool::BIAS);
            self.three(SUBTRACT, y, y, bias)?;
            let compare = Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8;
            let larger = with3_imm(compare, coarse, x, Arg::Reg(y), GREATER);
            self.asm.put(masked(larger, empty))?;
            // In two steps: 2^(24 - E) is beyond f32.
            let (up, back) = (self.constant(pool::UP_64), self.constant(pool::DOWN_64));
            self.spread_to(z, pool::LEFT_OF_SCALE)?;
            self.three(SUBTRACT, z, z, Arg::Reg(x))?;
            self.asm.put(with2_imm(LEFT, z, Arg::Reg(z), 23))?;
            self.three(MULTIPLY, w, old, up)?;
            self.three(MULTIPLY, w, w, Arg::Reg(z))?;
            // Their exponents, -126 at least, are not so small that they count as zero.
            self.asm.put(down(with2(INTEGER, w, Arg::Reg(w))))?;
            self.two(FLOAT, w, Arg::Reg(w))?;
            let left = self.constant(pool::LEFT_OF_UNIT);
            self.three(ADD, z, x, left)?;
            self.asm.put(with2_imm(LEFT, z, Arg::Reg(z), 23))?;
            self.three(MULTIPLY, w, w, Arg::Reg(z))?;
            self.three(MULTIPLY, w, w, back)?;
            self.asm
                .put(masked(with2(MOVE, new, Arg::Reg(w)), coarse))?;
        }
        Ok(())
    }

    /// A word of the pool for all lanes.
    pub fn spread_to(&mut self, to: Register, at: i64) -> Made {
        let code = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.two(code, to, Arg::Mem(self.pooled(at)))
    }

    /// Makes what [`Maker::exponents`] needs for an element.
    pub fn prepare_exponents(&mut self, element: Element) -> Made {
        let Some((bits, _, field, bias)) = encoding(element) else {
            return Err(CompileError::Room("elements without exponents"));
        };
        let mask = u32::MAX >> (32 - bits);
        let each = u32::MAX / mask;
        let negative = |x: u32| x.wrapping_neg() & mask;
        for (i, x) in [mask >> 1, field, 1, negative(bias), negative(126)]
            .into_iter()
            .enumerate()
        {
            self.immediate(zmm(EXPONENTS + i), x * each)?;
        }
        if bits == 32 {
            return Ok(());
        }
        let group = if bits == 16 {
            pool::BYTES_OF_16
        } else {
            pool::BYTES_OF_8
        };
        let spread = Code::EVEX_Vbroadcasti32x4_zmm_k1z_m128;
        let from = Arg::Mem(self.pooled(group));
        self.two(spread, zmm(EXPONENTS + 5), from)?;
        self.load(zmm(EXPONENTS + 6), self.pooled(pool::QUARTERS))
    }

    /// Stores the exponents of 16 words' elements as bytes: 16 of the first elements, 16 of the second and so on.
    pub fn exponents(&mut self, element: Element, from: MemoryOperand, to: i64) -> Made {
        let Some((bits, mantissa, ..)) = encoding(element) else {
            return Err(CompileError::Room("elements without exponents"));
        };
        let constant = |n: usize| Arg::Reg(zmm(EXPONENTS + n));
        let x = zmm(EXPONENTS + 7 + self.decoded / 4);
        let k = Register::K7;
        let mut at = Self::area(0);
        at.displacement += to;
        if bits == 32 {
            self.three(AND, x, zmm(EXPONENTS), Arg::Mem(from))?;
            self.asm.put(with2_imm(RIGHT, x, Arg::Reg(x), mantissa))?;
            self.three(MAX, x, x, constant(2))?;
            self.three(ADD, x, x, constant(3))?;
            let narrow = Code::EVEX_Vpmovdb_xmmm128_k1z_zmm;
            return self.asm.put(Instruction::with2(narrow, at, x));
        }
        let [test, max, add, blend] = if bits == 16 {
            [
                Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512,
                Code::EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512,
                Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512,
                Code::EVEX_Vpblendmw_zmm_k1z_zmm_zmmm512,
            ]
        } else {
            [
                Code::EVEX_Vptestmb_kr_k1_zmm_zmmm512,
                Code::EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512,
                Code::EVEX_Vpaddb_zmm_k1z_zmm_zmmm512,
                Code::EVEX_Vpblendmb_zmm_k1z_zmm_zmmm512,
            ]
        };
        self.three(AND, x, zmm(EXPONENTS), Arg::Mem(from))?;
        self.three(test, k, x, Arg::Reg(x))?;
        let right = Code::EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8;
        self.asm.put(with2_imm(right, x, Arg::Reg(x), mantissa))?;
        self.three(AND, x, x, constant(1))?;
        self.three(max, x, x, constant(2))?;
        self.three(add, x, x, constant(3))?;
        let zeros = zmm(EXPONENTS + 4);
        self.asm
            .put(masked(with3(blend, x, zeros, Arg::Reg(x)), k))?;
        let shuffle = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
        self.three(shuffle, x, x, constant(5))?;
        let permute = Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32;
        self.three(permute, x, zmm(EXPONENTS + 6), Arg::Reg(x))?;
        if bits == 16 {
            let store = Code::EVEX_Vmovups_ymmm256_k1z_ymm;
            self.asm.put(Instruction::with2(store, at, half(x)))
        } else {
            self.store(at, x)
        }
    }

    /// A product, whose core is at `core`.
    pub fn fused(&mut self, product: &Product, groups: Groups, core: u64) -> Made {
        let form = &product.form;
        let [m, n, length] = form.shape();
        self.make_room(&self.operands(std::slice::from_ref(product)))?;
        let (a, b) = (self.panel(product, 0)?, self.panel(product, 1)?);
        for (to, from) in [
            (SCALES, pool::FIELD_278),
            (UNITS, pool::FIELD_254),
            (NEAR, pool::UP_30),
            (FLOOR, pool::NO_PRODUCT),
            (BIAS, pool::BYTE_BIAS),
        ] {
            self.spread_to(zmm(to), from)?;
        }
        self.load(zmm(PICK), self.pooled(pool::ROWS))?;
        let all =
            (0..form.blocks()).flat_map(|block| (0..n / 16).map(move |column| (block, column)));
        for (block, column) in all {
            for (k, row) in (0..length)
                .step_by(groups.size)
                .flat_map(|k| (0..m).step_by(ROWS).map(move |row| (k, row)))
            {
                let places = [0, 1, 2, 3].map(|i| form.d(block, row + i, 16 * column));
                for (i, place) in places.into_iter().enumerate() {
                    let to = zmm(OLD + i);
                    match product.c {
                        _ if k > 0 => {
                            let from = self.row(product.d, place)?;
                            self.load(to, from)?;
                        }
                        Start::Register(c) => {
                            let from = self.row(c, place)?;
                            self.load(to, from)?;
                        }
                        Start::Constant(bits) => self.immediate(to, bits as u32)?,
                    }
                }
                let (of_a, exponents) = groups.place(form, block * (m / 16) + row / 16, k);
                let (of_b, _) = groups.place(form, block * (n / 16) + column, k);
                let at = |bytes: i64| {
                    let mut at = Self::area(0);
                    at.displacement += bytes;
                    at
                };
                let in_side = (row % 16) as i64;
                for (to, from) in [
                    (OF_A_AT, at(64 * (a + of_a) as i64 + 4 * in_side)),
                    (END, at(64 * a as i64 + exponents + in_side)),
                    (OF_B_AT, at(64 * (b + of_b) as i64)),
                ] {
                    self.asm
                        .put(Instruction::with2(Code::Lea_r64_m, to, from))?;
                }
                self.asm
                    .put(Instruction::with_branch(Code::Call_rel32_64, core))?;
                self.asm.forget(&[OF_B_AT, END]);
                for (i, place) in places.into_iter().enumerate() {
                    let to = self.row(product.d, place)?;
                    self.store(to, zmm(NEW + i))?;
                }
            }
        }
        Ok(())
    }
}
