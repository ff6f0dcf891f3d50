//! Tables whose rows can be sorted, and values as text.

use maud::{Markup, html};
use serde_json::Value;

use super::records::Object;

/// Rows shown at most: a page that a browser cannot open helps nobody.
const ROWS: usize = 5000;

/// A table of objects: a column for each key of any of them, in the order in which they appear.
pub fn table<'a>(rows: impl Iterator<Item = &'a Object> + Clone) -> Markup {
    let mut columns: Vec<&str> = Vec::new();
    for key in rows.clone().flat_map(Object::keys) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    of(&columns, rows)
}

/// A table of some keys of objects.
pub fn of<'a>(columns: &[&str], rows: impl Iterator<Item = &'a Object> + Clone) -> Markup {
    let left_out = rows.clone().count().saturating_sub(ROWS);
    html! {
        div.scroll { table.sortable {
            thead { tr { @for column in columns { th { (column.replace('_', " ")) } } } }
            tbody { @for row in rows.take(ROWS) {
                tr { @for column in columns { (cell(row.get(*column))) } }
            } }
        } }
        @if left_out > 0 { p.note { (left_out) " more rows are not shown." } }
    }
}

fn cell(value: Option<&Value>) -> Markup {
    match value {
        None | Some(Value::Null) => html! { td {} },
        Some(Value::Number(n)) => html! { td.n data-n=(n) { (n) } },
        Some(Value::String(s)) if matches!(s.as_str(), "exact" | "bounded" | "default") => {
            html! { td class={ "kind-" (s) } { (s) } }
        }
        Some(value) => html! { td { (words(value)) } },
    }
}

/// A value in a line of text.
pub fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(object) => {
            // Instructions are described by their text first.
            let (text, pc) = (object.get("text"), object.get("pc"));
            let mut parts = Vec::new();
            if let (Some(text), Some(pc)) = (text, pc) {
                parts.push(format!("{} at {}", words(text), words(pc)));
            }
            let described = parts.len() == 1;
            let rest = object.iter();
            let rest = rest.filter(|(key, _)| !described || !matches!(key.as_str(), "text" | "pc"));
            parts.extend(
                rest.map(|(key, value)| format!("{} {}", key.replace('_', " "), words(value))),
            );
            parts.join("; ")
        }
        other => other.to_string(),
    }
}
