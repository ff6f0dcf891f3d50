//! The fuzz target `config` with inputs that are made here: texts with a few bytes changed, always the same ones.

#[path = "../../../fuzz/bodies/config.rs"]
mod body;

/// Texts that are taken, and some that are not.
const TEXTS: [&str; 4] = [
    r#"{"gpu": "mi300x", "num_gpus": 2, "threads": 3, "plugins": {"race": {"limit": 3, "fail": true}}}"#,
    r#"{"gpu": {"preset": "r9700", "compute_units": 16, "vram_bytes": 1073741824}, "verbose": 1}"#,
    r#"{"gpus": ["mi210", "w7900"], "kfd_version": "1.14", "lanes": "scalar"}"#,
    "[]",
];

#[test]
fn changed_texts_are_configurations_or_errors() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    for text in TEXTS {
        body::run(text.as_bytes());
        for _ in 0..2000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                let byte = next(128) as u8;
                match next(4) {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    // Digits reach further than letters.
                    2 => bytes[at] = b'0' + byte % 10,
                    _ if bytes.len() > 1 => {
                        bytes.remove(at);
                    }
                    _ => {}
                }
            }
            body::run(&bytes);
        }
    }
}
