//! Register counts of image instructions, which `dmask`, `tfe`, `d16`, `dim` and `a16` decide.
//! The table has one row for each encoding; a count that no instruction has leaves the row's own.

use crate::generated::names::{Format, Name};
use crate::inst::Inst;
use crate::target::Target;

/// 32-bit registers of the data and of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) data: u32,
    pub(crate) address: u32,
}

/// Coordinates and gradients of a dimension, in the order of `dim`'s codes.
const DIMS: [(u32, u32); 8] = [
    (1, 2),
    (2, 4),
    (3, 6),
    (3, 4),
    (2, 2),
    (3, 4),
    (3, 4),
    (4, 4),
];

/// Addresses that an instruction takes.
fn addresses(inst: &Inst, name: &str) -> Option<u32> {
    let (coordinates, gradients) = *DIMS.get(inst.field(Name::dim)? as usize)?;
    let a16 = inst.field(Name::a16) == Some(1);
    let parts: Vec<&str> = name.split('_').skip(1).collect();
    let sample = matches!(parts.first(), Some(&("sample" | "gather4" | "gather4h")));
    let has = |p: &str| sample && parts.contains(&p);
    let extra = ["b", "c", "o"].iter().filter(|p| has(p)).count() as u32;
    let level = has("l") || has("cl") || parts.contains(&"mip") || name == "image_get_resinfo";
    let mut components = u32::from(level);
    if name != "image_get_resinfo" {
        components += coordinates;
    }
    let gradient = has("d") || has("cd");
    let packed = has("g16");
    let mut n = extra
        + if a16 {
            components.div_ceil(2)
        } else {
            components
        };
    if gradient {
        n += if packed {
            (gradients / 2).next_multiple_of(2)
        } else {
            gradients
        };
    }
    // No instruction takes more than it needs for a 3D image, or without a level for an array of MSAA images.
    let most = match name {
        "image_get_resinfo" => 1,
        _ if sample || level => {
            extra
                + u32::from(level)
                + 3
                + if gradient {
                    if packed { 4 } else { 6 }
                } else {
                    0
                }
        }
        "image_get_lod" => 3,
        _ => 4,
    };
    // Three addresses in a row may be four, seven eight.
    let most = if matches!(most, 3 | 7) && inst.format() == Format::MIMG {
        most + 1
    } else {
        most
    };
    (n <= most).then_some(n)
}

/// The counts, or none where the row's own hold.
pub(crate) fn shape(inst: &Inst) -> Option<Shape> {
    let row = inst.row();
    if !matches!(
        row.format,
        Format::MIMG | Format::MIMG_NSA | Format::VIMAGE | Format::VSAMPLE
    ) {
        return None;
    }
    let name = row.op.name();
    let dmask = inst.field(Name::dmask)?;
    let gather = name.starts_with("image_gather4")
        || name == "image_msaa_load" && row.target.generation() >= 11;
    let set = |n| inst.field(n) == Some(1);
    let mut data = if gather { 4 } else { dmask.count_ones().max(1) };
    if set(Name::d16) {
        data = data.div_ceil(2);
    }
    data += u32::from(set(Name::tfe));
    let available = if name.contains("cmpswap") {
        (2..=5).contains(&data)
    } else if name.starts_with("image_atomic") {
        data <= 3
    } else if name.starts_with("image_gather4") {
        matches!(data, 2 | 4 | 5)
    } else {
        data <= 5
    };
    let operands = (0..12)
        .take_while(|&i| row.operand(nsa_name(i)).is_some())
        .count() as u32;
    let address = if row.target.generation() >= 10 {
        let n = addresses(inst, name)?;
        match row.format {
            Format::MIMG if n > 12 => 16,
            Format::MIMG_NSA if n < 2 || row.target.generation() == 10 && n > operands => {
                return None;
            }
            _ => n,
        }
    } else {
        1
    };
    // Tuples of gfx90a begin at even registers.
    let odd = |first: u32, count: u32| row.target == Target::Gfx90a && count > 1 && first % 2 == 1;
    let fits = |n: Name, count: u32| {
        let first = inst.field(n).unwrap_or(0) % 256;
        let own = row.operand(n).map_or(0, |o| u32::from(o.ty.bits) / 32);
        count == own || first + count <= 256 && !odd(first, count)
    };
    let (last, rest) = match row.format {
        Format::MIMG => (0, address),
        _ if address < operands => (0, 1),
        _ => (operands.saturating_sub(1), address + 1 - operands),
    };
    (available && fits(Name::vdata, data) && fits(nsa_name(last), rest))
        .then_some(Shape { data, address })
}

/// `vaddrN`.
pub(crate) fn nsa_name(n: u32) -> Name {
    [
        Name::vaddr0,
        Name::vaddr1,
        Name::vaddr2,
        Name::vaddr3,
        Name::vaddr4,
        Name::vaddr5,
        Name::vaddr6,
        Name::vaddr7,
        Name::vaddr8,
        Name::vaddr9,
        Name::vaddr10,
        Name::vaddr11,
    ][n.min(11) as usize]
}

/// Registers of one address operand, by its index; 0 where the instruction has none.
pub(crate) fn address_registers(inst: &Inst, shape: Shape, index: u32) -> u32 {
    let row = inst.row();
    if row.format == Format::MIMG {
        return shape.address;
    }
    let operands = (0..12)
        .take_while(|&i| row.operand(nsa_name(i)).is_some())
        .count() as u32;
    if index >= shape.address {
        0
    } else if index + 1 == operands {
        // The last one holds the rest (partial NSA).
        shape.address - index
    } else {
        1
    }
}
