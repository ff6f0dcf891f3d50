//! Registers to matrices and back, one element at a time, for every family and modifier.

use super::formats;
use super::layout::{self, Registers, Slot};
use super::op::{Element, Family, Kind, MatrixOp};
use super::{COperand, Operands, ScaleOperand};

/// The bits of an item of `width` bits of a lane; 0 where there is no such register.
///
/// # Safety
/// The registers must have the lanes that the layout of their instruction names.
#[inline]
unsafe fn item(rows: &[*const u32], slot: Slot, width: usize) -> u64 {
    let bit = slot.item * width;
    let word = |reg: usize| {
        // SAFETY: by the contract of this function.
        rows.get(reg)
            .map_or(0, |row| u64::from(unsafe { row.add(slot.lane).read() }))
    };
    let low = word(bit / 32);
    let value = if bit % 32 + width > 32 {
        low | word(bit / 32 + 1) << 32
    } else {
        low
    };
    let value = value >> (bit % 32);
    if width == 64 {
        value
    } else {
        value & ((1 << width) - 1)
    }
}

/// A as `[block][row][k]`, stored elements only.
///
/// # Safety
/// As for `item`.
pub(super) unsafe fn a_bits(op: &MatrixOp, rows: &[*const u32]) -> Vec<u64> {
    let split = layout::a_split(op);
    let mut out = Vec::with_capacity(op.blocks * op.m * op.stored_k());
    for block in 0..op.blocks {
        for row in 0..op.m {
            for k in 0..op.stored_k() {
                let mut slot = layout::a_slot(op, split, block, row, k);
                slot.lane = layout::broadcast_a(op, slot.lane);
                // SAFETY: by the contract of this function.
                let bits = unsafe { item(rows, slot, op.a.bits()) };
                out.push(negate(op, op.a, bits, 0, slot.item));
            }
        }
    }
    out
}

/// B as `[block][column][k]`.
///
/// # Safety
/// As for `item`.
pub(super) unsafe fn b_bits(op: &MatrixOp, rows: &[*const u32]) -> Vec<u64> {
    let split = layout::b_split(op);
    let mut out = Vec::with_capacity(op.blocks * op.n * op.k);
    for block in 0..op.blocks {
        for column in 0..op.n {
            for k in 0..op.k {
                let mut slot = layout::b_slot(op, split, block, k, column);
                slot.lane = layout::permute_b(op, slot.lane);
                // SAFETY: by the contract of this function.
                let bits = unsafe { item(rows, slot, op.b.bits()) };
                out.push(negate(op, op.b, bits, 1, slot.item));
            }
        }
    }
    out
}

/// Applies NEG (even items) and NEG_HI (odd items) of WMMA to 16-bit floats, BLGP to f64.
fn negate(op: &MatrixOp, element: Element, bits: u64, operand: u32, item: usize) -> u64 {
    match element {
        Element::F64 => bits ^ u64::from(op.mods.blgp >> operand & 1) << 63,
        Element::F16 | Element::Bf16 if !op.family.is_mfma() => {
            let field = if item.is_multiple_of(2) {
                op.mods.neg
            } else {
                op.mods.neg_hi
            };
            bits ^ u64::from(field >> operand & 1) << 15
        }
        _ => bits,
    }
}

/// The value of an integer element; `operand` is 0 for A, 1 for B.
pub(super) fn integer(op: &MatrixOp, element: Element, bits: u64, operand: u32) -> i32 {
    let signed = element == Element::I8 || op.mods.neg >> operand & 1 == 1;
    let shift = 32 - element.bits();
    if signed {
        ((bits as u32) << shift) as i32 >> shift
    } else {
        bits as i32
    }
}

/// For each row of A and stored k, the index of the row of B that it multiplies.
///
/// # Safety
/// As for `item`.
pub(super) unsafe fn sparse_columns(op: &MatrixOp, index: &[*const u32]) -> Vec<usize> {
    let split = layout::a_split(op);
    let base = layout::index_base(op);
    let mut out = Vec::with_capacity(op.m * op.stored_k());
    for row in 0..op.m {
        for k in 0..op.stored_k() {
            let slot = layout::a_slot(op, split, 0, row, k);
            let slot = Slot {
                lane: slot.lane,
                item: base / 2 + slot.item,
            };
            // SAFETY: by the contract of this function.
            out.push(k / 2 * 4 + unsafe { item(index, slot, 2) } as usize);
        }
    }
    out
}

/// C as `[block][row][column]`, its modifiers applied.
///
/// # Safety
/// As for `item`.
pub(super) unsafe fn c_bits(
    op: &MatrixOp,
    c: COperand<'_, *const u32>,
    d: &[*mut u32],
) -> Vec<u64> {
    let width = op.c.bits();
    let sign = 1u64 << (width - 1);
    let mut out = Vec::with_capacity(op.blocks * op.m * op.n);
    for block in 0..op.blocks {
        for row in 0..op.m {
            for column in 0..op.n {
                let slot = d_item(op, op.c, layout::d_slot(op, block, row, column));
                let mut bits = match c {
                    COperand::Constant(value) => value & (u64::MAX >> (64 - width)),
                    // SAFETY: by the contract of this function.
                    COperand::Rows(rows) => unsafe { item(rows, slot, width) },
                    COperand::InPlace => {
                        let rows: Vec<_> = d.iter().map(|row| row.cast_const()).collect();
                        // SAFETY: by the contract of this function.
                        unsafe { item(&rows, slot, width) }
                    }
                };
                if op.c == Element::F64 {
                    bits ^= u64::from(op.mods.blgp >> 2 & 1) << 63;
                } else if !op.family.is_mfma() && !op.c.is_integer() {
                    if op.mods.neg_hi & 4 != 0 {
                        bits &= !sign;
                    }
                    if op.mods.neg & 4 != 0 {
                        bits ^= sign;
                    }
                }
                out.push(bits);
            }
        }
    }
    out
}

/// On RDNA3 a 16-bit result uses one half of a register; OP_SEL[2] says which.
fn d_item(op: &MatrixOp, element: Element, slot: Slot) -> Slot {
    if op.family == Family::Rdna3 && element.bits() == 16 {
        let half = usize::from(op.mods.op_sel >> 2 & 1);
        return Slot {
            lane: slot.lane,
            item: slot.item * 2 + half,
        };
    }
    slot
}

/// Stores one element of D.
///
/// # Safety
/// As for `item`.
pub(super) unsafe fn store(
    op: &MatrixOp,
    d: &[*mut u32],
    block: usize,
    row: usize,
    column: usize,
    bits: u64,
) {
    let slot = d_item(op, op.d, layout::d_slot(op, block, row, column));
    let width = op.d.bits();
    let bit = slot.item * width;
    let put = |reg: usize, value: u32, mask: u32| {
        if let Some(row) = d.get(reg) {
            // SAFETY: by the contract of this function.
            unsafe {
                let to = row.add(slot.lane);
                to.write(to.read() & !mask | value & mask);
            }
        }
    };
    match width {
        64 => {
            put(bit / 32, bits as u32, u32::MAX);
            put(bit / 32 + 1, (bits >> 32) as u32, u32::MAX);
        }
        32 => put(bit / 32, bits as u32, u32::MAX),
        _ => put(
            bit / 32,
            (bits as u32) << (bit % 32),
            ((1u32 << width) - 1) << (bit % 32),
        ),
    }
}

/// Scale factor of row (column) `line` and block `group` of K, as a byte.
///
/// CDNA4 section 7.2.1: lane = line + lines x group, byte chosen by OP_SEL. CDNA5 section
/// 7.12.6.2: lane = line (+ 16 if selected), byte `group` of the register pair.
///
/// # Safety
/// As for `item`.
#[inline]
pub(super) unsafe fn scale_byte(
    op: &MatrixOp,
    scale: ScaleOperand<'_, *const u32>,
    lines: usize,
    line: usize,
    group: usize,
    sel: u8,
) -> u8 {
    let rows = match scale {
        ScaleOperand::One => return 127,
        ScaleOperand::Constant(byte) => return byte,
        ScaleOperand::Rows(rows) => rows,
    };
    let slot = scale_slot(op, lines, line, group, sel);
    // SAFETY: by the contract of this function.
    unsafe { item(rows, slot, 8) as u8 }
}

/// Where the scale factor of a line of an operand of so many lines lies.
#[inline(always)]
fn scale_slot(op: &MatrixOp, lines: usize, line: usize, group: usize, sel: u8) -> Slot {
    if op.family == Family::Cdna4 {
        return Slot {
            lane: line + lines * group,
            item: usize::from(sel & 3),
        };
    }
    let half = if lines == 16 {
        16 * usize::from(sel & 1)
    } else {
        0
    };
    Slot {
        lane: line + half,
        item: group,
    }
}

/// The scale factors' bytes of the first lines of an operand: see [`scale_byte`].
///
/// # Safety
/// As for `item`.
#[inline(always)]
pub(super) unsafe fn scale_bytes(
    op: &MatrixOp,
    scale: ScaleOperand<'_, *const u32>,
    group: usize,
    sel: u8,
    out: &mut [u8],
) {
    let ScaleOperand::Rows(rows) = scale else {
        // SAFETY: by the contract of this function.
        out.fill(unsafe { scale_byte(op, scale, out.len(), 0, group, sel) });
        return;
    };
    let Slot { lane, item } = scale_slot(op, out.len(), 0, group, sel);
    let Some(row) = rows.get(item / 4) else {
        out.fill(0);
        return;
    };
    for (line, out) in out.iter_mut().enumerate() {
        // SAFETY: by the contract of this function: lines lie side by side.
        *out = unsafe { row.add(lane + line).read() >> (item % 4 * 8) } as u8;
    }
}

/// Magnitudes below this are flushed to +0 before the arithmetic.
pub(super) fn flush_limit(op: &MatrixOp, element: Element) -> f32 {
    match (op.family, element) {
        (Family::Cdna2, Element::F16) => 2f32.powi(-14),
        (Family::Cdna2 | Family::Rdna3, Element::Bf16) => f32::MIN_POSITIVE,
        (_, Element::F32) if op.mods.flush_f32 && op.family.is_mfma() => f32::MIN_POSITIVE,
        _ => 0.0,
    }
}

/// Decoded floats of an operand, with the input flushes that come before the arithmetic.
pub(super) fn floats(op: &MatrixOp, element: Element, bits: &[u64]) -> Vec<f32> {
    let limit = flush_limit(op, element);
    bits.iter()
        .map(|&bits| {
            let x = formats::decode(element, bits as u32);
            if x.abs() < limit { 0.0 } else { x }
        })
        .collect()
}

/// Whether the operands have enough rows and lanes.
pub(super) fn check(
    op: &MatrixOp,
    need: &Registers,
    operands: &Operands<'_>,
    d: usize,
) -> Result<(), super::MatrixError> {
    let rows = |operand: &'static str, rows: &[&[u32]], need: usize| {
        let lanes = rows.iter().map(|row| row.len()).min().unwrap_or(op.wave);
        if rows.len() < need || lanes < op.wave {
            return Err(super::MatrixError::Operand {
                operand,
                need,
                got: rows.len(),
                lanes,
                wave: op.wave,
            });
        }
        Ok(())
    };
    rows("A", operands.a, need.a)?;
    rows("B", operands.b, need.b)?;
    if let COperand::Rows(c) = operands.c {
        rows("C", c, need.c)?;
    }
    if op.kind == Kind::Sparse {
        rows("the index", operands.index, need.index)?;
    }
    for (name, scale) in [
        ("A's scale", operands.scale_a),
        ("B's scale", operands.scale_b),
    ] {
        if let ScaleOperand::Rows(scale) = scale {
            rows(name, scale, need.scale)?;
        }
    }
    let need = if matches!(operands.c, COperand::InPlace) {
        need.d.max(need.c)
    } else {
        need.d
    };
    if d < need {
        return Err(super::MatrixError::Operand {
            operand: "D",
            need,
            got: d,
            lanes: 64,
            wave: op.wave,
        });
    }
    Ok(())
}
