//! Tests that drive the whole driver as a program does: through descriptors, ioctls and `mmap`.

mod answers;
mod host;
mod memory;
mod random;
mod sharing;

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rocjitsu_config::{Machine, preset};
use rocjitsu_gpu::memory::{AccessFault, Memory};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::abi::*;
use crate::context::Context;
use crate::descriptors::Object;
use crate::driver::Driver;
use crate::table;

/// Flags of an ordinary VRAM and GTT allocation.
const VRAM: u32 = alloc_flags::VRAM | alloc_flags::WRITABLE | alloc_flags::PUBLIC;
const GTT: u32 = alloc_flags::GTT | alloc_flags::WRITABLE;
const USERPTR: u32 = alloc_flags::USERPTR | alloc_flags::WRITABLE;
const PAGE: u64 = 4096;

/// A program's descriptors of one driver.
struct Program<'d> {
    driver: &'d Driver,
    kfd: OwnedFd,
    render: Vec<OwnedFd>,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        self.driver.closed(self.kfd.as_raw_fd());
        for fd in &self.render {
            self.driver.closed(fd.as_raw_fd());
        }
    }
}

/// A driver of `gpus` GPUs of a preset.
fn driver(name: &str, gpus: usize) -> Driver {
    let gpu = preset(name).unwrap();
    Driver::new(Machine::new(vec![gpu; gpus])).unwrap()
}

impl<'d> Program<'d> {
    /// Opens everything and acquires every GPU's VM.
    fn new(driver: &'d Driver) -> Self {
        let program = Self::unbound(driver);
        for (gpu, fd) in program.render.iter().enumerate() {
            let mut args = AcquireVm {
                drm_fd: fd.as_raw_fd(),
                gpu_id: program.id(gpu),
            };
            program.kfd(0x15, &mut args).unwrap();
        }
        program
    }

    /// Opens everything.
    fn unbound(driver: &'d Driver) -> Self {
        let open = |path: &str| driver.open(Path::new(path), 2).unwrap().unwrap();
        let render = driver
            .gpus()
            .iter()
            .map(|gpu| open(&format!("/dev/dri/renderD{}", gpu.identity.render_minor)))
            .collect();
        Program {
            driver,
            kfd: open("/dev/kfd"),
            render,
        }
    }

    fn id(&self, gpu: usize) -> u32 {
        self.driver.gpus()[gpu].identity.gpu_id
    }

    fn ioctl<T: Abi>(
        &self,
        fd: BorrowedFd<'_>,
        (table, kind): (&'static [table::Row], u8),
        number: u8,
        args: &mut T,
    ) -> Result<(), Errno> {
        let (_, row) = table::row(table, number).unwrap();
        let request = Request {
            direction: row.direction.bits(),
            kind,
            number,
            size: size_of::<T>() as u16,
        };
        let arg = (&raw mut *args).cast::<c_void>();
        self.driver
            .ioctl(fd, request.into(), arg)
            .unwrap()
            .map(drop)
    }

    fn kfd<T: Abi>(&self, number: u8, args: &mut T) -> Result<(), Errno> {
        self.ioctl(self.kfd.as_fd(), (table::KFD, b'K'), number, args)
    }

    fn drm<T: Abi>(&self, gpu: usize, number: u8, args: &mut T) -> Result<(), Errno> {
        self.ioctl(self.render[gpu].as_fd(), (table::DRM, b'd'), number, args)
    }

    fn context(&self) -> Arc<Context> {
        match self.driver.descriptors().get(self.kfd.as_fd()) {
            Some(Object::Kfd(context)) => context,
            _ => panic!("no context"),
        }
    }

    /// What a GPU sees.
    fn memory(&self, gpu: usize) -> Arc<Memory> {
        self.context().memory(gpu).unwrap()
    }

    fn alloc(
        &self,
        gpu: usize,
        address: u64,
        bytes: u64,
        flags: u32,
    ) -> Result<AllocMemoryOfGpu, Errno> {
        self.alloc_from(gpu, address, bytes, flags, 0)
    }

    fn alloc_from(
        &self,
        gpu: usize,
        va_addr: u64,
        size: u64,
        flags: u32,
        mmap_offset: u64,
    ) -> Result<AllocMemoryOfGpu, Errno> {
        let mut args = AllocMemoryOfGpu {
            va_addr,
            size,
            mmap_offset,
            gpu_id: self.id(gpu),
            flags,
            ..Default::default()
        };
        self.kfd(0x16, &mut args).map(|()| args)
    }

    fn free(&self, handle: u64) -> Result<(), Errno> {
        self.kfd(0x17, &mut FreeMemoryOfGpu { handle })
    }

    fn change(&self, number: u8, handle: u64, ids: &[u32]) -> (u32, Result<(), Errno>) {
        let mut args = MapMemory {
            handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        let done = self.kfd(number, &mut args);
        (args.n_success, done)
    }

    fn map(&self, handle: u64, gpu: usize) -> Result<(), Errno> {
        self.change(0x18, handle, &[self.id(gpu)]).1
    }

    fn unmap(&self, handle: u64, gpu: usize) -> Result<(), Errno> {
        self.change(0x19, handle, &[self.id(gpu)]).1
    }

    fn available(&self, gpu: usize) -> u64 {
        let mut args = GetAvailableMemory {
            gpu_id: self.id(gpu),
            ..Default::default()
        };
        self.kfd(0x23, &mut args).unwrap();
        args.available
    }

    /// `mmap` as the interposed library makes it.
    fn mmap(&self, fd: BorrowedFd<'_>, bytes: u64, offset: u64) -> Result<Pages, Errno> {
        let (bytes, null) = (bytes as usize, std::ptr::null_mut());
        let done = self.driver.mmap(fd, null, bytes, 3, 1, offset as i64);
        let at = done.unwrap_or_else(|| native_mmap(fd, null, bytes, offset))?;
        Ok(Pages {
            at: at as u64,
            bytes: bytes as u64,
        })
    }
}

fn native_mmap(
    fd: BorrowedFd<'_>,
    at: *mut c_void,
    bytes: usize,
    offset: u64,
) -> Result<*mut c_void, Errno> {
    let fixed = if at.is_null() {
        MapFlags::empty()
    } else {
        MapFlags::FIXED
    };
    // SAFETY: at an address of the kernel's choice, or over pages that the test owns.
    unsafe {
        rustix::mm::mmap(
            at,
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | fixed,
            fd,
            offset,
        )
    }
}

/// Pages of the program's own, unmapped at the end.
struct Pages {
    at: u64,
    bytes: u64,
}

impl Pages {
    fn new(pages: u64, protection: ProtFlags) -> Pages {
        let bytes = pages * PAGE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes as usize, protection, flags)
        };
        Pages {
            at: at.unwrap() as u64,
            bytes,
        }
    }

    fn writable(pages: u64) -> Pages {
        Pages::new(pages, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn store(&self, offset: u64, value: u8) {
        assert!(offset < self.bytes);
        // SAFETY: inside pages that the test owns and keeps writable.
        unsafe { ((self.at + offset) as *mut u8).write_volatile(value) };
    }

    fn load(&self, offset: u64) -> u8 {
        assert!(offset < self.bytes);
        // SAFETY: inside pages that the test owns and keeps readable.
        unsafe { ((self.at + offset) as *const u8).read_volatile() }
    }

    fn protect(&self, first: u64, pages: u64, flags: MprotectFlags) {
        let at = (self.at + first * PAGE) as *mut c_void;
        // SAFETY: pages that the test owns.
        unsafe { rustix::mm::mprotect(at, (pages * PAGE) as usize, flags) }.unwrap();
    }

    fn unmap(&self, first: u64, pages: u64) {
        let at = (self.at + first * PAGE) as *mut c_void;
        // SAFETY: pages that the test owns, and does not touch afterwards.
        unsafe { rustix::mm::munmap(at, (pages * PAGE) as usize) }.unwrap();
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: pages that the test owns; holes in them are no error.
        let _ = unsafe { rustix::mm::munmap(self.at as *mut c_void, self.bytes as usize) };
    }
}

/// A byte as the GPU reads it.
fn read(memory: &Memory, address: u64) -> Result<u8, AccessFault> {
    let mut byte = [0];
    memory.copy_out(address, &mut byte).map(|()| byte[0])
}

fn write(memory: &Memory, address: u64, value: u8) -> Result<(), AccessFault> {
    memory.copy_in(address, &[value])
}
