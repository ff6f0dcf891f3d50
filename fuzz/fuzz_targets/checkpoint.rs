//! Bytes as a checkpoint, and as the state in one whose digest is right: `cargo +nightly fuzz run checkpoint`.
//! Whatever they are, reading them ends, and what is read runs for a while or stops with an error.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use rocjitsu_cli::session::{Instead, Session, Until, forge};

fuzz_target!(|data: &[u8]| {
    let _ = Session::read(Cursor::new(data), Instead::default());
    let sealed = forge(data, &[]).expect("memory takes any bytes");
    if let Ok(mut session) = Session::read(Cursor::new(sealed), Instead::default()) {
        let until = session.instructions().saturating_add(300);
        let _ = session.go(Until::Instruction(until), true, None);
    }
});
