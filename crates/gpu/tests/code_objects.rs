//! Reads every code object of the corpus, loads them, and damages them in all sorts of ways.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rocjitsu_gpu::code_object::{
    AbiVersion, CodeObject, CodeObjectError, LoadError, LoadOptions, Setting,
};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(name)
        .join("built")
}

fn files() -> Vec<PathBuf> {
    let list = |name| {
        std::fs::read_dir(folder(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let mut all: Vec<PathBuf> = list("corpus").chain(list("perf")).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "hsaco"));
    all.sort();
    all
}

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(folder("corpus").join(name)).unwrap()
}

fn parse(data: &[u8]) -> Result<CodeObject, CodeObjectError> {
    CodeObject::parse(data, &LoadOptions::default())
}

#[test]
fn every_code_object_is_read_and_loaded() {
    let files = files();
    assert_eq!(files.len(), 712);
    for path in files {
        let data = std::fs::read(&path).unwrap();
        let object = parse(&data).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let target = path
            .file_stem()
            .and_then(|s| Path::new(s).extension())
            .unwrap();
        assert_eq!(object.target().to_string(), target.to_str().unwrap());
        assert!(!object.kernels().is_empty(), "{}", path.display());
        let memory = Memory::new(1 << 30);
        let loaded = object.load(&memory, "code").unwrap();
        for kernel in object.kernels() {
            let metadata = kernel.metadata.as_ref().unwrap();
            // Assembly sources may leave the size in the descriptor at zero.
            let sizes = [0, metadata.kernarg_segment_size];
            assert!(
                sizes.contains(&kernel.descriptor.kernarg_size),
                "{}",
                path.display()
            );
            assert!(
                kernel.descriptor.vgprs + kernel.descriptor.agprs >= metadata.vgpr_count,
                "{}",
                path.display()
            );
            let mut code = [0; 4];
            memory
                .read(loaded.entry_address(kernel), &mut code)
                .unwrap();
            assert_ne!(code, [0; 4], "{}", path.display());
        }
    }
}

#[test]
fn relocations_point_into_the_loaded_image() {
    let object = parse(&corpus("hip_call_tree.gfx1250.hsaco")).unwrap();
    assert_eq!(object.relocations().len(), 3);
    let memory = Memory::new(1 << 20);
    let loaded = object.load(&memory, "code").unwrap();
    let functions: Vec<u64> = object
        .symbols()
        .iter()
        .filter(|s| s.function)
        .map(|s| loaded.bias + s.address)
        .collect();
    for relocation in object.relocations() {
        let mut pointer = [0; 8];
        memory
            .read(loaded.bias + relocation.offset, &mut pointer)
            .unwrap();
        assert!(functions.contains(&u64::from_le_bytes(pointer)));
    }
}

/// Overwrites the first relocation of `hip_call_tree`: type, symbol, addend.
fn with_relocation(kind: u32, symbol: u32, addend: i64) -> Vec<u8> {
    let mut data = corpus("hip_call_tree.gfx1250.hsaco");
    let info = u64::from(symbol) << 32 | u64::from(kind);
    data[0x918 + 8..0x918 + 16].copy_from_slice(&info.to_le_bytes());
    data[0x918 + 16..0x918 + 24].copy_from_slice(&addend.to_le_bytes());
    data
}

/// The symbol number 1 of the file is `call_tree` at 0x1c00; the patched place is 0x2f00.
fn relocated(kind: u32, addend: i64) -> Result<(u64, u64), LoadError> {
    let object = parse(&with_relocation(kind, 1, addend)).unwrap();
    let memory = Memory::new(1 << 20);
    let loaded = object.load(&memory, "code")?;
    let mut word = [0; 8];
    memory.read(loaded.bias + 0x2f00, &mut word).unwrap();
    Ok((u64::from_le_bytes(word), loaded.bias))
}

#[test]
fn each_kind_of_relocation() {
    let (value, bias) = relocated(3, 0x10).unwrap();
    assert_eq!(value, bias + 0x1c10, "ABS64");
    let distance = 0x1c00u64.wrapping_sub(0x2f00);
    assert_eq!(relocated(5, 0).unwrap().0, distance, "REL64");
    assert_eq!(
        relocated(10, 0).unwrap().0,
        distance & 0xffff_ffff,
        "REL32_LO"
    );
    assert_eq!(relocated(11, 4).unwrap().0, 0xffff_ffff, "REL32_HI");
    assert_eq!(
        relocated(4, 4).unwrap().0,
        (distance + 4) & 0xffff_ffff,
        "REL32"
    );
    assert_eq!(
        relocated(1, 0).unwrap().0,
        (bias + 0x1c00) & 0xffff_ffff,
        "ABS32_LO"
    );
    assert_eq!(
        relocated(2, 0).unwrap().0,
        (bias + 0x1c00) >> 32,
        "ABS32_HI"
    );
    let error = |kind, addend| relocated(kind, addend).unwrap_err().to_string();
    assert!(
        error(6, 0).contains("does not fit R_AMDGPU_ABS32"),
        "{}",
        error(6, 0)
    );
    assert!(error(4, 1 << 40).contains("does not fit R_AMDGPU_REL32"));
    assert!(error(7, 0).contains("relocation type 7 is not applied"));
}

#[test]
fn an_undefined_symbol_is_named_and_nothing_stays_allocated() {
    let mut data = with_relocation(3, 1, 0);
    // Symbol 1 of .dynsym at 0x840: its section index, at 6 bytes, becomes SHN_UNDEF.
    data[0x840 + 24 + 6..0x840 + 24 + 8].copy_from_slice(&[0, 0]);
    let object = parse(&data).unwrap();
    let memory = Memory::new(1 << 20);
    let error = object.load(&memory, "code").unwrap_err().to_string();
    assert!(
        error.contains("R_AMDGPU_ABS64") && error.contains("undefined symbol `call_tree`"),
        "{error}"
    );
    assert_eq!(memory.used(), 0);
    let missing = parse(&with_relocation(3, 99, 0))
        .unwrap()
        .load(&memory, "code")
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("symbol 99 of 4 does not exist"),
        "{missing}"
    );
}

#[test]
fn kernels_are_found_by_name_or_symbol() {
    let object = parse(&corpus("hip_launch_facts.gfx90a.hsaco")).unwrap();
    assert_eq!(object.abi(), AbiVersion::V6);
    assert_eq!(
        (object.machine().xnack, object.machine().sramecc),
        (Setting::Any, Setting::Any)
    );
    let kernel = object.kernel("launch_facts").unwrap();
    assert_eq!(kernel, object.kernel("launch_facts.kd").unwrap());
    let error = object.kernel("lunch_facts").unwrap_err().to_string();
    assert_eq!(
        error,
        "no kernel `lunch_facts` in the code object; it has `launch_facts`"
    );
}

#[test]
fn another_target_runs_the_code_if_the_encodings_agree() {
    let data = corpus("asm_axpy.gfx1100.hsaco");
    let as_target = |run_as| {
        CodeObject::parse(
            &data[..],
            &LoadOptions {
                run_as: Some(run_as),
            },
        )
    };
    assert_eq!(
        as_target(Target::Gfx1151).unwrap().target(),
        Target::Gfx1151
    );
    assert!(
        as_target(Target::Gfx1201)
            .unwrap_err()
            .to_string()
            .contains("gfx1100 cannot run as gfx1201")
    );
}

#[test]
fn damage_is_reported_with_its_place() {
    let whole = corpus("hip_call_tree.gfx1250.hsaco");
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut data = whole.clone();
        change(&mut data);
        parse(&data).map(|_| ()).unwrap_err().to_string()
    };
    let patched = |at: usize, bytes: &[u8]| {
        error(&|data: &mut Vec<u8>| data[at..at + bytes.len()].copy_from_slice(bytes))
    };
    assert_eq!(error(&|d| d.clear()), "ELF header: the file is empty");
    assert_eq!(
        error(&|d| d.truncate(40)),
        "ELF header: 40 of 64 bytes are there"
    );
    assert_eq!(
        patched(4, &[1]),
        "ELF header: class 1 and data 1 are not 64-bit little-endian"
    );
    assert_eq!(patched(7, &[0]), "ELF header: OS ABI 0 is not HSA (64)");
    assert!(patched(8, &[1]).contains("ABI version 1"));
    assert_eq!(
        patched(18, &[62, 0]),
        "ELF header: machine 62 is not AMDGPU (224)"
    );
    assert!(patched(16, &[1]).contains("has to be linked first"));
    assert!(patched(48, &[0x54]).contains("gfx11-generic, a generic target"));
    // Program header 2, p_filesz.
    assert!(
        patched(64 + 2 * 56 + 32, &[0xff; 4])
            .starts_with("program header 2: 0xffffffff bytes at offset 0xa00")
    );
    // Length of the note's name.
    assert!(patched(0x238, &[0xff; 4]).starts_with("note: program header 8"));
    // First byte of the metadata: a map becomes an integer.
    assert_eq!(
        patched(0x238 + 20, &[7]),
        "metadata at the root: expected a map, found 7"
    );
    // Entry offset of the descriptor.
    assert!(
        patched(0x980 + 16, &[1])
            .contains("descriptor of kernel call_tree: the entry 0x1b81 is not a multiple")
    );
    assert!(
        patched(0x980 + 20, &[0xff; 4]).contains("descriptor of kernel call_tree: the entry, -")
    );
    // Section header offset.
    assert!(patched(40, &[0xff; 4]).starts_with("section headers:"));
    // Name offset of symbol 1 in .dynsym.
    assert!(patched(0x840 + 24, &[0xff; 4]).starts_with("symbol table: .dynsym: symbol 1"));
}

#[test]
fn every_truncation_of_a_file_is_an_error() {
    let whole = corpus("asm_axpy.gfx942.hsaco");
    for length in 0..whole.len() {
        assert!(parse(&whole[..length]).is_err(), "{length} bytes");
    }
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "hip_call_tree.gfx1250.hsaco",
        "asm_axpy.gfx942.hsaco",
        "matmul_f16.gfx90a.hsaco",
        "hip_private_sort.gfx1100.hsaco",
    ];
    let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8);
    // Half of the flips go to the first kilobytes, where the structure lies.
    (prop::sample::select(names.to_vec()), flips, any::<bool>()).prop_map(|(name, flips, front)| {
        let mut data = corpus(name);
        let range = if front {
            data.len().min(0x1000)
        } else {
            data.len()
        };
        for (at, value) in flips {
            data[at.index(range)] = value;
        }
        data
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_damage_panics(data in damaged()) {
        if let Ok(object) = parse(&data) {
            let memory = Memory::new(1 << 24);
            if let Ok(loaded) = object.load(&memory, "code") {
                for kernel in object.kernels() {
                    let mut code = [0; 4];
                    memory.read(loaded.entry_address(kernel), &mut code).unwrap();
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(parse(&data).is_err());
    }
}

/// What lets code for gfx1100 run as gfx1151: every instruction in the corpus means the same there.
#[test]
fn gfx1151_reads_the_code_of_gfx1100_alike() {
    use rocjitsu_isa::{FeatureSet, decode};
    let mut count = 0;
    for path in files()
        .iter()
        .filter(|path| path.to_string_lossy().contains(".gfx1100."))
    {
        let object = parse(&std::fs::read(path).unwrap()).unwrap();
        for segment in object
            .segments()
            .iter()
            .filter(|segment| segment.executable)
        {
            let code = object.bytes_at(segment.address).unwrap();
            let mut at = 0;
            while at < code.len() {
                let read = |target| decode(target, FeatureSet::Default, &code[at..]);
                let one = read(Target::Gfx1100)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let other = read(Target::Gfx1151)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_eq!(
                    one.text(FeatureSet::Default),
                    other.text(FeatureSet::Default)
                );
                assert_eq!((one.op(), one.len()), (other.op(), other.len()));
                at += one.len();
                count += 1;
            }
        }
    }
    assert!(count > 50_000, "{count} instructions");
}
