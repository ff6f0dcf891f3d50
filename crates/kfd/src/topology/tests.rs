//! An independent reader walks the tree as libhsakmt does and checks that it is whole.
//! It shares no code with the generator: names and rules are those of the runtime's side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocjitsu_config::{Cpu, Machine, Options, PartitionMode, preset, preset_names};

use super::{Kind, Lookup, Tree};

const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";

fn machine(name: &str, count: usize, mode: PartitionMode) -> Machine {
    let cards = vec![(preset(name).unwrap(), mode); count];
    Machine::with_cards(cards, Cpu::usual(8, 64 << 30), Options::default()).unwrap()
}

fn text(tree: &Tree, path: &str) -> String {
    let bytes = tree
        .read(Path::new(path))
        .unwrap_or_else(|| panic!("{path} is not there"));
    assert!(bytes.len() < 4096, "{path}: {} bytes", bytes.len());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'), "{path}: no newline at the end");
    text
}

/// `key value` lines; a value is a number of at most 64 bits.
fn properties(tree: &Tree, path: &str) -> BTreeMap<String, u64> {
    let mut map = BTreeMap::new();
    for line in text(tree, path).lines() {
        let (key, value) = line.split_once(' ').unwrap();
        if key == "sibling_map" {
            let ones = value.split(',').filter(|&bit| match bit {
                "0" => false,
                "1" => true,
                other => panic!("{path}: sibling_map has {other}"),
            });
            map.insert(key.to_owned(), ones.count() as u64);
            assert!(value.starts_with('1'), "{path}: the first one shares it");
            continue;
        }
        let old = map.insert(key.to_owned(), value.parse().unwrap());
        assert!(old.is_none(), "{path}: {key} twice");
    }
    map
}

/// The numbered subdirectories, which must be 0 to N - 1 with nothing between.
fn dense(tree: &Tree, path: &str) -> u64 {
    let entries = tree.read_dir(Path::new(path)).unwrap();
    let numbers: BTreeSet<u64> = entries
        .iter()
        .filter(|entry| entry.kind == Kind::Dir)
        .map(|entry| entry.name.parse().unwrap())
        .collect();
    assert_eq!(numbers.len(), entries.len(), "{path}");
    assert!(
        numbers.iter().copied().eq(0..numbers.len() as u64),
        "{path}"
    );
    numbers.len() as u64
}

type Node = BTreeMap<String, u64>;

/// Reads and checks everything; returns the GPU nodes.
fn walk(tree: &Tree) -> Vec<Node> {
    let generation = text(tree, &format!("{TOPOLOGY}/generation_id"));
    assert!(generation.trim().parse::<u32>().unwrap() > 0);
    let system = properties(tree, &format!("{TOPOLOGY}/system_properties"));
    assert_eq!(system.len(), 3);
    let count = dense(tree, &format!("{TOPOLOGY}/nodes"));
    let mut links = BTreeMap::new();
    let mut nodes = Vec::new();
    let mut ids = BTreeSet::new();
    for number in 0..count {
        let path = format!("{TOPOLOGY}/nodes/{number}");
        let node = properties(tree, &format!("{path}/properties"));
        let id: u64 = text(tree, &format!("{path}/gpu_id"))
            .trim()
            .parse()
            .unwrap();
        text(tree, &format!("{path}/name"));
        for (directory, key) in [
            ("mem_banks", "mem_banks_count"),
            ("caches", "caches_count"),
            ("io_links", "io_links_count"),
            ("p2p_links", "p2p_links_count"),
        ] {
            let there = dense(tree, &format!("{path}/{directory}"));
            assert_eq!(there, node[key], "{path}/{directory}");
            for index in 0..there {
                let item = properties(tree, &format!("{path}/{directory}/{index}/properties"));
                match directory {
                    "mem_banks" => assert!(item["size_in_bytes"] > 0 && item["heap_type"] <= 2),
                    "caches" => check_cache(&item, id == 0),
                    _ => {
                        assert_eq!(item["node_from"], number);
                        assert!(item["node_to"] < count && item["node_to"] != number);
                        assert_eq!(item["flags"] & 0xc, 0, "atomics over links");
                        let old = links.insert((number, item["node_to"]), item);
                        assert!(old.is_none(), "{path}: two links to one node");
                    }
                }
            }
        }
        assert_eq!(id == 0, node["simd_count"] == 0);
        if id == 0 {
            assert!(node["cpu_cores_count"] > 0 && node["caches_count"] > 0);
            continue;
        }
        assert!(id <= 0xffff && ids.insert(id), "{path}: id {id}");
        check_gpu(&node);
        nodes.push(node);
    }
    for (&(from, to), link) in &links {
        let back = links.get(&(to, from)).expect("a link back");
        assert_eq!(link["type"], back["type"]);
        assert_eq!(link["weight"], back["weight"]);
    }
    for gpu in 1..count {
        assert!(links[&(gpu, 0)]["weight"] <= 20);
        assert!(links.contains_key(&(0, gpu)));
        for peer in (1..count).filter(|&peer| peer != gpu) {
            assert!(links.contains_key(&(gpu, peer)), "{gpu} to {peer}");
        }
    }
    check_devices(tree, &nodes);
    nodes
}

fn check_cache(cache: &Node, of_cpu: bool) {
    let kind = cache["type"];
    assert_eq!(kind & 12, if of_cpu { 4 } else { 8 });
    assert!(kind & 3 != 0);
    assert!((1..=3).contains(&cache["level"]) && cache["size"] > 0);
    assert!(cache["cache_line_size"].is_power_of_two());
    assert!(cache["sibling_map"] >= 1);
}

fn check_gpu(node: &Node) {
    assert_eq!(node["capability"] >> 12 & 3, 2, "doorbells of 64 bits");
    assert_eq!(
        node["capability"] & 0x4007_8000,
        0,
        "no promise of a debugger"
    );
    assert_eq!(node["vendor_id"], 4098);
    assert_eq!(node["array_count"] % node["simd_arrays_per_engine"], 0);
    assert_eq!(
        node["simd_count"] % (node["simd_per_cu"] * node["num_xcc"]),
        0
    );
    let places = node["array_count"] * node["cu_per_simd_array"];
    assert!(node["simd_count"] / node["simd_per_cu"] <= places);
    assert!(node["cwsr_size"] > node["ctl_stack_size"] && node["ctl_stack_size"] > 0);
    assert_eq!((node["cwsr_size"] | node["ctl_stack_size"]) % 4096, 0);
    assert!(node["num_sdma_engines"] > 0 && node["num_sdma_queues_per_engine"] > 0);
}

/// What libdrm needs to tell the devices apart, and what tinygrad reads.
fn check_devices(tree: &Tree, nodes: &[Node]) {
    let dri = tree.read_dir(Path::new("/dev/dri")).unwrap();
    let cards = dri.iter().filter(|entry| entry.kind == Kind::CharDevice);
    assert_eq!(cards.count(), 2 * nodes.len());
    let mut seen = BTreeSet::new();
    for node in nodes {
        let minor = node["drm_render_minor"];
        assert!((128..256).contains(&minor) && seen.insert(minor));
        let Lookup::Found { node: device, .. } =
            tree.lookup(Path::new(&format!("/dev/dri/renderD{minor}")), true)
        else {
            panic!("no render node {minor}");
        };
        assert_eq!(device.stat().device, (226, minor as u32));
        let names: Vec<_> = tree
            .read_dir(Path::new(&format!("/sys/dev/char/226:{minor}/device/drm")))
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(
            names,
            [format!("card{}", minor - 128), format!("renderD{minor}")]
        );
        let device = format!("/sys/class/drm/renderD{minor}/device");
        let id = text(tree, &format!("{device}/device"));
        assert_eq!(id.trim(), format!("0x{:04x}", node["device_id"]));
        for block in [11, 42, 108] {
            for part in ["major", "minor", "revision"] {
                let path = format!("{device}/ip_discovery/die/0/{block}/0/{part}");
                text(tree, &path).trim().parse::<u32>().unwrap();
            }
        }
        let total: u64 = text(tree, &format!("{device}/mem_info_vram_total"))
            .trim()
            .parse()
            .unwrap();
        assert!(total > 0);
    }
}

#[test]
fn every_preset_alone_and_in_numbers_is_whole() {
    for name in preset_names() {
        for count in [1, 2, 8] {
            let tree = Tree::new(&machine(name, count, PartitionMode::Spx));
            assert_eq!(walk(&tree).len(), count, "{name}");
        }
    }
}

#[test]
fn divided_cards_are_whole_and_add_up() {
    let whole = &walk(&Tree::new(&machine("mi300x", 1, PartitionMode::Spx)))[0];
    for (mode, parts) in [
        (PartitionMode::Dpx, 2),
        (PartitionMode::Qpx, 4),
        (PartitionMode::Cpx, 8),
    ] {
        let nodes = walk(&Tree::new(&machine("mi300x", 2, mode)));
        assert_eq!(nodes.len(), 2 * parts);
        for key in ["simd_count", "array_count", "num_xcc"] {
            let sum: u64 = nodes[..parts].iter().map(|node| node[key]).sum();
            assert_eq!(sum, whole[key], "{key}");
        }
        for key in ["location_id", "unique_id"] {
            let different: BTreeSet<_> = nodes.iter().map(|node| node[key]).collect();
            assert_eq!(different.len(), nodes.len(), "{key}");
        }
    }
    let error = Machine::with_cards(
        vec![(preset("mi210").unwrap(), PartitionMode::Cpx)],
        Cpu::usual(1, 1 << 30),
        Options::default(),
    );
    assert!(error.unwrap_err().to_string().contains("mi210"));
}

#[test]
fn different_gpus_in_one_machine() {
    let names = ["mi300x", "w7900", "strix-halo", "w7900"];
    let cards = names
        .iter()
        .map(|name| (preset(name).unwrap(), PartitionMode::Spx))
        .collect();
    let machine = Machine::with_cards(cards, Cpu::host(), Options::default()).unwrap();
    let versions: Vec<u64> = walk(&Tree::new(&machine))
        .iter()
        .map(|node| node["gfx_target_version"])
        .collect();
    assert_eq!(versions, [90402, 110000, 110501, 110000]);
}

#[test]
fn a_machine_without_gpus_has_its_processor() {
    let machine = Machine::with_cards(vec![], Cpu::usual(4, 1 << 34), Options::default()).unwrap();
    let tree = Tree::new(&machine);
    assert!(walk(&tree).is_empty());
    assert!(matches!(
        tree.lookup(Path::new("/dev/kfd"), true),
        Lookup::Found { .. }
    ));
}

/// Captured from real cards, or computed with the kernel's formulas.
#[test]
fn properties_of_real_cards() {
    let keys = [
        "simd_count",
        "simd_per_cu",
        "max_waves_per_simd",
        "wave_front_size",
        "lds_size_in_kb",
        "array_count",
        "simd_arrays_per_engine",
        "cu_per_simd_array",
        "max_slots_scratch_cu",
        "gfx_target_version",
        "vendor_id",
        "device_id",
        "num_sdma_engines",
        "num_sdma_xgmi_engines",
        "num_sdma_queues_per_engine",
        "num_cp_queues",
        "num_gws",
        "max_engine_clk_fcompute",
        "fw_version",
        "num_xcc",
        "capability",
        "debug_prop",
        "ctl_stack_size",
        "cwsr_size",
    ];
    let table: [(&str, [u64; 24], u64, Option<u64>); 4] = [
        (
            "mi300x",
            [
                1216,
                4,
                8,
                64,
                64,
                32,
                1,
                10,
                32,
                90402,
                4098,
                29857,
                2,
                14,
                8,
                24,
                64,
                2100,
                192,
                8,
                0x2C77_A280,
                1511,
                12288,
                23_203_840,
            ],
            205_822_885_888,
            Some(626),
        ),
        (
            "mi210",
            [
                416,
                4,
                8,
                64,
                64,
                8,
                1,
                14,
                32,
                90010,
                4098,
                29711,
                2,
                3,
                8,
                24,
                64,
                1700,
                78,
                1,
                0x2C77_A280,
                470,
                36864,
                63_508_480,
            ],
            68_702_699_520,
            None,
        ),
        (
            "w7900",
            [
                192,
                2,
                16,
                32,
                64,
                12,
                2,
                8,
                32,
                110_000,
                4098,
                29768,
                2,
                0,
                6,
                8,
                64,
                1760,
                2140,
                1,
                0x2807_A280,
                1495,
                40960,
                46_047_232,
            ],
            48 << 30,
            Some(206),
        ),
        (
            "r9700",
            [
                128,
                2,
                16,
                32,
                64,
                8,
                2,
                8,
                32,
                120_001,
                4098,
                30033,
                2,
                0,
                6,
                8,
                64,
                2350,
                3010,
                1,
                0x6803_A280,
                1495,
                28672,
                30_699_520,
            ],
            34_208_743_424,
            None,
        ),
    ];
    for (name, values, bytes, caches) in table {
        let mut machine = machine(name, 1, PartitionMode::Spx);
        machine.options.debugger = true;
        let tree = Tree::new(&machine);
        let path = format!("{TOPOLOGY}/nodes/1");
        let node = properties(&tree, &format!("{path}/properties"));
        for (key, value) in keys.into_iter().zip(values) {
            assert_eq!(node[key], value, "{name}: {key}");
        }
        let bank = properties(&tree, &format!("{path}/mem_banks/0/properties"));
        assert_eq!(
            (bank["heap_type"], bank["size_in_bytes"]),
            (1, bytes),
            "{name}"
        );
        if let Some(caches) = caches {
            assert_eq!(node["caches_count"], caches, "{name}");
        }
    }
}

#[test]
fn links_lead_and_strangers_are_left_alone() {
    let tree = Tree::new(&machine("mi300x", 1, PartitionMode::Spx));
    let find = |path: &str, follow| match tree.lookup(Path::new(path), follow) {
        Lookup::Found { path, .. } => path,
        Lookup::NotOurs { path } => format!("not ours: {path}"),
        other => format!("{other:?}"),
    };
    let device = "/sys/devices/pci0000:03/0000:03:00.0";
    assert_eq!(find("/sys/class/drm/card0/device", true), device);
    assert_eq!(find("/sys/class/drm/../drm/./card0/device/", false), device);
    assert_eq!(find("/sys/bus/pci/devices/0000:03:00.0", true), device);
    assert_eq!(
        find("/sys/bus/pci/devices/0000:03:00.0", false),
        "/sys/bus/pci/devices/0000:03:00.0"
    );
    assert_eq!(
        find("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", true),
        "/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id"
    );
    // A link into the real system: where to ask it.
    assert_eq!(
        find(&format!("{device}/subsystem"), true),
        "not ours: /sys/bus/pci"
    );
    assert_eq!(find("/dev/../etc/passwd", true), "not ours: /etc/passwd");
    assert_eq!(find("/", true), "not ours: /");
    assert_eq!(find("/dev", true), "not ours: /dev");
    assert_eq!(find("relative", true), "not ours: relative");
    for missing in [
        "/dev/dri/card7",
        "/dev/dxg",
        "/sys/dev/char/226:9",
        "/sys/class/kfd/x",
    ] {
        assert_eq!(find(missing, true), "Missing", "{missing}");
    }
    assert_eq!(find("/dev/kfd/x", true), "NotADirectory");
    assert_eq!(find("/sys/module/amdgpu/version/", true), "NotADirectory");
    assert_eq!(
        find("/sys/dev/char/8:0", true),
        "not ours: /sys/dev/char/8:0"
    );

    let names = |path: &str| -> Vec<String> {
        let entries = tree.merged(Path::new(path));
        entries.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names("/dev"), ["dri", "kfd"]);
    assert_eq!(names("/sys/class"), ["drm", "kfd"]);
    assert!(names("/tmp").is_empty());
    let dev = Path::new("/dev");
    assert!(tree.hides(dev, "dxg") && tree.hides(dev, "dri") && !tree.hides(dev, "null"));
    assert!(tree.hides(Path::new("/sys/dev/char"), "226:5"));
    assert!(!tree.hides(Path::new("/sys"), "class"));
}

#[test]
fn content_can_be_replaced() {
    let mut tree = Tree::new(&machine("w7900", 1, PartitionMode::Spx));
    let used = Path::new("/sys/class/drm/card0/device/mem_info_vram_used");
    assert_eq!(tree.read(used).unwrap(), b"0\n");
    let made = super::Content::Made(std::sync::Arc::new(|| b"4096\n".to_vec()));
    assert!(tree.set_content(used, made.clone()));
    assert_eq!(tree.read(used).unwrap(), b"4096\n");
    assert!(!tree.set_content(Path::new("/sys/class/drm"), made));
}
