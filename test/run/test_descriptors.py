"""§3.3 tensor descriptors: made in kernels and given by the host, every access, in loops, helpers and branches, against numpy."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import ALL, CompileError, assert_same, bits, d, values
from tegula.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.section("3.3 tensor descriptors")


def window(x, offsets, block, padding=0):
    """What a load at `offsets` gives: the block, with padding outside of x."""
    out = np.full(block, padding, x.dtype)
    inside = [slice(max(0, -o), max(0, min(b, n - o))) for o, b, n in zip(offsets, block, x.shape)]
    source = [slice(max(0, o), max(0, min(n, o + b))) for o, b, n in zip(offsets, block, x.shape)]
    if all(s.stop > s.start for s in source):
        out[tuple(inside)] = x[tuple(source)]
    return out


def padded(shape, t, seed=0):
    """An array whose rows are longer than the tensor in it, as 16-byte aligned strides need: (tensor, stride of rows in elements)."""
    grain = 128 // max(8, t.bits)
    width = (shape[-1] + grain - 1) // grain * grain + grain
    whole = values(t, int(np.prod(shape[:-1], dtype=int)) * width, seed).reshape(*shape[:-1], width)
    return whole[..., :shape[-1]]


def strides(x):
    return [s // x.itemsize for s in x.strides]


# ------------------------------------------------------------------------------------------------------- ranks, dtypes, offsets

@tegula.jit
def copy_device(x, y, shape, strides, offsets, out_strides, B: tl.constexpr, P: tl.constexpr):
    RANK: tl.constexpr = len(B)
    lead = strides[:RANK - 1]
    a = tl.make_tensor_descriptor(x, shape, lead + (1,), B, padding_option=P)
    b = tl.make_tensor_descriptor(y, B, out_strides[:RANK - 1] + (1,), B)
    zeros: tl.constexpr = (0, 0, 0, 0, 0)
    b.store(zeros[:RANK], a.load(offsets))


@tegula.jit
def copy_host(a, b, offsets, zeros):
    b.store(zeros, a.load(offsets))


SHAPES = [((100,), (64,)), ((37, 50), (16, 32)), ((3, 20, 17), (2, 8, 16)), ((2, 3, 9, 33), (1, 2, 4, 32)), ((2, 3, 2, 5, 16), (2, 2, 1, 4, 16))]
OFFSETS = [lambda n, b: 0, lambda n, b: -3, lambda n, b: n - 5, lambda n, b: n + 1, lambda n, b: -b, lambda n, b: 7]


def copied(t, shape, block, offsets, padding, dev, host):
    x = padded(shape, t)
    y = padded(block, t, 1)
    fill = np.nan if padding == "nan" else 0
    if host:
        dev(copy_host, (1,), TensorDescriptor.from_tensor(x, list(block), padding), TensorDescriptor.from_tensor(y, list(block)),
            offsets, (0,) * len(block))
    else:
        dev(copy_device, (1,), x.base, y.base, shape, tuple(strides(x)), offsets, tuple(strides(y)), block, padding)
    assert_same(np.ascontiguousarray(y), window(x, offsets, block, fill))


@pytest.mark.parametrize("host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("shape, block", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_ranks(dev, shape, block, padding, host):
    for f in OFFSETS:
        copied(d("float32"), shape, block, tuple(f(n, b) for n, b in zip(shape, block)), padding, dev, host)


@pytest.mark.parametrize("host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("t", ALL, ids=str)
def test_dtypes(dev, t, host):
    for offsets in [(0, 0), (-2, 5), (30, 40)]:
        copied(t, (37, 50), (16, 32), offsets, "zero", dev, host)


@tegula.jit
def grid_copy(x, y, M, N, stride, out_stride, B0: tl.constexpr, B1: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [B0, B1])
    b = tl.make_tensor_descriptor(y, [M, N], [out_stride, 1], [B0, B1])
    i, j = tl.program_id(0) * B0, tl.program_id(1) * B1
    tl.store_tensor_descriptor(b, [i, j], tl.load_tensor_descriptor(a, [i, j]))


@pytest.mark.parametrize("m, n", [(1, 1), (1, 129), (63, 64), (64, 65), (130, 200), (128, 256)])
@pytest.mark.parametrize("block", [(1, 64), (32, 32), (64, 128)], ids=str)
def test_grid(dev, m, n, block):
    t = d("float16")
    x, y = padded((m, n), t), padded((m, n), t, 1)
    whole = y.base.reshape(m, -1)
    before = whole.copy()
    dev(grid_copy, (tegula.cdiv(m, block[0]), tegula.cdiv(n, block[1])), x.base, y.base, m, n, strides(x)[0], strides(y)[0], *block)
    assert_same(np.ascontiguousarray(y), np.ascontiguousarray(x))
    assert_same(np.ascontiguousarray(whole[:, n:]), before[:, n:])


# ------------------------------------------------------------------------------------------------------------ reductions in memory

@tegula.jit
def reduce_kernel(x, y, M, N, stride, shift: tl.constexpr, OP: tl.constexpr, B0: tl.constexpr, B1: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [B0, B1])
    b = tl.make_tensor_descriptor(y, [M, N], [stride, 1], [B0, B1])
    i, j = tl.program_id(0) * B0 - shift, tl.program_id(1) * B1 + shift
    v = a.load([i, j])
    if OP == "add":
        b.atomic_add([i, j], v)
    elif OP == "min":
        b.atomic_min([i, j], v)
    elif OP == "max":
        b.atomic_max([i, j], v)
    elif OP == "and":
        b.atomic_and([i, j], v)
    elif OP == "or":
        b.atomic_or([i, j], v)
    else:
        b.atomic_xor([i, j], v)


INTS = ["uint32", "int32", "uint64", "int64"]
HALVES = ["float16", "bfloat16"]
REDUCE = {"add": (np.add, ["uint32", "int32", "uint64", "float32", "float16", "bfloat16"]), "min": (np.minimum, INTS + HALVES), "max": (np.maximum, INTS + HALVES),
          "and": (np.bitwise_and, INTS), "or": (np.bitwise_or, INTS), "xor": (np.bitwise_xor, INTS)}


@pytest.mark.parametrize("shift", [0, 3])  # by bulk reductions where there are any; by atomics
@pytest.mark.parametrize("op, t", [(op, t) for op in REDUCE for t in ALL if t.bits > 8], ids=lambda v: str(v))
def test_reductions(dev, op, t, shift):
    f, dtypes = REDUCE[op]
    m, n = 21, 48
    x, y = (values(t, m * 64, s).reshape(m, 64) for s in (0, 1))
    if t.kind == "f":
        x, y = ((a * 0 + np.arange(a.size).reshape(a.shape) % 17).astype(t.np) for a in (x, y))
    expected = y.copy()
    launch = lambda: dev(reduce_kernel, (4, 2), x, y, m, n, 64, shift, op, 8, 32)
    if t.name not in dtypes:
        with pytest.raises(CompileError, match="Unsupported dtype"):
            launch()
        return
    launch()
    with np.errstate(over="ignore"):
        expected[:, shift:n] = f(x, expected)[:, shift:n]
    assert_same(y, expected)


# --------------------------------------------------------------------------------------------------------------- gather and scatter

@tegula.jit
def gather_kernel(x, index, out, M, N, stride, y, ROWS: tl.constexpr, COLS: tl.constexpr, P: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [1, COLS], padding_option=P)
    rows = tl.load(index + tl.arange(0, ROWS))
    v = desc.gather(rows, y)
    tl.static_assert(v.shape[0] == ROWS and v.shape[1] == COLS)
    tl.store(out + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :], v)


@tegula.jit
def scatter_kernel(x, index, v, M, N, stride, y, ROWS: tl.constexpr, COLS: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [1, COLS])
    rows = tl.load(index + tl.arange(0, ROWS))
    desc.scatter(tl.load(v + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]), rows, y)


@pytest.mark.parametrize("t", ["int8", "float16", "float32"])
@pytest.mark.parametrize("index", ["int16", "int32"])
@pytest.mark.parametrize("y", [0, 5, -4, 40])
def test_gather_scatter(dev, t, index, y):
    t = d(t)
    m, n, rows, cols = 30, 60, 16, 256 // t.bits * 2
    x = values(t, m * 64, 0).reshape(m, 64)
    picked = np.random.default_rng(y + 5).permutation(np.arange(-4, m + 4))[:rows].astype(d(index).np)
    fill = "nan" if t.kind == "f" else "zero"
    out = values(t, rows * cols, 1).reshape(rows, cols)
    dev(gather_kernel, (1,), x, picked, out, m, n, 64, y, rows, cols, fill)
    pad = np.nan if fill == "nan" else 0
    expected = np.concatenate([window(x[:, :n], (int(r), y), (1, cols), pad) for r in picked])
    assert np.array_equal(bits(out), bits(expected))
    v = values(t, rows * cols, 2).reshape(rows, cols)
    expected = x.copy()
    for i, r in enumerate(picked):
        for j in range(cols):
            if 0 <= r < m and 0 <= y + j < n:
                expected[r, y + j] = v[i, j]
    dev(scatter_kernel, (1,), x, picked, v, m, n, 64, y, rows, cols)
    assert np.array_equal(bits(x), bits(expected))


def some_rows(count, m, seed=0):
    """Row indices, some in front of the tensor and behind it, some twice."""
    index = np.random.default_rng(seed).integers(0, m, count).astype(np.int32)
    index[:6] = [-1, m, 2**31 - 1, -2**31, 0, m - 1]
    return index


def picked_rows(x, index):
    inside = (index >= 0) & (index < len(x))
    return np.where(inside[:, None], x[np.where(inside, index, 0)], np.zeros(1, x.dtype))


@pytest.mark.parametrize("t", ALL, ids=str)
@pytest.mark.parametrize("width", [32, 64, 128, 256, 512])
def test_rows_of_every_width(dev, t, width):
    m, cols = 24, width * 8 // max(8, t.bits)
    for rows in (8, 64):
        x, out = values(t, m * cols, 0).reshape(m, cols), values(t, rows * cols, 1).reshape(rows, cols)
        index = some_rows(rows, m)
        dev(gather_kernel, (1,), x, index, out, m, cols, cols, 0, rows, cols, "zero")
        assert np.array_equal(bits(out), bits(picked_rows(x, index)))
        # Rows that are written twice get the same values.
        expected, back = x.copy(), picked_rows(values(t, m * cols, 2).reshape(m, cols), index)
        for row, i in zip(back, index):
            if 0 <= i < m:
                expected[i] = row
        dev(scatter_kernel, (1,), x, index, back, m, cols, cols, 0, rows, cols)
        assert np.array_equal(bits(x), bits(expected))


@tegula.jit
def gather_in_loop(x, index, out, M, N, L, y, ROWS: tl.constexpr, COLS: tl.constexpr, P: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, COLS], padding_option=P)
    r = tl.arange(0, ROWS)
    acc = tl.zeros([ROWS, COLS], out.dtype.element_ty)
    for i in range(0, L):
        acc += desc.gather(tl.load(index + i * ROWS + r), y)
    tl.store(out + r[:, None] * COLS + tl.arange(0, COLS)[None, :], acc)


@pytest.mark.parametrize("t", ALL, ids=str)
@pytest.mark.parametrize("width, rows, warps", [(1024, 32, 4), (2048, 8, 2), (2048, 16, 4), (4096, 8, 1), (1024, 64, 8)])
@pytest.mark.parametrize("y, padding", [(0, "zero"), (-16, "zero"), (48, "nan")])
def test_wide_rows(dev, t, width, rows, warps, y, padding):
    """By a copy for each row where there is TMA."""
    if padding == "nan" and t.kind != "f":
        return
    m, cols = 10, width * 8 // max(8, t.bits)
    for n in cols, cols + 16:
        x, out = values(t, m * n, 0).reshape(m, n), values(t, rows * cols, 1).reshape(rows, cols)
        index = some_rows(rows, m)
        dev(gather_kernel, (1,), x, index, out, m, n, n, y, rows, cols, padding, num_warps=warps)
        pad = np.nan if padding == "nan" else 0
        assert_same(out, np.concatenate([window(x, (int(r), y), (1, cols), pad) for r in index]))


@tegula.jit
def gather_columns(x, index, out, M, N: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [S, 1], [1, COLS])
    r = tl.arange(0, ROWS)
    tl.store(out + r[:, None] * COLS + tl.arange(0, COLS)[None, :], desc.gather(tl.load(index + r), 0))


@pytest.mark.parametrize("t", ["float32", "float16", "int8", "float8e5"])
@pytest.mark.parametrize("columns", [1, 2, 4], ids=lambda n: f"by{n}")
def test_wide_rows_of_few_words(dev, t, columns):
    """So many columns are a divisor of a row: words of 8 bytes cannot stand for all of it."""
    t = d(t)
    m, rows, cols = 10, 16, 2048 * 8 // t.bits
    n, stride = cols - 8 + columns, cols + 16
    x, out, index = values(t, m * stride, 0).reshape(m, stride), values(t, rows * cols, 1).reshape(rows, cols), some_rows(rows, m)
    dev(gather_columns, (1,), x, index, out, m, n, stride, rows, cols, num_warps=2)
    assert_same(out, picked_rows(np.where(np.arange(stride) < n, x, np.zeros(1, t.np)), index)[:, :cols])


@pytest.mark.parametrize("width, rows, warps", [(2048, 16, 4), (4096, 8, 2)])
@pytest.mark.parametrize("t", ["float32", "int64", "float16"])
def test_sum_of_wide_rows(dev, t, width, rows, warps):
    t = d(t)
    m, cols, length = 20, width * 8 // t.bits, 5
    x = (np.arange(m * cols) % 31 - 9).astype(t.np).reshape(m, cols)
    out, index = np.zeros((rows, cols), t.np), np.stack([some_rows(rows, m, i) for i in range(length)])
    dev(gather_in_loop, (1,), x, index, out, m, cols, length, 0, rows, cols, "zero", num_warps=warps)
    assert_same(out, sum(picked_rows(x, i) for i in index).astype(t.np))


@tegula.jit
def gathered_product(x, w, index, to, out, M, COUNT, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    xd = tl.make_tensor_descriptor(x, [M, K], [K, 1], [1, BK])
    wd = tl.make_tensor_descriptor(w, [K, N], [N, 1], [BK, BN])
    od = tl.make_tensor_descriptor(out, [COUNT, N], [N, 1], [1, BN])
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN
    rows = tl.load(index + r)
    acc = tl.zeros([BM, BN], tl.float32)
    if K == BK:
        acc = tl.dot(xd.gather(rows, 0), wd.load([0, n]), acc)
    else:
        for k in range(0, K, BK):
            acc = tl.dot(xd.gather(rows, k), wd.load([k, n]), acc)
    od.scatter(acc.to(od.dtype), tl.load(to + r), n)


@pytest.mark.parametrize("bm, bn, bk, k, warps", [(64, 64, 32, 32, 4), (64, 64, 32, 160, 4), (128, 64, 64, 192, 8), (16, 32, 32, 96, 1), (64, 128, 128, 256, 4)])
@pytest.mark.parametrize("t", ["float16", "bfloat16", "float32", "float8e5"])
def test_product_of_gathered_rows(dev, bm, bn, bk, k, warps, t):
    t = d(t)
    m, n, count = 40, 2 * bn, 2 * bm
    rng = np.random.default_rng(1)
    x, w = rng.integers(-3, 4, (m, k)).astype(t.np), rng.integers(-3, 4, (k, n)).astype(t.np)
    index, to = some_rows(count, m), rng.permutation(count + 9).astype(np.int32)[:count] - 4
    out = np.full((count, n), 7, np.float32)
    expected = out.copy()
    inside = (to >= 0) & (to < count)
    expected[to[inside]] = (picked_rows(x, index).astype(np.float32) @ w.astype(np.float32))[inside]
    dev(gathered_product, (2, 2), x, w, index, to, out, m, count, n, k, bm, bn, bk, num_warps=warps)
    assert_same(out, expected)


@tegula.jit
def over_pages(q, kv, table, out, M, L, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, c = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + c[None, :])
    acc = tl.zeros([BM, D], tl.float32)
    for i in range(0, L):
        if MODE == "rows":        # an index for each row
            y = tl.make_tensor_descriptor(kv, [M, D], [D, 1], [1, D]).gather(tl.load(table + i * BN + n), 0)
        elif MODE == "page":      # one for all of them
            y = tl.make_tensor_descriptor(kv, [M, D], [D, 1], [BN, D]).load([tl.load(table + i * BN) * 8, 0])
        else:                     # by pointers; the index of the index
            at = tl.load(table + tl.load(table + i * BN) % L * BN + n)
            y = tl.load(kv + at[:, None] * D + c[None, :], mask=((at >= 0) & (at < M))[:, None], other=0)
        acc = tl.dot(tl.dot(x, y.T).to(x.dtype), y, acc)
    tl.store(out + m[:, None] * D + c[None, :], acc)


@pytest.mark.parametrize("mode", ["rows", "page", "pointers"])
@pytest.mark.parametrize("bm, bn, dim, warps", [(64, 32, 64, 4), (128, 64, 32, 8), (16, 16, 32, 1)])
@pytest.mark.parametrize("pages", [1, 2, 7])
def test_indices_loaded_in_the_loop(dev, mode, bm, bn, dim, warps, pages):
    rng = np.random.default_rng(pages)
    m = 96
    q, kv = rng.integers(-1, 2, (bm, dim)).astype(np.float16), rng.integers(-1, 2, (m, dim)).astype(np.float16)
    # Exactly as many indices as are looked at: nothing is read behind the last page.
    table = rng.integers(-3, m + 3 if mode == "rows" else 12, (pages, bn)).astype(np.int32)
    if mode == "pointers":
        table[:, 0] = rng.integers(0, 3 * m, pages)
    out, expected = np.zeros((bm, dim), np.float32), np.zeros((bm, dim), np.float32)
    for page in table:
        if mode == "rows":
            y = picked_rows(kv, page)
        elif mode == "page":
            y = window(kv, (int(page[0]) * 8, 0), (bn, dim))
        else:
            y = picked_rows(kv, table[page[0] % pages])
        s = (q.astype(np.float32) @ y.astype(np.float32).T).astype(np.float16).astype(np.float32)
        expected += s @ y.astype(np.float32)
    dev(over_pages, (1,), q, kv, table, out, m, pages, mode, bm, bn, dim, num_warps=warps)
    assert_same(out, expected)


# ------------------------------------------------------------------------------------------------------- descriptors are values

@tegula.jit
def make_row(base, i, N, stride, B: tl.constexpr):
    return tl.make_tensor_descriptor(base + i * stride, [N], [1], [B])


@tegula.jit
def read(where, offsets):
    if isinstance(where, tl.tensor_descriptor):
        return where.load(offsets)
    else:
        return where + offsets[0]


@tegula.jit
def values_kernel(x, y, out, M, N, stride, flip, B: tl.constexpr):
    # Loop-carried, rebuilt each time; chosen by a branch; from a helper; in a tuple.
    desc = make_row(x, 0, N, stride, B)
    acc = tl.zeros([B], tl.float32)
    for i in range(M):
        acc += read(desc, [0])
        desc = make_row(x, i + 1, N, stride, B)
    if flip:
        source = make_row(x, 1, N, stride, B)
    else:
        source = make_row(y, 2, N, stride, B)
    pair = (source, make_row(y, 0, N, stride, B))
    acc += pair[0].load([0]) * 2 + read(pair[1], [4])
    o = make_row(out, 0, N, stride, B)
    tl.static_assert(o.dtype == tl.float32 and o.block_shape[0] == B and len(o.shape) == 1 and o.block_type.shape[0] == B)
    tl.static_assert(isinstance(o, tl.tensor_descriptor) and not isinstance(acc, tl.tensor_descriptor))
    o.store([0], acc + tl.where(o.shape[0] == N, 1.0, 0.0) + read(3, (4,)))


@pytest.mark.parametrize("flip", [0, 1])
def test_values(dev, flip):
    m, n, b = 5, 100, 128
    x, y, out = (values(d("float32"), 8 * 112, s).reshape(8, 112) % 8 for s in range(3))
    dev(values_kernel, (1,), x, y, out, m, n, 112, flip, b)
    row = lambda a, i, o=0: window(a[i, :n], (o,), (b,))
    expected = sum((row(x, i) for i in range(m)), np.zeros(b, np.float32)) + (row(x, 1) if flip else row(y, 2)) * 2 + row(y, 0, 4) + 8
    np.testing.assert_allclose(out[0, :n], expected[:n], rtol=1e-6)


@tegula.jit
def annotated_kernel(a: tl.tensor_descriptor, b: tl.tensor_descriptor, M, B: tl.constexpr):
    for i in tl.range(0, M, B):
        b.store([i, 0], a.load([i, 0]) + a.shape[0] + a.strides[0].to(tl.int32))


def test_host_fields(dev):
    x, y = np.arange(24 * 16, dtype=np.int32).reshape(24, 16), np.zeros((24, 16), np.int32)
    dev(annotated_kernel, (1,), TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(y, [8, 16]), 24, 8)
    assert_same(y, x + 24 + 16)


@tegula.jit
def block_kernel(a, b):
    b.store([0, 0], a.load([0, 0]) * 0 + a.block_shape[0] * 1000 + a.block_shape[1])


def test_block_shape_is_read_at_every_launch(dev):
    x, y = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    a, b = TensorDescriptor(x, [64, 64], [64, 1], [1, 1]), TensorDescriptor(y, [64, 64], [64, 1], [1, 1])
    for block in ([8, 8], [32, 16], [64, 64]):
        a.block_shape = b.block_shape = block
        dev(block_kernel, (1,), a, b)
        assert (y[:block[0], :block[1]] == block[0] * 1000 + block[1]).all()
    a.padding = "nan"
    a.shape = [8, 8]
    dev(block_kernel, (1,), a, b)
    assert np.isnan(y[8:, 8:]).all() and not np.isnan(y[:8, :8]).any()


# ------------------------------------------------------------------------------------------------------------------------ rounding

def to_tf32(x):
    """To nearest, ties to even, 10 bits of fraction; what overflows is infinite, NaN stays NaN."""
    n = x.view(np.uint32).astype(np.uint64)
    r = ((n + 0xfff + (n >> 13 & 1)) & 0xffffe000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), r)


def tf32_cases(count):
    bits = np.random.default_rng(3).integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    # Ties both ways, just beside them, subnormals, the largest, infinities, NaN.
    edges = [0x3f801000, 0x3f803000, 0x3f801001, 0x3f800fff, 0xbf803000, 0x00001000, 0x00003000, 1, 0x80000001, 0x7f7fffff, 0xff7fefff, 0x7f800000,
             0xff800000, 0x7fffffff, 0x7f800001, 0, 0x80000000]
    bits[:len(edges)] = edges
    return bits.view(np.float32)


@tegula.jit
def gather_host(desc, index, out, N: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(out + i[:, None] * N + tl.arange(0, N)[None, :], desc.gather(tl.load(index + i), 0))


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("shape, block", SHAPES + [((20, 64), (16, 32))], ids=lambda s: "x".join(map(str, s)))
def test_rounding_to_tf32(dev, shape, block, padding):
    x, y = padded(shape, d("float32")), padded(block, d("float32"), 1)
    x.base.ravel()[:] = tf32_cases(x.base.size)
    a = TensorDescriptor.from_tensor(x, list(block), padding, round_f32_to_tf32=True)
    b = TensorDescriptor.from_tensor(y, list(block))
    zeros = (0,) * len(block)
    dev(copy_host, (1,), a, b, zeros, zeros)
    expected = to_tf32(window(x, zeros, block, np.nan if padding == "nan" else 0))
    assert_same(np.ascontiguousarray(y), expected)
    # The same descriptor without rounding is another kernel; stores keep all bits.
    a.round_f32_to_tf32, b.round_f32_to_tf32 = False, True
    dev(copy_host, (1,), a, b, zeros, zeros)
    assert_same(np.ascontiguousarray(y), window(x, zeros, block, np.nan if padding == "nan" else 0))


def test_rounding_of_gathered_rows(dev):
    x, out = tf32_cases(16 * 64).reshape(16, 64), np.zeros((8, 32), np.float32)
    rows = np.array([3, 0, 15, 7, 1, 2, 20, 4], np.int32)
    dev(gather_host, (1,), TensorDescriptor.from_tensor(x, [1, 32], round_f32_to_tf32=True), rows, out, 32)
    assert_same(out, to_tf32(np.concatenate([window(x, (int(r), 0), (1, 32)) for r in rows])))


@tegula.jit
def dot_host(a, b, c, K, BK: tl.constexpr, P: tl.constexpr):
    acc = tl.zeros([c.block_shape[0], c.block_shape[1]], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc, input_precision=P)
    c.store([0, 0], acc)


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_dot_of_rounded_tiles(dev, precision):
    m, n, k = 64, 64, 128
    rng = np.random.default_rng(5)
    a, b, c = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32), np.zeros((m, n), np.float32)
    ad, bd = (TensorDescriptor.from_tensor(x, [64, 32], round_f32_to_tf32=True) for x in (a, b))
    dev(dot_host, (1,), ad, bd, TensorDescriptor.from_tensor(c, [m, n]), k, 32, precision)
    expected = to_tf32(a).astype(np.float64) @ to_tf32(b).astype(np.float64).T
    # Truncation instead of rounding would be off by about 1e-2.
    np.testing.assert_allclose(c, expected, rtol=0, atol=5e-5)


# ------------------------------------------------------------------------------------------------------------------------- matmul

@tegula.jit
def matmul_device(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANS: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    if TRANS:
        bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    else:
        bd = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        x = ad.load([m, k])
        if TRANS:
            y = bd.load([n, k]).T
        else:
            y = bd.load([k, n])
        acc = tl.dot(x, y, acc)
    cd.store([m, n], acc.to(c.dtype.element_ty))


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (50, 72, 40), (33, 16, 8)])
def test_matmul(dev, m, n, k, trans):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    dev(matmul_device, (tegula.cdiv(m, 32), tegula.cdiv(n, 32)), a, np.ascontiguousarray(b.T) if trans else b, c, m, n, k, 32, 32, 32, trans)
    np.testing.assert_allclose(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)


@tegula.jit
def matmul_batched(ad, bd, cd, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    z, m, n = tl.program_id(0), tl.program_id(1) * BM, tl.program_id(2) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        x = ad.load([z, m, k]).reshape(BM, BK)  # rank-reducing
        y = bd.load([z, n, k]).reshape(BN, BK)
        acc = tl.dot(x, y.T, acc)
    cd.store([z, m, n], acc.reshape(1, BM, BN).to(cd.dtype))


def test_batched_matmul(dev):
    rng = np.random.default_rng(1)
    z, m, n, k = 3, 40, 48, 56
    a, b, c = rng.standard_normal((z, m, k)).astype(np.float16), rng.standard_normal((z, n, k)).astype(np.float16), np.zeros((z, m, n), np.float32)
    dev(matmul_batched, (z, 2, 2), TensorDescriptor.from_tensor(a, [1, 32, 16]), TensorDescriptor.from_tensor(b, [1, 32, 16]),
        TensorDescriptor.from_tensor(c, [1, 32, 32]), k, 32, 32, 16)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2), rtol=1e-2, atol=1e-2)


@tegula.jit
def tile_of(tile, grid_m, grid_n, GROUP: tl.constexpr):
    in_group = GROUP * grid_n
    first = tile // in_group * GROUP
    rows = min(grid_m - first, GROUP)
    return first + tile % in_group % rows, tile % in_group // rows


@tegula.jit
def matmul_persistent(a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HALVES: tl.constexpr,
                      FLAT: tl.constexpr):
    if isinstance(a, tl.tensor_descriptor):
        ad, bd, cd = a, b, c
    else:
        ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
        cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN // HALVES])
    grid_m, grid_n, steps = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.cdiv(K, BK)
    done = tl.program_id(0) - PROGRAMS
    for tile in tl.range(tl.program_id(0), grid_m * grid_n, PROGRAMS, flatten=FLAT):
        i, j = tile_of(tile, grid_m, grid_n, 2)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(steps):
            x, y = ad.load([i * BM, k * BK]), bd.load([j * BN, k * BK])
            acc = tl.dot(x, y.T, acc)
        done += PROGRAMS
        i, j = tile_of(done, grid_m, grid_n, 2)
        if HALVES == 2:
            parts = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(parts)
            cd.store([i * BM, j * BN], left.to(cd.dtype))
            cd.store([i * BM, j * BN + BN // 2], right.to(cd.dtype))
        else:
            cd.store([i * BM, j * BN], acc.to(cd.dtype))


@pytest.mark.parametrize("host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("halves, flat, block", [(1, False, (32, 64, 32)), (2, True, (32, 64, 32)), (1, True, (64, 32, 32)), (2, False, (64, 64, 16))])
def test_persistent_matmul(dev, host, halves, flat, block):
    rng = np.random.default_rng(2)
    m, n, k = 200, 136, 72
    a, b, c = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16), np.zeros((m, n), np.float16)
    args = (a, b, c)
    if host:
        blocks = [block[0], block[2]], [block[1], block[2]], [block[0], block[1] // halves]
        args = [TensorDescriptor.from_tensor(x, s) for x, s in zip(args, blocks)]
    dev(matmul_persistent, (3,), *args, m, n, k, 3, *block, halves, flat)
    np.testing.assert_allclose(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-2, atol=2e-2)


@tegula.jit
def in_order(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Loads what was stored before, stores over what was loaded before."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    for k in range(0, K, BK):
        ad.store([0, k], (ad.load([0, k]).to(tl.float32) * 2).to(a.dtype.element_ty))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    x = ad.load([0, 0])
    ad.store([0, 0], tl.zeros((BM, BK), a.dtype.element_ty))
    cd.store([0, 0], acc)
    bd.store([0, 0], x)


def test_program_order(dev):
    rng = np.random.default_rng(3)
    a, b, c = rng.integers(-3, 4, (64, 96)).astype(np.float16), rng.integers(-3, 4, (64, 96)).astype(np.float16), np.zeros((64, 64), np.float32)
    a0, b0 = a.astype(np.float32), b.astype(np.float32)
    dev(in_order, (1,), a, b, c, 64, 64, 96, 64, 64, 32)
    assert np.array_equal(c, (2 * a0) @ b0.T)
    assert np.array_equal(a.astype(np.float32), np.hstack([np.zeros((64, 32)), 2 * a0[:, 32:]]))
    assert np.array_equal(b.astype(np.float32), np.hstack([2 * a0[:, :32], b0[:, 32:]]))


# ---------------------------------------------------------------------------------------------------------------------- attention

@tegula.jit
def as_descriptor(desc_or_pointer, shape, strides, block_shape):
    if isinstance(desc_or_pointer, tl.tensor_descriptor):
        return desc_or_pointer
    else:
        return tl.make_tensor_descriptor(desc_or_pointer, shape, strides, block_shape)


@tegula.jit
def attention_span(acc, l, m, q, kd, vd, row, lo, hi, scale, base, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = row + tl.arange(0, BM)
    for start in tl.range(lo, hi, BN):
        k = kd.load([base + start, 0]).T
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] >= start + tl.arange(0, BN)[None, :], s, -1.0e6)
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(m - new)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(vd.dtype), vd.load([base + start, 0]), acc)
        l = l * alpha + tl.sum(p, 1)
        m = new
    return acc, l, m


@tegula.jit
def attention(scale, lse, H, qd, kd, vd, od, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1)
    rows_in_all = H * N
    qd = as_descriptor(qd, [rows_in_all, D], [D, 1], [BM, D])
    kd = as_descriptor(kd, [rows_in_all, D], [D, 1], [BN, D])
    vd = as_descriptor(vd, [rows_in_all, D], [D, 1], [BN, D])
    od = as_descriptor(od, [rows_in_all, D], [D, 1], [BM, D])
    base, row = head * N, tl.program_id(0) * BM
    m = tl.zeros([BM], tl.float32) - float("inf")
    l = tl.zeros([BM], tl.float32) + 1.0
    acc = tl.zeros([BM, D], tl.float32)
    q = qd.load([base + row, 0])
    if CAUSAL:
        acc, l, m = attention_span(acc, l, m, q, kd, vd, row, 0, row, scale, base, False, BM, BN)
        acc, l, m = attention_span(acc, l, m, q, kd, vd, row, row, row + BM, scale, base, True, BM, BN)
    else:
        acc, l, m = attention_span(acc, l, m, q, kd, vd, row, 0, N, scale, base, False, BM, BN)
    tl.store(lse + base + row + tl.arange(0, BM), m + tl.math.log2(l))
    od.store([base + row, 0], (acc / l[:, None]).to(od.dtype))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("host", [False, True], ids=["device", "host"])
def test_attention(dev, causal, host):
    rng = np.random.default_rng(3)
    h, n, dim, bm, bn = 2, 128, 32, 64, 32
    q, k, v = (rng.standard_normal((h * n, dim)).astype(np.float16) for _ in range(3))
    o, lse = np.zeros((h * n, dim), np.float16), np.zeros(h * n, np.float32)
    args = [q, k, v, o]
    if host:
        args = [TensorDescriptor.from_tensor(x, [b, dim]) for x, b in zip(args, (bm, bn, bn, bm))]
    dev(attention, (n // bm, h), 0.5 * 1.44269504, lse, h, *args, n, dim, bm, bn, causal)
    Q, K, V = (x.astype(np.float32).reshape(h, n, dim) for x in (q, k, v))
    s = Q @ K.swapaxes(1, 2) * 0.5
    if causal:
        s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ V
    # The running sum starts at 1 and is scaled by exp2(-inf) = 0 with the first block.
    np.testing.assert_allclose(o.astype(np.float32).reshape(h, n, dim), expected, rtol=2e-2, atol=1e-2)


# -------------------------------------------------------------------------------------------------------------------------- errors

@tegula.jit
def wrong(x, M, N, CASE: tl.constexpr):
    if CASE == "last stride":
        tl.make_tensor_descriptor(x, [M, N], [N, 2], [16, 16])
    elif CASE == "narrow":
        tl.make_tensor_descriptor(x, [M, N], [N, 1], [16, 2])
    elif CASE == "rank":
        tl.make_tensor_descriptor(x, [], [], [])
    else:
        desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [16, 16])
        if CASE == "offsets":
            desc.load([0])
        elif CASE == "wide":
            desc.load([M.to(tl.int64), 0])
        elif CASE == "shape":
            desc.store([0, 0], tl.zeros([16, 32], tl.float32))
        elif CASE == "method":
            desc.prefetch([0, 0])
        else:
            for i in range(M):
                desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [16, 32])


ERRORS = {"last stride": "Tensor descriptor last dim must be 1", "narrow": "Descriptor block shape must have at least 16 bytes",
          "rank": "1 to 5", "offsets": "expected 2 offsets", "wide": r"\.to\(tl\.int32\)", "shape": r"\[16, 16\]", "method": "prefetch",
          "carried": "desc"}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(dev, case):
    with pytest.raises(CompileError, match=ERRORS[case]) as e:
        dev(wrong, (1,), np.zeros((32, 32), np.float32), 32, 32, case)
    assert "test_descriptors.py:" in str(e.value)
