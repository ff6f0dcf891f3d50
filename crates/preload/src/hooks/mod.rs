//! The functions that the program gets instead of the C library's, one file a family. Each first asks, cheaply,
//! whether the path or descriptor may be ours, and otherwise calls the C library's function with what it was given.
//!
//! Variadic functions (`open`, `ioctl`, `fcntl`, `mremap`) are defined with the argument that may follow as a fixed one:
//! in the calling conventions of x86-64 and AArch64 Linux, an integer argument lies in the same register either way, and
//! one that the caller did not pass is never used, only handed on.

mod attribute;
mod data;
mod descriptor;
mod directory;
mod exit;
mod file;
mod link;
mod memory;
mod open;
mod signal;
mod stat;
mod thread;
