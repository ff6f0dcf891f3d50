//! A launch that is dispatched again and again holds no more memory after many dispatches than after some. The allocator of this
//! test counts, so that it stands alone in its process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocjitsu_cli::commands::gpu::Request;
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_cli::session::{Session, Until};
use rocjitsu_isa::Target;
use rocjitsu_observe::{Lines, Plugins};
use rocjitsu_plugins::{Selection as Chosen, make};

/// Bytes that are allocated.
static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all is done by the system's allocator, whose contract is the caller's and ours.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises us; `alloc` had it from the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn session(repeat: u32) -> Session {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/corpus/built/asm_axpy.json");
    let target = Target::Gfx942;
    let launch = Launch::from_description(&path, Selection::of(target)).unwrap();
    let mut request = Request::default();
    request.threads = Some(1);
    let host = request.resolve(target, None).unwrap();
    Session::new(launch, request, host, repeat).unwrap()
}

/// What dispatches `first` to `last` leave behind in bytes.
fn left(plugins: Option<&Plugins>, first: u32, last: u32) -> usize {
    let mut session = session(last + 1);
    assert!(!session.go(Until::Dispatch(first), true, plugins).unwrap());
    let before = LIVE.load(Ordering::Relaxed);
    assert!(!session.go(Until::Dispatch(last), true, plugins).unwrap());
    assert_eq!(session.dispatches(), last - 1);
    LIVE.load(Ordering::Relaxed).saturating_sub(before)
}

/// A number for each of some dispatches is all that may be kept of each.
const EACH: usize = 16;

#[test]
fn dispatches_leave_nothing_behind() {
    let bytes = left(None, 1000, 5000);
    assert!(bytes < 4000 * EACH, "{bytes} bytes of 4000 dispatches");
    for name in [
        "throughput",
        "instruction_mix",
        "logging",
        "race",
        "data_hazard",
        "memcheck:uninitialised=all,heat",
        "coverage",
        "fidelity",
        "trace:limit=10",
    ] {
        let chosen: Chosen = name.parse().unwrap();
        let plugin = make(&chosen, Lines::new(Vec::new())).unwrap();
        let mut plugins = Plugins::new();
        plugins.add(chosen.name, plugin);
        let bytes = left(Some(&plugins), 100, 600);
        assert!(
            bytes < 500 * EACH,
            "{name}: {bytes} bytes of 500 dispatches"
        );
    }
}
