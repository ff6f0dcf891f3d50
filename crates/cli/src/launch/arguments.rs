//! Kernel arguments given on the command line: a small grammar, and how the arguments meet the
//! kernel's own description of its parameters.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rocjitsu_gpu::code_object::Kernel;

use super::Buffer;
use super::description::Direction;
use super::element::{ElementType, Number};
use super::generate::{Generator, filled};
use super::kernarg::{Field, FieldValue, Hidden, Kernarg};
use super::npy::Array;
use crate::cli::UsageError;

/// The grammar, for `--help`.
pub const GRAMMAR: &str = "\
One --arg for each parameter of the kernel, in order (hidden ones are filled in):
  TYPE:VALUE             a scalar: i32:5  f32:1.5  u64:0x10  bf16:-2
  hex:BYTES              a value of other type, as bytes in memory order: hex:0100000002000000
  null                   a null pointer
  buf:SIZE[:OPTION]...   a buffer of SIZE bytes (suffixes K, M, G), zero unless an option fills it
      TYPE                 element type (u8 if not given)
      fill=VALUE           every element has this value
      seed=NUMBER          random bits
  out:SIZE[:OPTION]...=FILE
                         the same, and its content is written to FILE afterwards
                         (.npy: as an array; anything else: as raw bytes)
  FILE.npy               a buffer with the array's content
  FILE.bin[:TYPE]        a buffer with the file's bytes";

/// An argument as given.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value.
    Value(Vec<u8>),
    /// A null pointer.
    Null,
    /// A buffer with a content that is made here.
    Made {
        /// Size in bytes.
        bytes: usize,
        /// Type of the elements.
        element: ElementType,
        /// Content.
        fill: Fill,
        /// File that the content is written to afterwards.
        out: Option<PathBuf>,
    },
    /// A buffer with the content of a file.
    File {
        /// The file.
        path: PathBuf,
        /// Type of the elements of a raw file.
        element: ElementType,
    },
}

/// Content of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Nothing: zeros, which nobody has written.
    None,
    /// The same value in every element.
    Value(Number),
    /// Random bits.
    Random(u64),
}

impl std::str::FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "null" {
            return Ok(Argument::Null);
        }
        let (head, rest) = text.split_once(':').unwrap_or((text, ""));
        match head {
            "buf" => made(rest, None),
            "out" => {
                // Options have `=` too; the file's follows the last one.
                let (spec, file) = rest
                    .rsplit_once('=')
                    .ok_or("`out` needs `=FILE` at the end")?;
                if spec.ends_with("fill") || spec.ends_with("seed") || file.is_empty() {
                    return Err("`out` needs `=FILE` at the end".to_owned());
                }
                made(spec, Some(PathBuf::from(file)))
            }
            "hex" => hex(rest).map(Argument::Value),
            _ => match ElementType::from_name(head) {
                Some(element) => scalar(element, parse_number(rest)?).map(Argument::Value),
                None => file(text),
            },
        }
    }
}

/// Reads a number: decimal or 0x integer, float, `inf`, `nan`.
pub fn parse_number(text: &str) -> Result<Number, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let integer = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.parse().ok(),
        None => None,
    };
    match integer {
        // A float's minus zero is not the integer's.
        Some(0) if sign < 0 => Ok(Number::Float(-0.0)),
        Some(value) => Ok(Number::Int(sign * value)),
        None => match text.parse::<f64>() {
            // The only infinity is the one that is written as such.
            Ok(value) if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) => {
                Err(format!("`{text}` is larger than any f64"))
            }
            Ok(value) => Ok(Number::Float(value)),
            Err(_) => Err(format!("`{text}` is not a number")),
        },
    }
}

fn scalar(element: ElementType, number: Number) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // A finite number that rounds to an infinity or NaN is not what was meant.
    let kept =
        |bytes: &[u8]| !number.to_f64().is_finite() || element.decode(bytes).to_f64().is_finite();
    match element.encode(number, &mut bytes) {
        Some(()) if kept(&bytes) => Ok(bytes),
        _ => Err(format!("{} does not hold {number}", element.name())),
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits {
        Some(digits) if !digits.is_empty() && digits.len().is_multiple_of(2) => Ok(digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => Err(format!(
            "`{text}` is not an even number of hexadecimal digits"
        )),
    }
}

/// Reads a size such as `64K`.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let size = digits
        .parse::<usize>()
        .ok()
        .and_then(|size| size.checked_mul(1 << shift));
    size.filter(|&size| size > 0)
        .ok_or_else(|| format!("`{text}` is not a size in bytes (4096, 64K, 1M, 2G)"))
}

fn made(spec: &str, out: Option<PathBuf>) -> Result<Argument, String> {
    let mut parts = spec.split(':');
    let bytes = parse_size(parts.next().unwrap_or_default())?;
    let mut element = ElementType::U8;
    let mut given = None;
    for option in parts {
        let fill = match option.split_once('=') {
            Some(("fill", value)) => Fill::Value(parse_number(value)?),
            Some(("seed", value)) => Fill::Random(
                value
                    .parse()
                    .map_err(|_| format!("`{value}` is not a seed"))?,
            ),
            Some((key, _)) => {
                return Err(format!(
                    "unknown option `{key}` of a buffer: fill=VALUE or seed=NUMBER"
                ));
            }
            None => {
                element = ElementType::from_name(option).ok_or_else(|| {
                    format!("`{option}` is no element type ({})", ElementType::names())
                })?;
                continue;
            }
        };
        if given.replace(fill).is_some() {
            return Err("a buffer takes one fill=VALUE or seed=NUMBER".to_owned());
        }
    }
    let fill = given.unwrap_or(Fill::None);
    if bytes % element.bytes() != 0 {
        return Err(format!(
            "{bytes} bytes are no whole number of {} elements",
            element.name()
        ));
    }
    if let Fill::Value(number) = fill {
        scalar(element, number)?;
    }
    Ok(Argument::Made {
        bytes,
        element,
        fill,
        out,
    })
}

fn file(text: &str) -> Result<Argument, String> {
    let (path, element) = match text.rsplit_once(':') {
        // Neither a path nor a type is in front: what was meant as a type is wrong.
        Some((head, rest))
            if !head.ends_with(".npy")
                && !head.ends_with(".bin")
                && ElementType::from_name(rest).is_none() =>
        {
            return Err(format!(
                "`{head}` is neither an element type ({}) nor hex, null, buf, out, nor a .npy or .bin file",
                ElementType::names()
            ));
        }
        Some((path, name)) => {
            let element = ElementType::from_name(name);
            (
                path,
                element.ok_or_else(|| {
                    format!("`{name}` is no element type ({})", ElementType::names())
                })?,
            )
        }
        None => (text, ElementType::U8),
    };
    if !path.ends_with(".npy") && !path.ends_with(".bin") {
        return Err(format!(
            "`{text}` is neither TYPE:VALUE, hex:, null, buf:, out:, nor a .npy or .bin file"
        ));
    }
    Ok(Argument::File {
        path: PathBuf::from(path),
        element,
    })
}

impl Argument {
    /// The buffer that the argument points to, if it is a pointer to one.
    fn buffer(&self, position: usize) -> Result<Option<Buffer>> {
        let (element, shape, content) = match self {
            Argument::Value(_) | Argument::Null => return Ok(None),
            Argument::Made {
                bytes,
                element,
                fill,
                ..
            } => {
                let elements = bytes / element.bytes();
                (
                    *element,
                    vec![elements],
                    content(*element, elements, *fill)?,
                )
            }
            Argument::File { path, element } => {
                let content = std::fs::read(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                if path.extension().is_some_and(|extension| extension == "npy") {
                    let array =
                        Array::parse(&content).with_context(|| path.display().to_string())?;
                    let element = array.element().unwrap_or(ElementType::U8);
                    (element, array.shape, array.data)
                } else {
                    let size = element.bytes();
                    ensure!(
                        content.len().is_multiple_of(size),
                        "{}: {} bytes are no whole number of {}",
                        path.display(),
                        content.len(),
                        element.name()
                    );
                    (*element, vec![content.len() / size], content)
                }
            }
        };
        if content.is_empty()
            && let Argument::File { path, .. } = self
        {
            return Err(usage(format!(
                "argument {position}: {} holds no elements, and a buffer has at least one",
                path.display()
            )));
        }
        let name = format!("arg{position}");
        Ok(Some(Buffer {
            name,
            element,
            shape,
            content,
            given: !matches!(
                self,
                Argument::Made {
                    fill: Fill::None,
                    ..
                }
            ),
            direction: Direction::Scratch,
            golden: None,
        }))
    }

    /// The file that the buffer's content is written to.
    pub fn out(&self) -> Option<&Path> {
        match self {
            Argument::Made { out, .. } => out.as_deref(),
            _ => None,
        }
    }
}

fn content(element: ElementType, elements: usize, fill: Fill) -> Result<Vec<u8>> {
    Ok(match fill {
        Fill::Random(seed) => Generator::Bits { seed }.bytes(element, elements)?,
        Fill::Value(value) => filled(element, elements, value)?,
        Fill::None => filled(element, elements, Number::Int(0))?,
    })
}

/// Buffers and kernarg segment of a kernel called with these arguments.
///
/// The second result says which buffer each argument points to.
///
/// # Errors
///
/// A number or size of arguments that is not the kernel's (wrong usage, with the list of its
/// parameters); a file that cannot be read or holds nothing.
pub fn bind(
    kernel: &Kernel,
    arguments: &[Argument],
) -> Result<(Vec<Buffer>, Vec<Option<usize>>, Kernarg)> {
    let mut buffers = Vec::new();
    let mut indices = Vec::new();
    let mut values = Vec::new();
    for (position, argument) in arguments.iter().enumerate() {
        let index = argument.buffer(position)?.map(|buffer| {
            buffers.push(buffer);
            buffers.len() - 1
        });
        values.push(match (argument, index) {
            (Argument::Value(bytes), _) => FieldValue::Bytes(bytes.clone()),
            (_, Some(index)) => FieldValue::Buffer(index),
            (_, None) => FieldValue::Bytes(vec![0; 8]),
        });
        indices.push(index);
    }
    let kernarg = match &kernel.metadata {
        Some(_) => by_metadata(kernel, values)?,
        None => by_alignment(values),
    };
    kernarg.check()?;
    Ok((buffers, indices, kernarg))
}

fn usage(text: String) -> anyhow::Error {
    UsageError(text).into()
}

/// The kernel's explicit parameters in words.
pub fn parameters(kernel: &Kernel) -> String {
    let list = kernel
        .metadata
        .iter()
        .flat_map(|m| &m.args)
        .filter(|a| !a.value_kind.starts_with("hidden_"));
    let words: Vec<String> = list
        .enumerate()
        .map(|(position, argument)| {
            let name = argument
                .name
                .as_deref()
                .map(|name| format!(" `{name}`"))
                .unwrap_or_default();
            format!(
                "  {position}:{name} {}, {} bytes",
                argument.value_kind, argument.size
            )
        })
        .collect();
    if words.is_empty() {
        "  none".to_owned()
    } else {
        words.join("\n")
    }
}

fn by_metadata(kernel: &Kernel, values: Vec<FieldValue>) -> Result<Kernarg> {
    let Some(metadata) = &kernel.metadata else {
        bail!("{} has no metadata", kernel.name)
    };
    let (hidden, explicit): (Vec<_>, Vec<_>) = metadata
        .args
        .iter()
        .partition(|a| a.value_kind.starts_with("hidden_"));
    if explicit.len() != values.len() {
        return Err(usage(format!(
            "{} takes {} arguments, but {} are given:\n{}",
            kernel.name,
            explicit.len(),
            values.len(),
            parameters(kernel)
        )));
    }
    let mut fields = Vec::new();
    for (position, (parameter, value)) in explicit.iter().zip(values).enumerate() {
        let size = match &value {
            FieldValue::Bytes(bytes) => bytes.len(),
            _ => 8,
        };
        if size != parameter.size as usize {
            return Err(usage(format!(
                "argument {position} has {size} bytes, but {} takes {}:\n{}",
                kernel.name,
                parameter.size,
                parameters(kernel)
            )));
        }
        fields.push(Field {
            offset: parameter.offset as usize,
            size,
            value,
        });
    }
    for argument in hidden {
        let kind = &argument.value_kind;
        let value = Hidden::from_kind(kind)
            .with_context(|| format!("hidden argument `{kind}` of {} is unknown", kernel.name))?;
        fields.push(Field {
            offset: argument.offset as usize,
            size: argument.size as usize,
            value: FieldValue::Hidden(value),
        });
    }
    Ok(Kernarg {
        bytes: metadata.kernarg_segment_size as usize,
        align: metadata.kernarg_segment_align.into(),
        fields,
    })
}

/// Without metadata: each argument at the next multiple of its size, as C lays out a struct.
fn by_alignment(values: Vec<FieldValue>) -> Kernarg {
    let mut fields = Vec::new();
    let mut end = 0usize;
    for value in values {
        let size = match &value {
            FieldValue::Bytes(bytes) => bytes.len(),
            _ => 8,
        };
        let align = if size.is_power_of_two() {
            size.min(16)
        } else {
            4
        };
        let offset = end.next_multiple_of(align);
        fields.push(Field {
            offset,
            size,
            value,
        });
        end = offset + size;
    }
    Kernarg {
        bytes: end,
        align: 8,
        fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Argument {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refuse(text: &str) -> String {
        text.parse::<Argument>().unwrap_err()
    }

    #[test]
    fn the_grammar() {
        assert_eq!(
            parse("i32:-5"),
            Argument::Value((-5i32).to_le_bytes().to_vec())
        );
        assert_eq!(
            parse("f32:1.5"),
            Argument::Value(1.5f32.to_le_bytes().to_vec())
        );
        assert_eq!(
            parse("f32:-0"),
            Argument::Value((-0.0f32).to_le_bytes().to_vec())
        );
        assert_eq!(
            parse("u64:0xffffffffffffffff"),
            Argument::Value(vec![255; 8])
        );
        assert_eq!(parse("bf16:1"), Argument::Value(vec![0x80, 0x3f]));
        assert_eq!(parse("hex:0a0B"), Argument::Value(vec![10, 11]));
        assert_eq!(parse("null"), Argument::Null);
        let made = |bytes, element, fill, out: Option<&str>| Argument::Made {
            bytes,
            element,
            fill,
            out: out.map(PathBuf::from),
        };
        let zero = Fill::None;
        assert_eq!(parse("buf:4K"), made(4096, ElementType::U8, zero, None));
        assert_eq!(
            parse("buf:16:f32:fill=-1.5"),
            made(16, ElementType::F32, Fill::Value(Number::Float(-1.5)), None)
        );
        assert_eq!(
            parse("out:8:seed=7=x.npy"),
            made(8, ElementType::U8, Fill::Random(7), Some("x.npy"))
        );
        assert_eq!(
            parse("out:8=x.bin"),
            made(8, ElementType::U8, zero, Some("x.bin"))
        );
        assert_eq!(
            parse("a/b.npy"),
            Argument::File {
                path: "a/b.npy".into(),
                element: ElementType::U8
            }
        );
        assert_eq!(
            parse("b.bin:f16"),
            Argument::File {
                path: "b.bin".into(),
                element: ElementType::F16
            }
        );
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        assert_eq!(refuse("i8:200"), "i8 does not hold 200");
        assert_eq!(refuse("i32:x"), "`x` is not a number");
        assert!(refuse("f32:1e999").contains("larger than any f64"));
        assert_eq!(refuse("f32:1e39"), "f32 does not hold 1e39");
        assert_eq!(refuse("f16:-70000"), "f16 does not hold -70000");
        assert_eq!(refuse("f8e4m3fn:500"), "f8e4m3fn does not hold 500");
        assert!(refuse("buf:8:f32:fill=1e999").contains("larger than any f64"));
        assert_eq!(refuse("buf:8:fill=256"), "u8 does not hold 256");
        assert_eq!(
            parse("f32:-inf"),
            Argument::Value(f32::NEG_INFINITY.to_le_bytes().to_vec())
        );
        assert!(refuse("i32:1.5").contains("does not hold"));
        assert!(refuse("hex:123").contains("even number"));
        assert!(refuse("buf:0").contains("not a size"));
        assert!(refuse("buf:99999999999G").contains("not a size"));
        assert!(refuse("buf:6:f32").contains("no whole number of f32"));
        assert!(refuse("buf:8:float").contains("`float` is no element type"));
        assert!(refuse("buf:8:zero=1").contains("unknown option `zero`"));
        assert!(refuse("out:8").contains("=FILE"));
        assert!(refuse("out:8:fill=1").contains("=FILE"));
        assert!(refuse("seven").contains("neither TYPE:VALUE"));
        assert!(refuse("a.txt:f32").contains("neither TYPE:VALUE"));
    }
}
