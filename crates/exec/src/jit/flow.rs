//! Blocks that go to each other as one function of this host: lane operations in compiled runs, scalar instructions and
//! branches in place, everything else by its handler.

use std::mem::offset_of;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rocjitsu_isa::{RegFile, RegRange};

use super::assembler::CompileError;
use super::chain::{MEMBERS, Member, When, branch};
use super::general::{self, Condition, General, Label, Reg, WAVE};
use super::native::Code as Lanes;
use super::scalar::{self, Scalars};
use super::{Area, Piece};
use crate::record::{Class, Flow, Record, Step};
use crate::run::gives_way;
use crate::wave::{Cx, Wave};

/// What a function is called with, and what it leaves behind.
#[repr(C)]
pub struct Frame {
    /// What handlers are called with.
    pub cx: *mut (),
    /// The wave.
    pub wave: *mut Wave,
    /// What compiled lane operations have besides the wave.
    pub area: *mut Area,
    /// Instructions that are left of the turn; blocks go on to the next one while it is above zero.
    pub left: i64,
    /// How often each block was begun.
    pub turns: [u64; MEMBERS],
}

/// A function: gives [`super::chain::Exit`] as a number.
pub type Entry = unsafe extern "sysv64" fn(*mut Frame) -> u64;

fn number(flow: Flow) -> u64 {
    match flow {
        Flow::Next => 0,
        Flow::Jump => 1,
        Flow::Wait => 2,
        Flow::Again => 3,
        Flow::Fault => 4,
    }
}

/// Executes a record by its handler.
///
/// # Safety
/// `cx` is a [`Cx`] and nobody else uses it meanwhile.
unsafe extern "sysv64" fn handle(cx: *mut (), record: *const Record) -> u64 {
    // SAFETY: the caller's promise; the record belongs to a block that the function keeps.
    let (cx, record) = unsafe { (&mut *cx.cast::<Cx<'_, '_>>(), &*record) };
    execute(cx, record)
}

/// Executes a record by its handler. A panic cannot pass through compiled code, which has no tables for it: it goes on where
/// that was called ([`super::chain::Chain::run`]).
#[inline(always)]
fn execute(cx: &mut Cx<'_, '_>, record: &Record) -> u64 {
    match catch_unwind(AssertUnwindSafe(|| (record.run)(cx, record))) {
        Ok(flow) => number(flow),
        Err(panic) => {
            cx.unit.panic = Some(panic);
            number(Flow::Fault)
        }
    }
}

/// As [`handle`], for [`Step::Memory`].
///
/// # Safety
/// As for [`handle`].
unsafe extern "sysv64" fn handle_memory(cx: *mut (), record: *const Record) -> u64 {
    // SAFETY: as in `handle`.
    let (cx, record) = unsafe { (&mut *cx.cast::<Cx<'_, '_>>(), &*record) };
    if gives_way(cx, record) {
        return number(Flow::Again);
    }
    execute(cx, record)
}

/// Makes pages of registers exist.
///
/// # Safety
/// As for [`handle`]; `code` belongs to a block that the function keeps.
unsafe extern "sysv64" fn claim(cx: *mut (), code: *const Lanes, full: u64) {
    // SAFETY: the caller's promise.
    let (cx, code) = unsafe { (&mut *cx.cast::<Cx<'_, '_>>(), &*code) };
    code.claim(full != 0, &mut cx.wave.v, &mut cx.unit.pool);
}

/// Whether compiled code does a record itself, that is no lane operation.
pub fn knows(record: &Record) -> bool {
    branch(record).is_some() || scalar::knows(record)
}

/// About the most bytes that [`emit`] gives.
pub fn bound(members: &[Member]) -> usize {
    let records = |member: &Member| member.body.records.len();
    1024 + members
        .iter()
        .map(|m| 256 + 192 * records(m))
        .sum::<usize>()
}

/// Compiles blocks for waves of `lanes` lanes, of which the first is where the function begins; the code will lie at
/// `address`.
pub fn emit(members: &[Member], lanes: u32, address: u64) -> Result<Vec<u8>, CompileError> {
    let mut asm = General::new(address);
    let starts = members.iter().map(|_| asm.label()).collect();
    let mut function = Function {
        members,
        lanes,
        starts,
        leave: asm.label(),
        done: asm.label(),
        aside: Vec::new(),
        scalars: Scalars::default(),
        asm,
    };
    function.begin()?;
    for at in 0..members.len() {
        function.member(at)?;
    }
    function.end()?;
    function.asm.finish()
}

/// Code that is seldom executed and stands behind the rest.
#[derive(Clone, Copy)]
enum Aside {
    /// Lane operations with some lanes inactive, and where execution goes on.
    Partial {
        code: *const Lanes,
        /// Whether the pages that they write are known to exist.
        claimed: bool,
        begin: Label,
        back: Label,
    },
    /// Pages of registers that lane operations are about to write and that do not exist yet.
    Claim {
        code: *const Lanes,
        full: bool,
        begin: Label,
        back: Label,
    },
    /// Products with operands that they were not compiled for: by their handlers.
    Handlers {
        begin: Label,
        back: Label,
        member: usize,
        first: usize,
        count: usize,
    },
    /// A record left the function.
    Exit {
        begin: Label,
        member: usize,
        at: usize,
    },
    /// The turn is over, or the next block is not in the function.
    Leave { begin: Label, pc: u64 },
}

struct Function<'m> {
    members: &'m [Member],
    lanes: u32,
    asm: General,
    scalars: Scalars,
    /// Where each block begins.
    starts: Vec<Label>,
    /// Behind a whole block, the address of the next one being in the wave.
    leave: Label,
    /// The end, with the result in its register.
    done: Label,
    aside: Vec<Aside>,
}

/// Registers that a function keeps: the wave's, the frame's, the area's, instructions that are left.
const KEPT: [Register; 4] = [WAVE, FRAME, AREA, LEFT];
const FRAME: Register = Register::RBX;
const AREA: Register = Register::R13;
const LEFT: Register = Register::R14;

fn framed(offset: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(FRAME, offset as i64)
}

impl Function<'_> {
    fn begin(&mut self) -> Result<(), CompileError> {
        let asm = &mut self.asm;
        for register in KEPT {
            asm.put(Instruction::with1(Code::Push_r64, register))?;
        }
        // What it calls finds the stack at a multiple of 16.
        asm.put(Instruction::with2(Code::Sub_rm64_imm8, Register::RSP, 8))?;
        asm.put(Instruction::with2(Code::Mov_r64_rm64, FRAME, Reg::DI.q()))?;
        for (register, offset) in [
            (WAVE, offset_of!(Frame, wave)),
            (AREA, offset_of!(Frame, area)),
            (LEFT, offset_of!(Frame, left)),
        ] {
            asm.put(Instruction::with2(
                Code::Mov_r64_rm64,
                register,
                framed(offset),
            ))?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), CompileError> {
        // Some add others.
        let mut next = 0;
        while let Some(aside) = self.aside.get(next).copied() {
            next += 1;
            match aside {
                Aside::Partial {
                    code,
                    claimed,
                    begin,
                    back,
                } => {
                    self.asm.bind(begin);
                    self.lanes(code, false, claimed)?;
                    self.asm.jump(back)?;
                }
                Aside::Claim {
                    code,
                    full,
                    begin,
                    back,
                } => {
                    self.asm.bind(begin);
                    let cx = framed(offset_of!(Frame, cx));
                    self.asm
                        .put(Instruction::with2(Code::Mov_r64_rm64, Reg::DI.q(), cx))?;
                    self.asm
                        .constant(Reg::SI, code.expose_provenance() as u64)?;
                    self.asm.constant(Reg::D, full.into())?;
                    let function: unsafe extern "sysv64" fn(_, _, _) = claim;
                    self.asm.call(function as usize as u64)?;
                    self.asm.jump(back)?;
                }
                Aside::Handlers {
                    begin,
                    back,
                    member,
                    first,
                    count,
                } => {
                    self.asm.bind(begin);
                    (first..first + count).try_for_each(|at| self.handle(member, at))?;
                    self.asm.jump(back)?;
                }
                Aside::Exit { begin, member, at } => {
                    self.asm.bind(begin);
                    let which = (at << 16 | member << 8) as i32;
                    self.asm
                        .put(Instruction::with2(Code::Or_rm32_imm32, Reg::A.d(), which))?;
                    self.asm.jump(self.done)?;
                }
                Aside::Leave { begin, pc } => {
                    self.asm.bind(begin);
                    self.set_pc(pc)?;
                    self.asm.jump(self.leave)?;
                }
            }
        }
        self.asm.bind(self.leave);
        self.asm.constant(Reg::A, number(Flow::Next))?;
        self.asm.bind(self.done);
        let left = framed(offset_of!(Frame, left));
        self.asm
            .put(Instruction::with2(Code::Mov_rm64_r64, left, LEFT))?;
        self.asm
            .put(Instruction::with2(Code::Add_rm64_imm8, Register::RSP, 8))?;
        for register in KEPT.into_iter().rev() {
            self.asm.put(Instruction::with1(Code::Pop_r64, register))?;
        }
        self.asm.put(Ok(Instruction::with(Code::Retnq)))
    }

    fn set_pc(&mut self, pc: u64) -> Result<(), CompileError> {
        self.asm.constant(Reg::A, pc)?;
        self.asm.put(Instruction::with2(
            Code::Mov_rm64_r64,
            general::pc(),
            Reg::A.q(),
        ))
    }

    /// One block.
    fn member(&mut self, at: usize) -> Result<(), CompileError> {
        let member = &self.members[at];
        let body = &member.body;
        self.asm.bind(self.starts[at]);
        self.scalars.forget();
        let turns = framed(offset_of!(Frame, turns) + 8 * at);
        self.asm.put(Instruction::with1(Code::Inc_rm64, turns))?;
        let unread = unread(&member.pieces.list, &body.records, self.lanes);
        let mut told = false;
        let mut claimed = 0;
        for (piece, unread) in member.pieces.list.iter().zip(unread) {
            let n = match piece {
                // Behind the rest, see below.
                Piece::Code(_) if member.pieces.inner.is_some() => continue,
                Piece::Code(code) => {
                    self.run(code, code.pages() & !claimed == 0)?;
                    claimed |= code.pages();
                    continue;
                }
                Piece::Products(products) => {
                    let code = &products.code;
                    self.scalars.forget();
                    self.lanes(code, true, code.pages() & !claimed == 0)?;
                    claimed |= code.pages();
                    if products.guarded {
                        self.otherwise(at, &products.records)?;
                    }
                    continue;
                }
                Piece::Record(n) => *n,
            };
            let record = &body.records[n];
            if branch(record).is_some() || self.scalars.emit(&mut self.asm, record, unread)? {
                continue;
            }
            if !told {
                // Handlers may find the address of the next block in the wave, and those of jumps change it.
                self.set_pc(body.end)?;
                told = true;
            }
            self.handle(at, n)?;
        }
        let count = body.records.len() as i32;
        let Some(last) = body.records.last() else {
            return self.asm.jump(self.leave);
        };
        if let Some(inner) = &member.pieces.inner {
            return self.turn(at, inner);
        }
        match branch(last) {
            None if last.ends_block => {
                if !told {
                    self.set_pc(body.end)?;
                }
                self.asm
                    .put(Instruction::with2(Code::Sub_rm64_imm32, LEFT, count))?;
                self.asm.jump(self.leave)
            }
            None | Some(When::Never) => self.edge(body.end, count),
            Some(When::Always) => self.edge(last.imm as u64, count),
            Some(when) => {
                let condition = self.condition(when)?;
                let taken = self.asm.label();
                self.asm.jump_if(condition, taken)?;
                self.edge(body.end, count)?;
                self.asm.bind(taken);
                self.edge(last.imm as u64, count)
            }
        }
    }

    /// The end of a block that is a loop: its lane operations, for another turn or for the last one.
    fn turn(&mut self, at: usize, inner: &Lanes) -> Result<(), CompileError> {
        let member = &self.members[at];
        let (records, end) = (&member.body.records, member.body.end);
        let code = member.pieces.list.iter().find_map(|piece| match piece {
            Piece::Code(code) => Some(code),
            Piece::Record(_) | Piece::Products(_) => None,
        });
        let when = records.last().and_then(branch);
        let (Some(code), Some(when)) = (code, when) else {
            return Err(CompileError::Room("no loop"));
        };
        let count = records.len() as i32;
        let condition = self.condition(when)?;
        let (taken, over) = (self.asm.label(), self.asm.label());
        self.asm.jump_if(condition, taken)?;
        self.run(code, false)?;
        self.edge(end, count)?;
        self.asm.bind(taken);
        self.asm
            .put(Instruction::with2(Code::Sub_rm64_imm32, LEFT, count))?;
        self.asm.jump_if(Condition::Le, over)?;
        self.run(inner, false)?;
        self.asm.jump(self.starts[at])?;
        self.asm.bind(over);
        self.run(code, false)?;
        self.set_pc(member.body.pc())?;
        self.asm.jump(self.leave)
    }

    /// The condition of the host under which a branch is taken.
    fn condition(&mut self, when: When) -> Result<Condition, CompileError> {
        match when {
            When::Scc(set) => {
                let mut condition = self.scalars.scc(&mut self.asm)?;
                if !set && !condition.has_opposite() {
                    self.scalars.forget();
                    condition = self.scalars.scc(&mut self.asm)?;
                }
                Ok(if set { condition } else { condition.not() })
            }
            When::Mask(n, zero) => {
                let compare = if self.lanes == 64 {
                    Code::Cmp_rm64_imm8
                } else {
                    Code::Cmp_rm32_imm8
                };
                self.asm
                    .put(Instruction::with2(compare, general::word(n), 0))?;
                Ok(if zero { Condition::E } else { Condition::Ne })
            }
            When::Always | When::Never => Err(CompileError::Room("no condition")),
        }
    }

    /// The end of a block of `count` instructions: goes to the block at `pc`.
    fn edge(&mut self, pc: u64, count: i32) -> Result<(), CompileError> {
        self.asm
            .put(Instruction::with2(Code::Sub_rm64_imm32, LEFT, count))?;
        let begin = self.asm.label();
        self.aside.push(Aside::Leave { begin, pc });
        let next = self.members.iter().position(|m| m.body.pc() == pc);
        let Some(next) = next else {
            return self.asm.jump(begin);
        };
        self.asm.jump_if(Condition::Le, begin)?;
        self.asm.jump(self.starts[next])
    }

    /// A run of lane operations: for all lanes, or for any. `claimed` says that the pages that it writes exist.
    fn run(&mut self, code: &Lanes, claimed: bool) -> Result<(), CompileError> {
        self.scalars.forget();
        let all = if self.lanes == 64 {
            Code::Cmp_rm64_imm8
        } else {
            Code::Cmp_rm32_imm8
        };
        self.asm.put(Instruction::with2(all, general::exec(), -1))?;
        let (begin, back) = (self.asm.label(), self.asm.label());
        self.asm.jump_if(Condition::Ne, begin)?;
        self.lanes(code, true, claimed)?;
        self.asm.bind(back);
        self.aside.push(Aside::Partial {
            code,
            claimed,
            begin,
            back,
        });
        Ok(())
    }

    /// Calls compiled lane operations.
    fn lanes(&mut self, code: *const Lanes, full: bool, claimed: bool) -> Result<(), CompileError> {
        // SAFETY: it belongs to a block that the function keeps.
        let (entries, pages) = unsafe { ((*code).entries(), (*code).pages()) };
        if !claimed && pages != 0 {
            let (begin, back) = (self.asm.label(), self.asm.label());
            let present = general::present();
            self.asm
                .put(Instruction::with2(Code::Mov_r32_rm32, Reg::A.d(), present))?;
            self.asm
                .put(Instruction::with2(Code::And_rm32_imm32, Reg::A.d(), pages))?;
            self.asm
                .put(Instruction::with2(Code::Cmp_rm32_imm32, Reg::A.d(), pages))?;
            self.asm.jump_if(Condition::Ne, begin)?;
            self.asm.bind(back);
            self.aside.push(Aside::Claim {
                code,
                full,
                begin,
                back,
            });
        }
        let arguments = [
            Instruction::with2(Code::Lea_r64_m, Reg::DI.q(), general::pages()),
            Instruction::with2(Code::Lea_r64_m, Reg::SI.q(), general::word(0)),
            Instruction::with2(Code::Mov_r64_rm64, Reg::D.q(), AREA),
        ];
        for argument in arguments {
            self.asm.put(argument)?;
        }
        self.asm.call(entries[usize::from(!full)])
    }

    /// Behind code of products: has their handlers do them if it has not.
    fn otherwise(&mut self, member: usize, records: &Range<usize>) -> Result<(), CompileError> {
        let (begin, back) = (self.asm.label(), self.asm.label());
        let test = Instruction::with2(Code::Test_rm32_r32, Reg::A.d(), Reg::A.d());
        self.asm.put(test)?;
        self.asm.jump_if(Condition::Ne, begin)?;
        self.asm.bind(back);
        self.aside.push(Aside::Handlers {
            begin,
            back,
            member,
            first: records.start,
            count: records.len(),
        });
        Ok(())
    }

    /// Calls the handler of a record.
    fn handle(&mut self, member: usize, at: usize) -> Result<(), CompileError> {
        self.scalars.forget();
        let record = &self.members[member].body.records[at];
        let handler = match record.step {
            Step::Memory => handle_memory,
            _ => handle as unsafe extern "sysv64" fn(*mut (), *const Record) -> u64,
        };
        let cx = framed(offset_of!(Frame, cx));
        self.asm
            .put(Instruction::with2(Code::Mov_r64_rm64, Reg::DI.q(), cx))?;
        let address = std::ptr::from_ref(record).expose_provenance();
        self.asm.constant(Reg::SI, address as u64)?;
        self.asm.call(handler as usize as u64)?;
        let begin = self.asm.label();
        // The last record of a block may have set the address of the next one.
        let most = number(if record.ends_block {
            Flow::Jump
        } else {
            Flow::Next
        });
        self.asm.put(Instruction::with2(
            Code::Cmp_rm32_imm8,
            Reg::A.d(),
            most as i32,
        ))?;
        self.asm.jump_if(Condition::A, begin)?;
        self.aside.push(Aside::Exit { begin, member, at });
        Ok(())
    }
}

/// Of each piece whether nobody reads the SCC that it gives.
fn unread(pieces: &[Piece], records: &[Record], lanes: u32) -> Vec<bool> {
    let mut unread = vec![false; pieces.len()];
    let mut wanted = true;
    for (at, piece) in pieces.iter().enumerate().rev() {
        let Piece::Record(n) = piece else { continue };
        let record = &records[*n];
        if record.class != Class::Salu || !scalar::knows(record) {
            wanted = true;
            continue;
        }
        let effects = record.inst.effects(lanes);
        let scc = |ranges: &[RegRange]| ranges.iter().any(|r| r.file == RegFile::Scc);
        unread[at] = !wanted;
        if scc(&effects.writes) {
            wanted = false;
        }
        wanted |= scc(&effects.reads);
    }
    unread
}
