//! The `rocjitsu` command.

fn main() {}
