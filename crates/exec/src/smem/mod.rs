//! Scalar memory: which access an instruction makes; its operands.
//!
//! No instruction of this format is left without semantics.

mod access;
mod address;
mod atomic;

use rocjitsu_isa::{Inst, Name, Op, Target};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Operand, Record};
use crate::wave::{Cx, scalar};

/// Lowers a scalar memory instruction.
///
/// `dst` is the data register (also of stores and atomics), `src[0]` the base address or descriptor,
/// `src[1]` the register offset, `imm` the immediate offset, `imm2` packs sizes (`pack`).
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    if is_hint(inst.op()) {
        return Some(Record::new(*inst, pc, Class::Smem, |_, _| Flow::Next));
    }
    let (handler, words) = load(inst.op())
        .or_else(|| store(inst.op()))
        .or_else(|| atomic::handler(inst.op()))?;
    let mut record = Record::new(*inst, pc, Class::Smem, handler);
    let data = inst
        .operand(Name::sdst)
        .or_else(|| inst.operand(Name::sdata))?;
    record.dst = lowering.resolve(data);
    // NULL, M0 and EXEC are no base: they read as zero (RDNA3 manual 8.4.1).
    record.src[0] = match lowering.resolve(inst.operand(Name::sbase)?) {
        Operand::Scalar(n) if usize::from(n) >= scalar::NULL && usize::from(n) < scalar::SINK => {
            Operand::Const(0)
        }
        other => other,
    };
    record.src[1] = match inst.operand(Name::soffset) {
        Some(s) => lowering.resolve_source(s),
        None => Operand::None,
    };
    record.imm = i64::from(inst.signed_field(Name::offset).unwrap_or(0));
    let scratch = is_scratch(inst.op());
    // gfx1250: SCALE_OFFSET (bit 11 of the cache policy) scales the register offset by the data's size.
    let scaled =
        lowering.target == Target::Gfx1250 && inst.field(Name::cpol).unwrap_or(0) >> 11 & 1 != 0;
    let scale = match (scratch, scaled) {
        (true, _) => 64,
        (false, true) if !is_buffer(inst.op()) => access::bytes(inst.op(), words),
        _ => 1,
    };
    // The pre-operation value is wanted: rows with `sdst` beside `sdata`. Trap temporaries cannot take it.
    let ttmp = matches!(record.dst, Operand::Scalar(n) if (scalar::TTMP..scalar::NULL).contains(&usize::from(n)));
    let returns =
        inst.operand(Name::sdst).is_some() && inst.operand(Name::sdata).is_some() && !ttmp;
    record.imm2 = pack(words, scale, returns);
    if !access::fits(record.dst, words, lowering.target) {
        record.run = access::out_of_range;
        record.ends_block = true;
    }
    Some(record)
}

/// [`Record::imm2`]: data words in bits 7:0, the factor of the register offset in 15:8, whether an atomic
/// returns in bit 16.
fn pack(words: u32, scale: u32, returns: bool) -> i64 {
    i64::from(words | scale << 8 | u32::from(returns) << 16)
}

/// Bytes that an instruction of this module loads or stores.
pub fn bytes_of(record: &Record) -> u32 {
    access::bytes(record.inst.op(), words(record) as u32)
}

/// Where an access begins, and how many of its `bytes` bytes are made: those of a buffer that are inside.
/// Nothing of an access that is refused.
pub fn place(cx: &Cx<'_, '_>, record: &Record, buffer: bool, bytes: u32) -> (u64, u32) {
    let align = u64::from(bytes.min(4));
    if !buffer {
        return (address::plain(cx, record, align), bytes);
    }
    let wide = cx.unit.target == Target::Gfx1250;
    match address::resolve(cx, record, align, wide) {
        Ok(buffer) => {
            let inside = buffer.size.saturating_sub(buffer.offset);
            let inside = inside.next_multiple_of(align).min(bytes.into());
            (buffer.base.wrapping_add(buffer.offset), inside as u32)
        }
        Err(_) => (0, 0),
    }
}

fn words(record: &Record) -> usize {
    (record.imm2 & 0xff) as usize
}

fn returns(record: &Record) -> bool {
    record.imm2 >> 16 & 1 != 0
}

/// Instructions that change nothing that a program can see: all memory is coherent here, prefetches and
/// probes never fault (manuals: a prefetch of an unmapped address is dropped).
fn is_hint(op: Op) -> bool {
    matches!(
        op,
        Op::s_dcache_inv
            | Op::s_dcache_inv_vol
            | Op::s_dcache_wb
            | Op::s_dcache_wb_vol
            | Op::s_dcache_discard
            | Op::s_dcache_discard_x2
            | Op::s_gl1_inv
            | Op::s_atc_probe
            | Op::s_atc_probe_buffer
            | Op::s_prefetch_inst
            | Op::s_prefetch_inst_pc_rel
            | Op::s_prefetch_data
            | Op::s_prefetch_data_pc_rel
            | Op::s_buffer_prefetch_data
    )
}

fn is_scratch(op: Op) -> bool {
    matches!(
        op,
        Op::s_scratch_load_dword
            | Op::s_scratch_load_dwordx2
            | Op::s_scratch_load_dwordx4
            | Op::s_scratch_store_dword
            | Op::s_scratch_store_dwordx2
            | Op::s_scratch_store_dwordx4
    )
}

fn is_buffer(op: Op) -> bool {
    op.name().starts_with("s_buffer_")
}

fn load(op: Op) -> Option<(Handler, u32)> {
    Some(match op {
        Op::s_load_dword | Op::s_load_b32 | Op::s_scratch_load_dword => (access::load, 1),
        Op::s_load_dwordx2 | Op::s_load_b64 | Op::s_scratch_load_dwordx2 => (access::load, 2),
        Op::s_load_b96 => (access::load, 3),
        Op::s_load_dwordx4 | Op::s_load_b128 | Op::s_scratch_load_dwordx4 => (access::load, 4),
        Op::s_load_dwordx8 | Op::s_load_b256 => (access::load, 8),
        Op::s_load_dwordx16 | Op::s_load_b512 => (access::load, 16),
        Op::s_buffer_load_dword | Op::s_buffer_load_b32 => (access::buffer_load, 1),
        Op::s_buffer_load_dwordx2 | Op::s_buffer_load_b64 => (access::buffer_load, 2),
        Op::s_buffer_load_b96 => (access::buffer_load, 3),
        Op::s_buffer_load_dwordx4 | Op::s_buffer_load_b128 => (access::buffer_load, 4),
        Op::s_buffer_load_dwordx8 | Op::s_buffer_load_b256 => (access::buffer_load, 8),
        Op::s_buffer_load_dwordx16 | Op::s_buffer_load_b512 => (access::buffer_load, 16),
        Op::s_load_u8 => (|cx, r| access::load_small::<1>(cx, r, |x| x), 1),
        Op::s_load_i8 => (
            |cx, r| access::load_small::<1>(cx, r, |x| x as i8 as u32),
            1,
        ),
        Op::s_load_u16 => (|cx, r| access::load_small::<2>(cx, r, |x| x), 1),
        Op::s_load_i16 => (
            |cx, r| access::load_small::<2>(cx, r, |x| x as i16 as u32),
            1,
        ),
        Op::s_buffer_load_u8 => (|cx, r| access::buffer_load_small::<1>(cx, r, |x| x), 1),
        Op::s_buffer_load_i8 => (
            |cx, r| access::buffer_load_small::<1>(cx, r, |x| x as i8 as u32),
            1,
        ),
        Op::s_buffer_load_u16 => (|cx, r| access::buffer_load_small::<2>(cx, r, |x| x), 1),
        Op::s_buffer_load_i16 => (
            |cx, r| access::buffer_load_small::<2>(cx, r, |x| x as i16 as u32),
            1,
        ),
        _ => return None,
    })
}

fn store(op: Op) -> Option<(Handler, u32)> {
    Some(match op {
        Op::s_store_dword | Op::s_scratch_store_dword => (access::store, 1),
        Op::s_store_dwordx2 | Op::s_scratch_store_dwordx2 => (access::store, 2),
        Op::s_store_dwordx4 | Op::s_scratch_store_dwordx4 => (access::store, 4),
        Op::s_buffer_store_dword => (access::buffer_store, 1),
        Op::s_buffer_store_dwordx2 => (access::buffer_store, 2),
        Op::s_buffer_store_dwordx4 => (access::buffer_store, 4),
        _ => return None,
    })
}

/// A fault of a scalar access.
#[cold]
fn fault(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    access: &'static str,
    bytes: u32,
    address: u64,
    kind: crate::memory::FaultKind,
) -> Flow {
    let near = cx.unit.memory.near(address);
    cx.fault(
        record,
        crate::error::Cause::Memory {
            access,
            bytes,
            address,
            lane: None,
            kind,
            near,
        },
    )
}
