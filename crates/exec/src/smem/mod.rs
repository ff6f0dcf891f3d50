//! Scalar memory: loads into SGPRs.

use rocjitsu_isa::{Inst, Name, Op};

use crate::error::Cause;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::Cx;

/// Lowers a scalar memory instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let words = match inst.op() {
        Op::s_load_dword | Op::s_load_b32 => 1,
        Op::s_load_dwordx2 | Op::s_load_b64 => 2,
        Op::s_load_dwordx4 | Op::s_load_b128 => 4,
        Op::s_load_dwordx8 | Op::s_load_b256 => 8,
        Op::s_load_dwordx16 | Op::s_load_b512 => 16,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Smem, load);
    record.dst = lowering.dest(inst, Name::sdst)?;
    record.src[0] = lowering.source(inst, Name::sbase)?;
    record.src[1] = match inst.operand(Name::soffset) {
        Some(s) => lowering.resolve_source(s),
        None => Operand::None,
    };
    record.imm = i64::from(inst.signed_field(Name::offset).unwrap_or(0));
    record.imm2 = words;
    Some(record)
}

fn load(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let base = cx.get64(record.src[0]);
    let offset = i64::from(cx.get32(record.src[1])).wrapping_add(record.imm);
    // The low two bits of the address are ignored (manuals: SMEM addressing).
    let address = base.wrapping_add_signed(offset) & !3;
    let Some(first) = record.dst.scalar() else { return Flow::Next };
    for word in 0..record.imm2 as usize {
        let at = address.wrapping_add(4 * word as u64);
        match cx.unit.memory.read_u32(at) {
            Ok(value) => {
                if let Some(s) = cx.wave.s.get_mut(first + word) {
                    *s = value;
                }
            }
            Err(kind) => {
                let near = cx.unit.memory.near(at);
                let cause = Cause::Memory { access: "scalar load", bytes: 4, address: at, lane: 0, kind, near };
                return cx.fault(record, cause);
            }
        }
    }
    Flow::Next
}
