#!/usr/bin/env python3
"""Writes python/tegula/language/__init__.pyi from the tables of builtins (src/lang/builtins) and the library (src/lib).

`make_stubs.py --check` fails if the file is out of date.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python/tegula/language/__init__.pyi"
STRING = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
# {"name", "signature" or the name of a constant that holds it, handler, flags, "doc"}
ROW = re.compile(r'\{\s*"([\w.]+)",\s*(' + STRING + r'|\w+),\s*&?[\w:<>, ]+,\s*[\w:| ]+,\s*(' + STRING + r')\}', re.S)
PYTHON = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print"}
HEAD = '''"""Types of `tegula.language` for editors. Made by scripts/make_stubs.py; do not edit."""
from enum import Enum
from typing import Any

class dtype:
    name: str
    primitive_bitwidth: int
    itemsize: int
    def __init__(self, name: str) -> None: ...

class pointer_type(dtype):
    element_ty: dtype
    def __init__(self, element_ty: dtype, address_space: int = ..., const: bool = ...) -> None: ...

class constexpr:
    value: Any
    def __init__(self, value: Any) -> None: ...

class const: ...

class PropagateNan(Enum):
    NONE = 0
    ALL = 65535

TRITON_MAX_TENSOR_NUMEL: int
'''


def joined(text):
    return "".join(ast.literal_eval(s) for s in re.findall(r'"(?:[^"\\]|\\.)*"', text))


def default(value):
    """Of a parameter; `inspect.signature(tl.dot)` reads it here (python/tegula/language/__init__.py). Other values than Python's literals are `...`."""
    if value is None:
        return ""
    try:
        return f" = {ast.literal_eval(value)!r}"
    except ValueError:
        return " = ..."


def with_any(signature, first_self=False):
    """A parameter list with annotations; the first parameter becomes self for methods."""
    fn = ast.parse(f"def f({signature}): ...").body[0]
    a = fn.args
    out = []
    positional = a.posonlyargs + a.args
    defaults = [None] * (len(positional) - len(a.defaults)) + a.defaults
    for i, (p, d) in enumerate(zip(positional, defaults)):
        out.append("self" if first_self and i == 0 else f"{p.arg}: Any" + default(d))
    if a.vararg:
        out.append(f"*{a.vararg.arg}: Any")
    elif a.kwonlyargs:
        out.append("*")
    out += [f"{p.arg}: Any" + default(d) for p, d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg:
        out.append(f"**{a.kwarg.arg}: Any")
    return ", ".join(out)


def collect():
    functions, methods = {}, {}
    for path in sorted((ROOT / "src/lang/builtins").glob("*.cpp")):
        text = path.read_text()
        for m in ROW.finditer(text):
            name, signature, doc = m.group(1), m.group(2), joined(m.group(3))
            if not signature.startswith('"'):
                signature = re.search(rf"\b{signature}(?:\[\])?\s*=\s*({STRING})", text).group(1)
            signature = joined(signature)
            if "." in name or name in PYTHON or not name.isidentifier():
                continue
            functions[name] = (signature, doc)
            if "Method" in m.group(0):
                methods[name] = (signature, doc)
    for path in sorted(p for p in (ROOT / "src/lib").glob("*.py") if not p.name.startswith("libdevice_")):
        for fn in ast.parse(path.read_text()).body:
            if isinstance(fn, ast.FunctionDef) and not fn.name.startswith("_"):
                parameters = ast.unparse(fn.args)
                doc = (ast.get_docstring(fn) or "").split("\n")[0]
                functions[fn.name] = (parameters, doc)
                if fn.args.args:
                    methods.setdefault(fn.name, (parameters, doc))
    return functions, methods


def render():
    functions, methods = collect()
    types = sorted(set("int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e5 float8e4nv float8e4b15 float8e4b8 float8e5b16 "
                       "float16 bfloat16 float32 float64 void".split()))
    out = [HEAD]
    out += [f"{t}: dtype" for t in types]
    out.append("pi32_t: pointer_type\n\nclass tensor:\n    shape: Any\n    dtype: Any\n    type: Any\n    numel: Any\n    T: tensor")
    for op in ("add sub mul truediv floordiv mod and or xor lshift rshift lt le gt ge").split():
        out.append(f"    def __{op}__(self, other: Any) -> tensor: ...")
        if op not in ("lt", "le", "gt", "ge"):
            out.append(f"    def __r{op}__(self, other: Any) -> tensor: ...")
    out.append("    def __neg__(self) -> tensor: ...\n    def __invert__(self) -> tensor: ...\n    def __getitem__(self, index: Any) -> tensor: ...")
    out.append("    def to(self, dtype: Any, fp_downcast_rounding: Any = ..., bitcast: Any = ...) -> tensor: ...")
    for name, (signature, doc) in sorted(methods.items()):
        if name != "to":
            out.append(f"    def {name}({with_any(signature, True)}) -> Any: ...")
    out.append("")
    for name, (signature, doc) in sorted(functions.items()):
        if name in ("dtype", "pointer_type", "constexpr", "tensor", "const", *types):
            continue
        out.append(f"def {name}({with_any(signature)}) -> Any:\n    {doc!r}" if doc else f"def {name}({with_any(signature)}) -> Any: ...")
    return "\n".join(out) + "\n"


def main() -> int:
    text = render()
    ast.parse(text)
    if "--check" in sys.argv:
        if not STUB.exists() or STUB.read_text() != text:
            print("python/tegula/language/__init__.pyi is out of date: run scripts/make_stubs.py")
            return 1
        return 0
    STUB.write_text(text)
    print(f"{text.count(chr(10) + 'def ')} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
