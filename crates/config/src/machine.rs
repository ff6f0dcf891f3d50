//! The simulated machine: its GPUs, the processor beside them, and how it runs.
//! Building it gives each GPU ids, an address and a render node of its own, and divides cards into partitions.

use std::path::PathBuf;

use serde::Serialize;

use crate::cpu::Cpu;
use crate::gpu::{CacheScope, Gpu, Partition, PartitionMode};
use crate::plugins::PluginOptions;

/// The most GPU nodes of a machine: as many render nodes as there are (128 to 255).
pub const MOST_NODES: usize = 128;

/// Why there is no such machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MachineError {
    #[error("{gpu} with {xccs} XCCs cannot be divided as {mode}: its modes are {known}")]
    Partition {
        gpu: String,
        mode: &'static str,
        xccs: u32,
        known: String,
    },
    #[error("more than {most} GPU nodes; a machine has no more render nodes")]
    TooMany { most: usize },
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The GPU nodes in the order of the topology; a divided card has several.
    pub gpus: Vec<Gpu>,
    /// The processor.
    pub cpu: Cpu,
    /// How it runs.
    pub options: Options,
}

/// How the simulation runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Worker threads; none for as many as the host has cores.
    pub threads: Option<u32>,
    /// Threads of each GPU that take matrix instructions off waves, besides these.
    pub helpers: u32,
    /// Lane back end: `scalar`, `avx2` or `avx512`; none for the best that the host has.
    pub lanes: Option<String>,
    /// The version of the driver's interface.
    pub kfd_version: KfdVersion,
    /// Whether to promise a debugger and the full trap handler. Without them programs take the
    /// plain ways, which are the ones that are simulated.
    pub debugger: bool,
    /// Whether to promise shared virtual memory; without it the runtime registers host memory as
    /// user pointers.
    pub svm: bool,
    /// Where to write a report at the end.
    pub report: Option<PathBuf>,
    /// 0 (silent but for errors) to 3.
    pub verbose: u32,
    /// The plugins that watch.
    pub plugins: PluginOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: None,
            helpers: 0,
            lanes: None,
            kfd_version: KfdVersion::default(),
            debugger: false,
            svm: true,
            report: None,
            verbose: 0,
            plugins: PluginOptions::default(),
        }
    }
}

/// A version of the interface of `/dev/kfd`: 1.12 to 1.17.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct KfdVersion {
    minor: u32,
}

impl KfdVersion {
    /// The major number.
    pub const MAJOR: u32 = 1;
    /// The minor numbers that can be simulated.
    pub const MINORS: std::ops::RangeInclusive<u32> = 12..=17;

    /// The minor number.
    pub fn minor(self) -> u32 {
        self.minor
    }

    /// The version of a text such as `1.14`.
    pub fn from_text(text: &str) -> Option<Self> {
        let minor = text.strip_prefix("1.")?.parse().ok()?;
        Self::MINORS
            .contains(&minor)
            .then_some(KfdVersion { minor })
    }
}

impl Default for KfdVersion {
    fn default() -> Self {
        KfdVersion { minor: 17 }
    }
}

impl std::fmt::Display for KfdVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", Self::MAJOR, self.minor)
    }
}

impl From<KfdVersion> for String {
    fn from(version: KfdVersion) -> String {
        version.to_string()
    }
}

/// Bits of `capability` that promise a debugger: trap debug, launch override, launch mode, precise memory, precise ALU.
/// The bit for debug firmware (0x2000_0000) stays: without it the HSA runtime 7.2 cannot be initialised again after it
/// was shut down (`hsaKmtRuntimeDisable` refuses, and it leaves the driver open).
const DEBUGGER: u32 = 0x8000 | 0x1_0000 | 0x2_0000 | 0x4_0000 | 0x4000_0000;
/// Bit of `capability` that promises shared virtual memory.
const SVM: u32 = 0x0800_0000;

impl Options {
    /// The bits of a GPU's `capability` that are shown.
    pub fn capability(&self, gpu: &Gpu) -> u32 {
        let mut hidden = 0;
        if !self.debugger {
            hidden |= DEBUGGER;
        }
        if !self.svm {
            hidden |= SVM;
        }
        gpu.capability & !hidden
    }
}

impl Machine {
    /// A machine with these GPUs undivided, the host's processor and the usual options. GPUs after
    /// the [`MOST_NODES`]th are left out.
    pub fn new(gpus: Vec<Gpu>) -> Self {
        let cards = gpus
            .into_iter()
            .take(MOST_NODES)
            .map(|gpu| (gpu, PartitionMode::Spx))
            .collect::<Vec<_>>();
        let (cpu, options) = (Cpu::host(), Options::default());
        Self::with_cards(cards, cpu.clone(), options.clone()).unwrap_or(Machine {
            gpus: Vec::new(),
            cpu,
            options,
        })
    }

    /// A machine with these cards, each with the way it is divided.
    ///
    /// Each node gets a GPU id, address, serial number and render node of its own, starting from
    /// what its [`Gpu`] says; cards of one kind that have XGMI engines form a hive.
    ///
    /// # Errors
    ///
    /// More than [`MOST_NODES`] nodes, or a mode by which the XCCs cannot be divided.
    pub fn with_cards(
        cards: Vec<(Gpu, PartitionMode)>,
        cpu: Cpu,
        options: Options,
    ) -> Result<Self, MachineError> {
        let mut gpus: Vec<Gpu> = Vec::new();
        let hives = hives(&cards);
        for ((mut card, mode), hive) in cards.into_iter().zip(hives) {
            if card.identity.hive_id == 0 {
                card.identity.hive_id = hive;
            }
            // A serial number of 0 says that there is none (APUs).
            while card.identity.unique_id != 0
                && gpus
                    .iter()
                    .any(|other| other.identity.unique_id == card.identity.unique_id)
            {
                card.identity.unique_id = card.identity.unique_id.wrapping_add(0x1_0000).max(1);
            }
            // Function and partition share the low bits: another card differs in its bus.
            while gpus.iter().any(|other| {
                (other.identity.domain, other.identity.location_id >> 8)
                    == (card.identity.domain, card.identity.location_id >> 8)
            }) {
                card.identity.location_id += 0x1000;
                if card.identity.location_id > 0xffff {
                    card.identity.location_id = (card.identity.location_id + 0x100) & 0xffff;
                }
            }
            for mut part in divide(&card, mode)? {
                while gpus
                    .iter()
                    .any(|other| other.identity.gpu_id == part.identity.gpu_id)
                {
                    part.identity.gpu_id = (part.identity.gpu_id % 0xffff) + 1;
                }
                let wanted = part.identity.render_minor;
                let free = |minor: &u32| {
                    !gpus
                        .iter()
                        .any(|other| other.identity.render_minor == *minor)
                };
                part.identity.render_minor = (wanted..256)
                    .chain(128..wanted)
                    .find(free)
                    .ok_or(MachineError::TooMany { most: MOST_NODES })?;
                gpus.push(part);
            }
        }
        Ok(Machine { gpus, cpu, options })
    }
}

/// For each card the hive it belongs to: cards of one device that have XGMI engines, if there are
/// several.
fn hives(cards: &[(Gpu, PartitionMode)]) -> Vec<u64> {
    cards
        .iter()
        .map(|(card, mode)| {
            let peers = cards
                .iter()
                .filter(|(other, _)| other.identity.device_id == card.identity.device_id)
                .count();
            let divided = mode.parts(card.xccs).is_some_and(|parts| parts > 1);
            if card.sdma.xgmi_engines > 0 && (peers > 1 || divided) {
                0x5a00_0000_0000_0000 | u64::from(card.identity.device_id)
            } else {
                0
            }
        })
        .collect()
}

/// The nodes of a card.
fn divide(card: &Gpu, mode: PartitionMode) -> Result<Vec<Gpu>, MachineError> {
    if mode == PartitionMode::Spx {
        return Ok(vec![card.clone()]);
    }
    let parts = mode
        .parts(card.xccs)
        .filter(|_| card.partition.modes.contains(&mode))
        .ok_or_else(|| MachineError::Partition {
            gpu: card.name.clone(),
            mode: mode.name(),
            xccs: card.xccs,
            known: card
                .partition
                .modes
                .iter()
                .map(|mode| mode.name())
                .collect::<Vec<_>>()
                .join(", "),
        })?;
    let part = |index| {
        let mut part = card.clone();
        part.partition = Partition {
            mode,
            modes: card.partition.modes.clone(),
            index,
            count: parts,
        };
        part.xccs = card.xccs / parts;
        part.compute_units = card.compute_units / parts;
        part.vram_bytes = (card.vram_bytes / u64::from(parts)) & !0xfff;
        part.sdma.engines = (card.sdma.engines / parts).max(1);
        part.sdma.xgmi_engines = card.sdma.xgmi_engines / parts;
        for cache in &mut part.caches {
            if cache.scope == CacheScope::Node && cache.level == 3 {
                cache.kib /= parts;
            }
        }
        part.identity.location_id = card.identity.location_id | index;
        if card.identity.unique_id != 0 {
            part.identity.unique_id = card.identity.unique_id.wrapping_add(u64::from(index) << 40);
        }
        part
    };
    Ok((0..parts).map(part).collect())
}
