//! _exit: the report is written even by programs that leave without their exit handlers.

use libc::c_int;

use crate::process;

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
    process::write_report();
    process::finish_plugins();
    loop {
        // SAFETY: the system call ends the process, with all threads.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
