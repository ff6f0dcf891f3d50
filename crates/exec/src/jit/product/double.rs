//! Matrix products of f64. The low and the high words of a number lie in registers of their own.

use iced_x86::{Code, Register};
use rocjitsu_lanes::matrix::Place;

use super::super::assembler::{Arg, CompileError, masked, with2, with3_imm};
use super::{Made, Maker, OF_B, Panel, UNORDERED, pool, zmm};
use crate::matrix::{Product, Start};

impl Maker {
    /// The low and the high words of 16 doubles as two vectors of doubles: four at a time the first two, and the others.
    fn joined(&mut self, first: u32, place: Place, to: [Register; 2]) -> Made {
        let words = self.other();
        let low = self.row(first, place)?;
        self.load(words, low)?;
        let high = self.row(
            first,
            Place {
                register: place.register + 1,
                ..place
            },
        )?;
        let other = self.other();
        self.load(other, high)?;
        let codes = [
            Code::EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32,
        ];
        for (code, to) in codes.into_iter().zip(to) {
            self.three(code, to, words, Arg::Reg(other))?;
        }
        Ok(())
    }

    /// The reverse of [`Maker::joined`]: stores doubles.
    fn part(&mut self, first: u32, place: Place, from: [Register; 2]) -> Made {
        for (i, which) in [0x88, 0xdd].into_iter().enumerate() {
            let to = self.other();
            let code = Code::EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8;
            self.asm
                .put(with3_imm(code, to, from[0], Arg::Reg(from[1]), which))?;
            let register = place.register + i as u32;
            let at = self.row(first, Place { register, ..place })?;
            self.store(at, to)?;
        }
        Ok(())
    }

    /// Products of f64, 16 columns.
    pub fn double(&mut self, product: &Product) -> Made {
        let form = &product.form;
        let [m, n, length] = form.shape();
        if n != 16 || m != 16 || length > 4 || form.blocks() != 1 {
            return Err(CompileError::Room("sums of f64"));
        }
        self.make_room(&[(product.a, 0, 2 * length)])?;
        let a = match self.known(product.a, 0) {
            Some(first) => first,
            None => {
                let first = self.rows(2 * length);
                for k in 0..length {
                    let to = [zmm(0), zmm(1)];
                    self.joined(product.a, form.a(0, 0, k), to)?;
                    self.store(Self::area(first + 2 * k), to[0])?;
                    self.store(Self::area(first + 2 * k + 1), to[1])?;
                }
                self.panels.push(Panel {
                    register: product.a,
                    of: 0,
                    first,
                });
                first
            }
        };
        let b = |k: usize| [zmm(OF_B + 2 * k), zmm(OF_B + 2 * k + 1)];
        for k in 0..length {
            self.joined(product.b, form.b(0, k, 0), b(k))?;
        }
        for first in [0, 8] {
            let sums = |i: usize| [zmm(2 * i), zmm(2 * i + 1)];
            for i in 0..8 {
                match product.c {
                    Start::Register(c) => {
                        self.joined(c, form.d(0, first + i, 0), sums(i))?;
                    }
                    Start::Constant(0) => {
                        for to in sums(i) {
                            let code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                            self.three(code, to, to, Arg::Reg(to))?;
                        }
                    }
                    Start::Constant(_) => return Err(CompileError::Room("a constant of f64")),
                }
            }
            for k in 0..length {
                for i in 0..8 {
                    let row = first + i;
                    let mut at = Self::area(a + 2 * k + row % 4 / 2);
                    at.displacement += (row / 4 * 16 + row % 2 * 8) as i64;
                    let spread = self.other();
                    self.two(Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, spread, Arg::Mem(at))?;
                    for (sum, b) in sums(i).into_iter().zip(b(k)) {
                        let fma = Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
                        self.three(fma, sum, b, Arg::Reg(spread))?;
                    }
                }
            }
            for i in 0..8 {
                let [low, high] = sums(i);
                self.ordered(Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, low, high)?;
            }
            for i in 0..8 {
                self.part(product.d, form.d(0, first + i, 0), sums(i))?;
            }
        }
        Ok(())
    }

    /// Makes NaN of 16 results the one that products give.
    pub fn canonical_double(&mut self, d: u32, place: Place) -> Made {
        let sums = [zmm(0), zmm(1)];
        self.joined(d, place, sums)?;
        for x in sums {
            let k = Register::K1;
            let compare = Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
            self.asm
                .put(with3_imm(compare, k, x, Arg::Reg(x), UNORDERED))?;
            let spread = Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64;
            let nan = Arg::Mem(self.pooled(pool::NAN64));
            self.asm.put(masked(with2(spread, x, nan), k))?;
        }
        self.part(d, place, sums)
    }
}
