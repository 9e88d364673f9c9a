"""Autotuning and a report: the fastest configuration of a kernel for each width of the rows, and a plot of its bandwidth beside numpy's.

`autotune` measures its configurations at the first launch with a new value of `columns`; `heuristics` computes BLOCK, which must hold a whole row,
from the arguments. `perf_report` calls `bandwidth` for each point and draws rms_norm.png. """
import numpy as np
import tegula
import tegula.language as tl
import tegula.testing


@tegula.autotune(configs=[tegula.Config({"ROWS": rows}, num_warps=warps) for rows, warps in ((1, 4), (4, 4), (16, 8))], key=["columns"])
@tegula.heuristics({"BLOCK": lambda args: tegula.next_power_of_2(args["columns"])})
@tegula.jit
def rms_norm_kernel(x, weight, out, count, columns, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    at = row[:, None] * columns + col[None, :]
    inside = (row[:, None] < count) & (col[None, :] < columns)
    value = tl.load(x + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(value * value, 1) / columns + eps)
    tl.store(out + at, value * scale[:, None] * tl.load(weight + col, mask=col < columns, other=0.0)[None, :], mask=inside)


def rms_norm(x, weight, eps=1e-6):
    out = np.empty_like(x)
    rows, columns = x.shape
    rms_norm_kernel[lambda meta: (tegula.cdiv(rows, meta["ROWS"]),)](x, weight, out, rows, columns, eps)
    return out


def reference(x, weight, eps=1e-6):
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide * wide).mean(1, keepdims=True) + eps) * weight


def in_numpy(x, weight, eps=1e-6):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * weight


@tegula.testing.perf_report(
    tegula.testing.Benchmark(x_names=["columns"], x_vals=[64, 200, 512, 1024], x_log=True, line_arg="by", line_vals=["kernel", "numpy"],
                             line_names=["kernel", "numpy"], styles=[("blue", "-"), ("green", "--")], ylabel="GB/s", plot_name="rms_norm", args={"rows": 512}))
def bandwidth(rows, columns, by):
    """Median, least and most GB/s."""
    rng = np.random.default_rng(columns)
    x, weight = rng.standard_normal((rows, columns), dtype=np.float32), rng.standard_normal(columns, dtype=np.float32)
    f = rms_norm if by == "kernel" else in_numpy
    milliseconds = tegula.testing.do_bench(lambda: f(x, weight), warmup=5, rep=20, quantiles=[0.5, 0.8, 0.2])
    return [2 * x.nbytes / ms * 1e-6 for ms in milliseconds]


def main(folder="."):
    rng = np.random.default_rng(0)
    for columns in (64, 200, 512):
        x, weight = rng.standard_normal((100, columns), dtype=np.float32), rng.standard_normal(columns, dtype=np.float32)
        error = np.abs(rms_norm(x, weight) - reference(x, weight)).max()
        assert error < 1e-5, error
        print(f"rms_norm of {columns} columns: largest error {error:.1e}, best configuration {rms_norm_kernel.best_config}")
    bandwidth.run(print_data=True, save_path=folder)


if __name__ == "__main__":
    main()
