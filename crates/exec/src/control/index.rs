//! What changes how vector instructions are decoded: VGPR indexing and skipping (gfx9), VGPR banks (gfx1250).

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::{Lowering, State};
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, INDEXING, VSKIP, Wave, mode, scalar};

/// Lowers an instruction of this module. `imm` is the immediate.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let (handler, imm): (Handler, u32) = match inst.op() {
        Op::s_set_vgpr_msb => {
            // The banks hold for the rest of the block without asking the wave again; the wave keeps them
            // for the blocks that follow.
            let banks = inst.field(Name::simm16)? & 0xff;
            lowering.state = State(lowering.state.0 & !(0xff << 16) | banks << 16);
            (set_banks, banks)
        }
        Op::s_set_gpr_idx_on => (index_on, inst.field(Name::src1)? & 0xf),
        Op::s_set_gpr_idx_off => (index_off, 0),
        Op::s_set_gpr_idx_mode => (index_mode, inst.field(Name::simm16)? & 0xf),
        Op::s_set_gpr_idx_idx => (index_value, 0),
        Op::s_setvskip => (vskip, 0),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    // `s_set_gpr_idx_idx` changes the index only, which is read when an instruction executes.
    record.ends_block = !matches!(inst.op(), Op::s_set_vgpr_msb | Op::s_set_gpr_idx_idx);
    record.src[0] = lowering.source(inst, Name::src0).unwrap_or_default();
    record.src[1] = lowering.source(inst, Name::src1).unwrap_or_default();
    record.imm = i64::from(imm);
    Some(record)
}

/// CDNA5 manual, "S_SET_VGPR_MSB": SIMM16[1:0] source 0, [3:2] source 1, [5:4] source 2, [7:6] destination.
fn set_banks(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    cx.wave.decode_state = cx.wave.decode_state & !0xff | record.imm as u32;
    Flow::Next
}

/// M0[7:0] = S0[7:0], M0[15:12] = the operands that are indexed.
fn index_on(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let index = cx.get32(record.src[0]) & 0xff;
    let m0 = &mut cx.wave.s[scalar::M0];
    *m0 = *m0 & !0xf0ff | index | (record.imm as u32) << 12;
    cx.wave.mode |= mode::GPR_IDX_EN;
    cx.wave.decode_state |= INDEXING;
    Flow::Next
}

fn index_off(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    cx.wave.mode &= !mode::GPR_IDX_EN;
    cx.wave.decode_state &= !INDEXING;
    Flow::Next
}

fn index_mode(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let m0 = &mut cx.wave.s[scalar::M0];
    *m0 = *m0 & !0xf000 | (record.imm as u32) << 12;
    Flow::Next
}

/// VSKIP = S0[S1[4:0]]: vector instructions are skipped from here on.
fn vskip(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let bit = cx.get32(record.src[1]) & 31;
    let on = cx.get32(record.src[0]) >> bit & 1 != 0;
    cx.wave.set_vskip(on);
    Flow::Next
}

impl Wave {
    /// Sets MODE.VSKIP and what follows from it.
    pub(super) fn set_vskip(&mut self, on: bool) {
        self.mode &= !mode::VSKIP;
        self.decode_state &= !VSKIP;
        if on {
            self.mode |= mode::VSKIP;
            self.decode_state |= VSKIP;
        }
    }
}

fn index_value(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let index = cx.get32(record.src[0]) & 0xff;
    let m0 = &mut cx.wave.s[scalar::M0];
    *m0 = *m0 & !0xff | index;
    Flow::Next
}
