"""Compiled kernels in other processes: pickled, by the attributes alone, and without the module that their function is of."""
import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.backends.compiler import GPUTarget
from tegula.compiler import ASTSource, CompiledKernel

SCRIPT = """
import pickle, sys
import numpy as np
import tegula
kernel = pickle.load(open(sys.argv[1], "rb"))
x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
kernel[(4, 1, 1)](x, out, 1000, 256)
assert (out == 2 * x).all()
print(kernel.name, kernel.metadata.num_warps, kernel.metadata.origin, kernel.src.fn.arg_names, kernel.src.fn.fn is None, "tile" in kernel.asm)
"""


@tegula.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def compiled(fn, device="cpu", **options):
    x = np.zeros(1000, np.float32)
    return fn.warmup(x, np.zeros(1000, np.float32), 1000, BLOCK=256, grid=(1,), device=device, **options)


def local():
    """A function that is found by no name."""
    @tegula.jit
    def hidden(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
    return hidden


def in_another_process(kernel, tmp_path):
    (tmp_path / "kernel").write_bytes(pickle.dumps(kernel))
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path / "kernel"], text=True, capture_output=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_in_another_process(tmp_path, device):
    # Without this file there, its function comes as text.
    assert in_another_process(compiled(double, device, num_warps=8), tmp_path) == \
        "double 8 bytes ['x', 'out', 'n', 'BLOCK'] True True"


def test_a_function_without_a_name(tmp_path):
    assert in_another_process(compiled(local()), tmp_path) == "hidden 4 bytes ['x', 'out', 'n', 'BLOCK'] True True"


def test_here():
    kernel = compiled(double)
    assert copy.deepcopy(kernel) is kernel and copy.copy(kernel) is kernel
    again = pickle.loads(pickle.dumps(kernel))
    assert again is not kernel and again.hash == kernel.hash and again.asm["obj"] == kernel.asm["obj"]
    assert again.metadata._replace(origin="") == kernel.metadata._replace(origin="")
    assert again.src.fn is double and again.asm["tile"] == kernel.asm["tile"]
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    pickle.loads(pickle.dumps(again))[(1, 1, 1)](x, out, 8, 256)
    assert (out == 2 * x).all()
    with pytest.raises(ValueError, match="argument `x` is `\\*fp64`; the kernel was compiled for `\\*fp32`"):
        again[(1, 1, 1)](x.astype(np.float64), out, 8, 256)
    with pytest.raises(ValueError, match="`n` must be a number"):
        again[(1, 1, 1)](x, out, out, 256)


def test_attributes_alone():
    kernel = tegula.compile(ASTSource(double, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256}))
    made = CompiledKernel.__new__(CompiledKernel)
    made.__dict__.update(pickle.loads(pickle.dumps({**kernel.__dict__, "metadata": None, "module": None, "function": None})))
    made._init_handles()
    assert made.name == "double" and made.metadata.num_warps == 4 and made.function
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    made.run(1, 1, 1, 0, made.function, made.packed_metadata, None, None, None, x, out, 8, 256)
    assert (out == 2 * x).all()
    nothing = CompiledKernel.__new__(CompiledKernel)
    for ask in (lambda: nothing.name, lambda: nothing.asm["obj"], lambda: nothing[(1, 1, 1)](x), lambda: nothing.save(), lambda: nothing.timings):
        with pytest.raises(ValueError, match="the kernel was made from nothing"):
            ask()


def test_for_another_machine():
    source = ASTSource(double, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256})
    kernel = pickle.loads(pickle.dumps(tegula.compile(source, GPUTarget("cuda", 90, 32))))
    assert "ptx" in kernel.asm and kernel.metadata.target == GPUTarget("cuda", 90, 32) and ".entry double" in kernel.asm["ptx"]


def test_damaged_bytes():
    kernel = compiled(double)
    bytes_ = kernel.save()
    for wrong in (b"", b"nonsense", bytes_[:-1], bytes_ + b"x", bytes_[:200] + b"!" + bytes_[201:]):
        made = CompiledKernel.__new__(CompiledKernel)
        made._saved = wrong
        with pytest.raises(ValueError, match="no kernel that tegula_kernel_save gave"):
            made.name
    made = CompiledKernel.__new__(CompiledKernel)
    made._saved = bytes_[:8] + b"\xff" + bytes_[9:]
    with pytest.raises(NotImplementedError, match="another version"):
        made.name


def test_a_detached_function_is_only_looked_at():
    f = pickle.loads(pickle.dumps(double.detached()))
    assert f.fn is None and f.src.startswith("def ") and f.params[0].name == f.arg_names[0]
    with pytest.raises(RuntimeError, match="without its Python function"):
        f[(1,)](*[np.zeros(4, np.float32)] * 4)


def test_a_detached_function_has_the_key_it_was_compiled_with():
    fn = tegula.jit(double.fn)
    before = pickle.loads(pickle.dumps(fn.detached())).cache_key
    assert before == pickle.loads(pickle.dumps(fn.detached())).cache_key != ""
    tegula.compile(ASTSource(fn, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 64}), target=GPUTarget("cpu", "", 32))
    assert pickle.loads(pickle.dumps(fn.detached())).cache_key == double.cache_key


class Wrapped(tegula.KernelInterface):
    """As Inductor's autotuner: another library's class of kernels, with a function of ours in it."""

    def __init__(self, fn):
        self.fn = fn


def test_a_copy_of_a_foreign_kernel_without_its_function_needs_no_module():
    """Inductor takes the Python function away, copies, puts it back, and pickles the copy for a process that has not the function's module."""
    wrapped, python = Wrapped(double), double.fn
    double.fn = None
    try:
        copied = copy.deepcopy(wrapped)
    finally:
        double.fn = python
    assert copied is not wrapped and wrapped.fn is double and copied.fn is not double
    found = pickle.loads(pickle.dumps(copied))
    assert found.fn.fn is None and found.fn.__name__ == "double" and found.fn.src == double.src
