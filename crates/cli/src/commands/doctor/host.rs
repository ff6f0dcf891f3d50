//! What the host allows: processor, kernel, memory files, limits.

use std::fs;
use std::path::Path;

use rocjitsu_lanes::Backend;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, statvfs};
use rustix::process::{Resource, getrlimit};

use super::{Check, Verdict};
use crate::commands::run::library;
use crate::output::bytes;

/// Every check of the host.
pub fn checks() -> Vec<Check> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let limits = text("/proc/self/limits");
    let mut checks = vec![
        processor(),
        kernel(&text("/proc/sys/kernel/osrelease")),
        memory_files(),
        address_space(&limits),
        map_count(&text("/proc/sys/vm/max_map_count")),
        open_files(&limits),
        locked_memory(&limits),
        shared_memory(),
        seccomp(&text("/proc/self/status"), rocjitsu_kfd::has_futex_waitv()),
        ptrace(&text("/proc/sys/kernel/yama/ptrace_scope")),
        interposer(),
    ];
    checks.extend(real_gpu());
    checks
}

fn processor() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let have: Vec<_> = Backend::supported().map(Backend::name).collect();
    let found = format!("{cores} cores; lanes: {}", have.join(", "));
    if have.len() > 1 {
        Check::good("processor", found)
    } else {
        Check::not(
            Verdict::Warning,
            "processor",
            found,
            "kernels run several times slower without AVX2 or AVX-512; use a newer x86-64 host",
        )
    }
}

/// Sealed memory files and `statx` came before 4.14, which is the oldest that is maintained.
fn kernel(release: &str) -> Check {
    let release = release.trim();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (4, 14) {
        Check::good("kernel", format!("Linux {release}"))
    } else {
        let found = if release.is_empty() {
            "unknown: /proc is not mounted".to_owned()
        } else {
            format!("Linux {release}")
        };
        Check::not(
            Verdict::Bad,
            "kernel",
            found,
            "Linux 4.14 or newer with /proc is needed",
        )
    }
}

/// Device memory is a sparse memory file, usually of 2^46 bytes; less than 2^40 is too little.
fn memory_files() -> Check {
    let name = "device memory";
    let remedy = "lift the limit of file sizes: ulimit -f unlimited";
    // To go beyond it is a signal that ends the process.
    if let Some(most) = getrlimit(Resource::Fsize).current {
        let found = format!("files may have {} at most", bytes(most));
        return Check::not(Verdict::Bad, name, found, remedy);
    }
    let fd = match memfd_create("rocjitsu-doctor", MemfdFlags::CLOEXEC) {
        Ok(fd) => fd,
        Err(error) => {
            return Check::not(
                Verdict::Bad,
                name,
                format!("memfd_create: {error}"),
                "allow memfd_create (a seccomp filter or the kernel's configuration denies it)",
            );
        }
    };
    match (40..=46)
        .rev()
        .find(|&bits| ftruncate(&fd, 1 << bits).is_ok())
    {
        Some(bits) => Check::good(name, format!("sparse memory files of 2^{bits} bytes")),
        None => Check::not(
            Verdict::Bad,
            name,
            "sparse memory files of 2^40 bytes are refused",
            remedy,
        ),
    }
}

/// Soft limit of a line of `/proc/self/limits`; none if it is unlimited or not there.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn address_space(limits: &str) -> Check {
    match limit(limits, "Max address space") {
        Some(most) => Check::not(
            Verdict::Bad,
            "address space",
            format!("limited to {}", bytes(most)),
            "the simulated memory is mapped sparsely in terabytes: ulimit -v unlimited",
        ),
        None => Check::good("address space", "unlimited"),
    }
}

/// Every allocation is a mapping or two.
fn map_count(text: &str) -> Check {
    match text.trim().parse::<u64>() {
        Ok(count) if count < 65_530 => Check::not(
            Verdict::Warning,
            "mappings",
            format!("at most {count} for a process"),
            "programs with many allocations need more: sysctl vm.max_map_count=262144",
        ),
        Ok(count) => Check::good("mappings", format!("at most {count} for a process")),
        Err(_) => Check::good("mappings", "limit not known"),
    }
}

fn open_files(limits: &str) -> Check {
    match limit(limits, "Max open files") {
        Some(most) if most < 1024 => Check::not(
            Verdict::Warning,
            "descriptors",
            format!("at most {most}"),
            "each GPU, queue and shared buffer takes some: ulimit -n 4096",
        ),
        Some(most) => Check::good("descriptors", format!("at most {most}")),
        None => Check::good("descriptors", "unlimited"),
    }
}

fn locked_memory(limits: &str) -> Check {
    match limit(limits, "Max locked memory") {
        Some(most) if most < 8 << 20 => Check::not(
            Verdict::Warning,
            "locked memory",
            format!("at most {}", bytes(most)),
            "programs that lock host memory (MPI, RCCL) fail: ulimit -l unlimited",
        ),
        Some(most) => Check::good("locked memory", format!("at most {}", bytes(most))),
        None => Check::good("locked memory", "unlimited"),
    }
}

fn shared_memory() -> Check {
    let name = "/dev/shm";
    match statvfs(name) {
        Ok(stat) => {
            let size = stat.f_blocks.saturating_mul(stat.f_frsize);
            let found = format!("{} large", bytes(size));
            if size < 1 << 30 {
                Check::not(
                    Verdict::Warning,
                    name,
                    found,
                    "several processes (RCCL, PyTorch loaders) need more: in containers \
                     --shm-size=8g, else mount -o remount,size=8g /dev/shm",
                )
            } else {
                Check::good(name, found)
            }
        }
        Err(error) => Check::not(
            Verdict::Warning,
            name,
            error.to_string(),
            "RCCL and PyTorch need it: mount -t tmpfs tmpfs /dev/shm",
        ),
    }
}

/// What a filter of system calls is in the way of; `waits` says whether it lets `futex_waitv` pass.
fn seccomp(status: &str, waits: bool) -> Check {
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map(str::trim);
    match mode {
        Some("1") => Check::not(
            Verdict::Bad,
            "seccomp",
            "strict mode",
            "run it outside of this sandbox",
        ),
        Some("2") if !waits => Check::good(
            "seccomp",
            "a filter is active that refuses futex_waitv; waits use futex, and a signal handler does not end one \
             that has a timeout",
        ),
        Some("2") => Check::good("seccomp", "a filter is active; what is needed here works"),
        _ => Check::good("seccomp", "no filter"),
    }
}

fn ptrace(scope: &str) -> Check {
    let name = "ptrace scope";
    match scope.trim() {
        "" => Check::good(name, "not restricted"),
        "0" => Check::good(name, "0"),
        level => Check::not(
            Verdict::Warning,
            name,
            format!("{level}: debuggers cannot attach to running programs"),
            "start programs from the debugger, or: sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

/// The library that `rocjitsu run` loads into programs.
fn interposer() -> Check {
    match library::find() {
        Ok(path) => Check::good("interposer", path.display().to_string()),
        Err(error) => Check::not(
            Verdict::Warning,
            "interposer",
            error.to_string(),
            "`rocjitsu run` needs it (`launch` does not); ROCJITSU_PRELOAD may name it",
        ),
    }
}

fn real_gpu() -> Option<Check> {
    Path::new("/dev/kfd").exists().then(|| {
        Check::good(
            "real GPU",
            "/dev/kfd is there; programs under `rocjitsu run` see simulated GPUs only",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_versions() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
                      Max open files            256          1024         files\n\
                      Max address space         unlimited    unlimited    bytes\n\
                      Max locked memory         65536        65536        bytes\n";
        assert_eq!(open_files(limits).verdict, Verdict::Warning);
        assert_eq!(locked_memory(limits).verdict, Verdict::Warning);
        assert_eq!(address_space(limits).verdict, Verdict::Good);
        let tight = limits.replace("unlimited    unlimited ", "4294967296   unlimited ");
        assert_eq!(address_space(&tight).verdict, Verdict::Bad);
        assert_eq!(kernel("6.1.0-18-amd64\n").verdict, Verdict::Good);
        assert_eq!(kernel("3.10.0-1160.el7\n").verdict, Verdict::Bad);
        assert_eq!(kernel("").verdict, Verdict::Bad);
        assert_eq!(map_count("1000\n").verdict, Verdict::Warning);
        assert_eq!(ptrace("1\n").verdict, Verdict::Warning);
        assert_eq!(seccomp("Seccomp:\t1\n", true).verdict, Verdict::Bad);
        assert!(!seccomp("Seccomp:\t2\n", true).found.contains("futex_waitv"));
        assert!(
            seccomp("Seccomp:\t2\n", false)
                .found
                .contains("futex_waitv")
        );
        for check in checks() {
            assert_eq!(
                check.verdict == Verdict::Good,
                check.remedy.is_none(),
                "{}",
                check.name
            );
        }
    }
}
