//! The semantics of vector arithmetic, written once for all back ends, one file per kind.
//!
//! The macro `ops!` takes functions named as instructions: names that mean the same are joined with `|`; each
//! parameter's type is a port of [`rocjitsu_lanes::kernel`]; `L` is the back end. Parameters are the sources
//! in the order in which assembly names them; a last parameter of type `Mask` is VCC or the SGPR mask operand,
//! one of type `Lane` the number of the lane.
//! `name[x](...)` names the [`Aux`](rocjitsu_lanes::kernel::Aux) value `x` where it is wanted. A body after `=> modal` computes in
//! the float modes other than the default.

pub(crate) mod bits;
mod carry;
mod compare;
mod convert;
mod division;
pub(crate) mod dot;
mod float16;
mod float32;
mod float64;
pub(crate) mod float_facts;
mod integer16;
mod integer32;
mod integer64;
mod minmax;
mod mix;
mod moves;
mod packed_float;
mod packed_integer;
pub(crate) mod small_float;
pub(crate) mod support;
mod transcendental;

use rocjitsu_isa::{Op, Target};
use rocjitsu_lanes::kernel::KernelSet;

use crate::record::Exactness;

/// What [`find`] knows of an operation.
pub struct Found {
    /// Its kernels.
    pub set: KernelSet,
    /// How exact they are.
    pub exactness: Exactness,
    /// The kernel applies the clamp modifier itself.
    pub clamps_itself: bool,
    /// The operation's immediate ([`rocjitsu_lanes::kernel::Aux::immediate`]).
    pub immediate: u32,
}

impl Found {
    /// An operation with the usual operands.
    pub fn new(set: KernelSet, exactness: Exactness) -> Found {
        Found {
            set,
            exactness,
            clamps_itself: false,
            immediate: 0,
        }
    }
}

/// Defines lane operations and a function `find` from [`Op`] to them.
macro_rules! ops {
    (@exact) => { $crate::record::Exactness::Exact };
    (@exact bounded $text:literal) => { $crate::record::Exactness::Bounded($text) };
    (@exact by_default $text:literal) => { $crate::record::Exactness::Default($text) };
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
        $(#[by_default = $rule:literal])?
        $first:ident $(| $other:ident)* $([$x:ident])? ($($arg:ident: $port:ident),*) -> $out:ident $(, $out2:ident)? $body:block
        $(=> modal $modal:block)?
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
                    $crate::valu::ops::ops!(@exact $(bounded $bound)? $(by_default $rule)?),
                )),)*
                _ => None,
            }
        }
    };
}
pub(crate) use ops;

/// The operation of an instruction on a target.
pub fn find(op: Op, target: Target) -> Option<Found> {
    let files = [
        bits::find,
        carry::find,
        compare::find,
        convert::find,
        division::find,
        dot::find,
        float16::find,
        float32::find,
        float64::find,
        integer16::find,
        integer32::find,
        integer64::find,
        mix::find,
        moves::find,
        packed_float::find,
        packed_integer::find,
        small_float::find,
        transcendental::find,
    ];
    let mut found = files.iter().find_map(|find| find(op))?;
    float_facts::adjust(&mut found, op, target);
    if op == Op::v_lshl_add_u64 {
        // Counts above 4 are unsupported; the CDNA3 and CDNA4 manuals shift by them all the same, the CDNA5
        // manual does not.
        found.immediate = if target == Target::Gfx1250 { 4 } else { 7 };
    }
    Some(found)
}
