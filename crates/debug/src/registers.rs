//! The registers of a wave as a debugger sees them: numbers, names and sizes by target and lanes, the description in XML that
//! clients ask for, and access to a stopped wave's.

use std::fmt::Write as _;

use rocjitsu_exec::wave::{Wave, scalar};
use rocjitsu_gpu::dispatch::WaveMut;
use rocjitsu_isa::Target;

/// Where a register lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pc,
    Exec,
    Vcc,
    Scc,
    Mode,
    /// This word of the scalar file, or this one and the next.
    Scalar(usize),
    Vgpr(u32),
    Agpr(u32),
}

/// A register.
#[derive(Clone, Debug)]
pub struct Register {
    /// Its name, as the assembler of LLVM has it.
    pub name: String,
    /// Its bytes.
    pub bytes: usize,
    place: Place,
}

impl Register {
    /// Whether it has a value for each lane.
    pub fn is_vector(&self) -> bool {
        matches!(self.place, Place::Vgpr(_) | Place::Agpr(_))
    }
}

/// The registers of the waves of a dispatch, by their numbers in the protocol. Those that all lanes share come first.
#[derive(Clone, Debug)]
pub struct Layout {
    target: Target,
    registers: Vec<Register>,
    lanes: u32,
}

impl Layout {
    /// The registers of a wave of `lanes` lanes. A wave of fewer lanes has zeros in those that it lacks, which cannot be written.
    pub fn new(target: Target, lanes: u32) -> Layout {
        let mut registers = Vec::new();
        let mut add = |name: String, place, bytes| registers.push(Register { name, bytes, place });
        let mask = if lanes == 64 { 8 } else { 4 };
        add("pc".to_owned(), Place::Pc, 8);
        add("exec".to_owned(), Place::Exec, mask);
        add("vcc".to_owned(), Place::Vcc, mask);
        add("scc".to_owned(), Place::Scc, 4);
        add("mode".to_owned(), Place::Mode, 4);
        add("m0".to_owned(), Place::Scalar(scalar::M0), 4);
        let flat = Place::Scalar(scalar::FLAT_SCRATCH);
        add("flat_scratch".to_owned(), flat, 8);
        if target.is_cdna() {
            let xnack = Place::Scalar(scalar::XNACK_MASK);
            add("xnack_mask".to_owned(), xnack, 8);
        }
        // The manuals' tables of scalar operands: 102 SGPRs on gfx9, 106 later.
        for n in 0..if target.is_cdna() { 102 } else { 106 } {
            add(format!("s{n}"), Place::Scalar(n), 4);
        }
        for n in 0..16 {
            add(format!("ttmp{n}"), Place::Scalar(scalar::TTMP + n), 4);
        }
        let row = 4 * lanes as usize;
        let vgprs = if target == Target::Gfx1250 { 1024 } else { 256 };
        for n in 0..vgprs {
            add(format!("v{n}"), Place::Vgpr(n), row);
        }
        if target.is_cdna() {
            for n in 0..256 {
                add(format!("a{n}"), Place::Agpr(n), row);
            }
        }
        Layout {
            target,
            registers,
            lanes,
        }
    }

    /// All registers in the order of their numbers.
    pub fn registers(&self) -> &[Register] {
        &self.registers
    }

    /// The target whose registers these are.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Lanes that vectors have room for.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The target description (GDB manual, appendix "Target Descriptions").
    pub fn xml(&self) -> String {
        let mut xml = String::from(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target version=\"1.0\">\n\
             <feature name=\"org.rocjitsu.amdgpu\">\n",
        );
        let lanes = self.lanes;
        let _ = writeln!(
            xml,
            "<vector id=\"lanes\" type=\"uint32\" count=\"{lanes}\"/>"
        );
        for (number, register) in self.registers.iter().enumerate() {
            let Register { name, bytes, .. } = register;
            let bits = 8 * bytes;
            let (kind, group) = match register.place {
                Place::Pc => ("code_ptr", "general"),
                _ if register.is_vector() => ("lanes", "vector"),
                _ if *bytes == 8 => ("uint64", "general"),
                _ => ("uint32", "general"),
            };
            let _ = writeln!(
                xml,
                "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\" regnum=\"{number}\" group=\"{group}\"/>"
            );
        }
        xml.push_str("</feature>\n</target>\n");
        xml
    }

    /// Appends what a register of a wave holds, little-endian, lanes in their order. `false`: there is none of this number.
    pub fn read(&self, wave: &Wave, number: usize, to: &mut Vec<u8>) -> bool {
        let Some(register) = self.registers.get(number) else {
            return false;
        };
        let value = match register.place {
            Place::Pc => wave.pc,
            Place::Exec => wave.exec(),
            Place::Vcc => wave.vcc(),
            Place::Scc => wave.scc.into(),
            Place::Mode => wave.mode.into(),
            Place::Scalar(n) => wave.s64(n),
            Place::Vgpr(n) | Place::Agpr(n) => {
                let first = match register.place {
                    Place::Agpr(_) => 256,
                    _ => 0,
                };
                let (start, lanes) = (to.len(), wave.v.read(first + n));
                to.extend(lanes.iter().flat_map(|lane| lane.to_le_bytes()));
                to.resize(start + register.bytes, 0);
                return true;
            }
        };
        to.extend(value.to_le_bytes().iter().take(register.bytes));
        true
    }

    /// Gives a register of a wave another value. `false`: there is none of this number, or it has not as many bytes.
    pub fn write(&self, wave: &mut WaveMut<'_>, number: usize, bytes: &[u8]) -> bool {
        let Some(register) = self.registers.get(number) else {
            return false;
        };
        if register.bytes != bytes.len() {
            return false;
        }
        let low = bytes.iter().take(8).rev();
        let value = low.fold(0, |value, &byte| value << 8 | u64::from(byte));
        match register.place {
            Place::Pc => wave.set_pc(value),
            Place::Exec => wave.set_exec(value),
            Place::Vcc => wave.set_vcc(value),
            Place::Scc => wave.set_scc(value != 0),
            Place::Mode => wave.set_mode(value as u32),
            Place::Scalar(n) => {
                let high = bytes.len() == 4 || wave.set_scalar(n + 1, (value >> 32) as u32);
                return high && wave.set_scalar(n, value as u32);
            }
            Place::Vgpr(n) => return fill(wave.vgpr(n), bytes),
            Place::Agpr(n) => return fill(wave.agpr(n), bytes),
        }
        true
    }
}

fn fill(lanes: Option<&mut [u32]>, bytes: &[u8]) -> bool {
    let Some(lanes) = lanes else { return false };
    for (lane, bytes) in lanes.iter_mut().zip(bytes.as_chunks().0) {
        *lane = u32::from_le_bytes(*bytes);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_exec::target::{EXECUTABLE, TargetFacts};

    #[test]
    fn every_register_of_every_target_is_read_with_its_size_and_described() {
        for target in EXECUTABLE {
            assert_eq!(target.acc_base(), 256);
            for lanes in [32, 64] {
                let layout = Layout::new(target, lanes);
                let (wave, xml) = (Wave::new(lanes), layout.xml());
                for (number, register) in layout.registers().iter().enumerate() {
                    let mut bytes = Vec::new();
                    assert!(layout.read(&wave, number, &mut bytes));
                    assert_eq!(bytes.len(), register.bytes, "{}", register.name);
                    let line = format!("<reg name=\"{}\" ", register.name);
                    assert_eq!(xml.matches(&line).count(), 1, "{line}");
                }
                let end = layout.registers().len();
                assert!(!layout.read(&wave, end, &mut Vec::new()));
            }
        }
    }

    #[test]
    fn what_lanes_share_comes_first() {
        let layout = Layout::new(Target::Gfx942, 64);
        let vectors = layout.registers().iter().map(Register::is_vector);
        assert!(vectors.is_sorted());
    }
}
