//! The commands behind GDB's `monitor`.

use std::fmt::Write as _;

use rocjitsu_exec::record::PRIVATE_BASE;
use rocjitsu_exec::wave::Waiting;
use rocjitsu_gpu::dispatch::Who;
use rocjitsu_gpu::queue::loaded_code;
use rocjitsu_isa::{Target, decode};

use crate::debugger::Debugger;
use crate::program::Next;

const HELP: &str = "\
waves                       all waves under way: thread, workgroup, wave, where, what they wait for
lds ADDR LEN [THREAD]       bytes of the LDS of the thread's workgroup
disasm [ADDR [COUNT]]       instructions, from the current thread's pc on if nothing else is said
lane [N|auto]               the lane whose scratch is at scratch addresses (auto: the first active one), and where
code                        where the code object lies
symbols [TEXT]              symbols of the code object in memory, those with TEXT in their names
fault                       why the dispatch stopped
help                        this
THREAD, ADDR, LEN, COUNT: decimal, or hexadecimal with 0x
";
/// Those of a program's debugger.
const PROGRAM: &str = "\
kernels                     the kernels that have been dispatched: entry, how often
dispatches                  the last dispatches: number, kernel, GPU, what has become of them
stop [next|off|TEXT]        the next dispatch, or the next of a kernel with TEXT in its name, stops at its beginning
";

/// Most bytes or instructions that one command shows.
const MOST: u64 = 1 << 16;

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is no number\n"))
}

impl Debugger<'_> {
    /// What a command says.
    pub(crate) fn monitor(&mut self, command: &[u8]) -> String {
        let command = String::from_utf8_lossy(command);
        let words: Vec<&str> = command.split_whitespace().collect();
        let said = match words.as_slice() {
            [] | ["help"] => Ok(self.help()),
            ["waves"] => Ok(self.waves()),
            ["lds", address, length] => self.show_lds(address, length, None),
            ["lds", address, length, thread] => self.show_lds(address, length, Some(thread)),
            ["disasm"] => self.disassemble(None, None),
            ["disasm", address] => self.disassemble(Some(address), None),
            ["disasm", address, count] => self.disassemble(Some(address), Some(count)),
            ["lane"] => Ok(self.lane_text()),
            ["lane", lane] => self.choose_lane(lane),
            ["code"] => Ok(format!(
                "addresses of the file + {:#x}; the kernel's entry is {:#x}\n",
                self.facts.bias, self.facts.entry
            )),
            ["symbols"] => Ok(self.symbols("")),
            ["symbols", part] => Ok(self.symbols(part)),
            ["fault"] => Ok(match &self.fault {
                Some(fault) => format!("{fault}\n"),
                None => "none\n".to_owned(),
            }),
            words => self.of_program(words).ok_or_else(|| {
                let all = self.help();
                format!("`{}` is none of these:\n{all}", command.trim())
            }),
        };
        said.unwrap_or_else(|wrong| wrong)
    }

    fn help(&self) -> String {
        match self.program {
            Some(_) => format!("{HELP}{PROGRAM}"),
            None => HELP.to_owned(),
        }
    }

    /// What a command of a program's debugger says; `None` if it is none.
    fn of_program(&self, words: &[&str]) -> Option<String> {
        let program = self.program.as_ref()?;
        match words {
            ["kernels"] => return Some(program.kernels()),
            ["dispatches"] => return Some(program.dispatches()),
            ["stop"] => {}
            ["stop", "off"] => program.stop_at(None),
            ["stop", "next"] => program.stop_at(Some(Next::Any)),
            ["stop", kernel] => program.stop_at(Some(Next::Kernel((*kernel).to_owned()))),
            _ => return None,
        }
        Some(program.next_text())
    }

    fn symbols(&self, part: &str) -> String {
        let code = loaded_code(self.runner.device().memory(), self.facts.entry);
        let Some(code) = code else {
            return "memory holds no table of symbols before the kernel\n".to_owned();
        };
        let mut text = String::new();
        let wanted = code.symbols.iter().filter(|(name, _)| name.contains(part));
        for (name, address) in wanted.take(MOST as usize) {
            let _ = writeln!(text, "{address:#x} {name}");
        }
        text
    }

    /// What a client is told of a wave in its list of threads.
    pub(crate) fn describe(&self, who: Who) -> String {
        let group = self.suspended.as_ref().and_then(|s| s.group(who.0));
        let wave = group.and_then(|group| group.waves().get(who.1 as usize));
        let (Some(group), Some(wave)) = (group, wave) else {
            return "not under way".to_owned();
        };
        let [x, y, z] = group.id();
        let waits = match wave.waiting {
            Waiting::No | Waiting::Turn | Waiting::Order => "",
            Waiting::Barrier(_) if group.is_ready(wave) => "",
            Waiting::Barrier(_) => ", waits at a barrier",
            Waiting::Gws(_) => ", waits for global wave sync",
            Waiting::Ended => ", ended",
        };
        format!("workgroup {x},{y},{z} wave {}{waits}", wave.index)
    }

    fn waves(&self) -> String {
        let mut text = String::new();
        for at in self.all() {
            let who = (at.workgroup, at.wave);
            let mark = if who == self.current { '*' } else { ' ' };
            let exec = self.wave(who).map_or(0, |wave| wave.exec());
            let _ = writeln!(
                text,
                "{mark} thread {} {}, pc {:#x}, exec {exec:#x}",
                self.tid(who),
                self.describe(who),
                at.pc
            );
        }
        if self.suspended.is_none() {
            text.push_str("no dispatch is under way\n");
        }
        if let Some(suspended) = &self.suspended {
            let _ = writeln!(
                text,
                "{} of {} workgroups started, {} ended, {} wave instructions",
                suspended.started(),
                suspended.total(),
                suspended.finished(),
                suspended.statistics().total()
            );
        }
        text
    }

    fn show_lds(
        &self,
        address: &str,
        length: &str,
        thread: Option<&str>,
    ) -> Result<String, String> {
        let (address, length) = (number(address)?, number(length)?.min(MOST));
        let who = match thread {
            None => self.current,
            Some(thread) => {
                let tid = usize::try_from(number(thread)?).ok();
                let tid = tid.and_then(gdbstub::common::Tid::new);
                self.who(tid.ok_or("no such thread\n")?)
            }
        };
        let lds = self
            .lds(who)
            .ok_or("the workgroup is not under way, or has no LDS\n")?;
        let bytes = lds.get(usize::try_from(address).unwrap_or(usize::MAX)..);
        let bytes = bytes.filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| format!("the workgroup has {} bytes\n", lds.len()))?;
        let bytes = bytes.get(..length as usize).unwrap_or(bytes);
        let mut text = String::new();
        for (row, bytes) in bytes.chunks(16).enumerate() {
            let _ = write!(text, "{:#07x}:", address + 16 * row as u64);
            for word in bytes.chunks(4) {
                text.push(' ');
                for byte in word.iter().rev() {
                    let _ = write!(text, "{byte:02x}");
                }
            }
            text.push('\n');
        }
        Ok(text)
    }

    fn disassemble(&self, address: Option<&str>, count: Option<&str>) -> Result<String, String> {
        let pc = self.wave(self.current).map(|wave| wave.pc);
        let mut at = match address {
            Some(address) => number(address)?,
            None => pc.ok_or("no wave is under way\n")?,
        };
        let count = count.map_or(Ok(8), number)?.min(MOST);
        let target = self.runner.device().target();
        let set = target.execution_set(self.facts.lanes);
        let mut text = String::new();
        for _ in 0..count {
            // The longest instruction has six words; fewer may be mapped.
            let mut bytes = [0; 24];
            let got = self.read_memory(self.current, at, &mut bytes) & !3;
            if got == 0 {
                let _ = writeln!(text, "   {at:#x}: not mapped");
                break;
            }
            let bytes = bytes.get(..got).unwrap_or_default();
            let mark = if Some(at) == pc { "->" } else { "  " };
            let (line, length) = match decode(target, set, bytes) {
                Ok(inst) => (inst.text(set), inst.len() as u64),
                Err(_) => {
                    let word = bytes.first_chunk().copied().unwrap_or_default();
                    (format!(".long {:#010x}", u32::from_le_bytes(word)), 4)
                }
            };
            let _ = writeln!(text, "{mark} {at:#x}: {line}");
            let Some(next) = at.checked_add(length) else {
                break;
            };
            at = next;
        }
        Ok(text)
    }

    fn choose_lane(&mut self, lane: &str) -> Result<String, String> {
        self.lane = match lane {
            "auto" => None,
            lane => {
                let lane = number(lane)?;
                let lanes = self.facts.lanes;
                if lane >= lanes.into() {
                    return Err(format!("a wave has {lanes} lanes\n"));
                }
                Some(lane as u32)
            }
        };
        Ok(self.lane_text())
    }

    fn lane_text(&self) -> String {
        let how = if self.lane.is_some() {
            ""
        } else {
            " (the first active one)"
        };
        let lane = self.lane_of(self.current);
        let scratch = match self.wave(self.current) {
            Some(wave) if wave.scratch == 0 => "which has no scratch".to_owned(),
            None => "no wave is under way".to_owned(),
            Some(wave) if self.runner.device().target() == Target::Gfx1250 => {
                let address = wave.flat_scratch_base() + (u64::from(lane) << 52);
                format!("scratch at {address:#x}")
            }
            Some(_) => format!("scratch at {PRIVATE_BASE:#x}"),
        };
        format!("lane {lane}{how}, {scratch}\n")
    }
}
