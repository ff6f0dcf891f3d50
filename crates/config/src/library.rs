//! Whether a runtime's library knows a target. The names of the targets that it knows are in its file, whole.

use std::io::{self, Read};

/// Bytes that are read at once.
const PART: usize = 64 << 10;

/// Those of `targets` whose names a library does not have, or only as parts of longer ones.
///
/// # Errors
/// Those of reading.
pub fn unknown_targets<'t>(
    mut library: impl Read,
    targets: impl IntoIterator<Item = &'t str>,
) -> io::Result<Vec<&'t str>> {
    let mut unknown: Vec<&str> = targets.into_iter().collect();
    // What may be the head of a name, or one whose end is not seen yet, is kept for the next turn.
    let longest = unknown.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut buffer = vec![0; longest + PART];
    let mut kept = 0;
    while !unknown.is_empty() {
        let read = match library.read(&mut buffer[kept..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let filled = kept + read;
        unknown.retain(|name| !has(&buffer[..filled], name, read == 0));
        if read == 0 {
            break;
        }
        let from = filled - filled.min(longest);
        buffer.copy_within(from..filled, 0);
        kept = filled - from;
    }
    Ok(unknown)
}

/// Whether a name is in `bytes`, and nothing behind it makes it longer. What ends with the bytes counts at the `end`.
fn has(bytes: &[u8], name: &str, end: bool) -> bool {
    let name = name.as_bytes();
    let Some(&first) = name.first() else {
        return false;
    };
    let mut rest = bytes;
    // Much quicker than comparing at every place.
    while let Some(at) = rest.iter().position(|&byte| byte == first) {
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(name)
            && after
                .first()
                .map_or(end, |byte| !byte.is_ascii_alphanumeric())
        {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(content: &[u8], target: &str) -> bool {
        unknown_targets(content, [target]).unwrap().is_empty()
    }

    #[test]
    fn names_are_whole() {
        let content = b"x\0gfx942\0amdgcn-amd-amdhsa--gfx90a:xnack+\0gfx12501\0ggfx950";
        assert!(knows(content, "gfx942") && knows(content, "gfx90a") && knows(content, "gfx950"));
        assert!(!knows(content, "gfx1250") && !knows(content, "gfx9") && !knows(content, ""));
        let asked = ["gfx942", "gfx1250", "gfx1100"];
        let unknown = unknown_targets(&content[..], asked).unwrap();
        assert_eq!(unknown, ["gfx1250", "gfx1100"]);
        assert_eq!(unknown_targets(&b""[..], ["gfx942"]).unwrap(), ["gfx942"]);
    }

    #[test]
    fn names_may_lie_across_two_parts() {
        for at in PART - 2..PART + 20 {
            let mut content = vec![b'.'; 3 * PART];
            content[at..at + 6].copy_from_slice(b"gfx942");
            assert!(knows(&content, "gfx942"), "{at}");
            content[at + 6] = b'1';
            assert!(!knows(&content, "gfx942"), "{at}");
        }
    }

    /// Gives a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let most = out.len().min(1);
            self.0.read(&mut out[..most])
        }
    }

    #[test]
    fn short_reads_do() {
        assert!(
            unknown_targets(Slow(b"..gfx942."), ["gfx942"])
                .unwrap()
                .is_empty()
        );
        assert!(
            unknown_targets(Slow(b"..gfx942"), ["gfx942"])
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            unknown_targets(Slow(b"..gfx9421"), ["gfx942"])
                .unwrap()
                .len(),
            1
        );
    }
}
