//! Tests of the graph.

use super::*;

/// The value of a bitwise node for one bit of each of its leaves.
fn bit(g: &Graph, id: Id, of: &dyn Fn(u32) -> u32) -> u32 {
    let node = g.get(id);
    let arg = |i: usize| {
        if node.args[i] == NONE {
            0
        } else {
            bit(g, node.args[i], of)
        }
    };
    match node.op {
        Op::Row => of(node.imm),
        Op::Const => node.imm & 1,
        Op::Logic => node.imm >> (4 * arg(0) + 2 * arg(1) + arg(2)) & 1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn logic_of_logic_keeps_its_meaning() {
    let tables = [table::AND, table::OR, table::XOR];
    for (t1, t2, t3) in (0..27).map(|i| (i % 3, i / 3 % 3, i / 9)) {
        let mut g = Graph::default();
        let rows: Vec<Id> = (0..4).map(|i| g.leaf(Op::Row, i)).collect();
        let f = |t: usize, x: u32, y: u32| tables[t] >> (4 * x + 2 * y) & 1;
        for picks in 0..256u32 {
            let [i, j, k, l] = [0, 2, 4, 6].map(|s| (picks >> s & 3) as usize);
            let left = g.logic(tables[t1], rows[i], rows[j]);
            let right = g.logic(tables[t2], rows[k], rows[l]);
            let all = g.logic(tables[t3], left, right);
            for bits in 0..16u32 {
                let of = |row: u32| bits >> row & 1;
                let (a, b) = (of(i as u32), of(j as u32));
                let want = f(t3, f(t1, a, b), f(t2, of(k as u32), of(l as u32)));
                assert_eq!(bit(&g, all, &of), want, "{picks:b} {bits:b} {t1} {t2} {t3}");
            }
        }
    }
}

#[test]
fn flushing_twice_is_flushing_once() {
    let mut g = Graph::default();
    let x = g.leaf(Op::Row, 0);
    let flush = |g: &mut Graph, x: Id| {
        let (e, s, zero) = (g.constant(0x7f80_0000), g.constant(1 << 31), g.constant(0));
        let exponent = g.logic(table::AND, x, e);
        let tiny = g.two(Op::CompareI, exponent, zero, 0);
        let sign = g.logic(table::AND, x, s);
        g.three(Op::Select, tiny, sign, x)
    };
    let once = flush(&mut g, x);
    assert_ne!(once, x);
    assert_eq!(flush(&mut g, once), once);
}

/// Sums that cannot be small need no flush, products and differences may.
#[test]
fn what_is_far_from_zero_is_not_flushed() {
    let mut g = Graph::default();
    let flush = |g: &mut Graph, x: Id| {
        let (e, s) = (g.constant(0x7f80_0000), g.constant(1 << 31));
        let tiny = g.two(Op::TestZero, x, e, 0);
        let sign = g.logic(table::AND, x, s);
        g.three(Op::Select, tiny, sign, x)
    };
    let [row, other] = [0, 1].map(|n| g.leaf(Op::Row, n));
    let count = g.one(Op::FromU, row, 0);
    let [four, one, minus, tiny] =
        [4.0, 1.0, -1.0, f32::MIN_POSITIVE / 2.0].map(|k: f32| g.constant(k.to_bits()));
    let sum = g.three(Op::FmaF, count, four, one);
    assert_eq!(flush(&mut g, sum), sum);
    let more = g.three(Op::FmaF, count, sum, sum);
    assert_eq!(flush(&mut g, more), more);
    for (op, args) in [
        (Op::MulF, [count, count, Id::NONE]),
        (Op::MulF, [sum, tiny, Id::NONE]),
        (Op::AddF, [sum, minus, Id::NONE]),
        (Op::AddF, [sum, other, Id::NONE]),
        (Op::FmaF, [count, minus, sum]),
        (Op::FmaF, [count, count, tiny]),
    ] {
        let [a, b, c] = args;
        let small = g.three(op, a, b, c);
        assert_ne!(flush(&mut g, small), small, "{op:?}");
    }
}

/// What packs two f16 and takes them apart again leaves nothing but the conversions, signs included.
#[test]
fn packed_halves_stay_apart() {
    let mut g = Graph::default();
    let rows = [0, 1].map(|n| g.leaf(Op::Row, n));
    let packed = rows.map(|row| g.one(Op::ToF16, row, 0));
    let wide = packed.map(|half| g.one(Op::Widen, half, 0));
    let high = g.one(Op::ShlBy, wide[1], 16);
    let both = g.logic(table::OR, wide[0], high);
    let signs = g.constant(0x8000_8000);
    let turned = g.logic(table::XOR, both, signs);
    let swapped = g.one(Op::RotrBy, both, 16);
    let sign = g.constant(0x8000_0000);
    for (part, half) in packed.into_iter().enumerate() {
        let taken = |g: &mut Graph, word: Id, high: bool| {
            let word = if high {
                g.one(Op::ShrBy, word, 16)
            } else {
                word
            };
            g.one(Op::Narrow, word, 0)
        };
        assert_eq!(taken(&mut g, both, part == 1), half);
        assert_eq!(taken(&mut g, swapped, part == 0), half);
        let f32 = g.one(Op::FromF16, half, 0);
        let negative = g.logic(table::XOR, f32, sign);
        let narrow = taken(&mut g, turned, part == 1);
        assert_eq!(g.one(Op::FromF16, narrow, 0), negative);
    }
    let mask = g.constant(0xffff);
    assert_eq!(g.logic(table::AND, both, mask), wide[0]);
    assert_eq!(g.one(Op::ShrBy, both, 16), wide[1]);
}
