"""Blocks whose extents are no powers of two (docs/differences.md): what they hold, and that nothing beyond them is touched."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError

odd = pytest.mark.section("extensions")
SIZES = [1, 3, 5, 12, 24, 100]


@tegula.jit
def k_axpy(x, y, out, a, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        m = i < n
        tl.store(out + i, tl.load(x + i, m, other=3) * a + tl.load(y + i, mask=m), mask=m)
    else:
        tl.store(out + i, tl.load(x + i) * a + tl.load(y + i))


@odd
@pytest.mark.parametrize("block", SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_elementwise(dev, block, masked):
    n = 3 * block - (block // 2 if masked else 0)
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    out = np.full(n + 64, -1, np.float32)
    if masked:
        dev(k_axpy, (3,), x, y, out[:n + 1][:n], 2.0, n, BLOCK=block, MASKED=True)
    else:
        dev(k_axpy, (3,), x, y, out[:n], 2.0, n, BLOCK=block, MASKED=False)
    assert (out[:n] == x * 2 + 1).all() and (out[n:] == -1).all()


@tegula.jit
def add(a, b):
    return a + b


@tegula.jit
def keep_left(a, b):
    return a


@tegula.jit
def affine(a, b, c, d):
    return a * c, b * c + d


REDUCTIONS = {
    "sum": (tl.sum, np.sum), "max": (tl.max, np.max), "min": (tl.min, np.min), "argmax": (tl.argmax, np.argmax), "argmin": (tl.argmin, np.argmin),
    "xor": (tl.xor_sum, np.bitwise_xor.reduce),
}


@tegula.jit
def k_reduce(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, FN: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = FN(tl.load(x + i[:, None] * N + j[None, :]), AXIS)
    if AXIS is None:
        tl.store(out, v)
    elif AXIS == 0:
        tl.store(out + j, v)
    else:
        tl.store(out + i, v)


@odd
@pytest.mark.parametrize("shape, dtype", [((3, 5), np.int32), ((12, 16), np.float32), ((8, 24), np.uint8), ((33, 2), np.float16), ((1, 7), np.float32)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(dev, shape, dtype, name):
    fn, reference = REDUCTIONS[name]
    if name == "xor" and np.dtype(dtype).kind == "f":
        pytest.skip("of integers only")
    rng = np.random.default_rng(7)
    x = rng.integers(1, 25, shape).astype(dtype)  # so that sums of float16 are exact
    if np.dtype(dtype).kind != "u":
        x = -x if name in ("max", "argmax") else x  # what is padded must not win
    for axis in ((0, 1) if name.startswith("arg") else (0, 1, None)):
        e = reference(x, axis=axis)
        out = np.zeros(64, np.float64)
        dev(k_reduce, (1,), x, out, M=shape[0], N=shape[1], AXIS=axis, FN=fn)
        e = np.atleast_1d(np.asarray(e).astype(np.float64))
        assert (out[:e.size] == e).all() and (out[e.size:] == 0).all()


@tegula.jit
def k_combine(x, y, out, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    p, q = tl.reduce((a, b), 0, affine)
    tl.store(out, p)
    tl.store(out + 1, q)
    s, t = tl.associative_scan((a, b), 0, affine, reverse=REVERSE)
    tl.store(out + 2 + i, s)
    tl.store(out + 2 + N + i, t)
    tl.store(out + 2 + 2 * N + i, tl.cumsum(b, 0, reverse=REVERSE))
    tl.store(out + 2 + 3 * N, tl.reduce(b, 0, keep_left) * 0)


@odd
@pytest.mark.parametrize("n", [1, 3, 6, 13, 40])
@pytest.mark.parametrize("reverse", [False, True])
def test_combinations(dev, n, reverse):
    rng = np.random.default_rng(n)
    x, y = rng.integers(-1, 3, n).astype(np.int32), rng.integers(-9, 9, n).astype(np.int32)
    out = np.full(2 + 3 * n + 9, 77, np.int32)
    dev(k_combine, (1,), x, y, out, N=n, REVERSE=reverse)

    def scan(order):
        p, q = x[order[0]], y[order[0]]
        s, t = np.zeros(n, np.int32), np.zeros(n, np.int32)
        s[order[0]], t[order[0]] = p, q
        for k in order[1:]:
            p, q = p * x[k], q * x[k] + y[k]
            s[k], t[k] = p, q
        return s, t, p, q

    order = list(range(n))
    _, _, p, q = scan(order)
    s, t, _, _ = scan(order[::-1] if reverse else order)
    sums = np.cumsum(y[::-1])[::-1] if reverse else np.cumsum(y)
    assert out[2:2 + n].tolist() == s.tolist() and out[2 + n:2 + 2 * n].tolist() == t.tolist()
    assert out[2 + 2 * n:2 + 3 * n].tolist() == sums.tolist()
    assert out[0] == p and (out[1] == q or n > 1)  # the order of a reduction is free, this combination is not commutative
    assert out[2 + 3 * n] == 0 and (out[3 + 3 * n:] == 77).all()


@tegula.jit
def k_nan(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(out + 2, tl.sum(v * 0.0 - 0.0, 0))


@odd
def test_nan_and_zeros(dev):
    out = np.zeros(3, np.float32)
    dev(k_nan, (1,), np.array([np.nan, -3, -5], np.float32), out, N=3)
    assert out[:2].tolist() == [-3, -5]
    dev(k_nan, (1,), np.full(3, np.nan, np.float32), out, N=3)
    assert np.isnan(out).all()
    dev(k_nan, (1,), np.full(3, -1, np.float32), out, N=3)
    assert out[2] == 0 and np.signbit(out[2])


@tegula.jit
def k_shapes(x, out, M: tl.constexpr, N: tl.constexpr):
    flat = tl.load(x + tl.arange(0, M * N))
    a = flat.reshape(M, N)
    i, j = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + i[:, None] * N + j[None, :], a)
    out += M * N
    tl.store(out + tl.arange(0, M * N), a.T.reshape(M * N))
    out += M * N
    tl.store(out + tl.arange(0, 2 * M * N), tl.cat(flat, flat + 1000))
    out += 2 * M * N
    tl.store(out + tl.arange(0, 2 * M * N), tl.join(flat, -flat).reshape(2 * M * N))
    out += 2 * M * N
    p, q = tl.split(tl.join(a, a + 5))
    tl.store(out + i[:, None] * N + j[None, :], tl.where(p > 7, p, q))
    out += M * N
    tl.store(out + i[:, None] * N + j[None, :], tl.gather(a, tl.broadcast_to(N - 1 - j[None, :], [M, N]), 1))
    out += M * N
    tl.store(out + tl.arange(0, M * N), tl.gather(flat, tl.arange(0, M * N) - 2, 0))
    out += M * N
    tl.store(out, tl.max(a))
    tl.store(out + 1 + tl.arange(0, 12), tl.histogram(flat, 12))


@odd
@pytest.mark.parametrize("shape", [(3, 5), (2, 6), (6, 4), (7, 1), (5, 12)])
def test_shapes(dev, shape):
    m, n = shape
    x = np.random.default_rng(3).integers(0, 12, m * n).astype(np.int32)
    a = x.reshape(m, n)
    parts = [x, a.T, np.concatenate([x, x + 1000]), np.stack([x, -x], 1), np.where(a > 7, a, a + 5), a[:, ::-1], x[(np.arange(m * n) - 2) % (m * n)],
             [x.max()], np.bincount(x, minlength=12)]
    e = np.concatenate([np.ravel(p) for p in parts]).astype(np.int32)
    out = np.full(e.size + 40, -7, np.int32)
    dev(k_shapes, (1,), x, out, M=m, N=n)
    assert out[:e.size].tolist() == e.tolist() and (out[e.size:] == -7).all()


@tegula.jit
def k_atomics(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    old = tl.atomic_add(out + i, tl.load(x + i))
    tl.atomic_max(out + N + i, old, mask=i != 1)


@odd
def test_atomics(dev):
    x = np.arange(1, 11, dtype=np.int32)
    out = np.full(32, 5, np.int32)
    out[10:20] = 0
    dev(k_atomics, (1,), x, out, N=10)
    e = np.concatenate([x + 5, np.where(np.arange(10) != 1, 5, 0), np.full(12, 5)])
    assert out.tolist() == e.tolist()


@tegula.jit
def k_loop(x, out, n, M: tl.constexpr, N: tl.constexpr):
    j = tl.arange(0, N)
    acc = tl.zeros([M, N], tl.float32)
    best = tl.full([N], float("-inf"), tl.float32)
    for k in range(n):
        row = tl.load(x + k * N + j)
        acc += row[None, :] * (tl.arange(0, M)[:, None] + 1)
        if tl.sum(row, 0) > 0:
            best = tl.maximum(best, row)
        else:
            best = tl.where(j == 0, best, best)
    tl.store(out + tl.arange(0, M)[:, None] * N + j[None, :], acc)
    tl.store(out + M * N + j, tl.softmax(best))


@odd
@pytest.mark.parametrize("shape", [(3, 20), (5, 9), (1, 6)])
def test_loops(dev, shape):
    m, n = shape
    x = np.random.default_rng(5).normal(size=(6, n)).astype(np.float32)
    x[4] = np.abs(x[4])
    out = np.zeros(m * n + n + 8, np.float32)
    dev(k_loop, (1,), x, out, 6, M=m, N=n)
    acc = x.sum(0)[None] * (np.arange(m)[:, None] + 1)
    best = np.max([r for r in x if r.sum() > 0], 0)
    soft = np.exp(best - best.max())
    np.testing.assert_allclose(out[:m * n].reshape(m, n), acc, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out[m * n:m * n + n], soft / soft.sum(), rtol=1e-4)
    assert (out[m * n + n:] == 0).all()


@tegula.jit
def k_dot(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(out + i[:, None] * N + j[None, :], tl.dot(x, y, input_precision="ieee"))


@odd
@pytest.mark.parametrize("shape", [(16, 16, 24), (48, 80, 32), (5, 3, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dot(dev, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 4, (m, k)).astype(dtype), rng.integers(-4, 4, (k, n)).astype(dtype)
    out = np.zeros(m * n + 16, np.float32)
    dev(k_dot, (1,), a, b, out, M=m, N=n, K=k)
    assert (out[:m * n].reshape(m, n) == a.astype(np.float32) @ b.astype(np.float32)).all() and (out[m * n:] == 0).all()


@tegula.jit
def k_block_ptr(x, out, m, n, M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (m, n), (n, 1), (1, 2), (M, N), (1, 0))
    q = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (M, N), (1, 0))
    tl.store(q, tl.load(p, boundary_check=(0, 1)), boundary_check=(0, 1))


@odd
def test_block_pointers(dev):
    x = np.arange(1, 31, dtype=np.int32).reshape(5, 6)
    out = np.full(40, -1, np.int32)
    dev(k_block_ptr, (1,), x, out[:30], 5, 6, M=6, N=5)
    e = np.zeros((6, 5), np.int32)
    e[:4, :4] = x[1:, 2:]
    assert out[:30].reshape(6, 5).tolist() == e.tolist() and (out[30:] == -1).all()


@tegula.jit
def k_assert(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_assert(i < N, "inside")
    tl.store(x + i, i)


@odd
def test_asserts_see_real_elements_only(dev):
    x = np.zeros(6, np.int32)
    dev(k_assert, (1,), x, N=6, debug=True)
    assert x.tolist() == list(range(6))


@tegula.jit(noinline=True)
def line(x, n, N: tl.constexpr):
    return tl.load(x + tl.arange(0, N)) + n, n * 2


@tegula.jit
def k_noinline(x, out, N: tl.constexpr):
    v, n = line(x, 5, N)
    tl.store(out + tl.arange(0, N), v * 10 + n)
    tl.store(out + N, tl.sum(line(x + 1, 7, N)[0]))


@odd
def test_functions_that_are_not_inlined_give_them(dev):
    x, out = np.arange(12, dtype=np.int32), np.full(8, -1, np.int32)
    dev(k_noinline, (1,), x, out, N=6)
    assert out.tolist() == [(i + 5) * 10 + 10 for i in range(6)] + [sum(range(1, 7)) + 42, -1]


@tegula.jit
def k_print(x):
    tl.device_print("x", tl.arange(0, 3))


@tegula.jit
def k_cas(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.atomic_cas(x + i, i & 1, i + 10))


@odd
def test_compare_and_swap(dev):
    x, out = np.array([0, 5, 0, 1, 0, 0, 0, 1], np.int32), np.full(8, -1, np.int32)
    dev(k_cas, (1,), x, out, N=6)
    assert x.tolist() == [10, 5, 12, 13, 14, 0, 0, 1] and out.tolist() == [0, 5, 0, 1, 0, 0, -1, -1]


@tegula.jit
def k_descriptor(x):
    d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 6])
    d.store([0, 0], d.load([0, 0]))


@tegula.jit
def k_rows(x):
    d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [1, 8])
    tl.store(x + tl.arange(0, 12)[:, None] * 8 + tl.arange(0, 8)[None, :], d.gather(tl.arange(0, 12), 0))


@tegula.jit
def pair(a, b):
    return a, b


@tegula.jit
def k_pack(x):
    tl.store(x + tl.arange(0, 6), tl.map_elementwise(pair, tl.arange(0, 6), pack=2))


@tegula.jit
def collatz(n, x):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    tl.store(x + steps, 1)
    return steps


@tegula.jit
def k_map(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(collatz, i + 1, x + i * 0))


@odd
def test_map_elementwise(dev):
    x, out = np.zeros(32, np.int32), np.full(16, -1, np.int32)
    dev(k_map, (1,), x, out, N=6)
    e = [0, 1, 7, 2, 5, 8]
    assert out.tolist() == e + [-1] * 10 and sorted(np.flatnonzero(x)) == sorted(e)


@odd
@pytest.mark.parametrize("kernel", [k_pack, k_print, k_descriptor, k_rows])
def test_refused(dev, kernel):
    with pytest.raises(CompileError, match="takes blocks whose extents are powers of 2"):
        dev(kernel, (1,), np.zeros(64, np.int32))


@tegula.jit
def k_sort(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.sort(tl.load(x + i)))


@tegula.jit
def k_topk(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, 2), tl.topk(tl.load(x + tl.arange(0, N)), 2))


@odd
@pytest.mark.parametrize("kernel", [k_sort, k_topk])
def test_sorting_needs_powers(dev, kernel):
    with pytest.raises(CompileError, match="take a power of two of elements along the axis"):
        dev(kernel, (1,), np.zeros(64, np.int32), N=6)


@tegula.jit
def k_sort_rows(x, M: tl.constexpr):
    at = tl.arange(0, M)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(x + at, tl.sort(tl.load(x + at)))


@odd
def test_sorting_odd_many_rows(dev):
    x = np.random.default_rng(0).integers(0, 99, (5, 8)).astype(np.int32)
    e = np.sort(x, 1)
    dev(k_sort_rows, (1,), x, M=5)
    assert (x == e).all()


@odd
def test_sizes_count_as_padded(dev):
    out = np.zeros(4, np.int32)

    @tegula.jit
    def kernel(out):
        tl.store(out, tl.sum(tl.zeros([1025, 513], tl.int32)))

    with pytest.raises(CompileError, match="exceeds triton maximum tensor numel"):
        dev(kernel, (1,), out)


@tegula.jit
def k_strict(out):
    i = tl.arange(0, 12)
    tl.store(out + i, i)


@odd
def test_strict_refuses(dev):
    with pytest.raises(CompileError, match="arange's range must be a power of 2, found 12 elements"):
        dev(k_strict, (1,), np.zeros(12, np.int32), strict=True)


@odd
def test_remark(dev):
    kernel = dev(k_strict, (1,), np.zeros(12, np.int32))
    if kernel is not None:  # the interpreter compiles nothing
        assert [r.message for r in kernel.remarks if r.kind == "oddExtent"] == [
            "a block of 12 elements along a dimension is not in Triton, where extents are powers of 2; portable: 16 elements and a mask `index < 12`"]
