//! Runs lane operations of every shape: wide and 16-bit operands, masks, modifiers.
//! The run loop calls kernels of plain 32-bit operations itself and comes here for the others.

use rocjitsu_lanes::kernel::{Args, Kind, Src};

use super::Details;
use super::modifiers::{Sdwa, select_part};
use crate::record::{Flow, Operand, Record};
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
    let mut args = new_args(cx, record);
    let mut write = exec;
    for slot in 0..3 {
        let Some(kind) = details.inputs[slot] else {
            break;
        };
        let operand = indexed(record.src[slot], record.imm >> slot & 1 != 0, by);
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
    let dst = indexed(record.dst, record.imm >> 3 & 1 != 0, to);
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

pub(super) fn indexed(operand: Operand, applies: bool, index: u32) -> Operand {
    match operand {
        Operand::Vector(r) if applies => Operand::Vector(u32::from(r).wrapping_add(index) as u16),
        other => other,
    }
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

fn flush32(w: u32) -> u32 {
    if w & 0x7f80_0000 == 0 {
        w & 0x8000_0000
    } else {
        w
    }
}
fn flush16(w: u32) -> u32 {
    if w & 0x7c00 == 0 { w & 0xffff_8000 } else { w }
}
fn flush16_pair(w: u32) -> u32 {
    let lo = flush16(w & 0xffff);
    let hi = flush16(w >> 16);
    hi << 16 | lo
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
        row.iter_mut()
            .for_each(|w| *w = select_part(*w, sdwa.sel[slot], sdwa.sext[slot]));
    }
    // The word with the sign of the value, and the sign's bit.
    let (sign_part, sign) = match kind {
        Kind::F64 | Kind::B64 => (1, 31),
        Kind::F16 | Kind::Bf16 | Kind::B16 => (0, 15),
        _ => (0, 31),
    };
    let rows = &mut cx.unit.temp.src[slot];
    if details.flush_in {
        match kind {
            Kind::F32 => rows[0].iter_mut().for_each(|w| *w = flush32(*w)),
            Kind::PkF32 => rows
                .as_flattened_mut()
                .iter_mut()
                .for_each(|w| *w = flush32(*w)),
            Kind::F16 => rows[0].iter_mut().for_each(|w| *w = flush16(*w)),
            Kind::PkF16 => rows[0].iter_mut().for_each(|w| *w = flush16_pair(*w)),
            Kind::F64 => {
                let [lo, hi] = rows;
                for (l, h) in lo.iter_mut().zip(hi.iter_mut()) {
                    if *h & 0x7ff0_0000 == 0 {
                        *l = 0;
                        *h &= 0x8000_0000;
                    }
                }
            }
            _ => {}
        }
    }
    if mods.packed {
        for w in rows[0].iter_mut() {
            let word = if mods.abs { *w & 0x7fff_7fff } else { *w };
            let (lo, hi) = (word & 0xffff, word >> 16);
            let low = if mods.low_from_high { hi } else { lo };
            let high = if mods.high_from_low { lo } else { hi };
            *w = low ^ u32::from(mods.neg) << 15 | (high ^ u32::from(mods.neg_hi) << 15) << 16;
        }
    } else {
        if mods.abs {
            rows[sign_part].iter_mut().for_each(|w| *w &= !(1 << sign));
        }
        if mods.neg {
            rows[sign_part].iter_mut().for_each(|w| *w ^= 1 << sign);
        }
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
    let [lo, hi, ..] = &mut cx.unit.temp.dst;
    finish(details, details.out, lo, Some(hi));
    if let Some(sdwa) = details.sdwa.filter(Sdwa::selects_result) {
        let old = cx.wave.v.read(r);
        for (w, &old) in cx.unit.temp.dst[0].iter_mut().zip(old) {
            *w = place_part(*w, old, &sdwa);
        }
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

/// Puts a result into the part of the destination that SDWA selects.
fn place_part(value: u32, old: u32, sdwa: &Sdwa) -> u32 {
    let (shift, bits) = match sdwa.dst_sel {
        0..=3 => (8 * u32::from(sdwa.dst_sel), 8),
        _ => (16 * (u32::from(sdwa.dst_sel) & 1), 16),
    };
    let mask = ((1u32 << bits) - 1) << shift;
    let part = value << shift & mask;
    match sdwa.dst_unused {
        // UNUSED_SEXT: the bits above take the sign, those below are zero.
        1 => ((part << (32 - shift - bits)) as i32 >> (32 - shift - bits)) as u32,
        2 => part | old & !mask,
        _ => part,
    }
}

/// Output modifier, clamp and flushing of a result.
fn finish(details: &Details, kind: Kind, lo: &mut Row, hi: Option<&mut Row>) {
    match kind {
        Kind::F32 => lo.iter_mut().for_each(|w| *w = finish32(details, *w)),
        Kind::PkF32 => {
            lo.iter_mut().for_each(|w| *w = finish32(details, *w));
            if let Some(hi) = hi {
                hi.iter_mut().for_each(|w| *w = finish32(details, *w));
            }
        }
        Kind::F16 => lo.iter_mut().for_each(|w| *w = finish16(details, *w)),
        Kind::PkF16 => lo
            .iter_mut()
            .for_each(|w| *w = finish16(details, *w & 0xffff) | finish16(details, *w >> 16) << 16),
        Kind::Bf16 => lo
            .iter_mut()
            .for_each(|w| *w = finish32(details, *w << 16) >> 16),
        Kind::PkBf16 => lo.iter_mut().for_each(|w| {
            *w = finish32(details, *w << 16) >> 16
                | finish32(details, *w & 0xffff_0000) & 0xffff_0000
        }),
        Kind::F64 => {
            if let Some(hi) = hi {
                for (l, h) in lo.iter_mut().zip(hi) {
                    let x = f64::from_bits(u64::from(*l) | u64::from(*h) << 32);
                    let y = finish64(details, x).to_bits();
                    (*l, *h) = (y as u32, (y >> 32) as u32);
                }
            }
        }
        _ => {}
    }
}

fn finish32(details: &Details, bits: u32) -> u32 {
    let mut x = f32::from_bits(bits);
    // Output modifiers flush subnormal results and give no -0 (manuals: "Output modifiers").
    x = match details.omod {
        1 => x * 2.0,
        2 => x * 4.0,
        3 => x * 0.5,
        _ => x,
    };
    let mut bits = x.to_bits();
    if details.flush_out || details.omod != 0 {
        bits = flush32(bits);
    }
    if details.omod != 0 && bits == 0x8000_0000 {
        bits = 0;
    }
    if details.clamp {
        bits = clamp_bits(details, bits, 0x3f80_0000, 0x7f80_0000, 0x8000_0000);
    }
    bits
}

fn finish64(details: &Details, mut x: f64) -> f64 {
    x = match details.omod {
        1 => x * 2.0,
        2 => x * 4.0,
        3 => x * 0.5,
        _ => x,
    };
    if (details.flush_out || details.omod != 0) && x.is_subnormal() {
        x = 0f64.copysign(x);
    }
    if details.omod != 0 && x == 0.0 {
        x = 0.0;
    }
    if details.clamp {
        if x.is_nan() {
            return if details.clamp_nan { 0.0 } else { x };
        }
        x = if x > 1.0 {
            1.0
        } else if x > 0.0 {
            x
        } else {
            0.0
        };
    }
    x
}

fn finish16(details: &Details, bits: u32) -> u32 {
    let mut bits = bits & 0xffff;
    if details.omod != 0 && bits & 0x7c00 != 0x7c00 && bits & 0x7fff != 0 {
        // Scaling by a power of two: exact but for overflow and underflow.
        let (sign, e, m) = (bits & 0x8000, bits >> 10 & 31, bits & 0x3ff);
        let by = [0, 1, 2, -1][usize::from(details.omod & 3)];
        bits = match (e, e as i32 + by) {
            (0, _) => sign,
            (_, e) if e <= 0 => sign,
            (_, e) if e >= 31 => sign | 0x7c00,
            (_, e) => sign | (e as u32) << 10 | m,
        };
    }
    if details.flush_out || details.omod != 0 {
        bits = flush16(bits) & 0xffff;
    }
    if details.omod != 0 && bits == 0x8000 {
        bits = 0;
    }
    if details.clamp {
        bits = clamp_bits(details, bits, 0x3c00, 0x7c00, 0x8000);
    }
    bits
}

/// Clamps the bits of a float to 0..1: `one`, `inf` and the sign bit tell the format.
fn clamp_bits(details: &Details, bits: u32, one: u32, inf: u32, sign: u32) -> u32 {
    if bits & !sign > inf {
        return if details.clamp_nan { 0 } else { bits };
    }
    if bits & sign != 0 { 0 } else { bits.min(one) }
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
