//! Loads that transpose a matrix tile on the way: `ds_read_b64_tr_*` (gfx950), `ds_load_tr*` and
//! `global_load_tr*` (gfx12, gfx1250). EXEC is ignored.
//!
//! Sixteen lanes read n elements each (n = 4, 8 or 16, from the size of data and element): a tile of n
//! rows (K) and 16 columns (M or N). Afterwards lane m of the sixteen holds column m, rows 0 to n - 1.
//! Sources: CDNA4 manual 11.4, CDNA5 manual 10.9.2 and 11.2.4 for the tile. The manuals do not say which
//! lane reads which part; the addresses that Triton's code gives the instructions do ([`Order`]).

use super::LANES;
use super::address;
use crate::lds::access as lds;
use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// Which lane of sixteen reads row k of the columns from m on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// gfx950: row by row, so that row k lies in lanes `16 / n * k` and following.
    Rows,
    /// gfx12: 16-bit elements in blocks of 8 rows and 8 columns, 8-bit ones in blocks of 4 rows and 8
    /// columns, the second eight columns before the next rows.
    Blocks,
}

impl Order {
    /// The lane; `n` elements a lane, `bits` each.
    fn lane(self, k: usize, m: usize, n: usize, bits: u32) -> usize {
        match (self, bits) {
            (Order::Blocks, 16) => k + m / 8 * 8,
            (Order::Blocks, 8) => k % 4 + m / 8 * 4 + k / 4 * 8,
            _ => k * 16 / n + m / n,
        }
    }
}

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

/// Sets up a record: bits of an element in `imm2`, bytes of a lane above.
pub fn prepare(record: &mut Record, name: &str, from_lds: bool) -> Option<Handler> {
    let (bits, bytes) = shape(name)?;
    record.dst.vector()?;
    record.imm2 = i64::from(bits | bytes << 8);
    record.mem.blocks = name.starts_with("tr");
    Some(if from_lds {
        from_lds_run
    } else {
        from_memory_run
    })
}

type Tile = [[u8; 16]; LANES];

/// The rows of registers after transposition: `out[word][lane]`. `halved`: only lanes 0 to 31 have read,
/// and the tile is spread over 64 lanes (RDNA4 manual 11.6.2, waves of 64).
fn transpose(
    tile: &Tile,
    bits: u32,
    bytes: u32,
    lanes: usize,
    halved: bool,
    order: Order,
) -> [[u32; LANES]; 4] {
    let count = (8 * bytes / bits) as usize;
    let element = |lane: usize, i: usize| {
        let data = u128::from_le_bytes(tile[lane]);
        (data >> (i as u32 * bits)) & ((1 << bits) - 1)
    };
    let mut out = [[0; LANES]; 4];
    let kept = if halved { count / 2 } else { count };
    for lane in 0..lanes {
        let m = lane % 16;
        let mut data = 0u128;
        for j in 0..kept {
            // Row in the whole sequence of rows that the lanes' groups make.
            let row = lane / 16 * kept + j;
            let (group, k) = (row / count, row % count);
            let from = group * 16 + order.lane(k, m, count, bits);
            data |= element(from, m % count) << (j as u32 * bits);
        }
        for (word, row) in out.iter_mut().enumerate() {
            row[lane] = (data >> (32 * word)) as u32;
        }
    }
    out
}

fn finish(cx: &mut Cx<'_, '_>, record: &Record, tile: &Tile) -> Flow {
    let (bits, bytes) = (record.imm2 as u32 & 0xff, record.imm2 as u32 >> 8);
    let lanes = cx.wave.lanes as usize;
    let halved = record.mem.halved;
    let order = if record.mem.blocks {
        Order::Blocks
    } else {
        Order::Rows
    };
    let rows = transpose(tile, bits, bytes, lanes, halved, order);
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

fn from_lds_run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let bytes = record.imm2 as usize >> 8;
    let at = lds::addresses(
        cx.wave.v.read(record.src[0].vector().unwrap_or(0)),
        record.imm as u32,
    );
    let tile = at.map(|a| lds::read(&cx.group.lds, a, bytes));
    finish(cx, record, &tile)
}

fn from_memory_run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let bytes = record.imm2 as usize >> 8;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order, column m of the tile ends in lane m.
    #[test]
    fn lanes_hold_columns_afterwards() {
        let cases = [
            (16, 8, Order::Rows),
            (8, 8, Order::Rows),
            (4, 8, Order::Rows),
            (6, 12, Order::Rows),
        ];
        let blocks = [
            (16, 16, Order::Blocks),
            (8, 8, Order::Blocks),
            (4, 8, Order::Blocks),
            (6, 12, Order::Blocks),
        ];
        for (bits, bytes, order) in cases.into_iter().chain(blocks) {
            let n = (8 * bytes / bits) as usize;
            let lanes = if order == Order::Rows { 64 } else { 32 };
            let mask = (1u128 << bits) - 1;
            // Element of row k, column m.
            let value = |k: usize, m: usize| (k * 7 + m * 3 + 1) as u128 & mask;
            let mut tile = [[0u8; 16]; LANES];
            for k in 0..n * lanes / 16 {
                for m in 0..16 {
                    let lane = k / n * 16 + order.lane(k % n, m, n, bits);
                    let data =
                        u128::from_le_bytes(tile[lane]) | value(k, m) << (m % n * bits as usize);
                    tile[lane] = data.to_le_bytes();
                }
            }
            let out = transpose(&tile, bits, bytes, lanes, false, order);
            (0..lanes).for_each(|lane| {
                let word = |j: usize| u128::from(out[j][lane]) << (32 * j);
                let data = (0..4).fold(0u128, |d, j| d | word(j));
                for j in 0..n {
                    assert_eq!(
                        data >> (j * bits as usize) & mask,
                        value(lane / 16 * n + j, lane % 16),
                        "{bits} {order:?}"
                    );
                }
            });
        }
    }

    /// The lanes that Triton's code for gfx1250 addresses: bits of the lane are k0 k1 k2 m3 for 16 bits,
    /// k0 k1 m3 k2 for 8 bits.
    #[test]
    fn blocks_are_where_compilers_put_them() {
        for lane in 0..16 {
            assert_eq!(Order::Blocks.lane(lane & 7, lane & 8, 8, 16), lane);
            assert_eq!(
                Order::Blocks.lane(lane & 3 | lane >> 1 & 4, (lane & 4) * 2, 8, 8),
                lane
            );
        }
    }
}
