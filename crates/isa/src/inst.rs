//! A decoded instruction: its row and its bits, and views of its fields and operands.

use std::fmt;

use crate::generated::names::{Flag, Format, Name, Op};
use crate::image;
use crate::operand::{self, Operand};
use crate::table::{Fmt, Kind, OperandInfo, Reading, Row, Segments, Type, extract};
use crate::target::Target;

/// An instruction. Small enough to copy; refers to the table of its target.
#[derive(Clone, Copy)]
pub struct Inst {
    row: &'static Row,
    word: u128,
    tail: u128,
    tail_len: u8,
    wave64: bool,
}

/// An operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct OperandRef {
    /// Its name.
    pub name: Name,
    /// Written, not read.
    pub is_dst: bool,
    /// Width in bits. A lane mask has that of the wave: 64 on CDNA and in the wave64 sets, else 32; images
    /// and matrices of mixed formats have what their modifiers say.
    pub bits: u16,
    /// Its type.
    pub ty: &'static Type,
    /// What it is.
    pub operand: Operand,
}

impl Inst {
    pub(crate) fn new(
        row: &'static Row,
        word: u128,
        tail: u128,
        tail_len: u8,
        wave64: bool,
    ) -> Inst {
        let word = if row.bits >= 128 {
            word
        } else {
            word & ((1 << row.bits) - 1)
        };
        Inst {
            row,
            word,
            tail,
            tail_len,
            wave64,
        }
    }

    /// The table's row.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// The target it was decoded for.
    pub fn target(&self) -> Target {
        self.row.target
    }

    /// The operation; of a VOPD the first.
    pub fn op(&self) -> Op {
        self.row.op
    }

    /// The second operation of a VOPD.
    pub fn op_y(&self) -> Option<Op> {
        self.row.op_y
    }

    /// The encoding.
    pub fn format(&self) -> Format {
        self.row.format
    }

    /// Size in bytes, with literal and NSA addresses.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        usize::from(self.row.bits) / 8 + usize::from(self.tail_len)
    }

    /// The encoding's bits without a trailing literal.
    pub fn word(&self) -> u128 {
        self.word
    }

    /// The literal as it stands in the code, 32 or 64 bits.
    pub fn literal(&self) -> Option<u64> {
        if let Some(s) = self.row.fixed_literal {
            return Some(extract(self.word, s));
        }
        (self.tail_len > 0 && self.row.format != Format::MIMG_NSA).then_some(self.tail as u64)
    }

    /// The bits of a field, or of the field that the operand is tied to.
    ///
    /// `srcN_modifiers` hold neg (or sext, whatever its bit in the table) in bit 0, abs (or neg_hi) in bit 1, op_sel in bit 2 and
    /// op_sel_hi (of `src0_modifiers` in VOP3: op_sel of the destination) in bit 3. `op_sel`, `op_sel_hi`,
    /// `neg_lo` and `neg_hi` are collected from them where the encoding has no such field: bit N for
    /// source N, and bit 3 of `op_sel` for the destination. `None` where the row has no such operand;
    /// 0 for an operand that the encoding gives no bits to.
    pub fn field(&self, name: Name) -> Option<u32> {
        if let Some(s) = self.row.layout.segments(name) {
            let v = extract(self.word, s) as u32;
            return Some(match name {
                // Returning atomics fix the bit that asks for the old value (glc, sc0, TH_ATOMIC_RETURN).
                Name::cpol if self.fixes_return() => v | 1,
                _ if self
                    .row
                    .operand(name)
                    .is_some_and(|o| o.ty.kind == Kind::IntMods) =>
                {
                    v & 0xc | v >> 4 & 1
                }
                _ => v,
            });
        }
        let i = self.row.operands.iter().position(|o| o.name == name)?;
        if let Some(p) = self.row.places().get(i)?.partner {
            return self.field(self.row.operands.get(p)?.name);
        }
        if let (Some(n), Format::MIMG_NSA) = (nsa_index(name), self.row.format) {
            return Some((self.tail >> (8 * (n - 1)) & 0xff) as u32);
        }
        let mods = |bit: u32| {
            [
                Name::src0_modifiers,
                Name::src1_modifiers,
                Name::src2_modifiers,
            ]
            .iter()
            .enumerate()
            .map(|(i, &n)| (self.modifiers(n) >> bit & 1) << i)
            .sum::<u32>()
        };
        Some(match name {
            Name::op_sel if self.is_packed() => mods(2),
            Name::op_sel => mods(2) | (self.modifiers(Name::src0_modifiers) >> 3 & 1) << 3,
            Name::op_sel_hi => mods(3),
            Name::neg_lo => mods(0),
            Name::neg_hi => mods(1),
            Name::a16 => u32::from(self.row.record.contains("_a16_")),
            Name::cpol => u32::from(self.fixes_return()),
            Name::immX => self.literal().unwrap_or(0) as u32,
            _ => 0,
        })
    }

    /// One bit of the modifiers of each source: bit N for source N.
    pub(crate) fn collect(&self, bit: u32) -> u32 {
        [
            Name::src0_modifiers,
            Name::src1_modifiers,
            Name::src2_modifiers,
        ]
        .iter()
        .enumerate()
        .map(|(i, &n)| (self.modifiers(n) >> bit & 1) << i)
        .sum()
    }

    /// Atomics whose row says that they return have no field for that, but for images.
    fn fixes_return(&self) -> bool {
        self.row.has_flag(Flag::IsAtomicRet)
            && !matches!(
                self.row.format,
                Format::MIMG | Format::MIMG_NSA | Format::VIMAGE
            )
    }

    fn modifiers(&self, name: Name) -> u32 {
        self.row
            .layout
            .segments(name)
            .map_or(0, |s| extract(self.word, s) as u32)
    }

    fn is_packed(&self) -> bool {
        self.row.operands.iter().any(|o| o.name == Name::op_sel_hi)
    }

    /// A field read as a signed number of the field's width.
    pub fn signed_field(&self, name: Name) -> Option<i32> {
        let segments = self.row.layout.segments(name)?;
        let width = width(segments);
        let shift = 32u32.checked_sub(width)?;
        Some(((extract(self.word, segments) as u32) << shift) as i32 >> shift)
    }

    /// The operand of that name, decoded.
    pub fn operand(&self, name: Name) -> Option<Operand> {
        self.operand_at(self.row.operands.iter().position(|o| o.name == name)?)
    }

    /// Operands (modifiers left out) in the order of the table, destinations first.
    pub fn operands(&self) -> impl Iterator<Item = OperandRef> {
        let inst = *self;
        self.row
            .operands
            .iter()
            .enumerate()
            .filter_map(move |(i, o)| {
                let operand = match o.ty.kind {
                    Kind::Reg | Kind::Imm => inst.operand_at(i)?,
                    _ => return None,
                };
                Some(OperandRef {
                    name: o.name,
                    is_dst: o.dst,
                    bits: inst.width(o),
                    ty: o.ty,
                    operand,
                })
            })
    }

    fn width(&self, o: &OperandInfo) -> u16 {
        let count = self.registers(o, self.wave64);
        let own = u32::from(o.ty.bits).div_ceil(32);
        if o.ty.kind != Kind::Reg || count == own {
            o.ty.bits
        } else {
            (count * 32) as u16
        }
    }

    /// Width in bits of the operand of that name, as [`OperandRef::bits`] has it.
    pub fn bits(&self, name: Name) -> Option<u16> {
        self.row.operand(name).map(|o| self.width(o))
    }

    /// 32-bit registers of an operand: those of the row; one or two for a lane mask; for images
    /// and matrices of mixed formats what their modifiers say.
    pub(crate) fn registers(&self, o: &OperandInfo, wave64: bool) -> u32 {
        let own = u32::from(o.ty.bits).div_ceil(32);
        if matches!(o.ty.reading, Reading::Mask | Reading::SdwaMask)
            || matches!(o.ty.class, "SReg_1" | "SReg_1_XEXEC")
        {
            return 1 + u32::from(wave64);
        }
        if let Some(shape) = image::shape(self) {
            return match o.name {
                Name::vdata | Name::vdst => shape.data,
                Name::vaddr0 => image::address_registers(self, shape, 0),
                name => nsa_index(name).map_or(own, |i| image::address_registers(self, shape, i)),
            };
        }
        self.matrix_registers(o.name).unwrap_or(own)
    }

    /// Registers of A and B of the f8f6f4 matrix instructions: 256 bits of FP8 or BF8, 192 of FP6 or BF6,
    /// 128 of FP4 on gfx950; twice that on gfx1250. `None` for other instructions.
    fn matrix_registers(&self, name: Name) -> Option<u32> {
        let kind = match name {
            Name::src0 => self
                .row
                .operand(Name::matrix_a_fmt)
                .map_or(Name::cbsz, |_| Name::matrix_a_fmt),
            Name::src1 => self
                .row
                .operand(Name::matrix_b_fmt)
                .map_or(Name::blgp, |_| Name::matrix_b_fmt),
            _ => return None,
        };
        if !self.row.op.name().ends_with("_f8f6f4") {
            return None;
        }
        let unit = if self.row.target == Target::Gfx950 {
            1
        } else {
            2
        };
        // Codes without a format read like the widest.
        Some(
            unit * [8, 8, 6, 6, 4]
                .get(self.field(kind)? as usize)
                .unwrap_or(&8),
        )
    }

    /// How a constant is read: as the type says, but in mix instructions as binary32 where `op_sel_hi` does
    /// not ask for 16 bits.
    fn constant_format(&self, o: &OperandInfo) -> Option<Fmt> {
        let modifiers = match o.name {
            _ if !self.row.mix => return o.ty.fmt,
            Name::src0 => Name::src0_modifiers,
            Name::src1 => Name::src1_modifiers,
            _ => Name::src2_modifiers,
        };
        match o.ty.fmt {
            Some(Fmt::Fp16) if self.modifiers(modifiers) & 8 != 0 => o.ty.fmt,
            _ => Some(Fmt::Fp32),
        }
    }

    /// Is the source of an export enabled? Compressed exports use the first two sources for two places each.
    fn exports(&self, name: Name) -> bool {
        let en = self.field(Name::en).unwrap_or(0);
        let compressed = self.field(Name::compr) == Some(1);
        let places = match (name, compressed) {
            (Name::src0, false) => 1,
            (Name::src1, false) => 2,
            (Name::src2, false) => 4,
            (Name::src3, false) => 8,
            (Name::src0, true) => 3,
            (Name::src1, true) => 12,
            _ => 0,
        };
        en & places != 0
    }

    pub(crate) fn operand_at(&self, i: usize) -> Option<Operand> {
        let o: &OperandInfo = self.row.operands.get(i)?;
        let place = self.row.places().get(i)?;
        if let Some(p) = place.partner {
            return self.operand_at(p);
        }
        if let Some(Fmt::Kimm16 | Fmt::Kimm32 | Fmt::Kimm64) = o.ty.fmt {
            return Some(Operand::Literal(self.literal()?));
        }
        if self.row.format == Format::EXP && o.ty.kind == Kind::Reg && !self.exports(o.name) {
            return Some(Operand::Off);
        }
        let raw = match place.field {
            Some(s) => extract(self.word, s) as u32,
            None => self.field(o.name)?,
        };
        if o.ty.kind != Kind::Reg {
            return Some(Operand::Imm(raw));
        }
        let half = place
            .half
            .is_some_and(|(s, bit)| extract(self.word, s) >> bit & 1 == 1);
        let partner = if o.ty.reading == Reading::VopdY {
            self.field(Name::vdstX).unwrap_or(0)
        } else {
            0
        };
        let fmt = self.constant_format(o);
        let operand = operand::read(
            self.row.target,
            o.ty,
            fmt,
            raw,
            self.literal(),
            half,
            partner,
        )?;
        // LLVM writes to sources such as `src_vccz`, which a chip does not; constants name nothing to write.
        (!o.dst || !matches!(operand, Operand::Const(_) | Operand::Literal(_))).then_some(operand)
    }
}

/// Width of the value that segments make.
fn width(segments: Segments) -> u32 {
    segments
        .iter()
        .map(|&(_, w, at)| u32::from(w + at))
        .max()
        .unwrap_or(0)
}

/// N of `vaddrN`, from 1.
pub(crate) fn nsa_index(name: Name) -> Option<u32> {
    Some(match name {
        Name::vaddr1 => 1,
        Name::vaddr2 => 2,
        Name::vaddr3 => 3,
        Name::vaddr4 => 4,
        Name::vaddr5 => 5,
        Name::vaddr6 => 6,
        Name::vaddr7 => 7,
        Name::vaddr8 => 8,
        Name::vaddr9 => 9,
        Name::vaddr10 => 10,
        Name::vaddr11 => 11,
        _ => return None,
    })
}

impl fmt::Debug for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Inst({} {} {:x}",
            self.row.target, self.row.record, self.word
        )?;
        if self.tail_len > 0 {
            write!(f, " {:x}", self.tail)?;
        }
        f.write_str(")")
    }
}
