//! Sleeping as an ioctl of the kernel does: until the word changes, the time is over, or a signal handler ran. Whether
//! the handler ends the sleep is for the kernel to say: `futex_waitv` restarts by the handler's SA_RESTART with or
//! without a timeout, as WAIT_EVENTS does.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Runs a sleep; see [`around_waits`].
type Around = fn(&mut dyn FnMut());

static AROUND: OnceLock<Around> = OnceLock::new();

/// Has every sleep in WAIT_EVENTS run by `around`, which calls what it is given once. Signal handlers that run meanwhile
/// are the program's: whoever stands between the program and the C library has to treat their calls so, although the
/// thread is in the middle of a call of the driver's. No lock of the driver is held. Only the first call counts.
pub fn around_waits(around: fn(&mut dyn FnMut())) {
    let _ = AROUND.set(around);
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slept {
    /// The word has changed, the time is over, or nothing happened: look again.
    Over,
    /// By a signal handler that does not restart system calls.
    Interrupted,
}

/// A time of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Timespec);

impl Deadline {
    /// `timeout` from now on.
    pub(super) fn after(timeout: Duration) -> Deadline {
        let now = clock_gettime(ClockId::Monotonic);
        let nanoseconds = now.tv_nsec + i64::from(timeout.subsec_nanos());
        let seconds = timeout.as_secs().min(u32::MAX.into()) as i64;
        Deadline(Timespec {
            tv_sec: now.tv_sec + seconds + nanoseconds / 1_000_000_000,
            tv_nsec: nanoseconds % 1_000_000_000,
        })
    }

    /// What is left until then.
    pub(super) fn left(&self) -> Duration {
        let total =
            |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let left = total(self.0) - total(clock_gettime(ClockId::Monotonic));
        Duration::from_nanos(u64::try_from(left.max(0)).unwrap_or(u64::MAX))
    }
}

/// `struct futex_waitv` (`linux/futex.h`).
#[repr(C)]
struct WaitVector {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE`.
const PRIVATE_WORD: u32 = 2 | 128;

/// Sleeps while the word is `value`, until the deadline at the latest.
pub(super) fn sleep(word: &AtomicU32, value: u32, deadline: Option<&Deadline>) -> Slept {
    let mut slept = Slept::Over;
    let mut once = || slept = sleep_now(word, value, deadline);
    match AROUND.get() {
        Some(around) => around(&mut once),
        None => once(),
    }
    slept
}

fn sleep_now(word: &AtomicU32, value: u32, deadline: Option<&Deadline>) -> Slept {
    let end = deadline.map(|deadline| libc::timespec {
        tv_sec: deadline.0.tv_sec,
        tv_nsec: deadline.0.tv_nsec,
    });
    let end = end.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let vector = WaitVector {
        value: value.into(),
        address: word.as_ptr().expose_provenance() as u64,
        flags: PRIVATE_WORD,
        reserved: 0,
    };
    // SAFETY: the vector, the word and the time live until the call returns; it writes to none of them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            &raw const vector,
            1,
            0,
            end,
            libc::CLOCK_MONOTONIC,
        )
    };
    if done >= 0 {
        return Slept::Over;
    }
    match error() {
        libc::EINTR => Slept::Interrupted,
        // The word is another one, the time is over.
        libc::EAGAIN | libc::ETIMEDOUT => Slept::Over,
        // There is no such call (kernels before 5.16), or a filter of system calls has never heard of it: that answers
        // EPERM in older containers. Whatever it says, going back at once would be a loop without sleep.
        _ => sleep_old(word, value, end),
    }
}

/// Whether this host lets `futex_waitv` pass, by which WAIT_EVENTS sleeps: without a list it says that the list is bad.
pub fn has_futex_waitv() -> bool {
    let null = std::ptr::null::<u8>();
    // SAFETY: with no entries the call reads nothing.
    let done = unsafe { libc::syscall(libc::SYS_futex_waitv, null, 0, 0, null, 0) };
    done >= 0 || error() == libc::EINVAL
}

/// As [`sleep_now`], but with a timeout every handler ends the sleep: then it is taken up again.
fn sleep_old(word: &AtomicU32, value: u32, end: *const libc::timespec) -> Slept {
    // SAFETY: the word and the time live until the call returns; it writes to neither.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
            value,
            end,
            std::ptr::null::<u32>(),
            u32::MAX,
        )
    };
    if done < 0 && error() == libc::EINTR && end.is_null() {
        Slept::Interrupted
    } else {
        Slept::Over
    }
}

/// Wakes whoever sleeps on the word.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the word is alive, and the call only looks at its address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

fn error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_sleep_ends_at_its_time_or_when_the_word_changes() {
        let word = AtomicU32::new(1);
        assert_eq!(sleep(&word, 0, None), Slept::Over);
        let soon = Deadline::after(Duration::from_millis(2));
        assert!(!soon.left().is_zero());
        while !soon.left().is_zero() {
            assert_eq!(sleep(&word, 1, Some(&soon)), Slept::Over);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                word.store(2, Ordering::Release);
                wake(&word);
            });
            while word.load(Ordering::Acquire) == 1 {
                sleep(&word, 1, None);
            }
        });
    }

    /// Makes the kernel refuse `futex_waitv` on this thread, as a container's filter of system calls does.
    fn refuse_waitv(errno: i32) {
        // BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K.
        let (load, equal, answer) = (0x20, 0x15, 0x06);
        let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        let mut steps = [
            step(load, 0, 0),
            step(equal, 1, libc::SYS_futex_waitv as u32),
            step(answer, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
            step(answer, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: the program lives until the call has copied it; both calls are about this thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(
                libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
                0
            );
        }
    }

    #[test]
    fn a_filter_that_refuses_the_call_does_not_keep_from_sleeping() {
        for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            std::thread::spawn(move || {
                refuse_waitv(errno);
                let word = AtomicU32::new(1);
                let soon = Deadline::after(Duration::from_millis(20));
                assert_eq!(sleep(&word, 1, Some(&soon)), Slept::Over);
                assert!(soon.left().is_zero(), "errno {errno}: back at once");
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn the_longest_timeout_has_a_deadline() {
        assert!(Deadline::after(Duration::MAX).left() > Duration::from_secs(1 << 30));
    }
}
