//! What execution has to know of a target beyond its instruction table.

use rocjitsu_isa::Target;

/// The targets that waves execute on; the tables know two more (gfx908, gfx1030), for disassembly only.
pub const EXECUTABLE: [Target; 7] = [
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx950,
    Target::Gfx1100,
    Target::Gfx1151,
    Target::Gfx1201,
    Target::Gfx1250,
];

/// Facts about a target's waves.
pub trait TargetFacts {
    /// Whether 16-bit results leave the other half of the register as it was (gfx10 and later; before,
    /// most 16-bit instructions write zero there: LLVM's `zeroesHigh16BitsOfDest`).
    fn keeps_high_half(self) -> bool;
    /// Whether MODE has the IEEE and DX10_CLAMP bits (gfx12 has neither: it behaves as with both set).
    fn has_ieee_bit(self) -> bool;
    /// Whether FLAT_SCRATCH is set by hardware (architected flat scratch): gfx942, gfx950 and gfx11 on.
    fn architected_flat_scratch(self) -> bool;
    /// First register of the AccVGPRs in a wave's registers.
    fn acc_base(self) -> u32;
    /// Bytes of LDS that one workgroup can have.
    fn lds_limit(self) -> u32;
    /// Whether a load of half a register writes zero to the other half: where registers have ECC, as on all CDNA chips
    /// (CDNA3 manual 9.1.6, CDNA5 manual 13.1; LLVM: `d16PreservesUnusedBits`).
    fn d16_clears_rest(self) -> bool;
}

impl TargetFacts for Target {
    fn keeps_high_half(self) -> bool {
        self.generation() >= 10
    }
    fn has_ieee_bit(self) -> bool {
        self.generation() < 12
    }
    fn architected_flat_scratch(self) -> bool {
        self.generation() >= 11 || matches!(self, Target::Gfx942 | Target::Gfx950)
    }
    fn acc_base(self) -> u32 {
        256
    }
    fn lds_limit(self) -> u32 {
        match self {
            Target::Gfx950 => 160 << 10,
            Target::Gfx1250 => 320 << 10,
            _ => 64 << 10,
        }
    }
    fn d16_clears_rest(self) -> bool {
        self.is_cdna() || self == Target::Gfx1250
    }
}
