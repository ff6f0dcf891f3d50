//! The `rocjitsu` command. Exit status: 0 done, 1 failed, 2 wrong usage.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocjitsu_cli::cli::main()
}
