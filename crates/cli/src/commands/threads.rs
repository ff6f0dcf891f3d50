//! `rocjitsu thread-budget-table`: how the thread keys of a configuration come to a number of threads.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use rocjitsu_config::ThreadTable;

use super::Status;
use super::gpu::{read_config, show_warnings};
use crate::output::{HEAD, Output, styled};

/// Arguments of `thread-budget-table`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the table of a file, and which row counts on this host.
///
/// # Errors
///
/// A file that is no valid configuration; those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let config = read_config(&args.config)?;
    show_warnings(&args.config, &config);
    let table = config.thread_table();
    if args.json {
        out.json(&table)?;
    } else {
        write(&table, out)?;
    }
    Ok(Status::Good)
}

fn write(table: &ThreadTable, out: &mut impl Write) -> Result<()> {
    let plural = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (threads, gpus) = (plural(table.budget, "thread"), plural(table.gpus, "GPU"));
    writeln!(out, "budget {threads}, {gpus}")?;
    let head = format!(
        "  {:>11}  {:>20}  {:>20}  {:>5}",
        "num_threads", "cpu_dispatch_threads", "async_helper_threads", "cost"
    );
    writeln!(out, "{}", styled(HEAD, head))?;
    for (i, row) in table.rows.iter().enumerate() {
        let (mark, note) = match (i == table.chosen, row.fits) {
            (true, _) => ("*", ""),
            (false, true) => (" ", ""),
            (false, false) => (" ", "  too many"),
        };
        writeln!(
            out,
            "{mark} {:>11}  {:>20}  {:>20}  {:>5}{note}",
            row.engines, row.dispatch, row.helpers, row.cost
        )?;
    }
    write!(out, "{} work on waves", plural(table.threads, "thread"))?;
    match table.helpers {
        0 => writeln!(out)?,
        n => {
            let them = if n == 1 { "takes" } else { "take" };
            writeln!(out, ", {} {them} matrix instructions", plural(n, "helper"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_config::Config;

    #[test]
    fn the_row_that_counts_is_marked() {
        let text = r#"{"gpu": "mi300x", "num_gpus": 2, "cpu_thread_budget": 6, "thread_allocations": [
            {"num_threads": 1, "cpu_dispatch_threads": 2}, {"num_threads": 2, "cpu_dispatch_threads": 3},
            {"num_threads": 2, "cpu_dispatch_threads": 3, "async_helper_threads": 1}]}"#;
        let config = Config::parse(text, "x.json".as_ref()).unwrap();
        assert_eq!(config.options.threads, Some(6));
        let mut out = Vec::new();
        write(&config.thread_table(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines[0], "budget 6 threads, 2 GPUs");
        assert!(
            lines[2].ends_with("    3") && lines[2].starts_with("  "),
            "{out}"
        );
        assert!(
            lines[3].starts_with("* ") && lines[3].ends_with("    6"),
            "{out}"
        );
        assert!(lines[4].ends_with("    7  too many"), "{out}");
        assert_eq!(lines[5], "6 threads work on waves");
    }
}
