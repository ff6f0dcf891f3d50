//! Compiled blocks, alone or chained: those of a chain go to each other without the run loop.

use std::sync::Arc;

use rocjitsu_isa::Op;

use super::Pieces;
#[cfg(target_arch = "x86_64")]
use super::flow::{Entry, Frame};
#[cfg(target_arch = "x86_64")]
use super::memory::Region;
use crate::code::Body;
use crate::record::{Flow, Record};
use crate::wave::{Cx, scalar};

/// The most blocks of one function.
pub const MEMBERS: usize = 16;

/// A block in a chain.
pub struct Member {
    /// Its instructions.
    pub body: Arc<Body>,
    /// What they were compiled to.
    pub pieces: Arc<Pieces>,
}

/// What a branch looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing: it is taken.
    Always,
    /// Nothing: it is not.
    Never,
    /// SCC has this value.
    Scc(bool),
    /// The mask at this word is zero, or is not.
    Mask(usize, bool),
}

/// A branch to an address that stands in the instruction.
pub fn branch(record: &Record) -> Option<When> {
    Some(match record.inst.op() {
        Op::s_branch => When::Always,
        Op::s_cbranch_scc0 => When::Scc(false),
        Op::s_cbranch_scc1 => When::Scc(true),
        Op::s_cbranch_vccz => When::Mask(scalar::VCC, true),
        Op::s_cbranch_vccnz => When::Mask(scalar::VCC, false),
        Op::s_cbranch_execz => When::Mask(scalar::EXEC, true),
        Op::s_cbranch_execnz => When::Mask(scalar::EXEC, false),
        Op::s_cbranch_cdbgsys
        | Op::s_cbranch_cdbguser
        | Op::s_cbranch_cdbgsys_or_user
        | Op::s_cbranch_cdbgsys_and_user => When::Never,
        _ => return None,
    })
}

/// Addresses at which execution can go on behind a block, as far as that stands in its code.
fn successors(records: &[Record], end: u64) -> Vec<u64> {
    let Some(last) = records.last() else {
        return Vec::new();
    };
    let to = last.imm as u64;
    match branch(last) {
        Some(When::Always) => vec![to],
        Some(When::Never) => vec![end],
        Some(_) => vec![to, end],
        None if last.ends_block => Vec::new(),
        None => vec![end],
    }
}

impl Member {
    /// Addresses at which execution can go on behind the block, as far as that stands in its code.
    pub fn successors(&self) -> Vec<u64> {
        successors(&self.body.records, self.body.end)
    }
}

/// One function for blocks that go to each other. It begins with the first.
pub struct Chain {
    #[cfg(target_arch = "x86_64")]
    entry: Entry,
    members: Box<[Member]>,
    /// What the code lies in.
    #[cfg(target_arch = "x86_64")]
    _region: Arc<Region>,
}

/// How a function came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// [`Flow::Next`] behind a whole block, with the address of the next one in the wave; else what the record at
    /// `at` of block `member` gave.
    pub flow: Flow,
    /// Which block.
    pub member: usize,
    /// Which record.
    pub at: usize,
}

impl Exit {
    /// What a function returned.
    #[cfg(target_arch = "x86_64")]
    pub fn from(code: u64) -> Exit {
        Exit {
            flow: match code & 0xff {
                0 => Flow::Next,
                1 => Flow::Jump,
                2 => Flow::Wait,
                3 => Flow::Again,
                _ => Flow::Fault,
            },
            member: (code >> 8 & 0xff) as usize,
            at: (code >> 16) as usize,
        }
    }
}

/// How a chain came back.
pub struct Left {
    /// See [`Exit`].
    pub exit: Exit,
    /// How often each block was begun.
    pub turns: [u64; MEMBERS],
}

impl Chain {
    /// The function at `entry`, which is of these members and lies in `region`.
    ///
    /// # Safety
    /// It is what [`super::flow::emit`] gave for them.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn new(entry: Entry, members: Box<[Member]>, region: Arc<Region>) -> Chain {
        Chain {
            entry,
            members,
            _region: region,
        }
    }

    /// The blocks.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Executes blocks from the first one on, one after the other, until one goes elsewhere or no instructions are
    /// `left`, from which each block that was executed to its end takes its number.
    ///
    /// # Safety
    /// The wave is at the first block, in the state that it was decoded under, and the host has what code was
    /// compiled for.
    ///
    /// # Panics
    /// If a handler does.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub unsafe fn run(&self, cx: &mut Cx<'_, '_>, left: &mut i64) -> Left {
        let (wave, unit) = (&mut *cx.wave, &mut *cx.unit);
        let mut frame = Frame {
            wave,
            area: &raw mut unit.temp.area,
            cx: std::ptr::null_mut(),
            left: *left,
            turns: [0; MEMBERS],
        };
        frame.cx = std::ptr::from_mut(cx).cast();
        // SAFETY: the code reaches the state of the wave and its registers, for which it makes pages, and calls handlers of
        // its own records with the context; it keeps to the calling convention.
        let code = unsafe { (self.entry)(&raw mut frame) };
        *left = frame.left;
        let exit = Exit::from(code);
        if exit.flow == Flow::Fault
            && let Some(panic) = cx.unit.panic.take()
        {
            std::panic::resume_unwind(panic);
        }
        Left {
            exit,
            turns: frame.turns,
        }
    }

    /// There are no chains on other hosts.
    ///
    /// # Safety
    /// None needed; the other hosts' ask for it.
    #[cfg(not(target_arch = "x86_64"))]
    pub unsafe fn run(&self, _: &mut Cx<'_, '_>, _: &mut i64) -> Left {
        unreachable!("nothing is compiled for this host")
    }
}
