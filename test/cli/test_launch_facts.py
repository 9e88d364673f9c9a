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


NORMS = '''import triton
import triton.language as tl


@triton.jit
def offsets(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
        acc += v * v
    scale = tl.rsqrt(tl.sum(acc) / cols)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + row * cols + at, tl.load(x + row * cols + at, mask=at < cols) * scale, mask=at < cols)


@triton.jit
def blocks_of_columns(x, out, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0) * cols
    out += tl.program_id(0) * cols
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=-float("inf"))
        new = tl.maximum(top, tl.max(v))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new))
        top = new
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.exp(tl.load(x + at, mask=at < cols, other=-float("inf")) - top) / total, mask=at < cols)


@triton.jit
def pointers(x, out, cols, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    p = x + tl.program_id(0) * cols + tl.arange(0, BLOCK)
    for start in range(0, cols, BLOCK):
        acc += tl.load(p, mask=start + tl.arange(0, BLOCK) < cols, other=0.0)
        p += BLOCK
    mean = tl.sum(acc) / cols
    p = x + tl.program_id(0) * cols + tl.arange(0, BLOCK)
    q = out + tl.program_id(0) * cols + tl.arange(0, BLOCK)
    for start in range(0, cols, BLOCK):
        mask = start + tl.arange(0, BLOCK) < cols
        tl.store(q, tl.load(p, mask=mask) - mean, mask=mask)
        p += BLOCK
        q += BLOCK


@triton.jit
def other_rows(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    mean = tl.sum(acc) / cols
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + row * cols + at, tl.load(x + (row + 1) * cols + at, mask=at < cols) - mean, mask=at < cols)
'''


@pytest.mark.parametrize("kernel", ["offsets", "blocks_of_columns", "pointers", "other_rows"])
@pytest.mark.parametrize("cols, programs, most", [
    (16384, 16384, 3),  # rows of 64 KiB in 194 KiB, which are half of a multiprocessor's part of the L2 cache
    (32768, 16384, 2),  # sixteen warps at least
    (65536, 16384, None),  # not even one row stays
    (4096, 16384, None),  # as many as there can be
    (16384, 132, None),  # all programs run at once
])
def test_rows_that_are_read_again_stay_in_caches(tegula, kernel, cols, programs, most):
    (tegula.dir / "rows.py").write_text(NORMS)
    p = tegula("compile", f"rows.py::{kernel}", "--sig", "x:*fp32:16, out:*fp32:16, cols:i32:16", "-c", "BLOCK=4096", "--num-warps", "8", "-t", "sm_90a", "--remarks", "--emit", "ptx",
               "--integers", f"cols={cols}", "--programs", str(programs))
    assert p.returncode == 0, p.stderr
    found = re.search(r"(\d+) blocks of this kernel share a multiprocessor", p.stderr)
    assert (int(found[1]) if found else None) == (None if kernel == "other_rows" else most)


@pytest.mark.parametrize("kernel, dtype, cols, warps, block, most", [
    ("offsets", "fp32", 16384, 4, 1024, 4),  # sixteen warps with 16 KiB under way
    ("blocks_of_columns", "fp32", 16384, 4, 1024, 4),
    ("blocks_of_columns", "fp32", 8192, 4, 1024, 6),
    ("offsets", "bf16", 32768, 8, 2048, 3),  # whose rows have room in shared memory
    ("offsets", "fp32", 32768, 16, 8192, 2),  # with three quarters of theirs
])
def test_fewer_blocks_keep_the_memory_busy(tegula, kernel, dtype, cols, warps, block, most):
    (tegula.dir / "rows.py").write_text(NORMS)
    p = tegula("compile", f"rows.py::{kernel}", "--sig", f"x:*{dtype}:16, out:*fp32:16, cols:i32:16", "-c", f"BLOCK={block}", "--num-warps", str(warps), "-t", "sm_90a", "--remarks", "--emit", "ptx",
               "--integers", f"cols={cols}", "--programs", "16384", "--no-clusters")
    assert p.returncode == 0, p.stderr
    found = re.search(r"(\d+) blocks of this kernel share a multiprocessor", p.stderr)
    assert (int(found[1]) if found else None) == most


PERSISTENT = '''import triton
import triton.language as tl


@triton.jit
def softmax(x, out, rows, cols, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        at = tl.arange(0, BLOCK)
        v = tl.load(x + row.to(tl.int64) * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        v -= tl.max(v, axis=0)
        e = tl.exp(v)
        tl.store(out + row.to(tl.int64) * cols + at, (e / tl.sum(e, axis=0)).to(tl.bfloat16), mask=at < cols)
'''


@pytest.mark.parametrize("facts, blocks", [
    ((), 3),
    (("--programs", "396"), 3),
    (("--programs", "528"), 4),  # of 132 multiprocessors: a program that finds no place would begin when all others are done
    (("--programs", "529"), 3),  # one does in any case
])
def test_persistent_programs_run_at_once(tegula, facts, blocks):
    (tegula.dir / "rows.py").write_text(PERSISTENT)
    p = tegula("compile", "rows.py::softmax", "--sig", "x:*bf16:16, out:*bf16:16, rows:i32, cols:i32:16", "-c", "BLOCK=8192", "-t", "sm_90a", "--emit", "ptx", *facts)
    assert p.returncode == 0, p.stderr
    assert re.search(r"\.minnctapersm (\d+)", p.stdout)[1] == str(blocks)


PRODUCT = '''import triton
import triton.language as tl


@triton.jit
def product(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)
'''


@pytest.mark.parametrize("facts, slots", [
    ((), 3),
    (("--programs", "132"), 3),  # a block on each multiprocessor, whose copies start as early as they can
    (("--programs", "133"), 2),  # more than one, if slots are fewer
])
def test_products_of_few_rows_have_slots_by_the_grid(tegula, facts, slots):
    (tegula.dir / "product.py").write_text(PRODUCT)
    p = tegula("compile", "product.py::product", "--sig", "a:*fp16:16, b:*fp16:16, c:*fp32:16, N:i32:16, K:i32:16", "-c", "BM=32", "-c", "BN=128", "-c", "BK=128", "-t", "sm_90a", "--emit", "gpu", *facts)
    assert p.returncode == 0, p.stderr
    assert re.findall(r"shared_alloc \{slots = (\d+)", p.stdout) == [str(slots)] * 2


@pytest.mark.parametrize("programs, slots", [(264, 3), (265, 2), (396, 2), (397, 3), (528, 3), (529, 2), (100000, 2)])
def test_a_block_more_is_to_save_a_round(tegula, programs, slots):
    """Three blocks on a multiprocessor for two: 528 programs take two rounds either way, the second of which would be nearly empty (H200: 86 us and 109)."""
    (tegula.dir / "product.py").write_text(PRODUCT)
    p = tegula("compile", "product.py::product", "--sig", "a:*fp16:16, b:*fp16:16, c:*fp32:16, N:i32:16, K:i32:16", "-c", "BM=16", "-c", "BN=128", "-c", "BK=128", "-t", "sm_90a", "--emit", "gpu", "--programs", str(programs))
    assert p.returncode == 0, p.stderr
    assert re.findall(r"shared_alloc \{slots = (\d+)", p.stdout) == [str(slots)] * 2


@pytest.mark.parametrize("target, stage", [("cpu:avx2", "asm"), ("sim", "llvm")])
def test_others_have_one_form(tegula, target, stage):
    one, other = (ptx(tegula, "--integers", f"cols={n}", "--programs", "7", target=target, stage=stage) for n in (1024, 65536))
    assert one.returncode == 0 and one.stdout == other.stdout


@pytest.mark.parametrize("integers", ["columns=1024", "cols", "cols=x", "cols=", "=3"])
def test_integers_of_parameters(tegula, integers):
    p = ptx(tegula, "--integers", integers)
    assert p.returncode == 1 and "is no integer of a parameter of `total`" in p.stderr
