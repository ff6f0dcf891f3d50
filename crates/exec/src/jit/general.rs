//! Instructions on this host's general registers, with labels; and the places of a wave's state that they reach.

use std::mem::offset_of;

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::assembler::CompileError;
use crate::registers::VectorRegisters;
use crate::wave::{Wave, scalar};

/// Holds the address of the wave while compiled code of blocks executes.
pub const WAVE: Register = Register::RBP;

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub u8);

impl Reg {
    /// Never holds a value from one instruction to the next.
    pub const A: Reg = Reg(0);
    /// As [`Reg::A`].
    pub const C: Reg = Reg(1);
    /// First argument of a function.
    pub const DI: Reg = Reg(2);
    /// Second argument.
    pub const SI: Reg = Reg(3);
    /// Third argument.
    pub const D: Reg = Reg(4);
    /// How many there are that functions may change; from 2 on they hold words of the scalar file.
    pub const COUNT: u8 = 9;

    /// Its low half.
    pub fn d(self) -> Register {
        use Register::*;
        [EAX, ECX, EDI, ESI, EDX, R8D, R9D, R10D, R11D][usize::from(self.0 % Reg::COUNT)]
    }

    /// All of it.
    pub fn q(self) -> Register {
        use Register::*;
        [RAX, RCX, RDI, RSI, RDX, R8, R9, R10, R11][usize::from(self.0 % Reg::COUNT)]
    }
}

/// The condition of a branch, of a move, or of SCC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Carry: below, unsigned.
    B,
    /// No carry: not below, unsigned.
    Ae,
    /// Zero: equal.
    E,
    /// Not zero: not equal.
    Ne,
    /// Not above, unsigned.
    Be,
    /// Above, unsigned.
    A,
    /// Less, signed.
    L,
    /// Not less, signed.
    Ge,
    /// Not greater, signed.
    Le,
    /// Greater, signed.
    G,
    /// Signed overflow.
    O,
    /// Not negative.
    Ns,
}

impl Condition {
    /// The opposite; of overflow and sign nobody asks for it.
    pub fn not(self) -> Condition {
        use Condition::*;
        match self {
            B => Ae,
            Ae => B,
            E => Ne,
            Ne => E,
            Be => A,
            A => Be,
            L => Ge,
            Ge => L,
            Le => G,
            G => Le,
            O | Ns => self,
        }
    }

    /// Whether [`Condition::not`] is the opposite.
    pub fn has_opposite(self) -> bool {
        !matches!(self, Condition::O | Condition::Ns)
    }

    fn set(self) -> Code {
        use Condition::*;
        match self {
            B => Code::Setb_rm8,
            Ae => Code::Setae_rm8,
            E => Code::Sete_rm8,
            Ne => Code::Setne_rm8,
            Be => Code::Setbe_rm8,
            A => Code::Seta_rm8,
            L => Code::Setl_rm8,
            Ge => Code::Setge_rm8,
            Le => Code::Setle_rm8,
            G => Code::Setg_rm8,
            O => Code::Seto_rm8,
            Ns => Code::Setns_rm8,
        }
    }

    fn jump(self) -> Code {
        use Condition::*;
        match self {
            B => Code::Jb_rel32_64,
            Ae => Code::Jae_rel32_64,
            E => Code::Je_rel32_64,
            Ne => Code::Jne_rel32_64,
            Be => Code::Jbe_rel32_64,
            A => Code::Ja_rel32_64,
            L => Code::Jl_rel32_64,
            Ge => Code::Jge_rel32_64,
            Le => Code::Jle_rel32_64,
            G => Code::Jg_rel32_64,
            O => Code::Jo_rel32_64,
            Ns => Code::Jns_rel32_64,
        }
    }

    fn choose(self) -> Code {
        use Condition::*;
        match self {
            B => Code::Cmovb_r64_rm64,
            Ae => Code::Cmovae_r64_rm64,
            E => Code::Cmove_r64_rm64,
            Ne => Code::Cmovne_r64_rm64,
            Be => Code::Cmovbe_r64_rm64,
            A => Code::Cmova_r64_rm64,
            L => Code::Cmovl_r64_rm64,
            Ge => Code::Cmovge_r64_rm64,
            Le => Code::Cmovle_r64_rm64,
            G => Code::Cmovg_r64_rm64,
            O => Code::Cmovo_r64_rm64,
            Ns => Code::Cmovns_r64_rm64,
        }
    }
}

/// A word of the scalar file, or the pair that begins there.
pub fn word(n: usize) -> MemoryOperand {
    field(offset_of!(Wave, s) + 4 * n)
}

/// SCC, a byte.
pub fn scc() -> MemoryOperand {
    field(offset_of!(Wave, scc))
}

/// The address of the next instruction.
pub fn pc() -> MemoryOperand {
    field(offset_of!(Wave, pc))
}

/// EXEC.
pub fn exec() -> MemoryOperand {
    word(scalar::EXEC)
}

/// The addresses of the pages of vector registers.
pub fn pages() -> MemoryOperand {
    field(offset_of!(Wave, v) + VectorRegisters::BASES)
}

/// The pages of vector registers that exist, a bit for each.
pub fn present() -> MemoryOperand {
    field(offset_of!(Wave, v) + VectorRegisters::PRESENT)
}

fn field(offset: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(WAVE, offset as i64)
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Appends instructions.
pub struct General {
    encoder: Encoder,
    start: u64,
    at: u64,
    /// Where each label is, once that is known.
    labels: Vec<Option<u64>>,
    /// Addresses behind the branches to labels; the distance is the last thing in them.
    branches: Vec<(u64, Label)>,
}

impl General {
    /// Code that will lie at `start`.
    pub fn new(start: u64) -> General {
        General {
            encoder: Encoder::new(64),
            start,
            at: start,
            labels: Vec::new(),
            branches: Vec::new(),
        }
    }

    /// Appends an instruction.
    pub fn put(&mut self, instruction: Result<Instruction, IcedError>) -> Result<(), CompileError> {
        self.at += self.encoder.encode(&instruction?, self.at)? as u64;
        Ok(())
    }

    /// A label that has no place yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.at);
    }

    /// Goes to a label.
    pub fn jump(&mut self, to: Label) -> Result<(), CompileError> {
        self.branch(Code::Jmp_rel32_64, to)
    }

    /// Goes to a label if the condition holds.
    pub fn jump_if(&mut self, condition: Condition, to: Label) -> Result<(), CompileError> {
        self.branch(condition.jump(), to)
    }

    fn branch(&mut self, code: Code, to: Label) -> Result<(), CompileError> {
        self.put(Instruction::with_branch(code, self.at))?;
        self.branches.push((self.at, to));
        Ok(())
    }

    /// Stores 1 to a byte if the condition holds, else 0.
    pub fn set(&mut self, condition: Condition, to: MemoryOperand) -> Result<(), CompileError> {
        self.put(Instruction::with1(condition.set(), to))
    }

    /// Copies a register of 64 bits if the condition holds.
    pub fn choose(&mut self, condition: Condition, to: Reg, from: Reg) -> Result<(), CompileError> {
        self.put(Instruction::with2(condition.choose(), to.q(), from.q()))
    }

    /// Calls a function.
    pub fn call(&mut self, address: u64) -> Result<(), CompileError> {
        let distance = address.wrapping_sub(self.at + 5) as i64;
        if i32::try_from(distance).is_ok() {
            return self.put(Instruction::with_branch(Code::Call_rel32_64, address));
        }
        self.constant(Reg::A, address)?;
        self.put(Instruction::with1(Code::Call_rm64, Reg::A.q()))
    }

    /// Sets a register. Changes no condition.
    pub fn constant(&mut self, to: Reg, value: u64) -> Result<(), CompileError> {
        self.put(match u32::try_from(value) {
            Ok(short) => Instruction::with2(Code::Mov_r32_imm32, to.d(), short),
            Err(_) => Instruction::with2(Code::Mov_r64_imm64, to.q(), value),
        })
    }

    /// The bytes of all instructions.
    ///
    /// # Errors
    /// A branch goes to a label that has no place.
    pub fn finish(mut self) -> Result<Vec<u8>, CompileError> {
        let mut bytes = self.encoder.take_buffer();
        for (behind, to) in self.branches {
            let target = self.labels[to.0].ok_or(CompileError::Room("a label has no place"))?;
            let distance = target.wrapping_sub(behind) as i32;
            let end = (behind - self.start) as usize;
            bytes[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(bytes)
    }
}
