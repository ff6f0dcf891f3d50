//! Random ioctls with arguments that are half right: nothing panics, no lock is taken out of order, and all memory
//! comes back.

use super::*;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

#[test]
fn random_calls_leave_nothing_behind() {
    let driver = driver("mi300x", 2);
    let total = driver.machine().gpus[0].vram_bytes;
    for seed in 1..=6u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let program = Program::new(&driver);
        let own = Pages::writable(16);
        let mut handles = vec![0u64, u64::MAX];
        let mut gem = vec![0u32, 77];
        let mut files: Vec<OwnedFd> = Vec::new();
        let gpus = [program.id(0), program.id(1), program.id(0), 0, 5];
        for _ in 0..1500 {
            let gpu_id = random.pick(&gpus);
            let va = match random.below(8) {
                0 => random.next(),
                1 => own.at + random.below(16) * PAGE,
                2 => 0,
                _ => 0x2000_0000_0000 + random.below(64) * PAGE,
            };
            let size = match random.below(10) {
                0 => random.next(),
                1 => 0,
                2 => 1 << 40,
                _ => random.below(5 * PAGE),
            };
            let handle = random.pick(&handles);
            let fd = match files.len() as u64 {
                0 => -1,
                n => files[random.below(n) as usize].as_raw_fd(),
            };
            let ids = [gpu_id, random.pick(&gpus)];
            match random.below(15) {
                0..=2 => {
                    let kinds = [
                        VRAM,
                        GTT,
                        USERPTR,
                        alloc_flags::DOORBELL,
                        alloc_flags::MMIO_REMAP,
                        VRAM | alloc_flags::AQL_QUEUE_MEM,
                        random.next() as u32,
                    ];
                    let mut args = AllocMemoryOfGpu {
                        va_addr: va,
                        size: if random.below(3) == 0 {
                            random.pick(&[PAGE, 2 * PAGE])
                        } else {
                            size
                        },
                        mmap_offset: own.at + random.below(16) * PAGE,
                        gpu_id,
                        flags: random.pick(&kinds),
                        ..Default::default()
                    };
                    if program.kfd(0x16, &mut args).is_ok() {
                        handles.push(args.handle);
                    }
                }
                3..=4 => drop(program.change(0x18, handle, &ids)),
                5 => drop(program.change(0x19, handle, &ids)),
                6 => drop(program.free(handle)),
                7 => {
                    let mut args = ExportDmabuf {
                        handle,
                        flags: random.next() as u32,
                        dmabuf_fd: -1,
                    };
                    if program.kfd(0x24, &mut args).is_ok() {
                        // SAFETY: the driver made the descriptor for us.
                        files.push(unsafe { std::os::fd::FromRawFd::from_raw_fd(args.dmabuf_fd) });
                    }
                    files.truncate(20);
                }
                8 => {
                    let mut args = ImportDmabuf {
                        va_addr: va,
                        handle: 0,
                        gpu_id,
                        dmabuf_fd: fd,
                    };
                    if program.kfd(0x1d, &mut args).is_ok() {
                        handles.push(args.handle);
                    }
                }
                9 => {
                    let mut args = IpcExportHandle {
                        handle,
                        gpu_id,
                        ..Default::default()
                    };
                    let exported = program.kfd(0x81, &mut args);
                    let mut share_handle = args.share_handle;
                    if exported.is_err() || random.below(4) == 0 {
                        share_handle[random.below(4) as usize] ^= random.next() as u32;
                    }
                    let mut args = IpcImportHandle {
                        va_addr: va,
                        share_handle,
                        gpu_id,
                        ..Default::default()
                    };
                    if program.kfd(0x80, &mut args).is_ok() {
                        handles.push(args.handle);
                    }
                }
                10 => {
                    let mut args = DrmGemCreate {
                        bo_size: size,
                        alignment: random.pick(&[0, 4096, 65536, 3]),
                        domains: random.below(8),
                        domain_flags: random.below(4),
                    };
                    if program.drm(0, 0x40, &mut args).is_ok() {
                        gem.push(args.bo_size as u32);
                    }
                    let mut args = DrmPrimeHandle {
                        handle: 0,
                        flags: 0,
                        fd,
                    };
                    if program.drm(0, 0x2e, &mut args).is_ok() {
                        gem.push(args.handle);
                    }
                }
                11..=12 => {
                    let mut args = DrmGemVa {
                        handle: random.pick(&gem),
                        operation: random.below(6) as u32,
                        flags: random.pick(&[2, 6, 14, 0, 1 << 20]),
                        va_address: va,
                        offset_in_bo: random.below(3) * PAGE,
                        map_size: random.below(4) * PAGE,
                        ..Default::default()
                    };
                    let _ = program.drm(0, 0x48, &mut args);
                }
                13 => {
                    let mut args = DrmGemClose {
                        handle: random.pick(&gem),
                        pad: 0,
                    };
                    let _ = program.drm(0, 0x09, &mut args);
                    driver.host_range_gone(va, size);
                }
                _ => {
                    let mut args = SetXnackMode {
                        xnack_enabled: random.below(3) as i32 - 1,
                    };
                    let _ = program.kfd(0x21, &mut args);
                }
            }
            let at = 0x2000_0000_0000 + random.below(64 * PAGE);
            let _ = write(&program.memory(random.below(2) as usize), at, 1);
            let _ = read(&program.memory(0), va);
            if handles.len() > 40 {
                handles.drain(2..20);
            }
        }
        let memories = [program.memory(0), program.memory(1)];
        drop(program);
        for at in (0..64).map(|page| 0x2000_0000_0000 + page * PAGE) {
            assert!(
                memories.iter().all(|memory| read(memory, at).is_err()),
                "seed {seed}"
            );
        }
        drop(memories);
        drop(files);
        let program = Program::new(&driver);
        assert_eq!(
            (program.available(0), program.available(1)),
            (total, total),
            "seed {seed}"
        );
    }
}
