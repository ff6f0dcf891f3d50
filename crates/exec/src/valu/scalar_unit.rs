//! Transcendental operations on scalar registers, executed by the vector unit (gfx12: V_S_EXP_F32 and its kin).
//! EXEC does not matter to them.

use rocjitsu_isa::{Inst, Name, Op};
use rocjitsu_lanes::fp::mode::{flush16, flush32};
use rocjitsu_lanes::scalar::{modifiers, transcendental as t};

use super::ops::support::mode;
use crate::lower::Lowering;
use crate::record::{Class, Exactness, Flow, Operand, Record};
use crate::wave::{Cx, scalar};

#[derive(Clone, Copy)]
enum Function {
    F32(fn(u32) -> u32),
    F16(fn(u16) -> u16),
}

fn function(op: Op) -> Option<Function> {
    Some(match op {
        Op::v_s_exp_f32 => Function::F32(t::v_exp_f32),
        Op::v_s_log_f32 => Function::F32(t::v_log_f32),
        Op::v_s_rcp_f32 => Function::F32(t::v_rcp_f32),
        Op::v_s_rsq_f32 => Function::F32(t::v_rsq_f32),
        Op::v_s_sqrt_f32 => Function::F32(t::v_sqrt_f32),
        Op::v_s_exp_f16 => Function::F16(t::v_exp_f16),
        Op::v_s_log_f16 => Function::F16(t::v_log_f16),
        Op::v_s_rcp_f16 => Function::F16(t::v_rcp_f16),
        Op::v_s_rsq_f16 => Function::F16(t::v_rsq_f16),
        Op::v_s_sqrt_f16 => Function::F16(t::v_sqrt_f16),
        _ => return None,
    })
}

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let function = function(inst.op())?;
    let mut record = Record::new(*inst, pc, Class::Valu, run);
    record.exactness = Exactness::Bounded("1 ulp");
    record.dst = lowering.dest(inst, Name::vdst)?;
    record.src[0] = lowering.source(inst, Name::src0)?;
    record.aux = rocjitsu_lanes::kernel::Aux(lowering.state.0 & 0x7ff);
    record.imm = i64::from(inst.field(Name::src0_modifiers).unwrap_or(0));
    record.imm2 =
        i64::from(inst.field(Name::omod).unwrap_or(0) | inst.field(Name::clamp).unwrap_or(0) << 2);
    // What a block decoded ahead of it depends on may change with M0.
    record.ends_block = record.dst == Operand::Scalar(scalar::M0 as u8);
    record.detail = Some(Box::new(function));
    Some(record)
}

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some(function) = record
        .detail
        .as_ref()
        .and_then(|d| d.downcast_ref::<Function>())
    else {
        return Flow::Next;
    };
    let m = mode(record.aux);
    let word = cx.get32(record.src[0]);
    let (neg, abs) = (record.imm & 1 != 0, record.imm & 2 != 0);
    let (omod, clamp) = (record.imm2 as u32 & 3, record.imm2 & 4 != 0);
    let value = match function {
        Function::F32(f) => {
            let x = flush32(modifiers::source_f32(word, abs, neg), m.flush_in32);
            let r = modifiers::omod_f32(flush32(f(x), m.flush_out32), omod);
            if clamp {
                modifiers::clamp_f32(r, true)
            } else {
                r
            }
        }
        Function::F16(f) => {
            let x = flush16(
                modifiers::source_f16(word as u16, abs, neg),
                m.flush_in16_64,
            );
            let r = modifiers::omod_f16(flush16(f(x), m.flush_out16_64), omod);
            u32::from(if clamp {
                modifiers::clamp_f16(r, true)
            } else {
                r
            })
        }
    };
    cx.set32(record.dst, value);
    Flow::Next
}
