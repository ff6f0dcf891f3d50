//! The tensor data mover of gfx1250 (`tensor_load_to_lds`, `tensor_store_from_lds`): copies a tile of up
//! to five dimensions between memory and LDS as a descriptor in SGPRs says. CDNA5 manual, 10.11.
//! EXEC does not matter. Cluster loads (workgroup mask) are plain loads of each workgroup.

use rocjitsu_isa::{Inst, Name, Op};

use super::address;
use crate::error::Cause;
use crate::lds::barrier;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::{Cx, scalar};

/// Lowers a tensor instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let store = match inst.op() {
        Op::tensor_load_to_lds => false,
        Op::tensor_store_from_lds => true,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Vmem, run);
    for (to, name) in
        record
            .src
            .iter_mut()
            .zip([Name::vaddr0, Name::vaddr1, Name::vaddr2, Name::vaddr3])
    {
        *to = match lowering.source(inst, name) {
            Some(Operand::Scalar(n)) if usize::from(n) < scalar::NULL => Operand::Scalar(n),
            _ => Operand::None,
        };
    }
    record.imm = i64::from(store);
    Some(record)
}

/// A descriptor (D#), taken apart; sizes and strides in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Descriptor {
    valid: bool,
    gather: bool,
    lds: u32,
    global: u64,
    /// Bytes of an element.
    element: u64,
    barrier: Option<u32>,
    /// Bytes between pads, and bytes of a pad.
    pad: Option<(u64, u32)>,
    tensor: [u64; 5],
    tile: [u64; 5],
    /// Strides of dimensions 1 to 4.
    stride: [u64; 4],
    /// Iterations, and what each adds to the memory and LDS addresses (bytes).
    iterations: u64,
    global_step: u64,
    lds_step: u32,
    /// Row indices of gather mode.
    rows: Vec<u64>,
}

fn bits(words: &[u32], low: usize, width: usize) -> u64 {
    (0..width).fold(0, |v, i| {
        let bit = words
            .get((low + i) / 32)
            .map_or(0, |w| w >> ((low + i) % 32) & 1);
        v | u64::from(bit) << i
    })
}

impl Descriptor {
    fn new(g0: &[u32], g1: &[u32], g2: &[u32], g3: &[u32]) -> Descriptor {
        let element = 1 << bits(g1, 16, 2);
        let mut d = Descriptor {
            valid: bits(g0, 0, 2) != 0,
            gather: bits(g0, 31, 1) != 0,
            lds: bits(g0, 32, 32) as u32,
            // 57 bits of a signed address.
            global: ((bits(g0, 64, 57) << 7) as i64 >> 7) as u64,
            element,
            // The field holds bits 18:3 of the LDS address.
            barrier: (bits(g1, 18, 1) != 0).then(|| (bits(g1, 32, 16) << 3) as u32),
            // Every 2 << interval words, amount + 1 words are left out.
            pad: (bits(g1, 20, 1) != 0)
                .then(|| (8 << bits(g1, 22, 3), (bits(g1, 25, 7) as u32 + 1) * 4)),
            tensor: [
                bits(g1, 48, 32),
                bits(g1, 80, 32),
                bits(g2, 0, 32),
                bits(g2, 32, 32),
                bits(g3, 48, 32),
            ],
            tile: [
                bits(g1, 112, 16),
                bits(g1, 128, 16),
                bits(g1, 144, 16),
                bits(g2, 112, 16),
                bits(g3, 80, 16),
            ],
            stride: [
                bits(g1, 160, 48),
                bits(g1, 208, 48),
                bits(g2, 64, 48),
                bits(g3, 0, 48),
            ],
            iterations: 1,
            ..Descriptor::default()
        };
        if d.gather {
            let words: Vec<u32> = g2.iter().chain(g3).copied().collect();
            let wide = bits(g0, 30, 1) != 0;
            let count = d.tile[1].min(if wide { 8 } else { 16 }) as usize;
            let width = if wide { 32 } else { 16 };
            d.rows = (0..count).map(|i| bits(&words, i * width, width)).collect();
            d.tile[2..].fill(0);
        } else if bits(g1, 19, 1) != 0 {
            d.iterations = d.tile[3].max(1);
            d.global_step = d.stride[2] * element;
            d.lds_step = (d.tensor[3] * element) as u32;
            d.tile[3..].fill(0);
        }
        d
    }
}

/// LDS holds a few hundred KiB: a tile of millions of elements is no tile, and would take for ever.
const MOST_ELEMENTS: u64 = 1 << 24;

impl Descriptor {
    /// Elements of all iterations.
    fn elements(&self) -> u64 {
        let tile = self.tile.iter();
        tile.fold(self.iterations, |n, &t| n.saturating_mul(t.max(1)))
    }
}

fn group(cx: &Cx<'_, '_>, operand: Operand, count: usize) -> [u32; 8] {
    let mut out = [0; 8];
    let words = operand.scalar().and_then(|n| cx.wave.s.get(n..n + count));
    if let Some(words) = words {
        out[..count].copy_from_slice(words);
    }
    out
}

/// The four groups of words that make an instruction's descriptor.
fn groups(cx: &Cx<'_, '_>, record: &Record) -> [[u32; 8]; 4] {
    let counts = [4, 8, 4, 4];
    std::array::from_fn(|i| group(cx, record.src[i], counts[i]))
}

/// The descriptor of an instruction that copies something.
fn descriptor(cx: &Cx<'_, '_>, record: &Record) -> Option<Descriptor> {
    let [g0, g1, g2, g3] = groups(cx, record);
    let d = Descriptor::new(&g0[..4], &g1, &g2[..4], &g3[..4]);
    (d.valid && bits(&g0, 126, 2) == 2 && d.elements() <= MOST_ELEMENTS).then_some(d)
}

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let [g0, g1, g2, g3] = groups(cx, record);
    let d = Descriptor::new(&g0[..4], &g1, &g2[..4], &g3[..4]);
    if !d.valid {
        return Flow::Next;
    }
    if bits(&g0, 126, 2) != 2 {
        let what = format!(
            "{}: the descriptor's type is {}, not 2",
            record.inst.op().name(),
            bits(&g0, 126, 2)
        );
        return cx.fault(record, Cause::Illegal { what });
    }
    let elements = d.elements();
    if elements > MOST_ELEMENTS {
        let what = format!(
            "{}: a tile of {elements} elements ({:?})",
            record.inst.op().name(),
            d.tile
        );
        return cx.fault(record, Cause::Illegal { what });
    }
    for i in 0..d.iterations {
        let global = d.global.wrapping_add(i.wrapping_mul(d.global_step));
        let at = d.lds.wrapping_add((i as u32).wrapping_mul(d.lds_step));
        if let Err(flow) = tile(cx, record, &d, global, at) {
            return flow;
        }
    }
    if let Some(address) = d.barrier {
        barrier::arrive(cx.group, address, 1);
    }
    Flow::Next
}

/// Copies one tile.
fn tile(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    d: &Descriptor,
    global: u64,
    start: u32,
) -> Result<(), Flow> {
    let store = record.imm != 0;
    let mut at = start;
    let mut since_pad = 0;
    for_lines(d, global, |from, valid| {
        let bytes = d.tile[0] * d.element;
        line_of_tile(
            cx,
            record,
            store,
            from,
            &mut at,
            valid,
            bytes,
            d.pad,
            &mut since_pad,
        )
    })
}

/// Calls `f` with each row of a tile: its address, and the bytes that the tensor has of it.
#[inline(always)]
fn for_lines<E>(
    d: &Descriptor,
    global: u64,
    mut f: impl FnMut(u64, u64) -> Result<(), E>,
) -> Result<(), E> {
    let size = |k: usize| d.tile[k].max(1);
    // Elements of a row that the tensor has.
    let inside = d.tile[0].min(d.tensor[0]);
    for w in 0..size(4) {
        for z2 in 0..size(3) {
            for z in 0..size(2) {
                for y in 0..size(1) {
                    let line = if d.gather {
                        d.rows.get(y as usize).copied().unwrap_or(0)
                    } else {
                        y
                    };
                    let place = [line, z, z2, w];
                    // Dimensions that the tile does not use are not checked.
                    let exists = (0..4).all(|k| d.tile[k + 1] == 0 || place[k] < d.tensor[k + 1]);
                    let offset = (0..4).fold(0u64, |o, k| {
                        o.wrapping_add(place[k].wrapping_mul(d.stride[k]))
                    });
                    let from = global.wrapping_add(offset.wrapping_mul(d.element));
                    f(from, if exists { inside * d.element } else { 0 })?;
                }
            }
        }
    }
    Ok(())
}

/// A row of a tile, for those who watch.
pub struct Row {
    /// Its address in memory.
    pub address: u64,
    /// Bytes that are copied from or to memory.
    pub bytes: u32,
    /// The pieces of LDS: address and bytes.
    pub lds: Vec<(u32, u32)>,
}

/// The LDS address of the barrier at which a copy arrives when it is complete.
pub fn barrier_address(cx: &Cx<'_, '_>, record: &Record) -> Option<u32> {
    descriptor(cx, record)?.barrier
}

/// The rows that an instruction is about to copy; none if it copies nothing or stops its wave.
pub fn rows(cx: &Cx<'_, '_>, record: &Record) -> Vec<Row> {
    let mut rows = Vec::new();
    let Some(d) = descriptor(cx, record) else {
        return rows;
    };
    let store = record.imm != 0;
    for i in 0..d.iterations {
        let global = d.global.wrapping_add(i.wrapping_mul(d.global_step));
        let mut at = d.lds.wrapping_add((i as u32).wrapping_mul(d.lds_step));
        let mut since_pad = 0;
        let Ok(()) = for_lines::<std::convert::Infallible>(&d, global, |address, valid| {
            // Rows that are not all there fill LDS with zeros, and take nothing from it.
            let mut left = if store { valid } else { d.tile[0] * d.element };
            let mut lds = Vec::new();
            while left > 0 {
                let until = match d.pad.filter(|_| !store) {
                    Some((interval, _)) => interval - since_pad,
                    None => left,
                };
                let n = left.min(until);
                lds.push((at, n as u32));
                left -= n;
                at = at.wrapping_add(n as u32);
                if let Some((interval, amount)) = d.pad.filter(|_| !store) {
                    since_pad += n;
                    if since_pad >= interval {
                        since_pad = 0;
                        at = at.wrapping_add(amount);
                    }
                }
            }
            rows.push(Row {
                address,
                bytes: valid as u32,
                lds,
            });
            Ok(())
        });
    }
    rows
}

/// Copies a row of a tile: `valid` bytes from or to memory, zeros for the rest of `bytes` in LDS.
#[allow(clippy::too_many_arguments)]
fn line_of_tile(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    store: bool,
    from: u64,
    at: &mut u32,
    valid: u64,
    bytes: u64,
    pad: Option<(u64, u32)>,
    since_pad: &mut u64,
) -> Result<(), Flow> {
    let pad = if store { None } else { pad };
    let host = if valid == 0 {
        std::ptr::null_mut()
    } else {
        match cx.unit.memory.locate(from, valid, store) {
            Ok(p) => p,
            Err(kind) => {
                let access = if store { "tensor store" } else { "tensor load" };
                return Err(address::fault(
                    cx,
                    record,
                    access,
                    valid as usize,
                    from,
                    0,
                    kind,
                ));
            }
        }
    };
    let mut done = 0;
    while done < bytes {
        let left = pad.map_or(u64::MAX, |(interval, _)| interval - *since_pad);
        let limit = if done < valid { valid } else { bytes };
        let n = (limit - done).min(left) as usize;
        let to = *at as usize;
        if store {
            if done < valid {
                let inside = cx.group.lds.len().saturating_sub(to).min(n);
                // SAFETY: `locate` vouches for `valid` bytes from `from`; LDS has storage of its own, and `inside` bytes
                // at `to` if that is not 0.
                unsafe {
                    let host = host.add(done as usize);
                    if let Some(part) = cx.group.lds.at(to, inside) {
                        std::ptr::copy_nonoverlapping(part.cast_const(), host, inside);
                    }
                    host.add(inside).write_bytes(0, n - inside);
                }
            }
        } else {
            let inside = cx.group.lds.len().saturating_sub(to).min(n);
            if let Some(part) = cx.group.lds.at(to, inside) {
                // SAFETY: as above, for writing.
                unsafe {
                    if done < valid {
                        let host = host.add(done as usize).cast_const();
                        std::ptr::copy_nonoverlapping(host, part, inside);
                    } else {
                        part.write_bytes(0, inside);
                    }
                }
            }
        }
        done += n as u64;
        *at = at.wrapping_add(n as u32);
        if let Some((interval, amount)) = pad {
            *since_pad += n as u64;
            if *since_pad >= interval {
                *since_pad = 0;
                *at = at.wrapping_add(amount);
            }
        }
    }
    Ok(())
}
