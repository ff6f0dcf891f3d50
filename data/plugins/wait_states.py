"""Assembles pairs of instructions that need something between them, and writes wait_states.tsv: target, rule, what is
needed between them (wait states, or v_nop for rules that count vector instructions), both texts and both encodings."""

import re
import subprocess

V = "v_mov_b32_e32 v8, v1"
MFMA = {  # Of gfx942 and gfx950: passes and kind, an instruction that writes a[0:...] or v[0:...].
    "xdl2": "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[32:33], v[34:35], v[48:51]",
    "xdl4": "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[48:51]",
    "xdl8": "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], v[48:63]",
    "xdl16": "v_mfma_f32_32x32x4_2b_f16 v[0:31], v[32:33], v[34:35], v[48:79]",
    "sgemm2": "v_mfma_f32_4x4x1_16b_f32 v[0:3], v32, v33, v[48:51]",
    "sgemm8": "v_mfma_f32_16x16x4_f32 v[0:3], v32, v33, v[48:51]",
    "sgemm16": "v_mfma_f32_32x32x2_f32 v[0:15], v32, v33, v[48:63]",
    "dgemm4": "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[32:33], v[34:35], v[48:49]",
    "dgemm16": "v_mfma_f64_16x16x4_f64 v[0:7], v[32:33], v[34:35], v[48:55]",
}
OLD = {
    "xdl2": "v_mfma_f32_4x4x4f16 v[0:3], v[32:33], v[34:35], v[48:51]",
    "xdl8": "v_mfma_f32_16x16x16f16 v[0:3], v[32:33], v[34:35], v[48:51]",
    "xdl16": "v_mfma_f32_32x32x8f16 v[0:15], v[32:33], v[34:35], v[48:63]",
    "dgemm4": "v_mfma_f64_4x4x4f64 v[0:1], v[32:33], v[34:35], v[48:49]",
    "dgemm16": "v_mfma_f64_16x16x4f64 v[0:7], v[32:33], v[34:35], v[48:55]",
}
# Second instructions by what they do with v[0:...]; "c_" reads part of it as C, "same_" all of it.
SECOND = {
    "c_xdl": "v_mfma_f32_32x32x8_f16 v[80:95], v[36:37], v[38:39], v[2:17]",
    "same_xdl": "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[36:37], v[38:39], v[0:3]",
    "c_sgemm": "v_mfma_f32_32x32x2_f32 v[80:95], v36, v37, v[2:17]",
    "same_sgemm": "v_mfma_f32_4x4x1_16b_f32 v[0:3], v36, v37, v[0:3]",
    "c_dgemm": "v_mfma_f64_16x16x4_f64 v[80:87], v[36:37], v[38:39], v[0:7]",
    "part_dgemm": "v_mfma_f64_16x16x4_f64 v[80:87], v[36:37], v[38:39], v[4:11]",
    "same_dgemm4": "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[36:37], v[38:39], v[0:1]",
    "ab": "v_mfma_f32_16x16x16_f16 v[80:83], v[0:1], v[38:39], v[84:87]",
    "read": "v_mov_b32_e32 v90, v1",
    "memory": "global_store_dword v[92:93], v1, off",
    "lds": "ds_write_b32 v92, v1",
    "write": "v_mov_b32_e32 v1, v90",
}
SECOND_OLD = SECOND | {
    "c_xdl": "v_mfma_f32_32x32x8f16 v[80:95], v[36:37], v[38:39], v[2:17]",
    "same_xdl": "v_mfma_f32_4x4x4f16 v[0:3], v[36:37], v[38:39], v[0:3]",
    "c_dgemm": "v_mfma_f64_16x16x4f64 v[80:87], v[36:37], v[38:39], v[0:7]",
    "part_dgemm": "v_mfma_f64_16x16x4f64 v[80:87], v[36:37], v[38:39], v[4:11]",
    "same_dgemm4": "v_mfma_f64_4x4x4f64 v[0:1], v[36:37], v[38:39], v[0:1]",
    "ab": "v_mfma_f32_16x16x16f16 v[80:83], v[0:1], v[38:39], v[84:87]",
}

CDNA = [
    ("setreg", 2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", "s_getreg_b32 s2, hwreg(HW_REG_MODE, 4, 4)"),
    ("setreg", 2, "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s3", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s4"),
    ("valu_vccz", 5, "v_cmp_eq_u32_e32 vcc, v1, v2", "v_mov_b32_e32 v3, src_vccz"),
    ("valu_vccz", 5, "v_cmpx_eq_u32_e32 vcc, v1, v2", "v_mov_b32_e32 v3, src_execz"),
    ("valu_lane_select", 4, "v_readfirstlane_b32 s4, v1", "v_readlane_b32 s5, v9, s4"),
    ("valu_lane_select", 4, "v_cmp_eq_u32_e64 s[4:5], v1, v2", "v_writelane_b32 v9, 1, s4"),
    ("valu_div_fmas", 4, "v_cmp_eq_u32_e32 vcc, v1, v2", "v_div_fmas_f32 v3, v4, v5, v6"),
    ("valu_sgpr_vmem", 5, "v_readfirstlane_b32 s4, v1", "global_load_dword v3, v9, s[4:5]"),
    ("valu_sgpr_vmem", 5, "v_readfirstlane_b32 s7, v1", "buffer_load_dword v3, v9, s[4:7], 0 offen"),
    ("salu_m0", 1, "s_mov_b32 m0, s4", "s_movrels_b32 s5, s6"),
    ("salu_m0", 1, "s_mov_b32 m0, s4", "s_sendmsg sendmsg(MSG_INTERRUPT)"),
    ("salu_m0", 1, "s_mov_b32 m0, s4", "ds_read_addtid_b32 v5"),
    ("valu_dpp", 2, V, "v_mov_b32_dpp v3, v8 row_shl:1 row_mask:0xf bank_mask:0xf"),
    ("exec_dpp", 5, "v_cmpx_eq_u32_e32 vcc, v1, v2", "v_mov_b32_dpp v3, v9 row_shl:1 row_mask:0xf bank_mask:0xf"),
    ("dot_read", 3, "v_dot2_f32_f16 v8, v1, v2, v3", "v_add_f32_e32 v4, v8, v5"),
    ("dot_read", 3, "v_dot2_f32_f16 v8, v1, v2, v3", "global_store_dword v[10:11], v8, off"),
    ("dot_read", 3, "v_dot2_f32_f16 v8, v1, v2, v3", "v_dot4_i32_i8 v4, v1, v2, v8"),
    ("dot_write", 3, "v_dot2_f32_f16 v8, v1, v2, v3", "v_mov_b32_e32 v8, v5"),
    ("dot_ab", 3, "v_dot2_f32_f16 v8, v1, v2, v3", "v_dot2_f32_f16 v9, v8, v2, v3"),
    ("exec_mfma", 4, "v_cmpx_eq_u32_e32 vcc, v1, v2", "@ab"),
    ("dgemm_fma_f64", 2, "@dgemm4", "v_fma_f64 v[80:81], v[82:83], v[84:85], v[86:87]"),
    ("valu_mfma", 2, "v_mov_b32_e32 v1, v90", "@ab"),
]
CDNA34 = [
    ("store_data", 2, "global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32_e32 v6, v9"),
    ("store_data", 2, "buffer_store_dwordx3 v[4:6], v0, s[4:7], 0 offen", "v_mov_b32_e32 v6, v9"),
    ("valu_sgpr_constant", 2, "v_readfirstlane_b32 s4, v1", "v_add_u32_e32 v3, s4, v9"),
    ("valu_sgpr_constant", 2, "v_cmp_eq_u32_e32 vcc, v1, v2", "v_mov_b32_e32 v3, vcc_lo"),
    ("valu_exec_constant", 2, "v_cmpx_eq_u32_e32 vcc, v1, v2", "v_mov_b32_e32 v3, exec_lo"),
    ("valu_exec_lane", 4, "v_cmpx_eq_u32_e32 vcc, v1, v2", "v_readfirstlane_b32 s9, v9"),
    ("valu_exec_lane", 4, "v_cmpx_eq_u32_e32 vcc, v1, v2", "v_writelane_b32 v9, s9, 3"),
    ("valu_readlane", 1, V, "v_readlane_b32 s9, v8, 3"),
    ("shifted_result", 1, "v_add_f16_sdwa v8, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD", "v_mov_b32_e32 v3, v8"),
    ("shifted_result", 1, "v_mad_f16 v8, v1, v2, v3 op_sel:[0,0,0,1]", "v_mov_b32_e32 v3, v8"),
    ("shifted_result", 1, "v_cvt_sr_fp8_f32 v8, v1, v2 op_sel:[0,0,1,0]", "v_mov_b32_e32 v3, v8"),
    ("trans", 1, "v_exp_f32_e32 v8, v1", "v_add_f32_e32 v3, v8, v4"),
]
CDNA2 = [
    ("store_data", 1, "global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32_e32 v6, v9"),
    ("valu_dgemm_vmem", 1, "v_mov_b32_e32 v8, v90; @dgemm4", "global_store_dword v[10:11], v8, off"),
]
CDNA4 = [
    ("cmpx_permlane", 4, "v_cmpx_eq_u32_e32 vcc, v1, v2", "v_permlane16_swap_b32_e32 v8, v9"),
    ("valu_permlane", 2, V, "v_permlane32_swap_b32_e32 v8, v9"),
]


def matrix(target):
    """Rules whose number depends on the product: first, second, needed."""
    for kind in ("xdl2", "xdl4", "xdl8", "xdl16", "sgemm2", "sgemm8", "sgemm16", "dgemm4", "dgemm16"):
        if target == "gfx90a" and kind not in OLD:
            continue
        n = int(re.sub(r"\D", "", kind))
        new = target == "gfx950"
        if kind.startswith("xdl"):
            ab = n + 3 + (new and n > 2)
            yield "mfma_c", {"gfx90a": n, "gfx942": n + 1, "gfx950": n + 2}[target], kind, "c_xdl"
            # Overlapping, but not the very same registers.
            yield "mfma_c", {"gfx90a": n + 1, "gfx942": n + 1, "gfx950": n + 1 + (n > 2)}[target], kind, "part_dgemm" if n > 4 and target != "gfx90a" else "c_dgemm"
            if target != "gfx90a":
                yield "mfma_c", n + 1 + (new and n > 2), kind, "c_sgemm"
                if n == 2:
                    yield "mfma_c", 2, kind, "same_xdl"
            war = n - 1 if target != "gfx950" else 1
            yield "mfma_c_overwritten", war, kind, "v_mov_b32_e32 v49, v90"
        elif kind.startswith("sgemm"):
            ab = n + 2
            yield "mfma_c", n, kind, "c_sgemm"
            if n == 2:
                yield "mfma_c", 2, kind, "same_sgemm"
        else:
            ab = {"dgemm4": 6, "dgemm16": 19 if new else 11}[kind]
            if kind == "dgemm4":
                yield "mfma_c", 4, kind, "same_dgemm4"
                yield "mfma_c", 4, kind, "c_dgemm"
            else:
                yield "mfma_c", 17 if new else 9, kind, "part_dgemm"
        yield "mfma_ab", ab, kind, "ab"
        yield "mfma_read", ab, kind, "read"
        yield "mfma_write", 11 if kind == "dgemm16" else ab, kind, "write"
        memory = {"dgemm4": 9, "dgemm16": 18}.get(kind, ab)
        yield "mfma_memory", memory, kind, "memory"
        yield "mfma_memory", memory, kind, "lds"


RDNA = [
    ("wmma_ab", 1, "v_wmma_f32_16x16x16_f16 v[0:7], v[16:23], v[24:31], v[0:7]", "v_wmma_f32_16x16x16_f16 v[40:47], v[0:7], v[24:31], v[40:47]"),
    ("cmpx_permlane", 1, "v_cmpx_eq_u32_e32 v1, v2", "v_permlane16_b32 v8, v9, s2, s3"),
    ("valu_lds_direct", 5, V, "lds_direct_load v8 wait_vdst:5"),
    ("valu_lds_direct", 15, "v_mov_b32_e32 v1, v8", "lds_direct_load v8 wait_vdst:15"),
    ("dealloc_vgprs", 1, "s_mov_b32 s0, 0", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)"),
]
RDNA30 = [("trans_use", 6, "v_exp_f32_e32 v8, v1", "v_add_f32_e32 v3, v8, v4")]
RDNA4 = [
    ("wmma_ab", 1, "v_wmma_f32_16x16x16_f16 v[0:7], v[16:19], v[24:27], v[0:7]", "v_wmma_f32_16x16x16_f16 v[40:47], v[0:3], v[24:27], v[40:47]"),
    ("wmma_ab", 1, "v_wmma_f32_16x16x16_f16 v[0:7], v[16:19], v[24:27], v[0:7]", "v_swmmac_f32_16x16x32_f16 v[40:47], v[20:23], v[24:31], v1"),
    ("valu_lds_direct", 5, V, "ds_direct_load v8 wait_va_vdst:5 wait_vm_vsrc:1"),
]
PRODUCTS = {
    5: "v_wmma_f32_16x16x32_f16 v[0:7], v[16:23], v[24:31], v[0:7]",
    9: "v_wmma_i32_16x16x64_iu8 v[0:7], v[16:23], v[24:31], v[0:7]",
    3: "v_swmmac_f32_16x16x64_f16 v[0:7], v[16:23], v[24:39], v60",
    # The same number as the first, by another row.
    5.5: "v_swmmac_i32_16x16x128_iu8 v[0:7], v[16:23], v[24:39], v[60:61]",
}
CDNA5 = [
    ("wmma_ab", 1, "v_wmma_f32_16x16x4_f32 v[0:7], v[16:17], v[18:19], v[0:7]", "v_wmma_f32_16x16x32_f16 v[40:47], v[0:7], v[24:31], v[40:47]"),
    ("wmma_ab", 9, "v_wmma_f32_16x16x128_f8f6f4 v[0:7], v[16:31], v[32:47], v[0:7]", "v_wmma_f32_16x16x32_f16 v[40:47], v[0:7], v[24:31], v[40:47]"),
    ("wmma_ab", 5, "v_wmma_f32_16x16x128_f8f6f4 v[0:7], v[16:23], v[32:39], v[0:7] matrix_a_fmt:MATRIX_FMT_FP4 matrix_b_fmt:MATRIX_FMT_FP4", "v_wmma_f32_16x16x32_f16 v[40:47], v[0:7], v[24:31], v[40:47]"),
    ("trans_use", 1, "v_exp_f32_e32 v8, v1", "v_add_f32_e32 v3, v8, v4"),
    ("trans_sources", 1, "v_exp_f32_e32 v8, v1", "v_mov_b32_e32 v1, v4"),
    ("setreg_vgpr_msb", 1, "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 4), 3", "s_set_vgpr_msb 1"),
]
for n, first in PRODUCTS.items():
    n = int(n)
    CDNA5 += [
        ("wmma_ab", n, first, "v_wmma_f32_16x16x32_f16 v[40:47], v[0:7], v[24:31], v[40:47]"),
        ("wmma_read", n - 1, first, "v_mov_b32_e32 v90, v1"),
        ("wmma_write", n - 1, first, "v_mov_b32_e32 v1, v90"),
    ]


def rows(target):
    old = target == "gfx90a"
    names = {"@" + k: v for k, v in ((OLD | SECOND_OLD) if old else (MFMA | SECOND)).items()}
    if target in ("gfx90a", "gfx942", "gfx950"):
        lists = CDNA + (CDNA2 if old else CDNA34) + (CDNA4 if target == "gfx950" else [])
        for rule, need, first, second in lists:
            first = "; ".join(names.get(part, part) for part in first.split("; "))
            yield rule, need, first, names.get(second, second)
        for rule, need, first, second in matrix(target):
            yield rule, need, names["@" + first], names.get("@" + second, second)
    else:
        lists = {
            "gfx1100": RDNA + RDNA30,
            "gfx1151": RDNA,
            "gfx1201": RDNA4,
            "gfx1250": CDNA5,
        }
        yield from lists[target]


def assemble(target, text):
    run = subprocess.run(
        ["llvm-mc-22", "-triple=amdgcn", f"-mcpu={target}", "-show-encoding"],
        input=text.replace("; ", "\n") + "\n", capture_output=True, text=True,
    )
    found = re.findall(r"encoding: \[(.*?)\]", run.stdout)
    if run.returncode or not found:
        return None
    return "".join(byte.strip()[2:] for one in found for byte in one.split(","))


def main():
    with open("wait_states.tsv", "w") as out:
        for target in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250"):
            for rule, need, first, second in rows(target):
                codes = assemble(target, first), assemble(target, second)
                if None in codes:
                    print(f"{target} has not: {first} / {second}")
                    continue
                print(target, rule, need, first, second, *codes, sep="\t", file=out)


main()
