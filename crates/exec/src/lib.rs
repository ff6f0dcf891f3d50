//! One wave: its registers, the semantics of its instructions, its run loop.
//!
//! A wave's code is decoded block by block ([`code`]) into [`record::Record`]s, whose operands are
//! resolved and whose handler is chosen for the target, back end and mode; [`run`] executes them.
//! Blocks that execute often are compiled in part ([`jit`]).
//! Each family of instructions has a module with a `lower` function and its handlers.

pub mod barrier;
pub mod clock;
pub mod code;
pub mod control;
pub mod error;
pub mod families;
pub mod forms;
pub mod gws;
pub mod helpers;
pub mod jit;
pub mod lds;
pub mod lower;
pub mod matrix;
pub mod memory;
pub mod order;
pub mod record;
pub mod refusal;
pub mod registers;
pub mod run;
pub mod salu;
pub mod smem;
pub mod step;
pub mod target;
pub mod valu;
pub mod vmem;
pub mod watch;
pub mod wave;
