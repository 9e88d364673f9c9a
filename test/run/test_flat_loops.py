"""One loop over all tiles and steps: an `if` begins a tile, another ends it. Such loops are pipelined: the branch that begins a tile is taken ahead, and sums are
waited for where the branch that ends it reads them. §1.8, §3.3, §3.5."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d

pytestmark = pytest.mark.section("1.8 for")


def integers(shape, seed, dtype="float16"):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(d(dtype).np)


@tegula.jit
def tiles(a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, COPY: tl.constexpr, RESET: tl.constexpr,
          OUT: tl.constexpr):
    """c = a b^T; program i has the tiles i, i + PROGRAMS, ..."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    steps, columns = tl.cdiv(K, BK), tl.cdiv(N, BN)
    total = tl.cdiv(M, BM) * columns
    tile = tl.program_id(0) - PROGRAMS
    mine = total // PROGRAMS
    if tl.program_id(0) < total % PROGRAMS:
        mine += 1
    k, m, n = -1, 0, 0
    depth = tl.arange(0, BK)
    rows, cols = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, steps * mine):
        k = tl.where(k == steps - 1, 0, k + 1)
        if k == 0:
            tile += PROGRAMS
            m, n = tile // columns, tile % columns
            rows, cols = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
            if RESET == "begin":
                acc = tl.zeros([BM, BN], tl.float32)
        if COPY == "tma":
            acc = tl.dot(ad.load([m * BM, k * BK]), bd.load([n * BN, k * BK]).T, acc)
        else:
            inside = k * BK + depth < K
            x = tl.load(a + rows[:, None] * K + (k * BK + depth)[None, :], (rows < M)[:, None] & inside[None, :], 0)
            y = tl.load(b + cols[None, :] * K + (k * BK + depth)[:, None], (cols < N)[None, :] & inside[:, None], 0)
            acc = tl.dot(x, y, acc)
        if k == steps - 1:
            if OUT == "tma":
                cd.store([m * BM, n * BN], acc)
            elif OUT == "sum":
                tl.atomic_add(c + (m * BM + tl.arange(0, BM))[:, None] * N + (n * BN + tl.arange(0, BN))[None, :], acc,
                              (m * BM + tl.arange(0, BM) < M)[:, None] & (n * BN + tl.arange(0, BN) < N)[None, :], sem="relaxed")
            else:
                tl.store(c + rows[:, None] * N + cols[None, :], acc, (rows < M)[:, None] & (cols < N)[None, :])
            if RESET == "end":
                acc = tl.zeros([BM, BN], tl.float32)


def check_tiles(dev, m, n, k, programs, block, copy, reset, out, dtype="float16", **options):
    a, b = integers((m, k), k, dtype), integers((n, k), m + n, dtype)
    c = np.zeros((m, n), np.float32)
    dev(tiles, (programs,), a, b, c, m, n, k, programs, *block, copy, reset, out, **options)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32).T)


# Programs without a tile; tiles of fewer steps than there are stages; edges.
@pytest.mark.parametrize("copy, out", [("cp.async", "store"), ("tma", "store"), ("tma", "tma"), ("cp.async", "sum")])
@pytest.mark.parametrize("m, n, k, programs", [(128, 128, 64, 4), (64, 64, 32, 2), (128, 192, 96, 4), (120, 72, 168, 3), (64, 192, 64, 1)])
@pytest.mark.parametrize("reset", ["begin", "end"])
@pytest.mark.parametrize("warps, stages", [(4, 2), (4, 3), (8, 4)])
def test_tiles(dev, copy, out, m, n, k, programs, reset, warps, stages):
    check_tiles(dev, m, n, k, programs, (64, 64, 32), copy, reset, out, num_warps=warps, num_stages=stages)


@pytest.mark.parametrize("copy", ["cp.async", "tma"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float8e5"])
def test_types_of_operands(dev, copy, dtype):
    check_tiles(dev, 128, 192, 160, 2, (64, 64, 64), copy, "end", "store", dtype, num_warps=4, num_stages=3)


# Rings that take nearly all of shared memory: the exchange of the result takes turns in what is left.
@pytest.mark.parametrize("block, warps, stages", [((128, 256, 64), 8, 3), ((128, 128, 64), 4, 4), ((128, 128, 64), 8, 5)])
def test_large_tiles(dev, block, warps, stages):
    check_tiles(dev, 2 * block[0], block[1], 4 * block[2], 1, block, "cp.async", "end", "store", num_warps=warps, num_stages=stages)


@pytest.mark.parametrize("copy, reset", [("cp.async", "end"), ("cp.async", "begin"), ("tma", "end")])
@pytest.mark.parametrize("block, warps, stages", [((128, 256, 64), 8, 3), ((64, 128, 64), 4, 4)])
def test_they_are_pipelined(copy, reset, block, warps, stages):
    """As deep as they were asked to be, though the exchange of the result wants memory of its own, and no second block will share the SM."""
    a, c = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)
    k = tiles.warmup(a, a, c, 256, 256, 256, 1, *block, copy, reset, "store", grid=(1,), device="sim", num_warps=warps, num_stages=stages).compile_for("sm_90a")
    assert [r.kind for r in k.remarks if r.kind in ("notPipelined", "fewerStages", "notCopiedAhead")] == []
    # Sums go on over the end of an iteration, and are waited for where a tile ends.
    assert len(re.findall(r"wgmma\.wait_group\.sync\.aligned [1-9]", k.asm["ptx"])) == 1
    if copy == "cp.async":  # Addresses are sums: the products of a tile's rows are carried.
        copies = re.search(r" dot (?:(?! dot ).)*? async_commit", k.asm["gpu"], re.S)[0]
        assert copies.count(" async_copy ") == 2 and not re.search(r"= mul .*: tensor<", copies)


@tegula.jit
def prefixes(a, b, c, K, EVERY, BM: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr):
    """Sums of products that are looked at, or replaced, on the way."""
    rows, depth = tl.arange(0, BM), tl.arange(0, BK)
    acc, other = tl.zeros([BM, BM], tl.float32), tl.zeros([BM, BM], tl.float32)
    at = c + rows[:, None] * BM + rows[None, :]
    for k in range(0, K):
        x = tl.load(a + rows[:, None] * (K * BK) + (k * BK + depth)[None, :])
        y = tl.load(b + rows[None, :] * (K * BK) + (k * BK + depth)[:, None])
        acc = tl.dot(x, y, acc)
        if KIND == "two":
            other = tl.dot(tl.load(b + rows[:, None] * (K * BK) + (k * BK + depth)[None, :]), y, other)
        if k % EVERY == EVERY - 1:
            if KIND == "kept":  # goes on
                tl.store(at, acc)
            elif KIND == "dropped":  # begins anew, without a look
                acc = tl.zeros([BM, BM], tl.float32)
            elif KIND == "halved":  # goes on as something else
                acc *= 0.5
            elif KIND == "two":
                tl.store(at, acc + other)
                acc = tl.zeros([BM, BM], tl.float32)
            at += BM * BM
        elif KIND == "else":  # both sides look
            acc += 1
    if KIND != "kept":
        tl.store(c + rows[:, None] * BM + rows[None, :] + (K // EVERY) * BM * BM, acc + other)


@pytest.mark.parametrize("kind", ["kept", "dropped", "halved", "two", "else"])
@pytest.mark.parametrize("steps, every", [(1, 2), (5, 2), (6, 3), (4, 1)])
@pytest.mark.parametrize("stages", [2, 3])
def test_prefixes(dev, kind, steps, every, stages):
    bm, bk = 64, 32
    a, b = integers((bm, steps * bk), steps), integers((bm, steps * bk), every)
    c, expected = (np.full((steps // every + 1, bm, bm), 7, np.float32) for _ in range(2))
    acc, other = np.zeros((2, bm, bm), np.float32)
    for k in range(steps):
        x, y = (v[:, k * bk:(k + 1) * bk].astype(np.float32) for v in (a, b))
        acc = acc + x @ y.T
        other = other + (y @ y.T if kind == "two" else 0)
        if k % every == every - 1:
            if kind in ("kept", "two"):
                expected[k // every] = acc + other
            acc = acc * {"dropped": 0, "two": 0, "halved": 0.5}.get(kind, 1)
        elif kind == "else":
            acc = acc + 1
    if kind != "kept":
        expected[steps // every] = acc + other
    dev(prefixes, (1,), a, b, c, steps, every, bm, bk, kind, num_warps=4, num_stages=stages)
    assert_same(c, expected)


@tegula.jit
def chain(a, K, EVERY, BM: tl.constexpr):
    """Steps that read what branches of earlier ones have written."""
    rows = tl.arange(0, BM)
    at = rows[:, None] * BM + rows[None, :]
    for k in range(0, K):
        x = tl.load(a + k * BM * BM + at)
        y = tl.dot(x, x).to(tl.float16)
        if k % EVERY == 0:
            tl.store(a + (k + 1) * BM * BM + at, y)


@pytest.mark.parametrize("every", [1, 2])
def test_branches_that_store_what_is_loaded(dev, every):
    bm, steps = 64, 5
    a = np.zeros((steps + 1, bm, bm), np.float16)
    a[:] = np.eye(bm)[np.random.default_rng(1).permutation(bm)]
    expected = a.astype(np.float32)
    for k in range(0, steps, every):
        expected[k + 1] = expected[k] @ expected[k]
    dev(chain, (1,), a, steps, every, bm, num_warps=4, num_stages=3)
    assert_same(a, expected.astype(np.float16))


@tegula.jit
def experts(a, b, c, order, K, STEPS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """The branch that begins a tile loads which one it is."""
    rows, depth = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros([BM, BM], tl.float32)
    block, step, t = 0, -1, -1
    for _ in range(0, K):
        step = tl.where(step == STEPS - 1, 0, step + 1)
        if step == 0:
            t += 1
            block = tl.load(order + t)
        x = tl.load(a + rows[:, None] * (STEPS * BK) + (step * BK + depth)[None, :])
        y = tl.load(b + block * BM * STEPS * BK + rows[None, :] * (STEPS * BK) + (step * BK + depth)[:, None])
        acc = tl.dot(x, y, acc)
        if step == STEPS - 1:
            tl.store(c + t * BM * BM + rows[:, None] * BM + rows[None, :], acc)
            acc = tl.zeros([BM, BM], tl.float32)


def test_branches_that_load(dev):
    bm, bk, steps, order = 64, 32, 3, np.array([2, 0, 3, 1], np.int32)
    a, b = integers((bm, steps * bk), 1), integers((4, bm, steps * bk), 2)
    c = np.zeros((4, bm, bm), np.float32)
    dev(experts, (1,), a, b, c, order, 4 * steps, steps, bm, bk, num_warps=4, num_stages=3)
    assert_same(c, a.astype(np.float32) @ b[order].astype(np.float32).transpose(0, 2, 1))


@tegula.jit
def forks(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr):
    """A running sum of products that each step adds another product to, on the side."""
    rows, depth = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros([BM, BM], tl.float32)
    at = c + rows[:, None] * BM + rows[None, :]
    for k in range(0, K):
        x = tl.load(a + rows[:, None] * (K * BK) + (k * BK + depth)[None, :])
        y = tl.load(b + rows[None, :] * (K * BK) + (k * BK + depth)[:, None])
        acc = tl.dot(tl.load(b + rows[:, None] * (K * BK) + (k * BK + depth)[None, :]), y, acc)
        tl.store(at, tl.dot(x, y, acc))
        at += BM * BM
    tl.store(at, acc)


@pytest.mark.parametrize("steps, stages, warps", [(1, 2, 4), (4, 2, 4), (4, 3, 8), (6, 4, 4)])
def test_sums_that_go_on_and_are_added_to(dev, steps, stages, warps):
    """Two dots begin with one sum: the second one's registers are a copy of it, which has to be there."""
    bm, bk = 64, 32
    a, b = integers((bm, steps * bk), steps), integers((bm, steps * bk), stages)
    c, expected = (np.full((steps + 1, bm, bm), 7, np.float32) for _ in range(2))
    acc = np.zeros((bm, bm), np.float32)
    for k in range(steps):
        x, y = (v[:, k * bk:(k + 1) * bk].astype(np.float32) for v in (a, b))
        acc = acc + y @ y.T
        expected[k] = acc + x @ y.T
    expected[steps] = acc
    dev(forks, (1,), a, b, c, steps, bm, bk, num_warps=warps, num_stages=stages)
    assert_same(c, expected)
