//! The ELF layer of a code object: header, loadable segments, notes, symbols, relocations,
//! each checked, with errors that name the part.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};

use super::CodeObjectError;

/// `EI_OSABI` of the HSA runtime.
const ELFOSABI_AMDGPU_HSA: u8 = 64;
/// Type of the metadata note, whose name is `AMDGPU`.
const NT_AMDGPU_METADATA: u32 = 32;

type Header = FileHeader64<LE>;

/// Version of the code object format, from `EI_ABIVERSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbiVersion {
    /// `EI_ABIVERSION` 2.
    V4,
    /// `EI_ABIVERSION` 3.
    V5,
    /// `EI_ABIVERSION` 4.
    V6,
}

impl AbiVersion {
    /// The number people use: 4, 5 or 6.
    pub fn number(self) -> u32 {
        match self {
            AbiVersion::V4 => 4,
            AbiVersion::V5 => 5,
            AbiVersion::V6 => 6,
        }
    }
}

/// A loadable segment. Addresses are as linked; a load base is added to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub address: u64,
    /// Bytes in memory; those past `file_bytes` are zero.
    pub bytes: u64,
    /// Offset of the content in the file.
    pub file_offset: usize,
    /// Bytes in the file.
    pub file_bytes: usize,
    /// Whether the segment holds code.
    pub executable: bool,
    /// Whether the segment is written at run time.
    pub writable: bool,
}

/// A named place in the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name, lossily decoded.
    pub name: String,
    /// Address as linked.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// False if another file has to define it.
    pub defined: bool,
    /// `STB_WEAK`: resolves to zero if nothing defines it.
    pub weak: bool,
    /// `STT_FUNC`.
    pub function: bool,
}

/// One relocation that is applied when the image is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Address that is patched, as linked.
    pub offset: u64,
    /// `R_AMDGPU_*`.
    pub kind: u32,
    /// Index in the dynamic symbol table, 0 for none.
    pub symbol: usize,
    /// Added to the symbol's address or to the load base.
    pub addend: i64,
}

/// The parts of the file, checked.
#[derive(Clone, Debug)]
pub struct Elf {
    pub abi: AbiVersion,
    pub flags: u32,
    pub segments: Vec<Segment>,
    /// `.symtab`, for names of local functions; empty if stripped.
    pub symbols: Vec<Symbol>,
    /// `.dynsym`, which relocations refer to.
    pub dynamic_symbols: Vec<Symbol>,
    pub relocations: Vec<Relocation>,
}

impl Elf {
    /// Parses the file and returns its parts and the bytes of the metadata note.
    pub fn parse(data: &[u8]) -> Result<(Self, Option<&[u8]>), CodeObjectError> {
        let (header, abi) = header(data)?;
        let mut segments = Vec::new();
        let mut note = None;
        let headers = header
            .program_headers(LE, data)
            .map_err(|error| CodeObjectError::Header(format!("program header table: {error}")))?;
        for (index, program) in headers.iter().enumerate() {
            let fault = |reason: String| CodeObjectError::ProgramHeader { index, reason };
            match program.p_type(LE) {
                elf::PT_LOAD => segments.push(segment(program, data).map_err(fault)?),
                elf::PT_NOTE => note = note.or(metadata(program, data, index)?),
                _ => {}
            }
        }
        for (index, pair) in segments.windows(2).enumerate() {
            if let [first, second] = pair
                && first.address + first.bytes > second.address
            {
                return Err(CodeObjectError::Header(format!(
                    "loadable segments {index} and {} overlap or are out of order",
                    index + 1
                )));
            }
        }
        let sections = header
            .sections(LE, data)
            .map_err(|error| CodeObjectError::Sections(error.to_string()))?;
        let elf = Elf {
            abi,
            flags: header.e_flags(LE),
            segments,
            symbols: symbols(&sections, data, elf::SHT_SYMTAB)?,
            dynamic_symbols: symbols(&sections, data, elf::SHT_DYNSYM)?,
            relocations: relocations(&sections, data)?,
        };
        Ok((elf, note))
    }

    /// The segment that has `address` among its bytes in memory.
    pub fn segment_at(&self, address: u64) -> Option<&Segment> {
        self.segments.iter().find(|s| {
            address
                .checked_sub(s.address)
                .is_some_and(|offset| offset < s.bytes)
        })
    }
}

fn header(data: &[u8]) -> Result<(&Header, AbiVersion), CodeObjectError> {
    let fault = |reason: String| CodeObjectError::Header(reason);
    if !data.starts_with(&elf::ELFMAG) {
        if data.is_empty() {
            return Err(fault("the file is empty".to_owned()));
        }
        let start: Vec<String> = data
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        return Err(fault(format!(
            "not an ELF file (it starts with {})",
            start.join(" ")
        )));
    }
    let size = size_of::<Header>();
    if data.len() < size {
        return Err(fault(format!("{} of {size} bytes are there", data.len())));
    }
    if data[4] != elf::ELFCLASS64 || data[5] != elf::ELFDATA2LSB {
        return Err(fault(format!(
            "class {} and data {} are not 64-bit little-endian",
            data[4], data[5]
        )));
    }
    let header = Header::parse(data).map_err(|error| fault(error.to_string()))?;
    if header.e_machine(LE) != elf::EM_AMDGPU {
        return Err(fault(format!(
            "machine {} is not AMDGPU ({})",
            header.e_machine(LE),
            elf::EM_AMDGPU
        )));
    }
    if data[7] != ELFOSABI_AMDGPU_HSA {
        return Err(fault(format!(
            "OS ABI {} is not HSA ({ELFOSABI_AMDGPU_HSA})",
            data[7]
        )));
    }
    if header.e_type(LE) != elf::ET_DYN {
        return Err(fault(format!(
            "type {} is not a shared object ({}): an object file has to be linked first (ld.lld -shared)",
            header.e_type(LE),
            elf::ET_DYN
        )));
    }
    let abi = match data[8] {
        2 => AbiVersion::V4,
        3 => AbiVersion::V5,
        4 => AbiVersion::V6,
        other => {
            return Err(fault(format!(
                "ABI version {other}: versions 2, 3 and 4 (code object V4, V5, V6) are read"
            )));
        }
    };
    Ok((header, abi))
}

fn segment(program: &ProgramHeader64<LE>, data: &[u8]) -> Result<Segment, String> {
    let (offset, file_bytes) = (program.p_offset(LE), program.p_filesz(LE));
    let (address, bytes) = (program.p_vaddr(LE), program.p_memsz(LE));
    let end = offset
        .checked_add(file_bytes)
        .filter(|&end| end <= data.len() as u64);
    if end.is_none() {
        return Err(format!(
            "{file_bytes:#x} bytes at offset {offset:#x} leave the file of {:#x} bytes",
            data.len()
        ));
    }
    if bytes < file_bytes {
        return Err(format!(
            "{bytes:#x} bytes in memory are fewer than the {file_bytes:#x} in the file"
        ));
    }
    if address.checked_add(bytes).is_none() {
        return Err(format!(
            "{bytes:#x} bytes at address {address:#x} leave the address space"
        ));
    }
    let align = program.p_align(LE);
    if align > 1 && (!align.is_power_of_two() || address % align != offset % align) {
        return Err(format!(
            "address {address:#x} and offset {offset:#x} differ modulo the alignment {align:#x}"
        ));
    }
    Ok(Segment {
        address,
        bytes,
        file_offset: offset as usize,
        file_bytes: file_bytes as usize,
        executable: program.p_flags(LE) & elf::PF_X != 0,
        writable: program.p_flags(LE) & elf::PF_W != 0,
    })
}

/// The metadata in a note segment, if it has one.
fn metadata<'a>(
    program: &ProgramHeader64<LE>,
    data: &'a [u8],
    index: usize,
) -> Result<Option<&'a [u8]>, CodeObjectError> {
    let fault =
        |error: object::Error| CodeObjectError::Note(format!("program header {index}: {error}"));
    let Some(mut notes) = program.notes(LE, data).map_err(fault)? else {
        return Ok(None);
    };
    while let Some(note) = notes.next().map_err(fault)? {
        if note.name() == b"AMDGPU" && note.n_type(LE) == NT_AMDGPU_METADATA {
            return Ok(Some(note.desc()));
        }
    }
    Ok(None)
}

fn symbols(
    sections: &SectionTable<'_, Header>,
    data: &[u8],
    kind: u32,
) -> Result<Vec<Symbol>, CodeObjectError> {
    let name = if kind == elf::SHT_DYNSYM {
        ".dynsym"
    } else {
        ".symtab"
    };
    let fault = |reason: String| CodeObjectError::Symbols(format!("{name}: {reason}"));
    let table = sections
        .symbols(LE, data, kind)
        .map_err(|error| fault(error.to_string()))?;
    let read = |(index, symbol): (usize, &elf::Sym64<LE>)| {
        let text = symbol
            .name(LE, table.strings())
            .map_err(|error| fault(format!("symbol {index}: {error}")))?;
        Ok(Symbol {
            name: String::from_utf8_lossy(text).into_owned(),
            address: symbol.st_value(LE),
            bytes: symbol.st_size(LE),
            defined: !symbol.is_undefined(LE),
            weak: symbol.st_bind() == elf::STB_WEAK,
            function: symbol.st_type() == elf::STT_FUNC,
        })
    };
    table.iter().enumerate().map(read).collect()
}

/// The relocations of allocated sections, which a loader applies.
fn relocations(
    sections: &SectionTable<'_, Header>,
    data: &[u8],
) -> Result<Vec<Relocation>, CodeObjectError> {
    let mut all = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        if section.sh_flags(LE) & u64::from(elf::SHF_ALLOC) == 0 {
            continue;
        }
        let fault = |error: object::Error| {
            CodeObjectError::Sections(format!("relocations in section {number}: {error}"))
        };
        if let Some((list, _)) = section.rela(LE, data).map_err(fault)? {
            all.extend(list.iter().map(|entry| Relocation {
                offset: entry.r_offset(LE),
                kind: entry.r_type(LE, false),
                symbol: entry.r_sym(LE, false) as usize,
                addend: entry.r_addend(LE),
            }));
        }
    }
    Ok(all)
}
