//! COPY_LINEAR_RECT: a box of elements from one pitched volume to another.
//! Two layouts: the one up to SDMA 6, and the one of SDMA 7 (gfx12) with wider fields.

use super::{Cx, Trouble};
use crate::queue::ring::long;
use crate::queue::transfer::PIECE;

/// Words of the packet.
pub const WORDS: u32 = 13;

/// Widths of the fields.
struct Layout {
    /// Offsets and extents in x and y; those in y begin at bit 16.
    xy: u32,
    /// Offsets and extents in z.
    z: u32,
    /// First bit of the pitch, which takes the rest of its word.
    pitch: u32,
    slice: u32,
}

const UP_TO_SDMA_6: Layout = Layout {
    xy: 14,
    z: 11,
    pitch: 13,
    slice: 28,
};
const SDMA_7: Layout = Layout {
    xy: 16,
    z: 14,
    pitch: 16,
    slice: 32,
};

fn low(word: u32, bits: u32) -> u64 {
    u64::from(word) & ((1 << bits) - 1)
}

/// One of the two volumes.
struct Volume {
    base: u64,
    offset: [u64; 3],
    /// Elements from row to row.
    pitch: u64,
    /// Elements from slice to slice.
    slice: u64,
}

impl Volume {
    /// Reads five words.
    fn decode(words: &[u32], layout: &Layout) -> Volume {
        let word = |n: usize| words.get(n).copied().unwrap_or(0);
        Volume {
            base: long(word(0), word(1)),
            offset: [
                low(word(2), layout.xy),
                low(word(2) >> 16, layout.xy),
                low(word(3), layout.z),
            ],
            pitch: u64::from(word(3) >> layout.pitch) + 1,
            slice: low(word(4), layout.slice) + 1,
        }
    }

    /// Address of the first element of a row of the box.
    fn row(&self, y: u64, z: u64, element: u32) -> u64 {
        let [x, y0, z0] = self.offset;
        // Below 2^50: none of these can overflow.
        let index = (z0 + z) * self.slice + (y0 + y) * self.pitch + x;
        self.base.wrapping_add(index << element)
    }
}

/// Copies the box, row by row.
pub fn copy(cx: &mut Cx<'_>, words: &[u32]) -> Result<(), Trouble> {
    let layout = match cx.device.target().generation() {
        12.. => &SDMA_7,
        _ => &UP_TO_SDMA_6,
    };
    let word = |n: usize| words.get(n).copied().unwrap_or(0);
    // Bytes of an element, as a power of two.
    let element = word(0) >> 29;
    let from = Volume::decode(words.get(1..6).unwrap_or_default(), layout);
    let to = Volume::decode(words.get(6..11).unwrap_or_default(), layout);
    let [columns, rows, slices] = [
        low(word(11), layout.xy) + 1,
        low(word(11) >> 16, layout.xy) + 1,
        low(word(12), layout.z) + 1,
    ];
    let row = columns << element;
    // A piece is rows of the same slice.
    let most = (PIECE / row).clamp(1, rows);
    let pieces = rows.div_ceil(most);
    cx.pieces(slices * pieces, |cx, number| {
        let (z, first) = (number / pieces, number % pieces * most);
        let rows = first..(first + most).min(rows);
        let ends = rows.map(|y| (to.row(y, z, element), from.row(y, z, element)));
        Ok(cx.bus.copy_rows(ends, row)?)
    })
}
