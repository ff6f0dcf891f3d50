//! Clang's offload bundles, which `hipcc --genco` writes: several code objects in one file, each
//! with the id of its target. Source: LLVM's documentation of clang-offload-bundler.

use super::CodeObjectError;

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_MAGIC: &[u8] = b"CCOB";

/// One part of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Kind of offloading and target, such as `hipv4-amdgcn-amd-amdhsa--gfx942`.
    pub id: &'a str,
    /// The bytes; empty for the host's part.
    pub data: &'a [u8],
}

/// The parts of a bundle; `None` if the data is no bundle.
///
/// # Errors
///
/// [`CodeObjectError::Bundle`] for a compressed or damaged bundle.
pub fn parts(data: &[u8]) -> Result<Option<Vec<Part<'_>>>, CodeObjectError> {
    if data.starts_with(COMPRESSED_MAGIC) {
        let reason = "it is compressed: unpack it with clang-offload-bundler --unbundle";
        return Err(CodeObjectError::Bundle(reason.to_owned()));
    }
    let Some(rest) = data.strip_prefix(MAGIC) else {
        return Ok(None);
    };
    let mut reader = Reader { rest };
    let count = reader.number("the number of parts")?;
    let mut parts = Vec::new();
    for index in 0..count {
        let offset = reader.number(&format!("the offset of part {index}"))?;
        let size = reader.number(&format!("the size of part {index}"))?;
        let length = reader.number(&format!("the length of the id of part {index}"))?;
        let id = reader.bytes(length, &format!("the id of part {index}"))?;
        let id = std::str::from_utf8(id)
            .map_err(|_| CodeObjectError::Bundle(format!("the id of part {index} is not UTF-8")))?;
        let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        let content = range.and_then(|(offset, size)| data.get(offset..)?.get(..size)).ok_or_else(|| {
            let file = data.len();
            CodeObjectError::Bundle(format!("{size} bytes at offset {offset} of part {index} ({id}) leave the file of {file}"))
        })?;
        parts.push(Part { id, data: content });
    }
    Ok(Some(parts))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: u64, what: &str) -> Result<&'a [u8], CodeObjectError> {
        let parts = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let (bytes, rest) =
            parts.ok_or_else(|| CodeObjectError::Bundle(format!("{what} is cut off")))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn number(&mut self, what: &str) -> Result<u64, CodeObjectError> {
        let bytes = self.bytes(8, what)?;
        Ok(bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }
}

impl Part<'_> {
    /// The target id: what follows the kind of offloading. `None` for the host's part.
    pub fn target_id(&self) -> Option<&str> {
        let (kind, id) = self.id.split_once('-')?;
        (kind != "host").then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(parts: &[(&str, &[u8])]) -> Vec<u8> {
        let table: usize = parts.iter().map(|(id, _)| 24 + id.len()).sum();
        let mut at = MAGIC.len() + 8 + table;
        let mut data = MAGIC.to_vec();
        data.extend((parts.len() as u64).to_le_bytes());
        for (id, content) in parts {
            for number in [at, content.len(), id.len()] {
                data.extend((number as u64).to_le_bytes());
            }
            data.extend(id.as_bytes());
            at += content.len();
        }
        parts.iter().for_each(|(_, content)| data.extend(*content));
        data
    }

    #[test]
    fn parts_are_found() {
        let data = bundle(&[
            ("host-x86_64-unknown-linux-gnu-", b""),
            ("hipv4-amdgcn-amd-amdhsa--gfx942", b"elf"),
        ]);
        let found = parts(&data).unwrap().unwrap();
        assert_eq!(
            (found[0].target_id(), found[1].target_id()),
            (None, Some("amdgcn-amd-amdhsa--gfx942"))
        );
        assert_eq!(found[1].data, b"elf");
        assert_eq!(parts(b"\x7fELF").unwrap(), None);
        assert!(
            parts(b"CCOB....")
                .unwrap_err()
                .to_string()
                .contains("compressed")
        );
    }

    #[test]
    fn truncations_are_errors() {
        let data = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx942", b"elf")]);
        for length in MAGIC.len()..data.len() {
            assert!(parts(&data[..length]).is_err(), "{length}");
        }
        let mut many = data.clone();
        many[MAGIC.len()..MAGIC.len() + 8].fill(0xff);
        assert!(parts(&many).is_err());
    }
}
