//! Tests of the GPU's virtual memory.

use super::*;
use std::os::fd::AsRawFd;

#[test]
fn copies_and_rounds_to_pages() {
    let memory = Memory::new(1 << 20);
    let a = memory.allocate(&Request::new(5000, "a")).unwrap();
    assert_eq!(memory.used(), 8192);
    memory.write(a + 100, b"hello").unwrap();
    let mut back = [0; 6];
    memory.read(a + 100, &mut back).unwrap();
    assert_eq!(&back, b"hello\0");
    let extent = memory.find(a + 8191).unwrap();
    assert_eq!(
        (extent.start, extent.end, extent.writable),
        (a, a + 8192, true)
    );
    // SAFETY: the extent is valid, and nothing else touches the byte.
    assert_eq!(unsafe { *extent.host.add(100) }, b'h');
}

#[test]
fn guard_gaps_fault_and_are_described() {
    let memory = Memory::new(1 << 20);
    let a = memory.allocate(&Request::new(4096, "first")).unwrap();
    let b = memory.allocate(&Request::new(4096, "second")).unwrap();
    assert!(b >= a + 4096 + GUARD);
    assert_eq!(memory.find(a + 4096).unwrap_err(), FaultKind::Unmapped);
    assert_eq!(memory.find(a - 1).unwrap_err(), FaultKind::Unmapped);
    assert_eq!(memory.find(0).unwrap_err(), FaultKind::Unmapped);
    assert_eq!(memory.find(u64::MAX).unwrap_err(), FaultKind::Unmapped);
    let text = memory.describe(a + 4100);
    assert!(
        text.contains("0x4 bytes past the end of first") && text.contains("before second"),
        "{text}"
    );
    assert_eq!(memory.extent_near(a + 4100).unwrap().start, a);
    assert_eq!(memory.extent_near(b - 1).unwrap().start, b);
    assert_eq!(memory.extent_near(u64::MAX).unwrap().start, b);
    assert_eq!(memory.extent_near(0).unwrap().start, a);
    let error = memory.write(a + 4090, &[1; 7]).unwrap_err().to_string();
    assert!(
        error.contains("7 bytes at") && error.contains("into first"),
        "{error}"
    );
}

#[test]
fn access_and_free_advance_the_generation() {
    let memory = Memory::new(1 << 20);
    let a = memory.allocate(&Request::new(1, "a")).unwrap();
    let before = memory.generation();
    memory.set_access(a, Access::Read).unwrap();
    assert!(!memory.find(a).unwrap().writable);
    memory.set_access(a, Access::None).unwrap();
    assert_eq!(memory.find(a).unwrap_err(), FaultKind::NotAccessible);
    assert_eq!(memory.generation(), before + 2);
    memory.free(a).unwrap();
    assert_eq!(memory.generation(), before + 3);
    assert_eq!(memory.find(a).unwrap_err(), FaultKind::Unmapped);
    assert_eq!(memory.used(), 0);
    assert!(matches!(memory.free(a), Err(MemoryError::NotAllocated(_))));
}

#[test]
fn storage_freed_during_a_run_stays_mapped_until_it_ends() {
    let memory = Memory::new(1 << 20);
    let a = memory.allocate(&Request::new(1, "a")).unwrap();
    memory.write(a, &[7]).unwrap();
    let run = memory.in_use();
    let second = memory.in_use();
    let extent = memory.find(a).unwrap();
    memory.free(a).unwrap();
    drop(second);
    // SAFETY: `run` keeps freed storage mapped.
    assert_eq!(unsafe { *extent.host }, 7);
    assert_eq!(memory.users.lock().unwrap().retired.len(), 1);
    drop(run);
    assert!(memory.users.lock().unwrap().retired.is_empty());
}

#[test]
fn refuses_what_does_not_fit() {
    let memory = Memory::new(8192);
    let text = |request: Request| memory.allocate(&request).unwrap_err().to_string();
    let full = text(Request::new(8193, "big"));
    assert_eq!(
        full,
        "cannot allocate 8193 bytes for big: 8192 of 8192 bytes of GPU memory are free"
    );
    assert!(text(Request::new(u64::MAX, "huge")).contains("18446744073709551615"));
    assert!(text(Request::new(0, "none")).contains("zero bytes for none"));
    assert!(
        text(Request {
            align: 3,
            ..Request::new(1, "odd")
        })
        .contains("power of two")
    );
    let fixed = |address| Request {
        address: Some(address),
        ..Request::new(4096, "fixed")
    };
    assert!(text(fixed(0x1_0000_0010)).contains("not a multiple of the page size"));
    assert!(text(fixed(u64::MAX - 4095)).contains("leave the address space"));
    memory.allocate(&fixed(0x1_0000_0000)).unwrap();
    assert!(text(fixed(0x1_0000_0000)).contains("overlap fixed"));
}

#[test]
fn a_large_memory_costs_nothing_until_touched() {
    let memory = Memory::new(192 << 30);
    let a = memory.allocate(&Request::new(192 << 30, "all")).unwrap();
    memory.write(a + (191 << 30), &[1]).unwrap();
    let mut byte = [9];
    memory.read(a + (100 << 30), &mut byte).unwrap();
    assert_eq!(byte, [0]);
}

#[test]
fn alignment_is_honoured() {
    let memory = Memory::new(1 << 30);
    memory.allocate(&Request::new(1, "a")).unwrap();
    let b = memory
        .allocate(&Request {
            align: 2 << 20,
            ..Request::new(1, "b")
        })
        .unwrap();
    assert_eq!(b % (2 << 20), 0);
}

#[test]
fn a_memfd_is_another_view_of_the_same_bytes_and_sealed() {
    let storage = Storage::new(PAGE, Backing::Memfd).unwrap();
    assert!(storage.write(10, b"seen"));
    let fd = storage.fd().unwrap();
    let mut seen = [0u8; 4];
    // SAFETY: the buffer is four bytes long.
    let got = unsafe { libc::pread(fd.as_raw_fd(), seen.as_mut_ptr().cast(), 4, 10) };
    assert_eq!((got, &seen), (4, b"seen"));
    // SAFETY: plain system call.
    assert_ne!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, 0);
    assert!(!storage.write(PAGE - 1, &[0; 2]) && !storage.read(u64::MAX, &mut [0]));
}
