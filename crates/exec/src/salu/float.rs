//! Floating-point arithmetic of gfx1150 and later, under MODE (rounding, denormals, FP16_OVFL).
//! f16 results leave zero in the high half (RDNA3.5 manual, "Scalar floating-point arithmetic").

use rocjitsu_isa::Op;
use rocjitsu_lanes::fp::Mode;

use super::{binary, unary};
use crate::lower::State;
use crate::record::{Flow, Handler, Record};
use crate::wave::{Cx, mode};

/// MODE as it was when the block was decoded: a change of MODE ends a block.
#[inline(always)]
pub fn mode_of(record: &Record) -> Mode {
    let state = State(record.imm as u32);
    let ovfl = if state.fp16_ovfl() { mode::FP16_OVFL } else { 0 };
    Mode::from_bits_gfx12(state.float_mode() | ovfl)
}
