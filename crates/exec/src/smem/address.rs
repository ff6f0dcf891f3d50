//! Addresses of scalar accesses: base and offsets, and the bounds of buffers.

use crate::error::Cause;
use crate::record::{Flow, Operand, Record};
use crate::wave::{Cx, scalar};

/// Base + immediate + register offset, each cut to a multiple of `align` bytes (manuals, "Scalar memory
/// addressing": the low bits of every component are ignored).
#[inline(always)]
pub fn plain(cx: &Cx<'_, '_>, record: &Record, align: u64) -> u64 {
    let mask = !(align - 1);
    let scale = (record.imm2 >> 8 & 0xff) as u64;
    let base = cx.get64(record.src[0]) & mask;
    let register = u64::from(cx.get32(record.src[1])).wrapping_mul(scale) & mask;
    base.wrapping_add(record.imm as u64 & mask)
        .wrapping_add(register)
}

/// What a buffer access needs of its descriptor.
pub struct Buffer {
    /// First byte of the buffer.
    pub base: u64,
    /// Bytes that may be accessed.
    pub size: u64,
    /// Offset of the access.
    pub offset: u64,
}

/// The buffer and the offset in it. `align` as for [`plain`].
///
/// Descriptor: gfx9 to gfx12.0 base 47:0, stride 61:48, records 95:64 (CDNA3 8.2.1, RDNA4 8.1.2); gfx1250
/// base 56:0, records 101:57, stride 121:108 (CDNA5 8.1.2). Stride counts for the bounds only.
///
/// # Errors
/// A negative immediate is a memory violation (RDNA3 manual 8.1.2), as is one on gfx9 that makes the offset
/// negative ("illegal and undefined").
pub fn buffer(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    align: u64,
    wide: bool,
) -> Result<Buffer, Flow> {
    resolve(cx, record, align, wide).map_err(|what| cx.fault(record, Cause::Illegal { what }))
}

/// As [`buffer`], without an end of the wave.
///
/// # Errors
/// What is wrong, in words.
pub fn resolve(cx: &Cx<'_, '_>, record: &Record, align: u64, wide: bool) -> Result<Buffer, String> {
    let mask = !(align - 1);
    let register = u64::from(cx.get32(record.src[1]));
    let offset = (record.imm as u64 & mask).wrapping_add(register & mask);
    let negative = if cx.unit.target.is_cdna() {
        (offset as i64) < 0
    } else {
        record.imm < 0
    };
    if negative {
        let what = format!(
            "scalar buffer access at a negative offset ({} + {register})",
            record.imm
        );
        return Err(what);
    }
    let mut words = [0; 4];
    if let Operand::Scalar(n) = record.src[0] {
        let first = usize::from(n);
        if let Some(descriptor) = cx
            .wave
            .s
            .get(first..first + 4)
            .filter(|_| first <= scalar::NULL - 4)
        {
            words.copy_from_slice(descriptor);
        }
    }
    let low = u64::from(words[0]) | u64::from(words[1]) << 32;
    let high = u64::from(words[2]) | u64::from(words[3]) << 32;
    let (base, stride, records) = if wide {
        (
            low & ((1 << 57) - 1),
            high >> 44 & 0x3fff,
            (low >> 57 | high << 7) & ((1 << 45) - 1),
        )
    } else {
        (
            low & 0xffff_ffff_ffff,
            low >> 48 & 0x3fff,
            high & 0xffff_ffff,
        )
    };
    let size = stride.max(1).saturating_mul(records);
    let size = if cx.unit.target.generation() >= 12 {
        size & mask
    } else {
        size
    };
    Ok(Buffer {
        base: base & mask,
        size,
        offset,
    })
}
