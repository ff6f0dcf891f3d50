//! The families of instructions, each in its module; the first that knows an instruction lowers it.

use rocjitsu_isa::Inst;

use crate::lower::Lowering;
use crate::record::Record;
use crate::{control, lds, matrix, salu, smem, valu, vmem};

/// The record of an instruction, or `None` if no family gives it semantics.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    control::lower(inst, pc, lowering)
        .or_else(|| salu::lower(inst, pc, lowering))
        .or_else(|| smem::lower(inst, pc, lowering))
        .or_else(|| valu::lower(inst, pc, lowering))
        .or_else(|| matrix::lower(inst, pc, lowering))
        .or_else(|| vmem::lower(inst, pc, lowering))
        .or_else(|| lds::lower(inst, pc, lowering))
}
