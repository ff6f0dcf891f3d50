//! `rocjitsu info`: what is in a code object.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rocjitsu_gpu::code_object::{CodeObject, Kernel, LoadOptions, Setting, TargetId, bundle};
use rocjitsu_isa::Target;
use serde_json::{Value, json};

use super::Status;
use crate::cli::UsageError;
use crate::output::{DIM, HEAD, Output, styled};

/// Arguments of `info`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Code object (.hsaco)
    file: PathBuf,
    /// The target that the code is expected for; of an offload bundle (as hipcc --genco makes them), the part for it
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// Read it as code for this target, as `launch --run-as` does
    #[arg(long, value_name = "TARGET")]
    run_as: Option<Target>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads a code object from a file. Of an offload bundle, the part for `target` is taken, or the
/// only part for a GPU.
///
/// # Errors
///
/// Names the file, and the part of it that is damaged.
pub fn read(path: &Path, target: Option<Target>, run_as: Option<Target>) -> Result<CodeObject> {
    let data = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let of = || path.display().to_string();
    let data = unbundle(data, target).with_context(of)?;
    CodeObject::parse(data, &LoadOptions { run_as }).with_context(of)
}

/// Checks that a code object, read from `path`, is for the target asked for.
///
/// # Errors
///
/// Code of another target is wrong usage.
pub fn expect_target(path: &Path, code: &CodeObject, target: Option<Target>) -> Result<()> {
    match target {
        Some(target) if code.machine().target(None).ok() != Some(target) => {
            Err(UsageError(format!(
                "{} is code for {}, not {target}",
                path.display(),
                code.machine().processor
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// The kernel that `--kernel` names.
///
/// # Errors
///
/// A name that the file does not have is wrong usage; the text lists those it has.
pub fn kernel<'a>(code: &'a CodeObject, name: &str) -> Result<&'a Kernel> {
    code.kernel(name)
        .map_err(|error| UsageError(format!("--kernel {name}: {error}")).into())
}

fn unbundle(data: Vec<u8>, target: Option<Target>) -> Result<Vec<u8>> {
    let Some(parts) = bundle::parts(&data)? else {
        return Ok(data);
    };
    let mut found = Vec::new();
    for part in &parts {
        if let Some(id) = part.target_id() {
            let id = TargetId::parse(id).map_err(|reason| anyhow!("offload bundle: {reason}"))?;
            if target.is_none_or(|target| target.name() == id.processor) {
                found.push((id.to_string(), part.data));
            }
        }
    }
    match found[..] {
        [(_, data)] => Ok(data.to_vec()),
        [] => {
            let ids: Vec<&str> = parts.iter().map(|part| part.id).collect();
            bail!(
                "the offload bundle has no part for it, only {}",
                ids.join(", ")
            )
        }
        _ => {
            let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
            bail!(
                "the offload bundle has parts for {}: choose one with --target",
                ids.join(", ")
            )
        }
    }
}

/// Prints what is in a code object.
///
/// # Errors
///
/// Those of reading and writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let object = read(&args.file, args.target, args.run_as)?;
    expect_target(&args.file, &object, args.target)?;
    if args.json {
        out.json(&as_json(&args.file, &object))?;
    } else {
        as_text(&args.file, &object, out)?;
    }
    Ok(Status::Good)
}

fn permissions(executable: bool, writable: bool) -> &'static str {
    match (writable, executable) {
        (false, false) => "r--",
        (false, true) => "r-x",
        (true, false) => "rw-",
        (true, true) => "rwx",
    }
}

fn as_text(path: &Path, object: &CodeObject, out: &mut Output) -> Result<()> {
    let machine = object.machine();
    let mut target = machine.processor.to_owned();
    if object.target().name() != machine.processor {
        target += &format!(" run as {}", object.target());
    }
    for (name, setting) in [("xnack", machine.xnack), ("sramecc", machine.sramecc)] {
        if setting != Setting::Unsupported {
            target += &format!(", {name} {}", setting.name());
        }
    }
    let title = format!(
        "{}: code object version {} for {target}",
        path.display(),
        object.abi().number()
    );
    writeln!(out, "{}", styled(HEAD, title))?;
    writeln!(out, "segments")?;
    for segment in object.segments() {
        writeln!(
            out,
            "  {:#08x}..{:#08x} {} file offset {:#x}, {} bytes of {} in the file",
            segment.address,
            segment.address + segment.bytes,
            permissions(segment.executable, segment.writable),
            segment.file_offset,
            segment.file_bytes,
            segment.bytes
        )?;
    }
    if !object.relocations().is_empty() {
        writeln!(out, "relocations\n  {}", object.relocations().len())?;
    }
    for kernel in object.kernels() {
        kernel_text(kernel, out)?;
    }
    Ok(())
}

fn kernel_text(kernel: &Kernel, out: &mut Output) -> Result<()> {
    let d = &kernel.descriptor;
    writeln!(
        out,
        "{} {}",
        styled(HEAD, format!("kernel {}", kernel.name)),
        styled(DIM, format!("({})", kernel.symbol))
    )?;
    writeln!(
        out,
        "  entry        {:#x}, descriptor {:#x}",
        kernel.entry_address, kernel.descriptor_address
    )?;
    let accumulation = if d.agprs > 0 {
        format!(", {} AccVGPRs", d.agprs)
    } else {
        String::new()
    };
    writeln!(
        out,
        "  waves        {} lanes, {} VGPRs{accumulation}, {} SGPRs",
        d.wave_size, d.vgprs, d.sgprs
    )?;
    writeln!(
        out,
        "  LDS          {} bytes, static",
        d.group_segment_fixed_size
    )?;
    let stack = if d.properties.uses_dynamic_stack {
        ", and a stack without known bound"
    } else {
        ""
    };
    writeln!(
        out,
        "  scratch      {} bytes per thread{stack}",
        d.private_segment_fixed_size
    )?;
    writeln!(
        out,
        "  user SGPRs   {}, {} of them set up",
        d.rsrc2.user_sgpr_count, d.user_sgprs.used
    )?;
    if d.preload.length > 0 {
        writeln!(
            out,
            "  preload      {} dwords of arguments, from dword {}",
            d.preload.length, d.preload.offset
        )?;
    }
    let denormals =
        |mode: u32| ["flushed", "kept in sources", "kept in results", "kept"][mode as usize & 3];
    writeln!(
        out,
        "  float mode   f32 denormals {}, f16 and f64 denormals {}",
        denormals(d.rsrc1.denorm_32),
        denormals(d.rsrc1.denorm_16_64)
    )?;
    let Some(metadata) = &kernel.metadata else {
        writeln!(
            out,
            "  arguments    not described: the kernel has no metadata"
        )?;
        return Ok(());
    };
    if metadata.max_flat_workgroup_size > 0 {
        writeln!(
            out,
            "  workgroup    at most {} threads",
            metadata.max_flat_workgroup_size
        )?;
    }
    writeln!(
        out,
        "  arguments    {} bytes, aligned to {}",
        metadata.kernarg_segment_size, metadata.kernarg_segment_align
    )?;
    for argument in &metadata.args {
        let name = argument.name.as_deref().unwrap_or("");
        writeln!(
            out,
            "    {:>5} {:>4}  {} {name}",
            argument.offset, argument.size, argument.value_kind
        )?;
    }
    Ok(())
}

fn as_json(path: &Path, object: &CodeObject) -> Value {
    let machine = object.machine();
    let segments: Vec<Value> = object
        .segments()
        .iter()
        .map(|segment| {
            json!({
                "address": segment.address,
                "bytes": segment.bytes,
                "file_offset": segment.file_offset,
                "file_bytes": segment.file_bytes,
                "permissions": permissions(segment.executable, segment.writable),
            })
        })
        .collect();
    json!({
        "file": path.display().to_string(),
        "code_object_version": object.abi().number(),
        "e_flags": object.flags(),
        "processor": machine.processor,
        "target": object.target().name(),
        "xnack": machine.xnack.name(),
        "sramecc": machine.sramecc.name(),
        "target_id": object.metadata().and_then(|metadata| metadata.target.clone()),
        "segments": segments,
        "relocations": object.relocations().len(),
        "kernels": object.kernels().iter().map(kernel_json).collect::<Vec<_>>(),
    })
}

fn kernel_json(kernel: &Kernel) -> Value {
    let d = &kernel.descriptor;
    let metadata = kernel.metadata.as_ref();
    let arguments = metadata.map(|metadata| {
        let argument = |a: &rocjitsu_gpu::code_object::Argument| {
            json!({ "name": a.name, "offset": a.offset, "size": a.size, "kind": a.value_kind })
        };
        metadata.args.iter().map(argument).collect::<Vec<_>>()
    });
    json!({
        "name": kernel.name,
        "symbol": kernel.symbol,
        "entry": kernel.entry_address,
        "descriptor": kernel.descriptor_address,
        "wave": d.wave_size,
        "vgprs": d.vgprs,
        "agprs": d.agprs,
        "sgprs": d.sgprs,
        "lds_static": d.group_segment_fixed_size,
        "private_bytes": d.private_segment_fixed_size,
        "dynamic_stack": d.properties.uses_dynamic_stack,
        "user_sgprs": d.rsrc2.user_sgpr_count,
        "kernarg_preload_dwords": d.preload.length,
        "rsrc1": d.rsrc1.raw,
        "rsrc2": d.rsrc2.raw,
        "rsrc3": d.rsrc3.raw,
        "properties": d.properties.raw,
        "max_workgroup": metadata.map(|metadata| metadata.max_flat_workgroup_size),
        "kernarg_bytes": metadata.map_or(d.kernarg_size, |metadata| metadata.kernarg_segment_size),
        "arguments": arguments,
    })
}
