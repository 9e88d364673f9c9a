"""Where the text of a definition ends: as inspect.getblock() says, whatever the lines look like."""
import argparse
import ast
import importlib.util
import inspect
import textwrap
from pathlib import Path

import pytest
from tegula import _source

CASES = {
    "followed": "def f():\n    return 1\nx = 2\n",
    "last, without an end of line": "def f():\n    return 1",
    "one line": "def f(): return 1\n# not of f\nx = 2\n",
    "decorators": "@a\n@b(\n1\n)\ndef f():\n    pass\ng = 1\n",
    "brackets to the left": "def f(a,\nb\n):\n    return (a +\nb)\nx = 1\n",
    "string to the left": "def f():\n    '''text\nx = 1\n\n    '''\n    return 1\nx = 2\n",
    "comment to the left": "def f():\n    a = 1\n# of f\n    return a\nx = 2\n",
    "comments at its end": "def f():\n    return 1\n    # of f\n\n        # of f\n  # not of f\n# not of f\nx = 2\n",
    "indented": "    def f():\n        if a:\n            return 1\n\n        return 2\n    def g():\n        pass\n",
    "the end of an outer block": "        def f():\n            return 1\n    x = 1\n",
    "nested": "def f():\n    @a\n    def g():\n        return 1\n    return g\nx = 2\n",
    "escapes": "def f():\n    a = '\\d'\n    return a + \\\n1\nx = 2\n",
    "tabs": "def f():\n\treturn 1\nx = 2\n",
    "async": "async def f():\n    return 1\nx = 2\n",
    "lambda": "f = lambda: 1\nx = 2\n",
    "many lines to the left": "def f():\n    return [\n" + "1,\n" * 100 + "]\nx = 1\n",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES.keys())
def test_ends_as_python_says(text):
    lines = text.splitlines(keepends=True)
    block = _source._block(lines)
    assert block == inspect.getblock(lines)
    assert block and "x = 2" not in "".join(block)


@pytest.mark.parametrize("module", [argparse, ast, inspect, textwrap], ids=lambda m: m.__name__)
def test_every_function_of(module):
    lines = Path(module.__file__).read_text().splitlines(keepends=True)
    functions = [n for n in ast.walk(ast.parse("".join(lines))) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for f in functions:
        rest = lines[min([f.lineno] + [d.lineno for d in f.decorator_list]) - 1:]
        assert _source._block(rest) == inspect.getblock(rest), f.name
    assert len(functions) > 3


def test_no_warning_of_its_own(recwarn):
    """To parse an escape sequence that is none warns; Python did that already, at the right place."""
    _source._block(["def f():\n", "    return '\\d'\n"])
    assert not recwarn.list


def load_text(folder, text):
    path = folder / "made.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_function_made_of_another_one(tmp_path):
    """Libraries make a kernel for each function that it calls: a stand-in with the new parameters, then the new text, with what the first kernel sees."""
    import inspect
    import types

    import numpy as np
    import tegula
    m = load_text(tmp_path, """
import tegula
import tegula.language as tl
OFFSET = tl.constexpr(3)
@tegula.jit
def twice(x): return x * 2
@tegula.jit(do_not_specialize=["n"])
def template(x, n, FN: tl.constexpr): tl.store(x, FN(n) + OFFSET)
""")
    scope = m.template.get_capture_scope()
    assert scope["OFFSET"].value == 3
    text = "def template(x, n, k=1):\n    FN: tl.constexpr = twice\n    tl.store(x, FN(n) + OFFSET + k)\n"
    own = {**scope, "twice": m.twice}
    made = {}
    exec(text, own, made)
    bare = types.FunctionType((lambda: None).__code__, own)
    bare.__signature__, bare.__name__, bare.__module__ = inspect.signature(made["template"]), "template", m.__name__
    init = list(inspect.signature(tegula.JITFunction.__init__).parameters.values())[2:]
    f = tegula.JITFunction(bare, **{p.name: getattr(m.template, p.name, p.default) for p in init})
    f._unsafe_update_src(text)
    f.raw_src, f.file_name, f.starting_line_number = m.template.raw_src, m.template.file_name, m.template.starting_line_number
    f.def_file_line_number, f.def_file_col_number = m.template.def_file_line_number, m.template.def_file_col_number
    assert f.raw_src[-1].startswith("def template(x, n, FN") and f.do_not_specialize == ["n"] and f.arg_names == ["x", "n", "k"]
    x = np.zeros(1, np.int32)
    f[(1,)](x, 5)
    assert x[0] == 14
    f[(1,)](x, 5, k=4)
    assert x[0] == 17


def test_line_of_the_def(tmp_path):
    """The file's line of `def`, decorators not counted."""
    m = load_text(tmp_path, "import tegula\n\n@tegula.jit\ndef f(x): pass\n")
    assert m.f.starting_line_number == 3 and m.f.def_file_line_number == 4 and m.f._fn_name.endswith(".f")
