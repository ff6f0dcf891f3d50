//! AMDGPU HSA code objects, versions 4 to 6: what kernels a file has and how to load it.
//! No input panics; an error names the part of the file that is at fault.

pub mod bundle;
mod descriptor;
mod elf;
mod error;
mod load;
mod metadata;
mod target_id;

use std::sync::Arc;

use rocjitsu_isa::Target;

pub use descriptor::*;
pub use elf::{AbiVersion, Relocation, Segment, Symbol};
pub use error::{CodeObjectError, LoadError};
pub use load::Loaded;
pub use metadata::{Argument, KernelMetadata, Metadata};
pub use target_id::{Machine, Setting, TargetId};

/// How to read a code object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Run the code as this target instead of the one it was compiled for. Possible where the
    /// two have the same encodings: code for gfx1100 (RDNA 3) runs as gfx1151 (RDNA 3.5), code
    /// for gfx1200 as gfx1201.
    pub run_as: Option<Target>,
}

/// A kernel in a code object. Addresses are as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name in the source, or the descriptor's symbol without `.kd`.
    pub name: String,
    /// Symbol of the descriptor, such as `axpy.kd`.
    pub symbol: String,
    /// Address of the descriptor.
    pub descriptor_address: u64,
    /// Address of the first instruction.
    pub entry_address: u64,
    /// The descriptor.
    pub descriptor: KernelDescriptor,
    /// The metadata; `None` for a kernel that only has a descriptor.
    pub metadata: Option<KernelMetadata>,
}

/// A code object, read and checked.
#[derive(Clone, Debug)]
pub struct CodeObject {
    data: Arc<[u8]>,
    elf: elf::Elf,
    machine: Machine,
    target: Target,
    metadata: Option<Metadata>,
    kernels: Vec<Kernel>,
}

impl CodeObject {
    /// Reads a code object.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError`], which names the damaged part, the target that is not executed, ...
    pub fn parse(
        data: impl Into<Arc<[u8]>>,
        options: &LoadOptions,
    ) -> Result<Self, CodeObjectError> {
        let data = data.into();
        let (elf, note) = elf::Elf::parse(&data)?;
        let machine = Machine::from_flags(elf.flags)?;
        let metadata = note.map(Metadata::parse).transpose()?;
        if let Some(text) = metadata.as_ref().and_then(|m| m.target.as_ref()) {
            let at_target = |reason| CodeObjectError::Metadata {
                path: "amdhsa.target".to_owned(),
                reason,
            };
            let id = TargetId::parse(text).map_err(at_target)?;
            machine.agrees_with(&id).map_err(at_target)?;
        }
        let target = machine.target(options.run_as)?;
        let mut object = CodeObject {
            data,
            elf,
            machine,
            target,
            metadata,
            kernels: Vec::new(),
        };
        object.kernels = object.find_kernels()?;
        Ok(object)
    }

    /// The file.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The target that the code runs as.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The processor that the code was compiled for, with its settings.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Version of the format.
    pub fn abi(&self) -> AbiVersion {
        self.elf.abi
    }

    /// `e_flags` as stored.
    pub fn flags(&self) -> u32 {
        self.elf.flags
    }

    /// The metadata note.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The kernels: those of the metadata in their order, then those with a descriptor only.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The loadable segments, by rising address.
    pub fn segments(&self) -> &[Segment] {
        &self.elf.segments
    }

    /// The relocations that [`load`](Self::load) applies.
    pub fn relocations(&self) -> &[Relocation] {
        &self.elf.relocations
    }

    /// The symbols: of `.symtab` where there is one, else of `.dynsym`.
    pub fn symbols(&self) -> &[Symbol] {
        if self.elf.symbols.is_empty() {
            &self.elf.dynamic_symbols
        } else {
            &self.elf.symbols
        }
    }

    /// Finds a kernel by its name or by the symbol of its descriptor.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError::NoSuchKernel`], which lists the kernels there are.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, CodeObjectError> {
        let known = |kernel: &&Kernel| {
            kernel.name == name
                || kernel.symbol == name
                || kernel.symbol.strip_suffix(".kd") == Some(name)
        };
        self.kernels.iter().find(known).ok_or_else(|| {
            let names: Vec<String> = self
                .kernels
                .iter()
                .map(|kernel| format!("`{}`", kernel.name))
                .collect();
            let available = if names.is_empty() {
                "no kernels".to_owned()
            } else {
                names.join(", ")
            };
            CodeObjectError::NoSuchKernel {
                name: name.to_owned(),
                available,
            }
        })
    }

    /// The bytes of the file at an address as linked, to the end of the segment's file part.
    /// Bytes that are zero-filled at load time are not among them.
    pub fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        let segment = self.elf.segment_at(address)?;
        let content = self
            .data
            .get(segment.file_offset..)?
            .get(..segment.file_bytes)?;
        content.get(usize::try_from(address - segment.address).ok()?..)
    }

    fn find_kernels(&self) -> Result<Vec<Kernel>, CodeObjectError> {
        let symbols = self.elf.dynamic_symbols.iter().chain(&self.elf.symbols);
        let mut kernels = Vec::new();
        for metadata in self.metadata.iter().flat_map(|m| &m.kernels) {
            let symbol = symbols
                .clone()
                .find(|s| s.defined && s.name == metadata.symbol)
                .ok_or_else(|| {
                    CodeObjectError::Symbols(format!(
                        "the descriptor `{}` of kernel {} is not there",
                        metadata.symbol, metadata.name
                    ))
                })?;
            kernels.push(self.read_kernel(
                metadata.name.clone(),
                symbol,
                Some(metadata.clone()),
            )?);
        }
        for symbol in symbols {
            let Some(name) = symbol.name.strip_suffix(".kd") else {
                continue;
            };
            if symbol.defined && !kernels.iter().any(|kernel| kernel.symbol == symbol.name) {
                kernels.push(self.read_kernel(name.to_owned(), symbol, None)?);
            }
        }
        Ok(kernels)
    }

    fn read_kernel(
        &self,
        name: String,
        symbol: &Symbol,
        metadata: Option<KernelMetadata>,
    ) -> Result<Kernel, CodeObjectError> {
        let at = symbol.address;
        let read = || {
            let bytes = self
                .bytes_at(at)
                .and_then(|bytes| bytes.first_chunk())
                .ok_or(DescriptorError::Outside(at))?;
            let descriptor = KernelDescriptor::decode(bytes, self.target)?;
            let offset = descriptor.entry_offset;
            let outside = DescriptorError::Entry {
                descriptor: at,
                offset,
            };
            let entry = at.checked_add_signed(offset).ok_or(outside.clone())?;
            if !self.elf.segment_at(entry).is_some_and(|s| s.executable)
                || self.bytes_at(entry).is_none_or(<[u8]>::is_empty)
            {
                return Err(outside);
            }
            if !entry.is_multiple_of(256) {
                return Err(DescriptorError::EntryAlignment(entry));
            }
            if let Some(metadata) = &metadata
                && metadata.wavefront_size != descriptor.wave_size
            {
                let (descriptor, metadata) = (descriptor.wave_size, metadata.wavefront_size);
                return Err(DescriptorError::WaveSize {
                    descriptor,
                    metadata,
                });
            }
            Ok((descriptor, entry))
        };
        let (descriptor, entry_address) = read().map_err(|source| CodeObjectError::Descriptor {
            kernel: name.clone(),
            source,
        })?;
        Ok(Kernel {
            name,
            symbol: symbol.name.clone(),
            descriptor_address: at,
            entry_address,
            descriptor,
            metadata,
        })
    }
}
