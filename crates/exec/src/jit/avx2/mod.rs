//! AVX2 with FMA and F16C: which instructions do a step of a run whose nodes were made fit for it.

mod build;
pub mod legal;
mod logic;
pub mod select;

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_lanes::trace::graph::{Id, Op};

use super::assembler::{Arg, Assembler, CompileError, low, with2, with3, with3_imm};
use super::emit::Emitter;
use super::values::Class;
use select::{binary, blend, from_register, unary};

impl Emitter<'_> {
    /// Computes a node that is no leaf.
    pub fn compute_avx2(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let [a, b, c] = node.args;
        match node.op {
            Op::FmaF | Op::FmaD => self.fma_avx2(id, way, at),
            Op::Permute => self.permute_avx2(id, way, at),
            Op::Select => {
                let mask = self.need(a, way)?;
                let (other, chosen) = (self.need(c, way)?, self.arg(b, way)?);
                let to = self.result(id, way, at)?;
                self.asm.put(blend(to, mask, chosen, other))
            }
            _ if b == Id::NONE => {
                let from = match from_register(node.op) {
                    true => Arg::Reg(self.need(a, way)?),
                    false => self.arg(a, way)?,
                };
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

    /// Lanes within 16: of the lower eight, of the upper eight, or of both.
    fn permute_avx2(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let [table, from, _] = node.args;
        let upper = node.imm >> (8 * (way & 1)) & 0xff;
        let index = self.need(table, way)?;
        let code = Code::VEX_Vpermd_ymm_ymm_ymmm256;
        let only = match upper {
            0 => Some(way & !1),
            0xff => Some(way | 1),
            _ => None,
        };
        if let Some(half) = only {
            let from = self.need(from, half)?;
            let to = self.result(id, way, at)?;
            return self.asm.put(with3(code, to, index, Arg::Reg(from)));
        }
        let (low, high) = (self.need(from, way & !1)?, self.need(from, way | 1)?);
        let other = self.values.scratch(&mut self.asm, Class::Vector)?;
        self.asm.put(with3(code, other, index, Arg::Reg(high)))?;
        let to = self.result(id, way, at)?;
        self.asm.put(with3(code, to, index, Arg::Reg(low)))?;
        let code = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
        self.asm
            .put(with3_imm(code, to, to, Arg::Reg(other), upper))
    }

    /// Multiply-add in the form that returns the first NaN of a, b, c, as the encoder for AVX-512 has it.
    fn fma_avx2(&mut self, id: Id, way: u32, at: u32) -> Result<(), CompileError> {
        let node = self.run.graph.get(id);
        let [ia, ib, ic] = node.args;
        let (a, c) = (self.need(ia, way)?, self.need(ic, way)?);
        let b = self.arg(ib, way)?;
        let (which, to) = self.overwrite(id, &[ic, ia, ib], way, at)?;
        let single = node.op == Op::FmaF;
        let (code, second, third) = match (which, single) {
            (0, true) => (Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256, a, b),
            (0, false) => (Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256, a, b),
            (1, true) => (Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256, c, b),
            (1, false) => (Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256, c, b),
            (_, true) => (Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256, a, Arg::Reg(c)),
            (_, false) => (Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256, a, Arg::Reg(c)),
        };
        self.asm.put(with3(code, to, second, third))
    }

    /// Stores a mask of all groups at once.
    pub fn store_mask_avx2(&mut self, n: u32, id: Id) -> Result<(), CompileError> {
        let mut parts = Vec::new();
        for way in 0..self.ways {
            parts.push(self.need(id, way)?);
        }
        let [all, part] = self.asm.general();
        for (way, &from) in parts.iter().enumerate() {
            let to = if way == 0 { all } else { part };
            let bits = Code::VEX_Vmovmskps_r32_ymm;
            self.asm.put(Instruction::with2(bits, low(to, 4), from))?;
            if way > 0 {
                let shift = Instruction::with2(Code::Shl_rm64_imm8, part, 8 * way as u32);
                self.asm.put(shift)?;
                let or = Instruction::with2(Code::Or_r64_rm64, all, part);
                self.asm.put(or)?;
            }
        }
        let store = match parts.len() {
            1 => Code::Mov_rm8_r8,
            2 => Code::Mov_rm16_r16,
            4 => Code::Mov_rm32_r32,
            _ => Code::Mov_rm64_r64,
        };
        let to = self.asm.mask(n, 0);
        let from = low(all, parts.len());
        self.asm.put(Instruction::with2(store, to, from))
    }
}

/// Loads eight bits of a mask as eight words.
pub fn load_mask(
    asm: &mut Assembler,
    to: Register,
    from: MemoryOperand,
) -> Result<(), CompileError> {
    let bits = Arg::Mem(asm.lane_bits());
    asm.put(with2(Code::VEX_Vpbroadcastb_ymm_xmmm8, to, Arg::Mem(from)))?;
    asm.put(with3(Code::VEX_Vpand_ymm_ymm_ymmm256, to, to, bits))?;
    asm.put(with3(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, to, to, bits))
}
