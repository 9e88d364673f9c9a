#!/usr/bin/env python3
"""How near a search comes to a sweep: kernels whose constants nobody chose, tuned by `space="auto"` and by a search of ranges, beside all configurations of the ranges.

    tune_search.py [--device cpu|cuda] [--rows TEXT] [--budget-ms N] [--json FILE]

For each kernel: the time of what "auto" and the search chose, in times of the sweep's best (each timed anew, in turns: on cuda the median of 7, on cpu, with one thread, the least
of 15), seconds of tuning, and how many configurations were timed. The kernels are none of tune_kernels.py, with which the cost model was fitted. Nothing is taken from caches. Runs in the project after `make build`, and in the
unpacked archive of scripts/dist.py after ./install.sh. Needs numpy; on cuda torch.
"""
import argparse
import json
import os
import time
from pathlib import Path

os.environ["TEGULA_TUNE_DIR"] = ""

from tune_model import Numpy, Torch  # noqa: E402  (first: it finds the package)

import tegula  # noqa: E402
import tegula.language as tl  # noqa: E402
from tegula import cdiv, powers, testing  # noqa: E402


@tegula.jit
def linear_relu(x, w, bias, out, M, N, K, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    """relu(x @ w.T + bias); w is N x K."""
    pid = tl.program_id(0)
    width = GROUP * tl.cdiv(N, COLS)
    first = pid // width * GROUP
    size = min(tl.cdiv(M, ROWS) - first, GROUP)
    m = (first + pid % width % size) * ROWS + tl.arange(0, ROWS)
    n = pid % width // size * COLS + tl.arange(0, COLS)
    k = tl.arange(0, DEPTH)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, K, DEPTH):
        inside = start + k < K
        a = tl.load(x + m[:, None] * K + (start + k)[None, :], mask=(m < M)[:, None] & inside[None, :], other=0.0)
        b = tl.load(w + n[None, :] * K + (start + k)[:, None], mask=(n < N)[None, :] & inside[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    acc = tl.maximum(acc + tl.load(bias + n, mask=n < N)[None, :].to(tl.float32), 0.0)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(out.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@tegula.jit
def alibi_attention(q, k, v, out, slope, N, QUERIES: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr):
    """Heads x N x D, with a bias that grows with the distance."""
    base = tl.program_id(1).to(tl.int64) * N * D
    m = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    d = tl.arange(0, D)
    n = tl.arange(0, KEYS)
    tq = tl.load(q + base + m[:, None] * D + d[None, :])
    most = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    acc = tl.zeros((QUERIES, D), tl.float32)
    for start in range(0, N, KEYS):
        at = start + n
        s = tl.dot(tq, tl.load(k + base + at[None, :] * D + d[:, None])) * 0.125
        s -= slope * tl.abs((m[:, None] - at[None, :]).to(tl.float32))
        new = tl.maximum(most, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        scale = tl.exp(most - new)
        total = total * scale + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v + base + at[:, None] * D + d[None, :]), acc * scale[:, None])
        most = new
    tl.store(out + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty))


@tegula.jit
def cross_entropy(logits, targets, losses, rows, cols, ROWS: tl.constexpr, CHUNK: tl.constexpr):
    """-log softmax at the target, a chunk of columns at a time."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    most = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, cols, CHUNK):
        c = start + tl.arange(0, CHUNK)
        v = tl.load(logits + r[:, None].to(tl.int64) * cols + c[None, :], mask=(r < rows)[:, None] & (c < cols)[None, :], other=-float("inf")).to(tl.float32)
        new = tl.maximum(most, tl.max(v, axis=1))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(v - new[:, None]), axis=1)
        most = new
    t = tl.load(targets + r, mask=r < rows, other=0)
    hit = tl.load(logits + r.to(tl.int64) * cols + t, mask=r < rows, other=0.0).to(tl.float32)
    tl.store(losses + r, most + tl.log(total) - hit, mask=r < rows)


@tegula.jit
def rotate(x, cos, sin, out, rows, half, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Rotary embedding: the halves of each row of 2 * half columns are rotated."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = (r < rows)[:, None] & (c < half)[None, :]
    at = r[:, None] * (2 * half) + c[None, :]
    a = tl.load(x + at, mask=inside).to(tl.float32)
    b = tl.load(x + at + half, mask=inside).to(tl.float32)
    angle = r[:, None] * half + c[None, :]
    co = tl.load(cos + angle, mask=inside).to(tl.float32)
    si = tl.load(sin + angle, mask=inside).to(tl.float32)
    tl.store(out + at, (a * co - b * si).to(out.dtype.element_ty), mask=inside)
    tl.store(out + at + half, (b * co + a * si).to(out.dtype.element_ty), mask=inside)


def rows(memory, gpu):
    """(kernel, shape in words, arguments, given constants, ranges, constraint, grid)"""
    dtype = "float16" if gpu else "float32"
    options = {"num_warps": (4, 8), "num_stages": (2, 3, 4)} if gpu else {}
    M, N, K = (4096, 4096, 4096) if gpu else (384, 512, 320)
    yield (linear_relu, f"{M}x{N}x{K}", (memory.make(dtype, M, K), memory.make(dtype, N, K), memory.make(dtype, N), memory.make(dtype, M, N), M, N, K), {},
           {"ROWS": powers(32 if gpu else 16, 256), "COLS": powers(32 if gpu else 16, 256), "DEPTH": powers(32, 128), "GROUP": (1, 8) if gpu else (1, 4, 8), **options},
           lambda m: 1024 <= m["ROWS"] * m["COLS"] <= 32768, lambda m: (cdiv(M, m["ROWS"]) * cdiv(N, m["COLS"]),))
    heads, length = (32, 2048) if gpu else (2, 512)
    q, k, v, o = (memory.make(dtype, heads, length, 64) for _ in range(4))
    yield (alibi_attention, f"{heads}x{length}x64", (q, k, v, o, 0.01, length), {"D": 64},
           {"QUERIES": powers(16, 256), "KEYS": powers(16, 256), **({"num_warps": (2, 4, 8), "num_stages": (1, 2, 3, 4)} if gpu else {})}, None,
           lambda m: (length // m["QUERIES"], heads))
    count, cols = (8192, 32000) if gpu else (64, 8000)
    logits, losses = memory.make(dtype, count, cols), memory.make("float32", count)
    targets = memory.make("int8", count)
    targets = abs(targets.astype("int32")) if not gpu else targets.abs().int()
    yield (cross_entropy, f"{count}x{cols}", (logits, targets, losses, count, cols), {},
           {"ROWS": powers(1, 32), "CHUNK": powers(64, 8192), **({"num_warps": (1, 2, 4, 8, 16)} if gpu else {})}, lambda m: m["ROWS"] * m["CHUNK"] <= 32768,
           lambda m: (cdiv(count, m["ROWS"]),))
    count, half = (65536, 64) if gpu else (2048, 64)
    x, o = memory.make(dtype, count, 2 * half), memory.make(dtype, count, 2 * half)
    angles = [memory.make(dtype, count, half) for _ in range(2)]
    yield (rotate, f"{count}x{2 * half}", (x, *angles, o, count, half), {}, {"ROWS": powers(1, 1024), "COLS": powers(4, 64), **({"num_warps": (1, 2, 4, 8)} if gpu else {})},
           lambda m: 32 <= m["ROWS"] * m["COLS"] <= 16384, lambda m: (cdiv(count, m["ROWS"]), cdiv(half, m["COLS"])))


def tuned(kernel, args, given, grid, **how):
    """(the tuner behind its first launch, seconds)"""
    tuner = tegula.autotune(key=[], **how)(kernel)
    start = time.perf_counter()
    tuner[grid](*args, **given)
    return tuner, time.perf_counter() - start


def compare(kernel, args, given, grid, configs, gpu):
    """Seconds of each configuration, in turns."""
    calls = [lambda c=c: kernel[grid](*args, **given, **c.all_kwargs()) for c in configs]
    times = [[] for _ in configs]
    for _ in range(7 if gpu else 15):
        for call, own in zip(calls, times):
            own.append(testing.do_bench(call, warmup=2, rep=20, return_mode="median" if gpu else "min") / 1e3)
    return [sorted(own)[3] if gpu else min(own) for own in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", default="")
    parser.add_argument("--budget-ms", type=float)
    parser.add_argument("--json")
    options = parser.parse_args()
    gpu = options.device == "cuda"
    memory = Torch() if gpu else Numpy()
    report = []
    print(f"{'kernel':34} {'sweep':>6} {'best us':>9} {'s':>6}   {'auto x':>6} {'timed':>9} {'s':>5}   {'search x':>8} {'timed':>9} {'s':>5}")
    for kernel, shape, args, given, ranges, where, grid in rows(memory, gpu):
        name = f"{kernel.__name__} {shape}"
        if options.rows not in name:
            continue
        given = given if gpu else {**given, "num_threads": 1}  # others may use the machine
        budget = {} if options.budget_ms is None else {"budget_ms": options.budget_ms}
        # The order is that of falling help from what others compiled: kernels that were compiled once are not compiled again.
        runs = [("auto", tuned(kernel, args, given, grid, space="auto", **budget)), ("search", tuned(kernel, args, given, grid, space=ranges, where=where, search=True, **budget)),
                ("sweep", tuned(kernel, args, given, grid, space=ranges, where=where, search=False))]
        seconds = compare(kernel, args, given, grid, [tuner.best_config for _, (tuner, _) in runs], gpu)
        best = min(seconds)
        row = {"kernel": kernel.__name__, "shape": shape, "best_us": best * 1e6}
        for (what, (tuner, cost)), ns in zip(runs, seconds):
            timings = tuner.configs_timings.values()
            row[what] = {"ratio": ns / seconds[-1], "seconds": cost, "timed": sum(t[0] != float("inf") for t in timings), "of": len(timings), "config": str(tuner.best_config)}
        a, s, w = (row[k] for k in ("auto", "search", "sweep"))
        print(f"{name:34} {w['timed']:6} {seconds[-1] * 1e6:9.1f} {w['seconds']:6.1f}   {a['ratio']:6.2f} {a['timed']:4}/{a['of']:<4} {a['seconds']:5.1f}   "
              f"{s['ratio']:8.2f} {s['timed']:4}/{s['of']:<4} {s['seconds']:5.1f}", flush=True)
        report.append(row)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
