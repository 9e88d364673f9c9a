#!/usr/bin/env python3
"""Writes include/tegula/tile/elementwise.inc and missing.inc, the parts of the C++ language that come from the tables of builtins and the library.

elementwise.inc: functions of one tile of floats, each with its sentence. missing.inc: every other function of the language that no header has, deleted with
what to write instead. So the two front ends grow together: a new builtin is in C++, or its use says why not. `make_cpp.py --check` fails if a file is out of date.
"""
import re
import sys

from make_stubs import ROOT, collect

FOLDER = ROOT / "include/tegula/tile"
HEADERS = ("values.hpp", "functions.hpp", "control.hpp")
# Of Math.cpp's rows those that take what they are given.
NOT_FLOATS = {"abs"}
# What C++ has a form of its own for.
INSTEAD = {
    "cast": "write x.to<T>()", "to_tensor": "write tg::Tile<T> x = number", "static_range": "a `for` of C++ is unrolled",
    "static_print": "print with C++: the kernel's lambda runs while it is compiled",
    "condition": "write tg::while_", "add": "write a + b", "sub": "write a - b", "mul": "write a * b", "view": "write tg::reshape", "unsqueeze": "write tg::expand_dims",
    "squeeze": "write tg::reshape", "broadcast": "write tg::broadcast_to", "next_power_of_2": "use std::bit_ceil", "load_tensor_descriptor": "write d.load({i, j})",
    "store_tensor_descriptor": "write d.store({i, j}, value)",
}
# Types and notes of the language, which are no functions of kernels, and what C++ has itself.
NOT_FUNCTIONS = {"static_assert", "dtype", "pointer_type", "block_type", "constexpr", "tuple", "constexpr_type", "tuple_type", "get_int_dtype", "aggregate_replace"}


def elementwise():
    rows = (ROOT / "src/lang/builtins/Math.cpp").read_text()
    names = [n for n in re.findall(r'^    \{"(\w+)", "x", ', rows, re.M) if n not in NOT_FLOATS]
    functions, _ = collect()
    head = "// Functions of one tile of floats. Made by scripts/make_cpp.py from the table of builtins; do not edit.\n"
    return head + "".join(f"/// {functions[n][1]}\nTEGULA_TILE_UNARY({n})\n" for n in names)


def present(text):
    """Names of the language that the headers write down."""
    names = set(re.findall(r'"(?:for \w+ in )?tl\.(\w+)', text)) | set(re.findall(r"TEGULA_TILE_(?:ATOMIC|UNARY|BINARY|REDUCTION)\((\w+)", text))
    return names | {"range"}


def missing(unary):
    functions, _ = collect()
    have = present(unary + "".join((FOLDER / h).read_text() for h in HEADERS))
    head = ("// Functions of the language that C++ spells otherwise, or does not have yet. Made by scripts/make_cpp.py from the tables of builtins; do not edit.\n")
    lines = [f'TEGULA_TILE_MISSING({n}, "{INSTEAD.get(n, "not in C++ yet: write this kernel in a .py file, which C++ launches too")}")\n'
             for n in sorted(functions) if n not in have | NOT_FUNCTIONS and not n.startswith("_")]
    unknown = [n for n in [*INSTEAD, *NOT_FUNCTIONS] if n not in functions]
    if unknown:
        raise SystemExit(f"scripts/make_cpp.py: the language has no {', '.join(unknown)}")
    return head + "".join(lines)


def main() -> int:
    unary = elementwise()
    out_of_date = False
    for name, text in (("elementwise.inc", unary), ("missing.inc", missing(unary))):
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is out of date: run scripts/make_cpp.py")
            out_of_date = True
    return out_of_date


if __name__ == "__main__":
    sys.exit(main())
