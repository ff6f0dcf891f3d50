//! Compiled code in memory, and the call into it.

use std::sync::{Arc, Mutex};

use super::assembler::CompileError;
use super::collect::Run;
use super::memory::{Arena, Region};
use super::{emit, values};
use crate::registers::{PagePool, VectorRegisters};

/// Code of one run.
pub struct Code {
    entry: unsafe extern "sysv64" fn(*const *const u8, *mut u32, *mut u32),
    /// Pages of registers that it writes.
    pages: u32,
    /// What the code lies in.
    _region: Arc<Region>,
}

impl Code {
    /// Executes the run for one wave.
    ///
    /// # Safety
    /// The host has AVX-512; `v` has as many lanes as the code was compiled for; `scalars` is the wave's scalar file.
    #[inline(always)]
    pub unsafe fn run(
        &self,
        v: &mut VectorRegisters,
        pool: &mut PagePool,
        scalars: &mut [u32; crate::wave::scalar::COUNT],
        spill: &mut [[u32; 16]; values::SPILL_ROWS],
    ) {
        v.claim(self.pages, pool);
        // SAFETY: the code reads any page and writes those just claimed, the masks of the scalar file that its
        // records name, and the spill area; it keeps to the calling convention.
        unsafe {
            (self.entry)(
                v.page_bases(),
                scalars.as_mut_ptr(),
                spill.as_mut_ptr().cast(),
            );
        }
    }
}

/// Where code is put.
pub struct Native {
    arena: Mutex<Arena>,
}

impl Native {
    /// Memory for code.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> Result<Native, String> {
        let mut arena = Arena::default();
        arena
            .place(1)
            .map_err(|error| format!("no memory for code: {error}"))?;
        Ok(Native {
            arena: Mutex::new(arena),
        })
    }

    /// Lets go of the region that is being filled.
    pub fn reset(&self) {
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner());
        arena.reset();
    }

    /// Compiles a run for waves of `chunks` groups of lanes. Returns the code and how many bytes it has.
    pub fn compile(&self, run: &Run, chunks: u32) -> Result<(Code, usize), CompileError> {
        let mut arena = self.arena.lock().unwrap_or_else(|e| e.into_inner());
        let address = arena.place(emit::bound(run))?;
        let emitted = emit::emit(run, chunks, address)?;
        let region = arena
            .put(&emitted.bytes)
            .ok_or(CompileError::Room("code longer than announced"))?;
        let entry = std::ptr::with_exposed_provenance::<()>(address as usize + emitted.entry);
        let code = Code {
            // SAFETY: the address is that of the code just put there, which is a function of this type.
            entry: unsafe { std::mem::transmute::<*const (), _>(entry) },
            pages: run.pages,
            _region: region,
        };
        Ok((code, emitted.bytes.len()))
    }
}
