//! Handlers compiled once for each back end, so that their loops use its vector instructions.

use rocjitsu_lanes::Backend;

use crate::record::{Flow, Handler, Record};
use crate::wave::Cx;

/// What a handler does.
pub trait Body: 'static {
    /// Executes the instruction. Implementations are `#[inline(always)]`.
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow;
}

/// The handler of `B` for a back end that the host supports.
pub fn handler<B: Body>(backend: Backend) -> Handler {
    match backend {
        Backend::Scalar => B::run,
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => x86::avx2::<B>,
        #[cfg(target_arch = "x86_64")]
        Backend::Avx512 => x86::avx512::<B>,
        #[cfg(not(target_arch = "x86_64"))]
        _ => B::run,
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Body, Cx, Flow, Record};

    pub fn avx2<B: Body>(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn inner<B: Body>(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
            B::run(cx, record)
        }
        // SAFETY: records are lowered for a back end that the host supports.
        unsafe { inner::<B>(cx, record) }
    }

    pub fn avx512<B: Body>(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        #[target_feature(
            enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
        )]
        fn inner<B: Body>(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
            B::run(cx, record)
        }
        // SAFETY: as above.
        unsafe { inner::<B>(cx, record) }
    }
}
