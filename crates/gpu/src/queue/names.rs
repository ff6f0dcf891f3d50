//! Names of kernels whose code objects a runtime loaded itself: found in the dynamic symbol table, which loaders leave
//! in memory before the descriptors.
//!
//! ROCr's loader copies the loadable segments of a code object (ELF) to one place, the first of which holds the ELF
//! header, `.dynsym` and `.dynstr`. Whoever copies only code and data (tinygrad) leaves nothing to be found. What lies
//! in memory is the program's, so nothing of it is believed: every number is checked, every search has a bound.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rocjitsu_exec::memory::AddressSpace;

use crate::memory::{Memory, PAGE};

/// Pages before a descriptor that are looked at for the header of its code object: 64 MiB.
const PAGES: u64 = 16 * 1024;
/// Program headers, entries of the dynamic section and symbols that are looked at.
const HEADERS: u16 = 64;
const DYNAMIC: u64 = 256;
const SYMBOLS: u64 = 1 << 20;
/// Longest name in bytes; names of C++ templates are long.
const LONGEST: usize = 4096;
/// Kernels that are remembered.
const REMEMBERED: usize = 4096;

/// `Elf64_Ehdr`, `Elf64_Phdr`, `Elf64_Sym`, `Elf64_Dyn` (gABI).
const HEADER: usize = 64;
const PROGRAM_HEADER: u64 = 56;
const SYMBOL: u64 = 24;
const ENTRY: u64 = 16;
const EM_AMDGPU: u16 = 224;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// Names that were found before, for the kernels of one address map.
#[derive(Debug, Default)]
pub struct KernelNames {
    known: Mutex<HashMap<u64, Known>>,
}

/// What was found for an address.
#[derive(Debug)]
struct Known {
    /// The bytes that say whether it still holds: of the symbol, or where there is none, at the address itself.
    at: u64,
    bytes: Vec<u8>,
    name: Option<String>,
}

impl KernelNames {
    /// The name of the kernel whose descriptor or first instruction is at `address`; `None` if memory holds no symbol
    /// for it.
    pub fn find(&self, memory: &Memory, address: u64) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&address)
            && read(memory, found.at, found.bytes.len()).as_ref() == Some(&found.bytes)
        {
            return found.name.clone();
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let symbol = find(memory, address);
        let name = symbol.as_ref().map(|symbol| symbol.name.clone());
        let (at, bytes) = match symbol {
            Some(symbol) => (symbol.at, SYMBOL as usize),
            None => (address, 64),
        };
        let bytes = read(memory, at, bytes)?;
        let entry = Known {
            at,
            bytes,
            name: name.clone(),
        };
        known.insert(address, entry);
        name
    }
}

/// A symbol.
struct Symbol {
    /// Where it lies.
    at: u64,
    name: String,
}

fn read(memory: &Memory, address: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut to = vec![0; bytes];
    memory.copy_out(address, &mut to).ok()?;
    Some(to)
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    word(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_le_bytes)
}

/// A code object that a runtime has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedCode {
    /// What was added to the addresses of its file.
    pub base: u64,
    /// Its symbols that are defined, and where they are.
    pub symbols: Vec<(String, u64)>,
}

/// The code object around an address, if memory holds its header and symbols.
pub fn loaded_code(memory: &Memory, address: u64) -> Option<LoadedCode> {
    let (base, image) = around(memory, address)?;
    let mut symbols = Vec::new();
    image.each(memory, |_, row| {
        // A section of 0 means that it is defined elsewhere.
        if u16_at(row, 6) != Some(0)
            && let Some(name) = u32_at(row, 0).and_then(|name| image.name(memory, name))
        {
            symbols.push((name, base.wrapping_add(u64_at(row, 8).unwrap_or(0))));
        }
        None::<()>
    });
    Some(LoadedCode { base, symbols })
}

/// The symbol of a kernel in the code object around its address.
fn find(memory: &Memory, address: u64) -> Option<Symbol> {
    let (base, image) = around(memory, address)?;
    image.symbol(memory, address - base)
}

/// Looks for the nearest code object before `address` that contains it, in the same run of pages.
fn around(memory: &Memory, address: u64) -> Option<(u64, Image)> {
    let first = memory.find(address).ok()?.start;
    let mut page = address - address % PAGE;
    for _ in 0..PAGES {
        let mut magic = [0; 4];
        memory.copy_out(page, &mut magic).ok()?;
        if magic == *b"\x7fELF"
            && let Some(image) = Image::at(memory, page)
            && address - page < image.bytes
        {
            return Some((page, image));
        }
        page = page.checked_sub(PAGE).filter(|&page| page >= first)?;
    }
    None
}

/// A loaded code object; addresses in it are relative to its base.
struct Image {
    /// Bytes that its segments span.
    bytes: u64,
    symbols: u64,
    strings: u64,
    /// Symbols there are at most.
    count: u64,
}

impl Image {
    /// The code object whose ELF header is at `base`.
    fn at(memory: &Memory, base: u64) -> Option<Image> {
        let header = read(memory, base, HEADER)?;
        // ELFCLASS64, ELFDATA2LSB; e_machine, e_phentsize.
        let fits = header.get(4..6) == Some(&[2, 1])
            && u16_at(&header, 18) == Some(EM_AMDGPU)
            && u16_at(&header, 54).map(u64::from) == Some(PROGRAM_HEADER);
        if !fits {
            return None;
        }
        let table = base.checked_add(u64_at(&header, 32)?)?;
        let (mut bytes, mut dynamic) = (0, None);
        for index in 0..u16_at(&header, 56)?.min(HEADERS) {
            let at = table.checked_add(u64::from(index) * PROGRAM_HEADER)?;
            let row = read(memory, at, PROGRAM_HEADER as usize)?;
            let (address, size) = (u64_at(&row, 16)?, u64_at(&row, 40)?);
            match u32_at(&row, 0)? {
                PT_LOAD => bytes = address.checked_add(size)?.max(bytes),
                PT_DYNAMIC => dynamic = Some((address, size / ENTRY)),
                _ => {}
            }
        }
        let (dynamic, entries) = dynamic?;
        let dynamic = base.checked_add(dynamic)?;
        let (mut symbols, mut strings, mut hash) = (None, None, None);
        for index in 0..entries.min(DYNAMIC) {
            let entry = read(memory, dynamic.checked_add(index * ENTRY)?, ENTRY as usize)?;
            let value = u64_at(&entry, 8)?;
            match u64_at(&entry, 0)? {
                0 => break,
                DT_SYMTAB => symbols = Some(value),
                DT_STRTAB => strings = Some(value),
                DT_HASH => hash = Some(value),
                _ => {}
            }
        }
        let (symbols, strings) = (symbols?, strings?);
        let count = match hash {
            // The number of chains is that of the symbols.
            Some(hash) => {
                let head = read(memory, base.checked_add(hash)?, 8)?;
                u64::from(u32_at(&head, 4)?)
            }
            // Without that table they end before their names at the latest.
            None => strings.checked_sub(symbols)? / SYMBOL,
        };
        Some(Image {
            bytes,
            symbols: base.checked_add(symbols)?,
            strings: base.checked_add(strings)?,
            count: count.min(SYMBOLS),
        })
    }

    /// Calls `look` with the address and the bytes of each symbol until it returns something.
    fn each<T>(&self, memory: &Memory, mut look: impl FnMut(u64, &[u8]) -> Option<T>) -> Option<T> {
        const AT_ONCE: u64 = 512;
        for first in (0..self.count).step_by(AT_ONCE as usize) {
            let at = self.symbols.checked_add(first * SYMBOL)?;
            let count = AT_ONCE.min(self.count - first);
            let rows = read(memory, at, (count * SYMBOL) as usize)?;
            for (row, index) in rows.chunks_exact(SYMBOL as usize).zip(0..) {
                let found = look(at + index * SYMBOL, row);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// The symbol of a kernel (or, without the ending, of its descriptor) with this value.
    fn symbol(&self, memory: &Memory, value: u64) -> Option<Symbol> {
        let found = self.each(memory, |at, row| {
            // st_value; a section of 0 means that it is defined elsewhere.
            let is_it = u64_at(row, 8) == Some(value) && u16_at(row, 6) != Some(0);
            is_it.then(|| Some((at, self.name(memory, u32_at(row, 0)?)?)))
        });
        let (at, name) = found??;
        let name = name.strip_suffix(".kd").unwrap_or(&name).to_owned();
        Some(Symbol { at, name })
    }

    /// The string at an offset of the table; `None` if it is empty, does not end, or has characters that would garble
    /// a terminal.
    fn name(&self, memory: &Memory, offset: u32) -> Option<String> {
        let mut at = self.strings.checked_add(offset.into())?;
        let mut name = Vec::new();
        while name.len() < LONGEST {
            // Not beyond the page: the next one need not be there.
            let part = read(memory, at, ((PAGE - at % PAGE).min(64)) as usize)?;
            let end = part.iter().position(|&byte| byte == 0);
            name.extend_from_slice(part.get(..end.unwrap_or(part.len()))?);
            if end.is_some() {
                let name = String::from_utf8(name).ok()?;
                let good = !name.is_empty() && !name.contains(char::is_control);
                return good.then_some(name);
            }
            at = at.checked_add(part.len() as u64)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_object::{CodeObject, LoadOptions};
    use crate::memory::Request;

    fn code() -> CodeObject {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../data/corpus/built/softmax_f32.gfx942.hsaco"
        );
        CodeObject::parse(std::fs::read(path).unwrap(), &LoadOptions::default()).unwrap()
    }

    #[test]
    fn a_loaded_kernel_has_its_name_until_something_else_lies_there() {
        let (memory, code) = (Memory::new(1 << 24), code());
        let names = KernelNames::default();
        // Something before the code object in the same pages, as in a pool of a runtime.
        let loaded = code.load(&memory, "code").unwrap();
        let kernel = &code.kernels()[0];
        let (descriptor, entry) = (
            loaded.descriptor_address(kernel),
            loaded.entry_address(kernel),
        );
        for _ in 0..2 {
            let name = names.find(&memory, descriptor);
            assert_eq!(name.as_deref(), Some("softmax_rows"));
            let name = names.find(&memory, entry);
            assert_eq!(name.as_deref(), Some("softmax_rows"));
        }
        assert_eq!(names.find(&memory, descriptor + 64), None);
        assert_eq!(names.find(&memory, 0x1000), None);
        // The header alone makes no code object.
        memory.write(loaded.address + 18, &[0, 0]).unwrap();
        assert_eq!(KernelNames::default().find(&memory, descriptor), None);
        let zeros = vec![0; loaded.bytes as usize];
        memory.write(loaded.address, &zeros).unwrap();
        assert_eq!(names.find(&memory, descriptor), None);
        memory.free(loaded.address).unwrap();
        assert_eq!(names.find(&memory, descriptor), None);
    }

    #[test]
    fn damaged_tables_give_no_names_and_end() {
        let (memory, code) = (Memory::new(1 << 24), code());
        let loaded = code.load(&memory, "code").unwrap();
        let descriptor = loaded.descriptor_address(&code.kernels()[0]);
        // Header, program headers, symbols, hash table and names, dynamic section.
        let mut image = vec![0; 0x5c0];
        memory.read(loaded.address, &mut image).unwrap();
        let mut dynamic = vec![0; 0x70];
        memory.read(loaded.address + 0x2dc0, &mut dynamic).unwrap();
        for (from, part) in [(0, &image), (0x2dc0, &dynamic)] {
            for at in 0..part.len() {
                for value in [0u8, 0xff, 0x80] {
                    memory
                        .write(loaded.address + from + at as u64, &[value])
                        .unwrap();
                    let name = KernelNames::default().find(&memory, descriptor);
                    assert!(name.is_none_or(|name| name.len() <= LONGEST), "{at:#x}");
                }
                memory
                    .write(loaded.address + from + at as u64, &part[at..=at])
                    .unwrap();
            }
        }
        // A page of its own without anything before it.
        let lonely = memory.allocate(&Request::new(PAGE, "page")).unwrap();
        assert_eq!(KernelNames::default().find(&memory, lonely + 64), None);
    }
}
