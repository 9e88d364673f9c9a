"""`tegula compile --programs N --integers NAME=N`: code that depends on numbers which only a launch knows (support/LaunchForms.h)."""
import re

import pytest

TOTAL = '''import triton
import triton.language as tl


@triton.jit
def total(x, out, cols, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(acc))
'''
SIGNATURE = "x:*fp32:16, out:*fp32:16, cols:i32:16"


def ptx(tegula, *facts, target="sm_90a", stage="ptx"):
    (tegula.dir / "rows.py").write_text(TOTAL)
    return tegula("compile", "rows.py::total", "--sig", SIGNATURE, "-c", "BLOCK=1024", "-t", target, "--emit", stage, *facts)


@pytest.mark.parametrize("facts, blocks", [
    ((), 12),
    (("--integers", "cols=1024", "--programs", "16384"), 16),  # one iteration has no loads of later ones that want registers
    (("--integers", "cols=65536", "--programs", "16384"), 10),  # loads of all iterations that ptxas unrolls
    (("--integers", "cols=65536", "--programs", "132"), 4),  # four blocks have the registers of those that are not there
    (("--programs", "16384"), 12),  # half of the numbers is none
])
def test_blocks_that_launches_want(tegula, facts, blocks):
    p = ptx(tegula, *facts)
    assert p.returncode == 0, p.stderr
    assert re.search(r"\.minnctapersm (\d+)", p.stdout)[1] == str(blocks)


@pytest.mark.parametrize("target, stage", [("cpu:avx2", "asm"), ("sim", "llvm")])
def test_others_have_one_form(tegula, target, stage):
    one, other = (ptx(tegula, "--integers", f"cols={n}", "--programs", "7", target=target, stage=stage) for n in (1024, 65536))
    assert one.returncode == 0 and one.stdout == other.stdout


@pytest.mark.parametrize("integers", ["columns=1024", "cols", "cols=x", "cols=", "=3"])
def test_integers_of_parameters(tegula, integers):
    p = ptx(tegula, "--integers", integers)
    assert p.returncode == 1 and "is no integer of a parameter of `total`" in p.stderr
