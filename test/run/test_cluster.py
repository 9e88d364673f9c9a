"""num_ctas > 1: the CTAs of a cluster share the work of a program. Other devices ignore it. §3 options of a launch."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close, assert_same

pytestmark = [pytest.mark.section("launch options"), pytest.mark.parametrize("ctas", [2, 4])]


def integers(shape, seed, t=np.float16):
    """Products and their sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(t)


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask, other=1.0), mask)


@pytest.mark.parametrize("block, n", [(1024, 3000), (64, 200), (2, 5), (1, 3)])
def test_add(dev, ctas, block, n):
    x, y, out = integers(n, 0, np.float32), integers(n, 1, np.float32), np.full(n + 8, 9, np.float32)
    dev(add, (-(-n // block),), x, y, out, n, block, num_ctas=ctas)
    assert_same(out, np.concatenate([x + y, np.full(8, 9, np.float32)]))


@tegula.jit
def softmax_row(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, e / tl.sum(e, 0), at < n)


@tegula.jit
def softmax_rows(x, out, rows, n, R: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, BLOCK)
    mask = (row < rows)[:, None] & (at < n)[None, :]
    where = row[:, None] * n + at[None, :]
    v = tl.load(x + where, mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(out + where, e / tl.sum(e, 1)[:, None], mask)


def expected_softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("n", [1000, 70])
def test_softmax_of_a_row(dev, ctas, n):
    x = np.random.default_rng(0).standard_normal((3, n)).astype(np.float32)
    out = np.zeros_like(x)
    dev(softmax_row, (3,), x, out, n, 1024, num_ctas=ctas)
    assert_close(out, expected_softmax(x), rtol=1e-5)


@pytest.mark.parametrize("r", [16, 4, 2])
def test_softmax_of_rows(dev, ctas, r):
    x = np.random.default_rng(0).standard_normal((19, 100)).astype(np.float32)
    out = np.zeros_like(x)
    dev(softmax_rows, (-(-19 // r),), x, out, 19, 100, r, 128, num_ctas=ctas)
    assert_close(out, expected_softmax(x), rtol=1e-5)


@tegula.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ap, bp = a + (m % M)[:, None] * K + k[None, :], b + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bp, k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK
        bp += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (200, 136, 80)])
@pytest.mark.parametrize("block, warps", [((128, 64, 32), 4), ((64, 128, 32), 4), ((256, 64, 16), 8), ((32, 32, 32), 4), ((16, 16, 32), 4)])
def test_matmul(dev, ctas, m, n, k, block, warps):
    a, b, c = integers((m, k), 0), integers((k, n), 1), np.full((m, n), 7, np.float16)
    dev(matmul, (-(-m // block[0]), -(-n // block[1])), a, b, c, m, n, k, *block, num_ctas=ctas, num_warps=warps)
    assert_same(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@tegula.jit
def tiles(a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, PROGRAMS, flatten=True):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(ad.load([m, k]), bd.load([n, k]).T, acc)
        cd.store([m, n], acc.to(cd.dtype))


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (200, 136, 80), (448, 64, 256)])
@pytest.mark.parametrize("block, warps, stages", [((128, 64, 32), 4, 3), ((64, 128, 32), 4, 2), ((256, 64, 32), 8, 3), ((32, 32, 64), 4, 3)])
def test_persistent_matmul(dev, ctas, m, n, k, block, warps, stages):
    a, b = integers((m, k), 0), integers((n, k), 1)
    for programs in 1, 3:
        c = np.full((m, n), 7, np.float16)
        dev(tiles, (programs,), a, b, c, m, n, k, programs, *block, num_ctas=ctas, num_warps=warps, num_stages=stages)
        assert_same(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))


@tegula.jit
def stored_between(a, b, c, sums, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A plain store between two loops of a producer; what is computed for the second one takes a ring of its own."""
    ad = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    acc = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    tl.store(sums + tl.arange(0, BM), tl.sum(acc, 1))
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([0, k]), (bd.load([0, k]) * 2).to(tl.float16).T, acc)
    tl.store(c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)


def test_stores_between_loops(dev, ctas):
    a, b, c, sums = integers((256, 200), 0), integers((64, 200), 1), np.zeros((256, 64), np.float32), np.zeros(256, np.float32)
    dev(stored_between, (1,), a, b, c, sums, 200, 256, 64, 32, num_ctas=ctas)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    assert_same(c, product * 3)
    assert_same(sums, product.sum(1))


@tegula.jit
def between(a, b, c, extra, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WHAT: tl.constexpr):
    """CTAs have to meet between, or inside, loops that a producer would serve. `extra`: zeros, and a copy of c."""
    ad = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [BM, BN], [BN, 1], [BM, BN])
    n = K
    if WHAT == "while":
        while n > 0:
            n -= 7
    acc = tl.zeros([BM, BN], tl.float32)
    for i in tl.range(0, 2, warp_specialize=True):
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
        if WHAT == "copied":  # to what is stored
            acc += cd.load([0, 0]).to(tl.float32)
        elif WHAT == "view":  # the same memory as another tensor
            tl.make_tensor_descriptor(c, [BM // 2, 2 * BN], [2 * BN, 1], [BM, BN]).store([0, 0], acc.to(tl.float16))
        elif WHAT == "while":
            acc += tl.load(extra + tl.arange(0, BN))[None, :] * n
        elif WHAT == "assume":
            tl.assume(i < 2)
        cd.store([0, 0], acc.to(tl.float16))
    if K > 40:
        if WHAT == "sums":
            acc += tl.sum(acc, 0)[None, :] * 0
        elif WHAT == "branch":
            tl.store(extra + tl.arange(0, BM), tl.sum(acc, 1))
            acc += tl.load(extra + tl.arange(0, BM))[:, None] * 0
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    tl.store(extra + 256 + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)


@pytest.mark.parametrize("what", ["copied", "view", "while", "assume", "sums", "branch"])
def test_meeting_between_loops(dev, ctas, what):
    bm, bn = 256, 64
    a, b, c, extra = integers((bm, 200), 0), integers((bn, 200), 1), np.zeros((bm, bn), np.float16), np.zeros(256 + bm * bn, np.float32)
    dev(between, (1,), a, b, c, extra, 200, bm, bn, 32, what, num_ctas=ctas)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    times = 2 if what == "copied" else 1
    assert_same(c, (product * times).astype(np.float16))
    assert_same(extra[256:].reshape(bm, bn), product * (times + 1))


@tegula.jit
def tile(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Descriptors of the host."""
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([tl.program_id(0) * BM, k]), b.load([k, 0]), acc)
    c.store([tl.program_id(0) * BM, 0], acc)


@pytest.mark.parametrize("bm", [128, 64])
def test_descriptors_of_the_host(dev, ctas, bm):
    a, b, c = integers((200, 72), 0), integers((72, 128), 1), np.zeros((200, 128), np.float32)
    at = lambda x, *block: tegula.tools.tensor_descriptor.TensorDescriptor.from_tensor(x, list(block))
    dev(tile, (-(-200 // bm),), at(a, bm, 32), at(b, 32, 128), at(c, bm, 128), 72, bm, 128, 32, num_ctas=ctas)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32))


@tegula.jit
def attention(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    top, total, acc = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for i in range(0, N, BN):
        s = tl.dot(x, tl.load(k + (i + n)[None, :] * D + d[:, None])) * 0.5
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - new[:, None]), tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v + (i + n)[:, None] * D + d[None, :]), acc * scale[:, None])
        top = new
    tl.store(out + m[:, None] * D + d[None, :], acc / total[:, None])


@pytest.mark.parametrize("bm, d", [(128, 64), (64, 32), (64, 64)])
def test_attention(dev, ctas, bm, d):
    q, k, v = (np.random.default_rng(i).standard_normal((128, d)).astype(np.float16) for i in range(3))
    out = np.zeros((128, d), np.float32)
    dev(attention, (128 // bm,), q, k, v, out, 128, bm, 64, d, num_ctas=ctas)
    s = q.astype(np.float64) @ k.astype(np.float64).T * 0.5
    p = np.exp(s - s.max(1, keepdims=True))
    assert_close(out, (p / p.sum(1, keepdims=True) @ v.astype(np.float64)).astype(np.float32), rtol=2e-2, atol=2e-3)


@tegula.jit
def atomics(x, bins, total, ticket, tickets, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, at < n, other=0)
    tl.atomic_add(bins + v, 1, at < n)
    tl.atomic_add(total, tl.sum(v, 0))
    mine = tl.atomic_add(ticket, 1)
    tl.store(tickets + mine, mine + tl.max(v, 0) * 0)


def test_atomics(dev, ctas):
    x = np.random.default_rng(0).integers(0, 16, 1000).astype(np.int32)
    bins, total, ticket, tickets = np.zeros(16, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(5, -1, np.int32)
    dev(atomics, (4,), x, bins, total, ticket, tickets, 1000, 256, num_ctas=ctas)
    assert_same(bins, np.bincount(x, minlength=16).astype(np.int32))
    assert (total[0], ticket[0], list(tickets)) == (x.sum(), 4, [0, 1, 2, 3, -1])


@tegula.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, 16), tl.histogram(tl.load(x + at, at < n, other=0), 16, mask=at < n))


def test_histogram(dev, ctas):
    x, out = np.random.default_rng(0).integers(0, 16, 1000).astype(np.int32), np.zeros(16, np.int32)
    dev(histogram, (1,), x, out, 1000, 1024, num_ctas=ctas)
    assert_same(out, np.bincount(x, minlength=16).astype(np.int32))


@tegula.jit
def order(x, sums, sorted_, last, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(v, 0))
    tl.store(sorted_ + at, tl.sort(v))
    tl.store(last + tl.program_id(0), tl.argmax(v, 0))


def test_scan_and_sort(dev, ctas):
    x = np.random.default_rng(0).permutation(512).astype(np.int32).reshape(2, 256)
    sums, out, last = np.zeros_like(x), np.zeros_like(x), np.zeros(2, np.int32)
    dev(order, (2,), x, sums, out, last, 256, num_ctas=ctas)
    assert_same(sums, np.cumsum(x, 1, dtype=np.int32))
    assert_same(out, np.sort(x, 1))
    assert_same(last, x.argmax(1).astype(np.int32))


@tegula.jit
def rows_and_columns(x, rows, columns, which, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + r[:, None] * C + c[None, :])
    tl.store(rows + r, tl.sum(v, 1))
    tl.store(columns + c, tl.sum(v, 0))
    tl.store(which + c, tl.argmin(v, 0))


@pytest.mark.parametrize("r, c", [(32, 64), (4, 256), (64, 8)])
def test_sums_along_both_axes(dev, ctas, r, c):
    x = np.random.default_rng(0).permutation(r * c).astype(np.int32).reshape(r, c)
    rows, columns, which = np.zeros(r, np.int32), np.zeros(c, np.int32), np.zeros(c, np.int32)
    dev(rows_and_columns, (1,), x, rows, columns, which, r, c, num_ctas=ctas)
    assert_same(rows, x.sum(1, dtype=np.int32))
    assert_same(columns, x.sum(0, dtype=np.int32))
    assert_same(which, x.argmin(0).astype(np.int32))


@tegula.jit
def shapes(x, out, BLOCK: tl.constexpr):
    """Renaming of coordinates: pairs, transposition, reshape, gather."""
    v = tl.load(x + tl.arange(0, BLOCK)[:, None] * 8 + tl.arange(0, 8)[None, :])
    a, b = tl.split(v.reshape(BLOCK, 4, 2))
    w = tl.join(b, a).reshape(BLOCK, 8)
    w = tl.gather(w, tl.broadcast_to((7 - tl.arange(0, 8))[None, :], [BLOCK, 8]), axis=1)
    w = tl.trans(tl.trans(w) * 2 + tl.arange(0, BLOCK)[None, :])
    tl.store(out + tl.arange(0, BLOCK * 8), w.reshape(BLOCK * 8))


@pytest.mark.parametrize("block", [64, 8, 2])
def test_shapes(dev, ctas, block):
    x = np.arange(block * 8, dtype=np.int32).reshape(block, 8)
    out = np.zeros(block * 8, np.int32)
    dev(shapes, (1,), x, out, block, num_ctas=ctas)
    swapped = x.reshape(block, 4, 2)[..., ::-1].reshape(block, 8)[:, ::-1]
    assert_same(out, (swapped * 2 + np.arange(block, dtype=np.int32)[:, None]).reshape(-1))


@tegula.jit
def phases(x, y, n, steps, BLOCK: tl.constexpr):
    """Every step reads what other CTAs wrote in the step before; the number of steps comes from memory."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    other = tl.program_id(0) * BLOCK + (tl.arange(0, BLOCK) + BLOCK // 2 + 1) % BLOCK
    count = tl.load(steps + tl.program_id(0))
    for i in range(count):
        v = tl.load(x + other)
        tl.debug_barrier()
        tl.store(x + at, v + 1)
        if i % 2 == 1:
            tl.store(y + tl.program_id(0), i)
    tl.store(steps + tl.program_id(0), -count)


def test_memory_between_ctas(dev, ctas):
    x, y, steps = np.arange(256, dtype=np.int32).reshape(2, 128).copy(), np.zeros(2, np.int32), np.array([5, 2], np.int32)
    expected = x.copy()
    for p in range(2):
        for _ in range(steps[p]):
            expected[p] = np.roll(expected[p], -65) + 1
    dev(phases, (2,), x, y, 128, steps, 128, num_ctas=ctas)
    assert_same(x, expected)
    assert (list(y), list(steps)) == ([3, 1], [-5, -2])


@tegula.jit
def in_place(x, scale, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    s = tl.load(scale)
    total = tl.sum(tl.load(x + at, at < n, other=0), 0)
    tl.store(x + at, tl.load(x + at, at < n) * s + total, at < n)
    tl.store(scale, total)
    tl.store(scale + 1 + tl.program_id(0), tl.load(scale) + 1)


def test_in_place(dev, ctas):
    x, scale = np.arange(100, dtype=np.int32), np.array([3, 0], np.int32)
    dev(in_place, (1,), x, scale, 100, 128, num_ctas=ctas)
    assert_same(x, np.arange(100, dtype=np.int32) * 3 + 4950)
    assert list(scale) == [4950, 4951]


@tegula.jit
def until(x, out, limit, BLOCK: tl.constexpr):
    """A loop whose end depends on what it computes."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    n = 0
    while tl.max(v, 0) < limit:
        v = v + v % 3 + 1
        n += 1
    tl.store(out + at, v)
    tl.store(out + BLOCK, n)


def test_while(dev, ctas):
    x, out = np.arange(64, dtype=np.int32), np.zeros(65, np.int32)
    dev(until, (1,), x, out, 100, 64, num_ctas=ctas)
    v, n = x.copy(), 0
    while v.max() < 100:
        v, n = v + v % 3 + 1, n + 1
    assert_same(out, np.append(v, n).astype(np.int32))


@tegula.jit
def tiles_by_pointers(a, b, c, sums, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """What the tiles of a program store has to keep its order: sums of a column are those of the last tile."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, PROGRAMS):
        m, n = tile // columns * BM + tl.arange(0, BM), tile % columns * BN + tl.arange(0, BN)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(ad.load([tile // columns * BM, k]), bd.load([tile % columns * BN, k]).T, acc)
        tl.store(c + m[:, None] * N + n[None, :], acc, (m < M)[:, None] & (n < N)[None, :])
        tl.store(sums + n, tl.sum(acc, 0), n < N)


@pytest.mark.parametrize("block", [(128, 64, 32), (32, 128, 32)])
def test_persistent_matmul_by_pointers(dev, ctas, block):
    a, b, c, sums = integers((200, 72), 0), integers((136, 72), 1), np.zeros((200, 136), np.float32), np.zeros(136, np.float32)
    dev(tiles_by_pointers, (1,), a, b, c, sums, 200, 136, 72, 1, *block, num_ctas=ctas)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    assert_same(c, expected)
    assert_same(sums, expected[199 // block[0] * block[0]:].sum(0))


@tegula.jit
def loops(a, b, c, M, N, K, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Producers: loops one after the other with the same tiles, one inside another, the last with others if K is long."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    acc = tl.zeros([BM, BN], tl.float32)
    for i in tl.range(0, steps, warp_specialize=True):
        for k in range(i * BK, K, BK):
            acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
        acc = acc - i
    if steps == 1:
        tl.store(c + tl.arange(0, BN), tl.sum(acc, 0))  # is overwritten
    for k in range(0, K - BK, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    if K > 100:
        wide = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, 2 * BK])
        ad2 = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, 2 * BK])
        for k in range(0, K, 2 * BK):
            acc += tl.dot(ad2.load([0, k]), wide.load([0, k]).T)
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@pytest.mark.parametrize("k", [16, 64, 200])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("bm, bn, warps", [(256, 64, 4), (64, 128, 4), (512, 32, 8)])
def test_loops_after_each_other(dev, ctas, k, steps, bm, bn, warps):
    bk = 32
    a, b, c = integers((bm, k), 2), integers((bn, k), 3), np.zeros((bm, bn), np.float32)
    part = lambda lo, hi: a[:, lo:hi].astype(np.float32) @ b[:, lo:hi].astype(np.float32).T
    expected = sum((part(i * bk, k) - i for i in range(steps)), np.zeros((bm, bn), np.float32)) + part(0, max(0, -(-(k - bk) // bk) * bk))
    dev(loops, (1,), a, b, c, bm, bn, tl.constexpr(k), steps, bm, bn, bk, num_warps=warps, num_ctas=ctas)
    assert_same(c, expected + part(0, k) if k > 100 else expected)


@tegula.jit
def attention_by_descriptors(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    dq, dk = tl.make_tensor_descriptor(q, [N, D], [D, 1], [BM, D]), tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    dv, do = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D]), tl.make_tensor_descriptor(out, [N, D], [D, 1], [BM, D])
    start = tl.program_id(0) * BM
    x = dq.load([start, 0])
    top, total, acc = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for n in range(0, N, BN):
        s = tl.dot(x, dk.load([n, 0]).T) * 0.5
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - new[:, None]), tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * scale[:, None])
        top = new
    do.store([start, 0], (acc / total[:, None]).to(tl.float16))


@pytest.mark.parametrize("bm, d, warps", [(256, 64, 4), (256, 64, 8), (64, 32, 4)])
def test_attention_by_descriptors(dev, ctas, bm, d, warps):
    n = 256
    q, k, v = (np.random.default_rng(i).standard_normal((n, d)).astype(np.float16) for i in range(3))
    out = np.zeros((n, d), np.float16)
    dev(attention_by_descriptors, (n // bm,), q, k, v, out, n, bm, 64, d, num_ctas=ctas, num_warps=warps)
    s = q.astype(np.float64) @ k.astype(np.float64).T * 0.5
    p = np.exp(s - s.max(1, keepdims=True))
    assert_close(out, (p / p.sum(1, keepdims=True) @ v.astype(np.float64)).astype(np.float16), rtol=2e-2, atol=4e-3)


@tegula.jit
def windows(x, out, N: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    # Each store begins half a tile further down: the rows that one CTA writes another one has written an iteration before, though no CTA writes one twice.
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    for i in range(N):
        at = (i * (R // 2) + rows)[:, None] * (C + 5) + i + columns[None, :]
        tl.store(out + at, tl.load(x + at) + i)


@tegula.jit
def windows_of_windows(x, out, N: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    first = rows * (C + 5)
    for k in range(2):
        for i in range(N):
            at = first[:, None] + i * (R // 2) * (C + 5) + i + columns[None, :]
            tl.store(out + at, tl.load(x + at) + i + k)
        first += R * (C + 5)


@pytest.mark.parametrize("kernel, times", [(windows, 1), (windows_of_windows, 2)])
def test_windows_that_other_ctas_wrote(dev, ctas, kernel, times):
    n, r, c = 3, 16, 16
    x = integers(r * 6 * (c + 5), 0, np.int32)
    out, expected = np.zeros_like(x), np.zeros_like(x)
    for k in range(times):
        for i in range(n):
            at = ((k * r + i * (r // 2) + np.arange(r))[:, None] * (c + 5) + i + np.arange(c)).ravel()
            expected[at] = x[at] + i + k
    dev(kernel, (1,), x, out, n, r, c, num_ctas=ctas)
    assert_same(out, expected)
