//! CDNA3's fused sums, see `matrix::fused`.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::range::Fused;
use super::super::scratch::{MAX_K, Panel, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, reference, select, sources, unroll};

/// Exponents of a panel as bytes: floor(log2 |x|), at least `min`, less `base`; -128 for 0.
///
/// # Safety
/// The host must support the instructions of `V`.
#[inline(always)]
unsafe fn exponents<V: Vector>(
    panel: &[[f32; STRIDE]],
    out: &mut Panel<i8>,
    lanes: usize,
    min: i32,
    base: i32,
) {
    let bias = V::splat_i(-127 - base);
    let min = V::splat_i(min - base);
    for (row, out) in panel.iter().zip(out) {
        for lane in (0..lanes.min(STRIDE) / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: `lane + LANES` is at most STRIDE.
            unsafe {
                let x = V::shl::<1>(V::bits(V::load(row.as_ptr().add(lane))));
                let e = V::max_i(V::add_i(V::shr::<24>(x), bias), min);
                let e = V::select(V::equal(x, V::splat_i(0)), V::splat_i(-128), e);
                V::store_bytes(out.as_mut_ptr().add(lane), e);
            }
        }
    }
}

/// Fused sums of groups of `group` products; `parity` splits even from odd k.
///
/// Per lane: E, the largest exponent sum of the group, comes from byte arithmetic over
/// 16 columns. The products are exact in f32 and stay so when scaled to 2^(E - 24), so
/// that the conversion to i32 is the truncation towards zero. See [`tail`] for the rest.
///
/// Of each job only the rows that are `left` are formed.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn fused<V: Vector, const SPARSE: bool>(
    scratch: &mut Scratch,
    k: usize,
    plan: &Plan,
    tile: &Tile,
    shape: &Fused,
    left: &[u16; 8],
    (group, parity): (usize, bool),
) {
    // SAFETY: by the contract of this function.
    unsafe {
        match (group, parity) {
            (4, false) if !SPARSE => by_layout!(
                plan,
                [Tall, Square, Quad],
                L => jobs::<V, L, 4, false, SPARSE>(scratch, k, plan, tile, shape, left)
            ),
            (8, false) => by_layout!(
                plan,
                [Tall, Square],
                L => jobs::<V, L, 8, false, SPARSE>(scratch, k, plan, tile, shape, left)
            ),
            (16, true) => by_layout!(
                plan,
                [Tall, Square],
                L => jobs::<V, L, 16, true, SPARSE>(scratch, k, plan, tile, shape, left)
            ),
            _ => unreachable!("no instruction has groups of {group}"),
        }
    }
}

/// Biased exponents of a group of a job as bytes: E of even k or all, and of odd k.
#[repr(align(64))]
struct Tops([[[u8; 16]; 16]; 2]);

/// # Safety
/// As for `fused`.
#[inline(always)]
unsafe fn jobs<V: Vector, L: Layout, const GROUP: usize, const PARITY: bool, const SPARSE: bool>(
    scratch: &mut Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    shape: &Fused,
    left: &[u16; 8],
) {
    let most = if SPARSE { MAX_K / 2 } else { MAX_K };
    assert!(length <= most && length.is_multiple_of(GROUP));
    let limits = (shape.floor, (shape.bases.0 + shape.bases.1 + 127) as u8);
    let mut tops = Tops([[[0; 16]; 16]; 2]);
    let again = tile.again();
    {
        let Scratch { a, b, ea, eb, .. } = &mut *scratch;
        let (lanes_a, lanes_b, rows_b) = shape.panels;
        let ((base_a, base_b), (min_a, min_b)) = (shape.bases, shape.mins);
        // SAFETY: by the contract of this function.
        unsafe {
            exponents::<V>(&a[..length], ea, lanes_a, min_a, base_a);
            exponents::<V>(&b[..rows_b], eb, lanes_b, min_b, base_b);
        }
    }
    for (job, &left) in plan.jobs().iter().zip(left) {
        if left == 0 {
            continue;
        }
        for first in (0..length / GROUP).map(|i| i * GROUP) {
            let [even, odd] = &mut tops.0;
            let ea = &scratch.ea[first..first + GROUP];
            let eb = &scratch.eb[first..first + GROUP];
            if SPARSE {
                let rows = (first, GROUP);
                // SAFETY: the panels have been filled; the host has AVX2 at least.
                unsafe {
                    if PARITY {
                        select::exponents::<L, 0, 2>(scratch, job, rows, limits, even);
                        select::exponents::<L, 1, 2>(scratch, job, rows, limits, odd);
                    } else {
                        select::exponents::<L, 0, 1>(scratch, job, rows, limits, even);
                    }
                }
            } else if L::QUAD {
                V::quad_exponents(ea, eb, job.b, limits.0, limits.1, even);
            } else if PARITY {
                V::exponents::<0, 2>(ea, (job.a, L::NEXT), eb, job.b, limits, even);
                V::exponents::<1, 2>(ea, (job.a, L::NEXT), eb, job.b, limits, odd);
            } else {
                V::exponents::<0, 1>(ea, (job.a, L::NEXT), eb, job.b, limits, even);
            }
            // The sums go on in D.
            let tile = if first == 0 { tile } else { &again };
            // SAFETY: by the contract of this function; GROUP rows of the panels follow `first`.
            unsafe {
                let rows = (first, GROUP);
                let apart = reference::sums::<V, L, SPARSE>(
                    scratch,
                    (job, left),
                    rows,
                    tile,
                    shape,
                    PARITY,
                );
                if !shape.all {
                    let what = (job, left);
                    sums::<V, L, GROUP, PARITY, SPARSE>(scratch, what, first, tile, &tops);
                }
                if let Some(apart) = apart {
                    apart.store::<L>(job, tile);
                }
            }
        }
    }
}

/// One group of the rows of a job that are left.
///
/// # Safety
/// As for `fused`; the panels must have GROUP rows from `first` on.
#[inline(always)]
unsafe fn sums<V: Vector, L: Layout, const GROUP: usize, const PARITY: bool, const SPARSE: bool>(
    scratch: &Scratch,
    (job, left): (&Job, u16),
    first: usize,
    tile: &Tile,
    tops: &Tops,
) {
    for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
        let (a, b) = sources::<V, L>(scratch, job, lane);
        // SAFETY: rows `first` to `first + GROUP` are rows of the panels; rows of `tops`
        // have 16 elements; the plan fits the tile.
        unsafe {
            let a = a.add(first * STRIDE);
            let select =
                scratch.select.as_flattened()[first.min(MAX_K / 2 - 1) * STRIDE + job.a..].as_ptr();
            let mut bs = [V::zero(); GROUP];
            unroll!(GROUP, k => { if !SPARSE {
                    bs[k] = V::load(b.add((first + k) * STRIDE));
                } });
            for row in rows_of::<L>(left) {
                if SPARSE {
                    unroll!(GROUP, k => {
                        bs[k] = V::load(b.add(*select.add(k * STRIDE + L::source(row)) as usize));
                    });
                }
                let [even, odd] = &tops.0;
                let top0 = V::shl::<23>(V::load_bytes(even[row].as_ptr().add(lane)));
                let (top, sum) = if PARITY {
                    let top1 = V::shl::<23>(V::load_bytes(odd[row].as_ptr().add(lane)));
                    let sum0 = products::<V, L, GROUP, 0, 2>(a, &bs, row, top0);
                    let sum1 = products::<V, L, GROUP, 1, 2>(a, &bs, row, top1);
                    let top = V::max_i(top0, top1);
                    let (gap0, gap1) = (V::sub_i(top, top0), V::sub_i(top, top1));
                    let sum0 = V::sar_each(sum0, V::shr::<23>(gap0));
                    let sum1 = V::sar_each(sum1, V::shr::<23>(gap1));
                    (top, V::add_i(sum0, sum1))
                } else {
                    (top0, products::<V, L, GROUP, 0, 1>(a, &bs, row, top0))
                };
                let old = V::load(tile.c::<L>(job, row, lane));
                let mut result = tail::<V, PARITY>(sum, top, old);
                let infinity = V::splat_i(0x7f80_0000);
                let special = V::equal(V::and(V::bits(old), infinity), infinity);
                if V::is_any(special) {
                    // An infinite or NaN accumulator stays.
                    let old = V::bits(V::canonical(old));
                    result = V::float(V::select(special, old, V::bits(result)));
                }
                V::store(tile.d::<L>(job, row, lane), result);
            }
        }
    }
}

/// The rows of a job that have a bit.
#[inline(always)]
pub fn rows_of<L: Layout>(left: u16) -> impl Iterator<Item = usize> {
    (0..L::COUNT).filter(move |row| left >> row & 1 == 1)
}

/// 2^(24 - E) of the bits of 2^E: the exponent field is 24 + 127 - E, that is 278 less the
/// field of 2^E.
#[inline(always)]
fn scale_of<V: Vector>(top: V::I) -> V::F {
    V::float(V::sub_i(V::splat_i(278 << 23), top))
}

/// Sum of the products of every `STEP`th k from `START`, each truncated towards zero to a
/// multiple of 2^(E - 24), in these units. `top` has E as the bits of 2^E.
///
/// # Safety
/// `a` must point to row 0 of the strip in the first of GROUP rows of A's panel.
#[inline(always)]
unsafe fn products<
    V: Vector,
    L: Layout,
    const GROUP: usize,
    const START: usize,
    const STEP: usize,
>(
    a: *const f32,
    b: &[V::F; GROUP],
    row: usize,
    top: V::I,
) -> V::I {
    let scale = scale_of::<V>(top);
    let mut sum = V::splat_i(0);
    unroll!(GROUP, k => {
        if k % STEP == START {
            // SAFETY: by the contract of this function.
            let a = unsafe { a_at::<V, L>(a.add(k * STRIDE), row) };
            let product = V::mul(a, b[k]);
            sum = V::add_i(sum, V::truncate(V::mul(product, scale)));
        }
    });
    sum
}

/// Adds the accumulator `s` to a group's sum `sum x 2^(E - 24)` and rounds once. `top` has the bits of 2^E. What
/// comes of an infinite or NaN accumulator is of no use.
///
/// With E2 = max(E, e(s)) and g = E2 - E the accumulator counts as floor(s x 2^(24 - E2))
/// in units of 2^(E2 - 24), and the sum is floored to multiples of 2^(E2 - 31).
///
/// If g <= 5 that takes nothing from the sum. If g = 0, E2 is E; if g > 0, E2 is e(s) and
/// the floor takes nothing from s. So either way the accumulator is floor(s x 2^(24 - E))
/// in the units of the sum, below 2^30. The sum is below 8 x 4 x 2^24 (PARITY: 16 products
/// below 1.875^2 x 2^24), so an i32 holds the total, the conversion to f32 is the one
/// rounding, and the product with the unit is exact.
///
/// If g > 5 the unit is 2^loss larger, loss = g - 5, and the sum loses as many bits, at
/// most two of which (the floor at 2^(E2 - 31) drops the others) are not zero by rule:
/// they are jammed into the lowest bit. That is right if the total has 26 bits at least,
/// two more than the result. |s| is 2^E2 or more. Without PARITY the sum is below
/// 2^(E + 5), so the total is at least 2^(E2 - 1), 2^28 units. With PARITY the sum is below
/// 16 x 1.875^2 < 57 times 2^E, so the total is above 7 x 2^(E2 - 6), 2^25 units.
#[inline(always)]
fn tail<V: Vector, const PARITY: bool>(sum: V::I, top: V::I, s: V::F) -> V::F {
    // Exponent fields, which may go beyond those of numbers: of 2^(E + 5), and of the larger of that and s.
    let near = V::add_i(top, V::splat_i(5 << 23));
    let power = V::and(V::bits(s), V::splat_i(0x7f80_0000));
    let larger = V::max_u(power, near);
    let loss = V::shr::<23>(V::sub_i(larger, near));
    // 2^(24 - E - loss), and the unit.
    let scale = V::sub_i(V::splat_i(283 << 23), larger);
    let unit = V::sub_i(larger, V::splat_i(29 << 23));
    let accumulator = V::floor_product::<PARITY>(s, V::float(scale));
    let jammed = if PARITY {
        let floor = V::sub_floor(loss, V::splat_i(2));
        let rest = V::sub_i(loss, floor);
        let floored = V::sar_each(sum, floor);
        let kept = V::sar_each(floored, rest);
        let dropped = V::sub_i(floored, V::shl_each(kept, rest));
        V::or(kept, V::shr::<2>(carry::<V>(dropped)))
    } else {
        // The sum has two bits to spare: below 8 x 4 x 2^24.
        let floored = V::sar_each(V::shl::<2>(sum), loss);
        V::sar::<2>(V::or(floored, carry::<V>(floored)))
    };
    let total = V::convert(V::add_i(jammed, accumulator));
    V::mul(total, V::float(unit))
}

/// Has bit 2 where any of the lower two bits are set, and none above it.
#[inline(always)]
fn carry<V: Vector>(x: V::I) -> V::I {
    let low = V::splat_i(3);
    V::add_i(V::and(x, low), low)
}
