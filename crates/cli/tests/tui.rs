//! `rocjitsu launch --tui` on a pseudo terminal: what it draws, its keys, and the terminal afterwards.
#![allow(
    unsafe_code,
    reason = "a session with a controlling terminal is made between fork and exec"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// A command on a terminal of 100 by 30.
struct Terminal {
    ours: File,
    theirs: OwnedFd,
    child: Child,
    said: Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn of(args: &[&str]) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let theirs: OwnedFd = open().into();
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&theirs, size).unwrap();
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/corpus/built/asm_axpy.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocjitsu"));
        command
            .arg("launch")
            .arg(file)
            .args(["--target", "gfx942", "--threads", "1"]);
        command
            .args(args)
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        command.stdin(open()).stdout(open()).stderr(open());
        // SAFETY: the closure makes system calls only.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let ours = File::from(ours);
        let mut reader = ours.try_clone().unwrap();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            ours,
            theirs,
            child,
            said,
            text: String::new(),
        }
    }

    /// Waits until the terminal has been sent a text.
    fn shows(&mut self, text: &str) {
        let start = Instant::now();
        while !self.text.contains(text) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no {text:?}: {:?}",
                self.text
            );
            if let Ok(bytes) = self.said.recv_timeout(Duration::from_millis(100)) {
                self.text += &String::from_utf8_lossy(&bytes);
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.text.clear();
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.theirs)
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
    }
}

/// From and to the screen of before.
const ENTERS: &str = "\x1b[?1049h";
const LEAVES: &str = "\x1b[?1049l";

#[test]
fn panels_are_drawn_and_keys_pause_and_stop() {
    let mut terminal = Terminal::of(&["--tui", "--repeat", "4000000"]);
    terminal.shows(ENTERS);
    terminal.shows("asm_axpy (axpy)");
    // Blanks are not sent where nothing stood before.
    terminal.shows("4000000");
    terminal.shows("class");
    assert!(terminal.is_raw());
    terminal.press("p");
    terminal.shows("paused");
    terminal.press("p");
    terminal.shows("pause");
    terminal.press("q");
    terminal.shows(LEAVES);
    terminal.shows("stopped in dispatch");
    terminal.shows("there are no results");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(1));
    assert!(!terminal.is_raw());
    assert!(
        !terminal.text.contains("wave instructions by"),
        "no report: {}",
        terminal.text
    );
}

#[test]
fn control_c_stops_and_a_launch_that_ends_is_reported() {
    let mut terminal = Terminal::of(&["--tui", "--repeat", "4000000"]);
    terminal.shows("4000000");
    terminal.press("\x03");
    terminal.shows("stopped in dispatch");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(1));
    assert!(!terminal.is_raw());

    let mut terminal = Terminal::of(&["--tui", "--check"]);
    terminal.shows(LEAVES);
    terminal.shows("axpy");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    assert!(!terminal.is_raw());
}

#[test]
fn a_long_launch_on_a_terminal_has_a_bar() {
    let mut terminal = Terminal::of(&["--repeat", "4000000"]);
    terminal.shows("workgroups of dispatch");
    terminal.shows("of 4000000");
    terminal.shows("wave instructions/s");
    terminal.shows("left");
    // The driver of the terminal makes SIGINT of it.
    terminal.press("\x03");
    assert_eq!(terminal.child.wait().unwrap().code(), None);
}

/// The text without the terminal's control sequences.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' if rest.next() == Some('[') => {
                rest.by_ref().find(char::is_ascii_alphabetic);
            }
            c => plain.push(c),
        }
    }
    plain
}

#[test]
fn records_of_plugins_stand_above_the_bar() {
    let mut terminal = Terminal::of(&["--repeat", "4000000", "--plugin", "throughput"]);
    for _ in 0..3 {
        terminal.shows("workgroups of dispatch");
        terminal.shows("\"plugin\":\"throughput\"");
        terminal.text.clear();
    }
    terminal.shows("workgroups of dispatch");
    terminal.shows("\"plugin\":\"throughput\"");
    terminal.shows("workgroups of dispatch");
    let text = plain(&terminal.text);
    // The first and the last line of what was read may be cut.
    let lines: Vec<&str> = text.split(['\r', '\n']).collect();
    let inner = &lines[1..lines.len() - 1];
    let records: Vec<_> = inner.iter().filter(|l| l.contains("plugin")).collect();
    assert!(!records.is_empty(), "{text}");
    for record in records {
        let parsed = serde_json::from_str::<serde_json::Value>(record);
        assert!(parsed.is_ok(), "{record:?} in {text}");
    }
    terminal.press("\x03");
    terminal.child.wait().unwrap();
}

#[test]
fn records_of_plugins_are_written_when_the_panels_have_gone() {
    let mut terminal = Terminal::of(&["--tui", "--repeat", "4000000", "--plugin", "race"]);
    // Blanks are not sent.
    terminal.shows("plugins,");
    terminal.press("q");
    terminal.shows(LEAVES);
    terminal.shows("there are no results");
    let (panels, after) = terminal.text.split_once(LEAVES).unwrap();
    assert!(!panels.contains("\"races\""), "{panels:?}");
    assert!(after.contains("\"event\":\"summary\""), "{after:?}");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(1));

    let mut terminal = Terminal::of(&["--tui", "--repeat", "3", "--plugin", "throughput"]);
    terminal.shows(LEAVES);
    terminal.shows("wave instructions in");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    let (_, after) = terminal.text.split_once(LEAVES).unwrap();
    // One for each dispatch and the summary.
    assert_eq!(
        after.matches("\"plugin\":\"throughput\"").count(),
        4,
        "{after:?}"
    );
}

#[test]
fn without_a_terminal_it_is_refused() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/corpus/built/asm_axpy.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocjitsu"));
    command
        .arg("launch")
        .arg(file)
        .args(["--target", "gfx942", "--tui"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--tui needs a terminal"), "{text}");
}
