//! The kernarg segment: explicit arguments where the compiler put them, and the hidden arguments
//! of the HSA ABI. Source: LLVM's AMDGPU usage guide, "Code Object V5 Metadata", value kinds.

use anyhow::{Result, bail};

/// `SH_MEM_BASES`: high half of the addresses that mean LDS in flat accesses, GFX9 to GFX12.
pub const SHARED_BASE_HIGH: u32 = 0x0001_0000;
/// The same for scratch.
pub const PRIVATE_BASE_HIGH: u32 = 0x0002_0000;

/// More than any compiler lets a kernel have, in bytes.
pub const LARGEST_SEGMENT: usize = 1 << 20;

/// What goes into a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// The address of a buffer of the launch, by index.
    Buffer(usize),
    /// These bytes.
    Bytes(Vec<u8>),
    /// A hidden argument.
    Hidden(Hidden),
}

/// A field of the segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Content.
    pub value: FieldValue,
}

/// Layout and content of the segment; bytes of no field are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernarg {
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment of its address.
    pub align: u64,
    /// Fields, in any order.
    pub fields: Vec<Field>,
}

/// A hidden argument. `Zero` stands for those that a launch without a runtime leaves at zero:
/// queues, heap, printf and hostcall buffers, grid synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Hidden {
    BlockCount(usize),
    GroupSize(usize),
    GridDimensions,
    DynamicLdsSize,
    PrivateBase,
    SharedBase,
    QueuePointer,
    Zero,
}

impl Hidden {
    /// The hidden argument of a value kind such as `hidden_block_count_x`; `None` for a kind that
    /// the ABI does not define.
    pub fn from_kind(kind: &str) -> Option<Self> {
        let axis = match kind.as_bytes().last() {
            Some(b'x') => 0,
            Some(b'y') => 1,
            _ => 2,
        };
        Some(match kind {
            "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => {
                Hidden::BlockCount(axis)
            }
            "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => {
                Hidden::GroupSize(axis)
            }
            "hidden_grid_dims" => Hidden::GridDimensions,
            "hidden_dynamic_lds_size" => Hidden::DynamicLdsSize,
            "hidden_private_base" => Hidden::PrivateBase,
            "hidden_shared_base" => Hidden::SharedBase,
            "hidden_queue_ptr" => Hidden::QueuePointer,
            "hidden_remainder_x"
            | "hidden_remainder_y"
            | "hidden_remainder_z"
            | "hidden_global_offset_x"
            | "hidden_global_offset_y"
            | "hidden_global_offset_z"
            | "hidden_none"
            | "hidden_printf_buffer"
            | "hidden_hostcall_buffer"
            | "hidden_default_queue"
            | "hidden_completion_action"
            | "hidden_multigrid_sync_arg"
            | "hidden_heap_v1" => Hidden::Zero,
            _ => return None,
        })
    }
}

/// What hidden arguments are computed from.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Threads per workgroup in x, y, z.
    pub block: [u32; 3],
    /// LDS beyond the descriptor's, in bytes.
    pub lds_dynamic: u32,
    /// Address of the queue.
    pub queue: u64,
}

impl Facts {
    /// Number of dimensions in use: the last one with more than one thread.
    pub fn dimensions(&self) -> u16 {
        let used = |axis: &usize| u64::from(self.grid[*axis]) * u64::from(self.block[*axis]) > 1;
        (0..3).rev().find(used).map_or(1, |axis| axis as u16 + 1)
    }

    fn value(&self, hidden: Hidden) -> u64 {
        match hidden {
            Hidden::BlockCount(axis) => self.grid[axis].into(),
            Hidden::GroupSize(axis) => self.block[axis].into(),
            Hidden::GridDimensions => self.dimensions().into(),
            Hidden::DynamicLdsSize => self.lds_dynamic.into(),
            Hidden::PrivateBase => PRIVATE_BASE_HIGH.into(),
            Hidden::SharedBase => SHARED_BASE_HIGH.into(),
            Hidden::QueuePointer => self.queue,
            Hidden::Zero => 0,
        }
    }
}

impl Kernarg {
    /// Checks that the segment has a sensible size, and that every field lies in the segment and fits its content.
    ///
    /// # Errors
    ///
    /// Names the field by its offset.
    pub fn check(&self) -> Result<()> {
        if self.bytes > LARGEST_SEGMENT {
            bail!(
                "a kernarg segment of {} bytes: at most {LARGEST_SEGMENT} are supported",
                self.bytes
            );
        }
        for Field {
            offset,
            size,
            value,
        } in &self.fields
        {
            if offset.checked_add(*size).is_none_or(|end| end > self.bytes) {
                bail!(
                    "kernarg field at offset {offset}: {size} bytes leave the segment of {} bytes",
                    self.bytes
                );
            }
            let content = match value {
                FieldValue::Buffer(_) => 8,
                FieldValue::Bytes(bytes) => bytes.len(),
                FieldValue::Hidden(_) if *size <= 8 => *size,
                FieldValue::Hidden(_) => 8,
            };
            if content != *size {
                bail!(
                    "kernarg field at offset {offset} takes {size} bytes, but its argument has {content}"
                );
            }
        }
        Ok(())
    }

    /// The bytes of the segment. `addresses` are those of the launch's buffers.
    pub fn build(&self, addresses: &[u64], facts: &Facts) -> Vec<u8> {
        let mut segment = vec![0; self.bytes];
        for Field {
            offset,
            size,
            value,
        } in &self.fields
        {
            let content = match value {
                FieldValue::Buffer(index) => addresses
                    .get(*index)
                    .copied()
                    .unwrap_or(0)
                    .to_le_bytes()
                    .to_vec(),
                FieldValue::Bytes(bytes) => bytes.clone(),
                FieldValue::Hidden(hidden) => facts.value(*hidden).to_le_bytes().to_vec(),
            };
            for (to, from) in segment.iter_mut().skip(*offset).take(*size).zip(content) {
                *to = from;
            }
        }
        segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_hidden_arguments_are_placed() {
        let field = |offset, size, value| Field {
            offset,
            size,
            value,
        };
        let hidden = |kind: &str| FieldValue::Hidden(Hidden::from_kind(kind).unwrap());
        let kernarg = Kernarg {
            bytes: 40,
            align: 8,
            fields: vec![
                field(0, 8, FieldValue::Buffer(1)),
                field(8, 4, FieldValue::Bytes(vec![1, 2, 3, 4])),
                field(12, 4, hidden("hidden_block_count_y")),
                field(16, 2, hidden("hidden_group_size_x")),
                field(18, 2, hidden("hidden_grid_dims")),
                field(24, 8, hidden("hidden_heap_v1")),
                field(32, 4, hidden("hidden_private_base")),
            ],
        };
        kernarg.check().unwrap();
        let facts = Facts {
            grid: [3, 7, 1],
            block: [64, 1, 1],
            lds_dynamic: 0,
            queue: 0,
        };
        let bytes = kernarg.build(&[0, 0x1122_3344_5566_7788], &facts);
        assert_eq!(bytes[..8], 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(bytes[8..20], [1, 2, 3, 4, 7, 0, 0, 0, 64, 0, 2, 0]);
        assert_eq!(bytes[20..32], [0; 12]);
        assert_eq!(bytes[32..], [0, 0, 2, 0, 0, 0, 0, 0]);
        assert_eq!(Hidden::from_kind("hidden_surprise"), None);
    }

    #[test]
    fn misfits_are_named() {
        let check = |size, bytes| {
            let fields = vec![Field {
                offset: 4,
                size,
                value: FieldValue::Bytes(bytes),
            }];
            Kernarg {
                bytes: 8,
                align: 8,
                fields,
            }
            .check()
            .unwrap_err()
            .to_string()
        };
        assert!(check(8, vec![0; 8]).contains("offset 4: 8 bytes leave the segment of 8 bytes"));
        assert!(check(4, vec![0; 2]).contains("takes 4 bytes, but its argument has 2"));
    }
}
