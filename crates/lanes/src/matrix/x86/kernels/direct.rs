//! FMA chains of results that are 16 columns wide, with AVX-512: their sums fit the registers, each vector of B is
//! multiplied once, and so B is decoded on the way and needs no panel.

use super::super::super::op::Element;
use super::super::plan::{Job, Layout, Plan, Unpack, by_layout};
use super::super::range::Exact;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::chain::{Left, exactly};
use super::unpack::{bf8_quarters, bf16_halves, e4m3_nan, e4m3_quarters, halves};
use super::{Strip, Sums, a_at, strips, unroll, words_at};

/// B: how its words hold it, and its registers.
pub type Operand<'a> = (&'a Unpack, &'a [*const u32]);

/// Elements that are decoded on the way.
pub fn decodes(element: Element) -> bool {
    matches!(
        element,
        Element::F16 | Element::Bf16 | Element::Fp8 | Element::Fp8Fnuz | Element::Bf8
    )
}

/// Words of one element type.
trait Words {
    /// Elements of a word.
    const ITEMS: usize;

    /// The elements of each word, the lowest first; `flip` has the bits to flip.
    fn decode<V: Vector>(x: V::I, flip: V::I) -> [V::F; 4];
}

macro_rules! words {
    ($($name:ident, $items:literal, ($vector:ident, $x:ident, $flip:ident) => $decode:expr;)*) => {
        $(
            struct $name;

            impl Words for $name {
                const ITEMS: usize = $items;

                #[inline(always)]
                fn decode<$vector: Vector>($x: $vector::I, $flip: $vector::I) -> [$vector::F; 4] {
                    $decode
                }
            }
        )*
    };
}

words! {
    F16, 2, (V, x, flip) => two::<V>(halves::<V>(V::xor(x, flip)));
    Bf16, 2, (V, x, flip) => two::<V>(bf16_halves::<V>(V::xor(x, flip)));
    Bf8, 4, (V, x, _flip) => bf8_quarters::<V>(x);
    Fp8, 4, (V, x, _flip) => e4m3_quarters::<V>(Element::Fp8, x);
    Fp8Fnuz, 4, (V, x, _flip) => e4m3_quarters::<V>(Element::Fp8Fnuz, x);
}

#[inline(always)]
fn two<V: Vector>([low, high]: [V::F; 2]) -> [V::F; 4] {
    [low, high, V::zero(), V::zero()]
}

/// Evaluates a call with `$words` standing for the words of an element.
macro_rules! by_element {
    ($element:expr, $words:ident => $call:expr) => {
        by_element!(@ $element, $words, $call, F16 Bf16 Bf8 Fp8 Fp8Fnuz)
    };
    (@ $element:expr, $words:ident, $call:expr, $($name:ident)*) => {
        match $element {
            $(Element::$name => {
                type $words = $name;
                $call
            })*
            element => unreachable!("{element:?} is not decoded on the way"),
        }
    };
}

/// Plain chains over A's panel and B; false if B has NaN of E4M3, and then nothing is done.
///
/// # Safety
/// The host must support the instructions of `V`, 16 lanes; the plan must fit the tile, and B have the registers that the
/// instruction needs.
#[inline(always)]
pub unsafe fn chain<V: Vector>(
    scratch: &Scratch,
    b: Operand<'_>,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    wave: usize,
) -> bool {
    // SAFETY: by the contract of this function.
    if unsafe { has_nan::<V>(b, wave) } {
        return false;
    }
    by_element!(b.0.element, Words => by_layout!(plan, [Wave32], L => {
        strips!(V, L, plan, (job, number, row, lane) => {
            // SAFETY: by the contract of this function.
            unsafe { strip::<V, L, Words, false>(scratch, b, length, job, tile, 0.0) };
        });
    }));
    true
}

/// Exact chains, as [`super::chain::exact`]. B must be without NaN.
///
/// # Safety
/// As for `chain`.
#[inline(always)]
pub unsafe fn exact<V: Vector>(
    scratch: &Scratch,
    b: Operand<'_>,
    length: usize,
    plan: &Plan,
    tile: &Tile,
    exact: &Exact,
    left: &mut [u16; 8],
) -> bool {
    let mut left = Left::new(left);
    by_element!(b.0.element, Words => by_layout!(plan, [Square], L => {
        strips!(V, L, plan, (job, number, row, lane) => {
            // SAFETY: by the contract of this function.
            let is_exact = unsafe {
                strip::<V, L, Words, true>(scratch, b, length, job, tile, exact.magic)
            };
            if !is_exact {
                left.add::<V, L>(number, row, lane);
            }
        });
    }));
    left.none
}

/// Whether there are NaN that the decoding does not know.
///
/// # Safety
/// The host must support the instructions of `V`; the registers must have `lanes` lanes.
#[inline(always)]
unsafe fn has_nan<V: Vector>((what, rows): Operand<'_>, lanes: usize) -> bool {
    if !matches!(what.element, Element::Fp8 | Element::Fp8Fnuz) {
        return false;
    }
    let mut seen = V::splat_i(-1);
    for row in rows {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: registers have `lanes` lanes.
            let x = V::bits(unsafe { V::load(row.add(lane).cast()) });
            seen = V::min_u8(seen, e4m3_nan::<V>(what.element, x));
        }
    }
    V::any_zero_byte(seen)
}

/// One strip: a job. False if sums are to be EXACT and are not, and then nothing is done.
///
/// # Safety
/// As for `chain`; the layout must be that of the plan.
#[inline(always)]
unsafe fn strip<V: Vector, L: Layout, W: Words, const EXACT: bool>(
    scratch: &Scratch,
    b: Operand<'_>,
    length: usize,
    job: &Job,
    tile: &Tile,
    magic: f32,
) -> bool {
    let rows = const {
        assert!(Strip::<V, L>::ROWS == L::COUNT && Strip::<V, L>::COLUMNS == 1);
        L::COUNT
    };
    assert!(length <= MAX_K && length / W::ITEMS <= b.0.words.len());
    let (a, _) = Strip::<V, L>::sources(scratch, job);
    let flip = V::splat_i(b.0.signs as i32);
    let mut sums: Sums<V> = [[V::zero(); 2]; 16];
    // SAFETY: rows of D, up to COUNT, are the tile's; B has the words, `sources` checked the columns.
    unsafe {
        unroll!(rows, row => {
            sums[row][0] = V::load(tile.c::<L>(job, row, 0));
        });
        if EXACT {
            match exactly::<V, L>(&sums, magic) {
                Some(cleared) => sums = cleared,
                None => return false,
            }
        }
        for number in 0..length / W::ITEMS {
            let x = V::bits(V::load(words_at(b, number).add(job.b)));
            let b = W::decode::<V>(x, flip);
            let a = a.add(number * W::ITEMS * STRIDE);
            unroll!(@ W::ITEMS, item, {
                let a = a.add(item * STRIDE);
                unroll!(rows, row => {
                    let a = a_at::<V, L>(a, row);
                    sums[row][0] = V::fma(a, b[item], sums[row][0]);
                });
            }, 0 1 2 3);
        }
        Strip::<V, L>::store(sums, job, tile);
    }
    true
}
