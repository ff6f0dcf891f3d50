//! The run loop: a wave's instructions one after the other, until it waits, ends or has had its turn.

use rocjitsu_lanes::Backend;
use rocjitsu_lanes::kernel::{Args, Aux, Src};
use rocjitsu_lanes::vector::{Lanes, Scalar};

use crate::code::{Body, CodeView, Executed, Seen};
use crate::helpers::Turn;
use crate::lower::State;
use crate::record::{COUNTERS, Class, Fast, Flow, Record, Step};
use crate::wave::{Cx, Waiting, scalar};

/// Why [`run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `wave.waiting` says what the wave waits for, or that it has ended.
    Waits,
    /// The instructions granted are used up.
    Quantum,
    /// `unit.fault` says what happened.
    Fault,
    /// Where the wave was to stop ([`crate::step`]); it can go on.
    Hit,
}

/// Instructions executed, by [`Class`], and those that are not exact.
pub type Counts = [u64; COUNTERS];

/// Runs a wave for about `quantum` instructions.
pub fn run(
    cx: &mut Cx<'_, '_>,
    code: &mut CodeView<'_>,
    quantum: u64,
    counts: &mut Counts,
) -> Stop {
    cx.unit.memory.refresh();
    cx.wave.v.set_shared(cx.unit.temp.splat.as_ptr().cast());
    code.refresh();
    let turn = Turn(cx);
    let cx = &mut *turn.0;
    match cx.unit.backend {
        Backend::Scalar => run_loop::<Scalar>(cx, code, quantum, counts),
        // SAFETY: a unit's back end is one that the host supports (`Unit::new` checks).
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => unsafe { run_avx2(cx, code, quantum, counts) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Backend::Avx512 => unsafe { run_avx512(cx, code, quantum, counts) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => run_loop::<Scalar>(cx, code, quantum, counts),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2(
    cx: &mut Cx<'_, '_>,
    code: &mut CodeView<'_>,
    quantum: u64,
    counts: &mut Counts,
) -> Stop {
    run_loop::<rocjitsu_lanes::vector::Avx2>(cx, code, quantum, counts)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
)]
fn run_avx512(
    cx: &mut Cx<'_, '_>,
    code: &mut CodeView<'_>,
    quantum: u64,
    counts: &mut Counts,
) -> Stop {
    run_loop::<rocjitsu_lanes::vector::Avx512>(cx, code, quantum, counts)
}

#[inline(always)]
fn run_loop<L: Lanes>(
    cx: &mut Cx<'_, '_>,
    code: &mut CodeView<'_>,
    quantum: u64,
    counts: &mut Counts,
) -> Stop {
    let mut left = quantum as i64;
    let mut args = Args {
        dst: std::ptr::null_mut(),
        dst_hi: std::ptr::null_mut(),
        src: [Src::NONE; 3],
        exec: 0,
        mask_in: 0,
        mask_out: 0,
        chunks: cx.wave.lanes / 16,
        keep: 0,
        dst_shift: 0,
        aux: Aux(0),
    };
    let cache = code.cache();
    loop {
        let state = State::of(cx.wave);
        let seen = match code.seen(cx.wave.pc, state, &mut cx.unit.memory) {
            Ok(seen) => seen,
            Err(fault) => {
                cx.unit.fault = Some(Box::new(fault));
                return Stop::Fault;
            }
        };
        let flow = match cache.chain(&seen.block) {
            None => {
                let Seen { block, own, .. } = seen;
                own.turns += 1;
                cx.wave.pc = block.end;
                args.exec = cx.wave.exec();
                let left_at = span::<L>(cx, &block.records, &mut args);
                left -= block.records.len() as i64;
                ended(block, own, left_at, counts)
            }
            Some(chain) => {
                // SAFETY: code is compiled for the back end that executes here, which the host supports; the wave is at the block
                // and in the state of its key.
                let back = unsafe { chain.run(cx, &mut left) };
                let Seen { own, chained, .. } = seen;
                chained.resize_with(chain.members().len() - 1, Executed::default);
                let mut flow = Flow::Next;
                let all = std::iter::once(own).chain(chained);
                for ((at, member), executed) in chain.members().iter().enumerate().zip(all) {
                    let turns = back.turns[at];
                    executed.turns += turns;
                    if back.exit.member == at && back.exit.flow != Flow::Next {
                        let left_at = Some((back.exit.at, back.exit.flow));
                        flow = ended(&member.body, executed, left_at, counts);
                        add(counts, &member.body, usize::MAX, turns.wrapping_sub(1));
                    } else if turns > 0 {
                        add(counts, &member.body, usize::MAX, turns);
                    }
                }
                flow
            }
        };
        match flow {
            Flow::Next | Flow::Jump => {}
            Flow::Wait => {
                if std::mem::take(&mut cx.wave.code_stale) {
                    code.invalidate();
                }
                return Stop::Waits;
            }
            Flow::Again => return Stop::Waits,
            Flow::Fault => return Stop::Fault,
        }
        if left <= 0 {
            cx.wave.waiting = Waiting::Turn;
            return Stop::Quantum;
        }
    }
}

/// Counts `turns` executions of the first `count` instructions of a block.
#[inline(always)]
fn add(counts: &mut Counts, body: &Body, count: usize, turns: u64) {
    for (total, n) in counts.iter_mut().zip(body.sums(count)) {
        *total += u64::from(*n) * turns;
    }
}

/// Counts an execution of a block, and tells how the wave goes on. `left_at` says which record left it, and how, if one did.
#[inline(always)]
fn ended(
    body: &Body,
    executed: &mut Executed,
    left_at: Option<(usize, Flow)>,
    counts: &mut Counts,
) -> Flow {
    let all = body.records.len();
    let (count, flow) = match left_at {
        None | Some((_, Flow::Next | Flow::Jump)) => (all, Flow::Next),
        Some((at, Flow::Wait)) => (at + 1, Flow::Wait),
        Some((at, flow)) => (at, flow),
    };
    add(counts, body, count, 1);
    if count < all {
        executed.ended_early(count);
    }
    flow
}

/// Whether a wave that would execute this record leaves that for its next turn ([`Step::Memory`]).
#[inline(always)]
pub fn gives_way(cx: &mut Cx<'_, '_>, record: &Record) -> bool {
    let bit = 1 << u8::from(record.class == Class::Lds);
    let first = record.step == Step::Memory && cx.wave.past_barrier & bit != 0;
    if first {
        cx.wave.past_barrier &= !bit;
        cx.wave.pc = record.pc;
    }
    first
}

/// Interprets records. `None` when all of them are done, else which one left the block, and how.
#[inline(always)]
fn span<L: Lanes>(
    cx: &mut Cx<'_, '_>,
    records: &[Record],
    args: &mut Args,
) -> Option<(usize, Flow)> {
    for (at, record) in records.iter().enumerate() {
        match record.step {
            Step::Fast => {
                fast::<L, false, false>(cx, record, args);
                continue;
            }
            Step::FastMask => {
                fast::<L, true, false>(cx, record, args);
                continue;
            }
            Step::FastFull => {
                fast::<L, true, true>(cx, record, args);
                continue;
            }
            Step::Memory if gives_way(cx, record) => return Some((at, Flow::Again)),
            Step::Memory | Step::Handler => {}
        }
        match (record.run)(cx, record) {
            Flow::Next => args.exec = cx.wave.exec(),
            left => return Some((at, left)),
        }
    }
    None
}

/// A lane operation without modifiers. With `MASK` it may read and write masks and have no register
/// result; with `FULL` its operands may have high words or be halves of words.
#[inline(always)]
fn fast<L: Lanes, const MASK: bool, const FULL: bool>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    args: &mut Args,
) {
    let operands = &record.fast;
    let wave = &mut *cx.wave;
    if operands.scalars != 0 {
        let rows = cx.unit.temp.splat.as_flattened_mut();
        for &(row, n) in operands.spread.iter().take(usize::from(operands.scalars)) {
            let value = wave.s.get(usize::from(n)).copied().unwrap_or(0);
            if let Some(row) = rows.get_mut(usize::from(row)) {
                // SAFETY: the row has 16 words and lies at a multiple of 64.
                unsafe { L::store(row.as_mut_ptr(), L::splat(value)) };
            }
        }
    }
    for slot in 0..3 {
        let src = &mut args.src[slot];
        src.lo = wave.v.source(operands.src[slot]);
        src.step = usize::from(operands.src[slot].step);
        if FULL {
            src.hi = wave.v.source(operands.hi[slot]);
            src.shift = operands.shift[slot].into();
        }
    }
    args.aux = record.aux;
    if MASK {
        args.mask_in = wave.mask(usize::from(operands.mask) % scalar::COUNT);
    }
    // The write may give the page of a source storage of its own in place of the shared zeros; either way
    // that source reads as zero until the kernel stores.
    if !MASK || operands.has_dst {
        args.dst = wave.v.write_slot(operands.dst, &mut cx.unit.pool);
        if FULL {
            args.keep = operands.keep;
            args.dst_shift = operands.dst_shift.into();
            args.dst_hi = wave.v.write_slot(operands.dst_hi, &mut cx.unit.pool);
        }
    }
    // SAFETY: sources and destination are whole rows of this wave, or 16 shared words at step 0; the back
    // end is supported.
    unsafe { (record.kernel)(args) };
    if MASK && operands.mask_out != Fast::NO_MASK {
        wave.set_mask(
            usize::from(operands.mask_out) % (scalar::COUNT - 1),
            args.mask_out,
        );
        args.exec = wave.exec();
    }
}
