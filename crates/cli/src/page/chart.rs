//! Drawings: bars, a time line, the heat of memory. SVG within the page.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::records::Slice;

/// Width of drawings in pixels.
const WIDTH: f64 = 1000.0;
/// Slices drawn at most, the longest ones.
const SLICES: usize = 4000;
/// Pages drawn in one row.
const COLUMNS: usize = 128;
/// Pages drawn at most for an allocation.
const PAGES: usize = 16_384;

/// A colour for a name.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(2_166_136_261u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(16_777_619)
    });
    format!("hsl({} 55% 55%)", hash % 360)
}

/// Horizontal bars, one for each name.
pub fn bars(values: &[(String, f64)]) -> Markup {
    let most = values.iter().map(|(_, value)| *value).fold(1.0, f64::max);
    let height = values.len() * 18;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="img" {
            @for (at, (name, value)) in values.iter().enumerate() {
                text x="295" y=(at * 18 + 13) text-anchor="end" { (name) }
                rect x="300" y=(at * 18 + 2) width=(format!("{:.1}", value / most * 560.0)) height="14" fill="var(--bar)" {}
                text x=(format!("{:.1}", 305.0 + value / most * 560.0)) y=(at * 18 + 13) { (value) }
            }
        }
    }
}

/// One bar in parts.
pub fn shares(parts: &[(&str, &str, f64)]) -> Markup {
    let all: f64 = parts.iter().map(|(_, _, value)| value).sum();
    let mut at = 0.0;
    let mut placed = Vec::new();
    for (name, colour, value) in parts {
        let width = if all > 0.0 { value / all * WIDTH } else { 0.0 };
        placed.push((name, colour, value, at, width));
        at += width;
    }
    html! {
        svg viewBox={ "0 0 " (WIDTH) " 20" } width=(WIDTH) height="20" role="img" {
            @for (name, colour, value, at, width) in placed {
                rect x=(format!("{at:.2}")) y="0" width=(format!("{width:.2}")) height="18" fill=(colour) {
                    title { (name) ": " (value) }
                }
            }
        }
    }
}

/// Slices by track over time.
pub fn timeline(slices: &[Slice]) -> Markup {
    let sound = |slice: &&Slice| slice.start.is_finite() && slice.seconds.is_finite();
    let mut shown: Vec<&Slice> = slices.iter().filter(sound).collect();
    shown.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let left_out = shown.len().saturating_sub(SLICES);
    shown.truncate(SLICES);
    let first = shown.iter().map(|s| s.start).fold(f64::INFINITY, f64::min);
    let last = shown
        .iter()
        .map(|s| s.start + s.seconds)
        .fold(f64::NEG_INFINITY, f64::max);
    let span = (last - first).max(1e-9);
    let mut tracks: BTreeMap<&str, usize> = shown.iter().map(|s| (s.track.as_str(), 0)).collect();
    for (row, at) in tracks.values_mut().enumerate() {
        *at = row;
    }
    let height = tracks.len() * 24 + 18;
    html! {
        svg.timeline viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="img" {
            @for (name, row) in &tracks {
                text x="0" y=(row * 24 + 15) { (name) }
            }
            @for slice in &shown {
                @let x = 150.0 + (slice.start - first) / span * 840.0;
                @let width = (slice.seconds / span * 840.0).max(0.5);
                @let row = tracks.get(slice.track.as_str()).copied().unwrap_or(0);
                rect x=(format!("{x:.2}")) y=(row * 24 + 2) width=(format!("{width:.2}")) height="18" fill=(colour(&slice.name)) {
                    title { (slice.name) ": " (format!("{:.6}", slice.seconds)) " s from " (format!("{:.6}", slice.start)) " s on" }
                }
            }
            text x="150" y=(height - 4) { "0 s" }
            text x="990" y=(height - 4) text-anchor="end" { (format!("{span:.6} s")) }
        }
        @if left_out > 0 { p.note { (left_out) " shorter ones are not drawn." } }
    }
}

/// Pages of an allocation by the bytes read and written: `(page, read, written)`.
pub fn heat(pages: &[(u64, f64, f64)], count: usize) -> Markup {
    let count = count.clamp(1, PAGES);
    let most = pages.iter().map(|(_, r, w)| r.max(*w)).fold(1.0, f64::max);
    let strength = |bytes: f64| {
        if bytes > 0.0 {
            0.15 + 0.85 * (1.0 + bytes).ln() / (1.0 + most).ln()
        } else {
            0.0
        }
    };
    let rows = count.div_ceil(COLUMNS);
    let height = rows * 8;
    html! {
        svg.heat viewBox={ "0 0 " (COLUMNS * 8) " " (height) } width=(COLUMNS * 8) height=(height) role="img" {
            rect width=(count.min(COLUMNS) * 8) height=(height) fill="var(--soft)" {}
            @for (page, read, written) in pages.iter().filter(|(page, ..)| *page < count as u64) {
                @let (x, y) = (*page as usize % COLUMNS * 8, *page as usize / COLUMNS * 8);
                g {
                    title { "page " (page) ": " (read) " bytes read, " (written) " written" }
                    rect x=(x) y=(y) width="7" height="4" fill="var(--bar)" fill-opacity=(format!("{:.2}", strength(*read))) {}
                    rect x=(x) y=(y + 4) width="7" height="3" fill="var(--bad)" fill-opacity=(format!("{:.2}", strength(*written))) {}
                }
            }
        }
    }
}
