//! Blocks that are loops by themselves: in all turns but the last, registers that the next turn overwrites before it
//! reads them are not stored.

use super::Piece;
use super::chain::{When, branch};
use super::collect::{Run, collect};
use super::flow;
use super::order::{Touched, touched};
use crate::record::{Class, Record};
use crate::wave::scalar;

/// The run that a loop executes in all turns but the last, instead of the only run in `list`, if the block is one and
/// there is something to be left out. Then everything else in the block can be done before the run: it is known by
/// then whether there is another turn.
pub fn inner(records: &[Record], list: &[Piece], lanes: u32) -> Option<Run> {
    let (first, last) = (records.first()?, records.last()?);
    let when = branch(last)?;
    if last.imm as u64 != first.pc || matches!(when, When::Always | When::Never) {
        return None;
    }
    let is_run = |piece: &Piece| matches!(piece, Piece::Code(_));
    let at = list.iter().position(is_run)?;
    let behind = &list[at + 1..];
    let other = |piece: &Piece| match piece {
        Piece::Record(n) => flow::knows(&records[*n]),
        Piece::Code(_) => false,
    };
    if !list[..at].iter().chain(behind).all(other) {
        return None;
    }
    // All turns are of the same lanes.
    let mut exec = Touched::default();
    exec.reads.insert(scalar::EXEC..scalar::EXEC + 2);
    let writes_exec = |record: &Record| {
        record.class == Class::Salu
            && touched(record, lanes).is_none_or(|words| words.writes.meets(exec.reads))
    };
    if records.iter().any(writes_exec) {
        return None;
    }
    let from = records.iter().position(|r| r.class == Class::Valu)?;
    let mut found = collect(&records[from..], lanes);
    let apart = |piece: &Piece| {
        let Piece::Record(n) = *piece else {
            return false;
        };
        let words = match when {
            When::Mask(mask, _) if n + 1 == records.len() => {
                let mut words = Touched::default();
                words.reads.insert(mask..mask + lanes as usize / 32);
                Some(words)
            }
            _ if n + 1 == records.len() => Some(Touched::default()),
            _ => touched(&records[n], lanes),
        };
        words.is_some_and(|words| found.order.is_apart(&words))
    };
    let free =
        found.order.after.is_empty() && found.order.is_apart(&exec) && behind.iter().all(apart);
    (free && found.run.drop_overwritten()).then_some(found.run)
}
