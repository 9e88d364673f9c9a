"""What the CPU target makes of accesses and operations that its machines have no instruction for: the forms, and what must hold at their edges."""
import ctypes
import mmap
import re

import numpy as np
import pytest

import tegula.language as tl
from tegula import jit

HEAD = "import tegula, tegula.language as tl\n\n\n"
KERNEL = HEAD + "@tegula.jit\ndef k(x, y, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n    v = tl.load(x + at, mask=at < n)\n    tl.store(y + at, {}, mask=at < n)\n"


@pytest.fixture
def llvm(tegula, tmp_path):
    def emit(text, sig, target):
        (tmp_path / "t.py").write_text(text)
        p = tegula("compile", "t.py::k", "--sig", sig, "-c", "BLOCK=1024", "-t", target, "--emit", "llvm")
        assert p.returncode == 0, p.stderr
        return p.stdout
    return emit


RECURRENCE = HEAD + """@tegula.jit
def join(a, b, c, d):
    return a * c, b * c + d


@tegula.jit
def k(a, x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    _, h = tl.associative_scan((tl.load(a + at), tl.load(x + at)), 0, join)
    tl.store(y + at, h)
"""


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_lanes_that_nobody_sees_hold_numbers_of_the_scan(llvm, target):
    """What LLVM puts there instead may be subnormal, which each step would take a hundred cycles to multiply."""
    assert "@llvm.arithmetic.fence" in llvm(RECURRENCE, "a:*f32:16, x:*f32:16, y:*f32:16", target)
    assert "@llvm.arithmetic.fence" not in llvm(RECURRENCE, "a:*i32:16, x:*i32:16, y:*i32:16", target)


@pytest.mark.parametrize("target, name", [("cpu:avx2", "x86.avx.cvtt.ps2dq.256"), ("cpu:avx512", "x86.avx512.mask.cvttps2dq.512")])
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_floats_become_integers_by_one_comparison(llvm, target, name, element):
    text = llvm(KERNEL.format("v.to(tl.int32)"), f"x:*{element}:16, y:*i32:16, n:i32", target)
    assert name in text and "fptosi" not in text and "fcmp olt" not in text


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_a_bound_of_zero_is_one_comparison(llvm, target):
    text = llvm(KERNEL.format("tl.minimum(v, 0.0)"), "x:*f32:16, y:*f32:16, n:i32", target)
    assert "fcmp ole" in text and "fcmp oeq" not in text and "fcmp uno" not in text


@jit
def bounds(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(y + at, tl.minimum(v, 0.0))
    tl.store(y + BLOCK + at, tl.maximum(v, -0.0))
    tl.store(z + at, v.to(tl.int32))


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32, 64])
def test_zeros_of_both_signs_and_what_is_no_number(block):
    nan, inf = float("nan"), float("inf")
    special = [0.0, -0.0, nan, -nan, inf, -inf, 1.0, -1.0, 2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4e9, -4e9, 1e-42, -1e-42, 0.9, -0.9, 1.5, -1.5]
    x = np.array((special * 4)[:block], np.float32)
    y, z = np.empty(2 * block, np.float32), np.empty(block, np.int32)
    bounds[(1,)](x, y, z, BLOCK=block)
    low = np.array([v if v < 0 or (v == 0 and np.signbit(v)) else 0.0 for v in x], np.float32)
    high = np.array([v if v > 0 or (v == 0 and not np.signbit(v)) else -0.0 for v in x], np.float32)
    assert (y.view(np.int32) == np.concatenate([low, high]).view(np.int32)).all()
    assert z.tolist() == [0 if v != v else int(max(-2**31, min(2**31 - 1, float(v)))) if abs(v) < inf else (2**31 - 1 if v > 0 else -2**31) for v in x]


GATHER = HEAD + "@tegula.jit\ndef k(x, i, y, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n    tl.store(y + at, tl.load(x + tl.load(i + at), mask=at < n, other=0))\n"


@pytest.mark.parametrize("element", ["i8", "i16", "f16"])
def test_narrow_elements_are_gathered_by_words(llvm, element):
    text = llvm(GATHER, f"x:*{element}:16, i:*i32:16, y:*{element}:16, n:i32", "cpu:avx512")
    assert re.search(r"@llvm.masked.gather.v\d+i32", text) and "gathered:" not in text


@jit
def gather(x, i, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + tl.load(i + at), mask=at < n, other=7))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float16])
def test_gathers_stay_in_their_pages(dtype):
    """Each element of a page between two that cannot be read; what is off lies nowhere."""
    size = mmap.PAGESIZE
    room = mmap.mmap(-1, 3 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    for page in (0, 2):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page * size), ctypes.c_size_t(size), 0) == 0
    count = size // np.dtype(dtype).itemsize
    x = np.frombuffer(room, dtype, count, size)
    x[:] = np.arange(count) % 113
    rng = np.random.default_rng(5)
    for block in (8, 16, 32, 64, 256):
        for n in (0, 1, block // 2 + 1, block):
            i = rng.permutation(count)[:block].astype(np.int64)
            i[:4] = [0, 1, count - 1, count - 2]
            i[n:] = rng.integers(-2**40, 2**40, block - n)
            y = np.empty(block, dtype)
            gather[(1,)](x, i, y, n, BLOCK=block)
            want = np.full(block, 7, dtype)
            want[:n] = x[i[:n]]
            assert (y == want).all(), (block, n)


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_vectors_of_a_turned_tile_that_are_off_are_passed_over(tegula, tmp_path, target):
    """Under masks each element is loaded by itself: one question for a vector that has none."""
    (tmp_path / "t.py").write_text(HEAD + "@tegula.jit\ndef k(x, y, m, n):\n    r, c = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]\n    on = (r < m) & (c < n)\n"
                                   "    tl.store(y + c * m + r, tl.load(x + r * n + c, mask=on), mask=on)\n")
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, y:*f32:16, m:i32, n:i32", "-t", target, "--emit", "llvm")
    asked = re.search(r"call i1 @llvm.vector.reduce.or.v\d+i1\(.*\n *br i1 .* label %then", p.stdout)
    assert p.returncode == 0 and asked and asked.start() < p.stdout.index("\ngather:"), p.stdout


OUTER = HEAD + """@tegula.jit
def k(x, y, m, n, BLOCK: tl.constexpr):
    i = tl.arange(0, 64)[:, None]
    total = tl.full([64, 16], 0, tl.float32)
    for s in range(0, n, 16):
        r = s + tl.arange(0, 16)[None, :]
        on = (i < m) & (r < n)
        total = tl.where(on, total + tl.load(x + i {}, on, other=0.0), total)
    tl.store(y + i, tl.sum(total, 1)[:, None], i < m)
"""


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_tiles_that_lie_along_their_first_dimension_are_turned(llvm, target):
    """No element is gathered, and the loop carries the sums of columns. Not where a dimension of memory is unknown."""
    sig = "x:*f32:16, y:*f32:16, m:i32, n:i32"
    text = llvm(OUTER.format("+ r * m"), sig, target)
    assert "masked.gather" not in text and "x86.avx2.gather" not in text and "[4096 x" not in text
    assert "gather" in llvm(OUTER.format("* n + r * m"), sig, target)


@jit
def roots(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.sqrt(tl.load(x + at)))


def test_roots_by_multiply_adds_are_rounded_right(llvm):
    """All floats of two binades: others differ from them by a power of four, which is exact. And all exponents with some significands, zeros, infinities, numbers without a root."""
    assert "rsqrt14" in llvm(KERNEL.format("tl.sqrt(v)"), "x:*f32:16, y:*f32:16, n:i32", "cpu:avx512")
    assert "rsqrt14" not in llvm(KERNEL.format("tl.sqrt(v)"), "x:*f32:16, y:*f32:16, n:i32", "cpu:avx2")
    ends = np.concatenate([np.arange(0, 64), np.arange(0x7fffff - 63, 0x800000), np.random.default_rng(1).integers(0, 0x800000, 896)])
    for bits in (np.arange(0x3f800000, 0x40800000, dtype=np.uint32), (np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23) | ends.astype(np.uint32)).ravel()):
        x, y = bits.view(np.float32), np.empty(len(bits), np.float32)
        roots[(len(x) // 4096,)](x, y, BLOCK=4096)
        with np.errstate(invalid="ignore"):
            want = np.sqrt(x)
        assert ((y.view(np.uint32) == want.view(np.uint32)) | (np.isnan(y) & np.isnan(want))).all()
