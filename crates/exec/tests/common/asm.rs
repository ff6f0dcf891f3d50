//! Scalar instructions from the fixed bits of the target's table. Operands are codes as encoded.

use rocjitsu_isa::Target;

/// Code of a small inline integer.
pub fn int(value: i32) -> u32 {
    if value >= 0 {
        128 + value as u32
    } else {
        (192 - value) as u32
    }
}

/// Code of a 32-bit literal, which stands behind the instruction.
pub const LITERAL: u32 = 255;

/// An assembler for a target.
#[derive(Clone, Copy)]
pub struct Asm(pub Target);

impl Asm {
    /// Code of M0.
    pub fn m0(self) -> u32 {
        if self.0.is_cdna() { 124 } else { 125 }
    }

    /// Whether the target has the instruction.
    pub fn has(self, mnemonic: &str) -> bool {
        self.0.table().rows().iter().any(|r| r.mnemonic == mnemonic)
    }

    /// Fixed bits of the first row whose record contains `part`, and RTN only if `part` does.
    fn bits(self, mnemonic: &str, part: &str) -> u64 {
        let rows = self.0.table().rows();
        let returns = |r: &str| part.is_empty() || r.contains("RTN") == part.contains("RTN");
        let row = rows.iter().find(|r| {
            r.mnemonic == mnemonic && r.record.contains(part) && returns(r.record) && !r.alternate
        });
        row.unwrap_or_else(|| panic!("{} has no {mnemonic} ({part})", self.0))
            .value as u64
    }

    fn word(self, mnemonic: &str, fields: u32) -> Vec<u8> {
        (self.bits(mnemonic, "") as u32 | fields)
            .to_le_bytes()
            .to_vec()
    }

    pub fn sop1(self, mnemonic: &str, dst: u32, src: u32) -> Vec<u8> {
        self.word(mnemonic, dst << 16 | src)
    }

    pub fn sop2(self, mnemonic: &str, dst: u32, src0: u32, src1: u32) -> Vec<u8> {
        self.word(mnemonic, dst << 16 | src1 << 8 | src0)
    }

    pub fn sopc(self, mnemonic: &str, src0: u32, src1: u32) -> Vec<u8> {
        self.word(mnemonic, src1 << 8 | src0)
    }

    pub fn sopk(self, mnemonic: &str, dst: u32, immediate: i32) -> Vec<u8> {
        self.word(mnemonic, dst << 16 | immediate as u32 & 0xffff)
    }

    pub fn sopp(self, mnemonic: &str, immediate: i32) -> Vec<u8> {
        self.word(mnemonic, immediate as u32 & 0xffff)
    }

    /// `s_setreg_imm32_b32 hwreg(register, offset, size), value`.
    pub fn setreg(self, register: u32, offset: u32, size: u32, value: u32) -> Vec<u8> {
        let mut code = self.sopk("s_setreg_imm32_b32", 0, hwreg(register, offset, size));
        code.extend(value.to_le_bytes());
        code
    }

    /// Scalar memory, `base` the first SGPR of the pair or descriptor, `part` a part of the record's name.
    pub fn smem(
        self,
        mnemonic: &str,
        part: &str,
        data: u32,
        base: u32,
        offset: i32,
        soffset: u32,
    ) -> Vec<u8> {
        let width = if self.0.generation() >= 12 { 24 } else { 21 };
        let offset = u64::from(offset as u32) & ((1 << width) - 1);
        let fields = u64::from((base / 2) | data << 6) | offset << 32 | u64::from(soffset) << 57;
        (self.bits(mnemonic, part) | fields).to_le_bytes().to_vec()
    }

    /// A DS instruction; `offset` holds both offsets.
    pub fn ds(
        self,
        mnemonic: &str,
        vdst: u32,
        address: u32,
        data: [u32; 2],
        offset: u32,
    ) -> Vec<u8> {
        let high = u64::from(address | data[0] << 8 | data[1] << 16 | vdst << 24);
        let fields = u64::from(offset) | high << 32;
        (self.bits(mnemonic, "") | fields).to_le_bytes().to_vec()
    }

    /// A flat load or store with a 64-bit address and no offset: `data` is loaded or stored.
    pub fn flat(self, mnemonic: &str, data: u32, address: u32) -> Vec<u8> {
        let store = mnemonic.contains("store");
        let bits = self.bits(mnemonic, "");
        let off = if self.0.is_cdna() { 0 } else { 0x7c };
        if self.0.generation() < 12 {
            let data = u64::from(data) << if store { 40 } else { 56 };
            let fields = u64::from(address) << 32 | data | off << 48;
            return (bits | fields).to_le_bytes().to_vec();
        }
        let data = u64::from(data) << if store { 55 } else { 32 };
        let mut code = (bits | off | data).to_le_bytes().to_vec();
        code.extend(address.to_le_bytes());
        code
    }
}

/// The immediate that names a field of a hardware register.
pub fn hwreg(register: u32, offset: u32, size: u32) -> i32 {
    (register | offset << 6 | (size - 1) << 11) as i32
}
