//! The panels of `launch --tui`.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

use super::state::State;
use crate::output::{bytes, count};

/// A time in the two largest units that it has.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Lines of plugins' records that are shown.
const RECORDS: usize = 3;

/// Draws all panels.
pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let recorded = match state.records {
        Some(_) => RECORDS as u16 + 2,
        None => 0,
    };
    let [head, bars, speed, lower, records, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(6),
        Constraint::Min(5),
        Constraint::Length(9),
        Constraint::Length(recorded),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let name = Span::styled(&state.title.name, Modifier::BOLD);
    let place = Span::styled(&state.title.place, Modifier::DIM);
    frame.render_widget(
        Paragraph::new(vec![Line::from(name), Line::from(place)]),
        head,
    );
    progress(state, frame, bars);
    curve(state, frame, speed);
    let [classes, memory] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(lower);
    by_class(state, frame, classes);
    pages(state, frame, memory);
    if let Some(known) = &state.records {
        let title = format!(" {} records of plugins, written at the end ", known.count());
        let lines: Vec<Line<'_>> = known.last(RECORDS).into_iter().map(Line::from).collect();
        let block = Block::bordered().title(title);
        frame.render_widget(Paragraph::new(lines).block(block), records);
    }
    let pause = match state.paused {
        true => "p go on",
        false => "p pause",
    };
    let mut line = vec![Span::raw(format!("{pause}   q stop"))];
    if state.paused {
        let style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
        line.push(Span::styled("   paused", style));
    }
    frame.render_widget(Paragraph::new(Line::from(line)), keys);
}

/// Dispatches, workgroups, time left.
fn progress(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let look = &state.look;
    let left = match state.left() {
        Some(left) => format!("about {} left", time(left)),
        None => "time left not known yet".to_owned(),
    };
    let title = format!(" {} so far, {left} ", time(state.ran));
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows: [Rect; 4] = Layout::vertical([Constraint::Length(1); 4]).areas(inner);
    let groups = format!(
        "dispatch {} of {}: {} of {} workgroups done, {} under way",
        look.dispatch, look.repeat, look.ended, look.groups, look.under_way
    );
    frame.render_widget(Paragraph::new(groups), rows[0]);
    let part = look.ended as f64 / look.groups.max(1) as f64;
    bar(part, frame, rows[1]);
    frame.render_widget(Paragraph::new("the launch"), rows[2]);
    bar(state.done(), frame, rows[3]);
}

fn bar(part: f64, frame: &mut Frame<'_>, area: Rect) {
    let part = part.clamp(0.0, 1.0);
    let bar = Gauge::default().ratio(part).gauge_style(Color::Green);
    frame.render_widget(bar.label(format!("{:.1} %", 100.0 * part)), area);
}

/// Wave instructions a second.
fn curve(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let now = state.speeds.back().copied().unwrap_or(0);
    let title = format!(
        " {} wave instructions/s, {} in all ",
        count(now as f64),
        count(state.look.instructions as f64)
    );
    let block = Block::bordered().title(title);
    let room = usize::from(block.inner(area).width);
    let first = state.speeds.len().saturating_sub(room);
    let speeds = state.speeds.iter().skip(first).copied();
    let line = Sparkline::default().data(speeds).style(Color::Cyan);
    frame.render_widget(line.block(block), area);
}

/// Instructions by class, the most frequent first.
fn by_class(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let look = &state.look;
    let mut classes: Vec<_> = look.by_class.iter().filter(|(_, n)| *n > 0).collect();
    classes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let all = look.instructions.max(1) as f64;
    let rows = classes.iter().map(|(name, n)| {
        let share = format!("{:5.1} %", 100.0 * *n as f64 / all);
        Row::new([(*name).to_owned(), count(*n as f64), share])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(8),
    ];
    let block = Block::bordered().title(" instructions by class ");
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

/// Memory, register pages, waves.
fn pages(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let look = &state.look;
    let resident = look.resident.map_or("not known".to_owned(), bytes);
    let rows = [
        ("buffers", bytes(look.buffers)),
        ("resident at most", resident),
        ("register pages at most", look.register_pages.to_string()),
        ("waves under way", look.waves.to_string()),
        ("of them at barriers", look.at_barriers.to_string()),
    ];
    let rows = rows.map(|(name, value)| Row::new([name.to_owned(), value]));
    let widths = [Constraint::Length(23), Constraint::Fill(1)];
    let block = Block::bordered().title(" memory and waves ");
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Look;
    use crate::tui::state::Title;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        terminal.backend().to_string()
    }

    fn state() -> State {
        let mut state = State::new(Title {
            name: "saxpy (axpy)".to_owned(),
            place: "gfx942 on mi300x, 8 threads".to_owned(),
        });
        state.look = Look {
            dispatch: 2,
            repeat: 5,
            ended: 30,
            groups: 120,
            under_way: 8,
            instructions: 2_500_000,
            by_class: vec![("salu", 500_000), ("lds", 0), ("valu", 2_000_000)],
            register_pages: 77,
            waves: 32,
            at_barriers: 3,
            buffers: 3 << 20,
            resident: Some(64 << 20),
        };
        state.speeds.extend([1_000_000, 3_400_000]);
        state.ran = Duration::from_secs(90);
        state
    }

    #[test]
    fn the_panels_show_what_the_launch_has_come_to() {
        let mut state = state();
        let text = screen(&state, 80, 30);
        for part in [
            "saxpy (axpy)",
            "gfx942 on mi300x, 8 threads",
            "dispatch 2 of 5: 30 of 120 workgroups done, 8 under way",
            "25.0 %",
            // One and a quarter of five dispatches in 90 s.
            "1 min 30 s so far, about 4 min 30 s left",
            "3.4 M wave instructions/s, 2.5 M in all",
            "valu     2.0 M      80.0 %",
            "salu     500.0 k    20.0 %",
            "3.0 MiB",
            "64.0 MiB",
            "77",
            "p pause   q stop",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(
            text.find("valu") < text.find("salu"),
            "the most frequent first"
        );
        assert!(!text.contains("paused") && !text.contains("lds "), "{text}");
        state.paused = true;
        assert!(screen(&state, 80, 30).contains("p go on   q stop   paused"));
    }

    #[test]
    fn any_size_of_the_terminal_is_drawn() {
        for (width, height) in [(1, 1), (10, 3), (40, 12), (300, 100)] {
            screen(&state(), width, height);
            screen(&State::new(Title::default()), width, height);
        }
    }

    #[test]
    fn times_have_two_units() {
        let text = |seconds| time(Duration::from_secs(seconds));
        assert_eq!(
            [text(5), text(65), text(7300)],
            ["5 s", "1 min 5 s", "2 h 1 min"]
        );
    }
}
