//! pthread_create: threads that the driver starts are the engine's. They receive none of the program's signals, and
//! all their calls pass through. SIGSEGV and SIGBUS stay deliverable: accesses to lent memory that is gone bring them.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use libc::{c_int, pthread_attr_t, pthread_t};

use crate::guard::{become_engine_thread, is_inside};
use crate::real::{self, Start};

/// What an engine thread begins with.
struct First {
    start: Start,
    argument: *mut c_void,
}

extern "C" fn engine_thread(first: *mut c_void) -> *mut c_void {
    become_engine_thread();
    // SAFETY: `pthread_create` below made the box for this thread alone.
    let First { start, argument } = *unsafe { Box::from_raw(first.cast::<First>()) };
    start(argument)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !is_inside() {
        // SAFETY: the program calls as it would call the C library.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    let first = Box::into_raw(Box::new(First { start, argument }));
    let mut all = MaybeUninit::uninit();
    let mut old = MaybeUninit::uninit();
    // SAFETY: the sets are written before they are read; a new thread inherits the mask of its maker, which gets
    // its own back at once.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigdelset(all.as_mut_ptr(), libc::SIGSEGV);
        libc::sigdelset(all.as_mut_ptr(), libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        let result = real::pthread_create(thread, attributes, engine_thread, first.cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut());
        if result != 0 {
            drop(Box::from_raw(first));
        }
        result
    }
}
