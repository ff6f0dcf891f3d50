//! `plugins`, `sinks` and `require_all_plugins`, whose meaning is that of AMD's rocjitsu.
//! No plugin is built yet: they are checked, and each one asked for is an error or a warning.

use crate::file::Warning;
use crate::json::{Result, Section, fault, similar};

/// The plugins of AMD's rocjitsu.
const KNOWN: [&str; 2] = ["race", "logging"];
const SINKS: [&str; 3] = ["stderr", "stdout", "file"];

/// Reads the three keys.
pub(crate) fn read(top: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<()> {
    let required = top.flag("require_all_plugins")?.unwrap_or(false);
    let mut any = false;
    if let Some(plugins) = top.section("plugins")? {
        for (name, value) in plugins.others() {
            any = true;
            let key = plugins.path(name);
            Section::new(value, key.clone())?;
            let what = if KNOWN.contains(&name) {
                format!("the plugin `{name}` is not built")
            } else {
                format!("there is no plugin `{name}`{}", similar(name, &KNOWN))
            };
            if required {
                return fault(
                    key,
                    format!("{what}, and `require_all_plugins` asks for it"),
                );
            }
            warnings.push(Warning {
                key,
                text: format!("{what}; the program runs without it"),
            });
        }
    }
    let Some(sinks) = top.section("sinks")? else {
        return Ok(());
    };
    let mut to_file = false;
    if let Some(types) = sinks.list("types")? {
        for (path, value) in types {
            match value.as_str() {
                Some(name) if SINKS.contains(&name) => to_file |= name == "file",
                Some(name) => {
                    return fault(
                        path,
                        format!(
                            "`{name}` is none of {}{}",
                            SINKS.join(", "),
                            similar(name, &SINKS)
                        ),
                    );
                }
                None => return fault(path, "a text belongs here"),
            }
        }
    }
    let directory = sinks.text("dir")?;
    sinks.finish()?;
    if to_file && directory.is_none() {
        return fault(
            "sinks.dir",
            "the key is missing; the sink `file` needs a directory",
        );
    }
    if !any {
        warnings.push(Warning {
            key: "sinks".to_owned(),
            text: "no plugin is listed that would write there".to_owned(),
        });
    }
    Ok(())
}
