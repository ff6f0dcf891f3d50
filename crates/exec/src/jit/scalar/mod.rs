//! Scalar instructions on this host's general registers. The scalar file and SCC are always as the instructions leave
//! them; registers hold copies of words until something else may write the file.

mod held;
mod ops;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use self::held::Held;
use super::assembler::CompileError;
use super::general::{self, Condition, General, Reg};
use crate::record::{Class, Operand, Record};
use crate::wave::scalar;

/// A source as compiled code reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// A word of the scalar file, or the pair that begins there.
    Word(usize),
    /// A constant.
    Constant(u64),
}

/// An instruction with two operands, in its forms.
#[derive(Clone, Copy)]
struct Two {
    /// On registers of 32 and 64 bits.
    plain: [Code; 2],
    /// With an immediate, sign-extended.
    immediate: [Code; 2],
}

const ADD: Two = Two {
    plain: [Code::Add_r32_rm32, Code::Add_r64_rm64],
    immediate: [Code::Add_rm32_imm32, Code::Add_rm64_imm32],
};
const SUB: Two = Two {
    plain: [Code::Sub_r32_rm32, Code::Sub_r64_rm64],
    immediate: [Code::Sub_rm32_imm32, Code::Sub_rm64_imm32],
};
const ADC: Two = Two {
    plain: [Code::Adc_r32_rm32, Code::Adc_r64_rm64],
    immediate: [Code::Adc_rm32_imm32, Code::Adc_rm64_imm32],
};
const SBB: Two = Two {
    plain: [Code::Sbb_r32_rm32, Code::Sbb_r64_rm64],
    immediate: [Code::Sbb_rm32_imm32, Code::Sbb_rm64_imm32],
};
const AND: Two = Two {
    plain: [Code::And_r32_rm32, Code::And_r64_rm64],
    immediate: [Code::And_rm32_imm32, Code::And_rm64_imm32],
};
const OR: Two = Two {
    plain: [Code::Or_r32_rm32, Code::Or_r64_rm64],
    immediate: [Code::Or_rm32_imm32, Code::Or_rm64_imm32],
};
const XOR: Two = Two {
    plain: [Code::Xor_r32_rm32, Code::Xor_r64_rm64],
    immediate: [Code::Xor_rm32_imm32, Code::Xor_rm64_imm32],
};
const CMP: Two = Two {
    plain: [Code::Cmp_r32_rm32, Code::Cmp_r64_rm64],
    immediate: [Code::Cmp_rm32_imm32, Code::Cmp_rm64_imm32],
};

/// What compiled code knows of scalar registers at a point.
#[derive(Default)]
pub struct Scalars {
    held: Held,
    /// The condition of the host that is SCC now.
    flags: Option<Condition>,
    /// Nobody reads the SCC that the present instruction gives.
    unread: bool,
}

/// Whether compiled code does the scalar instruction itself.
pub fn knows(record: &Record) -> bool {
    let mut asm = General::new(0);
    matches!(Scalars::default().emit(&mut asm, record, false), Ok(true))
}

impl Scalars {
    /// Forgets all that is in registers: something else is going to execute.
    pub fn forget(&mut self) {
        self.held.forget();
        self.flags = None;
    }

    /// Emits a scalar instruction. `unread` says that nobody reads the SCC that it gives. Tells whether it is one
    /// that compiled code does; if not, nothing was emitted.
    pub fn emit(
        &mut self,
        asm: &mut General,
        record: &Record,
        unread: bool,
    ) -> Result<bool, CompileError> {
        if record.class != Class::Salu || record.detail.is_some() {
            return Ok(false);
        }
        self.unread = unread;
        self.held.begin();
        Emit { now: self, asm }.operation(record)
    }

    /// The condition of the host that is SCC.
    pub fn scc(&mut self, asm: &mut General) -> Result<Condition, CompileError> {
        if let Some(condition) = self.flags {
            return Ok(condition);
        }
        asm.put(Instruction::with2(Code::Cmp_rm8_imm8, general::scc(), 0))?;
        self.flags = Some(Condition::Ne);
        Ok(Condition::Ne)
    }
}

/// One instruction as it is emitted.
struct Emit<'e> {
    now: &'e mut Scalars,
    asm: &'e mut General,
}

impl Emit<'_> {
    /// A source that compiled code can read as `wide` words; none for other operands.
    fn source(&self, operand: Operand) -> Option<Value> {
        match operand {
            Operand::Scalar(n) if usize::from(n) == scalar::NULL => Some(Value::Constant(0)),
            Operand::Scalar(n) if usize::from(n) < scalar::COUNT - 1 => Some(Value::Word(n.into())),
            Operand::Const(k) => Some(Value::Constant(k)),
            _ => None,
        }
    }

    /// A destination.
    fn dest(&self, operand: Operand) -> Option<usize> {
        operand.scalar().filter(|&n| n < scalar::COUNT - 1)
    }

    /// Appends an instruction that leaves conditions alone.
    fn put(
        &mut self,
        instruction: Result<Instruction, iced_x86::IcedError>,
    ) -> Result<(), CompileError> {
        self.asm.put(instruction)
    }

    /// Appends an instruction behind which SCC is no condition of the host any more.
    fn change(
        &mut self,
        instruction: Result<Instruction, iced_x86::IcedError>,
    ) -> Result<(), CompileError> {
        self.now.flags = None;
        self.asm.put(instruction)
    }

    fn copy(&mut self, to: Reg, from: Reg) -> Result<(), CompileError> {
        if to == from {
            return Ok(());
        }
        self.put(Instruction::with2(Code::Mov_r64_rm64, to.q(), from.q()))
    }

    /// The register that holds a word, its upper half undefined.
    fn word(&mut self, n: usize) -> Result<Reg, CompileError> {
        if let Some(reg) = self.now.held.find(n, false) {
            return Ok(reg);
        }
        if let Some(reg) = self.now.held.find(n, true) {
            return Ok(reg);
        }
        let pair = n
            .checked_sub(1)
            .and_then(|low| self.now.held.find(low, true));
        let to = self.now.held.fresh();
        match pair {
            Some(pair) => self.put(Instruction::with3(
                Code::VEX_Rorx_r64_rm64_imm8,
                to.q(),
                pair.q(),
                32,
            ))?,
            None => self.put(Instruction::with2(
                Code::Mov_r32_rm32,
                to.d(),
                general::word(n),
            ))?,
        }
        self.now.held.note(to, n, false);
        Ok(to)
    }

    /// The register that holds a pair.
    fn pair(&mut self, n: usize) -> Result<Reg, CompileError> {
        if let Some(reg) = self.now.held.find(n, true) {
            return Ok(reg);
        }
        let halves = [
            self.now.held.find(n, false),
            self.now.held.find(n + 1, false),
        ];
        let to = self.now.held.fresh();
        match halves {
            [None, None] => {
                self.put(Instruction::with2(
                    Code::Mov_r64_rm64,
                    to.q(),
                    general::word(n),
                ))?;
            }
            // Halves that were stored one by one cannot be loaded as one without a wait.
            _ => {
                let low = self.word(n)?;
                let high = self.word(n + 1)?;
                let zero_extend =
                    |to: Reg, from: Reg| Instruction::with2(Code::Mov_r32_rm32, to.d(), from.d());
                self.put(zero_extend(low, low))?;
                self.put(zero_extend(to, high))?;
                self.change(Instruction::with2(Code::Shl_rm64_imm8, to.q(), 32))?;
                self.change(Instruction::with2(Code::Or_r64_rm64, to.q(), low.q()))?;
            }
        }
        self.now.held.note(to, n, true);
        Ok(to)
    }

    /// The register that holds a value; constants go to `scratch`.
    fn value(&mut self, value: Value, wide: bool, scratch: Reg) -> Result<Reg, CompileError> {
        match value {
            Value::Word(n) if wide => self.pair(n),
            Value::Word(n) => self.word(n),
            Value::Constant(k) => {
                let k = if wide { k } else { u64::from(k as u32) };
                self.asm.constant(scratch, k)?;
                Ok(scratch)
            }
        }
    }

    /// Copies a value to a register; the upper half is zero if it is not `wide`.
    fn load(&mut self, to: Reg, value: Value, wide: bool) -> Result<(), CompileError> {
        let from = self.value(value, wide, to)?;
        if wide {
            self.copy(to, from)
        } else if matches!(value, Value::Constant(_)) {
            Ok(())
        } else {
            self.put(Instruction::with2(Code::Mov_r32_rm32, to.d(), from.d()))
        }
    }

    /// `to = to op value`.
    fn two(&mut self, op: Two, to: Reg, value: Value, wide: bool) -> Result<(), CompileError> {
        let side = usize::from(wide);
        let register = |reg: Reg| if wide { reg.q() } else { reg.d() };
        let short = match value {
            Value::Constant(k) if wide => i32::try_from(k as i64).ok(),
            Value::Constant(k) => Some(k as i32),
            Value::Word(_) => None,
        };
        if let Some(short) = short {
            return self.change(Instruction::with2(op.immediate[side], register(to), short));
        }
        let from = self.value(value, wide, Reg::C)?;
        self.change(Instruction::with2(
            op.plain[side],
            register(to),
            register(from),
        ))
    }

    /// Sets conditions by whether a register is zero.
    fn test(&mut self, reg: Reg, wide: bool) -> Result<(), CompileError> {
        if wide {
            self.change(Instruction::with2(Code::Test_rm64_r64, reg.q(), reg.q()))
        } else {
            self.change(Instruction::with2(Code::Test_rm32_r32, reg.d(), reg.d()))
        }
    }

    /// Writes a destination, whose value `from` holds from now on. Changes no condition.
    fn store(&mut self, n: usize, from: Reg, wide: bool) -> Result<(), CompileError> {
        let (code, register): (Code, Register) = if wide {
            (Code::Mov_rm64_r64, from.q())
        } else {
            (Code::Mov_rm32_r32, from.d())
        };
        let to: MemoryOperand = general::word(n);
        self.put(Instruction::with2(code, to, register))?;
        self.now.held.write(from, n, wide);
        Ok(())
    }

    /// SCC is `condition` from now on.
    fn set_scc(&mut self, condition: Condition) -> Result<(), CompileError> {
        if !self.now.unread {
            self.asm.set(condition, general::scc())?;
        }
        self.now.flags = Some(condition);
        Ok(())
    }
}
