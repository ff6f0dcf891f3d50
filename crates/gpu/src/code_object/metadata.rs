//! The metadata note of a code object: msgpack with the kernels, their arguments and sizes.
//! Source: LLVM's AMDGPU usage guide, "Code Object V4 Metadata" and "V5 Metadata".

use rmpv::ValueRef;

use super::CodeObjectError;

/// Nesting that a metadata note may have; real ones have five levels.
const MAX_DEPTH: usize = 32;

/// One argument of a kernel, as the compiler laid it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The parameter's name in the source, where the compiler kept it.
    pub name: Option<String>,
    /// Offset in the kernarg segment, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// `global_buffer`, `by_value`, `hidden_block_count_x`, ...
    pub value_kind: String,
}

/// What the metadata says of one kernel. Sizes are bytes per work-group (group), per thread
/// (private) or per launch (kernarg); register counts are what the code uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMetadata {
    /// Name in the source.
    pub name: String,
    /// Symbol of the kernel descriptor.
    pub symbol: String,
    /// Arguments, hidden ones included, in the order of the note.
    pub args: Vec<Argument>,
    /// Size of the kernarg segment in bytes.
    pub kernarg_segment_size: u32,
    /// Alignment of the kernarg segment in bytes.
    pub kernarg_segment_align: u32,
    /// Static LDS in bytes.
    pub group_segment_fixed_size: u32,
    /// Scratch per thread in bytes.
    pub private_segment_fixed_size: u32,
    /// Lanes in a wave.
    pub wavefront_size: u32,
    /// Scalar registers in use.
    pub sgpr_count: u32,
    /// Vector registers in use.
    pub vgpr_count: u32,
    /// Accumulation registers in use; zero where the processor has none.
    pub agpr_count: u32,
    /// Largest number of threads in a workgroup that the kernel was compiled for.
    pub max_flat_workgroup_size: u32,
    /// Whether the compiler could not bound the stack.
    pub uses_dynamic_stack: bool,
}

/// The whole note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// `amdhsa.version`: 1.1 for code object version 4, 1.2 for versions 5 and 6.
    pub version: (u32, u32),
    /// `amdhsa.target`, as spelled there.
    pub target: Option<String>,
    /// `amdhsa.kernels`.
    pub kernels: Vec<KernelMetadata>,
}

impl Metadata {
    /// Reads the descriptor bytes of the note.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, CodeObjectError> {
        let value = rmpv::decode::read_value_ref_with_max_depth(&mut bytes, MAX_DEPTH)
            .map_err(|error| fault("", format!("not msgpack: {error}")))?;
        let root = Node {
            path: String::new(),
            value: &value,
        };
        root.entries()?;
        let version = root.get("amdhsa.version")?.items()?;
        let number = |index: usize| match version.get(index) {
            Some(node) => node.number(),
            None => Err(fault("amdhsa.version", "expected two numbers".to_owned())),
        };
        let version = (number(0)?, number(1)?);
        let target = match root.find("amdhsa.target")? {
            Some(node) => Some(node.text()?.to_owned()),
            None => None,
        };
        let kernels = match root.find("amdhsa.kernels")? {
            Some(node) => node.items()?.iter().map(kernel).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Metadata {
            version,
            target,
            kernels,
        })
    }
}

fn kernel(node: &Node<'_>) -> Result<KernelMetadata, CodeObjectError> {
    let optional = |key: &str| node.find(key)?.map_or(Ok(0), |value| value.number());
    let required = |key: &str| node.get(key)?.number();
    let args = match node.find(".args")? {
        Some(list) => list
            .items()?
            .iter()
            .map(argument)
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    Ok(KernelMetadata {
        name: node.get(".name")?.text()?.to_owned(),
        symbol: node.get(".symbol")?.text()?.to_owned(),
        args,
        kernarg_segment_size: required(".kernarg_segment_size")?,
        kernarg_segment_align: required(".kernarg_segment_align")?,
        group_segment_fixed_size: required(".group_segment_fixed_size")?,
        private_segment_fixed_size: required(".private_segment_fixed_size")?,
        wavefront_size: required(".wavefront_size")?,
        sgpr_count: optional(".sgpr_count")?,
        vgpr_count: optional(".vgpr_count")?,
        agpr_count: optional(".agpr_count")?,
        max_flat_workgroup_size: optional(".max_flat_workgroup_size")?,
        uses_dynamic_stack: match node.find(".uses_dynamic_stack")? {
            Some(value) => value.boolean()?,
            None => false,
        },
    })
}

fn argument(node: &Node<'_>) -> Result<Argument, CodeObjectError> {
    Ok(Argument {
        name: match node.find(".name")? {
            Some(name) => Some(name.text()?.to_owned()),
            None => None,
        },
        offset: node.get(".offset")?.number()?,
        size: node.get(".size")?.number()?,
        value_kind: node.get(".value_kind")?.text()?.to_owned(),
    })
}

/// A value with the way to it, for errors.
struct Node<'a> {
    path: String,
    value: &'a ValueRef<'a>,
}

impl<'a> Node<'a> {
    fn wrong(&self, expected: &str) -> CodeObjectError {
        let found = match self.value {
            ValueRef::Nil => "nil",
            ValueRef::Boolean(_) => "a boolean",
            ValueRef::Integer(number) => {
                return fault(&self.path, format!("expected {expected}, found {number}"));
            }
            ValueRef::F32(_) | ValueRef::F64(_) => "a floating-point number",
            ValueRef::String(_) => "a string",
            ValueRef::Binary(_) => "binary data",
            ValueRef::Array(_) => "an array",
            ValueRef::Map(_) => "a map",
            ValueRef::Ext(..) => "an extension",
        };
        fault(&self.path, format!("expected {expected}, found {found}"))
    }

    fn entries(&self) -> Result<&'a [(ValueRef<'a>, ValueRef<'a>)], CodeObjectError> {
        match self.value {
            ValueRef::Map(entries) => Ok(entries),
            _ => Err(self.wrong("a map")),
        }
    }

    fn find(&self, key: &str) -> Result<Option<Node<'a>>, CodeObjectError> {
        let found = self
            .entries()?
            .iter()
            .find(|(name, _)| matches!(name, ValueRef::String(s) if s.as_str() == Some(key)));
        Ok(found.map(|(_, value)| Node {
            path: join(&self.path, key),
            value,
        }))
    }

    fn get(&self, key: &str) -> Result<Node<'a>, CodeObjectError> {
        self.find(key)?
            .ok_or_else(|| fault(&join(&self.path, key), "missing".to_owned()))
    }

    fn items(&self) -> Result<Vec<Node<'a>>, CodeObjectError> {
        let ValueRef::Array(items) = self.value else {
            return Err(self.wrong("an array"));
        };
        let node = |(index, value)| Node {
            path: format!("{}[{index}]", self.path),
            value,
        };
        Ok(items.iter().enumerate().map(node).collect())
    }

    fn number(&self) -> Result<u32, CodeObjectError> {
        match self.value {
            ValueRef::Integer(number) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
            _ => None,
        }
        .ok_or_else(|| self.wrong("an unsigned 32-bit number"))
    }

    fn boolean(&self) -> Result<bool, CodeObjectError> {
        match self.value {
            ValueRef::Boolean(value) => Ok(*value),
            _ => Err(self.wrong("a boolean")),
        }
    }

    fn text(&self) -> Result<&'a str, CodeObjectError> {
        match self.value {
            ValueRef::String(text) => text
                .as_str()
                .ok_or_else(|| fault(&self.path, "not UTF-8".to_owned())),
            _ => Err(self.wrong("a string")),
        }
    }
}

/// `amdhsa.kernels[0]` and `.name` join without a second dot.
fn join(path: &str, key: &str) -> String {
    format!("{path}{key}")
}

fn fault(path: &str, reason: String) -> CodeObjectError {
    let path = if path.is_empty() { "the root" } else { path };
    CodeObjectError::Metadata {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmpv::Value;

    fn encode(value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, value).unwrap();
        bytes
    }

    fn map(entries: Vec<(&str, Value)>) -> Value {
        Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    #[test]
    fn faults_name_the_path() {
        let version = ("amdhsa.version", Value::Array(vec![1.into(), 2.into()]));
        let with_kernel = |kernel: Value| {
            let root = map(vec![
                version.clone(),
                ("amdhsa.kernels", Value::Array(vec![kernel])),
            ]);
            Metadata::parse(&encode(&root)).unwrap_err().to_string()
        };
        assert_eq!(
            with_kernel(map(vec![(
                ".args",
                Value::Array(vec![map(vec![(".offset", "x".into())])])
            )])),
            "metadata at amdhsa.kernels[0].args[0].offset: expected an unsigned 32-bit number, found a string"
        );
        assert_eq!(
            with_kernel(map(vec![])),
            "metadata at amdhsa.kernels[0].name: missing"
        );
        assert_eq!(
            with_kernel(5.into()),
            "metadata at amdhsa.kernels[0]: expected a map, found 5"
        );
        let no_version = Metadata::parse(&encode(&map(vec![])))
            .unwrap_err()
            .to_string();
        assert_eq!(no_version, "metadata at amdhsa.version: missing");
        assert!(
            Metadata::parse(&[0x82, 0xa3])
                .unwrap_err()
                .to_string()
                .contains("not msgpack")
        );
        let mut deep = Value::Nil;
        for _ in 0..100 {
            deep = Value::Array(vec![deep]);
        }
        assert!(Metadata::parse(&encode(&deep)).is_err());
    }
}
