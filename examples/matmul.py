"""Matrix product: the naive kernel, and one with grouped order of tiles, helpers for offsets and masks, and a tail in
K."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def naive_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # Needs sizes that the tile divides.
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    cols = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        x = tl.load(a + rows * k + inner[None, :])
        y = tl.load(b + inner[:, None] * n + cols)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows * n + cols, acc.to(c.dtype.element_ty))


@tegula.jit
def span(index, SIZE: tl.constexpr):
    """The positions of tile number `index`."""
    return index * SIZE + tl.arange(0, SIZE)


@tegula.jit
def tile(rows, cols, row_stride, col_stride):
    """Offsets of the elements rows x cols."""
    return rows[:, None] * row_stride + cols[None, :] * col_stride


@tegula.jit
def inside(rows, cols, height, width):
    return (rows[:, None] < height) & (cols[None, :] < width)


@tegula.jit
def matmul_kernel(a, b, c, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr,
                  BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr):
    # Programs that run at the same time work on GROUP rows of tiles, which share what they read.
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    tile_m, tile_n = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, GROUP)
    rows, cols = span(tile_m, BM), span(tile_n, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for step in range(tl.cdiv(k, BK)):
        inner = span(step, BK)
        x = tl.load(a + tile(rows, inner, stride_am, stride_ak), mask=inside(rows, inner, m, k), other=0.0)
        y = tl.load(b + tile(inner, cols, stride_bk, stride_bn), mask=inside(inner, cols, k, n), other=0.0)
        acc = tl.dot(x, y, acc)
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
    tl.store(c + tile(rows, cols, stride_cm, stride_cn), acc.to(c.dtype.element_ty), mask=inside(rows, cols, m, n))


@tegula.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


def naive(a, b, tile=(64, 64, 32)):
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = tile
    assert m % bm == n % bn == k % bk == 0
    c = np.empty((m, n), a.dtype)
    naive_kernel[m // bm, n // bn](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk)
    return c


def matmul(a, b, tile=(64, 64, 32), group=8, activation=None):
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = tile
    c = np.empty((m, n), a.dtype)
    strides = [s // v.itemsize for v in (a, b, c) for s in v.strides]
    matmul_kernel[(tegula.cdiv(m, bm) * tegula.cdiv(n, bn),)](a, b, c, m, n, k, *strides, BM=bm, BN=bn, BK=bk,
                                                               GROUP=group, ACTIVATION=activation)
    return c


def main():
    rng = np.random.default_rng(0)
    for dtype, tolerance in ((np.float32, 1e-3), (np.float16, 5e-2)):
        a, b = rng.standard_normal((256, 192)).astype(dtype), rng.standard_normal((192, 320)).astype(dtype)
        error = np.abs(naive(a, b).astype(np.float64) - a.astype(np.float64) @ b.astype(np.float64)).max()
        assert error < tolerance, error
        print(f"naive, {np.dtype(dtype)}: largest error {error:.1e}")
        a, b = rng.standard_normal((500, 333)).astype(dtype), rng.standard_normal((333, 411)).astype(dtype)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        error = np.abs(matmul(a, b).astype(np.float64) - expected).max()
        assert error < tolerance, error
        relu = np.abs(matmul(a, b, activation=leaky_relu) - np.where(expected >= 0, expected, 0.01 * expected)).max()
        assert relu < tolerance, relu
        print(f"grouped, {np.dtype(dtype)}, sizes that no tile divides: largest error {max(error, relu):.1e}")


if __name__ == "__main__":
    main()
