//! What an instruction is to the rules of wait states: its classes, the registers by the part that they play, how
//! many wait states it makes, and how many passes its matrix product takes.

use rocjitsu_isa::{
    Flag, Format, Inst, Name, Op, Operand, OperandRef, RegFile, RegRange, Special, Target,
};

use crate::counters::{copies_lds, is_vector_memory};

/// A set of classes. An instruction is of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class(u64);

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Class {
            $($(#[$doc])* pub const $name: Class = Class(1 << $bit);)*
        }
    };
}

classes! {
    /// Vector arithmetic, matrix products included.
    VALU = 0;
    /// Vector arithmetic that is no matrix product.
    PLAIN = 1;
    /// `V_MFMA` and `V_SMFMAC`.
    MFMA = 2;
    /// Matrix products of the XDL unit; on gfx90a all but those of f64.
    XDL = 3;
    /// Matrix products of f32 that are none of XDL (gfx942, gfx950).
    SGEMM = 4;
    /// `V_MFMA_F64_4X4X4`.
    DGEMM_4 = 5;
    /// `V_MFMA_F64_16X16X4`.
    DGEMM_16 = 6;
    /// Dot products.
    DOT = 7;
    /// Transcendental functions.
    TRANS = 8;
    /// Vector memory, flat included.
    VMEM = 9;
    /// LDS.
    DS = 10;
    /// Exports.
    EXPORT = 11;
    /// Scalar arithmetic and control.
    SALU = 12;
    /// Vector arithmetic with DPP.
    DPP = 13;
    /// `V_DIV_FMAS`.
    DIV_FMAS = 14;
    /// `V_READLANE`, `V_READFIRSTLANE`.
    READ_LANE = 15;
    /// Those and `V_WRITELANE`.
    ANY_LANE = 16;
    /// `V_FMA_F64`, `V_FMAC_F64`.
    FMA_F64 = 17;
    /// Moves its result within the register: SDWA or OPSEL for the destination.
    SHIFTS_RESULT = 18;
    /// Stores more than 64 bits a lane from VGPRs, without an SGPR as offset of a buffer.
    WIDE_STORE = 19;
    /// `S_SETREG`.
    SETREG = 20;
    /// `S_GETREG`.
    GETREG = 21;
    /// Reads M0 where hardware does not wait for it.
    READS_M0 = 22;
    /// `V_PERMLANE*`.
    PERMLANE = 23;
    /// `V_CMPX*`.
    CMPX = 24;
    /// `V_WMMA` and `V_SWMMAC`.
    WMMA = 25;
    /// Matrix products of gfx1250 that take 8 cycles.
    WMMA_8 = 26;
    /// Those of 16 cycles.
    WMMA_16 = 27;
    /// Sparse ones of 8 cycles.
    SWMMAC_8 = 28;
    /// Sparse ones of 16 cycles.
    SWMMAC_16 = 29;
    /// `S_SET_VGPR_MSB`.
    SET_VGPR_MSB = 30;
    /// Loads a VGPR from LDS past the vector memory (`LDS_DIRECT_LOAD`, `DS_DIRECT_LOAD`).
    LDS_DIRECT = 31;
    /// `S_SENDMSG` that gives the VGPRs back.
    DEALLOC = 32;
    /// Every instruction but `S_NOP`.
    NO_NOP = 33;
    /// Scalar memory.
    SMEM = 34;
}

impl Class {
    /// All classes.
    pub const ALL: Class = Class(u64::MAX);
    /// No class.
    pub const NONE: Class = Class(0);
    /// Matrix products of f64.
    pub const DGEMM: Class = Class::DGEMM_4.or(Class::DGEMM_16);
    /// What reads registers for memory or exports.
    pub const MEMORY: Class = Class::VMEM.or(Class::DS).or(Class::EXPORT);

    /// Both sets.
    pub const fn or(self, other: Class) -> Class {
        Class(self.0 | other.0)
    }

    /// Whether the sets share a class.
    pub const fn any(self, other: Class) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, class: Class, is: bool) {
        if is {
            *self = self.or(class);
        }
    }
}

/// Registers in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file; `None` stands for hardware registers (`hwreg`).
    pub file: Option<RegFile>,
    /// The first.
    pub first: u16,
    /// How many.
    pub count: u16,
}

impl Span {
    const fn scalar(first: u16, count: u16) -> Span {
        Span {
            file: Some(RegFile::Sgpr),
            first,
            count,
        }
    }

    /// The first register of both.
    pub fn common(&self, other: &Span) -> Option<u16> {
        let first = self.first.max(other.first);
        let end = (self.first + self.count).min(other.first + other.count);
        (self.file == other.file && first < end).then_some(first)
    }
}

/// The part that registers play in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Vector registers written.
    Written,
    /// Vector registers read.
    Read,
    /// Vector registers read or written.
    Touched,
    /// A, B and what else a matrix product reads but C.
    MatrixAb,
    /// C of a matrix product.
    MatrixC,
    /// What a wide store stores.
    StoreData,
    /// SGPRs, VCC, M0 and EXEC written.
    ScalarWritten,
    /// SGPRs and VCC that memory instructions read.
    ScalarRead,
    /// SGPRs and VCC that vector arithmetic reads as constants: neither as carry or mask, nor to select a lane.
    Constant,
    /// The SGPR that selects a lane.
    LaneSelect,
    /// EXEC read as a constant.
    ExecConstant,
    /// VCC or EXEC, read through `src_vccz` and `src_execz`.
    ZeroFlag,
    /// VCC, whether the instruction names it or not.
    Vcc,
    /// EXEC.
    Exec,
    /// M0.
    M0,
    /// The hardware register of `S_SETREG` or `S_GETREG`.
    Hardware,
}

const VCC: Span = Span::scalar(106, 2);
const EXEC: Span = Span::scalar(126, 2);
const M0: Span = Span::scalar(125, 1);

/// The bits of a format that `V_MFMA_*_F8F6F4` and its WMMA take as FP8 or BF8.
fn is_f8(format: Option<u32>) -> bool {
    matches!(format, Some(0 | 1))
}

/// Passes of a matrix product of CDNA, 4 cycles each; 0 for other instructions. Sources: "This instruction performs N passes" of
/// the CDNA3 and CDNA4 manuals, the cycles in CDNA4's table of MFMA instructions, LLVM's scheduling model for gfx90a.
pub fn passes(inst: &Inst) -> i32 {
    let name = inst.op().name();
    let sparse = name.starts_with("v_smfmac");
    if !sparse && !name.starts_with("v_mfma")
        || inst.format() != Format::VOP3P_MAI && !name.contains("scale")
    {
        return 0;
    }
    let double = name.contains("f64");
    let (small, wide) = (name.contains("_4x4x"), name.contains("_32x32x"));
    match inst.target() {
        Target::Gfx90a | Target::Gfx908 => match (double, small, wide) {
            (true, true, _) => 4,
            (true, false, _) => 8,
            (false, true, _) => 2,
            (false, _, true) => 16,
            _ => 8,
        },
        target => match (double, small, wide) {
            (true, true, _) => 4,
            (true, false, _) => 8 << i32::from(target == Target::Gfx950),
            (false, true, _) => 2,
            _ => {
                let f8 = is_f8(inst.field(Name::cbsz)) || is_f8(inst.field(Name::blgp));
                let slow = name.contains("_4b_")
                    || name.contains("_2b_")
                    || name.contains("16x16x4_f32")
                    || name.contains("32x32x2_f32")
                    || name.contains("f8f6f4") && f8;
                4 << (i32::from(wide) + i32::from(slow))
            }
        },
    }
}

/// Wait states that an instruction makes: one, or what `S_NOP` asks for.
pub fn wait_states(inst: &Inst) -> u64 {
    if inst.op() != Op::s_nop {
        return 1;
    }
    let field = inst.field(Name::simm16).unwrap_or(0);
    let mask = if inst.target().generation() >= 12 {
        0x7f
    } else {
        0xf
    };
    u64::from(field & mask) + 1
}

/// Bits of a lane's data that a store takes from VGPRs.
fn store_data(inst: &Inst) -> Option<(Operand, u16)> {
    if !inst.row().has_flag(Flag::mayStore) || !is_vector_memory(inst.format()) {
        return None;
    }
    Some((inst.operand(Name::vdata)?, inst.bits(Name::vdata)?))
}

fn is_wide_store(inst: &Inst) -> bool {
    let scalar_offset = matches!(inst.operand(Name::soffset), Some(Operand::Sgpr(s)) if s != 124);
    store_data(inst).is_some_and(|(_, bits)| bits > 64) && !scalar_offset
}

/// Whether the result's place in its register is not the natural one.
fn shifts_result(inst: &Inst, name: &str) -> bool {
    let selected = inst.field(Name::dst_sel).is_some_and(|sel| sel != 6);
    let op_sel = inst.field(Name::op_sel).unwrap_or(0);
    let packed = inst.row().has_flag(Flag::IsPacked);
    let to_8 = name.contains("cvt") && (name.contains("_fp8_") || name.contains("_bf8_"));
    selected || !packed && op_sel & 8 != 0 || to_8 && op_sel & 0xc != 0
}

fn reads_m0(inst: &Inst, name: &str) -> bool {
    let direct = inst
        .operands()
        .any(|o| o.operand == Operand::Special(Special::LdsDirect));
    matches!(inst.op(), Op::s_sendmsg | Op::s_sendmsghalt)
        || name.starts_with("s_movrel")
        || name.contains("addtid")
        || copies_lds(inst)
        || direct
        || inst.row().has_flag(Flag::GWS)
}

/// The classes of an instruction.
pub fn classes(inst: &Inst) -> Class {
    let name = inst.op().name();
    let row = inst.row();
    let target = inst.target();
    let cdna = target.is_cdna();
    let memory = is_vector_memory(inst.format());
    let valu = row.has_flag(Flag::VALU) && !memory;
    let matrix = passes(inst) > 0;
    let f64 = name.contains("mfma_f64");
    let f32 = name.ends_with("_f32") && target != Target::Gfx90a;
    let sparse = name.starts_with("v_swmmac");
    let wmma = name.starts_with("v_wmma_") && !name.contains("ld_scale") || sparse;
    // CDNA5 7.12.1: which of the products share the multicycle unit, and for how long.
    let multicycle =
        wmma && target == Target::Gfx1250 && !name.contains("x4_f32") && !name.contains("f64");
    let f8 = is_f8(inst.field(Name::matrix_a_fmt)) || is_f8(inst.field(Name::matrix_b_fmt));
    let long = name.contains("_iu") || name.contains("f8f6f4") && f8;
    let mut all = Class::NONE;
    for (class, is) in [
        (Class::VALU, valu),
        (Class::PLAIN, valu && !matrix && !wmma),
        (Class::MFMA, matrix),
        (Class::XDL, matrix && !f64 && !f32),
        (Class::SGEMM, matrix && !f64 && f32),
        (Class::DGEMM_4, matrix && f64 && name.contains("_4x4x")),
        (Class::DGEMM_16, matrix && f64 && !name.contains("_4x4x")),
        (Class::DOT, valu && row.has_flag(Flag::IsDOT)),
        (Class::TRANS, valu && row.has_flag(Flag::TRANS)),
        (Class::VMEM, memory),
        (Class::DS, inst.format() == Format::DS),
        (Class::EXPORT, inst.format() == Format::EXP),
        (Class::SALU, row.has_flag(Flag::SALU)),
        (Class::SMEM, inst.format() == Format::SMEM),
        (Class::DPP, valu && row.has_flag(Flag::DPP)),
        (Class::DIV_FMAS, name.starts_with("v_div_fmas")),
        (
            Class::READ_LANE,
            name.starts_with("v_readlane") || name.starts_with("v_readfirstlane"),
        ),
        (
            Class::ANY_LANE,
            name.starts_with("v_read") && name.contains("lane") || name.starts_with("v_writelane"),
        ),
        (
            Class::FMA_F64,
            matches!(inst.op(), Op::v_fma_f64 | Op::v_fmac_f64),
        ),
        (
            Class::SHIFTS_RESULT,
            valu && cdna && shifts_result(inst, name),
        ),
        (Class::WIDE_STORE, is_wide_store(inst)),
        (Class::SETREG, name.starts_with("s_setreg")),
        (Class::GETREG, name.starts_with("s_getreg")),
        (Class::READS_M0, reads_m0(inst, name)),
        (Class::PERMLANE, name.starts_with("v_permlane")),
        (Class::CMPX, name.starts_with("v_cmpx")),
        (Class::WMMA, wmma),
        (Class::WMMA_8, multicycle && !sparse && !long),
        (Class::WMMA_16, multicycle && !sparse && long),
        (Class::SWMMAC_8, multicycle && sparse && !long),
        (Class::SWMMAC_16, multicycle && sparse && long),
        (Class::SET_VGPR_MSB, inst.op() == Op::s_set_vgpr_msb),
        (Class::LDS_DIRECT, inst.format() == Format::LDSDIR),
        (
            Class::DEALLOC,
            inst.op() == Op::s_sendmsg && inst.field(Name::simm16) == Some(3),
        ),
        (Class::NO_NOP, inst.op() != Op::s_nop),
    ] {
        all.add(class, is);
    }
    all
}

/// The registers that play a part in an instruction of a wave of `lanes` lanes. `banks`: what `s_set_vgpr_msb` has set.
pub fn spans(inst: &Inst, role: Role, lanes: u32, banks: u32) -> Vec<Span> {
    let effects = || inst.effects(lanes);
    let own = |r: RegRange| Span {
        file: Some(r.file),
        first: r.first,
        count: r.count,
    };
    let operands = |is_dst: bool, of: &dyn Fn(Name, Operand) -> bool| -> Vec<Span> {
        let all = inst
            .operands()
            .filter(|o| o.is_dst == is_dst && of(o.name, o.operand));
        let banked = |o: OperandRef| {
            let mut span = span(o.operand, o.bits)?;
            if span.file == Some(RegFile::Vgpr) {
                span.first += bank(o.name, is_dst, banks);
            }
            Some(span)
        };
        all.filter_map(banked).collect()
    };
    let vector = |is_dst: bool| -> Vec<Span> {
        if banks != 0 {
            return operands(is_dst, &|_, o| {
                matches!(o, Operand::Vgpr(_) | Operand::Vgpr16 { .. })
            });
        }
        let effects = effects();
        let ranges = if is_dst {
            effects.writes
        } else {
            effects.reads
        };
        let vectors = ranges
            .into_iter()
            .filter(|r| matches!(r.file, RegFile::Vgpr | RegFile::Agpr));
        vectors.map(own).collect()
    };
    let scalar = |ranges: Vec<RegRange>, end: u16| -> Vec<Span> {
        let scalars = ranges
            .into_iter()
            .filter(|r| r.file == RegFile::Sgpr && r.first < end);
        scalars.map(own).collect()
    };
    let name = inst.op().name();
    let selects = |n: Name| n == Name::src1 && name.contains("lane_b32");
    let masks = |n: Name| {
        let takes = ["v_cndmask", "v_addc", "v_subb", "v_div_fmas"];
        n == Name::src2 && takes.iter().any(|t| name.starts_with(t))
    };
    // Sparse products of RDNA have the index there, and add to the destination.
    let matrix_c = match name.starts_with("v_swmmac") {
        true => Name::srcTiedDef,
        false => Name::src2,
    };
    let hardware = |field: u32| Span {
        file: None,
        first: (field & 0x3f) as u16,
        count: 1,
    };
    let flag = |o: OperandRef| match o.operand {
        Operand::Special(Special::Vccz) => Some(VCC),
        Operand::Special(Special::Execz) => Some(EXEC),
        _ => None,
    };
    match role {
        Role::Written => vector(true),
        Role::Read => vector(false),
        Role::Touched => [vector(true), vector(false)].concat(),
        Role::MatrixAb => operands(false, &|n, _| n != matrix_c),
        Role::MatrixC => operands(false, &|n, _| n == matrix_c),
        Role::StoreData => {
            let data = store_data(inst).and_then(|(operand, bits)| span(operand, bits));
            data.into_iter().collect()
        }
        Role::ScalarWritten => scalar(effects().writes, 128),
        Role::ScalarRead => scalar(effects().reads, 108),
        Role::Constant => operands(false, &|n, o| {
            matches!(o, Operand::Sgpr(s) if s < 108) && !selects(n) && !masks(n)
        }),
        Role::LaneSelect => operands(false, &|n, o| matches!(o, Operand::Sgpr(_)) && selects(n)),
        Role::ExecConstant => operands(false, &|n, o| {
            matches!(o, Operand::Sgpr(126 | 127)) && !selects(n) && !masks(n)
        }),
        Role::ZeroFlag => inst.operands().filter_map(flag).collect(),
        Role::Vcc => vec![VCC],
        Role::Exec => vec![EXEC],
        Role::M0 => vec![M0],
        Role::Hardware => inst.field(Name::simm16).map(hardware).into_iter().collect(),
    }
}

fn span(operand: Operand, bits: u16) -> Option<Span> {
    let (file, first) = match operand {
        Operand::Vgpr(first) | Operand::Vgpr16 { reg: first, .. } => (RegFile::Vgpr, first),
        Operand::Agpr(first) => (RegFile::Agpr, first),
        Operand::Sgpr(124) => return None,
        Operand::Sgpr(first) => (RegFile::Sgpr, first.into()),
        _ => return None,
    };
    Some(Span {
        file: Some(file),
        first,
        count: bits.div_ceil(32).max(1),
    })
}

/// What `s_set_vgpr_msb` puts on top of the number of a VGPR of vector arithmetic: two bits for each source and for the
/// destination (CDNA5 manual, `S_SET_VGPR_MSB`).
fn bank(name: Name, is_dst: bool, banks: u32) -> u16 {
    let name = format!("{name:?}");
    let field = match name.trim_start_matches(|c: char| !c.is_ascii_digit()) {
        _ if is_dst => 3,
        digits if digits.starts_with('1') => 1,
        digits if digits.starts_with('2') => 2,
        _ => 0,
    };
    ((banks >> (2 * field) & 3) << 8) as u16
}
