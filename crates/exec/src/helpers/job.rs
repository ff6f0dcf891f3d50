//! A matrix instruction that another thread can execute: where the registers of its wave lie.

use std::mem::MaybeUninit;

use rocjitsu_lanes::Backend;
use rocjitsu_lanes::matrix::{COperand, Pointers, Prepared, ScaleOperand};

use crate::matrix::{Details, INPUTS, ROWS};
use crate::record::{Operand, Record};
use crate::registers::{PAGE_WORDS, VectorRegisters};
use crate::wave::Cx;

/// Pages that the registers of an operand lie on, at most: 32 registers of 16 to a page.
const PAGES: usize = 3;

/// Neighbouring registers of a wave.
#[derive(Clone, Copy)]
struct Rows {
    /// Their pages.
    pages: [*mut u32; PAGES],
    /// Words from the first page's begin to the first register.
    first: u32,
    count: u32,
}

impl Rows {
    /// `count` registers from `first` on.
    fn new(registers: &VectorRegisters, first: u32, count: usize) -> Rows {
        let lanes = registers.lanes() as u32;
        let in_page = PAGE_WORDS as u32 / lanes;
        let from = first / in_page * in_page;
        let page = |n: usize| registers.read_ptr(from + n as u32 * in_page).cast_mut();
        Rows {
            pages: std::array::from_fn(page),
            first: (first - from) * lanes,
            count: count as u32,
        }
    }

    /// None at all.
    const NONE: Rows = Rows {
        pages: [std::ptr::null_mut(); PAGES],
        first: 0,
        count: 0,
    };

    /// Where each of them begins, `lanes` words long.
    fn fill<'r, T, const N: usize>(
        &self,
        lanes: usize,
        room: &'r mut [MaybeUninit<T>; N],
        pointer: impl Fn(*mut u32) -> T,
    ) -> &'r [T] {
        let count = (self.count as usize).min(N);
        for (i, to) in room.iter_mut().take(count).enumerate() {
            let word = self.first as usize + i * lanes;
            let page = self.pages[(word / PAGE_WORDS).min(PAGES - 1)];
            to.write(pointer(page.wrapping_add(word % PAGE_WORDS)));
        }
        // SAFETY: that many were written.
        unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) }
    }
}

/// C.
#[derive(Clone, Copy)]
enum Accumulators {
    InPlace,
    Constant(u64),
    Rows(Rows),
}

/// Scale factors of an operand.
#[derive(Clone, Copy)]
enum Scale {
    One,
    Constant(u8),
    Rows(Rows),
}

/// A matrix instruction of a wave, all that it reads from scalar registers included.
#[derive(Clone, Copy)]
pub struct Job {
    prepared: *const Prepared,
    backend: Backend,
    lanes: u32,
    d: Rows,
    a: Rows,
    b: Rows,
    c: Accumulators,
    index: Rows,
    scale: [Scale; 2],
}

// SAFETY: the pointers are to registers and to a record that stay where they are until the wave has waited for the job, and
// meanwhile nobody else writes the registers that it reads, or touches those that it writes (the scoreboard).
unsafe impl Send for Job {}

/// Whether a record is an instruction that a job can be made of. C that D lies across needs the wave's own room.
pub fn possible(record: &Record) -> bool {
    let Some(details) = record.matrix.as_deref() else {
        return false;
    };
    let need = details.prepared.registers();
    let (Some(d), Some(_), Some(_)) = (
        record.dst.vector(),
        record.src[0].vector(),
        record.src[1].vector(),
    ) else {
        return false;
    };
    match record.src[2] {
        Operand::Vector(c) => {
            let c = u32::from(c);
            let same = c == d && need.c == need.d;
            same || c + need.c as u32 <= d || d + need.d as u32 <= c
        }
        _ => true,
    }
}

impl Job {
    /// The instruction of a record for which [`possible`] holds. The pages of D exist from now on.
    pub fn new(cx: &mut Cx<'_, '_>, record: &Record, details: &Details) -> Option<Job> {
        let need = details.prepared.registers();
        let (d, a, b) = (
            record.dst.vector()?,
            record.src[0].vector()?,
            record.src[1].vector()?,
        );
        // D first: a page that it allocates may be read through another operand.
        let in_page = (PAGE_WORDS / cx.wave.v.lanes()) as u32;
        let last = d + need.d.saturating_sub(1) as u32;
        for page in d / in_page..=last / in_page {
            cx.wave.v.write_ptr(page * in_page, &mut cx.unit.pool);
        }
        let registers = &cx.wave.v;
        let scale = |operand: Operand| match operand {
            _ if need.scale == 0 => Scale::One,
            Operand::None => Scale::One,
            Operand::Vector(r) => Scale::Rows(Rows::new(registers, r.into(), need.scale)),
            other => Scale::Constant(crate::matrix::shared_scale(cx, other)),
        };
        Some(Job {
            prepared: &details.prepared,
            backend: cx.unit.backend,
            lanes: registers.lanes() as u32,
            d: Rows::new(registers, d, need.d),
            a: Rows::new(registers, a, need.a),
            b: Rows::new(registers, b, need.b),
            c: match record.src[2] {
                Operand::Vector(r) if (u32::from(r), need.c) == (d, need.d) => {
                    Accumulators::InPlace
                }
                Operand::Vector(r) => Accumulators::Rows(Rows::new(registers, r.into(), need.c)),
                Operand::Const(bits) => Accumulators::Constant(bits),
                _ => Accumulators::Constant(0),
            },
            index: match details.index {
                Operand::Vector(r) if need.index != 0 => Rows::new(registers, r.into(), need.index),
                _ => Rows::NONE,
            },
            scale: details.scale.map(scale),
        })
    }

    /// Executes it.
    ///
    /// # Safety
    /// The wave that laid it down has not seen yet that it is done, and the host supports the wave's back end.
    pub unsafe fn execute(&self) {
        let lanes = self.lanes as usize;
        let read = |lanes: *mut u32| lanes.cast_const();
        let mut room_d = [const { MaybeUninit::uninit() }; ROWS];
        let mut room_a = [const { MaybeUninit::uninit() }; INPUTS];
        let mut room_b = [const { MaybeUninit::uninit() }; INPUTS];
        let mut room_c = [const { MaybeUninit::uninit() }; ROWS];
        let mut small = [const { [const { MaybeUninit::uninit() }; 2] }; 3];
        let [room_index, room_scale_a, room_scale_b] = &mut small;
        let d = self.d.fill(lanes, &mut room_d, |lanes| lanes);
        let [scale_a, scale_b] = self.scale;
        let scale = |scale, room| match scale {
            Scale::One => ScaleOperand::One,
            Scale::Constant(byte) => ScaleOperand::Constant(byte),
            Scale::Rows(rows) => ScaleOperand::Rows(Rows::fill(&rows, lanes, room, read)),
        };
        let operands = Pointers {
            a: self.a.fill(lanes, &mut room_a, read),
            b: self.b.fill(lanes, &mut room_b, read),
            c: match &self.c {
                Accumulators::InPlace => COperand::InPlace,
                Accumulators::Constant(bits) => COperand::Constant(*bits),
                Accumulators::Rows(rows) => COperand::Rows(rows.fill(lanes, &mut room_c, read)),
            },
            index: self.index.fill(lanes, room_index, read),
            scale_a: scale(scale_a, room_scale_a),
            scale_b: scale(scale_b, room_scale_b),
        };
        // SAFETY: `lower` checked that an instruction has no more registers than there is room for; each has the lanes of the wave,
        // on a page that exists while the wave waits for this. C is D or apart from it (`possible`). No other thread touches D or
        // writes the other operands meanwhile: the wave has let nothing pass that does (`scoreboard`), and jobs under way
        // together passed it as well. Records outlive the turn in which they execute.
        unsafe { (*self.prepared).execute_at(self.backend, &operands, d) };
    }
}
