//! A program as small as can be that uses the driver: system calls only, no runtime. What it does
//! in which order follows the thunk and ROCr.
#![allow(dead_code, reason = "each test binary uses a part of the client")]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use rocjitsu_config::Machine;
use rocjitsu_kfd::abi::{self, Request, alloc_flags, event_type, queue_type, wait_result};
use rocjitsu_kfd::{Driver, Errno, table};
use rustix::mm::{MapFlags, ProtFlags};
use zerocopy::{FromBytes, IntoBytes};

/// `O_RDWR | O_CLOEXEC`.
pub const FLAGS: i32 = libc::O_RDWR | libc::O_CLOEXEC;
pub const PAGE: u64 = 4096;

/// A program with the devices open.
pub struct Client {
    pub driver: Driver,
    pub kfd: OwnedFd,
    pub gpus: Vec<Gpu>,
}

/// A GPU as the topology tells of it.
pub struct Gpu {
    pub id: u32,
    pub render: OwnedFd,
    pub ctl_stack: u32,
    pub save_area: u32,
}

/// An allocation that the program sees, too.
pub struct Buffer {
    pub va: u64,
    pub bytes: u64,
    pub handle: u64,
    pub host: *mut u8,
}

impl Buffer {
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.bytes);
        // SAFETY: inside the mapping that `Client::allocate` made.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.host.add(offset as usize),
                bytes.len(),
            )
        };
    }

    pub fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        assert!(offset + bytes as u64 <= self.bytes);
        // SAFETY: inside the mapping; the GPU is done with it.
        unsafe { std::slice::from_raw_parts(self.host.add(offset as usize), bytes) }.to_vec()
    }

    pub fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset + 8 <= self.bytes && offset.is_multiple_of(8));
        // SAFETY: an aligned word inside the mapping, shared with the GPU.
        unsafe { AtomicU64::from_ptr(self.host.add(offset as usize).cast()) }
    }
}

/// Runs an ioctl as the program would.
pub fn ioctl<T: FromBytes + IntoBytes>(
    driver: &Driver,
    fd: &OwnedFd,
    kind: u8,
    number: u8,
    args: &mut T,
) -> Result<(), Errno> {
    let rows = if kind == b'K' { table::KFD } else { table::DRM };
    let direction = table::row(rows, number).map_or(3, |(_, row)| row.direction.bits());
    let request = Request {
        direction,
        kind,
        number,
        size: size_of::<T>() as u16,
    };
    let arg = (args as *mut T).cast::<c_void>();
    let answer = driver.ioctl(fd.as_fd(), request.into(), arg);
    answer.expect("the descriptor is the driver's").map(|_| ())
}

impl Client {
    /// Opens everything and acquires the VM of every GPU.
    pub fn new(machine: Machine) -> Client {
        let driver = Driver::new(machine).unwrap();
        let kfd = driver.open(Path::new("/dev/kfd"), FLAGS).unwrap().unwrap();
        let mut client = Client {
            driver,
            kfd,
            gpus: Vec::new(),
        };
        let mut version = abi::GetVersion::default();
        client.kfd(0x01, &mut version).unwrap();
        assert_eq!((version.major_version, version.minor_version), (1, 17));
        client.find_gpus();
        for index in 0..client.gpus.len() {
            let mut args = abi::AcquireVm {
                drm_fd: client.gpus[index].render.as_raw_fd(),
                gpu_id: client.gpus[index].id,
            };
            client.kfd(0x15, &mut args).unwrap();
        }
        client
    }

    fn text(&self, path: &str) -> Option<String> {
        let fd = self.driver.open(Path::new(path), libc::O_RDONLY)?.unwrap();
        let mut bytes = vec![0; 4096];
        let got = rustix::io::read(&fd, &mut bytes).unwrap();
        bytes.truncate(got);
        Some(String::from_utf8(bytes).unwrap())
    }

    fn find_gpus(&mut self) {
        let nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes";
        for node in 0.. {
            let Some(id) = self.text(&format!("{nodes}/{node}/gpu_id")) else {
                break;
            };
            let id = id.trim().parse().unwrap();
            if id == 0 {
                continue;
            }
            let properties = self.text(&format!("{nodes}/{node}/properties")).unwrap();
            let property = |name: &str| -> u32 {
                let line = properties.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim().parse().unwrap()
            };
            let minor = property("drm_render_minor ");
            let path = format!("/dev/dri/renderD{minor}");
            let render = self.driver.open(Path::new(&path), FLAGS).unwrap().unwrap();
            self.gpus.push(Gpu {
                id,
                render,
                ctl_stack: property("ctl_stack_size "),
                save_area: property("cwsr_size "),
            });
        }
        assert!(!self.gpus.is_empty());
    }

    /// A KFD ioctl.
    pub fn kfd<T: FromBytes + IntoBytes>(&self, number: u8, args: &mut T) -> Result<(), Errno> {
        ioctl(&self.driver, &self.kfd, b'K', number, args)
    }

    /// Allocates at a GPU address (any free one if 0), maps for the GPU and for the program.
    pub fn allocate(&self, gpu: usize, va: u64, bytes: u64, flags: u32) -> Buffer {
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        // SAFETY: a fresh reservation.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let reserved = reserved.unwrap();
        let va = if va == 0 { reserved as u64 } else { va };
        let mut args = abi::AllocMemoryOfGpu {
            va_addr: va,
            size: bytes,
            gpu_id: self.gpus[gpu].id,
            flags: flags | alloc_flags::WRITABLE | alloc_flags::EXECUTABLE,
            ..Default::default()
        };
        self.kfd(0x16, &mut args).unwrap();
        // SAFETY: over the reservation, as the thunk does.
        let host = unsafe {
            rustix::mm::mmap(
                reserved,
                bytes as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                &self.gpus[gpu].render,
                args.mmap_offset,
            )
        };
        let host = host.unwrap();
        let ids: Vec<u32> = self.gpus.iter().map(|gpu| gpu.id).collect();
        let mut map = abi::MapMemory {
            handle: args.handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        self.kfd(0x18, &mut map).unwrap();
        assert_eq!(map.n_success, ids.len() as u32);
        Buffer {
            va,
            bytes,
            handle: args.handle,
            host: host.cast(),
        }
    }

    /// The event page, and a first event.
    pub fn first_event(&self) -> (Buffer, u32) {
        let page = self.allocate(0, 0, 32 << 10, alloc_flags::GTT);
        let mut args = abi::CreateEvent {
            event_page_offset: page.handle,
            event_type: event_type::SIGNAL,
            auto_reset: 1,
            ..Default::default()
        };
        self.kfd(0x08, &mut args).unwrap();
        assert_ne!(args.event_page_offset, 0);
        assert_eq!(args.event_slot_index, args.event_id);
        (page, args.event_id)
    }

    pub fn event(&self, kind: u32) -> u32 {
        let mut args = abi::CreateEvent {
            event_type: kind,
            ..Default::default()
        };
        self.kfd(0x08, &mut args).unwrap();
        args.event_id
    }

    /// Waits for an event; what it says if it came in time.
    pub fn wait(&self, id: u32, milliseconds: u32) -> Option<abi::EventData> {
        let mut data = abi::EventData {
            event_id: id,
            ..Default::default()
        };
        let mut args = abi::WaitEvents {
            events_ptr: &raw mut data as u64,
            num_events: 1,
            wait_for_all: 0,
            timeout: milliseconds,
            wait_result: 9,
        };
        self.kfd(0x0c, &mut args).unwrap();
        match args.wait_result {
            wait_result::COMPLETE => Some(data),
            wait_result::TIMEOUT => None,
            other => panic!("wait result {other}"),
        }
    }

    /// Makes an AQL queue on a GPU.
    pub fn aql_queue(&self, gpu: usize) -> Queue {
        let ring = self.allocate(gpu, 0, 4096, alloc_flags::GTT);
        let state = self.allocate(gpu, 0, 4096, alloc_flags::GTT);
        for slot in 0..ring.bytes / 64 {
            ring.write(slot * 64, &1u16.to_le_bytes());
        }
        state.write(64, &0x0001_0000u32.to_le_bytes());
        state.write(68, &0x0002_0000u32.to_le_bytes());
        // The read index is at 128, and says so itself.
        state.write(136, &128u32.to_le_bytes());
        let mut args = abi::CreateQueue {
            ring_base_address: ring.va,
            write_pointer_address: state.va + 56,
            read_pointer_address: state.va + 128,
            ring_size: ring.bytes as u32,
            gpu_id: self.gpus[gpu].id,
            queue_type: queue_type::COMPUTE_AQL,
            queue_percentage: 100,
            queue_priority: 7,
            ctx_save_restore_size: self.gpus[gpu].save_area,
            ctl_stack_size: self.gpus[gpu].ctl_stack,
            ..Default::default()
        };
        self.kfd(0x02, &mut args).unwrap();
        // SAFETY: the slice of 8 KiB that the doorbell lies in, mapped as the thunk does.
        let doorbells = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                8192,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &self.kfd,
                args.doorbell_offset & !0x1fff,
            )
        };
        Queue {
            id: args.queue_id,
            ring,
            state,
            doorbell: doorbells
                .unwrap()
                .cast::<u8>()
                .wrapping_add((args.doorbell_offset & 0x1fff) as usize),
            next: 0,
        }
    }

    pub fn destroy(&self, queue: &Queue) {
        let mut args = abi::DestroyQueue {
            queue_id: queue.id,
            pad: 0,
        };
        self.kfd(0x03, &mut args).unwrap();
    }
}

/// An AQL queue.
pub struct Queue {
    pub id: u32,
    pub ring: Buffer,
    pub state: Buffer,
    pub doorbell: *mut u8,
    pub next: u64,
}

impl Queue {
    /// Publishes a packet whose header comes last, and rings.
    pub fn submit(&mut self, packet: &[u8; 64]) {
        let at = self.next % (self.ring.bytes / 64) * 64;
        self.state.word(56).store(self.next + 1, Ordering::Release);
        self.ring.write(at + 2, &packet[2..]);
        let header = u16::from_le_bytes([packet[0], packet[1]]);
        // SAFETY: an aligned half word inside the ring.
        unsafe { AtomicU16::from_ptr(self.ring.host.add(at as usize).cast()) }
            .store(header, Ordering::Release);
        self.ring(self.next);
        self.next += 1;
    }

    pub fn ring(&self, value: u64) {
        // SAFETY: the queue's aligned word in the slice that `Client::aql_queue` mapped.
        unsafe { AtomicU64::from_ptr(self.doorbell.cast()) }.store(value, Ordering::Release);
    }

    /// The read index: packets that are done.
    pub fn read_index(&self) -> u64 {
        self.state.word(128).load(Ordering::Acquire)
    }
}

/// A signal in a buffer: value 1, with a mailbox in the event page.
pub fn signal(buffer: &Buffer, at: u64, page: &Buffer, event: u32) -> u64 {
    buffer.write(at, &[0; 64]);
    buffer.write(at, &1u64.to_le_bytes());
    buffer.write(at + 8, &1u64.to_le_bytes());
    let mailbox = page.va + 8 * u64::from(event);
    buffer.write(at + 16, &mailbox.to_le_bytes());
    buffer.write(at + 24, &event.to_le_bytes());
    buffer.va + at
}
