"""Slices and items of blocks: what Triton refuses and numpy means by basic indexing."""
import importlib.util

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import BY_NAME, CompileError

pytestmark = pytest.mark.section("1.4 slices of blocks")

# Index, rank of the block that it is for.
INDICES = [
    ("0:4", 1), ("1:4", 1), ("::-3", 1), ("3:14, None", 1), ("1:7, ::3", 2), ("4:1:-1, -3:", 2), (":, 1:4, 7:2:-1", 3),
    ("12:", 1), ("-4:", 1), (":-12", 1), ("::2", 1), ("1::4", 1), ("::-1", 1), ("-1:-9:-2", 1), ("2:3", 1), ("0:16", 1), ("3:100:8", 1),
    ("0", 1), ("15", 1), ("-1", 1), ("-16", 1), ("...", 1), ("..., None", 1), ("None, 4:8", 1), ("None, 3, None", 1), ("8:, None", 1),
    ("0:4, :", 2), (":, 2:4", 2), ("4:8, ::-1", 2), ("5", 2), ("-1, -1", 2), (":, 3", 2), ("3, :", 2), ("2, 1:3", 2), ("..., 0", 2), ("1, ...", 2),
    ("None, 1, 2:6, None", 2), ("6:7, 6:7", 2), ("::4, ::4", 2), ("1:3", 2), ("..., 4:, None", 2), (":, None, 7", 2),
    ("1", 3), ("..., 2", 3), ("1, ..., 3", 3), ("1, 2, 3", 3), (":, 1:3, ::2", 3), ("0, :, None, -1", 3), ("::-1, ::-1, ::-1", 3), ("1:, ..., 4:", 3),
]
SHAPES = {1: (16, ), 2: (8, 8), 3: (2, 4, 8)}
KERNEL = """
@tegula.jit
def k{number}(x, out, flag: tl.constexpr):
    v = tl.load(x + tl.reshape(tl.arange(0, {numel}), {shape}))
    r = v[{index}]
    tl.static_assert(r.dtype == v.dtype)
    tl.store(out + {where}, r)
"""


def offsets(shape):
    """The offsets of a result of this shape, as text."""
    return f"tl.reshape(tl.arange(0, {np.prod(shape)}), {list(shape)})" if shape else "0"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    text = "import tegula\nimport tegula.language as tl\n"
    for number, (index, rank) in enumerate(INDICES):
        shape = SHAPES[rank]
        result = eval(f"np.zeros({shape})[{index}].shape")
        text += KERNEL.format(number=number, numel=np.prod(shape), shape=list(shape), index=index, where=offsets(result))
    path = tmp_path_factory.mktemp("slices") / "slices.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("slices_of_blocks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(len(INDICES)), ids=[f"[{index}]" for index, _ in INDICES])
def test_index(dev, kernels, number):
    index, rank = INDICES[number]
    if dev.name == "interpreter" and "..." in index:
        pytest.skip("the interpreter does not take `...` yet")
    x = np.random.default_rng(number).standard_normal(SHAPES[rank]).astype(np.float32)
    want = eval(f"x[{index}]")
    out = np.zeros(max(want.size, 1), np.float32)
    kernel = dev(getattr(kernels, f"k{number}"), (1, ), x.ravel().copy(), out, 0)
    np.testing.assert_array_equal(out, want.ravel())
    if kernel is None:  # the interpreter compiles none
        return
    assert [r.kind for r in kernel.remarks if r.kind == "cutsBlock"] == ["cutsBlock"]


@pytest.mark.parametrize("dtype", sorted(BY_NAME))
def test_types(dev, kernels, dtype):
    d = BY_NAME[dtype]
    x = np.random.default_rng(1).integers(0, 2, 64).astype(d.np)
    for index in ("4:8, ::-1", "-1, -1"):
        want = eval(f"x.reshape(8, 8)[{index}]")
        out = np.zeros(want.size, d.np)
        dev(getattr(kernels, f"k{INDICES.index((index, 2))}"), (1, ), x, out, 0)
        np.testing.assert_array_equal(out.view(np.uint8), np.ascontiguousarray(want).reshape(-1).view(np.uint8))


@tegula.jit
def k_thirds(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)[:, None] * 3 + tl.arange(0, 3)[None, :])
    third: tl.constexpr = N // 3
    last = v[third * 2:, ::-1]
    tl.static_assert(last.shape == [third, 3])
    tl.store(out + tl.arange(0, third), tl.sum(v[:third, :2] * last[:, 1:], 1))


@pytest.mark.parametrize("n", [3, 9, 24, 96])
def test_blocks_of_any_extents(dev, n):
    x = np.arange(3 * n, dtype=np.int32).reshape(n, 3)
    out = np.zeros(n // 3, np.int32)
    dev(k_thirds, (1, ), x, out, n)
    assert out.tolist() == (x[:n // 3, :2] * x[n // 3 * 2:, ::-1][:, 1:]).sum(1).tolist()


@tegula.jit
def k_items(x, out, n, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    s = 0
    for i in range(-n, n):
        s += v[i, 1] * 3
        s ^= tl.sum(v[i])
    for j in range(n):
        s += tl.sum(v[:, j.to(tl.int64)] * tl.arange(0, M))
        s += v[2, j.to(tl.uint8)]
    tl.store(out, s)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_items_at_run_time(dev, n):
    v = np.random.default_rng(n).integers(-100, 100, (4, 8)).astype(np.int32)
    s = np.int32(0)
    for i in range(-n, n):
        s += v[i, 1] * 3
        s ^= v[i].sum(dtype=np.int32)
    for j in range(n):
        s += (v[:, j] * np.arange(4)).sum(dtype=np.int32)
        s += v[2, j]
    out = np.zeros(1, np.int32)
    dev(k_items, (1, ), v.ravel(), out, n, 4, 8)
    assert out[0] == s


@tegula.jit
def k_pointers(x, out, n):
    p = x + tl.arange(0, 16)
    q = (x + tl.arange(0, 16))[::-1]
    tl.store(out + tl.arange(0, 8), tl.load(p[8:]) + tl.load(q[:8]))
    tl.store(out + 8, tl.load(p[n]))
    tl.store(out + 9 + tl.arange(0, 2), tl.load((x, p)[1][2:4]))


def test_blocks_of_pointers(dev):
    x, out = np.arange(16, dtype=np.float32)**2, np.zeros(11, np.float32)
    dev(k_pointers, (1, ), x, out, 5)
    np.testing.assert_array_equal(out, [*(x[8:] + x[::-1][:8]), x[5], x[2], x[3]])


@tegula.jit
def k_rotate(x, cos, sin, out, D: tl.constexpr):
    d = tl.arange(0, D)
    half: tl.constexpr = D // 2
    for row in range(4):
        v = tl.load(x + row * D + d)
        a = v[:half]
        b = v[half:]
        c = tl.load(cos + row * half + d[:half])
        s = tl.load(sin + row * half + d[:half])
        tl.store(out + row * D + d[:half], a * c - b * s)
        tl.store(out + row * D + d[half:], b * c + a * s)


@pytest.mark.parametrize("D", [2, 16, 256])
def test_rotary_embedding(dev, D):
    g = np.random.default_rng(D)
    x, cos, sin = (g.integers(-8, 9, (4, n)).astype(np.float32) for n in (D, D // 2, D // 2))
    out = np.zeros_like(x)
    dev(k_rotate, (1, ), x.ravel(), cos.ravel(), sin.ravel(), out.reshape(-1), D)
    a, b = x[:, :D // 2], x[:, D // 2:]
    np.testing.assert_array_equal(out, np.concatenate([a * cos - b * sin, b * cos + a * sin], 1))


@tegula.jit
def k_large(x, out, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    columns = tl.arange(0, N)
    v = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(out + columns[:N // 2], tl.sum(v[1::2, N // 2:], 0))


def test_large_block(dev):
    x = np.random.default_rng(9).integers(0, 50, (128, 128)).astype(np.float32)
    out = np.zeros(64, np.float32)
    dev(k_large, (1, ), x.ravel(), out, 128, 128)
    np.testing.assert_array_equal(out, x[1::2, 64:].sum(0))


@pytest.mark.parametrize("strict", [False, True])
def test_strict(dev, kernels, strict):
    x, out = np.arange(16, dtype=np.float32), np.zeros(4, np.float32)
    if not strict:
        dev(kernels.k0, (1, ), x, out, 0, strict=False)
        assert out.tolist() == [0, 1, 2, 3]
        return
    for index, text in (("0:4", "`0:4`"), ("-1", "`-1`"), ("...", "`Ellipsis`")):
        with pytest.raises(CompileError, match=f"unsupported tensor index {text}"):
            dev(getattr(kernels, f"k{INDICES.index((index, 1))}"), (1, ), x, out, 0, strict=True)
