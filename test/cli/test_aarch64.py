"""Objects for AArch64 run under qemu-user with a small C main: the object has no dependency but libc and libm."""
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

MAIN = r"""
#include "abi/CpuAbi.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern int32_t %(symbol)s(const void *, const TegulaCpuLaunch *, int64_t, int64_t, void *);
int main(void) {
  enum { n = 1000 };
  static float x[1024], y[1024], out[1024];
  for (int i = 0; i < 1024; ++i) { x[i] = 0.01f * i; y[i] = 1.0f; out[i] = -1; }
  struct { void *a, *b, *c; int32_t n; } args = {x, y, out, n};
  volatile int32_t cancel = 0;
  TegulaCpuFault fault = {0};
  TegulaCpuLaunch launch;
  memset(&launch, 0, sizeof launch);
  launch.grid[0] = 8, launch.grid[1] = launch.grid[2] = 1, launch.cancel = &cancel, launch.fault = &fault;
  void *scratch = aligned_alloc(64, 1 << 20);
  if (%(symbol)s(&args, &launch, 0, 8, scratch)) return 1;
  for (int i = 0; i < 1024; ++i) {
    float want = i < n ? (%(expect)s) : -1;
    if (fabsf(out[i] - want) > 4e-7f * fabsf(want)) { printf("%%d: %%g, want %%g\n", i, out[i], want); return 2; }
  }
  puts("ok");
  return 0;
}
"""

CASES = {
    "add": ("tl.store(out + offs, a + b, mask=mask)", "x[i] + y[i]"),
    "exp": ("tl.store(out + offs, tl.exp(a) * b, mask=mask)", "expf(x[i]) * y[i]"),
    "reduce": ("tl.store(out + offs, a * 0 + tl.sum(b, axis=0) + tl.max(b, axis=0), mask=mask)", "(i < 896 ? 128 : 104) + 1"),
    "dot": ("d = tl.dot(tl.reshape(a, (8, 16)), tl.trans(tl.reshape(b, (8, 16))))\n"
            "    tl.store(out + offs, a + tl.sum(tl.sum(d, 1), 0) * 0, mask=mask)", "x[i]"),
}


@pytest.mark.skipif(not shutil.which("qemu-aarch64") or not shutil.which("aarch64-linux-gnu-gcc"), reason="qemu-user or the AArch64 C compiler is not installed")
@pytest.mark.parametrize("case", CASES)
def test_aarch64_object_runs_under_qemu(tegula, case):
    body, expect = CASES[case]
    (tegula.dir / "a.py").write_text(f"""import triton
import triton.language as tl


@triton.jit
def k(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(x + offs, mask=mask, other=0.0)
    b = tl.load(y + offs, mask=mask, other=0.0)
    {body}
""")
    p = tegula("compile", "a.py::k", "--sig", "x:*f32, y:*f32, out:*f32, n:i32", "-c", "BLOCK=128", "-t", "cpu:aarch64", "--emit", "obj", "-o", "k.o")
    assert p.returncode == 0, p.stderr
    symbols = subprocess.run(["nm", "-g", str(tegula.dir / "k.o")], capture_output=True, text=True, check=True).stdout
    symbol = re.search(r" T (\S+)", symbols).group(1)
    (tegula.dir / "main.c").write_text(MAIN % dict(symbol=symbol, expect=expect))
    subprocess.run(["aarch64-linux-gnu-gcc", "-O1", "-static", "-I", str(ROOT / "src"), "main.c", "k.o", "-lm", "-o", "main"], cwd=tegula.dir, check=True)
    p = subprocess.run(["qemu-aarch64", "./main"], cwd=tegula.dir, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and p.stdout == "ok\n", p.stdout + p.stderr
