//! Compiled code in memory, and the call into it.

use std::sync::{Arc, Mutex};

use rocjitsu_lanes::trace::graph::{Graph, Node};

use super::assembler::CompileError;
use super::collect::Run;
use super::host::Host;
use super::memory::{Arena, Region};
use super::{Area, emit};
use crate::registers::{PagePool, VectorRegisters};

/// Compiled code: addresses of pages, the scalar file, the [`Area`].
type Entry = unsafe extern "sysv64" fn(*const *const u8, *mut u32, *mut u32);

/// Code of one run.
pub struct Code {
    /// For waves with all lanes active.
    full: Entry,
    /// For other waves.
    partial: Entry,
    /// Pages of registers that it writes.
    pages: u32,
    /// Page by page the registers that it writes and does not read before, if all lanes are active.
    overwritten: Box<[u32]>,
    /// What the code lies in.
    _regions: [Arc<Region>; 2],
}

impl Code {
    /// Executes the run for one wave; `full` says that all its lanes are active.
    ///
    /// # Safety
    /// The host has the vector instructions that the code was compiled for; `v` has as many lanes as the code was compiled for; `scalars` is the wave's scalar file.
    #[inline(always)]
    pub unsafe fn run(
        &self,
        full: bool,
        v: &mut VectorRegisters,
        pool: &mut PagePool,
        scalars: &mut [u32; crate::wave::scalar::COUNT],
        area: &mut Area,
    ) {
        let entry = if full {
            v.claim_over(self.pages, &self.overwritten, pool);
            self.full
        } else {
            v.claim(self.pages, pool);
            self.partial
        };
        // SAFETY: the code reads any page and writes those just claimed, the masks of the scalar file that its
        // records name, and rows of the area; it keeps to the calling convention.
        unsafe {
            entry(
                v.page_bases(),
                scalars.as_mut_ptr(),
                std::ptr::from_mut(area).cast(),
            );
        }
    }
}

/// Where code is put.
pub struct Native {
    host: Host,
    arena: Mutex<Arena>,
}

impl Native {
    /// Memory for code for `host`.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new(host: Host) -> Result<Native, String> {
        let mut arena = Arena::default();
        arena
            .place(1)
            .map_err(|error| format!("no memory for code: {error}"))?;
        Ok(Native {
            host,
            arena: Mutex::new(arena),
        })
    }

    /// Lets go of the region that is being filled.
    pub fn reset(&self) {
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner());
        arena.reset();
    }

    /// Whether there is code for a node.
    pub fn supports(&self, graph: &Graph, node: &Node) -> bool {
        self.host.supports(graph, node)
    }

    /// Compiles a run for waves of `lanes` lanes. Returns the code and how many bytes it has.
    pub fn compile(&self, run: &Run, lanes: u32) -> Result<(Code, usize), CompileError> {
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner());
        let mut variant = |full| -> Result<_, CompileError> {
            let adapted = self.host.adapt(run, full);
            let run = adapted.as_ref().unwrap_or(run);
            let address = arena.place(emit::bound(run))?;
            let emitted = emit::emit(run, self.host, lanes, full, address)?;
            let region = arena
                .put(&emitted.bytes)
                .ok_or(CompileError::Room("code longer than announced"))?;
            let entry = std::ptr::with_exposed_provenance::<()>(address as usize + emitted.entry);
            // SAFETY: the address is that of the code just put there, which is a function of this type.
            let entry = unsafe { std::mem::transmute::<*const (), Entry>(entry) };
            Ok((entry, region, emitted.bytes.len()))
        };
        let (full, first, bytes) = variant(true)?;
        let (partial, second, more) = variant(false)?;
        let code = Code {
            full,
            partial,
            pages: run.pages,
            overwritten: run.overwritten(lanes),
            _regions: [first, second],
        };
        Ok((code, bytes + more))
    }
}
