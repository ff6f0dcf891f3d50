//! What the suite measures: kernels of `data/perf` and `data/corpus`, each with what is asked of it.

/// What a row has to reach on two cores with AVX-512.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goal {
    /// Seconds of the dispatch on one thread, at most.
    pub seconds: Option<f64>,
    /// Peak memory of the process in MiB, at most.
    pub mib: Option<f64>,
    /// Time on one thread over time on two, at least.
    pub scaling: Option<f64>,
}

/// One kernel on one target.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Heading that the row stands under.
    pub group: &'static str,
    /// Folder of `data`.
    pub folder: &'static str,
    /// Name of the description.
    pub kernel: &'static str,
    /// Target to run on.
    pub target: &'static str,
    /// Whether `--quick` measures it.
    pub quick: bool,
    /// Whether tinygrad's emulator can run the same code object with a kernarg pointer alone.
    pub peer: bool,
    /// What is asked of it.
    pub goal: Goal,
}

const NONE: Goal = Goal {
    seconds: None,
    mib: None,
    scaling: None,
};

/// A kernel with eight workgroups or more.
const MANY: Goal = Goal {
    scaling: Some(1.8),
    ..NONE
};

/// One workgroup of several waves with matrix work.
const ALONE: Goal = Goal {
    scaling: Some(1.5),
    ..NONE
};

/// A row of `data/perf`.
const fn perf(
    group: &'static str,
    kernel: &'static str,
    target: &'static str,
    quick: bool,
    peer: bool,
    goal: Goal,
) -> Row {
    Row {
        group,
        folder: "perf",
        kernel,
        target,
        quick,
        peer,
        goal,
    }
}

/// A row of `data/corpus`.
const fn corpus(kernel: &'static str, target: &'static str, quick: bool, goal: Goal) -> Row {
    Row {
        group: "Compiled kernels of the corpus",
        folder: "corpus",
        kernel,
        target,
        quick,
        peer: false,
        goal,
    }
}

const PRODUCTS: &str = "Matrix products and attention";
const LOOPS: &str = "Loops of one kind of instruction";
const MEMORY: &str = "LDS and memory";
const REGISTERS: &str = "Register saturation";
const EMPTY: &str = "Empty kernels";

/// All rows, in the order they are printed.
pub const ROWS: &[Row] = &[
    perf(
        PRODUCTS,
        "gemm_fp8_ocp_1024",
        "gfx950",
        true,
        false,
        Goal {
            seconds: Some(0.5),
            ..MANY
        },
    ),
    perf(PRODUCTS, "gemm_fp8_fnuz_1024", "gfx942", false, false, MANY),
    perf(PRODUCTS, "gemm_fp8_ocp_1024", "gfx1250", false, false, MANY),
    perf(PRODUCTS, "gemm_f16_1024", "gfx90a", false, false, MANY),
    perf(PRODUCTS, "gemm_f16_1024", "gfx942", true, false, MANY),
    perf(PRODUCTS, "gemm_f16_1024", "gfx950", false, false, MANY),
    perf(PRODUCTS, "gemm_f16_1024", "gfx1201", false, false, MANY),
    perf(PRODUCTS, "gemm_f16_1024", "gfx1250", false, false, MANY),
    perf(PRODUCTS, "gemm_f16_128", "gfx942", true, false, NONE),
    perf(PRODUCTS, "gemm_f16_256", "gfx942", true, false, NONE),
    perf(PRODUCTS, "gemm_f16_256", "gfx1201", false, false, NONE),
    perf(PRODUCTS, "gemm_bf16_512", "gfx942", false, false, MANY),
    perf(PRODUCTS, "gemm_mxfp4_512", "gfx950", true, false, MANY),
    perf(PRODUCTS, "gemm_mxfp4_512", "gfx1250", false, false, MANY),
    perf(PRODUCTS, "gemm_f16_one_group", "gfx942", true, false, ALONE),
    perf(
        PRODUCTS,
        "gemm_f16_one_group",
        "gfx1201",
        false,
        false,
        ALONE,
    ),
    perf(PRODUCTS, "attention_fp8_ocp", "gfx950", true, false, MANY),
    perf(PRODUCTS, "attention_fp8_ocp", "gfx1250", false, false, MANY),
    perf(
        PRODUCTS,
        "attention_f16_4x512x64",
        "gfx942",
        false,
        false,
        MANY,
    ),
    perf(LOOPS, "valu_mix_w64", "gfx950", true, true, MANY),
    perf(LOOPS, "valu_mix_w32", "gfx1100", true, true, MANY),
    perf(LOOPS, "valu_mix_w32", "gfx1201", true, true, MANY),
    perf(LOOPS, "valu_mix_partial_w64", "gfx950", false, true, MANY),
    perf(LOOPS, "pk_f16_loop_w64", "gfx950", false, true, MANY),
    perf(LOOPS, "pk_f16_loop_w32", "gfx1201", false, true, MANY),
    perf(LOOPS, "f64_loop_w64", "gfx950", false, true, MANY),
    perf(LOOPS, "trans_loop_w64", "gfx950", false, true, MANY),
    perf(LOOPS, "trans_loop_w32", "gfx1201", false, true, MANY),
    perf(LOOPS, "salu_loop_w64", "gfx950", true, true, MANY),
    perf(LOOPS, "salu_loop_w32", "gfx1100", false, true, MANY),
    perf(LOOPS, "mfma_f16_32x32x8", "gfx950", true, true, NONE),
    perf(LOOPS, "mfma_fp8_ocp_16x16x32", "gfx950", false, true, NONE),
    perf(LOOPS, "wmma_f16_16x16x16", "gfx1201", true, true, NONE),
    perf(MEMORY, "lds_contiguous", "gfx950", true, true, MANY),
    perf(MEMORY, "lds_b128", "gfx950", false, true, MANY),
    perf(MEMORY, "lds_strided", "gfx950", false, true, MANY),
    perf(MEMORY, "lds_atomics", "gfx1100", false, true, MANY),
    perf(MEMORY, "lds_barrier", "gfx950", false, true, MANY),
    perf(MEMORY, "copy_dword", "gfx950", true, true, NONE),
    perf(MEMORY, "copy_dwordx4", "gfx1100", false, true, NONE),
    perf(MEMORY, "gather", "gfx950", false, true, NONE),
    perf(MEMORY, "atomic_hot", "gfx950", false, true, NONE),
    perf(MEMORY, "atomic_spread", "gfx950", false, true, NONE),
    perf(REGISTERS, "regs_8_once_w64", "gfx950", false, true, NONE),
    perf(REGISTERS, "regs_64_rounds_w64", "gfx950", false, true, NONE),
    perf(REGISTERS, "regs_512_once_w64", "gfx950", true, true, NONE),
    perf(
        REGISTERS,
        "regs_512_rounds_w64",
        "gfx950",
        false,
        true,
        NONE,
    ),
    perf(EMPTY, "empty_1", "gfx950", true, true, NONE),
    perf(EMPTY, "empty_65536", "gfx950", true, true, NONE),
    corpus(
        "iree_softmax_f32",
        "gfx942",
        true,
        Goal {
            seconds: Some(0.025),
            mib: Some(40.0),
            ..NONE
        },
    ),
    corpus("iree_matmul_256x1x1024_f32", "gfx942", true, NONE),
    corpus("iree_matmul_1000x1x300_f32", "gfx942", false, NONE),
    corpus("softmax_f32", "gfx942", false, NONE),
    corpus("layer_norm_f32", "gfx1201", false, NONE),
    corpus("conv3x3_f16", "gfx942", false, NONE),
    corpus("attention_causal_bf16", "gfx950", false, NONE),
];
