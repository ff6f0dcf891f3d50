//! Where plugins write: lines of text to the standard streams, a file, or memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
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
    File(Arc<Mutex<Whole>>),
    /// Memory, for tests and embedding programs.
    Memory(Arc<Mutex<Vec<u8>>>),
}

impl Sink {
    /// A new file.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn file(path: &Path) -> io::Result<Sink> {
        Ok(Sink::of(File::create(path)?))
    }

    /// The end of a file, which other processes may write to as well.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn appending(path: &Path) -> io::Result<Sink> {
        let mut options = OpenOptions::new();
        Ok(Sink::of(options.append(true).create(true).open(path)?))
    }

    fn of(file: File) -> Sink {
        let held = Vec::new();
        Sink::File(Arc::new(Mutex::new(Whole { file, held })))
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
            Sink::File(file) => locked(file).write(bytes),
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

/// A file that is written in pieces of whole texts: what several processes append to one file does not mix within a line.
#[derive(Debug)]
pub struct Whole {
    file: File,
    held: Vec<u8>,
}

impl Whole {
    /// Bytes that are held back.
    const ROOM: usize = 1 << 16;

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.held.len() + text.len() > Whole::ROOM {
            self.flush()?;
        }
        self.held.extend_from_slice(text);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Texts that could not be written are gone: once more would not be whole.
        let held = std::mem::take(&mut self.held);
        self.file.write_all(&held)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // Whoever wants to know of errors flushes.
        let _ = self.flush();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two that append to one file, as processes do: all lines are there, each in one piece.
    #[test]
    fn lines_of_several_writers_stay_whole() {
        let path = std::env::temp_dir().join(format!("rocjitsu-whole-{}", std::process::id()));
        let lines = |name: char, count: usize| {
            let sink = Sink::appending(&path).expect("opened");
            for n in 0..count {
                let text = name.to_string().repeat(n % 300 + 1);
                sink.write(&format!("{text}\n")).expect("written");
            }
            sink.flush().expect("flushed");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| lines('a', 3000));
            scope.spawn(|| lines('b', 3000));
        });
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text.lines().count(), 6000);
        for line in text.lines() {
            assert!(!(line.contains('a') && line.contains('b')), "{line}");
        }
        // One of its own begins again.
        drop(Sink::file(&path).expect("made"));
        assert_eq!(std::fs::read(&path).expect("read"), b"");
        std::fs::remove_file(&path).expect("removed");
    }
}
