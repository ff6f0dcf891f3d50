//! `docs/ioctls.md` says what the tables say. To write it anew:
//! `ROCJITSU_WRITE_DOCS=1 cargo test -p rocjitsu-kfd --test documentation`.

use std::fmt::Write;
use std::path::Path;

use rocjitsu_kfd::abi::Request;
use rocjitsu_kfd::table::{DRM, Direction, KFD, Row};

fn table(text: &mut String, rows: &[Row], kind: u8) {
    text.push_str("| Number | Request | Name | Direction | Bytes | Needed by | What it does |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for row in rows {
        let request = Request {
            direction: row.direction.bits(),
            kind,
            number: row.number,
            size: row.size,
        };
        let direction = match row.direction {
            Direction::None => "none",
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::ReadWrite => "both",
        };
        writeln!(
            text,
            "| {:02x} | {:08x} | {} | {direction} | {} | {} | {} |",
            row.number,
            u32::from(request),
            row.name,
            row.size,
            row.need,
            row.doc
        )
        .unwrap();
    }
}

fn page() -> String {
    let mut text = String::from(
        "# Ioctls\n\nMade from the tables in `crates/kfd/src/table.rs` and `drm/table.rs`; a test compares. \
         Needed by: E `rocminfo`, S a HIP program, B rocBLAS, G several GPUs, D a debugger, `-` none of these.\n\n\
         An ioctl is known by its number. Its argument may be shorter or longer than the driver's structure: what is \
         missing counts as zero. Numbers that are not here are refused with `ENOTTY` and appear in the report.\n\n\
         ## `/dev/kfd`\n\n",
    );
    table(&mut text, KFD, b'K');
    text.push_str("\n## `/dev/dri/renderD*`\n\n");
    table(&mut text, DRM, b'd');
    text
}

#[test]
fn the_page_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ioctls.md");
    if std::env::var_os("ROCJITSU_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page(),
        "docs/ioctls.md is out of date: run ROCJITSU_WRITE_DOCS=1 cargo test -p rocjitsu-kfd --test documentation"
    );
}
