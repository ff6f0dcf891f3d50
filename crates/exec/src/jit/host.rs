//! What the vector instructions of a host are like: how wide, how many registers, how values come and go.

use iced_x86::{Code, Register};
use rocjitsu_lanes::Backend;
use rocjitsu_lanes::trace::graph::{Graph, Node};

use super::collect::Run;
use super::{avx2, avx512};

/// A set of vector instructions that runs are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// 16 lanes in zmm0–31; conditions are bits in k1–7.
    Avx512,
    /// 8 lanes in ymm0–15, with FMA and F16C; conditions are vectors of zeros and ones.
    Avx2,
}

/// The most vector registers that any host has.
pub const MOST_VECTORS: usize = 32;

impl Host {
    /// What stands for a lane back end, if runs can be compiled for it.
    pub fn of(backend: Backend) -> Option<Host> {
        match backend {
            Backend::Avx512 => Some(Host::Avx512),
            Backend::Avx2 => Some(Host::Avx2),
            Backend::Scalar => None,
        }
    }

    /// Lanes in a register.
    pub fn lanes(self) -> u32 {
        match self {
            Host::Avx512 => 16,
            Host::Avx2 => 8,
        }
    }

    /// Bytes in a register.
    pub fn bytes(self) -> u32 {
        4 * self.lanes()
    }

    /// How many vector registers there are.
    pub fn vectors(self) -> usize {
        match self {
            Host::Avx512 => 32,
            Host::Avx2 => 16,
        }
    }

    /// Whether conditions are bits in registers of their own, under which instructions work.
    pub fn has_masks(self) -> bool {
        self == Host::Avx512
    }

    /// Whether an instruction's operand can be a word in memory for all lanes.
    pub fn spreads_operands(self) -> bool {
        self == Host::Avx512
    }

    /// Whether there is code for a node.
    pub fn supports(self, graph: &Graph, node: &Node) -> bool {
        match self {
            Host::Avx512 => true,
            Host::Avx2 => avx2::legal::supports(graph, node),
        }
    }

    /// The run in terms of what the host has, if that is another one. With `full` it is for waves with all lanes active.
    pub fn adapt(self, run: &Run, full: bool) -> Option<Run> {
        match self {
            Host::Avx512 => None,
            Host::Avx2 => Some(avx2::legal::legal(run, full)),
        }
    }

    /// A vector register.
    pub fn vector(self, number: u8) -> Register {
        let first = match self {
            Host::Avx512 => Register::ZMM0,
            Host::Avx2 => Register::YMM0,
        };
        first + u32::from(number)
    }

    /// Moves a vector from a register or memory.
    pub fn load(self) -> Code {
        match self {
            Host::Avx512 => Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512,
            Host::Avx2 => Code::VEX_Vmovdqa_ymm_ymmm256,
        }
    }

    /// Moves a vector to memory.
    pub fn store(self) -> Code {
        match self {
            Host::Avx512 => Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm,
            Host::Avx2 => Code::VEX_Vmovdqa_ymmm256_ymm,
        }
    }

    /// Fills a vector with a word in memory.
    pub fn spread(self) -> Code {
        match self {
            Host::Avx512 => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
            Host::Avx2 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
        }
    }

    /// The operand that a node's instruction can take from memory, and whether a word spread over the lanes will do.
    pub fn memory_operand(self, node: &Node) -> Option<(usize, bool)> {
        match self {
            Host::Avx512 => avx512::select::memory_operand(node),
            Host::Avx2 => avx2::select::memory_operand(node).map(|operand| (operand, false)),
        }
    }
}
