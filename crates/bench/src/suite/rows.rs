//! What the suite measures: kernels of `data/perf` and `data/corpus`, each with what is asked of it.

/// What a row has to reach on two cores with AVX-512. That kernels with eight workgroups or more gain from threads is
/// asked of all of them ([`MANY`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goal {
    /// Seconds of the dispatch on one thread, at most.
    pub seconds: Option<f64>,
    /// Peak memory of the process in MiB, at most.
    pub mib: Option<f64>,
    /// Time on one thread over time on two, at least.
    pub scaling: Option<f64>,
    /// Bytes that it copies: no more is asked of its scaling than what two threads of this host reach that do nothing else.
    pub copies: Option<usize>,
}

/// Workgroups from which on a kernel must gain [`OF_MANY`] from two threads.
pub const MANY: u64 = 8;
/// Time on one thread over time on two that kernels of [`MANY`] workgroups must reach.
pub const OF_MANY: f64 = 1.8;

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

impl Row {
    const fn quick(self) -> Row {
        Row {
            quick: true,
            ..self
        }
    }

    const fn peer(self) -> Row {
        Row { peer: true, ..self }
    }

    const fn within(self, seconds: f64, mib: Option<f64>) -> Row {
        let seconds = Some(seconds);
        let goal = Goal {
            seconds,
            mib,
            ..self.goal
        };
        Row { goal, ..self }
    }

    /// It does little but copy 16 MiB.
    const fn copies(self) -> Row {
        let copies = Some(16 << 20);
        let goal = Goal {
            copies,
            ..self.goal
        };
        Row { goal, ..self }
    }

    /// One workgroup of several waves with matrix work.
    const fn alone(self) -> Row {
        let scaling = Some(1.5);
        let goal = Goal {
            scaling,
            ..self.goal
        };
        Row { goal, ..self }
    }
}

/// A row of `data/perf`.
const fn perf(group: &'static str, kernel: &'static str, target: &'static str) -> Row {
    Row {
        group,
        folder: "perf",
        kernel,
        target,
        quick: false,
        peer: false,
        goal: Goal {
            seconds: None,
            mib: None,
            scaling: None,
            copies: None,
        },
    }
}

/// A row of `data/corpus`.
const fn corpus(kernel: &'static str, target: &'static str) -> Row {
    Row {
        folder: "corpus",
        ..perf("Compiled kernels of the corpus", kernel, target)
    }
}

const PRODUCTS: &str = "Matrix products and attention";
const LOOPS: &str = "Loops of one kind of instruction";
const MATRIX: &str = "Loops of matrix instructions";
const MEMORY: &str = "LDS and memory";
const REGISTERS: &str = "Register saturation";
const EMPTY: &str = "Empty kernels";

/// All rows, in the order they are printed.
pub const ROWS: &[Row] = &[
    perf(PRODUCTS, "gemm_fp8_ocp_1024", "gfx950")
        .quick()
        .within(0.5, None),
    perf(PRODUCTS, "gemm_fp8_fnuz_1024", "gfx942"),
    perf(PRODUCTS, "gemm_fp8_ocp_1024", "gfx1201"),
    perf(PRODUCTS, "gemm_fp8_ocp_1024", "gfx1250"),
    perf(PRODUCTS, "gemm_f16_1024", "gfx90a"),
    perf(PRODUCTS, "gemm_f16_1024", "gfx942").quick(),
    perf(PRODUCTS, "gemm_f16_1024", "gfx950"),
    perf(PRODUCTS, "gemm_f16_1024", "gfx1100"),
    perf(PRODUCTS, "gemm_f16_1024", "gfx1201"),
    perf(PRODUCTS, "gemm_f16_1024", "gfx1250"),
    perf(PRODUCTS, "gemm_f16_128", "gfx942").quick(),
    perf(PRODUCTS, "gemm_f16_256", "gfx942").quick(),
    perf(PRODUCTS, "gemm_f16_256", "gfx1201"),
    perf(PRODUCTS, "gemm_bf16_512", "gfx942"),
    perf(PRODUCTS, "gemm_mxfp4_512", "gfx950").quick(),
    perf(PRODUCTS, "gemm_mxfp4_512", "gfx1250"),
    perf(PRODUCTS, "gemm_f16_one_group", "gfx942")
        .quick()
        .alone(),
    perf(PRODUCTS, "gemm_f16_one_group", "gfx950").alone(),
    perf(PRODUCTS, "gemm_f16_one_group", "gfx1201").alone(),
    perf(PRODUCTS, "attention_fp8_ocp", "gfx950").quick(),
    perf(PRODUCTS, "attention_fp8_ocp", "gfx1250"),
    perf(PRODUCTS, "attention_fp8_fnuz", "gfx942"),
    perf(PRODUCTS, "attention_f16_4x512x64", "gfx942"),
    perf(LOOPS, "valu_mix_w64", "gfx950").quick().peer(),
    perf(LOOPS, "valu_mix_w32", "gfx1100").quick().peer(),
    perf(LOOPS, "valu_mix_w32", "gfx1201").quick().peer(),
    perf(LOOPS, "valu_mix_partial_w64", "gfx950").peer(),
    perf(LOOPS, "valu_mix_partial_w32", "gfx1201").peer(),
    perf(LOOPS, "pk_f16_loop_w64", "gfx950").peer(),
    perf(LOOPS, "pk_f16_loop_w32", "gfx1201").peer(),
    perf(LOOPS, "f64_loop_w64", "gfx950").peer(),
    perf(LOOPS, "f64_loop_w32", "gfx1201").peer(),
    perf(LOOPS, "trans_loop_w64", "gfx950").peer(),
    perf(LOOPS, "trans_loop_w32", "gfx1201").peer(),
    perf(LOOPS, "salu_loop_w64", "gfx950").quick().peer(),
    perf(LOOPS, "salu_loop_w32", "gfx1100").peer(),
    perf(MATRIX, "mfma_f16_32x32x8", "gfx950").quick().peer(),
    perf(MATRIX, "mfma_f16_32x32x16", "gfx950").peer(),
    perf(MATRIX, "mfma_fp8_ocp_16x16x32", "gfx950").peer(),
    perf(MATRIX, "mfma_fp8_fnuz_16x16x32", "gfx942"),
    perf(MATRIX, "mfma_i8_32x32x16", "gfx950").peer(),
    perf(MATRIX, "mfma_i8_32x32x8", "gfx90a"),
    perf(MATRIX, "mfma_f32_32x32x2", "gfx950").peer(),
    perf(MATRIX, "mfma_f64_16x16x4", "gfx950").peer(),
    perf(MATRIX, "wmma_f16_16x16x16", "gfx1100").peer(),
    perf(MATRIX, "wmma_f16_16x16x16", "gfx1201").quick().peer(),
    perf(MATRIX, "wmma_f16_16x16x32", "gfx1250"),
    perf(MATRIX, "wmma_f32_16x16x4", "gfx1250"),
    perf(MATRIX, "wmma_fp8_16x16x16", "gfx1201").peer(),
    perf(MATRIX, "wmma_fp8_16x16x64", "gfx1250"),
    perf(MATRIX, "wmma_i8_16x16x16", "gfx1201").peer(),
    perf(MATRIX, "wmma_i8_16x16x64", "gfx1250"),
    perf(MEMORY, "lds_contiguous", "gfx950").quick().peer(),
    perf(MEMORY, "lds_b128", "gfx950").peer(),
    perf(MEMORY, "lds_strided", "gfx950").peer(),
    perf(MEMORY, "lds_atomics", "gfx1100").peer(),
    perf(MEMORY, "lds_barrier", "gfx950").peer(),
    perf(MEMORY, "copy_dword", "gfx950").quick().peer().copies(),
    perf(MEMORY, "copy_dwordx4", "gfx1100").peer().copies(),
    perf(MEMORY, "gather", "gfx950").peer(),
    perf(MEMORY, "atomic_hot", "gfx950").peer(),
    perf(MEMORY, "atomic_spread", "gfx950").peer(),
    perf(MEMORY, "atomic_ticket", "gfx950").peer(),
    perf(REGISTERS, "regs_8_once_w32", "gfx1100").peer(),
    perf(REGISTERS, "regs_8_once_w64", "gfx950").peer(),
    perf(REGISTERS, "regs_8_rounds_w32", "gfx1100").peer(),
    perf(REGISTERS, "regs_8_rounds_w64", "gfx950").peer(),
    perf(REGISTERS, "regs_64_once_w32", "gfx1100").peer(),
    perf(REGISTERS, "regs_64_once_w64", "gfx950").peer(),
    perf(REGISTERS, "regs_64_rounds_w32", "gfx1100").peer(),
    perf(REGISTERS, "regs_64_rounds_w64", "gfx950").peer(),
    perf(REGISTERS, "regs_252_once_w32", "gfx1100").peer(),
    perf(REGISTERS, "regs_252_once_w64", "gfx950").peer(),
    perf(REGISTERS, "regs_252_rounds_w32", "gfx1100").peer(),
    perf(REGISTERS, "regs_252_rounds_w64", "gfx950").peer(),
    perf(REGISTERS, "regs_512_once_w64", "gfx950")
        .quick()
        .peer(),
    perf(REGISTERS, "regs_512_rounds_w64", "gfx950").peer(),
    perf(EMPTY, "empty_1", "gfx950").quick().peer(),
    perf(EMPTY, "empty_65536", "gfx950").quick().peer(),
    corpus("iree_softmax_f32", "gfx942")
        .quick()
        .within(0.025, Some(40.0)),
    corpus("iree_matmul_256x1x1024_f32", "gfx942").quick(),
    corpus("iree_matmul_1000x1x300_f32", "gfx942"),
    corpus("softmax_f32", "gfx942"),
    corpus("layer_norm_f32", "gfx1201"),
    corpus("conv3x3_f16", "gfx942"),
    corpus("attention_causal_bf16", "gfx950"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::ROWS;

    #[test]
    fn every_kernel_of_perf_has_a_row() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/perf/built");
        let mut there = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "json") {
                there.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
        assert!(there.len() > 50, "{there:?}");
        let rows = ROWS.iter().filter(|row| row.folder == "perf");
        let rows: BTreeSet<String> = rows.map(|row| row.kernel.to_owned()).collect();
        assert_eq!(rows, there);
    }

    #[test]
    fn every_row_has_code_for_its_target() {
        for row in ROWS {
            let place = format!(
                "../../data/{}/built/{}.{}.hsaco",
                row.folder, row.kernel, row.target
            );
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
            assert!(path.exists(), "{}", path.display());
        }
    }
}
