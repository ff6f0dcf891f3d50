//! `.npy` files, versions 1 and 2: a type, a shape, and the elements in row-major order.
//! Source: NumPy's documentation, "numpy.lib.format".

use super::element::ElementType;

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array as a file holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type string, such as `<f4`.
    pub descr: String,
    /// Size of an element in bytes.
    pub element_bytes: usize,
    /// Extent of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// The elements, row-major, little-endian.
    pub data: Vec<u8>,
}

/// Why bytes are not an array that can be used.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)]
pub enum NpyError {
    #[error("not an .npy file (it does not start with \\x93NUMPY)")]
    Magic,
    #[error("version {0}.{1} of the .npy format: versions 1.0 and 2.0 are read")]
    Version(u8, u8),
    #[error("the header is cut off: {0} bytes of {1}")]
    Truncated(usize, usize),
    #[error("header: {0}")]
    Header(String),
    #[error(
        "element type `{0}`: little-endian and single-byte numbers are read (<f4, <i8, |u1, ...)"
    )]
    Type(String),
    #[error("column-major order (fortran_order) is not read: save with numpy.ascontiguousarray")]
    Fortran,
    #[error("{0} bytes of data, but the shape {1:?} of {2} takes {3}")]
    Length(usize, Vec<usize>, String, usize),
}

impl Array {
    /// An array from its parts.
    pub fn new(element: ElementType, shape: &[usize], data: Vec<u8>) -> Self {
        let descr = element.numpy().to_owned();
        Array {
            descr,
            element_bytes: element.bytes(),
            shape: shape.to_vec(),
            data,
        }
    }

    /// Reads the bytes of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, NpyError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
        let cut = |wanted: usize| NpyError::Truncated(bytes.len(), wanted);
        let (length, header_at) = match *rest {
            [1, 0, a, b, ..] => (usize::from(u16::from_le_bytes([a, b])), 4),
            [2, 0, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 6),
            [major, minor, ..] if (major, minor) != (1, 0) && (major, minor) != (2, 0) => {
                return Err(NpyError::Version(major, minor));
            }
            _ => return Err(cut(MAGIC.len() + 6)),
        };
        let text = rest.get(header_at..).and_then(|rest| rest.get(..length));
        let text = text.ok_or_else(|| cut(MAGIC.len() + header_at + length))?;
        let text =
            std::str::from_utf8(text).map_err(|_| NpyError::Header("not text".to_owned()))?;
        let (descr, fortran, shape) = Dictionary { rest: text }.read().map_err(NpyError::Header)?;
        if fortran {
            return Err(NpyError::Fortran);
        }
        let element_bytes = element_bytes(&descr).ok_or_else(|| NpyError::Type(descr.clone()))?;
        let data = rest.get(header_at + length..).unwrap_or_default();
        let size = shape
            .iter()
            .try_fold(element_bytes, |size, &extent| size.checked_mul(extent));
        if size != Some(data.len()) {
            return Err(NpyError::Length(
                data.len(),
                shape,
                descr,
                size.unwrap_or(usize::MAX),
            ));
        }
        Ok(Array {
            descr,
            element_bytes,
            shape,
            data: data.to_vec(),
        })
    }

    /// The bytes of a file, version 1.0 where the header fits it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let extents: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let shape = match extents.len() {
            1 => format!("({},)", extents[0]),
            _ => format!("({})", extents.join(", ")),
        };
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': {shape}, }}",
            self.descr
        );
        // The header ends with a line feed, and the data starts at a multiple of 64 bytes.
        let wide = header.len() + 128 > usize::from(u16::MAX);
        let prefix = MAGIC.len() + if wide { 6 } else { 4 };
        let padded = (prefix + header.len() + 1).next_multiple_of(64) - prefix;
        header.extend(std::iter::repeat_n(' ', padded - 1 - header.len()));
        header.push('\n');
        let mut bytes = MAGIC.to_vec();
        if wide {
            bytes.extend([2, 0]);
            bytes.extend((padded as u32).to_le_bytes());
        } else {
            bytes.extend([1, 0]);
            bytes.extend((padded as u16).to_le_bytes());
        }
        bytes.extend(header.as_bytes());
        bytes.extend(&self.data);
        bytes
    }

    /// The element type that the file's own type string means.
    pub fn element(&self) -> Option<ElementType> {
        use ElementType::*;
        [F64, F32, F16, I64, U64, I32, U32, I16, U16, I8, U8]
            .into_iter()
            .find(|element| element.numpy() == self.descr)
    }
}

/// Size of an element, or `None` if its byte order or kind is not read.
fn element_bytes(descr: &str) -> Option<usize> {
    match descr {
        "|b1" | "|i1" | "|u1" | "<i1" | "<u1" => Some(1),
        "<f2" | "<i2" | "<u2" => Some(2),
        "<f4" | "<i4" | "<u4" => Some(4),
        "<f8" | "<i8" | "<u8" => Some(8),
        _ => None,
    }
}

/// Reader of the header, a Python dictionary of a string, a boolean and a tuple.
struct Dictionary<'a> {
    rest: &'a str,
}

impl<'a> Dictionary<'a> {
    fn read(mut self) -> Result<(String, bool, Vec<usize>), String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.text()?;
            self.expect(':')?;
            match key {
                "descr" => descr = Some(self.text()?.to_owned()),
                "fortran_order" => fortran = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(format!("unknown key '{key}'")),
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err(format!("`{}` after the dictionary", self.rest.trim()));
        }
        let missing = |key: &str| format!("'{key}' is missing");
        Ok((
            descr.ok_or_else(|| missing("descr"))?,
            fortran.ok_or_else(|| missing("fortran_order"))?,
            shape.ok_or_else(|| missing("shape"))?,
        ))
    }

    fn accept(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.accept(wanted) {
            Ok(())
        } else {
            Err(format!("expected `{wanted}` before `{}`", self.rest.trim()))
        }
    }

    fn text(&mut self) -> Result<&'a str, String> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|c| *c == '\'' || *c == '"');
        let quote = quote.ok_or_else(|| format!("expected a string before `{}`", rest.trim()))?;
        let (text, rest) = rest[1..]
            .split_once(quote)
            .ok_or("a string without an end")?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        let rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(format!("expected True or False before `{}`", rest.trim()))
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let (inside, rest) = self.rest.split_once(')').ok_or("a tuple without an end")?;
        self.rest = rest;
        let extents = inside
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty());
        extents
            .map(|text| {
                text.parse()
                    .map_err(|_| format!("`{text}` is not an extent"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        for shape in [&[][..], &[0], &[3], &[2, 3], &[1, 2, 3]] {
            let elements: usize = shape.iter().product();
            let array = Array::new(ElementType::F32, shape, vec![7; elements * 4]);
            let bytes = array.to_bytes();
            assert_eq!((bytes.len() - array.data.len()) % 64, 0);
            assert_eq!(Array::parse(&bytes).unwrap(), array);
        }
        let deep = Array::new(ElementType::U8, &vec![1; 40_000], vec![9]);
        let bytes = deep.to_bytes();
        assert_eq!(bytes[6], 2);
        assert_eq!(Array::parse(&bytes).unwrap(), deep);
    }

    #[test]
    fn refusals_say_why() {
        let refuse = |bytes: &[u8]| Array::parse(bytes).unwrap_err().to_string();
        assert!(refuse(b"PK").contains("not an .npy file"));
        assert!(refuse(b"\x93NUMPY\x03\x00\x10\x00\x00\x00").contains("version 3.0"));
        assert!(refuse(b"\x93NUMPY\x01").contains("cut off"));
        let header = |text| file(text, &[0; 8]);
        assert!(
            refuse(&header(
                "{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}"
            ))
            .contains("column-major")
        );
        assert!(
            refuse(&header(
                "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}"
            ))
            .contains("`>f4`")
        );
        assert!(
            refuse(&header(
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"
            ))
            .contains("takes 12")
        );
        assert!(
            refuse(&header("{'descr': '<f4', 'fortran_order': False}"))
                .contains("'shape' is missing")
        );
        assert!(refuse(&header("{'descr': '<f4', 'order': 1}")).contains("unknown key 'order'"));
        assert!(refuse(&header("{'descr': '<f4")).contains("without an end"));
        let huge = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({0}, {0})}}",
            usize::MAX
        );
        assert!(refuse(&header(&huge)).contains("takes"));
    }

    #[test]
    fn truncations_do_not_panic() {
        let whole = Array::new(ElementType::I64, &[2, 2], vec![1; 32]).to_bytes();
        for length in 0..whole.len() {
            assert!(Array::parse(&whole[..length]).is_err());
        }
    }
}
