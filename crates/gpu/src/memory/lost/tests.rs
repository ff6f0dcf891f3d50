//! Pages that go away under an access of this process. What a program with handlers of its own sees is tested with the
//! preloaded library.

use std::ffi::c_void;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use super::*;
use crate::memory::maps::{self, Area};
use crate::memory::{Access, Memory, PAGE, Storage};

const PAGES: u64 = 8;
const BYTES: u64 = PAGES * PAGE;
const VA: u64 = 0x1_0000_0000;

/// Pages of this process's, each byte 7, where nothing else comes to lie.
fn pages(protection: ProtFlags) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0x3000_0000_0000);
    let place = NEXT.fetch_add(1 << 32, Ordering::Relaxed) as *mut c_void;
    // SAFETY: a fresh mapping, which is writable until it is filled.
    unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        let write = ProtFlags::READ | ProtFlags::WRITE;
        let at = rustix::mm::mmap_anonymous(place, BYTES as usize, write, flags).unwrap();
        std::ptr::write_bytes(at.cast::<u8>(), 7, BYTES as usize);
        let mut bits = MprotectFlags::empty();
        bits.set(MprotectFlags::READ, protection.contains(ProtFlags::READ));
        bits.set(MprotectFlags::WRITE, protection.contains(ProtFlags::WRITE));
        rustix::mm::mprotect(at, BYTES as usize, bits).unwrap();
        at as u64
    }
}

fn unmap(at: u64, bytes: u64) {
    // SAFETY: pages of this test's.
    unsafe { rustix::mm::munmap(at as *mut c_void, bytes as usize) }.unwrap();
}

fn lend(memory: &Memory, at: u64) {
    // SAFETY: accesses in a flight, or of pages that are there.
    let storage = unsafe { Storage::borrowed(at, BYTES) }.unwrap();
    memory
        .map(VA, storage, 0, BYTES, Access::ReadWrite, "lent")
        .unwrap();
}

fn areas(at: u64) -> Vec<Area> {
    let mut found = Vec::new();
    maps::visit(at, at + BYTES, &mut [0; 4096], |area| {
        found.extend(area.cut(at, at + BYTES));
        true
    })
    .unwrap();
    found
}

#[test]
fn pages_that_are_gone_read_as_zeros_and_are_a_fault() {
    let memory = Memory::new(0);
    let at = pages(ProtFlags::READ | ProtFlags::WRITE);
    lend(&memory, at);
    unmap(at + PAGE, PAGE);
    let mut bytes = [1; 2 * PAGE as usize];
    let fault = memory.copy_out(VA, &mut bytes).unwrap_err();
    assert_eq!((fault.address, fault.write), (VA + PAGE, false));
    assert_eq!(fault.kind, FaultKind::Unmapped);
    assert!(bytes[..PAGE as usize].iter().all(|&byte| byte == 7));
    assert!(bytes[PAGE as usize..].iter().all(|&byte| byte == 0));
    // Nothing stays where nothing was.
    let left: u64 = areas(at).iter().map(|area| area.end - area.start).sum();
    assert_eq!(left, BYTES - PAGE);
    let fault = memory.copy_in(VA + PAGE + 5, &[1]).unwrap_err();
    assert_eq!((fault.address, fault.write), (VA + PAGE + 5, true));
    memory.copy_out(VA, &mut bytes[..PAGE as usize]).unwrap();
    // All of it, more than the handler takes page by page.
    unmap(at, BYTES);
    let fault = memory.copy_within(VA, VA + BYTES / 2, BYTES / 2);
    assert!(!fault.unwrap_err().near.is_empty());
    assert_eq!(areas(at), []);
}

#[test]
fn protected_pages_are_a_fault_and_stay_protected() {
    let memory = Memory::new(0);
    let at = pages(ProtFlags::READ);
    lend(&memory, at);
    let mut byte = [0];
    memory.copy_out(VA, &mut byte).unwrap();
    let fault = memory.copy_in(VA + 3, &[1]).unwrap_err();
    assert_eq!((fault.address, fault.write), (VA + 3, true));
    assert_eq!(fault.kind, FaultKind::NotWritable);
    let readable = |area: &Area| area.read && !area.write;
    assert!(areas(at).iter().all(readable), "{:?}", areas(at));
    // SAFETY: pages of this test's.
    unsafe { rustix::mm::mprotect(at as *mut c_void, BYTES as usize, MprotectFlags::empty()) }
        .unwrap();
    let fault = memory.copy_out(VA, &mut byte).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotAccessible);
    // Read, then written, in one access.
    let fault = memory.copy_within(VA + PAGE, VA, 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotAccessible);
    assert!(areas(at).iter().all(|area| !area.read && !area.write));
    unmap(at, BYTES);
}

#[test]
fn what_the_program_puts_into_the_place_stays() {
    let memory = Memory::new(0);
    let at = pages(ProtFlags::READ | ProtFlags::WRITE);
    lend(&memory, at);
    unmap(at, BYTES);
    let scope = Scope::enter();
    // SAFETY: the address was lent, and the thread is in a scope.
    let read = |page: u64| unsafe { ((at + page * PAGE) as *const u8).read_volatile() };
    assert_eq!((0..PAGES).map(read).sum::<u8>(), 0);
    {
        let _held = hold(std::slice::from_ref(&(at..at + PAGE)));
        // SAFETY: pages of this test's, where nothing is.
        unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            let place = at as *mut c_void;
            rustix::mm::mmap_anonymous(place, 2 * PAGE as usize, protection, flags).unwrap();
            place.cast::<u8>().write_bytes(9, 2 * PAGE as usize);
        }
    }
    assert_eq!(read(7), 0);
    // What somebody else looks at meanwhile is not what this one has lost.
    let mut byte = [0];
    memory.copy_out(VA, &mut byte).unwrap();
    assert_eq!(take().map(|lost| lost.host), Some(at));
    assert_eq!(take(), None);
    assert_eq!((read(0), read(1)), (9, 9));
    drop(scope);
    let left: u64 = areas(at).iter().map(|area| area.end - area.start).sum();
    assert_eq!(left, 2 * PAGE);
    unmap(at, 2 * PAGE);
}

#[test]
fn whoever_unmaps_waits_for_accesses_that_began_before() {
    use crate::memory::Flight;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    let memory = Memory::new(1 << 20);
    let at = memory
        .allocate(&crate::memory::Request::new(PAGE, "here"))
        .unwrap();
    let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flight = Flight::new(&memory);
            flight.begin();
            begun.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            ended.store(true, Ordering::SeqCst);
            assert_eq!(flight.end(), None);
            std::thread::sleep(Duration::from_millis(50));
        });
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert!(memory.settle(), "nothing has changed");
        assert!(!ended.load(Ordering::SeqCst));
        memory.unmap(at, PAGE).unwrap();
        assert!(memory.settle() && ended.load(Ordering::SeqCst));
    });
}
