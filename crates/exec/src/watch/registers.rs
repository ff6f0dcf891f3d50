//! The registers that an instruction of a wave touches, with their lanes.

use rocjitsu_isa::RegFile;
use rocjitsu_observe::Touch;

use super::info::{Info, Lanes, Use};
use crate::record::{Operand, Record};
use crate::vmem::address::all_lanes;
use crate::wave::{Cx, scalar};

fn is_vector(file: RegFile) -> bool {
    matches!(file, RegFile::Vgpr | RegFile::Agpr)
}

fn expand(uses: &[Use], lanes: u64, out: &mut Vec<Touch>) {
    out.clear();
    for range in uses {
        let lanes = if is_vector(range.file) { lanes } else { 0 };
        if is_vector(range.file) && lanes == 0 {
            continue;
        }
        out.extend(
            (range.first..range.first + range.count).map(|register| Touch {
                file: range.file,
                register,
                bytes: range.bytes,
                lanes,
            }),
        );
    }
}

/// Registers that an instruction is about to read. Vector registers whose lanes it exchanges are named with all
/// lanes, all others with those of EXEC.
pub fn reads(cx: &Cx<'_, '_>, info: &Info, exec: u64, out: &mut Vec<Touch>) {
    let name = info.instruction.mnemonic();
    let crosses = matches!(info.lanes, Lanes::All | Lanes::Dpp)
        || ["lane", "permute", "swizzle"]
            .iter()
            .any(|part| name.contains(part));
    let lanes = if crosses {
        all_lanes(cx.wave.lanes)
    } else {
        exec
    };
    expand(&info.reads, lanes, out);
}

/// Registers that an instruction is about to write.
pub fn writes(cx: &Cx<'_, '_>, record: &Record, info: &Info, exec: u64, out: &mut Vec<Touch>) {
    let all = all_lanes(cx.wave.lanes);
    let lanes = match info.lanes {
        Lanes::Exec => exec,
        Lanes::All => all,
        Lanes::Selected => 1 << (cx.get32(record.src[1]) & (cx.wave.lanes - 1)),
        Lanes::Quads => (0..64).fold(0, |lanes, lane| {
            lanes | u64::from(exec >> (lane & !3) & 15 != 0) << lane
        }),
        Lanes::Dpp => match record.valu.as_ref().and_then(|details| details.dpp) {
            Some(dpp) => exec & dpp.permute(&mut [0; 64][..cx.wave.lanes as usize], exec),
            None => exec,
        },
    };
    expand(&info.writes, lanes & all, out);
    index(cx, record, out);
}

/// Moves the destination by what M0 adds to it.
fn index(cx: &Cx<'_, '_>, record: &Record, out: &mut [Touch]) {
    let (Some(details), true) = (&record.valu, record.imm >> 3 & 1 != 0) else {
        return;
    };
    let Operand::Vector(named) = record.dst else {
        return;
    };
    let (_, offset) = details.index.offsets(cx.wave.s[scalar::M0]);
    let vgprs = out.iter_mut().filter(|t| t.file == RegFile::Vgpr);
    for touch in vgprs.filter(|t| t.register >= named) {
        touch.register += offset as u16;
    }
}
