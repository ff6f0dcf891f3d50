//! `--tui`: a launch in panels on the whole terminal, with keys to pause and to stop it.
//! [`state`] is what they show, [`view`] draws it; here are terminal and keys.

pub mod state;
pub mod view;

use std::io::{self, IsTerminal, Stderr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::commands::plugins::Watching;
use crate::output::lines;
use crate::session::Session;
use state::{Records, State, Title};

/// Time between two looks at the launch.
const EVERY: Duration = Duration::from_millis(250);
/// How soon a key has its effect.
const KEYS: Duration = Duration::from_millis(50);

/// Whether there is a terminal to draw on and to read keys from. Standard output may be a file, for the report.
pub fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Stop,
    Pause,
    /// The terminal has another size.
    Redraw,
}

/// What an event of the terminal means.
fn wish(event: &Event) -> Option<Wish> {
    let key = match event {
        Event::Resize(..) => return Some(Wish::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => Some(Wish::Stop),
        KeyCode::Char('q') => Some(Wish::Stop),
        KeyCode::Char('p' | ' ') => Some(Wish::Pause),
        _ => None,
    }
}

/// The whole terminal, given back when the value is dropped.
struct Screen(Terminal<CrosstermBackend<Stderr>>);

impl Screen {
    fn new() -> io::Result<Screen> {
        enable_raw_mode()?;
        let entered = execute!(io::stderr(), EnterAlternateScreen);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
        terminal.map(Screen).inspect_err(|_| restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// The terminal as it was. Where that fails there is nobody to be told.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(
        io::stderr(),
        LeaveAlternateScreen,
        ratatui::crossterm::cursor::Show
    );
}

/// Waits until it is time for a look, or a key wants one.
fn tick(wishes: &Sender<Wish>) {
    let start = Instant::now();
    while start.elapsed() < EVERY {
        match event::poll(KEYS) {
            Ok(true) => {
                let event = event::read().ok();
                if let Some(wish) = event.as_ref().and_then(wish) {
                    // Nobody listens after the end.
                    let _ = wishes.send(wish);
                    return;
                }
            }
            Ok(false) => {}
            // Without keys it is still looked at.
            Err(_) => std::thread::sleep(KEYS),
        }
    }
}

/// Runs a launch to its end in panels. What plugins record for the terminal is counted, its last lines are shown, and all of it is
/// written when the panels have gone. Returns whether it came there; otherwise somebody has stopped it.
///
/// # Errors
///
/// Faults of the execution, those of the terminal.
pub fn run(session: &mut Session, watching: Option<&Watching>) -> Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot wait for signals")?;
    }
    let mut state = State::new(Title {
        name: format!("{} ({})", session.launch.name, session.launch.kernel.name),
        place: format!(
            "{} on {}, {} threads",
            session.launch.code.target().name(),
            session.host.gpu.name,
            session.host.threads
        ),
    });
    state.records = watching.map(|_| Records::default());
    let mut screen = Screen::new().context("--tui: the terminal")?;
    let (sender, wishes) = channel();
    let plugins = watching.map(|watching| &watching.plugins);
    let ended = session.watch(&move || tick(&sender), plugins, &mut |look| {
        state.sees(look);
        if let (Some(watching), Some(records)) = (watching, &mut state.records) {
            records.add(&watching.take_records());
        }
        attend(&mut state, &mut screen, &wishes, &stop).context("--tui: the terminal")
    });
    drop(screen);
    if let Some(records) = &state.records {
        lines(records.text());
    }
    ended
}

/// Draws, and does what keys say; stays here while the launch is to stand.
fn attend(
    state: &mut State,
    screen: &mut Screen,
    wishes: &Receiver<Wish>,
    stop: &AtomicBool,
) -> Result<ControlFlow<()>> {
    loop {
        screen.0.draw(|frame| view::draw(state, frame))?;
        let wish = match state.paused {
            true => wishes.recv_timeout(EVERY),
            false => wishes.try_recv().map_err(|_| RecvTimeoutError::Timeout),
        };
        if stop.load(Ordering::Acquire) || wish == Ok(Wish::Stop) {
            return Ok(ControlFlow::Break(()));
        }
        match wish {
            Ok(Wish::Pause) if state.paused => state.goes_on(),
            Ok(Wish::Pause) => state.paused = true,
            Ok(_) => {}
            Err(_) if state.paused => {}
            Err(_) => return Ok(ControlFlow::Continue(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn keys_mean_what_the_last_line_says() {
        let key = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), none), Some(Wish::Stop));
        assert_eq!(key(KeyCode::Char('p'), none), Some(Wish::Pause));
        let control_c = key(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(control_c, Some(Wish::Stop));
        assert_eq!(key(KeyCode::Char('c'), none), None);
        assert_eq!(wish(&Event::Resize(1, 1)), Some(Wish::Redraw));
    }
}
