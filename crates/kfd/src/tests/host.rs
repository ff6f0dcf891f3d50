//! The program's own memory on GPUs: user pointers, SVM, XNACK.

use super::*;

const VA: u64 = 0x2000_0000_0000;

fn svm(
    program: &Program<'_>,
    op: u32,
    start: u64,
    size: u64,
    attributes: &mut [(u32, u32)],
) -> Result<(), Errno> {
    let mut args = vec![0u8; 24 + 8 * attributes.len()];
    args[..8].copy_from_slice(&start.to_le_bytes());
    args[8..16].copy_from_slice(&size.to_le_bytes());
    args[16..20].copy_from_slice(&op.to_le_bytes());
    args[20..24].copy_from_slice(&(attributes.len() as u32).to_le_bytes());
    for (slot, (kind, value)) in args[24..].chunks_mut(8).zip(&*attributes) {
        slot[..4].copy_from_slice(&kind.to_le_bytes());
        slot[4..].copy_from_slice(&value.to_le_bytes());
    }
    let request = Request {
        direction: 3,
        kind: b'K',
        number: 0x20,
        size: args.len() as u16,
    };
    let done = program
        .driver
        .ioctl(
            program.kfd.as_fd(),
            request.into(),
            args.as_mut_ptr().cast(),
        )
        .unwrap();
    let word = |slot: &[u8], at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().unwrap());
    for (slot, attribute) in args[24..].chunks(8).zip(attributes) {
        *attribute = (word(slot, 0), word(slot, 4));
    }
    done.map(drop)
}

fn set(
    program: &Program<'_>,
    start: u64,
    size: u64,
    attributes: &[(u32, u32)],
) -> Result<(), Errno> {
    svm(program, 0, start, size, &mut attributes.to_vec())
}

fn xnack(program: &Program<'_>, mode: i32) -> Result<i32, Errno> {
    let mut args = SetXnackMode {
        xnack_enabled: mode,
    };
    program.kfd(0x21, &mut args).map(|()| args.xnack_enabled)
}

#[test]
fn user_pointers_are_the_very_pages() {
    let driver = driver("mi210", 2);
    let program = Program::new(&driver);
    let own = Pages::writable(3);
    own.store(2 * PAGE, 5);
    let a = program
        .alloc_from(0, VA, 3 * PAGE, USERPTR, own.at)
        .unwrap();
    assert!(read(&program.memory(0), VA).is_err());
    program.map(a.handle, 0).unwrap();
    let memory = program.memory(0);
    assert_eq!(read(&memory, VA + 2 * PAGE).unwrap(), 5);
    write(&memory, VA + 7, 6).unwrap();
    assert_eq!(own.load(7), 6);
    // Another buffer in the same page of the program, at another address of the GPU; its size is rounded up.
    let b = program
        .alloc_from(0, VA + (1 << 30), 100, USERPTR, own.at + 0x100)
        .unwrap();
    program.map(b.handle, 0).unwrap();
    assert_eq!(read(&memory, VA + (1 << 30) + 7).unwrap(), 6);
    assert!(read(&memory, VA + (1 << 30) + PAGE).is_err());
    program.unmap(a.handle, 0).unwrap();
    program.free(a.handle).unwrap();
    assert!(read(&memory, VA).is_err());
    assert_eq!(read(&memory, VA + (1 << 30)).unwrap(), 0);
    assert_eq!(own.load(2 * PAGE), 5);
}

#[test]
fn what_is_not_the_programs_is_not_lent() {
    let driver = driver("mi210", 1);
    let program = Program::new(&driver);
    let own = Pages::writable(4);
    own.protect(1, 1, MprotectFlags::READ);
    own.unmap(3, 1);
    let lend = |at, bytes, flags| {
        program
            .alloc_from(0, VA, bytes, flags, at)
            .map(|a| a.handle)
    };
    assert_eq!(lend(own.at, 4 * PAGE, USERPTR), Err(Errno::FAULT), "a gap");
    assert_eq!(
        lend(own.at, 2 * PAGE, USERPTR),
        Err(Errno::FAULT),
        "read-only"
    );
    let handle = lend(own.at, 2 * PAGE, alloc_flags::USERPTR).unwrap();
    program.map(handle, 0).unwrap();
    assert!(write(&program.memory(0), VA, 1).is_err());
    assert_eq!(lend(u64::MAX - 8191, PAGE, USERPTR), Err(Errno::FAULT));
    assert_eq!(lend(u64::MAX - 4095, PAGE, USERPTR), Err(Errno::INVAL));
    let vram = program.alloc(0, VA + (1 << 30), PAGE, VRAM).unwrap();
    let view = program
        .mmap(program.render[0].as_fd(), PAGE, vram.mmap_offset)
        .unwrap();
    assert_eq!(
        lend(view.at, PAGE, USERPTR),
        Err(Errno::FAULT),
        "device memory"
    );
    assert_eq!(
        set(&program, view.at, PAGE, &[(2, program.id(0))]),
        Err(Errno::FAULT)
    );
}

#[test]
fn gpus_lose_what_the_program_unmaps_and_follow_what_it_protects() {
    let driver = driver("mi210", 1);
    let program = Program::new(&driver);
    let own = Pages::writable(4);
    let a = program
        .alloc_from(0, VA, 4 * PAGE, USERPTR, own.at)
        .unwrap();
    program.map(a.handle, 0).unwrap();
    let memory = program.memory(0);
    // munmap(p, 1) takes the whole page.
    driver.host_range_gone(own.at + PAGE, 1);
    own.unmap(1, 1);
    assert!(read(&memory, VA + PAGE).is_err() && read(&memory, VA + 2 * PAGE - 1).is_err());
    assert!(read(&memory, VA + PAGE - 1).is_ok() && read(&memory, VA + 2 * PAGE).is_ok());
    driver.host_range_gone(own.at + 2 * PAGE, PAGE);
    own.protect(2, 1, MprotectFlags::READ);
    assert!(read(&memory, VA + 2 * PAGE).is_ok());
    assert!(write(&memory, VA + 2 * PAGE, 1).is_err());
    driver.host_range_gone(own.at + 2 * PAGE, PAGE);
    own.protect(2, 1, MprotectFlags::READ | MprotectFlags::WRITE);
    write(&memory, VA + 2 * PAGE, 1).unwrap();
    assert_eq!(own.load(2 * PAGE), 1);
    program.unmap(a.handle, 0).unwrap();
    assert!(
        read(&memory, VA + 2 * PAGE).is_err(),
        "unmapped from the GPU is unmapped"
    );
}

#[test]
fn svm_ranges_are_seen_at_the_programs_addresses() {
    let driver = driver("mi300x", 2);
    let program = Program::new(&driver);
    let own = Pages::writable(4);
    own.store(PAGE, 4);
    let (memory, peer) = (program.memory(0), program.memory(1));
    assert!(read(&memory, own.at).is_err());
    set(&program, own.at, 2 * PAGE, &[(2, program.id(0)), (0, 0)]).unwrap();
    assert_eq!(read(&memory, own.at + PAGE).unwrap(), 4);
    assert!(read(&memory, own.at + 2 * PAGE).is_err() && read(&peer, own.at).is_err());
    write(&memory, own.at, 3).unwrap();
    assert_eq!(own.load(0), 3);
    set(&program, own.at, PAGE, &[(5, 8)]).unwrap();
    assert!(write(&memory, own.at, 3).is_err() && write(&memory, own.at + PAGE, 3).is_ok());
    set(
        &program,
        own.at,
        PAGE,
        &[(4, program.id(0)), (3, program.id(1))],
    )
    .unwrap();
    assert!(read(&memory, own.at).is_err() && read(&peer, own.at).is_ok());
    let mut asked = [(0, 9), (2, program.id(1)), (2, program.id(0)), (5, 0)];
    svm(&program, 1, own.at, PAGE, &mut asked).unwrap();
    assert_eq!(
        asked,
        [(0, 0), (3, program.id(1)), (4, program.id(0)), (5, 11)]
    );
    driver.host_range_gone(own.at, 4 * PAGE);
    own.unmap(0, 4);
    assert!(read(&peer, own.at).is_err() && read(&memory, own.at + PAGE).is_err());
}

#[test]
fn the_save_area_of_a_queue_is_registered_as_the_thunk_does() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let own = Pages::writable(2);
    let (gpu, flags) = (program.id(0), 64 | 16 | 1);
    // Prefetch, preferred location, all other flags cleared, these set, access, granularity.
    let attributes = [
        (1, gpu),
        (0, gpu),
        (6, !flags),
        (5, flags),
        (2, gpu),
        (7, 0xff),
    ];
    set(&program, own.at, 2 * PAGE, &attributes).unwrap();
    write(&program.memory(0), own.at + PAGE, 7).unwrap();
    assert_eq!(own.load(PAGE), 7);
}

#[test]
fn svm_is_refused_as_the_kernel_does() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let own = Pages::writable(4);
    let access = [(2, program.id(0))];
    let error = |start, size| set(&program, start, size, &access).unwrap_err();
    assert_eq!(error(own.at + 1, PAGE), Errno::INVAL);
    assert_eq!(error(own.at, PAGE + 1), Errno::INVAL);
    assert_eq!(error(own.at, 0), Errno::INVAL);
    assert_eq!(error(0, PAGE), Errno::INVAL);
    // Where no program can have memory there is none.
    assert_eq!(error(own.at, u64::MAX - 4095), Errno::FAULT);
    assert_eq!(error(1 << 63, PAGE), Errno::FAULT);
    assert_eq!(
        set(&program, own.at, PAGE, &[(2, 1)]),
        Err(Errno::INVAL),
        "no such GPU"
    );
    assert_eq!(set(&program, own.at, PAGE, &[(8, 0)]), Err(Errno::INVAL));
    assert_eq!(svm(&program, 2, own.at, PAGE, &mut []), Err(Errno::INVAL));
    own.unmap(3, 1);
    assert_eq!(error(own.at, 4 * PAGE), Errno::FAULT);
    assert_eq!(
        svm(&program, 1, own.at, 4 * PAGE, &mut []),
        Err(Errno::FAULT)
    );
    // More attributes than the argument has.
    let mut short = Svm {
        start_addr: own.at,
        size: PAGE,
        op: 0,
        nattr: u32::MAX,
    };
    assert_eq!(program.kfd(0x20, &mut short), Err(Errno::INVAL));
    // Ranges and allocations keep apart, whichever comes first.
    program.alloc(0, own.at, PAGE, VRAM).unwrap();
    assert_eq!(error(own.at, 2 * PAGE), Errno::ADDRINUSE);
    set(&program, own.at + PAGE, PAGE, &access).unwrap();
    let taken = program.alloc(0, own.at + PAGE, PAGE, VRAM);
    assert_eq!(taken.unwrap_err(), Errno::ADDRINUSE);
    let lent = program.alloc_from(0, VA, PAGE, USERPTR, own.at + PAGE);
    assert_eq!(lent.unwrap_err(), Errno::ADDRINUSE);
    // A range that the program has unmapped since is none any more.
    driver.host_range_gone(own.at + PAGE, PAGE);
    own.unmap(1, 1);
    program.alloc(0, own.at + PAGE, PAGE, VRAM).unwrap();
    // Nor is one in whose place there is other memory already.
    let other = Pages::writable(1);
    set(&program, other.at, PAGE, &access).unwrap();
    driver.host_range_unmapped(other.at, PAGE);
    program.alloc_from(0, VA, PAGE, USERPTR, other.at).unwrap();
}

#[test]
fn with_xnack_all_of_the_programs_memory_is_the_gpus() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let own = Pages::writable(4);
    let memory = program.memory(0);
    own.store(3 * PAGE, 6);
    assert_eq!(xnack(&program, -1), Ok(0));
    assert!(read(&memory, own.at).is_err());
    assert_eq!(xnack(&program, 1), Ok(1));
    assert_eq!(xnack(&program, -1), Ok(1));
    assert_eq!(read(&memory, own.at + 3 * PAGE).unwrap(), 6);
    write(&memory, own.at, 2).unwrap();
    assert_eq!(own.load(0), 2);
    set(&program, own.at + PAGE, PAGE, &[(4, program.id(0))]).unwrap();
    assert!(read(&memory, own.at + PAGE).is_err() && read(&memory, own.at).is_ok());
    // Device memory is not: it wants MAP.
    let a = program.alloc(0, VA, PAGE, VRAM).unwrap();
    let view = program
        .mmap(program.render[0].as_fd(), PAGE, a.mmap_offset)
        .unwrap();
    assert!(read(&memory, view.at).is_err() && read(&memory, VA).is_err());
    driver.host_range_gone(own.at + 3 * PAGE, PAGE);
    own.unmap(3, 1);
    assert!(read(&memory, own.at + 3 * PAGE).is_err());
    assert!(read(&memory, 0).is_err() && read(&memory, u64::MAX).is_err());
    assert_eq!(xnack(&program, 0), Ok(0));
    assert!(read(&memory, own.at).is_err());
}

#[test]
fn xnack_is_for_gpus_that_have_it() {
    let driver = driver("w7900", 1);
    let program = Program::new(&driver);
    assert_eq!(xnack(&program, 1), Err(Errno::PERM));
    assert_eq!(xnack(&program, 0), Ok(0));
    assert_eq!(xnack(&program, -1), Ok(0));
}

#[test]
fn closing_takes_lent_memory_from_the_map_and_nothing_else() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let own = Pages::writable(2);
    own.store(0, 1);
    set(&program, own.at, PAGE, &[(2, program.id(0))]).unwrap();
    let a = program
        .alloc_from(0, VA, PAGE, USERPTR, own.at + PAGE)
        .unwrap();
    program.map(a.handle, 0).unwrap();
    let memory = program.memory(0);
    assert!(read(&memory, own.at).is_ok() && read(&memory, VA).is_ok());
    drop(program);
    assert!(read(&memory, own.at).is_err() && read(&memory, VA).is_err());
    assert_eq!(own.load(0), 1);
}

/// A range of the program's that runs into the driver's pages, on either side, is not the program's to lend.
#[test]
fn ranges_that_reach_the_drivers_pages_are_refused() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let kfd = program.kfd.as_fd();
    // `KFD_IOCTL_SVM_ATTR_ACCESS`.
    let access = [(2, program.id(0))];
    let bells = program.alloc(0, VA, 8192, alloc_flags::DOORBELL).unwrap();
    let flags = alloc_flags::MMIO_REMAP;
    let registers = program.alloc(0, VA + 8192, PAGE, flags).unwrap();
    let vram = program.alloc(0, VA + (1 << 30), 2 * PAGE, VRAM).unwrap();
    // With no page of the program's the driver makes the events' page.
    let mut event = CreateEvent::default();
    program.kfd(0x08, &mut event).unwrap();
    let render = program.render[0].as_fd();
    for (what, fd, offset, pages, errno) in [
        ("doorbells", kfd, bells.mmap_offset, 2, Errno::INVAL),
        ("registers", kfd, registers.mmap_offset, 1, Errno::INVAL),
        ("events", kfd, event.event_page_offset, 8, Errno::INVAL),
        ("device memory", render, vram.mmap_offset, 2, Errno::FAULT),
    ] {
        // A page of the program's, those of the driver's, a page of the program's.
        let all = Pages::writable(pages + 2);
        let at = (all.at + PAGE) as *mut c_void;
        native_mmap(fd, at, (pages * PAGE) as usize, offset).unwrap();
        let end = all.at + (pages + 1) * PAGE;
        for (start, bytes) in [
            (all.at, 2 * PAGE),
            (all.at, all.bytes),
            (all.at + PAGE - 1, 2),
            (end - PAGE, 2 * PAGE),
            (end - 1, 2),
            (all.at + PAGE, pages * PAGE),
        ] {
            let userptr = program.alloc_from(0, VA + (2 << 30), bytes, USERPTR, start);
            // The page that the range begins in counts whole; the bytes are rounded up from there.
            let reaches = start.is_multiple_of(PAGE) || start - start % PAGE > all.at;
            match reaches {
                true => assert_eq!(userptr.err(), Some(errno), "{what} {start:#x} {bytes:#x}"),
                false => program.free(userptr.unwrap().handle).unwrap(),
            }
            if start.is_multiple_of(PAGE) {
                let lent = set(&program, start, bytes, &access);
                assert_eq!(lent, Err(errno), "{what} {start:#x} {bytes:#x}");
            }
        }
        // The program's own pages beside them are.
        for start in [all.at, end] {
            let userptr = program.alloc_from(0, VA + (2 << 30), PAGE, USERPTR, start);
            program.free(userptr.unwrap().handle).unwrap();
            set(&program, start, PAGE, &access).unwrap();
        }
        driver.host_range_unmapped(all.at, all.bytes);
    }
}
