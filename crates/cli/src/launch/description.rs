//! The JSON description of a kernel launch: arguments, inputs, expected outputs, and for each
//! target the code object and its geometry. The format is defined in `data/corpus/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::compare::Tolerance;
use super::element::ElementType;
use super::generate::Generator;

/// A description as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Version of the format: 1.
    pub format: u32,
    /// Name of the kernel in the corpus.
    pub name: String,
    /// What the kernel is for.
    #[serde(default)]
    pub doc: String,
    /// The compiler that built it.
    #[serde(default)]
    pub compiler: String,
    /// Arguments in the order of the kernel's parameters.
    pub args: Vec<ArgumentDescription>,
    /// Code objects by target.
    pub targets: BTreeMap<String, TargetDescription>,
    /// Work that the kernel does, for benchmarks.
    #[serde(default)]
    pub estimate: Option<WorkEstimate>,
}

/// Work of one launch, where it applies.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkEstimate {
    /// Floating-point operations, 2 per multiply-add.
    pub flops: Option<u64>,
    /// Bytes of global memory read and written.
    pub global_bytes: Option<u64>,
    /// Iterations of the innermost loop.
    pub iterations: Option<u64>,
}

/// An argument of the kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ArgumentDescription {
    /// A pointer to a buffer.
    Buffer(BufferDescription),
    /// A value.
    Scalar(ScalarDescription),
}

impl ArgumentDescription {
    /// The argument's name.
    pub fn name(&self) -> &str {
        match self {
            ArgumentDescription::Buffer(buffer) => &buffer.name,
            ArgumentDescription::Scalar(scalar) => &scalar.name,
        }
    }
}

/// What the kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Reads it; it must not change.
    In,
    /// Writes it.
    Out,
    /// Reads and writes it.
    InOut,
    /// Writes it; the content does not matter.
    Scratch,
}

/// A buffer and its content before and after the launch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct BufferDescription {
    pub name: String,
    pub dtype: ElementType,
    /// Extent of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// Size in bytes.
    pub bytes: usize,
    /// Content before the launch.
    pub init: Generator,
    /// SHA-256 of that content.
    pub init_sha256: Option<String>,
    pub direction: Direction,
    /// Content after the launch.
    pub golden: Option<GoldenDescription>,
}

/// What a buffer should hold after the launch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenDescription {
    /// SHA-256 of the bytes.
    pub sha256: String,
    /// The bytes as `.npy`; without it only the hash is compared.
    pub file: Option<PathBuf>,
    /// When the content counts as right.
    pub compare: Tolerance,
}

/// A value passed to the kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ScalarDescription {
    pub name: String,
    pub dtype: ElementType,
    pub value: serde_json::Number,
}

/// How the kernel is launched on one target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TargetDescription {
    /// Code object, relative to the corpus.
    pub file: PathBuf,
    pub sha256: Option<String>,
    pub bytes: Option<u64>,
    pub kernel: String,
    pub descriptor: Option<String>,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Threads per workgroup in x, y, z.
    pub block: [u32; 3],
    /// Workgroups per cluster in x, y, z.
    #[serde(default = "one_each")]
    pub cluster: [u32; 3],
    pub wave: u32,
    pub lds_static: u32,
    /// LDS in bytes on top of what the descriptor says.
    pub lds_dynamic: u32,
    /// Scratch in bytes per thread.
    pub private_bytes: u32,
    pub dynamic_stack: bool,
    pub vgprs: u32,
    pub agprs: u32,
    pub sgprs: u32,
    pub kernarg_preload_dwords: u32,
    pub target_id: String,
    pub code_object_abi: u32,
    pub elf_flags: u32,
    pub kernarg: KernargDescription,
    pub estimate: Option<TargetEstimate>,
}

fn one_each() -> [u32; 3] {
    [1; 3]
}

/// Instructions that a launch executes on one target.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TargetEstimate {
    pub waves: u64,
    pub per_wave: Option<f64>,
    pub wave_instructions: u64,
    pub per_iteration: Option<u64>,
    /// False where branches were guessed.
    pub exact: bool,
}

/// Layout of the kernarg segment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct KernargDescription {
    pub bytes: usize,
    pub align: u64,
    pub fields: Vec<FieldDescription>,
}

/// A part of the kernarg segment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FieldDescription {
    pub offset: usize,
    pub size: usize,
    /// `global_buffer`, `by_value`, or a hidden argument of the HSA ABI.
    pub kind: String,
    /// The argument that goes there; absent for hidden arguments, null for a scratch pointer.
    #[serde(default)]
    pub arg: Option<String>,
}

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    ///
    /// Names the file and the place in it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the text of a description.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("no JSON")?;
        kinds(&value, "")?;
        // From the text again: its errors have lines, and it refuses a key that is given twice.
        let mut reader = serde_json::Deserializer::from_str(text);
        let description: Description =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                match error.path().to_string().as_str() {
                    "." | "?" => anyhow::anyhow!("{}", error.inner()),
                    path => anyhow::anyhow!("{path}: {}", error.inner()),
                }
            })?;
        if description.format != 1 {
            bail!(
                "format {} of launch descriptions is unknown: this version reads format 1",
                description.format
            );
        }
        Ok(description)
    }

    /// The part for a target.
    ///
    /// # Errors
    ///
    /// Lists the targets there are.
    pub fn target(&self, name: &str) -> Result<&TargetDescription> {
        self.targets.get(name).with_context(|| {
            let names: Vec<&str> = self.targets.keys().map(String::as_str).collect();
            format!(
                "{} has no code for {name}, only for {}",
                self.name,
                names.join(", ")
            )
        })
    }
}

/// Checks that lists and objects stand where the format has them, and that choices are names: Serde would take a list
/// for an object, and a number for a choice.
fn kinds(value: &Value, path: &str) -> Result<()> {
    const LISTS: [&str; 7] = [
        "args", "shape", "grid", "block", "cluster", "fields", "values",
    ];
    const NAMES: [&str; 5] = ["gen", "mode", "kind", "dtype", "direction"];
    let key = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            let dot = if path.is_empty() { "" } else { "." };
            kinds(member, &format!("{path}{dot}{key}"))
        }),
        Value::Array(_) if path.is_empty() => bail!("a list, where the description is an object"),
        Value::Array(elements) if LISTS.contains(&key) => elements
            .iter()
            .enumerate()
            .try_for_each(|(index, element)| kinds(element, &format!("{path}[{index}]"))),
        Value::Array(_) => bail!("{path}: a list is not expected here"),
        Value::String(_) => Ok(()),
        _ if NAMES.contains(&key) => bail!("{path}: {value} is no name"),
        _ => Ok(()),
    }
}

impl BufferDescription {
    /// Number of elements.
    ///
    /// # Errors
    ///
    /// The shape and the size in bytes have to agree.
    pub fn elements(&self) -> Result<usize> {
        let elements = self
            .shape
            .iter()
            .try_fold(1usize, |product, &extent| product.checked_mul(extent));
        match elements {
            Some(elements) if elements.checked_mul(self.dtype.bytes()) == Some(self.bytes) => {
                Ok(elements)
            }
            _ => bail!(
                "argument {}: {} bytes do not hold the shape {:?} of {}",
                self.name,
                self.bytes,
                self.shape,
                self.dtype.name()
            ),
        }
    }
}

/// A file that a description names: relative to the description's folder or to the folder above,
/// since descriptions lie in `built/` and name `built/...` and `golden/...`.
///
/// # Errors
///
/// Names both places if the file is in neither.
pub fn beside(description: &Path, file: &Path) -> Result<PathBuf> {
    let folder = description.parent().unwrap_or(Path::new(""));
    let candidates = [folder.join("..").join(file), folder.join(file)];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!(
            "cannot find {} (looked for {} and {})",
            file.display(),
            candidates[0].display(),
            candidates[1].display()
        ),
    }
}
