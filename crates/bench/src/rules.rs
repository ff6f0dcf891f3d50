//! Native loops that form sums by the rules of matrix instructions, on AVX-512: operands decoded and in the first
//! cache, sums in registers throughout. What an emulated instruction does besides is finding its registers, checking
//! and decoding A and B, and reading C and writing D.

use std::hint::black_box;
use std::time::Instant;

/// How sums are formed, see `data/numerics/mfma-arithmetic.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One f32 FMA per k.
    Chain,
    /// The same in f64.
    Double,
    /// CDNA2: trees of four products.
    Tree,
    /// CDNA3: groups of products truncated to a common grid, of as many products.
    Fused(usize),
    /// CDNA3, 8-bit floats: the same for even and odd k of groups of 16.
    FusedByParity,
    /// Bytes, four products a word.
    Integer,
    /// Blocks of 32, scaled.
    Scaled,
}

/// Rows of a strip.
const ROWS: usize = 8;
/// Columns of a strip.
const COLUMNS: usize = 32;
/// Products of a sum in one turn.
const K: usize = 32;

/// Operands: `a[k][row]`, `b[k][column]`, and their exponents, those of two rows spread over the columns.
#[repr(align(64))]
struct Panels {
    a: [[f32; ROWS]; K],
    b: [[f32; COLUMNS]; K],
    ea: [[[i8; 2 * COLUMNS]; ROWS / 2]; K],
    eb: [[i8; 2 * COLUMNS]; K],
}

impl Panels {
    fn new() -> Box<Panels> {
        let value = |i: usize| (0.5 + (i * 7 % 13) as f32 / 8.0) * [1.0, -1.0][i / 3 % 2];
        let exponent = |x: f32| (x.to_bits() >> 23 & 0xff) as i8 - 127;
        let a: [[f32; ROWS]; K] =
            std::array::from_fn(|k| std::array::from_fn(|row| value(5 * k + row)));
        let b: [[f32; COLUMNS]; K] =
            std::array::from_fn(|k| std::array::from_fn(|column| value(3 * k + column)));
        Box::new(Panels {
            a,
            b,
            ea: std::array::from_fn(|k| {
                std::array::from_fn(|pair| {
                    std::array::from_fn(|i| exponent(a[k][2 * pair + i / COLUMNS]))
                })
            }),
            eb: std::array::from_fn(|k| std::array::from_fn(|i| exponent(b[k][i % COLUMNS]))),
        })
    }
}

/// Nanoseconds for so many multiply-adds by a rule, the best of `repeat` rounds; `None` without AVX-512.
pub fn time(rule: Rule, madds: usize, repeat: u32) -> Option<f64> {
    if !rocjitsu_lanes::Backend::Avx512.is_supported() {
        return None;
    }
    const TURNS: usize = 4000;
    let panels = Panels::new();
    let mut best = f64::INFINITY;
    for _ in 0..repeat.max(1) {
        let mut sums = [[0f32; COLUMNS]; ROWS];
        let start = Instant::now();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the host has AVX-512.
        unsafe {
            avx512::run(black_box(rule), black_box(&panels), TURNS, &mut sums);
        }
        black_box(&mut sums);
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    // As f64 a strip has half as many columns.
    let columns = if rule == Rule::Double {
        COLUMNS / 2
    } else {
        COLUMNS
    };
    Some(best / (TURNS * K * ROWS * columns) as f64 * madds as f64)
}

/// The sums of a strip in memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Tile([[f32; COLUMNS]; ROWS]);

/// Nanoseconds for an instruction of K = `k` with `sums` accumulators (those of f64 count twice) that are loaded and
/// stored, in the first cache, four instructions in turn: what an emulator has to do whose registers are memory. `None`
/// without AVX-512, and for rules that take long enough for that not to matter.
pub fn time_through_memory(rule: Rule, k: usize, sums: usize, repeat: u32) -> Option<f64> {
    let rows = match rule {
        Rule::Chain | Rule::Double => k,
        Rule::Integer => k / 4,
        _ => return None,
    };
    if !rocjitsu_lanes::Backend::Avx512.is_supported() || rows > K {
        return None;
    }
    const TURNS: usize = 20_000;
    let panels = Panels::new();
    let mut tiles = vec![Tile([[0.0; COLUMNS]; ROWS]); 4 * sums.div_ceil(ROWS * COLUMNS)];
    let mut best = f64::INFINITY;
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the host has AVX-512.
        unsafe {
            avx512::run_through_memory(
                black_box(rule),
                black_box(&panels),
                rows,
                TURNS,
                &mut tiles,
            );
        }
        black_box(&mut tiles);
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    Some(best / (4 * TURNS) as f64)
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{COLUMNS, K, Panels, ROWS, Rule, Tile};
    use std::arch::x86_64::*;

    type Sums = [[__m512; 2]; ROWS];

    // Rules are not inlined into one function: it would have more values than registers.
    macro_rules! feature {
        ($(#[$doc:meta])* fn $($rest:tt)*) => {
            $(#[$doc])*
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
            fn $($rest)*
        };
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    pub fn run(rule: Rule, panels: &Panels, turns: usize, out: &mut [[f32; COLUMNS]; ROWS]) {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        match rule {
            Rule::Chain => chain(panels, turns, &mut sums),
            Rule::Double => double(panels, turns, &mut sums),
            Rule::Tree => tree(panels, turns, &mut sums),
            Rule::Fused(4) => fused::<4, false>(panels, turns, &mut sums),
            Rule::Fused(_) => fused::<8, false>(panels, turns, &mut sums),
            Rule::FusedByParity => fused::<16, true>(panels, turns, &mut sums),
            Rule::Integer => integer(panels, turns, &mut sums),
            Rule::Scaled => scaled(panels, turns, &mut sums),
        }
        for (sums, out) in sums.into_iter().zip(out) {
            for (sum, out) in sums.into_iter().zip(out.chunks_exact_mut(16)) {
                // SAFETY: `out` has 16 floats.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
            }
        }
    }

    feature! {
        /// The two vectors of a row of B.
        #[inline]
        fn columns(row: &[f32; COLUMNS]) -> [__m512; 2] {
            // SAFETY: the row has 32 floats.
            unsafe { [_mm512_loadu_ps(row.as_ptr()), _mm512_loadu_ps(row[16..].as_ptr())] }
        }
    }

    /// Adds products along K to sums in registers: a macro, because a function would have them in memory.
    macro_rules! chain {
        ($panels:expr, $sums:ident) => {
            chain!($panels, $sums, K)
        };
        ($panels:expr, $sums:ident, $rows:expr) => {
            for (a, b) in $panels.a.iter().zip(&$panels.b).take($rows) {
                let b = columns(b);
                for (a, [low, high]) in a.iter().zip(&mut $sums) {
                    let a = _mm512_set1_ps(*a);
                    *low = _mm512_fmadd_ps(a, b[0], *low);
                    *high = _mm512_fmadd_ps(a, b[1], *high);
                }
            }
        };
    }

    feature! {
        #[inline(never)]
        fn chain(panels: &Panels, turns: usize, out: &mut Sums) {
            let mut sums = *out;
            for _ in 0..turns {
                chain!(panels, sums);
            }
            *out = sums;
        }
    }

    /// The same in f64.
    macro_rules! double {
        ($panels:expr, $sums:ident, $rows:expr) => {
            for (a, b) in $panels.a.iter().zip(&$panels.b).take($rows) {
                let b = columns(b).map(|b| _mm512_castps_pd(b));
                for (sums, a) in $sums.iter_mut().zip(a) {
                    let a = _mm512_castps_pd(_mm512_set1_ps(*a));
                    for (sum, b) in sums.iter_mut().zip(b) {
                        let d = _mm512_castps_pd(*sum);
                        *sum = _mm512_castpd_ps(_mm512_fmadd_pd(a, b, d));
                    }
                }
            }
        };
    }

    feature! {
        #[inline(never)]
        fn double(panels: &Panels, turns: usize, out: &mut Sums) {
            let mut sums = *out;
            for _ in 0..turns {
                double!(panels, sums, K);
            }
            *out = sums;
        }
    }

    /// Bytes, four products a word: a panel row is four of K.
    macro_rules! integer {
        ($panels:expr, $sums:ident, $rows:expr) => {
            for (a, b) in $panels.a.iter().zip(&$panels.b).take($rows) {
                let b = columns(b).map(|b| _mm512_castps_si512(b));
                for (sums, a) in $sums.iter_mut().zip(a) {
                    let a = _mm512_set1_epi32(a.to_bits() as i32);
                    for (sum, b) in sums.iter_mut().zip(b) {
                        let d = _mm512_castps_si512(*sum);
                        *sum = _mm512_castsi512_ps(_mm512_dpbusd_epi32(d, a, b));
                    }
                }
            }
        };
    }

    /// Strips of a rule whose sums are loaded, and stored.
    macro_rules! through_memory {
        ($name:ident, $rule:ident) => {
            feature! {
                #[inline(never)]
                fn $name(panels: &Panels, rows: usize, turns: usize, tiles: &mut [Tile]) {
                    for _ in 0..turns {
                        for tile in &mut *tiles {
                            let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
                            for (row, sums) in tile.0.iter().zip(&mut sums) {
                                *sums = columns(row);
                            }
                            $rule!(panels, sums, rows);
                            for (sums, row) in sums.iter().zip(&mut tile.0) {
                                // SAFETY: a row has 32 floats.
                                unsafe {
                                    _mm512_storeu_ps(row.as_mut_ptr(), sums[0]);
                                    _mm512_storeu_ps(row[16..].as_mut_ptr(), sums[1]);
                                }
                            }
                        }
                    }
                }
            }
        };
    }
    through_memory!(chain_through_memory, chain);
    through_memory!(double_through_memory, double);
    through_memory!(integer_through_memory, integer);

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    pub fn run_through_memory(
        rule: Rule,
        panels: &Panels,
        rows: usize,
        turns: usize,
        tiles: &mut [Tile],
    ) {
        match rule {
            Rule::Double => double_through_memory(panels, rows, turns, tiles),
            Rule::Integer => integer_through_memory(panels, rows, turns, tiles),
            _ => chain_through_memory(panels, rows, turns, tiles),
        }
    }

    feature! {
        #[inline(never)]
        fn tree(panels: &Panels, turns: usize, out: &mut Sums) {
            let mut sums = *out;
            for _ in 0..turns {
                for (a, b) in panels.a.chunks_exact(4).zip(panels.b.chunks_exact(4)) {
                    let b = [columns(&b[0]), columns(&b[1]), columns(&b[2]), columns(&b[3])];
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let a = [a[0][row], a[1][row], a[2][row], a[3][row]].map(|a| _mm512_set1_ps(a));
                        for (column, sum) in sums.iter_mut().enumerate() {
                            let low = _mm512_fmadd_ps(a[0], b[0][column], _mm512_setzero_ps());
                            let low = _mm512_fmadd_ps(a[1], b[1][column], low);
                            let high = _mm512_fmadd_ps(a[2], b[2][column], _mm512_setzero_ps());
                            let high = _mm512_fmadd_ps(a[3], b[3][column], high);
                            *sum = _mm512_add_ps(*sum, _mm512_add_ps(low, high));
                        }
                    }
                }
            }
            *out = sums;
        }
    }

    feature! {
        /// The largest exponent sums of every `step`th k from `start`, biased, as bytes: two rows.
        #[inline]
        fn tops(panels: &Panels, pair: usize, ks: std::ops::Range<usize>, step: usize) -> [__m128i; 4] {
            let mut top = _mm512_set1_epi8(-64);
            for k in ks.step_by(step) {
                // SAFETY: the arrays have 64 bytes.
                let (a, b) = unsafe {
                    (
                        _mm512_loadu_si512(panels.ea[k][pair].as_ptr().cast()),
                        _mm512_loadu_si512(panels.eb[k].as_ptr().cast()),
                    )
                };
                top = _mm512_max_epi8(top, _mm512_adds_epi8(a, b));
            }
            let top = _mm512_add_epi8(top, _mm512_set1_epi8(127));
            [
                _mm512_castsi512_si128(top),
                _mm512_extracti32x4_epi32::<1>(top),
                _mm512_extracti32x4_epi32::<2>(top),
                _mm512_extracti32x4_epi32::<3>(top),
            ]
        }
    }

    feature! {
        /// 2^E of bytes that hold E, biased.
        #[inline]
        fn power(bytes: __m128i) -> __m512i {
            _mm512_slli_epi32::<23>(_mm512_cvtepu8_epi32(bytes))
        }
    }

    feature! {
        /// Products truncated to the grid of their largest exponent, in its units.
        #[inline]
        fn truncated(panels: &Panels, row: usize, column: usize, ks: std::ops::Range<usize>, step: usize, top: __m512i) -> __m512i {
            let scale = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(278 << 23), top));
            let mut total = _mm512_setzero_si512();
            for k in ks.step_by(step) {
                let product = _mm512_mul_ps(_mm512_set1_ps(panels.a[k][row]), columns(&panels.b[k])[column]);
                total = _mm512_add_epi32(total, _mm512_cvttps_epi32(_mm512_mul_ps(product, scale)));
            }
            total
        }
    }

    feature! {
        /// Without the care for accumulators that are far larger than the products.
        #[inline(never)]
        fn fused<const GROUP: usize, const PARITY: bool>(panels: &Panels, turns: usize, out: &mut Sums) {
            let mut sums = *out;
            for _ in 0..turns {
                for first in (0..K).step_by(GROUP) {
                    let all = first..first + GROUP;
                    for pair in 0..ROWS / 2 {
                        let even = tops(panels, pair, all.clone(), if PARITY { 2 } else { 1 });
                        let odd = if PARITY { tops(panels, pair, first + 1..first + GROUP, 2) } else { even };
                        for i in 0..4 {
                            let (row, column) = (2 * pair + i / 2, i % 2);
                            let mut top = power(even[i]);
                            let mut total = truncated(panels, row, column, all.clone(), if PARITY { 2 } else { 1 }, top);
                            if PARITY {
                                let other = power(odd[i]);
                                let more = truncated(panels, row, column, first + 1..first + GROUP, 2, other);
                                let most = _mm512_max_epi32(top, other);
                                let gap = |top| _mm512_srli_epi32::<23>(_mm512_sub_epi32(most, top));
                                total = _mm512_add_epi32(
                                    _mm512_srav_epi32(total, gap(top)),
                                    _mm512_srav_epi32(more, gap(other)),
                                );
                                top = most;
                            }
                            const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
                            let scale = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(278 << 23), top));
                            let old = _mm512_mul_round_ps::<DOWN>(sums[row][column], scale);
                            let total = _mm512_add_epi32(total, _mm512_cvt_roundps_epi32::<DOWN>(old));
                            let unit = _mm512_sub_epi32(top, _mm512_set1_epi32(24 << 23));
                            sums[row][column] = _mm512_mul_ps(_mm512_cvtepi32_ps(total), _mm512_castsi512_ps(unit));
                        }
                    }
                }
            }
            *out = sums;
        }
    }

    feature! {
        #[inline(never)]
        fn integer(panels: &Panels, turns: usize, out: &mut Sums) {
            let mut sums = *out;
            for _ in 0..turns {
                integer!(panels, sums, K / 4);
            }
            *out = sums;
        }
    }

    feature! {
        #[inline(never)]
        fn scaled(panels: &Panels, turns: usize, out: &mut Sums) {
            let mut sums = *out;
            for _ in 0..turns {
                let mut dots = [[_mm512_setzero_ps(); 2]; ROWS];
                chain!(panels, dots);
                let factors = columns(&panels.b[0]);
                for (row, (sums, dots)) in sums.iter_mut().zip(dots).enumerate() {
                    let a = _mm512_set1_ps(panels.a[0][row]);
                    for (column, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                        *sum = _mm512_fmadd_ps(dot, _mm512_mul_ps(a, factors[column]), *sum);
                    }
                }
            }
            *out = sums;
        }
    }
}
