//! What each PM4 packet does. Sources: the packet headers of the amdgpu driver (`soc15d.h`, `nvd.h`,
//! `pm4_headers_ai.h`). Work before a packet has ended when it begins, so fences and flushes of caches do nothing.

use rocjitsu_isa::Target;

use super::registers::{self, SH_START, UCONFIG_START};
use super::{Cx, Effect, Frame, Interpreter, Trouble, error};
use crate::queue::Engine;
use crate::queue::atomic::Atomic;
use crate::queue::ring::{compare, long};

/// A type-3 NOP of the largest count is one word long.
const NOP_ONE_WORD: u32 = 0x3fff;

/// Words of the packet that begins with `header`.
pub fn length(header: u32) -> Result<u32, Trouble> {
    match header >> 30 {
        3 if header >> 8 & 0xff == 0x10 && header >> 16 & 0x3fff == NOP_ONE_WORD => Ok(1),
        3 => Ok((header >> 16 & 0x3fff) + 2),
        // A filler.
        2 => Ok(1),
        kind => Err(Trouble::packet(
            error::PACKET_FORMAT,
            format!("a PM4 packet of type {kind}: {header:#010x}; types 2 and 3 are known"),
        )),
    }
}

fn name(opcode: u32) -> Option<&'static str> {
    Some(match opcode {
        0x10 => "NOP",
        0x15 => "DISPATCH_DIRECT",
        0x1e => "ATOMIC_MEM",
        0x23 => "PRED_EXEC",
        0x37 => "WRITE_DATA",
        0x3c => "WAIT_REG_MEM",
        0x3f => "INDIRECT_BUFFER",
        0x40 => "COPY_DATA",
        0x46 => "EVENT_WRITE",
        0x49 => "RELEASE_MEM",
        0x50 => "DMA_DATA",
        0x58 => "ACQUIRE_MEM",
        0x76 => "SET_SH_REG",
        0x79 => "SET_UCONFIG_REG",
        _ => return None,
    })
}

/// The words of a packet behind its header.
struct Packet<'a> {
    name: &'static str,
    words: &'a [u32],
}

impl Packet<'_> {
    fn wrong(&self, what: &str) -> Trouble {
        Trouble::packet(
            error::PACKET_FORMAT,
            format!(
                "PM4 {}: {what}; its words are {:#x?}",
                self.name, self.words
            ),
        )
    }

    /// The first `N` words.
    fn take<const N: usize>(&self) -> Result<[u32; N], Trouble> {
        let words = self.words.get(..N).and_then(|words| words.try_into().ok());
        words.ok_or_else(|| self.wrong(&format!("{} words, {N} belong to it", self.words.len())))
    }
}

impl Interpreter {
    /// Executes a packet, all its words given.
    pub(super) fn packet(&mut self, cx: &mut Cx<'_>, words: &[u32]) -> Result<Effect, Trouble> {
        let Some((&header, words)) = words.split_first() else {
            return Ok(Effect::Next);
        };
        if header >> 30 == 2 {
            return Ok(Effect::Next);
        }
        let opcode = header >> 8 & 0xff;
        let Some(name) = name(opcode) else {
            return Err(Trouble::packet(
                error::PACKET_FORMAT,
                format!(
                    "a PM4 packet with opcode {opcode:#04x} ({header:#010x}), which is not implemented"
                ),
            ));
        };
        cx.platform.packet(Engine::Pm4, name);
        let p = Packet { name, words };
        match opcode {
            0x10 => Ok(Effect::Next),
            0x46 => event_write(&p),
            0x15 => {
                let [x, y, z, initiator] = p.take()?;
                self.dispatch(cx, [x, y, z], initiator)?;
                Ok(Effect::Next)
            }
            0x1e => atomic_mem(cx, &p),
            0x23 => {
                let [control] = p.take()?;
                // A queue of all XCCs is executed once: what any of them does, is done.
                let mine = self.xcc.map_or(0xff, |xcc| 1 << (xcc & 7));
                Ok(match control >> 24 & mine {
                    0 => Effect::Skip(control & 0x3fff),
                    _ => Effect::Next,
                })
            }
            0x37 => self.write_data(cx, &p),
            0x3c => self.wait_reg_mem(cx, &p),
            0x3f => {
                let [low, high, control] = p.take()?;
                if control >> 23 & 1 == 0 {
                    return Err(p.wrong("the buffer is not VALID (bit 23)"));
                }
                let frame = Frame {
                    address: long(low & !3, high & 0xffff),
                    left: control & 0xf_ffff,
                };
                Ok(match control >> 20 & 1 {
                    0 => Effect::Enter(frame),
                    _ => Effect::Chain(frame),
                })
            }
            0x40 => self.copy_data(cx, &p),
            0x49 => release_mem(cx, &p),
            0x50 => dma_data(cx, &p),
            0x58 => acquire_mem(cx, &p),
            _ => self.set_registers(
                cx.device.target(),
                &p,
                if opcode == 0x76 {
                    SH_START
                } else {
                    UCONFIG_START
                },
            ),
        }
    }

    fn set_registers(
        &mut self,
        target: Target,
        p: &Packet<'_>,
        start: u32,
    ) -> Result<Effect, Trouble> {
        let [first] = p.take()?;
        for (register, &value) in (start + (first & 0xffff)..).zip(&p.words[1..]) {
            self.set_register(target, p, register, value)?;
        }
        Ok(Effect::Next)
    }

    fn set_register(
        &mut self,
        target: Target,
        p: &Packet<'_>,
        register: u32,
        value: u32,
    ) -> Result<(), Trouble> {
        known(target, p, register)?;
        if let Some(what) = registers::asks_for(register).filter(|_| value != 0) {
            return Err(p.wrong(&format!(
                "register {register:#x} = {value:#x} asks for {what}, which is not simulated"
            )));
        }
        self.registers.set(register, value);
        Ok(())
    }

    fn register(&self, target: Target, p: &Packet<'_>, register: u32) -> Result<u32, Trouble> {
        known(target, p, register)?;
        Ok(self.registers.get(register))
    }

    fn write_data(&mut self, cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
        let [control, low, high] = p.take()?;
        let data = &p.words[3..];
        // ADDR_INCR: all words to the same address.
        let step = u32::from(control & 1 << 16 == 0);
        match control >> 8 & 0xf {
            0 => {
                for (i, &value) in data.iter().enumerate() {
                    let register = low.wrapping_add(step.wrapping_mul(i as u32));
                    self.set_register(cx.device.target(), p, register, value)?;
                }
            }
            2 | 5 => {
                let base = long(low & !3, high);
                for (i, &value) in data.iter().enumerate() {
                    cx.bus
                        .store32(base.wrapping_add(4 * u64::from(step) * i as u64), value)?;
                }
            }
            other => return Err(p.wrong(&format!("destination {other}"))),
        }
        Ok(Effect::Next)
    }

    fn wait_reg_mem(&mut self, cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
        let [control, low, high, reference, mask, _interval] = p.take()?;
        let function = control & 7;
        let met = |value: u32| {
            compare(function, value & mask, reference)
                .ok_or_else(|| p.wrong(&format!("function {function}")))
        };
        match (control >> 4 & 3, control >> 6 & 3) {
            (1, 0) => {
                let value = cx.bus.load32(long(low & !3, high))?;
                Ok(if met(value)? {
                    Effect::Next
                } else {
                    Effect::Wait
                })
            }
            // Write GPU_HDP_FLUSH_REQ, wait for GPU_HDP_FLUSH_DONE, which follows it on all GPUs (`nbio_*_offset.h`): a flush of
            // the host data path, which has nothing to do here.
            (0, 1) if high == low.wrapping_add(1) => Ok(Effect::Next),
            (0, 1) => Err(p.wrong("a request that is no flush of the host data path")),
            (0, 0) => {
                let value = self.register(cx.device.target(), p, low & 0x3_ffff)?;
                // Nobody but packets changes registers: what is not so now will never be.
                if met(value)? {
                    return Ok(Effect::Next);
                }
                Err(p.wrong(&format!(
                    "register {low:#x} is {value:#x} and nothing here will change it"
                )))
            }
            (space, operation) => {
                Err(p.wrong(&format!("operation {operation} on memory space {space}")))
            }
        }
    }

    fn copy_data(&mut self, cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
        let [control, src_low, src_high, dst_low, dst_high] = p.take()?;
        let wide = control >> 16 & 1 == 1;
        let align = if wide { !7 } else { !3 };
        let value = match control & 0xf {
            0 | 4 => {
                let (target, register) = (cx.device.target(), src_low & 0x3_ffff);
                let low = self.register(target, p, register)?;
                match wide {
                    true => long(low, self.register(target, p, register + 1)?),
                    false => low.into(),
                }
            }
            1 | 2 if wide => cx.bus.load64(long(src_low & align, src_high))?,
            1 | 2 => cx.bus.load32(long(src_low & align, src_high))?.into(),
            5 => long(src_low, src_high),
            9 | 10 => cx.platform.clock(),
            other => return Err(p.wrong(&format!("source {other}"))),
        };
        let address = long(dst_low & align, dst_high);
        match control >> 8 & 0xf {
            0 | 4 => {
                let target = cx.device.target();
                self.set_register(target, p, dst_low, value as u32)?;
                if wide {
                    let high = (value >> 32) as u32;
                    self.set_register(target, p, dst_low.wrapping_add(1), high)?;
                }
            }
            1 | 2 | 5 if wide => cx.bus.store64(address, value)?,
            1 | 2 | 5 => cx.bus.store32(address, value as u32)?,
            other => return Err(p.wrong(&format!("destination {other}"))),
        }
        Ok(Effect::Next)
    }
}

fn known(target: Target, p: &Packet<'_>, register: u32) -> Result<(), Trouble> {
    if registers::is_known(target, register) {
        return Ok(());
    }
    Err(p.wrong(&format!(
        "register {register:#x} is none of a compute dispatch; what it does is not simulated"
    )))
}

/// Events that only flush, which is done: CS_PARTIAL_FLUSH, CACHE_FLUSH, CACHE_FLUSH_AND_INV_EVENT (VGT_EVENT_TYPE of the register
/// headers). Others write counters to memory or belong to traces, counters and graphics.
fn event_write(p: &Packet<'_>) -> Result<Effect, Trouble> {
    let [control] = p.take()?;
    let (event, index) = (control & 0x3f, control >> 8 & 0xf);
    match (event, index) {
        (0x07, 0 | 4) | (0x06 | 0x16, 0 | 7) if p.words.len() == 1 => Ok(Effect::Next),
        _ => Err(p.wrong(&format!(
            "event {event:#x} with index {index}, which does more than a flush"
        ))),
    }
}

fn atomic_mem(cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
    let [control, low, high, src_low, src_high, cmp_low, cmp_high] = p.take()?;
    let atomic = Atomic::from_number(control & 0x7f)
        .ok_or_else(|| p.wrong(&format!("operation {:#x}", control & 0x7f)))?;
    let command = control >> 8 & 0xf;
    let done = atomic.apply(
        &mut cx.bus,
        long(low, high),
        long(src_low, src_high),
        long(cmp_low, cmp_high),
    )?;
    Ok(match command {
        // Loop until the comparison is satisfied.
        1 if !done.matched => Effect::Wait,
        _ => Effect::Next,
    })
}

fn release_mem(cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
    let [event, select, low, high, data_low, data_high] = p.take()?;
    let (event, index) = (event & 0x3f, event >> 8 & 0xf);
    // CACHE_FLUSH_TS, CACHE_FLUSH_AND_INV_TS_EVENT, BOTTOM_OF_PIPE_TS at the end of the pipe; CS_DONE at the shader's.
    if !matches!((event, index), (0x04 | 0x14 | 0x28, 5) | (0x2f, 6)) {
        return Err(p.wrong(&format!(
            "event {event:#x} with index {index}, which is no end of work"
        )));
    }
    // 0 and 1 are memory, past the L2 cache or in it.
    if select >> 16 & 3 > 1 {
        return Err(p.wrong(&format!("destination {}", select >> 16 & 3)));
    }
    if select >> 24 & 7 > 3 {
        return Err(p.wrong(&format!("interrupt selection {}", select >> 24 & 7)));
    }
    // Some headers leave the last word out where it is not used.
    let context = p.words.get(6).copied().unwrap_or(0);
    let address = long(low, high);
    match select >> 29 {
        0 => {}
        1 => cx.bus.store32(address & !3, data_low)?,
        2 => cx.bus.store64(address & !7, long(data_low, data_high))?,
        3 | 4 => {
            let now = cx.platform.clock();
            cx.bus.store64(address & !7, now)?;
        }
        other => return Err(p.wrong(&format!("data selection {other}"))),
    }
    // 1: an interrupt, 2: an interrupt after the write, 3: only the write, confirmed.
    if matches!(select >> 24 & 7, 1 | 2) {
        cx.platform.interrupt(context);
    }
    Ok(Effect::Next)
}

/// Caches are coherent here; only decoded code can be stale.
fn acquire_mem(cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
    let code = if cx.device.target().generation() == 9 {
        let [control, ..] = p.take::<6>()?;
        control & 1 << 29 != 0
    } else {
        let [.., gcr] = p.take::<7>()?;
        gcr & 3 != 0
    };
    if code {
        cx.device.invalidate_code();
    }
    Ok(Effect::Next)
}

fn dma_data(cx: &mut Cx<'_>, p: &Packet<'_>) -> Result<Effect, Trouble> {
    let [control, src_low, src_high, dst_low, dst_high, command] = p.take()?;
    let bytes = u64::from(command & 0x3ff_ffff);
    let to = long(dst_low, dst_high);
    // SAS, DAS: registers instead of memory.
    if command & (3 << 26) != 0 || !matches!(control >> 20 & 3, 0 | 3) {
        return Err(p.wrong("a destination or source that is not memory"));
    }
    // SAIC, DAIC: the same address again and again.
    if command & (3 << 28) != 0 {
        return Err(p.wrong("addresses that do not grow"));
    }
    match control >> 29 & 3 {
        0 | 3 => cx.copy(to, long(src_low, src_high), bytes)?,
        2 => cx.fill(to, src_low, bytes)?,
        other => return Err(p.wrong(&format!("source {other}"))),
    }
    Ok(Effect::Next)
}
