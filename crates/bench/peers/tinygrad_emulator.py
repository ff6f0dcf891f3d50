"""Times tinygrad's emulator on the code object of a launch description. For speed only: results are not compared.

    tinygrad_emulator.py DESCRIPTION.json TARGET WAVE_INSTRUCTIONS SECONDS

PYTHONPATH must name a checkout of tinygrad. WAVE_INSTRUCTIONS is what the whole grid executes. One workgroup is run first, so
that its compiler is warm; then as many more as fit in about SECONDS, all of them alike. Prints JSON.
"""

import ctypes
import json
import mmap
import os
import shutil
import struct
import sys
import time
from pathlib import Path

import numpy

# The emulator compiles with clang; Debian's is called by its version.
names = ["clang", *(f"clang-{version}" for version in range(30, 13, -1))]
os.environ.setdefault("CC", next(filter(shutil.which, names), "clang"))

from test.mockgpu.amd import emu  # noqa: E402

ARCHITECTURES = {"gfx950": "cdna", "gfx942": "cdna", "gfx90a": "cdna", "gfx1100": "rdna3", "gfx1201": "rdna4"}


def address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def load(path, symbol):
    """Loads an ELF file's segments; returns the memory and the address of a symbol."""
    elf = path.read_bytes()
    program_headers, sections = struct.unpack_from("<QQ", elf, 32)
    entry_bytes, entries, section_bytes, section_count = struct.unpack_from("<HHHH", elf, 54)
    segments = []
    for index in range(entries):
        kind, _, offset, virtual, _, in_file, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", elf, program_headers + index * entry_bytes
        )
        if kind == 1:
            segments.append((offset, virtual, in_file, in_memory))
    memory = mmap.mmap(-1, max(virtual + size for _, virtual, _, size in segments) + 4096, prot=7)
    for offset, virtual, in_file, _ in segments:
        memory[virtual : virtual + in_file] = elf[offset : offset + in_file]
    tables = [struct.unpack_from("<IIQQQQIIQQ", elf, sections + i * section_bytes) for i in range(section_count)]
    for table in tables:
        if table[1] not in (2, 11):  # symbols, dynamic symbols
            continue
        names = tables[table[6]]
        for at in range(table[4], table[4] + table[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
            start = names[4] + name
            if elf[start : elf.index(b"\0", start)].decode() == symbol:
                return memory, address(memory) + value
    sys.exit(f"{path}: no symbol {symbol}")


def content(argument):
    """Something to compute with: permutations where a kernel indexes by them, else small numbers or noise."""
    rng = numpy.random.default_rng(1)
    count = argument["bytes"]
    kind = argument["init"]["gen"]
    if kind == "fill":
        return numpy.zeros(count, numpy.uint8)
    if kind == "perm":
        return rng.permutation(count // 4).astype(numpy.int32)
    if kind == "int" and argument["dtype"] == "f16":
        return rng.integers(-3, 4, count // 2).astype(numpy.float16)
    return rng.integers(0, 256, count, dtype=numpy.uint8)


def main():
    description_path, target, instructions, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    description = json.loads(description_path.read_text())
    about = description["targets"][target]
    folder = description_path.parent.parent
    code, descriptor = load(folder / about["file"], about["descriptor"])

    arguments = {argument["name"]: argument for argument in description["args"]}
    keep = [code]  # the emulator knows addresses only
    kernarg = bytearray(max(about["kernarg"]["bytes"], 8) + 256)
    for field in about["kernarg"]["fields"]:
        at = field["offset"]
        if field["kind"] == "global_buffer":
            data = bytearray(content(arguments[field["arg"]]).tobytes())
            keep.append(data)
            struct.pack_into("<Q", kernarg, at, address(data))
        elif field["kind"] == "by_value":
            value = arguments[field["arg"]]["value"]
            kernarg[at : at + field["size"]] = int(value).to_bytes(field["size"], "little", signed=value < 0)
    keep.append(kernarg)

    head = ctypes.string_at(descriptor, 64)
    (entry,) = struct.unpack_from("<q", head, 16)
    _, second, properties, preload = struct.unpack_from("<IIHH", head, 48)
    if properties & ~(1 << 10) != 1 << 3 or preload & 0x7F:
        sys.exit("the kernel wants more user SGPRs than the kernarg pointer")
    lds = (about["lds_static"] + about["lds_dynamic"] + 511) // 512
    second = second & ~(0x1FF << 15) | lds << 15

    grid, block = about["grid"], about["block"]
    groups = grid[0] * grid[1] * grid[2]

    def run(count):
        begin = time.perf_counter()
        emu.run_asm(
            descriptor + entry, 1 << 20, count, grid[1], grid[2], *block, address(kernarg), second,
            about["private_bytes"], ARCHITECTURES[target],
        )
        return time.perf_counter() - begin

    run(1)
    count = 1
    taken = run(count)
    while taken < seconds / 4 and count < grid[0]:
        count = min(grid[0], max(count + 1, int(count * seconds / max(taken, 1e-4) / 2)))
        taken = run(count)
    executed = instructions * count * grid[1] * grid[2] / groups
    print(json.dumps({"instructions_per_second": executed / taken, "workgroups": count * grid[1] * grid[2], "seconds": taken}))


main()
