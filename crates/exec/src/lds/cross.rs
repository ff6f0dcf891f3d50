//! DS instructions that move data between lanes and touch no memory: permutations and swizzles.

use rocjitsu_isa::Op;

use super::register;
use crate::lower::Lowering;
use crate::record::{Flow, Handler, Record};
use crate::vmem::LANES;
use crate::vmem::address::for_lanes;
use crate::wave::Cx;

type Row = [u32; LANES];

/// The handler of such an instruction.
pub fn lower(name: &str, record: &mut Record, lowering: &Lowering) -> Option<Handler> {
    // Lanes that an index reaches: the wave's, but only its own half in a wave of 64 on gfx11 (LLVM:
    // `supportsWaveWideBPERMUTE`). Scaled by 4, since indices are byte addresses.
    let lanes = if lowering.target.generation() == 11 {
        32
    } else {
        lowering.lanes()
    };
    record.imm2 = i64::from(lanes - 1);
    Some(match name {
        "bpermute_b32" => |cx, r| bpermute(cx, r, false),
        "bpermute_fi_b32" => |cx, r| bpermute(cx, r, true),
        "permute_b32" => permute,
        "swizzle_b32" => swizzle,
        _ => return None,
    })
}

fn copy(cx: &Cx<'_, '_>, r: u32) -> Row {
    let mut out = [0; LANES];
    let row = cx.wave.v.read(r);
    out[..row.len()].copy_from_slice(row);
    out
}

fn write_active(cx: &mut Cx<'_, '_>, record: &Record, values: &Row) {
    let exec = cx.wave.exec();
    let dst = cx.wave.v.write(register(record.dst), &mut cx.unit.pool);
    for (l, (d, &v)) in dst.iter_mut().zip(values).enumerate() {
        *d = if exec >> l & 1 != 0 { v } else { *d };
    }
}

/// The lane that an index names, seen from `lane`.
#[inline(always)]
fn other(record: &Record, index: u32, lane: usize) -> usize {
    let mask = record.imm2 as usize;
    (index.wrapping_add(record.imm as u32) >> 2) as usize & mask | lane & !mask & (LANES - 1)
}

/// Each lane reads the lane that its index names; disabled lanes read as zero unless `all`.
fn bpermuted(cx: &Cx<'_, '_>, record: &Record, all: bool, data: &Row) -> Row {
    let exec = if all { !0 } else { cx.wave.exec() };
    let index = copy(cx, register(record.src[0]));
    let mut out = [0; LANES];
    for (lane, o) in out.iter_mut().enumerate() {
        let from = other(record, index[lane], lane);
        *o = if exec >> from & 1 != 0 { data[from] } else { 0 };
    }
    out
}

fn bpermute(cx: &mut Cx<'_, '_>, record: &Record, all: bool) -> Flow {
    let data = copy(cx, register(record.src[2]));
    let out = bpermuted(cx, record, all, &data);
    write_active(cx, record, &out);
    Flow::Next
}

/// Each active lane writes to the lane that its index names; the highest wins, others get zero.
fn permuted(cx: &Cx<'_, '_>, record: &Record, data: &Row) -> Row {
    let index = copy(cx, register(record.src[0]));
    let mut out = [0; LANES];
    for_lanes(cx.wave.exec(), |lane| {
        out[other(record, index[lane], lane)] = data[lane]
    });
    out
}

fn permute(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let data = copy(cx, register(record.src[2]));
    let out = permuted(cx, record, &data);
    write_active(cx, record, &out);
    Flow::Next
}

/// What lanes get of a row of values where an instruction of this module moves them; zeros from nobody.
pub fn exchanged(cx: &Cx<'_, '_>, record: &Record, data: &Row) -> Option<Row> {
    Some(match record.inst.op() {
        Op::ds_bpermute_b32 => bpermuted(cx, record, false, data),
        Op::ds_bpermute_fi_b32 => bpermuted(cx, record, true, data),
        Op::ds_permute_b32 => permuted(cx, record, data),
        Op::ds_swizzle_b32 => swizzled_row(cx, record, data),
        _ => return None,
    })
}

/// The lane that lane `i` reads under a swizzle pattern (manuals: DS_SWIZZLE_B32).
pub fn swizzled(offset: u32, i: u32) -> u32 {
    if offset >= 0xe000 {
        // FFT: bits reversed above the mask.
        let mask = offset & 31;
        let reversed = (i & 31).reverse_bits() >> 27;
        reversed >> mask.count_ones() | i & mask | i & 32
    } else if offset >= 0xc000 {
        let (rotate, mask) = (offset >> 5 & 31, offset & 31);
        let rotate = if offset >> 10 & 1 != 0 {
            rotate.wrapping_neg()
        } else {
            rotate
        };
        i & mask | i.wrapping_add(rotate) & !mask & 31 | i & 32
    } else if offset >> 15 != 0 {
        i & !3 | offset >> (2 * (i & 3)) & 3
    } else {
        let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
        ((i & 31 & and) | or) ^ xor | i & 32
    }
}

fn swizzled_row(cx: &Cx<'_, '_>, record: &Record, data: &Row) -> Row {
    let exec = cx.wave.exec();
    let mut out = [0; LANES];
    for (i, o) in out.iter_mut().enumerate() {
        let j = swizzled(record.imm as u32, i as u32) as usize;
        *o = if exec >> j & 1 != 0 { data[j] } else { 0 };
    }
    out
}

fn swizzle(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    // The data is in the register that other DS instructions have their address in.
    let data = copy(cx, register(record.src[0]));
    let out = swizzled_row(cx, record, &data);
    write_active(cx, record, &out);
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::swizzled;

    fn pattern(offset: u32) -> Vec<u32> {
        (0..32).map(|i| swizzled(offset, i) + 1).collect()
    }

    /// The examples of the manuals' DS_SWIZZLE_B32 section (input 1, 2, ... 0x20).
    #[test]
    fn swizzles_as_the_manual_shows() {
        let fft = [
            1, 0x11, 9, 0x19, 5, 0x15, 0xd, 0x1d, 3, 0x13, 0xb, 0x1b, 7, 0x17, 0xf, 0x1f, 2, 0x12,
            0xa, 0x1a, 6, 0x16, 0xe, 0x1e, 4, 0x14, 0xc, 0x1c, 8, 0x18, 0x10, 0x20,
        ];
        assert_eq!(pattern(0xe000), fft);
        let fft10 = [
            1, 9, 5, 0xd, 3, 0xb, 7, 0xf, 2, 0xa, 6, 0xe, 4, 0xc, 8, 0x10, 0x11, 0x19, 0x15, 0x1d,
            0x13, 0x1b, 0x17, 0x1f, 0x12, 0x1a, 0x16, 0x1e, 0x14, 0x1c, 0x18, 0x20,
        ];
        assert_eq!(pattern(0xe010), fft10);
        assert_eq!(pattern(0xe01f), (1..=32).collect::<Vec<_>>());
        let left: Vec<u32> = (2..=32).chain([1]).collect();
        assert_eq!(pattern(0xc020), left);
        let right: Vec<u32> = [32].into_iter().chain(1..=31).collect();
        assert_eq!(pattern(0xc420), right);
        let left1: Vec<u32> = (0..32)
            .map(|i| {
                if i % 2 == 0 {
                    i + 1
                } else {
                    (i + 2) % 32 + if i == 31 { 1 } else { 0 }
                }
            })
            .collect();
        assert_eq!(pattern(0xc021)[..6], [1, 4, 3, 6, 5, 8]);
        assert_eq!(left1.len(), 32);
        assert_eq!(pattern(0xc421)[..6], [0x1f, 2, 1, 4, 3, 6]);
        // Quad permutation 3, 2, 1, 0 and a reversal of 32.
        assert_eq!(pattern(0x801b)[..4], [4, 3, 2, 1]);
        assert_eq!(pattern(0x7c1f), (1..=32).rev().collect::<Vec<_>>());
    }
}
