//! Buffers by other names: dmabufs, share handles, GEM and PRIME, over processes too.

use super::*;
use std::os::fd::FromRawFd;
use zerocopy::IntoBytes;

const VA: u64 = 0x2000_0000_0000;

/// Owns a descriptor that an ioctl returned.
fn own(fd: i32) -> OwnedFd {
    assert!(fd >= 0);
    // SAFETY: the driver made the descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn export(program: &Program<'_>, handle: u64) -> Result<OwnedFd, Errno> {
    let mut args = ExportDmabuf {
        handle,
        flags: 0o2_000_002,
        dmabuf_fd: -1,
    };
    program.kfd(0x24, &mut args).map(|()| own(args.dmabuf_fd))
}

fn import(program: &Program<'_>, gpu: usize, va_addr: u64, fd: i32) -> Result<u64, Errno> {
    let mut args = ImportDmabuf {
        va_addr,
        handle: 0,
        gpu_id: program.id(gpu),
        dmabuf_fd: fd,
    };
    program.kfd(0x1d, &mut args).map(|()| args.handle)
}

fn info(program: &Program<'_>, fd: i32) -> Result<GetDmabufInfo, Errno> {
    let mut args = GetDmabufInfo {
        dmabuf_fd: fd,
        metadata_size: 99,
        ..Default::default()
    };
    program.kfd(0x1c, &mut args).map(|()| args)
}

fn share_handle(program: &Program<'_>, handle: u64) -> Result<[u32; 4], Errno> {
    let mut args = IpcExportHandle {
        handle,
        gpu_id: program.id(0),
        ..Default::default()
    };
    program.kfd(0x81, &mut args).map(|()| args.share_handle)
}

fn import_handle(
    program: &Program<'_>,
    gpu: usize,
    va_addr: u64,
    share_handle: [u32; 4],
) -> Result<IpcImportHandle, Errno> {
    let mut args = IpcImportHandle {
        va_addr,
        share_handle,
        gpu_id: program.id(gpu),
        ..Default::default()
    };
    program.kfd(0x80, &mut args).map(|()| args)
}

/// An allocation with a byte in it.
fn filled(program: &Program<'_>, bytes: u64, value: u8) -> AllocMemoryOfGpu {
    let a = program.alloc(0, VA, bytes, VRAM).unwrap();
    program.map(a.handle, 0).unwrap();
    write(&program.memory(0), VA, value).unwrap();
    a
}

#[test]
fn a_dmabuf_is_the_same_storage_with_its_size() {
    let driver = driver("mi300x", 2);
    let (one, two) = (Program::new(&driver), Program::new(&driver));
    let a = filled(&one, 3 * PAGE, 4);
    let fd = export(&one, a.handle).unwrap();
    assert_eq!(driver.seek_end(fd.as_fd()), Some(3 * PAGE));
    assert_eq!(driver.seek_end(one.kfd.as_fd()), None);
    assert_eq!(driver.seek_end(one.render[0].as_fd()), None);
    let told = info(&two, fd.as_raw_fd()).unwrap();
    assert_eq!(
        (told.size, told.gpu_id, told.metadata_size),
        // Without a pointer the kernel leaves the size alone.
        (3 * PAGE, one.id(0), 99)
    );
    assert_eq!(told.flags, alloc_flags::VRAM | alloc_flags::PUBLIC);
    let before = one.available(0);
    let handle = import(&two, 1, VA + (1 << 30), fd.as_raw_fd()).unwrap();
    assert_eq!(one.available(0), before, "charged once");
    // The descriptor may go, and the exporter's handle too.
    drop(fd);
    two.map(handle, 1).unwrap();
    let memory = two.memory(1);
    assert_eq!(read(&memory, VA + (1 << 30)).unwrap(), 4);
    write(&memory, VA + (1 << 30) + 1, 5).unwrap();
    assert_eq!(read(&one.memory(0), VA + 1).unwrap(), 5);
    drop(one);
    assert_eq!(read(&memory, VA + (1 << 30)).unwrap(), 4);
    assert_eq!(two.available(0), before, "still there");
    two.unmap(handle, 1).unwrap();
    two.free(handle).unwrap();
    assert_eq!(two.available(0), driver.machine().gpus[0].vram_bytes);
}

#[test]
fn what_is_no_dmabuf_is_refused() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let a = filled(&program, 2 * PAGE, 4);
    let fd = export(&program, a.handle).unwrap();
    let file = rustix::fs::memfd_create("other", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let error = |fd| import(&program, 0, VA + (1 << 30), fd).unwrap_err();
    assert_eq!(error(-1), Errno::BADF);
    assert_eq!(error(9999), Errno::BADF);
    assert_eq!(error(file.as_raw_fd()), Errno::INVAL, "size zero");
    assert_eq!(error(program.render[0].as_raw_fd()), Errno::INVAL);
    assert_eq!(error(program.kfd.as_raw_fd()), Errno::INVAL);
    assert_eq!(info(&program, file.as_raw_fd()).unwrap_err(), Errno::INVAL);
    let at = |va| import(&program, 0, va, fd.as_raw_fd());
    assert_eq!(at(VA + PAGE), Err(Errno::INVAL), "overlaps");
    assert_eq!(at(VA - PAGE), Err(Errno::INVAL), "overlaps");
    assert_eq!(at(5), Err(Errno::INVAL));
    assert!(at(0).is_ok(), "a handle only");
    let mut foreign = ImportDmabuf {
        dmabuf_fd: fd.as_raw_fd(),
        ..Default::default()
    };
    assert_eq!(program.kfd(0x1d, &mut foreign), Err(Errno::INVAL));
    let lent = Pages::writable(1);
    let user = program
        .alloc_from(0, VA + (2 << 30), PAGE, USERPTR, lent.at)
        .unwrap();
    assert_eq!(export(&program, user.handle).unwrap_err(), Errno::PERM);
    assert_eq!(export(&program, 3).unwrap_err(), Errno::INVAL);
    assert_eq!(export(&program, a.handle + 77).unwrap_err(), Errno::INVAL);
}

#[test]
fn a_share_handle_is_the_same_storage() {
    let driver = driver("mi300x", 2);
    let (one, two) = (Program::new(&driver), Program::new(&driver));
    let a = filled(&one, PAGE, 6);
    let name = share_handle(&one, a.handle).unwrap();
    assert_eq!(share_handle(&one, a.handle).unwrap(), name);
    let got = import_handle(&two, 1, VA, name).unwrap();
    two.map(got.handle, 1).unwrap();
    assert_eq!(read(&two.memory(1), VA).unwrap(), 6);
    let view = two
        .mmap(two.render[1].as_fd(), PAGE, got.mmap_offset)
        .unwrap();
    assert_eq!(view.load(0), 6);
    for index in 0..4 {
        let mut wrong = name;
        wrong[index] ^= 0x4000;
        assert_eq!(
            import_handle(&two, 1, 0, wrong).unwrap_err(),
            Errno::INVAL,
            "{index}"
        );
    }
    assert_eq!(import_handle(&two, 1, 0, [0; 4]).unwrap_err(), Errno::INVAL);
    assert_eq!(
        import_handle(&two, 1, 0, [u32::MAX; 4]).unwrap_err(),
        Errno::INVAL
    );
    one.unmap(a.handle, 0).unwrap();
    one.free(a.handle).unwrap();
    assert_eq!(read(&two.memory(1), VA).unwrap(), 6);
    two.unmap(got.handle, 1).unwrap();
    two.free(got.handle).unwrap();
    assert_eq!(
        import_handle(&two, 1, 0, name).unwrap_err(),
        Errno::INVAL,
        "gone"
    );
}

/// Two drivers have nothing in common but what descriptors and `/proc` say, like two processes.
#[test]
fn other_processes_see_the_very_same_storage() {
    let (first, second) = (driver("mi300x", 1), driver("mi300x", 1));
    let (one, two) = (Program::new(&first), Program::new(&second));
    let a = filled(&one, 2 * PAGE, 7);
    let fd = export(&one, a.handle).unwrap();
    let name = share_handle(&one, a.handle).unwrap();
    assert_eq!(second.seek_end(fd.as_fd()), Some(2 * PAGE));
    assert_eq!(info(&two, fd.as_raw_fd()).unwrap().size, 2 * PAGE);
    let by_fd = import(&two, 0, VA, fd.as_raw_fd()).unwrap();
    let by_name = import_handle(&two, 0, VA + (1 << 30), name).unwrap();
    drop(fd);
    let memory = two.memory(0);
    for (handle, at) in [(by_fd, VA), (by_name.handle, VA + (1 << 30))] {
        two.map(handle, 0).unwrap();
        assert_eq!(read(&memory, at).unwrap(), 7);
    }
    write(&memory, VA + PAGE, 8).unwrap();
    assert_eq!(read(&memory, VA + (1 << 30) + PAGE).unwrap(), 8);
    assert_eq!(read(&one.memory(0), VA + PAGE).unwrap(), 8);
    // Its offset is not one of the importer's own file.
    let view = two
        .mmap(two.render[0].as_fd(), 2 * PAGE, by_name.mmap_offset)
        .unwrap();
    assert_eq!(view.load(PAGE), 8);
    assert!(
        two.mmap(two.render[0].as_fd(), 3 * PAGE, by_name.mmap_offset)
            .is_err()
    );
    assert_eq!(
        two.available(0),
        second.machine().gpus[0].vram_bytes,
        "not the importer's memory"
    );
    drop(one);
    drop(first);
    assert_eq!(read(&memory, VA).unwrap(), 7, "it outlives its maker");
    // And is passed on.
    let fd = export(&two, by_fd).unwrap();
    let third = driver("mi300x", 1);
    let three = Program::new(&third);
    let handle = import(&three, 0, VA, fd.as_raw_fd()).unwrap();
    three.map(handle, 0).unwrap();
    assert_eq!(read(&three.memory(0), VA + PAGE).unwrap(), 8);
}

#[test]
fn a_dmabuf_is_mapped_by_the_program() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let other = program.alloc(0, VA + (1 << 30), PAGE, VRAM).unwrap();
    let a = filled(&program, 2 * PAGE, 3);
    let fd = export(&program, a.handle).unwrap();
    let view = program.mmap(fd.as_fd(), 2 * PAGE, 0).unwrap();
    assert_eq!(view.load(0), 3);
    assert!(program.mmap(fd.as_fd(), 3 * PAGE, 0).is_err());
    assert!(program.mmap(fd.as_fd(), PAGE, 2 * PAGE).is_err());
    let _ = other;
}

fn create(program: &Program<'_>, gpu: usize, bytes: u64, domains: u64) -> Result<u32, Errno> {
    let mut args = DrmGemCreate {
        bo_size: bytes,
        alignment: 65536,
        domains,
        domain_flags: 1,
    };
    program
        .drm(gpu, 0x40, &mut args)
        .map(|()| args.bo_size as u32)
}

fn place(
    program: &Program<'_>,
    handle: u32,
    operation: u32,
    va_address: u64,
    (offset_in_bo, map_size): (u64, u64),
) -> Result<(), Errno> {
    let mut args = DrmGemVa {
        handle,
        operation,
        flags: 2 | 4 | 8,
        va_address,
        offset_in_bo,
        map_size,
        ..Default::default()
    };
    program.drm(0, 0x48, &mut args)
}

fn prime(
    program: &Program<'_>,
    gpu: usize,
    number: u8,
    handle: u32,
    fd: i32,
) -> Result<DrmPrimeHandle, Errno> {
    let mut args = DrmPrimeHandle {
        handle,
        flags: if number == 0x2d { 0o2_000_002 } else { 0 },
        fd,
    };
    program.drm(gpu, number, &mut args).map(|()| args)
}

#[test]
fn buffer_objects_are_placed_by_hand() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let handle = create(&program, 0, 4 * PAGE, 4).unwrap();
    let total = driver.machine().gpus[0].vram_bytes;
    assert_eq!(program.available(0), total - 4 * PAGE);
    let memory = program.memory(0);
    let mut offset = DrmGemMmap {
        value: u64::from(handle),
    };
    program.drm(0, 0x41, &mut offset).unwrap();
    assert_eq!(offset.value % 65536, 0);
    let view = program
        .mmap(program.render[0].as_fd(), 4 * PAGE, offset.value)
        .unwrap();
    for page in 0..4 {
        view.store(page * PAGE, page as u8 + 1);
    }
    place(&program, handle, 1, VA, (PAGE, 3 * PAGE)).unwrap();
    assert_eq!(read(&memory, VA).unwrap(), 2);
    assert_eq!(read(&memory, VA + 2 * PAGE).unwrap(), 4);
    assert_eq!(
        place(&program, handle, 1, VA + PAGE, (0, PAGE)),
        Err(Errno::INVAL),
        "taken"
    );
    place(&program, handle, 4, VA + PAGE, (0, PAGE)).unwrap();
    assert_eq!(read(&memory, VA + PAGE).unwrap(), 1, "replaced");
    assert_eq!(read(&memory, VA + 2 * PAGE).unwrap(), 4);
    assert_eq!(
        place(&program, handle, 2, VA + PAGE + 1, (0, PAGE)),
        Err(Errno::NOENT)
    );
    place(&program, handle, 2, VA + PAGE, (0, PAGE)).unwrap();
    assert!(read(&memory, VA + PAGE).is_err());
    place(&program, 0, 3, VA, (0, PAGE)).unwrap();
    assert!(read(&memory, VA).is_err() && read(&memory, VA + 2 * PAGE).is_ok());
    for (at, part) in [
        (VA + 1, (0, PAGE)),
        (VA + (1 << 30), (0, 0)),
        (VA + (1 << 30), (1, PAGE)),
        (VA + (1 << 30), (PAGE, 4 * PAGE)),
        (VA + (1 << 30), (u64::MAX - 4095, PAGE)),
        (PAGE, (0, PAGE)),
        (0x7fff_ffff_f000, (0, PAGE)),
        (u64::MAX - 4095, (0, PAGE)),
    ] {
        assert_eq!(
            place(&program, handle, 1, at, part),
            Err(Errno::INVAL),
            "{at:#x} {part:?}"
        );
    }
    assert_eq!(
        place(&program, 99, 1, VA + (1 << 30), (0, PAGE)),
        Err(Errno::NOENT)
    );
    assert_eq!(
        place(&program, handle, 5, VA + (1 << 30), (0, PAGE)),
        Err(Errno::INVAL)
    );
    let mut close = DrmGemClose { handle, pad: 0 };
    program.drm(0, 0x09, &mut close).unwrap();
    assert!(
        read(&memory, VA + 2 * PAGE).is_err(),
        "goes with its handle"
    );
    assert_eq!(program.drm(0, 0x09, &mut close), Err(Errno::INVAL));
    assert_eq!(program.available(0), total);
}

#[test]
fn buffer_objects_are_refused_as_the_kernel_does() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    assert_eq!(create(&program, 0, 0, 4), Err(Errno::INVAL));
    assert_eq!(create(&program, 0, PAGE, 1 << 20), Err(Errno::INVAL));
    assert_eq!(create(&program, 0, 1 << 50, 4), Err(Errno::NOMEM));
    assert_eq!(
        program.drm(0, 0x41, &mut DrmGemMmap { value: 3 }),
        Err(Errno::NOENT)
    );
    let handle = create(&program, 0, 1, 2).unwrap();
    let mut made = DrmGemCreate::default();
    let mut ask = DrmGemOp {
        handle,
        op: 0,
        value: &raw mut made as u64,
    };
    program.drm(0, 0x50, &mut ask).unwrap();
    assert_eq!(
        (
            made.bo_size,
            made.alignment,
            made.domains,
            made.domain_flags
        ),
        (PAGE, 65536, 2, 1)
    );
    ask.value = 8;
    assert_eq!(program.drm(0, 0x50, &mut ask), Err(Errno::FAULT));
    ask.op = 2;
    assert_eq!(program.drm(0, 0x50, &mut ask), Err(Errno::INVAL));
    ask.handle = 77;
    assert_eq!(program.drm(0, 0x50, &mut ask), Err(Errno::NOENT));
}

#[test]
fn prime_goes_both_ways_and_over_gpus() {
    let driver = driver("mi300x", 2);
    let program = Program::new(&driver);
    let a = filled(&program, 2 * PAGE, 9);
    let fd = export(&program, a.handle).unwrap();
    // The runtime's way with virtual memory: a KFD allocation as GEM handle, placed by hand.
    let got = prime(&program, 0, 0x2e, 0, fd.as_raw_fd()).unwrap();
    let again = prime(&program, 0, 0x2e, 0, fd.as_raw_fd()).unwrap();
    assert_eq!(got.handle, again.handle);
    place(&program, got.handle, 1, VA + (1 << 30), (0, 2 * PAGE)).unwrap();
    assert_eq!(read(&program.memory(0), VA + (1 << 30)).unwrap(), 9);
    let mut offset = DrmGemMmap {
        value: u64::from(got.handle),
    };
    program.drm(0, 0x41, &mut offset).unwrap();
    assert_eq!(offset.value, a.mmap_offset);
    // On another GPU its offset is another one.
    let there = prime(&program, 1, 0x2e, 0, fd.as_raw_fd()).unwrap();
    let mut offset = DrmGemMmap {
        value: u64::from(there.handle),
    };
    program.drm(1, 0x41, &mut offset).unwrap();
    assert_ne!(offset.value, a.mmap_offset);
    let view = program
        .mmap(program.render[1].as_fd(), 2 * PAGE, offset.value)
        .unwrap();
    assert_eq!(view.load(0), 9);
    let out = prime(&program, 1, 0x2d, there.handle, -1).unwrap();
    let out = own(out.fd);
    assert_eq!(driver.seek_end(out.as_fd()), Some(2 * PAGE));
    let cloexec = rustix::io::fcntl_getfd(&out).unwrap();
    assert!(cloexec.contains(rustix::io::FdFlags::CLOEXEC));
    let made = create(&program, 1, PAGE, 4).unwrap();
    let made = own(prime(&program, 1, 0x2d, made, -1).unwrap().fd);
    assert!(import(&program, 0, VA + (2 << 30), made.as_raw_fd()).is_ok());
    assert_eq!(prime(&program, 0, 0x2d, 99, -1).unwrap_err(), Errno::NOENT);
    assert_eq!(prime(&program, 0, 0x2e, 0, 9999).unwrap_err(), Errno::BADF);
    assert_eq!(
        prime(&program, 0, 0x2e, 0, program.kfd.as_raw_fd()).unwrap_err(),
        Errno::INVAL
    );
    let mut odd = DrmPrimeHandle {
        handle: got.handle,
        flags: 1,
        fd: -1,
    };
    assert_eq!(program.drm(0, 0x2d, &mut odd), Err(Errno::INVAL));
}

/// What a program notes on a buffer object, by its first word.
fn notes(handle: u32, op: u32, first: u32) -> DrmGemMetadata {
    let mut args = DrmGemMetadata {
        handle,
        op,
        flags: 3,
        tiling_info: 1 << 40 | 5,
        data_size_bytes: 256,
        ..Default::default()
    };
    args.data[0][0] = first;
    args.data[7][7] = !first;
    args
}

/// What is noted, of which the first word and whether all else is as [`notes`] has it.
fn noted(program: &Program<'_>, handle: u32) -> (u32, bool) {
    let mut args = DrmGemMetadata {
        handle,
        op: 2,
        ..Default::default()
    };
    program.drm(0, 0x46, &mut args).unwrap();
    let first = args.data[0][0];
    (first, args.as_bytes() == notes(handle, 2, first).as_bytes())
}

#[test]
fn notes_on_buffer_objects_stay_with_the_buffer() {
    let driver = driver("mi300x", 1);
    let (one, two) = (Program::new(&driver), Program::new(&driver));
    let handle = create(&one, 0, PAGE, 4).unwrap();
    assert_eq!(noted(&one, handle), (0, false), "nothing");
    one.drm(0, 0x46, &mut notes(handle, 1, 77)).unwrap();
    assert_eq!(noted(&one, handle), (77, true));
    let fd = own(prime(&one, 0, 0x2d, handle, -1).unwrap().fd);
    let there = prime(&two, 0, 0x2e, 0, fd.as_raw_fd()).unwrap().handle;
    assert_eq!(noted(&two, there), (77, true), "through another name");
    two.drm(0, 0x46, &mut notes(there, 1, 78)).unwrap();
    assert_eq!(noted(&one, handle), (78, true));
    let error = |mut args| one.drm(0, 0x46, &mut args);
    assert_eq!(error(notes(99, 2, 0)), Err(Errno::NOENT));
    assert_eq!(error(notes(handle, 3, 0)), Err(Errno::INVAL));
    let mut long = notes(handle, 1, 79);
    long.data_size_bytes = 257;
    assert_eq!(error(long), Err(Errno::INVAL));
    assert_eq!(noted(&one, handle), (78, true));
    // GET_DMABUF_INFO tells of them, all or none.
    let mut room = [0u8; 256];
    let mut told = GetDmabufInfo {
        dmabuf_fd: fd.as_raw_fd(),
        ..Default::default()
    };
    told.metadata_ptr = room.as_mut_ptr() as u64;
    told.metadata_size = 255;
    assert_eq!(one.kfd(0x1c, &mut told), Err(Errno::INVAL));
    assert_eq!(told.metadata_size, 256);
    one.kfd(0x1c, &mut told).unwrap();
    assert_eq!(room[..4], 78u32.to_ne_bytes());
    told.metadata_size = 255;
    assert_eq!(one.kfd(0x1c, &mut told), Err(Errno::INVAL));
    assert_eq!(told.metadata_size, 256);
    told.metadata_ptr = 8;
    assert_eq!(one.kfd(0x1c, &mut told), Err(Errno::FAULT));
    // A neighbour has none of them.
    let other = create(&one, 0, PAGE, 4).unwrap();
    assert_eq!(noted(&one, other), (0, false));
}

/// GET_DMABUF_INFO with room for this many bytes of metadata: what it says of their size, and the bytes.
fn metadata(program: &Program<'_>, fd: i32, room: usize) -> (Result<(), Errno>, u32, Vec<u8>) {
    let mut bytes = vec![0xee; 512];
    let mut args = GetDmabufInfo {
        dmabuf_fd: fd,
        metadata_ptr: bytes.as_mut_ptr() as u64,
        metadata_size: room as u32,
        ..Default::default()
    };
    let done = program.kfd(0x1c, &mut args);
    (done, args.metadata_size, bytes)
}

#[test]
fn what_is_noted_on_a_buffer_is_told_with_its_dmabuf() {
    let driver = driver("mi300x", 1);
    let (one, two) = (Program::new(&driver), Program::new(&driver));
    let handle = create(&one, 0, PAGE, 4).unwrap();
    let fd = own(prime(&one, 0, 0x2d, handle, -1).unwrap().fd);
    let fd = fd.as_raw_fd();
    let untouched = vec![0xee; 512];
    assert_eq!(metadata(&two, fd, 16), (Ok(()), 0, untouched.clone()));
    let mut noted = notes(handle, 1, 77);
    noted.data_size_bytes = 16;
    one.drm(0, 0x46, &mut noted).unwrap();
    let (done, size, bytes) = metadata(&two, fd, 16);
    assert_eq!((done, size), (Ok(()), 16));
    assert_eq!(bytes[..16], noted.data.as_bytes()[..16]);
    assert_eq!(bytes[16..], untouched[16..]);
    // Too little room: the size that it takes, and nothing is written.
    let little = metadata(&two, fd, 15);
    assert_eq!(little, (Err(Errno::INVAL), 16, untouched));
    let mut bad = GetDmabufInfo {
        dmabuf_fd: fd,
        metadata_ptr: 8,
        metadata_size: 16,
        ..Default::default()
    };
    assert_eq!(two.kfd(0x1c, &mut bad), Err(Errno::FAULT));
}

/// Tells the test below that it is the child, and what to import.
const CHILD: &str = "ROCJITSU_TEST_SHARED";

/// The test runs itself again as another process, which imports and writes.
#[test]
fn a_child_process_sees_the_very_same_storage() {
    let driver = driver("mi300x", 1);
    let program = Program::new(&driver);
    let memory = program.memory(0);
    if let Ok(text) = std::env::var(CHILD) {
        let words: Vec<u32> = text.split(',').map(|word| word.parse().unwrap()).collect();
        let by_fd = import(&program, 0, VA, words[4] as i32).unwrap();
        let name = [words[0], words[1], words[2], words[3]];
        let by_name = import_handle(&program, 0, VA + (1 << 30), name).unwrap();
        for (handle, at) in [(by_fd, VA), (by_name.handle, VA + (1 << 30))] {
            program.map(handle, 0).unwrap();
            assert_eq!(read(&memory, at).unwrap(), 11);
            write(&memory, at + PAGE + (at >> 30 & 1), 12).unwrap();
        }
        let object = prime(&program, 0, 0x2e, 0, words[4] as i32).unwrap().handle;
        assert_eq!(noted(&program, object), (11, true));
        program.drm(0, 0x46, &mut notes(object, 1, 12)).unwrap();
        return;
    }
    let a = filled(&program, 2 * PAGE, 11);
    let fd = export(&program, a.handle).unwrap();
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).unwrap();
    let object = prime(&program, 0, 0x2e, 0, fd.as_raw_fd()).unwrap().handle;
    program.drm(0, 0x46, &mut notes(object, 1, 11)).unwrap();
    let [w, x, y, z] = share_handle(&program, a.handle).unwrap();
    let name = "tests::sharing::a_child_process_sees_the_very_same_storage";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, format!("{w},{x},{y},{z},{}", fd.as_raw_fd()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
    assert_eq!(read(&memory, VA + PAGE).unwrap(), 12);
    assert_eq!(read(&memory, VA + PAGE + 1).unwrap(), 12);
    assert_eq!(noted(&program, object), (12, true));
}
