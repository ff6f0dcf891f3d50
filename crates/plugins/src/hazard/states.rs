//! Checks the instructions of a wave, in the order of issue, against the table of hazards.

use std::collections::VecDeque;
use std::sync::Arc;

use rocjitsu_isa::{Inst, Name, Op, RegFile};
use rocjitsu_observe::Instruction;

use super::class::{Class, Role, Span, classes, passes, spans, wait_states};
use super::rules::{Need, RULES, Rule, Unit};

/// More than any rule asks for.
const FAR: u64 = 20;

/// Instructions that are remembered at most.
const REMEMBERED: usize = 64;

/// Roles that are worked out for every instruction.
const ALWAYS: [Role; 5] = [
    Role::Written,
    Role::Read,
    Role::ScalarWritten,
    Role::ScalarRead,
    Role::Constant,
];

/// A set of rules, by their place in the table.
type Rules = u128;

const _: () = assert!(RULES.len() <= Rules::BITS as usize);

/// What is known of an instruction, whoever executes it.
pub struct Facts {
    /// The instruction.
    pub instruction: Instruction,
    /// Its classes.
    pub classes: Class,
    passes: i32,
    states: u64,
    /// Rules in which it can be the first, and the second instruction.
    first: Rules,
    second: Rules,
    spans: Vec<(Role, Vec<Span>)>,
}

impl Facts {
    /// The facts of an instruction in waves of `lanes` lanes. `banks`: what `s_set_vgpr_msb` has set.
    pub fn new(instruction: &Instruction, lanes: u32, banks: u32) -> Facts {
        let inst = &instruction.inst;
        let classes = classes(inst);
        let mut facts = Facts {
            instruction: instruction.clone(),
            classes,
            passes: passes(inst),
            states: wait_states(inst),
            first: 0,
            second: 0,
            spans: Vec::new(),
        };
        for role in ALWAYS {
            facts.spans.push((role, spans(inst, role, lanes, banks)));
        }
        for (index, rule) in RULES.iter().enumerate() {
            if !rule.targets.contains(&inst.target()) {
                continue;
            }
            let mut fits = |is: bool, role: Option<Role>| {
                is && role.is_none_or(|role| {
                    if facts.of(role).is_none() {
                        facts.spans.push((role, spans(inst, role, lanes, banks)));
                    }
                    facts.of(role).is_some_and(|spans| !spans.is_empty())
                })
            };
            let first = fits(classes.any(rule.first), rule.link.map(|l| l.0));
            let second = classes.any(rule.second) && !classes.any(rule.but);
            let second = fits(second, rule.link.map(|l| l.1));
            facts.first |= Rules::from(first || classes.any(rule.between)) << index;
            facts.second |= Rules::from(second) << index;
        }
        facts
    }

    /// The registers of one of the roles in [`ALWAYS`], or that a rule asks for.
    pub fn spans(&self, role: Role) -> &[Span] {
        self.of(role).unwrap_or_default()
    }

    fn of(&self, role: Role) -> Option<&[Span]> {
        let found = self.spans.iter().find(|(known, _)| *known == role);
        found.map(|(_, spans)| spans.as_slice())
    }
}

/// What has been issued so far.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    instructions: u64,
    states: u64,
    vector: u64,
    trans: u64,
}

/// The instructions of a wave that the next ones may come too close to.
#[derive(Default)]
pub struct Recent {
    clock: Clock,
    /// The number of the instruction before which all vector arithmetic is done.
    done: u64,
    issued: VecDeque<(Arc<Facts>, Clock)>,
}

/// Two instructions that are too close.
pub struct Close {
    /// By which rule.
    pub rule: &'static Rule,
    /// The first.
    pub first: Arc<Facts>,
    /// The register, if there is one.
    pub register: Option<(Option<RegFile>, u16)>,
    /// What lies between them.
    pub have: u64,
    /// What should.
    pub need: u64,
}

/// The registers of both that no later instruction stands for, and whether all registers of the two are the same.
fn shared(
    first: &[Span],
    second: &[Span],
    seen: &mut Vec<(Option<RegFile>, u16)>,
) -> Option<((Option<RegFile>, u16), bool)> {
    let mut found = None;
    for (a, b) in first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a, b)))
    {
        let Some(start) = a.common(b) else { continue };
        let end = (a.first + a.count).min(b.first + b.count);
        for register in start..end {
            let register = (a.file, register);
            if !seen.contains(&register) {
                seen.push(register);
                found.get_or_insert((register, a == b));
            }
        }
    }
    found
}

fn amount(need: Need, first: &Facts, second: &Inst) -> u64 {
    let passes = first.passes;
    let amount = match need {
        Need::Count(n) => n,
        Need::Passes(n) => passes + n,
        Need::PassesOr(two, more) => passes + if passes == 2 { two } else { more },
        Need::IfTwoPasses(n) => n * i32::from(passes == 2),
        Need::WaitVdst => second.field(Name::waitvdst).unwrap_or(0) as i32,
    };
    amount.max(0) as u64
}

/// Whether an instruction issues only when the vector arithmetic before it is done.
fn waits_for_vector(facts: &Facts) -> bool {
    let inst = &facts.instruction.inst;
    facts.classes.any(Class::MEMORY) || depctr(inst).is_some_and(|field| field >> 12 & 15 == 0)
}

/// The field of `s_waitcnt_depctr`, from gfx12 on `s_wait_alu`.
pub fn depctr(inst: &Inst) -> Option<u32> {
    let is = matches!(inst.op(), Op::s_waitcnt_depctr | Op::s_wait_alu);
    is.then(|| inst.field(Name::simm16).unwrap_or(0))
}

impl Recent {
    fn between(&self, rule: &Rule, then: &Clock) -> u64 {
        match rule.unit {
            Unit::States => self.clock.states - then.states,
            Unit::Vector => self.clock.vector - then.vector,
            Unit::VectorDone(trans) => {
                let enough = trans.is_some_and(|n| self.clock.trans - then.trans >= n);
                if enough || then.instructions <= self.done {
                    return FAR;
                }
                self.clock.vector - then.vector
            }
        }
    }

    /// What the next instruction comes too close to.
    pub fn check(&self, next: &Facts) -> Vec<Close> {
        let mut all = Vec::new();
        let mut rules = next.second;
        while rules != 0 {
            let index = rules.trailing_zeros() as usize;
            rules &= rules - 1;
            all.extend(self.nearest(index, next));
        }
        all
    }

    fn nearest(&self, index: usize, next: &Facts) -> Option<Close> {
        let rule = &RULES[index];
        let inst = &next.instruction.inst;
        let mut seen = Vec::new();
        let mut met = rule.between == Class::NONE;
        for (first, then) in self.issued.iter().rev() {
            let have = self.between(rule, then);
            if have >= FAR {
                return None;
            }
            let fits = first.first >> index & 1 != 0 && first.classes.any(rule.first);
            let op = first.instruction.inst.op() == inst.op();
            if fits && met && rule.same_op.is_none_or(|same| same == op) {
                let (register, same) = match rule.link {
                    None => (None, false),
                    Some((role, other)) => {
                        let spans = first.of(role).zip(next.of(other));
                        match spans.and_then(|(a, b)| shared(a, b, &mut seen)) {
                            Some((register, same)) => (Some(register), same),
                            None => continue,
                        }
                    }
                };
                let case = rule.cases.iter().find(|case| {
                    first.classes.any(case.first) && case.same.is_none_or(|s| s == same)
                });
                let need = case.map_or(0, |case| amount(case.need, first, inst));
                if have < need {
                    return Some(Close {
                        rule,
                        first: first.clone(),
                        register,
                        have,
                        need,
                    });
                }
                // By order alone only the nearest counts.
                rule.link?;
            }
            met |= first.classes.any(rule.between);
        }
        None
    }

    /// Notes that an instruction has been issued.
    pub fn issue(&mut self, facts: &Arc<Facts>) {
        self.clock.instructions += 1;
        self.clock.states += facts.states;
        self.clock.vector += u64::from(facts.classes.any(Class::VALU));
        self.clock.trans += u64::from(facts.classes.any(Class::TRANS));
        if waits_for_vector(facts) {
            self.done = self.clock.instructions;
        }
        if facts.first == 0 {
            return;
        }
        let clock = self.clock;
        let old =
            |then: &Clock| clock.states - then.states >= FAR && clock.vector - then.vector >= FAR;
        while self.issued.len() >= REMEMBERED || self.issued.front().is_some_and(|(_, t)| old(t)) {
            self.issued.pop_front();
        }
        self.issued.push_back((facts.clone(), clock));
    }
}

/// What mends a pair of instructions, as assembly text to be put between them.
pub fn mend(close: &Close) -> String {
    let missing = close.need - close.have;
    match close.rule.unit {
        Unit::States => {
            let nops: Vec<String> = (0..missing.div_ceil(16))
                .map(|i| format!("s_nop {}", (missing - 16 * i).min(16) - 1))
                .collect();
            nops.join("; ")
        }
        Unit::Vector => vec!["v_nop"; missing as usize].join("; "),
        Unit::VectorDone(_) if close.rule.second == Class::LDS_DIRECT => {
            format!("wait_vdst:{}", close.have)
        }
        Unit::VectorDone(_) => "s_waitcnt_depctr depctr_va_vdst(0)".to_owned(),
    }
}
