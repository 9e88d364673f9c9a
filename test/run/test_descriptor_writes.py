"""§3.3 tensor descriptors: writes of tiles that dots and permutations leave behind (by TMA where there is TMA): clipped, in order with other accesses."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d, values
from test_descriptors import window
from tegula.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.section("3.3 tensor descriptors")


# ------------------------------------------------------------------------------------------- stores behind other stores and loads

@tegula.jit
def product(a, b, c, M, N, i, j, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile that lives where a dot leaves it, so that it is stored by TMA where there is TMA; a is [BM, BK], b [BN, BK]."""
    ad, bd = tl.make_tensor_descriptor(a, [BM, BK], [BK, 1], [BM, BK]), tl.make_tensor_descriptor(b, [BN, BK], [BK, 1], [BN, BK])
    return tl.dot(ad.load([0, 0]), bd.load([0, 0]).T)


@tegula.jit
def store_at(a, b, c, M, N, stride, i: tl.constexpr, j: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [stride, 1], [BM, BN])
    cd.store([i * 8, j * 16], product(a, b, c, M, N, i, j, BM, BN, BK).to(cd.dtype))


def operands(bm, bn, bk=16):
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 4, (n, bk)).astype(np.float16) for n in (bm, bn))
    return a, b, (a.astype(np.float32) @ b.astype(np.float32).T)


def put(whole, tile, i, j):
    """Writes the part of a tile at (i, j) that lies inside."""
    rows, cols = whole.shape
    y0, y1, x0, x1 = max(i, 0), min(i + tile.shape[0], rows), max(j, 0), min(j + tile.shape[1], cols)
    if y0 < y1 and x0 < x1:
        whole[y0:y1, x0:x1] = tile[y0 - i:y1 - i, x0 - j:x1 - j]


@pytest.mark.parametrize("bm, bn, warps", [(64, 64, 4), (128, 32, 4), (64, 128, 8), (32, 32, 4), (16, 16, 1), (256, 64, 8), (64, 256, 4)])
@pytest.mark.parametrize("t", ["float16", "float32", "bfloat16", "float8e5"])
def test_clipped_stores(dev, bm, bn, warps, t):
    t = d(t)
    a, b, tile = operands(bm, bn)
    m = bm + 13
    # Writes by TMA take rows of multiples of 16 bytes and no negative offsets.
    for i, j, n in [(0, 0, bn + 16), (2, 1, bn), (m // 8, 0, bn), (0, bn // 16 + 1, bn + 16), (1, 1, bn + 4), (-3, -2, bn)]:
        c = values(t, m * (bn + 32), 5).reshape(m, bn + 32)
        expected = c.copy()
        put(expected[:, :n], (tile / 8 if t.bits == 8 else tile).astype(t.np), i * 8, j * 16)
        dev(store_at, (1,), a, b / 8 if t.bits == 8 else b, c, m, n, bn + 32, i, j, bm, bn, 16, num_warps=warps)
        assert_same(c, expected)


@tegula.jit
def write_at(a, b, c, M, N, stride, i, j, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ADD: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [stride, 1], [BM, BN])
    tile = product(a, b, c, M, N, i, j, BM, BN, BK).to(cd.dtype)
    if ADD:
        cd.atomic_add([i, j * 16], tile)
        cd.atomic_max([i - 3, j * 16], (tile * 2 + i).to(cd.dtype))
    else:
        cd.store([i, j * 16], tile)
        cd.store([i - 3, j * 16], (tile * 2 + i).to(cd.dtype))


@pytest.mark.parametrize("bm, bn, warps", [(64, 64, 4), (16, 16, 1), (64, 32, 8), (128, 128, 8), (32, 256, 4)])
@pytest.mark.parametrize("t, add", [("float16", False), ("float32", False), ("bfloat16", False), ("float16", True), ("bfloat16", True), ("int32", True)])
def test_writes_in_front_of_the_tensor(dev, bm, bn, warps, t, add):
    """Whether a block begins in front of the tensor is known when the kernel runs; overlapping writes keep their order."""
    t = d(t)
    a, b, tile = operands(bm, bn)
    m, n = bm + 5, bn + 16
    for i, j in [(-2, 0), (2, -1), (-bm, 0), (-bm - 7, -4), (0, -bn // 16), (-1, -1), (3, 1), (m + 2, n)]:
        c = (values(d("int32"), m * (n + 32), 5) % 8).astype(t.np).reshape(m, n + 32)
        expected = c.copy()
        for shift, new in (0, tile), (3, tile * 2 + i):
            piece = expected[:, :n].astype(np.float32)
            put(piece, new, i - shift, j * 16)
            if add:
                old = expected[:, :n].astype(np.float32)
                fresh = np.full_like(old, -1e9 if shift else 0)
                put(fresh, new, i - shift, j * 16)
                piece = np.maximum(old, fresh) if shift else old + fresh
            expected[:, :n] = piece.astype(t.np)
        dev(write_at, (1,), a, b, c, m, n, n + 32, i, j, bm, bn, 16, add, num_warps=warps)
        assert_same(c, expected)


@tegula.jit
def dense_rows(a, b, c, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    cd.store([tl.program_id(0) * BM, tl.program_id(1) * BN], product(a, b, c, M, N, 0, 0, BM, BN, BK).to(cd.dtype))


@pytest.mark.parametrize("t, grain", [("float16", 8), ("float32", 4), ("float8e5", 16)])
def test_rows_as_long_as_their_stride(dev, t, grain):
    t = d(t)
    a, b, tile = operands(64, 64)
    for m, n in (64, 64 + grain), (70, 128 - grain), (1, grain):
        c = np.zeros((m, n), t.np)
        dev(dense_rows, (2, 2), a, b / 8 if t.bits == 8 else b, c, m, n, 64, 64, 16)
        assert_same(c, np.tile(tile / 8 if t.bits == 8 else tile, (2, 2))[:m, :n].astype(t.np))


@tegula.jit
def store_in_loops(a, b, c, x, M, N, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MODE: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    cols = tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :]
    acc = product(a, b, c, M, N, 0, 0, BM, BN, BK)
    for i in range(n):
        if MODE == "same":      # the last one counts
            cd.store([0, 0], (acc + i).to(cd.dtype))
        elif MODE == "shifted":  # overlapping: the order counts
            cd.store([i * 3, 0], (acc + i).to(cd.dtype))
        elif MODE == "in front": # the same, some of it by pointers
            cd.store([i * 3 - n, 0], (acc + i).to(cd.dtype))
        elif MODE == "two":     # two stores with buffers in common, neighbours
            cd.store([2 * i * BM, 0], (acc + i).to(cd.dtype))
            cd.store([(2 * i + 1) * BM, 0], (acc - i).to(cd.dtype))
        elif MODE == "chain":   # the second is the first of the next iteration
            cd.store([i * BM, 0], (acc + i).to(cd.dtype))
            cd.store([i * BM + BM, 0], (acc - i).to(cd.dtype))
        elif MODE == "read":    # what was stored is read again, by other threads
            cd.store([0, 0], (acc + i).to(cd.dtype))
            acc += tl.trans(tl.load(c + cols).to(tl.float32))
        elif MODE == "copied":  # and by a descriptor
            cd.store([0, 0], (acc + i).to(cd.dtype))
            acc += tl.trans(cd.load([0, 0]).to(tl.float32))
        elif MODE == "over":    # stored by pointers before
            tl.store(c + cols, tl.trans(acc * 2).to(cd.dtype))
            cd.store([0, 0], (acc + i).to(cd.dtype))
        elif MODE == "sum":     # memory for a reduction in between
            cd.store([i * BM, 0], (acc + tl.sum(acc, axis=0)[None, :] + tl.sum(acc, axis=1)[:, None]).to(cd.dtype))
        elif MODE == "branch":
            if i % 2:
                cd.store([0, 0], (acc + i).to(cd.dtype))
            else:
                tl.atomic_add(x, 1)
            acc += tl.sum(acc, axis=0)[None, :]
        else:                   # reductions and stores of the same bytes
            cd.store([0, 0], acc.to(cd.dtype))
            cd.atomic_add([0, 0], acc.to(cd.dtype))
            cd.atomic_add([0, 0], acc.to(cd.dtype))
            acc += 1


def looped(mode, tile, c, n):
    bm, bn = tile.shape
    acc = tile.copy()
    for i in range(n):
        if mode == "same":
            put(c, acc + i, 0, 0)
        elif mode == "shifted":
            put(c, acc + i, i * 3, 0)
        elif mode == "in front":
            put(c, acc + i, i * 3 - n, 0)
        elif mode == "two":
            put(c, acc + i, 2 * i * bm, 0)
            put(c, acc - i, (2 * i + 1) * bm, 0)
        elif mode == "chain":
            put(c, acc + i, i * bm, 0)
            put(c, acc - i, i * bm + bm, 0)
        elif mode in ("read", "copied"):
            put(c, acc + i, 0, 0)
            acc = acc + c[:bm, :bn].T
        elif mode == "over":
            put(c, acc + i, 0, 0)
        elif mode == "sum":
            put(c, acc + acc.sum(0)[None, :] + acc.sum(1)[:, None], i * bm, 0)
        elif mode == "branch":
            if i % 2:
                put(c, acc + i, 0, 0)
            acc = acc + acc.sum(0)[None, :]
        else:
            put(c, acc * 3, 0, 0)
            acc = acc + 1


@pytest.mark.parametrize("mode", ["same", "shifted", "in front", "two", "chain", "read", "copied", "over", "sum", "branch", "reduce"])
@pytest.mark.parametrize("size, warps", [(64, 4), (32, 2), (128, 8)])
def test_stores_in_order(dev, mode, size, warps):
    a, b, tile = operands(size, size)
    n = 3
    c = np.zeros((2 * n * size + 5, size), np.float32)
    expected = c.copy()
    looped(mode, tile, expected, n)
    x = np.zeros(1, np.int32)
    dev(store_in_loops, (1,), a, b, c, x, c.shape[0], size, n, size, size, 16, mode, num_warps=warps)
    np.testing.assert_allclose(c, expected, rtol=1e-5)


@tegula.jit
def turned(a, b, START: tl.constexpr, ADD: tl.constexpr):
    """The block of a at START in every dimension with its dimensions reversed, stored to b there."""
    RANK: tl.constexpr = len(a.block_shape)
    all: tl.constexpr = (START, START, START, START, START)
    order: tl.constexpr = (4, 3, 2, 1, 0)
    x = a.load(all[:RANK])
    if RANK == 1:
        y = tl.cumsum(x, 0)
    else:
        y = x.permute(order[5 - RANK:])
    if ADD:
        b.atomic_add(all[:RANK], y)
    else:
        b.store(all[:RANK], y)


TURNED = [(16,), (2048,), (8, 8), (16, 64), (8, 4, 32), (8, 2, 4, 16), (8, 2, 4, 2, 8), (512, 8), (8, 512)]


@pytest.mark.parametrize("add", [False, True], ids=["store", "add"])
@pytest.mark.parametrize("block", TURNED, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("t", ["float32", "int32", "float16"])
def test_turned_blocks(dev, block, add, t):
    t = d(t)
    shape = tuple((b + 15) // 16 * 16 + 16 for b in block) if len(block) < 5 else (16, 4, 6, 4, 16)
    x = (np.arange(np.prod(shape)) % 13 - 6).reshape(shape).astype(t.np)
    for start in [0, 16, -16, 4]:  # the last by pointers
        y = (np.arange(np.prod(shape)) % 7).reshape(shape[::-1]).astype(t.np)
        expected = y.copy()
        piece = window(x, (start,) * len(block), block)
        piece = np.cumsum(piece, dtype=t.np) if len(block) == 1 else piece.T
        inside = [slice(max(0, start), max(0, min(n, start + b))) for n, b in zip(shape[::-1], block[::-1])]
        part = piece[tuple(slice(s.start - start, s.stop - start) for s in inside)]
        expected[tuple(inside)] = expected[tuple(inside)] * add + part
        dev(turned, (1,), TensorDescriptor.from_tensor(x, list(block)), TensorDescriptor.from_tensor(y, list(block[::-1])), start, add)
        assert_same(y, expected)


@tegula.jit
def many(xs, ys, M, B: tl.constexpr, AGAIN: tl.constexpr):
    for i in tl.static_range(len(xs)):
        x = tl.make_tensor_descriptor(xs[i], [M, B], [B, 1], [B, B])
        y = tl.make_tensor_descriptor(ys[i], [M, B], [B, 1], [B, B])
        for j in tl.static_range(AGAIN):
            y.store([j * B, 0], x.load([j * B, 0]).T)


@pytest.mark.parametrize("tensors, again", [(3, 8), (20, 1)])
def test_more_descriptors_than_a_launch_has_maps(dev, tensors, again):
    b = 32
    xs = tuple(np.arange(again * b * b, dtype=np.float32).reshape(-1, b) * (i + 1) for i in range(tensors))
    ys = tuple(np.zeros_like(x) for x in xs)
    dev(many, (1,), xs, ys, again * b, b, again)
    for x, y in zip(xs, ys):
        assert_same(y, np.concatenate([x[j * b:(j + 1) * b].T for j in range(again)]))


@tegula.jit
def flat_operands(a, b, c, B: tl.constexpr):
    x = tl.make_tensor_descriptor(a, [B * B], [1], [B * B]).load([0]).reshape(B, B)
    y = tl.make_tensor_descriptor(b, [B // 4, B * 4], [B * 4, 1], [B // 4, B * 4]).load([0, 0]).reshape(B, B)
    tl.make_tensor_descriptor(c, [B, B], [B, 1], [B, B]).store([0, 0], tl.dot(x, y))


@pytest.mark.parametrize("b", [16, 64])
def test_operands_of_dots_from_other_shapes(dev, b):
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-4, 4, (b, b)).astype(np.float16) for _ in range(2))
    c = np.zeros((b, b), np.float32)
    dev(flat_operands, (1,), x, y, c, b)
    assert_same(c, x.astype(np.float32) @ y.astype(np.float32))
