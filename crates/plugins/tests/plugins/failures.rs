//! Errors and panics of plugins end the run with their name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rocjitsu_isa::Target;
use rocjitsu_observe::{
    Access, AccessKind, Concurrency, Dispatch, Ended, Events, Outcome, Plugin, Plugins, State,
    Step, Wave,
};

use super::rig::{Run, described, descriptions};

struct Failing(&'static str);

impl Failing {
    fn at(&self, place: &str) -> Outcome {
        match self.0.split_once(' ') {
            Some((at, "panics")) if at == place => panic!("on purpose"),
            Some((at, "errs")) if at == place => Err("on purpose".to_owned()),
            _ => Ok(()),
        }
    }
}

impl Plugin for Failing {
    fn events(&self) -> Events {
        assert!(self.0 != "events panics", "on purpose");
        Events::DISPATCHES | Events::WAVES | Events::AFTER
    }
    fn concurrency(&self) -> Concurrency {
        assert!(self.0 != "concurrency panics", "on purpose");
        Concurrency::Serial
    }
    fn worker(&self) -> Option<Box<dyn Plugin>> {
        assert!(self.0 != "worker panics", "on purpose");
        None
    }
    fn dispatch_begins(&mut self, _: &Dispatch<'_>) -> Outcome {
        self.at("begin")
    }
    fn dispatch_ends(&mut self, _: &Ended<'_>) -> Outcome {
        self.at("end")
    }
    fn wave_begins(&mut self, _: &Wave) -> Outcome {
        self.at("wave")
    }
    fn after(&mut self, _: &Step<'_>, _: &dyn State) -> Outcome {
        self.at("after")
    }
    fn finish(&mut self) -> Outcome {
        self.at("finish")
    }
}

/// Fails at the first store of any workgroup but the first one, and counts what it is told after that.
struct Twice {
    failed: bool,
    again: Arc<AtomicUsize>,
}

impl Plugin for Twice {
    fn events(&self) -> Events {
        Events::ACCESSES
    }
    fn accesses(&mut self, step: &Step<'_>, all: &[Access], _: &dyn State) -> Outcome {
        if self.failed {
            self.again.fetch_add(1, Ordering::Relaxed);
            return Err("told again".to_owned());
        }
        if step.wave.group > 0 && all.iter().any(|a| a.kind == AccessKind::Store) {
            self.failed = true;
            // Time for the other worker to come to its next access.
            std::thread::sleep(Duration::from_millis(5));
            return Err("at the store".to_owned());
        }
        Ok(())
    }
}

/// The failure that ends a run is the first one, also if an earlier workgroup is under way on another thread.
#[test]
fn nothing_is_told_after_a_failure() {
    let target = Target::Gfx942;
    let path = descriptions(target)
        .into_iter()
        .find(|path| path.ends_with("vec_add_f32.json"))
        .expect("in the corpus");
    let launch = described(&path, target);
    let again = Arc::new(AtomicUsize::new(0));
    for _ in 0..30 {
        let mut plugins = Plugins::new();
        let twice = Twice {
            failed: false,
            again: Arc::clone(&again),
        };
        plugins.add("twice", Box::new(twice));
        let error = Run::new(&launch)
            .go(&launch, &plugins, 2)
            .expect_err("it fails");
        assert!(error.contains("plugin `twice`: at the store"), "{error}");
    }
    assert_eq!(again.load(Ordering::Relaxed), 0);
}

#[test]
fn a_failing_plugin_is_named() {
    let target = Target::Gfx942;
    let path = &descriptions(target)[0];
    let launch = described(path, target);
    let places = ["begin", "wave", "after", "end", "finish"];
    let asked = ["events", "concurrency", "worker"];
    for place in places.into_iter().chain(asked) {
        let hows = ["panics", "errs"];
        let hows = hows.iter().take(if asked.contains(&place) { 1 } else { 2 });
        for how in hows {
            let mut plugins = Plugins::new();
            let what: &'static str = format!("{place} {how}").leak();
            plugins.add("shaky", Box::new(Failing(what)));
            let error = Run::new(&launch).go(&launch, &plugins, 2).expect_err(what);
            assert!(error.contains("plugin `shaky`"), "{what}: {error}");
            assert!(error.contains("on purpose"), "{what}: {error}");
        }
    }
}
