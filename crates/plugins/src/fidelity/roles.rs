//! What a register decides for an instruction that reads it: an address, a branch, a synchronisation, or only a value.

use rocjitsu_isa::{Inst, Name, Op, Operand, RegFile};
use rocjitsu_observe::{Family, Instruction, Touch};

/// The lower half of EXEC in the scalar file.
pub const EXEC: u16 = 126;
/// M0 in the scalar file.
const M0: u16 = 125;

/// What a source is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A value like others.
    Value,
    /// It decides this.
    Decides(&'static str),
}

fn file_of(operand: Operand) -> Option<(RegFile, u16)> {
    match operand {
        Operand::Vgpr(register) | Operand::Vgpr16 { reg: register, .. } => {
            Some((RegFile::Vgpr, register))
        }
        Operand::Agpr(register) => Some((RegFile::Agpr, register)),
        Operand::Sgpr(register) => Some((RegFile::Sgpr, register.into())),
        _ => None,
    }
}

/// Operands of memory instructions that are data.
fn is_data(name: Name) -> bool {
    matches!(
        name,
        Name::vdata | Name::data0 | Name::data1 | Name::sdata | Name::vdst | Name::sdst
    )
}

/// Whether an instruction accesses memory or LDS.
fn accesses(inst: &Inst) -> bool {
    const PREFIXES: [&str; 9] = [
        "global_", "flat_", "scratch_", "buffer_", "tbuffer_", "ds_", "s_load", "s_store",
        "s_buffer",
    ];
    let name = inst.op().name();
    let lane_exchange = ["permute", "swizzle"]
        .iter()
        .any(|part| name.contains(part));
    !lane_exchange
        && (PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || name.starts_with("s_atomic"))
}

/// What a register that an instruction reads is for.
pub fn role(inst: &Inst, touch: &Touch) -> Role {
    let name = inst.op().name();
    match inst.op() {
        Op::s_setpc_b64 | Op::s_swappc_b64 => return Role::Decides("branch"),
        _ if name.starts_with("s_cbranch") => return Role::Decides("branch"),
        _ if name.starts_with("s_barrier")
            || name.starts_with("s_sendmsg")
            || name.starts_with("s_sleep")
            || name.starts_with("ds_gws") =>
        {
            return Role::Decides("synchronisation");
        }
        _ => {}
    }
    if !accesses(inst) {
        return Role::Value;
    }
    let here = (touch.file, touch.register);
    // M0 is the limit or the base of LDS; what a scalar store writes is named like other operands.
    if here == (RegFile::Sgpr, M0) {
        return Role::Decides("address");
    }
    match data(inst)
        .iter()
        .any(|data| (data.file, data.register) == here)
    {
        true => Role::Value,
        false => Role::Decides("address"),
    }
}

/// The registers that an instruction stores, in their order.
pub fn data(inst: &Inst) -> Vec<Touch> {
    let reads = inst.effects(64).reads;
    let mut all = Vec::new();
    for operand in inst.operands().filter(|o| is_data(o.name) && !o.is_dst) {
        let Some((file, first)) = file_of(operand.operand) else {
            continue;
        };
        let range = reads.iter().find(|r| r.file == file && r.first == first);
        let count = range.map_or(1, |range| range.count);
        all.extend((first..first + count).map(|register| Touch {
            file,
            register,
            bytes: 0xf,
            lanes: 0,
        }));
    }
    all
}

/// Whether lanes of an instruction see values of other lanes.
pub fn crosses(instruction: &Instruction) -> bool {
    let name = instruction.mnemonic();
    instruction.family == Family::Matrix
        || ["lane", "permute", "swizzle", "_tr_b", "_tr4_b", "load_tr"]
            .iter()
            .any(|part| name.contains(part))
        || [Name::dpp_ctrl, Name::dpp8]
            .iter()
            .any(|&field| instruction.inst.field(field).is_some())
}

/// Whether an instruction takes an SGPR that it reads as a mask of lanes: each lane its own bit.
pub fn is_mask(inst: &Inst, register: u16) -> bool {
    const TAKE: [&str; 10] = [
        "v_cndmask",
        "v_dual_cndmask",
        "v_addc_co",
        "v_subb_co",
        "v_subbrev_co",
        "v_add_co_ci",
        "v_sub_co_ci",
        "v_subrev_co_ci",
        "v_div_fmas",
        "v_addc_u32",
    ];
    let name = inst.op().name();
    if !TAKE.iter().any(|start| name.starts_with(start)) {
        return false;
    }
    let holds = |o: &rocjitsu_isa::OperandRef| match file_of(o.operand) {
        Some((RegFile::Sgpr, first)) => {
            (first..first + o.bits.div_ceil(32).max(1)).contains(&register)
        }
        _ => false,
    };
    // As a value for all lanes it is named in another place.
    let sources = || inst.operands().filter(|o| !o.is_dst);
    let as_value = sources().any(|o| o.name != Name::src2 && holds(&o));
    let named = sources()
        .any(|o| o.name == Name::src2 && matches!(file_of(o.operand), Some((RegFile::Sgpr, _))));
    !as_value
        && (sources().any(|o| o.name == Name::src2 && holds(&o))
            || !named && matches!(register, VCC | VCC_HI))
}

/// VCC in the scalar file.
pub const VCC: u16 = 106;
const VCC_HI: u16 = 107;

/// Which word of its operand a scalar register is: VCC, EXEC and pairs begin at even numbers.
pub fn word_of(inst: &Inst, register: u16, is_dst: bool) -> u32 {
    let place = |o: rocjitsu_isa::OperandRef| match file_of(o.operand) {
        Some((RegFile::Sgpr, first)) if o.is_dst == is_dst => {
            let words = o.bits.div_ceil(32).max(1);
            (first..first + words)
                .contains(&register)
                .then(|| register - first)
        }
        _ => None,
    };
    let found = inst.operands().find_map(place);
    found.unwrap_or(register & 1).into()
}

/// Whether each bit of a scalar instruction's result follows from the same bit of its sources.
pub fn is_bitwise(inst: &Inst) -> bool {
    let name = inst.op().name();
    let Some(name) = name.strip_prefix("s_") else {
        return false;
    };
    const OPERATIONS: [&str; 12] = [
        "mov_b",
        "cmov_b",
        "not_b",
        "and_b",
        "or_b",
        "xor_b",
        "nand_b",
        "nor_b",
        "xnor_b",
        "andn2_b",
        "orn2_b",
        "cselect_b",
    ];
    OPERATIONS.iter().any(|start| name.starts_with(start))
        || name.starts_with("and_not") && !name.contains("wrexec")
        || name.starts_with("or_not") && !name.contains("wrexec")
        || name.contains("saveexec")
}

/// Whether a vector instruction's scalar result is the value of a lane, not a mask of lanes.
pub fn reads_lane(inst: &Inst) -> bool {
    let name = inst.op().name();
    name.starts_with("v_readlane") || name.starts_with("v_readfirstlane")
}

/// Whether a vector register is the source whose values an instruction moves between lanes, and whether it is another one, too.
pub fn exchanged(inst: &Inst, touch: &Touch) -> (bool, bool) {
    let name = inst.op().name();
    let moved = match name {
        _ if !name.starts_with("ds_") => Name::src0,
        _ if name.starts_with("ds_swizzle") => Name::addr,
        _ => Name::data0,
    };
    let here = |o: &rocjitsu_isa::OperandRef| match file_of(o.operand) {
        Some((file, first)) => {
            file == touch.file
                && (first..first + o.bits.div_ceil(32).max(1)).contains(&touch.register)
        }
        None => false,
    };
    let named = |is: &dyn Fn(Name) -> bool| {
        let mut sources = inst.operands().filter(|o| !o.is_dst);
        sources.any(|o| is(o.name) && here(&o))
    };
    let is_moved = named(&|name| name == moved);
    // Lanes that keep what DPP does not write are not among those written.
    let kept = named(&|name| name == Name::old);
    let is_other = named(&|name| name != moved && name != Name::old);
    (is_moved, is_other || !is_moved && !kept)
}
