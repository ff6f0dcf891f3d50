//! Where plugins write: lines of text to the standard streams, a file, or memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A place for lines.
#[derive(Clone)]
pub enum Sink {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file; clones share it.
    File(Arc<Mutex<BufWriter<File>>>),
    /// Memory, for tests and embedding programs.
    Memory(Arc<Mutex<Vec<u8>>>),
}

impl Sink {
    /// A new file.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn file(path: &Path) -> io::Result<Sink> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Sink::File(Arc::new(Mutex::new(file))))
    }

    /// Memory, and a handle to read it by.
    pub fn memory() -> (Sink, Arc<Mutex<Vec<u8>>>) {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        (Sink::Memory(bytes.clone()), bytes)
    }

    /// Writes text as it is.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let bytes = text.as_bytes();
        match self {
            Sink::Stderr => io::stderr().lock().write_all(bytes),
            Sink::Stdout => io::stdout().lock().write_all(bytes),
            Sink::File(file) => locked(file).write_all(bytes),
            Sink::Memory(memory) => locked(memory).write_all(bytes),
        }
    }

    /// Makes sure that all is written.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush(&self) -> io::Result<()> {
        match self {
            Sink::Stderr => io::stderr().lock().flush(),
            Sink::Stdout => io::stdout().lock().flush(),
            Sink::File(file) => locked(file).flush(),
            Sink::Memory(_) => Ok(()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sinks that all get the same lines.
#[derive(Clone)]
pub struct Lines(Vec<Sink>);

impl Lines {
    /// Lines to these places.
    pub fn new(sinks: Vec<Sink>) -> Lines {
        Lines(sinks)
    }

    /// Writes a line, without its end.
    ///
    /// # Errors
    /// Those of writing, in words.
    pub fn line(&self, text: &str) -> Result<(), String> {
        self.text(&format!("{text}\n"))
    }

    /// Writes text as it is.
    ///
    /// # Errors
    /// Those of writing, in words.
    pub fn text(&self, text: &str) -> Result<(), String> {
        let write = |sink: &Sink| sink.write(text).map_err(|e| format!("cannot write: {e}"));
        self.0.iter().try_for_each(write)
    }

    /// Makes sure that all is written.
    ///
    /// # Errors
    /// Those of writing, in words.
    pub fn flush(&self) -> Result<(), String> {
        let flush = |sink: &Sink| sink.flush().map_err(|e| format!("cannot write: {e}"));
        self.0.iter().try_for_each(flush)
    }
}
