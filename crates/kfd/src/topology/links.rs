//! Links between nodes, each in both directions.
//! Numbers and weights are those of Linux, `kfd_crat.c`.

use rocjitsu_config::{Gpu, KfdVersion, Machine};

use super::properties;

/// A way from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub from: u32,
    pub to: u32,
    /// Listed in `p2p_links`: a way over PCIe that the driver put together.
    pub p2p: bool,
    kind: u64,
    weight: u64,
    /// MB/s.
    bandwidth: (u64, u64),
    sdma_mask: u64,
    flags: u64,
}

const PCIE: u64 = 2;
const XGMI: u64 = 11;
/// The link's own flags are to be taken (1); no lack of coherence or of atomics is declared, so
/// that the runtime uses both.
const ENABLED: u64 = 1;
const PCIE_WEIGHT: u64 = 20;
const XGMI_WEIGHT: u64 = 15;
/// Between partitions of one card.
const SAME_SOCKET_WEIGHT: u64 = 13;

impl Link {
    pub fn properties(&self) -> String {
        properties(&[
            ("type", self.kind),
            ("version_major", 0),
            ("version_minor", 0),
            ("node_from", self.from.into()),
            ("node_to", self.to.into()),
            ("weight", self.weight),
            ("min_latency", 0),
            ("max_latency", 0),
            ("min_bandwidth", self.bandwidth.0),
            ("max_bandwidth", self.bandwidth.1),
            ("recommended_transfer_size", 0),
            ("recommended_sdma_engine_id_mask", self.sdma_mask),
            ("flags", self.flags),
        ])
    }

    fn new(from: u32, to: u32) -> Self {
        Link {
            from,
            to,
            p2p: false,
            kind: PCIE,
            weight: PCIE_WEIGHT,
            bandwidth: (0, 0),
            sdma_mask: 0,
            flags: ENABLED,
        }
    }
}

/// All links of a machine; node 0 is the processor.
pub(super) fn links(machine: &Machine) -> Vec<Link> {
    let mut links = Vec::new();
    let nodes = || (1..).zip(&machine.gpus);
    for (number, gpu) in nodes() {
        let bandwidth = (312, pcie_bandwidth(gpu));
        // Both directions: the one from the processor says that all memory is visible to it.
        for (from, to) in [(0, number), (number, 0)] {
            links.push(Link {
                bandwidth,
                ..Link::new(from, to)
            });
        }
    }
    for (from, gpu) in nodes() {
        let mut position = 0;
        for (to, peer) in nodes().filter(|&(to, _)| to != from) {
            let hive = gpu.identity.hive_id;
            let mut link = Link::new(from, to);
            if hive != 0 && hive == peer.identity.hive_id {
                link.kind = XGMI;
                link.weight = if same_card(gpu, peer) {
                    SAME_SOCKET_WEIGHT
                } else {
                    XGMI_WEIGHT
                };
                link.bandwidth = (50_000, 50_000);
                link.sdma_mask = sdma_mask(machine, gpu, position);
                position += 1;
            } else {
                // Over the processor, so both ways add up.
                link.p2p = true;
                link.weight = 2 * PCIE_WEIGHT;
                link.bandwidth = (312, pcie_bandwidth(gpu).min(pcie_bandwidth(peer)));
            }
            links.push(link);
        }
    }
    links
}

fn same_card(a: &Gpu, b: &Gpu) -> bool {
    (a.identity.domain, a.identity.location_id >> 3)
        == (b.identity.domain, b.identity.location_id >> 3)
        && a.partition.count > 1
}

/// The copy engine for the peer at a position among the peers, from interface 1.17 on.
fn sdma_mask(machine: &Machine, gpu: &Gpu, position: u32) -> u64 {
    let engines = gpu.sdma.xgmi_engines;
    if machine.options.kfd_version < newest() || engines == 0 {
        return 0;
    }
    let engine = gpu.sdma.engines + position % engines;
    1u64.checked_shl(engine).unwrap_or(0)
}

fn newest() -> KfdVersion {
    KfdVersion::default()
}

/// MB/s of the card's own bus: generation 5 for the newest ones, 4 for the others, 16 lanes.
fn pcie_bandwidth(gpu: &Gpu) -> u64 {
    match gpu.target.as_str() {
        "gfx942" | "gfx950" | "gfx1201" | "gfx1250" => 64_000,
        _ => 32_000,
    }
}
