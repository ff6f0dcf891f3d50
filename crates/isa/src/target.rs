//! The chips whose machine code this crate reads, and LLVM's feature sets.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::table::Table;

/// An instruction set. Chips with the very encodings of another share its entry
/// (LLVM 22: gfx1101 to gfx1103 are gfx1100; gfx1150, gfx1152, gfx1153 are gfx1151; gfx1200 is gfx1201).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Target {
    /// MI100, CDNA.
    Gfx908,
    /// MI200, CDNA 2.
    Gfx90a,
    /// MI300, CDNA 3.
    Gfx942,
    /// MI350, CDNA 4.
    Gfx950,
    /// RDNA 2.
    Gfx1030,
    /// RDNA 3.
    Gfx1100,
    /// RDNA 3.5.
    Gfx1151,
    /// RDNA 4.
    Gfx1201,
    /// CDNA 5.
    Gfx1250,
}

/// Which of several descriptions of the same bits to use; see the crate's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum FeatureSet {
    /// What LLVM takes for the target without further features.
    #[default]
    Default,
    /// Wave64 mode of a target whose default is wave32.
    Wave64,
    /// 16-bit registers on gfx1201 and gfx1250; the same as `Default` elsewhere.
    True16,
    /// `True16` and `Wave64` at once.
    True16Wave64,
}

impl FeatureSet {
    /// Every set, in the order of the discriminants.
    pub const ALL: [FeatureSet; 4] = [
        FeatureSet::Default,
        FeatureSet::Wave64,
        FeatureSet::True16,
        FeatureSet::True16Wave64,
    ];

    fn of(true16: bool, wave64: bool) -> FeatureSet {
        match (true16, wave64) {
            (false, false) => FeatureSet::Default,
            (false, true) => FeatureSet::Wave64,
            (true, false) => FeatureSet::True16,
            (true, true) => FeatureSet::True16Wave64,
        }
    }

    pub(crate) fn is_wave64(self) -> bool {
        matches!(self, FeatureSet::Wave64 | FeatureSet::True16Wave64)
    }

    pub(crate) fn is_true16(self) -> bool {
        matches!(self, FeatureSet::True16 | FeatureSet::True16Wave64)
    }
}

/// A name that is no known target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown target `{0}`: known are gfx908, gfx90a, gfx942, gfx950, gfx1030, gfx1100 to gfx1103, gfx1150 to gfx1153, gfx1200, gfx1201 and gfx1250"
)]
pub struct UnknownTarget(pub String);

static TABLES: [OnceLock<Table>; 9] = [const { OnceLock::new() }; 9];

impl Target {
    /// Every target, oldest first.
    pub const ALL: [Target; 9] = [
        Target::Gfx908,
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx950,
        Target::Gfx1030,
        Target::Gfx1100,
        Target::Gfx1151,
        Target::Gfx1201,
        Target::Gfx1250,
    ];

    /// The instruction table, built at the first call.
    pub fn table(self) -> &'static Table {
        TABLES[self as usize].get_or_init(|| Table::build(self))
    }

    /// The generation that LLVM counts the target to: 9 for all CDNA chips before gfx1250, then 10, 11, 12.
    pub fn generation(self) -> u8 {
        match self {
            Target::Gfx908 | Target::Gfx90a | Target::Gfx942 | Target::Gfx950 => 9,
            Target::Gfx1030 => 10,
            Target::Gfx1100 | Target::Gfx1151 => 11,
            Target::Gfx1201 | Target::Gfx1250 => 12,
        }
    }

    /// Lanes of a wave where nothing else is said: 64 on CDNA up to gfx950, 32 later.
    pub fn default_wave(self) -> u32 {
        if self.is_cdna() { 64 } else { 32 }
    }

    /// gfx908 to gfx950: wave64 only, AccVGPRs, `m0` at 124 and no null register.
    pub fn is_cdna(self) -> bool {
        self.generation() == 9
    }

    /// The set to decode with for the execution of waves of `wave` lanes: the one that names
    /// 16-bit halves where the hardware has them and gives the matrix operands their width.
    pub fn execution_set(self, wave: u32) -> FeatureSet {
        self.known_set(FeatureSet::of(true, wave == 64))
    }

    /// Whether the target has waves of 64 lanes.
    pub fn has_wave64(self) -> bool {
        self != Target::Gfx1250
    }

    /// Whether the tables tell the 16-bit halves of registers apart: [`FeatureSet::True16`] reads code otherwise.
    pub fn has_true16(self) -> bool {
        self.generation() == 12
    }

    /// The set without what makes no difference on this target.
    pub(crate) fn known_set(self, set: FeatureSet) -> FeatureSet {
        FeatureSet::of(
            set.is_true16() && self.has_true16(),
            set.is_wave64() && !self.is_cdna() && self.has_wave64(),
        )
    }

    /// The name, as in `gfx942`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Gfx908 => "gfx908",
            Target::Gfx90a => "gfx90a",
            Target::Gfx942 => "gfx942",
            Target::Gfx950 => "gfx950",
            Target::Gfx1030 => "gfx1030",
            Target::Gfx1100 => "gfx1100",
            Target::Gfx1151 => "gfx1151",
            Target::Gfx1201 => "gfx1201",
            Target::Gfx1250 => "gfx1250",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(match s {
            "gfx1101" | "gfx1102" | "gfx1103" => Target::Gfx1100,
            "gfx1150" | "gfx1152" | "gfx1153" => Target::Gfx1151,
            "gfx1200" => Target::Gfx1201,
            _ => *Target::ALL
                .iter()
                .find(|t| t.name() == s)
                .ok_or_else(|| UnknownTarget(s.into()))?,
        })
    }
}
