//! Why instructions have no semantics here: one reason for each that is left out on purpose.

use rocjitsu_isa::{Inst, Op};

/// Operations that only serve graphics: images and ray tracing, exports, interpolation, parameters, screen
/// partitions, and the geometry stage's ordered counters and streamout registers.
pub fn is_graphics(operation: &str) -> bool {
    const STARTS: [&str; 11] = [
        "image_",
        "exp",
        "v_interp_",
        "lds_param_load",
        "ds_param_load",
        "ds_bvh_stack_",
        "ds_ordered_count",
        "ds_add_gs_reg_rtn",
        "ds_sub_gs_reg_rtn",
        "global_atomic_ordered_add_b64",
        "v_screen_partition",
    ];
    STARTS.iter().any(|start| operation.starts_with(start))
}

/// Why an operation has no semantics, or none in some of its forms. `None` for those that have them in all forms
/// or that were not left out on purpose.
pub fn reason(op: Op) -> Option<&'static str> {
    let name = op.name();
    Some(match op {
        Op::s_rfe_b64 | Op::s_rfe_restore_b64 | Op::s_rfe_i64 => {
            "returns from a trap handler, and no wave here is ever in one"
        }
        Op::tensor_save | Op::tensor_stop => {
            "saves tensor copies under way for a trap handler that switches contexts, and there is none"
        }
        Op::s_sendmsg | Op::s_sendmsg_rtn_b32 | Op::s_sendmsg_rtn_b64 => {
            "a message that is reserved, of graphics, or of trap handlers"
        }
        Op::s_getreg_b32 | Op::s_setreg_b32 | Op::s_setreg_imm32_b32 => {
            "a hardware register that the target does not have or that no manual describes"
        }
        Op::global_atomic_ordered_add_b64 => {
            "wraps by VGT_GS_MAX_WAVE_ID, a register of the geometry stage that compute does not set"
        }
        _ if name.starts_with("ds_bvh_stack_") => {
            "serves image_bvh instructions (ray tracing), and the manuals do not define its DECODE_ADDR"
        }
        _ if name.ends_with("_f8f6f4") => "a reserved matrix format",
        _ if is_graphics(name) => "graphics: only compute executes here",
        _ => return None,
    })
}

/// Names an instruction that has no semantics, and says why if there is a reason.
pub fn text(inst: &Inst) -> String {
    let (name, format) = (inst.op().name(), inst.format());
    match reason(inst.op()) {
        Some(reason) => format!("{name} ({format:?}): {reason}"),
        None => format!("{name} ({format:?})"),
    }
}
