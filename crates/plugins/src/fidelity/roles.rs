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
