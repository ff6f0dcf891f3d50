//! Which registers an instruction reads and may write, from the same table that it was decoded with.

use std::fmt;

use crate::generated::names::{Format, Name};
use crate::image;
use crate::inst::{Inst, nsa_index};
use crate::operand::{Operand, Special};
use crate::table::{Implicit, Kind};

/// A set of registers that instructions name or use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegFile {
    /// Vector registers, 32 bits a lane.
    Vgpr,
    /// AccVGPRs of CDNA.
    Agpr,
    /// Scalar registers in the numbering of [`Operand::Sgpr`], with VCC (106), M0 (125) and EXEC (126).
    Sgpr,
    /// The scalar condition code.
    Scc,
    /// The MODE register.
    Mode,
    /// `flat_scratch`: 0 is the lower, 1 the upper half.
    FlatScratch,
    /// `xnack_mask`: 0 is the lower, 1 the upper half.
    XnackMask,
    /// The counter of asynchronous copies (gfx1250).
    AsyncCount,
    /// The counter of tensor copies (gfx1250).
    TensorCount,
}

/// Which part of each register of a range is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Half {
    /// All of it.
    Whole,
    /// The lower 16 bits.
    Low,
    /// The upper 16 bits.
    High,
}

/// Neighbouring registers of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegRange {
    /// The file.
    pub file: RegFile,
    /// The first register.
    pub first: u16,
    /// How many.
    pub count: u16,
    /// Which part of each.
    pub half: Half,
}

impl RegRange {
    fn whole(file: RegFile, first: u16, count: u32) -> RegRange {
        RegRange {
            file,
            first,
            count: count as u16,
            half: Half::Whole,
        }
    }

    /// Is this register of the file in the range?
    pub fn contains(&self, file: RegFile, register: u16) -> bool {
        self.file == file && register >= self.first && register - self.first < self.count
    }
}

impl fmt::Debug for RegRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = match self.half {
            Half::Whole => "",
            Half::Low => ".l",
            Half::High => ".h",
        };
        write!(
            f,
            "{:?}[{}..{}]{half}",
            self.file,
            self.first,
            self.first + self.count
        )
    }
}

/// Registers that an instruction reads and may write.
///
/// A vector register that is written keeps the lanes that EXEC excludes; it is not among the reads for that.
/// It is among them where the instruction keeps part of it for another reason: tied operands, DPP rows and
/// banks left out, SDWA's `UNUSED_PRESERVE`, the other half for 16-bit loads. Null is no register.
///
/// On gfx1250 VGPR numbers are those of the encoding: the upper bits of `s_set_vgpr_msb` come on top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Registers read.
    pub reads: Vec<RegRange>,
    /// Registers written, as far as EXEC and conditions allow.
    pub writes: Vec<RegRange>,
    /// The instruction reaches further registers through M0 (`movrel`), which stand in neither list.
    /// gfx9's VGPR index mode does the same to any vector instruction; only the MODE register tells.
    pub indirect: bool,
}

impl Effects {
    /// Does it read this register?
    pub fn reads(&self, file: RegFile, register: u16) -> bool {
        self.reads.iter().any(|r| r.contains(file, register))
    }

    /// May it write this register?
    pub fn writes(&self, file: RegFile, register: u16) -> bool {
        self.writes.iter().any(|r| r.contains(file, register))
    }
}

/// The range of an operand; `mask` is the size of a lane mask in registers.
fn range(operand: Operand, count: u32, mask: u32) -> Option<RegRange> {
    let fixed = |file, first| Some(RegRange::whole(file, first, 1));
    match operand {
        Operand::Vgpr(v) => Some(RegRange::whole(RegFile::Vgpr, v, count)),
        Operand::Vgpr16 { reg, high } => {
            let half = if high { Half::High } else { Half::Low };
            Some(RegRange {
                file: RegFile::Vgpr,
                first: reg,
                count: 1,
                half,
            })
        }
        Operand::Agpr(a) => Some(RegRange::whole(RegFile::Agpr, a, count)),
        Operand::Sgpr(124) => None,
        Operand::Sgpr(125) => fixed(RegFile::Sgpr, 125),
        Operand::Sgpr(s) => Some(RegRange::whole(RegFile::Sgpr, s.into(), count)),
        Operand::Special(s) => match s {
            Special::FlatScratchLo | Special::FlatScratchBaseLo => {
                Some(RegRange::whole(RegFile::FlatScratch, 0, count.min(2)))
            }
            Special::FlatScratchHi | Special::FlatScratchBaseHi => fixed(RegFile::FlatScratch, 1),
            Special::XnackMaskLo => Some(RegRange::whole(RegFile::XnackMask, 0, count.min(2))),
            Special::XnackMaskHi => fixed(RegFile::XnackMask, 1),
            Special::Scc => fixed(RegFile::Scc, 0),
            Special::Vccz => Some(RegRange::whole(RegFile::Sgpr, 106, mask)),
            Special::Execz => Some(RegRange::whole(RegFile::Sgpr, 126, mask)),
            Special::LdsDirect => fixed(RegFile::Sgpr, 125),
            Special::SharedBase
            | Special::SharedLimit
            | Special::PrivateBase
            | Special::PrivateLimit
            | Special::PopsExitingWaveId => None,
        },
        Operand::Const(_) | Operand::Literal(_) | Operand::Imm(_) | Operand::Off => None,
    }
}

fn implicit(i: Implicit, mask: u32) -> RegRange {
    match i {
        Implicit::Scc => RegRange::whole(RegFile::Scc, 0, 1),
        Implicit::Vcc => RegRange::whole(RegFile::Sgpr, 106, mask),
        Implicit::Exec => RegRange::whole(RegFile::Sgpr, 126, mask),
        Implicit::M0 => RegRange::whole(RegFile::Sgpr, 125, 1),
        Implicit::Mode => RegRange::whole(RegFile::Mode, 0, 1),
        Implicit::FlatScratch => RegRange::whole(RegFile::FlatScratch, 0, 2),
        Implicit::AsyncCount => RegRange::whole(RegFile::AsyncCount, 0, 1),
        Implicit::TensorCount => RegRange::whole(RegFile::TensorCount, 0, 1),
    }
}

impl Inst {
    /// Registers that it reads and may write in a wave of `wave` lanes (32 or 64).
    pub fn effects(&self, wave: u32) -> Effects {
        let row = self.row();
        let wave64 = wave == 64;
        let mask = if wave64 { 2 } else { 1 };
        let mut effects = Effects::default();
        for (i, o) in row.operands.iter().enumerate() {
            if o.ty.kind != Kind::Reg || self.unused(o.name) {
                continue;
            }
            let Some(r) = self
                .operand_at(i)
                .and_then(|op| range(op, self.registers(o, wave64), mask))
            else {
                continue;
            };
            if r.count == 0 {
                continue;
            }
            let list = if o.dst {
                &mut effects.writes
            } else {
                &mut effects.reads
            };
            push(list, r);
        }
        if self.keeps_part() {
            for i in 0..effects.writes.len() {
                let r = effects.writes[i];
                if matches!(r.file, RegFile::Vgpr | RegFile::Agpr) {
                    push(&mut effects.reads, r);
                }
            }
        }
        let name = row.op.name();
        // Scalar instructions reach as much of EXEC as their name says, whatever the wave.
        let exec = match name {
            n if n.ends_with("exec_b64") => 2,
            n if n.ends_with("exec_b32") => 1,
            _ => mask,
        };
        let range = |i| implicit(i, if i == Implicit::Exec { exec } else { mask });
        for i in row.implicit_reads() {
            push(&mut effects.reads, range(i));
        }
        for i in row.implicit_writes() {
            push(&mut effects.writes, range(i));
        }
        effects.indirect = name.contains("movrel") || name.contains("swaprel");
        effects
    }

    /// An operand that the instruction does not use, whatever its field holds.
    fn unused(&self, name: Name) -> bool {
        match (self.format(), name) {
            // DPP keeps the old value where a row or bank is left out or a source lane has no value.
            (_, Name::old) if self.field(Name::dpp_ctrl).is_some() => {
                let all = |n| self.field(n) == Some(15);
                all(Name::row_mask)
                    && all(Name::bank_mask)
                    && self.field(Name::bound_ctrl) == Some(1)
            }
            (Format::MIMG | Format::MIMG_NSA | Format::VIMAGE | Format::VSAMPLE, n) => {
                let index = if n == Name::vaddr0 {
                    Some(0)
                } else {
                    nsa_index(n)
                };
                match (index, image::shape(self)) {
                    (Some(i), Some(shape)) => image::address_registers(self, shape, i) == 0,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// SDWA with `UNUSED_PRESERVE` keeps the bits of the destination that it does not write.
    fn keeps_part(&self) -> bool {
        self.field(Name::dst_unused) == Some(2) && self.field(Name::dst_sel) != Some(6)
    }
}

/// Adds a range, unless it is there.
fn push(list: &mut Vec<RegRange>, r: RegRange) {
    if !list.contains(&r) {
        list.push(r);
    }
}
