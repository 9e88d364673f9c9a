"""Tuning without writing a list: the library proposes tile sizes from what a kernel does, and a search of ranges compiles and times a few of many.

`autotune="auto"` leaves the constants that the launch does not give to the library; `explain()` says why it proposed what. With `space=` the ranges are the program's,
and `where` says which combinations make sense. `tegula tune auto_tune.py::scale_rows --auto --explain ...` does the same from the shell. """
import numpy as np
import tegula
import tegula.language as tl
from tegula import powers


@tegula.jit(autotune="auto")
def scale_rows(x, out, rows, cols, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Each row over its sum. WIDTH must hold a row, which the mask says; ROWS is free."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    at = r[:, None] * cols + c[None, :]
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + at, mask=inside, other=0.0)
    tl.store(out + at, v / tl.sum(v, axis=1)[:, None], mask=inside)


@tegula.autotune(space={"BM": powers(16, 128), "BN": powers(16, 128), "BK": powers(16, 64), "num_warps": (4, 8)},
                 where=lambda meta: 1024 <= meta["BM"] * meta["BN"] <= 8192, key=["m", "n", "k"], budget_ms=2000)
@tegula.jit
def matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    cols = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        x = tl.load(a + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0.0)
        y = tl.load(b + inner[:, None] * n + cols, mask=(inner[:, None] < k) & (cols < n), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows * n + cols, acc, mask=(rows < m) & (cols < n))


def main(size=200):
    rng = np.random.default_rng(0)
    x = rng.random((size, size), dtype=np.float32)
    out = np.empty_like(x)
    scale_rows[lambda meta: (tegula.cdiv(size, meta["ROWS"]),)](x, out, size, size)
    assert np.allclose(out.sum(axis=1), 1, atol=1e-5)
    print(scale_rows.explain())
    a, b = rng.standard_normal((2, size, size), dtype=np.float32)
    c = np.empty_like(a)
    matmul_kernel[lambda meta: (tegula.cdiv(size, meta["BM"]), tegula.cdiv(size, meta["BN"]))](a, b, c, size, size, size)
    assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-3
    print(matmul_kernel.explain())


if __name__ == "__main__":
    main()
