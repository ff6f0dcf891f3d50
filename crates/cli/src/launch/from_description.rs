//! From a description's file to a launch: code object, inputs, golden outputs, all checked
//! against the hashes and sizes that the description states.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rocjitsu_gpu::code_object::{CodeObject, LoadOptions};
use rocjitsu_isa::Target;

use super::description::*;
use super::element::ElementType;
use super::generate::number;
use super::kernarg::{Field, FieldValue, Hidden, Kernarg, LARGEST_SEGMENT};
use super::npy::Array;
use super::{Buffer, DYNAMIC_STACK_BYTES, Golden, Launch, sha256, stated};

/// Which part of a description to launch, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The target whose code object is taken.
    pub target: Target,
    /// The target that runs it, if another.
    pub run_as: Option<Target>,
}

impl Selection {
    /// Code for `target`, run as that.
    pub fn of(target: Target) -> Self {
        Selection {
            target,
            run_as: None,
        }
    }

    /// The same, but with the code for gfx1100 where gfx1151 is asked for and the description has
    /// no code for it: gfx1151 executes that code.
    fn among(self, description: &Description) -> Self {
        let has = |target: Target| description.targets.contains_key(target.name());
        let gfx1151 = self.target == Target::Gfx1151
            && self.run_as.is_none_or(|target| target == Target::Gfx1151);
        if gfx1151 && !has(Target::Gfx1151) && has(Target::Gfx1100) {
            Selection {
                target: Target::Gfx1100,
                run_as: Some(Target::Gfx1151),
            }
        } else {
            self
        }
    }
}

impl Launch {
    /// Reads everything a description names for one target.
    ///
    /// # Errors
    ///
    /// A file that is missing or does not have the stated hash, an argument whose sizes do not
    /// fit, a damaged code object; the text says which.
    pub fn from_description(path: &Path, selection: Selection) -> Result<Self> {
        let description = Description::read(path)?;
        let read = |file: &Path| {
            let path = beside(path, file)?;
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        Self::from_parts(&description, selection, &read).with_context(|| path.display().to_string())
    }

    /// The same with the files' contents from `read`.
    pub fn from_parts(
        description: &Description,
        selection: Selection,
        read: &dyn Fn(&Path) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let selection = selection.among(description);
        let target = description.target(selection.target.name())?;
        let data = read(&target.file)?;
        if let Some(expected) = &target.sha256 {
            let found = sha256(&data);
            ensure!(
                found == *expected,
                "{}: SHA-256 is {found}, but {expected} is stated",
                target.file.display()
            );
        }
        let bytes = data.len();
        let options = LoadOptions {
            run_as: selection.run_as,
        };
        let code =
            CodeObject::parse(data, &options).with_context(|| target.file.display().to_string())?;
        let kernel = code.kernel(&target.kernel)?.clone();
        stated::check(target, bytes, &code, &kernel)?;
        let mut buffers = Vec::new();
        let mut arguments = Vec::new();
        for argument in &description.args {
            arguments.push(match argument {
                ArgumentDescription::Buffer(argument) => {
                    buffers.push(buffer(argument, read)?);
                    Some(buffers.len() - 1)
                }
                ArgumentDescription::Scalar(_) => None,
            });
        }
        let kernarg = kernarg(description, target)?;
        kernarg.check()?;
        let stack = if target.dynamic_stack {
            DYNAMIC_STACK_BYTES
        } else {
            0
        };
        let exact = target.estimate.filter(|estimate| estimate.exact);
        Ok(Launch {
            name: description.name.clone(),
            code,
            kernel,
            grid: target.grid,
            block: target.block,
            cluster: target.cluster,
            lds_dynamic: target.lds_dynamic,
            private_bytes: target.private_bytes.max(stack),
            kernarg,
            buffers,
            arguments,
            expected_instructions: exact.map(|estimate| estimate.wave_instructions),
        })
    }
}

/// The content of a buffer, and what it should become.
fn buffer(argument: &BufferDescription, read: &dyn Fn(&Path) -> Result<Vec<u8>>) -> Result<Buffer> {
    let of = || format!("argument {}", argument.name);
    let content = argument
        .init
        .bytes(argument.dtype, argument.elements()?)
        .with_context(of)?;
    if let Some(expected) = &argument.init_sha256 {
        let found = sha256(&content);
        ensure!(
            found == *expected,
            "argument {}: the generated content has SHA-256 {found}, but {expected} is stated",
            argument.name
        );
    }
    let golden = match &argument.golden {
        None => None,
        Some(golden) => {
            let content = match &golden.file {
                None => None,
                Some(file) => Some(
                    golden_content(argument, file, &read(file)?, &golden.sha256)
                        .with_context(of)?,
                ),
            };
            let (sha256, tolerance) = (golden.sha256.clone(), golden.compare);
            Some(Golden {
                sha256,
                content,
                tolerance,
            })
        }
    };
    Ok(Buffer {
        name: argument.name.clone(),
        element: argument.dtype,
        shape: argument.shape.clone(),
        content,
        given: argument.direction != Direction::Scratch,
        direction: argument.direction,
        golden,
    })
}

fn golden_content(
    argument: &BufferDescription,
    file: &Path,
    bytes: &[u8],
    expected: &str,
) -> Result<Vec<u8>> {
    let name = || file.display().to_string();
    let array = Array::parse(bytes).with_context(name)?;
    ensure!(
        array.descr == argument.dtype.numpy() && array.data.len() == argument.bytes,
        "{}: {} bytes of {}, but the argument has {} bytes of {} ({})",
        name(),
        array.data.len(),
        array.descr,
        argument.bytes,
        argument.dtype.name(),
        argument.dtype.numpy()
    );
    let found = sha256(&array.data);
    ensure!(
        found == expected,
        "{}: the data has SHA-256 {found}, but {expected} is stated",
        name()
    );
    Ok(array.data)
}

fn kernarg(description: &Description, target: &TargetDescription) -> Result<Kernarg> {
    let is_buffer =
        |argument: &&ArgumentDescription| matches!(argument, ArgumentDescription::Buffer(_));
    let value = |field: &FieldDescription| match &field.arg {
        Some(name) => {
            let found = description
                .args
                .iter()
                .position(|argument| argument.name() == name);
            let position = found.with_context(|| {
                format!(
                    "kernarg field at offset {}: no argument `{name}`",
                    field.offset
                )
            })?;
            match &description.args[position] {
                // Buffers are numbered among themselves.
                ArgumentDescription::Buffer(_) => Ok(FieldValue::Buffer(
                    description.args[..position]
                        .iter()
                        .filter(is_buffer)
                        .count(),
                )),
                ArgumentDescription::Scalar(scalar) => scalar_bytes(scalar).map(FieldValue::Bytes),
            }
        }
        None if field.kind.starts_with("hidden_") => match Hidden::from_kind(&field.kind) {
            Some(hidden) => Ok(FieldValue::Hidden(hidden)),
            None => bail!(
                "kernarg field at offset {}: hidden argument `{}` is unknown",
                field.offset,
                field.kind
            ),
        },
        // A scratch pointer that the compiler appended.
        None => {
            ensure!(
                field.size <= LARGEST_SEGMENT,
                "kernarg field at offset {}: {} bytes, more than a segment of {LARGEST_SEGMENT}",
                field.offset,
                field.size
            );
            Ok(FieldValue::Bytes(vec![0; field.size]))
        }
    };
    let mut fields = Vec::new();
    for field in &target.kernarg.fields {
        fields.push(Field {
            offset: field.offset,
            size: field.size,
            value: value(field)?,
        });
    }
    Ok(Kernarg {
        bytes: target.kernarg.bytes,
        align: target.kernarg.align,
        fields,
    })
}

fn scalar_bytes(scalar: &ScalarDescription) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let value = number(&scalar.value);
    let element: ElementType = scalar.dtype;
    let fits = element.encode(value, &mut bytes);
    fits.with_context(|| {
        format!(
            "argument {}: {} does not hold {value}",
            scalar.name,
            element.name()
        )
    })?;
    Ok(bytes)
}
