//! Vector memory: global loads and stores.

use rocjitsu_isa::{Inst, Name, Op};

use crate::error::Cause;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::Cx;

/// Lowers a vector memory instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let (store, words) = match inst.op() {
        Op::global_load_dword | Op::global_load_b32 => (false, 1),
        Op::global_load_dwordx4 | Op::global_load_b128 => (false, 4),
        Op::global_store_dword | Op::global_store_b32 => (true, 1),
        Op::global_store_dwordx4 | Op::global_store_b128 => (true, 4),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Vmem, access);
    record.dst = if store {
        lowering.banked(lowering.source(inst, Name::vdata)?, 1)
    } else {
        lowering.banked(lowering.dest(inst, Name::vdst)?, 3)
    };
    record.src[0] = lowering.banked(lowering.source(inst, Name::vaddr)?, 0);
    record.src[1] = lowering.source(inst, Name::saddr).unwrap_or_default();
    record.imm = i64::from(inst.signed_field(Name::offset).unwrap_or(0));
    record.imm2 = words | i64::from(store) << 8;
    Some(record)
}

fn access(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (words, store) = ((record.imm2 & 0xff) as u32, record.imm2 >> 8 != 0);
    let (Some(address), Some(data)) = (record.src[0].vector(), record.dst.vector()) else { return Flow::Next };
    let exec = cx.wave.exec();
    for lane in (0..cx.wave.lanes).filter(|l| exec >> l & 1 != 0) {
        let low = u64::from(cx.wave.v.read(address)[lane as usize]);
        let base = match record.src[1] {
            Operand::None => low | u64::from(cx.wave.v.read(address + 1)[lane as usize]) << 32,
            saddr => cx.get64(saddr).wrapping_add(low),
        };
        let base = base.wrapping_add_signed(record.imm);
        for word in 0..words {
            let at = base.wrapping_add(4 * u64::from(word));
            let done = if store {
                let value = cx.wave.v.read(data + word)[lane as usize];
                cx.unit.memory.write(at, value.to_le_bytes())
            } else {
                cx.unit.memory.read_u32(at).map(|value| {
                    cx.wave.v.write(data + word, &mut cx.unit.pool)[lane as usize] = value;
                })
            };
            if let Err(kind) = done {
                let near = cx.unit.memory.near(at);
                let access = if store { "store" } else { "load" };
                return cx.fault(record, Cause::Memory { access, bytes: 4, address: at, lane, kind, near });
            }
        }
    }
    Flow::Next
}
