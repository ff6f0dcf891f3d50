//! A GPU with memory, and a driver that writes down what it is asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rocjitsu_gpu::code_object::{CodeObject, LoadOptions};
use rocjitsu_gpu::dispatch::{Device, Limits};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_gpu::queue::{DispatchReport, Engine, MemoryFault, Platform};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Observer, Silent};

/// What happened, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Interrupt(u32),
    WaveInterrupt(u32),
    Fault(MemoryFault),
    Finished {
        kernel: String,
        waves: Result<u64, String>,
    },
}

#[derive(Default)]
pub struct Recorder {
    pub events: Mutex<Vec<Event>>,
    pub packets: Mutex<Vec<(Engine, &'static str)>>,
    clock: AtomicU64,
}

impl Platform for Recorder {
    fn interrupt(&self, event_id: u32) {
        self.events.lock().unwrap().push(Event::Interrupt(event_id));
    }
    fn wave_interrupt(&self, data: u32) {
        self.events.lock().unwrap().push(Event::WaveInterrupt(data));
    }
    fn memory_fault(&self, fault: &MemoryFault) {
        self.events.lock().unwrap().push(Event::Fault(*fault));
    }
    fn clock(&self) -> u64 {
        1000 + self.clock.fetch_add(1, Ordering::Relaxed)
    }
    fn observer(&self) -> &dyn Observer {
        &Silent
    }
    fn packet(&self, engine: Engine, name: &'static str) {
        self.packets.lock().unwrap().push((engine, name));
    }
    fn finished(&self, ran: &DispatchReport<'_>) {
        let waves = ran.outcome.as_ref().map(|s| s.waves).map_err(Clone::clone);
        self.events.lock().unwrap().push(Event::Finished {
            kernel: ran.kernel.to_owned(),
            waves,
        });
    }
}

impl Recorder {
    /// The events since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// The packets since the last call.
    pub fn packets(&self) -> Vec<&'static str> {
        let packets = std::mem::take(&mut *self.packets.lock().unwrap());
        packets.into_iter().map(|(_, name)| name).collect()
    }
}

pub struct Rig {
    pub memory: Arc<Memory>,
    pub device: Device,
    pub platform: Recorder,
    pub stop: AtomicBool,
}

impl Rig {
    pub fn new(target: Target) -> Rig {
        Rig::with(target, 1)
    }

    pub fn with(target: Target, xccs: u32) -> Rig {
        let memory = Arc::new(Memory::new(1 << 32));
        let limits = Limits {
            compute_units: 8,
            waves_per_unit: 32,
            lds_per_unit: 65536,
            xccs,
        };
        let device = Device::new(target, Backend::best(), limits, memory.clone()).unwrap();
        Rig {
            memory,
            device,
            platform: Recorder::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Zeroed memory.
    pub fn room(&self, bytes: u64, label: &str) -> u64 {
        self.memory.allocate(&Request::new(bytes, label)).unwrap()
    }

    /// Memory that holds words.
    pub fn words(&self, words: &[u32], label: &str) -> u64 {
        let at = self.room(4 * words.len().max(1) as u64, label);
        self.write(at, words);
        at
    }

    pub fn write(&self, at: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.memory.write(at, &bytes).unwrap();
    }

    pub fn read(&self, at: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        self.memory.read(at, &mut bytes).unwrap();
        bytes
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect()
    }

    pub fn word(&self, at: u64) -> u32 {
        self.read(at, 1)[0]
    }

    pub fn long(&self, at: u64) -> u64 {
        let words = self.read(at, 2);
        u64::from(words[0]) | u64::from(words[1]) << 32
    }

    pub fn set_long(&self, at: u64, value: u64) {
        self.write(at, &[value as u32, (value >> 32) as u32]);
    }

    /// An `amd_signal_t` with a value and, if `event` is not 0, an event and its mailbox.
    pub fn signal(&self, value: i64, event: u32) -> u64 {
        let at = self.room(128, "signal");
        self.set_long(at, 1);
        self.set_long(at + 8, value as u64);
        if event != 0 {
            self.set_long(at + 16, at + 64);
            self.write(at + 24, &[event]);
        }
        at
    }

    pub fn value(&self, signal: u64) -> i64 {
        self.long(signal + 8) as i64
    }

    /// Code with a kernel descriptor 256 bytes in front of it: `rsrc1`, `rsrc2`, `rsrc3`, properties. Returns
    /// the descriptor's address.
    pub fn kernel(&self, code: &[u32], rsrc: [u32; 3], properties: u32) -> u64 {
        let mut words = vec![0; 64];
        words[4] = 256;
        words[11] = rsrc[2];
        words[12] = rsrc[0];
        words[13] = rsrc[1];
        words[14] = properties;
        words.extend(code);
        self.words(&words, "kernel")
    }

    /// Loads a code object of the corpus; returns the address of its only kernel's descriptor.
    pub fn corpus(&self, name: &str) -> u64 {
        let file = format!(
            "{}/../../data/corpus/built/{name}.{}.hsaco",
            env!("CARGO_MANIFEST_DIR"),
            self.device.target()
        );
        let object =
            CodeObject::parse(std::fs::read(file).unwrap(), &LoadOptions::default()).unwrap();
        let loaded = object.load(&self.memory, name).unwrap();
        loaded.descriptor_address(&object.kernels()[0])
    }
}

/// gfx942: `global_store_dword v1, v0, s[0:1]` with v1 = 4 * lane; then the end.
pub const STORE_IDS: [u32; 9] = [
    0xd28c_0001,
    0x0001_00c1, // v_mbcnt_lo_u32_b32 v1, -1, 0
    0xd28d_0001,
    0x0002_02c1, // v_mbcnt_hi_u32_b32 v1, -1, v1
    0x2402_0282, // v_lshlrev_b32 v1, 2, v1
    0xdc70_8000,
    0x0000_0001, // global_store_dword v1, v0, s[0:1]
    0xbf81_0000, // s_endpgm
    0xbf80_0000,
];

/// gfx9: `s_endpgm`.
pub const END: u32 = 0xbf81_0000;
