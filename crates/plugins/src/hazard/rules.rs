//! The table of hazards that hardware does not wait for: which instruction must not follow which one, and how much has to
//! lie between them, by target.
//!
//! Sources: "Manually Inserted Wait States" and "Required NOPs" of the CDNA2, CDNA3 and CDNA4 manuals, "Requirements for WMMA data
//! hazards" and "Specific Dependency Cases" of the RDNA4 and CDNA5 manuals; where these are silent, what the open
//! compilers (LLVM's hazard recognizer, Mesa's ACO) wait for. Where a manual and LLVM differ, the smaller
//! number stands here.

use rocjitsu_isa::Target;

use super::class::{Class, Role};

/// How much has to lie between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// That much.
    Count(i32),
    /// The passes of the first, and these.
    Passes(i32),
    /// The passes of the first, and these: of two passes, of more.
    PassesOr(i32, i32),
    /// That much if the first has two passes, else nothing.
    IfTwoPasses(i32),
    /// What the field `waitvdst` of the second says.
    WaitVdst,
}

/// What counts as lying between, and how a program is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Wait states: every instruction is one, `s_nop N` is N + 1.
    States,
    /// Vector instructions, `v_nop` too.
    Vector,
    /// Vector instructions, or one that waits until those before it are done: memory, exports,
    /// `s_waitcnt_depctr` with `va_vdst(0)`. This many transcendental ones are enough as well, if any are.
    VectorDone(Option<u64>),
}

/// A row for some first instructions.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Of which of the rule's first instructions.
    pub first: Class,
    /// Whether the registers of both must be the very same (`Some(true)`), or only some (`Some(false)`).
    pub same: Option<bool>,
    /// What is needed.
    pub need: Need,
}

/// A hazard.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name in reports.
    pub name: &'static str,
    /// Targets that have it.
    pub targets: &'static [Target],
    /// Classes of the first instruction: any of these.
    pub first: Class,
    /// Classes of the second instruction: any of these, and none of `but`.
    pub second: Class,
    /// Classes that the second instruction is not of.
    pub but: Class,
    /// The registers by which they depend on each other; none if their order is enough.
    pub link: Option<(Role, Role)>,
    /// Whether they must be the same operation, or must not.
    pub same_op: Option<bool>,
    /// What must be between them for the hazard to exist.
    pub between: Class,
    /// What counts.
    pub unit: Unit,
    /// How much is needed, by the first instruction: the first case that fits.
    pub cases: &'static [Case],
}

const CDNA2: &[Target] = &[Target::Gfx90a];
const CDNA3: &[Target] = &[Target::Gfx942];
const CDNA4: &[Target] = &[Target::Gfx950];
const CDNA34: &[Target] = &[Target::Gfx942, Target::Gfx950];
const CDNA: &[Target] = &[Target::Gfx90a, Target::Gfx942, Target::Gfx950];
const RDNA3: &[Target] = &[Target::Gfx1100, Target::Gfx1151];
const RDNA: &[Target] = &[Target::Gfx1100, Target::Gfx1151, Target::Gfx1201];
const RDNA30: &[Target] = &[Target::Gfx1100];
const CDNA5: &[Target] = &[Target::Gfx1250];
const LDS_DIRECT: &[Target] = &[Target::Gfx1100, Target::Gfx1151, Target::Gfx1201];

/// What every rule has unless it says otherwise.
const fn rule(
    name: &'static str,
    targets: &'static [Target],
    first: Class,
    second: Class,
    link: Option<(Role, Role)>,
    cases: &'static [Case],
) -> Rule {
    Rule {
        name,
        targets,
        first,
        second,
        but: Class::NONE,
        link,
        same_op: None,
        between: Class::NONE,
        unit: Unit::States,
        cases,
    }
}

const fn case(first: Class, same: Option<bool>, need: Need) -> Case {
    Case { first, same, need }
}

macro_rules! count {
    ($n:literal) => {
        &[case(Class::ALL, None, Need::Count($n))]
    };
}

/// How long the result of a matrix product takes until it can be read or overwritten, by its kind.
const RESULT_2: &[Case] = &[
    case(Class::DGEMM_4, None, Need::Count(6)),
    case(Class::DGEMM_16, None, Need::Count(11)),
    case(Class::XDL, None, Need::Passes(3)),
];
const RESULT_3: &[Case] = &[
    case(Class::DGEMM_4, None, Need::Count(6)),
    case(Class::DGEMM_16, None, Need::Count(11)),
    case(Class::SGEMM, None, Need::Passes(2)),
    case(Class::XDL, None, Need::Passes(3)),
];
const RESULT_4: &[Case] = &[
    case(Class::DGEMM_4, None, Need::Count(6)),
    case(Class::DGEMM_16, None, Need::Count(19)),
    case(Class::SGEMM, None, Need::Passes(2)),
    case(Class::XDL, None, Need::PassesOr(3, 4)),
];
const OVERWRITTEN_4: &[Case] = &[
    case(Class::DGEMM_4, None, Need::Count(6)),
    case(Class::DGEMM_16, None, Need::Count(11)),
    case(Class::SGEMM, None, Need::Passes(2)),
    case(Class::XDL, None, Need::PassesOr(3, 4)),
];
/// The same for those of gfx1250, in vector instructions.
const WMMA_RESULT: &[Case] = &[
    case(Class::WMMA_8, None, Need::Count(4)),
    case(Class::WMMA_16, None, Need::Count(8)),
    case(Class::SWMMAC_8, None, Need::Count(2)),
    case(Class::SWMMAC_16, None, Need::Count(4)),
];

use Role::{
    Constant, Exec, ExecConstant, Hardware, LaneSelect, M0, MatrixAb, MatrixC, Read, ScalarRead,
    ScalarWritten, StoreData, Touched, Vcc, Written, ZeroFlag,
};

/// All hazards.
pub const RULES: &[Rule] = &[
    // Scalar state and vector arithmetic of CDNA.
    rule(
        "setreg",
        CDNA,
        Class::SETREG,
        Class::SETREG.or(Class::GETREG),
        Some((Hardware, Hardware)),
        count!(2),
    ),
    rule(
        "valu_vccz",
        CDNA,
        Class::VALU,
        Class::VALU,
        Some((ScalarWritten, ZeroFlag)),
        count!(5),
    ),
    rule(
        "valu_lane_select",
        CDNA,
        Class::VALU,
        Class::ANY_LANE,
        Some((ScalarWritten, LaneSelect)),
        count!(4),
    ),
    rule(
        "valu_div_fmas",
        CDNA,
        Class::VALU,
        Class::DIV_FMAS,
        Some((ScalarWritten, Vcc)),
        count!(4),
    ),
    rule(
        "valu_sgpr_vmem",
        CDNA,
        Class::VALU,
        Class::VMEM,
        Some((ScalarWritten, ScalarRead)),
        count!(5),
    ),
    rule(
        "salu_m0",
        CDNA,
        Class::SALU,
        Class::READS_M0,
        Some((ScalarWritten, M0)),
        count!(1),
    ),
    rule(
        "valu_dpp",
        CDNA,
        Class::VALU,
        Class::DPP,
        Some((Written, Read)),
        count!(2),
    ),
    rule(
        "exec_dpp",
        CDNA,
        Class::VALU,
        Class::DPP,
        Some((ScalarWritten, Exec)),
        count!(5),
    ),
    rule(
        "store_data",
        CDNA2,
        Class::WIDE_STORE,
        Class::VALU,
        Some((StoreData, Written)),
        count!(1),
    ),
    rule(
        "store_data",
        CDNA34,
        Class::WIDE_STORE,
        Class::VALU,
        Some((StoreData, Written)),
        count!(2),
    ),
    rule(
        "valu_sgpr_constant",
        CDNA34,
        Class::VALU,
        Class::VALU,
        Some((ScalarWritten, Constant)),
        count!(2),
    ),
    rule(
        "valu_exec_constant",
        CDNA34,
        Class::VALU,
        Class::VALU,
        Some((ScalarWritten, ExecConstant)),
        count!(2),
    ),
    rule(
        "valu_exec_lane",
        CDNA34,
        Class::VALU,
        Class::ANY_LANE,
        Some((ScalarWritten, Exec)),
        count!(4),
    ),
    rule(
        "valu_readlane",
        CDNA34,
        Class::VALU,
        Class::READ_LANE,
        Some((Written, Read)),
        count!(1),
    ),
    rule(
        "shifted_result",
        CDNA34,
        Class::SHIFTS_RESULT,
        Class::VALU,
        Some((Written, Read)),
        count!(1),
    ),
    Rule {
        but: Class::TRANS,
        ..rule(
            "trans",
            CDNA34,
            Class::TRANS,
            Class::VALU,
            Some((Written, Read)),
            count!(1),
        )
    },
    rule(
        "cmpx_permlane",
        CDNA4,
        Class::CMPX,
        Class::PERMLANE,
        None,
        count!(4),
    ),
    rule(
        "valu_permlane",
        CDNA4,
        Class::VALU,
        Class::PERMLANE,
        Some((Written, Read)),
        count!(2),
    ),
    // Dot products.
    Rule {
        same_op: Some(false),
        but: Class::MFMA,
        ..rule(
            "dot_read",
            CDNA,
            Class::DOT,
            Class::VALU.or(Class::MEMORY),
            Some((Written, Read)),
            count!(3),
        )
    },
    Rule {
        same_op: Some(false),
        but: Class::MFMA,
        ..rule(
            "dot_write",
            CDNA,
            Class::DOT,
            Class::VALU,
            Some((Written, Written)),
            count!(3),
        )
    },
    Rule {
        same_op: Some(true),
        ..rule(
            "dot_ab",
            CDNA,
            Class::DOT,
            Class::DOT,
            Some((Written, MatrixAb)),
            count!(3),
        )
    },
    // Matrix products of CDNA.
    rule(
        "valu_mfma",
        CDNA,
        Class::PLAIN,
        Class::MFMA,
        Some((Written, Read)),
        &[
            case(Class::DOT, None, Need::Count(0)),
            case(Class::PLAIN, None, Need::Count(2)),
        ],
    ),
    rule(
        "exec_mfma",
        CDNA,
        Class::PLAIN,
        Class::MFMA,
        Some((ScalarWritten, Exec)),
        count!(4),
    ),
    rule(
        "dgemm_fma_f64",
        CDNA,
        Class::DGEMM,
        Class::FMA_F64,
        None,
        count!(2),
    ),
    Rule {
        between: Class::DGEMM,
        ..rule(
            "valu_dgemm_vmem",
            CDNA2,
            Class::VALU,
            Class::VMEM.or(Class::DS),
            Some((Written, Read)),
            count!(2),
        )
    },
    rule(
        "mfma_c",
        CDNA2,
        Class::MFMA,
        Class::XDL,
        Some((Written, MatrixC)),
        &[
            case(Class::DGEMM, None, Need::Count(0)),
            case(Class::XDL, Some(true), Need::Count(0)),
            case(Class::XDL, None, Need::Passes(0)),
        ],
    ),
    rule(
        "mfma_c",
        CDNA2,
        Class::MFMA,
        Class::DGEMM,
        Some((Written, MatrixC)),
        &[
            case(Class::DGEMM_4, None, Need::Count(4)),
            case(Class::MFMA, Some(true), Need::Count(0)),
            case(Class::DGEMM_16, None, Need::Count(9)),
            case(Class::XDL, None, Need::Passes(1)),
        ],
    ),
    rule(
        "mfma_ab",
        CDNA2,
        Class::MFMA,
        Class::MFMA,
        Some((Written, MatrixAb)),
        RESULT_2,
    ),
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_read",
            CDNA2,
            Class::MFMA,
            Class::VALU,
            Some((Written, Read)),
            RESULT_2,
        )
    },
    rule(
        "mfma_memory",
        CDNA2,
        Class::MFMA,
        Class::MEMORY,
        Some((Written, Read)),
        &[
            case(Class::DGEMM_4, None, Need::Count(9)),
            case(Class::DGEMM_16, None, Need::Count(18)),
            case(Class::XDL, None, Need::Passes(3)),
        ],
    ),
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_write",
            CDNA2,
            Class::MFMA,
            Class::VALU,
            Some((Written, Written)),
            RESULT_2,
        )
    },
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_c_overwritten",
            &[Target::Gfx90a, Target::Gfx942],
            Class::XDL,
            Class::VALU,
            Some((MatrixC, Written)),
            &[case(Class::XDL, None, Need::Passes(-1))],
        )
    },
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_c_overwritten",
            CDNA4,
            Class::XDL,
            Class::VALU,
            Some((MatrixC, Written)),
            count!(1),
        )
    },
    rule(
        "mfma_c",
        CDNA3,
        Class::MFMA,
        Class::XDL,
        Some((Written, MatrixC)),
        &[
            case(Class::DGEMM.or(Class::SGEMM), None, Need::Count(0)),
            case(Class::XDL, Some(true), Need::IfTwoPasses(2)),
            case(Class::XDL, None, Need::Passes(1)),
        ],
    ),
    rule(
        "mfma_c",
        CDNA4,
        Class::MFMA,
        Class::XDL,
        Some((Written, MatrixC)),
        &[
            case(Class::DGEMM.or(Class::SGEMM), None, Need::Count(0)),
            case(Class::XDL, Some(true), Need::IfTwoPasses(2)),
            case(Class::XDL, None, Need::Passes(2)),
        ],
    ),
    rule(
        "mfma_c",
        CDNA3,
        Class::MFMA,
        Class::SGEMM.or(Class::DGEMM),
        Some((Written, MatrixC)),
        &[
            case(Class::DGEMM_4, None, Need::Count(4)),
            case(Class::MFMA, Some(true), Need::IfTwoPasses(2)),
            case(Class::DGEMM_16, None, Need::Count(9)),
            case(Class::SGEMM, None, Need::Passes(0)),
            case(Class::XDL, None, Need::Passes(1)),
        ],
    ),
    rule(
        "mfma_c",
        CDNA4,
        Class::MFMA,
        Class::SGEMM.or(Class::DGEMM),
        Some((Written, MatrixC)),
        &[
            case(Class::DGEMM_4, None, Need::Count(4)),
            case(Class::MFMA, Some(true), Need::IfTwoPasses(2)),
            case(Class::DGEMM_16, None, Need::Count(17)),
            case(Class::SGEMM, None, Need::Passes(0)),
            case(Class::XDL, None, Need::PassesOr(1, 2)),
        ],
    ),
    rule(
        "mfma_ab",
        CDNA3,
        Class::MFMA,
        Class::MFMA,
        Some((Written, MatrixAb)),
        RESULT_3,
    ),
    rule(
        "mfma_ab",
        CDNA4,
        Class::MFMA,
        Class::MFMA,
        Some((Written, MatrixAb)),
        RESULT_4,
    ),
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_read",
            CDNA3,
            Class::MFMA,
            Class::VALU,
            Some((Written, Read)),
            RESULT_3,
        )
    },
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_read",
            CDNA4,
            Class::MFMA,
            Class::VALU,
            Some((Written, Read)),
            RESULT_4,
        )
    },
    rule(
        "mfma_memory",
        CDNA3,
        Class::MFMA,
        Class::MEMORY,
        Some((Written, Read)),
        &[
            case(Class::DGEMM_4, None, Need::Count(9)),
            case(Class::DGEMM_16, None, Need::Count(18)),
            case(Class::SGEMM, None, Need::Passes(2)),
            case(Class::XDL, None, Need::Passes(3)),
        ],
    ),
    rule(
        "mfma_memory",
        CDNA4,
        Class::MFMA,
        Class::MEMORY,
        Some((Written, Read)),
        &[
            case(Class::DGEMM_4, None, Need::Count(9)),
            case(Class::DGEMM_16, None, Need::Count(18)),
            case(Class::SGEMM, None, Need::Passes(2)),
            case(Class::XDL, None, Need::PassesOr(3, 4)),
        ],
    ),
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_write",
            CDNA3,
            Class::MFMA,
            Class::VALU,
            Some((Written, Written)),
            RESULT_3,
        )
    },
    Rule {
        but: Class::MFMA,
        ..rule(
            "mfma_write",
            CDNA4,
            Class::MFMA,
            Class::VALU,
            Some((Written, Written)),
            OVERWRITTEN_4,
        )
    },
    // RDNA.
    Rule {
        unit: Unit::Vector,
        ..rule(
            "cmpx_permlane",
            RDNA3,
            Class::CMPX,
            Class::PERMLANE,
            None,
            count!(1),
        )
    },
    Rule {
        unit: Unit::VectorDone(Some(2)),
        ..rule(
            "trans_use",
            RDNA30,
            Class::TRANS,
            Class::VALU,
            Some((Written, Read)),
            count!(6),
        )
    },
    Rule {
        unit: Unit::Vector,
        ..rule(
            "wmma_ab",
            RDNA,
            Class::WMMA,
            Class::WMMA,
            Some((Written, MatrixAb)),
            count!(1),
        )
    },
    Rule {
        unit: Unit::VectorDone(None),
        ..rule(
            "valu_lds_direct",
            LDS_DIRECT,
            Class::VALU,
            Class::LDS_DIRECT,
            Some((Touched, Written)),
            &[case(Class::VALU, None, Need::WaitVdst)],
        )
    },
    rule(
        "dealloc_vgprs",
        RDNA3,
        Class::NO_NOP,
        Class::DEALLOC,
        None,
        count!(1),
    ),
    // CDNA5.
    Rule {
        unit: Unit::Vector,
        ..rule(
            "wmma_ab",
            CDNA5,
            Class::WMMA,
            Class::WMMA,
            Some((Written, MatrixAb)),
            &[
                case(Class::WMMA_8, None, Need::Count(5)),
                case(Class::WMMA_16, None, Need::Count(9)),
                case(Class::SWMMAC_8, None, Need::Count(3)),
                case(Class::SWMMAC_16, None, Need::Count(5)),
                case(Class::WMMA, None, Need::Count(1)),
            ],
        )
    },
    Rule {
        unit: Unit::Vector,
        but: Class::WMMA,
        ..rule(
            "wmma_read",
            CDNA5,
            Class::WMMA,
            Class::VALU,
            Some((Written, Read)),
            WMMA_RESULT,
        )
    },
    Rule {
        unit: Unit::Vector,
        but: Class::WMMA,
        ..rule(
            "wmma_write",
            CDNA5,
            Class::WMMA,
            Class::VALU,
            Some((Written, Written)),
            WMMA_RESULT,
        )
    },
    Rule {
        unit: Unit::Vector,
        but: Class::TRANS,
        ..rule(
            "trans_use",
            CDNA5,
            Class::TRANS,
            Class::VALU,
            Some((Written, Read)),
            count!(1),
        )
    },
    Rule {
        unit: Unit::Vector,
        but: Class::TRANS,
        ..rule(
            "trans_sources",
            CDNA5,
            Class::TRANS,
            Class::VALU,
            Some((Read, Written)),
            count!(1),
        )
    },
    rule(
        "setreg_vgpr_msb",
        CDNA5,
        Class::SETREG,
        Class::SET_VGPR_MSB,
        None,
        count!(1),
    ),
];
