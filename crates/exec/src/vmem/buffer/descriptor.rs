//! The buffer descriptor (V#) and the arithmetic of buffer addresses: which address a lane's index and
//! offset mean, and whether it is in range. Manuals: "Buffer Addressing", "Range Checking",
//! "Swizzled Buffer Addressing", "Buffer Resource".

use rocjitsu_isa::Target;

/// Which generation's rules hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// gfx90a, gfx942, gfx950.
    #[default]
    Cdna,
    /// gfx1100, gfx1151.
    Rdna3,
    /// gfx1201: the scalar offset counts for swizzling and range checks.
    Rdna4,
    /// gfx1250: 57-bit base, 45-bit size in bytes.
    Cdna5,
}

impl Rules {
    /// The rules of a target.
    pub fn of(target: Target) -> Rules {
        match target.generation() {
            9 => Rules::Cdna,
            12 if target == Target::Gfx1250 => Rules::Cdna5,
            12 => Rules::Rdna4,
            _ => Rules::Rdna3,
        }
    }
}

/// Inputs of a lane's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Index from a VGPR, without the lane number.
    pub index: u64,
    /// Immediate plus VGPR offset (gfx12: plus the scalar offset).
    pub offset: u64,
    /// Lane.
    pub lane: u64,
}

/// A descriptor, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The generation's rules.
    pub rules: Rules,
    /// First byte, scalar offset included where it is not part of the offset.
    pub base: u64,
    /// Bytes of a record.
    pub stride: u64,
    /// NUM_RECORDS.
    pub records: u64,
    /// Scalar offset that is no part of the offset but shrinks a buffer whose size is in bytes (CDNA 2 to 4, RDNA3).
    ///
    /// RDNA3 manual, 9.1.5: "num_records is reduced by sgpr_offset". The CDNA manuals' range checks do not name it, but rocBLAS
    /// counts on it there: its matrix products without a loop for the rest of K (`Cijk_..._ZB_MT16x16x16_...` on gfx90a) reach the
    /// rows of a tile by scalar offsets and need zeros behind the last row.
    pub shrink: u64,
    /// Swizzled addressing.
    pub swizzled: bool,
    /// Bytes of an element of a swizzled buffer.
    pub element: u64,
    /// Indices in one run of a swizzled buffer.
    pub index_stride: u64,
    /// The lane number is added to the index.
    pub add_tid: bool,
    /// Whether the instruction has an index.
    pub indexed: bool,
    /// OOB_SELECT.
    pub select: u8,
    /// Destination selects, 3 bits each.
    pub dst_sel: u16,
    /// Format: CDNA number format (bits 2:0) and data format (bits 6:3); the unified format elsewhere.
    pub format: u8,
    /// The type field says that this is no buffer: nothing is accessed.
    pub foreign: bool,
}

impl Buffer {
    /// Takes a descriptor apart. `soffset` is the scalar offset; `formatted` tells FORMAT instructions,
    /// whose stride has no upper bits in the data format field (CDNA).
    pub fn new(
        rules: Rules,
        words: [u32; 4],
        soffset: u32,
        indexed: bool,
        formatted: bool,
    ) -> Buffer {
        let bits = u128::from(words[0])
            | u128::from(words[1]) << 32
            | u128::from(words[2]) << 64
            | u128::from(words[3]) << 96;
        let field = |low: u32, width: u32| (bits >> low) as u64 & ((1 << width) - 1);
        let scale = |code: u64| [1, 4, 8, 32][code as usize & 3];
        let mut b = Buffer {
            rules,
            base: field(0, 48),
            stride: field(48, 14),
            records: field(64, 32),
            shrink: 0,
            swizzled: false,
            element: 4,
            index_stride: 8 << field(117, 2),
            add_tid: field(119, 1) != 0,
            indexed,
            select: field(124, 2) as u8,
            dst_sel: field(96, 12) as u16,
            format: 0,
            foreign: field(126, 2) != 0,
        };
        // A 48-bit base is an address whose upper bits repeat its top bit.
        b.base = ((b.base << 16) as i64 >> 16) as u64;
        match rules {
            Rules::Cdna => {
                b.swizzled = field(63, 1) != 0;
                b.format = field(108, 7) as u8;
                if b.add_tid && !formatted {
                    b.stride |= field(111, 4) << 14;
                }
                b.base = b.base.wrapping_add(u64::from(soffset));
                b.shrink = u64::from(soffset);
            }
            Rules::Rdna3 | Rules::Rdna4 => {
                b.swizzled = field(62, 2) != 0;
                b.element = if field(62, 2) == 3 { 16 } else { 4 };
                b.format = field(108, 6) as u8;
                if rules == Rules::Rdna3 {
                    b.base = b.base.wrapping_add(u64::from(soffset));
                    b.shrink = u64::from(soffset);
                } else {
                    b.stride *= scale(field(114, 2));
                }
            }
            Rules::Cdna5 => {
                b.base = ((field(0, 57) << 7) as i64 >> 7) as u64;
                b.records = field(57, 45);
                b.stride = field(108, 14) * scale(field(122, 2));
                b.swizzled = field(124, 1) != 0;
                b.element = 16;
                b.index_stride = 32;
                b.add_tid = false;
                b.select = field(125, 1) as u8;
                b.dst_sel = 0;
            }
        }
        b
    }

    /// Whether the scalar offset belongs to [`Position::offset`].
    pub fn offset_has_scalar(rules: Rules) -> bool {
        matches!(rules, Rules::Rdna4 | Rules::Cdna5)
    }

    /// Whether addresses are base plus offset, with a limit on the offset: no index, lane number or swizzle.
    #[inline(always)]
    pub fn is_raw(&self) -> bool {
        !self.swizzled && !self.indexed && !self.add_tid && !self.foreign
    }

    /// Whether the data of a lane in a swizzled buffer lie one behind the other from their first byte on, over the end
    /// of an element: "for 16-byte elements that are only DWORD-aligned, addresses to higher dwords are offset linearly
    /// from the address of the first dword" (RDNA4 and CDNA5 manuals, 9.4.2; RDNA3's says nothing of the kind).
    #[inline(always)]
    fn is_linear(&self) -> bool {
        self.element == 16 && matches!(self.rules, Rules::Rdna4 | Rules::Cdna5)
    }

    /// The address of the byte `more` bytes behind a lane's position.
    #[inline(always)]
    pub fn address(&self, at: Position, more: u64) -> u64 {
        let index = at.index + if self.add_tid { at.lane } else { 0 };
        let (within, behind) = if self.swizzled && self.is_linear() {
            (0, more)
        } else {
            (more, 0)
        };
        let mut offset = at.offset + within;
        if self.swizzled {
            if self.rules == Rules::Rdna4 {
                offset &= 0xffff_ffff;
            }
            let (msb, lsb) = (index / self.index_stride, index % self.index_stride);
            let (high, low) = (offset / self.element, offset % self.element);
            let within = (msb * self.stride + high * self.element) * self.index_stride
                + lsb * self.element
                + low;
            self.base.wrapping_add(within + behind)
        } else {
            self.base
                .wrapping_add(index * self.stride)
                .wrapping_add(offset)
        }
    }

    /// How many bytes from the one `more` bytes behind a position on have addresses one behind the other: up to the
    /// end of the element in a swizzled buffer, all of them where elements do not end an access.
    #[inline(always)]
    pub fn together(&self, at: Position, more: u64) -> u64 {
        if self.swizzled && !self.is_linear() {
            self.element - (at.offset + more) % self.element
        } else {
            u64::MAX >> 1
        }
    }

    /// Whether an access of `bytes` bytes falls into several pieces of memory.
    #[inline(always)]
    pub fn splits(&self, at: Position, bytes: u64) -> bool {
        self.swizzled && !self.is_linear() && (bytes > 4 || self.together(at, 0) < bytes)
    }

    /// Whether `bytes` bytes, `more` bytes behind a lane's position, may be accessed.
    #[inline(always)]
    pub fn in_range(&self, at: Position, more: u64, bytes: u64) -> bool {
        if self.foreign {
            return false;
        }
        let offset = at.offset + more;
        let index = at.index;
        match self.rules {
            Rules::Cdna => {
                if self.indexed && self.stride != 0 {
                    index < self.records
                } else {
                    !self.indexed && self.add_tid
                        || offset < self.records.saturating_sub(self.shrink)
                }
            }
            Rules::Rdna3 | Rules::Rdna4 => {
                let index = index + if self.add_tid { at.lane } else { 0 };
                let structured = index < self.records && offset + bytes <= self.stride;
                match self.select {
                    0 => structured,
                    1 => index < self.records,
                    2 => self.records != 0,
                    _ if self.swizzled && self.stride != 0 => structured,
                    _ => {
                        index * self.stride + offset + bytes
                            <= self.records.saturating_sub(self.shrink)
                    }
                }
            }
            Rules::Cdna5 => {
                self.swizzled
                    || (index * self.stride + offset + bytes <= self.records
                        && (self.select == 0 || offset + bytes <= self.stride))
            }
        }
    }
}
