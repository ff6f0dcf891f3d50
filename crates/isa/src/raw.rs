//! Rows as the generated tables hold them: without addresses. The tables of all targets are in the program; were there
//! addresses in them, loading it would write every page of every table.

/// A text of up to `N` bytes.
pub(crate) struct Text<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    const fn new(text: &str) -> Text<N> {
        let from = text.as_bytes();
        let mut bytes = [0; N];
        let mut i = 0;
        // A text that is too long does not compile.
        while i < from.len() {
            bytes[i] = from[i];
            i += 1;
        }
        Text {
            length: from.len() as u8,
            bytes,
        }
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length));
        std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }
}

/// A row in compact form; `table` makes a `Row` of it at first use.
pub(crate) struct Raw {
    pub(crate) record: Text<72>,
    pub(crate) mnemonic: Text<56>,
    pub(crate) op: u16,
    pub(crate) op_y: u16,
    pub(crate) opcode: u16,
    pub(crate) value: u128,
    /// Indices into `shared`.
    pub(crate) layout: u16,
    pub(crate) operands: u16,
    pub(crate) print: u16,
    pub(crate) attributes: u16,
}

/// A row, as the generated tables write it.
#[allow(non_snake_case, clippy::too_many_arguments)]
pub(crate) const fn Raw(
    record: &str,
    mnemonic: &str,
    op: u16,
    op_y: u16,
    opcode: u16,
    value: u128,
    layout: u16,
    operands: u16,
    print: u16,
    attributes: u16,
) -> Raw {
    Raw {
        record: Text::new(record),
        mnemonic: Text::new(mnemonic),
        op,
        op_y,
        opcode,
        value,
        layout,
        operands,
        print,
        attributes,
    }
}
