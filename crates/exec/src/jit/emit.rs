//! From a run to AVX-512 code: which instruction computes each node, and from where it takes its operands.
//! `ways` groups of lanes are computed side by side, so that one's latencies hide behind the others'.

use std::collections::HashMap;

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::trace::graph::{Id, Op};

use super::assembler::{
    Arg, Assembler, CompileError, MASK_INDEX, ROW_INDEX, SCALARS, masked, with2, with2_imm, with3,
    with3_imm,
};
use super::collect::{Run, Step};
use super::plan::{SIDE_BY_SIDE, folded, merged, uses, ways};
use super::select::{binary, high_half, unary};
use super::values::{Class, Home, Value, Values};

/// Code of one run: bytes, and where in them it begins.
pub struct Emitted {
    /// Constants, then instructions.
    pub bytes: Vec<u8>,
    /// Offset of the first instruction.
    pub entry: usize,
}

/// Constants before the code.
struct Pool {
    bytes: Vec<u8>,
    at: HashMap<Id, u64>,
}

struct Emitter<'r> {
    run: &'r Run,
    asm: Assembler,
    values: Values,
    ways: u32,
    uniform: Vec<bool>,
    /// Nodes that their only user takes from memory.
    folded: Vec<bool>,
    /// Nodes that their only user, a select, computes in the lanes where it wants them.
    merged: Vec<bool>,
    /// All lanes are active.
    full: bool,
    /// The code is a loop over groups of lanes.
    looped: bool,
    pool: Pool,
}

/// About the most bytes that [`emit`] gives.
pub fn bound(run: &Run) -> usize {
    let steps = run.steps.len();
    // Done for up to four groups side by side if there are few (see `ways`); a step is a few instructions.
    let turns = steps.max((4 * steps).min(SIDE_BY_SIDE));
    64 * run.graph.tables.len() + 4 * steps + 64 * turns + 4096
}

/// Compiles a run for waves of `chunks` groups of 16 lanes; the code will lie at `address`. With `full` it is for
/// waves with all lanes active.
///
/// # Errors
/// The run has more values at a time than there is room for.
pub fn emit(run: &Run, chunks: u32, full: bool, address: u64) -> Result<Emitted, CompileError> {
    let count = run.graph.nodes.len();
    let mut uniform = vec![false; count];
    for (at, node) in run.graph.nodes.iter().enumerate() {
        uniform[at] = match node.op {
            Op::Row | Op::Mask | Op::Lane => false,
            _ => node.operands().all(|id| uniform[id.0 as usize]),
        };
    }
    let ways = ways(run, &uniform, chunks);
    let looped = ways < chunks;
    let pool = pool(run, address);
    let entry = pool.bytes.len();
    let classes = (0..count as u32 * ways).map(|v| {
        if run.graph.nodes[(v / ways) as usize].op.is_condition() {
            Class::Condition
        } else {
            Class::Vector
        }
    });
    let uses = uses(run);
    let merged = merged(run, &uses);
    let mut e = Emitter {
        run,
        full,
        looped,
        asm: Assembler::new(address + entry as u64, looped),
        values: Values::new(classes),
        ways,
        folded: folded(run, &uses, &merged, &uniform, ways),
        merged,
        uniform,
        pool,
    };
    e.note_uses();
    e.homes();
    if looped {
        e.zero(ROW_INDEX)?;
        e.zero(MASK_INDEX)?;
    }
    let top = e.asm.here();
    let mut position = 0;
    for step in &run.steps {
        for way in 0..e.turns(step) {
            e.step(step, way, position)?;
            position += 1;
        }
    }
    if looped {
        let add = Code::Add_rm64_imm32;
        let (rows, masks) = (64 * ways as i32, 2 * ways as i32);
        e.asm.put(Instruction::with2(add, ROW_INDEX, rows))?;
        e.asm.put(Instruction::with2(add, MASK_INDEX, masks))?;
        let all = 64 * chunks as i32;
        e.asm
            .put(Instruction::with2(Code::Cmp_rm64_imm32, ROW_INDEX, all))?;
        e.asm
            .put(Instruction::with_branch(Code::Jb_rel32_64, top))?;
    }
    e.asm.put(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
    e.asm.put(Ok(Instruction::with(Code::Retnq)))?;
    let mut bytes = e.pool.bytes;
    bytes.extend(e.asm.finish());
    Ok(Emitted { bytes, entry })
}

/// Tables and constants, at addresses from `address` on.
fn pool(run: &Run, address: u64) -> Pool {
    let mut pool = Pool {
        bytes: Vec::new(),
        at: HashMap::new(),
    };
    for table in &run.graph.tables {
        pool.bytes
            .extend(table.iter().flat_map(|w| w.to_le_bytes()));
    }
    for step in &run.steps {
        let Step::Compute(id) = *step else { continue };
        let node = run.graph.get(id);
        match node.op {
            Op::Table => {
                pool.at.insert(id, address + 64 * u64::from(node.imm));
            }
            Op::Const | Op::ConstMask => {
                pool.at.insert(id, address + pool.bytes.len() as u64);
                pool.bytes.extend(node.imm.to_le_bytes());
            }
            _ => {}
        }
    }
    pool.bytes
        .resize(pool.bytes.len().next_multiple_of(64), 0xcc);
    pool
}

impl Emitter<'_> {
    /// How many times a step is done.
    fn turns(&self, step: &Step) -> u32 {
        match *step {
            Step::Compute(id) if self.uniform[id.0 as usize] => 1,
            Step::StoreMask(..) if !self.looped => 1,
            _ => self.ways,
        }
    }

    fn value(&self, id: Id, way: u32) -> Value {
        let way = if self.uniform[id.0 as usize] { 0 } else { way };
        Value(id.0 * self.ways + way)
    }

    /// Values that a step takes from registers.
    fn used(&self, step: &Step, way: u32) -> Vec<Value> {
        let graph = &self.run.graph;
        let ids: Vec<Id> = match *step {
            Step::Compute(id) if self.merged[id.0 as usize] => Vec::new(),
            Step::Compute(id) => {
                let (inner, plain): (Vec<Id>, Vec<Id>) = graph
                    .get(id)
                    .operands()
                    .partition(|arg| self.merged[arg.0 as usize]);
                let inner = inner.into_iter().flat_map(|arg| graph.get(arg).args);
                inner.filter(|&arg| arg != Id::NONE).chain(plain).collect()
            }
            Step::StoreRow(_, id) if self.full => vec![id],
            Step::StoreRow(_, id) => vec![id, self.run.inactive],
            Step::StoreMask(_, id) if !self.looped => {
                return (0..self.ways).map(|way| self.value(id, way)).collect();
            }
            Step::StoreMask(_, id) => vec![id],
        };
        let in_registers = ids.into_iter().filter(|id| !self.folded[id.0 as usize]);
        in_registers.map(|id| self.value(id, way)).collect()
    }

    fn note_uses(&mut self) {
        let mut position = 0;
        for step in &self.run.steps {
            for way in 0..self.turns(step) {
                for value in self.used(step, way) {
                    self.values.note_use(value, position);
                }
                position += 1;
            }
        }
    }

    /// Tells where leaves can be loaded from at any time.
    fn homes(&mut self) {
        let mut rows = Vec::new();
        let mut masks = Vec::new();
        for step in &self.run.steps {
            match *step {
                Step::StoreRow(key, _) => rows.push(key),
                Step::StoreMask(n, _) => masks.push(n),
                Step::Compute(_) => {}
            }
        }
        for step in &self.run.steps {
            let Step::Compute(id) = *step else { continue };
            let node = self.run.graph.get(id);
            for way in 0..self.turns(step) {
                let home = match node.op {
                    Op::Row if !rows.contains(&node.imm) => Home::Row(node.imm, way),
                    Op::Mask if !masks.contains(&node.imm) => Home::Mask(node.imm, way),
                    Op::Lane => Home::Lane(way),
                    Op::Const => Home::Word(self.pooled(id)),
                    Op::Scalar => Home::Word(scalar_word(node.imm)),
                    Op::Table | Op::ConstMask => Home::At(self.pooled(id)),
                    _ => continue,
                };
                let value = self.value(id, way);
                self.values.set_home(value, home);
            }
        }
    }

    /// Where a constant lies.
    fn pooled(&self, id: Id) -> MemoryOperand {
        let at = self.pool.at.get(&id).copied().unwrap_or_default();
        MemoryOperand::with_base_displ_size(Register::RIP, at as i64, 8)
    }

    fn zero(&mut self, register: Register) -> Result<(), CompileError> {
        let narrow = match register {
            Register::RCX => Register::ECX,
            _ => Register::R8D,
        };
        self.asm
            .put(Instruction::with2(Code::Xor_r32_rm32, narrow, narrow))
    }

    fn step(&mut self, step: &Step, way: u32, position: u32) -> Result<(), CompileError> {
        match *step {
            Step::Compute(id) => self.compute(id, way, position)?,
            Step::StoreRow(key, id) => self.store_row(key, id, way, position)?,
            Step::StoreMask(n, id) if self.looped => {
                let from = self.need(id, way)?;
                let to = self.asm.mask(n, way);
                let store = Instruction::with2(Code::VEX_Kmovw_m16_kr, to, from);
                self.asm.put(store)?;
            }
            Step::StoreMask(n, id) => self.store_mask(n, id)?,
        }
        let used = self.used(step, way);
        self.values.step(used.into_iter(), position);
        Ok(())
    }

    /// Stores a whole mask at once: what reads it next reads it whole, and does not wait for that.
    fn store_mask(&mut self, n: u32, id: Id) -> Result<(), CompileError> {
        let mut parts = Vec::new();
        for way in 0..self.ways {
            parts.push(self.need(id, way)?);
        }
        let mut join = Code::VEX_Kunpckwd_kr_kr_kr;
        let mut store = Code::VEX_Kmovd_m32_kr;
        while parts.len() > 1 {
            let mut joined = Vec::new();
            for pair in parts.chunks_exact(2) {
                let to = self.values.scratch(&mut self.asm, Class::Condition)?;
                // The high half comes first.
                self.asm.put(with3(join, to, pair[1], Arg::Reg(pair[0])))?;
                joined.push(to);
            }
            if joined.len() > 1 {
                join = Code::VEX_Kunpckdq_kr_kr_kr;
                store = Code::VEX_Kmovq_m64_kr;
            }
            parts = joined;
        }
        let to = self.asm.mask(n, 0);
        self.asm.put(Instruction::with2(store, to, parts[0]))
    }

    /// Stores whole rows: inactive lanes are put back as they were. A masked store that a load follows stalls.
    fn store_row(&mut self, key: u32, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let value = self.value(id, way);
        let inactive = self.value(self.run.inactive, way);
        let from = self.values.need(&mut self.asm, value)?;
        if self.full {
            let row = self.asm.row(key, way)?;
            let store = Instruction::with2(Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm, row, from);
            self.asm.put(store)?;
            if !self.uniform[id.0 as usize] {
                self.values.set_home(value, Home::Row(key, way));
            }
            return Ok(());
        }
        let mask = self.values.need(&mut self.asm, inactive)?;
        let last = self.values.dies(value, at);
        let to = if last {
            from
        } else {
            self.values.scratch(&mut self.asm, Class::Vector)?
        };
        let row = self.asm.row(key, way)?;
        let blend = with3(
            Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32,
            to,
            from,
            Arg::Mem(row),
        );
        self.asm.put(masked(blend, mask))?;
        let store = Instruction::with2(Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm, row, to);
        self.asm.put(store)?;
        if !last && !self.uniform[id.0 as usize] {
            // Active lanes are all that anybody asks for.
            self.values.set_home(value, Home::Row(key, way));
        }
        Ok(())
    }

    /// The register of an operand.
    fn need(&mut self, id: Id, way: u32) -> Result<Register, CompileError> {
        let value = self.value(id, way);
        self.values.need(&mut self.asm, value)
    }

    /// An operand that may be in memory.
    fn arg(&mut self, id: Id, way: u32) -> Result<Arg, CompileError> {
        if !self.folded[id.0 as usize] {
            return Ok(Arg::Reg(self.need(id, way)?));
        }
        let node = self.run.graph.get(id);
        let mut at = match node.op {
            Op::Row => self.asm.row(node.imm, way)?,
            Op::Scalar => scalar_word(node.imm),
            _ => self.pooled(id),
        };
        at.is_broadcast = node.op != Op::Row;
        Ok(Arg::Mem(at))
    }

    /// A register that holds a copy of one of `ids`, to be overwritten by the value of `id`: one that is used for
    /// the last time if there is such. Returns which it was.
    fn overwrite(
        &mut self,
        id: Id,
        ids: &[Id],
        way: u32,
        at: u32,
    ) -> Result<(usize, Register), CompileError> {
        let to = self.value(id, way);
        for (which, &from) in ids.iter().enumerate() {
            let value = self.value(from, way);
            if !self.folded[from.0 as usize] && self.values.dies(value, at) {
                self.values.need(&mut self.asm, value)?;
                if let Some(register) = self.values.take_over(value, to) {
                    return Ok((which, register));
                }
            }
        }
        let from = self.need(ids[0], way)?;
        let register = self.values.define(&mut self.asm, to)?;
        let copy = with2(
            Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512,
            register,
            Arg::Reg(from),
        );
        self.asm.put(copy)?;
        Ok((0, register))
    }

    /// The register for a result, which may be that of an operand that is used for the last time.
    fn result(&mut self, id: Id, way: u32, at: u32) -> Result<Register, CompileError> {
        let to = self.value(id, way);
        for from in self.run.graph.get(id).operands() {
            let same = self.run.graph.get(from).op.is_condition()
                == self.run.graph.get(id).op.is_condition();
            let value = self.value(from, way);
            if same
                && !self.folded[from.0 as usize]
                && self.values.dies(value, at)
                && self.values.is_here(value)
                && let Some(register) = self.values.take_over(value, to)
            {
                return Ok(register);
            }
        }
        self.values.define(&mut self.asm, to)
    }

    fn compute(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let [a, b, c] = node.args;
        use Op::*;
        if self.merged[id.0 as usize] {
            return Ok(());
        }
        match node.op {
            Row | Mask | Lane | Scalar | Const | Table | ConstMask => self.leaf(id, way),
            Logic => self.logic(id, way, at),
            FmaF | FmaD => self.fma(id, way, at),
            JoinLow | JoinHigh | SplitLow | SplitHigh => {
                let (table, high) = (self.need(c, way)?, self.need(b, way)?);
                self.need(a, way)?;
                // Only the first operand can be overwritten; not if it is the second one as well.
                let low = if a == b {
                    self.copy(id, a, way)?
                } else {
                    self.overwrite(id, &[a], way, at)?.1
                };
                let code = Code::EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32;
                self.asm.put(with3(code, low, table, Arg::Reg(high)))
            }
            Select if self.merged[b.0 as usize] => {
                let inner = self.run.graph.get(b);
                let (x, y) = (
                    self.need(inner.args[0], way)?,
                    self.need(inner.args[1], way)?,
                );
                let mask = self.need(a, way)?;
                self.need(c, way)?;
                let (_, to) = self.overwrite(id, &[c], way, at)?;
                let changed = binary(&inner, to, x, Arg::Reg(y));
                self.asm.put(masked(changed, mask))
            }
            Select | SelectD => {
                let code = if node.op == Select {
                    Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32
                } else {
                    Code::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64
                };
                let mask = self.need(a, way)?;
                let (other, chosen) = (self.need(c, way)?, self.arg(b, way)?);
                let to = self.result(id, way, at)?;
                self.asm.put(masked(with3(code, to, other, chosen), mask))
            }
            MaskNot => {
                let from = self.need(a, way)?;
                let to = self.result(id, way, at)?;
                self.asm
                    .put(with2(Code::VEX_Knotw_kr_kr, to, Arg::Reg(from)))
            }
            MaskHigh => {
                let from = self.need(a, way)?;
                let to = self.result(id, way, at)?;
                let code = Code::VEX_Kshiftrw_kr_kr_imm8;
                self.asm.put(with2_imm(code, to, Arg::Reg(from), 8))
            }
            MaskAnd | MaskOr | MaskJoin => {
                let (x, y) = (self.need(a, way)?, self.need(b, way)?);
                let to = self.result(id, way, at)?;
                self.asm.put(match node.op {
                    MaskAnd => with3(Code::VEX_Kandw_kr_kr_kr, to, x, Arg::Reg(y)),
                    MaskOr => with3(Code::VEX_Korw_kr_kr_kr, to, x, Arg::Reg(y)),
                    // The high half comes first.
                    _ => with3(Code::VEX_Kunpckbw_kr_kr_kr, to, y, Arg::Reg(x)),
                })
            }
            HighHalf => {
                let from = self.need(a, way)?;
                let to = self.result(id, way, at)?;
                self.asm.put(high_half(to, from))
            }
            _ if b == Id::NONE => {
                let from = self.arg(a, way)?;
                let to = self.result(id, way, at)?;
                self.asm.put(unary(&node, to, from))
            }
            _ => {
                let (x, y) = (self.need(a, way)?, self.arg(b, way)?);
                let to = self.result(id, way, at)?;
                self.asm.put(binary(&node, to, x, y))
            }
        }
    }

    /// Leaves are loaded where they are needed, but for those that change before that.
    fn leaf(&mut self, id: Id, way: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let changes = |step: &Step| match *step {
            Step::StoreRow(key, _) => node.op == Op::Row && key == node.imm,
            Step::StoreMask(n, _) => node.op == Op::Mask && n == node.imm,
            Step::Compute(_) => false,
        };
        if self.folded[id.0 as usize] || !self.run.steps.iter().any(changes) {
            return Ok(());
        }
        let value = self.value(id, way);
        let (code, from) = match node.op {
            Op::Mask => (Code::VEX_Kmovw_kr_km16, self.asm.mask(node.imm, way)),
            _ => (
                Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512,
                self.asm.row(node.imm, way)?,
            ),
        };
        let to = self.values.define(&mut self.asm, value)?;
        self.asm.put(with2(code, to, Arg::Mem(from)))
    }

    /// A copy of `from` in a register of `id`'s own.
    fn copy(&mut self, id: Id, from: Id, way: u32) -> Result<Register, CompileError> {
        let source = self.need(from, way)?;
        let value = self.value(id, way);
        let to = self.values.define(&mut self.asm, value)?;
        let code = Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512;
        self.asm.put(with2(code, to, Arg::Reg(source)))?;
        Ok(to)
    }

    fn logic(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let [a, b, c] = node.args;
        let ternary = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        if b == Id::NONE {
            let x = self.need(a, way)?;
            let to = self.result(id, way, at)?;
            // A function of the last operand alone.
            let table = if node.imm & 1 != 0 { 0x55 } else { 0xaa };
            return self.asm.put(with3_imm(ternary, to, x, Arg::Reg(x), table));
        }
        if c == Id::NONE {
            let (x, y) = (self.need(a, way)?, self.arg(b, way)?);
            let to = self.result(id, way, at)?;
            return self.asm.put(binary(&node, to, x, y));
        }
        let last = self.arg(c, way)?;
        let (x, y) = (self.need(a, way)?, self.need(b, way)?);
        let (which, to) = self.overwrite(id, &[a, b], way, at)?;
        if which == 0 {
            return self.asm.put(with3_imm(ternary, to, y, last, node.imm));
        }
        // The first two operands change places.
        let bit = |i: u32| node.imm >> (i & 1 | (i & 2) << 1 | (i & 4) >> 1) & 1;
        let table = (0..8).fold(0, |all, i| all | bit(i) << i);
        self.asm.put(with3_imm(ternary, to, x, last, table))
    }

    /// Multiply-add in the form that returns the first NaN of a, b, c: the products' operands in this order.
    fn fma(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let ids = node.args;
        let mut r = [Register::None; 3];
        for (register, &arg) in r.iter_mut().zip(&ids) {
            *register = self.need(arg, way)?;
        }
        let [a, b, c] = r;
        let (which, to) = self.overwrite(id, &[ids[2], ids[0], ids[1]], way, at)?;
        let single = node.op == Op::FmaF;
        self.asm.put(match (which, single) {
            (0, true) => {
                Instruction::with3(Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, to, a, b)
            }
            (0, false) => {
                Instruction::with3(Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er, to, a, b)
            }
            (1, true) => {
                Instruction::with3(Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er, to, c, b)
            }
            (1, false) => {
                Instruction::with3(Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er, to, c, b)
            }
            (_, true) => {
                Instruction::with3(Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, to, a, c)
            }
            (_, false) => {
                Instruction::with3(Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er, to, a, c)
            }
        })
    }
}

/// Where a word of the scalar file lies.
fn scalar_word(n: u32) -> MemoryOperand {
    MemoryOperand::with_base_displ(SCALARS, 4 * i64::from(n))
}
