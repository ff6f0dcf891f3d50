//! The structures of `include/rocjitsu_plugin.h`, in its order, and the functions that the host offers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use rocjitsu_isa::RegFile;
use rocjitsu_observe::{Family, Instruction, Lines, State};
use serde_json::Value;

/// `ROCJITSU_PLUGIN_ABI`.
pub const VERSION: u32 = 2;
/// `ROCJITSU_PLUGIN_MINOR`.
pub const MINOR: u32 = 1;

/// `ROCJITSU_ONE_THREAD` of `rocjitsu_threads`.
pub const ONE_THREAD: u32 = 1;
/// `ROCJITSU_CONCURRENT` of `rocjitsu_threads`.
pub const CONCURRENT: u32 = 2;

/// `rocjitsu_code`.
#[repr(C)]
pub struct Code {
    base: u64,
    file: *const c_void,
    bytes: usize,
}

impl Code {
    pub fn of(code: &rocjitsu_observe::Code<'_>) -> Code {
        Code {
            base: code.base,
            file: code.file.as_ptr().cast(),
            bytes: code.file.len(),
        }
    }
}

/// `rocjitsu_dispatch`.
#[repr(C)]
pub struct Dispatch {
    id: u64,
    queue: u64,
    entry: u64,
    kernarg: u64,
    workgroups: u64,
    kernel: *const c_char,
    target: *const c_char,
    grid: [u32; 3],
    workgroup: [u32; 3],
    wave_size: u32,
    lds_bytes: u32,
    scratch_bytes: u32,
    kernarg_bytes: u32,
    waves_per_workgroup: u32,
    cluster: [u32; 3],
    given_sgprs: u32,
    given_vgprs: u32,
    gpu: u64,
}

impl Dispatch {
    pub fn of(dispatch: &rocjitsu_observe::Dispatch<'_>, kernel: &CStr, target: &CStr) -> Dispatch {
        Dispatch {
            id: dispatch.id,
            queue: dispatch.queue,
            entry: dispatch.entry,
            kernarg: dispatch.kernarg,
            workgroups: dispatch.workgroups,
            kernel: kernel.as_ptr(),
            target: target.as_ptr(),
            grid: dispatch.grid,
            workgroup: dispatch.workgroup,
            wave_size: dispatch.lanes,
            lds_bytes: dispatch.lds,
            scratch_bytes: dispatch.scratch,
            kernarg_bytes: dispatch.kernarg_bytes,
            waves_per_workgroup: dispatch.waves_per_workgroup,
            cluster: dispatch.cluster,
            given_sgprs: dispatch.given.sgprs.into(),
            given_vgprs: dispatch.given.vgprs.into(),
            gpu: dispatch.gpu() as u64,
        }
    }
}

/// `rocjitsu_end`.
#[repr(C)]
pub struct End {
    id: u64,
    wave_instructions: u64,
    waves: u64,
    seconds: f64,
    error: *const c_char,
    kernel: *const c_char,
    families: [u64; Family::ALL.len()],
}

impl End {
    pub fn of(ended: &rocjitsu_observe::Ended<'_>, kernel: &CStr, error: Option<&CStr>) -> End {
        End {
            id: ended.id,
            wave_instructions: ended.instructions,
            waves: ended.waves,
            seconds: ended.seconds,
            error: error.map_or(std::ptr::null(), CStr::as_ptr),
            kernel: kernel.as_ptr(),
            families: ended.families,
        }
    }
}

/// `rocjitsu_workgroup`.
#[repr(C)]
pub struct Workgroup {
    dispatch: u64,
    number: u64,
    id: [u32; 3],
    waves: u32,
    lds_bytes: u32,
}

impl Workgroup {
    pub fn of(workgroup: &rocjitsu_observe::Workgroup) -> Workgroup {
        Workgroup {
            dispatch: workgroup.dispatch,
            number: workgroup.linear,
            id: workgroup.id,
            waves: workgroup.waves,
            lds_bytes: workgroup.lds,
        }
    }
}

/// `rocjitsu_wave`.
#[repr(C)]
pub struct Wave {
    dispatch: u64,
    workgroup: u64,
    id: [u32; 3],
    index: u32,
    lanes: u32,
}

impl Wave {
    pub fn of(wave: &rocjitsu_observe::Wave) -> Wave {
        Wave {
            dispatch: wave.dispatch,
            workgroup: wave.group,
            id: wave.workgroup,
            index: wave.index,
            lanes: wave.lanes,
        }
    }
}

/// `rocjitsu_step`.
#[repr(C)]
pub struct Step {
    wave: Wave,
    pc: u64,
    next_pc: u64,
    exec: u64,
    mnemonic: *const c_char,
    family: u32,
    instruction: *const c_void,
    state: *const c_void,
}

/// What [`Step::state`] points to; null where an event has none.
type StateBox<'s> = &'s dyn State;

/// Calls `call` with a step that is good until it returns.
pub fn with_step<R>(
    step: &rocjitsu_observe::Step<'_>,
    state: Option<&dyn State>,
    call: impl FnOnce(*const Step) -> R,
) -> R {
    let mnemonic = string(step.instruction.mnemonic());
    let step = Step {
        wave: Wave::of(step.wave),
        pc: step.instruction.pc,
        next_pc: step.instruction.next_pc,
        exec: step.exec,
        mnemonic: mnemonic.as_ptr(),
        family: step.instruction.family as u32,
        instruction: std::ptr::from_ref(step.instruction).cast(),
        state: match &state {
            Some(state) => std::ptr::from_ref::<StateBox<'_>>(state).cast(),
            None => std::ptr::null(),
        },
    };
    call(&step)
}

/// `rocjitsu_access`.
#[repr(C)]
pub struct Access {
    address: u64,
    bytes: u32,
    space: u8,
    kind: u8,
    scope: u8,
    lane: u8,
}

impl Access {
    pub fn of(access: &rocjitsu_observe::Access) -> Access {
        Access {
            address: access.address,
            bytes: access.bytes,
            space: access.space as u8,
            kind: access.kind as u8,
            scope: access.scope as u8,
            lane: access.lane,
        }
    }
}

/// `rocjitsu_touch`.
#[repr(C)]
pub struct Touch {
    lanes: u64,
    number: u16,
    file: u8,
    bytes: u8,
}

impl Touch {
    pub fn of(touch: &rocjitsu_observe::Touch) -> Touch {
        Touch {
            lanes: touch.lanes,
            number: touch.register,
            file: match touch.file {
                RegFile::Vgpr => 0,
                RegFile::Agpr => 1,
                RegFile::Sgpr => 2,
                RegFile::Scc => 3,
                _ => 4,
            },
            bytes: touch.bytes,
        }
    }
}

/// `rocjitsu_host`.
#[repr(C)]
pub struct Host {
    abi: u32,
    minor: u32,
    vgpr: extern "C" fn(*const c_void, u32, u32) -> u32,
    agpr: extern "C" fn(*const c_void, u32, u32) -> u32,
    sgpr: extern "C" fn(*const c_void, u32) -> u32,
    read: extern "C" fn(*const c_void, u64, *mut c_void, usize) -> c_int,
    text: extern "C" fn(*const c_void, *mut c_char, usize) -> usize,
    lds: extern "C" fn(*const c_void, u32, *mut c_void, usize) -> c_int,
    scc: extern "C" fn(*const c_void) -> u32,
    mode: extern "C" fn(*const c_void) -> u32,
    record: extern "C" fn(*const Host, *const c_char) -> c_int,
}

/// What a plugin is given: the functions, and behind them where its records go.
#[repr(C)]
pub struct OwnHost {
    host: Host,
    /// What its records name it.
    name: String,
    lines: Lines,
}

impl OwnHost {
    /// That of a plugin whose records name it so.
    pub fn new(name: String, lines: Lines) -> OwnHost {
        OwnHost {
            host: Host {
                abi: VERSION,
                minor: MINOR,
                vgpr,
                agpr,
                sgpr,
                read,
                text,
                lds,
                scc,
                mode,
                record,
            },
            name,
            lines,
        }
    }

    /// Makes sure that all records are written.
    pub fn flush(&self) -> Result<(), String> {
        self.lines.flush()
    }

    fn record(&self, text: &str) -> Option<()> {
        let Ok(Value::Object(mut record)) = serde_json::from_str(text) else {
            return None;
        };
        record.insert("plugin".to_owned(), self.name.as_str().into());
        self.lines.line(&Value::from(record).to_string()).ok()
    }
}

extern "C" fn record(host: *const Host, json: *const c_char) -> c_int {
    if host.is_null() || json.is_null() {
        return -1;
    }
    // SAFETY: the header asks for the host that `create` was given, which is the first part of this structure and lives as
    // long as the plugin; and for a string.
    let (host, text) = unsafe { (&*host.cast::<OwnHost>(), CStr::from_ptr(json)) };
    let written = text.to_str().ok().and_then(|text| host.record(text));
    if written.is_some() { 0 } else { -1 }
}

/// The state behind a pointer of a step.
fn state<'s>(pointer: *const c_void) -> Option<StateBox<'s>> {
    // SAFETY: the header asks for the pointer of the step that the callback was given, which points to a
    // reference that lives until the callback returns, or is null.
    unsafe { pointer.cast::<StateBox<'s>>().as_ref() }.copied()
}

fn lane(row: &[u32], lane: u32) -> u32 {
    row.get(lane as usize).copied().unwrap_or(0)
}

extern "C" fn vgpr(pointer: *const c_void, number: u32, at: u32) -> u32 {
    state(pointer).map_or(0, |state| lane(state.vgpr(number as u16), at))
}

extern "C" fn agpr(pointer: *const c_void, number: u32, at: u32) -> u32 {
    state(pointer).map_or(0, |state| lane(state.agpr(number as u16), at))
}

extern "C" fn sgpr(pointer: *const c_void, number: u32) -> u32 {
    state(pointer).map_or(0, |state| state.sgpr(number as u16))
}

extern "C" fn read(pointer: *const c_void, address: u64, to: *mut c_void, bytes: usize) -> c_int {
    let mut copy = vec![0; bytes];
    match state(pointer) {
        Some(state) if state.read(address, &mut copy) => {
            // SAFETY: the caller gives room for `bytes` bytes.
            unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), to.cast(), bytes) };
            0
        }
        _ => -1,
    }
}

extern "C" fn lds(pointer: *const c_void, address: u32, to: *mut c_void, bytes: usize) -> c_int {
    let Some(state) = state(pointer) else {
        return -1;
    };
    let from = state.lds().get(address as usize..);
    let Some(from) = from.and_then(|from| from.get(..bytes)) else {
        return -1;
    };
    // SAFETY: the caller gives room for `bytes` bytes.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), bytes) };
    0
}

extern "C" fn scc(pointer: *const c_void) -> u32 {
    state(pointer).map_or(0, |state| state.scc().into())
}

extern "C" fn mode(pointer: *const c_void) -> u32 {
    state(pointer).map_or(0, |state| state.mode())
}

extern "C" fn text(instruction: *const c_void, to: *mut c_char, bytes: usize) -> usize {
    // SAFETY: the header asks for the pointer of the step that the callback was given.
    let Some(instruction) = (unsafe { instruction.cast::<Instruction>().as_ref() }) else {
        return 0;
    };
    let text = instruction.text();
    if let Some(room) = bytes.checked_sub(1) {
        let length = text.len().min(room);
        // SAFETY: the caller gives room for `bytes` bytes, of which these are the first `length + 1`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), length);
            to.add(length).write(0);
        }
    }
    text.len()
}

/// A C string; what follows a zero is left out.
pub fn string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// A callback with a step.
pub type OnStep = extern "C" fn(*mut c_void, *const Step) -> c_int;
/// A callback with registers.
pub type OnTouched = extern "C" fn(*mut c_void, *const Step, *const Touch, usize) -> c_int;

/// `rocjitsu_plugin`.
#[repr(C)]
pub struct Description {
    abi: u32,
    pub events: u32,
    pub threads: u32,
    /// Was padding in minor version 0, which compilers fill with zeros.
    pub minor: u32,
    pub schema: *const c_char,
    pub create:
        Option<extern "C" fn(*const Host, *const c_char, *mut c_char, usize) -> *mut c_void>,
    pub destroy: Option<extern "C" fn(*mut c_void)>,
    pub error: Option<extern "C" fn(*mut c_void) -> *const c_char>,
    pub dispatch_begins: Option<extern "C" fn(*mut c_void, *const Dispatch) -> c_int>,
    pub dispatch_ends: Option<extern "C" fn(*mut c_void, *const End) -> c_int>,
    pub workgroup_begins: Option<extern "C" fn(*mut c_void, *const Workgroup) -> c_int>,
    pub workgroup_ends: Option<extern "C" fn(*mut c_void, *const Workgroup) -> c_int>,
    pub wave_begins: Option<extern "C" fn(*mut c_void, *const Wave) -> c_int>,
    pub wave_ends: Option<extern "C" fn(*mut c_void, *const Wave) -> c_int>,
    pub before: Option<OnStep>,
    pub after: Option<OnStep>,
    pub reads: Option<OnTouched>,
    pub writes: Option<OnTouched>,
    pub accesses: Option<extern "C" fn(*mut c_void, *const Step, *const Access, usize) -> c_int>,
    pub barrier: Option<extern "C" fn(*mut c_void, *const Step, c_int, u32, u32) -> c_int>,
    pub matrix: Option<OnStep>,
    pub finish: Option<extern "C" fn(*mut c_void) -> c_int>,
    pub code_loaded: Option<extern "C" fn(*mut c_void, *const Code) -> c_int>,
}
