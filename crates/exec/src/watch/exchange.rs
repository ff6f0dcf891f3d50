//! Whose value each lane gets where an instruction moves values between lanes.

use rocjitsu_observe::Source;

use crate::record::Record;
use crate::wave::Cx;
use crate::{lds, valu};

/// Whose value of the first vector source each lane gets, of an instruction that is about to execute. `None`: lanes keep to
/// themselves, or the instruction exchanges values in another way.
pub fn of(cx: &Cx<'_, '_>, record: &Record) -> Option<[Source; 64]> {
    if let Some(found) = valu::cross::exchange(cx, record) {
        return Some(found);
    }
    // Each lane's value is its number plus one; what comes from nobody is zero.
    let mut row: [u32; 64] = std::array::from_fn(|lane| lane as u32 + 1);
    match record.valu.as_ref().and_then(|details| details.dpp) {
        // Where a lane has no source and keeps its result it does not write.
        Some(dpp) => {
            dpp.permute(&mut row[..cx.wave.lanes as usize], cx.wave.exec());
        }
        None => row = lds::cross::exchanged(cx, record, &row)?,
    }
    Some(row.map(|number| match number {
        0 => Source::None,
        number => Source::Lane(number as u8 - 1),
    }))
}
