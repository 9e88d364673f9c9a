"""§3.5 dot: operands that are computed on the way: scaled along either axis by vectors that are loaded under masks, gathered, or reduced."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d

pytestmark = pytest.mark.section("3.5 dot")
TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "int8": np.int8}


@tegula.jit
def s_masked(g, i, n):
    return tl.load(g + i, mask=i < n, other=0)


@tegula.jit
def s_masked_other(g, i, n):
    return tl.load(g + i, mask=i < n, other=2)


@tegula.jit
def s_masked_by_data(g, i, n):
    """A mask that is no comparison of an index."""
    return tl.load(g + i, mask=tl.load(g + i) > 0, other=1)


@tegula.jit
def s_indexed(g, i, n):
    return tl.load(g + (tl.load(g + i).to(tl.int32) & 3), mask=i < n, other=1)


@tegula.jit
def s_gathered(g, i, n):
    return tl.gather(tl.load(g + i), i ^ 1, 0)


@tegula.jit
def s_wrapped(g, i, n):
    return tl.load(g + i % n)


def n_gather(g, n):
    i = np.arange(g.size)
    return {
        s_masked: np.where(i < n, g, 0),
        s_masked_other: np.where(i < n, g, 2),
        s_masked_by_data: np.where(g > 0, g, 1),
        s_indexed: np.where(i < n, g[g.astype(np.int32) & 3], 1),
        s_gathered: g[i ^ 1],
        s_wrapped: g[i % n],
    }


SCALES = [s_masked, s_masked_other, s_masked_by_data, s_indexed, s_gathered, s_wrapped]


@tegula.jit
def k_scaled(a, b, g, h, out, n, rows: tl.constexpr, columns: tl.constexpr, left: tl.constexpr, trans: tl.constexpr, M: tl.constexpr,
             N: tl.constexpr, K: tl.constexpr):
    """out = a @ b, one operand of it scaled along the rows, the columns, or both."""
    m = tl.arange(0, M)
    p = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    if trans:
        y = tl.load(b + k[:, None] + p[None, :] * K)
    else:
        y = tl.load(b + k[:, None] * N + p[None, :])
    if left:
        if rows is not None:
            x = x * rows(g, m, n)[:, None]
        if columns is not None:
            x = x * columns(h, k, n)[None, :]
    else:
        if rows is not None:
            y = y * rows(g, k, n)[:, None]
        if columns is not None:
            y = y * columns(h, p, n)[None, :]
    tl.store(out + m[:, None] * N + p[None, :], tl.dot(x, y))


def run(dev, t, rows, columns, left, trans, m, n, k, bound):
    r = np.random.default_rng(m + n + k)
    a, b = r.integers(-2, 3, (m, k)), r.integers(-2, 3, (k, n))
    p, q = (m, k) if left else (k, n)
    g, h = r.integers(-1, 3, p), r.integers(-1, 3, q)
    x = (a if left else b).copy()
    if rows:
        x = x * n_gather(g, bound)[rows][:, None]
    if columns:
        x = x * n_gather(h, bound)[columns][None, :]
    want = x @ b if left else a @ x
    t = TYPES[t]
    out = np.zeros((m, n), np.int32 if t is np.int8 else np.float32)
    stored = np.ascontiguousarray(b.T if trans else b).astype(t)
    dev(k_scaled, (1,), a.astype(t), stored, g.astype(t), h.astype(t), out, bound, rows, columns, left, trans, m, n, k)
    assert_same(out, want.astype(out.dtype))


@pytest.mark.parametrize("t", list(TYPES))
@pytest.mark.parametrize("scale", SCALES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("side", ["left rows", "left columns", "right rows", "right columns"])
@pytest.mark.parametrize("trans", [False, True])
def test_scaled_along_one_axis(dev, t, scale, side, trans):
    rows, columns = (scale, None) if "rows" in side else (None, scale)
    run(dev, t, rows, columns, "left" in side, trans, 32, 32, 32, 13)


@pytest.mark.parametrize("t", list(TYPES))
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("m, n, k", [(16, 16, 16), (16, 64, 32), (64, 16, 64), (32, 32, 128)])
def test_scaled_along_both_axes(dev, t, left, m, n, k):
    run(dev, t, s_masked, s_masked_other, left, True, m, n, k, 5)
    run(dev, t, s_indexed, s_gathered, left, False, m, n, k, 5)


@tegula.jit
def k_batch(a, b, g, out, n, B: tl.constexpr, S: tl.constexpr):
    i = tl.arange(0, B)[:, None, None] * S * S + tl.arange(0, S)[None, :, None] * S + tl.arange(0, S)[None, None, :]
    r = tl.arange(0, B)[:, None] * S + tl.arange(0, S)[None, :]
    scale = tl.load(g + r, mask=r % S < n, other=0)
    x = tl.load(a + i)
    y = tl.load(b + tl.permute(i, [0, 2, 1])) * scale[:, :, None]
    tl.store(out + i, tl.dot(x, y))


@pytest.mark.parametrize("t", ["float32", "bfloat16"])
@pytest.mark.parametrize("s", [16, 32])
def test_scaled_batch(dev, t, s):
    r = np.random.default_rng(s)
    a, b, g = r.integers(-2, 3, (4, s, s)), r.integers(-2, 3, (4, s, s)), r.integers(-1, 3, (4, s))
    out = np.zeros((4, s, s), np.float32)
    dev(k_batch, (1,), *(v.astype(TYPES[t]) for v in (a, b, g)), out, 7, 4, s)
    y = b.transpose(0, 2, 1) * np.where(np.arange(s) < 7, g, 0)[:, :, None]
    assert_same(out, (a @ y).astype(np.float32))


@tegula.jit
def k_nested(a, b, g, out, n, rounds, S: tl.constexpr):
    """The masked vector changes in a loop, so that it is loaded in front of an inner one of the packing."""
    i = tl.arange(0, S)
    x = tl.load(a + i[:, None] * S + i[None, :])
    y = tl.load(b + i[:, None] + i[None, :] * S)
    acc = tl.zeros([S, S], tl.float32)
    for r in range(rounds):
        acc += tl.dot(x, y * tl.load(g + r * S + i, mask=i < n - r, other=3)[:, None])
    tl.store(out + i[:, None] * S + i[None, :], acc)


@pytest.mark.parametrize("s", [32, 128])
def test_scaled_in_a_loop(dev, s):
    r = np.random.default_rng(s)
    a, b, g = r.integers(-2, 3, (s, s)), r.integers(-2, 3, (s, s)), r.integers(-1, 3, (3, s))
    out = np.zeros((s, s), np.float32)
    dev(k_nested, (1,), *(v.astype(np.float32) for v in (a, b, g)), out, 9, 3, s)
    want = sum(a @ (b.T * np.where(np.arange(s) < 9 - k, g[k], 3)[:, None]) for k in range(3))
    assert_same(out, want.astype(np.float32))


@tegula.jit
def k_bounded(a, b, c, out, K: tl.constexpr, N: tl.constexpr):
    r, k = tl.arange(0, 64), tl.arange(0, K)
    x, y = tl.load(a + r[:, None] * K + k[None, :]), tl.load(b + k[:, None] * 64 + r[None, :])
    acc = tl.load(c + r[:, None] * 64 + r[None, :])
    tl.store(out + r[:, None] * 64 + r[None, :], tl.dot(x, y, acc, max_num_imprecise_acc=N))


@pytest.mark.parametrize("n", [0, 128])
@pytest.mark.parametrize("t", ["float8e4nv", "float8e5"])
def test_sums_of_fp8_that_keep_their_bits(dev, t, n):
    """Tensor cores keep 14 bits of a sum of fp8 numbers: 2^14 + 0.25 would be 2^14. A number below K counts as K."""
    a, b = np.zeros((64, 128)), np.zeros((128, 64))
    a[:, ::32], b[::32] = 0.25, 0.25
    c = np.full((64, 64), 2.0**14, np.float32)
    out = np.zeros_like(c)
    dev(k_bounded, (1,), a.astype(d(t).np), b.astype(d(t).np), c, out, 128, n)
    assert (out == 2.0**14 + 0.25).all()


@tegula.jit
def k_hinted(a, b, out, K, BK: tl.constexpr, DESCRIPTORS: tl.constexpr):
    r, c = tl.arange(0, 64), tl.arange(0, BK)
    ad = tl.make_tensor_descriptor(a, [64, K], [K, 1], [64, BK])
    bd = tl.make_tensor_descriptor(b, [K, 64], [64, 1], [BK, 64])
    acc = tl.zeros([64, 64], tl.float32)
    for k in tl.range(0, K, BK, num_stages=3, loop_unroll_factor=2, flatten=True, disallow_acc_multi_buffer=True):
        if DESCRIPTORS:
            x, y = ad.load([0, k]), bd.load([k, 0])
        else:
            x, y = tl.load(a + r[:, None] * K + k + c[None, :], cache_modifier=".cg"), tl.load(b + (k + c[:, None]) * 64 + r[None, :])
        acc = tl.dot(tl.multiple_of(x, [1, 1]), tl.max_constancy(y, [1, 1]), acc, max_num_imprecise_acc=0)
    tl.store(out + r[:, None] * 64 + r[None, :], acc)


@pytest.mark.parametrize("descriptors", [False, True])
def test_hints_on_loads_that_become_copies(dev, descriptors):
    """A copy to shared memory has no result that a hint could speak of."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 128), (128, 64)))
    out = np.zeros((64, 64), np.float32)
    dev(k_hinted, (1,), a, b, out, 128, 32, descriptors)
    assert_same(out, a.astype(np.float32) @ b.astype(np.float32))


@tegula.jit
def bytes_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORM: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + j[None, :])
    if FORM == "and":
        b = (b & 127).to(tl.int8)
    elif FORM == "shift":
        b = (b >> 1).to(tl.int8)
    elif FORM == "where":
        b = tl.where(b < 128, b.to(tl.int32) & 0x7F, 127).to(tl.int8)
    elif FORM == "halves":
        pairs = tl.join((b & 15).to(tl.int8), (b >> 4).to(tl.int8))
        b = tl.sum(pairs.to(tl.int32), 2).to(tl.int8)
    elif FORM == "any":
        b = b.to(tl.int8, bitcast=True)
    tl.store(c_ptr + i[:, None] * N + j[None, :], tl.dot(a, b, out_dtype=tl.int32))


@pytest.mark.parametrize("form", ["and", "shift", "where", "halves", "any"])
@pytest.mark.parametrize("m,n,k", [(16, 32, 32), (16, 64, 128)])
def test_bytes_without_a_sign(dev, form, m, n, k):
    """B that cannot be negative is taken as unsigned where that is the cheaper instruction; its sums of two products are largest at -128 * 127."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (m, k), dtype=np.int8), rng.integers(0, 256, (k, n), dtype=np.uint8)
    a[:2], b[:, :2] = -128, 255
    c = np.zeros((m, n), np.int32)
    dev(bytes_kernel, (1,), a, b, c, M=m, N=n, K=k, FORM=form)
    wide = {"and": b & 127, "shift": b >> 1, "where": np.where(b < 128, b, 127), "halves": (b & 15) + (b >> 4), "any": b.view(np.int8)}[form].astype(np.int64)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ wide)


@tegula.jit
def k_turned(x, y, loaded, product, stored, rows, columns, stride, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr, BY_DATA: tl.constexpr):
    i, j, m = tl.arange(0, N), tl.arange(0, K), tl.arange(0, 16)
    at = i[:, None] * stride + j[None, :]
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    if BY_DATA:
        inside &= tl.load(x + at) > 0
    tile = tl.load(x + at, inside, other=0)
    tl.store(loaded + j[:, None] * N + i[None, :], tl.trans(tile))
    tl.store(product + m[:, None] * N + i[None, :], tl.dot(tl.load(y + m[:, None] * K + j[None, :]), tl.trans(tile), out_dtype=OUT, input_precision="ieee"))
    tl.store(stored + at, tl.trans(tl.load(y + tl.arange(0, K)[:, None] % 16 * K + i[None, :] % K)), inside)


@pytest.mark.parametrize("by_data", [False, True], ids=["extents", "data"])
@pytest.mark.parametrize("n, k", [(16, 32), (64, 32), (64, 128)])
@pytest.mark.parametrize("t", ["int8", "float16", "bfloat16", "float32"])
def test_turned_under_a_mask(dev, t, n, k, by_data):
    """Tiles that are turned on their way where rows, columns, both or neither end inside of them."""
    g = np.random.default_rng(n + k)
    t, out = np.dtype(TYPES[t]), (np.int32, tl.int32) if t == "int8" else (np.float32, tl.float32)
    x, y = (g.integers(-4, 5, s).astype(t) for s in ((n, k + 8), (16, k)))
    for rows, columns in ((n, k), (n - 3, k), (n, k - 1), (n - 9, k - 17), (0, k), (n + 1, 2)):
        loaded, product, stored = np.zeros((k, n), t), np.zeros((16, n), out[0]), np.full(x.shape, 7, t)
        dev(k_turned, (1, ), x, y, loaded, product, stored, rows, columns, k + 8, n, k, out[1], by_data)
        inside = (np.arange(n)[:, None] < rows) & (np.arange(k) < columns)
        if by_data:
            inside &= x[:, :k].astype(np.float32) > 0
        tile = np.where(inside, x[:, :k], np.zeros((), t))
        assert_same(loaded, np.ascontiguousarray(tile.T))
        assert_same(product, (y.astype(np.float32) @ tile.T.astype(np.float32)).astype(out[0]))
        want = np.full(x.shape, 7, t)
        want[:, :k][inside] = y[np.arange(k)[:, None] % 16, np.arange(n) % k].T[inside]
        assert_same(stored, want)


@tegula.jit
def k_pairs_behind_the_end(x, y, n, CAT: tl.constexpr):
    i, j = tl.arange(0, 16), tl.arange(0, 8)
    v = tl.load(x + i[:, None] * 8 + j[None, :], (i < n)[:, None] & (j < 8)[None, :], other=0)
    one = tl.full([16, 8], 1, tl.float16)
    a = tl.cat(v, one, dim=1) if CAT else tl.interleave(one, v)
    tl.store(y + i[:, None] * 16 + i[None, :], tl.dot(a, tl.full([16, 16], 1, tl.float16)))


@pytest.mark.parametrize("cat", [False, True], ids=["interleave", "cat"])
@pytest.mark.parametrize("n", [0, 5, 16])
def test_pairs_with_masked_elements(dev, n, cat):
    """Where rows end, an operand put together of what is masked off and of something else is two values."""
    x, y = np.full((16, 8), 3, np.float16), np.zeros((16, 16), np.float32)
    dev(k_pairs_behind_the_end, (1, ), x, y, n, cat)
    assert_same(y, np.where(np.arange(16)[:, None] < n, 32, 8).astype(np.float32) * np.ones((1, 16), np.float32))


@tegula.jit
def k_bytes(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.int32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + i[:, None] * K + k[None, :], mask=(i < M)[:, None] & (k < K)[None, :], other=0)
        y = tl.load(b + k[:, None] * N + j[None, :], mask=(k < K)[:, None] & (j < N)[None, :], other=0)
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * N + j[None, :], acc, mask=(i < M)[:, None] & (j < N)[None, :])


@pytest.mark.parametrize("tile", [(16, 64, 32), (64, 64, 64), (16, 16, 16), (32, 128, 8)], ids=str)
@pytest.mark.parametrize("m, n, k", [(1, 70, 600), (33, 96, 256), (70, 130, 100), (64, 64, 3)])
def test_bytes_at_their_ends(dev, m, n, k, tile):
    """Instructions multiply unsigned bytes by signed ones: what is added to B is taken back, for parts of tiles, too."""
    bm, bn, bk = tile
    g = np.random.default_rng(m + n + k)
    for low, high in ((-128, 128), (-128, -127), (127, 128)):
        a, b = g.integers(low, high, (m, k), dtype=np.int8), g.integers(-128, 128, (k, n), dtype=np.int8)
        b[:, ::3], b[:, 1::5] = low, high - 1
        c = np.zeros((m, n), np.int32)
        dev(k_bytes, (-(-m // bm), -(-n // bn)), a, b, c, m, n, k, bm, bn, bk)
        assert_same(c, a.astype(np.int32) @ b.astype(np.int32))
