//! Records of a run as one HTML page that needs nothing else: no network, no other file.
//! `records` reads what commands and plugins write, the other modules make sections of it.

mod chart;
mod records;
mod sections;
mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use records::Records;

/// Colours and sizes.
const STYLE: &str = include_str!("page.css");
/// Sorting of tables.
const SCRIPT: &str = include_str!("page.js");
/// Nothing is loaded, whatever records hold.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page for records.
pub fn page(records: &Records) -> String {
    let sections: Vec<(&str, &str, Markup)> = sections::all(records);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "rocjitsu report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "rocjitsu report" }
                p.files { "Made of: " (records.files().join(", ")) }
                nav { @for (id, title, _) in &sections { a href={ "#" (id) } { (title) } " " } }
                @for (id, title, content) in &sections {
                    section id=(id) { h2 { (title) } (content) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

    fn page_of(texts: &[&str]) -> String {
        let mut records = Records::default();
        for (at, text) in texts.iter().enumerate() {
            records.read(&format!("file {at}"), text).unwrap();
        }
        page(&records)
    }

    #[test]
    fn nothing_in_records_becomes_markup() {
        let quoted = serde_json::to_string(HOSTILE).unwrap();
        let page = page_of(&[
            &format!(
                r#"{{"process":1,"command":[{quoted}],"complete":true,"gpus":[{quoted}],
                "dispatches":[{{"kernel":{quoted},"grid":[1,1,1],"workgroup":[1,1,1],"waves":1,"instructions":2,"start":0.5,"seconds":0.1,"error":{quoted}}}],
                "kernels":{{{quoted}:{{"dispatches":1,"forms":[{{"instruction":{quoted},"encoding":{quoted},"exactness":{quoted},"reason":{quoted},"count":1}}]}}}},
                "faults":[{{"gpu":{quoted},"text":{quoted}}}]}}"#
            ),
            &format!(
                r#"{{"plugin":"instruction_mix","kernel_name":{quoted},"wave_instructions":1,"mnemonics":{{{quoted}:{{"executions":1,"family":{quoted}}}}}}}
{{"schema":"rocjitsu.throughput.v2","record":{quoted},"kernel_name":{quoted},"families":{{{quoted}:{{"instructions":{quoted}}}}}}}
{{"plugin":"race","kernel":{quoted},"first":{{{quoted}:{quoted}}}}}
{{"plugin":{quoted},{quoted}:{quoted}}}
{{"plugin":"memcheck","event":"heat","label":{quoted},"start":"0x1000","bytes":8192,"pages":[[0,1,2]]}}"#
            ),
            &format!(
                r#"{{"traceEvents":[{{"ph":"X","pid":1,"tid":1,"ts":0,"dur":2,"name":{quoted}}}]}}"#
            ),
        ]);
        assert_eq!(page.matches("<script>").count(), 1, "{page}");
        assert!(!page.contains("<img"), "{page}");
        assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;&quot;"));
    }

    #[test]
    fn a_page_refers_to_nothing_outside_of_it() {
        let page = page_of(&[r#"{"plugin":"throughput","event":"summary","mips":1.5}"#]);
        for part in ["http://", "https://", "src=", "@import", "url("] {
            assert!(
                !page
                    .replace("http://www.w3.org/2000/svg", "")
                    .contains(part),
                "{part}"
            );
        }
    }

    /// Records of AMD's plugins name a schema: they are those of ours.
    #[test]
    fn records_with_a_schema_alone_are_read() {
        let page = page_of(&[
            r#"{"schema":"rocjitsu.throughput.v2","record":"dispatch","dispatch_id":1,"kernel_name":"axpy","wave_instructions":5,"mips":1.5,"families":{"scalar":{"instructions":3},"vector":{"instructions":2}}}"#,
            r#"{"schema":"rocjitsu.instruction_mix.v1","record":"dispatch","kernel_name":"axpy","mnemonics":{"v_fma_f32":{"executions":7}}}
{"schema":"rocjitsu.instruction_mix.v1","record":"dispatch","kernel_name":"axpy","mnemonics":{"v_fma_f32":{"executions":4}}}
{"schema":"rocjitsu.instruction_mix.v1","record":"summary","mnemonics":{"v_fma_f32":{"executions":11}}}"#,
        ]);
        let section = |id: &str| {
            let from = format!("<section id=\"{id}\">");
            let rest = page.split(&from).nth(1).expect(id);
            rest.split("</section>").next().unwrap_or(rest)
        };
        let throughput = section("throughput");
        assert!(throughput.contains("<th>scalar</th>") && throughput.contains("data-n=\"3\""));
        let mix = section("mix");
        assert!(
            mix.contains("<h3>axpy</h3>") && mix.contains("data-n=\"11"),
            "{mix}"
        );
    }

    #[test]
    fn files_that_hold_no_records_are_refused_by_name_and_line() {
        for (text, part) in [
            ("", "holds no records"),
            ("not JSON", "line 1"),
            ("{\"plugin\":\"race\"}\n{\"x\":", "line 2"),
            ("{\"a\":1}", "neither"),
            ("[1,2]", "neither"),
        ] {
            let error = Records::default().read("some.json", text).unwrap_err();
            let error = format!("{error:#}");
            assert!(
                error.contains("some.json") && error.contains(part),
                "{error}"
            );
        }
    }
}
