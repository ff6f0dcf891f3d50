//! What float operations have to be told of their target and instruction beyond operands: the immediate of
//! their kernels, and operands with meanings of their own.

use rocjitsu_isa::{Inst, Name, Op, Target};

use super::{Found, dot, small_float};

/// Completes what is known of an operation by what depends on the target.
pub fn adjust(found: &mut Found, op: Op, target: Target) {
    let gfx9 = target.generation() == 9;
    let name = op.name();
    if name.starts_with("v_dot2") {
        found.immediate = match target.generation() {
            11 => dot::RDNA3,
            // gfx950 keeps f16 denormals.
            9 if target != Target::Gfx950 || name.contains("bf16") => dot::CDNA2,
            _ => 0,
        };
    } else if name.contains("fp8") || name.contains("bf8") {
        found.clamps_itself = target == Target::Gfx1250 && name.contains("fp8");
        found.immediate = match target {
            Target::Gfx942 => small_float::FNUZ,
            Target::Gfx1250 => small_float::E5M3,
            _ => 0,
        };
    } else if gfx9 && (name.contains("min") || name.contains("max") || name.contains("med3")) {
        // Of two NaNs min and max return the second one (CDNA3 and CDNA4 manuals).
        found.immediate = 1;
    }
}

/// The immediate of an instruction: that of the operation, and what its fields say.
pub fn immediate(inst: &Inst, of_op: u32) -> u32 {
    let op = inst.op();
    match op {
        Op::v_cvt_f32_fp8
        | Op::v_cvt_f32_bf8
        | Op::v_cvt_f16_fp8
        | Op::v_cvt_f16_bf8
        | Op::v_cvt_sr_fp8_f32
        | Op::v_cvt_sr_bf8_f32
        | Op::v_cvt_sr_fp8_f16
        | Op::v_cvt_sr_bf8_f16 => {
            of_op
                | inst
                    .field(Name::byte_sel)
                    .unwrap_or_else(|| op_sel(inst) >> 2)
                    & 3
        }
        Op::v_dot4_i32_iu8 | Op::v_dot8_i32_iu4 => {
            inst.field(Name::src0_modifiers).unwrap_or(0) & 1
                | (inst.field(Name::src1_modifiers).unwrap_or(0) & 1) << 1
        }
        Op::v_pk_add_f32 | Op::v_pk_mul_f32 | Op::v_pk_fma_f32 => {
            modifiers(inst, 2, |bits| bits & 3)
        }
        Op::v_fma_mix_f32
        | Op::v_fma_mixlo_f16
        | Op::v_fma_mixhi_f16
        | Op::v_fma_mix_f32_bf16
        | Op::v_fma_mixlo_bf16
        | Op::v_fma_mixhi_bf16 => modifiers(inst, 4, |bits| {
            // op_sel_hi, op_sel, abs, neg.
            bits >> 3 & 1 | (bits >> 2 & 1) << 1 | (bits >> 1 & 1) << 2 | (bits & 1) << 3
        }),
        _ => of_op,
    }
}

/// Bits made of the modifiers of the three sources, `width` for each.
fn modifiers(inst: &Inst, width: u32, f: impl Fn(u32) -> u32) -> u32 {
    let names = [
        Name::src0_modifiers,
        Name::src1_modifiers,
        Name::src2_modifiers,
    ];
    let of = |name| f(inst.field(name).unwrap_or(0));
    names.into_iter().enumerate().fold(0, |all, (slot, name)| {
        all | of(name) << (width * slot as u32)
    })
}

/// The four op_sel bits of a VOP3 instruction: one for each source, bit 3 for the destination.
pub fn op_sel(inst: &Inst) -> u32 {
    let bit = |name, from: u32, to: u32| (inst.field(name).unwrap_or(0) >> from & 1) << to;
    bit(Name::src0_modifiers, 2, 0)
        | bit(Name::src1_modifiers, 2, 1)
        | bit(Name::src2_modifiers, 2, 2)
        | bit(Name::src0_modifiers, 3, 3)
        | inst.field(Name::op_sel).unwrap_or(0) & 15
}

/// Which registers of its pair a packed f32 source takes; `bits` are its modifiers. A scalar register of
/// gfx1250 is read once, for both elements (LLVM: PackedFP32 reads 32 bits of a scalar operand there).
pub fn pair_registers(inst: &Inst, bits: u32) -> u32 {
    let once = inst.target().generation() >= 12;
    bits >> 2 & 1 | (bits >> 3 & 1) << 1 | u32::from(once) << 2
}

/// An inline constant of a mixed-precision operation. The table has it as f16 or bf16; where op_sel_hi says that
/// the source is an f32, it is the constant of that type.
pub fn mixed_constant(inst: &Inst, name: Option<Name>, k: u64) -> u64 {
    if name.and_then(|n| inst.field(n)).unwrap_or(0) & 8 != 0 {
        return k;
    }
    let f16 = [
        0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118,
    ];
    let bf16 = [
        0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22,
    ];
    let values = [
        0.5f32,
        -0.5,
        1.0,
        -1.0,
        2.0,
        -2.0,
        4.0,
        -4.0,
        f32::from_bits(0x3e22_f983),
    ];
    let codes = if inst.op().name().contains("bf16") {
        bf16
    } else {
        f16
    };
    match codes.iter().position(|&c| c == k) {
        Some(i) => u64::from(values[i].to_bits()),
        None => k,
    }
}
