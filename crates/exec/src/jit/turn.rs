//! Blocks that are loops by themselves: in all turns but the last, registers that the next turn overwrites before it
//! reads them are not stored.

use super::Piece;
use super::chain::{When, branch};
use super::collect::{Run, Supports, collect};
use super::flow;
use super::order::{Touched, touched};
use crate::record::{Class, Record};
use crate::wave::scalar;

/// The run that a loop executes in all turns but the last, instead of the only run in `list`, if the block is one and
/// there is something to be left out. Then everything else in the block can be done before the run: it is known by
/// then whether there is another turn.
pub fn inner(
    records: &[Record],
    list: &[Piece],
    lanes: u32,
    supports: Supports<'_>,
) -> Option<Run> {
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
        Piece::Code(_) | Piece::Products(_) => false,
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
    let mut found = collect(&records[from..], lanes, supports);
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

#[cfg(test)]
mod tests {
    use rocjitsu_isa::{Target, decode};
    use rocjitsu_lanes::Backend;

    use crate::jit::{Jit, Options};
    use crate::lower::{Lowering, State, lower};
    use crate::wave::Wave;

    /// v_add_u32 of registers (gfx9).
    fn add(to: u32, a: u32, b: u32) -> u32 {
        0x6800_0000 | to << 17 | b << 9 | 256 | a
    }

    /// Whether turns of these instructions, behind which the last one goes back, leave something out.
    fn leaves_out(jit: &Jit, body: &[u32], branch: u32) -> bool {
        const COUNT: [u32; 2] = [0x8086_8106, 0xbf07_8006];
        let back = (body.len() as u16 + 3).wrapping_neg();
        let words = [body, &COUNT, &[branch | u32::from(back)]].concat();
        let target = Target::Gfx942;
        let state = State::of(&Wave::new(64));
        let mut lowering = Lowering::new(target, Backend::Avx512, state);
        let mut at = 0x1000;
        let record = |word: u32| {
            let inst = decode(target, target.execution_set(64), &word.to_le_bytes()).unwrap();
            let record = lower(inst, at, &mut lowering);
            at = record.next_pc;
            record
        };
        let records: Vec<_> = words.into_iter().map(record).collect();
        jit.pieces(&records, 64).inner.is_some()
    }

    #[test]
    fn only_what_the_same_lanes_overwrite_is_left_out() {
        let Ok(jit) = Jit::new(Backend::Avx512, Options::default()) else {
            return;
        };
        const IF_SCC: u32 = 0xbf85_0000;
        const IF_VCC: u32 = 0xbf87_0000;
        const SETS_VCC: u32 = 0x7d88_0300; // v_cmp_gt_i32 vcc, v0, v1
        const SETS_EXEC: u32 = 0xbefe_0102; // s_mov_b64 exec, s[2:3]
        const READS_VCC: u32 = 0x8784_6a04; // s_or_b64 s[4:5], s[4:5], vcc
        let (sum, twice) = (add(1, 1, 0), add(2, 1, 1));
        for (body, branch, want) in [
            (&[sum, twice][..], IF_SCC, true),
            (&[sum, sum], IF_SCC, false),
            (&[twice, add(1, 2, 1)], IF_SCC, true),
            (&[sum, add(2, 2, 1)], IF_SCC, false),
            (&[sum, twice, SETS_VCC], IF_SCC, true),
            (&[sum, twice, SETS_VCC], IF_VCC, false),
            (&[sum, twice], IF_VCC, true),
            (&[sum, twice, SETS_VCC, READS_VCC], IF_SCC, false),
            (&[sum, twice, SETS_EXEC], IF_SCC, false),
            (&[SETS_EXEC, sum, twice], IF_SCC, false),
        ] {
            assert_eq!(leaves_out(&jit, body, branch), want, "{body:x?} {branch:x}");
        }
    }
}
