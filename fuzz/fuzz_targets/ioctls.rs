//! Bytes as a sequence of ioctls: `cargo +nightly fuzz run ioctls`.
//! Each call is a byte for the descriptor, one for the number, two for the size, then the argument. Words of the
//! argument that are all ones become something that exists: a GPU's id, an address, a descriptor.
#![no_main]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::Driver;
use rocjitsu_kfd::abi::Request;

/// Largest size of an argument.
const LARGEST: usize = (1 << 14) - 1;
const READ_WRITE: i32 = 2;

/// A call of the sequence.
struct Call<'a> {
    drm: bool,
    number: u8,
    size: usize,
    argument: &'a [u8],
}

fn take<'a>(data: &mut &'a [u8]) -> Option<Call<'a>> {
    let (&[which, number, low, high], rest) = data.split_first_chunk()?;
    let size = usize::from(u16::from_le_bytes([low, high])) & LARGEST;
    let (argument, rest) = rest.split_at(size.min(rest.len()));
    *data = rest;
    Some(Call {
        drm: which & 1 != 0,
        number,
        size,
        argument,
    })
}

fuzz_target!(|data: &[u8]| {
    let gpu = preset_for_target("gfx942").expect("a preset");
    let driver = Driver::new(Machine::new(vec![gpu])).expect("a driver");
    let open = |path: &str| driver.open(Path::new(path), READ_WRITE).expect("ours").expect("opens");
    let (kfd, render) = (open("/dev/kfd"), open("/dev/dri/renderD128"));
    let id = driver.tree().gpus()[0].gpu_id;
    let call = |drm: bool, number: u8, size: usize, argument: &mut [u8]| {
        let (fd, kind) = if drm { (&render, b'd') } else { (&kfd, b'K') };
        let request = Request {
            direction: 3,
            kind,
            number,
            size: size as u16,
        };
        driver.ioctl(fd.as_fd(), request.into(), argument.as_mut_ptr().cast::<c_void>())
    };
    let mut acquire = [0; 8];
    acquire[..4].copy_from_slice(&render.as_raw_fd().to_le_bytes());
    acquire[4..].copy_from_slice(&id.to_le_bytes());
    call(false, 0x15, 8, &mut acquire);

    // What pointers in arguments point to.
    let mut memory = vec![0u64; 1 << 16];
    let useful = [
        u64::from(id),
        memory.as_mut_ptr() as u64,
        render.as_raw_fd() as u64,
        1 << 40,
        1 << 32,
        4096,
    ];
    let mut rest = data;
    let mut turn = 0;
    while let Some(next) = take(&mut rest) {
        // Always as long as the driver may write.
        let mut argument = vec![0; LARGEST + 1];
        argument[..next.argument.len()].copy_from_slice(next.argument);
        for word in argument[..next.size / 8 * 8].chunks_exact_mut(8) {
            if word.iter().all(|&byte| byte == 0xff) {
                word.copy_from_slice(&useful[turn % useful.len()].to_le_bytes());
                turn += 1;
            }
        }
        let returned = match (next.drm, next.number) {
            (false, 0x1f) => Some(4),
            (false, 0x24) => Some(12),
            (true, 0x2d) => Some(8),
            // A wait would only cost time.
            (false, 0x0c) => {
                argument[16..20].fill(0);
                None
            }
            _ => None,
        };
        let size = returned.map_or(next.size, |_| next.size.max(16));
        let answer = call(next.drm, next.number, size, &mut argument);
        if let (Some(at), Some(Ok(_))) = (returned, answer) {
            let mut fd = [0; 4];
            fd.copy_from_slice(&argument[at..at + 4]);
            // SAFETY: the driver has just made the descriptor for the caller.
            drop(unsafe { OwnedFd::from_raw_fd(i32::from_le_bytes(fd)) });
        }
    }
    driver.closed(render.as_raw_fd());
    driver.closed(kfd.as_raw_fd());
});
