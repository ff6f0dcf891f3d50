//! Matrix products as code of this host (AVX-512). A and B are decoded into rows of the area, sums stay in vector registers
//! from their first product to their last. Adjacent instructions are compiled together: what one has decoded serves the
//! next, and so do the sums of 16x16 results.

mod decode;
mod double;
mod fused;
mod guard;
mod pool;

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::matrix::{Form, Place, Sums};

use super::SPILL_ROWS;
use super::assembler::{
    Arg, Assembler, CompileError, MASK_INDEX, ROW_INDEX, SCALARS, SPILL, masked, with2, with2_imm,
    with3, with3_imm,
};
use super::emit::Emitted;
use super::host::Host;
use crate::matrix::{Product, Start};
use crate::registers::VectorRegisters;
use fused::Groups;
use guard::{Bounds, NOT_BELOW};

/// `vcmpps`: neither operand is NaN; one is.
const ORDERED: u32 = 7;
const UNORDERED: u32 = 3;

/// Masks in which lanes that are no NaN are noted, from K1 on.
const NAN_MASKS: usize = 4;
/// Masks of accumulators that need no care.
const LARGE: [Register; 2] = [Register::K5, Register::K6];

/// Adds products of f32 to sums.
const FMA: Code = Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;

const XOR: Code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
const ADD: Code = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;

/// Vector registers of sums.
const SUMS: usize = 16;
/// The first register for B, eight of them, and the first for anything, which are the rest.
const OF_B: usize = 16;
const OTHER: usize = 24;
/// What a core takes A and B from, and where A ends.
const OF_A_AT: Register = SCALARS;
const OF_B_AT: Register = MASK_INDEX;
const END: Register = ROW_INDEX;

/// Compiles products that follow one another, as [`joins`] says, for waves of `lanes` lanes. It does not matter where the code
/// lies. It returns 1 if operands are not within bounds ([`is_guarded`]), and has done nothing then, else 0.
///
/// # Errors
/// Operands for which the area has no room.
pub fn emit(products: &[Product], lanes: u32) -> Result<Emitted, CompileError> {
    let mut bytes = pool::bytes();
    let form = &products[0].form;
    let has_dots = std::arch::is_x86_feature_detected!("avx512vnni");
    if !has_dots && matches!(form.sums(), Sums::Bytes { .. }) {
        return Err(CompileError::Room("dot products of bytes"));
    }
    let maker = |groups: Option<Groups>| {
        move |at: usize| Maker {
            asm: Assembler::new(Host::Avx512, at as u64, false),
            lanes,
            groups,
            panels: Vec::new(),
            used: 0,
            other: 0,
            decoded: 0,
            checked: 0,
        }
    };
    let groups = Groups::of(form);
    let plain = maker(groups);
    if makes_nan(form) {
        append(&mut bytes, &plain, &|maker| maker.canonical(products))?;
    }
    let bounds = Bounds::of(form);
    let mut entry = bytes.len();
    if bounds.is_some() {
        append(&mut bytes, &plain, &Maker::outside)?;
    }
    // Each goes to the one before it if operands are not within its bounds.
    let small = Groups::of_small(form).filter(|_| has_dots);
    let small = small.map(|groups| (Some(groups), Some(Bounds::Small)));
    for (groups, bounds) in [Some((groups, bounds)), small].into_iter().flatten() {
        let maker = maker(groups);
        let core = Maker::cores(form, groups, &mut bytes, &maker)?;
        let outside = entry as u64;
        entry = append(&mut bytes, &maker, &|maker| {
            if let Some(bounds) = bounds {
                maker.guard(products, bounds, outside)?;
            }
            maker.products(products, core as u64)?;
            if makes_nan(form) {
                maker.check(form.sums(), pool::SIZE as u64)?;
            }
            maker.leave()
        })?;
    }
    Ok(Emitted { bytes, entry })
}

/// Appends code. Returns where it begins.
fn append(
    bytes: &mut Vec<u8>,
    maker: &dyn Fn(usize) -> Maker,
    emit: &dyn Fn(&mut Maker) -> Made,
) -> Result<usize, CompileError> {
    let at = bytes.len();
    let mut maker = maker(at);
    emit(&mut maker)?;
    bytes.extend(maker.asm.finish());
    Ok(at)
}

/// Whether products of a form look at their operands first, and may return 1.
pub fn is_guarded(form: &Form) -> bool {
    Bounds::of(form).is_some()
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

/// Rows of the area along K: elements of 32 bits, or four bytes.
fn area_rows(form: &Form) -> usize {
    let k = form.shape()[2];
    if is_float(form) { k } else { k / 4 }
}

/// Whether bytes of both operands are signed, or of none: the host multiplies unsigned bytes by signed ones, so A's get
/// another sign, that is 128 more or less, and each sum 128 times the sum of its bytes of B less or more.
fn flips([a, b]: [bool; 2]) -> bool {
    a == b
}

/// Whether A gets another sign, and if so, whether bytes were signed.
fn flipped(form: &Form) -> Option<bool> {
    match form.sums() {
        Sums::Bytes { signed } if flips(signed) => Some(signed[0]),
        _ => None,
    }
}

/// Whether results are looked at for NaN.
fn makes_nan(form: &Form) -> bool {
    is_float(form) && Groups::of(form).is_none()
}

fn is_float(form: &Form) -> bool {
    !matches!(form.sums(), Sums::Bytes { .. })
}

/// An operand decoded to rows of the area.
struct Panel {
    register: u32,
    /// 0 of A, 1 of B, 2 of the sums of B's bytes.
    of: usize,
    first: usize,
}

struct Maker {
    asm: Assembler,
    lanes: u32,
    /// If products are by CDNA 3's rule.
    groups: Option<Groups>,
    panels: Vec<Panel>,
    /// Rows of the area that are used.
    used: usize,
    /// Turns through the registers for anything.
    other: usize,
    /// The registers of B that are decoded to, four of them.
    decoded: usize,
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
        MemoryOperand::with_base_displ_size(Register::RIP, at, 8)
    }

    /// The 16 lanes from a place of an operand on.
    fn row(&mut self, first: u32, place: Place) -> Result<MemoryOperand, CompileError> {
        let key = VectorRegisters::slot(self.lanes, first + place.register).key();
        self.asm.row(key, place.lane / 16)
    }

    /// A row of the area.
    fn area(row: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ(SPILL, 64 * row as i64)
    }

    /// Where an operand lies in the area if it has been decoded: its first register, and what of it as in [`Panel`].
    fn known(&self, register: u32, of: usize) -> Option<usize> {
        let mut panels = self.panels.iter();
        let panel = panels.find(|p| (p.register, p.of) == (register, of))?;
        Some(panel.first)
    }

    /// Makes room in the area for those of some operands that have not been decoded, of so many rows each.
    fn make_room(&mut self, wanted: &[(u32, usize, usize)]) -> Made {
        let rows = |all: bool| -> usize {
            let missing = wanted
                .iter()
                .filter(|&&(register, of, _)| all || self.known(register, of).is_none());
            missing.map(|&(_, _, rows)| rows).sum()
        };
        if rows(true) > SPILL_ROWS {
            return Err(CompileError::Room("operands of a product"));
        }
        if self.used + rows(false) > SPILL_ROWS {
            // What was decoded before is decoded again.
            self.panels.clear();
            self.used = 0;
        }
        Ok(())
    }

    /// Rows of the area, for which there is room.
    fn rows(&mut self, count: usize) -> usize {
        let first = self.used;
        self.used += count;
        first
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

    fn products(&mut self, products: &[Product], core: u64) -> Made {
        let form = products[0].form;
        if let Some(groups) = self.groups {
            return products
                .iter()
                .try_for_each(|p| self.fused(p, groups, core));
        }
        if is_float(&form) {
            for n in 1..=NAN_MASKS as u32 {
                let k = Register::K0 + n;
                self.three(Code::VEX_Kxnorw_kr_kr_kr, k, k, Arg::Reg(k))?;
            }
        }
        if form.sums() == Sums::Double {
            return products.iter().try_for_each(|p| self.double(p));
        }
        for run in self.runs(products) {
            self.words(&run, core)?;
        }
        Ok(())
    }

    /// Products that go on with the sums of one another, one run for each set of sums. What has accumulators of its own
    /// does not wait for others, so that they may be done first, if the area has room for the operands of all.
    fn runs(&self, products: &[Product]) -> Vec<Vec<Product>> {
        let mut order = products.to_vec();
        let in_place = |p: &Product| match p.c {
            Start::Register(c) => c == p.d,
            Start::Constant(_) => true,
        };
        if products.iter().all(in_place) && self.needed_rows(products) <= SPILL_ROWS {
            let first = |d: u32| products.iter().position(|p| p.d == d);
            order.sort_by_key(|p| first(p.d));
        }
        let mut runs: Vec<Vec<Product>> = Vec::new();
        for product in order {
            if let Some(run) = runs.last_mut()
                && run[0].d == product.d
                && product.c == Start::Register(product.d)
            {
                run.push(product);
                if self.needed_rows(run) <= SPILL_ROWS {
                    continue;
                }
                run.pop();
            }
            runs.push(vec![product]);
        }
        runs
    }

    /// Rows of the area that an operand takes.
    fn operand_rows(&self, form: &Form) -> usize {
        let sides = form.shape()[1] / 16 * form.blocks();
        let plain = area_rows(form) * sides;
        self.groups.map_or(plain, |groups| groups.area_rows(form))
    }

    /// Operands that products are to find in the area: as in [`Panel`], with their rows.
    fn operands(&self, products: &[Product]) -> Vec<(u32, usize, usize)> {
        let mut operands = Vec::new();
        for product in products {
            let form = &product.form;
            let sides = form.shape()[1] / 16 * form.blocks();
            let rows = self.operand_rows(form);
            let mut add = |operand| {
                if !operands.contains(&operand) {
                    operands.push(operand);
                }
            };
            add((product.a, 0, rows));
            add((product.b, 1, rows));
            if flipped(form).is_some() {
                add((product.b, 2, sides));
            }
        }
        operands
    }

    fn needed_rows(&self, products: &[Product]) -> usize {
        let operands = self.operands(products);
        operands.into_iter().map(|(_, _, rows)| rows).sum()
    }

    /// Rows of a strip.
    fn strip_rows(form: &Form) -> usize {
        let [m, n, _] = form.shape();
        (SUMS * 16 / n).min(m)
    }

    /// The strips of a product: block, first row, rows.
    fn strips(form: &Form) -> Vec<(usize, usize, usize)> {
        let m = form.shape()[0];
        let rows = Self::strip_rows(form);
        (0..form.blocks())
            .flat_map(|block| (0..m).step_by(rows).map(move |row| (block, row, rows)))
            .collect()
    }

    /// Loads the accumulators of a strip, to which row `extra` of the area and those behind it, one for each column, are
    /// added.
    fn accumulators(
        &mut self,
        product: &Product,
        (block, first, rows): (usize, usize, usize),
        extra: Option<usize>,
    ) -> Made {
        let columns = product.form.shape()[1] / 16;
        for (i, (row, column)) in pairs(first, rows, columns).enumerate() {
            match product.c {
                Start::Register(c) => {
                    let place = product.form.d(block, row, 16 * column);
                    let from = self.row(c, place)?;
                    if extra.is_some() {
                        self.three(ADD, zmm(i), zmm(OF_B + column), Arg::Mem(from))?;
                    } else {
                        self.load(zmm(i), from)?;
                    }
                }
                Start::Constant(0) if extra.is_none() => {
                    let to = zmm(i);
                    self.three(XOR, to, to, Arg::Reg(to))?;
                }
                Start::Constant(bits) => {
                    if i == 0 {
                        self.immediate(zmm(OTHER), bits as u32)?;
                    }
                    if extra.is_some() {
                        self.three(ADD, zmm(i), zmm(OF_B + column), Arg::Reg(zmm(OTHER)))?;
                    } else {
                        let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                        self.two(code, zmm(i), Arg::Reg(zmm(OTHER)))?;
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
        self.checked = self.checked % NAN_MASKS + 1;
        let k = Register::K0 + self.checked as u32;
        self.asm
            .put(masked(with3_imm(code, k, a, Arg::Reg(b), ORDERED), k))
    }

    /// Goes aside if there were NaN.
    fn check(&mut self, sums: Sums, aside: u64) -> Made {
        let k = |n: u32| Register::K0 + n;
        for (to, from) in [(1, 2), (3, 4), (1, 3)] {
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
        let done = Instruction::with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX);
        self.asm.put(done)?;
        self.asm.put(Ok(Instruction::with(Code::Retnq)))
    }

    /// Products that go on with the sums of one another, whose results have 32 bits. Their core is at `core`.
    fn words(&mut self, run: &[Product], core: u64) -> Made {
        let form = &run[0].form;
        let [m, n, _] = form.shape();
        let columns = n / 16;
        self.make_room(&self.operands(run))?;
        let mut panels = Vec::new();
        for product in run {
            let (a, b) = (self.panel(product, 0)?, self.panel(product, 1)?);
            let extra = match flipped(form) {
                Some(signed) => Some(self.byte_sums(product, signed)?),
                None => None,
            };
            panels.push((a, b, extra));
        }
        for strip in Self::strips(form) {
            let (block, first, rows) = strip;
            for (i, &(a, b, extra)) in panels.iter().enumerate() {
                let extra = extra.map(|extra| extra + block * columns);
                if let Some(extra) = extra {
                    for column in 0..columns {
                        self.load(zmm(OF_B + column), Self::area(extra + column))?;
                    }
                }
                if i == 0 {
                    self.accumulators(&run[0], strip, extra)?;
                    match form.sums() {
                        Sums::Tree if form.guard().is_some() => self.large(rows * columns)?,
                        Sums::Tree => {
                            (0..rows * columns).try_for_each(|sum| self.flush(zmm(sum)))?;
                        }
                        _ => (),
                    }
                } else if extra.is_some() {
                    for sum in 0..rows * columns {
                        let extra = Arg::Reg(zmm(OF_B + sum % columns));
                        self.three(ADD, zmm(sum), zmm(sum), extra)?;
                    }
                }
                let line = block * m + first;
                for (to, row, word) in [
                    (OF_A_AT, a + line / 16, line % 16),
                    (OF_B_AT, b + block * columns, 0),
                ] {
                    let mut from = Self::area(row);
                    from.displacement += 4 * word as i64;
                    self.asm
                        .put(Instruction::with2(Code::Lea_r64_m, to, from))?;
                }
                self.asm
                    .put(Instruction::with_branch(Code::Call_rel32_64, core))?;
                self.asm.forget(&[OF_B_AT, END]);
            }
            self.results(&run[0], strip)?;
        }
        Ok(())
    }

    /// What all strips of all products of a form do: adds products of rows of the area, from [`OF_A_AT`] and
    /// [`OF_B_AT`] on, to their sums.
    fn core(&mut self, form: &Form, careful: bool) -> Made {
        let [_, n, _] = form.shape();
        let (columns, sides) = (n / 16, n / 16 * form.blocks());
        let length = area_rows(form);
        let turn = length.min(4);
        if !length.is_multiple_of(turn) {
            return Err(CompileError::Room(
                "sums of a length that is no multiple of four",
            ));
        }
        let rows = Self::strip_rows(form);
        let step = (64 * turn * sides) as i64;
        let loops = length > turn;
        if loops {
            let end = MemoryOperand::with_base_displ(OF_A_AT, (64 * length * sides) as i64);
            self.asm
                .put(Instruction::with2(Code::Lea_r64_m, END, end))?;
        }
        let top = self.asm.here();
        for (i, column) in pairs(0, turn, columns) {
            let at = (64 * (i * sides + column)) as i64;
            let from = MemoryOperand::with_base_displ(OF_B_AT, at);
            self.load(zmm(OF_B + i * columns + column), from)?;
        }
        let of_a = |row: usize, i: usize| {
            MemoryOperand::with_base_displ(OF_A_AT, (64 * i * sides + 4 * row) as i64)
        };
        if form.sums() == Sums::Tree {
            for row in 0..rows {
                self.group(columns, row * columns, careful, |i| of_a(row, i))?;
            }
        } else {
            for (i, row) in pairs(0, turn, rows) {
                let b = OF_B + i * columns;
                self.multiply(form.sums(), of_a(row, i), b, row * columns, columns)?;
            }
        }
        if loops {
            for instruction in [
                Instruction::with2(Code::Add_rm64_imm32, OF_A_AT, step as i32),
                Instruction::with2(Code::Add_rm64_imm32, OF_B_AT, step as i32),
                Instruction::with2(Code::Cmp_rm64_r64, OF_A_AT, END),
                Instruction::with_branch(Code::Jb_rel32_64, top),
            ] {
                self.asm.put(instruction)?;
            }
        }
        self.asm.put(Ok(Instruction::with(Code::Retnq)))
    }

    /// Adds the products of a word for all lanes and one or two vectors to sums.
    fn multiply(
        &mut self,
        sums: Sums,
        mut a: MemoryOperand,
        b: usize,
        sum: usize,
        columns: usize,
    ) -> Made {
        const DOT: Code = Code::EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32;
        // The host takes unsigned bytes first, and only its second operand from memory.
        let (code, unsigned) = match sums {
            Sums::Bytes { signed } => (DOT, flips(signed) == signed[0]),
            _ => (FMA, false),
        };
        if columns == 1 && !unsigned {
            a.is_broadcast = true;
            return self.three(code, zmm(sum), zmm(b), Arg::Mem(a));
        }
        let to = self.other();
        self.two(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, Arg::Mem(a))?;
        for column in 0..columns {
            let (sum, b) = (zmm(sum + column), zmm(b + column));
            let (first, second) = if unsigned { (to, b) } else { (b, to) };
            self.three(code, sum, first, Arg::Reg(second))?;
        }
        Ok(())
    }

    /// What all strips of all products of a form do. Returns where it begins.
    fn cores(
        form: &Form,
        groups: Option<Groups>,
        bytes: &mut Vec<u8>,
        maker: &dyn Fn(usize) -> Maker,
    ) -> Result<usize, CompileError> {
        match (groups, form.sums()) {
            (Some(groups), _) => Maker::fused_cores(groups, bytes, maker),
            (None, Sums::Double) => Ok(bytes.len()),
            (None, Sums::Tree) if form.guard().is_some() => {
                Maker::careful_cores(form, bytes, maker)
            }
            _ => append(bytes, maker, &|maker| maker.core(form, false)),
        }
    }

    /// The cores of trees of bf16. Returns where the one begins that has a look at [`LARGE`].
    fn careful_cores(
        form: &Form,
        bytes: &mut Vec<u8>,
        maker: &dyn Fn(usize) -> Maker,
    ) -> Result<usize, CompileError> {
        let mut put = |emit: &dyn Fn(&mut Maker) -> Made| append(bytes, maker, emit);
        let jump = |code, to: usize| Instruction::with_branch(code, to as u64);
        let careful = put(&|maker| maker.core(form, true))?;
        let quick = put(&|maker| maker.core(form, false))?;
        let sums = Self::strip_rows(form) * form.shape()[1] / 16;
        let small = put(&|maker| {
            maker.are_small(sums)?;
            maker.asm.put(jump(Code::Jae_rel32_64, careful))?;
            maker.asm.put(jump(Code::Jmp_rel32_64, quick))
        })?;
        put(&|maker| {
            let k = LARGE[0];
            maker.two(Code::VEX_Kortestw_kr_kr, k, Arg::Reg(k))?;
            maker.asm.put(jump(Code::Jae_rel32_64, small))?;
            maker.asm.put(jump(Code::Jmp_rel32_64, quick))
        })
    }

    /// Notes which accumulators need no care: those from 2^-95 on.
    fn large(&mut self, sums: usize) -> Made {
        for k in LARGE {
            self.three(Code::VEX_Kxnorw_kr_kr_kr, k, k, Arg::Reg(k))?;
        }
        for sum in 0..sums {
            let (k, bits) = (LARGE[sum % 2], self.constant(pool::LARGE));
            let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
            self.asm.put(masked(with3(test, k, zmm(sum), bits), k))?;
        }
        let [k, other] = LARGE;
        self.three(Code::VEX_Kandw_kr_kr_kr, k, k, Arg::Reg(other))
    }

    /// Flushes accumulators, and sets the carry if all are zero or 2^-102 at least.
    fn are_small(&mut self, sums: usize) -> Made {
        let [least, x] = [zmm(OF_B), zmm(OF_B + 1)];
        self.spread_to(least, pool::MINUS_1)?;
        let ones = self.constant(pool::MINUS_1);
        for sum in 0..sums {
            self.flush(zmm(sum))?;
            let left = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
            self.asm.put(with2_imm(left, x, Arg::Reg(zmm(sum)), 1))?;
            // Zero wraps to the largest number.
            self.three(ADD, x, x, ones)?;
            let min = Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32;
            self.three(min, least, least, Arg::Reg(x))?;
        }
        let (k, bound) = (Register::K7, self.constant(pool::LEAST));
        let compare = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        self.asm
            .put(with3_imm(compare, k, least, bound, NOT_BELOW))?;
        self.two(Code::VEX_Kortestw_kr_kr, k, Arg::Reg(k))
    }

    /// Adds the tree of four products to the sums of a row: vectors of B are by k and column. With `careful` sums that are
    /// subnormal become zeros of their sign.
    fn group(
        &mut self,
        columns: usize,
        sum: usize,
        careful: bool,
        a: impl Fn(usize) -> MemoryOperand,
    ) -> Made {
        const MULTIPLY: Code = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
        const XOR: Code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        const ADD: Code = Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
        let b = |k: usize, column: usize| zmm(OF_B + k * columns + column);
        // Two pairs of two columns, and two words of A.
        let part = |pair: usize, column: usize| zmm(OTHER + 2 * pair + column);
        for pair in 0..2 {
            for i in 0..2 {
                let k = 2 * pair + i;
                let mut at = a(k);
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
                    let code = if i == 0 && !careful { MULTIPLY } else { FMA };
                    let to = part(pair, column);
                    if i == 0 && careful {
                        self.three(XOR, to, to, Arg::Reg(to))?;
                    }
                    self.three(code, to, b(k, column), spread)?;
                }
            }
        }
        for column in 0..columns {
            let (first, sum) = (part(0, column), zmm(sum + column));
            self.three(ADD, first, first, Arg::Reg(part(1, column)))?;
            self.three(ADD, sum, sum, Arg::Reg(first))?;
            if careful {
                let exponent = self.constant(pool::EXPONENT);
                let test = Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32;
                self.three(test, Register::K7, sum, exponent)?;
                let sign = self.constant(pool::SIGN);
                self.asm
                    .put(masked(with3(decode::AND, sum, sum, sign), Register::K7))?;
            }
        }
        Ok(())
    }

    /// Makes NaN in the results of products the one that they give.
    fn canonical(&mut self, products: &[Product]) -> Made {
        let form = &products[0].form;
        let [m, n, _] = form.shape();
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
}

/// Row and column of the sums of a strip.
fn pairs(first: usize, rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (first..first + rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}
