//! The vector back ends, and which of them the host can run.
//! One portable binary holds all of them; the choice is made at run time.

use std::fmt;

/// A way to compute on the lanes of a wave. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Plain Rust on arrays: the oracle that the others are compared with.
    Scalar,
    /// 256-bit vectors: AVX2, FMA, F16C, BMI1/2.
    Avx2,
    /// 512-bit vectors: AVX-512 F, BW, CD, DQ, VL on top of the above.
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
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => {
                Backend::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The fastest back end of this host.
    pub fn best() -> Backend {
        Backend::ALL
            .into_iter()
            .rev()
            .find(|b| b.is_supported())
            .unwrap_or(Backend::Scalar)
    }

    /// The back ends of this host, slowest first.
    pub fn supported() -> impl Iterator<Item = Backend> {
        Backend::ALL.into_iter().filter(|b| b.is_supported())
    }

    /// The name that `ROCJITSU_LANES` takes: `scalar`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Scalar => "scalar",
            Backend::Avx2 => "avx2",
            Backend::Avx512 => "avx512",
        }
    }

    /// The back end of that name, whether the host has it or not.
    pub fn from_name(name: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|b| b.name() == name)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for b in Backend::ALL {
            assert_eq!(Backend::from_name(b.name()), Some(b));
        }
        assert_eq!(Backend::from_name("neon"), None);
    }

    #[test]
    fn the_best_is_supported() {
        assert!(Backend::best().is_supported());
        assert!(Backend::Scalar.is_supported());
    }
}
