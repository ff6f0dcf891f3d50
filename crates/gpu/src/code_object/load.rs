//! Placing a code object in the GPU's memory: segments at a base address, relocations applied.
//! Source of the relocations: LLVM's AMDGPU usage guide, "Relocation Records".

use super::elf::Relocation;
use super::{CodeObject, Kernel, LoadError};
use crate::memory::{Memory, PAGE, Request};

/// A code object in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What is added to an address of the file to get one in memory.
    pub bias: u64,
    /// Address of the allocation.
    pub address: u64,
    /// Size of the image in bytes, whole pages.
    pub bytes: u64,
}

impl Loaded {
    /// Address of a kernel's descriptor (the `kernel_object` of a dispatch packet).
    pub fn descriptor_address(&self, kernel: &Kernel) -> u64 {
        self.bias.wrapping_add(kernel.descriptor_address)
    }

    /// Address of a kernel's first instruction, without regard to preloading.
    pub fn entry_address(&self, kernel: &Kernel) -> u64 {
        self.bias.wrapping_add(kernel.entry_address)
    }
}

const ABS32_LO: u32 = 1;
const ABS32_HI: u32 = 2;
const ABS64: u32 = 3;
const REL32: u32 = 4;
const REL64: u32 = 5;
const ABS32: u32 = 6;
const REL32_LO: u32 = 10;
const REL32_HI: u32 = 11;
const RELATIVE64: u32 = 13;

fn relocation_name(kind: u32) -> String {
    let name = match kind {
        ABS32_LO => "R_AMDGPU_ABS32_LO",
        ABS32_HI => "R_AMDGPU_ABS32_HI",
        ABS64 => "R_AMDGPU_ABS64",
        REL32 => "R_AMDGPU_REL32",
        REL64 => "R_AMDGPU_REL64",
        ABS32 => "R_AMDGPU_ABS32",
        REL32_LO => "R_AMDGPU_REL32_LO",
        REL32_HI => "R_AMDGPU_REL32_HI",
        RELATIVE64 => "R_AMDGPU_RELATIVE64",
        other => return format!("relocation type {other}"),
    };
    name.to_owned()
}

impl CodeObject {
    /// Places the image in memory and applies the relocations.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: no room, an undefined symbol, a relocation of an unknown kind or outside
    /// the image. Nothing stays allocated then.
    pub fn load(&self, memory: &Memory, label: &str) -> Result<Loaded, LoadError> {
        let first = self
            .elf
            .segments
            .first()
            .map_or(0, |s| s.address - s.address % PAGE);
        let end = self.elf.segments.last().map_or(0, |s| s.address + s.bytes);
        let bytes = (end - first).max(1);
        let address = memory.allocate(&Request::new(bytes, label))?;
        let bias = address.wrapping_sub(first);
        let fill = || {
            for segment in &self.elf.segments {
                let content = self
                    .data
                    .get(segment.file_offset..segment.file_offset + segment.file_bytes);
                memory.write(
                    bias.wrapping_add(segment.address),
                    content.unwrap_or_default(),
                )?;
            }
            for (index, relocation) in self.elf.relocations.iter().enumerate() {
                self.relocate(memory, bias, index, relocation)?;
            }
            Ok(())
        };
        match fill() {
            Ok(()) => Ok(Loaded {
                bias,
                address,
                bytes: bytes.next_multiple_of(PAGE),
            }),
            Err(error) => {
                memory.free(address)?;
                Err(error)
            }
        }
    }

    fn relocate(
        &self,
        memory: &Memory,
        bias: u64,
        index: usize,
        relocation: &Relocation,
    ) -> Result<(), LoadError> {
        let &Relocation {
            offset,
            kind,
            symbol,
            addend,
        } = relocation;
        let fault = |reason: String| LoadError::Relocation {
            index,
            offset,
            reason,
        };
        let place = bias.wrapping_add(offset);
        let target = if kind == RELATIVE64 {
            bias
        } else {
            let symbol = self.elf.dynamic_symbols.get(symbol).ok_or_else(|| {
                fault(format!(
                    "symbol {symbol} of {} does not exist",
                    self.elf.dynamic_symbols.len()
                ))
            })?;
            match (symbol.defined, symbol.weak) {
                (true, _) => bias.wrapping_add(symbol.address),
                (false, true) => 0,
                (false, false) => {
                    let (kind, symbol) = (relocation_name(kind), symbol.name.clone());
                    return Err(LoadError::UndefinedSymbol {
                        index,
                        offset,
                        kind,
                        symbol,
                    });
                }
            }
        };
        let value = target.wrapping_add_signed(addend);
        let relative = value.wrapping_sub(place);
        let (value, wide) = match kind {
            ABS64 | RELATIVE64 => (value, true),
            REL64 => (relative, true),
            ABS32_LO => (value, false),
            ABS32_HI => (value >> 32, false),
            REL32_LO => (relative, false),
            REL32_HI => (relative >> 32, false),
            ABS32 if value >> 32 == 0 => (value, false),
            REL32 if i32::try_from(relative as i64).is_ok() => (relative, false),
            ABS32 | REL32 => {
                return Err(fault(format!(
                    "{value:#x} does not fit {}",
                    relocation_name(kind)
                )));
            }
            _ => {
                return Err(fault(format!(
                    "{} is not applied by the loader",
                    relocation_name(kind)
                )));
            }
        };
        let bytes = value.to_le_bytes();
        let bytes = if wide { &bytes[..] } else { &bytes[..4] };
        let inside = self.elf.segments.iter().any(|s| {
            offset
                .checked_sub(s.address)
                .is_some_and(|at| at < s.bytes && s.bytes - at >= bytes.len() as u64)
        });
        if !inside {
            return Err(fault(format!(
                "{} bytes there are not in a loadable segment",
                bytes.len()
            )));
        }
        Ok(memory.write(place, bytes)?)
    }
}
