//! What the ioctls answer that only tell or only check.

use super::*;
use rocjitsu_config::KfdVersion;

#[test]
fn the_version_is_the_chosen_one() {
    for minor in KfdVersion::MINORS {
        let mut machine = Machine::new(vec![preset("mi300x").unwrap()]);
        let text = format!("1.{minor}");
        machine.options.kfd_version = KfdVersion::from_text(&text).unwrap();
        let driver = Driver::new(machine).unwrap();
        let mut version = GetVersion::default();
        Program::new(&driver).kfd(0x01, &mut version).unwrap();
        assert_eq!((version.major_version, version.minor_version), (1, minor));
    }
}

/// `kfd_flat_memory.c` for GFX9 and later: the same for every GPU.
fn apertures(gpu_id: u32) -> ProcessDeviceApertures {
    ProcessDeviceApertures {
        lds_base: 0x1_0000_0000_0000,
        lds_limit: 0x1_0000_ffff_ffff,
        scratch_base: 0x2_0000_0000_0000,
        scratch_limit: 0x2_0000_ffff_ffff,
        gpuvm_base: 0x1_0000,
        gpuvm_limit: 0x7fff_ffff_ffff,
        gpu_id,
        pad: 0,
    }
}

#[test]
fn apertures_of_every_gpu_in_both_forms() {
    let driver = driver("r9700", 9);
    let program = Program::new(&driver);
    let expected: Vec<_> = (0..9).map(|gpu| apertures(program.id(gpu))).collect();
    let mut seven = GetProcessApertures::default();
    program.kfd(0x06, &mut seven).unwrap();
    assert_eq!(seven.num_of_nodes, 7);
    assert_eq!(seven.process_apertures[..], expected[..7]);
    // A capacity of 0 counts; a small one is filled, a large one says how many there are.
    for (capacity, count) in [(0, 9), (4, 4), (9, 9), (20, 9)] {
        let mut all = [ProcessDeviceApertures::default(); 20];
        let mut args = GetProcessAperturesNew {
            kfd_process_device_apertures_ptr: if capacity == 0 {
                0
            } else {
                all.as_mut_ptr() as u64
            },
            num_of_nodes: capacity,
            pad: 0,
        };
        program.kfd(0x14, &mut args).unwrap();
        assert_eq!(args.num_of_nodes, count);
        let filled = capacity.min(9) as usize;
        assert_eq!(all[..filled], expected[..filled]);
        assert_eq!(all[filled], ProcessDeviceApertures::default());
    }
}

/// An ioctl of one GPU: it accepts, or refuses an id that no GPU has.
fn accepted<T: Abi>(program: &Program<'_>, number: u8, make: impl Fn(u32) -> T) {
    program.kfd(number, &mut make(program.id(0))).unwrap();
    for gpu_id in [0, program.id(0) ^ 1] {
        let refused = program.kfd(number, &mut make(gpu_id));
        assert_eq!(refused, Err(Errno::INVAL), "{number:#x}");
    }
}

#[test]
fn policies_scratch_and_trap_handlers_are_checked_and_accepted() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    accepted(&program, 0x04, |gpu_id| SetMemoryPolicy {
        gpu_id,
        default_policy: 1,
        ..Default::default()
    });
    for (default_policy, alternate_policy) in [(2, 0), (0, 2)] {
        let mut args = SetMemoryPolicy {
            gpu_id: program.id(0),
            default_policy,
            alternate_policy,
            ..Default::default()
        };
        assert_eq!(program.kfd(0x04, &mut args), Err(Errno::INVAL));
    }
    accepted(&program, 0x11, |gpu_id| SetScratchBackingVa {
        va_addr: 0x2000_0000_0000,
        gpu_id,
        pad: 0,
    });
    accepted(&program, 0x13, |gpu_id| SetTrapHandler {
        tba_addr: 0x2000_0000_0000,
        tma_addr: 0x2000_0000_1000,
        gpu_id,
        pad: 0,
    });
}

#[test]
fn there_are_no_tiling_tables_but_the_register_of_the_libraries() {
    for name in ["mi300x", "w7900"] {
        let driver = driver(name, 1);
        let program = Program::new(&driver);
        accepted(&program, 0x12, |gpu_id| GetTileConfig {
            gpu_id,
            ..Default::default()
        });
        let mut args = GetTileConfig {
            num_tile_configs: 32,
            num_macro_tile_configs: 16,
            gpu_id: program.id(0),
            num_banks: 7,
            num_ranks: 7,
            ..Default::default()
        };
        program.kfd(0x12, &mut args).unwrap();
        let counts = [args.num_tile_configs, args.num_macro_tile_configs];
        assert_eq!((counts, args.num_banks, args.num_ranks), ([0, 0], 0, 0));
        // The register that libdrm reads is the same one.
        let mut value = 0u32;
        let mut info = DrmInfo {
            return_pointer: &raw mut value as u64,
            return_size: 4,
            query: 0x15,
            ..Default::default()
        };
        info.parameters = [0x263e, 1, u32::MAX, 0];
        program.drm(0, 0x45, &mut info).unwrap();
        assert_eq!(args.gb_addr_config, value);
        assert_ne!(value, 0);
    }
}

/// A descriptor of SMI_EVENTS for a GPU.
fn monitor(program: &Program<'_>, gpu: usize) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    let mut args = SmiEvents {
        gpuid: program.id(gpu),
        anon_fd: -1,
    };
    program.kfd(0x1f, &mut args).unwrap();
    assert!(args.anon_fd >= 0);
    // SAFETY: the driver made the descriptor for us.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(args.anon_fd) }
}

#[test]
fn monitors_read_the_events_that_they_choose_and_nothing_else() {
    let driver = driver("mi300x", 2);
    let program = Program::new(&driver);
    let monitors = [
        monitor(&program, 0),
        monitor(&program, 0),
        monitor(&program, 1),
    ];
    let read = |fd: &std::os::fd::OwnedFd| {
        let mut bytes = [0; 256];
        rustix::io::read(fd, &mut bytes)
            .map(|count| String::from_utf8_lossy(&bytes[..count]).into_owned())
    };
    // All events; all but memory faults; all.
    for (fd, mask) in monitors.iter().zip([!0, !1, !0u64]) {
        assert_eq!(rustix::io::write(fd, &mask.to_ne_bytes()), Ok(8));
        assert_eq!(read(fd), Err(Errno::AGAIN), "the mask is no event");
    }
    driver.monitors().memory_fault(program.id(0));
    let said = read(&monitors[0]).unwrap();
    let start = format!("1 {:x}:", std::process::id());
    assert!(
        said.starts_with(&start) && said.ends_with('\n') && said.len() > start.len() + 1,
        "{said:?}"
    );
    for fd in &monitors {
        assert_eq!(read(fd), Err(Errno::AGAIN));
    }
    // A choice can be changed, and who has closed is forgotten.
    assert_eq!(rustix::io::write(&monitors[0], &0u64.to_ne_bytes()), Ok(8));
    let [first, _, third] = monitors;
    drop(third);
    driver.monitors().memory_fault(program.id(0));
    driver.monitors().memory_fault(program.id(1));
    assert_eq!(read(&first), Err(Errno::AGAIN));
    let mut nobody = SmiEvents {
        gpuid: 1,
        anon_fd: -1,
    };
    assert_eq!(program.kfd(0x1f, &mut nobody), Err(Errno::INVAL));
}
