//! Plugins are told of two dispatches by turns, as runs seldom do it: what each of them executes is told of it alone.

use std::sync::Arc;

use rocjitsu_isa::{Target, decode};
use rocjitsu_observe::{
    Allocation, Dispatch, Ended, Exactness, Family, Given, Instruction, MemoryView, Plugins, State,
    Step, Watcher, Wave,
};
use serde_json::Value;

use super::rig::Watching;

/// Where the code of both dispatches lies.
const ENTRY: u64 = 0x1000;

/// Memory that holds code and nothing else.
struct Code(Vec<u8>);

impl MemoryView for Code {
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let from = address.checked_sub(ENTRY).map(|at| at as usize);
        let bytes = from.and_then(|at| self.0.get(at..at + to.len()));
        bytes.map(|bytes| to.copy_from_slice(bytes)).is_some()
    }
    fn allocation(&self, _: u64) -> Option<Allocation> {
        None
    }
    fn allocations(&self) -> Vec<Allocation> {
        Vec::new()
    }
    fn describe(&self, _: u64) -> String {
        String::new()
    }
    fn is_untouched(&self, _: u64) -> bool {
        false
    }
}

/// Registers of a wave, none of which matters.
struct Nothing;

impl State for Nothing {
    fn vgpr(&self, _: u16) -> &[u32] {
        &[]
    }
    fn agpr(&self, _: u16) -> &[u32] {
        &[]
    }
    fn sgpr(&self, _: u16) -> u32 {
        0
    }
    fn scc(&self) -> bool {
        false
    }
    fn mode(&self) -> u32 {
        0
    }
    fn lds(&self) -> &[u8] {
        &[]
    }
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

/// A dispatch of one wave of 64 lanes that is told of by hand.
struct Told {
    id: u64,
    kernel: &'static str,
    target: Target,
    memory: Arc<dyn MemoryView>,
    instructions: Vec<Instruction>,
}

impl Told {
    fn new(id: u64, kernel: &'static str, target: Target, words: &[u32]) -> Told {
        let set = target.execution_set(64);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut instructions = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let inst = decode(target, set, &bytes[at..]).expect("an instruction");
            let pc = ENTRY + at as u64;
            at += inst.len();
            instructions.push(Instruction {
                inst,
                pc,
                next_pc: ENTRY + at as u64,
                set,
                family: Family::Vector,
                exactness: Exactness::Exact,
            });
        }
        Told {
            id,
            kernel,
            target,
            memory: Arc::new(Code(bytes)),
            instructions,
        }
    }

    fn begins(&self, plugins: &Plugins) {
        let dispatch = Dispatch {
            id: self.id,
            queue: 0,
            kernel: self.kernel,
            target: self.target,
            lanes: 64,
            grid: [64, 1, 1],
            workgroup: [64, 1, 1],
            workgroups: 1,
            waves_per_workgroup: 1,
            lds: 0,
            scratch: 0,
            entry: ENTRY,
            kernarg: 0,
            kernarg_bytes: 0,
            cluster: [1; 3],
            given: Given::default(),
            memory: &self.memory,
        };
        plugins.dispatch_begins(&dispatch).expect("no failure");
    }

    fn executes(&self, index: usize, watcher: &mut Watcher<'_>) {
        let wave = Wave {
            dispatch: self.id,
            workgroup: [0; 3],
            group: 0,
            index: 0,
            lanes: 64,
        };
        let step = Step {
            wave: &wave,
            instruction: &self.instructions[index],
            exec: u64::MAX,
        };
        watcher.before(&step, &Nothing).expect("no failure");
        watcher.after(&step, &Nothing).expect("no failure");
    }

    fn ends(&self, plugins: &Plugins) {
        let ended = Ended {
            id: self.id,
            kernel: self.kernel,
            instructions: self.instructions.len() as u64,
            families: [0; Family::ALL.len()],
            waves: 1,
            seconds: 0.0,
            error: None,
        };
        plugins.dispatch_ends(&ended).expect("no failure");
    }
}

/// `v_exp_f32 v1, v2`, `v_add_f32 v3, v1, v1`, `s_endpgm`: for gfx942 one wait state is missing, for gfx90a none.
const TRANS: [u32; 3] = [0x7e02_4102, 0x0206_0301, 0xbf81_0000];
/// `s_endpgm`.
const END: [u32; 1] = [0xbf81_0000];

#[test]
fn code_at_the_same_address_is_looked_at_for_its_target() {
    for order in [
        [Target::Gfx90a, Target::Gfx942],
        [Target::Gfx942, Target::Gfx90a],
    ] {
        let watching = Watching::new(&["data_hazard"]);
        let told = [1, 2].map(|id| Told::new(id, "kernel", order[id as usize - 1], &TRANS));
        told.iter().for_each(|t| t.begins(&watching.plugins));
        let mut watchers = [(); 2].map(|()| Watcher::new(&watching.plugins));
        for index in 0..TRANS.len() {
            for (told, watcher) in told.iter().zip(&mut watchers) {
                told.executes(index, watcher);
            }
        }
        for watcher in watchers {
            watcher.end().expect("no failure");
        }
        told.iter().for_each(|t| t.ends(&watching.plugins));
        watching.plugins.finish().expect("no failure");
        let records = watching.records(0);
        let found: Vec<(&Value, &Value)> = records
            .iter()
            .filter(|record| record["hazard"].is_string())
            .map(|record| (&record["hazard"], &record["dispatch"]))
            .collect();
        let of = told.iter().find(|told| told.target == Target::Gfx942);
        let id = Value::from(of.expect("one of them").id);
        assert_eq!(found, [(&"trans".into(), &id)], "{order:?}");
    }
}

/// The workers of both have handed in what they counted before the first of them ends.
#[test]
fn what_workers_counted_goes_to_the_kernel_that_executed_it() {
    let watching = Watching::new(&["coverage:missed", "instruction_mix"]);
    let plugins = &watching.plugins;
    // Two of three instructions, and one of one, at the same address.
    let told = [
        Told::new(1, "first", Target::Gfx942, &TRANS),
        Told::new(2, "second", Target::Gfx942, &END),
    ];
    told.iter().for_each(|t| t.begins(plugins));
    let mut watchers = [(); 2].map(|()| Watcher::new(plugins));
    told[0].executes(1, &mut watchers[0]);
    told[0].executes(2, &mut watchers[0]);
    told[1].executes(0, &mut watchers[1]);
    for watcher in watchers {
        watcher.end().expect("no failure");
    }
    told.iter().for_each(|t| t.ends(plugins));
    plugins.finish().expect("no failure");
    let covered: Vec<_> = watching
        .records(0)
        .iter()
        .map(|r| [&r["kernel"], &r["executed"], &r["instructions"]].map(ToString::to_string))
        .collect();
    let expected = [["\"first\"", "2", "3"], ["\"second\"", "1", "1"]];
    assert_eq!(covered, expected);
    let missed = &watching.records(0)[0]["missed"];
    assert_eq!(missed[0]["text"], "v_exp_f32_e32 v1, v2", "{missed}");
    let mixes = watching.records(1);
    let executions = |kernel: &str, name: &str| {
        let mix = mixes.iter().find(|mix| mix["kernel"] == kernel);
        mix.expect("a record")["mnemonics"][name]["executions"].clone()
    };
    assert_eq!(executions("first", "v_add_f32"), 1);
    assert_eq!(executions("first", "s_endpgm"), 1);
    assert_eq!(executions("second", "v_add_f32"), Value::Null);
    assert_eq!(executions("second", "s_endpgm"), 1);
}
