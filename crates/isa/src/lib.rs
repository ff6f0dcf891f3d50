//! Bytes to instructions and back: encoding tables, decoder, disassembler, register effects.
//!
//! One table for each target, generated from `data/isa` by `cargo xtask isa`, describes every
//! encodable instruction: encoding bits, operands, register widths, printing, implicit registers.
//! [`decode`] finds the row of an instruction and gives an [`Inst`], whose fields and operands can
//! be read one by one. Nothing here knows how an instruction executes.
//!
//! ```
//! use rocjitsu_isa::{Name, Op, Operand, Target, decode};
//!
//! let target = Target::Gfx942;
//! let set = target.execution_set(64);
//! let inst = decode(target, set, &[0x02, 0x06, 0x02, 0x02])?;
//! assert_eq!(inst.op(), Op::v_add_f32);
//! assert_eq!(inst.operand(Name::src0), Some(Operand::Sgpr(2)));
//! assert_eq!(inst.text(set), "v_add_f32_e32 v1, s2, v3");
//! # Ok::<(), rocjitsu_isa::DecodeError>(())
//! ```
//!
//! # Which feature set an executor uses
//!
//! Feature sets choose between rows that describe the same bits in different words. Rows that
//! treat 16-bit halves of VGPRs as registers of their own ([`Operand::Vgpr16`]) are what the
//! hardware of gfx11 and later does. gfx1100 and gfx1151 have only such rows; on gfx1201 and gfx1250
//! they are those of [`FeatureSet::True16`], while [`FeatureSet::Default`] describes whole registers
//! (LLVM's "fake16", which cannot name the upper halves). [`Target::execution_set`] says which set to
//! decode with for execution of a wave: on gfx1201 and gfx1250 one with 16-bit registers, for wave64
//! one in which the WMMA operands have their wave64 widths.
//!
//! # What is refused and what is not
//!
//! [`decode`] takes exactly the bytes whose fields name something on the chip. It is stricter than LLVM's
//! disassembler: constants and scalar registers where only a VGPR can stand, null on gfx9, LDS direct on gfx11,
//! literals in DPP or in gfx9's VOP3, tuples that leave the register file or are not aligned, and reserved
//! DPP controls are errors. It is more liberal where the hardware does not look: bits outside every field,
//! reserved numbers in immediates (export targets, delays, hardware registers, wait counters), `m0` and
//! EXEC as scalar data, and `src_` registers as scalar destinations, which LLVM's register classes allow.
//! An executor has to refuse the last ones.

#![forbid(unsafe_code)]

mod decode;
mod effects;
mod generated;
mod image;
mod index;
mod inst;
mod operand;
mod raw;
mod table;
mod target;
mod text;

pub use decode::{DecodeError, Words, decode};
pub use effects::{Effects, Half, RegFile, RegRange};
pub use generated::names::{Flag, Format, Name, Op};
pub use inst::{Inst, OperandRef};
pub use operand::{Operand, Special};
pub use table::{Fmt, Implicit, Kind, Layout, OperandInfo, Row, Table, Type};
pub use target::{FeatureSet, Target, UnknownTarget};
