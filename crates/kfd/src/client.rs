//! The smallest program that uses the driver, without any runtime: what it does in which order follows the thunk
//! (libhsakmt) and ROCr. The `demo` command and this crate's tests run kernels through it.

use std::cell::Cell;
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use rocjitsu_config::Machine;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{self, Request, alloc_flags, event_type, queue_type, wait_result};
use crate::{Driver, Error, table};

/// `O_RDWR | O_CLOEXEC`.
pub const FLAGS: i32 = libc::O_RDWR | libc::O_CLOEXEC;
const PAGE: u64 = 4096;
/// The slice of doorbells of one GPU.
const DOORBELL_SLICE: u64 = 8192;
/// Numbers of the ioctls used here.
mod number {
    pub const GET_VERSION: u8 = 0x01;
    pub const CREATE_QUEUE: u8 = 0x02;
    pub const DESTROY_QUEUE: u8 = 0x03;
    pub const CREATE_EVENT: u8 = 0x08;
    pub const WAIT_EVENTS: u8 = 0x0c;
    pub const ACQUIRE_VM: u8 = 0x15;
    pub const ALLOC: u8 = 0x16;
    pub const MAP: u8 = 0x18;
}

/// Why the client could not do something.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no driver.
    #[error(transparent)]
    Driver(#[from] Error),
    /// A file of the driver could not be opened or read.
    #[error("{path}: {errno}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// The topology lacks something.
    #[error("{path}: no number `{key}`")]
    Topology {
        /// The file.
        path: String,
        /// What it lacks.
        key: &'static str,
    },
    /// An ioctl failed.
    #[error("ioctl {name}: {errno}")]
    Ioctl {
        /// Its name.
        name: &'static str,
        /// Why.
        errno: Errno,
    },
    /// The host refused a mapping.
    #[error("mapping {bytes} bytes: {errno}")]
    Map {
        /// Its size.
        bytes: u64,
        /// Why.
        errno: Errno,
    },
    /// There is no such GPU.
    #[error("GPU {0}: there is none of that number")]
    NoGpu(usize),
    /// The range is not inside the buffer, or is not aligned.
    #[error("{bytes} bytes at {offset:#x} of a buffer of {size}")]
    Range {
        /// Where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// Size of the buffer.
        size: u64,
    },
}

/// What the client gives back.
pub type Result<T> = std::result::Result<T, ClientError>;

/// A program with the devices open.
#[derive(Debug)]
pub struct Client {
    /// The driver.
    pub driver: Driver,
    /// `/dev/kfd`.
    pub kfd: OwnedFd,
    /// The GPUs of the topology.
    pub gpus: Vec<ClientGpu>,
    ioctls: Cell<u64>,
}

/// A GPU as the topology tells of it.
#[derive(Debug)]
pub struct ClientGpu {
    /// Its `gpu_id`.
    pub id: u32,
    /// Its render node.
    pub render: OwnedFd,
    /// `ctl_stack_size`.
    pub ctl_stack: u32,
    /// `cwsr_size`.
    pub save_area: u32,
}

/// An allocation that the program sees, too. Its mapping goes with it; the allocation is the context's.
#[derive(Debug)]
pub struct Buffer {
    /// Its address for the GPU.
    pub va: u64,
    /// Its size, whole pages.
    pub bytes: u64,
    /// Its handle.
    pub handle: u64,
    host: *mut u8,
}

impl Buffer {
    fn at(&self, offset: u64, bytes: u64) -> Result<*mut u8> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(ClientError::Range {
                offset,
                bytes,
                size: self.bytes,
            });
        }
        Ok(self.host.wrapping_add(offset as usize))
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`ClientError::Range`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let to = self.at(offset, bytes.len() as u64)?;
        // SAFETY: inside the mapping that `Client::allocate` made; nobody else writes there yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies bytes out, once the GPU is done with them.
    ///
    /// # Errors
    /// [`ClientError::Range`].
    pub fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let from = self.at(offset, bytes as u64)?;
        let mut to = vec![0; bytes];
        // SAFETY: inside the mapping, and the vector is not.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), bytes) };
        Ok(to)
    }

    /// A word that the GPU shares.
    ///
    /// # Errors
    /// [`ClientError::Range`], also if it is not aligned.
    pub fn word(&self, offset: u64) -> Result<&AtomicU64> {
        let at = self.at(
            offset,
            if offset.is_multiple_of(8) {
                8
            } else {
                u64::MAX
            },
        )?;
        // SAFETY: an aligned word inside the mapping, which lives as long as the buffer.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is the buffer's alone. If it cannot be removed it stays, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.host.cast(), self.bytes as usize) };
    }
}

impl Client {
    /// Opens everything and acquires the VM of every GPU.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn new(machine: Machine) -> Result<Client> {
        Client::of(Driver::new(machine)?)
    }

    /// The same with a driver that was made before.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn of(driver: Driver) -> Result<Client> {
        let kfd = open(&driver, "/dev/kfd")?;
        let mut client = Client {
            driver,
            kfd,
            gpus: Vec::new(),
            ioctls: Cell::new(0),
        };
        client.kfd(number::GET_VERSION, &mut abi::GetVersion::default())?;
        client.find_gpus()?;
        for gpu in &client.gpus {
            let mut args = abi::AcquireVm {
                drm_fd: gpu.render.as_raw_fd(),
                gpu_id: gpu.id,
            };
            client.kfd(number::ACQUIRE_VM, &mut args)?;
        }
        Ok(client)
    }

    /// Ioctls that went to `/dev/kfd` up to now.
    pub fn ioctls(&self) -> u64 {
        self.ioctls.get()
    }

    fn find_gpus(&mut self) -> Result<()> {
        let nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes";
        for node in 0.. {
            let path = format!("{nodes}/{node}/gpu_id");
            let Some(id) = text(&self.driver, &path)? else {
                break;
            };
            let key = "gpu_id";
            let id = id.trim().parse();
            let id = id.map_err(|_| ClientError::Topology { path, key })?;
            if id == 0 {
                continue;
            }
            let path = format!("{nodes}/{node}/properties");
            let properties = text(&self.driver, &path)?.unwrap_or_default();
            let property = |key: &'static str| {
                let number = |line: &str| {
                    let (name, value) = line.split_once(' ')?;
                    (name == key).then(|| value.trim().parse::<u32>().ok())?
                };
                let path = path.clone();
                let found = properties.lines().find_map(number);
                found.ok_or(ClientError::Topology { path, key })
            };
            let minor = property("drm_render_minor")?;
            self.gpus.push(ClientGpu {
                id,
                render: open(&self.driver, &format!("/dev/dri/renderD{minor}"))?,
                ctl_stack: property("ctl_stack_size")?,
                save_area: property("cwsr_size")?,
            });
        }
        Ok(())
    }

    fn gpu(&self, index: usize) -> Result<&ClientGpu> {
        self.gpus.get(index).ok_or(ClientError::NoGpu(index))
    }

    /// A KFD ioctl.
    ///
    /// # Errors
    /// What the driver answers, with the ioctl's name.
    pub fn kfd<T: FromBytes + IntoBytes>(&self, number: u8, args: &mut T) -> Result<()> {
        self.raw(number, args).map_err(|errno| {
            let row = table::row(table::KFD, number);
            let name = row.map_or("of an unknown number", |(_, row)| row.name);
            ClientError::Ioctl { name, errno }
        })
    }

    /// A KFD ioctl.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn raw<T: FromBytes + IntoBytes>(
        &self,
        number: u8,
        args: &mut T,
    ) -> std::result::Result<(), Errno> {
        self.ioctls.set(self.ioctls.get() + 1);
        ioctl(&self.driver, &self.kfd, b'K', number, args)
    }

    /// Allocates at a GPU address (where the program has its mapping if 0), maps for all GPUs and for the program.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn allocate(&self, gpu: usize, va: u64, bytes: u64, flags: u32) -> Result<Buffer> {
        let asked = bytes.max(1);
        let bytes = asked.next_multiple_of(PAGE);
        let refused = |errno| ClientError::Map { bytes, errno };
        let gpu = self.gpu(gpu)?;
        // SAFETY: a fresh reservation.
        let host = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let host = host.map_err(refused)?;
        // From here on the mapping is removed with the buffer.
        let mut buffer = Buffer {
            va: if va == 0 { host as u64 } else { va },
            bytes,
            handle: 0,
            host: host.cast(),
        };
        let mut args = abi::AllocMemoryOfGpu {
            va_addr: buffer.va,
            size: asked,
            gpu_id: gpu.id,
            flags: flags | alloc_flags::WRITABLE | alloc_flags::EXECUTABLE,
            ..Default::default()
        };
        self.kfd(number::ALLOC, &mut args)?;
        buffer.handle = args.handle;
        // SAFETY: over the reservation, as the thunk does.
        let mapped = unsafe {
            rustix::mm::mmap(
                host,
                bytes as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                &gpu.render,
                args.mmap_offset,
            )
        };
        mapped.map_err(refused)?;
        let ids: Vec<u32> = self.gpus.iter().map(|gpu| gpu.id).collect();
        let mut map = abi::MapMemory {
            handle: args.handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        self.kfd(number::MAP, &mut map)?;
        Ok(buffer)
    }

    /// The event page, and a first event that resets itself.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn first_event(&self) -> Result<(Buffer, u32)> {
        let page = self.allocate(0, 0, 32 << 10, alloc_flags::GTT)?;
        let mut args = abi::CreateEvent {
            event_page_offset: page.handle,
            event_type: event_type::SIGNAL,
            auto_reset: 1,
            ..Default::default()
        };
        self.kfd(number::CREATE_EVENT, &mut args)?;
        Ok((page, args.event_id))
    }

    /// One more event, of a kind.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn event(&self, kind: u32) -> Result<u32> {
        let mut args = abi::CreateEvent {
            event_type: kind,
            ..Default::default()
        };
        self.kfd(number::CREATE_EVENT, &mut args)?;
        Ok(args.event_id)
    }

    /// Waits for an event; what it says if it came in time.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn wait(&self, id: u32, milliseconds: u32) -> Result<Option<abi::EventData>> {
        let mut data = abi::EventData {
            event_id: id,
            ..Default::default()
        };
        let mut args = abi::WaitEvents {
            events_ptr: &raw mut data as u64,
            num_events: 1,
            timeout: milliseconds,
            ..Default::default()
        };
        self.kfd(number::WAIT_EVENTS, &mut args)?;
        match args.wait_result {
            wait_result::COMPLETE => Ok(Some(data)),
            wait_result::TIMEOUT => Ok(None),
            _ => Err(ClientError::Ioctl {
                name: "WAIT_EVENTS (result FAIL)",
                errno: Errno::INVAL,
            }),
        }
    }

    /// Makes an AQL queue on a GPU.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn aql_queue(&self, gpu: usize) -> Result<Queue> {
        let ring = self.allocate(gpu, 0, PAGE, alloc_flags::GTT)?;
        let state = self.allocate(gpu, 0, PAGE, alloc_flags::GTT)?;
        for slot in 0..ring.bytes / 64 {
            // INVALID.
            ring.write(slot * 64, &1u16.to_le_bytes())?;
        }
        // Apertures of LDS and scratch, and where the read index lies.
        state.write(64, &0x0001_0000u32.to_le_bytes())?;
        state.write(68, &0x0002_0000u32.to_le_bytes())?;
        state.write(136, &128u32.to_le_bytes())?;
        let gpu = self.gpu(gpu)?;
        let mut args = abi::CreateQueue {
            ring_base_address: ring.va,
            write_pointer_address: state.va + 56,
            read_pointer_address: state.va + 128,
            ring_size: ring.bytes as u32,
            gpu_id: gpu.id,
            queue_type: queue_type::COMPUTE_AQL,
            queue_percentage: 100,
            queue_priority: 7,
            ctx_save_restore_size: gpu.save_area,
            ctl_stack_size: gpu.ctl_stack,
            ..Default::default()
        };
        self.kfd(number::CREATE_QUEUE, &mut args)?;
        Ok(Queue {
            id: args.queue_id,
            ring,
            state,
            doorbells: self.doorbells(args.doorbell_offset)?,
            doorbell: args.doorbell_offset & (DOORBELL_SLICE - 1),
            next: 0,
        })
    }

    /// Makes a queue of words on a GPU with a ring of `bytes` bytes.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn word_queue(&self, gpu: usize, engine: WordEngine, bytes: u64) -> Result<WordQueue> {
        let ring = self.allocate(gpu, 0, bytes, alloc_flags::GTT)?;
        let state = self.allocate(gpu, 0, PAGE, alloc_flags::GTT)?;
        let gpu = self.gpu(gpu)?;
        let mut args = abi::CreateQueue {
            ring_base_address: ring.va,
            write_pointer_address: state.va,
            read_pointer_address: state.va + 64,
            ring_size: ring.bytes as u32,
            gpu_id: gpu.id,
            queue_percentage: 100,
            queue_priority: 7,
            ..Default::default()
        };
        args.queue_type = match engine {
            WordEngine::Sdma => queue_type::SDMA,
            WordEngine::SdmaXgmi => queue_type::SDMA_XGMI,
            WordEngine::SdmaOf(engine) => {
                args.sdma_engine_id = engine;
                queue_type::SDMA_BY_ENGINE_ID
            }
            WordEngine::Pm4 { xcc } => {
                args.queue_percentage |= xcc << 8;
                args.ctx_save_restore_size = gpu.save_area;
                args.ctl_stack_size = gpu.ctl_stack;
                queue_type::COMPUTE
            }
        };
        self.kfd(number::CREATE_QUEUE, &mut args)?;
        // A packet of type 2 is one word of nothing, as is a zero for SDMA. PM4 counts in words, SDMA in bytes.
        let (filler, unit) = match engine {
            WordEngine::Pm4 { .. } => (0x8000_0000, 4),
            _ => (0, 1),
        };
        Ok(WordQueue {
            id: args.queue_id,
            ring,
            state,
            doorbells: self.doorbells(args.doorbell_offset)?,
            doorbell: args.doorbell_offset & (DOORBELL_SLICE - 1),
            written: 0,
            filler,
            unit,
        })
    }

    /// The slice that a doorbell lies in.
    fn doorbells(&self, offset: u64) -> Result<Buffer> {
        // SAFETY: a mapping at an address of the kernel's choice.
        let slice = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                DOORBELL_SLICE as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &self.kfd,
                offset & !(DOORBELL_SLICE - 1),
            )
        };
        let slice = slice.map_err(|errno| ClientError::Map {
            bytes: DOORBELL_SLICE,
            errno,
        })?;
        Ok(Buffer {
            va: 0,
            bytes: DOORBELL_SLICE,
            handle: 0,
            host: slice.cast(),
        })
    }

    /// Destroys a queue.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn destroy(&self, queue: &Queue) -> Result<()> {
        let mut args = abi::DestroyQueue {
            queue_id: queue.id,
            pad: 0,
        };
        self.kfd(number::DESTROY_QUEUE, &mut args)
    }
}

/// An AQL queue.
#[derive(Debug)]
pub struct Queue {
    /// Its number.
    pub id: u32,
    /// The ring of packets.
    pub ring: Buffer,
    /// The `amd_queue_t`.
    pub state: Buffer,
    doorbells: Buffer,
    /// Offset in the slice.
    doorbell: u64,
    next: u64,
}

impl Queue {
    /// Publishes a packet, whose header comes last, and rings the doorbell.
    ///
    /// # Errors
    /// None that the driver can cause.
    pub fn submit(&mut self, packet: &[u8; 64]) -> Result<()> {
        let at = self.next % (self.ring.bytes / 64) * 64;
        self.state.word(56)?.store(self.next + 1, Ordering::Release);
        self.ring.write(at + 2, &packet[2..])?;
        let header = u16::from_le_bytes([packet[0], packet[1]]);
        let slot = self.ring.at(at, 2)?;
        // SAFETY: an aligned half word inside the ring.
        unsafe { AtomicU16::from_ptr(slot.cast()) }.store(header, Ordering::Release);
        self.ring_doorbell(self.next)?;
        self.next += 1;
        Ok(())
    }

    /// Stores to the doorbell.
    ///
    /// # Errors
    /// None that the driver can cause.
    pub fn ring_doorbell(&self, value: u64) -> Result<()> {
        let doorbell = self.doorbells.word(self.doorbell)?;
        doorbell.store(value, Ordering::Release);
        Ok(())
    }

    /// The read index: packets that are done.
    ///
    /// # Errors
    /// None that the driver can cause.
    pub fn read_index(&self) -> Result<u64> {
        Ok(self.state.word(128)?.load(Ordering::Acquire))
    }
}

/// What works through a queue of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordEngine {
    /// Any SDMA engine.
    Sdma,
    /// One of those for links between GPUs.
    SdmaXgmi,
    /// The SDMA engine of this number.
    SdmaOf(u32),
    /// Compute, by PM4 packets, on this XCC.
    Pm4 {
        /// Its number.
        xcc: u32,
    },
}

/// A queue of SDMA or PM4 packets.
#[derive(Debug)]
pub struct WordQueue {
    /// Its number.
    pub id: u32,
    /// The ring.
    pub ring: Buffer,
    /// The write pointer at 0, the read pointer at 64.
    pub state: Buffer,
    doorbells: Buffer,
    doorbell: u64,
    /// Bytes, from the beginning.
    written: u64,
    /// What stands before the end of the ring if a packet does not fit there.
    filler: u32,
    /// Bytes of what pointers and doorbell count.
    unit: u64,
}

impl WordQueue {
    /// Publishes a packet and rings the doorbell. What would cross the end of the ring goes to its beginning, behind
    /// words that do nothing. The caller leaves no more than the ring holds.
    ///
    /// # Errors
    /// None that the driver can cause.
    pub fn submit(&mut self, words: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = self.written % self.ring.bytes;
        let room = self.ring.bytes - at;
        if (bytes.len() as u64) > room {
            let nothing = self.filler.to_le_bytes().repeat(room as usize / 4);
            self.ring.write(at, &nothing)?;
            self.written += room;
        }
        self.ring.write(self.written % self.ring.bytes, &bytes)?;
        self.written += bytes.len() as u64;
        let written = self.written / self.unit;
        self.state.word(0)?.store(written, Ordering::Release);
        let doorbell = self.doorbells.word(self.doorbell)?;
        doorbell.store(written, Ordering::Release);
        Ok(())
    }

    /// Bytes of packets that are done.
    ///
    /// # Errors
    /// None that the driver can cause.
    pub fn done(&self) -> Result<u64> {
        Ok(self.state.word(64)?.load(Ordering::Acquire) * self.unit)
    }

    /// Whether all packets are done.
    ///
    /// # Errors
    /// None that the driver can cause.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.done()? >= self.written)
    }
}

/// Makes an `amd_signal_t` at an offset of a buffer: value 1, with a mailbox in the event page. Returns its handle.
///
/// # Errors
/// [`ClientError::Range`].
pub fn signal(buffer: &Buffer, at: u64, page: &Buffer, event: u32) -> Result<u64> {
    let mut bytes = [0; 64];
    bytes[0..8].copy_from_slice(&1u64.to_le_bytes());
    bytes[8..16].copy_from_slice(&1u64.to_le_bytes());
    let mailbox = page.va + 8 * u64::from(event);
    bytes[16..24].copy_from_slice(&mailbox.to_le_bytes());
    bytes[24..28].copy_from_slice(&event.to_le_bytes());
    buffer.write(at, &bytes)?;
    Ok(buffer.va + at)
}

/// Runs an ioctl as the program would, on a descriptor of the driver's.
///
/// # Errors
/// What the driver answers; `EBADF` if the descriptor is not its own.
pub fn ioctl<T: FromBytes + IntoBytes>(
    driver: &Driver,
    fd: &OwnedFd,
    kind: u8,
    number: u8,
    args: &mut T,
) -> std::result::Result<(), Errno> {
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
    answer.unwrap_or(Err(Errno::BADF)).map(|_| ())
}

fn open(driver: &Driver, path: &str) -> Result<OwnedFd> {
    let answer = driver.open(Path::new(path), FLAGS);
    answer
        .unwrap_or(Err(Errno::NOENT))
        .map_err(|errno| ClientError::File {
            path: path.to_owned(),
            errno,
        })
}

/// The text of a file of the topology, of at most a page; `None` if it is not there.
fn text(driver: &Driver, path: &str) -> Result<Option<String>> {
    let failed = |errno| ClientError::File {
        path: path.to_owned(),
        errno,
    };
    let fd = match driver.open(Path::new(path), libc::O_RDONLY) {
        None | Some(Err(Errno::NOENT)) => return Ok(None),
        Some(opened) => opened.map_err(failed)?,
    };
    let mut bytes = vec![0; PAGE as usize];
    let got = rustix::io::read(&fd, &mut bytes).map_err(failed)?;
    bytes.truncate(got);
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
