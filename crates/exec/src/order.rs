//! Instructions whose results depend on the order in which the waves of a workgroup come to them.
//!
//! While the waves run on one thread that order is always the same: wave after wave, from one barrier to the next.
//! While they run on several ([`Group::shared`](crate::wave::Group::shared)), such an instruction does nothing yet; its
//! wave waits ([`Waiting::Order`]) until the scheduler has the workgroup on one thread again, where the instruction
//! executes in its place. So results have the same bits whatever the number of threads.
//!
//! Integer additions, minima, bitwise operations and the like that return nothing are not among them: in any order
//! they leave the same value.

use rocjitsu_isa::{Format, Op};

use crate::record::{Flow, Record};
use crate::wave::{Cx, Waiting};

/// Atomics that leave the same value in any order, by the operation's name.
const COMMUTING: &[&str] = &[
    "add",
    "add_x2",
    "add_u32",
    "add_u64",
    "sub",
    "sub_x2",
    "sub_u32",
    "sub_u64",
    "and",
    "and_x2",
    "and_b32",
    "and_b64",
    "or",
    "or_x2",
    "or_b32",
    "or_b64",
    "xor",
    "xor_x2",
    "xor_b32",
    "xor_b64",
    "smin",
    "smin_x2",
    "smax",
    "smax_x2",
    "umin",
    "umin_x2",
    "umax",
    "umax_x2",
    "min_i32",
    "min_i64",
    "max_i32",
    "max_i64",
    "min_u32",
    "min_u64",
    "max_u32",
    "max_u64",
    "async_barrier_arrive_b64",
];

/// How names of LDS operations begin that are no loads, stores or permutations.
const LDS_UPDATES: &[&str] = &[
    "add",
    "sub",
    "rsub",
    "inc",
    "dec",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "mskor",
    "wrxchg",
    "storexchg",
    "cmpst",
    "cond",
    "wrap",
    "pk_add",
    "append",
    "consume",
    "gws",
    "atomic",
];

/// The operation of an atomic; none for other instructions.
fn atomic(record: &Record) -> Option<&'static str> {
    let name = record.inst.op().name();
    if record.inst.format() == Format::DS {
        let plain = name.strip_prefix("ds_")?;
        let updates = LDS_UPDATES.iter().any(|start| plain.starts_with(start));
        return updates.then(|| plain.strip_prefix("atomic_").unwrap_or(plain));
    }
    name.split_once("atomic_").map(|(_, operation)| operation)
}

/// Whether what the instruction does depends on which waves came to it before.
fn matters(record: &Record) -> bool {
    // Those of named barriers are here as well: their members meet in an order that only the scheduler of one thread
    // knows.
    if matches!(
        record.inst.op(),
        Op::s_barrier_signal_isfirst
            | Op::s_get_barrier_state
            | Op::s_barrier_init
            | Op::s_barrier_join
            | Op::s_barrier_leave
    ) {
        return true;
    }
    let scalar = record.inst.format() == Format::SMEM;
    atomic(record).is_some_and(|operation| {
        scalar || record.dst.vector().is_some() || !COMMUTING.contains(&operation)
    })
}

/// Makes a record wait for its turn if it has to.
pub fn apply(record: &mut Record) {
    if matters(record) {
        record.in_order = record.run;
        record.run = wait_or_run;
    }
}

fn wait_or_run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    if !cx.group.shared {
        return (record.in_order)(cx, record);
    }
    cx.wave.pc = record.pc;
    cx.wave.waiting = Waiting::Order;
    Flow::Again
}

#[cfg(test)]
mod tests {
    use rocjitsu_isa::{Target, decode};
    use rocjitsu_lanes::Backend;

    use crate::lower::{Lowering, State, lower};
    use crate::wave::Wave;

    fn waits(target: Target, words: [u32; 2]) -> (bool, &'static str) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let inst = decode(target, target.execution_set(64), &bytes).unwrap();
        let state = State::of(&Wave::new(64));
        let record = lower(inst, 0, &mut Lowering::new(target, Backend::Scalar, state));
        let waits = std::ptr::fn_addr_eq(record.run, super::wait_or_run as crate::record::Handler);
        (waits, inst.op().name())
    }

    #[test]
    fn what_returns_or_rounds_waits_and_what_commutes_does_not() {
        let target = Target::Gfx942;
        for (words, expected) in [
            ([0xd800_0000, 0x0000_0100], (false, "ds_add_u32")),
            ([0xd814_0000, 0x0000_0100], (false, "ds_or_b32")),
            ([0xd81a_0000, 0x0000_0100], (false, "ds_write_b32")),
            ([0xd86c_0000, 0x0100_0000], (false, "ds_read_b32")),
            ([0xd87c_0000, 0x0100_0200], (false, "ds_permute_b32")),
            ([0xd82a_0000, 0x0000_0100], (true, "ds_add_f32")),
            ([0xd840_0000, 0x0100_0200], (true, "ds_add_rtn_u32")),
            ([0xd97c_0000, 0x0100_0000], (true, "ds_append")),
            ([0xdc50_8000, 0x0100_0000], (false, "global_load_dword")),
            ([0xdd08_8000, 0x0000_0100], (false, "global_atomic_add")),
            ([0xdd09_8000, 0x0200_0100], (true, "global_atomic_add")),
            ([0xdd00_8000, 0x0000_0100], (true, "global_atomic_swap")),
            ([0xdd34_8000, 0x0000_0100], (true, "global_atomic_add_f32")),
            ([0xbf8a_0000, 0x0000_0000], (false, "s_barrier")),
        ] {
            assert_eq!(waits(target, words), expected);
        }
    }
}
