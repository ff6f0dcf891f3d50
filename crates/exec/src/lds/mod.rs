//! LDS instructions (DS, and the direct loads of LDSDIR): loads, stores, atomics, lane permutations.

pub mod access;
pub mod atomic;
pub mod barrier;
pub(crate) mod cross;
mod gws;
mod misc;
pub mod storage;

use rocjitsu_isa::{Format, Inst, Name, Target};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record, Step};
use crate::vmem::body;
use crate::vmem::datum::{Datum, by_load, by_store};
use crate::vmem::rmw::{Flush, by_rmw};
use crate::vmem::role;
use access::{LdsLoad, LdsLoad2, LdsStore, LdsStore2};
pub use misc::{by_lane, shared_address};

/// Lowers an LDS instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let mut record = by_name(inst, pc, lowering)?;
    let name = inst.op().name();
    if ["ds_write", "ds_store"]
        .iter()
        .any(|store| name.starts_with(store))
    {
        record.step = Step::Memory;
    }
    Some(record)
}

fn by_name(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    if inst.format() == Format::LDSDIR {
        return misc::direct(inst, pc, lowering);
    }
    if inst.format() != Format::DS {
        return None;
    }
    if let Some(record) = gws::lower(inst, pc, lowering) {
        return Some(record);
    }
    // Global data share: gone on CDNA, and no compiler uses it for compute elsewhere.
    if inst.field(Name::gds).unwrap_or(0) != 0 {
        return None;
    }
    let name = inst.op().name().strip_prefix("ds_")?;
    let mut record = Record::new(*inst, pc, Class::Lds, |_, _| Flow::Next);
    let vector = |name, role| Some(lowering.banked(lowering.source(inst, name)?, role));
    record.src[0] = vector(Name::addr, role::ADDRESS).unwrap_or_default();
    record.src[2] = vector(Name::data0, role::DATA).unwrap_or_default();
    record.src[3] = vector(Name::data1, role::DATA1).unwrap_or_default();
    record.dst = vector(Name::vdst, role::DST).unwrap_or_default();
    record.imm = i64::from(inst.field(Name::offset).unwrap_or(0));
    let backend = lowering.backend;

    if name == "nop" {
        return Some(record);
    }
    if matches!(
        name,
        "atomic_async_barrier_arrive_b64" | "atomic_barrier_arrive_rtn_b64"
    ) {
        record.run = barrier::run;
        return Some(record);
    }
    if let Some(found) = misc::lower(name).or_else(|| cross::lower(name, &mut record, lowering)) {
        record.run = found;
        return Some(record);
    }
    let tile = name.strip_prefix("read_").or(name.strip_prefix("load_"));
    if let Some(handler) =
        tile.and_then(|tile| crate::vmem::transpose::prepare(&mut record, tile, true, backend))
    {
        record.run = handler;
        return Some(record);
    }
    if let Some(two) = two_addresses(name) {
        record.imm = i64::from(inst.field(Name::offset0)?) * i64::from(two.unit);
        record.imm2 = i64::from(inst.field(Name::offset1)?) * i64::from(two.unit);
        let datum = Datum::Words(two.words);
        record.run = match two.kind {
            Kind::Load => by_load!(datum, backend, LdsLoad2),
            Kind::Store => by_store!(datum, backend, LdsStore2),
            Kind::Exchange if two.words == 1 => {
                body::handler::<atomic::LdsAtomic2<crate::vmem::rmw::Swap32>>(backend)
            }
            Kind::Exchange => {
                body::handler::<atomic::LdsAtomic2<crate::vmem::rmw::Swap64>>(backend)
            }
        };
        return Some(record);
    }
    if let Some(datum) = name
        .strip_prefix("read_")
        .or(name.strip_prefix("load_"))
        .and_then(Datum::of_load)
    {
        record.run = by_load!(datum.on(lowering.target), backend, LdsLoad);
        return Some(record);
    }
    if let Some(datum) = name
        .strip_prefix("write_")
        .or(name.strip_prefix("store_"))
        .and_then(Datum::of_store)
    {
        record.run = by_store!(datum, backend, LdsStore);
        return Some(record);
    }
    let plain = name.replace("rtn_", "");
    macro_rules! pick {
        ($op:ident) => {
            body::handler::<atomic::LdsAtomic<$op>>(backend)
        };
    }
    record.run = by_rmw!(plain.as_str(), pick)?;
    if plain.starts_with("cmpst_") {
        // The older compare-and-store has the value compared with first, the new one second.
        record.src.swap(2, 3);
    }
    record.mem.flush = lds_flush(&plain, lowering.target, lowering.state.float_mode());
    Some(record)
}

enum Kind {
    Load,
    Store,
    Exchange,
}

struct TwoAddresses {
    kind: Kind,
    words: u8,
    /// Bytes that an offset counts.
    unit: u32,
}

/// What an instruction with two addresses does, by its name.
fn two_addresses(name: &str) -> Option<TwoAddresses> {
    let (kind, rest) = if let Some(r) = name
        .strip_prefix("read2")
        .or(name.strip_prefix("load_2addr"))
    {
        (Kind::Load, r)
    } else if let Some(r) = name
        .strip_prefix("write2")
        .or(name.strip_prefix("store_2addr"))
    {
        (Kind::Store, r)
    } else {
        (
            Kind::Exchange,
            name.strip_prefix("wrxchg2")
                .or(name.strip_prefix("storexchg_2addr"))?,
        )
    };
    let words = if rest.ends_with("b64") { 2 } else { 1 };
    let wide = rest.starts_with("st64") || rest.starts_with("_stride64");
    Some(TwoAddresses {
        kind,
        words,
        unit: u32::from(words) * 4 * if wide { 64 } else { 1 },
    })
}

/// Denormals in float atomics on LDS (manuals: "Float Memory Atomics"): MODE.FP_DENORM of the operand's
/// type decides; f64 additions never flush.
fn lds_flush(name: &str, target: Target, float_mode: u32) -> Flush {
    let denormals = float_mode >> 4 >> if name.ends_with("f32") { 0 } else { 2 };
    let (input, output) = (denormals & 1 == 0, denormals & 2 == 0);
    match name {
        "add_f64" => Flush::default(),
        "add_f32" | "pk_add_f16" | "pk_add_bf16" => Flush {
            input,
            output,
            selected: false,
        },
        // CDNA5 flushes the sources first and gives the flushed one; before, the one chosen is kept as it was.
        _ => Flush {
            input,
            output: false,
            selected: target.generation() >= 12,
        },
    }
}

/// The vector register of an operand, 0 if it is none.
fn register(operand: Operand) -> u32 {
    operand.vector().unwrap_or(0)
}
