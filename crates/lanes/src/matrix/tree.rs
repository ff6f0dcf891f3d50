//! CDNA1 and CDNA2, f16 and bf16: groups of two or four products are summed as a tree of f32
//! additions, then added to the accumulator. CDNA2 flushes subnormals on the way.

const MIN_NORMAL: f32 = f32::MIN_POSITIVE;

/// A result below 2^-126 after rounding becomes a zero of its sign.
fn flush_result(x: f32) -> f32 {
    if x.abs() < MIN_NORMAL {
        0f32.copysign(x)
    } else {
        x
    }
}

/// A subnormal operand becomes +0; `limit` is the smallest normal number of its format.
pub(super) fn flush_operand(x: f32, limit: f32) -> f32 {
    if x.abs() < limit { 0.0 } else { x }
}

/// `c + a . b`, in groups of `group` (2 or 4). `flush`: CDNA2; operands were flushed before.
pub(super) fn f32(a: &[f32], b: &[f32], c: f32, group: usize, flush: bool) -> f32 {
    let keep = |x: f32| if flush { flush_result(x) } else { x };
    let mut sum = if flush {
        flush_operand(c, MIN_NORMAL)
    } else {
        c
    };
    for (a, b) in a.chunks(group).zip(b.chunks(group)) {
        let p = |k: usize| keep(a[k].mul_add(b[k], 0.0));
        let g = match a.len() {
            4 => keep(keep(p(0) + p(1)) + keep(p(2) + p(3))),
            2 => keep(p(0) + p(1)),
            _ => p(0),
        };
        sum = keep(sum + g);
    }
    sum
}
