//! Disassembly: walks the print program of a row and gives the text that LLVM 22 prints.
//! The words are those of LLVM's "AMDGPU operand syntax" and "modifier syntax" pages.

mod cache;
mod control;
mod formats;
mod lanes;
mod modifiers;
mod registers;

pub(crate) use lanes::dpp_control_exists;

use crate::generated::names::{Format, Name};
use crate::inst::Inst;
use crate::table::{Implicit, Kind, Print, PrintItem, Type};
use crate::target::FeatureSet;

impl Inst {
    /// The text of the instruction as LLVM's disassembler prints it (one blank between words, branch
    /// targets as numbers). `set` is the set that it was decoded with; it decides the width of lane masks.
    pub fn text(&self, set: FeatureSet) -> String {
        Printer {
            inst: self,
            wave64: self.target().is_cdna() || set.is_wave64(),
        }
        .run()
    }
}

struct Printer<'a> {
    inst: &'a Inst,
    wave64: bool,
}

impl Printer<'_> {
    fn run(&self) -> String {
        let row = self.inst.row();
        let (first, second) = match row.mnemonic.split_once(" :: ") {
            Some((x, y)) => (x, y),
            None => (row.mnemonic, ""),
        };
        let mut out = String::from(first);
        // What stands before the next item that is not empty.
        let mut gap = " ";
        let mut skip_suffix = true;
        // LLVM prints the format of a typed buffer instruction after the operand that follows it.
        let mut late = String::new();
        let vopc = matches!(
            row.format,
            Format::VOPC | Format::VOPC_DPP16 | Format::VOPC_DPP8
        );
        if vopc && row.implicit_writes().any(|i| i == Implicit::Vcc) {
            out.push(' ');
            out.push_str(self.vcc());
            gap = ", ";
        }
        for item in row.print {
            let text = match item {
                PrintItem::Comma => {
                    gap = ", ";
                    continue;
                }
                PrintItem::Space => {
                    if gap.is_empty() || !gap.starts_with(',') {
                        gap = " ";
                    }
                    continue;
                }
                PrintItem::Open | PrintItem::Close if self.single_address() => continue,
                PrintItem::Open => {
                    out.push_str(gap);
                    out.push('[');
                    gap = "";
                    continue;
                }
                PrintItem::Close => {
                    out.push(']');
                    continue;
                }
                PrintItem::Half => {
                    out.push_str(" :: ");
                    out.push_str(second);
                    gap = " ";
                    continue;
                }
                PrintItem::Word(w) if skip_suffix && w.starts_with('_') => continue,
                PrintItem::Word("vcc") => self.vcc().to_string(),
                PrintItem::Word(w) => (*w).to_string(),
                PrintItem::Op(Name::format) => {
                    late = self.item(Name::format);
                    continue;
                }
                PrintItem::Op(name) if self.absent_address(*name) => continue,
                PrintItem::Op(name) => self.item(*name) + self.mask_after(*name),
            };
            skip_suffix = false;
            if !text.is_empty() {
                // A channel belongs to the attribute before it.
                out.push_str(if text.starts_with('.') { "" } else { gap });
                out.push_str(&text);
                gap = " ";
                if !late.is_empty() {
                    out.push(' ');
                    out.push_str(&std::mem::take(&mut late));
                }
            }
        }
        out
    }

    fn vcc(&self) -> &'static str {
        if self.wave64 { "vcc" } else { "vcc_lo" }
    }

    /// VOP2 forms that read VCC name it after the second source, those that write it after the destination.
    fn mask_after(&self, name: Name) -> &'static str {
        let row = self.inst.row();
        let vop2 = matches!(
            row.format,
            Format::VOP2 | Format::VOP2_DPP16 | Format::VOP2_DPP8 | Format::VOP2_SDWA
        );
        if !vop2
            || row
                .print
                .iter()
                .any(|p| matches!(p, PrintItem::Word("vcc")))
        {
            return "";
        }
        let here = match name {
            Name::vdst => row.implicit_writes().any(|i| i == Implicit::Vcc),
            Name::src1 | Name::src1_modifiers => row.implicit_reads().any(|i| i == Implicit::Vcc),
            _ => false,
        };
        match here {
            true if self.wave64 => ", vcc",
            true => ", vcc_lo",
            false => "",
        }
    }

    /// gfx12 writes a single address without brackets.
    fn single_address(&self) -> bool {
        matches!(self.inst.format(), Format::VIMAGE | Format::VSAMPLE)
            && crate::image::shape(self.inst).is_some_and(|s| s.address == 1)
    }

    /// An address of an image instruction beyond those that it takes.
    fn absent_address(&self, name: Name) -> bool {
        match (crate::inst::nsa_index(name), crate::image::shape(self.inst)) {
            (Some(i), Some(shape)) => crate::image::address_registers(self.inst, shape, i) == 0,
            _ => false,
        }
    }

    /// An operand or modifier; empty where LLVM prints nothing.
    fn item(&self, name: Name) -> String {
        let Some(info) = self.inst.row().operand(name) else {
            return String::new();
        };
        match info.ty.kind {
            Kind::Reg => self.register(name),
            Kind::FloatMods | Kind::IntMods | Kind::PackedMods => self.modified(name, info.ty.kind),
            Kind::Imm => self.immediate(name, info.ty),
        }
    }

    fn field(&self, name: Name) -> u32 {
        self.inst.field(name).unwrap_or(0)
    }

    fn immediate(&self, name: Name, ty: &Type) -> String {
        let (print, word) = (ty.print, ty.word);
        let v = self.field(name);
        let inst = self.inst;
        let shown = |yes: bool, text: String| if yes { text } else { String::new() };
        match print {
            Print::Plain => control::plain(v, ty.bits),
            Print::Bit => shown(v != 0, word.into()),
            Print::Word => modifiers::number(inst, name, word, v),
            Print::BranchTarget => v.to_string(),
            Print::U16ImmOperand if ty.fmt.is_some() => {
                format!("{:#x}", inst.literal().unwrap_or(0))
            }
            Print::U16ImmOperand => control::u16_operand(v),
            Print::U32ImmOperand => format!("{:#x}", inst.literal().unwrap_or(0)),
            Print::FP64ImmOperand => registers::literal64(ty, inst.literal().unwrap_or(0)),
            Print::Version => control::version(v),
            Print::SWaitCnt => control::waitcnt(inst.target(), v),
            Print::DepCtr => control::depctr(v),
            Print::Hwreg => control::hwreg(inst.target(), v),
            Print::SendMsg => control::sendmsg(inst.target(), v),
            Print::SDelayALU => control::delay_alu(v),
            Print::GPRIdxMode => control::gpr_idx(v),
            Print::Endpgm => shown(v != 0, v.to_string()),
            Print::CPol => cache::policy(inst, v),
            Print::DPPCtrl => lanes::dpp(inst.target(), v),
            Print::DPP8 => lanes::dpp8(v),
            Print::DppBoundCtrl => shown(v != 0, "bound_ctrl:1".into()),
            Print::DppFI => shown(v == 1 || v == 0xea, "fi:1".into()),
            Print::Swizzle => lanes::swizzle(v),
            Print::SDWADstSel => format!("dst_sel:{}", lanes::sdwa_sel(v)),
            Print::SDWASrc0Sel => format!("src0_sel:{}", lanes::sdwa_sel(v)),
            Print::SDWASrc1Sel => format!("src1_sel:{}", lanes::sdwa_sel(v)),
            Print::SDWADstUnused => format!("dst_unused:{}", lanes::sdwa_unused(v)),
            Print::OModSI => modifiers::omod(v).into(),
            // The scaled MFMAs keep op_sel in operands that are called modifiers.
            Print::OpSel if name != Name::op_sel => modifiers::op_sel(inst, inst.collect(2)),
            Print::OpSelHi if name != Name::op_sel_hi => {
                modifiers::op_sel_hi(inst, inst.collect(3))
            }
            Print::OpSel => modifiers::op_sel(inst, v),
            Print::OpSelHi => modifiers::op_sel_hi(inst, v),
            Print::NegLo => modifiers::list(inst, "neg_lo", v),
            Print::NegHi => modifiers::list(inst, "neg_hi", v),
            Print::SMEMOffset => modifiers::smem_offset(inst, name, v),
            Print::FlatOffset => modifiers::flat_offset(inst, v),
            Print::Offset => shown(v != 0, format!("offset:{v}")),
            Print::BitOp3 => modifiers::bitop3(v),
            Print::BLGP => modifiers::blgp(inst, v),
            Print::IndexKey8bit | Print::IndexKey16bit | Print::IndexKey32bit => {
                shown(v != 0, format!("index_key:{v}"))
            }
            Print::R128A16 => shown(
                v != 0,
                if inst.target().is_cdna() {
                    "a16"
                } else {
                    "r128"
                }
                .into(),
            ),
            Print::FORMAT => formats::buffer(inst.target(), v),
            Print::ExpTgt => formats::export_target(inst.target(), v),
            Print::Dim => formats::dim(v),
            Print::InterpAttr => format!("attr{v}"),
            Print::InterpAttrChan => format!(".{}", ["x", "y", "z", "w"][(v & 3) as usize]),
            Print::InterpSlot => ["p10", "p20", "p0"]
                .get(v as usize)
                .map_or_else(|| format!("invalid_param_{v}"), |s| (*s).into()),
            Print::MatrixAFMT => modifiers::matrix("matrix_a_fmt", &modifiers::MATRIX_FORMATS, v),
            Print::MatrixBFMT => modifiers::matrix("matrix_b_fmt", &modifiers::MATRIX_FORMATS, v),
            Print::MatrixAScale => {
                modifiers::matrix("matrix_a_scale", &modifiers::MATRIX_SCALES, v)
            }
            Print::MatrixBScale => {
                modifiers::matrix("matrix_b_scale", &modifiers::MATRIX_SCALES, v)
            }
            Print::MatrixAScaleFmt => {
                modifiers::matrix("matrix_a_scale_fmt", &modifiers::MATRIX_SCALE_FORMATS, v)
            }
            Print::MatrixBScaleFmt => {
                modifiers::matrix("matrix_b_scale_fmt", &modifiers::MATRIX_SCALE_FORMATS, v)
            }
        }
    }
}
