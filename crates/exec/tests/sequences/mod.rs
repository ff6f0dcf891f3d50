//! Random sequences of lane operations with scalar instructions and memory accesses among them, straight or in loops with
//! branches, executed by the interpreter with plain lanes and as compiled code. Shared by the tests and by the fuzz target.

use std::collections::BTreeMap;

use rocjitsu_exec::code::{CodeCache, CodeView};
use rocjitsu_exec::jit::{Options, Report};
use rocjitsu_exec::lower::{Lowering, State, lower};
use rocjitsu_exec::memory::{AddressSpace, Extent, FaultKind, MemoryPort};
use rocjitsu_exec::record::Class;
use rocjitsu_exec::registers::{PAGE_WORDS, PagePool};
use rocjitsu_exec::run::{Counts, Stop, run};
use rocjitsu_exec::wave::{Cx, Group, Unit, Waiting, Wave, scalar};
use rocjitsu_isa::{Target, decode};
use rocjitsu_lanes::Backend;

/// Address of the first instruction.
pub const BASE: u64 = 0x10_0000;
/// Address of the memory that sequences load from and store to.
const DATA: u64 = 0x20_0000;
/// Its bytes: offsets of 12 bits, and the longest access.
const DATA_BYTES: usize = 4096 + 16;
/// Registers whose contents are compared, more than the encodings below can name.
const REGISTERS: u32 = 48;

/// Everything is compiled at once.
pub const COMPILED: Options = Options {
    enabled: true,
    threshold: 0,
};

/// State of a wave before a sequence.
#[derive(Clone, Debug)]
pub struct Start {
    /// 32 or 64.
    pub lanes: u32,
    /// MODE register.
    pub mode: u32,
    /// Active lanes.
    pub exec: u64,
    /// Contents of registers.
    pub seed: u64,
    /// Instructions in a turn.
    pub quantum: u64,
}

/// The next random number.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A word: anything, or a value at which floats and integers are special.
fn word(state: &mut u64) -> u32 {
    const SPECIAL: [u32; 30] = [
        0,
        1,
        31,
        32,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0001,
        0xffc0_0002,
        0x7f80_0003,
        0xff81_2345,
        0x0000_0007,
        0x807f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x3f80_0000,
        0xbf80_0000,
        0x4f00_0000,
        0x4f80_0000,
        0xcf00_0000,
        0x3c00_7c01,
        0xfe00_fc01,
        0x0001_8400,
        0x7ff0_0000,
        0xfff8_0000,
        0x4b00_0001,
    ];
    let r = next(state);
    let value = (r >> 32) as u32;
    match r & 7 {
        0..=2 => SPECIAL[value as usize % SPECIAL.len()],
        // A number of moderate size.
        3 => value & 0x807f_ffff | (0x3f + (value >> 26 & 3)) << 24,
        4 => value & 63,
        _ => value,
    }
}

/// What a sequence leaves behind.
#[derive(PartialEq)]
struct Outcome {
    vectors: Vec<Vec<u32>>,
    scalars: [u32; scalar::COUNT],
    scc: bool,
    lds: Vec<u8>,
    data: Vec<u8>,
    fault: Option<String>,
    /// At the end of each turn: where the wave is, and what it has executed, by class.
    turns: Vec<(u64, Counts)>,
    /// Executions by instruction.
    forms: BTreeMap<String, u64>,
}

/// Code as memory: where it lies, and its bytes.
pub struct Program(pub *const u8, pub u64);

// SAFETY: used by one thread.
unsafe impl Sync for Program {}

// SAFETY: the code lives as long as the program that executes it.
unsafe impl AddressSpace for Program {
    fn generation(&self) -> u64 {
        0
    }
    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        let end = BASE + self.1;
        if !(BASE..end).contains(&address) {
            return Err(FaultKind::Unmapped);
        }
        Ok(Extent {
            start: BASE,
            end,
            host: self.0.cast_mut(),
            writable: false,
        })
    }
    fn extent_near(&self, _: u64) -> Option<Extent> {
        None
    }
}

/// Code, and memory for data.
struct Space {
    code: Program,
    data: Program,
}

// SAFETY: both live as long as the wave that uses them, and nobody else touches the data meanwhile.
unsafe impl AddressSpace for Space {
    fn generation(&self) -> u64 {
        0
    }
    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        let end = DATA + self.data.1;
        if !(DATA..end).contains(&address) {
            return self.code.find(address);
        }
        Ok(Extent {
            start: DATA,
            end,
            host: self.data.0.cast_mut(),
            writable: true,
        })
    }
    fn extent_near(&self, _: u64) -> Option<Extent> {
        None
    }
}

fn prepare(wave: &mut Wave, pool: &mut PagePool, start: &Start) {
    let mut seed = start.seed;
    wave.mode = start.mode;
    for n in 0..scalar::VCC + 2 {
        wave.s[n] = word(&mut seed);
    }
    wave.s[scalar::M0] = word(&mut seed);
    wave.set_s64(BASE_AT, BASE);
    wave.set_s64(DATA_AT, DATA);
    wave.scc = next(&mut seed) & 1 != 0;
    // Some stay absent, by pages.
    let absent = next(&mut seed) & next(&mut seed);
    for r in 0..REGISTERS {
        if absent >> (r * wave.v.lanes() as u32 / PAGE_WORDS as u32) & 1 != 0 {
            continue;
        }
        for lane in wave.v.write(r, pool).iter_mut() {
            *lane = word(&mut seed);
        }
    }
    wave.set_exec(start.exec);
}

/// Executes a sequence and tells what was compiled.
fn execute(
    target: Target,
    backend: Backend,
    options: Options,
    start: &Start,
    code: &[u8],
) -> (Outcome, Report) {
    let mut data: Vec<u8> = (0..DATA_BYTES).map(|at| ((at * 37) >> 2) as u8).collect();
    let memory = Space {
        code: Program(code.as_ptr(), code.len() as u64),
        data: Program(data.as_mut_ptr(), DATA_BYTES as u64),
    };
    let mut wave = Wave::new(start.lanes);
    let mut group = Group {
        live: 1,
        ..Group::default()
    };
    group.lds.restart(4 * LDS);
    let mut unit = Unit::new(MemoryPort::new(&memory), backend, target);
    // Pages that come from the pool hold what another wave has left there.
    let mut other = Wave::new(start.lanes);
    (0..REGISTERS).for_each(|r| other.v.write(r, &mut unit.pool).fill(0x7fc0_dead));
    other.v.release(&mut unit.pool);
    prepare(&mut wave, &mut unit.pool, start);
    let cache = CodeCache::new(target, backend, options);
    let mut view = CodeView::new(&cache);
    view.count_forms();
    let (mut counts, mut turns) = (Counts::default(), Vec::new());
    wave.pc = BASE;
    while wave.waiting != Waiting::Ended {
        let mut cx = Cx {
            wave: &mut wave,
            group: &group,
            unit: &mut unit,
        };
        let stop = run(&mut cx, &mut view, start.quantum, &mut counts);
        turns.push((wave.pc, counts));
        // An instruction may have changed what a load or the loop goes by.
        if stop == Stop::Fault || turns.len() > 4000 {
            break;
        }
    }
    let fault = unit.fault.take().map(|fault| format!("{fault:?}"));
    let known = cache.forms();
    let tally = view.forms().unwrap_or_default();
    let forms = tally
        .iter()
        .map(|(form, times)| (known[form as usize].name(), times));
    let outcome = Outcome {
        vectors: (0..REGISTERS).map(|r| wave.v.read(r).to_vec()).collect(),
        scalars: wave.s,
        scc: wave.scc,
        lds: group.lds.bytes_mut().to_vec(),
        data,
        fault,
        turns,
        forms: forms.collect(),
    };
    (outcome, cache.compiled().unwrap_or_default())
}

/// An instruction as random numbers: what it is, and its operands.
pub type Shape = (u8, u16, [u8; 4], u8);

/// How many formats [`encode`] knows; the last two are scalar.
pub const FORMATS: u8 = 8;

/// Bytes of an instruction of that shape, if the target has it and executes it as a lane operation or scalar arithmetic.
pub fn encode(
    target: Target,
    start: &Start,
    (format, op, operands, extra): Shape,
) -> Option<Vec<u8>> {
    let gfx9 = target.generation() == 9;
    let op = u32::from(op);
    // Few registers, so that results meet, and now and then more than the host has.
    let vector = |n: u8| match n & 0x40 {
        0 => u32::from(n % 12),
        _ => u32::from(n % 44),
    };
    // Sources of 9 bits: mostly registers, then scalars and constants.
    let source = |n: u8| match n {
        0..=127 => 256 + vector(n),
        128..=175 => u32::from(n % 12),
        176..=183 => scalar::VCC as u32 + u32::from(n & 1),
        184..=215 => 128 + u32::from(n % 80),
        216..=239 => 240 + u32::from(n % 9),
        _ => 255,
    };
    let [a, b, c, d] = operands;
    let literal = [
        0x3f80_0000 ^ u32::from(extra) << 20,
        0x7fc0_0100,
        0x1234_5678,
    ][extra as usize % 3];
    let format = format % FORMATS;
    let mut words = match format {
        0 => vec![(op & 0x3f) << 25 | vector(d) << 17 | vector(b) << 9 | source(a)],
        1 => vec![0x7e00_0000 | vector(d) << 17 | (op & 0xff) << 9 | source(a)],
        2 => vec![0x7c00_0000 | (op & 0xff) << 17 | vector(b) << 9 | source(a)],
        3 => {
            let prefix = if gfx9 { 0xd000_0000 } else { 0xd400_0000 };
            // Modifiers now and then; for those with two results, bits 14:8 name the mask.
            let modifiers = if extra & 0xc0 == 0 {
                u32::from(extra) << 8 & 0x700
            } else {
                0
            };
            let more = if extra & 0x30 == 0 {
                u32::from(extra & 15) << 27
            } else {
                0
            };
            vec![
                prefix | (op & 0x3ff) << 16 | modifiers | vector(d),
                source(c) << 18 | source(b) << 9 | source(a) | more,
            ]
        }
        5 => sdwa(op, operands, extra, vector),
        6 | 7 => vec![scalar_word(format, op, operands)],
        _ => {
            let prefix = if gfx9 { 0xd380_0000 } else { 0xcc00_0000 };
            vec![
                prefix | (op & 0x7f) << 16 | 1 << 14 | vector(d),
                3 << 27 | source(c) << 18 | source(b) << 9 | source(a),
            ]
        }
    };
    // Of the short formats some read their first source from other lanes.
    if format < 3 && (244..=254).contains(&a) {
        const ROW: [u32; 6] = [0x01b, 0x0e4, 0x101, 0x112, 0x124, 0x141];
        let control = ROW[usize::from(c) % 6] | u32::from(c >> 7);
        let masks = if d & 0x80 != 0 { 0xff } else { 0xf5 };
        words[0] = words[0] & !0x1ff | 250;
        words.push(masks << 24 | u32::from(extra & 1) << 19 | control << 8 | vector(c));
    }
    let wants_literal = |n: u8| source(n) == 255;
    let literals = [a, b, c].map(wants_literal);
    let wants = match format {
        0..=2 => words.len() == 1 && literals[0],
        5 => false,
        6 | 7 => words[0] & 0xff == 255 || words[0] >> 8 & 0xff == 255,
        _ => literals.contains(&true),
    };
    if wants {
        words.push(literal);
    }
    let bytes = bytes(&words);
    let inst = decode(target, target.execution_set(start.lanes), &bytes).ok()?;
    let mut wave = Wave::new(start.lanes);
    wave.mode = start.mode;
    let state = State::of(&wave);
    let record = lower(inst, 0, &mut Lowering::new(target, Backend::Scalar, state));
    let runs = matches!(record.class, Class::Valu | Class::Salu) && !record.ends_block;
    runs.then(|| bytes[..inst.len()].to_vec())
}

/// An instruction with sub-dword addressing, in the encoding of gfx9.
fn sdwa(op: u32, [a, b, c, d]: [u8; 4], extra: u8, vector: impl Fn(u8) -> u32) -> Vec<u32> {
    const SDWA: u32 = 249;
    let head = match op >> 8 & 3 {
        0 | 1 => (op & 0x3f) << 25 | vector(d) << 17 | vector(b) << 9 | SDWA,
        2 => 0x7e00_0000 | vector(d) << 17 | (op & 0xff) << 9 | SDWA,
        _ => 0x7c00_0000 | (op & 0xff) << 17 | vector(b) << 9 | SDWA,
    };
    let selectors = (u32::from(c) % 7) | (u32::from(extra & 0x3f) % 7) << 8;
    // A comparison has the mask that it writes where others have what happens to the result.
    let result = if op >> 8 & 3 == 3 {
        u32::from(c & 0x80) | u32::from(c % 12)
    } else {
        u32::from(extra % 7) | (u32::from(c >> 6) % 3) << 3
    };
    let signs = u32::from(extra >> 6 & 1) << 19 | u32::from(extra >> 7) << 27;
    vec![head, vector(a) | result << 8 | selectors << 16 | signs]
}

/// A scalar instruction: format 6 with two sources, format 7 a comparison or one with one source.
fn scalar_word(format: u8, op: u32, [a, b, c, d]: [u8; 4]) -> u32 {
    // Few registers, VCC, M0, EXEC, NULL, constants.
    let register = |n: u8| match n & 0x3f {
        0 => scalar::EXEC as u32,
        1..=6 => scalar::VCC as u32 + u32::from(n & 1),
        7 => [scalar::M0, scalar::NULL, scalar::EXEC + 1, scalar::M0][usize::from(n >> 6)] as u32,
        _ => u32::from(n % 12),
    };
    let source = |n: u8| match n {
        0..=159 => register(n),
        160..=239 => 128 + u32::from(n % 80),
        240..=250 => 240 + u32::from(n % 9),
        251..=254 => u32::from(n),
        255 => 255,
    };
    // From 0x60 on the bits are those of other formats.
    let two = if op & 0x60 == 0x60 {
        op & 0x5f
    } else {
        op & 0x7f
    };
    match (format, op & 0x300) {
        (6, _) => 0x8000_0000 | two << 23 | register(d) << 16 | source(b) << 8 | source(a),
        (_, 0) => 0xbf00_0000 | (op & 0x3f) << 16 | source(b) << 8 | source(a),
        (_, 0x100) => {
            0xb000_0000 | (op & 0x1f) << 23 | register(d) << 16 | u32::from(b) << 8 | u32::from(c)
        }
        _ => 0xbe80_0000 | register(d) << 16 | (op & 0x7f) << 8 | source(a),
    }
}

/// Words of LDS.
const LDS: usize = 1024;

/// An access to LDS or to memory whose address is made good first, a scalar load of the code or of the data. Few of the
/// addresses stay as they are, so that most of those accesses fault. These are none of compiled code's own.
pub fn memory(target: Target, (kind, address, data): (u8, u8, u8)) -> Vec<u8> {
    let gfx9 = target.generation() == 9;
    let (address, data) = (u32::from(address % 12), u32::from(data % 12));
    let and = if gfx9 { 0x2600_00ff } else { 0x3600_00ff };
    let masked = [and | address << 17 | address << 9, 4 * (LDS as u32 - 1)];
    let scalar_load = |base: usize| match target.generation() {
        9 => vec![0xc002_0000 | data << 6 | (base as u32 / 2), 4],
        _ => vec![0xf400_0000 | data << 6 | (base as u32 / 2), 0xf800_0004],
    };
    // ds_write_b32, ds_read_b32.
    let ds = |op: u32| 0xd800_0000 | op << if gfx9 { 17 } else { 18 };
    // One word or four, which begin at an even register on gfx90a.
    let four = u32::from(kind >> 4 & 1) * 3;
    let data = if four > 0 { data & !1 } else { data };
    let base = DATA_AT as u32;
    let access = match kind % 6 {
        0 => return bytes(&scalar_load(BASE_AT)),
        1 => return bytes(&scalar_load(DATA_AT)),
        2 => vec![ds(13), address | data << 8],
        3 => vec![ds(54), address | data << 24],
        store => {
            let store = store == 5;
            match (target.generation(), store) {
                (9, true) => vec![
                    0xdc00_8000 | (28 + four) << 18,
                    address | data << 8 | base << 16,
                ],
                (9, false) => vec![
                    0xdc00_8000 | (20 + four) << 18,
                    address | base << 16 | data << 24,
                ],
                (11, true) => vec![
                    0xdc02_0000 | (26 + four) << 18,
                    address | data << 8 | base << 16,
                ],
                (11, false) => vec![
                    0xdc02_0000 | (20 + four) << 18,
                    address | base << 16 | data << 24,
                ],
                (_, true) => vec![0xee00_0000 | (26 + four) << 14 | base, data << 23, address],
                (_, false) => vec![0xee00_0000 | (20 + four) << 14 | base, data, address],
            }
        }
    };
    let wild = kind >> 3 == 31;
    let masked = if wild { &[] } else { &masked[..] };
    bytes(&[masked, &access].concat())
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Registers that no instruction of [`encode`] writes: they hold [`BASE`].
const BASE_AT: usize = 96;
/// They hold [`DATA`].
const DATA_AT: usize = 98;
/// Another one.
const COUNTER: u32 = 100;

/// Makes a loop of a sequence, with branches in it: each looks at what `kind` says, stands at a place and goes forward
/// over some instructions. It has few turns, so that all of it becomes hot, and with `sleeps` gives up its turn in each.
pub fn looped(
    target: Target,
    body: Vec<Vec<u8>>,
    branches: &[(u8, u8, u8)],
    sleeps: bool,
) -> Vec<Vec<u8>> {
    const TURNS: u32 = 24;
    let gfx9 = target.generation() == 9;
    let sopp = |op: u32, immediate: u16| 0xbf80_0000 | op << 16 | u32::from(immediate);
    // s_branch, then s_cbranch_ scc0, scc1, vccz, vccnz, execz, execnz.
    let op = |kind: u8| match (gfx9, kind % 7) {
        (true, 0) => 2,
        (true, kind) => 3 + u32::from(kind),
        (false, kind) => 32 + u32::from(kind),
    };
    let bytes = |word: u32| bytes(&[word]);
    // Branches stand before the instruction at their place, and go to what stands at another.
    let mut parts: Vec<(Vec<u8>, Option<usize>)> = Vec::new();
    let mut starts = Vec::new();
    for (at, instruction) in body.iter().enumerate() {
        starts.push(parts.len());
        for &(kind, place, length) in branches {
            if usize::from(place) % body.len() == at {
                let to = at + usize::from(length % 12);
                parts.push((bytes(sopp(op(kind), 0)), Some(to)));
            }
        }
        parts.push((instruction.clone(), None));
    }
    let end = parts.len();
    if sleeps {
        parts.push((bytes(sopp(if gfx9 { 14 } else { 3 }, 1)), None));
    }
    // s_sub_u32 and s_cmp_lg_u32; back if that is so.
    parts.push((bytes(0x8080_8100 | COUNTER << 16 | COUNTER), None));
    parts.push((bytes(0xbf07_8000 | COUNTER), None));
    let place = |part: usize| parts[..part].iter().map(|(b, _)| b.len()).sum::<usize>() as i64 / 4;
    let mut code = vec![
        [0xbe80_00ff | COUNTER << 16, TURNS]
            .map(u32::to_le_bytes)
            .concat(),
    ];
    for (at, (instruction, to)) in parts.iter().enumerate() {
        let mut instruction = instruction.clone();
        if let Some(to) = to {
            let to = place(starts.get(*to).copied().unwrap_or(end));
            let distance = to - place(at) - 1;
            instruction[..2].copy_from_slice(&(distance as i16).to_le_bytes());
        }
        code.push(instruction);
    }
    let distance = -place(parts.len()) - 1;
    code.push(bytes(sopp(op(2), distance as u16)));
    code
}

/// The back ends of this host that runs are compiled for.
pub fn compilers() -> impl Iterator<Item = Backend> {
    Backend::supported().filter(|&backend| backend != Backend::Scalar)
}

/// Executes a sequence interpreted by plain lanes, and compiled for every back end, and compares what is left behind.
/// Tells what was compiled for each.
///
/// # Panics
/// They differ.
pub fn check(target: Target, start: &Start, code: &[Vec<u8>]) -> Vec<(Backend, Report)> {
    let mut bytes = code.concat();
    let end: u32 = if target.generation() == 9 {
        0xbf81_0000
    } else {
        0xbfb0_0000
    };
    bytes.extend(end.to_le_bytes());
    let (want, _) = execute(target, Backend::Scalar, Options::OFF, start, &bytes);
    let compare = |backend| {
        let (got, report) = execute(target, backend, COMPILED, start, &bytes);
        if got != want {
            panic!(
                "{backend}: {}",
                difference(target, start, code, &got, &want)
            );
        }
        (backend, report)
    };
    compilers().map(compare).collect()
}

/// What is left behind otherwise than it should be.
fn difference(
    target: Target,
    start: &Start,
    code: &[Vec<u8>],
    got: &Outcome,
    want: &Outcome,
) -> String {
    let set = target.execution_set(start.lanes);
    let text: Vec<String> = code
        .iter()
        .map(|c| decode(target, set, c).map_or_else(|e| e.to_string(), |i| i.text(set)))
        .collect();
    let mut differ = Vec::new();
    for (r, (g, w)) in got.vectors.iter().zip(&want.vectors).enumerate() {
        for (lane, (g, w)) in g
            .iter()
            .zip(w)
            .enumerate()
            .filter(|(_, (g, w))| g != w)
            .take(2)
        {
            differ.push(format!("v{r}[{lane}]: {g:#x}, not {w:#x}"));
        }
    }
    for (n, (g, w)) in got.scalars.iter().zip(&want.scalars).enumerate() {
        if g != w {
            differ.push(format!("s{n}: {g:#x}, not {w:#x}"));
        }
    }
    if got.fault != want.fault {
        differ.push(format!("{:?}, not {:?}", got.fault, want.fault));
    }
    if got.lds != want.lds {
        differ.push("LDS".to_owned());
    }
    if let Some(at) = got.data.iter().zip(&want.data).position(|(g, w)| g != w) {
        differ.push(format!("memory from byte {at:#x} on"));
    }
    if got.scc != want.scc {
        differ.push(format!("scc: {}", got.scc));
    }
    for (n, (g, w)) in got.turns.iter().zip(&want.turns).enumerate() {
        if g != w {
            differ.push(format!("turn {n}: {g:x?}, not {w:x?}"));
            break;
        }
    }
    for (name, times) in &want.forms {
        let got = got.forms.get(name).copied().unwrap_or_default();
        if got != *times {
            differ.push(format!("{name}: {got} times, not {times}"));
        }
    }
    format!(
        "{target} {start:x?}\n  {}\n{}",
        text.join("\n  "),
        differ.join("\n")
    )
}

/// EXEC: all lanes, none, some.
pub fn exec(kind: u8, bits: u64) -> u64 {
    match kind % 4 {
        0 => u64::MAX,
        1 => 0,
        2 => bits & 0xffff_0000_0000_ffff,
        _ => bits,
    }
}
