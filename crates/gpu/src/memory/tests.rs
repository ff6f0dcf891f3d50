//! Tests of the GPU's virtual memory.

use super::*;
use rocjitsu_exec::memory::MemoryPort;
use std::os::fd::AsFd;

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
        error.contains("7 bytes at") && error.contains("0x0 bytes past the end of first"),
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
    assert_eq!(memory.users.lock().retired.len(), 1);
    drop(run);
    assert!(memory.users.lock().retired.is_empty());
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

/// A page whose bytes are all `value`, in an arena.
fn page_of(arena: &Arc<Arena>, value: u8) -> Arc<Storage> {
    let storage = arena.allocate(1, 1).unwrap();
    assert!(storage.write(0, &[value; PAGE as usize]));
    storage
}

#[test]
fn an_arena_is_a_file_of_ranges_that_never_return() {
    let arena = Arena::new("test").unwrap();
    let first = arena.allocate(5000, 1).unwrap();
    assert_eq!(first.bytes(), 8192);
    assert!(first.write(10, b"seen") && first.set_header(b"head"));
    let offset = first.offset().unwrap();
    let fd = arena.fd().unwrap();
    let mut seen = [0u8; 4];
    assert_eq!(rustix::io::pread(&fd, &mut seen, offset + 10).unwrap(), 4);
    assert_eq!(&seen, b"seen");
    rustix::io::pread(&fd, &mut seen, offset - PAGE).unwrap();
    assert_eq!(&seen, b"head");
    assert!(rustix::fs::ftruncate(&fd, 0).is_err(), "sealed");
    let other = arena.reopen().unwrap();
    rustix::fs::seek(&other, rustix::fs::SeekFrom::Start(offset)).unwrap();
    assert_eq!(rustix::fs::tell(&fd).unwrap(), 0, "positions are their own");
    let stat = rustix::fs::fstat(&other).unwrap();
    assert_eq!((stat.st_dev, stat.st_ino), arena.identity());
    assert!(!first.write(8191, &[0; 2]) && !first.read(u64::MAX, &mut [0]));
    drop(first);
    rustix::io::pread(&fd, &mut seen, offset + 10).unwrap();
    assert_eq!(seen, [0; 4], "the pages are given back");
    let second = arena.allocate(1, 1 << 20).unwrap();
    let next = second.offset().unwrap();
    assert!(next > offset + 8192 && next % (1 << 20) == 0);
    assert!(arena.allocate(u64::MAX, 1).is_err() && arena.allocate(0, 1).is_err());
    assert!(arena.allocate(arena.bytes(), 1).is_err() && arena.allocate(1, 3).is_err());
}

#[test]
fn neighbours_in_an_arena_are_one_mapping_for_the_host() {
    let name = format!("neighbours-{}", std::process::id());
    let arena = Arena::new(&name).unwrap();
    let all: Vec<_> = (0..500).map(|_| arena.allocate(1, 1).unwrap()).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains(&name)).count();
    assert!(lines < 50, "{} allocations are {lines} mappings", all.len());
}

#[test]
fn a_memory_reserved_is_not_paid_for() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    let bytes = 64 << 30;
    let storage = arena.allocate(bytes, 1).unwrap();
    memory
        .map(1 << 40, storage, 0, bytes, Access::ReadWrite, "huge")
        .unwrap();
    memory.copy_in((1 << 40) + bytes - 1, &[7]).unwrap();
    let stat = rustix::fs::fstat(arena.fd().unwrap()).unwrap();
    assert!(stat.st_blocks * 512 <= 2 << 20, "{} blocks", stat.st_blocks);
    assert_eq!(memory.map.read().runs.len(), 1);
    memory.unmap((1 << 40) + (1 << 30), 1 << 20).unwrap();
    assert_eq!(memory.map.read().runs.len(), 2);
}

#[test]
fn unmapping_a_part_splits_and_keeps_the_rest_in_place() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    let storage = arena.allocate(5 * PAGE, 1).unwrap();
    for page in 0..5u8 {
        assert!(storage.write(u64::from(page) * PAGE, &[page]));
    }
    let at = |page: u64| 0x10000 + page * PAGE;
    let map = |first: u64, pages: u64| {
        memory.map(
            at(first),
            storage.clone(),
            first * PAGE,
            pages * PAGE,
            Access::ReadWrite,
            "five",
        )
    };
    map(0, 5).unwrap();
    let before = memory.generation();
    assert_eq!(memory.unmap(at(1), PAGE).unwrap(), PAGE);
    assert_eq!(memory.generation(), before + 1);
    assert_eq!(memory.find(at(1)).unwrap_err(), FaultKind::Unmapped);
    assert_eq!(memory.find(at(0) + 4095).unwrap().end, at(1));
    let upper = memory.find(at(4)).unwrap();
    assert_eq!((upper.start, upper.end), (at(2), at(5)));
    let mut byte = [0];
    for page in [0, 2, 3, 4] {
        memory.copy_out(at(page), &mut byte).unwrap();
        assert_eq!(u64::from(byte[0]), page);
    }
    assert_eq!(memory.unmap(at(0), 5 * PAGE).unwrap(), 4 * PAGE);
    assert_eq!(memory.unmap(at(0), 5 * PAGE).unwrap(), 0);
    map(1, 2).unwrap();
    assert!(map(2, 1).unwrap_err().to_string().contains("overlap five"));
    assert!(matches!(map(4, 2), Err(MemoryError::Storage { .. })));
    assert!(matches!(
        memory.unmap(at(1), 1),
        Err(MemoryError::Address { .. })
    ));
    assert!(matches!(memory.unmap(at(1), 0), Err(MemoryError::Empty(_))));
    assert!(matches!(
        memory.unmap(u64::MAX - 4095, PAGE),
        Err(MemoryError::Address { .. })
    ));
}

#[test]
fn several_memories_share_storage_and_nothing_else() {
    let arena = Arena::new("test").unwrap();
    let (one, two) = (Memory::new(0), Memory::new(0));
    let shared = page_of(&arena, 1);
    one.map(
        0x10000,
        shared.clone(),
        0,
        PAGE,
        Access::ReadWrite,
        "shared",
    )
    .unwrap();
    two.map(0x20000, shared, 0, PAGE, Access::Read, "shared")
        .unwrap();
    one.map(
        0x20000,
        page_of(&arena, 9),
        0,
        PAGE,
        Access::ReadWrite,
        "own",
    )
    .unwrap();
    one.copy_in(0x10000, &[5]).unwrap();
    let mut byte = [0];
    two.copy_out(0x20000, &mut byte).unwrap();
    assert_eq!(byte, [5]);
    assert_eq!(
        two.copy_in(0x20000, &[5]).unwrap_err().kind,
        FaultKind::NotWritable
    );
    one.copy_out(0x20000, &mut byte).unwrap();
    assert_eq!(byte, [9]);
    one.unmap(0x10000, PAGE).unwrap();
    two.copy_out(0x20000, &mut byte).unwrap();
    assert_eq!(byte, [5], "the other one's mapping keeps it alive");
}

#[test]
fn copies_cross_neighbours_and_fault_at_the_exact_byte() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    // The second page lies before the first one in the host.
    let (second, first) = (page_of(&arena, 2), page_of(&arena, 1));
    memory
        .map(0x10000, first, 0, PAGE, Access::ReadWrite, "first")
        .unwrap();
    memory
        .map(0x11000, second, 0, PAGE, Access::ReadWrite, "second")
        .unwrap();
    memory
        .map(0x13000, page_of(&arena, 3), 0, PAGE, Access::Read, "third")
        .unwrap();
    memory.copy_in(0x10ffe, &[10, 11, 12, 13]).unwrap();
    let mut back = [0; 6];
    memory.copy_out(0x10ffd, &mut back).unwrap();
    assert_eq!(back, [1, 10, 11, 12, 13, 2]);
    memory.copy_within(0x10ffc, 0x10ffe, 4).unwrap();
    memory.copy_out(0x10ffb, &mut back).unwrap();
    assert_eq!(back, [1, 10, 11, 12, 13, 12]);
    memory.fill_u32(0x10ffc, 8, 0x0403_0201).unwrap();
    memory.copy_out(0x10ffe, &mut back).unwrap();
    assert_eq!(back, [3, 4, 1, 2, 3, 4]);
    let fault = memory.copy_in(0x11ffe, &[99; 4]).unwrap_err();
    assert_eq!((fault.address, fault.kind), (0x12000, FaultKind::Unmapped));
    assert_eq!(
        fault.to_string(),
        "write of 4 bytes at 0x11ffe: 0x12000 is not mapped; it is 0x0 bytes past the end of second [0x11000, 0x12000), 0x1000 bytes before third [0x13000, 0x14000), read-only"
    );
    memory.copy_out(0x11ffe, &mut back[..2]).unwrap();
    assert_eq!(back[..2], [2, 2], "nothing was written");
    let fault = memory.copy_within(0x13000, 0x10000, 8).unwrap_err();
    assert_eq!(
        (fault.address, fault.kind),
        (0x13000, FaultKind::NotWritable)
    );
    let fault = memory.copy_within(0x10000, 0x13ff0, 17).unwrap_err();
    assert_eq!((fault.address, fault.write), (0x14000, false));
    assert!(memory.copy_in(u64::MAX, &[1, 2]).is_err() && memory.copy_in(5, &[]).is_ok());
}

#[test]
fn pinned_bytes_stay_and_are_atomic() {
    let memory = Memory::new(1 << 20);
    let a = memory.allocate(&Request::new(2 * PAGE, "a")).unwrap();
    let pin = memory.pin(a + 16, 16, true).unwrap();
    assert_eq!((pin.address(), pin.bytes()), (a + 16, 16));
    pin.store_u64(0, 40).unwrap();
    assert_eq!(pin.fetch_add_u64(0, u64::MAX), Some(40));
    assert_eq!(pin.load_u64(0), Some(39));
    assert_eq!(pin.fetch_add_u32(12, 3), Some(0));
    assert_eq!(pin.load_u32(12), Some(3));
    assert_eq!(pin.update_u32(12, |x| x * 2), Some(3));
    assert_eq!(pin.update_u64(8, |x| x >> 32), Some(6 << 32));
    assert_eq!((pin.load_u64(8), pin.store_u32(8, 1)), (Some(6), Some(())));
    assert_eq!(
        (pin.load_u64(4), pin.load_u64(16), pin.load_u32(u64::MAX)),
        (None, None, None)
    );
    let mut seen = [0; 4];
    memory.read(a + 24, &mut seen).unwrap();
    assert_eq!(seen, [1, 0, 0, 0]);
    memory.free(a).unwrap();
    assert!(pin.write(0, b"still") && !pin.write(15, b"no") && pin.read(0, &mut seen));
    assert_eq!(&seen, b"stil");
    assert_eq!(
        memory.pin(a, 4, false).unwrap_err().kind,
        FaultKind::Unmapped
    );
    let b = memory
        .allocate(&Request {
            access: Access::Read,
            ..Request::new(1, "b")
        })
        .unwrap();
    assert_eq!(
        memory.pin(b, 4, true).unwrap_err().kind,
        FaultKind::NotWritable
    );
    let read = memory.pin(b, 4, false).unwrap();
    assert_eq!((read.store_u32(0, 1), read.load_u32(0)), (None, Some(0)));
    assert_eq!(
        memory.pin(b + 4092, 8, false).unwrap_err().address,
        b + PAGE
    );
}

#[test]
fn a_pin_lies_in_one_mapping() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    memory
        .map(0x10000, page_of(&arena, 1), 0, PAGE, Access::ReadWrite, "a")
        .unwrap();
    memory
        .map(0x11000, page_of(&arena, 2), 0, PAGE, Access::ReadWrite, "b")
        .unwrap();
    let fault = memory.pin(0x10ffc, 8, true).unwrap_err();
    assert_eq!(
        (fault.address, fault.kind),
        (0x11000, FaultKind::Misaligned)
    );
}

#[test]
fn lent_and_imported_memory_is_the_very_same() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    let own = arena.allocate(2 * PAGE, 1).unwrap();
    let offset = own.offset().unwrap();
    let imported = Storage::import(arena.reopen().unwrap(), offset + PAGE, PAGE).unwrap();
    assert!(imported.arena().is_none() && imported.file().is_some());
    memory
        .map(0x10000, imported, 0, PAGE, Access::ReadWrite, "imported")
        .unwrap();
    memory.copy_in(0x10000, b"one").unwrap();
    let mut seen = [0; 3];
    assert!(own.read(PAGE, &mut seen));
    assert_eq!(&seen, b"one");
    // SAFETY: `own` outlives every use of the storage below.
    let lent = unsafe { Storage::borrowed(own.base() as u64, PAGE) }.unwrap();
    assert!(lent.is_borrowed() && lent.file().is_none() && !lent.set_header(b"x"));
    memory
        .map(0x20000, lent, 0, PAGE, Access::ReadWrite, "lent")
        .unwrap();
    memory.copy_in(0x20000, b"two").unwrap();
    memory.unmap(0x20000, PAGE).unwrap();
    assert!(own.read(0, &mut seen));
    assert_eq!(&seen, b"two");
    let fd = arena.reopen().unwrap();
    assert!(Storage::import(fd, 1, PAGE).is_err());
    // SAFETY: refused, so nothing is lent.
    assert!(unsafe { Storage::borrowed(1, PAGE) }.is_err());
    // SAFETY: as above.
    assert!(unsafe { Storage::borrowed(PAGE, u64::MAX) }.is_err());
}

#[test]
fn protecting_a_part_splits() {
    let memory = Memory::new(1 << 20);
    let a = memory.allocate(&Request::new(3 * PAGE, "a")).unwrap();
    memory.protect(a + PAGE, PAGE, Access::Read).unwrap();
    assert!(memory.find(a).unwrap().writable && memory.find(a + 2 * PAGE).unwrap().writable);
    assert!(!memory.find(a + PAGE).unwrap().writable);
    memory.free(a).unwrap();
    assert_eq!(memory.mapped(a, 3 * PAGE), None);
}

#[derive(Debug)]
struct OnePage(Arc<Storage>);

impl Pager for OnePage {
    fn page_in(&self, memory: &Memory, address: u64) -> bool {
        address / PAGE == 0x50
            && memory
                .map(
                    0x50 * PAGE,
                    self.0.clone(),
                    0,
                    PAGE,
                    Access::ReadWrite,
                    "paged",
                )
                .is_ok()
    }
}

#[test]
fn a_pager_brings_pages_in_without_a_lock_held() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    memory.set_pager(Arc::new(OnePage(page_of(&arena, 6))));
    let mut byte = [0];
    memory.copy_out(0x50 * PAGE + 7, &mut byte).unwrap();
    assert_eq!(byte, [6]);
    assert_eq!(
        memory.copy_out(0x51 * PAGE, &mut byte).unwrap_err().kind,
        FaultKind::Unmapped
    );
    memory.unmap(0x50 * PAGE, PAGE).unwrap();
    assert_eq!(memory.find(0x50 * PAGE).unwrap().start, 0x50 * PAGE);
    assert_eq!(memory.find(0x51 * PAGE).unwrap_err(), FaultKind::Unmapped);
}

/// Bytes of pages that a file has.
fn committed(fd: impl std::os::fd::AsFd) -> u64 {
    rustix::fs::fstat(fd).unwrap().st_blocks as u64 * 512
}

#[test]
fn a_shared_range_is_found_by_its_descriptor_wherever_that_points() {
    let arena = Arena::new("test").unwrap();
    let first = page_of(&arena, 1);
    let second = arena.allocate(3 * PAGE, 1).unwrap();
    let fd = second.share().unwrap();
    assert!(second.write(2 * PAGE + 5, b"shared"));
    rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(77)).unwrap();
    assert_eq!(
        shared_range(fd.as_fd()),
        Some((second.offset().unwrap(), 3 * PAGE))
    );
    assert_eq!(shared_range(arena.fd().unwrap().as_fd()), None);
    assert_eq!(shared_range(std::io::stdout().as_fd()), None);
    assert!(Storage::import_shared(arena.fd().unwrap().as_fd()).is_err());
    assert!(Storage::anonymous(PAGE).unwrap().share().is_err());
    let third = Storage::import_shared(fd.as_fd()).unwrap();
    let mut seen = [0; 6];
    assert!(third.read(2 * PAGE + 5, &mut seen) && third.bytes() == 3 * PAGE);
    assert_eq!(&seen, b"shared");
    let again = third.share().unwrap();
    assert_eq!(shared_range(again.as_fd()), shared_range(fd.as_fd()));
    drop(first);
}

#[test]
fn shared_pages_live_until_the_last_one_lets_go() {
    let arena = Arena::new("test").unwrap();
    let own = page_of(&arena, 7);
    let fd = own.share().unwrap();
    let offset = own.offset().unwrap();
    drop(own);
    let imported = Storage::import_shared(fd.as_fd()).unwrap();
    drop(fd);
    drop(page_of(&arena, 1));
    let mut seen = [0];
    assert!(
        imported.read(100, &mut seen) && seen == [7],
        "freed by its maker, not by us"
    );
    assert_eq!(committed(arena.fd().unwrap().as_fd()), PAGE);
    drop(imported);
    drop(page_of(&arena, 1));
    assert_eq!(committed(arena.fd().unwrap().as_fd()), 0);
    let late = |header: &[u8]| header[0] == 7;
    let gone = Storage::import_range(arena.reopen().unwrap(), offset, PAGE, late);
    assert_eq!(gone.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_range_of_a_live_arena_is_imported_by_its_header() {
    let arena = Arena::new("test").unwrap();
    let own = page_of(&arena, 3);
    own.set_header(&[9; 16]);
    own.mark_shared();
    let offset = own.offset().unwrap();
    let import = |byte| {
        Storage::import_range(arena.reopen().unwrap(), offset, PAGE, |header| {
            header[..16] == [byte; 16]
        })
    };
    assert!(import(8).is_err());
    let imported = import(9).unwrap();
    drop(own);
    let mut seen = [0];
    assert!(imported.read(0, &mut seen) && seen == [3]);
}

#[test]
fn gaps_are_filled_and_what_is_there_stays() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    let back = arena.allocate(5 * PAGE, 1).unwrap();
    for page in 0..5 {
        assert!(back.write(page * PAGE, &[page as u8]));
    }
    memory
        .map(
            0x12000,
            page_of(&arena, 99),
            0,
            PAGE,
            Access::ReadWrite,
            "there",
        )
        .unwrap();
    memory
        .map_gaps(0x10000, &back, 0, 5 * PAGE, Access::Read, "gap")
        .unwrap();
    memory
        .map_gaps(0x10000, &back, 0, 5 * PAGE, Access::Read, "gap")
        .unwrap();
    let seen: Vec<u8> = (0..5)
        .map(|page| {
            let mut byte = [0];
            memory.copy_out(0x10000 + page * PAGE, &mut byte).unwrap();
            byte[0]
        })
        .collect();
    assert_eq!(seen, [0, 1, 99, 3, 4]);
    assert_eq!(memory.map.read().runs.len(), 3);
}

#[test]
fn only_lent_memory_goes_with_the_program_and_own_addresses_are_out_of_its_way() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::for_program();
    let own = page_of(&arena, 1);
    // SAFETY: `own` outlives every use of the storage below.
    let lent = unsafe { Storage::borrowed(own.base() as u64, PAGE) }.unwrap();
    memory
        .map(
            0x10000,
            page_of(&arena, 2),
            0,
            PAGE,
            Access::ReadWrite,
            "vram",
        )
        .unwrap();
    memory
        .map(0x11000, lent, 0, PAGE, Access::ReadWrite, "lent")
        .unwrap();
    memory.unmap_borrowed(0, 1 << 40).unwrap();
    assert!(memory.find(0x10000).is_ok());
    assert_eq!(memory.find(0x11000).unwrap_err(), FaultKind::Unmapped);
    let scratch = memory.allocate(&Request::new(1, "scratch")).unwrap();
    assert_eq!(scratch, OWN.start);
    memory.write(scratch, &[1]).unwrap();
    memory.free(scratch).unwrap();
}

#[test]
fn waves_load_and_store_across_neighbours() {
    let arena = Arena::new("test").unwrap();
    let memory = Memory::new(0);
    let (second, first) = (page_of(&arena, 2), page_of(&arena, 1));
    let map = |at, storage, access| memory.map(at, storage, 0, PAGE, access, "page").unwrap();
    map(0x10000, first, Access::ReadWrite);
    map(0x11000, second, Access::ReadWrite);
    map(0x12000, page_of(&arena, 3), Access::Read);
    let mut port = MemoryPort::new(&memory);
    assert_eq!(port.read::<4>(0x10ffe), Ok([1, 1, 2, 2]));
    assert_eq!(port.read::<4>(0x11fff), Ok([2, 3, 3, 3]));
    assert_eq!(port.read::<4>(0x12ffd), Err(FaultKind::Unmapped));
    port.write(0x10ffd, [5, 6, 7, 8, 9, 10]).unwrap();
    assert_eq!(port.read::<8>(0x10ffc), Ok([1, 5, 6, 7, 8, 9, 10, 2]));
    assert_eq!(port.write(0x11ffe, [9; 4]), Err(FaultKind::NotWritable));
    assert_eq!(port.store(0x12ffe, &[9; 4]), Err(FaultKind::NotWritable));
    assert_eq!(port.read::<2>(0x11ffe), Ok([2, 2]), "nothing was stored");
    memory.protect(0x12000, PAGE, Access::ReadWrite).unwrap();
    port.refresh();
    assert_eq!(port.write(0x12ffe, [9; 4]), Err(FaultKind::Unmapped));
    assert_eq!(port.read::<2>(0x12ffe), Ok([3, 3]));
    assert!(
        port.locate(0x10fff, 65, false).is_err(),
        "rows go lane by lane"
    );
}

/// Any sequence of changes leaves what an array of pages would hold.
mod model {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u64 = 24;
    const FIRST: u64 = 0x10;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Map(u64, u64, u64),
        Fill(u64, u64, u64),
        Unmap(u64, u64),
        Protect(u64, u64, bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        let run = (0..PAGES).prop_flat_map(|at| (Just(at), 1..=PAGES - at, 0..PAGES));
        (run, 0..4, any::<bool>()).prop_map(|((at, pages, from), kind, flag)| match kind {
            0 => Step::Map(at, pages, from),
            1 => Step::Fill(at, pages, from),
            2 => Step::Unmap(at, pages),
            _ => Step::Protect(at, pages, flag),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn the_map_is_an_array_of_pages(steps in prop::collection::vec(step(), 1..60)) {
            let arena = Arena::new("test").unwrap();
            let storage = arena.allocate(2 * PAGES * PAGE, 1).unwrap();
            for page in 0..2 * PAGES {
                prop_assert!(storage.write(page * PAGE, &[page as u8]));
            }
            let memory = Memory::new(0);
            let mut model = [None::<(u8, bool)>; PAGES as usize];
            let va = |page: u64| (FIRST + page) * PAGE;
            for step in steps {
                match step {
                    Step::Map(at, pages, from) => {
                        let free = (at..at + pages).all(|page| model[page as usize].is_none());
                        let done = memory.map(va(at), storage.clone(), from * PAGE, pages * PAGE, Access::ReadWrite, "m");
                        prop_assert_eq!(done.is_ok(), free);
                        if free {
                            (0..pages).for_each(|n| model[(at + n) as usize] = Some(((from + n) as u8, true)));
                        }
                    }
                    Step::Fill(at, pages, from) => {
                        memory.map_gaps(va(at), &storage, from * PAGE, pages * PAGE, Access::Read, "f").unwrap();
                        for n in 0..pages {
                            model[(at + n) as usize].get_or_insert(((from + n) as u8, false));
                        }
                    }
                    Step::Unmap(at, pages) => {
                        let held = model[at as usize..(at + pages) as usize].iter().flatten().count() as u64;
                        prop_assert_eq!(memory.unmap(va(at), pages * PAGE).unwrap(), held * PAGE);
                        model[at as usize..(at + pages) as usize].fill(None);
                    }
                    Step::Protect(at, pages, write) => {
                        let access = if write { Access::ReadWrite } else { Access::Read };
                        memory.protect(va(at), pages * PAGE, access).unwrap();
                        for page in model[at as usize..(at + pages) as usize].iter_mut().flatten() {
                            page.1 = write;
                        }
                    }
                }
                for page in 0..PAGES {
                    let mut byte = [0];
                    let seen = memory.copy_out(va(page), &mut byte).ok().map(|()| byte[0]);
                    prop_assert_eq!(seen, model[page as usize].map(|(value, _)| value));
                    let extent = memory.find(va(page)).ok();
                    prop_assert_eq!(extent.map(|e| e.writable), model[page as usize].map(|(_, write)| write));
                }
            }
        }
    }
}

#[test]
fn a_guard_as_large_as_asked_lies_between_allocations() {
    let memory = Memory::new(1 << 30);
    memory.set_guard(1 << 20);
    let first = memory.allocate(&Request::new(5000, "a")).unwrap();
    let second = memory.allocate(&Request::new(1, "b")).unwrap();
    assert!(second >= first + 8192 + (1 << 20));
    // Never less than without.
    memory.set_guard(1);
    let third = memory.allocate(&Request::new(1, "c")).unwrap();
    assert!(third >= second + PAGE + GUARD);
}

#[test]
fn pages_are_untouched_until_somebody_writes_or_reads_them() {
    let memory = Memory::new(1 << 30);
    let at = memory.allocate(&Request::new(PAGE, "anonymous")).unwrap();
    assert!(!memory.is_untouched(at), "nothing is known of it");
    memory.follow_touches().unwrap();
    let at = memory
        .allocate(&Request::new(4 * PAGE, "followed"))
        .unwrap();
    assert!((0..4).all(|page| memory.is_untouched(at + page * PAGE + 7)));
    memory.write(at + PAGE + 100, &[1]).unwrap();
    memory.read(at + 2 * PAGE, &mut [0; 4]).unwrap();
    let untouched: Vec<bool> = (0..4)
        .map(|page| memory.is_untouched(at + page * PAGE))
        .collect();
    assert_eq!(untouched, [true, false, false, true]);
    assert!(
        !memory.is_untouched(at + 4 * PAGE),
        "nothing is mapped there"
    );
}
