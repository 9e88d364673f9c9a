"""Tests of what kernels become, by LLVM's FileCheck: a kernel's own text holds the lines that must occur in its tile IR.

    @filecheck_test
    @triton.jit
    def test_sum():
        # CHECK: reduce
        tl.sum(tl.arange(0, 8), 0)
"""
import functools
import inspect
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .backends.compiler import GPUTarget, name_of
from ._function import JITFunction

stub_target = GPUTarget("cuda", 90, 32)


class Module:
    """Tile IR: `str(module)`."""

    def __init__(self, text):
        self._text = text

    def __str__(self):
        return self._text

    def str_nodebug(self):
        """Without places in the source."""
        return re.sub(r" *loc\([^)]*\)", "", self._text)

    def verify(self):
        """It was verified when it was made."""
        return True


def run_parser(kernel_fn, args=(), kwargs={}, target=stub_target):
    """The tile IR of a kernel for these arguments (or dtypes, for tensors) and a target."""
    if not isinstance(kernel_fn, JITFunction):
        raise TypeError(f"a jit function is needed, found {type(kernel_fn).__name__}")
    kernel = kernel_fn.warmup(*args, grid=(1,), **{"device": "cpu", **kwargs})
    return Module(kernel.compile_for(name_of(target)).stage("tile"))


def _tool():
    """FileCheck: $FILECHECK, or on the path, with LLVM's version behind the name too."""
    named = os.environ.get("FILECHECK")
    found = named or shutil.which("FileCheck")
    for folder in os.environ.get("PATH", "").split(os.pathsep) if not found else ():
        found = next((str(p) for p in sorted(Path(folder).glob("FileCheck-*"), reverse=True)), None)
        if found:
            break
    if not found:
        raise FileNotFoundError("LLVM's FileCheck is not on the path; $FILECHECK may name it")
    return found


def run_filecheck(name, module_str, check_template):
    """ValueError with what FileCheck says unless the text is as the CHECK lines of the template say. `name` is for messages."""
    with tempfile.TemporaryDirectory() as folder:
        text, checks = Path(folder, "module"), Path(folder, f"{name}.checks")
        text.write_text(module_str)
        checks.write_text(check_template)
        done = subprocess.run([_tool(), checks, "--input-file", text, "--dump-input-context=50"], text=True, capture_output=True)
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)


def run_filecheck_test(kernel_fn, args=(), kwargs={}, target=stub_target):
    """Compares the tile IR of a kernel with the CHECK lines in its text."""
    module = run_parser(kernel_fn, args, kwargs, target)
    run_filecheck(kernel_fn.__name__, module.str_nodebug(), kernel_fn.src)


def filecheck_test(fn):
    """Makes a test of a kernel without parameters."""
    @functools.wraps(getattr(fn, "fn", fn))
    def test():
        run_filecheck_test(fn)
    test.__signature__ = inspect.Signature()
    del test.__wrapped__
    return test
