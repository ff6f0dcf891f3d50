//! The handler of SIGSEGV and SIGBUS, and what the program wants to happen with these signals. While ours is installed the
//! program's own disposition is kept here: a library that stands between it and the C library asks [`change`]. Ours is
//! installed with the program's mask and flags, so that a handler of the program's runs as the kernel would have run it.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Spin, rescue};

/// The signals.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Words of a disposition: handler, flags, mask.
const WORDS: usize = 2 + MASK;
const MASK: usize = size_of::<libc::sigset_t>() / 8;

/// Flags of the program's that ours is installed with.
const KEPT: c_int = libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER;

/// A disposition that the handler reads while another thread may change it: the one that counts is not written to.
struct Slot {
    version: AtomicU64,
    versions: [[AtomicU64; WORDS]; 2],
    /// The version whose handler has run and was wanted for one signal only; 0: none.
    spent: AtomicU64,
}

static PROGRAM: [Slot; 2] = [const {
    Slot {
        version: AtomicU64::new(0),
        versions: [const { [const { AtomicU64::new(0) }; WORDS] }; 2],
        spent: AtomicU64::new(0),
    }
}; 2];
/// Whether ours is installed.
static ARMED: AtomicBool = AtomicBool::new(false);
/// Held by who changes a disposition, with all signals blocked.
static CHANGING: Spin = Spin::new();

/// What the program asked for.
#[derive(Clone, Copy)]
struct Disposition {
    handler: usize,
    flags: c_int,
    mask: libc::sigset_t,
}

impl Disposition {
    fn default_action() -> Disposition {
        Disposition {
            handler: libc::SIG_DFL,
            flags: 0,
            mask: empty(),
        }
    }

    fn of(action: &libc::sigaction) -> Disposition {
        Disposition {
            handler: action.sa_sigaction,
            flags: action.sa_flags,
            mask: action.sa_mask,
        }
    }

    fn to_action(self) -> libc::sigaction {
        // SAFETY: all zeros is a value of this structure of numbers and an optional function.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        action.sa_mask = self.mask;
        action
    }

    fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// Ours in its place.
    fn disguised(&self) -> libc::sigaction {
        let (flags, mask) = match self.is_handler() {
            true => (self.flags & KEPT, self.mask),
            // A handler needs room where a stack has overflown.
            false => (libc::SA_ONSTACK, empty()),
        };
        Disposition {
            handler: ours(),
            flags: flags | libc::SA_SIGINFO,
            mask,
        }
        .to_action()
    }
}

fn ours() -> usize {
    (handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) as usize
}

fn empty() -> libc::sigset_t {
    // SAFETY: the set is filled before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        set
    }
}

impl Slot {
    fn of(signal: c_int) -> Option<&'static Slot> {
        let at = SIGNALS.iter().position(|&other| other == signal)?;
        PROGRAM.get(at)
    }

    /// What counts, and its version.
    fn read(&self) -> (Disposition, u64) {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let words = &self.versions[(version % 2) as usize];
            let words: [u64; WORDS] = std::array::from_fn(|at| words[at].load(Ordering::Relaxed));
            std::sync::atomic::fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) != version {
                continue;
            }
            if version != 0 && self.spent.load(Ordering::Acquire) == version {
                return (Disposition::default_action(), version);
            }
            let [handler, flags, mask @ ..] = words;
            // SAFETY: a set of signals is as many words, and any bits are one.
            let mask = unsafe { std::mem::transmute::<[u64; MASK], libc::sigset_t>(mask) };
            let disposition = Disposition {
                handler: handler as usize,
                flags: flags as u32 as c_int,
                mask,
            };
            return (disposition, version);
        }
    }

    /// Only one thread at a time.
    fn write(&self, new: &Disposition) {
        let version = self.version.load(Ordering::Relaxed) + 1;
        let words = &self.versions[(version % 2) as usize];
        // SAFETY: a set of signals is as many words.
        let mask = unsafe { std::mem::transmute::<libc::sigset_t, [u64; MASK]>(new.mask) };
        words[0].store(new.handler as u64, Ordering::Relaxed);
        words[1].store(u64::from(new.flags.cast_unsigned()), Ordering::Relaxed);
        for (word, value) in words[2..].iter().zip(mask) {
            word.store(value, Ordering::Relaxed);
        }
        self.version.store(version, Ordering::Release);
    }
}

/// All signals blocked and [`CHANGING`] held, until dropped.
struct Changing(libc::sigset_t);

impl Changing {
    fn begin() -> Changing {
        let mut before = empty();
        // SAFETY: the sets are filled before they are read; only this thread's mask changes.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        }
        CHANGING.lock();
        Changing(before)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.unlock();
        // SAFETY: the mask that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// What the kernel has.
fn installed(signal: c_int) -> io::Result<libc::sigaction> {
    let mut now = Disposition::default_action().to_action();
    // SAFETY: only asks.
    match unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) } {
        0 => Ok(now),
        _ => Err(io::Error::last_os_error()),
    }
}

fn install(signal: c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: the handler is ours, or the program's own disposition.
    match unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Installs the handler, unless it is. Whatever the program has installed past us since is its disposition now. Called
/// whenever memory is lent. `sigaction` has to be the C library's for the calling thread.
pub fn arm() {
    let is_ours = |signal| installed(signal).is_ok_and(|now| now.sa_sigaction == ours());
    if SIGNALS.into_iter().all(is_ours) {
        return;
    }
    let _changing = Changing::begin();
    for (signal, slot) in SIGNALS.into_iter().zip(&PROGRAM) {
        let Ok(now) = installed(signal) else { continue };
        if now.sa_sigaction == ours() {
            continue;
        }
        let program = Disposition::of(&now);
        slot.write(&program);
        // Without it the program dies of what it takes away, as before.
        let _ = install(signal, &program.disguised());
    }
    ARMED.store(true, Ordering::Release);
}

/// Whether the program's dispositions of SIGSEGV and SIGBUS are kept here.
pub fn is_armed() -> bool {
    ARMED.load(Ordering::Acquire)
}

/// Whether [`change`] answers for a signal.
pub fn keeps(signal: c_int) -> bool {
    is_armed() && SIGNALS.contains(&signal)
}

/// `sigaction` of the program's for a signal that is kept here: what it was, after changing it to `new` if that is given.
///
/// # Errors
/// Those of `sigaction`.
pub fn change(signal: c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let slot = Slot::of(signal).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let _changing = Changing::begin();
    let (old, _) = slot.read();
    if let Some(new) = new {
        let new = Disposition::of(new);
        // Before the kernel has the new flags: a signal in between finds the handler that it is for.
        slot.write(&new);
        if let Err(error) = install(signal, &new.disguised()) {
            slot.write(&old);
            return Err(error);
        }
    }
    Ok(old.to_action())
}

/// A forked child has no thread that is changing anything.
pub(super) fn after_fork() {
    CHANGING.unlock();
}

extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the C library's pointer to this thread's errno is always valid.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel hands a handler with SA_SIGINFO a valid structure; the address is there for both signals.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    // What somebody sent has no address.
    let done = code > 0 && rescue(signal, code, address, writes(context));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if !done {
        pass_on(signal, code, info, context);
    }
}

/// Whether the access was a store.
#[cfg(target_arch = "x86_64")]
fn writes(context: *mut c_void) -> bool {
    // SAFETY: the kernel hands a handler with SA_SIGINFO the interrupted context.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    // Bit 1 of a page fault's error code.
    registers[libc::REG_ERR as usize] & 2 != 0
}

/// Not known: as if it was.
#[cfg(not(target_arch = "x86_64"))]
fn writes(_: *mut c_void) -> bool {
    true
}

/// Does what the program wants.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(slot) = Slot::of(signal) else { return };
    let (mut program, version) = slot.read();
    if program.is_handler() && program.flags & libc::SA_RESETHAND != 0 {
        // One of several threads gets it.
        let before = slot.spent.swap(version, Ordering::AcqRel);
        if before == version {
            program = Disposition::default_action();
        }
    }
    if program.is_handler() {
        // SAFETY: the program gave this function for this signal, of the type that its flag says.
        unsafe {
            if program.flags & libc::SA_SIGINFO != 0 {
                type Full = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                std::mem::transmute::<usize, Full>(program.handler)(signal, info, context);
            } else {
                std::mem::transmute::<usize, extern "C" fn(c_int)>(program.handler)(signal);
            }
        }
        return;
    }
    if program.handler == libc::SIG_IGN && code <= 0 {
        return;
    }
    // The default action, also for faults that are ignored: the kernel does not ignore them.
    // SAFETY: by a plain system call, because `sigaction` may be the hook that keeps dispositions here. The structure of the
    // kernel begins with the handler and is zeros otherwise, and 8 bytes are its mask.
    unsafe {
        let zeros = [0u64; 4];
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            zeros.as_ptr(),
            std::ptr::null_mut::<u64>(),
            8,
        );
        if code <= 0 {
            // The access is not repeated by itself.
            let thread = libc::syscall(libc::SYS_gettid);
            libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal);
        }
    }
}
