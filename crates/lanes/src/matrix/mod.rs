//! Matrix instructions: MFMA, SMFMAC, WMMA, SWMMAC. Pure functions from registers to registers;
//! the arithmetic of each family lies in a module of its own.
//!
//! [`MatrixOp`] says what an instruction computes, [`execute`] computes it. The results follow
//! `data/numerics/mfma-arithmetic.md`: bit for bit where its vectors cover the instruction, by
//! the defaults of its section 7 elsewhere. EXEC is ignored, as the hardware does.

mod chain;
mod dot2;
mod exact;
mod form;
mod formats;
mod fused;
mod integer;
mod layout;
mod op;
mod scalar;
mod scaled;
mod tree;
mod unpack;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use form::{Form, Guard, Place, Sums};
pub use layout::Registers;
pub use op::{Element, Family, Kind, MatrixOp, Modifiers, ScaleFormat};

use crate::backend::Backend;

/// The accumulator operand.
#[derive(Clone, Copy, Debug)]
pub enum COperand<'a, R = &'a [u32]> {
    /// One row per register, as for A and B.
    Rows(&'a [R]),
    /// An inline constant, as the bits of C's element type.
    Constant(u64),
    /// C is what D holds before the instruction (SMFMAC, SWMMAC, or the same registers).
    InPlace,
}

/// The scale factors of one operand of a scaled instruction.
#[derive(Clone, Copy, Debug)]
pub enum ScaleOperand<'a, R = &'a [u32]> {
    /// No scaling.
    One,
    /// One byte for all rows and blocks: an SGPR's low byte, or the exponent field of an inline
    /// constant.
    Constant(u8),
    /// One row per register.
    Rows(&'a [R]),
}

/// Source operands: each row is one register, one word per lane (at least `wave` lanes).
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, R = &'a [u32]> {
    /// A, [`Registers::a`] registers.
    pub a: &'a [R],
    /// B.
    pub b: &'a [R],
    /// C.
    pub c: COperand<'a, R>,
    /// Sparse index, empty for dense instructions.
    pub index: &'a [R],
    /// Scale factors of A.
    pub scale_a: ScaleOperand<'a, R>,
    /// Scale factors of B.
    pub scale_b: ScaleOperand<'a, R>,
}

/// Operands by address: where the lanes of each register begin.
pub type Pointers<'a> = Operands<'a, *const u32>;

impl<'a> Operands<'a> {
    /// Operands of a dense instruction.
    pub fn dense(a: &'a [&'a [u32]], b: &'a [&'a [u32]], c: COperand<'a>) -> Self {
        Operands {
            a,
            b,
            c,
            index: &[],
            scale_a: ScaleOperand::One,
            scale_b: ScaleOperand::One,
        }
    }
}

/// Why an instruction could not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// An operand has too few registers or lanes.
    #[error(
        "matrix operand {operand}: {got} registers of {lanes} lanes given, {need} of {wave} needed"
    )]
    Operand {
        /// Which operand.
        operand: &'static str,
        /// Registers that the instruction reads or writes.
        need: usize,
        /// Registers given.
        got: usize,
        /// Shortest register given.
        lanes: usize,
        /// Lanes of the wave.
        wave: usize,
    },
    /// The back end is not available on this host.
    #[error("back end {0} is not supported by this processor")]
    Backend(&'static str),
}

/// A matrix instruction with all that can be worked out before the operands are known. Build it
/// once, when the instruction is decoded.
#[derive(Clone, Debug)]
pub struct Prepared {
    op: MatrixOp,
    registers: Registers,
    #[cfg(target_arch = "x86_64")]
    vector: Option<x86::Recipe>,
}

impl MatrixOp {
    /// Registers that each operand takes.
    pub fn registers(&self) -> Registers {
        layout::registers(self)
    }
}

impl Prepared {
    /// Prepares an instruction, its modifiers included. `apart` says that no register of D is one of A's or B's, so
    /// that these may be read while D is written.
    pub fn new(op: &MatrixOp, apart: bool) -> Prepared {
        let registers = layout::registers(op);
        #[cfg(target_arch = "x86_64")]
        let vector = x86::Recipe::new(op, &registers).map(|mut recipe| {
            recipe.set_apart(apart);
            recipe
        });
        #[cfg(not(target_arch = "x86_64"))]
        let _ = apart;
        Prepared {
            op: *op,
            registers,
            #[cfg(target_arch = "x86_64")]
            vector,
        }
    }

    /// The instruction.
    pub fn op(&self) -> &MatrixOp {
        &self.op
    }

    /// Registers that each operand takes.
    pub fn registers(&self) -> Registers {
        self.registers
    }

    /// Computes the instruction from `operands` into `d`, one row of 64 words per register of D;
    /// a wave32 instruction uses the first 32 words of each row. Every back end gives the same
    /// bits. Rounding and subnormals are those of the Rust defaults: the caller must not have
    /// changed the host's floating-point mode.
    pub fn execute(
        &self,
        backend: Backend,
        operands: &Operands<'_>,
        d: &mut [[u32; 64]],
    ) -> Result<(), MatrixError> {
        if self.op.kind == Kind::LoadScale {
            return self.supported(backend);
        }
        unpack::check(&self.op, &self.registers, operands, d.len())?;
        let pointers =
            |rows: &[&[u32]]| -> Vec<*const u32> { rows.iter().map(|row| row.as_ptr()).collect() };
        let scale = |scale: ScaleOperand<'_>| match scale {
            ScaleOperand::Rows(rows) => pointers(rows),
            _ => Vec::new(),
        };
        let d: Vec<*mut u32> = d.iter_mut().map(|row| row.as_mut_ptr()).collect();
        let c = match operands.c {
            COperand::Rows(rows) => pointers(rows),
            _ => Vec::new(),
        };
        let (a, b, index) = (
            pointers(operands.a),
            pointers(operands.b),
            pointers(operands.index),
        );
        let (rows_a, rows_b) = (scale(operands.scale_a), scale(operands.scale_b));
        let scale = |scale: ScaleOperand<'_>, rows| match scale {
            ScaleOperand::One => ScaleOperand::One,
            ScaleOperand::Constant(byte) => ScaleOperand::Constant(byte),
            ScaleOperand::Rows(_) => ScaleOperand::Rows(rows),
        };
        let operands = Operands {
            a: &a,
            b: &b,
            c: match operands.c {
                COperand::Constant(bits) => COperand::Constant(bits),
                COperand::InPlace => COperand::InPlace,
                COperand::Rows(_) => COperand::Rows(&c),
            },
            index: &index,
            scale_a: scale(operands.scale_a, &rows_a[..]),
            scale_b: scale(operands.scale_b, &rows_b[..]),
        };
        self.supported(backend)?;
        // SAFETY: `check` found as many registers and lanes as the instruction needs; slices
        // cannot overlap D, and C in place is D.
        unsafe { self.execute_at(backend, &operands, &d) };
        Ok(())
    }

    /// As [`Prepared::execute`], with all registers by address.
    ///
    /// # Safety
    /// The host must support the back end.
    /// Every operand must have as many registers as [`Prepared::registers`] says, each with the
    /// lanes of a wave. The index and the scale factors may overlap D, A and B if the instruction was not prepared for
    /// operands apart. The registers of C
    /// must be those of D, one by one, or have no lane in common with them.
    pub unsafe fn execute_at(&self, backend: Backend, operands: &Pointers<'_>, d: &[*mut u32]) {
        if self.op.kind == Kind::LoadScale {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if backend != Backend::Scalar
            && let Some(recipe) = &self.vector
            // SAFETY: by the contract of this function.
            && unsafe { recipe.execute(&self.op, &self.registers, backend, operands, d) }
        {
            return;
        }
        // SAFETY: by the contract of this function.
        unsafe { scalar::execute(&self.op, operands, d) };
    }

    fn supported(&self, backend: Backend) -> Result<(), MatrixError> {
        if backend.is_supported() {
            Ok(())
        } else {
            Err(MatrixError::Backend(backend.name()))
        }
    }
}

/// The same registers, to be read.
fn read_only(rows: &[*mut u32]) -> &[*const u32] {
    // SAFETY: the two kinds of pointers have the same layout.
    unsafe { std::slice::from_raw_parts(rows.as_ptr().cast(), rows.len()) }
}

/// Prepares and computes an instruction: see [`Prepared::execute`].
pub fn execute(
    op: &MatrixOp,
    backend: Backend,
    operands: &Operands<'_>,
    d: &mut [[u32; 64]],
) -> Result<(), MatrixError> {
    Prepared::new(op, true).execute(backend, operands, d)
}
