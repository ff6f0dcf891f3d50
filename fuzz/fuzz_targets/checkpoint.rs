//! Bytes as a checkpoint, and as the state and the pages in one whose digest is right: `cargo +nightly fuzz run checkpoint`.
//! Whatever they are, reading them ends, and what is read runs for a while or stops with an error.
//!
//! The first byte says how many pages stand at the end, each behind its numbers as in a file; what is between is the state. So
//! the stream of a checkpoint behind one byte is a seed (`zstd -d` of all behind the first 96 bytes).
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use rocjitsu_cli::session::{Instead, Session, Until, forge};

/// Number of the allocation, number of the page in it, the page.
const PAGE: usize = 4 + 8 + 4096;

fuzz_target!(|data: &[u8]| {
    let _ = Session::read(Cursor::new(data), Instead::default());
    let Some((&count, mut state)) = data.split_first() else {
        return;
    };
    let mut pages = Vec::new();
    for _ in 0..count {
        let Some((rest, page)) = state.split_last_chunk::<PAGE>() else {
            break;
        };
        let run = u32::from_le_bytes(page[..4].try_into().expect("four bytes"));
        let number = u64::from_le_bytes(page[4..12].try_into().expect("eight bytes"));
        let bytes = page[12..].try_into().expect("the rest is a page");
        pages.push((run, number, bytes));
        state = rest;
    }
    pages.reverse();
    let sealed = forge(state, &pages).expect("memory takes any bytes");
    if let Ok(mut session) = Session::read(Cursor::new(sealed), Instead::default()) {
        let until = session.instructions().saturating_add(300);
        let _ = session.go(Until::Instruction(until), true, None);
    }
});
