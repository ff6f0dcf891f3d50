//! Source lines of addresses, from the DWARF line tables of loaded code objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimli::{EndianSlice, LittleEndian};
use object::{Object, ObjectSection};
use rocjitsu_observe::{Code, Instruction};
use serde_json::{Value, json};

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, with its directory if the table has one.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

/// The source lines of all loaded code.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// What addresses are of, by the first one; `None` where nothing is known.
    rows: BTreeMap<u64, Option<Place>>,
}

type Reader<'f> = EndianSlice<'f, LittleEndian>;

impl Symbols {
    /// Reads the line tables of a code object. One without them, or with damaged ones, adds nothing, or what could be
    /// read.
    pub fn add(&mut self, code: &Code<'_>) {
        let Ok(file) = object::File::parse(code.file) else {
            return;
        };
        let section = |id: gimli::SectionId| -> Result<Reader<'_>, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|s| s.data().ok());
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        if let Ok(dwarf) = gimli::Dwarf::load(section) {
            // What was read before the damage counts.
            let _ = self.read(&dwarf, code.base);
        }
    }

    fn read(&mut self, dwarf: &gimli::Dwarf<Reader<'_>>, base: u64) -> Result<(), gimli::Error> {
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let Some(program) = unit.line_program.clone() else {
                continue;
            };
            let mut files = BTreeMap::new();
            let mut rows = program.rows();
            while let Some((header, row)) = rows.next_row()? {
                let at = base.wrapping_add(row.address());
                if row.end_sequence() {
                    self.rows.entry(at).or_insert(None);
                    continue;
                }
                let file = files.entry(row.file_index()).or_insert_with(|| {
                    let file = row.file(header)?;
                    let text = |value| {
                        let text = dwarf.attr_string(&unit, value).ok()?;
                        Some(text.to_string_lossy().into_owned())
                    };
                    let name = text(file.path_name())?;
                    let directory = file.directory(header).and_then(text);
                    Some(Arc::from(match directory {
                        Some(directory) if !name.starts_with('/') => format!("{directory}/{name}"),
                        _ => name,
                    }))
                });
                let place = match (&file, row.line()) {
                    (Some(file), Some(line)) => Some(Place {
                        file: Arc::clone(file),
                        line: u32::try_from(line.get()).unwrap_or(u32::MAX),
                    }),
                    _ => None,
                };
                // Of several rows for one address the last one counts; a sequence's end gives way.
                self.rows.insert(at, place);
            }
        }
        Ok(())
    }

    /// The source line of an address.
    pub fn place(&self, address: u64) -> Option<&Place> {
        let (_, place) = self.rows.range(..=address).next_back()?;
        place.as_ref()
    }

    /// An instruction in a record.
    pub fn describe(&self, instruction: &Instruction) -> Value {
        let mut record = json!({
            "pc": format!("{:#x}", instruction.pc),
            "text": instruction.text(),
        });
        if let Some(place) = self.place(instruction.pc) {
            record["source"] = format!("{}:{}", place.file, place.line).into();
        }
        record
    }
}
