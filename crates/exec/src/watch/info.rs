//! What is known of an instruction before any wave executes it; made once for a block.

use rocjitsu_isa::{Half, Inst, Name, Op, Operand, RegFile};
use rocjitsu_observe::{Family, Instruction};

use super::access::Shape;
use crate::record::{Class, Record};

/// Neighbouring registers that an instruction touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The file.
    pub file: RegFile,
    /// The first register.
    pub first: u16,
    /// How many.
    pub count: u16,
    /// Bytes of each.
    pub bytes: u8,
}

/// Which lanes of a vector register an instruction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Those of EXEC.
    Exec,
    /// All.
    All,
    /// The one that the second source says (`v_writelane`).
    Selected,
    /// Groups of four of which EXEC has one (direct loads of LDS).
    Quads,
    /// Those of EXEC that DPP lets through.
    Dpp,
}

/// An instruction of a block.
pub struct Info {
    /// What plugins are told.
    pub instruction: Instruction,
    /// Registers read.
    pub reads: Box<[Use]>,
    /// Registers written.
    pub writes: Box<[Use]>,
    /// Lanes written.
    pub lanes: Lanes,
    /// It may move values of its first vector source between lanes.
    pub exchanges: bool,
    /// How it accesses memory.
    pub shape: Option<Shape>,
    /// A matrix instruction.
    pub is_matrix: bool,
    /// An instruction of a barrier.
    pub is_barrier: bool,
}

/// The infos of a block's records. `banks`: those of `s_set_vgpr_msb` at its start.
pub fn of_block(records: &[Record], lanes: u32, banks: u32) -> Box<[Info]> {
    let mut banks = banks;
    let info = |record: &Record| {
        let info = Info::new(record, lanes, banks);
        if record.inst.op() == Op::s_set_vgpr_msb {
            banks = record.inst.field(Name::simm16).unwrap_or(0) & 0xff;
        }
        info
    };
    records.iter().map(info).collect()
}

impl Info {
    fn new(record: &Record, wave: u32, banks: u32) -> Info {
        let inst = record.inst;
        let name = inst.op().name();
        let effects = inst.effects(wave);
        let uses = |ranges: &[rocjitsu_isa::RegRange]| -> Vec<Use> {
            let own = |r: &rocjitsu_isa::RegRange| Use {
                file: r.file,
                first: r.first,
                count: r.count,
                bytes: match r.half {
                    Half::Whole => 0xf,
                    Half::Low => 0x3,
                    Half::High => 0xc,
                },
            };
            ranges.iter().map(own).collect()
        };
        let (mut reads, mut writes) = (uses(&effects.reads), uses(&effects.writes));
        if banks != 0 {
            add_banks(&inst, &mut reads, false, banks);
            add_banks(&inst, &mut writes, true, banks);
        }
        let part = written_bytes(record);
        for range in writes.iter_mut().filter(|r| r.file == RegFile::Vgpr) {
            range.bytes &= part;
        }
        let shape = Shape::of(record);
        let is_matrix = record.class == Class::Matrix;
        let lanes = match inst.op() {
            _ if is_matrix || name.contains("_tr_b") || name.contains("_tr4_b") => Lanes::All,
            _ if name.contains("load_tr") => Lanes::All,
            Op::v_writelane_b32 => Lanes::Selected,
            Op::lds_direct_load | Op::ds_direct_load => Lanes::Quads,
            _ if record.valu.as_ref().is_some_and(|v| v.dpp.is_some()) => Lanes::Dpp,
            _ => Lanes::Exec,
        };
        Info {
            instruction: Instruction {
                inst,
                pc: record.pc,
                next_pc: record.next_pc,
                set: inst.target().execution_set(wave),
                family: family(record.class),
                exactness: record.exactness,
            },
            reads: reads.into(),
            writes: writes.into(),
            exchanges: lanes == Lanes::Dpp
                || ["v_permlane", "ds_permute", "ds_bpermute", "ds_swizzle"]
                    .iter()
                    .any(|part| name.starts_with(part)),
            lanes,
            shape,
            is_matrix,
            is_barrier: name.starts_with("s_barrier"),
        }
    }
}

/// The family of a class.
pub fn family(class: Class) -> Family {
    match class {
        Class::Salu => Family::Scalar,
        Class::Valu => Family::Vector,
        Class::Matrix => Family::Matrix,
        Class::Lds => Family::Lds,
        Class::Smem | Class::Vmem => Family::Global,
        Class::Control => Family::Control,
    }
}

/// The bytes of each VGPR that an instruction changes, where the table names whole registers.
fn written_bytes(record: &Record) -> u8 {
    if let Some(details) = &record.valu {
        if let Some(sdwa) = details.sdwa.filter(|s| s.selects_result()) {
            return match (sdwa.dst_unused, sdwa.dst_sel) {
                (2, sel @ 0..=3) => 1 << sel,
                (2, 4) => 0x3,
                (2, 5) => 0xc,
                _ => 0xf,
            };
        }
        return bytes_left(details.keep);
    }
    match super::access::loaded_half(record) {
        Some(high) => [0x3, 0xc][usize::from(high)],
        None => 0xf,
    }
}

/// The bytes that a mask of kept bits leaves.
fn bytes_left(keep: u32) -> u8 {
    (0..4).fold(0, |bytes, i| {
        bytes | u8::from(keep >> (8 * i) & 0xff == 0) << i
    })
}

/// Puts the banks of `s_set_vgpr_msb` on top of VGPR numbers, by the role of the operand that names them.
fn add_banks(inst: &Inst, uses: &mut [Use], dst: bool, banks: u32) {
    for range in uses.iter_mut().filter(|r| r.file == RegFile::Vgpr) {
        let named = inst.operands().find(|o| {
            o.is_dst == dst
                && matches!(o.operand, Operand::Vgpr(v) | Operand::Vgpr16 { reg: v, .. } if v == range.first)
        });
        let role = named.map_or(if dst { 3 } else { 0 }, |o| role(inst, o.name, o.is_dst));
        range.first += ((banks >> (2 * role) & 3) << 8) as u16;
    }
}

/// Which two bits of `s_set_vgpr_msb` an operand takes (see [`crate::vmem::role`]; sources of vector
/// instructions by their number).
fn role(inst: &Inst, name: Name, dst: bool) -> u32 {
    use crate::vmem::role;
    let buffer = inst.operand(Name::srsrc).is_some();
    match name {
        _ if dst => role::DST,
        Name::vdata if buffer => role::DST,
        Name::vdata | Name::data0 => role::DATA,
        Name::data1 => role::DATA1,
        other => match format!("{other:?}").trim_start_matches(|c: char| !c.is_ascii_digit()) {
            digits if digits.starts_with('1') => 1,
            digits if digits.starts_with('2') => 2,
            _ => 0,
        },
    }
}
