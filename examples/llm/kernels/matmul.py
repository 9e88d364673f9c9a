"""Matrix products with weights as they lie in safetensors files: w [N, K], row by row; out = x @ w.T with x [M, K]."""
import tegula
import tegula.language as tl


@tegula.jit(do_not_specialize=["M"])
def gemv(x, w, out, M, N, K, stride, BN: tl.constexpr, BK: tl.constexpr):
    """Few rows of x: the weights are read once, from memory, and this bounds the time. Grid: M, N / BN; the programs of one tile of w run one after the other and find it in the cache.

    Rows of `out` lie `stride` apart (a part of a wider row may be written)."""
    m = tl.program_id(0).to(tl.int64)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BN, BK), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + m * K + k + rk, mask=k + rk < K, other=0.0).to(tl.float32)
        b = tl.load(w + rn[:, None].to(tl.int64) * K + (k + rk)[None, :], mask=(rn[:, None] < N) & (k + rk < K)[None, :], other=0.0).to(tl.float32)
        acc += a[None, :] * b
    tl.store(out + m * stride + rn, tl.sum(acc, 1).to(out.dtype.element_ty), mask=rn < N)


@tegula.jit(do_not_specialize=["M"])
def matmul(x, w, out, M, N, K, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Many rows of x, by tiles. x and w have one type, or x is converted to w's."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rm[:, None].to(tl.int64) * K + (k + rk)[None, :], mask=(rm < M)[:, None] & (k + rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :].to(tl.int64) * K + (k + rk)[:, None], mask=(rn < N)[None, :] & (k + rk < K)[:, None], other=0.0)
        acc = tl.dot(a.to(b.dtype), b, acc, input_precision="ieee")
    tl.store(out + rm[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


@tegula.jit(do_not_specialize=["M"])
def fp8_matmul(x, w, x_scale, w_scale, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """fp8 x fp8 in fp32, scaled by the rows of x and of w (the columns of the result)."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rm[:, None].to(tl.int64) * K + (k + rk)[None, :], mask=(rm < M)[:, None] & (k + rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :].to(tl.int64) * K + (k + rk)[:, None], mask=(rn < N)[None, :] & (k + rk < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    sx = tl.load(x_scale + rm, mask=rm < M, other=0.0)
    sw = tl.load(w_scale + rn, mask=rn < N, other=0.0)
    tl.store(out + rm[:, None].to(tl.int64) * N + rn[None, :], (acc * sx[:, None] * sw[None, :]).to(out.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])
