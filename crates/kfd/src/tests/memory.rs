//! Allocations: contents, accounts, errors, and what GPUs see when.

use super::*;

const VA: u64 = 0x2000_0000_0000;

#[test]
fn contents_survive_whatever_is_mapped_and_unmapped() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let memory = program.memory(0);
    for flags in [VRAM, GTT] {
        // The runtime's way: a reservation, the allocation at its address, a shared mapping over it.
        let reserved = Pages::new(4, ProtFlags::empty());
        let a = program.alloc(0, reserved.at, 3 * PAGE + 1, flags).unwrap();
        assert!(read(&memory, reserved.at).is_err(), "not before MAP");
        program.map(a.handle, 0).unwrap();
        write(&memory, reserved.at + 5, 77).unwrap();
        // The first mapping shows what the GPU wrote, and nothing of what the program had there.
        let at = reserved.at as *mut c_void;
        native_mmap(
            program.render[0].as_fd(),
            at,
            4 * PAGE as usize,
            a.mmap_offset,
        )
        .unwrap();
        assert_eq!(reserved.load(5), 77);
        reserved.store(4 * PAGE - 1, 55);
        assert_eq!(
            read(&memory, reserved.at + 4 * PAGE - 1).unwrap(),
            55,
            "the whole last page"
        );
        assert!(read(&memory, reserved.at + 4 * PAGE).is_err());
        program.unmap(a.handle, 0).unwrap();
        assert!(read(&memory, reserved.at).is_err(), "not after UNMAP");
        // The program's view goes, the bytes stay.
        driver.host_range_gone(reserved.at, 4 * PAGE);
        reserved.unmap(0, 4);
        program.map(a.handle, 0).unwrap();
        assert_eq!(read(&memory, reserved.at + 5).unwrap(), 77);
        let elsewhere = program
            .mmap(program.render[0].as_fd(), 4 * PAGE, a.mmap_offset)
            .unwrap();
        assert_eq!((elsewhere.load(5), elsewhere.load(4 * PAGE - 1)), (77, 55));
        assert_eq!(program.free(a.handle), Err(Errno::BUSY));
        program.unmap(a.handle, 0).unwrap();
        program.free(a.handle).unwrap();
        assert!(read(&memory, reserved.at).is_err(), "not after FREE");
        assert_eq!(program.free(a.handle), Err(Errno::INVAL));
        // A mapping that was kept never shows a later allocation.
        let b = program.alloc(0, reserved.at, 4 * PAGE, flags).unwrap();
        program.map(b.handle, 0).unwrap();
        write(&memory, reserved.at + 5, 99).unwrap();
        assert_eq!(elsewhere.load(5), 0);
        program.unmap(b.handle, 0).unwrap();
    }
}

#[test]
fn memory_without_the_programs_access_works() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let reserved = Pages::new(2, ProtFlags::empty());
    let flags = alloc_flags::VRAM | alloc_flags::WRITABLE;
    let a = program.alloc(0, reserved.at, 2 * PAGE, flags).unwrap();
    program.map(a.handle, 0).unwrap();
    let memory = program.memory(0);
    write(&memory, reserved.at + PAGE, 3).unwrap();
    assert_eq!(read(&memory, reserved.at + PAGE).unwrap(), 3);
    let read_only = program.alloc(0, VA, PAGE, alloc_flags::GTT).unwrap();
    program.map(read_only.handle, 0).unwrap();
    assert_eq!(read(&memory, VA).unwrap(), 0);
    assert!(write(&memory, VA, 1).is_err());
}

#[test]
fn allocations_are_refused_as_the_kernel_does() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let error = |address, bytes, flags| program.alloc(0, address, bytes, flags).unwrap_err();
    assert_eq!(error(VA, 0, VRAM), Errno::INVAL);
    assert_eq!(error(VA + 1, PAGE, VRAM), Errno::INVAL);
    assert_eq!(error(VA, u64::MAX, GTT), Errno::INVAL);
    assert_eq!(error(0x7fff_ffff_f000, PAGE, VRAM), Errno::INVAL);
    assert_eq!(error(u64::MAX - 4095, PAGE, VRAM), Errno::INVAL);
    assert_eq!(error(VA, PAGE, VRAM | 1 << 10), Errno::INVAL);
    assert_eq!(error(VA, PAGE, alloc_flags::WRITABLE), Errno::INVAL);
    assert_eq!(error(VA, PAGE, alloc_flags::DOORBELL), Errno::INVAL);
    assert_eq!(error(VA, 2 * PAGE, alloc_flags::MMIO_REMAP), Errno::INVAL);
    assert_eq!(error(VA, PAGE, USERPTR), Errno::INVAL, "no address given");
    assert_eq!(error(VA, 1 << 46, GTT), Errno::NOMEM);
    let mut args = AllocMemoryOfGpu {
        va_addr: VA,
        size: PAGE,
        gpu_id: program.id(0) + 1,
        flags: VRAM,
        ..Default::default()
    };
    assert_eq!(program.kfd(0x16, &mut args), Err(Errno::INVAL));
    let unbound = Program::unbound(&driver);
    assert_eq!(unbound.alloc(0, VA, PAGE, VRAM).unwrap_err(), Errno::NODEV);
    assert_eq!(program.free(0), Err(Errno::INVAL));
    assert_eq!(program.free(u64::MAX), Err(Errno::INVAL));
}

#[test]
fn map_and_unmap_count_what_they_did() {
    let driver = driver("mi300x", 3);
    let program = Program::new(&driver);
    let ids: Vec<u32> = (0..3).map(|gpu| program.id(gpu)).collect();
    let a = program.alloc(1, VA, PAGE, VRAM).unwrap();
    assert_eq!(program.change(0x18, a.handle, &ids), (3, Ok(())));
    assert_eq!(
        program.change(0x18, a.handle, &ids),
        (3, Ok(())),
        "twice is fine"
    );
    write(&program.memory(0), VA, 8).unwrap();
    assert_eq!(
        read(&program.memory(2), VA).unwrap(),
        8,
        "peers see the same"
    );
    assert_eq!(
        program.change(0x19, a.handle, &[ids[0], 9]),
        (1, Err(Errno::INVAL))
    );
    assert!(read(&program.memory(0), VA).is_err());
    assert_eq!(
        program.change(0x19, a.handle, &[ids[2], ids[0]]),
        (1, Err(Errno::INVAL))
    );
    assert_eq!(program.change(0x19, a.handle, &[]), (0, Err(Errno::INVAL)));
    assert_eq!(
        program.change(0x18, a.handle ^ 1 << 20, &ids),
        (0, Err(Errno::NOMEM))
    );
    assert_eq!(program.change(0x18, 77, &ids), (0, Err(Errno::INVAL)));
    // Something else is there on the second GPU.
    let b = program.alloc(0, VA, PAGE, VRAM).unwrap();
    assert_eq!(program.change(0x18, b.handle, &ids), (1, Err(Errno::INVAL)));
    let mut bad = MapMemory {
        handle: a.handle,
        device_ids_array_ptr: 8,
        n_devices: 1,
        n_success: 0,
    };
    assert_eq!(program.kfd(0x18, &mut bad), Err(Errno::FAULT));
    bad.n_success = 2;
    assert_eq!(program.kfd(0x18, &mut bad), Err(Errno::INVAL));
    bad = MapMemory {
        n_devices: u32::MAX,
        ..bad
    };
    assert_eq!(program.kfd(0x18, &mut bad), Err(Errno::NOMEM));
    // Without an address there is nothing to map.
    let nowhere = program.alloc(0, 0, PAGE, VRAM).unwrap();
    assert_eq!(program.map(nowhere.handle, 0), Err(Errno::INVAL));
}

#[test]
fn device_memory_is_finite_and_told_truly() {
    let driver = driver("mi300x", 2);
    let program = Program::new(&driver);
    let total = driver.machine().gpus[0].vram_bytes;
    assert_eq!(program.available(0), total);
    let huge = program.alloc(0, VA, 64 << 30, VRAM).unwrap();
    assert_eq!(program.available(0), total - (64 << 30));
    assert_eq!(program.available(1), total);
    let rest = program.available(0);
    assert_eq!(
        program.alloc(0, VA, rest + 1, VRAM).unwrap_err(),
        Errno::NOMEM
    );
    let last = program.alloc(0, VA + (1 << 40), rest, VRAM).unwrap();
    assert_eq!(program.available(0), 0);
    assert_eq!(program.alloc(0, VA, 1, VRAM).unwrap_err(), Errno::NOMEM);
    program.alloc(0, VA + (2 << 40), PAGE, GTT).unwrap();
    program.free(huge.handle).unwrap();
    program.free(last.handle).unwrap();
    assert_eq!(program.available(0), total);
    let other = Program::new(&driver);
    let a = other.alloc(0, VA, 1, VRAM).unwrap();
    assert_eq!(
        program.available(0),
        total - PAGE,
        "the whole page, of all contexts"
    );
    let _ = a;
    drop(other);
    assert_eq!(
        program.available(0),
        total,
        "a context's memory goes with it"
    );
    let mut args = GetAvailableMemory::default();
    assert_eq!(program.kfd(0x23, &mut args), Err(Errno::INVAL));
}

#[test]
fn a_large_allocation_costs_no_more_than_a_small_one() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let a = program.alloc(0, VA, 64 << 30, VRAM).unwrap();
    program.map(a.handle, 0).unwrap();
    let memory = program.memory(0);
    write(&memory, VA + (63 << 30), 1).unwrap();
    let stat = rustix::fs::fstat(&program.render[0]).unwrap();
    assert!(stat.st_blocks * 512 <= 4 << 20, "{} blocks", stat.st_blocks);
}

#[test]
fn contexts_do_not_see_each_others_bytes() {
    let driver = driver("mi210", 1);
    let (one, two) = (Program::new(&driver), Program::new(&driver));
    for (program, value) in [(&one, 1), (&two, 2)] {
        let a = program.alloc(0, VA, PAGE, VRAM).unwrap();
        program.map(a.handle, 0).unwrap();
        write(&program.memory(0), VA, value).unwrap();
    }
    assert_eq!(read(&one.memory(0), VA).unwrap(), 1);
    assert_eq!(read(&two.memory(0), VA).unwrap(), 2);
    // Handles look alike, and mean a context's own.
    let b = one.alloc(0, VA + PAGE, PAGE, VRAM).unwrap();
    assert_eq!(two.free(b.handle), Err(Errno::INVAL));
}

#[test]
fn buffers_are_mapped_by_who_can_name_them_and_from_their_beginning() {
    let driver = driver("mi300x", 1);
    let (one, two) = (Program::new(&driver), Program::new(&driver));
    let a = one.alloc(0, VA, 2 * PAGE, VRAM).unwrap();
    let b = one.alloc(0, VA + (1 << 20), PAGE, VRAM).unwrap();
    let map = |program: &Program<'_>, bytes, offset| {
        let done = program.mmap(program.render[0].as_fd(), bytes, offset);
        done.map(drop)
    };
    assert_eq!(map(&one, 2 * PAGE, a.mmap_offset), Ok(()));
    assert_eq!(map(&one, 1, a.mmap_offset), Ok(()), "less of it");
    assert_eq!(map(&one, PAGE, b.mmap_offset), Ok(()));
    for (bytes, offset) in [
        (3 * PAGE, a.mmap_offset),
        (PAGE, a.mmap_offset + PAGE),
        (PAGE, a.mmap_offset - PAGE),
        (PAGE, 0),
        (PAGE, 1 << 40),
    ] {
        assert_eq!(map(&one, bytes, offset), Err(Errno::INVAL), "{offset:#x}");
    }
    assert_eq!(map(&two, PAGE, a.mmap_offset), Err(Errno::ACCESS));
    // What is not a context's belongs to the file that has a handle.
    let mut object = DrmGemCreate {
        bo_size: PAGE,
        domains: 4,
        ..Default::default()
    };
    two.drm(0, 0x40, &mut object).unwrap();
    let mut place = DrmGemMmap {
        value: object.bo_size,
    };
    two.drm(0, 0x41, &mut place).unwrap();
    assert_eq!(map(&two, PAGE, place.value), Ok(()));
    assert_eq!(map(&one, PAGE, place.value), Err(Errno::ACCESS));
    one.free(b.handle).unwrap();
    assert_eq!(map(&one, PAGE, b.mmap_offset), Err(Errno::INVAL), "gone");
}

#[test]
fn kernels_run_from_executable_memory_only() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let memory = program.memory(0);
    let data = program.alloc(0, VA, 2 * PAGE, VRAM).unwrap();
    let flags = VRAM | alloc_flags::EXECUTABLE;
    let code = program.alloc(0, VA + 2 * PAGE, PAGE, flags).unwrap();
    for handle in [data.handle, code.handle] {
        program.map(handle, 0).unwrap();
    }
    let forbidden = |at| memory.execution_forbidden(at).is_some();
    assert_eq!(
        [VA, VA + 2 * PAGE - 4, VA + 2 * PAGE, VA + 3 * PAGE].map(forbidden),
        [true, true, false, false]
    );
    // GEM_VA has a flag of its own, and a buffer may be mapped both ways.
    let mut object = DrmGemCreate {
        bo_size: PAGE,
        domains: 4,
        ..Default::default()
    };
    program.drm(0, 0x40, &mut object).unwrap();
    for (at, flags) in [(VA + 8 * PAGE, 2 | 8), (VA + 9 * PAGE, 2 | 4)] {
        let mut args = DrmGemVa {
            handle: object.bo_size as u32,
            operation: 1,
            flags,
            va_address: at,
            map_size: PAGE,
            ..Default::default()
        };
        program.drm(0, 0x48, &mut args).unwrap();
    }
    assert_eq!([VA + 8 * PAGE, VA + 9 * PAGE].map(forbidden), [false, true]);
}

#[test]
fn doorbells_and_registers_are_pages_of_the_kfd_file() {
    let driver = driver("mi300x", 2);
    let program = Program::new(&driver);
    let bells = program
        .alloc(1, VA, 8192, alloc_flags::DOORBELL | alloc_flags::WRITABLE)
        .unwrap();
    assert_eq!(bells.mmap_offset % 8192, 0);
    let kfd = program.kfd.as_fd();
    let view = program.mmap(kfd, 8192, bells.mmap_offset).unwrap();
    assert_eq!((view.load(0), view.load(8191)), (0xff, 0xff));
    program.map(bells.handle, 1).unwrap();
    write(&program.memory(1), VA + 8, 7).unwrap();
    assert_eq!(view.load(8), 7);
    let registers = program
        .alloc(
            1,
            VA + 8192,
            PAGE,
            alloc_flags::MMIO_REMAP | alloc_flags::WRITABLE,
        )
        .unwrap();
    let page = program.mmap(kfd, PAGE, registers.mmap_offset).unwrap();
    page.store(4, 1);
    for (bytes, offset) in [
        (PAGE, bells.mmap_offset),
        (8193, bells.mmap_offset),
        (2 * PAGE, registers.mmap_offset),
        (PAGE, bells.mmap_offset + PAGE),
        (PAGE, 0),
    ] {
        assert_eq!(
            program.mmap(kfd, bytes, offset).err(),
            Some(Errno::INVAL),
            "{bytes} {offset:#x}"
        );
    }
    // Neither is the program's to lend.
    for at in [view.at, page.at] {
        assert_eq!(
            program.alloc_from(0, VA, PAGE, USERPTR, at).unwrap_err(),
            Errno::INVAL
        );
    }
    let program_again = program
        .alloc(1, VA + (1 << 30), 8192, alloc_flags::DOORBELL)
        .unwrap();
    assert_eq!(
        program_again.mmap_offset, bells.mmap_offset,
        "one slice for a GPU"
    );
}

#[test]
fn the_event_page_cannot_be_freed() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let small = program.alloc(0, VA + (1 << 30), PAGE, GTT).unwrap();
    let page = program.alloc(0, VA, 32768, GTT).unwrap();
    let mut event = CreateEvent {
        event_page_offset: small.handle,
        ..Default::default()
    };
    assert_eq!(program.kfd(0x08, &mut event), Err(Errno::INVAL));
    event.event_page_offset = page.handle;
    program.kfd(0x08, &mut event).unwrap();
    assert_eq!(program.free(page.handle), Err(Errno::PERM));
    program.map(page.handle, 0).unwrap();
    assert_eq!(read(&program.memory(0), VA).unwrap(), 0xff);
}

#[test]
fn closing_leaves_the_programs_own_mappings() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let reserved = Pages::writable(2);
    reserved.store(0, 9);
    let a = program.alloc(0, reserved.at, 2 * PAGE, VRAM).unwrap();
    program.map(a.handle, 0).unwrap();
    let memory = program.memory(0);
    let view = program
        .mmap(program.render[0].as_fd(), 2 * PAGE, a.mmap_offset)
        .unwrap();
    view.store(0, 1);
    drop(program);
    assert!(read(&memory, reserved.at).is_err());
    assert_eq!(reserved.load(0), 9);
    assert_eq!(view.load(0), 0, "mapped, but given back");
}
