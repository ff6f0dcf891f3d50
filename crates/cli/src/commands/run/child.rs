//! Runs a program as a child: signals go on to it, its end becomes an exit status.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// Signals that are handed on.
const FORWARDED: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGWINCH,
];

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its exit status, or 128 and the number of the signal that ended it.
    pub status: u8,
    /// That signal.
    pub signal: Option<i32>,
    /// Its process's number.
    pub process: u32,
}

/// Runs the program to its end.
///
/// # Errors
///
/// The program cannot be started.
pub fn run(command: &mut Command) -> io::Result<End> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset makes the set before anything reads it; the signals are valid numbers.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    };
    // The signals wait until they are asked for below. The child inherits what is blocked, so it gets the mask back
    // that this process was started with.
    let mut before = MaybeUninit::uninit();
    // SAFETY: the set is valid; the call fills in the old one.
    let before = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr());
        before.assume_init()
    };
    // If this process is killed, the program must not stay behind.
    // SAFETY: the closure makes system calls only, which are allowed between fork and exec; the set is valid.
    unsafe {
        command.pre_exec(move || {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End {
                status: code(status),
                signal: status.signal(),
                process: child.id(),
            });
        }
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the set is valid, and the call fills in the information.
        let signal = unsafe { libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) };
        if signal < 0 || signal == libc::SIGCHLD {
            continue;
        }
        // A terminal sends its signals to the child as well.
        // SAFETY: sigwaitinfo has succeeded, and so filled it in.
        let from_terminal = unsafe { info.assume_init() }.si_code > 0;
        if !from_terminal {
            // SAFETY: the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code & 0xff).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_becomes_128_and_its_number() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
        assert_eq!(
            code(ExitStatus::from_raw(139)),
            139,
            "segmentation fault with a core dump"
        );
    }
}
