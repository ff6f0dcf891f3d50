//! Errors and panics of plugins end the run with their name.

use rocjitsu_isa::Target;
use rocjitsu_observe::{Dispatch, Ended, Events, Outcome, Plugin, Plugins, State, Step, Wave};

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
        Events::DISPATCHES | Events::WAVES | Events::AFTER
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

#[test]
fn a_failing_plugin_is_named() {
    let target = Target::Gfx942;
    let path = &descriptions(target)[0];
    let launch = described(path, target);
    for place in ["begin", "wave", "after", "end", "finish"] {
        for how in ["errs", "panics"] {
            let mut plugins = Plugins::new();
            let what: &'static str = format!("{place} {how}").leak();
            plugins.add("shaky", Box::new(Failing(what)));
            let error = Run::new(&launch).go(&launch, &plugins, 2).expect_err(what);
            assert!(error.contains("plugin `shaky`"), "{what}: {error}");
            assert!(error.contains("on purpose"), "{what}: {error}");
        }
    }
}
