//! The state of one wave, and what its workgroup and its worker keep for it.

use std::any::Any;
use std::sync::Arc;

use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

use crate::gws::Gws;
use crate::helpers::Issuer;
use crate::lds::storage::Lds;
use crate::memory::MemoryPort;
use crate::registers::{PagePool, VectorRegisters};

/// Numbers in the scalar file [`Wave::s`]: SGPRs 0–105, then these.
pub mod scalar {
    /// VCC, low word; the high one follows.
    pub const VCC: usize = 106;
    /// Trap temporaries ttmp0–15.
    pub const TTMP: usize = 108;
    /// NULL: reads as zero.
    pub const NULL: usize = 124;
    /// M0.
    pub const M0: usize = 125;
    /// EXEC, low word; the high one follows.
    pub const EXEC: usize = 126;
    /// Where writes to NULL go (two words: a 64-bit write lands here whole).
    pub const SINK: usize = 128;
    /// FLAT_SCRATCH, low word; the high one follows.
    pub const FLAT_SCRATCH: usize = 130;
    /// XNACK_MASK, low word; the high one follows.
    pub const XNACK_MASK: usize = 132;
    /// Words in the file. SGPR operands wider than two words end below `VCC`; the margin keeps any
    /// 16-word operand that starts at a valid number inside the array.
    pub const COUNT: usize = 152;
}

/// MODE register bits (manuals, chapter "Program state", table of MODE fields).
pub mod mode {
    /// FP_ROUND, 2 bits for f32 and 2 for f16 and f64.
    pub const ROUND: u32 = 0;
    /// FP_DENORM, 2 bits for f32 and 2 for f16 and f64.
    pub const DENORM: u32 = 4;
    /// DX10_CLAMP.
    pub const DX10_CLAMP: u32 = 1 << 8;
    /// IEEE.
    pub const IEEE: u32 = 1 << 9;
    /// FP16_OVFL.
    pub const FP16_OVFL: u32 = 1 << 23;
    /// GPR_IDX_EN (gfx9).
    pub const GPR_IDX_EN: u32 = 1 << 27;
    /// VSKIP (gfx9).
    pub const VSKIP: u32 = 1 << 28;
}

/// Numbers in [`Wave::hwreg`] of registers that more than `s_getreg` reads.
pub mod hwreg {
    /// TBA, low word; the high one follows.
    pub const TBA: usize = 16;
    /// TMA, low word; the high one follows.
    pub const TMA: usize = 18;
}

/// Bit of [`Wave::decode_state`]: VGPR indexing mode is on (gfx9). Which operands it applies to stands in
/// M0\[15:12\].
pub const INDEXING: u32 = 1 << 8;

/// Bit of [`Wave::decode_state`]: vector instructions are skipped (gfx9).
pub const VSKIP: u32 = 1 << 9;

/// Bits of [`Wave::decode_state`] that hold the number of VGPRs the wave has; see [`Wave::set_vgprs`].
pub const VGPRS: u32 = 0xfc00_0000;

/// Bits of [`Wave::past_barrier`] for which a wave stops.
const STOPS: u8 = 3;

/// One wave. Waves side by side, which threads may run at a time, share no cache line.
#[repr(align(64))]
pub struct Wave {
    /// The scalar file: SGPRs, VCC, TTMPs, M0, EXEC (see [`scalar`]).
    pub s: [u32; scalar::COUNT],
    /// SCC.
    pub scc: bool,
    /// Address of the next instruction.
    pub pc: u64,
    /// MODE register.
    pub mode: u32,
    /// State that decides how code is decoded: VGPR bank bits (gfx1250 `s_set_vgpr_msb`) in bits 7:0,
    /// [`INDEXING`], [`VSKIP`], [`VGPRS`].
    pub decode_state: u32,
    /// Vector registers, AccVGPRs included.
    pub v: VectorRegisters,
    /// Lanes: 32 or 64.
    pub lanes: u32,
    /// Number of this wave in its workgroup.
    pub index: u32,
    /// Hardware registers that `s_getreg`/`s_setreg` reach and nothing else models, by number. The dispatcher
    /// sets those that tell of the launch: GPR_ALLOC (5, gfx9), XCC_ID (20 on gfx942 and gfx950), IB_STS2 (28).
    pub hwreg: [u32; 64],
    /// GPU address of the wave's scratch. Dword k of lane l lies `(k * lanes + l) * 4` bytes behind.
    pub scratch: u64,
    /// Scratch bytes per lane.
    pub scratch_size: u32,
    /// Barrier the wave waits at, if any.
    pub waiting: Waiting,
    /// Which barrier of the workgroup a signal joined: the phase it saw (split barriers).
    pub barrier_phase: [u32; 32],
    /// The wave has passed a barrier and since then has not asked memory for anything, or not stored to LDS: a bit each
    /// (see [`crate::record::Step::Memory`]).
    pub past_barrier: u8,
    /// The named barrier that the wave has joined, or 0.
    pub named_barrier: u8,
    /// Doorbell of the queue that the wave was launched from, as `s_sendmsg_rtn` tells it.
    pub doorbell: u32,
    /// Number of the dispatch in its queue, as `s_sendmsg_rtn` tells it.
    pub dispatch_id: u64,
    /// Data of the interrupts that the wave has raised (`s_sendmsg` INTERRUPT); the dispatcher takes them.
    pub interrupts: Vec<u32>,
    /// The wave asked for the instruction cache to be invalidated; the run loop does it.
    pub code_stale: bool,
}

/// What a wave waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing: it can run.
    No,
    /// A barrier of its workgroup, by slot in [`Group::barriers`].
    Barrier(u8),
    /// A resource of global wave sync, which another workgroup may release.
    Gws(crate::gws::Wait),
    /// It gave up its turn (sleep, spin) and can run when others have had theirs.
    Turn,
    /// Until no other wave of its workgroup runs: what its next instruction does depends on their order.
    Order,
    /// It has ended.
    Ended,
}

/// Units in which [`VGPRS`] counts; every target allocates multiples of it.
pub(crate) fn vgpr_unit(target: Target) -> u32 {
    if target == Target::Gfx1250 { 16 } else { 4 }
}

impl Wave {
    /// A wave with all state zero, of `lanes` lanes.
    pub fn new(lanes: u32) -> Wave {
        Wave {
            s: [0; scalar::COUNT],
            scc: false,
            pc: 0,
            mode: 0,
            decode_state: 0,
            v: VectorRegisters::new(lanes),
            lanes,
            index: 0,
            hwreg: [0; 64],
            scratch: 0,
            scratch_size: 0,
            waiting: Waiting::No,
            barrier_phase: [0; 32],
            past_barrier: 0,
            named_barrier: 0,
            doorbell: 0,
            dispatch_id: 0,
            interrupts: Vec::new(),
            code_stale: false,
        }
    }

    /// Says how many VGPRs the wave was given: instructions that name another one stop it. Without this, and
    /// where it has all that can be encoded, all are there.
    pub fn set_vgprs(&mut self, count: u32, target: Target) {
        let units = count.div_ceil(vgpr_unit(target));
        self.decode_state = self.decode_state & !VGPRS | if units < 64 { units << 26 } else { 0 };
    }

    /// How often it has stopped for the others since the barrier it passed last (see [`Wave::past_barrier`]).
    pub fn stops_past_barrier(&self) -> u8 {
        let passed = self.past_barrier & !STOPS != 0;
        if passed {
            (!self.past_barrier & STOPS).count_ones() as u8
        } else {
            0
        }
    }

    /// A pair of words of the scalar file.
    #[inline(always)]
    pub fn s64(&self, n: usize) -> u64 {
        u64::from(self.s[n]) | u64::from(self.s[n + 1]) << 32
    }

    /// Sets a pair of words of the scalar file.
    #[inline(always)]
    pub fn set_s64(&mut self, n: usize, value: u64) {
        self.s[n] = value as u32;
        self.s[n + 1] = (value >> 32) as u32;
    }

    /// EXEC; bits beyond the wave's lanes are clear.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        let all = self.s64(scalar::EXEC);
        if self.lanes == 64 {
            all
        } else {
            all & 0xffff_ffff
        }
    }

    /// Sets EXEC. A wave of 32 lanes has only the low word.
    #[inline(always)]
    pub fn set_exec(&mut self, value: u64) {
        self.set_mask(scalar::EXEC, value);
    }

    /// VCC; bits beyond the wave's lanes are clear.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.mask(scalar::VCC)
    }

    /// A lane mask in the scalar file: one word in a wave of 32, two in a wave of 64.
    #[inline(always)]
    pub fn mask(&self, n: usize) -> u64 {
        if self.lanes == 64 {
            self.s64(n)
        } else {
            u64::from(self.s[n])
        }
    }

    /// Writes a lane mask to the scalar file.
    #[inline(always)]
    pub fn set_mask(&mut self, n: usize, value: u64) {
        self.s[n] = value as u32;
        if self.lanes == 64 {
            self.s[n + 1] = (value >> 32) as u32;
        }
    }
}

/// A barrier that waves of a workgroup signal and wait for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Barrier {
    /// Waves that must signal.
    pub members: u32,
    /// Of these, waves that have ended (the workgroup's own barrier).
    pub ended: u32,
    /// Waves that have signalled in this phase.
    pub signalled: u32,
    /// Counts completed phases.
    pub phase: u32,
}

/// What the waves of one workgroup share, on whatever threads they run. What every access to LDS reads and what changes at every
/// barrier lie on cache lines of their own.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Group {
    /// LDS, zero at the start of each workgroup; whole words.
    pub lds: Lds,
    /// Workgroup id in x, y, z.
    pub id: [u32; 3],
    /// Waves that have not ended.
    pub live: u32,
    /// Index of the workgroup in dispatch order; also its place for XCC_ID and HW_ID.
    pub linear: u64,
    /// Whether its waves run on several threads now. Instructions whose results depend on the order of waves wait then
    /// until that is over ([`Waiting::Order`]), atomics on LDS are host atomics.
    pub shared: bool,
    /// Barriers: slot 0 is the workgroup's own, 1–16 the named ones, 17 the cluster's.
    pub barriers: [crate::barrier::Cell; 32],
}

const _: () = assert!(std::mem::offset_of!(Group, barriers).is_multiple_of(64));

/// What one worker thread keeps between instructions and waves.
pub struct Unit<'a> {
    /// Pages for vector registers.
    pub pool: PagePool,
    /// Memory.
    pub memory: MemoryPort<'a>,
    /// Back end in use.
    pub backend: Backend,
    /// Target in use.
    pub target: Target,
    /// Rows of temporary values: sources and results that modifiers touch.
    pub temp: Box<Temp>,
    /// C of a matrix instruction whose D lies across it.
    pub matrix: Box<[[u32; 64]; 32]>,
    /// Global wave sync of the device. A unit has one of its own until its owner puts the device's here.
    pub gws: Arc<Gws>,
    /// What it gives matrix instructions to helper threads by, if it does.
    pub issuer: Option<Box<Issuer>>,
    /// Why the last instruction stopped its wave.
    pub fault: Option<Box<crate::error::Fault>>,
    /// The panic of a handler that compiled code called, until that has returned.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Unit<'a> {
    /// A worker's state. `backend` must be one that the host supports.
    ///
    /// # Panics
    /// If it is not: the caller chooses from [`Backend::supported`].
    pub fn new(memory: MemoryPort<'a>, backend: Backend, target: Target) -> Unit<'a> {
        Unit::with_buffers(Buffers::default(), memory, backend, target)
    }

    /// A worker's state with the buffers of an earlier one.
    ///
    /// # Panics
    /// As [`Unit::new`].
    pub fn with_buffers(
        buffers: Buffers,
        memory: MemoryPort<'a>,
        backend: Backend,
        target: Target,
    ) -> Unit<'a> {
        assert!(
            backend.is_supported(),
            "lane back end {backend} on a host without it"
        );
        Unit {
            pool: buffers.pool,
            memory,
            backend,
            target,
            temp: buffers.temp,
            matrix: buffers.matrix,
            gws: Arc::default(),
            issuer: None,
            fault: None,
            panic: None,
        }
    }

    /// The buffers, for a later one.
    pub fn into_buffers(self) -> Buffers {
        Buffers {
            pool: self.pool,
            temp: self.temp,
            matrix: self.matrix,
        }
    }
}

/// What of a [`Unit`] is worth keeping from one dispatch to the next.
pub struct Buffers {
    /// Pages for vector registers.
    pub pool: PagePool,
    temp: Box<Temp>,
    matrix: Box<[[u32; 64]; 32]>,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers {
            pool: PagePool::default(),
            temp: Temp::new(),
            matrix: Box::new([[0; 64]; 32]),
        }
    }
}

/// Temporary rows, 64 lanes each.
#[repr(C, align(64))]
pub struct Temp {
    /// Values that all lanes share, spread over 16 lanes: low and high words of each source.
    pub splat: [[[u32; 16]; 2]; 4],
    /// Modified sources: low and high words.
    pub src: [[[u32; 64]; 2]; 4],
    /// Results before modifiers: low and high words.
    pub dst: [[u32; 64]; 2],
    /// What compiled code needs.
    pub area: crate::jit::Area,
}

impl Temp {
    /// All zero.
    pub fn new() -> Box<Temp> {
        Box::new(Temp {
            splat: [[[0; 16]; 2]; 4],
            src: [[[0; 64]; 2]; 4],
            dst: [[0; 64]; 2],
            area: crate::jit::Area::default(),
        })
    }
}

/// Everything an instruction can reach.
pub struct Cx<'c, 'a> {
    /// The wave that executes.
    pub wave: &'c mut Wave,
    /// Its workgroup.
    pub group: &'c Group,
    /// Its worker.
    pub unit: &'c mut Unit<'a>,
}
