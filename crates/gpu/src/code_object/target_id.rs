//! Which processor a code object is for: the machine field of `e_flags`, target ids, and which
//! processors execute each other's code. Source: LLVM's AMDGPU usage guide, "ELF Header".

use std::fmt;

use rocjitsu_isa::Target;

use super::CodeObjectError;

/// `EF_AMDGPU_MACH`, bits 7:0 of `e_flags`.
const MACH: u32 = 0xff;

/// Processor names by machine number.
const PROCESSORS: &[(u32, &str)] = &[
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x49, "gfx1250"),
    (0x4a, "gfx1151"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x55, "gfx1152"),
    (0x58, "gfx1153"),
    (0x5a, "gfx1251"),
];

/// Generic processors, and for each a processor of its family that is executed.
const GENERIC: &[(u32, &str, &str)] = &[
    (0x51, "gfx9-generic", "gfx90a"),
    (0x52, "gfx10-1-generic", "gfx1100"),
    (0x53, "gfx10-3-generic", "gfx1100"),
    (0x54, "gfx11-generic", "gfx1100"),
    (0x59, "gfx12-generic", "gfx1201"),
    (0x5b, "gfx12-5-generic", "gfx1250"),
    (0x5f, "gfx9-4-generic", "gfx942"),
];

/// Targets that execute the code of a processor unchanged, because they share its instruction
/// encodings: a family's steppings differ in what they allow in one instruction or in timing, and
/// RDNA 3.5 (gfx115x) adds instructions to RDNA 3 (gfx110x) without changing one.
fn executes(processor: &str) -> &'static [Target] {
    match processor {
        "gfx908" => &[Target::Gfx908],
        "gfx90a" => &[Target::Gfx90a],
        "gfx940" | "gfx941" | "gfx942" => &[Target::Gfx942],
        "gfx950" => &[Target::Gfx950],
        "gfx1030" | "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" => {
            &[Target::Gfx1030]
        }
        "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" => &[Target::Gfx1100, Target::Gfx1151],
        "gfx1150" | "gfx1151" | "gfx1152" | "gfx1153" => &[Target::Gfx1151],
        "gfx1200" | "gfx1201" => &[Target::Gfx1201],
        "gfx1250" => &[Target::Gfx1250],
        _ => &[],
    }
}

/// How a code object was compiled with respect to a feature that a target may switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The processor does not have the feature.
    Unsupported,
    /// Runs either way.
    Any,
    /// Compiled for the feature switched off.
    Off,
    /// Compiled for the feature switched on.
    On,
}

impl Setting {
    fn from_field(field: u32) -> Self {
        match field & 3 {
            0 => Setting::Unsupported,
            1 => Setting::Any,
            2 => Setting::Off,
            _ => Setting::On,
        }
    }

    /// The word used in listings.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Unsupported => "unsupported",
            Setting::Any => "any",
            Setting::Off => "off",
            Setting::On => "on",
        }
    }
}

/// A target id such as `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`, in any of its spellings:
/// with or without `unknown` as environment, with `amdgcn` or a versioned `amdgpu9.0a` as
/// architecture, or the bare processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetId {
    /// `gfx90a`.
    pub processor: String,
    /// `xnack+` or `xnack-`, if said.
    pub xnack: Option<bool>,
    /// `sramecc+` or `sramecc-`, if said.
    pub sramecc: Option<bool>,
}

impl TargetId {
    /// Reads a target id. The error is a sentence that quotes what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let head = parts.next().unwrap_or_default();
        let processor = if head.starts_with("gfx") {
            head
        } else {
            let fields: Vec<&str> = head.splitn(5, '-').collect();
            match fields[..] {
                [architecture, "amd", "amdhsa", "" | "unknown", processor]
                    if architecture == "amdgcn" || architecture.starts_with("amdgpu") =>
                {
                    processor
                }
                _ => {
                    return Err(format!(
                        "`{text}` is not a target id (`amdgcn-amd-amdhsa--gfx90a`)"
                    ));
                }
            }
        };
        if !processor.starts_with("gfx") {
            return Err(format!(
                "`{processor}` in the target id `{text}` is not a processor"
            ));
        }
        let mut id = TargetId {
            processor: processor.to_owned(),
            xnack: None,
            sramecc: None,
        };
        for feature in parts {
            let slot = match feature.strip_suffix(['+', '-']) {
                Some("xnack") => &mut id.xnack,
                Some("sramecc") => &mut id.sramecc,
                _ => {
                    return Err(format!(
                        "`{feature}` in the target id `{text}` is not a feature setting"
                    ));
                }
            };
            if slot.replace(feature.ends_with('+')).is_some() {
                return Err(format!("`{feature}` in the target id `{text}` comes twice"));
            }
        }
        Ok(id)
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, setting) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(on) = setting {
                write!(f, ":{name}{}", if on { '+' } else { '-' })?;
            }
        }
        Ok(())
    }
}

/// What `e_flags` says (code object versions 4 to 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the processor, such as `gfx90a`.
    pub processor: &'static str,
    /// Page-fault replay, bits 9:8.
    pub xnack: Setting,
    /// ECC of the on-chip memories, bits 11:10.
    pub sramecc: Setting,
}

impl Machine {
    /// Decodes `e_flags`; generic and unknown processors are errors that name them.
    pub fn from_flags(flags: u32) -> Result<Self, CodeObjectError> {
        let mach = flags & MACH;
        if let Some(&(_, name, example)) = GENERIC.iter().find(|g| g.0 == mach) {
            return Err(CodeObjectError::GenericTarget { name, example });
        }
        let &(_, processor) = PROCESSORS.iter().find(|p| p.0 == mach).ok_or_else(|| {
            CodeObjectError::Header(format!(
                "machine {mach:#x} in e_flags {flags:#x} is no known processor"
            ))
        })?;
        Ok(Machine {
            processor,
            xnack: Setting::from_field(flags >> 8),
            sramecc: Setting::from_field(flags >> 10),
        })
    }

    /// The target that the code runs as: the processor itself, or what `run_as` asks for.
    pub fn target(&self, run_as: Option<Target>) -> Result<Target, CodeObjectError> {
        let able = executes(self.processor);
        let name = || self.processor.to_owned();
        let suggest = |text: &str| {
            let list: Vec<String> = able.iter().map(|target| format!("`{target}`")).collect();
            if list.is_empty() {
                String::new()
            } else {
                format!("{text}{}", list.join(" or "))
            }
        };
        match run_as {
            None => self
                .processor
                .parse()
                .map_err(|_| CodeObjectError::UnsupportedTarget {
                    name: name(),
                    hint: suggest("; its instructions can be run as "),
                }),
            Some(target) if able.contains(&target) => Ok(target),
            Some(run_as) => Err(CodeObjectError::RunAs {
                name: name(),
                run_as,
                hint: suggest("; it can run as "),
            }),
        }
    }

    /// Compares with the target id in the metadata. The error is a sentence.
    pub fn agrees_with(&self, id: &TargetId) -> Result<(), String> {
        if id.processor != self.processor {
            return Err(format!(
                "the target is {}, but e_flags says {}",
                id.processor, self.processor
            ));
        }
        for (name, said, flag) in [
            ("xnack", id.xnack, self.xnack),
            ("sramecc", id.sramecc, self.sramecc),
        ] {
            let expected = match said {
                None => continue,
                Some(true) => Setting::On,
                Some(false) => Setting::Off,
            };
            if flag != expected {
                let sign = if expected == Setting::On { '+' } else { '-' };
                return Err(format!(
                    "the target says {name}{sign}, but {name} in e_flags is {}",
                    flag.name()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_target_id() {
        let full = TargetId {
            processor: "gfx90a".into(),
            xnack: Some(false),
            sramecc: Some(true),
        };
        assert_eq!(
            TargetId::parse("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"),
            Ok(full.clone())
        );
        assert_eq!(TargetId::parse("gfx90a:xnack-:sramecc+"), Ok(full.clone()));
        assert_eq!(full.to_string(), "gfx90a:sramecc+:xnack-");
        for text in [
            "amdgcn-amd-amdhsa-unknown-gfx90a",
            "amdgpu9.0a-amd-amdhsa-unknown-gfx90a",
            "gfx90a",
        ] {
            assert_eq!(
                TargetId::parse(text).unwrap().to_string(),
                "gfx90a",
                "{text}"
            );
        }
        let generic = TargetId::parse("amdgcn-amd-amdhsa--gfx9-4-generic").unwrap();
        assert_eq!(generic.processor, "gfx9-4-generic");
        for text in [
            "",
            "amdgcn",
            "x86_64-pc-linux-gnu-gfx90a",
            "gfx90a:xnack",
            "gfx90a:xnack+:xnack-",
            "amdgcn-amd-amdhsa--",
        ] {
            assert!(TargetId::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn flags_name_the_processor_and_its_settings() {
        let machine = Machine::from_flags(0xb3f).unwrap();
        assert_eq!(
            (machine.processor, machine.xnack, machine.sramecc),
            ("gfx90a", Setting::On, Setting::Off)
        );
        assert!(
            machine
                .agrees_with(&TargetId::parse("gfx90a:xnack+").unwrap())
                .is_ok()
        );
        let wrong = machine
            .agrees_with(&TargetId::parse("gfx90a:xnack-").unwrap())
            .unwrap_err();
        assert_eq!(wrong, "the target says xnack-, but xnack in e_flags is on");
        let generic = Machine::from_flags(0x54).unwrap_err().to_string();
        assert!(
            generic.contains("gfx11-generic") && generic.contains("gfx1100"),
            "{generic}"
        );
        assert!(
            Machine::from_flags(0xfe)
                .unwrap_err()
                .to_string()
                .contains("machine 0xfe")
        );
    }

    #[test]
    fn only_shared_encodings_run_as_another_target() {
        let gfx1100 = Machine::from_flags(0x41).unwrap();
        assert_eq!(gfx1100.target(None).unwrap(), Target::Gfx1100);
        assert_eq!(
            gfx1100.target(Some(Target::Gfx1151)).unwrap(),
            Target::Gfx1151
        );
        let refused = gfx1100
            .target(Some(Target::Gfx942))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("gfx1100 cannot run as gfx942") && refused.contains("gfx1151"),
            "{refused}"
        );
        let gfx1200 = Machine::from_flags(0x48).unwrap();
        assert_eq!(gfx1200.target(None).unwrap(), Target::Gfx1201);
        let gfx940 = Machine::from_flags(0x40).unwrap();
        let hint = gfx940.target(None).unwrap_err().to_string();
        assert!(
            hint.contains("gfx940") && hint.contains("run as `gfx942`"),
            "{hint}"
        );
        assert_eq!(gfx940.target(Some(Target::Gfx942)).unwrap(), Target::Gfx942);
        let gfx906 = Machine::from_flags(0x2f).unwrap();
        assert!(
            gfx906
                .target(None)
                .unwrap_err()
                .to_string()
                .contains("gfx906, which is not executed")
        );
    }
}
