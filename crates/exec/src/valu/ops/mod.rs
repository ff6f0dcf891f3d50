//! The semantics of vector arithmetic, written once for all back ends, one file per kind.
//!
//! [`ops!`] takes functions named as instructions: names that mean the same are joined with `|`; each
//! parameter's type is a port of [`rocjitsu_lanes::kernel`]; `L` is the back end. Parameters are the sources
//! `src0`, `src1`, `src2` in order; a last parameter of type `Mask` is VCC or the SGPR mask operand.
//! `name[x](...)` names the [`Aux`](rocjitsu_lanes::kernel::Aux) value `x` where it is wanted. A `modal` body computes in
//! the float modes other than the default.

mod compare;
mod float32;
mod integer32;
mod moves;

use rocjitsu_isa::{Name, Op, Target};
use rocjitsu_lanes::kernel::KernelSet;

use crate::record::Exactness;

/// What [`find`] knows of an operation.
pub struct Found {
    /// Its kernels.
    pub set: KernelSet,
    /// How exact they are.
    pub exactness: Exactness,
    /// Which source (0–2) each kernel parameter takes; the identity but for a few reversed forms.
    pub order: [u8; 3],
    /// The operand that holds the mask, where it is not `src2`.
    pub mask_name: Option<Name>,
    /// The kernel applies the clamp modifier itself.
    pub clamps_itself: bool,
    /// The operation works on both registers of a pair, one after the other (packed f32).
    pub pair: bool,
    /// The operation's immediate ([`rocjitsu_lanes::kernel::Aux::immediate`]).
    pub immediate: u32,
}

impl Found {
    /// An operation with the usual operands.
    pub fn new(set: KernelSet, exactness: Exactness) -> Found {
        Found {
            set,
            exactness,
            order: [0, 1, 2],
            mask_name: None,
            clamps_itself: false,
            pair: false,
            immediate: 0,
        }
    }
}

/// Defines lane operations and a function `find` from [`Op`] to them.
macro_rules! ops {
    (@exact) => { $crate::record::Exactness::Exact };
    (@exact $bound:literal) => { $crate::record::Exactness::Bounded($bound) };
    (@modal ($($arg:ident)*) ($($x:ident)?)) => {};
    (@modal ($($arg:ident)*) ($($x:ident)?) $modal:block) => {
        const HAS_MODAL: bool = true;
        #[inline(always)]
        #[allow(unused_variables)]
        fn eval_modal<L: ::rocjitsu_lanes::vector::Lanes>(
            aux: ::rocjitsu_lanes::kernel::Aux,
            ($($arg,)*): <Self::In as ::rocjitsu_lanes::kernel::Inputs>::Vals<L>,
        ) -> <Self::Out as ::rocjitsu_lanes::kernel::Outputs>::Vals<L> {
            $(let $x = aux;)?
            $modal
        }
    };
    ($(
        $(#[doc = $doc:literal])*
        $(#[bounded = $bound:literal])?
        $first:ident $(| $other:ident)* $([$x:ident])? ($($arg:ident: $port:ident),*) -> $out:ident $(, $out2:ident)? $body:block
        $(modal $modal:block)?
    )*) => {
        $(
            $(#[doc = $doc])*
            #[allow(non_camel_case_types)]
            pub struct $first;
            impl ::rocjitsu_lanes::kernel::Op for $first {
                type In = ($(::rocjitsu_lanes::kernel::$port,)*);
                type Out = (::rocjitsu_lanes::kernel::$out, $(::rocjitsu_lanes::kernel::$out2)?);
                #[inline(always)]
                #[allow(unused_variables)]
                fn eval<L: ::rocjitsu_lanes::vector::Lanes>(
                    aux: ::rocjitsu_lanes::kernel::Aux,
                    ($($arg,)*): <Self::In as ::rocjitsu_lanes::kernel::Inputs>::Vals<L>,
                ) -> <Self::Out as ::rocjitsu_lanes::kernel::Outputs>::Vals<L> {
                    $(let $x = aux;)?
                    $body
                }
                $crate::valu::ops::ops!(@modal ($($arg)*) ($($x)?) $($modal)?);
            }
        )*
        /// The operation of that name, if it is one of this file.
        pub fn find(op: ::rocjitsu_isa::Op) -> Option<$crate::valu::ops::Found> {
            #[allow(unused_imports)]
            use ::rocjitsu_isa::Op;
            match op {
                $(Op::$first $(| Op::$other)* => Some($crate::valu::ops::Found::new(
                    const { ::rocjitsu_lanes::kernel::KernelSet::of::<$first>() },
                    $crate::valu::ops::ops!(@exact $($bound)?),
                )),)*
                _ => None,
            }
        }
    };
}
pub(crate) use ops;

/// The operation of an instruction on a target.
pub fn find(op: Op, _target: Target) -> Option<Found> {
    float32::find(op).or_else(|| integer32::find(op)).or_else(|| moves::find(op)).or_else(|| compare::find(op))
}
