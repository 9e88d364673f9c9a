"""Kernels as shared libraries and their launcher, as PyTorch's C++ runtime opens and calls them (docs/pytorch.md), here by ctypes."""
import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula._inductor import package
from tegula.backends.compiler import GPUTarget
from tegula.compiler import ASTSource

Launch = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


@tegula.jit
def scaled(x, out, n, scale, up, one, BLOCK: tl.constexpr):
    i = (tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x + i, mask=i < n) * scale
    tl.device_assert(y < 1000, "too large", mask=i < n)
    tl.store(out + i, tl.where(up, y + 1, y), mask=i < n)


SIGNATURE = {"x": "*fp32", "out": "*fp32", "n": "i32", "scale": "fp32", "up": "i1", "one": "constexpr", "BLOCK": "constexpr"}


def compiled(signature=SIGNATURE, fn=scaled, **options):
    return tegula.compile(ASTSource(fn, signature, {"one": 1, "BLOCK": 128}), target=GPUTarget("cpu", "", 0), options=options)


def opened(tmp_path, kernel):
    """(the launcher, the kernel's address) from files of the two libraries."""
    found = []
    for stage, symbol in (("launcher.so", "run_from_nativert"), ("so", kernel.name)):
        path = tmp_path / f"{kernel.hash}.{stage}"
        path.write_bytes(kernel.asm.get(stage))
        found.append(ctypes.cast(getattr(ctypes.CDLL(str(path)), symbol), ctypes.c_void_p).value)
    return Launch(found[0]), found[1]


def call(launcher, kernel, grid, x, out, n, scale, up):
    # Integers are as wide as PyTorch's wrapper has them, constants have a place and no value.
    numbers = ctypes.c_int64(n), ctypes.c_float(scale), ctypes.c_bool(up)
    args = (ctypes.c_void_p * 7)(x.ctypes.data, out.ctypes.data, *(ctypes.addressof(v) for v in numbers), None, None)
    launcher(*grid, 1, args, kernel)


def test_launches(tmp_path):
    launcher, kernel = opened(tmp_path, compiled())
    for n, grid in ((1000, (8, 1, 1)), (1000, (4, 2, 1)), (1, (1, 1, 1)), (5, (0, 1, 1))):
        x, out = np.random.default_rng(n).standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
        for up in (False, True):
            out[:] = 0
            call(launcher, kernel, grid, x, out, n, 2.5, up)
            np.testing.assert_array_equal(out, x * np.float32(2.5) + up if 0 not in grid else 0)


def test_two_kernels_have_one_launcher(tmp_path):
    first, second = compiled(), compiled({**SIGNATURE, "n": "i64"})
    assert first.asm.get("launcher.so") == second.asm.get("launcher.so") and first.asm.get("so") != second.asm.get("so")
    launcher, one = opened(tmp_path, first)
    _, other = opened(tmp_path, second)
    x = np.arange(300, dtype=np.float32)
    for kernel in (one, other, one):
        out = np.zeros_like(x)
        call(launcher, kernel, (3, 1, 1), x, out, 300, 2, False)
        np.testing.assert_array_equal(out, x * 2)


def test_errors_are_exceptions_of_cpp(tmp_path):
    """PyTorch turns std::exception into an error; a program that catches none ends with its text."""
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import pathlib
from test_package_kernels import *
kernel = compiled(debug=True)
launcher, address = opened(pathlib.Path({str(tmp_path)!r}), kernel)
x = np.full(10, 999, np.float32)
call(launcher, address, (1, 1, 1), x, np.zeros_like(x), 10, 2.0, False)
"""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
    assert done.returncode < 0 and "std::runtime_error" in done.stderr and "too large" in done.stderr, done.stderr


def test_a_damaged_kernel_is_refused(tmp_path):
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import pathlib
from test_package_kernels import *
kernel = compiled()
library = bytearray(kernel.asm.get("so"))
library[-1] ^= 1
class Damaged:
    name, hash, asm = kernel.name, kernel.hash, {{"so": bytes(library), "launcher.so": kernel.asm.get("launcher.so")}}
launcher, address = opened(pathlib.Path({str(tmp_path)!r}), Damaged)
call(launcher, address, (1, 1, 1), np.zeros(1, np.float32), np.zeros(1, np.float32), 1, 2.0, False)
"""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
    assert done.returncode < 0 and "damaged, or of another version" in done.stderr, done.stderr


def test_what_pytorch_does_not_pass():
    with pytest.raises(NotImplementedError, match="parameter `scale` of `scaled` is `fp64`, which PyTorch's C.. wrapper does not pass"):
        package.library(compiled({**SIGNATURE, "scale": "fp64"}))


def test_gpu_kernels_are_cubins():
    kernel = tegula.compile(ASTSource(scaled, SIGNATURE, {"one": 1, "BLOCK": 128}), target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
    assert kernel.asm.get("so") is None and "so" not in kernel.asm and kernel.num_warps == 8
