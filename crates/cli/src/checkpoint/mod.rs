//! Checkpoints of launches: what is kept of one, and how it becomes a launch again. `file` has the bytes around it.
//!
//! All that a launch needs to end as it would have is in the file; of the host only what was asked for, so that another one
//! may have other threads and lanes. Nothing that is read is believed: counts and places are checked where they are used.

pub mod file;

use anyhow::{Context, Result, bail, ensure};
use rocjitsu_gpu::code_object::{CodeObject, LoadOptions, Loaded};
use rocjitsu_gpu::dispatch::Image;
use rocjitsu_gpu::memory::MapImage;
use rocjitsu_isa::Target;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::commands::gpu::Request;
use crate::launch::compare::Tolerance;
use crate::launch::description::Direction;
use crate::launch::element::ElementType;
use crate::launch::kernarg::Kernarg;
use crate::launch::place::{Compiled, Placed, Statistics};
use crate::launch::{Buffer, Golden, Launch};
use crate::runs::{LISTED, Runs};
use rocjitsu_kfd::FormCount;

/// The state in a checkpoint.
#[derive(Serialize, Deserialize)]
pub struct State {
    launch: LaunchState,
    placed: PlacedState,
    /// What was asked of the host.
    pub request: Request,
    /// The GPU's allocations.
    pub map: MapImage,
    /// Global wave sync.
    pub global_sync: Vec<[u64; 4]>,
    /// Dispatches that the launch is to make.
    pub repeat: u32,
    runs: RunsState,
    /// The dispatch under way.
    pub suspended: Option<Image>,
    before: Vec<FormState>,
}

#[derive(Serialize, Deserialize)]
struct LaunchState {
    name: String,
    code: ByteBuf,
    target: String,
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    lds_dynamic: u32,
    private_bytes: u32,
    buffers: Vec<BufferState>,
    arguments: Vec<Option<u32>>,
    expected_instructions: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct BufferState {
    name: String,
    element: String,
    shape: Vec<u64>,
    content: ByteBuf,
    direction: u8,
    golden: Option<GoldenState>,
}

#[derive(Serialize, Deserialize)]
struct GoldenState {
    sha256: String,
    content: Option<ByteBuf>,
    /// Relative and absolute tolerance; none: bit for bit.
    close: Option<(f64, f64)>,
}

#[derive(Serialize, Deserialize)]
struct PlacedState {
    bias: u64,
    address: u64,
    bytes: u64,
    kernarg: u64,
    kernarg_bytes: u32,
    packet: u64,
    queue: u64,
    buffers: Vec<u64>,
}

/// What is known of the dispatches that have ended.
#[derive(Serialize, Deserialize)]
struct RunsState {
    count: u32,
    instructions: u64,
    by_class: Vec<(String, u64)>,
    peak_register_pages: u64,
    seconds: Vec<f64>,
    total_seconds: f64,
    fastest: Option<RunState>,
}

/// What a dispatch that has ended did.
#[derive(Serialize, Deserialize)]
struct RunState {
    wave_instructions: u64,
    by_class: Vec<(String, u64)>,
    waves: u64,
    seconds: f64,
    peak_register_pages: u64,
    lane_back_end: String,
    bounded: u64,
    by_default: u64,
    forms: Vec<FormState>,
}

/// Executions of an instruction form.
#[derive(Serialize, Deserialize)]
struct FormState {
    instruction: String,
    encoding: String,
    exactness: String,
    reason: Option<String>,
    count: u64,
}

const DIRECTIONS: [Direction; 4] = [
    Direction::In,
    Direction::Out,
    Direction::InOut,
    Direction::Scratch,
];

impl BufferState {
    fn of(buffer: &Buffer) -> BufferState {
        BufferState {
            name: buffer.name.clone(),
            element: buffer.element.name().to_owned(),
            shape: buffer.shape.iter().map(|&extent| extent as u64).collect(),
            content: ByteBuf::from(buffer.content.as_slice()),
            direction: DIRECTIONS
                .iter()
                .position(|&direction| direction == buffer.direction)
                .unwrap_or_default() as u8,
            golden: buffer.golden.as_ref().map(|golden| GoldenState {
                sha256: golden.sha256.clone(),
                content: golden.content.as_deref().map(ByteBuf::from),
                close: match golden.tolerance {
                    Tolerance::Exact {} => None,
                    Tolerance::Close { rtol, atol } => Some((rtol, atol)),
                },
            }),
        }
    }

    fn restore(self) -> Result<Buffer> {
        let element = ElementType::from_name(&self.element)
            .with_context(|| format!("`{}` is no element type", self.element))?;
        let direction = DIRECTIONS.get(usize::from(self.direction));
        let direction = *direction.context("a buffer that is neither input nor output")?;
        let shape: Vec<usize> = self
            .shape
            .iter()
            .map(|&extent| usize::try_from(extent))
            .collect::<Result<_, _>>()?;
        let elements = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        let bytes = elements.and_then(|count| count.checked_mul(element.bytes()));
        ensure!(
            bytes == Some(self.content.len()),
            "{} bytes in a buffer of {shape:?} elements of {}",
            self.content.len(),
            element.name()
        );
        let golden = match self.golden {
            None => None,
            Some(golden) => {
                let content = golden.content.map(ByteBuf::into_vec);
                let fits = content
                    .as_ref()
                    .is_none_or(|c| c.len() == self.content.len());
                ensure!(fits, "expected content of another size");
                Some(Golden {
                    sha256: golden.sha256,
                    content,
                    tolerance: match golden.close {
                        None => Tolerance::Exact {},
                        Some((rtol, atol)) => Tolerance::Close { rtol, atol },
                    },
                })
            }
        };
        Ok(Buffer {
            name: self.name,
            element,
            shape,
            content: self.content.into_vec(),
            given: true,
            direction,
            golden,
        })
    }
}

impl LaunchState {
    fn of(launch: &Launch) -> LaunchState {
        LaunchState {
            name: launch.name.clone(),
            code: ByteBuf::from(launch.code.data()),
            target: launch.code.target().name().to_owned(),
            kernel: launch.kernel.name.clone(),
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            lds_dynamic: launch.lds_dynamic,
            private_bytes: launch.private_bytes,
            buffers: launch.buffers.iter().map(BufferState::of).collect(),
            arguments: launch
                .arguments
                .iter()
                .map(|a| a.map(|n| n as u32))
                .collect(),
            expected_instructions: launch.expected_instructions,
        }
    }

    fn restore(self) -> Result<Launch> {
        let target: Target = self.target.parse()?;
        let options = LoadOptions {
            run_as: Some(target),
        };
        let code = CodeObject::parse(self.code.into_vec(), &options)?;
        let kernel = code.kernel(&self.kernel)?.clone();
        let mut buffers = Vec::new();
        for buffer in self.buffers {
            let name = buffer.name.clone();
            let buffer = buffer.restore();
            buffers.push(buffer.with_context(|| format!("buffer `{name}`"))?);
        }
        let arguments: Vec<_> = self
            .arguments
            .iter()
            .map(|a| a.map(|n| n as usize))
            .collect();
        if let Some(number) = arguments.iter().flatten().find(|&&n| n >= buffers.len()) {
            bail!("an argument points to buffer {number} of {}", buffers.len());
        }
        let launch = Launch {
            name: self.name,
            code,
            kernel,
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            lds_dynamic: self.lds_dynamic,
            private_bytes: self.private_bytes,
            // It lies in memory already.
            kernarg: Kernarg {
                bytes: 0,
                align: 1,
                fields: Vec::new(),
            },
            buffers,
            arguments,
            expected_instructions: self.expected_instructions,
        };
        launch.check_geometry()?;
        Ok(launch)
    }
}

impl PlacedState {
    fn of(placed: &Placed) -> PlacedState {
        let Loaded {
            bias,
            address,
            bytes,
        } = placed.code;
        PlacedState {
            bias,
            address,
            bytes,
            kernarg: placed.kernarg_address,
            kernarg_bytes: placed.kernarg_bytes,
            packet: placed.packet_address,
            queue: placed.queue_address,
            buffers: placed.buffers.clone(),
        }
    }

    fn restore(self, launch: &Launch) -> Result<Placed> {
        ensure!(
            self.buffers.len() == launch.buffers.len(),
            "{} addresses of {} buffers",
            self.buffers.len(),
            launch.buffers.len()
        );
        let code = Loaded {
            bias: self.bias,
            address: self.address,
            bytes: self.bytes,
        };
        let segments = launch.segments()?;
        Ok(Placed {
            descriptor_address: code.descriptor_address(&launch.kernel),
            entry_address: code.entry_address(&launch.kernel),
            code,
            kernarg_address: self.kernarg,
            kernarg_bytes: self.kernarg_bytes,
            packet_address: self.packet,
            queue_address: self.queue,
            group_segment_bytes: segments.group,
            private_segment_bytes: segments.private,
            buffers: self.buffers,
        })
    }
}

impl RunsState {
    fn of(runs: &Runs) -> RunsState {
        RunsState {
            count: runs.count,
            instructions: runs.instructions,
            by_class: runs.by_class.clone().into_iter().collect(),
            peak_register_pages: runs.peak_register_pages,
            seconds: runs.seconds.clone(),
            total_seconds: runs.total_seconds,
            fastest: runs.fastest.as_ref().map(RunState::of),
        }
    }

    fn restore(self) -> Result<Runs> {
        let listed = self.seconds.len();
        ensure!(
            listed == LISTED.min(self.count as usize)
                && (self.count == 0) == self.fastest.is_none(),
            "the times of {listed} dispatches of {}",
            self.count
        );
        let counts = [self.instructions, self.peak_register_pages].into_iter();
        let counts = counts.chain(self.fastest.iter().flat_map(RunState::counts));
        ensure!(counts.max() <= Some(MOST), "counts beyond {MOST}");
        Ok(Runs {
            count: self.count,
            instructions: self.instructions,
            by_class: self.by_class.into_iter().collect(),
            peak_register_pages: self.peak_register_pages,
            seconds: self.seconds,
            total_seconds: self.total_seconds,
            fastest: self.fastest.map(RunState::restore),
        })
    }
}

impl RunState {
    fn counts(&self) -> [u64; 5] {
        [
            self.wave_instructions,
            self.waves,
            self.peak_register_pages,
            self.bounded,
            self.by_default,
        ]
    }

    fn of(run: &Statistics) -> RunState {
        RunState {
            wave_instructions: run.wave_instructions,
            by_class: run.by_class.clone().into_iter().collect(),
            waves: run.waves,
            seconds: run.seconds,
            peak_register_pages: run.peak_register_pages,
            lane_back_end: run.lane_back_end.clone(),
            bounded: run.bounded,
            by_default: run.by_default,
            forms: run.forms.iter().map(FormState::of).collect(),
        }
    }

    fn restore(self) -> Statistics {
        Statistics {
            wave_instructions: self.wave_instructions,
            by_class: self.by_class.into_iter().collect(),
            waves: self.waves,
            seconds: self.seconds,
            peak_register_pages: self.peak_register_pages,
            lane_back_end: self.lane_back_end,
            bounded: self.bounded,
            by_default: self.by_default,
            forms: self.forms.into_iter().map(FormState::restore).collect(),
            compiled: Compiled::No {
                why: "it ran before the checkpoint".to_owned(),
            },
        }
    }
}

impl FormState {
    fn of(form: &FormCount) -> FormState {
        FormState {
            instruction: form.instruction.clone(),
            encoding: form.encoding.clone(),
            exactness: form.exactness.to_string(),
            reason: form.reason.as_ref().map(ToString::to_string),
            count: form.count,
        }
    }

    fn restore(self) -> FormCount {
        FormCount {
            instruction: self.instruction,
            encoding: self.encoding,
            exactness: self.exactness.into(),
            reason: self.reason.map(Into::into),
            count: self.count,
        }
    }
}

/// More than a dispatch can have done of anything.
const MOST: u64 = 1 << 48;

/// What a launch under way consists of.
pub struct Parts<'a> {
    /// The launch.
    pub launch: &'a Launch,
    /// Where it lies.
    pub placed: &'a Placed,
    /// What was asked of the host.
    pub request: &'a Request,
    /// The GPU's allocations.
    pub map: MapImage,
    /// Global wave sync.
    pub global_sync: Vec<[u64; 4]>,
    /// Dispatches that it is to make.
    pub repeat: u32,
    /// Those that have ended.
    pub runs: &'a Runs,
    /// The one under way.
    pub suspended: Option<Image>,
    /// What it has executed, by form.
    pub before: Vec<FormCount>,
}

impl State {
    /// The state of a launch under way.
    pub fn of(parts: Parts<'_>) -> State {
        State {
            launch: LaunchState::of(parts.launch),
            placed: PlacedState::of(parts.placed),
            request: parts.request.clone(),
            map: parts.map,
            global_sync: parts.global_sync,
            repeat: parts.repeat,
            runs: RunsState::of(parts.runs),
            suspended: parts.suspended,
            before: parts.before.iter().map(FormState::of).collect(),
        }
    }

    /// The bytes of the state in a file.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(self)?)
    }

    /// The state that bytes are.
    ///
    /// # Errors
    ///
    /// Bytes that are none, or more than one.
    pub fn from_bytes(bytes: &[u8]) -> Result<State> {
        let (state, rest) = postcard::take_from_bytes::<State>(bytes)?;
        ensure!(rest.is_empty(), "{} bytes behind the state", rest.len());
        Ok(state)
    }

    /// How many bytes of [`State::to_bytes`] are behind those of the launch itself.
    ///
    /// # Errors
    ///
    /// None in practice.
    pub fn bytes_behind_launch(&self) -> Result<usize> {
        let launch = postcard::to_stdvec(&self.launch)?;
        Ok(self.to_bytes()?.len() - launch.len())
    }

    /// The launch, where it lies, and the dispatches of it that have ended; the rest stays.
    ///
    /// # Errors
    ///
    /// Parts that do not belong together.
    pub fn restore(self) -> Result<(Launch, Placed, Runs, Rest)> {
        let launch = self.launch.restore()?;
        let placed = self.placed.restore(&launch)?;
        let done = self.runs.count;
        let whole = self.repeat >= done && (self.suspended.is_none() || self.repeat > done);
        ensure!(whole, "{done} of {} dispatches have ended", self.repeat);
        let runs = self.runs.restore()?;
        let rest = Rest {
            map: self.map,
            global_sync: self.global_sync,
            suspended: self.suspended,
            before: self.before.into_iter().map(FormState::restore).collect(),
        };
        Ok((launch, placed, runs, rest))
    }
}

/// What of a state a device is needed for.
pub struct Rest {
    /// The GPU's allocations.
    pub map: MapImage,
    /// Global wave sync.
    pub global_sync: Vec<[u64; 4]>,
    /// The dispatch under way.
    pub suspended: Option<Image>,
    /// What it has executed, by form.
    pub before: Vec<FormCount>,
}
