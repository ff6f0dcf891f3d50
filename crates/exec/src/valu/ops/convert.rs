//! Conversions between floats and integers of 16, 32 and 64 bits.

use rocjitsu_lanes::scalar::convert as c;
use rocjitsu_lanes::vector::round;

use super::minmax::{Format, Half};
use super::ops;
use super::support::{PLAIN, half1, mode, pack};

ops! {
    v_cvt_f32_i32[x](a: B32) -> F32 { L::f32_from_i32(a) }
    => modal { let m = mode(x); L::map1(a, |a| c::v_cvt_f32_i32(a, m)) }
    v_cvt_f32_u32[x](a: B32) -> F32 { L::f32_from_u32(a) }
    => modal { let m = mode(x); L::map1(a, |a| c::v_cvt_f32_u32(a, m)) }
    v_cvt_f32_ubyte0(a: B32) -> F32 { L::f32_from_i32(L::and(a, L::splat(0xff))) }
    v_cvt_f32_ubyte1(a: B32) -> F32 { L::f32_from_i32(L::and(L::shr(a, L::splat(8)), L::splat(0xff))) }
    v_cvt_f32_ubyte2(a: B32) -> F32 { L::f32_from_i32(L::and(L::shr(a, L::splat(16)), L::splat(0xff))) }
    v_cvt_f32_ubyte3(a: B32) -> F32 { L::f32_from_i32(L::shr(a, L::splat(24))) }
    v_cvt_off_f32_i4(a: B32) -> F32 { L::map1(a, c::v_cvt_off_f32_i4) }
    v_cvt_i32_f32(a: F32) -> B32 { L::i32_from_f32(a) }
    v_cvt_u32_f32(a: F32) -> B32 { L::u32_from_f32(a) }
    v_cvt_rpi_i32_f32 | v_cvt_nearest_i32_f32(a: F32) -> B32 { L::map1(a, c::v_cvt_nearest_i32_f32) }
    v_cvt_flr_i32_f32 | v_cvt_floor_i32_f32(a: F32) -> B32 { L::i32_from_f32(L::round_f32::<{ round::DOWN }>(a)) }

    v_cvt_f64_i32(a: B32) -> F64 { L::f64_from_i32(a) }
    v_cvt_f64_u32(a: B32) -> F64 { L::f64_from_u32(a) }
    v_cvt_i32_f64(a: F64) -> B32 { L::i32_from_f64(a) }
    v_cvt_u32_f64(a: F64) -> B32 { L::u32_from_f64(a) }
    v_cvt_f64_f32(a: F32) -> F64 { L::f64_from_f32(a) }
    v_cvt_f32_f64[x](a: F64) -> F32 { L::f32_from_f64(a) }
    => modal { let m = mode(x); L::narrow(a, |a| c::v_cvt_f32_f64(a, m)) }

    v_cvt_f32_f16(a: F16) -> F32 { L::f32_from_f16(a) }
    v_cvt_f16_f32[x](a: F32) -> F16 { L::f16_from_f32(a) }
    => modal { let m = mode(x); L::map1(a, |a| u32::from(c::v_cvt_f16_f32(a, m))) }
    v_cvt_f32_bf16(a: Bf16) -> F32 { L::shl(a, L::splat(16)) }
    v_cvt_f16_i16[x](a: B16) -> F16 { half1::<L>(a, |a| c::v_cvt_f16_i16(a, PLAIN)) }
    => modal { let m = mode(x); half1::<L>(a, |a| c::v_cvt_f16_i16(a, m)) }
    v_cvt_f16_u16[x](a: B16) -> F16 { half1::<L>(a, |a| c::v_cvt_f16_u16(a, PLAIN)) }
    => modal { let m = mode(x); half1::<L>(a, |a| c::v_cvt_f16_u16(a, m)) }
    v_cvt_i16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_i16_f16) }
    v_cvt_u16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_u16_f16) }
    v_cvt_norm_i16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_norm_i16_f16) }
    v_cvt_norm_u16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_norm_u16_f16) }

    v_cvt_pkrtz_f16_f32 | v_cvt_pk_rtz_f16_f32[x](a: F32, b: F32) -> PkF16 {
        pack::<L>(L::f16_from_f32_toward_zero(a), L::f16_from_f32_toward_zero(b))
    }
    => modal { let m = mode(x); L::map2(a, b, |a, b| c::v_cvt_pkrtz_f16_f32(a, b, m)) }
    v_cvt_pk_f16_f32[x](a: F32, b: F32) -> PkF16 { pack::<L>(L::f16_from_f32(a), L::f16_from_f32(b)) }
    => modal { let m = mode(x); L::map2(a, b, |a, b| c::v_cvt_pk_f16_f32(a, b, m)) }
    v_cvt_pk_bf16_f32[x](a: F32, b: F32) -> PkBf16 { L::map2(a, b, |a, b| c::v_cvt_pk_bf16_f32(a, b, false)) }
    => modal { L::map2(a, b, |a, b| c::v_cvt_pk_bf16_f32(a, b, x.fp16_ovfl())) }
    v_pack_b32_f16(a: F16, b: F16) -> PkF16 {
        let quiet = |v| L::select(Half::nan::<L>(v), L::or(v, L::splat(Half::QUIET)), v);
        pack::<L>(quiet(a), quiet(b))
    }
    v_cvt_pk_i16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pk_i16_f32) }
    v_cvt_pk_u16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pk_u16_f32) }
    v_cvt_pk_i16_i32(a: B32, b: B32) -> B32 { L::map2(a, b, c::v_cvt_pk_i16_i32) }
    v_cvt_pk_u16_u32(a: B32, b: B32) -> B32 { L::map2(a, b, c::v_cvt_pk_u16_u32) }
    v_cvt_pk_u8_f32 | v_cvt_pkaccum_u8_f32(a: F32, b: B32, d: B32) -> B32 { L::map3(a, b, d, c::v_cvt_pk_u8_f32) }
    v_cvt_pknorm_i16_f32 | v_cvt_pk_norm_i16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pknorm_i16_f32) }
    v_cvt_pknorm_u16_f32 | v_cvt_pk_norm_u16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pknorm_u16_f32) }
    v_cvt_pknorm_i16_f16 | v_cvt_pk_norm_i16_f16(a: F16, b: F16) -> B32 {
        L::map2(a, b, |a, b| c::v_cvt_pknorm_i16_f16(a as u16, b as u16))
    }
    v_cvt_pknorm_u16_f16 | v_cvt_pk_norm_u16_f16(a: F16, b: F16) -> B32 {
        L::map2(a, b, |a, b| c::v_cvt_pknorm_u16_f16(a as u16, b as u16))
    }
}
