//! Where values are while code is emitted: in registers, or in memory from where they come back.
//! The value that is used furthest ahead makes room for another (the sequence has no branches).

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Arg, Assembler, CompileError, SPILL, with2};
use super::avx2;
use super::host::{Host, MOST_VECTORS};

/// A node of the graph in one group of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(pub u32);

/// Rows for values that registers have no room for.
pub const SPILL_ROWS: usize = 256;

/// Which registers hold a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A vector register.
    Vector,
    /// k1–7; hosts without them hold conditions in vectors.
    Condition,
}

/// Where a value can be loaded from.
#[derive(Clone, Copy, Debug)]
pub enum Home {
    /// A vector or condition.
    At(MemoryOperand),
    /// One word for all lanes.
    Word(MemoryOperand),
    /// A register of the wave, by key, and which group of its lanes.
    Row(u32, u32),
    /// The numbers of a group's lanes.
    Lane(u32),
    /// A mask, by its word in the scalar file, and which group of its lanes.
    Mask(u32, u32),
}

struct State {
    register: Option<u8>,
    home: Option<Home>,
    /// Row of the spill area that it owns.
    row: Option<u16>,
    /// Positions at which it is used.
    uses: Vec<u32>,
    used: usize,
    class: Class,
}

/// All values of a piece of code.
pub struct Values {
    host: Host,
    states: Vec<State>,
    vectors: [Option<Value>; MOST_VECTORS],
    conditions: [Option<Value>; 8],
    /// Values that the instruction at hand needs.
    locked: Vec<Value>,
    /// Registers that it uses besides.
    reserved: Vec<(Class, u8)>,
    free_rows: Vec<u16>,
    rows: u16,
}

impl Values {
    /// Values of these classes, nowhere yet.
    pub fn new(host: Host, classes: impl Iterator<Item = Class>) -> Values {
        Values {
            host,
            states: classes
                .map(|class| State {
                    register: None,
                    home: None,
                    row: None,
                    uses: Vec::new(),
                    used: 0,
                    class,
                })
                .collect(),
            vectors: [None; MOST_VECTORS],
            conditions: [None; 8],
            locked: Vec::new(),
            reserved: Vec::new(),
            free_rows: Vec::new(),
            rows: 0,
        }
    }

    fn state(&mut self, value: Value) -> &mut State {
        &mut self.states[value.0 as usize]
    }

    /// Notes that `position` uses the value; positions come in order.
    pub fn note_use(&mut self, value: Value, position: u32) {
        self.state(value).uses.push(position);
    }

    /// Tells where the value can be loaded from.
    pub fn set_home(&mut self, value: Value, home: Home) {
        self.state(value).home = Some(home);
    }

    /// Whether no later position than `position` uses the value.
    pub fn dies(&self, value: Value, position: u32) -> bool {
        let state = &self.states[value.0 as usize];
        state.uses.last().is_none_or(|&last| last <= position)
    }

    /// Which registers hold the value.
    pub fn class(&self, value: Value) -> Class {
        self.states[value.0 as usize].class
    }

    /// Whether the value is in a register.
    pub fn is_here(&self, value: Value) -> bool {
        self.states[value.0 as usize].register.is_some()
    }

    /// The register of a value, loaded if need be, kept until [`Values::step`].
    pub fn need(&mut self, asm: &mut Assembler, value: Value) -> Result<Register, CompileError> {
        self.locked.push(value);
        let state = &self.states[value.0 as usize];
        let class = state.class;
        if let Some(register) = state.register {
            return Ok(self.name(class, register));
        }
        let home = state.home.ok_or(CompileError::Room("a value was lost"))?;
        let to = self.free(asm, class)?;
        self.bind(value, to);
        let register = self.name(class, to);
        self.load(asm, value, register, home)?;
        Ok(register)
    }

    /// Loads a value from `home` to the register that it was given.
    pub fn load(
        &mut self,
        asm: &mut Assembler,
        value: Value,
        to: Register,
        home: Home,
    ) -> Result<(), CompileError> {
        let at = match home {
            Home::At(at) | Home::Word(at) => at,
            Home::Row(key, way) => asm.row(key, way)?,
            Home::Lane(way) => asm.lane_numbers(way),
            Home::Mask(n, way) => asm.mask(n, way),
        };
        if let (Home::Mask(..), false) = (home, self.host.has_masks()) {
            return avx2::load_mask(asm, to, at);
        }
        let code = match (self.state(value).class, home) {
            (Class::Condition, _) => Code::VEX_Kmovw_kr_km16,
            (Class::Vector, Home::Word(_)) => self.host.spread(),
            (Class::Vector, _) => self.host.load(),
        };
        asm.put(with2(code, to, Arg::Mem(at)))
    }

    /// A register for a value that an instruction is about to compute.
    pub fn define(&mut self, asm: &mut Assembler, value: Value) -> Result<Register, CompileError> {
        let class = self.state(value).class;
        let to = self.free(asm, class)?;
        self.bind(value, to);
        self.locked.push(value);
        Ok(self.name(class, to))
    }

    /// Gives the register of `from` to `to`: for instructions that overwrite an operand.
    pub fn take_over(&mut self, from: Value, to: Value) -> Option<Register> {
        let state = self.state(from);
        let class = state.class;
        let register = state.register.take()?;
        self.bind(to, register);
        self.locked.push(to);
        Some(self.name(class, register))
    }

    /// A register until [`Values::step`].
    pub fn scratch(&mut self, asm: &mut Assembler, class: Class) -> Result<Register, CompileError> {
        let register = self.free(asm, class)?;
        self.reserved.push((class, register));
        Ok(self.name(class, register))
    }

    /// Forgets a value's register, whose content was destroyed.
    pub fn release(&mut self, value: Value) {
        if let Some(register) = self.state(value).register.take() {
            match self.state(value).class {
                Class::Vector => self.vectors[usize::from(register)] = None,
                Class::Condition => self.conditions[usize::from(register)] = None,
            }
        }
    }

    /// Frees the operands that `position` used last.
    pub fn step(&mut self, values: impl Iterator<Item = Value>, position: u32) {
        self.locked.clear();
        self.reserved.clear();
        for value in values {
            if self.dies(value, position) {
                self.release(value);
                if let Some(row) = self.state(value).row.take() {
                    self.free_rows.push(row);
                }
            } else {
                let state = self.state(value);
                while state.uses.get(state.used).is_some_and(|&u| u <= position) {
                    state.used += 1;
                }
            }
        }
    }

    fn bind(&mut self, value: Value, register: u8) {
        let class = self.state(value).class;
        self.state(value).register = Some(register);
        match class {
            Class::Vector => self.vectors[usize::from(register)] = Some(value),
            Class::Condition => self.conditions[usize::from(register)] = Some(value),
        }
    }

    /// A register of the class that holds nothing, after making room if need be.
    fn free(&mut self, asm: &mut Assembler, class: Class) -> Result<u8, CompileError> {
        let (held, first) = match class {
            Class::Vector => (&self.vectors[..self.host.vectors()], 0),
            Class::Condition => (&self.conditions[..], 1),
        };
        let unused = |&r: &usize| held[r].is_none() && !self.reserved.contains(&(class, r as u8));
        if let Some(free) = (first..held.len()).find(unused) {
            return Ok(free as u8);
        }
        let next = |v: Value| {
            let state = &self.states[v.0 as usize];
            // What has to be stored first goes a little later than what need not.
            let position = state.uses.get(state.used).copied().unwrap_or(u32::MAX);
            (position, state.home.is_some())
        };
        let victim = held.iter().flatten().copied();
        let victim = victim
            .filter(|v| !self.locked.contains(v))
            .max_by_key(|&v| next(v));
        let victim = victim.ok_or(CompileError::Room("an instruction needs all registers"))?;
        let state = &self.states[victim.0 as usize];
        let register = state.register.unwrap_or_default();
        if state.home.is_none() && state.used < state.uses.len() {
            self.spill(asm, victim, register)?;
        }
        self.release(victim);
        Ok(register)
    }

    fn spill(&mut self, asm: &mut Assembler, value: Value, from: u8) -> Result<(), CompileError> {
        let row = match self.free_rows.pop() {
            Some(row) => row,
            None if usize::from(self.rows) < SPILL_ROWS => {
                self.rows += 1;
                self.rows - 1
            }
            None => return Err(CompileError::Room("the spill area is full")),
        };
        let at =
            MemoryOperand::with_base_displ(SPILL, i64::from(self.host.bytes()) * i64::from(row));
        let state = self.state(value);
        state.row = Some(row);
        state.home = Some(Home::At(at));
        let class = state.class;
        let code = match class {
            Class::Vector => self.host.store(),
            Class::Condition => Code::VEX_Kmovw_m16_kr,
        };
        let from = self.name(class, from);
        asm.put(Instruction::with2(code, at, from))
    }

    fn name(&self, class: Class, number: u8) -> Register {
        match class {
            Class::Vector => self.host.vector(number),
            Class::Condition => Register::K0 + u32::from(number),
        }
    }
}
