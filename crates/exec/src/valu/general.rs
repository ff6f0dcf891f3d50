//! Runs lane operations of every shape: wide and 16-bit operands, masks, modifiers.
//! The run loop calls kernels of plain 32-bit operations itself and comes here for the others.

use rocjitsu_isa::Target;
use rocjitsu_lanes::kernel::{Args, Kind, Src};
use rocjitsu_lanes::modify;

use super::Details;
use super::modifiers::Sdwa;
use crate::lower::State;
use crate::record::{Flow, Operand, Record};
use crate::target::TargetFacts;
use crate::wave::{Cx, scalar};

const LANES: usize = 64;
type Row = [u32; LANES];

fn is_wide(kind: Kind) -> bool {
    matches!(kind, Kind::B64 | Kind::F64 | Kind::PkF32)
}

/// Executes a lane operation.
pub fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some(details) = record.valu.as_deref() else {
        return Flow::Next;
    };
    let exec = cx.wave.exec();
    let (by, to) = details.index.offsets(cx.wave.s[scalar::M0]);
    let dst = if record.imm >> 3 & 1 != 0 {
        match indexed(cx, record.dst, to, words(details.out)) {
            Some(dst) => dst,
            None => return Flow::Next,
        }
    } else {
        record.dst
    };
    let mut args = new_args(cx, record);
    let mut write = exec;
    for slot in 0..3 {
        let Some(kind) = details.inputs[slot] else {
            break;
        };
        let operand = record.src[slot];
        let operand = if record.imm >> slot & 1 != 0 {
            indexed(cx, operand, by, words(kind)).unwrap_or(first_of(cx, operand))
        } else {
            operand
        };
        args.src[slot] = source(cx, operand, kind, slot, details.source[slot].shift);
        if details.prepare {
            let limit = prepare(cx, details, slot, kind, &mut args.src[slot], exec);
            write &= limit;
        }
    }
    if details.takes_mask {
        args.mask_in = match record.mask {
            Operand::Scalar(n) => cx.wave.mask(usize::from(n)),
            other => cx.get64(other),
        };
    }
    args.exec = write;
    store(cx, record, details, &mut args, dst);
    if details.gives_mask {
        mask_result(cx, record, details, args.mask_out);
    }
    Flow::Next
}

/// Arguments of a kernel without sources and destination.
fn new_args(cx: &Cx<'_, '_>, record: &Record) -> Args {
    Args {
        dst: std::ptr::null_mut(),
        dst_hi: std::ptr::null_mut(),
        src: [Src::NONE; 3],
        exec: 0,
        mask_in: 0,
        mask_out: 0,
        chunks: cx.wave.lanes / 16,
        keep: 0,
        dst_shift: 0,
        aux: record.aux,
    }
}

/// Registers of an operand.
fn words(kind: Kind) -> u32 {
    1 + u32::from(is_wide(kind))
}

/// An operand of `words` registers with what an index adds to its number, if it is a vector register. `None` beyond the
/// registers that the wave has, or where the index leads from VGPRs to AccVGPRs: then a source is [`first_of`] its
/// file, and an instruction with such a destination does nothing (CDNA manuals 3.6.1, RDNA3 3.3.2.2, RDNA4 and CDNA5
/// 3.3.2.2). Not a stop: compilers read elements of a vector before they know whether the index is good.
pub(super) fn indexed(
    cx: &Cx<'_, '_>,
    operand: Operand,
    index: u32,
    words: u32,
) -> Option<Operand> {
    let Operand::Vector(r) = operand else {
        return Some(operand);
    };
    let target = cx.unit.target;
    let limit = match State::of(cx.wave).vgprs(target) {
        _ if is_accumulator(cx, r) => 2 * target.acc_base(),
        Some(count) => count,
        None if target == Target::Gfx1250 => 1024,
        None => 256,
    };
    let first = u64::from(r) + u64::from(index);
    (first + u64::from(words) <= u64::from(limit)).then_some(Operand::Vector(first as u16))
}

/// The first register of an operand's file.
pub(super) fn first_of(cx: &Cx<'_, '_>, operand: Operand) -> Operand {
    match operand {
        Operand::Vector(r) if is_accumulator(cx, r) => {
            Operand::Vector(cx.unit.target.acc_base() as u16)
        }
        Operand::Vector(_) => Operand::Vector(0),
        other => other,
    }
}

fn is_accumulator(cx: &Cx<'_, '_>, register: u16) -> bool {
    cx.unit.target.is_cdna() && u32::from(register) >= cx.unit.target.acc_base()
}

/// Where the kernel finds a source.
fn source(cx: &mut Cx<'_, '_>, operand: Operand, kind: Kind, slot: usize, shift: u32) -> Src {
    if let Operand::Vector(r) = operand {
        let r = u32::from(r);
        if kind == Kind::PkF32 {
            let (lo, hi) = (
                cx.wave.v.read_ptr(r + (shift & 1)),
                cx.wave.v.read_ptr(r + (shift >> 1 & 1)),
            );
            return Src {
                lo,
                hi,
                step: 16,
                shift: 0,
            };
        }
        let lo = cx.wave.v.read_ptr(r);
        let hi = if is_wide(kind) {
            cx.wave.v.read_ptr(r + 1)
        } else {
            lo
        };
        return Src {
            lo,
            hi,
            step: 16,
            shift,
        };
    }
    if kind == Kind::PkF32 {
        let words = match operand {
            Operand::Scalar(n) if shift & 4 == 0 => {
                let pair = [cx.wave.s[usize::from(n)], cx.wave.s[usize::from(n) + 1]];
                [pair[(shift & 1) as usize], pair[(shift >> 1 & 1) as usize]]
            }
            other => [cx.get32(other); 2],
        };
        let rows = &mut cx.unit.temp.splat[slot];
        *rows = words.map(|w| [w; 16]);
        return Src {
            lo: rows[0].as_ptr(),
            hi: rows[1].as_ptr(),
            step: 0,
            shift: 0,
        };
    }
    let value = if is_wide(kind) {
        cx.get64(operand)
    } else {
        u64::from(cx.get32(operand))
    };
    let shift = if matches!(operand, Operand::Const(_)) {
        0
    } else {
        shift
    };
    let rows = &mut cx.unit.temp.splat[slot];
    rows[0] = [value as u32; 16];
    rows[1] = [(value >> 32) as u32; 16];
    Src {
        lo: rows[0].as_ptr(),
        hi: rows[1].as_ptr(),
        step: 0,
        shift,
    }
}

/// Copies a source's words (`part` 0 low, 1 high) to a temporary row, shifted right.
fn materialise<'t>(
    cx: &'t mut Cx<'_, '_>,
    src: &Src,
    slot: usize,
    part: usize,
    shift: u32,
) -> &'t mut Row {
    let row = &mut cx.unit.temp.src[slot][part];
    let base = if part == 0 { src.lo } else { src.hi };
    let chunks = cx.wave.lanes as usize / 16;
    for chunk in 0..chunks {
        // SAFETY: a source is `chunks` groups of 16 words at its step, and no part of the temporaries it
        // is copied to.
        let words = unsafe {
            base.add(chunk * src.step)
                .cast::<[u32; 16]>()
                .read_unaligned()
        };
        for (to, from) in row[chunk * 16..][..16].iter_mut().zip(words) {
            *to = from >> shift;
        }
    }
    row
}

/// Replaces a source by a temporary row with its modifiers applied. Returns the lanes that may be
/// written (DPP masks and lanes without a source).
fn prepare(
    cx: &mut Cx<'_, '_>,
    details: &Details,
    slot: usize,
    kind: Kind,
    src: &mut Src,
    exec: u64,
) -> u64 {
    let mods = details.source[slot];
    let dpp = details.dpp.filter(|_| slot == 0);
    let sdwa = details.sdwa.filter(|_| slot < 2);
    if !(mods.changes() || details.flush_in || dpp.is_some() || sdwa.is_some()) {
        return u64::MAX;
    }
    let lanes = cx.wave.lanes as usize;
    let wide = is_wide(kind);
    let half = matches!(kind, Kind::B16 | Kind::F16 | Kind::Bf16);
    let shift = if half && sdwa.is_none() { src.shift } else { 0 };
    let mut limit = u64::MAX;
    if wide {
        let row = materialise(cx, src, slot, 1, 0);
        if let Some(dpp) = &dpp {
            limit = dpp.permute(&mut row[..lanes], exec);
        }
    }
    let row = materialise(cx, src, slot, 0, shift);
    if let Some(dpp) = &dpp {
        limit = dpp.permute(&mut row[..lanes], exec);
    }
    if let Some(sdwa) = &sdwa {
        sdwa.select(slot, &mut row[..lanes]);
    }
    let changes = mods.lanes(details.flush_in);
    let rows = &mut cx.unit.temp.src[slot];
    if !changes.is_none() {
        // SAFETY: the unit's back end is one that the host supports; `Temp` keeps its rows aligned.
        unsafe { modify::rows::source(cx.unit.backend, &changes, kind, rows) };
    }
    *src = Src {
        lo: rows[0].as_ptr(),
        hi: rows[1].as_ptr(),
        step: 16,
        shift: 0,
    };
    limit
}

/// Runs the kernel into the destination, by way of a temporary row where the result is modified.
fn store(cx: &mut Cx<'_, '_>, record: &Record, details: &Details, args: &mut Args, dst: Operand) {
    let wide = is_wide(details.out);
    let Operand::Vector(r) = dst else {
        // No register result.
        // SAFETY: the sources are rows of this wave, shared words or temporaries.
        unsafe { (record.kernel)(args) };
        return;
    };
    let r = u32::from(r);
    if !details.finish {
        args.dst = cx.wave.v.write_ptr(r, &mut cx.unit.pool);
        args.dst_hi = if wide {
            cx.wave.v.write_ptr(r + 1, &mut cx.unit.pool)
        } else {
            args.dst
        };
        args.keep = details.keep;
        args.dst_shift = details.dst_shift;
        // SAFETY: as above; the destination is this wave's own.
        unsafe { (record.kernel)(args) };
        return;
    }
    args.dst = cx.unit.temp.dst[0].as_mut_ptr();
    args.dst_hi = cx.unit.temp.dst[1].as_mut_ptr();
    // SAFETY: as above; the destination is a temporary.
    unsafe { (record.kernel)(args) };
    let changes = details.result_modifiers();
    if !changes.is_none() {
        // SAFETY: as in `prepare`.
        unsafe {
            modify::rows::finish(
                cx.unit.backend,
                &changes,
                details.out,
                &mut cx.unit.temp.dst,
            );
        }
    }
    if let Some(sdwa) = details.sdwa.filter(Sdwa::selects_result) {
        sdwa.place(&mut cx.unit.temp.dst[0], cx.wave.v.read(r));
    } else if matches!(details.out, Kind::B16 | Kind::F16 | Kind::Bf16) {
        let old = cx.wave.v.read(r);
        for (w, &old) in cx.unit.temp.dst[0].iter_mut().zip(old) {
            *w = *w << details.dst_shift | old & details.keep;
        }
    }
    merge(cx, r, 0, args.exec);
    if wide {
        merge(cx, r + 1, 1, args.exec);
    }
}

/// Copies temporary result `temp` to register `r` in the lanes of `mask`.
fn merge(cx: &mut Cx<'_, '_>, r: u32, temp: usize, mask: u64) {
    let row = cx.wave.v.write(r, &mut cx.unit.pool);
    for (lane, (to, from)) in row.iter_mut().zip(&cx.unit.temp.dst[temp]).enumerate() {
        if mask >> lane & 1 != 0 {
            *to = *from;
        }
    }
}

/// Writes a mask result: zero in the lanes that are not active.
fn mask_result(cx: &mut Cx<'_, '_>, record: &Record, details: &Details, mask: u64) {
    if let Operand::Scalar(n) = record.dst2 {
        cx.wave.set_mask(usize::from(n), mask);
    }
    if details.to_exec {
        cx.wave.set_exec(mask);
    }
}
