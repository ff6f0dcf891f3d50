//! A report as a page: every object a table of its keys, every list of objects a table with a column for each key.

use serde_json::Value;

/// The page for a report.
pub fn page(report: &Value) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>rocjitsu report</title>\n<style>\
         body{{font:14px/1.4 system-ui,sans-serif;margin:2em}}table{{border-collapse:collapse;margin:.3em 0}}\
         th,td{{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top}}th{{background:#f3f3f3}}\
         </style>\n<h1>What the program did with the GPUs</h1>\n{}\n</html>\n",
        value(report)
    )
}

fn value(of: &Value) -> String {
    match of {
        Value::Object(map) => {
            let rows: String = map
                .iter()
                .map(|(key, inner)| {
                    format!(
                        "<tr><th>{}</th><td>{}</td></tr>\n",
                        escape(&words(key)),
                        value(inner)
                    )
                })
                .collect();
            format!("<table>\n{rows}</table>")
        }
        Value::Array(list) => rows(list),
        Value::String(text) => escape(text),
        Value::Null => "&ndash;".to_owned(),
        other => other.to_string(),
    }
}

fn rows(list: &[Value]) -> String {
    let Some(Value::Object(first)) = list.first() else {
        return list.iter().map(value).collect::<Vec<_>>().join("<br>");
    };
    let head: String = first
        .keys()
        .map(|key| format!("<th>{}</th>", escape(&words(key))))
        .collect();
    let body: String = list
        .iter()
        .map(|row| {
            let cells: String = first
                .keys()
                .map(|key| format!("<td>{}</td>", row.get(key).map_or(String::new(), value)))
                .collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!("<table>\n<tr>{head}</tr>\n{body}</table>")
}

fn words(key: &str) -> String {
    key.replace('_', " ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_cannot_become_markup() {
        let report =
            serde_json::json!({"kernels": [{"name": "void f<int>(T&)", "count": 3}], "none": null});
        let page = page(&report);
        assert!(
            page.contains("<td>void f&lt;int&gt;(T&amp;)</td>"),
            "{page}"
        );
        assert!(page.contains("<th>count</th>") && page.contains("<td>3</td>"));
    }
}
