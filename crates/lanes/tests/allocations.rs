//! Dense matrix instructions allocate nothing, whatever their modifiers: an allocator that counts. Scaled sums that the
//! vector kernels leave to the scalar reference do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rocjitsu_lanes::Backend;
use rocjitsu_lanes::matrix::{COperand, Family, MatrixOp, Operands, Prepared, ScaleOperand};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is the system's allocator's; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: by the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this function.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Every 16 bits a number about 1 as f16 and bf16; infinities and NaN now and then.
fn rows(count: usize, seed: u32, special: bool) -> Vec<[u32; 64]> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        if special && state >> 24 == 7 {
            return 0x7fc0_7f80;
        }
        state >> 3 & 0x83ff_83ff | 0x3c00_3c00
    };
    (0..count)
        .map(|_| std::array::from_fn(|_| word()))
        .collect()
}

#[test]
fn matrix_instructions_allocate_nothing() {
    let names = [
        (Family::Cdna2, "v_mfma_f32_32x32x2bf16"),
        (Family::Cdna2, "v_mfma_f32_32x32x4bf16_1k"),
        (Family::Cdna2, "v_mfma_f32_4x4x4f16"),
        (Family::Cdna2, "v_mfma_f32_32x32x1f32"),
        (Family::Cdna2, "v_mfma_f64_16x16x4f64"),
        (Family::Cdna3, "v_mfma_f32_32x32x4_2b_f16"),
        (Family::Cdna3, "v_mfma_f32_16x16x4_4b_bf16"),
        (Family::Cdna3, "v_mfma_f32_4x4x4_16b_f16"),
        (Family::Cdna3, "v_mfma_f32_16x16x8_xf32"),
        (Family::Cdna3, "v_mfma_f32_16x16x32_fp8_bf8"),
        (Family::Cdna3, "v_mfma_i32_16x16x4_4b_i8"),
        (Family::Cdna4, "v_mfma_f32_16x16x32_bf16"),
    ];
    for (family, name) in names {
        let plain = MatrixOp::from_mnemonic(name, family).expect(name);
        for (cbsz, abid, blgp) in [(0, 0, 0), (1, 1, 0), (2, 3, 0), (0, 0, 3), (1, 0, 5)] {
            let mut op = plain;
            op.mods.cbsz = cbsz;
            op.mods.abid = abid;
            op.mods.blgp = blgp;
            let prepared = Prepared::new(&op, true);
            let need = prepared.registers();
            for special in [false, true] {
                let (a, b) = (rows(need.a, 1, special), rows(need.b, 2, special));
                let mut d = rows(need.d, 3, special);
                let pointers = |rows: &[[u32; 64]]| -> Vec<*const u32> {
                    rows.iter().map(|row| row.as_ptr()).collect()
                };
                let (a, b) = (pointers(&a), pointers(&b));
                let d: Vec<*mut u32> = d.iter_mut().map(|row| row.as_mut_ptr()).collect();
                let operands = Operands {
                    a: &a[..],
                    b: &b,
                    c: COperand::InPlace,
                    index: &[],
                    scale_a: ScaleOperand::One,
                    scale_b: ScaleOperand::One,
                };
                for backend in Backend::supported().filter(|&b| b != Backend::Scalar) {
                    // SAFETY: as many registers as the instruction needs, with the lanes of a wave.
                    let run = || unsafe { prepared.execute_at(backend, &operands, &d) };
                    // The first one makes what the thread keeps.
                    run();
                    let before = COUNT.get();
                    run();
                    let count = COUNT.get() - before;
                    assert_eq!(
                        count, 0,
                        "{name} {cbsz} {abid} {blgp} on {backend}, special: {special}"
                    );
                }
            }
        }
    }
}
