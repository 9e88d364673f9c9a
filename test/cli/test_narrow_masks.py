"""Masks on elements of one and two bytes with AVX2, which has none for them: values, what is not touched, and how it is done."""
import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

import tegula.language as tl
from tegula import jit

avx2 = pytest.mark.skipif(not any("avx2" in line for line in open("/proc/cpuinfo") if line.startswith("flags")), reason="no AVX2")


@jit
def copy_some(x, on, y, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = (at < n) & (tl.load(on + at) != 0)
    v = tl.load(x + at, mask=mask, other=7)
    if WIDE:  # registers of half as many elements, or a quarter
        v = (v.to(tl.float32) * 1.0).to(v.dtype)
    tl.store(y + at, v, mask=mask)
    tl.store(y + BLOCK + at, v)


def in_front_of_a_hole(count, dtype):
    """An array whose end is that of a page, behind which there is none."""
    size = mmap.PAGESIZE
    room = mmap.mmap(-1, 3 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + 2 * size), ctypes.c_size_t(size), 0) == 0
    bytes_ = count * np.dtype(dtype).itemsize
    return np.frombuffer(room, dtype, count, 2 * size - bytes_), room


def check_all():
    rng = np.random.default_rng(3)
    for dtype in (np.int8, np.int16, np.float16):
        for block in (8, 16, 32, 64, 128):
            for n in sorted({0, 1, 2, 3, 5, block // 2 - 1, block // 2 + 1, block - 1, block}):
                for dense in (True, False):
                    for wide in (False, True):
                        x, _ = in_front_of_a_hole(max(n, 1), dtype)
                        x[:] = rng.integers(-100, 100, len(x))
                        on = np.ones(block, np.int8) if dense else rng.integers(0, 2, block).astype(np.int8)
                        y = np.full(2 * block + 8, 55, dtype)
                        copy_some[(1,)](x, on, y, n, BLOCK=block, WIDE=wide)
                        want = np.full(2 * block + 8, 55, dtype)
                        mask = (np.arange(block) < n) & (on != 0)
                        full = np.zeros(block, dtype)
                        full[:min(n, block)] = x[:min(n, block)]
                        want[:block][mask] = full[mask]
                        want[block:2 * block] = np.where(mask, full, 7)
                        assert (y == want).all(), (dtype, block, n, dense, wide)
    # The store at the end of a page.
    for dtype in (np.int8, np.int16):
        for n in range(1, 33):
            y, _ = in_front_of_a_hole(n, dtype)
            store_some[(1,)](y, n, BLOCK=32)
            assert (y == np.arange(n)).all()


@jit
def store_some(y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, at.to(y.dtype.element_ty), mask=at < n)


@avx2
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu"])
def test_what_is_off_is_not_touched(target):
    env = {**os.environ, "TEGULA_CPU_TARGET": target} if target != "cpu" else dict(os.environ)
    p = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stderr[-2000:]


@pytest.mark.parametrize("block, elements", [(32, "i16x16"), (64, "i16x16"), (8, "i16x8")])
def test_words_at_once(tegula, tmp_path, block, elements):
    """Neither a branch for each element nor a call for what ends with a word."""
    (tmp_path / "t.py").write_text("import tegula, tegula.language as tl\n\n\n@tegula.jit\ndef k(x, y, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n"
                                   "    tl.store(y + at, tl.load(x + at, mask=at < n, other=0), mask=at < n)\n")
    p = tegula("compile", "t.py::k", "--sig", "x:*i16:16, y:*i16:16, n:i32", "-c", f"BLOCK={block}", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0 and "llvm.masked" not in p.stdout
    assert "@llvm.x86.avx2.maskload.d" in p.stdout and "@llvm.x86.avx2.maskstore.d" in p.stdout
    assert f"@tegula.load.left.{elements}" in p.stdout and f"@tegula.store.left.{elements}" in p.stdout


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
@pytest.mark.parametrize("element", ["i8", "i16", "f32"])
def test_what_lies_downwards_is_turned(tegula, tmp_path, target, element):
    """Whole vectors and those under masks: no element is loaded or stored by itself."""
    (tmp_path / "t.py").write_text("import tegula, tegula.language as tl\n\n\n@tegula.jit\ndef k(x, y, z, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n"
                                   "    v = tl.load(x + n - 1 - at, mask=at < n)\n    tl.store(y + at, v, mask=at < n)\n    tl.store(z + n - 1 - at, v, mask=at < n)\n")
    p = tegula("compile", "t.py::k", "--sig", f"x:*{element}:16, y:*{element}:16, z:*{element}:16, n:i32", "-c", "BLOCK=1024", "-t", target, "--emit", "llvm")
    assert p.returncode == 0 and "shufflevector" in p.stdout and "gather" not in p.stdout and "scatter" not in p.stdout


if __name__ == "__main__":
    check_all()
