//! Running a dispatch for a queue, and what its end means for the queue.

use rocjitsu_exec::error::Cause;
use rocjitsu_exec::memory::FaultKind;
use rocjitsu_isa::Target;

use super::{Cx, DispatchReport, MemoryFault, QueueFault, Trouble, error};
use crate::dispatch::{Dispatch, DispatchError, Options};

/// Runs a dispatch to its end and reports it.
pub fn run(cx: &mut Cx<'_>, dispatch: &Dispatch) -> Result<(), Trouble> {
    let platform = cx.platform;
    if let Some(fault) = not_executable(cx, dispatch) {
        platform.finished(&DispatchReport {
            kernel: &dispatch.name,
            grid: dispatch.grid,
            workgroup: dispatch.workgroup,
            outcome: Err(fault.text.clone()),
            forms: Vec::new(),
        });
        return Err(Trouble::Fault(fault));
    }
    let interrupt = |data| platform.wave_interrupt(data);
    let options = Options {
        threads: cx.threads,
        stop: Some(cx.stop),
        pause: platform.pause(),
        trust_code: true,
        count_forms: platform.counts_forms(),
        interrupt: Some(&interrupt),
        ..Options::default()
    };
    let done = platform.run(cx.device, dispatch, options);
    cx.bus.refresh();
    let forms = match &done {
        Ok(statistics) => cx.device.executed(statistics),
        Err(_) => Vec::new(),
    };
    platform.finished(&DispatchReport {
        kernel: &dispatch.name,
        grid: dispatch.grid,
        workgroup: dispatch.workgroup,
        outcome: done.as_ref().map_err(ToString::to_string),
        forms,
    });
    match done {
        Ok(_) => Ok(()),
        Err(DispatchError::Stop { .. }) => Err(Trouble::Stopped),
        Err(error) => Err(Trouble::Fault(fault(&error))),
    }
}

/// The fault of the first instruction's fetch if the program has mapped its memory without leave to execute. Pages carry
/// that leave one by one; looking at the first one finds the program's mistake and costs running waves nothing.
fn not_executable(cx: &Cx<'_>, dispatch: &Dispatch) -> Option<QueueFault> {
    let address = dispatch.entry;
    let place = cx.device.memory().execution_forbidden(address)?;
    Some(QueueFault {
        code: error::MEMORY,
        text: format!(
            "kernel {}: instruction fetch at {address:#x}: the memory is not executable ({place}); it was allocated or \
             mapped without the EXECUTABLE flag",
            dispatch.name
        ),
        memory: Some(MemoryFault {
            address,
            write: false,
            fetch: true,
            kind: FaultKind::NotAccessible,
        }),
    })
}

fn fault(error: &DispatchError) -> QueueFault {
    let mut memory = None;
    let code = match error {
        DispatchError::Stopped { cause, .. } => match cause {
            Cause::Memory {
                access,
                address,
                kind,
                ..
            } => {
                if *kind != FaultKind::Misaligned {
                    memory = Some(MemoryFault {
                        address: *address,
                        write: *access != "load",
                        fetch: false,
                        kind: *kind,
                    });
                }
                error::MEMORY
            }
            Cause::Fetch { address, kind, .. } => {
                memory = Some(MemoryFault {
                    address: *address,
                    write: false,
                    fetch: true,
                    kind: *kind,
                });
                error::MEMORY
            }
            Cause::Lds { .. } => error::MEMORY,
            Cause::Trap { .. } | Cause::Plugin { .. } => error::TRAP,
            Cause::Undecodable { .. } | Cause::Unsupported { .. } | Cause::Illegal { .. } => {
                error::ILLEGAL_INSTRUCTION
            }
        },
        DispatchError::Lost { fault, .. } => {
            memory = Some(MemoryFault {
                address: fault.address,
                write: fault.write,
                fetch: false,
                kind: fault.kind,
            });
            error::MEMORY
        }
        DispatchError::Invalid { .. } => error::CODE_OBJECT,
        DispatchError::Scratch { .. } => error::MEMORY,
        // The hardware would hang; an end with a reason is better.
        DispatchError::Deadlock { .. }
        | DispatchError::Stop { .. }
        | DispatchError::Plugin { .. } => error::TRAP,
    };
    QueueFault {
        code,
        text: error.to_string(),
        memory,
    }
}

/// Scratch bytes of a wave, and how many waves there are, as TMPRING_SIZE says. From gfx11 on the number counts
/// for one shader engine; there may be more.
pub fn scratch_ring(target: Target, tmpring_size: u32) -> (u32, u32) {
    let wave_bytes = match target.generation() {
        9 | 10 => (tmpring_size >> 12 & 0x1fff) << 10,
        11 => (tmpring_size >> 12 & 0x7fff) << 8,
        _ => (tmpring_size >> 12 & 0x3_ffff) << 8,
    };
    (wave_bytes, tmpring_size & 0xfff)
}
