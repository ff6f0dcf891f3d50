//! Arguments that no sane program passes: the driver answers with an errno, never with a panic or a signal.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::abi::{self, Request, SmiEvents, alloc_flags};
use rocjitsu_kfd::client::{Client, FLAGS, ioctl};
use rocjitsu_kfd::{Driver, Errno, table};

fn machine(gpus: usize) -> Machine {
    Machine::new(vec![preset_for_target("gfx942").unwrap(); gpus])
}

/// A small generator of numbers; the seed is in the message of a failure.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Fills an argument: bytes that are likely to get past a check, among random ones.
fn fill(numbers: &mut Numbers, bytes: &mut [u8], useful: &[u64]) {
    for word in bytes.chunks_mut(4) {
        let value = match numbers.below(8) {
            0 => numbers.next(),
            1..=3 => useful[numbers.below(useful.len() as u64) as usize],
            4 => numbers.below(16),
            5 => 1 << numbers.below(32),
            _ => 0,
        };
        let value = value.to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
    // Whole addresses, now and then.
    for word in bytes.chunks_exact_mut(8) {
        if numbers.below(3) == 0 {
            let value = useful[numbers.below(useful.len() as u64) as usize];
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Closes the descriptor that an ioctl made: SMI_EVENTS, EXPORT_DMABUF, PRIME_HANDLE_TO_FD.
fn close_returned(
    kind: u8,
    number: u8,
    address: *mut std::ffi::c_void,
    argument: &[u8],
    answer: Option<Result<i32, Errno>>,
) {
    let at = match (kind, number) {
        (b'K', 0x1f) => 4,
        (b'K', 0x24) => 12,
        (b'd', 0x2d) => 8,
        _ => return,
    };
    if answer == Some(Ok(0)) && address.cast_const().cast() == argument.as_ptr() {
        let fd = i32::from_le_bytes(argument[at..at + 4].try_into().unwrap());
        // SAFETY: the driver has just made the descriptor for the caller.
        unsafe { libc::close(fd) };
    }
}

/// A program writes which events it wants, and waits for one.
#[test]
fn nothing_is_ever_read_from_smi_events() {
    let client = Client::new(machine(1)).unwrap();
    let make = || {
        let mut args = SmiEvents {
            gpuid: client.gpus[0].id,
            anon_fd: -1,
        };
        let request = 0xc000_4b1f | 8 << 16;
        let at = (&raw mut args).cast();
        let answer = client.driver.ioctl(client.kfd.as_fd(), request, at);
        assert_eq!(answer, Some(Ok(0)));
        // SAFETY: the driver has just made the descriptor for the caller.
        unsafe { std::fs::File::from_raw_fd(args.anon_fd) }
    };
    let mut file = make();
    for _ in 0..10 {
        file.write_all(&0x3fu64.to_ne_bytes()).unwrap();
        let read = file.read(&mut [0; 64]);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    // Descriptors of files that are closed are closed, too.
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for _ in 0..200 {
        drop(make());
    }
    assert!(open() < before + 50);
}

#[test]
fn random_arguments_neither_panic_nor_crash() {
    // WAIT_EVENTS with a random timeout would sleep.
    const WAIT: u8 = 0x0c;
    for seed in 1..=8u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let client = Client::new(machine(2)).unwrap();
        let (page, event) = client.first_event().unwrap();
        let buffer = client.allocate(0, 0, 1 << 16, alloc_flags::GTT).unwrap();
        let mut own = vec![0u64; 1 << 17];
        let useful = [
            u64::from(client.gpus[0].id),
            u64::from(client.gpus[1].id),
            client.gpus[0].render.as_raw_fd() as u64,
            own.as_mut_ptr() as u64,
            buffer.va,
            buffer.handle,
            page.handle,
            u64::from(event),
            4096,
            8192,
            0x1_0000,
            u64::from(client.gpus[0].ctl_stack),
            u64::from(client.gpus[0].save_area),
            u64::from(u32::MAX),
            u64::MAX,
            1 << 47,
            (1 << 47) - 4096,
        ];
        let mut argument = vec![0u8; 1 << 14];
        for _ in 0..3000 {
            let drm = numbers.below(4) == 0;
            let rows = if drm { table::DRM } else { table::KFD };
            let number = match numbers.below(8) {
                0 => numbers.next() as u8,
                _ => rows[numbers.below(rows.len() as u64) as usize].number,
            };
            let size = match numbers.below(4) {
                0 => numbers.below(1 << 14),
                1 => numbers.below(64),
                _ => 96,
            };
            // Descriptors that come back must be seen, to be closed.
            let size = if number == 0x1f || number == 0x24 || number == 0x2d {
                size.max(16)
            } else {
                size
            } as u16;
            let kind = if numbers.below(50) == 0 {
                numbers.next() as u8
            } else if drm {
                b'd'
            } else {
                b'K'
            };
            let request = Request {
                direction: numbers.next() as u8 & 3,
                kind,
                number,
                size,
            };
            let used = usize::from(size).max(8);
            fill(&mut numbers, &mut argument[..used], &useful);
            if number == WAIT && !drm {
                argument[16..20].copy_from_slice(&0u32.to_le_bytes());
            }
            let address = match numbers.below(20) {
                0 => std::ptr::null_mut(),
                1 => numbers.next() as *mut std::ffi::c_void,
                _ => argument.as_mut_ptr().cast(),
            };
            // A random address must not be one of the test's own memory.
            let address = if address.addr() >> 47 == 0 && address.addr() > 1 << 20 {
                argument.as_mut_ptr().cast()
            } else {
                address
            };
            let fd = if drm {
                &client.gpus[0].render
            } else {
                &client.kfd
            };
            let answer = client.driver.ioctl(fd.as_fd(), request.into(), address);
            assert!(answer.is_some(), "seed {seed}");
            close_returned(kind, number, address, &argument, answer);
        }
        drop(own);
    }
}

#[test]
fn every_ioctl_refuses_a_bad_pointer() {
    let client = Client::new(machine(1)).unwrap();
    for (table, kind, fd) in [
        (table::KFD, b'K', &client.kfd),
        (table::DRM, b'd', &client.gpus[0].render),
    ] {
        for row in table {
            if row.size == 0 {
                continue;
            }
            let request = Request {
                direction: row.direction.bits(),
                kind,
                number: row.number,
                size: row.size,
            };
            for address in [8usize, usize::MAX - 7, 1 << 48] {
                let answer = client.driver.ioctl(
                    fd.as_fd(),
                    request.into(),
                    std::ptr::without_provenance_mut(address),
                );
                assert_eq!(answer, Some(Err(Errno::FAULT)), "{} {address:#x}", row.name);
            }
        }
    }
}

#[test]
fn unknown_numbers_are_refused_and_counted() {
    let client = Client::new(machine(1)).unwrap();
    let mut argument = [0u64; 4];
    for number in [0x00, 0x27, 0x7f, 0x83, 0x86, 0xff] {
        assert_eq!(client.raw(number, &mut argument), Err(Errno::NOTTY));
    }
    let render = &client.gpus[0].render;
    assert_eq!(
        ioctl(&client.driver, render, b'K', 0x01, &mut argument),
        Err(Errno::NOTTY)
    );
    for number in [0x0d, 0x10, 0x22, 0x26] {
        assert_eq!(client.raw(number, &mut argument), Err(Errno::PERM));
    }
    let report = client.driver.report();
    let unknown = report.ioctls.keys().filter(|name| name.starts_with("0x"));
    assert_eq!(unknown.count(), 7);
    assert_eq!(report.ioctls["CRIU_OP"].errors.values().sum::<u64>(), 1);
}

#[test]
fn shorter_and_longer_arguments_are_zero_extended_and_cut() {
    let client = Client::new(machine(1)).unwrap();
    // 4 of 8 bytes: only the major number comes back.
    let mut version = [7u32; 2];
    let request = Request {
        direction: 2,
        kind: b'K',
        number: 1,
        size: 4,
    };
    let address = version.as_mut_ptr().cast();
    let answer = client
        .driver
        .ioctl(client.kfd.as_fd(), request.into(), address);
    assert_eq!((answer, version), (Some(Ok(0)), [1, 7]));
    // 16 of 8 bytes.
    let mut long = [7u32; 4];
    assert_eq!(client.raw(1, &mut long), Ok(()));
    assert_eq!(long[..2], [1, 17]);
}

#[test]
fn a_vm_is_acquired_with_one_file_only() {
    let client = Client::new(machine(2)).unwrap();
    let acquire = |fd: i32, gpu: usize| {
        let mut args = abi::AcquireVm {
            drm_fd: fd,
            gpu_id: client.gpus[gpu].id,
        };
        client.raw(0x15, &mut args)
    };
    let first = client.gpus[0].render.as_raw_fd();
    assert_eq!(acquire(first, 0), Ok(()));
    assert_eq!(acquire(first, 1), Err(Errno::INVAL));
    assert_eq!(acquire(client.kfd.as_raw_fd(), 0), Err(Errno::INVAL));
    assert_eq!(acquire(-1, 0), Err(Errno::INVAL));
    let path = Path::new("/dev/dri/renderD128");
    let other = client.driver.open(path, FLAGS).unwrap().unwrap();
    assert_eq!(acquire(other.as_raw_fd(), 0), Err(Errno::BUSY));
    // A duplicate is the same file.
    let copy = rustix::io::dup(&client.gpus[0].render).unwrap();
    client.driver.duplicated(first, copy.as_raw_fd());
    assert_eq!(acquire(copy.as_raw_fd(), 0), Ok(()));
}

#[test]
fn a_number_that_means_another_file_is_forgotten() {
    let driver = Driver::new(machine(1)).unwrap();
    let kfd = driver.open(Path::new("/dev/kfd"), FLAGS).unwrap().unwrap();
    let number = kfd.as_raw_fd();
    assert!(driver.is_ours(number));
    assert_eq!(
        driver.stat_of_fd(kfd.as_fd()).unwrap().mode & 0o170_000,
        0o020_000
    );
    // Closed and used again behind the driver's back.
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    // SAFETY: plain system call; `kfd` owns the number before and after.
    assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), number) }, number);
    assert!(!driver.is_ours(number));
    let mut version = abi::GetVersion::default();
    let request = Request {
        direction: 2,
        kind: b'K',
        number: 1,
        size: 8,
    };
    let address = (&raw mut version).cast();
    assert_eq!(driver.ioctl(kfd.as_fd(), request.into(), address), None);
}

#[test]
fn a_forked_child_gets_ebadf_and_opens_anew() {
    let mut machine = machine(1);
    machine.options.helpers = 2;
    let client = Client::new(machine).unwrap();
    let mut version = abi::GetVersion::default();
    // SAFETY: the child makes system calls and allocates, which glibc allows after a fork; it
    // leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut version = abi::GetVersion::default();
            assert!(client.driver.is_forked());
            assert!(client.driver.is_ours(client.kfd.as_raw_fd()));
            assert_eq!(client.raw(1, &mut version), Err(Errno::BADF));
            let fresh = client.driver.renew().unwrap();
            assert_eq!(fresh.machine().options.helpers, 0, "helper threads");
            assert_eq!(
                ioctl(&fresh, &client.kfd, b'K', 1, &mut version),
                Err(Errno::BADF)
            );
            let kfd = fresh.open(Path::new("/dev/kfd"), FLAGS).unwrap().unwrap();
            assert_eq!(ioctl(&fresh, &kfd, b'K', 1, &mut version), Ok(()));
            assert_eq!(version.minor_version, 17);
        }));
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed; its message is above");
    assert_eq!(client.raw(1, &mut version), Ok(()));
}

#[test]
fn a_machine_without_gpus_has_a_driver() {
    let client = Client::new(Machine::new(Vec::new())).unwrap();
    assert!(client.gpus.is_empty());
    let mut apertures = abi::GetProcessAperturesNew::default();
    client.raw(0x14, &mut apertures).unwrap();
    assert_eq!(apertures.num_of_nodes, 0);
    let mut clock = abi::GetClockCounters::default();
    client.raw(0x05, &mut clock).unwrap();
    assert_eq!(clock.gpu_clock_counter, 0);
    assert!(clock.system_clock_counter > 0);
}

/// Without a GPU the thunk has no memory for an event page: it maps the one that CREATE_EVENT names.
#[test]
fn without_a_page_of_the_programs_the_driver_makes_one() {
    const PAGE: usize = 32 << 10;
    let client = Client::new(Machine::new(Vec::new())).unwrap();
    // An event without a slot needs no page.
    let mut other = abi::CreateEvent {
        event_type: abi::event_type::MEMORY,
        ..Default::default()
    };
    client.raw(0x08, &mut other).unwrap();
    assert_eq!((other.event_page_offset, other.event_slot_index), (0, 0));
    let (mut event, mut second) = (abi::CreateEvent::default(), abi::CreateEvent::default());
    client.raw(0x08, &mut event).unwrap();
    client.raw(0x08, &mut second).unwrap();
    assert_eq!((event.event_slot_index, second.event_slot_index), (1, 2));
    assert_eq!(event.event_page_offset, second.event_page_offset);
    let offset = event.event_page_offset;
    let ask = |client: &Client, bytes, offset| {
        let null = std::ptr::null_mut();
        let kfd = client.kfd.as_fd();
        client
            .driver
            .mmap(kfd, null, bytes, 3, libc::MAP_SHARED, offset as i64)
    };
    // Whole, or as much as libraries map that know 256 events.
    assert_eq!(ask(&client, PAGE, offset), None);
    assert_eq!(ask(&client, 4096, offset), None);
    for (bytes, offset) in [(PAGE + 1, offset), (4096, offset + 4096), (4096, 1 << 63)] {
        assert_eq!(
            ask(&client, bytes, offset),
            Some(Err(Errno::INVAL)),
            "{offset:#x}"
        );
    }
    // SAFETY: a fresh mapping of the file, which is that long.
    let slots = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kfd = client.kfd.as_raw_fd();
        let at = libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            protection,
            libc::MAP_SHARED,
            kfd,
            offset as i64,
        );
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast::<u64>(), PAGE / 8)
    };
    assert!(slots.iter().all(|&slot| slot == u64::MAX));
    let mut id = abi::EventId {
        event_id: event.event_id,
        pad: 0,
    };
    client.raw(0x0a, &mut id).unwrap();
    assert!(client.wait(event.event_id, 0).unwrap().is_some());
    assert!(client.wait(second.event_id, 0).unwrap().is_none());
    // SAFETY: the mapping of above, which nobody uses any more.
    unsafe { libc::munmap(slots.as_ptr().cast_mut().cast(), PAGE) };
}

#[test]
fn an_event_page_of_the_drivers_stays_the_event_page() {
    let client = Client::new(machine(1)).unwrap();
    let event = client.event(abi::event_type::SIGNAL).unwrap();
    assert!(client.first_event().is_err());
    let other = client.event(abi::event_type::SIGNAL).unwrap();
    assert_eq!((event, other), (1, 2));
}

/// As a program gets descriptors in messages, or through `/proc/self/fd`: nobody tells the driver.
#[test]
fn devices_that_came_another_way_are_known_by_their_files() {
    let client = Client::new(machine(2)).unwrap();
    let version =
        |fd: &OwnedFd| ioctl(&client.driver, fd, b'd', 0, &mut abi::DrmVersion::default());
    let mut made = abi::DrmGemCreate {
        bo_size: 4096,
        domains: 4,
        ..Default::default()
    };
    let render = &client.gpus[1].render;
    ioctl(&client.driver, render, b'd', 0x40, &mut made).unwrap();
    // The answer of GEM_CREATE begins with the handle.
    let handle = made.bo_size as u32;
    let offset = |fd: &OwnedFd| {
        let mut args = abi::DrmGemMmap {
            value: handle.into(),
        };
        ioctl(&client.driver, fd, b'd', 0x41, &mut args)
    };
    let received = rustix::io::fcntl_dupfd_cloexec(render, 500).unwrap();
    let is_device = |fd: &OwnedFd| client.driver.stat_of_fd(fd.as_fd()).unwrap().device;
    assert_eq!(is_device(&received), (226, 129));
    assert_eq!(version(&received), Ok(()));
    // The same open file has the same handles; another one its own.
    assert_eq!(offset(&received), Ok(()));
    let path = format!("/proc/self/fd/{}", render.as_raw_fd());
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let again = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(version(&again), Ok(()));
    assert_eq!(offset(&again), Err(Errno::NOENT));
    let kfd = rustix::io::fcntl_dupfd_cloexec(&client.kfd, 500).unwrap();
    let mut answer = abi::GetVersion::default();
    assert_eq!(ioctl(&client.driver, &kfd, b'K', 1, &mut answer), Ok(()));
    // Files that are no devices stay what they are.
    let file = rustix::fs::memfd_create("a program's", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(client.driver.stat_of_fd(file.as_fd()), None);
    assert_eq!(
        version(&file),
        Err(Errno::BADF),
        "what the client makes of `None`"
    );
    let buffer = client.allocate(0, 0, 4096, alloc_flags::VRAM).unwrap();
    let mut export = abi::ExportDmabuf {
        handle: buffer.handle,
        flags: 0o2_000_002,
        dmabuf_fd: -1,
    };
    client.raw(0x24, &mut export).unwrap();
    // SAFETY: the driver has just made the descriptor for the caller.
    let export = unsafe { OwnedFd::from_raw_fd(export.dmabuf_fd) };
    assert_eq!(client.driver.stat_of_fd(export.as_fd()), None);
    assert_eq!(version(&export), Err(Errno::BADF));
}
