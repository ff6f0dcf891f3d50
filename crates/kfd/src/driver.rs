//! The driver of one process: what the preloaded library asks, by descriptor and by path.

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Weak};

use rocjitsu_config::Machine;
use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::{Arena, LENT, PAGE, lost, shared_range};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Plugins;
use rustix::io::Errno;

use crate::abi::Request;
use crate::buffer::{Account, Buffer, Buffers, Mmap};
use crate::conductor::Conductor;
use crate::context::Context;
use crate::descriptors::{Descriptors, Object};
use crate::drm::{DrmCall, RenderFile};
use crate::file::{self, Identity};
use crate::host;
use crate::process::ForkMark;
use crate::queue::CopyEngines;
use crate::redzone::RedZones;
use crate::report::{Executed, Recorder, Report};
use crate::smi::Monitors;
use crate::svm::{OwnFiles, Ranges};
use crate::table::{self, Call, Run};
use crate::topology::{Content, GpuIdentity, Kind, Lookup, ProcessFiles, Stat, Tree};
use crate::user::User;

/// Largest argument an ioctl request can name, 14 bits.
const ARGUMENT: usize = 1 << 14;

/// Why there is no driver.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot make the driver's {what}: {source}")]
    Host {
        what: &'static str,
        source: std::io::Error,
    },
    #[error("GPU {gpu}: `{target}` is no target that executes")]
    Target { gpu: String, target: String },
    #[error("this host has no lane back end `{0}`")]
    Lanes(String),
}

/// A GPU that the driver simulates.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) identity: GpuIdentity,
    pub(crate) target: Target,
    /// The file that its render nodes are views of: the memory that is allocated for it.
    pub(crate) arena: Arc<Arena>,
    /// The account of its device memory.
    pub(crate) vram: Arc<Account>,
    /// Its copy engines.
    pub(crate) sdma: Arc<CopyEngines>,
}

/// The simulated driver. One per process; every method may be called from any thread.
#[derive(Debug)]
pub struct Driver {
    machine: Machine,
    tree: Tree,
    gpus: Vec<Gpu>,
    /// The file that open `/dev/kfd`s are views of.
    kfd: Arc<Arena>,
    backend: Backend,
    /// The account of the system's memory that GPUs may have.
    gtt: Arc<Account>,
    descriptors: Descriptors,
    buffers: Buffers,
    /// Every open `/dev/kfd` that may still live.
    contexts: Mutex<Vec<Weak<Context>>>,
    user: User,
    recorder: Arc<Recorder>,
    /// Who listens to what happens to GPUs.
    monitors: Arc<Monitors>,
    /// What sysfs shows of this process.
    files: Arc<ProcessFiles>,
    /// The plugins that watch dispatches. A forked child's driver has none: their locks and files are the parent's.
    plugins: Option<Arc<Plugins>>,
    /// Room beside allocations, if plugins look for accesses that miss one.
    red_zones: Option<RedZones>,
    /// Who runs dispatches in the driver's place. A forked child's driver has nobody: the threads are the parent's.
    conductor: Option<Arc<dyn Conductor>>,
    fork: ForkMark,
}

impl Driver {
    /// A driver that simulates `machine`. One without GPUs has a topology of the processor alone.
    ///
    /// # Errors
    /// A GPU whose target does not execute, an unknown lane back end, or the host refuses memory files.
    pub fn new(machine: Machine) -> Result<Driver, Error> {
        let host = |what| move |source| Error::Host { what, source };
        let backend = match &machine.options.lanes {
            None => Backend::best(),
            Some(name) => Backend::from_name(name)
                .filter(|backend| backend.is_supported())
                .ok_or_else(|| Error::Lanes(name.clone()))?,
        };
        let mut tree = Tree::new(&machine);
        let mut gpus = Vec::new();
        for (identity, gpu) in tree.gpus().to_vec().into_iter().zip(&machine.gpus) {
            gpus.push(Gpu {
                identity,
                target: gpu.target.parse().map_err(|_| Error::Target {
                    gpu: gpu.name.clone(),
                    target: gpu.target.clone(),
                })?,
                arena: Arena::new("rocjitsu-gpu").map_err(host("memory file of a GPU"))?,
                vram: Account::new(gpu.vram_bytes),
                sdma: CopyEngines::new(gpu),
            });
        }
        let io = |what| move |error: Errno| host(what)(error.into());
        // `amdgpu_amdkfd_gpuvm.c`: all but a sixteenth.
        let system = machine.cpu.memory_bytes;
        let gtt = Account::new(system - system / 16);
        for gpu in &gpus {
            let minor = gpu.identity.render_minor;
            for (name, account) in [("vram", &gpu.vram), ("vis_vram", &gpu.vram), ("gtt", &gtt)] {
                let path = format!("/sys/class/drm/renderD{minor}/device/mem_info_{name}_used");
                let account = account.clone();
                let made = move || format!("{}\n", account.used()).into_bytes();
                tree.set_content(Path::new(&path), Content::Made(Arc::new(made)));
            }
        }
        let files = ProcessFiles::new();
        let accounts: Vec<_> = gpus.iter().map(|gpu: &Gpu| gpu.vram.clone()).collect();
        let used = move |gpu: usize| accounts.get(gpu).map_or(0, |account| account.used());
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        tree.add_process(pid.cast_unsigned(), &files, used);
        let recorder = Recorder::default();
        if machine.options.report.is_some() || machine.options.verbose > 0 {
            recorder.count_forms();
        }
        Ok(Driver {
            machine,
            tree,
            gpus,
            kfd: Arena::new("rocjitsu-kfd").map_err(host("doorbell file"))?,
            backend,
            gtt,
            descriptors: Descriptors::new(),
            buffers: Buffers::new(),
            contexts: Mutex::new(Rank::LEAF, Vec::new()),
            user: User::new().map_err(io("copy buffer"))?,
            recorder: Arc::new(recorder),
            monitors: Arc::default(),
            files,
            plugins: None,
            red_zones: None,
            conductor: None,
            fork: ForkMark::new().map_err(io("fork mark"))?,
        })
    }

    /// Lets plugins watch all dispatches from now on.
    #[must_use]
    pub fn with_plugins(mut self, plugins: Arc<Plugins>) -> Driver {
        self.plugins = Some(plugins);
        self
    }

    /// Leaves room of `bytes` bytes beside each allocation from now on, where the program lets the kernel choose addresses.
    ///
    /// # Errors
    /// The host refuses a file in memory.
    pub fn with_red_zones(mut self, bytes: u64) -> Result<Driver, Error> {
        let zones = RedZones::new(bytes).map_err(|errno| Error::Host {
            what: "file of red zones",
            source: errno.into(),
        })?;
        self.red_zones = Some(zones);
        Ok(self)
    }

    pub(crate) fn red_zones(&self) -> Option<&RedZones> {
        self.red_zones.as_ref()
    }

    /// Lets somebody else run all dispatches from now on.
    #[must_use]
    pub fn with_conductor(mut self, conductor: Arc<dyn Conductor>) -> Driver {
        self.conductor = Some(conductor);
        self
    }

    pub(crate) fn conductor(&self) -> Option<&Arc<dyn Conductor>> {
        self.conductor.as_ref()
    }

    /// The plugins that watch.
    pub fn plugins(&self) -> Option<&Arc<Plugins>> {
        self.plugins.as_ref()
    }

    /// A fresh driver for a forked child, which opens the devices anew, without helper threads for matrix instructions.
    /// Descriptors of this driver that the child inherited stay recognised there, and their ioctls give `EBADF`.
    ///
    /// # Errors
    /// As [`Driver::new`].
    pub fn renew(&self) -> Result<Driver, Error> {
        let mut machine = self.machine.clone();
        machine.options.helpers = 0;
        let fresh = Driver::new(machine)?;
        for fd in self.descriptors.marked() {
            // SAFETY: borrowed for one look at the file behind the number.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            let Ok(identity) = file::identity(borrowed) else {
                continue;
            };
            if self.kind_of(identity).is_some() {
                fresh.descriptors.insert(fd, identity, Object::Inherited);
            }
        }
        Ok(fresh)
    }

    /// Whether this process is a forked child of the one that the driver was made in. The child
    /// must not use this driver but [`Driver::renew`] it.
    pub fn is_forked(&self) -> bool {
        self.fork.is_forked()
    }

    /// What is simulated.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The virtual files and directories.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Opens a path if it is one of the driver's: `/dev/kfd`, `/dev/dri/renderD*`, or a file of
    /// the tree, of which the caller gets a copy. `None` for all other paths.
    ///
    /// `flags` are those of `open`. The descriptor belongs to the caller, who must tell the driver
    /// when the program closes it ([`Driver::closed`]) or duplicates it ([`Driver::duplicated`]).
    pub fn open(&self, path: &Path, flags: i32) -> Option<Result<OwnedFd, Errno>> {
        let Lookup::Found { path, node } = self.tree.lookup(path, true) else {
            return None;
        };
        match node.kind() {
            Kind::File if flags & libc::O_ACCMODE != libc::O_RDONLY => Some(Err(Errno::ACCESS)),
            Kind::File => Some(copy_of(&node.bytes().unwrap_or_default())),
            Kind::CharDevice if path == "/dev/kfd" => Some(self.open_kfd()),
            Kind::CharDevice => {
                let minor = path.strip_prefix("/dev/dri/renderD")?.parse::<u32>().ok()?;
                let mut minors = self.gpus.iter().map(|gpu| gpu.identity.render_minor);
                let index = minors.position(|other| other == minor)?;
                Some(self.open_render(index))
            }
            Kind::Dir | Kind::Link => None,
        }
    }

    fn open_kfd(&self) -> Result<OwnedFd, Errno> {
        let fd = self.kfd.reopen().map_err(errno)?.into_owned();
        self.files.open();
        let own = OwnFiles {
            kfd: self.kfd.identity(),
            gpus: self.gpus.iter().map(|gpu| gpu.arena.identity()).collect(),
        };
        let context = Arc::new(Context::new(self.gpus.len(), own));
        let mut contexts = self.contexts.lock();
        contexts.retain(|context| context.strong_count() > 0);
        contexts.push(Arc::downgrade(&context));
        drop(contexts);
        self.register(fd, self.kfd.identity(), Object::Kfd(context))
    }

    fn open_render(&self, index: usize) -> Result<OwnedFd, Errno> {
        let gpu = self.gpus.get(index).ok_or(Errno::NOENT)?;
        let fd = gpu.arena.reopen().map_err(errno)?.into_owned();
        let file = Arc::new(RenderFile::new(index));
        self.register(fd, gpu.arena.identity(), Object::Render(file))
    }

    fn register(&self, fd: OwnedFd, identity: Identity, object: Object) -> Result<OwnedFd, Errno> {
        if self.descriptors.insert(fd.as_raw_fd(), identity, object) {
            Ok(fd)
        } else {
            Err(Errno::MFILE)
        }
    }

    /// Runs an ioctl of the program. `None` if the descriptor is not the driver's.
    ///
    /// `arg` is the program's and may be any bits: a bad pointer gives `EFAULT`.
    pub fn ioctl(
        &self,
        fd: BorrowedFd<'_>,
        request: u32,
        arg: *mut c_void,
    ) -> Option<Result<i32, Errno>> {
        if self.is_forked() {
            return self.inherited(fd).then_some(Err(Errno::BADF));
        }
        let object = self.object(fd)?;
        Some(
            self.dispatch(&object, request.into(), arg as u64)
                .map(|()| 0),
        )
    }

    /// What a descriptor stands for. One that the program did not get by its own calls is one of its devices if the
    /// file says so: a duplicate that it has sent to itself, or else a render node opened through `/proc/self/fd`.
    fn object(&self, fd: BorrowedFd<'_>) -> Option<Object> {
        if let Some(object) = self.descriptors.get(fd) {
            return Some(object);
        }
        let identity = file::identity(fd).ok()?;
        let device = self.kind_of(identity)?;
        if shared_range(fd).is_some() {
            return None;
        }
        let object = self.descriptors.duplicate_of(fd, identity).or_else(|| {
            let minors = self.gpus.iter().map(|gpu| gpu.identity.render_minor);
            let index = minors
                .enumerate()
                .find(|(_, minor)| Some(*minor) == device)?
                .0;
            Some(Object::Render(Arc::new(RenderFile::new(index))))
        })?;
        let known = self
            .descriptors
            .insert(fd.as_raw_fd(), identity, object.clone());
        known.then_some(object)
    }

    /// In a forked child, where no lock may be taken: whether the descriptor is the parent's.
    fn inherited(&self, fd: BorrowedFd<'_>) -> bool {
        file::identity(fd).is_ok_and(|identity| self.kind_of(identity).is_some())
    }

    fn dispatch(&self, object: &Object, request: Request, arg: u64) -> Result<(), Errno> {
        let (index, table, kind) = match object {
            Object::Kfd(_) => (0, table::KFD, b'K'),
            Object::Render(_) => (1, table::DRM, b'd'),
            Object::Inherited => return Err(Errno::BADF),
        };
        let found = table::row(table, request.number).filter(|_| request.kind == kind);
        let Some((number, row)) = found else {
            self.recorder.unknown_ioctl(request.into());
            return Err(Errno::NOTTY);
        };
        let done = self.run(object, row, request, arg);
        self.recorder.ioctl(index, number, row.name, done);
        done
    }

    /// Copies the argument in, zero-extended, runs the handler, copies it back.
    fn run(
        &self,
        object: &Object,
        row: &table::Row,
        request: Request,
        arg: u64,
    ) -> Result<(), Errno> {
        let mut buffer = [0u8; 512];
        let mut large;
        let given = usize::from(request.size);
        let bytes = match given.max(usize::from(row.size)) {
            size @ 0..=512 => &mut buffer[..size],
            size => {
                large = vec![0; size.min(ARGUMENT)];
                &mut large[..]
            }
        };
        if row.direction.bits() & 1 != 0 && given > 0 {
            self.user.read(arg, &mut bytes[..given])?;
        }
        let done = match (object, row.run) {
            (Object::Kfd(context), Run::Kfd(run)) => run(
                &Call {
                    driver: self,
                    context,
                },
                bytes,
            ),
            (Object::Render(file), Run::Drm(run)) => run(&DrmCall { driver: self, file }, bytes),
            _ => Err(Errno::NOTTY),
        };
        if row.direction.bits() & 2 != 0 && given > 0 {
            self.user.write(arg, &bytes[..given])?;
        }
        done
    }

    /// Maps memory for the program where the native call would not do the right thing: buffers in another
    /// file than the descriptor's (of another process, of another GPU), dmabufs, what no buffer of this open render node
    /// is, and parts of `/dev/kfd` that are not exactly a GPU's doorbells. `None` if the caller should make the native
    /// call.
    pub fn mmap(
        &self,
        fd: BorrowedFd<'_>,
        addr: *mut c_void,
        len: usize,
        prot: i32,
        flags: i32,
        offset: i64,
    ) -> Option<Result<*mut c_void, Errno>> {
        let how = Mmap {
            address: addr,
            bytes: len,
            protection: prot,
            flags,
            offset: offset as u64,
        };
        match self.descriptors.get(fd) {
            Some(Object::Render(file)) => self.mmap_render(&file, &how),
            Some(Object::Kfd(context)) => {
                let bytes = (len as u64).next_multiple_of(PAGE);
                let good = context.may_map(how.offset, bytes);
                (!good).then_some(Err(Errno::INVAL))
            }
            Some(Object::Inherited) => None,
            None => {
                let (start, size) = shared_range(fd)?;
                Some(how.part(fd, start, size, how.offset))
            }
        }
    }

    /// As `drm_gem_mmap`: from the beginning of a buffer, and no further than it reaches. `EINVAL` where no buffer begins,
    /// `EACCES` for one that this open file has no name for.
    fn mmap_render(&self, file: &RenderFile, how: &Mmap) -> Option<Result<*mut c_void, Errno>> {
        let gpu = self.gpus.get(file.gpu)?;
        let found = self.buffers.at_offset(&gpu.arena, how.offset);
        let fits = |buffer: &Buffer| (how.bytes as u64).next_multiple_of(PAGE) <= buffer.bytes();
        let Some(buffer) = found.filter(|buffer| fits(buffer)) else {
            return Some(Err(Errno::INVAL));
        };
        if !file.names(&buffer) {
            return Some(Err(Errno::ACCESS));
        }
        self.buffers.mmap(how, &gpu.arena)
    }

    /// Whether a number may be a descriptor of one of the devices: one load.
    pub fn may_be_ours(&self, fd: RawFd) -> bool {
        self.descriptors.may_be_ours(fd)
    }

    /// The program has closed a descriptor, or is about to.
    pub fn closed(&self, fd: RawFd) {
        if self.descriptors.may_be_ours(fd) && self.in_own_process() {
            self.descriptors.remove(fd);
        }
    }

    /// The program has made `new` a duplicate of `old`; whatever `new` was before is forgotten.
    pub fn duplicated(&self, old: RawFd, new: RawFd) {
        if !self.in_own_process() || old == new {
            return;
        }
        // SAFETY: borrowed for one look at the file behind the number.
        let object = self
            .descriptors
            .may_be_ours(old)
            .then(|| self.descriptors.get(unsafe { BorrowedFd::borrow_raw(old) }))
            .flatten();
        match object {
            Some(object) => {
                // SAFETY: as above.
                if let Ok(identity) = file::identity(unsafe { BorrowedFd::borrow_raw(new) }) {
                    self.descriptors.insert(new, identity, object);
                }
            }
            None => self.descriptors.remove(new),
        }
    }

    /// Whether a descriptor is an open `/dev/kfd` or render node of this driver, or one inherited
    /// over a fork.
    pub fn is_ours(&self, fd: RawFd) -> bool {
        if !self.descriptors.may_be_ours(fd) {
            return false;
        }
        // SAFETY: borrowed for one look at the file behind the number.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        if self.is_forked() {
            self.inherited(fd)
        } else {
            self.descriptors.get(fd).is_some()
        }
    }

    /// Where `lseek(fd, 0, SEEK_END)` must arrive: the size of the buffer behind an exported
    /// dmabuf. `None` for all other descriptors.
    pub fn seek_end(&self, fd: BorrowedFd<'_>) -> Option<u64> {
        shared_range(fd).map(|(_, bytes)| bytes)
    }

    /// What `fstat` must say of a descriptor of one of the devices, wherever the program has it from: a character
    /// device. `None` for dmabufs and all that is not the driver's.
    pub fn stat_of_fd(&self, fd: BorrowedFd<'_>) -> Option<Stat> {
        let device = self.kind_of(file::identity(fd).ok()?)?;
        if shared_range(fd).is_some() {
            return None;
        }
        let path = match device {
            None => "/dev/kfd".to_owned(),
            Some(minor) => format!("/dev/dri/renderD{minor}"),
        };
        self.tree.stat(Path::new(&path))
    }

    /// The program's own memory in `[start, start + bytes)` is about to go away or to change
    /// its protection: GPUs lose it first.
    ///
    /// Whole pages go, as `munmap` takes them: also those that the range only touches.
    pub fn host_range_gone(&self, start: u64, bytes: u64) {
        self.host_range(start, bytes, Ranges::gone);
    }

    /// As [`Driver::host_range_gone`], and what is there afterwards is other memory: the program's attributes for it
    /// (SVM) are forgotten, as the kernel does when a mapping goes away.
    pub fn host_range_unmapped(&self, start: u64, bytes: u64) {
        self.host_range(start, bytes, Ranges::unmapped);
    }

    /// Whether a byte of the program's `[start, start + bytes)` may be lent to a GPU. Cheap: no lock, no system call.
    pub fn may_lend(&self, start: u64, bytes: u64) -> bool {
        let last = start.saturating_add(bytes).saturating_add(PAGE - 1);
        LENT.touches(start - start % PAGE, last)
    }

    /// The program is about to take away or replace memory of its own in `ranges`, each a start and bytes. GPUs lose it, and
    /// get back what is still there when the result is told what became of it. `None` if no GPU can have any.
    pub fn host_change(&self, ranges: &[(u64, u64)]) -> Option<HostChange> {
        if !ranges
            .iter()
            .any(|&(start, bytes)| self.may_lend(start, bytes))
            || !self.in_own_process()
        {
            return None;
        }
        let pages: Vec<_> = ranges
            .iter()
            .filter_map(|&(start, bytes)| whole_pages(start, bytes))
            .collect();
        let contexts = self.live_contexts();
        for context in &contexts {
            for range in &pages {
                context.ranges.leaves(range.start, range.end);
            }
        }
        let held = lost::hold(&pages);
        Some(HostChange {
            contexts,
            pages,
            held: Some(held),
        })
    }

    /// Bytes of the shared memory segment (System V) that is attached at `start`.
    pub fn host_segment(&self, start: u64) -> Option<u64> {
        let areas = host::areas(start, u64::MAX).ok()?;
        let first = areas.first().filter(|area| area.start == start)?;
        // `mprotect` may have parted it.
        let mut end = start;
        for area in &areas {
            if area.start != end || area.file != first.file {
                break;
            }
            end = area.end;
        }
        Some(end - start)
    }

    fn live_contexts(&self) -> Vec<Arc<Context>> {
        let contexts = self.contexts.lock();
        contexts.iter().filter_map(Weak::upgrade).collect()
    }

    fn host_range(&self, start: u64, bytes: u64, tell: impl Fn(&Ranges, u64, u64)) {
        if !self.may_lend(start, bytes) || !self.in_own_process() {
            return;
        }
        let Some(pages) = whole_pages(start, bytes) else {
            return;
        };
        for context in self.live_contexts() {
            tell(&context.ranges, pages.start, pages.end);
        }
    }

    /// A number that grows with everything that [`Driver::report`] tells of.
    pub fn changes(&self) -> u64 {
        self.recorder.changes()
    }

    /// What has happened up to now.
    pub fn report(&self) -> Report {
        let gpus = self.machine.gpus.iter();
        let mut executed = Executed::default();
        let contexts: Vec<_> = self
            .contexts
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for device in contexts.iter().flat_map(|context| context.devices()) {
            executed.add(device.usage());
        }
        Report {
            executed,
            gpus: gpus
                .map(|gpu| format!("{} ({})", gpu.name, gpu.target))
                .collect(),
            ..self.recorder.report().with_process()
        }
    }

    /// Which device a file is: `Some(None)` for `/dev/kfd`, the render minor for a GPU.
    fn kind_of(&self, identity: Identity) -> Option<Option<u32>> {
        if identity == self.kfd.identity() {
            return Some(None);
        }
        let gpu = self
            .gpus
            .iter()
            .find(|gpu| gpu.arena.identity() == identity)?;
        Some(Some(gpu.identity.render_minor))
    }

    /// Not in a forked child, nor in a child that still shares this memory (`vfork`) and closes
    /// descriptors of its own.
    fn in_own_process(&self) -> bool {
        self.fork.is_own_process()
    }

    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    pub(crate) fn files(&self) -> &Arc<ProcessFiles> {
        &self.files
    }

    pub(crate) fn monitors(&self) -> &Arc<Monitors> {
        &self.monitors
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// The file that open `/dev/kfd`s are views of.
    pub(crate) fn kfd_arena(&self) -> &Arc<Arena> {
        &self.kfd
    }

    /// Threads that a dispatch may use.
    pub(crate) fn threads(&self) -> usize {
        let chosen = self.machine.options.threads.map(|threads| threads as usize);
        chosen
            .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
            .unwrap_or(1)
    }

    /// Helper threads of the GPU with that index: its part of those that there are.
    pub(crate) fn helpers(&self, gpu: usize) -> usize {
        let (all, gpus) = (
            self.machine.options.helpers as usize,
            self.machine.gpus.len(),
        );
        all / gpus.max(1) + usize::from(gpu < all % gpus.max(1))
    }

    /// What computes the lanes.
    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    #[cfg(test)]
    pub(crate) fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// The account of the system's memory that GPUs may have.
    pub(crate) fn gtt(&self) -> &Arc<Account> {
        &self.gtt
    }

    pub(crate) fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The index of a `gpu_id`.
    ///
    /// # Errors
    /// `EINVAL` if no GPU has it.
    pub(crate) fn gpu_index(&self, gpu_id: u32) -> Result<usize, Errno> {
        self.gpus
            .iter()
            .position(|gpu| gpu.identity.gpu_id == gpu_id)
            .ok_or(Errno::INVAL)
    }

    /// The render file behind a descriptor.
    pub(crate) fn render_file(&self, fd: BorrowedFd<'_>) -> Option<Arc<RenderFile>> {
        match self.object(fd)? {
            Object::Render(file) => Some(file),
            _ => None,
        }
    }
}

/// The pages that `bytes` bytes at `start` touch.
fn whole_pages(start: u64, bytes: u64) -> Option<Range<u64>> {
    let first = start - start % PAGE;
    let end = start
        .checked_add(bytes)
        .and_then(|end| end.checked_next_multiple_of(PAGE))?;
    (end > first).then_some(first..end)
}

/// A change of the program's own memory under way ([`Driver::host_change`]). Dropped without a word, nothing has changed.
pub struct HostChange {
    contexts: Vec<Arc<Context>>,
    pages: Vec<Range<u64>>,
    held: Option<lost::Held>,
}

impl HostChange {
    /// The change is made. What is in `[start, start + bytes)` now is other memory, if anything: the program's attributes
    /// (SVM) for it are forgotten.
    pub fn replaced(&self, start: u64, bytes: u64) {
        if let Some(pages) = whole_pages(start, bytes) {
            for context in &self.contexts {
                context.ranges.forget(pages.start, pages.end);
            }
        }
    }
}

impl Drop for HostChange {
    fn drop(&mut self) {
        self.held = None;
        for context in &self.contexts {
            for range in &self.pages {
                context.ranges.has_left(range.start, range.end);
            }
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::NOMEM)
}

/// A file of its own with these bytes, its position at the start.
fn copy_of(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = file::memfd("rocjitsu-file", 0)?;
    let mut at = 0;
    while at < bytes.len() {
        at += rustix::io::pwrite(&fd, &bytes[at..], at as u64)?;
    }
    Ok(fd)
}
