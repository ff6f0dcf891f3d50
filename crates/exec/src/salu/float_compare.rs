//! Floating-point compares of gfx1150 and later: they set SCC. Denormal operands are flushed as MODE says.

use rocjitsu_isa::Op;
use rocjitsu_lanes::fp::mode::{flush16, flush32};
use rocjitsu_lanes::scalar::compare as c;

use super::float::mode_of;
use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_cmp_lt_f32 => |cx, r| test32(cx, r, c::v_cmp_lt_f32),
        Op::s_cmp_eq_f32 => |cx, r| test32(cx, r, c::v_cmp_eq_f32),
        Op::s_cmp_le_f32 => |cx, r| test32(cx, r, c::v_cmp_le_f32),
        Op::s_cmp_gt_f32 => |cx, r| test32(cx, r, c::v_cmp_gt_f32),
        Op::s_cmp_lg_f32 => |cx, r| test32(cx, r, c::v_cmp_lg_f32),
        Op::s_cmp_ge_f32 => |cx, r| test32(cx, r, c::v_cmp_ge_f32),
        Op::s_cmp_o_f32 => |cx, r| test32(cx, r, c::v_cmp_o_f32),
        Op::s_cmp_u_f32 => |cx, r| test32(cx, r, c::v_cmp_u_f32),
        Op::s_cmp_nge_f32 => |cx, r| test32(cx, r, c::v_cmp_nge_f32),
        Op::s_cmp_nlg_f32 => |cx, r| test32(cx, r, c::v_cmp_nlg_f32),
        Op::s_cmp_ngt_f32 => |cx, r| test32(cx, r, c::v_cmp_ngt_f32),
        Op::s_cmp_nle_f32 => |cx, r| test32(cx, r, c::v_cmp_nle_f32),
        Op::s_cmp_neq_f32 => |cx, r| test32(cx, r, c::v_cmp_neq_f32),
        Op::s_cmp_nlt_f32 => |cx, r| test32(cx, r, c::v_cmp_nlt_f32),
        Op::s_cmp_lt_f16 => |cx, r| test16(cx, r, c::v_cmp_lt_f16),
        Op::s_cmp_eq_f16 => |cx, r| test16(cx, r, c::v_cmp_eq_f16),
        Op::s_cmp_le_f16 => |cx, r| test16(cx, r, c::v_cmp_le_f16),
        Op::s_cmp_gt_f16 => |cx, r| test16(cx, r, c::v_cmp_gt_f16),
        Op::s_cmp_lg_f16 => |cx, r| test16(cx, r, c::v_cmp_lg_f16),
        Op::s_cmp_ge_f16 => |cx, r| test16(cx, r, c::v_cmp_ge_f16),
        Op::s_cmp_o_f16 => |cx, r| test16(cx, r, c::v_cmp_o_f16),
        Op::s_cmp_u_f16 => |cx, r| test16(cx, r, c::v_cmp_u_f16),
        Op::s_cmp_nge_f16 => |cx, r| test16(cx, r, c::v_cmp_nge_f16),
        Op::s_cmp_nlg_f16 => |cx, r| test16(cx, r, c::v_cmp_nlg_f16),
        Op::s_cmp_ngt_f16 => |cx, r| test16(cx, r, c::v_cmp_ngt_f16),
        Op::s_cmp_nle_f16 => |cx, r| test16(cx, r, c::v_cmp_nle_f16),
        Op::s_cmp_neq_f16 => |cx, r| test16(cx, r, c::v_cmp_neq_f16),
        Op::s_cmp_nlt_f16 => |cx, r| test16(cx, r, c::v_cmp_nlt_f16),
        _ => return None,
    })
}

#[inline(always)]
fn test32(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> bool) -> Flow {
    let flush = mode_of(record).flush_in32;
    cx.wave.scc = f(
        flush32(cx.get32(record.src[0]), flush),
        flush32(cx.get32(record.src[1]), flush),
    );
    Flow::Next
}

#[inline(always)]
fn test16(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u16, u16) -> bool) -> Flow {
    let flush = mode_of(record).flush_in16_64;
    let (a, b) = (
        cx.get32(record.src[0]) as u16,
        cx.get32(record.src[1]) as u16,
    );
    cx.wave.scc = f(flush16(a, flush), flush16(b, flush));
    Flow::Next
}
