//! Rows of the instruction tables and what they share.
//! `data/isa/README.md` explains the source of every column.

use std::fmt;
use std::sync::OnceLock;

use crate::generated::names::{Flag, Format, Name, Op};
use crate::generated::{self, NONE, Raw, shared};
use crate::index::Index;
use crate::target::{FeatureSet, Target};

/// How the bits of an inline constant are read (LLVM's operand type).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fmt {
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    V2int16,
    V2fp16,
    V2fp16Splat,
    V2bf16,
    V2int32,
    V2fp32,
    /// A literal that is always there, 16 of its bits used.
    Kimm16,
    /// A literal that is always there.
    Kimm32,
    /// A 64-bit literal that is always there.
    Kimm64,
}

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A register, or a source that may be a constant.
    Reg,
    /// A number in the encoding.
    Imm,
    /// Modifiers of a floating-point source: neg, abs (and op_sel bits).
    FloatMods,
    /// Modifiers of an integer source: sext.
    IntMods,
    /// Modifiers of a packed source: neg_lo, neg_hi, op_sel, op_sel_hi.
    PackedMods,
}

/// How the field of a register operand is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    /// No register.
    Plain,
    /// 7 bits: SGPR, VCC, TTMP, M0, null, EXEC; 8 bits also constants.
    Scalar,
    Vgpr,
    Agpr,
    /// Bit 9 says AccVGPR.
    VgprOrAgpr,
    /// 9 bits: scalar, constant, or VGPR from 256.
    Source,
    /// 9 bits: scalar, constant, or AccVGPR from 256.
    SourceAgpr,
    /// 9 bits and bit 9, which says AccVGPR.
    SourceVgprOrAgpr,
    /// 9 bits; the half is bit 2 of the modifiers.
    Source16,
    /// 9 bits; bit 7 of a VGPR's number is the half.
    Source16Low,
    /// 8 bits; the half is in the modifiers.
    Vgpr16,
    /// 7 bits and the half in bit 7.
    Vgpr16Low,
    /// An SGPR that holds a lane mask of the wave's size.
    Mask,
    /// SDWA: 8 bits of a VGPR, or with bit 8 a scalar or constant.
    Sdwa,
    /// SDWA compare: bit 7 and an SGPR, or VCC.
    SdwaMask,
    /// The second VGPR of a VOPD: its lowest bit is the other than that of the first one.
    VopdY,
}

/// How a value is printed; the names are those of LLVM's printers.
#[allow(clippy::upper_case_acronyms)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Print {
    Plain,
    Bit,
    Word,
    BranchTarget,
    BitOp3,
    BLGP,
    CPol,
    DPP8,
    DPPCtrl,
    DepCtr,
    Dim,
    DppBoundCtrl,
    DppFI,
    Endpgm,
    ExpTgt,
    FORMAT,
    FP64ImmOperand,
    FlatOffset,
    GPRIdxMode,
    Hwreg,
    IndexKey16bit,
    IndexKey32bit,
    IndexKey8bit,
    InterpAttr,
    InterpAttrChan,
    InterpSlot,
    MatrixAFMT,
    MatrixAScale,
    MatrixAScaleFmt,
    MatrixBFMT,
    MatrixBScale,
    MatrixBScaleFmt,
    NegHi,
    NegLo,
    OModSI,
    Offset,
    OpSel,
    OpSelHi,
    R128A16,
    SDWADstSel,
    SDWADstUnused,
    SDWASrc0Sel,
    SDWASrc1Sel,
    SDelayALU,
    SMEMOffset,
    SWaitCnt,
    SendMsg,
    Swizzle,
    U16ImmOperand,
    U32ImmOperand,
    Version,
}

/// Type of an operand.
#[derive(Debug)]
pub struct Type {
    /// What it is.
    pub kind: Kind,
    pub(crate) reading: Reading,
    pub(crate) print: Print,
    /// How inline constants and literals are read; `None` where it takes none.
    pub fmt: Option<Fmt>,
    /// Width in bits.
    pub bits: u16,
    /// Registers must be multiples of this.
    pub align: u8,
    /// Takes scalar registers.
    pub scalar: bool,
    /// Takes inline constants.
    pub inline: bool,
    /// Takes a literal.
    pub literal: bool,
    /// LLVM's register class, or empty.
    pub class: &'static str,
    pub(crate) word: &'static str,
}

/// An operand of a row.
#[derive(Clone, Copy, Debug)]
pub struct OperandInfo {
    /// Its name.
    pub name: Name,
    /// Written, not read.
    pub dst: bool,
    /// Its type.
    pub ty: &'static Type,
}

/// Runs of bits: lowest bit in the word, width, lowest bit of the value.
pub(crate) type Segments = &'static [(u8, u8, u8)];

/// Where the fields of an encoding lie.
#[derive(Debug)]
pub struct Layout {
    /// Bits that are neither fixed nor in a field.
    pub free: u128,
    pub(crate) fields: &'static [(Name, Segments)],
}

impl Layout {
    /// Names of the fields.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        self.fields.iter().map(|f| f.0)
    }

    pub(crate) fn segments(&self, name: Name) -> Option<Segments> {
        self.fields.iter().find(|f| f.0 == name).map(|f| f.1)
    }
}

/// One item of a print program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrintItem {
    Op(Name),
    Word(&'static str),
    Comma,
    Space,
    Open,
    Close,
    Half,
}

/// What many rows have in common.
#[derive(Debug)]
pub(crate) struct Attr {
    pub(crate) format: Format,
    pub(crate) bits: u16,
    pub(crate) mask: u128,
    pub(crate) prefix: Option<u16>,
    pub(crate) tied: &'static [(Name, Name)],
    pub(crate) defs: u8,
    pub(crate) uses: u8,
    pub(crate) flags: u64,
    pub(crate) prio: u8,
    pub(crate) fill: u128,
    pub(crate) need: &'static [(Name, &'static [u32])],
    pub(crate) sets: u8,
    pub(crate) alternate: bool,
}

/// A register that instructions read or write without naming it.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Implicit {
    Scc,
    Vcc,
    Exec,
    M0,
    Mode,
    FlatScratch,
    AsyncCount,
    TensorCount,
}

impl Implicit {
    /// Every one, in the order of the table's bits.
    pub const ALL: [Implicit; 8] = [
        Implicit::Scc,
        Implicit::Vcc,
        Implicit::Exec,
        Implicit::M0,
        Implicit::Mode,
        Implicit::FlatScratch,
        Implicit::AsyncCount,
        Implicit::TensorCount,
    ];
}

/// One form of one instruction.
pub struct Row {
    /// The target whose table it is in.
    pub target: Target,
    /// LLVM's record name, unique in the table.
    pub record: &'static str,
    /// The mnemonic as printed, encoding suffix included; both halves of a VOPD.
    pub mnemonic: &'static str,
    /// The operation; of a VOPD the first.
    pub op: Op,
    /// The second operation of a VOPD.
    pub op_y: Option<Op>,
    /// The encoding.
    pub format: Format,
    /// The opcode; of a VOPD both, the first in the upper bits; of a VOP3PX that of the second half.
    pub opcode: u16,
    /// VOP3PX: opcode of the first half.
    pub prefix_opcode: Option<u16>,
    /// Size in bits without a trailing literal or NSA addresses.
    pub bits: u16,
    /// The fixed bits.
    pub mask: u128,
    /// Their value.
    pub value: u128,
    /// Bits outside mask and fields that an assembler sets all the same.
    pub fill: u128,
    /// Where the fields are.
    pub layout: &'static Layout,
    /// The operands, destinations first.
    pub operands: &'static [OperandInfo],
    /// Pairs of operands that are the same register.
    pub tied: &'static [(Name, Name)],
    /// LLVM decodes this form and never makes it.
    pub alternate: bool,
    pub(crate) print: &'static [PrintItem],
    pub(crate) need: &'static [(Name, &'static [u32])],
    /// Made when an instruction of the row is decoded: most rows of a table never are.
    places: OnceLock<Box<[Place]>>,
    pub(crate) fixed_literal: Option<Segments>,
    pub(crate) mix: bool,
    pub(crate) dpp16: bool,
    defs: u8,
    uses: u8,
    flags: u64,
    pub(crate) prio: u8,
    sets: u8,
}

/// Where the bits of an operand are: in its own field, or with the operand (by its index) that it is tied to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) field: Option<Segments>,
    pub(crate) partner: Option<usize>,
    /// Modifiers and the bit of them that says which half of a VGPR is meant.
    pub(crate) half: Option<(Segments, u8)>,
}

impl Place {
    fn find(
        o: &OperandInfo,
        operands: &'static [OperandInfo],
        layout: &'static Layout,
        tied: &[(Name, Name)],
    ) -> Place {
        let own = layout.segments(o.name);
        // Some rows do not say that the old value of the destination is in the destination.
        let old = match o.name {
            Name::old | Name::vdst_in => Some(Name::vdst),
            Name::sdst_in => Some(Name::sdst),
            _ => None,
        };
        let partner = tied
            .iter()
            .filter_map(|&(a, b)| {
                if a == o.name {
                    Some(b)
                } else {
                    (b == o.name).then_some(a)
                }
            })
            .chain(old)
            .filter(|&n| own.is_none() && layout.segments(n).is_some())
            .find_map(|n| operands.iter().position(|o| o.name == n));
        let half = match o.ty.reading {
            Reading::Source16 | Reading::Vgpr16 => {
                let (mods, bit) = match o.name {
                    Name::src0 => (Name::src0_modifiers, 2),
                    Name::src1 => (Name::src1_modifiers, 2),
                    Name::src2 => (Name::src2_modifiers, 2),
                    _ => (Name::src0_modifiers, 3),
                };
                layout.segments(mods).map(|s| (s, bit))
            }
            _ => None,
        };
        Place {
            field: own,
            partner,
            half,
        }
    }
}

impl Row {
    fn new(target: Target, r: &'static Raw) -> Row {
        let a = &shared::ATTRS[r.attributes as usize];
        let layout = &shared::LAYOUTS[r.layout as usize];
        let mnemonic = r.mnemonic.as_str();
        let operands = shared::OPERANDS[r.operands as usize];
        let fixed_literal = operands
            .iter()
            .filter(|o| matches!(o.ty.fmt, Some(Fmt::Kimm16 | Fmt::Kimm32 | Fmt::Kimm64)))
            .find_map(|o| layout.segments(o.name));
        Row {
            places: OnceLock::new(),
            fixed_literal,
            mix: mnemonic.contains("_mix"),
            dpp16: layout.segments(Name::dpp_ctrl).is_some(),
            target,
            record: r.record.as_str(),
            mnemonic,
            op: Op::ALL[r.op as usize],
            op_y: (r.op_y != NONE).then(|| Op::ALL[r.op_y as usize]),
            format: a.format,
            opcode: r.opcode,
            prefix_opcode: a.prefix,
            bits: a.bits,
            mask: a.mask,
            value: r.value,
            fill: a.fill,
            layout,
            operands,
            tied: a.tied,
            alternate: a.alternate,
            print: shared::PRINTS[r.print as usize],
            need: a.need,
            defs: a.defs,
            uses: a.uses,
            flags: a.flags,
            prio: a.prio,
            sets: a.sets,
        }
    }

    /// Where the bits of the operands are, in their order.
    pub(crate) fn places(&self) -> &[Place] {
        let find = |o| Place::find(o, self.operands, self.layout, self.tied);
        self.places
            .get_or_init(|| self.operands.iter().map(find).collect())
    }

    /// Does the instruction have this property?
    pub fn has_flag(&self, flag: Flag) -> bool {
        self.flags >> flag as u8 & 1 == 1
    }

    /// Registers that it writes besides its operands.
    pub fn implicit_writes(&self) -> impl Iterator<Item = Implicit> {
        let bits = self.defs;
        Implicit::ALL
            .into_iter()
            .filter(move |&i| bits >> i as u8 & 1 == 1)
    }

    /// Registers that it reads besides its operands.
    pub fn implicit_reads(&self) -> impl Iterator<Item = Implicit> {
        let bits = self.uses;
        Implicit::ALL
            .into_iter()
            .filter(move |&i| bits >> i as u8 & 1 == 1)
    }

    /// The operand of that name.
    pub fn operand(&self, name: Name) -> Option<&'static OperandInfo> {
        self.operands.iter().find(|o| o.name == name)
    }

    /// Is the row part of this feature set?
    pub fn in_set(&self, set: FeatureSet) -> bool {
        match self.target.known_set(set) {
            // A row of one set only is for what is new there; one of the default set and `true16` is for wave32.
            FeatureSet::True16Wave64 => matches!(self.sets, 2 | 4 | 7),
            set => self.sets >> set as u8 & 1 == 1,
        }
    }

    /// The decoding rule among rows that fit, the lowest first: most bits, lowest priority number, most fixed bits.
    pub(crate) fn rank(&self) -> (u16, u8, u32) {
        (
            u16::MAX - self.bits,
            self.prio,
            128 - self.mask.count_ones(),
        )
    }

    fn fits(&self, word: u128) -> bool {
        word & self.mask == self.value
            && self.need.iter().all(|(n, values)| {
                self.layout
                    .segments(*n)
                    .is_some_and(|s| values.contains(&(extract(word, s) as u32)))
            })
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} {} {})", self.target, self.record, self.mnemonic)
    }
}

/// The bits of a field.
pub(crate) fn extract(word: u128, segments: Segments) -> u64 {
    segments.iter().fold(0, |v, &(low, width, at)| {
        v | ((word >> low) as u64 & (u64::MAX >> (64 - width))) << at
    })
}

/// For each row the bits of those VGPR fields of its format that it does not have, but holds at zero.
fn unused_vgprs(rows: &[Row]) -> Vec<u128> {
    const VGPR_BITS: u8 = 8;
    // Formats of which an instruction uses some VGPR fields and leaves the others.
    let has_optional = |f: Format| {
        use Format as F;
        matches!(
            f,
            F::DS
                | F::FLAT
                | F::GLOBAL
                | F::SCRATCH
                | F::MUBUF
                | F::MTBUF
                | F::VBUFFER
                | F::VFLAT
                | F::VGLOBAL
                | F::VSCRATCH
                | F::VOPD
        )
    };
    let mut fields: Vec<(Format, u128)> = Vec::new();
    for r in rows.iter().filter(|r| has_optional(r.format)) {
        for o in r.operands.iter().filter(|o| o.ty.kind == Kind::Reg) {
            for &(low, width, _) in r.layout.segments(o.name).unwrap_or(&[]) {
                let bits = ((1 << VGPR_BITS) - 1) << low;
                if width == VGPR_BITS && !fields.contains(&(r.format, bits)) {
                    fields.push((r.format, bits));
                }
            }
        }
    }
    rows.iter()
        .map(|r| {
            fields
                .iter()
                .filter(|(f, bits)| *f == r.format && r.mask & bits == *bits && r.value & bits == 0)
                .fold(0, |all, (_, bits)| all | bits)
        })
        .collect()
}

/// The instruction table of one target.
pub struct Table {
    rows: Vec<Row>,
    /// One for each feature set.
    indices: [OnceLock<Index>; FeatureSet::ALL.len()],
    /// For each row the bits of VGPR fields that it does not use, see [`Table::find_with_unused_fields`].
    unused: OnceLock<Vec<u128>>,
}

impl Table {
    pub(crate) fn build(target: Target) -> Table {
        let raw: &'static [Raw] = match target {
            Target::Gfx908 => &generated::gfx908::ROWS,
            Target::Gfx90a => &generated::gfx90a::ROWS,
            Target::Gfx942 => &generated::gfx942::ROWS,
            Target::Gfx950 => &generated::gfx950::ROWS,
            Target::Gfx1030 => &generated::gfx1030::ROWS,
            Target::Gfx1100 => &generated::gfx1100::ROWS,
            Target::Gfx1151 => &generated::gfx1151::ROWS,
            Target::Gfx1201 => &generated::gfx1201::ROWS,
            Target::Gfx1250 => &generated::gfx1250::ROWS,
        };
        let rows: Vec<Row> = raw.iter().map(|r| Row::new(target, r)).collect();
        let indices = FeatureSet::ALL.map(|_| OnceLock::new());
        Table {
            rows,
            indices,
            unused: OnceLock::new(),
        }
    }

    /// Every row.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Rows that `word` may belong to, in the order of the decoding rule.
    fn candidates(&self, set: FeatureSet, word: u128) -> impl Iterator<Item = &Row> {
        let index = self.indices[set as usize].get_or_init(|| Index::new(&self.rows, set));
        index
            .candidates(&self.rows, word as u32)
            .iter()
            .map(|&i| &self.rows[i as usize])
    }

    /// The row of the instruction that begins with `word`, the longest if several fit.
    pub(crate) fn find(&self, set: FeatureSet, word: u128) -> Option<&Row> {
        self.candidates(set, word).find(|r| r.fits(word))
    }

    /// The row of an instruction whose encoding names VGPRs in fields that this instruction does not use: the
    /// destination of an atomic that returns nothing, the second source of a dual move. LLVM fixes those fields at
    /// zero, the hardware does not look at them. For words that [`Table::find`] has no row for.
    pub(crate) fn find_with_unused_fields(&self, set: FeatureSet, word: u128) -> Option<&Row> {
        let unused = self.unused.get_or_init(|| unused_vgprs(&self.rows));
        self.rows
            .iter()
            .zip(unused)
            .filter(|(r, unused)| **unused != 0 && r.in_set(set) && r.fits(word & !**unused))
            .map(|(r, _)| r)
            .min_by_key(|r| r.rank())
    }

    /// The shortest row that the first `size` bytes begin, but do not end.
    pub(crate) fn begins(&self, set: FeatureSet, word: u128, size: usize) -> Option<&Row> {
        let known = u128::MAX
            .checked_shr(128 - 8 * size.min(16) as u32)
            .unwrap_or(0);
        self.candidates(set, word)
            .filter(|r| usize::from(r.bits) > size * 8 && (word ^ r.value) & r.mask & known == 0)
            .min_by_key(|r| r.bits)
    }
}

impl Op {
    /// The mnemonic without encoding suffix.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The operation of that mnemonic (without encoding suffix).
    pub fn from_name(name: &str) -> Option<Op> {
        Self::NAMES.binary_search(&name).ok().map(|i| Self::ALL[i])
    }
}

macro_rules! named {
    ($($ty:ident),*) => {$(
        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::NAMES[*self as usize])
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::NAMES[*self as usize])
            }
        }
    )*};
}

named!(Op, Format, Name, Flag);
