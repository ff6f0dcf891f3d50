//! Instructions of this host, one after the other, as bytes; and the addresses of a wave's registers.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::host::Host;
use crate::registers::PAGE_SHIFT;

/// Why a run was not compiled. The interpreter executes it.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// An instruction that the encoder refuses.
    #[error("instruction not encodable: {0}")]
    Encoding(#[from] IcedError),
    /// The values of the run do not fit registers and the area for values that registers have no room for.
    #[error("values for which there is no room: {0}")]
    Room(&'static str),
    /// No memory for code.
    #[error("no memory for code: {0}")]
    Memory(#[from] std::io::Error),
}

/// Argument of compiled code: addresses of the pages of registers.
pub const PAGES: Register = Register::RDI;
/// Argument: the scalar file.
pub const SCALARS: Register = Register::RSI;
/// Argument: rows for values that registers have no room for.
pub const SPILL: Register = Register::RDX;
/// In a loop over groups of lanes: bytes to this turn's first group within a register.
pub const ROW_INDEX: Register = Register::RCX;
/// In a loop over groups of lanes: bytes to this turn's first group within a mask.
pub const MASK_INDEX: Register = Register::R8;

/// Registers that hold addresses of pages. The last two are indices in a loop.
const BASES: [Register; 6] = [
    Register::RAX,
    Register::R9,
    Register::R10,
    Register::R11,
    ROW_INDEX,
    MASK_INDEX,
];

/// The low 1, 2, 4 or 8 bytes of a general register.
pub fn low(register: Register, bytes: usize) -> Register {
    let number = register as u32 - Register::RAX as u32;
    match bytes {
        1 if number < 4 => Register::AL + number,
        // Between those are the second bytes of the first four.
        1 => Register::SPL + (number - 4),
        2 => Register::AX + number,
        4 => Register::EAX + number,
        _ => register,
    }
}

/// Appends instructions.
pub struct Assembler {
    host: Host,
    encoder: Encoder,
    at: u64,
    looped: bool,
    /// Pages whose addresses are in registers, with the time of their last use.
    pages: [Option<(u32, u64)>; BASES.len()],
    time: u64,
}

impl Assembler {
    /// Code for `host` that will lie at `start`; with `looped` it uses the index registers.
    pub fn new(host: Host, start: u64, looped: bool) -> Assembler {
        Assembler {
            host,
            encoder: Encoder::new(64),
            at: start,
            looped,
            pages: [None; BASES.len()],
            time: 0,
        }
    }

    /// Where group `way` of a register lies. Valid for the next instruction.
    pub fn row(&mut self, key: u32, way: u32) -> Result<MemoryOperand, CompileError> {
        let (page, offset) = (key >> PAGE_SHIFT, key & ((1 << PAGE_SHIFT) - 1));
        let usable = self.usable();
        self.time += 1;
        let found = self.pages[..usable]
            .iter()
            .position(|p| p.is_some_and(|(held, _)| held == page));
        let at = match found {
            Some(at) => at,
            None => {
                let age = |&i: &usize| self.pages[i].map_or(0, |(_, time)| time);
                let at = (0..usable).min_by_key(age).unwrap_or_default();
                let from = MemoryOperand::with_base_displ(PAGES, 8 * i64::from(page));
                self.put(Instruction::with2(Code::Mov_r64_rm64, BASES[at], from))?;
                at
            }
        };
        self.pages[at] = Some((page, self.time));
        let offset = i64::from(offset + self.host.bytes() * way);
        Ok(if self.looped {
            MemoryOperand::with_base_index_scale_displ_size(BASES[at], ROW_INDEX, 1, offset, 1)
        } else {
            MemoryOperand::with_base_displ(BASES[at], offset)
        })
    }

    /// Where group `way` of the mask at word `n` lies.
    pub fn mask(&self, n: u32, way: u32) -> MemoryOperand {
        let offset = i64::from(4 * n + self.host.lanes() / 8 * way);
        if self.looped {
            MemoryOperand::with_base_index_scale_displ_size(SCALARS, MASK_INDEX, 1, offset, 1)
        } else {
            MemoryOperand::with_base_displ(SCALARS, offset)
        }
    }

    /// Where the numbers of the lanes of group `way` lie: behind the rows at [`SPILL`].
    pub fn lane_numbers(&self, way: u32) -> MemoryOperand {
        let offset = 64 * super::SPILL_ROWS as i64 + i64::from(self.host.bytes() * way);
        if self.looped {
            MemoryOperand::with_base_index_scale_displ_size(SPILL, ROW_INDEX, 1, offset, 4)
        } else {
            MemoryOperand::with_base_displ(SPILL, offset)
        }
    }

    /// Where eight words are, each with the bit of its lane.
    pub fn lane_bits(&self) -> MemoryOperand {
        let offset = 64 * (super::SPILL_ROWS as i64 + 4);
        MemoryOperand::with_base_displ(SPILL, offset)
    }

    /// Two registers for anything, until the next address of a wave's register is asked for.
    pub fn general(&mut self) -> [Register; 2] {
        let mut order: Vec<usize> = (0..self.usable()).collect();
        order.sort_by_key(|&i| self.pages[i].map_or(0, |(_, time)| time));
        [order[0], order[1]].map(|i| {
            self.pages[i] = None;
            BASES[i]
        })
    }

    /// Notes that registers with addresses of pages have been overwritten.
    pub fn forget(&mut self, registers: &[Register]) {
        for (register, page) in BASES.iter().zip(&mut self.pages) {
            if registers.contains(register) {
                *page = None;
            }
        }
    }

    fn usable(&self) -> usize {
        if self.looped { 4 } else { BASES.len() }
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        self.at
    }

    /// Appends an instruction.
    pub fn put(&mut self, instruction: Result<Instruction, IcedError>) -> Result<(), CompileError> {
        self.at += self.encoder.encode(&instruction?, self.at)? as u64;
        Ok(())
    }

    /// The bytes of all instructions.
    pub fn finish(mut self) -> Vec<u8> {
        self.encoder.take_buffer()
    }
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A register.
    Reg(Register),
    /// Memory.
    Mem(MemoryOperand),
}

impl Arg {
    /// The lower half of a vector register; memory as it is.
    pub fn half(self) -> Arg {
        match self {
            Arg::Reg(r) => Arg::Reg(half(r)),
            memory => memory,
        }
    }
}

/// The lower half of a vector register: ymm of zmm, xmm of ymm.
pub fn half(register: Register) -> Register {
    if register.is_zmm() {
        Register::YMM0 + (register as u32 - Register::ZMM0 as u32)
    } else if register.is_ymm() {
        Register::XMM0 + (register as u32 - Register::YMM0 as u32)
    } else {
        register
    }
}

/// `code` with a destination and a last source.
pub fn with2(code: Code, dst: Register, src: Arg) -> Result<Instruction, IcedError> {
    match src {
        Arg::Reg(r) => Instruction::with2(code, dst, r),
        Arg::Mem(m) => Instruction::with2(code, dst, m),
    }
}

/// `code` with a destination, a source and a last source.
pub fn with3(code: Code, dst: Register, a: Register, b: Arg) -> Result<Instruction, IcedError> {
    match b {
        Arg::Reg(r) => Instruction::with3(code, dst, a, r),
        Arg::Mem(m) => Instruction::with3(code, dst, a, m),
    }
}

/// As [`with2`], with an immediate byte.
pub fn with2_imm(code: Code, dst: Register, src: Arg, imm: u32) -> Result<Instruction, IcedError> {
    match src {
        Arg::Reg(r) => Instruction::with3(code, dst, r, imm),
        Arg::Mem(m) => Instruction::with3(code, dst, m, imm),
    }
}

/// As [`with3`], with an immediate byte.
pub fn with3_imm(
    code: Code,
    dst: Register,
    a: Register,
    b: Arg,
    imm: u32,
) -> Result<Instruction, IcedError> {
    match b {
        Arg::Reg(r) => Instruction::with4(code, dst, a, r, imm),
        Arg::Mem(m) => Instruction::with4(code, dst, a, m, imm),
    }
}

/// An instruction under a mask.
pub fn masked(
    instruction: Result<Instruction, IcedError>,
    mask: Register,
) -> Result<Instruction, IcedError> {
    instruction.map(|mut i| {
        i.set_op_mask(mask);
        i
    })
}
