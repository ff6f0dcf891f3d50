//! What each scalar operation becomes. The handlers in [`crate::salu`] say what it does; a test compares all of them.

use iced_x86::{Code, Instruction};
use rocjitsu_isa::Op;

use super::super::assembler::CompileError;
use super::super::general::Condition;
use super::{ADC, ADD, AND, CMP, Emit, OR, Reg, SBB, SUB, Two, Value, XOR};
use crate::record::Record;
use crate::wave::scalar;

/// How a bitwise operation treats its operands: which ones it takes complemented, and whether the result is.
#[derive(Clone, Copy)]
struct Logic {
    op: Two,
    first: bool,
    second: bool,
    result: bool,
}

const fn logic(op: Two) -> Logic {
    Logic {
        op,
        first: false,
        second: false,
        result: false,
    }
}

const fn with_second(op: Two) -> Logic {
    Logic {
        second: true,
        ..logic(op)
    }
}

const fn with_first(op: Two) -> Logic {
    Logic {
        first: true,
        ..logic(op)
    }
}

const fn inverted(op: Two) -> Logic {
    Logic {
        result: true,
        ..logic(op)
    }
}

/// Shifts by a register, whose upper bits are ignored.
#[derive(Clone, Copy)]
struct Shift([Code; 2]);

const SHL: Shift = Shift([Code::VEX_Shlx_r32_rm32_r32, Code::VEX_Shlx_r64_rm64_r64]);
const SHR: Shift = Shift([Code::VEX_Shrx_r32_rm32_r32, Code::VEX_Shrx_r64_rm64_r64]);
const SAR: Shift = Shift([Code::VEX_Sarx_r32_rm32_r32, Code::VEX_Sarx_r64_rm64_r64]);

/// The condition that a comparison asks for, and whether it compares 64 bits.
fn comparison(op: Op) -> Option<(Condition, bool)> {
    use Condition::*;
    Some(match op {
        Op::s_cmp_eq_i32 | Op::s_cmp_eq_u32 | Op::s_cmpk_eq_i32 | Op::s_cmpk_eq_u32 => (E, false),
        Op::s_cmp_lg_i32 | Op::s_cmp_lg_u32 | Op::s_cmpk_lg_i32 | Op::s_cmpk_lg_u32 => (Ne, false),
        Op::s_cmp_gt_i32 | Op::s_cmpk_gt_i32 => (G, false),
        Op::s_cmp_ge_i32 | Op::s_cmpk_ge_i32 => (Ge, false),
        Op::s_cmp_lt_i32 | Op::s_cmpk_lt_i32 => (L, false),
        Op::s_cmp_le_i32 | Op::s_cmpk_le_i32 => (Le, false),
        Op::s_cmp_gt_u32 | Op::s_cmpk_gt_u32 => (A, false),
        Op::s_cmp_ge_u32 | Op::s_cmpk_ge_u32 => (Ae, false),
        Op::s_cmp_lt_u32 | Op::s_cmpk_lt_u32 => (B, false),
        Op::s_cmp_le_u32 | Op::s_cmpk_le_u32 => (Be, false),
        Op::s_cmp_eq_u64 => (E, true),
        Op::s_cmp_lg_u64 => (Ne, true),
        _ => return None,
    })
}

/// Bitwise operations on two sources, and whether they have 64 bits.
fn bitwise(op: Op) -> Option<(Logic, bool)> {
    Some(match op {
        Op::s_and_b32 => (logic(AND), false),
        Op::s_and_b64 => (logic(AND), true),
        Op::s_or_b32 => (logic(OR), false),
        Op::s_or_b64 => (logic(OR), true),
        Op::s_xor_b32 => (logic(XOR), false),
        Op::s_xor_b64 => (logic(XOR), true),
        Op::s_nand_b32 => (inverted(AND), false),
        Op::s_nand_b64 => (inverted(AND), true),
        Op::s_nor_b32 => (inverted(OR), false),
        Op::s_nor_b64 => (inverted(OR), true),
        Op::s_xnor_b32 => (inverted(XOR), false),
        Op::s_xnor_b64 => (inverted(XOR), true),
        Op::s_andn2_b32 | Op::s_and_not1_b32 => (with_second(AND), false),
        Op::s_andn2_b64 | Op::s_and_not1_b64 => (with_second(AND), true),
        Op::s_orn2_b32 | Op::s_or_not1_b32 => (with_second(OR), false),
        Op::s_orn2_b64 | Op::s_or_not1_b64 => (with_second(OR), true),
        _ => return None,
    })
}

/// Bitwise operations of a source and EXEC that write EXEC, whether they have 64 bits, and whether the destination
/// gets the old value of EXEC.
fn on_exec(op: Op) -> Option<(Logic, bool, bool)> {
    Some(match op {
        Op::s_and_saveexec_b32 => (logic(AND), false, true),
        Op::s_and_saveexec_b64 => (logic(AND), true, true),
        Op::s_or_saveexec_b32 => (logic(OR), false, true),
        Op::s_or_saveexec_b64 => (logic(OR), true, true),
        Op::s_xor_saveexec_b32 => (logic(XOR), false, true),
        Op::s_xor_saveexec_b64 => (logic(XOR), true, true),
        Op::s_nand_saveexec_b32 => (inverted(AND), false, true),
        Op::s_nand_saveexec_b64 => (inverted(AND), true, true),
        Op::s_nor_saveexec_b32 => (inverted(OR), false, true),
        Op::s_nor_saveexec_b64 => (inverted(OR), true, true),
        Op::s_xnor_saveexec_b32 => (inverted(XOR), false, true),
        Op::s_xnor_saveexec_b64 => (inverted(XOR), true, true),
        Op::s_and_not0_saveexec_b32 => (with_first(AND), false, true),
        Op::s_andn1_saveexec_b64 | Op::s_and_not0_saveexec_b64 => (with_first(AND), true, true),
        Op::s_or_not0_saveexec_b32 => (with_first(OR), false, true),
        Op::s_orn1_saveexec_b64 | Op::s_or_not0_saveexec_b64 => (with_first(OR), true, true),
        Op::s_and_not1_saveexec_b32 => (with_second(AND), false, true),
        Op::s_andn2_saveexec_b64 | Op::s_and_not1_saveexec_b64 => (with_second(AND), true, true),
        Op::s_or_not1_saveexec_b32 => (with_second(OR), false, true),
        Op::s_orn2_saveexec_b64 | Op::s_or_not1_saveexec_b64 => (with_second(OR), true, true),
        Op::s_and_not0_wrexec_b32 => (with_first(AND), false, false),
        Op::s_andn1_wrexec_b64 | Op::s_and_not0_wrexec_b64 => (with_first(AND), true, false),
        Op::s_and_not1_wrexec_b32 => (with_second(AND), false, false),
        Op::s_andn2_wrexec_b64 | Op::s_and_not1_wrexec_b64 => (with_second(AND), true, false),
        _ => return None,
    })
}

fn shift(op: Op) -> Option<(Shift, bool)> {
    Some(match op {
        Op::s_lshl_b32 => (SHL, false),
        Op::s_lshl_b64 => (SHL, true),
        Op::s_lshr_b32 => (SHR, false),
        Op::s_lshr_b64 => (SHR, true),
        Op::s_ashr_i32 => (SAR, false),
        Op::s_ashr_i64 => (SAR, true),
        _ => return None,
    })
}

/// Sums and differences: the operation, the condition that is SCC behind it, whether it takes SCC, whether it has
/// 64 bits.
fn sum(op: Op) -> Option<(Two, Option<Condition>, bool, bool)> {
    use Condition::{B, O};
    Some(match op {
        Op::s_add_u32 | Op::s_add_co_u32 => (ADD, Some(B), false, false),
        Op::s_sub_u32 | Op::s_sub_co_u32 => (SUB, Some(B), false, false),
        Op::s_add_i32 | Op::s_add_co_i32 | Op::s_addk_i32 | Op::s_addk_co_i32 => {
            (ADD, Some(O), false, false)
        }
        Op::s_sub_i32 | Op::s_sub_co_i32 => (SUB, Some(O), false, false),
        Op::s_addc_u32 | Op::s_add_co_ci_u32 => (ADC, Some(B), true, false),
        Op::s_subb_u32 | Op::s_sub_co_ci_u32 => (SBB, Some(B), true, false),
        Op::s_add_nc_u64 => (ADD, None, false, true),
        Op::s_sub_nc_u64 => (SUB, None, false, true),
        _ => return None,
    })
}

impl Emit<'_> {
    /// Emits the operation of a record. Tells whether it is one that is known; if not, nothing was emitted.
    pub(super) fn operation(&mut self, record: &Record) -> Result<bool, CompileError> {
        let op = record.inst.op();
        let first = self.source(record.src[0]);
        let second = self.source(record.src[1]);
        let dst = self.dest(record.dst);
        if let (Some((condition, wide)), Some(a), Some(b)) = (comparison(op), first, second) {
            let a = self.value(a, wide, Reg::A)?;
            self.two(CMP, a, b, wide)?;
            self.set_scc(condition)?;
            return Ok(true);
        }
        let bit = match op {
            Op::s_bitcmp0_b32 => Some((Condition::Ae, false)),
            Op::s_bitcmp1_b32 => Some((Condition::B, false)),
            Op::s_bitcmp0_b64 => Some((Condition::Ae, true)),
            Op::s_bitcmp1_b64 => Some((Condition::B, true)),
            _ => None,
        };
        if let (Some((condition, wide)), Some(a), Some(b)) = (bit, first, second) {
            let a = self.value(a, wide, Reg::A)?;
            let b = self.value(b, false, Reg::C)?;
            self.change(if wide {
                Instruction::with2(Code::Bt_rm64_r64, a.q(), b.q())
            } else {
                Instruction::with2(Code::Bt_rm32_r32, a.d(), b.d())
            })?;
            self.set_scc(condition)?;
            return Ok(true);
        }
        let Some(dst) = dst else { return Ok(false) };
        if let Op::s_movk_i32 | Op::s_cmovk_i32 = op {
            let Some(value) = second else {
                return Ok(false);
            };
            self.moved(op == Op::s_cmovk_i32, dst, value, false)?;
            return Ok(true);
        }
        let Some(a) = first else { return Ok(false) };
        match op {
            Op::s_mov_b32 => self.moved(false, dst, a, false)?,
            Op::s_mov_b64 => self.moved(false, dst, a, true)?,
            Op::s_cmov_b32 => self.moved(true, dst, a, false)?,
            Op::s_cmov_b64 => self.moved(true, dst, a, true)?,
            _ => {
                if let Some((logic, wide, saves)) = on_exec(op) {
                    self.exec(logic, dst, a, wide, saves)?;
                } else if !self.unary(op, dst, a)? {
                    let Some(b) = second else { return Ok(false) };
                    return self.binary(op, dst, a, b);
                }
            }
        }
        Ok(true)
    }

    /// Moves, unconditionally or if SCC is set.
    fn moved(
        &mut self,
        conditional: bool,
        dst: usize,
        value: Value,
        wide: bool,
    ) -> Result<(), CompileError> {
        if conditional {
            return self.select(dst, value, Value::Word(dst), wide);
        }
        let from = match value {
            Value::Word(_) => self.value(value, wide, Reg::A)?,
            Value::Constant(_) => {
                let to = self.now.held.fresh();
                self.load(to, value, wide)?;
                to
            }
        };
        self.store(dst, from, wide)
    }

    /// The first value if SCC is set, else the second.
    fn select(
        &mut self,
        dst: usize,
        yes: Value,
        no: Value,
        wide: bool,
    ) -> Result<(), CompileError> {
        let yes = self.value(yes, wide, Reg::C)?;
        let to = self.now.held.fresh();
        self.load(to, no, wide)?;
        let scc = self.now.scc(self.asm)?;
        self.asm.choose(scc, to, yes)?;
        self.store(dst, to, wide)
    }

    /// `to = to op b` as a bitwise operation says; conditions tell whether the result is zero.
    fn logic(&mut self, logic: Logic, to: Reg, b: Value, wide: bool) -> Result<(), CompileError> {
        if logic.first {
            self.not(to, wide)?;
        }
        match (logic.second, b) {
            (true, Value::Constant(k)) => self.two(logic.op, to, Value::Constant(!k), wide)?,
            (true, Value::Word(_)) => {
                self.load(Reg::A, b, wide)?;
                self.not(Reg::A, wide)?;
                self.registers(logic.op, to, Reg::A, wide)?;
            }
            (false, _) => self.two(logic.op, to, b, wide)?,
        }
        if logic.result {
            self.not(to, wide)?;
            self.test(to, wide)?;
        }
        Ok(())
    }

    fn not(&mut self, reg: Reg, wide: bool) -> Result<(), CompileError> {
        self.put(if wide {
            Instruction::with1(Code::Not_rm64, reg.q())
        } else {
            Instruction::with1(Code::Not_rm32, reg.d())
        })
    }

    fn registers(&mut self, op: Two, to: Reg, from: Reg, wide: bool) -> Result<(), CompileError> {
        self.change(if wide {
            Instruction::with2(op.plain[1], to.q(), from.q())
        } else {
            Instruction::with2(op.plain[0], to.d(), from.d())
        })
    }

    /// EXEC = f(source, EXEC). The destination is written last: it keeps its value if it is EXEC.
    fn exec(
        &mut self,
        logic: Logic,
        dst: usize,
        a: Value,
        wide: bool,
        saves: bool,
    ) -> Result<(), CompileError> {
        let old = self.value(Value::Word(scalar::EXEC), wide, Reg::A)?;
        let new = self.now.held.fresh();
        self.load(new, a, wide)?;
        self.logic(logic, new, Value::Word(scalar::EXEC), wide)?;
        self.store(scalar::EXEC, new, wide)?;
        self.store(dst, if saves { old } else { new }, wide)?;
        self.set_scc(Condition::Ne)
    }

    /// Shifts a register by a value.
    fn shifted(
        &mut self,
        Shift(codes): Shift,
        to: Reg,
        from: Reg,
        by: Value,
        wide: bool,
    ) -> Result<(), CompileError> {
        let by = self.value(by, false, Reg::C)?;
        self.put(if wide {
            Instruction::with3(codes[1], to.q(), from.q(), by.q())
        } else {
            Instruction::with3(codes[0], to.d(), from.d(), by.d())
        })
    }

    /// Shifts a register of 64 bits by a constant; conditions tell whether the result is zero.
    fn shift_by(&mut self, code: Code, reg: Reg, by: u32) -> Result<(), CompileError> {
        if by == 0 {
            return self.test(reg, true);
        }
        self.change(Instruction::with2(code, reg.q(), by as i32))
    }

    /// Operations with one source. Tells whether it is one.
    fn unary(&mut self, op: Op, dst: usize, a: Value) -> Result<bool, CompileError> {
        let wide = matches!(
            op,
            Op::s_not_b64
                | Op::s_bcnt0_i32_b64
                | Op::s_bcnt1_i32_b64
                | Op::s_ff0_i32_b64
                | Op::s_ff1_i32_b64
                | Op::s_ctz_i32_b64
                | Op::s_flbit_i32_b64
                | Op::s_clz_i32_u64
                | Op::s_flbit_i32_i64
                | Op::s_cls_i32_i64
                | Op::s_bitset0_b64
                | Op::s_bitset1_b64
        );
        let to = match op {
            Op::s_not_b32
            | Op::s_not_b64
            | Op::s_abs_i32
            | Op::s_bcnt0_i32_b32
            | Op::s_bcnt1_i32_b32
            | Op::s_bcnt0_i32_b64
            | Op::s_bcnt1_i32_b64
            | Op::s_ff0_i32_b32
            | Op::s_ff1_i32_b32
            | Op::s_ctz_i32_b32
            | Op::s_flbit_i32_b32
            | Op::s_clz_i32_u32
            | Op::s_flbit_i32
            | Op::s_cls_i32
            | Op::s_ff0_i32_b64
            | Op::s_ff1_i32_b64
            | Op::s_ctz_i32_b64
            | Op::s_flbit_i32_b64
            | Op::s_clz_i32_u64
            | Op::s_flbit_i32_i64
            | Op::s_cls_i32_i64
            | Op::s_sext_i32_i8
            | Op::s_sext_i32_i16 => {
                let to = self.now.held.fresh();
                self.load(to, a, wide)?;
                to
            }
            Op::s_bitset0_b32 | Op::s_bitset1_b32 | Op::s_bitset0_b64 | Op::s_bitset1_b64 => {
                let to = self.now.held.fresh();
                self.load(to, Value::Word(dst), wide)?;
                let bit = self.value(a, false, Reg::C)?;
                let code = match op {
                    Op::s_bitset0_b32 => Code::Btr_rm32_r32,
                    Op::s_bitset1_b32 => Code::Bts_rm32_r32,
                    Op::s_bitset0_b64 => Code::Btr_rm64_r64,
                    _ => Code::Bts_rm64_r64,
                };
                self.change(if wide {
                    Instruction::with2(code, to.q(), bit.q())
                } else {
                    Instruction::with2(code, to.d(), bit.d())
                })?;
                self.store(dst, to, wide)?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let mut scc = false;
        match op {
            Op::s_not_b32 | Op::s_not_b64 => {
                self.not(to, wide)?;
                self.test(to, wide)?;
                self.store(dst, to, wide)?;
                self.set_scc(Condition::Ne)?;
                return Ok(true);
            }
            Op::s_abs_i32 => {
                self.absolute(to)?;
                scc = true;
            }
            Op::s_bcnt0_i32_b32 | Op::s_bcnt1_i32_b32 => {
                if op == Op::s_bcnt0_i32_b32 {
                    self.not(to, false)?;
                }
                self.change(Instruction::with2(Code::Popcnt_r32_rm32, to.d(), to.d()))?;
                scc = true;
            }
            Op::s_bcnt0_i32_b64 | Op::s_bcnt1_i32_b64 => {
                if op == Op::s_bcnt0_i32_b64 {
                    self.not(to, true)?;
                }
                self.change(Instruction::with2(Code::Popcnt_r64_rm64, to.q(), to.q()))?;
                scc = true;
            }
            Op::s_sext_i32_i8 => {
                self.copy(Reg::A, to)?;
                self.put(Instruction::with2(
                    Code::Movsx_r32_rm8,
                    to.d(),
                    iced_x86::Register::AL,
                ))?;
            }
            Op::s_sext_i32_i16 => {
                self.copy(Reg::A, to)?;
                self.put(Instruction::with2(
                    Code::Movsx_r32_rm16,
                    to.d(),
                    iced_x86::Register::AX,
                ))?;
            }
            _ => self.search(op, to, wide)?,
        }
        if scc {
            self.test(to, false)?;
        }
        self.store(dst, to, false)?;
        if scc {
            self.set_scc(Condition::Ne)?;
        }
        Ok(true)
    }

    /// The number of a bit, or -1.
    fn search(&mut self, op: Op, to: Reg, wide: bool) -> Result<(), CompileError> {
        match op {
            Op::s_ff0_i32_b32 | Op::s_ff0_i32_b64 => self.not(to, wide)?,
            // The first bit that differs from the sign.
            Op::s_flbit_i32 | Op::s_cls_i32 | Op::s_flbit_i32_i64 | Op::s_cls_i32_i64 => {
                let top = Value::Constant(if wide { 63 } else { 31 });
                self.shifted(SAR, Reg::A, to, top, wide)?;
                self.registers(XOR, to, Reg::A, wide)?;
            }
            _ => {}
        }
        let from_below = matches!(
            op,
            Op::s_ff0_i32_b32
                | Op::s_ff1_i32_b32
                | Op::s_ctz_i32_b32
                | Op::s_ff0_i32_b64
                | Op::s_ff1_i32_b64
                | Op::s_ctz_i32_b64
        );
        let count = match (from_below, wide) {
            (true, false) => Code::Tzcnt_r32_rm32,
            (true, true) => Code::Tzcnt_r64_rm64,
            (false, false) => Code::Lzcnt_r32_rm32,
            (false, true) => Code::Lzcnt_r64_rm64,
        };
        self.asm.constant(Reg::A, u32::MAX.into())?;
        self.change(if wide {
            Instruction::with2(count, to.q(), to.q())
        } else {
            Instruction::with2(count, to.d(), to.d())
        })?;
        // Carry: there was none.
        self.asm.choose(Condition::B, to, Reg::A)
    }

    /// The absolute value of 32 bits.
    fn absolute(&mut self, reg: Reg) -> Result<(), CompileError> {
        self.put(Instruction::with2(Code::Mov_r32_rm32, Reg::A.d(), reg.d()))?;
        self.change(Instruction::with1(Code::Neg_rm32, Reg::A.d()))?;
        self.asm.choose(Condition::Ns, reg, Reg::A)
    }

    /// Operations with two sources. Tells whether it is one that is known.
    fn binary(&mut self, op: Op, dst: usize, a: Value, b: Value) -> Result<bool, CompileError> {
        if let Op::s_cselect_b32 | Op::s_cselect_b64 = op {
            self.select(dst, a, b, op == Op::s_cselect_b64)?;
            return Ok(true);
        }
        if let Some((logic, wide)) = bitwise(op) {
            let to = self.now.held.fresh();
            self.load(to, a, wide)?;
            self.logic(logic, to, b, wide)?;
            self.store(dst, to, wide)?;
            self.set_scc(Condition::Ne)?;
            return Ok(true);
        }
        if let Some((shift, wide)) = shift(op) {
            let from = self.value(a, wide, Reg::A)?;
            let to = self.now.held.fresh();
            self.shifted(shift, to, from, b, wide)?;
            self.test(to, wide)?;
            self.store(dst, to, wide)?;
            self.set_scc(Condition::Ne)?;
            return Ok(true);
        }
        if let Some((two, scc, takes, wide)) = sum(op) {
            let to = self.now.held.fresh();
            self.load(to, a, wide)?;
            if takes {
                // Before the carry is in place: a constant of its own register changes no condition.
                let b = self.value(b, wide, Reg::C)?;
                self.carry()?;
                self.registers(two, to, b, wide)?;
            } else {
                self.two(two, to, b, wide)?;
            }
            self.store(dst, to, wide)?;
            if let Some(condition) = scc {
                self.set_scc(condition)?;
            }
            return Ok(true);
        }
        let to = match op {
            Op::s_mul_i32 | Op::s_mulk_i32 => self.product(a, b, Code::Imul_r32_rm32, false)?,
            Op::s_mul_u64 => self.product(a, b, Code::Imul_r64_rm64, true)?,
            Op::s_mul_hi_u32 => self.high_product(a, b, false)?,
            Op::s_mul_hi_i32 => self.high_product(a, b, true)?,
            Op::s_bfm_b32 => self.mask(a, b, false)?,
            Op::s_bfm_b64 => self.mask(a, b, true)?,
            Op::s_pack_ll_b32_b16
            | Op::s_pack_lh_b32_b16
            | Op::s_pack_hh_b32_b16
            | Op::s_pack_hl_b32_b16 => self.pack(op, a, b)?,
            _ => return self.with_condition(op, dst, a, b),
        };
        let wide = matches!(op, Op::s_mul_u64 | Op::s_bfm_b64);
        self.store(dst, to, wide)?;
        Ok(true)
    }

    /// Carry is SCC from now on.
    fn carry(&mut self) -> Result<(), CompileError> {
        if self.now.flags == Some(Condition::B) {
            return Ok(());
        }
        let scc = super::general::scc();
        self.put(Instruction::with2(Code::Movzx_r32_rm8, Reg::A.d(), scc))?;
        self.change(Instruction::with1(Code::Neg_rm32, Reg::A.d()))
    }

    fn product(&mut self, a: Value, b: Value, code: Code, wide: bool) -> Result<Reg, CompileError> {
        let to = self.now.held.fresh();
        self.load(to, a, wide)?;
        let b = self.value(b, wide, Reg::C)?;
        self.change(if wide {
            Instruction::with2(code, to.q(), b.q())
        } else {
            Instruction::with2(code, to.d(), b.d())
        })?;
        Ok(to)
    }

    fn high_product(&mut self, a: Value, b: Value, signed: bool) -> Result<Reg, CompileError> {
        let to = self.now.held.fresh();
        for (reg, value) in [(to, a), (Reg::A, b)] {
            self.load(reg, value, false)?;
            if signed {
                self.put(Instruction::with2(Code::Movsxd_r64_rm32, reg.q(), reg.d()))?;
            }
        }
        self.change(Instruction::with2(Code::Imul_r64_rm64, to.q(), Reg::A.q()))?;
        self.shift_by(Code::Shr_rm64_imm8, to, 32)?;
        Ok(to)
    }

    /// As many ones as the first value says, shifted left by the second.
    fn mask(&mut self, a: Value, b: Value, wide: bool) -> Result<Reg, CompileError> {
        let to = self.now.held.fresh();
        self.load(Reg::A, a, false)?;
        let most = if wide { 63 } else { 31 };
        self.two(AND, Reg::A, Value::Constant(most), false)?;
        self.asm.constant(to, u64::MAX)?;
        self.change(Instruction::with3(
            Code::VEX_Bzhi_r64_rm64_r64,
            to.q(),
            to.q(),
            Reg::A.q(),
        ))?;
        self.shifted(SHL, to, to, b, wide)?;
        Ok(to)
    }

    /// A half of each source: low and high halves of the result.
    fn pack(&mut self, op: Op, a: Value, b: Value) -> Result<Reg, CompileError> {
        let to = self.now.held.fresh();
        self.load(to, a, false)?;
        match op {
            Op::s_pack_hh_b32_b16 | Op::s_pack_hl_b32_b16 => {
                self.shift_by(Code::Shr_rm64_imm8, to, 16)?;
            }
            _ => self.two(AND, to, Value::Constant(0xffff), false)?,
        }
        self.load(Reg::A, b, false)?;
        match op {
            Op::s_pack_ll_b32_b16 | Op::s_pack_hl_b32_b16 => {
                self.shift_by(Code::Shl_rm64_imm8, Reg::A, 16)?;
            }
            _ => self.two(AND, Reg::A, Value::Constant(0xffff_0000), false)?,
        }
        self.registers(OR, to, Reg::A, false)?;
        Ok(to)
    }

    /// Operations with two sources that give SCC in ways of their own. Tells whether it is one that is known.
    fn with_condition(
        &mut self,
        op: Op,
        dst: usize,
        a: Value,
        b: Value,
    ) -> Result<bool, CompileError> {
        use Condition::{Ae, B, Ge, L, Ne};
        match op {
            // SCC says that the first source was chosen.
            Op::s_min_i32 | Op::s_min_u32 | Op::s_max_i32 | Op::s_max_u32 => {
                let condition = match op {
                    Op::s_min_i32 => L,
                    Op::s_min_u32 => B,
                    Op::s_max_i32 => Ge,
                    _ => Ae,
                };
                let a = self.value(a, false, Reg::A)?;
                let to = self.now.held.fresh();
                self.load(to, b, false)?;
                self.registers(CMP, a, to, false)?;
                self.asm.choose(condition, to, a)?;
                self.store(dst, to, false)?;
                self.set_scc(condition)?;
            }
            Op::s_absdiff_i32 => {
                let to = self.now.held.fresh();
                self.load(to, a, false)?;
                self.two(SUB, to, b, false)?;
                self.absolute(to)?;
                self.test(to, false)?;
                self.store(dst, to, false)?;
                self.set_scc(Ne)?;
            }
            Op::s_lshl1_add_u32
            | Op::s_lshl2_add_u32
            | Op::s_lshl3_add_u32
            | Op::s_lshl4_add_u32 => {
                let by = match op {
                    Op::s_lshl1_add_u32 => 1,
                    Op::s_lshl2_add_u32 => 2,
                    Op::s_lshl3_add_u32 => 3,
                    _ => 4,
                };
                let to = self.now.held.fresh();
                self.load(to, a, false)?;
                self.shift_by(Code::Shl_rm64_imm8, to, by)?;
                self.load(Reg::A, b, false)?;
                self.registers(ADD, to, Reg::A, true)?;
                self.copy(Reg::A, to)?;
                self.shift_by(Code::Shr_rm64_imm8, Reg::A, 32)?;
                self.store(dst, to, false)?;
                self.set_scc(Ne)?;
            }
            Op::s_bfe_u32 | Op::s_bfe_u64 => {
                let wide = op == Op::s_bfe_u64;
                let to = self.now.held.fresh();
                self.load(to, a, wide)?;
                self.shifted(SHR, to, to, b, wide)?;
                match b {
                    Value::Constant(k) => self.asm.constant(Reg::A, k >> 16 & 0x7f)?,
                    Value::Word(_) => {
                        self.load(Reg::A, b, false)?;
                        self.shift_by(Code::Shr_rm64_imm8, Reg::A, 16)?;
                        self.two(AND, Reg::A, Value::Constant(0x7f), false)?;
                    }
                }
                // A field that is wider than the operand keeps all bits.
                self.change(Instruction::with3(
                    Code::VEX_Bzhi_r64_rm64_r64,
                    to.q(),
                    to.q(),
                    Reg::A.q(),
                ))?;
                self.store(dst, to, wide)?;
                self.set_scc(Ne)?;
            }
            Op::s_bfe_i32 | Op::s_bfe_i64 => {
                let Value::Constant(control) = b else {
                    return Ok(false);
                };
                let wide = op == Op::s_bfe_i64;
                let bits = if wide { 64 } else { 32 };
                let from = control as u32 & (bits - 1);
                let width = (control as u32 >> 16 & 0x7f).min(bits);
                let to = self.now.held.fresh();
                self.load(to, a, wide)?;
                if !wide {
                    self.put(Instruction::with2(Code::Movsxd_r64_rm32, to.q(), to.d()))?;
                }
                self.shift_by(Code::Sar_rm64_imm8, to, from)?;
                if width == 0 {
                    self.asm.constant(to, 0)?;
                } else {
                    self.shift_by(Code::Shl_rm64_imm8, to, 64 - width)?;
                    self.shift_by(Code::Sar_rm64_imm8, to, 64 - width)?;
                }
                self.test(to, wide)?;
                self.store(dst, to, wide)?;
                self.set_scc(Ne)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
