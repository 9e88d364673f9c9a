"""Tuning a matrix product: every combination of tile sizes is compiled on all cores and timed on the caller's arrays, the fastest is used from then on.

The times are kept: a second run of this program times nothing (docs/autotuning.md says where they live). main() draws the sweep, tune_matmul.png. """
import itertools

import numpy as np
import tegula
import tegula.language as tl

SWEEP = [tegula.Config({"BM": m, "BN": n, "BK": k}) for m, n, k in itertools.product((16, 32, 64), (16, 32, 64), (32, 64))]


@tegula.autotune(SWEEP, key=["m", "n", "k"])
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


def matmul(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = np.empty((m, n), np.float32)
    matmul_kernel[lambda meta: (tegula.cdiv(m, meta["BM"]), tegula.cdiv(n, meta["BN"]))](a, b, c, m, n, k)
    return c


def sweep(size):
    """[(configuration, GFLOP/s)], fastest first; those that could not run have 0."""
    rng = np.random.default_rng(size)
    a, b = rng.standard_normal((2, size, size), dtype=np.float32)
    c = matmul(a, b)
    assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-3
    rates = [(config, 2 * size**3 / times[0] * 1e-6) for config, times in matmul_kernel.configs_timings.items()]
    return sorted(rates, key=lambda r: -r[1])


def draw(rates, path):
    """False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot
    names = ["{BM} x {BN} x {BK}".format(**config.kwargs) for config, _ in rates]
    figure, axes = pyplot.subplots(figsize=(7, 5))
    axes.barh(names[::-1], [rate for _, rate in rates][::-1])
    axes.set_xlabel("GFLOP/s")
    axes.set_title("matmul: tile sizes")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return True


def main(folder=".", size=256):
    rates = sweep(size)
    for config, rate in rates[:3]:
        print(f"matmul {size}^3: {rate:8.1f} GFLOP/s with {config.kwargs}")
    assert matmul_kernel.best_config is rates[0][0]
    draw(rates, f"{folder}/tune_matmul.png")


if __name__ == "__main__":
    main()
