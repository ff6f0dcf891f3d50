//! Finds the rows for the first word of an instruction: by its upper nine bits, then by the eight bits below
//! that tell those rows apart.

use std::sync::OnceLock;

use crate::table::Row;
use crate::target::FeatureSet;

/// Finds the rows that a first word can belong to. Made piece by piece, as words are asked for: a
/// program that decodes one kernel pays for the encodings in it.
pub(crate) struct Index {
    /// Rows of the set in the order of the decoding rule.
    order: Vec<u16>,
    /// By the upper nine bits of the word.
    buckets: Box<[OnceLock<Bucket>]>,
}

/// Rows with the same upper bits, told apart by eight bits below.
struct Bucket {
    shift: u32,
    parts: Box<[Box<[u16]>]>,
}

const TOP_SHIFT: u32 = 23;

impl Index {
    pub(crate) fn new(rows: &[Row], set: FeatureSet) -> Index {
        let mut order: Vec<u16> = (0..rows.len())
            .filter(|&i| rows[i].in_set(set))
            .map(|i| i as u16)
            .collect();
        order.sort_by_cached_key(|&i| rows[i as usize].rank());
        Index {
            order,
            buckets: (0..1 << (32 - TOP_SHIFT))
                .map(|_| OnceLock::new())
                .collect(),
        }
    }

    pub(crate) fn candidates(&self, rows: &[Row], word: u32) -> &[u16] {
        let top = word >> TOP_SHIFT;
        let Some(slot) = self.buckets.get(top as usize) else {
            return &[];
        };
        let bucket = slot.get_or_init(|| Bucket::new(rows, &self.order, top));
        let part = (word >> bucket.shift & 255) as usize;
        bucket
            .parts
            .get(part)
            .or(bucket.parts.first())
            .map_or(&[], |p| p)
    }
}

impl Bucket {
    fn new(rows: &[Row], order: &[u16], top: u32) -> Bucket {
        let fits = |&i: &u16| {
            let r = &rows[i as usize];
            top & (r.mask as u32 >> TOP_SHIFT) == r.value as u32 >> TOP_SHIFT
        };
        let all: Vec<u16> = order.iter().copied().filter(fits).collect();
        if all.len() <= 4 {
            return Bucket {
                shift: 0,
                parts: Box::new([all.into()]),
            };
        }
        // The window in which the rows have most fixed bits.
        let fixed = |shift: u32| -> u32 {
            all.iter()
                .map(|&i| (rows[i as usize].mask as u32 >> shift & 255).count_ones())
                .sum()
        };
        let shift = (0..=TOP_SHIFT - 8).max_by_key(|&s| fixed(s)).unwrap_or(0);
        let mut parts = vec![Vec::new(); 256];
        for &i in &all {
            let r = &rows[i as usize];
            let (mask, value) = (r.mask as u32 >> shift & 255, r.value as u32 >> shift & 255);
            // Every number that has the row's value in the fixed bits: count through the free ones.
            let free = !mask & 255;
            let mut n = 0;
            loop {
                if let Some(part) = parts.get_mut((value | n) as usize) {
                    part.push(i);
                }
                n = n.wrapping_sub(free) & free;
                if n == 0 {
                    break;
                }
            }
        }
        Bucket {
            shift,
            parts: parts.into_iter().map(Vec::into_boxed_slice).collect(),
        }
    }
}
