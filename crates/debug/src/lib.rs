//! Dispatches under a debugger that speaks GDB's remote protocol: waves are its threads.
//! `registers` numbers and describes registers, `debugger` has the dispatch and moves it, `memory` knows the address spaces,
//! `monitor` the commands beyond the protocol, `protocol` answers packets, `connection` carries them, `packets` has a look at
//! them before.
//!
//! Under a program's queues dispatches come by themselves: `gate` is where they meet the debugger, `session` the thread that
//! talks with the client, `program` what is known of them, `aside` keeps descriptors out of the program's way.
#![forbid(unsafe_code)]

pub mod aside;
pub mod connection;
pub mod debugger;
mod gate;
mod memory;
mod monitor;
mod packets;
mod program;
mod protocol;
pub mod registers;
mod session;

pub use connection::{Address, Listener, Remote};
pub use debugger::{Debugger, Facts, Runner};
pub use gate::{Gate, Wish};
pub use protocol::{Left, serve};
