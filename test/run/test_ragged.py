"""§4.10 triton.tools.ragged_tma: slices of a tensor, whose lengths are known in the kernel only, against numpy."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d, values
from tegula.tools import ragged_tma
from tegula.tools.ragged_tma import atomic_add_ragged, create_ragged_descriptor, load_ragged, store_ragged

pytestmark = pytest.mark.section("4.10 ragged_tma")


@tegula.jit
def k_copy(x, y, bounds, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    begin = tl.load(bounds + tl.program_id(0))
    size = tl.load(bounds + tl.program_id(0) + 1) - begin
    at = [tl.program_id(1) * R, tl.program_id(2) * C]
    v = load_ragged(x, begin, size, at)
    tl.static_assert(v.shape == [R, C])
    if HOW == "store":
        store_ragged(y, begin, size, at, v + 1)
    else:
        atomic_add_ragged(y, begin, size, at, v)


@pytest.mark.parametrize("how", ["store", "atomic_add"])
@pytest.mark.parametrize("t, block", [("float32", (16, 32)), ("float16", (32, 64)), ("float32", (128, 8))], ids=str)
def test_slices(dev, t, block, how):
    """Slices of any length, empty ones too: blocks that reach past their slice neither read nor write the next one."""
    x = values(d(t), 100 * 64, low=-4, high=4).reshape(100, 64)
    y = np.full_like(x, 7)
    bounds = np.array([3, 20, 20, 21, 85, 99], np.int32)  # rows 0 to 2 and 99 belong to nobody
    descriptor = lambda a: create_ragged_descriptor(a, list(block))
    grid = (len(bounds) - 1, tegula.cdiv(64, block[0]), 64 // block[1])
    dev(k_copy, grid, descriptor(x), descriptor(y), bounds, *block, how)
    expected = np.full_like(x, 7)
    expected[3:99] = x[3:99] + 1 if how == "store" else x[3:99] + 7
    assert_same(y, expected)


@tegula.jit
def k_zeros(x, out, begin, size, row, R: tl.constexpr, C: tl.constexpr):
    v = load_ragged(x, begin, size, [row, 0])
    tl.store(out + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], v)


@pytest.mark.parametrize("begin, size, row", [(0, 5, 0), (10, 1, 0), (10, 0, 0), (7, 13, 8), (7, 13, 16), (30, 2, 0), (1, 1, 1)])
def test_what_is_past_the_slice_is_zero(dev, begin, size, row):
    x = np.arange(1, 32 * 16 + 1, dtype=np.float32).reshape(32, 16)
    out = np.full((8, 16), -1, np.float32)
    dev(k_zeros, (1, ), create_ragged_descriptor(x, [8, 16]), out, begin, size, row, 8, 16)
    expected = np.zeros((8, 16), np.float32)
    rows = x[begin + row:begin + max(size, row)][:8]
    expected[:len(rows)] = rows
    assert_same(out, expected)


@tegula.jit
def k_middle(x, y, begin, size, i, B: tl.constexpr, DIM: tl.constexpr):
    v = ragged_tma.load_ragged(x, begin, size, (i, 2, 0), ragged_dim=DIM)
    tl.static_assert(v.shape == B)
    ragged_tma.store_ragged(y, begin, size, (i, 2, 0), v * 2, ragged_dim=DIM)


@pytest.mark.parametrize("dim", [1, -2])
def test_another_dimension(dev, dim):
    x = np.arange(4 * 24 * 16, dtype=np.float32).reshape(4, 24, 16)
    y = np.zeros_like(x)
    make = lambda a: create_ragged_descriptor(a, [2, 8, 16], ragged_dim=dim)
    dev(k_middle, (1, ), make(x), make(y), 5, 7, 3, (2, 8, 16), dim)
    expected = np.zeros_like(x)
    expected[3:4, 7:12] = 2 * x[3:4, 7:12]  # rows 2 to 6 of the slice from 5 on; of blocks, one matrix is there
    assert_same(y, expected)


@tegula.jit
def k_grouped(x, w, y, bounds, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    group = tl.program_id(0)
    begin = tl.load(bounds + group)
    size = tl.load(bounds + group + 1) - begin
    for row in range(0, size, M):
        acc = tl.zeros([M, N], tl.float32)
        for k in range(0, 2 * K, K):
            acc += tl.dot(load_ragged(x, begin, size, [row, k]), w.load([group, k, 0]).reshape(K, N))
        store_ragged(y, begin, size, [row, 0], acc.to(tl.float16))


def test_grouped_matmul(dev):
    g = np.random.default_rng(3)
    x = (g.integers(-4, 5, (150, 64)) / 4).astype(np.float16)
    w = (g.integers(-4, 5, (3, 64, 64)) / 4).astype(np.float16)
    y = np.full((150, 64), 5, np.float16)
    bounds = np.array([0, 70, 71, 150], np.int32)
    dev(k_grouped, (3, ), create_ragged_descriptor(x, [64, 32]), tegula.tools.tensor_descriptor.TensorDescriptor.from_tensor(w, [1, 32, 64]),
        create_ragged_descriptor(y, [64, 64]), bounds, 64, 64, 32)
    expected = np.concatenate([x[a:b].astype(np.float32) @ w[i].astype(np.float32) for i, (a, b) in enumerate(zip(bounds, bounds[1:]))])
    assert_same(y, expected.astype(np.float16))


@pytest.mark.parametrize("shape, block, dim, text", [((8, 8), [4], 0, "rank mismatch"), ((8, ), [4], 0, "2 or 3 dimensions"), ((8, 8), [4, 8], 1, "cannot be ragged"),
                                                     ((8, 8), [4, 8], 2, "ragged_dim is 2"), ((2, 2, 2, 8), [1, 1, 1, 8], 0, "found 4")])
def test_refused(shape, block, dim, text):
    with pytest.raises(AssertionError, match=text):
        create_ragged_descriptor(np.zeros(shape, np.float32), block, dim)
