//! Which lane and which bits of which register hold an element, for every family.
//! A lane's registers are one little-endian string of items, one item per element.
//!
//! Sources: CDNA3 section 7.1.4 "General input and output layout" and 7.4.1 (sparse), CDNA4
//! sections 7.1.5, 7.2 and 7.5.1, CDNA5 sections 7.12.2 to 7.12.6, RDNA3 section 7.9, RDNA4
//! sections 7.12.2 and 7.12.3. The 8-bit F8F6F4 layout of CDNA4 and the packed A of its longer
//! sparse instructions have no table in the text of the manual: they follow the tables of the B
//! operands of the same length, which lie in two halves.

use super::op::{Element, Family, Kind, MatrixOp};

/// Where one element lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub lane: usize,
    pub item: usize,
}

/// How the K dimension of A or B is spread over groups of lanes: `chunk` consecutive values in
/// a lane, the next chunk in the next of `groups` lane groups, and so on round and round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KSplit {
    pub chunk: usize,
    pub groups: usize,
    /// RDNA4 wave64, elements below 16 bits: of the two group bits the lane's bit 5 is the less
    /// significant one.
    pub swapped: bool,
}

impl KSplit {
    /// The index k of an item of a lane group: the inverse of [`KSplit::place`].
    pub fn index(self, group: usize, item: usize) -> usize {
        (item / self.chunk * self.groups + self.order(group)) * self.chunk + item % self.chunk
    }

    /// The rank of a lane group among the groups in the order of k (its own inverse).
    pub fn order(self, group: usize) -> usize {
        if self.swapped { group >> 1 | (group & 1) << 1 } else { group }
    }

    /// Lane group and item of index `k`.
    pub fn place(self, k: usize) -> (usize, usize) {
        let (chunk, within) = (k / self.chunk, k % self.chunk);
        (self.order(chunk % self.groups), chunk / self.groups * self.chunk + within)
    }
}

/// Split of B along K, or of a dense A.
fn dense_split(op: &MatrixOp, element: Element) -> KSplit {
    let plain = |chunk, groups| KSplit { chunk, groups, swapped: false };
    let sparse = op.kind == Kind::Sparse;
    match op.family {
        Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4 => {
            let groups = (64 / (op.m * op.blocks)).max(1);
            let per_lane = op.k / groups;
            let longest = if op.f8f6f4 {
                if element.bits() == 8 { 16 } else { 32 }
            } else if sparse {
                128 / element.bits()
            } else {
                per_lane
            };
            plain(per_lane.min(longest).max(1), groups)
        }
        // Both halves of a wave32 (all quarters of a wave64) hold the same data.
        Family::Rdna3 => plain(op.k, 1),
        // The gfx12 shapes exist on gfx1250 as encodings.
        Family::Gfx1250 if !is_rdna4_shape(op) => match element.bits() {
            32 => plain(2, 2),
            16 => plain(if sparse { 16 } else { 8 }, 2),
            8 => plain(if sparse || op.f8f6f4 { 16 } else { 8 }, 2),
            _ => plain(32, 2),
        },
        Family::Rdna4 | Family::Gfx1250 => {
            let groups = op.wave / 16;
            if element.bits() == 16 {
                return plain(if sparse { 8 } else { 4 }, groups);
            }
            if element == Element::Iu4 && op.k == 16 {
                return plain(8, 2);
            }
            KSplit { chunk: op.k / groups, groups, swapped: groups == 4 }
        }
    }
}

/// Whether a gfx1250 instruction has a shape of gfx1201.
fn is_rdna4_shape(op: &MatrixOp) -> bool {
    let elements = (op.k / if op.kind == Kind::Sparse { 2 } else { 1 }) * op.a.bits();
    match op.a.bits() {
        16 => elements <= 256,
        8 => elements <= 128,
        4 => op.a == Element::Iu4,
        _ => false,
    }
}

/// How A (packed, if sparse) is spread along K.
pub(super) fn a_split(op: &MatrixOp) -> KSplit {
    let split = dense_split(op, op.a);
    if op.kind != Kind::Sparse {
        return split;
    }
    // A lane of packed A holds what selects among the values of B in the same lane.
    if op.a == Element::Iu4 && op.k == 32 && split.groups == 4 {
        return KSplit { chunk: 8, groups: 2, swapped: false };
    }
    KSplit { chunk: split.chunk / 2, ..split }
}

/// How B is spread along K.
pub(super) fn b_split(op: &MatrixOp) -> KSplit {
    dense_split(op, op.b)
}

/// Rows of A, all blocks, that lie side by side in the lanes.
pub(super) fn a_lanes(op: &MatrixOp) -> usize {
    if op.family.is_mfma() { op.m * op.blocks } else { 16 }
}

/// Columns of B, all blocks, that lie side by side in the lanes.
pub(super) fn b_lanes(op: &MatrixOp) -> usize {
    op.n * op.blocks
}

/// Slot of A[block, row, k]; for sparse A, k counts stored elements.
pub(super) fn a_slot(op: &MatrixOp, split: KSplit, block: usize, row: usize, k: usize) -> Slot {
    let (group, item) = split.place(k);
    let lanes = a_lanes(op);
    let row = row + op.m * block;
    // Only the 32x16x128 WMMA has more rows than fit: the second 16 follow in more registers.
    let per_lane = op.stored_k() / split.groups;
    Slot { lane: row % lanes + lanes * group, item: item + row / lanes * per_lane }
}

/// Slot of B[block, k, column].
pub(super) fn b_slot(op: &MatrixOp, split: KSplit, block: usize, k: usize, column: usize) -> Slot {
    let (group, item) = split.place(k);
    Slot { lane: column + op.n * block + b_lanes(op) * group, item }
}

/// Slot of D[block, row, column] in items of the accumulator's size. C has the same layout.
/// On RDNA3 a 16-bit item still takes a whole register.
pub(super) fn d_slot(op: &MatrixOp, block: usize, row: usize, column: usize) -> Slot {
    match op.family {
        Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4 => {
            let height = if op.d == Element::F64 { 1 } else { 4 };
            let blocks = 64usize.div_ceil(op.n * op.m / height);
            let rows = 64 / blocks / op.n;
            let groups = op.m / (height * rows);
            let item = row % height + height * (row / (height * rows) + groups * (block / blocks));
            // For 4x4x4 f64 the formula of the manual exchanges row and block here; this is what
            // AMD's matrix instruction calculator says.
            let lane = column + op.n * (block % blocks + blocks * (row / height % rows));
            Slot { lane, item }
        }
        Family::Rdna3 => {
            let groups = op.wave / 16;
            Slot { lane: column + 16 * (row % groups), item: row / groups }
        }
        Family::Rdna4 | Family::Gfx1250 if op.wave == 64 => {
            let lane = column + 16 * (row / 8 % 2) + 32 * (row / 4 % 2);
            Slot { lane, item: row % 4 }
        }
        Family::Rdna4 | Family::Gfx1250 => {
            Slot { lane: column + 16 * (row / 8 % 2), item: row % 8 + row / 16 * 8 }
        }
    }
}

/// The lane that A's values of `lane` come from (CDNA3 section 7.1.5.1).
pub(super) fn broadcast_a(op: &MatrixOp, lane: usize) -> usize {
    let cbsz = op.mods.cbsz.min(6);
    if cbsz == 0 || !op.family.is_mfma() || op.kind == Kind::Sparse || op.f8f6f4 || op.a == Element::F64 {
        return lane;
    }
    let size = 64usize >> cbsz;
    (lane % size + size * usize::from(op.mods.abid)) % 64
}

/// The lane that B's values of `lane` come from (CDNA3 section 7.1.5.2).
pub(super) fn permute_b(op: &MatrixOp, lane: usize) -> usize {
    if !op.family.is_mfma() || op.kind == Kind::Sparse || op.f8f6f4 || op.b == Element::F64 {
        return lane;
    }
    match op.mods.blgp {
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % 64,
        blgp @ 4..=7 => lane % 16 + 16 * usize::from(blgp - 4),
        _ => lane,
    }
}

/// Registers of one lane that an operand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Registers of A.
    pub a: usize,
    /// Registers of B.
    pub b: usize,
    /// Registers of C.
    pub c: usize,
    /// Registers of D.
    pub d: usize,
    /// Registers of the sparse index.
    pub index: usize,
    /// Registers of each scale operand.
    pub scale: usize,
}

/// How many registers each operand of the instruction takes.
pub(super) fn registers(op: &MatrixOp) -> Registers {
    let input = |split: KSplit, lanes: usize, rows: usize, k: usize, element: Element| {
        let items = k / split.groups * rows.div_ceil(lanes);
        (items * element.bits()).div_ceil(32)
    };
    let results = op.m * op.n * op.blocks / op.wave;
    let output = |element: Element| {
        let bits = if op.family == Family::Rdna3 { 32 } else { element.bits() };
        (results * bits).div_ceil(32)
    };
    let (a, b) = (a_split(op), b_split(op));
    let per_lane = op.stored_k() / a.groups;
    Registers {
        a: input(a, a_lanes(op), op.m * op.blocks, op.stored_k(), op.a),
        b: input(b, b_lanes(op), op.n * op.blocks, op.k, op.b),
        c: output(op.c),
        d: output(op.d),
        index: if op.kind == Kind::Sparse { (per_lane * 2).div_ceil(32) } else { 0 },
        scale: match op.scale_block {
            0 => 0,
            16 => 2,
            _ => 1,
        },
    }
}

/// First bit of a lane's set of sparse indices, two bits for each stored element of A.
///
/// SMFMAC: CBSZ zero lets ABID choose (CDNA3 section 7.4, CDNA4 section 7.5); SWMMAC: the
/// `index_key` modifier chooses. Sets that lie outside the register wrap around.
pub(super) fn index_base(op: &MatrixOp) -> usize {
    let bits = 2 * op.stored_k() / a_split(op).groups;
    if bits >= 32 {
        return 0;
    }
    let sets = 32 / bits;
    let set = if op.family.is_mfma() {
        if op.mods.cbsz & 3 == 0 { usize::from(op.mods.abid) } else { 0 }
    } else {
        usize::from(op.mods.index_key)
    };
    set % sets * bits
}
