//! Every operation of the lane trait gives the same bits on every back end of the host.
//! Inputs mix edge values (NaNs of both kinds, infinities, subnormals, halves of ulps) with random bits.

use rocjitsu_lanes::Backend;
use rocjitsu_lanes::kernel::{Args, Aux, B32, B64, Inputs, KernelSet, Mask, Op, Outputs, Src};
use rocjitsu_lanes::vector::Lanes;

const LANES: usize = 64;
type Row = [u32; LANES];

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn word(&mut self) -> u32 {
        const EDGES: [u32; 24] = [
            0,
            0x8000_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0001,
            0xffc0_1234,
            0x7f80_0001,
            0xffa0_0000,
            1,
            0x807f_ffff,
            0x0080_0000,
            0x7f7f_ffff,
            0xffff_ffff,
            31,
            32,
            0x7fff_ffff,
            0x3c00,
            0x7c01,
            0xfe00,
            0x0001_03ff,
            0x477f_f000,
            0x3300_0001,
        ];
        let r = self.next();
        match r % 5 {
            0 => EDGES[(r >> 8) as usize % EDGES.len()],
            // Small bytes: shift counts, byte selectors.
            2 => (r >> 32) as u32 & 0x0f1f_0f0f,
            1 => (f32::from_bits(0x3f80_0000 | (r >> 41) as u32)
                * if r & 16 == 0 { 1.0 } else { -3.0 })
            .to_bits(),
            _ => (r >> 32) as u32,
        }
    }
    fn row(&mut self) -> Row {
        std::array::from_fn(|_| self.word())
    }
}

/// Runs a kernel on `rows` (low and high words of three sources) and returns what it wrote.
fn run(
    set: &KernelSet,
    backend: Backend,
    rows: &[Row; 6],
    exec: u64,
    mask: u64,
) -> (Row, Row, u64) {
    #[repr(align(64))]
    struct Aligned(Row);
    let (mut lo, mut hi) = (Aligned([0xdead_beef; LANES]), Aligned([0xfeed_f00d; LANES]));
    let mut args = Args {
        dst: lo.0.as_mut_ptr(),
        dst_hi: hi.0.as_mut_ptr(),
        src: std::array::from_fn(|i| Src {
            lo: rows[2 * i].as_ptr(),
            hi: rows[2 * i + 1].as_ptr(),
            step: 16,
            shift: 0,
        }),
        exec,
        mask_in: mask,
        mask_out: 0,
        chunks: 4,
        keep: 0,
        dst_shift: 0,
        aux: Aux(0xf0),
    };
    // SAFETY: the rows have 64 words and the back end is one that the host supports.
    unsafe { set.get(backend)(&mut args) };
    (lo.0, hi.0, args.mask_out)
}

fn check<O: Op>(name: &str) {
    let set = KernelSet::of::<O>();
    let mut random = Random(name.len() as u64);
    for round in 0..200 {
        let rows: [Row; 6] = std::array::from_fn(|_| random.row());
        let exec = if round % 2 == 0 {
            u64::MAX
        } else {
            random.next()
        };
        let mask = random.next();
        let want = run(&set, Backend::Scalar, &rows, exec, mask);
        for backend in Backend::supported() {
            let got = run(&set, backend, &rows, exec, mask);
            for lane in 0..LANES {
                let shown = rows.map(|r| format!("{:08x}", r[lane]));
                assert_eq!(
                    got.0[lane], want.0[lane],
                    "{name} on {backend}, lane {lane}: {shown:?}"
                );
                assert_eq!(
                    got.1[lane], want.1[lane],
                    "{name} on {backend}, lane {lane} high: {shown:?}"
                );
            }
            assert_eq!(got.2, want.2, "{name} on {backend}: mask");
        }
        for lane in (0..LANES).filter(|l| exec >> l & 1 == 0) {
            assert_eq!(
                (want.0[lane], want.1[lane], want.2 >> lane & 1),
                (0xdead_beef, 0xfeed_f00d, 0)
            );
        }
    }
}

macro_rules! operations {
    ($($name:ident: ($($in:ident),*) -> $out:ident;)*) => {
        $(#[allow(non_camel_case_types)] enum $name {}
        impl Op for $name {
            type In = ($($in,)*);
            type Out = ($out,);
            #[inline(always)]
            fn eval<L: Lanes>(_: Aux, i: <Self::In as Inputs>::Vals<L>) -> <Self::Out as Outputs>::Vals<L> {
                operations!(@call L $name i $($in)*)
            }
        })*
        #[test]
        fn all_back_ends_agree() {
            $(check::<$name>(stringify!($name));)*
        }
    };
    (@call $l:ident $name:ident $i:ident $a:ident) => { $l::$name($i.0) };
    (@call $l:ident $name:ident $i:ident $a:ident $b:ident) => { $l::$name($i.0, $i.1) };
    (@call $l:ident $name:ident $i:ident $a:ident $b:ident $c:ident) => { $l::$name($i.0, $i.1, $i.2) };
}
operations! {
    add: (B32, B32) -> B32;
    sub: (B32, B32) -> B32;
    mul: (B32, B32) -> B32;
    and: (B32, B32) -> B32;
    or: (B32, B32) -> B32;
    xor: (B32, B32) -> B32;
    shl: (B32, B32) -> B32;
    shr: (B32, B32) -> B32;
    sar: (B32, B32) -> B32;
    min_i: (B32, B32) -> B32;
    max_i: (B32, B32) -> B32;
    min_u: (B32, B32) -> B32;
    max_u: (B32, B32) -> B32;
    eq: (B32, B32) -> Mask;
    lt_i: (B32, B32) -> Mask;
    lt_u: (B32, B32) -> Mask;
    mul_hi_u: (B32, B32) -> B32;
    mul_hi_i: (B32, B32) -> B32;
    perm_bytes: (B32, B32, B32) -> B32;
    add_f32: (B32, B32) -> B32;
    sub_f32: (B32, B32) -> B32;
    mul_f32: (B32, B32) -> B32;
    fma_f32: (B32, B32, B32) -> B32;
    eq_f32: (B32, B32) -> Mask;
    lt_f32: (B32, B32) -> Mask;
    le_f32: (B32, B32) -> Mask;
    unordered_f32: (B32, B32) -> Mask;
    f32_from_i32: (B32) -> B32;
    f32_from_u32: (B32) -> B32;
    f32_from_f16: (B32) -> B32;
    f16_from_f32: (B32) -> B32;
    f16_from_f32_toward_zero: (B32) -> B32;
    min_f32: (B32, B32) -> B32;
    max_f32: (B32, B32) -> B32;
    add_f64: (B64, B64) -> B64;
    mul_f64: (B64, B64) -> B64;
    fma_f64: (B64, B64, B64) -> B64;
    eq_f64: (B64, B64) -> Mask;
    lt_f64: (B64, B64) -> Mask;
    le_f64: (B64, B64) -> Mask;
    unordered_f64: (B64, B64) -> Mask;
    m_not: (Mask) -> Mask;
}

/// `add_odd_f32` is for sums of f16 values and of their products.
enum AddOddHalves {}
impl Op for AddOddHalves {
    type In = (B32, B32, B32);
    type Out = (B32,);
    #[inline(always)]
    fn eval<L: Lanes>(_: Aux, (a, b, c): <Self::In as Inputs>::Vals<L>) -> L::V {
        let product = L::mul_f32(L::f32_from_f16(a), L::f32_from_f16(b));
        L::add_odd_f32(product, L::f32_from_f16(c))
    }
}

#[test]
fn sums_rounded_to_odd_agree() {
    check::<AddOddHalves>("add_odd_f32");
}
