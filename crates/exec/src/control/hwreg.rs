//! Hardware registers: `s_getreg`, `s_setreg`.
//!
//! Numbers: manuals, tables "Hardware register values" (CDNA3 19, RDNA3 3.4, RDNA4 3.4, CDNA5 3.4); those
//! that the manuals leave out, LLVM `SIDefines.h`. Exception flags (TRAPSTS.EXCP, EXCP_FLAG_USER) can be
//! written and read, but no instruction here raises them, and none traps because of MODE.EXCP_EN.

use rocjitsu_isa::{Format, Inst, Name, Op, Target};

use crate::barrier;
use crate::clock;
use crate::lower::Lowering;
use crate::record::{Class, Exactness, Flow, Handler, Operand, PRIVATE_BASE, Record, SHARED_BASE};
use crate::wave::{Cx, INDEXING, Waiting, Wave, mode};

/// What a register number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Mode,
    /// STATUS of gfx9 to gfx11, with SCC.
    Status,
    /// STATUS of gfx12.
    WaveStatus,
    StatePriv,
    HwId,
    HwId1,
    HwId2,
    LdsAlloc,
    /// Counters of outstanding instructions: all zero.
    Zero,
    ShMemBases,
    ScratchLo,
    ScratchHi,
    /// SHADER_CYCLES of gfx11: 20 bits.
    Cycles20,
    CyclesLo,
    CyclesHi,
    /// Kept in [`crate::wave::Wave::hwreg`]; programs can read it.
    Stored,
    /// As [`Register::Stored`]; programs can write it.
    Writable,
}

fn register(target: Target, number: u32) -> Option<Register> {
    use Register::*;
    let shared = match number {
        1 => Some(Mode),
        5 => Some(Stored),
        6 => Some(LdsAlloc),
        7 => Some(Zero),
        _ => None,
    };
    let own = match (target.generation(), number) {
        (9 | 11, 2) => Some(Status),
        (9 | 11, 3) => Some(Writable),
        (9 | 11, 15) => Some(ShMemBases),
        (9, 4) => Some(HwId),
        // TBA, TMA.
        (9, 16..=19) => Some(Stored),
        // XCC_ID; performance snapshots.
        (9, 20..=24) if target != Target::Gfx90a => Some(Stored),
        (11, 18 | 19 | 27) => Some(Stored),
        (11, 29) => Some(Cycles20),
        (11 | 12, 20) => Some(ScratchLo),
        (11 | 12, 21) => Some(ScratchHi),
        (11 | 12, 23) => Some(HwId1),
        (11 | 12, 24) => Some(HwId2),
        (12, 2) => Some(WaveStatus),
        (12, 4) => Some(StatePriv),
        // Performance snapshots, EXCP_FLAG_PRIV, TRAP_CTRL, IB_STS2, dynamic VGPRs.
        (12, 10..=12 | 15..=17 | 19 | 28 | 31 | 32) => Some(Stored),
        // EXCP_FLAG_USER, SCHED_MODE.
        (12, 18 | 26) => Some(Writable),
        (12, 29) => Some(CyclesLo),
        (12, 30) => Some(CyclesHi),
        // XNACK_STATE_PRIV, XNACK_MASK.
        (12, 33 | 34) if target == Target::Gfx1250 => Some(Stored),
        _ => None,
    };
    shared.or(own)
}

/// Lowers `s_getreg` and `s_setreg`. `imm` is the register's number, `imm2` says whether the VGPR banks of
/// gfx1250 come from the immediate; `mask` holds the offset and the mask of the field.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_getreg_b32 => get,
        Op::s_setreg_b32 | Op::s_setreg_imm32_b32 => set,
        _ => return None,
    };
    let field = inst.field(Name::simm16)?;
    let (number, offset, size) = (field & 0x3f, field >> 6 & 0x1f, (field >> 11 & 0x1f) + 1);
    let register = register(lowering.target, number)?;
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = inst.op() != Op::s_getreg_b32 && register == Register::Mode;
    record.dst = lowering.dest(inst, Name::sdst).unwrap_or_default();
    record.src[0] = match inst.format() {
        Format::SOPK_LIT => Operand::Const(u64::from(inst.field(Name::imm)?)),
        _ => lowering.source(inst, Name::sdst)?,
    };
    let mask = u32::MAX >> (32 - size);
    record.mask = Operand::Const(u64::from(mask) | u64::from(offset) << 32);
    record.imm = i64::from(number);
    let immediate = inst.format() == Format::SOPK_LIT && lowering.target == Target::Gfx1250;
    record.imm2 = i64::from(immediate);
    if inst.op() == Op::s_getreg_b32 {
        record.exactness = match register {
            Register::Cycles20 | Register::CyclesLo | Register::CyclesHi => {
                Exactness::Default(clock::NOT_THE_CHIPS)
            }
            Register::HwId | Register::HwId1 | Register::HwId2 => Exactness::Default(
                "where the wave runs, which follows from its workgroup here and is not predictable on chips",
            ),
            _ => Exactness::Exact,
        };
    }
    Some(record)
}

/// The register of a record, which [`lower`] put there.
fn register_of(cx: &Cx<'_, '_>, record: &Record) -> Register {
    register(cx.unit.target, record.imm as u32).unwrap_or(Register::Zero)
}

fn field_of(record: &Record) -> (u32, u32) {
    match record.mask {
        Operand::Const(k) => (k as u32, (k >> 32) as u32),
        _ => (0, 0),
    }
}

fn get(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (mask, offset) = field_of(record);
    let value = read(cx, register_of(cx, record), record.imm as usize);
    cx.set32(record.dst, value >> offset & mask);
    Flow::Next
}

fn set(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (mask, offset) = field_of(record);
    let (mask, value) = (mask << offset, cx.get32(record.src[0]) << offset);
    match register_of(cx, record) {
        Register::Mode => set_mode(cx, record, mask, value),
        Register::Writable => {
            let word = &mut cx.wave.hwreg[record.imm as usize & 63];
            *word = *word & !mask | value & mask;
            Flow::Next
        }
        // The manuals: writes to what the program may not write are ignored (HwRegWriteMask).
        _ => Flow::Next,
    }
}

/// Bits of MODE that exist, beside the VGPR banks of gfx1250.
fn mode_bits(target: Target) -> u32 {
    match target.generation() {
        12 => 0x0f80_00ff,
        11 => 0x08bf_ffff,
        _ => 0xfc8f_ffff,
    }
}

/// VGPR banks in MODE on gfx1250: 13:12 destination, 15:14, 17:16, 19:18 sources 0 to 2.
fn banks_to_mode(banks: u32) -> u32 {
    (banks >> 6 & 3) << 12 | (banks & 0x3f) << 14
}

fn banks_from_mode(mode: u32) -> u32 {
    (mode >> 12 & 3) << 6 | mode >> 14 & 0x3f
}

impl Wave {
    /// MODE as `s_getreg` reads it.
    pub fn mode_register(&self, target: Target) -> u32 {
        let value = self.mode & mode_bits(target);
        if target == Target::Gfx1250 {
            value | banks_to_mode(self.decode_state)
        } else {
            value
        }
    }

    /// Sets MODE and what follows from it: VGPR banks (gfx1250), indexing and skipping (gfx9).
    pub fn set_mode_register(&mut self, target: Target, value: u32) {
        let bits = mode_bits(target);
        self.mode = self.mode & !bits | value & bits;
        if target == Target::Gfx1250 {
            self.decode_state = self.decode_state & !0xff | banks_from_mode(value);
        }
        if target.is_cdna() {
            self.decode_state &= !INDEXING;
            if value & mode::GPR_IDX_EN != 0 {
                self.decode_state |= INDEXING;
            }
            self.set_vskip(value & mode::VSKIP != 0);
        }
    }
}

fn set_mode(cx: &mut Cx<'_, '_>, record: &Record, mask: u32, value: u32) -> Flow {
    let target = cx.unit.target;
    let new = cx.wave.mode_register(target) & !mask | value & mask;
    cx.wave.set_mode_register(target, new);
    if target == Target::Gfx1250 {
        // The hardware takes the banks from bits 19:12 of an immediate whatever the field's mask is, and
        // compilers rely on it (LLVM, AMDGPULowerVGPREncoding: "clobbers VGPR MSB bits[12:19]").
        let banks = if record.imm2 != 0 {
            cx.get32(record.src[0])
        } else {
            new
        };
        cx.wave.decode_state = cx.wave.decode_state & !0xff | banks_from_mode(banks);
    }
    Flow::Next
}

fn read(cx: &Cx<'_, '_>, register: Register, number: usize) -> u32 {
    let (wave, group) = (&*cx.wave, cx.group);
    let flag = |set: bool, bit: u32| u32::from(set) << bit;
    // EXECZ, VCCZ, IN_WG and VALID have the same places everywhere; a trap handler is always present.
    let common = 1 << 6
        | flag(wave.exec() == 0, 9)
        | flag(wave.vcc() == 0, 10)
        | flag(barrier::in_workgroup(group), 11)
        | 1 << 16;
    let scratch = wave.scratch_size != 0;
    match register {
        Register::Mode => cx.wave.mode_register(cx.unit.target),
        Register::Status => {
            let scratch = flag(scratch, if cx.unit.target.is_cdna() { 28 } else { 29 });
            common
                | u32::from(wave.scc)
                | scratch
                | flag(matches!(wave.waiting, Waiting::Barrier(_)), 12)
        }
        Register::WaveStatus => common | flag(wave.lanes == 64, 29),
        Register::StatePriv => {
            let named = usize::from(wave.named_barrier);
            flag(barrier::is_complete(wave, group, barrier::WORKGROUP), 2)
                | flag(named != 0 && barrier::is_complete(wave, group, named), 3)
                | (named as u32) << 4
                | flag(wave.scc, 9)
                | flag(scratch, 18)
        }
        // Where a wave runs is not predictable on hardware; here it follows from the workgroup's place in
        // the dispatch. gfx9 (`amd_device_functions.h` of HIP names the fields): wave 3:0, SIMD 5:4, CU 11:8,
        // shader engine 15:13, workgroup 19:16.
        Register::HwId => {
            let linear = group.linear as u32;
            (wave.index / 4)
                | (wave.index & 3) << 4
                | (linear & 7) << 8
                | ((linear >> 3) & 3) << 13
                | (linear & 0xf) << 16
        }
        // RDNA4 manual 3.4.9: wave 4:0, SIMD 9:8, WGP 13:10.
        Register::HwId1 => {
            (wave.index / 4) | (wave.index & 3) << 8 | (group.linear as u32 & 0xf) << 10
        }
        // RDNA4 manual 3.4.9: micro engine 9:8 (1 is compute), workgroup 20:16.
        Register::HwId2 => 1 << 8 | (group.linear as u32 & 0x1f) << 16,
        // CDNA3 manual table 22: bits 20:12 are the size in units of 64 words.
        Register::LdsAlloc => (group.lds.len() as u32).div_ceil(256) << 12,
        Register::Zero => 0,
        Register::ShMemBases => ((SHARED_BASE >> 48) as u32) << 16 | (PRIVATE_BASE >> 48) as u32,
        Register::ScratchLo => wave.scratch as u32,
        Register::ScratchHi => (wave.scratch >> 32) as u32,
        Register::Cycles20 => clock::cycles() as u32 & 0xf_ffff,
        Register::CyclesLo => clock::cycles() as u32,
        Register::CyclesHi => (clock::cycles() >> 32) as u32,
        Register::Stored | Register::Writable => wave.hwreg.get(number).copied().unwrap_or(0),
    }
}
