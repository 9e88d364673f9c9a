"""The whole command on machines with fewer instruction sets than this one: qemu-x86_64 executes it as an AVX2 and as a baseline CPU, which end
the process at the first instruction that they lack. Covers what is chosen by asking the CPU: the native target, the simulator's code, memory
functions."""
import platform
import shutil
import subprocess

import pytest

from conftest import TEGULA

KERNELS = """import triton
import triton.language as tl


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + o, e / tl.sum(e, 0), mask=o < n)


@triton.jit
def matmul(a, out, B: tl.constexpr):
    i = tl.arange(0, B)
    t = tl.load(a + i[:, None] * B + i[None, :])
    tl.store(out + i[:, None] * B + i[None, :], tl.dot(t, t.trans(), input_precision="ieee"))
"""
SOFTMAX = ["k.py::softmax", "--grid", "1", "-a", "x=zeros:f32[50]", "-a", "out=empty:f32[50]", "-a", "n=50", "-c", "BLOCK=64"]
MATMUL = ["k.py::matmul", "--grid", "1", "-a", "a=ones:f32[32,32]", "-a", "out=empty:f32[32,32]", "-c", "B=32"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 instruction sets")
@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="qemu-user is not installed")
@pytest.mark.parametrize("cpu, target", [("Haswell", "cpu:avx2"), ("Nehalem", "cpu:x86-64")])
def test_every_device(tmp_path, cpu, target):
    (tmp_path / "k.py").write_text(KERNELS)

    def tegula(*args):
        p = subprocess.run(["qemu-x86_64", "-cpu", cpu, str(TEGULA), *args], cwd=tmp_path, env={"TEGULA_CACHE_DIR": ""}, capture_output=True,
                           text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert p.returncode == 0, p.stdout + p.stderr
        return p.stdout

    assert f"target {target} " in tegula("info")
    assert "[0.02, 0.02, 0.02" in tegula("run", *SOFTMAX, "--print", "out")
    assert "32, 32, 32" in tegula("run", *MATMUL, "--print", "out")
    assert "[0.02, 0.02, 0.02" in tegula("run", *SOFTMAX, "-d", "sim", "--print", "out")
