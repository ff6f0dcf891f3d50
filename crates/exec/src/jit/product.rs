//! Matrix products as code of this host (AVX-512): operands are taken from registers where they lie, sums stay in vector
//! registers from their first product to their last. Adjacent instructions are compiled together: what one has decoded
//! serves the next, and so do the sums of 16x16 results.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::matrix::{Element, Form, Place, Sums};

use super::SPILL_ROWS;
use super::assembler::{
    Arg, Assembler, CompileError, SPILL, half, low, masked, with2, with2_imm, with3, with3_imm,
};
use super::emit::Emitted;
use super::host::Host;
use crate::matrix::{Product, Start};
use crate::registers::VectorRegisters;

/// Words in front of the code.
mod pool {
    /// For `vpermw`: the low halves of 16 words, then the high ones.
    pub const HALVES: i64 = 0;
    /// The NaN of f32 results.
    pub const NAN: i64 = 64;
    /// The upper half of a word.
    pub const UPPER: i64 = 68;
    /// The sign of each byte.
    pub const SIGNS: i64 = 72;
    /// One in each byte.
    pub const ONES: i64 = 76;
    /// Exponents of two f16.
    pub const EXPONENTS16: i64 = 80;
    /// The exponent of an f32.
    pub const EXPONENT: i64 = 84;
    /// The NaN of f64 results.
    pub const NAN64: i64 = 88;
    /// Bytes.
    pub const SIZE: usize = 128;

    /// The bytes.
    pub fn bytes() -> Vec<u8> {
        let halves = (0..32u16).map(|i| if i < 16 { 2 * i } else { 2 * (i - 16) + 1 });
        let mut bytes: Vec<u8> = halves.flat_map(u16::to_le_bytes).collect();
        let words = [
            0x7fc0_0000u32,
            0xffff_0000,
            0x8080_8080,
            0x0101_0101,
            0x7c00_7c00,
            0x7f80_0000,
            0,
            0x7ff8_0000,
        ];
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        bytes.resize(SIZE, 0);
        bytes
    }
}

/// `vcmpps`: neither operand is NaN; one is.
const ORDERED: u32 = 7;
const UNORDERED: u32 = 3;

/// Vector registers of sums.
const SUMS: usize = 16;
/// The first register for B, eight of them, and the first for anything, which are the rest.
const OF_B: usize = 16;
const OTHER: usize = 24;

/// Compiles products that follow one another, as [`joins`] says, for waves of `lanes` lanes; the code will lie at
/// `address`.
///
/// # Errors
/// Operands for which the area has no room.
pub fn emit(products: &[Product], lanes: u32, address: u64) -> Result<Emitted, CompileError> {
    let mut bytes = pool::bytes();
    let maker = |at: usize| Maker {
        asm: Assembler::new(Host::Avx512, address + at as u64, false),
        lanes,
        pool: address,
        panels: Vec::new(),
        used: 0,
        other: 0,
        checked: 0,
    };
    let mut aside = maker(bytes.len());
    aside.canonical(products)?;
    bytes.extend(aside.asm.finish());
    let entry = bytes.len();
    let mut main = maker(entry);
    main.products(products)?;
    if is_float(&products[0].form) {
        main.check(products[0].form.sums(), address + pool::SIZE as u64)?;
    }
    main.leave()?;
    bytes.extend(main.asm.finish());
    Ok(Emitted { bytes, entry })
}

/// Whether a product can be compiled behind others: they are of one kind, and it takes nothing from their results but
/// accumulators.
pub fn joins(before: &[Product], next: &Product) -> bool {
    let counts = next.counts;
    let meets = |d: u32, first: u32, count: u32| first < d + counts[2] && d < first + count;
    before.iter().all(|other| {
        other.form == next.form
            && !meets(other.d, next.a, counts[0])
            && !meets(other.d, next.b, counts[1])
            && (other.d == next.d || !meets(other.d, next.d, counts[2]))
            && match next.c {
                Start::Register(c) => other.d == c || !meets(other.d, c, counts[2]),
                Start::Constant(_) => true,
            }
            // Its A and B stay as they were decoded.
            && !meets(next.d, other.a, counts[0])
            && !meets(next.d, other.b, counts[1])
    })
}

fn is_float(form: &Form) -> bool {
    !matches!(form.sums(), Sums::Bytes { .. })
}

/// An operand decoded to rows of the area.
struct Panel {
    register: u32,
    /// 0 of A, 1 of B, 2 of the sums of A's bytes.
    of: usize,
    first: usize,
}

struct Maker {
    asm: Assembler,
    lanes: u32,
    /// Where the constants lie.
    pool: u64,
    panels: Vec<Panel>,
    /// Rows of the area that are used.
    used: usize,
    /// Turns through the registers for anything.
    other: usize,
    /// Turns through the masks in which NaN are looked for.
    checked: usize,
}

type Made = Result<(), CompileError>;

fn zmm(n: usize) -> Register {
    Register::ZMM0 + n as u32
}

impl Maker {
    /// The word of the pool for all lanes.
    fn constant(&self, at: i64) -> Arg {
        let mut memory = self.pooled(at);
        memory.is_broadcast = true;
        Arg::Mem(memory)
    }

    fn pooled(&self, at: i64) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(Register::RIP, self.pool as i64 + at, 8)
    }

    /// The 16 lanes from a place of an operand on.
    fn row(&mut self, first: u32, place: Place) -> Result<MemoryOperand, CompileError> {
        let key = VectorRegisters::slot(self.lanes, first + place.register).key();
        self.asm.row(key, place.lane / 16)
    }

    /// The word at a place of an operand.
    fn word(&mut self, first: u32, place: Place) -> Result<MemoryOperand, CompileError> {
        let mut at = self.row(first, place)?;
        at.displacement += 4 * i64::from(place.lane % 16);
        Ok(at)
    }

    /// A row of the area.
    fn area(row: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ(SPILL, 64 * row as i64)
    }

    /// Rows of the area.
    fn rows(&mut self, count: usize) -> Result<usize, CompileError> {
        if self.used + count > SPILL_ROWS {
            // What was decoded before is decoded again.
            self.panels.clear();
            self.used = 0;
        }
        let first = self.used;
        self.used += count;
        if self.used > SPILL_ROWS {
            return Err(CompileError::Room("operands of a product"));
        }
        Ok(first)
    }

    /// The next register for anything.
    fn other(&mut self) -> Register {
        self.other = (self.other + 1) % (32 - OTHER);
        zmm(OTHER + self.other)
    }

    fn load(&mut self, to: Register, from: MemoryOperand) -> Made {
        let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
        self.asm.put(Instruction::with2(code, to, from))
    }

    fn store(&mut self, to: MemoryOperand, from: Register) -> Made {
        let code = Code::EVEX_Vmovups_zmmm512_k1z_zmm;
        self.asm.put(Instruction::with2(code, to, from))
    }

    fn two(&mut self, code: Code, to: Register, from: Arg) -> Made {
        self.asm.put(with2(code, to, from))
    }

    fn three(&mut self, code: Code, to: Register, a: Register, b: Arg) -> Made {
        self.asm.put(with3(code, to, a, b))
    }

    fn products(&mut self, products: &[Product]) -> Made {
        let form = products[0].form;
        if is_float(&form) {
            for n in 1..=6 {
                let k = Register::K0 + n;
                self.three(Code::VEX_Kxnorw_kr_kr_kr, k, k, Arg::Reg(k))?;
            }
        }
        let one_strip = form.shape()[..2] == [16, 16] && form.blocks() == 1;
        let mut held = false;
        for (i, product) in products.iter().enumerate() {
            let goes_on = one_strip
                && products
                    .get(i + 1)
                    .is_some_and(|next| next.d == product.d && next.c == Start::Register(next.d));
            match form.sums() {
                Sums::Double => self.double(product, held, goes_on)?,
                Sums::Bytes { signed } => self.bytes(product, signed, held, goes_on)?,
                Sums::Chain | Sums::Tree => self.single(product, held, goes_on)?,
            }
            held = goes_on;
        }
        Ok(())
    }

    /// The strips of a product: block, first row, rows.
    fn strips(form: &Form) -> Vec<(usize, usize, usize)> {
        let [m, n, _] = form.shape();
        let rows = (SUMS * 16 / n).min(m);
        (0..form.blocks())
            .flat_map(|block| (0..m).step_by(rows).map(move |row| (block, row, rows)))
            .collect()
    }

    /// Loads the accumulators of a strip.
    fn accumulators(
        &mut self,
        product: &Product,
        (block, first, rows): (usize, usize, usize),
    ) -> Made {
        let columns = product.form.shape()[1] / 16;
        for (i, (row, column)) in pairs(first, rows, columns).enumerate() {
            match product.c {
                Start::Register(c) => {
                    let place = product.form.d(block, row, 16 * column);
                    let from = self.row(c, place)?;
                    self.load(zmm(i), from)?;
                }
                Start::Constant(0) => {
                    let (to, code) = (zmm(i), Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32);
                    self.three(code, to, to, Arg::Reg(to))?;
                }
                Start::Constant(bits) => {
                    if i == 0 {
                        let bits = bits as u32;
                        let [general, _] = self.asm.general();
                        let general = low(general, 4);
                        self.asm
                            .put(Instruction::with2(Code::Mov_r32_imm32, general, bits))?;
                        let code = Code::EVEX_Vpbroadcastd_zmm_k1z_r32;
                        self.asm.put(Instruction::with2(code, zmm(0), general))?;
                    } else {
                        let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                        self.two(code, zmm(i), Arg::Reg(zmm(0)))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the sums of a strip, and notes NaN.
    fn results(&mut self, product: &Product, (block, first, rows): (usize, usize, usize)) -> Made {
        let columns = product.form.shape()[1] / 16;
        if is_float(&product.form) {
            for i in (0..rows * columns).step_by(2) {
                self.ordered(
                    Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
                    zmm(i),
                    zmm(i + 1),
                )?;
            }
        }
        for (i, (row, column)) in pairs(first, rows, columns).enumerate() {
            let place = product.form.d(block, row, 16 * column);
            let to = self.row(product.d, place)?;
            self.store(to, zmm(i))?;
        }
        Ok(())
    }

    /// Clears the bits of lanes that are NaN in one of two registers.
    fn ordered(&mut self, code: Code, a: Register, b: Register) -> Made {
        self.checked = self.checked % 6 + 1;
        let k = Register::K0 + self.checked as u32;
        self.asm
            .put(masked(with3_imm(code, k, a, Arg::Reg(b), ORDERED), k))
    }

    /// Goes aside if there were NaN.
    fn check(&mut self, sums: Sums, aside: u64) -> Made {
        let k = |n: u32| Register::K0 + n;
        for (to, from) in [(1, 2), (3, 4), (5, 6), (1, 3), (1, 5)] {
            self.three(Code::VEX_Kandw_kr_kr_kr, k(to), k(to), Arg::Reg(k(from)))?;
        }
        let test = if sums == Sums::Double {
            Code::VEX_Kortestb_kr_kr
        } else {
            Code::VEX_Kortestw_kr_kr
        };
        self.two(test, k(1), Arg::Reg(k(1)))?;
        self.asm
            .put(Instruction::with_branch(Code::Jae_rel32_64, aside))
    }

    fn leave(&mut self) -> Made {
        self.asm.put(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
        self.asm.put(Ok(Instruction::with(Code::Retnq)))
    }

    /// Products of f32, or of what is decoded to f32.
    fn single(&mut self, product: &Product, held: bool, goes_on: bool) -> Made {
        let form = &product.form;
        let [_, n, k] = form.shape();
        let columns = n / 16;
        let tree = form.sums() == Sums::Tree;
        let decoded = form.element() != Element::F32;
        // Where each vector of B is used once it is decoded in place.
        let beside = decoded && (columns > 1 || tree);
        let a = if decoded { self.panel(product, 0)? } else { 0 };
        let b = if beside { self.panel(product, 1)? } else { 0 };
        let sides = form.shape()[0] / 16 * form.blocks();
        for strip in Self::strips(form) {
            let (block, first, rows) = strip;
            if !held {
                self.accumulators(product, strip)?;
                if tree {
                    self.flush(rows * columns)?;
                }
            }
            let step = if tree { 4 } else { form.per_word() };
            for k in (0..k).step_by(step) {
                for i in 0..step {
                    for column in 0..columns {
                        let to = zmm(OF_B + i * columns + column);
                        let vector = (k + i) * columns * form.blocks() + block * columns + column;
                        if beside {
                            self.load(to, Self::area(b + vector))?;
                        } else if !decoded {
                            let from = self.row(product.b, form.b(block, k + i, 16 * column))?;
                            self.load(to, from)?;
                        } else if i == 0 {
                            let from = self.row(product.b, form.b(block, k, 16 * column))?;
                            self.decode(form, from, [to, zmm(OF_B + 1)])?;
                        }
                    }
                }
                let at = |maker: &mut Maker, row: usize, k: usize| {
                    if !decoded {
                        return maker.word(product.a, form.a(block, row, k));
                    }
                    let side = block * (form.shape()[0] / 16) + row / 16;
                    let mut at = Self::area(a + k * sides + side);
                    at.displacement += 4 * (row % 16) as i64;
                    Ok(at)
                };
                if tree {
                    for row in first..first + rows {
                        self.groups(columns, (row - first) * columns, |maker, i| {
                            at(maker, row, k + i)
                        })?;
                    }
                    continue;
                }
                for i in 0..step {
                    for row in first..first + rows {
                        let a = at(self, row, k + i)?;
                        let sum = (row - first) * columns;
                        self.multiply(
                            Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
                            a,
                            OF_B + i * columns,
                            sum,
                            columns,
                        )?;
                    }
                }
            }
            if !goes_on {
                self.results(product, strip)?;
            }
        }
        Ok(())
    }

    /// Adds the products of a word for all lanes and one or two vectors to sums.
    fn multiply(
        &mut self,
        code: Code,
        mut a: MemoryOperand,
        b: usize,
        sum: usize,
        columns: usize,
    ) -> Made {
        if columns == 1 {
            a.is_broadcast = true;
            return self.three(code, zmm(sum), zmm(b), Arg::Mem(a));
        }
        let to = self.other();
        self.two(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, Arg::Mem(a))?;
        for column in 0..columns {
            self.three(code, zmm(sum + column), zmm(b + column), Arg::Reg(to))?;
        }
        Ok(())
    }

    /// Adds the tree of four products to the sums of a row: vectors of B are by k and column.
    fn groups(
        &mut self,
        columns: usize,
        sum: usize,
        mut a: impl FnMut(&mut Maker, usize) -> Result<MemoryOperand, CompileError>,
    ) -> Made {
        const FMA: Code = Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
        const MULTIPLY: Code = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
        const ADD: Code = Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
        let b = |k: usize, column: usize| zmm(OF_B + k * columns + column);
        // Two pairs of two columns, and two words of A.
        let part = |pair: usize, column: usize| zmm(OTHER + 2 * pair + column);
        for pair in 0..2 {
            for i in 0..2 {
                let k = 2 * pair + i;
                let mut at = a(self, k)?;
                let spread = if columns == 1 {
                    at.is_broadcast = true;
                    Arg::Mem(at)
                } else {
                    let to = zmm(OTHER + 4 + k);
                    self.two(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, Arg::Mem(at))?;
                    Arg::Reg(to)
                };
                for column in 0..columns {
                    // A product of -0 makes no difference: accumulators are not -0.
                    let code = if i == 0 { MULTIPLY } else { FMA };
                    self.three(code, part(pair, column), b(k, column), spread)?;
                }
            }
        }
        for column in 0..columns {
            let (first, sum) = (part(0, column), zmm(sum + column));
            self.three(ADD, first, first, Arg::Reg(part(1, column)))?;
            self.three(ADD, sum, sum, Arg::Reg(first))?;
        }
        Ok(())
    }

    /// Makes accumulators +0 that are subnormal or zero.
    fn flush(&mut self, count: usize) -> Made {
        for i in 0..count {
            let k = Register::K7;
            let exponent = self.constant(pool::EXPONENT);
            self.three(
                Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32,
                k,
                zmm(i),
                exponent,
            )?;
            let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
            let kept = masked(with2(code, zmm(i), Arg::Reg(zmm(i))), k);
            self.asm.put(zeroing(kept))?;
        }
        Ok(())
    }

    /// A's or B's vectors of f32 in the area: by k, then side by side.
    fn panel(&mut self, product: &Product, of: usize) -> Result<usize, CompileError> {
        let register = [product.a, product.b][of];
        let known = |p: &&Panel| (p.register, p.of) == (register, of);
        if let Some(panel) = self.panels.iter().find(known) {
            return Ok(panel.first);
        }
        let form = &product.form;
        let [m, n, k] = form.shape();
        let width = [m, n][of] / 16;
        let sides = width * form.blocks();
        let first = self.rows(k * sides)?;
        for k in (0..k).step_by(2) {
            for side in 0..sides {
                let (block, at) = (side / width, 16 * (side % width));
                let place = if of == 0 {
                    form.a(block, at, k)
                } else {
                    form.b(block, k, at)
                };
                let from = self.row(register, place)?;
                let to = [self.other(), self.other()];
                self.decode(form, from, to)?;
                for (i, to) in to.into_iter().enumerate() {
                    self.store(Self::area(first + (k + i) * sides + side), to)?;
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

    /// Decodes 16 words of two elements.
    fn decode(&mut self, form: &Form, from: MemoryOperand, [low, high]: [Register; 2]) -> Made {
        if form.element() == Element::Bf16 {
            let shift = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
            self.asm.put(with2_imm(shift, low, Arg::Mem(from), 16))?;
            self.load(high, from)?;
            let upper = self.constant(pool::UPPER);
            return self.three(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, high, high, upper);
        }
        let order = self.other();
        self.load(order, self.pooled(pool::HALVES))?;
        let permute = Code::EVEX_Vpermw_zmm_k1z_zmm_zmmm512;
        self.three(permute, low, order, Arg::Mem(from))?;
        if form.sums() == Sums::Tree {
            let k = Register::K7;
            let exponents = self.other();
            let spread = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
            self.two(spread, exponents, Arg::Mem(self.pooled(pool::EXPONENTS16)))?;
            let test = Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512;
            self.three(test, k, low, Arg::Reg(exponents))?;
            let code = Code::EVEX_Vmovdqu16_zmm_k1z_zmmm512;
            self.asm
                .put(zeroing(masked(with2(code, low, Arg::Reg(low)), k)))?;
        }
        let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
        self.asm
            .put(Instruction::with3(upper, half(high), low, 1u32))?;
        let convert = Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
        self.two(convert, high, Arg::Reg(half(high)))?;
        self.two(convert, low, Arg::Reg(half(low)))
    }

    /// Products of bytes. The host multiplies unsigned ones by signed ones: where both are alike B's get another sign, that
    /// is 128 more or less, and each sum 128 times the sum of its bytes of A less or more.
    fn bytes(&mut self, product: &Product, signed: [bool; 2], held: bool, goes_on: bool) -> Made {
        const DOT: Code = Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32;
        const ADD: Code = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
        let form = &product.form;
        let [m, n, k] = form.shape();
        let columns = n / 16;
        let flips = signed[0] == signed[1];
        let extra = if flips {
            Some(self.byte_sums(product, signed[0])?)
        } else {
            None
        };
        for strip in Self::strips(form) {
            let (block, first, rows) = strip;
            if !held {
                self.accumulators(product, strip)?;
            }
            if let Some(extra) = extra {
                for row in first..first + rows {
                    let mut at = Self::area(extra + (block * m + row) / 16);
                    at.displacement += 4 * (row % 16) as i64;
                    let sum = (row - first) * columns;
                    if columns == 1 {
                        at.is_broadcast = true;
                        self.three(ADD, zmm(sum), zmm(sum), Arg::Mem(at))?;
                        continue;
                    }
                    let to = self.other();
                    self.two(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, to, Arg::Mem(at))?;
                    for sum in sum..sum + columns {
                        self.three(ADD, zmm(sum), zmm(sum), Arg::Reg(to))?;
                    }
                }
            }
            for (i, k) in (0..k).step_by(4).enumerate() {
                let b = OF_B + i % 4 * columns;
                for column in 0..columns {
                    let from = self.row(product.b, form.b(block, k, 16 * column))?;
                    self.load(zmm(b + column), from)?;
                    if flips {
                        let signs = self.constant(pool::SIGNS);
                        let (to, code) =
                            (zmm(b + column), Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32);
                        self.three(code, to, to, signs)?;
                    }
                }
                for row in first..first + rows {
                    let a = self.word(product.a, form.a(block, row, k))?;
                    let sum = (row - first) * columns;
                    if signed[0] {
                        self.multiply(DOT, a, b, sum, columns)?;
                        continue;
                    }
                    let to = self.other();
                    self.two(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, to, Arg::Mem(a))?;
                    for column in 0..columns {
                        self.three(DOT, zmm(sum + column), to, Arg::Reg(zmm(b + column)))?;
                    }
                }
            }
            if !goes_on {
                self.results(product, strip)?;
            }
        }
        Ok(())
    }

    /// 128 times the sums of the bytes of A's rows in the area; less than zero for signed ones.
    fn byte_sums(&mut self, product: &Product, signed: bool) -> Result<usize, CompileError> {
        let known = |p: &&Panel| (p.register, p.of) == (product.a, 2);
        if let Some(panel) = self.panels.iter().find(known) {
            return Ok(panel.first);
        }
        let form = &product.form;
        let [m, _, k] = form.shape();
        let width = m / 16;
        let first = self.rows(width * form.blocks())?;
        let ones = self.other();
        self.two(
            Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
            ones,
            Arg::Mem(self.pooled(pool::ONES)),
        )?;
        let clear = |to: Register| {
            with3(
                Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
                to,
                to,
                Arg::Reg(to),
            )
        };
        let dot = Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32;
        for side in 0..width * form.blocks() {
            let (sum, x) = (zmm(OF_B + side % 4), zmm(OF_B + 4 + side % 4));
            self.asm.put(clear(sum))?;
            for k in (0..k).step_by(4) {
                let place = form.a(side / width, 16 * (side % width), k);
                let from = self.row(product.a, place)?;
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
            register: product.a,
            of: 2,
            first,
        });
        Ok(first)
    }

    /// The low and the high words of 16 doubles as two vectors of doubles: four at a time the first two, and the others.
    fn joined(&mut self, first: u32, place: Place, to: [Register; 2]) -> Made {
        let words = self.other();
        let low = self.row(first, place)?;
        self.load(words, low)?;
        let high = self.row(
            first,
            Place {
                register: place.register + 1,
                ..place
            },
        )?;
        let other = self.other();
        self.load(other, high)?;
        let codes = [
            Code::EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32,
        ];
        for (code, to) in codes.into_iter().zip(to) {
            self.three(code, to, words, Arg::Reg(other))?;
        }
        Ok(())
    }

    /// The reverse of [`Maker::joined`]: stores doubles.
    fn part(&mut self, first: u32, place: Place, from: [Register; 2]) -> Made {
        for (i, which) in [0x88, 0xdd].into_iter().enumerate() {
            let to = self.other();
            let code = Code::EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8;
            self.asm
                .put(with3_imm(code, to, from[0], Arg::Reg(from[1]), which))?;
            let register = place.register + i as u32;
            let at = self.row(first, Place { register, ..place })?;
            self.store(at, to)?;
        }
        Ok(())
    }

    /// Products of f64, 16 columns.
    fn double(&mut self, product: &Product, held: bool, goes_on: bool) -> Made {
        debug_assert!(!held && !goes_on);
        let form = &product.form;
        let [m, n, length] = form.shape();
        if n != 16 || m != 16 || length > 4 || form.blocks() != 1 {
            return Err(CompileError::Room("sums of f64"));
        }
        let known = self.panels.iter().find(|p| p.register == product.a);
        let a = match known.map(|p| p.first) {
            Some(a) => a,
            None => {
                let first = self.rows(2 * length)?;
                for k in 0..length {
                    let to = [zmm(0), zmm(1)];
                    self.joined(product.a, form.a(0, 0, k), to)?;
                    self.store(Self::area(first + 2 * k), to[0])?;
                    self.store(Self::area(first + 2 * k + 1), to[1])?;
                }
                self.panels.push(Panel {
                    register: product.a,
                    of: 0,
                    first,
                });
                first
            }
        };
        let b = |k: usize| [zmm(OF_B + 2 * k), zmm(OF_B + 2 * k + 1)];
        for k in 0..length {
            self.joined(product.b, form.b(0, k, 0), b(k))?;
        }
        for first in [0, 8] {
            let sums = |i: usize| [zmm(2 * i), zmm(2 * i + 1)];
            for i in 0..8 {
                match product.c {
                    Start::Register(c) => {
                        self.joined(c, form.d(0, first + i, 0), sums(i))?;
                    }
                    Start::Constant(0) => {
                        for to in sums(i) {
                            let code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                            self.three(code, to, to, Arg::Reg(to))?;
                        }
                    }
                    Start::Constant(_) => return Err(CompileError::Room("a constant of f64")),
                }
            }
            for k in 0..length {
                for i in 0..8 {
                    let row = first + i;
                    let mut at = Self::area(a + 2 * k + row % 4 / 2);
                    at.displacement += (row / 4 * 16 + row % 2 * 8) as i64;
                    let spread = self.other();
                    self.two(Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, spread, Arg::Mem(at))?;
                    for (sum, b) in sums(i).into_iter().zip(b(k)) {
                        let fma = Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
                        self.three(fma, sum, b, Arg::Reg(spread))?;
                    }
                }
            }
            for i in 0..8 {
                let [low, high] = sums(i);
                self.ordered(Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, low, high)?;
            }
            for i in 0..8 {
                self.part(product.d, form.d(0, first + i, 0), sums(i))?;
            }
        }
        Ok(())
    }

    /// Makes NaN in the results of products the one that they give.
    fn canonical(&mut self, products: &[Product]) -> Made {
        let form = &products[0].form;
        let [m, n, _] = form.shape();
        if !is_float(form) {
            return Ok(());
        }
        let double = form.sums() == Sums::Double;
        let mut done = Vec::new();
        for product in products {
            if done.contains(&product.d) {
                continue;
            }
            done.push(product.d);
            for (block, row) in (0..form.blocks()).flat_map(|b| (0..m).map(move |row| (b, row))) {
                for column in (0..n).step_by(16) {
                    let place = form.d(block, row, column);
                    if double {
                        self.canonical_double(product.d, place)?;
                        continue;
                    }
                    let (x, k) = (zmm(0), Register::K1);
                    let at = self.row(product.d, place)?;
                    self.load(x, at)?;
                    let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
                    self.asm
                        .put(with3_imm(compare, k, x, Arg::Reg(x), UNORDERED))?;
                    let spread = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
                    let nan = Arg::Mem(self.pooled(pool::NAN));
                    self.asm.put(masked(with2(spread, x, nan), k))?;
                    self.store(at, x)?;
                }
            }
        }
        self.leave()
    }

    fn canonical_double(&mut self, d: u32, place: Place) -> Made {
        let sums = [zmm(0), zmm(1)];
        self.joined(d, place, sums)?;
        for x in sums {
            let k = Register::K1;
            let compare = Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
            self.asm
                .put(with3_imm(compare, k, x, Arg::Reg(x), UNORDERED))?;
            let spread = Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64;
            let nan = Arg::Mem(self.pooled(pool::NAN64));
            self.asm.put(masked(with2(spread, x, nan), k))?;
        }
        self.part(d, place, sums)
    }
}

/// Row and column of the sums of a strip.
fn pairs(first: usize, rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (first..first + rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

/// Lanes without a bit in the mask become zero.
fn zeroing(
    instruction: Result<Instruction, iced_x86::IcedError>,
) -> Result<Instruction, iced_x86::IcedError> {
    instruction.map(|mut i| {
        i.set_zeroing_masking(true);
        i
    })
}
