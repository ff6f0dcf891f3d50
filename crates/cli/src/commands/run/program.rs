//! The program to run: found as a shell finds it, and looked at before it starts, since a library can only be
//! loaded into a dynamically linked program that runs with its caller's rights.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Why there is nothing to run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Nothing has this name.
    #[error("{}: not found", .0.display())]
    NotFound(OsString),
    /// It cannot be executed.
    #[error("{}: {}", .0.display(), .1)]
    NotExecutable(OsString, &'static str),
}

impl Missing {
    /// The status that a shell gives.
    pub fn status(&self) -> u8 {
        match self {
            Missing::NotFound(_) => 127,
            Missing::NotExecutable(..) => 126,
        }
    }
}

/// Where the host has a path as the program sees it; `None` if it has nothing there.
pub type View<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// The view of a program that sees what the host sees.
pub fn plain(path: &Path) -> Option<PathBuf> {
    Some(path.to_owned())
}

/// A program that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path, as the program itself sees it.
    pub path: PathBuf,
    /// Where the host has it.
    pub host: PathBuf,
}

/// The folders that a shell would search.
pub fn search() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Finds a program: a name with a slash is a path, any other is searched for in the folders of `search`.
///
/// # Errors
///
/// [`Missing`].
pub fn find(name: &OsStr, search: &OsStr, view: View<'_>) -> Result<Program, Missing> {
    let paths: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else if name.is_empty() {
        Vec::new()
    } else {
        std::env::split_paths(search)
            .map(|folder| folder.join(name))
            .collect()
    };
    let mut reason = Missing::NotFound(name.to_owned());
    for path in paths {
        let Some(host) = view(&path) else { continue };
        match host.metadata() {
            Err(_) => {}
            Ok(data) if data.is_dir() => {
                if name.as_bytes().contains(&b'/') {
                    reason = Missing::NotExecutable(name.to_owned(), "is a directory");
                }
            }
            Ok(data) if data.mode() & 0o111 == 0 => {
                reason = Missing::NotExecutable(name.to_owned(), "permission denied");
            }
            Ok(_) => return Ok(Program { path, host }),
        }
    }
    Err(reason)
}

/// What the first bytes of a program say.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// Loads libraries.
    Dynamic,
    /// Does not.
    Static,
    /// For another machine.
    Foreign,
    /// A script, which another program interprets.
    Script(PathBuf),
    /// Something that the kernel may know.
    Unknown,
}

/// Refuses programs into which no library can be loaded.
///
/// # Errors
///
/// The program is statically linked, for another machine, or runs with the rights of its file's owner.
pub fn check(program: &Program, view: View<'_>) -> Result<()> {
    let mut path = program.host.clone();
    // A script's interpreter may be a script; the kernel follows five.
    for _ in 0..5 {
        let shown = path.display();
        let mut file = File::open(&path).with_context(|| format!("cannot read {shown}"))?;
        let data = file.metadata()?;
        let form = form(&mut file).with_context(|| format!("cannot read {shown}"))?;
        match form {
            Form::Static => bail!(
                "{shown} is statically linked, so the simulated driver cannot be loaded into it; link it dynamically"
            ),
            Form::Foreign => bail!(
                "{shown} is not a 64-bit program for {}, so the simulated driver cannot be loaded into it",
                std::env::consts::ARCH
            ),
            Form::Dynamic if gains_rights(&data) => bail!(
                "{shown} runs with the rights of its owner or group (set-user-ID), so the system loads no library \
                 into it; run it as that user, or a copy without the bit"
            ),
            Form::Script(interpreter) => match view(&interpreter) {
                Some(host) => path = host,
                None => bail!(
                    "{shown} needs {}, which is not there",
                    interpreter.display()
                ),
            },
            Form::Dynamic | Form::Unknown => return Ok(()),
        }
    }
    Ok(())
}

/// Whether running the file changes the user or group.
fn gains_rights(data: &std::fs::Metadata) -> bool {
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let set_user = data.mode() & libc::S_ISUID != 0 && data.uid() != user;
    let set_group = data.mode() & libc::S_ISGID != 0 && data.gid() != group;
    set_user || set_group
}

/// `e_machine` of programs for this machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};
const PT_INTERP: u32 = 3;

fn form(file: &mut (impl Read + Seek)) -> io::Result<Form> {
    let mut head = Vec::new();
    file.take(256).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let name: Vec<u8> = line
            .trim_ascii()
            .iter()
            .copied()
            .take_while(|byte| !byte.is_ascii_whitespace())
            .collect();
        return Ok(Form::Script(PathBuf::from(OsString::from_vec(name))));
    }
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        return Ok(Form::Unknown);
    }
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    // ELFCLASS64, ELFDATA2LSB.
    if head[4] != 2 || head[5] != 1 || u16_at(18) != MACHINE {
        return Ok(Form::Foreign);
    }
    let offset = u64::from_le_bytes(std::array::from_fn(|i| head[32 + i]));
    let (size, count) = (u16_at(54), u16_at(56));
    let mut table = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(u64::from(size) * u64::from(count))
        .read_to_end(&mut table)?;
    let dynamic = size >= 4
        && table
            .chunks_exact(size.into())
            .any(|row| u32::from_le_bytes([row[0], row[1], row[2], row[3]]) == PT_INTERP);
    Ok(if dynamic { Form::Dynamic } else { Form::Static })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let find = |name: &str| {
            let search = OsStr::new("/nowhere:/bin:/etc");
            super::find(OsStr::new(name), search, &plain).map(|program| program.host)
        };
        assert_eq!(find("sh"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(find("/bin/sh"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(find("no-such-program").unwrap_err().status(), 127);
        assert_eq!(find("/nowhere/x").unwrap_err().status(), 127);
        assert_eq!(find("").unwrap_err().status(), 127);
        assert_eq!(
            find("os-release").unwrap_err().status(),
            126,
            "a file without the right to execute"
        );
        assert_eq!(
            find("/etc").unwrap_err().to_string(),
            "/etc: is a directory"
        );
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        let mut own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(form(&mut own).unwrap(), Form::Dynamic);
        let mut bytes = Vec::new();
        own.rewind().unwrap();
        own.read_to_end(&mut bytes).unwrap();
        let offset = u64::from_le_bytes(std::array::from_fn(|i| bytes[32 + i])) as usize;
        let count = u16::from_le_bytes([bytes[56], bytes[57]]);
        for row in 0..usize::from(count) {
            let at = offset + 56 * row;
            if bytes[at] == 3 {
                bytes[at] = 0;
            }
        }
        assert_eq!(form(&mut Cursor::new(&bytes)).unwrap(), Form::Static);
        bytes[18] = 40;
        assert_eq!(form(&mut Cursor::new(&bytes)).unwrap(), Form::Foreign);
        // A damaged program is the kernel's to refuse.
        bytes.truncate(40);
        assert_eq!(form(&mut Cursor::new(&bytes)).unwrap(), Form::Unknown);
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let script = |text: &str| form(&mut Cursor::new(text.as_bytes())).unwrap();
        assert_eq!(
            script("#! /bin/sh -e\necho"),
            Form::Script("/bin/sh".into())
        );
        assert_eq!(script(""), Form::Unknown);
    }
}
