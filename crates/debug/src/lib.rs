//! Dispatches under a debugger that speaks GDB's remote protocol: waves are its threads.
//! `registers` numbers and describes registers, `debugger` has the dispatch and moves it, `memory` knows the address spaces,
//! `monitor` the commands beyond the protocol, `protocol` answers packets, `connection` carries them.
#![forbid(unsafe_code)]

pub mod connection;
pub mod debugger;
mod memory;
mod monitor;
mod protocol;
pub mod registers;

pub use connection::{Address, Listener, Remote};
pub use debugger::Debugger;
pub use protocol::{Left, serve};
