//! The instruction forms of the code that waves came to, numbered as they are met, so that executions can be counted by
//! number.

use std::collections::HashMap;

use rocjitsu_isa::{Format, Op};

use crate::record::{Exactness, Record};

/// An instruction in one encoding. What its modifiers or the wave's mode do to its exactness makes it a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The operation.
    pub op: Op,
    /// The second operation of a dual instruction.
    pub other: Option<Op>,
    /// The encoding.
    pub format: Format,
    /// How close its results are to the hardware's.
    pub exactness: Exactness,
}

impl Form {
    /// The form of a record.
    pub fn of(record: &Record) -> Form {
        Form {
            op: record.inst.op(),
            other: record.inst.op_y(),
            format: record.inst.format(),
            exactness: record.exactness,
        }
    }

    /// The mnemonic; both of a dual instruction.
    pub fn name(&self) -> String {
        match self.other {
            Some(other) => format!("{} :: {}", self.op.name(), other.name()),
            None => self.op.name().to_owned(),
        }
    }
}

/// Forms by number.
#[derive(Debug, Default)]
pub struct Forms {
    known: HashMap<Form, u32>,
    list: Vec<Form>,
}

impl Forms {
    /// The number of a form, a new one if it was not met before.
    pub fn number(&mut self, form: Form) -> u32 {
        *self.known.entry(form).or_insert_with(|| {
            self.list.push(form);
            self.list.len() as u32 - 1
        })
    }

    /// All forms, in the order of their numbers.
    pub fn list(&self) -> &[Form] {
        &self.list
    }
}

/// Executions by the number of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(Vec<u64>);

impl Tally {
    /// Adds executions of a form.
    pub fn add(&mut self, form: u32, times: u64) {
        let at = form as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += times;
    }

    /// Adds those of another tally.
    pub fn join(&mut self, other: &Tally) {
        for (form, times) in other.iter() {
            self.add(form, times);
        }
    }

    /// The forms that executed, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let all = self.0.iter().enumerate();
        all.filter(|(_, times)| **times > 0)
            .map(|(form, times)| (form as u32, *times))
    }

    /// Executions of all forms.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
