//! What the fuzz target `decode` does with an input; a test of the crate runs the same with inputs of its own.

use rocjitsu_isa::{FeatureSet, Name, Target, decode};

/// One input.
pub fn run(data: &[u8]) {
    let Some((&choice, mut code)) = data.split_first() else {
        return;
    };
    let target = Target::ALL[usize::from(choice) % 9];
    let set = FeatureSet::ALL[usize::from(choice) / 9 % 4];
    while !code.is_empty() {
        match decode(target, set, code) {
            Ok(inst) => {
                assert!(!inst.text(set).is_empty());
                for wave in [32, 64] {
                    let _ = inst.effects(wave);
                }
                for name in Name::ALL {
                    let _ = (
                        inst.field(name),
                        inst.signed_field(name),
                        inst.operand(name),
                        inst.bits(name),
                    );
                }
                code = &code[inst.len()..];
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                code = code.get(4..).unwrap_or_default();
            }
        }
    }
}
