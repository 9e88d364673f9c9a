"""§3.5 dot."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_close, assert_same, d, rng, values

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def dot_kernel(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr,
               PRECISION: tl.constexpr, TF32: tl.constexpr, OUT: tl.constexpr, RESULT: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    if ACC:
        r = tl.dot(x, y, tl.load(c + m[:, None] * N + n[None, :]), input_precision=PRECISION, allow_tf32=TF32,
                   out_dtype=OUT)
    else:
        r = tl.dot(x, y, input_precision=PRECISION, allow_tf32=TF32, out_dtype=OUT)
    tl.static_assert(r.dtype == RESULT)
    tl.static_assert(r.shape == [M, N])
    tl.store(out + m[:, None] * N + n[None, :], r)


def operands(t, m, n, k, *key):
    if t.kind == "i":
        return values(t, m * k, key + (0,), low=-128,
                      high=127).reshape(m, k), values(t, k * n, key + (1,), low=-128, high=127).reshape(k, n)
    g = rng("dot", t.name, m, n, k, key)
    return (g.standard_normal((m, k)).astype(np.float32).astype(t.np), g.standard_normal(
        (k, n)).astype(np.float32).astype(t.np))


def run(dev, a, b, result, c=None, precision=None, tf32=None, out_dtype=None):
    (m, k), n = a.shape, b.shape[1]
    out = np.zeros((m, n), d(result).np)
    c2 = np.zeros((m, n), d(result).np) if c is None else c
    dev(dot_kernel, (1,), a.reshape(-1), b.reshape(-1), c2.reshape(-1), out.reshape(-1), m, n, k, c is not None,
        precision, tf32, out_dtype and getattr(tl, out_dtype), getattr(tl, result))
    return out


def check(out, a, b, c, unit, extra=0.0):
    """|error| <= K * unit * (|a| @ |b| + |c|), the bound of any order of summation; `extra` is of the operands'
    rounding."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    exact = a64 @ b64 + (0 if c is None else c.astype(np.float64))
    scale = np.abs(a64) @ np.abs(b64) + (0 if c is None else np.abs(c.astype(np.float64)))
    bound = (a.shape[1] * unit + extra) * scale + unit * np.abs(exact)
    error = np.abs(out.astype(np.float64) - exact)
    assert (
        error
        <= bound).all(), f"error {error.max():.3g}, {float((error / np.maximum(bound, 1e-300)).max()):.2f} of the bound"


def fp8_unit(dev):
    # Tensor cores of sm_90 cut the sum of an fp8 instruction to 14 significant bits (docs/rationale/gpu.md).
    return 2.0**-13 if dev.name.startswith("cuda") else EPS32


EPS32, EPS16 = 2.0**-24, 2.0**-11
SIZES = [(16, 16, 16), (32, 64, 16), (64, 32, 128), (128, 128, 32), (16, 128, 64), (128, 16, 16), (1, 16, 16),
         (16, 1, 16), (16, 16, 1), (4, 8, 2), (2, 2, 256), (1, 256, 64), (2, 128, 64)]


@pytest.mark.parametrize("t", ["float32", "float16", "bfloat16", "float64", "int8", "float8e5", "float8e4nv"])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_sizes(dev, t, m, n, k):
    dt = d(t)
    a, b = operands(dt, m, n, k)
    result = {"int8": "int32", "float64": "float64"}.get(t, "float32")
    out = run(dev, a, b, result, precision="ieee" if t == "float32" else None)
    if t == "int8":
        assert_same(out, a.astype(np.int32) @ b.astype(np.int32))
    else:
        check(out, a, b, None, 2.0**-53 if t == "float64" else fp8_unit(dev) if t.startswith("float8") else EPS32)


@tegula.jit
def gram(x, out, M: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    x = tl.load(x + m[:, None] * K + tl.arange(0, K)[None, :])
    tl.store(out + m[:, None] * M + m[None, :], tl.dot(x, x.T))


@pytest.mark.parametrize("t", ["float16", "int8", "float32"])
@pytest.mark.parametrize("m, k", [(64, 16), (64, 32), (128, 32)])
@pytest.mark.parametrize("warps", [1, 2])
def test_many_products_of_a_warp(dev, t, m, k, warps):
    """Operands of many instructions, in vectors that come from one place one after the other."""
    x = np.random.default_rng(0).integers(-2, 3, (m, k)).astype(t)
    out = np.zeros((m, m), np.int32 if t == "int8" else np.float32)
    dev(gram, (1,), x, out, m, k, num_warps=warps)
    assert_same(out, x.astype(out.dtype) @ x.astype(out.dtype).T)


@pytest.mark.parametrize("t", ["float32", "float16", "bfloat16", "float64", "int8", "float8e5"])
@pytest.mark.parametrize("m, n, k", SIZES[:3])
def test_accumulator(dev, t, m, n, k):
    dt = d(t)
    a, b = operands(dt, m, n, k, "acc")
    result = {"int8": "int32", "float64": "float64"}.get(t, "float32")
    c = values(d(result), m * n, "c", low=-1000 if t == "int8" else None, high=1000).reshape(m, n)
    out = run(dev, a, b, result, c, "ieee" if t == "float32" else None)
    if t == "int8":
        assert_same(out, a.astype(np.int32) @ b.astype(np.int32) + c)
    else:
        check(out, a, b, c, 2.0**-53 if t == "float64" else fp8_unit(dev) if t.startswith("float8") else EPS32)


@pytest.mark.parametrize("t", ["float16", "float8e5"])
@pytest.mark.parametrize("with_acc", [False, True])
def test_float16_result(dev, t, with_acc):
    a, b = operands(d(t), 32, 32, 32, "f16")
    c = values(d("float16"), 1024, "c").reshape(32, 32) if with_acc else None
    check(run(dev, a, b, "float16", c, out_dtype="float16"), a, b, c, EPS16)
    if with_acc:
        # out_dtype None takes the accumulator's.
        check(run(dev, a, b, "float16", c), a, b, c, EPS16)


@pytest.mark.parametrize("a, b", [("float8e5", "float8e4nv"), ("float8e4nv", "float8e5")])
def test_mixed_fp8(dev, a, b):
    x, y = operands(d(a), 16, 32, 32)[0], operands(d(b), 16, 32, 32)[1]
    check(run(dev, x, y, "float32"), x, y, None, EPS32)


@pytest.mark.parametrize("precision, extra", [("ieee", 0.0), ("tf32", 2.0**-9), ("tf32x3", 2.0**-19),
                                              ("bf16x3", 2.0**-14), ("bf16x6", 2.0**-20), (None, 0.0)])
@pytest.mark.parametrize("m, n, k", SIZES[:2])
def test_precision(dev, precision, extra, m, n, k):
    a, b = operands(d("float32"), m, n, k, "precision")
    check(run(dev, a, b, "float32", precision=precision), a, b, None, EPS32,
          2.0**-9 if precision is None and dev.name != "cpu" else extra)


def test_tf32_truncates(dev):
    # One product a sum: the operands lose their 13 low bits, the product is exact.
    a, b = operands(d("float32"), 16, 16, 1, "tf32")
    cut = lambda v: (v.view(np.uint32) & np.uint32(0xffffe000)).view(np.float32)
    assert_same(run(dev, a, b, "float32", precision="tf32"), cut(a) @ cut(b))


@pytest.mark.parametrize("tf32", [True, False])
def test_allow_tf32(dev, tf32):
    a, b = operands(d("float32"), 32, 32, 32, "allow")
    check(run(dev, a, b, "float32", tf32=tf32), a, b, None, EPS32, 2.0**-9 if tf32 else 0)


@tegula.jit
def batched(a, b, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    x = tl.reshape(tl.load(a + tl.arange(0, B * M * K)), B, M, K)
    y = tl.reshape(tl.load(b + tl.arange(0, B * K * N)), B, K, N)
    r = tl.dot(x, y, input_precision="ieee" if x.dtype == tl.float32 else None)
    tl.static_assert(r.shape == [B, M, N])
    tl.store(out + tl.arange(0, B * M * N), tl.ravel(r))


@pytest.mark.parametrize("t", ["float32", "float16"])
@pytest.mark.parametrize("batch, m, n, k", [(1, 16, 16, 16), (4, 16, 32, 16), (8, 16, 16, 32)])
def test_batched(dev, t, batch, m, n, k):
    g = rng("batched", t, batch)
    a, b = (g.standard_normal(s).astype(d(t).np) for s in ((batch, m, k), (batch, k, n)))
    out = np.zeros((batch, m, n), np.float32)
    dev(batched, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), batch, m, n, k)
    for i in range(batch):
        check(out[i], a[i], b[i], None, EPS32)


@tegula.jit
def batched_4d(a, b, out):
    x = tl.reshape(tl.load(a + tl.arange(0, 1024)), 2, 2, 16, 16)
    y = tl.reshape(tl.load(b + tl.arange(0, 1024)), 2, 2, 16, 16)
    tl.store(out + tl.arange(0, 1024), tl.ravel(tl.dot(x, y, input_precision="ieee")))


def test_rank_4(dev):
    g = rng("rank 4")
    a, b = (g.standard_normal((2, 2, 16, 16)).astype(np.float32) for _ in range(2))
    out = np.zeros(1024, np.float32)
    dev(batched_4d, (1,), a.reshape(-1), b.reshape(-1), out)
    assert_close(out.reshape(2, 2, 16, 16), a @ b, 1e-4, 1e-4)


@tegula.jit
def transposed_operand(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + n[:, None] * K + k[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(x, tl.trans(y), input_precision="ieee"))


# Tiles as wide as the products of wgmma that are written as a loop: one and two swizzle spans along K, each operand contiguous along K or not.
@pytest.mark.parametrize("t, m, n, k", [("float16", 64, 128, 64), ("float16", 128, 256, 128), ("bfloat16", 64, 256, 256), ("float8e5", 64, 256, 256)])
@pytest.mark.parametrize("transposed", [False, True])
def test_wide(dev, t, m, n, k, transposed):
    a, b = operands(d(t), m, n, k, "wide")
    if not transposed:
        return check(run(dev, a, b, "float32"), a, b, None, fp8_unit(dev) if t == "float8e5" else EPS32)
    out = np.zeros((m, n), np.float32)
    dev(transposed_operand, (1,), a.reshape(-1), np.ascontiguousarray(b.T).reshape(-1), out.reshape(-1), m, n, k)
    check(out, a, b, None, fp8_unit(dev) if t == "float8e5" else EPS32)


@tegula.jit
def computed_operand(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.exp(tl.load(a + m[:, None] * K + k[None, :]) * 0.5) - 1.0
    y = tl.load(b + n[:, None] * K + k[None, :]).T * 2.0
    r = tl.dot(x, y, input_precision="ieee")
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(r.to(tl.float16), r.T.to(tl.float16)))


def test_operands_of_other_shapes(dev):
    g = rng("operands")
    a, b = g.standard_normal((32, 64)).astype(np.float32), g.standard_normal((16, 64)).astype(np.float32)
    out = np.zeros((32, 16), np.float32)
    dev(transposed_operand, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), 32, 16, 64)
    check(out, a, b.T, None, EPS32)
    b = g.standard_normal((32, 64)).astype(np.float32) * 0.1
    out = np.zeros((32, 32), np.float32)
    dev(computed_operand, (1,), a.reshape(-1), b.reshape(-1), out.reshape(-1), 32, 32, 64)
    r = ((np.exp(a * 0.5) - 1) @ (b.T * 2)).astype(np.float16).astype(np.float32)
    assert_close(out, r @ r.T, 0.02, 0.05)


@tegula.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(m[:, None] < M) & ((start + k)[None, :] < K),
                    other=0.0)
        y = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=((start + k)[:, None] < K) & (n[None, :] < N),
                    other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee" if x.dtype == tl.float32 else None)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("t", ["float32", "float16", "bfloat16", "float8e4nv"])
@pytest.mark.parametrize("m, n, k, bm, bn, bk", [(64, 64, 64, 32, 32, 32), (100, 70, 130, 32, 64, 32),
                                                 (1, 1, 1, 16, 16, 16), (33, 257, 65, 64, 128, 16),
                                                 (128, 128, 96, 64, 64, 32)])
def test_matmul(dev, t, m, n, k, bm, bn, bk):
    a, b = operands(d(t), m, n, k, "matmul")
    c = np.zeros((m, n), np.float32)
    dev(matmul, (tegula.cdiv(m, bm), tegula.cdiv(n, bn)), a.reshape(-1), b.reshape(-1), c.reshape(-1), m, n, k, bm, bn,
        bk)
    check(c, a, b, None, fp8_unit(dev) if t.startswith("float8") else EPS32)


@tegula.jit
def any_dot(a, b, out, SA: tl.constexpr, SB: tl.constexpr, PRECISION: tl.constexpr, TF32: tl.constexpr,
            OUT: tl.constexpr, ACC: tl.constexpr):
    x, y = tl.full(SA, 1, a.dtype.element_ty), tl.full(SB, 1, b.dtype.element_ty)
    if ACC is None:
        r = tl.dot(x, y, input_precision=PRECISION, allow_tf32=TF32, out_dtype=OUT)
    else:
        r = tl.dot(x, y, tl.zeros(ACC, tl.float32), input_precision=PRECISION, allow_tf32=TF32, out_dtype=OUT)
    tl.store(out, tl.max(r).to(tl.float32))


S = (16, 16)


@pytest.mark.parametrize("row", [
    ("float32", "float16", S, S, None, None, None, None, "same dtype"),
    ("uint8", "uint8", S, S, None, None, None, None, "int8"),
    ("int32", "int32", S, S, None, None, None, None, "."),
    ("float32", "float32", (16,), S, None, None, None, None, "."),
    ("float32", "float32", (16, 16), (32, 16), None, None, None, None, "."),
    ("float32", "float32", S, S, "fp32", None, None, None, "input_precision must be one of"),
    ("float32", "float32", S, S, "ieee", True, None, None, "."),
    ("float16", "float16", S, S, None, None, "bfloat16", None, "."),
    ("float32", "float32", S, S, None, None, None, (16, 32), "."),
    ("float16", "float16", S, S, None, None, "float16", S, "out_dtype|acc"),
    ("float32", "float32", (2, 16, 16), (4, 16, 16), None, None, None, None, "."),
], ids=str)
def test_errors(dev, row):
    a, b, sa, sb, precision, tf32, out, acc, text = row
    with pytest.raises(CompileError, match=text):
        dev(any_dot, (1,), np.zeros(1,
                                     d(a).np), np.zeros(1,
                                                        d(b).np), np.zeros(1, np.float32), sa, sb, precision, tf32, out
            and getattr(tl, out), acc)


@tegula.jit
def stored_first(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """The loop's loads, which start ahead of it, see what was stored before."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    for i in range(0, K, BK):
        x = tl.load(a + (i + k)[:, None] + m[None, :] * K)
        tl.store(a + (i + k)[:, None] + m[None, :] * K, x + x)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    tl.store(a + m[:, None] * K + k[None, :], tl.zeros((M, BK), tl.float16))
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("m", [16, 64])
def test_program_order(dev, m):
    r = np.random.default_rng(4)
    a, b, c = r.integers(-3, 4, (m, 96)).astype(np.float16), r.integers(-3, 4, (96, 32)).astype(np.float16), np.zeros((m, 32), np.float32)
    want = 2 * a.astype(np.float32) @ b.astype(np.float32)
    dev(stored_first, (1,), a, b, c, 96, m, 32, 32)
    assert np.array_equal(c, want) and not a[:, :32].any() and a[:, 32:].any()


@tegula.jit
def row_times_spread_column(x, out):
    right = tl.full([64, 256], 1, tl.int8) * tl.load(x + tl.arange(0, 64)[:, None]).to(tl.int8)
    tl.store(out + tl.arange(0, 256)[None, :], tl.dot(tl.full([1, 64], 2, tl.int8), right))


def test_both_operands_are_read_behind_one_barrier(dev):
    """The result is converted in memory that the first operand had, which is read as late as the second."""
    x, out = np.arange(64, dtype=np.int32), np.zeros(256, np.int32)
    dev(row_times_spread_column, (1,), x, out)
    assert_same(out, np.full(256, 2 * x.sum(), np.int32))


@tegula.jit
def half_in_loop(a, b, c, K, SOMETIMES: tl.constexpr, STAGES: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, T: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), T)
    for i in tl.range(0, K, BK, num_stages=STAGES):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        if SOMETIMES:
            if i % 32 == 0:
                acc = tl.dot(x, y, acc, out_dtype=T)
        else:
            acc = tl.dot(x, y, acc, out_dtype=T)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("sometimes", [False, True])
@pytest.mark.parametrize("t", ["float16", "float32"])
def test_dots_that_are_waited_for_in_a_loop(dev, t, sometimes, stages):
    """Tensor cores that read copies of the loop without staying in flight: what was copied is fenced all the same."""
    r = np.random.default_rng(5)
    a, b, c = r.integers(-3, 4, (64, 96)).astype(np.float16), r.integers(-3, 4, (96, 32)).astype(np.float16), np.zeros((64, 32), t)
    dev(half_in_loop, (1,), a, b, c, 96, sometimes, stages, 64, 32, 16, getattr(tl, t))
    read = [i for i in range(96) if not sometimes or i // 16 * 16 % 32 == 0]
    assert np.array_equal(c, a.astype(np.float32)[:, read] @ b.astype(np.float32)[read])


@tegula.jit
def narrow_weights(a, b, out, JOINED: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    z, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + (z[:, None, None] * M + m[None, :, None]) * K + k[None, None, :])
    if JOINED:
        p = tl.load(b + (z[:, None, None] * N + n[None, :, None]) * (K // 2) + tl.arange(0, K // 2)[None, None, :])
        w = tl.reshape(tl.join((p & 15).to(tl.int8) - 8, (p >> 4).to(tl.int8) - 8), (B, N, K))
    else:
        w = tl.load(b + (z[:, None, None] * N + n[None, :, None]) * K + k[None, None, :])
    w = tl.trans(w, 0, 2, 1).to(x.dtype)
    if B == 1:
        y = tl.dot(tl.reshape(x, (M, K)), tl.reshape(w, (K, N)))
        tl.store(out + m[:, None] * N + n[None, :], y)
    else:
        tl.store(out + (z[:, None, None] * M + m[None, :, None]) * N + n[None, None, :], tl.dot(x, w))


@pytest.mark.parametrize("b, m, n, k", [(1, 16, 32, 128), (1, 32, 64, 32), (1, 16, 8, 16), (2, 16, 16, 64)])
@pytest.mark.parametrize("t", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("joined", [False, True])
def test_weights_narrower_than_the_product(dev, joined, t, b, m, n, k):
    """Matrix instructions of a warp take such a contraction in the order of the weights' words (docs/rationale/gpu.md)."""
    r = np.random.default_rng(7)
    x, out = r.integers(-8, 9, (b, m, k)).astype(np.float32).astype(d(t).np), np.zeros((b, m, n), np.float32)
    w = r.integers(-8, 8, (b, n, k)).astype(np.int8)
    stored = ((w[..., 0::2] + 8) | (w[..., 1::2] + 8) << 4).astype(np.uint8) if joined else w
    dev(narrow_weights, (1,), x.reshape(-1), stored.reshape(-1), out.reshape(-1), joined, b, m, n, k)
    assert np.array_equal(out, x.astype(np.float32) @ w.astype(np.float32).swapaxes(1, 2))
