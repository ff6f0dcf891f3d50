//! From a run to code: what every step needs in registers, and the loop around them. Which instructions do a step is
//! told by the modules of the hosts. `ways` groups of lanes are computed side by side, so that one's latencies hide behind the others'.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::trace::graph::{Id, Op};

use super::assembler::{Arg, Assembler, CompileError, MASK_INDEX, ROW_INDEX, SCALARS, with2};
use super::collect::{Run, Step};
use super::host::Host;
use super::plan::{SIDE_BY_SIDE, folded, merged, uniform, uses, ways};
use super::pool::Pool;
use super::values::{Class, Home, Value, Values};
use super::{avx2, avx512, pool};

/// Code of one run: bytes, and where in them it begins.
pub struct Emitted {
    /// Constants, then instructions.
    pub bytes: Vec<u8>,
    /// Offset of the first instruction.
    pub entry: usize,
}

/// A run that is being compiled.
pub struct Emitter<'r> {
    /// The run.
    pub run: &'r Run,
    /// What the code is for.
    pub host: Host,
    /// Its instructions.
    pub asm: Assembler,
    /// Where values are.
    pub values: Values,
    /// How many groups are computed side by side.
    pub ways: u32,
    /// Nodes that are the same for all groups.
    pub uniform: Vec<bool>,
    /// Nodes that their only user takes from memory.
    pub folded: Vec<bool>,
    /// Nodes that their only user, a select, computes in the lanes where it wants them.
    pub merged: Vec<bool>,
    /// All lanes are active.
    full: bool,
    pool: Pool,
}

/// About the most bytes that [`emit`] gives.
pub fn bound(run: &Run) -> usize {
    // Four groups side by side, or as many as there are if steps are few (see `ways`); a step is a few instructions.
    let turns = (4 * run.steps.len()).max(SIDE_BY_SIDE);
    pool::bound(run) + 64 * turns + 4096
}

/// Compiles a run for waves of `lanes` lanes; the code will lie at `address`. With `full` it is for waves with all
/// lanes active.
///
/// # Errors
/// The run has more values at a time than there is room for.
pub fn emit(
    run: &Run,
    host: Host,
    lanes: u32,
    full: bool,
    address: u64,
) -> Result<Emitted, CompileError> {
    let count = run.graph.nodes.len();
    let chunks = lanes / host.lanes();
    let uniform = uniform(run, host);
    let ways = ways(run, host, &uniform, chunks);
    let looped = ways < chunks;
    let pool = Pool::new(run, host, address);
    let entry = pool.bytes.len();
    let classes = (0..count as u32 * ways).map(|v| {
        if host.has_masks() && run.graph.nodes[(v / ways) as usize].op.is_condition() {
            Class::Condition
        } else {
            Class::Vector
        }
    });
    let uses = uses(run);
    let merged = merged(run, host, &uses);
    let mut e = Emitter {
        run,
        host,
        full,
        asm: Assembler::new(host, address + entry as u64, looped),
        values: Values::new(host, classes),
        ways,
        folded: folded(run, host, &uses, &merged, &uniform, ways),
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
        let (rows, masks) = (
            host.bytes() as i32 * ways as i32,
            (host.lanes() / 8) as i32 * ways as i32,
        );
        e.asm.put(Instruction::with2(add, ROW_INDEX, rows))?;
        e.asm.put(Instruction::with2(add, MASK_INDEX, masks))?;
        let all = 4 * lanes as i32;
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

impl Emitter<'_> {
    /// How many times a step is done.
    fn turns(&self, step: &Step) -> u32 {
        match *step {
            Step::Compute(id) if self.uniform[id.0 as usize] => 1,
            Step::StoreMask(..) => 1,
            _ => self.ways,
        }
    }

    /// A node in one of the groups side by side.
    pub fn value(&self, id: Id, way: u32) -> Value {
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
            Step::StoreMask(_, id) => {
                return (0..self.ways).map(|way| self.value(id, way)).collect();
            }
        };
        let in_registers = ids.iter().filter(|id| !self.folded[id.0 as usize]);
        let mut values: Vec<Value> = in_registers.map(|&id| self.value(id, way)).collect();
        if let Step::Compute(id) = *step
            && graph.get(id).op == Op::Permute
            && self.host.lanes() < 16
        {
            // From both halves of 16 lanes.
            values.push(self.value(graph.get(id).args[1], way ^ 1));
        }
        values
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
                    Op::Const if self.host.spreads_operands() => Home::Word(self.pooled(id, way)),
                    Op::Scalar => Home::Word(scalar_word(node.imm)),
                    Op::Const | Op::Table | Op::ConstMask => Home::At(self.pooled(id, way)),
                    _ => continue,
                };
                let value = self.value(id, way);
                self.values.set_home(value, home);
            }
        }
    }

    /// Where a constant lies. Groups of eight lanes have the halves of a table in turns.
    fn pooled(&self, id: Id, way: u32) -> MemoryOperand {
        let half = match self.run.graph.get(id).op {
            Op::Table => u64::from(self.host.bytes() * (way % (16 / self.host.lanes()))),
            _ => 0,
        };
        let at = self.pool.at(id) + half;
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
            Step::Compute(id) if self.merged[id.0 as usize] => {}
            Step::Compute(id) => {
                let node = self.run.graph.get(id);
                match (node.op, self.host) {
                    (
                        Op::Row
                        | Op::Mask
                        | Op::Lane
                        | Op::Scalar
                        | Op::Const
                        | Op::Table
                        | Op::ConstMask,
                        _,
                    ) => self.leaf(id, way)?,
                    (_, Host::Avx512) => self.compute_avx512(id, way, position)?,
                    (_, Host::Avx2) => self.compute_avx2(id, way, position)?,
                }
            }
            Step::StoreRow(key, id) => self.store_row(key, id, way, position)?,
            Step::StoreMask(n, id) => match self.host {
                Host::Avx512 => self.store_mask_avx512(n, id)?,
                Host::Avx2 => self.store_mask_avx2(n, id)?,
            },
        }
        let used = self.used(step, way);
        self.values.step(used.into_iter(), position);
        Ok(())
    }

    /// Stores whole rows: inactive lanes are put back as they were. A masked store that a load follows stalls.
    fn store_row(&mut self, key: u32, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let value = self.value(id, way);
        let inactive = self.value(self.run.inactive, way);
        let from = self.values.need(&mut self.asm, value)?;
        if self.full {
            let row = self.asm.row(key, way)?;
            let store = Instruction::with2(self.host.store(), row, from);
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
        self.asm.put(match self.host {
            Host::Avx512 => avx512::select::blend(false, to, mask, Arg::Mem(row), from),
            Host::Avx2 => avx2::select::blend(to, mask, Arg::Mem(row), from),
        })?;
        let store = Instruction::with2(self.host.store(), row, to);
        self.asm.put(store)?;
        if !last && !self.uniform[id.0 as usize] {
            // Active lanes are all that anybody asks for.
            self.values.set_home(value, Home::Row(key, way));
        }
        Ok(())
    }

    /// The register of an operand.
    pub fn need(&mut self, id: Id, way: u32) -> Result<Register, CompileError> {
        let value = self.value(id, way);
        self.values.need(&mut self.asm, value)
    }

    /// An operand that may be in memory.
    pub fn arg(&mut self, id: Id, way: u32) -> Result<Arg, CompileError> {
        let node = self.run.graph.get(id);
        if !self.folded[id.0 as usize] {
            let constant = matches!(node.op, Op::Const | Op::Table);
            if constant
                && !self.host.spreads_operands()
                && !self.values.is_here(self.value(id, way))
            {
                return Ok(Arg::Mem(self.pooled(id, way)));
            }
            return Ok(Arg::Reg(self.need(id, way)?));
        }
        let mut at = match node.op {
            Op::Row => self.asm.row(node.imm, way)?,
            Op::Scalar => scalar_word(node.imm),
            _ => self.pooled(id, way),
        };
        at.is_broadcast = node.op != Op::Row;
        Ok(Arg::Mem(at))
    }

    /// A register that holds a copy of one of `ids`, to be overwritten by the value of `id`: one that is used for
    /// the last time if there is such. Returns which it was.
    pub fn overwrite(
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
        let copy = with2(self.host.load(), register, Arg::Reg(from));
        self.asm.put(copy)?;
        Ok((0, register))
    }

    /// The register for a result, which may be that of an operand that is used for the last time.
    pub fn result(&mut self, id: Id, way: u32, at: u32) -> Result<Register, CompileError> {
        let to = self.value(id, way);
        for from in self.run.graph.get(id).operands() {
            let value = self.value(from, way);
            if self.values.class(value) == self.values.class(to)
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

    /// Leaves are loaded where they are needed, but for those that change before that.
    pub fn leaf(&mut self, id: Id, way: u32) -> Result<(), CompileError> {
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
        let home = match node.op {
            Op::Mask => Home::Mask(node.imm, way),
            _ => Home::Row(node.imm, way),
        };
        let to = self.values.define(&mut self.asm, value)?;
        self.values.load(&mut self.asm, value, to, home)
    }

    /// A copy of `from` in a register of `id`'s own.
    pub fn copy(&mut self, id: Id, from: Id, way: u32) -> Result<Register, CompileError> {
        let source = self.need(from, way)?;
        let value = self.value(id, way);
        let to = self.values.define(&mut self.asm, value)?;
        let copy = with2(self.host.load(), to, Arg::Reg(source));
        self.asm.put(copy)?;
        Ok(to)
    }
}

/// Where a word of the scalar file lies.
fn scalar_word(n: u32) -> MemoryOperand {
    MemoryOperand::with_base_displ(SCALARS, 4 * i64::from(n))
}
