//! Which registers of a wave hold something: those that it started with, and those that it has written since, lane by
//! lane and byte by byte.

use rocjitsu_isa::{Inst, Name, Op, Operand, OperandRef, RegFile};
use rocjitsu_observe::{Given, Step, Touch};

/// Lanes by byte of a vector register.
type Row = [u64; 4];

/// What an instruction needs of the registers that it reads.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Every byte of vector registers that it reads whole. Others move or combine bits, and what nobody looks at
    /// may be anything.
    all_bytes: bool,
    /// Registers that need not hold anything: parts of which stay as they are, or that it saves, or whose upper half
    /// only makes an upper half that nobody looks at.
    free: Vec<(RegFile, u16)>,
    /// It names M0. Others that read it need it in some uses only (LDS on older chips, messages with data).
    names_m0: bool,
    /// It copies SGPRs: from, to, and how many. The copy holds as much as they do.
    copies: Option<(u16, u16, u16)>,
    /// It reads a lane of one register.
    lane: Option<Lane>,
}

/// The lane that an instruction reads.
#[derive(Clone, Copy, Debug)]
enum Lane {
    /// The first one of EXEC.
    First,
    /// This one.
    Number(u32),
    /// One that a register says.
    Any,
}

/// Scalar registers are followed up to M0, but for those of trap handlers, which hold what the hardware puts there.
const VCC: u16 = 106;
const TRAPS: u128 = 0xffff << 108;
const M0: u16 = 125;

/// Whether a name's last type is one that arithmetic takes whole.
fn is_arithmetic(name: &str) -> bool {
    const BITS: [&str; 26] = [
        "and",
        "or",
        "xor",
        "xnor",
        "not",
        "lsh",
        "ashr",
        "bfe",
        "bfi",
        "bfm",
        "bfrev",
        "perm",
        "align",
        "mov",
        "cndmask",
        "ffb",
        "clz",
        "ctz",
        "cls",
        "pk",
        "swap",
        "mix",
        "sad",
        "dot",
        "readlane",
        "writelane",
    ];
    let whole = ["f32", "u32", "i32", "f64", "u64", "i64"];
    let last = name.rsplit('_').next().unwrap_or_default();
    let parts = || name.split('_');
    name.starts_with("v_")
        && whole.contains(&last)
        && !BITS
            .iter()
            .any(|bits| parts().any(|part| part.starts_with(bits)))
}

impl Needs {
    /// Of an instruction.
    pub fn of(inst: &Inst) -> Needs {
        let name = inst.op().name();
        let selects = inst.field(Name::src0_sel).is_some();
        let lane = match inst.op() {
            Op::v_readfirstlane_b32 => Some(Lane::First),
            Op::v_readlane_b32 => Some(match inst.operand(Name::src1) {
                Some(Operand::Const(lane)) => u32::try_from(lane).map_or(Lane::Any, Lane::Number),
                _ => Lane::Any,
            }),
            _ => None,
        };
        Needs {
            all_bytes: is_arithmetic(name) && !selects && inst.op_y().is_none(),
            free: free(inst),
            names_m0: inst
                .operands()
                .any(|o| !o.is_dst && matches!(o.operand, Operand::Sgpr(125))),
            copies: copied(inst),
            lane,
        }
    }
}

/// The registers of an operand.
fn registers(operand: &OperandRef) -> impl Iterator<Item = (RegFile, u16)> + use<> {
    let count = operand.bits.div_ceil(32).max(1);
    let first = match operand.operand {
        Operand::Vgpr(first) | Operand::Vgpr16 { reg: first, .. } => Some((RegFile::Vgpr, first)),
        Operand::Agpr(first) => Some((RegFile::Agpr, first)),
        Operand::Sgpr(first) => Some((RegFile::Sgpr, first.into())),
        _ => None,
    };
    let all = first.map(|(file, first)| (first..first + count).map(move |n| (file, n)));
    all.into_iter().flatten()
}

/// Registers that an instruction reads, but need not hold anything.
fn free(inst: &Inst) -> Vec<(RegFile, u16)> {
    let name = inst.op().name();
    // What is tied to the result is there for the lanes, bytes and cases in which it stays.
    let ties = |tied: Name| match tied {
        Name::old | Name::vdst_in | Name::sdst_in => true,
        Name::vdata_in => name.contains("load"),
        _ => false,
    };
    let preserves = inst.field(Name::dst_unused) == Some(2);
    let mut free: Vec<_> = inst
        .operands()
        .filter(|o| !o.is_dst && ties(o.name) || o.is_dst && preserves)
        .flat_map(|o| registers(&o))
        .collect();
    let sources = inst.operands().filter(|o| !o.is_dst && !ties(o.name));
    let sources: Vec<OperandRef> = sources.collect();
    free.retain(|register| !sources.iter().any(|o| registers(o).any(|r| r == *register)));
    // Functions save registers of their caller, who may not have used them.
    let saved = match name {
        "v_writelane_b32" => Some(Name::src0),
        _ if name.starts_with("scratch_store") || name.starts_with("buffer_store") => {
            Some(Name::vdata)
        }
        _ => None,
    };
    // A mask of lanes that loops gather: the bits of active lanes are set or cleared, others are nobody's yet.
    const EXEC: Operand = Operand::Sgpr(126);
    let gathers = ["s_or_b", "s_andn2_b", "s_and_not1_b"]
        .iter()
        .any(|start| name.starts_with(start));
    if gathers && sources.iter().any(|o| o.operand == EXEC) {
        let results: Vec<_> = inst.operands().filter(|o| o.is_dst).collect();
        let gathered = sources.iter().filter(|o| o.operand != EXEC);
        let gathered = gathered.filter(|o| results.iter().any(|r| r.operand == o.operand));
        free.extend(gathered.flat_map(registers));
    }
    // Sums of 32 bits are done as those of 64, and packed operations may take one half twice.
    let wide_sum = name.contains("mad_") && name.contains("64");
    for source in &sources {
        if Some(source.name) == saved {
            free.extend(registers(source));
        }
        let half = wide_sum && source.name == Name::src2 || name.starts_with("v_pk_");
        if half && source.bits == 64 {
            free.extend(registers(source).skip(1));
        }
    }
    free
}

/// The SGPRs that an instruction copies.
fn copied(inst: &Inst) -> Option<(u16, u16, u16)> {
    let count = match inst.op() {
        Op::s_mov_b32 => 1,
        Op::s_mov_b64 => 2,
        _ => return None,
    };
    let sgpr = |is_dst: bool| {
        let mut operands = inst.operands().filter(|o| o.is_dst == is_dst);
        match operands.next().map(|o| o.operand) {
            Some(Operand::Sgpr(register)) => Some(u16::from(register)),
            _ => None,
        }
    };
    let (from, to) = (sgpr(false)?, sgpr(true)?);
    (from.max(to) + count <= M0 + 1).then_some((from, to, count))
}

/// What the registers of a wave hold.
pub struct Registers {
    vgprs: Vec<Row>,
    agprs: Vec<Row>,
    sgprs: u128,
    scc: bool,
}

impl Registers {
    /// Of a wave that begins.
    pub fn new(given: &Given) -> Registers {
        Registers {
            vgprs: vec![[u64::MAX; 4]; given.vgprs.into()],
            agprs: Vec::new(),
            sgprs: ((1 << given.sgprs.min(VCC)) - 1) | TRAPS,
            scc: false,
        }
    }

    fn row(&mut self, touch: &Touch) -> &mut Row {
        let file = match touch.file {
            RegFile::Agpr => &mut self.agprs,
            _ => &mut self.vgprs,
        };
        let index = usize::from(touch.register);
        if index >= file.len() {
            file.resize(index + 1, [0; 4]);
        }
        &mut file[index]
    }

    /// Registers are written.
    pub fn write(&mut self, needs: &Needs, touched: &[Touch]) {
        let before = self.sgprs;
        for touch in touched {
            match touch.file {
                RegFile::Vgpr | RegFile::Agpr => {
                    let row = self.row(touch);
                    let bytes = (0..4).filter(|byte| touch.bytes >> byte & 1 != 0);
                    bytes.for_each(|byte| row[byte] |= touch.lanes);
                }
                RegFile::Sgpr if touch.register <= M0 => self.sgprs |= 1 << touch.register,
                RegFile::Scc => self.scc = true,
                _ => {}
            }
        }
        if let Some((from, to, count)) = needs.copies {
            let empty = (0..count).filter(|i| before >> (from + i) & 1 == 0);
            empty.for_each(|i| self.sgprs &= !(1 << (to + i)));
        }
    }

    /// Whether a register is read of which nothing, or not what the instruction needs, was written: the lanes and bytes
    /// that are missing; no lanes for a scalar register. Told once.
    pub fn read(&mut self, step: &Step<'_>, needs: &Needs, touch: &Touch) -> Option<(u64, u8)> {
        if needs.free.contains(&(touch.file, touch.register)) {
            return None;
        }
        match touch.file {
            RegFile::Vgpr | RegFile::Agpr => {}
            RegFile::Sgpr if touch.register == M0 && !needs.names_m0 => return None,
            RegFile::Sgpr if touch.register <= M0 => {
                if needs.copies.is_some() {
                    return None;
                }
                let known = self.sgprs >> touch.register & 1 != 0;
                self.sgprs |= 1 << touch.register;
                return (!known).then_some((0, 0xf));
            }
            RegFile::Scc => return (!std::mem::replace(&mut self.scc, true)).then_some((0, 0xf)),
            _ => return None,
        }
        let lanes = match needs.lane {
            Some(Lane::First) if step.exec != 0 => 1 << step.exec.trailing_zeros(),
            Some(Lane::First) => 1,
            Some(Lane::Number(lane)) => 1 << (lane & (step.wave.lanes - 1)),
            Some(Lane::Any) => return None,
            None => touch.lanes & step.exec,
        };
        let row = self.row(touch);
        let partial = touch.bytes != 0xf || needs.all_bytes;
        let missing = if partial {
            let bytes = (0..4).filter(|byte| touch.bytes >> byte & 1 != 0);
            bytes.fold(0, |missing, byte| missing | lanes & !row[byte])
        } else {
            lanes & !row.iter().fold(0, |any, written| any | written)
        };
        if missing == 0 {
            return None;
        }
        let bytes =
            (0..4).filter(|&byte| touch.bytes >> byte & 1 != 0 && missing & !row[byte] != 0);
        let bytes = bytes.fold(0, |bytes, byte| bytes | 1 << byte);
        row.iter_mut().for_each(|written| *written |= missing);
        Some((missing, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an instruction of gfx942 need not find in registers.
    fn free_of(word: u32) -> Vec<u16> {
        let target = rocjitsu_isa::Target::Gfx942;
        let set = target.execution_set(64);
        let inst = rocjitsu_isa::decode(target, set, &word.to_le_bytes()).unwrap();
        Needs::of(&inst).free.iter().map(|(_, n)| *n).collect()
    }

    #[test]
    fn masks_of_lanes_may_be_gathered_from_nothing() {
        // s_or_b64 s[8:9], s[8:9], exec; s_andn2_b64 s[8:9], s[8:9], exec.
        assert_eq!(free_of(0x8788_7e08), [8, 9]);
        assert_eq!(free_of(0x8988_7e08), [8, 9]);
        // s_and_b64 s[10:11], s[6:7], exec takes the bits of active lanes; s_or_b64 exec, exec, s[12:13] those of others; s_or_b64
        // s[8:9], s[8:9], s[12:13] both.
        assert!(free_of(0x868a_7e06).is_empty());
        assert!(free_of(0x87fe_0c7e).is_empty());
        assert!(free_of(0x8788_0c08).is_empty());
    }

    #[test]
    fn arithmetic_needs_all_of_a_register_and_bit_operations_do_not() {
        for name in [
            "v_add_f32",
            "v_add_u32",
            "v_cvt_f16_f32",
            "v_cmp_gt_i32",
            "v_fma_f64",
            "v_mul_lo_u32",
            "v_floor_f32",
        ] {
            assert!(is_arithmetic(name), "{name}");
        }
        for name in [
            "v_and_b32",
            "v_cvt_f32_f16",
            "v_lshl_or_b32",
            "v_mov_b32",
            "v_perm_b32",
            "v_lshlrev_b32",
            "v_bfe_u32",
            "v_mad_u32_u16",
            "v_cvt_f32_ubyte0",
            "v_alignbit_b32",
            "v_and_or_b32",
            "s_add_u32",
        ] {
            assert!(!is_arithmetic(name), "{name}");
        }
    }
}
