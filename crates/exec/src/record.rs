//! A decoded instruction in the form that executes: resolved operands and a handler.
//! Records are made once for a block of code and shared by all waves that run it.

use rocjitsu_isa::{Inst, Special};
use rocjitsu_lanes::kernel::{Args, Aux, Kernel};
pub use rocjitsu_observe::Exactness;

use crate::registers::{Slot, Source};
use crate::wave::{Cx, Wave, scalar};

/// What the run loop does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Go on with the next instruction.
    Next,
    /// Go on at `wave.pc`, which the handler has set.
    Jump,
    /// Leave the wave: `wave.waiting` says what for. It resumes behind this instruction.
    Wait,
    /// Leave the wave before this instruction, which `wave.pc` names: until the others have had their turn, or for what
    /// `wave.waiting` says.
    Again,
    /// Leave the wave for good: `unit.fault` says why.
    Fault,
}

/// Executes one instruction.
pub type Handler = fn(&mut Cx<'_, '_>, &Record) -> Flow;

/// Where an operand's value comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operand {
    /// There is none; reads as zero.
    #[default]
    None,
    /// A vector register (AccVGPRs from 256, see [`crate::target::TargetFacts::acc_base`]; the bank of
    /// `s_set_vgpr_msb` is in the number), and the next ones where the operand is wider.
    Vector(u16),
    /// A word of the scalar file, and the next ones where the operand is wider.
    Scalar(u8),
    /// A constant.
    Const(u64),
    /// Something that is computed when read.
    Special(Special),
}

impl Operand {
    /// The vector register, if it is one.
    pub fn vector(self) -> Option<u32> {
        match self {
            Operand::Vector(r) => Some(u32::from(r)),
            _ => None,
        }
    }

    /// The number in the scalar file, if it is there.
    pub fn scalar(self) -> Option<usize> {
        match self {
            Operand::Scalar(n) => Some(usize::from(n)),
            _ => None,
        }
    }
}

/// Operands of a lane operation without modifiers, in the form the run loop wants them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fast {
    /// The kernel's sources (low words).
    pub src: [Source; 3],
    /// Destination.
    pub dst: Slot,
    /// How many sources have to be spread from the scalar file first.
    pub scalars: u8,
    /// Mask operand and mask result in the scalar file, for [`Step::FastMask`].
    pub mask: u8,
    /// See `mask`; [`Fast::NO_MASK`] if there is no mask result.
    pub mask_out: u8,
    /// Whether there is a register result.
    pub has_dst: bool,
    /// The sources to be spread: row of the worker's shared values, number in the scalar file.
    pub spread: [(u8, u8); 6],
    /// High words of the sources, for [`Step::FastFull`].
    pub hi: [Source; 3],
    /// High word of the destination.
    pub dst_hi: Slot,
    /// Right shifts of 16-bit sources.
    pub shift: [u8; 3],
    /// Left shift of a 16-bit result.
    pub dst_shift: u8,
    /// Bits of the destination that a 16-bit result leaves as they were.
    pub keep: u32,
}

impl Fast {
    /// No mask result.
    pub const NO_MASK: u8 = u8::MAX;
}

/// A value that all lanes share, in every lane of a vector.
#[repr(align(64))]
pub struct ConstRow(pub [u32; 16]);

/// Rows that stay where they are while the list grows: sources hold their addresses.
#[allow(clippy::vec_box)]
pub type Constants = Vec<Box<ConstRow>>;

/// How the run loop treats a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A lane operation on 32-bit operands without modifiers or masks: the run loop calls the kernel itself.
    Fast,
    /// As `Fast`, with a mask operand or result, and perhaps no register result.
    FastMask,
    /// As `FastMask`, with 64-bit or 16-bit operands or results.
    FastFull,
    /// Everything else: the handler is called.
    Handler,
    /// A load or atomic of vector memory, or a store to LDS: as `Handler`, but the first one of each kind after a
    /// barrier gives the others a turn.
    ///
    /// On the hardware all waves of a workgroup go on from a barrier within some cycles, and memory takes hundreds.
    /// Kernels have come to count on that: rocPRIM's `ordered_block_id` reads from LDS after a barrier what the first
    /// wave overwrites as soon as its next load of global memory is back, without a barrier in between. Here a wave
    /// runs on at once, so the others catch up before it sees what memory answers. In the same way rocSOLVER's
    /// `potf2_kernel_small` loads a pivot from LDS in all waves, and one lane stores its root there, without a barrier
    /// in between: the load of all waves has long been made when the root is computed.
    Memory,
}

/// Classes that instructions are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Scalar arithmetic.
    Salu,
    /// Branches, waits, messages and other program control.
    Control,
    /// Scalar memory.
    Smem,
    /// Vector arithmetic.
    Valu,
    /// Matrix instructions.
    Matrix,
    /// LDS.
    Lds,
    /// Vector memory: global, flat, scratch, buffer.
    Vmem,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All of them, in the order of their numbers.
    pub const ALL: [Class; Class::COUNT] = [
        Class::Salu,
        Class::Control,
        Class::Smem,
        Class::Valu,
        Class::Matrix,
        Class::Lds,
        Class::Vmem,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Salu => "salu",
            Class::Control => "control",
            Class::Smem => "smem",
            Class::Valu => "valu",
            Class::Matrix => "matrix",
            Class::Lds => "lds",
            Class::Vmem => "vmem",
        }
    }
}

/// Counters of executed instructions: one for each [`Class`], and behind them one for those of all classes that are
/// [`Exactness::Bounded`] and one for those that are [`Exactness::Default`].
pub const COUNTERS: usize = Class::COUNT + 2;

/// One instruction, ready to execute.
#[repr(C, align(64))]
pub struct Record {
    /// How the run loop treats it.
    pub step: Step,
    /// What it counts as.
    pub class: Class,
    /// Whether nothing may follow in the same block: branches, waits, changes of the decode state.
    pub ends_block: bool,
    /// [`Args::aux`] of lane operations.
    pub aux: Aux,
    /// Lane operations: the kernel. Others: a function that does nothing.
    pub kernel: Kernel,
    /// Operands for [`Step::Fast`].
    pub fast: Fast,
    /// Executes it (also for [`Step::Fast`], where the run loop has a shorter way).
    pub run: Handler,
    /// What `run` calls where the order of waves matters, once the wave's turn has come ([`crate::order`]).
    pub in_order: Handler,
    /// Destination.
    pub dst: Operand,
    /// Sources.
    pub src: [Operand; 4],
    /// Second destination or mask result.
    pub dst2: Operand,
    /// Mask operand.
    pub mask: Operand,
    /// A number the handler needs: an offset, an immediate.
    pub imm: i64,
    /// Another one.
    pub imm2: i64,
    /// Whether its results are the hardware's.
    pub exactness: Exactness,
    /// Address of the instruction.
    pub pc: u64,
    /// Address of the next one.
    pub next_pc: u64,
    /// The instruction, for error texts and rare handlers.
    pub inst: Inst,
    /// Constants that [`Record::fast`] refers to.
    pub constants: Constants,
    /// Details of lane operations with modifiers.
    pub valu: Option<Box<crate::valu::Details>>,
    /// Details of memory instructions.
    pub mem: crate::vmem::Mem,
    /// Details of matrix instructions.
    pub matrix: Option<Box<crate::matrix::Details>>,
    /// Details of other instructions.
    pub detail: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// A kernel that does nothing.
///
/// # Safety
/// None needed; the type asks for it.
pub unsafe fn no_kernel(_: &mut Args) {}

impl Record {
    /// A record of `inst` at `pc` without operands.
    pub fn new(inst: Inst, pc: u64, class: Class, run: Handler) -> Record {
        Record {
            run,
            in_order: run,
            kernel: no_kernel,
            fast: Fast::default(),
            dst: Operand::None,
            src: [Operand::None; 4],
            dst2: Operand::None,
            mask: Operand::None,
            aux: Aux(0),
            imm: 0,
            imm2: 0,
            step: Step::Handler,
            class,
            ends_block: false,
            exactness: Exactness::Exact,
            pc,
            next_pc: pc.wrapping_add(inst.len() as u64),
            inst,
            constants: Vec::new(),
            valu: None,
            matrix: None,
            mem: crate::vmem::Mem::default(),
            detail: None,
        }
    }

    /// Counts an execution.
    #[inline]
    pub fn count<N: std::ops::AddAssign + From<bool>>(&self, counts: &mut [N; COUNTERS]) {
        counts[self.class as usize] += N::from(true);
        counts[Class::COUNT] += N::from(matches!(self.exactness, Exactness::Bounded(_)));
        counts[Class::COUNT + 1] += N::from(matches!(self.exactness, Exactness::Default(_)));
    }
}

impl Cx<'_, '_> {
    /// A 32-bit scalar operand.
    #[inline(always)]
    pub fn get32(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Scalar(n) => self.wave.s[usize::from(n)],
            Operand::Const(k) => k as u32,
            other => self.get64(other) as u32,
        }
    }

    /// A 64-bit scalar operand. NULL and absent operands read as zero.
    pub fn get64(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Scalar(n) if usize::from(n) == scalar::NULL => 0,
            Operand::Scalar(n) => self.wave.s64(usize::from(n)),
            Operand::Const(k) => k,
            Operand::Special(s) => self.wave.special(s),
            Operand::None | Operand::Vector(_) => 0,
        }
    }

    /// Writes a 32-bit scalar destination. Writes to NULL go nowhere.
    #[inline(always)]
    pub fn set32(&mut self, operand: Operand, value: u32) {
        if let Operand::Scalar(n) = operand {
            self.wave.s[usize::from(n)] = value;
        }
    }

    /// Writes a 64-bit scalar destination. Writes to NULL go nowhere.
    #[inline(always)]
    pub fn set64(&mut self, operand: Operand, value: u64) {
        if let Operand::Scalar(n) = operand {
            self.wave.set_s64(usize::from(n), value);
        }
    }
}

/// Base of the LDS aperture (Linux `kfd_flat_memory.c`: SH_MEM_BASES of gfx9 to gfx12).
pub const SHARED_BASE: u64 = 1 << 48;
/// Base of the scratch aperture.
pub const PRIVATE_BASE: u64 = 2 << 48;
/// Base of the scratch aperture of gfx1250, where any wave reaches any scratch: bits 63:58 tell it apart.
pub const GLOBAL_SCRATCH_BASE: u64 = 1 << 58;
/// Size of either aperture, less one.
pub const APERTURE_LIMIT: u64 = 0xffff_ffff;

impl Wave {
    /// The flat address of this wave's scratch on gfx1250 (CDNA5 manual, 10.2.1): `SCRATCH_BASE[56:7]` in
    /// bits 51:2, below the aperture's number. Lane l's copy lies at `l << 52` behind.
    pub fn flat_scratch_base(&self) -> u64 {
        GLOBAL_SCRATCH_BASE | (self.scratch & ((1 << 57) - 1)) >> 7 << 2
    }

    /// The value of a special source.
    pub fn special(&self, special: Special) -> u64 {
        match special {
            Special::FlatScratchLo => self.s64(scalar::FLAT_SCRATCH),
            Special::FlatScratchHi => u64::from(self.s[scalar::FLAT_SCRATCH + 1]),
            Special::XnackMaskLo => self.s64(scalar::XNACK_MASK),
            Special::XnackMaskHi => u64::from(self.s[scalar::XNACK_MASK + 1]),
            Special::FlatScratchBaseLo => self.flat_scratch_base(),
            Special::FlatScratchBaseHi => self.flat_scratch_base() >> 32,
            Special::SharedBase => SHARED_BASE,
            Special::SharedLimit => SHARED_BASE | APERTURE_LIMIT,
            Special::PrivateBase => PRIVATE_BASE,
            Special::PrivateLimit => PRIVATE_BASE | APERTURE_LIMIT,
            Special::Vccz => u64::from(self.vcc() == 0),
            Special::Execz => u64::from(self.exec() == 0),
            Special::Scc => u64::from(self.scc),
            // Raster state that compute waves do not have.
            Special::PopsExitingWaveId | Special::LdsDirect => 0,
        }
    }
}
