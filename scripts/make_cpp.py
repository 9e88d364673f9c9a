#!/usr/bin/env python3
"""Writes include/tegula/tile/elementwise.inc, libdevice.inc and missing.inc, the parts of the C++ language that come from the tables of builtins and the library.

elementwise.inc: functions of one tile of floats, each with its sentence. libdevice.inc: those of tl.extra.libdevice. missing.inc: every other function of the language that no header
has, deleted with what to write instead. So the two front ends grow together: a new builtin is in C++, or its use says why not. `make_cpp.py --check` fails if a file is out of date.
"""
import re
import sys

from make_stubs import ROOT, collect

FOLDER = ROOT / "include/tegula/tile"
HEADERS = ("along.hpp", "blocks.hpp", "control.hpp", "descriptors.hpp", "functions.hpp", "random.hpp", "scalars.hpp", "values.hpp")
# Of Math.cpp's rows those that take what they are given.
NOT_FLOATS = {"abs"}
# What C++ has a form of its own for.
INSTEAD = {
    "static_range": "a `for` of C++ is unrolled", "condition": "write tg::while_",
}
# Optional parameters that C++ gives in their place, by overloads, types or functions of other names.
OTHERWISE = {
    "axis": "in its place", "arg2": "in its place", "step": "in its place", "n_rounds": "in its place", "timeout_ns": "in its place", "msg": "in its place",
    "dot.acc": "in its place", "dot.allow_tf32": "input_precision", "dot_scaled.out_dtype": "float32 is all there is", "trans.dims": "in its place",
    "static_print.sep": "of Python's print", "static_print.end": "of Python's print", "static_print.file": "of Python's print", "static_print.flush": "of Python's print",
    "sort.dim": "SortOptions", "bitonic_merge.dim": "SortOptions", "topk.dim": "SortOptions", "sort.descending": "SortOptions", "bitonic_merge.descending": "SortOptions", "topk.descending": "SortOptions",
    "load.boundary_check": "BlockOptions", "load.padding_option": "BlockOptions", "store.boundary_check": "BlockOptions",
    "map_elementwise.args": "in their place", "cast.bitcast": "x.bitcast<T>()", "cast.fp_downcast_rounding": "CastOptions",
    "sum.dtype": "sum<T>(x)", "cumsum.dtype": "cumsum<T>(x)", "cumprod.dtype": "cumprod<T>(x)",
}
# What functions of libdevice give that do not give the type of their operands (at least float, for floats): `Same` is that type, whatever it is.
LIBDEVICE = (
    (r"abs|fabs|fma|fma_rn", "Same"),
    (r"double2float_r.|u?int2float_r.|u?ll2float_r.|u?int_as_float", "Always<float>"),
    (r"hiloint2double|u?int2double_r.|u?ll2double_r.|longlong_as_double|rcp64h", "Always<double>"),
    (r"(float|double)2int_r.|double2(hi|lo)int|float_as_int|clz|ffs|popc|finitef|isfinited|isinf|isnan|signbit|ilogb", "Always<int32_t>"),
    (r"(float|double)2ll_r.|double_as_longlong|llrint|llround", "Always<int64_t>"),
    (r"(float|double)2uint_r.|float_as_uint", "Always<uint32_t>"),
    (r"(float|double)2ull_r.", "Always<uint64_t>"),
)
# Types and notes of the language, which are no functions of kernels, and what C++ has itself.
NOT_FUNCTIONS = {"static_assert", "dtype", "pointer_type", "block_type", "constexpr", "tuple", "constexpr_type", "tuple_type", "get_int_dtype", "aggregate_replace"}


def elementwise():
    rows = (ROOT / "src/lang/builtins/Math.cpp").read_text()
    names = [n for n in re.findall(r'^    \{"(\w+)", "x", ', rows, re.M) if n not in NOT_FLOATS]
    functions, _ = collect()
    head = "// Functions of one tile of floats. Made by scripts/make_cpp.py from the table of builtins; do not edit.\n"
    return head + "".join(f"/// {functions[n][1]}\nTEGULA_TILE_UNARY({n})\n" for n in names)


def libdevice():
    """Rows of the table of builtins (LIBDEVICE2("name", ...) is one of two parameters), and functions of the library."""
    text = (ROOT / "src/lang/builtins/Libdevice.cpp").read_text()
    arity = {n: int(k or 1) for k, n in re.findall(r'^\s*LIBDEVICE(\d?)\("(\w+)"', text, re.M)}
    arity |= {n: len(p.split(",")) for n, p in re.findall(r'\{"extra\.libdevice\.(\w+)", "([^"]*)"', text)}
    for path in sorted((ROOT / "src/lib").glob("libdevice_*.py")):
        arity |= {n: len(p.split(",")) for n, p in re.findall(r"^def ([a-z]\w*)\(([^)]*)\)", path.read_text(), re.M)}
    rule = lambda n: next((r for pattern, r in LIBDEVICE if re.fullmatch(pattern, n)), "Real")
    head = "// Functions of tl.extra.libdevice. Made by scripts/make_cpp.py from the table of builtins and the library; do not edit.\n"
    return head + "".join(f"TEGULA_LIBDEVICE{arity[n]}({n}, {rule(n)})\n" for n in sorted(arity))


def present(text):
    """Names of the language that the headers write down."""
    names = set(re.findall(r'"(?:for \w+ in )?tl\.(\w+)', text)) | set(re.findall(r"TEGULA_TILE_(?:ATOMIC|UNARY|BINARY|ARITHMETIC|REDUCTION|EXTREMUM|PROMISE|SCAN|SORT|RANDOM4?)\((\w+)", text))
    # "tl." #name in macros; what is made of others, or of C++.
    return names | {"range", "cast", "next_power_of_2", "load_tensor_descriptor", "store_tensor_descriptor"}


def chunks():
    """The headers' functions, as texts; each instance of a macro with the macro's."""
    found = []
    for h in HEADERS:
        text = (FOLDER / h).read_text()
        macros = {m[1]: m[0] for m in re.finditer(r"^#define (TEGULA_TILE_\w+)\(.*?\n(?=[^ ])", text, re.M | re.S)}
        for name, body in macros.items():
            found += [body.replace("#name", f'"{a}"').replace('tl." "', "tl.") for a in re.findall(rf"^{name}\((\w+)", text, re.M)]
        found += re.split(r"^(?=template|inline|constexpr|#define|TEGULA_TILE)", text, flags=re.M)
    return found


def unspelled():
    """Optional parameters of functions that no header can say: `name.parameter`."""
    functions, _ = collect()
    texts = chunks()
    out, used = [], set()
    for name, (signature, _) in sorted(functions.items()):
        if name in NOT_FUNCTIONS or name in INSTEAD and name != "condition" or name.startswith("_"):
            continue
        mine = "".join(t for t in texts if re.search(rf"tl\.{name}\b", t)) + "".join(t for t in texts if "Keywords(" in t or "optionsText" in t)
        for p in re.findall(r"(?:^|, )\*{0,2}(\w+)(?:: tl\.constexpr)?=", signature):
            key = p if p in OTHERWISE else f"{name}.{p}"
            used.add(key)
            if key not in OTHERWISE and not re.search(rf'\b{p}=|"{p}"', mine):
                out.append(f"{name}.{p}")
    return out


def missing(unary):
    functions, _ = collect()
    have = present(unary + "".join((FOLDER / h).read_text() for h in HEADERS)) - set(INSTEAD) - set(INSTEAD)
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
    for name, text in (("elementwise.inc", unary), ("libdevice.inc", libdevice()), ("missing.inc", missing(unary))):
        path = FOLDER / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is out of date: run scripts/make_cpp.py")
            out_of_date = True
    if lost := unspelled():
        print(f"kernels in C++ cannot say: {', '.join(lost)}; give the functions of include/tegula/tile an option of that name, or scripts/make_cpp.py a reason (OTHERWISE)")
        out_of_date = True
    return out_of_date


if __name__ == "__main__":
    sys.exit(main())
