//! Native loops that form sums by the rules of matrix instructions: operands decoded, C and D in
//! memory, AVX-512. What is left of an emulated instruction is decoding and finding its registers.

/// How sums are formed, see `data/numerics/mfma-arithmetic.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One f32 FMA per k.
    Chain,
    /// The same in f64.
    Double,
    /// CDNA2: trees of four products.
    Tree,
    /// CDNA3: groups of products truncated to a common grid.
    Fused(usize),
    /// Pairs of 16-bit integers.
    Integer,
    /// Blocks of 32, scaled.
    Scaled,
}

/// Rows and columns of the native loops' tiles.
const SIDE: usize = 32;

/// Operands of a native loop: `a[k][row]`, `b[k][column]`, `d[row][column]`.
pub struct Operands {
    a: Vec<[f32; SIDE]>,
    b: Vec<[f32; SIDE]>,
    d: Vec<[f32; SIDE]>,
}

impl Operands {
    /// As many rows and as much K as make `madds` multiply-adds.
    pub fn new(madds: usize) -> Operands {
        let rows = SIDE.min(madds / SIDE / 2);
        let k = (madds / SIDE / rows).max(2);
        let value = |i: usize| 0.5 + (i * 7 % 13) as f32 / 8.0;
        let panel = || -> Vec<[f32; SIDE]> {
            (0..k)
                .map(|k| std::array::from_fn(|lane| value(k * 5 + lane)))
                .collect()
        };
        Operands {
            a: panel(),
            b: panel(),
            d: vec![[0.0; SIDE]; rows],
        }
    }

    /// Adds the products to D once.
    pub fn run(&mut self, rule: Rule) {
        #[cfg(target_arch = "x86_64")]
        if rocjitsu_lanes::Backend::Avx512.is_supported() {
            // SAFETY: the host has the features.
            unsafe { avx512::run(rule, &self.a, &self.b, &mut self.d) };
            return;
        }
        let _ = rule;
        for (row, d) in self.d.iter_mut().enumerate() {
            for (a, b) in self.a.iter().zip(&self.b) {
                for (d, b) in d.iter_mut().zip(b) {
                    *d = a[row].mul_add(*b, *d);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Rule, SIDE};
    use std::arch::x86_64::*;

    type Panel = [[f32; SIDE]];

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    pub fn run(rule: Rule, a: &Panel, b: &Panel, d: &mut Panel) {
        for (strip, rows) in d.chunks_exact_mut(8).enumerate() {
            for half in [0, 16] {
                let from: [*mut f32; 8] = std::array::from_fn(|r| rows[r][half..].as_mut_ptr());
                // SAFETY: every row has 16 floats from `half` on.
                unsafe {
                    let mut sums = [_mm512_setzero_ps(); 8];
                    for (sum, from) in sums.iter_mut().zip(from) {
                        *sum = _mm512_loadu_ps(from);
                    }
                    let first = strip * 8;
                    match rule {
                        Rule::Chain => chain(a, b, first, half, &mut sums),
                        Rule::Double => double(a, b, first, half, &mut sums),
                        Rule::Tree => tree(a, b, first, half, &mut sums),
                        Rule::Fused(group) => fused(a, b, first, half, group, &mut sums),
                        Rule::Integer => integer(a, b, first, half, &mut sums),
                        Rule::Scaled => scaled(a, b, first, half, &mut sums),
                    }
                    for (sum, from) in sums.into_iter().zip(from) {
                        _mm512_storeu_ps(from, sum);
                    }
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn load(row: &[f32; SIDE], half: usize) -> __m512 {
        let from = &row[half..half + 16];
        // SAFETY: `from` has 16 floats.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn chain(a: &Panel, b: &Panel, first: usize, half: usize, sums: &mut [__m512; 8]) {
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (&a[first..first + 8], load(b, half));
            for (sum, a) in sums.iter_mut().zip(a) {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*a), b, *sum);
            }
        }
    }

    /// Half as many lanes: the sums as pairs of f64 vectors would be twice as many registers, so two passes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn double(a: &Panel, b: &Panel, first: usize, half: usize, sums: &mut [__m512; 8]) {
        for _ in 0..2 {
            for (a, b) in a.iter().zip(b) {
                let (a, b) = (&a[first..first + 8], _mm512_castps_pd(load(b, half)));
                for (sum, a) in sums.iter_mut().zip(a) {
                    let d = _mm512_castps_pd(*sum);
                    *sum = _mm512_castpd_ps(_mm512_fmadd_pd(_mm512_set1_pd(f64::from(*a)), b, d));
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn tree(a: &Panel, b: &Panel, first: usize, half: usize, sums: &mut [__m512; 8]) {
        for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(4)) {
            let b: [__m512; 4] = [
                load(&b[0], half),
                load(&b[1], half),
                load(&b[2], half),
                load(&b[3], half),
            ];
            for (row, sum) in sums.iter_mut().enumerate() {
                let x = |k: usize| a[k][first + row];
                let low = _mm512_fmadd_ps(_mm512_set1_ps(x(0)), b[0], _mm512_setzero_ps());
                let low = _mm512_fmadd_ps(_mm512_set1_ps(x(1)), b[1], low);
                let high = _mm512_fmadd_ps(_mm512_set1_ps(x(2)), b[2], _mm512_setzero_ps());
                let high = _mm512_fmadd_ps(_mm512_set1_ps(x(3)), b[3], high);
                *sum = _mm512_add_ps(*sum, _mm512_add_ps(low, high));
            }
        }
    }

    /// Without the lanes whose accumulator is far larger than the products.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn fused(
        a: &Panel,
        b: &Panel,
        first: usize,
        half: usize,
        group: usize,
        sums: &mut [__m512; 8],
    ) {
        let exponent = _mm512_set1_epi32(0x7f80_0000);
        let bias = _mm512_set1_epi32(127 << 23);
        for (a, b) in a.chunks(group).zip(b.chunks(group)) {
            for (row, sum) in sums.iter_mut().enumerate() {
                let mut top = _mm512_set1_epi32(0);
                for (a, b) in a.iter().zip(b) {
                    let x = _mm512_set1_epi32((a[first + row].to_bits() & 0x7f80_0000) as i32);
                    let y = _mm512_and_si512(_mm512_castps_si512(load(b, half)), exponent);
                    top = _mm512_max_epi32(top, _mm512_add_epi32(x, y));
                }
                let top = _mm512_sub_epi32(top, bias);
                let scale = _mm512_sub_epi32(_mm512_set1_epi32(278 << 23), top);
                let scale = _mm512_castsi512_ps(scale);
                let mut total = _mm512_setzero_si512();
                for (a, b) in a.iter().zip(b) {
                    let product = _mm512_mul_ps(_mm512_set1_ps(a[first + row]), load(b, half));
                    let units = _mm512_cvttps_epi32(_mm512_mul_ps(product, scale));
                    total = _mm512_add_epi32(total, units);
                }
                const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
                let old = _mm512_mul_round_ps::<DOWN>(*sum, scale);
                let total = _mm512_add_epi32(total, _mm512_cvt_roundps_epi32::<DOWN>(old));
                let unit = _mm512_sub_epi32(top, _mm512_set1_epi32(24 << 23));
                *sum = _mm512_mul_ps(_mm512_cvtepi32_ps(total), _mm512_castsi512_ps(unit));
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn integer(a: &Panel, b: &Panel, first: usize, half: usize, sums: &mut [__m512; 8]) {
        // Two products a word.
        for (a, b) in a.iter().zip(b).take(a.len() / 2) {
            let b = _mm512_castps_si512(load(b, half));
            for (sum, a) in sums.iter_mut().zip(&a[first..first + 8]) {
                let a = _mm512_set1_epi32(a.to_bits() as i32);
                let d = _mm512_castps_si512(*sum);
                *sum = _mm512_castsi512_ps(_mm512_dpwssd_epi32(d, a, b));
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,avx2")]
    fn scaled(a: &Panel, b: &Panel, first: usize, half: usize, sums: &mut [__m512; 8]) {
        for (a, b) in a.chunks(32).zip(b.chunks(32)) {
            let mut dots = [_mm512_setzero_ps(); 8];
            chain(a, b, first, half, &mut dots);
            let columns = load(&b[0], half);
            for (row, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                let scale = _mm512_mul_ps(_mm512_set1_ps(a[0][first + row]), columns);
                *sum = _mm512_fmadd_ps(dot, scale, *sum);
            }
        }
    }
}
