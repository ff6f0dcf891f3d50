//! Which instruction computes a node, with AVX-512.

use iced_x86::{Code, IcedError, Instruction, Register, RoundingControl};
use rocjitsu_lanes::trace::graph::{Node, Op};

use super::super::assembler::{Arg, half, masked, with2, with2_imm, with3, with3_imm};

/// The operand that a node's instruction can take from memory, and whether a word spread over the lanes will do.
pub fn memory_operand(node: &Node) -> Option<(usize, bool)> {
    use Op::*;
    match node.op {
        Add | Sub | Mul | MinI | MaxI | MinU | MaxU | Shl | Shr | Sar | AddF | SubF | MulF
        | DivF | MinF | MaxF | MaxOrB | CompareI | CompareU | CompareF | TestZero | TestSet => {
            Some((1, true))
        }
        MulEvenU | MulEvenI | AddD | MulD | DivD | CompareD => Some((1, false)),
        ShlBy | ShrBy | SarBy | RotrBy | RoundF | FromI | FromU | ToI | ToU | SqrtF
        | LeadingZeros => Some((0, true)),
        HighToLow => Some((0, false)),
        Bytes | Permute => Some((1, false)),
        Select => Some((1, true)),
        AddOdd => Some((2, true)),
        Logic => match node.operands().count() {
            2 | 3 => Some((node.operands().count() - 1, true)),
            _ => None,
        },
        _ => None,
    }
}

/// The instruction of a node with one operand.
pub fn unary(node: &Node, to: Register, from: Arg) -> Result<Instruction, IcedError> {
    use Op::*;
    let imm = node.imm;
    let by = |code| with2_imm(code, to, from, imm);
    match node.op {
        ShlBy => by(Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8),
        ShrBy => by(Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8),
        SarBy => by(Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8),
        RotrBy => by(Code::EVEX_Vprord_zmm_k1z_zmmm512b32_imm8),
        HighToLow => with2_imm(Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, to, from, 32),
        // Bit 3: inexact results raise nothing.
        RoundF => with2_imm(
            Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
            to,
            from,
            imm | 8,
        ),
        RoundD => with2_imm(
            Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae,
            to,
            from,
            imm | 8,
        ),
        SqrtF => with2(Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, to, from),
        SqrtD => with2(Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, to, from),
        LeadingZeros => with2(Code::EVEX_Vplzcntd_zmm_k1z_zmmm512b32, to, from),
        FromID => with2(Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er, to, from.half()),
        FromUD => with2(Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er, to, from.half()),
        FromFD => with2(Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, to, from.half()),
        ToID => with2(Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae, half(to), from),
        ToUD => with2(
            Code::EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae,
            half(to),
            from,
        ),
        ToFD => with2(Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, half(to), from),
        FromI => with2(Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, to, from),
        FromU => with2(Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, to, from),
        ToI => with2(Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, to, from),
        ToU => with2(Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, to, from),
        Widen => with2(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, to, from.half()),
        FromF16 => with2(Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, to, from.half()),
        Narrow => with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, half(to), from),
        _ => with2_imm(
            Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae,
            half(to),
            from,
            imm,
        ),
    }
}

/// The f32 sum, rounded in a way of its own.
pub fn add_rounded(
    to: Register,
    a: Register,
    b: Register,
    rounding: RoundingControl,
) -> Result<Instruction, IcedError> {
    let mut sum = Instruction::with3(Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, to, a, b)?;
    sum.set_rounding_control(rounding);
    Ok(sum)
}

/// `mask ? chosen : other`, in lanes of 32 or of 64 bits.
pub fn blend(
    wide: bool,
    to: Register,
    mask: Register,
    chosen: Arg,
    other: Register,
) -> Result<Instruction, IcedError> {
    let code = match wide {
        false => Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32,
        true => Code::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64,
    };
    masked(with3(code, to, other, chosen), mask)
}

/// The instruction of [`Op::HighHalf`].
pub fn high_half(to: Register, from: Register) -> Result<Instruction, IcedError> {
    let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
    Instruction::with3(code, half(to), from, 1)
}

/// The instruction of a node with two operands.
pub fn binary(node: &Node, to: Register, a: Register, b: Arg) -> Result<Instruction, IcedError> {
    use Op::*;
    let plain = |code| with3(code, to, a, b);
    let with = |code, imm| with3_imm(code, to, a, b, imm);
    match node.op {
        Add => plain(Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32),
        Sub => plain(Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32),
        Mul => plain(Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32),
        MinI => plain(Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32),
        MaxI => plain(Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32),
        MinU => plain(Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32),
        MaxU => plain(Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32),
        Logic => match node.imm {
            0xc0 => plain(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32),
            0xfc => plain(Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32),
            0x3c => plain(Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32),
            0x0c => plain(Code::EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32),
            table => {
                // The function of the last two operands: bit 2p + q is bit 4p + 2q of the table.
                let bit = |i: u32| table >> (2 * (i & 3)) & 1;
                let table = (0..8).fold(0, |all, i| all | bit(i) << i);
                with(Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8, table)
            }
        },
        Shl => plain(Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32),
        Shr => plain(Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32),
        Sar => plain(Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32),
        MulEvenU => plain(Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64),
        MulEvenI => plain(Code::EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64),
        MinB => plain(Code::EVEX_Vpminub_zmm_k1z_zmm_zmmm512),
        ScaleF => plain(Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er),
        Permute => plain(Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32),
        Bytes => plain(Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512),
        DivF => plain(Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er),
        ScaleD => plain(Code::EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er),
        DivD => plain(Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er),
        Concat => with3_imm(
            Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8,
            to,
            a,
            b.half(),
            1,
        ),
        AddF => plain(Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er),
        SubF => plain(Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er),
        MulF => plain(Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er),
        // Sign of the comparison's result; minimum or maximum.
        MinF => with(Code::EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae, 4),
        MaxF => with(Code::EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae, 5),
        MaxOrB => plain(Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae),
        AddD => plain(Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er),
        MulD => plain(Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er),
        CompareI => with(Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, node.imm),
        CompareU => with(Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, node.imm),
        CompareF => with(Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, node.imm),
        CompareD => with(Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, node.imm),
        TestZero => plain(Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32),
        _ => plain(Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32),
    }
}
