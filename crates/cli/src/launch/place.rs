//! A launch in the GPU's memory: code, buffers, kernarg segment, dispatch packet, queue.
//! This is what an engine is given; what it did comes back as statistics.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use rocjitsu_gpu::code_object::Loaded;
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_kfd::{Executed, FormCount};

use super::Launch;
use super::kernarg::{Facts, PRIVATE_BASE_HIGH, SHARED_BASE_HIGH};

/// Size of the simulated `amd_queue_t` (version 2) in bytes.
const QUEUE_BYTES: u64 = 2304;

/// Addresses and sizes of a launch that lies in memory, ready to be dispatched.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The code object.
    pub code: Loaded,
    /// Address of the kernel descriptor.
    pub descriptor_address: u64,
    /// Address of the first instruction, without regard to argument preloading.
    pub entry_address: u64,
    /// Address of the kernarg segment.
    pub kernarg_address: u64,
    /// Size of the kernarg segment in bytes.
    pub kernarg_bytes: u32,
    /// Address of the 64-byte AQL kernel dispatch packet.
    pub packet_address: u64,
    /// Address of the `amd_queue_t`.
    pub queue_address: u64,
    /// LDS per workgroup in bytes, static and dynamic.
    pub group_segment_bytes: u32,
    /// Scratch per thread in bytes.
    pub private_segment_bytes: u32,
    /// Addresses of the launch's buffers, in their order.
    pub buffers: Vec<u64>,
}

/// Sizes that a packet states, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// LDS of a workgroup, static and dynamic.
    pub group: u32,
    /// Scratch of a thread.
    pub private: u32,
}

/// What an engine reports of a dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Instructions executed, each counted once per wave.
    pub wave_instructions: u64,
    /// The same by class (`valu`, `salu`, `vmem`, ...).
    pub by_class: BTreeMap<String, u64>,
    /// Those whose results are only within a bound of the hardware's.
    pub bounded: u64,
    /// Those that follow a rule which nothing confirms.
    pub by_default: u64,
    /// Executions by instruction form, the least trusted first.
    pub forms: Vec<FormCount>,
    /// Waves that ran.
    pub waves: u64,
    /// Seconds from the start of the dispatch to its end.
    pub seconds: f64,
    /// Register pages in use at most, over all workers.
    pub peak_register_pages: u64,
    /// Name of the lane back end (`scalar`, `avx2`, `avx512`).
    pub lane_back_end: String,
    /// What the engine has compiled since it exists.
    pub compiled: Compiled,
}

impl Statistics {
    /// Wave instructions whose results are the hardware's bits.
    pub fn exact(&self) -> u64 {
        let others = self.bounded.saturating_add(self.by_default);
        self.wave_instructions.saturating_sub(others)
    }
}

/// Code that was compiled for this host.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Compiled {
    /// Some, or at least it could have been.
    Yes {
        /// Runs of instructions.
        runs: u64,
        /// Lane operations in them.
        instructions: u64,
        /// Scalar instructions and branches.
        scalar: u64,
        /// Runs that could not be compiled.
        refused: u64,
        /// Bytes of code.
        bytes: u64,
        /// Time spent, on all threads together.
        seconds: f64,
        /// How wave instructions executed.
        executed: Executed,
    },
    /// None.
    No {
        /// The reason.
        why: String,
    },
}

impl Default for Compiled {
    fn default() -> Compiled {
        Compiled::No { why: String::new() }
    }
}

impl Launch {
    /// Places the launch in memory.
    ///
    /// # Errors
    ///
    /// A geometry that a packet cannot express, no room, an undefined symbol.
    pub fn place(&self, memory: &Memory) -> Result<Placed> {
        self.check_geometry()?;
        let code = self.code.load(memory, "code object")?;
        let mut buffers = Vec::new();
        for buffer in &self.buffers {
            let request = Request::new(
                buffer.content.len().max(1) as u64,
                format!("buffer `{}`", buffer.name),
            );
            buffers.push(memory.allocate(&request)?);
        }
        let queue_address = memory.allocate(&Request::new(QUEUE_BYTES, "queue"))?;
        let facts = Facts {
            grid: self.grid,
            block: self.block,
            lds_dynamic: self.lds_dynamic,
            queue: queue_address,
        };
        let segment = self.kernarg.build(&buffers, &facts);
        let kernarg_request = Request {
            align: self.kernarg.align.max(64),
            ..Request::new(segment.len().max(1) as u64, "kernarg segment")
        };
        let kernarg_address = memory.allocate(&kernarg_request)?;
        memory.write(kernarg_address, &segment)?;
        let segments = self.segments()?;
        let mut placed = Placed {
            descriptor_address: code.descriptor_address(&self.kernel),
            entry_address: code.entry_address(&self.kernel),
            code,
            kernarg_address,
            kernarg_bytes: segment.len() as u32,
            packet_address: 0,
            queue_address,
            group_segment_bytes: segments.group,
            private_segment_bytes: segments.private,
            buffers,
        };
        self.write_queue(memory, queue_address)?;
        placed.packet_address = memory.allocate(&Request::new(64, "dispatch packet"))?;
        memory.write(placed.packet_address, &self.packet(&placed, &facts))?;
        for (buffer, &address) in self.buffers.iter().zip(&placed.buffers) {
            // Fresh memory is zero. For who looks, what nobody has given stays untouched.
            let zero = !buffer.given && buffer.content.iter().all(|&byte| byte == 0);
            if !(zero && memory.follows_touches()) {
                memory.write(address, &buffer.content)?;
            }
        }
        Ok(placed)
    }

    /// LDS of a workgroup and scratch of a thread.
    ///
    /// # Errors
    ///
    /// LDS of 4 GiB and more.
    pub fn segments(&self) -> Result<Segments> {
        let descriptor = &self.kernel.descriptor;
        Ok(Segments {
            group: descriptor
                .group_segment_fixed_size
                .checked_add(self.lds_dynamic)
                .context("static and dynamic LDS together exceed 4 GiB")?,
            private: descriptor
                .private_segment_fixed_size
                .max(self.private_bytes),
        })
    }

    /// Writes the content that every buffer has before a launch.
    ///
    /// # Errors
    ///
    /// None in practice: the buffers are allocated with these sizes.
    pub fn fill_buffers(&self, memory: &Memory, placed: &Placed) -> Result<()> {
        for (buffer, address) in self.buffers.iter().zip(&placed.buffers) {
            memory.write(*address, &buffer.content)?;
        }
        Ok(())
    }

    /// Reads the buffers back, in their order.
    ///
    /// # Errors
    ///
    /// None in practice: the buffers are allocated with these sizes.
    pub fn read_buffers(&self, memory: &Memory, placed: &Placed) -> Result<Vec<Vec<u8>>> {
        let read = |(buffer, address): (&super::Buffer, &u64)| {
            let mut content = vec![0; buffer.content.len()];
            memory.read(*address, &mut content)?;
            Ok(content)
        };
        self.buffers.iter().zip(&placed.buffers).map(read).collect()
    }

    /// Total number of threads in each dimension, as the packet has it.
    pub fn threads(&self) -> [u64; 3] {
        std::array::from_fn(|axis| u64::from(self.grid[axis]) * u64::from(self.block[axis]))
    }

    /// Checks grid, block and cluster against what a packet expresses and the kernel allows.
    ///
    /// # Errors
    ///
    /// Names the dimension and the limit.
    pub fn check_geometry(&self) -> Result<()> {
        for (axis, name) in ["x", "y", "z"].iter().enumerate() {
            let (grid, block, cluster) = (self.grid[axis], self.block[axis], self.cluster[axis]);
            ensure!(
                grid > 0 && block > 0 && cluster > 0,
                "the {name} extents (grid {grid}, block {block}, cluster {cluster}) must be at least 1"
            );
            ensure!(
                block <= 1024,
                "{block} threads per workgroup in {name}: at most 1024"
            );
            ensure!(
                grid.is_multiple_of(cluster),
                "a grid of {grid} workgroups in {name} is no multiple of the cluster's {cluster}"
            );
            if u32::try_from(self.threads()[axis]).is_err() {
                bail!(
                    "{grid} workgroups of {block} threads in {name}: a dispatch packet holds at most 2^32 - 1 threads"
                );
            }
        }
        let threads: u64 = self.block.iter().map(|&extent| u64::from(extent)).product();
        let limit = self
            .kernel
            .metadata
            .as_ref()
            .map_or(0, |m| u64::from(m.max_flat_workgroup_size));
        let limit = if limit == 0 { 1024 } else { limit.min(1024) };
        ensure!(
            threads <= limit,
            "{threads} threads per workgroup, but {} allows {limit}",
            self.kernel.name
        );
        Ok(())
    }

    /// The AQL kernel dispatch packet: header, setup, geometry, segments, addresses.
    fn packet(&self, placed: &Placed, facts: &Facts) -> [u8; 64] {
        const KERNEL_DISPATCH: u16 = 2;
        const SYSTEM_SCOPES: u16 = 2 << 9 | 2 << 11;
        let mut packet = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(KERNEL_DISPATCH | SYSTEM_SCOPES).to_le_bytes());
        put(2, &facts.dimensions().to_le_bytes());
        for axis in 0..3 {
            put(4 + 2 * axis, &(self.block[axis] as u16).to_le_bytes());
            put(12 + 4 * axis, &(self.threads()[axis] as u32).to_le_bytes());
        }
        put(24, &placed.private_segment_bytes.to_le_bytes());
        put(28, &placed.group_segment_bytes.to_le_bytes());
        put(32, &placed.descriptor_address.to_le_bytes());
        put(40, &placed.kernarg_address.to_le_bytes());
        packet
    }

    /// The fields of `amd_queue_t` that code of older ABIs reads: the aperture bases.
    fn write_queue(&self, memory: &Memory, address: u64) -> Result<()> {
        memory.write(address + 64, &SHARED_BASE_HIGH.to_le_bytes())?;
        memory.write(address + 68, &PRIVATE_BASE_HIGH.to_le_bytes())?;
        Ok(())
    }
}
