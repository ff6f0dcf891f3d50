//! AQL packets, 64 bytes each (HSA system architecture 1.2, 2.9; vendor packets: ROCr's `amd_aql.h`).

use crate::queue::error;

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it asks for.
    pub body: Body,
    /// The signal to count down when it is done, or 0.
    pub completion: u64,
}

/// The kinds of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Run a kernel.
    Dispatch(KernelDispatch),
    /// Wait until all of these signals that are not 0 have the value 0.
    BarrierAnd([u64; 5]),
    /// Wait until one of them has.
    BarrierOr([u64; 5]),
    /// Wait until a signal's value meets a condition.
    BarrierValue(Condition),
    /// Execute PM4 packets.
    Pm4 {
        /// Where they are.
        address: u64,
        /// How many words.
        dwords: u32,
    },
}

/// A kernel dispatch packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDispatch {
    /// Dimensions that count, 1 to 3 if the packet is right.
    pub dimensions: u32,
    /// Work-items of a workgroup; 1 in dimensions that do not count.
    pub workgroup: [u32; 3],
    /// Work-items of the grid; 1 in dimensions that do not count.
    pub grid: [u32; 3],
    /// Scratch bytes of a work-item.
    pub private_segment: u32,
    /// LDS bytes of a workgroup.
    pub group_segment: u32,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the kernarg segment.
    pub kernarg: u64,
}

/// `(value(signal) & mask) compare value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub signal: u64,
    pub value: i64,
    pub mask: i64,
    /// 0 equal, 1 not equal, 2 less, 3 greater or equal; signed.
    pub compare: u32,
}

impl Body {
    /// Name, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Dispatch(_) => "KERNEL_DISPATCH",
            Body::BarrierAnd(_) => "BARRIER_AND",
            Body::BarrierOr(_) => "BARRIER_OR",
            Body::BarrierValue(_) => "BARRIER_VALUE",
            Body::Pm4 { .. } => "PM4_IB",
        }
    }
}

/// The type-3 PM4 header of INDIRECT_BUFFER with three words behind it.
const INDIRECT_BUFFER: u32 = 0xc002_3f00;
/// In its last word.
const IB_VALID: u32 = 1 << 23;

impl Packet {
    /// Reads a packet; what is wrong with it is an error code and a phrase.
    pub fn decode(bytes: &[u8; 64]) -> Result<Packet, (u64, String)> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let signals = || [8, 16, 24, 32, 40].map(long);
        let body = match bytes[0] {
            0 => match bytes[2] {
                1 if word(4) & !3 == INDIRECT_BUFFER && word(16) & IB_VALID != 0 => Body::Pm4 {
                    address: long(8) & !3,
                    dwords: word(16) & 0xf_ffff,
                },
                1 => {
                    return Err((
                        error::VENDOR_PACKET,
                        format!(
                            "a PM4 vendor packet with {:#010x} and control {:#010x} where a VALID INDIRECT_BUFFER belongs",
                            word(4),
                            word(16)
                        ),
                    ));
                }
                2 if word(32) > 3 => {
                    return Err((
                        error::VENDOR_PACKET,
                        format!("a barrier-value packet with condition {}", word(32)),
                    ));
                }
                2 => Body::BarrierValue(Condition {
                    signal: long(8),
                    value: long(16) as i64,
                    mask: long(24) as i64,
                    compare: word(32),
                }),
                format => {
                    return Err((
                        error::VENDOR_PACKET,
                        format!(
                            "a vendor packet of format {format}; 1 (PM4) and 2 (barrier-value) are known"
                        ),
                    ));
                }
            },
            2 => Body::Dispatch(KernelDispatch::decode(half, word, long)),
            3 => Body::BarrierAnd(signals()),
            5 => Body::BarrierOr(signals()),
            4 => {
                return Err((
                    error::PACKET_FORMAT,
                    "an agent dispatch, which a kernel agent does not take".to_owned(),
                ));
            }
            kind => {
                return Err((error::PACKET_FORMAT, format!("a packet of type {kind}")));
            }
        };
        Ok(Packet {
            body,
            completion: long(56),
        })
    }
}

impl KernelDispatch {
    fn decode(
        half: impl Fn(usize) -> u16,
        word: impl Fn(usize) -> u32,
        long: impl Fn(usize) -> u64,
    ) -> KernelDispatch {
        let dimensions = u32::from(half(2)) & 3;
        let counts = |axis: usize| axis == 0 || axis < dimensions as usize;
        KernelDispatch {
            dimensions,
            workgroup: std::array::from_fn(|axis| match counts(axis) {
                true => half(4 + 2 * axis).into(),
                false => 1,
            }),
            grid: std::array::from_fn(|axis| match counts(axis) {
                true => word(12 + 4 * axis),
                false => 1,
            }),
            private_segment: word(24),
            group_segment: word(28),
            kernel_object: long(32),
            kernarg: long(40),
        }
    }
}
