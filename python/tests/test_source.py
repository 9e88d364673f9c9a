"""Where the text of a definition ends: as inspect.getblock() says, whatever the lines look like."""
import argparse
import ast
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
