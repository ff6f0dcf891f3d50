//! Bitwise functions of three values out of those of two that every host has.

use std::sync::LazyLock;

/// A function of two values that is one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// `a & b`.
    And,
    /// `a | b`.
    Or,
    /// `a ^ b`.
    Xor,
    /// `!a & b`.
    AndNot,
}

impl Gate {
    const ALL: [Gate; 4] = [Gate::And, Gate::Or, Gate::Xor, Gate::AndNot];

    /// Its table as [`rocjitsu_lanes::trace::graph::Op::Logic`] has it.
    pub fn table(self) -> u32 {
        self.of(A, B).into()
    }

    fn of(self, a: u8, b: u8) -> u8 {
        match self {
            Gate::And => a & b,
            Gate::Or => a | b,
            Gate::Xor => a ^ b,
            Gate::AndNot => !a & b,
        }
    }
}

const A: u8 = 0xf0;
const B: u8 = 0xcc;
const C: u8 = 0xaa;

/// How a function is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// One of the values.
    Value(usize),
    /// All bits clear or set.
    All(bool),
    /// A gate over two functions, by their tables.
    Gate(Gate, u8, u8),
}

/// For every table the tree of the fewest gates, with their number.
static TREES: LazyLock<[(u32, Tree); 256]> = LazyLock::new(|| {
    let mut known: Vec<(u8, u32)> = Vec::new();
    let mut trees = [(u32::MAX, Tree::All(false)); 256];
    let leaves = [
        (A, Tree::Value(0)),
        (B, Tree::Value(1)),
        (C, Tree::Value(2)),
        (0, Tree::All(false)),
        (u8::MAX, Tree::All(true)),
    ];
    for (table, leaf) in leaves {
        trees[usize::from(table)] = (0, leaf);
        known.push((table, 0));
    }
    let mut gates = 1;
    while known.len() < trees.len() {
        for at in 0..known.len() {
            for &(b, cost) in &known[..known.len()] {
                let (a, other) = known[at];
                if cost + other + 1 != gates {
                    continue;
                }
                for gate in Gate::ALL {
                    let tree = &mut trees[usize::from(gate.of(a, b))];
                    if tree.0 > gates {
                        *tree = (gates, Tree::Gate(gate, a, b));
                    }
                }
            }
        }
        known.extend((0..=u8::MAX).filter_map(|table| {
            let (cost, _) = trees[usize::from(table)];
            (cost == gates).then_some((table, cost))
        }));
        gates += 1;
    }
    trees
});

/// How the function with that table is made.
pub fn tree(table: u32) -> Tree {
    TREES[table as usize & 0xff].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tree: Tree) -> u8 {
        match tree {
            Tree::Value(at) => [A, B, C][at],
            Tree::All(set) => 0u8.wrapping_sub(set.into()),
            Tree::Gate(gate, a, b) => {
                gate.of(value(super::tree(a.into())), value(super::tree(b.into())))
            }
        }
    }

    fn uses(tree: Tree, at: usize) -> bool {
        match tree {
            Tree::Value(is) => is == at,
            Tree::All(_) => false,
            Tree::Gate(_, a, b) => [a, b].iter().any(|&t| uses(super::tree(t.into()), at)),
        }
    }

    #[test]
    fn every_function_is_made_of_the_values_it_depends_on() {
        for table in 0..=u8::MAX {
            assert_eq!(value(tree(table.into())), table);
            let depends = [(A, 4), (B, 2), (C, 1)].map(|(set, by)| {
                let (when_set, when_clear) = ((table & set) >> by, table & !set);
                when_set != when_clear
            });
            for (at, depends) in depends.into_iter().enumerate() {
                assert_eq!(uses(tree(table.into()), at), depends, "{table:#x}, {at}");
            }
        }
        assert!(TREES.iter().all(|&(gates, _)| gates <= 5));
    }
}
