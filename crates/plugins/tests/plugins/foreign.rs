//! A plugin in C, compiled from the repository's example.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocjitsu_isa::Target;
use rocjitsu_observe::{Lines, Plugins};
use rocjitsu_plugins::{Selection, make};

use super::rig::{Run, described, descriptions};

/// Compiles a source against the header.
fn compile(source: &str, name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory =
        std::env::temp_dir().join(format!("rocjitsu-plugin-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let (file, out) = (directory.join("plugin.c"), directory.join("plugin.so"));
    std::fs::write(&file, source).expect("written");
    let status = Command::new("cc")
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-shared",
            "-fPIC",
            "-I",
        ])
        .arg(here.join("include"))
        .arg("-o")
        .args([&out, &file])
        .status();
    assert!(status.expect("a C compiler").success());
    out
}

fn example() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(here.join("examples/count_stores.c")).expect("in the repository")
}

fn load(text: &str) -> Result<Plugins, String> {
    let selection: Selection = text.parse()?;
    let plugin = make(&selection, Lines::new(Vec::new()))?;
    let mut plugins = Plugins::new();
    plugins.add("count_stores", plugin);
    Ok(plugins)
}

#[test]
fn the_example_counts_what_a_kernel_stores() {
    let plugin = compile(&example(), "example");
    let out = plugin.with_file_name("stores.txt");
    let target = Target::Gfx942;
    let path = descriptions(target)
        .into_iter()
        .find(|p| p.ends_with("vec_add_f32.json"));
    let launch = described(&path.expect("in the corpus"), target);
    let plugins = load(&format!("{}:path={}", plugin.display(), out.display())).expect("loads");
    let done = Run::new(&launch).go(&launch, &plugins, 2).expect("runs");
    let text = std::fs::read_to_string(&out).expect("written");
    // One float for each of a thousand elements.
    let want = format!(
        "vec_add: 4000 bytes stored in {} instructions\n",
        done.wave_instructions
    );
    assert!(
        text.ends_with(want.split_once(": ").expect("two parts").1),
        "{text}"
    );
    // Its error ends the run, with the text and the name.
    let plugins = load(&format!("{}:limit=100", plugin.display())).expect("loads");
    let error = Run::new(&launch)
        .go(&launch, &plugins, 2)
        .expect_err("the limit is low");
    assert!(
        error.contains("plugin `count_stores`: more than 100 bytes stored, by "),
        "{error}"
    );
    assert!(error.contains("store_dword"), "{error}");
}

#[test]
fn wrong_plugins_and_configurations_are_refused() {
    let plugin = compile(&example(), "refused");
    let refused = |text: &str| load(text).expect_err(text);
    let error = refused(&format!("{}:limit=many", plugin.display()));
    assert!(error.contains("`many` is no integer"), "{error}");
    let error = refused(&format!("{}:colour=red", plugin.display()));
    assert!(
        error.contains("no option `colour`; it has limit, path"),
        "{error}"
    );
    let error = refused(&format!("{}:path=/nowhere/x", plugin.display()));
    assert!(error.contains("cannot write /nowhere/x"), "{error}");
    let newer = example().replace(".abi = ROCJITSU_PLUGIN_ABI", ".abi = 7");
    let error = refused(&compile(&newer, "newer").display().to_string());
    assert!(
        error.contains("version 7") && error.contains("has version 1"),
        "{error}"
    );
    let none = compile("int nothing;", "none");
    let error = refused(&none.display().to_string());
    assert!(error.contains("rocjitsu_plugin_entry"), "{error}");
}
