//! What is in a memory, to be kept and put back at the same addresses: the runs, and those of their pages that are not zero.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{Access, Memory, MemoryError, PAGE, Request};

/// The address map, without what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapImage {
    /// Allocations, by their start.
    pub runs: Vec<RunImage>,
    /// Where the next allocation is tried first.
    next: u64,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunImage {
    /// GPU address.
    pub start: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// What it is for.
    pub label: String,
    /// 0 no access, 1 loads, 2 loads and stores.
    access: u8,
}

/// Why a memory cannot be kept or put back.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It has more than allocations of its own.
    #[error("{0} is memory that is not this process's alone")]
    Foreign(String),
    /// The access of an allocation is none.
    #[error("access {access} of the allocation at {start:#x}: 0, 1 and 2 are possible")]
    Access {
        /// GPU address.
        start: u64,
        /// The number.
        access: u8,
    },
    /// There is no room for an allocation where it was.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Bytes that are looked at in one go.
const WINDOW: u64 = 256 * PAGE;

impl Memory {
    /// The address map.
    ///
    /// # Errors
    /// [`ImageError::Foreign`]: something is mapped that was not allocated here, or a part of an allocation is not.
    pub fn image(&self) -> Result<MapImage, ImageError> {
        let map = self.map.read();
        let mut runs = Vec::new();
        for (&start, run) in &map.runs {
            if map.placed.get(&start) != Some(&(run.end - start)) {
                return Err(ImageError::Foreign(run.describe(start)));
            }
            let (_, bytes, label) = map.allocation(start, run);
            runs.push(RunImage {
                start,
                bytes,
                label,
                access: match run.access {
                    Access::None => 0,
                    Access::Read => 1,
                    Access::ReadWrite => 2,
                },
            });
        }
        if runs.len() != map.placed.len() {
            return Err(ImageError::Foreign(
                "an allocation without pages".to_owned(),
            ));
        }
        Ok(MapImage {
            runs,
            next: map.next,
        })
    }

    /// Allocates what an image has, in a memory in which nothing is.
    ///
    /// # Errors
    /// Allocations that overlap, leave the addresses or exceed the memory's size.
    pub fn restore(&self, image: &MapImage) -> Result<(), ImageError> {
        for run in &image.runs {
            let access = match run.access {
                0 => Access::None,
                1 => Access::Read,
                2 => Access::ReadWrite,
                access => {
                    let start = run.start;
                    return Err(ImageError::Access { start, access });
                }
            };
            self.allocate(&Request {
                address: Some(run.start),
                access,
                ..Request::new(run.bytes, run.label.clone())
            })?;
        }
        // Any number will do: it is where the search for room begins.
        self.map.write().next = image.next.clamp(self.own.start, self.own.end);
        Ok(())
    }

    /// The bytes of the allocation that starts at `address`, whole pages.
    pub fn placed(&self, address: u64) -> Option<u64> {
        self.map.read().placed.get(&address).copied()
    }

    /// Calls `each` with the number and the bytes of every page of an image's run that is not zero, until it breaks.
    ///
    /// # Errors
    /// The run is not there any more.
    pub fn pages<B>(
        &self,
        run: &RunImage,
        mut each: impl FnMut(u64, &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, ImageError> {
        let whole = run.bytes.next_multiple_of(PAGE);
        let mut window = vec![0; WINDOW.min(whole) as usize];
        for at in (0..whole).step_by(WINDOW as usize) {
            let window = &mut window[..WINDOW.min(whole - at) as usize];
            self.read(run.start + at, window)?;
            for (page, number) in window.chunks_exact(PAGE as usize).zip(at / PAGE..) {
                if page.iter().any(|&byte| byte != 0)
                    && let ControlFlow::Break(value) = each(number, page)
                {
                    return Ok(ControlFlow::Break(value));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
