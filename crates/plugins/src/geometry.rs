//! What records of `throughput` and `instruction_mix` say of a dispatch, by the keys of AMD's rocjitsu.

use rocjitsu_observe::Dispatch;
use serde_json::{Map, Value, json};

/// A dispatch as a record names it.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    grid: [u32; 3],
    workgroup: [u32; 3],
    workgroups: u64,
    waves_per_workgroup: u32,
}

impl Geometry {
    /// That of a dispatch that begins.
    pub fn of(dispatch: &Dispatch<'_>) -> Geometry {
        Geometry {
            grid: dispatch.grid,
            workgroup: dispatch.workgroup,
            workgroups: dispatch.workgroups,
            waves_per_workgroup: dispatch.waves_per_workgroup,
        }
    }
}

/// A record of a schema, with this crate's own keys `plugin` and `event` beside the schema's `schema` and `record`.
pub fn record(plugin: &str, schema: &str, record: &str) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, value) in [
        ("plugin", plugin),
        ("event", record),
        ("schema", schema),
        ("record", record),
    ] {
        map.insert(key.to_owned(), value.into());
    }
    map
}

/// Adds what is known of a dispatch; `None` if its begin was not told.
pub fn describe(record: &mut Map<String, Value>, id: u64, kernel: &str, of: Option<&Geometry>) {
    let mut add = |key: &str, value: Value| record.insert(key.to_owned(), value);
    // Names are those of the code object, which has them mangled.
    add("dispatch_id", id.into());
    add("kernel_name", kernel.into());
    add("kernel_symbol", kernel.into());
    if let Some(of) = of {
        add("grid", json!(of.grid));
        add("workgroup", json!(of.workgroup));
        add("workgroups", of.workgroups.into());
        add("waves_per_workgroup", of.waves_per_workgroup.into());
    }
    add("dispatch", id.into());
    add("kernel", kernel.into());
}
