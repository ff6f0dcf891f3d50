//! What plugins are told: dispatches, workgroups, waves, instructions, and what instructions touch.
//! Everything is architectural: what an instruction does on the chip, not how it is executed here.

use std::ops::BitOr;
use std::sync::Arc;

use rocjitsu_isa::{FeatureSet, Inst, Name, RegFile, Target};

/// A set of kinds of events. What plugins subscribe to decides which run loop executes the waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u32);

impl Events {
    /// None.
    pub const NONE: Events = Events(0);
    /// Begin and end of dispatches, and loaded code.
    pub const DISPATCHES: Events = Events(1);
    /// Begin and end of workgroups.
    pub const WORKGROUPS: Events = Events(2);
    /// Begin and end of waves.
    pub const WAVES: Events = Events(4);
    /// Before each instruction.
    pub const BEFORE: Events = Events(8);
    /// After each instruction.
    pub const AFTER: Events = Events(16);
    /// Register reads, before the instruction.
    pub const READS: Events = Events(32);
    /// Register writes, after the instruction.
    pub const WRITES: Events = Events(64);
    /// Memory accesses, before the instruction.
    pub const ACCESSES: Events = Events(128);
    /// Signals and waits of barriers.
    pub const BARRIERS: Events = Events(256);
    /// Matrix instructions, at issue.
    pub const MATRIX: Events = Events(512);
    /// Those that need the watching run loop.
    pub const INSTRUCTIONS: Events = Events(8 | 16 | 32 | 64 | 128 | 256 | 512);

    /// Whether any event of `other` is in the set.
    pub const fn any(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }

    /// The set as bits, as loadable plugins name it.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set of these bits; `None` if one of them means nothing.
    pub const fn from_bits(bits: u32) -> Option<Events> {
        match bits & !0x3ff {
            0 => Some(Events(bits)),
            _ => None,
        }
    }
}

impl BitOr for Events {
    type Output = Events;
    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

/// What an instruction is, in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Scalar arithmetic.
    Scalar,
    /// Vector arithmetic.
    Vector,
    /// Matrix products.
    Matrix,
    /// LDS.
    Lds,
    /// Memory: global, flat, scratch, buffer, and scalar loads.
    Global,
    /// Branches, barriers, waits, messages, ends.
    Control,
    /// What is none of these.
    Other,
}

impl Family {
    /// All, in the order of reports.
    pub const ALL: [Family; 7] = [
        Family::Scalar,
        Family::Vector,
        Family::Matrix,
        Family::Lds,
        Family::Global,
        Family::Control,
        Family::Other,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Family::Scalar => "scalar",
            Family::Vector => "vector",
            Family::Matrix => "matrix",
            Family::Lds => "lds",
            Family::Global => "global",
            Family::Control => "control",
            Family::Other => "other",
        }
    }
}

/// Registers that hold something when a wave starts. All others hold what an earlier wave left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// SGPRs from s0 on.
    pub sgprs: u16,
    /// VGPRs from v0 on.
    pub vgprs: u16,
}

/// A dispatch that begins.
#[derive(Clone, Copy)]
pub struct Dispatch<'a> {
    /// Its number in this run, from 1.
    pub id: u64,
    /// Address of its queue, 0 without one.
    pub queue: u64,
    /// Kernel name.
    pub kernel: &'a str,
    /// Target of the code.
    pub target: Target,
    /// Lanes of a wave.
    pub lanes: u32,
    /// Work-items in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub workgroup: [u32; 3],
    /// Workgroups.
    pub workgroups: u64,
    /// Waves of one whole workgroup.
    pub waves_per_workgroup: u32,
    /// LDS bytes of a workgroup.
    pub lds: u32,
    /// Scratch bytes of a work-item.
    pub scratch: u32,
    /// Address of the first instruction.
    pub entry: u64,
    /// Address of the kernarg segment.
    pub kernarg: u64,
    /// Bytes of the kernarg segment, 0 if the descriptor does not say.
    pub kernarg_bytes: u32,
    /// Workgroups of a cluster in x, y, z.
    pub cluster: [u32; 3],
    /// Registers that its waves start with.
    pub given: Given,
    /// The GPU's memory.
    pub memory: &'a Arc<dyn MemoryView>,
}

impl Dispatch<'_> {
    /// What tells its GPU from others of the run, as long as somebody holds [`Dispatch::memory`].
    pub fn gpu(&self) -> usize {
        Arc::as_ptr(self.memory).addr()
    }
}

/// A dispatch that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Its number in this run.
    pub id: u64,
    /// Kernel name.
    pub kernel: &'a str,
    /// Wave instructions executed, by the engine's own count.
    pub instructions: u64,
    /// The same by [`Family`], in the order of [`Family::ALL`].
    pub families: [u64; Family::ALL.len()],
    /// Waves that ran.
    pub waves: u64,
    /// Seconds from the first wave to the last.
    pub seconds: f64,
    /// Why it ended early.
    pub error: Option<&'a str>,
}

/// A code object in memory.
#[derive(Clone, Copy)]
pub struct Code<'a> {
    /// What addresses of the file are moved by.
    pub base: u64,
    /// The ELF file.
    pub file: &'a [u8],
}

/// A workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workgroup {
    /// Its dispatch.
    pub dispatch: u64,
    /// Its id in x, y, z.
    pub id: [u32; 3],
    /// Its number in dispatch order.
    pub linear: u64,
    /// Waves.
    pub waves: u32,
    /// LDS bytes.
    pub lds: u32,
}

/// A wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wave {
    /// Its dispatch.
    pub dispatch: u64,
    /// Id of its workgroup.
    pub workgroup: [u32; 3],
    /// Number of its workgroup in dispatch order.
    pub group: u64,
    /// Its number in the workgroup.
    pub index: u32,
    /// Lanes.
    pub lanes: u32,
}

/// How close to the hardware's bits an instruction's results are. In the order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Exactness {
    /// As the manual defines them.
    Exact,
    /// Within the bound stated, where the manual allows a range, or the bits of a model that is said to agree with the
    /// hardware.
    Bounded(&'static str),
    /// By the rule stated, which documents give or which was chosen where they say nothing; no results of hardware
    /// and no vectors confirm it.
    Default(&'static str),
}

impl Exactness {
    /// The kind in reports: `exact`, `bounded` or `default`.
    pub fn kind(self) -> &'static str {
        match self {
            Exactness::Exact => "exact",
            Exactness::Bounded(_) => "bounded",
            Exactness::Default(_) => "default",
        }
    }

    /// The bound or the rule.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Exactness::Exact => None,
            Exactness::Bounded(text) | Exactness::Default(text) => Some(text),
        }
    }
}

/// An instruction of the program, the same for all waves that execute it.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// As decoded.
    pub inst: Inst,
    /// Its address.
    pub pc: u64,
    /// The address behind it.
    pub next_pc: u64,
    /// The feature set it was decoded with, for its text.
    pub set: FeatureSet,
    /// Its family.
    pub family: Family,
    /// How close its results are to the hardware's.
    pub exactness: Exactness,
}

impl Instruction {
    /// The mnemonic.
    pub fn mnemonic(&self) -> &'static str {
        self.inst.op().name()
    }

    /// Whether it is one of the scalar unit, memory included: all lanes do the same.
    pub fn is_scalar(&self) -> bool {
        self.mnemonic().starts_with("s_")
    }

    /// The disassembly.
    pub fn text(&self) -> String {
        self.inst.text(self.set)
    }
}

/// An instruction of a wave, about to execute or just executed.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The wave.
    pub wave: &'a Wave,
    /// The instruction.
    pub instruction: &'a Instruction,
    /// EXEC before it.
    pub exec: u64,
}

/// A register that an instruction reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The file. AccVGPRs are a file of their own.
    pub file: RegFile,
    /// The register.
    pub register: u16,
    /// Its bytes, bit 0 the lowest.
    pub bytes: u8,
    /// Lanes; 0 for a register that is not a vector's.
    pub lanes: u64,
}

/// Whose value a lane gets from an instruction that moves values of its first vector source between lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// That of this lane.
    Lane(u8),
    /// Nobody's: zero.
    #[default]
    None,
    /// Its result stays what it was.
    Keeps,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Global memory, by virtual address.
    Global,
    /// Scratch, by virtual address.
    Scratch,
    /// LDS of the workgroup, by byte address.
    Lds,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes at once.
    Atomic,
}

/// How far an access or a cache operation is seen, from the bits of its cache policy (LLVM: AMDGPU memory
/// model tables).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The wave.
    Wave,
    /// The workgroup.
    Workgroup,
    /// The device.
    Agent,
    /// All devices and the host.
    System,
}

impl Scope {
    /// The scope that an instruction's cache policy asks for.
    pub fn of(inst: &Inst) -> Scope {
        let policy = inst.field(Name::cpol).unwrap_or(0);
        let atomic = inst.op().name().contains("atomic");
        let by_bits = |low: bool, high: bool| match (high, low) {
            (false, false) => Scope::Wave,
            (false, true) => Scope::Workgroup,
            (true, false) => Scope::Agent,
            (true, true) => Scope::System,
        };
        match inst.target() {
            // SC0 of an atomic asks for the old value.
            Target::Gfx942 | Target::Gfx950 if atomic => {
                [Scope::Agent, Scope::System][usize::from(policy >> 4 & 1 != 0)]
            }
            Target::Gfx942 | Target::Gfx950 => by_bits(policy & 1 != 0, policy >> 4 & 1 != 0),
            target if target.generation() >= 12 => match policy >> 3 & 3 {
                0 => Scope::Wave,
                1 => Scope::Workgroup,
                2 => Scope::Agent,
                _ => Scope::System,
            },
            // GLC passes the caches of a compute unit; atomics work in L2.
            _ if atomic || policy & 1 != 0 => Scope::Agent,
            _ => Scope::Wave,
        }
    }
}

/// An access of one lane (or of a scalar instruction) to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which memory.
    pub space: Space,
    /// What is done.
    pub kind: AccessKind,
    /// The lane; 0 for a scalar instruction.
    pub lane: u8,
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// How far it is seen.
    pub scope: Scope,
}

/// A wave at a barrier. A barrier completes phase after phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// It has signalled phase `phase` of the barrier in slot `slot` (0: the workgroup's; 17: the cluster's).
    Signal {
        /// Number of the barrier.
        slot: u8,
        /// The phase.
        phase: u32,
    },
    /// Its next instruction executes when phase `phase` is complete.
    Wait {
        /// Number of the barrier.
        slot: u8,
        /// The phase.
        phase: u32,
    },
}

/// Memory that the GPU reaches.
pub trait MemoryView: Send + Sync {
    /// Copies bytes out; false if they are not all there.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;
    /// The allocation that an address is in.
    fn allocation(&self, address: u64) -> Option<Allocation>;
    /// All allocations, by their start.
    fn allocations(&self) -> Vec<Allocation>;
    /// What lies at or near an address, as a phrase.
    fn describe(&self, address: u64) -> String;
    /// Whether it is known that nobody, the host included, has ever touched the page of 4 KiB that holds an address.
    fn is_untouched(&self, address: u64) -> bool;
}

/// A range that was allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First address.
    pub start: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// What it is for.
    pub label: String,
}

/// The registers and LDS of a wave, at the time of an event.
pub trait State {
    /// The lanes of a VGPR.
    fn vgpr(&self, register: u16) -> &[u32];
    /// The lanes of an AccVGPR.
    fn agpr(&self, register: u16) -> &[u32];
    /// A scalar register, numbered as [`RegFile::Sgpr`] is.
    fn sgpr(&self, register: u16) -> u32;
    /// SCC.
    fn scc(&self) -> bool;
    /// MODE.
    fn mode(&self) -> u32;
    /// The workgroup's LDS.
    fn lds(&self) -> &[u8];
    /// Copies bytes of memory out; false if they are not all there.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;
    /// With register reads and writes: whose value each lane gets, of an instruction that moves values of its first vector
    /// source between lanes (DPP, permutations, swizzles). `None`: lanes keep to themselves, or nothing so simple can be said.
    fn exchange(&self) -> Option<&[Source; 64]> {
        None
    }

    /// The value of a scalar register that an instruction touches.
    fn scalar(&self, file: RegFile, register: u16) -> Option<u32> {
        match file {
            RegFile::Sgpr => Some(self.sgpr(register)),
            RegFile::Scc => Some(self.scc().into()),
            RegFile::Mode => Some(self.mode()),
            _ => None,
        }
    }
}
