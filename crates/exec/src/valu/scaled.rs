//! Conversions with a scale between floats and packed fp8, bf8, fp6, bf6 and fp4 values: 1 to 32 values in up to
//! 32 registers (CDNA4 manual, V_CVT_SCALEF32_*; CDNA5 manual, V_CVT_SCALEF32_* and V_CVT_SCALE_PK*).

use rocjitsu_isa::{Inst, Name, Target};
use rocjitsu_lanes::fp::format::{self, Format};
use rocjitsu_lanes::fp::small::scale_of_f32;
use rocjitsu_lanes::scalar::convert_small::{
    ScaleRules, Wide, v_cvt_scale_unpack, v_cvt_scalef32_2xpk16, v_cvt_scalef32_pack,
};

use super::cross::{merge, row_of};
use super::ops::float_facts::op_sel;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::Cx;

type Row = [u32; 64];

/// A conversion, read from the parts of its name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    /// From wide to narrow, or back.
    packs: bool,
    /// The narrow format.
    narrow: Format,
    /// Its bits.
    bits: u32,
    /// The wide one.
    wide: Wide,
    /// Values converted.
    count: u32,
    /// Stochastic rounding: source 1 is a random number.
    stochastic: bool,
    /// Two sources of 16 values each, interleaved.
    interleaved: bool,
    /// The scale is a byte of its source, not an f32.
    byte_scale: bool,
    /// The part of a register that a result or source of less than 32 bits takes: its first bit.
    part: u32,
    /// Right shift that brings a single 16-bit source into the low half.
    source_shift: u32,
    /// Byte of the scale.
    scale_byte: u32,
    /// Whether sources 0 and 1 are negated.
    neg: [bool; 2],
    /// Whether their absolute value is taken first.
    abs: [bool; 2],
    /// Rules of the target.
    rules: ScaleRules,
}

fn narrow(name: &str) -> Option<(Format, u32)> {
    Some(match name {
        "fp8" => (format::FP8, 8),
        "bf8" => (format::BF8, 8),
        "fp6" => (format::FP6, 6),
        "bf6" => (format::BF6, 6),
        "fp4" => (format::FP4, 4),
        _ => return None,
    })
}

fn wide(name: &str) -> Option<Wide> {
    Some(match name {
        "f32" => Wide::F32,
        "f16" => Wide::F16,
        "bf16" => Wide::Bf16,
        _ => return None,
    })
}

impl Plan {
    fn of(inst: &Inst, fp16_ovfl: bool) -> Option<Plan> {
        let (byte_scale, rest) = match inst.op().name().strip_prefix("v_cvt_scalef32_") {
            Some(rest) => (false, rest),
            None => (true, inst.op().name().strip_prefix("v_cvt_scale_")?),
        };
        let (stochastic, rest) = match rest.strip_prefix("sr_") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let mut parts = rest.split('_');
        let mut part = parts.next()?;
        let mut count = 1;
        let interleaved = part == "2xpk16";
        if let Some(n) = part.strip_prefix("pk").or(interleaved.then_some("32")) {
            count = if n.is_empty() { 2 } else { n.parse().ok()? };
            part = parts.next()?;
        }
        let (to, from) = (part, parts.next()?);
        let packs = narrow(to).is_some();
        let (narrow, bits) = narrow(if packs { to } else { from })?;
        let wide = wide(if packs { from } else { to })?;
        let sel = op_sel(inst);
        let size = count * bits;
        let gfx1250 = inst.target() == Target::Gfx1250;
        let modifier = |bit: u32| {
            [Name::src0_modifiers, Name::src1_modifiers]
                .map(|n| inst.field(n).unwrap_or(0) >> bit & 1 != 0)
        };
        Some(Plan {
            packs,
            narrow,
            bits,
            wide,
            count,
            stochastic,
            interleaved,
            byte_scale,
            part: match (packs, size) {
                (true, 8) => 8 * (sel >> 2 & 3),
                (true, 16) => 16 * (sel >> 3 & 1),
                (false, 8) => 8 * (sel & 3),
                (false, 16) => 16 * (sel & 1),
                _ => 0,
            },
            source_shift: if count == 1 && packs && wide != Wide::F32 {
                16 * (sel & 1)
            } else {
                0
            },
            scale_byte: inst.field(Name::scale_sel).unwrap_or(0) & 3,
            neg: modifier(0),
            abs: modifier(1),
            rules: ScaleRules {
                fp16_ovfl,
                infinity_is_nan: gfx1250,
                halves: gfx1250,
            },
        })
    }

    /// Words of `count` values of `bits` bits.
    fn words(self, bits: u32) -> usize {
        (self.count * bits).div_ceil(32) as usize
    }

    fn wide_bits(self) -> u32 {
        if self.wide == Wide::F32 { 32 } else { 16 }
    }
}

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let mut record = Record::new(*inst, pc, Class::Valu, run);
    record.aux = rocjitsu_lanes::kernel::Aux(lowering.state.0 & 0x7ff);
    let plan = Plan::of(inst, record.aux.fp16_ovfl())?;
    record.dst = lowering.banked(lowering.dest(inst, Name::vdst)?, 3);
    for (slot, name) in [Name::src0, Name::src1, Name::src2].into_iter().enumerate() {
        if let Some(operand) = lowering.source(inst, name) {
            record.src[slot] = lowering.banked(operand, slot as u32);
        }
    }
    // The half that takes the result of a single conversion to f16.
    record.imm = i64::from(op_sel(inst) >> 3 & 1);
    record.detail = Some(Box::new(plan));
    Some(record)
}

/// Word `n` of an operand.
fn word(cx: &Cx<'_, '_>, operand: Operand, n: usize) -> Row {
    match operand {
        Operand::Vector(r) => row_of(cx, Operand::Vector(r.saturating_add(n as u16))),
        other => row_of(cx, other),
    }
}

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some(plan) = record
        .detail
        .as_ref()
        .and_then(|d| d.downcast_ref::<Plan>())
        .copied()
    else {
        return Flow::Next;
    };
    let [first, second, third, _] = record.src;
    // Two f32 values come in two operands, unless the random number takes the place of the second.
    let apart = plan.packs && plan.count == 2 && plan.wide == Wide::F32 && !plan.stochastic;
    let words = plan.words(if plan.packs {
        plan.wide_bits()
    } else {
        plan.bits
    });
    let mut sources: Vec<Row> = if apart {
        vec![word(cx, first, 0), word(cx, second, 0)]
    } else if plan.interleaved {
        [first, second]
            .iter()
            .flat_map(|&s| (0..16).map(move |n| (s, n)))
            .map(|(s, n)| word(cx, s, n))
            .collect()
    } else {
        (0..words).map(|n| word(cx, first, n)).collect()
    };
    modify(&plan, apart, &mut sources);
    let scales = word(
        cx,
        if apart || plan.stochastic || plan.interleaved {
            third
        } else {
            second
        },
        0,
    );
    let randoms = word(cx, second, 0);

    let out_words = plan.words(if plan.packs {
        plan.bits
    } else {
        plan.wide_bits()
    });
    let mut results = vec![[0; 64]; out_words];
    for lane in 0..cx.wave.lanes as usize {
        let mut source = [0; 32];
        for (to, row) in source.iter_mut().zip(&sources) {
            *to = row[lane];
        }
        let mut out = [0; 32];
        convert(
            &plan,
            &source,
            scales[lane],
            randoms[lane],
            &mut out[..out_words],
        );
        for (row, value) in results.iter_mut().zip(out) {
            row[lane] = value;
        }
    }
    store(cx, record, &plan, &mut results);
    Flow::Next
}

/// Applies neg and abs to the sources of conversions of one or two f32, or one f16 or bf16, and brings a source
/// of less than a word to bit 0.
fn modify(plan: &Plan, apart: bool, sources: &mut [Row]) {
    if !plan.packs {
        if let [only] = sources {
            only.iter_mut().for_each(|w| *w >>= plan.part);
        }
        return;
    }
    if plan.count > 2 {
        return;
    }
    for (slot, row) in sources.iter_mut().enumerate() {
        let of = if apart { slot } else { 0 };
        let sign = if plan.wide == Wide::F32 { 31 } else { 15 };
        for w in row.iter_mut() {
            *w >>= plan.source_shift;
            if plan.abs[of] && (plan.wide == Wide::F32 || plan.count == 1) {
                *w &= !(1 << sign);
            }
            if plan.neg[of] && (plan.wide == Wide::F32 || plan.count == 1) {
                *w ^= 1 << sign;
            }
        }
    }
}

fn convert(plan: &Plan, source: &[u32; 32], scale: u32, random: u32, out: &mut [u32]) {
    let Plan {
        narrow,
        wide,
        rules,
        ..
    } = *plan;
    if plan.interleaved {
        let (a, b) = source.split_at(16);
        return v_cvt_scalef32_2xpk16(a, b, scale, narrow, rules, out);
    }
    if plan.packs {
        let pack = match (plan.count, plan.bits) {
            (1, 8) => v_cvt_scalef32_pack::<1, 8>,
            (2, 8) => v_cvt_scalef32_pack::<2, 8>,
            (2, 4) => v_cvt_scalef32_pack::<2, 4>,
            (8, 8) => v_cvt_scalef32_pack::<8, 8>,
            (8, 4) => v_cvt_scalef32_pack::<8, 4>,
            (16, 6) => v_cvt_scalef32_pack::<16, 6>,
            _ => v_cvt_scalef32_pack::<32, 6>,
        };
        return pack(
            source,
            wide,
            scale,
            narrow,
            plan.stochastic.then_some(random),
            rules,
            out,
        );
    }
    let scale = if plan.byte_scale {
        (scale >> (8 * plan.scale_byte)) as u8
    } else {
        scale_of_f32(scale)
    };
    let unpack = match (plan.count, plan.bits) {
        (1, 8) => v_cvt_scale_unpack::<1, 8>,
        (2, 8) => v_cvt_scale_unpack::<2, 8>,
        (2, 4) => v_cvt_scale_unpack::<2, 4>,
        (8, 8) => v_cvt_scale_unpack::<8, 8>,
        (8, 4) => v_cvt_scale_unpack::<8, 4>,
        (16, 6) => v_cvt_scale_unpack::<16, 6>,
        _ => v_cvt_scale_unpack::<32, 6>,
    };
    unpack(source, narrow, scale, wide, rules.fp16_ovfl, out);
}

/// Writes the results; one of less than a word replaces a part of the destination.
fn store(cx: &mut Cx<'_, '_>, record: &Record, plan: &Plan, results: &mut [Row]) {
    let size = plan.count
        * if plan.packs {
            plan.bits
        } else {
            plan.wide_bits()
        };
    if let (true, [only]) = (size < 32, &mut *results) {
        let shift = if plan.packs {
            plan.part
        } else {
            16 * record.imm as u32
        };
        let mask = ((1 << size) - 1) << shift;
        let old = row_of(cx, record.dst);
        for (w, old) in only.iter_mut().zip(old) {
            *w = *w << shift & mask | old & !mask;
        }
    }
    let Operand::Vector(r) = record.dst else {
        return;
    };
    for (n, row) in results.iter().enumerate() {
        merge(cx, Operand::Vector(r + n as u16), |lane| row[lane as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_isa::{FeatureSet, decode};

    fn plan(target: Target, words: &[u32]) -> Plan {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Plan::of(&decode(target, FeatureSet::Default, &bytes).unwrap(), false).unwrap()
    }

    #[test]
    fn codes_fill_parts_of_words() {
        let mut plan = plan(Target::Gfx950, &[0xd235_0000, 0x040a_0300]);
        assert_eq!(
            (plan.packs, plan.count, plan.bits, plan.wide),
            (true, 2, 8, Wide::F32)
        );
        let mut source = [0; 32];
        (source[0], source[1]) = (2f32.to_bits(), (-4f32).to_bits());
        let mut out = [0];
        // Scale 2: halves the values. fp8 of 1 and -2.
        convert(&plan, &source, 2f32.to_bits(), 0, &mut out);
        assert_eq!(out[0], 0xc038);
        plan.packs = false;
        source[0] = 0xc038;
        let mut out = [0; 2];
        convert(&plan, &source, 2f32.to_bits(), 0, &mut out);
        assert_eq!(out.map(f32::from_bits), [2.0, -4.0]);
    }
}
