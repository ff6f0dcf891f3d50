//! Small cases with results worked out by hand from the manuals' tables.

use super::super::{
    COperand, Family, MatrixError, MatrixOp, Operands, ScaleFormat, ScaleOperand, execute,
};
use super::vectors::rows;
use crate::backend::Backend;

const F16_ONE: u32 = 0x3c00;
const TWO_ONES: u32 = F16_ONE << 16 | F16_ONE;

fn op(name: &str, family: Family) -> MatrixOp {
    MatrixOp::from_mnemonic(name, family).unwrap()
}

/// Runs on every back end and demands the same registers from each.
fn run(op: &MatrixOp, operands: &Operands<'_>, start: &[[u32; 64]]) -> Vec<[u32; 64]> {
    let mut results = Backend::ALL
        .into_iter()
        .filter(|b| b.is_supported())
        .map(|backend| {
            let mut d = start.to_vec();
            execute(op, backend, operands, &mut d).unwrap();
            d
        });
    let first = results.next().unwrap();
    assert!(results.all(|d| d == first), "back ends differ");
    first
}

fn f32_at(d: &[[u32; 64]], register: usize, lane: usize) -> f32 {
    f32::from_bits(d[register][lane])
}

/// The nearest f16 of a small integer.
fn half(x: usize) -> u32 {
    u32::from(crate::matrix::formats::f32_to_f16(x as f32))
}

#[test]
fn sparse_indices_select_rows_of_b() {
    // 16x16x32: a lane of group g holds A's packed elements 4g to 4g+3 of row `lane % 16` and
    // B's rows 8g to 8g+7 of column `lane % 16` (CDNA3 section 7.4.1.1). B[k][j] = k + 1.
    let mut op = op("v_smfmac_f32_16x16x32_f16", Family::Cdna3);
    let a = [[TWO_ONES; 64]; 2];
    let b: [[u32; 64]; 4] = std::array::from_fn(|register| {
        std::array::from_fn(|lane| {
            let k = lane / 16 * 8 + register * 2;
            half(k + 1) | half(k + 2) << 16
        })
    });
    // Set 0 selects 0 and 1 of every four, set 1 selects 0 and 3, but 1 and 2 in row 5.
    let index = [std::array::from_fn(|lane| {
        if lane % 16 == 5 { 0x9944 } else { 0xcc44u32 }
    })];
    let (a, b, index) = (rows(&a), rows(&b), rows(&index));
    let mut operands = Operands::dense(&a, &b, COperand::InPlace);
    operands.index = &index;
    let start = [[0.5f32.to_bits(); 64]; 4];
    // Rows 4t+1 and 4t+2 (counting from one) for t = 0..8: 8 x 3 + 2 x 4 x 28.
    let d = run(&op, &operands, &start);
    assert_eq!(f32_at(&d, 0, 0), 248.5);
    op.mods.abid = 1;
    // Row 5 lies in register 1 of lanes 16 to 31; 4t+1 and 4t+4: 40 + 224, 4t+2 and 4t+3 the same.
    let d = run(&op, &operands, &start);
    assert_eq!((f32_at(&d, 0, 3), f32_at(&d, 1, 16 + 3)), (264.5, 264.5));
    // CBSZ other than zero selects set 0 whatever ABID says.
    op.mods.cbsz = 1;
    assert_eq!(f32_at(&run(&op, &operands, &start), 0, 3), 248.5);
}

#[test]
fn block_scales_of_cdna4() {
    // Four-bit ones (0x2) everywhere: a block of 32 sums to 32. A's factor of row i and block g
    // lies in lane i + 16 g (CDNA4 section 7.2.1), here in byte 2: 2^g; B's is 2^-1.
    let mut op = op("v_mfma_scale_f32_16x16x128_f8f6f4", Family::Cdna4)
        .with_formats(4, 4)
        .unwrap();
    op.mods.scale_sel_a = 2;
    let ones = [[0x2222_2222u32; 64]; 4];
    let scale_a = [std::array::from_fn(|lane| {
        (127 + lane as u32 / 16) << 16 | 0xff00_00ff
    })];
    let ones = rows(&ones);
    let scale_a = rows(&scale_a);
    let operands = Operands {
        scale_a: ScaleOperand::Rows(&scale_a),
        scale_b: ScaleOperand::Constant(126),
        ..Operands::dense(&ones, &ones, COperand::Constant(u64::from(3f32.to_bits())))
    };
    let d = run(&op, &operands, &[[0; 64]; 4]);
    assert_eq!(f32_at(&d, 0, 0), 3.0 + 16.0 * (1.0 + 2.0 + 4.0 + 8.0));
    // 0xff is NaN.
    op.mods.scale_sel_a = 3;
    assert_eq!(run(&op, &operands, &[[0; 64]; 4])[0][0], 0x7fc0_0000);
}

#[test]
fn block_scales_of_gfx1250() {
    // FP4 ones, factors for 16 elements in two registers, E5M3: 0x7c is 1.5 (CDNA5 section
    // 7.12.6.2). Row 3 takes its factors from lane 3, or lane 19 with the selector set.
    let mut op = op("v_wmma_scale16_f32_16x16x128_f8f6f4", Family::Gfx1250)
        .with_formats(4, 4)
        .unwrap();
    (op.mods.scale_fmt_a, op.mods.scale_fmt_b) = (ScaleFormat::E5m3, ScaleFormat::E5m3);
    let ones = [[0x2222_2222u32; 64]; 8];
    let scale_a = [
        [0x7c7c_7c7cu32; 64],
        std::array::from_fn(|lane| if lane == 19 { 0x78 } else { 0x7878_7878 }),
    ];
    let scale_b = [[0x7878_7878u32; 64]; 2];
    let ones = rows(&ones);
    let (scale_a, scale_b) = (rows(&scale_a), rows(&scale_b));
    let operands = Operands {
        scale_a: ScaleOperand::Rows(&scale_a),
        scale_b: ScaleOperand::Rows(&scale_b),
        ..Operands::dense(&ones, &ones, COperand::Constant(0))
    };
    assert_eq!(
        f32_at(&run(&op, &operands, &[[0; 64]; 8]), 3, 0),
        16.0 * (4.0 * 1.5 + 4.0)
    );
    op.mods.scale_sel_a = 1;
    // Three of the four upper factors are zero.
    assert_eq!(
        f32_at(&run(&op, &operands, &[[0; 64]; 8]), 3, 0),
        16.0 * (4.0 * 1.5 + 1.0)
    );
}

#[test]
fn broadcast_of_a_block() {
    // CDNA3 section 7.1.5.1: with CBSZ = 1 and ABID = 1, D[b,i,j] = A[1,i,0] x B[b,0,j].
    let mut op = op("v_mfma_f32_32x32x1_2b_f32", Family::Cdna3);
    (op.mods.cbsz, op.mods.abid) = (1, 1);
    let a = [std::array::from_fn(|lane| (lane as f32).to_bits())];
    let b = [std::array::from_fn(|lane| {
        if lane < 32 {
            1f32.to_bits()
        } else {
            2f32.to_bits()
        }
    })];
    let (a, b) = (rows(&a), rows(&b));
    let d = run(
        &op,
        &Operands::dense(&a, &b, COperand::Constant(0)),
        &[[0; 64]; 32],
    );
    // D[0,5,0]: register 1, lane 32. D[1,5,0]: register 17, lane 32.
    assert_eq!((f32_at(&d, 1, 32), f32_at(&d, 17, 32)), (37.0, 74.0));
}

#[test]
fn blgp_negates_f64() {
    let mut op = op("v_mfma_f64_4x4x4_4b_f64", Family::Cdna3);
    op.mods.blgp = 0b101;
    let one = [[0u32; 64], [0x3ff0_0000; 64]];
    let one = rows(&one);
    // -(1 x 1) x 4 - 1.
    let d = run(
        &op,
        &Operands::dense(&one, &one, COperand::Rows(&one)),
        &[[0; 64]; 2],
    );
    assert_eq!(
        (d[0][17], d[1][17]),
        (0, (-5f64).to_bits().wrapping_shr(32) as u32)
    );
}

#[test]
fn overflow_mode_clamps_results() {
    let ones = [[TWO_ONES; 64]; 8];
    let large = [[0x7bff_7bffu32; 64]; 8];
    let (ones, large) = (rows(&ones), rows(&large));
    // f16 results of gfx1250: 32 x 65504.
    let mut wmma = op("v_wmma_f16_16x16x32_f16", Family::Gfx1250);
    let operands = Operands::dense(&ones, &large, COperand::Constant(0));
    assert_eq!(run(&wmma, &operands, &[[0; 64]; 4])[0][0], 0x7c00_7c00);
    wmma.mods.fp16_ovfl = true;
    assert_eq!(run(&wmma, &operands, &[[0; 64]; 4])[0][0], 0x7bff_7bff);
    // f32 results of CDNA3.
    let mut mfma = op("v_mfma_f32_16x16x4_f32", Family::Cdna3);
    let huge = [[2e38f32.to_bits(); 64]];
    let huge = rows(&huge);
    let operands = Operands::dense(&huge, &huge, COperand::Constant(0));
    assert_eq!(
        f32_at(&run(&mfma, &operands, &[[0; 64]; 4]), 0, 0),
        f32::INFINITY
    );
    mfma.mods.fp16_ovfl = true;
    assert_eq!(
        f32_at(&run(&mfma, &operands, &[[0; 64]; 4]), 0, 0),
        f32::MAX
    );
}

#[test]
fn fast_products_are_fma_chains() {
    // Two products, 1 and 2^-26, and C = -1. Fused, the second one is below the grid of the first;
    // a chain keeps it.
    let mut op = op("v_mfma_f32_32x32x8_f16", Family::Cdna3);
    let pair = F16_ONE | 0x0800 << 16;
    let a = [
        std::array::from_fn(|lane| if lane < 32 { pair } else { 0 }),
        [0; 64],
    ];
    let a = rows(&a);
    let minus_one = COperand::Constant(u64::from((-1f32).to_bits()));
    let operands = Operands::dense(&a, &a, minus_one);
    assert_eq!(f32_at(&run(&op, &operands, &[[0; 64]; 16]), 0, 0), 0.0);
    op.mods.fast = true;
    let d = run(&op, &operands, &[[0; 64]; 16]);
    assert_eq!(f32_at(&d, 0, 0), 2f32.powi(-26));
}

#[test]
fn subnormal_factors_count_as_the_smallest_normal_ones() {
    // 2^-24 has the exponent -14: with 64 the largest sum of exponents is -8 and the grid 2^-32, so that products with
    // 2^-12 vanish though f32 would hold all sums exactly.
    let op = op("v_mfma_f32_32x32x8_f16", Family::Cdna3);
    let a = [[0x0001_0001; 64]; 2];
    let b = [[0x0c00_5400; 64]; 2];
    let (a, b) = (rows(&a), rows(&b));
    let d = run(
        &op,
        &Operands::dense(&a, &b, COperand::Constant(0)),
        &[[0; 64]; 16],
    );
    assert_eq!(f32_at(&d, 3, 7), 4.0 * 2f32.powi(-18));
}

#[test]
fn rdna3_writes_one_half_of_a_register() {
    let mut op = op("v_wmma_f16_16x16x16_f16", Family::Rdna3);
    let ones = [[TWO_ONES; 64]; 8];
    let ones = rows(&ones);
    let operands = Operands::dense(&ones, &ones, COperand::InPlace);
    // 16 + 1, and the other half stays.
    let start = [[TWO_ONES; 64]; 8];
    assert_eq!(run(&op, &operands, &start)[0][0], F16_ONE << 16 | half(17));
    op.mods.op_sel = 4;
    assert_eq!(run(&op, &operands, &start)[0][0], half(17) << 16 | F16_ONE);
    // NEG_HI negates the odd elements of A: eight products of each sign.
    op.mods.neg_hi = 1;
    assert_eq!(run(&op, &operands, &start)[0][0], half(1) << 16 | F16_ONE);
    // Wave64 gives a lane one of four rows: half as many registers.
    op.wave = 64;
    assert_eq!(
        run(&op, &operands, &[[TWO_ONES; 64]; 4])[3][63],
        half(1) << 16 | F16_ONE
    );
}

#[test]
fn integers_are_signed_by_neg_and_saturate_by_clamp() {
    let mut op = op("v_wmma_i32_16x16x16_iu8", Family::Rdna4);
    let minus_one = [[u32::MAX; 64]; 2];
    let minus_one = rows(&minus_one);
    let operands = Operands::dense(&minus_one, &minus_one, COperand::Constant(0x7fff_ffff));
    let at = |op: &MatrixOp| run(op, &operands, &[[0; 64]; 8])[0][0];
    assert_eq!(at(&op), 0x7fff_ffffu32.wrapping_add(16 * 255 * 255));
    op.mods.neg = 1;
    assert_eq!(at(&op), 0x7fff_ffff - 16 * 255);
    op.mods.neg = 3;
    assert_eq!(at(&op), 0x7fff_ffffu32.wrapping_add(16));
    op.mods.clamp = true;
    assert_eq!(at(&op), 0x7fff_ffff);
}

#[test]
fn rdna3_sums_three_terms_exactly() {
    // bf16: -1 + 3 x 8 + 8 x 4. The grid that the hardware uses is not known.
    let op = op("v_wmma_f32_16x16x16_bf16", Family::Rdna3);
    let a: [[u32; 64]; 8] =
        std::array::from_fn(|r| if r == 0 { [0x4100_4040; 64] } else { [0; 64] });
    let b: [[u32; 64]; 8] =
        std::array::from_fn(|r| if r == 0 { [0x4080_4100; 64] } else { [0; 64] });
    let (a, b) = (rows(&a), rows(&b));
    let operands = Operands::dense(&a, &b, COperand::Constant(u64::from((-1f32).to_bits())));
    assert_eq!(f32_at(&run(&op, &operands, &[[0; 64]; 8]), 0, 0), 55.0);
}

#[test]
fn missing_registers_are_errors() {
    let op = op("v_mfma_f32_32x32x8_f16", Family::Cdna3);
    let (one, two) = ([[0u32; 64]; 1], [[0u32; 64]; 2]);
    let (one, two) = (rows(&one), rows(&two));
    let mut d = [[0; 64]; 16];
    let error = |a, b, d: &mut [[u32; 64]]| {
        execute(
            &op,
            Backend::Scalar,
            &Operands::dense(a, b, COperand::Constant(0)),
            d,
        )
        .unwrap_err()
    };
    let text = error(&one, &two, &mut d).to_string();
    assert_eq!(
        text,
        "matrix operand A: 1 registers of 64 lanes given, 2 of 64 needed"
    );
    let error = error(&two, &two, &mut d[..15]);
    assert!(matches!(
        error,
        MatrixError::Operand {
            operand: "D",
            need: 16,
            got: 15,
            ..
        }
    ));
}
