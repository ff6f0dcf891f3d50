//! Reads the vectors of `data/isa`.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use rocjitsu_isa::{FeatureSet, Target};

/// One line of a `vectors` file.
#[allow(dead_code)]
pub struct Vector {
    pub bytes: Vec<u8>,
    pub text: String,
    pub record: String,
    pub flag: char,
}

impl Vector {
    /// The bytes as they stand in the file.
    #[allow(dead_code)]
    pub fn hex(&self) -> String {
        self.bytes.iter().map(|b| format!("{b:02x}")).collect()
    }
}

pub fn read(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/isa")
        .join(name);
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    liblzma::read::XzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("xz data in UTF-8");
    text
}

pub fn unhex(s: &str) -> Vec<u8> {
    (0..s.len() / 2)
        .map(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

/// Every vectors file: target, feature set, name of the file.
#[allow(dead_code)]
pub fn files() -> Vec<(Target, FeatureSet, String)> {
    let mut out = Vec::new();
    for t in Target::ALL {
        out.push((t, FeatureSet::Default, format!("vectors.{t}.tsv.xz")));
        if matches!(
            t,
            Target::Gfx1030 | Target::Gfx1100 | Target::Gfx1151 | Target::Gfx1201
        ) {
            out.push((t, FeatureSet::Wave64, format!("vectors.{t}.wave64.tsv.xz")));
        }
        if matches!(t, Target::Gfx1201 | Target::Gfx1250) {
            out.push((t, FeatureSet::True16, format!("vectors.{t}.true16.tsv.xz")));
        }
    }
    out
}

#[allow(dead_code)]
pub fn vectors(name: &str) -> Vec<Vector> {
    read(name)
        .lines()
        .map(|l| {
            let mut p = l.split('\t');
            let mut next = || p.next().expect("four columns");
            let (hex, text, record, flag) = (next(), next(), next(), next());
            Vector {
                bytes: unhex(hex),
                text: text.into(),
                record: record.into(),
                flag: flag.chars().next().expect("flag"),
            }
        })
        .collect()
}
