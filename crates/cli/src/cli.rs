//! The command line: its grammar, and what becomes of results and errors.

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{self, Status};
use crate::output::{Output, chain, failure, is_broken_pipe};

/// Run the machine code of AMD GPU kernels on the CPU.
#[derive(Debug, Parser)]
#[command(
    name = "rocjitsu",
    version,
    propagate_version = true,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    override_usage = "rocjitsu COMMAND ...\n       rocjitsu [OPTIONS] -- PROGRAM [ARGUMENTS]"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: commands::run::ShortArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program with simulated GPUs
    Run(commands::run::Args),
    /// Run one kernel: from a launch description (.json) or from a code object with arguments
    Launch(commands::launch::Args),
    /// Go on with a launch that was kept in a checkpoint
    Resume(commands::resume::Args),
    /// Show what is in a code object: targets, kernels, arguments, segments
    Info(commands::info::Args),
    /// Run a small kernel that comes with the program and draw its result
    Demo(commands::demo::Args),
    /// Disassemble a code object, or instructions given in hexadecimal
    Disasm(commands::disasm::Args),
    /// Make a page of what commands and plugins have recorded
    Report(commands::report::Args),
    /// Show which instructions are implemented
    Coverage(commands::coverage::Args),
    /// Show or check the configuration of the simulated GPU
    Config(commands::config::Args),
    /// Show how the thread keys of a configuration are resolved, without building a GPU
    ThreadBudgetTable(commands::threads::Args),
    /// Check whether programs can run here, and say what to do if not
    Doctor(commands::doctor::Args),
    /// Print a completion script for a shell
    Completions(commands::completions::Args),
}

/// A mistake in the usage that the grammar alone does not catch. Ends with status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// A better error than that of an unexpected argument where the first word is no command: beside the form without a
/// command the grammar cannot tell.
fn unknown_command(error: &clap::Error) -> Option<clap::Error> {
    let word = std::env::args().nth(1)?;
    let command = Cli::command();
    let known = command.get_subcommands().any(|sub| sub.get_name() == word);
    (error.kind() == ErrorKind::UnknownArgument && !known && !word.starts_with('-')).then(|| {
        Cli::command().error(
            ErrorKind::InvalidSubcommand,
            format!("unrecognized subcommand '{word}'"),
        )
    })
}

/// Parses the command line, runs the command, reports.
pub fn main() -> ExitCode {
    let parsed = Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let error = unknown_command(&error).unwrap_or(error);
            // A reader of the help text that has gone away is no error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let Some(command) = cli.command.or_else(|| cli.run.program().map(Command::Run)) else {
        let _ = Cli::command()
            .error(
                ErrorKind::MissingSubcommand,
                "a command, or -- and a program, is needed",
            )
            .print();
        return ExitCode::from(2);
    };
    let mut out = Output::new();
    let result = run(&command, &mut out).and_then(|status| {
        out.flush()?;
        Ok(status)
    });
    match result {
        Ok(Status::Good) => ExitCode::SUCCESS,
        Ok(Status::Bad) => ExitCode::from(1),
        Ok(Status::Exit(status)) => ExitCode::from(status),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if error.is::<UsageError>() {
                let _ = out.flush();
                // Without a command it is the short form of `run`.
                let name = matches.subcommand_name().unwrap_or("run");
                let mut command = Cli::command();
                command.build();
                let (kind, text) = (ErrorKind::ValueValidation, chain(&error));
                let error = match command.find_subcommand_mut(name) {
                    Some(subcommand) => subcommand.error(kind, text),
                    None => command.error(kind, text),
                };
                let _ = error.print();
                return ExitCode::from(2);
            }
            let _ = out.flush();
            failure(&error);
            ExitCode::from(1)
        }
    }
}

fn run(command: &Command, out: &mut Output) -> anyhow::Result<Status> {
    match command {
        Command::Run(args) => commands::run::run(args, out),
        Command::Launch(args) => commands::launch::run(args, out),
        Command::Resume(args) => commands::resume::run(args, out),
        Command::Info(args) => commands::info::run(args, out),
        Command::Demo(args) => commands::demo::run(args, out),
        Command::Disasm(args) => commands::disasm::run(args, out),
        Command::Report(args) => commands::report::run(args, out),
        Command::Coverage(args) => commands::coverage::run(args, out),
        Command::Config(args) => commands::config::run(args, out),
        Command::ThreadBudgetTable(args) => commands::threads::run(args, out),
        Command::Doctor(args) => commands::doctor::run(args, out),
        Command::Completions(args) => commands::completions::run(args, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }
}
