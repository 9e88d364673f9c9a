#!/usr/bin/env python3
"""How well the cost model ranks: kernels x shapes x configurations, measured and estimated.

    tune_model.py [--device cpu|cuda] [--seconds N] [--rows TEXT] [--threads N] [--json FILE]     measures, writes the points, prints the table
    tune_model.py --again FILE [--json FILE]                                                  estimates the points of FILE anew, without their device

For each kernel and shape: Spearman's correlation of estimates with times over the configurations, the loss of the configuration that the model takes for the best,
and of the best of its first five. With --again kernels are compiled for the target that they were measured on, so a machine without a GPU will do
(registers and spills are what the assembler of that machine says). Runs in the project after `make build`, and in the unpacked archive of scripts/dist.py after ./install.sh.
Needs numpy; on cuda torch.
"""
import argparse
import concurrent.futures
import functools
import itertools
import json
import os
import random
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for package in (HERE.parent / "python", HERE.parent / "build/python"):
    if list((package / "tegula").glob("_core*.so")):
        sys.path.insert(0, str(package))
        break
sys.path.insert(0, str(HERE))

import tune_kernels as kernels  # noqa: E402

HELD_OUT = ("rms_norm", "matvec", "matmul_silu")


def cdiv(a, b):
    return (a + b - 1) // b


def power_of_two(n):
    return 1 << max(n - 1, 0).bit_length()


def product(**choices):
    return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]


# ------------------------------------------------------------------------------------------------------------------------ memory

class Numpy:
    name = "cpu"

    def __init__(self):
        import numpy
        self.np = numpy

    def make(self, dtype, *shape):
        rng = self.np.random.default_rng(0)
        if dtype == "int8":
            return rng.integers(-128, 128, shape, dtype=self.np.int8)
        return rng.standard_normal(shape, dtype=self.np.float32).astype(dtype)


class Torch:
    name = "cuda"

    def __init__(self):
        import torch
        self.torch = torch

    def make(self, dtype, *shape):
        if dtype == "int8":
            return self.torch.randint(-128, 128, shape, device="cuda", dtype=self.torch.int8)
        return self.torch.randn(shape, device="cuda").to(getattr(self.torch, dtype))


class StandIn:
    """A tensor of which only type and size are known."""

    def __init__(self, dtype, nbytes):
        self.dtype, self.nbytes = dtype, nbytes

    def data_ptr(self):
        return 4096


def describe(x):
    """An argument as JSON."""
    if isinstance(x, (int, float, bool, str)):
        return x
    return {"dtype": str(x.dtype).removeprefix("torch."), "nbytes": int(x.nbytes)}


def revive(x):
    return StandIn(x["dtype"], x["nbytes"]) if isinstance(x, dict) else x


# ---------------------------------------------------------------------------------------------------------------------- the sweep
# A row: (kernel, shape in words, run-time arguments, constants in every configuration, configurations, grid of a configuration). Options of a launch
# (num_warps, num_stages) stand among the constants.

ELEMENTWISE = product(BLOCK=(128, 256, 512, 1024, 2048, 4096, 8192, 16384), num_warps=(1, 2, 4, 8, 16))


def tiles(gpu, cpu, m, big=False):
    """Tile sizes of a product; for GPUs with warps and stages."""
    if not gpu:
        return cpu
    rows = []
    for bm, bn in ((16, 64), (32, 64), (64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (128, 256), (256, 128)):
        if bm > max(64, m):
            continue
        for bk, warps, stages in ((32, 4, 3), (64, 4, 2), (64, 4, 3), (64, 4, 4), (64, 8, 3), (128, 8, 3)):
            if bm * bn >= 128 * 256 and warps == 4 or bm * bn <= 2048 and warps == 8 or stages * (bm + bn) * bk * 2 > 227 << 10:
                continue
            rows.append(dict(BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=stages))
    return rows


CPU_TILES = product(BM=(16, 32, 64, 128), BN=(16, 32, 64, 128, 256), BK=(16, 32, 64))


def rows_elementwise(memory, gpu):
    for n in ((1 << 16, 1 << 20, 1 << 26) if gpu else (1 << 12, 1 << 16, 1 << 22)):
        x, y, out = (memory.make("float32", n) for _ in range(3))
        yield kernels.add, f"{n}", (x, y, out, n), {}, ELEMENTWISE, lambda c, n=n: (cdiv(n, c["BLOCK"]),)
    for n in ((1 << 20, 1 << 24) if gpu else (1 << 14, 1 << 18)):
        x, out = (memory.make("float16", n) for _ in range(2))
        yield kernels.gelu_dropout, f"{n}", (x, out, n, 0.1, 42), {}, ELEMENTWISE, lambda c, n=n: (cdiv(n, c["BLOCK"]),)


def rows_by_row(memory, gpu):
    dtype = "float16" if gpu else "float32"
    for rows, cols in ((32768, 256), (16384, 1024), (4096, 8192)) if gpu else ((2048, 128), (512, 1000), (64, 8192)):
        x, out, w = memory.make(dtype, rows, cols), memory.make(dtype, rows, cols), memory.make(dtype, cols)
        block = power_of_two(cols)
        configs = [dict(ROWS=r, num_warps=w) for r in (1, 2, 4, 8, 16, 32) for w in (1, 2, 4, 8, 16) if r * block <= 32768]
        grid = lambda c, rows=rows: (cdiv(rows, c["ROWS"]),)
        yield kernels.softmax, f"{rows}x{cols}", (x, out, rows, cols), {"BLOCK": block}, configs, grid
        yield kernels.rms_norm, f"{rows}x{cols}", (x, w, out, rows, cols, 1e-5), {"BLOCK": block}, configs, grid
        configs = product(BLOCK=(128, 256, 512, 1024, 2048, 4096, 8192), num_warps=(1, 2, 4, 8, 16))
        yield kernels.layer_norm, f"{rows}x{cols}", (x, w, w, out, cols, 1e-5), {}, configs, lambda c, rows=rows: (rows,)


def rows_of_tiles(memory, gpu):
    for rows, cols in ((8192, 1024), (1024, 16384), (32768, 4096)) if gpu else ((1024, 256), (256, 2048), (2048, 2048)):
        x, out, sums = memory.make("float32", rows, cols), memory.make("float32", cols, rows), memory.make("float32", cols)
        configs = product(BR=(1, 4, 16, 64, 128), BC=(16, 32, 64, 128, 256), num_warps=(2, 4, 8))
        configs = [c for c in configs if 128 <= c["BR"] * c["BC"] <= 16384]
        yield kernels.column_sum, f"{rows}x{cols}", (x, sums, rows, cols), {}, configs, lambda c, cols=cols: (cdiv(cols, c["BC"]),)
        configs = product(BR=(8, 16, 32, 64, 128), BC=(8, 16, 32, 64, 128), num_warps=(2, 4, 8))
        configs = [c for c in configs if c["BR"] * c["BC"] >= 256]
        yield kernels.transpose, f"{rows}x{cols}", (x, out, rows, cols), {}, configs, lambda c, r=rows, n=cols: (cdiv(r, c["BR"]), cdiv(n, c["BC"]))
        configs = product(BM=(1, 2, 4, 8, 16, 64), BN=(64, 128, 256, 512, 1024), num_warps=(2, 4, 8))
        configs = [c for c in configs if 256 <= c["BM"] * c["BN"] <= 16384]
        v = memory.make("float32", cols)
        yield kernels.matvec, f"{rows}x{cols}", (x, v, memory.make("float32", rows), rows, cols), {}, configs, lambda c, r=rows: (cdiv(r, c["BM"]),)


def rows_of_dots(memory, gpu):
    half, brain = "float16", "bfloat16" if gpu else "float16"
    for M, N, K in ((4096, 4096, 4096), (512, 2048, 8192), (8192, 1024, 512)) if gpu else ((256, 256, 256), (64, 512, 512), (512, 384, 96)):
        a, b, c = memory.make(half, M, K), memory.make(half, K, N), memory.make(half, M, N)
        grid = lambda c, M=M, N=N: (cdiv(M, c["BM"]) * cdiv(N, c["BN"]),)
        configs = [dict(c, GROUP=g) for c in tiles(gpu, CPU_TILES, M) for g in (1, 8)]
        yield kernels.matmul, f"fp16 {M}x{N}x{K}", (a, b, c, M, N, K), {}, configs, grid
        a2, b2, c2 = memory.make(brain, M, K), memory.make(brain, N, K), memory.make(brain, M, N)
        plane = lambda c, M=M, N=N: (cdiv(N, c["BN"]), cdiv(M, c["BM"]))
        if gpu:
            yield kernels.matmul_descriptors, f"bf16 {M}x{N}x{K}", (a2, b2, c2, M, N, K), {}, tiles(gpu, CPU_TILES, M), plane
        yield kernels.matmul_silu, f"{M}x{N}x{K}", (a2, b2, c2, M, N, K), {}, tiles(gpu, CPU_TILES, M), plane
    for M, N, K in ((1024, 1024, 1024), (2048, 512, 512)) if gpu else ((256, 256, 256), (512, 512, 512), (96, 1024, 200)):
        a, b, c = memory.make("float32", M, K), memory.make("float32", K, N), memory.make("float32", M, N)
        grid = lambda c, M=M, N=N: (cdiv(M, c["BM"]) * cdiv(N, c["BN"]),)
        configs = CPU_TILES
        if gpu:
            configs = product(BM=(32, 64, 128), BN=(32, 64, 128), BK=(8, 16, 32), num_warps=(4, 8))
            configs = [c for c in configs if c["BM"] * c["BN"] <= c["num_warps"] * 2048 and c["BM"] * c["BN"] >= c["num_warps"] * 256]
        yield kernels.matmul, f"fp32 {M}x{N}x{K}", (a, b, c, M, N, K), {"GROUP": 4}, configs, grid
    for M, N, K in ((16, 8192, 4096), (2048, 4096, 4096)) if gpu else ((16, 512, 512), (128, 256, 256)):
        a, b, s, c = memory.make(half, M, K), memory.make("int8", K, N), memory.make("float32", N), memory.make(half, M, N)
        yield (kernels.matmul_int8, f"{M}x{N}x{K}", (a, b, s, c, M, N, K), {}, tiles(gpu, CPU_TILES, M),
               lambda c, M=M, N=N: (cdiv(M, c["BM"]), cdiv(N, c["BN"])))
    for M, N, K in ((64, 1024, 16384), (512, 512, 8192)) if gpu else ((32, 64, 4096), (64, 128, 1024)):
        a, b, c = memory.make(half, M, K), memory.make(half, K, N), memory.make("float32", M, N)
        base = product(BM=(32, 64, 128), BN=(64, 128), BK=(64,), num_warps=(4, 8)) if gpu else product(BM=(16, 32), BN=(16, 64), BK=(32, 128))
        configs = [dict(c, SPLIT=s) for c in base if c["BM"] <= max(M, 32) for s in (1, 2, 4, 8, 16, 32) if s * c["BK"] <= K]
        yield (kernels.matmul_split, f"{M}x{N}x{K}", (a, b, c, M, N, K), {}, configs,
               lambda c, M=M, N=N: (cdiv(M, c["BM"]), cdiv(N, c["BN"]), c["SPLIT"]))


def rows_attention(memory, gpu):
    for heads, n, D, causal in ((32, 2048, 64, False), (16, 4096, 128, True), (8, 1024, 128, False)) if gpu else ((2, 256, 64, False), (1, 512, 32, True)):
        q, k, v, out = (memory.make("float16", heads, n, D) for _ in range(4))
        configs = product(BM=(64, 128), BN=(32, 64, 128), num_warps=(4, 8), num_stages=(2, 3)) if gpu else product(BM=(16, 32, 64, 128), BN=(16, 32, 64, 128))
        grid = lambda c, n=n, h=heads: (cdiv(n, c["BM"]), h)
        words = f"{heads}x{n}x{D}{' causal' if causal else ''}"
        yield kernels.attention, words, (q, k, v, out, D**-0.5, n), {"D": D, "CAUSAL": causal}, configs, grid
        if gpu and not causal:
            yield kernels.attention_descriptors, words, (q, k, v, out, D**-0.5, n), {"D": D}, configs, grid


def all_rows(memory, gpu):
    for part in (rows_elementwise, rows_by_row, rows_of_tiles, rows_of_dots, rows_attention):
        yield from part(memory, gpu)


# ---------------------------------------------------------------------------------------------------------------------- measuring

OPTIONS = ("num_warps", "num_stages", "num_ctas")


def features(why):
    return {name: float(value) for name, value in re.findall(r"^(\w+) = (\S+)", why, re.M)}


def distinct(configs, gpu):
    """On CPUs warps and stages change nothing."""
    seen = {}
    for c in configs:
        key = c if gpu else {k: v for k, v in c.items() if k not in OPTIONS}
        seen.setdefault(json.dumps(key, sort_keys=True), key)
    return list(seen.values())


def ordered(fn, args, constants):
    """All parameters of the function, in order."""
    names = fn.param_names
    return tuple(args) + tuple(constants[n] for n in names[len(args):])


def compile_all(fn, args, base, configs, jobs, extra):
    def one(c):
        try:
            return fn.warmup(*args, grid=(1,), **base, **c, **extra)
        except Exception as e:
            return str(e).strip().splitlines()[0]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, configs))


def point_of(row, config, kernel, seconds, threads):
    fn, shape, args, base, _, grid = row
    info = kernel.info()
    constants = {**base, **config}
    given = ordered(fn, args, constants)
    ns, why = kernel.estimate(grid(constants), *given, num_threads=threads)
    return {"kernel": fn.__name__, "shape": shape, "config": config, "ns": seconds * 1e9, "estimate": ns, "target": info["target"],
            "signature": info["signature"], "grid": list(grid(constants)), "args": [describe(x) for x in given], "threads": threads,
            "use": {k: info[k] for k in ("n_regs", "n_spills", "shared", "blocks_per_core", "threads", "local_bytes")}, "features": features(why),
            "bound": why.splitlines()[0]}


def measure(fn, gpu):
    """Seconds: the median on a GPU, the least on a CPU, whose cores others use as well; with the L2 cache cold."""
    from tegula import testing
    if gpu:
        return testing.do_bench(fn, warmup=2, rep=12, return_mode="median") / 1e3
    return testing.do_bench(fn, warmup=2, rep=10, return_mode="min") / 1e3


def sweep(device, seconds, wanted, threads, jobs):
    gpu = device == "cuda"
    memory = Torch() if gpu else Numpy()
    extra = {} if gpu else {"num_threads": threads}
    points, skipped, begun = [], [], time.time()
    count = sum(1 for _ in all_rows(Count(), gpu)) if not wanted else None
    done = 0
    for row in all_rows(memory, gpu):
        fn, shape, args, base, configs, grid = row
        if wanted and not re.search(wanted, f"{fn.__name__} {shape}"):
            continue
        left = seconds - (time.time() - begun)
        done += 1
        if left <= 0:
            skipped.append(f"{fn.__name__} {shape}")
            continue
        # Each row has its share of the time for measuring; which configurations are left out is by chance, but always the same.
        share = left / max(count - done + 1, 1) if count else left
        configs = distinct(configs, gpu)
        random.Random(0).shuffle(configs)
        if gpu:
            configs = configs[:40]
        start = time.time()
        made = compile_all(fn, args, base, configs, jobs, extra)
        compiled = time.time() - start
        alive = [(c, k) for c, k in zip(configs, made) if not isinstance(k, str)]
        failed, best = len(made) - len(alive), {}
        # In turns, as a CPU whose cores others use as well is slow for seconds.
        for turn in range(1 if gpu else 4):
            for i, (config, kernel) in enumerate(alive):
                if i >= 10 and turn == 0 and time.time() - start - compiled > share / (1 if gpu else 4):
                    alive = alive[:i]
                    break
                constants = {**base, **config}
                try:
                    t = measure(functools.partial(fn[grid(constants)], *args, **constants, **extra), gpu)
                    best[i] = min(t, best.get(i, t))
                except Exception as e:
                    failed += 1
                    print(f"{fn.__name__} {shape} {config}: {str(e).strip().splitlines()[0][:200]}", flush=True)
        points += [point_of(row, *alive[i], t, threads) for i, t in best.items()]
        taken = len(best)
        print(f"{fn.__name__:22} {shape:22} {taken:3} of {len(configs)} configurations, {failed} refused, {compiled:.1f} s to compile, "
              f"{time.time() - start - compiled:.1f} s to measure", flush=True)
    if skipped:
        print("no time for: " + ", ".join(skipped))
    return points


class Count:
    """Memory for counting rows."""

    def make(self, dtype, *shape):
        return None


def again(points, jobs):
    """New estimates for points that were measured before."""
    def one(p):
        fn = getattr(kernels, p["kernel"])
        options = {k: v for k, v in p["config"].items() if k in OPTIONS}
        kernel = fn.compile_signature(p["signature"], {}, p["target"], options)
        ns, why = kernel.estimate(tuple(p["grid"]), *map(revive, p["args"]), num_threads=p["threads"])
        return {**p, "estimate": ns, "features": features(why), "bound": why.splitlines()[0]}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, points))


# ----------------------------------------------------------------------------------------------------------------------- the table

def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out, i = [0.0] * len(values), 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            out[order[k]] = (i + j) / 2
        i = j + 1
    return out


def spearman(a, b):
    x, y = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    top = sum((p - mean) * (q - mean) for p, q in zip(x, y))
    below = (sum((p - mean)**2 for p in x) * sum((q - mean)**2 for q in y))**0.5
    return top / below if below else 0.0


def table(points):
    groups = {}
    for p in points:
        groups.setdefault((p["kernel"], p["shape"]), []).append(p)
    print(f"{'kernel':22} {'shape':22} {'points':>6} {'worst/best':>10} {'Spearman':>8} {'first':>7} {'best of 5':>9}  best measured")
    rows = []
    for (kernel, shape), ps in groups.items():
        if len(ps) < 5:
            continue
        times = [p["ns"] for p in ps]
        rho = spearman([p["estimate"] for p in ps], times)
        top = sorted(ps, key=lambda p: p["estimate"])[:5]
        best = min(times)
        first, five = top[0]["ns"] / best, min(p["ns"] for p in top) / best
        rows.append((kernel, rho, five, max(times) / best))
        words = " ".join(f"{k}={v}" for k, v in min(ps, key=lambda p: p["ns"])["config"].items())
        print(f"{kernel:22} {shape:22} {len(ps):6} {max(times) / best:10.2f} {rho:8.2f} {first:7.2f} {five:9.2f}  {best / 1e3:.1f} us {words}")
    # Where all configurations take the same time there is nothing to rank.
    print(f"of {len(rows)} kernels x shapes, in {sum(r[3] >= 1.2 for r in rows)} the worst configuration takes at least 1.2 times as long as the best; "
          "correlations are of those")
    for name, part in (("all", rows), ("fitted", [r for r in rows if r[0] not in HELD_OUT]), ("held out", [r for r in rows if r[0] in HELD_OUT])):
        if part:
            rhos = sorted(r[1] for r in part if r[3] >= 1.2) or [0.0]
            print(f"{name}: Spearman mean {sum(rhos) / len(rhos):.2f}, median {rhos[len(rhos) // 2]:.2f}, >= 0.8 in {sum(r >= 0.8 for r in rhos)} of "
                  f"{len(rhos)}; best of 5 within 5 % in {sum(r[2] <= 1.05 for r in part)} ({sum(r[2] <= 1.05 for r in part) / len(part):.0%})")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--rows", default="", help="only kernels and shapes that this regular expression finds")
    p.add_argument("--threads", type=int, default=1, help="CPU threads of a launch")
    p.add_argument("--jobs", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 1)), help="compilations at a time")
    p.add_argument("--again", type=Path, help="points measured before")
    p.add_argument("--json", type=Path)
    a = p.parse_args()
    if a.again:
        stored = json.loads(a.again.read_text())
        points = again([q for q in stored["points"] if re.search(a.rows, f"{q['kernel']} {q['shape']}")], a.jobs)
        device = stored["device"]
    else:
        points = sweep(a.device, a.seconds, a.rows, a.threads, a.jobs)
        device = a.device
    table(points)
    if a.json:
        a.json.write_text(json.dumps({"device": device, "points": points}) + "\n")
        print(f"written: {a.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
