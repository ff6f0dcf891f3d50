//! Loads that transpose a matrix tile on the way: `ds_read_b64_tr_*` (gfx950), `ds_load_tr*` and
//! `global_load_tr*` (gfx12, gfx1250).
//!
//! One rule covers them. Sixteen lanes read n elements each (n = 4, 8 or 16, from the size of data and
//! element): a tile of n rows (K) and 16 columns (M or N), each row in 16 / n lanes; which ones, `Order`
//! says. Afterwards lane m of the sixteen holds column m, rows 0 to n - 1.
//! Sources: CDNA4 manual 11.4 (which K values each instruction loads, and four, eight or sixteen
//! consecutive M in each lane), CDNA5 manual 10.9.2 (the figure) and 11.2.4. EXEC is ignored.

use rocjitsu_lanes::Backend;

use super::LANES;
use super::address;
use super::body::{Body, handler};
use crate::lds::access::{self as lds, Outside};
use crate::lds::storage::Lds;
use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// Bits of an element and bytes of a lane, by an instruction's name without prefix.
pub fn shape(name: &str) -> Option<(u32, u32)> {
    Some(match name {
        "b64_tr_b16" => (16, 8),
        "b64_tr_b8" | "tr8_b64" | "tr_b64" => (8, 8),
        "b64_tr_b4" | "tr4_b64" => (4, 8),
        "b96_tr_b6" | "tr6_b96" => (6, 12),
        "tr16_b128" | "tr_b128" => (16, 16),
        _ => return None,
    })
}

/// Which of the sixteen lanes read a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// A row's parts in neighbouring lanes (gfx950).
    Rows,
    /// The first parts of a run of rows in neighbouring lanes, then their second parts (gfx12, gfx1250): all
    /// eight rows of 16-bit elements, four rows of 8-bit ones. Of 6-bit elements, rows 4 to 7 and 8 to 11
    /// change places.
    Parts,
}

impl Order {
    fn of(name: &str) -> Order {
        match name {
            "b64_tr_b16" | "b64_tr_b8" | "b64_tr_b4" | "b96_tr_b6" => Order::Rows,
            _ => Order::Parts,
        }
    }

    /// The lane, of sixteen, that reads the part with column `m` of row `k`.
    fn lane(self, bits: u32, k: usize, m: usize) -> usize {
        match (self, bits) {
            (Order::Rows, 16) => k * 4 + m / 4,
            (Order::Rows, 8) => k * 2 + m / 8,
            (Order::Parts, 16) => k + m / 8 * 8,
            (Order::Parts, 8) => k % 4 + m / 8 * 4 + k / 4 * 8,
            (Order::Parts, 6) => k & 3 | (k & 4) << 1 | (k & 8) >> 1,
            _ => k,
        }
    }
}

/// A transposed load from LDS.
struct FromLds;
/// A transposed load from memory.
struct FromMemory;

/// Sets up a record: bits of an element in `imm2`, bytes of a lane and order above.
pub fn prepare(
    record: &mut Record,
    name: &str,
    from_lds: bool,
    backend: Backend,
) -> Option<Handler> {
    let (bits, bytes) = shape(name)?;
    record.dst.vector()?;
    let order = Order::of(name) as u32;
    record.imm2 = i64::from(bits | bytes << 8 | order << 16);
    Some(if from_lds {
        handler::<FromLds>(backend)
    } else {
        handler::<FromMemory>(backend)
    })
}

type Tile = [[u8; 16]; LANES];

/// The rows of registers after transposition: `out[word][lane]`. `halved`: only lanes 0 to 31 have read,
/// and the tile is spread over 64 lanes (RDNA4 manual 11.6.2, waves of 64).
#[inline(always)]
fn transpose(
    tile: &Tile,
    (bits, bytes): (u32, u32),
    order: Order,
    lanes: usize,
    halved: bool,
) -> [[u32; LANES]; 4] {
    let count = (8 * bytes / bits) as usize;
    let element = |lane: usize, i: usize| {
        let data = u128::from_le_bytes(tile[lane]);
        data >> (i as u32 * bits) & ((1 << bits) - 1)
    };
    let mut out = [[0; LANES]; 4];
    match (bits, bytes) {
        (16, 16) if !halved => return columns::<2, 8>(tile, order, lanes, out),
        (16, 8) if !halved => return columns::<2, 4>(tile, order, lanes, out),
        (8, 8) if !halved => return columns::<1, 8>(tile, order, lanes, out),
        _ => {}
    }
    let kept = if halved { count / 2 } else { count };
    for lane in 0..lanes {
        let m = lane % 16;
        let mut data = 0u128;
        for j in 0..kept {
            // Row in the whole sequence of rows that the lanes' groups make.
            let row = lane / 16 * kept + j;
            let (group, k) = (row / count, row % count);
            let from = group * 16 + order.lane(bits, k, m);
            data |= element(from, m % count) << (j as u32 * bits);
        }
        for (word, row) in out.iter_mut().enumerate() {
            row[lane] = (data >> (32 * word)) as u32;
        }
    }
    out
}

/// What [`transpose`] does with elements of `SIZE` bytes, of which a lane has read `PART`: words of a register for
/// `PART` lanes at a time.
#[inline(always)]
fn columns<const SIZE: usize, const PART: usize>(
    tile: &Tile,
    order: Order,
    lanes: usize,
    mut out: [[u32; LANES]; 4],
) -> [[u32; LANES]; 4] {
    let rows = 4 / SIZE;
    for first in (0..lanes).step_by(16) {
        for (word, out) in out[..PART * SIZE / 4].iter_mut().enumerate() {
            for m in (0..16).step_by(PART) {
                let mut sum = [0u32; PART];
                for i in 0..rows {
                    let k = word * rows + i;
                    let from = &tile[first + order.lane(8 * SIZE as u32, k, m)];
                    for (c, sum) in sum.iter_mut().enumerate() {
                        let value = match SIZE {
                            2 => u32::from(u16::from_le_bytes([from[2 * c], from[2 * c + 1]])),
                            _ => u32::from(from[c]),
                        };
                        *sum |= value << (8 * SIZE * i);
                    }
                }
                out[first + m..first + m + PART].copy_from_slice(&sum);
            }
        }
    }
    out
}

fn bytes_of(record: &Record) -> usize {
    record.imm2 as usize >> 8 & 0xff
}

#[inline(always)]
fn finish(cx: &mut Cx<'_, '_>, record: &Record, tile: &Tile) -> Flow {
    let (bits, bytes) = (record.imm2 as u32 & 0xff, bytes_of(record) as u32);
    let order = if record.imm2 >> 16 == Order::Rows as i64 {
        Order::Rows
    } else {
        Order::Parts
    };
    let lanes = cx.wave.lanes as usize;
    let halved = record.mem.halved;
    let rows = transpose(tile, (bits, bytes), order, lanes, halved);
    let words = (bytes as usize / 4) >> usize::from(halved);
    if let Some(dst) = record.dst.vector() {
        for (j, row) in rows[..words].iter().enumerate() {
            cx.wave
                .v
                .write(dst + j as u32, &mut cx.unit.pool)
                .copy_from_slice(&row[..lanes]);
        }
    }
    Flow::Next
}

/// Reads `BYTES` bytes of each lane from LDS; the error is the lane whose access stops the wave.
#[inline(always)]
fn tile_of_lds<const BYTES: usize>(
    lds: &Lds,
    at: &[u32; LANES],
    lanes: usize,
    outside: Outside,
) -> Result<Tile, usize> {
    let mut tile = [[0; 16]; LANES];
    for (lane, (to, &at)) in tile[..lanes].iter_mut().zip(at).enumerate() {
        match lds.at(at as usize, BYTES) {
            // SAFETY: `at` vouches for the bytes, and a lane has room for sixteen.
            Some(inside) => unsafe {
                std::ptr::copy_nonoverlapping(inside.cast_const(), to.as_mut_ptr(), BYTES);
            },
            None => *to = lds::read(lds, at, BYTES, outside).ok_or(lane)?,
        }
    }
    Ok(tile)
}

impl Body for FromLds {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let at = lds::addresses(
            cx.wave.v.read(record.src[0].vector().unwrap_or(0)),
            record.imm as u32,
        );
        let (lds, lanes) = (&cx.group.lds, cx.wave.lanes as usize);
        let outside = Outside::of_ds(cx.unit.target);
        let tile = match bytes_of(record) {
            16 => tile_of_lds::<16>(lds, &at, lanes, outside),
            12 => tile_of_lds::<12>(lds, &at, lanes, outside),
            _ => tile_of_lds::<8>(lds, &at, lanes, outside),
        };
        match tile {
            Ok(tile) => finish(cx, record, &tile),
            Err(lane) => lds::fault(cx, record, at[lane], bytes_of(record), lane),
        }
    }
}

impl Body for FromMemory {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let bytes = bytes_of(record);
        if cx.wave.exec() == 0 {
            return Flow::Next;
        }
        let addresses = address::global(cx, record);
        let mut tile = [[0; 16]; LANES];
        for (lane, to) in tile.iter_mut().enumerate().take(32) {
            match cx.unit.memory.locate(addresses[lane], bytes as u64, false) {
                // SAFETY: `locate` vouches for the bytes; a lane has at most sixteen.
                Ok(p) => unsafe {
                    std::ptr::copy_nonoverlapping(p.cast_const(), to.as_mut_ptr(), bytes)
                },
                Err(kind) => {
                    return address::fault(cx, record, "load", bytes, addresses[lane], lane, kind);
                }
            }
        }
        finish(cx, record, &tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lane m of sixteen gets column m.
    #[test]
    fn columns_come_from_the_lanes_that_the_order_names() {
        let tile: Tile =
            std::array::from_fn(|lane| std::array::from_fn(|i| (lane * 37 + i * 11) as u8));
        for order in [Order::Rows, Order::Parts] {
            for (bits, bytes) in [(16u32, 16u32), (16, 8), (8, 8)] {
                // gfx12 has no such load, gfx950 no 16-byte one.
                if (bits, bytes) == (16, if order == Order::Rows { 16 } else { 8 }) {
                    continue;
                }
                let out = transpose(&tile, (bits, bytes), order, 32, false);
                let count = (8 * bytes / bits) as usize;
                #[allow(clippy::needless_range_loop)]
                for lane in 0..32 {
                    for j in 0..count {
                        let from = &tile[lane / 16 * 16 + order.lane(bits, j, lane % 16)];
                        let (bit, size) = (j * bits as usize, bits as usize / 8);
                        for byte in 0..size {
                            let at = bit + 8 * byte;
                            let got = (out[at / 32][lane] >> (at % 32)) as u8;
                            assert_eq!(
                                got,
                                from[lane % count * size + byte],
                                "{order:?} {bits} {bytes}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// CDNA5 manual, figure of 10.9.2: lane 8 reads row 0, columns 8 to 15 of a tile of 16-bit elements;
    /// of 8-bit elements it is lane 4, and lane 8 reads row 4.
    #[test]
    fn gfx1250_lanes_read_the_parts_of_the_figure() {
        for (bits, bytes) in [(16, 16), (8, 8)] {
            let width = bits as usize / 8;
            let mut tile = [[0; 16]; LANES];
            for (lane, read) in tile.iter_mut().enumerate().take(32) {
                let group = lane / 16 * 8;
                let (row, half) = match bits {
                    16 => (lane % 8, lane / 8 % 2),
                    _ => (lane % 4 + lane / 8 % 2 * 4, lane / 4 % 2),
                };
                for i in 0..8 {
                    read[i * width] = ((group + row) * 16 + half * 8 + i) as u8;
                }
            }
            let out = transpose(&tile, (bits, bytes), Order::Parts, 32, false);
            #[allow(clippy::needless_range_loop)]
            for lane in 0..32 {
                for j in 0..8 {
                    let bit = j * bits as usize;
                    let got = out[bit / 32][lane] >> (bit % 32) & 0xff;
                    assert_eq!(
                        got as usize,
                        (lane / 16 * 8 + j) * 16 + lane % 16,
                        "{bits} {lane} {j}"
                    );
                }
            }
        }
    }
}
