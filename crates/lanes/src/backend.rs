//! Which instructions of the host a computation uses: plain scalar code, AVX2 or AVX-512.
//! All back ends give the same bits; they differ in speed only.

/// A way of computing on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Plain Rust, the reference that the other back ends are tested against.
    Scalar,
    /// 256-bit vectors: AVX2 and FMA.
    Avx2,
    /// 512-bit vectors: AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
}

impl Backend {
    /// Every back end, slowest first.
    pub const ALL: [Backend; 3] = [Backend::Scalar, Backend::Avx2, Backend::Avx512];

    /// Whether this host can run the back end.
    pub fn is_supported(self) -> bool {
        match self {
            Backend::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => {
                Backend::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The fastest back end that this host supports.
    pub fn best() -> Backend {
        Backend::ALL
            .into_iter()
            .rev()
            .find(|backend| backend.is_supported())
            .unwrap_or(Backend::Scalar)
    }

    /// The name used in messages and options.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Scalar => "scalar",
            Backend::Avx2 => "avx2",
            Backend::Avx512 => "avx512",
        }
    }
}
