"""Kernels for packages of AOTInductor on CPUs, which PyTorch's C++ runtime opens as shared libraries: no Python, and no compiler of C++ makes them.

A kernel's library has no code for the dynamic linker, only data under the kernel's name: the bytes of the compiled kernel (src/runtime/TorchLauncher.cpp says
how they lie there). The launcher beside it, `run_from_nativert`, is tegula's runtime: one library, the same for all kernels.
"""
import functools
import json
import struct
from pathlib import Path

from .. import _core

# What PyTorch's wrapper passes by address: int64_t for all integers, float, bool.
_SCALARS = {"i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32"}


@functools.cache
def launcher():
    """The bytes of the launcher."""
    here = Path(_core.__file__).resolve()
    for folder in (here.parents[2] / "lib", here.parent):
        if (path := folder / "libtegula-torch-launcher.so").exists():
            return path.read_bytes()
    raise RuntimeError(f"tegula.torch: the launcher for packages, libtegula-torch-launcher.so, is neither in {here.parents[2] / 'lib'} nor in {here.parent}")


def library(kernel):
    """The bytes of a shared library with the kernel, an image of data under the symbol `kernel.name`."""
    source = kernel.src
    if source is None:
        raise RuntimeError(f"tegula.torch: it is not known what arguments `{kernel.name}` was compiled for, so it cannot be packaged")
    signature = list(source.signature.items())
    positions = [i for i, (name, code) in enumerate(signature) if code != "constexpr" and (source.fn.arg_names.index(name),) not in source.constants]
    for name, code in (signature[i] for i in positions):
        if not str(code).startswith("*") and code not in _SCALARS:
            raise NotImplementedError(f"tegula.torch: parameter `{name}` of `{kernel.name}` is `{code}`, which PyTorch's C++ wrapper does not pass to kernels on CPUs")
    made = json.loads(kernel.metadata_json())
    if len(made["args"]) != len(positions):
        raise AssertionError(f"`{kernel.name}` has {len(made['args'])} run-time arguments, its signature {len(positions)}")
    entry = kernel.save()
    image = struct.pack("<8sQQQ", b"TEGULAK1", 0, len(entry), len(positions)) + struct.pack(f"<{len(positions)}I", *positions) + entry
    return shared_library(kernel.name, image)


def shared_library(symbol, data):
    """An ELF shared library for x86-64 or AArch64 that has `data`, writable, under one symbol, and nothing else. Tables: System V ABI, chapters 4 and 5."""
    import platform
    machine = {"x86_64": 62, "aarch64": 183}[platform.machine()]
    strings = b"\0" + symbol.encode() + b"\0"
    page, header, segment = 0x1000, 64, 56
    at, places = header + 3 * segment, {}
    for name, size in (("symbols", 48), ("strings", len(strings)), ("hash", 5 * 4)):
        at = (at + 7) // 8 * 8
        places[name], at = at, at + size
    tables_end = at
    start = (at + page - 1) // page * page  # what is written to is on pages of its own
    dynamic, image = start, start + 6 * 16
    end = image + len(data)
    file = bytearray(end)

    def put(offset, form, *values):
        struct.pack_into("<" + form, file, offset, *values)

    put(0, "16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, header, 0, 0, header, segment, 3, 0, 0, 0)
    load, readable, writable = 1, 4, 6
    put(header, "IIQQQQQQ", load, readable, 0, 0, 0, tables_end, tables_end, page)
    put(header + segment, "IIQQQQQQ", load, writable, start, start, start, end - start, end - start, page)
    put(header + 2 * segment, "IIQQQQQQ", 2, writable, dynamic, dynamic, dynamic, 6 * 16, 6 * 16, 8)
    # The null symbol, then: a global object of no section's (SHN_ABS would not be moved with the library; any other number is).
    put(places["symbols"] + 24, "IBBHQQ", 1, 1 << 4 | 1, 0, 1, image, len(data))
    file[places["strings"]:places["strings"] + len(strings)] = strings
    put(places["hash"], "5I", 1, 2, 1, 0, 0)  # one bucket with symbol 1, which ends its chain
    for i, entry in enumerate([(4, places["hash"]), (5, places["strings"]), (6, places["symbols"]), (10, len(strings)), (11, 24), (0, 0)]):
        put(dynamic + 16 * i, "QQ", *entry)
    file[image:end] = data
    return bytes(file)
