//! `/sys/class/kfd/kfd/proc`: this process, once it has opened `/dev/kfd`, and its queues (`kfd_process.c`). What other processes
//! simulate is theirs to know: nothing is shared between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rocjitsu_gpu::lock::{Mutex, Rank};

use super::nodes::KFD;
use super::tree::Present;
use super::{GpuIdentity, Tree};

/// Queues that have a directory; no runtime makes more.
const QUEUES: usize = 128;
/// The first address space number that the kernel gives a process.
const PASID: u32 = 0x8000;

/// What the directory shows.
#[derive(Debug)]
pub(crate) struct ProcessFiles {
    opened: AtomicBool,
    queues: Mutex<[Option<QueueFiles>; QUEUES]>,
}

/// A queue as the directory shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueFiles {
    pub(crate) gpu_id: u32,
    /// Bytes of the ring.
    pub(crate) bytes: u32,
    /// As CREATE_QUEUE has it.
    pub(crate) kind: u32,
}

/// A queue's directory, gone when dropped. Queues beyond the last directory have none.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    files: Arc<ProcessFiles>,
    place: Option<usize>,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.files.queues.lock()[place] = None;
        }
    }
}

impl ProcessFiles {
    pub(crate) fn new() -> Arc<ProcessFiles> {
        Arc::new(ProcessFiles {
            opened: AtomicBool::new(false),
            queues: Mutex::new(Rank::LEAF, [None; QUEUES]),
        })
    }

    /// The process has opened `/dev/kfd`.
    pub(crate) fn open(&self) {
        self.opened.store(true, Ordering::Relaxed);
    }

    /// Shows a queue under the lowest number that is free, as the kernel numbers them.
    pub(crate) fn enter(self: &Arc<Self>, queue: QueueFiles) -> QueueEntry {
        let mut queues = self.queues.lock();
        let place = queues.iter().position(Option::is_none);
        if let Some(place) = place {
            queues[place] = Some(queue);
        }
        drop(queues);
        let files = self.clone();
        QueueEntry { files, place }
    }

    fn queue(&self, place: usize) -> Option<QueueFiles> {
        self.queues.lock().get(place).copied().flatten()
    }
}

impl Tree {
    /// Adds the directory of process `pid`; `used` says how many bytes of a GPU's memory it has.
    pub(crate) fn add_process(
        &mut self,
        pid: u32,
        files: &Arc<ProcessFiles>,
        used: impl Fn(usize) -> u64 + Clone + Send + Sync + 'static,
    ) {
        let path = format!("{KFD}/proc/{pid}");
        let of = files.clone();
        let opened = move || of.opened.load(Ordering::Relaxed);
        self.own_while(&path, Present(Arc::new(opened)));
        self.file(&format!("{path}/pasid"), format!("{PASID}\n"));
        for (index, GpuIdentity { gpu_id, .. }) in self.gpus().to_vec().into_iter().enumerate() {
            let used = used.clone();
            let made = move || format!("{}\n", used(index)).into_bytes();
            self.made(&format!("{path}/vram_{gpu_id}"), made);
            // Microseconds of copy engines, and what the scheduler knows: not kept.
            self.file(&format!("{path}/sdma_{gpu_id}"), "0\n");
            self.file(&format!("{path}/stats_{gpu_id}/evicted_ms"), "0\n");
            self.file(&format!("{path}/stats_{gpu_id}/cu_occupancy"), "0\n");
        }
        self.own(&format!("{path}/queues"));
        for place in 0..QUEUES {
            let path = format!("{path}/queues/{place}");
            let of = files.clone();
            let there = move || of.queue(place).is_some();
            self.own_while(&path, Present(Arc::new(there)));
            type Field = fn(QueueFiles) -> u32;
            let fields: [(&str, Field); 3] = [
                ("gpuid", |queue| queue.gpu_id),
                ("size", |queue| queue.bytes),
                ("type", |queue| queue.kind),
            ];
            for (name, field) in fields {
                let of = files.clone();
                let made = move || {
                    of.queue(place)
                        .map_or(Vec::new(), |queue| field(queue).to_string().into_bytes())
                };
                self.made(&format!("{path}/{name}"), made);
            }
        }
    }
}
