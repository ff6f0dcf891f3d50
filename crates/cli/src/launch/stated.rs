//! What a description states about its code object beside what is needed to launch it, held against the file: a
//! description that belongs to another build is found here, not by wrong results.

use anyhow::{Result, bail, ensure};
use rocjitsu_gpu::code_object::{CodeObject, Kernel};

use super::description::{FieldDescription, TargetDescription};

/// Compares a target's part of a description with the code object of `bytes` bytes that it names.
///
/// # Errors
///
/// The first fact that differs: what is stated, and what the file has.
pub fn check(
    target: &TargetDescription,
    bytes: usize,
    code: &CodeObject,
    kernel: &Kernel,
) -> Result<()> {
    let file = target.file.display();
    if let Some(stated) = target.bytes {
        ensure!(
            stated == bytes as u64,
            "{file}: {stated} bytes are stated, but it has {bytes}"
        );
    }
    let descriptor = &kernel.descriptor;
    if let Some(symbol) = &target.descriptor {
        ensure!(
            *symbol == kernel.symbol,
            "{file}: the descriptor `{symbol}` is stated, but that of {} is `{}`",
            kernel.name,
            kernel.symbol
        );
    }
    // `EI_ABIVERSION` is 2 for code object version 4, and so on (LLVM's AMDGPU usage guide, "ELF Code Object").
    let equal = [
        ("wave", target.wave, descriptor.wave_size),
        (
            "lds_static",
            target.lds_static,
            descriptor.group_segment_fixed_size,
        ),
        (
            "private_bytes",
            target.private_bytes,
            descriptor.private_segment_fixed_size,
        ),
        (
            "dynamic_stack",
            target.dynamic_stack.into(),
            descriptor.properties.uses_dynamic_stack.into(),
        ),
        (
            "kernarg_preload_dwords",
            target.kernarg_preload_dwords,
            descriptor.preload.length,
        ),
        ("elf_flags", target.elf_flags, code.flags()),
        (
            "code_object_abi",
            target.code_object_abi,
            code.abi().number() - 2,
        ),
    ];
    for (key, stated, found) in equal {
        ensure!(
            stated == found,
            "{file}: {key} {stated} is stated, but {} has {found}",
            kernel.name
        );
    }
    // Descriptors count in granules: what a kernel uses is no more than what it gets. Compilers count the AccVGPRs of a
    // kernel among its vector registers where the file is a common one.
    let vectors = descriptor.vgprs.saturating_add(descriptor.agprs);
    let at_most = [
        ("vgprs", target.vgprs, vectors),
        ("sgprs", target.sgprs, descriptor.sgprs),
    ];
    for (key, stated, allocated) in at_most {
        ensure!(
            stated <= allocated,
            "{file}: {key} {stated} is stated, but {} has only {allocated}",
            kernel.name
        );
    }
    kernarg(target)
}

/// The parts of the kernarg segment that are wrong whatever the code object is.
fn kernarg(target: &TargetDescription) -> Result<()> {
    ensure!(
        target.kernarg.align.is_power_of_two(),
        "kernarg.align {} is no power of two",
        target.kernarg.align
    );
    for field in &target.kernarg.fields {
        let FieldDescription {
            offset, kind, arg, ..
        } = field;
        match kind.as_str() {
            "global_buffer" | "by_value" | "dynamic_shared_pointer" => {}
            _ if kind.starts_with("hidden_") && arg.is_none() => {}
            _ if kind.starts_with("hidden_") => {
                bail!("kernarg field at offset {offset}: `{kind}` takes no argument")
            }
            _ => bail!(
                "kernarg field at offset {offset}: the kind `{kind}` is unknown; there are global_buffer, by_value, \
                 dynamic_shared_pointer and hidden_..."
            ),
        }
    }
    Ok(())
}
