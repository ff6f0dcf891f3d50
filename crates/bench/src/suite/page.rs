//! The results as one self-contained HTML page: a table, and bars that compare rows.

use std::fmt::Write as _;

use super::{Figures, Results};

const STYLE: &str = "body{font:14px sans-serif;margin:2em;max-width:75em}\
table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #ddd}\
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}\
.missed{color:#a00}svg text{font:12px sans-serif}";

/// Text that HTML takes literally.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// One plot: a bar for each row with a value, its length by the logarithm if `logarithmic`.
fn bars<'a>(
    title: &str,
    unit: &str,
    logarithmic: bool,
    values: impl Iterator<Item = (&'a Figures, f64)>,
) -> String {
    let values: Vec<(&Figures, f64)> = values.filter(|(_, value)| *value > 0.0).collect();
    let greatest = values.iter().map(|(_, v)| *v).fold(0.0, f64::max);
    let least = values.iter().map(|(_, v)| *v).fold(f64::INFINITY, f64::min);
    if values.is_empty() || greatest <= 0.0 {
        return String::new();
    }
    let length = |value: f64| {
        let part = if logarithmic {
            // A tenth of the length is left for the least value.
            let span = (greatest / least).ln();
            if span > 0.0 {
                0.1 + 0.9 * (value / least).ln() / span
            } else {
                1.0
            }
        } else {
            value / greatest
        };
        part * 500.0
    };
    let scale = if logarithmic { ", logarithmic" } else { "" };
    let mut svg = format!(
        "<h3>{} ({}{scale})</h3>\n<svg width=\"960\" height=\"{}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title),
        escape(unit),
        values.len() * 20 + 4,
        escape(title)
    );
    for (index, (row, value)) in values.iter().enumerate() {
        let y = index * 20;
        let width = length(*value);
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{}\">{} {}</text><rect x=\"260\" y=\"{}\" width=\"{width:.1}\" height=\"14\" fill=\"#4a7\"/>\
             <text x=\"{:.1}\" y=\"{}\">{value:.2}</text>",
            y + 14,
            escape(row.kernel),
            row.target,
            y + 3,
            266.0 + width,
            y + 14
        );
    }
    svg + "</svg>\n"
}

fn table(rows: &[Figures]) -> String {
    let mut text = String::from(
        "<table><tr><th>kernel</th><th>target</th><th>one thread, ms</th><th>all threads, ms</th><th>scaling</th>\
         <th>M wave instructions/s</th><th>GFLOP/s</th><th>of the f32 FMA peak</th><th>peak MiB</th>\
         <th>tinygrad's emulator, M/s</th><th>ratio</th><th>goals</th></tr>\n",
    );
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            let _ = writeln!(text, "<tr><th colspan=\"12\">{}</th></tr>", escape(group));
        }
        let optional = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let goals = match (row.has_goal, row.missed.is_empty()) {
            (false, _) => String::new(),
            (true, true) => "met".into(),
            (true, false) => format!(
                "<span class=\"missed\">missed: {}</span>",
                escape(&row.missed.join("; "))
            ),
        };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td><td>{}</td>\
             <td>{:.1}</td><td>{}</td><td>{}</td><td>{goals}</td></tr>",
            escape(row.kernel),
            row.target,
            row.seconds * 1e3,
            row.seconds_all_threads * 1e3,
            row.scaling,
            row.million_instructions_per_second,
            optional(row.gflops, 1),
            optional(row.of_peak, 3),
            row.peak_mib,
            optional(row.tinygrad_million_per_second, 3),
            optional(row.over_tinygrad, 0),
        );
    }
    text + "</table>\n"
}

/// The page.
pub fn html(results: &Results) -> String {
    let host = &results.host;
    let rows = &results.rows;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rocjitsu benchmarks</title>\
         <style>{STYLE}</style></head><body>\n<h1>rocjitsu benchmarks</h1>\n<p>{}, {} threads, lanes by {}; a native \
         f32 FMA loop reaches {:.0} GFLOP/s on one thread and {:.0} on all.</p>\n",
        escape(&host.cpu),
        host.threads,
        host.lane_back_end,
        host.peak_one_thread,
        host.peak_all_threads
    );
    page += &table(rows);
    page += &bars(
        "Speed",
        "million wave instructions a second, one thread",
        true,
        rows.iter()
            .map(|row| (row, row.million_instructions_per_second)),
    );
    page += &bars(
        "Matrix work",
        "GFLOP/s, one thread",
        false,
        rows.iter().filter_map(|row| Some((row, row.gflops?))),
    );
    page += &bars(
        "Scaling",
        "time on one thread over time on all",
        false,
        rows.iter().map(|row| (row, row.scaling)),
    );
    page += &bars(
        "Beside tinygrad's emulator",
        "times its wave instructions a second",
        true,
        rows.iter()
            .filter_map(|row| Some((row, row.over_tinygrad?))),
    );
    page += "<h3>Launch of an empty kernel</h3>\n<table><tr><th>GPU</th><th></th><th>ms</th><th>peak MiB</th></tr>\n";
    for start in &results.start {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td></td><td>{:.2}</td><td>{:.1}</td></tr>",
            start.gpu, start.wall_ms, start.peak_mib
        );
    }
    page += "</table>\n";
    if !results.numpy.is_empty() {
        page += "<h3>For scale: NumPy's f32 products on this host</h3>\n<table><tr><th>size</th><th></th><th>ms</th></tr>\n";
        for (size, seconds) in &results.numpy {
            let _ = writeln!(
                page,
                "<tr><td>{size}</td><td></td><td>{:.2}</td></tr>",
                seconds * 1e3
            );
        }
        page += "</table>\n";
    }
    page + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &'static str, rate: f64) -> Figures {
        Figures {
            group: "g<roup",
            kernel,
            target: "gfx950",
            wave_instructions: 10,
            seconds: 1.0,
            seconds_all_threads: 0.5,
            million_instructions_per_second: rate,
            gflops: None,
            of_peak: None,
            peak_mib: 1.0,
            scaling: 2.0,
            tinygrad_million_per_second: None,
            over_tinygrad: None,
            missed: vec!["at least 3 < 4".into()],
            has_goal: true,
        }
    }

    #[test]
    fn tables_escape_text_and_show_what_was_missed() {
        let text = table(&[row("a&b", 1.0)]);
        assert!(text.contains("a&amp;b"));
        assert!(text.contains("g&lt;roup"));
        assert!(text.contains("missed: at least 3 &lt; 4"));
    }

    #[test]
    fn bars_grow_with_their_values() {
        let rows = [row("slow", 1.0), row("fast", 100.0)];
        for (logarithmic, widths) in [(true, ["50.0", "500.0"]), (false, ["5.0", "500.0"])] {
            let values = rows
                .iter()
                .map(|row| (row, row.million_instructions_per_second));
            let svg = bars("t", "u", logarithmic, values);
            for width in widths {
                assert!(svg.contains(&format!("width=\"{width}\"")), "{svg}");
            }
        }
        assert_eq!(bars("t", "u", true, std::iter::empty()), "");
    }
}
