//! Bytes to instructions: finds the row, collects literals and NSA addresses, checks the operands.

use std::fmt;

use crate::generated::names::{Format, Name};
use crate::inst::Inst;
use crate::operand::{Operand, Special};
use crate::table::{Kind, OperandInfo, Reading, Row, extract};
use crate::target::{FeatureSet, Target};

/// Up to five words of code, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    words: [u32; 5],
    len: u8,
}

impl Words {
    fn of(bytes: &[u8]) -> Words {
        let mut words = [0; 5];
        let mut len = 0;
        for (w, b) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *w = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            len += 1;
        }
        Words { words, len }
    }

    /// The words in the order of memory.
    pub fn as_slice(&self) -> &[u32] {
        &self.words[..usize::from(self.len)]
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, w) in self.as_slice().iter().enumerate() {
            write!(f, "{}{w:08x}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// Why bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The code ends inside an instruction.
    #[error(
        "code ends inside an instruction: {have} bytes left ({words}), {need} needed on {target}"
    )]
    Truncated {
        /// The target.
        target: Target,
        /// Whole words that are left.
        words: Words,
        /// Bytes left.
        have: usize,
        /// Bytes that the instruction has at least.
        need: usize,
    },
    /// No row fits.
    #[error("no instruction of {target} begins with {words}")]
    Unknown {
        /// The target.
        target: Target,
        /// The words.
        words: Words,
    },
    /// An operand field holds a code that names nothing.
    #[error("{mnemonic}: {operand} has code {code}, which names no operand on {target} ({words})")]
    Operand {
        /// The target.
        target: Target,
        /// The words.
        words: Words,
        /// The instruction.
        mnemonic: &'static str,
        /// The operand.
        operand: Name,
        /// Its field.
        code: u32,
    },
    /// A register tuple reaches past the register file or begins where it must not.
    #[error(
        "{mnemonic}: {operand} begins at register {first} and has {count}; {rule} on {target} ({words})"
    )]
    Registers {
        /// The target.
        target: Target,
        /// The words.
        words: Words,
        /// The instruction.
        mnemonic: &'static str,
        /// The operand.
        operand: Name,
        /// The first register.
        first: u32,
        /// How many there are.
        count: u32,
        /// The rule that it breaks.
        rule: &'static str,
    },
}

/// NSA addresses beyond the first, in words (gfx10: bits 1 and 2; gfx11: bit 0).
fn nsa_words(row: &Row, word: u128) -> usize {
    if row.format != Format::MIMG_NSA {
        0
    } else if row.target.generation() == 10 {
        (word >> 1 & 3) as usize
    } else {
        (word & 1) as usize
    }
}

/// Can a literal follow? Not DPP or SDWA; VOP3 forms only from gfx10 on (RDNA2 manual, 6.2.1).
fn takes_literal(row: &Row) -> bool {
    match row.format {
        Format::SOP1 | Format::SOP2 | Format::SOPC | Format::SOPK => true,
        Format::VOP1 | Format::VOP2 | Format::VOPC | Format::VOPD => true,
        Format::VOP3 | Format::VOP3SD | Format::VOP3P => row.target.generation() >= 10,
        _ => false,
    }
}

/// Bytes of the literal that the source fields ask for: 0, 4, or 8.
fn literal_size(row: &Row, word: u128) -> usize {
    if row.fixed_literal.is_some() || !takes_literal(row) {
        return 0;
    }
    let mut size = 0;
    for (o, p) in row.operands.iter().zip(row.places()) {
        let source = matches!(
            o.ty.reading,
            Reading::Source
                | Reading::SourceAgpr
                | Reading::SourceVgprOrAgpr
                | Reading::Source16
                | Reading::Source16Low
        );
        if let (true, Some(field)) = (source, p.field) {
            match extract(word, field) {
                255 => size = size.max(4),
                254 if row.target == Target::Gfx1250 && o.ty.bits == 64 => size = 8,
                _ => {}
            }
        }
    }
    size
}

/// The rule that a register tuple breaks: first register, count, rule.
fn misplaced(
    inst: &Inst,
    o: &OperandInfo,
    operand: Operand,
    wave64: bool,
) -> Option<(u32, u32, &'static str)> {
    let target = inst.target();
    let count = inst.registers(o, wave64);
    let (first, end) = match operand {
        // gfx1250 has 1024 VGPRs; instructions name the first of a tuple among 256 of them.
        Operand::Vgpr(v) if target == Target::Gfx1250 => (u32::from(v), 1024),
        Operand::Vgpr(v) | Operand::Agpr(v) => (u32::from(v), 256),
        Operand::Sgpr(s @ 0..=105) => (u32::from(s), 106),
        Operand::Sgpr(s @ 106..=107) => (u32::from(s), 108),
        Operand::Sgpr(s @ 108..=123) => (u32::from(s), 124),
        Operand::Sgpr(s @ 125) => (u32::from(s), 126),
        Operand::Sgpr(s @ 126..=127) => (u32::from(s), 128),
        Operand::Special(
            Special::FlatScratchHi
            | Special::XnackMaskHi
            | Special::FlatScratchBaseHi
            | Special::LdsDirect,
        ) if count > 1 => return Some((0, count, "it has 32 bits")),
        Operand::Special(_) if count > 2 => {
            return Some((0, count, "special sources have 64 bits at most"));
        }
        _ => return None,
    };
    let vector = !matches!(operand, Operand::Sgpr(_));
    if first + count > end {
        return Some((first, count, "it reaches past the last register"));
    }
    let align = match (vector, count) {
        (true, _) => u32::from(o.ty.align),
        (false, 1) => 1,
        (false, 2) => 2,
        (false, _) => 4,
    };
    let start = if (108..124).contains(&first) && !vector {
        first - 108
    } else {
        first
    };
    (start % align != 0).then_some((first, count, "it must begin at a multiple of its alignment"))
}

/// Decodes the instruction at the start of `bytes`. Reads no more than the instruction has, at most 20 bytes.
///
/// # Errors
///
/// [`DecodeError`] says whether bytes are missing, no row fits, or an operand code names nothing.
pub fn decode(target: Target, set: FeatureSet, bytes: &[u8]) -> Result<Inst, DecodeError> {
    let mut buffer = [0u8; 16];
    // Code comes in words; a part of one is none.
    let size = bytes.len().min(16) & !3;
    buffer[..size].copy_from_slice(&bytes[..size]);
    let word = u128::from_le_bytes(buffer);
    let words = || Words::of(&bytes[..bytes.len().min(20)]);
    let truncated = |need| DecodeError::Truncated {
        target,
        words: words(),
        have: bytes.len(),
        need,
    };
    if size < 4 {
        return Err(truncated(4));
    }
    let table = target.table();
    let row = match table.find(set, word) {
        Some(row) => row,
        None => {
            if let Some(row) = table.begins(set, word, size) {
                return Err(truncated(usize::from(row.bits) / 8));
            }
            let unknown = || DecodeError::Unknown {
                target,
                words: words(),
            };
            table
                .find_with_unused_fields(set, word)
                .ok_or_else(unknown)?
        }
    };
    let start = usize::from(row.bits) / 8;
    if start > size {
        return Err(truncated(start));
    }
    let literal = literal_size(row, word);
    let extra = nsa_words(row, word) * 4 + literal;
    let Some(tail_bytes) = bytes.get(start..start + extra) else {
        return Err(truncated(start + extra));
    };
    let mut tail = [0u8; 16];
    tail[..extra].copy_from_slice(tail_bytes);
    let wave64 = target.is_cdna() || set.is_wave64();
    let inst = Inst::new(row, word, u128::from_le_bytes(tail), extra as u8, wave64);
    let words = || Words::of(&bytes[..start + extra]);
    for (i, o) in row.operands.iter().enumerate() {
        if o.ty.kind != Kind::Reg {
            continue;
        }
        let Some(operand) = inst.operand_at(i) else {
            let code = inst.field(o.name).unwrap_or(0);
            // DPP8, SDWA or DPP16 in place of the first source: the second word is missing.
            if row.bits == 32
                && size < 8
                && o.name == Name::src0
                && matches!(code, 233 | 234 | 249 | 250)
            {
                return Err(truncated(8));
            }
            return Err(DecodeError::Operand {
                target,
                words: words(),
                mnemonic: row.mnemonic,
                operand: o.name,
                code,
            });
        };
        if (o.ty.bits > 32 || o.ty.align > 1)
            && let Some((first, count, rule)) = misplaced(&inst, o, operand, wave64)
        {
            let (mnemonic, operand) = (row.mnemonic, o.name);
            return Err(DecodeError::Registers {
                target,
                words: words(),
                mnemonic,
                operand,
                first,
                count,
                rule,
            });
        }
    }
    if row.dpp16 {
        let code = inst.field(Name::dpp_ctrl).unwrap_or(0);
        if !crate::text::dpp_control_exists(target, code) {
            let (mnemonic, operand) = (row.mnemonic, Name::dpp_ctrl);
            return Err(DecodeError::Operand {
                target,
                words: words(),
                mnemonic,
                operand,
                code,
            });
        }
    }
    Ok(inst)
}
