//! The program's own memory on GPUs: ranges registered by SVM, user pointers, and all of it with XNACK; and
//! SET_XNACK_MODE. GPUs see the program's very pages; when the program changes its mappings they lose them, and a
//! later access asks here again.

mod attributes;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::{Access, LENT, Memory, PAGE, Pager, Storage, aside};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use self::attributes::{Change, Table};
use crate::abi::{SetXnackMode, Svm, SvmAttribute};
use crate::host::{self, Area};
use crate::table::{Call, Handled};

/// What GPUs may see of the program's memory in one context.
#[derive(Debug)]
pub(crate) struct Ranges {
    state: Mutex<State>,
    /// The files of the driver's own memory, which is not the program's to lend.
    own: OwnFiles,
}

/// Device and inode of the files that the driver keeps memory in.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles {
    /// Doorbells and the page of registers.
    pub(crate) kfd: (u64, u64),
    /// One for each GPU.
    pub(crate) gpus: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct State {
    xnack: bool,
    svm: Table,
    /// User pointers by GPU and address there.
    lent: BTreeMap<(usize, u64), Lent>,
    /// What the program is about to take away, whole pages of its own: nobody may have it until that is done.
    leaving: Vec<(u64, u64)>,
    /// The address map of each GPU that has one.
    memories: Vec<Option<Arc<Memory>>>,
}

/// A user pointer that is mapped for a GPU.
#[derive(Clone, Copy, Debug)]
struct Lent {
    bytes: u64,
    host: u64,
    access: Access,
}

/// A part of the program's memory and where a GPU sees it.
#[derive(Clone, Copy, Debug)]
struct View {
    /// Where the GPU sees the first byte.
    address: u64,
    /// Where the program has it.
    host: u64,
    bytes: u64,
    /// The most that the GPU may do.
    access: Access,
}

/// What the program said of an address.
#[derive(Clone, Copy, Debug)]
enum Registered {
    Nothing,
    /// This GPU may not have it.
    Refused,
    Seen(View),
}

impl State {
    /// What a GPU may see at `page`.
    fn registered(&self, gpu: usize, page: u64) -> Registered {
        let lent = self.lent.range(..=(gpu, page)).next_back();
        if let Some((&(owner, address), lent)) = lent
            && owner == gpu
            && page - address < lent.bytes
        {
            return Registered::Seen(View {
                address,
                host: lent.host,
                bytes: lent.bytes,
                access: lent.access,
            });
        }
        match self.svm.containing(page) {
            None => Registered::Nothing,
            Some((start, range)) if range.attributes.allows(gpu) => Registered::Seen(View {
                address: start,
                host: start,
                bytes: range.end - start,
                access: allowed(range.attributes.read_only()),
            }),
            Some(_) => Registered::Refused,
        }
    }
}

/// The part of an area around `page` that no range is registered in: all of it is as good as its page.
fn around(svm: &Table, page: u64, area: Area) -> View {
    let ranges = svm.overlapping(area.start, area.end);
    let below = ranges.iter().rev().find(|(_, range)| range.end <= page);
    let above = ranges.iter().find(|(start, _)| *start > page);
    let start = below.map_or(area.start, |(_, range)| range.end);
    let end = above.map_or(area.end, |(start, _)| *start);
    View {
        address: start,
        host: start,
        bytes: end - start,
        access: Access::ReadWrite,
    }
}

impl Ranges {
    pub(crate) fn new(gpus: usize, own: OwnFiles) -> Arc<Ranges> {
        let state = State {
            xnack: false,
            svm: Table::default(),
            lent: BTreeMap::new(),
            leaving: Vec::new(),
            memories: vec![None; gpus],
        };
        Arc::new(Ranges {
            state: Mutex::new(Rank::RANGES, state),
            own,
        })
    }

    /// Serves a GPU's address map from now on.
    pub(crate) fn attach(self: &Arc<Self>, gpu: usize, memory: &Arc<Memory>) {
        let ranges = Arc::downgrade(self);
        memory.set_pager(Arc::new(ContextPager { ranges, gpu }));
        let mut state = self.state.lock();
        if let Some(slot) = state.memories.get_mut(gpu) {
            *slot = Some(memory.clone());
        }
        // What was registered before comes when the GPU asks for it.
    }

    /// Checks that `[start, start + bytes)` is the program's, all of it mapped, and may be accessed.
    ///
    /// # Errors
    /// `EFAULT` for gaps, protections and device memory; `EINVAL` for doorbells and registers.
    pub(crate) fn check_host(&self, start: u64, bytes: u64, write: bool) -> Result<(), Errno> {
        let end = start.checked_add(bytes).ok_or(Errno::INVAL)?;
        let areas = host::areas(start, end)?;
        self.check_owner(&areas)?;
        let usable = |area: &Area| area.read && (area.write || !write);
        match host::covers(&areas, start, end) && areas.iter().all(usable) {
            true => Ok(()),
            false => Err(Errno::FAULT),
        }
    }

    fn check_owner(&self, areas: &[Area]) -> Result<(), Errno> {
        if areas.iter().any(|area| area.file == self.own.kfd) {
            return Err(Errno::INVAL);
        }
        match areas.iter().any(|area| self.is_foreign(area)) {
            true => Err(Errno::FAULT),
            false => Ok(()),
        }
    }

    /// Whether an area is not the program's own memory.
    fn is_foreign(&self, area: &Area) -> bool {
        area.special || area.file == self.own.kfd || self.own.gpus.contains(&area.file)
    }

    /// Whether an SVM range has a byte in `[start, start + bytes)`. A range that the program has unmapped meanwhile is
    /// forgotten.
    pub(crate) fn has_range(&self, start: u64, bytes: u64) -> Result<bool, Errno> {
        let end = start.checked_add(bytes).ok_or(Errno::INVAL)?;
        let mut state = self.state.lock();
        let mut live = false;
        for (start, range) in state.svm.overlapping(start, end) {
            if range.suspect {
                let areas = host::areas(start, range.end)?;
                let gone = !host::covers(&areas, start, range.end)
                    || areas.iter().any(|area| !area.read || self.is_foreign(area));
                if gone {
                    state.svm.remove(start, range.end);
                    continue;
                }
            }
            live = true;
        }
        Ok(live)
    }

    /// Maps a user pointer for a GPU; both addresses and `bytes` are whole pages.
    ///
    /// # Errors
    /// `EFAULT` if the program has unmapped it meanwhile.
    pub(crate) fn lend(
        &self,
        gpu: usize,
        memory: &Memory,
        address: u64,
        host: u64,
        bytes: u64,
        access: Access,
    ) -> Result<(), Errno> {
        LENT.note(host, host + bytes);
        let mut state = self.state.lock();
        self.map(
            memory,
            View {
                address,
                host,
                bytes,
                access,
            },
        )?;
        let lent = Lent {
            bytes,
            host,
            access,
        };
        state.lent.insert((gpu, address), lent);
        Ok(())
    }

    /// Takes a user pointer back.
    pub(crate) fn take_back(&self, gpu: usize, memory: &Memory, address: u64) {
        let mut state = self.state.lock();
        if let Some(lent) = state.lent.remove(&(gpu, address)) {
            // The range was mapped, so it is a good one.
            let _ = memory.unmap(address, lent.bytes);
        }
    }

    /// Maps what the program has in a view, wherever nothing is mapped yet: as far as its protections allow.
    fn map(&self, memory: &Memory, view: View) -> Result<(), Errno> {
        let end = view.host + view.bytes;
        for area in host::areas(view.host, end)? {
            self.map_area(memory, view, area);
        }
        Ok(())
    }

    /// Maps the part of a view that lies in an area. `false` if there is none that may be accessed.
    fn map_area(&self, memory: &Memory, view: View, area: Area) -> bool {
        let Some(part) = area.cut(view.host, view.host + view.bytes) else {
            return false;
        };
        if !part.read || self.is_foreign(&part) {
            return false;
        }
        let access = if part.write {
            view.access
        } else {
            Access::Read
        };
        let bytes = part.end - part.start;
        LENT.note(part.start, part.end);
        // SAFETY: the pages are mapped, with the protection that `access` asks for. When the program unmaps or
        // protects them, `take` takes them from all GPUs first; after a call of the kernel that the interposed library does
        // not see, an access is a fault of the GPU.
        let Ok(storage) = (unsafe { Storage::borrowed(part.start, bytes) }) else {
            return false;
        };
        let address = view.address + (part.start - view.host);
        memory
            .map_gaps(address, &storage, 0, bytes, access, "host memory")
            .is_ok()
    }

    /// The program changes its mappings in `[start, end)`, whole pages: GPUs lose them. Returns when no GPU uses them any more.
    pub(crate) fn gone(&self, start: u64, end: u64) {
        self.take(start, end, false);
    }

    /// As [`Ranges::gone`], and no GPU gets them back before [`Ranges::has_left`].
    pub(crate) fn leaves(&self, start: u64, end: u64) {
        self.take(start, end, true);
    }

    /// What [`Ranges::leaves`] said is done, or was not.
    pub(crate) fn has_left(&self, start: u64, end: u64) {
        let mut state = self.state.lock();
        let found = state.leaving.iter().position(|&one| one == (start, end));
        if let Some(at) = found {
            state.leaving.swap_remove(at);
        }
    }

    fn take(&self, start: u64, end: u64, leaves: bool) {
        let mut changed = Vec::new();
        let mut state = self.state.lock();
        let state_now = &mut *state;
        if leaves {
            state_now.leaving.push((start, end));
        }
        state_now.svm.suspect(start, end);
        let mut lose = |memory: &Arc<Memory>, start, bytes| {
            // Outside of what a GPU can address there is nothing.
            if memory
                .unmap_borrowed(start, bytes)
                .is_ok_and(|bytes| bytes > 0)
            {
                changed.push(memory.clone());
            }
        };
        for memory in state_now.memories.iter().flatten() {
            // SVM: the GPU's address is the program's.
            lose(memory, start, end - start);
        }
        for (&(gpu, address), lent) in &state_now.lent {
            let (first, last) = (lent.host.max(start), (lent.host + lent.bytes).min(end));
            if let Some(Some(memory)) = state_now.memories.get(gpu)
                && first < last
            {
                lose(memory, address + (first - lent.host), last - first);
            }
        }
        drop(state);
        // The accesses that are waited for may ask for pages meanwhile.
        for memory in changed {
            memory.settle();
        }
    }

    /// As [`Ranges::gone`], and the ranges there are no more.
    pub(crate) fn unmapped(&self, start: u64, end: u64) {
        self.gone(start, end);
        self.forget(start, end);
    }

    /// What is in `[start, end)` is other memory now: the attributes of ranges there are gone.
    pub(crate) fn forget(&self, start: u64, end: u64) {
        self.state.lock().svm.remove(start, end);
    }

    /// Maps what a GPU may see at `address`, if there is something.
    fn page_in(&self, gpu: usize, memory: &Memory, address: u64) -> bool {
        let page = address - address % PAGE;
        let (state, registered, host) = loop {
            let state = self.state.lock();
            let registered = match state.registered(gpu, page) {
                Registered::Nothing if !state.xnack => return false,
                Registered::Nothing => None,
                Registered::Refused => return false,
                Registered::Seen(view) => Some(view),
            };
            let host = registered.map_or(page, |view| view.host + (page - view.address));
            let leaves = |&(start, end): &(u64, u64)| start <= host && host < end;
            if !state.leaving.iter().any(leaves) {
                break (state, registered, host);
            }
            drop(state);
            // Whether there is something afterwards is known then.
            aside(|| std::thread::sleep(LEAVING));
        };
        let Ok(areas) = host::areas(host, host + 1) else {
            return false;
        };
        let Some(&area) = areas.first() else {
            return false;
        };
        let view = registered.unwrap_or_else(|| around(&state.svm, page, area));
        self.map_area(memory, view, area)
    }

    /// Whether page faults are retried.
    pub(crate) fn xnack(&self) -> bool {
        self.state.lock().xnack
    }

    fn set_xnack(&self, on: bool) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.xnack, on) && !on {
            for memory in state.memories.iter().flatten() {
                // What is registered comes back when a GPU asks for it.
                let _ = memory.unmap_borrowed(PAGE, ADDRESSES - PAGE);
            }
        }
    }

    /// Sets attributes of `[start, end)`.
    fn set(&self, start: u64, end: u64, changes: &[Change]) -> Result<(), Errno> {
        let areas = host::areas(start, end)?;
        self.check_owner(&areas)?;
        if !host::covers(&areas, start, end) {
            return Err(Errno::FAULT);
        }
        LENT.note(start, end);
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let gpus = state.memories.len();
        state.svm.set(start, end, changes, state.xnack, gpus);
        for (gpu, memory) in state.memories.iter().enumerate() {
            let Some(memory) = memory else { continue };
            let _ = memory.unmap_borrowed(start, end - start);
            if state.xnack {
                continue;
            }
            for (start, range) in state.svm.overlapping(start, end) {
                if range.attributes.allows(gpu) {
                    let view = View {
                        address: start,
                        host: start,
                        bytes: range.end - start,
                        access: allowed(range.attributes.read_only()),
                    };
                    areas.iter().for_each(|&area| {
                        self.map_area(memory, view, area);
                    });
                }
            }
        }
        let memories: Vec<_> = state.memories.iter().flatten().cloned().collect();
        drop(locked);
        for memory in memories {
            memory.settle();
        }
        Ok(())
    }
}

impl Drop for Ranges {
    fn drop(&mut self) {
        let state = self.state.lock();
        for memory in state.memories.iter().flatten() {
            let _ = memory.unmap_borrowed(PAGE, ADDRESSES - PAGE);
        }
    }
}

/// How long an access sleeps until it looks again whether the program has taken away what it is taking away.
const LEAVING: Duration = Duration::from_micros(50);

/// End of the addresses that a program on x86-64 can have.
const ADDRESSES: u64 = 0x7fff_ffff_f000;

fn allowed(read_only: bool) -> Access {
    if read_only {
        Access::Read
    } else {
        Access::ReadWrite
    }
}

/// What a GPU's address map asks when nothing is mapped. The map may outlive the context.
#[derive(Debug)]
struct ContextPager {
    ranges: Weak<Ranges>,
    gpu: usize,
}

impl Pager for ContextPager {
    fn page_in(&self, memory: &Memory, address: u64) -> bool {
        self.ranges
            .upgrade()
            .is_some_and(|ranges| address < ADDRESSES && ranges.page_in(self.gpu, memory, address))
    }
}

/// `KFD_IOCTL_SVM_OP_SET_ATTR` and `_GET_ATTR`.
const SET: u32 = 0;
const GET: u32 = 1;

/// SVM: [`Svm`] followed by its attributes, in place.
pub(crate) fn svm(call: &Call<'_>, args: &mut [u8]) -> Handled {
    let (head, rest) = Svm::read_from_prefix(args).map_err(|_| Errno::INVAL)?;
    let (start, bytes) = (head.start_addr, head.size);
    let aligned = start.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE);
    if !aligned || start == 0 || bytes == 0 {
        return Err(Errno::INVAL);
    }
    let end = start.checked_add(bytes).filter(|&end| end <= ADDRESSES);
    let end = end.ok_or(Errno::FAULT)?;
    let length = (head.nattr as usize)
        .checked_mul(size_of::<SvmAttribute>())
        .ok_or(Errno::INVAL)?;
    let list = rest.get(..length).ok_or(Errno::INVAL)?;
    let mut attributes = vec![SvmAttribute::default(); head.nattr as usize];
    attributes
        .as_mut_slice()
        .as_mut_bytes()
        .copy_from_slice(list);
    let gpu = |gpu_id| call.driver.gpu_index(gpu_id);
    let ranges = &call.context.ranges;
    match head.op {
        SET => {
            let changes = attributes
                .iter()
                .map(|&attribute| Change::new(attribute, gpu))
                .collect::<Result<Vec<_>, _>>()?;
            call.context
                .allocations
                .apart_from(start, bytes, || ranges.set(start, end, &changes))
        }
        GET => {
            let areas = host::areas(start, end)?;
            if !host::covers(&areas, start, end) {
                return Err(Errno::FAULT);
            }
            let state = ranges.state.lock();
            let first = (state.xnack, state.memories.len());
            state.svm.get(start, end, &mut attributes, first, gpu)?;
            drop(state);
            let from = size_of::<Svm>();
            let to = args.get_mut(from..from + length).ok_or(Errno::INVAL)?;
            to.copy_from_slice(attributes.as_slice().as_bytes());
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

/// Whether GPUs of a target can retry page faults for one process and not for another (`amdkfd`'s
/// `KFD_SUPPORT_XNACK_PER_PROCESS`).
fn can_retry(target: &str) -> bool {
    matches!(target, "gfx90a" | "gfx942" | "gfx950")
}

pub(crate) fn set_xnack_mode(call: &Call<'_>, args: &mut SetXnackMode) -> Handled {
    let ranges = &call.context.ranges;
    if args.xnack_enabled < 0 {
        args.xnack_enabled = i32::from(ranges.xnack());
        return Ok(());
    }
    if call.context.queues.count() > 0 {
        return Err(Errno::BUSY);
    }
    let on = args.xnack_enabled > 0;
    let mut gpus = call.driver.machine().gpus.iter();
    if on && !gpus.all(|gpu| can_retry(&gpu.target)) {
        return Err(Errno::PERM);
    }
    ranges.set_xnack(on);
    Ok(())
}
