//! Compiled code in memory, and the call into it.

use std::sync::{Arc, Mutex};

use rocjitsu_lanes::trace::graph::{Graph, Node};

use super::assembler::CompileError;
use super::chain::{Chain, Member};
use super::collect::Run;
use super::host::Host;
use super::memory::{Arena, Region};
use super::{emit, flow, product};
use crate::matrix::Product;
use crate::registers::{PagePool, VectorRegisters};

/// Code of one run.
pub struct Code {
    /// For waves with all lanes active.
    full: u64,
    /// For other waves.
    partial: u64,
    /// Pages of registers that it writes.
    pages: u32,
    /// Page by page the registers that it writes and does not read before, if all lanes are active.
    overwritten: Box<[u32]>,
    /// What the code lies in.
    _regions: [Arc<Region>; 2],
}

impl Code {
    /// The addresses of the functions for waves with all lanes active, and for others. Their arguments are addresses: of
    /// the addresses of pages, of the scalar file, of an [`Area`](super::Area). They read any page and write those of
    /// [`Code::pages`], which exist ([`Code::claim`]), the masks of the scalar file that the run's records name, and rows of the area.
    pub fn entries(&self) -> [u64; 2] {
        [self.full, self.partial]
    }

    /// Pages of registers that it writes.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Makes the pages exist that it writes. With `full` it is about to be executed for all lanes.
    pub fn claim(&self, full: bool, v: &mut VectorRegisters, pool: &mut PagePool) {
        if full {
            v.claim_over(self.pages, &self.overwritten, pool);
        } else {
            v.claim(self.pages, pool);
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
            Ok((address + emitted.entry as u64, region, emitted.bytes.len()))
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

    /// Whether matrix products are compiled.
    pub fn has_products(&self) -> bool {
        self.host == Host::Avx512
    }

    /// Compiles products that follow one another for waves of `lanes` lanes. Returns the code and how many bytes it has.
    pub fn products(
        &self,
        products: &[Product],
        lanes: u32,
    ) -> Result<(Code, usize), CompileError> {
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner());
        let emitted = product::emit(products, lanes)?;
        let address = arena.place(emitted.bytes.len())?;
        let region = arena
            .put(&emitted.bytes)
            .ok_or(CompileError::Room("code longer than announced"))?;
        let entry = address + emitted.entry as u64;
        let registers = products.iter().flat_map(|p| p.d..p.d + p.counts[2]);
        let code = Code {
            // EXEC does not matter.
            full: entry,
            partial: entry,
            pages: registers.fold(0, |pages, register| {
                pages | VectorRegisters::slot(lanes, register).page_bit()
            }),
            overwritten: Box::default(),
            _regions: [region.clone(), region],
        };
        Ok((code, emitted.bytes.len()))
    }

    /// Compiles blocks that go to each other, for waves of `lanes` lanes. Returns the code and how many bytes it has.
    pub fn chain(
        &self,
        members: Box<[Member]>,
        lanes: u32,
    ) -> Result<(Chain, usize), CompileError> {
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner());
        let address = arena.place(flow::bound(&members))?;
        let bytes = flow::emit(&members, lanes, address)?;
        let region = arena
            .put(&bytes)
            .ok_or(CompileError::Room("code longer than announced"))?;
        let entry = std::ptr::with_exposed_provenance::<()>(address as usize);
        // SAFETY: the address is that of the code just put there, which is a function of this type.
        let chain = unsafe {
            let entry = std::mem::transmute::<*const (), flow::Entry>(entry);
            Chain::new(entry, members, region)
        };
        Ok((chain, bytes.len()))
    }
}
