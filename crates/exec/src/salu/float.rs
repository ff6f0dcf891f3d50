//! Floating-point arithmetic of gfx1150 and later, under MODE (rounding, denormals, FP16_OVFL).
//! f16 results leave zero in the high half (RDNA3.5 manual, "Scalar floating-point arithmetic").

use rocjitsu_isa::Op;
use rocjitsu_lanes::fp::Mode;
use rocjitsu_lanes::fp::mode::{flush16, flush32};
use rocjitsu_lanes::scalar::arithmetic as a;
use rocjitsu_lanes::scalar::convert as c;
use rocjitsu_lanes::scalar::minmax::{self as m, NanRules};
use rocjitsu_lanes::scalar::rounding as r;

use crate::lower::Lowering;
use crate::record::{Flow, Handler, Record};
use crate::target::TargetFacts;
use crate::wave::{Cx, mode};

/// The MODE register as far as floats need it. A change of MODE ends a block, so that records can keep it.
pub fn mode_bits(lowering: &Lowering) -> u32 {
    let state = lowering.state;
    let ovfl = if state.fp16_ovfl() {
        mode::FP16_OVFL
    } else {
        0
    };
    let fixed = if lowering.target.has_ieee_bit() {
        0
    } else {
        mode::IEEE | mode::DX10_CLAMP
    };
    state.0 & 0x3ff | ovfl | fixed
}

/// The MODE that [`mode_bits`] put into the record.
#[inline(always)]
pub fn mode_of(record: &Record) -> Mode {
    Mode::from_bits(record.imm as u32)
}

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_add_f32 => |cx, r| two32(cx, r, a::v_add_f32),
        Op::s_sub_f32 => |cx, r| two32(cx, r, a::v_sub_f32),
        Op::s_mul_f32 => |cx, r| two32(cx, r, a::v_mul_f32),
        Op::s_fmac_f32 => |cx, r| three32(cx, r, [0, 1, 2]),
        Op::s_fmaak_f32 => |cx, r| three32(cx, r, [0, 1, 2]),
        Op::s_fmamk_f32 => |cx, r| three32(cx, r, [0, 2, 1]),
        Op::s_min_f32 => |cx, r| pick32(cx, r, |x, y, mode| m::v_min_f32(x, y, rules(mode))),
        Op::s_max_f32 => |cx, r| pick32(cx, r, |x, y, mode| m::v_max_f32(x, y, rules(mode))),
        Op::s_min_num_f32 => |cx, r| pick32(cx, r, |x, y, _| m::v_min_num_f32(x, y)),
        Op::s_max_num_f32 => |cx, r| pick32(cx, r, |x, y, _| m::v_max_num_f32(x, y)),
        Op::s_minimum_f32 => |cx, r| pick32(cx, r, |x, y, _| m::v_minimum_f32(x, y)),
        Op::s_maximum_f32 => |cx, r| pick32(cx, r, |x, y, _| m::v_maximum_f32(x, y)),
        Op::s_add_f16 => |cx, r| two16(cx, r, a::v_add_f16),
        Op::s_sub_f16 => |cx, r| two16(cx, r, a::v_sub_f16),
        Op::s_mul_f16 => |cx, r| two16(cx, r, a::v_mul_f16),
        Op::s_fmac_f16 => fmac_f16,
        Op::s_min_f16 => |cx, r| pick16(cx, r, |x, y, mode| m::v_min_f16(x, y, rules(mode))),
        Op::s_max_f16 => |cx, r| pick16(cx, r, |x, y, mode| m::v_max_f16(x, y, rules(mode))),
        Op::s_min_num_f16 => |cx, r| pick16(cx, r, |x, y, _| m::v_min_num_f16(x, y)),
        Op::s_max_num_f16 => |cx, r| pick16(cx, r, |x, y, _| m::v_max_num_f16(x, y)),
        Op::s_minimum_f16 => |cx, r| pick16(cx, r, |x, y, _| m::v_minimum_f16(x, y)),
        Op::s_maximum_f16 => |cx, r| pick16(cx, r, |x, y, _| m::v_maximum_f16(x, y)),
        Op::s_ceil_f32 => |cx, r| round32(cx, r, r::v_ceil_f32),
        Op::s_floor_f32 => |cx, r| round32(cx, r, r::v_floor_f32),
        Op::s_trunc_f32 => |cx, r| round32(cx, r, r::v_trunc_f32),
        Op::s_rndne_f32 => |cx, r| round32(cx, r, r::v_rndne_f32),
        Op::s_ceil_f16 => |cx, r| round16(cx, r, r::v_ceil_f16),
        Op::s_floor_f16 => |cx, r| round16(cx, r, r::v_floor_f16),
        Op::s_trunc_f16 => |cx, r| round16(cx, r, r::v_trunc_f16),
        Op::s_rndne_f16 => |cx, r| round16(cx, r, r::v_rndne_f16),
        Op::s_cvt_f32_i32 => |cx, r| convert(cx, r, c::v_cvt_f32_i32),
        Op::s_cvt_f32_u32 => |cx, r| convert(cx, r, c::v_cvt_f32_u32),
        Op::s_cvt_i32_f32 => |cx, r| convert(cx, r, |x, _| c::v_cvt_i32_f32(x)),
        Op::s_cvt_u32_f32 => |cx, r| convert(cx, r, |x, _| c::v_cvt_u32_f32(x)),
        Op::s_cvt_f16_f32 => |cx, r| convert(cx, r, |x, mode| u32::from(c::v_cvt_f16_f32(x, mode))),
        Op::s_cvt_f32_f16 => |cx, r| convert(cx, r, |x, mode| c::v_cvt_f32_f16(x as u16, mode)),
        Op::s_cvt_hi_f32_f16 => {
            |cx, r| convert(cx, r, |x, mode| c::v_cvt_f32_f16((x >> 16) as u16, mode))
        }
        Op::s_cvt_pk_rtz_f16_f32 => |cx, r| two32(cx, r, c::v_cvt_pk_rtz_f16_f32),
        _ => return None,
    })
}

/// NaN rules of minimum and maximum where MODE.IEEE exists.
fn rules(mode: Mode) -> NanRules {
    NanRules {
        ieee: mode.ieee,
        second: false,
    }
}

#[inline(always)]
fn two32(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32, Mode) -> u32) -> Flow {
    let value = f(
        cx.get32(record.src[0]),
        cx.get32(record.src[1]),
        mode_of(record),
    );
    cx.set32(record.dst, value);
    Flow::Next
}

#[inline(always)]
fn two16(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u16, u16, Mode) -> u16) -> Flow {
    two32(cx, record, |x, y, mode| {
        u32::from(f(x as u16, y as u16, mode))
    })
}

/// Operations that choose an operand: denormals are flushed as MODE says, before and after.
#[inline(always)]
fn pick32(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32, Mode) -> u32) -> Flow {
    two32(cx, record, |x, y, mode| {
        flush32(
            f(
                flush32(x, mode.flush_in32),
                flush32(y, mode.flush_in32),
                mode,
            ),
            mode.flush_out32,
        )
    })
}

#[inline(always)]
fn pick16(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u16, u16, Mode) -> u16) -> Flow {
    two16(cx, record, |x, y, mode| {
        let (x, y) = (
            flush16(x, mode.flush_in16_64),
            flush16(y, mode.flush_in16_64),
        );
        flush16(f(x, y, mode), mode.flush_out16_64)
    })
}

/// Fused multiply-add of three sources in the given order.
#[inline(always)]
fn three32(cx: &mut Cx<'_, '_>, record: &Record, order: [usize; 3]) -> Flow {
    let [x, y, z] = order.map(|i| cx.get32(record.src[i]));
    cx.set32(record.dst, a::v_fma_f32(x, y, z, mode_of(record)));
    Flow::Next
}

fn fmac_f16(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let [x, y, z] = [0, 1, 2].map(|i| cx.get32(record.src[i]) as u16);
    cx.set32(
        record.dst,
        u32::from(a::v_fma_f16(x, y, z, mode_of(record))),
    );
    Flow::Next
}

#[inline(always)]
fn convert(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, Mode) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]), mode_of(record));
    cx.set32(record.dst, value);
    Flow::Next
}

#[inline(always)]
fn round32(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32) -> u32) -> Flow {
    convert(cx, record, |x, mode| f(flush32(x, mode.flush_in32)))
}

#[inline(always)]
fn round16(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u16) -> u16) -> Flow {
    convert(cx, record, |x, mode| {
        u32::from(f(flush16(x as u16, mode.flush_in16_64)))
    })
}
