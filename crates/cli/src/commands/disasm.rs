//! `rocjitsu disasm`: the instructions of a code object, or of bytes given in hexadecimal.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use rocjitsu_gpu::code_object::{CodeObject, Kernel};
use rocjitsu_isa::{FeatureSet, Format, Inst, Name, Target, decode};

use super::{Status, info};
use crate::cli::UsageError;
use crate::output::{BAD, DIM, HEAD, Output, styled};

/// Arguments of `disasm`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "\
rocjitsu disasm FILE.hsaco [--kernel KERNEL]
       rocjitsu disasm --target TARGET --hex WORDS [--set SET]...
       rocjitsu disasm --target TARGET --hex [--set SET]... < LINES")]
pub struct Args {
    /// Code object (.hsaco)
    #[arg(required_unless_present = "hex", conflicts_with_all = ["hex", "set"])]
    file: Option<PathBuf>,
    /// Only the code of this kernel
    #[arg(long, value_name = "KERNEL", requires = "file")]
    kernel: Option<String>,
    /// Read the code as code for this target, as `launch --run-as` does
    #[arg(long, value_name = "TARGET", requires = "file")]
    run_as: Option<Target>,
    /// Instructions in hexadecimal: 32-bit words (7E000280) or bytes (0x80,0x02,0x00,0x7e); - for
    /// standard input. Without WORDS, each line of standard input is one instruction, its bytes in
    /// memory order (8002007e), and becomes one line of text, or `invalid`
    #[arg(long, value_name = "WORDS", requires = "target", num_args = 0..=1)]
    hex: Option<Option<String>>,
    /// Target of the instructions or of the code object; of an offload bundle, the part for it
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// Feature the instructions are read with; may be given twice
    #[arg(long, value_name = "SET")]
    set: Vec<Feature>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Feature {
    /// Waves of 64 lanes on a target whose default is 32
    Wave64,
    /// 16-bit registers on gfx1201 and gfx1250
    True16,
}

/// Prints instructions.
///
/// # Errors
///
/// Wrong usage; those of reading and writing. Bytes that are no instruction are shown as such, and
/// make the status of `--hex WORDS` 1.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    match (&args.file, &args.hex, args.target) {
        (Some(file), ..) => {
            let object = info::read(file, args.target, args.run_as)?;
            info::expect_target(file, &object, args.target)?;
            match &args.kernel {
                Some(name) => kernel(&object, info::kernel(&object, name)?, out)?,
                None => everything(&object, out)?,
            }
            Ok(Status::Good)
        }
        (None, Some(hex), Some(target)) => {
            let set = feature_set_of(target, &args.set)?;
            let Some(words) = hex else {
                if let Some(number) = lines(target, set, std::io::stdin().lock(), out)? {
                    out.flush()?;
                    writeln!(
                        anstream::stderr(),
                        "{} line {number} of standard input is no hexadecimal; it, and others like it, count as invalid",
                        styled(BAD, "warning:")
                    )?;
                }
                return Ok(Status::Good);
            };
            let bytes = parse_hex(&read_hex(words)?)?;
            let listing = Listing {
                target,
                set,
                labels: &[],
            };
            Ok(if listing.print(0, &bytes, out)? {
                Status::Good
            } else {
                Status::Bad
            })
        }
        _ => Err(UsageError("disasm needs a file, or --target and --hex".to_owned()).into()),
    }
}

fn feature_set_of(target: Target, features: &[Feature]) -> Result<FeatureSet> {
    let has = |feature| features.contains(&feature);
    let known = [
        (Feature::Wave64, "wave64", target.has_wave64()),
        (Feature::True16, "true16", target.has_true16()),
    ];
    if let Some((_, name, _)) = known
        .iter()
        .find(|(feature, _, exists)| has(*feature) && !exists)
    {
        return Err(UsageError(format!("--set {name}: {target} does not have it")).into());
    }
    Ok(match (has(Feature::Wave64), has(Feature::True16)) {
        (false, false) => FeatureSet::Default,
        (true, false) => FeatureSet::Wave64,
        (false, true) => FeatureSet::True16,
        (true, true) => FeatureSet::True16Wave64,
    })
}

/// Writes the text of the instruction on each line of `input`, or `invalid`. Returns the number of the first line that
/// is not even hexadecimal, counted from 1.
fn lines(
    target: Target,
    set: FeatureSet,
    input: impl Read,
    out: &mut Output,
) -> Result<Option<u64>> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    let mut wrong = None;
    for number in 1.. {
        // A program that waits for the answer to its last line gets it.
        if input.buffer().is_empty() {
            out.flush()?;
        }
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            break;
        }
        let bytes = bytes(&line);
        if bytes.is_none() && wrong.is_none() {
            wrong = Some(number);
        }
        match bytes.and_then(|bytes| instruction(target, set, &bytes)) {
            Some(text) => writeln!(out, "{text}")?,
            None => writeln!(out, "invalid")?,
        }
    }
    Ok(wrong)
}

/// The bytes of a line in memory order: digits in pairs, with or without blanks, commas, brackets and `0x` between
/// them. `None` if there is anything else.
fn bytes(line: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::new();
    for part in line.split(|byte| byte.is_ascii_whitespace() || b",[]".contains(byte)) {
        let digits = part.strip_prefix(b"0x").unwrap_or(part);
        let (pairs, odd) = digits.as_chunks::<2>();
        if !odd.is_empty() || digits.is_empty() != part.is_empty() {
            return None;
        }
        for &[high, low] in pairs {
            bytes.push(digit(high)? << 4 | digit(low)?);
        }
    }
    Some(bytes)
}

/// The text of the one instruction that the bytes are. `None` if they do not decode, or more follow behind it.
fn instruction(target: Target, set: FeatureSet, bytes: &[u8]) -> Option<String> {
    let inst = decode(target, set, bytes).ok()?;
    (inst.len() == bytes.len()).then(|| inst.text(set))
}

fn read_hex(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .context("cannot read standard input")?;
    Ok(input)
}

/// Words of eight digits count as 32-bit numbers, of two digits as bytes.
fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for token in text
        .split(|c: char| c.is_whitespace() || ",[]".contains(c))
        .filter(|token| !token.is_empty())
    {
        let digits = token.strip_prefix("0x").unwrap_or(token);
        let number = u32::from_str_radix(digits, 16)
            .ok()
            .filter(|_| !digits.starts_with('+'));
        match (number, digits.len()) {
            (Some(number), 8) => bytes.extend(number.to_le_bytes()),
            (Some(number), 1 | 2) => bytes.push(number as u8),
            _ => {
                return Err(UsageError(format!(
                    "`{token}` is neither a word of 8 hexadecimal digits nor a byte of 2"
                ))
                .into());
            }
        }
    }
    if bytes.is_empty() {
        return Err(UsageError("--hex holds no instruction".to_owned()).into());
    }
    Ok(bytes)
}

/// The wave size that code at an address is executed with: that of the kernel there, or of the
/// only wave size that the file's kernels have.
fn feature_set(object: &CodeObject, address: u64) -> FeatureSet {
    let here = object
        .kernels()
        .iter()
        .find(|kernel| kernel.entry_address == address);
    let wave = here
        .or(object.kernels().first())
        .map_or(object.target().default_wave(), |k| k.descriptor.wave_size);
    object.target().execution_set(wave)
}

/// Named places in the code of a file, by rising address.
fn labels(object: &CodeObject) -> Vec<(u64, String)> {
    let mut labels: Vec<(u64, String)> = object
        .kernels()
        .iter()
        .map(|kernel| (kernel.entry_address, kernel.name.clone()))
        .collect();
    for symbol in object
        .symbols()
        .iter()
        .filter(|symbol| symbol.defined && symbol.function)
    {
        if !labels.iter().any(|(address, _)| *address == symbol.address) {
            labels.push((symbol.address, symbol.name.clone()));
        }
    }
    labels.sort();
    labels
}

fn kernel(object: &CodeObject, kernel: &Kernel, out: &mut Output) -> Result<()> {
    let start = kernel.entry_address;
    let code = object.bytes_at(start).unwrap_or_default();
    let symbol = object
        .symbols()
        .iter()
        .find(|symbol| symbol.function && symbol.address == start && symbol.bytes > 0);
    let next = labels(object)
        .into_iter()
        .map(|(address, _)| address)
        .find(|address| *address > start);
    let size = symbol
        .map(|symbol| symbol.bytes)
        .or(next.map(|next| next - start));
    let size = size.map_or(code.len(), |size| (size as usize).min(code.len()));
    section(
        object,
        start,
        &kernel.name,
        code.get(..size).unwrap_or_default(),
        out,
    )
}

fn everything(object: &CodeObject, out: &mut Output) -> Result<()> {
    let labels = labels(object);
    for segment in object
        .segments()
        .iter()
        .filter(|segment| segment.executable)
    {
        let end = segment.address + segment.file_bytes as u64;
        let inside = labels
            .iter()
            .filter(|(address, _)| (segment.address..end).contains(address));
        let mut starts: Vec<(u64, &str)> = inside
            .map(|(address, name)| (*address, name.as_str()))
            .collect();
        if starts
            .first()
            .is_none_or(|(address, _)| *address > segment.address)
        {
            starts.insert(0, (segment.address, ".text"));
        }
        for (index, (start, name)) in starts.iter().enumerate() {
            let next = starts.get(index + 1).map_or(end, |(next, _)| *next);
            let code = object.bytes_at(*start).unwrap_or_default();
            section(
                object,
                *start,
                name,
                code.get(..(next - start) as usize).unwrap_or_default(),
                out,
            )?;
        }
    }
    Ok(())
}

fn section(
    object: &CodeObject,
    start: u64,
    name: &str,
    code: &[u8],
    out: &mut Output,
) -> Result<()> {
    writeln!(out, "{}", styled(HEAD, format!("{start:016x} <{name}>:")))?;
    let labels = labels(object);
    let listing = Listing {
        target: object.target(),
        set: feature_set(object, start),
        labels: &labels,
    };
    listing.print(start, code, out)?;
    Ok(())
}

/// How instructions are listed.
struct Listing<'a> {
    target: Target,
    set: FeatureSet,
    labels: &'a [(u64, String)],
}

impl Listing<'_> {
    /// Lists the instructions in `code`; false if some bytes are none.
    fn print(&self, start: u64, code: &[u8], out: &mut Output) -> Result<bool> {
        let mut at = 0;
        let mut good = true;
        while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
            let pc = start + at as u64;
            let (text, length, comment) = match decode(self.target, self.set, rest) {
                Ok(inst) => (inst.text(self.set), inst.len(), self.destination(&inst, pc)),
                Err(error) => {
                    good = false;
                    // Bytes that are no instruction, and a rest too short for a word.
                    let word = rest.get(..4).unwrap_or(rest);
                    let digits: String = word
                        .iter()
                        .rev()
                        .map(|byte| format!("{byte:02x}"))
                        .collect();
                    (format!(".long 0x{digits}"), word.len(), styled(BAD, error))
                }
            };
            let bytes = rest.get(..length).unwrap_or(rest);
            let words: Vec<String> = bytes
                .chunks(4)
                .map(|word| {
                    word.iter()
                        .rev()
                        .map(|byte| format!("{byte:02X}"))
                        .collect()
                })
                .collect();
            let place = styled(DIM, format!("// {pc:012X}: {}", words.join(" ")));
            let space = if comment.is_empty() { "" } else { " " };
            writeln!(out, "\t{text:<58} {place}{space}{comment}")?;
            at += length.max(1);
        }
        Ok(good)
    }

    /// Where a branch goes, as a comment; empty for other instructions.
    fn destination(&self, inst: &Inst, pc: u64) -> String {
        let name = inst.op().name();
        let branch = matches!(inst.format(), Format::SOPP)
            && (name.starts_with("s_branch") || name.starts_with("s_cbranch"));
        let Some(offset) = inst.signed_field(Name::simm16).filter(|_| branch) else {
            return String::new();
        };
        let offset = i64::from(offset as i16);
        let to = pc
            .wrapping_add(inst.len() as u64)
            .wrapping_add_signed(4 * offset);
        let label = self.labels.iter().rev().find(|(address, _)| *address <= to);
        match label {
            Some((address, name)) => format!("<{name}+{:#x}>", to - address),
            None => format!("{to:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_instruction() {
        let text = |line: &str| {
            bytes(line.as_bytes())
                .and_then(|bytes| instruction(Target::Gfx942, FeatureSet::Default, &bytes))
                .unwrap_or_default()
        };
        for line in [
            "8002007e\r\n",
            " 8002007E",
            "80 02 00 7e",
            "[0x80,0x02,0x00,0x7e]",
            "0x8002007e",
        ] {
            assert_eq!(text(line), "v_mov_b32_e32 v0, 0", "{line}");
        }
        for wrong in ["", "8002007e00", "8002007e8002007e", "ffffffff"] {
            assert_eq!(text(wrong), "", "{wrong}");
            assert!(bytes(wrong.as_bytes()).is_some(), "{wrong}");
        }
        for wrong in ["8002007", "0x", "80,2,0,7e", "\u{fc}\u{fc}", "s_nop 0"] {
            assert_eq!(bytes(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn sets_that_a_target_does_not_have_are_refused() {
        for (target, feature, exists) in [
            (Target::Gfx942, Feature::Wave64, true),
            (Target::Gfx942, Feature::True16, false),
            (Target::Gfx1100, Feature::Wave64, true),
            (Target::Gfx1201, Feature::True16, true),
            (Target::Gfx1250, Feature::Wave64, false),
        ] {
            let set = feature_set_of(target, &[feature]);
            assert_eq!(set.is_ok(), exists, "{target} {feature:?}");
        }
    }

    #[test]
    fn words_and_bytes() {
        assert_eq!(parse_hex("7E000280").unwrap(), [0x80, 2, 0, 0x7e]);
        assert_eq!(
            parse_hex("[0x80,0x02,0x00,0x7e]").unwrap(),
            [0x80, 2, 0, 0x7e]
        );
        assert_eq!(parse_hex("0xBF810000 BF800000").unwrap().len(), 8);
        for wrong in ["", "123", "xyz", "+1"] {
            assert!(parse_hex(wrong).is_err(), "{wrong}");
        }
    }
}
