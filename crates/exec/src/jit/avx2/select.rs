//! Which instruction computes a node, with AVX2.

use iced_x86::{Code, IcedError, Instruction, Register};
use rocjitsu_lanes::trace::graph::{Node, Op};

use super::super::assembler::{Arg, half, with2, with2_imm, with3, with3_imm};
use super::logic::Gate;

/// The operand that a node's instruction can take from memory.
pub fn memory_operand(node: &Node) -> Option<usize> {
    use Op::*;
    match node.op {
        Permute | FmaF | FmaD => None,
        // The half that is taken lies in the register's low half.
        Widen | FromF16 | FromID | FromFD | Concat => None,
        Select => Some(1),
        op if node.args[0] == rocjitsu_lanes::trace::graph::Id::NONE || from_register(op) => None,
        _ => Some(node.operands().count() - 1),
    }
}

/// Whether the instruction of an operation with one operand takes it from a register only.
pub fn from_register(op: Op) -> bool {
    use Op::*;
    matches!(op, ShlBy | ShrBy | SarBy | HighToLow | ToF16)
}

/// The instruction of a node with one operand.
pub fn unary(node: &Node, to: Register, from: Arg) -> Result<Instruction, IcedError> {
    use Op::*;
    let imm = node.imm;
    let plain = |code, to, from| with2(code, to, from);
    let with = |code, imm| with2_imm(code, to, from, imm);
    match node.op {
        ShlBy => with(Code::VEX_Vpslld_ymm_ymm_imm8, imm),
        ShrBy => with(Code::VEX_Vpsrld_ymm_ymm_imm8, imm),
        SarBy => with(Code::VEX_Vpsrad_ymm_ymm_imm8, imm),
        HighToLow => with(Code::VEX_Vpsrlq_ymm_ymm_imm8, 32),
        Quarters => with(Code::VEX_Vpermq_ymm_ymmm256_imm8, imm),
        // Bit 3: inexact results raise nothing.
        RoundF => with(Code::VEX_Vroundps_ymm_ymmm256_imm8, imm | 8),
        RoundD => with(Code::VEX_Vroundpd_ymm_ymmm256_imm8, imm | 8),
        SqrtF => plain(Code::VEX_Vsqrtps_ymm_ymmm256, to, from),
        SqrtD => plain(Code::VEX_Vsqrtpd_ymm_ymmm256, to, from),
        FromI => plain(Code::VEX_Vcvtdq2ps_ymm_ymmm256, to, from),
        ToI => plain(Code::VEX_Vcvttps2dq_ymm_ymmm256, to, from),
        FromID => plain(Code::VEX_Vcvtdq2pd_ymm_xmmm128, to, from.half()),
        FromFD => plain(Code::VEX_Vcvtps2pd_ymm_xmmm128, to, from.half()),
        ToID => plain(Code::VEX_Vcvttpd2dq_xmm_ymmm256, half(to), from),
        ToFD => plain(Code::VEX_Vcvtpd2ps_xmm_ymmm256, half(to), from),
        Widen => plain(Code::VEX_Vpmovzxwd_ymm_xmmm128, to, from.half()),
        FromF16 => plain(Code::VEX_Vcvtph2ps_ymm_xmmm128, to, from.half()),
        ToF16 => {
            let code = Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8;
            with2_imm(code, half(to), from, imm)
        }
        _ => plain(Code::INVALID, to, from),
    }
}

/// The instruction of a node with two operands.
pub fn binary(node: &Node, to: Register, a: Register, b: Arg) -> Result<Instruction, IcedError> {
    use Op::*;
    let imm = node.imm;
    let plain = |code| with3(code, to, a, b);
    let with = |code| with3_imm(code, to, a, b, imm);
    match node.op {
        Add => plain(Code::VEX_Vpaddd_ymm_ymm_ymmm256),
        Sub => plain(Code::VEX_Vpsubd_ymm_ymm_ymmm256),
        Mul => plain(Code::VEX_Vpmulld_ymm_ymm_ymmm256),
        MinI => plain(Code::VEX_Vpminsd_ymm_ymm_ymmm256),
        MaxI => plain(Code::VEX_Vpmaxsd_ymm_ymm_ymmm256),
        MinU => plain(Code::VEX_Vpminud_ymm_ymm_ymmm256),
        MaxU => plain(Code::VEX_Vpmaxud_ymm_ymm_ymmm256),
        MinB => plain(Code::VEX_Vpminub_ymm_ymm_ymmm256),
        Logic if imm == Gate::And.table() => plain(Code::VEX_Vpand_ymm_ymm_ymmm256),
        Logic if imm == Gate::Or.table() => plain(Code::VEX_Vpor_ymm_ymm_ymmm256),
        Logic if imm == Gate::Xor.table() => plain(Code::VEX_Vpxor_ymm_ymm_ymmm256),
        Logic if imm == Gate::AndNot.table() => plain(Code::VEX_Vpandn_ymm_ymm_ymmm256),
        Shl => plain(Code::VEX_Vpsllvd_ymm_ymm_ymmm256),
        Shr => plain(Code::VEX_Vpsrlvd_ymm_ymm_ymmm256),
        Sar => plain(Code::VEX_Vpsravd_ymm_ymm_ymmm256),
        MulEvenU => plain(Code::VEX_Vpmuludq_ymm_ymm_ymmm256),
        MulEvenI => plain(Code::VEX_Vpmuldq_ymm_ymm_ymmm256),
        Bytes => plain(Code::VEX_Vpshufb_ymm_ymm_ymmm256),
        Blend => with(Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8),
        UnpackLow => plain(Code::VEX_Vpunpckldq_ymm_ymm_ymmm256),
        UnpackHigh => plain(Code::VEX_Vpunpckhdq_ymm_ymm_ymmm256),
        Shuffle => with(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8),
        Concat => {
            let code = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
            with3_imm(code, to, a, b.half(), 1)
        }
        AddF => plain(Code::VEX_Vaddps_ymm_ymm_ymmm256),
        SubF => plain(Code::VEX_Vsubps_ymm_ymm_ymmm256),
        MulF => plain(Code::VEX_Vmulps_ymm_ymm_ymmm256),
        DivF => plain(Code::VEX_Vdivps_ymm_ymm_ymmm256),
        MinOrB => plain(Code::VEX_Vminps_ymm_ymm_ymmm256),
        MaxOrB => plain(Code::VEX_Vmaxps_ymm_ymm_ymmm256),
        AddD => plain(Code::VEX_Vaddpd_ymm_ymm_ymmm256),
        MulD => plain(Code::VEX_Vmulpd_ymm_ymm_ymmm256),
        DivD => plain(Code::VEX_Vdivpd_ymm_ymm_ymmm256),
        MinOrBD => plain(Code::VEX_Vminpd_ymm_ymm_ymmm256),
        CompareF => with(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8),
        CompareD => with(Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8),
        CompareI if imm == 0 => plain(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256),
        CompareI if imm == 6 => plain(Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256),
        _ => plain(Code::INVALID),
    }
}

/// `mask ? chosen : other`, by the signs of words.
pub fn blend(
    to: Register,
    mask: Register,
    chosen: Arg,
    other: Register,
) -> Result<Instruction, IcedError> {
    let code = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
    match chosen {
        Arg::Reg(chosen) => Instruction::with4(code, to, other, chosen, mask),
        Arg::Mem(chosen) => Instruction::with4(code, to, other, chosen, mask),
    }
}
