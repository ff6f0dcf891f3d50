//! f64 products: 16x16x4, or four blocks of 4x4x4.

use super::super::super::formats::NAN64;
use super::super::tile::Tile;
use super::super::vector::Vector;

/// Adds the products of A and B to C. `signs` flips A, B and C.
///
/// # Safety
/// The host must support the instructions of `V`. A, B have two registers of 64 lanes, C and D
/// eight (one block) or two (four blocks).
#[inline(always)]
pub unsafe fn double<V: Vector>(
    a: &[*const u32],
    b: &[*const u32],
    tile: &Tile,
    blocks: usize,
    signs: [u64; 3],
) {
    // SAFETY: by the contract of this function.
    let (a, b) = unsafe { (join::<V>(a, signs[0]), join::<V>(b, signs[1])) };
    let negate = V::splat_d(f64::from_bits(signs[2]));
    for item in 0..if blocks == 4 { 1 } else { 4 } {
        for quarter in 0..4 {
            for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
                // SAFETY: registers have 64 lanes, rows of `a` and `b` sixteen.
                unsafe {
                    let at = 16 * quarter + lane;
                    let (low, high) = V::zip_d(
                        V::load(tile.c[2 * item].add(at).cast()),
                        V::load(tile.c[2 * item + 1].add(at).cast()),
                    );
                    let (mut low, mut high) = (V::xor_d(low, negate), V::xor_d(high, negate));
                    for (a, b) in a.iter().zip(&b) {
                        // One row for all columns, or row `quarter` of four blocks.
                        let rows = if blocks == 4 {
                            let spread: [f64; 16] =
                                std::array::from_fn(|lane| a[lane / 4 * 4 + quarter]);
                            let from = spread.as_ptr().add(lane);
                            (V::load_d(from), V::load_d(from.add(V::LANES / 2)))
                        } else {
                            let row = V::splat_d(a[4 * item + quarter]);
                            (row, row)
                        };
                        let b = b.as_ptr().add(lane);
                        low = V::fma_d(rows.0, V::load_d(b), low);
                        high = V::fma_d(rows.1, V::load_d(b.add(V::LANES / 2)), high);
                    }
                    let nan = f64::from_bits(NAN64);
                    let (low, high) =
                        V::unzip_d(V::canonical_d(low, nan), V::canonical_d(high, nan));
                    V::store(tile.d[2 * item].add(at).cast(), low);
                    V::store(tile.d[2 * item + 1].add(at).cast(), high);
                }
            }
        }
    }
}

/// The doubles of two registers, by k (16 lanes each).
///
/// # Safety
/// As for `double`.
#[inline(always)]
unsafe fn join<V: Vector>(rows: &[*const u32], sign: u64) -> [[f64; 16]; 4] {
    let mut out = [[0f64; 16]; 4];
    let sign = V::splat_d(f64::from_bits(sign));
    for lane in (0..64 / V::LANES).map(|i| i * V::LANES) {
        // SAFETY: by the contract of this function; `out` has 64 doubles.
        unsafe {
            let (low, high) = V::zip_d(
                V::load(rows[0].add(lane).cast()),
                V::load(rows[1].add(lane).cast()),
            );
            let to = out.as_mut_ptr().cast::<f64>().add(lane);
            V::store_d(to, V::xor_d(low, sign));
            V::store_d(to.add(V::LANES / 2), V::xor_d(high, sign));
        }
    }
    out
}
