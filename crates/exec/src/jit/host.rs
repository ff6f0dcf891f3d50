//! What the vector instructions of a host are like: how wide, how many registers, how values come and go.

use iced_x86::{Code, Register};
use rocjitsu_lanes::Backend;
use rocjitsu_lanes::trace::graph::Node;

use super::avx512;

/// A set of vector instructions that runs are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// 16 lanes in zmm0–31; conditions are bits in k1–7.
    Avx512,
}

/// The most vector registers that any host has.
pub const MOST_VECTORS: usize = 32;

impl Host {
    /// What stands for a lane back end, if runs can be compiled for it.
    pub fn of(backend: Backend) -> Option<Host> {
        match backend {
            Backend::Avx512 => Some(Host::Avx512),
            Backend::Avx2 | Backend::Scalar => None,
        }
    }

    /// Lanes in a register.
    pub fn lanes(self) -> u32 {
        match self {
            Host::Avx512 => 16,
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
        }
    }

    /// Whether conditions are bits in registers of their own, under which instructions work.
    pub fn has_masks(self) -> bool {
        match self {
            Host::Avx512 => true,
        }
    }

    /// A vector register.
    pub fn vector(self, number: u8) -> Register {
        let first = match self {
            Host::Avx512 => Register::ZMM0,
        };
        first + u32::from(number)
    }

    /// Moves a vector from a register or memory.
    pub fn load(self) -> Code {
        match self {
            Host::Avx512 => Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512,
        }
    }

    /// Moves a vector to memory.
    pub fn store(self) -> Code {
        match self {
            Host::Avx512 => Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm,
        }
    }

    /// Fills a vector with a word in memory.
    pub fn spread(self) -> Code {
        match self {
            Host::Avx512 => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
        }
    }

    /// The operand that a node's instruction can take from memory, and whether a word spread over the lanes will do.
    pub fn memory_operand(self, node: &Node) -> Option<(usize, bool)> {
        match self {
            Host::Avx512 => avx512::select::memory_operand(node),
        }
    }
}
