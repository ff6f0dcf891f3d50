//! Bytes as a sequence of ioctls: `cargo +nightly fuzz run ioctls`.
//! Each call is a byte for the row of the tables, one for its form, then the argument, which has the row's size or, in one form
//! of eight, another one. Words of the argument that are all ones but for their low byte become something that exists: a GPU's id,
//! an address, a descriptor, or what an earlier call answered, such as a handle.
#![no_main]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::Driver;
use rocjitsu_kfd::abi::Request;
use rocjitsu_kfd::table::{DRM, KFD, Row};

/// Largest size of an argument.
const LARGEST: usize = (1 << 14) - 1;
const READ_WRITE: i32 = 2;
/// Inputs after which the driver is made anew: it never uses an address again.
const INPUTS: u32 = 4096;
/// Answers that are remembered.
const ANSWERS: usize = 24;

/// Making a driver, most of it the topology, takes as long as a hundred inputs. What an input does goes with its context.
static SHARED: Mutex<Option<(Driver, u32)>> = Mutex::new(None);

/// A call of the sequence.
struct Call<'a> {
    drm: bool,
    row: &'static Row,
    size: usize,
    argument: &'a [u8],
}

fn take<'a>(data: &mut &'a [u8]) -> Option<Call<'a>> {
    let (&[which, form], mut rest) = data.split_first_chunk()?;
    let which = usize::from(which) % (KFD.len() + DRM.len());
    let (drm, row) = match which.checked_sub(KFD.len()) {
        None => (false, &KFD[which]),
        Some(which) => (true, &DRM[which]),
    };
    let mut size = usize::from(row.size);
    if form % 8 == 7 {
        let (&[low, high], behind) = rest.split_first_chunk()?;
        size = usize::from(u16::from_le_bytes([low, high])) & LARGEST;
        rest = behind;
    }
    let (argument, rest) = rest.split_at(size.min(rest.len()));
    *data = rest;
    Some(Call {
        drm,
        row,
        size,
        argument,
    })
}

/// What words of all ones stand for: some values that exist, then the latest answers.
struct Known {
    fixed: Vec<u64>,
    answers: Vec<u64>,
}

impl Known {
    fn get(&self, number: u8) -> u64 {
        let all = self.fixed.len() + self.answers.len();
        let number = usize::from(number) % all;
        match number.checked_sub(self.fixed.len()) {
            None => self.fixed[number],
            Some(number) => self.answers[self.answers.len() - 1 - number],
        }
    }

    /// Remembers the words that a call has changed.
    fn learn(&mut self, before: &[u8], after: &[u8]) {
        for (old, new) in before.chunks_exact(8).zip(after.chunks_exact(8)) {
            if old != new {
                let word = u64::from_le_bytes(new.try_into().expect("eight bytes"));
                self.answers.extend([word, word & 0xffff_ffff, word >> 32]);
            }
        }
        let surplus = self.answers.len().saturating_sub(ANSWERS);
        self.answers.drain(..surplus);
    }
}

fn run(driver: &Driver, data: &[u8]) {
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

    // What pointers in arguments point to: the GPU's id, so that lists of GPUs are good ones.
    let pair = u64::from(id) | u64::from(id) << 32;
    let mut memory = vec![pair; 1 << 13];
    let address = memory.as_mut_ptr() as u64;
    let mut known = Known {
        fixed: vec![
            id.into(),
            address,
            render.as_raw_fd() as u64,
            1 << 40,
            1 << 32,
            4096,
            address.next_multiple_of(4096),
            1,
        ],
        answers: Vec::new(),
    };
    let mut rest = data;
    while let Some(next) = take(&mut rest) {
        let number = next.row.number;
        // Always as long as the driver may write.
        let mut argument = vec![0; LARGEST + 1];
        argument[..next.argument.len()].copy_from_slice(next.argument);
        for word in argument[..next.size / 8 * 8].chunks_exact_mut(8) {
            if word[1..].iter().all(|&byte| byte == 0xff) {
                word.copy_from_slice(&known.get(word[0]).to_le_bytes());
            }
        }
        for word in argument[..next.size / 4 * 4].chunks_exact_mut(4) {
            if word[1..].iter().all(|&byte| byte == 0xff) {
                let value = known.get(word[0]) as u32;
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        let returned = match (next.drm, number) {
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
        let before = argument[..usize::from(next.row.size)].to_vec();
        let answer = call(next.drm, number, size, &mut argument);
        if let Some(Ok(_)) = answer {
            known.learn(&before, &argument);
            if let Some(at) = returned {
                let mut fd = [0; 4];
                fd.copy_from_slice(&argument[at..at + 4]);
                // SAFETY: the driver has just made the descriptor for the caller.
                drop(unsafe { OwnedFd::from_raw_fd(i32::from_le_bytes(fd)) });
            }
        }
    }
    driver.closed(render.as_raw_fd());
    driver.closed(kfd.as_raw_fd());
}

fuzz_target!(|data: &[u8]| {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, inputs) = shared.get_or_insert_with(|| {
        let gpu = preset_for_target("gfx942").expect("a preset");
        let driver = Driver::new(Machine::new(vec![gpu])).expect("a driver");
        (driver, 0)
    });
    run(driver, data);
    *inputs += 1;
    if *inputs == INPUTS {
        *shared = None;
    }
});
