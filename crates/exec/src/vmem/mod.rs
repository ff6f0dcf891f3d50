//! Vector memory: global, flat, scratch and buffer instructions, and the copies between memory and LDS.
//! [`lower`] resolves an instruction; the modules below hold its handlers.

pub mod address;
pub mod atomic;
mod block;
pub mod body;
pub mod buffer;
pub mod datum;
pub mod flat;
pub mod global;
mod half;
pub mod rmw;
pub mod scratch;
pub mod tensor;
pub mod to_lds;
pub mod transpose;
mod whole;

use rocjitsu_isa::{Format, Inst, Name, Target};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record, Step};
use crate::target::TargetFacts;
use crate::wave::Cx;
use buffer::descriptor::Rules;
use datum::{Datum, by_load, by_store};
use flat::{FlatLoad, FlatStore};
use global::{GlobalLoad, GlobalStore};
use rmw::{Flush, by_rmw};
use scratch::{ScratchLoad, ScratchStore};

/// The most lanes a wave has.
pub const LANES: usize = 64;

/// Where addresses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A pair of vector registers.
    #[default]
    Vector64,
    /// A scalar base and a 32-bit vector offset.
    Scalar64,
    /// A scalar base and the lane's number times 4.
    ThreadId,
    /// Offsets in scratch.
    Scratch,
    /// Buffer without vector registers.
    Buffer,
    /// Buffer with a vector offset.
    BufferOffset,
    /// Buffer with a vector index.
    BufferIndex,
    /// Buffer with index and offset.
    BufferBoth,
}

/// What a memory instruction needs beyond operands and offset. Loads write `record.dst`; stores and
/// atomics read `record.src[2]` and `record.src[3]`; `src[0]` is the vector address, `src[1]` the scalar one.
#[derive(Clone, Copy, Debug)]
pub struct Mem {
    /// Where addresses come from.
    pub form: Form,
    /// Factor of the vector offset.
    pub scale: u32,
    /// Whether the vector offset is signed.
    pub signed: bool,
    /// Flat instruction: addresses may be in LDS or scratch.
    pub flat: bool,
    /// Scratch lies where FLAT_SCRATCH says.
    pub flat_scratch: bool,
    /// Flat scratch addresses say which lane they mean (gfx1250).
    pub shared_scratch: bool,
    /// Denormals in float atomics.
    pub flush: Flush,
    /// Scalar offset of buffer instructions.
    pub soffset: Operand,
    /// Buffer rules of the target.
    pub rules: Rules,
    /// Shape of data that passes no register, and of formatted data.
    pub datum: Datum,
    /// A transposed tile of a wave of 64 that 32 lanes have read.
    pub halved: bool,
    /// Format of typed buffer instructions.
    pub format: u8,
}

impl Default for Mem {
    fn default() -> Mem {
        Mem {
            form: Form::Vector64,
            scale: 1,
            signed: false,
            flat: false,
            flat_scratch: false,
            shared_scratch: false,
            flush: Flush::default(),
            soffset: Operand::None,
            rules: Rules::default(),
            datum: Datum::Words(1),
            halved: false,
            format: 0,
        }
    }
}

/// Lowers a vector memory instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let mut record = by_format(inst, pc, lowering)?;
    let name = inst.op().name();
    if !name.starts_with("scratch") && (name.contains("_load") || name.contains("_atomic")) {
        record.step = Step::Memory;
    }
    Some(record)
}

fn by_format(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    match inst.format() {
        Format::FLAT
        | Format::VFLAT
        | Format::GLOBAL
        | Format::VGLOBAL
        | Format::SCRATCH
        | Format::VSCRATCH => flat_like(inst, pc, lowering),
        Format::MUBUF | Format::MTBUF | Format::VBUFFER => buffer::lower(inst, pc, lowering),
        Format::VIMAGE => tensor::lower(inst, pc, lowering),
        _ => None,
    }
}

/// A record that orders accesses at most: cache control and prefetches, since memory here is coherent.
pub fn nothing(inst: &Inst, pc: u64, class: Class) -> Record {
    fn nop(_: &mut Cx<'_, '_>, _: &Record) -> Flow {
        crate::memory::order();
        Flow::Next
    }
    Record::new(*inst, pc, class, nop)
}

/// Roles of operands for VGPR banks (`s_set_vgpr_msb`): LLVM's `getVGPRLoweringOperandTables` orders
/// flat operands vaddr, vdata, nothing, vdst; buffer operands vaddr, nothing, nothing, vdata.
pub mod role {
    /// Vector address.
    pub const ADDRESS: u32 = 0;
    /// First data operand.
    pub const DATA: u32 = 1;
    /// Second data operand of DS instructions.
    pub const DATA1: u32 = 2;
    /// Destination, and the data of buffer instructions.
    pub const DST: u32 = 3;
}

fn flat_like(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let target = lowering.target;
    let (segment, rest) = inst.op().name().split_once('_')?;
    let mut record = Record::new(*inst, pc, Class::Vmem, |_, _| Flow::Next);
    let vector = |name, role| Some(lowering.banked(lowering.source(inst, name)?, role));
    record.src[0] = vector(Name::vaddr, role::ADDRESS).unwrap_or_default();
    record.src[1] = lowering.source(inst, Name::saddr).unwrap_or_default();
    record.src[2] = vector(Name::vdata, role::DATA).unwrap_or_default();
    record.dst = vector(Name::vdst, role::DST).unwrap_or_default();
    record.imm = offset(inst, target);
    let mem = &mut record.mem;
    mem.flat = matches!(inst.format(), Format::FLAT | Format::VFLAT);
    mem.form = match inst.operand(Name::saddr) {
        _ if segment == "scratch" => Form::Scratch,
        _ if inst.operand(Name::vaddr).is_none() => Form::ThreadId,
        Some(_) => Form::Scalar64,
        None => Form::Vector64,
    };
    mem.signed = target == Target::Gfx1250;
    mem.shared_scratch = target == Target::Gfx1250;
    mem.flat_scratch = !target.architected_flat_scratch();

    let backend = lowering.backend;
    if let Some(name) = rest.strip_prefix("atomic_") {
        macro_rules! pick {
            ($op:ident) => {
                (
                    body::handler::<atomic::MemoryAtomic<$op>>(backend),
                    <$op as Rmw>::T::BYTES,
                )
            };
        }
        let (handler, bytes) = by_rmw!(name, pick)?;
        record.run = handler;
        record.mem.flush = memory_flush(name, target, lowering.state.float_mode());
        record.mem.scale = scale(inst, bytes as u32);
        return Some(record);
    }
    if matches!(rest, "inv" | "wb" | "wbinv" | "prefetch_b8") {
        return Some(nothing(inst, pc, Class::Vmem));
    }
    if let Some(handler) = block::lower(rest) {
        record.run = handler;
        return Some(record);
    }
    if let Some(name) = rest.strip_prefix("load_") {
        if let Some(handler) = transpose::prepare(&mut record, name, false, lowering.backend) {
            record.run = handler;
            record.mem.halved = lowering.lanes() == 64;
            record.mem.scale = scale(inst, transpose::shape(name)?.1);
            return Some(record);
        }
        if let Some(datum) = name.strip_prefix("async_to_lds_").and_then(Datum::of_load) {
            record.mem.scale = scale(inst, datum.bytes());
            return to_lds::async_load(record, datum, backend);
        }
        let to_lds = name.strip_prefix("lds_");
        let name = name
            .strip_prefix("monitor_")
            .or(name.strip_prefix("addtid_"))
            .unwrap_or(name);
        let datum = Datum::of_load(to_lds.unwrap_or(name))?.on(target);
        if inst.row().operand(Name::vdst).is_none() {
            return to_lds::global(record, datum, backend);
        }
        record.dst.vector()?;
        record.mem.scale = scale(inst, datum.bytes());
        record.run = match segment {
            "scratch" => by_load!(datum, backend, ScratchLoad),
            "flat" => by_load!(datum, backend, FlatLoad),
            "global" | "cluster" => by_load!(datum, backend, GlobalLoad),
            _ => return None,
        };
        return Some(record);
    }
    let name = rest.strip_prefix("store_")?;
    if let Some(datum) = name
        .strip_prefix("async_from_lds_")
        .and_then(Datum::of_load)
    {
        record.mem.scale = scale(inst, datum.bytes());
        return to_lds::async_store(record, datum, backend);
    }
    let datum = Datum::of_store(name.strip_prefix("addtid_").unwrap_or(name))?;
    record.src[2].vector()?;
    record.mem.scale = scale(inst, datum.bytes());
    record.run = match segment {
        "scratch" => by_store!(datum, backend, ScratchStore),
        "flat" => by_store!(datum, backend, FlatStore),
        "global" => by_store!(datum, backend, GlobalStore),
        _ => return None,
    };
    Some(record)
}

/// The immediate offset: signed, but 12 bits unsigned in FLAT instructions before gfx12 (manuals: the
/// FLAT encoding's OFFSET field; the top bit is ignored there).
fn offset(inst: &Inst, target: Target) -> i64 {
    let signed = i64::from(inst.signed_field(Name::offset).unwrap_or(0));
    if inst.format() == Format::FLAT && target.generation() < 12 {
        signed & 0xfff
    } else {
        signed
    }
}

/// The factor of the vector offset: gfx1250 can scale it by the size of the data (bit SCALE_OFFSET, bit 11
/// of the cache policy as LLVM numbers it).
fn scale(inst: &Inst, bytes: u32) -> u32 {
    let scaled =
        inst.target() == Target::Gfx1250 && inst.field(Name::cpol).unwrap_or(0) >> 11 & 1 != 0;
    if scaled { bytes } else { 1 }
}

/// Denormals in float atomics on memory (manuals: "Float Memory Atomics", column of the L2 cache).
/// `float_mode` is MODE.FP_DENORM in bits 7:4.
pub fn memory_flush(name: &str, target: Target, float_mode: u32) -> Flush {
    let denormals_in = float_mode >> 4 & 1 != 0;
    match target.generation() {
        // CDNA: f32 additions flush, 16-bit ones and f64 do not.
        9 => Flush {
            input: name == "add_f32",
            output: false,
            selected: false,
        },
        // RDNA3: additions flush; minimum, maximum and compare follow MODE.
        11 => Flush {
            input: match name {
                "add_f32" => true,
                "min_f32" | "max_f32" | "cmpswap_f32" => !denormals_in,
                _ => false,
            },
            output: false,
            selected: false,
        },
        _ => Flush::default(),
    }
}
