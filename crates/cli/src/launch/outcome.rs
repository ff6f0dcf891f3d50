//! What came out of a launch: each buffer judged, and the statistics of the dispatch.

use serde::Serialize;

use super::compare::{Comparison, Tolerance, compare};
use super::description::Direction;
use super::{Buffer, Launch, sha256};

/// The verdict on one buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verdict {
    /// Holds what it should.
    Equal {
        /// The comparison; absent where only a hash or the input was compared.
        #[serde(skip_serializing_if = "Option::is_none")]
        comparison: Option<Comparison>,
    },
    /// Holds something else.
    Differs {
        /// Where and by how much.
        comparison: Comparison,
    },
    /// The hash of the content is another; where it differs is not known.
    HashDiffers {
        /// SHA-256 of the content.
        got: String,
        /// SHA-256 of the expected content.
        want: String,
    },
    /// An input of the kernel that it overwrote.
    InputChanged {
        /// Where and by how much.
        comparison: Comparison,
    },
    /// An output without golden data: nothing says what it should hold.
    NoGolden,
    /// Its content does not matter, or nobody asked.
    Unchecked,
}

impl Verdict {
    /// Whether the buffer is as it should be, as far as that is known.
    pub fn good(&self) -> bool {
        matches!(self, Verdict::Equal { .. } | Verdict::Unchecked)
    }
}

/// A buffer after the launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferOutcome {
    /// Name of the argument.
    pub name: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Launch {
    /// Judges the contents that the buffers have after the launch, in their order.
    pub fn judge(&self, contents: &[Vec<u8>]) -> Vec<BufferOutcome> {
        let judge = |(buffer, content): (&Buffer, &Vec<u8>)| BufferOutcome {
            name: buffer.name.clone(),
            verdict: buffer.judge(content),
        };
        self.buffers.iter().zip(contents).map(judge).collect()
    }
}

impl Buffer {
    fn judge(&self, content: &[u8]) -> Verdict {
        let against =
            |want: &[u8], tolerance| compare(self.element, &self.shape, content, want, tolerance);
        match (&self.golden, self.direction) {
            (None, Direction::In) if content == self.content => Verdict::Equal { comparison: None },
            (None, Direction::In) => Verdict::InputChanged {
                comparison: against(&self.content, Tolerance::Exact {}),
            },
            (None, Direction::Out | Direction::InOut) => Verdict::NoGolden,
            (None, Direction::Scratch) => Verdict::Unchecked,
            (Some(golden), _) => match &golden.content {
                Some(want) => match against(want, golden.tolerance) {
                    comparison if comparison.equal() => Verdict::Equal {
                        comparison: Some(comparison),
                    },
                    comparison => Verdict::Differs { comparison },
                },
                None => match sha256(content) {
                    got if got == golden.sha256 => Verdict::Equal { comparison: None },
                    got => Verdict::HashDiffers {
                        got,
                        want: golden.sha256.clone(),
                    },
                },
            },
        }
    }
}

impl BufferOutcome {
    /// The verdict in words, on one line.
    pub fn describe(&self) -> String {
        match &self.verdict {
            Verdict::Equal { comparison } => {
                match comparison.as_ref().and_then(|c| c.largest.as_ref()) {
                    Some(largest) if largest.absolute > 0.0 => {
                        format!(
                            "equal within tolerance, largest error {:.3e} at {:?}",
                            largest.absolute, largest.index
                        )
                    }
                    _ => "equal".to_owned(),
                }
            }
            Verdict::Differs { comparison } => differences(comparison),
            Verdict::HashDiffers { got, want } => {
                format!("SHA-256 is {got}, expected {want} (no reference file to find the place)")
            }
            Verdict::InputChanged { comparison } => {
                format!("an input was overwritten: {}", differences(comparison))
            }
            Verdict::NoGolden => {
                "an output without golden data: there is nothing to compare it with".to_owned()
            }
            Verdict::Unchecked => "not compared".to_owned(),
        }
    }
}

fn differences(comparison: &Comparison) -> String {
    let mut text = format!(
        "{} of {} elements differ",
        comparison.differing, comparison.elements
    );
    if let Some(first) = &comparison.first {
        text += &format!(
            "; first at {:?}: got {}, want {}",
            first.index, first.got, first.want
        );
    }
    if let Some(largest) = &comparison.largest {
        text += &format!(
            "; largest error {:.3e} (relative {:.3e}) at {:?}",
            largest.absolute, largest.relative, largest.index
        );
    }
    text
}
