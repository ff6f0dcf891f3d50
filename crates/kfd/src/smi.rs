//! SMI_EVENTS: descriptors on which monitors (the SMI libraries) read what happens to a GPU, a line for each event.
//! What a program writes to one chooses its events, as in `kfd_smi_events.c`.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::fd::HostFd;
use rustix::io::Errno;

use crate::abi::SmiEvents;
use crate::table::{Call, Handled};

/// `KFD_SMI_EVENT_VMFAULT`, the only event of the kernel's list that happens here: memory does not migrate, clocks
/// are not throttled, nothing is reset, and queues are never evicted.
const VM_FAULT: u32 = 1;

/// The descriptors that the program reads from.
#[derive(Debug)]
pub(crate) struct Monitors {
    open: Mutex<Vec<Monitor>>,
}

/// The driver's end of one of them.
#[derive(Debug)]
struct Monitor {
    gpu_id: u32,
    peer: HostFd,
    /// Bit n - 1 is event n.
    chosen: u64,
}

impl Default for Monitors {
    fn default() -> Self {
        let open = Mutex::new(Rank::LEAF, Vec::new());
        Monitors { open }
    }
}

impl Monitors {
    /// A descriptor for a GPU's events, none of which is chosen yet.
    ///
    /// # Errors
    /// The host has no descriptor left.
    fn add(&self, gpu_id: u32) -> Result<OwnedFd, Errno> {
        let (theirs, ours) = pair()?;
        let mut open = self.open.lock();
        open.retain_mut(Monitor::listens);
        open.push(Monitor {
            gpu_id,
            peer: HostFd::new(ours),
            chosen: 0,
        });
        Ok(theirs)
    }

    /// A wave or an engine of this GPU has touched memory that is not there.
    pub(crate) fn memory_fault(&self, gpu_id: u32) {
        let mut open = self.open.lock();
        open.retain_mut(Monitor::listens);
        if open.is_empty() {
            return;
        }
        let process = rustix::process::getpid().as_raw_nonzero().get();
        // What the kernel calls the program, cut as there.
        let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let line = format!("{VM_FAULT:x} {process:x}:{}\n", name.trim_end());
        for monitor in open.iter().filter(|monitor| monitor.gpu_id == gpu_id) {
            if monitor.chosen >> (VM_FAULT - 1) & 1 == 1 {
                monitor.send(line.as_bytes());
            }
        }
    }
}

impl Monitor {
    /// Takes over what the program has written since; `false` if it has closed its end.
    fn listens(&mut self) -> bool {
        loop {
            let mut mask = [0; 8];
            match rustix::io::read(&self.peer, &mut mask) {
                // Less than a mask is no choice; the kernel refuses it.
                Ok(8) => self.chosen = u64::from_ne_bytes(mask),
                Ok(0) => return false,
                Ok(_) => {}
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }

    /// A line for the program; one that does not read loses it, as with the kernel's queue of 1 KiB.
    fn send(&self, line: &[u8]) {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let null = std::ptr::null::<u8>();
        // SAFETY: the call reads the line, which lives until it returns.
        unsafe {
            libc::syscall(
                libc::SYS_sendto,
                self.peer.as_fd().as_raw_fd(),
                line.as_ptr(),
                line.len(),
                flags,
                null,
                0,
            )
        };
    }
}

/// Two ends of a stream, closed on exec; the first one, the program's, never waits in `read`, as with the kernel's.
fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call writes two descriptors to `ends`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            kind,
            0,
            ends.as_mut_ptr(),
        )
    };
    if done < 0 {
        return Err(last_error());
    }
    // SAFETY: fresh descriptors that nobody else has.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOMEM)
}

/// A descriptor on which the events that the program chooses appear.
pub(crate) fn smi_events(call: &Call<'_>, args: &mut SmiEvents) -> Handled {
    call.driver.gpu_index(args.gpuid)?;
    let fd = call.driver.monitors().add(args.gpuid)?;
    args.anon_fd = fd.into_raw_fd();
    Ok(())
}
