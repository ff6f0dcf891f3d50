//! Constants before the code, where its instructions find them.

use std::collections::HashMap;

use rocjitsu_lanes::trace::graph::{Id, Op};

use super::collect::{Run, Step};
use super::host::Host;

/// Constants of a run.
pub struct Pool {
    /// Their bytes: a whole number of 64.
    pub bytes: Vec<u8>,
    at: HashMap<Id, u64>,
}

/// About the most bytes that a run's constants take.
pub fn bound(run: &Run) -> usize {
    64 * run.graph.tables.len() + 32 * run.steps.len()
}

impl Pool {
    /// The constants of a run, at addresses from `address` on.
    pub fn new(run: &Run, host: Host, address: u64) -> Pool {
        let mut pool = Pool {
            bytes: Vec::new(),
            at: HashMap::new(),
        };
        for table in &run.graph.tables {
            pool.bytes
                .extend(table.iter().flat_map(|w| w.to_le_bytes()));
        }
        // Instructions that spread no word from memory are given whole vectors.
        let times = match host.spreads_operands() {
            true => 1,
            false => host.lanes() as usize,
        };
        for step in &run.steps {
            let Step::Compute(id) = *step else { continue };
            let node = run.graph.get(id);
            match node.op {
                Op::Table => {
                    pool.at.insert(id, address + 64 * u64::from(node.imm));
                }
                Op::Const | Op::ConstMask => {
                    pool.at.insert(id, address + pool.bytes.len() as u64);
                    pool.bytes.extend(node.imm.to_le_bytes().repeat(times));
                }
                _ => {}
            }
        }
        pool.bytes
            .resize(pool.bytes.len().next_multiple_of(64), 0xcc);
        pool
    }

    /// The address of a constant.
    pub fn at(&self, id: Id) -> u64 {
        self.at.get(&id).copied().unwrap_or_default()
    }
}
