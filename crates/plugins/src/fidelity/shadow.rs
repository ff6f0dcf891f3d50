//! Which bytes of registers and memory hold values that are not exact. Only those take room.

use foldhash::HashMap;
use std::collections::BTreeMap;

use rocjitsu_isa::RegFile;
use rocjitsu_observe::Touch;

/// Registers of a wave.
#[derive(Default)]
pub struct Registers {
    /// Lanes of vector registers, for each of the four bytes.
    vector: HashMap<(RegFile, u16), [u64; 4]>,
    /// Bits of scalar registers: those of a mask are lanes.
    scalar: HashMap<(RegFile, u16), u32>,
}

impl Registers {
    /// Whether all are exact.
    pub fn is_exact(&self) -> bool {
        self.vector.is_empty() && self.scalar.is_empty()
    }

    /// The lanes of `lanes` in which a register is not exact; the bits of a scalar one that are not.
    pub fn read(&self, touch: &Touch, lanes: u64) -> u64 {
        let key = (touch.file, touch.register);
        if touch.lanes == 0 {
            return self.scalar.get(&key).copied().unwrap_or(0).into();
        }
        let Some(bytes) = self.vector.get(&key) else {
            return 0;
        };
        let read = (0..4).filter(|byte| touch.bytes >> byte & 1 != 0);
        read.fold(0, |all, byte: usize| all | bytes[byte]) & lanes
    }

    /// The bytes of a register's lane that are not exact, as bits 0 to 3; all four of a scalar register.
    pub fn bytes(&self, file: RegFile, register: u16, lane: u8) -> u8 {
        if self.scalar.contains_key(&(file, register)) {
            return 0xf;
        }
        let bytes = self.vector.get(&(file, register));
        let bit = |lanes: u64| (lanes >> (lane & 63) & 1) as u8;
        bytes.map_or(0, |bytes| {
            (0..4).fold(0, |all, byte| all | bit(bytes[byte]) << byte)
        })
    }

    /// A byte of a vector register is written: in `inexact` of its lanes by what is not exact.
    pub fn write(&mut self, touch: &Touch, byte: u32, inexact: u64) {
        let key = (touch.file, touch.register);
        let new = inexact & touch.lanes;
        if new == 0 && !self.vector.contains_key(&key) {
            return;
        }
        let bytes = self.vector.entry(key).or_default();
        let lanes = &mut bytes[byte as usize & 3];
        *lanes = *lanes & !touch.lanes | new;
        if *bytes == [0; 4] {
            self.vector.remove(&key);
        }
    }

    /// A scalar register is written, in these of its bits by what is not exact.
    pub fn write_scalar(&mut self, touch: &Touch, inexact: u32) {
        let key = (touch.file, touch.register);
        match inexact {
            0 => self.scalar.remove(&key),
            bits => self.scalar.insert(key, bits),
        };
    }
}

/// Bytes of memory, by pages of 4 KiB.
#[derive(Default)]
pub struct Bytes {
    pages: BTreeMap<u64, Box<[u64; 64]>>,
}

impl Bytes {
    /// Whether all are exact.
    pub fn is_exact(&self) -> bool {
        self.pages.is_empty()
    }

    fn is_inexact(&self, at: u64) -> bool {
        let page = self.pages.get(&(at >> 12));
        page.is_some_and(|page| page[(at >> 6 & 63) as usize] >> (at & 63) & 1 != 0)
    }

    /// Which of `bytes` bytes are not exact; bit 127 stands for all from there on.
    pub fn get(&self, address: u64, bytes: u32) -> u128 {
        if self.pages.is_empty() {
            return 0;
        }
        let at = |i: u32| self.is_inexact(address.wrapping_add(i.into()));
        (0..bytes).fold(0, |all, i| all | u128::from(at(i)) << i.min(127))
    }

    /// Writes bytes, of which those of `inexact` are not exact (bit 127: all from there on). How many these are.
    pub fn set(&mut self, address: u64, bytes: u32, inexact: u128) -> u32 {
        let mut marked = 0;
        if inexact == 0 && self.pages.is_empty() {
            return 0;
        }
        for i in 0..bytes {
            let at = address.wrapping_add(i.into());
            let (page, word, bit) = (at >> 12, (at >> 6 & 63) as usize, 1 << (at & 63));
            if inexact >> i.min(127) & 1 != 0 {
                let page = self.pages.entry(page).or_insert_with(|| Box::new([0; 64]));
                page[word] |= bit;
                marked += 1;
            } else if let Some(known) = self.pages.get_mut(&page) {
                known[word] &= !bit;
                if known.iter().all(|&word| word == 0) {
                    self.pages.remove(&page);
                }
            }
        }
        marked
    }

    /// Runs of bytes that are not exact within a range: start and length.
    pub fn ranges(&self, start: u64, bytes: u64) -> Vec<(u64, u64)> {
        let end = start.saturating_add(bytes);
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (&number, page) in self.pages.range(start >> 12..=end >> 12) {
            for (word, &bits) in page.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                    let at = (number << 12) + 64 * word as u64 + bit;
                    if at < start || at >= end {
                        continue;
                    }
                    match runs.last_mut() {
                        Some((from, length)) if *from + *length == at => *length += 1,
                        _ => runs.push((at, 1)),
                    }
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vgpr(register: u16, bytes: u8, lanes: u64) -> Touch {
        Touch {
            file: RegFile::Vgpr,
            register,
            bytes,
            lanes,
        }
    }

    #[test]
    fn a_byte_of_a_lane_is_marked_and_cleared_alone() {
        let mut registers = Registers::default();
        registers.write(&vgpr(5, 0b0010, 0b111), 1, 0b101);
        assert_eq!(registers.read(&vgpr(5, 0xf, 0b111), u64::MAX), 0b101);
        assert_eq!(registers.read(&vgpr(5, 0b1101, 0b111), u64::MAX), 0);
        assert_eq!(registers.bytes(RegFile::Vgpr, 5, 2), 0b0010);
        // Another byte, and the byte in lanes that do not take part, change nothing.
        registers.write(&vgpr(5, 0b0001, 0b111), 0, 0);
        registers.write(&vgpr(5, 0b0010, 0b010), 1, 0);
        assert_eq!(registers.read(&vgpr(5, 0xf, 0b111), u64::MAX), 0b101);
        registers.write(&vgpr(5, 0b0010, 0b111), 1, 0);
        assert!(registers.is_exact());
    }

    #[test]
    fn memory_is_marked_by_byte_across_pages() {
        let mut bytes = Bytes::default();
        assert_eq!(bytes.set(0x1ffe, 4, 0b1101), 3);
        assert_eq!(bytes.get(0x1ffe, 4), 0b1101);
        assert_eq!(bytes.ranges(0x1000, 0x2000), [(0x1ffe, 1), (0x2000, 2)]);
        assert_eq!(bytes.ranges(0x2001, 1), [(0x2001, 1)]);
        assert_eq!(bytes.set(0x1ff0, 0x20, 0), 0);
        assert!(bytes.is_exact());
        assert_eq!(bytes.set(0x100, 200, u128::MAX), 200);
    }
}
