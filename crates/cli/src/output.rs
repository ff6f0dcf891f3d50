//! Where output goes: standard output with colour if it is a terminal (and NO_COLOR is not set),
//! progress on a terminal only. A reader that has gone away is no error.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Style of what went well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of what went wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of headings.
pub const HEAD: Style = Style::new().bold();
/// Style of secondary matter.
pub const DIM: Style = Style::new().dimmed();

/// Says something on standard error, where it does not mix with a program's output.
pub fn warn(what: &dyn std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "rocjitsu: {what}");
}

/// Writes whole lines to standard error, as they are. Where that fails there is nobody to be told.
pub fn lines(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A command's output.
pub struct Output {
    stream: io::BufWriter<anstream::AutoStream<io::StdoutLock<'static>>>,
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Output {
            stream: io::BufWriter::new(anstream::AutoStream::auto(io::stdout().lock())),
        }
    }

    /// Writes a value as indented JSON and a line feed.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer_pretty(&mut self.stream, value).map_err(io::Error::from)?;
        writeln!(self.stream)?;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Text in a style; plain where the output is not a terminal.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Says on standard error why a command fails.
pub fn failure(error: &anyhow::Error) {
    let _ = writeln!(
        anstream::stderr(),
        "{} {}",
        styled(BAD, "error:"),
        chain(error)
    );
}

/// An error and its causes in one text. A cause that the text before it ends with already is left
/// out: some errors show their source themselves.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether an error is only that the reader of the output has gone away.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

/// A progress bar over `total` workgroups on standard error, invisible unless that is a terminal.
pub fn progress(total: u64, quiet: bool) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
    match ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        Ok(style) => bar.with_style(style).with_message("workgroups"),
        Err(_) => bar,
    }
}

/// A number of bytes with a binary unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = count as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = next;
    }
    if unit == "bytes" {
        format!("{count} bytes")
    } else {
        format!("{size:.1} {unit}")
    }
}

/// A count with a decimal prefix, such as `3.4 M`.
pub fn count(value: f64) -> String {
    for (factor, prefix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= factor {
            return format!("{:.1} {prefix}", value / factor);
        }
    }
    format!("{value:.0}")
}

/// Largest resident set of this process so far, in bytes; `None` where the system does not say.
pub fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(
            (bytes(1023), bytes(1536)),
            ("1023 bytes".to_owned(), "1.5 KiB".to_owned())
        );
        assert_eq!(
            (count(999.0), count(3_400_000.0)),
            ("999".to_owned(), "3.4 M".to_owned())
        );
        assert!(peak_resident_bytes().is_none_or(|bytes| bytes > 1 << 16));
    }

    #[test]
    fn a_cause_that_is_part_of_the_text_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Outer(#[source] io::Error);
        let error = anyhow::Error::from(Outer(io::Error::other("inner"))).context("file");
        assert_eq!(chain(&error), "file: outer: inner");
        let error = anyhow::anyhow!("inner").context("outer");
        assert_eq!(chain(&error), "outer: inner");
    }

    #[test]
    fn a_broken_pipe_is_recognised_through_contexts() {
        let error =
            anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(is_broken_pipe(&error) && !is_broken_pipe(&anyhow::anyhow!("else")));
    }
}
