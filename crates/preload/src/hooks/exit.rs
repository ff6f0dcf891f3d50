//! _exit and abort: the report is written even by programs that leave without their exit handlers.

use libc::c_int;

use crate::{process, real, report};

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    leave(status)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(non_snake_case, reason = "the name in libc"))]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    leave(status)
}

fn leave(status: c_int) -> ! {
    process::leave(status);
    loop {
        // SAFETY: the system call ends the process, with all threads.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn abort() -> ! {
    report::flush();
    // SAFETY: the program calls as it would call the C library. A handler of SIGABRT may leave by a jump.
    unsafe { real::abort() };
    leave(128 + libc::SIGABRT)
}
