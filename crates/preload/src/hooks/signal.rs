//! The program's dispositions of SIGSEGV and SIGBUS, once memory was lent to a GPU: the handler for accesses to lent memory
//! that has gone stays installed, and what the program says and is told is kept beside it.

use libc::{c_int, sighandler_t};
use rocjitsu_kfd::disposition;

use crate::guard::{Inside, KeepErrno, set_errno};
use crate::{process, real};

/// Answers for a signal whose disposition is kept. `None`: the C library does.
fn kept(signal: c_int, new: Option<&libc::sigaction>) -> Option<std::io::Result<libc::sigaction>> {
    // A child of `vfork` has dispositions of its own, and this memory is its parent's.
    if !disposition::keeps(signal) || !process::is_this_process() {
        return None;
    }
    let _inside = Inside::enter()?;
    let _errno = KeepErrno::now();
    Some(disposition::change(signal, new))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: null, or the program's structure, as for the C library.
    let wanted = unsafe { new.as_ref() }.copied();
    match kept(signal, wanted.as_ref()) {
        // SAFETY: the program calls as it would call the C library.
        None => unsafe { real::sigaction(signal, new, old) },
        Some(Ok(before)) => {
            if !old.is_null() {
                // SAFETY: the program gave room for the answer.
                unsafe { old.write(before) };
            }
            0
        }
        Some(Err(error)) => {
            set_errno(error.raw_os_error().unwrap_or(libc::EINVAL));
            -1
        }
    }
}

/// Sets a handler with flags, as the functions do that know only that much.
fn set(signal: c_int, handler: sighandler_t, flags: c_int) -> Option<sighandler_t> {
    // SAFETY: all zeros is a value of this structure of numbers and an optional function.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    match kept(signal, Some(&action))? {
        Ok(before) => Some(before.sa_sigaction),
        Err(error) => {
            set_errno(error.raw_os_error().unwrap_or(libc::EINVAL));
            Some(libc::SIG_ERR)
        }
    }
}

macro_rules! signal_hooks {
    ($($name:ident as $real:ident with $flags:expr,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            set(signal, handler, $flags)
                // SAFETY: the program calls as it would call the C library.
                .unwrap_or_else(|| unsafe { real::$real(signal, handler) })
        }
    )*};
}

// As the GNU C library has them (`sysdeps/posix/signal.c`, `sysv_signal.c`).
signal_hooks! {
    signal as signal with libc::SA_RESTART,
    bsd_signal as signal with libc::SA_RESTART,
    ssignal as signal with libc::SA_RESTART,
    sysv_signal as sysv_signal with libc::SA_RESETHAND | libc::SA_NODEFER,
    __sysv_signal as sysv_signal with libc::SA_RESETHAND | libc::SA_NODEFER,
}
