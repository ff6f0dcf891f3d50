//! What can be said of a run before code is emitted: how many groups of lanes are computed side by side, which
//! nodes need no instruction of their own.

use std::collections::HashMap;

use rocjitsu_lanes::trace::graph::{Id, Node, Op};

use super::collect::{Run, Step};
use super::host::Host;

/// The most steps that are done for several groups side by side, those of all groups counted.
pub const SIDE_BY_SIDE: usize = 1200;

/// Nodes that are the same for all groups of lanes.
pub fn uniform(run: &Run, host: Host) -> Vec<bool> {
    let mut uniform = vec![false; run.graph.nodes.len()];
    for (at, node) in run.graph.nodes.iter().enumerate() {
        uniform[at] = match node.op {
            Op::Row | Op::Mask | Op::Lane => false,
            Op::Table => {
                let table = &run.graph.tables[node.imm as usize];
                let group = host.lanes() as usize;
                table.chunks(group).all(|part| part == &table[..group])
            }
            _ => node.operands().all(|id| uniform[id.0 as usize]),
        };
    }
    uniform
}

/// How many groups are computed side by side: as many as registers have room for, or more where one would wait. Values that
/// all groups share (`uniform`) take one register whatever the number.
pub fn ways(run: &Run, host: Host, uniform: &[bool], chunks: u32) -> u32 {
    let mut last = vec![0; run.graph.nodes.len()];
    for (at, step) in run.steps.iter().enumerate() {
        match *step {
            Step::Compute(id) => {
                for arg in run.graph.get(id).operands() {
                    last[arg.0 as usize] = at;
                }
            }
            Step::StoreRow(_, id) | Step::StoreMask(_, id) => last[id.0 as usize] = at,
        }
    }
    let (mut live, mut most) = (0i32, 0);
    let mut shared = 0i32;
    let mut ends = vec![0i32; run.steps.len() + 1];
    for (at, step) in run.steps.iter().enumerate() {
        if let Step::Compute(id) = *step
            && takes_register(&run.graph.get(id), host)
        {
            if uniform[id.0 as usize] {
                shared += 1;
                continue;
            }
            live += 1;
            ends[last[id.0 as usize].max(at)] += 1;
        }
        most = most.max(live);
        live -= ends[at];
    }
    let mut ways = chunks;
    // Those that are shared come back from memory where there are many.
    let registers = host.vectors() as i32;
    let room = registers - 2 - shared.min(registers / 3);
    // What reaches the other half of 16 lanes, or differs there.
    let across = |step: &Step| match *step {
        Step::Compute(id) => match run.graph.get(id).op {
            Op::Permute => true,
            Op::Table => !uniform[id.0 as usize],
            _ => false,
        },
        _ => false,
    };
    let fewest = match run.steps.iter().any(across) {
        true => 16 / host.lanes(),
        false => 1,
    };
    while ways > fewest
        && (most * ways as i32 > room || run.steps.len() * ways as usize > SIDE_BY_SIDE)
    {
        ways /= 2;
    }
    match waits(run, ways) {
        true => ways.max(WAITING.min(chunks)),
        false => ways,
    }
}

/// How many groups are computed side by side where one behind the other takes as long as the instructions wait for each other.
const WAITING: u32 = 4;
/// Instructions that a host keeps in flight, about: Zen 4 has room for 320, Zen 5 for 448, Golden Cove for 512.
const WINDOW: u32 = 400;
/// Vector instructions that a host begins in a cycle.
const WIDTH: u32 = 3;

/// Whether a run of so many groups side by side waits for its own results: its longest chain of dependent instructions takes
/// more cycles than what the host has in flight meanwhile, of these and of the next groups. Then it pays to compute more groups
/// side by side although registers do not suffice: what is spilled costs less.
fn waits(run: &Run, ways: u32) -> bool {
    let mut ready = vec![0; run.graph.nodes.len()];
    let (mut depth, mut work) = (0, 0);
    for step in &run.steps {
        let Step::Compute(id) = *step else { continue };
        let node = run.graph.get(id);
        let Some(begins) = node.operands().map(|arg| ready[arg.0 as usize]).max() else {
            continue;
        };
        let ends = begins + latency(node.op);
        ready[id.0 as usize] = ends;
        depth = depth.max(ends);
        work += 1;
    }
    WIDTH * depth > (work * ways).max(WINDOW)
}

/// Cycles from the operands of a node to its result, about.
fn latency(op: Op) -> u32 {
    match op {
        Op::DivF | Op::DivD | Op::SqrtF | Op::SqrtD => 14,
        Op::RoundF | Op::RoundD | Op::ScaleF | Op::ScaleD => 8,
        Op::AddF | Op::SubF | Op::MulF | Op::FmaF | Op::AddOdd => 4,
        Op::AddD | Op::MulD | Op::FmaD => 4,
        Op::MinF | Op::MaxF | Op::MinOrB | Op::MaxOrB | Op::MinOrBD => 4,
        Op::CompareF | Op::CompareD | Op::Mul | Op::MulEvenU | Op::MulEvenI => 4,
        Op::FromF16 | Op::ToF16 | Op::FromFD | Op::ToFD => 6,
        Op::FromI | Op::FromU | Op::ToI | Op::ToU => 4,
        Op::FromID | Op::FromUD | Op::ToID | Op::ToUD => 6,
        Op::Permute | Op::Quarters | Op::Narrow | Op::Widen | Op::Concat | Op::HighHalf => 3,
        _ => 1,
    }
}

/// Whether a node's value is in a vector register while it is used.
fn takes_register(node: &Node, host: Host) -> bool {
    match node.op {
        Op::Const | Op::Table => host.spreads_operands(),
        op => !(host.has_masks() && op.is_condition()),
    }
}

/// How often each node is used; stores count twice, as they take nothing but registers.
pub fn uses(run: &Run) -> Vec<u32> {
    let mut uses = vec![0; run.graph.nodes.len()];
    for step in &run.steps {
        match *step {
            Step::Compute(id) => {
                for arg in run.graph.get(id).operands() {
                    uses[arg.0 as usize] += 1;
                }
            }
            Step::StoreRow(_, id) | Step::StoreMask(_, id) => uses[id.0 as usize] += 2,
        }
    }
    uses
}

/// Nodes that a select computes under its mask, over the value that it has otherwise.
pub fn merged(run: &Run, host: Host, uses: &[u32]) -> Vec<bool> {
    let mut merged = vec![false; run.graph.nodes.len()];
    if !host.has_masks() {
        return merged;
    }
    for step in &run.steps {
        let Step::Compute(id) = *step else { continue };
        let node = run.graph.get(id);
        if node.op != Op::Select || node.args[1] == node.args[2] {
            continue;
        }
        let chosen = node.args[1];
        let inner = run.graph.get(chosen);
        let simple = match inner.op {
            Op::Logic => {
                matches!(inner.imm, 0xc0 | 0xfc | 0x3c | 0x0c) && inner.args[2] == Id::NONE
            }
            Op::Add | Op::Sub | Op::AddF | Op::SubF | Op::MulF | Op::MinU | Op::MaxU => true,
            _ => false,
        };
        merged[chosen.0 as usize] = simple && uses[chosen.0 as usize] == 1;
    }
    merged
}

/// Nodes that are loaded by the instruction that uses them, which is the only one.
pub fn folded(
    run: &Run,
    host: Host,
    uses: &[u32],
    merged: &[bool],
    uniform: &[bool],
    ways: u32,
) -> Vec<bool> {
    let stores: HashMap<u32, usize> = run
        .steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match *step {
            Step::StoreRow(key, _) => Some((key, at)),
            _ => None,
        })
        .collect();
    let mut folded = vec![false; run.graph.nodes.len()];
    for (at, step) in run.steps.iter().enumerate() {
        let Step::Compute(id) = *step else { continue };
        let node = run.graph.get(id);
        let Some((operand, spread)) = host.memory_operand(&node) else {
            continue;
        };
        // What is merged is computed later than it stands here.
        if merged[id.0 as usize] {
            continue;
        }
        let arg = node.args[operand];
        let source = run.graph.get(arg);
        let can = match source.op {
            Op::Row => stores.get(&source.imm).is_none_or(|&store| at < store),
            Op::Const | Op::Scalar => spread && (ways == 1 || uniform[id.0 as usize]),
            _ => false,
        };
        folded[arg.0 as usize] = can && uses[arg.0 as usize] == 1;
    }
    folded
}
