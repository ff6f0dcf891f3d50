//! Registers that lie anywhere, as on pages of a wave: each is an allocation of its own with just the lanes of a wave,
//! so that AddressSanitizer sees a kernel that steps over one:
//! `RUSTFLAGS=-Zsanitizer=address cargo +nightly test -p rocjitsu-lanes --lib --target x86_64-unknown-linux-gnu matrix`.

use super::super::{COperand, Element, Kind, MatrixOp, Operands, Prepared, ScaleOperand};
use super::backends::{Data, Random, all, ordered_pairs, registers};
use crate::backend::Backend;

/// Registers of as many lanes as a wave has, each allocated by itself.
struct Apart(Vec<Box<[u32]>>);

impl Apart {
    fn new(registers: &[[u32; 64]], wave: usize) -> Apart {
        Apart(registers.iter().map(|row| row[..wave].into()).collect())
    }

    fn pointers(&self) -> Vec<*const u32> {
        self.0.iter().map(|row| row.as_ptr()).collect()
    }

    fn pointers_mut(&mut self) -> Vec<*mut u32> {
        self.0.iter_mut().map(|row| row.as_mut_ptr()).collect()
    }
}

/// Where C lies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    OfD,
    Elsewhere,
    Constant,
}

/// The registers of D after an instruction.
fn results(op: &MatrixOp, backend: Backend, data: Data, place: Place) -> Vec<Box<[u32]>> {
    let mut random = Random(0x51ed_270b_7a54_36c1);
    let need = op.registers();
    let mut operand = |count: usize, element: Element, accumulator| {
        let filled = registers(count, element, data, accumulator, &mut random);
        Apart::new(&filled, op.wave)
    };
    let (a, b) = (operand(need.a, op.a, false), operand(need.b, op.b, false));
    let c = operand(need.c, op.c, true);
    let mut d = operand(need.d, op.d, true);
    let index: Vec<_> = registers(need.index, Element::I32, Data::Bits, false, &mut random)
        .iter()
        .map(|row| row.map(ordered_pairs))
        .collect();
    let index = Apart::new(&index, op.wave);
    let scale = Apart::new(&vec![[0x7e7f_8081; 64]; need.scale], op.wave);
    let (c, index, scale) = (c.pointers(), index.pointers(), scale.pointers());
    let operands = Operands {
        a: &a.pointers(),
        b: &b.pointers(),
        c: match place {
            Place::OfD => COperand::InPlace,
            Place::Elsewhere => COperand::Rows(&c),
            Place::Constant => COperand::Constant(0),
        },
        index: &index,
        scale_a: ScaleOperand::Rows(&scale),
        scale_b: ScaleOperand::Rows(&scale),
    };
    let to = d.pointers_mut();
    // SAFETY: the registers are as many as the instruction needs, with the lanes of a wave, and
    // none overlaps another; the caller asks for supported back ends.
    unsafe { Prepared::new(op, true).execute_at(backend, &operands, &to) };
    d.0
}

#[test]
fn registers_lie_anywhere() {
    for op in all() {
        if op.kind == Kind::LoadScale {
            continue;
        }
        for place in [Place::OfD, Place::Elsewhere, Place::Constant] {
            if place != Place::OfD && op.kind == Kind::Sparse || place == Place::OfD && op.c != op.d
            {
                continue;
            }
            for data in [Data::Gauss, Data::Integers] {
                let want = results(&op, Backend::Scalar, data, place);
                for backend in [Backend::Avx2, Backend::Avx512] {
                    if backend.is_supported() {
                        let got = results(&op, backend, data, place);
                        assert!(got == want, "{op:?} {data:?} {place:?} {}", backend.name());
                    }
                }
            }
        }
    }
}

/// D, which is C, takes the registers of A and B too, as far as these go.
fn results_over_operands(op: &MatrixOp, backend: Backend, data: Data) -> Vec<Box<[u32]>> {
    let mut random = Random(0x2c1b_3c6d_8f0e_9a57);
    let need = op.registers();
    let mut operand = |count: usize, element: Element| {
        Apart::new(
            &registers(count, element, data, false, &mut random),
            op.wave,
        )
    };
    let (mut a, mut b) = (operand(need.a, op.a), operand(need.b, op.b));
    let mut others = operand(need.d, op.d);
    let (a, b) = (a.pointers_mut(), b.pointers_mut());
    let d: Vec<*mut u32> = a
        .iter()
        .chain(&b)
        .copied()
        .chain(others.pointers_mut())
        .take(need.d)
        .collect();
    let read = |rows: &[*mut u32]| -> Vec<*const u32> {
        rows.iter().map(|row| row.cast_const()).collect()
    };
    let (a, b) = (read(&a), read(&b));
    let operands = Operands {
        a: &a,
        b: &b,
        c: COperand::InPlace,
        index: &[],
        scale_a: ScaleOperand::One,
        scale_b: ScaleOperand::One,
    };
    // SAFETY: as above; A and B overlap D, which is what the instruction was prepared for.
    unsafe { Prepared::new(op, false).execute_at(backend, &operands, &d) };
    // SAFETY: the registers have the lanes of a wave and are still there.
    let row = |row: &*mut u32| unsafe { std::slice::from_raw_parts(row.cast_const(), op.wave) };
    d.iter().map(|at| row(at).into()).collect()
}

#[test]
fn d_may_overlap_a_and_b() {
    let mut cases = 0;
    for op in all() {
        if !matches!(op.kind, Kind::Dense) || op.c != op.d {
            continue;
        }
        for data in [Data::Gauss, Data::Integers] {
            let want = results_over_operands(&op, Backend::Scalar, data);
            for backend in [Backend::Avx2, Backend::Avx512] {
                if backend.is_supported() {
                    let got = results_over_operands(&op, backend, data);
                    assert!(got == want, "{op:?} {data:?} {}", backend.name());
                }
            }
            cases += 1;
        }
    }
    assert!(cases > 200, "{cases}");
}
