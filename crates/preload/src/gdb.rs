//! The debugger of this process, if `rocjitsu run --gdb` asks for one. A program that it starts gets one of its own, a forked
//! child none: the thread that talks with the debugger is the parent's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rocjitsu_debug::aside;
use rocjitsu_debug::{Gate, Wish};
use rocjitsu_gpu::dispatch::{Device, Dispatch, DispatchError, Options, Statistics};
use rocjitsu_kfd::{Conductor, Driver};
use rocjitsu_observe::Observer;

static GATE: OnceLock<Arc<Debugged>> = OnceLock::new();
/// Whether this process is a fork of one that loaded the library.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Dispatches run as the debugger says.
#[derive(Debug)]
struct Debugged(Gate);

impl Conductor for Debugged {
    fn run(
        &self,
        gpu: &str,
        device: &Arc<Device>,
        dispatch: &Dispatch,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Statistics, DispatchError> {
        self.0.run((gpu, device), dispatch, options, observer)
    }
}

/// Gives the driver a debugger if `ROCJITSU_GDB` says where it connects. `ROCJITSU_GDB_KERNEL` and `ROCJITSU_GDB_DISPATCH` say
/// which dispatch waits for it.
///
/// # Errors
///
/// The text says which variable is wrong.
pub fn attach(
    driver: Driver,
    variable: &dyn Fn(&'static str) -> Option<String>,
) -> Result<Driver, String> {
    let get = |name| variable(name).filter(|value| !value.is_empty());
    let Some(address) = get("ROCJITSU_GDB") else {
        return Ok(driver);
    };
    if FORKED.load(Ordering::Relaxed) {
        return Ok(driver);
    }
    if driver.plugins().is_some() {
        eprintln!("rocjitsu: no debugger: plugins cannot follow a dispatch that stops");
        return Ok(driver);
    }
    let wrong = |name: &str, value: &str, why: &str| format!("{name}={value}: {why}");
    let address = address
        .parse()
        .map_err(|why: String| wrong("ROCJITSU_GDB", &address, &why))?;
    let number = match get("ROCJITSU_GDB_DISPATCH") {
        None => 1,
        Some(text) => match text.parse() {
            Ok(number @ 1..) => number,
            _ => {
                let why = "a number from 1 belongs here";
                return Err(wrong("ROCJITSU_GDB_DISPATCH", &text, why));
            }
        },
    };
    let gate = GATE.get_or_init(|| {
        Arc::new(Debugged(Gate::new(Wish {
            address,
            kernel: get("ROCJITSU_GDB_KERNEL"),
            number,
            end,
        })))
    });
    Ok(driver.with_conductor(gate.clone()))
}

/// The debugger's kill, as that of any debugger.
fn end() {
    // SAFETY: the calls take numbers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// The program is about to end: the debugger is told.
pub fn exit(status: i32) {
    if !FORKED.load(Ordering::Relaxed)
        && crate::process::is_this_process()
        && let Some(gate) = GATE.get()
    {
        gate.0.exit(status);
    }
}

/// In a forked child: the parent's connection is closed here, so that it ends with the parent.
pub fn after_fork_in_child() {
    FORKED.store(true, Ordering::Relaxed);
    for fd in aside::inherited() {
        // SAFETY: the number is the copy of a descriptor that this library's debugger opened; nobody here uses it.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}
