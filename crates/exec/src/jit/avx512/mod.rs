//! AVX-512: which instructions do a step of a run, and from where they take their operands.

pub mod select;

use iced_x86::{Code, Instruction, Register, RoundingControl};
use rocjitsu_lanes::trace::graph::{Id, Op};

use super::assembler::{Arg, CompileError, masked, with2, with2_imm, with3, with3_imm};
use super::emit::Emitter;
use super::values::Class;
use select::{add_rounded, binary, blend, high_half, unary};

impl Emitter<'_> {
    /// Computes a node that is no leaf.
    pub fn compute_avx512(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let [a, b, c] = node.args;
        use Op::*;
        match node.op {
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
                let mask = self.need(a, way)?;
                let (other, chosen) = (self.need(c, way)?, self.arg(b, way)?);
                let to = self.result(id, way, at)?;
                let wide = node.op == SelectD;
                self.asm.put(blend(wide, to, mask, chosen, other))
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
            AddOdd => self.add_odd(id, way, at),
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

    /// Stores a mask of all groups at once: what reads it next reads it whole, and does not wait for that.
    pub fn store_mask_avx512(&mut self, n: u32, id: Id) -> Result<(), CompileError> {
        let mut parts = Vec::new();
        for way in 0..self.ways {
            parts.push(self.need(id, way)?);
        }
        let mut join = Code::VEX_Kunpckwd_kr_kr_kr;
        let mut store = match parts.len() {
            1 => Code::VEX_Kmovw_m16_kr,
            _ => Code::VEX_Kmovd_m32_kr,
        };
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

    /// The sum toward zero, its last bit set where it is not exact: where the neighbours of the exact sum, which
    /// differ in that bit, are not one; whatever the sign of zero.
    fn add_odd(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let [a, b, one] = self.run.graph.get(id).args;
        let (x, y) = (self.need(a, way)?, self.need(b, way)?);
        let (down, up) = (
            self.values.scratch(&mut self.asm, Class::Vector)?,
            self.values.scratch(&mut self.asm, Class::Vector)?,
        );
        let one = self.arg(one, way)?;
        let to = self.result(id, way, at)?;
        let sum = |to, rounding| add_rounded(to, x, y, rounding);
        self.asm.put(sum(down, RoundingControl::RoundDown))?;
        self.asm.put(sum(up, RoundingControl::RoundUp))?;
        let ternary = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        let differ_and_third = 0x28;
        self.asm
            .put(with3_imm(ternary, down, up, one, differ_and_third))?;
        self.asm.put(sum(to, RoundingControl::RoundTowardZero))?;
        let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
        self.asm.put(with3(or, to, to, Arg::Reg(down)))
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
