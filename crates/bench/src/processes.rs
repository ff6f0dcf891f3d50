//! Whole processes: wall time and peak memory of `rocjitsu launch` on an empty kernel.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Starts `rocjitsu` beside this program; measures the least wall time and peak memory over several runs.
pub fn start(data: &Path, repeat: u32) -> Result<()> {
    println!("== start: `rocjitsu launch` on an empty kernel, one process each");
    let program = std::env::current_exe()?.with_file_name("rocjitsu");
    ensure!(
        program.exists(),
        "{} is not there: run `cargo build --release` first",
        program.display()
    );
    for (gpu, target) in [
        ("mi210", "gfx90a"),
        ("mi300x", "gfx942"),
        ("mi355x", "gfx950"),
        ("r9700", "gfx1201"),
        ("mi455x", "gfx1250"),
    ] {
        let (mut wall, mut peak) = (f64::INFINITY, u64::MAX);
        for _ in 0..repeat.max(1) {
            let start = Instant::now();
            let child = Command::new(&program)
                .arg("launch")
                .arg(data.join("perf/built/empty_1.json"))
                .args(["--target", target, "--gpu", gpu, "--json"])
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("cannot start {}", program.display()))?;
            let (ok, bytes) = wait(child)?;
            ensure!(ok, "`rocjitsu launch` failed for {gpu}");
            wall = wall.min(start.elapsed().as_secs_f64() * 1e3);
            peak = peak.min(bytes);
        }
        println!(
            "{gpu:<8} {wall:6.2} ms wall, {:6.1} MiB peak",
            peak as f64 / f64::from(1 << 20)
        );
    }
    Ok(())
}

/// Waits for a child; whether it succeeded, and its peak resident size in bytes.
fn wait(child: std::process::Child) -> Result<(bool, u64)> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value for the kernel to overwrite.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the process is our child and nobody else waits for it; both pointers are to live variables.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) };
    ensure!(waited > 0, "wait4: {}", std::io::Error::last_os_error());
    Ok((status == 0, usage.ru_maxrss as u64 * 1024))
}
