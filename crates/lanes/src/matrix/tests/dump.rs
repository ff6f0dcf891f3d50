use std::fmt::Write;
use super::super::{Family, Kind, MatrixOp, layout};
#[test]
fn dump() {
    let list = std::fs::read_to_string("/tmp/mic_list.txt").unwrap();
    let mut out = String::new();
    for line in list.lines() {
        let mut p = line.split(' ');
        let (arch, name, wave) = (p.next().unwrap(), p.next().unwrap(), p.next().unwrap().parse::<usize>().unwrap());
        let fam = match arch { "cdna1" => Family::Cdna1, "cdna2" => Family::Cdna2, "cdna3" => Family::Cdna3, "rdna3" => Family::Rdna3, _ => Family::Rdna4 };
        let Some(mut op) = MatrixOp::from_mnemonic(name, fam) else { writeln!(out, "UNKNOWN {line}").unwrap(); continue };
        op.wave = wave;
        let (sa, sb) = (layout::a_split(&op), layout::b_split(&op));
        let fmt = |item: usize, width: usize, lane: usize| format!("{} {} {}", item * width / 32, item * width % 32, lane);
        for b in 0..op.blocks {
            for i in 0..op.m { for k in 0..op.k {
                if op.kind == Kind::Sparse && k % 4 != 0 { continue; }
                let kk = if op.kind == Kind::Sparse { k / 2 } else { k };
                let s = layout::a_slot(&op, sa, b, i, kk);
                writeln!(out, "{line} A {b} {i} {k} {}", fmt(s.item, op.a.bits(), s.lane)).unwrap();
                if op.kind == Kind::Sparse { writeln!(out, "{line} K {b} {i} {k} {}", fmt(s.item, 2, s.lane)).unwrap(); }
            } }
            for k in 0..op.k { for j in 0..op.n {
                let s = layout::b_slot(&op, sb, b, k, j);
                writeln!(out, "{line} B {b} {k} {j} {}", fmt(s.item, op.b.bits(), s.lane)).unwrap();
            } }
            for i in 0..op.m { for j in 0..op.n {
                let s = layout::d_slot(&op, b, i, j);
                let w = if fam == Family::Rdna3 { 32 } else { op.d.bits() };
                writeln!(out, "{line} D {b} {i} {j} {}", fmt(s.item, w, s.lane)).unwrap();
            } }
        }
    }
    std::fs::write("/tmp/layout_dump.txt", out).unwrap();
}
