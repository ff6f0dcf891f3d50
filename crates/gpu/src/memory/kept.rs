//! Descriptors that the engine keeps open in a program which does not know of them. They have high numbers, the numbers are
//! listed for whoever stands between the program and the C library, and each use looks whether the file is still the one that was
//! opened: a program that closes numbers by plain system calls gets errors, never a write into a file of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Numbers that stay free above the first one that is taken, if the limit is lower than [`HIGHEST`].
const BELOW_LIMIT: u64 = 64;
/// Numbers begin here at most: the kernel's table of descriptors, which every fork copies, is as long as the highest.
const HIGHEST: u64 = 4096;
/// Descriptors that can be listed. Further ones are only looked at before each use.
const SLOTS: usize = 1024;
/// Numbers that can be listed.
const NUMBERS: usize = 1 << 16;

/// A slot that nobody has, and one that is just being filled.
const FREE: RawFd = -1;
const TAKEN: RawFd = -2;

/// The owner knows the number by heart; looks it up; is ordinary code that opened a file.
const FIXED: u8 = 0;
const MOVABLE: u8 = 1;
const ADOPTED: u8 = 2;

/// A listed descriptor.
#[derive(Debug)]
struct Slot {
    number: AtomicI32,
    /// Who is working with the number at this moment.
    users: AtomicU32,
    how: AtomicU8,
    device: AtomicU64,
    inode: AtomicU64,
}

static LIST: [Slot; SLOTS] = [const {
    Slot {
        number: AtomicI32::new(FREE),
        users: AtomicU32::new(0),
        how: AtomicU8::new(FIXED),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
    }
}; SLOTS];
/// Slots from here on were never used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// A bit for each number that was ever listed: whether it is worth a look.
static EVER: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

impl Slot {
    /// Whether `number` is still the file that was listed.
    fn is(&self, number: RawFd) -> bool {
        let listed = (
            self.device.load(Ordering::Relaxed),
            self.inode.load(Ordering::Relaxed),
        );
        // SAFETY: borrowed for one look at whatever file is behind the number.
        identity(unsafe { BorrowedFd::borrow_raw(number) }).is_ok_and(|now| now == listed)
    }
}

fn identity(fd: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn bit(number: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((EVER.get(number / 64)?, 1 << (number % 64)))
}

fn list() -> impl Iterator<Item = &'static Slot> {
    LIST.iter().take(USED.load(Ordering::Acquire))
}

/// The slot that has a number, if the file is still the engine's.
fn slot_of(number: RawFd) -> Option<&'static Slot> {
    let (word, bit) = bit(number)?;
    if word.load(Ordering::Acquire) & bit == 0 {
        return None;
    }
    list().find(|slot| slot.number.load(Ordering::SeqCst) == number && slot.is(number))
}

/// Whether a descriptor is one that the engine keeps. One load for almost all that are not.
pub fn is_kept(number: RawFd) -> bool {
    slot_of(number).is_some()
}

/// The descriptors from `first` to `last` that the engine keeps, in ascending order.
pub fn kept_within(first: RawFd, last: RawFd) -> Vec<RawFd> {
    let mut numbers: Vec<_> = list()
        .map(|slot| slot.number.load(Ordering::SeqCst))
        .filter(|number| (first..=last).contains(number) && is_kept(*number))
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Makes a number free for the program, which is about to put a file there: what the engine keeps at it goes elsewhere. If
/// that was the case (`true`) the number stays open until the program's file replaces it.
///
/// # Errors
/// The file must stay where it is, or the host has no other number.
pub fn make_room(number: RawFd) -> io::Result<bool> {
    let Some(slot) = slot_of(number) else {
        return Ok(false);
    };
    if slot.how.load(Ordering::Relaxed) != MOVABLE {
        return Err(Errno::BUSY.into());
    }
    // SAFETY: borrowed while it is duplicated.
    let new = duplicate(unsafe { BorrowedFd::borrow_raw(number) })?.into_raw_fd();
    note(new);
    let moved = slot
        .number
        .compare_exchange(number, new, Ordering::SeqCst, Ordering::SeqCst);
    if moved.is_err() {
        // Another thread has moved it, or its owner has closed it.
        close(new);
        return Ok(false);
    }
    while slot.users.load(Ordering::SeqCst) != 0 {
        rustix::thread::sched_yield();
    }
    Ok(true)
}

/// Forgets the whole list: in a forked child the descriptors belong to an engine that is not there.
pub fn forget_all() {
    for slot in list() {
        slot.number.store(FREE, Ordering::SeqCst);
        slot.users.store(0, Ordering::SeqCst);
    }
    USED.store(0, Ordering::Release);
    for word in &EVER {
        word.store(0, Ordering::Relaxed);
    }
}

fn note(number: RawFd) {
    if let Some((word, bit)) = bit(number) {
        word.fetch_or(bit, Ordering::AcqRel);
    }
}

fn close(number: RawFd) {
    // SAFETY: the callers own the number, and do not use it again.
    unsafe { rustix::io::close(number) };
}

/// A duplicate under a high number, closed on exec; under any number if there is no high one.
fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST);
    let first = limit.min(HIGHEST).saturating_sub(BELOW_LIMIT).max(3);
    rustix::io::fcntl_dupfd_cloexec(fd, first as RawFd)
        .or_else(|_| rustix::io::fcntl_dupfd_cloexec(fd, 3))
}

/// The same file under a high number that is closed on exec; under its own where there is none.
pub fn high<T: AsFd + From<OwnedFd> + Into<OwnedFd>>(file: T) -> T {
    match duplicate(file.as_fd()) {
        Ok(copy) => {
            close(file.into().into_raw_fd());
            T::from(copy)
        }
        Err(_) => file,
    }
}

/// Gives a file that code of the engine has just opened a high number, and lists it until [`released`]. Returns the number.
pub fn adopt(fd: OwnedFd) -> OwnedFd {
    let fd = high(fd);
    if let Ok(file) = identity(fd.as_fd()) {
        std::mem::forget(Listed::new(fd.as_raw_fd(), file, ADOPTED));
    }
    fd
}

/// Code of the engine closes a descriptor: if it was adopted it is so no more.
pub fn released(number: RawFd) {
    if let Some(slot) = slot_of(number)
        && slot.how.load(Ordering::Relaxed) == ADOPTED
    {
        slot.number.store(FREE, Ordering::SeqCst);
    }
}

/// A number that is listed as long as this lives.
#[derive(Debug)]
pub struct Listed(Option<&'static Slot>);

impl Listed {
    /// Lists a descriptor that stays where it is until the value is dropped.
    pub fn fixed(fd: BorrowedFd<'_>) -> Listed {
        identity(fd).map_or(Listed(None), |file| {
            Listed::new(fd.as_raw_fd(), file, FIXED)
        })
    }

    fn new(number: RawFd, file: (u64, u64), how: u8) -> Listed {
        let take = |slot: &&Slot| {
            let taken =
                slot.number
                    .compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst);
            taken.is_ok()
        };
        let listable = bit(number).is_some();
        let found = LIST
            .iter()
            .enumerate()
            .find(|(_, slot)| listable && take(slot));
        let Some((index, slot)) = found else {
            return Listed(None);
        };
        USED.fetch_max(index + 1, Ordering::AcqRel);
        slot.device.store(file.0, Ordering::Relaxed);
        slot.inode.store(file.1, Ordering::Relaxed);
        slot.how.store(how, Ordering::Relaxed);
        note(number);
        slot.number.store(number, Ordering::SeqCst);
        Listed(Some(slot))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.number.store(FREE, Ordering::SeqCst);
        }
    }
}

/// An open file that the engine keeps.
#[derive(Debug)]
pub struct KeptFd {
    listed: Listed,
    /// Where it was at the beginning; where it is if it is not listed.
    number: RawFd,
    identity: (u64, u64),
    /// What it is for, to be told if it is gone.
    what: &'static str,
}

/// A [`KeptFd`] that stays where it is, until dropped.
#[derive(Debug)]
pub struct InUse<'a> {
    slot: Option<&'a Slot>,
    fd: BorrowedFd<'a>,
}

impl KeptFd {
    /// Keeps a file; `what` says what it is for.
    ///
    /// # Errors
    /// The host cannot tell which file it is.
    pub fn new(fd: OwnedFd, what: &'static str) -> io::Result<KeptFd> {
        let identity = identity(fd.as_fd())?;
        let number = high(fd).into_raw_fd();
        Ok(KeptFd {
            listed: Listed::new(number, identity, MOVABLE),
            number,
            identity,
            what,
        })
    }

    /// `(st_dev, st_ino)` of the file.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// The descriptor, for one system call or a few.
    ///
    /// # Errors
    /// `EBADF` if the program has closed it, or put another file there; that is said once.
    pub fn get(&self) -> io::Result<InUse<'_>> {
        let found = self.look();
        if found.is_none() {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                eprintln!(
                    "rocjitsu: the driver's own descriptor {} ({}) was closed or replaced by a plain system call of the program; \
                     calls that need it fail from now on",
                    self.number, self.what
                );
            }
        }
        found.ok_or_else(|| Errno::BADF.into())
    }

    fn look(&self) -> Option<InUse<'_>> {
        let slot = self.listed.0;
        if let Some(slot) = slot {
            // Before the number is read: whoever moves it waits until nobody works with the old one.
            slot.users.fetch_add(1, Ordering::SeqCst);
        }
        let number = slot.map_or(self.number, |slot| slot.number.load(Ordering::SeqCst));
        // SAFETY: not negative as long as `self` lives; nobody closes it but the program, which the next line looks at.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let used = InUse { slot, fd };
        (identity(fd) == Ok(self.identity)).then_some(used)
    }
}

impl Drop for KeptFd {
    fn drop(&mut self) {
        // A file of the program's stays open. The number is taken from the list when it is closed.
        if let Some(used) = self.look() {
            close(used.fd.as_raw_fd());
        }
    }
}

impl AsFd for InUse<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.users.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        rustix::fs::memfd_create("kept", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
    }

    fn number(kept: &KeptFd) -> RawFd {
        kept.get().unwrap().as_fd().as_raw_fd()
    }

    #[test]
    fn kept_descriptors_are_high_listed_and_give_way() {
        let kept = KeptFd::new(file(), "a test").unwrap();
        let first = number(&kept);
        assert!(first >= 512 && is_kept(first) && kept_within(first, first) == [first]);
        assert!(make_room(first).unwrap());
        let second = number(&kept);
        assert!(second != first && is_kept(second) && !is_kept(first));
        close(first);
        rustix::io::write(kept.get().unwrap(), b"there").unwrap();
        drop(kept);
        assert!(!is_kept(second));
        let fixed = file();
        let listed = Listed::fixed(fixed.as_fd());
        assert!(is_kept(fixed.as_raw_fd()) && make_room(fixed.as_raw_fd()).is_err());
        drop(listed);
        assert!(!is_kept(fixed.as_raw_fd()));
    }

    #[test]
    fn a_file_that_was_put_in_its_place_is_left_alone() {
        let kept = KeptFd::new(file(), "a test").unwrap();
        let number = number(&kept);
        let foreign = file();
        // SAFETY: what a program may do at any time by a plain system call.
        let mut slot =
            unsafe { std::mem::ManuallyDrop::new(std::os::fd::FromRawFd::from_raw_fd(number)) };
        rustix::io::dup2(&foreign, &mut slot).unwrap();
        assert!(!is_kept(number) && kept.get().is_err() && !make_room(number).unwrap());
        drop(kept);
        // SAFETY: borrowed for one look.
        let there = unsafe { BorrowedFd::borrow_raw(number) };
        assert_eq!(identity(there), identity(foreign.as_fd()), "not closed");
        close(number);
    }

    #[test]
    fn a_number_moves_only_while_nobody_works_with_it() {
        let kept = KeptFd::new(file(), "a test").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        rustix::io::pwrite(kept.get().unwrap(), b"x", 0).unwrap();
                    }
                });
            }
            for _ in 0..200 {
                let number = number(&kept);
                assert!(make_room(number).unwrap());
                close(number);
            }
        });
    }
}
